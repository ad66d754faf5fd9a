package partition

import (
	"fmt"

	"github.com/tranche-dev/tranche/internal/strictjson"
)

// FieldError is one fault of a strategy, of the options, of the clusters or of an argument.
// Functions that report every fault join them as [errors.Join] does; errors.As finds the first, the
// text lists 100 at most, and Unwrap() []error has all.
type FieldError struct {
	Path  string `json:"path"`            // the field, such as partitions[2].maxUnavailable; empty if the whole value is at fault
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

// The kinds of faults. The first four are faults of the JSON document and are the same in every
// package.
const (
	CodeSyntax       Code = strictjson.CodeSyntax       // the document is not JSON, is empty, or is followed by more text
	CodeUnknownField Code = strictjson.CodeUnknownField // there is no such field
	CodeDuplicate    Code = strictjson.CodeDuplicate    // a field or a cluster is given twice
	CodeType         Code = strictjson.CodeType         // the value has not the type of its field, or not the form of that type
	CodeLimitFormat  Code = "limit_format"              // neither an int nor a percentage
	CodeLimitNumber  Code = "limit_number"              // a percentage whose number is wrong
	CodeSelector     Code = "selector"                  // a label selector that Kubernetes would refuse
	CodeValue        Code = "value"                     // a value that is missing, out of bounds, or not one of those that the field accepts
)

// fieldErrors turns the faults of the strict decoder into FieldErrors. The decoders of the parts of
// a strategy, selectors among them, use only the four codes that are the same in every package.
func fieldErrors(err error) error {
	var all []error
	for _, fault := range strictjson.Faults(err) {
		all = append(all, &FieldError{Path: fault.Path, Code: Code(fault.Code), Value: fault.Value, Hint: fault.Hint})
	}
	return strictjson.Join(all...)
}

// inPartition returns the path of a field of a manual partition.
func inPartition(i int, field string) string { return fmt.Sprintf("partitions[%d].%s", i, field) }
