package bracket

import (
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/tranche-dev/tranche/internal/strictjson"
	"github.com/tranche-dev/tranche/internal/textkey"
)

// Observation is what the host sees of one (rule, environment), all from one read, which begins
// after the state was read. The order of its slices does not matter, but [Step] saves a sort if
// Targets ascend by (Resource, Deployment), and another if Runs ascend by (Resource, Group,
// Deployment, Generation, Attempt, Purpose). Step does not modify the Observation, but the [Plan]
// refers to it: do not modify it while the plan is in use. Names and ids must be valid UTF-8,
// because JSON changes other ones. An instant before the year 1 counts as missing, as the zero
// time.Time does: some databases write the year 0 for a missing date.
type Observation struct {
	// Members are the deployments that the rule selects now. Members without a target are left out
	// of groups.
	Members []Member
	// Versions are the versions of the members, and of former members that a group or execution in
	// the state still names. A version that is not listed counts as older than all listed ones and
	// as not eligible. If an execution begins while a version that its group has locked is missing
	// here, the execution leaves that version out for good: see Due.
	Versions []Version
	// Targets are the release targets of those deployments in the environment; nil means none. A
	// target that is not listed counts as deleted.
	Targets Targets
	// Runs are the runs of this rule and environment that the host knows: at least those of open
	// executions that are in progress or ended since the state was saved. Older ones do no harm.
	Runs []RunFact
	// Commands are the operators' commands, see [Command]. A command may be repeated for as long as
	// its execution is open, and also after that.
	Commands []Command
	// DeletedResources are resources that are proved to be deleted. Having no targets is no proof.
	// If Targets still lists some of such a resource, they count as deleted too.
	DeletedResources []string
	// RuleDeleted says that the rule no longer exists: a collecting group and executions not
	// started are cancelled, open ones run to their end with the group's copy of the rule. Members
	// is ignored. If the rule comes back, the versions that a group had locked when it was
	// cancelled in this way are new again on every target that does not run them.
	RuleDeleted bool
	// Due returns when a closed group may start on each pending resource, one instant per entry of
	// pending.Resources; zero means not known yet. The plan keeps the returned slice. If Due is
	// nil, everything is due at Group.ReadyAt. Step calls Due with the latest closed group while
	// that group has still to run on some resource, and a second time if the observed runs change
	// the set of these resources. A version that pending.Group has locked and Versions lacks counts
	// as deleted. A host that may read versions later than another planner must therefore return
	// zero while such a version is missing.
	Due func(pending PendingGroup) []time.Time
}

// Member is a deployment that the rule selects, with its dependencies inside the bracket.
type Member struct {
	Deployment string
	// Role is the declared role; empty means main. It is used only if the rule has MemberRoles;
	// otherwise roles are derived from the dependencies.
	Role Role
	// Needs are the members that must have finished before this one starts, whatever their version.
	// A need that has no target on a resource is satisfied there.
	Needs []string
	// NeedsIf are needs that hold only in executions after which the needed member runs one of
	// certain versions. They are decided once, when an execution starts or is merged. A version that
	// was created after a group closed makes no need in that group, and so none of its roles,
	// however late the [Step] that closes it.
	NeedsIf []ConditionalNeed
}

// ConditionalNeed is a dependency on a member that exists only for some of its versions.
type ConditionalNeed struct {
	Deployment string   `json:"deployment"`
	Versions   []string `json:"versions"` // ids; with any other version of Deployment there is no dependency
}

// Version is one version of a deployment in the environment.
type Version struct {
	Deployment, ID string
	// CreatedAt orders versions (then ID does, byte-wise). Required.
	CreatedAt time.Time
	// EligibleAt is when the last version-level gate opened; an instant before CreatedAt counts as
	// CreatedAt. Zero means that a gate holds the version back. An instant after now means that the
	// gate is known to open then: nothing begins with the version before that instant, and Next is
	// no later than it if something can begin then. A new version of a hook begins nothing.
	EligibleAt time.Time
}

// Targets is a list of release targets that need not be in memory: fleets are large, and hosts have
// their own representation of them. [Step] reads the list only while it runs: usually once, twice
// if it does not ascend by (Resource, Deployment).
type Targets interface {
	Len() int
	At(i int) Target // 0 <= i < Len()
}

// TargetList is a list of targets in memory.
type TargetList []Target

// Len implements [Targets].
func (l TargetList) Len() int { return len(l) }

// At implements [Targets].
func (l TargetList) At(i int) Target { return l[i] }

// Target is one release target: a deployment on a resource, in the observed environment.
type Target struct {
	Resource, Deployment string // Resource is required; targets of deployments that no group or member names are ignored
	// Current is the version last deployed successfully, empty if there is none.
	Current string
	// OutdatedAt is the instant since which the target needs a new run of the same version, for
	// example because its variables changed; zero: it does not. An instant after the close of the
	// latest group opens the next one. An earlier instant opens none: the latest group takes the
	// target along, or if it has already begun on the resource, the target waits for the next
	// group. If a host never sets it, such changes bypass the bracket.
	OutdatedAt time.Time
	// OutOfScope are the ids of versions that are not meant for this target. Targets may share a
	// list, and where many have a long one they should; it must not change while [Step] runs.
	OutOfScope []string
}

// Run identifies one attempt of one member in one execution. The holder of the lease it runs under
// is (Resource, Group).
type Run struct {
	Group, Resource, Deployment string
	Generation                  int // 1, and at least one more for every merge before the run started
	Attempt                     int // 1, 2, … within the generation and purpose
	Purpose                     Purpose
}

// String returns the six parts joined by "/", with "%" and "/" inside a part written "%25" and
// "%2F". It is unique per run. The host must use it as the key that makes dispatch idempotent.
func (r Run) String() string {
	return textkey.Join(r.Group, r.Resource, r.Deployment, strconv.Itoa(r.Generation), strconv.Itoa(r.Attempt), string(r.Purpose))
}

// Purpose says in which direction a run moves its target.
type Purpose string

const (
	Deploy   Purpose = "deploy"   // to the version frozen for the member
	Rollback Purpose = "rollback" // back to the version before the execution
)

// RunFact is what the host knows of a run.
type RunFact struct {
	Run       Run
	Status    RunStatus
	StartedAt time.Time // zero: the instant at which it was committed
	EndedAt   time.Time // ignored while running; zero: the instant of the Step that first sees the end
	// RetryAt is when a failed or lost run may be attempted again. Zero: no further attempt.
	RetryAt time.Time
	// Version is what the run deploys; empty: what its member was to run. It matters only if the
	// state is older than the runs, such as after a backup was restored: a merge then does not take
	// a run of another version for its own.
	Version string
}

// RunStatus is the status of a run as observed.
type RunStatus string

const (
	RunRunning   RunStatus = "running"   // dispatched, and without an outcome
	RunSucceeded RunStatus = "succeeded" // the target has the version of the run
	RunFailed    RunStatus = "failed"    // it ended, and the target may have any version
	RunLost      RunStatus = "lost"      // it will never report, and what it did is unknown
)

// Command is an operator's decision about one open execution or, with [Close], about the group that
// is collecting. The first Step that sees both the command and the open execution applies it, at
// most once per ID. If it does not apply then, it never will: see Refused in [Plan].
//
// Close locks what the observation of that Step holds. A version that it lacks, because it was read
// from a cache, waits for the next group: a host makes sure first that it sees the version for which
// the command was given.
type Command struct {
	// ID differs from that of every other command that the observation lists, also of one for another
	// execution. A later command of the same execution with an ID that was used before is taken for
	// the earlier one: it is ignored, and not listed as refused.
	ID   string      `json:"id"`
	Kind CommandKind `json:"kind"`
	// Group and Resource name the execution. Both are required, except that close names the group
	// alone: then Resource must be empty.
	Group    string `json:"group"`
	Resource string `json:"resource,omitempty"`
	// Deployment names the member for retry and skip. Empty means every failed member; a rolled
	// back member must be named. It must be empty for resolve, abandon and close.
	Deployment string `json:"deployment,omitempty"`
	// By and Reason say who decided, and why, in valid UTF-8. They are not interpreted: the record of
	// the execution keeps them, see [Execution], or that of the group, see [Group].
	By string `json:"by,omitempty"`
	// At is when the command was given; zero means the now of the Step. Commands apply in the order
	// of At. Resolve and abandon take effect at At, but not after the now of the Step and not
	// before the execution began; close takes effect at that now, whatever At is.
	At     time.Time `json:"at,omitzero"`
	Reason string    `json:"reason,omitempty"`
}

// UnmarshalJSON decodes a command strictly: unknown fields, fields given twice, values of the wrong
// type and null are errors, because with a misspelt deployment a command would concern every failed
// member. All faults are reported, joined, each a *[FieldError]; the command is unchanged if there
// are any. Values are checked by [Command.Validate].
func (c *Command) UnmarshalJSON(data []byte) error {
	type plain Command
	return decodeErrors(strictjson.Unmarshal(data, (*plain)(c)))
}

// Validate reports every fault of the command, joined, each a *[FieldError]. It does not check
// whether the execution exists.
func (c Command) Validate() error {
	var f faults
	if c.ID == "" {
		f.add("id", CodeRequired, nil, "must not be empty: a command is carried out once, by its id")
	}
	for _, text := range []struct{ field, value, hint string }{{"id", c.ID, hintUTF8}, {"by", c.By, hintTexts}, {"reason", c.Reason, hintTexts}} {
		if !utf8.ValidString(text.value) {
			f.add(text.field, CodeType, text.value, "%s", text.hint)
		}
	}
	closes := c.Kind == Close
	switch {
	case c.Group != "":
	case closes:
		f.add("group", CodeRequired, nil, "is required: the group that command %q closes", c.ID)
	default:
		f.add("group", CodeRequired, nil, "is required: group and resource name the execution of command %q", c.ID)
	}
	switch {
	case c.Resource == "" && !closes:
		f.add("resource", CodeRequired, nil, "is required: group and resource name the execution of command %q", c.ID)
	case c.Resource != "" && closes:
		f.add("resource", CodeConflict, c.Resource, "must be empty: a group closes for all resources of its environment")
	}
	if !storable(c.At) {
		f.add("at", CodeOutOfRange, stamp(c.At), hintYears)
	}
	switch c.Kind {
	case Retry, Skip:
	case Resolve, Abandon, Close:
		if c.Deployment != "" {
			f.add("deployment", CodeConflict, c.Deployment, "must be empty: %s concerns all members", c.Kind)
		}
	case "":
		f.add("kind", CodeRequired, nil, "is required: retry, skip, resolve, abandon or close")
	default:
		f.add("kind", CodeUnknownValue, c.Kind, "must be retry, skip, resolve, abandon or close")
	}
	return f.err()
}

// CommandKind is what an operator can decide.
type CommandKind string

const (
	Retry   CommandKind = "retry"   // repeat the failed run, with its purpose; while another failed member is undecided, the run waits
	Skip    CommandKind = "skip"    // count the member as done; a run in progress does not matter any more, and a merge that brings the member again starts it beside that run
	Resolve CommandKind = "resolve" // end the execution as completed, its lease is released
	Abandon CommandKind = "abandon" // end the execution as cancelled, its lease is quarantined: it counts until the host gives it back, once no job of it is at work any more
	Close   CommandKind = "close"   // close the group that is collecting without waiting for the end of its window or for further members: as soon as a new version is eligible, which is at once if one is
)

// PendingGroup names the resources on which the latest closed group has still to run, for
// [Observation.Due].
type PendingGroup struct {
	Group     *Group   // read-only
	Resources []string // ascending; read-only
	runs      func(i int) []PendingRun
}

// PendingRun is a member that will run on a pending resource.
type PendingRun struct {
	Deployment, Version string
	Role                Role
	Action              Action // never ActionSkip
}

// Runs returns the members that the group would run on Resources[i], ordered by dependency level
// and deployment. The list is read-only: neighbours with the same deployments in the same versions
// share one. A hook without any version has an empty Version. If [Step] did not make the
// PendingGroup, as in a test of a host's Due, Runs returns nil.
func (p PendingGroup) Runs(i int) []PendingRun {
	if p.runs == nil {
		return nil
	}
	return p.runs(i)
}
