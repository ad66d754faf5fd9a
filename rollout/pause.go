package rollout

import (
	"math"
	"slices"
	"strings"

	"github.com/tranche-dev/tranche/clock"
)

// pausing holds the freezes that stop curves: those that have begun, whether or not they are over.
type pausing struct {
	stopping map[TargetID][]*Freeze // by what they name, which is no resource
	pauses   map[int32]*pause       // by pair, as far as they were asked for
}

// pause is the time that does not count for a curve. A nil pause is none.
type pause struct {
	calendar clock.Calendar // closed while a freeze is active
	endless  []Condition    // the freezes that last until somebody lifts them
}

// stop collects a freeze that stops curves. It may stop that of a group although it holds no target:
// those of a member may have left since the group closed.
func (w *work) stop(z *Freeze) {
	if w.now.Before(z.CreatedAt) {
		w.wake(z.CreatedAt)
		return
	}
	if w.stopping == nil {
		w.stopping = map[TargetID][]*Freeze{}
	}
	at := TargetID{Environment: z.Environment, Deployment: z.Deployment}
	w.stopping[at] = append(w.stopping[at], z)
}

// pauseAt returns the pause of the curves of one deployment in an environment, by numbers.
func (w *work) pauseAt(environment, deployment int32) *pause {
	if len(w.stopping) == 0 {
		return nil
	}
	pair := w.pairAt(environment, deployment)
	own, asked := w.pauses[pair]
	if !asked {
		own = w.pauseIn(w.environments[environment].ID, w.deployments[deployment].ID)
		if w.pauses == nil {
			w.pauses = map[int32]*pause{}
		}
		w.pauses[pair] = own
	}
	return own
}

// pauseIn returns the pause of a curve in an environment. One of several deployments stands still
// while that of any of them would.
func (w *work) pauseIn(environment string, deployments ...string) *pause {
	var list []*Freeze
	for _, e := range [...]string{"", environment} {
		list = append(list, w.stopping[TargetID{Environment: e}]...)
		for _, d := range deployments {
			list = append(list, w.stopping[TargetID{Environment: e, Deployment: d}]...)
		}
	}
	if len(list) == 0 {
		return nil
	}
	slices.SortFunc(list, func(a, b *Freeze) int { return strings.Compare(a.ID, b.ID) })
	own, closed := &pause{}, false
	windows := make([]clock.Window, len(list))
	for k, z := range list {
		until := told(endOf(z.ExpiresAt))
		if until.IsZero() {
			until = lastInstant().AddDate(1000, 0, 0) // no search gets there
			own.endless = append(own.endless, Condition{Kind: OnFreeze, Freeze: z.ID})
		}
		windows[k] = clock.Window{From: z.CreatedAt, Until: until, AllowWindow: &closed}
	}
	own.calendar, _ = clock.NewCalendar(windows, nil) // the freezes have no fault, and need no zone
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
