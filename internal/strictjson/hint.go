package strictjson

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// slip says what to do about the usual reasons for a syntax error: what JavaScript, Python, YAML
// and editors allow and JSON does not.
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
		return "; a document begins with { or [: convert YAML to JSON first"
	case rest[0] == '\'' || strings.HasPrefix(rest, "“") || letter(rest[0]):
		return "; names and texts stand in double quotes"
	case strings.ContainsRune("}]", rune(before[len(before)-1])) && strings.ContainsRune("{[\"", rune(rest[0])):
		return "; a comma is missing before it"
	}
	return ""
}

// instead says what to write for a value of the wrong type if that is clear: a quoted value without
// quotes, or the other way round; a whole number without its fraction; a duration in the unit of
// its field; or a text that a neighbouring field takes: "20%" is no limitValue, but a limit.
func (w *walk) instead(path string, raw json.RawMessage, typ reflect.Type) string {
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
	if _, unit := w.unit(path); unit > 0 {
		if n, ok := Whole(raw, unit); ok && fits(strconv.FormatInt(n, 10)) {
			return ": write " + strconv.FormatInt(n, 10)
		}
	}
	return w.neighbour(path, raw)
}

// neighbour names the field that takes the text as a whole and stands beside the fields of its
// parts: limit beside limitType and limitValue.
func (w *walk) neighbour(path string, raw json.RawMessage) string {
	s := w.scope(path)
	for i := range len(s.inside) {
		typ, known := s.fields[s.inside[:i]]
		if !known || !decodes(typ) || json.Unmarshal(raw, reflect.New(typ).Interface()) != nil {
			continue
		}
		var parts []string
		for name := range s.fields {
			if strings.HasPrefix(name, s.inside[:i]) && len(name) > i {
				parts = append(parts, name)
			}
		}
		slices.Sort(parts)
		return fmt.Sprintf(": write %q: %s instead of %s", s.inside[:i], raw, strings.Join(parts, " and "))
	}
	return ""
}

// scope returns the struct of which the path is a field, or the zero scope if it is no field.
func (w *walk) scope(path string) scope {
	if n := len(w.around); n > 0 && strings.HasSuffix("."+path, "."+w.around[n-1].inside) {
		return w.around[n-1]
	}
	return scope{}
}

// unit returns the unit of a field that holds a duration as a number: the name of the field ends
// with it, or the tag unit of the field names it.
func (w *walk) unit(path string) (name string, length time.Duration) {
	s := w.scope(path)
	if s.typ == nil {
		return "", 0 // an entry of a list or map
	}
	tag := tagOf(s.typ, s.inside, "unit")
	for _, unit := range [...]struct {
		name, suffix string
		length       time.Duration
	}{{"seconds", "Seconds", time.Second}, {"minutes", "Minutes", time.Minute}, {"hours", "Hours", time.Hour}} {
		if tag == unit.name || strings.HasSuffix(s.inside, unit.suffix) {
			return unit.name, unit.length
		}
	}
	return "", 0
}

// Whole reads a duration in quotes, such as "5m", as a whole number of a unit.
func Whole(raw json.RawMessage, unit time.Duration) (n int64, ok bool) {
	var text string
	if json.Unmarshal(raw, &text) != nil {
		return 0, false
	}
	duration, err := time.ParseDuration(text)
	return int64(duration / unit), err == nil && duration%unit == 0
}

// remedy says where an unknown field of a struct belongs: into a struct around it or just inside
// it, as when the indentation of YAML is wrong; or else that it is mistyped. meant are the fields
// that it may stand for, whether the document has them or not.
func (w *walk) remedy(path, name string, fields map[string]reflect.Type) (hint string, meant []string) {
	for _, s := range slices.Backward(w.around) {
		if _, ok := s.fields[name]; ok {
			return fmt.Sprintf("; it stands beside %q", s.inside), []string{Path(s.path, name)}
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
		return fmt.Sprintf("; did you mean %q?", inside[0]+"."+name), []string{Path(path, inside[0]), Path(path, inside[0]+"."+name)}
	}
	if near := nearest(name, fields); near != "" {
		return fmt.Sprintf("; did you mean %q?", near), []string{Path(path, near)}
	}
	return "", nil
}

// nearest returns the known name that a mistyped one probably stands for, or "": the one that it is
// the plural of, or else the only one that begins with it, or else one that differs in its unit of
// time alone, or else the one with the fewest edits, at most a third of its length.
func nearest(name string, fields map[string]reflect.Type) string {
	known := slices.Sorted(maps.Keys(fields))
	for _, field := range known {
		if strings.EqualFold(name, field+"s") {
			return field // groups is no abbreviation of groupSelector
		}
	}
	longer := func(field string) bool { return strings.HasPrefix(strings.ToLower(field), strings.ToLower(name)) }
	if at := slices.IndexFunc(known, longer); at >= 0 && len(name) > 2 && !slices.ContainsFunc(known[at+1:], longer) {
		return known[at]
	}
	if stem, timed := untimed(name); timed {
		for _, field := range known {
			if own, also := untimed(field); also && own == stem {
				return field
			}
		}
	}
	best, bestEdits := "", len(name)/3+1
	for _, field := range known {
		if longer := len(field) - len(name); max(longer, -longer) >= bestEdits {
			continue // it takes as many edits at least, and a name may be as long as a whole document
		}
		if edits := Distance(strings.ToLower(name), strings.ToLower(field)); edits < bestEdits {
			best, bestEdits = field, edits
		}
	}
	return best
}

// untimed returns a name without the unit of time that it ends with.
func untimed(name string) (stem string, timed bool) {
	for _, suffix := range [...]string{"Milliseconds", "Millis", "Ms", "Seconds", "Secs", "Sec", "Minutes", "Mins", "Min", "Hours", "Days", "Weeks"} {
		if stem, timed = strings.CutSuffix(name, suffix); timed && stem != "" {
			return stem, true
		}
	}
	return name, false
}

// Distance returns how many edits turn one text into the other. An edit inserts, deletes or
// replaces a byte, or exchanges two neighbours. No byte is changed twice.
func Distance(a, b string) int {
	before, last := make([]int, len(b)+1), make([]int, len(b)+1) // the rows of the two previous bytes of a
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
