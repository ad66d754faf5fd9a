package rollout

import "slices"

// asking finds the selectors that need not be asked about a deployment in an environment, or about a
// resource. Most policies of a large set, and their pools, are about one of them each, and to ask all
// about all is a square. A selector may say what it requires, see [Matcher]. What has another value
// is surely no match. What lacks the key has to be asked about, because that is counted.
type asking struct {
	always []int32     // selectors, by number, that have to be asked about all
	some   []int32     // the others
	fields []fieldRead // what these require
	all    map[fieldRead][]int32
	having map[fieldValue][]int32
}

// fieldRead is a variable that a selector reads or, if that is a map, a key of it.
type fieldRead struct{ variable, key string }

// of returns the text that is read of what is bound; known is false if there is none.
func (f fieldRead) of(b *bound) (text string, known bool) {
	value, _ := b.Lookup(f.variable)
	if labels, ok := value.(map[string]string); ok {
		text, known = labels[f.key]
		return text, known
	}
	text, known = value.(string)
	return text, known
}

type fieldValue struct {
	fieldRead
	value string
}

// fewSelectors is the number of selectors with a requirement up to which asking them about every
// resource is cheaper than to find out which of them to ask.
const fewSelectors = 8

// longest is the length up to which a selector knows what it does with a text, in bytes.
const longest = 256

// newAsking looks at what selectors require of entities whose variables begin with one of some
// prefixes, of the first that they require anything of.
func newAsking(selectors []Matcher, prefixes ...string) asking {
	a := asking{all: map[fieldRead][]int32{}, having: map[fieldValue][]int32{}}
	for k, s := range selectors {
		field, values := required(s, prefixes)
		if field.variable == "" {
			a.always = append(a.always, int32(k))
			continue
		}
		a.some = append(a.some, int32(k))
		if a.all[field] == nil {
			a.fields = append(a.fields, field)
		}
		a.all[field] = append(a.all[field], int32(k))
		for _, value := range values {
			at := fieldValue{field, value}
			if list := a.having[at]; len(list) == 0 || list[len(list)-1] != int32(k) { // a matcher may list a value twice
				a.having[at] = append(list, int32(k))
			}
		}
	}
	return a
}

func required(m Matcher, prefixes []string) (field fieldRead, values []string) {
	if requirer, ok := m.(interface {
		Requires(prefix string) (variable, key string, values []string)
	}); ok {
		for _, prefix := range prefixes {
			if field.variable, field.key, values = requirer.Requires(prefix); field.variable != "" {
				return field, values
			}
		}
	}
	return fieldRead{}, nil
}

// about returns the selectors that have to be asked about what is bound, in order.
func (a *asking) about(b *bound, long bool) []int32 {
	if len(a.fields) == 0 {
		return a.always
	}
	list := a.someAbout(slices.Clone(a.always), b, long)
	slices.Sort(list)
	return list
}

// someAbout appends those of the selectors with a requirement that have to be asked about what is
// bound. If that has a long text, they are all.
func (a *asking) someAbout(list []int32, b *bound, long bool) []int32 {
	for _, field := range a.fields {
		if text, known := field.of(b); known && !long {
			list = append(list, a.having[fieldValue{field, text}]...)
		} else {
			list = append(list, a.all[field]...)
		}
	}
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

func (e *Environment) isLong() bool { return isLong(e.Metadata, e.ID, e.Name) }

func (d *Deployment) isLong() bool { return isLong(d.Metadata, d.ID, d.Name, d.Slug) }

func (v *Version) isLong() bool { return isLong(v.Metadata, v.ID, v.Name, v.Tag, string(v.Status)) }

func (r *Resource) isLong() bool {
	return isLong(r.Metadata, r.ID, r.Name, r.Kind, r.Identifier, r.Version)
}

// long returns which environments, deployments and resources have a long text, if that matters.
func (w *work) long() (environments, deployments, resources []bool) {
	environments, deployments, resources = make([]bool, len(w.environments)), make([]bool, len(w.deployments)), make([]bool, len(w.resources))
	if len(w.set.asking.fields)+len(w.set.askingResources.fields) == 0 {
		return environments, deployments, resources
	}
	for k := range w.environments {
		environments[k] = w.environments[k].isLong()
	}
	for k := range w.deployments {
		deployments[k] = w.deployments[k].isLong()
	}
	if len(w.set.askingResources.fields) > 0 {
		for k := range w.resources {
			resources[k] = w.resources[k].isLong()
		}
	}
	return environments, deployments, resources
}
