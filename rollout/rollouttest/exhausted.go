package rollouttest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/internal/textkey"
	"github.com/tranche-dev/tranche/internal/textlist"
	"github.com/tranche-dev/tranche/rollout"
)

// exhausted is a version of which a target outside brackets has no attempt left.
type exhausted struct {
	target  rollout.TargetID
	version string
}

func (r *worldRun) operateTargets(plan *rollout.Plan) error {
	failed := map[exhausted]bool{}
	for wait := range plan.Waiting.All() {
		version, blockers := r.tries(plan, wait)
		var rules []string
		back := false // no retry brings it forward again
		for _, b := range blockers {
			switch b.Reason {
			case rollout.ReasonRetryExhausted:
				rules = append(rules, b.Rule)
			case rollout.ReasonRollbackTriggered, rollout.ReasonRollbackFailed:
				back = true
			}
		}
		if len(rules) == 0 || back || slices.Contains(rules, "") { // "": there is no rule
			continue
		}
		x := exhausted{wait.TargetID, version}
		failed[x] = true
		own := r.exhausted[x]
		if own == nil {
			own = &haltedVersion{}
			r.exhausted[x] = own
		}
		if own.asked {
			continue // it has not gone on yet
		}
		own.times, own.asked = own.times+1, true
		halt := Halt{Resource: x.target.Resource, Members: []string{x.target.Deployment}, Number: own.times, At: plan.Now, Environment: x.target.Environment, Version: x.version}
		if err := r.askAboutTarget(halt, rules); err != nil {
			return err
		}
	}
	for x, own := range r.exhausted {
		own.asked = own.asked && failed[x]
	}
	return nil
}

// tries returns the version that a target would try next, and what blocks it. That is an older one than
// the one with which it waits while a gate holds that one: the plan goes on with what it has begun.
func (r *worldRun) tries(plan *rollout.Plan, wait rollout.Waiting) (version string, blockers []rollout.Verdict) {
	if !gated(wait.Blockers) || !r.failedOlder(wait) {
		return wait.Version, wait.Blockers
	}
	e, err := plan.Explain(wait.TargetID)
	if err != nil { // that of a World.Plan
		return wait.Version, wait.Blockers
	}
	for _, v := range e.Versions { // the newest first
		if blockers := verdicts(v.Blockers()); v.Prospect != rollout.ProspectOutOfScope && !gated(blockers) {
			return v.Version, blockers
		}
	}
	return wait.Version, wait.Blockers
}

// gated reports whether a version waits for an approval, or for another of the gates that
// [ApprovalRequest] names.
func gated(blockers []rollout.Verdict) bool {
	missing, held := lacking(blockers)
	return missing > 0 || held
}

// failedOlder reports whether the last job of a target was one of another version than it waits with, and
// did not succeed. Most targets need no explanation, which takes as long as some plans of a target.
func (r *worldRun) failedOlder(wait rollout.Waiting) bool {
	i, known := r.targets[wait.TargetID]
	if !known {
		return false // a World.Plan made it up
	}
	var last *rollout.Job
	jobs := r.fleet.Targets[i].Jobs
	for k := range jobs {
		if last == nil || compareJobs(&jobs[k], last) > 0 {
			last = &jobs[k]
		}
	}
	return last != nil && last.Version != wait.Version && last.Status.Terminal() && last.Status != rollout.JobSuccessful
}

// haltedVersion is a version that has halted on a target outside brackets, now or before.
type haltedVersion struct {
	times int
	asked bool // the last time, and it has not gone on since
}

// askAboutTarget asks the operator about a target outside brackets, and lets the overrides arrive
// that were decided on.
func (r *worldRun) askAboutTarget(halt Halt, rules []string) error {
	what := fmt.Sprintf("%s %s on %s in %s, which is outside brackets,", halt.Members[0], halt.Version, halt.Resource, halt.Environment)
	decision, decides, err := r.askOperator(halt, what, bracket.Retry)
	if !decides {
		return err
	}
	at := halt.At.Add(decision.After)
	note := strings.TrimSpace(fmt.Sprintf("operator: %s on %s %s", bracket.Retry, textlist.Name(halt.Resource), textlist.Name(halt.Members[0])))
	r.insertArrival(Change{At: at, What: note, Do: func(s *rollout.Snapshot) {
		for _, rule := range rules {
			s.Overrides = append(s.Overrides, rollout.Override{
				ID:   textkey.Join("halt", halt.Environment, halt.Resource, halt.Members[0], halt.Version, strconv.Itoa(halt.Number), rule),
				Rule: rule, Version: halt.Version, Deployment: halt.Members[0], Environment: halt.Environment, Resource: halt.Resource,
				CreatedAt: at, CreatedBy: "operator", Reason: "try again",
			})
		}
	}})
	return nil
}
