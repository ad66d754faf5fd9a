// Package selector decides which resources, deployments, environments and versions a rule is about.
// It compiles CEL expressions over declared, typed variables, and Kubernetes label selectors, once,
// and matches them often, alone or through an index. Make an [Env] of the variables and limits
// once, turn each expression into a [*Selector] with [Env.Compile], and call [Selector.Match],
// which answers yes, no, or that a key is missing:
//
//	env, err := selector.NewEnv(selector.DefaultSchema(), selector.Limits{})
//	sel, err := env.Compile("deployment.metadata['layer'] == 'node' && !('canary' in resource.metadata)")
//	ok, err := sel.Match(vars)
//
// A label selector over a plain map needs no Env: [LabelSelector.Compile] returns [Labels], which
// have their own Match.
//
// The package performs no I/O, starts no goroutine, reads no clock, keeps nothing between calls,
// and never decides what a missing key means to its caller.
//
// # Language
//
// The language is CEL with its standard functions and macros. Variables are flat: resource.kind is
// one variable, not a field of another, and a name that is not declared does not compile. There are
// no values of unknown type (dyn), no extension functions, and no messages. A map variable supports
// only the lookup of a key (m['k'], m.k) and the test for one ('k' in m, has(m.k)). A regular
// expression must be a literal, and a time zone 'UTC' or an offset. The result must be a bool.
//
// A missing key is neither a match nor a mismatch: resource.metadata['team'] != 'x' does not hold
// for a resource without team, and Match returns [ErrMissingKey]. The operators || and && need only
// one side to decide.
//
// # Invariants
//
// Tests are named after them.
//
//	I1   Compile never panics, on any bytes.
//	I2   The time of a Match is bounded by the limits, on any data.
//	I3   Match is pure: same input, same verdict, from any number of goroutines.
//	I4   Native evaluation has the verdict of the CEL library, missing keys and errors included.
//	I5   Terms are sound: every match is among the candidates.
//	I6   Cost is never below the actual cost, for data within the promised sizes.
//	I7   Compile of a selector's String gives a selector with the same text and the same answers.
//	I8   A label selector equals its CEL text, in which absent keys are spelled out.
//	I9   No exported name, and no error, carries a type of the CEL library, and no other package
//	     of this module imports it.
//	I10  Matching natively allocates nothing.
package selector
