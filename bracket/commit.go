package bracket

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Commit marks runs of p.Start as started at now and returns the new state. The first run of an
// execution freezes the execution. The given state must be the one that [Step] returned with the
// plan, or the result of an earlier Commit of the same plan; it is not modified. The caller may
// have reordered p.Start or removed entries from it. Commit commits nothing and returns [ErrStale]
// if the plan does not offer a run in that state or a run is given twice, and a *[FieldError] if
// now is not in the years 1 to 9999.
//
// Save what changed before dispatching any of the runs.
func (p Plan) Commit(state State, runs []Run, now time.Time) (State, error) {
	if err := checkNow(now); err != nil {
		return state, err
	}
	v := p.view
	if v == nil || state.Group == nil || state.Group.Rule != v.id || state.Group.Environment != v.environment {
		return state, fmt.Errorf("%w: the plan is not one of this rule and environment", ErrStale)
	}
	sorted, twice := sortedCopy(runs, func(a, b Run) int { return compareRuns(&a, &b) })
	if twice >= 0 {
		return state, fmt.Errorf("%w: %s is given twice", ErrStale, sorted[twice])
	}
	var changed []*ExecutionRecord
	var current *work
	var h halt // of the current execution: starts do not change it
	opened := false
	offered := offers{starts: p.Start}
	for _, run := range sorted {
		if !offered.has(run) {
			return state, fmt.Errorf("%w: %s", ErrStale, run)
		}
		if n := len(changed); n == 0 || changed[n-1].Resource != run.Resource {
			w, record, first := v.openFor(state, run, now)
			if w == nil {
				return state, fmt.Errorf("%w: %s", ErrStale, run)
			}
			opened = opened || first
			changed, current = append(changed, record), w
			h = w.halted()
		}
		k := current.member(run.Deployment)
		if k < 0 || !current.mayStart(k, run, h, now) {
			return state, fmt.Errorf("%w: %s", ErrStale, run)
		}
		current.change()
		current.Members[k].start(utc(now))
		changed[len(changed)-1].Open = current.Execution
	}
	state.Executions = withRecords(state.Executions, changed)
	if opened {
		state.Group = state.Group.withLatest(StatusExecuting)
	}
	return state, nil
}

// NextAfter returns when the caller should step again once it has carried out runs of p.Start and
// p.Redispatch at the plan's now: at Next or, in case one of them hangs, as soon as that is stuck,
// whichever is earlier. Zero: nothing happens by itself. The state is the one that [Step] returned
// with the plan. Runs that the plan does not offer count for nothing.
func (p Plan) NextAfter(state State, runs []Run) time.Time {
	next := p.Next
	first, again := offers{starts: p.Start}, offers{starts: p.Redispatch}
	for _, run := range runs {
		if p.view == nil || !first.has(run) && !again.has(run) {
			continue
		}
		rule := &p.view.rule
		if record := state.recordOn(run.Resource); record != nil && record.Open != nil {
			rule = p.view.ruleOf(record.Open)
		} else if p.view.latest != nil {
			rule = &p.view.latest.Rule
		}
		if at := p.view.now.Add(rule.stuckAfter()); at.After(p.view.now) && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	return next
}

// offers are the starts of a plan, in the plan's order or in any order that the host has given
// them.
type offers struct {
	starts []Start
	last   string       // the resource that was asked about last, if it has many starts
	own    map[Run]bool // its starts
	set    map[Run]bool // all starts, made when a search by resource finds nothing
}

// glance is how many starts of one resource are looked at for each run.
const glance = 16

func (o *offers) has(run Run) bool {
	at, _ := slices.BinarySearchFunc(o.starts, run.Resource, func(s Start, r string) int { return strings.Compare(s.Run.Resource, r) })
	own := o.starts[at:]
	for k := 0; k < len(own) && own[k].Run.Resource == run.Resource; k++ {
		if k == glance {
			if o.own == nil || o.last != run.Resource {
				other := slices.IndexFunc(own, func(s Start) bool { return s.Run.Resource != run.Resource })
				if other < 0 {
					other = len(own)
				}
				o.last, o.own = run.Resource, runSet(own[:other])
			}
			if o.own[run] {
				return true
			}
			break
		}
		if own[k].Run == run {
			return true
		}
	}
	if o.set == nil {
		o.set = runSet(o.starts)
	}
	return o.set[run]
}

func runSet(starts []Start) map[Run]bool {
	set := make(map[Run]bool, len(starts))
	for i := range starts {
		set[starts[i].Run] = true
	}
	return set
}

// openFor returns the execution that a run belongs to and a copy of its record. The execution is
// the open one, or a new one, frozen with nothing started, if first is true. w is nil if the state
// has moved on since the plan was made.
func (v *view) openFor(state State, run Run, now time.Time) (w *work, record *ExecutionRecord, first bool) {
	record = &ExecutionRecord{Schema: schema, Rule: v.id, Resource: run.Resource}
	if stored := state.recordOn(run.Resource); stored != nil {
		*record = *stored
	}
	resource := v.locate(run.Resource)
	if record.Open != nil {
		return &work{Execution: record.Open, resource: resource, rule: v.ruleOf(record.Open)}, record, false
	}
	latest := state.Group.latest()
	if v.latest == nil || run.Group != v.latest.ID || latest == nil || latest.ID != run.Group || resource < 0 ||
		record.Last[v.environment].includes(run.Group) {
		return nil, nil, false
	}
	return &work{Execution: v.freeze(v.latest, resource, utc(now), nil), resource: resource, rule: &v.latest.Rule, copied: true}, record, true
}

// mayStart reports whether the run is the next one of the k-th member and nothing stops it.
func (w *work) mayStart(k int, run Run, h halt, now time.Time) bool {
	m := &w.Members[k]
	if m.Status != MemberWaiting || w.runOf(run.Resource, m) != run {
		return false
	}
	verdict, _ := w.verdict(k, h, nil, now, nil)
	return verdict == ReasonRun
}
