package rollout_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/internal/testkit"
	"github.com/tranche-dev/tranche/rollout"
)

// TestWhatElseAResourceHas: a plan is the same whether a resource is in one environment or, by
// targets that have nothing to run, in all of them. What a plan divides by environment, it would
// otherwise look through in each. Resources and targets come, move and go, jobs fail, commands
// arrive, starts are lost, and sometimes an environment is not read.
func TestWhatElseAResourceHas(t *testing.T) {
	bracketed := func(fields string) string {
		return `[{"name":"p","selector":"deployment.name != 'inert'","rules":[{"id":"B","deploymentBracket":{"deploymentSelector":"true",` + fields + `}},
			{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":2}},{"id":"G","gradualRollout":{"rolloutType":"linear","timeScaleInterval":30}}]}]`
	}
	var sets []*rollout.PolicySet
	for _, fields := range []string{
		`"readinessMode":"immediate","memberRoles":{}`,
		`"readinessMode":"immediate","overlapStrategy":"merge","preparedStatePersists":true,"onMemberFailure":"run_post","memberRoles":{"pre":"deployment.name == 'a'"}`,
		`"readinessMode":"collection_window","readinessWindowSeconds":120,"onMemberFailure":"rollback_member","memberRoles":{}`,
	} {
		sets = append(sets, compile(t, bracketed(fields)))
	}
	seeds := 150
	if testing.Short() {
		seeds = 60
	}
	if testkit.Race {
		seeds = 10
	}
	counts := map[string]int{}
	for seed := range seeds {
		m := mover{Rand: rand.New(rand.NewPCG(uint64(seed), 3)), now: t0}
		m.begin()
		set := sets[seed%len(sets)]
		for range 25 {
			m.step()
			s := m.s
			if m.IntN(6) == 0 {
				s = m.without(s.Environments[m.IntN(len(s.Environments))].ID)
				counts["an environment is not read"]++
			}
			plan, err := set.Plan(s, m.now)
			besides, failed := set.Plan(withInert(s), m.now)
			if err != nil || failed != nil {
				t.Fatalf("seed %d: %v, %v", seed, err, failed)
			}
			besides.Keep = plan.Keep // it counts the others too
			same(t, seed, plan, besides)
			for _, record := range plan.State.Executions {
				open, e := record.Open, slices.IndexFunc(s.Targets, func(target rollout.Target) bool { return target.Resource == record.Resource })
				switch {
				case open != nil && e < 0:
					counts["an execution is open where nothing is any more"]++
				case open != nil && !slices.ContainsFunc(s.Targets, func(target rollout.Target) bool {
					return target.Resource == record.Resource && target.Environment == open.Environment
				}):
					counts["an execution is open, and its targets are elsewhere"]++
				case open == nil && len(record.Last) > 1:
					counts["executions have ended in several environments"]++
				}
			}
			var starts []rollout.Start
			for _, start := range plan.Start {
				if m.IntN(4) > 0 {
					starts = append(starts, start)
				}
			}
			state, err := plan.Commit(starts, m.now)
			other, failed := besides.Commit(starts, m.now)
			if err != nil || failed != nil {
				t.Fatalf("seed %d: commit: %v, %v", seed, err, failed)
			}
			same(t, seed, state, other)
			m.s.State = state
			for _, start := range starts {
				if counts["a start"]++; m.IntN(10) > 0 { // else it is lost
					add(&m.s, start, job(start, m.now, rollout.JobInProgress))
				}
			}
			for _, event := range plan.Events {
				counts[string(event.Kind)]++
			}
		}
	}
	t.Log(counts)
	for _, outcome := range []string{"an environment is not read", "an execution is open where nothing is any more", "an execution is open, and its targets are elsewhere",
		"executions have ended in several environments", "a start", string(bracket.GroupMerged), string(bracket.ExecutionEnded)} {
		if counts[outcome] == 0 && !testkit.Race {
			t.Errorf("never reached: %s", outcome)
		}
	}
}

func same(t *testing.T, seed int, a, b any) {
	t.Helper()
	one, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	two, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	if string(one) != string(two) {
		t.Fatalf("seed %d:\n%s\nwith other targets on every resource:\n%s", seed, one, two)
	}
}

// withInert adds to every resource a target in every environment that has nothing to run.
func withInert(s rollout.Snapshot) rollout.Snapshot {
	s.Deployments = append(slices.Clip(s.Deployments), rollout.Deployment{ID: "inert", Name: "inert"})
	s.Targets = slices.Clip(s.Targets)
	for _, r := range s.Resources {
		for _, e := range s.Environments {
			s.Targets = append(s.Targets, rollout.Target{TargetID: rollout.TargetID{Resource: r.ID, Environment: e.ID, Deployment: "inert"}})
		}
	}
	return s
}

// mover changes a fleet of three environments at random.
type mover struct {
	*rand.Rand
	s     rollout.Snapshot
	now   time.Time
	given int // numbers of versions and commands
}

func (m *mover) begin() {
	m.s = fleet(0, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}, "c": {"v1", "v2"}})
	m.s = inEnvironments(m.s, "test", "dev")
	for k := range 4 {
		id := fmt.Sprintf("r%d", k)
		m.s.Resources = append(m.s.Resources, rollout.Resource{ID: id, Name: id})
		for range 3 {
			m.join(id, m.s.Environments[k%3].ID)
		}
	}
}

// join adds a target to a resource, unless it is there.
func (m *mover) join(resource, environment string) {
	id := rollout.TargetID{Resource: resource, Environment: environment, Deployment: m.s.Deployments[m.IntN(3)].ID}
	if !slices.ContainsFunc(m.s.Targets, func(target rollout.Target) bool { return target.TargetID == id }) {
		m.s.Targets = append(m.s.Targets, rollout.Target{TargetID: id, Current: "v1"})
	}
}

func (m *mover) step() {
	m.now = m.now.Add(time.Duration(30+m.IntN(120)) * time.Second)
	m.given++
	at := func(id string) func(rollout.Target) bool {
		return func(target rollout.Target) bool { return target.Resource == id }
	}
	resource := m.s.Resources[m.IntN(len(m.s.Resources))].ID
	switch m.IntN(7) {
	case 0:
		m.s.Versions = append(m.s.Versions, rollout.Version{
			ID: fmt.Sprintf("v2.%d", m.given), Deployment: m.s.Deployments[m.IntN(3)].ID, Status: rollout.VersionReady, CreatedAt: m.now,
		})
	case 1:
		m.join(resource, m.s.Environments[m.IntN(3)].ID)
	case 2: // all of it moves
		to := m.s.Environments[m.IntN(3)].ID
		m.s.Targets = slices.Clone(m.s.Targets)
		for k := range m.s.Targets {
			id := m.s.Targets[k].TargetID
			id.Environment = to
			if id.Resource == resource && !slices.ContainsFunc(m.s.Targets, func(target rollout.Target) bool { return target.TargetID == id }) {
				m.s.Targets[k].TargetID = id
			}
		}
	case 3:
		if m.IntN(4) == 0 {
			m.s.Targets = slices.DeleteFunc(slices.Clone(m.s.Targets), at(resource))
		}
	case 4:
		if m.IntN(4) == 0 && len(m.s.Resources) > 2 {
			m.s.Targets = slices.DeleteFunc(slices.Clone(m.s.Targets), at(resource))
			m.s.Resources = slices.DeleteFunc(slices.Clone(m.s.Resources), func(r rollout.Resource) bool { return r.ID == resource })
			if m.IntN(2) == 0 {
				m.s.DeletedResources = append(slices.Clip(m.s.DeletedResources), resource)
			}
		}
	case 5:
		for _, record := range m.s.State.Executions {
			if record.Open != nil && m.IntN(2) == 0 {
				c := bracket.Command{ID: fmt.Sprintf("c%d", m.given), Group: record.Open.Group, Resource: record.Resource, At: m.now}
				c.Kind = []bracket.CommandKind{bracket.Retry, bracket.Skip, bracket.Abandon, bracket.Resolve}[m.IntN(4)]
				if c.Kind == bracket.Retry || c.Kind == bracket.Skip {
					c.Deployment = record.Open.Members[0].Deployment
				}
				m.s.Commands = append(slices.Clip(m.s.Commands), c)
				break
			}
		}
	}
	for k := range m.s.Targets {
		target := &m.s.Targets[k]
		target.Jobs = slices.Clone(target.Jobs)
		for j := range target.Jobs {
			if own := &target.Jobs[j]; own.Status == rollout.JobInProgress && m.IntN(2) == 0 {
				if own.Status, own.CompletedAt = rollout.JobSuccessful, m.now; m.IntN(6) == 0 {
					own.Status = rollout.JobFailure
				} else {
					target.Current = own.Version
				}
			}
		}
	}
}

// without is the fleet without one environment.
func (m *mover) without(environment string) rollout.Snapshot {
	s := m.s
	s.Environments = slices.DeleteFunc(slices.Clone(s.Environments), func(e rollout.Environment) bool { return e.ID == environment })
	s.Targets = slices.DeleteFunc(slices.Clone(s.Targets), func(target rollout.Target) bool { return target.Environment == environment })
	return s
}

// TestOlderThanWhatFailed: v3 has failed and is withdrawn, and v2 is older. In a bracket, once somebody
// has ended the execution, the next group brings v2: its hooks run what is current, so what was begun
// can bind none of its members. Outside brackets nothing older than v3 comes.
func TestOlderThanWhatFailed(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		rules string
		want  []string
	}{
		{`{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}}`, []string{"r1/a@v2", "r1/b@b2"}},
		{`{"versionCooldown":{"intervalSeconds":0}}`, []string{"r1/b@b2"}},
	} {
		set := compile(t, policy(row.rules))
		s := fleet(1, "v1", map[string][]string{"a": {"v1", "v2", "v3"}, "b": {"v1"}})
		withdrawn := slices.IndexFunc(s.Versions, func(v rollout.Version) bool { return v.ID == "v3" })
		plan := mustPlan(t, set, s, minute(20))
		if got := started(plan); !slices.Equal(got, []string{"r1/a@v3"}) {
			t.Fatalf("starts %q: this tests nothing", got)
		}
		carryOut(t, &s, plan, minute(20), rollout.JobFailure)
		s.Commands = []bracket.Command{{ID: "c", Kind: bracket.Resolve, Group: plan.Start[0].Group, Resource: "r1", At: minute(21)}}
		s.Versions[withdrawn].Status = "withdrawn"
		s.State = mustPlan(t, set, s, minute(22)).State
		s.Versions = append(s.Versions, rollout.Version{ID: "b2", Tag: "b2", Deployment: "b", Status: rollout.VersionReady, CreatedAt: minute(30)})
		if got := started(mustPlan(t, set, s, minute(31))); !slices.Equal(got, row.want) {
			t.Errorf("under %s: starts %q, want %q", row.rules, got, row.want)
		}
	}
}
