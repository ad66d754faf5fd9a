package staged

import (
	"errors"
	"strconv"
	"strings"

	"github.com/tranche-dev/tranche/internal/strictjson"
)

// ErrNoRun means that a [Run] is nil or zero: neither [Compile] nor [Step] returned it, and it was
// not decoded.
var ErrNoRun = errors.New("staged: the run is empty: take it from Compile, or decode a stored one")

// FieldError is one fault of a strategy, a run's spec, the options, the fleet, an input or a stored
// run. Functions that report every fault join them as [errors.Join] does, in the order of the
// fields; errors.As finds the first, the text lists 100 at most, and Unwrap() []error has all.
type FieldError struct {
	Path  string `json:"path"`            // the field, such as stages[2].maxConcurrency; empty if the whole value is at fault
	Code  Code   `json:"code"`            // what kind of fault it is
	Value string `json:"value,omitempty"` // the offending value as it was written; empty if the field is absent, or if its value does not matter
	Hint  string `json:"hint"`            // what is wrong and what to write instead; for people, may change
}

// Error returns "path: value: hint", without the parts that are empty.
func (e *FieldError) Error() string {
	return strictjson.Text(e.Path, e.Value, e.Hint)
}

// Code is a kind of fault, named after the violated rule, for callers that branch on it. Codes are
// part of the compatibility promise.
type Code string

// Codes of documents, which are the same in every package. A limit, a duration or a part of a label
// selector that cannot be read has the code of its field in a strategy instead of CodeType.
const (
	CodeSyntax       Code = strictjson.CodeSyntax       // the document is not JSON, is empty, or is followed by more text
	CodeUnknownField Code = strictjson.CodeUnknownField // there is no such field
	CodeDuplicate    Code = strictjson.CodeDuplicate    // a field is given twice
	CodeType         Code = strictjson.CodeType         // the value has another type, or a form that its type does not have
)

// Codes of strategies. Each comment states what must hold.
const (
	CodeStages                 Code = "stages.count"                 // 1 to 31 stages
	CodeStageName              Code = "stage.name"                   // 1 to 63 lower-case letters and digits
	CodeStageNameUnique        Code = "stage.nameUnique"             // no name twice
	CodeSelector               Code = "stage.selector"               // a valid label selector, or explicit targets; not both
	CodeSortKey                Code = "stage.sortKey"                // the sorting label is there and a whole number
	CodeMaxConcurrency         Code = "stage.maxConcurrency"         // at least 1, or 1% to 100%
	CodeGroupBy                Code = "stage.groupBy"                // the key of a label, and what it is for; its values are valid UTF-8
	CodeMaxConcurrencyPerGroup Code = "stage.maxConcurrencyPerGroup" // given with groupBy alone, and as maxConcurrency
	CodeMaxFailures            Code = "stage.maxFailures"            // at least 0, or 0% to 100%
	CodeRunMaxFailures         Code = "run.maxFailures"              // the same, for the maxFailures beside stages
	CodeDuration               Code = "stage.duration"               // a deadline is positive or None, a soak not negative
	CodeBeforeCount            Code = "before.count"                 // at most one task
	CodeBeforeType             Code = "before.type"                  // every task is an Approval
	CodeBeforeWaitTime         Code = "before.waitTime"              // an Approval before a stage has no waitTime
	CodeAfterCount             Code = "after.count"                  // at most two tasks
	CodeAfterType              Code = "after.type"                   // Approval or TimedWait
	CodeAfterTypeUnique        Code = "after.typeUnique"             // not two of one type
	CodeWaitTimeMissing        Code = "after.waitTimeMissing"        // a TimedWait has a waitTime
	CodeWaitTimeForbidden      Code = "after.waitTimeForbidden"      // an Approval after a stage has no waitTime
	CodeWaitTime               Code = "after.waitTime"               // the waitTime of a TimedWait is more than zero
)

// Codes of runs, fleets, options and inputs. Each comment states what must hold.
const (
	CodePlacementExternal Code = "placement.external"              // the placement's strategy type is External: it hands its rollout to a run
	CodeTargetName        Code = "targets.name"                    // not empty, valid UTF-8
	CodeTargetDuplicate   Code = "targets.duplicate"               // no name twice
	CodeTargetOverlap     Code = "targets.overlap"                 // no target in two stages
	CodeTargetUnmatched   Code = "targets.unmatched"               // every target is in a stage
	CodeTargetNone        Code = "targets.none"                    // at least one target or leaving target
	CodeTargetCount       Code = "targets.count"                   // fewer than 2³¹-1
	CodeRunName           Code = "run.name"                        // a DNS label; namespace and id are valid UTF-8
	CodePlacementName     Code = "run.placementName"               // 1 to 255 characters
	CodeStrategyName      Code = "run.stagedRolloutStrategyName"   // not empty
	CodeSnapshotIndex     Code = "run.resourceSnapshotIndex"       // empty or decimal digits
	CodeVersion           Code = "run.version"                     // the version that is really used is known, and valid UTF-8
	CodeState             Code = "run.state"                       // Initialize, Run or Stop
	CodeTransition        Code = "run.transition"                  // not back to Initialize, and not from Initialize to Stop
	CodeImmutable         Code = "run.immutable"                   // only the state may change
	CodeOption            Code = "option"                          // a value that the option accepts
	CodeFormat            Code = "format"                          // an object of the right kind with a spec, or a stored run that is not damaged
	CodeInput             Code = "input"                           // only known values in an input to Step, and no command that names less than it concerns
	CodeConflict          Code = "placement.conflictingStrategies" // open runs of one placement have the same strategy
	CodeDecisionGroup     Code = "ocm.group"                       // each cluster has a name and is in one decision group; each mandatory group exists
	CodeOCMType           Code = "ocm.type"                        // All, Progressive or ProgressivePerGroup, with only the fields of that type
)

// faults collects what is wrong.
type faults []error

func (f *faults) add(code Code, path, value, hint string) {
	*f = append(*f, &FieldError{Path: path, Code: code, Value: value, Hint: hint})
}

func (f faults) err() error { return strictjson.Join(f...) }

// within puts the paths of faults, each a FieldError made by add or transition, below a base.
func (f faults) within(base string) faults {
	for _, fault := range f {
		fault := fault.(*FieldError)
		fault.Path = strictjson.Path(base, fault.Path)
	}
	return f
}

// decodeFaults turns the faults of the strict decoder into FieldErrors below base. The code of a
// wrong value follows from its field, even if the type of the field cannot hold the value, such as
// a maxConcurrency of "50".
func decodeFaults(base string, err error) error { return faultsOf(base, base, err) }

// partFaults is decodeFaults for a part of a document that has a decoder of its own. Codes follow
// from where the part belongs; its paths are continued by the decoder of the document, if there is
// one.
func partFaults(within string, err error) error { return faultsOf(within, "", err) }

func faultsOf(within, base string, err error) error {
	var list faults
	for _, fault := range strictjson.Faults(err) {
		code := Code(fault.Code)
		if code != CodeSyntax && code != CodeUnknownField && code != CodeDuplicate {
			code = codeOf(strictjson.Path(within, fault.Path))
			switch field := fieldOf(fault.Path); {
			case code == CodeSelector: // a label may be called maxFailures
			case field == "maxConcurrency", field == "maxConcurrencyPerGroup":
				fault.Hint = limitHint(1)
			case field == "maxFailures":
				fault.Hint = limitHint(0)
			case field == "waitTime", field == "minSuccessTime", field == "stuckAfter":
				fault.Hint = hintWithoutNone(fault.Hint)
			}
		}
		list.add(code, strictjson.Path(base, fault.Path), fault.Value, fault.Hint)
	}
	return list.err()
}

// remedied returns the faults of the strict decoder after each has been given to a function that
// may say what to write instead.
func remedied(err error, remedy func(*strictjson.Error)) error {
	var all []error
	for _, fault := range strictjson.Faults(err) {
		remedy(&fault)
		all = append(all, &fault)
	}
	return strictjson.Join(all...)
}

// inputFaults turns the faults of the strict decoder into FieldErrors with the codes of documents.
// What a host reports has no rules of a strategy to violate: a label may be called maxFailures.
func inputFaults(err error) error {
	var list faults
	for _, fault := range strictjson.Faults(err) {
		list.add(Code(fault.Code), fault.Path, fault.Value, fault.Hint)
	}
	return list.err()
}

// codeOf returns the code of a field whose value could not be read.
func codeOf(path string) Code {
	field := fieldOf(path)
	ofStage := strings.Contains(path, "stages[") || strings.HasPrefix(path, "progressive")
	switch {
	case strings.Contains(path, "labelSelector."):
		return CodeSelector
	case strings.HasPrefix(path, "cleanup."):
		return CodeType // of the options: their rules are not those of stages
	case ofStage && field == "maxConcurrency":
		return CodeMaxConcurrency
	case ofStage && field == "maxConcurrencyPerGroup":
		return CodeMaxConcurrencyPerGroup
	case ofStage && field == "maxFailures", path == "all.maxFailures":
		return CodeMaxFailures
	case field == "maxFailures":
		return CodeRunMaxFailures
	case field == "waitTime" && strings.Contains(path, "before"):
		return CodeBeforeWaitTime
	case field == "waitTime":
		return CodeWaitTime
	case field == "progressDeadline" || field == "minSuccessTime":
		return CodeDuration
	}
	return CodeType
}

func fieldOf(path string) string { return path[strings.LastIndexByte(path, '.')+1:] }

// at returns the path of an entry of a list, and inStage that of a field of a stage.
func at(list string, i int) string { return list + "[" + strconv.Itoa(i) + "]" }

func inStage(i int, field string) string { return at("stages", i) + "." + field }
