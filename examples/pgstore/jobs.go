package pgstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/examples/internal/controller"
	"github.com/tranche-dev/tranche/rollout"
)

// Jobs are the host's jobs, in the tables release_job, concurrency_pool and
// concurrency_pool_member, beside the records of a [Store]. It is a [concurrency.JobCounter] and
// safe for concurrent use. Names must not hold the character NUL, which text in PostgreSQL cannot.
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

// transaction runs do, bounded in time, in one transaction. Its level is stated, whatever the
// server's default: at others a statement sees what there was when the transaction began, also if
// it has waited for a lock since. If this machine is lost, the server ends it, see committed.
func (j *Jobs) transaction(ctx context.Context, call, key string, do func(context.Context, pgx.Tx) error) error {
	ctx, cancel, err := j.store.begin(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	err = pgx.BeginTxFunc(ctx, j.store.pool, committed(j.store.timeout), func(tx pgx.Tx) error { return do(ctx, tx) })
	switch {
	case err == nil:
		return nil
	case errors.Is(err, controller.ErrBusy), errors.Is(err, controller.ErrOvertaken), errors.Is(err, concurrency.ErrFenced), errors.Is(err, bracket.ErrConflict), errors.Is(err, bracket.ErrNotFound):
		return fmt.Errorf("pgstore: %s: %w", call, err)
	}
	return j.store.fail(ctx, call, key, err)
}

// SetPool implements controller.Jobs. The row of the pool is locked first, so that two calls do not
// mix their members.
func (j *Jobs) SetPool(ctx context.Context, pool string, resources []string) error {
	distinct := slices.Compact(slices.Sorted(slices.Values(resources)))
	return j.transaction(ctx, "set the members of pool", pool, func(ctx context.Context, tx pgx.Tx) error {
		var all pgx.Batch
		all.Queue(`INSERT INTO concurrency_pool (key) VALUES ($1) ON CONFLICT (key) DO UPDATE SET key = excluded.key`, pool)
		all.Queue(`DELETE FROM concurrency_pool_member WHERE pool_key = $1`, pool)
		all.Queue(`INSERT INTO concurrency_pool_member (pool_key, resource_id) SELECT $1, unnest($2::text[])`, pool, distinct)
		return tx.SendBatch(ctx, &all).Close()
	})
}

// Active implements [concurrency.JobCounter]: one statement, so members and jobs are of one
// instant.
func (j *Jobs) Active(ctx context.Context, pool string) ([]concurrency.Holder, error) {
	ctx, cancel, err := j.store.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer cancel()
	rows, err := j.store.pool.Query(ctx, `SELECT DISTINCT j.resource_id, j.group_id FROM release_job j
		JOIN concurrency_pool_member m ON m.resource_id = j.resource_id AND m.pool_key = $1 WHERE j.active ORDER BY j.resource_id, j.group_id`, pool)
	if err == nil {
		var holders []concurrency.Holder
		if holders, err = pgx.CollectRows(rows, pgx.RowToStructByPos[concurrency.Holder]); err == nil {
			return holders, nil
		}
	}
	return nil, j.store.fail(ctx, "count the jobs of pool", pool, err)
}

const columns = `run, resource_id, environment_id, deployment_id, version_id, group_id, status, created_ns, completed_ns`

func scan(row pgx.CollectableRow) (Job, error) {
	var job Job
	var status string
	var created, completed *int64
	err := row.Scan(&job.Run, &job.Resource, &job.Environment, &job.Deployment, &job.Version, &job.Group, &status, &created, &completed)
	job.Status, job.CreatedAt, job.CompletedAt = rollout.JobStatus(status), instant(created), instant(completed)
	return job, err
}

func instant(nanoseconds *int64) time.Time {
	if nanoseconds == nil {
		return time.Time{}
	}
	return time.Unix(0, *nanoseconds).UTC()
}

func nanoseconds(at time.Time) *int64 {
	if at.IsZero() {
		return nil
	}
	n := at.UnixNano()
	return &n
}

func arguments(job Job) []any {
	return []any{job.Run, job.Resource, job.Environment, job.Deployment, job.Version, job.Group, string(job.Status), nanoseconds(job.CreatedAt), nanoseconds(job.CompletedAt)}
}

// busy tells that the index of active targets refused a job.
func busy(run string, err error) error {
	var refused *pgconn.PgError
	if errors.As(err, &refused) && refused.Code == "23505" && refused.ConstraintName == "release_job_busy" {
		return fmt.Errorf("run %s: %w", run, controller.ErrBusy)
	}
	return err
}

// arrive makes this transaction the only one that adds jobs to a target, until it ends. Targets
// whose names have the same hash share a lock, which costs a wait; those of other schemas have
// other locks. It is the first lock that a transaction takes, so nobody waits for one that waits
// here.
func arrive(ctx context.Context, tx pgx.Tx, target rollout.TargetID) error {
	if target.Deployment == "" {
		return nil
	}
	_, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended($1, 'release_job'::regclass::oid::bigint))`, target.Key())
	return err
}

// All implements controller.Jobs: one statement, so it is one instant.
func (j *Jobs) All(ctx context.Context) ([]Job, error) {
	ctx, cancel, err := j.store.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer cancel()
	rows, err := j.store.pool.Query(ctx, `SELECT `+columns+` FROM release_job ORDER BY run`)
	if err == nil {
		var jobs []Job
		if jobs, err = pgx.CollectRows(rows, scan); err == nil {
			return jobs, nil
		}
	}
	return nil, j.store.fail(ctx, "list", "jobs", err)
}

// Put implements controller.Jobs.
func (j *Jobs) Put(ctx context.Context, job Job) error {
	if err := job.Validate(); err != nil {
		return err
	}
	return j.transaction(ctx, "put job", job.Run, func(ctx context.Context, tx pgx.Tx) error { return put(ctx, tx, job) })
}

func put(ctx context.Context, tx pgx.Tx, job Job) error {
	if err := arrive(ctx, tx, job.TargetID); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `INSERT INTO release_job (`+columns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT (run) DO UPDATE SET
		resource_id = excluded.resource_id, environment_id = excluded.environment_id, deployment_id = excluded.deployment_id, version_id = excluded.version_id,
		group_id = excluded.group_id, status = excluded.status, created_ns = excluded.created_ns, completed_ns = excluded.completed_ns`, arguments(job)...)
	return busy(job.Run, err)
}

// Report implements controller.Jobs.
func (j *Jobs) Report(ctx context.Context, run string, status rollout.JobStatus, at time.Time) error {
	return j.transaction(ctx, "report job", run, func(ctx context.Context, tx pgx.Tx) error { return report(ctx, tx, run, status, at) })
}

func report(ctx context.Context, tx pgx.Tx, run string, status rollout.JobStatus, at time.Time) error {
	rows, err := tx.Query(ctx, `SELECT `+columns+` FROM release_job WHERE run = $1 FOR UPDATE`, run)
	if err != nil {
		return err
	}
	job, err := pgx.CollectExactlyOneRow(rows, scan)
	if errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("run %s: %w", run, bracket.ErrNotFound)
	}
	if err != nil {
		return err
	}
	next, changed, err := job.Reported(status, at)
	if err != nil || !changed {
		return err
	}
	_, err = tx.Exec(ctx, `UPDATE release_job SET status = $2, completed_ns = $3 WHERE run = $1`, run, string(next.Status), nanoseconds(next.CompletedAt))
	return err
}

// Dispatch implements controller.Jobs. The records of the claimed pools are locked while the job is
// created: a lease is there until it exists, or it is not created, whatever happened to this
// process in between. So is the target, so that its jobs are counted when nobody is adding one.
func (j *Jobs) Dispatch(ctx context.Context, start rollout.Start, seen int, at time.Time) (created bool, err error) {
	job := controller.NewJob(start, at)
	if err := job.Validate(); err != nil {
		return false, err
	}
	claims := slices.Clone(start.Claims) // locked in the order of their keys, by everybody
	slices.SortFunc(claims, func(a, b rollout.Claim) int {
		return strings.Compare(rollout.PoolRecordKey(a.Pool), rollout.PoolRecordKey(b.Pool))
	})
	err = j.transaction(ctx, "dispatch", start.Run, func(ctx context.Context, tx pgx.Tx) error {
		created = false
		if err := arrive(ctx, tx, job.TargetID); err != nil {
			return err
		}
		for _, claim := range claims {
			record := concurrency.NewRecord(claim.Pool)
			var value []byte
			switch err := tx.QueryRow(ctx, `SELECT value FROM tranche_record WHERE key = $1 FOR SHARE`, []byte(rollout.PoolRecordKey(claim.Pool))).Scan(&value); {
			case errors.Is(err, pgx.ErrNoRows):
			case err != nil:
				return err
			default:
				if record, err = concurrency.ParseRecord(value); err != nil {
					return fmt.Errorf("%s: %w", rollout.PoolRecordKey(claim.Pool), err)
				}
			}
			if err := start.Held(record); err != nil {
				return err
			}
		}
		var exists bool
		var n, active int
		if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM release_job WHERE run = $1), count(*), count(*) FILTER (WHERE active) FROM release_job
			WHERE resource_id = $2 AND environment_id = $3 AND deployment_id = $4 AND deployment_id <> ''`,
			job.Run, job.Resource, job.Environment, job.Deployment).Scan(&exists, &n, &active); err != nil {
			return err
		}
		switch {
		case exists:
			return nil
		case active > 0:
			return fmt.Errorf("run %s: %w", job.Run, controller.ErrBusy)
		case n > seen:
			return fmt.Errorf("run %s: %d jobs were seen, there are %d: %w", job.Run, seen, n, controller.ErrOvertaken)
		}
		done, err := tx.Exec(ctx, `INSERT INTO release_job (`+columns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT (run) DO NOTHING`, arguments(job)...)
		created = err == nil && done.RowsAffected() == 1
		return busy(job.Run, err)
	})
	return created && err == nil, err
}
