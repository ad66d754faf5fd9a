package controller

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/tranche-dev/tranche/clock"
	"github.com/tranche-dev/tranche/examples/controller/api/v1alpha1"
	"github.com/tranche-dev/tranche/rollout"
)

// The fleet of the deployment bracket RFC: three releases on the first day, one drain per machine
// on the second, at most 20 % of the machines at a time.
var (
	day1 = time.Date(2026, 3, 10, 9, 0, 0, 0, time.UTC)
	day2 = day1.Add(24 * time.Hour)
)

func readPolicy(tb testing.TB, file string) []byte {
	tb.Helper()
	data, err := os.ReadFile("testdata/" + file)
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

func newPolicy(namespace, name string, spec []byte) *v1alpha1.RolloutPolicy {
	return inNamespace(&v1alpha1.RolloutPolicy{Spec: runtime.RawExtension{Raw: spec}}, namespace, name)
}

func newRelease(namespace, deployment, version string, at time.Time) *v1alpha1.Release {
	return inNamespace(&v1alpha1.Release{Spec: v1alpha1.ReleaseSpec{Deployment: deployment, Version: version, PublishedAt: at}}, namespace, deployment+"-"+version)
}

// newFleet returns the objects of the RFC's example with n machines.
func newFleet(tb testing.TB, namespace string, n int) []client.Object {
	objects := []client.Object{newPolicy(namespace, "node-lifecycle", readPolicy(tb, "policy.json"))}
	installed := map[string]string{}
	for _, d := range []struct {
		name, old, new string
		after          time.Duration // the first day's morning
	}{
		{"node-drain", "v1", "", 0},
		{"os-patch", "2026-02", "2026-03", 13 * time.Hour},
		{"kubelet-upgrade", "v1.29.1", "v1.29.2", 0},
		{"containerd-upgrade", "v1.7.2", "v1.7.3", 5 * time.Hour},
		{"node-uncordon", "v1", "", 0},
	} {
		deployment := inNamespace(&v1alpha1.NodeDeployment{}, namespace, d.name)
		deployment.Labels = map[string]string{"layer": "node"}
		objects = append(objects, deployment, newRelease(namespace, d.name, d.old, day1.AddDate(0, 0, -90)))
		if d.new != "" {
			objects = append(objects, newRelease(namespace, d.name, d.new, day1.Add(d.after)))
		}
		installed[d.name] = d.old
	}
	for i := range n {
		machine := inNamespace(&v1alpha1.Machine{}, namespace, fmt.Sprint("node-", i))
		machine.Labels = map[string]string{"cluster": "prod-east"}
		machine.Spec = v1alpha1.MachineSpec{Environment: "prod", Versions: installed, JoinedAt: day1.AddDate(-1, 0, 0)}
		objects = append(objects, machine)
	}
	return objects
}

func minutes(deployment string) time.Duration {
	return map[string]time.Duration{
		"node-drain": 8, "os-patch": 3, "kubelet-upgrade": 3, "containerd-upgrade": 3, "node-uncordon": 1,
	}[deployment] * time.Minute
}

// members are the jobs of one machine, with the minutes after its first start.
var members = []struct {
	after int
	name  string
}{{0, "node-drain@v1"}, {8, "os-patch@2026-03"}, {11, "containerd-upgrade@v1.7.3"}, {11, "kubelet-upgrade@v1.29.2"}, {14, "node-uncordon@v1"}}

// schedule is what becomes of the fleet of ten: the machines in the order of their positions, with
// the minutes after the window's end at which they start.
var schedule = []struct{ machine, start int }{
	{1, 0}, {3, 5}, {8, 15}, {7, 20}, {2, 30}, {0, 35}, {9, 45}, {4, 50}, {5, 60}, {6, 65},
}

func wantedStarts() (want []string) {
	for _, turn := range schedule {
		for _, member := range members {
			want = append(want, fmt.Sprintf("%d node-%d %s", turn.start+member.after, turn.machine, member.name))
		}
	}
	slices.Sort(want)
	return want
}

func create(tb testing.TB, c client.Client, objects ...client.Object) {
	tb.Helper()
	for _, object := range objects {
		if err := c.Create(tb.Context(), object); err != nil {
			tb.Fatalf("create %T %s: %v", object, object.GetName(), err)
		}
	}
}

// newFake returns a client that keeps objects in memory.
func newFake(tb testing.TB, funcs interceptor.Funcs, objects ...client.Object) client.WithWatch {
	tb.Helper()
	small := runtime.NewScheme() // the fake client goes through all of it at every write
	if err := v1alpha1.AddToScheme(small); err != nil {
		tb.Fatal(err)
	}
	if funcs.List == nil {
		funcs.List = listed
	}
	return fake.NewClientBuilder().WithScheme(small).WithTypeConverters(managedfields.NewDeducedTypeConverter()).WithGlobalResourceVersionCounter().WithInterceptorFuncs(funcs).WithObjects(objects...).
		WithStatusSubresource(&v1alpha1.RolloutPolicy{}, &v1alpha1.Machine{}, &v1alpha1.NodeJob{}, &v1alpha1.BracketCommand{}).Build()
}

// listed is a list with a selector of fields, of which the fake client knows but few.
func listed(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
	var asked client.ListOptions
	asked.ApplyOptions(options)
	selector := asked.FieldSelector
	asked.FieldSelector = nil
	err := c.List(ctx, list, &asked)
	if jobs, ok := list.(*v1alpha1.NodeJobList); ok && selector != nil {
		jobs.Items = slices.DeleteFunc(jobs.Items, func(job v1alpha1.NodeJob) bool {
			return !selector.Matches(fields.Set{fieldState: string(job.Status.State)})
		})
	}
	return err
}

func listJobs(tb testing.TB, c client.Reader, namespace string) []v1alpha1.NodeJob {
	tb.Helper()
	var list v1alpha1.NodeJobList
	if err := c.List(tb.Context(), &list, client.InNamespace(namespace)); err != nil {
		tb.Fatal(err)
	}
	slices.SortFunc(list.Items, func(a, b v1alpha1.NodeJob) int {
		return cmp.Or(a.Spec.CreatedAt.Compare(b.Spec.CreatedAt), cmp.Compare(a.Spec.Run, b.Spec.Run))
	})
	return list.Items
}

// report writes the state of a job, as an agent would.
func report(ctx context.Context, c client.Client, job *v1alpha1.NodeJob, state rollout.JobStatus, at time.Time) error {
	if job.Status.State = state; state.Terminal() {
		job.Status.CompletedAt = at.UTC()
	} else {
		job.Status.StartedAt = at.UTC()
	}
	return c.Status().Update(ctx, job)
}

// host drives a reconciler on a clock that stands still between two events.
type host struct {
	testing.TB
	client    client.Client
	clock     *clock.Fake
	namespace string
	reconcile func(context.Context, ctrl.Request) (ctrl.Result, error)
	outcome   func(v1alpha1.NodeJob) rollout.JobStatus // nil: everything succeeds
	each      func()                                   // after every reconciliation; may be nil
	byHand    time.Time                                // when jobs end that no plan asked for
}

// end is when a job ends.
func (h *host) end(job v1alpha1.NodeJob) time.Time {
	if job.Spec.Turn == 0 {
		return h.byHand
	}
	return job.Spec.CreatedAt.Add(minutes(job.Spec.Deployment))
}

func newHost(tb testing.TB, c client.Client, namespace string, now time.Time) *host {
	h := &host{TB: tb, client: c, clock: clock.NewFake(now), namespace: namespace}
	h.reconcile = (&Reconciler{Client: c, Server: c, Clock: h.clock, Resync: 10_000 * time.Hour}).Reconcile
	return h
}

func (h *host) request() ctrl.Request {
	return ctrl.Request{NamespacedName: client.ObjectKey{Namespace: h.namespace}}
}

// once reconciles and returns when to do so again.
func (h *host) once() time.Duration {
	h.Helper()
	result, err := h.reconcile(h.Context(), h.request())
	if err != nil {
		h.Fatalf("%v: %v", h.clock.Now(), err)
	}
	if h.each != nil {
		h.each()
	}
	return result.RequeueAfter
}

// run reconciles, wakes at the end of jobs and when the reconciler asks for it, and returns when
// nothing is left to happen until the given instant.
func (h *host) run(until time.Time) {
	h.Helper()
	for range 10_000 {
		now := h.clock.Now()
		for _, job := range listJobs(h, h.client, h.namespace) {
			switch end := h.end(job); {
			case job.Status.State.Terminal():
			case !end.After(now):
				state := rollout.JobSuccessful
				if h.outcome != nil {
					state = h.outcome(job)
				}
				if err := report(h.Context(), h.client, &job, state, end); err != nil {
					h.Fatal(err)
				}
			case job.Status.State == "":
				if err := report(h.Context(), h.client, &job, rollout.JobInProgress, now); err != nil {
					h.Fatal(err)
				}
			}
		}
		next := now.Add(h.once())
		for _, job := range listJobs(h, h.client, h.namespace) {
			if end := h.end(job); !job.Status.State.Terminal() && end.Before(next) {
				next = end
			}
		}
		if next.After(until) {
			return
		}
		h.clock.Set(next)
	}
	h.Fatal("it does not end")
}

// starts lists the jobs as minutes after the window's end.
func starts(jobs []v1alpha1.NodeJob) (list []string) {
	for _, job := range jobs {
		list = append(list, fmt.Sprintf("%v %s %s@%s", job.Spec.CreatedAt.Sub(day2).Minutes(), job.Spec.Machine, job.Spec.Deployment, job.Spec.Version))
	}
	slices.Sort(list)
	return list
}

// audit checks what must hold of the jobs of a rollout that has ended: at most limit machines were
// disrupted at once, from the creation of their drain to the end of their uncordon; each machine
// once; each job successful, once, and in order.
func audit(tb testing.TB, jobs []v1alpha1.NodeJob, machines, limit int) {
	tb.Helper()
	type edge struct {
		at    time.Time
		delta int
	}
	var edges []edge
	on := map[string][]v1alpha1.NodeJob{}
	for _, job := range jobs {
		on[job.Spec.Machine] = append(on[job.Spec.Machine], job)
		if job.Status.State != rollout.JobSuccessful {
			tb.Errorf("%s is %q", job.Spec.Run, job.Status.State)
		}
	}
	if len(on) != machines {
		tb.Errorf("%d machines have jobs, want %d", len(on), machines)
	}
	for machine, list := range on {
		var names []string
		for i, job := range list {
			names = append(names, job.Spec.Deployment)
			last := i > 0 && list[i-1].Status.CompletedAt.After(job.Spec.CreatedAt)
			if last && !strings.HasPrefix(job.Spec.Deployment, "kubelet") && !strings.HasPrefix(job.Spec.Deployment, "containerd") {
				tb.Errorf("%s: %s starts before %s ends", machine, job.Spec.Deployment, list[i-1].Spec.Deployment)
			}
		}
		slices.Sort(names[min(2, len(names)):max(min(2, len(names)), len(names)-1)]) // the two in the middle start together
		if want := []string{"node-drain", "os-patch", "containerd-upgrade", "kubelet-upgrade", "node-uncordon"}; !slices.Equal(names, want) {
			tb.Errorf("%s: jobs %v, want %v", machine, names, want)
			continue
		}
		edges = append(edges, edge{list[0].Spec.CreatedAt, 1}, edge{list[len(list)-1].Status.CompletedAt, -1})
	}
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.delta, b.delta)) })
	active, peak := 0, 0
	for _, e := range edges {
		active += e.delta
		peak = max(peak, active)
	}
	if peak > limit || peak < 1 {
		tb.Errorf("%d machines were disrupted at once, at most %d may be, and at least one is", peak, limit)
	}
}
