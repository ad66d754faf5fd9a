package testkit

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tranche-dev/tranche/internal/strictjson"
)

// ofDocuments are the codes of document faults, which packages declare by the constants of package
// strictjson.
var ofDocuments = map[string]string{
	"CodeSyntax": strictjson.CodeSyntax, "CodeUnknownField": strictjson.CodeUnknownField, "CodeDuplicate": strictjson.CodeDuplicate, "CodeType": strictjson.CodeType,
}

// TextsStay checks the texts of the exported string constants of each type, sorted and joined by
// blanks: hosts store and compare them, so none may change, whatever the constant is called.
func TextsStay(t testing.TB, dir string, want map[string]string) {
	t.Helper()
	for kind, texts := range want {
		var got []string
		for _, constant := range Constants(t, dir, kind) {
			_, text, _ := strings.Cut(constant, " ")
			got = append(got, text)
		}
		if joined := strings.Join(got, " "); joined != texts {
			t.Errorf("%s: got  %s\nwant %s", kind, joined, texts)
		}
	}
}

// Constants lists the exported string constants of some types that the package in a directory
// declares, as "Type value", sorted. A [Tally] that has to reach them fails for a code that nothing
// gives, or that is added without a test.
func Constants(t interface{ Fatal(...any) }, dir string, types ...string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var values []string
	found := map[string]bool{}
	for _, entry := range entries {
		if name := entry.Name(); !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), dir+"/"+entry.Name(), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, declaration := range file.Decls {
			group, ok := declaration.(*ast.GenDecl)
			if !ok || group.Tok != token.CONST {
				continue
			}
			for _, one := range group.Specs {
				constant := one.(*ast.ValueSpec)
				of, ok := constant.Type.(*ast.Ident)
				if !ok || !slices.Contains(types, of.Name) || !constant.Names[0].IsExported() {
					continue
				}
				var text string
				switch value := constant.Values[0].(type) {
				case *ast.BasicLit:
					if text, err = strconv.Unquote(value.Value); err != nil {
						t.Fatal(err)
					}
				case *ast.SelectorExpr:
					if text = ofDocuments[value.Sel.Name]; text == "" {
						t.Fatal(constant.Names[0].Name + " has the value of a constant that is not known here")
					}
				default:
					continue // a number, which is no code
				}
				found[of.Name] = true
				values = append(values, of.Name+" "+text)
			}
		}
	}
	for _, name := range types {
		if !found[name] {
			t.Fatal("no constant of the type " + name + " in " + dir)
		}
	}
	slices.Sort(values)
	return slices.Compact(values)
}
