package v1alpha1

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

func conditions(list []metav1.Condition) []metav1.Condition {
	return slices.Clone(list) // a condition holds no reference
}

// list copies the items of a list one by one.
func list[T any, P interface {
	*T
	DeepCopyInto(*T)
}](items []T) []T {
	if items == nil {
		return nil
	}
	copied := make([]T, len(items))
	for i := range items {
		P(&items[i]).DeepCopyInto(&copied[i])
	}
	return copied
}

// DeepCopyInto copies everything that in refers to.
func (in *RolloutPolicy) DeepCopyInto(out *RolloutPolicy) {
	*out = *in
	in.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	in.Spec.DeepCopyInto(&out.Spec)
	out.Status.Conditions = conditions(in.Status.Conditions)
	if next := in.Status.NextPlan; next != nil {
		out.Status.NextPlan = next.DeepCopy()
	}
	out.Status.Collecting = slices.Clone(in.Status.Collecting)
	out.Status.Queue = slices.Clone(in.Status.Queue)
}

// DeepCopyObject implements [runtime.Object].
func (in *RolloutPolicy) DeepCopyObject() runtime.Object {
	out := new(RolloutPolicy)
	in.DeepCopyInto(out)
	return out
}

// DeepCopyObject implements [runtime.Object].
func (in *RolloutPolicyList) DeepCopyObject() runtime.Object {
	out := *in
	in.ListMeta.DeepCopyInto(&out.ListMeta)
	out.Items = list(in.Items)
	return &out
}

// DeepCopyInto copies everything that in refers to.
func (in *NodeDeployment) DeepCopyInto(out *NodeDeployment) {
	*out = *in
	in.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	if selector := in.Spec.MachineSelector; selector != nil {
		out.Spec.MachineSelector = selector.DeepCopy()
	}
}

// DeepCopyObject implements [runtime.Object].
func (in *NodeDeployment) DeepCopyObject() runtime.Object {
	out := new(NodeDeployment)
	in.DeepCopyInto(out)
	return out
}

// DeepCopyObject implements [runtime.Object].
func (in *NodeDeploymentList) DeepCopyObject() runtime.Object {
	out := *in
	in.ListMeta.DeepCopyInto(&out.ListMeta)
	out.Items = list(in.Items)
	return &out
}

// DeepCopyInto copies everything that in refers to.
func (in *Release) DeepCopyInto(out *Release) {
	*out = *in
	in.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Spec.Dependencies = slices.Clone(in.Spec.Dependencies)
}

// DeepCopyObject implements [runtime.Object].
func (in *Release) DeepCopyObject() runtime.Object {
	out := new(Release)
	in.DeepCopyInto(out)
	return out
}

// DeepCopyObject implements [runtime.Object].
func (in *ReleaseList) DeepCopyObject() runtime.Object {
	out := *in
	in.ListMeta.DeepCopyInto(&out.ListMeta)
	out.Items = list(in.Items)
	return &out
}

// DeepCopyInto copies everything that in refers to.
func (in *Machine) DeepCopyInto(out *Machine) {
	*out = *in
	in.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Spec.Versions = maps.Clone(in.Spec.Versions)
	out.Status.Conditions = conditions(in.Status.Conditions)
}

// DeepCopyObject implements [runtime.Object].
func (in *Machine) DeepCopyObject() runtime.Object {
	out := new(Machine)
	in.DeepCopyInto(out)
	return out
}

// DeepCopyObject implements [runtime.Object].
func (in *MachineList) DeepCopyObject() runtime.Object {
	out := *in
	in.ListMeta.DeepCopyInto(&out.ListMeta)
	out.Items = list(in.Items)
	return &out
}

// DeepCopyInto copies everything that in refers to.
func (in *NodeJob) DeepCopyInto(out *NodeJob) {
	*out = *in
	in.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Spec.Claims = slices.Clone(in.Spec.Claims)
}

// DeepCopyObject implements [runtime.Object].
func (in *NodeJob) DeepCopyObject() runtime.Object {
	out := new(NodeJob)
	in.DeepCopyInto(out)
	return out
}

// DeepCopyObject implements [runtime.Object].
func (in *NodeJobList) DeepCopyObject() runtime.Object {
	out := *in
	in.ListMeta.DeepCopyInto(&out.ListMeta)
	out.Items = list(in.Items)
	return &out
}

// DeepCopyInto copies everything that in refers to.
func (in *ReleaseApproval) DeepCopyInto(out *ReleaseApproval) {
	*out = *in
	in.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
}

// DeepCopyObject implements [runtime.Object].
func (in *ReleaseApproval) DeepCopyObject() runtime.Object {
	out := new(ReleaseApproval)
	in.DeepCopyInto(out)
	return out
}

// DeepCopyObject implements [runtime.Object].
func (in *ReleaseApprovalList) DeepCopyObject() runtime.Object {
	out := *in
	in.ListMeta.DeepCopyInto(&out.ListMeta)
	out.Items = list(in.Items)
	return &out
}

// DeepCopyInto copies everything that in refers to.
func (in *RuleOverride) DeepCopyInto(out *RuleOverride) {
	*out = *in
	in.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
}

// DeepCopyObject implements [runtime.Object].
func (in *RuleOverride) DeepCopyObject() runtime.Object {
	out := new(RuleOverride)
	in.DeepCopyInto(out)
	return out
}

// DeepCopyObject implements [runtime.Object].
func (in *RuleOverrideList) DeepCopyObject() runtime.Object {
	out := *in
	in.ListMeta.DeepCopyInto(&out.ListMeta)
	out.Items = list(in.Items)
	return &out
}

// DeepCopyInto copies everything that in refers to.
func (in *DeploymentFreeze) DeepCopyInto(out *DeploymentFreeze) {
	*out = *in
	in.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
}

// DeepCopyObject implements [runtime.Object].
func (in *DeploymentFreeze) DeepCopyObject() runtime.Object {
	out := new(DeploymentFreeze)
	in.DeepCopyInto(out)
	return out
}

// DeepCopyObject implements [runtime.Object].
func (in *DeploymentFreezeList) DeepCopyObject() runtime.Object {
	out := *in
	in.ListMeta.DeepCopyInto(&out.ListMeta)
	out.Items = list(in.Items)
	return &out
}

// DeepCopyInto copies everything that in refers to.
func (in *BracketCommand) DeepCopyInto(out *BracketCommand) {
	*out = *in
	in.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Status.Conditions = conditions(in.Status.Conditions)
}

// DeepCopyObject implements [runtime.Object].
func (in *BracketCommand) DeepCopyObject() runtime.Object {
	out := new(BracketCommand)
	in.DeepCopyInto(out)
	return out
}

// DeepCopyObject implements [runtime.Object].
func (in *BracketCommandList) DeepCopyObject() runtime.Object {
	out := *in
	in.ListMeta.DeepCopyInto(&out.ListMeta)
	out.Items = list(in.Items)
	return &out
}

// DeepCopyInto copies everything that in refers to.
func (in *PlannerState) DeepCopyInto(out *PlannerState) {
	*out = *in
	in.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
}

// DeepCopyObject implements [runtime.Object].
func (in *PlannerState) DeepCopyObject() runtime.Object {
	out := new(PlannerState)
	in.DeepCopyInto(out)
	return out
}

// DeepCopyObject implements [runtime.Object].
func (in *PlannerStateList) DeepCopyObject() runtime.Object {
	out := *in
	in.ListMeta.DeepCopyInto(&out.ListMeta)
	out.Items = list(in.Items)
	return &out
}
