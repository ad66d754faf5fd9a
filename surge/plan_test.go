package surge_test

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/internal/testkit"
	"github.com/tranche-dev/tranche/surge"
)

// budget is replicas, maxSurge and maxUnavailable.
func budget(replicas, surges, unavailable int) surge.Spec {
	return surge.Spec{Replicas: replicas, MaxSurge: concurrency.Count(surges), MaxUnavailable: concurrency.Count(unavailable)}
}

func change(spec surge.Spec, edit func(*surge.Spec)) surge.Spec {
	edit(&spec)
	return spec
}

// planRow is one state with the whole plan that it must lead to.
type planRow struct {
	name  string
	spec  surge.Spec
	state string
	want  string // as Result.String prints it
	why   string
}

func runRows(t *testing.T, rows []planRow) {
	t.Helper()
	names := map[string]bool{}
	for _, row := range rows {
		if row.why == "" || names[row.name] {
			t.Errorf("row %q needs a name of its own and a reason", row.name)
		}
		names[row.name] = true
		t.Run(row.name, func(t *testing.T) {
			plan := surge.Plan(row.spec, parse(t, row.state))
			if plan.Actions != nil && len(plan.Actions) == 0 {
				t.Error("an empty plan has actions that are not nil")
			}
			if got := plan.String(); got != row.want {
				t.Errorf("%s of %+v\ngot:\n%s\nwant:\n%s\nbecause %s", row.state, row.spec, got, row.want, row.why)
			}
		})
	}
}

// TestPeers holds shortest counter-examples of other systems: the state goes in, their wrong move
// must not come out.
func TestPeers(t *testing.T) {
	runRows(t, []planRow{
		{"LeaderWorkerSet spends one budget twice", budget(4, 3, 2), "OONtnNN",
			"-0 Outdated\n-1 Outdated\n-4 SurplusSurge\n-6 SurplusSurge\nblocked: Terminating",
			"partition and reclaim took 0, 1, 5 and 6: one is left of a floor of 2"},
		{"LeaderWorkerSet reclaims by index", budget(2, 2, 0), "oNnN", "-0 OutdatedUnavailable\n-2 SurplusSurge\nblocked: Terminating",
			"it deleted 3, which serves, and kept 2, which does not"},
		{"LeaderWorkerSet waits for the tail", budget(3, 1, 1), "OONn", "-0 Outdated\nblocked: Terminating BudgetExhausted WaitingForSurge",
			"maxUnavailable is free, whatever the surge does"},
		{"LeaderWorkerSet stops at a broken low ordinal", budget(2, 0, 1), "oO", "-0 OutdatedUnavailable\nblocked: Terminating BudgetExhausted",
			"replacing what does not serve costs nothing"},
		{"LeaderWorkerSet keeps the surge under a partition", change(budget(2, 1, 0), func(s *surge.Spec) { s.Partition = 1 }), "ONN",
			"-2 SurplusSurge\nblocked: Terminating", "nothing eligible is outdated, so nothing needs the surge"},
		{"RBG recycles a serving stale surge", budget(1, 1, 0), "tO", "blocked: Terminating", "it serves, and nobody else does"},
		{"RBG removes the last cover", change(budget(2, 1, 0), func(s *surge.Spec) { s.Partition = 1 }), "oNN", "blocked: ProtectedDown",
			"with 2 gone one would be available, the floor is 2"},
		{"StatefulSet counts broken old pods against the budget", budget(1, 0, 1), "o", "-0 OutdatedUnavailable\nblocked: Terminating",
			"or a fix could never be rolled out"},
		{"Kruise stops at the first healthy outdated ordinal", change(budget(2, 0, 1), func(s *surge.Spec) { s.Order = surge.Descending }), "oO",
			"-0 OutdatedUnavailable\nblocked: Terminating BudgetExhausted", "the order is one among equals: 0 does not serve, 1 does"},
		{"Grove takes all that are not ready and one more", change(budget(2, 0, 1), func(s *surge.Spec) { s.MinAvailable = 1 }), "oO",
			"-0 OutdatedUnavailable\nblocked: Terminating BudgetExhausted", "1 is all that serves"},
		{"Grove, since it keeps minAvailable, never begins with a clique at its default", change(budget(2, 0, 1), func(s *surge.Spec) { s.MinAvailable = 2 }), "OO",
			"-0 Outdated\nblocked: Terminating BudgetExhausted", "minAvailable is for gangs; the budget says that one may be missing"},
		{"Grove, with a budget, repairs nothing while a replacement is not ready", budget(3, 0, 2), "noO",
			"-1 OutdatedUnavailable\nblocked: Terminating BudgetExhausted WaitingForBase", "0 may never be ready, and 1 serves nobody"},
		{"Grove counts its excess", budget(2, 0, 1), "NN.N", "-3 Condemned\nblocked: Terminating", "the excess of three over two is index 3, not a count of one from 2 on"},
		{"Grove reuses the index of a terminating pod", budget(2, 1, 0), "tON", "blocked: Terminating BudgetExhausted",
			"two pods would have one hostname"},
		{"newest first deletes a base index", budget(1, 1, 0), "NN", "-1 SurplusSurge\nblocked: Terminating", "or the set would end with a hole at 0"},
		{"Kthena leaves a hole behind a high ordinal", budget(3, 0, 1), "O....O", "+1 Hole\n+2 Hole\nblocked: BudgetExhausted WaitingForBase",
			"what is missing is filled in [0, replicas); the leftover at 5 serves until then"},
		{"count-based ones forget what is terminating", budget(2, 1, 0), "OOt", "blocked: Terminating BudgetExhausted",
			"a second surge beside a terminating one would be four on three indices"},
	})
}

// TestSpecialCases holds what may happen to a running update.
func TestSpecialCases(t *testing.T) {
	partition := func(p int) func(*surge.Spec) { return func(s *surge.Spec) { s.Partition = p } }
	paused := func(s *surge.Spec) { s.Paused = true }
	runRows(t, []planRow{
		{"surge stuck", budget(3, 1, 0), "OOOn", "blocked: BudgetExhausted WaitingForSurge", "without budget only the surge can help"},
		{"surge stuck beside a budget", budget(3, 1, 1), "OOOn", "-0 Outdated\nblocked: Terminating BudgetExhausted WaitingForSurge", "the base rolls with maxUnavailable"},
		{"maxSurge set to 0 to unblock", budget(3, 0, 0), "OOOn", "-0 Outdated\n-3 Condemned\nblocked: Terminating BudgetExhausted",
			"both budgets 0 resolve to one unavailable; the stuck surge is above the range and goes free"},
		{"stuck surge deleted by hand", budget(3, 1, 0), "OOO.", "+3 Surge\nblocked: BudgetExhausted WaitingForSurge", "it is still needed"},
		{"unhealthy replica, healthy surge", budget(3, 1, 0), "OoON", "-1 OutdatedUnavailable\nblocked: Terminating BudgetExhausted", "the broken one is replaced for nothing"},
		{"all old replicas broken", budget(4, 1, 1), "oooo.", "-0 OutdatedUnavailable\n-1 OutdatedUnavailable\nblocked: Terminating RepairWindow",
			"as many at a time as both budgets together, and no surge, since nothing waits that serves"},
		{"a blip of every replica", budget(5, 1, 1), "ootoo", "-0 OutdatedUnavailable\nblocked: Terminating RepairWindow", "at most both budgets are recycled, and the others may recover"},
		{"a replica that never goes away", budget(3, 0, 2), "tNO", "-2 Outdated\nblocked: Terminating", "it blocks its own index alone"},
		{"all broken, forced", change(budget(4, 1, 1), func(s *surge.Spec) { s.Force = true }), "oooo.",
			"-0 OutdatedUnavailable\n-1 OutdatedUnavailable\n-2 OutdatedUnavailable\n-3 OutdatedUnavailable\nblocked: Terminating", "force lifts the window"},
		{"repair window with the share of the surge", budget(2, 1, 1), "on.", "-0 OutdatedUnavailable\nblocked: Terminating WaitingForBase",
			"with maxUnavailable alone it would wait for a replica that may never come"},
		{"repair window above a partition", change(budget(3, 0, 1), partition(1)), "Ooo", "-1 OutdatedUnavailable\nblocked: Terminating RepairWindow",
			"a canary is not replaced all at once either"},
		{"updated replica crashes at rest", budget(3, 1, 0), "NnN", "blocked: WaitingForBase", "not an update; whoever restarts it will"},
		{"scale to zero", budget(0, 0, 0), "NoN", "-0 Condemned\n-1 Condemned\n-2 Condemned\nblocked: Terminating", "the floor is 0"},
		{"from zero", budget(2, 1, 0), "", "+0 Hole\n+1 Hole\nblocked: WaitingForBase", "holes are filled at the target, no surge"},
		{"no replicas, nothing there", surge.Spec{}, "", "converged", "the zero Spec is valid"},
		{"sparse leftovers", budget(1, 0, 1), "N.O..n", "-2 Condemned\n-5 Condemned\nblocked: Terminating", "all above the range go, by index and not by count"},
		{"leftover is the only one that serves", budget(1, 0, 0), ".O", "+0 Hole\n-1 Condemned\nblocked: Terminating WaitingForBase",
			"0 and 0 allow one unavailable of one, so the floor is 0"},
		{"leftover above a floor", budget(2, 0, 1), ".oO", "+0 Hole\nblocked: WaitingForBase RepairWindow", "2 stays until the base serves, and the new 0 fills the window"},
		{"partition lowered", change(budget(4, 1, 0), partition(0)), "OONN.", "+4 Surge\nblocked: BudgetExhausted WaitingForSurge", "the rollout resumes, surge again"},
		{"protected replica down, no surge", change(budget(3, 0, 1), partition(2)), "oOO", "blocked: BudgetExhausted ProtectedDown", "the protected one has used the budget up"},
		{"protected replica down, surge", change(budget(3, 1, 0), partition(2)), "oOO.", "+3 Surge\nblocked: BudgetExhausted WaitingForSurge ProtectedDown", "a surge is tried"},
		{"a leftover that cannot go yet is no reason for fewer surges", budget(2, 2, 0), "Oo..O", "-1 OutdatedUnavailable\n+2 Surge\n+3 Surge\nblocked: Terminating BudgetExhausted WaitingForSurge",
			"4 serves and is to go as well: without it, and once 0 is taken, two are missing"},
		{"a superseded surge that serves is one of those needed", budget(2, 3, 0), "OoO..", "-1 OutdatedUnavailable\n+3 Surge\nblocked: Terminating BudgetExhausted WaitingForSurge",
			"it is kept as a buffer; with it, one more keeps the floor of two"},
		{"protected hole", change(budget(3, 0, 1), partition(2)), ".ON", "~0 Hole\nblocked: ProtectedDown", "it comes back at the stable revision"},
		{"partition above replicas", change(budget(2, 1, 0), partition(9)), "OO", "converged", "clamped: nothing is eligible"},
		{"paused", change(budget(3, 1, 0), paused), "OO.n", "+2 Hole\nblocked: Paused WaitingForBase", "the hole is filled, the surge stays, nothing old goes"},
		{"paused, no surge is created", change(budget(3, 1, 0), paused), "OOO.", "blocked: Paused", "a pause that still surges is none"},
		{"paused, a scale-in is finished", change(budget(2, 1, 0), paused), "NNNNo", "-3 Condemned\n-4 Condemned\nblocked: Paused Terminating", "what lies above the surge range goes"},
		{"paused, unavailable ones stay", change(budget(2, 1, 1), paused), "ouo", "blocked: Paused", "no repair either, members of a gang included"},
		{"paused, gang", change(budget(2, 1, 1), func(s *surge.Spec) { s.Paused, s.MinAvailable = true, 2 }), "ouo", "blocked: Paused", "no repair either, members of a gang included"},
		{"paused, with the revision frozen as well", change(budget(3, 1, 0), func(s *surge.Spec) { s.Paused, s.Partition = true, 3 }), "O.O", "~1 Hole\nblocked: ProtectedDown",
			"a hole is filled at the target during a pause, unless the partition is at replicas"},
		{"paused at rest", change(budget(2, 1, 0), paused), "NN", "converged", "nothing is outdated"},
		{"unscheduled before unavailable before available", budget(4, 0, 1), "oOuO", "-2 OutdatedUnscheduled\nblocked: Terminating BudgetExhausted RepairWindow",
			"what never ran is lost least"},
		{"descending repairs", change(budget(4, 0, 1), func(s *surge.Spec) { s.Order = surge.Descending }), "oOoO", "-2 OutdatedUnavailable\nblocked: Terminating BudgetExhausted RepairWindow",
			"the order holds within a class"},
		{"descending gang", change(budget(4, 0, 1), func(s *surge.Spec) { s.Order, s.MinAvailable = surge.Descending, 2 }), "ooou",
			"-0 OutdatedUnavailable\n-1 OutdatedUnavailable\n-3 OutdatedUnscheduled\nblocked: Terminating RepairWindow", "the window takes 3, the gang needs none"},
		{"stale surge before a current one", budget(3, 2, 0), "NNnON", "-3 SurplusSurge\nblocked: Terminating WaitingForBase", "one unit of budget, and the superseded revision is worth less"},
		{"a surge of no use is not kept for its revision", budget(3, 1, 0), "NNNO", "-3 SurplusSurge\nblocked: Terminating", "an available stale surge is a buffer only while one is needed"},
		{"unavailable stale surge", budget(2, 1, 0), "OOo", "-2 StaleSurge\nblocked: Terminating BudgetExhausted", "a surge of a superseded revision that does not serve never will be needed"},
	})
}

// TestTotal plans what Validate would refuse.
func TestTotal(t *testing.T) {
	if got := surge.Plan(surge.Spec{Replicas: -1, Partition: -2, MinAvailable: -3}, parse(t, "No")).String(); got != "-0 Condemned\n-1 Condemned\nblocked: Terminating" {
		t.Errorf("a negative number of replicas counts as none:\n%s", got)
	}
	for _, unknown := range []surge.Slot{7, 200} {
		strange := []surge.Slot{surge.OldAvailable, unknown}
		if got := surge.Plan(budget(2, 1, 0), strange).String(); got != "+2 Surge\nblocked: Terminating BudgetExhausted WaitingForSurge" {
			t.Errorf("a slot that is not understood is taken and left alone:\n%s", got)
		}
		if after := surge.Apply(strange, []surge.Action{{Index: 1, Op: surge.Delete}}); after[1] != unknown {
			t.Errorf("a slot that is not understood is deleted: %d", after[1])
		}
		if p := surge.Project(budget(2, 1, 0), strange, surge.Result{}); p.Replicas != 1 || p.AvailableReplicas != 1 || sprint(p.Updating) != "[1]" {
			t.Errorf("a slot that is not understood is as one on its way out: %+v", p)
		}
	}
	if got := surge.Plan(change(budget(2, 0, 1), func(s *surge.Spec) { s.Order = "sideways" }), parse(t, "OO")).Actions[0].Index; got != 0 {
		t.Errorf("an unknown order counts as ascending, got %d first", got)
	}
	huge := surge.Spec{Replicas: 1, MaxSurge: concurrency.Count(2147483647), MaxUnavailable: concurrency.Count(0)}
	if got := surge.Plan(huge, parse(t, "Ott")).String(); got != "+3 Surge\nblocked: Terminating BudgetExhausted WaitingForSurge" {
		t.Errorf("a huge surge range is not walked through:\n%s", got)
	}
	if d := surge.Diagnose(huge, parse(t, "On"), nil); d.Stuck != surge.SurgeNotReady || sprint(d.Indices) != "[1]" {
		t.Errorf("the end of a huge surge range is no int of 32 bits: %v", d)
	}
	huge.MaxUnavailable = concurrency.Count(1)
	if got := surge.Plan(huge, parse(t, "o")).String(); got != "-0 OutdatedUnavailable\nblocked: Terminating" {
		t.Errorf("neither is the size of its repair window:\n%s", got)
	}
}

// TestMoreReplicasThanCanBePlanned: a number that Validate refuses neither needs more memory than
// there is nor condemns what exists.
func TestMoreReplicasThanCanBePlanned(t *testing.T) {
	if testing.Short() || testkit.Race {
		t.Skip("goes through many slots")
	}
	slots := slices.Repeat([]surge.Slot{surge.OldAvailable}, surge.MaxReplicas+1)
	spec := surge.Spec{Replicas: math.MaxInt, MinAvailable: math.MaxInt}
	plan := surge.Plan(spec, slots)
	if got := plan.String(); got != "-0 Outdated\nblocked: Terminating BudgetExhausted" {
		t.Errorf("more exist than can be planned for: got %.200s", got)
	}
	if got := surge.Plan(spec, slots[1:]).String(); got != plan.String() {
		t.Errorf("as many exist as can be planned for: got %.200s", got)
	}
	if p := surge.Project(spec, slots, plan); p.Replicas != len(slots) || sprint(p.Updating) != "[0]" || p.Updated != nil {
		t.Errorf("%d live, %d updating, %d updated", p.Replicas, len(p.Updating), len(p.Updated))
	}
	if gangs := surge.Gangs(spec, slots); len(gangs) != 1 || !gangs[0].Base {
		t.Errorf("%d gangs", len(gangs))
	}
	// I9 where every surge index that Arrange accepts is still taken: the next one is applied like any
	// other.
	slots = append(slices.Repeat([]surge.Slot{surge.TargetAvailable}, surge.MaxReplicas), slices.Repeat([]surge.Slot{surge.Terminating}, surge.MaxReplicas)...)
	slots[0] = surge.OldAvailable
	spec = surge.Spec{Replicas: surge.MaxReplicas, MaxSurge: concurrency.Percent(200), MaxUnavailable: concurrency.Count(0)}
	plan = surge.Plan(spec, slots)
	if got := plan.String(); spec.Validate() != nil || got != "+33554432 Surge\nblocked: Terminating BudgetExhausted WaitingForSurge" {
		t.Errorf("a surge above twice as many as can be planned for: got %.200s", got)
	}
	if again := surge.Plan(spec, surge.Apply(slots, plan.Actions)); again.Actions != nil {
		t.Errorf("I9: after the whole plan got %.200s", again)
	}
}

func TestApply(t *testing.T) {
	slots := parse(t, "Ot.n")
	actions := []surge.Action{
		{Index: 0, Op: surge.Delete}, {Index: 1, Op: surge.Delete}, {Index: 2, Op: surge.Delete}, {Index: 3, Op: surge.Create, Revision: surge.Target},
		{Index: 5, Op: surge.Create, Revision: surge.Stable}, {Index: 6, Op: surge.Create, Revision: surge.Target}, {Index: -1, Op: surge.Create},
		{Index: 9, Op: surge.Delete}, {Index: math.MaxInt, Op: surge.Create}, {Index: 2, Op: surge.Op(9)},
		{Index: 1, Op: surge.Create, Revision: surge.Stable}, {Index: 1, Op: surge.Create, Revision: surge.Target},
	}
	if got := surge.FormatSlots(surge.Apply(slots, actions)); got != "tt.n.on" {
		t.Errorf("got %s", got)
	}
	if surge.FormatSlots(slots) != "Ot.n" {
		t.Error("the input was modified")
	}
	same := surge.Apply(slots, nil)
	if same[0] = surge.Absent; slots[0] != surge.OldAvailable {
		t.Error("without actions, the result is the input")
	}
	if got := surge.Apply(nil, nil); got == nil || len(got) != 0 {
		t.Errorf("got %v", got)
	}
	if got := surge.FormatSlots(surge.Apply(parse(t, "ON"), []surge.Action{{Index: 2, Op: surge.Delete}})); got != "ON" {
		t.Errorf("a deletion just behind the end: got %s", got)
	}
	const highest = 2*surge.MaxReplicas - 1
	if n := len(surge.Apply(nil, []surge.Action{{Index: highest, Op: surge.Create}, {Index: highest + 1, Op: surge.Create}})); n != highest+1 {
		t.Errorf("the highest index there is, and one above: got %d slots", n)
	}
}

// TestDiagnose holds the stuck scenarios of Grove's design.
func TestDiagnose(t *testing.T) {
	never := func(which ...int) func(int) bool {
		return func(index int) bool {
			return slices.Contains(which, index)
		}
	}
	gang := func(m int) func(*surge.Spec) { return func(s *surge.Spec) { s.MinAvailable = m } }
	for _, row := range []struct {
		why         string
		spec        surge.Spec
		state       string
		unscheduled func(int) bool
		want        surge.Stuck
		indices     string
	}{
		{"PodClique: the surge pod cannot be scheduled", budget(3, 1, 0), "OOOn", never(3), surge.SurgeUnscheduled, "[3]"},
		{"PodClique: the surge pod is scheduled and not ready", budget(3, 1, 0), "OOOn", never(), surge.SurgeNotReady, "[3]"},
		{"nobody knows whether it is scheduled", budget(3, 1, 0), "OOOn", nil, surge.SurgeNotReady, "[3]"},
		{"one of two surges cannot be scheduled", budget(3, 2, 0), "OOOnn", never(4), surge.SurgeUnscheduled, "[4]"},
		{"scaling group: the surge waits for a base gang that is updating", change(budget(3, 2, 0), gang(2)), "nOONn", never(4), surge.SurgeGated, "[0]"},
		{"its last member is a member", change(budget(3, 2, 0), gang(2)), "OnONn", never(4), surge.SurgeGated, "[1]"},
		{"the base gang serves, so the gate is open", change(budget(3, 2, 0), gang(2)), "NOOnn", never(4), surge.SurgeUnscheduled, "[4]"},
		{"no gang, no gate", budget(3, 2, 0), "nOONn", never(0, 4), surge.SurgeUnscheduled, "[4]"},
		{"what is not in the base gang is no gate, and no surge", change(budget(3, 2, 0), gang(1)), "NnOnn", nil, surge.SurgeNotReady, "[3 4]"},
		{"a member of the base gang that may not be replaced keeps the gate shut", change(budget(3, 2, 0), func(s *surge.Spec) { s.Partition, s.MinAvailable = 1, 2 }), "oOOnn", nil, surge.SurgeGated, "[0]"},
		{"an index that is free is no surge, whatever the caller says of it", budget(3, 2, 0), "NNOn.", never(3, 4), surge.SurgeUnscheduled, "[3]"},
		{"paused, with a free index between", change(budget(2, 2, 0), func(s *surge.Spec) { s.Paused = true }), "NO.N", nil, surge.UpdatePaused, "[1 3]"},
		{"a broken revision uses the budgets up", budget(3, 1, 0), "nOON", nil, surge.TargetNotReady, "[0]"},
		{"ReplicaRecreate: existing replicas that may not be replaced are unhealthy", change(budget(3, 0, 1), func(s *surge.Spec) { s.Partition = 1 }), "oOO", nil, surge.ReplicasUnhealthy, "[0]"},
		{"existing replicas that may be replaced are", budget(3, 0, 1), "oOO", nil, surge.NotStuck, "[]"},
		{"the surge is on its way out", budget(3, 1, 0), "OOOt", nil, surge.NotStuck, "[]"},
		{"there is something to do", budget(3, 1, 0), "OOO.", nil, surge.NotStuck, "[]"},
		{"done", budget(3, 1, 0), "NNN", nil, surge.NotStuck, "[]"},
		{"paused, and the partition keeps two anyway", change(budget(3, 1, 0), func(s *surge.Spec) { s.Paused, s.Partition = true, 2 }), "OOO", nil, surge.UpdatePaused, "[2]"},
		{"paused", change(budget(3, 1, 0), func(s *surge.Spec) { s.Paused = true }), "NOON", nil, surge.UpdatePaused, "[1 2 3]"},
	} {
		t.Run(row.why, func(t *testing.T) {
			got := surge.Diagnose(row.spec, parse(t, row.state), row.unscheduled)
			if got.Stuck != row.want || sprint(got.Indices) != row.indices {
				t.Errorf("got %v", got)
			}
			if (got.Remedy == "") != (row.want == surge.NotStuck) {
				t.Errorf("remedy %q", got.Remedy)
			}
		})
	}
}

// TestDiagnoseRemedies: what is said to help does, even where a pause or the partition would hold
// it back.
func TestDiagnoseRemedies(t *testing.T) {
	protect := func(p int) func(*surge.Spec) { return func(s *surge.Spec) { s.Partition = p } }
	paused := func(s *surge.Spec) { s.Paused = true }
	newRevision := func(slots []surge.Slot) []surge.Slot {
		old := map[surge.Slot]surge.Slot{surge.TargetAvailable: surge.OldAvailable, surge.TargetUnavailable: surge.OldUnavailable}
		var next []surge.Slot
		for _, slot := range slots {
			if label, ok := old[slot]; ok {
				slot = label
			}
			next = append(next, slot)
		}
		return next
	}
	same := func(slots []surge.Slot) []surge.Slot { return slots }
	for _, row := range []struct {
		why    string
		spec   surge.Spec
		state  string
		remedy string
		spec2  func(*surge.Spec) // the remedy, carried out
		state2 func([]surge.Slot) []surge.Slot
	}{
		{"a broken revision", budget(3, 0, 1), "nOO", "publish a working revision, or go back to the old one", func(*surge.Spec) {}, newRevision},
		{"a broken revision below the partition and above", change(budget(3, 0, 1), protect(1)), "nnO", "publish a working revision, or go back to the old one", func(*surge.Spec) {}, newRevision},
		{"a broken revision below the partition", change(budget(2, 0, 1), protect(1)), "nN", "publish a working revision, or go back to the old one, and lower the partition", protect(0), newRevision},
		{"a broken revision in a set that is paused", change(budget(2, 0, 1), paused), "nN", "publish a working revision, or go back to the old one, and resume the update", func(s *surge.Spec) { s.Paused = false }, newRevision},
		{"both", change(change(budget(2, 0, 1), protect(2)), paused), "nN", "publish a working revision, or go back to the old one, and lower the partition, and resume the update",
			func(s *surge.Spec) { s.Paused, s.Partition = false, 0 }, newRevision},
		{"a broken old replica below the partition", change(budget(2, 0, 1), protect(1)), "oN", "repair these replicas, or lower the partition to replace them", protect(0), same},
		{"the same in a set that is paused", change(change(budget(2, 0, 1), protect(1)), paused), "oN", "repair these replicas, or lower the partition to replace them, and resume the update",
			func(s *surge.Spec) { s.Paused, s.Partition = false, 0 }, same},
		{"a surge that is not ready, nor a base replica", budget(3, 1, 1), "nOOn",
			"make the surge available, publish a working revision, or give the surge up with maxSurge 0 and maxUnavailable 2; if it is only deleted, it is created again",
			func(s *surge.Spec) { s.MaxSurge, s.MaxUnavailable = concurrency.Count(0), concurrency.Count(2) }, same},
		{"a surge that is not ready", budget(3, 1, 0), "OOOn",
			"make the surge available, publish a working revision, or give the surge up with maxSurge 0 and maxUnavailable 1; if it is only deleted, it is created again",
			func(s *surge.Spec) { s.MaxSurge, s.MaxUnavailable = concurrency.Count(0), concurrency.Count(1) }, same},
	} {
		slots := parse(t, row.state)
		if got := surge.Diagnose(row.spec, slots, nil); got.Remedy != row.remedy {
			t.Errorf("%s: got %v", row.why, got)
		}
		row.spec2(&row.spec)
		if plan := surge.Plan(row.spec, row.state2(slots)); len(plan.Actions) == 0 {
			t.Errorf("%s: what is said to help does not: %v", row.why, plan)
		}
	}
}

// TestDiagnoseGatedReplicas: replicas at the target that are scheduled after a member of the base
// gang which the partition protects do not become available by another revision, so the member is
// named first.
func TestDiagnoseGatedReplicas(t *testing.T) {
	gated := func(partition, gang int) surge.Spec {
		return change(budget(3, 0, 1), func(s *surge.Spec) { s.Partition, s.MinAvailable = partition, gang })
	}
	publish := "publish a working revision, or go back to the old one"
	first := func(members string) string {
		return "repair " + members + " of the base gang, or lower the partition to replace them: other gangs are scheduled after them; if that is not enough, " + publish
	}
	for _, row := range []struct {
		why    string
		spec   surge.Spec
		state  string
		remedy string
	}{
		{"one waits for a protected member", gated(1, 1), "oNn", first("[0]")},
		{"all wait for the members that are down", gated(2, 2), "uon", first("[0 1]")},
		{"a member that is at the target is no gate that a new revision leaves shut", gated(1, 1), "nNn", publish},
		{"the gang is served", gated(1, 1), "OOn", publish},
		{"the protected replica is not in the gang", gated(2, 1), "Oon", publish},
		{"only the gang itself is down, and its members are scheduled together", gated(1, 3), "oNn", publish},
		{"no gang", gated(1, 0), "oNn", publish},
	} {
		if got := surge.Diagnose(row.spec, parse(t, row.state), nil); got.Stuck != surge.TargetNotReady || got.Remedy != row.remedy {
			t.Errorf("%s: got %v", row.why, got)
		}
	}
	// serve carries plans out in a world in which all at the target are good, but are scheduled
	// after the base gang.
	serve := func(spec surge.Spec, slots []surge.Slot) (surge.Result, []surge.Slot) {
		for range 20 {
			plan := surge.Plan(spec, slots)
			if len(plan.Actions) == 0 && !plan.Blocked.Has(surge.BlockedTerminating) {
				break
			}
			slots = surge.Apply(slots, plan.Actions)
			for i, slot := range slots {
				switch {
				case slot == surge.Terminating:
					slots[i] = surge.Absent
				case slot == surge.TargetUnavailable && (i < spec.MinAvailable || slots[0].Available()):
					slots[i] = surge.TargetAvailable
				}
			}
		}
		return surge.Plan(spec, slots), slots
	}
	spec := gated(1, 1)
	if plan, slots := serve(spec, parse(t, "oOo")); plan.Converged || surge.FormatSlots(slots) != "oOn" {
		t.Errorf("a new revision alone: %v, %s", plan, surge.FormatSlots(slots))
	}
	if plan, slots := serve(gated(0, 1), parse(t, "oNn")); !plan.Converged {
		t.Errorf("a lower partition: %v, %s", plan, surge.FormatSlots(slots))
	}
}

// TestDiagnoseNoRoom: what was never scheduled does not become available by another revision. It may
// wait for the room that outdated replicas or surges take, as in a full cluster in which a scale-out
// came together with the revision.
func TestDiagnoseNoRoom(t *testing.T) {
	never := func(which ...int) func(int) bool {
		return func(index int) bool { return slices.Contains(which, index) }
	}
	const (
		room, some = "make room for these replicas, or scale in", "make room for those that were never scheduled"
		publish    = "publish a working revision, or go back to the old one"
		more       = ", or let one more go with maxUnavailable "
	)
	from := func(p, m int) func(*surge.Spec) {
		return func(s *surge.Spec) { s.Partition, s.MinAvailable = p, m }
	}
	for _, row := range []struct {
		why         string
		spec        surge.Spec
		state       string
		unscheduled func(int) bool
		remedy      string
		most        int // the maxUnavailable that the remedy ends with; 0: it names none
	}{
		{"a scale-out came with the revision (kubernetes-sigs/lws#996)", budget(2, 0, 1), "On", never(1), room + more, 2},
		{"a large one did", budget(8, 0, 2), "OOOOnnnn", never(4, 5, 6, 7), room + more, 5},
		{"a repair waits as well", budget(2, 0, 1), "no", never(0), room + more, 2},
		{"a surge took the room", budget(3, 1, 0), "nOON", never(0), room + more, 2},
		{"a surge took it at the end", budget(3, 1, 0), "nNNN", never(0), room + more, 2},
		{"a surge stands in for all", budget(1, 1, 0), "nN", never(0), room + more, 1},
		{"nothing is left that could go", budget(3, 1, 0), "nNN", never(0), room, 0},
		{"nothing but what the partition keeps", change(budget(3, 0, 1), from(1, 0)), "ONn", never(2), room, 0},
		{"another revision would need a lower partition, and room does not", change(budget(3, 0, 1), from(1, 0)), "nNN", never(0), room, 0},
		{"another one was scheduled, and does not serve", budget(3, 0, 1), "nnO", never(1), some + ", " + publish + more, 3},
		{"it is in a gang that is scheduled after another one", change(budget(3, 0, 1), from(0, 2)), "nNn", never(2), publish, 0},
		{"so it is, and a member of that one has no room either", change(budget(3, 0, 1), from(0, 2)), "nNn", never(0, 2), some + ", " + publish, 0},
		{"the other gang serves", change(budget(3, 0, 1), from(0, 2)), "NNn", never(2), room, 0},
		{"one that serves was scheduled, whatever the caller says of it", budget(2, 0, 1), "nN", never(1), publish, 0},
		{"nobody knows", budget(2, 0, 1), "On", nil, publish, 0},
	} {
		slots := parse(t, row.state)
		got := surge.Diagnose(row.spec, slots, row.unscheduled)
		if row.most > 0 {
			row.remedy += fmt.Sprint(row.most)
		}
		if got.Stuck != surge.TargetNotReady || got.Remedy != row.remedy || got.MaxUnavailable != 0 {
			t.Errorf("%s: got %v, %d; want %s", row.why, got, got.MaxUnavailable, row.remedy)
		}
		if row.most == 0 {
			continue
		}
		row.spec.MaxUnavailable = concurrency.Count(row.most)
		plan := surge.Plan(row.spec, slots)
		if err := row.spec.Validate(); err != nil || !slices.ContainsFunc(plan.Actions, func(a surge.Action) bool { return a.Op == surge.Delete }) {
			t.Errorf("%s: what is said to make room does not: %v, %v", row.why, plan, err)
		}
	}
}

// TestGivingUpASurge: in every small state in which a surge is waited for, the budgets with which it
// is given up are valid, and let the update take an old replica of the base. The remedy names them,
// unless the members of a gang have to come first; in no other scenario is there a number. What a
// remedy says to make room with does, and where it names nothing there is nothing.
func TestGivingUpASurge(t *testing.T) {
	letters, seen := parse(t, "uoOnN."), map[string]int{}
	check := func(spec surge.Spec, slots []surge.Slot) {
		d := surge.Diagnose(spec, slots, nil)
		most := d.MaxUnavailable
		if room := surge.Diagnose(spec, slots, func(int) bool { return true }); room.Stuck == surge.TargetNotReady {
			more := spec
			if _, text, ok := strings.Cut(room.Remedy, "let one more go with maxUnavailable "); ok {
				k, err := strconv.Atoi(text)
				more.MaxUnavailable = concurrency.Count(k)
				plan := surge.Plan(more, slots)
				if err != nil || more.Validate() != nil || !slices.ContainsFunc(plan.Actions, func(a surge.Action) bool { return a.Op == surge.Delete }) {
					t.Errorf("%+v %s: %v: then %v", spec, surge.FormatSlots(slots), room, plan)
				}
				seen["more room"]++
			} else if more.MaxUnavailable = concurrency.Count(spec.Resolve().Replicas); strings.HasPrefix(room.Remedy, "make room") && len(surge.Plan(more, slots).Actions) > 0 {
				t.Errorf("%+v %s: %v, but all may go: %v", spec, surge.FormatSlots(slots), room, surge.Plan(more, slots))
			}
		}
		if waits := d.Stuck == surge.SurgeGated || d.Stuck == surge.SurgeNotReady; waits != (most > 0) {
			t.Errorf("%+v %s: %v with %d", spec, surge.FormatSlots(slots), d, most)
		}
		if most == 0 {
			return
		}
		if never := surge.Diagnose(spec, slots, func(int) bool { return true }); never.MaxUnavailable != most || never.Stuck == surge.SurgeUnscheduled && !strings.HasSuffix(never.Remedy, fmt.Sprint("with maxSurge 0 and maxUnavailable ", most)) {
			t.Errorf("%+v %s: %v with %d, never scheduled", spec, surge.FormatSlots(slots), never, never.MaxUnavailable)
		}
		seen[fmt.Sprint(d.Stuck, most)]++
		if d.Stuck == surge.SurgeNotReady && !strings.Contains(d.Remedy, fmt.Sprintf("give the surge up with maxSurge 0 and maxUnavailable %d;", most)) {
			t.Errorf("%+v %s: %v", spec, surge.FormatSlots(slots), d)
		}
		down := 0 // and not to be replaced
		for i, slot := range slots[:spec.Replicas] {
			if slot == surge.TargetUnavailable || i < spec.Partition && !slot.Available() {
				down++
			}
		}
		if most != down+1 {
			t.Errorf("%+v %s: %v, want %d", spec, surge.FormatSlots(slots), d, down+1)
		}
		spec.MaxSurge, spec.MaxUnavailable = concurrency.Count(0), concurrency.Count(most)
		plan := surge.Plan(spec, slots)
		if err := spec.Validate(); err != nil || !slices.ContainsFunc(plan.Actions, func(a surge.Action) bool { return a.Index < spec.Replicas }) {
			t.Errorf("%s: %v: then %v, %v", surge.FormatSlots(slots), d, plan, err)
		}
	}
	for _, w := range []world{{}, {gangs: true}} {
		w.replicas, w.surge, w.unavailable = 3, 2, 3
		for _, spec := range w.specs() {
			r := spec.Resolve()
			slots := make([]surge.Slot, r.Replicas+r.Surge)
			var fill func(i int)
			fill = func(i int) {
				if i == len(slots) {
					check(spec, slots)
					return
				}
				for _, slots[i] = range letters {
					fill(i + 1)
				}
			}
			fill(0)
		}
	}
	if seen["more room"] == 0 {
		t.Error("no replica waits for room that others take")
	}
	for _, scenario := range []surge.Stuck{surge.SurgeGated, surge.SurgeNotReady} {
		for most := 1; most <= 3; most++ {
			if seen[fmt.Sprint(scenario, most)] == 0 && !(scenario == surge.SurgeGated && most == 1) { // a member of the gang is down
				t.Errorf("too few states: %v", seen)
			}
		}
	}
}

// TestManyActions: a plan for a large set is still read by people.
func TestManyActions(t *testing.T) {
	if got, want := surge.Plan(budget(12, 0, 1), nil).String(), "+0 Hole\n+1 Hole\n+2 Hole\n+3 Hole\n+4 Hole\n+5 Hole\n+6 Hole\n+7 Hole\n+8 Hole\n+9 Hole\nand 2 more\nblocked: WaitingForBase"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestManyIndices: ten indices are shown, and the rest is counted.
func TestManyIndices(t *testing.T) {
	for _, row := range []struct {
		replicas int
		want     string
	}{
		{3, "[0 1 2]"}, {10, "[0 1 2 3 4 5 6 7 8 9]"}, {11, "[0 1 2 3 4 5 6 7 8 9 and 1 more]"}, {40, "[0 1 2 3 4 5 6 7 8 9 and 30 more]"},
	} {
		spec, slots := budget(row.replicas, 0, row.replicas), parse(t, strings.Repeat("n", row.replicas))
		if got, want := surge.Project(spec, slots, surge.Plan(spec, slots)).String(), fmt.Sprintf("0 updated, updating %s, 0 of %d replicas available", row.want, row.replicas); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if got, want := surge.Diagnose(spec, slots, nil).String(), "TargetNotReady "+row.want+": publish a working revision, or go back to the old one"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// TestNothingReads: what has nothing to say says so.
func TestNothingReads(t *testing.T) {
	if got := (surge.SetResult{Current: -1}).String(); got != "nothing" {
		t.Errorf("a plan of a set: %q", got)
	}
	if got := (surge.Progress{}).String(); got != "0 updated, 0 of 0 replicas available" {
		t.Errorf("a progress: %q", got)
	}
	if got := (surge.Diagnosis{}).String(); got != "not stuck" {
		t.Errorf("a diagnosis: %q", got)
	}
}
