package selector

import (
	"maps"
	"slices"
	"strings"
)

// LabelsVariable is the name that [LabelMap] and the terms of [Labels] use for labels that belong
// to no schema.
const LabelsVariable = "labels"

// LabelMap is a plain map of labels as a [Vars] with one variable, [LabelsVariable], for an [Index]
// over such maps.
type LabelMap map[string]string

// Lookup implements [Vars].
func (m LabelMap) Lookup(name string) (any, bool) {
	return map[string]string(m), name == LabelsVariable
}

// Labels is a label selector compiled for plain maps: no schema, no limits, no errors. It is
// immutable. The zero value matches everything.
type Labels struct {
	requirements []requirement
}

// requirement is one condition.
type requirement struct {
	key      string
	operator LabelOperator
	values   set // sorted; without a list for Exists and DoesNotExist
}

// Compile compiles the selector for [Labels.Match], or returns what Validate reports.
func (l LabelSelector) Compile() (*Labels, error) {
	keys := slices.Sorted(maps.Keys(l.MatchLabels))
	if err := l.validate(keys); err != nil {
		return nil, err
	}
	return &Labels{requirements: l.requirements(keys)}, nil
}

// requirements lists all conditions in a fixed order: matchLabels by their sorted keys, then the
// expressions as they stand.
func (l *LabelSelector) requirements(keys []string) []requirement {
	n := len(keys)
	for i := range l.MatchExpressions {
		n += len(l.MatchExpressions[i].Values)
	}
	texts := make([]string, 0, n) // the values of all
	list := make([]requirement, 0, len(keys)+len(l.MatchExpressions))
	add := func(key string, operator LabelOperator, values ...string) {
		if len(values) == 0 {
			list = append(list, requirement{key: key, operator: operator})
			return
		}
		from := len(texts)
		texts = append(texts, values...)
		own := texts[from:len(texts):len(texts)]
		slices.Sort(own)
		list = append(list, requirement{key: key, operator: operator, values: newSet(slices.Compact(own))})
	}
	for _, key := range keys {
		add(key, In, l.MatchLabels[key])
	}
	for i := range l.MatchExpressions {
		r := &l.MatchExpressions[i]
		add(r.Key, r.Operator, r.Values...)
	}
	return list
}

// Match reports whether the selector matches the labels; a nil map has no labels. It allocates
// nothing.
func (l *Labels) Match(labels map[string]string) bool {
	for i := range l.requirements {
		r := &l.requirements[i]
		value, ok := labels[r.key]
		switch r.operator {
		case In:
			ok = ok && r.values.has(value)
		case NotIn:
			ok = !ok || !r.values.has(value)
		case DoesNotExist:
			ok = !ok
		}
		if !ok {
			return false
		}
	}
	return true
}

// Terms returns conditions that all matching labels fulfil, over the variable [LabelsVariable], one
// per key and ascending by key; see [Term]. The caller owns the slices.
func (l *Labels) Terms() []Term {
	terms := make([]Term, 0, len(l.requirements))
	for i := range l.requirements {
		r := &l.requirements[i]
		t := Term{Variable: LabelsVariable, Key: r.key, Keyed: true}
		switch r.operator {
		case In:
			t.Values = slices.Clone(r.values.list)
		case NotIn, DoesNotExist:
			continue
		}
		terms = append(terms, t)
	}
	slices.SortStableFunc(terms, func(a, b Term) int { return strings.Compare(a.Key, b.Key) })
	kept := terms[:0]
	for _, t := range terms {
		if n := len(kept); n == 0 || kept[n-1].Key != t.Key {
			kept = append(kept, t)
		} else {
			kept[n-1].Values = intersection(kept[n-1].Values, t.Values)
		}
	}
	return kept
}

// String prints the selector as kubectl accepts it: a=b,c in (d,e),!f. The empty selector is the
// empty text.
func (l *Labels) String() string {
	parts := make([]string, len(l.requirements))
	for i, r := range l.requirements {
		values := strings.Join(r.values.list, ",")
		switch {
		case r.operator == In && len(r.values.list) == 1:
			parts[i] = r.key + "=" + values
		case r.operator == In:
			parts[i] = r.key + " in (" + values + ")"
		case r.operator == NotIn && len(r.values.list) == 1:
			parts[i] = r.key + "!=" + values
		case r.operator == NotIn:
			parts[i] = r.key + " notin (" + values + ")"
		case r.operator == Exists:
			parts[i] = r.key
		default:
			parts[i] = "!" + r.key
		}
	}
	return strings.Join(parts, ",")
}
