package controller

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/examples/controller/api/v1alpha1"
)

// newFreeze is one of everything, unless it is narrowed.
func newFreeze(namespace, name string, change ...func(*v1alpha1.DeploymentFreezeSpec)) *v1alpha1.DeploymentFreeze {
	freeze := inNamespace(&v1alpha1.DeploymentFreeze{Spec: v1alpha1.DeploymentFreezeSpec{By: "ann", Reason: "INC-7"}}, namespace, name)
	for _, f := range change {
		f(&freeze.Spec)
	}
	freeze.Spec.Everything = freeze.Spec.Deployment+freeze.Spec.Environment+freeze.Spec.Machine == ""
	return freeze
}

func finishing(s *v1alpha1.DeploymentFreezeSpec) { s.FinishBegun = true }

// TestFreezes: what a freeze holds, from when and until when. Of two machines one may be down at a
// time, and a frozen one does not keep the other waiting.
func TestFreezes(t *testing.T) {
	for _, row := range []struct {
		why     string
		created time.Time
		change  func(*v1alpha1.DeploymentFreezeSpec)
		want    string // what the machines say then
		planned string // what the policy says of the plan
	}{
		{"everything", day1, func(*v1alpha1.DeploymentFreezeSpec) {}, "frozen frozen", ""},
		{"everything, and what has begun is finished: nothing has", day1, finishing, "frozen frozen", ""},
		{"one machine", day1, func(s *v1alpha1.DeploymentFreezeSpec) { s.Machine = "m0" }, "frozen started", ""},
		{"the other one", day1, func(s *v1alpha1.DeploymentFreezeSpec) { s.Machine = "m1" }, "started frozen", ""},
		{"an environment", day1, func(s *v1alpha1.DeploymentFreezeSpec) { s.Environment = "prod" }, "frozen frozen", ""},
		{"a deployment", day1, func(s *v1alpha1.DeploymentFreezeSpec) { s.Deployment = "agent" }, "frozen frozen", ""},
		{"a deployment on a machine", day1, func(s *v1alpha1.DeploymentFreezeSpec) { s.Deployment, s.Environment, s.Machine = "agent", "prod", "m0" }, "frozen started", ""},
		{"a machine that there is not", day1, func(s *v1alpha1.DeploymentFreezeSpec) { s.Machine = "m9" }, "started slot_full", "freeze_without_effect: it: there is no such resource"},
		{"an environment that there is not", day1, func(s *v1alpha1.DeploymentFreezeSpec) { s.Environment = "prd" }, "started slot_full", "freeze_without_effect: it: there is no such environment"},
		{"a deployment that there is not", day1, func(s *v1alpha1.DeploymentFreezeSpec) { s.Deployment = "agnet" }, "started slot_full", "freeze_without_effect: it: there is no such deployment"},
		{"it was written in this second", day1, func(s *v1alpha1.DeploymentFreezeSpec) { s.ExpiresAt = day1.Add(1) }, "frozen frozen", ""},
		{"by a server whose clock is ahead", day1.Add(time.Hour), func(*v1alpha1.DeploymentFreezeSpec) {}, "frozen frozen", ""},
		{"… even of its end", day1.Add(time.Hour), func(s *v1alpha1.DeploymentFreezeSpec) { s.ExpiresAt = day1.Add(1) }, "frozen frozen", ""},
		{"… which is now: nobody knows any more that it held", day1.Add(time.Hour), func(s *v1alpha1.DeploymentFreezeSpec) { s.ExpiresAt = day1 }, "started slot_full", "freeze_without_effect: it: it expires before it begins"},
		{"what a database writes for no date is no end", day1, func(s *v1alpha1.DeploymentFreezeSpec) { s.ExpiresAt = time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC) }, "frozen frozen", ""},
		{"it holds still", day1.Add(-time.Hour), func(s *v1alpha1.DeploymentFreezeSpec) { s.ExpiresAt = day1.Add(1) }, "frozen frozen", ""},
		{"it has expired", day1.Add(-time.Hour), func(s *v1alpha1.DeploymentFreezeSpec) { s.ExpiresAt = day1 }, "started slot_full", ""},
		{"it expired before it was written", day1, func(s *v1alpha1.DeploymentFreezeSpec) { s.ExpiresAt = day1.AddDate(-1, 0, 0) }, "started slot_full", "freeze_without_effect: it: it expires before it begins"},
	} {
		s := newSingle(t)
		create(t, s.client, written(newFreeze("fleet", "it", row.change), "fleet", "it", row.created))
		if _, err := s.try(s.controller(interceptor.Funcs{})); err != nil {
			t.Fatalf("%s: %v", row.why, err)
		}
		var got []string
		for _, machine := range []string{"m0", "m1"} {
			got = append(got, reason(t, s.client, "fleet", machine))
			says := message(t, s.client, machine)
			if who := strings.Contains(says, "frozen by ann (INC-7)") && strings.Contains(says, "the end of freeze it"); who != (got[len(got)-1] == "frozen") {
				t.Errorf("%s: %s says %q", row.why, machine, says)
			}
		}
		if got, planned := strings.Join(got, " "), plannedIn(t, s.client, "fleet"); got != row.want || planned != row.planned {
			t.Errorf("%s: the machines say %s, want %s; the policy says %q, want %q", row.why, got, row.want, planned, row.planned)
		}
	}
}

// frozenFleet is the fleet of fleet.yaml on a real server, in a host that starts when it was written.
func frozenFleet(t *testing.T) (client.Client, *host) {
	c, namespace := shown(t)
	return c, newHost(t, c, namespace, time.Now().Add(time.Second))
}

// reasons counts what the three machines say.
func (h *host) reasons() map[string]int {
	reasons := map[string]int{}
	for n := range 3 {
		reasons[reason(h, h.client, h.namespace, fmt.Sprint("node-", n))]++
	}
	return reasons
}

// want compares the jobs by machine, and what the machines say.
func (h *host) want(when string, jobs map[string]int, reasons map[string]int) {
	h.Helper()
	got := map[string]int{}
	for _, job := range listJobs(h, h.client, h.namespace) {
		got[job.Spec.Machine]++
	}
	if said := h.reasons(); !maps.Equal(got, jobs) || !maps.Equal(said, reasons) {
		h.Errorf("%s: jobs %v, want %v; the machines say %v, want %v", when, got, jobs, said, reasons)
	}
}

func (h *host) delete(object client.Object) {
	h.Helper()
	if err := h.client.Delete(h.Context(), object); err != nil {
		h.Fatal(err)
	}
}

var allDone = map[string]int{"node-0": 4, "node-1": 4, "node-2": 4}

// TestFreezeOfAMachine: the others go on beside a frozen machine, and it has its turn when the freeze
// is deleted.
func TestFreezeOfAMachine(t *testing.T) {
	t.Parallel()
	c, h := frozenFleet(t)
	freeze := newFreeze(h.namespace, "disk", func(s *v1alpha1.DeploymentFreezeSpec) { s.Machine, s.Reason = "node-1", "the disk is being replaced" })
	create(t, c, freeze)
	h.run(h.clock.Now().Add(24 * time.Hour))
	h.want("frozen", map[string]int{"node-0": 4, "node-2": 4}, map[string]int{"current": 2, "frozen": 1})
	if says := messageIn(t, c, h.namespace, "node-1"); !strings.Contains(says, "frozen by ann (the disk is being replaced), waits for the end of freeze disk") {
		t.Errorf("it says %q", says)
	}
	h.delete(freeze)
	h.run(h.clock.Now().Add(24 * time.Hour))
	h.want("thawed", allDone, map[string]int{"current": 3})
}

// TestFreezeOfEverything: nothing starts until the freeze expires, to the instant, and then all goes
// on with nobody's help.
func TestFreezeOfEverything(t *testing.T) {
	t.Parallel()
	c, h := frozenFleet(t)
	until := h.clock.Now().Add(6 * time.Hour).Truncate(time.Second).UTC()
	create(t, c, newFreeze(h.namespace, "stop", func(s *v1alpha1.DeploymentFreezeSpec) { s.ExpiresAt = until }))
	h.run(until.Add(-1))
	h.want("frozen", map[string]int{}, map[string]int{"frozen": 3})
	if says := messageIn(t, c, h.namespace, "node-1"); !strings.Contains(says, "frozen by ann (INC-7) until "+until.Format(time.RFC3339)) {
		t.Errorf("it says %q", says)
	}
	h.run(until.Add(24 * time.Hour))
	h.want("thawed", allDone, map[string]int{"current": 3})
	first := listJobs(t, c, h.namespace)[0]
	if !first.Spec.CreatedAt.Equal(until) {
		t.Errorf("the first job starts at %v, the freeze ends at %v", first.Spec.CreatedAt, until)
	}
}

// TestFreezeWithoutEffect: a freeze of what does not exist stops nothing, and the policy names it
// until it is deleted.
func TestFreezeWithoutEffect(t *testing.T) {
	t.Parallel()
	c, h := frozenFleet(t)
	freeze := newFreeze(h.namespace, "typo", func(s *v1alpha1.DeploymentFreezeSpec) { s.Machine = "node-11" })
	create(t, c, freeze)
	h.run(h.clock.Now().Add(24 * time.Hour))
	h.want("without effect", allDone, map[string]int{"current": 3})
	if says := plannedIn(t, c, h.namespace); says != "freeze_without_effect: typo: there is no such resource" {
		t.Errorf("the policy says %q", says)
	}
	h.delete(freeze)
	if h.once(); plannedIn(t, c, h.namespace) != "" {
		t.Errorf("without it the policy says %q", plannedIn(t, c, h.namespace))
	}
}

// TestFreezeHalfWay: a machine is drained when everything is frozen. Its drain comes to its end, and
// there it stays, or goes on to the end of its bracket if what has begun is finished. Nobody else
// begins, although the slot is free then. After the freeze each machine was drained once.
func TestFreezeHalfWay(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		why     string
		change  func(*v1alpha1.DeploymentFreezeSpec)
		there   int // jobs on the machine under the freeze
		reasons map[string]int
	}{
		{"nothing starts", func(*v1alpha1.DeploymentFreezeSpec) {}, 1, map[string]int{"frozen": 3}},
		{"what has begun is finished", finishing, 4, map[string]int{"current": 1, "frozen": 2}},
	} {
		t.Run(row.why, func(t *testing.T) {
			t.Parallel()
			c, h := frozenFleet(t)
			for wait := h.once(); len(listJobs(t, c, h.namespace)) == 0; wait = h.once() {
				h.clock.Advance(wait)
			}
			drain := listJobs(t, c, h.namespace)[0]
			freeze := newFreeze(h.namespace, "stop", row.change)
			create(t, c, freeze)
			h.once()
			h.want("while the machine is drained", map[string]int{drain.Spec.Machine: 1}, map[string]int{"started": 1, "frozen": 2})
			h.run(h.clock.Now().Add(48 * time.Hour))
			h.want("frozen", map[string]int{drain.Spec.Machine: row.there}, row.reasons)
			h.delete(freeze)
			h.run(h.clock.Now().Add(24 * time.Hour))
			h.want("thawed", allDone, map[string]int{"current": 3})
		})
	}
}

// TestFreezeAfterAFailure: a bracket that has failed waits for a person, frozen or not. The command
// is heard, and takes effect when the freeze is over.
func TestFreezeAfterAFailure(t *testing.T) {
	c := newFake(t, interceptor.Funcs{})
	h, job := failed(t, c)
	before := len(listJobs(t, c, "fleet"))
	freeze := written(newFreeze("fleet", "stop"), "fleet", "stop", h.clock.Now())
	agent := inNamespace(&v1alpha1.NodeDeployment{}, "fleet", "agent") // outside the bracket
	other := newPolicy("fleet", "other", []byte(`{"name":"other","selector":"deployment.name == 'agent'","rules":[{"retry":{"maxRetries":1}}]}`))
	create(t, c, freeze, agent, other, newRelease("fleet", "agent", "v1", h.clock.Now()))
	h.once()
	if got, want := h.reasons(), map[string]int{"bracket_failed_holding": 1, "frozen": 2}; !maps.Equal(got, want) {
		t.Errorf("the machines say %v, want %v", got, want)
	}
	if says := message(t, c, job.Spec.Machine); !strings.Contains(says, "bracket_failed_holding") || !strings.Contains(says, "\nfrozen by ann") {
		t.Errorf("the bracket waits for a person, and what is due beside it is frozen; the machine says %q", says)
	}
	create(t, c, command(job, bracket.Retry, "again", h.clock.Now()))
	h.run(h.clock.Now().Add(48 * time.Hour))
	if got, want := h.reasons(), map[string]int{"frozen": 3}; !maps.Equal(got, want) || len(listJobs(t, c, "fleet")) != before {
		t.Errorf("after the command the machines say %v, want %v; %d jobs, want %d", got, want, len(listJobs(t, c, "fleet")), before)
	}
	h.delete(freeze)
	h.run(h.clock.Now().Add(48 * time.Hour))
	if got, want := h.reasons(), map[string]int{"current": 3}; !maps.Equal(got, want) {
		t.Errorf("thawed, the machines say %v, want %v", got, want)
	}
}

// TestFreezeAsAnEvent: the event about a machine that is frozen says by whom, also if the machine waits
// for something else besides; and what the machine says in full begins with that.
func TestFreezeAsAnEvent(t *testing.T) {
	c := newFake(t, interceptor.Funcs{})
	h := approvals(t, c)
	about := events.NewFakeRecorder(10)
	h.reconcile = (&Reconciler{Client: c, Server: c, Clock: h.clock, Recorder: about}).Reconcile
	create(t, c, written(newFreeze("fleet", "stop"), "fleet", "stop", h.clock.Now()))
	h.once()
	close(about.Events)
	var got []string
	for event := range about.Events {
		got = append(got, event)
	}
	if want := []string{"Normal frozen frozen by ann (INC-7), waits for the end of freeze stop"}; !slices.Equal(got, want) {
		t.Errorf("got events %q, want %q", got, want)
	}
	want := "frozen by ann (INC-7), waits for the end of freeze stop\ntwo-of-us: approval_missing, waits for an approval of v2 in prod"
	if says := message(t, c, "node-0"); says != want {
		t.Errorf("the machine says %q, want %q", says, want)
	}
}

// TestFreezeBetweenStarts: a plan has two starts, and a freeze is seen after the first job. What it
// holds does not start before its end.
func TestFreezeBetweenStarts(t *testing.T) {
	for _, row := range []struct {
		why    string
		change func(*v1alpha1.DeploymentFreezeSpec)
		jobs   int
		want   string // what the machine without a job says
	}{
		{"everything", func(*v1alpha1.DeploymentFreezeSpec) {}, 1, "frozen"},
		{"everything, by a server whose clock is ahead of the end", func(z *v1alpha1.DeploymentFreezeSpec) { z.ExpiresAt = day1.Add(2 * time.Hour) }, 1, "frozen"},
		{"what has begun is finished, and what was saved has", finishing, 2, ""},
		{"another environment", func(z *v1alpha1.DeploymentFreezeSpec) { z.Environment = "staging" }, 2, ""},
		{"it had expired", func(z *v1alpha1.DeploymentFreezeSpec) { z.ExpiresAt = day1 }, 2, ""},
	} {
		s := newSingle(t)
		policy := newPolicy("fleet", "one", []byte(`{"name":"one","selector":"true","rules":[{"id":"limit","resourceConcurrency":{"groupSelector":"true","limit":2}}]}`))
		if err := s.client.Delete(t.Context(), policy); err != nil {
			t.Fatal(err)
		}
		create(t, s.client, policy)
		freeze := written(newFreeze("fleet", "stop", row.change), "fleet", "stop", day1.Add(3*time.Hour))
		r := s.controller(interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
			if isJob(object) && len(listJobs(t, c, "fleet")) == 0 {
				create(t, c, freeze)
			}
			return c.Create(ctx, object, options...)
		}})
		s.rest(r)
		jobs := listJobs(t, s.client, "fleet")
		if len(jobs) != row.jobs {
			t.Errorf("%s: %d jobs, want %d", row.why, len(jobs), row.jobs)
		}
		for _, machine := range []string{"m0", "m1"} {
			busy := slices.ContainsFunc(jobs, func(job v1alpha1.NodeJob) bool { return job.Spec.Machine == machine })
			if says := reason(t, s.client, "fleet", machine); !busy && says != row.want {
				t.Errorf("%s: %s says %s, want %s", row.why, machine, says, row.want)
			}
		}
		if err := s.client.Delete(t.Context(), freeze); err != nil {
			t.Fatal(err)
		}
		s.rest(r)
		if jobs := listJobs(t, s.client, "fleet"); len(jobs) != 2 {
			t.Errorf("%s: thawed, there are %d jobs", row.why, len(jobs))
		}
	}
}

// TestFreezeBeforeTheFirstJob: a bracket has begun by its record, and has no job yet when everything is
// frozen. Its machine says so and keeps its slot; afterwards each machine is drained once.
func TestFreezeBeforeTheFirstJob(t *testing.T) {
	c := newFake(t, interceptor.Funcs{})
	create(t, c, newFleet(t, "fleet", 3)...)
	h := newHost(t, c, "fleet", day2)
	freeze := newFreeze("fleet", "stop")
	begun := false
	freezing := interceptor.NewClient(c, interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
		if isRecord("bracket/execution")(object) && !begun {
			begun = true
			create(t, c, written(freeze, "fleet", "stop", h.clock.Now()))
		}
		return c.Create(ctx, object, options...)
	}})
	h.reconcile = (&Reconciler{Client: freezing, Server: freezing, Clock: h.clock, Resync: 10_000 * time.Hour}).Reconcile
	h.run(day2.Add(24 * time.Hour))
	if jobs, got := listJobs(t, c, "fleet"), h.reasons(); len(jobs) > 0 || !begun || !maps.Equal(got, map[string]int{"frozen": 3}) {
		t.Errorf("begun: %v; %d jobs; the machines say %v", begun, len(jobs), got)
	}
	h.delete(freeze)
	h.run(day2.Add(48 * time.Hour))
	h.want("thawed", map[string]int{"node-0": 5, "node-1": 5, "node-2": 5}, map[string]int{"current": 3})
	audit(t, listJobs(t, c, "fleet"), 3, 2)
}

// TestFreezeAfterADeath: a controller dies between a target's record and its job, or before. While the
// target is frozen nobody creates the job, also not whoever would give the slot back. Otherwise the
// slot would be free for others, or the job exist, after a minute.
func TestFreezeAfterADeath(t *testing.T) {
	for _, row := range []struct {
		why    string
		dies   func(client.Object) bool
		change func(*v1alpha1.DeploymentFreezeSpec)
		frozen string
		thawed string
	}{
		{"before the job; everything is frozen", isJob, func(*v1alpha1.DeploymentFreezeSpec) {}, "m0=1", "m0 v1 active, m0=1"},
		{"… and what has begun is finished: without its job nothing has", isJob, finishing, "m0=1", "m0 v1 active, m0=1"},
		{"… the machine is frozen", isJob, func(s *v1alpha1.DeploymentFreezeSpec) { s.Machine, s.Deployment, s.Environment = "m0", "agent", "prod" }, "m0=1", "m0 v1 active, m0=1"},
		{"… another one is frozen", isJob, func(s *v1alpha1.DeploymentFreezeSpec) { s.Machine = "m1" }, "m0 v1 active, m0=1", "m0 v1 active, m0=1"},
		{"… another deployment is frozen", isJob, func(s *v1alpha1.DeploymentFreezeSpec) { s.Deployment = "other" }, "m0 v1 active, m0=1", "m0 v1 active, m0=1"},
		{"… another environment is frozen", isJob, func(s *v1alpha1.DeploymentFreezeSpec) { s.Environment = "staging" }, "m0 v1 active, m0=1", "m0 v1 active, m0=1"},
		{"before the record of the target: its slot is given back", isRecord("target"), func(*v1alpha1.DeploymentFreezeSpec) {}, "", "m0 v1 active, m0=2"},
	} {
		s := newSingle(t)
		if _, err := s.try(s.controller(dying(row.dies))); err == nil {
			t.Fatalf("%s: it lives", row.why)
		}
		freeze := written(newFreeze("fleet", "stop", row.change), "fleet", "stop", s.clock.Now())
		create(t, s.client, freeze)
		r := s.controller(interceptor.Funcs{})
		s.rest(r)
		s.clock.Advance(time.Hour)
		s.rest(r)
		s.want(row.frozen)
		if says, kept := plannedIn(t, s.client, "fleet"), row.frozen == "m0=1"; strings.Contains(says, "given back, or after the freeze") != kept {
			t.Errorf("%s: of the slot the policy says %q", row.why, says)
		}
		if err := s.client.Delete(t.Context(), freeze); err != nil {
			t.Fatal(err)
		}
		s.rest(r)
		s.want(row.thawed)
	}
}

// TestFrozenTargetThatIsNone: before the slot of a target that is none any more is given back its job
// is created, but not while a freeze covers it. No plan shows that.
func TestFrozenTargetThatIsNone(t *testing.T) {
	for _, row := range []struct {
		why    string
		change func(*v1alpha1.DeploymentFreezeSpec)
		frozen bool
	}{
		{"everything", func(*v1alpha1.DeploymentFreezeSpec) {}, true},
		{"the target", func(z *v1alpha1.DeploymentFreezeSpec) { z.Machine, z.Environment, z.Deployment = "m0", "prod", "agent" }, true},
		{"another machine", func(z *v1alpha1.DeploymentFreezeSpec) { z.Machine = "m1" }, false},
		{"another environment", func(z *v1alpha1.DeploymentFreezeSpec) { z.Environment = "staging" }, false},
		{"another deployment", func(z *v1alpha1.DeploymentFreezeSpec) { z.Deployment = "other" }, false},
	} {
		s := newSingle(t)
		s.choose("m0")
		if _, err := s.try(s.controller(dying(isJob))); err == nil {
			t.Fatal("it lives")
		}
		s.choose("m1")
		until := day1.Add(3 * time.Hour)
		freeze := newFreeze("fleet", "stop", row.change, func(z *v1alpha1.DeploymentFreezeSpec) { z.ExpiresAt = until })
		create(t, s.client, written(freeze, "fleet", "stop", s.clock.Now()))
		r := s.controller(interceptor.Funcs{})
		s.rest(r)
		if created := len(listJobs(t, s.client, "fleet")) > 0; created == row.frozen {
			t.Errorf("%s is frozen: a job was created: %v", row.why, created)
		}
		s.clock.Set(until)
		s.rest(r)
		s.want("m0 v1 active, m0=1")
	}
}

// TestSlotOfAFrozenTarget: the slot of a claim of which no job can come is given back also while its
// target is frozen: others may need it.
func TestSlotOfAFrozenTarget(t *testing.T) {
	s := newSingle(t)
	r := s.controller(interceptor.Funcs{})
	for range 2 {
		s.rest(r)
		s.end()
	}
	s.rest(r)
	s.publish("v2")
	if _, err := s.try(s.controller(dying(isRecord("target")))); err == nil {
		t.Fatal("it lives")
	}
	s.want("m0 v1, m1 v1, m0=3")
	create(t, s.client, written(newFreeze("fleet", "disk", func(z *v1alpha1.DeploymentFreezeSpec) { z.Machine = "m0" }), "fleet", "disk", s.clock.Now()))
	s.rest(r)
	s.want("m0 v1, m1 v1, m1 v2 active, m1=4")
}

// TestWatched: every kind that a plan is made from asks for a plan when an object of it changes.
func TestWatched(t *testing.T) {
	var read []string
	c := newFake(t, interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
		read = append(read, strings.TrimSuffix(reflect.TypeOf(list).Elem().Name(), "List"))
		return c.List(ctx, list, options...)
	}})
	if _, err := observe(t.Context(), c, c, "fleet", known{}); err != nil {
		t.Fatal(err)
	}
	if _, err := new(compiler).load(t.Context(), c, "fleet"); err != nil {
		t.Fatal(err)
	}
	var heard []string
	for _, object := range watched() {
		heard = append(heard, reflect.TypeOf(object).Elem().Name())
	}
	slices.Sort(read)
	slices.Sort(heard)
	if !slices.Equal(slices.Compact(read), heard) {
		t.Errorf("it reads %v, and watches %v", read, heard)
	}
}

// TestFreezesInREADME: the server takes the freezes that the README shows, as kubectl sends them. The
// first one stops everything, the second one a machine, and both are over when they are deleted.
func TestFreezesInREADME(t *testing.T) {
	t.Parallel()
	section := between(t, "README.md", "## When nothing may start", "\n## ")
	blocks := strings.Split(section, "```yaml\n")[1:]
	if len(blocks) != 2 {
		t.Fatalf("%d manifests", len(blocks))
	}
	c, h := frozenFleet(t)
	for k, want := range []map[string]int{{"frozen": 3}, {"frozen": 1, "bracket_collecting": 2}} {
		text, _, _ := strings.Cut(blocks[k], "```")
		text = strings.Replace(text, "2026-12-01T18:00:00Z", h.clock.Now().AddDate(0, 0, 1).UTC().Format(time.RFC3339), 1)
		var object unstructured.Unstructured
		if err := yaml.UnmarshalStrict([]byte(text), &object.Object); err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		object.SetNamespace(h.namespace)
		if err := client.WithFieldValidation(c, metav1.FieldValidationStrict).Create(t.Context(), &object); err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		h.once()
		if got := h.reasons(); !maps.Equal(got, want) {
			t.Errorf("the machines say %v, want %v\n%s", got, want, text)
		}
		if !strings.Contains(section, "kubectl delete -n fleet deploymentfreeze "+object.GetName()) {
			t.Errorf("the README does not say how to delete %s", object.GetName())
		}
		h.delete(&object)
	}
	h.run(h.clock.Now().Add(24 * time.Hour))
	h.want("thawed", allDone, map[string]int{"current": 3})
	if says := messageIn(t, c, h.namespace, "node-1"); says != "" {
		t.Errorf("it says %q", says)
	}
}
