package rollout

import (
	"slices"

	"github.com/tranche-dev/tranche/bracket"
)

// What the snapshot lacks is not gone: a host may have read half of its storage. So an execution on
// a resource or in an environment that is missing stays as it is, and if only a target is missing,
// a run on it stays in progress. Only an explicit word ends them: a resource that is listed as
// deleted, an operator's command, or a snapshot that lists again what was missing.

// unseenTargets returns the targets of open executions on resources that the snapshot lacks. For
// package bracket they exist, so that their members are not cancelled, but every version is out of
// their scope. A run that could start there is not offered, since there is no target to start it
// on.
func (w *work) unseenTargets(b *bracketWork) (list []bracket.Target) {
	w.eachOpen(b.state.Executions, w.environments[b.environment].ID, func(o opened) {
		if o.resource != none {
			return
		}
		for _, m := range o.record.Open.Members {
			own := bracket.Target{Resource: o.record.Resource, Deployment: m.Deployment}
			if d, known := w.deployment(m.Deployment); known {
				own.OutOfScope = w.allVersions(d)
			}
			list = append(list, own)
		}
	})
	return list
}

// elsewhere steps a bracket in an environment that the snapshot lacks: a command or a deletion may
// end what is open there.
func (w *work) elsewhere(record *bracket.GroupRecord) error {
	var targets bracket.TargetList // as if all of them still existed
	var open []*bracket.ExecutionRecord
	in := ruleIn{record.Rule, record.Environment}
	for _, resource := range w.openAway()[in] {
		own := w.execution(record.Rule, resource)
		if own == nil || own.Open == nil || own.Open.Environment != record.Environment {
			continue // the step of another environment has ended it
		}
		open = append(open, own)
		for _, m := range own.Open.Members {
			targets = append(targets, bracket.Target{Resource: own.Resource, Deployment: m.Deployment})
		}
	}
	observation := bracket.Observation{Commands: w.commands[in], DeletedResources: w.gone, Targets: targets, RuleDeleted: true}
	state, plan, err := bracket.Step(bracket.Rule{}, bracket.State{Group: record, Executions: open}, observation, w.now)
	if err != nil {
		return err
	}
	for _, e := range plan.Events {
		if e.Kind == bracket.ExecutionEnded { // the group itself stays as it is
			w.reportEvent(in, e)
		}
	}
	for _, list := range [...]map[string][]*bracket.ExecutionRecord{w.executions.common, w.executions.unseen} {
		list[record.Rule] = withExecutions(list[record.Rule], slices.DeleteFunc(changed(open, state.Executions), func(r *bracket.ExecutionRecord) bool {
			return executionOn(list[record.Rule], r.Resource) == nil
		}))
	}
	return nil
}

// openAway returns, by rule and environment that the snapshot lacks, the resources on which
// executions are open, in order. There may be as many such environments as executions, so the
// records are gone through once for all of them.
func (w *work) openAway() map[ruleIn][]string {
	if w.executions.away != nil {
		return w.executions.away
	}
	w.executions.away = map[ruleIn][]string{}
	for _, record := range w.executions.all() {
		if record.Open == nil {
			continue
		}
		if _, known := w.environment(record.Open.Environment); !known {
			in := ruleIn{record.Rule, record.Open.Environment}
			w.executions.away[in] = append(w.executions.away[in], record.Resource)
		}
	}
	return w.executions.away
}

// findUnseen diagnoses the open executions that cannot be followed because of what the snapshot
// lacks.
func (w *work) findUnseen() {
	w.eachOpen(w.plan.State.Executions, "", func(o opened) {
		x := o.record.Open
		for k := range x.Members {
			m := &x.Members[k]
			listed := func(t target) bool { return w.deployments[t.deployment].ID == m.Deployment }
			running := m.Status == bracket.MemberRunning || m.Status == bracket.MemberRollingBack
			if o.environment != none && o.resource != none && (!running || slices.ContainsFunc(w.targets[o.from:o.to], listed)) {
				continue
			}
			w.diagnose(DiagnosticExecutionUnseen, o.record.Rule, x.Group, TargetID{Resource: o.record.Resource, Environment: x.Environment, Deployment: m.Deployment})
			return
		}
	})
}
