package selector

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// layout numbers the variables of a schema, sorted by name. Selectors and values of one [Env] share
// it.
type layout struct {
	variables []Variable
	slots     map[string]int
}

func newLayout(schema Schema) *layout {
	l := &layout{variables: slices.Clone(schema), slots: make(map[string]int, len(schema))}
	slices.SortFunc(l.variables, func(a, b Variable) int { return strings.Compare(a.Name, b.Name) })
	for i, v := range l.variables {
		l.slots[v.Name] = i
	}
	return l
}

// Values is a [Vars] with one place per declared variable. Make it once with [Env.NewValues], set
// it for each entity, and match any number of selectors against it: that allocates nothing. It must
// not be set while another goroutine matches against it. The zero value has no places: no variable
// has a value, and none can be set.
type Values struct {
	layout *layout
	slots  []slot
}

// slot is the value of one variable; only the field of its type is meaningful.
type slot struct {
	bound  bool
	flag   bool
	number int64
	text   string
	labels map[string]string
	list   []string
	at     time.Time
}

// Set gives a declared variable a value, which must have the Go type that its [Type] names. Maps
// and lists are not copied. It returns an error, and changes nothing, for a name that is not
// declared and for a value of another type. A value that is not a map allocates, because it is put
// into an interface: for strings use [Values.SetString].
func (v *Values) Set(name string, value any) error {
	i, ok := v.slot(name)
	switch {
	case v.layout == nil:
		return fmt.Errorf("selector: %s is not declared: these values were not made by NewValues", name)
	case !ok:
		return fmt.Errorf("selector: %s is not declared%s", name, did(v.layout.nearest(name)))
	}
	s, want, fits := &v.slots[i], v.layout.variables[i].Type, false
	switch x := value.(type) {
	case string:
		if fits = want == String; fits {
			s.text = x
		}
	case int64:
		if fits = want == Int; fits {
			s.number = x
		}
	case bool:
		if fits = want == Bool; fits {
			s.flag = x
		}
	case time.Time:
		if fits = want == Timestamp; fits {
			s.at = x
		}
	case []string:
		if fits = want == StringList; fits {
			s.list = x
		}
	case map[string]string:
		if fits = want == StringMap; fits {
			s.labels = x
		}
	}
	if !fits {
		return fmt.Errorf("selector: %s must be %s, not %s", name, want.goType(), goTypeOf(value))
	}
	s.bound = true
	return nil
}

// SetString is [Values.Set] for a variable of type string, without an allocation.
func (v *Values) SetString(name, value string) error {
	i, ok := v.slot(name)
	if !ok || v.layout.variables[i].Type != String {
		return v.Set(name, value)
	}
	v.slots[i].text, v.slots[i].bound = value, true
	return nil
}

// slot returns the place of a variable, and whether there is one.
func (v *Values) slot(name string) (int, bool) {
	if v == nil || v.layout == nil {
		return 0, false
	}
	i, ok := v.layout.slots[name]
	return i, ok
}

// Clear removes all values.
func (v *Values) Clear() { clear(v.slots) }

// Lookup implements [Vars].
func (v *Values) Lookup(name string) (any, bool) {
	i, ok := v.slot(name)
	if !ok || !v.slots[i].bound {
		return nil, false
	}
	s := &v.slots[i]
	switch v.layout.variables[i].Type {
	case String:
		return s.text, true
	case Int:
		return s.number, true
	case Bool:
		return s.flag, true
	case Timestamp:
		return s.at, true
	case StringList:
		return s.list, true
	default:
		return s.labels, true
	}
}

// goType returns the name of the Go type that values of the type have.
func (t Type) goType() string {
	switch t {
	case Int:
		return "int64"
	case Timestamp:
		return "time.Time"
	case StringList:
		return "[]string"
	case StringMap:
		return "map[string]string"
	}
	return string(t)
}

func goTypeOf(value any) string {
	if value == nil {
		return "nil"
	}
	return reflect.TypeOf(value).String()
}
