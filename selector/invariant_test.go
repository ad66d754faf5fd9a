package selector_test

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/internal/testkit"
	"github.com/tranche-dev/tranche/selector"
)

// compiles is I1 for one text: no panic, and a result or a *CompileError that prints and says what
// to write instead.
func compiles(t interface{ Fatalf(string, ...any) }, env *selector.Env, text string) bool {
	s, err := env.Compile(text)
	var fault *selector.CompileError
	switch {
	case err == nil && s != nil:
		if _, err := env.Compile(s.String()); err != nil {
			t.Fatalf("%q prints as %q: %v", text, s, err)
		}
	case s != nil || !errors.As(err, &fault):
		t.Fatalf("%q: %v, %v", text, s, err)
	case fault.Line < 0 || fault.Col < 0 || fault.Line > 0 && fault.Col == 0 || fault.Msg == "" || fault.Hint == "" || fault.Error() == "":
		t.Fatalf("%q: %#v", text, fault)
	case strings.Contains(fault.Msg, "compiler failed"):
		t.Fatalf("%q: the guard had to catch a panic: %v", text, err)
	}
	return err == nil
}

// I1: Compile never panics, on any bytes: what is written by hand, mutated.
func TestI1CompileNeverPanics(t *testing.T) {
	env := newEnv(t, selector.Limits{})
	seen := testkit.Tally{}
	seen.Check(t, func(t *rapid.T) {
		g := gen{t}
		text := []byte(g.any(rapid.IntRange(0, 3).Draw(t, "depth")))
		for range g.n("edits", 3) {
			at := g.n("at", len(text))
			switch g.n("edit", 3) {
			case 0:
				text = text[:at]
			case 1:
				token := g.pick("token", []string{" AND ", "(", ")", "'", "\"", "\\", "\x00", "\xff", "[", "]", "{", "}", ".", "?", "has(", "tags.all(x,", "é", "\n", "//", "r'", "b'", "1u", "0x", "1e999", "`", "@", "__result__", "@result", "matches('(a{1,1000}){1,1000}')"})
				text = append(text[:at:at], token+string(text[at:])...)
			case 2:
				if at < len(text) {
					text = append(text[:at:at], text[at+1:]...)
				}
			default:
				text = append(text[:at:at], append(rapid.SliceOfN(rapid.Byte(), 1, 4).Draw(t, "bytes"), text[at:]...)...)
			}
		}
		if compiles(t, env, string(text)) {
			seen["compiled"]++
		} else {
			seen["refused"]++
		}
	}, "compiled", "refused")
}

func FuzzI1Compile(f *testing.F) {
	for _, text := range []string{"", "true", "resource.kind == 'a' AND flag", "resource.name.matches('(a{1,100})')", "tags.all(x, tags.exists(y, x == y))",
		"has(resource.metadata['k'])", "{'a': 1}['a'] == 1", "b'\\377' == b''", "1u + 2u == 3u", "resource.metadata[", "((((((((((", "!!!!!!!!!!true", "-----1 == 1",
		"google.protobuf.Value{null_value: 0} == null", "tags.map(x, x != 'a', x).size() == 1", "'\\U0010ffff' == resource.name", "__result__ == 1", "a.b.c.d.e.f", strings.Repeat("\xbd", 300)} {
		f.Add(text)
	}
	env := newEnv(f, selector.Limits{})
	f.Fuzz(func(t *testing.T, text string) { compiles(t, env, text) })
}

// TestI1PanicOfTheLibrary: if the CEL library panics where nobody knows of it, the host is told
// like of any other fault.
func TestI1PanicOfTheLibrary(t *testing.T) {
	s, err := selector.WithoutLibrary().Compile("resource.kind == 'Node'")
	var fault *selector.CompileError
	if s != nil || !errors.As(err, &fault) || !strings.Contains(fault.Msg, "the CEL compiler failed") {
		t.Errorf("%v, %v", s, err)
	}
}

// TestLongTextsCompile: the limit on the length of a text is ours, not the one that the CEL library
// has by default.
func TestLongTextsCompile(t *testing.T) {
	env, err := selector.NewEnv(selector.DefaultSchema(), selector.Limits{TextBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := env.Compile("resource.kind == '" + strings.Repeat("a", 300_000) + "'"); err != nil {
		t.Error(err)
	}
}

// TestHintsForLongNames: a name that nobody can have meant is not compared letter by letter with
// every name that is known, once for each of its parts: that took half a second for a text within
// the default limits.
func TestHintsForLongNames(t *testing.T) {
	if testkit.Race {
		t.Skip("the race detector allocates")
	}
	env := newEnv(t, selector.Limits{})
	part := strings.Repeat("q", 87)
	for why, text := range map[string]string{
		"a chain of parts": strings.Repeat(part+".", 44) + part + " == 'x'",
		"a variable":       strings.Repeat("q", 4000) + " == 'x'",
		"a function":       strings.Repeat("q", 4000) + "(1) == 1",
	} {
		if n := testing.AllocsPerRun(1, func() {
			if _, err := env.Compile(text); err == nil {
				t.Errorf("%s: it compiles", why)
			}
		}); n > 10_000 {
			t.Errorf("%s: the error takes %v allocations", why, n)
		}
	}
}

// TestNothingOfTheHostIsKept: what is reused from one evaluation to the next holds nothing of the
// first.
func TestNothingOfTheHostIsKept(t *testing.T) {
	env := newEnv(t, selector.Limits{})
	s, err := env.CompileCEL("resource.metadata['a'] == 'b' && resource.kind == 'Node'")
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := s.Match(hostVars{"resource.kind": "Node", "resource.metadata": map[string]string{"a": "b"}}); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if kept := s.Kept(); kept != "" {
		t.Error(kept)
	}
}

// I2: what is expensive is refused, before evaluation or during it, whatever the data.
func TestI2CostIsBounded(t *testing.T) {
	long := strings.Repeat("a", 60_000)
	longList := make([]string, 9_000)
	for i := range longList {
		longList[i] = "a"
	}
	wide := make([]string, 64)
	for i := range wide {
		wide[i] = strings.Repeat("a", 20_000)
	}
	env := newEnv(t, selector.Limits{})
	for _, row := range []struct {
		expr string
		vars hostVars
		want string // outcome
		msg  string // what the text of a limit contains
		why  string
	}{
		{"resource.name == 'a'", hostVars{"resource.name": long}, "no", "", "comparing with a short literal is cheap, however long the value"},
		{"resource.name.startsWith('aa')", hostVars{"resource.name": long}, "yes", "", "so is a prefix"},
		{"resource.metadata['k'].contains('ab')", hostVars{"resource.metadata": map[string]string{"k": long}}, "no", "", "one scan is within the limit"},
		{"resource.name.contains('aaaaaaaaaaaaaaaaaaaab')", hostVars{"resource.name": long}, "limit", "10000", "the library prices a search by both lengths"},
		{"resource.name.matches('(a|b)*c')", hostVars{"resource.name": long}, "limit", "10000", "a regular expression over a long value"},
		{"resource.name.matches('^a')", hostVars{"resource.name": strings.Repeat("a", 300)}, "yes", "", "a regular expression over a value a little longer than promised"},
		{"resource.name == 'a'", hostVars{"resource.name": strings.Repeat("a", 100_000)}, "no", "", "the longest string that is read"},
		{"resource.name == 'a'", hostVars{"resource.name": strings.Repeat("a", 100_001)}, "limit", "100001", "one byte more is not read at all"},
		{"resource.name == 'a' || true", hostVars{"resource.name": strings.Repeat("a", 100_001)}, "limit", "100001", "and the other side cannot hide it"},
		{"resource.name == 'a' && flag", hostVars{"resource.name": strings.Repeat("a", 100_001), "flag": false}, "limit", "100001", "nor can that of a conjunction"},
		{"resource.name == 'a' && resource.kind == 'a'", hostVars{"resource.name": strings.Repeat("a", 100_001), "resource.kind": "b"}, "limit", "100001", "be it of tests alone"},
		{"resource.metadata['k'] == 'a' && resource.name == 'a'", hostVars{"resource.metadata": map[string]string{}, "resource.name": strings.Repeat("a", 100_001)}, "limit", "100001", "nor a key that is missing before"},
		{"resource.kind == 'a' && resource.name == 'a'", hostVars{"resource.name": strings.Repeat("a", 100_001), "resource.kind": "b"}, "no", "", "unless it decides before"},
		{"resource.name == 'a' || resource.kind == 'a'", hostVars{"resource.name": strings.Repeat("a", 100_001), "resource.kind": strings.Repeat("a", 100_002)}, "limit", "resource.name has 100001", "of two the first is told"},
		{"true || resource.name == 'a'", hostVars{"resource.name": strings.Repeat("a", 100_001)}, "yes", "", "unless it decides before"},
		{"resource.metadata['k'] == 'a'", hostVars{"resource.metadata": map[string]string{"k": strings.Repeat("a", 100_001)}}, "limit", "resource.metadata has 100001 bytes", "the same for a value in a map"},
		{"'k' in resource.metadata", hostVars{"resource.metadata": map[string]string{"k": strings.Repeat("a", 100_001)}}, "yes", "", "which is not read to see that it is there"},
		{"'b' in tags", hostVars{"tags": longList}, "no", "", "a long list, looked at once"},
		{"tags.exists(x, x == 'b')", hostVars{"tags": longList}, "limit", "10000", "a long list, walked"},
		{"size(tags) == 1", hostVars{"tags": make([]string, 10_000)}, "no", "", "the longest list that is read"},
		{"size(tags) == 1", hostVars{"tags": make([]string, 10_001)}, "limit", "10001 items", "one more is not read at all"},
		{"size(tags) == 1", hostVars{"tags": []string{strings.Repeat("a", 100_001)}}, "limit", "100001 bytes", "nor one with a string that is too long"},
		{"tags.exists(x, x.contains('b'))", hostVars{"tags": wide}, "limit", "10000", "many long strings, walked"},
		{"tags.all(x, int(resource.name) == 0)", hostVars{"tags": longList[:64], "resource.name": strings.Repeat("0", 60_000)}, "limit", "10000", "converting a string costs by its length"},
	} {
		for _, compile := range []func(string) (*selector.Selector, error){env.Compile, env.CompileCEL} {
			s, err := compile(row.expr)
			if err != nil {
				t.Errorf("%s: %v", row.expr, err)
				continue
			}
			kind, text := outcome(s.Match(row.vars))
			if kind != row.want || !strings.Contains(text, row.msg) {
				t.Errorf("%s: %s %s, want %s: %s", row.expr, kind, text, row.want, row.why)
			}
		}
	}
}

// I2: a regular expression that costs more than the limit is not run and charged for afterwards: for
// a long text that would take seconds.
func TestI2RegexIsPricedBeforeItRuns(t *testing.T) {
	const pattern = "(x{30}){30}y" // of some 900 instructions
	long := strings.Repeat("x", 5_000)
	alone := func() { regexp.MustCompile(pattern).MatchString(long) }
	env := newEnv(t, selector.Limits{})
	for _, expr := range []string{"resource.name.matches('" + pattern + "')", "matches(resource.name, '" + pattern + "')", "resource.name.matches('" + pattern + "') || true"} {
		for _, compile := range []func(string) (*selector.Selector, error){env.Compile, env.CompileCEL} {
			s, err := compile(expr)
			if err != nil {
				t.Fatal(err)
			}
			testkit.CompareCost(t, "four refusals of "+expr+", and the expression alone", 1, alone, func() {
				for range 4 {
					if kind, text := outcome(s.Match(hostVars{"resource.name": long})); kind != "limit" || text != "selector: the data costs more to evaluate than the limit of 10000, in: "+s.String() {
						t.Errorf("%s: %s %s", expr, kind, text)
					}
				}
			})
			short := strings.Repeat("x", 300) // more than is promised, and affordable
			if kind, text := outcome(s.Match(hostVars{"resource.name": short})); kind == "limit" {
				t.Errorf("%s: %s", expr, text)
			}
		}
	}
}

// I2, at compile time: every limit, at its bound and one beyond. Beyond it the fault has a place
// and says what to write instead.
func TestI2LimitsOfExpressions(t *testing.T) {
	for _, row := range []struct {
		limits  selector.Limits
		in, out string
		msg     string
	}{
		{selector.Limits{TextBytes: 20}, "flag               ", "flag                 ", "1:1: the expression has 21 bytes, the limit is 20"},
		{selector.Limits{Nodes: 7}, "flag && flag && flag && flag", "flag && flag && flag && !flag", "1:1: the expression has 8 nodes, the limit is 7"},
		{selector.Limits{Depth: 12}, "((((((((((flag))))))))))", "((((((((((((flag))))))))))))", "1:1: the expression is nested deeper than the limit of 12"},
		{selector.Limits{}, "tags.all(x, x == 'a')", "tags.all(x, tags.all(y, x == y))", "nested 2 deep, the limit is 1"},
		{selector.Limits{}, "tags.filter(x, x != 'a').map(x, x + 'b').all(x, x != 'c')", "tags.map(x, ['a'].filter(y, x == y)).all(x, x.size() == 0)", "nested 2 deep, the limit is 1"},
		{selector.Limits{Nesting: 2}, "tags.all(x, ['a'].all(y, x == y))", "tags.all(x, ['a'].all(y, ['b'].all(z, x == z)))", "nested 3 deep, the limit is 2"},
		{selector.Limits{RegexProgram: 12}, "resource.kind.matches('a{10}')", "resource.kind.matches('a{11}')", "13 instructions, the limit is 12"},
		{selector.Limits{EstimatedCost: 3, RunCost: 3}, "resource.metadata.a == 'a'", "resource.metadata.a == 'aaaaaaaaaaaaaaaa'", "1:1: the estimated cost is 4, the limit is 3"},
		{selector.Limits{}, "tags.exists(x, x == 'a')", "tags.exists(x, x.matches('(a{1,20}){1,20}'))", "limit is 10000"},
		{selector.Limits{ListItems: 10}, "tags.exists(x, x.contains('abcdefghijklmnopqrstuvwxyz'))", "tags.exists(x, x.contains('" + strings.Repeat("x", 500) + "'))", "limit is 10000"},
	} {
		env := newEnv(t, row.limits)
		if _, err := env.Compile(row.in); err != nil {
			t.Errorf("%+v: %s: %v", row.limits, row.in, err)
		}
		_, err := env.Compile(row.out)
		var fault *selector.CompileError
		if !errors.Is(err, selector.ErrLimit) || !errors.As(err, &fault) || !strings.Contains(err.Error(), row.msg) {
			t.Errorf("%+v: %.100s: %v, want ErrLimit with %q", row.limits, row.out, err, row.msg)
		}
		if errors.Is(err, selector.ErrMissingKey) {
			t.Errorf("%v is no missing key", err)
		}
		if fault != nil && (fault.Line < 1 || fault.Col < 1 || fault.Hint == "") {
			t.Errorf("%.100s: %+v: want a line, a column and a hint", row.out, fault)
		}
	}
}

// I2: what is too large to be metered is refused unread, with its variable, size and limit. Only a
// side that decided before it was reached gives a result.
func TestI2TooLargeIsRefusedUnread(t *testing.T) {
	env := newEnv(t, selector.Limits{})
	fits, large := strings.Repeat("x", 100_000), strings.Repeat("x", 100_001)
	for _, row := range []struct {
		expr string
		vars hostVars
		msg  string // empty: it holds
		why  string
	}{
		{"resource.kind != 'a'", hostVars{"resource.kind": fits}, "", "ten times RunCost can be read"},
		{"resource.kind != 'a'", hostVars{"resource.kind": large}, "resource.kind has 100001 bytes, the limit is 100000", "one byte more cannot"},
		{"resource.metadata.a != 'a'", hostVars{"resource.metadata": map[string]string{"a": large}}, "resource.metadata has 100001 bytes in a value, the limit is 100000",
			"the size of a map is no matter, that of a value is"},
		{"'a' in resource.metadata", hostVars{"resource.metadata": map[string]string{"a": large}}, "", "to ask for a key reads no value"},
		{"size(tags) > 1", hostVars{"tags": make([]string, 10_001)}, "tags has 10001 items, the limit is 10000", "a list costs one per item"},
		{"size(tags) > 0", hostVars{"tags": []string{large}}, "tags has 100001 bytes in an item, the limit is 100000", "an item is a string"},
		{"flag || resource.kind == 'a'", hostVars{"flag": true, "resource.kind": large}, "", "the side before it decided"},
		{"resource.kind == 'a' || flag", hostVars{"flag": true, "resource.kind": large}, "resource.kind has 100001 bytes, the limit is 100000", "the side after it cannot"},
	} {
		s, err := env.Compile(row.expr)
		if err != nil {
			t.Fatal(err)
		}
		ok, err := s.Match(row.vars)
		var fault *selector.EvalError
		switch {
		case row.msg == "":
			if !ok || err != nil {
				t.Errorf("%s: %v, %v: %s", row.expr, ok, err, row.why)
			}
		case ok || !errors.As(err, &fault) || !errors.Is(err, selector.ErrLimit) || fault.Msg != row.msg || fault.Variable == "" || !strings.HasPrefix(row.msg, fault.Variable) || fault.Expr != s.String():
			t.Errorf("%s: %v, %v, want %s: %s", row.expr, ok, err, row.msg, row.why)
		}
	}
}

// I3: Match is pure, from any number of goroutines; so is Compile in one environment. The race
// detector looks on.
func TestI3ManyGoroutines(t *testing.T) {
	env := newEnv(t, selector.Limits{})
	vars := host()
	bound, ok := values(env, vars)
	if !ok {
		t.Fatal("host does not bind")
	}
	texts := []string{"resource.kind == 'Node'", "resource.metadata['team'] != 'x'", "tags.exists(x, x == 'b')", "int(resource.metadata['cluster']) > 1",
		"resource.metadata[resource.id] == 'x'", "version.tag == 'a'", "resource.name.matches('^t') && weight < 4"}
	shared := make([]*selector.Selector, len(texts))
	want := make([]string, len(texts))
	for i, text := range texts {
		s, err := env.Compile(text)
		if err != nil {
			t.Fatal(err)
		}
		shared[i], want[i] = s, fmt.Sprint(outcome(s.Match(vars)))
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				for i, text := range texts {
					own, err := env.Compile(text)
					if err != nil {
						t.Error(err)
						return
					}
					for _, s := range []*selector.Selector{shared[i], own} {
						for _, v := range []selector.Vars{vars, bound} {
							if got := fmt.Sprint(outcome(s.Match(v))); got != want[i] {
								t.Errorf("%s: %s, want %s", text, got, want[i])
							}
						}
					}
				}
			}
		})
	}
	wg.Wait()
}

// I9: no exported name carries a type of the CEL library.
func TestI9NoLibraryTypeIsExported(t *testing.T) {
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	looked := 0
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		foreign := map[string]bool{}
		for _, i := range file.Imports {
			path, _ := strconv.Unquote(i.Path.Value)
			if strings.Contains(path, "cel-go") {
				local := path[strings.LastIndexByte(path, '/')+1:]
				if i.Name != nil {
					local = i.Name.Name
				}
				foreign[local] = true
			}
		}
		mentions := func(what string, n ast.Node) {
			looked++
			ast.Inspect(n, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok {
					if id, ok := s.X.(*ast.Ident); ok && foreign[id.Name] {
						t.Errorf("%s: %s mentions %s.%s", name, what, id.Name, s.Sel.Name)
					}
				}
				return true
			})
		}
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				exported := d.Name.IsExported()
				if d.Recv != nil {
					typ := d.Recv.List[0].Type
					if star, ok := typ.(*ast.StarExpr); ok {
						typ = star.X
					}
					id, ok := typ.(*ast.Ident)
					exported = exported && ok && id.IsExported()
				}
				if exported {
					mentions(d.Name.Name, d.Type)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					s, ok := spec.(*ast.TypeSpec)
					if !ok || !s.Name.IsExported() {
						continue
					}
					if structure, ok := s.Type.(*ast.StructType); ok {
						for _, f := range structure.Fields.List {
							if len(f.Names) == 0 || f.Names[0].IsExported() {
								mentions(s.Name.Name, f)
							}
						}
						continue
					}
					mentions(s.Name.Name, s.Type)
				}
			}
		}
	}
	if looked < 40 {
		t.Errorf("only %d exported declarations were looked at", looked)
	}
}

// I9: no other package of the module imports the CEL library, and this one imports nothing of its
// extensions.
func TestI9OnlyThisPackageImportsTheLibrary(t *testing.T) {
	files := 0
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			// A nested module has dependencies of its own.
			if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil && path != ".." {
				return fs.SkipDir
			}
			return nil
		}
		if filepath.Ext(path) != ".go" {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return nil // somebody is writing it
		}
		files++
		for _, i := range file.Imports {
			if strings.Contains(i.Path.Value, "cel-go/ext") || strings.Contains(i.Path.Value, "cel-go") && filepath.Base(filepath.Dir(path)) != "selector" {
				t.Errorf("%s imports %s", path, i.Path.Value)
			}
		}
		return nil
	})
	if err != nil || files < 10 {
		t.Fatal(files, err)
	}
}

// I9: errors carry no type of the CEL library either, however deep they are unwrapped.
func TestI9NoLibraryTypeInErrors(t *testing.T) {
	env := newEnv(t, selector.Limits{})
	var errs []error
	for _, text := range []string{"", "flag AND flag", "nope", "weight == 'a'", "resource.name.matches('(')", strings.Repeat("(", 200), "[1, 'a'] == [1]"} {
		_, err := env.Compile(text)
		errs = append(errs, err)
	}
	for _, text := range []string{"weight / 0 == 1", "int(resource.kind) == 1", "resource.metadata[resource.id] == 'a'", "version.tag in [resource.id]",
		"timestamp(resource.kind) > version.createdAt", "tags.all(x, int(x) == 1)", "tags[5] == 'a'", "tags.exists(x, resource.metadata[x] == 'a')",
		"duration(resource.kind) == duration('1s')", "9223372036854775807 + weight == 1"} {
		s, err := env.Compile(text)
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.Match(host())
		if err == nil {
			t.Errorf("%s does not fail", text)
		}
		var fault *selector.EvalError
		if errors.As(err, &fault) && fault.Expr != s.String() {
			t.Errorf("%v does not name the expression", err)
		}
		if !errors.As(err, &fault) && !errors.Is(err, selector.ErrMissingKey) {
			t.Errorf("%s: %T", text, err)
		}
		errs = append(errs, err)
	}
	var visit func(err error)
	visit = func(err error) {
		if err == nil {
			return
		}
		typ := reflect.TypeOf(err)
		if typ.Kind() == reflect.Pointer {
			typ = typ.Elem()
		}
		if strings.Contains(typ.PkgPath(), "cel") && !strings.Contains(typ.PkgPath(), "selector") {
			t.Errorf("%v carries a %v", err, typ)
		}
		visit(errors.Unwrap(err))
		if many, ok := err.(interface{ Unwrap() []error }); ok {
			for _, e := range many.Unwrap() {
				visit(e)
			}
		}
	}
	for _, err := range errs {
		visit(err)
	}
}

// I10: matching natively allocates nothing, with the host's own variables and with Values, also
// when a key is missing; nor does setting Values for the next element of a scan. What the CEL
// library needs has a bound.
func TestI10Allocations(t *testing.T) {
	env := newEnv(t, selector.Limits{})
	kinds := []string{"Node", "VM"}
	metadata := []map[string]string{{"cluster": "prod-east", "a": "x"}, nil}
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	bound := env.NewValues()
	n := 0
	set := func() {
		n++
		for _, err := range []error{
			bound.SetString("resource.kind", kinds[n%2]),
			bound.SetString("resource.name", kinds[n%2]),
			bound.Set("resource.metadata", metadata[n%2]),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	set()
	for name, value := range map[string]any{"flag": true, "weight": int64(1) << 40, "tags": kinds, "version.createdAt": at} {
		if err := bound.Set(name, value); err != nil {
			t.Fatal(err)
		}
	}
	if got := testing.AllocsPerRun(100, set); got != 0 {
		t.Errorf("Set: %v allocations", got)
	}
	host := hostVars{"resource.kind": "Node", "resource.name": "web-1", "resource.metadata": metadata[0], "flag": true, "weight": int64(1) << 40, "tags": kinds}
	for _, row := range []struct {
		expr   string
		native bool
		most   float64
	}{
		{"resource.kind == 'Node'", true, 0},
		{"resource.metadata['cluster'] == 'prod-east' && resource.metadata['a'] in ['x', 'y'] && resource.kind != 'VM'", true, 0},
		{"resource.metadata['team'] != 'x'", true, 0},
		{"resource.metadata['cluster'].startsWith('prod') || flag || weight == 1 || resource.name.matches('^web-[0-9]+$')", true, 0},
		{"!(resource.kind == resource.name) == flag && weight in [1, 2]", true, 0},
		{"'canary' in resource.metadata && resource.metadata['canary'] == 'true'", true, 0},
		{"resource.metadata['cluster'] < 'q'", false, 2},
		{"weight < 7", false, 2},
	} {
		s, err := env.Compile(row.expr)
		if err != nil {
			t.Fatal(err)
		}
		if s.Native() != row.native {
			t.Errorf("%s: native is %v", row.expr, s.Native())
		}
		for name, v := range map[string]selector.Vars{"host": host, "Values": bound} {
			if got := testing.AllocsPerRun(100, func() { s.Match(v) }); got > row.most {
				t.Errorf("%s on %s: %v allocations, want at most %v", row.expr, name, got, row.most)
			}
		}
	}
	l, err := (selector.LabelSelector{MatchLabels: map[string]string{"cluster": "prod-east"}, MatchExpressions: []selector.LabelRequirement{
		{Key: "a", Operator: selector.NotIn, Values: []string{"z"}}}}).Compile()
	if err != nil {
		t.Fatal(err)
	}
	if got := testing.AllocsPerRun(100, func() { l.Match(metadata[0]) }); got != 0 {
		t.Errorf("labels: %v allocations", got)
	}
}

// TestFastPathEndsAtPromisedSizes: data as large as promised is evaluated without metering, one
// more is metered. The verdict is the same; what tells them apart is what metering allocates.
func TestFastPathEndsAtPromisedSizes(t *testing.T) {
	env := newEnv(t, selector.Limits{})
	limits := env.Limits()
	text := func(n int) string { return strings.Repeat("a", n) }
	for _, row := range []struct {
		expr string
		vars func(n int) hostVars
		most int
	}{
		{"resource.name == 'b'", func(n int) hostVars { return hostVars{"resource.name": text(n)} }, limits.StringBytes},
		{"resource.name != resource.kind", func(n int) hostVars { return hostVars{"resource.name": text(n), "resource.kind": text(n)} }, limits.StringBytes},
		{"resource.metadata['k'].startsWith('b')", func(n int) hostVars { return hostVars{"resource.metadata": map[string]string{"k": text(n)}} }, limits.StringBytes},
		{"resource.metadata['k'] < 'b'", func(n int) hostVars { return hostVars{"resource.metadata": map[string]string{"k": text(n)}} }, limits.StringBytes},
		{"resource.name < 'b'", func(n int) hostVars { return hostVars{"resource.name": text(n)} }, limits.StringBytes},
		{"size(tags) < 0", func(n int) hostVars { return hostVars{"tags": make([]string, n)} }, limits.ListItems},
		{"size(tags) < 0", func(n int) hostVars { return hostVars{"tags": []string{"", text(n)}} }, limits.StringBytes},
	} {
		s, err := env.Compile(row.expr)
		if err != nil {
			t.Fatal(err)
		}
		allocs := func(n int) float64 {
			vars := row.vars(n)
			if _, err := s.Match(vars); err != nil {
				t.Errorf("%s, %d: %v", row.expr, n, err)
			}
			return testing.AllocsPerRun(20, func() { s.Match(vars) })
		}
		few, full, more := allocs(2), allocs(row.most), allocs(row.most+1)
		if full != few || more <= full {
			t.Errorf("%s: %v allocations for 2, %v for %d, %v for %d", row.expr, few, full, row.most, more, row.most+1)
		}
		if bound, ok := values(env, row.vars(row.most)); ok && s.Native() {
			if n := testing.AllocsPerRun(20, func() { s.Match(bound) }); n != 0 {
				t.Errorf("%s on Values: %v allocations for %d", row.expr, n, row.most)
			}
			more, _ := values(env, row.vars(row.most+1))
			if n := testing.AllocsPerRun(20, func() { s.Match(more) }); n == 0 {
				t.Errorf("%s on Values: nothing metered for %d", row.expr, row.most+1)
			}
		}
	}
}

// TestPrices: the two prices that this package sets itself, estimated and counted.
func TestPrices(t *testing.T) {
	env := newEnv(t, selector.Limits{EstimatedCost: 1_000_000, RunCost: 1_000_000})
	for _, row := range []struct {
		expr              string
		vars              hostVars
		estimated, actual uint64
		why               string
	}{
		{"resource.name == 'a'", hostVars{"resource.name": "a"}, 2, 2, "the library's own: a variable, and a character"},
		{"resource.name.matches('^a')", hostVars{"resource.name": ""}, 28, 2, "variable 1; (256 or 0)/10 + 1, times 4 instructions/4"},
		{"resource.name.matches('^a')", hostVars{"resource.name": "aaaaaaaaaaa"}, 28, 4, "variable 1; 11/10 rounded up + 1, times 1"},
		{"resource.name.matches('a{18}')", hostVars{"resource.name": "a"}, 1 + 27*5, 1 + 2*5, "20 instructions"},
		{"matches(resource.name, 'a{18}')", hostVars{"resource.name": "a"}, 1 + 27*5, 1 + 2*5, "the other spelling"},
		{"resource.name.matches('aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa')", hostVars{"resource.name": "a"}, 1 + 27*16, 1 + 2*16, "62 characters, 64 instructions"},
		{"resource.name.matches('[abcdefghijklmnopqrstuvwxyz]')", hostVars{"resource.name": "a"}, 1 + 27*7, 1 + 2*7, "28 characters, 4 instructions: the longer counts"},
		{"int(resource.name) == 1", hostVars{"resource.name": "1"}, 1 + 27 + 1, 1 + 2 + 1, "variable; 256 or 1 characters, and the conversion; a comparison"},
		{"double(resource.name) == 1.0", hostVars{"resource.name": "1"}, 29, 4, "the same"},
		{"uint(resource.name) == 1u", hostVars{"resource.name": "1"}, 29, 4, "the same"},
		{"bool(resource.name)", hostVars{"resource.name": "true"}, 28, 3, "the same"},
		{"timestamp(resource.name) == version.createdAt", hostVars{"resource.name": "2026-01-01T00:00:00Z", "version.createdAt": time.Time{}}, 30, 6, "the same"},
		{"duration(resource.name) == duration('1s')", hostVars{"resource.name": "1s"}, 31, 4, "the same, and a constant: folded when it runs"},
		{"string(weight) == 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'", hostVars{"weight": int64(1)}, 1 + 1 + 7, 1 + 1 + 1, "what a conversion writes is not long"},
		{"string(resource.name) == string(resource.kind)", hostVars{"resource.name": "a", "resource.kind": "b"}, 1 + 1 + 1 + 1 + 26, 1 + 1 + 1 + 1 + 1, "two of them"},
		{"string(version.createdAt - version.createdAt) == string(resource.kind)", hostVars{"version.createdAt": time.Time{}, "resource.kind": "b"}, 1 + 1 + 1 + 1 + 1 + 1 + 7, 1 + 1 + 1 + 1 + 1 + 1 + 1, "what is written is not long here either"},
		{"['a', resource.name][1] == 'a'", hostVars{"resource.name": "a"}, 10 + 1 + 2 + 1, 10 + 1 + 2 + 1, "a list, a variable, an index and one more because the list is made on the spot, a comparison"},
		{"{'a': resource.name}['a'] == 'a'", hostVars{"resource.name": "a"}, 30 + 1 + 2 + 1, 30 + 1 + 2 + 1, "the same of a map"},
		{"{'a': resource.name}.a == 'a'", hostVars{"resource.name": "a"}, 30 + 1 + 1 + 1 + 33/30, 30 + 1 + 2 + 1, "a selection and one more for each 30: maps are not made for less"},
		{"has({'a': resource.name}.a)", hostVars{"resource.name": "a"}, 30 + 1 + 1 + 32/30, 30 + 1 + 2, "the test of a key is a selection"},
		{"[[resource.name]][0][0] == 'a'", hostVars{"resource.name": "a"}, 20 + 1 + 2 + 1 + 1, 20 + 1 + 2 + 1 + 1, "one more for the chain, not for each of its indices"},
		{"(tags + tags)[0] == 'a'", hostVars{"tags": []string{"a"}}, 2 + 1 + 2 + 1, 2 + 1 + 2 + 1, "what a call returns is made on the spot"},
		{"tags[0] == 'a'", hostVars{"tags": []string{"a"}}, 1 + 1 + 1, 1 + 1 + 1, "a variable is not"},
		{"string(resource.name) == resource.kind", hostVars{"resource.name": "a", "resource.kind": "b"}, 1 + 1 + 1 + 26, 1 + 1 + 1 + 1, "a string is as long as it was"},
	} {
		s, err := env.Compile(row.expr)
		if err != nil {
			t.Errorf("%s: %v", row.expr, err)
			continue
		}
		actual, err := s.ActualCost(env, row.vars)
		if s.Cost() != row.estimated || actual != row.actual || err != nil {
			t.Errorf("%s: estimated %d, actual %d, %v; want %d and %d: %s", row.expr, s.Cost(), actual, err, row.estimated, row.actual, row.why)
		}
	}
}
