package bracket

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tranche-dev/tranche/internal/instant"
)

// step is one call of Step in progress: the state as changed so far, and the plan as known so far.
type step struct {
	view         *view
	state        State // records replaced, never modified
	plan         Plan
	groupChanged bool
	listChanged  bool // state.Executions is a private slice
	ruleDeleted  bool
	works        []work               // open executions of the environment, ascending by resource
	uses         map[string]int       // number of open executions, by the group that they started with
	ends         map[string]time.Time // per group, the last end of an execution in this step
	counted      bool                 // the ended executions of the latest group were counted; end counts later ones
	idle         int                  // members of open executions that may wait, for reserve
	ended        int                  // executions of the latest group that ended
	endedFailed  int
	astray       []Command // commands whose execution is not open
	level, order []int     // scratch of deriveOpen, and blockers
	blockers     []int
}

// Step folds the observation into the state and returns the new state and the plan for it. In this
// order it applies commands, run facts and vanished targets; closes and opens groups until nothing
// more is due; merges; ends executions and reacts to failures; and then derives the plan. The given
// state is not modified. Step returns an error and the state as it was if the rule is invalid and
// not deleted, if the state or the observation contradicts itself, or if now or an instant to be
// stored is not in the years 1 to 9999. A now before instants in the state undoes nothing.
//
// One call makes a pass over the targets. It needs memory in proportion to them, which the plan
// keeps, and to what waits, runs or may start. A target by itself takes some 16 bytes if its
// resource has five, and more with OutdatedAt or OutOfScope, or if the targets do not ascend. A step
// that comes late closes every group that it has missed, at about a microsecond for each of its
// members.
func Step(rule Rule, state State, observation Observation, now time.Time) (State, Plan, error) {
	fail := func(err error) (State, Plan, error) { return state, Plan{}, err }
	if err := rule.Validate(); err != nil && !observation.RuleDeleted {
		var f faults
		f.under("rule", err)
		return fail(f.err())
	}
	if err := checkNow(now); err != nil {
		return fail(err)
	}
	if err := checkState(state); err != nil {
		return fail(err)
	}
	v, err := newView(rule.WithDefaults(), state.Group, observation, now)
	if err != nil {
		return fail(err)
	}
	s := &step{view: v, state: state, ruleDeleted: observation.RuleDeleted, uses: make(map[string]int), ends: make(map[string]time.Time)}
	s.viewLatest()
	s.adopt()
	s.findOpen()
	s.foldAll()
	s.groups()
	s.refuseClosers()
	s.viewLatest()
	if err := s.findPending(observation.Due); err != nil {
		return fail(err)
	}
	s.mergeAll()
	for i := range s.works {
		w := &s.works[i]
		s.settleAll(w)
		s.idle += w.idle()
	}
	s.store()
	s.setStatuses()
	s.retire()
	s.viewLatest()
	if s.changesMore() {
		next, plan, err := Step(rule, s.state, observation, now)
		if err != nil {
			return fail(err)
		}
		plan.Events = slices.Concat(s.plan.Events, plan.Events)
		plan.refuse(s.plan.Refused) // without those astray, about which the other step has decided
		return next, plan, nil
	}
	s.plan.refuse(s.astray)
	s.derive()
	s.plan.view = v
	return s.state, s.plan, nil
}

// changesMore reports whether another step with the same input would change the state once more; I6
// requires that change in this step. It happens where an execution has ended in this step and the
// state is older than the observed runs: the latest group was merged into the execution before it
// ended, so that the group has ended there too; or there are runs of the latest group to adopt.
func (s *step) changesMore() bool {
	v := s.view
	for _, e := range s.plan.Events {
		if e.Kind != ExecutionEnded {
			continue
		}
		record := s.state.recordOn(e.Resource)
		if _, pending := slices.BinarySearch(v.pending, v.locate(e.Resource)); pending && record.Last[v.environment].includes(v.latest.ID) {
			return true
		}
		fresh := s.unopened(record, e.Resource)
		if fresh < 0 {
			continue
		}
		n, _ := slices.BinarySearchFunc(v.runs, e.Resource, func(f RunFact, resource string) int { return strings.Compare(f.Run.Resource, resource) })
		for ; n < len(v.runs) && v.runs[n].Run.Resource == e.Resource; n++ {
			if run := v.runs[n].Run; run.Group == v.latest.ID && v.latest.firstRun(run, v, fresh) {
				return true
			}
		}
	}
	return false
}

// checkNow refuses an instant at which an execution that starts could not be saved, or be saved but
// never be decoded.
func checkNow(now time.Time) error {
	switch {
	case now.IsZero():
		return fault("now", CodeRequired, nil, "must be set to the present instant")
	case instant.Unset(now) || !storable(now):
		return fault("now", CodeOutOfRange, stamp(now), hintYears)
	}
	return nil
}

const hintYears = "must lie in the years 1 to 9999: RFC 3339 has no name for later instants, so that they cannot be stored, and some databases write the year 0 for a missing date"

// storable reports whether an instant, if it is set, can be encoded.
func storable(at time.Time) bool { return at.UTC().Year() <= 9999 }

// checkState reports what would make a state meaningless. It does not look into records, which
// decoding has checked.
func checkState(state State) error {
	g := state.Group
	if g == nil {
		return fault("state.group", CodeRequired, nil, "is required: start with NewState")
	}
	if g.Rule == "" { // a record without a rule cannot be decoded
		return fault("state.group.rule", CodeRequired, nil, "must not be empty: start with NewState")
	}
	for _, name := range []struct{ field, value string }{{"rule", g.Rule}, {"environment", g.Environment}} {
		if !utf8.ValidString(name.value) {
			return fault("state.group."+name.field, CodeType, name.value, hintUTF8)
		}
	}
	for i, record := range state.Executions {
		switch {
		case record == nil:
			return fault(fmt.Sprintf("state.executions[%d]", i), CodeRequired, nil, "must not be nil")
		case i > 0 && record.Resource <= state.Executions[i-1].Resource:
			return fault(fmt.Sprintf("state.executions[%d].resource", i), CodeConflict, record.Resource, "must come after %q, once", state.Executions[i-1].Resource)
		case record.Rule != g.Rule:
			return fault(fmt.Sprintf("state.executions[%d].rule", i), CodeConflict, record.Rule, "must be %q, as in the group record", g.Rule)
		}
	}
	return nil
}

// viewLatest prepares the latest closed group, if it is another one than before.
func (s *step) viewLatest() {
	v := s.view
	switch latest := s.state.Group.latest(); {
	case latest == nil:
	case v.latest == nil || v.latest.ID != latest.ID:
		v.latest = v.viewGroup(latest)
	default:
		v.latest.Group = latest
	}
}

// findOpen lists the open executions of the environment.
func (s *step) findOpen() {
	v := s.view
	open := 0
	for _, record := range s.state.Executions {
		if record.Open != nil && record.Open.Environment == v.environment {
			open++
		}
	}
	s.works = make([]work, 0, open)
	i := int32(0)
	for at, record := range s.state.Executions {
		if record.Open == nil || record.Open.Environment != v.environment {
			continue
		}
		for int(i) < len(v.resources) && v.resources[i] < record.Resource {
			i++
		}
		w := work{Execution: record.Open, name: record.Resource, record: at, resource: -1}
		if int(i) < len(v.resources) && v.resources[i] == record.Resource {
			w.resource = i
		}
		w.rule = v.ruleOf(record.Open)
		s.works = append(s.works, w)
		s.uses[record.Open.Group]++
	}
}

// ruleOf returns the rule that an open execution follows.
func (v *view) ruleOf(x *Execution) *Rule {
	if x.Rule != nil {
		return x.Rule
	}
	return &v.rule // a record that was written by hand
}

// foldAll applies commands, facts and vanished targets to every open execution.
func (s *step) foldAll() {
	v := s.view
	runs, commands := v.runs, v.commands
	for i := range s.works {
		w := &s.works[i]
		resource := w.name
		for len(runs) > 0 && runs[0].Run.Resource < resource {
			runs = runs[1:]
		}
		for len(runs) > 0 && runs[0].Run.Resource == resource {
			if runs[0].Run.Group == w.Group {
				n := 1
				for n < len(runs) && runs[n].Run.Resource == resource && runs[n].Run.Group == w.Group {
					n++
				}
				w.facts, runs = runs[:n], runs[n:]
				continue
			}
			runs = runs[1:]
		}
		for len(commands) > 0 && commands[0].Resource < resource {
			s.stray(commands[0])
			commands = commands[1:]
		}
		var mine []Command
		for len(commands) > 0 && commands[0].Resource == resource {
			if commands[0].Group == w.Group {
				mine = append(mine, commands[0])
			} else {
				s.stray(commands[0])
			}
			commands = commands[1:]
		}
		s.fold(w, mine)
		if w.ended {
			continue
		}
		if _, deleted := slices.BinarySearch(v.deleted, resource); deleted {
			w.change()
			s.end(w, StatusCancelled, utc(v.now), false)
			continue
		}
		s.followTargets(w)
	}
	for _, c := range commands {
		s.stray(c)
	}
}

// stray notes a command whose execution is not open, unless the execution has ended: then the
// command was applied or came too late. The execution of a group counts as ended once a later group
// has ended on the resource, because the earlier one never begins there any more.
func (s *step) stray(c Command) {
	if record := s.state.recordOn(c.Resource); record != nil {
		v := s.view
		last := record.Last[v.environment]
		n := groupNumber(v.id, v.environment, c.Group)
		if last.includes(c.Group) || last != nil && n > 0 && n < groupNumber(v.id, v.environment, last.Group) {
			return
		}
	}
	s.astray = append(s.astray, c)
}

// refuse adds commands to those refused.
func (p *Plan) refuse(commands []Command) {
	p.Refused = append(p.Refused, commands...)
	slices.SortFunc(p.Refused, func(a, b Command) int {
		return cmp.Or(strings.Compare(a.Resource, b.Resource), strings.Compare(a.ID, b.ID))
	})
}

// findPending lists the resources on which the latest group has still to run, with the instants at
// which it may.
func (s *step) findPending(due func(PendingGroup) []time.Time) error {
	v := s.view
	g := v.latest
	if g == nil || s.ruleDeleted || g.Status == StatusCancelled {
		return nil
	}
	s.counted = true
	records := s.state.Executions
	var last []target // of the resource decided last, and whether the group was needed there: neighbours are mostly alike
	needed := false
	for i := int32(0); int(i) < len(v.resources); i++ {
		resource := v.resources[i]
		for len(records) > 0 && records[0].Resource < resource {
			s.count(records[0])
			records = records[1:]
		}
		if len(records) > 0 && records[0].Resource == resource {
			record := records[0]
			records = records[1:]
			if s.count(record) || record.Open != nil && record.Open.includes(v.environment, g.ID) {
				continue
			}
		}
		if own := v.span(i); !slices.Equal(own, last) {
			last, needed = own, g.needed(v, own)
		}
		if needed {
			v.pending = append(v.pending, i)
		}
	}
	for _, record := range records {
		s.count(record)
	}
	if due == nil || len(v.pending) == 0 {
		return nil
	}
	names := make([]string, len(v.pending))
	for i, at := range v.pending {
		names[i] = v.resources[at]
	}
	var runs []PendingRun
	last = nil
	v.due = due(PendingGroup{Group: g.Group, Resources: names, runs: func(i int) []PendingRun {
		if own := v.span(v.pending[i]); !slices.Equal(own, last) {
			last, runs = own, g.pendingRuns(v, own)
		}
		return runs
	}})
	if len(v.due) != len(names) {
		return fault("observation.due", CodeOutOfRange, nil, "returned %d instants for %d resources: must return one for each", len(v.due), len(names))
	}
	return nil
}

// count notes an ended execution of the latest group and reports whether there is one.
func (s *step) count(record *ExecutionRecord) bool {
	e := record.Last[s.view.environment]
	if !e.includes(s.view.latest.ID) {
		return false
	}
	s.ended++
	if e.Status == StatusFailed {
		s.endedFailed++
	}
	return true
}

// settleAll reacts to failures and folds run facts until nothing changes any more: where the state
// is older than the observed runs, the runs of the reaction may have ended already.
func (s *step) settleAll(w *work) {
	for changed := true; changed && !w.ended; {
		s.settle(w)
		changed = !w.ended && w.foldFacts(s.view.now)
	}
}

// idle counts the members that wait or have failed, if the execution goes on.
func (w *work) idle() (n int) {
	for k := range w.Members {
		if status := w.Members[k].Status; !w.ended && (status == MemberWaiting || status == MemberFailed) {
			n++
		}
	}
	return n
}

// mergeAll merges the latest group into the open executions that can take it.
func (s *step) mergeAll() {
	v := s.view
	next := 0
	for i := range s.works {
		w := &s.works[i]
		if w.ended || w.resource < 0 {
			continue
		}
		for next < len(v.pending) && v.pending[next] < w.resource {
			next++
		}
		if next < len(v.pending) && v.pending[next] == w.resource && v.overlap(w, v.dueAt(next), v.now) == merges {
			s.merge(w)
		}
	}
}

// store puts the changed executions into the state.
func (s *step) store() {
	for i := range s.works {
		w := &s.works[i]
		if w.copied && !w.ended {
			record := *s.state.Executions[w.record]
			record.Open = w.Execution
			s.setRecord(w.record, &record)
		}
	}
}

func (s *step) setRecord(i int, record *ExecutionRecord) {
	if !s.listChanged {
		s.state.Executions = slices.Clone(s.state.Executions)
		s.listChanged = true
	}
	s.state.Executions[i] = record
}

// setStatuses derives the status of the latest closed group from its executions. Older groups in
// use are executing.
func (s *step) setStatuses() {
	if !s.counted {
		return
	}
	v := s.view
	open, waiting := 0, len(v.pending) // an execution that took the group over in this step counts as both, and so as open
	for i := range s.works {
		if w := &s.works[i]; !w.ended && w.includes(v.environment, v.latest.ID) {
			open++
		}
	}
	status := StatusExecuting
	switch {
	case open > 0 || waiting > 0 && s.ended > 0:
	case waiting > 0:
		status = StatusReady
	case s.endedFailed > 0:
		status = StatusFailed
	default:
		status = StatusCompleted
	}
	s.state.Group = s.state.Group.withLatest(status)
}

func (s *step) event(e Event) {
	s.plan.Events = append(s.plan.Events, e)
}

// wake makes Next no later than at, if at is after now.
func (s *step) wake(at time.Time) {
	if at.After(s.view.now) && (s.plan.Next.IsZero() || at.Before(s.plan.Next)) {
		s.plan.Next = at
	}
}
