package selector

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tranche-dev/tranche/internal/strictjson"
)

// Type is the type of a variable, by the name that expressions use for it. The zero value is not a
// type, and [Schema.Validate] refuses it.
type Type string

// The types a variable can have, each with the one Go type that Lookup must return for it.
const (
	String     Type = "string"              // string
	Int        Type = "int"                 // int64
	Bool       Type = "bool"                // bool
	Timestamp  Type = "timestamp"           // time.Time
	StringList Type = "list(string)"        // []string
	StringMap  Type = "map(string, string)" // map[string]string; nil is an empty map
)

func everyType() []Type { return []Type{String, Int, Bool, Timestamp, StringList, StringMap} }

func (t Type) valid() bool { return slices.Contains(everyType(), t) }

// allTypes lists the names of all types.
func allTypes() string {
	var names []string
	for _, t := range everyType() {
		names = append(names, string(t))
	}
	return strings.Join(names, "; ")
}

// UnmarshalText reads the name of a type; an unknown one is a *[FieldError] and leaves the type
// unchanged.
func (t *Type) UnmarshalText(text []byte) error {
	if !Type(text).valid() {
		return &FieldError{Code: CodeUnknownValue, Value: strictjson.Value(string(text)), Hint: "must be one of " + allTypes()}
	}
	*t = Type(text)
	return nil
}

// Variable declares a name that expressions may read.
type Variable struct {
	Name string `json:"name"` // identifiers joined by dots, such as resource.kind
	Type Type   `json:"type"`
}

// Schema lists the variables that expressions may read. The order has no meaning. A host that
// matches by itself may declare more variables than [DefaultSchema] has; package rollout knows no
// others:
//
//	schema := append(selector.DefaultSchema(), selector.Variable{Name: "resource.zone", Type: selector.String})
type Schema []Variable

// DefaultSchema returns the variables of rollout policies; the caller owns the slice. All are
// strings except metadata, which are maps from string to string, and createdAt, which is a
// timestamp. A name that the host leaves empty is the empty string.
//
//	resource.     id, name, kind, identifier, version, metadata
//	environment.  id, name, metadata
//	deployment.   id, name, slug, metadata
//	version.      id, name, tag, status, createdAt, metadata
func DefaultSchema() Schema {
	return Schema{
		{"resource.id", String}, {"resource.name", String}, {"resource.kind", String},
		{"resource.identifier", String}, {"resource.version", String}, {"resource.metadata", StringMap},
		{"environment.id", String}, {"environment.name", String}, {"environment.metadata", StringMap},
		{"deployment.id", String}, {"deployment.name", String}, {"deployment.slug", String}, {"deployment.metadata", StringMap},
		{"version.id", String}, {"version.name", String}, {"version.tag", String}, {"version.status", String},
		{"version.createdAt", Timestamp}, {"version.metadata", StringMap},
	}
}

// Only returns the variables that have one of the names or lie below it, as resource.kind lies
// below resource, in the order of the schema. The schema of a call site that knows a resource and
// nothing else is DefaultSchema().Only("resource"). A name that selects no variable is a
// *[FieldError]; all of them are reported, joined.
func (s Schema) Only(names ...string) (Schema, error) {
	selects := make(map[string]bool, len(names)) // whether a name selects a variable
	for _, name := range names {
		selects[name] = false
	}
	var kept Schema
	for _, v := range s {
		selected := false
		for name := range v.around {
			if _, given := selects[name]; given {
				selects[name], selected = true, true
			}
		}
		if selected {
			kept = append(kept, v)
		}
	}
	var f faults
	for i, name := range names {
		if !selects[name] {
			f.add(fmt.Sprintf("names[%d]", i), CodeUnknownValue, name, "no variable has this name or lies below it")
		}
	}
	if err := f.err(); err != nil {
		return nil, err
	}
	return kept, nil
}

// around yields the names below which the variable lies, and its own.
func (v Variable) around(yield func(name string) bool) {
	for end := range len(v.Name) {
		if v.Name[end] == '.' && !yield(v.Name[:end]) {
			return
		}
	}
	yield(v.Name)
}

// Words that no part of a name can be, because CEL gives them another meaning or reserves them, and
// words that cannot be the first part, because CEL has a type of that name.
const (
	reserved  = " as break const continue else false for function if import in let loop namespace null package return true var void while "
	typeNames = " bool bytes double duration dyn google int list map null_type string timestamp type uint "
)

// Validate reports every fault, joined, each a *[FieldError] with the index of its variable. Faults
// are an empty schema, a type that does not exist, and a name that is no dotted identifier, is
// reserved, is declared twice, or lies inside another one.
func (s Schema) Validate() error {
	if len(s) == 0 {
		return faults{&FieldError{Path: "schema", Code: CodeRequired, Hint: "must declare at least one variable"}}.err()
	}
	var f faults
	at := func(i int, field string) string { return fmt.Sprintf("schema[%d].%s", i, field) }
	first := make(map[string]int, len(s))
	for i, v := range s {
		if !v.Type.valid() {
			f.add(at(i, "type"), CodeUnknownValue, v.Type, "must be one of %s", allTypes())
		}
		for j, part := range strings.Split(v.Name, ".") {
			if !identifier(part) {
				f.add(at(i, "name"), CodeType, v.Name, "must be identifiers of letters, digits and _, joined by dots")
				break
			}
			if word := " " + part + " "; strings.Contains(reserved, word) || j == 0 && strings.Contains(typeNames, word) {
				f.add(at(i, "name"), CodeConflict, v.Name, "%s is a reserved word", part)
			}
		}
		if j, twice := first[v.Name]; twice {
			f.add(at(i, "name"), CodeDuplicate, v.Name, "is declared already, by schema[%d]", j)
			continue
		}
		first[v.Name] = i
	}
	for i, v := range s {
		for name := range v.around {
			if j, inside := first[name]; inside && len(name) < len(v.Name) {
				f.add(at(i, "name"), CodeConflict, v.Name, "lies inside the variable %q of schema[%d]", name, j)
			}
		}
	}
	return f.err()
}

// identifier reports whether the text is an identifier of CEL that a schema may use: CEL itself
// uses those that begin with two underscores.
func identifier(text string) bool {
	for i := range len(text) {
		if !wordByte(text[i]) || i == 0 && '0' <= text[i] && text[i] <= '9' {
			return false
		}
	}
	return text != "" && !strings.HasPrefix(text, "__")
}
