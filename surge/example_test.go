package surge_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/surge"
)

// With the default of one unavailable replica beside the surge, the update runs in two waves.
func ExamplePlan_surgeAndBudget() {
	spec := surge.Spec{Replicas: 3, MinAvailable: 2, MaxSurge: concurrency.Count(1)}
	play(spec, "OOO.", "0 gone", "0 ready", "3 ready", "1 gone", "2 gone", "1 ready", "3 gone", "2 ready")
	// Output:
	// OOO.  -0 +3
	// tOOn  0 gone
	// .OOn  +0
	// nOOn  0 ready
	// NOOn  -1
	// NtOn  3 ready
	// NtON  -2
	// NttN  1 gone
	// N.tN  +1
	// NntN  2 gone
	// Nn.N  +2
	// NnnN  1 ready
	// NNnN  -3
	// NNnt  3 gone
	// NNn.  2 ready
	// NNN.  converged
}

// Without any configuration, one replica after the other.
func ExamplePlan_defaults() {
	play(surge.Spec{Replicas: 3}, "OOO", "0 gone", "0 ready", "1 gone", "1 ready", "2 gone", "2 ready")
	// Output:
	// OOO  -0
	// tOO  0 gone
	// .OO  +0
	// nOO  0 ready
	// NOO  -1
	// NtO  1 gone
	// N.O  +1
	// NnO  1 ready
	// NNO  -2
	// NNt  2 gone
	// NN.  +2
	// NNn  2 ready
	// NNN  converged
}

// A new revision came while index 0 was updated and the surge served: all three are old now. The
// surge stays a buffer to the end and is not recycled.
func ExamplePlan_newRevision() {
	spec := surge.Spec{Replicas: 2, MaxSurge: concurrency.Count(1), MaxUnavailable: concurrency.Count(0)}
	play(spec, "OOO", "0 gone", "0 ready", "1 gone", "1 ready", "2 gone")
	// Output:
	// OOO  -0
	// tOO  0 gone
	// .OO  +0
	// nOO  0 ready
	// NOO  -1
	// NtO  1 gone
	// N.O  +1
	// NnO  1 ready
	// NNO  -2
	// NNt  2 gone
	// NN.  converged
}

// A surge that does not become ready blocks an update that may not take anything down. The plan
// says so, and after a deadline of its own the host gives the surge up.
func ExamplePlan_stuck() {
	spec := surge.Spec{Replicas: 3, MaxSurge: concurrency.Count(1), MaxUnavailable: concurrency.Count(0)}
	slots, _ := surge.ParseSlots("OOOn")
	fmt.Println(surge.Plan(spec, slots))
	unscheduled := func(index int) bool { return index == 3 }
	stuck := surge.Diagnose(spec, slots, unscheduled)
	fmt.Println(stuck)
	if stuck.MaxUnavailable > 0 {
		spec.MaxSurge, spec.MaxUnavailable = concurrency.Count(0), concurrency.Count(stuck.MaxUnavailable)
	}
	fmt.Println(surge.Plan(spec, slots))
	// Output:
	// blocked: BudgetExhausted WaitingForSurge
	// SurgeUnscheduled [3]: make room for the surge, or give it up with maxSurge 0 and maxUnavailable 1
	// -0 Outdated
	// -3 Condemned
	// blocked: Terminating BudgetExhausted
}

// formatSet writes the components of a replica side by side, and a bar between replicas.
func formatSet(state surge.SetState) string {
	var replicas []string
	for _, replica := range state {
		var components []string
		for _, units := range replica {
			components = append(components, surge.FormatSlots(units.Slots))
		}
		replicas = append(replicas, strings.Join(components, " "))
	}
	return strings.Join(replicas, " | ")
}

// playSet is play for a set: when there is nothing to do, all that is terminating goes, or else all
// that is created gets ready.
func playSet(spec surge.SetSpec, text string) {
	var state surge.SetState
	for replica := range strings.SplitSeq(text, " | ") {
		var components []surge.Units
		for component := range strings.FieldsSeq(replica) {
			slots, _ := surge.ParseSlots(component)
			components = append(components, surge.Units{Slots: slots})
		}
		state = append(state, components)
	}
	for range 100 {
		plan, err := surge.PlanSet(spec, state)
		if err != nil {
			fmt.Println(err)
			return
		}
		line := formatSet(state) + " "
		if plan.Converged {
			fmt.Println(line, "converged")
			return
		}
		if !plan.Empty() {
			for r, replica := range plan.Replicas {
				for c, component := range replica.Components {
					for _, action := range component.Actions {
						move, _, _ := strings.Cut(action.String(), " ")
						line += fmt.Sprintf(" %d/%d %s", r, c, move)
					}
				}
			}
			state = state.Apply(plan)
		} else {
			from, to, what := surge.TargetUnavailable, surge.TargetAvailable, " ready"
			if strings.Contains(formatSet(state), "t") {
				from, to, what = surge.Terminating, surge.Absent, " gone"
			}
			line += what
			for _, replica := range state {
				for _, component := range replica {
					for i, slot := range component.Slots {
						if slot == from {
							component.Slots[i] = to
						}
					}
				}
			}
		}
		fmt.Println(line)
	}
}

// A manifest of Grove as it is. The cliques of a scaling group are updated with it, so only the
// standalone ones are components of their own. What is legal and remarkable is a warning.
func ExampleParsePodCliqueSet() {
	spec, warnings, err := surge.ParsePodCliqueSet([]byte(`{
		"apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "metadata": {"name": "inference"},
		"spec": {"replicas": 2, "template": {
			"cliques": [
				{"name": "frontend", "spec": {"replicas": 3, "minAvailable": 2}, "updateStrategy": {"maxUnavailable": 2}},
				{"name": "leader", "spec": {"replicas": 1}},
				{"name": "worker", "spec": {"replicas": 4}}
			],
			"podCliqueScalingGroups": [
				{"name": "decode", "cliqueNames": ["leader", "worker"], "replicas": 2, "updateStrategy": {"maxUnavailable": 0, "maxSurge": 1}}
			]}}}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, c := range spec.Components {
		flat := c.Flat().Resolve()
		fmt.Printf("%s: a %s of %d, at most %d missing and %d extra\n", c.Name, c.Kind, c.Replicas, flat.Unavailable, flat.Surge)
	}
	for _, warning := range warnings {
		fmt.Println(warning.Code, "at", warning.Path)
	}
	// Output:
	// frontend: a PodClique of 3, at most 2 missing and 0 extra
	// decode: a PodCliqueScalingGroup of 2, at most 0 missing and 1 extra
	// BelowMinAvailable at spec.template.cliques[0].spec.minAvailable
}

// One replica of the set after the other; inside, a frontend that loses one pod at a time beside a
// decode group that keeps its capacity with a surge. Terminating surges do not hold the next
// replica back.
func ExamplePlanSet() {
	var spec surge.SetSpec
	err := json.Unmarshal([]byte(`{
		"replicas": 2,
		"updateStrategy": {"type": "RollingUpdate"},
		"components": [
			{"name": "frontend", "kind": "PodClique", "replicas": 2},
			{"name": "decode", "kind": "PodCliqueScalingGroup", "replicas": 2, "updateStrategy": {"maxUnavailable": 0, "maxSurge": 1}}
		]}`), &spec)
	if err != nil {
		fmt.Println(err)
		return
	}
	playSet(spec, "OO OO. | OO OO.")
	// Output:
	// OO OO. | OO OO.  0/0 -0 0/1 +2
	// tO OOn | OO OO.  gone
	// .O OOn | OO OO.  0/0 +0
	// nO OOn | OO OO.  ready
	// NO OON | OO OO.  0/0 -1 0/1 -0
	// Nt tON | OO OO.  gone
	// N. .ON | OO OO.  0/0 +1 0/1 +0
	// Nn nON | OO OO.  ready
	// NN NON | OO OO.  0/1 -1
	// NN NtN | OO OO.  gone
	// NN N.N | OO OO.  0/1 +1
	// NN NnN | OO OO.  ready
	// NN NNN | OO OO.  0/1 -2
	// NN NNt | OO OO.  1/0 -0 1/1 +2
	// NN NNt | tO OOn  gone
	// NN NN. | .O OOn  1/0 +0
	// NN NN. | nO OOn  ready
	// NN NN. | NO OON  1/0 -1 1/1 -0
	// NN NN. | Nt tON  gone
	// NN NN. | N. .ON  1/0 +1 1/1 +0
	// NN NN. | Nn nON  ready
	// NN NN. | NN NON  1/1 -1
	// NN NN. | NN NtN  gone
	// NN NN. | NN N.N  1/1 +1
	// NN NN. | NN NnN  ready
	// NN NN. | NN NNN  1/1 -2
	// NN NN. | NN NNt  gone
	// NN NN. | NN NN.  converged
}

// Whole replicas of the set: all components of one go and come together, so that no replica ever
// mixes revisions.
func ExamplePlanSet_replicaRecreate() {
	playSet(surge.SetSpec{
		Replicas: 2,
		UpdateStrategy: surge.SetUpdateStrategy{
			Type:          surge.ReplicaRecreate,
			RollingUpdate: surge.UpdateStrategy{MaxSurge: concurrency.Count(1), MaxUnavailable: concurrency.Count(0)},
		},
		Components: []surge.Component{{Name: "leader", Replicas: 1}, {Name: "workers", Replicas: 2}},
	}, "O OO | O OO | . ..")
	// Output:
	// O OO | O OO | . ..  2/0 +0 2/1 +0 2/1 +1
	// O OO | O OO | n nn  ready
	// O OO | O OO | N NN  0/0 -0 0/1 -0 0/1 -1
	// t tt | O OO | N NN  gone
	// . .. | O OO | N NN  0/0 +0 0/1 +0 0/1 +1
	// n nn | O OO | N NN  ready
	// N NN | O OO | N NN  1/0 -0 1/1 -0 1/1 -1
	// N NN | t tt | N NN  gone
	// N NN | . .. | N NN  1/0 +0 1/1 +0 1/1 +1
	// N NN | n nn | N NN  ready
	// N NN | N NN | N NN  2/0 -0 2/1 -0 2/1 -1
	// N NN | N NN | t tt  gone
	// N NN | N NN | . ..  converged
}

// Every fault is reported with its path and the remedy.
func ExampleSpec_Validate() {
	fmt.Println(surge.Spec{Replicas: -1, MaxUnavailable: concurrency.Count(0), Order: "random"}.Validate())
	// Output:
	// replicas: -1: must not be negative
	// maxUnavailable: 0: maxSurge is 0 too, so nothing could ever be updated: raise one of them
	// order: "random": must be "ascending" or "descending"
}

// One turn of a controller for numbered pods, in the middle of an update to v2 and just after a
// scale-out from 3 to 5: what it observes becomes one slot for each index, and the pods that the
// plan asks for have a name and a revision. The surge that was at index 3 belongs to the base now.
func Example_controller() {
	type pod struct {
		index           int
		revision        string
		ready, deleting bool
	}
	const stable, target = "v1", "v2"
	pods := []pod{{0, "v2", true, false}, {1, "v1", true, true}, {2, "v1", true, false}, {3, "v2", true, false}}
	spec := surge.Spec{Replicas: 5, MaxSurge: concurrency.Count(1), MaxUnavailable: concurrency.Count(0)}

	var replicas []surge.Replica
	for _, p := range pods {
		slot := surge.OldUnavailable
		switch {
		case p.deleting: // ready or not: it is on its way out
			slot = surge.Terminating
		case p.revision == target && p.ready:
			slot = surge.TargetAvailable
		case p.revision == target:
			slot = surge.TargetUnavailable
		case p.ready:
			slot = surge.OldAvailable
		}
		replicas = append(replicas, surge.Replica{Index: p.index, Slot: slot})
	}
	slots, err := surge.Arrange(replicas)
	if err != nil {
		fmt.Println(err) // such as two pods on one index
		return
	}
	plan := surge.Plan(spec, slots)
	for _, action := range plan.Actions {
		switch {
		case action.Op == surge.Delete:
			fmt.Printf("delete db-%d: %s\n", action.Index, action.Reason)
		case action.Revision == surge.Stable: // below a partition
			fmt.Printf("create db-%d at %s: %s\n", action.Index, stable, action.Reason)
		default:
			fmt.Printf("create db-%d at %s: %s\n", action.Index, target, action.Reason)
		}
	}
	fmt.Println("blocked:", plan.Blocked)
	fmt.Println(surge.Project(spec, slots, plan))
	// Output:
	// create db-4 at v2: Hole
	// create db-5 at v2: Surge
	// blocked: Terminating BudgetExhausted WaitingForSurge WaitingForBase
	// 2 updated, updating [1 4], 3 of 3 replicas available
}

// One turn of a controller for a PodCliqueSet, in the middle of an update to v2. Each pod of a
// standalone clique is a unit; the pods of a scaling group are folded to its units. An autoscaler has
// given the first replica of the set a third decode unit, which has lost its leader. The second replica
// waits for its turn; the decode unit that it misses comes back at its own revision.
func ExamplePlanSet_controller() {
	spec, _, err := surge.ParsePodCliqueSet([]byte(`{"spec": {"replicas": 2, "template": {
		"cliques": [{"name": "frontend", "replicas": 2}, {"name": "leader"}, {"name": "worker", "replicas": 2}],
		"podCliqueScalingGroups": [{"name": "decode", "cliqueNames": ["leader", "worker"], "replicas": 2, "scaleConfig": {"maxReplicas": 5}}]}}}`))
	if err != nil {
		panic(err)
	}
	const target = "v2"
	type pod struct {
		replica         int    // of the set
		component       string // a standalone clique or a scaling group
		unit            int    // its index there
		clique          string
		revision        string
		ready, deleting bool
	}
	pods := []pod{
		{0, "frontend", 0, "frontend", "v2", true, false}, {0, "frontend", 1, "frontend", "v1", true, false},
		{0, "decode", 0, "leader", "v2", true, false}, {0, "decode", 0, "worker", "v2", true, false}, {0, "decode", 0, "worker", "v2", true, false},
		{0, "decode", 1, "leader", "v1", true, false}, {0, "decode", 1, "worker", "v1", true, false}, {0, "decode", 1, "worker", "v1", true, false},
		{0, "decode", 2, "worker", "v1", true, false}, {0, "decode", 2, "worker", "v1", true, false},
		{1, "frontend", 0, "frontend", "v1", true, false}, {1, "frontend", 1, "frontend", "v1", true, true},
		{1, "decode", 0, "leader", "v1", true, false}, {1, "decode", 0, "worker", "v1", true, false}, {1, "decode", 0, "worker", "v1", true, false},
	}
	desired := map[string]int{"0 decode": 3} // what the objects of the components say

	state := make(surge.SetState, spec.Replicas)
	for r := range state {
		for _, component := range spec.Components {
			cliques := component.Cliques
			if component.Kind == surge.PodClique { // each pod is a unit
				cliques = []surge.Clique{{Name: component.Name, Replicas: 1}}
			}
			units := map[int][]surge.Member{}
			revisions := map[int]string{}
			for _, p := range pods {
				if p.replica != r || p.component != component.Name {
					continue
				}
				if units[p.unit] == nil {
					for _, c := range cliques {
						units[p.unit] = append(units[p.unit], surge.Member{Replicas: c.Replicas, MinAvailable: c.MinAvailable})
					}
				}
				slot := surge.OldUnavailable
				switch {
				case p.deleting:
					slot = surge.Terminating
				case p.revision == target && p.ready:
					slot = surge.TargetAvailable
				case p.revision == target:
					slot = surge.TargetUnavailable
				case p.ready:
					slot = surge.OldAvailable
				}
				member := &units[p.unit][slices.IndexFunc(cliques, func(c surge.Clique) bool { return c.Name == p.clique })]
				member.Slots = append(member.Slots, slot)
				if slot.Old() {
					revisions[p.unit] = p.revision
				}
			}
			var replicas []surge.Replica
			for index, members := range units {
				replicas = append(replicas, surge.Replica{Index: index, Slot: surge.Fold(members)})
			}
			slots, err := surge.Arrange(replicas)
			if err != nil {
				panic(err)
			}
			one := surge.Units{Slots: slots, Revisions: make([]string, len(slots))}
			for index, revision := range revisions {
				one.Revisions[index] = revision
			}
			if n, own := desired[fmt.Sprint(r, " ", component.Name)]; own {
				one.Replicas = &n
			}
			state[r] = append(state[r], one)
		}
	}
	fmt.Println(formatSet(state))

	plan, err := surge.PlanSet(spec, state)
	if err != nil {
		panic(err)
	}
	for r, replica := range plan.Replicas {
		for c, component := range replica.Components {
			for _, action := range component.Actions {
				name := fmt.Sprintf("%d-%s-%d", r, spec.Components[c].Name, action.Index)
				switch {
				case action.Op == surge.Delete:
					fmt.Println("delete", name, action.Reason)
				case action.Revision == surge.Stable: // what its replica runs
					fmt.Println("create", name, "at", replica.Revision, action.Reason)
				default:
					fmt.Println("create", name, "at", target, action.Reason)
				}
			}
		}
	}
	fmt.Println("blocked:", plan.Blocked)
	// Output:
	// NO NOo | Ot O
	// delete 0-frontend-1 Outdated
	// delete 0-decode-2 OutdatedUnavailable
	// create 1-decode-1 at v1 Hole
	// blocked: Terminating BudgetExhausted ProtectedDown WaitingForReplica
}

// A host that reads its observation in any order arranges it by index. Two replicas on one index
// cannot be planned for.
func ExampleArrange() {
	slots, err := surge.Arrange([]surge.Replica{{Index: 3, Slot: surge.TargetAvailable}, {Index: 0, Slot: surge.OldAvailable}})
	fmt.Println(surge.FormatSlots(slots), err)
	_, err = surge.Arrange([]surge.Replica{{Index: 3, Slot: surge.TargetAvailable}, {Index: 3, Slot: surge.OldAvailable}, {Index: -1}})
	fmt.Println(err)
	// Output:
	// O..N <nil>
	// replicas[2].index: -1: must be within 0 and 33554431
	// replicas[1].index: 3: given twice, first by replicas[0]: an index has one occupant
}

// What a status shows of the components of the current replica.
func ExampleComponent_Flat() {
	spec := surge.SetSpec{Replicas: 2, Components: []surge.Component{
		{Name: "frontend", Replicas: 2},
		{Name: "decode", Kind: surge.PodCliqueScalingGroup, Replicas: 2,
			UpdateStrategy: &surge.UpdateStrategy{MaxUnavailable: concurrency.Count(0), MaxSurge: concurrency.Count(1)}},
	}}
	units := func(text string) surge.Units {
		slots, _ := surge.ParseSlots(text)
		return surge.Units{Slots: slots}
	}
	state := surge.SetState{{units("NN"), units("tON")}, {units("OO"), units("OO")}}
	plan, err := surge.PlanSet(spec, state)
	if err != nil {
		fmt.Println(err)
		return
	}
	for i, component := range spec.Components {
		progress := surge.Project(component.Flat(), state[plan.Current][i].Slots, plan.Replicas[plan.Current].Components[i])
		fmt.Println(component.Name, progress)
	}
	// Output:
	// frontend 2 updated, 2 of 2 replicas available
	// decode 0 updated, updating [0], 2 of 2 replicas available
}

// A set that does not get on. In the current replica a unit of prefill is not ready, and decode waits
// for a surge. After a deadline of its own the host gives the surge up; prefill is for people to mend.
func ExampleDiagnoseSet() {
	spec := surge.SetSpec{Replicas: 2, Components: []surge.Component{
		{Name: "frontend", Replicas: 2},
		{Name: "prefill", Kind: surge.PodCliqueScalingGroup, Replicas: 2},
		{Name: "decode", Kind: surge.PodCliqueScalingGroup, Replicas: 2,
			UpdateStrategy: &surge.UpdateStrategy{MaxUnavailable: concurrency.Count(0), MaxSurge: concurrency.Count(1)}},
	}}
	units := func(text string) surge.Units {
		slots, _ := surge.ParseSlots(text)
		return surge.Units{Slots: slots}
	}
	state := surge.SetState{{units("NN"), units("nO"), units("OOn")}, {units("OO"), units("OO"), units("OO")}}
	unscheduled := func(replica, component, index int) bool { return replica == 0 && component == 2 && index == 2 }
	stuck, err := surge.DiagnoseSet(spec, state, unscheduled)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, at := range stuck {
		fmt.Println(at)
		if at.MaxUnavailable == 0 {
			continue
		}
		strategy := surge.UpdateStrategy{MaxUnavailable: concurrency.Count(at.MaxUnavailable), MaxSurge: concurrency.Count(0)}
		if at.Component >= 0 {
			spec.Components[at.Component].UpdateStrategy = &strategy
		} else {
			spec.UpdateStrategy.RollingUpdate = strategy
		}
	}
	plan, err := surge.PlanSet(spec, state)
	fmt.Println(plan, err)
	// Output:
	// replica 0, prefill: TargetNotReady [0]: publish a working revision, or go back to the old one
	// replica 0, decode: SurgeUnscheduled [2]: make room for the surge, or give it up with maxSurge 0 and maxUnavailable 1
	// 0/2: -0 Outdated, -2 Condemned
	// current: 0
	// blocked: Terminating BudgetExhausted WaitingForBase WaitingForReplica <nil>
}

// A host observes pods, and the planner of a scaling group wants one slot for each replica of the
// group: the fold of its cliques. Here of a leader and four workers, of which three are enough.
func ExampleFold() {
	unit := func(leader, workers string) surge.Slot {
		pods := func(text string) []surge.Slot {
			slots, _ := surge.ParseSlots(text)
			return slots
		}
		return surge.Fold([]surge.Member{
			{Slots: pods(leader), Replicas: 1, MinAvailable: 1},
			{Slots: pods(workers), Replicas: 4, MinAvailable: 3},
		})
	}
	fmt.Println(unit("N", "NNNn"), unit("N", "NNnn"), unit("O", "OOOO"), unit("o", "OOOO"), unit("t", "tttt"), unit(".", "...."))
	// Output:
	// N n O o t .
}

// What Grove's status shows of an update: how many replicas serve at the target, which ones are in
// replacement, and which are done.
func ExampleProgress() {
	spec := surge.Spec{Replicas: 5, MaxSurge: concurrency.Count(1), MaxUnavailable: concurrency.Count(2)}
	slots, _ := surge.ParseSlots("NtOOOn")
	progress := surge.Project(spec, slots, surge.Plan(spec, slots))
	selected, _ := json.Marshal(progress.Names(func(index int) string { return fmt.Sprint("frontend-", index) }))
	fmt.Println(progress)
	fmt.Println(string(selected))
	// Output:
	// 1 updated, updating [1 2], 4 of 5 replicas available
	// {"current":["frontend-1","frontend-2"],"completed":["frontend-0"]}
}
