package partition_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"reflect"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/internal/testkit"
	"github.com/tranche-dev/tranche/partition"
	"github.com/tranche-dev/tranche/selector"
)

func modes() []partition.Mode {
	return []partition.Mode{partition.Default, partition.FleetController}
}

// propReference: in both modes, whatever the state, the strategy and the options, each of several
// steps is the one that the reference finds, fault for fault in the order in which Fleet meets
// them.
func propReference(seen testkit.Tally) func(*rapid.T) {
	return func(t *rapid.T) {
		mode := rapid.SampledFrom(modes()).Draw(t, "mode")
		wrong := mode == partition.FleetController && rapid.Bool().Draw(t, "wrong")
		strategy, fleet, options := genStrategy(t, wrong), genFleet(t, 14), genOptions(t, mode)
		for range rapid.SampledFrom([]int{1, 6}).Draw(t, "steps") {
			compiled, err := partition.Compile(strategy, fleet, options)
			want, wantErr := reference(strategy, fleet, options)
			if wantErr != nil || err != nil {
				var fault *partition.FieldError
				var wantFault refFault
				if !errors.As(err, &fault) || !errors.As(wantErr, &wantFault) || fault.Code != wantFault.kind || fault.Path != wantFault.path {
					t.Fatalf("got the error %v, want %v", err, wantErr)
				}
				seen[string(fault.Code)]++
				return
			}
			plan := compiled.Plan()
			if got := outcomeOf(compiled, &plan); !reflect.DeepEqual(want, got) {
				if diff := gocmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
					t.Fatalf("(-reference +plan):\n%s", diff)
				}
			}
			for _, w := range plan.Waiting {
				seen[string(mode)+" "+string(w.Reason)]++
			}
			if plan.More {
				seen[string(mode)+" more"]++
			}
			if len(plan.Unready) > 0 {
				seen[string(mode)+" unready"]++
			}
			fleet = apply(fleet, &plan.Step)
			ready := rapid.Uint16().Draw(t, "ready")
			for i := range fleet.Clusters {
				if c := &fleet.Clusters[i]; c.Released == c.Wanted && !c.Offline && ready>>i&1 != 0 {
					c.Applied, c.Ready = c.Wanted, true
				}
			}
		}
	}
}

func TestReference(t *testing.T) {
	seen := testkit.Tally{}
	seen.Check(t, propReference(seen), "limit_format", "limit_number", "selector", "default bundle_paused", "default paused", "default offline", "default gate",
		"default threshold", "default budget", "default batch", "default step_limit", "default unmatched", "default more", "default unready",
		"fleet_controller bundle_paused", "fleet_controller paused", "fleet_controller gate", "fleet_controller budget", "fleet_controller total_budget",
		"fleet_controller batch", "fleet_controller unmatched", "fleet_controller more", "fleet_controller unready")
}

func FuzzReference(f *testing.F) {
	f.Add(testkit.Bytes(4096))
	f.Add(testkit.Bytes(16384))
	f.Fuzz(rapid.MakeFuzz(propReference(testkit.Tally{})))
}

func compile(t *rapid.T, strategy partition.Strategy, fleet partition.Fleet, options partition.Options) *partition.Compiled {
	t.Helper()
	compiled, err := partition.Compile(strategy, fleet, options)
	if err != nil {
		t.Fatal(err)
	}
	return compiled
}

func plan(t *rapid.T, strategy partition.Strategy, fleet partition.Fleet, options partition.Options) partition.Result {
	t.Helper()
	return compile(t, strategy, fleet, options).Plan()
}

// apply stores what a plan asks for.
func apply(fleet partition.Fleet, step *partition.Step) partition.Fleet {
	w := world{fleet: partition.Fleet{Clusters: slices.Clone(fleet.Clusters), Groups: fleet.Groups, Paused: fleet.Paused}}
	at := map[string]*partition.Cluster{}
	for i := range w.fleet.Clusters {
		at[name(&w.fleet.Clusters[i])] = &w.fleet.Clusters[i]
	}
	if step.Controller != nil {
		for _, id := range step.Controller.Created {
			c := at[id.String()]
			c.State = partition.State{Paused: c.Paused, Offline: c.Offline}
		}
		for _, id := range step.Controller.Staged {
			at[id.String()].Staged = at[id.String()].Wanted
		}
	}
	for _, r := range step.Releases {
		at[r.ID.String()].Released = at[r.ID.String()].Wanted
	}
	return w.fleet
}

// TestI1I2I3ReleasesAreDue: what is released is due, at most once, in order, within the batch, by a
// partition that was reached and open.
func TestI1I2I3ReleasesAreDue(t *testing.T) {
	seen := testkit.Tally{}
	seen.Check(t, func(t *rapid.T) {
		strategy, fleet, options := genStrategy(t, false), genFleet(t, 14), genOptions(t, partition.Default)
		p := plan(t, strategy, fleet, options)
		by := map[string]*partition.Cluster{}
		for i := range fleet.Clusters {
			by[name(&fleet.Clusters[i])] = &fleet.Clusters[i]
		}
		last, turns := -1, map[int]int{}
		for _, r := range p.Releases {
			if r.Index <= last {
				t.Fatalf("I1: %s is released out of order or twice", r.ID)
			}
			last = r.Index
			c := by[r.ID.String()]
			if c.Released == c.Wanted || c.Paused || c.Offline && options.Offline == partition.ExcludeOffline || fleet.Paused {
				t.Fatalf("I1: %s is released: %+v", r.ID, c.State)
			}
			s := p.Partitions[r.Partition]
			isBroken := c.Released != "" && (c.Applied != c.Released || !c.Ready || c.Offline)
			if !isBroken && s.Unavailable > s.MaxUnavailable {
				t.Fatalf("I2: %s is released by %s", r.ID, s)
			}
			if !s.Reached {
				t.Fatalf("I3: %s is released by %s", r.ID, s)
			}
			if isBroken {
				seen["broken"]++
			}
			turns[r.Partition]++
		}
		batch := 50
		if strategy.MaxNew != nil {
			batch = *strategy.MaxNew
		}
		notReady, reached := 0, 0
		for i, s := range p.Partitions {
			if turns[i] > batch || turns[i] != s.Released {
				t.Fatalf("I2: %d releases of a batch of %d: %s", turns[i], batch, s)
			}
			if turns[i] == batch {
				seen["full batch"]++
			}
			if !s.Reached {
				seen["gate"]++
				continue
			}
			if reached != i {
				t.Fatalf("I3: %s is reached behind one that is not", s)
			}
			reached++
			if i+1 < len(p.Partitions) && p.Partitions[i+1].Reached && !s.Ready {
				notReady++
			}
		}
		if notReady > p.MaxNotReadyPartitions {
			t.Fatalf("I3: %d partitions are not ready of %d:\n%s", notReady, p.MaxNotReadyPartitions, p.Step)
		}
		if options.MaxPerStep != nil && len(p.Releases) > *options.MaxPerStep {
			t.Fatalf("I2: %d releases of %d", len(p.Releases), *options.MaxPerStep)
		}
	}, "broken", "full batch", "gate")
}

// steps carries plans out until one releases nothing and has nothing more, everything that was
// released becoming ready in between.
func steps(t *rapid.T, strategy partition.Strategy, fleet partition.Fleet, options partition.Options, most int) partition.Fleet {
	for range most {
		p := plan(t, strategy, fleet, options)
		fleet = apply(fleet, &p.Step)
		for i := range fleet.Clusters {
			if c := &fleet.Clusters[i]; c.Released == c.Wanted {
				c.Applied, c.Ready = c.Wanted, true
			}
		}
	}
	return fleet
}

// TestI4NoDeadlock: as long as nothing is paused or offline and what is released becomes ready,
// every matched cluster is done in time, at maxUnavailable 0 as well.
func TestI4NoDeadlock(t *testing.T) {
	seen := testkit.Tally{}
	seen.Check(t, func(t *rapid.T) {
		strategy, fleet := genStrategy(t, false), genFleet(t, 12)
		if rapid.Bool().Draw(t, "strict") {
			strategy.MaxUnavailable = partition.FromInt(0)
			for i := range strategy.Partitions {
				strategy.Partitions[i].MaxUnavailable = partition.IntOrString{}
			}
			seen["strict"]++
		}
		fleet.Paused = false
		for i := range fleet.Clusters {
			s := &fleet.Clusters[i].State
			s.Paused, s.Offline = false, false
		}
		options := genOptions(t, partition.Default)
		options.Releases, options.MaxPerStep = "", nil
		p := plan(t, strategy, fleet, options)
		batch := refMaxNew(strategy)
		bound := 2
		for _, s := range p.Partitions {
			bound += (s.Count+batch-1)/batch + 1
		}
		end := steps(t, strategy, fleet, options, bound)
		out := map[string]bool{}
		for _, id := range p.Unmatched {
			out[id.String()] = true
		}
		for i := range end.Clusters {
			c := &end.Clusters[i]
			if !out[name(c)] && !(c.Released == c.Wanted && c.Applied == c.Wanted && c.Ready) {
				t.Fatalf("I4: after %d steps %s is %+v", bound, name(c), c.State)
			}
		}
	}, "strict")
}

// TestI4FewerPerStep: ByBudget and MaxPerStep may take more steps than batches do, but after the first
// step each one releases a cluster until all are done.
func TestI4FewerPerStep(t *testing.T) {
	seen := testkit.Tally{}
	seen.Check(t, func(t *rapid.T) {
		strategy, fleet, options := genStrategy(t, false), genFleet(t, 12), genOptions(t, partition.Default)
		fleet.Paused = false
		for i := range fleet.Clusters {
			s := &fleet.Clusters[i].State
			s.Paused, s.Offline = false, false
		}
		p := plan(t, strategy, fleet, options)
		batches := 2
		for _, s := range p.Partitions {
			batches += (s.Count+p.Batch-1)/p.Batch + 1
		}
		left := func(most int) (n int) {
			p := plan(t, strategy, steps(t, strategy, fleet, options, most), options)
			for _, w := range p.Waiting {
				if w.Reason != partition.Unmatched {
					n++
				}
			}
			return n + len(p.Unready)
		}
		most := len(fleet.Clusters) - len(p.Unmatched) + 1
		if n := left(most); n > 0 {
			t.Fatalf("I4: %d clusters are not done after %d steps", n, most)
		}
		if left(batches) > 0 {
			seen["more steps than batches"]++
		}
	}, "more steps than batches")
}

// TestI5Stable: a step that releases nothing and has nothing more is followed by one that releases
// nothing, in either mode; and More says exactly whether the next step does something.
func TestI5Stable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		strategy, fleet, options := genStrategy(t, false), genFleet(t, 12), genOptions(t, rapid.SampledFrom(modes()).Draw(t, "mode"))
		p := plan(t, strategy, fleet, options)
		next := plan(t, strategy, apply(fleet, &p.Step), options)
		acts := len(next.Releases) > 0
		if next.Controller != nil {
			acts = acts || len(next.Controller.Created)+len(next.Controller.Staged) > 0
		}
		if p.More != acts {
			t.Fatalf("I5: More is %v, and then:\n%s", p.More, next.Step)
		}
	})
}

// TestI6OrderOfInput: clusters in another order give the same plan, byte for byte.
func TestI6OrderOfInput(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		mode := rapid.SampledFrom(modes()).Draw(t, "mode")
		strategy, fleet, options := genStrategy(t, false), genFleet(t, 12), genOptions(t, mode)
		if mode == partition.FleetController {
			for i := range fleet.Clusters { // ties of names keep the order of the input in this mode
				fleet.Clusters[i].Name = fmt.Sprint(fleet.Clusters[i].Name, fleet.Clusters[i].Namespace)
			}
		}
		shuffled := fleet
		shuffled.Clusters = rapid.Permutation(fleet.Clusters).Draw(t, "shuffled")
		a, b := plan(t, strategy, fleet, options), plan(t, strategy, shuffled, options)
		if diff := gocmp.Diff(a, b); diff != "" {
			t.Fatalf("I6: %s", diff)
		}
	})
}

// events is a fleet and its compiled plan, to which the same things happen.
type events struct {
	strategy partition.Strategy
	options  partition.Options
	fleet    partition.Fleet
	compiled *partition.Compiled
	step     partition.Step
	seen     testkit.Tally
}

func (m *events) put(t *rapid.T, i int, state partition.State) {
	c := &m.fleet.Clusters[i]
	at, ok := m.compiled.Find(c.Namespace, c.Name)
	if !ok {
		t.Fatalf("%s is not found", name(c))
	}
	c.State = state
	before := m.compiled.Plan()
	changed, err := m.compiled.Update(at, state)
	if err != nil {
		t.Fatal(err)
	}
	if after := m.compiled.Plan(); !changed && !reflect.DeepEqual(before, after) {
		t.Fatalf("%s is %+v, which is said to change nothing: (-before +after) %s", name(c), state, gocmp.Diff(before, after))
	} else if !changed {
		m.seen["nothing new"]++
	}
}

func (m *events) Event(t *rapid.T) {
	if len(m.fleet.Clusters) > 0 {
		m.put(t, rapid.IntRange(0, len(m.fleet.Clusters)-1).Draw(t, "cluster"), genState().Draw(t, "state"))
	}
}

func (m *events) Relist(t *rapid.T) {
	states := make([]partition.State, len(m.fleet.Clusters))
	for i := range m.fleet.Clusters {
		c := &m.fleet.Clusters[i]
		c.State = genState().Draw(t, "state")
		at, _ := m.compiled.Find(c.Namespace, c.Name)
		states[at] = c.State
	}
	if err := m.compiled.UpdateAll(states); err != nil {
		t.Fatal(err)
	}
}

func (m *events) PauseBundle(t *rapid.T) {
	m.fleet.Paused = !m.fleet.Paused
	m.compiled.SetPaused(m.fleet.Paused)
}

// Apply carries out any part of the plan, as after a crash.
func (m *events) Apply(t *rapid.T) {
	m.compiled.Step(&m.step)
	next := apply(m.fleet, &m.step)
	for i := range next.Clusters {
		if next.Clusters[i].State != m.fleet.Clusters[i].State && rapid.IntRange(0, 3).Draw(t, "carried out") > 0 {
			m.put(t, i, next.Clusters[i].State)
			m.seen["released"]++
		}
	}
}

func (m *events) Settle(t *rapid.T) {
	for i := range m.fleet.Clusters {
		if s := m.fleet.Clusters[i].State; s.Released == m.fleet.Clusters[i].Wanted && !s.Offline && rapid.Bool().Draw(t, "ready") {
			s.Applied, s.Ready = s.Released, true
			m.put(t, i, s)
		}
	}
}

// Check compares with a plan compiled from nothing, and both ways of planning with one another.
func (m *events) Check(t *rapid.T) {
	fresh := compile(t, m.strategy, m.fleet, m.options)
	want, got := fresh.Plan(), m.compiled.Plan()
	if !reflect.DeepEqual(want, got) {
		t.Fatalf("I6 (-new +followed): %s", gocmp.Diff(want, got))
	}
	m.compiled.Step(&m.step)
	for i := range got.Partitions {
		got.Partitions[i].Blockers = nil
	}
	if diff := gocmp.Diff(got.Step, m.step, cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("I6 (-plan +step): %s", diff)
	}
	waiting := map[int]partition.Verdict{}
	for _, w := range got.Waiting {
		waiting[w.Index] = w.Verdict
	}
	for i := range m.compiled.Len() {
		reason, ok, err := m.compiled.Explain(i)
		if wanted, waits := waiting[i]; err != nil || ok != waits || reason != wanted {
			t.Fatalf("Explain(%d) = %v, %v, %v, want %v", i, reason, ok, err, wanted)
		}
	}
	if got.More {
		m.seen["more"]++
	}
}

func propEvents(seen testkit.Tally) func(*rapid.T) {
	return func(t *rapid.T) {
		m := &events{strategy: genStrategy(t, false), fleet: genFleet(t, 10), options: genOptions(t, rapid.SampledFrom(modes()).Draw(t, "mode")), seen: seen}
		m.compiled = compile(t, m.strategy, m.fleet, m.options)
		t.Repeat(rapid.StateMachineActions(m))
	}
}

// TestI6CompiledFollowsEvents: after any sequence of events, relists, pauses and plans carried out
// in part, a compiled plan says what one compiled from nothing says.
func TestI6CompiledFollowsEvents(t *testing.T) {
	seen := testkit.Tally{}
	seen.Check(t, propEvents(seen), "released", "more", "nothing new")
}

func FuzzCompiledFollowsEvents(f *testing.F) {
	f.Add(testkit.Bytes(16384))
	f.Fuzz(rapid.MakeFuzz(propEvents(testkit.Tally{})))
}

// disjoint replaces the partitions by one per value of a label, so that no cluster is in two.
func disjoint(t *rapid.T, strategy partition.Strategy) partition.Strategy {
	strategy.Partitions = nil
	for i, value := range rapid.Permutation([]string{"", "x", "y", "c1"}).Draw(t, "values")[:rapid.IntRange(0, 4).Draw(t, "disjoint")] {
		s := &selector.LabelSelector{MatchLabels: map[string]string{"env": value}}
		strategy.Partitions = append(strategy.Partitions, partition.Definition{MaxUnavailable: genLimit(t, fmt.Sprint("limit", i), false), ClusterSelector: s})
	}
	return strategy
}

// TestI7Monotone: a larger limit never releases fewer clusters, whichever it is, if no cluster is
// in two partitions; without a budget and a cap per step, those released under the smaller one are
// among them unless the batch is full.
func TestI7Monotone(t *testing.T) {
	seen := testkit.Tally{}
	seen.Check(t, func(t *rapid.T) {
		strategy, fleet, options := disjoint(t, genStrategy(t, false)), genFleet(t, 14), genOptions(t, partition.Default)
		fleet.Paused = false
		larger, loose := strategy, options
		which := rapid.SampledFrom([]string{"maxUnavailable", "own maxUnavailable", "maxUnavailablePartitions", "maxNew", "maxPerStep", "100%"}).Draw(t, "which")
		low := rapid.IntRange(0, 6).Draw(t, "low")
		high := rapid.IntRange(low, 8).Draw(t, "high")
		value := func(n int) partition.IntOrString { return partition.FromInt(int32(n)) }
		switch which {
		case "maxUnavailable":
			strategy.MaxUnavailable, larger.MaxUnavailable = value(low), value(high)
		case "100%":
			larger.MaxUnavailable = partition.FromString("100%")
		case "own maxUnavailable":
			larger.Partitions = slices.Clone(strategy.Partitions)
			for i := range strategy.Partitions {
				strategy.Partitions[i].MaxUnavailable, larger.Partitions[i].MaxUnavailable = value(low), value(high)
			}
		case "maxUnavailablePartitions":
			strategy.MaxUnavailablePartitions, larger.MaxUnavailablePartitions = value(low), value(high)
		case "maxNew":
			low, high := low+1, high+1
			strategy.MaxNew, larger.MaxNew = &low, &high
		case "maxPerStep":
			options.MaxPerStep, loose.MaxPerStep = count(low+1), count(high+1)
		}
		few, many := plan(t, strategy, fleet, options), plan(t, larger, fleet, loose)
		if len(few.Releases) > len(many.Releases) {
			t.Fatalf("I7: %s: %d releases become %d:\n%s\n%s", which, len(few.Releases), len(many.Releases), few.Step, many.Step)
		}
		if options.Releases != partition.ByBudget && options.MaxPerStep == nil {
			for _, r := range few.Releases {
				full := many.Partitions[r.Partition].Released == many.Batch // in cluster order, a fix may fall behind others
				if !full && !slices.ContainsFunc(many.Releases, func(other partition.Release) bool { return other.ID == r.ID }) {
					t.Fatalf("I7: %s: %s is released no more", which, r.ID)
				}
			}
		}
		if len(few.Releases) < len(many.Releases) {
			seen[which]++
		}
	}, "maxUnavailable", "own maxUnavailable", "maxUnavailablePartitions", "maxNew", "maxPerStep", "100%")
}

// TestPartitionsDisjoint: where no two selectors match the same cluster, no two partitions share
// one, and every matched cluster is in exactly one; automatic partitions have every cluster.
func TestPartitionsDisjoint(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		strategy, fleet := disjoint(t, genStrategy(t, false)), genFleet(t, 14)
		options := genOptions(t, rapid.SampledFrom(modes()).Draw(t, "mode"))
		compiled := compile(t, strategy, fleet, options)
		p := compiled.Plan()
		home := map[int]int{}
		for i := range p.Partitions {
			members, err := compiled.Members(i)
			if err != nil || len(members) != p.Partitions[i].Count {
				t.Fatal(members, err)
			}
			for k, id := range members {
				if other, twice := home[id.Index]; twice {
					t.Fatalf("%s is in partitions %d and %d", id, other, i)
				}
				if k > 0 && members[k-1].Index >= id.Index {
					t.Fatalf("the members of partition %d are not in cluster order", i)
				}
				home[id.Index] = i
				if in, err := compiled.Partitions(id.Index); err != nil || !slices.Equal(in, []int{i}) {
					t.Fatalf("Partitions(%d) = %v, %v, want %d", id.Index, in, err, i)
				}
			}
		}
		if len(home)+len(p.Unmatched) != len(fleet.Clusters) {
			t.Fatalf("%d clusters are in partitions and %d in none, of %d", len(home), len(p.Unmatched), len(fleet.Clusters))
		}
		if (len(strategy.Partitions) == 0 || options.Leftovers == partition.AppendLeftovers && options.Mode == partition.Default) && len(p.Unmatched) > 0 {
			t.Fatalf("in no partition: %v", p.Unmatched)
		}
	})
}

// TestI8Reasons: every cluster that waits or is held has one reason, the classes of a partition add
// up to its count, and a result is the same after a trip through JSON.
func TestI8Reasons(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		mode := rapid.SampledFrom(modes()).Draw(t, "mode")
		strategy, fleet, options := genStrategy(t, false), genFleet(t, 12), genOptions(t, mode)
		p := plan(t, strategy, fleet, options)
		reasons := map[string]int{}
		for _, w := range p.Waiting {
			reasons[w.ID.String()]++
			if w.Reason.On() == "" || w.Verdict.String() == "" || (w.Reason == partition.Unmatched) != (w.Reason.Status() == "denied") {
				t.Fatalf("I8: %s", w)
			}
		}
		unready := map[string]bool{}
		for _, u := range p.Unready {
			unready[u.ID.String()] = true
		}
		after := apply(fleet, &p.Step)
		for i := range after.Clusters {
			c := &after.Clusters[i]
			want := 0
			if c.Released != c.Wanted {
				want = 1
			}
			excluded := mode == partition.Default && c.Offline && options.Offline == partition.ExcludeOffline
			skipped := mode == partition.Default && c.Paused && options.Paused != partition.BlockPaused
			blocked := mode == partition.Default && c.Paused && !skipped
			doneNow := c.Released == c.Wanted && c.Applied == c.Wanted && c.Ready && !c.Offline
			if excluded || skipped && !doneNow {
				want = 1
			} else if blocked {
				want = 0
			}
			if reasons[name(c)] != want {
				t.Fatalf("I8: %s has %d reasons, want %d: %+v", name(c), reasons[name(c)], want, c.State)
			}
			was := &fleet.Clusters[i]
			doneBefore := was.Released == was.Wanted && was.Applied == was.Wanted && was.Ready && !was.Offline
			if listed := reasons[name(c)] > 0 || unready[name(c)]; mode == partition.Default && listed == doneBefore {
				t.Fatalf("what neither waits nor is NotReady is done, and nothing else: %s is listed %v: %+v", name(c), listed, was.State)
			}
		}
		for _, s := range p.Partitions {
			k := s.Classes
			if mode == partition.Default && k.Done+k.Held+k.Updating+k.Blocked+k.Broken+k.Pending+k.OutOfSync != s.Count {
				t.Fatalf("I8: the classes of %s are %+v", s, k)
			}
		}
		data, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		var back partition.Result
		if err := json.Unmarshal(data, &back); err != nil {
			t.Fatal(err)
		}
		if diff := gocmp.Diff(p, back, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("I8: (-before +after JSON): %s", diff)
		}
	})
}

// TestI9LimitsAreExact: a percentage in the default mode is what rational numbers give, between 0
// and the count, and grows with both; whole percentages are those of concurrency.Limit.
func TestI9LimitsAreExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 2_000_000).Draw(t, "count")
		digits := rapid.IntRange(0, 9).Draw(t, "fraction")
		number := rapid.Int64Range(0, 999_999_999).Draw(t, "number")
		scale := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(digits)), nil)
		text := new(big.Rat).SetFrac(big.NewInt(number), scale).FloatString(digits)
		if len(text) > 10 || digits == 0 && len(text) > 9 {
			t.Skip("too many digits")
		}
		limit := func(count int, text string) int {
			got, err := partition.Limit(partition.Default, count, partition.FromString(text))
			if err != nil {
				t.Fatal(err)
			}
			return got
		}
		want := new(big.Rat).SetFrac(big.NewInt(number), scale)
		want.Mul(want, big.NewRat(int64(n), 100))
		floor := new(big.Int).Quo(want.Num(), want.Denom()).Int64()
		if number > 0 && n > 0 {
			floor = max(1, min(floor, int64(n)))
		}
		got := limit(n, text+"%")
		if int64(got) != floor || got < 0 || got > n {
			t.Fatalf("I9: %s%% of %d is %d, want %d", text, n, got, floor)
		}
		if more := limit(n+1, text+"%"); more < got {
			t.Fatalf("I9: %s%% of %d is %d, of one more %d", text, n, got, more)
		}
		p := rapid.IntRange(0, 100).Draw(t, "percent")
		whole := limit(n, fmt.Sprint(p, "%"))
		if want := concurrency.Percent(p).Of(n, concurrency.FloorMin1); whole != want {
			t.Fatalf("I9: %d%% of %d is %d, concurrency.Limit says %d", p, n, whole, want)
		}
		if p < 100 && limit(n, fmt.Sprint(p+1, "%")) < whole {
			t.Fatalf("I9: %d%% of %d is more than one percent more", p, n)
		}
	})
}

// FuzzLimit: no text makes a limit panic, or leave its bounds; what is accepted agrees with the
// reference.
func FuzzLimit(f *testing.F) {
	for _, text := range []string{"10%", "4.6%", ".5%", "+3", "007", "-1", "NaN%", "1e1%", "0x1p5%", "99999999999999999999", "1e400%", "5.%"} {
		f.Add(1500, text)
	}
	f.Fuzz(func(t *testing.T, n int, text string) {
		if n < 0 || n > 1<<30 {
			return
		}
		for _, mode := range modes() {
			got, err := partition.Limit(mode, n, partition.FromString(text))
			want, wantErr := refLimit(mode == partition.FleetController, n, "maxUnavailable", partition.FromString(text))
			if (err != nil) != (wantErr != nil) || err == nil && got != want {
				t.Fatalf("%s: %q of %d is %d, %v, want %d, %v", mode, text, n, got, err, want, wantErr)
			}
			if mode == partition.Default && (got < 0 || got > n) {
				t.Fatalf("%q of %d is %d", text, n, got)
			}
		}
	})
}

// FuzzStrategy: what decodes survives a trip through JSON, and compiles or is refused with typed
// faults.
func FuzzStrategy(f *testing.F) {
	for _, c := range readCases(f) {
		data, err := json.Marshal(c.Request.Strategy)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var s, again partition.Strategy
		if err := json.Unmarshal(data, &s); err != nil {
			return
		}
		written, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(written, &again); err != nil {
			t.Fatalf("%s is not accepted again: %v", written, err)
		}
		if diff := gocmp.Diff(s, again, cmpopts.EquateEmpty(), gocmp.Comparer(func(a, b partition.IntOrString) bool { return a == b })); diff != "" {
			t.Fatal(diff)
		}
		for _, mode := range modes() {
			plan, err := partition.Plan(s, fleetOf(3, fresh()), partition.Options{Mode: mode})
			var fault *partition.FieldError
			if err != nil && !errors.As(err, &fault) {
				t.Fatalf("%v has no type", err)
			}
			if err == nil && len(plan.Partitions) == 0 {
				t.Fatal("no partitions")
			}
			if mode == partition.Default && (s.Validate() == nil) != (err == nil) {
				t.Fatalf("Validate says %v, Plan %v", s.Validate(), err)
			}
		}
	})
}
