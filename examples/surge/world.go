package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/tranche-dev/tranche/surge"
)

// unit is one replica of the simulated world; generation 0 is a free index.
type unit struct {
	generation  int
	available   bool
	terminating bool
	due         time.Duration // when it becomes available, or is gone; never if zero
}

// world carries out plans and lets time pass. Everything in it is deterministic.
type world struct {
	planner
	ready, gone time.Duration
	target      int // generation of the target revision

	now    time.Duration
	units  [][][]unit // by set replica, component, index
	faults map[string]bool
	fired  map[string]bool
}

// inject reads a list of what is to go wrong.
func (w *world) inject(list string) error {
	for fault := range strings.SplitSeq(list, ",") {
		switch fault {
		case "stuck-surge", "new-revision", "scale-down", "fail", "broken", "hang", "remove":
			if w.faults[fault] {
				return fmt.Errorf("%s: is there twice: name it once", fault)
			}
			w.faults[fault] = true
		default:
			return fmt.Errorf("%q: must be stuck-surge, new-revision, scale-down, fail, broken, hang or remove, or several of them with commas between", fault)
		}
	}
	return nil
}

// fill starts with everything in place, at the revision before the target.
func (w *world) fill() {
	for r, replica := range w.sizes() {
		w.units = append(w.units, make([][]unit, len(replica)))
		for c, n := range replica {
			for range n {
				w.units[r][c] = append(w.units[r][c], unit{generation: w.target - 1, available: true})
			}
		}
	}
}

func (w *world) each(visit func(replica, component, index int, u *unit)) {
	for r := range w.units {
		for c := range w.units[r] {
			for i := range w.units[r][c] {
				visit(r, c, i, &w.units[r][c][i])
			}
		}
	}
}

// observe is what a controller would read: the slots, and which revision each old unit runs.
func (w *world) observe() surge.SetState {
	state := make(surge.SetState, len(w.units))
	for r := range w.units {
		for c := range w.units[r] {
			var seen surge.Units
			for _, u := range w.units[r][c] {
				slot, revision := surge.Absent, ""
				switch old := u.generation < w.target; {
				case u.generation == 0:
				case u.terminating:
					slot = surge.Terminating
				case old && u.available:
					slot = surge.OldAvailable
				case old:
					slot = surge.OldUnavailable
				case u.available:
					slot = surge.TargetAvailable
				default:
					slot = surge.TargetUnavailable
				}
				if slot.Old() {
					revision = fmt.Sprint(u.generation)
				}
				seen.Slots, seen.Revisions = append(seen.Slots, slot), append(seen.Revisions, revision)
			}
			state[r] = append(state[r], seen)
		}
	}
	return state
}

// carryOut makes the calls of one move.
func (w *world) carryOut(m move) {
	for len(w.units) <= m.replica {
		w.units = append(w.units, make([][]unit, len(w.units[0])))
	}
	line := &w.units[m.replica][m.component]
	for len(*line) <= m.action.Index {
		*line = append(*line, unit{})
	}
	u := &(*line)[m.action.Index]
	if m.action.Op == surge.Delete {
		u.terminating, u.available, u.due = true, false, w.now+w.gone
		if w.once("hang", true) {
			u.due = w.now + 10*w.gone
		}
		return
	}
	*u = unit{generation: w.target, due: w.now + w.ready}
	if m.action.Revision == surge.Stable {
		u.generation = 1
		if m.revision != "" {
			fmt.Sscan(m.revision, &u.generation)
		}
		return
	}
	if w.faults["broken"] || w.faults["stuck-surge"] && w.surgeAt(m.replica, m.component, m.action.Index) {
		u.due = 0
	}
}

// once reports true the first time that a fault is wanted and its moment has come.
func (w *world) once(fault string, moment bool) bool {
	if !w.faults[fault] || !moment || w.fired[fault] {
		return false
	}
	w.fired[fault] = true
	return true
}

// gated reports whether a unit must wait for its base gang.
func (w *world) gated(replica, component, index int) bool {
	gate := w.gate(component)
	for i, u := range w.units[replica][component] {
		if i < gate && index >= gate && !u.available {
			return true
		}
	}
	return false
}

// pass lets time pass until something happens, and says what. Everything due at one instant happens
// together; a gated unit becomes available once its gate opens. It returns nil if nothing will ever
// happen.
func (w *world) pass() []string {
	next := time.Duration(-1)
	w.each(func(r, c, i int, u *unit) {
		if u.due > 0 && (u.terminating || !w.gated(r, c, i)) {
			if at := max(u.due, w.now); next < 0 || at < next {
				next = at
			}
		}
	})
	if next < 0 {
		return w.misfortune()
	}
	w.now = next
	var events []string
	var due []*unit
	w.each(func(r, c, i int, u *unit) {
		if u.due > 0 && u.due <= w.now && (u.terminating || !w.gated(r, c, i)) {
			due = append(due, u)
			what := "ready"
			if u.terminating {
				what = "gone"
			}
			events = append(events, w.name(r, c, i)+" "+what)
		}
	})
	for _, u := range due {
		if u.terminating {
			*u = unit{}
		} else {
			u.available, u.due = true, 0
		}
	}
	return append(events, w.misfortune()...)
}

// misfortune lets the injected faults happen whose moment has come.
func (w *world) misfortune() []string {
	var events []string
	var updated, last *unit
	var at, lastAt string
	w.each(func(r, c, i int, u *unit) {
		if u.available && u.generation == w.target && !w.surgeAt(r, c, i) && updated == nil {
			updated, at = u, w.name(r, c, i)
		}
		if u.available && !u.terminating {
			last, lastAt = u, w.name(r, c, i)
		}
	})
	if w.once("fail", updated != nil) {
		updated.available, updated.due = false, w.now+2*w.ready
		events = append(events, at+" fails")
	}
	if w.once("remove", last != nil) {
		last.terminating, last.available, last.due = true, false, w.now+w.gone
		events = append(events, lastAt+" is evicted")
	}
	if w.once("new-revision", updated != nil) {
		w.target++
		events = append(events, "a new revision")
	}
	if w.once("scale-down", updated != nil) {
		events = append(events, w.scaleDown())
	}
	return events
}

func (w *world) name(replica, component, index int) string {
	if len(w.units) == 1 && len(w.units[0]) == 1 {
		return fmt.Sprint(index)
	}
	return fmt.Sprintf("%d/%d/%d", replica, component, index)
}

// legend is how a state is drawn: one character for each index.
const legend = ". nothing  t terminating  O old, available  o old, not available  N new, available  n new, not available"

// play plans, carries out and waits until the update is done or stuck.
func (w *world) play(to io.Writer) error {
	out := tabwriter.NewWriter(to, 0, 0, 3, ' ', 0)
	defer out.Flush()
	fmt.Fprintln(out, w.planner)
	fmt.Fprintln(out, legend)
	var events []string
	for {
		state := w.observe()
		d, err := w.plan(state)
		if err != nil {
			return err
		}
		fmt.Fprintln(out, w.draw(state, events, d))
		if d.converged {
			return nil
		}
		if events = nil; len(d.moves) > 0 {
			for _, m := range d.moves {
				w.carryOut(m)
			}
			continue
		}
		if events = w.pass(); events != nil {
			continue
		}
		for _, at := range d.stuck {
			fmt.Fprintln(out, "stuck:", at)
		}
		done := w.unstick()
		if done == "" {
			return nil
		}
		events = []string{done}
	}
}

// draw is one line: when, what happened, the state, and what is done now and why.
func (w *world) draw(state surge.SetState, events []string, d decision) string {
	var replicas []string
	for _, replica := range state {
		var components []string
		for _, u := range replica {
			components = append(components, surge.FormatSlots(u.Slots))
		}
		replicas = append(replicas, strings.Join(components, " "))
	}
	var parts []string
	for i, m := range d.moves {
		op := "create "
		if m.action.Op == surge.Delete {
			op = "delete "
		} else if m.action.Revision == surge.Stable {
			op = "restore "
		}
		text := op + w.name(m.replica, m.component, m.action.Index)
		// Neighbours with the same reason share its words.
		if next := i + 1; next < len(d.moves) && d.moves[next].action.Reason == m.action.Reason && d.moves[next].component == m.component {
			parts = append(parts, text)
			continue
		}
		parts = append(parts, fmt.Sprintf("%s (%s: %s)", text, m.action.Reason, why(m.action.Reason, w.component(m.component))))
	}
	plan := strings.Join(parts, ", ")
	switch {
	case d.converged:
		plan = "converged"
	case len(d.moves) == 0:
		plan = "wait (" + d.blocked.String() + d.remark + ")"
	}
	return fmt.Sprintf("%6s\t%s\t%s\t%s", w.now, strings.Join(events, ", "), strings.Join(replicas, " | "), plan)
}
