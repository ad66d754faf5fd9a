package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
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

// late is a server that notices the end of a call's time before its client does.
type late struct {
	clientv3.KV
	says error
}

func (l late) Get(context.Context, string, ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	return nil, l.says
}

func (l late) Txn(context.Context) clientv3.Txn { return lateTxn{l} }

type lateTxn struct{ late }

func (l lateTxn) If(...clientv3.Cmp) clientv3.Txn        { return l }
func (l lateTxn) Then(...clientv3.Op) clientv3.Txn       { return l }
func (l lateTxn) Else(...clientv3.Op) clientv3.Txn       { return l }
func (l lateTxn) Commit() (*clientv3.TxnResponse, error) { return nil, l.says }

// TestServerNoticesTheEndFirst: the server knows the deadline of a call too. Whoever of both notices it
// first, and whatever the server guesses about the reason, the call ends with the same error.
func TestServerNoticesTheEndFirst(t *testing.T) {
	for _, says := range []error{rpctypes.ErrTimeout, rpctypes.ErrTimeoutDueToLeaderFail, rpctypes.ErrTimeoutDueToConnectionLost} {
		store := NewStore(clientv3.NewCtxClient(t.Context()), space(), 0)
		store.client.KV = late{says: says}
		jobs := NewJobs(store)
		_, _, load := store.Load(t.Context(), "k")
		_, save := store.Save(t.Context(), "k", nil, 0)
		_, list := store.List(t.Context(), "")
		_, active := jobs.Active(t.Context(), "p")
		_, all := jobs.All(t.Context())
		_, dispatch := jobs.Dispatch(t.Context(), rollout.Start{TargetID: rollout.TargetID{Resource: "r"}, Run: "run"}, 0, time.Unix(0, 0))
		report := jobs.Report(t.Context(), "run", rollout.JobSuccessful, time.Unix(0, 0))
		for call, err := range map[string]error{"Load": load, "Save": save, "Delete": store.Delete(t.Context(), "k", 1), "List": list, "Active": active, "All": all, "Dispatch": dispatch, "Report": report} {
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v, want the end of its time", call, err)
			}
		}
	}
}
