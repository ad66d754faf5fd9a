package rollout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/clock"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/internal/strictjson"
	"github.com/tranche-dev/tranche/internal/textkey"
)

// Planner is the thin shell around [PolicySet.Plan] for hosts that want load, plan and save done for them. Everything it does a host
// can do itself. Several planners may work on one store: every save is conditional, so a decision that was made on stale state is made again.
// It is safe for concurrent use if its parts are.
type Planner struct {
	Policies   *PolicySet             // required
	Store      bracket.Store          // required
	Clock      clock.Clock            // required; usually [clock.System]
	JobCounter concurrency.JobCounter // nil: leases, open executions and the active jobs of the targets count, which are all if every job comes from a plan

	// Recorder, unless nil, is handed every plan that was saved, before it is returned: for a decision log. It must not change the recording, which
	// shares its memory with the plan and the host's snapshot, and must not keep it: it encodes what it wants to keep. Policies are left out.
	Recorder func(Recording)
}

// attemptsPerPlan bounds how often a plan is made again because somebody else saved first.
const attemptsPerPlan = 3

// Plan reads the stored state, plans, commits all starts, saves what changed, and returns the plan; its starts are then to be dispatched,
// create-if-absent by their run ids. The State and Active of the snapshot are ignored and replaced.
//
// The snapshot is older than the state, and after a conflict by so much more. That exceeds no limit as far as jobs go: one that is over by now keeps its
// place until it is seen to be over, and opens none to others. What the snapshot lists as unavailable is believed.
//
// If another planner saved first it reads and plans again, at most three times in all, and then returns [bracket.ErrConflict]. Any other error of
// the store or the counter is returned at once. With an error there is no plan and nothing may be dispatched; what was saved by then is
// found again by the next plan, which offers the same runs.
func (p *Planner) Plan(ctx context.Context, snapshot Snapshot) (Plan, error) {
	var conflict error
	for range attemptsPerPlan {
		plan, err := p.attempt(ctx, snapshot)
		if !errors.Is(err, bracket.ErrConflict) {
			return plan, err
		}
		conflict = err
	}
	return Plan{}, fmt.Errorf("rollout: gave up after %d attempts: %w", attemptsPerPlan, conflict)
}

func (p *Planner) attempt(ctx context.Context, snapshot Snapshot) (Plan, error) {
	now := p.Clock.Now()
	stored, err := p.load(ctx)
	if err != nil {
		return Plan{}, fmt.Errorf("rollout: load state: %w", err)
	}
	snapshot.State, snapshot.Active = stored.state, nil
	if p.JobCounter != nil {
		if snapshot.Active, err = p.count(ctx, snapshot.Resources); err != nil {
			return Plan{}, err
		}
	}
	plan, err := p.Policies.Plan(snapshot, now)
	if err != nil {
		return Plan{}, err
	}
	if plan.State, err = plan.Commit(plan.Start, now); err != nil {
		return Plan{}, err
	}
	if err := p.save(ctx, stored, plan.State); err != nil {
		return Plan{}, fmt.Errorf("rollout: save state: %w", err)
	}
	if p.Recorder != nil {
		p.Recorder(Recording{Schema: recordingSchema, Snapshot: snapshot, Plan: plan})
	}
	return plan, nil
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

// stored is the state with the revision of each record under its key.
type stored struct {
	state     State
	revisions map[string]int64
}

// Keys of the records in the store. Those of brackets are [bracket.GroupKey] and [bracket.ExecutionKey].
const (
	rolloutKeys = "rollout/"
	poolKeys    = "pool/"
)

// PoolRecordKey is the store key of a pool's record. A host whose jobs live in the same store reads it, in the transaction that creates a job, to see
// whether the claims of the start still hold: a planner that was paused in between may have lost them.
func PoolRecordKey(pool string) string { return textkey.Join("pool", pool) }

func recordKey(r RolloutRecord) string {
	return textkey.Join("rollout", r.Rule, r.Environment, r.Deployment, r.Version, r.Group)
}

// load reads the pools before everything else that says who is down: executions, and then the counter's jobs. Who was down when these were read had a
// place in the pools as they were, or has got one since; then they have changed, and the claims made on them are not saved. The other way round
// an execution that ended in between would let somebody start on a place that another resource has by now.
func (p *Planner) load(ctx context.Context) (stored, error) {
	s := stored{revisions: map[string]int64{}}
	groups, executions := bracket.GroupKey("", ""), bracket.ExecutionKey("", "")
	groups, executions = groups[:len(groups)-1], executions[:len(executions)-1]
	for _, kind := range []struct {
		prefix string
		decode func(bracket.Entry) error
	}{
		{poolKeys, func(e bracket.Entry) error {
			record, err := concurrency.ParseRecord(e.Value)
			record.Revision = uint64(e.Revision)
			s.state.Pools = append(s.state.Pools, record)
			return err
		}},
		{groups, func(e bracket.Entry) error { return decode(e, &s.state.Brackets) }},
		{executions, func(e bracket.Entry) error { return decode(e, &s.state.Executions) }},
		{rolloutKeys, func(e bracket.Entry) error { return decodeRollout(e, &s.state.Rollouts) }},
	} {
		entries, err := p.Store.List(ctx, kind.prefix)
		if err != nil {
			return stored{}, err
		}
		for _, entry := range entries {
			if err := kind.decode(entry); err != nil {
				return stored{}, fmt.Errorf("%s: %v", entry.Key, err) // not wrapped: a FieldError is a fault of what the host was given
			}
			s.revisions[entry.Key] = entry.Revision
		}
	}
	return s, nil
}

func decodeRollout(entry bracket.Entry, list *[]RolloutRecord) error {
	if err := decode(entry, list); err != nil {
		return err
	}
	record := (*list)[len(*list)-1]
	if err := record.validate(); err != nil {
		return err
	}
	if recordKey(record) != entry.Key {
		return fmt.Errorf("the record belongs under the key %s", recordKey(record))
	}
	return nil
}

func decode[T any](entry bracket.Entry, list *[]T) error {
	var record T
	if err := strictjson.Unmarshal(entry.Value, &record); err != nil {
		return err
	}
	*list = append(*list, record)
	return nil
}

// save writes what changed: groups, rollouts, executions that ended, leases, executions that began or go on. A lease is given back only after the
// end of its execution was saved: another planner may have merged a newer group into it meanwhile, and then that save conflicts and the
// lease stays. A lease is taken before the execution that needs it is saved. A crash between any two writes is repaired by the next plan:
// what was claimed and never started is offered again, if the pools that were not reached still have a place for it, and a lease of what has ended is found
// and released.
func (p *Planner) save(ctx context.Context, old stored, next State) error {
	put := func(key string, record any) error {
		value, err := json.Marshal(record)
		if err == nil {
			old.revisions[key], err = p.Store.Save(ctx, key, value, old.revisions[key])
		}
		return err
	}
	groups := make(map[*bracket.GroupRecord]bool, len(old.state.Brackets))
	for _, record := range old.state.Brackets {
		groups[record] = true
	}
	for _, record := range next.Brackets {
		if !groups[record] {
			if err := put(bracket.GroupKey(record.Rule, record.Environment), record); err != nil {
				return err
			}
		}
	}
	for _, record := range next.Rollouts {
		if key := recordKey(record); old.revisions[key] == 0 {
			if err := put(key, record); err != nil {
				return err
			}
		}
	}
	kept := make(map[*bracket.ExecutionRecord]bool, len(old.state.Executions))
	for _, record := range old.state.Executions {
		kept[record] = true
	}
	executions := func(open bool) error {
		for _, record := range next.Executions {
			if !kept[record] && (record.Open != nil) == open {
				if err := put(bracket.ExecutionKey(record.Rule, record.Resource), record); err != nil {
					return err
				}
			}
		}
		return nil
	}
	if err := executions(false); err != nil {
		return err
	}
	if err := saveEnds(put, old, next); err != nil {
		return err
	}
	families := p.Policies.families()
	pools := func(family bool) error {
		for _, record := range next.Pools {
			if families[record.Key] == family && recordChanged(record, old.state.Pools) {
				if err := put(PoolRecordKey(record.Key), record); err != nil {
					return err
				}
			}
		}
		return nil
	}
	if err := pools(false); err != nil {
		return err
	}
	if err := pools(true); err != nil { // whoever reads it now sees the leases that it stands for
		return err
	}
	if err := executions(true); err != nil {
		return err
	}
	return p.forget(ctx, old, next)
}

// saveEnds saves the ends of executions on whose resource another one of the rule begins in the same plan: the record as it is with the new one comes after the
// slots, which were given to others by then.
func saveEnds(put func(key string, record any) error, old stored, next State) error {
	before := make(map[string]*bracket.Execution, len(old.state.Executions))
	for _, record := range old.state.Executions {
		before[bracket.ExecutionKey(record.Rule, record.Resource)] = record.Open
	}
	for _, record := range next.Executions {
		key := bracket.ExecutionKey(record.Rule, record.Resource)
		if !begins(before[key], record.Open) {
			continue
		}
		ended := *record
		ended.Open = nil
		if err := put(key, &ended); err != nil {
			return err
		}
	}
	return nil
}

// begins reports whether another execution is open in a record than was: then that one has ended.
func begins(before, open *bracket.Execution) bool {
	return before != nil && open != nil && open.Group != before.Group && !slices.Contains(open.Merged, before.Group)
}

// forget deletes the records of rollouts that no version or group needs any more.
func (p *Planner) forget(ctx context.Context, old stored, next State) error {
	needed := make(map[rolloutKey]bool, len(next.Rollouts))
	for _, record := range next.Rollouts {
		needed[record.key()] = true
	}
	for _, record := range old.state.Rollouts {
		if needed[record.key()] {
			continue
		}
		key := recordKey(record)
		if err := p.Store.Delete(ctx, key, old.revisions[key]); err != nil && !errors.Is(err, bracket.ErrNotFound) {
			return err
		}
	}
	return nil
}

// recordChanged compares by identity: records are immutable values that share their leases until they change.
func recordChanged(record concurrency.Record, old []concurrency.Record) bool {
	k, known := slices.BinarySearchFunc(old, record.Key, func(r concurrency.Record, key string) int { return strings.Compare(r.Key, key) })
	if !known {
		return len(record.Leases) > 0 || record.NextToken > 1
	}
	before := old[k].Leases
	return len(before) != len(record.Leases) || old[k].NextToken != record.NextToken || len(before) > 0 && &before[0] != &record.Leases[0]
}
