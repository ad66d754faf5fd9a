package pgstore

import (
	"context"
	"flag"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/examples/internal/controller/controllertest"
	"github.com/tranche-dev/tranche/rollout"
)

var (
	schedules = flag.Int("schedules", 6, "how many `schedules` of killed, paused and disconnected controllers to run")
	firstSeed = flag.Uint64("seed", 1, "`seed` of the first schedule")
)

// open connects to the server whose socket is in the directory address, in a schema.
func open(ctx context.Context, address, space string) (controllertest.Database, error) {
	pool, err := connect(ctx, address, space)
	if err != nil {
		return controllertest.Database{}, err
	}
	jobs := NewJobs(NewStore(pool, 0))
	return controllertest.Database{Store: jobs.store, Jobs: jobs, Close: pool.Close, End: jobs.end}, nil
}

// end reports the end of a job, while nobody can create one.
func (j *Jobs) end(ctx context.Context, run string, status rollout.JobStatus, at time.Time) (active []concurrency.Holder, err error) {
	err = j.transaction(ctx, "end job", run, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `LOCK TABLE release_job IN SHARE ROW EXCLUSIVE MODE`); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, `SELECT resource_id, group_id FROM release_job WHERE active`)
		if err != nil {
			return err
		}
		if active, err = pgx.CollectRows(rows, pgx.RowToStructByPos[concurrency.Holder]); err != nil {
			return err
		}
		return report(ctx, tx, run, status, at)
	})
	return active, err
}

func driver(s *server) controllertest.Driver {
	return controllertest.Driver{
		Name: "postgresql", Dumps: "../internal/controller/controllertest/testdata",
		Open: open,
		Space: func(tb testing.TB) string {
			_, schema := newSchema(tb, s)
			return schema
		},
		Network: "unix", Servers: []string{s.socket()}, Address: s.dir,
		Listen: func(tb testing.TB) ([]net.Listener, string) {
			dir, err := os.MkdirTemp("", "px")
			if err != nil {
				tb.Fatal(err)
			}
			tb.Cleanup(func() { os.RemoveAll(dir) })
			listener, err := net.Listen("unix", filepath.Join(dir, ".s.PGSQL.5432"))
			if err != nil {
				tb.Fatal(err)
			}
			return []net.Listener{listener}, dir
		},
	}
}

func TestHost(t *testing.T) {
	controllertest.RunHost(t, driver(sharedServer(t)))
}

func TestSchedules(t *testing.T) {
	controllertest.RunSchedules(t, driver(sharedServer(t)), *schedules, *firstSeed)
}

// TestHistory: one order of the writes explains what each of four clients was told while its
// network failed.
func TestHistory(t *testing.T) {
	controllertest.RunHistory(t, driver(sharedServer(t)), *firstSeed)
}

// TestHistoryWhileTheServerCrashes: and it does so across recoveries.
func TestHistoryWhileTheServerCrashes(t *testing.T) {
	if tally := controllertest.RunHistory(t, crashing(t), *firstSeed); tally.Count("disturbed") == 0 {
		t.Error("the server was never killed")
	}
}

// crashing is a server that is killed, and recovers.
func crashing(t *testing.T) controllertest.Driver {
	s, err := newServer(false)
	require(t, err)
	t.Cleanup(s.stop)
	d := driver(s)
	d.Disturb = func() error {
		s.kill()
		return s.start()
	}
	return d
}

// TestSchedulesWhileTheServerCrashes kills the server too. What it had confirmed is there when it
// has recovered.
func TestSchedulesWhileTheServerCrashes(t *testing.T) {
	tally := controllertest.RunSchedules(t, crashing(t), max(2, *schedules/10), *firstSeed)
	if tally.Count("disturbed") == 0 {
		t.Error("the server was never killed")
	}
}
