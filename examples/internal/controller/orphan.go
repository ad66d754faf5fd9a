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
	pool  string
	token uint64
}

// release gives back the leases that the planner has called orphans for the time of grace: those of a controller that died between claiming and
// dispatching, or that claimed a slot for a job which, unseen by it, had ended already. The planner only lists them, for it cannot know whether
// somebody is about to dispatch. This host can: a dispatch that comes too late is fenced, and the next plan claims again. Who starts under the lease
// in time has moved its progress when he saved his plan.
func (c *Controller) release(ctx context.Context, turn *Turn, now time.Time) error {
	suspects := map[lease]time.Time{}
	for _, orphan := range turn.Plan.Orphans {
		name := lease{orphan.Pool, orphan.Token}
		since, known := c.suspects[name]
		if !known {
			since = now
		}
		grace := c.Grace
		if grace <= 0 {
			grace = DefaultGrace
		}
		if now.Sub(since) < grace {
			suspects[name] = since
			continue
		}
		switch err := c.give(ctx, orphan); {
		case errors.Is(err, bracket.ErrConflict), errors.Is(err, concurrency.ErrFenced), errors.Is(err, bracket.ErrNotFound): // somebody else took care of it, or the next turn does
		case err != nil:
			return fmt.Errorf("controller: release the orphaned lease of %s in pool %s: %w", orphan.Resource, orphan.Pool, err)
		default:
			turn.Released = append(turn.Released, fmt.Sprintf("%s %s %s with token %d", orphan.Pool, orphan.Resource, orphan.Group, orphan.Token))
		}
	}
	c.suspects = suspects
	return nil
}

// give returns one lease, if it is still the same one and nobody started under it since the plan was made.
func (c *Controller) give(ctx context.Context, orphan concurrency.Lease) error {
	key := rollout.PoolRecordKey(orphan.Pool)
	value, revision, err := c.Store.Load(ctx, key)
	if err != nil {
		return err
	}
	record, err := concurrency.ParseRecord(value)
	if err != nil {
		return err
	}
	if lease, held := record.Lease(orphan.Holder); held && lease.ProgressAt.After(orphan.ProgressAt) {
		return fmt.Errorf("controller: it is used since %s: %w", lease.ProgressAt.Format(time.RFC3339Nano), bracket.ErrConflict)
	}
	if record, err = record.Release(orphan.Holder, orphan.Token); err != nil {
		return err
	}
	if value, err = json.Marshal(record); err != nil {
		return err
	}
	_, err = c.Store.Save(ctx, key, value, revision)
	return err
}
