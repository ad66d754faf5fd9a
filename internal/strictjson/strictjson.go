// Package strictjson decodes configuration and stored records: what encoding/json would ignore or guess is an error here, and all
// faults of a document are reported at once, each with its path.
//
// It follows the struct tags of encoding/json and refuses, in addition to what that package refuses: unknown fields (field names match
// exactly, not by letter case), a field given twice, null for a value that cannot be absent, and anything after the document.
package strictjson

import (
	"bytes"
	"cmp"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Error is one fault of a document. Packages turn it into a FieldError of their own, see [Faults].
type Error struct {
	Path  string // the field, such as rules[2].limit; empty for the document itself
	Code  string // one of the constants below, or the code of the type's own decoder
	Value string // the offending value, if the type's own decoder says so
	Hint  string // what is wrong, and what to write instead
	Err   error  // the error of the type's own decoder, if that found the fault, or of the JSON scanner; nil otherwise
}

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

// Faults returns the faults that an error is made of, in order; none of nil. It takes joined errors apart and knows an [*Error] and the
// FieldError of every package: these have the fields Path, Code, Value and Hint, and are read by name, because each package documents a
// type of its own. Any other error becomes the hint of a fault of the type.
func Faults(err error) []Error {
	if err == nil {
		return nil
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

// Value prints an offending value as it was written, for a FieldError: a text in quotes, anything else plainly, nil as nothing.
func Value(v any) string {
	switch value := reflect.ValueOf(v); {
	case !value.IsValid():
		return ""
	case value.Kind() == reflect.String:
		return strconv.Quote(value.String())
	}
	return fmt.Sprint(v)
}

// Path continues a path by another one that is relative to it.
func Path(path, inner string) string {
	if path == "" || inner == "" || inner[0] == '[' {
		return path + inner
	}
	return path + "." + inner
}

// Text joins the parts of a fault as every package prints them, "path: value: hint", without those that are empty.
func Text(parts ...string) string {
	return strings.Join(slices.DeleteFunc(slices.Clone(parts), func(part string) bool { return part == "" }), ": ")
}

// Unmarshal decodes data into dst, which must be a non-nil pointer. The error joins one [*Error] per fault, in document order; dst is
// untouched if there is any. A type with an UnmarshalJSON or UnmarshalText of its own gets its value as it stands, null included,
// and its error is reported at its path: if that error is itself made of [*Error] or of FieldErrors, their paths are continued.
func Unmarshal(data []byte, dst any) error {
	target := reflect.ValueOf(dst)
	if target.Kind() != reflect.Pointer || target.IsNil() {
		return fmt.Errorf("strictjson: cannot decode into %T: a non-nil pointer is needed", dst)
	}
	if err := syntax(data); err != nil {
		return err
	}
	w := walk{}
	w.value("", data, target.Type().Elem())
	if len(w.faults) > 0 {
		return errors.Join(w.faults...)
	}
	// The walk accepts no more than encoding/json does, so this fills dst completely or, at worst, reports what the walk overlooked.
	if err := json.Unmarshal(data, dst); err != nil {
		return &Error{Code: CodeType, Hint: err.Error(), Err: err}
	}
	return nil
}

// syntax reports the first place at which data is not one JSON document; nothing can be said about what follows it.
func syntax(data []byte) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	var document json.RawMessage
	err := dec.Decode(&document)
	if err == nil {
		if rest := bytes.TrimLeft(data[dec.InputOffset():], " \t\r\n"); len(rest) > 0 {
			line, column := position(data, len(data)-len(rest))
			return &Error{Code: CodeSyntax, Hint: fmt.Sprintf("line %d, column %d: one document is expected, more text follows", line, column)}
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

// slip says what to do about the usual reasons for a syntax error: what JavaScript, Python, YAML and editors allow and JSON does not.
func slip(data []byte, offset int) string {
	if bytes.HasPrefix(data, []byte("\xef\xbb\xbf")) {
		return "; it begins with a byte order mark: save it without one"
	}
	letter := func(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_' }
	for offset > 0 && offset < len(data) && letter(data[offset]) && letter(data[offset-1]) {
		offset-- // the error is inside the word
	}
	before, rest := string(bytes.TrimRight(data[:offset], " \t\r\n")), string(data[offset:])
	switch {
	case rest == "":
		return ""
	case strings.HasSuffix(before, ",") && (rest[0] == '}' || rest[0] == ']'):
		return "; leave out the comma before it"
	case rest[0] == '#' || strings.HasPrefix(rest, "//") || strings.HasPrefix(rest, "/*"):
		return "; JSON has no comments"
	case strings.HasPrefix(rest, "True") || strings.HasPrefix(rest, "False") || strings.HasPrefix(rest, "None"):
		return "; write true, false or null"
	case before == "":
		return "; a document begins with { or ["
	case rest[0] == '\'' || strings.HasPrefix(rest, "“") || letter(rest[0]):
		return "; names and texts stand in double quotes"
	case strings.ContainsRune("}]", rune(before[len(before)-1])) && strings.ContainsRune("{[\"", rune(rest[0])):
		return "; a comma is missing before it"
	}
	return ""
}

func position(data []byte, offset int) (line, column int) {
	before := data[:min(offset, len(data))]
	return bytes.Count(before, []byte{'\n'}) + 1, len(before) - bytes.LastIndexByte(before, '\n')
}

// walk compares a document with a type. Its input is valid JSON.
type walk struct {
	faults []error
	around []scope // the structs around the present value, outermost first
}

// scope is a struct that the walk is inside of, and the name of its field through which the walk went.
type scope struct {
	fields map[string]reflect.Type
	inside string
}

func (w *walk) fault(path, code, format string, args ...any) {
	w.faults = append(w.faults, &Error{Path: path, Code: code, Hint: fmt.Sprintf(format, args...)})
}

// foreign reports an error of a type's own decoder, continuing the paths of faults that this package found inside it.
func (w *walk) foreign(path string, err error) {
	for _, fault := range Faults(err) {
		fault.Path = Path(path, fault.Path)
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
			w.fault(path, CodeType, "null is not a value here: leave the field out")
		} else if err := json.Unmarshal(raw, &text); err != nil {
			w.fault(path, CodeType, "must be a string, not %s", kindOf(raw))
		} else if err := reflect.New(typ).Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(text)); err != nil {
			w.foreign(path, err)
		}
		return
	}
	switch typ.Kind() {
	case reflect.Interface:
		// Whatever the host put into an open field is the host's.
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
		if typ.Elem().Kind() == reflect.Uint8 {
			w.scalar(path, raw, typ, "a string in base64")
			return
		}
		var items []json.RawMessage
		if kindOf(raw) != "a list" || json.Unmarshal(raw, &items) != nil {
			w.fault(path, CodeType, "must be a list, not %s", kindOf(raw))
			return
		}
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

// whole mentions the bits to whom they matter, the author of too large a number.
func (w *walk) whole(path string, raw json.RawMessage, typ reflect.Type, want string, bits int) {
	if kindOf(raw) == "a number" && !bytes.ContainsAny(raw, ".eE") {
		w.scalar(path, raw, typ, fmt.Sprintf("%s of at most %d bits", want, bits))
	} else {
		w.scalar(path, raw, typ, strings.TrimSuffix(want, ","))
	}
}

// scalar leaves the decision to encoding/json, so that the two never disagree, and the wording to the caller.
func (w *walk) scalar(path string, raw json.RawMessage, typ reflect.Type, want string) {
	if string(raw) == "null" {
		w.fault(path, CodeType, "null is not a value here: leave the field out")
	} else if json.Unmarshal(raw, reflect.New(typ).Interface()) != nil {
		got := kindOf(raw)
		if got == "a number" {
			got = string(raw)
		}
		w.fault(path, CodeType, "must be %s, not %s%s", want, got, instead(path, raw, typ))
	}
}

// instead says what to write for a value of the wrong type where that is plain: what stands in quotes without them, or the other way round, a whole
// number without its fraction, and a duration in the unit that the name of its field ends with.
func instead(path string, raw json.RawMessage, typ reflect.Type) string {
	fits := func(text string) bool { return json.Unmarshal([]byte(text), reflect.New(typ).Interface()) == nil }
	if kind := kindOf(raw); typ.Kind() == reflect.String {
		if kind == "a number" || kind == "a boolean" {
			return ": put it in quotes"
		}
		return ""
	} else if kind == "a number" {
		if n, err := strconv.ParseFloat(string(raw), 64); err == nil && n == math.Trunc(n) && math.Abs(n) < 1<<53 {
			if text := strconv.FormatFloat(n, 'f', 0, 64); fits(text) {
				return ": write " + text
			}
		}
		return ""
	}
	var text string
	if json.Unmarshal(raw, &text) != nil {
		return ""
	}
	if fits(text) && text != "null" {
		return ": leave the quotes out"
	}
	duration, err := time.ParseDuration(text)
	for suffix, unit := range map[string]time.Duration{"Seconds": time.Second, "Minutes": time.Minute, "Hours": time.Hour} {
		if n := strconv.FormatInt(int64(duration/unit), 10); err == nil && strings.HasSuffix(path, suffix) && duration%unit == 0 && fits(n) {
			return ": write " + n
		}
	}
	return ""
}

// instant says in words what the error of [time.Time.UnmarshalJSON] says in a layout of package time. A null is absent to both.
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
	if kindOf(raw) != "an object" {
		w.fault(path, CodeType, "must be an object, not %s", kindOf(raw))
		return
	}
	fields := fieldsOf(typ)
	w.members(path, raw, func(at, name string, value json.RawMessage) {
		if field, ok := fields[name]; ok {
			w.around = append(w.around, scope{fields, name})
			w.value(at, value, field)
			w.around = w.around[:len(w.around)-1]
			return
		}
		w.fault(at, CodeUnknownField, "unknown field%s", w.remedy(name, fields))
	})
}

// remedy says where a field belongs that the struct does not have: into a struct around it or just inside it, as when the indentation of YAML
// is wrong, or that it is mistyped.
func (w *walk) remedy(name string, fields map[string]reflect.Type) string {
	for _, s := range slices.Backward(w.around) {
		if _, ok := s.fields[name]; ok {
			return fmt.Sprintf("; it stands beside %q", s.inside)
		}
	}
	var inside []string
	for field, typ := range fields {
		if typ.Kind() == reflect.Pointer {
			typ = typ.Elem()
		}
		if typ.Kind() == reflect.Struct {
			if _, ok := fieldsOf(typ)[name]; ok {
				inside = append(inside, field)
			}
		}
	}
	if len(inside) == 1 {
		return fmt.Sprintf("; did you mean %q?", inside[0]+"."+name)
	}
	if near := nearest(name, fields); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	return ""
}

func (w *walk) dictionary(path string, raw json.RawMessage, typ reflect.Type) {
	if kindOf(raw) != "an object" {
		w.fault(path, CodeType, "must be an object, not %s", kindOf(raw))
		return
	}
	w.members(path, raw, func(at, name string, value json.RawMessage) {
		// A key type with a decoder of its own, or a numeric one, may refuse a name; encoding/json knows the rules.
		quoted, _ := json.Marshal(map[string]bool{name: true})
		keys := reflect.New(reflect.MapOf(typ.Key(), reflect.TypeFor[bool]()))
		if err := json.Unmarshal(quoted, keys.Interface()); err != nil {
			w.fault(at, CodeType, "%q is not a valid key: %v", name, err)
		}
		w.value(at, value, typ.Elem())
	})
}

// members calls visit for each member of an object, in document order, once per name.
func (w *walk) members(path string, raw json.RawMessage, visit func(at, name string, value json.RawMessage)) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if _, err := dec.Token(); err != nil {
		w.fault(path, CodeType, "%v", err)
		return
	}
	seen := map[string]bool{}
	for dec.More() {
		token, err := dec.Token()
		name, ok := token.(string)
		var value json.RawMessage
		if err == nil && ok {
			err = dec.Decode(&value)
		}
		if err != nil || !ok {
			w.fault(path, CodeType, "unreadable member: %v", err)
			return
		}
		at := Path(path, segment(name))
		if seen[name] {
			w.fault(at, CodeDuplicate, "given twice")
			continue
		}
		seen[name] = true
		visit(at, name, value)
	}
}

// segment is a name as one step of a path: plain if it can be read so, else quoted in brackets.
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

func kindOf(raw json.RawMessage) string {
	switch {
	case len(raw) == 0:
		return "nothing"
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

// fieldsOf lists the JSON names of a struct, those of embedded structs included; an outer field hides an inner one.
func fieldsOf(typ reflect.Type) map[string]reflect.Type {
	fields := map[string]reflect.Type{}
	var inner []reflect.Type
	for i := range typ.NumField() {
		field := typ.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch embedded := field.Type; {
		case field.Tag.Get("json") == "-":
		case field.Anonymous && name == "":
			if embedded.Kind() == reflect.Pointer {
				embedded = embedded.Elem()
			}
			if embedded.Kind() == reflect.Struct {
				inner = append(inner, embedded)
			}
		case field.IsExported():
			fields[cmp.Or(name, field.Name)] = field.Type
		}
	}
	for _, embedded := range inner {
		for name, typ := range fieldsOf(embedded) {
			if _, hidden := fields[name]; !hidden {
				fields[name] = typ
			}
		}
	}
	return fields
}

// nearest is the known name that a mistyped one probably stands for, or empty: the only one that begins with it, or else the one with the fewest
// edits, at most a third of its length.
func nearest(name string, fields map[string]reflect.Type) string {
	known := make([]string, 0, len(fields))
	for field := range fields {
		known = append(known, field)
	}
	slices.Sort(known)
	longer := func(field string) bool { return strings.HasPrefix(strings.ToLower(field), strings.ToLower(name)) }
	if at := slices.IndexFunc(known, longer); at >= 0 && len(name) > 2 && !slices.ContainsFunc(known[at+1:], longer) {
		return known[at]
	}
	best, bestEdits := "", len(name)/3+1
	for _, field := range known {
		if edits := Distance(strings.ToLower(name), strings.ToLower(field)); edits < bestEdits {
			best, bestEdits = field, edits
		}
	}
	return best
}

// Distance is the number of bytes to insert, delete or replace, or of neighbours to exchange, to make one text of the other. No byte is changed twice.
func Distance(a, b string) int {
	before, last := make([]int, len(b)+1), make([]int, len(b)+1) // the rows of the two bytes of a before
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row := make([]int, len(b)+1)
		row[0] = i + 1
		for j := range len(b) {
			cost := last[j]
			if a[i] != b[j] {
				cost++
			}
			row[j+1] = min(cost, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
