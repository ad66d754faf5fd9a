package selector

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tranche-dev/tranche/internal/celtext"
	"github.com/tranche-dev/tranche/internal/strictjson"
)

// LabelSelector is a Kubernetes label selector: all of MatchLabels and all of MatchExpressions must
// hold. It is two-valued: a missing key is an answer, not an error. The zero value matches
// everything; what an absent selector means is up to the caller.
type LabelSelector struct {
	MatchLabels      map[string]string  `json:"matchLabels,omitempty"` // keys that must be there, with this value
	MatchExpressions []LabelRequirement `json:"matchExpressions,omitempty"`
}

// LabelRequirement is one condition on one label.
type LabelRequirement struct {
	Key      string        `json:"key"`
	Operator LabelOperator `json:"operator"`
	Values   []string      `json:"values,omitempty"` // for In and NotIn at least one, for the others none
}

// LabelOperator is how a label is compared with the values of a requirement. The zero value is not
// an operator, and Validate refuses it.
type LabelOperator string

// The operators of Kubernetes.
const (
	In           LabelOperator = "In"           // the label is there and its value is listed
	NotIn        LabelOperator = "NotIn"        // the label is not there, or its value is not listed
	Exists       LabelOperator = "Exists"       // the label is there
	DoesNotExist LabelOperator = "DoesNotExist" // the label is not there
)

// UnmarshalJSON reads the form that Kubernetes writes. Unknown fields, duplicate keys and values of
// a wrong type are errors. All faults are reported, joined, each a *[FieldError]; the selector is
// then unchanged. A field that is left out becomes empty, whatever it was before. UnmarshalJSON
// does not call Validate.
func (l *LabelSelector) UnmarshalJSON(data []byte) error {
	type plain LabelSelector
	return explained(strictjson.Unmarshal(data, (*plain)(l)))
}

// explained adds a hint to labels that stand where matchLabels belongs: unknown fields for which
// the decoder suggests no other name. Inside matchExpressions there are no labels.
func explained(err error) error {
	list := strictjson.Faults(err)
	for i, fault := range list {
		if fault.Code == strictjson.CodeUnknownField && len(fault.Fields) == 1 && !strings.HasPrefix(fault.Path, "matchExpressions") {
			list[i].Hint += ": labels stand below matchLabels"
		}
	}
	return fieldErrors("", list)
}

// Validate reports every fault by the rules of Kubernetes, joined, each a *[FieldError]: an unknown
// operator, values that must not or must be there, and keys and values that no label can have.
func (l LabelSelector) Validate() error { return l.validate(slices.Sorted(maps.Keys(l.MatchLabels))) }

// validate takes the sorted keys of MatchLabels.
func (l *LabelSelector) validate(keys []string) error {
	var f faults
	text := func(path, value, hint string) {
		if hint != "" {
			f.add(path, CodeType, value, "%s", hint)
		}
	}
	for _, key := range keys {
		path := fmt.Sprintf("matchLabels[%q]", key)
		text(path, key, labelKey(key))
		text(path, l.MatchLabels[key], labelValue(l.MatchLabels[key]))
	}
	for i, r := range l.MatchExpressions {
		path := fmt.Sprintf("matchExpressions[%d].", i)
		text(path+"key", r.Key, labelKey(r.Key))
		switch r.Operator {
		case In, NotIn:
			if len(r.Values) == 0 {
				f.add(path+"values", CodeRequired, nil, "must not be empty for %s", r.Operator)
			}
		case Exists, DoesNotExist:
			if len(r.Values) > 0 {
				f.add(path+"values", CodeConflict, nil, "must be empty for %s", r.Operator)
			}
		default:
			f.add(path+"operator", CodeUnknownValue, r.Operator, "must be In, NotIn, Exists or DoesNotExist")
		}
		for j, value := range r.Values {
			text(fmt.Sprintf("%svalues[%d]", path, j), value, labelValue(value))
		}
	}
	return f.err()
}

// labelKey returns what is wrong with a label's key, or empty. A key is an optional DNS name of at
// most 253 characters and a slash, then a name.
func labelKey(key string) string {
	name := key
	if prefix, rest, ok := strings.Cut(key, "/"); ok {
		name = rest
		if len(prefix) > 253 {
			return fmt.Sprintf("the key has a prefix of %d characters, at most 253 are allowed", len(prefix))
		}
		for part := range strings.SplitSeq(prefix, ".") {
			if !framed(part, "-") || strings.ToLower(part) != part {
				return "the prefix of the key must be a DNS name such as example.com: lower-case letters, digits, - and ."
			}
		}
	}
	if len(name) > 63 {
		return fmt.Sprintf("the key has a name of %d characters, at most 63 are allowed", len(name))
	}
	if !framed(name, "-_.") {
		return "the key must have a name of letters, digits, -, _ and ., beginning and ending with a letter or digit"
	}
	return ""
}

func labelValue(value string) string {
	if len(value) > 63 {
		return fmt.Sprintf("the value has %d characters, at most 63 are allowed", len(value))
	}
	if value != "" && !framed(value, "-_.") {
		return "the value must be letters, digits, -, _ and ., beginning and ending with a letter or digit"
	}
	return ""
}

// framed reports whether text is not empty, consists of ASCII letters, digits and the extra
// characters, and has none of the latter at its ends.
func framed(text, extra string) bool {
	for i := range len(text) {
		c := text[i]
		letter := wordByte(c) && c != '_'
		if !letter && (strings.IndexByte(extra, c) < 0 || i == 0 || i == len(text)-1) {
			return false
		}
	}
	return text != ""
}

// CompileLabels compiles a label selector over the labels in the variable of that name, which must
// be declared as a map(string, string). The result is an ordinary selector, with terms, limits and
// the text of an expression, but never reports a missing key. The error joins what
// [LabelSelector.Validate] reports, or is a [*CompileError]: for the name, or because the
// expression exceeds a limit.
func (e *Env) CompileLabels(name string, l LabelSelector) (*Selector, error) {
	if err := l.Validate(); err != nil {
		return nil, err
	}
	if !e.made() {
		return e.Compile(name) // which refuses
	}
	slot, ok := e.layout.slots[name]
	if !ok {
		return nil, &CompileError{Expr: name, Msg: name + " is not declared", Hint: cmp.Or(strings.TrimPrefix(did(e.layout.nearest(name)), "; "), "name a variable of type "+string(StringMap))}
	}
	if v := e.layout.variables[slot]; v.Type != StringMap {
		return nil, &CompileError{Expr: name, Msg: fmt.Sprintf("%s is a %v, labels are a %v", name, v.Type, StringMap), Hint: "name a variable of that type"}
	}
	return e.Compile(l.expression(name))
}

// expression writes the selector as CEL over a map variable, with absent keys spelled out.
func (l LabelSelector) expression(variable string) string {
	var parts []string
	for _, r := range l.requirements(slices.Sorted(maps.Keys(l.MatchLabels))) {
		present := celtext.Quote(r.key) + " in " + variable
		value := variable + "[" + celtext.Quote(r.key) + "]"
		holds := value + " in " + listed(r.values.list)
		if len(r.values.list) == 1 {
			holds = value + " == " + celtext.Quote(r.values.list[0])
		}
		switch r.operator {
		case In:
			parts = append(parts, present+" && "+holds)
		case NotIn:
			parts = append(parts, "!("+present+" && "+holds+")")
		case Exists:
			parts = append(parts, present)
		default:
			parts = append(parts, "!("+present+")")
		}
	}
	if len(parts) == 0 {
		return "true"
	}
	return strings.Join(parts, " && ")
}
