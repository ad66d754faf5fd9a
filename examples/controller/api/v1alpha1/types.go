// Package v1alpha1 holds the custom resources through which people and controllers communicate:
// what exists, what is wanted, and what is being done. A namespace is one fleet: everything in it
// is planned together, and nothing outside it is looked at.
//
//	RolloutPolicy     the rules, as the library's JSON, verbatim
//	NodeDeployment    something that is deployed to machines: an upgrade, but also a drain
//	Release           one version of a deployment
//	Machine           what is deployed to
//	NodeJob           one execution on one machine, created by the controller and carried out by an agent
//	ReleaseApproval   a person's yes or no to a release in an environment
//	RuleOverride      lets one release past one rule for a time
//	DeploymentFreeze  keeps a machine, a deployment, an environment or everything from starting
//	BracketCommand    what to do about a machine on which a bracket has failed; or closes a group
//	PlannerState      one record of the planner, or of the controller about a target; people do not write it
//
// The manifests that [CRDs] returns check what a server can check without knowing the library:
// required fields, fields that must not change once written, and that a job which has ended stays
// ended. Conditions report everything else.
package v1alpha1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/rollout"
)

// Condition types.
const (
	// ConditionAccepted on a RolloutPolicy: the policy is valid. As long as one policy of a
	// namespace is not, nothing is planned there: to plan without it would be to lift its limits.
	ConditionAccepted = "Accepted"
	// ConditionPlanned on a RolloutPolicy: the last plan was made. It is false as long as a policy of
	// the namespace is not valid, or something contradicts itself there, which the message lists. What
	// the machines of the namespace say is then still of the last plan that was made.
	ConditionPlanned = "Planned"
	// ConditionUpToDate on a Machine: nothing is left to do there. Otherwise the reason is the code
	// of what it waits for, such as slot_full, or "started", or "being_deleted". There is none in a
	// namespace without policies.
	ConditionUpToDate = "UpToDate"
	// ConditionEffective on a BracketCommand: it has been carried out. It is false as long as the
	// command waits for something, or has no effect as it is written; the message says why. There is
	// none if nothing is known of it, as of one whose execution has ended otherwise, and none on a
	// command whose group is closed.
	ConditionEffective = "Effective"
)

// RolloutPolicy is a policy of package rollout.
type RolloutPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the policy's JSON as [rollout.Load] reads it. It is kept as it was written, fields
	// that the library does not know included, so that a misspelt limit is refused and not dropped.
	Spec   runtime.RawExtension `json:"spec"`
	Status RolloutPolicyStatus  `json:"status,omitempty"`
}

// RolloutPolicyStatus is what came of a policy.
type RolloutPolicyStatus struct {
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`

	Waiting  int32        `json:"waiting"`            // release targets of the namespace whose newest version may not start
	Running  int32        `json:"running"`            // jobs of the namespace that have not ended
	NextPlan *metav1.Time `json:"nextPlan,omitempty"` // when time alone can change the plan; unset: only events can

	// Collecting are the groups that the brackets of the namespace are collecting releases for, in
	// the order of their rules and environments. A [BracketCommand] of kind close names one.
	Collecting []string `json:"collecting,omitempty"`

	// Queue is what waits for slots alone, the next first, and at most ten of it: each entry is
	// a [rollout.Queued] as text.
	Queue []string `json:"queue,omitempty"`
}

// RolloutPolicyList is a list of policies.
type RolloutPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []RolloutPolicy `json:"items"`
}

// NodeDeployment is something that has releases. Its labels are the deployment's metadata in
// expressions, its name is id and name.
type NodeDeployment struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              NodeDeploymentSpec `json:"spec,omitempty"`
}

// NodeDeploymentSpec says where a deployment belongs.
type NodeDeploymentSpec struct {
	// MachineSelector selects the machines that it is deployed to. Unset: all.
	MachineSelector *metav1.LabelSelector `json:"machineSelector,omitempty"`
}

// NodeDeploymentList is a list of deployments.
type NodeDeploymentList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NodeDeployment `json:"items"`
}

// Release is a version of a deployment. Its labels are the version's metadata in expressions. It must
// not be deleted while a machine runs it.
type Release struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              ReleaseSpec `json:"spec"`
}

// ReleaseSpec names a version. Deployment, Version and PublishedAt never change.
type ReleaseSpec struct {
	Deployment string `json:"deployment"` // name of the NodeDeployment
	Version    string `json:"version"`    // unique within the deployment; id, name and tag in expressions

	// PublishedAt orders the versions of a deployment. Zero: the creation of the object, to the
	// second.
	PublishedAt time.Time `json:"publishedAt,omitzero"`

	// Paused lets the version start only where it has started before.
	Paused bool `json:"paused,omitempty"`

	// Priority, TargetSelector and Dependencies are those of [rollout.Version]. A security fix with
	// a priority above 0 has the next free slots.
	Priority       int32                       `json:"priority,omitempty"`
	TargetSelector string                      `json:"targetSelector,omitempty"`
	Dependencies   []rollout.VersionDependency `json:"dependencies,omitempty"`
}

// ReleaseList is a list of releases.
type ReleaseList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Release `json:"items"`
}

// Machine is a resource that is deployed to. Its labels are the resource's metadata in expressions,
// its name is id and name.
//
// To delete a Machine is to prove that the machine is gone: the slots that it held are given back.
// While a finalizer holds it nothing new begins there, and expressions find 'being deleted' in its
// metadata, which is the key of no label.
type Machine struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              MachineSpec   `json:"spec"`
	Status            MachineStatus `json:"status,omitempty"`
}

// MachineSpec is what is known about a machine from elsewhere.
type MachineSpec struct {
	Environment string `json:"environment"`

	// Versions are those that ran when the machine was registered, by deployment. From its first
	// successful job on the jobs say what runs. Each needs a [Release]: while there is none, nothing
	// tells which releases are newer, and the deployment's next one waits.
	//
	// A machine that is registered under the name of one that was deleted has nothing of what the jobs
	// of that one installed, unless Versions names it: it is installed again.
	Versions map[string]string `json:"versions,omitempty"`

	// Unavailable says that the machine is down for reasons of its own. It counts against the
	// limits, and may be repaired without a further slot.
	Unavailable bool `json:"unavailable,omitempty"`

	// JoinedAt is when the machine joined the fleet: it takes its turn behind those that were there
	// when a rollout began. Zero: the creation of the object, which is known to the second, so the next
	// one.
	JoinedAt time.Time `json:"joinedAt,omitzero"`

	// Priority moves the machine forward in the order of a rollout; higher goes first.
	Priority int32 `json:"priority,omitempty"`
}

// MachineStatus is what the last plan says about a machine.
type MachineStatus struct {
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// MachineList is a list of machines.
type MachineList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Machine `json:"items"`
}

// NodeJob is one execution. The controller creates it under a name made of its run id, so it exists
// once; an agent on the machine carries it out and reports in the status.
//
// Attempts are counted from jobs: they must be kept for as long as their version is the newest, and
// the newest successful one of each target for as long as its machine is there.
type NodeJob struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              NodeJobSpec   `json:"spec"`
	Status            NodeJobStatus `json:"status,omitempty"`
}

// NodeJobSpec is what to do. It never changes.
type NodeJobSpec struct {
	Run         string          `json:"run"` // id of the execution
	Machine     string          `json:"machine"`
	Environment string          `json:"environment"`
	Deployment  string          `json:"deployment"`
	Version     string          `json:"version"`
	Purpose     rollout.Purpose `json:"purpose,omitempty"`

	// Group holds the slots together with the machine. It is empty for a job that no plan asked for.
	Group string `json:"group,omitempty"`

	// Claims are the slots that the job runs in.
	Claims []Claim `json:"claims,omitempty"`

	// Turn numbers the jobs of a target that plans asked for, from 1. Zero for others: until they
	// have ended they take a slot in every pool of their machine.
	Turn int64 `json:"turn,omitempty"`

	// CreatedAt is the controller's clock at the dispatch, to the nanosecond; creationTimestamp is
	// rounded to seconds. Zero: creationTimestamp.
	CreatedAt time.Time `json:"createdAt,omitzero"`
}

// Claim is a slot in a pool. Its token is greater than that of every earlier one of the pool: who
// acts for the job may carry it, so that others can refuse what comes too late.
type Claim struct {
	Pool  string `json:"pool"`
	Token int64  `json:"token"`
}

// NodeJobStatus is how far it came.
type NodeJobStatus struct {
	// State is a status of [rollout.JobStatus]; unset is queued. What is not known as an end counts
	// as active. An end is final.
	State        rollout.JobStatus    `json:"state,omitempty"`
	StartedAt    time.Time            `json:"startedAt,omitzero"`
	CompletedAt  time.Time            `json:"completedAt,omitzero"`
	Verification rollout.Verification `json:"verification,omitempty"`
	Message      string               `json:"message,omitempty"` // for people
}

// NodeJobList is a list of jobs.
type NodeJobList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NodeJob `json:"items"`
}

// ReleaseApproval is one person's decision on a release in an environment, for the policies' rules
// anyApproval. To take it back, delete it: what has started by then goes on.
type ReleaseApproval struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              ReleaseApprovalSpec `json:"spec"`
}

// ReleaseApprovalSpec is [rollout.Approval]. It counts from the creation of the object, to the
// second, and never changes.
type ReleaseApprovalSpec struct {
	Deployment  string                 `json:"deployment"`
	Version     string                 `json:"version"`
	Environment string                 `json:"environment"`
	By          string                 `json:"by"` // the person: several approvals by one person count once
	Decision    rollout.ApprovalStatus `json:"decision"`
}

// ReleaseApprovalList is a list of approvals.
type ReleaseApprovalList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ReleaseApproval `json:"items"`
}

// RuleOverride lets one release past one rule for a time, such as a hotfix that must not wait for a
// window. To end it early, delete it: what has started by then goes on.
type RuleOverride struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              RuleOverrideSpec `json:"spec"`
}

// RuleOverrideSpec is [rollout.Override]. It is active from the second after the one in which the
// object was created: an override of a retry rule forgives what was dispatched before that. Only
// ExpiresAt may change.
type RuleOverrideSpec struct {
	Rule        string `json:"rule"` // id of the rule, as the conditions of machines name it
	Deployment  string `json:"deployment"`
	Version     string `json:"version"`
	Environment string `json:"environment,omitempty"` // empty: all
	Machine     string `json:"machine,omitempty"`     // empty: all
	By          string `json:"by"`
	Reason      string `json:"reason"`

	// ExpiresAt is the first instant at which the override is not active any more. Zero: there is
	// none. An override that expires before it begins has no effect.
	ExpiresAt time.Time `json:"expiresAt,omitzero"`
}

// RuleOverrideList is a list of overrides.
type RuleOverrideList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []RuleOverride `json:"items"`
}

// DeploymentFreeze keeps a machine, a deployment, an environment, or everything in the namespace, from
// starting anything: while somebody works on the machine, or during an incident. To end it, delete it,
// or let it expire. What has started by then goes on, and [ConditionUpToDate] of a machine that it
// holds says frozen, by whom and why.
type DeploymentFreeze struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              DeploymentFreezeSpec `json:"spec"`
}

// DeploymentFreezeSpec is [rollout.Freeze]. It is in force from the creation of the object on, as
// soon as a controller sees it, whatever the clocks say. It names a deployment, an environment or a
// machine, or several of these, or it is of everything: the server refuses one that names nothing,
// for it drops a field without a value. Only ExpiresAt may change.
type DeploymentFreezeSpec struct {
	Everything  bool   `json:"everything,omitempty"`  // true if and only if none of the following is named
	Deployment  string `json:"deployment,omitempty"`  // empty: all
	Environment string `json:"environment,omitempty"` // empty: all
	Machine     string `json:"machine,omitempty"`     // empty: all

	// FinishBegun lets what has begun come to its end: the brackets that are open, further attempts,
	// rollbacks. False: nothing starts, and a machine may stay drained for as long.
	FinishBegun bool `json:"finishBegun,omitempty"`

	// PauseCurves stops the gradual rollouts of what is frozen: afterwards they go on where they
	// stopped. It counts for as long as the object exists, so such a freeze is ended by ExpiresAt, and
	// deleted once the rollouts that it stopped are over. With a Machine the server refuses it.
	PauseCurves bool `json:"pauseCurves,omitempty"`

	By     string `json:"by"`
	Reason string `json:"reason"`

	// ExpiresAt is the first instant at which nothing is frozen any more. Zero: when the object is
	// deleted. A freeze that expires before it begins has no effect.
	ExpiresAt time.Time `json:"expiresAt,omitzero"`
}

// DeploymentFreezeList is a list of freezes.
type DeploymentFreezeList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []DeploymentFreeze `json:"items"`
}

// BracketCommand is an operator's decision about what a bracket does on one machine, for example to
// repeat a job that has failed for good; or it closes the group that a bracket is collecting. The
// first plan that sees both the command and the open execution carries it out, once. A command that
// does not apply then never will: it says so in its condition [ConditionEffective], the condition
// [ConditionPlanned] of the policies names it, and a new object gives a new command. One that closes
// a group waits, and is named there, until one of the releases may be deployed. To delete a command
// that was carried out takes nothing back.
type BracketCommand struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              BracketCommandSpec   `json:"spec"`
	Status            BracketCommandStatus `json:"status,omitempty"`
}

// CommandRelease says that a machine serves again on which an execution was abandoned: the slots
// that the execution left behind are given back, as long as the command exists. It does nothing as
// long as the execution is open, or a job of it is active. Its condition [ConditionEffective] says
// so, and, if nothing was left behind under these names, what waits for a release.
const CommandRelease bracket.CommandKind = "release"

// BracketCommandSpec is [bracket.Command], given at the creation of the object, to the second, or
// [CommandRelease]. It never changes.
type BracketCommandSpec struct {
	Command    bracket.CommandKind `json:"command"`
	Machine    string              `json:"machine,omitempty"`    // empty for close, and for no other
	Group      string              `json:"group"`                // that of the jobs of the execution; for close, one of RolloutPolicyStatus.Collecting
	Deployment string              `json:"deployment,omitempty"` // for retry and skip; empty: every member that has failed
	By         string              `json:"by"`
	Reason     string              `json:"reason"`
}

// BracketCommandStatus is what came of a command, as far as the last plan knows.
type BracketCommandStatus struct {
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// BracketCommandList is a list of commands.
type BracketCommandList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []BracketCommand `json:"items"`
}

// PlannerState is one record of the planner's store, in which the controller keeps what it knows of
// each target too.
type PlannerState struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              PlannerStateSpec `json:"spec"`
}

// Encoding says how a value of any bytes is written as text.
type Encoding string

const (
	EncodingText   Encoding = "text"   // as it is; it is UTF-8
	EncodingBase64 Encoding = "base64" // RFC 4648, padded
)

// PlannerStateSpec is a key with its value.
type PlannerStateSpec struct {
	Key      string   `json:"key"` // 1 to 1024 bytes; the object's name is derived from it and it never changes
	Encoding Encoding `json:"encoding"`
	Value    string   `json:"value"`

	// Replaces is the resourceVersion that this write replaced, empty for the first. It makes every
	// write differ from the one before: a server answers a write that changes nothing with the old
	// resourceVersion, and then two planners would both believe that they had won.
	Replaces string `json:"replaces,omitempty"`
}

// PlannerStateList is a list of records.
type PlannerStateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PlannerState `json:"items"`
}
