package selector

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/ast"
	celconfig "github.com/google/cel-go/common/env"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/parser"
)

// Only this file and celvalue.go use the CEL library, whose module path will change.

// library is a CEL environment for one schema.
type library struct {
	env     *cel.Env
	noMacro *cel.Env // the same language without macros, to explain why one does not expand

	declared map[string]bool // names of variables
	maps     map[string]bool // of those that are maps
	limits   Limits
}

func newLibrary(variables []Variable, limits Limits) (*library, error) {
	// dyn would undo all type checking; it is the only standard function that is left out.
	standard := cel.StdLib(cel.StdLibSubset(&celconfig.LibrarySubset{ExcludeFunctions: []*celconfig.Function{{Name: overloads.TypeConvertDyn}}}))
	language := []cel.EnvOption{
		standard,
		cel.DefaultUTCTimeZone(true),
		cel.ParserExpressionSizeLimit(limits.TextBytes),
		cel.ParserRecursionLimit(limits.Depth),
		cel.ASTValidators(cel.ValidateDurationLiterals(), cel.ValidateTimestampLiterals(), cel.ValidateHomogeneousAggregateLiterals()),
		// Tempting, but it panics in this version: cel.RegexProgramSizeLimit. See Env.regex.
	}
	celTypes := map[Type]*cel.Type{String: cel.StringType, Int: cel.IntType, Bool: cel.BoolType, Timestamp: cel.TimestampType,
		StringList: cel.ListType(cel.StringType), StringMap: cel.MapType(cel.StringType, cel.StringType)}
	l := &library{declared: map[string]bool{}, maps: map[string]bool{}, limits: limits}
	full := slices.Concat(language, []cel.EnvOption{cel.EnableMacroCallTracking()})
	for _, v := range variables {
		full = append(full, cel.Variable(v.Name, celTypes[v.Type]))
		l.declared[v.Name], l.maps[v.Name] = true, v.Type == StringMap
	}
	var err error
	if l.env, err = cel.NewCustomEnv(full...); err != nil {
		return nil, fmt.Errorf("selector: the CEL environment cannot be built: %v", err)
	}
	if l.noMacro, err = cel.NewCustomEnv(append(language, cel.ClearMacros())...); err != nil {
		return nil, fmt.Errorf("selector: the CEL environment cannot be built: %v", err)
	}
	return l, nil
}

// functions lists the names of all functions and operators that an expression can use. The library
// has more, so that it can run what its early versions checked.
func (l *library) functions() []string {
	var names []string
	for name, function := range l.env.Functions() {
		if !function.IsDeclarationDisabled() {
			names = append(names, name)
		}
	}
	return names
}

// trouble is a fault that the library finds in a text.
type trouble struct {
	line, col int
	at        *expr // if not nil, the place is where it begins
	msg, hint string
	limit     bool // the parser gave up, because the text is nested too deep
}

// syntaxTree is a text parsed, or parsed and checked. A tree that is only parsed must be checked at
// most once, and never by two goroutines (google/cel-go#881): it lives inside one call of Compile.
type syntaxTree struct {
	library *library
	ast     *cel.Ast
	root    *expr
}

func (l *library) parse(text string) (*syntaxTree, *trouble) {
	parsed, issues := l.env.Parse(text)
	if t, _ := first(issues); t != nil {
		if t.line == 0 {
			// Faults without a place are those of the parser itself, not of the text: it gave up.
			t.limit = true
		}
		return nil, t
	}
	return &syntaxTree{library: l, ast: parsed}, nil
}

func (l *library) check(parsed *syntaxTree) (*syntaxTree, *trouble) {
	tree := parsed.tree()
	checked, issues := l.env.Check(parsed.ast)
	if t, id := first(issues); t != nil {
		precedence := ""
		tree.walk(func(n *expr) {
			precedence = cmp.Or(precedence, n.precedence(id, readable(t.msg)))
			// A lookup that is itself at fault is where its dot or bracket is.
			if n.id == id && (misfit(readable(t.msg)) || !n.lookup()) {
				t.at = n
			}
			t.hint = cmp.Or(n.remedy(id, readable(t.msg), l.sound), t.hint)
		})
		t.hint = cmp.Or(precedence, t.hint, untyped(readable(t.msg)))
		return nil, t
	}
	return &syntaxTree{library: l, ast: checked}, nil
}

// sound reports whether a node is surely right by itself in a tree that does not type-check: a
// literal, a variable, or a constant key of a map variable.
func (l *library) sound(n *expr) bool {
	named := func(n *expr, among map[string]bool) bool {
		path, ok := n.path()
		return ok && among[strings.Join(path, ".")]
	}
	switch {
	case n.kind == kindLiteral || named(n, l.declared):
		return true
	case n.call(opIndex, 2):
		_, constant := n.args[1].text()
		return constant && named(n.args[0], l.maps)
	}
	return n.kind == kindSelect && named(n.args[0], l.maps)
}

// first returns the first fault that has a place, or else the first fault, and the id of the node
// that it is about; nil if there is none.
func first(issues *cel.Issues) (*trouble, int64) {
	faults := issues.Errors()
	if len(faults) == 0 {
		return nil, 0
	}
	for _, f := range faults {
		if f.Location != common.NoLocation {
			return &trouble{line: f.Location.Line(), col: f.Location.Column() + 1, msg: strings.TrimSpace(f.Message)}, f.ExprID
		}
	}
	return &trouble{msg: strings.TrimSpace(faults[0].Message)}, faults[0].ExprID
}

// misusedMacro explains a text that fails to parse only because a macro does not expand.
func (l *library) misusedMacro(text string) *fault {
	parsed, issues := l.noMacro.Parse(text)
	if len(issues.Errors()) > 0 {
		return nil
	}
	var f *fault
	(&syntaxTree{library: l, ast: parsed}).tree().walk(func(n *expr) {
		if f != nil || n.kind != kindCall {
			return
		}
		switch {
		case n.name == "has" && !n.member && len(n.args) == 1 && n.args[0].kind != kindSelect:
			f = &fault{at: n, msg: "has() takes a selection such as m.key", hint: "write has(m.key) or 'key' in m"}
		case n.member && (n.name == "all" || n.name == "exists" || n.name == "exists_one" || n.name == "map" || n.name == "filter"):
			if len(n.args) > 1 && n.args[1].kind != kindName {
				f = &fault{at: n.args[1], msg: "the loop variable of " + n.name + " must be a simple name", hint: "as in list." + n.name + "(x, x == 'a')"}
			}
		}
	})
	return f
}

// canonical prints the checked tree on one line. It returns text as it was written if the printed
// form is longer than may be compiled, or does not parse to the same expression again.
func (l *library) canonical(checked *syntaxTree, text string) string {
	text = strings.TrimSpace(text)
	printed, ok := checked.print()
	if !ok || len(printed) > l.limits.TextBytes {
		return text
	}
	again, trouble := l.parse(printed)
	if trouble != nil {
		return text
	}
	if twice, _ := again.print(); twice != printed || !again.tree().equal(checked.tree()) {
		return text // -(10) is printed as -10, which is a literal
	}
	return printed
}

func (t *syntaxTree) print() (string, bool) {
	native := t.ast.NativeRep()
	printed, err := parser.Unparse(native.Expr(), native.SourceInfo(), parser.WrapOnColumn(math.MaxInt32))
	return printed, err == nil
}

// cost returns the worst-case cost for data of the promised sizes.
//
// A chain of keys that begins at a value made on the spot, as in ['a', x][0], costs one more when
// it runs than the library estimates. For an index the meter adds that. The library asks nobody for
// the price of a selection as in {'a': x}.a, but there each one more comes with the price of
// another map.
func (t *syntaxTree) cost() (uint64, error) {
	estimate, err := t.library.env.EstimateCost(t.ast, t.meter())
	cost, selected := estimate.Max, false
	t.tree().walk(func(n *expr) {
		selected = selected || (n.kind == kindSelect || n.kind == kindHas) && n.args[0].kind == kindMap
	})
	if more := cost / common.MapCreateBaseCost; selected && more < math.MaxUint64-cost {
		cost += more
	}
	return cost, err
}

// meter is the price list of one expression, for the estimate and for metering. It is the library's
// own list with two prices corrected, and one more in the estimate: see cost. Converting a string
// costs by its length. A regular expression costs by what it compiles to, not by its text:
// (a{1,30}){1,30} is short, but 30 times as slow as others of its length.
type meter struct {
	*library
	patterns map[string]uint64 // what each regular expression costs per ten characters
}

func (t *syntaxTree) meter() *meter {
	m := &meter{library: t.library, patterns: map[string]uint64{}}
	t.tree().walk(func(n *expr) {
		if n.kind == kindCall && n.name == overloads.Matches && len(n.args) == 2 {
			if pattern, ok := n.args[1].text(); ok {
				size, _ := programSize(pattern)
				m.patterns[pattern] = (uint64(max(size, len(pattern))) + perInstruction - 1) / perInstruction
			}
		}
	})
	return m
}

const (
	perCharacter   = common.StringTraversalCostFactor // cost of looking at one character of a string
	perInstruction = 4                                // instructions of a regular expression that run at the cost of one
	formatted      = 64                               // bound on the length of a string converted from another type
)

// EstimateSize returns the promised sizes of data. A value that does not come from a declared
// variable has no promised size: the library then assumes the worst.
func (m *meter) EstimateSize(n checker.AstNode) *checker.SizeEstimate {
	if n.Type().Kind() == types.TypeKind {
		return &checker.SizeEstimate{Min: 1, Max: 1}
	}
	path := n.Path()
	if len(path) == 0 || !m.declared[path[0]] {
		return nil
	}
	switch n.Type().Kind() {
	case types.StringKind:
		return &checker.SizeEstimate{Max: uint64(m.limits.StringBytes)}
	case types.ListKind:
		return &checker.SizeEstimate{Max: uint64(m.limits.ListItems)}
	}
	return nil
}

// EstimateCallCost returns the price of a call before it is made; nil leaves it to the library.
func (m *meter) EstimateCallCost(_, overload string, target *checker.AstNode, args []checker.AstNode) *checker.CallEstimate {
	if target != nil {
		args = append([]checker.AstNode{*target}, args...)
	}
	size := func(n checker.AstNode) checker.SizeEstimate {
		if s := n.ComputedSize(); s != nil {
			return *s
		}
		return checker.UnknownSizeEstimate()
	}
	one := checker.FixedCostEstimate(1)
	switch overload {
	case overloads.StringToString:
		result := size(args[0])
		return &checker.CallEstimate{CostEstimate: one, ResultSize: &result}
	case overloads.IntToString, overloads.UintToString, overloads.DoubleToString, overloads.BoolToString, overloads.TimestampToString, overloads.DurationToString:
		return &checker.CallEstimate{CostEstimate: one, ResultSize: &checker.SizeEstimate{Max: formatted}}
	case overloads.Matches, overloads.MatchesString:
		pattern, _ := args[1].Expr().AsLiteral().Value().(string)
		cost := size(args[0]).MultiplyByCostFactor(perCharacter).Add(one).Multiply(checker.FixedCostEstimate(m.patterns[pattern]))
		return &checker.CallEstimate{CostEstimate: cost}
	case overloads.IndexList, overloads.IndexMap:
		if made(args[0].Expr()) {
			return &checker.CallEstimate{CostEstimate: checker.FixedCostEstimate(2)}
		}
	}
	if fromString(overload) {
		return &checker.CallEstimate{CostEstimate: size(args[0]).MultiplyByCostFactor(perCharacter).Add(one)}
	}
	return nil
}

// made reports whether a value is made on the spot, and not found in a variable or in another
// value.
func made(e ast.Expr) bool {
	switch e.Kind() {
	case ast.ListKind, ast.MapKind, ast.ComprehensionKind:
		return true
	case ast.CallKind:
		name := e.AsCall().FunctionName()
		return name != opIndex && name != opCondition
	}
	return false
}

// CallCost returns the price of a call that was made, by the same list; nil leaves it to the
// library.
func (m *meter) CallCost(_, overload string, args []ref.Val, _ ref.Val) *uint64 {
	text, ok := args[0].(types.String)
	var cost uint64
	switch {
	case !ok:
		return nil
	case overload == overloads.Matches || overload == overloads.MatchesString:
		pattern, _ := args[1].(types.String)
		cost = m.searching(text, string(pattern))
	case fromString(overload):
		cost = reading(text)
	default:
		return nil
	}
	return &cost
}

// reading returns the price of reading a text once, and searching that of a regular expression that
// is searched for in it.
func reading(text types.String) uint64 {
	return uint64(math.Ceil(float64(utf8.RuneCountInString(string(text)))*perCharacter)) + 1
}

func (m *meter) searching(text types.String, pattern string) uint64 {
	return reading(text) * m.patterns[pattern]
}

// fromString reports whether the overload converts a string into something else.
func fromString(overload string) bool {
	switch overload {
	case overloads.StringToBool, overloads.StringToInt, overloads.StringToUint, overloads.StringToDouble,
		overloads.StringToTimestamp, overloads.StringToDuration:
		return true
	}
	return false
}

// tree converts the library's tree.
func (t *syntaxTree) tree() *expr {
	if t.root == nil {
		native := t.ast.NativeRep()
		t.root = (&converter{native}).expr(native.Expr())
	}
	return t.root
}

type converter struct{ *ast.AST }

func (c *converter) expr(e ast.Expr) *expr {
	// Without a place the library says -1 for both.
	place := c.SourceInfo().GetStartLocation(e.ID())
	n := &expr{id: e.ID(), line: max(0, place.Line()), col: place.Column() + 1}
	if c.IsChecked() {
		n.typ = typeOf(c.GetType(e.ID()))
	}
	add := func(children ...ast.Expr) {
		for _, child := range children {
			n.args = append(n.args, c.expr(child))
		}
	}
	switch e.Kind() {
	case ast.LiteralKind:
		if n.kind = kindLiteral; e.AsLiteral() != types.NullValue {
			n.value = e.AsLiteral().Value()
		}
	case ast.IdentKind:
		n.kind, n.name = kindName, e.AsIdent()
	case ast.SelectKind:
		s := e.AsSelect()
		n.kind, n.name = kindSelect, s.FieldName()
		if s.IsTestOnly() {
			n.kind = kindHas
		}
		add(s.Operand())
	case ast.CallKind:
		call := e.AsCall()
		n.kind, n.name, n.member = kindCall, call.FunctionName(), call.IsMemberFunction()
		if n.member {
			add(call.Target())
		}
		add(call.Args()...)
	case ast.ListKind:
		n.kind = kindList
		add(e.AsList().Elements()...)
	case ast.MapKind:
		n.kind = kindMap
		for _, entry := range e.AsMap().Entries() {
			add(entry.AsMapEntry().Key(), entry.AsMapEntry().Value())
		}
	case ast.StructKind:
		n.kind, n.name = kindMessage, e.AsStruct().TypeName()
		for _, entry := range e.AsStruct().Fields() {
			add(entry.AsStructField().Value())
		}
	case ast.ComprehensionKind:
		comprehension := e.AsComprehension()
		n.kind, n.name = kindComprehend, comprehension.IterVar() // only macros of cel-go/ext have two variables
		add(comprehension.IterRange(), comprehension.AccuInit(), comprehension.LoopCondition(), comprehension.LoopStep(), comprehension.Result())
	}
	return n
}

func typeOf(t *types.Type) exprType {
	switch t.Kind() {
	case types.StringKind:
		return typeString
	case types.IntKind:
		return typeInt
	case types.BoolKind:
		return typeBool
	case types.DynKind, types.AnyKind, types.ErrorKind, types.TypeParamKind:
		return typeUnknown
	}
	return typeOther
}
