package bracket

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// faultsOf lists the faults of an error as "code path", in order, and fails if one is no
// *FieldError with a code and a hint, or is printed otherwise than "path: value: hint".
func faultsOf(t *testing.T, err error) string {
	t.Helper()
	if err == nil {
		return ""
	}
	list := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		list = joined.Unwrap()
	}
	var faults []string
	for _, one := range list {
		fault, ok := one.(*FieldError)
		if !ok || fault.Code == "" || fault.Hint == "" {
			t.Fatalf("%v is a %T: want a *FieldError with a code and a hint", one, one)
		}
		var parts []string
		for _, part := range []string{fault.Path, fault.Value, fault.Hint} {
			if part != "" {
				parts = append(parts, part)
			}
		}
		if want := strings.Join(parts, ": "); fault.Error() != want {
			t.Errorf("printed as %q, want %q", fault, want)
		}
		faults = append(faults, string(fault.Code)+" "+fault.Path)
	}
	return strings.Join(faults, ", ")
}

// told is what an error says, each fault after its code.
func told(err error) string {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var lines []string
		for _, one := range joined.Unwrap() {
			lines = append(lines, told(one))
		}
		return strings.Join(lines, "\n")
	}
	if fault, ok := err.(*FieldError); ok {
		return string(fault.Code) + " " + fault.Error()
	}
	return fmt.Sprint(err)
}

// Every code is given to some fault, and to the kind of fault that its comment names.
func TestCodes(t *testing.T) {
	decode := func(text string) error { return json.Unmarshal([]byte(text), new(Rule)) }
	check := func(change func(*Rule)) error {
		r := windowRule(60)
		change(&r)
		return r.Validate()
	}
	for _, row := range []struct {
		code Code
		err  error
		why  string
	}{
		{CodeSyntax, new(Rule).UnmarshalJSON([]byte(`{"maxMerges":`)), "cut off"},
		{CodeUnknownField, decode(`{"window":60}`), "no field has this name"},
		{CodeDuplicate, decode(`{"maxMerges":1,"maxMerges":2}`), "one of them would be ignored"},
		{CodeType, decode(`{"maxMerges":"1"}`), "a text is no number"},
		{CodeRequired, check(func(r *Rule) { r.DeploymentSelector = "" }), "members of nothing"},
		{CodeUnknownValue, check(func(r *Rule) { r.TriggerOn = "created" }), "no such instant"},
		{CodeOutOfRange, check(func(r *Rule) { r.StuckAfterSeconds = -1 }), "no time is negative"},
		{CodeConflict, check(func(r *Rule) { r.AllowMixedPost = true }), "no other strategy leaves a mixed set"},
	} {
		var fault *FieldError
		if !errors.As(row.err, &fault) || fault.Code != row.code {
			t.Errorf("%s: %v has not the code %s", row.why, row.err, row.code)
		}
	}
}
