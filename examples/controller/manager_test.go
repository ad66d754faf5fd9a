package controller

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/examples/controller/api/v1alpha1"
	"github.com/tranche-dev/tranche/rollout"
)

// TestReplayOnServer is [TestReplay] on a real API server.
func TestReplayOnServer(t *testing.T) {
	replay(t, newClient(t, sharedServer(t)), newNamespace())
}

// speed is how much faster time goes in tests of managers.
const speed = 600

// racing is a clock that started at an instant and goes faster than others.
type racing struct{ epoch, begun time.Time }

func (r racing) Now() time.Time { return r.epoch.Add(time.Since(r.begun) * speed) }

// world is a fleet on a real API server at racing speed, with everything that happens to it.
type world struct {
	*testing.T
	server    *server
	client    client.WithWatch
	namespace string
	store     *Store // of the test itself
	clock     racing

	mu      sync.Mutex
	created map[string]int // run → how often a server said that it created the job
	met     int            // creations that met the job
	late    int            // jobs that a controller slept before creating
	errors  int            // reconciliations that failed
}

func newWorld(t *testing.T, s *server, machines int) *world {
	w := &world{T: t, server: s, client: newClient(t, s), namespace: newNamespace(), created: map[string]int{}}
	w.store = NewStore(w.client, w.client, w.namespace)
	create(t, w.client, newFleet(t, w.namespace, machines)...)
	w.clock = racing{day2.Add(-3 * time.Minute), time.Now()}
	return w
}

// intercept counts the jobs that a controller creates. One that is sleepy now and then falls asleep
// between saving its claims and creating a job.
func (w *world) intercept(seed uint64, sleepy bool) interceptor.Funcs {
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(seed, 0))
	return interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
		job, ok := object.(*v1alpha1.NodeJob)
		if !ok {
			return c.Create(ctx, object, options...)
		}
		mu.Lock()
		sleep := sleepy && random.IntN(4) == 0
		mu.Unlock()
		if sleep {
			time.Sleep(300 * time.Millisecond) // three minutes of the fleet; not even the end of the process interrupts it
			ctx = context.WithoutCancel(ctx)
		}
		err := c.Create(ctx, object, options...)
		w.mu.Lock()
		defer w.mu.Unlock()
		switch {
		case err == nil:
			w.created[job.Spec.Run]++
		case apierrors.IsAlreadyExists(err):
			w.met++
		}
		if sleep {
			w.late++
		}
		return err
	}}
}

// startManager starts a manager and returns a function that stops it in the middle of whatever it
// does.
func (w *world) startManager(seed uint64, sleepy bool) (stop func()) {
	w.Helper()
	mgr, err := ctrl.NewManager(w.server.config(), ctrl.Options{
		Scheme:  scheme(w),
		Metrics: metricsserver.Options{BindAddress: "0"},
		Cache:   cache.Options{DefaultNamespaces: map[string]cache.Config{w.namespace: {}}},
		NewClient: func(config *rest.Config, options client.Options) (client.Client, error) {
			c, err := client.NewWithWatch(config, options)
			if err != nil {
				return nil, err
			}
			return interceptor.NewClient(c, w.intercept(seed, sleepy)), nil
		},
	})
	if err != nil {
		w.Fatal(err)
	}
	r := &Reconciler{Client: mgr.GetClient(), Server: mgr.GetAPIReader(), Clock: w.clock}
	racing := reconcile.Func(func(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
		result, err := r.Reconcile(ctx, request)
		if err != nil && ctx.Err() == nil {
			w.mu.Lock()
			w.errors++
			w.mu.Unlock()
		}
		result.RequeueAfter /= speed
		return result, err
	})
	if err := setup(mgr, racing, controller.Options{SkipNameValidation: new(true)}); err != nil {
		w.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			w.Errorf("manager %d: %v", seed, err)
		}
	})
	w.Cleanup(stop)
	return stop
}

// agents carries out the jobs, watches the slots, and returns all jobs when n of them have ended.
// It calls each with the number of those that have.
func (w *world) agents(n int, each func(ended int)) []v1alpha1.NodeJob {
	w.Helper()
	deadline := time.Now().Add(4 * time.Minute)
	for time.Now().Before(deadline) {
		var list v1alpha1.NodeJobList
		// Any age will do: what an agent has changed already is refused.
		if err := w.client.List(w.Context(), &list, client.InNamespace(w.namespace), &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: "0"}}); err != nil {
			time.Sleep(20 * time.Millisecond) // the server is away
			continue
		}
		ended := 0
		for i := range list.Items {
			job := &list.Items[i]
			now := w.clock.Now()
			switch {
			case job.Status.State.Terminal():
				ended++
			case job.Status.State == "":
				w.report(job, rollout.JobInProgress, now)
			case !job.Status.StartedAt.Add(minutes(job.Spec.Deployment)).After(now):
				w.report(job, rollout.JobSuccessful, now)
			}
		}
		w.slots()
		if w.Failed() {
			w.FailNow()
		}
		if each(ended); ended >= n && len(list.Items) == ended {
			return listJobs(w, w.client, w.namespace)
		}
		time.Sleep(20 * time.Millisecond)
	}
	w.Fatalf("the rollout does not end: %v", starts(listJobs(w, w.client, w.namespace)))
	return nil
}

// report writes the state of a job. An old view of it, or a server that is away, is for the next
// round.
func (w *world) report(job *v1alpha1.NodeJob, state rollout.JobStatus, at time.Time) {
	if err := report(w.Context(), w.client, job, state, at); apierrors.IsInvalid(err) || apierrors.IsNotFound(err) {
		w.Errorf("%s becomes %s: %v", job.Spec.Run, state, err)
	}
}

// slots checks that no pool ever holds more leases than two.
func (w *world) slots() {
	entries, err := w.store.List(w.Context(), "pool/")
	if err != nil {
		return // the server is away
	}
	for _, entry := range entries {
		record, err := concurrency.ParseRecord(entry.Value)
		if err != nil || len(record.Leases) > 2 {
			w.Errorf("%s holds %d slots: %v", entry.Key, len(record.Leases), err)
		}
	}
}

// finish checks what must hold in the end.
func (w *world) finish(jobs []v1alpha1.NodeJob) {
	w.Helper()
	audit(w, jobs, 10, 2)
	w.mu.Lock()
	defer w.mu.Unlock()
	for run, times := range w.created {
		if times > 1 {
			w.Errorf("run %s was created %d times", run, times)
		}
	}
	w.Logf("%d jobs, of which %d were created in view; %d creations met the job; %d were late; %d reconciliations failed", len(jobs), len(w.created), w.met, w.late, w.errors)
}

// settled waits for the slots to be free and the machines to say so.
func (w *world) settled() {
	w.Helper()
	var last error
	for range 1000 {
		last = nil
		entries, err := NewStore(w.client, w.client, w.namespace).List(w.Context(), "pool/")
		if err != nil {
			w.Fatal(err)
		}
		for _, entry := range entries {
			if record, err := concurrency.ParseRecord(entry.Value); err != nil || len(record.Leases) > 0 {
				last = errors.Join(last, fmt.Errorf("%s still holds %v: %v", entry.Key, record.Leases, err))
			}
		}
		for i := range 10 {
			if got := reason(w, w.client, w.namespace, fmt.Sprint("node-", i)); got != "current" {
				last = errors.Join(last, fmt.Errorf("node-%d says %s", i, got))
			}
		}
		if last == nil {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	w.Error(last)
}

// TestTwoManagers: two managers without a leader, of which one sleeps between claiming and
// dispatching and is stopped and started again.
func TestTwoManagers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, sharedServer(t), 10)
	w.startManager(1, false)
	stop := w.startManager(2, true)
	stopped, started := false, false
	jobs := w.agents(50, func(ended int) {
		switch {
		case ended >= 10 && !stopped:
			stop()
			stopped = true
		case ended >= 25 && !started:
			w.startManager(3, true)
			started = true
		}
	})
	w.settled()
	w.finish(jobs)
	if !stopped || !started || w.met == 0 || w.late == 0 {
		t.Errorf("stopped %v, started %v, %d creations met a job, %d were late: each must happen", stopped, started, w.met, w.late)
	}
}

// TestOneManagerAtATime: whoever takes over goes on where the other was stopped.
func TestOneManagerAtATime(t *testing.T) {
	t.Parallel()
	w := newWorld(t, sharedServer(t), 10)
	stop, next := w.startManager(1, true), 4
	jobs := w.agents(50, func(ended int) {
		if ended >= next {
			stop()
			stop = w.startManager(uint64(next), true)
			next += 12
		}
	})
	w.settled()
	w.finish(jobs)
	if next < 40 {
		t.Errorf("it was stopped for the last time before %d jobs", next)
	}
}

// TestServerRestart: the API server is stopped and started again under two live managers.
func TestServerRestart(t *testing.T) {
	t.Parallel()
	s, err := installed(t)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	w := newWorld(t, s, 10)
	w.startManager(1, false)
	w.startManager(2, true)
	restarts := 0
	jobs := w.agents(50, func(ended int) {
		if ended >= 10+15*restarts && restarts < 2 {
			if err := w.server.halt(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(100 * time.Millisecond)
			if err := w.server.start(); err != nil {
				t.Fatal(err)
			}
			restarts++
		}
	})
	w.settled()
	w.finish(jobs)
	if restarts != 2 {
		t.Errorf("%d restarts", restarts)
	}
}
