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

// haltedExecution is an execution that has halted, now or before.
type haltedExecution struct {
	times   int
	known   map[string]bool // the members that have failed, and that the operator knows of
	decided bool            // the last time; else nobody does anything
	retries bool            // by then a retry might have helped, and was decided on
	command bracket.Command // by which, if decided, without a member
}

// execution names one.
type execution struct{ group, resource string }

// operate asks the operator about what has halted since the last plan.
func (r *worldRun) operate(plan *rollout.Plan) error {
	if r.Operator == nil {
		return nil
	}
	if err := r.operateExecutions(plan); err != nil {
		return err
	}
	return r.operateTargets(plan)
}

func (r *worldRun) operateExecutions(plan *rollout.Plan) error {
	failed := haltedBy(plan)
	for x, own := range r.halts {
		data := failed[x]
		maps.DeleteFunc(own.known, func(member string, _ bool) bool { return data == nil || !slices.Contains(data.Names, member) }) // it has gone on
	}
	for _, x := range slices.SortedFunc(maps.Keys(failed), func(a, b execution) int {
		return cmp.Or(strings.Compare(a.group, b.group), strings.Compare(a.resource, b.resource))
	}) {
		if r.halts[x] == nil {
			r.halts[x] = &haltedExecution{known: map[string]bool{}}
		}
		if err := r.operateExecution(x, r.halts[x], failed[x], plan.Now); err != nil {
			return err
		}
	}
	return nil
}

// haltedBy returns, by the executions that have failed and hold, what the plan says about them.
func haltedBy(plan *rollout.Plan) map[execution]*rollout.Data {
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
	return failed
}

// operateExecution asks about an execution that has halted, if more of its members have failed than
// the operator knows of, or if a retry was in vain.
func (r *worldRun) operateExecution(x execution, own *haltedExecution, failed *rollout.Data, now time.Time) error {
	members := slices.Sorted(slices.Values(failed.Names))
	more := slices.DeleteFunc(slices.Clone(members), func(member string) bool { return own.known[member] })
	given := own.decided && !own.command.At.After(now)
	if len(more) == 0 && !(given && own.retries && failed.Detail != "") { // else the retry was in vain
		return nil
	}
	halts := len(own.known) > 0 // since before
	for _, member := range more {
		own.known[member] = true
	}
	switch {
	case halts && !own.decided: // nobody does anything until it has gone on
		return nil
	case halts && !given:
		r.giveCommands(own, more)
		return nil
	}
	own.times++ // of those that were known, the command has let none go on
	return r.askAboutExecution(own, Halt{Group: x.group, Resource: x.resource, Members: members, InVain: failed.Detail, Number: own.times, At: now})
}

// askOperator asks the operator about a halt, and makes sure that what is decided is one of the
// kinds.
func (r *worldRun) askOperator(halt Halt, what string, kinds ...bracket.CommandKind) (decision Decision, decides bool, err error) {
	if decision, decides = r.Operator(halt); !decides {
		return decision, false, nil
	}
	decision.Kind = cmp.Or(decision.Kind, bracket.Retry)
	switch {
	case decision.After < 0:
		err = fmt.Errorf("%v before it halts: After must be at least 0", -decision.After)
	case !slices.Contains(kinds, decision.Kind):
		err = fmt.Errorf("by the command %q: use one of %q", decision.Kind, kinds)
	}
	if err != nil {
		return decision, false, fmt.Errorf("rollouttest: World.Operator decides about halt %d of %s %w", halt.Number, what, err)
	}
	return decision, true, nil
}

// askAboutExecution asks the operator about one halt of an execution.
func (r *worldRun) askAboutExecution(own *haltedExecution, halt Halt) error {
	decision, decides, err := r.askOperator(halt, halt.Group+" on "+halt.Resource, bracket.Retry, bracket.Skip, bracket.Resolve, bracket.Abandon)
	if own.decided = decides; !decides {
		return err
	}
	own.command = bracket.Command{Kind: decision.Kind, Group: halt.Group, Resource: halt.Resource, At: halt.At.Add(decision.After)}
	own.retries = own.command.Kind == bracket.Retry && halt.InVain == ""
	switch own.command.Kind {
	case bracket.Retry, bracket.Skip:
		r.giveCommands(own, halt.Members)
	default:
		r.giveCommand(own, "")
	}
	return nil
}

// giveCommands gives the command that was decided on for members that failed: by name, since one
// that was rolled back is not retried otherwise. One for the execution as a whole is given already.
func (r *worldRun) giveCommands(own *haltedExecution, members []string) {
	if kind := own.command.Kind; kind != bracket.Retry && kind != bracket.Skip {
		return
	}
	for _, member := range members {
		r.giveCommand(own, member)
	}
}

func (r *worldRun) giveCommand(own *haltedExecution, member string) {
	command := own.command
	command.ID, command.Deployment = textkey.Join("halt", command.Group, command.Resource, strconv.Itoa(own.times), member), member
	what := strings.TrimSpace(fmt.Sprintf("operator: %s on %s %s", textlist.Name(command.Kind), textlist.Name(command.Resource), textlist.Name(member)))
	r.insertArrival(Change{At: command.At, What: what, Do: func(s *rollout.Snapshot) { s.Commands = append(s.Commands, command) }})
}
