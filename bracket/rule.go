package bracket

import (
	"strings"
	"time"

	"github.com/tranche-dev/tranche/internal/strictjson"
)

// Rule is the `deploymentBracket` rule of a policy, with the JSON names of the RFC. Absent fields
// have the defaults that [Rule.WithDefaults] writes out. The zero value is not valid: a selector
// and a window are required.
//
// Expressions are plain texts to this package. The caller evaluates DeploymentSelector and
// MemberRoles and passes the result to [Step] as a list of [Member].
type Rule struct {
	// DeploymentSelector is the CEL expression over deployments that selects the members. Required.
	DeploymentSelector string `json:"deploymentSelector"`
	// ReadinessMode says when a group closes. Default collection_window.
	ReadinessMode ReadinessMode `json:"readinessMode,omitzero"`
	// ReadinessWindowSeconds is the length of the window, 0 to 10 years. Required unless
	// ReadinessMode is immediate, where it must be absent or 0.
	ReadinessWindowSeconds *int64 `json:"readinessWindowSeconds,omitempty"`
	// UnchangedMemberStrategy says what happens to members without a new version. Default
	// skip_unchanged.
	UnchangedMemberStrategy UnchangedMemberStrategy `json:"unchangedMemberStrategy,omitzero"`
	// OverlapStrategy says what happens when a newer group is ready while an execution is open.
	// Default queue.
	OverlapStrategy OverlapStrategy `json:"overlapStrategy,omitzero"`
	// TriggerOn is the instant of a version that opens the window. Default eligible.
	TriggerOn TriggerOn `json:"triggerOn,omitzero"`
	// RequireAllTimeoutSeconds is how long require_all may hold a collection window open after its
	// end, 0 to 10 years. It must be 0 with every other mode and strategy. Default 0.
	RequireAllTimeoutSeconds int64 `json:"requireAllTimeoutSeconds,omitzero"`
	// MemberRoles declares which members are hooks. If its expressions are empty, every member is a
	// main. If MemberRoles is nil, roles are derived from the dependencies. There are hooks then if
	// one of at least three members, the pre, needs nothing and all others need it, and another
	// one, the post, needs all others and is needed by none, directly or indirectly. A single
	// further member without dependencies makes every member a main: a drain without a new version
	// is then skipped, and nodes are upgraded without a drain. Declare the roles to avoid that.
	MemberRoles *MemberRoles `json:"memberRoles,omitempty"`
	// OnMemberFailure says what happens once a member has no attempt left. Default hold.
	OnMemberFailure OnMemberFailure `json:"onMemberFailure,omitzero"`
	// RollbackStrategy is the RFC's name for OnMemberFailure, in the RFC's words: halt_and_notify
	// is hold, individual is rollback_member, and all_members is rollback_all. Only one of the two
	// fields may be given. WithDefaults moves it to OnMemberFailure.
	RollbackStrategy string `json:"rollbackStrategy,omitzero"`
	// AllowMixedPost lets the post members run on a mixed set of versions after rollback_member.
	// Default false: the execution is held until a [Command] skips the rolled back member, so that
	// the others go on, or ends the execution.
	AllowMixedPost bool `json:"allowMixedPost,omitzero"`
	// StuckAfterSeconds is how long a run may be without outcome before [Plan.Stuck] lists it, at
	// most 10 years. Default 0: never.
	StuckAfterSeconds int64 `json:"stuckAfterSeconds,omitzero"`
	// PreparedStatePersists declares that what the pre members prepare outlives a group. Required
	// for merge. Default false.
	PreparedStatePersists bool `json:"preparedStatePersists,omitzero"`
	// HooksIdempotent declares that a pre or post run may be attempted again. Absent: true.
	HooksIdempotent *bool `json:"hooksIdempotent,omitempty"`
	// MaxMerges is how many groups one execution may absorb, at least 1; only with merge. Absent:
	// 1.
	MaxMerges *int `json:"maxMerges,omitempty"`
}

// MemberRoles declares hooks by CEL expressions over deployments. An empty expression selects
// nothing.
type MemberRoles struct {
	Pre  string `json:"pre,omitzero"`  // members that prepare the resource, such as a drain
	Post string `json:"post,omitzero"` // members that restore it, such as an uncordon
}

// ReadinessMode says when a group closes.
type ReadinessMode string

const (
	CollectionWindow ReadinessMode = "collection_window" // when the window ends
	WaitForAll       ReadinessMode = "wait_for_all"      // as soon as every main has a new version, at the latest when the window ends
	Immediate        ReadinessMode = "immediate"         // as soon as one main has a new version
)

// UnchangedMemberStrategy says what happens to a main member without a new version.
type UnchangedMemberStrategy string

const (
	SkipUnchanged   UnchangedMemberStrategy = "skip_unchanged"   // it does not run
	RedeployCurrent UnchangedMemberStrategy = "redeploy_current" // it runs its current version again
	RequireAll      UnchangedMemberStrategy = "require_all"      // the group waits for it, up to a limit, then skips it; not with immediate
)

// OverlapStrategy says what happens when a newer group is ready while an execution is open on a
// resource. A merge also runs a main again if its target became outdated after its run began.
type OverlapStrategy string

const (
	Queue OverlapStrategy = "queue" // the newer group waits for the end of the execution
	Merge OverlapStrategy = "merge" // the open execution takes over the newer versions, if it still can
)

// TriggerOn names the instant of a version that opens the window.
type TriggerOn string

const (
	Eligible  TriggerOn = "eligible"  // when its last gate opened
	Published TriggerOn = "published" // when it was created
)

// OnMemberFailure says what happens once a member has no attempt left. Where going on could make
// things worse, [Hold] applies whatever is set: after the failure of a post member or of a
// rollback; under [RollbackMember] and [RollbackAll], if a member to be rolled back has no version
// to return to; and under RollbackMember, if a pre member fails. Under [RunPost] and RollbackAll a
// failed pre leads straight to the post members. A rollback returns its target to the version it
// had even if the target was taken to another one meanwhile.
type OnMemberFailure string

const (
	Hold           OnMemberFailure = "hold"            // nothing starts; the lease is held until an operator decides, by a [Command]
	RunPost        OnMemberFailure = "run_post"        // the post members run, then the execution ends failed
	RollbackMember OnMemberFailure = "rollback_member" // the failed main returns to the version it had; then as under hold, unless AllowMixedPost
	RollbackAll    OnMemberFailure = "rollback_all"    // every main returns to the version it had, then the post members run
)

// The RFC's words for OnMemberFailure.
const (
	haltAndNotify = "halt_and_notify"
	individual    = "individual"
	allMembers    = "all_members"
)

// maxSeconds is 10 years: a longer window is a typing error, and an instant plus two such windows
// is far from overflow.
const maxSeconds = 10 * 366 * 24 * 60 * 60

// WithDefaults returns the rule with every default written out and RollbackStrategy moved to
// OnMemberFailure. It shares nothing with the receiver. The result of a valid rule is valid.
func (r Rule) WithDefaults() Rule {
	fill(&r.ReadinessMode, CollectionWindow)
	fill(&r.UnchangedMemberStrategy, SkipUnchanged)
	fill(&r.OverlapStrategy, Queue)
	fill(&r.TriggerOn, Eligible)
	switch r.RollbackStrategy {
	case haltAndNotify:
		fill(&r.OnMemberFailure, Hold)
	case individual:
		fill(&r.OnMemberFailure, RollbackMember)
	case allMembers:
		fill(&r.OnMemberFailure, RollbackAll)
	}
	r.RollbackStrategy = ""
	fill(&r.OnMemberFailure, Hold)
	r.ReadinessWindowSeconds = copied(r.ReadinessWindowSeconds, 0)
	r.HooksIdempotent = copied(r.HooksIdempotent, true)
	if r.OverlapStrategy == Merge {
		r.MaxMerges = copied(r.MaxMerges, 1)
	} else {
		r.MaxMerges = nil
	}
	if r.MemberRoles != nil {
		roles := *r.MemberRoles
		r.MemberRoles = &roles
	}
	return r
}

func fill[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func copied[T any](p *T, absent T) *T {
	if p != nil {
		absent = *p
	}
	return &absent
}

// Validate reports every fault of the rule, joined, each a *[FieldError], in the order of the
// fields. It does not compile expressions.
func (r Rule) Validate() error {
	var f faults
	if strings.TrimSpace(r.DeploymentSelector) == "" {
		f.add("deploymentSelector", CodeRequired, nil, `is required: an expression that selects the members; "true" selects every deployment of the policy`)
	}
	// With an unknown value it is not known which other fields belong to it, so they are not
	// checked against it.
	modeKnown := oneOf(&f, "readinessMode", r.ReadinessMode, CollectionWindow, WaitForAll, Immediate)
	window := r.ReadinessWindowSeconds
	switch {
	case window == nil && modeKnown && r.ReadinessMode != Immediate:
		f.add("readinessWindowSeconds", CodeRequired, nil, "is required unless readinessMode is immediate; 0 closes the window at once").reading("readinessMode")
	case window != nil && (*window < 0 || *window > maxSeconds):
		f.seconds("readinessWindowSeconds", *window)
	case window != nil && *window > 0 && r.ReadinessMode == Immediate:
		f.add("readinessWindowSeconds", CodeConflict, *window, "must be absent or 0 with readinessMode immediate, which has no window").reading("readinessMode")
	}
	unchangedKnown := oneOf(&f, "unchangedMemberStrategy", r.UnchangedMemberStrategy, SkipUnchanged, RedeployCurrent, RequireAll)
	if r.ReadinessMode == Immediate && r.UnchangedMemberStrategy == RequireAll {
		f.add("unchangedMemberStrategy", CodeConflict, RequireAll, "contradicts readinessMode immediate: use wait_for_all with a window").reading("readinessMode")
	}
	overlapKnown := oneOf(&f, "overlapStrategy", r.OverlapStrategy, Queue, Merge)
	oneOf(&f, "triggerOn", r.TriggerOn, Eligible, Published)
	f.seconds("requireAllTimeoutSeconds", r.RequireAllTimeoutSeconds)
	collects := r.ReadinessMode == "" || r.ReadinessMode == CollectionWindow
	if timeout := r.RequireAllTimeoutSeconds; timeout != 0 && modeKnown && unchangedKnown && !(collects && r.UnchangedMemberStrategy == RequireAll) {
		f.add("requireAllTimeoutSeconds", CodeConflict, timeout, "must be 0 unless readinessMode is collection_window and unchangedMemberStrategy is require_all").reading("readinessMode", "unchangedMemberStrategy")
	}
	failureKnown := oneOf(&f, "onMemberFailure", r.OnMemberFailure, Hold, RunPost, RollbackMember, RollbackAll)
	strategyKnown := oneOf(&f, "rollbackStrategy", r.RollbackStrategy, haltAndNotify, individual, allMembers)
	if r.OnMemberFailure != "" && r.RollbackStrategy != "" {
		f.add("rollbackStrategy", CodeConflict, r.RollbackStrategy, "must be absent beside onMemberFailure, which it is another name for").reading("onMemberFailure")
	}
	if r.AllowMixedPost && failureKnown && strategyKnown && r.OnMemberFailure != RollbackMember && r.RollbackStrategy != individual {
		f.add("allowMixedPost", CodeConflict, true, "must be false unless onMemberFailure is rollback_member").reading("onMemberFailure", "rollbackStrategy")
	}
	f.seconds("stuckAfterSeconds", r.StuckAfterSeconds)
	if r.OverlapStrategy == Merge && !r.PreparedStatePersists {
		f.add("preparedStatePersists", CodeConflict, false, "must be true with overlapStrategy merge: a merged group relies on the pre members of an earlier one").reading("overlapStrategy")
	}
	switch {
	case r.MaxMerges == nil:
	case overlapKnown && r.OverlapStrategy != Merge:
		f.add("maxMerges", CodeConflict, *r.MaxMerges, "must be absent unless overlapStrategy is merge").reading("overlapStrategy")
	case *r.MaxMerges < 1:
		f.add("maxMerges", CodeOutOfRange, *r.MaxMerges, "must be at least 1; to merge nothing, leave it out and use overlapStrategy queue").reading("overlapStrategy")
	}
	return f.err()
}

// hooksIdempotent, maxMerges and reacts apply the defaults, because a rule made by hand may lack
// them, and nobody has checked a deleted one.
func (r *Rule) hooksIdempotent() bool { return r.HooksIdempotent == nil || *r.HooksIdempotent }

func (r *Rule) maxMerges() int {
	if r.MaxMerges == nil {
		return 1
	}
	return *r.MaxMerges
}

// reacts reports whether anything follows a failure without an operator.
func (r *Rule) reacts() bool {
	switch r.OnMemberFailure {
	case RunPost, RollbackMember, RollbackAll:
		return true
	}
	return false
}

func (r *Rule) stuckAfter() time.Duration { return time.Duration(r.StuckAfterSeconds) * time.Second }

// UnmarshalJSON decodes a rule strictly: unknown fields, fields given twice and values of the wrong
// type are errors. All faults are reported, joined, each a *[FieldError]; the rule is unchanged if
// there are any. Values are checked by [Rule.Validate].
func (r *Rule) UnmarshalJSON(data []byte) error {
	type plain Rule
	return decodeErrors(strictjson.Unmarshal(data, (*plain)(r)))
}
