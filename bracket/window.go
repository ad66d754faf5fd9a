package bracket

import (
	"sort"
	"time"
)

// window holds the instants that decide when a group opens and closes, as the members are now.
type window struct {
	trigger  time.Time // the earliest instant at which a new version of a main opens a group; zero if none does
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
		own := v.newOf(d, g.served(d.id))
		later := sort.Search(len(d.outdated), func(k int) bool { return d.outdated[k].After(since) })
		if later < len(d.outdated) {
			own.add(d.outdated[later], d.outdated[later])
		}
		if !own.trigger.IsZero() {
			earlier(&w.trigger, own.trigger)
		}
		if own.eligible.IsZero() {
			complete = false
			continue
		}
		earlier(&w.earliest, own.eligible)
		w.all = maxTime(w.all, own.eligible)
	}
	if !complete {
		w.all = time.Time{}
	}
	return w
}

// onset holds the earliest instants of some versions, each zero if no version has one.
type onset struct{ trigger, eligible time.Time }

func (o *onset) add(trigger, eligible time.Time) {
	if !trigger.IsZero() {
		earlier(&o.trigger, trigger)
	}
	if !eligible.IsZero() {
		earlier(&o.eligible, eligible)
	}
}

// newOf returns the onset of the versions of a main that are new. Above the mark that is every
// version that is needed. A late step asks once for each group that it closes, and there may be as
// many as there are versions: so their instants are collected once.
func (v *view) newOf(d *deployment, s served) onset {
	unmarked := d.unmarked(s.mark)
	if d.needed == nil {
		d.needed = make([]onset, len(d.versions)+1)
		for r := int32(len(d.versions)) - 1; r >= 0; r-- {
			d.needed[r] = d.needed[r+1]
			if d.needs(r) {
				d.needed[r].add(v.triggerOf(&d.versions[r]), d.versions[r].at)
			}
		}
	}
	own := d.needed[unmarked]
	for r := d.unserved(&s); r < unmarked; r++ {
		if d.isNew(&s, r) {
			own.add(v.triggerOf(&d.versions[r]), d.versions[r].at)
		}
	}
	return own
}

// triggerOf returns when a new version opens a group, zero if that is not known.
func (v *view) triggerOf(n *version) time.Time {
	if v.rule.TriggerOn == Published {
		return n.createdAt
	}
	return n.at
}

// closing returns when a group that opened at t closes, whether it timed out, and the strategy in
// force. ok is false while nothing is eligible: a window never closes empty-handed. T+W and T+W+R
// are not after by, at which a command ends the wait; zero: none does.
//
//	mode               strategy          situation            close         in force
//	immediate          not require_all                        max(T, E)     as configured
//	collection_window  not require_all                        max(T+W, E)   as configured
//	collection_window  require_all       A <= T+W             T+W           as configured: nothing is unchanged
//	collection_window  require_all       T+W < A <= T+W+R     A             as configured: nothing is unchanged
//	collection_window  require_all       otherwise            max(T+W+R, E) skip_unchanged, timed out
//	wait_for_all       any               A <= T+W             A             as configured: nothing is unchanged
//	wait_for_all       any               otherwise            max(T+W, E)   as configured, require_all as skip_unchanged, timed out
func closing(rule *Rule, t time.Time, w window, by time.Time) (at time.Time, timedOut bool, strategy UnchangedMemberStrategy, ok bool) {
	strategy = rule.UnchangedMemberStrategy
	if w.earliest.IsZero() {
		return time.Time{}, false, strategy, false
	}
	earliest := maxTime(t, w.earliest)
	ends := func(at time.Time) time.Time {
		if !by.IsZero() {
			earlier(&at, by)
		}
		return at
	}
	end := ends(t.Add(time.Duration(*rule.ReadinessWindowSeconds) * time.Second))
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
		end = ends(end.Add(time.Duration(rule.RequireAllTimeoutSeconds) * time.Second))
		if complete && !all.After(end) {
			return all, false, strategy, true
		}
	}
	if strategy == RequireAll {
		strategy = SkipUnchanged
	}
	return maxTime(end, earliest), true, strategy, true
}
