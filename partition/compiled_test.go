package partition_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/tranche-dev/tranche/internal/testkit"
	"github.com/tranche-dev/tranche/partition"
	"github.com/tranche-dev/tranche/selector"
)

// TestWrongNumbers: a number that is no cluster or partition is an error, and changes nothing.
func TestWrongNumbers(t *testing.T) {
	compiled, err := partition.Compile(partition.Strategy{}, fleetOf(2, fresh()), partition.Options{})
	if err != nil {
		t.Fatal(err)
	}
	none, err := partition.Compile(partition.Strategy{}, fleetOf(0, fresh()), partition.Options{})
	if err != nil {
		t.Fatal(err)
	}
	before := compiled.Plan()
	id := func(c *partition.Compiled, n int) error { _, err := c.ID(n); return err }
	explain := func(c *partition.Compiled, n int) error {
		v, waits, err := c.Explain(n)
		if err != nil && (waits || v != (partition.Verdict{})) {
			t.Errorf("whoever looks at the error last takes nobody for a cluster that waits: %v %v", v, waits)
		}
		return err
	}
	members := func(c *partition.Compiled, n int) error { _, err := c.Members(n); return err }
	update := func(c *partition.Compiled, n int) error {
		changed, err := c.Update(n, healthy(newVersion))
		if changed {
			t.Errorf("Update(%d) says that it changed something", n)
		}
		return err
	}
	all := func(c *partition.Compiled, n int) error { return c.UpdateAll(make([]partition.State, n)) }
	const ofTwo = "must be from 0 to 1, a place among the clusters: Find returns the place of a name"
	for _, row := range []struct {
		name string
		call func(*partition.Compiled, int) error
		plan *partition.Compiled
		n    int
		want string
		why  string
	}{
		{"Update", update, compiled, -1, "cluster: -1: " + ofTwo, "no place is negative"},
		{"Update", update, compiled, 2, "cluster: 2: " + ofTwo, "one behind the last"},
		{"Update", update, none, 0, "cluster: 0: has no place, because the plan has no cluster", "there is no last one"},
		{"ID", id, compiled, -1, "cluster: -1: " + ofTwo, "like Update"},
		{"ID", id, compiled, 2, "cluster: 2: " + ofTwo, "like Update"},
		{"Explain", explain, compiled, -1, "cluster: -1: " + ofTwo, "like Update"},
		{"Explain", explain, compiled, 2, "cluster: 2: " + ofTwo, "like Update"},
		{"Members", members, compiled, -1, "partition: -1: must be from 0 to 0, a place among the partitions", "no index is negative"},
		{"Members", members, compiled, 1, "partition: 1: must be from 0 to 0, a place among the partitions", "one behind the last"},
		{"UpdateAll", all, compiled, 1, "states: 1: must be 2, one for each cluster, in cluster order", "the state of which cluster?"},
		{"UpdateAll", all, compiled, 3, "states: 3: must be 2, one for each cluster, in cluster order", "a cluster that is not in the plan"},
	} {
		err := row.call(row.plan, row.n)
		var fault *partition.FieldError
		if !errors.As(err, &fault) || fault.Code != partition.CodeValue || err.Error() != row.want {
			t.Errorf("%s(%d): got %v, want %s: %s", row.name, row.n, err, row.want, row.why)
		}
	}
	for _, n := range []int{-1, 2} {
		if _, err := compiled.Partitions(n); err == nil {
			t.Errorf("Partitions(%d) is accepted", n)
		}
	}
	if diff := gocmp.Diff(before, compiled.Plan()); diff != "" {
		t.Errorf("a refused call changed the plan:\n%s", diff)
	}
	if _, ok := compiled.Find("", "nobody"); ok {
		t.Error("a cluster that is not there is found")
	}
	if id, err := compiled.ID(1); err != nil || id.Name != "c000001" || id.Index != 1 || compiled.Len() != 2 {
		t.Errorf("got %v, %v of %d", id, err, compiled.Len())
	}
	if changed, err := compiled.Update(1, fresh()); err != nil || changed {
		t.Errorf("an event that says nothing new: %v, %v", changed, err)
	}
	if changed, err := compiled.Update(1, healthy(newVersion)); err != nil || !changed {
		t.Errorf("an event that says something new: %v, %v", changed, err)
	}
}

// TestFind: names are found in either order, one among many namespaces as well.
func TestFind(t *testing.T) {
	var fleet partition.Fleet
	for _, namespace := range []string{"c", "a", "b"} {
		for _, name := range []string{"y", "x", "z"} {
			fleet.Clusters = append(fleet.Clusters, partition.Cluster{Namespace: namespace, Name: name, Wanted: newVersion})
		}
	}
	fleet.Clusters = append(fleet.Clusters, partition.Cluster{Namespace: "e", Name: "z", Wanted: newVersion})
	for mode, want := range map[partition.Mode]string{
		partition.Default:         "a/x a/y a/z b/x b/y b/z c/x c/y c/z e/z",
		partition.FleetController: "c/x a/x b/x c/y a/y b/y c/z a/z b/z e/z", // ties in the order of the input
	} {
		compiled, err := partition.Compile(partition.Strategy{}, fleet, partition.Options{Mode: mode})
		if err != nil {
			t.Fatal(err)
		}
		var order []string
		for i := range compiled.Len() {
			id, err := compiled.ID(i)
			if err != nil {
				t.Fatal(err)
			}
			order = append(order, id.String())
			if at, ok := compiled.Find(id.Namespace, id.Name); !ok || at != i {
				t.Errorf("%s: Find(%s) = %d, %v, want %d", mode, id, at, ok, i)
			}
		}
		if got := strings.Join(order, " "); got != want {
			t.Errorf("%s: got %s, want %s", mode, got, want)
		}
		for _, name := range []string{"x", "z"} { // z is the last one
			if _, ok := compiled.Find("d", name); ok {
				t.Errorf("%s: d/%s is found", mode, name)
			}
		}
		if at, ok := compiled.Find("e", "x"); ok { // the namespace has another cluster, which comes later in either order
			t.Errorf("%s: e/x is found at %d", mode, at)
		}
	}
}

// TestBlockers: a partition with more NotReady members than it may have names the first three,
// whatever makes them so.
func TestBlockers(t *testing.T) {
	paused := healthy(oldVersion)
	paused.Paused = true
	offline := healthy(newVersion)
	offline.Offline = true
	states := []partition.State{
		healthy(oldVersion),
		{Released: oldVersion, Applied: oldVersion},              // not ready
		{Released: newVersion, Applied: oldVersion, Ready: true}, // not applied
		paused,
		healthy(newVersion),
		{Released: newVersion, Applied: newVersion}, // not ready
		fresh(),
		offline,
	}
	for _, row := range []struct {
		why     string
		mode    partition.Mode
		options partition.Options
		max     int32
		want    string
	}{
		{"a broken one that stays so, for the bundle is paused", partition.Default, partition.Options{}, -1, "c000001 c000002 c000005"},
		{"broken, updating and offline ones", partition.Default, partition.Options{}, 0, "c000001 c000002 c000005"},
		{"one that is paused, if it counts", partition.Default, partition.Options{Paused: partition.BlockPaused}, 0, "c000001 c000002 c000003"},
		{"four are NotReady of at most four before the turn, and six after it", partition.Default, partition.Options{}, 4, "c000000 c000001 c000002"},
		{"six of at most six, after a turn that released two", partition.Default, partition.Options{}, 6, ""},
		{"an offline one that is excluded does not count", partition.Default, partition.Options{Offline: partition.ExcludeOffline}, 5, ""},
		{"the controller names what is not applied or not ready, and no target without a deployment", partition.FleetController, partition.Options{}, 0, "c000001 c000002 c000005"},
		{"six of the controller's targets are not up to date and ready, of at most six", partition.FleetController, partition.Options{}, 6, ""},
		{"as many as may be: the update of a healthy one waits for them, but no partition does", partition.Default, partition.Options{Releases: partition.ByBudget, MaxPerStep: count(1)}, 4, ""},
	} {
		fleet := fleetOf(len(states), fresh())
		for i := range states {
			fleet.Clusters[i].State = states[i]
		}
		strategy := partition.Strategy{MaxUnavailable: partition.FromInt(row.max)}
		fleet.Paused = row.max < 0
		if row.options.Mode = row.mode; row.mode == partition.FleetController {
			strategy.MaxNew = count(0)
		}
		plan, err := partition.Plan(strategy, fleet, row.options)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(idNames(plan.Partitions[0].Blockers), " "); got != row.want {
			t.Errorf("%s: got %q, want %q: %v", row.why, got, row.want, plan.Partitions[0])
		}
	}
}

// TestStatusText: only what there is of held and released members is spoken of.
func TestStatusText(t *testing.T) {
	for _, row := range []struct {
		status partition.Status
		want   string
	}{
		{partition.Status{Index: 1, Name: "p", Count: 9, Done: 2, Waiting: 3, NotReady: 4, MaxUnavailable: 5}, `partition 1 "p": 9 members, 2 done, 3 waiting, 4 NotReady of at most 5, not reached`},
		{partition.Status{Held: 1, Reached: true}, `partition 0 "": 0 members, 0 done, 0 waiting, 0 NotReady of at most 0, 1 held, not ready`},
		{partition.Status{Count: 4, NotReady: 4, MaxUnavailable: 1, Reached: true, Blockers: []partition.ID{{Namespace: "n", Name: "a"}, {Name: "b\n"}, {Name: "c"}}},
			`partition 0 "": 4 members, 0 done, 0 waiting, 4 NotReady of at most 1 (n/a, "b\n", c, …), not ready`},
		{partition.Status{Count: 4, NotReady: 1, Reached: true, Blockers: []partition.ID{{Name: "a"}}}, `partition 0 "": 4 members, 0 done, 0 waiting, 1 NotReady of at most 0 (a), not ready`},
		{partition.Status{Released: 1, Reached: true, Ready: true}, `partition 0 "": 0 members, 0 done, 0 waiting, 0 NotReady of at most 0, 1 released, ready`},
	} {
		if got := row.status.String(); got != row.want {
			t.Errorf("got %s, want %s", got, row.want)
		}
	}
	for _, row := range []struct {
		step partition.Step
		want string
	}{
		{partition.Step{NotReadyPartitions: 1, MaxNotReadyPartitions: 1, ClosedBy: -1}, "gate: open, 1 of at most 1 partitions not ready"},
		{partition.Step{NotReadyPartitions: 1}, "gate: closed by partition 0, 1 of at most 0 partitions not ready"},
		{partition.Step{ClosedBy: -1, More: true, Controller: &partition.Controller{Unavailable: 2, MaxUnavailable: 3, UnavailableBefore: 1}},
			"gate: open, 0 of at most 0 partitions not ready\nall targets: 2 of at most 3 unavailable\nmore: plan again at once, without waiting for an event"},
	} {
		if got := row.step.String(); got != row.want {
			t.Errorf("got %s, want %s", got, row.want)
		}
	}
}

// TestResultText: a result tells more than its step, and a release more than its cluster.
func TestResultText(t *testing.T) {
	result := partition.Result{Step: partition.Step{ClosedBy: -1}, Warnings: []partition.Warning{{Path: "maxNew", Text: "text", Code: "code"}}}
	result.Waiting = []partition.Waiting{{ID: partition.ID{Name: "c1"}}}
	result.Unready = []partition.Unready{{ID: partition.ID{Name: "c2"}}}
	lines := strings.Split(result.String(), "\n")
	for i, want := range []string{"gate: open, 0 of at most 0 partitions not ready", "waits: c1: ", "not ready: c2: ", "warning: maxNew: text (code)"} {
		if len(lines) != 4 || !strings.HasPrefix(lines[i], want) {
			t.Fatalf("got %q, want %q in line %d", lines, want, i)
		}
	}
	result.Waiting = nil // reasons of twelve partitions
	for i := range 12 {
		reason := []partition.Reason{partition.Threshold, partition.Budget}[i%2]
		result.Waiting = append(result.Waiting, partition.Waiting{ID: partition.ID{Name: fmt.Sprint("c", i)}, Verdict: partition.Verdict{Reason: reason, Partition: i, Count: 1}})
	}
	lines = strings.Split(result.String(), "\n")
	for i, want := range map[int]string{1: "waits: c0: partition 0 waits: 1 member is NotReady, at most 0 may be", 11: "waits: and 2 more, for 2 other reasons", 12: "not ready: c2: "} {
		if len(lines) != 14 || lines[i] != want {
			t.Fatalf("got %q, want %q in line %d", lines, want, i)
		}
	}
	for i := range 12 {
		result.Releases = append(result.Releases, partition.Release{ID: partition.ID{Index: i, Name: fmt.Sprint("r", i)}, Partition: i})
	}
	if lines = strings.Split(result.String(), "\n"); lines[1] != "release: r0 from partition 0" || lines[11] != "release: and 2 more, of 2 other kinds" {
		t.Errorf("got %q", lines)
	}
	result.Releases = []partition.Release{{ID: partition.ID{Name: "r0"}, First: true}, {ID: partition.ID{Index: 1, Name: "r1"}}} // an update is not like the first deployment that it is released with
	if lines = strings.Split(result.String(), "\n"); lines[1] != "release: r0 from partition 0, the first deployment" || lines[2] != "release: r1 from partition 0" {
		t.Errorf("got %q", lines)
	}
	for want, release := range map[string]partition.Release{
		"c1 from partition 2":                       {ID: partition.ID{Name: "c1"}, Partition: 2},
		"c1 from partition 0, the first deployment": {ID: partition.ID{Name: "c1"}, First: true},
	} {
		if got := release.String(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// TestResultTextOfAFleet: a fleet may have a hundred thousand clusters that wait, and few reasons.
// What is alike has one line, and what is not has its own, in every partition that it is about.
func TestResultTextOfAFleet(t *testing.T) {
	up, down := partition.State{Released: "v1", Applied: "v1", Ready: true}, partition.State{Released: "v2", Applied: "v1"}
	var fleet partition.Fleet
	add := func(n int, ring string, state partition.State) {
		for range n {
			fleet.Clusters = append(fleet.Clusters, partition.Cluster{Name: fmt.Sprintf("c%02d", len(fleet.Clusters)), Labels: map[string]string{"ring": ring}, Wanted: "v2", State: state})
		}
	}
	add(3, "a", partition.State{})                                     // c00 to c02
	add(4, "a", up)                                                    // c03 to c06
	add(3, "b", down)                                                  // c07 to c09
	add(4, "b", up)                                                    // c10 to c13
	add(2, "c", down)                                                  // c14, c15
	add(2, "c", partition.State{Released: "v2"})                       // c16, c17
	add(3, "c", up)                                                    // c18 to c20
	add(5, "d", up)                                                    // c21 to c25
	add(2, "e", up)                                                    // c26, c27
	add(2, "none", up)                                                 // c28, c29
	fleet.Clusters[13].Paused = true                                   // in no other class than c12 but for this
	fleet.Clusters[17].Ready, fleet.Clusters[17].Applied = false, "v2" // applied, unlike c16
	ring := func(name string) partition.Definition {
		return partition.Definition{ClusterSelector: &selector.LabelSelector{MatchLabels: map[string]string{"ring": name}}}
	}
	maxNew := 2
	plan, err := partition.Plan(partition.Strategy{MaxUnavailable: partition.FromInt(2), MaxUnavailablePartitions: partition.FromInt(2), MaxNew: &maxNew,
		Partitions: []partition.Definition{ring("a"), ring("b"), ring("c"), ring("d"), ring("e")}}, fleet, partition.Options{})
	if err != nil {
		t.Fatal(err)
	}
	const want = `partition 0 "": 7 members, 0 done, 5 waiting, 2 NotReady of at most 2, 2 released, not ready
partition 1 "": 7 members, 0 done, 3 waiting, 3 NotReady of at most 2 (c07, c08, c09), 1 held, not ready
partition 2 "": 7 members, 0 done, 3 waiting, 4 NotReady of at most 2 (c14, c15, c16, …), not ready
partition 3 "": 5 members, 0 done, 5 waiting, 0 NotReady of at most 2, not reached
partition 4 "": 2 members, 0 done, 2 waiting, 0 NotReady of at most 2, not reached
gate: closed by partition 2, 3 of at most 2 partitions not ready
more: plan again at once, without waiting for an event
release: c00 from partition 0, the first deployment; and 1 more likewise
waits: c21: partition 3 is not reached: partition 2 closed the gate, 3 partitions are not ready, at most 2 may be; and 6 more likewise
waits: c02: the batch of 2 is full; and 4 more likewise
waits: c10: partition 1 waits: 3 members are NotReady, at most 2 may be; and 2 more likewise
waits: c18: partition 2 waits: 4 members are NotReady, at most 2 may be; and 2 more likewise
waits: c28: the cluster is in no partition; and 1 more likewise
waits: c13: the cluster is paused
not ready: c07: not_applied,not_ready; and 5 more likewise
not ready: c17: not_ready`
	if got := plan.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestResultTextSaysMore: a batch that is full ends with the next step, or not before members are
// ready, and the text says which.
func TestResultTextSaysMore(t *testing.T) {
	for limit, want := range map[string]bool{"100%": true, "1": false} {
		plan, err := partition.Plan(partition.Strategy{MaxUnavailable: partition.FromString(limit), MaxNew: count(2)}, fleetOf(3, healthy(oldVersion)), partition.Options{})
		if err != nil {
			t.Fatal(err)
		}
		text := plan.String()
		if got := strings.Contains(text, "\nmore: plan again at once"); got != want || !strings.Contains(text, "the batch of 2 is full") {
			t.Errorf("maxUnavailable %s: got\n%s", limit, text)
		}
	}
}

// TestResultTextOfTheController: what Fleet's controller does besides releasing is shown, so that no
// step that does something reads as if it did nothing. What is created is staged as well, and said
// once.
func TestResultTextOfTheController(t *testing.T) {
	fleet := fleetOf(6, healthy(oldVersion))
	for i := range 2 {
		fleet.Clusters[i].State = partition.State{Paused: true}
	}
	plan, err := partition.Plan(partition.Strategy{MaxUnavailable: partition.FromInt(0)}, fleet, partition.Options{Mode: partition.FleetController})
	if err != nil {
		t.Fatal(err)
	}
	const want = `partition 0 "All": 6 members, 0 done, 4 waiting, 6 NotReady of at most 0 (c000000, c000001, …), 2 held, not ready
gate: closed by partition 0, 1 of at most 0 partitions not ready
all targets: 0 of at most 0 unavailable
create: c000000; and 1 more likewise
stage: c000002; and 3 more likewise
waits: c000002: partition 0 never updates a healthy cluster: at most 0 members may be unavailable; and 3 more likewise
waits: c000000: the cluster is paused; and 1 more likewise`
	if got := plan.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestManyMembers fills more than one word of every level, so that no border of the sets is missed.
func TestManyMembers(t *testing.T) {
	const n = 70_000 // three levels
	fleet := fleetOf(n, healthy(oldVersion))
	strategy := partition.Strategy{MaxNew: count(1 << 20), MaxUnavailable: partition.FromInt(0), MaxUnavailablePartitions: partition.FromString("100%"), AutoPartitionSize: partition.FromInt(4097)}
	for _, mode := range modes() {
		compiled, err := partition.Compile(strategy, fleet, partition.Options{Mode: mode})
		if err != nil {
			t.Fatal(err)
		}
		var want []int
		broken := partition.State{Released: oldVersion, Applied: oldVersion}
		for i := range n {
			state := healthy(newVersion)
			if i%4097 == 0 || i%4097 == 4096 || i == n-1 || i%9973 == 0 {
				state = broken
				want = append(want, i)
			}
			if _, err := compiled.Update(i, state); err != nil {
				t.Fatal(err)
			}
		}
		var step partition.Step
		compiled.Step(&step)
		var got []int
		for _, r := range step.Releases {
			got = append(got, r.Index)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: released %d, want %d: %v, %v", mode, len(got), len(want), got, want)
		}
	}
}

// TestUpdateAllEmptiesTheSets: what the levels above said of a word whose members no longer wait is
// forgotten, or the first member of the next word would be released in their place.
func TestUpdateAllEmptiesTheSets(t *testing.T) {
	const n = 130
	for _, mode := range modes() {
		compiled, err := partition.Compile(partition.Strategy{}, fleetOf(n, healthy(oldVersion)), partition.Options{Mode: mode})
		if err != nil {
			t.Fatal(err)
		}
		if err := compiled.UpdateAll(slices.Repeat([]partition.State{healthy(newVersion)}, n)); err != nil {
			t.Fatal(err)
		}
		var step partition.Step
		if compiled.Step(&step); len(step.Releases) > 0 || step.More {
			t.Errorf("%s: all are done, and yet %v", mode, step.Releases)
		}
	}
}

// TestListsInClusterOrder: the lists of a step are in cluster order, not in that of the partitions.
func TestListsInClusterOrder(t *testing.T) {
	strategy := partition.Strategy{Partitions: []partition.Definition{{ClusterName: "c000001"}, {ClusterName: "c000000"}}}
	for _, mode := range modes() {
		plan, err := partition.Plan(strategy, fleetOf(2, fresh()), partition.Options{Mode: mode})
		if err != nil {
			t.Fatal(err)
		}
		lists := map[string][]int{}
		for _, r := range plan.Releases {
			lists["released"] = append(lists["released"], r.Index)
		}
		if c := plan.Controller; c != nil {
			for _, id := range c.Created {
				lists["created"] = append(lists["created"], id.Index)
			}
			for _, id := range c.Staged {
				lists["staged"] = append(lists["staged"], id.Index)
			}
		}
		if want := map[partition.Mode]int{partition.Default: 1, partition.FleetController: 3}[mode]; len(lists) != want {
			t.Errorf("%s: got %v", mode, lists)
		}
		for name, list := range lists {
			if !slices.Equal(list, []int{0, 1}) {
				t.Errorf("%s: %s %v", mode, name, list)
			}
		}
	}
}

// TestNoAllocations: neither an event nor a step allocates, in either mode, while the host keeps
// one Step.
func TestNoAllocations(t *testing.T) {
	for _, mode := range modes() {
		for name, strategy := range map[string]partition.Strategy{
			"automatic": {MaxUnavailable: partition.FromString("10%")},
			"manual": {MaxUnavailable: partition.FromString("10%"), Partitions: []partition.Definition{
				{ClusterSelector: &selector.LabelSelector{}}, {ClusterSelector: &selector.LabelSelector{}}}},
		} {
			compiled, err := partition.Compile(strategy, fleetOf(1000, healthy(oldVersion)), partition.Options{Mode: mode})
			if err != nil {
				t.Fatal(err)
			}
			var step partition.Step
			i := 0
			round := func() {
				compiled.Step(&step)
				for _, r := range step.Releases {
					if _, err := compiled.Update(r.Index, partition.State{Released: newVersion, Staged: newVersion, Applied: oldVersion}); err != nil {
						t.Fatal(err)
					}
				}
				for _, r := range step.Releases {
					if _, err := compiled.Update(r.Index, healthy(oldVersion)); err != nil {
						t.Fatal(err)
					}
				}
				if i++; len(step.Releases) == 0 {
					t.Fatal("nothing is released")
				}
			}
			round()
			if n := testing.AllocsPerRun(10, round); n != 0 {
				t.Errorf("%s, %s: %v allocations", mode, name, n)
			}
		}
	}
}

// TestCompileAllocations: the slices of a compiled plan do not grow with the fleet.
func TestCompileAllocations(t *testing.T) {
	if testkit.Race {
		t.Skip("the race detector allocates")
	}
	strategy := partition.Strategy{Partitions: []partition.Definition{{ClusterSelector: &selector.LabelSelector{MatchLabels: map[string]string{"k": "v"}}}}}
	allocations := func(n int) float64 {
		fleet := fleetOf(n, fresh())
		labels := map[string]string{"k": "v"}
		for i := range fleet.Clusters {
			fleet.Clusters[i].Labels = labels
		}
		least := math.Inf(1) // what runs beside the test allocates as well, at times
		for range 3 {
			least = min(least, testing.AllocsPerRun(3, func() {
				if _, err := partition.Compile(strategy, fleet, partition.Options{}); err != nil {
					t.Fatal(err)
				}
			}))
		}
		return least
	}
	few, many := allocations(100), allocations(10_000)
	if many > few+8 { // a level more in each set of members
		t.Errorf("%v allocations for 100 clusters, %v for 10,000", few, many)
	}
}

// TestMemory: a compiled plan takes at most 64 bytes per cluster and 8 per further membership,
// names and labels not counted.
func TestMemory(t *testing.T) {
	const n = 20_000
	for _, memberships := range []int{1, 5} {
		strategy := partition.Strategy{AutoPartitionSize: partition.FromInt(100)}
		if memberships > 1 {
			for range memberships {
				strategy.Partitions = append(strategy.Partitions, partition.Definition{ClusterSelector: &selector.LabelSelector{}})
			}
		}
		compiled, err := partition.Compile(strategy, fleetOf(n, fresh()), partition.Options{})
		if err != nil {
			t.Fatal(err)
		}
		most := 64 + 8*(memberships-1)
		if got := compiled.Bytes() / n; got > most {
			t.Errorf("%d memberships: %d bytes per cluster, want at most %d", memberships, got, most)
		} else {
			t.Logf("%d memberships: %d bytes per cluster", memberships, got)
		}
	}
}

// TestResultsAreTheCallers: what a caller does with a result, or with what it compiled, shows in no
// later plan.
func TestResultsAreTheCallers(t *testing.T) {
	none, env := count(2), "env"
	labels := &selector.LabelSelector{MatchLabels: map[string]string{"env": "x"}, MatchExpressions: []selector.LabelRequirement{{Key: "tier", Operator: selector.NotIn, Values: []string{"z"}}}}
	strategy := partition.Strategy{MaxNew: none, MaxUnavailable: partition.FromInt(1), AutoPartitionSize: partition.FromInt(1),
		Partitions: []partition.Definition{{Name: "a", ClusterSelector: labels}, {Name: "b", ClusterGroup: "g", ClusterGroupSelector: &selector.LabelSelector{}}, {Name: "c"}}}
	fleet := fleetOf(9, partition.State{Released: newVersion})
	fleet.Groups = map[string]map[string]string{"g": {"tier": "1"}}
	for i := range fleet.Clusters {
		fleet.Clusters[i].Labels, fleet.Clusters[i].Groups = map[string]string{"env": "x"}, []string{"g"}
		if i%2 > 0 {
			fleet.Clusters[i].State = healthy(oldVersion)
		}
	}
	slices.Reverse(fleet.Clusters)
	given := fmt.Sprint(fleet)
	compiled, err := partition.Compile(strategy, fleet, partition.Options{DisplayNameLabel: &env})
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(fleet) != given {
		t.Error("compiling changes the fleet")
	}
	text := func() string {
		data, err := json.Marshal(compiled.Plan())
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	first := text()
	*none, env, labels.MatchLabels["env"], labels.MatchExpressions[0].Values[0], strategy.Partitions[0].Name = 50, "other", "y", "1", "other"
	for i := range fleet.Clusters {
		c := &fleet.Clusters[i]
		c.Name, c.Wanted, c.Released, c.Labels["env"], c.Groups[0] = "other", "other", "other", "z", "h"
	}
	fleet.Groups["g"]["tier"] = "2"
	p := compiled.Plan()
	if len(p.Warnings) == 0 || len(p.Waiting) == 0 || len(p.Unready) == 0 || len(p.Partitions[0].Blockers) == 0 {
		t.Fatalf("there is nothing to spoil: %+v", p)
	}
	p.Warnings[0].Code, p.Partitions[0].Name, p.Waiting[0].Name, p.Unready[0].Name, p.Partitions[0].Blockers[0].Name = "other", "other", "other", "other", "other"
	members, err := compiled.Members(0)
	if err != nil {
		t.Fatal(err)
	}
	members[0].Name = "other"
	if err := compiled.UpdateAll(make([]partition.State, 8)); err == nil {
		t.Error("eight states for nine clusters")
	}
	if again := text(); again != first {
		t.Errorf("got  %s\nwant %s", again, first)
	}
}

// TestStaleRelease: a host that plans on a cache in which a release of its own is not yet seen
// releases more than one batch before the batch is ready. What it stored since has to be laid over
// what it reads, as the second duty says.
func TestStaleRelease(t *testing.T) {
	strategy := partition.Strategy{MaxUnavailable: partition.FromInt(0), MaxNew: count(2)}
	onItsWay := partition.State{Released: newVersion, Applied: oldVersion, Ready: true}
	for _, row := range []struct {
		why    string
		second partition.State // what is known of the second cluster of the first batch
		want   string
	}{
		{"its release is not seen: it is released again, and with it a cluster that should wait for it", healthy(oldVersion), "[1 2]"},
		{"its release is known, and the next batch waits for it", onItsWay, "[]"},
	} {
		fleet := fleetOf(4, healthy(oldVersion))
		fleet.Clusters[0].State = healthy(newVersion)
		fleet.Clusters[1].State = row.second
		plan, err := partition.Plan(strategy, fleet, partition.Options{})
		if err != nil {
			t.Fatal(err)
		}
		list := []int{}
		for _, r := range plan.Releases {
			list = append(list, r.Index)
		}
		if got := fmt.Sprint(list); got != row.want {
			t.Errorf("%s: got %s, want %s", row.why, got, row.want)
		}
	}
}

// TestMissingCluster: a host that compiles without the cluster that closed the gate opens it, as
// the fourth duty says. Lists that lack a cluster for a moment, or because it is unhealthy, are
// those of open-cluster-management-io/ocm#1346 and kubefleet-dev/kubefleet#845.
func TestMissingCluster(t *testing.T) {
	manual := partition.Strategy{MaxUnavailable: partition.FromInt(0), Partitions: []partition.Definition{{ClusterName: "c000000"}, {ClusterSelector: &selector.LabelSelector{}}}}
	automatic := partition.Strategy{MaxUnavailable: partition.FromInt(0), AutoPartitionSize: partition.FromInt(1), AutoPartitionThreshold: count(1)}
	for _, strategy := range []partition.Strategy{manual, automatic} {
		fleet := fleetOf(3, healthy(oldVersion))
		fleet.Clusters[0].State = partition.State{Released: newVersion, Applied: newVersion}
		closed, err := partition.Plan(strategy, fleet, partition.Options{})
		if err != nil {
			t.Fatal(err)
		}
		fleet.Clusters = fleet.Clusters[1:]
		open, err := partition.Plan(strategy, fleet, partition.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if len(closed.Releases) > 0 || closed.ClosedBy != 0 || len(open.Releases) == 0 {
			t.Errorf("%s\nwithout the first:\n%s", closed, open)
		}
	}
}
