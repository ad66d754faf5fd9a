package rollouttest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tranche-dev/tranche/clock"
	"github.com/tranche-dev/tranche/rollout"
)

// check makes sure that a plan keeps its promises. If the previous plan started something and nothing
// has happened since, nothing is left to start, and a host that slept until that plan's NextAfter
// would have missed nothing.
func (r *worldRun) check(snapshot rollout.Snapshot, plan rollout.Plan) error {
	if r.Trust {
		return nil
	}
	err := Step{Snapshot: snapshot, Plan: plan, Dispatched: r.dispatched, index: newIndex(&plan, r.targets)}.Check()
	if r.fresh && len(plan.Start) > 0 {
		first := plan.Start[0]
		err = errors.Join(err, r.violation("again", fmt.Errorf("planning again at once starts %s %s on %s", first.Deployment, first.Version, first.Resource)))
	}
	if r.fresh && !plan.Next.IsZero() && (r.next.IsZero() || plan.Next.Before(r.next)) {
		until := "for ever"
		if !r.next.IsZero() {
			until = "until " + exactText(r.next)
		}
		err = errors.Join(err, r.violation("again", fmt.Errorf("the plan that started the jobs lets its host sleep %s, and now something is to be seen at %s", until, exactText(plan.Next))))
	}
	if now := r.clock.Now(); !plan.Now.Equal(now) {
		err = errors.Join(err, r.violation("again", fmt.Errorf("the plan is for %s", exactText(plan.Now))))
	}
	return err
}

func (r *worldRun) violation(invariant string, err error) error {
	return &Violation{Invariant: invariant, At: r.clock.Now(), Err: err}
}

// quietHorizon is how far checkQuiet looks ahead if nothing is to happen any more.
const quietHorizon = 10 * 365 * 24 * time.Hour

// checkQuiet makes sure that nothing changes by itself before wake, the next wake-up, or ever if
// wake is zero: rollout I6.
func (r *worldRun) checkQuiet(snapshot rollout.Snapshot, plan rollout.Plan, wake time.Time) error {
	now := r.clock.Now()
	snapshot.State = plan.State
	end := wake
	if wake.IsZero() {
		end = now.Add(quietHorizon)
		if last := lastInstant(); end.After(last) {
			end = last
		}
	}
	for _, at := range [...]time.Time{now.Add(end.Sub(now) / 2), end.Add(-time.Nanosecond)} {
		when := exactText(at)
		later, err := r.Policies.Plan(snapshot, at)
		if err != nil {
			return r.violation("quiet", fmt.Errorf("a plan at %s fails: %w", when, err))
		}
		if found := r.unforeseen(&plan, &later, now, at); found != "" {
			until := "again"
			if !wake.IsZero() {
				until = "before " + exactText(wake)
			}
			return r.violation("quiet", fmt.Errorf("nobody is to look %s, and at %s %s", until, when, found))
		}
	}
	return nil
}

// unforeseen says what is different in a later plan, made at an instant for which nobody was told
// to look; "" if nothing is.
func (r *worldRun) unforeseen(plan, later *rollout.Plan, now, at time.Time) string {
	starts, before, after := later.Start, r.waiting, waitingOf(later)
	if far := beyondReach(before, after, now, at); len(far) > 0 {
		begun := len(starts)
		starts = slices.DeleteFunc(slices.Clone(starts), func(s rollout.Start) bool { return far[s.TargetID] })
		if begun > len(starts) && len(starts) == 0 {
			return "" // what they start may do to others is not seen either
		}
		near := func(waiting []rollout.Waiting) []rollout.Waiting {
			return slices.DeleteFunc(slices.Clone(waiting), func(w rollout.Waiting) bool { return far[w.TargetID] })
		}
		before, after = near(before), near(after)
	}
	switch differs := difference(before, after); {
	case len(starts) > 0:
		return fmt.Sprintf("%s %s could start on %s", starts[0].Deployment, starts[0].Version, starts[0].Resource)
	case len(later.Events) > 0:
		return fmt.Sprintf("there is a %s of %s", later.Events[0].Kind, later.Events[0].Group)
	case differs != "":
		return "others wait, or for other reasons: " + differs
	case len(later.Stuck) != len(plan.Stuck):
		return fmt.Sprintf("%d runs or leases are stuck, and not %d", len(later.Stuck), len(plan.Stuck))
	}
	return ""
}

// beyondReach returns the targets for which windows that never opened, as a plan at now says, open
// by a later one. It is no change that somebody missed: a plan looks for openings within
// [clock.DefaultHorizon], and does not wake its host when one comes within reach.
func beyondReach(before, after []rollout.Waiting, now, at time.Time) map[rollout.TargetID]bool {
	reach := now.Add(clock.DefaultHorizon)
	far := map[rollout.TargetID]bool{}
	for k := range before {
		w := &before[k]
		shut := shutWindows(w)
		if len(shut) == 0 {
			continue
		}
		i, waits := slices.BinarySearchFunc(after, w.TargetID, func(w rollout.Waiting, id rollout.TargetID) int { return compareTargets(w.TargetID, id) })
		if !waits {
			far[w.TargetID] = !at.Before(reach)
			continue
		}
		still := shutWindows(&after[i])
		opened := func(rule string) bool { return !slices.Contains(still, rule) }
		seen := func(v rollout.Verdict) bool { return slices.Contains(shut, v.Rule) && !v.Until.Before(reach) }
		far[w.TargetID] = slices.ContainsFunc(shut, opened) && (!at.Before(reach) || slices.ContainsFunc(after[i].Blockers, seen))
	}
	return far
}

// shutWindows returns the rules of the windows for which a target waits and that never open.
func shutWindows(w *rollout.Waiting) (rules []string) {
	for _, v := range w.Blockers {
		if (v.Reason == rollout.ReasonWindowClosed || v.Reason == rollout.ReasonWindowTooShort) && v.Until.IsZero() {
			rules = append(rules, v.Rule)
		}
	}
	return rules
}

// difference quotes the first waits that differ, and returns "" if none do.
func difference(before, after []rollout.Waiting) string {
	for k := range min(len(before), len(after)) {
		if a, b := &before[k], &after[k]; !sameWait(a, b) {
			if a.String() == b.String() {
				return fmt.Sprintf("%q, with other facts or events than its words tell", a)
			}
			return fmt.Sprintf("%q became %q", a, b)
		}
	}
	if len(before) != len(after) {
		return fmt.Sprintf("%d targets that wait became %d", len(before), len(after))
	}
	return ""
}
