package rollouttest

import (
	"errors"
	"fmt"
	"time"

	"github.com/tranche-dev/tranche/rollout"
)

// check makes sure that a plan keeps its promises. fresh says that the previous plan started
// something and nothing has happened since: so nothing is left to start, and a host that slept until
// next, as that plan said, would have missed nothing.
func (r *running) check(snapshot rollout.Snapshot, plan rollout.Plan, fresh bool, next time.Time) error {
	if r.Trust {
		return nil
	}
	err := Step{Snapshot: snapshot, Plan: plan, Dispatched: r.dispatched, found: newIndex(&plan, r.targets)}.Check()
	if fresh && len(plan.Start) > 0 {
		first := plan.Start[0]
		err = errors.Join(err, r.broken("again", fmt.Errorf("planning again at once starts %s %s on %s", first.Deployment, first.Version, first.Resource)))
	}
	if fresh && !plan.Next.IsZero() && (next.IsZero() || plan.Next.Before(next)) {
		until := "for ever"
		if !next.IsZero() {
			until = "until " + next.UTC().Format(time.RFC3339Nano)
		}
		err = errors.Join(err, r.broken("again", fmt.Errorf("the plan that started the jobs lets its host sleep %s, and now something is to be seen at %s", until, plan.Next.UTC().Format(time.RFC3339Nano))))
	}
	if now := r.clock.Now(); !plan.Now.Equal(now) {
		err = errors.Join(err, r.broken("again", fmt.Errorf("the plan is for %s", plan.Now.UTC().Format(time.RFC3339Nano))))
	}
	return err
}

func (r *running) broken(invariant string, err error) error {
	return &Violation{Invariant: invariant, At: r.clock.Now(), Err: err}
}

// never is how far quiet looks ahead if nothing is to happen any more.
const never = 10 * 365 * 24 * time.Hour

// quiet makes sure that nothing changes by itself before wake, the next wake-up, or ever if wake is
// zero: rollout I6.
func (r *running) quiet(snapshot rollout.Snapshot, plan rollout.Plan, wake time.Time) error {
	now := r.clock.Now()
	snapshot.State = plan.State
	end := wake
	if wake.IsZero() {
		end = now.Add(never)
		if last := lastInstant(); end.After(last) {
			end = last
		}
	}
	for _, at := range [...]time.Time{now.Add(end.Sub(now) / 2), end.Add(-time.Nanosecond)} {
		when := at.UTC().Format(time.RFC3339Nano)
		later, err := r.Policies.Plan(snapshot, at)
		if err != nil {
			return r.broken("quiet", fmt.Errorf("a plan at %s fails: %w", when, err))
		}
		until := "again"
		if !wake.IsZero() {
			until = "before " + wake.UTC().Format(time.RFC3339Nano)
		}
		found := ""
		switch differs := difference(r.waiting, waitingOf(&later)); {
		case len(later.Start) > 0:
			found = fmt.Sprintf("%s %s could start on %s", later.Start[0].Deployment, later.Start[0].Version, later.Start[0].Resource)
		case len(later.Events) > 0:
			found = fmt.Sprintf("there is a %s of %s", later.Events[0].Kind, later.Events[0].Group)
		case differs != "":
			found = "others wait, or for other reasons: " + differs
		case len(later.Stuck) != len(plan.Stuck):
			found = fmt.Sprintf("%d runs or leases are stuck, and not %d", len(later.Stuck), len(plan.Stuck))
		}
		if found != "" {
			return r.broken("quiet", fmt.Errorf("nobody is to look %s, and at %s %s", until, when, found))
		}
	}
	return nil
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
