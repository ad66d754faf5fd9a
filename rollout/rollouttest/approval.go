package rollouttest

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/tranche-dev/tranche/internal/textkey"
	"github.com/tranche-dev/tranche/internal/textlist"
	"github.com/tranche-dev/tranche/rollout"
)

// ApprovalRequest asks one person to approve a version in an environment. It is made once the
// version waits on a target that no other gate of the version holds: no status, version selector,
// failure budget or progression. So people are asked about production when staging has proved the
// version, and nobody is asked about a version that a newer one overtakes before: on no target that
// waits with a newer one which none of these gates holds.
type ApprovalRequest struct {
	Goal             // the version and where it is to go
	Number int       // from 1: the requests for a version in an environment are counted, and there is one for each approval that is missing
	At     time.Time // when it was made: at the start of the world if the version waited before
}

// drawKey is what a draw of its answer depends on.
func (r ApprovalRequest) drawKey() string {
	return textkey.Join("approval", r.Environment, r.Deployment, r.Version, strconv.Itoa(r.Number))
}

// Answer is how a person answers a request for an approval.
type Answer struct {
	After  time.Duration `json:"after"`            // from the request, at least 0, in JSON in nanoseconds; an answer after 2262-04-11 never comes
	Reject bool          `json:"reject,omitempty"` // instead of approving: then the approval goes on missing, and nobody else is asked for it
	By     string        `json:"by,omitempty"`     // who answers; empty: "approver" and the number of the request. A person approves a version in an environment once
}

// ApproveAfter returns a function for World.Approval: every request is approved after that time.
func ApproveAfter(d time.Duration) func(ApprovalRequest) (Answer, bool) {
	return func(ApprovalRequest) (Answer, bool) { return Answer{After: d}, true }
}

// requests are those that were made for a version in an environment.
type requests struct {
	made   int
	open   int      // an approval is to come, or comes too late for any plan
	vain   int      // rejected, or never answered
	people []string // who approve
}

// requestApprovals makes the requests for approvals that are due, and lets their answers arrive.
func (r *worldRun) requestApprovals(plan *rollout.Plan) error {
	if r.Approval == nil {
		return nil
	}
	for wait := range plan.Waiting.All() {
		missing, held := lacking(wait.Blockers)
		if held {
			if err := r.requestOlder(plan, wait); err != nil {
				return err
			}
			continue
		}
		if err := r.requestFor(plan, wait.TargetID, wait.Version, missing); err != nil {
			return err
		}
	}
	return nil
}

// requestOlder makes the requests for the newest version of a target that another gate does not hold,
// as it does the one with which the target waits.
func (r *worldRun) requestOlder(plan *rollout.Plan, wait rollout.Waiting) error {
	if !r.mayLackOlder(wait) {
		return nil // most targets wait with the only version that is newer than theirs, and an explanation takes as long as some plans of a target
	}
	e, err := plan.Explain(wait.TargetID)
	if err != nil {
		return fmt.Errorf("rollouttest: explain the plan at %s: %w", exactText(plan.Now), err)
	}
	for _, v := range e.Versions { // the newest first
		if missing, held := lacking(verdicts(v.Blockers())); !held && v.Prospect != rollout.ProspectOutOfScope {
			return r.requestFor(plan, wait.TargetID, v.Version, missing)
		}
	}
	return nil
}

// mayLackOlder reports whether a version may lack approvals that is older than the one with which a
// target waits, and newer than the one that it runs.
func (r *worldRun) mayLackOlder(wait rollout.Waiting) bool {
	versions := r.fleet.Versions
	named := func(id string) int {
		return slices.IndexFunc(versions, func(v rollout.Version) bool { return v.Deployment == wait.Deployment && v.ID == id })
	}
	newest := named(wait.Version)
	runs := named(current(&r.fleet.Targets[r.targets[wait.TargetID]]))
	return newest >= 0 && slices.ContainsFunc(versions, func(v rollout.Version) bool {
		return v.Deployment == wait.Deployment && v.Status == rollout.VersionReady && older(v, versions[newest]) && (runs < 0 || older(versions[runs], v)) &&
			r.mayLack(Goal{Deployment: wait.Deployment, Environment: wait.Environment, Version: v.ID})
	})
}

// mayLack reports whether more people may have to be asked about a goal, since no rule wants so many as
// have approved, or were asked.
func (r *worldRun) mayLack(goal Goal) bool {
	n := 0
	if own := r.requests[goal]; own != nil {
		n = own.vain + own.open
	}
	people := map[string]bool{}
	for k := range r.fleet.Approvals {
		if a := &r.fleet.Approvals[k]; a.Status == rollout.Approved && !a.At.After(r.clock.Now()) && goalOf(*a) == goal {
			people[a.By] = true
		}
	}
	return n+len(people) < r.mostApprovals
}

// mostApprovals returns the most approvals that a rule of the policies wants.
func mostApprovals(policies []rollout.Policy) (most int) {
	for _, p := range policies {
		for _, rule := range p.Rules {
			if rule.AnyApproval != nil && rule.AnyApproval.MinApprovals != nil {
				most = max(most, *rule.AnyApproval.MinApprovals)
			}
		}
	}
	return most
}

func verdicts(rules []rollout.RuleVerdict) []rollout.Verdict {
	list := make([]rollout.Verdict, len(rules))
	for k, rule := range rules {
		list[k] = rule.Verdict
	}
	return list
}

// requestFor makes the requests for a version that lacks so many approvals on a target.
func (r *worldRun) requestFor(plan *rollout.Plan, t rollout.TargetID, version string, missing int) error {
	if missing == 0 {
		return nil
	}
	goal := Goal{Deployment: t.Deployment, Environment: t.Environment, Version: version}
	own := r.requests[goal]
	if own == nil {
		own = &requests{}
		r.requests[goal] = own
	}
	for missing -= own.vain + own.open + r.approvalsToCome(goal); missing > 0; missing-- {
		own.made++
		if err := r.askApprover(ApprovalRequest{goal, own.made, plan.Now}, own); err != nil {
			return err
		}
	}
	return nil
}

// lacking returns how many approvals a version lacks, and whether another of its gates holds it.
func lacking(blockers []rollout.Verdict) (missing int, held bool) {
	for _, b := range blockers {
		switch b.Reason {
		case rollout.ReasonApprovalMissing:
			missing = max(missing, b.Data.Allowed-b.Data.Attempt)
		case rollout.ReasonVersionNotDeployable, rollout.ReasonSelectorNoMatch, rollout.ReasonSelectorMissingKey, rollout.ReasonSelectorError, rollout.ReasonFailureBudget,
			rollout.ReasonProgressionNoEnvironment, rollout.ReasonProgressionTooOld, rollout.ReasonProgressionWaiting, rollout.ReasonNotGoverned:
			held = true
		}
	}
	return missing, held
}

// approvalsToCome counts the approvals of a goal that arrive without a request.
func (r *worldRun) approvalsToCome(goal Goal) (n int) {
	now := r.clock.Now()
	for _, a := range r.Fleet.Approvals {
		if a.Status == rollout.Approved && a.At.After(now) && goalOf(a) == goal {
			n++
		}
	}
	return n
}

func goalOf(a rollout.Approval) Goal {
	return Goal{Deployment: a.Deployment, Environment: a.Environment, Version: a.Version}
}

// askApprover makes one request.
func (r *worldRun) askApprover(request ApprovalRequest, own *requests) error {
	answer, answers := r.Approval(request)
	if !answers {
		own.vain++
		return nil
	}
	by := cmp.Or(answer.By, fmt.Sprintf("approver %d", request.Number))
	switch {
	case answer.After < 0:
		return fmt.Errorf("rollouttest: World.Approval answers request %d of %s %v before it was made: After must be at least 0", request.Number, request.Goal, -answer.After)
	case !answer.Reject && slices.Contains(own.people, by):
		return fmt.Errorf("rollouttest: World.Approval answers request %d of %s by %s, who answers another one: every approval needs another person", request.Number, request.Goal, textlist.Remark(by))
	}
	at := request.At.Add(answer.After)
	a := rollout.Approval{Version: request.Version, Deployment: request.Deployment, Environment: request.Environment, By: by, Status: rollout.Approved, At: at}
	if answer.Reject {
		a.Status = rollout.Rejected
		own.vain++
	} else {
		own.open++
		own.people = append(own.people, by)
	}
	r.insertArrival(Change{At: at, What: approvalText(a), Do: func(s *rollout.Snapshot) {
		s.Approvals = append(s.Approvals, a)
		if !answer.Reject {
			own.open--
		}
	}})
	return nil
}

// insertArrival lets what a person answers arrive, behind all that arrives at that instant, unless
// no plan will ever see it.
func (r *worldRun) insertArrival(change Change) {
	r.arrivals = insertBehind(r.arrivals, change, func(c Change) time.Time { return c.At })
}
