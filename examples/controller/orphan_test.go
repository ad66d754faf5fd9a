package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/tranche-dev/tranche/clock"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/examples/controller/api/v1alpha1"
	"github.com/tranche-dev/tranche/rollout"
)

// single is a fleet of two machines outside brackets, of which one at a time may be down.
type single struct {
	*testing.T
	client client.WithWatch
	clock  *clock.Fake
}

func newSingle(t *testing.T) *single {
	s := &single{t, newFake(t, interceptor.Funcs{}), clock.NewFake(day1)}
	policy := `{"name":"one","selector":"true","rules":[{"id":"limit","resourceConcurrency":{"groupSelector":"true","limit":1}}]}`
	create(t, s.client, newPolicy("fleet", "one", []byte(policy)), inNamespace(&v1alpha1.NodeDeployment{}, "fleet", "agent"))
	for _, name := range []string{"m0", "m1"} {
		machine := inNamespace(&v1alpha1.Machine{Spec: v1alpha1.MachineSpec{Environment: "prod", JoinedAt: day1.AddDate(-1, 0, 0)}}, "fleet", name)
		machine.Labels = map[string]string{"name": name}
		create(t, s.client, machine)
	}
	s.publish("v1")
	return s
}

func (s *single) publish(version string) {
	create(s.T, s.client, newRelease("fleet", "agent", version, s.clock.Now()))
}

// choose has the deployment select one machine, or both if the name is empty.
func (s *single) choose(machine string) {
	s.Helper()
	deployment := inNamespace(&v1alpha1.NodeDeployment{}, "fleet", "agent")
	if err := s.client.Get(s.Context(), client.ObjectKeyFromObject(deployment), deployment); err != nil {
		s.Fatal(err)
	}
	if deployment.Spec.MachineSelector = nil; machine != "" {
		deployment.Spec.MachineSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"name": machine}}
	}
	if err := s.client.Update(s.Context(), deployment); err != nil {
		s.Fatal(err)
	}
}

// controller is one whose requests pass through the functions.
func (s *single) controller(funcs interceptor.Funcs) *Reconciler {
	c := interceptor.NewClient(s.client, funcs)
	return &Reconciler{Client: c, Server: c, Clock: s.clock, Resync: 10_000 * time.Hour}
}

// blind is one whose cache shows no jobs.
func (s *single) blind() *Reconciler {
	return &Reconciler{Client: withoutJobs(s.client), Server: s.client, Clock: s.clock}
}

func (s *single) try(r *Reconciler) (ctrl.Result, error) {
	return r.Reconcile(s.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: "fleet"}})
}

// rest reconciles and sleeps as the reconciler asks for it, until nothing is left to happen.
func (s *single) rest(r *Reconciler) {
	s.Helper()
	for range 20 {
		result, err := s.try(r)
		if err != nil {
			s.Fatal(err)
		}
		if result.RequeueAfter > time.Hour {
			return
		}
		s.clock.Advance(result.RequeueAfter)
	}
	s.Fatal("it does not rest")
}

// end ends the active job.
func (s *single) end() {
	s.Helper()
	for _, job := range listJobs(s.T, s.client, "fleet") {
		if !job.Status.State.Terminal() {
			s.clock.Advance(time.Second)
			if err := report(s.Context(), s.client, &job, rollout.JobSuccessful, s.clock.Now()); err != nil {
				s.Fatal(err)
			}
			return
		}
	}
	s.Fatal("no job is active")
}

// want compares jobs and leases with what they should be: "m0 v1" has ended, "m1 v1 active" has
// not, and "m1=2" is a slot with its token.
func (s *single) want(want string) {
	s.Helper()
	var got []string
	for _, job := range listJobs(s.T, s.client, "fleet") {
		text := job.Spec.Machine + " " + job.Spec.Version
		if !job.Status.State.Terminal() {
			text += " active"
		}
		got = append(got, text)
	}
	entries, err := NewStore(s.client, s.client, "fleet").List(s.Context(), "pool/")
	if err != nil {
		s.Fatal(err)
	}
	for _, entry := range entries {
		record, err := concurrency.ParseRecord(entry.Value)
		if err != nil {
			s.Fatal(err)
		}
		for _, lease := range record.Leases {
			got = append(got, fmt.Sprintf("%s=%d", lease.Resource, lease.Token))
		}
	}
	if got := strings.Join(got, ", "); got != want {
		s.Fatalf("there is %s; want %s", got, want)
	}
}

var errDied = errors.New("died")

// dying dies at its first write of the kind, and later ones do not arrive either.
func dying(kind func(client.Object) bool) interceptor.Funcs {
	dead := false
	die := func(object client.Object) bool {
		dead = dead || kind(object)
		return dead
	}
	return interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
			if die(object) {
				return errDied
			}
			return c.Create(ctx, object, options...)
		},
		Update: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.UpdateOption) error {
			if die(object) {
				return errDied
			}
			return c.Update(ctx, object, options...)
		},
	}
}

func isJob(object client.Object) bool { _, is := object.(*v1alpha1.NodeJob); return is }

func isRecord(family string) func(client.Object) bool {
	return func(object client.Object) bool {
		record, is := object.(*v1alpha1.PlannerState)
		return is && strings.HasPrefix(record.Spec.Key, family+"/")
	}
}

// unseenEnd leaves an orphan behind: a job began and ended, and a controller whose cache shows none
// of it offers the same start again.
func (s *single) unseenEnd() {
	s.Helper()
	if _, err := s.try(s.controller(interceptor.Funcs{})); err != nil {
		s.Fatal(err)
	}
	s.end()
	s.clock.Advance(time.Second)
	if _, err := s.try(s.blind()); err != nil {
		s.Fatal(err)
	}
	s.want("m0 v1, m0=1")
}

// TestOrphanOfAnUnseenEnd: the end of a job proves nothing any more if a controller that did not
// see it has planned the same start again.
func TestOrphanOfAnUnseenEnd(t *testing.T) {
	s := newSingle(t)
	s.unseenEnd()
	fresh := s.controller(interceptor.Funcs{})
	result, err := s.try(fresh)
	if err != nil || result.RequeueAfter != grace {
		t.Fatalf("it sleeps for %v (%v), want %v", result.RequeueAfter, err, grace)
	}
	var policy v1alpha1.RolloutPolicyList
	if err := s.client.List(t.Context(), &policy); err != nil {
		t.Fatal(err)
	}
	if says := policy.Items[0].Status.Conditions; !strings.Contains(says[len(says)-1].Message, "after 1m0s of this it is given back") {
		t.Errorf("the policy says %q", says[len(says)-1].Message)
	}
	s.clock.Advance(grace - time.Second)
	if _, err := s.try(fresh); err != nil {
		t.Fatal(err)
	}
	s.want("m0 v1, m0=1") // not yet
	s.clock.Advance(time.Second)
	s.rest(fresh)
	s.want("m0 v1, m1 v1 active, m1=2")
	s.end()
	s.rest(fresh)
	s.want("m0 v1, m1 v1")
}

// TestOrphanOfADeadClaim: a controller dies after its claim, and its plan is not made again by
// anybody, because the release is gone.
func TestOrphanOfADeadClaim(t *testing.T) {
	for _, row := range []struct {
		why  string
		dies func(client.Object) bool
		late bool // the job
	}{
		{"before the record of the target: the claim is given back", isRecord("target"), false},
		{"before the job: the job is created, for it may be on its way", isJob, true},
	} {
		t.Run(row.why, func(t *testing.T) {
			s := newSingle(t)
			if _, err := s.try(s.controller(dying(row.dies))); !errors.Is(err, errDied) {
				t.Fatal(err)
			}
			if err := s.client.Delete(t.Context(), newRelease("fleet", "agent", "v1", day1)); err != nil {
				t.Fatal(err)
			}
			s.want("m0=1")
			second := s.controller(interceptor.Funcs{})
			s.rest(second)
			if row.late {
				s.want("m0 v1 active, m0=1")
				s.end()
				s.rest(second)
				s.want("m0 v1")
				return
			}
			s.want("")
			s.publish("v2")
			s.rest(second)
			s.want("m0 v2 active, m0=2")
		})
	}
}

// TestLateJob: the creation of a job arrives after a slot was nearly given back. The job counts,
// and exists once.
func TestLateJob(t *testing.T) {
	for _, first := range []string{"the job of the one who gives back", "the late one"} {
		t.Run(first, func(t *testing.T) {
			s := newSingle(t)
			var late func() error
			slow := s.controller(interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
				if isJob(object) {
					late = func() error { return c.Create(context.Background(), object, options...) }
					return errDied
				}
				return c.Create(ctx, object, options...)
			}})
			if _, err := s.try(slow); !errors.Is(err, errDied) {
				t.Fatal(err)
			}
			s.choose("m1") // nobody plans for m0 any more
			second := s.controller(interceptor.Funcs{})
			if _, err := s.try(second); err != nil {
				t.Fatal(err)
			}
			if first == "the late one" {
				if err := late(); err != nil {
					t.Fatal(err)
				}
			}
			s.rest(second)
			s.want("m0 v1 active, m0=1")
			_ = late()
			s.clock.Advance(grace)
			s.rest(second)
			s.want("m0 v1 active, m0=1") // the plan does not see it at work, for m0 is none of its targets
			s.end()
			s.rest(second)
			s.want("m0 v1, m1 v1 active, m1=2")
		})
	}
}

// TestOrphanOnAMissingMachine: of a machine that the cache does not show nothing is known, and so
// nothing is given back.
func TestOrphanOnAMissingMachine(t *testing.T) {
	s := newSingle(t)
	s.unseenEnd()
	s.rest(s.controller(interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
		err := c.List(ctx, list, options...)
		if machines, ok := list.(*v1alpha1.MachineList); ok {
			machines.Items = slices.DeleteFunc(machines.Items, func(m v1alpha1.Machine) bool { return m.Name == "m0" })
		}
		return err
	}}))
	s.want("m0 v1, m0=1")
	s.rest(s.controller(interceptor.Funcs{}))
	s.want("m0 v1, m1 v1 active, m1=2")
}

// TestFencedDispatch: a controller sleeps with a start in hand until its slot is given back and
// somebody else has it. Its dispatch is refused.
func TestFencedDispatch(t *testing.T) {
	for _, row := range []struct {
		why        string
		afterwards bool // it sleeps after it has read the record of the target
	}{
		{"it reads that the slot is released", false},
		{"the record has changed since it read it", true},
	} {
		t.Run(row.why, func(t *testing.T) {
			s := newSingle(t)
			second := s.controller(interceptor.Funcs{})
			asleep := false
			sleep := func() {
				if asleep {
					return
				}
				asleep = true
				s.choose("m1")
				s.rest(second)
				s.want("m1 v1 active, m1=2")
			}
			first := s.controller(interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
					if isRecord("target")(object) && !row.afterwards {
						sleep()
					}
					return c.Get(ctx, key, object, options...)
				},
				Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
					if isRecord("target")(object) {
						sleep()
					}
					return c.Create(ctx, object, options...)
				},
			})
			result, err := s.try(first)
			if err != nil || !asleep || result.RequeueAfter != retryDelay {
				t.Fatalf("%v, %v; it slept: %v", result, err, asleep)
			}
			s.want("m1 v1 active, m1=2")
			s.choose("")
			s.end()
			s.rest(first)
			s.want("m1 v1, m0 v1 active, m0=3")
		})
	}
}

// TestHalfGivenBack: a controller dies after it has written that a slot is released, and before it
// has taken it out of its pool.
func TestHalfGivenBack(t *testing.T) {
	half := func(t *testing.T) *single {
		s := newSingle(t)
		s.unseenEnd()
		armed := false
		first := s.controller(dying(func(object client.Object) bool { return armed && isRecord("pool")(object) }))
		if _, err := s.try(first); err != nil {
			t.Fatal(err)
		}
		s.clock.Advance(grace)
		armed = true
		if _, err := s.try(first); !errors.Is(err, errDied) {
			t.Fatal(err)
		}
		s.want("m0 v1, m0=1")
		return s
	}
	t.Run("it is an orphan still: somebody else goes on", func(t *testing.T) {
		s := half(t)
		s.rest(s.controller(interceptor.Funcs{}))
		s.want("m0 v1, m1 v1 active, m1=2")
	})
	t.Run("the target starts again: that is refused, and it gets another slot", func(t *testing.T) {
		s := half(t)
		s.publish("v2")
		s.choose("m0")
		second := s.controller(interceptor.Funcs{})
		result, err := s.try(second)
		if err != nil || result.RequeueAfter != retryDelay {
			t.Fatal(result, err)
		}
		s.want("m0 v1")
		s.rest(second)
		s.want("m0 v1, m0 v2 active, m0=2")
	})
	t.Run("a cache that shows no jobs: the next one that does finds it", func(t *testing.T) {
		s := half(t)
		if _, err := s.try(s.blind()); err != nil {
			t.Fatal(err)
		}
		s.rest(s.controller(interceptor.Funcs{}))
		s.want("m0 v1, m1 v1 active, m1=2")
	})
}

// TestGiveBackCrashes: a controller dies at every one of its writes in turn while it gives a slot
// back, and another one goes on.
func TestGiveBackCrashes(t *testing.T) {
	for n := 0; ; n++ {
		s := newSingle(t)
		s.unseenEnd()
		writes, alive := 0, true
		first := s.controller(failing(func() error {
			if writes++; !alive || writes > n {
				alive = false
				return errDied
			}
			return nil
		}))
		for range 4 {
			result, err := s.try(first)
			if err != nil && !errors.Is(err, errDied) {
				t.Fatal(err)
			}
			s.clock.Advance(min(result.RequeueAfter, grace))
		}
		second := s.controller(interceptor.Funcs{})
		s.rest(second)
		s.want("m0 v1, m1 v1 active, m1=2")
		s.end()
		s.rest(second)
		s.want("m0 v1, m1 v1")
		if alive {
			if n < 8 {
				t.Errorf("it died in %d places only", n)
			}
			return
		}
	}
}

// TestReleasedTokens: what the record of a target says of slots that were given back.
func TestReleasedTokens(t *testing.T) {
	bracket := start("v1", 1)
	bracket.Group = "bracket/prod/1"
	later := start("v1", 1)
	later.Claims = []rollout.Claim{{Pool: "limit", Token: 3}}
	other := start("v1", 1)
	other.Claims = []rollout.Claim{{Pool: "other", Token: 1}}
	for _, row := range []struct {
		why   string
		start rollout.Start
		err   error
	}{
		{"a token before the released one belongs to a slot that is gone as well", start("v1", 1), errOvertaken},
		{"a later token is another slot", later, nil},
		{"another pool has tokens of its own", other, nil},
		{"a bracket has slots of its own", bracket, nil},
	} {
		t.Run(row.why, func(t *testing.T) {
			c := newFake(t, interceptor.Funcs{})
			d := &dispatcher{store: NewStore(c, c, "fleet"), writer: c}
			orphan := concurrency.Lease{Pool: "limit", Holder: concurrency.Holder{Resource: "m", Group: "target/prod/d"}, Token: 2}
			if _, err := d.giveBack(t.Context(), row.start.TargetID, orphan, 0, false); err != nil {
				t.Fatal(err)
			}
			if _, err := d.dispatch(t.Context(), row.start, 0, day1); !errors.Is(err, row.err) {
				t.Fatalf("%v, want %v", err, row.err)
			}
			last, _, err := d.last(t.Context(), targetKey(row.start.TargetID))
			if err != nil || !last.released("limit", 2) || last.released("limit", 3) {
				t.Errorf("afterwards the record says %v (%v): what was released stays so", last.Released, err)
			}
		})
	}
	// A record that says nothing of it is written, and read, as it was before there was anything to
	// say.
	spec := v1alpha1.NodeJobSpec{Run: "r", Machine: "m", Turn: 1}
	before, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	if now, err := json.Marshal(targetRecord{NodeJobSpec: spec}); err != nil || string(now) != string(before) {
		t.Errorf("%s (%v), want %s", now, err, before)
	}
}

// TestOrphanOfABracket: the slot of a bracket is listed and not given back. The machine's next
// group gives it back.
func TestOrphanOfABracket(t *testing.T) {
	c := newFake(t, interceptor.Funcs{})
	create(t, c, newFleet(t, "fleet", 3)...)
	h := newHost(t, c, "fleet", day2.Add(time.Hour)) // everybody is due
	first := interceptor.NewClient(c, dying(isRecord("bracket/execution")))
	if _, err := (&Reconciler{Client: first, Server: first, Clock: h.clock}).Reconcile(t.Context(), h.request()); !errors.Is(err, errDied) {
		t.Fatal(err)
	}
	for deployment, version := range map[string]string{"os-patch": "2026-03", "kubelet-upgrade": "v1.29.2", "containerd-upgrade": "v1.7.3"} {
		if err := c.Delete(t.Context(), newRelease("fleet", deployment, version, day1)); err != nil {
			t.Fatal(err)
		}
	}
	says := func() string {
		var policies v1alpha1.RolloutPolicyList
		if err := c.List(t.Context(), &policies); err != nil {
			t.Fatal(err)
		}
		conditions := policies.Items[0].Status.Conditions
		return conditions[len(conditions)-1].Message
	}
	for range 3 {
		h.once()
		h.clock.Advance(time.Hour)
	}
	if got := says(); !strings.HasPrefix(got, "orphan: ") || !strings.HasSuffix(got, "with token 1 and is not at work") {
		t.Errorf("the policy says %q", got)
	}
	create(t, c, newRelease("fleet", "os-patch", "2026-04", h.clock.Now()))
	h.run(h.clock.Now().AddDate(0, 0, 4))
	if got := says(); got != "" || len(listJobs(t, c, "fleet")) != 9 {
		t.Errorf("after the next group the policy says %q; %v", got, starts(listJobs(t, c, "fleet")))
	}
}
