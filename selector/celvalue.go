package selector

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"sync"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
)

// program evaluates a checked expression with the CEL library.
type program struct {
	cel.Program
	activations sync.Pool // of *activation, which would otherwise be the only allocation that does not depend on the expression
}

// program plans the expression; limit 0 means that its cost is not metered.
func (t *syntaxTree) program(limit uint64) (*program, *fault) {
	options := []cel.ProgramOption{cel.EvalOptions(cel.OptOptimize)}
	if limit > 0 {
		prices := t.meter()
		options = append(options, cel.CostLimit(limit), cel.CostTracking(prices), prices.affordable(limit))
	}
	p, err := t.library.env.Program(t.ast, options...)
	if err != nil {
		return nil, t.unplanned(options)
	}
	return &program{Program: p, activations: sync.Pool{New: func() any { return new(activation) }}}, nil
}

// unplanned finds the innermost part of an expression that cannot be planned. Planning converts
// literals, and so fails where one has no value of the other type, as in int('b'); its error has no
// place.
func (t *syntaxTree) unplanned(options []cel.ProgramOption) *fault {
	native := t.ast.NativeRep()
	var id int64
	var cause error
	ast.PostOrderVisit(native.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if cause == nil {
			part := ast.NewCheckedAST(ast.NewAST(e, native.SourceInfo()), native.TypeMap(), native.ReferenceMap())
			id = e.ID()
			_, cause = t.library.env.PlanProgram(part, options...)
		}
	}))
	f := &fault{msg: "this has no value, whatever the data: " + cut(fmt.Sprint(cause)), hint: "correct what is converted here"}
	t.tree().walk(func(n *expr) {
		if n.id == id {
			f.at = n
		}
	})
	return f
}

// affordable plans calls of matches such that one which alone costs more than the limit is not
// made. The library charges for a call that was made, and then cancels: a regular expression of a
// thousand instructions takes seconds for the longest text that is read, and a thousandth of that
// for what the limit allows. The result of a call that is not made does not matter, because it is
// charged for like the others.
func (m *meter) affordable(limit uint64) cel.ProgramOption {
	factory := func(call interpreter.InterpretableCall, pattern string) (interpreter.InterpretableCall, error) {
		re, err := regexp.Compile(pattern)
		if err != nil {
			return nil, err
		}
		return interpreter.NewCall(call.ID(), call.Function(), call.OverloadID(), call.Args(), func(args ...ref.Val) ref.Val {
			text, ok := args[0].(types.String)
			switch {
			case !ok:
				return types.NoSuchOverloadErr()
			case m.searching(text, pattern) > limit:
				return types.NewErr("not made: it costs too much")
			}
			return types.Bool(re.MatchString(string(text)))
		}), nil
	}
	var list []*interpreter.RegexOptimization
	for _, overload := range []string{overloads.Matches, overloads.MatchesString} { // by overload: the library has its own for the function
		list = append(list, &interpreter.RegexOptimization{Function: overloads.Matches, OverloadID: overload, RegexIndex: 1, Factory: factory})
	}
	return cel.OptimizeRegex(list...)
}

// match evaluates the program on in. Without metering it stops at the first value beyond the
// promised sizes and starts again, metered.
func (p *program) match(s *Selector, in input, metered bool) (bool, error) {
	a := p.activations.Get().(*activation)
	a.selector, a.in, a.metered = s, in, metered
	out, _, err := p.Eval(a)
	refused, tooLarge := a.refused, a.large
	// No data of the host may be kept.
	clear(a.maps[:a.used])
	a.used, a.large, a.refused, a.selector, a.in = 0, false, nil, nil, input{}
	p.activations.Put(a)
	switch {
	case refused != nil:
		return false, refused
	case tooLarge:
		return s.metered.match(s, in, true)
	case err == nil:
		return out == types.True, nil
	}
	// Of the library's own errors, only the text leaves this package.
	var cancelled interpreter.EvalCancelledError
	if inner, ok := err.(*types.Err); ok {
		switch e := inner.Unwrap().(type) {
		case *missingKey:
			return false, e
		case *EvalError:
			return false, e
		}
	} else if errors.As(err, &cancelled) && cancelled.Cause == interpreter.CostLimitExceeded {
		return false, &EvalError{Expr: s.text, limit: true, Msg: fmt.Sprintf("the data costs more to evaluate than the limit of %d", s.limits.RunCost)}
	}
	return false, &EvalError{Expr: s.text, Msg: cut(err.Error())} // some faults quote the data
}

// activation gives the library the variables of one evaluation.
type activation struct {
	selector *Selector
	in       input
	metered  bool
	large    bool       // a value is beyond the promised sizes, and cost is not metered
	refused  *EvalError // a value is beyond what metering could bound
	maps     [2]mapValue
	used     int
}

func (a *activation) Parent() interpreter.Activation { return nil }

func (a *activation) ResolveName(name string) (any, bool) {
	for i := range a.selector.reads {
		if v := &a.selector.reads[i]; v.Name == name {
			return a.resolve(v), true
		}
	}
	return nil, false
}

func (a *activation) resolve(v *variable) any {
	if values := a.in.values; values != nil && values.slots[v.slot].bound {
		// Read the slot directly where that saves putting the value into an interface twice.
		switch s := &values.slots[v.slot]; v.Type {
		case String:
			return a.text(v.Name, "bytes", s.text)
		case StringMap:
			return a.labels(v.Name, s.labels)
		}
	}
	switch x := valueOf(a.in.vars, v.Name).(type) {
	case string:
		if v.Type == String {
			return a.text(v.Name, "bytes", x)
		}
	case map[string]string:
		if v.Type == StringMap {
			return a.labels(v.Name, x)
		}
	case int64:
		if v.Type == Int {
			return types.Int(x)
		}
	case bool:
		if v.Type == Bool {
			return types.Bool(x)
		}
	case time.Time:
		if v.Type == Timestamp {
			// In UTC, so that no result depends on where the host read the clock.
			return types.Timestamp{Time: x.UTC()}
		}
	case []string:
		if v.Type == StringList {
			return a.list(v.Name, x)
		}
	}
	return types.WrapErr(a.selector.faultOf(a.in.vars, v.Variable))
}

func (a *activation) labels(name string, labels map[string]string) *mapValue {
	if a.used == len(a.maps) {
		return &mapValue{activation: a, name: name, labels: labels}
	}
	m := &a.maps[a.used]
	a.used++
	m.activation, m.name, m.labels = a, name, labels
	return m
}

// text and list return a value, or note that it is too large and return an error that only ends the
// evaluation.
func (a *activation) text(name, unit, text string) ref.Val {
	if len(text) > a.selector.limits.StringBytes {
		if err := a.excess(name, unit, len(text), a.selector.limits.refusedBytes()); err != nil {
			return err
		}
	}
	return types.String(text)
}

func (a *activation) list(name string, list []string) ref.Val {
	if len(list) > a.selector.limits.ListItems {
		if err := a.excess(name, "items", len(list), a.selector.limits.refusedItems()); err != nil {
			return err
		}
	}
	for _, text := range list {
		if len(text) > a.selector.limits.StringBytes {
			if err := a.excess(name, "bytes in an item", len(text), a.selector.limits.refusedBytes()); err != nil {
				return err
			}
		}
	}
	return types.NewStringList(types.DefaultTypeAdapter, list)
}

func (a *activation) excess(name, unit string, size, limit int) ref.Val {
	if !a.metered {
		a.large = true
		return types.NewErrFromString("too large")
	}
	if size > limit {
		if a.refused == nil {
			a.refused = &EvalError{Expr: a.selector.text, Variable: name, limit: true,
				Msg: fmt.Sprintf("%s has %d %s, the limit is %d", name, size, unit, limit)}
		}
		return types.NewErrFromString("too large")
	}
	return nil
}

// mapValue is a map of strings that can be asked for keys and nothing else. It is no traits.Mapper
// on purpose: for a Mapper the library reports a missing key by an error of its own, which only its
// text identifies.
type mapValue struct {
	activation *activation
	name       string
	labels     map[string]string
}

var (
	_ traits.Indexer     = (*mapValue)(nil)
	_ traits.Container   = (*mapValue)(nil)
	_ traits.FieldTester = (*mapValue)(nil)
)

// Get implements m['k'] and m.k.
func (m *mapValue) Get(index ref.Val) ref.Val {
	key, ok := index.(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(index)
	}
	text, ok := m.labels[string(key)]
	if !ok {
		return types.WrapErr(newMissingKey(m.name, string(key)))
	}
	return m.activation.text(m.name, "bytes in a value", text)
}

// Contains implements 'k' in m.
func (m *mapValue) Contains(value ref.Val) ref.Val {
	key, ok := value.(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(value)
	}
	_, ok = m.labels[string(key)]
	return types.Bool(ok)
}

// IsSet implements has(m.k).
func (m *mapValue) IsSet(field ref.Val) ref.Val { return m.Contains(field) }

// Type implements ref.Val. Its traits are what lets the library call Get, Contains and IsSet.
func (m *mapValue) Type() ref.Type { return types.MapType }

// Equal implements ref.Val; comparing maps is refused when an expression is compiled.
func (m *mapValue) Equal(other ref.Val) ref.Val { return types.MaybeNoSuchOverloadErr(other) }

// ConvertToType implements ref.Val; a map cannot be converted.
func (m *mapValue) ConvertToType(typ ref.Type) ref.Val {
	return types.NewErrFromString("a map cannot be converted to " + typ.TypeName())
}

// ConvertToNative implements ref.Val; nothing asks for it.
func (m *mapValue) ConvertToNative(typ reflect.Type) (any, error) {
	return nil, fmt.Errorf("a map cannot be converted to %v", typ)
}

// Value implements ref.Val.
func (m *mapValue) Value() any { return m.labels }
