package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/examples/controller/api/v1alpha1"
	"github.com/tranche-dev/tranche/rollout"
)

// fence is the [bracket.Store] of the plans of one turn. An execution may give up a run that was
// started and whose job nobody has seen: a person resolves or abandons the execution or skips the
// member, or the target was taken to a newer version by other means. Its slot may be another
// machine's soon. A controller that sleeps with that start in hand must not create the job then.
//
// Therefore an execution's record that gives up such a run is saved only after the run is revoked
// in the record of its target, see [dispatcher.revoke]. Whoever gives up a run names, by the
// revision of the execution's record, all that it knows of the execution, so none is missed: if
// another run was started meanwhile, the save conflicts. Slots are given back after that save, by
// this controller or by any other one.
//
// If the job exists the slots were perhaps counted without it. Then the plan is made again.
type fence struct {
	*Store
	jobs *dispatcher
	seen *observation

	executions map[string][]byte // their records, by key, as they were listed or saved last
	found      map[string]bool   // runs whose job existed at the last conflict: since then it was counted
}

// executionKeys is the prefix of the keys of all execution records.
var executionKeys = strings.TrimSuffix(bracket.ExecutionKey("", ""), "/")

// List implements [bracket.Store].
func (f *fence) List(ctx context.Context, prefix string) ([]bracket.Entry, error) {
	entries, err := f.Store.List(ctx, prefix)
	for _, entry := range entries {
		if strings.HasPrefix(entry.Key, executionKeys) {
			f.executions[entry.Key] = entry.Value
		}
	}
	return entries, err
}

// Save implements [bracket.Store].
func (f *fence) Save(ctx context.Context, key string, value []byte, revision int64) (int64, error) {
	before, listed := f.executions[key]
	if listed {
		if err := f.giveUp(ctx, before, value); err != nil {
			return 0, err
		}
	}
	next, err := f.Store.Save(ctx, key, value, revision)
	if listed && err == nil {
		f.executions[key] = value
	}
	return next, err
}

// giveUp revokes the runs that are in progress by an execution's record and not by the next one,
// unless their jobs were seen.
func (f *fence) giveUp(ctx context.Context, before, next []byte) error {
	started, err := inProgress(before)
	if err != nil || len(started) == 0 {
		return err
	}
	still, err := inProgress(next)
	if err != nil {
		return err
	}
	counted := true
	for _, run := range started {
		id := run.String()
		if slices.ContainsFunc(still, func(r running) bool { return r.Run == run.Run }) || f.found[id] || f.seen.hasJob(id) {
			continue
		}
		gone := slices.Contains(f.seen.snapshot.DeletedResources, run.Resource)
		exists, err := f.jobs.revoke(ctx, run.target(), id, gone)
		if err != nil {
			return err
		}
		if exists {
			f.found[id], counted = true, false
		}
	}
	if !counted {
		return bracket.ErrConflict
	}
	return nil
}

// running is a run of a bracket that was started and has not ended.
type running struct {
	bracket.Run
	environment string
}

func (r running) target() rollout.TargetID {
	return rollout.TargetID{Resource: r.Resource, Environment: r.environment, Deployment: r.Deployment}
}

// inProgress returns the runs that are in progress by the record of an execution.
func inProgress(value []byte) (list []running, err error) {
	var record bracket.ExecutionRecord
	if err := json.Unmarshal(value, &record); err != nil {
		return nil, fmt.Errorf("controller: an execution's record: %w", err)
	}
	x := record.Open
	if x == nil {
		return nil, nil
	}
	for i := range x.Members {
		m := &x.Members[i]
		run := bracket.Run{Group: x.Group, Resource: record.Resource, Deployment: m.Deployment, Generation: x.Generation, Attempt: m.Attempt, Purpose: bracket.Deploy}
		switch m.Status {
		case bracket.MemberRunning:
		case bracket.MemberRollingBack:
			run.Purpose = bracket.Rollback
		default:
			continue
		}
		if m.Generation != 0 {
			run.Generation = m.Generation
		}
		list = append(list, running{run, x.Environment})
	}
	return list, nil
}

// revoke sees to it that no job comes of a run of a bracket, unless there is one, which it reports.
// Whoever has not yet written the record of the target will be refused. If the run is in the record
// its writer may be about to create the job, which cannot be prevented any more: then the job is
// created here. If the server refuses it, nobody has to wait for that: the run is taken out of
// the record, of which only its instant stays. Nor is a job created on a machine that is gone.
//
// The record is written even if it says so already: see takeBack.
func (d *dispatcher) revoke(ctx context.Context, id rollout.TargetID, run string, gone bool) (exists bool, err error) {
	key := targetKey(id)
	last, revision, err := d.last(ctx, key)
	if err != nil {
		return false, err
	}
	if last.Run == run {
		if !gone {
			if _, err := d.create(ctx, last.NodeJobSpec); !denied(err) {
				return err == nil, err
			}
		}
		last.NodeJobSpec = v1alpha1.NodeJobSpec{Turn: last.Turn - 1, CreatedAt: last.CreatedAt} // the next job is still younger than those before
	}
	if !slices.Contains(last.Revoked, run) {
		last.Revoked = append(last.Revoked, run)
	}
	record, err := json.Marshal(last)
	if err != nil {
		return false, err
	}
	_, err = d.store.Save(ctx, key, record, revision)
	return false, err
}

// takeBack takes the revocation of a run back if its execution goes on with it: whoever revoked it
// has died, or sleeps, before the save that gives it up. It reports whether the run may be
// dispatched. The record of the execution is written as it was read, so that that save conflicts;
// and before another save can give the run up the target's record is written again, so that the
// dispatch conflicts.
func (d *dispatcher) takeBack(ctx context.Context, start rollout.Start) (bool, error) {
	rule, _, _, _ := bracket.ParseGroupID(start.Group)
	key := bracket.ExecutionKey(rule, start.Resource)
	value, revision, err := d.store.Load(ctx, key)
	switch {
	case errors.Is(err, bracket.ErrNotFound):
		return false, nil
	case err != nil:
		return false, err
	}
	runs, err := inProgress(value)
	if err != nil || !slices.ContainsFunc(runs, func(r running) bool { return r.String() == start.Run }) {
		return false, err
	}
	switch _, err := d.store.Save(ctx, key, value, revision); {
	case errors.Is(err, bracket.ErrConflict):
		return false, nil
	case err != nil:
		return false, err
	}
	return true, nil
}
