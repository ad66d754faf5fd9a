package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/examples/controller/api/v1alpha1"
	"github.com/tranche-dev/tranche/rollout"
)

// grace is how long every plan must have called a lease an orphan before it is given back. It
// spares those who are about to dispatch; no limit depends on it.
const grace = time.Minute

// lease names one lease for ever: a pool never issues a token twice.
type lease struct {
	pool  string
	token uint64
}

// giveBack gives back the orphans of targets outside brackets that are due, and those of abandoned
// executions on machines that serve again. It reports whether to plan again, and otherwise when the
// next one is due. The planner only lists them, for it cannot know whether somebody is about to
// dispatch, or has repaired a machine.
func (r *Reconciler) giveBack(ctx context.Context, own *namespace, jobs *dispatcher, report *reporter, seen *observation, plan rollout.Plan) (again bool, next time.Time, err error) {
	for _, orphan := range plan.Orphans {
		if orphan.State != concurrency.Quarantined || !seen.released[orphan.Holder] {
			continue
		}
		if _, observed := seen.find(orphan.Resource); !observed {
			continue // no plan sees its jobs, nor counts them
		}
		switch err := (&rollout.Planner{Store: own.store}).Release(ctx, orphan); {
		case err == nil:
			again = true
			if _, missed := report.given[orphan.Holder]; !missed {
				report.given[orphan.Holder] = true
			}
			report.event(seen.machine(orphan.Resource), corev1.EventTypeNormal, reasonGivenBack, "GiveBack",
				fmt.Sprintf("the slot of %s in %s with token %d: the machine serves again", orphan.Group, orphan.Pool, orphan.Token))
		case errors.Is(err, bracket.ErrConflict), errors.Is(err, bracket.ErrNotFound), errors.Is(err, concurrency.ErrFenced):
			again = true // somebody else was quicker
			report.given[orphan.Holder] = false
		default:
			return false, time.Time{}, err
		}
	}
	due, next := own.due(plan)
	for _, orphan := range due {
		if _, observed := seen.find(orphan.Resource); !observed {
			// Either it is deleted, which the planner has been told, or the cache does not show it yet,
			// and nothing is known of it.
			continue
		}
		id, _ := rollout.TargetOf(orphan.Holder)
		frozen, err := r.freezesOf(ctx, own.name, id, plan.Now)
		if err != nil {
			return false, next, err
		}
		switch given, err := jobs.giveBack(ctx, id, orphan, seen.turns[id], len(frozen) > 0); {
		case errors.Is(err, bracket.ErrConflict):
			again = true
		case err != nil:
			return false, next, err
		case given:
			again = true
			report.event(seen.machine(orphan.Resource), corev1.EventTypeNormal, reasonGivenBack, "GiveBack",
				fmt.Sprintf("the slot of %s in %s with token %d: nobody was at work", orphan.Group, orphan.Pool, orphan.Token))
		}
	}
	return again, next, nil
}

// remember adds to those whose slots this turn has given back those of earlier turns, until the
// commands are gone: the server may not have taken yet what these say of it.
func (n *namespace) remember(given, released map[concurrency.Holder]bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for holder := range n.given {
		given[holder] = true
	}
	n.given = map[concurrency.Holder]bool{}
	for holder, all := range given {
		if all && released[holder] {
			n.given[holder] = true
		}
	}
}

// due returns those orphans of targets outside brackets that every plan has listed for the time of
// grace, and when that is true of the next one.
func (n *namespace) due(plan rollout.Plan) (due []concurrency.Lease, next time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	suspects := map[lease]time.Time{}
	for _, orphan := range plan.Orphans {
		if _, single := rollout.TargetOf(orphan.Holder); !single {
			continue
		}
		name := lease{orphan.Pool, orphan.Token}
		since, known := n.suspects[name]
		if !known {
			since = plan.Now
		}
		suspects[name] = since
		if at := since.Add(grace); !at.After(plan.Now) {
			due = append(due, orphan)
		} else if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	n.suspects = suspects
	return due, next
}

// giveBack gives a lease of a target back in two steps: nothing can be dispatched under it any
// more, then it is taken out of its pool. It reports whether this call took it. seen is the last
// turn of which the plan saw the job, frozen says that none is created now. An error of
// [bracket.ErrConflict] says that somebody else was quicker.
//
// Whoever dies between the two steps leaves a lease under which every start is refused. Whoever
// meets that, here or in dispatch, takes the second step.
func (d *dispatcher) giveBack(ctx context.Context, id rollout.TargetID, orphan concurrency.Lease, seen int64, frozen bool) (bool, error) {
	key := targetKey(id)
	last, revision, err := d.last(ctx, key)
	if err != nil {
		return false, err
	}
	if !last.released(orphan.Pool, orphan.Token) {
		if idle, err := d.idle(ctx, last, seen, frozen); err != nil || !idle {
			return false, err
		}
		if last.Released == nil {
			last.Released = map[string]uint64{}
		}
		last.Released[orphan.Pool] = orphan.Token
		record, err := json.Marshal(last)
		if err != nil {
			return false, err
		}
		if _, err := d.store.Save(ctx, key, record, revision); err != nil {
			return false, err
		}
	}
	return d.free(ctx, orphan.Pool, orphan.Holder, orphan.Token)
}

// idle reports whether the last job of a target has ended, and the plan has seen it. A plan that
// did not see it has nothing to say about the lease. A job that does not exist is created: the
// record's writer may only sleep; on a frozen target it is not, and the lease stays. That it has
// ended is asked of the server, for a plan does not see the jobs of a target that is none any more.
func (d *dispatcher) idle(ctx context.Context, last targetRecord, seen int64, frozen bool) (bool, error) {
	switch {
	case last.Run == "":
		return true, nil
	case last.Turn > seen && frozen:
		return false, nil
	case last.Turn > seen:
		_, err := d.create(ctx, last.NodeJobSpec)
		return false, err
	}
	var job v1alpha1.NodeJob
	err := d.store.reader.Get(ctx, client.ObjectKey{Namespace: d.store.namespace, Name: name(last.Run)}, &job)
	if err != nil && !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("controller: has the job of run %s ended: %w", last.Run, err)
	}
	return err == nil && job.Status.State.Terminal(), nil
}

// free takes the lease with exactly this token out of its pool, and reports whether it did:
// somebody else may have done so. The target's record must say that it is released. Then it does
// not matter whether a plan has noted a start under it since: that start is refused.
func (d *dispatcher) free(ctx context.Context, pool string, holder concurrency.Holder, token uint64) (bool, error) {
	key := rollout.PoolRecordKey(pool)
	value, revision, err := d.store.Load(ctx, key)
	switch {
	case errors.Is(err, bracket.ErrNotFound):
		return false, nil
	case err != nil:
		return false, err
	}
	record, err := concurrency.ParseRecord(value)
	if err != nil {
		return false, fmt.Errorf("controller: record %s: %w", key, err)
	}
	if record, err = record.Release(holder, token); err != nil { // it is gone, or the target holds a new one
		return false, nil
	}
	if value, err = json.Marshal(record); err != nil {
		return false, err
	}
	_, err = d.store.Save(ctx, key, value, revision)
	return err == nil, err
}
