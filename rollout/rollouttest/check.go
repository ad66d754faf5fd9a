package rollouttest

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/rollout"
)

// check makes sure that a plan keeps its promises. fresh says that the plan before started something and nothing happened since: then
// there is nothing left to start.
func (r *running) check(snapshot rollout.Snapshot, plan rollout.Plan, fresh bool) error {
	if r.Trust {
		return nil
	}
	err := Step{Snapshot: snapshot, Plan: plan, Dispatched: r.dispatched}.Check()
	if fresh && len(plan.Start) > 0 {
		first := plan.Start[0]
		err = errors.Join(err, r.broken("again", fmt.Errorf("planning again at once starts %s %s on %s", first.Deployment, first.Version, first.Resource)))
	}
	if now := r.clock.Now(); !plan.Now.Equal(now) {
		err = errors.Join(err, r.broken("again", fmt.Errorf("the plan is for %s", plan.Now.UTC().Format(time.RFC3339Nano))))
	}
	return err
}

func (r *running) broken(invariant string, err error) error {
	return &Violation{Invariant: invariant, At: r.clock.Now(), Err: err}
}

// never is how far it is looked ahead where nothing is to happen any more.
const never = 10 * 365 * 24 * time.Hour

// quiet makes sure that nothing changes by itself before the next wake-up, zero if there is none: rollout I6.
func (r *running) quiet(snapshot rollout.Snapshot, plan rollout.Plan, wake time.Time) error {
	now := r.clock.Now()
	snapshot.State = plan.State
	end := wake
	if wake.IsZero() {
		end = now.Add(never)
	}
	said := waitingText(plan.Waiting)
	for _, at := range [...]time.Time{now.Add(end.Sub(now) / 2), end.Add(-time.Nanosecond)} {
		if !at.After(now) {
			continue
		}
		later, err := r.Policies.Plan(snapshot, at)
		if err != nil {
			return r.broken("quiet", fmt.Errorf("a plan at %s fails: %w", at.UTC().Format(time.RFC3339Nano), err))
		}
		when := at.UTC().Format(time.RFC3339Nano)
		until := "never again"
		if !wake.IsZero() {
			until = "at " + wake.UTC().Format(time.RFC3339Nano)
		}
		found := ""
		switch says := waitingText(later.Waiting); {
		case len(later.Start) > 0:
			found = fmt.Sprintf("%s %s could start on %s", later.Start[0].Deployment, later.Start[0].Version, later.Start[0].Resource)
		case len(later.Events) > 0:
			found = fmt.Sprintf("there is a %s of %s", later.Events[0].Kind, later.Events[0].Group)
		case says != said:
			found = "others wait or for other reasons: " + difference(said, says)
		case len(later.Stuck) != len(plan.Stuck):
			found = fmt.Sprintf("%d runs and leases are stuck instead of %d", len(later.Stuck), len(plan.Stuck))
		}
		if found != "" {
			return r.broken("quiet", fmt.Errorf("the plan is to be looked at %s, and at %s %s", until, when, found))
		}
	}
	return nil
}

func waitingText(waiting rollout.WaitingList) string {
	var b strings.Builder
	for w := range waiting.All() {
		fmt.Fprintf(&b, "%s %s %s %s: %s\n", w.Resource, w.Environment, w.Deployment, w.Version, blockersText(w.Blockers))
	}
	return b.String()
}

// difference quotes the first lines that differ.
func difference(before, after string) string {
	a, b := strings.Split(before, "\n"), strings.Split(after, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("%q became %q", a[i], b[i])
		}
	}
	return fmt.Sprintf("%d lines became %d", len(a), len(b))
}
