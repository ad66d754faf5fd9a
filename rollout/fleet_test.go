package rollout_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/rollout"
	"github.com/tranche-dev/tranche/selector"
)

var t0 = time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)

func newEnv(t testing.TB) *selector.Env {
	t.Helper()
	env, err := selector.NewEnv(selector.DefaultSchema(), selector.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return env
}

// newRemembering is for properties, which compile the same few expressions in every world.
func newRemembering(t testing.TB) *remembering {
	return &remembering{Env: newEnv(t), known: map[string]rollout.Matcher{}}
}

func compile(t testing.TB, policies string, options ...rollout.Option) *rollout.PolicySet {
	t.Helper()
	parsed, err := rollout.ParsePolicies([]byte(policies))
	if err != nil {
		t.Fatalf("parse: %v", err)
	}
	set, err := rollout.Compile(parsed, newEnv(t), options...)
	if err != nil {
		t.Fatalf("compile: %v", err)
	}
	return set
}

// policy wraps rules into a policy that governs everything.
func policy(rules string) string {
	return `{"name":"p","selector":"true","rules":[` + rules + `]}`
}

// fleet is the usual small world: some resources, one environment, deployments with versions, every
// combination a target.
func fleet(resources int, current string, deployments map[string][]string) rollout.Snapshot {
	s := rollout.Snapshot{Environments: []rollout.Environment{{ID: "prod", Name: "prod"}}}
	names := slices.Sorted(maps.Keys(deployments))
	for _, name := range names {
		versions := deployments[name]
		for i, id := range versions {
			s.Versions = append(s.Versions, rollout.Version{
				ID: id, Tag: id, Deployment: name, Status: rollout.VersionReady, CreatedAt: t0.Add(time.Duration(i-len(versions)+1) * time.Hour),
			})
		}
	}
	for _, name := range names {
		s.Deployments = append(s.Deployments, rollout.Deployment{ID: name, Name: name})
	}
	for r := range resources {
		id := fmt.Sprintf("r%d", r+1)
		s.Resources = append(s.Resources, rollout.Resource{ID: id, Name: id, Kind: "Node", Metadata: map[string]string{"cluster": "east"}})
		for _, name := range names {
			s.Targets = append(s.Targets, rollout.Target{TargetID: rollout.TargetID{Resource: id, Environment: "prod", Deployment: name}, Current: current})
		}
	}
	return s
}

func mustPlan(t testing.TB, set *rollout.PolicySet, s rollout.Snapshot, now time.Time) rollout.Plan {
	t.Helper()
	before := text(t, s.State)
	plan, err := set.Plan(s, now)
	if err != nil {
		t.Fatalf("plan: %v", err)
	}
	if after := text(t, s.State); after != before { // the records of a state are shared by those that follow it
		t.Fatalf("the plan wrote to the state that it was given: %s, before %s", after, before)
	}
	return plan
}

// waitingOf lists who waits in a plan.
func waitingOf(plan rollout.Plan) []rollout.Waiting { return slices.Collect(plan.Waiting.All()) }

// mustCommit returns the state after all starts of a plan.
func mustCommit(t rapid.TB, plan rollout.Plan, now time.Time) rollout.State {
	t.Helper()
	state, err := plan.Commit(plan.Start, now)
	if err != nil {
		t.Fatal(err)
	}
	return state
}

func started(p rollout.Plan) []string {
	var list []string
	for _, s := range p.Start {
		list = append(list, s.Resource+"/"+s.Deployment+"@"+s.Version)
	}
	return list
}

// blockers returns the reasons of what waits, as resource/deployment@version: reason reason.
func blockers(p rollout.Plan) []string {
	var list []string
	for w := range p.Waiting.All() {
		line := w.Resource + "/" + w.Deployment + "@" + w.Version + ":"
		for _, b := range w.Blockers {
			line += " " + string(b.Reason)
		}
		list = append(list, line)
	}
	return list
}

// job returns what a host records of a start.
func job(s rollout.Start, at time.Time, status rollout.JobStatus) rollout.Job {
	j := rollout.Job{Run: s.Run, Version: s.Version, Status: status, CreatedAt: at}
	if status.Terminal() {
		j.CompletedAt = at
	}
	return j
}

// add records a job on its target.
func add(s *rollout.Snapshot, start rollout.Start, j rollout.Job) {
	for i := range s.Targets {
		if s.Targets[i].TargetID == start.TargetID {
			s.Targets[i].Jobs = append(slices.Clone(s.Targets[i].Jobs), j)
			if j.Status == rollout.JobSuccessful {
				s.Targets[i].Current = ""
			}
		}
	}
}

// apart is a fleet in which every deployment has resources of its own in every environment. All run
// v1, and v2 is there.
func apart(environments, deployments, resources int) rollout.Snapshot {
	var s rollout.Snapshot
	for e := range environments {
		environment := fmt.Sprintf("e%04d", e)
		s.Environments = append(s.Environments, rollout.Environment{ID: environment})
		for d := range deployments {
			deployment := fmt.Sprintf("d%04d", d)
			if e == 0 {
				s.Deployments = append(s.Deployments, rollout.Deployment{ID: deployment})
				for k, version := range []string{"v1", "v2"} {
					s.Versions = append(s.Versions, rollout.Version{ID: version, Deployment: deployment, Status: rollout.VersionReady, CreatedAt: t0.Add(time.Duration(k))})
				}
			}
			for r := range resources {
				id := fmt.Sprintf("r-%04d-%04d-%05d", e, d, r)
				s.Resources = append(s.Resources, rollout.Resource{ID: id})
				s.Targets = append(s.Targets, rollout.Target{TargetID: rollout.TargetID{Resource: id, Environment: environment, Deployment: deployment}, Current: "v1"})
			}
		}
	}
	return s
}
