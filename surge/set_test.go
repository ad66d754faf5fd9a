package surge_test

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/surge"
)

func TestSetValidate(t *testing.T) {
	strategy := func(surges, unavailable int) *surge.UpdateStrategy {
		b := budgets(surges, unavailable)
		return &b
	}
	unset := surge.UpdateStrategy{}
	for _, row := range []struct {
		why  string
		spec surge.SetSpec
		want []string
	}{
		{"the zero value", surge.SetSpec{}, nil},
		{"defaults written out under RollingUpdate", set(surge.RollingUpdate, 2, budgets(0, 1), units(2, 1, 1, 0)), nil},
		{"no type means RollingUpdate", set("", 2, unset, units(2, 1, 1, 0)), nil},
		{"ReplicaRecreate with budgets of the set", set(surge.ReplicaRecreate, 2, budgets(5, 0), plain(2, 1)), nil},
		{"0% is zero", set("", 2, surge.UpdateStrategy{MaxSurge: concurrency.Percent(0)}, plain(2, 1)), nil},
		{"budgets of the set under RollingUpdate", set("", 9, budgets(1, 2), plain(2, 1)), []string{
			"conflict updateStrategy.rollingUpdate.maxUnavailable: 2: a RollingUpdate takes one replica of the set at a time: leave it out, or use the type ReplicaRecreate",
			"conflict updateStrategy.rollingUpdate.maxSurge: 1: a RollingUpdate takes one replica of the set at a time: leave it out, or use the type ReplicaRecreate"}},
		{"100% of one is one, and still no count of 1", set("", 1, surge.UpdateStrategy{MaxUnavailable: concurrency.Percent(100)}, plain(2, 1)), []string{
			"conflict updateStrategy.rollingUpdate.maxUnavailable: \"100%\": a RollingUpdate takes one replica of the set at a time: leave it out, or use the type ReplicaRecreate"}},
		{"neither is 1% of any", set("", 2, surge.UpdateStrategy{MaxUnavailable: concurrency.Percent(1)}, plain(2, 1)), []string{
			"conflict updateStrategy.rollingUpdate.maxUnavailable: \"1%\": a RollingUpdate takes one replica of the set at a time: leave it out, or use the type ReplicaRecreate"}},
		{"none may be missing under RollingUpdate", set("", 2, surge.UpdateStrategy{MaxUnavailable: concurrency.Count(0)}, plain(2, 1)), []string{
			"conflict updateStrategy.rollingUpdate.maxUnavailable: 0: a RollingUpdate takes one replica of the set at a time: leave it out, or use the type ReplicaRecreate"}},
		{"strategies of components under ReplicaRecreate, defaults and empty ones included",
			set(surge.ReplicaRecreate, 2, unset, units(2, 1, 0, 1), surge.Component{UpdateStrategy: &surge.UpdateStrategy{}}), []string{
				"conflict components[0].updateStrategy: must be left out under ReplicaRecreate, which recreates all components together",
				"conflict components[1].updateStrategy: must be left out under ReplicaRecreate, which recreates all components together"}},
		{"both zero at the set", set(surge.ReplicaRecreate, 2, budgets(0, 0), plain(1, 1)), []string{
			"conflict updateStrategy.rollingUpdate.maxUnavailable: 0: maxSurge is 0 too, so nothing could ever be updated: raise one of them"}},
		{"a strategy of a member of a scaling group", set("", 1, unset, surge.Component{Kind: surge.PodCliqueScalingGroup, Replicas: 1,
			Cliques: []surge.Clique{{Name: "leader", Replicas: 1}, {Name: "worker", Replicas: 2, MinAvailable: 3, UpdateStrategy: strategy(0, 1)}}}), []string{
			"out_of_range components[0].cliques[1].minAvailable: 3: must be at most replicas, 2",
			`conflict components[0].cliques[1].updateStrategy: must be left out: the clique is updated with its scaling group, "component0"`}},
		{"members of a standalone clique", set("", 1, unset, surge.Component{Replicas: 1, Cliques: []surge.Clique{{Name: "a"}}}), []string{
			`conflict components[0].cliques: only a "PodCliqueScalingGroup" has member cliques`}},
		{"every level against its own replicas", set(surge.RollingUpdate, -1, unset, units(2, 3, 1, 3)), []string{
			"out_of_range replicas: -1: must not be negative", "out_of_range components[0].updateStrategy.maxUnavailable: 3: must be at most replicas, 2", "out_of_range components[0].minAvailable: 3: must be at most replicas, 2"}},
		{"released types", set("OnDelete", 1, unset), []string{
			`unknown_value updateStrategy.type: "OnDelete": must be "RollingUpdate" or "ReplicaRecreate"; for OnDelete plan each component by itself, with paused: true, which fills holes at the target`}},
		{"the released default", set("RollingRecreate", 1, unset), []string{
			`unknown_value updateStrategy.type: "RollingRecreate": must be "RollingUpdate" or "ReplicaRecreate"; what Grove calls RollingRecreate is RollingUpdate`}},
		{"a type that Grove announces", set("Coherent", 1, unset), []string{
			`unknown_value updateStrategy.type: "Coherent": must be "RollingUpdate" or "ReplicaRecreate"; where components must not mix revisions, recreate whole replicas`}},
		{"the budgets of an unknown type", set("Rolling", 3, budgets(1, 2)), []string{
			`unknown_value updateStrategy.type: "Rolling": must be "RollingUpdate" or "ReplicaRecreate"`}},
		{"unknown type and kind", set("rollingupdate", 1, unset, surge.Component{Kind: "Pod"}), []string{
			`unknown_value updateStrategy.type: "rollingupdate": must be "RollingUpdate" or "ReplicaRecreate"`, `unknown_value components[0].kind: "Pod": must be "PodClique" or "PodCliqueScalingGroup"`}},
		{"names", surge.SetSpec{Components: []surge.Component{{Name: "a"}, {}, {Name: "b", Kind: surge.PodCliqueScalingGroup, Cliques: []surge.Clique{{Name: "a"}}}}}, []string{
			"required components[1].name: must not be empty", `duplicate components[2].cliques[0].name: "a": is the name of components[0] too`}},
	} {
		err := row.spec.Validate()
		if diff := gocmp.Diff(row.want, lines(t, err)); diff != "" {
			t.Errorf("%s: -want +got:\n%s", row.why, diff)
		}
	}
}

func TestSetWarnings(t *testing.T) {
	rolling := set("", 3, surge.UpdateStrategy{}, units(3, 1, 1, 0), plain(2, 2))
	var got []string
	for _, warning := range rolling.Warnings() {
		got = append(got, string(warning.Code)+" "+warning.Path)
	}
	if diff := gocmp.Diff([]string{"BelowMinAvailable components[1].minAvailable"}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	rolling.Components[1].UpdateStrategy = &surge.UpdateStrategy{MaxUnavailable: concurrency.Percent(1), MaxSurge: concurrency.Count(1)}
	if list := rolling.Warnings(); len(list) != 1 || list[0].String() != "components[1].updateStrategy.maxUnavailable: component1: 1% of 2 is 0 (RoundsToZero)" {
		t.Errorf("got %v", list)
	}
	recreate := set(surge.ReplicaRecreate, 3, budgets(0, 3), plain(2, 2))
	if list := recreate.Warnings(); len(list) != 1 || list[0].Path != "updateStrategy.rollingUpdate.maxUnavailable" || list[0].Code != "WholeSetDown" {
		t.Errorf("got %v", list)
	}
}

func TestSetJSON(t *testing.T) {
	doc := `{"replicas":2,"updateStrategy":{"type":"ReplicaRecreate","rollingUpdate":{"maxUnavailable":0,"maxSurge":"50%"}},"partition":1,"paused":true,` +
		`"components":[{"name":"a","kind":"PodClique","replicas":2,"minAvailable":1,"updateStrategy":{}},{"name":"b","kind":"PodCliqueScalingGroup","replicas":1,` +
		`"cliques":[{"name":"c","replicas":3,"minAvailable":2,"updateStrategy":{"maxSurge":1}}]}]}`
	var spec surge.SetSpec
	if err := json.Unmarshal([]byte(doc), &spec); err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(spec)
	if err != nil || string(data) != doc {
		t.Errorf("%v\n%s\n%s", err, data, doc)
	}
	rest := spec
	if err := json.Unmarshal([]byte(`{"replicas":1}`), &rest); err != nil || !reflect.DeepEqual(rest, surge.SetSpec{Replicas: 1}) {
		t.Errorf("what is left out is not unset: %+v, %v", rest, err)
	}
	before := spec
	err = json.Unmarshal([]byte(`{"components":[{"name":"a","replicas":1,"partition":1,"paused":true,"order":"descending","updateStrategy":{"maxSurge":"x"}}]}`), &spec)
	want := []string{"unknown_field components[0].partition: unknown field", "unknown_field components[0].paused: unknown field", "unknown_field components[0].order: unknown field",
		`type components[0].updateStrategy.maxSurge: "x": must be a count`}
	got := lines(t, err)
	if len(got) != len(want) {
		t.Fatalf("got %v", err)
	}
	for i := range want {
		if !strings.HasPrefix(got[i], want[i]) {
			t.Errorf("got %s, want %s", got[i], want[i])
		}
	}
	if !reflect.DeepEqual(before, spec) {
		t.Error("the SetSpec changed")
	}
}

// setRow is a state of a set and the plan that it must lead to, as SetResult.String prints it.
type setRow struct {
	name  string
	spec  surge.SetSpec
	state []string
	want  string
	why   string
}

func TestPlanSet(t *testing.T) {
	rolling, recreate, unset := surge.RollingUpdate, surge.ReplicaRecreate, surge.UpdateStrategy{}
	one, two := units(1, 1, 0, 1), units(2, 1, 0, 1)
	partition := func(p int) func(*surge.SetSpec) { return func(s *surge.SetSpec) { s.Partition = p } }
	paused := func(s *surge.SetSpec) { s.Paused = true }
	names := map[string]bool{}
	for _, row := range []setRow{
		{"nothing", surge.SetSpec{}, nil, "converged", "the zero value is a set of nothing"},
		{"components without units", set(rolling, 2, unset, plain(0, 0)), []string{".", "."}, "converged", "a replica of nothing is complete"},
		{"recreate without units", set(recreate, 1, unset, plain(0, 0)), nil, "converged", "a replica of nothing need not be created"},
		{"recreate without units any more", set(recreate, 1, unset, plain(0, 0)), []string{"N"}, "0/0: -0 Condemned\nblocked: Terminating", "what is left goes"},
		{"broken before healthy", set(rolling, 3, unset, two), []string{"OO", "OO", "oo"}, "2/0: -0 OutdatedUnavailable\ncurrent: 2\nblocked: Terminating RepairWindow WaitingForReplica",
			"a replica below its minimum is updated before one that serves"},
		{"degraded before healthy", set(rolling, 2, unset, two), []string{"OO", "Oo"}, "1/0: -1 OutdatedUnavailable\ncurrent: 1\nblocked: Terminating BudgetExhausted WaitingForReplica",
			"a replica that has what it needs and misses a unit goes before a whole one"},
		{"both lack something", set(rolling, 2, unset, units(2, 2, 0, 1), one), []string{"OO o", "oO O"}, "0/0: -0 Outdated\n0/1: -0 OutdatedUnavailable\ncurrent: 0\nblocked: Terminating BudgetExhausted ProtectedDown WaitingForReplica",
			"both lack what a component needs, so the lower index goes"},
		{"lacking before degraded", set(rolling, 2, unset, units(3, 2, 0, 1)), []string{"OOo", "Ooo"}, "1/0: -1 OutdatedUnavailable\ncurrent: 1\nblocked: Terminating BudgetExhausted ProtectedDown RepairWindow WaitingForReplica",
			"one available unit is below the minimum, two are not"},
		{"degraded in any component", set(rolling, 2, unset, two, one), []string{"OO O", "Oo O"}, "1/0: -1 OutdatedUnavailable\n1/1: -0 Outdated\ncurrent: 1\nblocked: Terminating BudgetExhausted WaitingForReplica",
			"the last component is whole, the first is not"},
		{"paused below the partition", with(with(set(rolling, 2, unset, two), partition(1)), paused), []string{"OO", "NN"}, "converged", "nothing that is paused is outdated"},
		{"a held replica is repaired at its own revision", set(rolling, 2, unset, two), []string{"NO", "O."}, "0/0: -1 Outdated\n1/0: ~1 Hole\ncurrent: 0\nblocked: Terminating ProtectedDown WaitingForReplica",
			"the target would make a second mixed replica"},
		{"held, but already at the target first", set(rolling, 3, unset, two), []string{"NO", "N.", "NO"}, "0/0: -1 Outdated\n1/0: +1 Hole\ncurrent: 0\nblocked: Terminating WaitingForBase WaitingForReplica", "replica 1 has no old unit: it is completed; replica 2 is mixed and waits"},
		{"a held mixed replica is repaired at the revision of its first unit", set(rolling, 2, unset, units(3, 1, 0, 1)), []string{"NOO", "N.O"}, "0/0: -1 Outdated\n1/0: +1 Hole\ncurrent: 0\nblocked: Terminating BudgetExhausted WaitingForBase WaitingForReplica",
			"unit 0 runs the target"},
		{"and of its first unit if that is old", set(rolling, 2, unset, units(3, 1, 0, 1)), []string{"NOO", "O.N"}, "0/0: -1 Outdated\n1/0: ~1 Hole\ncurrent: 0\nblocked: Terminating BudgetExhausted ProtectedDown WaitingForReplica",
			"unit 0 runs an old revision"},
		{"a held mixed replica with a broken old unit", set(rolling, 2, unset, units(3, 1, 0, 1)), []string{"NOO", "N.o"}, "0/0: -1 Outdated\n1/0: +1 Hole\ncurrent: 0\nblocked: Terminating BudgetExhausted WaitingForBase ProtectedDown WaitingForReplica",
			"the hole comes back at the target, the broken unit is protected"},
		{"a held mixed replica with an old unit that was never scheduled", set(rolling, 2, unset, units(3, 1, 0, 1)), []string{"NOO", "N.u"}, "0/0: -1 Outdated\n1/0: +1 Hole\ncurrent: 0\nblocked: Terminating BudgetExhausted WaitingForBase ProtectedDown WaitingForReplica",
			"it is down as well"},
		{"a held mixed replica with a broken old unit of each kind", set(rolling, 2, unset, units(4, 1, 0, 1)), []string{"NOOO", "N.uo"}, "0/0: -1 Outdated\n1/0: +1 Hole\ncurrent: 0\nblocked: Terminating BudgetExhausted WaitingForBase ProtectedDown WaitingForReplica",
			"two that are down are protected no less than one"},
		{"surges of a held replica are retired", set(rolling, 2, unset, units(1, 1, 1, 0)), []string{"NO", "OO"}, "0/0: -1 SurplusSurge\n1/0: -1 SurplusSurge\ncurrent: 0\nblocked: Terminating WaitingForReplica", "only the current one needs any"},
		{"a held replica gives a surge up within its own budget", set(rolling, 2, unset, units(2, 1, 1, 1)), []string{"NO", "OoO"}, "0/0: -1 Outdated\n1/0: -2 SurplusSurge\ncurrent: 0\nblocked: Terminating ProtectedDown WaitingForReplica",
			"one unit may be missing, and one is"},
		{"a mixed replica before one with a leftover", set(rolling, 2, unset, one), []string{"OO", "NO"}, "0/0: -1 Condemned\n1/0: -1 Condemned\ncurrent: 1\nblocked: Terminating WaitingForReplica", "a component that shrank must not start a second replica"},
		{"a surge unit is a start", set(rolling, 2, unset, two), []string{"OO", "OOO"}, "1/0: -0 Outdated, -2 Condemned\ncurrent: 1\nblocked: Terminating BudgetExhausted WaitingForReplica", "all run one revision, and yet replica 1 was begun"},
		{"a surge unit of any component is a start", set(rolling, 2, unset, two, one), []string{"OO O", "OOO O"}, "1/0: -0 Outdated, -2 Condemned\n1/1: -0 Outdated\ncurrent: 1\nblocked: Terminating BudgetExhausted WaitingForReplica", "the last component has none"},
		{"from nothing", set(rolling, 2, unset, two), nil, "0/0: +0 Hole, +1 Hole\n1/0: +0 Hole, +1 Hole\ncurrent: 0\nblocked: WaitingForBase", "every replica is born at the target, the current one and the other"},
		{"fresh before untouched", set(rolling, 3, unset, two), []string{"OO", "nn", "uu"}, "current: 1\nblocked: WaitingForBase ProtectedDown WaitingForReplica", "a replica that comes up is unfinished work"},
		{"empty before unscheduled", set(rolling, 2, unset, two), []string{"uu", ".."}, "1/0: +0 Hole, +1 Hole\ncurrent: 1\nblocked: WaitingForBase ProtectedDown WaitingForReplica",
			"a replica that is gone is unfinished work as well: with 0 begun, two would be down"},
		{"the base gang of a component is repaired together", set(rolling, 1, unset, units(3, 2, 0, 1)), []string{"ooo"}, "0/0: -0 OutdatedUnavailable, -1 OutdatedUnavailable\ncurrent: 0\nblocked: Terminating RepairWindow",
			"the window takes one, and the other member would wait for it unscheduled"},
		{"a held mixed replica with a broken surge", set(rolling, 2, unset, units(3, 1, 0, 1)), []string{"NOO", "N.Oo"}, "0/0: -1 Outdated\n1/0: +1 Hole, -3 Condemned\ncurrent: 0\nblocked: Terminating BudgetExhausted WaitingForBase WaitingForReplica",
			"the surge goes, and was never protected"},
		{"unscheduled before lacking", set(rolling, 2, unset, two), []string{"oo", "uu"}, "1/0: -0 OutdatedUnscheduled\ncurrent: 1\nblocked: Terminating ProtectedDown RepairWindow WaitingForReplica", "what never ran is lost least"},
		{"partition", with(set(rolling, 3, unset, two), partition(2)), []string{"OO", "OO", "OO"}, "2/0: -0 Outdated\ncurrent: 2\nblocked: Terminating BudgetExhausted", "only replica 2 is eligible"},
		{"partition done", with(set(rolling, 3, unset, two), partition(2)), []string{"OO", "OO", "NN"}, "converged", "the others stay"},
		{"partition done, protected one down", with(set(rolling, 2, unset, two), partition(1)), []string{"oO", "NN"}, "blocked: ProtectedDown", "nothing replaces it"},
		{"partition raised above a mixed replica", with(set(rolling, 2, unset, two), partition(1)), []string{"NO", "OO"}, "1/0: -0 Outdated\ncurrent: 1\nblocked: Terminating BudgetExhausted", "what is protected stays as it is, and does not stop the others"},
		{"protected replica gone", with(set(rolling, 2, unset, two), partition(1)), []string{"..", "NN"}, "0/0: ~0 Hole, ~1 Hole\nblocked: ProtectedDown", "it comes back at the stable revision"},
		{"protected replica at the target", with(set(rolling, 2, unset, two), partition(1)), []string{"N.", "NN"}, "0/0: +1 Hole\nblocked: WaitingForBase", "it runs the target, so it is repaired with it"},
		{"paused", with(set(rolling, 2, unset, two), paused), []string{"NO", "O."}, "1/0: ~1 Hole\nblocked: Paused ProtectedDown", "no replica is current; holes are filled"},
		{"paused, fresh", with(set(rolling, 2, unset, two), paused), []string{"NN", ".."}, "1/0: +0 Hole, +1 Hole\nblocked: WaitingForBase", "a replica without an old unit is born at the target"},
		{"paused and done", with(set(rolling, 1, unset, two), paused), []string{"NN"}, "converged", "nothing is outdated"},
		{"scale-in takes the highest", set(rolling, 1, unset, one), []string{"N", "O", "N"}, "1/0: -0 Condemned\n2/0: -0 Condemned\nblocked: Terminating", "the first alone is enough"},
		{"scale-in counts what serves and is old", set(rolling, 2, unset, one), []string{"O", "O", "O"}, "0/0: -0 Outdated\n2/0: -0 Condemned\ncurrent: 0\nblocked: Terminating WaitingForReplica",
			"the two of the base serve, whatever they run"},
		{"paused, a scale-in is finished", with(set(rolling, 2, unset, one), paused), []string{"O", "n", "O", "o"}, "2/0: -0 Condemned\n3/0: -0 Condemned\nblocked: Paused Terminating WaitingForBase",
			"a pause holds back revisions, not numbers"},
		{"scale-in keeps what serves", set(rolling, 2, unset, one), []string{"n", ".", "N", "N"}, "1/0: +0 Hole\n3/0: -0 Condemned\ncurrent: 0\nblocked: Terminating WaitingForBase", "one available replica stays while the base has none"},
		{"a leftover of which nothing serves", set(rolling, 2, unset, two), []string{"nn", "nn", "o.", ".t"}, "2/0: -0 Condemned\ncurrent: 0\nblocked: Terminating WaitingForBase", "no hole of it is filled"},
		{"a held leftover", set(rolling, 2, unset, two), []string{"nn", "nn", "O."}, "2/0: ~1 Hole\ncurrent: 0\nblocked: WaitingForBase ProtectedDown", "it is all that serves, so it is repaired"},
		{"a leftover stays where the plan takes the current replica down", set(rolling, 2, unset, units(2, 2, 0, 1)), []string{"NO", "nn", "OO"}, "0/0: -1 Outdated\ncurrent: 0\nblocked: Terminating WaitingForBase", "both were all that served, and one of two may be missing"},
		{"a leftover goes where the plan leaves the current replica what it needs", set(rolling, 2, unset, two), []string{"NO", "nn", "OO"}, "0/0: -1 Outdated\n2/0: -0 Condemned, -1 Condemned\ncurrent: 0\nblocked: Terminating WaitingForBase", "one of two serves"},
		{"leftovers of nothing", set(rolling, 0, unset, one), []string{"N"}, "0/0: -0 Condemned\nblocked: Terminating", "a set of no replicas needs none"},
		{"recreate, half deleted", set(recreate, 2, budgets(0, 1), plain(2, 1)), []string{"tO", "OO"}, "0/0: -1 Outdated\nblocked: Terminating BudgetExhausted", "a call that failed half-way: it is deleted to the end"},
		{"recreate, a surge beside a budget", set(recreate, 3, budgets(2, 1), plain(1, 1)), []string{"O", "O", "O"}, "0/0: -0 Outdated\n3/0: +0 Surge\n4/0: +0 Surge\nblocked: Terminating BudgetExhausted WaitingForSurge WaitingForBase",
			"replicas that no state lists yet are created with the rest of the plan"},
		{"recreate, half created", set(recreate, 2, budgets(0, 1), plain(2, 2)), []string{"n.", "OO"}, "0/0: +1 Hole\nblocked: BudgetExhausted WaitingForBase", "the rest is created at the target"},
		{"recreate, a hole in an old replica", set(recreate, 2, budgets(1, 0), plain(2, 1)), []string{"O.", "OO", "nn"}, "0/0: ~1 Hole\nblocked: BudgetExhausted WaitingForSurge WaitingForBase ProtectedDown", "its own revision, until its turn comes"},
		{"recreate, surge left over", set(recreate, 2, budgets(1, 0), plain(1, 1)), []string{"N", "N", "N"}, "2/0: -0 SurplusSurge\nblocked: Terminating", "the surge replica goes as a whole"},
		{"recreate, protected replica gone", with(set(recreate, 2, budgets(0, 1), plain(1, 1)), partition(1)), []string{".", "N"}, "0/0: ~0 Hole\nblocked: ProtectedDown", "it comes back at the stable revision"},
		{"recreate, a unit above a kept replica", set(recreate, 1, budgets(0, 1), plain(1, 1)), []string{"NN"}, "0/0: -1 SurplusSurge\nblocked: Terminating", "a component that shrank is finished"},
		{"recreate, a unit above that is needed", set(recreate, 1, budgets(0, 1), plain(1, 1)), []string{"nN"}, "blocked: WaitingForBase", "it makes the replica available; so it stays"},
		{"recreate, many units above", set(recreate, 1, budgets(0, 1), plain(1, 1)), []string{"nNnN"}, "0/0: -2 Condemned, -3 Condemned\nblocked: Terminating WaitingForBase", "one of them is enough"},
		{"recreate, scale-in", set(recreate, 1, budgets(0, 1), plain(1, 1)), []string{"O", "t", "O"}, "0/0: -0 Outdated\n2/0: -0 Condemned\nblocked: Terminating", "planned flat, floor 0"},
		{"recreate, paused", with(set(recreate, 2, budgets(1, 0), plain(1, 1)), paused), []string{"O", "."}, "1/0: +0 Hole\nblocked: Paused WaitingForBase", "a hole is filled, nothing old goes"},
		{"an unknown type rolls", set("Sideways", 2, unset, one), []string{"O", "O"}, "0/0: -0 Outdated\ncurrent: 0\nblocked: Terminating WaitingForReplica", "Validate refuses it; a plan is total"},
	} {
		if row.why == "" || names[row.name] {
			t.Errorf("row %q needs a name of its own and a reason", row.name)
		}
		names[row.name] = true
		t.Run(row.name, func(t *testing.T) {
			if got := planSet(t, row.spec, parseSet(t, row.state)).String(); got != row.want {
				t.Errorf("%q of %+v\ngot:\n%s\nwant:\n%s\nbecause %s", row.state, row.spec, got, row.want, row.why)
			}
		})
	}
}

// TestScaledApart: autoscalers scale the components of each replica of a set apart. A number behind a
// component is how many units it should have in that replica.
func TestScaledApart(t *testing.T) {
	rolling, recreate, unset := surge.RollingUpdate, surge.ReplicaRecreate, surge.UpdateStrategy{}
	two := units(2, 1, 0, 1)
	half := units(2, 1, 0, 1)
	half.UpdateStrategy.MaxUnavailable = concurrency.Percent(50)
	read := func(lines []string) surge.SetState {
		var state surge.SetState
		for _, line := range lines {
			var replica []surge.Units
			for component := range strings.FieldsSeq(line) {
				text, number, own := strings.Cut(component, ":")
				one := surge.Units{Slots: parse(t, text)}
				if own {
					n, err := strconv.Atoi(number)
					if err != nil {
						t.Fatal(err)
					}
					one.Replicas = &n
				}
				replica = append(replica, one)
			}
			state = append(state, replica)
		}
		return state
	}
	for _, row := range []struct {
		why   string
		spec  surge.SetSpec
		state []string
		want  string
	}{
		{"what an autoscaler added stays, and is updated", set(rolling, 2, unset, two), []string{"NNON:4", "OO"}, "0/0: -2 Outdated\ncurrent: 0\nblocked: Terminating WaitingForReplica"},
		{"without the number it goes", set(rolling, 2, unset, two), []string{"NNON", "OO"}, "0/0: -2 Condemned, -3 Condemned\ncurrent: 0\nblocked: Terminating WaitingForReplica"},
		{"a replica is complete once it has its own number", set(rolling, 2, unset, two), []string{"NNN.:4", "OO"}, "0/0: +3 Hole\ncurrent: 0\nblocked: WaitingForBase WaitingForReplica"},
		{"percentages are of its own number", set(rolling, 2, unset, half), []string{"OOOO:4", "OO"}, "0/0: -0 Outdated, -1 Outdated\ncurrent: 0\nblocked: Terminating BudgetExhausted WaitingForReplica"},
		{"a held one is filled to its own number", set(rolling, 2, unset, two), []string{"NO", "OO.:3"}, "0/0: -1 Outdated\n1/0: ~2 Hole\ncurrent: 0\nblocked: Terminating ProtectedDown WaitingForReplica"},
		{"what is above its own number goes, and is a start", set(rolling, 2, unset, two), []string{"OO", "OO:1"}, "1/0: -0 Outdated, -1 Condemned\ncurrent: 1\nblocked: Terminating WaitingForReplica"},
		{"but no second one while another is replaced", set(rolling, 2, unset, two), []string{"Nn", "OOO:2"}, "1/0: -2 Condemned\ncurrent: 0\nblocked: Terminating WaitingForBase WaitingForReplica"},
		{"nor while another is short of a unit, to replace it", set(rolling, 2, unset, two), []string{"tO", "OOO:2"}, "1/0: -2 Condemned\ncurrent: 0\nblocked: Terminating BudgetExhausted WaitingForReplica"},
		{"nor while nothing of another is left", set(rolling, 2, unset, units(2, 1, 0, 2)), []string{"tt:1", "OO:1"}, "1/0: -1 Condemned\ncurrent: 0\nblocked: Terminating WaitingForReplica"},
		{"of one that waits nothing that serves goes while a unit of it is broken: with the current one, the whole set would be down", set(rolling, 2, unset, units(2, 2, 0, 1)), []string{"tN", "oOO"}, "current: 0\nblocked: Terminating ProtectedDown WaitingForReplica"},
		{"nor of one at the target", set(rolling, 2, unset, units(2, 2, 0, 1)), []string{"nNN", "nO"}, "current: 1\nblocked: BudgetExhausted WaitingForBase"},
		{"what does not serve goes, and so does what is above its number and one more", set(rolling, 2, unset, units(2, 2, 1, 1)), []string{"tN", "oOOuO"}, "1/0: -3 Condemned, -4 Condemned\ncurrent: 0\nblocked: Terminating ProtectedDown WaitingForReplica"},
		{"nor of one that is paused in the middle, where the budget is all of it", with(set(rolling, 1, unset, units(1, 1, 0, 1)), func(s *surge.SetSpec) { s.Paused = true }), []string{".O"}, "0/0: ~0 Hole\nblocked: Paused ProtectedDown"},
		{"the current one spends its own budget", set(rolling, 1, unset, units(2, 2, 0, 1)), []string{"nNN"}, "0/0: -2 Condemned\ncurrent: 0\nblocked: Terminating WaitingForBase"},
		{"scaled to nothing, it is complete", set(rolling, 2, unset, two), []string{".:0", "NN"}, "converged"},
		{"under ReplicaRecreate as well", set(recreate, 2, budgets(1, 0), plain(2, 1)), []string{".:0", "NN"}, "converged"},
		{"there it serves as far as it should, and does not stop the others", set(recreate, 2, budgets(0, 1), plain(2, 1)), []string{".:0", "OO"}, "1/0: -0 Outdated, -1 Outdated\nblocked: Terminating"},
		{"all are scaled to nothing, and what is left goes", set(recreate, 1, unset, plain(2, 1)), []string{"NN:0"}, "0/0: -0 Condemned, -1 Condemned\nblocked: Terminating"},
		{"the set alone would have none", set(recreate, 1, unset, plain(0, 0)), []string{".:1"}, "0/0: +0 Hole\nblocked: WaitingForBase"},
		{"a surge replica would have none either, so one is given up instead", set(recreate, 1, budgets(1, 0), plain(0, 0)), []string{"O:1"}, "0/0: -0 Outdated\nblocked: Terminating"},
		{"what should have nothing has what it needs, so a leftover that serves need not stay for it", set(rolling, 2, unset, two), []string{".:0", ".:0", "NN:2"}, "2/0: -0 Condemned, -1 Condemned\nblocked: Terminating"},
		{"but not before what it has is gone (TestSetReference, -rapid.seed=6661502)", set(rolling, 2, unset, two), []string{"N:0", "nn", "NN:2"}, "0/0: -0 Condemned\ncurrent: 0\nblocked: Terminating WaitingForBase"},
		{"which plans see as on its way", set(rolling, 2, unset, two), []string{"t:0", "nn", "NN:2"}, "current: 1\nblocked: Terminating WaitingForBase"},
		{"a surge replica that should have nothing is of no use: the last that serves stays", set(recreate, 2, budgets(1, 1), plain(1, 1)), []string{".", "O", "n:0"}, "0/0: +0 Hole\n2/0: -0 SurplusSurge\nblocked: Terminating BudgetExhausted WaitingForSurge WaitingForBase"},
		{"a recreated replica has its own number", set(recreate, 2, budgets(0, 1), plain(2, 1)), []string{".:3", "OO"}, "0/0: +0 Hole, +1 Hole, +2 Hole\nblocked: BudgetExhausted WaitingForBase"},
		{"a kept one is filled to it", set(recreate, 2, budgets(0, 1), plain(2, 1)), []string{"nn.:3", "OO"}, "0/0: +2 Hole\nblocked: BudgetExhausted WaitingForBase"},
	} {
		state := read(row.state)
		plan := planSet(t, row.spec, state)
		if got := plan.String(); got != row.want {
			t.Errorf("%s: got\n%s\nwant\n%s", row.why, got, row.want)
		}
		next := state.Apply(plan)
		if own := state[0][0].Replicas; own != nil && (next[0][0].Replicas == own || *next[0][0].Replicas != *own) {
			t.Errorf("%s: applied, the number is %v", row.why, next[0][0].Replicas)
		}
	}

	// A replica that should have no unit looked absent to Diagnose, which took the update for one that
	// has something to do.
	stuck := set(recreate, 2, budgets(0, 1), plain(2, 2))
	var slots []surge.Slot
	for _, replica := range planSet(t, stuck, read([]string{"nn", ".:0"})).Replicas {
		slots = append(slots, replica.Slot)
	}
	if got, want := surge.Diagnose(stuck.Flat(), slots, nil).String(), "TargetNotReady [0]: publish a working revision, or go back to the old one"; got != want {
		t.Errorf("beside a replica that should have nothing: got %q, want %q", got, want)
	}

	// A surge that should have no unit looked absent too, and nothing said that the update waits for it
	// in vain. What is said to help does.
	hollow, state := set(recreate, 1, budgets(1, 0), plain(1, 1)), read([]string{"O", ".:0"})
	plan := planSet(t, hollow, state)
	slots = slots[:0]
	for _, replica := range plan.Replicas {
		slots = append(slots, replica.Slot)
	}
	diagnosis := surge.Diagnose(hollow.Flat(), slots, nil)
	if !plan.Empty() || plan.Converged || diagnosis.Stuck != surge.SurgeNotReady || fmt.Sprint(diagnosis.Indices) != "[1]" || diagnosis.MaxUnavailable != 1 {
		t.Errorf("a surge that should have nothing: got %v, %v with %d", plan, diagnosis, diagnosis.MaxUnavailable)
	}
	if progress := plan.Progress(hollow); progress.Replicas != 1 || progress.AvailableReplicas != 1 {
		t.Errorf("a surge that should have nothing: got %+v, want one replica that lives", progress)
	}
	hollow.UpdateStrategy.RollingUpdate = surge.UpdateStrategy{MaxSurge: concurrency.Count(0), MaxUnavailable: concurrency.Count(diagnosis.MaxUnavailable)}
	if plan := planSet(t, hollow, state); plan.Empty() {
		t.Errorf("without that surge: got %v", plan)
	}

	// One that has something to create is absent as long as it is not created: it may well serve.
	plan = planSet(t, set(recreate, 1, budgets(1, 0), plain(1, 1)), read([]string{"O"}))
	if got := plan.Replicas[1]; got.Slot != surge.Absent || plan.Empty() {
		t.Errorf("a surge that is created: got slot %q in %v", got.Slot, plan)
	}
	// A set without replicas whose components have units still has room for a surge, which is not
	// needed.
	plan = planSet(t, set(recreate, 0, budgets(1, 0), plain(1, 1)), read([]string{"O"}))
	if got, want := plan.String(), "0/0: -0 SurplusSurge\nblocked: Terminating"; got != want {
		t.Errorf("a set without replicas: got\n%s\nwant\n%s", got, want)
	}

	// With the count of a component that was scaled up the update goes on, but the count may be
	// more than the component has by itself. Raising that changes nothing else where the units have
	// a number.
	scaled, state := set(rolling, 1, unset, plain(2, 0)), read([]string{"nnOOOOn:6"})
	giveUp := func(replicas, unavailable int) surge.SetSpec {
		spec := set(rolling, 1, unset, plain(replicas, 0))
		spec.Components[0].UpdateStrategy = &surge.UpdateStrategy{MaxSurge: concurrency.Count(0), MaxUnavailable: concurrency.Count(unavailable)}
		return spec
	}
	flat := scaled.Components[0].Flat()
	flat.Replicas, flat.MaxSurge, flat.MaxUnavailable = 6, concurrency.Count(1), concurrency.Count(2)
	most := surge.Diagnose(flat, state[0][0].Slots, nil).MaxUnavailable
	if err := giveUp(2, most).Validate(); most != 3 || err == nil || !strings.Contains(err.Error(), "must be at most replicas, 2") {
		t.Errorf("got %d, which is valid: %v", most, err)
	}
	const goesOn = "0/0: -2 Outdated, -6 Condemned\ncurrent: 0\nblocked: Terminating BudgetExhausted WaitingForBase"
	for _, replicas := range []int{2, 3} {
		if plan := planSet(t, giveUp(replicas, most), state); plan.String() != goesOn {
			t.Errorf("with %d replicas: got\n%s\nwant\n%s", replicas, plan, goesOn)
		}
	}
	if err := giveUp(3, most).Validate(); err != nil {
		t.Error(err)
	}

	var gangs []string
	for _, gang := range surge.SetGangs(set(rolling, 2, unset, surge.Component{Kind: surge.PodCliqueScalingGroup, Replicas: 1, MinAvailable: 1}), read([]string{"O:3", "O"})) {
		gangs = append(gangs, fmt.Sprint(gang.Replica, gang.Members))
	}
	if want := "0 [{0 0 1}] 0 [{0 1 2}] 0 [{0 2 3}] 1 [{0 0 1}]"; strings.Join(gangs, " ") != want {
		t.Errorf("gangs are listed up to the own number: got %v, want %s", gangs, want)
	}
	_, err := surge.PlanSet(set(rolling, 1, unset, two, two), read([]string{"O:-1 O:16777217", "O:16777216 O:-2"}))
	if diff := gocmp.Diff([]string{"out_of_range state[0][0].replicas: -1: must be within 0 and 16777216", "out_of_range state[0][1].replicas: 16777217: must be within 0 and 16777216",
		"out_of_range state[1][1].replicas: -2: must be within 0 and 16777216"}, lines(t, err)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got := len(surge.SetGangs(set(rolling, 1, unset, two), read([]string{"O:-1"}))); got != 1 {
		t.Errorf("%d gangs of a number that is refused", got)
	}
}

// TestFold has a row for each rule.
func TestFold(t *testing.T) {
	of := func(replicas, minAvailable int, state string) surge.Member {
		return surge.Member{Slots: parse(t, state), Replicas: replicas, MinAvailable: minAvailable}
	}
	for _, row := range []struct {
		why     string
		members []surge.Member
		want    surge.Slot
	}{
		{"nothing at all", nil, surge.Absent},
		{"nothing lives", []surge.Member{of(1, 1, "."), of(2, 1, "..")}, surge.Absent},
		{"nothing lives, and something is on its way out", []surge.Member{of(1, 1, "."), of(2, 1, ".t")}, surge.Terminating},
		{"an old unit lives, and every member has what it needs", []surge.Member{of(1, 1, "N"), of(2, 1, "Oo")}, surge.OldAvailable},
		{"no unit was ever scheduled", []surge.Member{of(1, 1, "u"), of(2, 1, "u.")}, surge.OldUnscheduled},
		{"one was", []surge.Member{of(1, 1, "u"), of(2, 1, "o.")}, surge.OldUnavailable},
		{"a new one was", []surge.Member{of(1, 1, "u"), of(2, 1, "n.")}, surge.OldUnavailable},
		{"all new, and every member has what it needs", []surge.Member{of(1, 1, "N"), of(2, 1, "Nn")}, surge.TargetAvailable},
		{"all new, and one member has not", []surge.Member{of(1, 1, "N"), of(2, 2, "Nn")}, surge.TargetUnavailable},
		{"a surge unit counts", []surge.Member{of(2, 2, "nNN")}, surge.TargetAvailable},
		{"one unit is needed even if no minimum is set", []surge.Member{of(2, 0, "nn")}, surge.TargetUnavailable},
		{"more than there should be is not needed", []surge.Member{of(1, 3, "N")}, surge.TargetAvailable},
		{"what needs nothing has it, even of a unit that was never scheduled", []surge.Member{of(0, 0, "u")}, surge.OldAvailable},
		{"a member without replicas needs nothing", []surge.Member{of(0, 1, ""), of(1, 1, "N")}, surge.TargetAvailable},
	} {
		if got := surge.Fold(row.members); got != row.want {
			t.Errorf("%s: got %s, want %s", row.why, got, row.want)
		}
	}
}

func TestPlanSetRevisions(t *testing.T) {
	spec := set("", 2, surge.UpdateStrategy{}, units(3, 1, 0, 1))
	old := func(state string, revisions ...string) []surge.Units {
		return []surge.Units{{Slots: parse(t, state), Revisions: revisions}}
	}
	plan := planSet(t, spec, surge.SetState{old("OOO"), old("OO.", "v1", "v2")})
	if plan.Current != 1 || plan.Replicas[1].Revision != "v1" {
		t.Errorf("a replica of two old revisions was started:\n%v", plan)
	}
	plan = planSet(t, spec, surge.SetState{old("OOO", "v1", "v1", "v1"), old("O.O", "v2", "ignored", "v2")})
	if plan.Current != 1 || plan.Replicas[0].Revision != "v1" || plan.Replicas[1].Revision != "v2" {
		t.Errorf("neither is mixed, the second misses a unit:\n%v", plan)
	}
	state := surge.SetState{old("NOO", "", "v1", "v1"), old(".OO", "", "v2", "v2")}
	plan = planSet(t, spec, state)
	next := state.Apply(plan)
	if got := formatSet(next); got != "NtO | oOO" || next[1][0].Revisions[0] != "v2" {
		t.Errorf("%s, %v", got, next[1][0].Revisions)
	}
	next[0][0].Slots[0], next[1][0].Revisions[1] = surge.Absent, "changed"
	if formatSet(state) != "NOO | .OO" || state[1][0].Revisions[1] != "v2" {
		t.Error("Apply shares memory with its input")
	}

	fresh := surge.SetState{old(".OO", "", "v1", "v1"), old("NNN")}
	if got := fresh.Apply(planSet(t, spec, fresh))[0][0]; formatSet(surge.SetState{{got}}) != "nOO" || got.Revisions[0] != "" {
		t.Errorf("what is created at the target has the name of another revision: %+v", got)
	}
	odd := surge.SetResult{Replicas: []surge.ReplicaResult{{Revision: "v1", Components: []surge.Result{{Actions: []surge.Action{{Index: 3, Op: surge.Delete, Revision: surge.Stable}, {Index: -1, Op: surge.Create, Revision: surge.Stable}}}}}}}
	if got := fresh.Apply(odd)[0][0]; formatSet(surge.SetState{{got}}) != ".OO" || sprint(got.Revisions) != "[ v1 v1]" {
		t.Errorf("actions outside of the slots change %+v", got)
	}
	// Carried out on a state that has moved on, a creation changes nothing, least of all what
	// another unit runs.
	moved := surge.SetState{old("NOO", "", "v1", "v1"), old("OOO", "v3", "v2", "v2")}
	if got := moved.Apply(plan)[1][0]; formatSet(surge.SetState{{got}}) != "OOO" || got.Revisions[0] != "v3" {
		t.Errorf("a creation on a taken index renames its unit: %+v", got)
	}

	_, err := surge.PlanSet(spec, surge.SetState{nil, {{}, {}}, {{Revisions: []string{"v1"}}}})
	want := []string{"out_of_range state[1]: 2 components: the set has 1: keep a removed component with 0 replicas until its units are gone",
		"out_of_range state[2][0].revisions: 1 entries: there are 0 slots"}
	if diff := gocmp.Diff(want, lines(t, err)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	rest := surge.SetState{old("OO", "v1", "v1")}
	same := rest.Apply(surge.SetResult{})
	if formatSet(same) != "OO" || !slices.Equal(same[0][0].Revisions, rest[0][0].Revisions) {
		t.Errorf("an empty plan changes nothing, got %v", same)
	}
	if same[0][0].Slots[0], same[0][0].Revisions[0] = surge.Absent, "v2"; formatSet(rest) != "OO" || rest[0][0].Revisions[0] != "v1" {
		t.Error("after an empty plan the result shares memory with its input")
	}
	if got := planSet(t, spec, surge.SetState{{}, nil}).String(); got != planSet(t, spec, nil).String() {
		t.Errorf("what a state does not list is absent, got %s", got)
	}
	removed := planSet(t, set("", 0, surge.UpdateStrategy{}, units(1, 1, 0, 1), units(1, 1, 0, 1)), surge.SetState{append(old("O"), old(".")...)})
	if c := removed.Replicas[0].Components; c[0].Blocked != surge.BlockedTerminating || c[1].Blocked != 0 {
		t.Errorf("a component without units waits for nothing: %v", c)
	}
	narrow := surge.SetResult{Replicas: []surge.ReplicaResult{{Components: []surge.Result{{Actions: []surge.Action{{Index: 0, Op: surge.Delete}}}}}}}
	if got := formatSet(surge.SetState{append(old("OO"), old("NN")...)}.Apply(narrow)); got != "tO NN" {
		t.Errorf("a component that the plan does not know stays as it is, got %s", got)
	}
	for _, row := range []struct {
		why      string
		state    []surge.Units
		revision string
		want     []string
	}{
		{"nobody names revisions", old("O."), "", nil},
		{"the plan names one, the state none", []surge.Units{{Slots: parse(t, "O.")}}, "v1", []string{"", "v1"}},
		{"the state names one, the plan none", old("O.", "v1"), "", []string{"v1", ""}},
		{"both do", old("O.", "v1"), "v1", []string{"v1", "v1"}},
	} {
		plan := surge.SetResult{Replicas: []surge.ReplicaResult{{Revision: row.revision, Components: []surge.Result{{Actions: []surge.Action{
			{Index: 1, Op: surge.Create, Revision: surge.Stable}, {Index: 0, Op: surge.Delete}, {Index: -1, Op: surge.Create, Revision: surge.Stable},
			{Index: math.MaxInt, Op: surge.Create, Revision: surge.Stable},
		}}}}}}
		if got := (surge.SetState{row.state}).Apply(plan); formatSet(got) != "to" || !slices.Equal(got[0][0].Revisions, row.want) {
			t.Errorf("%s: got %s %q", row.why, formatSet(got), got[0][0].Revisions)
		}
	}
}

// TestSetUpdated: a set is updated once every replica serves at the target, or is complete, if it is
// not recreated.
func TestSetUpdated(t *testing.T) {
	for _, row := range []struct {
		state             string
		rolling, recreate bool
	}{
		{"OO OO", false, false}, {"NN OO", false, false}, {"NN NO", false, false}, {"NN Nn", false, false}, {"NN NN", true, true}, {"NN NN OO", true, true},
	} {
		for kind, want := range map[surge.StrategyType]bool{surge.RollingUpdate: row.rolling, surge.ReplicaRecreate: row.recreate} {
			plan := planSet(t, set(kind, 2, surge.UpdateStrategy{}, plain(2, 2)), parseSet(t, strings.Fields(row.state)))
			if plan.Updated != want {
				t.Errorf("%s of %s: updated %v, want %v", kind, row.state, plan.Updated, want)
			}
		}
	}
}

func TestSetProgress(t *testing.T) {
	spec := set("", 3, surge.UpdateStrategy{}, units(2, 1, 0, 1))
	p := planSet(t, spec, parseSet(t, []string{"NN", "NO", "OO", "OO"})).Progress(spec)
	if p.UpdatedReplicas != 1 || sprint(p.Updating) != "[1]" || sprint(p.Updated) != "[0]" || p.AvailableReplicas != 4 || p.Replicas != 4 {
		t.Errorf("got %+v", p)
	}
	if p := planSet(t, spec, parseSet(t, []string{"NN", "NN", "NN"})).Progress(spec); p.UpdatedReplicas != 3 || p.Updating != nil {
		t.Errorf("got %+v", p)
	}
	if p := planSet(t, with(spec, func(s *surge.SetSpec) { s.Paused = true }), parseSet(t, []string{"NN", "nn", "OO"})).Progress(spec); p.Updating != nil {
		t.Errorf("a paused set has no current replica: got %+v", p)
	}
	spec = set(surge.ReplicaRecreate, 3, budgets(0, 2), plain(2, 1))
	surging := set(surge.ReplicaRecreate, 2, budgets(1, 0), plain(1, 1))
	if p := planSet(t, surging, parseSet(t, []string{"N", "O", "N"})).Progress(surging); p.UpdatedReplicas != 1 || sprint(p.Updated) != "[0]" || p.Replicas != 3 {
		t.Errorf("a complete surge replica is no updated one: %+v", p)
	}
	empty := set(surge.ReplicaRecreate, 2, budgets(1, 0), plain(0, 0))
	if plan := planSet(t, empty, nil); !plan.Converged || len(plan.Progress(empty).Updating) > 0 || sprint(plan.Progress(empty).Updated) != "[0 1]" {
		t.Errorf("replicas without any unit are absent at rest, and not in replacement: %+v", plan.Progress(empty))
	}
	p = planSet(t, spec, parseSet(t, []string{"N.", "NN", "OO"})).Progress(spec)
	if p.UpdatedReplicas != 1 || sprint(p.Updating) != "[2]" || sprint(p.Updated) != "[1]" {
		t.Errorf("got %+v", p)
	}
	for _, kind := range []surge.StrategyType{surge.RollingUpdate, surge.ReplicaRecreate} {
		two, three := set(kind, 2, surge.UpdateStrategy{}, plain(1, 1)), set(kind, 3, surge.UpdateStrategy{}, plain(1, 1))
		updating := "[]"
		if kind == surge.ReplicaRecreate {
			updating = "[2]"
		}
		if p := planSet(t, two, parseSet(t, []string{"N", "N"})).Progress(three); p.UpdatedReplicas != 2 || sprint(p.Updating) != updating {
			t.Errorf("%s, scaled up since the plan: got %+v", kind, p)
		}
	}
	// What the plan recreates lives until it is deleted, wherever it stands by now.
	one, two := set(surge.ReplicaRecreate, 1, budgets(0, 1), plain(1, 1)), set(surge.ReplicaRecreate, 2, budgets(0, 1), plain(1, 1))
	if p := planSet(t, two, parseSet(t, []string{"N", "O"})).Progress(one); p.Replicas != 2 || p.AvailableReplicas != 2 {
		t.Errorf("scaled down since the plan, with a replica that it deletes: got %+v", p)
	}
}

func TestProgressStarted(t *testing.T) {
	early := time.Date(2025, 1, 15, 10, 0, 0, 0, time.UTC)
	now := early.Add(5 * time.Minute)
	p := surge.Progress{Updating: []int{0, 1}, Updated: []int{2, 3}}
	got := p.Started([]surge.Updating{{ReplicaIndex: 0, UpdateStartedAt: early}, {ReplicaIndex: 4, UpdateStartedAt: early}}, now)
	data, err := json.Marshal(got)
	if want := `[{"replicaIndex":0,"updateStartedAt":"2025-01-15T10:00:00Z"},{"replicaIndex":1,"updateStartedAt":"2025-01-15T10:05:00Z"}]`; err != nil || string(data) != want {
		t.Errorf("got %s, want %s", data, want)
	}
	if again := p.Started(got, early); !slices.Equal(again, got) {
		t.Errorf("a clock that was set back gives %v for %v", again, got)
	}
	if (surge.Progress{}).Started(got, now) != nil {
		t.Error("nothing is updating")
	}
	data, err = json.Marshal(struct {
		A surge.Selected `json:"readyPodsSelectedToUpdate"`
		B surge.Selected `json:"empty"`
	}{A: p.Names(func(index int) string { return "pod-" + strconv.Itoa(index) })})
	if want := `{"readyPodsSelectedToUpdate":{"current":["pod-0","pod-1"],"completed":["pod-2","pod-3"]},"empty":{}}`; err != nil || string(data) != want {
		t.Errorf("got %s, want %s", data, want)
	}
	data, err = json.Marshal(surge.Progress{UpdatedReplicas: 1, AvailableReplicas: 2, Replicas: 3, Updating: []int{0}, Updated: []int{1}})
	if want := `{"updatedReplicas":1,"availableReplicas":2,"replicas":3}`; err != nil || string(data) != want {
		t.Errorf("got %s, want %s", data, want)
	}
	// Surges and what lies above never count, and of the protected ones only those that serve at
	// the target.
	spec := change(budget(4, 1, 0), func(s *surge.Spec) { s.Partition = 2 })
	slots := parse(t, "Nn.tNN")
	q := surge.Project(spec, slots, surge.Plan(spec, slots))
	if q.UpdatedReplicas != 1 || sprint(q.Updating) != "[2 3]" || q.AvailableReplicas != 3 || q.Replicas != 4 {
		t.Errorf("got %+v", q)
	}
	// An index in front of the first deletion is not in replacement.
	spec = change(budget(3, 0, 1), func(s *surge.Spec) { s.Order = surge.Descending })
	slots = parse(t, "OOO")
	if q := surge.Project(spec, slots, surge.Plan(spec, slots)); sprint(q.Updating) != "[2]" {
		t.Errorf("got %+v", q)
	}
}

func TestParsePodCliqueSet(t *testing.T) {
	manifest := `{
		"apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "metadata": {"name": "inference"},
		"spec": {
			"replicas": 2,
			"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}},
			"template": {
				"cliqueStartupType": "CliqueStartupTypeAnyOrder", "terminationDelay": "4h",
				"cliques": [
					{"name": "leader", "spec": {"roleName": "leader", "podSpec": {"containers": []}, "replicas": 1}},
					{"name": "frontend", "labels": {"a": "b"}, "spec": {"replicas": 3, "minAvailable": 2, "podSpec": {}}, "updateStrategy": {"maxSurge": "34%"}},
					{"name": "worker", "replicas": 4},
					{"name": "router"}
				],
				"podCliqueScalingGroups": [
					{"name": "decode", "cliqueNames": ["worker", "leader"], "replicas": 2, "scaleConfig": {"maxReplicas": 5}, "updateStrategy": {"maxUnavailable": 0, "maxSurge": 1}},
					{"name": "prefill"}
				]}}}`
	got, _, err := surge.ParsePodCliqueSet([]byte(manifest))
	if err != nil {
		t.Fatal(err)
	}
	b := budgets(1, 0)
	want := surge.SetSpec{
		Replicas:       2,
		UpdateStrategy: surge.SetUpdateStrategy{Type: surge.RollingUpdate, RollingUpdate: budgets(0, 1)},
		Components: []surge.Component{
			{Name: "frontend", Kind: surge.PodClique, Replicas: 3, MinAvailable: 2, UpdateStrategy: &surge.UpdateStrategy{MaxSurge: concurrency.Percent(34)}},
			{Name: "router", Kind: surge.PodClique, Replicas: 1, MinAvailable: 1},
			{Name: "decode", Kind: surge.PodCliqueScalingGroup, Replicas: 2, MinAvailable: 1, UpdateStrategy: &b, Cliques: []surge.Clique{
				{Name: "worker", Replicas: 4, MinAvailable: 4}, {Name: "leader", Replicas: 1, MinAvailable: 1}}},
			{Name: "prefill", Kind: surge.PodCliqueScalingGroup, Replicas: 1, MinAvailable: 1},
		},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	if options, _, err := surge.ParsePodCliqueSet([]byte(`{"spec":{"replicas":3,"partition":2,"paused":true,"template":{}}}`)); err != nil || options.Partition != 2 || !options.Paused {
		t.Errorf("got %+v, %v", options, err)
	}

	for _, row := range []struct {
		why, doc string
		want     []string
	}{
		{"no spec, which is not a set of no replicas", `{"kind":"PodCliqueSet","metadata":{"name":"a"}}`, []string{
			"required spec: must be given: it holds the replicas and the template"}},
		{"nothing at all, and another kind", `{"kind":"PodClique","spec":null}`, []string{
			`unknown_value kind: "PodClique": must be "PodCliqueSet"`}},
		{"another kind with a replica count that no set may have", `{"kind":"Deployment","spec":{"replicas":-1}}`, []string{`unknown_value kind: "Deployment": must be "PodCliqueSet"`}},
		{"wrong forms, all at once", `{"spec":{"replicas":"2","template":{"cliques":[{"name":"a","updateStrategy":{"maxSurge":"5","maxUnavailable":-1}},{"nam":"b"}]}}}`, []string{
			"type spec.replicas: must be a whole number, not a string: leave the quotes out",
			`type spec.template.cliques[0].updateStrategy.maxSurge: "5": must not be in quotes, which are for percentages: write 5`,
			`type spec.template.cliques[0].updateStrategy.maxUnavailable: -1: must be a count from 0 to 2147483647 such as 5, or a percentage from "0%" to "100%" such as "20%"`,
			`unknown_field spec.template.cliques[1].nam: unknown field; did you mean "name"?`}},
		{"a bare spec, as the flat forms are written", `{"replicas":2,"template":{"cliques":[]},"name":"x"}`, []string{
			"unknown_field replicas: unknown field: its place is below spec", "unknown_field template: unknown field: its place is below spec", "unknown_field name: unknown field"}},
		{"what stands at the wrong place, twice", `{"paused":true,"paused":false,"spec":{"template":{"cliques":[{"name":"a","updateStrategy":{"type":"x","type":"y"}}]}}}`, []string{
			"unknown_field paused: unknown field: its place is below spec", "duplicate paused: given twice",
			"unknown_field spec.template.cliques[0].updateStrategy.type: unknown field: the updateStrategy of a component holds maxUnavailable and maxSurge themselves; only spec.updateStrategy has a type",
			"duplicate spec.template.cliques[0].updateStrategy.type: given twice"}},
		{"another kind", `{"kind":"Deployment","spec":{}}`, []string{`unknown_value kind: "Deployment": must be "PodCliqueSet"`}},
		{"another kind, of which nothing else counts", `{"kind":"PodClique","spec":{"roleName":"r","podSpec":{},"replicas":"2"}}`, []string{`unknown_value kind: "PodClique": must be "PodCliqueSet"`}},
		{"several sets at once", `{"kind":"List","items":[{"kind":"PodCliqueSet"}],"metadata":{"resourceVersion":""}}`, []string{`unknown_value kind: "List": must be "PodCliqueSet": read each item of a list by itself`}},
		{"a strategy on a member", `{"spec":{"template":{"cliques":[{"name":"a","updateStrategy":{}}],"podCliqueScalingGroups":[{"name":"g","cliqueNames":["a"]}]}}}`, []string{
			`conflict spec.template.cliques[0].updateStrategy: must be left out: the clique is updated with its scaling group, "g"`}},
		{"strategies under ReplicaRecreate", `{"spec":{"replicas":1,"updateStrategy":{"type":"ReplicaRecreate"},"template":{"cliques":[{"name":"a","updateStrategy":{"maxUnavailable":1}}],"podCliqueScalingGroups":[{"name":"g","updateStrategy":{}}]}}}`, []string{
			"conflict spec.template.cliques[0].updateStrategy: must be left out under ReplicaRecreate, which recreates all components together",
			"conflict spec.template.podCliqueScalingGroups[0].updateStrategy: must be left out under ReplicaRecreate, which recreates all components together"}},
		{"budgets under RollingUpdate", `{"spec":{"replicas":4,"updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":1}},"template":{}}}`, []string{
			"conflict spec.updateStrategy.rollingUpdate.maxSurge: 1: a RollingUpdate takes one replica of the set at a time: leave it out, or use the type ReplicaRecreate"}},
		{"counts at their place", `{"spec":{"replicas":-1,"template":{"cliques":[{"name":"a","spec":{"replicas":2,"minAvailable":3}},{"name":"b","replicas":2,"minAvailable":3,"updateStrategy":{"maxUnavailable":3}}],"podCliqueScalingGroups":[{"name":"g","replicas":-1,"cliqueNames":["c"]},{"name":"h","cliqueNames":["d"]}]}}}`, []string{
			`unknown_value spec.template.podCliqueScalingGroups[0].cliqueNames[0]: "c": is not a clique of the template`,
			`unknown_value spec.template.podCliqueScalingGroups[1].cliqueNames[0]: "d": is not a clique of the template`,
			"out_of_range spec.replicas: -1: must not be negative",
			"out_of_range spec.template.cliques[0].spec.minAvailable: 3: must be at most replicas, 2",
			"out_of_range spec.template.cliques[1].updateStrategy.maxUnavailable: 3: must be at most replicas, 2",
			"out_of_range spec.template.cliques[1].minAvailable: 3: must be at most replicas, 2",
			"out_of_range spec.template.podCliqueScalingGroups[0].replicas: -1: must not be negative"}},
		{"the counts of a member", `{"spec":{"template":{"cliques":[{"name":"x"},{"name":"a","spec":{"replicas":-2}}],"podCliqueScalingGroups":[{"name":"f"},{"name":"g","cliqueNames":["a"]}]}}}`, []string{
			"out_of_range spec.template.cliques[1].spec.replicas: -2: must not be negative"}},
		{"a clique in two groups", `{"spec":{"template":{"cliques":[{"name":"a"}],"podCliqueScalingGroups":[{"name":"g","cliqueNames":["a"]},{"name":"h","cliqueNames":["a"]}]}}}`, []string{
			`duplicate spec.template.podCliqueScalingGroups[1].cliqueNames[0]: "a": is a member of spec.template.podCliqueScalingGroups[0] already`}},
		{"a clique twice in one group", `{"spec":{"template":{"cliques":[{"name":"a"}],"podCliqueScalingGroups":[{"name":"g","cliqueNames":["a","a"]}]}}}`, []string{
			`duplicate spec.template.podCliqueScalingGroups[0].cliqueNames[1]: "a": is a member of spec.template.podCliqueScalingGroups[0] already`}},
		{"counts twice", `{"spec":{"template":{"cliques":[{"name":"a","replicas":1,"minAvailable":1,"spec":{"replicas":1,"minAvailable":1}}]}}}`, []string{
			"conflict spec.template.cliques[0].replicas: 1: is given in spec, too", "conflict spec.template.cliques[0].minAvailable: 1: is given in spec, too"}},
		{"a count of each place", `{"spec":{"template":{"cliques":[{"name":"a","minAvailable":3,"spec":{"replicas":2}},{"name":"b","replicas":2,"spec":{"minAvailable":3}}]}}}`, []string{
			"out_of_range spec.template.cliques[0].minAvailable: 3: must be at most replicas, 2", "out_of_range spec.template.cliques[1].spec.minAvailable: 3: must be at most replicas, 2"}},
		{"the strategy of a set on a component", `{"spec":{"template":{"cliques":[{"name":"a","updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":1}}}],"updateStrategy":{}}}}`, []string{
			"unknown_field spec.template.cliques[0].updateStrategy.type: unknown field: the updateStrategy of a component holds maxUnavailable and maxSurge themselves; only spec.updateStrategy has a type",
			"unknown_field spec.template.cliques[0].updateStrategy.rollingUpdate: unknown field: the updateStrategy of a component holds maxUnavailable and maxSurge themselves; only spec.updateStrategy has a type",
			`unknown_field spec.template.updateStrategy: unknown field; it stands beside "template"`}},
		{"both forms of a budget", `{"spec":{"template":{"cliques":[{"name":"a","rollingUpdate":{},"updateStrategy":{}}],"podCliqueScalingGroups":[{"name":"g","rollingUpdate":{},"updateStrategy":{}}]}}}`, []string{
			"conflict spec.template.podCliqueScalingGroups[0].rollingUpdate: is the released form of updateStrategy, which is given, too: keep one of them",
			"conflict spec.template.cliques[0].rollingUpdate: is the released form of updateStrategy, which is given, too: keep one of them"}},
		{"both forms, and the fault is in the one that counts", `{"spec":{"template":{"cliques":[{"name":"a","rollingUpdate":{},"updateStrategy":{"maxUnavailable":"200%"}},{"name":"b","spec":{"rollingUpdate":{}},"updateStrategy":{"maxUnavailable":0}}],"podCliqueScalingGroups":[{"name":"g","rollingUpdate":{},"updateStrategy":{"maxUnavailable":2}}]}}}`, []string{
			"conflict spec.template.podCliqueScalingGroups[0].rollingUpdate: is the released form of updateStrategy, which is given, too: keep one of them",
			"conflict spec.template.cliques[0].rollingUpdate: is the released form of updateStrategy, which is given, too: keep one of them",
			"conflict spec.template.cliques[1].spec.rollingUpdate: is the released form of updateStrategy, which is given, too: keep one of them",
			`out_of_range spec.template.cliques[0].updateStrategy.maxUnavailable: "200%": must be at most 100%`,
			"conflict spec.template.cliques[1].updateStrategy.maxUnavailable: 0: maxSurge is 0 too, so nothing could ever be updated: raise one of them",
			"out_of_range spec.template.podCliqueScalingGroups[0].updateStrategy.maxUnavailable: 2: must be at most replicas, 1"}},
		{"a released budget twice", `{"spec":{"template":{"cliques":[{"name":"a","rollingUpdate":{"maxUnavailable":1},"spec":{"rollingUpdate":{"maxUnavailable":2}}}]}}}`, []string{
			"conflict spec.template.cliques[0].rollingUpdate: is given in spec, too"}},
		{"budgets that Grove refuses, too", `{"spec":{"template":{"cliques":[{"name":"a","rollingUpdate":{"maxUnavailable":0}},{"name":"b","spec":{"rollingUpdate":{"maxUnavailable":"50%"}}}]}}}`, []string{
			"out_of_range spec.template.cliques[0].rollingUpdate.maxUnavailable: 0: must be a count from 1 to 2147483647; percentages belong into updateStrategy",
			"out_of_range spec.template.cliques[1].spec.rollingUpdate.maxUnavailable: \"50%\": must be a count from 1 to 2147483647; percentages belong into updateStrategy"}},
		{"budgets that are no limits: the hint is that of the field", `{"spec":{"updateStrategy":{"rollingUpdate":{"maxUnavailable":-1}},"template":{"cliques":[{"name":"a","rollingUpdate":{"maxUnavailable":-1}},{"name":"b","spec":{"rollingUpdate":{"maxUnavailable":"12.5%"}}}],
			"podCliqueScalingGroups":[{"name":"g","rollingUpdate":{"maxUnavailable":99999999999}},{"name":"h","rollingUpdate":{"maxUnavailable":"5"}},{"name":"i","rollingUpdate":{"maxUnavailable":1,"maxUnavailable":-1}}]}}}`, []string{
			`type spec.updateStrategy.rollingUpdate.maxUnavailable: -1: must be a count from 0 to 2147483647 such as 5, or a percentage from "0%" to "100%" such as "20%"`,
			"type spec.template.cliques[0].rollingUpdate.maxUnavailable: -1: must be a count from 1 to 2147483647; percentages belong into updateStrategy",
			"type spec.template.cliques[1].spec.rollingUpdate.maxUnavailable: \"12.5%\": must be a count from 1 to 2147483647; percentages belong into updateStrategy",
			"type spec.template.podCliqueScalingGroups[0].rollingUpdate.maxUnavailable: 99999999999: must be a count from 1 to 2147483647; percentages belong into updateStrategy",
			`type spec.template.podCliqueScalingGroups[1].rollingUpdate.maxUnavailable: "5": must not be in quotes, which are for percentages: write 5`,
			"duplicate spec.template.podCliqueScalingGroups[2].rollingUpdate.maxUnavailable: given twice"}},
		{"a budget of a member", `{"spec":{"template":{"cliques":[{"name":"a","rollingUpdate":{"maxUnavailable":1}}],"podCliqueScalingGroups":[{"name":"g","cliqueNames":["a"]}]}}}`, []string{
			`conflict spec.template.cliques[0].rollingUpdate: must be left out: the clique is updated with its scaling group, "g"`}},
		{"a type that a set cannot follow", `{"spec":{"updateStrategy":{"type":"OnDelete"},"template":{}}}`, []string{
			`unknown_value spec.updateStrategy.type: "OnDelete": must be "RollingUpdate" or "ReplicaRecreate"; for OnDelete plan each component by itself, with paused: true, which fills holes at the target`}},
		{"a type that Grove announces", `{"spec":{"updateStrategy":{"type":"Coherent"},"template":{}}}`, []string{
			`unknown_value spec.updateStrategy.type: "Coherent": must be "RollingUpdate" or "ReplicaRecreate"; where components must not mix revisions, recreate whole replicas`}},
		{"a released budget under ReplicaRecreate", `{"spec":{"replicas":1,"updateStrategy":{"type":"ReplicaRecreate"},"template":{"cliques":[{"name":"a","rollingUpdate":{}}]}}}`, []string{
			"conflict spec.template.cliques[0].rollingUpdate: must be left out under ReplicaRecreate, which recreates all components together"}},
		{"both forms under ReplicaRecreate, which takes neither", `{"spec":{"replicas":1,"updateStrategy":{"type":"ReplicaRecreate"},"template":{"cliques":[{"name":"a","updateStrategy":{},"rollingUpdate":{}}]}}}`, []string{
			"conflict spec.template.cliques[0].rollingUpdate: must be left out under ReplicaRecreate, which recreates all components together",
			"conflict spec.template.cliques[0].updateStrategy: must be left out under ReplicaRecreate, which recreates all components together"}},
		{"a group of a name that is there twice", `{"spec":{"template":{"cliques":[{"name":"a","rollingUpdate":{"maxUnavailable":1}},{"name":"a"}],"podCliqueScalingGroups":[{"name":"g","cliqueNames":["a"]}]}}}`, []string{
			`conflict spec.template.cliques[0].rollingUpdate: must be left out: the clique is updated with its scaling group, "g"`, // the first is its member
			`duplicate spec.template.cliques[0].name: "a": is the name of spec.template.cliques[1] too`}},
		{"names twice", `{"spec":{"template":{"cliques":[{"name":"a"},{"name":"a"}]}}}`, []string{`duplicate spec.template.cliques[1].name: "a": is the name of spec.template.cliques[0] too`}},
	} {
		spec, warnings, err := surge.ParsePodCliqueSet([]byte(row.doc))
		if diff := gocmp.Diff(row.want, lines(t, err)); diff != "" {
			t.Errorf("%s: -want +got:\n%s", row.why, diff)
		}
		if !reflect.DeepEqual(spec, surge.SetSpec{}) || warnings != nil {
			t.Errorf("%s: got %+v and %v beside the error", row.why, spec, warnings)
		}
	}
}

// TestParseEveryField: every field of Grove's API may be in a manifest, and those that do not
// influence an update may hold anything: what is there belongs to others.
func TestParseEveryField(t *testing.T) {
	bare, _, err := surge.ParsePodCliqueSet([]byte(`{"spec":{"replicas":1,"template":{"cliques":[{"name":"a"},{"name":"b"}],"podCliqueScalingGroups":[{"name":"g","cliqueNames":["b"]}]}}}`))
	if err != nil {
		t.Fatal(err)
	}
	anything := `{"any":[1,"thing"]}`
	fields := func(names ...string) string {
		text := ""
		for _, name := range names {
			text += fmt.Sprintf(",%q:%s", name, anything)
		}
		return text
	}
	doc := `{"kind":"PodCliqueSet"` + fields("apiVersion", "metadata", "status") + `,"spec":{"replicas":1,"template":{
		"cliques":[{"name":"a"` + fields("labels", "annotations", "topologyConstraint", "resourceSharing") + `,"spec":{"replicas":1` + fields("roleName", "podSpec", "startsAfter", "autoScalingConfig") + `}},{"name":"b"}],
		"podCliqueScalingGroups":[{"name":"g","cliqueNames":["b"]` + fields("scaleConfig", "annotations", "topologyConstraint", "terminationDelay", "resourceSharing") + `}]` +
		fields("cliqueStartupType", "priorityClassName", "headlessServiceConfig", "topologyConstraint", "terminationDelay", "resourceClaimTemplates", "resourceSharing") + `}}}`
	if got, _, err := surge.ParsePodCliqueSet([]byte(doc)); err != nil || !reflect.DeepEqual(got, bare) {
		t.Errorf("got %+v, %v, want %+v", got, err, bare)
	}
}

// TestParseNull: a field that has a default in Grove may be null, which is what YAML makes of a
// name whose value, or whose lines below, are all commented out. A count of the set may not: it has
// no default that keeps the replicas.
func TestParseNull(t *testing.T) {
	absent, _, err := surge.ParsePodCliqueSet([]byte(`{"spec":{"replicas":2,"template":{"cliques":[{"name":"a"}],"podCliqueScalingGroups":[{"name":"g"}]}}}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, doc := range []string{
		`{"spec":{"replicas":2,"updateStrategy":null,"template":{"cliques":[{"name":"a"}],"podCliqueScalingGroups":[{"name":"g"}]}}}`,
		`{"spec":{"replicas":2,"updateStrategy":{"type":null,"rollingUpdate":null},"template":{"cliques":[{"name":"a"}],"podCliqueScalingGroups":[{"name":"g"}]}}}`,
		`{"spec":{"replicas":2,"template":{"cliques":[{"name":"a","updateStrategy":null,"rollingUpdate":null,"spec":{"replicas":null,"minAvailable":null}}],
			"podCliqueScalingGroups":[{"name":"g","cliqueNames":null,"replicas":null,"minAvailable":null,"updateStrategy":null,"rollingUpdate":null}]}}}`,
	} {
		if got, _, err := surge.ParsePodCliqueSet([]byte(doc)); err != nil || !reflect.DeepEqual(got, absent) {
			t.Errorf("%s: got %+v, %v, want %+v", doc, got, err, absent)
		}
	}
	if got, _, err := surge.ParsePodCliqueSet([]byte(`{"spec":{"replicas":3,"updateStrategy":{"type":"ReplicaRecreate","rollingUpdate":null},"template":{}}}`)); err != nil || got.UpdateStrategy != (surge.SetUpdateStrategy{Type: surge.ReplicaRecreate}) {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, _, err := surge.ParsePodCliqueSet([]byte(`{"spec":{"replicas":null,"template":{}}}`)); err == nil {
		t.Error("no replicas are wanted, and all would be deleted")
	}
}

// TestParseWarnings: the paths are those of the document that somebody wrote.
func TestParseWarnings(t *testing.T) {
	for _, row := range []struct {
		why, doc string
		want     []string
	}{
		{"components are in another order than cliques, and counts in either place", `{"spec":{"replicas":1,"template":{"cliques":[
			{"name":"member"},
			{"name":"below","spec":{"replicas":3}},
			{"name":"beside","replicas":3,"spec":{"minAvailable":3}}],
			"podCliqueScalingGroups":[{"name":"one","replicas":2},{"name":"two","cliqueNames":["member"],"replicas":3,"minAvailable":3}]}}}`, []string{
			"spec.template.cliques[1].spec.minAvailable BelowMinAvailable", "spec.template.cliques[2].spec.minAvailable BelowMinAvailable",
			"spec.template.podCliqueScalingGroups[1].minAvailable BelowMinAvailable"}},
		{"a budget in each of its places", `{"spec":{"replicas":1,"template":{"cliques":[
			{"name":"a","replicas":2,"minAvailable":0,"updateStrategy":{"maxUnavailable":"100%"}},
			{"name":"b","replicas":2,"minAvailable":0,"rollingUpdate":{"maxUnavailable":2}},
			{"name":"c","replicas":2,"minAvailable":0,"spec":{"rollingUpdate":{"maxUnavailable":2}}},
			{"name":"d","replicas":1,"minAvailable":0}],
			"podCliqueScalingGroups":[{"name":"g","replicas":2,"minAvailable":0,"updateStrategy":{"maxUnavailable":2}},{"name":"h","replicas":2,"minAvailable":0,"rollingUpdate":{"maxUnavailable":2}}]}}}`, []string{
			"spec.template.cliques[0].updateStrategy.maxUnavailable WholeSetDown", "spec.template.cliques[1].rollingUpdate.maxUnavailable WholeSetDown",
			"spec.template.cliques[2].spec.rollingUpdate.maxUnavailable WholeSetDown", "spec.template.cliques[3].updateStrategy.maxUnavailable WholeSetDown",
			"spec.template.podCliqueScalingGroups[0].updateStrategy.maxUnavailable WholeSetDown", "spec.template.podCliqueScalingGroups[1].rollingUpdate.maxUnavailable WholeSetDown"}},
		{"of the set", `{"spec":{"replicas":3,"updateStrategy":{"type":"ReplicaRecreate","rollingUpdate":{"maxUnavailable":"1%"}},"template":{"cliques":[{"name":"a","spec":{"replicas":3}}]}}}`, []string{
			"spec.updateStrategy.rollingUpdate.maxUnavailable RoundsToZero", "spec.updateStrategy.rollingUpdate.maxUnavailable Fencepost"}},
		{"nothing", `{"spec":{"replicas":3,"template":{}}}`, nil},
	} {
		spec, warnings, err := surge.ParsePodCliqueSet([]byte(row.doc))
		if err != nil {
			t.Errorf("%s: %v", row.why, err)
		}
		var got []string
		own := spec.Warnings()
		for i, w := range warnings {
			got = append(got, w.Path+" "+string(w.Code))
			if i >= len(own) || own[i].Code != w.Code || own[i].Text != w.Text {
				t.Errorf("%s: %v is not what Warnings says: %v", row.why, w, own)
			}
		}
		if diff := gocmp.Diff(row.want, got); diff != "" || len(own) != len(got) {
			t.Errorf("%s: -want +got:\n%s", row.why, diff)
		}
	}
}

// TestParseReleased: manifests of the released API, whose budgets and types the update strategy's
// design has under other names.
func TestParseReleased(t *testing.T) {
	spec, _, err := surge.ParsePodCliqueSet([]byte(`{"kind": "PodCliqueSet", "spec": {"replicas": 1, "updateStrategy": {"type": "RollingRecreate"}, "template": {
		"resourceClaimTemplates": [{"name": "nic"}], "resourceSharing": [{"name": "nic", "scope": "PerReplica"}],
		"cliques": [
			{"name": "a", "rollingUpdate": {"maxUnavailable": 2, "progressDeadline": "10m"}, "resourceSharing": [], "spec": {"replicas": 3}},
			{"name": "b", "spec": {"replicas": 3, "rollingUpdate": {"maxUnavailable": 9}}},
			{"name": "idle", "rollingUpdate": {"maxUnavailable": 9}, "spec": {"replicas": 0}},
			{"name": "unset", "rollingUpdate": {}}],
		"podCliqueScalingGroups": [{"name": "g", "replicas": 2, "rollingUpdate": {"maxUnavailable": 1}, "annotations": {}, "resourceSharing": [], "terminationDelay": "1h"}]}}}`))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range spec.Components {
		got = append(got, c.Name+" "+c.UpdateStrategy.MaxUnavailable.String())
	}
	if diff := gocmp.Diff([]string{"a 2", "b 3", "idle 9", "unset unset", "g 1"}, got); diff != "" || spec.UpdateStrategy.Type != surge.RollingUpdate || spec.Paused {
		t.Errorf("%+v: -want +got:\n%s", spec, diff)
	}
	// In a paused set a replica is repaired at its own revision, so that paused is not what
	// OnDelete is; in a flat Spec it is.
	spec.Paused = true
	if got := planSet(t, spec, parseSet(t, []string{"OO. OOO . N NN"})).String(); !strings.HasPrefix(got, "0/0: ~2 Hole\n") {
		t.Error(got)
	}
	if got := surge.Plan(surge.Spec{Replicas: 3, Paused: true}, parse(t, "OO.")).String(); !strings.HasPrefix(got, "+2 Hole\n") {
		t.Error(got)
	}
}

func TestSetGangs(t *testing.T) {
	spec := set("", 2, surge.UpdateStrategy{}, surge.Component{Replicas: 2}, surge.Component{Replicas: 3, MinAvailable: 2, Kind: surge.PodCliqueScalingGroup})
	for _, row := range []struct{ why, state, want string }{
		{"at rest", "NN NNN|NN NNN", "0 base 0[0,2) 1[0,2); 0 scaled 1-0 1[2,3); 1 base 0[0,2) 1[0,2); 1 scaled 1-0 1[2,3)"},
		{"nothing exists yet, and is listed all the same", "", "0 base 0[0,2) 1[0,2); 0 scaled 1-0 1[2,3); 1 base 0[0,2) 1[0,2); 1 scaled 1-0 1[2,3)"},
		{"a surge pod belongs to the base gang, a surge unit to a scaled one", "NNn NNNn|NN NNN", "0 base 0[0,3) 1[0,2); 0 scaled 1-0 1[2,3); 0 scaled 1-1 1[3,4); 1 base 0[0,2) 1[0,2); 1 scaled 1-0 1[2,3)"},
		{"absent units above are not listed", "NN NNN.t|NN NNN", "0 base 0[0,2) 1[0,2); 0 scaled 1-0 1[2,3); 0 scaled 1-2 1[4,5); 1 base 0[0,2) 1[0,2); 1 scaled 1-0 1[2,3)"},
		{"a surge replica", "NN NNN|NN NNN|n. nnn|. .", "0 base 0[0,2) 1[0,2); 0 scaled 1-0 1[2,3); 1 base 0[0,2) 1[0,2); 1 scaled 1-0 1[2,3); 2 base 0[0,1) 1[0,2); 2 scaled 1-0 1[2,3)"},
		{"no surge replica", "NN NNN|NN NNN|. .", "0 base 0[0,2) 1[0,2); 0 scaled 1-0 1[2,3); 1 base 0[0,2) 1[0,2); 1 scaled 1-0 1[2,3)"},
		{"a leftover of one gang member", "NN NNN|NN NNN|. n", "0 base 0[0,2) 1[0,2); 0 scaled 1-0 1[2,3); 1 base 0[0,2) 1[0,2); 1 scaled 1-0 1[2,3); 2 base 1[0,1)"},
	} {
		var state []string
		if row.state != "" {
			state = strings.Split(row.state, "|")
		}
		var got []string
		for _, gang := range surge.SetGangs(spec, parseSet(t, state)) {
			text := fmt.Sprintf("%d base", gang.Replica)
			if gang.Component >= 0 {
				text = fmt.Sprintf("%d scaled %d-%d", gang.Replica, gang.Component, gang.Ordinal)
			}
			for _, m := range gang.Members {
				text += fmt.Sprintf(" %d[%d,%d)", m.Component, m.First, m.End)
			}
			got = append(got, text)
		}
		if diff := gocmp.Diff(row.want, strings.Join(got, "; ")); diff != "" {
			t.Errorf("%s: -want +got:\n%s", row.why, diff)
		}
	}
	empty := set("", 1, surge.UpdateStrategy{}, surge.Component{Replicas: -1, MinAvailable: -1, Kind: surge.PodCliqueScalingGroup})
	if got := surge.SetGangs(empty, nil); len(got) != 1 || got[0].Members != nil {
		t.Errorf("got %+v", got)
	}
}

// TestSetRecord: what was observed and what was planned can be stored and read again.
func TestSetRecord(t *testing.T) {
	spec := set("", 2, surge.UpdateStrategy{}, units(2, 1, 1, 0))
	two := 2
	state := surge.SetState{{{Slots: parse(t, "NO."), Revisions: []string{"", "v1"}}}, {{Slots: parse(t, "O."), Replicas: &two}}}
	plan := planSet(t, spec, state)
	for want, value := range map[string]any{
		`[[{"slots":["N","O","."],"revisions":["","v1"]}],[{"slots":["O","."],"replicas":2}]]`: state,
		`{"current":0,"replicas":[` +
			`{"role":"current","slot":"O","complete":false,"blocked":["BudgetExhausted","WaitingForSurge"],"components":[` +
			`{"actions":[{"index":2,"op":"create","revision":"target","reason":"Surge"}],"blocked":["BudgetExhausted","WaitingForSurge"],"updated":false,"converged":false}]},` +
			`{"role":"held","slot":"O","complete":false,"blocked":["ProtectedDown","WaitingForReplica"],"components":[` +
			`{"actions":[{"index":1,"op":"create","revision":"stable","reason":"Hole"}],"blocked":["ProtectedDown"],"updated":true,"converged":false}]}],` +
			`"blocked":["BudgetExhausted","WaitingForSurge","ProtectedDown","WaitingForReplica"],"updated":false,"converged":false}`: plan,
	} {
		data, err := json.Marshal(value)
		if diff := gocmp.Diff(want, string(data)); err != nil || diff != "" {
			t.Errorf("%v, -want +got:\n%s", err, diff)
		}
		back := reflect.New(reflect.TypeOf(value))
		if err := json.Unmarshal(data, back.Interface()); err != nil || !reflect.DeepEqual(back.Elem().Interface(), value) {
			t.Errorf("came back as %+v, %v", back.Elem(), err)
		}
	}
}

// TestUnitsJSON: what is read is what is written, and nothing that merely looks like it.
func TestUnitsJSON(t *testing.T) {
	for _, row := range []struct{ why, doc, want string }{
		{"one text for all slots would be read as base64", `{"slots":"OOOO"}`, "type slots: must be a list, not a string"},
		{"a slot that is none", `{"slots":["O","x",""]}`, `unknown_value slots[1]: "x": must be one of .tuoOnN|unknown_value slots[2]: "": must be one of .tuoOnN`},
		{"a field that does not exist, or a mixed replica is not seen", `{"slots":["O"],"revision":["v1"]}`, `unknown_field revision: unknown field; did you mean "revisions"?`},
		{"a revision that is no text", `{"slots":["O"],"revisions":[1]}`, "type revisions[0]: must be a string, not 1: put it in quotes"},
		{"no slots at all", `{"slots":null,"revisions":null}`, ""},
		{"what is left out is unset", `{}`, ""},
	} {
		units := surge.Units{Slots: parse(t, "N"), Revisions: []string{""}}
		err := units.UnmarshalJSON([]byte(row.doc))
		if got := strings.Join(lines(t, err), "|"); got != row.want {
			t.Errorf("%s: got %s", row.why, got)
		}
		if (err == nil) != (units.Slots == nil) || (err == nil) != (units.Revisions == nil) {
			t.Errorf("%s: read as %v", row.why, units)
		}
	}
	var state surge.SetState
	if err := json.Unmarshal([]byte(`[[{"slots":"OOOO"}]]`), &state); err == nil {
		t.Errorf("read as %v", state)
	}
}

// TestSetNegative: a SetSpec that was never validated is planned, and negative counts are none.
func TestSetNegative(t *testing.T) {
	state := parseSet(t, []string{"O O", "N N", ". ."})
	for _, kind := range []surge.StrategyType{surge.RollingUpdate, surge.ReplicaRecreate} {
		for _, replicas := range []int{3, 0} {
			negative, none := set(kind, replicas, surge.UpdateStrategy{}, plain(-2, -1), plain(1, 1)), set(kind, replicas, surge.UpdateStrategy{}, plain(0, 0), plain(1, 1))
			if replicas == 0 {
				negative.Replicas = -3
			}
			if got, want := planSet(t, negative, state), planSet(t, none, state); !reflect.DeepEqual(got, want) || sprint(got.Progress(negative)) != sprint(want.Progress(none)) {
				t.Errorf("%s of %d: got %v, want %v", kind, replicas, got, want)
			}
		}
	}
}

// TestRoles: how each replica is treated, and what it waits for.
func TestRoles(t *testing.T) {
	rolling := set("", 3, surge.UpdateStrategy{}, plain(1, 1), plain(1, 1))
	recreate := set(surge.ReplicaRecreate, 3, budgets(0, 1), plain(1, 1), plain(1, 1))
	protected, protectedWhole := rolling, recreate
	protected.Partition, protectedWhole.Partition = 2, 2
	for _, row := range []struct {
		spec  surge.SetSpec
		state []string
		want  string
	}{
		{rolling, []string{"O O", "O O", "N N", "o t"}, "current held target condemned"},
		{recreate, []string{"N N", "O O", "O O", "o t"}, "target recreated held condemned"},
		{recreate, []string{"N N", ". .", "O O"}, "target recreated held"},
		{recreate, []string{"n .", "O O", "O O"}, "target held held"},
		{recreate, []string{"N N", "N N", "N N", ". t"}, "target target target held"},
		{recreate, []string{"t .", "O O", "O O"}, "held held held"},
		{protected, []string{"N .", "O O", ". ."}, "target held current"},
		{protectedWhole, []string{"N .", "O O", "N N"}, "target held target"}, // a rollback, say, has the first one's revision as its target
		{rolling, []string{"N N", "N N", "N N", ". t"}, "target target target held"},
		{rolling, []string{"N N", "N N", "N N", "tO O"}, "target target target condemned"},
	} {
		plan := planSet(t, row.spec, parseSet(t, row.state))
		var roles []string
		for _, replica := range plan.Replicas {
			roles = append(roles, string(replica.Role))
		}
		if got := strings.Join(roles, " "); got != row.want {
			t.Errorf("%q: got %s, want %s", row.state, got, row.want)
		}
		if len(plan.Replicas) == 4 && plan.Replicas[3].Components[1].Blocked != surge.BlockedTerminating {
			t.Errorf("%q: a unit on its way out is not waited for", row.state)
		}
		for i, replica := range plan.Replicas {
			for c, component := range replica.Components {
				if !replica.Blocked.Has(component.Blocked) {
					t.Errorf("%q: replica %d waits for %q, its component %d for %q", row.state, i, replica.Blocked, c, component.Blocked)
				}
			}
		}
	}
	plan := planSet(t, rolling, parseSet(t, []string{"O O", "O O", "O O"}))
	next := plan.Replicas[1].Components[0]
	if _ = append(plan.Replicas[0].Components, surge.Result{}); !reflect.DeepEqual(plan.Replicas[1].Components[0], next) {
		t.Error("what is appended to the components of one replica is written into those of the next")
	}
	if p := plan.Progress(rolling); sprint(p.Updating) != "[0]" {
		t.Errorf("got %+v", p)
	}
	gone := planSet(t, rolling, parseSet(t, []string{"N N", "N N", "N N", ". t"})).Replicas[3].Components
	if !gone[0].Converged || gone[1].Converged || gone[1].Blocked != surge.BlockedTerminating {
		t.Errorf("of a replica on its way out, what is gone is gone: %+v", gone)
	}
	for _, i := range []int{0, 3} {
		state := parseSet(t, []string{"N N", "N N", "N N", "N N"}[:i])
		state = append(state, parseSet(t, []string{". t"})...)
		part := planSet(t, recreate, state).Replicas[i]
		if c := part.Components; !c[0].Converged || c[1].Converged || c[1].Blocked != surge.BlockedTerminating || part.Blocked != surge.BlockedTerminating {
			t.Errorf("replica %d on its way out, to be recreated or for good: got %+v", i, part)
		}
	}
	leaving := planSet(t, rolling, parseSet(t, []string{"N N", "N N", "N N", "t. O"})).Replicas[3].Components
	if leaving[0].Blocked != surge.BlockedTerminating {
		t.Errorf("a unit on its way out below a free index is not waited for: %+v", leaving)
	}
	unknown := parseSet(t, []string{"N N", "N N", "N N", "O O"})
	unknown[3][0].Slots[0] = 99
	if c := planSet(t, rolling, unknown).Replicas[3].Components[0]; c.Actions != nil || c.Blocked != surge.BlockedTerminating {
		t.Errorf("a slot that is not understood is not waited for: %+v", c)
	}
	hollow := set(surge.ReplicaRecreate, 1, budgets(0, 1), plain(1, 1), plain(0, 0))
	if c := planSet(t, hollow, nil).Replicas[0].Components[1]; !c.Converged || c.Blocked != 0 {
		t.Errorf("a component of nothing is created as %v", c)
	}
}

// TestSetApplyBeforeRevision: a host that plans on an old observation and the calls made since labels
// what they created anew once there is a new revision. Otherwise the holes of a recreated replica,
// of which one unit was created before, would be filled at another revision.
func TestSetApplyBeforeRevision(t *testing.T) {
	spec := set(surge.ReplicaRecreate, 1, surge.UpdateStrategy{}, plain(3, 3))
	observed := parseSet(t, []string{"..."})
	calls := planSet(t, spec, observed)
	component := &calls.Replicas[0].Components[0]
	component.Actions = component.Actions[:1] // the other calls failed
	state := observed.Apply(calls)
	if got, want := planSet(t, spec, state).String(), "0/0: +1 Hole, +2 Hole\nblocked: WaitingForBase"; got != want {
		t.Errorf("at the same revision: got %q, want %q", got, want)
	}
	state[0][0].Slots[0], state[0][0].Revisions = surge.OldUnscheduled, []string{"v1"}
	if got, want := planSet(t, spec, state).String(), "0/0: -0 OutdatedUnscheduled\nblocked: Terminating"; got != want {
		t.Errorf("at a new one: got %q, want %q", got, want)
	}
}

// TestSetApplyUnnamed: the stable revision of a set has no name in a state in which nothing of a
// replica lives. What is created at it has none until the caller observes it; all of it has the same,
// so the replica is not taken for one that runs two revisions.
func TestSetApplyUnnamed(t *testing.T) {
	for _, strategy := range []surge.StrategyType{surge.RollingUpdate, surge.ReplicaRecreate} {
		spec := set(strategy, 2, surge.UpdateStrategy{}, plain(2, 0), plain(1, 0))
		spec.Partition = 2
		state := parseSet(t, []string{"OO O", ".. ."})
		state[0][0].Revisions, state[0][1].Revisions = []string{"v1", "v1"}, []string{"v1"}
		state[1][0].Revisions, state[1][1].Revisions = []string{"v0", "v0"}, []string{"v0"} // of what is gone
		next := state.Apply(planSet(t, spec, state))
		if got := fmt.Sprintf("%q %q", next[1][0].Revisions, next[1][1].Revisions); got != `["" ""] [""]` || surge.FormatSlots(next[1][0].Slots) != "oo" {
			t.Errorf("%s: got %s of %s", strategy, got, surge.FormatSlots(next[1][0].Slots))
		}
		if plan := planSet(t, spec, next); !plan.Empty() {
			t.Errorf("%s: got\n%s\nwant nothing more to do", strategy, plan)
		}
	}
}

// TestNumberOfAbsentReplica: an autoscaler that keeps its number while a replica is not there has to
// be heard then, too. Heard only of what exists, a surge is created by the number of the component
// and deleted by that of the autoscaler, for ever.
func TestNumberOfAbsentReplica(t *testing.T) {
	spec := set(surge.ReplicaRecreate, 1, budgets(1, 0), plain(3, 1), plain(1, 1))
	zero := 0
	surgeOf := func(first string) []surge.Units {
		return []surge.Units{{Slots: parse(t, first), Replicas: &zero}, {Slots: parse(t, "n")}}
	}
	old := parseSet(t, []string{"OOO O"})
	for _, row := range []struct {
		why   string
		state surge.SetState
		want  string
	}{
		{"the number is not told: three units are created", old, "1/0: +0 Surge, +1 Surge, +2 Surge"},
		{"now it is told: they are deleted", append(slices.Clone(old), surgeOf("nnn")), "1/0: -0 SurplusSurge, -1 Condemned, -2 Condemned"},
		{"it is told before they exist: none is created", append(slices.Clone(old), []surge.Units{{Replicas: &zero}, {}}), "1/1: +0 Surge"},
	} {
		plan := planSet(t, spec, row.state)
		if got := plan.String(); !strings.HasPrefix(got, row.want+"\n") {
			t.Errorf("%s: got\n%s\nwant\n%s", row.why, got, row.want)
		}
		if len(plan.Replicas) != 2 {
			t.Errorf("%s: %d replicas, want one more than the set has, which exists or is created", row.why, len(plan.Replicas))
		}
	}

	// By its own number no component has a unit, so that a surge would have none.
	three := 3
	empty := set(surge.ReplicaRecreate, 1, budgets(1, 0), plain(0, 0))
	plan := planSet(t, empty, surge.SetState{{{Slots: parse(t, "OOO"), Replicas: &three}}})
	if got, want := plan.String(), "0/0: -0 Outdated, -1 Outdated, -2 Outdated\nblocked: Terminating"; got != want {
		t.Errorf("without a surge: got\n%s\nwant\n%s", got, want)
	}
}

// TestLeftoverWithoutUse: a leftover that should have no unit serves nobody, so that it is not kept
// for the replicas that are missing.
func TestLeftoverWithoutUse(t *testing.T) {
	spec := set(surge.RollingUpdate, 2, surge.UpdateStrategy{}, plain(1, 1))
	zero := 0
	for _, row := range []struct {
		why    string
		unit   string
		number *int
		role   surge.Role
	}{
		{"an old one that serves stays until one of the two is there", "O", nil, surge.RoleHeld},
		{"and so does one at the target", "N", nil, surge.RoleHeld},
		{"an old one of no use goes at once", "O", &zero, surge.RoleCondemned},
		{"and so does one of no use at the target", "N", &zero, surge.RoleCondemned},
	} {
		state := append(parseSet(t, []string{".", "."}), []surge.Units{{Slots: parse(t, row.unit), Replicas: row.number}})
		replica := planSet(t, spec, state).Replicas[2]
		if deleted := len(replica.Components[0].Actions) == 1; replica.Role != row.role || deleted != (row.role == surge.RoleCondemned) {
			t.Errorf("%s: got %s with %v", row.why, replica.Role, replica.Components[0].Actions)
		}
	}
}
