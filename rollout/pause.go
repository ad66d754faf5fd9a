package rollout

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/clock"
)

// pausing holds the freezes that stop curves.
type pausing struct {
	pausesBegun map[TargetID][]*Freeze // by what they name, which is no resource: those that have begun, whether or not they are over
	pauses      map[TargetID]*pause    // what those of one key make together, as far as it was asked for
	nextPauses  map[TargetID]time.Time // by what they name: when the first of those begins that have yet to
}

// pause is the time that does not count for a curve. A nil pause is none.
type pause struct {
	calendar clock.Calendar // closed while a freeze is active
	endless  []Condition    // the freezes that last until somebody lifts them
	ending   []Condition    // the others
}

// addPause collects a freeze that stops curves.
func (w *work) addPause(z *Freeze) {
	if w.pausesBegun == nil {
		w.pausesBegun, w.pauses, w.nextPauses = map[TargetID][]*Freeze{}, map[TargetID]*pause{}, map[TargetID]time.Time{}
	}
	names := TargetID{Environment: z.Environment, Deployment: z.Deployment}
	if !w.now.Before(z.CreatedAt) {
		w.pausesBegun[names] = append(w.pausesBegun[names], z)
	} else if first, known := w.nextPauses[names]; !known || z.CreatedAt.Before(first) {
		w.nextPauses[names] = z.CreatedAt
	}
}

// pauseIn returns the pause of a curve in an environment. One of several deployments stands still
// while that of any of them would. There may be as many curves as deployments in environments, and
// many freezes of all of them: these make one calendar for all curves.
func (w *work) pauseIn(environment string, deployments ...string) *pause {
	if w.pausesBegun == nil {
		return nil
	}
	var parts []*pause
	for _, e := range [...]string{"", environment} {
		for _, d := range append([]string{""}, deployments...) {
			if part := w.pauseBy(TargetID{Environment: e, Deployment: d}); part != nil {
				parts = append(parts, part)
			}
		}
	}
	if len(parts) == 0 {
		return nil
	}
	own, calendars := &pause{}, make([]clock.Calendar, len(parts))
	for k, part := range parts {
		calendars[k], own.endless, own.ending = part.calendar, append(own.endless, part.endless...), append(own.ending, part.ending...)
	}
	own.calendar = clock.Intersect(calendars...)
	byFreeze := func(a, b Condition) int { return strings.Compare(a.Freeze, b.Freeze) }
	slices.SortFunc(own.endless, byFreeze)
	slices.SortFunc(own.ending, byFreeze)
	return own
}

// pauseBy returns what the freezes that name the same make together; nil if there are none. The plan
// changes when the next of them begins, even if it holds no target: those of a member of a group may
// have left since the group closed.
func (w *work) pauseBy(names TargetID) *pause {
	w.wake(w.nextPauses[names])
	own, list := w.pauses[names], w.pausesBegun[names]
	if own != nil || len(list) == 0 {
		return own
	}
	own = &pause{}
	windows, closed := make([]clock.Window, len(list)), false
	for k, z := range list {
		until := reportable(endOf(z.ExpiresAt))
		if until.IsZero() {
			until = lastInstant().AddDate(1000, 0, 0) // no search gets there
			own.endless = append(own.endless, Condition{Kind: OnFreeze, Freeze: z.ID})
		} else {
			own.ending = append(own.ending, Condition{Kind: OnFreeze, Freeze: z.ID})
		}
		windows[k] = clock.Window{From: z.CreatedAt, Until: until, AllowWindow: &closed}
	}
	own.calendar, _ = clock.NewCalendar(windows, nil) // the freezes have no fault, and need no zone
	w.pauses[names] = own
	return own
}

// counts returns the calendar in whose open time a curve advances under the windows h, which may be
// nil if the curve has a pause.
func (p *pause) counts(h *hours) clock.Calendar {
	switch {
	case h == nil: // unlike windows, which may recur for ever, it is looked at to the end of time
		return p.calendar.WithHorizon(math.MaxInt64)
	case p == nil:
		return h.calendar
	}
	return clock.Intersect(h.calendar, p.calendar)
}
