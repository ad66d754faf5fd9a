package staged

import (
	"slices"
	"strconv"
	"time"

	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/internal/strictjson"
)

// Options decide what KubeFleet's strategy cannot express. The zero value takes the first choice of
// every field. A run keeps the options it was compiled with.
type Options struct {
	// Unmatched is for a target that is in no stage: Reject, Ignore, or Last, which adds one more
	// stage at the end, with one target at a time and without tasks.
	Unmatched Choice `json:"unmatched,omitempty"`
	// Overlap is for a target that is in two stages: Reject, or First, which puts it into the
	// first.
	Overlap Choice `json:"overlap,omitempty"`
	// MissingSortKey is for a member without the sorting label: Reject, or Last, which puts it
	// after the others, by name.
	MissingSortKey Choice `json:"missingSortKey,omitempty"`
	// Added is for a target that appears during the run: Ignore, or Append, which makes it the last
	// member of the first stage that matches it and has not reached its after-stage tasks.
	Added Choice `json:"added,omitempty"`
	// Removed is for a target that disappears or starts leaving before it is settled: Skip, or
	// Fail, which counts it as a failure. With Skip, a version that makes targets disappear, or be
	// taken out because they are unhealthy, goes on to the others.
	Removed Choice `json:"removed,omitempty"`
	// LateLeaving is for a target that starts leaving during the run: Ignore, or Clean, which adds
	// it to the cleanup unless that has begun or its approval is requested.
	LateLeaving Choice `json:"lateLeaving,omitempty"`
	// WaitDuringStop says whether stopped time counts towards a wait: Count, or Freeze, which adds
	// it to the end.
	WaitDuringStop Choice `json:"waitDuringStop,omitempty"`
	// VerifyDone says which done targets are looked at again: DuringWait for those of the current
	// stage, Never, or Always for those of every stage.
	VerifyDone Choice `json:"verifyDone,omitempty"`
	// OnRegression is for a done target that is found failing, failed or at another version. With
	// Block its stage does not close if it has after-stage tasks, and with VerifyDone Always no
	// stage does, but other targets of the stage start all the same. Note only gives an event, each
	// time that it is found so. Fail counts it as a failure: so the budget also stops a version that
	// breaks targets only after a while.
	OnRegression Choice `json:"onRegression,omitempty"`
	// OnFailure is for a failure budget that is exceeded: Fail, which fails the run, or Hold, which
	// waits for Skip, Retry or Cancel.
	OnFailure Choice `json:"onFailure,omitempty"`
	// OnReject is for an approval that is rejected: Fail, which fails the run, or Hold, which waits
	// for Approve or Cancel. No action asks for a rejected approval again: look for it in
	// [Run.Stages].
	OnReject Choice `json:"onReject,omitempty"`
	// Rounding is how percentages are rounded: Down (of concurrency to at least 1), or Up.
	Rounding Choice `json:"rounding,omitempty"`
	// StuckAfter is how long after its start a target that is starting or updating is marked as
	// stuck, which frees no slot. It must be positive; unset means 5m.
	StuckAfter Duration `json:"stuckAfter,omitzero"`
	// StopGrace is how long stopping, failing or cancelling waits for targets in progress. Unset or
	// None means until they are settled, ready or stuck.
	StopGrace Duration `json:"stopGrace,omitzero"`
	// Cleanup limits the removal of leaving targets.
	Cleanup Cleanup `json:"cleanup,omitzero"`
}

// Cleanup says how leaving targets are removed: by default all at once, and without an approval,
// which is a part of the [Strategy], see [DeleteStage].
type Cleanup struct {
	MaxConcurrency   concurrency.Limit `json:"maxConcurrency,omitzero"`   // 100% if unset
	MaxFailures      concurrency.Limit `json:"maxFailures,omitzero"`      // 0 if unset; the only budget that removals count against
	ProgressDeadline Duration          `json:"progressDeadline,omitzero"` // from the start of a removal; none if unset
}

// Choice is a value of one of the [Options]. Each field names the choices that it accepts. Empty
// means the first of them.
type Choice string

// The choices.
const (
	Reject     Choice = "reject"
	Ignore     Choice = "ignore"
	Last       Choice = "last"
	First      Choice = "first"
	Append     Choice = "append"
	Skip       Choice = "skip"
	Fail       Choice = "fail"
	Clean      Choice = "clean"
	Count      Choice = "count"
	Freeze     Choice = "freeze"
	DuringWait Choice = "duringWait"
	Never      Choice = "never"
	Always     Choice = "always"
	Block      Choice = "block"
	Note       Choice = "note"
	Hold       Choice = "hold"
	Down       Choice = "down"
	Up         Choice = "up"
)

// defaultStuckAfter is KubeFleet's constant.
const defaultStuckAfter = 5 * time.Minute

// UnmarshalJSON reads the options strictly: an unknown field is an error. All faults are reported,
// joined, each a *[FieldError], and the options are then unchanged. [Options.Validate] checks whether
// a field accepts its value.
func (o *Options) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		return nil
	}
	type plain Options
	return decodeFaults("", strictjson.Unmarshal(data, (*plain)(o)))
}

// Validate reports every fault, joined, each a *[FieldError].
func (o Options) Validate() error {
	var list faults
	for _, c := range []struct {
		name   string
		choice Choice
		from   []Choice // the default first
	}{
		{"unmatched", o.Unmatched, []Choice{Reject, Ignore, Last}},
		{"overlap", o.Overlap, []Choice{Reject, First}},
		{"missingSortKey", o.MissingSortKey, []Choice{Reject, Last}},
		{"added", o.Added, []Choice{Ignore, Append}},
		{"removed", o.Removed, []Choice{Skip, Fail}},
		{"lateLeaving", o.LateLeaving, []Choice{Ignore, Clean}},
		{"waitDuringStop", o.WaitDuringStop, []Choice{Count, Freeze}},
		{"verifyDone", o.VerifyDone, []Choice{DuringWait, Never, Always}},
		{"onRegression", o.OnRegression, []Choice{Block, Note, Fail}},
		{"onFailure", o.OnFailure, []Choice{Fail, Hold}},
		{"onReject", o.OnReject, []Choice{Fail, Hold}},
		{"rounding", o.Rounding, []Choice{Down, Up}},
	} {
		if c.choice != "" && !slices.Contains(c.from, c.choice) {
			list.add(CodeOption, c.name, strconv.Quote(string(c.choice)), "must be "+strictjson.Choice(c.from...)+"; left out it is "+strictjson.Choice(c.from[0]))
		}
	}
	if length, given := o.StuckAfter.Value(); !o.StuckAfter.IsZero() && (!given || length <= 0) {
		list.add(CodeOption, "stuckAfter", strconv.Quote(o.StuckAfter.String()), "must be more than zero; left out it is 5m")
	}
	if length, given := o.StopGrace.Value(); given && length < 0 {
		list.add(CodeOption, "stopGrace", strconv.Quote(o.StopGrace.String()), "must be a duration, 0, or None")
	}
	limit(&list, CodeOption, "cleanup.maxConcurrency", o.Cleanup.MaxConcurrency, 1)
	limit(&list, CodeOption, "cleanup.maxFailures", o.Cleanup.MaxFailures, 0)
	durations(&list, CodeOption, "cleanup.", o.Cleanup.ProgressDeadline, Duration{})
	return list.err()
}
