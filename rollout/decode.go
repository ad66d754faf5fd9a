package rollout

import (
	"bytes"
	"slices"
	"strings"

	"github.com/tranche-dev/tranche/internal/strictjson"
)

// ParsePolicies decodes one policy or a list of policies. Unknown fields, fields given twice and
// values of the wrong type are errors. All such faults are reported, joined, each a *[FieldError],
// and then there are no policies. That holds for a document of any size, but the text of the error
// lists the first 100 of them and counts the rest. ParsePolicies does not validate: [Compile] does.
// [Load] does both, and reports the faults of both.
func ParsePolicies(data []byte) ([]Policy, error) {
	policies, _, err := decodePolicies(data, func(data []byte, into any) (bool, error) {
		err := strictjson.Unmarshal(data, into)
		return err == nil, err
	})
	return policies, fieldErrors(err)
}

// UnmarshalJSON decodes a policy as strictly as [ParsePolicies] does: an error joins one
// *[FieldError] per fault, and the policy is then unchanged.
func (p *Policy) UnmarshalJSON(data []byte) error {
	return fieldErrors(withRemedies(strictjson.Unmarshal(data, (*plainPolicy)(p))))
}

// plainPolicy is a policy without its decoder: what holds it can be salvaged field by field.
type plainPolicy Policy

// decodePolicies also says whether the document is a list. There are no policies if decode fills
// nothing.
func decodePolicies(data []byte, decode func(data []byte, into any) (filled bool, err error)) (policies []Policy, listed bool, err error) {
	plain := make([]plainPolicy, 1)
	var into any = &plain[0]
	if listed = bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("[")); listed {
		plain, into = nil, &plain
	}
	filled, err := decode(data, into)
	if filled {
		policies = make([]Policy, len(plain))
		for i := range plain {
			policies[i] = Policy(plain[i])
		}
	}
	return policies, listed, withRemedies(err)
}

// withRemedies says of the unknown kinds of rules in policies which kinds there are, unless the
// decoder has named the one that is meant, and of a wave and a failure budget what it may be, which
// is less than any limit may be; and what to do with what ctrlplane has in and around a policy.
// Rules are the only list in a policy.
func withRemedies(err error) error {
	var list []error
	for _, fault := range strictjson.Faults(err) {
		at := fault.Path
		if strings.HasPrefix(at, "[") {
			_, at, _ = strings.Cut(at, "].")
		}
		_, name, inside := strings.Cut(at, "].")
		switch unknown := fault.Code == strictjson.CodeUnknownField; {
		case unknown && at == "policies":
			fault.Hint = "unknown field: decode what is below it"
		case unknown && at == "selectors":
			fault.Hint = `unknown field: write one selector, with "&&" between several`
		case unknown && (name == "policyId" || slices.Contains([]string{"createdAt", "description", "metadata", "priority", "type", "workspaceId"}, at)):
			fault.Hint = "unknown field: leave it out, because no plan depends on it"
		case unknown && name == "verification":
			fault.Hint = "unknown field: leave the rule out: the host measures, and reports the result in the verification of a job"
		case fault.Hint == "must be a string, not an object" && holdsExpression(at):
			fault.Hint += ": write an expression"
		case fault.Hint == "unknown field" && inside && !strings.ContainsAny(name, ".["):
			var kinds []string
			for _, k := range (Rule{}).kinds() {
				kinds = append(kinds, string(k.name))
			}
			fault.Hint += ": besides id and createdAt a rule holds one of " + strings.Join(kinds, ", ")
		}
		if strings.HasPrefix(name, "gradualRollout.waves[") {
			fault.Hint = hintWave
		}
		switch {
		case fault.Code == strictjson.CodeDuplicate: // which says nothing of the value
		case name == "failureBudget.maxFailures":
			fault.Hint = hintBudget
		case name == "failureBudget.maxFailureRate":
			fault.Hint = hintFailureRate
		}
		list = append(list, &fault)
	}
	return strictjson.Join(list...)
}

// holdsExpression reports whether a field of a policy holds an expression.
func holdsExpression(path string) bool {
	name := strings.ToLower(path[strings.LastIndexByte(path, '.')+1:])
	return strings.HasSuffix(name, "selector") || name == "dependson" || name == "appliesto"
}
