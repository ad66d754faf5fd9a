package clock

import (
	"fmt"
	"time"
)

// Walk answers [Calendar.AddOpen] for many durations from one start. Ascending durations cost one
// pass over the calendar altogether, so that one walk gives a million due times; a duration below
// the one before may begin a new pass. Only [Calendar.Walk] makes one: the zero value finds no open
// instant. A Walk is not safe for concurrent use and must not be copied.
type Walk struct {
	cursor cursor
	pass   pass
}

// AddOpen returns the first open instant, in UTC, such that the calendar is open for at least d
// since the walk's start. See [Calendar.AddOpen].
func (w *Walk) AddOpen(d time.Duration) (time.Time, error) { return w.pass.addOpen(&w.cursor, d) }

// pass is a search for open time from start on. It is separate from the cursor so that a single
// question can keep the cursor on the stack.
type pass struct {
	start time.Time
	limit time.Time

	// The stretch [at, until) is open throughout or closed throughout; spent is the open time
	// before it, and usable the open time in it before the limit.
	at, until     time.Time
	spent, usable time.Duration
	err           error // a fault of a host's recurrence, met at at

	shut    time.Time // if the stretch is closed: since when all are
	repeats repetition
}

func (p *pass) addOpen(k *cursor, d time.Duration) (time.Time, error) {
	if d < 0 {
		return time.Time{}, negative(d)
	}
	if d < p.spent {
		p.rewind(k)
	}
	for {
		if left := d - p.spent; left < p.usable {
			return p.at.Add(left), nil
		}
		if p.err != nil {
			return time.Time{}, p.err
		}
		if !p.until.Before(p.limit) {
			return time.Time{}, p.neverOpen(d)
		}
		p.spent += p.usable // at most d
		p.at = p.until
		p.look(k)
	}
}

func (p *pass) neverOpen(d time.Duration) error {
	what := "the first one"
	if d > 0 {
		what = fmt.Sprintf("the end of %v of open time", d)
	}
	return fmt.Errorf("%w: %s from %s on, searched until %s", ErrNeverOpen, what, stamp(p.start), stamp(p.limit))
}

// rewind returns to the start.
func (p *pass) rewind(k *cursor) {
	k.rewind()
	p.at, p.until, p.spent, p.usable, p.err = later(p.start, first()), never(), 0, 0, nil
	p.shut, p.repeats = p.at, p.repeats.calendar.repetition(p.at, p.limit, p.repeats.soon)
	if p.at.Before(p.limit) {
		p.look(k)
	}
}

// look finds the stretch that begins at at.
func (p *pass) look(k *cursor) {
	var open bool
	open, p.until, p.err = k.at(p.at)
	if p.usable = 0; open {
		p.usable, p.shut = earlier(p.until, p.limit).Sub(p.at), p.until
	} else if skip := p.repeats.skip(k, p.at); p.shut.Unix() < p.at.Unix()-p.repeats.period { // closed for a period: until there, too
		p.until = later(p.until, skip)
	}
	p.repeats.looked++
}

func negative(d time.Duration) error {
	return &FieldError{Path: "d", Code: CodeDurationInvalid, Value: d.String(), Hint: "must not be negative"}
}

// inline bounds the questions that allocate nothing: calendars of up to inline windows and a
// quarter as many sets.
const inline = 8

// room is where a single question keeps its cursor.
type room struct {
	groups [inline / 2]progress
	states [inline]state
}

// cursor evaluates all windows together at ascending instants.
type cursor struct {
	groups []progress // of each set: deny, then allow
	states []state    // of each group, in the same order
}

// progress holds what the rules of a group have answered so far. A rule is asked again only where
// its last answer ends, and only if no other rule covers the instant: what one rule covers is
// covered, whatever the others say. So a walk asks at most once per boundary of a window and asks
// few of many windows that say the same. A heap finds the rules to ask.
//
// A rule that is not asked may cover more than those that are, such as a freeze beside a window
// that recurs every minute. So of every n instants, where n is the number of rules, one asks all
// rules. On average that is one more question per instant.
type progress struct {
	*group
	first int  // the group's first state in the cursor
	eager bool // all rules are always asked: the calendar has a host's recurrences, and whether their faults are found must not depend on the turn

	over  time.Time // end of what is known to be covered
	known int       // states[:known] is a heap with the answer that ends first on top; the others have ended or were never asked, and the one that ended last comes first
	turn  int       // instants since all rules were asked
	steps int       // answers that were asked for or dropped so far
}

// state is the last answer of one rule, which holds until until.
type state struct {
	until time.Time
	rule  int // in the group
}

// cursor returns a cursor that has not been asked yet.
func (c Calendar) cursor(r *room) cursor {
	k := cursor{r.groups[:0], r.states[:]}
	if 2*len(c.sets) > len(r.groups) {
		k.groups = make([]progress, 0, 2*len(c.sets))
	}
	rules, eager := 0, false
	for i := range c.sets {
		for _, g := range [...]*group{&c.sets[i].deny, &c.sets[i].allow} {
			k.groups = append(k.groups, progress{group: g, first: rules})
			rules, eager = rules+len(g.rules), eager || g.hosted
		}
	}
	if rules > len(k.states) {
		k.states = make([]state, rules)
	}
	for i := range k.groups {
		k.groups[i].eager = eager
	}
	k.rewind()
	return k
}

// rewind forgets all answers, so that the next instant can be any.
func (k *cursor) rewind() {
	for i := range k.groups {
		p := &k.groups[i]
		p.over, p.known, p.turn = time.Time{}, 0, 0
		for rule := range p.rules {
			k.states[p.first+rule] = state{rule: rule}
		}
	}
}

// steps returns how much has been done so far.
func (k *cursor) steps() int {
	steps := 0
	for i := range k.groups {
		steps += k.groups[i].steps
	}
	return steps
}

// at reports whether the calendar is open at t, and until when this certainly stays so: an instant
// after t. t must not be before that of the last call, and must lie in the years that calendars
// cover.
func (k *cursor) at(t time.Time) (open bool, until time.Time, err error) {
	open, until = true, never()
	for i := 0; i < len(k.groups); i += 2 {
		here, change, err := k.setAt(&k.groups[i], &k.groups[i+1], t)
		switch {
		case err != nil:
			return false, t, err
		case here && open:
			until = earlier(until, change)
		case !here && open:
			open, until = false, change
		case !here:
			until = later(until, change) // closed as long as any set is
		}
	}
	return open, until, nil
}

// setAt is at for one set.
func (k *cursor) setAt(deny, allow *progress, t time.Time) (open bool, until time.Time, err error) {
	denied, until, err := deny.at(t, k.states[deny.first:])
	if denied || err != nil || len(allow.rules) == 0 {
		return !denied, until, err
	}
	allowed, change, err := allow.at(t, k.states[allow.first:])
	if allowed {
		return true, earlier(until, change), err
	}
	return false, change, err
}

// at reports whether any rule covers t, and until when this certainly stays so. The group's states
// are the first of those given.
func (p *progress) at(t time.Time, states []state) (inside bool, until time.Time, err error) {
	n := len(p.rules)
	all := p.eager || p.turn == 0
	if p.turn++; p.turn >= n {
		p.turn = 0
	}
	ask := func(s *state) error {
		p.steps++
		inside, until, err := p.rules[s.rule].at(t)
		if err != nil {
			return err
		}
		if s.until = until; inside {
			p.over = later(p.over, until)
		}
		return nil
	}
	for p.known > 0 && !t.Before(states[0].until) {
		if all || !t.Before(p.over) {
			if err := ask(&states[0]); err != nil {
				return false, t, err
			}
		} else {
			p.steps++
			p.known--
			states[0], states[p.known] = states[p.known], states[0]
		}
		sink(states[:p.known])
	}
	for p.known < n && (all || !t.Before(p.over)) {
		if err := ask(&states[p.known]); err != nil {
			return false, t, err
		}
		p.known++
		rise(states[:p.known])
	}
	if !t.Before(p.over) {
		if n == 0 {
			return false, never(), nil
		}
		return false, states[0].until, nil
	}
	until = p.over
	if p.hosted {
		// A host's recurrence is asked again where its answer ends, whether needed or not, because
		// its fault closes the calendar at once.
		for i := range states[:n] {
			if _, host := p.rules[states[i].rule].(hosted); host {
				until = earlier(until, states[i].until)
			}
		}
	}
	return true, until, nil
}

// sink puts the first state of a heap into its place, and rise the last.
func sink(heap []state) {
	for i, child := 0, 1; child < len(heap); i, child = child, 2*child+1 {
		if child+1 < len(heap) && heap[child+1].until.Before(heap[child].until) {
			child++
		}
		if !heap[child].until.Before(heap[i].until) {
			return
		}
		heap[i], heap[child] = heap[child], heap[i]
	}
}

func rise(heap []state) {
	for i := len(heap) - 1; i > 0 && heap[i].until.Before(heap[(i-1)/2].until); i = (i - 1) / 2 {
		heap[i], heap[(i-1)/2] = heap[(i-1)/2], heap[i]
	}
}
