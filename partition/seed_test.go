package partition_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/tranche-dev/tranche/partition"
)

// scenario is one of Fleet's document, or what follows from it. Clusters are c000000 … with the
// label stage, as many of each as stages says; a first deployment unless update is set.
type scenario struct {
	name, why string
	strategy  string
	stages    []string // one per block of clusters
	sizes     []int
	update    bool
	// unready is how many of the clusters released so far are not ready before each step but the
	// first; the last ones released.
	unready []int
	want    []int    // releases per step
	names   []string // of the partitions, if they matter
}

func scenarios() []scenario {
	const strict = `{"maxUnavailable": 0, "maxUnavailablePartitions": 0, "partitions": [
		{"name": "demoRollout", "clusterSelector": {"matchLabels": {"stage": "demoRollout"}}}, {"name": "stable", "clusterSelector": {"matchLabels": {"stage": "stable"}}}]}`
	const storm = `{"maxUnavailable": "10%", "maxUnavailablePartitions": 0, "partitions": [
		{"name": "1", "clusterSelector": {"matchLabels": {"stage": "1"}}}, {"name": "2", "clusterSelector": {"matchLabels": {"stage": "2"}}},
		{"name": "3", "clusterSelector": {"matchLabels": {"stage": "3"}}}, {"name": "4", "clusterSelector": {"matchLabels": {"stage": "4"}}},
		{"name": "5", "clusterSelector": {"matchLabels": {"stage": "5"}}}]}`
	forties, five := []int{40, 40, 40, 40, 40}, []string{"1", "2", "3", "4", "5"}
	two := []string{"demoRollout", "stable"}
	list := []scenario{
		{name: "50 clusters", why: "one batch overrides maxUnavailable at first; it is evaluated after all deployments are created",
			strategy: `{"maxUnavailable": "10%"}`, sizes: []int{50}, unready: []int{50, 6, 5}, want: []int{50, 0, 0, 0}, names: []string{"All"}},
		{name: "25 clusters, maxUnavailable 5", why: "all 25 before the first check", strategy: `{"maxUnavailable": 5}`, sizes: []int{25}, want: []int{25}},
		{name: "100 clusters", why: "50, then the check: more than 10 pause", strategy: `{"maxUnavailable": "10%"}`,
			sizes: []int{100}, unready: []int{50, 11, 10, 0}, want: []int{50, 0, 0, 50, 0}, names: []string{"All"}},
		{name: "200 clusters, defaults", why: "four of 50, and maxUnavailable 100% makes each ready at once: nothing waits", strategy: `{}`,
			sizes: []int{200}, want: []int{200}, names: []string{"Partition 0 - 50", "Partition 50 - 100", "Partition 100 - 150", "Partition 150 - 200"}},
		{name: "200 clusters at 25%", why: "four of 50, each after 90% of the one before", strategy: `{"autoPartitionSize": "25%", "maxUnavailable": "10%"}`,
			sizes: []int{200}, unready: []int{6, 5, 6, 5, 5, 5}, want: []int{50, 0, 50, 0, 50, 50, 0}},
		{name: "230 clusters at 25%", why: "sizes round down: four of 57 and one of 2. A batch is 50, so each partition of 57 takes two",
			strategy: `{"autoPartitionSize": "25%", "maxUnavailable": 0}`, sizes: []int{230}, unready: []int{0, 0, 0, 0, 0, 0, 0, 0, 0},
			want:  []int{50, 7, 50, 7, 50, 7, 50, 7, 2, 0},
			names: []string{"Partition 0 - 57", "Partition 57 - 114", "Partition 114 - 171", "Partition 171 - 228", "Partition 228 - 230"}},
		{name: "multiple partitions: one NotReady proceeds, two pause", why: "ten of 20; the scenario needs maxUnavailable below 100%, which the document's defaults section admits",
			strategy: `{"maxUnavailablePartitions": 1, "autoPartitionSize": "10%", "maxUnavailable": "10%"}`, sizes: []int{200},
			unready: []int{40, 23, 22, 3, 2}, want: []int{40, 0, 0, 20, 20, 40}},
		{name: "multiple partitions, maxUnavailable left at 100%", why: "every partition is ready as soon as it is released, so the limit has no effect",
			strategy: `{"maxUnavailablePartitions": 1, "autoPartitionSize": "10%"}`, sizes: []int{200}, want: []int{200}},
		{name: "strict readiness", why: "with maxUnavailable 0 a batch follows when the one before is ready, all of it", strategy: strict,
			stages: two, sizes: []int{100, 100}, unready: []int{50, 1, 0, 0, 1, 0}, want: []int{50, 0, 0, 50, 50, 0, 50}, names: two},
		{name: "image-pull storm", why: "40 of 40 in one batch; with more than 4 not ready the rollout pauses, with 4 it proceeds", strategy: storm,
			stages: five, sizes: forties, unready: []int{40, 5, 4, 10, 8, 12}, want: []int{40, 0, 0, 40, 0, 40, 40}},
		{name: "image-pull storm, 4 left everywhere", why: "equal proceeds in each partition", strategy: storm, stages: five, sizes: forties,
			unready: []int{4, 8, 12, 16}, want: []int{40, 40, 40, 40, 40}},
		{name: "manual partitions of the document", why: "staging at 10%, then prod at 5%, each of its own count",
			strategy: `{"partitions": [{"name": "demoRollout", "maxUnavailable": "10%", "clusterSelector": {"matchLabels": {"stage": "staging"}}},
				{"name": "stable", "maxUnavailable": "5%", "clusterSelector": {"matchLabels": {"stage": "prod"}}}]}`,
			stages: []string{"staging", "prod", "other"}, sizes: []int{20, 60, 7}, unready: []int{3, 2, 4, 3}, want: []int{20, 0, 50, 0, 10}, names: two},
		{name: "1000 clusters, defaults", why: "batches of 50 follow each other without waiting; the last of one partition and the first of the next share a step",
			strategy: `{}`, sizes: []int{1000}, unready: []int{50, 100, 150, 200, 250, 300}, want: []int{50, 50, 50, 50, 100, 50, 50}},
	}
	for _, s := range list { // what the document says of a first deployment it says of an update
		s.name, s.update = s.name+", update", true
		list = append(list, s)
	}
	return list
}

// TestSeed plays the scenarios of Fleet's document.
func TestSeed(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range scenarios() {
		if s.name == "" || s.why == "" || seen[s.name] {
			t.Errorf("%q needs a name of its own and a reason", s.name)
		}
		seen[s.name] = true
		t.Run(s.name, s.play)
	}
}

func (s scenario) play(t *testing.T) {
	var strategy partition.Strategy
	if err := json.Unmarshal([]byte(s.strategy), &strategy); err != nil {
		t.Fatal(err)
	}
	state := fresh()
	if s.update {
		state = healthy(oldVersion)
	}
	var fleet partition.Fleet
	for k, size := range s.sizes {
		for range size {
			c := partition.Cluster{Name: fmt.Sprintf("c%06d", len(fleet.Clusters)), Wanted: newVersion, State: state}
			if s.stages != nil {
				c.Labels = map[string]string{"stage": s.stages[k]}
			}
			fleet.Clusters = append(fleet.Clusters, c)
		}
	}
	compiled, err := partition.Compile(strategy, fleet, partition.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var order []int // clusters as they were released
	var got []int
	var step partition.Step
	for i := range s.want {
		if i > 0 {
			left := s.unready[i-1]
			for k, cluster := range order {
				ready := k < len(order)-left
				if len(s.sizes) == 5 { // the same number in each of the storm's partitions
					ready = k%40 < 40-left/((len(order)+39)/40)
				}
				update := partition.State{Released: newVersion, Applied: newVersion, Ready: ready}
				if _, err := compiled.Update(cluster, update); err != nil {
					t.Fatal(err)
				}
			}
		}
		compiled.Step(&step)
		if i == 0 && s.names != nil {
			var names []string
			for _, p := range step.Partitions {
				names = append(names, p.Name)
			}
			if !slices.Equal(names, s.names) {
				t.Errorf("partitions: got %v, want %v", names, s.names)
			}
		}
		got = append(got, len(step.Releases))
		for _, r := range step.Releases {
			if r.First == s.update {
				t.Errorf("%s: first deployment is %v", r.ID, r.First)
			}
			order = append(order, r.Index)
			if _, err := compiled.Update(r.Index, partition.State{Released: newVersion, Applied: oldVersion}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if !slices.Equal(got, s.want) {
		t.Errorf("%s:\ngot  %v released per step\nwant %v", s.why, got, s.want)
	}
}
