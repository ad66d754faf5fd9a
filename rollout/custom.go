package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// CustomRule is a rule of the host's own, such as a change ticket. It is asked after the built-in
// rules, for every version that is newer than what the target has, and its verdict blocks a start,
// wakes the host and is explained like theirs. [WithRule] gives it to [Compile]. It is no emergency
// stop: it is not asked about rollbacks, retries and the members of an open execution, and an
// [Override] lets a version past it. To stop a node, or everything, use a [Freeze].
type CustomRule interface {
	// ID names the rule in verdicts and overrides; no rule of a policy may have it.
	ID() string

	// Judge must be a pure function of its argument: the same candidate gives the same verdict, and
	// nothing but the passing of Verdict.Until may change it between two plans on the same
	// snapshot. A verdict that blocks needs a Reason, which is a code of the rule's own, and its
	// Until must be after now, or zero; a pending one without Until must name an event. One that
	// breaks this, or has no known status, denies with [ReasonCustomInvalid]. Rule may be left
	// empty.
	Judge(candidate Candidate) Verdict
}

// Candidate is a version that a target could get. What it points to may belong to the snapshot and
// must not be modified.
type Candidate struct {
	Resource    *Resource
	Environment *Environment
	Deployment  *Deployment
	Version     *Version
	Target      *Target   // with its jobs newest first
	Now         time.Time // of the plan
}

// custom appends the verdicts by which the host's own rules block version n on target i.
func (w *work) custom(blockers []Verdict, i, n int32) []Verdict {
	list := newDistinct(w, blockers)
	for _, rule := range w.set.customs {
		if verdict := w.judged(rule, i, n); verdict.Status != Allowed {
			list.add(verdict)
		}
	}
	return list.blockers
}

func (w *work) judged(rule CustomRule, i, n int32) Verdict {
	verdict := rule.Judge(w.judgement(i, n))
	verdict.Rule, verdict.Until = rule.ID(), verdict.Until.UTC()
	invalid := ""
	switch {
	case verdict.Status == Allowed:
		verdict.Reason = cmp.Or(verdict.Reason, ReasonAllowed)
	case verdict.Status != Pending && verdict.Status != Denied:
		invalid = fmt.Sprintf("the status %q is unknown", verdict.Status)
	case verdict.Reason == "":
		invalid = "a verdict without reason"
	case !verdict.Until.IsZero() && !verdict.Until.After(w.now):
		invalid = "a verdict until an instant that is not after now"
	case verdict.Status == Pending && verdict.Until.IsZero() && len(verdict.On) == 0:
		invalid = "a pending verdict without an instant or an event"
	}
	if invalid != "" {
		return Verdict{Status: Denied, Reason: ReasonCustomInvalid, Rule: verdict.Rule, On: onConfig(verdict.Rule), Data: &Data{Detail: invalid}}
	}
	w.wake(verdict.Until)
	return verdict
}

// judgement is what a rule of the host judges.
func (w *work) judgement(i, n int32) Candidate {
	t := &w.targets[i]
	return Candidate{
		Resource: &w.resources[t.resource], Environment: &w.environments[t.environment], Deployment: &w.deployments[t.deployment],
		Version: w.version(i, n), Target: t.Target, Now: w.now,
	}
}

// judgedAfter calls wake with the instants until which the host's rules hold back versions newer than
// that of a start, once they see its job.
func (w *work) judgedAfter(start *Start, wake func(time.Time)) {
	i := w.target(start.TargetID)
	if i < 0 || len(w.set.customs) == 0 {
		return
	}
	target := *w.targets[i].Target
	target.Jobs = slices.Insert(slices.Clone(target.Jobs), 0, Job{Run: start.Run, Version: start.Version, Status: JobInProgress, CreatedAt: w.now})
	versions := &w.versions[w.targets[i].deployment]
	for n := max(versions.number(start.Version), none) + 1; int(n) < len(versions.list); n++ {
		if versions.list[n].CreatedAt.After(w.now) {
			break // it wakes the host itself
		}
		for _, rule := range w.set.customs {
			candidate := w.judgement(i, n)
			candidate.Target = &target
			wake(rule.Judge(candidate).Until)
		}
	}
}
