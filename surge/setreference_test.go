package surge_test

import (
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

// setReference is the plan of a set written down as it is told, unit by unit: who is current, who
// is held, who goes. Plans of single components are those of surge.Plan, which has a reference of
// its own. It returns what actionsOf does, the current replica, and each replica as one slot,
// followed by "complete" if it is.
func setReference(spec surge.SetSpec, state surge.SetState) (map[string]string, int, []string) {
	plan := map[string]string{}
	replicas := spec.Replicas
	units := func(r, c int) surge.Units {
		if r < len(state) && c < len(state[r]) {
			return state[r][c]
		}
		return surge.Units{}
	}
	components := func(r int) []surge.Component { // as they should be in one replica
		list := slices.Clone(spec.Components)
		for c := range list {
			if n := units(r, c).Replicas; n != nil {
				list[c].Replicas = *n
			}
		}
		return list
	}
	put := func(r, c int, actions []surge.Action, own bool) {
		var list []string
		for _, a := range actions {
			if own && a.Op == surge.Create { // what the replica runs is the target
				a.Revision = surge.Target
			}
			sign, _, _ := strings.Cut(a.String(), " ")
			list = append(list, sign)
		}
		if len(list) > 0 {
			plan[fmt.Sprintf("%d/%d", r, c)] = strings.Join(list, " ")
		}
	}
	own := func(c surge.Component) surge.Spec {
		flat := surge.Spec{Replicas: c.Replicas, MinAvailable: c.MinAvailable}
		if c.UpdateStrategy != nil {
			flat.MaxSurge, flat.MaxUnavailable = c.UpdateStrategy.MaxSurge, c.UpdateStrategy.MaxUnavailable
		}
		return flat
	}
	// Of a replica that is not current, what it needs to serve is left to it.
	waits := func(c surge.Component) surge.Spec {
		flat := own(c)
		r := flat.Resolve()
		spare := min(r.Unavailable, c.Replicas-min(c.Replicas, max(c.MinAvailable, 1)))
		flat.MaxUnavailable = concurrency.Count(spare)
		if r.Surge == 0 && spare == 0 { // both would be 1 unavailable; nothing is outdated that a surge could be for
			flat.MaxSurge = concurrency.Count(1)
		}
		return flat
	}

	type replica struct {
		slot                    surge.Slot
		idle                    bool // it should have no unit
		complete, lives, anyOld bool
		atTarget                bool // by the first live unit
		rank                    int
	}
	look := func(r int) replica {
		one := replica{complete: true, idle: true, rank: 6}
		revisions := map[string]bool{}
		var members []surge.Member
		var surged, scheduled, lacks, degraded bool
		for c, component := range components(r) {
			slots := units(r, c).Slots
			one.idle = one.idle && component.Replicas == 0
			members = append(members, surge.Member{Slots: slots, Replicas: component.Replicas, MinAvailable: component.MinAvailable})
			for i := range max(component.Replicas, len(slots)) {
				slot := at(slots, i)
				base := i < component.Replicas
				one.complete = one.complete && (base && slot == surge.TargetAvailable || !base && !slot.Live())
				degraded = degraded || base && !slot.Available()
				surged = surged || !base && slot.Live()
				if !slot.Live() {
					continue
				}
				revision := "target"
				if slot.Old() {
					revision, one.anyOld = "old", true
					if names := units(r, c).Revisions; i < len(names) {
						revision += names[i]
					}
				}
				if !one.lives {
					one.atTarget = revision == "target"
				}
				one.lives, revisions[revision] = true, true
				scheduled = scheduled || slot != surge.OldUnscheduled
			}
			lacks = lacks || available(slots) < min(component.Replicas, max(component.MinAvailable, 1))
		}
		for rank, applies := range []bool{len(revisions) > 1, !one.anyOld, !scheduled, lacks, degraded, surged} {
			if applies {
				one.rank = rank
				break
			}
		}
		one.slot = surge.Fold(members)
		return one
	}
	// What should have no unit serves as far as it should, or is of no use.
	counted := func(r int, one replica) surge.Slot {
		if one.idle && r < replicas && one.slot == surge.Absent {
			return surge.TargetAvailable
		}
		if one.idle && r >= replicas && one.slot.Available() {
			return map[bool]surge.Slot{true: surge.OldUnavailable, false: surge.TargetUnavailable}[one.slot.Old()]
		}
		return one.slot
	}
	all := make([]replica, max(replicas, len(state)))
	seen := make([]string, len(all))
	show := func(r int, slot surge.Slot) {
		if seen[r] = slot.String(); all[r].complete {
			seen[r] += " complete"
		}
	}
	for r := range all {
		all[r] = look(r)
		show(r, all[r].slot)
	}
	hold := func(r int, flat func(surge.Component) surge.Spec) {
		for c, component := range components(r) {
			held := flat(component)
			held.Partition = held.Replicas
			put(r, c, surge.Plan(held, units(r, c).Slots).Actions, all[r].lives && all[r].atTarget)
		}
	}
	remove := func(r int) {
		for c := range spec.Components {
			var actions []surge.Action
			for i, slot := range units(r, c).Slots {
				if slot.Live() {
					actions = append(actions, surge.Action{Index: i, Op: surge.Delete})
				}
			}
			put(r, c, actions, false)
		}
	}

	if spec.UpdateStrategy.Type == surge.ReplicaRecreate {
		var slots []surge.Slot
		allIdle := replicas > 0
		born := slices.ContainsFunc(spec.Components, func(c surge.Component) bool { return c.Replicas > 0 })
		for r, one := range all {
			slots = append(slots, counted(r, one))
			allIdle = allIdle && (one.idle || r >= replicas)
		}
		budgets := spec.UpdateStrategy.RollingUpdate
		flat := surge.Spec{Replicas: replicas, Partition: spec.Partition, Paused: spec.Paused, MaxSurge: budgets.MaxSurge, MaxUnavailable: budgets.MaxUnavailable}
		if !born {
			flat.MaxSurge = concurrency.Count(0)
		}
		if allIdle || replicas == 0 && !born { // nothing of it should exist
			flat = surge.Spec{}
			for r, one := range all {
				slots[r] = one.slot
			}
		}
		whole := surge.Plan(flat, slots)
		for r := range replicas {
			show(r, slots[r])
		}
		taken := map[int]bool{}
		for _, action := range whole.Actions {
			if taken[action.Index] = true; action.Op == surge.Delete {
				remove(action.Index)
				continue
			}
			if r := action.Index; r < len(all) && all[r].idle { // nothing will be created
				show(r, surge.TargetUnavailable)
			}
			for c, component := range components(action.Index) {
				var actions []surge.Action
				for i := range component.Replicas {
					actions = append(actions, surge.Action{Index: i, Op: surge.Create, Revision: action.Revision})
				}
				put(action.Index, c, actions, false)
			}
		}
		for r, one := range all {
			if !taken[r] && one.lives {
				hold(r, func(c surge.Component) surge.Spec {
					return surge.Spec{Replicas: c.Replicas, MaxSurge: concurrency.Count(1), MaxUnavailable: concurrency.Count(0)}
				})
			}
		}
		return plan, -1, seen
	}

	current := -1
	for r := spec.Partition; r < replicas && !spec.Paused; r++ {
		if !all[r].complete && (current < 0 || all[r].rank < all[current].rank) {
			current = r
		}
	}
	left := 0 // replicas that serve once the others are planned
	for r, one := range all {
		if counted(r, one).Available() {
			left++
		}
		if r == current && counted(r, one).Available() {
			var members []surge.Member
			for c, component := range components(r) {
				slots := units(r, c).Slots
				slots = surge.Apply(slots, surge.Plan(own(component), slots).Actions)
				members = append(members, surge.Member{Slots: slots, Replicas: component.Replicas, MinAvailable: component.MinAvailable})
			}
			if !surge.Fold(members).Available() {
				left--
			}
		}
		switch {
		case r >= replicas:
		case r == current, !one.anyOld && (one.lives || r >= spec.Partition):
			flat := waits
			if r == current {
				flat = own
			}
			for c, component := range components(r) {
				put(r, c, surge.Plan(flat(component), units(r, c).Slots).Actions, false)
			}
		default:
			hold(r, waits)
		}
	}
	for r := len(all) - 1; r >= replicas; r-- {
		switch slot := counted(r, all[r]); {
		case slot.Live() && !slot.Available():
			remove(r)
		case slot.Available() && left > replicas-1:
			left--
			remove(r)
		case slot.Available():
			hold(r, waits)
		}
	}
	return plan, current, seen
}

// checkWaits compares what each replica waits for with what the whole plan leads to.
func checkWaits(spec surge.SetSpec, plan surge.SetResult, after surge.SetState, fail failure) {
	for r, replica := range plan.Replicas {
		for c, component := range replica.Components {
			desired := spec.Components[c].Replicas
			if n := after[r][c].Replicas; n != nil {
				desired = *n
			}
			base := after[r][c].Slots[:min(len(after[r][c].Slots), desired)]
			has := func(slots []surge.Slot, kinds ...surge.Slot) bool {
				return slices.ContainsFunc(slots, func(slot surge.Slot) bool { return slices.Contains(kinds, slot) })
			}
			for reason, holds := range map[surge.Blocked]bool{
				surge.BlockedTerminating:    has(after[r][c].Slots, surge.Terminating),
				surge.BlockedWaitingForBase: has(base, surge.TargetUnavailable),
				surge.BlockedProtectedDown:  replica.Role != surge.RoleCurrent && has(base, surge.OldUnscheduled, surge.OldUnavailable),
				surge.BlockedRepairWindow:   replica.Role == surge.RoleCurrent && has(base, surge.OldUnscheduled, surge.OldUnavailable),
			} {
				if component.Blocked.Has(reason) != holds {
					fail("blocked", "%s is not %v in component %d of replica %d", reason, holds, c, r)
				}
			}
		}
	}
}

// TestSetReference compares plans of sets with the reference in states as wild as they come: most
// of them cannot be reached.
func TestSetReference(t *testing.T) {
	outcomes := testkit.Tally{}
	outcomes.Check(t, func(t *rapid.T) {
		spec := surge.SetSpec{Replicas: rapid.IntRange(0, 3).Draw(t, "replicas"), Paused: rapid.IntRange(0, 5).Draw(t, "paused") == 0}
		if rapid.Bool().Draw(t, "partitioned") {
			spec.Partition = rapid.IntRange(0, 4).Draw(t, "partition")
		}
		draw := func(most int) surge.UpdateStrategy {
			return budgets(rapid.IntRange(0, most).Draw(t, "surge"), rapid.IntRange(0, most).Draw(t, "unavailable"))
		}
		recreate := rapid.Bool().Draw(t, "recreate")
		if recreate {
			spec.UpdateStrategy = surge.SetUpdateStrategy{Type: surge.ReplicaRecreate, RollingUpdate: draw(2)}
		}
		for i := range rapid.IntRange(1, 3).Draw(t, "components") {
			c := plain(rapid.IntRange(0, 3).Draw(t, "units"), 0)
			c.Name, c.MinAvailable = fmt.Sprint("component", i), rapid.IntRange(0, c.Replicas).Draw(t, "minAvailable")
			if b := draw(2); !recreate {
				c.UpdateStrategy = &b
			}
			spec.Components = append(spec.Components, c)
		}
		var state surge.SetState
		for range rapid.IntRange(0, 4).Draw(t, "exist") {
			mix := rapid.SampledFrom([]string{".tuoOnN", "ON", "O", "N", "uO.", "u", "oO", "t.", "nN"}).Draw(t, "mix")
			var components []surge.Units
			for range rapid.IntRange(0, len(spec.Components)).Draw(t, "have units") {
				var u surge.Units
				for range rapid.IntRange(0, 4).Draw(t, "units") {
					at := rapid.IntRange(0, len(mix)-1).Draw(t, "slot")
					slots, err := surge.ParseSlots(mix[at : at+1])
					if err != nil {
						t.Fatal(err)
					}
					u.Slots = append(u.Slots, slots...)
					u.Revisions = append(u.Revisions, rapid.SampledFrom([]string{"v1", "v1", "v1", "v2"}).Draw(t, "revision"))
				}
				if rapid.IntRange(0, 3).Draw(t, "scaled apart") == 0 {
					n := rapid.IntRange(0, 4).Draw(t, "own replicas")
					u.Replicas = &n
				}
				components = append(components, u)
			}
			state = append(state, components)
		}

		plan := planSet(t, spec, state)
		want, current, seen := setReference(spec, state)
		if diff := gocmp.Diff(want, actionsOf(plan)); diff != "" || plan.Current != current {
			t.Fatalf("%+v of %+v: current %d, want %d, -want +got:\n%s", formatSet(state), spec, plan.Current, current, diff)
		}
		var saw []string
		for r, replica := range plan.Replicas[:len(seen)] {
			saw = append(saw, replica.Slot.String())
			if replica.Complete {
				saw[r] += " complete"
			}
		}
		if !slices.Equal(saw, seen) || plan.Empty() != (len(want) == 0) {
			t.Fatalf("%+v of %+v: replicas are %q, want %q; empty: %v", formatSet(state), spec, saw, seen, plan.Empty())
		}
		checkWaits(spec, plan, state.Apply(plan), func(rule, format string, args ...any) {
			t.Fatalf("%s: %s\n%+v of %+v\n%v", rule, fmt.Sprintf(format, args...), formatSet(state), spec, plan)
		})
		if plan.Converged != (plan.Empty() && plan.Blocked == 0) {
			t.Fatalf("IX: %+v of %+v is not explained:\n%v", formatSet(state), spec, plan)
		}
		for _, replica := range plan.Replicas {
			outcomes[string(replica.Role)]++
		}
		if plan.Converged {
			outcomes["converged"]++
		}
		if slices.ContainsFunc(state, func(r []surge.Units) bool {
			return slices.ContainsFunc(r, func(u surge.Units) bool { return u.Replicas != nil && *u.Replicas == 0 })
		}) {
			outcomes["scaled to nothing"]++
		}
		if mixed(state) > 1 {
			outcomes["several mixed replicas"]++
		}
	}, "held", "current", "target", "recreated", "condemned", "converged", "scaled to nothing", "several mixed replicas")
}
