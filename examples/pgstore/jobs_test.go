package pgstore

import (
	"context"
	"errors"
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
