package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/examples/controller/api/v1alpha1"
	"github.com/tranche-dev/tranche/rollout"
)

// Reasons of conditions that are not reasons of the library. Those are used as they are: slot_full,
// rollout_not_due and so on.
const (
	reasonValid    = "valid"
	reasonInvalid  = "invalid"
	reasonPlanned  = "planned"
	reasonRejected = "rejected"
	reasonRunning  = string(rollout.ReasonStarted)
	reasonCurrent  = string(rollout.ReasonCurrent)

	reasonDeleted = "being_deleted" // of a rule of this controller, see leaving

	reasonGivenBack = "given_back" // of an event
)

// maxMessage is what the message of a condition may hold.
const maxMessage = 32768

// reporter tells people what a plan says: conditions on policies, commands and machines, and an event
// when the reason of a condition changes. It writes only what differs, so a fleet at rest costs
// nothing; two controllers that see different pasts may overwrite one another until they see the same.
type reporter struct {
	client   client.Client
	recorder events.EventRecorder
	now      time.Time

	news    []func() // the events of what the next patch says; they are emitted when the server has taken it
	unsaid  []string // the objects whose status the server did not take: nothing waits for them, see namespace.again
	denials error    // why it refused them, unless somebody else was quicker

	given map[concurrency.Holder]bool // of abandoned executions: whether this turn has given back all slots
}

func condition(kind string, ok bool, reason, message string, generation int64, now time.Time) metav1.Condition {
	if len(message) > maxMessage {
		message = strings.ToValidUTF8(message[:maxMessage-len("…")], "") + "…"
	}
	status := metav1.ConditionFalse
	if ok {
		status = metav1.ConditionTrue
	}
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: generation, LastTransitionTime: metav1.NewTime(now)}
}

// set puts a condition into a list. If its reason is new there is an event about it, after the next
// patch: a status that the server refuses again and again would have one each time.
func (r *reporter) set(about client.Object, list *[]metav1.Condition, c metav1.Condition) {
	before := meta.FindStatusCondition(*list, c.Type)
	news := before == nil || before.Reason != c.Reason
	meta.SetStatusCondition(list, c)
	if news {
		kind := corev1.EventTypeNormal
		if c.Reason == reasonInvalid || c.Reason == reasonRejected || c.Reason == reasonWithoutEffect {
			kind = corev1.EventTypeWarning
		}
		note, _, _ := strings.Cut(c.Message, "\n")
		r.news = append(r.news, func() { r.event(about, kind, c.Reason, c.Type, note) })
	}
}

// maxNote is what the note of an event may hold.
const maxNote = 1024

func (r *reporter) event(about client.Object, kind, reason, action, note string) {
	if r.recorder != nil {
		r.recorder.Eventf(about, nil, kind, reason, action, "%s", strings.ToValidUTF8(note[:min(len(note), maxNote)], ""))
	}
}

// nothingPlanned is what a policy says as long as one of the namespace is not valid.
const nothingPlanned = "nothing is planned until every policy of the namespace is valid"

// accepted reports which policies are valid, and that there is no plan if one is not.
func (r *reporter) accepted(ctx context.Context, found policies) error {
	return r.onPolicies(ctx, found, func(policy *v1alpha1.RolloutPolicy) {
		c := condition(v1alpha1.ConditionAccepted, true, reasonValid, "", policy.Generation, r.now)
		if fault := found.faults[policy.Name]; fault != nil {
			c = condition(v1alpha1.ConditionAccepted, false, reasonInvalid, fault.Error(), policy.Generation, r.now)
		} else if len(found.faults) > 0 {
			c.Message = nothingPlanned
		}
		r.set(policy, &policy.Status.Conditions, c)
		if len(found.faults) > 0 {
			r.noPlan(policy, reasonInvalid, nothingPlanned)
		}
	})
}

// refused reports why there is no plan.
func (r *reporter) refused(ctx context.Context, found policies, fault error) error {
	return r.onPolicies(ctx, found, func(policy *v1alpha1.RolloutPolicy) { r.noPlan(policy, reasonRejected, fault.Error()) })
}

// noPlan has a policy say that there is no plan, nor will be one until something changes.
func (r *reporter) noPlan(policy *v1alpha1.RolloutPolicy, reason, message string) {
	r.set(policy, &policy.Status.Conditions, condition(v1alpha1.ConditionPlanned, false, reason, message, policy.Generation, r.now))
	policy.Status.NextPlan, policy.Status.Collecting, policy.Status.Queue = nil, nil, nil
}

// maxQueue is how much of the queue a policy shows.
const maxQueue = 10

// planned reports a plan, on the policies, the commands and every machine.
func (r *reporter) planned(ctx context.Context, found policies, seen *observation, plan rollout.Plan) error {
	message := ""
	for _, d := range slices.Concat(plan.Diagnostics, seen.never) {
		message += fmt.Sprintf("%s: %s\n", d.Code, d.Detail)
	}
	for _, lease := range plan.Orphans {
		message += fmt.Sprintf("orphan: %s holds a slot of %s for %s with token %d and is not at work", lease.Resource, lease.Pool, lease.Group, lease.Token)
		if target, single := rollout.TargetOf(lease.Holder); single {
			message += fmt.Sprintf("; after %v of this it is given back", grace)
			if slices.ContainsFunc(seen.snapshot.Freezes, func(z rollout.Freeze) bool { return z.Holds(target, plan.Now) }) {
				message += ", or after the freeze, if its job is still to be created" // see dispatcher.idle
			}
		}
		message += "\n"
	}
	var next *metav1.Time
	if !plan.Next.IsZero() {
		next = &metav1.Time{Time: plan.Next.Truncate(time.Second)}
	}
	var collecting []string
	for _, record := range plan.State.Brackets {
		if record.Collecting != nil {
			collecting = append(collecting, record.Collecting.ID)
		}
	}
	queued, err := plan.Queue()
	if err != nil {
		return err
	}
	var queue []string
	for _, q := range queued[:min(len(queued), maxQueue)] {
		queue = append(queue, q.String())
	}
	err = r.onPolicies(ctx, found, func(policy *v1alpha1.RolloutPolicy) {
		r.set(policy, &policy.Status.Conditions, condition(v1alpha1.ConditionPlanned, true, reasonPlanned, strings.TrimSuffix(message, "\n"), policy.Generation, r.now))
		policy.Status.Waiting, policy.Status.Running, policy.Status.NextPlan = int32(plan.Waiting.Len()), int32(seen.active+len(plan.Start)), next
		policy.Status.Collecting, policy.Status.Queue = collecting, queue
	})
	return errors.Join(err, r.onCommands(ctx, seen, plan), r.onMachines(ctx, seen, plan))
}

func (r *reporter) onPolicies(ctx context.Context, found policies, change func(*v1alpha1.RolloutPolicy)) error {
	for i := range found.items {
		policy := &found.items[i]
		var old v1alpha1.RolloutPolicy
		policy.DeepCopyInto(&old)
		change(policy)
		policy.Status.ObservedGeneration = policy.Generation
		if err := r.patch(ctx, policy, &old, equality.Semantic.DeepEqual(policy.Status, old.Status)); err != nil {
			return err
		}
	}
	return nil
}

// onMachines says on every machine what it waits for: one blocker is the reason, see headline, unless
// the machine is being deleted and no bracket has begun there, which may wait for a person; all of
// them are the message.
func (r *reporter) onMachines(ctx context.Context, seen *observation, plan rollout.Plan) error {
	waiting := map[string][]rollout.Waiting{}
	for wait := range plan.Waiting.All() {
		waiting[wait.Resource] = append(waiting[wait.Resource], wait)
	}
	starting := map[string][]string{}
	for _, start := range plan.Start {
		starting[start.Resource] = append(starting[start.Resource], start.Deployment)
	}
	begun := map[string]bool{} // machines with a bracket that goes on
	for _, record := range plan.State.Executions {
		if record.Open != nil {
			begun[record.Resource] = true
		}
	}
	for i := range seen.machines {
		machine := &seen.machines[i]
		var old v1alpha1.Machine
		machine.DeepCopyInto(&old)
		at := append(slices.Clip(seen.running[machine.Name]), starting[machine.Name]...)
		c := condition(v1alpha1.ConditionUpToDate, true, reasonCurrent, "", machine.Generation, r.now)
		if waits := waiting[machine.Name]; len(at) > 0 {
			c = condition(v1alpha1.ConditionUpToDate, false, reasonRunning, strings.Join(at, ", "), machine.Generation, r.now)
		} else if len(waits) > 0 {
			why := headline(waits)
			if deleted(machine) && !begun[machine.Name] {
				why = reasonDeleted // a bracket has reasons of its own, and does not begin for this one
			}
			c = condition(v1alpha1.ConditionUpToDate, false, string(why), explain(waits, why), machine.Generation, r.now)
		}
		r.set(machine, &machine.Status.Conditions, c)
		if err := r.patch(ctx, machine, &old, equality.Semantic.DeepEqual(machine.Status, old.Status)); err != nil {
			return err
		}
	}
	return nil
}

// ungoverned takes back what the last plan said on the machines of a namespace that has no policies
// any more.
func (r *reporter) ungoverned(ctx context.Context, namespace string) error {
	var machines v1alpha1.MachineList
	if err := r.client.List(ctx, &machines, client.InNamespace(namespace)); err != nil {
		return fmt.Errorf("controller: list machines: %w", err)
	}
	for i := range machines.Items {
		machine := &machines.Items[i]
		var old v1alpha1.Machine
		machine.DeepCopyInto(&old)
		said := meta.RemoveStatusCondition(&machine.Status.Conditions, v1alpha1.ConditionUpToDate)
		if err := r.patch(ctx, machine, &old, !said); err != nil {
			return err
		}
	}
	return nil
}

// headline returns the reason of a machine: the first blocker of its first waiting target. But if
// somebody has frozen one of them it says that, for what waits for the frozen one would say something
// else. Only a bracket that has failed there comes first: that waits for a person, frozen or not.
func headline(waits []rollout.Waiting) rollout.Reason {
	frozen, failed := false, false
	for _, wait := range waits {
		for _, verdict := range wait.Blockers {
			frozen = frozen || verdict.Reason == rollout.ReasonFrozen
			failed = failed || verdict.Reason == rollout.Reason(bracket.ReasonFailedHolding)
		}
	}
	switch {
	case frozen && failed:
		return rollout.Reason(bracket.ReasonFailedHolding)
	case frozen:
		return rollout.ReasonFrozen
	}
	return waits[0].Blockers[0].Reason
}

// explain writes the blockers of one machine, each on a line with the rule that it is of; targets
// with the same blockers share it. Those of the reason come first: an event has the first line only.
// The facts behind them, such as who holds the slots, are left out: they change with every start
// elsewhere, and would have the whole fleet written each time. Who froze it and why stays as it is.
func explain(waits []rollout.Waiting, why rollout.Reason) string {
	var first, lines []string
	for _, wait := range waits {
		for _, verdict := range wait.Blockers {
			if verdict.Reason != rollout.ReasonFrozen {
				verdict.Data = nil
			}
			line := verdict.String()
			if verdict.Rule != "" {
				line = verdict.Rule + ": " + line
			}
			list := &lines
			if verdict.Reason == why {
				list = &first
			}
			if !slices.Contains(*list, line) {
				*list = append(*list, line)
			}
		}
	}
	return strings.Join(append(first, lines...), "\n")
}

// patch writes a status, and emits the events about it. An object that is gone needs none. That the
// server does not take the status of this one object is noted, and the next one is written all the
// same.
//
// The patch replaces the list of conditions as a whole, and may hold only what the cache shows.
// Therefore it applies to the version that was read and to no other: the condition that somebody
// else has written since would be lost.
func (r *reporter) patch(ctx context.Context, object, old client.Object, same bool) error {
	news := r.news
	r.news = nil
	if same {
		return nil
	}
	switch err := r.client.Status().Patch(ctx, object, client.MergeFromWithOptions(old, client.MergeFromWithOptimisticLock{})); {
	case err == nil:
		for _, emit := range news {
			emit()
		}
		return nil
	case apierrors.IsNotFound(err):
		return nil
	case apierrors.IsConflict(err): // no denial: the cache is about to show what was written
	case denied(err):
		refusals.WithLabelValues(kindOf(object)).Inc()
		r.denials = errors.Join(r.denials, fmt.Errorf("controller: report on %s: %w", object.GetName(), err))
	default:
		return fmt.Errorf("controller: report on %s: %w", object.GetName(), err)
	}
	r.unsaid = append(r.unsaid, fmt.Sprintf("%T %s", object, object.GetName()))
	return nil
}

// again returns when to report again what the server did not take in this turn, and logs what it
// refused: when that has been so for twice as long. So each delay doubles until it is that of the
// resync, and turns in between, for other reasons, change nothing about that. It is zero if the
// server has taken everything.
func (n *namespace) again(ctx context.Context, report *reporter, now time.Time) (next time.Time) {
	if report.denials != nil {
		log.FromContext(ctx).Error(report.denials, "the server refuses a status; it is written again after a delay that grows")
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	unsaid := map[string]time.Time{}
	for _, object := range report.unsaid {
		since, known := n.unsaid[object]
		if !known {
			since = now // the end of the turn, which may have taken long
		}
		unsaid[object] = since
		if at := now.Add(max(now.Sub(since), retryDelay)); next.IsZero() || at.Before(next) {
			next = at
		}
	}
	n.unsaid = unsaid
	return next
}
