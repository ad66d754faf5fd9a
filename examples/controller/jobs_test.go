package controller

import (
	"context"
	"errors"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/concurrency/concurrencytest"
	"github.com/tranche-dev/tranche/examples/controller/api/v1alpha1"
	"github.com/tranche-dev/tranche/rollout"
)

// jobsBackend lets the kit fill a namespace. The members of pools are what a host knows; jobs are
// objects, which the server does not let move or begin again.
type jobsBackend struct {
	client    client.Client
	line      *line
	namespace string

	mu    sync.Mutex
	pools map[string][]string // resource → its pools; replaced as a whole
	of    map[string][]string // pool → its members
}

func newJobsBackend(c client.Client) *jobsBackend {
	b := &jobsBackend{client: c, line: &line{Reader: c}, namespace: newNamespace(), of: map[string][]string{}}
	b.line.cut(0)()
	return b
}

func (b *jobsBackend) SetPool(_ context.Context, pool string, resources []string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.of[pool] = slices.Clone(resources)
	b.pools = map[string][]string{}
	for pool, members := range b.of {
		for _, member := range slices.Compact(slices.Sorted(slices.Values(members))) {
			b.pools[member] = append(b.pools[member], pool)
		}
	}
	return nil
}

func (b *jobsBackend) PutJob(ctx context.Context, job concurrency.Job) error {
	object := inNamespace(&v1alpha1.NodeJob{Spec: v1alpha1.NodeJobSpec{
		Run: job.ID, Machine: job.Resource, Environment: "prod", Deployment: "d", Version: "v", Group: job.Group,
	}}, b.namespace, name(job.ID))
	err := b.client.Create(ctx, object)
	for apierrors.IsAlreadyExists(err) {
		wanted := object.Spec
		if err := b.client.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		object.Spec = wanted
		err = b.client.Update(ctx, object)
	}
	if state := rollout.JobStatus(job.Status); err == nil && state != object.Status.State && (state != rollout.JobQueued || object.Status.State != "") {
		object.Status.State = state
		err = b.client.Status().Update(ctx, object)
	}
	if apierrors.IsInvalid(err) {
		return errors.Join(errors.ErrUnsupported, err)
	}
	return err
}

func (b *jobsBackend) Active(ctx context.Context, pool string) ([]concurrency.Holder, error) {
	b.mu.Lock()
	pools := b.pools
	b.mu.Unlock()
	return NewNodeJobs(b.line, b.namespace, func(machine string) ([]string, error) { return pools[machine], nil }).Active(ctx, pool)
}

func (b *jobsBackend) Break(pass int) (mend func()) { return b.line.cut(pass) }

// line is a reader that can be cut: what is asked of it afterwards fails.
type line struct {
	client.Reader
	left atomic.Int64
}

var errCut = errors.New("the line is cut")

func (l *line) cut(pass int) (mend func()) {
	l.left.Store(int64(pass))
	return func() { l.left.Store(math.MaxInt64) }
}

func (l *line) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if l.left.Add(-1) < 0 {
		return errCut
	}
	return l.Reader.List(ctx, list, options...)
}

// TestNodeJobs runs the conformance test of counters against a real API server, one of its own:
// after a write of another kind a list that must be the newest waits.
func TestNodeJobs(t *testing.T) {
	t.Parallel()
	s, err := installed(t)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	c := newDirectClient(t, s)
	concurrencytest.Run(t, func(t *testing.T) concurrencytest.Backend { return newJobsBackend(c) })
}

// TestWhatCounts: of a limit of one, what is left beside a job that is there already. The fleet has
// three machines of which node-1 is the first; the cache shows no job.
func TestWhatCounts(t *testing.T) {
	job := func(change func(*v1alpha1.NodeJob)) *v1alpha1.NodeJob {
		job := inNamespace(&v1alpha1.NodeJob{Spec: v1alpha1.NodeJobSpec{
			Run: "another", Machine: "node-0", Environment: "prod", Deployment: "memory-test", Version: "v1", CreatedAt: day1,
		}}, "fleet", "another")
		change(job)
		return job
	}
	set, faults, err := compile([]v1alpha1.RolloutPolicy{*newPolicy("fleet", "node-lifecycle", readPolicy(t, "policy.json"))})
	if err != nil || len(faults) > 0 {
		t.Fatal(err, faults)
	}
	pools, err := set.PoolKeys([]rollout.Resource{{ID: "node-0", Metadata: map[string]string{"cluster": "prod-east"}}})
	if err != nil || len(pools) != 1 {
		t.Fatal(pools, err)
	}
	for _, row := range []struct {
		why    string
		change func(*v1alpha1.NodeJob)
		want   int
	}{
		{"by hand, and not begun", func(*v1alpha1.NodeJob) {}, 0},
		{"by hand, at work", func(j *v1alpha1.NodeJob) { j.Status.State = rollout.JobInProgress }, 0},
		{"a state that nobody knows may be one of work", func(j *v1alpha1.NodeJob) { j.Status.State = "draining-slowly" }, 0},
		{"a program that knows groups but no turns", func(j *v1alpha1.NodeJob) { j.Spec.Group = "target/prod/memory-test" }, 0},
		{"a plan that claimed the slot, and whose record was lost since", func(j *v1alpha1.NodeJob) {
			j.Spec.Group, j.Spec.Turn, j.Spec.Claims = "target/prod/memory-test", 1, []v1alpha1.Claim{{Pool: pools[0], Token: 1}}
		}, 0},
		{"a plan that had to claim nothing: no rule governs the deployment", func(j *v1alpha1.NodeJob) { j.Spec.Group, j.Spec.Turn = "target/prod/memory-test", 1 }, 1},
		{"a plan that claimed a slot elsewhere", func(j *v1alpha1.NodeJob) {
			j.Spec.Group, j.Spec.Turn, j.Spec.Claims = "target/prod/memory-test", 1, []v1alpha1.Claim{{Pool: "other", Token: 1}}
		}, 1},
		{"it has ended", func(j *v1alpha1.NodeJob) { j.Status.State = rollout.JobCancelled }, 1},
		{"the machine is gone", func(j *v1alpha1.NodeJob) { j.Spec.Machine = "node-17" }, 1},
		{"the machine is in no pool", func(j *v1alpha1.NodeJob) { j.Spec.Machine = "spare" }, 1},
		{"the machine is another fleet's", func(j *v1alpha1.NodeJob) { j.Namespace = "other" }, 1},
	} {
		t.Run(row.why, func(t *testing.T) {
			c := newFake(t, interceptor.Funcs{})
			create(t, c, newFleet(t, "fleet", 3)...)
			create(t, c, inNamespace(&v1alpha1.Machine{Spec: v1alpha1.MachineSpec{Environment: "prod"}}, "fleet", "spare"))
			other := job(row.change)
			state := other.Status.State
			create(t, c, other)
			if other.Status.State = state; state != "" {
				if err := c.Status().Update(t.Context(), other); err != nil {
					t.Fatal(err)
				}
			}
			h := newHost(t, c, "fleet", day2)
			h.reconcile = (&Reconciler{Client: withoutJobs(c), Server: c, Clock: h.clock}).Reconcile
			h.once()
			dispatched := slices.DeleteFunc(listJobs(t, c, "fleet"), func(j v1alpha1.NodeJob) bool { return j.Name == other.Name })
			if len(dispatched) != row.want {
				t.Errorf("%d jobs were dispatched, want %d", len(dispatched), row.want)
			}
			if got := reason(t, c, "fleet", "node-1"); row.want == 0 && got != "slot_full" {
				t.Errorf("node-1 waits for %s, want slot_full", got)
			}
		})
	}
}

// withoutJobs returns a client whose lists show no jobs, as a cache that is behind.
func withoutJobs(c client.WithWatch) client.Client {
	return interceptor.NewClient(c, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if _, jobs := list.(*v1alpha1.NodeJobList); jobs {
				return nil
			}
			return c.List(ctx, list, options...)
		},
	})
}

// byHand is what somebody gives to kubectl create.
const byHand = `{
	"apiVersion": "rollout.tranche.dev/v1alpha1", "kind": "NodeJob",
	"metadata": {"name": "memory-test-on-node-5"},
	"spec": {"run": "memory test, asked for by the night shift", "machine": "node-5", "environment": "prod", "deployment": "memory-test", "version": "v1"}
}`

// TestJobByHand: ten machines of which two may be down, on a real server. A job that somebody
// created by hand on one of the last keeps it busy for two hours: until then it is one of the two.
func TestJobByHand(t *testing.T) {
	s := sharedServer(t)
	c, namespace := newClient(t, s), newNamespace()
	create(t, c, newFleet(t, namespace, 10)...)
	object := new(unstructured.Unstructured)
	if err := object.UnmarshalJSON([]byte(byHand)); err != nil {
		t.Fatal(err)
	}
	object.SetNamespace(namespace)
	create(t, c, object)
	h := newHost(t, c, namespace, day2.Add(-time.Minute))
	h.byHand = day2.Add(2 * time.Hour)
	h.run(day2.Add(5 * time.Hour))

	var planned []v1alpha1.NodeJob
	for _, job := range listJobs(t, c, namespace) {
		if job.Spec.Turn > 0 {
			planned = append(planned, job)
		} else if job.Status.State != rollout.JobSuccessful {
			t.Errorf("the job by hand is %q", job.Status.State)
		}
	}
	audit(t, planned, 10, 2)
	first, last := map[string]time.Time{}, map[string]time.Time{}
	for _, job := range planned {
		if at, known := first[job.Spec.Machine]; !known || job.Spec.CreatedAt.Before(at) {
			first[job.Spec.Machine] = job.Spec.CreatedAt
		}
		if end := job.Status.CompletedAt; end.After(last[job.Spec.Machine]) {
			last[job.Spec.Machine] = end
		}
	}
	before := 0
	for _, at := range first {
		if !at.Before(h.byHand) {
			continue
		}
		before++
		down := map[string]bool{"node-5": true}
		for machine := range first {
			if !first[machine].After(at) && last[machine].After(at) {
				down[machine] = true
			}
		}
		if len(down) > 2 {
			t.Errorf("at %v %v are down", at.Sub(day2), down)
		}
	}
	if before < 5 || before == 10 {
		t.Errorf("%d machines began beside the job by hand", before)
	}
	if got := first["node-3"].Sub(day2); got != 15*time.Minute { // and not after 5, when it is due
		t.Errorf("the second machine begins after %v, want when the first is done", got)
	}
}

// TestUnknownMember: a machine of which a policy cannot tell whether it is in a pool. What runs
// there might count nowhere: nothing is planned, and the policies say why.
func TestUnknownMember(t *testing.T) {
	c := newFake(t, interceptor.Funcs{})
	create(t, c, newFleet(t, "fleet", 3)...)
	create(t, c, newPolicy("fleet", "racks", []byte(`{"name":"racks","selector":"true","rules":[{"id":"racks","resourceConcurrency":{"groupSelector":"int(resource.metadata['rack']) > 3","limit":1}}]}`)))
	odd := inNamespace(&v1alpha1.Machine{Spec: v1alpha1.MachineSpec{Environment: "prod"}}, "fleet", "odd")
	odd.Labels = map[string]string{"rack": "four"}
	create(t, c, odd)
	h := newHost(t, c, "fleet", day2)
	if wait := h.once(); wait != 0 {
		t.Errorf("asks to be called again after %v", wait)
	}
	var policy v1alpha1.RolloutPolicy
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "fleet", Name: "racks"}, &policy); err != nil {
		t.Fatal(err)
	}
	planned := meta.FindStatusCondition(policy.Status.Conditions, v1alpha1.ConditionPlanned)
	if planned == nil || planned.Status != "False" || !strings.Contains(planned.Message, "racks") || !strings.Contains(planned.Message, "odd") {
		t.Errorf("condition %+v", planned)
	}
	if len(listJobs(t, c, "fleet")) > 0 {
		t.Error("jobs were dispatched")
	}
	odd.Labels["rack"] = "4"
	if err := c.Update(t.Context(), odd); err != nil {
		t.Fatal(err)
	}
	if h.once(); len(listJobs(t, c, "fleet")) != 1 {
		t.Error("nothing is planned after the label is mended")
	}
}

// TestEnded: the states that the server leaves out are those that do not count, in the definition
// of the resource too.
func TestEnded(t *testing.T) {
	definition, err := os.ReadFile("api/v1alpha1/crds/nodejobs.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, state := range ended {
		if !concurrency.Terminal(string(state)) || !strings.Contains(string(definition), "'"+string(state)+"'") {
			t.Errorf("%s is no end", state)
		}
	}
	for state, want := range map[string]bool{"": true, "inProgress": true, "Successful": true, "successful": false, "externalRunNotFound": false} {
		if notEnded().Matches(fields.Set{fieldState: state}) != want {
			t.Errorf("%q is selected: %v", state, !want)
		}
	}
	c := newClient(t, sharedServer(t)) // which says so if it does not know a field
	if err := c.List(t.Context(), &v1alpha1.NodeJobList{}, client.InNamespace(newNamespace()), client.MatchingFields{"status.message": ""}); !apierrors.IsBadRequest(err) {
		t.Errorf("a field that cannot be selected: %v", err)
	}
}
