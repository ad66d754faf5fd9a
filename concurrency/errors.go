package concurrency

import (
	"errors"

	"github.com/tranche-dev/tranche/internal/strictjson"
)

// Sentinels for stores and for the transitions of a [Record]. Waiting for a slot is never an error.
var (
	// ErrConflict means that a record changed since it was read: load again and plan again. Stores and
	// Record.Claim return it.
	ErrConflict = errors.New("concurrency: record changed since it was read")
	// ErrFenced means that the token is not the one of the present lease: the slot was lost, and whoever acts on it
	// must stop.
	ErrFenced = errors.New("concurrency: token of a lost lease")
)

// FieldError is a fault in configuration: a limit, a rounding or a field of a rule.
type FieldError struct {
	Path  string // field, relative to the value that was validated; empty if it is the value itself
	Value string // the offending value as it was written, or "unset"
	Hint  string // what to write instead
}

// Error returns "path: value: hint", without the parts that are empty.
func (e *FieldError) Error() string {
	return strictjson.Text(e.Path, e.Value, e.Hint)
}

const (
	hintCount    = "must be a whole number from 0 to 2147483647"
	hintPercent  = `must be a whole percentage from 0% to 1000%, such as 20%`
	hintLimit    = `must be a count from 0 to 2147483647 such as 5, or a percentage from "0%" to "1000%" such as "20%"`
	hintRounding = `must be "ceil", "floor" or "floor_min_1"`
)
