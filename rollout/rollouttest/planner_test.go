package rollouttest_test

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/bracket/brackettest"
	"github.com/tranche-dev/tranche/clock"
	"github.com/tranche-dev/tranche/rollout"
	"github.com/tranche-dev/tranche/rollout/rollouttest"
)

// TestPlannerUnderFaults drives two [rollout.Planner] on one store whose calls are lost, repeated,
// answered wrongly or from the past, or end in a crash. Whatever happens, jobs run on no more nodes
// than allowed, no run means two things, and once the faults stop everything ends with the same
// versions.
func TestPlannerUnderFaults(t *testing.T) {
	t.Parallel()
	seen := map[string]int{}
	set := policyFile(t, "node-policy.json", withRules(`{"retry": {"maxRetries": 9, "backoffSeconds": 60}}`))
	rapid.Check(t, func(t *rapid.T) {
		m := &hosts{T: t, seen: seen, set: set, fleet: nodes(3), clock: clock.NewFake(at(2, 9, 0)), jobs: map[string]rollout.Start{}}
		m.fleet.Versions = append(m.fleet.Versions, rfcReleases()...)
		shared := &bracket.MemoryStore{}
		for range 2 {
			m.clients = append(m.clients, brackettest.NewFaultStore(shared, m.fault))
		}
		m.faults = true
		for range rapid.IntRange(5, 40).Draw(t, "steps") {
			m.step(rapid.IntRange(0, 9).Draw(t, "action"))
		}
		m.finish()
	})
	for _, want := range append(slices.Collect(maps.Keys(faults())), "plan", "crash", "injected", "partial", "late dispatch", "stale observation", "job failed", "finished") {
		if seen[want] == 0 {
			t.Errorf("%q never happened", want)
		}
	}
	t.Log(seen)
}

// hosts are two hosts of one fleet.
type hosts struct {
	*rapid.T
	seen    map[string]int
	set     *rollout.PolicySet
	fleet   rollout.Snapshot // the truth
	before  *rollout.Snapshot
	clock   *clock.Fake
	clients []*brackettest.FaultStore
	faults  bool
	jobs    map[string]rollout.Start // dispatched, by run
	late    []rollout.Start          // planned and not dispatched yet
}

func faults() map[string]brackettest.Fault {
	return map[string]brackettest.Fault{
		"lost call": brackettest.Lose, "lost answer": brackettest.LoseAnswer, "injected conflict": brackettest.Conflict,
		"repeated call": brackettest.Repeat, "stale load": brackettest.Stale, "injected crash": brackettest.Crash,
	}
}

func (m *hosts) fault(brackettest.Call) brackettest.Fault {
	if !m.faults || rapid.IntRange(0, 7).Draw(m.T, "fault?") > 0 {
		return brackettest.None
	}
	name := rapid.SampledFrom(slices.Sorted(maps.Keys(faults()))).Draw(m.T, "fault")
	m.seen[name]++
	return faults()[name]
}

func (m *hosts) snapshot() rollout.Snapshot {
	s := m.fleet
	s.Targets = slices.Clone(s.Targets)
	for i := range s.Targets {
		s.Targets[i].Jobs = slices.Clone(s.Targets[i].Jobs)
	}
	return s
}

func (m *hosts) step(action int) {
	switch {
	case action < 4:
		s := m.snapshot()
		if m.before != nil && rapid.IntRange(0, 3).Draw(m.T, "stale?") == 0 {
			m.seen["stale observation"]++
			s = *m.before
		}
		m.plan(rapid.IntRange(0, 1).Draw(m.T, "host"), s)
	case action < 7:
		m.end()
	case action == 7:
		m.clock.Advance(minutes(rapid.IntRange(1, 10).Draw(m.T, "minutes")))
	case action == 8:
		s := m.snapshot()
		m.before = &s
	default:
		for _, start := range m.late {
			m.seen["late dispatch"]++
			m.dispatch(start)
		}
		m.late = nil
	}
}

func (m *hosts) plan(host int, s rollout.Snapshot) int {
	client := m.clients[host]
	planner := &rollout.Planner{Policies: m.set, Store: client, Clock: m.clock}
	plan, err := planner.Plan(m.Context(), s)
	switch {
	case errors.Is(err, bracket.ErrConflict):
		m.seen["conflict"]++
		return 0
	case errors.Is(err, brackettest.ErrCrashed):
		m.seen["crash"]++
		client.Restart(m.fault)
		return 0
	case errors.Is(err, brackettest.ErrInjected):
		m.seen["injected"]++
		return 0
	case err != nil:
		m.Fatalf("plan: %v", err)
	}
	m.seen["plan"]++
	if err := (rollouttest.Step{Snapshot: s, Plan: plan, Dispatched: m.jobs, Lagging: true}).Check(); err != nil {
		m.Fatal(err)
	}
	for _, start := range plan.Start {
		if m.faults && rapid.Bool().Draw(m.T, "later?") {
			m.seen["partial"]++
			m.late = append(m.late, start)
			continue
		}
		m.dispatch(start)
	}
	return len(plan.Start)
}

// dispatch creates the job if it does not exist.
func (m *hosts) dispatch(start rollout.Start) {
	if known, exists := m.jobs[start.Run]; exists {
		if known.TargetID != start.TargetID || known.Version != start.Version || known.Purpose != start.Purpose {
			m.Fatalf("run %s was %v and is now %v", start.Run, known, start)
		}
		return
	}
	m.jobs[start.Run] = start
	for i := range m.fleet.Targets {
		if t := &m.fleet.Targets[i]; t.TargetID == start.TargetID {
			t.Jobs = append(slices.Clone(t.Jobs), rollout.Job{Run: start.Run, Version: start.Version, Status: rollout.JobInProgress, CreatedAt: m.clock.Now()})
		}
	}
	busy := map[string]bool{}
	for i := range m.fleet.Targets {
		for _, job := range m.fleet.Targets[i].Jobs {
			if !job.Status.Terminal() {
				busy[m.fleet.Targets[i].Resource] = true
			}
		}
	}
	if len(busy) > 1 { // 20 % of 3, rounded up
		m.Fatalf("jobs run on %v after %s", slices.Sorted(maps.Keys(busy)), start.Run)
	}
}

// end lets the first job in progress end, with success or now and then without.
func (m *hosts) end() {
	for i := range m.fleet.Targets {
		t := &m.fleet.Targets[i]
		for k := range t.Jobs {
			if t.Jobs[k].Status.Terminal() {
				continue
			}
			t.Jobs = slices.Clone(t.Jobs)
			job := &t.Jobs[k]
			job.Status, job.CompletedAt = rollout.JobSuccessful, m.clock.Now()
			if m.faults && rapid.IntRange(0, 9).Draw(m.T, "fails?") == 0 {
				m.seen["job failed"]++
				job.Status = rollout.JobFailure
				return
			}
			t.Current = job.Version
			return
		}
	}
}

// finish lets the faults stop and the jobs succeed: then everything ends.
func (m *hosts) finish() {
	m.faults = false
	for _, client := range m.clients {
		client.Restart(nil)
	}
	idle := 0
	for idle < 200 {
		if m.plan(0, m.snapshot()) == 0 {
			idle++
		}
		m.end()
		m.clock.Advance(time.Minute)
		if m.done() {
			m.seen["finished"]++
			return
		}
	}
	m.Fatalf("a fair host does not finish")
}

func (m *hosts) done() bool {
	want := map[string]string{drain: "v1", uncordon: "v1", osPatch: "2026-03", kubelet: "v1.29.2", containerd: "v1.7.3"}
	posts := 0
	for i := range m.fleet.Targets {
		t := &m.fleet.Targets[i]
		if t.Current != want[t.Deployment] {
			return false
		}
		if t.Deployment == uncordon && slices.ContainsFunc(t.Jobs, func(job rollout.Job) bool { return job.Status == rollout.JobSuccessful }) {
			posts++
		}
	}
	return posts == 3
}
