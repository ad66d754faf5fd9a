package pgstore

import (
	"context"
	"errors"
	"math"
	"net"
	"os"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/bracket/brackettest"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/concurrency/concurrencytest"
	"github.com/tranche-dev/tranche/examples/internal/controller"
	"github.com/tranche-dev/tranche/examples/internal/controller/controllertest"
	"github.com/tranche-dev/tranche/rollout"
)

func TestMain(m *testing.M) {
	code := controllertest.Main(m, open)
	stopShared()
	os.Exit(code)
}

func TestStoreConforms(t *testing.T) {
	empty := emptied(t, sharedServer(t))
	brackettest.Run(t, func(t *testing.T) bracket.Store { return NewStore(empty(t), 0) })
}

// TestStoreConformsAtEveryLevel: a database may have another isolation level as its default. The
// server then refuses what comes second, and even a write beside a list that has not read its key.
// Neither is an error of the store, and the latter is no conflict.
func TestStoreConformsAtEveryLevel(t *testing.T) {
	empty := emptied(t, sharedServer(t))
	for _, level := range []string{"repeatable read", "serializable"} {
		t.Run(level, func(t *testing.T) {
			config := empty(t).Config()
			config.ConnConfig.RuntimeParams["default_transaction_isolation"] = level
			pool, err := pgxpool.NewWithConfig(t.Context(), config)
			if err != nil {
				t.Fatal(err)
			}
			defer pool.Close()
			var is string
			if err := pool.QueryRow(t.Context(), `SHOW transaction_isolation`).Scan(&is); err != nil || is != level {
				t.Fatalf("the level is %q, %v", is, err)
			}
			brackettest.Run(t, func(t *testing.T) bracket.Store {
				empty(t)
				return NewStore(pool, 0)
			})
		})
	}
}

// counted lets the kit put jobs that no plan started, and cut off what it reads.
type counted struct {
	*Jobs
	line *line
}

func (c counted) PutJob(ctx context.Context, job concurrency.Job) error {
	return c.Put(ctx, controller.Job{
		TargetID: rollout.TargetID{Resource: job.Resource}, Job: rollout.Job{Run: job.ID, Status: rollout.JobStatus(job.Status)}, Group: job.Group,
	})
}

func (c counted) Break(pass int) (mend func()) { return c.line.cut(pass) }

// line is what connections run over. It can be cut after so many packets from the server, also in
// the middle of the rows of one answer.
type line struct{ left atomic.Int64 }

var errCut = errors.New("the line is cut")

func (l *line) cut(pass int) (mend func()) {
	l.left.Store(int64(pass))
	return func() { l.left.Store(math.MaxInt64) }
}

// over returns a pool like another one whose connections run over the line.
func (l *line) over(tb testing.TB, pool *pgxpool.Pool) *pgxpool.Pool {
	tb.Helper()
	config := pool.Config()
	dial := config.ConnConfig.DialFunc
	config.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		return &cuttable{c, l}, err
	}
	faulty, err := pgxpool.NewWithConfig(tb.Context(), config)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(faulty.Close)
	return faulty
}

type cuttable struct {
	net.Conn
	line *line
}

func (c *cuttable) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.line.left.Add(-1) < 0 {
		c.Close()
		return 0, errCut
	}
	return n, err
}

func TestJobsConform(t *testing.T) {
	empty := emptied(t, sharedServer(t))
	faulty := new(line)
	faulty.cut(0)()
	pool := faulty.over(t, empty(t))
	concurrencytest.Run(t, func(t *testing.T) concurrencytest.Backend {
		empty(t)
		return counted{NewJobs(NewStore(pool, 0)), faulty}
	})
}
