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
	Members  []string  // deployments of the members that failed, ascending
	Number   int       // from 1: how often the execution has halted since the start of the world
	At       time.Time // since when it halts, as far as the world knows
}

// Decision is what an operator does about a Halt.
type Decision struct {
	After time.Duration `json:"after"` // from the halt, at least 0, in JSON in nanoseconds; a decision after 2262-04-11 never comes

	// Kind is the command: retry or skip, for each of the members that failed, or resolve or abandon.
	// Empty: retry.
	Kind bracket.CommandKind `json:"kind,omitempty"`
}

// RetryAfter returns a function for World.Operator: whatever failed is tried again after that time,
// so many times for each execution.
func RetryAfter(d time.Duration, times int) func(Halt) (Decision, bool) {
	return func(halt Halt) (Decision, bool) { return Decision{After: d}, halt.Number <= times }
}

// halted is an execution that has halted, now or before.
type halted struct {
	times int
	asked bool // since it halted last
}

// execution names one.
type execution struct{ group, resource string }

// operate asks the operator about the executions that have halted since the last plan.
func (r *running) operate(plan *rollout.Plan) error {
	if r.Operator == nil {
		return nil
	}
	failed := map[execution][]string{}
	for wait := range plan.Waiting.All() {
		for _, b := range wait.Blockers {
			if b.Reason != rollout.Reason(bracket.ReasonFailedHolding) {
				continue
			}
			for _, on := range b.On {
				if on.Kind == rollout.OnOperator && on.Group != "" {
					failed[execution{on.Group, on.Resource}] = b.Data.Names
				}
			}
		}
	}
	for x, own := range r.halts {
		if _, halts := failed[x]; !halts { // it has gone on
			own.asked = false
		}
	}
	for _, x := range slices.SortedFunc(maps.Keys(failed), func(a, b execution) int {
		return cmp.Or(strings.Compare(a.group, b.group), strings.Compare(a.resource, b.resource))
	}) {
		own := r.halts[x]
		if own == nil {
			own = &halted{}
			r.halts[x] = own
		}
		if own.asked {
			continue
		}
		own.asked = true
		own.times++
		if err := r.decide(Halt{Group: x.group, Resource: x.resource, Members: slices.Sorted(slices.Values(failed[x])), Number: own.times, At: plan.Now}); err != nil {
			return err
		}
	}
	return nil
}

// decide asks the operator about one halt.
func (r *running) decide(halt Halt) error {
	decision, decides := r.Operator(halt)
	if !decides {
		return nil
	}
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("rollouttest: World.Operator decides about halt %d of %s on %s %s", halt.Number, halt.Group, halt.Resource, fmt.Sprintf(format, args...))
	}
	if decision.After < 0 {
		return wrong("%v before it halts: After must be at least 0", -decision.After)
	}
	at := halt.At.Add(decision.After)
	command := bracket.Command{Kind: cmp.Or(decision.Kind, bracket.Retry), Group: halt.Group, Resource: halt.Resource, At: at}
	var members []string
	switch command.Kind {
	case bracket.Retry, bracket.Skip:
		members = halt.Members // by name: one that was rolled back is not retried otherwise
	case bracket.Resolve, bracket.Abandon:
		members = []string{""}
	default:
		return wrong("by the command %q: use %s, %s, %s or %s", command.Kind, bracket.Retry, bracket.Skip, bracket.Resolve, bracket.Abandon)
	}
	for _, member := range members {
		own := command
		own.ID, own.Deployment = textkey.Join("halt", halt.Group, halt.Resource, strconv.Itoa(halt.Number), member), member
		what := strings.TrimSpace(fmt.Sprintf("operator: %s on %s %s", textlist.Name(own.Kind), textlist.Name(own.Resource), textlist.Name(member)))
		r.answered(Change{At: at, What: what, Do: func(s *rollout.Snapshot) { s.Commands = append(s.Commands, own) }})
	}
	return nil
}
