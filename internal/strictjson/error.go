package strictjson

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Error is one fault of a document. Packages turn it into a FieldError of their own, see [Faults].
type Error struct {
	Path  string // the field, such as rules[2].limit; empty for the document itself
	Code  string // one of the constants below, or the code of the type's own decoder
	Value string // the offending value, if the type's own decoder says so
	Hint  string // what is wrong, and what to write instead
	Err   error  // the error of the type's own decoder, if that found the fault, or of the JSON scanner; nil otherwise

	// Fields are the paths of other fields. If one of them had another value, there might be no
	// fault. For an unknown field they are the fields that it may stand for: all are absent from
	// the document, and the first is [AnyField] of the object.
	Fields []string
}

// AnyField stands in a path for any field that an object has, or could have.
const AnyField = "*"

// The kinds of faults that a document can have. Packages use these words for their own codes.
const (
	CodeSyntax       = "syntax"        // the document is not JSON, is empty, or is followed by more text
	CodeUnknownField = "unknown_field" // there is no such field
	CodeDuplicate    = "duplicate"     // a field is given twice
	CodeType         = "type"          // the value has another type, or a form that its type does not have
)

func (e *Error) Error() string {
	return Text(e.Path, e.Value, e.Hint)
}

func (e *Error) Unwrap() error { return e.Err }

// about is a fault and the other fields that it depends on, until it is joined to others.
type about struct {
	error
	fields []string
}

func (a *about) Unwrap() error { return a.error }

// About adds to a fault the paths of the other fields that it depends on, relative to what its own
// path is relative to. Only [Faults] finds them again, after [Join]. A FieldError has no place for
// them, because it belongs to the callers of its package, who compare and print it.
func About(fault error, fields ...string) error {
	if len(fields) == 0 {
		return fault
	}
	return &about{fault, fields}
}

// joined is what errors.Join makes of faults, with the fields that [About] added.
type joined struct {
	list   []error
	fields [][]string // by index
}

// maxLines bounds the text of joined faults to what a person can read: one mistake of a generator
// may be in all 20,000 entries of a document. It is above what a file written by hand has wrong, and
// above the few faults of a snapshot and the line that counts the rest.
const maxLines = 100

// Error has the first 100 faults, and says how many more there are. Unwrap has them all.
func (j *joined) Error() string {
	more := len(j.list) - maxLines
	if more <= 0 {
		return errors.Join(j.list...).Error()
	}
	return errors.Join(append(slices.Clip(j.list[:maxLines]), More(more))...).Error()
}

// More stands for so many faults, at least one, that are left out of a list.
func More(n int) error {
	if n == 1 {
		return errors.New("and one more fault")
	}
	return fmt.Errorf("and %d more faults", n)
}

func (j *joined) Unwrap() []error { return j.list }

// Join is errors.Join of faults, some of which come from [About], with a text that is bounded.
// Callers see the faults as they were before About. What Join has joined before is taken apart, so
// that one list has all faults.
func Join(faults ...error) error {
	if len(faults) == 0 {
		return nil
	}
	j := &joined{make([]error, 0, len(faults)), make([][]string, 0, len(faults))}
	for _, fault := range faults {
		if fault == nil {
			continue
		}
		if own, ok := fault.(*joined); ok {
			j.list, j.fields = append(j.list, own.list...), append(j.fields, own.fields...)
			continue
		}
		var fields []string
		for own, ok := fault.(*about); ok; own, ok = fault.(*about) {
			fault, fields = own.error, append(fields, own.fields...)
		}
		j.list, j.fields = append(j.list, fault), append(j.fields, fields)
	}
	if len(j.list) == 0 {
		return nil
	}
	return j
}

// Parts returns the single errors of a joined error, in order, and none for nil.
func Parts(err error) []error {
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var list []error
	for _, one := range joined.Unwrap() {
		list = append(list, Parts(one)...)
	}
	return list
}

// Faults returns the faults that an error is made of, in order, and none for nil. It takes joined
// errors apart and knows an [*Error] and the FieldError of every package: these have the fields
// Path, Code, Value and Hint, and are read by name, because each package documents a type of its
// own. Any other error becomes the hint of a fault with [CodeType].
func Faults(err error) []Error {
	if err == nil {
		return nil
	}
	if own, ok := err.(*joined); ok {
		var faults []Error
		for i, one := range own.list {
			for _, fault := range Faults(one) {
				fault.Fields = append(slices.Clip(fault.Fields), own.fields[i]...)
				faults = append(faults, fault)
			}
		}
		return faults
	}
	if list, ok := err.(interface{ Unwrap() []error }); ok {
		var faults []Error
		for _, one := range list.Unwrap() {
			faults = append(faults, Faults(one)...)
		}
		return faults
	}
	if own, ok := err.(*Error); ok {
		return []Error{*own}
	}
	fault := Error{Err: err}
	if pointer := reflect.ValueOf(err); pointer.Kind() == reflect.Pointer && !pointer.IsNil() && pointer.Elem().Kind() == reflect.Struct {
		text := func(name string) string {
			if field := pointer.Elem().FieldByName(name); field.IsValid() && field.Kind() == reflect.String {
				return field.String()
			}
			return ""
		}
		fault.Path, fault.Code, fault.Value, fault.Hint = text("Path"), text("Code"), text("Value"), text("Hint")
	}
	if fault.Code == "" || fault.Hint == "" {
		return []Error{{Code: CodeType, Hint: err.Error(), Err: err}}
	}
	return []Error{fault}
}

// Value prints an offending value as it was written, for a FieldError: a text in quotes, what has a
// JSON form of its own in that form, anything else plainly, nil as nothing.
func Value(v any) string {
	switch value := reflect.ValueOf(v); {
	case !value.IsValid():
		return ""
	case value.Kind() == reflect.String:
		return strconv.Quote(value.String())
	}
	if own, ok := v.(json.Marshaler); ok { // a percentage is written in quotes, a count is not
		if text, err := own.MarshalJSON(); err == nil && string(text) != "null" {
			return string(text)
		}
	}
	return fmt.Sprint(v)
}

// Choice lists the values that a field can have, in quotes, as in: must be "a", "b" or "c".
func Choice[T ~string](values ...T) string {
	texts := make([]string, len(values))
	for i, value := range values {
		texts[i] = strconv.Quote(string(value))
	}
	if len(texts) < 2 {
		return strings.Join(texts, "")
	}
	last := len(texts) - 1
	return strings.Join(texts[:last], ", ") + " or " + texts[last]
}

// Path appends to a path another one that is relative to it.
func Path(path, inner string) string {
	if path == "" || inner == "" || inner[0] == '[' {
		return path + inner
	}
	return path + "." + inner
}

// Paths appends each of some relative paths to a path.
func Paths(path string, inner []string) []string {
	if path == "" || len(inner) == 0 {
		return inner
	}
	all := make([]string, len(inner))
	for i, one := range inner {
		all[i] = Path(path, one)
	}
	return all
}

// Text joins the parts of a fault as every package prints them, "path: value: hint", without those
// that are empty.
func Text(parts ...string) string {
	return strings.Join(slices.DeleteFunc(slices.Clone(parts), func(part string) bool { return part == "" }), ": ")
}
