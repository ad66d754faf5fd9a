package pgstore

import (
	"context"
	"errors"
	"math"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tranche-dev/tranche/examples/internal/controller"
	"github.com/tranche-dev/tranche/rollout"
)

// TestDispatchWaits: a job that another transaction adds to the target is counted once that has
// ended, also where transactions see by default what there was when they began. The other one is
// held up between its job and its end.
func TestDispatchWaits(t *testing.T) {
	s := sharedServer(t)
	start := rollout.Start{TargetID: rollout.TargetID{Resource: "r", Environment: "prod", Deployment: "app"}, Version: "v2", Run: "late", Group: "g"}
	at := time.Date(2026, 3, 10, 9, 0, 0, 0, time.UTC)
	for _, row := range []struct {
		why     string
		level   string // by default
		target  rollout.TargetID
		commits bool
		waits   bool
		want    error
	}{
		{"what is committed counts", "read committed", start.TargetID, true, true, ErrOvertaken},
		{"also if it was committed after this transaction began", "repeatable read", start.TargetID, true, true, ErrOvertaken},
		{"what is rolled back was never there", "read committed", start.TargetID, false, true, nil},
		{"other targets keep nobody waiting", "read committed", rollout.TargetID{Resource: "r", Environment: "prod", Deployment: "web"}, true, false, nil},
	} {
		t.Run(row.why, func(t *testing.T) {
			pool, schema := newSchema(t, s)
			config := pool.Config()
			config.ConnConfig.RuntimeParams["default_transaction_isolation"] = row.level
			config.ConnConfig.RuntimeParams["application_name"] = schema
			other, err := pgxpool.NewWithConfig(t.Context(), config)
			if err != nil {
				t.Fatal(err)
			}
			defer other.Close()
			jobs, late := NewJobs(NewStore(pool, 0)), NewJobs(NewStore(other, 0))

			added, end, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
			rolledBack := errors.New("rolled back")
			go func() {
				ended <- jobs.transaction(context.Background(), "put job", "first", func(ctx context.Context, tx pgx.Tx) error {
					job := controller.Job{TargetID: row.target, Job: rollout.Job{Run: "first", Version: "v3", Status: rollout.JobSuccessful, CreatedAt: at, CompletedAt: at}}
					err := put(ctx, tx, job)
					close(added)
					<-end
					if err == nil && !row.commits {
						err = rolledBack
					}
					return err
				})
			}()
			<-added
			type answer struct {
				created bool
				err     error
			}
			answered := make(chan answer, 1)
			go func() {
				created, err := late.Dispatch(context.Background(), start, 0, at)
				answered <- answer{created, err}
			}()
			var got answer
			if row.waits {
				waiting := false
				for deadline := time.Now().Add(4 * time.Second); !waiting && time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
					err := pool.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_locks l JOIN pg_stat_activity a USING (pid)
						WHERE l.locktype = 'advisory' AND NOT l.granted AND a.application_name = $1)`, schema).Scan(&waiting)
					if err != nil {
						t.Fatal(err)
					}
				}
				if !waiting {
					t.Error("it does not wait for whoever adds a job")
				}
				close(end)
				got = <-answered
			} else {
				got = <-answered
				close(end)
			}
			if err := <-ended; err != nil && !errors.Is(err, rolledBack) {
				t.Fatal(err)
			}
			if got.created != (row.want == nil) || !errors.Is(got.err, row.want) || (got.err == nil) != (row.want == nil) {
				t.Errorf("Dispatch: %v, %v, want %v", got.created, got.err, row.want)
			}
		})
	}
}

// lost is the network of a machine that loses its power after so many packets from the server: what
// it sends arrives nowhere, and nobody is told that its connections are gone.
type lost struct {
	net.Conn
	left *atomic.Int64
}

func (l lost) Read(b []byte) (int, error) {
	for {
		n, err := l.Conn.Read(b)
		if l.left.Add(-1) >= 0 || err != nil {
			return n, err
		}
	}
}

func (l lost) Write(b []byte) (int, error) {
	if l.left.Load() <= 0 {
		return len(b), nil
	}
	return l.Conn.Write(b)
}

func (l lost) Close() error {
	if l.left.Load() <= 0 {
		return nil // the server is not told
	}
	return l.Conn.Close()
}

// TestMachineLostWhileItDispatches: a machine loses its power in the middle of a dispatch. The server
// keeps its connection, for hours by default, but not its transaction, which holds the target and the
// records of its pools: the other controllers go on.
func TestMachineLostWhileItDispatches(t *testing.T) {
	s := sharedServer(t)
	pool, _ := newSchema(t, s)
	at := time.Date(2026, 3, 10, 9, 0, 0, 0, time.UTC)
	target := rollout.TargetID{Resource: "r", Environment: "prod", Deployment: "app"}
	start := func(run string) rollout.Start {
		return rollout.Start{TargetID: target, Version: "v2", Run: run, Group: "g"}
	}
	for after := int64(1); ; after++ {
		if after > 100 {
			t.Fatal("no dispatch ever comes to its end")
		}
		if _, err := pool.Exec(t.Context(), `DELETE FROM release_job`); err != nil {
			t.Fatal(err)
		}
		var left atomic.Int64
		left.Store(math.MaxInt64)
		config := pool.Config()
		dial := config.ConnConfig.DialFunc
		config.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := dial(ctx, network, address)
			if err == nil {
				t.Cleanup(func() { c.Close() })
			}
			return lost{c, &left}, err
		}
		other, err := pgxpool.NewWithConfig(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		if err := other.Ping(t.Context()); err != nil {
			t.Fatal(err)
		}
		left.Store(after)
		_, dispatched := NewJobs(NewStore(other, 100*time.Millisecond)).Dispatch(context.Background(), start("lost"), 0, at)
		left.Store(0)
		began := time.Now()
		if created, err := NewJobs(NewStore(pool, 3*time.Second)).Dispatch(t.Context(), start("other"), 0, at); !created && !errors.Is(err, ErrBusy) {
			t.Fatalf("after %d packets (%v) another controller gets no answer within %v: %v", after, dispatched, time.Since(began), err)
		}
		if dispatched == nil {
			return
		}
	}
}
