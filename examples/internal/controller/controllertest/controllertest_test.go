//go:build unix

package controllertest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/rpc"
	"net/rpc/jsonrpc"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/examples/internal/controller"
	"github.com/tranche-dev/tranche/rollout"
)

// mistakeVariable gives the reference a mistake, in a process of its own that must fail.
const mistakeVariable = "TRANCHE_MISTAKE"

func TestMain(m *testing.M) { os.Exit(Main(m, openRemote)) }

// TestReferenceHost and TestReferenceSchedules run everything over the reference, behind a server
// as small as one can be: so that what fails over a real database is known to be the database's
// fault.
func TestReferenceHost(t *testing.T) { RunHost(t, reference(t)) }

func TestReferenceSchedules(t *testing.T) {
	n := 2
	if testing.Short() {
		n = 1
	}
	tally := RunSchedules(t, reference(t), n, 1)
	for _, want := range []string{"killed", "stalled", "deaf", "cut", "job", "finished"} {
		if tally.Count(want) == 0 && !testing.Short() && !t.Failed() {
			t.Errorf("%q never happened", want)
		}
	}
}

func TestReferenceHistory(t *testing.T) {
	tally := RunHistory(t, reference(t), 1)
	for _, want := range []string{"stalled", "deaf", "cut"} {
		if tally.Count(want) == 0 {
			t.Errorf("the network was never %s", want)
		}
	}
}

// TestMistakesAreFound: tests that accept everything prove nothing. Each mistake is one that an
// adapter can make.
func TestMistakesAreFound(t *testing.T) {
	if os.Getenv(mistakeVariable) != "" || testing.Short() {
		t.Skip("skipped: it starts the tests again, which takes some seconds")
	}
	for _, row := range []struct{ mistake, run, why string }{
		{"unfenced", "TestReferenceHost/a_plan_that_slept_is_fenced", "tokens are not compared when a job is created"},
		{"blind", "TestReferenceHost/a_save_that_slept_conflicts", "revisions are not compared when a record is saved"},
		{"twice", "TestReferenceHost/dispatch", "a job is created again"},
		{"crowded", "TestReferenceHost/dispatch", "two jobs are active on one target"},
		{"overtaken", "TestReferenceHost/dispatch", "jobs that came since the plan looked are not counted"},
		{"overtaken", "TestReferenceHost/a_start_that_was_overtaken_is_refused", "a target is taken back by a start that comes late"},
		{"nobody", "TestReferenceHost/foreign_jobs_count", "an error is taken for nobody"},
		{"rounded", "TestReferenceHost/jobs", "instants are rounded to microseconds"},
		{"half", "TestReferenceHost/half_an_answer,_no_list", "what arrived before the connection was cut is taken for all"},
		{"lost", "TestReferenceHost/crashes_after_every_write", "every third save is answered and not kept"},
		{"blind", "TestReferenceHistory", "revisions are not compared when a record is saved"},
		{"lost", "TestReferenceHistory", "every third save is answered and not kept"},
		{"again", "TestReferenceHistory", "a save whose answer was lost is sent again, and conflicts with itself"},
	} {
		t.Run(row.mistake+" "+row.run, func(t *testing.T) {
			t.Parallel()
			process := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+strings.ReplaceAll(row.run, "/", "$/^")+"$")
			process.Env = append(os.Environ(), mistakeVariable+"="+row.mistake)
			out, err := process.CombinedOutput()
			if exit := new(exec.ExitError); !errors.As(err, &exit) || !strings.Contains(string(out), "--- FAIL: "+row.run) {
				t.Errorf("%s: not found: %v\n%s", row.why, err, out)
			}
		})
	}
}

// TestBackwards: what the audit of a rollout takes for a step back.
func TestBackwards(t *testing.T) {
	type step struct {
		resource, deployment, version string
		status                        rollout.JobStatus
		created, completed            int // seconds after the epoch
	}
	const good, bad = rollout.JobSuccessful, rollout.JobFailure
	for _, row := range []struct {
		why   string
		steps []step
		want  int
	}{
		{"forward", []step{{"a", monitor, "v2", good, 0, 1}, {"a", monitor, "v3", good, 2, 3}}, 0},
		{"the same version again", []step{{"a", drain, "v1", good, 0, 1}, {"a", drain, "v1", good, 2, 3}}, 0},
		{"back", []step{{"a", monitor, "v3", good, 0, 1}, {"a", monitor, "v2", good, 2, 3}}, 1},
		{"back, also if it failed", []step{{"a", kubelet, "1.29.3", good, 0, 1}, {"a", kubelet, "1.29.2", bad, 2, 3}}, 1},
		{"back twice: the newest that succeeded counts", []step{{"a", monitor, "v3", good, 0, 1}, {"a", monitor, "v2", good, 2, 3}, {"a", monitor, "v2", good, 4, 5}}, 2},
		{"back, and late: it was offered first", []step{{"a", monitor, "v3", good, 2, 3}, {"a", monitor, "v2", good, 0, 5}}, 1},
		{"what failed was never there", []step{{"a", monitor, "v3", bad, 0, 1}, {"a", monitor, "v2", good, 2, 3}}, 0},
		{"another resource", []step{{"a", monitor, "v3", good, 0, 1}, {"b", monitor, "v2", good, 2, 3}}, 0},
		{"another deployment", []step{{"a", monitor, "v3", good, 0, 1}, {"a", kubelet, "1.29.2", good, 2, 3}}, 0},
	} {
		var jobs []controller.Job
		for i, s := range row.steps {
			at := func(seconds int) time.Time { return epoch().Add(time.Duration(seconds) * time.Second) }
			jobs = append(jobs, controller.Job{TargetID: rollout.TargetID{Resource: s.resource, Environment: "prod", Deployment: s.deployment},
				Job: rollout.Job{Run: fmt.Sprint(i), Version: s.version, Status: s.status, CreatedAt: at(s.created), CompletedAt: at(s.completed)}})
		}
		slices.Reverse(jobs)
		if got := backwards(jobs); len(got) != row.want {
			t.Errorf("%s: %q, want %d", row.why, got, row.want)
		}
	}
}

var spaces atomic.Int64

// reference is the reference behind a server.
func reference(t *testing.T) Driver {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	server := rpc.NewServer()
	if err := server.RegisterName("Remote", &Remote{mistake: os.Getenv(mistakeVariable), spaces: map[string]*controller.Memory{}}); err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go server.ServeCodec(jsonrpc.NewServerCodec(conn))
		}
	}()
	address := listener.Addr().String()
	return Driver{
		Name: "memory", Dumps: "testdata", Open: openRemote,
		Space:   func(testing.TB) string { return fmt.Sprint("space ", spaces.Add(1)) },
		Network: "tcp", Servers: []string{address}, Address: address,
		Listen: func(tb testing.TB) ([]net.Listener, string) {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				tb.Fatal(err)
			}
			return []net.Listener{listener}, listener.Addr().String()
		},
	}
}

// Remote is the server: one method for all calls.
type Remote struct {
	mistake string
	mu      sync.Mutex
	spaces  map[string]*controller.Memory
	saves   int
}

// Question is a call with whatever arguments it has.
type Question struct {
	Space, Call, Key string
	Value            []byte
	Revision         int64
	Names            []string
	Job              controller.Job
	Start            rollout.Start
	Seen             int
	Status           rollout.JobStatus
	At               time.Time
}

// Answer is its result.
type Answer struct {
	Value    []byte
	Revision int64
	Entries  []bracket.Entry
	Holders  []concurrency.Holder
	Jobs     []controller.Job
	Created  bool
	Sentinel int // one more than the index in sentinels; 0: none
	Text     string
}

func sentinels() []error {
	return []error{bracket.ErrConflict, bracket.ErrNotFound, concurrency.ErrFenced, controller.ErrBusy, controller.ErrOvertaken}
}

// Ask answers a question, with the mistake that was ordered.
func (r *Remote) Ask(q Question, a *Answer) error {
	r.mu.Lock() // over everything: so that a mistake is the one that is meant, and no other
	defer r.mu.Unlock()
	m := r.spaces[q.Space]
	if m == nil {
		m = &controller.Memory{}
		r.spaces[q.Space] = m
	}
	ctx := context.Background()
	var err error
	switch q.Call {
	case "load":
		a.Value, a.Revision, err = m.Load(ctx, q.Key)
	case "save":
		if r.mistake == "blind" {
			if _, now, err := m.Load(ctx, q.Key); err == nil {
				q.Revision = now
			}
		}
		r.saves++
		if r.mistake == "lost" && r.saves%3 == 0 {
			a.Revision = q.Revision + 1
			break
		}
		a.Revision, err = m.Save(ctx, q.Key, q.Value, q.Revision)
	case "delete":
		err = m.Delete(ctx, q.Key, q.Revision)
	case "list":
		a.Entries, err = m.List(ctx, q.Key)
	case "pool":
		err = m.SetPool(ctx, q.Key, q.Names)
	case "active":
		if r.mistake != "nobody" {
			a.Holders, err = m.Active(ctx, q.Key)
		}
	case "all":
		a.Jobs, err = m.All(ctx)
	case "put":
		if r.mistake == "rounded" {
			q.Job.CreatedAt = q.Job.CreatedAt.Truncate(time.Microsecond)
		}
		err = m.Put(ctx, q.Job)
	case "dispatch":
		if r.mistake == "unfenced" {
			q.Start.Claims = nil
		}
		if jobs, _ := m.All(ctx); r.mistake == "twice" && slices.ContainsFunc(jobs, func(j controller.Job) bool { return j.Run == q.Start.Run }) {
			a.Created = true
			break
		}
		if r.mistake == "crowded" {
			q.Start.Environment += " "
		}
		if r.mistake == "overtaken" {
			q.Seen = math.MaxInt
		}
		a.Created, err = m.Dispatch(ctx, q.Start, q.Seen, q.At)
	case "report", "end":
		if q.Call == "end" {
			jobs, _ := m.All(ctx)
			for _, job := range jobs {
				if !job.Status.Terminal() {
					a.Holders = append(a.Holders, job.Holder())
				}
			}
		}
		err = m.Report(ctx, q.Key, q.Status, q.At)
	}
	if err != nil {
		a.Sentinel = 1 + slices.IndexFunc(sentinels(), func(s error) bool { return errors.Is(err, s) })
		a.Text = err.Error()
	}
	return nil
}

// remote is a client of a space. It dials again when its connection is gone.
type remote struct {
	address, space string

	mu     sync.Mutex
	client *rpc.Client
}

func openRemote(_ context.Context, address, space string) (Database, error) {
	r := &remote{address: address, space: space}
	return Database{Store: r, Jobs: r, Close: r.close, End: r.end}, nil
}

func (r *remote) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.client != nil {
		r.client.Close()
	}
}

func (r *remote) ask(ctx context.Context, q Question) (Answer, error) {
	a, err := r.try(ctx, q)
	mistake := os.Getenv(mistakeVariable)
	if err != nil && a.Text == "" && q.Call == "list" && mistake == "half" {
		return Answer{Entries: make([]bracket.Entry, 1)}, nil
	}
	for n := 0; err != nil && a.Text == "" && q.Call == "save" && mistake == "again" && n < 100; n++ {
		time.Sleep(10 * time.Millisecond)
		a, err = r.try(context.WithoutCancel(ctx), q)
	}
	return a, err
}

func (r *remote) try(ctx context.Context, q Question) (Answer, error) {
	if err := ctx.Err(); err != nil {
		return Answer{}, err
	}
	q.Space = r.space
	r.mu.Lock()
	if r.client == nil {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", r.address)
		if err != nil {
			r.mu.Unlock()
			return Answer{}, fmt.Errorf("dial: %w", err)
		}
		r.client = jsonrpc.NewClient(conn)
	}
	client := r.client
	r.mu.Unlock()
	var a Answer
	var err error
	select {
	case <-ctx.Done():
		err = ctx.Err()
	case call := <-client.Go("Remote.Ask", q, &a, make(chan *rpc.Call, 1)).Done:
		err = call.Error
	}
	if err != nil {
		client.Close()
		r.mu.Lock()
		if r.client == client {
			r.client = nil
		}
		r.mu.Unlock()
		return Answer{}, fmt.Errorf("%s %q: %w", q.Call, q.Key, cmp.Or(err, io.ErrUnexpectedEOF))
	}
	switch {
	case a.Sentinel > 0:
		return a, fmt.Errorf("%s: %w", a.Text, sentinels()[a.Sentinel-1])
	case a.Text != "":
		return a, errors.New(a.Text)
	}
	return a, nil
}

func (r *remote) Load(ctx context.Context, key string) ([]byte, int64, error) {
	a, err := r.ask(ctx, Question{Call: "load", Key: key})
	return a.Value, a.Revision, err
}

func (r *remote) Save(ctx context.Context, key string, value []byte, revision int64) (int64, error) {
	a, err := r.ask(ctx, Question{Call: "save", Key: key, Value: value, Revision: revision})
	return a.Revision, err
}

func (r *remote) Delete(ctx context.Context, key string, revision int64) error {
	_, err := r.ask(ctx, Question{Call: "delete", Key: key, Revision: revision})
	return err
}

func (r *remote) List(ctx context.Context, prefix string) ([]bracket.Entry, error) {
	a, err := r.ask(ctx, Question{Call: "list", Key: prefix})
	return a.Entries, err
}

func (r *remote) SetPool(ctx context.Context, pool string, resources []string) error {
	if err := controller.CheckPool(pool, resources); err != nil {
		return err // the protocol would change them
	}
	_, err := r.ask(ctx, Question{Call: "pool", Key: pool, Names: resources})
	return err
}

func (r *remote) Active(ctx context.Context, pool string) ([]concurrency.Holder, error) {
	a, err := r.ask(ctx, Question{Call: "active", Key: pool})
	return a.Holders, err
}

func (r *remote) All(ctx context.Context) ([]controller.Job, error) {
	a, err := r.ask(ctx, Question{Call: "all"})
	return a.Jobs, err
}

func (r *remote) Put(ctx context.Context, job controller.Job) error {
	if err := job.Validate(); err != nil {
		return err
	}
	_, err := r.ask(ctx, Question{Call: "put", Job: job})
	return err
}

func (r *remote) Dispatch(ctx context.Context, start rollout.Start, seen int, at time.Time) (bool, error) {
	a, err := r.ask(ctx, Question{Call: "dispatch", Start: start, Seen: seen, At: at})
	return a.Created, err
}

func (r *remote) Report(ctx context.Context, run string, status rollout.JobStatus, at time.Time) error {
	if _, _, err := (controller.Job{}).Reported(status, at); err != nil {
		return err // the protocol would change it
	}
	_, err := r.ask(ctx, Question{Call: "report", Key: run, Status: status, At: at})
	return err
}

func (r *remote) end(ctx context.Context, run string, status rollout.JobStatus, at time.Time) ([]concurrency.Holder, error) {
	a, err := r.ask(ctx, Question{Call: "end", Key: run, Status: status, At: at})
	return a.Holders, err
}
