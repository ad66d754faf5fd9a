package clock

import "time"

// eager is a cursor as simple as can be: it asks every rule where its last answer ends, and looks
// at every rule wherever any answer ends.
type eager struct {
	sets    []set
	answers []answer // of each set's deny rules, then of its allow rules
}

type answer struct {
	inside bool
	until  time.Time
}

func (k *eager) at(t time.Time) (open bool, until time.Time, err error) {
	open, until = true, never()
	answers := k.answers
	for _, s := range k.sets {
		deny, allow := len(s.deny.rules), len(s.allow.rules)
		here, change, err := s.eagerAt(t, answers[:deny], answers[deny:deny+allow])
		switch answers = answers[deny+allow:]; {
		case err != nil:
			return false, t, err
		case here && open:
			until = earlier(until, change)
		case !here && open:
			open, until = false, change
		case !here:
			until = later(until, change)
		}
	}
	return open, until, nil
}

func (s set) eagerAt(t time.Time, deny, allow []answer) (open bool, until time.Time, err error) {
	denied, over, next, err := eagerCover(s.deny.rules, deny, t)
	if denied || err != nil {
		return false, over, err
	}
	if len(allow) == 0 {
		return true, next, nil
	}
	allowed, over, opens, err := eagerCover(s.allow.rules, allow, t)
	if allowed && err == nil {
		return true, earlier(over, next), nil
	}
	return false, opens, err
}

func eagerCover(rules []rule, answers []answer, t time.Time) (inside bool, over, next time.Time, err error) {
	over, next = t, never()
	known := never() // the next question to a host's recurrence
	for i, r := range rules {
		a := &answers[i]
		if !t.Before(a.until) {
			if a.inside, a.until, err = r.at(t); err != nil {
				return false, t, t, err
			}
		}
		if _, host := r.(hosted); host {
			known = earlier(known, a.until)
		}
		if a.inside {
			inside, over = true, later(over, a.until)
		} else {
			next = earlier(next, a.until)
		}
	}
	return inside, earlier(over, known), next, nil
}

// Stretch is [From, Until), open throughout or closed throughout.
type Stretch struct {
	From, Until time.Time
	Open        bool
}

// Stretches cuts [from, to) where the calendar changes, as a cursor finds it; where a host's
// recurrence is at fault they end.
func Stretches(c Calendar, from, to time.Time) ([]Stretch, error) {
	k := c.cursor(new(room))
	return stretches(k.at, from, to)
}

// EagerStretches is Stretches by the simple cursor.
func EagerStretches(c Calendar, from, to time.Time) ([]Stretch, error) {
	rules := 0
	for _, s := range c.sets {
		rules += len(s.deny.rules) + len(s.allow.rules)
	}
	k := eager{c.sets, make([]answer, rules)}
	return stretches(k.at, from, to)
}

func stretches(look func(time.Time) (bool, time.Time, error), from, to time.Time) (list []Stretch, err error) {
	for at := from; at.Before(to); {
		open, until, err := look(at)
		if err != nil {
			return list, err
		}
		if n := len(list); n > 0 && list[n-1].Open == open {
			list[n-1].Until = until
		} else {
			list = append(list, Stretch{at, until, open})
		}
		at = until
	}
	if n := len(list); n > 0 {
		list[n-1].Until = earlier(list[n-1].Until, to) // how far beyond it a cursor knows is its own affair
	}
	return list, nil
}

// Counted returns a calendar that counts the questions to its rules.
func Counted(c Calendar, asked *int) Calendar {
	count := func(g group) group {
		g.rules = append([]rule(nil), g.rules...)
		for i := range g.rules {
			g.rules[i] = counted{g.rules[i], asked}
		}
		return g
	}
	var sets []set
	for _, s := range c.sets {
		sets = append(sets, set{allow: count(s.allow), deny: count(s.deny)})
	}
	c.sets = sets
	return c
}

type counted struct {
	rule
	asked *int
}

func (c counted) at(t time.Time) (bool, time.Time, error) {
	*c.asked++
	return c.rule.at(t)
}
