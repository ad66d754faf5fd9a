package rollout

import (
	"slices"
	"strings"

	"github.com/tranche-dev/tranche/internal/strictjson"
)

// Load is [ParsePolicies] and [Compile] in one: it reads one policy or a list of policies, and
// checks and compiles them. The error joins one *[FieldError] per fault, all faults of the document
// at once: first those of ParsePolicies, then those that Compile finds in what could be read. Load
// leaves out those of Compile that may only follow from those of ParsePolicies, such as a required
// field whose value was refused. The text of the error lists the first 100 faults and counts the
// rest. If the document is not JSON, that is the only fault; convert YAML
// to JSON first, for example with sigs.k8s.io/yaml.
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

// refusals holds, by their paths, the fields of a document whose values are not known because
// reading refused them. false: the field is given twice, and for faults inside it the first value
// counts.
//
// It is tempting to look in the hint of a fault for the names of refused fields. But hints mention
// fields on which the fault does not depend, and leave out some on which it does. So the code that
// finds a fault says on what it depends, see [faults.reading], and strictjson says what an unknown
// field may stand for.
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

// hides reports whether a fault at a path must not be judged by the value of a field, because that
// field, or one that contains it, was refused.
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

// others returns the faults that do not depend on what was refused.
func (r refusals) others(err error) []error {
	var rest []error
	for _, fault := range strictjson.Faults(err) {
		if !slices.ContainsFunc(append(fault.Fields, fault.Path), func(field string) bool { return r.hides(field, fault.Path) }) {
			rest = append(rest, fault.Err)
		}
	}
	return rest
}
