package rollout

import (
	"slices"
	"time"

	"github.com/tranche-dev/tranche/bracket"
)

// step observes one bracket and lets package bracket decide.
func (w *work) step(b *bracketWork) error {
	environment := w.environments[b.environment].ID
	state := bracket.NewState(b.id, environment)
	if record := w.groups[ruleIn{b.id, environment}]; record != nil {
		state.Group = record
	}
	state.Executions = w.executionsIn(b.id, b.environment)
	observation := bracket.Observation{
		RuleDeleted:      b.rule == nil,
		Commands:         w.commands[ruleIn{b.id, environment}],
		DeletedResources: w.gone,
		Runs:             w.runFacts(b, state),
		Due:              func(p bracket.PendingGroup) []time.Time { return w.due(b, p) },
	}
	var rule bracket.Rule // zero if the rule is gone: open executions follow their own copies
	if b.rule != nil {
		rule = *b.rule.bracket
		if observation.Members = w.edgesOf(b, w.now); b.unclear != nil {
			observation.Members = nil
		}
	}
	b.state = state // for questions that come before the step is done
	b.kinds = w.kindsOf(b)
	observation.Versions, observation.Targets = w.observed(b, w.now)
	b.observation, b.ruleInForce = observation, rule
	w.stepped = append(w.stepped, b)
	since := w.checkpoint()
	if err := w.decideFrom(b, state); err != nil {
		return err
	}
	if err := w.recover(b, state, since); err != nil {
		return err
	}
	for _, on := range b.unknown {
		t := &w.targets[on.target]
		w.diagnose(DiagnosticUnknownRun, b.id, t.history().at(int(on.job)).Run, t.TargetID)
	}
	return w.observeAgain(b)
}

// happened reports whether the plan has an event of one of these kinds.
func (b *bracketWork) happened(kinds ...bracket.EventKind) bool {
	return slices.ContainsFunc(b.plan.Events, func(e bracket.Event) bool { return slices.Contains(kinds, e.Kind) })
}

// observeAgain steps a bracket once more if a group has closed in this very plan, or an execution
// was found or has ended, because the first observation was made from the state before. By the new
// state a target may need a run of its own (see missed and joined), a job may belong to an open
// execution or belong to it no longer, and a group that could not be merged into an execution may
// be due by itself (see merged). Otherwise only the next plan would see this, and no event would
// make the host ask for one.
func (w *work) observeAgain(b *bracketWork) error {
	found := b.happened(bracket.ExecutionStarted)
	if b.rule == nil || !found && !b.happened(bracket.GroupClosed, bracket.GroupMerged, bracket.ExecutionEnded) {
		return nil
	}
	before := b.observation.Targets.(*observedTargets)
	versions, targets := w.observed(b, w.now)
	if !found && !before.dated && !targets.anyDated() && !w.leftAtWork(b) && !b.keeps {
		return nil
	}
	b.observation.Versions, b.observation.Targets = versions, targets
	return w.decideAgain(b)
}

// leftAtWork reports whether a job is still active on a resource where an execution has ended in
// this plan, by a command. Before the end, the job was no obstacle to what comes next.
func (w *work) leftAtWork(b *bracketWork) bool {
	return slices.ContainsFunc(b.plan.Events, func(e bracket.Event) bool {
		r, known := w.resource(e.Resource)
		if e.Kind != bracket.ExecutionEnded || !known {
			return false
		}
		from, to := w.siblingsIn(b.environment, r)
		return slices.ContainsFunc(w.targets[from:to], func(t target) bool { return t.busy })
	})
}

func (w *work) decide(b *bracketWork) error {
	var err error
	b.group, b.needs, b.pending, b.runs = nil, memberTable[[]memberNeed]{}, nil, nil // until the latest group is pending somewhere
	b.state, b.plan, err = bracket.Step(b.ruleInForce, b.state, b.observation, w.now)
	if err != nil {
		return w.oneRunTwice(b, err)
	}
	w.keepExecutions(b.id, b.environment, b.state.Executions)
	w.wake(b.plan.Next)
	return nil
}

// stepAgain steps once more the environments that were stepped before an execution of the same rule
// ended, or was found, in a later one. After an end, the resource may be free for them in this very
// plan, and no later event would make the host look again. After an execution was found, the
// resource is no longer free, and what they would start there could not be committed.
func (w *work) stepAgain(works []*bracketWork) error {
	changes := func(e bracket.Event) bool {
		return e.Kind == bracket.ExecutionEnded || e.Kind == bracket.ExecutionStarted
	}
	last := map[string]int{} // per rule: index of the last work in which that happened
	for k, b := range works {
		if slices.ContainsFunc(b.plan.Events, changes) {
			last[b.id] = k
		}
	}
	for k, b := range works {
		if last[b.id] <= k {
			continue
		}
		told := len(b.plan.Events)
		if err := w.askAgain(works[k : k+1]); err != nil {
			return err
		}
		if !slices.ContainsFunc(b.plan.Events[told:], changes) {
			continue
		}
		for n := k + 1; n < len(works); n++ { // it has taken the resource over, and those that were stepped before do not know
			if works[n].id == b.id {
				if err := w.askAgain(works[n : n+1]); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (w *work) askAgain(works []*bracketWork) error {
	for _, b := range works {
		b.state.Executions = w.executionsIn(b.id, b.environment)
		if err := w.decideAgain(b); err != nil {
			return err
		}
	}
	return nil
}

// decideAgain decides once more, from the state that decide reached. The plan keeps the events of
// before.
func (w *work) decideAgain(b *bracketWork) error {
	events := b.plan.Events
	if err := w.decide(b); err != nil {
		return err
	}
	b.plan.Events = slices.Concat(events, b.plan.Events)
	return nil
}
