package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/rollout"
)

// DefaultGrace is how long a lease must have been called an orphan before a controller gives it back.
const DefaultGrace = time.Minute

// lease names one lease for ever: tokens are never issued twice.
type lease struct {
	pool   string
	token  uint64
	holder concurrency.Holder
}

// release gives back the leases that the planner has called orphans for the time of grace: those of a controller that died between claiming and
// dispatching, or that claimed a slot for a job which, unseen by it, had ended already. The planner only lists them, for it cannot know whether
// somebody is about to dispatch. This host can: a dispatch that comes too late is fenced, and the next plan claims again.
func (c *Controller) release(ctx context.Context, turn *Turn, jobs []Job, now time.Time) error {
	suspects := map[lease]time.Time{}
	for _, orphan := range orphans(turn.Plan, jobs) {
		since, known := c.suspects[orphan]
		if !known {
			since = now
		}
		grace := c.Grace
		if grace <= 0 {
			grace = DefaultGrace
		}
		if now.Sub(since) < grace {
			suspects[orphan] = since
			continue
		}
		switch err := c.give(ctx, orphan); {
		case errors.Is(err, bracket.ErrConflict), errors.Is(err, concurrency.ErrFenced), errors.Is(err, bracket.ErrNotFound): // somebody else took care of it, or the next turn does
		case err != nil:
			return fmt.Errorf("controller: release the orphaned lease of %s in pool %s: %w", orphan.holder.Resource, orphan.pool, err)
		default:
			turn.Released = append(turn.Released, fmt.Sprintf("%s %s %s with token %d", orphan.pool, orphan.holder.Resource, orphan.holder.Group, orphan.token))
		}
	}
	c.suspects = suspects
	return nil
}

// orphans are the leases without an open execution, an active job or a start, on the resources for which the planner reports one.
func orphans(plan rollout.Plan, jobs []Job) []lease {
	reported := map[string]bool{}
	for _, d := range plan.Diagnostics {
		if d.Code == rollout.DiagnosticOrphanedLease {
			reported[d.Example.Resource] = true
		}
	}
	if len(reported) == 0 {
		return nil
	}
	var live []concurrency.Holder
	for _, record := range plan.State.Executions {
		if open := record.Open; open != nil {
			live = append(live, concurrency.Holder{Resource: record.Resource, Group: open.Group})
			for _, merged := range open.Merged {
				live = append(live, concurrency.Holder{Resource: record.Resource, Group: merged})
			}
		}
	}
	for _, job := range jobs {
		if !job.Status.Terminal() {
			live = append(live, job.Holder())
		}
	}
	for _, start := range plan.Start {
		live = append(live, concurrency.Holder{Resource: start.Resource, Group: start.Group})
	}
	var found []lease
	for _, record := range plan.State.Pools {
		for _, l := range record.Orphans(live) {
			if reported[l.Resource] {
				found = append(found, lease{record.Key, l.Token, l.Holder()})
			}
		}
	}
	return found
}

// give returns one lease, if it is still the same one.
func (c *Controller) give(ctx context.Context, orphan lease) error {
	key := rollout.PoolKey(orphan.pool)
	value, revision, err := c.Store.Load(ctx, key)
	if err != nil {
		return err
	}
	record, err := concurrency.ParseRecord(value)
	if err != nil {
		return err
	}
	if record, err = record.Release(orphan.holder, orphan.token); err != nil {
		return err
	}
	if value, err = json.Marshal(record); err != nil {
		return err
	}
	_, err = c.Store.Save(ctx, key, value, revision)
	return err
}
