package bracket

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tranche-dev/tranche/internal/strictjson"
	"github.com/tranche-dev/tranche/internal/textlist"
)

var (
	// ErrConflict is returned by [Store.Save] and [Store.Delete] when the stored revision is not
	// the expected one: load, plan and save again.
	ErrConflict = errors.New("bracket: value changed since it was read")
	// ErrNotFound is returned by [Store.Load] and [Store.Delete] for a key without a value.
	ErrNotFound = errors.New("bracket: no such key")
	// ErrStale is returned by [Plan.Commit] for a run that the plan does not offer in the given
	// state: plan again.
	ErrStale = errors.New("bracket: run is not offered by this plan and state")
)

// FieldError is one fault of a rule, a command, a stored record, or an argument of [Check], [Step]
// or [Plan.Commit]. Functions that report all faults join them as [errors.Join] does: errors.As
// finds the first, the text lists 100 at most, and Unwrap() []error has all.
type FieldError struct {
	Path  string `json:"path"`            // the field, such as readinessWindowSeconds; empty if the whole value is at fault
	Code  Code   `json:"code"`            // what kind of fault it is
	Value string `json:"value,omitempty"` // the offending value as it was written; empty if nothing is there, or if it does not matter
	Hint  string `json:"hint"`            // what is wrong with it, and what to write instead; for people, it may change
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
	CodeDuplicate    Code = strictjson.CodeDuplicate    // a field is given twice, or something is listed twice
	CodeType         Code = strictjson.CodeType         // the value has the wrong type, or the wrong form for its type
	CodeRequired     Code = "required"                  // a value is missing
	CodeUnknownValue Code = "unknown_value"             // it is not one of the values that the field can have, or names something that does not exist
	CodeOutOfRange   Code = "out_of_range"              // a number is too small or too large
	CodeConflict     Code = "conflict"                  // it contradicts another field, or the required order of a list
)

func fault(path string, code Code, value any, format string, args ...any) *FieldError {
	return &FieldError{Path: path, Code: code, Value: strictjson.Value(value), Hint: fmt.Sprintf(format, args...)}
}

// faults collects what is wrong.
type faults []error

func (f *faults) add(path string, code Code, value any, format string, args ...any) *faults {
	*f = append(*f, fault(path, code, value, format, args...))
	return f
}

// reading records the other fields on which the last added fault depends: with another value of one
// of them there might be no fault.
func (f *faults) reading(fields ...string) {
	last := len(*f) - 1
	(*f)[last] = strictjson.About((*f)[last], fields...)
}

// under adds the faults of a part, with path in front of their paths.
func (f *faults) under(path string, err error) {
	for _, fault := range strictjson.Faults(err) {
		*f = append(*f, &FieldError{Path: strictjson.Path(path, fault.Path), Code: Code(fault.Code), Value: fault.Value, Hint: fault.Hint})
		f.reading(strictjson.Paths(path, fault.Fields)...)
	}
}

func (f faults) err() error { return strictjson.Join(f...) }

// sorted joins the faults in an order that does not depend on maps.
func (f faults) sorted() error {
	slices.SortStableFunc(f, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return f.err()
}

// decodeErrors turns what the strict decoder reports into FieldErrors.
func decodeErrors(err error) error {
	var f faults
	f.under("", err)
	return f.err()
}

// oneOf is enum for a field that may be absent: an empty value stands for the default. It reports
// whether the value is valid.
func oneOf[T ~string](f *faults, path string, value T, known ...T) (ok bool) {
	return value == "" || enum(f, path, value, known...)
}

func enum[T ~string](f *faults, path string, value T, known ...T) (ok bool) {
	if ok = slices.Contains(known, value); !ok {
		f.add(path, CodeUnknownValue, value, "must be %s", strictjson.Choice(known...))
	}
	return ok
}

func (f *faults) seconds(path string, value int64) {
	if value < 0 || value > maxSeconds {
		f.add(path, CodeOutOfRange, value, "must be from 0 to %d seconds, 10 years", int64(maxSeconds))
	}
}

// CycleError reports members that need each other, so that none of them could ever start.
type CycleError struct {
	Bracket string   // rule id, if known
	Path    []string // deployments; each needs the next one, the last one is the first again
}

// Error names the members in the order of Path, and the remedy.
func (e *CycleError) Error() string {
	return fmt.Sprintf("bracket: %sdependency cycle %s: remove one of these dependencies", named(e.Bracket), strings.Join(textlist.Ends(e.Path), " -> "))
}

// RoleError reports a dependency that contradicts the roles: a pre that needs a main or a post, or
// a main that needs a post.
type RoleError struct {
	Bracket          string // rule id, if known
	Deployment, Need string // the member, and the one that it needs
	Role, NeedRole   Role   // of the two
}

// Error names both members with their roles, and the remedy.
func (e *RoleError) Error() string {
	return fmt.Sprintf("bracket: %s%s member %q needs %s member %q, which runs after it: change memberRoles or the dependency",
		named(e.Bracket), e.Role, e.Deployment, e.NeedRole, e.Need)
}

// OverlapError reports a deployment that two brackets claim on one resource.
type OverlapError struct {
	Brackets             [2]string // rule ids, ascending
	Deployment, Resource string    // the first such target; other resources may be claimed twice as well
}

// Error names both brackets and the target, and the remedy.
func (e *OverlapError) Error() string {
	return fmt.Sprintf("bracket: %q and %q both bracket deployment %q on resource %q: narrow one of their selectors",
		e.Brackets[0], e.Brackets[1], e.Deployment, e.Resource)
}

func named(id string) string {
	if id == "" {
		return ""
	}
	return fmt.Sprintf("%q: ", id)
}
