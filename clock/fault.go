package clock

import (
	"errors"
	"fmt"
	"time"

	"github.com/tranche-dev/tranche/internal/strictjson"
)

// Errors that callers branch on. Methods wrap them in an error that says what was asked.
var (
	// ErrNeverOpen means that there is no such instant before the horizon. [Calendar.NextOpen]
	// returns it if the calendar stays closed, and [Calendar.AddOpen] if no open instant follows
	// the requested open time.
	ErrNeverOpen = errors.New("clock: the calendar has no such open instant")
	// ErrNeverFits is returned by [Calendar.NextFit]: no open stretch that begins within the
	// horizon is long enough.
	ErrNeverFits = errors.New("clock: the calendar is never open for that long")
)

// FieldError is one fault of a window, of an argument, or of a host's [Recurrence]. Functions that
// report all faults join them as [errors.Join] does: errors.As finds the first, the text lists 100
// at most, and Unwrap() []error has all.
type FieldError struct {
	Path  string `json:"path"`            // the field, such as windows[1].weekly.start; empty if the whole value is at fault
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

// The kinds of faults. The first four are about the JSON document itself, and the same in every
// package.
const (
	CodeSyntax                Code = strictjson.CodeSyntax       // the document is not JSON, is empty, or is followed by more text
	CodeUnknownField          Code = strictjson.CodeUnknownField // there is no such field
	CodeDuplicate             Code = strictjson.CodeDuplicate    // a field is given twice
	CodeType                  Code = strictjson.CodeType         // the value has the wrong type, and no code below is about its field
	CodeTimezoneUnknown       Code = "timezone_unknown"          // there is no such zone, or the host could not load it
	CodeTimeInvalid           Code = "time_invalid"              // a time of day, a date or an instant cannot be read or lies outside the years 1 to 9999
	CodeDayInvalid            Code = "day_invalid"               // there is no such day of the week
	CodeDurationInvalid       Code = "duration_invalid"          // a length is missing, out of range or given twice
	CodeAnchorRequired        Code = "anchor_required"           // the phase or the time of day of a recurrence is not fixed
	CodeRecurrenceUnsupported Code = "recurrence_unsupported"    // it may be valid, but needs a Recurrence of the host
	CodeRecurrenceInvalid     Code = "recurrence_invalid"        // it cannot be read, contradicts itself, or a host's recurrence breaks its promise
	CodeEmptyWindow           Code = "empty_window"              // it would never be open
)

// faults collects the faults of one window.
type faults struct {
	path string // of the window
	list []error
}

// add adds a fault in a field, or in the window itself if the field is empty.
func (f *faults) add(field string, code Code, value any, format string, args ...any) *faults {
	f.list = append(f.list, &FieldError{Path: strictjson.Path(f.path, field), Code: code, Value: strictjson.Value(value), Hint: fmt.Sprintf(format, args...)})
	return f
}

// reading records the other fields on which the last added fault depends: with another value of one
// of them there might be no fault.
func (f *faults) reading(fields ...string) {
	last := len(f.list) - 1
	f.list[last] = strictjson.About(f.list[last], strictjson.Paths(f.path, fields)...)
}

func (f *faults) err() error { return strictjson.Join(f.list...) }

func stamp(t time.Time) string { return t.Format(time.RFC3339Nano) }
