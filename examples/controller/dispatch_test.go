package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/tranche-dev/tranche/clock"
	"github.com/tranche-dev/tranche/examples/controller/api/v1alpha1"
	"github.com/tranche-dev/tranche/rollout"
)

func start(version string, attempt int) rollout.Start {
	return rollout.Start{
		TargetID: rollout.TargetID{Resource: "m", Environment: "prod", Deployment: "d"}, Version: version, Run: fmt.Sprintf("m/prod/d/%s/%d", version, attempt),
		Purpose: rollout.PurposeDeploy, Group: "target/prod/d", Claims: []rollout.Claim{{Pool: "limit", Revision: 7, Token: 1}},
	}
}

// TestDispatchAfterTheClockWasSetBack: jobs are ordered by their instants, so that of the next one is
// after that of the last.
func TestDispatchAfterTheClockWasSetBack(t *testing.T) {
	c := newFake(t, interceptor.Funcs{})
	d := &dispatcher{store: NewStore(c, c, "fleet"), writer: c}
	for turn, at := range []time.Time{day1, day1.Add(-time.Hour), day1.Add(time.Minute)} {
		if created, err := d.dispatch(t.Context(), start(fmt.Sprint("v", turn+1), 1), int64(turn), at); err != nil || !created {
			t.Fatal(created, err)
		}
	}
	at := map[string]time.Time{}
	for _, job := range listJobs(t, c, "fleet") {
		at[job.Spec.Version] = job.Spec.CreatedAt.UTC()
	}
	if want := map[string]time.Time{"v1": day1, "v2": day1.Add(1), "v3": day1.Add(time.Minute)}; !maps.Equal(at, want) {
		t.Errorf("created at %v, want %v", at, want)
	}
}

// TestDispatch: what a dispatcher does with what another one left behind.
func TestDispatch(t *testing.T) {
	type attempt struct {
		start   rollout.Start
		seen    int64
		dies    bool // after the record, before the job
		created bool
		err     error
	}
	died := errors.New("died")
	for _, row := range []struct {
		why      string
		attempts []attempt
		jobs     string // in the end: runs and turns
	}{
		{"the same run twice is one job", []attempt{{start: start("v1", 1), created: true}, {start: start("v1", 1)}}, "v1/1#1"},
		{"the next job follows the one that was seen", []attempt{{start: start("v1", 1), created: true}, {start: start("v2", 1), seen: 1, created: true}}, "v1/1#1 v2/1#2"},
		{"a plan that did not see the last job comes too late", []attempt{{start: start("v2", 1), created: true}, {start: start("v1", 1), err: errOvertaken}}, "v2/1#1"},
		{"a record without its job: the same run makes the job", []attempt{{start: start("v1", 1), dies: true, err: died}, {start: start("v1", 1), created: true}}, "v1/1#1"},
		{"a record without its job: another run makes that job first, for its writer may only sleep", []attempt{
			{start: start("v1", 1), dies: true, err: died}, {start: start("v2", 1), err: errOvertaken}, {start: start("v2", 1), seen: 1, created: true}, {start: start("v1", 1), err: errOvertaken},
		}, "v1/1#1 v2/1#2"},
		{"a record that was lost: what was seen counts", []attempt{{start: start("v1", 3), seen: 2, created: true}}, "v1/3#3"},
	} {
		t.Run(row.why, func(t *testing.T) {
			c := newFake(t, interceptor.Funcs{})
			for i, a := range row.attempts {
				writer := client.Writer(c)
				if a.dies {
					writer = interceptor.NewClient(c, interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
						if _, job := object.(*v1alpha1.NodeJob); job {
							return died
						}
						return c.Create(ctx, object, options...)
					}})
				}
				d := &dispatcher{store: NewStore(c, c, "fleet"), writer: writer}
				created, err := d.dispatch(t.Context(), a.start, a.seen, day1.Add(time.Duration(i)*time.Minute))
				if created != a.created || !errors.Is(err, a.err) || (err == nil) != (a.err == nil) {
					t.Fatalf("attempt %d: %v, %v; want %v, %v", i, created, err, a.created, a.err)
				}
			}
			var runs []string
			for _, job := range listJobs(t, c, "fleet") {
				runs = append(runs, fmt.Sprintf("%s#%d", strings.TrimPrefix(job.Spec.Run, "m/prod/d/"), job.Spec.Turn))
			}
			if got := strings.Join(runs, " "); got != row.jobs {
				t.Errorf("jobs %s, want %s", got, row.jobs)
			}
		})
	}
	huge := start("v1", 1)
	huge.Claims[0].Token = math.MaxUint64
	c := newFake(t, interceptor.Funcs{})
	if _, err := (&dispatcher{store: NewStore(c, c, "fleet"), writer: c}).dispatch(t.Context(), huge, 0, day1); err == nil || len(listJobs(t, c, "fleet")) > 0 {
		t.Errorf("a token that does not fit: %v", err)
	}
}

// machine is a fleet without brackets under two controllers whose caches are old, each kind by
// itself, and whose writes of jobs and records are lost, arrive late, or come after a sleep, while
// the other one goes on.
type machine struct {
	*rapid.T
	client  client.WithWatch
	clock   *clock.Fake
	hosts   [2]*stale
	delayed []func()
	version int
	counts  map[string]int

	deployed bool                       // there is a deployment: without it nobody plans for what was claimed
	frozen   *v1alpha1.DeploymentFreeze // nil: none
}

// stale is one controller with its cache.
type stale struct {
	reconciler *Reconciler
	cached     map[string]client.ObjectList
	fault      string // "", lost, late or slow
	after      int    // so many writes that arrive
}

// list answers from the cache, with copies, as the cache of a manager does.
func (h *stale) list(_ context.Context, _ client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
	switch cached := h.cached[fmt.Sprintf("%T", list)].DeepCopyObject().(type) {
	case *v1alpha1.RolloutPolicyList:
		*list.(*v1alpha1.RolloutPolicyList) = *cached
	case *v1alpha1.NodeDeploymentList:
		*list.(*v1alpha1.NodeDeploymentList) = *cached
	case *v1alpha1.ReleaseList:
		*list.(*v1alpha1.ReleaseList) = *cached
	case *v1alpha1.MachineList:
		*list.(*v1alpha1.MachineList) = *cached
	case *v1alpha1.NodeJobList:
		*list.(*v1alpha1.NodeJobList) = *cached
	case *v1alpha1.ReleaseApprovalList:
		*list.(*v1alpha1.ReleaseApprovalList) = *cached
	case *v1alpha1.RuleOverrideList:
		*list.(*v1alpha1.RuleOverrideList) = *cached
	case *v1alpha1.DeploymentFreezeList:
		*list.(*v1alpha1.DeploymentFreezeList) = *cached
	case *v1alpha1.BracketCommandList:
		*list.(*v1alpha1.BracketCommandList) = *cached
	}
	return nil
}

func (m *machine) refresh(h *stale, list client.ObjectList) {
	if err := m.client.List(context.Background(), list, client.InNamespace("fleet")); err != nil {
		m.Fatal(err)
	}
	h.cached[fmt.Sprintf("%T", list)] = list
}

var errUnknown = errors.New("the answer is lost")

func (m *machine) newHost() *stale {
	h := &stale{cached: map[string]client.ObjectList{}}
	c := interceptor.NewClient(m.client, interceptor.Funcs{
		List: h.list,
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
			return m.write(h, func() error { return c.Create(ctx, object, options...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.UpdateOption) error {
			return m.write(h, func() error { return c.Update(ctx, object, options...) })
		},
	})
	h.reconciler = &Reconciler{Client: c, Server: m.client, Clock: m.clock}
	for _, list := range kinds() {
		m.refresh(h, list)
	}
	return h
}

// write does one, or what the fault makes of it. An update that is late meets what was written
// meanwhile, and fails.
func (m *machine) write(h *stale, do func() error) error {
	fault := h.fault
	if fault != "" {
		if h.after--; h.after >= 0 {
			return do()
		}
		h.fault = ""
		m.counts[fault]++
	}
	switch fault {
	case "lost":
		return errUnknown
	case "late":
		m.delayed = append(m.delayed, func() { _ = do() })
		return errUnknown
	case "slow":
		m.meanwhile(h)
	}
	return do()
}

// meanwhile lets the other controller reconcile, on its own, for as long as one controller sleeps
// in the middle of a write.
func (m *machine) meanwhile(h *stale) {
	other := m.hosts[0]
	if other == h {
		other = m.hosts[1]
	}
	for range rapid.IntRange(1, 4).Draw(m.T, "meanwhile") {
		for _, list := range kinds() {
			m.refresh(other, list)
		}
		m.reconcile(other)
		m.check()
		if rapid.Bool().Draw(m.T, "ends") {
			m.end(rollout.JobSuccessful)
		}
		m.clock.Advance(time.Duration(rapid.IntRange(0, 90).Draw(m.T, "seconds")) * time.Second)
	}
}

func kinds() []client.ObjectList {
	return []client.ObjectList{
		&v1alpha1.RolloutPolicyList{}, &v1alpha1.NodeDeploymentList{}, &v1alpha1.ReleaseList{}, &v1alpha1.MachineList{}, &v1alpha1.NodeJobList{},
		&v1alpha1.DeploymentFreezeList{}, &v1alpha1.ReleaseApprovalList{}, &v1alpha1.RuleOverrideList{}, &v1alpha1.BracketCommandList{},
	}
}

func (m *machine) reconcile(h *stale) {
	before := len(m.jobs())
	_, err := h.reconciler.Reconcile(context.Background(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: "fleet"}})
	if err != nil && !errors.Is(err, errUnknown) {
		m.Fatal(err)
	}
	m.counts["dispatched"] += len(m.jobs()) - before
}

func (m *machine) jobs() []v1alpha1.NodeJob {
	var list v1alpha1.NodeJobList
	if err := m.client.List(context.Background(), &list, client.InNamespace("fleet")); err != nil {
		m.Fatal(err)
	}
	return list.Items
}

func (m *machine) publish() {
	m.version++
	if err := m.client.Create(context.Background(), newRelease("fleet", "agent", fmt.Sprint("v", m.version), m.clock.Now())); err != nil {
		m.Fatal(err)
	}
}

func (m *machine) deploy(deployed bool) {
	deployment := inNamespace(&v1alpha1.NodeDeployment{}, "fleet", "agent")
	var err error
	switch {
	case deployed && !m.deployed:
		err = m.client.Create(context.Background(), deployment)
	case !deployed && m.deployed:
		err = m.client.Delete(context.Background(), deployment)
	}
	if err != nil {
		m.Fatal(err)
	}
	m.deployed = deployed
}

// freeze freezes a machine, or everything.
func (m *machine) freeze(machine string) {
	m.frozen = written(newFreeze("fleet", "stop", func(s *v1alpha1.DeploymentFreezeSpec) { s.Machine = machine }), "fleet", "stop", m.clock.Now())
	if err := m.client.Create(context.Background(), m.frozen); err != nil {
		m.Fatal(err)
	}
}

func (m *machine) thaw() {
	if m.frozen == nil {
		return
	}
	if err := m.client.Delete(context.Background(), m.frozen); err != nil {
		m.Fatal(err)
	}
	m.frozen = nil
}

// jobsUnderFreeze returns the jobs of frozen machines.
func (m *machine) jobsUnderFreeze() (list []v1alpha1.NodeJob) {
	for _, job := range m.jobs() {
		if m.frozen != nil && (m.frozen.Spec.Machine == "" || m.frozen.Spec.Machine == job.Spec.Machine) {
			list = append(list, job)
		}
	}
	return list
}

func (m *machine) end(state rollout.JobStatus) {
	for _, job := range m.jobs() {
		if !job.Status.State.Terminal() {
			if err := report(context.Background(), m.client, &job, state, m.clock.Now()); err != nil {
				m.Fatal(err)
			}
			m.counts[string(state)]++
			return
		}
	}
}

// check holds in every state: at most two machines with an active job, one active job per target,
// turns without a gap that follow the versions.
func (m *machine) check() {
	disrupted, turns, active := map[string]bool{}, map[string]map[int64]v1alpha1.NodeJob{}, map[string]int{}
	for _, job := range m.jobs() {
		target := job.Spec.Machine + "/" + job.Spec.Deployment
		if turns[target] == nil {
			turns[target] = map[int64]v1alpha1.NodeJob{}
		}
		if other, taken := turns[target][job.Spec.Turn]; taken {
			m.Fatalf("turn %d of %s: %s and %s", job.Spec.Turn, target, other.Spec.Run, job.Spec.Run)
		}
		turns[target][job.Spec.Turn] = job
		if !job.Status.State.Terminal() {
			disrupted[job.Spec.Machine] = true
			if active[target]++; active[target] > 1 {
				m.Fatalf("two jobs are active on %s", target)
			}
		}
	}
	if len(disrupted) > 2 {
		m.Fatalf("%d machines are disrupted", len(disrupted))
	}
	for target, list := range turns {
		for turn := int64(1); turn <= int64(len(list)); turn++ {
			job, known := list[turn]
			if !known {
				m.Fatalf("%s has %d jobs and none of turn %d", target, len(list), turn)
			}
			if before := list[turn-1]; turn > 1 && number(before.Spec.Version) > number(job.Spec.Version) {
				m.Fatalf("%s went back from %s to %s", target, before.Spec.Version, job.Spec.Version)
			}
		}
	}
}

func number(version string) (n int) {
	_, _ = fmt.Sscanf(version, "v%d", &n)
	return n
}

// TestTurns: two controllers that plan outside brackets, from caches of any age, with writes that
// are lost or arrive much later. One that sees a freeze creates no job under it, however old the rest
// is that it sees.
func TestTurns(t *testing.T) {
	counts := map[string]int{}
	rapid.Check(t, func(r *rapid.T) {
		m := &machine{T: r, client: newFake(t, interceptor.Funcs{}), clock: clock.NewFake(day1), counts: counts}
		create(t, m.client, newPolicy("fleet", "flat", readPolicy(t, "policy-flat.json")))
		m.deploy(true)
		for i := range 4 {
			create(t, m.client, inNamespace(&v1alpha1.Machine{Spec: v1alpha1.MachineSpec{Environment: "prod", JoinedAt: day1.AddDate(-1, 0, 0)}}, "fleet", fmt.Sprint("m", i)))
		}
		m.publish()
		m.hosts = [2]*stale{m.newHost(), m.newHost()}
		host := func(r *rapid.T) *stale { return m.hosts[rapid.IntRange(0, 1).Draw(r, "host")] }
		r.Repeat(map[string]func(*rapid.T){
			"":          func(r *rapid.T) { m.T = r; m.check() },
			"reconcile": func(r *rapid.T) { m.reconcile(host(r)) },
			"reconcile with a fault": func(r *rapid.T) {
				h := host(r)
				h.fault, h.after = rapid.SampledFrom([]string{"lost", "late", "slow"}).Draw(r, "fault"), rapid.IntRange(0, 3).Draw(r, "after")
				m.T = r
				m.reconcile(h)
				h.fault = ""
			},
			"restart": func(r *rapid.T) {
				i := rapid.IntRange(0, 1).Draw(r, "host")
				m.hosts[i] = m.newHost()
			},
			"freeze": func(r *rapid.T) {
				m.thaw()
				m.freeze(rapid.SampledFrom([]string{"", "m0", "m1"}).Draw(r, "machine"))
			},
			"thaw": func(*rapid.T) { m.thaw() },
			"reconcile, and see the freeze": func(r *rapid.T) {
				h := host(r)
				m.refresh(h, &v1alpha1.DeploymentFreezeList{})
				before := len(m.jobsUnderFreeze())
				m.reconcile(h)
				if jobs := m.jobsUnderFreeze(); len(jobs) != before {
					r.Fatalf("under a freeze of %q there were %d jobs, and now %v", m.frozen.Spec.Machine, before, starts(jobs))
				}
				for i := range 4 {
					if reason(t, m.client, "fleet", fmt.Sprint("m", i)) == "frozen" {
						counts["frozen"]++
					}
				}
			},
			"deploy or not": func(*rapid.T) { m.deploy(!m.deployed) },
			"refresh": func(r *rapid.T) {
				h := host(r)
				list := kinds()[rapid.IntRange(0, 5).Draw(r, "kind")] // nobody decides anything else here
				m.refresh(h, list)
			},
			"publish": func(*rapid.T) { m.publish() },
			"end": func(r *rapid.T) {
				m.end(rapid.SampledFrom([]rollout.JobStatus{rollout.JobSuccessful, rollout.JobFailure}).Draw(r, "state"))
			},
			"arrive": func(*rapid.T) {
				if len(m.delayed) > 0 {
					m.delayed[0]()
					m.delayed = m.delayed[1:]
					counts["arrived"]++
				}
			},
			"wait": func(r *rapid.T) {
				m.clock.Advance(time.Duration(rapid.IntRange(1, 120).Draw(r, "seconds")) * time.Second)
			},
		})
		m.T = r
		m.thaw()
		m.deploy(true)
		m.unseenEnd()
		m.finish()
		m.countGivenBack()
	})
	for _, what := range []string{"dispatched", "lost", "late", "slow", "arrived", "given back", "frozen", "successful", "failure", "finished"} {
		if counts[what] == 0 {
			t.Errorf("never %s", what)
		}
	}
	t.Logf("%v", counts)
}

// unseenEnd lets jobs end of which a controller's cache shows neither the beginning nor the end. It
// plans them once more, and leaves orphans behind.
func (m *machine) unseenEnd() {
	h := m.hosts[0]
	for _, list := range kinds() {
		m.refresh(h, list)
	}
	m.reconcile(h)
	m.end(rollout.JobSuccessful)
	m.end(rollout.JobSuccessful)
	m.clock.Advance(time.Second)
	m.reconcile(h)
	m.check()
}

// finish lets everything arrive and shows that the fleet gets where it should.
func (m *machine) finish() {
	for _, late := range m.delayed {
		late()
		m.counts["arrived"]++
		m.check()
	}
	for range 200 {
		m.clock.Advance(10 * time.Minute)
		for _, list := range kinds() {
			m.refresh(m.hosts[0], list)
		}
		m.reconcile(m.hosts[0])
		m.check()
		m.end(rollout.JobSuccessful)
		var machines v1alpha1.MachineList
		if err := m.client.List(context.Background(), &machines); err != nil {
			m.Fatal(err)
		}
		current := 0
		for _, machine := range machines.Items {
			for _, c := range machine.Status.Conditions {
				if c.Reason == "current" || c.Reason == "retry_exhausted" {
					current++
				}
			}
		}
		if current == len(machines.Items) {
			m.counts["finished"]++
			return
		}
	}
	m.Fatal("it does not end")
}

// countGivenBack counts the slots whose release the records of targets tell.
func (m *machine) countGivenBack() {
	entries, err := NewStore(m.client, m.client, "fleet").List(context.Background(), "target/")
	if err != nil {
		m.Fatal(err)
	}
	for _, entry := range entries {
		var record targetRecord
		if err := json.Unmarshal(entry.Value, &record); err != nil {
			m.Fatal(err)
		}
		m.counts["given back"] += len(record.Released)
	}
}

// TestUnseenRelease: a cache that shows a failed job of a release that it does not show yet must
// not make the release before it look like the newest; a release that was deleted must.
func TestUnseenRelease(t *testing.T) {
	for _, row := range []struct {
		why    string
		delete bool
		want   string // versions of the jobs, in order
	}{
		{"the cache is behind: nobody goes back", false, "v2"},
		{"the release is gone: the one before is the newest", true, "v2 v1"},
	} {
		t.Run(row.why, func(t *testing.T) {
			c := newFake(t, interceptor.Funcs{})
			v2 := newRelease("fleet", "agent", "v2", day1.Add(time.Minute))
			create(t, c, newPolicy("fleet", "flat", readPolicy(t, "policy-flat.json")), inNamespace(&v1alpha1.NodeDeployment{}, "fleet", "agent"),
				newRelease("fleet", "agent", "v1", day1), v2, inNamespace(&v1alpha1.Machine{Spec: v1alpha1.MachineSpec{Environment: "prod"}}, "fleet", "m"))
			behind := interceptor.NewClient(c, interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
				err := c.List(ctx, list, options...)
				if releases, ok := list.(*v1alpha1.ReleaseList); ok {
					releases.Items = releases.Items[:1]
				}
				return err
			}})
			now := clock.NewFake(day2)
			request := ctrl.Request{NamespacedName: client.ObjectKey{Namespace: "fleet"}}
			if _, err := (&Reconciler{Client: c, Server: c, Clock: now}).Reconcile(t.Context(), request); err != nil {
				t.Fatal(err)
			}
			for _, job := range listJobs(t, c, "fleet") {
				if err := report(t.Context(), c, &job, rollout.JobFailure, now.Now()); err != nil {
					t.Fatal(err)
				}
			}
			if row.delete {
				if err := c.Delete(t.Context(), v2); err != nil {
					t.Fatal(err)
				}
			}
			now.Advance(time.Second) // too early for another attempt
			if _, err := (&Reconciler{Client: behind, Server: c, Clock: now}).Reconcile(t.Context(), request); err != nil {
				t.Fatal(err)
			}
			var versions []string
			for _, job := range listJobs(t, c, "fleet") {
				versions = append(versions, job.Spec.Version)
			}
			if got := strings.Join(versions, " "); got != row.want {
				t.Errorf("jobs of %s, want %s", got, row.want)
			}
		})
	}
}
