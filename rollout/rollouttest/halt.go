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

// Halt is an execution of a bracket that holds after a failure until somebody decides.
type Halt struct {
	Group    string    // with Resource, which execution
	Resource string    // id
	Members  []string  // deployments of the members that failed, ascending; see Decision for one that fails later
	InVain   string    // why no retry of them helps, such as that they went back; empty: one may
	Number   int       // from 1: how often the execution has halted since the start of the world
	At       time.Time // since when it halts, as far as the world knows
}

// Decision is what an operator does about a Halt.
type Decision struct {
	After time.Duration `json:"after"` // from the halt, at least 0, in JSON in nanoseconds; a decision after 2262-04-11 never comes

	// Kind is the command: retry or skip, for each of the members that failed, or resolve or abandon.
	// Empty: retry. It is for all that have failed by then, also for one that was at work when the
	// execution halted: nobody is asked about that one by itself.
	Kind bracket.CommandKind `json:"kind,omitempty"`
}

// RetryAfter returns a function for World.Operator: whatever failed is tried again after that time, or
// skipped where no retry helps, so many times for each execution.
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
	command bracket.Command // by which, if decided, without a member
}

// execution names one.
type execution struct{ group, resource string }

// operate asks the operator about the executions that have halted since the last plan.
func (r *running) operate(plan *rollout.Plan) error {
	if r.Operator == nil {
		return nil
	}
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
		if len(later) == 0 {
			continue
		}
		halts := len(own.known) > 0 // since before
		for _, member := range later {
			own.known[member] = true
		}
		switch {
		case halts && !own.decided: // nobody does anything until it has gone on
		case halts && own.command.At.After(plan.Now):
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

// decide asks the operator about one halt.
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
