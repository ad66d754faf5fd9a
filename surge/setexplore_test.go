package surge_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/internal/testkit"
	"github.com/tranche-dev/tranche/surge"
)

// setWorld is a set, where it starts, and what may happen to it on the way. Every interleaving is
// visited: any part of any plan (all of them up to four actions, above that each action alone, all
// but one, and the whole), units that arrive, go and recover, and as many failures and new
// revisions as are granted.
type setWorld struct {
	why       string
	spec      surge.SetSpec
	start     string // '.' absent, else the generation of the unit: 'A' available, 'a' not; components by ' ', replicas by '|'
	failures  int
	revisions int
	most      int // states to visit at least, so that no world is empty by accident
}

// setState is comparable, so that it can be looked up.
type setState struct {
	units               string
	target              byte // generation that is the target: 'A', 'B', …
	failures, revisions int  // left
	own                 *ownNumbers
}

// ownNumbers are those of the components that an autoscaler gave a number of units in one replica; 0
// stands for none, and 1 for no unit.
type ownNumbers [4][3]int

// want returns how many units a component should have in a replica.
func (s setState) want(spec surge.SetSpec, replica, component int) int {
	if s.own != nil && replica < len(s.own) && s.own[replica][component] > 0 {
		return s.own[replica][component] - 1
	}
	return spec.Components[component].Replicas
}

// complete reports whether every component has the units that it should have, all of them available
// and without holes.
func (s setState) complete(spec surge.SetSpec) bool {
	for r, replica := range s.observe() {
		for c, u := range replica {
			want := 0
			if r < spec.Replicas {
				want = s.want(spec, r, c)
			}
			if len(holes(u.Slots, want)) > 0 || available(u.Slots) != want {
				return false
			}
		}
	}
	return true
}

func set(kind surge.StrategyType, replicas int, budgets surge.UpdateStrategy, components ...surge.Component) surge.SetSpec {
	spec := surge.SetSpec{Replicas: replicas, UpdateStrategy: surge.SetUpdateStrategy{Type: kind, RollingUpdate: budgets}}
	for i, c := range components {
		c.Name = fmt.Sprint("component", i)
		spec.Components = append(spec.Components, c)
	}
	return spec
}

func budgets(surges, unavailable int) surge.UpdateStrategy {
	return surge.UpdateStrategy{MaxSurge: concurrency.Count(surges), MaxUnavailable: concurrency.Count(unavailable)}
}

func units(n, minAvailable, surges, unavailable int) surge.Component {
	b := budgets(surges, unavailable)
	return surge.Component{Replicas: n, MinAvailable: minAvailable, UpdateStrategy: &b}
}

func plain(n, minAvailable int) surge.Component {
	return surge.Component{Replicas: n, MinAvailable: minAvailable}
}

func with(spec surge.SetSpec, change func(*surge.SetSpec)) surge.SetSpec {
	change(&spec)
	return spec
}

// setWorlds are sets with a component of another size, a partition or a pause, and every
// combination of budgets, sizes and starts up to a few units. Worlds that take long are left to the
// large run.
func setWorlds() []setWorld {
	rolling, recreate, none := surge.RollingUpdate, surge.ReplicaRecreate, surge.UpdateStrategy{}
	worlds := []setWorld{
		{"two units", set(rolling, 3, none, units(2, 1, 0, 1)), "AA|AA|AA", 1, 1, 1000},
		{"two units, surge", set(rolling, 2, none, units(2, 1, 1, 0)), "AA|AA", 1, 1, 1000},
		{"two units, surge and budget", set(rolling, 2, none, units(2, 2, 1, 1)), "AA|AA", 1, 1, 1000},
		{"two components", set(rolling, 2, none, units(1, 1, 0, 1), units(2, 1, 1, 0)), "A AA|A AA", 1, 0, 1000},
		{"scale-out", set(rolling, 3, none, units(2, 1, 0, 1)), "AA|AA", 1, 1, 1000},
		{"scale-in", set(rolling, 2, none, units(2, 1, 0, 1)), "AA|AA|AA", 1, 1, 1000},
		{"recreate, surge", set(recreate, 2, budgets(1, 0), plain(2, 2)), "AA|AA", 1, 0, 500},
		{"recreate, two components", set(recreate, 2, budgets(1, 0), plain(1, 1), plain(1, 1)), "A A|A A", 1, 0, 500},
		{"recreate, scale-in", set(recreate, 1, budgets(1, 1), plain(2, 1)), "AA|AA|AA", 1, 0, 1000},
		{"a smaller component", set(rolling, 2, none, units(1, 1, 1, 0)), "AA|AA", 1, 1, 100},
		{"a smaller component half-way", set(rolling, 2, none, units(1, 1, 0, 1)), "AA|BA", 1, 1, 100},
		{"a larger component", set(rolling, 2, none, units(2, 1, 1, 0)), "A|A", 1, 1, 1000},
		{"partition", with(set(rolling, 3, none, units(1, 1, 1, 0)), func(s *surge.SetSpec) { s.Partition = 1 }), "A|A|A", 1, 1, 100},
		{"partition, two units", with(set(rolling, 2, none, units(2, 1, 1, 0)), func(s *surge.SetSpec) { s.Partition = 1 }), "AA|AA", 1, 1, 100},
		{"paused half-way", with(set(rolling, 2, none, units(2, 1, 0, 1)), func(s *surge.SetSpec) { s.Paused = true }), "BA|AA", 1, 1, 10},
		{"recreate, a smaller component", set(recreate, 2, budgets(0, 1), plain(1, 1)), "AA|AA", 1, 1, 100},
		{"recreate, a larger component", set(recreate, 2, budgets(1, 0), plain(2, 2)), "A|A", 1, 1, 100},
		{"recreate, partition", with(set(recreate, 3, budgets(1, 0), plain(1, 1)), func(s *surge.SetSpec) { s.Partition = 2 }), "A|A|A", 1, 1, 100},
		{"recreate, paused", with(set(recreate, 2, budgets(1, 0), plain(2, 1)), func(s *surge.SetSpec) { s.Paused = true }), "BB|AA", 1, 1, 10},
	}
	shapes := [][]int{{1}, {2}, {1, 1}, {1, 2}}
	most := 4 // units at the start and at rest
	if *large {
		shapes = append(shapes, []int{2, 2})
		most = 6
	}
	start := func(replicas int, shape []int) string {
		var components []string
		for _, n := range shape {
			components = append(components, strings.Repeat("A", n))
		}
		one := strings.Join(components, " ")
		return strings.Repeat(one+"|", replicas-1) + one
	}
	for _, replicas := range []int{2, 3} {
		for _, shape := range shapes {
			total := 0
			for _, n := range shape {
				total += n
			}
			for surges := range 3 {
				for unavailable := range 3 {
					if surges+unavailable == 0 || surges > 1 && replicas*total > 2 && !*large {
						continue
					}
					for _, have := range []int{replicas - 1, replicas, replicas + 1} {
						if max(have, replicas)*total > most {
							continue
						}
						why := fmt.Sprintf("%d to %d replicas of %v, surge %d, unavailable %d", have, replicas, shape, surges, unavailable)
						spec, ok := set(rolling, replicas, none), true
						whole := set(recreate, replicas, budgets(surges, unavailable))
						for i, n := range shape {
							// The other components take the smallest budget, so that they are not
							// in step.
							c := units(n, 1, surges, unavailable)
							if i > 0 {
								c = units(n, n, 0, 1)
							}
							ok = ok && unavailable <= n
							c.Name = fmt.Sprint("component", i)
							spec.Components = append(spec.Components, c)
							c.UpdateStrategy, c.MinAvailable = nil, max(n-i, 1)
							whole.Components = append(whole.Components, c)
						}
						if ok {
							worlds = append(worlds, setWorld{why, spec, start(have, shape), 1, 1, 10})
						}
						if max(have, replicas)*total < most {
							worlds = append(worlds, setWorld{"recreate " + why, whole, start(have, shape), 1, 1, 10})
						}
					}
				}
			}
		}
	}
	return worlds
}

// TestSetExhaustive visits small sets: H1 to H7 in every state that can be reached, and the way
// there has no cycle.
func TestSetExhaustive(t *testing.T) {
	total := make(chan [2]int, len(setWorlds()))
	t.Run("worlds", func(t *testing.T) {
		for _, w := range setWorlds() {
			t.Run(w.why, func(t *testing.T) {
				t.Parallel()
				e := w.explore(t)
				total <- [2]int{len(e.seen), e.edges}
			})
		}
	})
	close(total)
	var states, edges int
	for n := range total {
		states += n[0]
		edges += n[1]
	}
	t.Logf("%d sets, %d states, %d transitions", len(setWorlds()), states, edges)
}

// TestSetExhaustiveApart visits sets in which an autoscaler changes the number of units of one
// component in one replica, once and at any time.
func TestSetExhaustiveApart(t *testing.T) {
	rolling, recreate, none := surge.RollingUpdate, surge.ReplicaRecreate, surge.UpdateStrategy{}
	one := func(replica, component, n int) (own ownNumbers) {
		own[replica][component] = n + 1
		return own
	}
	for _, w := range []struct {
		setWorld
		own []ownNumbers
	}{
		{setWorld{"one more, or none, of a replica in the middle", set(rolling, 3, none, units(1, 1, 0, 1)), "A|A|A", 1, 1, 2000}, []ownNumbers{one(1, 0, 2), one(1, 0, 0)}},
		{setWorld{"one more, or one less, with surge", set(rolling, 2, none, units(2, 1, 1, 0)), "AA|AA", 1, 1, 5000}, []ownNumbers{one(0, 0, 3), one(1, 0, 1)}},
		{setWorld{"one of two components", set(rolling, 2, none, units(1, 1, 0, 1), units(1, 1, 1, 0)), "A A|A A", 0, 1, 1000}, []ownNumbers{one(0, 1, 2), one(1, 0, 0)}},
		{setWorld{"recreate, one more, or none", set(recreate, 2, budgets(1, 0), plain(1, 1)), "A|A", 1, 1, 1000}, []ownNumbers{one(0, 0, 2), one(1, 0, 0)}},
		{setWorld{"recreate, within the budget", set(recreate, 3, budgets(0, 1), plain(1, 1)), "A|A|A", 1, 1, 1000}, []ownNumbers{one(1, 0, 2), one(2, 0, 0)}},
		{setWorld{"recreate, numbers of a replica that is left over", set(recreate, 1, budgets(1, 1), plain(2, 1)), "AA|AA", 1, 0, 500}, []ownNumbers{one(1, 0, 3), one(1, 0, 0)}},
	} {
		t.Run(w.why, func(t *testing.T) {
			t.Parallel()
			e := w.explore(t, w.own...)
			for i := range w.own {
				if e.apart[&w.own[i]] == 0 {
					t.Errorf("no state with %v is the end", w.own[i])
				}
			}
		})
	}
}

// explore visits every state of a world. Once, at any time, one of the own numbers may be set.
func (w setWorld) explore(t *testing.T, own ...ownNumbers) *setExploration {
	if err := w.spec.Validate(); err != nil {
		t.Fatal(err)
	}
	if testing.Short() || testkit.Race {
		w.failures = 0
	}
	e := &setExploration{t: t, world: w, own: own, seen: map[setState]uint8{}, apart: map[*ownNumbers]int{}}
	e.visit(setState{units: w.start, target: 'B', failures: w.failures, revisions: w.revisions})
	if len(e.seen) < w.most && !testing.Short() && !testkit.Race {
		t.Errorf("only %d states", len(e.seen))
	}
	if e.converged == 0 && !w.spec.Paused {
		t.Error("the update never ends")
	}
	t.Logf("%d states, %d transitions", len(e.seen), e.edges)
	return e
}

type setExploration struct {
	t         reporter
	world     setWorld
	own       []ownNumbers // one of which may be set
	seen      map[setState]uint8
	edges     int
	converged int
	apart     map[*ownNumbers]int // converged with these
	scaled    bool                // the set was: a mixed replica that is scaled away and back is the second one
}

// observe translates a state for the planner.
func (s setState) observe() surge.SetState {
	var state surge.SetState
	for replica := range strings.SplitSeq(s.units, "|") {
		var list []surge.Units
		for component := range strings.SplitSeq(replica, " ") {
			u := surge.Units{Slots: make([]surge.Slot, len(component)), Revisions: make([]string, len(component))}
			for i, char := range []byte(component) {
				u.Slots[i] = s.slot(char)
				if u.Slots[i].Old() {
					u.Revisions[i] = strings.ToUpper(string(char))
				}
			}
			list = append(list, u)
		}
		state = append(state, list)
	}
	if s.own != nil { // also the numbers of replicas of which nothing exists
		for r, components := range s.own {
			for len(state) <= r && components != ([3]int{}) {
				state = append(state, make([]surge.Units, len(state[0])))
			}
			for c, n := range components {
				if n--; n >= 0 {
					state[r][c].Replicas = &n
				}
			}
		}
	}
	return state
}

func (s setState) slot(char byte) surge.Slot {
	available := char < 'a'
	switch {
	case char == '.':
		return surge.Absent
	case char == '-':
		return surge.Terminating
	case char&^0x20 == s.target && available:
		return surge.TargetAvailable
	case char&^0x20 == s.target:
		return surge.TargetUnavailable
	case available:
		return surge.OldAvailable
	}
	return surge.OldUnavailable
}

// with returns the state after some actions of a plan.
func (s setState) with(actions []setAction) setState {
	replicas := strings.Split(s.units, "|")
	for _, a := range actions {
		for len(replicas) <= a.replica {
			replicas = append(replicas, strings.Repeat(" ", strings.Count(replicas[0], " ")))
		}
		components := strings.Split(replicas[a.replica], " ")
		line := []byte(components[a.component])
		for len(line) <= a.action.Index {
			line = append(line, '.')
		}
		switch {
		case a.action.Op == surge.Delete:
			line[a.action.Index] = '-'
		case a.action.Revision == surge.Target:
			line[a.action.Index] = s.target | 0x20
		case a.revision != "":
			line[a.action.Index] = a.revision[0] | 0x20
		default:
			line[a.action.Index] = 'a' // nothing of the replica lives: the stable revision of the set
		}
		components[a.component] = string(line)
		replicas[a.replica] = strings.Join(components, " ")
	}
	s.units = strings.Join(replicas, "|")
	return s
}

func (s setState) at(i int, char byte) setState {
	s.units = s.units[:i] + string(char) + s.units[i+1:]
	return s
}

type setAction struct {
	replica, component int
	action             surge.Action
	revision           string
}

func (e *setExploration) visit(s setState) {
	if e.t.Failed() {
		return
	}
	e.seen[s] = grey
	for _, next := range e.check(s) {
		e.edges++
		switch e.seen[next] {
		case white:
			e.visit(next)
		case grey:
			e.t.Errorf("the process comes back to %+v", next)
		}
	}
	e.seen[s] = black
}

// mixed counts the replicas that run more than one revision.
func mixed(state surge.SetState) int {
	n := 0
	for _, replica := range state {
		revisions := map[string]bool{}
		for _, u := range replica {
			for i, slot := range u.Slots {
				if slot.Old() {
					revisions["old "+u.Revisions[i]] = true
				} else if slot.Live() {
					revisions["target"] = true
				}
			}
		}
		if len(revisions) > 1 {
			n++
		}
	}
	return n
}

func (e *setExploration) check(s setState) []setState {
	spec, state := e.world.spec, s.observe()
	plan := planSet(e.t, spec, state)
	fail := func(rule, format string, args ...any) {
		e.t.Errorf("%s: %s\nstate %q target %c\n%v", rule, fmt.Sprintf(format, args...), s.units, s.target, plan)
	}
	var actions []setAction
	for r, replica := range plan.Replicas {
		for c, component := range replica.Components {
			for _, action := range component.Actions {
				actions = append(actions, setAction{r, c, action, replica.Revision})
			}
		}
	}
	recreate := spec.UpdateStrategy.Type == surge.ReplicaRecreate
	if n := mixed(state); n > 1 && !e.scaled || recreate && n > 0 {
		fail("H1/H2", "%d mixed replicas", n)
	}
	whole := s.with(actions)
	if diff := formatSet(state.Apply(plan)); diff != formatSet(whole.observe()) {
		fail("Apply", "%q, want %q", diff, formatSet(whole.observe()))
	}
	e.checkAgain(plan, planSet(e.t, spec, whole.observe()), fail)
	if recreate {
		e.checkFloor(spec, s, whole, fail)
	} else {
		e.checkTaken(plan, s, whole, fail)
		if s.failures == e.world.failures {
			e.checkDisruption(s, state, fail)
		}
	}
	if plan.Converged {
		e.converged++
		if s.own != nil {
			e.apart[s.own]++
		}
		if !s.complete(spec) {
			fail("H4", "this is no end")
		}
	}
	if plan.Converged && (len(actions) > 0 || plan.Blocked != 0) || !plan.Converged && len(actions) == 0 && plan.Blocked == 0 {
		fail("IX", "the state is not explained")
	}
	settled := len(actions) == 0
	if settled && !plan.Converged {
		checkStall(spec, state, fail)
	}

	var next []setState
	for i, char := range []byte(s.units) {
		switch slot := s.slot(char); {
		case char == ' ' || char == '|':
		case slot == surge.Terminating:
			settled = false
			next = append(next, s.at(i, '.'))
		case slot == surge.TargetUnavailable:
			settled = false
			next = append(next, s.at(i, char&^0x20))
		case slot == surge.OldUnavailable:
			next = append(next, s.at(i, char&^0x20))
		case slot.Available() && s.failures > 0:
			failed := s.at(i, char|0x20)
			failed.failures--
			next = append(next, failed)
		}
	}
	if settled && !plan.Converged && !spec.Paused && !heldBroken(spec, state, plan) {
		fail("H4", "nothing will happen any more")
	}
	if s.own == nil {
		for i := range e.own {
			apart := s
			apart.own = &e.own[i]
			next = append(next, apart)
		}
	}
	if s.revisions > 0 {
		newer := s
		newer.target++
		newer.revisions--
		next = append(next, newer)
	}
	if n := len(actions); n <= 4 {
		for part := 1; part < 1<<n; part++ {
			var some []setAction
			for i := range n {
				if part>>i&1 == 1 {
					some = append(some, actions[i])
				}
			}
			next = append(next, s.with(some))
		}
	} else {
		next = append(next, whole)
		for i := range n {
			next = append(next, s.with(actions[i:i+1]))
			next = append(next, s.with(append(append([]setAction{}, actions[:i]...), actions[i+1:]...)))
		}
	}
	return next
}

// checkAgain holds H6: after the whole plan nothing is left to do in a replica that is treated as
// before.
func (e *setExploration) checkAgain(plan, again surge.SetResult, fail failure) {
	for i := range plan.Replicas {
		before, after := plan.Replicas[i], again.Replicas[i]
		if before.Role != after.Role || before.Role == surge.RoleRecreated {
			continue
		}
		for c := range after.Components {
			if len(after.Components[c].Actions) > 0 {
				fail("H6", "replica %d, component %d is planned again as %v", i, c, after.Components[c])
			}
		}
	}
}

// serving returns which replicas of a later state serve by the numbers of this one. A base replica
// that should have no unit has what it needs, and any other such replica is of no use.
func (s setState) serving(spec surge.SetSpec, later surge.SetState) []bool {
	list := make([]bool, max(len(later), spec.Replicas))
	for r := range list {
		var members []surge.Member
		empty := true
		for i, c := range spec.Components {
			m := surge.Member{Replicas: s.want(spec, r, i), MinAvailable: c.MinAvailable}
			empty = empty && m.Replicas == 0
			if r < len(later) && i < len(later[r]) {
				m.Slots = later[r][i].Slots
			}
			members = append(members, m)
		}
		list[r] = !empty && surge.Fold(members).Available() || empty && r < spec.Replicas
	}
	return list
}

// taken returns the replicas that a step stops from serving, and how many serve after it.
func (s setState) taken(spec surge.SetSpec, to setState) (taken []int, left int) {
	before, after := s.serving(spec, s.observe()), s.serving(spec, to.observe())
	for r, serves := range after {
		if serves {
			left++
		} else if r < len(before) && before[r] {
			taken = append(taken, r)
		}
	}
	return taken, left
}

// checkTaken holds H7: of the base only the current replica is taken down, and a leftover not in
// place of another one that should serve.
func (e *setExploration) checkTaken(plan surge.SetResult, from, to setState, fail failure) {
	spec := e.world.spec
	taken, left := from.taken(spec, to)
	for _, r := range taken {
		if r < spec.Replicas && r != plan.Current {
			fail("H7", "replica %d is taken down, and %d is current", r, plan.Current)
		}
		if r >= spec.Replicas && left < spec.Replicas-1 {
			fail("H7", "leftover %d is taken down, and %d are left", r, left)
		}
	}
}

// checkFloor holds H3: I2 over whole replicas.
func (e *setExploration) checkFloor(spec surge.SetSpec, from, to setState, fail failure) {
	taken, left := from.taken(spec, to)
	b := spec.UpdateStrategy.RollingUpdate
	flat := surge.Spec{Replicas: spec.Replicas, MaxSurge: b.MaxSurge, MaxUnavailable: b.MaxUnavailable}.Resolve()
	if len(taken) > 0 && left < flat.Floor() {
		fail("H3", "replicas %v are taken and %d are left, the floor is %d", taken, left, flat.Floor())
	}
}

// checkDisruption holds H5: one base replica at a time is neither wholly old and available nor
// complete. Replicas that the scale-out of this world adds do not count. Of a component that got
// smaller only the units count that it should have: the others go everywhere at once, which is no
// rollout step. Neither is the filling of one that got larger, so such states are passed over.
func (e *setExploration) checkDisruption(s setState, state surge.SetState, fail failure) {
	spec := e.world.spec
	smaller, larger := s.resized(e.world)
	if larger {
		return
	}
	n := 0
	for r := range min(spec.Replicas, strings.Count(e.world.start, "|")+1) {
		old, complete := true, true
		for i := range spec.Components {
			slots, want := state[r][i].Slots, s.want(spec, r, i)
			for j := range max(want, len(slots)) {
				slot := at(slots, j)
				old = old && (j >= want || slot == surge.OldAvailable)
				complete = complete && (j < want && slot == surge.TargetAvailable || j >= want && (smaller || !slot.Live()))
			}
		}
		if !old && !complete {
			n++
		}
	}
	if n > 1 {
		fail("H5", "%d replicas are in the middle", n)
	}
}

// resized reports whether a component has fewer, and whether one has more units than it had at the
// start of the world.
func (s setState) resized(w setWorld) (smaller, larger bool) {
	for r, replica := range strings.Split(w.start, "|") {
		for i, component := range strings.Split(replica, " ") {
			want := s.want(w.spec, r, i)
			smaller, larger = smaller || want < len(component), larger || want > len(component)
		}
	}
	return smaller, larger
}

// heldBroken reports whether a held replica has an old unit that does not serve: nothing replaces
// it.
func heldBroken(spec surge.SetSpec, state surge.SetState, plan surge.SetResult) bool {
	for r, replica := range plan.Replicas {
		if replica.Role == surge.RoleHeld && r < len(state) {
			for _, u := range state[r] {
				for _, slot := range u.Slots {
					if slot == surge.OldUnavailable || slot == surge.OldUnscheduled {
						return true
					}
				}
			}
		}
	}
	return false
}

// TestSetWalk walks at random through sets that are too large to be explored, with scaling on both
// levels on the way. Then failures stop, and the set must converge: every replica complete, nothing
// above, no hole.
func TestSetWalk(t *testing.T) {
	outcomes := testkit.Tally{}
	outcomes.Check(t, func(t *rapid.T) { propSetWalk(t, outcomes) },
		"RollingUpdate", "ReplicaRecreate", "scaled", "component scaled", "scaled apart", "failure", "new revision", "mixed", "leftover replica", "converged")
}

func FuzzSetWalk(f *testing.F) {
	f.Add(testkit.Bytes(16384))
	f.Fuzz(rapid.MakeFuzz(func(t *rapid.T) { propSetWalk(t, testkit.Tally{}) }))
}

func propSetWalk(t *rapid.T, outcomes testkit.Tally) {
	kind := rapid.SampledFrom([]surge.StrategyType{surge.RollingUpdate, surge.ReplicaRecreate}).Draw(t, "kind")
	replicas := rapid.IntRange(1, 4).Draw(t, "replicas")
	spec := set(kind, replicas, surge.UpdateStrategy{})
	if kind == surge.ReplicaRecreate {
		spec.UpdateStrategy.RollingUpdate = budgets(rapid.IntRange(0, 2).Draw(t, "surge"), rapid.IntRange(1, 2).Draw(t, "unavailable"))
	}
	var shape []string
	for i := range rapid.IntRange(1, 3).Draw(t, "components") {
		n := rapid.IntRange(1, 4).Draw(t, "units")
		c := plain(n, rapid.IntRange(1, n).Draw(t, "minAvailable"))
		if kind == surge.RollingUpdate {
			c = units(n, c.MinAvailable, rapid.IntRange(0, 2).Draw(t, "surge"), rapid.IntRange(1, n).Draw(t, "unavailable"))
		}
		c.Name = fmt.Sprint("component", i)
		spec.Components = append(spec.Components, c)
		shape = append(shape, strings.Repeat("A", n))
	}
	line := strings.Join(shape, " ")
	start := strings.TrimSuffix(strings.Repeat(line+"|", rapid.IntRange(1, replicas+1).Draw(t, "start")), "|")
	outcomes[string(kind)]++

	// H5 is left to the exploration, where nothing is scaled: failures that are granted but not
	// drawn would switch it on.
	e := &setExploration{t: t, world: setWorld{spec: spec, start: start, failures: -1}, apart: map[*ownNumbers]int{}}
	s := setState{units: start, target: 'B', failures: 3, revisions: 2}
	scaling := rapid.Bool().Draw(t, "scaling of the set")
	for range rapid.IntRange(0, 60).Draw(t, "steps") {
		switch rapid.IntRange(0, 30).Draw(t, "what") {
		case 0:
			if !scaling {
				break
			}
			e.world.spec.Replicas = rapid.IntRange(1, 4).Draw(t, "scaled to")
			e.scaled = true
			outcomes["scaled"]++
		case 1:
			c := &e.world.spec.Components[rapid.IntRange(0, len(shape)-1).Draw(t, "component")]
			c.Replicas = rapid.IntRange(c.MinAvailable, 4).Draw(t, "scaled to")
			outcomes["component scaled"]++
		case 2:
			own := ownNumbers{}
			if s.own != nil {
				own = *s.own
			}
			own[rapid.IntRange(0, len(own)-1).Draw(t, "replica")][rapid.IntRange(0, len(shape)-1).Draw(t, "component")] = rapid.IntRange(0, 5).Draw(t, "scaled apart to")
			s.own = &own
			outcomes["scaled apart"]++
		}
		before := s
		if next := e.check(s); len(next) > 0 {
			s = rapid.SampledFrom(next).Draw(t, "step")
		}
		if s.failures < before.failures {
			outcomes["failure"]++
		}
		if s.revisions < before.revisions {
			outcomes["new revision"]++
		}
		if mixed(s.observe()) > 0 {
			outcomes["mixed"]++
		}
		if strings.Count(s.units, "|") >= e.world.spec.Replicas {
			outcomes["leftover replica"]++
		}
	}
	s.failures, s.revisions = 0, 0
	for range 1000 {
		next := e.check(s)
		if len(next) > 0 {
			s = rapid.SampledFrom(next).Draw(t, "step to the end")
			continue
		}
		if plan := planSet(t, e.world.spec, s.observe()); !plan.Converged {
			t.Fatalf("%q is the end:\n%v", s.units, plan)
		}
		outcomes["converged"]++
		return
	}
	t.Fatalf("%q does not end", s.units)
}
