package surge_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/internal/testkit"
	"github.com/tranche-dev/tranche/surge"
)

func limits(most int) *rapid.Generator[concurrency.Limit] {
	return rapid.Custom(func(t *rapid.T) concurrency.Limit {
		switch rapid.IntRange(0, 5).Draw(t, "form") {
		case 0:
			return concurrency.Percent(rapid.IntRange(0, 100).Draw(t, "percent"))
		case 1:
			return concurrency.Limit{}
		case 2:
			return concurrency.Count(rapid.IntRange(0, most).Draw(t, "many"))
		}
		return concurrency.Count(rapid.IntRange(0, 3).Draw(t, "few"))
	})
}

func specs() *rapid.Generator[surge.Spec] {
	return rapid.Custom(func(t *rapid.T) surge.Spec {
		replicas := rapid.OneOf(rapid.IntRange(0, 8), rapid.IntRange(0, 64)).Draw(t, "replicas")
		spec := surge.Spec{
			Replicas: replicas, MaxSurge: limits(32).Draw(t, "maxSurge"), MaxUnavailable: limits(64).Draw(t, "maxUnavailable"),
			Order: rapid.SampledFrom([]surge.Order{"", surge.Ascending, surge.Descending}).Draw(t, "order"),
			Force: rapid.IntRange(0, 7).Draw(t, "force") == 0, Paused: rapid.IntRange(0, 9).Draw(t, "paused") == 0,
		}
		if rapid.Bool().Draw(t, "partitioned") {
			spec.Partition = rapid.IntRange(0, replicas+1).Draw(t, "partition")
		}
		if rapid.Bool().Draw(t, "gang") {
			spec.MinAvailable = rapid.IntRange(0, replicas).Draw(t, "minAvailable")
		}
		return spec
	})
}

// states draws slots for a Spec: healthy ones, broken ones, leftovers.
func states(spec surge.Spec) *rapid.Generator[[]surge.Slot] {
	return rapid.Custom(func(t *rapid.T) []surge.Slot {
		r := spec.Resolve()
		n := rapid.IntRange(0, r.Replicas+min(r.Surge, 32)+4).Draw(t, "length")
		mix := rapid.SampledFrom([]string{".tuoOnN", "O", "N", "OON", "OOOoNt.", "oun", "O.", "nNO", "uoO"}).Draw(t, "mix")
		return rapid.SliceOfN(rapid.Map(rapid.IntRange(0, len(mix)-1), func(i int) surge.Slot {
			slots, err := surge.ParseSlots(mix[i : i+1])
			if err != nil {
				panic(err)
			}
			return slots[0]
		}), n, n).Draw(t, "slots")
	})
}

// checked plans, holds the invariants, and returns the plan.
func checked(t *rapid.T, spec surge.Spec, slots []surge.Slot) surge.Result {
	before := slices.Clone(slots)
	plan := surge.Plan(spec, slots)
	after := surge.Apply(slots, plan.Actions)
	fail := func(rule, format string, args ...any) {
		t.Fatalf("%s: %s\nstate %s  spec %+v\n%v", rule, fmt.Sprintf(format, args...), surge.FormatSlots(slots), spec, plan)
	}
	checkPlan(spec, slots, plan, after, fail)
	if again := surge.Plan(spec, after); len(again.Actions) > 0 {
		fail("I9", "after the whole plan, %s is planned as\n%v", surge.FormatSlots(after), again)
	}
	if !slices.Equal(before, slots) {
		fail("pure", "the slots changed")
	}
	return plan
}

// TestReference compares the planner with the dumb one, on states as wild as they come.
func TestReference(t *testing.T) {
	outcomes := testkit.Tally{}
	outcomes.Check(t, func(t *rapid.T) { propReference(t, outcomes) }, "Hole", "Surge", "Outdated", "OutdatedUnscheduled", "OutdatedUnavailable", "StaleSurge", "SurplusSurge", "Condemned",
		"Paused", "Terminating", "BudgetExhausted", "WaitingForSurge", "WaitingForBase", "ProtectedDown", "RepairWindow", "converged")
}

func FuzzReference(f *testing.F) {
	f.Add(testkit.Bytes(4096))
	f.Fuzz(rapid.MakeFuzz(func(t *rapid.T) { propReference(t, testkit.Tally{}) }))
}

func propReference(t *rapid.T, outcomes testkit.Tally) {
	spec := specs().Draw(t, "spec")
	slots := states(spec).Draw(t, "state")
	plan := checked(t, spec, slots)
	if cap(plan.Actions) != len(plan.Actions) {
		t.Fatalf("state %s  spec %+v: room for %d actions, used by %d: it is allocated once, and to measure", surge.FormatSlots(slots), spec, cap(plan.Actions), len(plan.Actions))
	}
	if want := reference(spec, slots); !slices.Equal(want, plan.Actions) {
		t.Fatalf("state %s  spec %+v\nreference: %v\nplanner: %v", surge.FormatSlots(slots), spec, want, plan.Actions)
	}
	for _, action := range plan.Actions {
		outcomes[action.Reason.String()]++
	}
	for code := range strings.FieldsSeq(plan.Blocked.String()) {
		outcomes[code]++
	}
	if plan.Converged {
		outcomes["converged"]++
	}
}

// TestLaws holds relations between plans.
func TestLaws(t *testing.T) {
	deleted := func(plan surge.Result, below int) []int {
		var list []int
		for _, action := range plan.Actions {
			if action.Op == surge.Delete && action.Index < below {
				list = append(list, action.Index)
			}
		}
		return list
	}
	rapid.Check(t, func(t *rapid.T) {
		spec := specs().Draw(t, "spec")
		slots := states(spec).Draw(t, "state")
		r := spec.Resolve()
		plan := surge.Plan(spec, slots)

		if again := surge.Plan(spec, slots); !reflect.DeepEqual(plan, again) {
			t.Fatalf("the same input is planned as\n%v\nand as\n%v", plan, again)
		}
		longer := append(slices.Clone(slots), make([]surge.Slot, rapid.IntRange(1, 9).Draw(t, "more"))...)
		if same := surge.Plan(spec, longer); !reflect.DeepEqual(plan, same) {
			t.Fatalf("absent slots at the end change the plan\n%v\nto\n%v", plan, same)
		}

		var observed []surge.Replica
		for i, slot := range slots {
			observed = append(observed, surge.Replica{Index: i, Slot: slot})
		}
		observed = rapid.Permutation(observed).Draw(t, "order of observation")
		arranged, err := surge.Arrange(observed)
		if err != nil || !reflect.DeepEqual(plan, surge.Plan(spec, arranged)) {
			t.Fatalf("the order of observation changes the plan, %v", err)
		}

		more := spec
		more.MaxUnavailable = concurrency.Count(r.Unavailable + 1)
		more.MaxSurge = concurrency.Count(r.Surge)
		larger := deleted(surge.Plan(more, slots), r.Replicas)
		for _, i := range deleted(plan, r.Replicas) {
			if !slices.Contains(larger, i) {
				t.Fatalf("one more may be unavailable, and %d is not replaced any more: %s %+v", i, surge.FormatSlots(slots), spec)
			}
		}

		mirrored := spec
		mirrored.MinAvailable = 0
		straight := deleted(surge.Plan(mirrored, slots), r.Replicas)
		mirrored.Order = surge.Descending
		if spec.Order == surge.Descending {
			mirrored.Order = surge.Ascending
		}
		turned := append(slices.Clone(slots), make([]surge.Slot, max(r.Replicas-len(slots), 0))...)
		slices.Reverse(turned[r.Partition:r.Replicas])
		back := deleted(surge.Plan(mirrored, turned), r.Replicas)
		for i := range back {
			back[i] = r.Partition + r.Replicas - 1 - back[i]
		}
		slices.Sort(back)
		if !slices.Equal(straight, back) {
			t.Fatalf("%v are deleted, %v in the mirror: %s %+v", straight, back, surge.FormatSlots(slots), spec)
		}

		quiet := spec
		quiet.Partition = r.Replicas
		healthy := make([]surge.Slot, r.Replicas)
		for i := range healthy {
			healthy[i] = rapid.SampledFrom([]surge.Slot{surge.OldAvailable, surge.TargetAvailable}).Draw(t, "label")
		}
		if rest := surge.Plan(quiet, healthy); !rest.Converged || rest.Blocked != 0 || len(rest.Actions) > 0 {
			t.Fatalf("a healthy set outside the partition is planned as\n%v", rest)
		}
	})
}

// TestAnyOrder lets the caller show the replicas above the partition in another order at each call,
// and the members of the base gang ahead of the others. The floor is kept, and the update ends.
func TestAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := specs().Draw(t, "spec")
		spec.Paused, spec.Replicas = false, min(spec.Replicas, 12)
		r := spec.Resolve()
		slots := states(spec).Draw(t, "state")
		slots = append(slots, make([]surge.Slot, max(r.Replicas+min(r.Surge, 32)-len(slots), 0))...)
		for i := range r.Partition {
			slots[i] = surge.OldAvailable // or the update might wait for what it may not replace
		}
		available := func() (n int) {
			for _, slot := range slots {
				if slot.Available() {
					n++
				}
			}
			return n
		}
		for step := 0; ; step++ {
			if step > 200*(len(slots)+1) {
				t.Fatalf("the update does not end: %s %+v", surge.FormatSlots(slots), spec)
			}
			order := make([]int, len(slots))
			for i := range order {
				order[i] = i
			}
			gang := max(r.Partition, r.MinAvailable)
			copy(order[r.Partition:gang], rapid.Permutation(order[r.Partition:gang]).Draw(t, "gang"))
			copy(order[gang:r.Replicas], rapid.Permutation(order[gang:r.Replicas]).Draw(t, "rest"))
			seen := make([]surge.Slot, len(slots))
			for place, i := range order {
				seen[place] = slots[i]
			}
			plan := surge.Plan(spec, seen)
			if len(plan.Actions) > 0 {
				before := available()
				actions := plan.Actions[:rapid.IntRange(1, len(plan.Actions)).Draw(t, "carried out")]
				seen = surge.Apply(seen, actions)
				for place, i := range order {
					slots[i] = seen[place]
				}
				if now := available(); now < before && now < r.Floor() {
					t.Fatalf("%d available, the floor is %d: %s %+v", now, r.Floor(), surge.FormatSlots(slots), spec)
				}
			}
			var pending []int
			for i, slot := range slots {
				if slot == surge.Terminating || slot == surge.TargetUnavailable {
					pending = append(pending, i)
				}
			}
			switch {
			case len(pending) > 0:
				i := rapid.SampledFrom(pending).Draw(t, "event")
				slots[i] = map[surge.Slot]surge.Slot{surge.Terminating: surge.Absent, surge.TargetUnavailable: surge.TargetAvailable}[slots[i]]
			case len(plan.Actions) == 0:
				if !plan.Converged {
					t.Fatalf("it stops at %s %+v: %v", surge.FormatSlots(slots), spec, plan)
				}
				return
			}
		}
	})
}

// universe is the world of a set with its caller, who reads from a cache and may crash. The world
// refuses what an API server refuses: a creation on a taken index, a deletion of what is not there.
type universe struct {
	t        *rapid.T
	outcomes testkit.Tally
	spec     surge.Spec
	real     []surge.Slot

	cache  []surge.Slot
	issued []surge.Action // since the cache was read
	unseen bool           // a replica was lost since then, so a floor may be breached by others than the planner
}

func newUniverse(t *rapid.T, outcomes testkit.Tally) *universe {
	u := &universe{t: t, outcomes: outcomes, spec: specs().Draw(t, "spec")}
	u.real = states(u.spec).Draw(t, "state")
	u.refresh()
	return u
}

func (u *universe) refresh() {
	u.cache, u.issued, u.unseen = slices.Clone(u.real), nil, false
}

// execute carries out one action against the real world. serves says whether the caller saw the
// replica available: I2 is about these. A replica that was not may have recovered unseen, and is
// deleted all the same.
func (u *universe) execute(action surge.Action, serves bool) {
	for len(u.real) <= action.Index {
		u.real = append(u.real, surge.Absent)
	}
	r := u.spec.Resolve()
	if action.Op == surge.Create && u.real[action.Index] != surge.Absent {
		u.t.Fatalf("I1: %v on a taken index, %s", action, surge.FormatSlots(u.real))
	}
	after := surge.Apply(u.real, []surge.Action{action})
	if action.Op == surge.Delete && serves && !u.unseen && available(after) < r.Floor() {
		u.t.Fatalf("I2: %v leaves %d of a floor of %d: %s %+v", action, available(after), r.Floor(), surge.FormatSlots(after), u.spec)
	}
	u.real = after
	present := 0
	for _, slot := range after[:min(len(after), r.Replicas+r.Surge)] {
		if slot != surge.Absent {
			present++
		}
	}
	if present > r.Replicas+r.Surge {
		u.t.Fatalf("I1: %d are present", present)
	}
}

// step plans on the cache with what was issued on top, and carries some of it out, in any order.
func (u *universe) step(whole, crash bool) {
	view := surge.Apply(u.cache, u.issued)
	plan := checked(u.t, u.spec, view)
	order := rapid.Permutation(plan.Actions).Draw(u.t, "order of calls")
	if !whole && len(order) > 0 {
		order = order[:rapid.IntRange(0, len(order)).Draw(u.t, "calls")]
	}
	for _, action := range order {
		u.execute(action, at(view, action.Index).Available())
		u.issued = append(u.issued, action)
		u.outcomes[action.Reason.String()]++
	}
	if len(order) > 0 && len(order) < len(plan.Actions) {
		u.outcomes["partly carried out"]++
	}
	if crash {
		if len(order) > 0 && len(order) < len(plan.Actions) {
			u.outcomes["crash after part of a plan"]++
		}
		u.refresh()
	}
}

// any draws an index whose slot is one of some kinds, -1 if there is none.
func (u *universe) any(kinds ...surge.Slot) int {
	var list []int
	for i, slot := range u.real {
		if slices.Contains(kinds, slot) {
			list = append(list, i)
		}
	}
	if len(list) == 0 {
		return -1
	}
	return rapid.SampledFrom(list).Draw(u.t, "index")
}

func (u *universe) change(from, to surge.Slot) {
	if i := u.any(from); i >= 0 {
		u.real[i] = to
	}
}

func (u *universe) relabel(rollback bool) {
	for i, slot := range u.real {
		switch {
		case slot == surge.TargetAvailable:
			u.real[i] = surge.OldAvailable
		case slot == surge.TargetUnavailable:
			u.real[i] = surge.OldUnavailable
		case rollback && slot == surge.OldAvailable && i%2 == 0:
			u.real[i] = surge.TargetAvailable
		}
	}
	u.refresh() // the caller is told of a new revision with its labels
}

func (u *universe) actions() map[string]func(*rapid.T) {
	with := func(do func()) func(*rapid.T) {
		return func(t *rapid.T) { u.t = t; do() }
	}
	return map[string]func(*rapid.T){
		"":                 with(func() { checked(u.t, u.spec, u.real) }),
		"carry out all":    with(func() { u.step(true, false) }),
		"carry out some":   with(func() { u.step(false, false) }),
		"crash half-way":   with(func() { u.step(false, true) }),
		"cache catches up": with(u.refresh),
		"gets ready":       with(func() { u.change(surge.TargetUnavailable, surge.TargetAvailable) }),
		"goes":             with(func() { u.change(surge.Terminating, surge.Absent) }),
		"recovers":         with(func() { u.change(surge.OldUnavailable, surge.OldAvailable) }),
		"is scheduled":     with(func() { u.change(surge.OldUnscheduled, surge.OldUnavailable) }),
		"fails": with(func() {
			if i := u.any(surge.OldAvailable, surge.TargetAvailable); i >= 0 {
				u.real[i]-- // unavailable, of the same revision
				u.unseen = true
				u.outcomes["failure"]++
			}
		}),
		"is evicted": with(func() {
			if i := u.any(surge.OldAvailable, surge.TargetAvailable, surge.OldUnavailable, surge.TargetUnavailable); i >= 0 {
				u.real[i] = surge.Terminating
				u.unseen = true
			}
		}),
		"new revision": with(func() { u.relabel(false) }),
		"rollback":     with(func() { u.relabel(true) }),
		"new spec": with(func() {
			u.outcomes["scaling"]++
			u.spec = specs().Draw(u.t, "spec")
			u.refresh()
		}),
	}
}

// finish stops the failures and runs to the end: no hole, nothing above, and every index that may
// be updated is.
func (u *universe) finish() {
	u.spec.Paused = false
	u.refresh()
	r := u.spec.Resolve()
	for range 40 * (len(u.real) + r.Replicas + 2) {
		plan := checked(u.t, u.spec, u.real)
		before := available(u.real)
		for _, action := range plan.Actions {
			u.execute(action, at(u.real, action.Index).Available())
		}
		if !plan.Updated && slices.ContainsFunc(plan.Actions, func(a surge.Action) bool { return a.Reason == surge.SurplusSurge }) {
			u.outcomes["retired early"]++
		}
		if before >= r.Floor() && available(u.real) < r.Floor() {
			u.t.Fatalf("I2: the floor of %d is breached: %s", r.Floor(), surge.FormatSlots(u.real))
		}
		if plan.Converged {
			u.outcomes["finished"]++
			if len(holes(u.real, r.Replicas)) > 0 {
				u.t.Fatalf("holes in %s", surge.FormatSlots(u.real))
			}
			for i, slot := range u.real {
				if i >= r.Replicas && slot != surge.Absent {
					u.t.Fatalf("%d is left above %d replicas: %s", i, r.Replicas, surge.FormatSlots(u.real))
				}
			}
			return
		}
		if i := u.any(surge.Terminating, surge.TargetUnavailable); i >= 0 {
			u.real[i] = map[surge.Slot]surge.Slot{surge.Terminating: surge.Absent, surge.TargetUnavailable: surge.TargetAvailable}[u.real[i]]
		} else if len(plan.Actions) == 0 {
			if !protectedDown(r, append(slices.Clone(u.real), make([]surge.Slot, r.Replicas)...)) {
				u.t.Fatalf("I7, I8: %s of %+v is the end:\n%v", surge.FormatSlots(u.real), u.spec, plan)
			}
			u.outcomes["waits for a protected replica"]++
			for i := range r.Partition { // its old revision is repaired by others
				if i < len(u.real) && (u.real[i] == surge.OldUnavailable || u.real[i] == surge.OldUnscheduled) {
					u.real[i] = surge.OldAvailable
				}
			}
		}
	}
	u.t.Fatalf("%s of %+v does not end", surge.FormatSlots(u.real), u.spec)
}

// TestNoIndexHoles is the promise of this package as a state machine: whatever happened before,
// once failures stop, the indices in use are exactly [0, replicas).
func TestNoIndexHoles(t *testing.T) {
	outcomes := testkit.Tally{}
	outcomes.Check(t, func(t *rapid.T) { propNoIndexHoles(t, outcomes) },
		"Hole", "Surge", "Outdated", "OutdatedUnscheduled", "OutdatedUnavailable", "StaleSurge", "SurplusSurge", "Condemned",
		"partly carried out", "crash after part of a plan", "failure", "scaling", "retired early", "finished", "waits for a protected replica")
}

func FuzzNoIndexHoles(f *testing.F) {
	f.Add(testkit.Bytes(32768))
	f.Add(bytes.Repeat(testkit.Bytes(512), 32))
	f.Fuzz(rapid.MakeFuzz(func(t *rapid.T) { propNoIndexHoles(t, testkit.Tally{}) }))
}

func propNoIndexHoles(t *rapid.T, outcomes testkit.Tally) {
	u := newUniverse(t, outcomes)
	t.Repeat(u.actions())
	u.t = t
	u.finish()
}

// TestBlastRadius rolls out a revision that never becomes ready. From a healthy start at most U+S
// replicas ever run it, at most U of them in the base. If old replicas fail meanwhile, at most U+S
// of the base and S surges do, unless there are gangs or Force. In either case no more than U
// available replicas are given up.
func TestBlastRadius(t *testing.T) {
	outcomes := testkit.Tally{}
	outcomes.Check(t, func(t *rapid.T) {
		u := &universe{t: t, outcomes: outcomes, spec: specs().Draw(t, "spec")}
		u.spec.Paused = false
		failing := rapid.Bool().Draw(t, "old replicas fail")
		if failing {
			u.spec.MinAvailable, u.spec.Force = 0, false
		}
		r := u.spec.Resolve()
		u.real = slices.Repeat([]surge.Slot{surge.OldAvailable}, r.Replicas)
		ran := map[int]bool{} // indices that ever ran the revision
		base, given := 0, 0
		for {
			u.refresh()
			plan := checked(t, u.spec, u.real)
			before := available(u.real)
			u.step(rapid.Bool().Draw(t, "whole"), false)
			given += before - available(u.real)
			for i, slot := range u.real {
				if slot == surge.TargetUnavailable && !ran[i] {
					ran[i] = true
					if i < r.Replicas {
						base++
					}
				}
			}
			all := len(ran)
			if !failing && (all > r.Unavailable+r.Surge || base > r.Unavailable) {
				t.Fatalf("%d run it, %d of the base: %s of %+v", all, base, surge.FormatSlots(u.real), u.spec)
			}
			if base > r.Unavailable+r.Surge || all-base > r.Surge || given > r.Unavailable {
				t.Fatalf("%d run it, %d of the base, and %d were given up: %s of %+v", all, base, given, surge.FormatSlots(u.real), u.spec)
			}
			if all == r.Unavailable+r.Surge {
				outcomes["the whole radius"]++
			}
			if base > r.Unavailable {
				outcomes["more of the base, for others failed"]++
			}
			if i := u.any(surge.Terminating); i >= 0 {
				u.real[i] = surge.Absent
			} else if len(plan.Actions) == 0 {
				return
			}
			if failing && rapid.Bool().Draw(t, "fails") {
				u.change(surge.OldAvailable, surge.OldUnavailable)
			}
		}
	}, "the whole radius", "more of the base, for others failed")
}

func FuzzParseSlots(f *testing.F) {
	for _, text := range []string{"", ".tuoOnN", "OOx", "é", "\xff\xfe", "O O"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		slots, err := surge.ParseSlots(text)
		if err == nil && surge.FormatSlots(slots) != text {
			t.Fatalf("%q came back as %q", text, surge.FormatSlots(slots))
		}
		if err != nil && slots != nil {
			t.Fatalf("%q is read and refused", text)
		}
	})
}

func FuzzSpecJSON(f *testing.F) {
	for _, doc := range []string{`{"replicas":3,"maxSurge":"25%","maxUnavailable":0,"order":"descending"}`, `{"replicas":-1,"maxSurge":null}`, `{"minAvailable":9e9}`, `[]`, `{`} {
		f.Add([]byte(doc))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var spec surge.Spec
		if spec.UnmarshalJSON(data) != nil {
			if spec != (surge.Spec{}) {
				t.Fatalf("%s is read and refused", data)
			}
			return
		}
		if spec.Validate() == nil && spec.Replicas <= 1000 {
			plan := surge.Plan(spec, nil)
			if len(plan.Actions) != spec.Replicas {
				t.Fatalf("%s: %d creations for %d replicas", data, len(plan.Actions), spec.Replicas)
			}
		}
		text, err := json.Marshal(spec)
		if err != nil {
			t.Fatal(err)
		}
		var back surge.Spec
		if err := back.UnmarshalJSON(text); err != nil || back != spec {
			t.Fatalf("%s came back as %+v, %v", text, back, err)
		}
	})
}

func FuzzParsePodCliqueSet(f *testing.F) {
	f.Add([]byte(`{"spec":{"replicas":2,"updateStrategy":{"type":"ReplicaRecreate","rollingUpdate":{"maxSurge":1}},"template":{"cliques":[{"name":"a","spec":{"replicas":2}}],"podCliqueScalingGroups":[{"name":"g","cliqueNames":["a"]}]}}}`))
	f.Add([]byte(`{"spec":{"template":{"cliques":[{"name":"a","replicas":-1,"minAvailable":7}]}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		spec, warnings, err := surge.ParsePodCliqueSet(data)
		if err == nil && spec.Validate() != nil {
			t.Fatalf("%s: %v", data, spec.Validate())
		}
		if len(warnings) != len(spec.Warnings()) {
			t.Fatalf("%s: %v", data, warnings)
		}
	})
}

// holes are the absent indices of [0, replicas).
func holes(slots []surge.Slot, replicas int) []int {
	var list []int
	for i := range replicas {
		if i >= len(slots) || slots[i] == surge.Absent {
			list = append(list, i)
		}
	}
	return list
}
