package bracket

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

var day0 = time.Date(2026, 3, 10, 9, 0, 0, 0, time.UTC)

// fleet is the RFC's node policy over n targets (five per resource), after the window closed; done
// of every ten resources have finished, and inFlight are open with their drain running.
type fleet struct {
	rule    Rule
	state   State
	obs     Observation
	targets TargetList // of obs
	now     time.Time
}

func rfcMembers() []Member {
	return []Member{
		{Deployment: "containerd", Needs: []string{"node-drain", "os-patch"}},
		{Deployment: "kubelet", Needs: []string{"node-drain", "os-patch"}},
		{Deployment: "node-drain"},
		{Deployment: "node-uncordon", Needs: []string{"containerd", "kubelet"}},
		{Deployment: "os-patch", Needs: []string{"node-drain"}},
	}
}

func windowRule(seconds int64) Rule {
	return Rule{DeploymentSelector: "true", ReadinessWindowSeconds: &seconds}
}

func newFleet(tb testing.TB, targets, donePerTen, inFlight int) *fleet {
	f := &fleet{rule: windowRule(86400), state: NewState("rule", "prod"), now: day0.Add(24 * time.Hour)}
	f.obs.Members = rfcMembers()
	for _, m := range f.obs.Members {
		f.obs.Versions = append(f.obs.Versions,
			Version{Deployment: m.Deployment, ID: "old", CreatedAt: day0.AddDate(0, 0, -90), EligibleAt: day0.AddDate(0, 0, -90)})
		if m.Deployment != "node-drain" && m.Deployment != "node-uncordon" {
			f.obs.Versions = append(f.obs.Versions, Version{Deployment: m.Deployment, ID: "new", CreatedAt: day0, EligibleAt: day0})
		}
	}
	resources := targets / len(f.obs.Members)
	for r := range resources {
		name := fmt.Sprintf("node-%07d", r)
		for _, m := range f.obs.Members {
			f.targets = append(f.targets, Target{Resource: name, Deployment: m.Deployment, Current: "old"})
		}
	}
	f.obs.Targets = f.targets
	f.obs.Due = func(p PendingGroup) []time.Time {
		at := make([]time.Time, len(p.Resources))
		for i := range at {
			at[i] = p.Group.ReadyAt.Add(time.Duration(i+1) * time.Second)
		}
		return at
	}
	state, _, err := Step(f.rule, f.state, f.obs, f.now)
	if err != nil {
		tb.Fatal(err)
	}
	f.state = state
	group := state.Group.Closed[0].ID
	for r := range resources {
		record := &ExecutionRecord{Schema: schema, Rule: "rule", Resource: f.targets[5*r].Resource}
		switch {
		case r%10 < donePerTen:
			record.Last = map[string]*EndedExecution{"prod": {Group: group, Status: StatusCompleted, EndedAt: f.now}}
			for k := range f.obs.Members {
				if m := f.obs.Members[k].Deployment; m != "node-drain" && m != "node-uncordon" {
					f.targets[5*r+k].Current = "new"
				}
			}
		case inFlight > 0:
			inFlight--
			v, err := newView(f.rule.WithDefaults(), state.Group, Observation{Members: f.obs.Members, Versions: f.obs.Versions, Targets: f.targets[5*r : 5*r+5]}, f.now)
			if err != nil {
				tb.Fatal(err)
			}
			record.Open = v.freeze(v.viewGroup(state.Group.Closed[0]), 0, f.now, nil)
			record.Open.Members[2].start(f.now)
			f.obs.Runs = append(f.obs.Runs, RunFact{Run: record.Open.runOf(record.Resource, &record.Open.Members[2]), Status: RunRunning, StartedAt: f.now})
		default:
			continue
		}
		f.state.Executions = append(f.state.Executions, record)
	}
	return f
}

var sinkPlan Plan

func BenchmarkStep(b *testing.B) {
	for _, n := range []int{1_000, 10_000, 100_000, 1_000_000} {
		for _, kind := range []struct {
			name       string
			donePerTen int
			offset     time.Duration
			shuffled   bool
		}{{"midway", 5, 0, false}, {"alldue", 5, 24 * time.Hour * 365, false}, {"done", 10, 0, false}, {"shuffled", 5, 0, true}} {
			b.Run(fmt.Sprintf("%s/n=%d", kind.name, n), func(b *testing.B) {
				f := newFleet(b, n, kind.donePerTen, n/100)
				now := f.now.Add(kind.offset)
				if kind.shuffled { // midway, in no order
					rand.New(rand.NewPCG(1, 2)).Shuffle(n, func(i, k int) { f.targets[i], f.targets[k] = f.targets[k], f.targets[i] })
				}
				b.ReportAllocs()
				for b.Loop() {
					_, plan, err := Step(f.rule, f.state, f.obs, now)
					if err != nil {
						b.Fatal(err)
					}
					sinkPlan = plan
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/target")
			})
		}
	}
}

// BenchmarkHistory is the first call of a host whose deployment has many versions: each of them
// makes a group of its own. wide are for everybody; of the narrow ones each is out of scope for
// some target, so that every group locks all that came before.
func BenchmarkHistory(b *testing.B) {
	for _, kind := range []string{"wide", "narrow"} {
		for _, n := range []int{100, 1_000} {
			b.Run(fmt.Sprintf("%s/n=%d", kind, n), func(b *testing.B) {
				rule := Rule{DeploymentSelector: "true", ReadinessMode: Immediate}
				targets := make(TargetList, 10)
				for i := range targets {
					targets[i] = Target{Resource: fmt.Sprint("n", i), Deployment: "os"}
				}
				o := Observation{Members: []Member{{Deployment: "os"}}, Targets: targets}
				for i := range n {
					v := Version{Deployment: "os", ID: fmt.Sprint("v", i), CreatedAt: at(i), EligibleAt: at(i)}
					if o.Versions = append(o.Versions, v); kind == "narrow" {
						targets[i%10].OutOfScope = append(targets[i%10].OutOfScope, v.ID)
					}
				}
				b.ReportAllocs()
				for b.Loop() {
					state, plan, err := Step(rule, NewState("rule", "prod"), o, at(n))
					if err != nil || state.Group.Number != n {
						b.Fatal(state.Group.Number, err)
					}
					sinkPlan = plan
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/version")
			})
		}
	}
}
