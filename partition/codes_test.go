package partition_test

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/internal/testkit"
	"github.com/tranche-dev/tranche/partition"
)

// TestEveryReasonIsGiven: each reason and each kind of event that the package names is given to
// some cluster, in the mode that knows it; each warning, each cause of being NotReady and each
// class occurs. What Count and Limit say is true of the plan that they are in.
func TestEveryReasonIsGiven(t *testing.T) {
	wanted := append(testkit.Constants(t, ".", "Reason", "ConditionKind", "WarningCode", "VerdictStatus"),
		"why not_applied", "why not_ready", "why offline", "why paused", "class done", "class held", "class updating", "class blocked", "class broken", "class pending", "class outOfSync",
		"a budget that this step used up", "a budget of nothing", "open", "closed")
	seen := testkit.Tally{}
	seen.Check(t, func(t *rapid.T) {
		mode := rapid.SampledFrom(modes()).Draw(t, "mode")
		fleet := genFleet(t, 12)
		// Nearly all fleets are at rest when a release comes: then only what the step does uses up a
		// budget.
		if rapid.IntRange(0, 3).Draw(t, "atRest") == 0 {
			fleet.Paused = false
			for i := range fleet.Clusters {
				fleet.Clusters[i].Wanted, fleet.Clusters[i].State = "v2", partition.State{Released: "v1", Applied: "v1", Ready: true}
			}
		}
		p := plan(t, genStrategy(t, false), fleet, genOptions(t, mode))
		for _, w := range p.Waiting {
			seen["Reason "+string(w.Reason)]++
			seen["ConditionKind "+string(w.Reason.On())]++
			seen["VerdictStatus "+string(w.Reason.Status())]++
			numbersAreTrue(t, seen, mode, &p, w)
		}
		for _, w := range p.Warnings {
			seen["WarningCode "+string(w.Code)]++
		}
		for _, u := range p.Unready {
			for code := range strings.SplitSeq(u.Why.String(), ",") {
				seen["why "+code]++
			}
		}
		for _, s := range p.Partitions {
			c := s.Classes
			for class, n := range map[string]int{"done": c.Done, "held": c.Held, "updating": c.Updating, "blocked": c.Blocked, "broken": c.Broken, "pending": c.Pending, "outOfSync": c.OutOfSync} {
				seen["class "+class] += n
			}
		}
		if p.ClosedBy >= 0 {
			seen["closed"]++
		} else {
			seen["open"]++
		}
	}, wanted...)
}

func numbersAreTrue(t *rapid.T, seen testkit.Tally, mode partition.Mode, p *partition.Result, w partition.Waiting) {
	var s partition.Status
	if w.Partition >= 0 {
		s = p.Partitions[w.Partition]
	}
	ok := true
	switch w.Reason {
	case partition.Gate:
		ok = w.Count > w.Limit && !s.Reached && w.ClosedBy == p.ClosedBy && w.Count == p.NotReadyPartitions
	case partition.Threshold:
		ok = w.Count > w.Limit && s.Reached && !s.Ready && w.Count == s.Unavailable && len(s.Blockers) > 0
	case partition.Budget:
		ok = w.Count >= w.Limit && s.Reached && w.Limit == s.MaxUnavailable
		if mode == partition.Default {
			ok = ok && w.Count == s.NotReady && w.Count > 0
			if s.Unavailable < w.Limit {
				seen["a budget that this step used up"]++
			}
		}
		if w.Count == 0 {
			seen["a budget of nothing"]++
		}
	case partition.TotalBudget:
		ok = w.Count >= w.Limit && w.Count == p.Controller.Unavailable
	case partition.StepLimit:
		ok = len(p.Releases) == w.Limit && w.Limit == p.MaxPerStep
	case partition.Batch:
		ok = w.Limit == p.Batch && (mode != partition.Default || s.Released == w.Limit)
	}
	if !ok {
		t.Fatalf("%s: %+v\n%s", w, w.Verdict, p.Step)
	}
}

// TestEveryCodeIsGiven: one fault per kind, found by the function that a host calls.
func TestEveryCodeIsGiven(t *testing.T) {
	one := fleetOf(1, fresh())
	twice := one
	twice.Clusters = append(twice.Clusters, twice.Clusters[0])
	plan := func(strategy partition.Strategy, fleet partition.Fleet) error {
		_, err := partition.Plan(strategy, fleet, partition.Options{})
		return err
	}
	given := map[string]error{
		"Code syntax":        new(partition.Strategy).UnmarshalJSON([]byte(`{`)),
		"Code unknown_field": new(partition.Options).UnmarshalJSON([]byte(`{"maxperstep": 7}`)),
		"Code type":          new(partition.Options).UnmarshalJSON([]byte(`{"maxPerStep": "7"}`)),
		"Code limit_format":  plan(partition.Strategy{MaxUnavailable: partition.FromString("many")}, one),
		"Code limit_number":  plan(partition.Strategy{MaxUnavailable: partition.FromString("1e1%")}, one),
		"Code selector":      plan(partition.Strategy{Partitions: stage("no value: it has spaces")}, one),
		"Code value":         plan(partition.Strategy{MaxNew: count(0)}, one),
		"Code duplicate":     plan(partition.Strategy{}, twice),
	}
	for _, code := range testkit.Constants(t, ".", "Code") {
		var fault *partition.FieldError
		if !errors.As(given[code], &fault) || "Code "+string(fault.Code) != code {
			t.Errorf("%s: got %v", code, given[code])
		}
		delete(given, code)
	}
	if len(given) > 0 {
		t.Errorf("no such codes: %v", given)
	}
}

// TestControllerMore: what a reconcile releases at no cost had taken up the budget until then. If
// its agent runs the wanted version already it gives that back at once, and the next reconcile has
// room for a healthy one without any other change.
func TestControllerMore(t *testing.T) {
	for _, row := range []struct {
		states string
		want   string
		more   bool
	}{
		{"aoo", "R budget budget", true},
		{"uoo", "!not_applied budget budget", false},
		{"boo", "R budget budget", false},
		{"oo", "R budget", false},
		{"pp", "R R", false},
	} {
		fleet := fleetOf(len(row.states), fresh())
		for i, letter := range row.states {
			fleet.Clusters[i].State = letters()[letter]
		}
		compiled, err := partition.Compile(partition.Strategy{MaxUnavailable: partition.FromInt(1)}, fleet, partition.Options{Mode: partition.FleetController})
		if err != nil {
			t.Fatal(err)
		}
		p := compiled.Plan()
		if got := drawn(compiled, &p); got != row.want || p.More != row.more {
			t.Errorf("%s: got %s, more %t; want %s, %t", row.states, got, p.More, row.want, row.more)
		}
	}
}

// TestOneStepForTwoPlans: a step is overwritten, whatever plan of whatever mode wrote it before.
func TestOneStepForTwoPlans(t *testing.T) {
	var step partition.Step
	for _, mode := range []partition.Mode{partition.FleetController, partition.Default, partition.FleetController} {
		for _, states := range []string{"ppuo", "d", "bzoooo"} {
			fleet := fleetOf(len(states), fresh())
			for i, letter := range states {
				fleet.Clusters[i].State = letters()[letter]
			}
			compiled, err := partition.Compile(partition.Strategy{MaxUnavailable: partition.FromInt(1)}, fleet, partition.Options{Mode: mode})
			if err != nil {
				t.Fatal(err)
			}
			var other partition.Step
			compiled.Step(&step)
			compiled.Step(&other)
			if diff := gocmp.Diff(other, step, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s, %s: (-new step +used one):\n%s", mode, states, diff)
			}
		}
	}
}

// TestReasonsInTheSingular: one is one, and what can never happen is not said to wait for room.
func TestReasonsInTheSingular(t *testing.T) {
	for want, v := range map[string]partition.Verdict{
		"partition 3 is not reached: partition 1 closed the gate, 1 partition is not ready, at most 0 may be": {Reason: partition.Gate, Partition: 3, ClosedBy: 1, Count: 1},
		"partition 3 waits: 1 member is NotReady, at most 0 may be":                                           {Reason: partition.Threshold, Partition: 3, Count: 1},
		"partition 3 has no room for updates: 1 member is unavailable, at most 1 may be":                      {Reason: partition.Budget, Partition: 3, Count: 1, Limit: 1},
		"partition 3 has no room for updates: 2 members are unavailable, at most 0 may be":                    {Reason: partition.Budget, Partition: 3, Count: 2},
		"partition 3 never updates a healthy cluster: at most 0 members may be unavailable":                   {Reason: partition.Budget, Partition: 3},
		"all targets together have no room for updates: 1 is unavailable, at most 1 may be":                   {Reason: partition.TotalBudget, Count: 1, Limit: 1},
		"no healthy cluster is ever updated: at most 0 of all targets may be unavailable":                     {Reason: partition.TotalBudget},
		"partition 3 has no room for updates: 0 members are unavailable, at most 5 may be":                    {Reason: partition.Budget, Partition: 3, Limit: 5}, // of no plan
		"all targets together have no room for updates: 0 are unavailable, at most 5 may be":                  {Reason: partition.TotalBudget, Limit: 5},          // likewise
		"the step has its 1 release":                                    {Reason: partition.StepLimit, Limit: 1},
		"the batch of 1 is full":                                        {Reason: partition.Batch, Limit: 1},
		"new clusters never get a deployment: the batch is 0":           {Reason: partition.Batch},
		"new clusters never get a deployment: the batch is -2147483648": {Reason: partition.Batch, Limit: math.MinInt32},
	} {
		if got := v.String(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// TestTextsStay: the texts of codes and choices are what hosts store and compare, so that none of
// them may change, whatever the constant is called.
func TestTextsStay(t *testing.T) {
	testkit.TextsStay(t, ".", map[string]string{
		"Code":          "duplicate limit_format limit_number selector syntax type unknown_field value",
		"Reason":        "batch budget bundle_paused gate offline paused step_limit threshold total_budget unmatched",
		"ConditionKind": "cluster config member operator partition step",
		"VerdictStatus": "denied pending",
		"WarningCode":   "clamped gate_missing gate_without_effect ignored_field limit_without_effect no_criterion no_member no_own_member size_without_effect",
		"Mode":          "default fleet_controller",
		"Leftovers":     "append exclude",
		"Paused":        "block skip",
		"Offline":       "count exclude",
		"Releases":      "batch budget",
	})
	if partition.DisplayNameLabel != "management.cattle.io/cluster-display-name" { // Rancher's, which others write
		t.Error(partition.DisplayNameLabel)
	}
}

// TestJSONStays: the names of the fields of a fleet and of a plan, which hosts store and show.
func TestJSONStays(t *testing.T) {
	id := partition.ID{Index: 1, Namespace: "n", Name: "c"}
	fleet := partition.Fleet{
		Clusters: []partition.Cluster{{
			Namespace: "n", Name: "c", Labels: map[string]string{"l": "v"}, Groups: []string{"g"}, Wanted: "w",
			State: partition.State{Released: "r", Applied: "a", Ready: true, Paused: true, Offline: true, Staged: "s"},
		}},
		Groups: map[string]map[string]string{"g": {"l": "v"}}, Paused: true,
	}
	plan := partition.Result{
		Step: partition.Step{
			Releases: []partition.Release{{ID: id, Partition: 2, First: true}},
			Partitions: []partition.Status{{Index: 1, Name: "p", Count: 2, MaxUnavailable: 3, NotReady: 4, Unavailable: 5, Waiting: 6, Held: 7, Done: 8, Released: 9, Reached: true, Ready: true,
				Classes: partition.Classes{Done: 1, Held: 2, Updating: 3, Blocked: 4, Broken: 5, Pending: 6, OutOfSync: 7}, Blockers: []partition.ID{id}}},
			NotReadyPartitions: 1, MaxNotReadyPartitions: 2, ClosedBy: 3, More: true,
			Controller: &partition.Controller{Created: []partition.ID{id}, Staged: []partition.ID{id}, MaxUnavailable: 1, UnavailableBefore: 2, Unavailable: 3},
		},
		Waiting:   []partition.Waiting{{ID: id, Verdict: partition.Verdict{Reason: partition.Gate, Partition: 1, ClosedBy: 2, Count: 3, Limit: 4}}},
		Unready:   []partition.Unready{{ID: id, Why: partition.IsOffline}},
		Unmatched: []partition.ID{id},
		Warnings:  []partition.Warning{{Code: partition.WarningClamped, Path: "p", Text: "t"}},
		Batch:     1, MaxPerStep: 2,
	}
	for want, value := range map[string]any{
		`{"clusters":[{"namespace":"n","name":"c","labels":{"l":"v"},"groups":["g"],"wanted":"w","released":"r","applied":"a","ready":true,"paused":true,"offline":true,"staged":"s"}],` +
			`"groups":{"g":{"l":"v"}},"paused":true}`: fleet,
		`{"releases":[{"index":1,"namespace":"n","name":"c","partition":2,"first":true}],` +
			`"partitions":[{"index":1,"name":"p","count":2,"maxUnavailable":3,"notReady":4,"unavailable":5,"waiting":6,"held":7,"done":8,"released":9,"reached":true,"ready":true,` +
			`"classes":{"done":1,"held":2,"updating":3,"blocked":4,"broken":5,"pending":6,"outOfSync":7},"blockers":[{"index":1,"namespace":"n","name":"c"}]}],` +
			`"notReadyPartitions":1,"maxNotReadyPartitions":2,"closedBy":3,"more":true,` +
			`"controller":{"created":[{"index":1,"namespace":"n","name":"c"}],"staged":[{"index":1,"namespace":"n","name":"c"}],"maxUnavailable":1,"unavailableBefore":2,"unavailable":3},` +
			`"waiting":[{"index":1,"namespace":"n","name":"c","reason":"gate","partition":1,"closedBy":2,"count":3,"limit":4}],` +
			`"unready":[{"index":1,"namespace":"n","name":"c","why":["offline"]}],"unmatched":[{"index":1,"namespace":"n","name":"c"}],` +
			`"warnings":[{"code":"clamped","path":"p","text":"t"}],"batch":1,"maxPerStep":2}`: plan,
	} {
		data, err := json.Marshal(value)
		if diff := gocmp.Diff(want, string(data)); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	}
}
