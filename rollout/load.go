package rollout

import (
	"slices"
	"strings"

	"github.com/tranche-dev/tranche/internal/strictjson"
)

// Load is [ParsePolicies] and [Compile] in one: it reads one policy or a list of policies, and
// checks and compiles them. The error joins one *[FieldError] per fault, all faults of the document
// at once: first those of ParsePolicies, then those that Compile finds in what could be read. Of
// these it leaves out what may only follow from the first, such as that a field is missing of which
// the value was refused. If the document is not JSON, that is the only fault; YAML is read after a
// converter such as sigs.k8s.io/yaml has made JSON of it.
//
// Paths are those of the document: [0].rules[6].retry in a list, even of one policy, and
// rules[6].retry in a policy alone.
func Load(data []byte, compiler Compiler, options ...Option) (*PolicySet, error) {
	policies, listed, err := decodePolicies(data, strictjson.Salvage)
	if policies == nil && err != nil {
		return nil, fieldErrors(err)
	}
	return compile(policies, listed, err, compiler, options)
}

// refusals are the fields of a document whose values nobody knows, because reading refused them, by
// their paths. false: the field is given twice, and of faults inside of it the first value counts.
//
// Tempting: to look in the hint of a fault for the names of refused fields. Hints mention fields
// that they do not depend on, and the other way round; so whoever finds a fault says what it
// depends on, see [faults.reading], and strictjson says what an unknown field may stand for.
type refusals map[string]bool

func newRefusals(err error) refusals {
	r := refusals{}
	refuse := func(path string) {
		r[path] = true
		at := strings.LastIndexByte(path, '[') + 1
		if end := strings.IndexByte(path[at:], ']'); at > 0 && (path[at+end+1:] == "" || path[at+end+1:] == "."+strictjson.AnyField) {
			r[path[:at]+strictjson.AnyField+path[at+end:]] = true // any entry of the list
		}
	}
	for _, fault := range strictjson.Faults(err) {
		switch fault.Code {
		case strictjson.CodeUnknownField:
			for _, meant := range fault.Fields {
				refuse(meant)
			}
		case strictjson.CodeDuplicate:
			if _, known := r[fault.Path]; !known {
				r[fault.Path] = false
			}
		default:
			refuse(fault.Path)
		}
	}
	return r
}

// hides reports whether a field was refused, or is inside of one that was, to a fault at some path.
func (r refusals) hides(field, at string) bool {
	for outer := field; ; outer = outer[:max(0, strings.LastIndexAny(outer, ".["))] {
		wholly, refused := r[outer]
		inside := outer != field && (strings.HasPrefix(at, outer+".") || strings.HasPrefix(at, outer+"["))
		if refused && (wholly || !inside) {
			return true
		}
		if outer == "" {
			return false
		}
	}
}

// others are the faults that do not depend on what was refused.
func (r refusals) others(err error) []error {
	var rest []error
	for _, fault := range strictjson.Faults(err) {
		if !slices.ContainsFunc(append(fault.Fields, fault.Path), func(field string) bool { return r.hides(field, fault.Path) }) {
			rest = append(rest, fault.Err)
		}
	}
	return rest
}
