package clock

import (
	"fmt"
	"time"
)

// Walk answers [Calendar.AddOpen] for many durations from one start. Ascending durations cost one pass over the calendar altogether, so a
// million due times come from one walk; a duration below the one before begins a new pass. It must not be shared or copied.
type Walk struct {
	cursor cursor
	pass   pass
}

// AddOpen returns the first open instant, in UTC, such that the calendar is open for at least d since the walk's start. See [Calendar.AddOpen].
func (w *Walk) AddOpen(d time.Duration) (time.Time, error) { return w.pass.addOpen(&w.cursor, d) }

// pass is a search for open time from start on. It is apart from the cursor so that a single question can keep that on the stack.
type pass struct {
	start time.Time
	limit time.Time

	// The stretch [at, until) is open throughout or closed throughout; spent is the open time before it, and usable the open time in it
	// before the limit.
	at, until     time.Time
	spent, usable time.Duration
	err           error // of a host's recurrence, met at at
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
			what := "the first open instant"
			if d > 0 {
				what = fmt.Sprintf("the end of %v of open time", d)
			}
			return time.Time{}, fmt.Errorf("clock: %s from %s on, searched until %s: %w", what, stamp(p.start), stamp(p.limit), ErrNeverOpen)
		}
		p.spent += p.usable // at most d
		p.at = p.until
		p.look(k)
	}
}

// rewind returns to the start.
func (p *pass) rewind(k *cursor) {
	clear(k.states)
	p.at, p.until, p.spent, p.usable, p.err = later(p.start, first()), never(), 0, 0, nil
	if p.at.Before(p.limit) {
		p.look(k)
	}
}

// look finds out what begins at at.
func (p *pass) look(k *cursor) {
	var open bool
	open, p.until, p.err = k.at(p.at)
	if p.usable = 0; open {
		p.usable = earlier(p.until, p.limit).Sub(p.at)
	}
}

func negative(d time.Duration) error {
	return &FieldError{Path: "d", Code: CodeDurationInvalid, Value: d.String(), Hint: "must not be negative"}
}

// inline is the number of windows up to which a single question allocates nothing.
const inline = 8

// state is what one rule last said: it holds until until. The zero value says nothing.
type state struct {
	inside bool
	until  time.Time
}

// cursor evaluates all windows together at ascending instants. Each rule is asked again only where its last answer ends, so a walk costs
// one answer per boundary of a window and one look at each window per boundary of any.
type cursor struct {
	sets   []set
	states []state // of each set's deny rules, then of its allow rules
}

// at tells whether the calendar is open at t, and until when this certainly stays so: an instant after t. t is not before that of the call
// before, and lies in the years that calendars know.
func (k *cursor) at(t time.Time) (open bool, until time.Time, err error) {
	open, until = true, never()
	states := k.states
	for i := range k.sets {
		s := &k.sets[i]
		here, change, err := s.at(t, states)
		switch states = states[len(s.deny)+len(s.allow):]; {
		case err != nil:
			return false, t, err
		case here && open:
			until = earlier(until, change)
		case !here && open:
			open, until = false, change
		case !here:
			until = later(until, change) // closed as long as any of them is
		}
	}
	return open, until, nil
}

func (s *set) at(t time.Time, states []state) (open bool, until time.Time, err error) {
	denied, over, next, err := cover(s.deny, states, t)
	if denied || err != nil {
		return false, over, err
	}
	if len(s.allow) == 0 {
		return true, next, nil
	}
	allowed, over, opens, err := cover(s.allow, states[len(s.deny):], t)
	if allowed && err == nil {
		return true, earlier(over, next), nil
	}
	return false, opens, err
}

// cover tells whether any rule covers t. If so, one does until over; if not, none does until next.
func cover(rules []rule, states []state, t time.Time) (inside bool, over, next time.Time, err error) {
	over, next = t, never()
	known := never() // a host's recurrence is asked again where its answer ends, needed or not: its fault closes the calendar at once
	for i, r := range rules {
		s := &states[i]
		if !t.Before(s.until) {
			if s.inside, s.until, err = r.at(t); err != nil {
				return false, t, t, err
			}
		}
		if _, host := r.(hosted); host {
			known = earlier(known, s.until)
		}
		if s.inside {
			inside, over = true, later(over, s.until)
		} else {
			next = earlier(next, s.until)
		}
	}
	return inside, earlier(over, known), next, nil
}
