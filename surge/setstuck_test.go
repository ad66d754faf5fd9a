package surge_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/internal/testkit"
	"github.com/tranche-dev/tranche/surge"
)

// everyUnit is what a caller says who believes that no unit was ever scheduled.
func everyUnit(_, _, _ int) bool { return true }

// diagnosed writes down where a set is stuck: "0/1 scenario [units]", or "scenario [replicas]".
func diagnosed(list []surge.SetDiagnosis) string {
	var words []string
	for _, d := range list {
		word := fmt.Sprintf("%s %v", d.Stuck, d.Indices)
		if d.Component >= 0 {
			word = fmt.Sprintf("%d/%d %s", d.Replica, d.Component, word)
		}
		if d.MaxUnavailable > 0 {
			word += fmt.Sprintf(" or %d", d.MaxUnavailable)
		}
		words = append(words, word)
	}
	return strings.Join(words, ", ")
}

// TestDiagnoseSet has a row for each place at which a set can be stuck. A host that asked Diagnose
// about the current replica alone, or about whole replicas alone, was told of nothing in many of
// them.
func TestDiagnoseSet(t *testing.T) {
	from := func(partition int, spec surge.SetSpec) surge.SetSpec {
		return with(spec, func(s *surge.SetSpec) { s.Partition = partition })
	}
	paused := func(spec surge.SetSpec) surge.SetSpec {
		return with(spec, func(s *surge.SetSpec) { s.Paused = true })
	}
	rolling, recreate, none := surge.RollingUpdate, surge.ReplicaRecreate, surge.UpdateStrategy{}
	two, surging := units(2, 1, 0, 1), units(2, 1, 1, 0)
	for _, row := range []struct {
		why   string
		spec  surge.SetSpec
		state []string
		want  string
	}{
		{"the current replica", set(rolling, 2, none, two), []string{"nO", "OO"}, "0/0 TargetNotReady [0]"},
		{"each of its components that is stuck, in their order, and none that is not", set(rolling, 2, none, surging, two, two), []string{"OOn NN nO", "OO OO OO"}, "0/0 SurgeNotReady [2] or 1, 0/2 TargetNotReady [0]"},
		{"the gate of a component is shut", set(rolling, 1, none, units(3, 2, 2, 0)), []string{"nOONn"}, "0/0 SurgeGated [0] or 2"},
		{"what is broken elsewhere is replaced when its turn comes", set(rolling, 3, none, two), []string{"oO", "Nn", "Oo"}, "1/0 TargetNotReady [1]"},
		{"no replica is current, because none is updated, and a held one is broken", from(2, set(rolling, 2, none, two)), []string{"Oo", "OO"}, "0/0 ReplicasUnhealthy [1]"},
		{"several are, by replica and component", from(2, set(rolling, 2, none, two, two)), []string{"Oo OO", "OO oO"}, "0/0 ReplicasUnhealthy [1], 1/1 ReplicasUnhealthy [0]"},
		{"no replica is current, and one below the partition was made at the target before", from(2, set(rolling, 2, none, two)), []string{"OO", "Nn"}, "1/0 TargetNotReady [1]"},
		{"a replica below the partition runs both revisions: its new unit comes first, as in a flat set", from(1, set(rolling, 2, none, two)), []string{"on", "NN"}, "0/0 TargetNotReady [1]"},
		{"a leftover that serves waits for the replica whose place it takes, and so do its own units", from(2, set(rolling, 2, none, two)), []string{"oo", "oo", "Oo"}, "0/0 ReplicasUnhealthy [0 1], 1/0 ReplicasUnhealthy [0 1]"},
		{"paused: the outdated replicas, in one entry", paused(set(rolling, 3, none, two)), []string{"NN", "NO", "OO"}, "UpdatePaused [1 2]"},
		{"paused: those below the partition are not held back by that", paused(from(1, set(rolling, 2, none, two))), []string{"oO", "OO"}, "UpdatePaused [1]"},
		{"paused, but nothing is outdated", paused(set(rolling, 2, none, two)), []string{"NN", "Nn"}, "1/0 TargetNotReady [1]"},
		{"paused, and nothing but what the partition keeps", paused(from(1, set(rolling, 2, none, two))), []string{"oO", "NN"}, "0/0 ReplicasUnhealthy [0]"},
		{"a whole replica", set(recreate, 2, budgets(0, 1), plain(2, 2)), []string{"nN", "OO"}, "TargetNotReady [0]"},
		{"a whole surge", set(recreate, 2, budgets(1, 0), plain(2, 2)), []string{"OO", "OO", "Nn"}, "SurgeNotReady [2] or 1"},
		{"whole replicas below the partition", from(1, set(recreate, 2, budgets(0, 1), plain(2, 2))), []string{"oO", "NN"}, "ReplicasUnhealthy [0]"},
		{"whole replicas are paused", paused(set(recreate, 2, budgets(0, 1), plain(2, 2))), []string{"NN", "OO"}, "UpdatePaused [1]"},
		{"every replica serves, and one lacks a unit", set(recreate, 2, budgets(0, 1), plain(2, 1)), []string{"NN", "Nn"}, "1/0 TargetNotReady [1]"},
		{"a replica that serves is of no interest while a whole one does not", set(recreate, 2, budgets(0, 1), plain(2, 1)), []string{"Nn", "nn"}, "TargetNotReady [1]"},
		{"every replica serves, and one below the partition lacks a unit", from(1, set(recreate, 2, budgets(0, 1), plain(2, 1))), []string{"Oo", "NN"}, "0/0 ReplicasUnhealthy [1]"},

		{"there is something to do", set(rolling, 2, none, two), []string{"nO", "O."}, ""},
		{"done", set(rolling, 1, none, two), []string{"NN"}, ""},
		{"something is terminating in the component", set(rolling, 2, none, two), []string{"nt", "OO"}, ""},
		{"it is in another component", set(rolling, 2, none, two, two), []string{"nO Nt", "OO OO"}, "0/0 TargetNotReady [0]"},
		{"it is in another replica", set(rolling, 2, none, two), []string{"nO", "Ot"}, "0/0 TargetNotReady [0]"},
		{"a paused update waits for its end, whatever terminates", paused(set(rolling, 2, none, two)), []string{"OO", "Ot"}, "UpdatePaused [0 1]"},
		{"a whole replica is terminating, and nothing is broken", set(recreate, 2, budgets(0, 1), plain(2, 2)), []string{"tt", "OO"}, ""},
		{"a whole replica waits for one that is terminating", set(recreate, 2, budgets(0, 1), plain(2, 2)), []string{"tt", "oo"}, ""},
		{"a whole replica lacks a unit that is terminating", set(recreate, 2, budgets(0, 1), plain(2, 2)), []string{"Nt", "OO"}, ""},
		{"it lacks a broken one as well", set(recreate, 2, budgets(0, 1), plain(2, 2)), []string{"nt", "OO"}, "TargetNotReady [0]"},
		{"what is terminating in it is too much, and not what it lacks", set(recreate, 2, budgets(0, 1), plain(1, 1)), []string{"nt", "O"}, "TargetNotReady [0]"},
		{"another one lacks more", set(recreate, 3, budgets(0, 2), plain(2, 2)), []string{"Nt", "Nn", "OO"}, "TargetNotReady [1]"},
		{"a pause ends by itself no more than before", paused(set(recreate, 2, budgets(0, 1), plain(2, 1))), []string{"Ot", "OO"}, "UpdatePaused [0 1]"},
	} {
		t.Run(row.why, func(t *testing.T) {
			state := parseSet(t, row.state)
			list, err := surge.DiagnoseSet(row.spec, state, nil)
			if got := diagnosed(list); err != nil || got != row.want {
				t.Errorf("got %q, %v, want %q of\n%v", got, err, row.want, planSet(t, row.spec, state))
			}
			checkStall(row.spec, state, func(rule, format string, args ...any) { t.Errorf(rule+": "+format, args...) })
		})
	}
}

// TestDiagnoseSetUnscheduled: a surge is told from one that does not become ready, on both levels. A
// whole one was never scheduled if it has units and none of them was.
func TestDiagnoseSetUnscheduled(t *testing.T) {
	rolling, recreate, none := surge.RollingUpdate, surge.ReplicaRecreate, surge.UpdateStrategy{}
	never := func(units ...string) func(replica, component, index int) bool {
		return func(replica, component, index int) bool {
			return slices.Contains(units, fmt.Sprintf("%d/%d/%d", replica, component, index))
		}
	}
	whole := set(recreate, 1, budgets(1, 0), plain(2, 2), plain(1, 1))
	for _, row := range []struct {
		why         string
		spec        surge.SetSpec
		state       []string
		unscheduled func(replica, component, index int) bool
		want        string
	}{
		{"a unit of the current replica", set(rolling, 2, none, units(1, 1, 0, 1), units(2, 1, 1, 0)), []string{"N OOn", "O OO"}, never("0/1/2"), "0/1 SurgeUnscheduled [2] or 1"},
		{"the same index elsewhere is another unit", set(rolling, 2, none, units(1, 1, 0, 1), units(2, 1, 1, 0)), []string{"N OOn", "O OO"}, never("0/0/2", "1/1/2"), "0/1 SurgeNotReady [2] or 1"},
		{"all units of a whole surge", whole, []string{"OO O", "nn n"}, never("1/0/0", "1/0/1", "1/1/0"), "SurgeUnscheduled [1] or 1"},
		{"one was scheduled", whole, []string{"OO O", "nn n"}, never("1/0/0", "1/0/1"), "SurgeNotReady [1] or 1"},
		{"one was, of the first component", whole, []string{"OO O", "nn n"}, never("1/0/0", "1/1/0"), "SurgeNotReady [1] or 1"},
		{"one serves, whatever the caller says of it", whole, []string{"OO O", "nn N"}, everyUnit, "SurgeNotReady [1] or 1"},
	} {
		list, err := surge.DiagnoseSet(row.spec, parseSet(t, row.state), row.unscheduled)
		if got := diagnosed(list); err != nil || got != row.want {
			t.Errorf("%s: got %q, %v, want %q", row.why, got, err, row.want)
		}
	}

	// A remedy speaks of no replica that may need nothing but what is terminating in it.
	for _, row := range []struct {
		why         string
		spec        surge.SetSpec
		state       []string
		unscheduled func(replica, component, index int) bool
		remedy      string
	}{
		{"a unit", set(rolling, 1, none, units(2, 1, 0, 1)), []string{"On"}, everyUnit, "replica 0, component0: TargetNotReady [1]: make room for these replicas, or scale in, or let one more go with maxUnavailable 2"},
		{"a unit of a new replica of the set", set(rolling, 2, none, units(1, 1, 0, 1)), []string{"O", "n"}, everyUnit, "replica 1, component0: TargetNotReady [0]: make room for these replicas, or scale in"},
		{"a whole replica", set(recreate, 2, budgets(0, 1), plain(1, 1)), []string{"O", "n"}, everyUnit, "replicas: TargetNotReady [1]: make room for these replicas, or scale in, or let one more go with maxUnavailable 2"},
		{"a replica beside one that may return", set(recreate, 3, budgets(0, 2), plain(2, 1)), []string{"OO", "nt", "nn"}, never("1/0/0"), "replicas: TargetNotReady [2]: publish a working revision, or go back to the old one"},
		{"a surge beside one that may return", set(recreate, 2, budgets(2, 0), plain(2, 1)), []string{"OO", "OO", "nt", "nn"}, never("2/0/0"), "replicas: SurgeNotReady [3]: make the surge available, publish a working revision, or give the surge up with maxSurge 0 and maxUnavailable 1; if it is only deleted, it is created again"},
	} {
		list, err := surge.DiagnoseSet(row.spec, parseSet(t, row.state), row.unscheduled)
		if err != nil || len(list) != 1 || list[0].String() != row.remedy {
			t.Errorf("%s: got %v, %v, want %s", row.why, list, err, row.remedy)
		}
	}

	// There is no room to make for a surge that should have no unit.
	zero := 0
	state := append(parseSet(t, []string{"O"}), []surge.Units{{Replicas: &zero}})
	list, err := surge.DiagnoseSet(set(recreate, 1, budgets(1, 0), plain(1, 1)), state, everyUnit)
	if got := diagnosed(list); err != nil || got != "SurgeNotReady [1] or 1" {
		t.Errorf("a surge without units: got %q, %v", got, err)
	}
}

// TestDiagnoseSetOwnNumbers: Diagnose, asked about SetSpec.Flat, counts on a surge that
// ReplicaRecreate does not make where no component has a unit by its own number. It said that there
// was something to do, and the set waited for ever.
func TestDiagnoseSetOwnNumbers(t *testing.T) {
	spec := set(surge.ReplicaRecreate, 2, budgets(1, 0), plain(0, 0))
	one := 1
	state := surge.SetState{{{Slots: parse(t, "n"), Replicas: &one}}, {{Slots: parse(t, "O"), Replicas: &one}}}
	if flat := surge.Diagnose(spec.Flat(), parse(t, "nO"), nil); flat.Stuck != surge.NotStuck {
		t.Errorf("the flat set has something to do: got %v", flat)
	}
	list, err := surge.DiagnoseSet(spec, state, nil)
	if got := diagnosed(list); err != nil || got != "TargetNotReady [0]" {
		t.Errorf("got %q, %v, want TargetNotReady [0] of\n%v", got, err, planSet(t, spec, state))
	}
}

// TestDiagnoseSetRemedies: a remedy names everything that would hold the update back, the partition
// and the pause of the set included.
func TestDiagnoseSetRemedies(t *testing.T) {
	spec := set(surge.RollingUpdate, 2, surge.UpdateStrategy{}, units(1, 1, 0, 1))
	for _, row := range []struct {
		why       string
		partition int
		paused    bool
		state     []string
		want      string
	}{
		{"nothing does", 0, false, []string{"n", "O"}, "replica 0, component0: TargetNotReady [0]: publish a working revision, or go back to the old one"},
		{"the partition: a new revision would leave the replica protected", 2, false, []string{"n", "O"}, "replica 0, component0: TargetNotReady [0]: publish a working revision, or go back to the old one, and lower the partition"},
		{"both", 2, true, []string{"n", "O"}, "replica 0, component0: TargetNotReady [0]: publish a working revision, or go back to the old one, and lower the partition, and resume the update"},
		{"an old unit", 1, false, []string{"o", "N"}, "replica 0, component0: ReplicasUnhealthy [0]: repair these replicas, or lower the partition to replace them"},
		{"an old unit of a paused set", 1, true, []string{"o", "N"}, "replica 0, component0: ReplicasUnhealthy [0]: repair these replicas, or lower the partition to replace them, and resume the update"},
		{"the pause alone", 0, true, []string{"O", "N"}, "replicas: UpdatePaused [0]: resume the update"},
	} {
		spec.Partition, spec.Paused = row.partition, row.paused
		list, err := surge.DiagnoseSet(spec, parseSet(t, row.state), nil)
		if err != nil || len(list) != 1 || list[0].String() != row.want {
			t.Errorf("%s: got %v, %v, want %s", row.why, list, err, row.want)
		}
	}
	if got := (surge.SetDiagnosis{Replica: 3, Component: 2, Diagnosis: surge.Diagnosis{Stuck: surge.SurgeGated, Indices: []int{1}, Remedy: "r"}}).String(); got != "replica 3, component 2: SurgeGated [1]: r" {
		t.Errorf("a component without a name: %q", got)
	}
	if got := (surge.SetDiagnosis{}).String(); got != "not stuck" {
		t.Errorf("an empty diagnosis: %q", got)
	}
}

// TestDiagnoseSetTotal diagnoses what Validate would refuse: a negative number counts as 0, and an
// unknown slot as one on its way out.
func TestDiagnoseSetTotal(t *testing.T) {
	for _, row := range []struct {
		kind  surge.StrategyType
		state surge.SetState
		want  string
	}{
		{surge.RollingUpdate, parseSet(t, []string{". nn", ". OO"}), "0/1 TargetNotReady [0 1]"},
		{surge.ReplicaRecreate, parseSet(t, []string{"t nn", ". OO"}), "TargetNotReady [0]"},
		{surge.ReplicaRecreate, parseSet(t, []string{"t Nt", ". OO"}), ""},
		{surge.ReplicaRecreate, surge.SetState{{{}, {Slots: []surge.Slot{surge.TargetAvailable, 7}}}, {{}, {Slots: parse(t, "OO")}}}, ""},
	} {
		spec := set(row.kind, 2, surge.UpdateStrategy{}, plain(-2, -1), plain(2, 2))
		spec.Partition = -1
		list, err := surge.DiagnoseSet(spec, row.state, everyUnit)
		if got := diagnosed(list); err != nil || got != row.want {
			t.Errorf("%s of %s: got %q, %v, want %q", row.kind, formatSet(row.state), got, err, row.want)
		}
	}
}

// TestDiagnoseSetRefuses what PlanSet refuses, with the same faults.
func TestDiagnoseSetRefuses(t *testing.T) {
	spec := set(surge.RollingUpdate, 1, surge.UpdateStrategy{}, units(1, 1, 0, 1))
	state := parseSet(t, []string{"n n"})
	_, want := surge.PlanSet(spec, state)
	list, err := surge.DiagnoseSet(spec, state, nil)
	var field *surge.FieldError
	if list != nil || !errors.As(err, &field) || err.Error() != want.Error() {
		t.Errorf("got %v, %v, want %v", list, err, want)
	}
}

// checkStall holds what DiagnoseSet says of one state. Where a set is stuck is worked out here from
// the state and the roles in the plan. It returns what is said.
func checkStall(spec surge.SetSpec, state surge.SetState, fail failure) []surge.SetDiagnosis {
	plan, err := surge.PlanSet(spec, state)
	if err != nil {
		fail("PlanSet", "%v", err)
		return nil
	}
	list, err := surge.DiagnoseSet(spec, state, nil)
	if err != nil {
		fail("DiagnoseSet", "%v", err)
		return nil
	}
	var got, want []string
	for _, d := range list {
		place := "replicas"
		if d.Component >= 0 {
			place = fmt.Sprintf("%d/%d", d.Replica, d.Component)
			if d.Name != spec.Components[d.Component].Name {
				fail("name", "%v", d)
			}
		} else if d.Replica != -1 || d.Component != -1 || d.Name != "" {
			fail("place", "%+v", d)
		}
		got = append(got, place)
		checkNamed(spec, state, plan, d, fail)
	}
	for _, next := range remedied(spec, state, list) {
		// A count of units that were added may be too large.
		if err := next.spec.Validate(); err != nil && spec.Validate() == nil && !apart(state) {
			fail("remedy", "%v is refused: %v", list, err)
		}
		// A surge that should have no unit is taken by the whole plan, although nothing is created.
		if plan := mustPlan(next.spec, next.state, fail); plan.Empty() && plan.Whole.Actions == nil {
			fail("remedy", "%v does not help with %+v: then\n%v", list, next.spec, plan)
		}
	}
	want = stuckAt(spec, state, plan)
	if len(got) == 0 && !plan.Blocked.Has(surge.BlockedPaused) {
		for i, replica := range plan.Replicas {
			if replica.Slot.Live() && !replica.Slot.Available() && !broken(spec, state, i) {
				want = nil // the replicas that Diagnose names may lack nothing but what is terminating
			}
		}
	}
	if !slices.Equal(got, want) {
		fail("places", "stuck at %v, want %v of\n%v", got, want, plan)
	}
	if len(got) == 0 && plan.Empty() && !plan.Converged && !plan.Blocked.Has(surge.BlockedTerminating) {
		fail("every stall is named", "nothing is, of\n%v", plan)
	}

	// Whoever says that nothing was scheduled learns of the same places.
	never, err := surge.DiagnoseSet(spec, state, everyUnit)
	if err != nil || len(never) != len(list) {
		fail("unscheduled", "%v, %v: want as many as %v", never, err, list)
		return list
	}
	for i, d := range never {
		scenario := d.Stuck
		if scenario == surge.SurgeUnscheduled {
			scenario = surge.SurgeNotReady
		}
		if d.Replica != list[i].Replica || d.Component != list[i].Component || scenario != list[i].Stuck || d.MaxUnavailable != list[i].MaxUnavailable {
			fail("unscheduled", "%v: want a surge of %v", d, list[i])
		}
		if d.Stuck == surge.SurgeNotReady && d.Component >= 0 {
			fail("unscheduled", "%v: a unit was never scheduled", d)
		}
	}

	// In another order the components are the same.
	reversed := spec
	reversed.Components = slices.Clone(spec.Components)
	slices.Reverse(reversed.Components)
	turned, err := surge.DiagnoseSet(reversed, turn(state, len(spec.Components)), nil)
	for i := range turned {
		if turned[i].Component >= 0 {
			turned[i].Component = len(spec.Components) - 1 - turned[i].Component
		}
	}
	slices.SortFunc(turned, func(a, b surge.SetDiagnosis) int {
		if a.Replica != b.Replica {
			return a.Replica - b.Replica
		}
		return a.Component - b.Component
	})
	if diff := gocmp.Diff(list, turned); err != nil || diff != "" {
		fail("order of the components", "%v\n-as they are +in reverse:\n%s", err, diff)
	}
	return list
}

// turn returns the state with the components in reverse.
func turn(state surge.SetState, components int) surge.SetState {
	var next surge.SetState
	for _, replica := range state {
		list := make([]surge.Units, components)
		for i, u := range replica {
			list[components-1-i] = u
		}
		next = append(next, list)
	}
	return next
}

func mustPlan(spec surge.SetSpec, state surge.SetState, fail failure) surge.SetResult {
	plan, err := surge.PlanSet(spec, state)
	if err != nil {
		fail("PlanSet", "%v", err)
	}
	return plan
}

// unitsOf returns one component of one replica, and how many units it should have.
func unitsOf(spec surge.SetSpec, state surge.SetState, replica, component int) (slots []surge.Slot, want int) {
	want = spec.Components[component].Replicas
	if replica < len(state) && component < len(state[replica]) {
		slots = state[replica][component].Slots
		if n := state[replica][component].Replicas; n != nil {
			want = *n
		}
	}
	return slots, want
}

// stuckAt returns the places at which a set is stuck: "replicas", or replicas and components.
func stuckAt(spec surge.SetSpec, state surge.SetState, plan surge.SetResult) (places []string) {
	if !plan.Empty() || plan.Converged {
		return nil
	}
	recreate := spec.UpdateStrategy.Type == surge.ReplicaRecreate
	if recreate {
		serve := true
		for i, replica := range plan.Replicas {
			if replica.Slot == surge.Terminating {
				return nil
			}
			kept := i < spec.Partition || replica.Slot == surge.TargetAvailable
			serve = serve && (i < spec.Replicas && kept && replica.Slot.Available() || i >= spec.Replicas && !replica.Slot.Live())
		}
		if !serve {
			return []string{"replicas"}
		}
	} else if spec.Paused {
		for i := spec.Partition; i < spec.Replicas; i++ {
			if plan.Replicas[i].Role == surge.RoleHeld {
				return []string{"replicas"}
			}
		}
	}
	for i := range spec.Replicas {
		if plan.Current >= 0 && plan.Current != i {
			continue
		}
		for c := range spec.Components {
			slots, want := unitsOf(spec, state, i, c)
			done := true
			for j := range max(want, len(slots)) {
				slot := at(slots, j)
				kept := plan.Replicas[i].Role == surge.RoleHeld || slot == surge.TargetAvailable
				done = done && (j < want && kept && slot.Available() || j >= want && !slot.Live())
			}
			if !done && !slices.Contains(slots, surge.Terminating) {
				places = append(places, fmt.Sprintf("%d/%d", i, c))
			}
		}
	}
	return places
}

// checkNamed holds that what one diagnosis says is true.
func checkNamed(spec surge.SetSpec, state surge.SetState, plan surge.SetResult, d surge.SetDiagnosis, fail failure) {
	if len(d.Indices) == 0 || d.Remedy == "" || !slices.IsSorted(d.Indices) {
		fail("named", "%+v", d)
	}
	var slots []surge.Slot
	base, below := spec.Replicas, spec.Partition
	if d.Component >= 0 {
		slots, base = unitsOf(spec, state, d.Replica, d.Component)
		if below = 0; d.Replica < spec.Partition {
			below = base
		}
	} else {
		for _, replica := range plan.Replicas {
			slots = append(slots, replica.Slot)
		}
	}
	budget := false
	for _, i := range d.Indices {
		slot, holds := at(slots, i), false
		switch d.Stuck {
		case surge.UpdatePaused:
			holds = spec.Paused && d.Component < 0 && (i >= spec.Partition && slot != surge.TargetAvailable || i >= base)
		case surge.SurgeNotReady:
			holds, budget = i >= base && slot == surge.TargetUnavailable, true
		case surge.SurgeGated:
			holds, budget = d.Component >= 0 && i < spec.Components[d.Component].MinAvailable && !slot.Available(), true
		case surge.TargetNotReady:
			holds = i < base && slot == surge.TargetUnavailable
		case surge.ReplicasUnhealthy:
			holds = i < below && !slot.Available()
		}
		if d.Component < 0 && d.Stuck != surge.UpdatePaused {
			holds = holds && broken(spec, state, i)
		}
		if !holds {
			fail("named", "%v: index %d is %v", d, i, slot)
		}
	}
	if budget != (d.MaxUnavailable > 0) {
		fail("budget", "%v: %d", d, d.MaxUnavailable)
	}
}

// broken reports whether a whole replica would not serve even with all that is terminating in it. A
// surge that should have no unit never serves.
func broken(spec surge.SetSpec, state surge.SetState, replica int) bool {
	hollow := true
	for c, component := range spec.Components {
		slots, want := unitsOf(spec, state, replica, c)
		hollow = hollow && want == 0
		serving := available(slots)
		for i, slot := range slots {
			if i < want && slot == surge.Terminating {
				serving++
			}
		}
		if serving < min(want, max(component.MinAvailable, 1)) {
			return true
		}
	}
	return hollow
}

// variant is a set after something was done.
type variant struct {
	spec  surge.SetSpec
	state surge.SetState
}

// remedied returns the sets that are left if somebody does what is advised instead of mending what is
// broken: for each surge one in which it is given up, and one in which all other advice is followed.
// The update takes something at once, unless it may have to wait for what is terminating.
func remedied(spec surge.SetSpec, state surge.SetState, list []surge.SetDiagnosis) (variants []variant) {
	if terminates(state) {
		return nil
	}
	advised, others := variant{spec, state}, false
	for _, d := range list {
		if d.MaxUnavailable > 0 {
			after := spec
			give := surge.UpdateStrategy{MaxSurge: concurrency.Count(0), MaxUnavailable: concurrency.Count(d.MaxUnavailable)}
			if d.Component < 0 {
				after.UpdateStrategy.RollingUpdate = give
			} else {
				after.Components = slices.Clone(spec.Components)
				after.Components[d.Component].UpdateStrategy = &give
			}
			variants = append(variants, variant{after, state})
			continue
		}
		if strings.Contains(d.Remedy, "lower the partition") {
			advised.spec.Partition = 0
		}
		if strings.Contains(d.Remedy, "resume the update") {
			advised.spec.Paused = false
		}
		if d.Stuck == surge.TargetNotReady {
			advised.state = newer(state, "newer")
		}
		others = d.Stuck != surge.UpdatePaused // a resumed update may be stuck elsewhere
	}
	if others {
		variants = append(variants, advised)
	}
	return variants
}

func terminates(state surge.SetState) bool {
	for _, replica := range state {
		for _, u := range replica {
			if slices.Contains(u.Slots, surge.Terminating) {
				return true
			}
		}
	}
	return false
}

// newer returns the state after a new revision was published. What was the target has a name now.
func newer(state surge.SetState, name string) surge.SetState {
	next := state.Apply(surge.SetResult{})
	for _, replica := range next {
		for c := range replica {
			u := &replica[c]
			u.Revisions = append(u.Revisions, make([]string, len(u.Slots)-len(u.Revisions))...)
			for i, slot := range u.Slots {
				switch slot {
				case surge.TargetAvailable:
					u.Slots[i], u.Revisions[i] = surge.OldAvailable, name
				case surge.TargetUnavailable:
					u.Slots[i], u.Revisions[i] = surge.OldUnavailable, name
				}
			}
		}
	}
	return next
}

// healed returns a set after what a diagnosis names was mended, and nothing else: units become
// available as they are, in whole replicas all that there are. A pause ends, and a surge that should
// have no unit is given up, because nothing about it can be mended.
func healed(spec surge.SetSpec, state surge.SetState, d surge.SetDiagnosis) (surge.SetSpec, surge.SetState) {
	next := state.Apply(surge.SetResult{})
	heal := func(r, c, i int) bool {
		slots := next[r][c].Slots
		switch slots[i] {
		case surge.OldUnavailable, surge.OldUnscheduled:
			slots[i] = surge.OldAvailable
		case surge.TargetUnavailable:
			slots[i] = surge.TargetAvailable
		default:
			return false
		}
		return true
	}
	switch {
	case d.Stuck == surge.UpdatePaused:
		spec.Paused = false
	case d.Component >= 0:
		for _, i := range d.Indices {
			heal(d.Replica, d.Component, i)
		}
	default:
		mended := false
		for _, r := range d.Indices {
			for c := range spec.Components {
				if r >= len(next) || c >= len(next[r]) {
					continue
				}
				for i := range next[r][c].Slots {
					mended = heal(r, c, i) || mended
				}
			}
		}
		if !mended {
			spec.UpdateStrategy.RollingUpdate = surge.UpdateStrategy{MaxSurge: concurrency.Count(0), MaxUnavailable: concurrency.Count(d.MaxUnavailable)}
		}
	}
	return spec, next
}

// TestEveryStallIsNamed simulates sets from any state on. Parts of plans are carried out, units
// arrive, fail, recover and go or never go, revisions are published, until there is nothing to do.
// Then what DiagnoseSet names is mended, and nothing else: again and again, this leads to a plan or
// to the end.
func TestEveryStallIsNamed(t *testing.T) {
	outcomes := testkit.Tally{}
	outcomes.Check(t, func(t *rapid.T) { propEveryStall(t, outcomes) },
		"whole RollingUpdate UpdatePaused",
		"whole ReplicaRecreate UpdatePaused", "whole ReplicaRecreate SurgeNotReady", "whole ReplicaRecreate TargetNotReady", "whole ReplicaRecreate ReplicasUnhealthy",
		"units RollingUpdate SurgeGated", "units RollingUpdate SurgeNotReady", "units RollingUpdate TargetNotReady", "units RollingUpdate ReplicasUnhealthy",
		"units ReplicaRecreate TargetNotReady", "units ReplicaRecreate ReplicasUnhealthy",
		"several places", "mended more than once", "on its way out", "beside what terminates", "scaled apart", "paused", "converged", "a surge without units")
}

func FuzzEveryStallIsNamed(f *testing.F) {
	f.Add(testkit.Bytes(16384))
	f.Fuzz(rapid.MakeFuzz(func(t *rapid.T) { propEveryStall(t, testkit.Tally{}) }))
}

func propEveryStall(t *rapid.T, outcomes testkit.Tally) {
	spec, state := anySet(t)
	kind := string(spec.UpdateStrategy.Type)
	fail := func(rule, format string, args ...any) {
		t.Helper()
		t.Fatalf("%s: %s\n%+v\n%s", rule, fmt.Sprintf(format, args...), spec, formatApart(state))
	}
	stays := map[string]bool{} // what never goes
	for turn := range 200 {
		plan := mustPlan(spec, state, fail)
		list := checkStall(spec, state, fail)
		settled := plan.Empty()
		moved := state.Apply(plan)
		wild := turn < 20 && rapid.IntRange(0, 2).Draw(t, "wild") > 0
		if wild { // one component of one replica alone
			one := surge.SetResult{Replicas: slices.Clone(plan.Replicas)}
			chosen := rapid.IntRange(0, max(len(plan.Replicas)-1, 0)).Draw(t, "carried out")
			for i := range one.Replicas {
				if i != chosen {
					one.Replicas[i].Components = nil
				}
			}
			moved = state.Apply(one)
		}
		for r, replica := range moved {
			for c, u := range replica {
				for i, slot := range u.Slots {
					place := fmt.Sprintf("%d/%d/%d", r, c, i)
					switch {
					case slot == surge.Terminating && !stays[place]:
						if settled = false; rapid.IntRange(0, 9).Draw(t, "never goes") == 0 {
							stays[place] = true
						} else {
							u.Slots[i] = surge.Absent
						}
					case !wild || rapid.IntRange(0, 5).Draw(t, "happens") > 0:
					case slot == surge.TargetUnavailable:
						u.Slots[i] = surge.TargetAvailable
					case slot == surge.TargetAvailable:
						u.Slots[i] = surge.TargetUnavailable
					case slot == surge.OldAvailable:
						u.Slots[i] = surge.OldUnavailable
					}
				}
			}
		}
		if wild && rapid.IntRange(0, 9).Draw(t, "new revision") == 0 {
			moved = newer(moved, fmt.Sprint("v", turn))
		}
		if wild || !settled {
			state = moved
			continue
		}

		if plan.Converged {
			outcomes["converged"]++
			return
		}
		if len(list) == 0 {
			outcomes["on its way out"]++
			return
		}
		for _, d := range list {
			level := "units"
			if d.Component < 0 {
				level = "whole"
			}
			outcomes[fmt.Sprint(level, " ", kind, " ", d.Stuck)]++
			if level == "whole" && d.Stuck == surge.SurgeNotReady && len(plan.Whole.Actions) > 0 {
				outcomes["a surge without units"]++
			}
		}
		if len(list) > 1 {
			outcomes["several places"]++
		}
		if terminates(state) {
			outcomes["beside what terminates"]++
		}
		if apart(state) {
			outcomes["scaled apart"]++
		}
		if spec.Paused {
			outcomes["paused"]++
		}
		mend(spec, state, list, outcomes, fail)
		return
	}
	fail("IL", "there is always something to do")
}

// mend heals what is named until there is something to do, or until the set has converged.
func mend(spec surge.SetSpec, state surge.SetState, list []surge.SetDiagnosis, outcomes testkit.Tally, fail failure) {
	for round := range 100 {
		before := formatApart(state)
		paused, strategy := spec.Paused, spec.UpdateStrategy
		for _, d := range list {
			spec, state = healed(spec, state, d)
		}
		if before == formatApart(state) && paused == spec.Paused && strategy == spec.UpdateStrategy {
			fail("mended", "nothing of %v can be", list)
		}
		plan := mustPlan(spec, state, fail)
		if list = checkStall(spec, state, fail); len(list) == 0 {
			if plan.Empty() && !plan.Converged && !plan.Blocked.Has(surge.BlockedTerminating) {
				fail("mended", "nothing is named any more of\n%v", plan)
			}
			if round > 0 {
				outcomes["mended more than once"]++
			}
			return
		}
	}
	fail("mended", "still %v", list)
}

// anySet draws a set in any state: one that can be reached or not.
func anySet(t *rapid.T) (surge.SetSpec, surge.SetState) {
	kind := rapid.SampledFrom([]surge.StrategyType{surge.RollingUpdate, surge.ReplicaRecreate}).Draw(t, "kind")
	draw := func(least, most int, what string) int { return rapid.IntRange(least, most).Draw(t, what) }
	spec := set(kind, draw(0, 3, "replicas"), surge.UpdateStrategy{})
	if draw(0, 2, "with a partition") == 0 {
		spec.Partition = draw(0, spec.Replicas, "partition")
	}
	spec.Paused = draw(0, 5, "paused") == 0
	strategy := func(n int) surge.UpdateStrategy {
		b := budgets(draw(0, 2, "surge"), draw(0, n, "unavailable"))
		if b.MaxSurge == concurrency.Count(0) && b.MaxUnavailable == concurrency.Count(0) {
			b = surge.UpdateStrategy{}
		}
		return b
	}
	if kind == surge.ReplicaRecreate {
		spec.UpdateStrategy.RollingUpdate = strategy(spec.Replicas)
	}
	for i := range draw(1, 3, "components") {
		n := draw(0, 3, "units")
		c := surge.Component{Name: fmt.Sprint("component", i), Replicas: n, MinAvailable: draw(0, n, "minAvailable")}
		if kind == surge.RollingUpdate && draw(0, 3, "with a strategy") > 0 {
			b := strategy(n)
			c.UpdateStrategy = &b
		}
		spec.Components = append(spec.Components, c)
	}
	if err := spec.Validate(); err != nil {
		t.Fatal(err)
	}
	numbers, named := draw(0, 3, "numbers") == 0, rapid.Bool().Draw(t, "named")
	// Mostly healthy, or hardly a state is a stall that is not at once mended by a plan.
	letters := rapid.SampledFrom([]string{".tuoOnN", "OOOOON", "NNNNNn", "OOOooN", "OONNNnn"}).Draw(t, "letters")
	var state surge.SetState
	for r := range draw(0, spec.Replicas+1, "existing") {
		empty := numbers && r >= spec.Replicas && rapid.Bool().Draw(t, "a surge without units")
		var replica []surge.Units
		for _, c := range spec.Components {
			var u surge.Units
			want := c.Replicas
			if numbers && rapid.Bool().Draw(t, "own number") {
				n := draw(0, 3, "should have")
				u.Replicas, want = &n, n
			}
			if empty {
				u.Replicas, want = new(int), 0
			}
			size := want
			if draw(0, 3, "another size") == 0 {
				size = draw(0, want+2, "size")
			}
			text := ""
			for range size {
				text += string(letters[draw(0, len(letters)-1, "slot")])
			}
			slots, err := surge.ParseSlots(text)
			if err != nil {
				t.Fatal(err)
			}
			if u.Slots = slots; named {
				for range slots {
					u.Revisions = append(u.Revisions, rapid.SampledFrom([]string{"v1", "v1", "v1", "v2"}).Draw(t, "revision"))
				}
			}
			replica = append(replica, u)
		}
		state = append(state, replica)
	}
	return spec, state
}

// apart reports whether a component has a number of its own somewhere.
func apart(state surge.SetState) bool {
	for _, replica := range state {
		if slices.ContainsFunc(replica, func(u surge.Units) bool { return u.Replicas != nil }) {
			return true
		}
	}
	return false
}

// formatApart writes a state with the numbers that components have of their own.
func formatApart(state surge.SetState) string {
	var lines []string
	for _, replica := range state {
		var words []string
		for _, u := range replica {
			word := surge.FormatSlots(u.Slots)
			if u.Replicas != nil {
				word += fmt.Sprint(":", *u.Replicas)
			}
			words = append(words, word)
		}
		lines = append(lines, strings.Join(words, " "))
	}
	return strings.Join(lines, " | ")
}

// TestSetDiagnosisOfOneLine: a line break in the name of a component ends no line.
func TestSetDiagnosisOfOneLine(t *testing.T) {
	d := surge.SetDiagnosis{Component: 1, Name: "a\n", Diagnosis: surge.Diagnosis{Stuck: surge.SurgeNotReady, Remedy: "wait"}}
	if got, want := d.String(), `replica 0, "a\n": SurgeNotReady []: wait`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
