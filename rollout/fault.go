package rollout

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tranche-dev/tranche/internal/strictjson"
)

// FieldError is one fault of a policy, a version, a snapshot or a recording. Nothing is planned on
// any of these while it has a fault. Several faults are joined as by [errors.Join], and errors.As
// finds the first. However many there are, Unwrap() []error of the joined error has them all; its
// text has the first 100, one a line, and then says how many more there are. Only of what is wrong
// with a snapshot that was decoded, the first 20 faults alone are joined, and then an error that says
// how many more there are.
type FieldError struct {
	Path  string `json:"path"`            // the field, such as rules[2].resourceConcurrency.limitValue, with several policies [1].rules[2] and so on, or targets[17].resource; empty if the whole value is at fault
	Code  Code   `json:"code"`            // what kind of fault it is
	Value string `json:"value,omitempty"` // the offending value as it was written; empty if nothing is there, if it does not matter, or if it is an expression that does not compile
	Hint  string `json:"hint"`            // what is wrong, what to write instead and, in a list of a snapshot, which entry it is, such as (web@v1); for people, it may change
	Err   error  `json:"-"`               // the cause, such as the compiler's error with its position, or the error of package bracket, concurrency or clock; nil if there is none
}

// Error returns "path: value: hint", without the parts that are empty.
func (e *FieldError) Error() string {
	return strictjson.Text(e.Path, e.Value, e.Hint)
}

// Unwrap returns Err.
func (e *FieldError) Unwrap() error { return e.Err }

// Code is a kind of fault, for callers that branch on it. Codes are part of the compatibility
// promise. Faults of a window have the codes of package clock, such as timezone_unknown; those of
// brackets and concurrency rules have the ones listed here.
type Code string

// The kinds of faults.
const (
	CodeSyntax       Code = strictjson.CodeSyntax       // the document is not JSON, is empty, or is followed by more text
	CodeUnknownField Code = strictjson.CodeUnknownField // there is no such field
	CodeDuplicate    Code = strictjson.CodeDuplicate    // a field is given twice, or an id, a bracket or an entry that must be the only one
	CodeType         Code = strictjson.CodeType         // the value has another type, or a form that its type does not have
	CodeRequired     Code = "required"                  // a value is missing
	CodeUnknownValue Code = "unknown_value"             // it is none of the values that the field can have, or an id that nothing listed has
	CodeOutOfRange   Code = "out_of_range"              // a number is too small or too large, or overflows
	CodeExpression   Code = "expression"                // an expression does not compile, or reads what is not known where it stands
	CodeConflict     Code = "conflict"                  // it contradicts another field, rule or record
)

// faults collects the errors of one validation, each under a path.
type faults struct {
	list    []error
	targets []targetFault // faults of targets among those that few reports
}

// targetFault is a fault of a target whose index in the host's list is not known yet.
type targetFault struct {
	number int // index in the list of faults
	target *Target
	field  string // empty: the target itself
}

func (f *faults) add(path string, code Code, value any, format string, args ...any) *faults {
	f.list = append(f.list, &FieldError{Path: path, Code: code, Value: strictjson.Value(value), Hint: fmt.Sprintf(format, args...)})
	return f
}

// reading notes the paths of other fields on which the fault that was added last depends: with
// another value of one of them it might be no fault. [Load] leaves the fault out if one of these
// fields was refused. The fault's own field, and what contains it, need not be given.
func (f *faults) reading(paths ...string) {
	last := len(f.list) - 1
	f.list[last] = strictjson.About(f.list[last], paths...)
}

// addOf is add for a field of a target, or for the target itself. [faults.place] fills in its index
// in the host's list.
func (f *faults) addOf(t *Target, field string, code Code, value any, format string, args ...any) {
	if len(f.list) < maxFaults {
		f.targets = append(f.targets, targetFault{len(f.list), t, field})
	}
	f.add("targets", code, value, format, args...)
}

// about names the listed entry that all faults but the first n are about: a path names it by its
// index, which is of no use to a host that keeps each entry as an object of its own.
func (f *faults) about(n int, name string) {
	for _, fault := range f.list[n:] {
		var own *FieldError
		if name != "" && errors.As(fault, &own) {
			own.Hint += " (" + name + ")"
		}
	}
}

// forget removes all faults but the first n.
func (f *faults) forget(n int) {
	f.list = f.list[:n]
	f.targets = slices.DeleteFunc(f.targets, func(fault targetFault) bool { return fault.number >= n })
}

// place gives the faults of targets their paths. The targets are in the order of the host's list,
// without those for which left reports true. Of a million targets, each with a fault, only the few
// that are reported are looked for.
func (f *faults) place(targets []Target, left func(t *Target) bool, host []Target) {
	if len(f.targets) == 0 {
		return
	}
	at := make(map[*Target]int, len(f.targets)) // index in the host's list
	for _, fault := range f.targets {
		at[fault.target] = 0
	}
	k := 0
	for i := range host {
		if left(&host[i]) {
			continue
		}
		if _, wanted := at[&targets[k]]; wanted {
			at[&targets[k]] = i
		}
		k++
	}
	for _, fault := range f.targets {
		own := f.list[fault.number].(*FieldError)
		own.Path = join(fmt.Sprintf("targets[%d]", at[fault.target]), fault.field)
	}
}

// under adds every single error of err below path. An error that knows its own path continues it.
func (f *faults) under(path string, err error) {
	for _, fault := range strictjson.Faults(err) {
		f.list = append(f.list, &FieldError{Path: join(path, fault.Path), Code: Code(fault.Code), Value: fault.Value, Hint: fault.Hint, Err: fault.Err})
		f.reading(strictjson.Paths(path, fault.Fields)...)
	}
}

// expression adds the compiler's error for an expression.
func (f *faults) expression(path string, err error) {
	f.list = append(f.list, &FieldError{Path: path, Code: CodeExpression, Hint: strings.TrimPrefix(err.Error(), "selector: "), Err: err})
}

// required adds a fault if a text is missing; why says what it is needed for.
func (f *faults) required(path, text, why string) {
	if text == "" {
		f.add(path, CodeRequired, nil, "is required: %s", why)
	}
}

// encoded adds a fault if a text is not UTF-8: in stored records JSON would change it, so that what
// they say would be lost, or be of another entity.
func (f *faults) encoded(path, text string) {
	if !utf8.ValidString(text) {
		f.add(path, CodeType, text, "must be UTF-8: JSON would store another text")
	}
}

// within adds a fault if a number of some unit is not in [least, most].
func (f *faults) within(path string, n, least, most int64, unit string) {
	if n < least || n > most {
		f.add(path, CodeOutOfRange, n, "must be from %d to %d %s", least, most, unit)
	}
}

// terminal adds a fault for a status that no ended job has, and reports whether the status is
// terminal. meant are the statuses that its field is for besides those of jobs that did not succeed.
func (f *faults) terminal(path string, status JobStatus, meant ...JobStatus) bool {
	if !status.Terminal() {
		var names []string
		for _, name := range append(meant, JobFailure, JobCancelled, JobSkipped, JobInvalidAgent, JobInvalidIntegration) {
			names = append(names, string(name))
		}
		f.add(path, CodeUnknownValue, status, "is not a status of an ended job, such as %s or %s", strings.Join(names, ", "), JobExternalRunNotFound)
	}
	return status.Terminal()
}

// failure adds a fault if a status is not one of ended jobs, or is that of successful ones.
func (f *faults) failure(path string, status JobStatus) {
	if f.terminal(path, status) && status == JobSuccessful {
		f.add(path, CodeConflict, status, "is no failure: use onVerificationFailure for a job that succeeded and turned out bad")
	}
}

// oneOf adds a fault if a value is none of the known ones. An absent value is passed over: it
// stands for the default.
func oneOf[T ~string](f *faults, path string, value T, known ...T) {
	if value == "" || slices.Contains(known, value) {
		return
	}
	f.add(path, CodeUnknownValue, value, "must be %s", strictjson.Choice(known...))
}

func (f *faults) err() error { return strictjson.Join(f.list...) }

// maxFaults bounds the faults of a snapshot that are reported to what a person can read: a fleet of
// a million targets may have a million faults.
const maxFaults = 20

// few reports the first faults, and how many more there are.
func (f *faults) few() error {
	if more := len(f.list) - maxFaults; more > 0 {
		return strictjson.Join(append(slices.Clip(f.list[:maxFaults]), strictjson.More(more))...)
	}
	return f.err()
}

// fieldErrors turns the errors of a part into FieldErrors.
func fieldErrors(err error) error {
	var f faults
	f.under("", err)
	return f.err()
}

func join(path, field string) string { return strictjson.Path(path, field) }
