package selector_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tranche-dev/tranche/internal/strictjson"
	"github.com/tranche-dev/tranche/selector"
)

func TestSchemaValidate(t *testing.T) {
	if err := selector.DefaultSchema().Validate(); err != nil {
		t.Fatal(err)
	}
	if err := (selector.Schema{}).Validate(); err == nil || err.Error() != "schema: must declare at least one variable" {
		t.Error(err)
	}
	for _, row := range []struct{ name, want, why string }{
		{"a", "", "a letter"},
		{"_a.B_1", "", "an underscore, digits, two parts"},
		{"a.string", "", "names of types are reserved only in front"},
		{"", `"": must be identifiers`, "no name"},
		{"a.", `"a.": must be identifiers`, "an empty part"},
		{"0a", `"0a": must be identifiers`, "the first digit in front"},
		{"9a", `"9a": must be identifiers`, "the last digit in front"},
		{"a-b", `"a-b": must be identifiers`, "a character that is an operator"},
		{"é", `"é": must be identifiers`, "a letter that CEL does not take"},
		{"__a", `"__a": must be identifiers`, "macros use such names"},
		{"in", `"in": in is a reserved word`, "a keyword"},
		{"a.in", `"a.in": in is a reserved word`, "a keyword, anywhere"},
		{"package", `"package": package is a reserved word`, "a word CEL keeps for later"},
		{"string", `"string": string is a reserved word`, "a type"},
		{"google.a", `"google.a": google is a reserved word`, "where CEL's own types are"},
		{"type", `"type": type is a reserved word`, "a type"},
	} {
		err := selector.Schema{{Name: row.name, Type: selector.String}}.Validate()
		if row.want == "" && err != nil || row.want != "" && (err == nil || !strings.HasPrefix(err.Error(), "schema[0].name: "+row.want)) {
			t.Errorf("%q: %v, want %q: %s", row.name, err, row.want, row.why)
		}
		// What is accepted must be readable.
		if env, envErr := selector.NewEnv(selector.Schema{{Name: row.name, Type: selector.String}}, selector.Limits{}); (envErr == nil) != (err == nil) {
			t.Errorf("%q: %v, %v", row.name, err, envErr)
		} else if err == nil {
			if _, err := env.Compile(row.name + " == 'a'"); err != nil {
				t.Errorf("%q: %v", row.name, err)
			}
		}
	}
	err := selector.Schema{{Name: "a.b"}, {Name: "a.b", Type: selector.Int}, {Name: "a", Type: "dyn"}, {Name: "a.b.c", Type: selector.Bool}}.Validate()
	want := `schema[0].type: "": must be one of string; int; bool; timestamp; list(string); map(string, string)
schema[1].name: "a.b": is declared already, by schema[0]
schema[2].type: "dyn": must be one of string; int; bool; timestamp; list(string); map(string, string)
schema[0].name: "a.b": lies inside the variable "a" of schema[2]
schema[1].name: "a.b": lies inside the variable "a" of schema[2]
schema[3].name: "a.b.c": lies inside the variable "a" of schema[2]
schema[3].name: "a.b.c": lies inside the variable "a.b" of schema[0]`
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

func TestSchemaOnly(t *testing.T) {
	s, err := selector.DefaultSchema().Only("resource", "version.tag")
	if err != nil {
		t.Fatal(err)
	}
	env, err := selector.NewEnv(s, selector.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	want := selector.Schema{{"resource.id", selector.String}, {"resource.identifier", selector.String}, {"resource.kind", selector.String},
		{"resource.metadata", selector.StringMap}, {"resource.name", selector.String}, {"resource.version", selector.String}, {"version.tag", selector.String}}
	if diff := cmp.Diff(want, env.Schema()); diff != "" {
		t.Error(diff)
	}
	if _, err := env.Compile("deployment.name == 'a'"); err == nil {
		t.Error("a restricted schema knows deployments")
	}
	longer := append(selector.DefaultSchema(), selector.Variable{Name: "versions.total", Type: selector.Int}, selector.Variable{Name: "weight", Type: selector.Int})
	if s, err := longer.Only("version", "weight"); err != nil || len(s) != 7 || s[6].Name != "weight" {
		t.Errorf("%v, %v: a name that only begins alike is another one", s, err)
	}
	if _, err := selector.DefaultSchema().Only("resorce", "version", "vers"); err == nil ||
		err.Error() != "names[0]: \"resorce\": no variable has this name or lies below it\nnames[2]: \"vers\": no variable has this name or lies below it" {
		t.Error(err)
	}
}

func TestTypeJSON(t *testing.T) {
	for typ, want := range map[selector.Type]string{selector.String: "string", selector.Int: "int", selector.Bool: "bool", selector.Timestamp: "timestamp",
		selector.StringList: "list(string)", selector.StringMap: "map(string, string)"} {
		text, err := json.Marshal(selector.Variable{Name: "a", Type: typ})
		if err != nil || string(text) != `{"name":"a","type":"`+want+`"}` {
			t.Errorf("%s, %v", text, err)
		}
		var back selector.Variable
		if err := json.Unmarshal(text, &back); err != nil || back.Type != typ {
			t.Errorf("%s: %v, %v", text, back, err)
		}
	}
	typ := selector.Int
	if err := typ.UnmarshalText([]byte("dyn")); err == nil || !strings.Contains(err.Error(), `"dyn": must be one of string; int`) || typ != selector.Int {
		t.Error(err)
	}
}

// TestManyFaults: one mistake that is in each variable of a schema is listed a hundred times
// and then counted. All of them are joined.
func TestManyFaults(t *testing.T) {
	err := make(selector.Schema, 2000).Validate()
	if got := strictjson.Parts(err); len(got) != 5999 {
		t.Fatalf("%d faults are joined", len(got))
	}
	if list := strings.Split(err.Error(), "\n"); len(list) != 101 || list[100] != "and 5899 more faults" {
		t.Errorf("the text has %d lines: %s", len(list), list[len(list)-1])
	}
}

func TestLimitsValidate(t *testing.T) {
	if err := selector.ExportDefaultLimits().Validate(); err != nil {
		t.Error(err)
	}
	env := newEnv(t, selector.Limits{TextBytes: 10, EstimatedCost: 20_000})
	want := selector.ExportDefaultLimits()
	want.TextBytes, want.EstimatedCost, want.RunCost = 10, 20_000, 20_000
	if diff := cmp.Diff(want, env.Limits()); diff != "" {
		t.Error(diff)
	}
	most := selector.Limits{TextBytes: 1 << 20, Nodes: 10_000, Depth: 250, Nesting: 4, RegexProgram: 10_000, EstimatedCost: 1e8, StringBytes: 1 << 20, ListItems: 1 << 20, RunCost: 1e8}
	if err := most.Validate(); err != nil {
		t.Error(err)
	}
	err := selector.Limits{TextBytes: -1, Nodes: 10_001, Depth: 251, Nesting: 5, RegexProgram: -1, EstimatedCost: 1e8 + 1, StringBytes: 1<<20 + 1, ListItems: 1<<20 + 1, RunCost: 1e8 + 2}.Validate()
	const text = `textBytes: -1: must be from 1 to 1048576, or 0 for the default
nodes: 10001: must be from 1 to 10000, or 0 for the default
depth: 251: must be from 1 to 250, or 0 for the default
nesting: 5: must be from 1 to 4, or 0 for the default
regexProgram: -1: must be from 1 to 10000, or 0 for the default
stringBytes: 1048577: must be from 1 to 1048576, or 0 for the default
listItems: 1048577: must be from 1 to 1048576, or 0 for the default
estimatedCost: 100000001: must be at most 100000000
runCost: 100000002: must be at most 100000000`
	if err == nil || err.Error() != text {
		t.Errorf("got\n%v\nwant\n%s", err, text)
	}
	if err := (selector.Limits{RunCost: 9_999}).Validate(); err == nil || err.Error() != "runCost: 9999: must not be below estimatedCost 10000, which expressions are admitted up to" {
		t.Error(err)
	}
	for _, limits := range []selector.Limits{{Nodes: -1}, {RunCost: 1}} {
		if _, err := selector.NewEnv(selector.DefaultSchema(), limits); err == nil || !strings.HasPrefix(err.Error(), "limits.") {
			t.Error(err)
		}
	}
	if _, err := selector.NewEnv(nil, selector.Limits{}); err == nil || err.Error() != "schema: must declare at least one variable" {
		t.Error(err)
	}
}

// TestDefaultLimits: a limit that nobody sets is the documented one.
func TestDefaultLimits(t *testing.T) {
	env := newEnv(t, selector.Limits{})
	want := selector.Limits{TextBytes: 4096, Nodes: 500, Depth: 50, Nesting: 1, RegexProgram: 1000, EstimatedCost: 10_000, StringBytes: 256, ListItems: 64, RunCost: 10_000}
	if got := env.Limits(); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	for size, compiles := range map[int]bool{4096: true, 4097: false} {
		if _, err := env.Compile(fmt.Sprintf("%-*s", size, "flag")); (err == nil) != compiles {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

func TestValues(t *testing.T) {
	env := newEnv(t, selector.Limits{})
	v := env.NewValues()
	good := host()
	good["version.createdAt"] = time.Unix(0, 0)
	for name := range good {
		if value, ok := v.Lookup(name); ok {
			t.Errorf("%s is %v before it is set", name, value)
		}
	}
	for name, value := range good {
		if err := v.Set(name, value); err != nil {
			t.Error(err)
		}
		if got, ok := v.Lookup(name); !ok || cmp.Diff(value, got) != "" {
			t.Errorf("%s is %v, %v, want %v", name, got, ok, value)
		}
	}
	for _, row := range []struct {
		name  string
		value any
		want  string
	}{
		{"resource.knd", "a", "selector: resource.knd is not declared; did you mean resource.kind?"},
		{"nothing.near", "a", "selector: nothing.near is not declared"},
		{"resource.kind", 1, "selector: resource.kind must be string, not int"},
		{"resource.kind", nil, "selector: resource.kind must be string, not nil"},
		{"resource.metadata", map[string]any{}, "selector: resource.metadata must be map[string]string, not map[string]interface {}"},
		{"weight", 1, "selector: weight must be int64, not int"},
		{"flag", "true", "selector: flag must be bool, not string"},
		{"tags", []any{}, "selector: tags must be []string, not []interface {}"},
		{"version.createdAt", "now", "selector: version.createdAt must be time.Time, not string"},
	} {
		if err := v.Set(row.name, row.value); err == nil || err.Error() != row.want {
			t.Errorf("%v, want %s", err, row.want)
		}
		if want, ok := good[row.name]; ok {
			if got, ok := v.Lookup(row.name); !ok || cmp.Diff(want, got) != "" {
				t.Errorf("a refused Set changed %s to %v", row.name, got)
			}
		}
	}
	var none selector.Values
	for _, err := range []error{none.Set("resource.kind", "a"), none.SetString("resource.kind", "a")} {
		if want := "selector: resource.kind is not declared: these values were not made by NewValues"; err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if err := v.SetString("resource.kind", "VM"); err != nil {
		t.Error(err)
	}
	if got, _ := v.Lookup("resource.kind"); got != "VM" {
		t.Error(got)
	}
	for name, want := range map[string]string{"weight": "selector: weight must be int64, not string", "resource.knd": "selector: resource.knd is not declared; did you mean resource.kind?"} {
		if err := v.SetString(name, "a"); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if _, ok := v.Lookup("resource.knd"); ok {
		t.Error("an undeclared variable has a value")
	}
	for _, variable := range env.Schema() {
		if value, ok := good[variable.Name]; !ok && variable.Type == selector.String {
			if err := v.Set(variable.Name, "set"); err != nil {
				t.Errorf("%v: %v", value, err)
			}
		}
	}
	v.Clear()
	for _, variable := range env.Schema() {
		if value, ok := v.Lookup(variable.Name); ok {
			t.Errorf("%s is %v after Clear", variable.Name, value)
		}
	}
}

// TestSchemaIsTheCallers: an environment sorts a schema of its own.
func TestSchemaIsTheCallers(t *testing.T) {
	schema := selector.Schema{{"z", selector.String}, {"a", selector.Int}}
	if _, err := selector.NewEnv(schema, selector.Limits{}); err != nil || schema[0].Name != "z" {
		t.Errorf("%v, %v", schema, err)
	}
}

// TestValuesOfAnotherEnv: values are found by name where the places differ.
func TestValuesOfAnotherEnv(t *testing.T) {
	small, err := selector.NewEnv(selector.Schema{{"weight", selector.Int}, {"zone", selector.String}, {"resource.kind", selector.String}}, selector.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	v := small.NewValues()
	if err := v.Set("resource.kind", "Node"); err != nil {
		t.Fatal(err)
	}
	env := newEnv(t, selector.Limits{})
	for _, compile := range []func(string) (*selector.Selector, error){env.Compile, env.CompileCEL} {
		s := must(compile("resource.kind == 'Node'"))
		if ok, err := s.Match(v); !ok || err != nil {
			t.Error(ok, err)
		}
		if ok, err := must(compile("weight == 1")).Match(v); ok || err == nil {
			t.Error(ok, err)
		}
	}
	for name, vars := range map[string]selector.Vars{"nil": nil, "nil Values": (*selector.Values)(nil), "LabelMap": selector.LabelMap{}} {
		ok, err := must(env.Compile("resource.kind == 'Node'")).Match(vars)
		if ok || err == nil || !strings.Contains(err.Error(), "resource.kind has no value") {
			t.Errorf("%s: %v, %v", name, ok, err)
		}
		if ok, err := must(env.Compile("true")).Match(vars); !ok || err != nil {
			t.Errorf("%s: %v, %v", name, ok, err)
		}
	}
	if ok, err := new(selector.Selector).Match(v); ok || err == nil {
		t.Error("a selector that was not compiled matches:", ok, err)
	}
}

// textMap is a plain map as variables, the way that is written first: what is not in it is "",
// false.
type textMap map[string]string

func (m textMap) Lookup(name string) (any, bool) {
	text, ok := m[name]
	return text, ok
}

// TestNoValueIsNoneWhateverComesWithIt: a value that Lookup returns with false is none, neither to
// an expression nor to an index.
func TestNoValueIsNoneWhateverComesWithIt(t *testing.T) {
	env := newEnv(t, selector.Limits{})
	for _, row := range []struct {
		expr, variable string
		vars           selector.Vars
		why            string
	}{
		{"resource.kind == ''", "resource.kind", textMap{}, "it would match by accident"},
		{"resource.kind != 'Node' && true", "resource.kind", textMap{}, "so it would in a chain"},
		{"resource.kind == resource.name", "resource.kind", textMap{"resource.name": ""}, "and beside another variable"},
		{"resource.kind == 'Node'", "resource.kind", &selector.Values{}, "values that no environment made hold none"},
		{"resource.metadata['a'] == 'b'", "resource.metadata", selector.LabelMap{"a": "b"}, "the labels are those of another variable"},
		{"'a' in resource.metadata", "resource.metadata", selector.LabelMap{"a": "b"}, "nor is a key in no map"},
		{"flag", "flag", hostVars{"flag": absent{true}}, "a bool"},
		{"weight == 0", "weight", hostVars{"weight": absent{int64(0)}}, "an int"},
		{"'a' in tags", "tags", hostVars{"tags": absent{[]string{"a"}}}, "a list"},
		{"version.createdAt < timestamp('2026-01-31T09:00:00Z')", "version.createdAt", hostVars{"version.createdAt": absent{time.Time{}}}, "an instant"},
	} {
		for _, compile := range []func(string) (*selector.Selector, error){env.Compile, env.CompileCEL} {
			s := must(compile(row.expr))
			ok, err := s.Match(row.vars)
			var fault *selector.EvalError
			if ok || !errors.As(err, &fault) || fault.Variable != row.variable || err.Error() != "selector: "+row.variable+" has no value, in: "+s.String() {
				t.Errorf("%s: %v, %v: %s", row.expr, ok, err, row.why)
			}
		}
	}
	for expr, variable := range map[string]string{
		"resource.kind == ''": "resource.kind", "resource.kind == resource.name": "resource.kind", "resource.metadata['a'] == 'b'": "resource.metadata",
		"resource.metadata['a'] == resource.kind": "resource.metadata", "'a' in resource.metadata": "resource.metadata", "flag": "flag", "flag == false": "flag",
		"weight == 0": "weight", "weight in [0, 1]": "weight",
	} {
		for _, compile := range []func(string) (*selector.Selector, error){env.Compile, env.CompileCEL} {
			ok, err := must(compile(expr)).Match(env.NewValues())
			var fault *selector.EvalError
			if ok || !errors.As(err, &fault) || fault.Variable != variable || fault.Msg != variable+" has no value" {
				t.Errorf("%s, where nothing is set: %v, %v", expr, ok, err)
			}
		}
	}
	set := env.NewValues() // a bool that is false has a value
	if err := set.Set("flag", false); err != nil {
		t.Fatal(err)
	}
	for _, compile := range []func(string) (*selector.Selector, error){env.Compile, env.CompileCEL} {
		for expr, want := range map[string]bool{"flag": false, "!flag": true, "flag == false": true} {
			if ok, err := must(compile(expr)).Match(set); ok != want || err != nil {
				t.Errorf("%s, where it is false: %v, %v", expr, ok, err)
			}
		}
	}
	index := selector.NewIndex("resource.kind", "resource.metadata")
	for i, vars := range []selector.Vars{textMap{}, selector.LabelMap{"a": "b"}} {
		if err := index.Put(i, vars); err != nil {
			t.Fatal(err)
		}
	}
	for _, expr := range []string{"resource.kind == ''", "resource.metadata['a'] == 'b'"} {
		if found := slices.Collect(index.Candidates(must(env.Compile(expr)).Terms())); found != nil {
			t.Errorf("%s: the index knows a value of %v", expr, found)
		}
	}
}

// TestEnvOfNobody compiles in environments that NewEnv did not make: all is refused, nothing panics.
func TestEnvOfNobody(t *testing.T) {
	t.Parallel()
	for name, env := range map[string]*selector.Env{"zero": {}, "nil": nil} {
		_, compiled := env.Compile("true")
		_, matched := env.Matcher("true")
		_, labelled := env.CompileLabels("resource.metadata", selector.LabelSelector{})
		for _, err := range []error{compiled, matched, labelled} {
			if want := "selector: the environment was not made by NewEnv (make it with NewEnv)"; err == nil || err.Error() != want {
				t.Errorf("%s: %v, want %s", name, err, want)
			}
		}
		if err := env.NewValues().SetString("resource.kind", "a"); err == nil {
			t.Errorf("%s: its values have a place", name)
		}
	}
}

// TestZeroValues: what nobody made refuses, or is as empty as its doc says.
func TestZeroValues(t *testing.T) {
	t.Parallel()
	env := newEnv(t, selector.Limits{})
	for name, vars := range map[string]selector.Vars{"a host": host(), "values": env.NewValues(), "zero values": &selector.Values{}, "nothing": nil} {
		var none *selector.EvalError
		if ok, err := new(selector.Selector).Match(vars); ok || !errors.As(err, &none) || err.Error() != "selector: the selector was not made by Compile" {
			t.Errorf("%s: the zero Selector answers %v, %v", name, ok, err)
		}
	}
	if labels := (&selector.Labels{}); !labels.Match(nil) || !labels.Match(map[string]string{"a": "b"}) {
		t.Error("the zero Labels do not match everything")
	}
	var index selector.Index
	if err := errors.Join(index.Put(3, selector.LabelMap{"a": "b"}), index.Put(1, nil)); err != nil {
		t.Fatal(err)
	}
	terms := []selector.Term{{Variable: selector.LabelsVariable, Key: "a", Keyed: true}}
	if found := slices.Collect(index.Candidates(terms)); !slices.Equal(found, []int{1, 3}) {
		t.Errorf("the zero Index has the candidates %v", found)
	}
}
