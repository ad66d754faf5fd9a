package selector_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/tranche-dev/tranche/selector"
)

// Every code is given to some fault, and to the kind of fault that its comment names.
func TestCodes(t *testing.T) {
	requirement := func(operator selector.LabelOperator, values ...string) error {
		return selector.LabelSelector{MatchExpressions: []selector.LabelRequirement{{Key: "a", Operator: operator, Values: values}}}.Validate()
	}
	decode := func(text string) error { return json.Unmarshal([]byte(text), new(selector.LabelSelector)) }
	for _, row := range []struct {
		code selector.Code
		err  error
		path string
		why  string
	}{
		{selector.CodeSyntax, new(selector.LabelSelector).UnmarshalJSON([]byte(`{"matchLabels":`)), "", "cut off"},
		{selector.CodeUnknownField, decode(`{"labels":{}}`), "labels", "no field has this name"},
		{selector.CodeDuplicate, decode(`{"matchLabels":{"a":"b","a":"c"}}`), "matchLabels.a", "one of them would be ignored"},
		{selector.CodeDuplicate, selector.Schema{{Name: "a", Type: selector.Int}, {Name: "a", Type: selector.Bool}}.Validate(), "schema[1].name", "which type has it?"},
		{selector.CodeType, decode(`{"matchLabels":{"a":1}}`), "matchLabels.a", "a number is no text"},
		{selector.CodeType, selector.LabelSelector{MatchLabels: map[string]string{"a": "b c"}}.Validate(), `matchLabels["a"]`, "no label has a blank in its value"},
		{selector.CodeRequired, requirement(selector.In), "matchExpressions[0].values", "one of none"},
		{selector.CodeUnknownValue, requirement("Is", "b"), "matchExpressions[0].operator", "no such operator"},
		{selector.CodeOutOfRange, selector.Limits{Nodes: -1}.Validate(), "nodes", "less than nothing"},
		{selector.CodeConflict, requirement(selector.Exists, "b"), "matchExpressions[0].values", "the values would be ignored"},
		{selector.CodeConflict, selector.Limits{RunCost: 1}.Validate(), "runCost", "what is admitted could not be run"},
	} {
		var fault *selector.FieldError
		if !errors.As(row.err, &fault) || fault.Code != row.code || fault.Path != row.path || fault.Hint == "" {
			t.Errorf("%s: got %v, want %s at %s", row.why, row.err, row.code, row.path)
		}
	}
}
