package rollout

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/internal/textkey"
)

// Forget returns the state without the records of executions on some resources, which otherwise
// outlive them: in a fleet whose nodes come and go under ids of their own the state grows. A record
// with an open execution stays: a plan with the resource in DeletedResources ends it. Name only
// resources that no planner's snapshot lists any more.
//
// If such a resource is planned for again, it is like one that nobody has seen before: its brackets
// begin again. If the snapshot then has jobs of an execution of the latest group, that execution is
// taken up again from them, failures included, even if it was given up. So where ids come back,
// name a resource only once its jobs are gone as well.
//
// Ids that the state does not know are no fault. The state itself is not modified.
func (s State) Forget(resources []string) State {
	named := setOf(resources)
	s.Executions = slices.DeleteFunc(slices.Clone(s.Executions), func(record *bracket.ExecutionRecord) bool {
		return named[record.Resource] && record.Open == nil
	})
	return s
}

// Forget deletes from the store what [State.Forget] leaves out. It uses only the Store of the
// Planner. It deletes record by record, each only if it is as it was read, and may be repeated
// after any error. The error wraps [bracket.ErrConflict] if a planner has saved a record meanwhile:
// some planner still plans for that resource, or has just ended its execution. Any other error is
// that of the store, or a fault of a stored record, which is left as it is.
func (p *Planner) Forget(ctx context.Context, resources []string) error {
	if err := p.forget(ctx, setOf(resources)); err != nil {
		return fmt.Errorf("rollout: forget executions: %w", err)
	}
	return nil
}

func (p *Planner) forget(ctx context.Context, named map[string]bool) error {
	if p.Store == nil {
		return errors.New("the Planner has no Store")
	}
	entries, err := p.Store.List(ctx, executionKeys())
	if err != nil {
		return err
	}
	for _, entry := range entries {
		var kind, group, rule, resource string
		if !textkey.Scan(entry.Key, &kind, &group, &rule, &resource) || !named[resource] {
			continue
		}
		record, err := decodeUnder(entry.Key, entry.Value, decode[bracket.ExecutionRecord], executionKey)
		if err != nil {
			return err
		}
		if record.Open != nil {
			continue
		}
		if err := p.Store.Delete(ctx, entry.Key, entry.Revision); err != nil && !errors.Is(err, bracket.ErrNotFound) {
			return fmt.Errorf("%s: %w", entry.Key, err)
		}
	}
	return nil
}

func setOf(texts []string) map[string]bool {
	set := make(map[string]bool, len(texts))
	for _, text := range texts {
		set[text] = true
	}
	return set
}
