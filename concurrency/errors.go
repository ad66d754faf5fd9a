package concurrency

import (
	"errors"
	"fmt"
	"time"

	"github.com/tranche-dev/tranche/internal/instant"
	"github.com/tranche-dev/tranche/internal/strictjson"
)

// Sentinels for the transitions of a [Record]. Waiting for a slot is never an error, and neither is
// a pool without a record: it starts with [NewRecord], or is Unknown.
var (
	// ErrConflict means that a record changed since it was read: load again and plan again.
	// [Record.Claim] and [Apply] return it, and a host's store of records may. A bracket.Store
	// returns bracket.ErrConflict, which is another error.
	ErrConflict = errors.New("concurrency: record changed since it was read")
	// ErrFenced means that the token is not that of the present lease: the slot was lost, and the
	// work under that token must stop. The transitions of a Record and [Apply] return it, and
	// [Queue.Release] for a holder that holds nothing.
	ErrFenced = errors.New("concurrency: token of a lost lease")
)

// FieldError is one fault of a rule, a limit, a record, or an argument. Functions that report all
// faults join them as [errors.Join] does: errors.As finds the first, the text lists 100 at most,
// and Unwrap() []error has all.
type FieldError struct {
	Path  string `json:"path"`            // the field, such as leases[2].token; empty if the whole value is at fault
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
	CodeDuplicate    Code = strictjson.CodeDuplicate    // a field is given twice, or a value that must be unique is not
	CodeType         Code = strictjson.CodeType         // the value has the wrong type, or the wrong form for its type
	CodeRequired     Code = "required"                  // a value is missing
	CodeUnknownValue Code = "unknown_value"             // it is not one of the values that the field can have
	CodeOutOfRange   Code = "out_of_range"              // a number, a count or an index is too small or too large
	CodeConflict     Code = "conflict"                  // it contradicts another field
)

// faults collects what is wrong.
type faults []error

func (f *faults) add(path string, code Code, value any, format string, args ...any) *faults {
	*f = append(*f, &FieldError{Path: path, Code: code, Value: strictjson.Value(value), Hint: fmt.Sprintf(format, args...)})
	return f
}

// reading records the other fields on which the last added fault depends: with another value of one
// of them there might be no fault.
func (f *faults) reading(fields ...string) {
	last := len(*f) - 1
	(*f)[last] = strictjson.About((*f)[last], fields...)
}

// present adds a fault if now is not set, as by a clock that was never started. why says what would
// be wrong with it.
func (f *faults) present(now time.Time, why string) *faults {
	return f.set("now", now, "must be set to the present instant: "+why)
}

// set adds a fault if an instant is not set. One before the year 1 is none, as the zero time.Time
// is: some databases write the year 0 for a missing date.
func (f *faults) set(path string, at time.Time, hint string) *faults {
	switch {
	case at.IsZero():
		f.add(path, CodeRequired, nil, "%s", hint)
	case instant.Unset(at):
		f.add(path, CodeOutOfRange, stamp(at), "%s; one before the year 1 is none, since some databases write the year 0 for a missing date", hint)
	}
	return f
}

// storable adds a fault if an instant that is set cannot be encoded.
func (f *faults) storable(path string, at time.Time) *faults {
	if at.UTC().Year() > 9999 {
		f.add(path, CodeOutOfRange, stamp(at), "must lie in the years 1 to 9999: RFC 3339 has no name for later instants, so that a lease could not be stored")
	}
	return f
}

// under adds the faults of a part, with path in front of their paths.
func (f *faults) under(path string, err error) {
	for _, fault := range strictjson.Faults(err) {
		*f = append(*f, &FieldError{Path: strictjson.Path(path, fault.Path), Code: Code(fault.Code), Value: fault.Value, Hint: fault.Hint})
		f.reading(strictjson.Paths(path, fault.Fields)...)
	}
}

func (f faults) err() error { return strictjson.Join(f...) }

const (
	hintCount      = "must be a whole number from 0 to 2147483647"
	hintPercent    = `must be a whole percentage from 0% to 1000%, such as 20%`
	hintLimit      = `must be a count from 0 to 2147483647 such as 5, or a percentage from "0%" to "1000%" such as "20%"`
	hintActiveKeys = "must be a count of at least 1, without quotes; leave it out for any number"
	hintRounding   = `must be "ceil", "floor" or "floor_min_1"`
	hintOnStuck    = `must be "hold" or "quarantine"`
	hintState      = `must be "active" or "quarantined"`
)
