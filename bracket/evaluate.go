package bracket

import (
	"slices"
	"time"
)

// Evaluate reports whether a candidate, the id of a version of the deployment, may be deployed on
// the resource now. The state must be the one that [Step] returned with the plan, or the result of
// a [Plan.Commit] of it. Evaluate changes nothing and makes no pass over the fleet, but one over
// the members with a target on the resource.
//
// The first row that applies decides:
//
//	 0  the plan is empty or was decoded, or the state is empty           bracket_no_plan
//	 1  the deployment is not a member                                    rule_not_applicable
//	 2  the execution's run with this version may start now               bracket_run
//	 3  … is in progress                                                  bracket_in_progress
//	 4  … waits for members, for its retry or for an older generation     bracket_waits_for_members
//	 5  … is halted by a failure                                          bracket_failed_holding
//	 6  the target runs the candidate already                             bracket_current
//	 7  another execution is open on the resource                         bracket_queued
//	 8  … and only maxMerges prevents a merge                             bracket_merge_budget
//	 9  locked, but the execution is not due                              bracket_not_due
//	10  locked, but a hook has no version                                 bracket_hook_without_version
//	11  locked, but the group's execution ended here, rolls it back, or
//	    goes on without it                                               bracket_ended
//	12  newer than the lock of an execution that is ready                 bracket_next_group
//	13  new, and a group is collecting                                    bracket_collecting
//	14  a hook without execution                                          bracket_hook_waits_for_main
//	15  no version is locked, and the target runs none                    bracket_no_version
//	16  anything else                                                     bracket_not_locked
//
// Rows 2 to 5 concern open executions, and ready ones that may start. Until an execution ends, row
// 6 also holds for the version that the member's last run deployed, even if the observation does
// not show that version on the target yet.
func (p Plan) Evaluate(state State, resource, deployment, candidate string, now time.Time) Verdict {
	if p.view == nil || state.Group == nil {
		return Verdict{Reason: ReasonNoPlan}
	}
	q := question{view: p.view, state: state, now: now, candidate: candidate, name: resource, deployment: deployment, resource: p.view.locate(resource)}
	return q.answer()
}

// question is one call of Evaluate.
type question struct {
	*view
	state                       State
	now                         time.Time
	name, deployment, candidate string
	resource                    int32
	target                      *target
	listed                      bool  // the observation has the target
	member                      int32 // in the latest group, -1
	record                      *ExecutionRecord
}

func (q *question) answer() Verdict {
	q.locateTarget()
	now, inNow := slices.BinarySearchFunc(q.members, q.deployment, byDeployment)
	open, opened := q.open(), -1 // the position among the members of the open execution
	if open != nil {
		opened = open.member(q.deployment)
	}
	if opened >= 0 {
		if verdict, decided := q.run(open, opened); decided {
			return verdict // rows 2 to 5
		}
	} else if !inNow && q.member < 0 {
		return Verdict{Reason: ReasonNotApplicable}
	}
	ready, due := q.ready()
	hook := q.hook()
	if ready && hook == nil && !due.IsZero() && !due.After(q.now) && q.member >= 0 {
		w := &work{Execution: q.freeze(q.latest, q.resource, utc(q.now), nil), name: q.name, resource: q.resource, rule: &q.latest.Rule}
		if k := w.member(q.deployment); k >= 0 {
			if verdict, decided := q.run(w, k); decided {
				return verdict
			}
		}
	}
	if q.candidate != "" && q.candidate == q.currentOf(q.target) {
		return Verdict{Reason: ReasonCurrent, Group: q.groupID()}
	}
	if q.record != nil && q.record.Open != nil && (q.latest == nil || !q.record.Open.includes(q.environment, q.latest.ID)) {
		return q.queued(open)
	}
	rank := int32(-1)
	if d := q.target.deployment; d >= 0 {
		rank = q.deployments[d].rankOf(q.candidate)
	}
	locked, lockRank := q.lock()
	ended := q.latest != nil && q.record != nil && q.record.Last[q.environment].includes(q.latest.ID)
	ended = ended || opened >= 0 && open.Members[opened].over() // for this member the group's execution has ended
	main := inNow && q.members[now].Role == Main
	switch {
	case locked && ready && (due.IsZero() || due.After(q.now)):
		verdict := Verdict{Reason: ReasonNotDue, Group: q.latest.ID, Until: due}
		if due.IsZero() {
			verdict.On = q.onConfig
		}
		return verdict
	case locked && ready && hook != nil:
		until, on := q.latest.onHook(q.view, hook, q.now)
		return Verdict{Reason: ReasonHookWithoutVersion, Group: q.latest.ID, Until: until, On: on}
	case locked && ended:
		helps := Condition{Kind: OnOperator}
		if opened >= 0 && open.Members[opened].Purpose == Rollback && open.Members[opened].Status != MemberRolledBack {
			helps = open.onMember(opened) // a run that ends later serves an OutdatedAt that is set now
		}
		return Verdict{Reason: ReasonEnded, Group: q.latest.ID, Until: q.nextRuns(), On: []Condition{helps, {Kind: OnGroupClose, Rule: q.id, Environment: q.environment}}}
	case ready && q.member >= 0 && rank > lockRank && q.nextMayLock(q.target.deployment, rank):
		verdict := Verdict{Reason: ReasonNextGroup, Group: q.latest.ID, Until: after(q.closes, q.now)}
		if verdict.Until.IsZero() {
			verdict.Until, verdict.On = q.opens(main, rank), q.onNextGroup(inNow, rank)
		}
		return verdict
	case inNow && q.collects(q.target, rank, q.members[now].Role):
		return Verdict{Reason: ReasonCollecting, Group: q.state.Group.Collecting.ID, Until: after(q.closes, q.now), On: q.onVersions}
	case opened < 0 && q.role(now) != Main:
		return Verdict{Reason: ReasonHookWaitsForMain, Until: q.nextRuns(), On: []Condition{{Kind: OnGroupClose, Rule: q.id, Environment: q.environment}}}
	case lockRank < 0 && q.target.current == -1:
		return Verdict{Reason: ReasonNoVersion, Group: q.groupID(), Until: q.opens(main, rank), On: []Condition{{Kind: OnVersion, Deployment: q.deployment}}}
	}
	return Verdict{Reason: ReasonNotLocked, Group: q.groupID(), Until: q.opens(main, rank), On: q.onNextGroup(inNow, rank)}
}

// opens is the instant at which the candidate, if it is one of a main member, becomes eligible, if
// that is known and it then opens a group, or joins the one that collects.
func (q *question) opens(main bool, rank int32) time.Time {
	t := q.target
	if !main || !q.listed || rank <= t.rank() || !q.inScope(t, rank) {
		return time.Time{}
	}
	d, served := &q.deployments[t.deployment], q.state.Group.served(q.deployment)
	if !d.unlocked(&served, rank) {
		return time.Time{}
	}
	return after(d.versions[rank].at, q.now)
}

// onNextGroup is the close of the next group, if that would lock the version of this rank for the
// target as things are: the newest eligible one in scope, and newer than what the target runs. An
// older one comes with no group, and one that a gate holds back waits for the gate.
func (q *question) onNextGroup(member bool, rank int32) []Condition {
	t := q.target
	if !member || !q.listed || rank <= t.rank() {
		return nil
	}
	versions := q.deployments[t.deployment].versions
	for r := int32(len(versions)) - 1; r >= rank; r-- {
		if !versions[r].eligible(q.now) || !q.inScope(t, r) {
			continue
		}
		if r == rank {
			return []Condition{{Kind: OnGroupClose, Rule: q.id, Environment: q.environment}}
		}
		break
	}
	return nil
}

// over reports whether the execution goes on without deploying the member's version: the member is
// rolled back, was cancelled after a failure, or was skipped by a command.
func (m *ExecutionMember) over() bool {
	return m.Purpose == Rollback || m.Action != ActionSkip && (m.Status == MemberCancelled || m.Status == MemberSkipped)
}

// locateTarget finds the target, the record of its resource and its place in the latest group.
func (q *question) locateTarget() {
	q.record = q.state.recordOn(q.name)
	d := q.find(q.deployment)
	q.member = -1
	if d >= 0 && q.latest != nil {
		q.member = q.latest.slot[d]
	}
	q.target = &target{deployment: d, current: -1}
	if q.resource < 0 {
		return
	}
	if t := q.targetIn(q.span(q.resource), q.deployment); t != nil {
		q.target, q.listed = t, true
	}
}

// queued answers for a resource on which another execution is open. open is that execution if it
// belongs to this environment, else nil; the group may then be merged into it before it ends.
func (q *question) queued(open *work) Verdict {
	due, needed := q.dueHere()
	if !needed {
		open = nil
	}
	verdict := Verdict{Reason: ReasonQueued, Group: q.groupID()}
	if verdict.Until, verdict.On = q.endOfQueue(open, q.name, due); open != nil && q.overlap(open, due, q.now) == exhausts {
		verdict.Reason = ReasonMergeBudget
	}
	return verdict
}

// lock reports whether the candidate is the version that the latest group has locked for the
// target, and returns the rank of that version, -1 if there is none.
func (q *question) lock() (locked bool, rank int32) {
	if q.member >= 0 && q.candidate != "" {
		if l, ok := q.latest.lockFor(q.view, q.target); ok {
			return l.id == q.candidate, l.rank
		}
	}
	return false, -1
}

// open returns the open execution of the environment on the resource, nil if there is none.
func (q *question) open() *work {
	if q.record == nil || q.record.Open == nil || q.record.Open.Environment != q.environment {
		return nil
	}
	return &work{Execution: q.record.Open, name: q.name, resource: q.resource, rule: q.ruleOf(q.record.Open)}
}

// run answers for the k-th member of an execution. It returns false unless the candidate is the
// version of the member's last or next run.
func (q *question) run(w *work, k int) (Verdict, bool) {
	m := &w.Members[k]
	verdict := Verdict{Group: w.Group}
	switch {
	case m.running() && q.candidate == m.version():
		verdict.Reason, verdict.On = ReasonInProgress, []Condition{w.onMember(k)}
	case m.running() && m.RunVersion != "" && q.candidate == m.Version:
		verdict.Reason, verdict.On = ReasonWaitsForMembers, []Condition{w.onMember(k)}
	case (m.Status == MemberSucceeded || m.Status == MemberRolledBack) && q.candidate == m.version():
		verdict.Reason = ReasonCurrent
	case (m.Status == MemberWaiting || m.Status == MemberFailed) && q.candidate == m.version():
		verdict.Reason, verdict.Until, verdict.On = q.nextRun(w, k, q.now)
	default:
		return verdict, false
	}
	return verdict, true
}

func (q *question) groupID() string {
	if q.latest == nil {
		return ""
	}
	return q.latest.ID
}

// dueHere returns when the latest group may start on the resource; needed is false if the group has
// nothing to do there.
func (q *question) dueHere() (at time.Time, needed bool) {
	i, found := slices.BinarySearch(q.pending, q.resource)
	if !found {
		return time.Time{}, false
	}
	return q.view.dueAt(i), true
}

// ready reports whether the latest group has a ready execution on the resource (needed, not
// started, with no other one open), and when it is due.
func (q *question) ready() (bool, time.Time) {
	due, needed := q.dueHere()
	if !needed || q.record != nil && q.record.Open != nil {
		return false, time.Time{}
	}
	return true, due
}

// hook returns the target of a hook of the latest group that has no version to run on the resource,
// or nil.
func (q *question) hook() *target {
	if q.latest == nil || q.resource < 0 {
		return nil
	}
	return q.latest.idleHook(q.view, q.span(q.resource))
}

// nextMayLock reports whether a later group may lock the candidate. For a main, being newer than
// the present lock is not enough: a group may have locked a newer version that was deleted since.
func (q *question) nextMayLock(d, rank int32) bool {
	if q.latest.Members[q.member].Role != Main {
		return true
	}
	dep := &q.deployments[d]
	served := q.state.Group.served(dep.id)
	return dep.unlocked(&served, rank)
}

// collects reports whether a version is one that the collecting group may lock for a target: new, in
// scope, and newer than what the target runs.
func (q *question) collects(t *target, rank int32, role Role) bool {
	if q.state.Group.Collecting == nil || role != Main || t.deployment < 0 || rank < 0 {
		return false
	}
	dep := &q.deployments[t.deployment]
	served := q.state.Group.served(dep.id)
	return dep.isNew(&served, rank) && rank > t.rank() && q.inScope(t, rank)
}

// nextRuns is the instant at which the group that collects closes, if that is known and the group
// has something for the resource.
func (q *question) nextRuns() time.Time {
	if q.state.Group.Collecting == nil || q.resource < 0 {
		return time.Time{}
	}
	targets := q.span(q.resource)
	for k := range targets {
		t := &targets[k]
		i, member := slices.BinarySearchFunc(q.members, q.deploymentOf(t), byDeployment)
		if !member {
			continue
		}
		versions := q.deployments[t.deployment].versions
		for r := int32(len(versions)) - 1; r > t.rank(); r-- {
			if !versions[r].eligible(q.now) || !q.inScope(t, r) {
				continue
			}
			if q.collects(t, r, q.members[i].Role) {
				return after(q.closes, q.now)
			}
			break // older ones are not what it would get
		}
	}
	return time.Time{}
}

// role returns the role of a member of the latest group, or else that of the member that it is now.
func (q *question) role(now int) Role {
	if q.member >= 0 {
		return q.latest.Members[q.member].Role
	}
	return q.members[now].Role
}
