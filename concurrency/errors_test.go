package concurrency

import (
	"errors"
	"testing"
)

// faultsOf lists the faults of an error as "code text", in order, and fails if one is no
// *FieldError with a code and a hint.
func faultsOf(t *testing.T, err error) []string {
	t.Helper()
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var faults []string
		for _, one := range joined.Unwrap() {
			faults = append(faults, faultsOf(t, one)...)
		}
		return faults
	}
	fault, ok := err.(*FieldError)
	if !ok || fault.Code == "" || fault.Hint == "" {
		t.Fatalf("%v is a %T: want a *FieldError with a code and a hint", err, err)
	}
	return []string{string(fault.Code) + " " + fault.Error()}
}

func TestFieldErrorText(t *testing.T) {
	for _, c := range []struct {
		err  FieldError
		want string
	}{
		{FieldError{Path: "limitValue", Value: "-5", Hint: "must be positive"}, "limitValue: -5: must be positive"},
		{FieldError{Value: "-5", Hint: "must be positive"}, "-5: must be positive"},
		{FieldError{Path: "groupSelector", Hint: "is required"}, "groupSelector: is required"},
		{FieldError{Hint: "is required"}, "is required"},
	} {
		if got := c.err.Error(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// Every code is given to some fault, and to the kind of fault that its comment names.
func TestCodes(t *testing.T) {
	rule := func(text string) error { _, err := ParseRule([]byte(text)); return err }
	for _, c := range []struct {
		code Code
		err  error
		why  string
	}{
		{CodeSyntax, rule(`{"groupSelector":`), "cut off"},
		{CodeUnknownField, rule(`{"selector":"true"}`), "no field has this name"},
		{CodeDuplicate, rule(`{"limit":1,"limit":2}`), "one of them would be ignored"},
		{CodeType, rule(`{"limit":"5"}`), "a count is no string"},
		{CodeRequired, rule(`{"limit":5}`), "members of nothing"},
		{CodeUnknownValue, rule(`{"groupSelector":"true","limit":5,"rounding":"up"}`), "no such rounding"},
		{CodeOutOfRange, rule(`{"groupSelector":"true","limit":5,"stuckAfterSeconds":-1}`), "no time is negative"},
		{CodeConflict, rule(`{"groupSelector":"true","limit":5,"limitType":"count"}`), "two limits"},
	} {
		var fault *FieldError
		if !errors.As(c.err, &fault) || fault.Code != c.code {
			t.Errorf("%s: %v has not the code %s", c.why, c.err, c.code)
		}
	}
}

// TestFaultsAreFlat: the faults of a snapshot and those of the candidates are in one list, so that
// whoever shows every fault takes the error apart once.
func TestFaultsAreFlat(t *testing.T) {
	_, err := Plan(Snapshot{Pools: []Pool{{}, {}}}, make([]Candidate, 3), epoch)
	list := err.(interface{ Unwrap() []error }).Unwrap()
	if len(list) < 5 {
		t.Errorf("%d faults: %v", len(list), err)
	}
	for _, one := range list {
		if _, ok := one.(*FieldError); !ok {
			t.Errorf("%T: %v", one, one)
		}
	}
}
