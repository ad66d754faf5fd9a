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
	Kind  Kind
	Path  string // the field, such as partitions[2].maxUnavailable; empty if it is the whole value
	Value string // the offending value as it was written; empty if the place itself is the fault
	Hint  string // what is wrong with it, and what to write instead
}

// Error returns "path: value: hint", without the parts that are empty.
func (e *FieldError) Error() string {
	return strictjson.Text(e.Path, e.Value, e.Hint)
}

// Kind sorts faults for callers that branch on them. The texts are stable.
type Kind string

// The kinds of faults.
const (
	KindLimitFormat Kind = "limit_format" // neither an int nor a percentage
	KindLimitNumber Kind = "limit_number" // a percentage whose number is wrong
	KindSelector    Kind = "selector"     // a label selector that Kubernetes would refuse
	KindValue       Kind = "value"        // a value of the wrong type or out of bounds, or an unknown field
	KindDuplicate   Kind = "duplicate"    // a cluster that is given twice
)

// fieldErrors turns what the strict decoder reports, one fault or several, into FieldErrors.
func fieldErrors(err error) error {
	if err == nil {
		return nil
	}
	if list, ok := err.(interface{ Unwrap() []error }); ok {
		var all []error
		for _, one := range list.Unwrap() {
			all = append(all, fieldErrors(one))
		}
		return errors.Join(all...)
	}
	var fault *strictjson.Error
	if !errors.As(err, &fault) {
		return err
	}
	var own *FieldError
	if errors.As(fault.Err, &own) {
		return &FieldError{Kind: own.Kind, Path: fault.Path, Value: own.Value, Hint: own.Hint} // a value does not know where it stands
	}
	return &FieldError{Kind: KindValue, Path: fault.Path, Hint: fault.Msg}
}

// inPartition is the path of a field of a manual partition.
func inPartition(i int, field string) string { return fmt.Sprintf("partitions[%d].%s", i, field) }

func quoted(text string) string { return strconv.Quote(text) }
