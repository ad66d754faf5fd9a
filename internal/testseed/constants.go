package testseed

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Constants lists the exported string constants of some types that the package in a directory declares, as "Type value", sorted: what a
// [Tally] has to reach, so that a code that nothing gives, or that is added without a test, fails one.
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
				literal, ok := constant.Values[0].(*ast.BasicLit)
				if !ok {
					continue // a number: these have no codes
				}
				text, err := strconv.Unquote(literal.Value)
				if err != nil {
					t.Fatal(err)
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
