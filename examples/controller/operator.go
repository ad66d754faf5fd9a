package controller

import (
	"context"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/examples/controller/api/v1alpha1"
	"github.com/tranche-dev/tranche/rollout"
)

// decisions are what people have decided in a namespace. They may be as old as a cache: what is not
// seen yet is heard later. What was deleted may be heard once more; where it was decided is not for
// a plan to say.
type decisions struct {
	approvals []rollout.Approval
	overrides []rollout.Override
	freezes   []rollout.Freeze
	commands  []bracket.Command
	released  map[concurrency.Holder]bool // whose slots are given back if they are quarantined
	never     []rollout.Diagnostic        // about overrides that expire before they begin
	orders    []v1alpha1.BracketCommand   // the objects of all commands, those to release included
}

// decide reads them. One that is being deleted was taken back, and a finalizer does not keep it in
// force.
func decide(ctx context.Context, reader client.Reader, namespace string) (decisions, error) {
	var (
		approvals v1alpha1.ReleaseApprovalList
		overrides v1alpha1.RuleOverrideList
		commands  v1alpha1.BracketCommandList
	)
	if err := list(ctx, reader, namespace, &approvals, &overrides, &commands); err != nil {
		return decisions{}, err
	}
	frozen, err := freezes(ctx, reader, namespace)
	if err != nil {
		return decisions{}, err
	}
	d := decisions{freezes: frozen, released: map[concurrency.Holder]bool{}}
	for i := range approvals.Items {
		object, spec := &approvals.Items[i], &approvals.Items[i].Spec
		if deleted(object) {
			continue
		}
		d.approvals = append(d.approvals, rollout.Approval{
			Deployment: spec.Deployment, Version: spec.Version, Environment: spec.Environment,
			By: spec.By, Status: spec.Decision, At: object.CreationTimestamp.Time,
		})
	}
	for i := range overrides.Items {
		object, spec := &overrides.Items[i], &overrides.Items[i].Spec
		if deleted(object) {
			continue
		}
		override := rollout.Override{
			ID: identity(object), Rule: spec.Rule, Deployment: spec.Deployment, Version: spec.Version, Environment: spec.Environment, Resource: spec.Machine,
			CreatedAt: from(object), ExpiresAt: spec.ExpiresAt, CreatedBy: spec.By, Reason: spec.Reason,
		}
		if never(override.CreatedAt, spec.ExpiresAt) {
			d.never = append(d.never, rollout.Diagnostic{Code: rollout.DiagnosticOverrideWithoutEffect, Detail: override.ID + neverText})
			continue
		}
		d.overrides = append(d.overrides, override)
	}
	for i := range commands.Items {
		object, spec := &commands.Items[i], &commands.Items[i].Spec
		if deleted(object) {
			continue
		}
		d.orders = append(d.orders, *object)
		if spec.Command == v1alpha1.CommandRelease {
			d.released[concurrency.Holder{Resource: spec.Machine, Group: spec.Group}] = true
			continue
		}
		d.commands = append(d.commands, bracket.Command{
			ID: identity(object), Kind: spec.Command, Group: spec.Group, Resource: spec.Machine, Deployment: spec.Deployment,
			By: spec.By, Reason: spec.Reason, At: object.CreationTimestamp.Time,
		})
	}
	return d, nil
}

// freezes reads those of a namespace.
func freezes(ctx context.Context, reader client.Reader, namespace string) (all []rollout.Freeze, err error) {
	var objects v1alpha1.DeploymentFreezeList
	if err := list(ctx, reader, namespace, &objects); err != nil {
		return nil, err
	}
	for i := range objects.Items {
		object, spec := &objects.Items[i], &objects.Items[i].Spec
		if deleted(object) {
			continue
		}
		all = append(all, rollout.Freeze{
			ID: object.Name, Deployment: spec.Deployment, Environment: spec.Environment, Resource: spec.Machine, // it is deleted by that name
			FinishBegun: spec.FinishBegun, PauseCurves: spec.PauseCurves,
			CreatedAt: object.CreationTimestamp.Time, ExpiresAt: spec.ExpiresAt, CreatedBy: spec.By, Reason: spec.Reason,
		})
	}
	return all, nil
}

// from is when an override begins, or a machine has joined: with the second after the one in which
// it was written, which is all that the server says of that instant. An override of a retry rule
// forgives the jobs that were created before, so it must not begin before the failure that its
// author saw; and no job that started because of it must be among them.
func from(object client.Object) time.Time {
	return object.GetCreationTimestamp().Truncate(time.Second).Add(time.Second)
}

// freeze has every freeze that was seen be in force until it expires, also if the server's clock is
// ahead, even of that: it would be no reason to start anything. A freeze that expired before it was
// written is left out, and named.
func (o *observation) freeze(now time.Time) {
	seen := o.snapshot.Freezes
	o.snapshot.Freezes = nil
	for _, freeze := range seen {
		if freeze.CreatedAt.After(now) {
			freeze.CreatedAt = now
		}
		if never(freeze.CreatedAt, freeze.ExpiresAt) {
			o.never = append(o.never, rollout.Diagnostic{Code: rollout.DiagnosticFreezeWithoutEffect, Detail: freeze.ID + neverText})
			continue
		}
		o.snapshot.Freezes = append(o.snapshot.Freezes, freeze)
	}
}

// freezesOf returns the freezes of a target that are in force. They are read once more: the plan may
// be older than one of them, or not know the target.
func (r *Reconciler) freezesOf(ctx context.Context, namespace string, id rollout.TargetID, now time.Time) ([]rollout.Freeze, error) {
	all, err := freezes(ctx, r.Client, namespace)
	return slices.DeleteFunc(all, func(z rollout.Freeze) bool {
		if z.CreatedAt.After(now) {
			z.CreatedAt = now // see observation.freeze
		}
		return !z.Holds(id, now)
	}), err
}

// never reports whether what people have decided expires before it begins. A plan would refuse it,
// and with it the fleet. As everywhere in the library, an instant of the year 0 is none.
func never(begins, expires time.Time) bool {
	return expires.After(time.Time{}) && !expires.After(begins)
}

const neverText = ": it expires before it begins"

// identity tells an object from a later one of the same name, and can be read.
func identity(object client.Object) string {
	return object.GetName() + "/" + string(object.GetUID())
}
