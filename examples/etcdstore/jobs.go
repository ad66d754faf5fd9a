package etcdstore

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/examples/internal/controller"
	"github.com/tranche-dev/tranche/rollout"
)

// Jobs are the host's jobs, below the prefix of a [Store]:
//
//	job/RUN        the job
//	active/RUN     its holder, while it is not terminal: counting reads what is active, not what ever was
//	busy/TARGET    the run that is active on a release target
//	on/TARGET/RUN  nothing, for each job that a release target has or had
//	pool/KEY       the members of a pool, one value of at most 1.5 MiB
//
// It is a [concurrency.JobCounter] and safe for concurrent use.
type Jobs struct{ store *Store }

var _ controller.Jobs = (*Jobs)(nil)

// Job is a job as [Jobs.Put] takes it and [Jobs.All] returns it.
type Job = controller.Job

// What [Jobs.Dispatch] returns if it creates no job, besides [concurrency.ErrFenced], and ErrBusy
// also [Jobs.Put].
var (
	ErrBusy      = controller.ErrBusy      // another job is active on the target
	ErrOvertaken = controller.ErrOvertaken // jobs came to the target, and ended, that the plan did not see
)

// NewJobs returns the jobs beside the records of a store.
func NewJobs(store *Store) *Jobs { return &Jobs{store} }

func (j *Jobs) jobKey(run string) string    { return j.store.prefix + "job/" + run }
func (j *Jobs) activeKey(run string) string { return j.store.prefix + "active/" + run }
func (j *Jobs) poolKey(pool string) string  { return j.store.prefix + "pool/" + pool }
func (j *Jobs) busyKey(t rollout.TargetID) string {
	return j.store.prefix + "busy/" + t.Key()
}

// onKey is below a prefix that no other target has: no part of a joined name holds a slash.
func (j *Jobs) onKey(t rollout.TargetID, run string) string {
	return j.store.prefix + "on/" + t.Key() + "/" + run
}

// SetPool implements controller.Jobs.
func (j *Jobs) SetPool(ctx context.Context, pool string, resources []string) error {
	ctx, cancel, err := j.store.begin(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	if err := controller.CheckPool(pool, resources); err != nil {
		return err
	}
	value, err := json.Marshal(resources)
	if err != nil {
		return err
	}
	if _, err := j.store.client.Put(ctx, j.poolKey(pool), string(value)); err != nil {
		return j.store.fail(ctx, "set the members of pool", pool, err)
	}
	return nil
}

// Active implements [concurrency.JobCounter]. Members and jobs are read at one revision. It costs
// one pass over the active jobs and the members of the pool.
func (j *Jobs) Active(ctx context.Context, pool string) ([]concurrency.Holder, error) {
	ctx, cancel, err := j.store.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer cancel()
	prefix := j.activeKey("")
	read, err := j.store.client.Txn(ctx).Then(clientv3.OpGet(j.poolKey(pool)), clientv3.OpGet(prefix, clientv3.WithPrefix())).Commit()
	if err != nil {
		return nil, j.store.fail(ctx, "count the jobs of pool", pool, err)
	}
	pools := read.Responses[0].GetResponseRange().Kvs
	if len(pools) == 0 {
		return nil, nil
	}
	var resources []string
	if err := json.Unmarshal(pools[0].Value, &resources); err != nil {
		return nil, fmt.Errorf("etcdstore: members of pool %q: %w", pool, err)
	}
	members := make(map[string]bool, len(resources))
	for _, resource := range resources {
		members[resource] = true
	}
	var holders []concurrency.Holder
	for _, kv := range read.Responses[1].GetResponseRange().Kvs {
		var holder concurrency.Holder
		if err := json.Unmarshal(kv.Value, &holder); err != nil {
			return nil, fmt.Errorf("etcdstore: %s: %w", kv.Key, err)
		}
		if members[holder.Resource] {
			holders = append(holders, holder)
		}
	}
	slices.SortFunc(holders, func(a, b concurrency.Holder) int {
		return cmp.Or(cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Group, b.Group))
	})
	return slices.Compact(holders), nil
}

// All implements controller.Jobs. All pages are read at one revision.
func (j *Jobs) All(ctx context.Context) ([]Job, error) {
	ctx, cancel, err := j.store.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer cancel()
	var jobs []Job
	err = j.store.pages(ctx, j.jobKey(""), func() { jobs = nil }, func(key string, value []byte, _ int64) error {
		var job Job
		if err := json.Unmarshal(value, &job); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		jobs = append(jobs, job)
		return nil
	})
	if err != nil {
		return nil, j.store.fail(ctx, "list", "jobs", err)
	}
	return jobs, nil
}

// errChanged makes a transaction be tried again.
var errChanged = errors.New("what was read has changed")

// change reads and writes until nothing changed in between, for a bounded number of times.
func (j *Jobs) change(ctx context.Context, call, run string, try func(context.Context) error) error {
	ctx, cancel, err := j.store.begin(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	for range attempts {
		switch err := try(ctx); {
		case err == nil:
			return nil
		case errors.Is(err, errChanged):
		case errors.Is(err, controller.ErrBusy), errors.Is(err, controller.ErrOvertaken), errors.Is(err, concurrency.ErrFenced), errors.Is(err, bracket.ErrConflict), errors.Is(err, bracket.ErrNotFound):
			return fmt.Errorf("etcdstore: %s: %w", call, err)
		default:
			return j.store.fail(ctx, call, run, err)
		}
	}
	return fmt.Errorf("etcdstore: %s %s: others changed it %d times in a row: %w", call, run, attempts, bracket.ErrConflict)
}

// load reads a job. A missing one has revision 0.
func (j *Jobs) load(ctx context.Context, run string) (job Job, revision int64, err error) {
	found, err := j.store.client.Get(ctx, j.jobKey(run))
	if err != nil || len(found.Kvs) == 0 {
		return job, 0, err
	}
	err = json.Unmarshal(found.Kvs[0].Value, &job)
	return job, found.Kvs[0].ModRevision, err
}

// write replaces old, which was read at the given revision, by job, together with what is derived
// from it.
func (j *Jobs) write(ctx context.Context, old Job, revision int64, job Job, also ...clientv3.Cmp) error {
	value, err := json.Marshal(job)
	if err != nil {
		return err
	}
	holder, err := json.Marshal(job.Holder())
	if err != nil {
		return err
	}
	conditions := append(also, clientv3.Compare(clientv3.ModRevision(j.jobKey(job.Run)), "=", revision))
	effects := []clientv3.Op{clientv3.OpPut(j.jobKey(job.Run), string(value))}
	was := revision > 0 && !old.Status.Terminal()
	arrives := false // it becomes active on a target, so no other job may be
	if is := !job.Status.Terminal(); is {
		effects = append(effects, clientv3.OpPut(j.activeKey(job.Run), string(holder)))
		if job.Deployment != "" {
			busy := j.busyKey(job.TargetID)
			effects = append(effects, clientv3.OpPut(busy, job.Run))
			if arrives = !was || old.TargetID != job.TargetID; arrives {
				conditions = append(conditions, clientv3.Compare(clientv3.CreateRevision(busy), "=", 0))
			}
		}
	} else if was {
		effects = append(effects, clientv3.OpDelete(j.activeKey(job.Run)))
	}
	if was && old.Deployment != "" && (job.Status.Terminal() || old.TargetID != job.TargetID) {
		effects = append(effects, clientv3.OpDelete(j.busyKey(old.TargetID)))
	}
	if moved := old.TargetID != job.TargetID; revision == 0 || moved {
		if job.Deployment != "" {
			effects = append(effects, clientv3.OpPut(j.onKey(job.TargetID, job.Run), ""))
		}
		if revision > 0 && old.Deployment != "" {
			effects = append(effects, clientv3.OpDelete(j.onKey(old.TargetID, job.Run)))
		}
	}
	done, err := j.store.client.Txn(ctx).If(conditions...).Then(effects...).Else(clientv3.OpGet(j.busyKey(job.TargetID))).Commit()
	if err != nil || done.Succeeded {
		return err
	}
	if kvs := done.Responses[0].GetResponseRange().Kvs; arrives && len(kvs) > 0 && string(kvs[0].Value) != job.Run {
		return fmt.Errorf("run %s: run %s: %w", job.Run, kvs[0].Value, controller.ErrBusy)
	}
	return errChanged
}

// Put implements controller.Jobs.
func (j *Jobs) Put(ctx context.Context, job Job) error {
	if err := job.Validate(); err != nil {
		return err
	}
	return j.change(ctx, "put job", job.Run, func(ctx context.Context) error {
		old, revision, err := j.load(ctx, job.Run)
		if err != nil {
			return err
		}
		return j.write(ctx, old, revision, job)
	})
}

// Report implements controller.Jobs.
func (j *Jobs) Report(ctx context.Context, run string, status rollout.JobStatus, at time.Time) error {
	return j.change(ctx, "report job", run, func(ctx context.Context) error {
		old, revision, err := j.load(ctx, run)
		if err != nil {
			return err
		}
		if revision == 0 {
			return fmt.Errorf("run %s: %w", run, bracket.ErrNotFound)
		}
		next, changed, err := old.Reported(status, at)
		if err != nil || !changed {
			return err
		}
		return j.write(ctx, old, revision, next)
	})
}

// Dispatch implements controller.Jobs. The transaction compares the revisions at which the pools of
// the claims were read: a lease that was given back or lost meanwhile makes it fail, whatever
// happened to this process in between. So does a job that came to the target since its jobs were
// counted; then they are counted again.
func (j *Jobs) Dispatch(ctx context.Context, start rollout.Start, seen int, at time.Time) (created bool, err error) {
	job := controller.NewJob(start, at)
	if err := job.Validate(); err != nil {
		return false, err
	}
	err = j.change(ctx, "dispatch", start.Run, func(ctx context.Context) error {
		created = false
		conditions, err := j.held(ctx, start)
		if err != nil {
			return err
		}
		on := j.onKey(job.TargetID, "")
		read, err := j.store.client.Txn(ctx).Then(clientv3.OpGet(j.jobKey(job.Run), clientv3.WithKeysOnly()), clientv3.OpGet(j.busyKey(job.TargetID)),
			clientv3.OpGet(on, clientv3.WithPrefix(), clientv3.WithCountOnly())).Commit()
		if err != nil {
			return err
		}
		exists, busy, n := read.Responses[0].GetResponseRange().Kvs, read.Responses[1].GetResponseRange().Kvs, read.Responses[2].GetResponseRange().Count
		switch {
		case len(exists) > 0:
			return nil
		case len(busy) > 0:
			return fmt.Errorf("run %s: run %s: %w", job.Run, busy[0].Value, controller.ErrBusy)
		case n > int64(seen):
			return fmt.Errorf("run %s: %d jobs were seen, there are %d: %w", job.Run, seen, n, controller.ErrOvertaken)
		}
		conditions = append(conditions, clientv3.Compare(clientv3.CreateRevision(on), "<", read.Header.Revision+1).WithPrefix())
		err = j.write(ctx, Job{}, 0, job, conditions...)
		created = err == nil
		return err
	})
	return created, err
}

// held checks the claims of a start, and returns the conditions under which what was found still
// holds.
func (j *Jobs) held(ctx context.Context, start rollout.Start) ([]clientv3.Cmp, error) {
	conditions := make([]clientv3.Cmp, 0, len(start.Claims)+3)
	for _, claim := range start.Claims {
		key := rollout.PoolRecordKey(claim.Pool)
		found, err := j.store.client.Get(ctx, j.store.recordKey(key))
		if err != nil {
			return nil, err
		}
		record, revision := concurrency.NewRecord(claim.Pool), int64(0)
		if len(found.Kvs) > 0 {
			if record, err = concurrency.ParseRecord(found.Kvs[0].Value); err != nil {
				return nil, fmt.Errorf("%s: %w", key, err)
			}
			revision = found.Kvs[0].ModRevision
		}
		if err := start.Held(record); err != nil {
			return nil, err
		}
		conditions = append(conditions, clientv3.Compare(clientv3.ModRevision(j.store.recordKey(key)), "=", revision))
	}
	return conditions, nil
}
