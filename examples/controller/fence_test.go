package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/examples/controller/api/v1alpha1"
	"github.com/tranche-dev/tranche/rollout"
)

// bracketed is a fleet of three machines in brackets, of which one may be down at a time, at the
// instant at which the first drain may start.
type bracketed struct {
	*host
	client client.WithWatch
}

func newBracketed(t *testing.T) *bracketed {
	c := newFake(t, interceptor.Funcs{})
	create(t, c, newFleet(t, "fleet", 3)...)
	b := &bracketed{newHost(t, c, "fleet", day1), c}
	b.run(day2.Add(-time.Second))
	b.clock.Set(day2)
	b.each = b.check
	return b
}

// executions returns the executions that are open.
func (b *bracketed) executions() (open []*bracket.ExecutionRecord) {
	b.Helper()
	entries, err := NewStore(b.client, b.client, "fleet").List(b.Context(), bracket.ExecutionKey("Node Lifecycle/deploymentBracket/0", ""))
	if err != nil {
		b.Fatal(err)
	}
	for _, entry := range entries {
		var record bracket.ExecutionRecord
		if err := json.Unmarshal(entry.Value, &record); err != nil {
			b.Fatal(err)
		}
		if record.Open != nil {
			open = append(open, &record)
		}
	}
	return open
}

// check holds in every state: one machine is in its bracket or has a job.
func (b *bracketed) check() {
	b.Helper()
	down := map[string]bool{}
	for _, record := range b.executions() {
		down[record.Resource] = true
	}
	for _, job := range listJobs(b, b.client, "fleet") {
		if !job.Status.State.Terminal() {
			down[job.Spec.Machine] = true
		}
	}
	if len(down) > 1 {
		b.Fatalf("%v: at work are %v", b.clock.Now().Sub(day2), down)
	}
}

// decide creates commands about the drain that has been planned, and returns its machine.
func (b *bracketed) decide(kinds ...bracket.CommandKind) string {
	b.Helper()
	open := b.executions()
	if len(open) != 1 {
		b.Fatalf("%d executions are open", len(open))
	}
	for _, kind := range kinds {
		about := v1alpha1.NodeJob{Spec: v1alpha1.NodeJobSpec{Machine: open[0].Resource, Group: open[0].Open.Group}}
		order := command(about, kind, string(kind), b.clock.Now())
		if kind == bracket.Skip {
			order.Spec.Deployment = "node-drain"
		}
		create(b, b.client, order)
	}
	return open[0].Resource
}

// drains counts the drains of a machine that have a job.
func (b *bracketed) drains(machine string) (n int) {
	for _, job := range listJobs(b, b.client, "fleet") {
		if job.Spec.Machine == machine && job.Spec.Deployment == "node-drain" {
			n++
		}
	}
	return n
}

// sleepy returns a controller that calls a function once, before it does something for its first
// start.
func (b *bracketed) sleepy(before string, sleep func()) *Reconciler {
	asleep := false
	at := func(place string) {
		if place == before && !asleep {
			asleep = true
			sleep()
		}
	}
	c := interceptor.NewClient(b.client, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			if isRecord("target")(object) {
				at("it reads the record of the target")
			}
			return c.Get(ctx, key, object, options...)
		},
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
			switch {
			case isRecord("target")(object):
				at("it writes the record of the target")
			case isJob(object):
				at("it creates the job")
			}
			return c.Create(ctx, object, options...)
		},
	})
	return &Reconciler{Client: c, Server: c, Clock: b.clock, Resync: 10_000 * time.Hour}
}

// TestFencedBracketStart: a controller sleeps with the start of a bracket in hand while a person gives
// that start up, and until its slot has another holder. It creates no job then; if it might be about
// to, the job was created before the slot was given back, and counted.
func TestFencedBracketStart(t *testing.T) {
	for _, kinds := range [][]bracket.CommandKind{{bracket.Resolve}, {bracket.Abandon, v1alpha1.CommandRelease}, {bracket.Skip}} {
		for before, drains := range map[string]int{"it reads the record of the target": 0, "it writes the record of the target": 0, "it creates the job": 1} {
			t.Run(fmt.Sprint(kinds, " before ", before), func(t *testing.T) {
				b := newBracketed(t)
				machine, asleep := "", false
				first := b.sleepy(before, func() {
					asleep = true
					b.clock.Set(day2.Add(20 * time.Minute)) // the others wait for nothing but the slot
					machine = b.decide(kinds...)
					b.run(day2.Add(22 * time.Minute)) // the second one is in its bracket, unless it has to wait
					b.check()
				})
				if _, err := first.Reconcile(t.Context(), b.request()); err != nil || !asleep {
					t.Fatalf("%v; it slept: %v", err, asleep)
				}
				b.check()
				b.run(day2.Add(12 * time.Hour))
				if got := b.drains(machine); got != drains {
					t.Errorf("%d drains of %s, want %d", got, machine, drains)
				}
				if jobs := listJobs(t, b.client, "fleet"); len(jobs) < 10 {
					t.Errorf("the other machines have not been upgraded: %v", starts(jobs))
				}
			})
		}
	}
}

// TestFencedBracketStartCrashes: the controller that carries the command out dies at each of its writes
// in turn, a second one goes on, and the one with the start in hand wakes up last.
func TestFencedBracketStartCrashes(t *testing.T) {
	for before, drains := range map[string]int{"it writes the record of the target": 0, "it creates the job": 1} {
		for n, alive := 0, false; !alive; n++ {
			b := newBracketed(t)
			writes, machine := 0, ""
			alive = true
			first := b.sleepy(before, func() {
				b.clock.Set(day2.Add(20 * time.Minute))
				machine = b.decide(bracket.Resolve)
				mortal := interceptor.NewClient(b.client, failing(func() error {
					if writes++; !alive || writes > n {
						alive = false
						return errDied
					}
					return nil
				}))
				r := &Reconciler{Client: mortal, Server: mortal, Clock: b.clock}
				if _, err := r.Reconcile(t.Context(), b.request()); err != nil && !errors.Is(err, errDied) {
					t.Fatal(err)
				}
				b.check()
				b.run(day2.Add(30 * time.Minute))
			})
			if _, err := first.Reconcile(t.Context(), b.request()); err != nil {
				t.Fatal(err)
			}
			b.check()
			b.run(day2.Add(12 * time.Hour))
			if got := b.drains(machine); got != drains {
				t.Errorf("it died after %d writes: %d drains of %s, want %d", n, got, machine, drains)
			}
			if alive && n < 5 {
				t.Errorf("it died in %d places only", n)
			}
		}
	}
}

// TestFencedBracketStartRandom: people give up what has just started, at random, while two controllers
// plan. Each falls asleep before any of its writes, while the other one goes on, or dies there; its
// cache may not show the jobs. At no instant are two machines at work.
func TestFencedBracketStartRandom(t *testing.T) {
	seeds, seen := uint64(6), map[string]int{}
	if testing.Short() {
		seeds = 3
	}
	for seed := range seeds {
		b := newBracketed(t)
		random := rand.New(rand.NewPCG(seed, 1))
		var controllers [2]*Reconciler
		asleep := -1
		turn := func(n int) {
			if _, err := controllers[n].Reconcile(t.Context(), b.request()); err != nil && !errors.Is(err, errDied) {
				t.Fatal(err)
			}
			if b.check(); t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
		happen := func() { // what people and agents do
			if open := b.executions(); len(open) == 1 && random.IntN(4) == 0 {
				kind := []bracket.CommandKind{bracket.Resolve, bracket.Skip, bracket.Abandon}[random.IntN(3)]
				about := v1alpha1.NodeJob{Spec: v1alpha1.NodeJobSpec{Machine: open[0].Resource, Group: open[0].Open.Group}}
				id := fmt.Sprint(kind, seen[string(kind)])
				seen[string(kind)]++
				order := command(about, kind, id, b.clock.Now())
				if kind == bracket.Skip {
					order.Spec.Deployment = open[0].Open.Members[random.IntN(len(open[0].Open.Members))].Deployment
				}
				create(t, b.client, order)
				if kind == bracket.Abandon {
					create(t, b.client, command(about, v1alpha1.CommandRelease, id+"-serves", b.clock.Now()))
				}
			}
			if random.IntN(8) == 0 { // taken back, before it was heard or after
				if err := b.client.DeleteAllOf(t.Context(), &v1alpha1.BracketCommand{}, client.InNamespace("fleet")); err != nil {
					t.Fatal(err)
				}
			}
			for _, job := range listJobs(t, b.client, "fleet") {
				if !job.Status.State.Terminal() && random.IntN(3) == 0 {
					if err := report(t.Context(), b.client, &job, rollout.JobSuccessful, b.clock.Now()); err != nil {
						t.Fatal(err)
					}
				}
			}
			b.clock.Advance(time.Duration(random.IntN(20)) * time.Minute)
		}
		for n := range controllers {
			dead := false // until its next turn
			write := func(do func() error) error {
				switch {
				case dead:
					return errDied
				case random.IntN(20) == 0:
					dead = true
					seen["died"]++
					return errDied
				case asleep < 0 && random.IntN(8) == 0:
					asleep = n
					seen["slept"]++
					for range 1 + random.IntN(4) {
						happen()
						turn(1 - n)
					}
					asleep = -1
				}
				return do()
			}
			c := interceptor.NewClient(b.client, interceptor.Funcs{
				List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
					if _, policies := list.(*v1alpha1.RolloutPolicyList); policies {
						dead = false
					}
					if _, jobs := list.(*v1alpha1.NodeJobList); jobs && random.IntN(3) == 0 {
						return nil
					}
					return c.List(ctx, list, options...)
				},
				Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
					return write(func() error { return c.Create(ctx, object, options...) })
				},
				Update: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.UpdateOption) error {
					return write(func() error { return c.Update(ctx, object, options...) })
				},
			})
			controllers[n] = &Reconciler{Client: c, Server: b.client, Clock: b.clock, Resync: time.Minute}
		}
		for step := range 60 {
			turn(random.IntN(2))
			happen()
			if step%20 == 19 {
				create(t, b.client, newRelease("fleet", "os-patch", fmt.Sprint("2027-", step), b.clock.Now()))
				b.clock.Advance(25 * time.Hour)
			}
		}
		entries, err := NewStore(b.client, b.client, "fleet").List(t.Context(), "target/")
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			seen["revoked"] += strings.Count(string(entry.Value), `"revoked"`)
		}
		seen["jobs"] += len(listJobs(t, b.client, "fleet"))
	}
	for _, what := range []string{"slept", "died", "resolve", "skip", "abandon", "revoked", "jobs"} {
		if seen[what] == 0 {
			t.Errorf("never %s", what)
		}
	}
	t.Logf("%v", seen)
}

// TestRevocationTakenBack: a controller revokes a run, and dies or sleeps before it saves that the
// execution is over, and the command is deleted. Otherwise the execution would wait for that run for
// ever.
func TestRevocationTakenBack(t *testing.T) {
	for _, row := range []struct {
		why  string
		dies bool
		want int // jobs on the machine
	}{
		{"it dies: the bracket goes on", true, 5},
		{"it sleeps, and saves too late: it plans again, sees the job at the server, and ends the bracket then", false, 1},
	} {
		t.Run(row.why, func(t *testing.T) {
			b := newBracketed(t)
			machine, revoked := "", false
			first := b.sleepy("it reads the record of the target", func() {
				b.clock.Set(day2.Add(20 * time.Minute))
				machine = b.decide(bracket.Resolve)
				second := interceptor.NewClient(b.client, interceptor.Funcs{Update: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.UpdateOption) error {
					if isRecord("bracket/execution")(object) && !revoked {
						revoked = true
						var commands v1alpha1.BracketCommandList
						if err := c.List(ctx, &commands); err != nil {
							t.Fatal(err)
						}
						if err := c.Delete(ctx, &commands.Items[0]); err != nil || row.dies {
							return errors.Join(errDied, err)
						}
						b.once()
						if b.drains(machine) != 1 {
							t.Fatal("the run waits for ever")
						}
					}
					return c.Update(ctx, object, options...)
				}})
				r := &Reconciler{Client: second, Server: second, Clock: b.clock}
				if _, err := r.Reconcile(t.Context(), b.request()); (err != nil) != row.dies {
					t.Fatal(err)
				}
				b.check()
				b.run(day2.Add(21 * time.Minute))
			})
			if _, err := first.Reconcile(t.Context(), b.request()); err != nil || !revoked {
				t.Fatalf("%v; it revoked the run: %v", err, revoked)
			}
			b.run(day2.Add(12 * time.Hour))
			got := 0
			for _, job := range listJobs(t, b.client, "fleet") {
				if job.Spec.Machine == machine {
					got++
				}
			}
			if got != row.want {
				t.Errorf("%d jobs on %s, want %d", got, machine, row.want)
			}
		})
	}
}

// TestOrdinaryEnds: where every job is seen, nothing is asked about the targets but by the dispatch of
// each job.
func TestOrdinaryEnds(t *testing.T) {
	b := newBracketed(t)
	asked := 0
	c := interceptor.NewClient(b.client, interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
		if isRecord("target")(object) {
			asked++
		}
		return c.Get(ctx, key, object, options...)
	}})
	b.reconcile = (&Reconciler{Client: c, Server: c, Clock: b.clock, Resync: 10_000 * time.Hour}).Reconcile
	b.run(day2.Add(12 * time.Hour))
	if jobs := listJobs(t, b.client, "fleet"); asked != len(jobs) || asked != 15 {
		t.Errorf("%d records of targets were read for %d jobs", asked, len(jobs))
	}
}

// TestInProgress: the runs of an execution have the ids that plans give them.
func TestInProgress(t *testing.T) {
	member := func(deployment string, status bracket.MemberStatus, attempt, generation int) bracket.ExecutionMember {
		return bracket.ExecutionMember{Deployment: deployment, Role: bracket.Main, Action: bracket.ActionDeploy, Status: status, Attempt: attempt, Generation: generation, Needs: []string{}}
	}
	value, err := json.Marshal(bracket.ExecutionRecord{Schema: 1, Rule: "r", Resource: "m", Open: &bracket.Execution{
		Group: "r/prod/1", Environment: "prod", Status: bracket.StatusExecuting, Generation: 3, Merged: []string{}, Commands: []string{}, StartedAt: day1,
		Members: []bracket.ExecutionMember{
			member("a", bracket.MemberRunning, 2, 0), member("b", bracket.MemberRollingBack, 1, 0), member("c", bracket.MemberRunning, 1, 2),
			member("d", bracket.MemberWaiting, 1, 0), member("e", bracket.MemberSucceeded, 1, 0), member("f", bracket.MemberFailed, 1, 0),
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	runs, err := inProgress(value)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, run := range runs {
		got = append(got, run.String()+" of "+run.target().Environment)
	}
	want := "[r%2Fprod%2F1/m/a/3/2/deploy of prod r%2Fprod%2F1/m/b/3/1/rollback of prod r%2Fprod%2F1/m/c/2/1/deploy of prod]"
	if fmt.Sprint(got) != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

// TestResolveOfARefusedJob: a job that the server refuses keeps its slot until a person gives it up,
// and does not keep that person from doing so. The target has other jobs later.
func TestResolveOfARefusedJob(t *testing.T) {
	b := newBracketed(t)
	refusals := 0
	webhook := interceptor.NewClient(b.client, interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
		if isJob(object) && b.clock.Now().Before(day2.Add(time.Hour)) {
			refusals++
			return apierrors.NewForbidden(schema.GroupResource{Resource: "nodejobs"}, object.GetName(), errors.New("not now"))
		}
		return c.Create(ctx, object, options...)
	}})
	r := &Reconciler{Client: webhook, Server: webhook, Clock: b.clock, Resync: 10_000 * time.Hour}
	if _, err := r.Reconcile(t.Context(), b.request()); !apierrors.IsForbidden(err) {
		t.Fatal(err)
	}
	machine := b.decide(bracket.Resolve)
	if _, err := r.Reconcile(t.Context(), b.request()); err != nil {
		t.Fatal(err)
	}
	b.clock.Set(day2.Add(30 * time.Minute))
	if _, err := r.Reconcile(t.Context(), b.request()); !apierrors.IsForbidden(err) { // the job of the next machine
		t.Fatal(err)
	}
	if open := b.executions(); len(open) != 1 || open[0].Resource == machine || refusals != 3 {
		t.Fatalf("after %d refusals at work are %v; %s was to be given up", refusals, open, machine)
	}
	b.clock.Set(day2.Add(time.Hour))
	b.run(day2.Add(12 * time.Hour))
	create(t, b.client, newRelease("fleet", "os-patch", "2026-04", b.clock.Now()))
	b.run(b.clock.Now().AddDate(0, 0, 4))
	if got := b.drains(machine); got != 1 {
		t.Errorf("%d drains of %s, want one, for the next release", got, machine)
	}
}

// TestRevokedOnAMissingMachine: no job is created on a machine that is gone, nor on the next one of
// its name by a start of the one before.
func TestRevokedOnAMissingMachine(t *testing.T) {
	b := newBracketed(t)
	machine := ""
	first := b.sleepy("it writes the record of the target", func() {
		machine = b.decide()
		var object v1alpha1.Machine
		if err := b.client.Get(t.Context(), client.ObjectKey{Namespace: "fleet", Name: machine}, &object); err != nil {
			t.Fatal(err)
		}
		if err := b.client.Delete(t.Context(), &object); err != nil {
			t.Fatal(err)
		}
		b.run(day2.Add(30 * time.Minute))
		object.ResourceVersion = ""
		object.Spec.JoinedAt = b.clock.Now() // behind the others
		create(t, b.client, &object)
	})
	if _, err := first.Reconcile(t.Context(), b.request()); err != nil || machine == "" {
		t.Fatalf("%v; it slept on %q", err, machine)
	}
	if b.check(); b.drains(machine) != 0 {
		t.Error("a job of a machine that is gone")
	}
}

// TestRevoke: what the record of a target says of a run that was given up.
func TestRevoke(t *testing.T) {
	one := start("v1", 1)
	one.Group, one.Run = "bracket/prod/1", "bracket%2Fprod%2F1/m/d/1/1/deploy"
	next := start("v1", 2)
	next.Group, next.Run = "bracket/prod/2", "bracket%2Fprod%2F2/m/d/1/1/deploy"
	id := one.TargetID
	dispatch := func(s rollout.Start, seen int64, want error) func(*testing.T, *dispatcher) {
		return func(t *testing.T, d *dispatcher) {
			t.Helper()
			if _, err := d.dispatch(t.Context(), s, seen, day1); !errors.Is(err, want) {
				t.Fatalf("%v, want %v", err, want)
			}
		}
	}
	revoke := func(gone, want bool) func(*testing.T, *dispatcher) {
		return func(t *testing.T, d *dispatcher) {
			t.Helper()
			if exists, err := d.revoke(t.Context(), id, one.Run, gone); err != nil || exists != want {
				t.Fatalf("%v, %v; want %v", exists, err, want)
			}
		}
	}
	for _, row := range []struct {
		why  string
		do   []func(*testing.T, *dispatcher)
		jobs string
	}{
		{"it comes too late", []func(*testing.T, *dispatcher){revoke(false, false), dispatch(one, 0, errOvertaken)}, ""},
		{"twice is once", []func(*testing.T, *dispatcher){revoke(false, false), revoke(false, false), dispatch(one, 0, errOvertaken)}, ""},
		{"the target goes on with the turn that was to be the run's", []func(*testing.T, *dispatcher){revoke(false, false), dispatch(next, 0, nil)}, "2#1"},
		{"it comes too late after that as well", []func(*testing.T, *dispatcher){revoke(false, false), dispatch(next, 0, nil), dispatch(one, 0, errOvertaken)}, "2#1"},
		{"what has a job keeps it", []func(*testing.T, *dispatcher){dispatch(one, 0, nil), revoke(false, true)}, "1#1"},
		{"a record without its job, on a machine that is gone, is taken back", []func(*testing.T, *dispatcher){func(t *testing.T, d *dispatcher) {
			dies := &dispatcher{store: d.store, writer: interceptor.NewClient(d.writer.(client.WithWatch), failing(func() error { return errDied }))}
			dispatch(one, 0, errDied)(t, dies)
		}, revoke(true, false), dispatch(one, 0, errOvertaken), dispatch(next, 0, nil)}, "2#1"},
	} {
		t.Run(row.why, func(t *testing.T) {
			c := newFake(t, interceptor.Funcs{})
			d := &dispatcher{store: NewStore(c, c, "fleet"), writer: c}
			for _, do := range row.do {
				do(t, d)
			}
			var jobs []string
			for _, job := range listJobs(t, c, "fleet") {
				_, _, number, _ := bracket.ParseGroupID(job.Spec.Group)
				jobs = append(jobs, fmt.Sprintf("%d#%d", number, job.Spec.Turn))
			}
			if got := strings.Join(jobs, " "); got != row.jobs {
				t.Errorf("jobs %q, want %q", got, row.jobs)
			}
		})
	}
}

// TestRevokeAfterTheClockWasSetBack: a job that was taken out of the record of its target leaves its
// instant there. The next one is created after it, and so after all that the target had before.
func TestRevokeAfterTheClockWasSetBack(t *testing.T) {
	c := newFake(t, interceptor.Funcs{})
	d := &dispatcher{store: NewStore(c, c, "fleet"), writer: c}
	in := func(group string, n int) rollout.Start {
		s := start(fmt.Sprint("v", n), 1)
		s.Group, s.Run = group, strings.ReplaceAll(group, "/", "%2F")+"/m/d/1/1/deploy"
		return s
	}
	first, refused, next := in("bracket/prod/1", 1), in("bracket/prod/2", 2), in("bracket/prod/3", 3)
	if _, err := d.dispatch(t.Context(), first, 0, day1); err != nil {
		t.Fatal(err)
	}
	webhook := &dispatcher{store: d.store, writer: interceptor.NewClient(c, interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
		if isJob(object) {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "nodejobs"}, object.GetName(), errors.New("not now"))
		}
		return c.Create(ctx, object, options...)
	}})}
	if _, err := webhook.dispatch(t.Context(), refused, 1, day1.Add(-time.Hour)); !denied(err) {
		t.Fatal(err)
	}
	if exists, err := webhook.revoke(t.Context(), refused.TargetID, refused.Run, false); err != nil || exists {
		t.Fatal(exists, err)
	}
	if created, err := d.dispatch(t.Context(), next, 1, day1.Add(-time.Minute)); err != nil || !created {
		t.Fatal(created, err)
	}
	for _, job := range listJobs(t, c, "fleet") {
		if job.Spec.Run == next.Run && !job.Spec.CreatedAt.After(day1) {
			t.Errorf("the job of %s is created at %v, before that of %s", job.Spec.Version, job.Spec.CreatedAt, first.Version)
		}
	}
}
