package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/examples/controller/api/v1alpha1"
	"github.com/tranche-dev/tranche/rollout"
)

func reason(tb testing.TB, c client.Client, namespace, machine string) string {
	tb.Helper()
	var m v1alpha1.Machine
	if err := c.Get(tb.Context(), client.ObjectKey{Namespace: namespace, Name: machine}, &m); err != nil {
		tb.Fatal(err)
	}
	condition := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionUpToDate)
	if condition == nil {
		return "none"
	}
	return condition.Reason
}

// TestReplay: the RFC's example, minute by minute, with what every machine says about itself on the
// way.
func TestReplay(t *testing.T) {
	replay(t, newFake(t, interceptor.Funcs{}), "fleet")
}

func replay(t *testing.T, c client.Client, namespace string) {
	create(t, c, newFleet(t, namespace, 10)...)
	h := newHost(t, c, namespace, day1)
	recorder := events.NewFakeRecorder(10_000)
	h.reconcile = (&Reconciler{Client: c, Server: c, Clock: h.clock, Recorder: recorder, Resync: 10_000 * time.Hour}).Reconcile
	h.run(day2.Add(-time.Second))
	if jobs := listJobs(t, c, namespace); len(jobs) != 0 {
		t.Fatalf("jobs while the window is open: %v", starts(jobs))
	}
	if got := reason(t, c, namespace, "node-3"); got != "bracket_collecting" {
		t.Errorf("node-3 waits for %s before the window has closed", got)
	}
	h.run(day2.Add(6 * time.Minute))
	for machine, want := range map[string]string{"node-1": "started", "node-3": "started", "node-8": "bracket_not_due"} {
		if got := reason(t, c, namespace, machine); got != want {
			t.Errorf("after six minutes %s says %s, want %s", machine, got, want)
		}
	}
	h.run(day2.Add(12 * time.Minute))
	if got := reason(t, c, namespace, "node-8"); got != "slot_full" {
		t.Errorf("after twelve minutes the third machine says %s, want slot_full", got)
	}
	h.run(day2.Add(3 * time.Hour))
	jobs := listJobs(t, c, namespace)
	if got, want := starts(jobs), wantedStarts(); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	audit(t, jobs, 10, 2)
	for i := range 10 {
		if got := reason(t, c, namespace, fmt.Sprint("node-", i)); got != "current" {
			t.Errorf("in the end node-%d says %s", i, got)
		}
	}
	var policy v1alpha1.RolloutPolicy
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "node-lifecycle"}, &policy); err != nil {
		t.Fatal(err)
	}
	if !meta.IsStatusConditionTrue(policy.Status.Conditions, v1alpha1.ConditionAccepted) || !meta.IsStatusConditionTrue(policy.Status.Conditions, v1alpha1.ConditionPlanned) ||
		policy.Status.Waiting != 0 || policy.Status.Running != 0 {
		t.Errorf("policy %+v", policy.Status)
	}
	dispatched := 0
	close(recorder.Events)
	for event := range recorder.Events {
		if strings.Contains(event, "slot_free") || strings.Contains(event, "slot_held") {
			dispatched++
		}
	}
	if dispatched != len(jobs) {
		t.Errorf("%d events about %d jobs", dispatched, len(jobs))
	}
	var records v1alpha1.PlannerStateList
	if err := c.List(t.Context(), &records, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	if h.once(); len(records.Items) == 0 {
		t.Error("no records")
	}
}

// TestNothingChanges: a reconciliation of a fleet at rest writes nothing at all.
func TestNothingChanges(t *testing.T) {
	writes := 0
	c := newFake(t, counted(&writes))
	create(t, c, newFleet(t, "fleet", 3)...)
	h := newHost(t, c, "fleet", day2)
	h.run(day2.Add(2 * time.Hour))
	writes = 0
	h.clock.Advance(time.Hour)
	if h.once(); writes != 0 {
		t.Errorf("%d writes", writes)
	}
}

func counted(writes *int) interceptor.Funcs {
	return failing(func() error { *writes++; return nil })
}

// failing calls a function before every write, which fails with its error.
func failing(before func() error) interceptor.Funcs {
	return interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
			if err := before(); err != nil {
				return err
			}
			return c.Create(ctx, object, options...)
		},
		Update: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.UpdateOption) error {
			if err := before(); err != nil {
				return err
			}
			return c.Update(ctx, object, options...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.DeleteOption) error {
			if err := before(); err != nil {
				return err
			}
			return c.Delete(ctx, object, options...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
			if err := before(); err != nil {
				return err
			}
			return c.SubResource(sub).Patch(ctx, object, patch, options...)
		},
	}
}

// TestCrashes: a controller dies at every one of its writes in turn, and another one goes on after
// it, a minute later: the same jobs, each once, within the limit.
func TestCrashes(t *testing.T) {
	died := errors.New("died")
	crashes := 0
	for n := 0; ; n++ {
		writes, alive := 0, true
		inner := newFake(t, interceptor.Funcs{})
		c := interceptor.NewClient(inner, failing(func() error {
			if writes++; !alive || writes > n {
				alive = false
				return died
			}
			return nil
		}))
		create(t, inner, newFleet(t, "fleet", 2)...)
		h := newHost(t, inner, "fleet", day2.Add(-time.Minute))
		second := h.reconcile
		first := (&Reconciler{Client: c, Server: c, Clock: h.clock, Resync: 10_000 * time.Hour}).Reconcile
		h.reconcile = func(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
			if alive {
				result, err := first(ctx, request)
				if alive || !errors.Is(err, died) {
					return result, err
				}
				return ctrl.Result{RequeueAfter: time.Minute}, nil
			}
			return second(ctx, request)
		}
		h.run(day2.Add(2 * time.Hour))
		audit(t, listJobs(t, inner, "fleet"), 2, 1)
		if t.Failed() {
			t.Fatalf("it died at write %d", n)
		}
		if alive {
			break
		}
		crashes++
	}
	t.Logf("it died in %d places", crashes)
	if crashes < 40 {
		t.Errorf("it died in %d places only", crashes)
	}
}

// TestStaleCache: a controller whose cache shows no jobs for a while offers what it has started
// again, and makes nothing twice.
func TestStaleCache(t *testing.T) {
	c := newFake(t, interceptor.Funcs{})
	create(t, c, newFleet(t, "fleet", 3)...)
	h := newHost(t, c, "fleet", day2)
	fresh := h.reconcile
	hidden := 0
	old := interceptor.NewClient(c, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if _, jobs := list.(*v1alpha1.NodeJobList); jobs {
				hidden++
				return nil
			}
			return c.List(ctx, list, options...)
		},
	})
	stale := (&Reconciler{Client: old, Server: c, Clock: h.clock, Resync: 10_000 * time.Hour}).Reconcile
	h.reconcile = func(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
		if _, err := stale(ctx, request); err != nil {
			return ctrl.Result{}, err
		}
		return fresh(ctx, request)
	}
	h.run(day2.Add(3 * time.Hour))
	audit(t, listJobs(t, c, "fleet"), 3, 1)
	if hidden < 10 {
		t.Errorf("jobs were hidden %d times only", hidden)
	}
}

// TestPolicies: what is wrong with a policy is said on it, and nothing is planned on half of the
// rules.
func TestPolicies(t *testing.T) {
	valid := readPolicy(t, "policy.json")
	for _, row := range []struct {
		why, second, want string
	}{
		{"a misspelt field is not dropped: the limit would be gone", `{"name":"b","selector":"true","rules":[{"resourceConcurency":{"groupSelector":"true","limit":1}}]}`, "spec.rules[0].resourceConcurency"},
		{"an expression that does not compile", `{"name":"b","selector":"deployment.name = 'x'","rules":[{"anyApproval":{"minApprovals":1}}]}`, "spec.selector: 1:"},
		{"a limit that is missing", `{"name":"b","selector":"true","rules":[{"resourceConcurrency":{"groupSelector":"true"}}]}`, "spec.rules[0].resourceConcurrency.limit"},
		{"a list is several policies: each needs an object of its own", `[]`, "one policy"},
		{"two policies with one id would share their state", string(valid), "id"},
	} {
		t.Run(row.why, func(t *testing.T) {
			c := newFake(t, interceptor.Funcs{})
			create(t, c, newFleet(t, "fleet", 3)...)
			create(t, c, newPolicy("fleet", "other", []byte(row.second)))
			h := newHost(t, c, "fleet", day2)
			h.once()
			var policy v1alpha1.RolloutPolicy
			if err := c.Get(t.Context(), client.ObjectKey{Namespace: "fleet", Name: "other"}, &policy); err != nil {
				t.Fatal(err)
			}
			accepted := meta.FindStatusCondition(policy.Status.Conditions, v1alpha1.ConditionAccepted)
			if accepted == nil || accepted.Status != "False" || !strings.Contains(accepted.Message, row.want) {
				t.Errorf("condition %+v, want a message with %q", accepted, row.want)
			}
			if jobs := listJobs(t, c, "fleet"); len(jobs) > 0 {
				t.Errorf("planned without the policy: %v", starts(jobs))
			}
			if err := c.Delete(t.Context(), &policy); err != nil {
				t.Fatal(err)
			}
			if h.once(); len(listJobs(t, c, "fleet")) != 1 {
				t.Error("nothing is planned without the faulty policy")
			}
		})
	}
}

// TestContradictions: what contradicts itself in the namespace is said on the policies, and tried
// again when something changes, not before.
func TestContradictions(t *testing.T) {
	for _, row := range []struct {
		why  string
		bad  client.Object
		want string
	}{
		{"two releases of one version", inNamespace(&v1alpha1.Release{Spec: v1alpha1.ReleaseSpec{Deployment: "os-patch", Version: "2026-03", PublishedAt: day1}}, "fleet", "again"), "2026-03"},
		{"two brackets that claim the same machines", newPolicy("fleet", "other", []byte(`{"name":"b","selector":"true","rules":[
			{"id":"twice","deploymentBracket":{"deploymentSelector":"deployment.name == 'os-patch'","readinessMode":"collection_window","readinessWindowSeconds":60}}]}`)), "both bracket deployment"},
		{"members that wait for one another", newPolicy("fleet", "other", []byte(`{"name":"b","selector":"true","rules":[
			{"id":"circle","deploymentDependency":{"dependsOn":"deployment.name == 'node-uncordon'","appliesTo":"deployment.name == 'node-drain'"}}]}`)), "cycle"},
	} {
		t.Run(row.why, func(t *testing.T) {
			c := newFake(t, interceptor.Funcs{})
			create(t, c, newFleet(t, "fleet", 3)...)
			create(t, c, row.bad)
			h := newHost(t, c, "fleet", day2)
			if wait := h.once(); wait != 0 {
				t.Errorf("asks to be called again after %v", wait)
			}
			var policy v1alpha1.RolloutPolicy
			if err := c.Get(t.Context(), client.ObjectKey{Namespace: "fleet", Name: "node-lifecycle"}, &policy); err != nil {
				t.Fatal(err)
			}
			planned := meta.FindStatusCondition(policy.Status.Conditions, v1alpha1.ConditionPlanned)
			if planned == nil || planned.Status != "False" || !strings.Contains(planned.Message, row.want) {
				t.Errorf("condition %+v, want a message with %q", planned, row.want)
			}
			if err := c.Delete(t.Context(), row.bad); err != nil {
				t.Fatal(err)
			}
			if h.once(); len(listJobs(t, c, "fleet")) != 1 {
				t.Error("nothing is planned after what is wrong is gone")
			}
		})
	}
}

// TestPlanFails: what the library cannot plan with, or cannot save, is said on the policies too, and
// tried again: they said that all was planned, and only the log knew better.
func TestPlanFails(t *testing.T) {
	far := time.Date(9999, 12, 31, 23, 59, 59, 0, time.FixedZone("", -5*60*60)) // in the year 10000
	for _, row := range []struct {
		why  string
		bad  client.Object // nil: a job ends that far ahead
		want string
	}{
		{"a release of the year 10000", inNamespace(&v1alpha1.Release{Spec: v1alpha1.ReleaseSpec{Deployment: "os-patch", Version: "far", PublishedAt: far}}, "fleet", "far"), "years 1 to 9999"},
		{"an environment with a name that no record can have", inNamespace(&v1alpha1.Machine{Spec: v1alpha1.MachineSpec{Environment: strings.Repeat("環", 253)}}, "fleet", "far"), "shorten the rule's id, or the name of the environment"},
		{"a job that ended in the year 10000", nil, "years 1 to 9999"},
	} {
		t.Run(row.why, func(t *testing.T) {
			c := newFake(t, interceptor.Funcs{})
			create(t, c, newFleet(t, "fleet", 3)...)
			h := newHost(t, c, "fleet", day2)
			h.once()
			end := func(at time.Time) {
				for _, job := range listJobs(t, c, "fleet") {
					job.Status.State, job.Status.CompletedAt = rollout.JobSuccessful, at
					if err := c.Status().Update(t.Context(), &job); err != nil {
						t.Fatal(err)
					}
				}
			}
			if row.bad != nil {
				create(t, c, row.bad)
			} else {
				end(far)
			}
			if _, err := h.reconcile(t.Context(), h.request()); err == nil || !strings.Contains(err.Error(), row.want) {
				t.Errorf("%v, want an error with %q", err, row.want)
			}
			planned := func() *metav1.Condition {
				var policy v1alpha1.RolloutPolicy
				if err := c.Get(t.Context(), client.ObjectKey{Namespace: "fleet", Name: "node-lifecycle"}, &policy); err != nil {
					t.Fatal(err)
				}
				return meta.FindStatusCondition(policy.Status.Conditions, v1alpha1.ConditionPlanned)
			}
			if said := planned(); said == nil || said.Status != "False" || !strings.Contains(said.Message, row.want) {
				t.Errorf("condition %+v, want a message with %q", said, row.want)
			}
			if row.bad != nil {
				if err := c.Delete(t.Context(), row.bad); err != nil {
					t.Fatal(err)
				}
			} else {
				end(day2)
			}
			h.once()
			if said := planned(); said.Status != "True" {
				t.Errorf("without it the condition is %+v", said)
			}
		})
	}
}

// TestNotPlanned: as long as nothing is planned, the policies of the namespace do not say that it is,
// nor when it will be, whichever of them is at fault.
func TestNotPlanned(t *testing.T) {
	for _, row := range []struct {
		why string
		bad client.Object
	}{
		{"another policy is not valid", newPolicy("fleet", "other", []byte(`{"name":"b","selector":"true","rules":[{"resourceConcurency":{}}]}`))},
		{"the namespace contradicts itself", inNamespace(&v1alpha1.Release{Spec: v1alpha1.ReleaseSpec{Deployment: "os-patch", Version: "2026-03", PublishedAt: day1}}, "fleet", "again")},
	} {
		t.Run(row.why, func(t *testing.T) {
			c := newFake(t, interceptor.Funcs{})
			create(t, c, newFleet(t, "fleet", 3)...)
			h := newHost(t, c, "fleet", day1)
			check := func(when string, want bool) {
				t.Helper()
				h.once()
				var policy v1alpha1.RolloutPolicy
				if err := c.Get(t.Context(), client.ObjectKey{Namespace: "fleet", Name: "node-lifecycle"}, &policy); err != nil {
					t.Fatal(err)
				}
				planned, next := meta.IsStatusConditionTrue(policy.Status.Conditions, v1alpha1.ConditionPlanned), policy.Status.NextPlan
				if planned != want || (next != nil) != want {
					t.Errorf("%s: Planned is %t, the next plan is at %v, want %t", when, planned, next, want)
				}
			}
			check("before", true)
			create(t, c, row.bad)
			check("with the fault", false)
			if err := c.Delete(t.Context(), row.bad); err != nil {
				t.Fatal(err)
			}
			check("without it", true)
		})
	}
}

// TestDeletedMachine: what a deleted machine held is given back; one that a cache does not show yet
// keeps it.
func TestDeletedMachine(t *testing.T) {
	for _, row := range []struct {
		why    string
		delete bool
		want   int // machines with jobs
	}{
		{"the server says that it is gone", true, 2},
		{"only the cache does not show it", false, 1},
	} {
		t.Run(row.why, func(t *testing.T) {
			c := newFake(t, interceptor.Funcs{})
			create(t, c, newFleet(t, "fleet", 3)...)
			h := newHost(t, c, "fleet", day2.Add(time.Hour)) // everybody is due
			h.once()
			first := listJobs(t, c, "fleet")
			if len(first) != 1 {
				t.Fatal(starts(first))
			}
			lost := inNamespace(&v1alpha1.Machine{}, "fleet", first[0].Spec.Machine)
			if row.delete {
				if err := c.Delete(t.Context(), lost); err != nil {
					t.Fatal(err)
				}
			} else {
				cache := interceptor.NewClient(c, interceptor.Funcs{
					List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
						err := c.List(ctx, list, options...)
						if machines, ok := list.(*v1alpha1.MachineList); ok {
							machines.Items = slices.DeleteFunc(machines.Items, func(m v1alpha1.Machine) bool { return m.Name == lost.Name })
						}
						return err
					},
				})
				h.reconcile = (&Reconciler{Client: cache, Server: c, Clock: h.clock}).Reconcile
			}
			h.once()
			h.once()
			on := map[string]bool{}
			for _, job := range listJobs(t, c, "fleet") {
				on[job.Spec.Machine] = true
			}
			if len(on) != row.want {
				t.Errorf("jobs on %v, want %d machines", on, row.want)
			}
			if !recorded(t, c, lost.GetName()) {
				t.Errorf("the record of its execution is gone before its jobs")
			}
			for _, job := range listJobs(t, c, "fleet") {
				if job.Spec.Machine == lost.GetName() {
					if err := c.Delete(t.Context(), &job); err != nil {
						t.Fatal(err)
					}
				}
			}
			h.once()
			if recorded(t, c, lost.GetName()) == row.delete {
				t.Errorf("without its jobs the record of its execution is gone: %v, want %v", !row.delete, row.delete)
			}
		})
	}
}

// recorded reports whether there is a record of the executions on a machine.
func recorded(t *testing.T, c client.WithWatch, machine string) bool {
	t.Helper()
	_, _, err := NewStore(c, c, "fleet").Load(t.Context(), bracket.ExecutionKey("Node Lifecycle/deploymentBracket/0", machine))
	if err != nil && !errors.Is(err, bracket.ErrNotFound) {
		t.Fatal(err)
	}
	return err == nil
}

// replace deletes a machine and returns one that can be created under its name.
func replace(t *testing.T, c client.WithWatch, name string) *v1alpha1.Machine {
	t.Helper()
	var machine v1alpha1.Machine
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "fleet", Name: name}, &machine); err != nil {
		t.Fatal(err)
	}
	if err := c.Delete(t.Context(), &machine); err != nil {
		t.Fatal(err)
	}
	next := inNamespace(&v1alpha1.Machine{Spec: machine.Spec}, "fleet", name)
	next.Labels = machine.Labels
	return next
}

// TestReplacedMachine: a machine on which a job has failed is deleted, and another one is registered
// under its name. The deletion has ended the bracket there, and the new machine does not take up the
// failure of the old one, whose jobs still exist, with its slot: the others would wait for a person.
func TestReplacedMachine(t *testing.T) {
	for _, kind := range []bracket.CommandKind{"", bracket.Retry, bracket.Resolve, bracket.Abandon} {
		c := newFake(t, interceptor.Funcs{})
		h, job := failed(t, c)
		h.outcome = func(other v1alpha1.NodeJob) rollout.JobStatus {
			if other.Spec.Machine == job.Spec.Machine && other.Spec.Deployment == job.Spec.Deployment {
				return rollout.JobFailure
			}
			return rollout.JobSuccessful
		}
		if kind != "" { // it is carried out once, on the old machine
			create(t, c, command(job, kind, "decided", h.clock.Now()))
			h.run(day2.Add(2 * time.Hour))
		}
		next := replace(t, c, job.Spec.Machine)
		h.once()
		h.once()
		create(t, c, next)
		h.run(day2.Add(12 * time.Hour))
		said := map[string]int{}
		for i := range 3 {
			said[reason(t, c, "fleet", fmt.Sprint("node-", i))]++
		}
		if said["current"] != 2 || said["bracket_ended"] != 1 {
			t.Errorf("after %q, deletion and creation the machines say %v", kind, said)
		}
	}
}

// likeAServer gives jobs a creationTimestamp, which the fake client does not.
func likeAServer(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
	if job, ok := object.(*v1alpha1.NodeJob); ok {
		job.CreationTimestamp = metav1.NewTime(job.Spec.CreatedAt.Truncate(time.Second))
	}
	return c.Create(ctx, object, options...)
}

// TestReplacedBeforeATurn: a machine is replaced under its name, and no turn sees that it was gone. The
// jobs of its bracket are older than the new machine, so the bracket ends as if a turn had seen it,
// with what it held, and the new machine gets everything. So it does if the controller that finds
// that dies at one of its writes. A bracket whose jobs are not older goes on: it has begun on the new
// machine, or within a second of its registration.
func TestReplacedBeforeATurn(t *testing.T) {
	died := errors.New("died")
	for _, row := range []struct {
		why   string
		fails string              // the deployment of the job that has failed
		kind  bracket.CommandKind // what a person has decided about the former machine
		later time.Duration       // when it is replaced
		want  map[string]int      // what the machines say in the end
	}{
		{"a job has failed for good", "kubelet-upgrade", "", 2 * time.Second, map[string]int{"current": 3}},
		{"the first job has failed, and nothing has succeeded on the former machine", "node-drain", "", 2 * time.Second, map[string]int{"current": 3}},
		{"an agent is to repeat it", "kubelet-upgrade", bracket.Retry, 2 * time.Second, map[string]int{"current": 3}},
		{"nobody has said that it serves again", "kubelet-upgrade", bracket.Abandon, 2 * time.Second, map[string]int{"current": 3}},
		{"the bracket was ended", "kubelet-upgrade", bracket.Resolve, 2 * time.Second, map[string]int{"current": 3}},
		{"nothing tells the jobs from those of the new machine", "kubelet-upgrade", "", -24 * time.Hour, map[string]int{"bracket_failed_holding": 1, "slot_full": 2}},
	} {
		alive, n := false, 0
		if row.kind != "" || row.later < 0 {
			n = 1000 // it does not die
		}
		for ; !alive; n++ {
			c := newFake(t, interceptor.Funcs{Create: likeAServer})
			h, failure := failedJob(t, c, row.fails)
			if row.kind != "" {
				create(t, c, command(failure, row.kind, "decided", h.clock.Now()))
				h.once()
			}
			next := replace(t, c, failure.Spec.Machine)
			next.CreationTimestamp = metav1.NewTime(h.clock.Now().Add(row.later).Truncate(time.Second))
			next.Spec.JoinedAt = time.Time{}
			create(t, c, next)
			old := map[string]bool{}
			for _, job := range listJobs(t, c, "fleet") {
				old[job.Name] = true
				if row.later > 0 && !job.Status.State.Terminal() && job.Spec.Machine == failure.Spec.Machine { // as the README has it of agents
					if err := report(t.Context(), c, &job, rollout.JobCancelled, h.clock.Now()); err != nil {
						t.Fatal(err)
					}
				}
			}
			h.clock.Advance(3 * time.Second)
			writes := 0
			alive = true
			mortal := interceptor.NewClient(c, failing(func() error {
				if writes++; writes > n {
					alive = false
					return died
				}
				return nil
			}))
			if _, err := (&Reconciler{Client: mortal, Server: mortal, Clock: h.clock}).Reconcile(t.Context(), h.request()); err != nil && !errors.Is(err, died) {
				t.Fatal(err)
			}
			h.run(day2.Add(72 * time.Hour))
			said, anew := map[string]int{}, 0
			for i := range 3 {
				said[reason(t, c, "fleet", fmt.Sprint("node-", i))]++
			}
			for _, job := range listJobs(t, c, "fleet") {
				if job.Spec.Machine == failure.Spec.Machine && !old[job.Name] {
					anew++
				}
			}
			if !maps.Equal(said, row.want) || (anew == 5) != (row.later > 0) {
				t.Errorf("%s, dead after %d writes: the machines say %v, want %v; %d jobs on the new one", row.why, n, said, row.want, anew)
			}
		}
	}
}

// TestGoneForGood: somebody deletes the jobs of a machine that is gone for good. Then the controller
// deletes its records, also those of its targets, and a machine that is registered under the name
// later is like one that nobody has seen. With the records of its targets it was given the last job of
// the former machine once more, however old.
func TestGoneForGood(t *testing.T) {
	const name = "node-1"
	records := func(c client.WithWatch) (list []string) {
		entries, err := NewStore(c, c, "fleet").List(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			if strings.Contains(entry.Key, name) {
				list = append(list, entry.Key)
			}
		}
		return list
	}
	for _, row := range []struct {
		why     string
		restart bool // the controller that has seen the jobs is another one
		left    bool // one job is left
		unseen  bool // it is only the cache that does not show the machine
		hidden  bool // it is only the cache that does not show the jobs
		forgets bool
	}{
		{"all are gone", false, false, false, false, true},
		{"all are gone, and the controller is new", true, false, false, false, true},
		{"a job is left", false, true, false, false, false},
		{"the machine is there, and its jobs are deleted", false, false, true, false, false},
		{"the jobs are there", false, false, false, true, false},
		{"the jobs are there, and the controller is new", true, false, false, true, false},
	} {
		c := newFake(t, interceptor.Funcs{Create: likeAServer})
		create(t, c, newFleet(t, "fleet", 3)...)
		h := newHost(t, c, "fleet", day2.Add(-time.Hour))
		hiding, lists := false, 0
		cache := interceptor.NewClient(c, interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
				err := c.List(ctx, list, options...)
				switch list := list.(type) {
				case *v1alpha1.MachineList:
					list.Items = slices.DeleteFunc(list.Items, func(m v1alpha1.Machine) bool { return hiding && row.unseen && m.Name == name })
				case *v1alpha1.NodeJobList:
					list.Items = slices.DeleteFunc(list.Items, func(j v1alpha1.NodeJob) bool { return hiding && row.hidden && j.Spec.Machine == name })
				}
				return err
			},
		})
		newController := func() {
			server := interceptor.NewClient(c, interceptor.Funcs{
				List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
					if _, records := list.(*v1alpha1.PlannerStateList); records {
						lists++
					}
					return c.List(ctx, list, options...)
				},
			})
			h.reconcile = (&Reconciler{Client: cache, Server: server, Clock: h.clock, Resync: 10_000 * time.Hour}).Reconcile
		}
		newController()
		h.run(day2.Add(20 * time.Hour))
		if got := records(c); len(got) != 6 { // an execution and five targets
			t.Fatalf("%s: there are records %q", row.why, got)
		}
		if !row.unseen {
			if err := c.Delete(t.Context(), inNamespace(&v1alpha1.Machine{}, "fleet", name)); err != nil {
				t.Fatal(err)
			}
		}
		h.once()
		lists = 0
		if h.once(); lists != 4 { // those that the planner reads
			t.Errorf("%s: a turn lists %d families of records", row.why, lists)
		}
		if got := records(c); len(got) != 6 {
			t.Fatalf("%s: as long as there are jobs there are records %q", row.why, got)
		}
		left := row.left
		for _, job := range listJobs(t, c, "fleet") {
			if job.Spec.Machine != name || row.hidden {
				continue
			}
			if left {
				left = false
				continue
			}
			if err := c.Delete(t.Context(), &job); err != nil {
				t.Fatal(err)
			}
		}
		if hiding = true; row.restart {
			newController()
		}
		h.once()
		want := 6
		if row.forgets {
			want = 0
		}
		if got := records(c); len(got) != want {
			t.Errorf("%s: there are records %q, want %d", row.why, got, want)
		}
		if !row.forgets {
			continue
		}
		before := listJobs(t, c, "fleet")
		next := inNamespace(&v1alpha1.Machine{Spec: v1alpha1.MachineSpec{Environment: "prod"}}, "fleet", name)
		next.Labels = map[string]string{"cluster": "prod-east"}
		next.CreationTimestamp = metav1.NewTime(h.clock.Now().Truncate(time.Second))
		create(t, c, next)
		h.run(h.clock.Now().Add(72 * time.Hour))
		if after := listJobs(t, c, "fleet"); len(after) != len(before)+5 || reason(t, c, "fleet", name) != "current" {
			t.Errorf("%s: the new machine says %s, and there are jobs %v", row.why, reason(t, c, "fleet", name), starts(after[len(before):]))
		}
	}
}

// TestReplaced: a machine was replaced if all that is held under its name is of brackets that had
// begun on the former one. A plan that is told that it is gone would give back what the new one holds.
func TestReplaced(t *testing.T) {
	old, others, single := concurrency.Holder{Resource: "m", Group: "r/prod/1"}, concurrency.Holder{Resource: "m", Group: "r/prod/2"}, concurrency.Holder{Resource: "m", Group: "target/prod/agent"}
	if _, outside := rollout.TargetOf(single); !outside {
		t.Fatalf("%v is in a bracket", single)
	}
	for _, row := range []struct {
		why    string
		open   string // the group of the execution
		leases []concurrency.Holder
		want   bool
	}{
		{"nothing is held", "", nil, false},
		{"an execution and its slot", old.Group, []concurrency.Holder{old}, true},
		{"an execution without a slot, as in a policy without limits", old.Group, nil, true},
		{"a slot that was left behind", "", []concurrency.Holder{old}, true},
		{"an execution of the new machine", others.Group, []concurrency.Holder{others}, false},
		{"a slot that was left behind, and an execution of the new machine", others.Group, []concurrency.Holder{others, old}, false},
		{"the same, in the other order", others.Group, []concurrency.Holder{old, others}, false},
		{"a target's slot, which no job tells from one of the former machine", old.Group, []concurrency.Holder{old, single}, false},
		{"the same, in the other order", old.Group, []concurrency.Holder{single, old}, false},
		{"a slot of another machine", "", []concurrency.Holder{{Resource: "n", Group: old.Group}}, false},
	} {
		o := &observation{begun: map[concurrency.Holder]bool{old: true, single: true}}
		state := rollout.State{Executions: []*bracket.ExecutionRecord{{Rule: "r", Resource: "m"}}}
		if row.open != "" {
			state.Executions[0].Open = &bracket.Execution{Group: row.open}
		}
		for i, holder := range row.leases {
			state.Pools = append(state.Pools, concurrency.Record{Key: fmt.Sprint(i), Leases: []concurrency.Lease{{Holder: holder}}})
		}
		want := []string(nil)
		if row.want {
			want = []string{"m"}
		}
		if got := o.replaced(state); !slices.Equal(got, want) {
			t.Errorf("%s: replaced are %v, want %v", row.why, got, want)
		}
	}
}

// TestReplacedMachineRunsAnew: a machine on which everything was installed is deleted, and another one
// is registered under its name. It runs what it was registered with, and not what jobs have installed
// on the former one, so everything is installed there too. It takes a server, which knows which was
// created first.
func TestReplacedMachineRunsAnew(t *testing.T) {
	c := newDirectClient(t, sharedServer(t))
	for _, row := range []struct {
		why        string
		policy     string
		registered string // what of the former machine it is registered with
		ahead      bool   // the controller's clock is ahead of the server's by more than there was between the two machines
		seen       bool   // there is a turn between the deletion and the creation
		want       int    // jobs there
	}{
		{"in a bracket, also if no turn sees that it is gone", "policy.json", "", false, false, 5},
		{"outside brackets, also if its jobs look younger than the new machine", "policy-flat.json", "", true, true, 3},
		{"what comes with it is not installed", "policy-flat.json", "os-patch", false, true, 2},
	} {
		t.Run(row.why, func(t *testing.T) {
			namespace := newNamespace()
			objects := newFleet(t, namespace, 3)
			objects[0] = newPolicy(namespace, "node-lifecycle", readPolicy(t, row.policy))
			create(t, c, objects...)
			begin := time.Now().Add(-48 * time.Hour)
			if row.ahead {
				begin = time.Now().Add(time.Hour)
			}
			h := newHost(t, c, namespace, begin)
			h.run(begin.Add(47 * time.Hour))
			const name = "node-1"
			var old v1alpha1.Machine
			if err := c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, &old); err != nil {
				t.Fatal(err)
			}
			before := listJobs(t, c, namespace)
			time.Sleep(time.Until(before[len(before)-1].CreationTimestamp.Add(time.Second))) // the server's instants are whole seconds
			if err := c.Delete(t.Context(), &old); err != nil {
				t.Fatal(err)
			}
			if row.seen {
				h.once()
				h.once()
			}
			next := inNamespace(&v1alpha1.Machine{Spec: old.Spec}, namespace, name)
			next.Labels, next.Spec.JoinedAt = old.Labels, time.Time{}
			if row.registered != "" {
				for _, job := range before {
					if job.Spec.Machine == name && job.Spec.Deployment == row.registered {
						next.Spec.Versions = maps.Clone(old.Spec.Versions)
						next.Spec.Versions[row.registered] = job.Spec.Version
					}
				}
			}
			create(t, c, next)
			if now := next.CreationTimestamp.Time; h.clock.Now().Before(now) {
				h.clock.Set(now)
			}
			for range 2 { // the second one finds nothing to do
				h.run(h.clock.Now().Add(48 * time.Hour))
				after := listJobs(t, c, namespace)
				var anew []string
				for _, job := range after[len(before):] {
					if job.Spec.Machine == name {
						anew = append(anew, job.Spec.Deployment+" "+job.Spec.Version)
					}
				}
				if len(anew) != row.want || len(after) != len(before)+row.want || reason(t, c, namespace, name) != "current" {
					t.Errorf("%d jobs after %d, on the new machine %q, which says %s; want %d there", len(after), len(before), anew, reason(t, c, namespace, name), row.want)
				}
				h.clock.Advance(time.Hour)
			}
		})
	}
}

// TestReplacedMachineAtAnyInstant: whenever a machine is replaced under its name, in the end the new one
// has had a job for everything that the former one may have got, and nobody waits.
func TestReplacedMachineAtAnyInstant(t *testing.T) {
	versions := map[string]string{"os-patch": "2026-03", "kubelet-upgrade": "v1.29.2", "containerd-upgrade": "v1.7.3"}
	for _, seen := range []bool{false, true} { // whether there is a turn between the deletion and the creation
		replaced := true
		for n := 1; replaced; n += 2 {
			replaced = false
			var h *host
			c := newFake(t, interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
				if h != nil {
					object.SetCreationTimestamp(metav1.NewTime(h.clock.Now().Truncate(time.Second)))
				}
				return c.Create(ctx, object, options...)
			}})
			create(t, c, newFleet(t, "fleet", 3)...)
			h = newHost(t, c, "fleet", day2.Add(-time.Hour))
			turns := 0
			h.each = func() {
				if turns++; turns != n {
					return
				}
				name := "node-1"
				for _, job := range listJobs(t, c, "fleet") {
					if !job.Status.State.Terminal() {
						name = job.Spec.Machine
					}
				}
				h.clock.Advance(1500 * time.Millisecond)
				next := replace(t, c, name)
				next.Spec.JoinedAt = time.Time{}
				if seen {
					h.once()
					h.once()
				}
				h.clock.Advance(300 * time.Millisecond) // within the same second
				create(t, c, next)
				h.once()
				replaced = true
			}
			h.run(day2.Add(200 * time.Hour))
			had := map[string]bool{}
			for _, job := range listJobs(t, c, "fleet") {
				var machine v1alpha1.Machine
				if err := c.Get(t.Context(), client.ObjectKey{Namespace: "fleet", Name: job.Spec.Machine}, &machine); err != nil {
					t.Fatal(err)
				}
				if versions[job.Spec.Deployment] == job.Spec.Version && !job.CreationTimestamp.Before(&machine.CreationTimestamp) {
					had[job.Spec.Machine+" "+job.Spec.Deployment] = true
				}
			}
			for i := range 3 {
				if got := reason(t, c, "fleet", fmt.Sprint("node-", i)); got != "current" {
					t.Errorf("replaced after turn %d of %d, seen %t: node-%d says %s", n, turns, seen, i, got)
				}
			}
			if len(had) != 3*len(versions) {
				t.Errorf("replaced after turn %d of %d, seen %t: there are jobs for %v", n, turns, seen, had)
			}
		}
	}
}

// TestMachineIsBackMeanwhile: a controller asks the server whether a machine that holds nothing is
// gone, and sleeps. The machine comes back and another controller drains it. When the first one goes
// on, the slot is still taken.
func TestMachineIsBackMeanwhile(t *testing.T) {
	c := newFake(t, interceptor.Funcs{})
	create(t, c, newFleet(t, "fleet", 3)...)
	h := newHost(t, c, "fleet", day2.Add(time.Hour))
	h.run(day2.Add(20 * time.Hour))
	old := listJobs(t, c, "fleet")
	name := old[0].Spec.Machine
	at := h.clock.Now()
	create(t, c, newRelease("fleet", "os-patch", "2026-04", at))
	newHost(t, c, "fleet", at).run(at.Add(time.Minute)) // a new group collects
	for _, job := range old {                           // somebody has deleted its jobs, with the records of its targets
		if job.Spec.Machine != name {
			continue
		}
		id := rollout.TargetID{Resource: name, Environment: job.Spec.Environment, Deployment: job.Spec.Deployment}
		if err := errors.Join(c.Delete(t.Context(), &job), c.Delete(t.Context(), NewStore(c, c, "fleet").object(targetKey(id)))); err != nil {
			t.Fatal(err)
		}
	}
	next := replace(t, c, name)
	asked := 0
	server := interceptor.NewClient(c, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			err := c.Get(ctx, key, object, options...)
			if _, machine := object.(*v1alpha1.Machine); machine && err != nil {
				asked++
				create(t, c, next)
				newHost(t, c, "fleet", at).once() // it becomes a member of the group
				h.clock.Set(at.Add(48 * time.Hour))
				newHost(t, c, "fleet", h.clock.Now()).once()
			}
			return err
		},
	})
	h.reconcile = (&Reconciler{Client: c, Server: server, Clock: h.clock}).Reconcile
	h.once()
	on := map[string]bool{}
	for _, job := range listJobs(t, c, "fleet") {
		if !job.Status.State.Terminal() && job.Spec.CreatedAt.After(at) {
			on[job.Spec.Machine] = true
		}
	}
	if asked != 1 || len(on) != 1 || !on[name] {
		t.Errorf("asked %d times; there are jobs on %v, want %s alone", asked, on, name)
	}
}

// TestMachineBeingDeleted: nothing new begins on a machine that is being deleted and is held by a
// finalizer. What has begun is finished, gives its slots back, and the others do not wait for longer.
func TestMachineBeingDeleted(t *testing.T) {
	for _, row := range []struct {
		why     string
		bracket bool
		at      time.Duration // after the second day's morning, when all are due
		want    []string      // jobs on the machine
	}{
		{"before its only job", false, -time.Minute, nil},
		{"while that runs", false, time.Minute, []string{"os-patch"}},
		{"before its bracket", true, -time.Minute, nil},
		{"in its bracket, which goes on to its end: the machine is not left drained with a slot", true, 9 * time.Minute,
			[]string{"node-drain", "os-patch", "containerd-upgrade", "kubelet-upgrade", "node-uncordon"}},
	} {
		t.Run(row.why, func(t *testing.T) {
			const first = "node-1" // in the order of the bracket
			c := newFake(t, interceptor.Funcs{})
			objects := newFleet(t, "fleet", 3)
			if !row.bracket {
				objects = append(objects[len(objects)-3:], newPolicy("fleet", "flat", readPolicy(t, "policy-flat.json")), inNamespace(&v1alpha1.NodeDeployment{}, "fleet", "os-patch"),
					newRelease("fleet", "os-patch", "2026-02", day1), newRelease("fleet", "os-patch", "2026-03", day2))
			}
			for _, object := range objects {
				if object.GetName() == first {
					object.SetFinalizers([]string{"example.com/provider"})
				}
			}
			create(t, c, objects...)
			h := newHost(t, c, "fleet", day2.Add(-2*time.Minute))
			h.run(day2.Add(row.at))
			h.clock.Set(day2.Add(row.at))
			machine := inNamespace(&v1alpha1.Machine{}, "fleet", first)
			if err := c.Delete(t.Context(), machine); err != nil {
				t.Fatal(err)
			}
			h.run(day2.Add(3 * time.Hour))
			on := map[string][]string{}
			for _, job := range listJobs(t, c, "fleet") {
				on[job.Spec.Machine] = append(on[job.Spec.Machine], job.Spec.Deployment)
				if job.Status.State != rollout.JobSuccessful {
					t.Errorf("%s is %q", job.Spec.Run, job.Status.State)
				}
			}
			slices.Sort(on[first])
			slices.Sort(row.want)
			if !slices.Equal(on[first], row.want) || len(on["node-0"]) == 0 || len(on["node-2"]) == 0 {
				t.Errorf("jobs %v, want %v on %s and all on the others", on, row.want, first)
			}
			create(t, c, newRelease("fleet", "os-patch", "2026-04", h.clock.Now()))
			h.run(h.clock.Now().Add(30 * time.Hour))
			n := 0
			for _, job := range listJobs(t, c, "fleet") {
				if job.Spec.Machine == first {
					n++
				}
			}
			if got := reason(t, c, "fleet", first); n != len(row.want) || got != "being_deleted" {
				t.Errorf("after the next release it has %d jobs and says %s", n, got)
			}
			entries, err := NewStore(c, c, "fleet").List(t.Context(), "pool/")
			if err != nil {
				t.Fatal(err)
			}
			for _, entry := range entries {
				if record, err := concurrency.ParseRecord(entry.Value); err != nil || len(record.Leases) > 0 {
					t.Errorf("%s still holds %v: %v", entry.Key, record.Leases, err)
				}
			}
		})
	}
}

// TestPriorityOfRelease: of two deployments that share a limit of one machine at a time, the one with
// a security fix goes first, although the other release was published before it. A server keeps the
// field.
func TestPriorityOfRelease(t *testing.T) {
	t.Parallel()
	c, namespace := newClient(t, sharedServer(t)), newNamespace()
	fix := newRelease(namespace, "sshd", "v1", day1.Add(time.Minute))
	fix.Spec.Priority = 10
	create(t, c, newPolicy(namespace, "one", []byte(`{"name":"one","selector":"true","rules":[{"id":"limit","resourceConcurrency":{"groupSelector":"true","limit":1}}]}`)),
		newRelease(namespace, "agent", "v1", day1), fix)
	for name, machine := range map[string]string{"agent": "m0", "sshd": "m1"} {
		deployment := inNamespace(&v1alpha1.NodeDeployment{Spec: v1alpha1.NodeDeploymentSpec{MachineSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"name": machine}}}}, namespace, name)
		create(t, c, deployment)
		own := inNamespace(&v1alpha1.Machine{Spec: v1alpha1.MachineSpec{Environment: "prod", JoinedAt: day1}}, namespace, machine)
		own.Labels = map[string]string{"name": machine}
		create(t, c, own)
	}
	newHost(t, c, namespace, day1.Add(time.Hour)).once()
	if jobs := listJobs(t, c, namespace); len(jobs) != 1 || jobs[0].Spec.Deployment != "sshd" {
		t.Errorf("%d jobs, the first is of %s", len(jobs), jobs[0].Spec.Deployment)
	}
}

// TestUnavailable: a machine that is down for other reasons, or on which somebody works by hand,
// counts.
func TestUnavailable(t *testing.T) {
	for _, row := range []struct {
		why    string
		change func(c client.Client, m *v1alpha1.Machine) error
		want   int
	}{
		{"nothing is wrong", func(client.Client, *v1alpha1.Machine) error { return nil }, 1},
		{"it is down", func(c client.Client, m *v1alpha1.Machine) error {
			m.Spec.Unavailable = true
			return c.Update(t.Context(), m)
		}, 0},
		{"a job by hand runs on it", func(c client.Client, m *v1alpha1.Machine) error {
			return c.Create(t.Context(), inNamespace(&v1alpha1.NodeJob{Spec: v1alpha1.NodeJobSpec{
				Run: "by hand", Machine: m.Name, Environment: "prod", Deployment: "memory-test", Version: "v1",
			}}, "fleet", "by-hand"))
		}, 0},
	} {
		t.Run(row.why, func(t *testing.T) {
			c := newFake(t, interceptor.Funcs{})
			create(t, c, newFleet(t, "fleet", 3)...)
			var machine v1alpha1.Machine
			if err := c.Get(t.Context(), client.ObjectKey{Namespace: "fleet", Name: "node-0"}, &machine); err != nil {
				t.Fatal(err)
			}
			if err := row.change(c, &machine); err != nil {
				t.Fatal(err)
			}
			h := newHost(t, c, "fleet", day2) // node-1 is the first in the order
			h.once()
			dispatched := 0
			for _, job := range listJobs(t, c, "fleet") {
				if job.Spec.Turn > 0 {
					dispatched++
				}
			}
			if dispatched != row.want {
				t.Errorf("%d jobs were dispatched, want %d", dispatched, row.want)
			}
		})
	}
}

// TestOneJobRefused: the server refuses a job again and again, for reasons of its own. That is an
// error, and the job keeps its slot, for nobody knows what becomes of it. The other machines do not
// wait for it beyond that, and all of them say what they wait for.
func TestOneJobRefused(t *testing.T) {
	const machines = 4
	refused, asked := apierrors.NewForbidden(schema.GroupResource{Resource: "nodejobs"}, "", errors.New("by an admission webhook")), 0
	victim := "" // the first machine that is due
	c := newFake(t, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
			if job, ok := object.(*v1alpha1.NodeJob); ok {
				if victim == "" {
					victim = job.Spec.Machine
				}
				if job.Spec.Machine == victim {
					asked++
					return refused
				}
			}
			return c.Create(ctx, object, options...)
		},
	})
	create(t, c, newPolicy("fleet", "flat", readPolicy(t, "policy-flat.json")), inNamespace(&v1alpha1.NodeDeployment{}, "fleet", "agent"), newRelease("fleet", "agent", "v1", day1))
	for i := range machines {
		create(t, c, inNamespace(&v1alpha1.Machine{Spec: v1alpha1.MachineSpec{Environment: "prod", JoinedAt: day1.AddDate(-1, 0, 0)}}, "fleet", fmt.Sprint("node-", i)))
	}
	h := newHost(t, c, "fleet", day2)
	reconcile := h.reconcile
	h.reconcile = func(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
		_, err := reconcile(ctx, request)
		if !errors.Is(err, refused) {
			t.Fatalf("error %v, want that of the server", err)
		}
		return ctrl.Result{RequeueAfter: 5 * time.Second}, nil
	}
	h.run(day2.Add(time.Minute))
	if jobs := listJobs(t, c, "fleet"); len(jobs) != machines-1 || asked < 2 {
		t.Errorf("asked %d times for the job of %s, and of the others there are %v", asked, victim, starts(jobs))
	}
	for i := range machines {
		want := "current"
		if machine := fmt.Sprint("node-", i); machine == victim {
			want = "started"
		}
		if got := reason(t, c, "fleet", fmt.Sprint("node-", i)); got != want {
			t.Errorf("node-%d says %s, want %s", i, got, want)
		}
	}
	var policy v1alpha1.RolloutPolicy
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "fleet", Name: "flat"}, &policy); err != nil {
		t.Fatal(err)
	}
	if policy.Status.Running != 1 {
		t.Errorf("%d jobs are said to run", policy.Status.Running)
	}
}

// countRefusals returns what the metric says that a manager serves.
func countRefusals(t *testing.T, kind string) float64 {
	t.Helper()
	if err := errors.Join(register(), register()); err != nil { // a process may have two controllers
		t.Fatal(err)
	}
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			if family.GetName() == "nodeupgrader_status_refusals_total" && metric.GetLabel()[0].GetValue() == kind {
				return metric.GetCounter().GetValue()
			}
		}
	}
	t.Fatalf("no metric of kind %s is served", kind)
	return 0
}

// TestOneReportRefused: the server refuses what is said on one object again and again, for reasons of
// its own. That is logged, and it is tried again. Nothing else waits for it: the jobs are created,
// and everybody else says what it waits for.
func TestOneReportRefused(t *testing.T) {
	for _, row := range []struct {
		why, kind, victim string
		writes            float64 // in two turns
	}{
		{"a machine that is reported before the others", "Machine", "node-0", 2},
		{"a policy, whose condition is written before anything is planned, and one after that", "RolloutPolicy", "node-lifecycle", 4},
	} {
		t.Run(row.why, func(t *testing.T) {
			refused := apierrors.NewForbidden(schema.GroupResource{Resource: row.kind}, row.victim, errors.New("by an admission webhook"))
			c := newFake(t, interceptor.Funcs{
				SubResourcePatch: func(ctx context.Context, c client.Client, sub string, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
					if object.GetName() == row.victim {
						return refused
					}
					return c.SubResource(sub).Patch(ctx, object, patch, options...)
				},
			})
			create(t, c, newFleet(t, "fleet", 3)...)
			create(t, c, newPolicy("fleet", "other", []byte(`{"name":"other","selector":"false","rules":[{"anyApproval":{"minApprovals":1}}]}`)))
			h := newHost(t, c, "fleet", day2.Add(time.Hour)) // everybody is due
			before := countRefusals(t, row.kind)
			for range 2 {
				var logged strings.Builder
				ctx := log.IntoContext(t.Context(), funcr.New(func(_, args string) { logged.WriteString(args) }, funcr.Options{}))
				result, err := h.reconcile(ctx, h.request())
				if err != nil || result.RequeueAfter != retryDelay || !strings.Contains(logged.String(), "by an admission webhook") {
					t.Fatalf("error %v, again after %v, want %v; logged: %q, want the error of the server", err, result.RequeueAfter, retryDelay, logged.String())
				}
			}
			if counted := countRefusals(t, row.kind) - before; counted != row.writes {
				t.Errorf("the metric has counted %v refusals of a %s in two turns, want %v", counted, row.kind, row.writes)
			}
			if jobs := listJobs(t, c, "fleet"); len(jobs) != 1 {
				t.Errorf("jobs %v, want one", starts(jobs))
			}
			for i := range 3 {
				machine := fmt.Sprint("node-", i)
				if got := reason(t, c, "fleet", machine); (got == "none") != (machine == row.victim) {
					t.Errorf("%s says %s", machine, got)
				}
			}
			var other v1alpha1.RolloutPolicy
			if err := c.Get(t.Context(), client.ObjectKey{Namespace: "fleet", Name: "other"}, &other); err != nil {
				t.Fatal(err)
			}
			if !meta.IsStatusConditionTrue(other.Status.Conditions, v1alpha1.ConditionPlanned) {
				t.Errorf("the other policy says %+v", other.Status.Conditions)
			}
		})
	}
}

// TestReportRefusedForGood: what the server refuses again and again is written again after delays that
// grow to a minute, and there is no event about it each time: every five seconds the namespace had been
// planned, with an event. When the server takes it there is one event for each condition.
func TestReportRefusedForGood(t *testing.T) {
	for _, row := range []struct {
		why, victim string
		change      func(t *testing.T, c client.Client)
		conditions  int  // that are new on the victim
		overtaken   bool // it is refused because somebody else is always quicker
	}{
		{"a machine that waits", "node-0", func(*testing.T, client.Client) {}, 1, false},
		{"a machine that somebody else always writes first", "node-0", func(*testing.T, client.Client) {}, 1, true},
		{"a policy beside one that is not valid", "node-lifecycle", func(t *testing.T, c client.Client) {
			create(t, c, newPolicy("fleet", "other", []byte(`{"name":"b","selector":"true","rules":[{"resourceConcurency":{}}]}`)))
		}, 2, false},
		{"a policy in a namespace that contradicts itself", "node-lifecycle", func(t *testing.T, c client.Client) {
			create(t, c, inNamespace(&v1alpha1.Release{Spec: v1alpha1.ReleaseSpec{Deployment: "os-patch", Version: "2026-03", PublishedAt: day1}}, "fleet", "again"))
		}, 2, false},
		{"a machine in a namespace without policies", "node-0", func(t *testing.T, c client.Client) {
			newHost(t, c, "fleet", day2.Add(time.Hour)).once()
			if err := c.DeleteAllOf(t.Context(), &v1alpha1.RolloutPolicy{}, client.InNamespace("fleet")); err != nil {
				t.Fatal(err)
			}
		}, 0, false},
	} {
		t.Run(row.why, func(t *testing.T) {
			refuse, tried := false, 0
			c := newFake(t, interceptor.Funcs{
				SubResourcePatch: func(ctx context.Context, c client.Client, sub string, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
					if object.GetName() == row.victim {
						if tried++; refuse && row.overtaken {
							return apierrors.NewConflict(schema.GroupResource{}, row.victim, errors.New("somebody else was quicker"))
						} else if refuse {
							return apierrors.NewForbidden(schema.GroupResource{}, row.victim, errors.New("by an admission webhook"))
						}
					}
					return c.SubResource(sub).Patch(ctx, object, patch, options...)
				},
			})
			create(t, c, newFleet(t, "fleet", 3)...)
			row.change(t, c)
			h, about := newHost(t, c, "fleet", day2.Add(time.Hour)), recorder{} // everybody is due
			h.reconcile = (&Reconciler{Client: c, Server: c, Clock: h.clock, Recorder: about}).Reconcile
			refuse = true
			turns, last := 0, time.Duration(0)
			for begun := h.clock.Now(); h.clock.Now().Sub(begun) < time.Hour; turns++ {
				if last = h.once(); last <= 0 || last > DefaultResync {
					t.Fatalf("turn %d asks for the next one after %v", turns, last)
				}
				h.clock.Advance(last)
			}
			if turns < 60 || turns > 75 || last != DefaultResync { // 0.1 s doubles ten times until it is a minute
				t.Errorf("%d turns in an hour, and the last one asks for another after %v", turns, last)
			}
			if tried < turns || about[row.victim] != 0 {
				t.Errorf("%d tries in %d turns, and %d events about them", tried, turns, about[row.victim])
			}
			refuse = false
			h.once()
			if about[row.victim] != row.conditions {
				t.Errorf("%d events when the server takes it, want %d", about[row.victim], row.conditions)
			}
			tried = 0
			if h.once(); tried > 0 {
				t.Errorf("it is written %d times more", tried)
			}
		})
	}
}

// TestConditionsOfOthers: a condition that somebody else has written, and that the cache does not show
// yet, survives what this controller says on the same object: its patch had replaced the whole list. It
// is said when the cache has caught up, and nothing else waits for it.
func TestConditionsOfOthers(t *testing.T) {
	for _, row := range []struct {
		why, want string
		object    client.Object
		list      func(client.Object) *[]metav1.Condition
		ours      string
		deleted   bool // the policy, so that what was said is taken back
	}{
		{"a machine", "slot_full", inNamespace(&v1alpha1.Machine{}, "fleet", "node-0"), func(o client.Object) *[]metav1.Condition {
			return &o.(*v1alpha1.Machine).Status.Conditions
		}, v1alpha1.ConditionUpToDate, false},
		{"a policy", "planned", inNamespace(&v1alpha1.RolloutPolicy{}, "fleet", "node-lifecycle"), func(o client.Object) *[]metav1.Condition {
			return &o.(*v1alpha1.RolloutPolicy).Status.Conditions
		}, v1alpha1.ConditionPlanned, false},
		{"a machine of which nothing is to be said any more", "none", inNamespace(&v1alpha1.Machine{}, "fleet", "node-0"), func(o client.Object) *[]metav1.Condition {
			return &o.(*v1alpha1.Machine).Status.Conditions
		}, v1alpha1.ConditionUpToDate, true},
	} {
		t.Run(row.why, func(t *testing.T) {
			c := newFake(t, interceptor.Funcs{})
			create(t, c, newFleet(t, "fleet", 3)...)
			if row.deleted {
				newHost(t, c, "fleet", day2.Add(time.Hour)).once()
				if err := c.DeleteAllOf(t.Context(), &v1alpha1.RolloutPolicy{}, client.InNamespace("fleet")); err != nil {
					t.Fatal(err)
				}
			}
			get := func() []metav1.Condition {
				t.Helper()
				if err := c.Get(t.Context(), client.ObjectKeyFromObject(row.object), row.object); err != nil {
					t.Fatal(err)
				}
				return *row.list(row.object)
			}
			get()
			behind, old := true, row.object.DeepCopyObject()
			meta.SetStatusCondition(row.list(row.object), metav1.Condition{Type: "Healthy", Status: metav1.ConditionTrue, Reason: "Somebody", LastTransitionTime: metav1.NewTime(day2)})
			if err := c.Status().Update(t.Context(), row.object); err != nil {
				t.Fatal(err)
			}
			cache := interceptor.NewClient(c, interceptor.Funcs{
				List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
					err := c.List(ctx, list, options...)
					switch list := list.(type) {
					case *v1alpha1.MachineList:
						for i := range list.Items {
							if machine, is := old.(*v1alpha1.Machine); is && behind && machine.Name == list.Items[i].Name {
								list.Items[i] = *machine
							}
						}
					case *v1alpha1.RolloutPolicyList:
						if policy, is := old.(*v1alpha1.RolloutPolicy); is && behind {
							list.Items[0] = *policy
						}
					}
					return err
				},
			})
			h, about := newHost(t, c, "fleet", day2.Add(time.Hour)), recorder{} // everybody is due
			h.reconcile = (&Reconciler{Client: cache, Server: c, Clock: h.clock, Recorder: about}).Reconcile
			if again := h.once(); again != retryDelay {
				t.Errorf("again after %v, want %v", again, retryDelay)
			}
			if list := get(); !meta.IsStatusConditionTrue(list, "Healthy") || about[row.object.GetName()] > 0 {
				t.Errorf("what somebody else says is gone, or there are %d events about what was not said: %+v", about[row.object.GetName()], list)
			}
			if jobs := listJobs(t, c, "fleet"); len(jobs) != 1 {
				t.Errorf("jobs %v, want one", starts(jobs))
			}
			behind = false
			h.once()
			list, says := get(), "none"
			if condition := meta.FindStatusCondition(list, row.ours); condition != nil {
				says = condition.Reason
			}
			if says != row.want || !meta.IsStatusConditionTrue(list, "Healthy") {
				t.Errorf("in the end it says %s, want %s, and all of %+v", says, row.want, list)
			}
		})
	}
}

// TestReportRefusedMeanwhile: the delay is that of the object which the server has refused for the
// shortest time, and turns in between, for other reasons, make none longer.
func TestReportRefusedMeanwhile(t *testing.T) {
	n := &namespace{}
	turn := func(why string, after time.Duration, want time.Duration, objects ...string) {
		t.Helper()
		now := day1.Add(after)
		next := n.again(t.Context(), &reporter{unsaid: objects}, now)
		if got := next.Sub(now); next.IsZero() != (want == 0) || want > 0 && got != want {
			t.Errorf("%s: again after %v, want %v", why, got, want)
		}
	}
	turn("the first refusal", 0, retryDelay, "a")
	turn("an event asks for a turn at once", time.Millisecond, retryDelay, "a")
	turn("after eight seconds it waits for eight more", 8*time.Second, 8*time.Second, "a")
	turn("another object is refused for the first time", 10*time.Second, retryDelay, "a", "b")
	turn("… and is said", 11*time.Second, 11*time.Second, "a")
	turn("everything is said", 12*time.Second, 0)
	turn("what is refused anew begins anew", 13*time.Second, retryDelay, "a")
}

// recorder counts the events about each object.
type recorder map[string]int

func (r recorder) Eventf(about, _ runtime.Object, _, _, _, _ string, _ ...any) {
	r[about.(client.Object).GetName()]++
}

// TestLastPolicyDeleted: when nothing governs a machine any more, it no longer says what the last
// plan said.
func TestLastPolicyDeleted(t *testing.T) {
	for _, row := range []struct {
		why     string
		restart bool // of the controller, before it sees that the policy is gone
		behind  bool // the cache shows that before it shows what the last plan had reported
		turns   int
	}{
		{"the next turn says nothing", false, false, 1},
		{"nor does a controller that never saw the policy", true, false, 1},
		{"a cache may be behind: the turn is repeated", false, true, 2},
	} {
		t.Run(row.why, func(t *testing.T) {
			writes, behind := 0, false
			funcs := counted(&writes)
			funcs.List = func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
				err := listed(ctx, c, list, options...)
				if machines, ok := list.(*v1alpha1.MachineList); ok && behind {
					for i := range machines.Items {
						machines.Items[i].Status = v1alpha1.MachineStatus{}
					}
				}
				return err
			}
			c := newFake(t, funcs)
			create(t, c, newFleet(t, "fleet", 3)...)
			h := newHost(t, c, "fleet", day2)
			h.once()
			if got := reason(t, c, "fleet", "node-1"); got != "started" {
				t.Fatalf("node-1 says %s", got)
			}
			var machine v1alpha1.Machine
			if err := c.Get(t.Context(), client.ObjectKey{Namespace: "fleet", Name: "node-1"}, &machine); err != nil {
				t.Fatal(err)
			}
			meta.SetStatusCondition(&machine.Status.Conditions, metav1.Condition{Type: "Healthy", Status: metav1.ConditionTrue, Reason: "Somebody", LastTransitionTime: metav1.NewTime(day2)})
			if err := c.Status().Update(t.Context(), &machine); err != nil {
				t.Fatal(err)
			}
			if err := c.DeleteAllOf(t.Context(), &v1alpha1.RolloutPolicy{}, client.InNamespace("fleet")); err != nil {
				t.Fatal(err)
			}
			if row.restart {
				h = newHost(t, c, "fleet", day2)
			}
			behind = row.behind
			again := h.once()
			behind = false
			for turn := 1; turn < row.turns; turn++ {
				if again == 0 {
					t.Fatal("no other turn is asked for")
				}
				again = h.once()
			}
			for i := range 3 {
				if got := reason(t, c, "fleet", fmt.Sprint("node-", i)); got != "none" {
					t.Errorf("node-%d says %s", i, got)
				}
			}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(&machine), &machine); err != nil {
				t.Fatal(err)
			}
			if !meta.IsStatusConditionTrue(machine.Status.Conditions, "Healthy") {
				t.Error("what somebody else says on the machine is gone")
			}
			writes = 0
			if h.once(); writes != 0 || h.once() != 0 {
				t.Errorf("%d writes, or it does not rest, although nothing is left to say", writes)
			}
		})
	}
}

// TestMisspeltSelector: a policy whose selector matches nothing governs nothing, and what nobody
// governs does not start: all machines had got their jobs at once, without a word.
func TestMisspeltSelector(t *testing.T) {
	for _, row := range []struct {
		why, selector string
		starts        bool
		says          string
	}{
		{"a typo: nothing starts, and the machine says why", "deployment.metadata['layer'] == 'nodes'", false, "not_governed"},
		{"a policy that does not limit starts limits none", "deployment.metadata['layer'] == 'node'", true, "started"},
	} {
		c := newFake(t, interceptor.Funcs{})
		objects := newFleet(t, "fleet", 3)
		objects[0] = newPolicy("fleet", "node-lifecycle", fmt.Appendf(nil, `{"name":"Node Lifecycle","selector":%q,"rules":[{"retry":{"maxRetries":0}}]}`, row.selector))
		create(t, c, objects...)
		newHost(t, c, "fleet", day2).once()
		if jobs, says := listJobs(t, c, "fleet"), reason(t, c, "fleet", "node-1"); len(jobs) > 0 != row.starts || says != row.says {
			t.Errorf("%s: %d jobs, and node-1 says %s", row.why, len(jobs), says)
		}
	}
}

// TestReleaseDeleted: jobs are kept for longer than their releases. That a release is gone is asked of
// the server once for each of its jobs, and not for every plan. A job that was not seen before is
// asked for again, even of the same version: the release may have come back.
func TestReleaseDeleted(t *testing.T) {
	asked := 0
	c := newFake(t, interceptor.Funcs{})
	hidden := "" // the release that the cache does not show
	cache := interceptor.NewClient(c, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			err := c.List(ctx, list, options...)
			if releases, ok := list.(*v1alpha1.ReleaseList); ok {
				releases.Items = slices.DeleteFunc(releases.Items, func(r v1alpha1.Release) bool { return r.Name == hidden })
			}
			return err
		},
	})
	server := interceptor.NewClient(c, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if _, ok := list.(*v1alpha1.ReleaseList); ok {
				asked++
			}
			return c.List(ctx, list, options...)
		},
	})
	create(t, c, newPolicy("fleet", "flat", readPolicy(t, "policy-flat.json")), inNamespace(&v1alpha1.NodeDeployment{}, "fleet", "agent"))
	create(t, c, newRelease("fleet", "agent", "v1", day1.AddDate(0, 0, -1)), newRelease("fleet", "agent", "v2", day1))
	create(t, c, inNamespace(&v1alpha1.Machine{Spec: v1alpha1.MachineSpec{Environment: "prod", JoinedAt: day1.AddDate(-1, 0, 0)}}, "fleet", "node-0"))
	job := func(name, version string, ago time.Duration) {
		t.Helper()
		create(t, c, inNamespace(&v1alpha1.NodeJob{
			Spec:   v1alpha1.NodeJobSpec{Run: name, Machine: "node-0", Environment: "prod", Deployment: "agent", Version: version, CreatedAt: day2.Add(-ago)},
			Status: v1alpha1.NodeJobStatus{State: rollout.JobSuccessful, CompletedAt: day2.Add(-ago)},
		}, "fleet", name))
	}
	job("by-hand-0", "v0", 3*time.Hour)
	job("by-hand-2", "v2", 2*time.Hour)
	h := newHost(t, c, "fleet", day2)
	h.reconcile = (&Reconciler{Client: cache, Server: server, Clock: h.clock, Resync: 10_000 * time.Hour}).Reconcile
	turns := func(why string, want int) {
		t.Helper()
		asked = 0
		for range 3 {
			h.once()
		}
		if asked != want {
			t.Errorf("%s: the server was asked %d times for its releases in three plans, want %d", why, asked, want)
		}
		if jobs := listJobs(t, c, "fleet"); slices.ContainsFunc(jobs, func(job v1alpha1.NodeJob) bool { return job.Spec.Turn > 0 }) {
			t.Fatalf("%s: the machine has what it needs, and still there are jobs %v", why, starts(jobs))
		}
	}
	turns("v0 was deleted", 1)
	job("by-hand-again", "v0", 150*time.Minute)
	turns("another job of v0", 1)
	create(t, c, newRelease("fleet", "agent", "v3", day1.Add(time.Hour)))
	job("by-hand-3", "v3", time.Hour)
	hidden = "agent-v3"
	turns("the cache does not show v3, and the server has it: v2 must not look like the newest", 3)
	hidden = ""
	turns("the cache shows v3", 0)
}

// TestForgottenNamespace: of a namespace that has no policies any more nothing is kept, for it may
// be gone, and others come. If it has some again it is planned as before.
func TestForgottenNamespace(t *testing.T) {
	c := newFake(t, interceptor.Funcs{})
	create(t, c, newFleet(t, "fleet", 3)...)
	h := newHost(t, c, "fleet", day2)
	r := &Reconciler{Client: c, Server: c, Clock: h.clock}
	h.reconcile = r.Reconcile
	kept := func() (n int) {
		r.namespaces.Range(func(any, any) bool { n++; return true })
		return n + len(r.compiler.compiled)
	}
	if h.once(); kept() != 2 {
		t.Fatalf("%d things are kept of one namespace", kept())
	}
	if err := c.DeleteAllOf(t.Context(), &v1alpha1.RolloutPolicy{}, client.InNamespace("fleet")); err != nil {
		t.Fatal(err)
	}
	if h.once(); kept() != 0 {
		t.Errorf("%d things are kept of a namespace without policies", kept())
	}
	create(t, c, newPolicy("fleet", "node-lifecycle", readPolicy(t, "policy.json")))
	h.run(day2.Add(2 * time.Hour))
	audit(t, listJobs(t, c, "fleet"), 3, 1)
}

// TestFailure: a job that fails ends the attempt; without a retry rule the machine stays drained,
// keeps its slot and says so.
func TestFailure(t *testing.T) {
	c := newFake(t, interceptor.Funcs{})
	create(t, c, newFleet(t, "fleet", 3)...)
	h := newHost(t, c, "fleet", day2)
	h.outcome = func(job v1alpha1.NodeJob) rollout.JobStatus {
		if job.Spec.Deployment == "kubelet-upgrade" {
			return rollout.JobFailure
		}
		return rollout.JobSuccessful
	}
	h.run(day2.Add(3 * time.Hour))
	on := map[string]bool{}
	for _, job := range listJobs(t, c, "fleet") {
		on[job.Spec.Machine] = true
	}
	if len(on) != 1 {
		t.Errorf("jobs on %v: the slot was given away", on)
	}
	var reasons []string
	for i := range 3 {
		reasons = append(reasons, reason(t, c, "fleet", fmt.Sprint("node-", i)))
	}
	slices.Sort(reasons)
	if want := []string{"bracket_failed_holding", "slot_full", "slot_full"}; !slices.Equal(reasons, want) {
		t.Errorf("the machines say %v, want %v", reasons, want)
	}
}

// TestReconcileIsShort: the loop of the host is meant to be read.
func TestReconcileIsShort(t *testing.T) {
	source, err := os.ReadFile("reconcile.go")
	if err != nil {
		t.Fatal(err)
	}
	_, body, found := strings.Cut(string(source), "func (r *Reconciler) Reconcile(")
	body, _, ended := strings.Cut(body, "\n}\n")
	if lines := strings.Count(body, "\n"); !found || !ended || lines >= 100 {
		t.Errorf("Reconcile has %d lines", lines)
	}
}
