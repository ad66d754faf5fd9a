package bracket

import "time"

// window holds the instants that decide when a group opens and closes, as the members are now.
type window struct {
	any      bool      // some main has a new version with a defined trigger
	trigger  time.Time // the earliest trigger, if any
	earliest time.Time // E: the earliest instant at which a main had a new eligible version; zero if none has
	all      time.Time // A: the instant by which every main had one; zero if one has none
}

// window computes the instants for the next group.
func (v *view) window(g *GroupRecord) window {
	var w window
	since := g.servedUntil()
	complete := true
	for _, m := range v.members {
		if m.Role != Main {
			continue
		}
		d := &v.deployments[v.find(m.Deployment)]
		served := g.served(d.id)
		var eligible time.Time // the member's earliest
		for r := range d.versions {
			n := &d.versions[r]
			if !d.isNew(&served, int32(r)) {
				continue
			}
			trigger := n.at
			if v.rule.TriggerOn == Published {
				trigger = n.createdAt
			}
			if !trigger.IsZero() {
				w.any = true
				earlier(&w.trigger, trigger)
			}
			if !n.at.IsZero() {
				earlier(&eligible, n.at)
			}
		}
		for _, at := range d.outdated {
			if at.After(since) {
				w.any = true
				earlier(&w.trigger, at)
				earlier(&eligible, at)
				break
			}
		}
		if eligible.IsZero() {
			complete = false
			continue
		}
		earlier(&w.earliest, eligible)
		w.all = maxTime(w.all, eligible)
	}
	if !complete {
		w.all = time.Time{}
	}
	return w
}

// closing returns when a group that opened at t closes, whether it timed out, and the strategy in
// force. ok is false while nothing is eligible: a window never closes empty-handed.
//
//	mode               strategy          situation            close         in force
//	immediate          not require_all                        max(T, E)     as configured
//	collection_window  not require_all                        max(T+W, E)   as configured
//	collection_window  require_all       A <= T+W             T+W           as configured: nothing is unchanged
//	collection_window  require_all       T+W < A <= T+W+R     A             as configured: nothing is unchanged
//	collection_window  require_all       otherwise            max(T+W+R, E) skip_unchanged, timed out
//	wait_for_all       any               A <= T+W             A             as configured: nothing is unchanged
//	wait_for_all       any               otherwise            max(T+W, E)   as configured, require_all as skip_unchanged, timed out
func closing(rule *Rule, t time.Time, w window) (at time.Time, timedOut bool, strategy UnchangedMemberStrategy, ok bool) {
	strategy = rule.UnchangedMemberStrategy
	if w.earliest.IsZero() {
		return time.Time{}, false, strategy, false
	}
	earliest := maxTime(t, w.earliest)
	end := t.Add(time.Duration(*rule.ReadinessWindowSeconds) * time.Second)
	all, complete := maxTime(t, w.all), !w.all.IsZero()
	switch rule.ReadinessMode {
	case Immediate:
		return earliest, false, strategy, true
	case WaitForAll:
		if complete && !all.After(end) {
			return all, false, strategy, true
		}
	default:
		if strategy != RequireAll {
			return maxTime(end, earliest), false, strategy, true
		}
		if complete && !all.After(end) {
			return end, false, strategy, true
		}
		end = end.Add(time.Duration(rule.RequireAllTimeoutSeconds) * time.Second)
		if complete && !all.After(end) {
			return all, false, strategy, true
		}
	}
	if strategy == RequireAll {
		strategy = SkipUnchanged
	}
	return maxTime(end, earliest), true, strategy, true
}
