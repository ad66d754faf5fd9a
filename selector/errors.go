package selector

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tranche-dev/tranche/internal/celtext"
	"github.com/tranche-dev/tranche/internal/strictjson"
)

// Sentinels, for errors.Is.
var (
	// ErrMissingKey means that the result depends on a key that a map variable does not have: the
	// expression neither holds nor fails. The error names the key, and implements interface{
	// MissingKey() string } so that callers can recognise it without importing this package.
	// [Selector.Match] returns it.
	ErrMissingKey = errors.New("selector: missing key")

	// ErrLimit means that an expression is larger, or data costs more to evaluate, than the
	// [Limits] allow. The message has the number and the limit. [Env.Compile] returns it inside a
	// [*CompileError], [Selector.Match] inside an [*EvalError].
	ErrLimit = errors.New("selector: limit exceeded")
)

// FieldError is one fault of a schema, of limits, of a label selector or of an argument. Functions
// that report all faults join them as [errors.Join] does: errors.As finds the first, the text lists
// 100 at most, and Unwrap() []error has all.
type FieldError struct {
	Path  string `json:"path"`            // the field, such as matchExpressions[1].operator; empty if the whole value is at fault
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
	CodeDuplicate    Code = strictjson.CodeDuplicate    // a field is given twice, or a variable declared twice
	CodeType         Code = strictjson.CodeType         // the value has the wrong type, or the wrong form for its type
	CodeRequired     Code = "required"                  // a value is missing
	CodeUnknownValue Code = "unknown_value"             // it is not one of the values that the field can have, or names something that does not exist
	CodeOutOfRange   Code = "out_of_range"              // a number is too small or too large
	CodeConflict     Code = "conflict"                  // it contradicts another field or another variable
)

// faults collects what is wrong.
type faults []error

func (f *faults) add(path string, code Code, value any, format string, args ...any) {
	*f = append(*f, &FieldError{Path: path, Code: code, Value: strictjson.Value(value), Hint: fmt.Sprintf(format, args...)})
}

func (f faults) err() error { return strictjson.Join(f...) }

// fieldErrors returns the faults of a part, or of a document that the strict decoder read, with path
// in front of their paths.
func fieldErrors(path string, list []strictjson.Error) error {
	var f faults
	for _, fault := range list {
		f = append(f, &FieldError{Path: strictjson.Path(path, fault.Path), Code: Code(fault.Code), Value: fault.Value, Hint: fault.Hint})
	}
	return f.err()
}

// CompileError says why an expression does not compile. [Env.Compile] returns it for the first
// fault that it finds. Its place is where the part at fault begins or, if that is a call or an
// operation, where the name of the function or the operator begins.
type CompileError struct {
	Expr string // the text that was compiled, cut after 200 bytes
	Line int    // 1-based; 1 if the whole text is at fault, as when it is too long; 0 if the place is unknown
	Col  int    // 1-based, in characters; 0 if the place is unknown
	Msg  string // what is wrong; what it quotes of the text is cut after 200 bytes
	Hint string // what to write instead

	limit bool
}

// Error returns "selector: line:column: what is wrong (what to write instead)", without the parts
// that are missing.
func (e *CompileError) Error() string {
	var text strings.Builder
	text.WriteString("selector: ")
	if e.Line > 0 {
		fmt.Fprintf(&text, "%d:%d: ", e.Line, e.Col)
	}
	text.WriteString(e.Msg)
	if e.Hint != "" {
		fmt.Fprintf(&text, " (%s)", e.Hint)
	}
	return text.String()
}

// Is reports true for [ErrLimit] if a limit was the reason.
func (e *CompileError) Is(target error) bool { return e.limit && target == ErrLimit }

// EvalError says why an expression has no result for some data: a conversion that failed, a
// variable without a value or with a value of another type than declared, or data beyond the
// limits. For a key that a map variable lacks the error is [ErrMissingKey] instead. For a key that
// a map literal in the expression lacks it is an EvalError, as in {'a': 1}['b'] == 1.
type EvalError struct {
	Expr     string // canonical text of the selector
	Variable string // the variable at fault; empty if no single one is
	Msg      string // what is wrong, cut after 200 bytes

	limit bool
}

// Error returns "selector: what is wrong, in: expression", the latter cut after 200 bytes. The zero
// [Selector], of which the error says so, has no expression.
func (e *EvalError) Error() string {
	if e.Expr == "" {
		return "selector: " + e.Msg
	}
	return "selector: " + e.Msg + ", in: " + cut(e.Expr)
}

// Is reports true for [ErrLimit] if a limit was the reason.
func (e *EvalError) Is(target error) bool { return e.limit && target == ErrLimit }

// missingKey has no exported field because one value serves all evaluations of a selector.
type missingKey struct {
	variable, key string
	text          string // the two as an expression would write them
}

func newMissingKey(variable, key string) *missingKey {
	return &missingKey{variable, key, variable + "[" + celtext.Quote(key) + "]"}
}

func (e *missingKey) Error() string {
	return "selector: " + cut(e.text) + " is missing: test it first, as in " + cut(celtext.Quote(e.key)) + " in " + e.variable // a computed key comes from the data
}

// MissingKey returns the variable and key as an expression would write them.
func (e *missingKey) MissingKey() string { return e.text }

func (e *missingKey) Is(target error) bool { return target == ErrMissingKey }
