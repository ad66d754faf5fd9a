package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/concurrency"
)

// Snapshot is everything a plan is made from: what the host knows, all of it from one read, and the
// state that the last plan left. The order of the lists never matters; sorted input is only faster.
// A snapshot is not modified. A plan refers to the one that it was made from: leave its lists and
// their elements alone for as long as the plan is in use, since Commit, Explain, Changes and
// Waiting read them. A host that updates its lists in place plans on copies of them.
type Snapshot struct {
	// Ids are unique within each of these lists, those of versions within their deployment, and
	// there is one entry per release target. The resources, environments and deployments that
	// targets and versions name must be listed. A version that a target runs should be: while it is
	// not, nothing can be called newer, and the target waits with [ReasonVersionUnknown]. So should
	// a version that a closed group of the State has locked, until the group is over: its
	// executions wait for one that is missing. A host that lists only its newest versions adds
	// these.
	Resources    []Resource    `json:"resources"`
	Environments []Environment `json:"environments"`
	Deployments  []Deployment  `json:"deployments"`
	Versions     []Version     `json:"versions"`
	Targets      []Target      `json:"targets"`
	Approvals    []Approval    `json:"approvals,omitempty"`

	// Overrides let single versions past single rules; see [Override]. Those that are not active
	// now let nothing past. One that has not expired and never will let anything past, because its
	// rule or what it names does not exist, is a [Diagnostic] with
	// [DiagnosticOverrideWithoutEffect] already before it is active.
	Overrides []Override `json:"overrides,omitempty"`

	// Unavailable lists the ids of resources that are down for whatever reason: not ready,
	// cordoned, being drained by hand. They count against the limits of their pools, and they may
	// themselves be repaired without taking a further place, however full the pools are.
	Unavailable []string `json:"unavailable,omitempty"`

	// Active lists, per pool key, who else is being disrupted: by jobs of the host that are on no
	// target. They count in addition to the leases of State, to open executions, and to the active
	// jobs of Targets, which count in the pools that these targets need. In a pool that is paused
	// or above its limit, nobody else starts on a resource that is down for such a job alone: its
	// lease may have gone since. Read Active after the pools of State, never before: on a resource
	// that is down others start without a further place, so a job that has ended by then would let
	// in one too many.
	Active map[string][]concurrency.Holder `json:"active,omitempty"`

	// DeletedResources lists the ids of resources that are proved gone: what they held is released,
	// and where they are still listed, they and the targets on them are ignored. A resource that is
	// merely missing from Resources keeps its slots.
	DeletedResources []string `json:"deletedResources,omitempty"`

	// Commands are an operator's instructions to bracket executions. Each takes effect once,
	// however often it is given. One that names no execution, or cannot be applied to it, is a
	// [Diagnostic] with [DiagnosticCommandWithoutEffect].
	Commands []bracket.Command `json:"commands,omitempty"`

	// State is what [Plan.State] or [Plan.Commit] returned last; the zero State to begin with.
	State State `json:"state,omitzero"`
}

// Resource is a thing that is deployed to: a node, a cluster, a machine. ID is unique and never
// empty; the rest is what selectors see.
type Resource struct {
	ID         string            `json:"id"`
	Name       string            `json:"name,omitempty"`
	Kind       string            `json:"kind,omitempty"`       // such as Node
	Identifier string            `json:"identifier,omitempty"` // in the system that it comes from
	Version    string            `json:"version,omitempty"`    // of the resource itself or its kind, not of what is deployed to it
	Metadata   map[string]string `json:"metadata,omitempty"`
}

// Environment is a stage such as staging or prod in which deployments run. ID is unique and never
// empty; the rest is what selectors see.
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
// byte-wise; newer means greater.
type Version struct {
	ID         string            `json:"id"`         // unique within the deployment
	Deployment string            `json:"deployment"` // id
	Name       string            `json:"name,omitempty"`
	Tag        string            `json:"tag,omitempty"`
	Status     VersionStatus     `json:"status"`
	CreatedAt  time.Time         `json:"createdAt"` // required; after now, the version does not exist yet
	Metadata   map[string]string `json:"metadata,omitempty"`

	// TargetSelector is CEL on resource, environment, deployment and version: on a target where it
	// is false the version does not exist, for any rule. Empty: it is for every target. A version
	// that is current or started on a target stays so whatever it says. (Scoped versions RFC; the
	// name is that of the RFC.)
	TargetSelector string `json:"targetSelector,omitempty"`

	// Dependencies must all hold before the version starts on a target: on the same resource, in
	// the same environment, the named deployment runs a version for which the expression is true.
	Dependencies []VersionDependency `json:"dependencies,omitempty"`
}

// VersionDependency is one edge from a version to the versions of another deployment that it needs
// on the resource. Of members of one bracket it looks at what they run after the execution, and
// within it one waits for what it needs, unless that comes after it or needs it in turn. A group
// whose versions need what its own pre members bring is not merged into an open execution, which
// has had its own. An edge to its own deployment is about what the target runs before it, for
// versions that come one after the other.
type VersionDependency struct {
	Deployment      string `json:"deployment"`      // id, required
	VersionSelector string `json:"versionSelector"` // required: CEL on the other deployment's version, such as version.tag == 'v2'
}

// VersionStatus says whether a version may be deployed. A status that is not listed here, the empty
// one included, may not.
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

// String names a release target as resource / environment / deployment, without those that are
// empty, as in diagnostics.
func (id TargetID) String() string {
	return strings.Join(slices.DeleteFunc([]string{id.Resource, id.Environment, id.Deployment}, func(part string) bool { return part == "" }), " / ")
}

func (id TargetID) compare(other TargetID) int {
	return cmp.Or(strings.Compare(id.Resource, other.Resource), strings.Compare(id.Environment, other.Environment), strings.Compare(id.Deployment, other.Deployment))
}

// Target is a release target as observed.
type Target struct {
	TargetID

	// Current is the id of the version last deployed successfully. If it is empty, the newest
	// successful one of Jobs names that version. A host that prunes its jobs sets it, and one whose
	// inventory says what ran before the first job. It is believed whatever the jobs say, so it
	// must not stay behind when one of them succeeds: the target would still wait for what it runs
	// by now. It says that a version succeeded and not when: environmentProgression, whose soak and
	// whose curves count from that instant, asks Jobs alone, and versionCooldown where they list a
	// success; see [Rollback] for the way back.
	Current string `json:"current,omitempty"`

	// Jobs are the executions on this target, in any order; they are put in order by CreatedAt,
	// then by Run. Those of the newest version, and of open bracket executions, must be complete:
	// attempts are counted from them. Of a version that may still go to other environments by
	// environmentProgression, the first success must be there.
	Jobs []Job `json:"jobs,omitempty"`

	// JoinedAt is when the target came into scope; zero means it was always there. It takes its
	// place after those that were there when a rollout started. A newcomer without it is ranked
	// among them, and so may move others back by a turn. Set it when a resource is made again under
	// the name of one that is gone: if its bracket has run there before that, the next group opens
	// for what it lacks.
	JoinedAt time.Time `json:"joinedAt,omitzero"`

	// OutdatedAt is the instant since which the target needs a new run of the version it has, for
	// example because its variables changed. Zero: it does not. A bracket runs it again only while
	// its version may be deployed. A target whose version was paused since, or succeeded elsewhere
	// too long ago, is left as it is until the next group. Outside of brackets nobody asks.
	OutdatedAt time.Time `json:"outdatedAt,omitzero"`

	// Priority moves a target forward among those present at the start of a rollout; higher goes
	// first. A bracket takes the highest of a resource. No record keeps it: a host that changes it
	// while a rollout runs changes who is next, for those who have not started yet.
	Priority int `json:"priority,omitempty"`
}

// Job is one execution on a release target.
type Job struct {
	// Run is the run id that [Start] carried, as it was, and empty for a job that no plan started.
	// Dispatch is create-if-absent by this id: that is what makes a repeated start harmless. A job
	// of a bracket with another id is none of the execution's: that waits for its run, and offers
	// it again and again.
	Run string `json:"run,omitempty"`

	Version string    `json:"version"` // id, required
	Status  JobStatus `json:"status"`

	// CreatedAt is required: jobs are ordered by it. It must not lie before the now of the plan
	// that offered the start.
	CreatedAt   time.Time `json:"createdAt"`
	CompletedAt time.Time `json:"completedAt,omitzero"` // zero while active; an ended job without it is taken to have ended when it was created

	// Verification is what the host found out about the job after it ended. Empty: it is not
	// verified.
	Verification Verification `json:"verification,omitempty"`
}

// Verification is the state of the checks that follow a successful job. Anything that is not listed
// here counts as neither passed nor failed, like [VerificationRunning].
type Verification string

const (
	VerificationRunning Verification = "running" // not decided
	VerificationPassed  Verification = "passed"  // the version works on the target
	VerificationFailed  Verification = "failed"  // it does not: see [Rollback]
)

// undecided reports whether the job is verified and has neither passed nor failed.
func (v Verification) undecided() bool {
	return v != "" && v != VerificationPassed && v != VerificationFailed
}

// JobStatus is the state of a job. A job has ended if [JobStatus.Terminal] says so. Every other
// status, unknown ones included, counts as active, so that a status invented tomorrow blocks a
// start rather than doubling it. A status that is not listed here is told as
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

// Terminal reports whether a job with this status has ended, which is what [concurrency.Terminal]
// says: it has with those from [JobSuccessful] to [JobExternalRunNotFound], and with no other
// status.
func (s JobStatus) Terminal() bool { return concurrency.Terminal(string(s)) }

// Approval is one person's word on a version in an environment. Several of one person are one
// approval, the earliest of them; a rejection does not take it back. One of a version that does not
// exist any more is ignored.
type Approval struct {
	Version     string         `json:"version"`     // id, required
	Deployment  string         `json:"deployment"`  // id of the one that the version belongs to, required
	Environment string         `json:"environment"` // id, required
	By          string         `json:"by"`          // who, required: persons are told apart by this text
	Status      ApprovalStatus `json:"status"`
	At          time.Time      `json:"at"` // after now, it does not count yet; zero: it counts from the start of the version
}

func (a *Approval) validate(i int, f *faults) {
	for _, required := range [...]struct{ field, value, why string }{
		{"version", a.Version, "which version"},
		{"deployment", a.Deployment, "the deployment that the version belongs to"},
		{"environment", a.Environment, "where the version may go"},
		{"by", a.By, "who says so, since minApprovals counts persons"},
	} {
		if required.value == "" {
			f.add(fmt.Sprintf("approvals[%d].%s", i, required.field), CodeRequired, nil, "is required: %s", required.why)
		}
	}
}

// ApprovalStatus is what the person said. Anything but [Approved] approves nothing.
type ApprovalStatus string

const (
	Approved ApprovalStatus = "approved" // counts towards minApprovals
	Rejected ApprovalStatus = "rejected" // counts nothing
)
