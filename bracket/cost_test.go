package bracket

import (
	"fmt"
	"testing"

	"github.com/tranche-dev/tranche/internal/testkit"
)

// TestCostOfMany: eight times as much of one thing costs about eight times the processor time, and
// not sixty-four times.
func TestCostOfMany(t *testing.T) {
	testkit.NeedCPUTime(t)
	const factor = 8
	now := at(100_000)
	rule := Rule{DeploymentSelector: "true", ReadinessMode: Immediate, MemberRoles: &MemberRoles{}}
	step := func(s State, o Observation) (State, Plan) {
		next, plan, err := Step(rule, s, o, now)
		if err != nil {
			t.Fatal(err)
		}
		return next, plan
	}
	// members returns what there is to see of a resource on which n members may start.
	members := func(n int) (o Observation) {
		var targets TargetList
		for i := range n {
			d := fmt.Sprintf("d%05d", i)
			o.Members = append(o.Members, Member{Deployment: d})
			o.Versions = append(o.Versions, Version{Deployment: d, ID: "v1", CreatedAt: day0, EligibleAt: day0})
			targets = append(targets, Target{Resource: "n1", Deployment: d})
		}
		o.Targets = targets
		return o
	}
	// open returns the same once the first run of an execution has started, of members that need each
	// other in a chain.
	open := func(n int) (State, Observation) {
		o := members(n)
		for i := range n - 1 {
			o.Members[i+1].Needs = []string{o.Members[i].Deployment}
		}
		state, plan := step(NewState("rule", "prod"), o)
		state, err := plan.Commit(state, plan.runs(), now)
		if err != nil || len(plan.Start) != 1 {
			t.Fatal(err, plan)
		}
		return state, o
	}
	ordered := func(n int) (State, Observation) {
		state, o := open(1)
		for i := range n {
			o.Commands = append(o.Commands, Command{ID: fmt.Sprint("c", i), Kind: Retry, Group: GroupID("rule", "prod", 1), Resource: "n1"})
		}
		return state, o
	}
	for _, row := range []struct {
		why       string
		few, most int // most: how many times the cost of few is too much for factor times as many
		of        func(n int) func() (done int)
	}{
		{"members that wait in a chain: to tell what one waits for is a pass over all of them, and not a search for each need of each", 50, 200, func(n int) func() int {
			state, o := open(n)
			_, plan := step(state, o)
			return func() (done int) {
				for w := range plan.Waits() {
					done += len(w.On())
				}
				return done + 1
			}
		}},
		{"members that all start on one resource: none is compared with each of the others, neither for its role nor for its generation nor to find what was offered", 500, 30, func(n int) func() int {
			o := members(n)
			return func() int {
				state, plan := step(NewState("rule", "prod"), o)
				if _, err := plan.Commit(state, plan.runs(), now); err != nil {
					t.Fatal(err)
				}
				return len(plan.Start)
			}
		}},
		{"versions with a group each, closed by one late step", 1000, 30, func(n int) func() int {
			o := Observation{Members: []Member{{Deployment: "d"}}, Targets: TargetList{{Resource: "n1", Deployment: "d"}}}
			for i := range n {
				o.Versions = append(o.Versions, Version{Deployment: "d", ID: fmt.Sprint("v", i), CreatedAt: at(i), EligibleAt: at(i)})
			}
			return func() int {
				state, _ := step(NewState("rule", "prod"), o)
				return state.Group.Number
			}
		}},
		{"the same, and another member needs each of these versions: what a group leaves out of them is cut off, and not looked through", 1000, 30, func(n int) func() int {
			need := ConditionalNeed{Deployment: "d"}
			o := Observation{Targets: TargetList{{Resource: "n1", Deployment: "d"}, {Resource: "n1", Deployment: "e"}}}
			for i := range n {
				v := Version{Deployment: "d", ID: fmt.Sprint("v", i), CreatedAt: at(i), EligibleAt: at(i)}
				o.Versions, need.Versions = append(o.Versions, v), append(need.Versions, v.ID)
			}
			o.Members = []Member{{Deployment: "d"}, {Deployment: "e", NeedsIf: []ConditionalNeed{need}}}
			return func() int {
				state, _ := step(NewState("rule", "prod"), o)
				return state.Group.Number
			}
		}},
		{"tenants with a version each, closed by one late step: after each group every tenant is asked what it still awaits, but not once more for each lock", 100, 150, func(n int) func() int {
			o := Observation{Members: []Member{{Deployment: "d"}}}
			var targets TargetList
			for i := range n {
				o.Versions = append(o.Versions, Version{Deployment: "d", ID: fmt.Sprint("v", i), CreatedAt: at(i), EligibleAt: at(i)})
				targets = append(targets, Target{Resource: fmt.Sprintf("n%05d", i), Deployment: "d"})
			}
			for i := range targets {
				for k, v := range o.Versions {
					if k != i {
						targets[i].OutOfScope = append(targets[i].OutOfScope, v.ID)
					}
				}
			}
			o.Targets = targets
			return func() int {
				state, _ := step(NewState("rule", "prod"), o)
				return state.Group.Number
			}
		}},
		{"commands that an execution has not seen", 1000, 30, func(n int) func() int {
			state, o := ordered(n)
			return func() int {
				_, plan := step(state, o)
				return len(plan.Refused)
			}
		}},
		{"commands that an execution has seen", 1000, 30, func(n int) func() int {
			state, o := ordered(n)
			state, _ = step(state, o)
			return func() int {
				step(state, o)
				return len(state.Executions[0].Open.Commands)
			}
		}},
		{"commands for a member each of an execution: none looks for its member among all of them", 2000, 30, func(n int) func() int {
			o := members(n)
			state, plan := step(NewState("rule", "prod"), o)
			state, err := plan.Commit(state, plan.runs(), now)
			if err != nil {
				t.Fatal(err)
			}
			for _, run := range plan.runs() {
				o.Commands = append(o.Commands, Command{ID: run.Deployment, Kind: Skip, Group: run.Group, Resource: run.Resource, Deployment: run.Deployment})
			}
			return func() int {
				next, _ := step(state, o)
				return len(next.Executions[0].Last["prod"].Decisions)
			}
		}},
		{"brackets that have no target in common", 50, 30, func(n int) func() int {
			list := make([]Bracket, n)
			for i := range list {
				b := Bracket{ID: fmt.Sprint("b", i), Rule: rule, Members: []Member{{Deployment: fmt.Sprint("d", i)}}}
				for k := range 100 {
					b.Targets = append(b.Targets, Target{Resource: fmt.Sprint("n", k), Deployment: b.Members[0].Deployment})
				}
				list[i] = b
			}
			return func() int {
				if err := Check(list...); err != nil {
					t.Fatal(err)
				}
				return n
			}
		}},
	} {
		of := func(n int) func() {
			run := row.of(n)
			return func() {
				if done := run(); done != n {
					t.Fatalf("%s: %d of %d", row.why, done, n)
				}
			}
		}
		testkit.CompareCost(t, row.why, row.most, of(row.few), of(factor*row.few))
	}
}
