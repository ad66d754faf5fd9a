package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/examples/controller/api/v1alpha1"
	"github.com/tranche-dev/tranche/examples/internal/program"
	"github.com/tranche-dev/tranche/rollout"
	"github.com/tranche-dev/tranche/selector"
)

// policies are those of one namespace, as compiled.
type policies struct {
	items  []v1alpha1.RolloutPolicy
	set    *rollout.PolicySet // nil if there is no policy, or if one is not valid
	faults map[string]error   // by the name of the object
}

// compiler compiles policies once per generation. The zero value is ready for use.
type compiler struct {
	mu       sync.Mutex
	compiled map[string]compiled // by namespace
}

type compiled struct {
	generations string
	set         *rollout.PolicySet
	faults      map[string]error
}

// load reads and compiles the policies of a namespace. Faults of policies are part of the result,
// the error is the reader's.
func (c *compiler) load(ctx context.Context, reader client.Reader, namespace string) (policies, error) {
	var list v1alpha1.RolloutPolicyList
	if err := reader.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return policies{}, fmt.Errorf("controller: list policies: %w", err)
	}
	slices.SortFunc(list.Items, func(a, b v1alpha1.RolloutPolicy) int { return strings.Compare(a.Name, b.Name) })
	var generations strings.Builder
	for i := range list.Items {
		fmt.Fprintf(&generations, "%s %s %d\n", list.Items[i].Name, list.Items[i].UID, list.Items[i].Generation)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	known, found := c.compiled[namespace]
	if !found || known.generations != generations.String() {
		set, faults, err := compile(list.Items)
		if err != nil {
			return policies{}, err
		}
		known = compiled{generations.String(), set, faults}
		if c.compiled == nil {
			c.compiled = map[string]compiled{}
		}
		if c.compiled[namespace] = known; len(list.Items) == 0 {
			delete(c.compiled, namespace)
		}
	}
	return policies{list.Items, known.set, known.faults}, nil
}

// compile compiles every policy on its own, to say which one is at fault, and then all of them, for
// faults between them. What no policy governs is held: in a namespace without policies nothing starts
// either, and a misspelt selector must not lift every limit.
func compile(items []v1alpha1.RolloutPolicy) (*rollout.PolicySet, map[string]error, error) {
	env, err := selector.NewEnv(selector.DefaultSchema(), selector.Limits{})
	if err != nil {
		return nil, nil, err
	}
	zones := rollout.WithZones(time.LoadLocation)
	faults := map[string]error{}
	var all []rollout.Policy
	for i := range items {
		one, err := rollout.Load(items[i].Spec.Raw, env, zones)
		if err != nil {
			faults[items[i].Name] = program.Below("spec", err)
			continue
		}
		list := one.Policies()
		if len(list) != 1 {
			faults[items[i].Name] = fmt.Errorf("spec: a list of %d: must be one policy, each has an object of its own", len(list))
		}
		all = append(all, list...)
	}
	if len(items) == 0 || len(faults) > 0 {
		return nil, faults, nil
	}
	set, err := rollout.Compile(all, env, zones, rollout.WithUngovernedHeld(), rollout.WithRule(leaving{}))
	if err != nil {
		for i := range items {
			faults[items[i].Name] = fmt.Errorf("together with the other policies of the namespace, in order of their names: %w", err)
		}
		return nil, faults, nil
	}
	return set, faults, nil
}

// leaving is the rule that nothing new begins on a machine that is being deleted, which a finalizer
// may take time over. What has begun there is finished: its bracket, or the attempts of its retry
// rule.
type leaving struct{}

// ID implements [rollout.CustomRule].
func (leaving) ID() string { return "machine" }

// Judge implements [rollout.CustomRule].
func (leaving) Judge(c rollout.Candidate) rollout.Verdict {
	if _, is := c.Resource.Metadata[metadataDeleted]; !is {
		return rollout.Verdict{Status: rollout.Allowed}
	}
	return rollout.Verdict{Status: rollout.Denied, Reason: reasonDeleted}
}

// metadataDeleted is in the metadata of a machine that is being deleted, beside its labels, none of
// which has a key with a blank.
const metadataDeleted = "being deleted"

// deleted reports whether an object is being deleted, which nothing revokes.
func deleted(object client.Object) bool { return !object.GetDeletionTimestamp().IsZero() }

// errRejected marks what the namespace itself says wrong: no second try helps, only a change.
var errRejected = errors.New("controller: rejected")

// told reports whether planning failed because of what the library or the store was given, but not
// surely by the namespace: a record may be at fault as well, which nobody watches. It is said on the
// policies like what is rejected, and tried again.
func told(err error) bool {
	var bracketed *bracket.FieldError
	var pooled *concurrency.FieldError
	return errors.Is(err, errKey) || errors.As(err, &bracketed) || errors.As(err, &pooled)
}

// rejected reports whether planning failed because of what the namespace says.
func rejected(err error) bool {
	var contradiction *rollout.FieldError
	var cycle *rollout.CycleError
	var members *bracket.CycleError
	var roles *bracket.RoleError
	var twice *bracket.OverlapError
	return errors.Is(err, errRejected) || errors.As(err, &contradiction) || errors.As(err, &cycle) || errors.As(err, &members) || errors.As(err, &roles) || errors.As(err, &twice)
}
