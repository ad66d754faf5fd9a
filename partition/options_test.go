package partition_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tranche-dev/tranche/partition"
	"github.com/tranche-dev/tranche/selector"
)

// letters are states of a cluster, for rows that fit a line.
func letters() map[rune]partition.State {
	return map[rune]partition.State{
		'd': healthy(newVersion),
		'o': healthy(oldVersion),
		'p': {},
		'b': {Released: oldVersion, Applied: oldVersion},
		'u': {Released: newVersion, Applied: oldVersion, Ready: true},
		'z': {Released: oldVersion, Applied: oldVersion, Ready: true, Paused: true},
		'f': {Released: oldVersion, Applied: oldVersion, Ready: true, Offline: true},
		'g': {Offline: true},
		'x': {Released: oldVersion, Applied: oldVersion, Ready: true, Paused: true, Offline: true},
		'D': {Released: newVersion, Applied: newVersion, Ready: true, Offline: true},
		'P': {Released: newVersion, Applied: newVersion, Ready: true, Paused: true},
		'a': {Released: oldVersion, Applied: newVersion, Ready: true},
		'q': {Paused: true},
		'F': {Released: newVersion, Applied: oldVersion, Ready: true, Offline: true},
	}
}

// drawn says what a plan does with each cluster: R is released, = is up to date, then the reasons
// for which it waits or is NotReady.
func drawn(compiled *partition.Compiled, p *partition.Result) string {
	words := make([]string, compiled.Len())
	for _, r := range p.Releases {
		words[r.Index] = "R"
	}
	for _, w := range p.Waiting {
		words[w.Index] += string(w.Reason)
	}
	for _, u := range p.Unready {
		if words[u.Index] != "R" {
			words[u.Index] += "!" + u.Why.String()
		}
	}
	for i := range words {
		if words[i] == "" {
			words[i] = "="
		}
	}
	return strings.Join(words, " ")
}

// TestOptions: one partition in one step, per option and state.
func TestOptions(t *testing.T) {
	limit := partition.FromInt
	budget := partition.Options{Releases: partition.ByBudget}
	none, env := "", "env"
	named := func(name string) []partition.Definition { return []partition.Definition{{ClusterName: name}} }
	for _, row := range []struct {
		why      string
		states   string
		strategy partition.Strategy
		options  partition.Options
		paused   bool
		want     string
	}{
		{why: "the batch is not limited by maxUnavailable", states: "oooo", strategy: partition.Strategy{MaxUnavailable: limit(1)}, want: "R R R R"},
		{why: "a budget limits updates of healthy clusters", states: "oooo", strategy: partition.Strategy{MaxUnavailable: limit(2)}, options: budget, want: "R R budget budget"},
		{why: "a budget of 0 releases one if nothing is NotReady", states: "ooo", strategy: partition.Strategy{MaxUnavailable: limit(0)}, options: budget, want: "R budget budget"},
		{why: "what is NotReady takes up the budget", states: "uoooo", strategy: partition.Strategy{MaxUnavailable: limit(3)}, options: budget, want: "!not_applied R R budget budget"},
		{why: "a budget that is used up is open, and has no room", states: "uuoo", strategy: partition.Strategy{MaxUnavailable: limit(2)}, options: budget, want: "!not_applied !not_applied budget budget"},
		{why: "first deployments and fixes are not limited by the budget", states: "boppo", strategy: partition.Strategy{MaxUnavailable: limit(2)}, options: budget, want: "R R R R budget"},
		{why: "nor do they take up in the step what it leaves", states: "bpooo", strategy: partition.Strategy{MaxUnavailable: limit(3)}, options: budget, want: "R R R R budget"},
		{why: "more NotReady than allowed pauses all but the fix", states: "ububop", strategy: partition.Strategy{MaxUnavailable: limit(3)}, want: "!not_applied R !not_applied R threshold threshold"},
		{why: "equal proceeds", states: "ububop", strategy: partition.Strategy{MaxUnavailable: limit(4)}, want: "!not_applied R !not_applied R R R"},
		{why: "the batch limits the fix, too", states: "bbb", strategy: partition.Strategy{MaxUnavailable: limit(0), MaxNew: count(2)}, want: "R R batch"},
		{why: "a closed partition has its batch for fixes", states: "pb", strategy: partition.Strategy{MaxUnavailable: limit(0), MaxNew: count(1)}, want: "threshold R"},
		{why: "an open one goes in cluster order, so that a larger limit may let a fix wait for the next batch", states: "pb", strategy: partition.Strategy{MaxUnavailable: limit(1), MaxNew: count(1)}, want: "R batch"},
		{why: "a batch that is full", states: "oopp", strategy: partition.Strategy{MaxNew: count(3)}, want: "R R R batch"},
		{why: "a cap per step", states: "oopp", options: partition.Options{MaxPerStep: count(3)}, want: "R R R step_limit"},
		{why: "the cap is named before the batch", states: "oopp", strategy: partition.Strategy{MaxNew: count(3)}, options: partition.Options{MaxPerStep: count(3)}, want: "R R R step_limit"},
		{why: "the budget is named before the cap", states: "oo", strategy: partition.Strategy{MaxUnavailable: limit(1)}, options: partition.Options{MaxPerStep: count(1), Releases: partition.ByBudget}, want: "R budget"},
		{why: "the gate looks at the present: one NotReady member of a partition that was finished closes it again", states: "ddudop", strategy: partition.Strategy{MaxUnavailable: limit(0), MaxUnavailablePartitions: limit(0), AutoPartitionSize: limit(4), AutoPartitionThreshold: count(1)},
			want: "= = !not_applied = gate gate"},
		{why: "once it is ready again, the later ones go on", states: "ddddop", strategy: partition.Strategy{MaxUnavailable: limit(0), MaxUnavailablePartitions: limit(0), AutoPartitionSize: limit(4), AutoPartitionThreshold: count(1)},
			want: "= = = = R R"},
		{why: "the cap counts over all partitions", states: "oooo", strategy: partition.Strategy{MaxUnavailablePartitions: limit(9), AutoPartitionSize: limit(1), AutoPartitionThreshold: count(1)}, options: partition.Options{MaxPerStep: count(3)}, want: "R R R step_limit"},
		{why: "a paused cluster is held and does not count", states: "zo", strategy: partition.Strategy{MaxUnavailable: limit(0)}, want: "paused R"},
		{why: "or counts as NotReady", states: "zo", strategy: partition.Strategy{MaxUnavailable: limit(0)}, options: partition.Options{Paused: partition.BlockPaused}, want: "!paused threshold"},
		{why: "a partition whose members are all paused is passed, as an empty one is", states: "zzoo", strategy: partition.Strategy{MaxUnavailable: limit(0), AutoPartitionSize: limit(2), AutoPartitionThreshold: count(1)}, want: "paused paused R R"},
		{why: "or holds back all others", states: "zzoo", strategy: partition.Strategy{MaxUnavailable: limit(0), AutoPartitionSize: limit(2), AutoPartitionThreshold: count(1)}, options: partition.Options{Paused: partition.BlockPaused}, want: "!paused !paused gate gate"},
		{why: "a paused cluster that is up to date is done", states: "Po", strategy: partition.Strategy{MaxUnavailable: limit(0)}, options: partition.Options{Paused: partition.BlockPaused}, want: "= R"},
		{why: "an offline cluster is NotReady and gets its release like a broken one", states: "fo", strategy: partition.Strategy{MaxUnavailable: limit(0)}, want: "R threshold"},
		{why: "one that was never released is pending", states: "go", strategy: partition.Strategy{MaxUnavailable: limit(0)}, want: "R R"},
		{why: "one that is up to date is NotReady", states: "Do", strategy: partition.Strategy{MaxUnavailable: limit(0)}, want: "!offline threshold"},
		{why: "excluded, it is held", states: "fgDo", strategy: partition.Strategy{MaxUnavailable: limit(0)}, options: partition.Options{Offline: partition.ExcludeOffline}, want: "offline offline offline R"},
		{why: "paused is named before offline", states: "x", options: partition.Options{Offline: partition.ExcludeOffline}, want: "paused"},
		{why: "unless it is not what holds the cluster", states: "x", options: partition.Options{Offline: partition.ExcludeOffline, Paused: partition.BlockPaused}, want: "offline"},
		{why: "a paused bundle releases nothing, and counts as ever", states: "odzu", paused: true, want: "bundle_paused = bundle_paused !not_applied"},
		{why: "an agent that runs the wanted version already is NotReady for the time of the step", states: "ao", strategy: partition.Strategy{MaxUnavailable: limit(0)}, want: "R threshold"},
		{why: "clusterName is the name", states: "oo", strategy: partition.Strategy{Partitions: named("c000001")}, want: "unmatched R"},
		{why: "or the display name", states: "oo", strategy: partition.Strategy{Partitions: named("shown")}, want: "R unmatched"},
		{why: "unless there is no such label", states: "oo", strategy: partition.Strategy{Partitions: named("shown")}, options: partition.Options{DisplayNameLabel: &none}, want: "unmatched unmatched"},
		{why: "even if a cluster has a label with an empty key", states: "oo", strategy: partition.Strategy{Partitions: named("nameless")}, options: partition.Options{DisplayNameLabel: &none}, want: "unmatched unmatched"},
		{why: "or another one", states: "oo", strategy: partition.Strategy{Partitions: named("prod")}, options: partition.Options{DisplayNameLabel: &env}, want: "R unmatched"},
		{why: "and all criteria hold, a group as well", states: "oo", strategy: partition.Strategy{Partitions: []partition.Definition{{ClusterName: "shown", ClusterGroup: "g", ClusterSelector: &selector.LabelSelector{}}}}, want: "R unmatched"},
		{why: "not another group", states: "oo", strategy: partition.Strategy{Partitions: []partition.Definition{{ClusterName: "shown", ClusterGroup: "h"}}}, want: "unmatched unmatched"},
	} {
		fleet := fleetOf(len(row.states), fresh())
		fleet.Paused = row.paused
		for i, letter := range row.states {
			fleet.Clusters[i].State = letters()[letter]
		}
		fleet.Clusters[0].Labels = map[string]string{partition.DisplayNameLabel: "shown", "env": "prod", "": "nameless"}
		fleet.Clusters[0].Groups = []string{"f", "g"}
		compiled, err := partition.Compile(row.strategy, fleet, row.options)
		if err != nil {
			t.Fatalf("%s: %v", row.why, err)
		}
		p := compiled.Plan()
		if got := drawn(compiled, &p); got != row.want {
			t.Errorf("%s: %s: got  %s\nwant %s\n%s", row.why, row.states, got, row.want, p.Step)
		}
		if want, err := reference(row.strategy, fleet, row.options); err != nil || fmt.Sprint(want.Reasons) != fmt.Sprint(outcomeOf(compiled, &p).Reasons) {
			t.Errorf("%s: the reference says %v, %v", row.why, want.Reasons, err)
		}
	}
}

// TestReadyIsOfTheTurn: a later partition may release what an earlier one left waiting, so that the
// earlier one would be ready after the step. The gate was decided before, and what the step says of
// the partition agrees with the gate.
func TestReadyIsOfTheTurn(t *testing.T) {
	one := 1
	strategy := partition.Strategy{
		MaxNew: &one, MaxUnavailablePartitions: partition.FromInt(1),
		Partitions: []partition.Definition{{Name: "both", ClusterSelector: &selector.LabelSelector{}}, {Name: "second", ClusterName: "y"}},
	}
	fleet := partition.Fleet{Clusters: []partition.Cluster{
		{Name: "x", Wanted: newVersion, State: healthy(oldVersion)}, {Name: "y", Wanted: newVersion, State: healthy(oldVersion)}}}
	plan, err := partition.Plan(strategy, fleet, partition.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if s := plan.Partitions[0]; len(plan.Releases) != 2 || s.Waiting != 0 || s.NotReady != 2 || s.MaxUnavailable != 2 {
		t.Fatalf("the step does not leave the first partition without waiting members and within its limit:\n%v", plan.Step)
	}
	if plan.Partitions[0].Ready || plan.NotReadyPartitions != 1 {
		t.Errorf("the first partition had a waiting member at its turn:\n%v", plan.Step)
	}
}

// TestThresholdIsOfTheTurn: the verdict has the numbers that were compared. What a later partition
// releases of the members makes more of them NotReady, and was not known then.
func TestThresholdIsOfTheTurn(t *testing.T) {
	strategy := partition.Strategy{
		MaxUnavailable: partition.FromInt(0), MaxUnavailablePartitions: partition.FromInt(1),
		Partitions: []partition.Definition{{Name: "all", ClusterSelector: &selector.LabelSelector{}}, {Name: "second", ClusterName: "y"}},
	}
	fleet := partition.Fleet{Clusters: []partition.Cluster{
		{Name: "x", Wanted: newVersion, State: partition.State{Released: newVersion}},
		{Name: "y", Wanted: newVersion, State: healthy(oldVersion)}, {Name: "z", Wanted: newVersion, State: healthy(oldVersion)}}}
	plan, err := partition.Plan(strategy, fleet, partition.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(plan.Releases) != 1 || plan.Releases[0].Name != "y" || plan.Partitions[0].NotReady != 2 || plan.Partitions[0].Unavailable != 1 {
		t.Fatalf("the second partition does not release y:\n%v", plan.Step)
	}
	if got, want := fmt.Sprint(plan.Waiting), "[z: partition 0 waits: 1 member is NotReady, at most 0 may be]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestBlockedIsNotWaiting: a paused cluster on another version is counted once, as held or as
// blocked, and not among those that wait. One that has the wanted version is listed as held, too.
func TestBlockedIsNotWaiting(t *testing.T) {
	for option, want := range map[partition.Paused]string{
		partition.SkipPaused:  "0 waiting, 2 held, 0 blocked; [c000000: the cluster is paused c000001: the cluster is paused] []",
		partition.BlockPaused: "0 waiting, 0 held, 1 blocked; [] [c000000: paused c000001: not_ready,paused]",
	} {
		fleet := fleetOf(2, healthy(oldVersion))
		fleet.Clusters[1].State = partition.State{Released: newVersion, Applied: newVersion}
		for i := range fleet.Clusters {
			fleet.Clusters[i].Paused = true
		}
		plan, err := partition.Plan(partition.Strategy{}, fleet, partition.Options{Paused: option})
		if err != nil {
			t.Fatal(err)
		}
		s := plan.Partitions[0]
		if got := fmt.Sprintf("%d waiting, %d held, %d blocked; %v %v", s.Waiting, s.Held, s.Classes.Blocked, plan.Waiting, plan.Unready); got != want {
			t.Errorf("%s: got %s, want %s", option, got, want)
		}
	}
}

// TestLeftoverNames: leftovers are cut from their own number, behind the manual partitions. A
// single slice of them needs no range, unlike that of all clusters; and where none are left, no
// partition is added.
func TestLeftoverNames(t *testing.T) {
	for _, row := range []struct {
		why       string
		n, manual int // of n clusters so many are in the manual partition
		threshold int
		size      partition.IntOrString
		want      string
	}{
		{"fewer than the threshold", 5, 2, 4, partition.FromInt(1), "manual:2 Leftovers:3"},
		{"as many as the threshold, which all clusters together reach long before", 6, 2, 4, partition.FromInt(3), "manual:2 Leftovers 0 - 3:3 Leftovers 3 - 4:1"},
		{"one slice of all that are left", 6, 2, 4, partition.FromString("100%"), "manual:2 Leftovers:4"},
		{"a slice larger than what is left", 6, 2, 4, partition.FromInt(5), "manual:2 Leftovers:4"},
		{"a quarter of what is left", 10, 2, 4, partition.IntOrString{}, "manual:2 Leftovers 0 - 2:2 Leftovers 2 - 4:2 Leftovers 4 - 6:2 Leftovers 6 - 8:2"},
		{"none is left", 2, 2, 1, partition.FromInt(1), "manual:2"},
		{"all are left", 2, 0, 1, partition.FromInt(1), "manual:0 Leftovers 0 - 1:1 Leftovers 1 - 2:1"},
		{"no manual partitions: one slice has a range", 4, -1, 4, partition.FromString("100%"), "Partition 0 - 4:4"},
		{"and below the threshold none", 3, -1, 4, partition.FromInt(1), "All:3"},
	} {
		strategy := partition.Strategy{AutoPartitionSize: row.size, AutoPartitionThreshold: count(row.threshold)}
		fleet := fleetOf(row.n, fresh())
		for i := range max(0, row.manual) {
			fleet.Clusters[i*(row.n-1)].Labels = map[string]string{"stage": "manual"}
		}
		if row.manual >= 0 {
			strategy.Partitions = stage("manual")
		}
		plan, err := partition.Plan(strategy, fleet, partition.Options{Leftovers: partition.AppendLeftovers})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, p := range plan.Partitions {
			got = append(got, fmt.Sprint(p.Name, ":", p.Count))
		}
		if strings.Join(got, " ") != row.want || len(plan.Unmatched) > 0 {
			t.Errorf("%s: got %s, %d unmatched, want %s", row.why, strings.Join(got, " "), len(plan.Unmatched), row.want)
		}
	}
}

// TestControllerReasons: in the mode FleetController every cluster that is not released has a
// reason, too.
func TestControllerReasons(t *testing.T) {
	limit := partition.FromInt
	for _, row := range []struct {
		why      string
		states   string
		strategy partition.Strategy
		paused   bool
		want     string
		reason   string // of the last that waits
	}{
		{why: "the batch of new ones is full", states: "ppp", strategy: partition.Strategy{MaxNew: count(2)}, want: "R R batch", reason: "the batch of 2 is full"},
		{why: "no batch at all", states: "p", strategy: partition.Strategy{MaxNew: count(0)}, want: "batch", reason: "new clusters never get a deployment: the batch is 0"},
		{why: "the partition has no room", states: "ooo", strategy: partition.Strategy{MaxUnavailable: limit(3), Partitions: []partition.Definition{{ClusterSelector: &selector.LabelSelector{}, MaxUnavailable: limit(1)}}},
			want: "R budget budget", reason: "partition 0 has no room for updates: 1 member is unavailable, at most 1 may be"},
		{why: "all targets together have none", states: "ooo", strategy: partition.Strategy{MaxUnavailable: limit(1), Partitions: []partition.Definition{{ClusterSelector: &selector.LabelSelector{}, MaxUnavailable: limit(3)}}},
			want: "R total_budget total_budget", reason: "all targets together have no room for updates: 1 is unavailable, at most 1 may be"},
		{why: "an earlier partition is not ready", states: "oo", strategy: partition.Strategy{MaxUnavailable: limit(0), AutoPartitionThreshold: count(1), AutoPartitionSize: limit(1)},
			want: "budget gate", reason: "partition 1 is not reached: partition 0 closed the gate, 1 partition is not ready, at most 0 may be"},
		{why: "a paused cluster is staged and waits", states: "zo", want: "paused R", reason: "the cluster is paused"},
		{why: "a paused bundle", states: "op", paused: true, want: "bundle_paused bundle_paused", reason: "the bundle is paused"},
		{why: "in no partition", states: "o", strategy: partition.Strategy{Partitions: []partition.Definition{{ClusterName: "x"}}}, want: "unmatched", reason: "the cluster is in no partition"},
		{why: "unready ones say why; offline is not looked at", states: "uDbP", want: "!not_applied = R =", reason: ""},
	} {
		fleet := fleetOf(len(row.states), fresh())
		fleet.Paused = row.paused
		for i, letter := range row.states {
			fleet.Clusters[i].State = letters()[letter]
		}
		compiled, err := partition.Compile(row.strategy, fleet, partition.Options{Mode: partition.FleetController, MaxPerStep: count(1), Offline: partition.ExcludeOffline, Leftovers: partition.AppendLeftovers})
		if err != nil {
			t.Fatalf("%s: %v", row.why, err)
		}
		p := compiled.Plan()
		if p.MaxPerStep != 0 {
			t.Errorf("%s: %d releases per step, in a mode that ignores them", row.why, p.MaxPerStep)
		}
		reason := ""
		if n := len(p.Waiting); n > 0 {
			reason = p.Waiting[n-1].Verdict.String()
		}
		if got := drawn(compiled, &p); got != row.want || reason != row.reason {
			t.Errorf("%s: %s: got  %s, %q\nwant %s, %q\n%s", row.why, row.states, got, reason, row.want, row.reason, p.Step)
		}
	}
}

// TestControllerReconcile: what one reconcile of Fleet's controller makes, prepares and releases, where
// a rewrite tends to lose it.
func TestControllerReconcile(t *testing.T) {
	limit, every := partition.FromInt, &selector.LabelSelector{}
	own := func(s partition.Strategy, definitions ...partition.Definition) partition.Strategy {
		s.Partitions = definitions
		return s
	}
	named := func(name string, most partition.IntOrString) partition.Definition {
		return partition.Definition{ClusterName: name, MaxUnavailable: most}
	}
	singles := func(s partition.Strategy) partition.Strategy {
		s.AutoPartitionSize, s.AutoPartitionThreshold = limit(1), count(1)
		return s
	}
	for _, row := range []struct {
		why, states string
		strategy    partition.Strategy
		paused      bool
		want        string // created; staged; released, by place
	}{
		{why: "a paused target uses the batch for new ones up, and is not released", states: "qpp", strategy: partition.Strategy{MaxNew: count(2)}, want: "0 1; 0 1; 1"},
		{why: "the batch is for new ones only", states: "oopp", strategy: partition.Strategy{MaxNew: count(1)}, want: "2; 0 1 2; 0 1 2"},
		{why: "new ones are never held back, not by a limit of 0 either", states: "oppo", strategy: partition.Strategy{MaxUnavailable: limit(0)}, want: "1 2; 0 1 2 3; 1 2"},
		{why: "and take nothing from the budget in the reconcile that makes them", states: "ppo", strategy: partition.Strategy{MaxUnavailable: limit(1)}, want: "0 1; 0 1 2; 0 1 2"},
		{why: "what is unavailable goes at no cost, and uses the budget of the others up", states: "bbo", strategy: partition.Strategy{MaxUnavailable: limit(2)}, want: "; 0 1 2; 0 1"},
		{why: "the limit over all targets is a share of all, those in no partition included", states: "oooo", want: "; 0 1; 0 1",
			strategy: own(partition.Strategy{MaxUnavailable: partition.FromString("50%")}, named("c000000", limit(1)), named("c000001", limit(1)))},
		{why: "a partition that allows more than all targets together releases no more", states: "ooo", want: "; 0 1 2; 0",
			strategy: own(partition.Strategy{MaxUnavailable: limit(1)}, partition.Definition{ClusterSelector: every, MaxUnavailable: limit(3)})},
		{why: "it is only ready earlier, so that the next one has its turn", states: "oo", want: "; 0 1; ",
			strategy: own(partition.Strategy{MaxUnavailable: limit(0)}, named("c000000", limit(1)), named("c000001", limit(1)))},
		{why: "behind the stop nothing is made, prepared or released", states: "opbo", strategy: singles(partition.Strategy{MaxUnavailable: limit(0)}), want: "; 0; "},
		{why: "a paused target is staged and keeps its partition unready", states: "zo", strategy: singles(partition.Strategy{MaxUnavailable: limit(0)}), want: "; 0; "},
		{why: "a paused bundle is made and staged, up to its stop", states: "po", paused: true, want: "0; 0 1; "},
		{why: "an offline target on the old version looks available; released, it holds its place", states: "Fo", strategy: partition.Strategy{MaxUnavailable: limit(1)}, want: "; 1; "},
	} {
		fleet := fleetOf(len(row.states), fresh())
		fleet.Paused = row.paused
		for i, letter := range row.states {
			fleet.Clusters[i].State = letters()[letter]
		}
		plan, err := partition.Plan(row.strategy, fleet, partition.Options{Mode: partition.FleetController})
		if err != nil {
			t.Fatalf("%s: %v", row.why, err)
		}
		places := func(ids []partition.ID) string {
			var list []string
			for _, id := range ids {
				list = append(list, fmt.Sprint(id.Index))
			}
			return strings.Join(list, " ")
		}
		var released []partition.ID
		for _, r := range plan.Releases {
			released = append(released, r.ID)
		}
		if got := places(plan.Controller.Created) + "; " + places(plan.Controller.Staged) + "; " + places(released); got != row.want {
			t.Errorf("%s: %s: got %q, want %q\n%s", row.why, row.states, got, row.want, plan.Step)
		}
	}
}
