// Package strictjson decodes configuration and stored records: what encoding/json would ignore or
// guess is an error here, and all faults of a document are reported at once, each with its path.
//
// A field with a tag such as fault:"time_invalid" gives that code, instead of [CodeType], to the
// faults in it.
//
// It follows the struct tags of encoding/json and refuses, in addition to what that package
// refuses: unknown fields (field names match exactly, not by letter case), a field given twice,
// null for a value that cannot be absent, bytes that are not UTF-8, escapes of half a character,
// base64 for a list of values that decode themselves, and anything after the document.
package strictjson

import (
	"bytes"
	"cmp"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"
)

// Unmarshal replaces the value that dst, a non-nil pointer, points to by what it decodes: unlike
// encoding/json it keeps nothing of what was there. The error joins one [*Error] per fault, in
// document order; dst is untouched if there is any. So the decoder of a type is one line: it passes
// its receiver on, converted to a type of the same fields without a decoder.
//
// A type with its own UnmarshalJSON gets its value as it stands, null included. One with its own
// UnmarshalText gets its string; null is a fault, unless a pointer takes it. Their errors are
// reported at the path of the value: if an error is itself made of [*Error] or of FieldErrors,
// their paths continue that path.
func Unmarshal(data []byte, dst any) error {
	target := reflect.ValueOf(dst)
	if target.Kind() != reflect.Pointer || target.IsNil() {
		return fmt.Errorf("strictjson: cannot decode into %T: a non-nil pointer is needed", dst)
	}
	if quickly(data, target.Elem()) {
		return nil
	}
	return thoroughly(data, dst)
}

// thoroughly is Unmarshal for a document that may have faults.
func thoroughly(data []byte, dst any) error {
	if err := syntax(data); err != nil {
		return err
	}
	w := walk{given: map[string]bool{}}
	w.value("", data, reflect.TypeOf(dst).Elem())
	if len(w.faults) > 0 {
		for _, fault := range w.unknown {
			fault.Fields = slices.DeleteFunc(fault.Fields, func(path string) bool { return w.given[path] })
		}
		return Join(w.faults...)
	}
	// The walk accepts no more than encoding/json does, so this succeeds or, at worst,
	// reports what the walk overlooked.
	target := reflect.ValueOf(dst).Elem()
	fresh := reflect.New(target.Type())
	if err := json.Unmarshal(data, fresh.Interface()); err != nil {
		return &Error{Code: CodeType, Hint: err.Error(), Err: err}
	}
	target.Set(fresh.Elem())
	return nil
}

// syntax reports the first place at which data is not one JSON document; nothing can be said about
// what follows it.
func syntax(data []byte) error {
	if offset := notUTF8(data); offset >= 0 {
		line, column := position(data, offset)
		return &Error{Code: CodeSyntax, Hint: fmt.Sprintf("line %d, column %d: not UTF-8, in which JSON is written", line, column)}
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	var document json.RawMessage
	err := dec.Decode(&document)
	if err == nil {
		if rest := bytes.TrimLeft(data[dec.InputOffset():], " \t\r\n"); len(rest) > 0 {
			line, column := position(data, len(data)-len(rest))
			return &Error{Code: CodeSyntax, Hint: fmt.Sprintf("line %d, column %d: one document is expected, more text follows", line, column)}
		}
		if offset := halfCharacter(data); offset >= 0 {
			line, column := position(data, offset)
			return &Error{Code: CodeSyntax, Hint: fmt.Sprintf("line %d, column %d: %s is half of a character: write both halves, or the character itself", line, column, data[offset:offset+6])}
		}
		return nil
	}
	offset := len(data)
	var bad *json.SyntaxError
	if errors.As(err, &bad) {
		offset = max(0, int(bad.Offset)-1)
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return &Error{Code: CodeSyntax, Hint: "the document is empty", Err: err}
	}
	line, column := position(data, offset)
	return &Error{Code: CodeSyntax, Hint: fmt.Sprintf("line %d, column %d: %v%s", line, column, err, slip(data, offset)), Err: err}
}

// notUTF8 returns the offset of the first byte that is not UTF-8, or -1. encoding/json decodes all
// such bytes as the same character.
func notUTF8(data []byte) int {
	if utf8.Valid(data) {
		return -1
	}
	offset := 0
	for {
		r, size := utf8.DecodeRune(data[offset:])
		if r == utf8.RuneError && size == 1 {
			return offset
		}
		offset += size
	}
}

// halfCharacter returns the offset of the first escape in a valid document that is half of a
// surrogate pair without the other half, or -1. encoding/json decodes all of them as the same
// character, as it does with bytes that are not UTF-8.
func halfCharacter(data []byte) int {
	unit := func(at int) rune { // the code unit of an escape such as \u00e9, or -1
		if data[at] != '\\' || data[at+1] != 'u' {
			return -1
		}
		n, _ := strconv.ParseUint(string(data[at+2:at+6]), 16, 16) // always four digits
		return rune(n)
	}
	for at := 0; ; {
		next := bytes.IndexByte(data[at:], '\\') // outside of a string there is none
		if next < 0 {
			return -1
		}
		at += next
		switch first := unit(at); {
		case !utf16.IsSurrogate(first):
			at += 2 // the backslash may be escaped itself
		case utf16.DecodeRune(first, unit(at+6)) == utf8.RuneError:
			return at
		default:
			at += 12
		}
	}
}

func position(data []byte, offset int) (line, column int) {
	before := data[:min(offset, len(data))]
	return bytes.Count(before, []byte{'\n'}) + 1, len(before) - bytes.LastIndexByte(before, '\n')
}

// walk compares a document with a type. Its input is valid JSON.
type walk struct {
	faults  []error
	around  []scope         // the structs around the present value, outermost first
	given   map[string]bool // paths of the fields that the document has
	unknown []*Error        // the faults of unknown fields
}

// scope is a struct that the walk is in, and the name of the field through which it went on.
type scope struct {
	path   string
	typ    reflect.Type
	fields map[string]reflect.Type
	inside string
}

func (w *walk) fault(path, code, format string, args ...any) {
	w.faults = append(w.faults, &Error{Path: path, Code: code, Hint: fmt.Sprintf(format, args...)})
}

// foreign reports an error of a type's own decoder, continuing the paths of faults that this
// package found inside it.
func (w *walk) foreign(path string, err error) {
	for _, fault := range Faults(err) {
		fault.Path, fault.Fields = Path(path, fault.Path), Paths(path, fault.Fields)
		w.faults = append(w.faults, &fault)
	}
}

func (w *walk) value(path string, raw json.RawMessage, typ reflect.Type) {
	raw = bytes.TrimSpace(raw)
	null := string(raw) == "null"
	if typ.Kind() == reflect.Pointer {
		if !null {
			w.value(path, raw, typ.Elem())
		}
		return
	}
	switch pointer := reflect.PointerTo(typ); {
	case typ == reflect.TypeFor[time.Time]():
		w.instant(path, raw)
		return
	case pointer.Implements(reflect.TypeFor[json.Unmarshaler]()):
		if err := reflect.New(typ).Interface().(json.Unmarshaler).UnmarshalJSON(raw); err != nil {
			w.foreign(path, err)
		}
		return
	case pointer.Implements(reflect.TypeFor[encoding.TextUnmarshaler]()):
		var text string
		if null {
			w.fault(path, CodeType, hintNull)
		} else if err := json.Unmarshal(raw, &text); err != nil {
			w.fault(path, CodeType, "must be a string, not %s", kindOf(raw))
		} else if err := reflect.New(typ).Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(text)); err != nil {
			w.foreign(path, err)
		}
		return
	}
	switch typ.Kind() {
	case reflect.Interface:
		// What an open field holds is up to the host.
	case reflect.Struct:
		w.object(path, raw, typ)
	case reflect.Map:
		if !null {
			w.dictionary(path, raw, typ)
		}
	case reflect.Slice, reflect.Array:
		if null && typ.Kind() == reflect.Slice {
			return
		}
		if typ.Elem().Kind() == reflect.Uint8 && !decodes(typ.Elem()) {
			w.scalar(path, raw, typ, "a string in base64")
			return
		}
		if kindOf(raw) != "a list" {
			w.fault(path, CodeType, "must be a list, not %s", kindOf(raw))
			return
		}
		var items []json.RawMessage
		_ = json.Unmarshal(raw, &items) // raw is valid JSON
		if typ.Kind() == reflect.Array && len(items) != typ.Len() {
			w.fault(path, CodeType, "must have %d entries, not %d", typ.Len(), len(items))
		}
		for i, item := range items {
			w.value(path+"["+strconv.Itoa(i)+"]", item, typ.Elem())
		}
	case reflect.String:
		w.scalar(path, raw, typ, "a string")
	case reflect.Bool:
		w.scalar(path, raw, typ, "true or false")
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		w.whole(path, raw, typ, "a whole number", typ.Bits()-1)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		w.whole(path, raw, typ, "a whole number, not negative,", typ.Bits())
	default:
		w.scalar(path, raw, typ, "a number")
	}
}

// decodes reports whether a type has a decoder of its own. A list of bytes with a decoder must be a
// list: encoding/json would also accept base64 for it, and store the bytes without asking the
// decoder.
func decodes(typ reflect.Type) bool {
	pointer := reflect.PointerTo(typ)
	return pointer.Implements(reflect.TypeFor[json.Unmarshaler]()) || pointer.Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// whole mentions the bits only where they matter, for a whole number that may be too large.
func (w *walk) whole(path string, raw json.RawMessage, typ reflect.Type, want string, bits int) {
	if kindOf(raw) == "a number" && !bytes.ContainsAny(raw, ".eE") {
		w.scalar(path, raw, typ, fmt.Sprintf("%s of at most %d bits", want, bits))
		return
	}
	if unit, _ := w.unit(path); unit != "" {
		want = strings.Replace(want, "number", "number of "+unit, 1)
	}
	w.scalar(path, raw, typ, strings.TrimSuffix(want, ","))
}

const hintNull = "null is not a value here: write one, or leave it out"

// scalar leaves the decision to encoding/json, so that the two never disagree, and the wording to
// the caller.
func (w *walk) scalar(path string, raw json.RawMessage, typ reflect.Type, want string) {
	if string(raw) == "null" {
		w.fault(path, CodeType, hintNull)
	} else if json.Unmarshal(raw, reflect.New(typ).Interface()) != nil {
		got := kindOf(raw)
		if got == "a number" {
			got = string(raw)
		}
		w.fault(path, CodeType, "must be %s, not %s%s", want, got, w.instead(path, raw, typ))
	}
}

// instant says in words what the error of [time.Time.UnmarshalJSON] says in a layout of package
// time. To both, null means absent.
func (w *walk) instant(path string, raw json.RawMessage) {
	err := new(time.Time).UnmarshalJSON(raw)
	if err == nil {
		return
	}
	fault := &Error{Path: path, Code: CodeType, Hint: "must be an instant of RFC 3339 with its offset, such as 2026-01-31T09:00:00Z or 2026-01-31T10:00:00+01:00", Err: err}
	if kind := kindOf(raw); kind != "a string" {
		fault.Hint += ", not " + kind
	} else {
		var text string
		_ = json.Unmarshal(raw, &text) // raw is a JSON string
		fault.Value = Value(text)
	}
	if parse := (*time.ParseError)(nil); errors.As(err, &parse) {
		fault.Hint += parse.Message // which begins with a colon, as in ": day out of range", and is empty for a wrong form
	}
	w.faults = append(w.faults, fault)
}

func (w *walk) object(path string, raw json.RawMessage, typ reflect.Type) {
	fields := fieldsOf(typ)
	w.members(path, raw, func(at, name string, value json.RawMessage) {
		if field, ok := fields[name]; ok {
			w.given[at] = true
			w.around = append(w.around, scope{path, typ, fields, name})
			before := len(w.faults)
			w.value(at, value, field)
			w.around = w.around[:len(w.around)-1]
			recode(w.faults[before:], typ, name)
			return
		}
		remedy, meant := w.remedy(path, name, fields)
		fault := &Error{Path: at, Code: CodeUnknownField, Hint: "unknown field" + remedy, Fields: append([]string{Path(path, AnyField)}, meant...)}
		w.faults, w.unknown = append(w.faults, fault), append(w.unknown, fault)
	})
}

// recode replaces CodeType in the faults in a field by the code of the field's fault tag, if it has
// one.
func recode(faults []error, typ reflect.Type, name string) {
	for _, fault := range faults {
		if own, ok := fault.(*Error); ok && own.Code == CodeType {
			own.Code = cmp.Or(tagOf(typ, name, "fault"), own.Code)
		}
	}
}

// tagOf returns a tag of the field with a JSON name, in a struct or one that is embedded in it.
func tagOf(typ reflect.Type, name, key string) (tag string) {
	for i := range typ.NumField() {
		field := typ.Field(i)
		switch own, _, _ := strings.Cut(field.Tag.Get("json"), ","); {
		case own == name:
			return field.Tag.Get(key)
		case field.Anonymous && own == "" && field.Type.Kind() == reflect.Struct:
			tag = cmp.Or(tag, tagOf(field.Type, name, key))
		}
	}
	return tag
}

func (w *walk) dictionary(path string, raw json.RawMessage, typ reflect.Type) {
	w.members(path, raw, func(at, name string, value json.RawMessage) {
		// A key type with a decoder of its own, or a numeric one, may refuse a name; encoding/json
		// knows the rules.
		quoted, _ := json.Marshal(map[string]bool{name: true})
		keys := reflect.New(reflect.MapOf(typ.Key(), reflect.TypeFor[bool]()))
		if err := json.Unmarshal(quoted, keys.Interface()); err != nil {
			w.fault(at, CodeType, "%q is not a valid key: %v", name, err)
		}
		if string(value) == "null" && typ.Elem() == reflect.TypeFor[string]() {
			// YAML has null for a label without a value, and a selector without the label would
			// select more.
			w.fault(at, CodeType, `null is not a value here: write "" for an empty string, or leave it out`)
			return
		}
		w.value(at, value, typ.Elem())
	})
}

// members calls visit for each member of what must be an object, in document order, once per name.
func (w *walk) members(path string, raw json.RawMessage, visit func(at, name string, value json.RawMessage)) {
	if kindOf(raw) != "an object" {
		w.fault(path, CodeType, "must be an object, not %s", kindOf(raw))
		return
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	_, _ = dec.Token() // the brace; nothing here can fail, because raw is valid JSON
	for seen := map[string]bool{}; dec.More(); {
		token, _ := dec.Token()
		name := token.(string)
		var value json.RawMessage
		_ = dec.Decode(&value)
		at := Path(path, segment(name))
		if seen[name] {
			w.fault(at, CodeDuplicate, "given twice")
			continue
		}
		seen[name] = true
		visit(at, name, value)
	}
}

// segment returns a name as one step of a path: plain if it can be read so, else quoted in
// brackets.
func segment(name string) string {
	for i, r := range name {
		letter := r == '_' || r == '-' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
		if !letter && (i == 0 || r < '0' || '9' < r) {
			return "[" + strconv.Quote(name) + "]"
		}
	}
	if name == "" {
		return `[""]`
	}
	return name
}

// kindOf names the kind of a valid value.
func kindOf(raw json.RawMessage) string {
	switch {
	case raw[0] == '{':
		return "an object"
	case raw[0] == '[':
		return "a list"
	case raw[0] == '"':
		return "a string"
	case raw[0] == 't' || raw[0] == 'f':
		return "a boolean"
	case raw[0] == 'n':
		return "null"
	}
	return "a number"
}

// field is a field of a struct by its JSON name or, without a name, what is inside something else.
type field struct {
	name string
	typ  reflect.Type
	form form // once a scan has met it
}

// fieldsOf returns the fields of a struct by name.
func fieldsOf(typ reflect.Type) map[string]reflect.Type {
	fields := map[string]reflect.Type{}
	for _, f := range listFields(typ) {
		fields[f.name] = f.typ
	}
	return fields
}

// listFields lists the fields of a struct in the order in which encoding/json writes them, but for
// those of embedded structs, which come last; an outer field hides an inner one.
func listFields(typ reflect.Type) []field {
	list := make([]field, 0, typ.NumField())
	var inner []reflect.Type
	for i := range typ.NumField() {
		of := typ.Field(i)
		tag := of.Tag.Get("json")
		name, _, _ := strings.Cut(tag, ",")
		switch embedded := of.Type; {
		case tag == "-":
		case of.Anonymous && name == "":
			if embedded.Kind() == reflect.Pointer {
				embedded = embedded.Elem()
			}
			if embedded.Kind() == reflect.Struct {
				inner = append(inner, embedded)
			}
		case of.IsExported():
			list = append(list, field{name: cmp.Or(name, of.Name), typ: of.Type})
		}
	}
	for _, embedded := range inner {
		for _, f := range listFields(embedded) {
			if !slices.ContainsFunc(list, func(outer field) bool { return outer.name == f.name }) {
				list = append(list, f)
			}
		}
	}
	return list
}
