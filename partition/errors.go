package partition

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/tranche-dev/tranche/internal/strictjson"
)

// FieldError is one fault of a strategy, of the options or of the clusters. Where all faults are reported they are joined: errors.As
// finds the first.
type FieldError struct {
	Path  string // the field, such as partitions[2].maxUnavailable; empty if it is the value itself
	Code  Code   // what kind of fault it is
	Value string // the offending value as it was written; empty if the place itself is the fault
	Hint  string // what is wrong with it, and what to write instead; for people, it may change
}

// Error returns "path: value: hint", without the parts that are empty.
func (e *FieldError) Error() string {
	return strictjson.Text(e.Path, e.Value, e.Hint)
}

// Code is a kind of fault, for callers that branch on it. Codes are part of the compatibility promise.
type Code string

// The kinds of faults.
const (
	CodeLimitFormat Code = "limit_format" // neither an int nor a percentage
	CodeLimitNumber Code = "limit_number" // a percentage whose number is wrong
	CodeSelector    Code = "selector"     // a label selector that Kubernetes would refuse
	CodeValue       Code = "value"        // a value of the wrong type or out of bounds, or an unknown field
	CodeDuplicate   Code = "duplicate"    // a cluster that is given twice
)

// fieldErrors turns what the strict decoder reports, one fault or several, into FieldErrors.
func fieldErrors(err error) error {
	var all []error
	for _, fault := range strictjson.Faults(err) {
		all = append(all, &FieldError{Path: fault.Path, Code: CodeValue, Value: fault.Value, Hint: fault.Hint})
	}
	return errors.Join(all...)
}

// inPartition is the path of a field of a manual partition.
func inPartition(i int, field string) string { return fmt.Sprintf("partitions[%d].%s", i, field) }

func quoted(text string) string { return strconv.Quote(text) }
