package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"sync/atomic"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/bracket/brackettest"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/concurrency/concurrencytest"
	"github.com/tranche-dev/tranche/examples/internal/controller"
	"github.com/tranche-dev/tranche/examples/internal/controller/controllertest"
	"github.com/tranche-dev/tranche/rollout"
)

func TestMain(m *testing.M) {
	if description, ok := os.LookupEnv(memberVariable); ok {
		if err := serveMember(description); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	code := controllertest.Main(m, open)
	stopShared()
	os.Exit(code)
}

var spaces atomic.Int64

// space returns a prefix that no other test uses.
func space() string { return fmt.Sprintf("test/%d", spaces.Add(1)) }

func TestStoreConforms(t *testing.T) {
	client := connect(t, sharedMember(t))
	brackettest.Run(t, func(*testing.T) bracket.Store { return NewStore(client, space(), 0) })
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

// line is a client's connection that can be cut: requests that come after fail.
type line struct {
	clientv3.KV
	left atomic.Int64
}

var errCut = errors.New("the line is cut")

func (l *line) cut(pass int) (mend func()) {
	l.left.Store(int64(pass))
	return func() { l.left.Store(math.MaxInt64) }
}

func (l *line) Get(ctx context.Context, key string, options ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	if l.left.Add(-1) < 0 {
		return nil, errCut
	}
	return l.KV.Get(ctx, key, options...)
}

func (l *line) Txn(ctx context.Context) clientv3.Txn { return &cuttable{l, l.KV.Txn(ctx)} }

type cuttable struct {
	line *line
	clientv3.Txn
}

func (c *cuttable) If(compare ...clientv3.Cmp) clientv3.Txn { c.Txn = c.Txn.If(compare...); return c }
func (c *cuttable) Then(do ...clientv3.Op) clientv3.Txn     { c.Txn = c.Txn.Then(do...); return c }
func (c *cuttable) Else(do ...clientv3.Op) clientv3.Txn     { c.Txn = c.Txn.Else(do...); return c }

func (c *cuttable) Commit() (*clientv3.TxnResponse, error) {
	if c.line.left.Add(-1) < 0 {
		return nil, errCut
	}
	return c.Txn.Commit()
}

func TestJobsConform(t *testing.T) {
	client := connect(t, sharedMember(t))
	faulty := &line{KV: client.KV}
	faulty.cut(0)()
	client.KV = faulty
	concurrencytest.Run(t, func(*testing.T) concurrencytest.Backend {
		return counted{NewJobs(NewStore(client, space(), 0)), faulty}
	})
}
