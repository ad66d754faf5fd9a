package rollout

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// AnyApproval lets a version start in an environment once enough different people approved it
// there.
//
// A plan asks it about every version that is newer than what a target has, until one may start. So
// versions that nobody approves cost a plan about 1.2 kB and a microsecond each in every
// environment where they wait: if there are thousands, leave those out of the [Snapshot] that
// nobody will approve any more.
type AnyApproval struct {
	MinApprovals *int `json:"minApprovals"` // required; at least 0, and 0 needs no approval
}

// Validate reports a missing or negative number as a *[FieldError].
func (a AnyApproval) Validate() error {
	var f faults
	if a.MinApprovals == nil {
		f.add("minApprovals", CodeRequired, nil, "is required: how many people must approve")
	} else if *a.MinApprovals < 0 {
		f.add("minApprovals", CodeOutOfRange, *a.MinApprovals, "must be at least 0")
	}
	return f.err()
}

// approval returns the instant at which the rule was satisfied, never before the version was
// created, or zero and why not.
func (w *work) approval(rule *compiledRule, v *Version, e *Environment) (time.Time, Verdict) {
	need := *rule.approval.MinApprovals
	if need == 0 || !rule.createdAt.IsZero() && v.CreatedAt.Before(rule.createdAt) {
		return v.CreatedAt.UTC(), Verdict{}
	}
	given := w.approversOf(approvalKey{v.Deployment, v.ID, e.ID})
	var until time.Time
	if len(given.at) >= need {
		reached := given.at[need-1].UTC()
		if !reached.After(w.now) {
			return later(reached, v.CreatedAt).UTC(), Verdict{}
		}
		until = reached
	}
	return time.Time{}, Verdict{
		Status: Pending, Reason: ReasonApprovalMissing, Rule: rule.id, Until: until,
		On:   []Condition{{Kind: OnApproval, Version: v.ID, Deployment: v.Deployment, Environment: e.ID}},
		Data: &Data{Attempt: len(given.by), Allowed: need, Names: given.by},
	}
}

// approvers is who approved a version in an environment.
type approvers struct {
	at []time.Time // of the first approval of each approver, ascending
	by []string    // those whose approval counts by now, ascending
}

// approversOf counts the approvals of a version in an environment, once for all rules that ask for
// some.
func (w *work) approversOf(key approvalKey) approvers {
	list := w.approvals[key]
	if len(list) == 0 {
		return approvers{} // as of most versions in most environments: nothing is kept for these
	}
	if known, ok := w.approvers[key]; ok {
		return known
	}
	first := map[string]time.Time{} // approver → first approval
	for _, a := range list {
		if at, ok := first[a.By]; !ok || a.At.Before(at) {
			first[a.By] = a.At
		}
	}
	given := approvers{at: slices.SortedFunc(maps.Values(first), time.Time.Compare)}
	maps.DeleteFunc(first, func(_ string, at time.Time) bool { return at.After(w.now) })
	given.by = slices.Sorted(maps.Keys(first))
	put(&w.approvers, key, given)
	return given
}

type approvalKey struct{ deployment, version, environment string }

// approve collects the approvals. One of the future counts when its time has come.
func (w *work) approve(list []Approval) {
	var odd []Diagnostic
	for _, a := range list {
		tell := func(code DiagnosticCode, detail string) {
			odd = append(odd, Diagnostic{Code: code, Detail: detail, Example: TargetID{Environment: a.Environment, Deployment: a.Deployment}})
		}
		if a.Status == Approved {
			if _, ok := w.environment(a.Environment); !ok {
				tell(DiagnosticApprovalWithoutEffect, fmt.Sprintf("there is no environment %q", a.Environment))
			}
			if _, ok := w.deployment(a.Deployment); !ok {
				tell(DiagnosticApprovalWithoutEffect, fmt.Sprintf("there is no deployment %q", a.Deployment))
			}
		}
		switch {
		case a.Status == Rejected:
		case a.Status != Approved:
			tell(DiagnosticApprovalStatusUnknown, string(a.Status))
		default:
			if a.At.After(w.now) {
				w.wake(a.At)
			}
			key := approvalKey{a.Deployment, a.Version, a.Environment}
			put(&w.approvals, key, append(w.approvals[key], a))
		}
	}
	slices.SortFunc(odd, func(a, b Diagnostic) int { return a.Example.compare(b.Example) }) // the first of equal ones is the example
	for _, d := range odd {
		w.diagnose(d.Code, "", d.Detail, d.Example)
	}
}
