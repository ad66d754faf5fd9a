package rollout_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/tranche-dev/tranche"

// root is the folder of the module, seen from this package.
const root = ".."

// allowed lists what each package of the library may import besides the standard library, and why.
// A package that is not listed fails the test: decide where it stands first.
func allowed() map[string][]string {
	return map[string][]string{
		"":                            nil,                                          // documentation only
		"clock":                       {"internal/strictjson", "internal/textlist"}, // ground
		"concurrency":                 {"internal/instant", "internal/strictjson", "internal/textkey", "internal/textlist", "internal/textorder"},
		"concurrency/concurrencytest": {"concurrency", "pgregory.net/rapid"}, // kits use the tools of tests
		"selector":                    {"internal/celtext", "internal/strictjson", "github.com/google/cel-go", "cel.dev/expr"},
		"internal/celtext":            nil,
		"internal/chance":             nil,
		"internal/instant":            nil,
		"internal/strictjson":         nil,
		"internal/runid":              {"internal/textkey"},
		"internal/textkey":            nil,
		"internal/textlist":           nil,
		"internal/textorder":          nil,
		"internal/testkit":            {"internal/strictjson", "pgregory.net/rapid"}, // for tests
		"internal/golden":             {"github.com/google/go-cmp"},
		"bracket":                     {"concurrency", "internal/instant", "internal/strictjson", "internal/textkey", "internal/textlist", "internal/textorder"},
		"bracket/brackettest":         {"bracket", "pgregory.net/rapid"},
		"partition":                   {"concurrency", "selector", "internal/strictjson", "internal/textkey", "internal/textlist"},
		"surge":                       {"concurrency", "internal/strictjson", "internal/textkey", "internal/textlist"},
		"rollout":                     {"bracket", "partition", "surge", "concurrency", "clock", "internal/celtext", "internal/instant", "internal/runid", "internal/strictjson", "internal/textkey", "internal/textlist", "internal/textorder"}, // never selector: importers that bring another matcher do not link CEL
		"rollout/staged":              {"concurrency", "selector", "clock", "internal/strictjson", "internal/textkey", "internal/textlist"},
		"rollout/staged/stagedtest":   {"rollout/staged", "internal/chance", "internal/instant", "internal/textkey", "internal/textlist"},
		"rollout/rollouttest":         {"rollout", "bracket", "concurrency", "clock", "internal/chance", "internal/instant", "internal/runid", "internal/textkey", "internal/textlist", "pgregory.net/rapid"},
	}
}

// shells may hold what the core may not: locks, goroutines, the wall clock. They are files or
// packages.
func shells() []string {
	return []string{
		"clock/clock.go",              // the one reader of the wall clock
		"rollout/planner.go",          // load, plan, save
		"bracket/memory.go",           // reference store
		"concurrency/jobs.go",         // reference counter
		"selector/celvalue.go",        // a sync.Pool of activations: memory is reused, never a result
		"bracket/brackettest",         // kits
		"concurrency/concurrencytest", //
		"rollout/rollouttest",         //
		"rollout/staged/stagedtest",   //
		"internal/chance",             //
		"internal/testkit",            //
		"internal/golden",             //
	}
}

func isShell(file string) bool {
	return slices.ContainsFunc(shells(), func(shell string) bool { return file == shell || strings.HasPrefix(file, shell+"/") })
}

type source struct {
	file string // relative to the module
	dir  string
	ast  *ast.File
}

func sources(t *testing.T) (*token.FileSet, []source) {
	t.Helper()
	set := token.NewFileSet()
	var list []source
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel := filepath.ToSlash(strings.TrimPrefix(strings.TrimPrefix(name, root), string(filepath.Separator)))
		if entry.IsDir() {
			if rel == "examples" || entry.Name() == "testdata" || strings.HasPrefix(entry.Name(), ".") && rel != "" {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(rel, ".go") || strings.HasSuffix(rel, "_test.go") {
			return nil
		}
		parsed, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		list = append(list, source{file: rel, dir: strings.TrimPrefix(path.Dir(rel), "."), ast: parsed})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(list) < 10 {
		t.Fatalf("only %d source files found below %s", len(list), root)
	}
	return set, list
}

func TestImportDirections(t *testing.T) {
	rules := allowed()
	_, list := sources(t)
	for _, s := range list {
		may, known := rules[s.dir]
		if !known {
			t.Errorf("%s: package %q has no place in the house: add it to the list with its imports", s.file, s.dir)
			continue
		}
		for _, spec := range s.ast.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			local, own := strings.CutPrefix(name, module+"/")
			if !own && !strings.Contains(strings.Split(name, "/")[0], ".") {
				continue // standard library
			}
			if !slices.ContainsFunc(may, func(prefix string) bool { return local == prefix || !own && strings.HasPrefix(local, prefix) }) {
				t.Errorf("%s imports %s: package %q may import %v", s.file, name, s.dir, may)
			}
		}
	}
}

// TestWhoLinksCEL: only packages that select by expression link the CEL library, which is most of
// what an importer carries. A package of the house that may be imported can bring it along.
func TestWhoLinksCEL(t *testing.T) {
	_, list := sources(t)
	imports := map[string][]string{} // by folder
	for _, s := range list {
		for _, spec := range s.ast.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			imports[s.dir] = append(imports[s.dir], strings.TrimPrefix(name, module+"/"))
		}
	}
	links := map[string]bool{} // folders that import it, or one that does
	for changed := true; changed; {
		changed = false
		for dir, names := range imports {
			if !links[dir] && slices.ContainsFunc(names, func(name string) bool { return links[name] || strings.HasPrefix(name, "github.com/google/cel-go") }) {
				links[dir], changed = true, true
			}
		}
	}
	for dir := range imports {
		if want := dir == "selector" || dir == "partition" || strings.HasPrefix(dir, "rollout/staged"); links[dir] != want {
			t.Errorf("package %q links CEL: %v, want %v", dir, links[dir], want)
		}
	}
}

// TestPureCore finds what makes a result depend on something else than its input.
func TestPureCore(t *testing.T) {
	set, list := sources(t)
	for _, s := range list {
		if isShell(s.file) {
			continue
		}
		report := func(pos token.Pos, what string) { t.Errorf("%s: %s", set.Position(pos), what) }
		for _, spec := range s.ast.Imports {
			switch name, _ := strconv.Unquote(spec.Path.Value); name {
			case "os", "net", "net/http", "log", "log/slog", "math/rand", "math/rand/v2", "crypto/rand", "hash/maphash", "sync", "sync/atomic", "unsafe", "io/fs", "os/exec":
				report(spec.Pos(), "the core does not import "+name)
			}
		}
		for _, decl := range s.ast.Decls {
			if general, ok := decl.(*ast.GenDecl); ok && general.Tok == token.VAR {
				for _, spec := range general.Specs {
					if value := spec.(*ast.ValueSpec); !isSentinel(value) {
						report(value.Pos(), "package variable "+value.Names[0].Name+": only error sentinels are")
					}
				}
			}
			if function, ok := decl.(*ast.FuncDecl); ok && function.Recv == nil && function.Name.Name == "init" {
				report(function.Pos(), "init function")
			}
		}
		ast.Inspect(s.ast, func(node ast.Node) bool {
			switch node := node.(type) {
			case *ast.GoStmt:
				report(node.Pos(), "go statement")
			case *ast.SelectStmt, *ast.SendStmt:
				report(node.Pos(), "channel")
			case *ast.SelectorExpr:
				if pkg, ok := node.X.(*ast.Ident); ok && pkg.Name == "time" {
					switch node.Sel.Name {
					case "Now", "Since", "Until", "Sleep", "After", "Tick", "NewTimer", "NewTicker", "AfterFunc", "Local":
						report(node.Pos(), "time."+node.Sel.Name+": now is an argument")
					}
				}
			}
			return true
		})
	}
}

func isSentinel(value *ast.ValueSpec) bool {
	if value.Names[0].Name == "_" {
		return true // an assertion that a type implements an interface
	}
	if len(value.Values) != len(value.Names) {
		return false
	}
	for i, name := range value.Names {
		call, ok := value.Values[i].(*ast.CallExpr)
		if !ok || !strings.HasPrefix(name.Name, "Err") && !strings.HasPrefix(name.Name, "err") {
			return false
		}
		function, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || function.Sel.Name != "New" && function.Sel.Name != "Errorf" {
			return false
		}
	}
	return true
}

// TestPanics: a panic is for a wrong literal or an impossible state, never for input. Each function
// that may is listed with its reason.
func TestPanics(t *testing.T) {
	reasons := map[string]string{
		"clock/clock.go Advance":       "a test that moves time back proves nothing",
		"concurrency/limit.go Count":   "constructor for literals; ParseLimit returns an error",
		"concurrency/limit.go Percent": "constructor for literals; ParseLimit returns an error",
	}
	set, list := sources(t)
	for _, s := range list {
		if isShell(s.file) && s.file != "clock/clock.go" {
			continue
		}
		for _, decl := range s.ast.Decls {
			function, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			ast.Inspect(function, func(node ast.Node) bool {
				call, ok := node.(*ast.CallExpr)
				if !ok {
					return true
				}
				name, ok := call.Fun.(*ast.Ident)
				if at := s.file + " " + function.Name.Name; ok && name.Name == "panic" && reasons[at] == "" {
					t.Errorf("%s: %s panics: return an error, or list it with its reason", set.Position(call.Pos()), at)
				}
				return true
			})
		}
	}
}

// TestDirectDependencies: an importer carries what go.mod lists, so every line needs a reason.
func TestDirectDependencies(t *testing.T) {
	reasons := map[string]string{
		"github.com/google/cel-go": "selector",
		"github.com/google/go-cmp": "test diffs",
		"pgregory.net/rapid":       "properties and state machines",
		"go.yaml.in/yaml/v3":       "input files of the examples",
	}
	data, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	direct := 0
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		if len(fields) < 2 || !strings.HasPrefix(fields[1], "v") || strings.Contains(line, "// indirect") {
			continue
		}
		direct++
		if reasons[fields[0]] == "" {
			t.Errorf("go.mod requires %s without a reason", fields[0])
		}
	}
	if direct != len(reasons) {
		t.Errorf("go.mod has %d direct dependencies, %d are listed with a reason", direct, len(reasons))
	}
}
