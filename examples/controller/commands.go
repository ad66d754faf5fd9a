package controller

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/examples/controller/api/v1alpha1"
	"github.com/tranche-dev/tranche/rollout"
)

// Reasons of [v1alpha1.ConditionEffective], beside given_back.
const (
	reasonApplied       = "applied"
	reasonCommandWaits  = "command_waits"
	reasonWithoutEffect = string(rollout.DiagnosticCommandWithoutEffect)
)

// maxHints is how many slots the message of a release names.
const maxHints = 10

// onCommands says on every command what came of it. What the planner hears it judges by itself, and
// the policies say the same. Of a release, which it does not hear, see released; one that has given
// slots back goes on saying so, for nothing else remembers that.
func (r *reporter) onCommands(ctx context.Context, seen *observation, plan rollout.Plan) error {
	if len(seen.orders) == 0 {
		return nil
	}
	applied := map[string]bool{}
	for _, record := range plan.State.Executions {
		var lists [][]bracket.Command
		if record.Open != nil {
			lists = append(lists, record.Open.Decisions)
		}
		for _, last := range record.Last {
			lists = append(lists, last.Decisions)
		}
		for _, decision := range slices.Concat(lists...) {
			applied[decision.ID] = true
		}
	}
	left := left(plan)
	for i := range seen.orders {
		order := &seen.orders[i]
		var old v1alpha1.BracketCommand
		order.DeepCopyInto(&old)
		id := identity(order) + ": "
		refused := slices.IndexFunc(plan.Diagnostics, func(d rollout.Diagnostic) bool {
			return d.Code == rollout.DiagnosticCommandWithoutEffect && strings.HasPrefix(d.Detail, id)
		})
		ok, reason, message := true, "", ""
		switch {
		case order.Spec.Command == v1alpha1.CommandRelease:
			holder := concurrency.Holder{Resource: order.Spec.Machine, Group: order.Spec.Group}
			if ok = r.given[holder]; ok {
				reason, message = reasonGivenBack, fmt.Sprintf("the slots of %s on %s", holder.Group, holder.Resource)
			} else if !meta.IsStatusConditionTrue(order.Status.Conditions, v1alpha1.ConditionEffective) {
				reason, message = released(holder, seen, plan, left)
			}
		case applied[identity(order)]:
			reason = reasonApplied
		case refused >= 0:
			ok, reason, message = false, reasonWithoutEffect, strings.TrimPrefix(plan.Diagnostics[refused].Detail, id)
		case !meta.IsStatusConditionTrue(order.Status.Conditions, v1alpha1.ConditionEffective):
			meta.RemoveStatusCondition(&order.Status.Conditions, v1alpha1.ConditionEffective)
		}
		if reason != "" {
			r.set(order, &order.Status.Conditions, condition(v1alpha1.ConditionEffective, ok, reason, message, order.Generation, r.now))
		}
		if err := r.patch(ctx, order, &old, equality.Semantic.DeepEqual(order.Status, old.Status)); err != nil {
			return err
		}
	}
	return nil
}

// left returns the holders of the slots that abandoned executions have left behind, in order. Those
// that were given back after the plan are among them.
func left(plan rollout.Plan) (holders []concurrency.Holder) {
	for _, pool := range plan.State.Pools {
		for _, lease := range pool.Leases {
			if lease.State == concurrency.Quarantined {
				holders = append(holders, lease.Holder)
			}
		}
	}
	slices.SortFunc(holders, func(a, b concurrency.Holder) int {
		return cmp.Or(strings.Compare(a.Resource, b.Resource), strings.Compare(a.Group, b.Group))
	})
	return slices.Compact(holders)
}

// released says why a release has not given back what it names; nothing if it is about to.
func released(holder concurrency.Holder, seen *observation, plan rollout.Plan, left []concurrency.Holder) (reason, message string) {
	_, observed := seen.find(holder.Resource)
	_, _, _, group := bracket.ParseGroupID(holder.Group)
	begun := slices.ContainsFunc(plan.State.Executions, func(record *bracket.ExecutionRecord) bool {
		return record.Open != nil && record.Resource == holder.Resource && (record.Open.Group == holder.Group || slices.Contains(record.Open.Merged, holder.Group))
	})
	switch {
	case slices.Contains(left, holder) && observed:
		if !slices.ContainsFunc(plan.Orphans, func(l concurrency.Lease) bool { return l.Holder == holder }) {
			return reasonCommandWaits, fmt.Sprintf("a job of %s on %s has not ended: its slot is given back when it has", holder.Group, holder.Resource)
		}
		return "", "" // somebody else was quicker with its pool
	case begun:
		return reasonCommandWaits, fmt.Sprintf("the execution of %s on %s has not ended: there is nothing to release before somebody has abandoned it", holder.Group, holder.Resource)
	case !observed:
		message = fmt.Sprintf("there is no machine %s, or it is not seen yet", holder.Resource)
	case !group:
		message = fmt.Sprintf("%s is the id of no group", holder.Group)
	default:
		message = fmt.Sprintf("%s holds no slot of an abandoned execution of %s: it was given back before, or the command names another machine or group", holder.Resource, holder.Group)
	}
	return reasonWithoutEffect, message + hints(holder, left)
}

// hints names the slots that wait for a release, those that a misspelt one may mean first.
func hints(holder concurrency.Holder, left []concurrency.Holder) string {
	if len(left) == 0 {
		return "; no slot waits for a release"
	}
	far := func(h concurrency.Holder) int {
		switch {
		case h.Resource == holder.Resource:
			return 0
		case h.Group == holder.Group:
			return 1
		}
		return 2
	}
	left = slices.Clone(left)
	slices.SortStableFunc(left, func(a, b concurrency.Holder) int { return cmp.Compare(far(a), far(b)) })
	var list []string
	for _, h := range left[:min(len(left), maxHints)] {
		list = append(list, fmt.Sprintf("machine %s with group %s", h.Resource, h.Group))
	}
	if more := len(left) - len(list); more > 0 {
		list = append(list, fmt.Sprintf("and %d more", more))
	}
	return "; these wait for a release: " + strings.Join(list, ", ")
}
