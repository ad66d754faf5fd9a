package bracket

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/internal/textkey"
)

// State is what a host keeps for one (rule, environment) between two calls of [Step]. Records are
// immutable: Step and Commit replace a record that changes and share the others, so that comparing
// pointers tells what to save: see [State.Changed].
type State struct {
	// Group is the record of the (rule, environment). It is never nil after [NewState].
	Group *GroupRecord
	// Executions are the records of the rule's resources, ascending by resource: sort what
	// [Store.List] returns, because keys escape some characters and so have another order. A
	// resource without a record never had an execution.
	Executions []*ExecutionRecord
}

// GroupRecord is what is stored per (rule, environment), under [GroupKey].
type GroupRecord struct {
	Schema      int    `json:"schema"` // 1
	Rule        string `json:"rule"`
	Environment string `json:"environment"`
	// Number is the number of the latest group, collecting ones included; 0 before the first.
	Number int `json:"number"`
	// Marks holds, per main member, the greatest version that a closed group locked. Only greater
	// versions are new, with three exceptions:
	//
	//   - after a deleted rule has come back, the versions of its latest group, if that group was
	//     cancelled with the rule;
	//   - the versions that the latest group should have locked and did not, because the planner
	//     that closed it had not read them;
	//   - for a target with versions out of scope, those that are newer than what the latest group
	//     locked for it.
	Marks map[string]VersionMark `json:"marks"`
	// Collecting is the group whose window is open, nil if there is none.
	Collecting *Collecting `json:"collecting,omitempty"`
	// Closed holds, ascending by number, the closed groups that an open execution refers to, and
	// last the latest closed group.
	Closed []*Group `json:"closed"`
}

// Collecting is a group whose window is open: it is collecting from OpenedAt on, until it closes.
type Collecting struct {
	ID       string    `json:"id"`
	OpenedAt time.Time `json:"openedAt"`
}

// VersionMark names a version together with the instant that orders it.
type VersionMark struct {
	ID        string    `json:"id"`
	CreatedAt time.Time `json:"createdAt"`
}

// Group is a closed version group: the versions that it locked, with a copy of the rule and the
// members in force at the close.
type Group struct {
	ID       string    `json:"id"` // rule, environment and number, see [GroupID]
	OpenedAt time.Time `json:"openedAt"`
	ReadyAt  time.Time `json:"readyAt"` // the close
	Status   Status    `json:"status"`
	// TimedOut says that the group stopped waiting for members without a new version.
	TimedOut bool `json:"timedOut"`
	// ClosedBy is the command that closed the group before it would have closed by itself, with the
	// instant of the close as its At; nil if none did.
	ClosedBy *Command `json:"closedBy,omitempty"`
	// Strategy is the strategy in force for unchanged members: never require_all after a timeout.
	Strategy UnchangedMemberStrategy `json:"strategy"`
	Rule     Rule                    `json:"rule"` // with defaults written out
	// Members are ascending by deployment.
	Members []GroupMember `json:"members"`
}

// GroupMember is a member as it was when the group closed.
type GroupMember struct {
	Deployment string            `json:"deployment"`
	Role       Role              `json:"role"`
	Needs      []string          `json:"needs"` // including those that follow from the roles; ascending
	NeedsIf    []ConditionalNeed `json:"needsIf,omitempty"`
	// Locks are the locked versions, newest first. Each resource gets the first of them that is in
	// scope and still eligible.
	Locks []VersionMark `json:"locks"`
}

// ExecutionRecord is what is stored per (rule, resource), under [ExecutionKey]. It is shared by all
// environments: only one execution may be open on a resource.
type ExecutionRecord struct {
	Schema   int    `json:"schema"` // 1
	Rule     string `json:"rule"`
	Resource string `json:"resource"`
	// Last is the execution that ended last in each environment; where none has ended there is no
	// entry. Entries are pointers because a map has room for eight of them, of which nearly all are
	// empty, and every resource keeps its record for ever.
	Last map[string]*EndedExecution `json:"last,omitempty"`
	// Open is the execution in progress, nil if there is none.
	Open *Execution `json:"open,omitempty"`
}

// EndedExecution remembers that a group, and those merged into it, ran on a resource: they never
// run there again.
type EndedExecution struct {
	Group   string    `json:"group"`
	Status  Status    `json:"status"` // completed, failed or cancelled
	Merged  []string  `json:"merged"`
	EndedAt time.Time `json:"endedAt"`
	// Decisions are those of the Execution, to its end.
	Decisions []Command `json:"decisions,omitempty"`
}

// Execution is one group on one resource, from its first started run to its end. It holds one lease
// for all that time.
type Execution struct {
	Group       string    `json:"group"`
	Environment string    `json:"environment"`
	Status      Status    `json:"status"`     // executing, or failed once a member has failed for good
	Generation  int       `json:"generation"` // 1 + len(Merged), or more: a merge takes one whose run ids are free
	Merged      []string  `json:"merged"`     // groups absorbed, in order
	StartedAt   time.Time `json:"startedAt"`
	// Rule is the group's copy of the rule. The execution keeps one itself, because a planner with
	// an outdated snapshot may open an execution of a group that the group record has just dropped.
	Rule     *Rule    `json:"rule,omitempty"`
	Commands []string `json:"commands"` // ids already seen, in order
	// Decisions are the commands that were applied, in order, for those who ask later who decided
	// what, and why. At is when the command took effect, in UTC.
	Decisions []Command `json:"decisions,omitempty"`
	// Recovery is set once the reaction to a failure has begun: nothing is retried or merged after
	// that, except within the reaction.
	Recovery Recovery `json:"recovery,omitzero"`
	// Members are ascending by deployment.
	Members []ExecutionMember `json:"members"`
}

// Recovery is the reaction to a failed member that an execution has begun.
type Recovery string

const (
	RecoveryPost     Recovery = "post"     // the post members run after a failure
	RecoveryRollback Recovery = "rollback" // mains return to the versions they had
)

// ExecutionMember is one member of an execution.
type ExecutionMember struct {
	Deployment string       `json:"deployment"`
	Role       Role         `json:"role"`
	Action     Action       `json:"action"`
	Version    string       `json:"version"` // what the target must run in the end; its current version if it is skipped
	From       string       `json:"from"`    // what it ran before the execution, empty if nothing; never changes
	Status     MemberStatus `json:"status"`
	// Attempt is the number of the last run, or of the next one while waiting.
	Attempt int      `json:"attempt"`
	Needs   []string `json:"needs"` // restricted to members of the execution; ascending
	// Generation is the generation of the last run if that is older than the execution's, else 0.
	// It is 0 while the member waits.
	Generation int `json:"generation,omitzero"`
	// Purpose is rollback once the member must return to From, else empty.
	Purpose Purpose `json:"purpose,omitzero"`
	// RunVersion is the version of a run in progress that a merge has outdated. When that run ends,
	// the member waits for its run of Version.
	RunVersion string `json:"runVersion,omitzero"`
	// Touched says that a run of another version than From was started, so that the target may
	// differ from From.
	Touched   bool      `json:"touched,omitzero"`
	StartedAt time.Time `json:"startedAt,omitzero"` // of the last run; zero if none ever started
	EndedAt   time.Time `json:"endedAt,omitzero"`   // of the last ended run
	RetryAt   time.Time `json:"retryAt,omitzero"`   // earliest instant of the next attempt
}

// Status is the status of a group or of an execution. A group that has not started on a resource
// has no status stored there: [Plan.Waits] and [Plan.Start] say whether it is queued, not due or
// ready there, and [ExecutionRecord.Last] says whether it is done.
type Status string

const (
	StatusCollecting Status = "collecting" // the group's window is open
	StatusReady      Status = "ready"      // closed, and nothing has started
	StatusExecuting  Status = "executing"  // a run has started, and not everything has ended
	StatusCompleted  Status = "completed"  // ended, every member done
	StatusFailed     Status = "failed"     // a member failed for good
	StatusSuperseded Status = "superseded" // a newer group closed before this one started, or took it over
	StatusCancelled  Status = "cancelled"  // a group without a new version or without its rule; an execution that was abandoned, or whose resource is gone
)

// MemberStatus is the status of a member of an execution.
type MemberStatus string

const (
	MemberWaiting     MemberStatus = "waiting"      // for its turn, or for its next attempt
	MemberRunning     MemberStatus = "running"      // a run is in progress
	MemberSucceeded   MemberStatus = "succeeded"    // its last run succeeded
	MemberSkipped     MemberStatus = "skipped"      // it needs no run, or an operator skipped it
	MemberFailed      MemberStatus = "failed"       // no attempt is left
	MemberCancelled   MemberStatus = "cancelled"    // it does not run any more: another member failed, or its target is gone
	MemberRollingBack MemberStatus = "rolling_back" // a run back to From is in progress
	MemberRolledBack  MemberStatus = "rolled_back"  // that run succeeded
)

// Role is what a member is for.
type Role string

const (
	Pre  Role = "pre"  // prepares the resource, before every main
	Main Role = "main" // what is upgraded
	Post Role = "post" // restores the resource, after every main
)

// Action is what an execution does with a member.
type Action string

const (
	ActionDeploy   Action = "deploy"   // a main gets the locked version
	ActionRedeploy Action = "redeploy" // a main runs its current version again
	ActionSkip     Action = "skip"     // a main keeps its current version without a run
	ActionRun      Action = "run"      // a hook runs
)

// schema is the version of both stored records.
const schema = 1

// NewState returns the state of a rule, whose id must not be empty, in an environment in which it
// never ran.
func NewState(rule, environment string) State {
	return State{Group: &GroupRecord{Schema: schema, Rule: rule, Environment: environment,
		Marks: map[string]VersionMark{}, Closed: []*Group{}}}
}

// GroupID returns the text form of a group's identity: rule, environment and number, joined as by
// [Run.String].
func GroupID(rule, environment string, number int) string {
	return textkey.Join(rule, environment, strconv.Itoa(number))
}

// ParseGroupID is the inverse of [GroupID]; ok is false for a text that GroupID does not return for a
// number from 0 to 2147483647.
func ParseGroupID(id string) (rule, environment string, number int, ok bool) {
	var digits string
	if !textkey.Scan(id, &rule, &environment, &digits) {
		return "", "", 0, false
	}
	if number, ok = textkey.Number(digits); !ok {
		return "", "", 0, false
	}
	return rule, environment, number, true
}

// groupNumber returns the number of a group of a rule in an environment, 0 if id is not the id of
// one.
func groupNumber(rule, environment, id string) int {
	if first, second, number, ok := ParseGroupID(id); ok && first == rule && second == environment {
		return number
	}
	return 0
}

// GroupKey returns the store key of the group record of a rule in an environment.
func GroupKey(rule, environment string) string {
	return textkey.Join("bracket", "group", rule, environment)
}

// ExecutionKey returns the store key of the execution record of a rule on a resource. With an empty
// resource it is the common prefix of the keys of all resources.
func ExecutionKey(rule, resource string) string {
	return textkey.Join("bracket", "execution", rule, resource)
}

// Changed returns the records that are not those of an earlier state, compared by pointer: the
// group record, or nil if it is the same, and the execution records, ascending by resource.
func (s State) Changed(since State) (group *GroupRecord, executions []*ExecutionRecord) {
	if s.Group != since.Group {
		group = s.Group
	}
	old := since.Executions
	for _, record := range s.Executions {
		for len(old) > 0 && old[0].Resource < record.Resource {
			old = old[1:]
		}
		if len(old) > 0 && old[0] == record {
			old = old[1:]
			continue
		}
		executions = append(executions, record)
	}
	return group, executions
}

// includes reports whether the ended execution was of the group or absorbed it. It is false for nil.
func (e *EndedExecution) includes(group string) bool {
	return e != nil && (e.Group == group || slices.Contains(e.Merged, group))
}

// includes reports whether the open execution is of the environment, and of the group or has
// absorbed it.
func (x *Execution) includes(environment, group string) bool {
	return x.Environment == environment && (x.Group == group || slices.Contains(x.Merged, group))
}

// recordOn returns the record of a resource, nil if there is none.
func (s *State) recordOn(resource string) *ExecutionRecord {
	at, found := slices.BinarySearchFunc(s.Executions, resource, byResource)
	if !found {
		return nil
	}
	return s.Executions[at]
}

func byResource(r *ExecutionRecord, resource string) int {
	return strings.Compare(r.Resource, resource)
}

// withRecords returns records with each of others inserted, or in place of the record of the same
// resource. Both lists ascend by resource. records is not modified.
func withRecords(records, others []*ExecutionRecord) []*ExecutionRecord {
	if len(others) == 0 {
		return records
	}
	merged := make([]*ExecutionRecord, 0, len(records)+len(others))
	for _, o := range others {
		n, found := slices.BinarySearchFunc(records, o.Resource, byResource)
		merged = append(append(merged, records[:n]...), o)
		if records = records[n:]; found {
			records = records[1:]
		}
	}
	return append(merged, records...)
}
