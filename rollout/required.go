package rollout

import "slices"

// asking finds the policies whose selectors need not be asked about a deployment in an environment.
// Most policies of a large set are about one of them each, and to ask all about all is a square. A
// selector may say what it requires, see [Matcher]. Where a deployment or an environment has another
// value, the selector surely says no. Where it lacks the key, it has to be asked, because that is
// counted.
type asking struct {
	always []int32     // policies that have to be asked about all
	fields []fieldRead // what the others require
	all    map[fieldRead][]int32
	having map[fieldValue][]int32
}

// fieldRead is a variable that a selector reads or, if that is a map, a key of it.
type fieldRead struct{ variable, key string }

type fieldValue struct {
	fieldRead
	value string
}

// longest is the length up to which a selector knows what it does with a text, in bytes.
const longest = 256

func newAsking(policies []*compiledPolicy) asking {
	a := asking{all: map[fieldRead][]int32{}, having: map[fieldValue][]int32{}}
	for k, p := range policies {
		field, values := required(p.selector)
		if field.variable == "" {
			a.always = append(a.always, int32(k))
			continue
		}
		if a.all[field] == nil {
			a.fields = append(a.fields, field)
		}
		a.all[field] = append(a.all[field], int32(k))
		for _, value := range values {
			at := fieldValue{field, value}
			a.having[at] = append(a.having[at], int32(k))
		}
	}
	return a
}

// required returns what a selector requires of a deployment or, if that is nothing, of an
// environment.
func required(m Matcher) (field fieldRead, values []string) {
	if requirer, ok := m.(interface {
		Requires(prefix string) (variable, key string, values []string)
	}); ok {
		for _, prefix := range []string{ofDeployment, ofEnv} {
			if field.variable, field.key, values = requirer.Requires(prefix); field.variable != "" {
				return field, values
			}
		}
	}
	return fieldRead{}, nil
}

// about returns the policies that have to be asked about a deployment in an environment, in order.
// If one of the two has a long text, that is all of them.
func (a *asking) about(b *bound, long bool) []int32 {
	if len(a.fields) == 0 {
		return a.always
	}
	list := slices.Clone(a.always)
	for _, field := range a.fields {
		value, _ := b.Lookup(field.variable)
		text, known := value.(string)
		if labels, ok := value.(map[string]string); ok {
			text, known = labels[field.key]
		}
		if known && !long {
			list = append(list, a.having[fieldValue{field, text}]...)
		} else {
			list = append(list, a.all[field]...)
		}
	}
	slices.Sort(list)
	return list
}

// isLong reports whether a text of an entity is longer than what a selector surely reads.
func isLong(metadata map[string]string, texts ...string) bool {
	for _, text := range metadata {
		if len(text) > longest {
			return true
		}
	}
	return slices.ContainsFunc(texts, func(text string) bool { return len(text) > longest })
}

// long returns which environments and which deployments have a long text, if that matters.
func (w *work) long() (environments, deployments []bool) {
	environments, deployments = make([]bool, len(w.environments)), make([]bool, len(w.deployments))
	if len(w.set.asking.fields) == 0 {
		return environments, deployments
	}
	for k := range w.environments {
		e := &w.environments[k]
		environments[k] = isLong(e.Metadata, e.ID, e.Name)
	}
	for k := range w.deployments {
		d := &w.deployments[k]
		deployments[k] = isLong(d.Metadata, d.ID, d.Name, d.Slug)
	}
	return environments, deployments
}
