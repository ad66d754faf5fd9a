package surge

import (
	"strings"

	"github.com/tranche-dev/tranche/internal/strictjson"
)

// FieldError is one fault of a configuration or an observation. Functions that report every fault
// join them as [errors.Join] does; errors.As finds the first, the text lists 100 at most, and
// Unwrap() []error has all.
type FieldError struct {
	Path  string `json:"path"`            // the field, such as components[1].updateStrategy.maxSurge; empty if the whole value is at fault
	Code  Code   `json:"code"`            // what kind of fault it is
	Value string `json:"value,omitempty"` // the offending value as it was written; empty if the field is absent, or if its value does not matter
	Hint  string `json:"hint"`            // what is wrong and what to write instead; for people, may change
}

// Error returns "path: value: hint", without the parts that are empty.
func (e *FieldError) Error() string {
	return strictjson.Text(e.Path, e.Value, e.Hint)
}

// Code is a kind of fault, for callers that branch on it. Codes are part of the compatibility
// promise.
type Code string

// The kinds of faults.
const (
	CodeSyntax       Code = strictjson.CodeSyntax       // the document is not JSON, is empty, or is followed by more text
	CodeUnknownField Code = strictjson.CodeUnknownField // there is no such field
	CodeDuplicate    Code = strictjson.CodeDuplicate    // a field is given twice, or a value that must be unique is not
	CodeType         Code = strictjson.CodeType         // the value has another type, or a form that its type does not have
	CodeRequired     Code = "required"                  // a value is missing
	CodeUnknownValue Code = "unknown_value"             // the value is none of those that the field accepts, or names nothing that exists
	CodeOutOfRange   Code = "out_of_range"              // a number is too small or too large
	CodeConflict     Code = "conflict"                  // the value contradicts another field
)

type faults []error

func (f *faults) add(path string, code Code, value, hint string) {
	*f = append(*f, &FieldError{Path: path, Code: code, Value: value, Hint: hint})
}

// decoded turns the faults of the strict decoder into FieldErrors.
func decoded(err error) error {
	var f faults
	for _, fault := range strictjson.Faults(err) {
		f.add(fault.Path, Code(fault.Code), fault.Value, hintOf(fault))
	}
	return f.err()
}

// hintOf returns the hint of a fault of the strict decoder. That of a [concurrency.Limit] names
// percentages which a maxUnavailable must not have.
func hintOf(fault strictjson.Error) string {
	if strings.HasSuffix(fault.Path, "maxUnavailable") {
		return strings.ReplaceAll(fault.Hint, "1000%", "100%")
	}
	return fault.Hint
}

func (f faults) err() error { return strictjson.Join(f...) }
