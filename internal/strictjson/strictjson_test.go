package strictjson_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/internal/strictjson"
)

type colour string

var errColour = errors.New("no such colour")

func (c *colour) UnmarshalText(text []byte) error {
	if string(text) != "red" {
		return fmt.Errorf("%w: %q", errColour, text)
	}
	*c = "red"
	return nil
}

// mark is a byte with a text: encoding/json takes a list of texts for a []mark, and base64 as well.
type mark byte

func (m *mark) UnmarshalText(text []byte) error {
	if len(text) != 1 {
		return fmt.Errorf("no mark: %q", text)
	}
	*m = mark(text[0])
	return nil
}

type nested struct {
	Inner rule
}

// UnmarshalJSON decodes an object of one rule through the package again, as a type with defaults of
// its own does.
func (n *nested) UnmarshalJSON(data []byte) error { return strictjson.Unmarshal(data, &n.Inner) }

type common struct {
	ID string `json:"id,omitempty"`
}

type rule struct {
	common
	Limit   int32             `json:"limitValue"`
	Share   uint8             `json:"share"`
	Ratio   float64           `json:"ratio"`
	On      bool              `json:"enabled"`
	At      time.Time         `json:"at,omitzero"`
	Colour  colour            `json:"colour"`
	Labels  map[string]string `json:"labels"`
	Parts   []part            `json:"parts"`
	Pair    [2]int            `json:"pair"`
	Next    *rule             `json:"next"`
	Nested  *nested           `json:"nested"`
	Any     any               `json:"any"`
	Bytes   []byte            `json:"bytes"`
	Marks   []mark            `json:"marks"`
	Count   map[int]bool      `json:"count"`
	Skipped string            `json:"-"`
	Extra   *extra            `json:"extra"`
	Seconds int               `json:"waitSeconds"`
	Minutes int               `json:"waitMinutes"`
	Hours   int               `json:"waitHours"`
	Sleep   uint              `json:"sleepSeconds"`
	Pace    int               `json:"pace" unit:"minutes"`
	Delay   int64             `json:"delay"`
	Quota   quota             `json:"quota"`
	Kind    string            `json:"quotaType"`
	Value   *int              `json:"quotaValue"`
	Plain   string
}

// quota is a text that ends in a percent sign.
type quota string

func (q *quota) UnmarshalText(text []byte) error {
	if !strings.HasSuffix(string(text), "%") {
		return fmt.Errorf("no quota: %q", text)
	}
	*q = quota(text)
	return nil
}

type extra struct {
	Seed int `json:"seed"`
}

type part struct {
	Name string `json:"name"`
}

func TestFaults(t *testing.T) {
	for _, row := range []struct {
		in   string
		want []string
		why  string
	}{
		{`{"id":"a","limitValue":-3,"enabled":true,"at":"2026-03-10T09:00:00Z","colour":"red","labels":{"a/b":"c"},"parts":[{"name":"p"}],"pair":[1,2],"next":{"limitValue":1},"nested":{"share":1},"any":{"x":1,"x":2},"bytes":"AAE=","marks":["x"],"count":{"1":true},"Plain":"p","ratio":1.5}`, nil, "every kind of field is decoded"},
		{`{"next":null,"labels":null,"parts":null,"any":null,"nested":null}`, nil, "null is the absence of what can be absent"},
		{`{"limitvalue":1}`, []string{`limitvalue: unknown field; did you mean "limitValue"?`}, "names match by case"},
		{`{"zzzzzz":1}`, []string{`zzzzzz: unknown field`}, "no hint where nothing is near"},
		{`{"limitValue":1,"limitValue":2}`, []string{`limitValue: given twice`}, "the last one would win silently"},
		{`{"labels":{"a":"b","a":"c"}}`, []string{`labels.a: given twice`}, "also in a map"},
		{`{"limitValue":4294967296}`, []string{`limitValue: must be a whole number of at most 31 bits, not 4294967296`}, "overflow"},
		{`{"limitValue":1.5}`, []string{`limitValue: must be a whole number, not 1.5`}, "fraction"},
		{`{"share":-1}`, []string{`share: must be a whole number, not negative, of at most 8 bits, not -1`}, "negative for unsigned"},
		{`{"limitValue":"1"}`, []string{`limitValue: must be a whole number, not a string: leave the quotes out`}, "text for a number"},
		{`{"limitValue":"\t1"}`, []string{`limitValue: must be a whole number, not a string: leave the quotes out`}, "white space in the quotes, which JSON allows around a number"},
		{`{"pair":["1",2]}`, []string{`pair[0]: must be a whole number, not a string: leave the quotes out`}, "an element is no field, and has no unit"},
		{`{"limitValue":"null","ratio":"half","enabled":"no"}`, []string{`limitValue: must be a whole number, not a string`, `ratio: must be a number, not a string`, `enabled: must be true or false, not a string`}, "texts that are no better without quotes"},
		{`{"enabled":"false","ratio":"0.5"}`, []string{`enabled: must be true or false, not a string: leave the quotes out`, `ratio: must be a number, not a string: leave the quotes out`}, "a truth value and a number in quotes"},
		{`{"limitValue":300.0,"share":3e2}`, []string{`limitValue: must be a whole number, not 300.0: write 300`, `share: must be a whole number, not negative, not 3e2`}, "a whole number with a fraction, and one that does not fit either"},
		{`{"id":7,"Plain":true}`, []string{`id: must be a string, not 7: put it in quotes`, `Plain: must be a string, not a boolean: put it in quotes`}, "scalars for a text"},
		{`{"waitSeconds":"5m","waitHours":"90m","waitMinutes":"1h30m"}`, []string{`waitSeconds: must be a whole number of seconds, not a string: write 300`, `waitHours: must be a whole number of hours, not a string`, `waitMinutes: must be a whole number of minutes, not a string: write 90`}, "durations, in the unit of the field"},
		{`{"pace":"1h","sleepSeconds":-1.5,"delay":"1h"}`, []string{`pace: must be a whole number of minutes, not a string: write 60`, `sleepSeconds: must be a whole number of seconds, not negative, not -1.5`, `delay: must be a whole number, not a string`}, "the unit may be a tag, and no field has one by chance"},
		{`{"quotaValue":"20%"}`, []string{`quotaValue: must be a whole number, not a string: write "quota": "20%" instead of quotaType and quotaValue`}, "a neighbour takes it"},
		{`{"quotaValue":"many"}`, []string{`quotaValue: must be a whole number, not a string`}, "no neighbour takes it"},
		{`{"waitDays":1,"sleepMs":5,"restSeconds":1}`, []string{`waitDays: unknown field; did you mean "waitHours"?`, `sleepMs: unknown field; did you mean "sleepSeconds"?`, `restSeconds: unknown field; did you mean "waitSeconds"?`}, "known in another unit, or nearly so"},
		{`{"colo":"red","lmit":1,"waitSec":1}`, []string{`colo: unknown field; did you mean "colour"?`, `lmit: unknown field`, `waitSec: unknown field; did you mean "waitSeconds"?`}, "the beginning of one name"},
		{`{"wait":1,"co":1}`, []string{`wait: unknown field`, `co: unknown field`}, "the beginning of several, and one that is too short to say"},
		{`{"nxet":{}}`, []string{`nxet: unknown field; did you mean "next"?`}, "two letters exchanged"},
		{`{"enabled":null}`, []string{`enabled: null is not a value here: write one, or leave it out`}, "encoding/json would ignore it"},
		{`{"colour":null}`, []string{`colour: null is not a value here: write one, or leave it out`}, "nor does a text type see null"},
		{`{"labels":{"canary":null},"id":null}`, []string{`labels.canary: null is not a value here: write "" for an empty string, or leave it out`,
			`id: null is not a value here: write one, or leave it out`}, "a label without a value in YAML: leaving it out may select more"},
		{`{"colour":"blue"}`, []string{`colour: no such colour: "blue"`}, "a type's own error gets the path"},
		{`{"colour":1}`, []string{`colour: must be a string, not a number`}, "a text type takes strings"},
		{`{"at":"yesterday"}`, []string{`at: "yesterday": must be an instant of RFC 3339 with its offset, such as 2026-01-31T09:00:00Z or 2026-01-31T10:00:00+01:00`}, "what package time says is a layout and no remedy"},
		{`{"at":"2026-01-31"}`, []string{`at: "2026-01-31": must be an instant of RFC 3339…`}, "a date is no instant"},
		{`{"at":"2026-02-30T00:00:00Z"}`, []string{`at: "2026-02-30T00:00:00Z": must be an instant of RFC 3339 with its offset, such as 2026-01-31T09:00:00Z or 2026-01-31T10:00:00+01:00: day out of range`}, "no such day"},
		{`{"at":1767225600}`, []string{`at: must be an instant of RFC 3339 with its offset, such as 2026-01-31T09:00:00Z or 2026-01-31T10:00:00+01:00, not a number`}, "seconds since 1970"},
		{`{"at":null}`, nil, "an absent instant"},
		{`{"name":"p"}`, []string{`name: unknown field`}, "a field inside a list has no one place"},
		{`{"parts":[{"name":"p","limitValue":1}]}`, []string{`parts[0].limitValue: unknown field; it stands beside "parts"`}, "written one level too deep"},
		{`{"next":{"next":{"seed":1}},"seed":1}`, []string{`next.next.seed: unknown field; did you mean "extra.seed"?`, `seed: unknown field; did you mean "extra.seed"?`}, "written one level too high"},
		{`{"extra":{"parts":[],"plain":""}}`, []string{`extra.parts: unknown field; it stands beside "extra"`, `extra.plain: unknown field`}, "beside the struct that it was put into; names match by case"},
		{`{"parts":[{"name":"a"},{"nam":"b"},3]}`, []string{`parts[1].nam: unknown field; did you mean "name"?`, `parts[2]: must be an object, not a number`}, "all faults, with their index"},
		{`{"parts":[null],"pair":null}`, []string{`parts[0]: must be an object, not null`, `pair: must be a list, not null`}, "nor are a struct and an array ever absent"},
		{`null`, []string{`must be an object, not null`}, "nor is the document"},
		{`{"parts":{}}`, []string{`parts: must be a list, not an object`}, "object for a list"},
		{`{"labels":[]}`, []string{`labels: must be an object, not a list`}, "list for a map"},
		{`{"labels":{"a/b":1}}`, []string{`labels["a/b"]: must be a string, not 1: put it in quotes`}, "odd names are quoted in a path"},
		{`{"":1}`, []string{`[""]: unknown field`}, "an empty name is still a name"},
		{`{"count":{"x":true}}`, []string{`count.x: "x" is not a valid key: json: cannot…`}, "numeric keys"},
		{`{"pair":[1,2,3]}`, []string{`pair: must have 2 entries, not 3`}, "arrays have a length"},
		{`{"next":{"next":{"share":256}}}`, []string{`next.next.share: must be a whole number, not negative, of at most 8 bits, not 256`}, "recursive types"},
		{`{"nested":{"share":true,"parts":[1]}}`, []string{`nested.share: must be a whole number, not negative, not a boolean`, `nested.parts[0]: must be an object, not a number`}, "paths continue inside a type that decodes itself with this package"},
		{`{"bytes":"%"}`, []string{`bytes: must be a string in base64, not a string`}, "bytes"},
		{`{"marks":"AAE="}`, []string{`marks: must be a list, not a string`}, "texts in one, which would be read as base64"},
		{`{"marks":["x","xx",null]}`, []string{`marks[1]: no mark: "xx"`, `marks[2]: null is not a value here: write one, or leave it out`}, "bytes that decode themselves, with their index"},
		{`{"common":{"id":"x"}}`, []string{`common: unknown field`}, "an embedded struct has no name of its own"},
		{`{"Skipped":"x","-":"y"}`, []string{`Skipped: unknown field`, `-: unknown field`}, "fields hidden from JSON"},
		{`[]`, []string{`must be an object, not a list`}, "the document itself"},
		{`{} {}`, []string{`line 1, column 4: one document is expected, more text follows`}, "trailing data"},
		{`{"id":"a",}`, []string{`line 1, column 11: invalid character '}' looking for beginning of object key string; leave out the comma before it`}, "a comma too many"},
		{`{"parts":[{"name":"a"}, ]}`, []string{`line 1, column 25: invalid character ']' looking for beginning of value; leave out the comma before it`}, "in a list"},
		{"{\"id\":\"a\" // who\n}", []string{`line 1, column 11: invalid character '/' after object key:value pair; JSON has no comments`}, "a comment"},
		{"# who\n{}", []string{`line 1, column 1: invalid character '#' looking for beginning of value; JSON has no comments`}, "a comment of YAML"},
		{`{"enabled":True}`, []string{`line 1, column 12: invalid character 'T' looking for beginning of value; write true, false or null`}, "as in Python"},
		{`{'id':"a"}`, []string{`line 1, column 2: invalid character '\'' looking for beginning of object key string; names and texts stand in double quotes`}, "single quotes"},
		{`{id:"a"}`, []string{`line 1, column 2: invalid character 'i' looking for beginning of object key string; names and texts stand in double quotes`}, "no quotes"},
		{`{"id":node}`, []string{`line 1, column 8: invalid character 'o' in literal null (expecting 'u'); names and texts stand in double quotes`}, "a word that begins like another one"},
		{"id: a\n", []string{`line 1, column 1: invalid character 'i' looking for beginning of value; a document begins with { or [: convert YAML to JSON first`}, "YAML"},
		{"name: a\n", []string{`line 1, column 2: invalid character 'a' in literal null (expecting 'u'); a document begins with { or [: convert YAML to JSON first`}, "YAML that begins like a word of JSON"},
		{`{"parts":[{"name":"a"} {"name":"b"}]}`, []string{`line 1, column 24: invalid character '{' after array element; a comma is missing before it`}, "no comma"},
		{"\xef\xbb\xbf{}", []string{"line 1, column 1: invalid character 'ï' looking for beginning of value; it begins with a byte order mark: save it without one"}, "what some editors write first"},
		{"{\"id\":\"é\",\n\"Plain\":\"\xffx\"}", []string{"line 2, column 10: not UTF-8, in which JSON is written"}, "encoding/json would replace the byte"},
		{`{"id":"a\ud800"}`, []string{`line 1, column 9: \ud800 is half of a character: write both halves, or the character itself`}, "half of a surrogate pair is no character: all of them would become the same one"},
		{"{\n\"id\":\"\\uDFFFa\"}", []string{`line 2, column 7: \uDFFF is half of a character: write both halves, or the character itself`}, "nor is the other half"},
		{`{"id":"\ud83d\u0041"}`, []string{`line 1, column 8: \ud83d is half of a character: write both halves, or the character itself`}, "nor one before another character"},
		{`{"id":"\udca9\ud83d"}`, []string{`line 1, column 8: \udca9 is half of a character: write both halves, or the character itself`}, "nor both in the wrong order"},
		{`{"labels":{"\ud83d\ud83d\udca9":"x"}}`, []string{`line 1, column 13: \ud83d is half of a character: write both halves, or the character itself`}, "nor in a name; and a whole one behind it does not help"},
		{`{"any":["\ud83d"]}`, []string{`line 1, column 10: \ud83d is half of a character: write both halves, or the character itself`}, "nor in a field that is open"},
		{`{"id":"\ud83dxuDCA9"}`, []string{`line 1, column 8: \ud83d is half of a character: write both halves, or the character itself`}, "nor one before a text that is like an escape but for its backslash"},
		{`{"id":"\ud83d\nDCA9"}`, []string{`line 1, column 8: \ud83d is half of a character: write both halves, or the character itself`}, "nor one before an escape of another kind"},
		{`{"id":"\n\ud83d"}`, []string{`line 1, column 10: \ud83d is half of a character: write both halves, or the character itself`}, "nor one right behind another escape"},
		{`"\ud83d"`, []string{`line 1, column 2: \ud83d is half of a character: write both halves, or the character itself`}, "nor one at the end of a document that is a text"},
		{`{"id":"\ud83d\uDCA9\udca9"}`, []string{`line 1, column 20: \udca9 is half of a character: write both halves, or the character itself`}, "nor one right behind a whole one"},
		{`{"id":"\nd83d\td83d"}`, nil, "escapes of another kind, before digits"},
		{`{"id":"\ud83d\uDCA9\ufffd\\ud800\\\\ud800"}`, nil, "whole pairs, the replacement character as an escape, and backslashes that are text"},
		{"{\"id\":\"\ufffd\"}", nil, "the replacement character itself is one like any other"},
		{`{"id":nz}`, []string{`line 1, column 8: invalid character 'z' in literal null (expecting 'u'); names and texts stand in double quotes`}, "the last letter"},
		{`{"id":nA}`, []string{`line 1, column 8: invalid character 'A' in literal null (expecting 'u'); names and texts stand in double quotes`}, "the first capital"},
		{`{"id":nZ}`, []string{`line 1, column 8: invalid character 'Z' in literal null (expecting 'u'); names and texts stand in double quotes`}, "the last capital"},
		{"\xff", []string{"line 1, column 1: not UTF-8, in which JSON is written"}, "not even the first byte"},
		{`{"delay":9007199254740991.0}`, []string{`delay: must be a whole number, not 9007199254740991.0: write 9007199254740991`}, "the greatest number that is sure to be what was written"},
		{`{"delay":9007199254740992.0}`, []string{`delay: must be a whole number, not 9007199254740992.0`}, "the least that may stand for another"},
		{`{"Pla":1}`, []string{`Pla: unknown field; did you mean "Plain"?`}, "the beginning of the first name"},
		{`{"Pl":1}`, []string{`Pl: unknown field`}, "two letters are too short to say"},
		{`{"labels":{"azAZ_-09":1}}`, []string{`labels.azAZ_-09: must be a string, not 1: put it in quotes`}, "a name that a path can have as it is"},
		{`{"labels":{"0":1}}`, []string{`labels["0"]: must be a string, not 1: put it in quotes`}, "a digit at the front would look like an index"},
		{"{\n \"id\": x}", []string{`line 2, column 8: invalid character 'x' looking for beginning of value; names and texts stand in double quotes`}, "position of a syntax error"},
		{`{"id":`, []string{`line 1, column 7: unexpected EOF`}, "cut off"},
		{" ", []string{`the document is empty`}, "nothing at all"},
	} {
		var got rule
		err := strictjson.Unmarshal([]byte(row.in), &got)
		var lines []string
		if err != nil {
			lines = strings.Split(err.Error(), "\n")
			if !reflect.DeepEqual(got, rule{}) {
				t.Errorf("%s: %s: the value was touched: %+v", row.why, row.in, got)
			}
		}
		if len(lines) != len(row.want) {
			t.Errorf("%s: %s: got %q, want %q", row.why, row.in, lines, row.want)
			continue
		}
		for i, want := range row.want {
			if begins, open := strings.CutSuffix(want, "…"); lines[i] != want && !(open && strings.HasPrefix(lines[i], begins)) {
				t.Errorf("%s: %s: fault %d is %q, want %q", row.why, row.in, i, lines[i], want)
			}
		}
	}
}

func TestErrorKeepsItsCause(t *testing.T) {
	err := strictjson.Unmarshal([]byte(`{"parts":[{"name":1}],"colour":"blue"}`), new(rule))
	if !errors.Is(err, errColour) {
		t.Errorf("errors.Is(%v, errColour) = false", err)
	}
	var fault *strictjson.Error
	if !errors.As(err, &fault) || fault.Path != "parts[0].name" {
		t.Errorf("first fault = %+v, want the one at parts[0].name", fault)
	}
}

// TestOuterFieldHidesInner: of two fields of one name, encoding/json fills the outer one, and so
// its type counts.
func TestOuterFieldHidesInner(t *testing.T) {
	var dst struct {
		common
		ID int `json:"id"`
	}
	if err := strictjson.Unmarshal([]byte(`{"id":7}`), &dst); err != nil || dst.ID != 7 {
		t.Errorf("%+v, %v", dst, err)
	}
	if err := strictjson.Unmarshal([]byte(`{"id":"a"}`), &dst); err == nil || dst.ID != 7 {
		t.Errorf("%+v, %v", dst, err)
	}
}

// coded has the fields of a FieldError, and may lack what it says.
type coded struct{ Path, Code, Value, Hint string }

func (c *coded) Error() string { return "as " + c.Code }

func TestFaultsOfOthers(t *testing.T) {
	if faults := strictjson.Faults(nil); faults != nil {
		t.Errorf("%v of no error", faults)
	}
	for _, row := range []struct {
		err  error
		want strictjson.Error
		why  string
	}{
		{&coded{"a.b", "odd", "5", "must be even"}, strictjson.Error{Path: "a.b", Code: "odd", Value: "5", Hint: "must be even"}, "a FieldError is read by the names of its fields"},
		{&coded{Path: "a", Code: "odd"}, strictjson.Error{Code: strictjson.CodeType, Hint: "as odd"}, "without a hint it is none"},
		{&coded{Path: "a", Hint: "must be even"}, strictjson.Error{Code: strictjson.CodeType, Hint: "as "}, "nor without a code"},
		{errColour, strictjson.Error{Code: strictjson.CodeType, Hint: "no such colour"}, "an error of another kind"},
	} {
		faults := strictjson.Faults(errors.Join(row.err))
		row.want.Err = row.err
		if len(faults) != 1 || !reflect.DeepEqual(faults[0], row.want) {
			t.Errorf("%s: got %+v", row.why, faults)
		}
	}
}

// TestMeant: a field that there is not says which ones it may stand for, those that are there
// excepted; first of all any field of its object.
func TestMeant(t *testing.T) {
	for _, row := range []struct {
		why, in string
		want    []string
	}{
		{"nobody knows it", `{"qqqqq":1}`, []string{"*"}},
		{"mistyped", `{"parts":[{"nam":1}]}`, []string{"parts[0].*", "parts[0].name"}},
		{"but not the one that is there, before it or behind", `{"parts":[{"nam":1,"name":"a"},{"name":"b","nam":1}]}`, []string{"parts[0].*", "parts[1].*"}},
		{"one level too deep", `{"parts":[{"limitValue":1}]}`, []string{"parts[0].*", "limitValue"}},
		{"unless it is there", `{"parts":[{"limitValue":1}],"limitValue":2}`, []string{"parts[0].*"}},
		{"one level too high: what it should be in is not there either", `{"seed":1}`, []string{"*", "extra", "extra.seed"}},
		{"or it is", `{"extra":{},"seed":1}`, []string{"*", "extra.seed"}},
		{"inside a type that decodes by itself", `{"nested":{"shar":1}}`, []string{"nested.*", "nested.share"}},
		{"in an object of an odd name", `{"next":{"a.b":1}}`, []string{"next.*"}},
	} {
		var dst rule
		var got []string
		for _, fault := range strictjson.Faults(strictjson.Unmarshal([]byte(row.in), &dst)) {
			got = append(got, fault.Fields...)
		}
		if !reflect.DeepEqual(got, row.want) {
			t.Errorf("%s: got %q, want %q", row.why, got, row.want)
		}
	}
}

// TestAbout: what a fault depends on is found again where faults are joined, however often, and
// nowhere else.
func TestAbout(t *testing.T) {
	one, two := &coded{"a", "odd", "5", "must be even"}, &coded{"b", "odd", "7", "must be even"}
	err := errors.Join(strictjson.Join(strictjson.About(strictjson.About(one, "x"), "y"), strictjson.About(two)), errColour)
	var got [][]string
	for _, fault := range strictjson.Faults(err) {
		got = append(got, fault.Fields)
	}
	if want := [][]string{{"y", "x"}, nil, nil}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	joined := strictjson.Join(strictjson.About(one, "x"), two)
	if list := joined.(interface{ Unwrap() []error }).Unwrap(); len(list) != 2 || list[0] != error(one) || list[1] != error(two) || joined.Error() != errors.Join(one, two).Error() {
		t.Errorf("callers get %v of %v", list, joined)
	}
	if err := strictjson.Join(); err != nil {
		t.Errorf("no faults are %v", err)
	}
}

// TestJoin: as errors.Join, but with a text that a person can read.
func TestJoin(t *testing.T) {
	faults := func(n int) []error { return slices.Repeat([]error{errColour}, n) }
	text := func(n int) string { return strings.TrimSuffix(strings.Repeat(errColour.Error()+"\n", n), "\n") }
	for _, row := range []struct {
		why   string
		list  []error
		joins int
		want  string
	}{
		{"no fault is no error", []error{nil, nil}, 0, ""},
		{"what is no fault is left out", []error{nil, errColour, nil}, 1, text(1)},
		{"what was joined before is in the same list", []error{strictjson.Join(faults(60)...), nil, strictjson.Join(faults(41)...)}, 101, text(100) + "\nand one more fault"},
		{"a hundred are listed", faults(100), 100, text(100)},
		{"one more is counted", faults(101), 101, text(100) + "\nand one more fault"},
		{"so are all of very many", faults(2100), 2100, text(100) + "\nand 2000 more faults"},
	} {
		err := strictjson.Join(row.list...)
		if row.joins == 0 {
			if err != nil {
				t.Errorf("%s: got %v", row.why, err)
			}
			continue
		}
		if got := strictjson.Parts(err); len(got) != row.joins || !errors.Is(err, errColour) || err.Error() != row.want {
			t.Errorf("%s: %d are joined to %v", row.why, len(got), err)
		}
	}
}

// TestOutsideObjects: what belongs to no object has no neighbours that would take it, and no unit.
func TestOutsideObjects(t *testing.T) {
	if err, want := strictjson.Unmarshal([]byte(`["1m"]`), new([]int)), `[0]: must be a whole number, not a string`; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestDestination(t *testing.T) {
	for _, dst := range []any{nil, rule{}, (*rule)(nil)} {
		if err := strictjson.Unmarshal([]byte(`{}`), dst); err == nil {
			t.Errorf("Unmarshal into %T succeeded", dst)
		}
	}
}

// TestPluralIsNoAbbreviation: a name with an s too many stands for the field without it, although
// another field begins with the same letters.
func TestPluralIsNoAbbreviation(t *testing.T) {
	for in, want := range map[string]string{
		`{"groups":"a"}`: `groups: unknown field; did you mean "group"?`,
		`{"Groups":"a"}`: `Groups: unknown field; did you mean "group"?`,
		`{"groupSel":1}`: `groupSel: unknown field; did you mean "groupSelector"?`,
	} {
		var got struct {
			Group    string `json:"group"`
			Selector string `json:"groupSelector"`
		}
		if err := strictjson.Unmarshal([]byte(in), &got); err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", in, err, want)
		}
	}
}

func TestDistance(t *testing.T) {
	for _, row := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "ab", 2}, {"kitten", "sitting", 3}, {"ab", "ba", 1}, {"nmae", "name", 1}, {"ca", "abc", 3}, {"same", "same", 0}} {
		if got := strictjson.Distance(row.a, row.b); got != row.want {
			t.Errorf("Distance(%q, %q) = %d, want %d", row.a, row.b, got, row.want)
		}
	}
}

// FuzzUnmarshal: whatever is accepted here is accepted by encoding/json with the same result, and
// nothing panics.
func FuzzUnmarshal(f *testing.F) {
	for _, seed := range []string{`{}`, `{"id":"a","parts":[{"name":"p"}],"next":{}}`, `{"limitValue":1e3}`, `{"any":[[]]}`, `{"labels":{"\u0000":"\ud800"}}`, `null`, `{"nested":{"nested":{}}}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var strict, thorough, plain rule
		err := strictjson.Unmarshal(data, &strict)
		if long := strictjson.Thoroughly(data, &thorough); fmt.Sprint(err) != fmt.Sprint(long) || !reflect.DeepEqual(strict, thorough) {
			t.Fatalf("%q: %v and %+v, and looked at thoroughly %v and %+v", data, err, strict, long, thorough)
		}
		if err != nil {
			return
		}
		if err := json.Unmarshal(data, &plain); err != nil {
			t.Fatalf("accepted %q, encoding/json says %v", data, err)
		}
		if !reflect.DeepEqual(strict, plain) {
			t.Fatalf("%q: %+v, encoding/json reads %+v", data, strict, plain)
		}
	})
}

// TestQuickly: what is in order takes the short way, and nothing else does: a document with a
// fault, or that may have one, is looked at thoroughly.
func TestQuickly(t *testing.T) {
	for _, row := range []struct {
		why, text string
		want      bool
	}{
		{"nothing given", `{}`, true},
		{"everything given", `{"id":"a", "limitValue":1,"share":2,"ratio":1.5e3,"enabled":true,"at":"2026-03-10T09:00:00Z","colour":"red","labels":{"a":"b","c":"\"}"},
			"parts":[{"name":"]"},{}],"pair":[1,2],"next":{"next":null},"nested":{"id":"x"},"any":{"a":[1,{"a":null}]},"bytes":"AQ==","marks":["a"],"count":{"1":true},"extra":null,"Plain":"\\"}`, true},
		{"what may be null", `{"at":null,"labels":null,"parts":null,"next":null,"any":null,"bytes":null,"marks":null,"count":null}`, true},
		{"empty lists and objects, and space", " { \"labels\" : { } , \"parts\" : [ ] , \"any\" : [ ] } \n", true},
		{"an unknown field", `{"x":1}`, false},
		{"one of an inner object", `{"parts":[{"x":1}]}`, false},
		{"a name in other letters", `{"ID":"a"}`, false},
		{"a field that is not for JSON", `{"Skipped":"a"}`, false},
		{"a field given twice", `{"id":"a","id":"a"}`, false},
		{"a key given twice", `{"labels":{"a":"b","a":"b"}}`, false},
		{"a name with an escape", `{"\u0069d":"a"}`, false},
		{"a key with an escape, which is another one's twin", `{"labels":{"a":"b","\u0061":"c"}}`, false},
		{"null for a text", `{"id":null}`, false},
		{"null for a number", `{"limitValue":null}`, false},
		{"null for a text with a decoder", `{"colour":null}`, false},
		{"null for an array", `{"pair":null}`, false},
		{"null for an object", `null`, false},
		{"null in a list", `{"parts":[null]}`, false},
		{"too short an array", `{"pair":[1]}`, false},
		{"too long an array", `{"pair":[1,2,3]}`, false},
		{"base64 for a list of texts", `{"marks":"AQ=="}`, false},
		{"a decoder that refuses", `{"colour":"blue"}`, false},
		{"one that refuses inside", `{"nested":{"x":1}}`, false},
		{"not UTF-8", "{\"id\":\"\xff\"}", false},
		{"more text", `{} {}`, false},
		{"half a document", `{"id":`, false},
		{"nothing at all", ``, false},
	} {
		var quick, long rule
		if got := strictjson.Quickly([]byte(row.text), &quick); got != row.want {
			t.Errorf("%s: quickly %v", row.why, got)
		} else if err := strictjson.Thoroughly([]byte(row.text), &long); got && (err != nil || !reflect.DeepEqual(quick, long)) || !got && !reflect.DeepEqual(quick, rule{}) {
			t.Errorf("%s: %+v, thoroughly %+v, %v", row.why, quick, long, err)
		}
	}
	for _, row := range []struct {
		why, text string
		dst       any
		want      bool
	}{
		{"an array of no entries", `{"none":[]}`, new(struct {
			None [0]int `json:"none"`
		}), true},
		{"null for it", `{"none":null}`, new(struct {
			None [0]int `json:"none"`
		}), false},
		{"one entry too many for it", `{"none":[1]}`, new(struct {
			None [0]int `json:"none"`
		}), false},
		{"as many fields as can be told apart", `{"f63":1}`, fields(64), true},
		{"one more", `{"f64":1}`, fields(65), false},
	} {
		if got := strictjson.Quickly([]byte(row.text), row.dst); got != row.want {
			t.Errorf("%s: quickly %v", row.why, got)
		}
	}
}

// TestReplaces: of what was there nothing stays, whichever way a document takes, and everything if
// it has a fault.
func TestReplaces(t *testing.T) {
	for _, row := range []struct {
		why, text string
		want      rule
	}{
		{"beyond doubt", `{"share":1}`, rule{Share: 1}},
		{"looked at thoroughly, for the escape", `{"sh\u0061re":1}`, rule{Share: 1}},
		{"a fault", `{"share":1,"x":2}`, rule{Limit: 3, Labels: map[string]string{"a": "b"}}},
	} {
		for way, decode := range map[string]func([]byte, any) error{"Unmarshal": strictjson.Unmarshal, "thoroughly": strictjson.Thoroughly} {
			given := rule{Limit: 3, Labels: map[string]string{"a": "b"}}
			if err := decode([]byte(row.text), &given); (err != nil) != (row.want.Limit == 3) || !reflect.DeepEqual(given, row.want) {
				t.Errorf("%s, %s: %+v, %v", way, row.why, given, err)
			}
		}
	}
}

// fields is a struct of so many.
func fields(n int) any {
	list := make([]reflect.StructField, n)
	for k := range list {
		list[k] = reflect.StructField{Name: fmt.Sprintf("F%d", k), Type: reflect.TypeFor[int](), Tag: reflect.StructTag(fmt.Sprintf(`json:"f%d"`, k))}
	}
	return reflect.New(reflect.StructOf(list)).Interface()
}

// BenchmarkUnmarshal is a record of a few levels, of which one decodes itself, beside encoding/json
// and the long way.
func BenchmarkUnmarshal(b *testing.B) {
	data := []byte(`{"id":"a","limitValue":1,"at":"2026-03-10T09:00:00Z","labels":{"a":"b"},"parts":[{"name":"p"},{"name":"q"},{"name":"r"}],"next":{"nested":{"id":"x","parts":[{"name":"s"}]}}}`)
	for _, way := range []struct {
		name      string
		unmarshal func([]byte, any) error
	}{{"strict", strictjson.Unmarshal}, {"thoroughly", strictjson.Thoroughly}, {"encoding-json", json.Unmarshal}} {
		b.Run(way.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var r rule
				if err := way.unmarshal(data, &r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func TestChoice(t *testing.T) {
	for _, row := range []struct {
		values []string
		want   string
	}{
		{[]string{"a", "b", "c"}, `"a", "b" or "c"`}, {[]string{"a", "b"}, `"a" or "b"`}, {[]string{"a"}, `"a"`}, {nil, ""},
	} {
		if got := strictjson.Choice(row.values...); got != row.want {
			t.Errorf("%q: got %q, want %q", row.values, got, row.want)
		}
	}
}

// percent has a JSON form of its own, as a limit does.
type percent int

func (p percent) String() string { return strconv.Itoa(int(p)) + "%" }

func (p percent) MarshalJSON() ([]byte, error) {
	switch {
	case p < 0:
		return nil, errors.New("negative")
	case p == 0:
		return []byte("null"), nil
	}
	return strconv.AppendQuote(nil, p.String()), nil
}

// TestValue: a fault shows what its author finds in the document.
func TestValue(t *testing.T) {
	type text string
	for _, row := range []struct {
		value any
		want  string
		why   string
	}{
		{nil, "", "nothing is there"},
		{"a\nb", `"a\nb"`, "a text is in quotes, on one line"},
		{text("a"), `"a"`, "so is the constant of an enum"},
		{5, "5", "a number is not"},
		{percent(20), `"20%"`, "a percentage is in quotes in JSON"},
		{percent(0), "0%", "what is unset is not in the document"},
		{percent(-1), "-1%", "what has no JSON form is shown as it prints"},
	} {
		if got := strictjson.Value(row.value); got != row.want {
			t.Errorf("%v: got %s, want %s: %s", row.value, got, row.want, row.why)
		}
	}
}

func TestText(t *testing.T) {
	for _, row := range []struct {
		parts []string
		want  string
	}{
		{[]string{"a.b", "5", "must be less"}, "a.b: 5: must be less"},
		{[]string{"a.b", "", "is missing"}, "a.b: is missing"},
		{[]string{"", "5", "must be less"}, "5: must be less"},
		{[]string{"", "", "is empty"}, "is empty"},
		{nil, ""},
	} {
		if got := strictjson.Text(row.parts...); got != row.want {
			t.Errorf("%q: got %q, want %q", row.parts, got, row.want)
		}
	}
}

// TestCodesOfFields: a field can have a code of its own for what has another type, also a field of
// a struct that is embedded, and what is inside of it.
func TestCodesOfFields(t *testing.T) {
	type inner struct {
		At   time.Time `json:"at" fault:"time"`
		Days []string  `json:"days" fault:"day"`
	}
	var dst struct {
		inner
		Text string `json:"text"`
	}
	err := strictjson.Unmarshal([]byte(`{"at":"now","days":["mon",2],"text":1}`), &dst)
	var got []string
	for _, fault := range strictjson.Faults(err) {
		got = append(got, fault.Path+" "+fault.Code)
	}
	if want := []string{"at time", "days[1] day", "text type"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestLongNames: a name as long as a document is not compared letter by letter with the fields.
func TestLongNames(t *testing.T) {
	long := []byte(`{"` + strings.Repeat("limitValue", 1000) + `":1}`)
	if n := testing.AllocsPerRun(1, func() { _ = strictjson.Unmarshal(long, new(rule)) }); n > 1000 {
		t.Errorf("%v allocations for the fault of one name", n)
	}
}
