package rollouttest

import (
	"slices"
	"time"

	"github.com/tranche-dev/tranche/rollout"
)

// stuckWithin is how long a world in which something is held is watched after the last thing that
// happened: what is held may become stuck, which no wait announces.
const stuckWithin = 31 * 24 * time.Hour

// atRest reports whether nothing can happen any more although the planner would go on waking its
// host: windows open and close for ever, for targets that also wait for an event that does not
// come. A target with a blocker that time does not open never starts by time alone, and of the
// other blockers only windows come again.
func (r *worldRun) atRest(plan *rollout.Plan) bool {
	if plan.Waiting.Len() == 0 || len(r.arrivals)+len(r.ends) > 0 || r.holds(plan) && plan.Now.Sub(r.lastEvent) < stuckWithin {
		return false
	}
	for i := range r.fleet.Targets {
		if r.fleet.Targets[i].OutdatedAt.After(plan.Now) {
			return false
		}
	}
	for waiting := range plan.Waiting.All() {
		explanation, err := plan.Explain(waiting.TargetID)
		if err != nil || opens(&explanation) {
			return false // a plan that does not explain itself is followed to the end
		}
	}
	return true
}

// lapse returns the first instant at which a world at rest starts something because an override
// expires, zero if there is none: a version that an override kept is then taken back.
func (r *worldRun) lapse(snapshot rollout.Snapshot, plan *rollout.Plan) time.Time {
	snapshot.State = plan.State
	var ends []time.Time
	for _, o := range snapshot.Overrides {
		if o.ExpiresAt.After(plan.Now) {
			ends = append(ends, o.ExpiresAt)
		}
	}
	slices.SortFunc(ends, time.Time.Compare)
	for _, at := range ends {
		if later, err := r.Policies.Plan(snapshot, at); err == nil && len(later.Start) > 0 {
			return at
		}
	}
	return time.Time{}
}

// holds reports whether there is a slot held, an open execution, a collecting group or a running
// job: all of these may change by time alone while no target waits for it.
func (r *worldRun) holds(plan *rollout.Plan) bool {
	for _, record := range plan.State.Pools {
		if len(record.Leases) > 0 {
			return true
		}
	}
	for _, record := range plan.State.Executions {
		if record.Open != nil {
			return true
		}
	}
	for _, record := range plan.State.Brackets {
		if record.Collecting != nil {
			return true
		}
	}
	return len(r.recorder.running) > 0
}

// opens reports whether time alone can do more for a target than open and close its windows.
func opens(e *rollout.Explanation) bool {
	for k := range e.Versions {
		v := &e.Versions[k]
		if v.Prospect == rollout.ProspectFuture {
			return true
		}
		if v.Prospect != rollout.ProspectWaits {
			continue
		}
		shut := len(e.Held) > 0
		for _, rule := range v.Blockers() {
			switch {
			case rule.Until.IsZero():
				shut = true
			case rule.Kind != rollout.KindWindow:
				return true
			}
		}
		if !shut {
			return true
		}
	}
	return false
}
