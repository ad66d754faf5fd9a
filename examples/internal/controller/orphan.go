package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/rollout"
)

// DefaultGrace is how long a lease must have been called an orphan before a controller gives it
// back.
const DefaultGrace = time.Minute

// lease names one lease since the last start under it: tokens are never issued twice, and a start
// under a lease that was held already moves its progress.
type lease struct {
	pool     string
	token    uint64
	progress int64
}

// release gives back the leases that the planner has called orphans for the time of grace: those of
// a controller that died between claiming and dispatching, or that claimed a slot for a job which,
// unseen by it, had ended already. The planner only lists them, for it cannot know whether somebody
// is about to dispatch. This host can: a dispatch that comes too late is fenced, and the next plan
// claims again. A controller that starts under the lease has renewed it by saving its plan. Then
// the time of grace begins anew, because this controller may have looked at the jobs before.
//
// A lease that is quarantined stays: its execution was abandoned, or it was stuck, and only a person
// knows when the resource serves again. They give it back with [rollout.Planner.Release].
func (c *Controller) release(ctx context.Context, turn *Turn, now time.Time) error {
	suspects := map[lease]time.Time{}
	for _, orphan := range turn.Plan.Orphans {
		if orphan.State == concurrency.Quarantined {
			continue
		}
		name := lease{orphan.Pool, orphan.Token, orphan.ProgressAt.UnixNano()}
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
		switch err := (&rollout.Planner{Store: c.Store}).Release(ctx, orphan); {
		case errors.Is(err, bracket.ErrConflict), errors.Is(err, concurrency.ErrFenced), errors.Is(err, bracket.ErrNotFound): // somebody else took care of it, or the next turn does
		case err != nil:
			return fmt.Errorf("controller: %w", err)
		default:
			turn.Released = append(turn.Released, fmt.Sprintf("%s %s %s with token %d", orphan.Pool, orphan.Resource, orphan.Group, orphan.Token))
		}
	}
	c.suspects = suspects
	return nil
}
