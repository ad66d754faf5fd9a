package rollout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/concurrency"
)

// Release gives back a lease that a plan listed in [Plan.Orphans], for example after a planner
// stopped between saving and dispatching. Until then the slot counts. No plan gives it back by
// itself, because it cannot know whether the job is about to be dispatched. The host can: it calls
// Release once the lease has been an orphan, with the same ProgressAt, for longer than a dispatch
// and the observation of its job may take, and refuses a dispatch whose claims have gone, see
// [Start.Held]. (ProgressAt must not have moved, because each start under the lease moves it, and
// one may have come after the host looked at the jobs.)
//
// Release gives back this one lease: a group that holds slots in several pools has an orphan in
// each of them. It writes the record of the pool once, conditionally, and does not try again. It
// uses only the Store of the Planner.
//
// Release changes nothing and returns an error that wraps [bracket.ErrConflict] if a start has used
// the lease since the plan was made, or the record was saved in between; [concurrency.ErrFenced] if
// the lease is gone, or its holder has a lease with another token by now; and [bracket.ErrNotFound]
// if the pool has no record. In these cases the next plan shows the present state. A lease without
// pool, resource or token is of no plan: the error joins one *[FieldError] for each that is missing.
// Any other error is that of the store, or a fault of the stored record, which is left as it is.
//
// If the store does not say whether the record was saved, Release may be called again with the same
// orphan: it never takes away a lease that was claimed later. ErrFenced then means that nothing is
// left to give back.
func (p *Planner) Release(ctx context.Context, orphan concurrency.Lease) error {
	if err := validateOrphan(orphan); err != nil {
		return fmt.Errorf("rollout: release a lease: %w", err)
	}
	if err := p.release(ctx, orphan); err != nil {
		return fmt.Errorf("rollout: release the slot of %s in pool %s: %w", orphan.Resource, orphan.Pool, err)
	}
	return nil
}

// validateOrphan adds no fault for an empty group: the lease of another program may have one.
func validateOrphan(orphan concurrency.Lease) error {
	const remedy = "pass a lease that Plan.Orphans lists"
	var f faults
	f.required("pool", orphan.Pool, remedy)
	f.required("resource", orphan.Resource, remedy)
	if orphan.Token == 0 {
		f.add("token", CodeRequired, nil, "is required: %s", remedy)
	}
	return f.err()
}

func (p *Planner) release(ctx context.Context, orphan concurrency.Lease) error {
	if p.Store == nil {
		return errors.New("the Planner has no Store")
	}
	key := PoolRecordKey(orphan.Pool)
	value, revision, err := p.Store.Load(ctx, key)
	if err != nil {
		return err
	}
	record, err := decodeUnder(key, value, concurrency.ParseRecord, poolKey)
	if err != nil {
		return err
	}
	if lease, _ := record.Lease(orphan.Holder); lease.Token == orphan.Token && lease.ProgressAt.After(orphan.ProgressAt) {
		return fmt.Errorf("it is used since %s: %w", lease.ProgressAt.Format(time.RFC3339Nano), bracket.ErrConflict)
	}
	if record, err = record.Release(orphan.Holder, orphan.Token); err != nil {
		return err
	}
	if value, err = json.Marshal(record); err != nil {
		return err
	}
	_, err = p.Store.Save(ctx, key, value, revision)
	return err
}
