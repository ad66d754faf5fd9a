package clock

import (
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/tranche-dev/tranche/internal/strictjson"
)

// Calendar tells when something may happen: at the instants that lie inside no deny window and, if
// there are allow windows, inside one of them. Windows of one calendar may have different zones,
// and their order means nothing.
//
// The zero value has no windows and is always open. A Calendar is immutable and safe for concurrent
// use; its answers depend only on itself and the question. It covers the years 1 to 9999; outside
// of them every calendar is closed, and no search looks there.
type Calendar struct {
	sets    []set // open where all of them are
	horizon time.Duration
}

// set holds the windows of one policy.
type set struct{ allow, deny group }

// group holds windows with the same effect: it covers what any of them covers.
type group struct {
	rules  []rule
	hosted bool // some are recurrences of the host
}

// DefaultHorizon is five years, leap days included.
const DefaultHorizon = (5*365 + 2) * 24 * time.Hour

// NewCalendar compiles windows. It calls load for each time zone that they name; pass
// [time.LoadLocation] to read the zone data of the machine. load may be nil if UTC is the only
// zone. Zones are loaded only here, so a calendar keeps its answers when the data change.
// NewCalendar retains nothing of the windows but their Recurrences.
//
// The error joins every fault of every window, each a *[FieldError] whose path begins with
// windows[i].
func NewCalendar(windows []Window, load func(name string) (*time.Location, error)) (Calendar, error) {
	zones := zones{load: load, known: map[Zone]*zone{}}
	var all set
	var list []error
	for i, w := range windows {
		f := faults{path: fmt.Sprintf("windows[%d]", i)}
		r, own := w.compile(&zones, &f), &all.deny
		if w.allows() {
			own = &all.allow
		}
		own.rules, own.hosted = append(own.rules, r), own.hosted || w.Recurrence != nil
		list = append(list, f.list...)
	}
	if len(list) > 0 {
		return Calendar{}, strictjson.Join(list...)
	}
	return Calendar{sets: []set{all}}, nil
}

// compile returns the rule of a window, which is of no use after a fault.
func (w Window) compile(zones *zones, f *faults) rule {
	s := w.schedule(f)
	z, err := zones.zone(w.Timezone)
	if err != nil && w.Timezone.refused() == "" { // schedule has reported that already
		f.add("timezone", CodeTimezoneUnknown, w.Timezone, "%v", err)
	}
	switch {
	case len(f.list) > 0:
		return nil
	case s.readings:
		return s.repeated(z, f)
	case w.Recurrence != nil:
		return hosted{path: strictjson.Path(f.path, "recurrence"), recurrence: w.Recurrence, location: z.location, length: time.Duration(s.length) * time.Second}
	}
	return once{w.From.UTC(), w.Until.UTC()}
}

// zones loads each zone once.
type zones struct {
	load  func(name string) (*time.Location, error)
	known map[Zone]*zone
}

func (l *zones) zone(name Zone) (*zone, error) {
	if z := l.known[name]; z != nil {
		return z, nil
	}
	location := time.UTC
	if name != "" && name != "UTC" {
		if l.load == nil {
			return nil, errors.New("only UTC is known here: pass time.LoadLocation, or whatever else loads zones")
		}
		var err error
		if location, err = l.load(string(name)); err == nil && location == nil {
			err = errors.New("it was not found")
		}
		if err != nil {
			return nil, fmt.Errorf("must name a zone of the IANA database that can be loaded here, such as Europe/Berlin: %w", err)
		}
	}
	z, err := newZone(location)
	if err == nil {
		l.known[name] = z
	}
	return z, err
}

// Intersect returns a calendar that is open where all the given calendars are, as when several
// policies apply. Its horizon is the longest of theirs. Without arguments the calendar is always
// open. A search asks each of the calendars wherever one of them may change, so its cost grows with
// their number times the number of their windows: intersect tens of them, not thousands.
func Intersect(calendars ...Calendar) Calendar {
	var c Calendar
	for _, one := range calendars {
		c.sets = append(c.sets, one.sets...)
		c.horizon = max(c.horizon, one.searches())
	}
	return c
}

// WithHorizon returns the calendar with another limit to its searches: what a search from t finds
// lies before t plus horizon. Only the end of a stretch that [Calendar.NextFit] finds may lie
// beyond it. 0 or less means [DefaultHorizon].
func (c Calendar) WithHorizon(horizon time.Duration) Calendar {
	c.horizon = horizon
	return c
}

func (c Calendar) searches() time.Duration {
	if c.horizon > 0 {
		return c.horizon
	}
	return DefaultHorizon
}

// limit returns the end of a search that begins at t, in UTC like all instants inside this package:
// [time.Time.UTC] also drops the reading of a monotonic clock.
func (c Calendar) limit(t time.Time) time.Time { return earlier(t.UTC().Add(c.searches()), never()) }

func (c Calendar) pass(t time.Time, soon int) pass {
	return pass{start: t.UTC(), limit: c.limit(t), repeats: repetition{calendar: c, soon: soon}}
}

// Open reports whether the calendar is open at t. It is open at exactly the start of an allow
// window and closed at exactly its end; for a deny window it is the other way round. Where a host's
// recurrence is at fault the calendar is closed.
func (c Calendar) Open(t time.Time) bool {
	if !inRange(t) {
		return false
	}
	for i := range c.sets {
		if open, err := c.sets[i].open(t); err != nil || !open {
			return false
		}
	}
	return true
}

func (s *set) open(t time.Time) (bool, error) {
	for _, r := range s.deny.rules {
		if inside, err := r.covers(t); err != nil || inside {
			return false, err
		}
	}
	open := len(s.allow.rules) == 0
	for _, r := range s.allow.rules {
		if _, host := r.(hosted); open && !host {
			continue
		}
		// A host's recurrence is asked even if the calendar is open already: whether its fault
		// closes the calendar must not depend on the order of the windows.
		inside, err := r.covers(t)
		if err != nil {
			return false, err
		}
		open = open || inside
	}
	return open, nil
}

// NextOpen returns t if the calendar is open then, else the first open instant after it, in UTC.
// The error is [ErrNeverOpen] if there is none within the horizon, or a *[FieldError] if a host's
// recurrence is at fault.
func (c Calendar) NextOpen(t time.Time) (time.Time, error) {
	u, _, err := c.fit(t, 0, patience)
	if errors.Is(err, ErrNeverFits) {
		p := c.pass(t, patience)
		return time.Time{}, p.neverOpen(0)
	}
	return u, err
}

// NextClose returns t if the calendar is closed then, else the first closed instant after it, in
// UTC; the zero time if there is none within the horizon. Where a host's recurrence is at fault the
// calendar is closed.
func (c Calendar) NextClose(t time.Time) time.Time {
	t = t.UTC()
	if !inRange(t) {
		return t
	}
	var r room
	k := c.cursor(&r)
	for limit := c.limit(t); t.Before(limit); {
		open, until, err := k.at(t)
		if !open || err != nil {
			return t
		}
		t = until
	}
	return time.Time{}
}

// AddOpen returns the first open instant u, not before t and in UTC, such that the calendar is open
// for at least d within [t, u). With d = 0 it is [Calendar.NextOpen]. If d runs out exactly at a
// closing, u is the next opening. The error is [ErrNeverOpen] if there is no such instant within
// the horizon, or a *[FieldError] if d is negative or a host's recurrence is at fault. For many
// durations from one start use [Calendar.Walk].
func (c Calendar) AddOpen(t time.Time, d time.Duration) (time.Time, error) {
	var r room
	k := c.cursor(&r)
	p := c.pass(t, patience)
	p.rewind(&k)
	return p.addOpen(&k, d)
}

// OpenBetween returns how long the calendar is open within [a, b); 0 if b is not after a. It looks
// at all of that range, whatever the horizon. The error is a *[FieldError]: the sum exceeds a
// [time.Duration], 292 years, or a host's recurrence is at fault.
func (c Calendar) OpenBetween(a, b time.Time) (time.Duration, error) {
	var sum time.Duration
	overflow := false
	err := c.intervals(a, b, func(start, end time.Time) bool {
		length := end.Sub(start)
		sum += length
		overflow = sum < 0 || !start.Add(length).Equal(end) // the second: Sub has saturated
		return !overflow
	})
	if overflow {
		err = &FieldError{Path: "b", Code: CodeDurationInvalid, Value: stamp(b), Hint: "open for more than 292 years since a: ask about a shorter range"}
	}
	if err != nil {
		return 0, err
	}
	return sum, nil
}

// NextFit returns the first instant u, not before t and in UTC, such that the calendar is open
// throughout [u, u+d). With d = 0 it is the first open instant. The error is [ErrNeverFits] if no
// such stretch begins within the horizon, or a *[FieldError] if d is negative or a host's
// recurrence is at fault.
func (c Calendar) NextFit(t time.Time, d time.Duration) (time.Time, error) {
	if d < 0 {
		return time.Time{}, negative(d)
	}
	u, _, err := c.fit(t, d, patience)
	return u, err
}

// fit is NextFit, which looks at so many stretches before it asks what repeats itself. It also
// returns how many it has looked at in all.
func (c Calendar) fit(t time.Time, d time.Duration, soon int) (u time.Time, looked int, err error) {
	var r room
	k := c.cursor(&r)
	at, limit := later(t.UTC(), first()), c.limit(t)
	repeats := c.repetition(at, limit, soon)
	u = at
	for running := false; at.Before(never()) && (running || at.Before(limit)); repeats.looked++ {
		open, until, err := k.at(at)
		if err != nil {
			return time.Time{}, repeats.looked, err
		}
		if open && !running {
			u = at
		}
		if running = open; open && until.Sub(u) >= d {
			return u, repeats.looked, nil
		}
		if !open {
			until = later(until, repeats.skip(&k, at))
		}
		at = until
	}
	return time.Time{}, repeats.looked, fmt.Errorf("%w: %v from %s on, searched until %s", ErrNeverFits, d, stamp(t.UTC()), stamp(limit))
}

// Intervals returns the open intervals [start, end) within [from, to), in order and in UTC. They
// are disjoint and maximal: touching ones are joined. It looks at all of that range, whatever the
// horizon, as far as the loop goes. The sequence ends early where a host's recurrence is at fault;
// [Calendar.OpenBetween] returns that error.
func (c Calendar) Intervals(from, to time.Time) iter.Seq2[time.Time, time.Time] {
	return func(yield func(start, end time.Time) bool) {
		_ = c.intervals(from, to, yield) // the sequence cannot return the error
	}
}

func (c Calendar) intervals(from, to time.Time, yield func(start, end time.Time) bool) error {
	var r room
	k := c.cursor(&r)
	at, to := later(from.UTC(), first()), earlier(to.UTC(), never())
	var start time.Time
	running := false
	for at.Before(to) {
		open, until, err := k.at(at)
		if !open && running && !yield(start, at) || err != nil { // where a recurrence is at fault, nothing is open
			return err
		}
		if open && !running {
			start = at
		}
		running, at = open, until
	}
	if running {
		yield(start, to)
	}
	return nil
}

// Walk returns a [Walk] that begins at t. It answers what [Calendar.AddOpen] answers for t, for
// many durations.
func (c Calendar) Walk(t time.Time) *Walk {
	w := &Walk{cursor: c.cursor(new(room)), pass: c.pass(t, patience)}
	w.pass.rewind(&w.cursor)
	return w
}
