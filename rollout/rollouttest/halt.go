package rollouttest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/internal/textkey"
	"github.com/tranche-dev/tranche/internal/textlist"
	"github.com/tranche-dev/tranche/rollout"
)

// Halt is an execution of a bracket that holds after a failure until somebody decides, or a target
// outside brackets whose version has failed in every attempt that its retry rules allow.
type Halt struct {
	Group    string    // with Resource, which execution; empty outside brackets
	Resource string    // id
	Members  []string  // deployments of the members that failed, ascending; see Decision for one that fails later. Outside brackets the one deployment
	InVain   string    // why no retry of them helps, such as that they went back; empty: one may
	Number   int       // from 1: how often the execution, or the version on the target, has halted since the start of the world, or had it come to be in vain by then to retry it
	At       time.Time // since when it halts, as far as the world knows

	Environment, Version string // of a target outside brackets; empty for an execution
}

// Decision is what an operator does about a Halt.
type Decision struct {
	After time.Duration `json:"after"` // from the halt, at least 0, in JSON in nanoseconds; a decision after 2262-04-11 never comes

	// Kind is the command: retry or skip, for each of the members that failed, or resolve or abandon.
	// Empty: retry. It is for all that have failed by then, also for one that was at work when the
	// execution halted: nobody is asked about that one by itself. Outside brackets there is only
	// retry: an override, for this version on this target, of the retry rules by which no attempt is
	// left. They forget the attempts before it.
	Kind bracket.CommandKind `json:"kind,omitempty"`
}

// RetryAfter returns a function for World.Operator: whatever failed is tried again after that time, or
// skipped where no retry helps, so many times for each execution, or version on a target.
func RetryAfter(d time.Duration, times int) func(Halt) (Decision, bool) {
	return func(halt Halt) (Decision, bool) {
		decision := Decision{After: d, Kind: bracket.Retry}
		if halt.InVain != "" {
			decision.Kind = bracket.Skip
		}
		return decision, halt.Number <= times
	}
}

// halted is an execution that has halted, now or before.
type halted struct {
	times   int
	known   map[string]bool // the members that have failed, and that the operator knows of
	decided bool            // the last time; else nobody does anything
	retries bool            // by then a retry might have helped, and was decided on
	command bracket.Command // by which, if decided, without a member
}

// execution names one.
type execution struct{ group, resource string }

// operate asks the operator about what has halted since the last plan.
func (r *running) operate(plan *rollout.Plan) error {
	if r.Operator == nil {
		return nil
	}
	if err := r.operateExecutions(plan); err != nil {
		return err
	}
	return r.operateTargets(plan)
}

func (r *running) operateExecutions(plan *rollout.Plan) error {
	failed := map[execution]*rollout.Data{}
	for wait := range plan.Waiting.All() {
		for _, b := range wait.Blockers {
			if b.Reason != rollout.Reason(bracket.ReasonFailedHolding) {
				continue
			}
			for _, on := range b.On {
				if on.Kind == rollout.OnOperator {
					failed[execution{on.Group, on.Resource}] = b.Data
				}
			}
		}
	}
	for x, own := range r.halts {
		data := failed[x]
		maps.DeleteFunc(own.known, func(member string, _ bool) bool { return data == nil || !slices.Contains(data.Names, member) }) // it has gone on
	}
	for _, x := range slices.SortedFunc(maps.Keys(failed), func(a, b execution) int {
		return cmp.Or(strings.Compare(a.group, b.group), strings.Compare(a.resource, b.resource))
	}) {
		own := r.halts[x]
		if own == nil {
			own = &halted{known: map[string]bool{}}
			r.halts[x] = own
		}
		members := slices.Sorted(slices.Values(failed[x].Names))
		later := slices.DeleteFunc(slices.Clone(members), func(member string) bool { return own.known[member] })
		given := own.decided && !own.command.At.After(plan.Now)
		if len(later) == 0 && !(given && own.retries && failed[x].Detail != "") { // else the retry was in vain
			continue
		}
		halts := len(own.known) > 0 // since before
		for _, member := range later {
			own.known[member] = true
		}
		switch {
		case halts && !own.decided: // nobody does anything until it has gone on
		case halts && !given:
			r.command(own, later)
		default: // of those that were known, the command has let none go on
			own.times++
			if err := r.decide(own, Halt{Group: x.group, Resource: x.resource, Members: members, InVain: failed[x].Detail, Number: own.times, At: plan.Now}); err != nil {
				return err
			}
		}
	}
	return nil
}

// exhausted is a version of which a target outside brackets has no attempt left.
type exhausted struct {
	target  rollout.TargetID
	version string
}

func (r *running) operateTargets(plan *rollout.Plan) error {
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
			own = &alone{}
			r.exhausted[x] = own
		}
		if own.asked {
			continue // it has not gone on yet
		}
		own.times, own.asked = own.times+1, true
		halt := Halt{Resource: x.target.Resource, Members: []string{x.target.Deployment}, Number: own.times, At: plan.Now, Environment: x.target.Environment, Version: x.version}
		if err := r.override(halt, rules); err != nil {
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
func (r *running) tries(plan *rollout.Plan, wait rollout.Waiting) (version string, blockers []rollout.Verdict) {
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
func (r *running) failedOlder(wait rollout.Waiting) bool {
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

// alone is a version that has halted on a target outside brackets, now or before.
type alone struct {
	times int
	asked bool // the last time, and it has not gone on since
}

// override asks the operator about a target outside brackets, and lets the overrides arrive that were
// decided on.
func (r *running) override(halt Halt, rules []string) error {
	decision, decides := r.Operator(halt)
	if !decides {
		return nil
	}
	target := fmt.Sprintf("%s %s on %s in %s", halt.Members[0], halt.Version, halt.Resource, halt.Environment)
	switch {
	case decision.After < 0:
		return fmt.Errorf("rollouttest: World.Operator decides about halt %d of %s %v before it halts: After must be at least 0", halt.Number, target, -decision.After)
	case cmp.Or(decision.Kind, bracket.Retry) != bracket.Retry:
		return fmt.Errorf("rollouttest: World.Operator decides about halt %d of %s by the command %q: outside brackets use %s", halt.Number, target, decision.Kind, bracket.Retry)
	}
	at := halt.At.Add(decision.After)
	what := strings.TrimSpace(fmt.Sprintf("operator: %s on %s %s", bracket.Retry, textlist.Name(halt.Resource), textlist.Name(halt.Members[0])))
	r.answered(Change{At: at, What: what, Do: func(s *rollout.Snapshot) {
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

// decide asks the operator about one halt of an execution.
func (r *running) decide(own *halted, halt Halt) error {
	decision, decides := r.Operator(halt)
	if own.decided = decides; !decides {
		return nil
	}
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("rollouttest: World.Operator decides about halt %d of %s on %s %s", halt.Number, halt.Group, halt.Resource, fmt.Sprintf(format, args...))
	}
	if decision.After < 0 {
		return wrong("%v before it halts: After must be at least 0", -decision.After)
	}
	own.command = bracket.Command{Kind: cmp.Or(decision.Kind, bracket.Retry), Group: halt.Group, Resource: halt.Resource, At: halt.At.Add(decision.After)}
	own.retries = own.command.Kind == bracket.Retry && halt.InVain == ""
	switch own.command.Kind {
	case bracket.Retry, bracket.Skip:
		r.command(own, halt.Members)
	case bracket.Resolve, bracket.Abandon:
		r.give(own, "")
	default:
		return wrong("by the command %q: use %s, %s, %s or %s", own.command.Kind, bracket.Retry, bracket.Skip, bracket.Resolve, bracket.Abandon)
	}
	return nil
}

// command gives the command that was decided on for members that failed: by name, since one that was
// rolled back is not retried otherwise. One for the execution as a whole is given already.
func (r *running) command(own *halted, members []string) {
	if kind := own.command.Kind; kind != bracket.Retry && kind != bracket.Skip {
		return
	}
	for _, member := range members {
		r.give(own, member)
	}
}

func (r *running) give(own *halted, member string) {
	command := own.command
	command.ID, command.Deployment = textkey.Join("halt", command.Group, command.Resource, strconv.Itoa(own.times), member), member
	what := strings.TrimSpace(fmt.Sprintf("operator: %s on %s %s", textlist.Name(command.Kind), textlist.Name(command.Resource), textlist.Name(member)))
	r.answered(Change{At: command.At, What: what, Do: func(s *rollout.Snapshot) { s.Commands = append(s.Commands, command) }})
}
