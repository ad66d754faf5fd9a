package rollout

import (
	"context"
	"fmt"
	"time"

	"github.com/tranche-dev/tranche/concurrency"
)

// Look reads the stored state and plans on it as [Planner.Plan] does, but commits and saves
// nothing: it returns what the next plan would be. It is for callers that must not start anything,
// such as a command that prints [Plan.Explain] while the controller is at work. Nothing of the
// plan's Start may be dispatched. Choose and Recorder are not called.
func (p *Planner) Look(ctx context.Context, snapshot Snapshot) (Plan, error) {
	if err := p.validate(); err != nil {
		return Plan{}, err
	}
	plan, _, _, err := p.look(ctx, snapshot, p.Clock.Now())
	return plan, err
}

// look returns the plan with what it was made from: what was stored, and the snapshot that includes
// it.
func (p *Planner) look(ctx context.Context, snapshot Snapshot, now time.Time) (Plan, stored, Snapshot, error) {
	old, err := p.load(ctx)
	if err != nil {
		return Plan{}, stored{}, Snapshot{}, fmt.Errorf("rollout: load state: %w", err)
	}
	snapshot.State, snapshot.Active = old.state, nil
	if p.JobCounter != nil {
		if snapshot.Active, err = p.count(ctx, snapshot.Resources); err != nil {
			return Plan{}, stored{}, Snapshot{}, err
		}
	}
	plan, err := p.Policies.Plan(snapshot, now)
	return plan, old, snapshot, err
}

func (p *Planner) count(ctx context.Context, resources []Resource) (map[string][]concurrency.Holder, error) {
	keys, _ := p.Policies.PoolKeys(resources) // a resource on which an expression fails is held by the plan, which says why
	active := make(map[string][]concurrency.Holder, len(keys))
	for _, key := range keys {
		var err error
		if active[key], err = p.JobCounter.Active(ctx, key); err != nil {
			return nil, fmt.Errorf("rollout: count the jobs of pool %s: %w", key, err)
		}
	}
	return active, nil
}
