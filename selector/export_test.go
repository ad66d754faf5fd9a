package selector

import (
	"fmt"
	"slices"

	"github.com/google/cel-go/cel"
)

// CompileCEL compiles without the native subset: the second opinion on it.
func (e *Env) CompileCEL(expression string) (*Selector, error) { return e.compile(expression, false) }

// Native reports whether the selector is evaluated without the CEL library.
func (s *Selector) Native() bool { return s.plain == nil }

// Expression is the CEL text of a label selector.
func (l LabelSelector) Expression(variable string) string { return l.expression(variable) }

// ActualCost evaluates with the cost of every step counted.
func (s *Selector) ActualCost(e *Env, vars Vars) (uint64, error) {
	parsed, trouble := e.library.parse(s.text)
	if trouble != nil {
		panic(trouble.msg)
	}
	checked, trouble := e.library.check(parsed)
	if trouble != nil {
		panic(trouble.msg)
	}
	p, err := e.library.env.Program(checked.ast, cel.EvalOptions(cel.OptOptimize, cel.OptTrackCost), cel.CostTracking(checked.meter()))
	if err != nil {
		panic(err)
	}
	_, details, err := p.Eval(&activation{selector: s, in: input{vars: vars}})
	return *details.ActualCost(), err
}

// WithoutLibrary is an environment in which the CEL library cannot be called.
func WithoutLibrary() *Env {
	return &Env{layout: newLayout(DefaultSchema()), limits: Limits{}.withDefaults()}
}

// Kept says what an activation that was used before holds; empty: nothing.
func (s *Selector) Kept() string {
	a := s.plain.activations.Get().(*activation)
	if a.selector != nil || a.in != (input{}) || a.used != 0 || a.large || a.refused != nil || a.maps[0].labels != nil || a.maps[0].activation != nil {
		return fmt.Sprintf("%+v", *a)
	}
	return ""
}

// Postings is how many postings the index keeps, those in use and those to be used again.
func (x *Index) Postings() int { return len(x.postings) }

// Fields is how many variables and keys the index keeps, those with values and those to be used
// again.
func (x *Index) Fields() int { return len(x.holders) }

// ExportDefaultLimits are the limits that zero fields stand for.
func ExportDefaultLimits() Limits { return Limits{}.withDefaults() }

// Limits returns the limits in force.
func (e *Env) Limits() Limits { return e.limits }

// Schema returns the declared variables, sorted by name.
func (e *Env) Schema() Schema { return slices.Clone(e.layout.variables) }

// Len is the number of elements.
func (x *Index) Len() int { return x.all.n }
