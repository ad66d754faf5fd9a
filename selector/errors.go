package selector

import (
	"errors"
	"fmt"
	"strings"
)

// Sentinels, for errors.Is.
var (
	// ErrMissingKey means that a key which a map does not have decided the result: the expression neither holds nor fails. The error
	// names the key, and implements interface{ MissingKey() string } so that callers can tell it apart without importing this package.
	// [Selector.Match] returns it.
	ErrMissingKey = errors.New("selector: missing key")

	// ErrLimit means that an expression is larger, or data costs more to look at, than the [Limits] allow. The message has the number
	// and the limit. [Env.Compile] returns it inside a [*CompileError], [Selector.Match] inside an [*EvalError].
	ErrLimit = errors.New("selector: limit exceeded")
)

// CompileError says why an expression is no selector. [Env.Compile] returns it, always as the first fault found.
type CompileError struct {
	Expr string // the text that was compiled, cut after 200 bytes
	Line int    // 1-based; 0 if the fault has no place, as with a text that is too long
	Col  int    // 1-based, in characters; 0 if the fault has no place
	Msg  string // what is wrong
	Hint string // what to write instead; may be empty

	limit bool
}

// Error returns "selector: line:column: what is wrong (what to write instead)".
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

// EvalError says why an expression has no result for some data: a conversion that failed, a variable without a value or with a value of
// another type than declared, or data beyond the limits. A missing key is not among them, see [ErrMissingKey].
type EvalError struct {
	Expr     string // canonical text of the selector
	Variable string // the variable at fault; empty if no single one is
	Msg      string // what is wrong

	limit bool
}

// Error returns "selector: what is wrong, in: expression", the latter cut after 200 bytes.
func (e *EvalError) Error() string {
	return "selector: " + e.Msg + ", in: " + cut(e.Expr)
}

// Is reports true for [ErrLimit] if a limit was the reason.
func (e *EvalError) Is(target error) bool { return e.limit && target == ErrLimit }

// missingKey has no exported field because one value serves all evaluations of a selector.
type missingKey struct {
	variable, key string
}

func (e *missingKey) Error() string {
	return "selector: " + e.MissingKey() + " is missing: test it first, as in " + quote(e.key) + " in " + e.variable
}

// MissingKey returns the variable and key as an expression would name them.
func (e *missingKey) MissingKey() string {
	return e.variable + "[" + quote(e.key) + "]"
}

func (e *missingKey) Is(target error) bool { return target == ErrMissingKey }
