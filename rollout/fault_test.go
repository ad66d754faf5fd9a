package rollout_test

import (
	"errors"
	"testing"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/rollout"
	"github.com/tranche-dev/tranche/selector"
)

// coded lists the single errors of a joined one, each fault after its code.
func coded(err error) []string {
	var lines []string
	for _, one := range joined(err) {
		line := one.Error()
		var fault *rollout.FieldError
		if errors.As(one, &fault) {
			line = string(fault.Code) + " " + line
		}
		lines = append(lines, line)
	}
	return lines
}

// TestCodes: every code is given to some fault, and to the kind of fault that its comment names; a
// fault of a window has the code of package clock.
func TestCodes(t *testing.T) {
	check := func(text string) error {
		policies, err := rollout.ParsePolicies([]byte(text))
		if err == nil {
			_, err = rollout.Compile(policies, newEnv(t))
		}
		return err
	}
	for _, row := range []struct {
		code rollout.Code
		err  error
		why  string
	}{
		{rollout.CodeSyntax, check(`{"name":`), "cut off"},
		{rollout.CodeUnknownField, check(policy(`{"retries":{}}`)), "no rule has this name"},
		{rollout.CodeDuplicate, check(policy(`{"id":"a","retry":{"maxRetries":1}},{"id":"a","retry":{"maxRetries":1}}`)), "which of the two is meant?"},
		{rollout.CodeType, check(policy(`{"retry":{"maxRetries":"1"}}`)), "a text is no number"},
		{rollout.CodeRequired, check(policy(`{"retry":{}}`)), "how often is not guessed"},
		{rollout.CodeUnknownValue, check(policy(`{"retry":{"maxRetries":1,"backoffStrategy":"cubic"}}`)), "no such strategy"},
		{rollout.CodeOutOfRange, check(policy(`{"retry":{"maxRetries":-1}}`)), "nothing is done a negative number of times"},
		{rollout.CodeExpression, check(policy(`{"versionSelector":{"selector":"version.tga == 'x'"}}`)), "no version has such a field"},
		{rollout.CodeConflict, check(policy(`{"retry":{"maxRetries":1,"retryOnStatuses":["successful"]}}`)), "a success is no failure"},
		{"timezone_unknown", check(policy(`{"deploymentWindow":{"weekly":{"days":["mon"],"start":"09:00","end":"10:00"},"timezone":"Mars/Olympus"}}`)), "clock's word"},
	} {
		var fault *rollout.FieldError
		if !errors.As(row.err, &fault) || fault.Code != row.code || fault.Hint == "" {
			t.Errorf("%s: %v has not the code %s", row.why, row.err, row.code)
		}
	}
}

// TestFieldErrorCause: what another package found out is the cause, so that its own type is found
// as well.
func TestFieldErrorCause(t *testing.T) {
	policies, err := rollout.ParsePolicies([]byte(policy(`{"deploymentBracket":{"deploymentSelector":"true"}},{"resourceConcurrency":{"groupSelector":"true"}},{"versionSelector":{"selector":"1"}}`)))
	if err != nil {
		t.Fatal(err)
	}
	_, err = rollout.Compile(policies, newEnv(t))
	var inBracket *bracket.FieldError
	var inPool *concurrency.FieldError
	var expression *selector.CompileError
	if !errors.As(err, &inBracket) || inBracket.Path != "readinessWindowSeconds" || !errors.As(err, &inPool) || inPool.Path != "limit" || !errors.As(err, &expression) {
		t.Errorf("the causes are hidden: %v", err)
	}
}
