package staged

import (
	"errors"
	"strings"

	"github.com/tranche-dev/tranche/internal/strictjson"
)

// ErrNoRun means that a [Run] was neither returned by [Compile] or [Step] nor decoded.
var ErrNoRun = errors.New("staged: the run is empty: take it from Compile, or decode a stored one")

// FieldError is one fault of a strategy, a run's spec, the options, the fleet or an input. Where all faults are reported they are joined,
// in the order of the fields; errors.As finds the first.
type FieldError struct {
	Rule  Rule   // what was violated
	Path  string // the field, such as stages[2].maxConcurrency; empty if it is the whole value
	Value string // the offending value as it was written; empty if the place itself is the fault
	Hint  string // what is wrong with it, and what to write instead
}

// Error returns "path: value: hint", without the parts that are empty.
func (e *FieldError) Error() string {
	return strictjson.Text(e.Path, e.Value, e.Hint)
}

// Rule names what a [FieldError] violates. The texts are stable.
type Rule string

// The rules of strategies.
const (
	RuleStages            Rule = "stages.count"            // 1 to 31 stages
	RuleStageName         Rule = "stage.name"              // 1 to 63 lower-case letters and digits
	RuleStageNameUnique   Rule = "stage.nameUnique"        // no name twice
	RuleSelector          Rule = "stage.selector"          // a valid label selector, or explicit targets; not both
	RuleSortKey           Rule = "stage.sortKey"           // the sorting label is there and a whole number
	RuleMaxConcurrency    Rule = "stage.maxConcurrency"    // at least 1, or 1% to 100%
	RuleMaxFailures       Rule = "stage.maxFailures"       // at least 0, or 0% to 100%
	RuleRunMaxFailures    Rule = "run.maxFailures"         // the same beside stages
	RuleDuration          Rule = "stage.duration"          // a deadline is positive or None, a soak not negative
	RuleBeforeCount       Rule = "before.count"            // at most one task
	RuleBeforeType        Rule = "before.type"             // an Approval
	RuleBeforeWaitTime    Rule = "before.waitTime"         // without a waitTime
	RuleAfterCount        Rule = "after.count"             // at most two tasks
	RuleAfterType         Rule = "after.type"              // Approval or TimedWait
	RuleAfterTypeUnique   Rule = "after.typeUnique"        // not two of one type
	RuleWaitTimeMissing   Rule = "after.waitTimeMissing"   // a TimedWait has a waitTime
	RuleWaitTimeForbidden Rule = "after.waitTimeForbidden" // an Approval has none
	RuleWaitTime          Rule = "after.waitTime"          // a positive duration
)

// The rules of runs, fleets, options and inputs.
const (
	RulePlacementExternal Rule = "placement.external"              // the placement hands its rollout to a run
	RuleTargetName        Rule = "targets.name"                    // not empty, valid UTF-8
	RuleTargetDuplicate   Rule = "targets.duplicate"               // no name twice
	RuleTargetOverlap     Rule = "targets.overlap"                 // no target in two stages
	RuleTargetUnmatched   Rule = "targets.unmatched"               // no target in no stage
	RuleTargetNone        Rule = "targets.none"                    // something to do
	RuleTargetCount       Rule = "targets.count"                   // fewer than 2³¹
	RuleRunName           Rule = "run.name"                        // a DNS label
	RulePlacementName     Rule = "run.placementName"               // 1 to 255 characters
	RuleStrategyName      Rule = "run.stagedRolloutStrategyName"   // not empty
	RuleSnapshotIndex     Rule = "run.resourceSnapshotIndex"       // empty or decimal digits
	RuleVersion           Rule = "run.version"                     // the version that is really used is known
	RuleState             Rule = "run.state"                       // Initialize, Run or Stop
	RuleTransition        Rule = "run.transition"                  // not back to Initialize, not from there to Stop
	RuleImmutable         Rule = "run.immutable"                   // only the state may change
	RuleOption            Rule = "option"                          // a value of the options
	RuleFormat            Rule = "format"                          // unknown field, wrong type
	RuleInput             Rule = "input"                           // a value of an input to Step that does not exist
	RuleConflict          Rule = "placement.conflictingStrategies" // one placement, two strategies
	RuleDecisionGroup     Rule = "ocm.group"                       // a decision group, or a mandatory one that is not there
	RuleOCMType           Rule = "ocm.type"                        // All, Progressive or ProgressivePerGroup, with fields of that type only
)

// faults collects what is wrong.
type faults []error

func (f *faults) add(rule Rule, path, value, hint string) {
	*f = append(*f, &FieldError{Rule: rule, Path: path, Value: value, Hint: hint})
}

func (f faults) err() error { return errors.Join(f...) }

// parts returns the errors of a joined one.
func parts(err error) []error {
	if list, ok := err.(interface{ Unwrap() []error }); ok {
		return list.Unwrap()
	}
	if err == nil {
		return nil
	}
	return []error{err}
}

// decodeFaults turns what the strict decoder reports into FieldErrors below base. The rule follows from the field, so that a value which
// cannot even be held, such as a maxConcurrency of "50", violates the rule of its field.
func decodeFaults(base string, err error) error {
	var list faults
	for _, one := range parts(err) {
		var fault *strictjson.Error
		if !errors.As(one, &fault) {
			list.add(RuleFormat, base, "", one.Error())
			continue
		}
		path := fault.Path
		if base != "" && path != "" {
			path = base + "." + path
		} else if base != "" {
			path = base
		}
		value, hint := "", fault.Msg
		var own *FieldError
		if errors.As(fault.Err, &own) {
			value, hint = own.Value, own.Hint
		}
		list.add(ruleOf(path), path, value, hint)
	}
	return list.err()
}

// ruleOf returns the rule of a field whose value could not be read.
func ruleOf(path string) Rule {
	field := path[strings.LastIndexByte(path, '.')+1:]
	inStage := strings.Contains(path, "stages[")
	switch {
	case inStage && field == "maxConcurrency":
		return RuleMaxConcurrency
	case inStage && field == "maxFailures":
		return RuleMaxFailures
	case strings.HasPrefix(path, "progressive") && field == "maxConcurrency":
		return RuleMaxConcurrency
	case strings.HasPrefix(path, "progressive") && field == "maxFailures", path == "all.maxFailures":
		return RuleMaxFailures
	case field == "maxFailures" && !strings.Contains(path, "cleanup"):
		return RuleRunMaxFailures
	case field == "waitTime" && strings.Contains(path, "before"):
		return RuleBeforeWaitTime
	case field == "waitTime":
		return RuleWaitTime
	case field == "progressDeadline" || field == "minSuccessTime":
		return RuleDuration
	case strings.Contains(path, "labelSelector."):
		return RuleSelector
	}
	return RuleFormat
}
