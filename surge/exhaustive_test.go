package surge_test

import (
	"flag"
	"fmt"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/internal/testkit"
	"github.com/tranche-dev/tranche/surge"
)

var large = flag.Bool("surge.large", false, "explore the larger worlds as well: 'u' as its own letter, replicas up to 4, deep leftovers")

// world is a family of configurations, each explored over every string of slots, reachable or not.
// That covers failures, restarts, new revisions, scaling and earlier configurations as starting
// points, so they need no edges.
type world struct {
	replicas, surge, unavailable int    // largest values
	leftovers                    []int  // numbers of slots above R+S
	letters                      string // the alphabet; folding 'u' into 'o' saves two thirds
	gangs                        bool   // every MinAvailable from 1 on, instead of none
	order                        surge.Order
	force, paused                bool
}

const folded, full = ".toOnN", ".tuoOnN"

func TestExhaustive(t *testing.T) {
	small := func(w world) world {
		w.replicas, w.surge, w.unavailable = 3, 2, 3
		if testing.Short() || testkit.Race {
			w.replicas, w.unavailable = 2, 2
		}
		if w.leftovers == nil {
			w.leftovers = []int{0, 1}
		}
		if w.letters == "" {
			w.letters = folded
		}
		return w
	}
	worlds := map[string]world{
		"ascending":        small(world{}),
		"descending":       small(world{order: surge.Descending}),
		"force":            small(world{force: true}),
		"paused":           small(world{paused: true}),
		"gangs":            small(world{gangs: true}),
		"gangs descending": small(world{gangs: true, order: surge.Descending, leftovers: []int{0}}),
	}
	if *large {
		for _, order := range []surge.Order{surge.Ascending, surge.Descending} {
			worlds["unscheduled "+string(order)] = small(world{order: order, letters: full})
			worlds["unscheduled gangs "+string(order)] = small(world{order: order, letters: full, gangs: true})
			worlds["replicas 4 "+string(order)] = world{replicas: 4, surge: 3, unavailable: 4, leftovers: []int{0, 1}, letters: folded, order: order}
			worlds["deep leftovers "+string(order)] = world{replicas: 2, surge: 2, unavailable: 2, leftovers: []int{2, 3, 4}, letters: folded, order: order}
		}
		worlds["unscheduled force"] = small(world{force: true, letters: full})
		worlds["unscheduled paused"] = small(world{paused: true, letters: full})
	}
	for name, w := range worlds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w.explore(t)
		})
	}
}

// specs lists the normalised configurations of a world: budgets that would be clamped or lifted at
// planning are left out.
func (w world) specs() []surge.Spec {
	var list []surge.Spec
	for r := range w.replicas + 1 {
		for s := range w.surge + 1 {
			for u := range min(w.unavailable, r) + 1 {
				if r > 0 && s+u == 0 {
					continue
				}
				for p := range r + 1 {
					gangs := []int{0}
					if w.gangs {
						gangs = nil
						for m := 1; m <= r; m++ {
							gangs = append(gangs, m)
						}
					}
					for _, m := range gangs {
						list = append(list, surge.Spec{
							Replicas: r, MaxSurge: concurrency.Count(s), MaxUnavailable: concurrency.Count(u),
							Partition: p, MinAvailable: m, Order: w.order, Force: w.force, Paused: w.paused,
						})
					}
				}
			}
		}
	}
	return list
}

func (w world) explore(t *testing.T) {
	var configs, states, edges atomic.Int64
	type job struct {
		spec      surge.Spec
		leftovers int
	}
	jobs := make(chan job)
	var workers sync.WaitGroup
	for range 2 {
		workers.Go(func() {
			for j := range jobs {
				if t.Failed() {
					continue
				}
				e := newExploration(t, w, j.spec, j.leftovers)
				e.run()
				configs.Add(1)
				states.Add(int64(e.states))
				edges.Add(int64(e.edges))
			}
		})
	}
	for _, spec := range w.specs() {
		for _, leftovers := range w.leftovers {
			if r := spec.Resolve(); r.Replicas+r.Surge+leftovers > 0 {
				jobs <- job{spec, leftovers}
			}
		}
	}
	close(jobs)
	workers.Wait()
	t.Logf("%d configurations, %d states, %d transitions", configs.Load(), states.Load(), edges.Load())
}

// exploration checks one configuration. A state is a number: its digits, in base len(letters), are
// the slots.
type exploration struct {
	t       *testing.T
	spec    surge.Spec
	r       surge.Resolved
	gated   bool // indices from MinAvailable on become available only while all below are
	letters []surge.Slot
	digit   [8]int // of a slot
	weights []int  // of an index

	length, states, edges int
	colour                []uint8
}

const (
	white = iota
	grey
	black
)

func newExploration(t *testing.T, w world, spec surge.Spec, leftovers int) *exploration {
	r := spec.Resolve()
	e := &exploration{t: t, spec: spec, r: r, gated: w.gangs, letters: parse(t, w.letters), length: r.Replicas + r.Surge + leftovers}
	for d, slot := range e.letters {
		e.digit[slot] = d
	}
	e.states = 1
	for range e.length {
		e.weights = append(e.weights, e.states)
		e.states *= len(e.letters)
	}
	e.colour = make([]uint8, e.states)
	return e
}

func (e *exploration) decode(state int, into []surge.Slot) {
	for i := range into {
		into[i] = e.letters[state%len(e.letters)]
		state /= len(e.letters)
	}
}

// shift is the state with one slot replaced.
func (e *exploration) shift(state, index int, from, to surge.Slot) int {
	return state + (e.digit[to]-e.digit[from])*e.weights[index]
}

func (e *exploration) fail(slots []surge.Slot, plan surge.Result, rule, format string, args ...any) {
	e.t.Errorf("%s: %s\nstate %s  spec %+v\n%v", rule, fmt.Sprintf(format, args...), surge.FormatSlots(slots), e.spec, plan)
}

// run visits every state depth-first. A grey successor closes a cycle: the update would not end
// (IL).
func (e *exploration) run() {
	type frame struct {
		state int
		next  []int
	}
	slots := make([]surge.Slot, e.length)
	var stack []frame
	push := func(state int) {
		e.colour[state] = grey
		e.decode(state, slots)
		next := e.check(state, slots)
		e.edges += len(next)
		stack = append(stack, frame{state, next})
	}
	for root := range e.states {
		if e.colour[root] != white {
			continue
		}
		push(root)
		for len(stack) > 0 && !e.t.Failed() {
			top := &stack[len(stack)-1]
			if len(top.next) == 0 {
				e.colour[top.state] = black
				stack = stack[:len(stack)-1]
				continue
			}
			state := top.next[len(top.next)-1]
			top.next = top.next[:len(top.next)-1]
			switch e.colour[state] {
			case white:
				push(state)
			case grey:
				e.decode(state, slots)
				e.fail(slots, surge.Plan(e.spec, slots), "IL", "the process comes back to this state")
			}
		}
	}
}

// check holds the rules against one state and returns its successors: every part of the plan
// carried out, and every fair step of the environment.
func (e *exploration) check(state int, slots []surge.Slot) []int {
	plan := surge.Plan(e.spec, slots)
	after := surge.Apply(slots, plan.Actions)
	fail := func(rule, format string, args ...any) { e.fail(slots, plan, rule, format, args...) }
	checkPlan(e.spec, slots, plan, after, fail)
	if len(after) > e.length {
		fail("I3", "the plan reaches index %d", len(after)-1)
		return nil
	}
	if again := surge.Plan(e.spec, after); len(again.Actions) > 0 {
		fail("I9", "after the whole plan, %s is planned as\n%v", surge.FormatSlots(after), again)
	}

	// The environment: what is on its way arrives.
	next := make([]int, 0, 8)
	baseGang := true
	for i := range e.r.MinAvailable {
		baseGang = baseGang && slots[i].Available()
	}
	gains := 0 // of healthy replicas at the target
	terminating := false
	for i, slot := range slots {
		switch slot {
		case surge.Terminating:
			terminating = true
			next = append(next, e.shift(state, i, slot, surge.Absent))
		case surge.TargetUnavailable:
			if !e.gated || baseGang || i < e.r.MinAvailable {
				gains++
				next = append(next, e.shift(state, i, slot, surge.TargetAvailable))
			}
		case surge.OldUnavailable:
			next = append(next, e.shift(state, i, slot, surge.OldAvailable))
		case surge.OldUnscheduled:
			next = append(next, e.shift(state, i, slot, surge.OldUnavailable))
		}
	}
	if len(plan.Actions) == 0 && !terminating && !e.spec.Paused {
		checkQuiescent(e.spec, slots, plan, fail)
		if d := surge.Diagnose(e.spec, slots, nil); (d.Stuck == surge.NotStuck) != plan.Converged || plan.Converged != (len(d.Indices) == 0) {
			fail("IX", "diagnosed as %v", d)
		}
		if e.gated && gains == 0 && !plan.Converged && !protectedDown(e.r, slots) {
			fail("IG", "nothing can happen any more")
		}
	}
	for part := 1; part < 1<<len(plan.Actions); part++ {
		reached := state
		for rest := part; rest != 0; rest &= rest - 1 {
			i := plan.Actions[bits.TrailingZeros(uint(rest))].Index
			reached = e.shift(reached, i, slots[i], after[i])
		}
		next = append(next, reached)
	}
	return next
}

func protectedDown(r surge.Resolved, slots []surge.Slot) bool {
	for _, slot := range slots[:r.Partition] {
		if slot == surge.OldUnavailable || slot == surge.OldUnscheduled {
			return true
		}
	}
	return false
}

// TestReferenceExhaustive compares the planner with the dumb one on every string of slots, up to
// two replicas and two surges.
func TestReferenceExhaustive(t *testing.T) {
	t.Parallel()
	letters := parse(t, full)
	states := 0
	for _, order := range []surge.Order{surge.Ascending, surge.Descending} {
		for _, w := range []world{{}, {gangs: true}, {force: true}, {force: true, gangs: true}, {paused: true}, {paused: true, gangs: true}} {
			w.replicas, w.surge, w.unavailable, w.order = 2, 2, 2, order
			for _, spec := range w.specs() {
				r := spec.Resolve()
				slots := make([]surge.Slot, r.Replicas+r.Surge)
				var fill func(i int)
				fill = func(i int) {
					if i < len(slots) {
						for _, slots[i] = range letters {
							fill(i + 1)
						}
						return
					}
					states++
					plan := surge.Plan(spec, slots)
					if want := reference(spec, slots); !slices.Equal(want, plan.Actions) {
						t.Fatalf("%s of %+v: got %v, want %v", surge.FormatSlots(slots), spec, plan.Actions, want)
					}
				}
				fill(0)
			}
		}
	}
	t.Logf("%d states", states)
}
