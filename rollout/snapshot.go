package rollout

import (
	"cmp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/internal/strictjson"
	"github.com/tranche-dev/tranche/internal/textkey"
	"github.com/tranche-dev/tranche/internal/textlist"
)

// Snapshot is everything a plan is made from: what the host knows, all of it from one read, and the
// state that the last plan left. The order of the lists never matters; sorted input is only faster.
// A plan does not modify its snapshot but refers to it: do not change its lists and their elements
// while the plan is in use, since Commit, Explain, Changes and Waiting read them. A host that
// updates its lists in place plans on copies of them.
type Snapshot struct {
	// Ids are UTF-8 and unique within their list, those of versions within their deployment. There
	// is one entry per release target. The resources, environments and deployments that targets and
	// versions name must be listed. A version that a target runs should be listed: without it no
	// version counts as newer, and the target waits with [ReasonVersionUnknown]. So should a
	// version that a closed group of the State has locked, until the group is over: its executions
	// wait for a missing version. A host that lists only its newest versions adds these.
	Resources    []Resource    `json:"resources"`
	Environments []Environment `json:"environments"`
	Deployments  []Deployment  `json:"deployments"`
	Versions     []Version     `json:"versions"`
	Targets      []Target      `json:"targets"`
	Approvals    []Approval    `json:"approvals,omitempty"`

	// Overrides let single versions past single rules; see [Override]. Only active ones let
	// anything past. An override that has not expired and can never have an effect, because its rule
	// or what it names does not exist, or because its rule governs no target that it is for, is a
	// [Diagnostic] with [DiagnosticOverrideWithoutEffect], even before it is active.
	Overrides []Override `json:"overrides,omitempty"`

	// Freezes keep targets from starting anything; see [Freeze]. One that has not expired and holds no
	// target, for example because what it names does not exist, is a [Diagnostic] with
	// [DiagnosticFreezeWithoutEffect]. One with PauseCurves that is over says when curves stood still.
	Freezes []Freeze `json:"freezes,omitempty"`

	// Unavailable lists the ids of resources that are down for whatever reason: not ready,
	// cordoned, being drained by hand. They count against the limits of their pools. A start on one
	// of them takes no further slot, so it can be repaired however full or paused the pools are, and
	// all that are down may be started at once. One that is to be left alone, because somebody works
	// on it and would not have it uncordoned, needs a [Freeze] as well; then it counts, and nothing
	// starts on it. If very many are down at once, the cause may be what the host sees by, or what it
	// rolls out: haltAboveUnavailable of a concurrency rule says when nothing begins any more. An id
	// that Resources does not list is passed over.
	Unavailable []string `json:"unavailable,omitempty"`

	// Active lists, per pool key, what else is being disrupted: by jobs of the host that are on no
	// target. They count in addition to the leases of State, to open executions, and to the active
	// jobs of Targets, which count in the pools that these targets need. In a pool that is paused
	// or above its limit, no other target starts on a resource that is down only because of an
	// active job of Targets: the lease of that job may have gone since. Read Active after the pools
	// of State, never before: targets on a resource that is down start without a further slot, so a
	// job that has ended by then would let in one too many. A key of no pool is a [Diagnostic] with
	// [DiagnosticActiveWithoutEffect].
	Active map[string][]concurrency.Holder `json:"active,omitempty"`

	// DeletedResources lists the ids of resources that are known to be gone. What they held is
	// released. If they are still listed, they and the targets on them are ignored. A resource that
	// is merely missing from Resources keeps its slots. An id can be left out again once the State
	// of a saved plan has neither an open execution on the resource nor a lease of it; to list it for
	// longer does no harm. See [State.Forget] for the records that stay.
	DeletedResources []string `json:"deletedResources,omitempty"`

	// Commands are an operator's instructions to bracket executions, or close the group that a
	// bracket is collecting. Each takes effect once, however often it is given. A command that names
	// no execution or group, or cannot be applied to it, is a [Diagnostic] with
	// [DiagnosticCommandWithoutEffect]. It can be left out once the State of a saved plan has its id
	// among the Commands of the execution, or the execution is over, or the group is closed. The
	// group of the execution that is open for a target is the Group of its [Explanation], and the
	// one that is collecting its Collecting.
	Commands []bracket.Command `json:"commands,omitempty"`

	// State is what [Plan.State] or [Plan.Commit] returned last; the zero State to begin with.
	State State `json:"state,omitzero"`
}

// UnmarshalJSON decodes a snapshot strictly: unknown fields, fields given twice and values of the
// wrong type are errors, all of them reported, joined, each a *[FieldError]. The snapshot is then
// unchanged. [PolicySet.Plan] checks the values.
func (s *Snapshot) UnmarshalJSON(data []byte) error {
	type plain Snapshot
	return fieldErrors(strictjson.Unmarshal(data, (*plain)(s)))
}

// Resource is a thing that is deployed to: a node, a cluster, a machine. ID is unique and never
// empty; the rest is what selectors see. Jobs, slots and executions belong to the ID, so prefer an
// identity that is never used again, such as a UID, to a name; see [Target.JoinedAt].
type Resource struct {
	ID         string            `json:"id"`
	Name       string            `json:"name,omitempty"`
	Kind       string            `json:"kind,omitempty"`       // such as Node
	Identifier string            `json:"identifier,omitempty"` // in the system that it comes from
	Version    string            `json:"version,omitempty"`    // of the resource itself or its kind, not of what is deployed to it
	Metadata   map[string]string `json:"metadata,omitempty"`
}

// Environment is where deployments run, such as staging or prod. ID is unique and never empty; the
// rest is what selectors see.
type Environment struct {
	ID       string            `json:"id"`
	Name     string            `json:"name,omitempty"`
	Metadata map[string]string `json:"metadata,omitempty"`
}

// Deployment is something that has versions: a program, a driver, but also a drain or an uncordon.
// ID is unique and never empty; the rest is what selectors see.
type Deployment struct {
	ID       string            `json:"id"`
	Name     string            `json:"name,omitempty"`
	Slug     string            `json:"slug,omitempty"`
	Metadata map[string]string `json:"metadata,omitempty"`
}

// Version belongs to one deployment. Versions of a deployment are ordered by CreatedAt, then by ID
// byte-wise; newer means greater. One that is published with an instant before that of the newest,
// as after a clock was set back, is an older one: it is deployed to no target that runs the newest,
// and no plan waits for it. So a host publishes a version with an instant after that of the newest.
type Version struct {
	ID         string            `json:"id"`         // unique within the deployment
	Deployment string            `json:"deployment"` // id
	Name       string            `json:"name,omitempty"`
	Tag        string            `json:"tag,omitempty"`
	Status     VersionStatus     `json:"status"`
	CreatedAt  time.Time         `json:"createdAt"` // required, and in the year 1 or later; while it is in the future, the version does not exist yet
	Metadata   map[string]string `json:"metadata,omitempty"`

	// Priority says who comes first where slots are few: starts of a version with a higher one get
	// their slots before all others, however long these have been due; with one below 0 they get
	// them last. An execution of a bracket has the highest of the versions that it brings to its
	// resource, and 0 if all that it runs is there already. Only rollbacks come before, and what an
	// [Override] lets past a limit: it takes its slot first, also the last one. A priority opens no
	// rule, and takes no slot from a holder. As long as starts of a higher one are due, those of a
	// lower one may wait. It is meant for a security fix that shares a pool with rollouts of other
	// deployments. It is not stored: a change counts from the next plan on.
	Priority int `json:"priority,omitempty"`

	// TargetSelector is CEL on resource, environment, deployment and version. For a target on which
	// it is false the version does not exist, for any rule. Empty: the version is for every target.
	// A version that is current or started on a target stays so whatever the selector says, and a
	// [Rollback] may go back to it. (The name is that of the scoped versions RFC.)
	TargetSelector string `json:"targetSelector,omitempty"`

	// Dependencies must all hold before the version starts on a target: on the same resource, in
	// the same environment, the named deployment runs a version for which the expression is true.
	Dependencies []VersionDependency `json:"dependencies,omitempty"`
}

// UnmarshalJSON decodes a version strictly, since one whose targetSelector is misspelt would be for
// every target: unknown fields, fields given twice and values of the wrong type are errors, all of
// them reported, joined, each a *[FieldError]. The version is then unchanged. A type that adds
// fields must hold the version in a named field: embedding it would promote this method.
func (v *Version) UnmarshalJSON(data []byte) error {
	type plain Version
	return fieldErrors(strictjson.Unmarshal(data, (*plain)(v)))
}

// named returns the version and its deployment, as in the paths of faults and findings.
func (v *Version) named() string { return v.Deployment + "@" + v.ID }

// VersionDependency is one edge from a version to the versions of another deployment that it needs
// on the resource. For members of one bracket it looks at what they run after the execution, and
// within the execution a member waits for what it needs, unless that comes after it or needs it in
// turn. A group whose versions need what its own pre members bring is not merged into an open
// execution, whose own pre members have run. An edge to the version's own deployment is about what
// the target runs before it, for versions that must come one after the other.
//
// An edge is asked about when its version starts. What the version needs may go away later, with a
// newer version of the other deployment or with a [Rollback] of it: nothing holds these back. To
// have the other deployment wait in turn, give its newer version an edge to this deployment.
type VersionDependency struct {
	Deployment      string `json:"deployment"`      // id, required
	VersionSelector string `json:"versionSelector"` // required: CEL on the other deployment's version, such as version.tag == 'v2'
}

// VersionStatus says whether a version may be deployed. One with a status that is not listed here,
// the empty one included, may not. Where it runs it stays, unless a [Rollback] names the status.
type VersionStatus string

const (
	VersionReady  VersionStatus = "ready"  // deployable
	VersionPaused VersionStatus = "paused" // deployable only where it is current or started
)

// TargetID names a release target: deployment × environment × resource.
type TargetID struct {
	Resource    string `json:"resource"`    // id
	Environment string `json:"environment"` // id
	Deployment  string `json:"deployment"`  // id
}

// Key returns a text that no other target has: resource, environment and deployment joined by "/",
// with "%" written "%25" and "/" written "%2F" inside them, as in run ids. It is meant for the keys
// of a host's own records of a target.
func (id TargetID) Key() string { return textkey.Join(id.Resource, id.Environment, id.Deployment) }

// String describes the target for people: "resource / environment / deployment" without the parts
// that are empty, as they may be in diagnostics.
func (id TargetID) String() string {
	return strings.Join(slices.DeleteFunc(textlist.Names([]string{id.Resource, id.Environment, id.Deployment}), func(part string) bool { return part == "" }), " / ")
}

func (id TargetID) compare(other TargetID) int {
	return cmp.Or(strings.Compare(id.Resource, other.Resource), strings.Compare(id.Environment, other.Environment), strings.Compare(id.Deployment, other.Deployment))
}

// Target is a release target as observed.
type Target struct {
	TargetID

	// Current is the id of the version last deployed successfully. If it is empty, the newest
	// successful job of Jobs names that version. A host sets it if it prunes its jobs, or if its
	// inventory says what ran before the first job. It takes precedence over the jobs, so it must
	// be updated when one of them succeeds: otherwise the target would go on waiting for a version
	// that it runs already. Current says that a version succeeded, not when. So
	// environmentProgression, whose soak and curves count from that instant, looks only at Jobs, as
	// does versionCooldown if they list a success, and as does failureBudget: a success without its
	// job makes up for no failure, and is in no sample. See [Rollback] for what a rollback makes of
	// it.
	Current string `json:"current,omitempty"`

	// Jobs are the jobs on this target, in any order; a plan orders them by CreatedAt, then by Run
	// with the numbers in it as numbers, and copies only those that are not in that order from
	// either end. They must be complete from the first job on that is of the newest version ever
	// started here, even while there is a newer version that was not, and complete for open bracket
	// executions: attempts are counted from them, and a rollback (a later job of an older version)
	// runs again if it is not listed. Of the jobs before them a host may leave out those that
	// nothing in this list needs:
	//
	//   - environmentProgression: of each version that may still go to other environments the
	//     success that ended first and, with maximumAgeHours, the one that ended last;
	//   - failureBudget: of each version that may still go to other targets the newest job that failed
	//     or succeeded by that rule;
	//   - rollback: the newest success of an older version that did not go wrong itself, see
	//     [Rollback], and the newest job of that version, or of Current if no success is listed, that
	//     a plan started: the number in the next run id follows that in this one;
	//   - versionCooldown: the newest success whose verification has not failed;
	//   - resourceConcurrency: every job created since the Since of a lease that the target holds;
	//   - lost state: of a bracket's jobs those of its newest group.
	//
	// Which jobs these are depends on the policies, the state and all other targets of the
	// deployment, so there is no list of what a plan reads: in doubt keep a job.
	Jobs []Job `json:"jobs,omitempty"`

	// JoinedAt is when the target came into scope; zero means it was always there. The target ranks
	// after those that were there when a rollout started. A newcomer without JoinedAt is ranked
	// among them, and so may move others back by a turn. Set it when a resource is made again under
	// the id of one that is gone, and leave out the jobs of the old one, which would count for the
	// new one: if the execution of its bracket there ended before JoinedAt, or because the resource
	// was deleted, the next group opens for what the target lacks. If one is open, it goes on, and
	// runs nothing twice that has succeeded, such as the drain of the old one. So end it first: list
	// the id in DeletedResources until the State of a saved plan has no open execution on it. Outside
	// brackets the run ids then begin at 1 again, and an open execution offers its run in progress
	// again, so dispatch must not find the old jobs either. A host that cannot forget them gives the
	// new resource another id. An instant in the future keeps nothing from starting: list a target
	// once it is there.
	JoinedAt time.Time `json:"joinedAt,omitzero"`

	// OutdatedAt is the instant since which the target needs a new run of the version it has, for
	// example because its variables changed. Zero: it needs none; while it is in the future, it needs
	// none yet. Outside brackets a success of a job that was created then or later is that run, and
	// only the failures of such jobs are attempts at it, so a later instant begins anew where no
	// attempt was left; in a bracket it is the run of the group that takes the target along, see
	// [bracket.Target]. A bracket runs the target again only while its version may be deployed. A
	// target whose version was paused since, or succeeded elsewhere too long ago, is left as it is
	// until the next group. Outside brackets such a target is run again all the same: neither the
	// gates of the version nor a failureBudget, a cooldown or a curve is asked, but only windows,
	// freezes, pools and rules of the host. Without a pool all targets that are outdated start at
	// once, and with one they go on however many fail, unless a [Rollback] takes back the version. So
	// set it on a few targets first, or publish a version instead.
	OutdatedAt time.Time `json:"outdatedAt,omitzero"`

	// Priority moves a target forward among those present at the start of a rollout, or back if it is
	// less than 0; higher goes first. A bracket takes the highest of a resource. It is not stored:
	// changing it while a rollout runs changes the order of the targets that have not started yet.
	Priority int `json:"priority,omitempty"`
}

// Job is one execution on a release target.
type Job struct {
	// Run is the run id of the [Start], unchanged, and empty for a job that no plan started.
	// Dispatch is create-if-absent by this id, which makes a repeated start harmless, and so a
	// target never has two jobs of one run: in the execution of a bracket that is a fault. A job
	// with another id does not belong to the execution: it waits for its run, and offers it again
	// and again.
	Run string `json:"run,omitempty"`

	Version string    `json:"version"` // id, required
	Status  JobStatus `json:"status"`

	// CreatedAt is required, and in the year 1 or later: jobs are ordered by it. It must not be
	// before the Now of the plan that offered the start, and it must be after the CreatedAt of every
	// earlier job of the target, even if the clock was set back or another host's runs ahead: else
	// an earlier job passes for the newest, and the target is given its version again and again. So
	// where the host's own now is too early, dispatch takes the Now of the plan, or an instant that
	// is a nanosecond later than that of the newest job.
	CreatedAt   time.Time `json:"createdAt"`
	CompletedAt time.Time `json:"completedAt,omitzero"` // zero while active; an ended job without it is taken to have ended when it was created

	// Verification is what the host found out about the job after it ended. Empty: it is not
	// verified. Outside brackets a target keeps its slots until the verification of its newest job
	// is over. In a bracket only a [Rollback] with OnVerificationFailure makes the others wait for
	// it, and the slots last as long: without such a rule on the target nobody asks for it, and the
	// next member, or the next resource, begins when the job has ended.
	Verification Verification `json:"verification,omitempty"`
}

// Verification is the state of the checks that follow a successful job. Anything that is not listed
// here counts as neither passed nor failed, like [VerificationRunning], and is reported as
// [DiagnosticVerificationUnknown]: it may be a typo, and then whatever waits for it waits for ever.
type Verification string

const (
	VerificationRunning Verification = "running" // not decided
	VerificationPassed  Verification = "passed"  // the version works on the target
	VerificationFailed  Verification = "failed"  // the version does not work on the target: see [Rollback]
)

// undecided reports whether the job is being verified and has neither passed nor failed.
func (v Verification) undecided() bool {
	return v != "" && v != VerificationPassed && v != VerificationFailed
}

// known reports whether the verification is one of the listed values or empty.
func (v Verification) known() bool { return !v.undecided() || v == VerificationRunning }

// JobStatus is the state of a job. A job has ended if [JobStatus.Terminal] says so. Every other
// status, unknown ones included, counts as active, so that a status invented tomorrow blocks a
// start rather than doubling it. A status that is not listed here is reported as
// [DiagnosticJobStatusUnknown]: it may be a typo, and then the job never ends.
type JobStatus string

const (
	JobSuccessful          JobStatus = "successful"
	JobFailure             JobStatus = "failure"
	JobCancelled           JobStatus = "cancelled"
	JobSkipped             JobStatus = "skipped"
	JobInvalidAgent        JobStatus = "invalidJobAgent"
	JobInvalidIntegration  JobStatus = "invalidIntegration"
	JobExternalRunNotFound JobStatus = "externalRunNotFound"
	JobInProgress          JobStatus = "inProgress"
	JobPending             JobStatus = "pending"
	JobQueued              JobStatus = "queued"
	JobActionRequired      JobStatus = "actionRequired"
)

// active reports whether the status is known to be that of a job in progress.
func (s JobStatus) active() bool {
	return s == JobInProgress || s == JobPending || s == JobQueued || s == JobActionRequired
}

// Terminal reports whether a job with this status has ended, as [concurrency.Terminal] does. It is
// true for the statuses from [JobSuccessful] to [JobExternalRunNotFound], and for no other.
func (s JobStatus) Terminal() bool { return concurrency.Terminal(string(s)) }

// failure reports whether a job has ended without success, unless it was called off. That is what
// counts as a failure where a rule does not name statuses.
func (s JobStatus) failure() bool {
	return s.Terminal() && s != JobSuccessful && s != JobCancelled && s != JobSkipped
}

// Approval is one person's decision on a version in an environment. Several approvals by one person
// count as one, the earliest of them; a later rejection does not take it back. An approval of a
// version that no longer exists is ignored. One for an environment or a deployment that the
// snapshot does not list is reported as [DiagnosticApprovalWithoutEffect].
type Approval struct {
	Version     string         `json:"version"`     // id, required
	Deployment  string         `json:"deployment"`  // id of the deployment that the version belongs to, required
	Environment string         `json:"environment"` // id, required
	By          string         `json:"by"`          // the person, required, UTF-8: persons are told apart by this text
	Status      ApprovalStatus `json:"status"`
	At          time.Time      `json:"at"` // while it is in the future, it does not count yet; zero: it counts from the creation of the version
}

// UnmarshalJSON decodes an approval strictly, since one whose at is misspelt would count at once:
// unknown fields, fields given twice and values of the wrong type are errors, all of them reported,
// joined, each a *[FieldError]. The approval is then unchanged. A type that adds fields must hold
// the approval in a named field: embedding it would promote this method.
func (a *Approval) UnmarshalJSON(data []byte) error {
	type plain Approval
	return fieldErrors(strictjson.Unmarshal(data, (*plain)(a)))
}

// Validate reports every fault of the approval by itself, joined, each a *[FieldError]. A host
// calls it before it stores an approval, for a plan refuses a snapshot that holds one with a fault.
// An approval without a fault that approves nothing, because of its status or of what it names, is
// a diagnostic of the plan.
func (a Approval) Validate() error {
	var f faults
	a.validate("", &f)
	return f.err()
}

func (a *Approval) sound() bool {
	return a.Version != "" && a.Deployment != "" && a.Environment != "" && a.By != "" && utf8.ValidString(a.By)
}

func (a *Approval) validate(at string, f *faults) {
	f.required(join(at, "version"), a.Version, "which version")
	f.required(join(at, "deployment"), a.Deployment, "the deployment that the version belongs to")
	f.required(join(at, "environment"), a.Environment, "where the version may go")
	f.required(join(at, "by"), a.By, "who says so, since minApprovals counts persons")
	f.encoded(join(at, "by"), a.By)
}

// ApprovalStatus is what the person said. Anything but [Approved] approves nothing. What is not
// listed here is reported as [DiagnosticApprovalStatusUnknown]: it may be a typo. To hold a version
// in spite of its approvals, set it to paused.
type ApprovalStatus string

const (
	Approved ApprovalStatus = "approved" // counts towards minApprovals
	Rejected ApprovalStatus = "rejected" // does not count
)
