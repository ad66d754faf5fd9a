package surge

import (
	"math"
	"slices"
	"testing"
)

// TestSetBeyondWhatCanBePlanned: of numbers that Validate refuses so many replicas and units are
// planned as can be, and never fewer than there are. A plan for a set of the largest number of
// replicas panicked, and its gangs were never enumerated to the end.
func TestSetBeyondWhatCanBePlanned(t *testing.T) {
	spec := SetSpec{Replicas: math.MaxInt, Components: []Component{
		{Name: "a", Replicas: math.MaxInt}, {Name: "b", Replicas: math.MaxInt}, {Name: "c", Replicas: 2}, {Name: "d", Replicas: -1},
	}}
	many := Units{Slots: make([]Slot, MaxReplicas+1)}
	bounded := spec.bounded(SetState{{{}, many}, {{}, {}}})
	got := []int{bounded.Replicas}
	for _, c := range bounded.Components {
		got = append(got, c.Replicas)
	}
	if want := []int{MaxReplicas, MaxReplicas, MaxReplicas + 1, 2, -1}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if spec.Components[0].Replicas != math.MaxInt {
		t.Error("the components of the caller are changed")
	}
	one := SetSpec{Replicas: 1, Components: spec.Components[:1]}
	if gangs := SetGangs(one, nil); len(gangs) != 1 || gangs[0].Members[0].End != MaxReplicas {
		t.Errorf("got %v", gangs)
	}
	if testing.Short() {
		t.Skip("goes through many units")
	}
	one.UpdateStrategy.Type = ReplicaRecreate
	plan, err := PlanSet(one, nil)
	if n := len(plan.Replicas[0].Components[0].Actions); err != nil || n != MaxReplicas {
		t.Errorf("%d actions, %v", n, err)
	}
}
