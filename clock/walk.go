package clock

import (
	"fmt"
	"time"
)

// Walk answers [Calendar.AddOpen] for many durations from one start. Ascending durations cost one pass over the calendar altogether, so a
// million due times come from one walk; a duration below the one before begins a new pass. It must not be shared or copied.
type Walk struct {
	cursor cursor
	start  time.Time
	limit  time.Time

	// The stretch [at, until) is open throughout or closed throughout, and spent is the open time before it.
	at, until time.Time
	open      bool
	spent     time.Duration
	err       error // of a host's recurrence, met at at
}

// AddOpen returns the first open instant, in UTC, such that the calendar is open for at least d since the walk's start. See [Calendar.AddOpen].
func (w *Walk) AddOpen(d time.Duration) (time.Time, error) {
	if d < 0 {
		return time.Time{}, negative(d)
	}
	if d < w.spent {
		w.rewind()
	}
	for w.at.Before(w.limit) && w.err == nil {
		length := w.until.Sub(w.at) // saturates only if until is past the limit
		if left := d - w.spent; w.open && left < length {
			if u := w.at.Add(left); u.Before(w.limit) {
				return u, nil
			}
			break
		}
		if !w.until.Before(w.limit) {
			break
		}
		if w.open {
			w.spent += length
		}
		w.at = w.until
		w.open, w.until, w.err = w.cursor.at(w.at)
	}
	if w.err != nil {
		return time.Time{}, w.err
	}
	return time.Time{}, fmt.Errorf("clock: %v of open time from %s on, searched until %s: %w", d, stamp(w.start), stamp(w.limit), ErrNeverOpen)
}

// rewind returns to the start.
func (w *Walk) rewind() {
	clear(w.cursor.states)
	w.at, w.until, w.open, w.spent, w.err = later(w.start, first()), never(), false, 0, nil
	if w.at.Before(w.limit) {
		w.open, w.until, w.err = w.cursor.at(w.at)
	}
}

func negative(d time.Duration) error {
	return &CalendarError{Path: "d", Code: CodeDurationInvalid, Hint: fmt.Sprintf("must not be negative, as %v is", d)}
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

// cover tells whether any rule covers t. If so, over is the last instant up to which a single one does; if not, next is the first at which
// one may.
func cover(rules []rule, states []state, t time.Time) (inside bool, over, next time.Time, err error) {
	over, next = t, never()
	for i, r := range rules {
		s := &states[i]
		if !t.Before(s.until) {
			if s.inside, s.until, err = r.at(t); err != nil {
				return false, t, t, err
			}
		}
		if s.inside {
			inside, over = true, later(over, s.until)
		} else {
			next = earlier(next, s.until)
		}
	}
	return inside, over, next, nil
}
