package rollouttest_test

import (
	"slices"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/rollout"
)

// untilsHold plans at the instants that the rules of an explanation name: until just before, a rule
// blocks, and then no longer. Left out are what others may take away or give back meanwhile, which is
// slots, freezes, of which several may follow one another, and whatever the world has recorded for a
// time in between.
func (u *upheaval) untilsHold(plan rollout.Plan) {
	next := u.s
	next.State = plan.State
	plans := map[time.Time]rollout.Plan{}
	for _, t := range u.s.Targets {
		if slices.Contains(u.s.DeletedResources, t.Resource) {
			continue
		}
		x, err := plan.Explain(t.TargetID)
		if err != nil {
			continue // it is reported elsewhere
		}
		for _, v := range x.Versions {
			if v.Prospect != rollout.ProspectWaits {
				continue
			}
			for _, r := range v.Blockers() {
				if r.Until.IsZero() || r.Until.Sub(u.now) > 30*365*24*time.Hour || r.Reason == rollout.ReasonFrozen || strings.HasPrefix(string(r.Reason), "slot_") || u.changesUntil(r.Until) {
					continue
				}
				for _, at := range []time.Time{r.Until.Add(-1), r.Until} {
					if !at.After(u.now) || at.Before(r.Until) && (r.Reason == rollout.ReasonWindowClosed || r.Reason == rollout.ReasonWindowTooShort) { // of several windows the one that opens last may not be asked any more
						continue
					}
					then, planned := plans[at.UTC()]
					if !planned {
						if len(plans) == 6 {
							return
						}
						if then, err = u.set.Plan(next, at); err != nil {
							return
						}
						plans[at.UTC()] = then
					}
					if len(then.Events) > 0 { // a group has closed, or an execution has ended
						continue
					}
					y, err := then.Explain(t.TargetID)
					if err != nil {
						continue
					}
					k := slices.IndexFunc(y.Versions, func(o rollout.VersionExplanation) bool { return o.Version == v.Version })
					blocks := k >= 0 && slices.ContainsFunc(y.Versions[k].Blockers(), func(b rollout.RuleVerdict) bool { return b.Kind == r.Kind && b.Rule == r.Rule && b.Reason == r.Reason })
					switch {
					case at.Equal(r.Until) && blocks:
						u.report(u.editor, "until", "%v, and then it blocks still: %v\n%v", r, x, y)
					case at.Before(r.Until) && !blocks && k >= 0 && y.Versions[k].Prospect != rollout.ProspectOutOfScope:
						u.report(u.editor, "until", "%v, and before that it does not block: %v\n%v", r, x, y)
					}
					u.seen["until "+string(r.Reason)]++
				}
			}
		}
	}
}

// changesUntil reports whether something is recorded for a time after now, until an instant.
func (u *upheaval) changesUntil(end time.Time) bool {
	in := func(list ...time.Time) bool {
		return slices.ContainsFunc(list, func(at time.Time) bool { return at.After(u.now) && !at.After(end) })
	}
	return slices.ContainsFunc(u.s.Versions, func(v rollout.Version) bool { return in(v.CreatedAt) }) ||
		slices.ContainsFunc(u.s.Freezes, func(z rollout.Freeze) bool { return in(z.CreatedAt) || in(z.ExpiresAt) && !z.ExpiresAt.Equal(end) }) ||
		slices.ContainsFunc(u.s.Overrides, func(o rollout.Override) bool { return in(o.CreatedAt, o.ExpiresAt) }) ||
		slices.ContainsFunc(u.s.Approvals, func(a rollout.Approval) bool { return in(a.At) }) ||
		slices.ContainsFunc(u.s.Targets, func(t rollout.Target) bool {
			return in(t.JoinedAt, t.OutdatedAt) || slices.ContainsFunc(t.Jobs, func(j rollout.Job) bool { return in(j.CompletedAt) })
		})
}
