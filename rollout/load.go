package rollout

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/tranche-dev/tranche/internal/strictjson"
)

// Load is [ParsePolicies] and [Compile] in one: it reads one policy or a list of policies, and checks and compiles them. The error joins one *[FieldError] per
// fault, all faults of the document at once: first those of ParsePolicies, then those that Compile finds in what could be read. Of these it leaves out what may
// only follow from the first, such as that a field is missing of which the value was refused. If the document is not JSON, that is the only fault.
//
// Paths are those of the document: [0].rules[6].retry in a list, even of one policy, and rules[6].retry in a policy alone.
func Load(data []byte, compiler Compiler, options ...Option) (*PolicySet, error) {
	policies, listed, err := decodePolicies(data, strictjson.Salvage)
	if policies == nil && err != nil {
		return nil, fieldErrors(err)
	}
	return compile(policies, listed, leaves(fieldErrors(err)), compiler, options)
}

// refusals are the places of a document where something was refused before it was checked.
type refusals struct {
	values  map[string]bool     // paths of what could not be read: it is absent now, or empty
	fields  map[string][]string // path of an object → its fields of which that is true
	unknown map[string][]string // path of an object → what was said of its unknown fields, one of which may be the one that is missed
	inside  map[string]bool     // paths of everything that holds something refused
}

func newRefusals(list []error) refusals {
	r := refusals{map[string]bool{}, map[string][]string{}, map[string][]string{}, map[string]bool{}}
	for _, err := range list {
		var fault *FieldError
		if !errors.As(err, &fault) {
			continue
		}
		around(fault.Path, func(outer string) { r.inside[outer] = true })
		parent, name := parted(fault.Path)
		if fault.Code == CodeUnknownField {
			r.unknown[parent] = append(r.unknown[parent], fault.Hint)
			continue
		}
		r.values[fault.Path] = r.values[fault.Path] || fault.Code != CodeDuplicate
		r.fields[parent] = append(r.fields[parent], name)
	}
	return r
}

// around visits a path and all that it is inside of, from the inside out, the document excepted.
func around(path string, visit func(outer string)) {
	for path != "" {
		visit(path)
		path = path[:max(0, strings.LastIndexAny(path, ".["))]
	}
}

// parted is the path of the object that a field is of, and the name of the field.
func parted(path string) (parent, name string) {
	at := strings.LastIndexByte(path, '.')
	return path[:max(0, at)], path[at+1:]
}

// within reports whether something was refused inside of a path.
func (r refusals) within(path string) bool { return r.inside[path] }

// others leaves out the faults that may only follow from what was refused.
func (r refusals) others(list []error) []error {
	var rest []error
	for _, err := range list {
		var fault *FieldError
		if !errors.As(err, &fault) || !r.explain(fault) {
			rest = append(rest, err)
		}
	}
	return rest
}

// explain reports whether a fault may follow from what was refused: it is there or inside, it is a rule without a kind that has an unknown field, it misses a
// field for which an unknown one probably stands, or it speaks of a field beside it that was refused, as "is required unless readinessMode is immediate" does.
func (r refusals) explain(fault *FieldError) bool {
	_, there := r.values[fault.Path]
	parent, name := parted(fault.Path)
	meant := func(hint string) bool { return strings.Contains(hint, strconv.Quote(name)) }
	explained := there || r.values[""] || fault.Code == CodeRequired && fault.Path != "" && (len(r.unknown[fault.Path]) > 0 || slices.ContainsFunc(r.unknown[parent], meant))
	around(fault.Path, func(outer string) {
		explained = explained || r.values[outer]
		if parent, _ := parted(outer); fault.Code != CodeExpression {
			for _, name := range r.fields[parent] {
				explained = explained || speaks(fault.Hint, name)
			}
		}
	})
	return explained
}

// speaks reports whether a text has a word.
func speaks(text, word string) bool {
	letter := func(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }
	for from := 0; word != ""; {
		at := strings.Index(text[from:], word)
		if at < 0 {
			return false
		}
		at += from
		if from = at + len(word); (at == 0 || !letter(text[at-1])) && (from == len(text) || !letter(text[from])) {
			return true
		}
	}
	return false
}
