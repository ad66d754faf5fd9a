package rollout

import (
	"iter"
	"slices"
)

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
		of := required(s, prefixes...)
		if of.variable == "" {
			a.always = append(a.always, int32(k))
			continue
		}
		a.some = append(a.some, int32(k))
		if a.all[of.fieldRead] == nil {
			a.fields = append(a.fields, of.fieldRead)
		}
		a.all[of.fieldRead] = append(a.all[of.fieldRead], int32(k))
		for _, value := range of.values {
			at := fieldValue{of.fieldRead, value}
			if list := a.having[at]; len(list) == 0 || list[len(list)-1] != int32(k) { // a matcher may list a value twice
				a.having[at] = append(list, int32(k))
			}
		}
	}
	return a
}

// requirement is what a selector requires of what it is asked about: that a field, if it is there, has
// one of some values. It requires nothing if the field has no variable.
type requirement struct {
	fieldRead
	values []string
}

// required returns the first that a selector requires of variables with one of some prefixes.
func required(m Matcher, prefixes ...string) (own requirement) {
	if requirer, ok := m.(interface {
		Requires(prefix string) (variable, key string, values []string)
	}); ok {
		for _, prefix := range prefixes {
			if own.variable, own.key, own.values = requirer.Requires(prefix); own.variable != "" {
				return own
			}
		}
	}
	return requirement{}
}

// byValue holds entities, by their numbers, by what they have in a field. The zero value holds none.
type byValue struct {
	having  map[string][]int32
	lacking []int32 // those without the field, and those with a long text: every selector has to be asked about them
}

func (v *byValue) add(n int32, field fieldRead, b *bound, long bool) {
	if value, known := field.of(b); known && !long {
		put(&v.having, value, append(v.having[value], n))
	} else {
		v.lacking = append(v.lacking, n)
	}
}

// about yields, in no order, the entities about which a selector has to be asked that requires one of
// some values of the field. If a value is listed twice, so are its entities.
func (v *byValue) about(values []string) iter.Seq[int32] {
	return func(yield func(int32) bool) {
		for _, n := range v.lacking {
			if !yield(n) {
				return
			}
		}
		for _, value := range values {
			for _, n := range v.having[value] {
				if !yield(n) {
					return
				}
			}
		}
	}
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
