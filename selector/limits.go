package selector

import "cmp"

// Limits bound the size of an expression and the cost of evaluating it. A zero field means its
// default; nothing is ever unlimited. Costs are CEL's: about one per operation, and a tenth per
// character looked at.
//
// Think twice before you raise Nodes or Depth for expressions that others write. The CEL library
// checks types in time that grows with the square of the nodes, and with the fourth power of the
// depth where lists or maps stand inside one another. With the defaults [Env.Compile] takes about a
// tenth of a second for the worst texts known. With the greatest limits it takes a second for a
// thousand comparisons, and a minute for ten kilobytes of brackets.
type Limits struct {
	TextBytes     int    `json:"textBytes,omitzero"`     // length of an expression; 4096 by default, at most 1048576
	Nodes         int    `json:"nodes,omitzero"`         // nodes of its syntax tree, macros expanded; 500 by default, at most 10000
	Depth         int    `json:"depth,omitzero"`         // nesting of its syntax; 50 by default, at most 250
	Nesting       int    `json:"nesting,omitzero"`       // comprehensions (all, exists, …) inside one another; 1 by default, at most 4
	RegexProgram  int    `json:"regexProgram,omitzero"`  // instructions of one compiled regular expression; 1000 by default, at most 10000
	EstimatedCost uint64 `json:"estimatedCost,omitzero"` // worst-case cost for data of the sizes below; 10000 by default, at most 100000000

	// StringBytes and ListItems are the sizes of data that the estimate assumes, and up to which
	// evaluation takes the fast path: by default 256 bytes in a string and 64 strings in a list, at
	// most 1048576 of either. Maps are only looked up, so their size costs nothing.
	StringBytes int `json:"stringBytes,omitzero"`
	ListItems   int `json:"listItems,omitzero"`

	// RunCost bounds the cost of one evaluation that meets larger data: at most 100000000, and never
	// below EstimatedCost. By default it is 10000, or EstimatedCost if that is more. A string of more
	// bytes than ten times RunCost, or a list of more items than RunCost, is refused without being
	// read.
	RunCost uint64 `json:"runCost,omitzero"`
}

// Upper bounds of the limits themselves: beyond them a deeply nested text could exhaust the stack,
// which no guard can catch, or an evaluation could take longer than a caller can wait.
const (
	maxTextBytes = 1 << 20
	maxNodes     = 10_000
	maxDepth     = 250
	maxNesting   = 4
	maxRegex     = 10_000
	maxData      = 1 << 20
	maxCost      = 100_000_000 // ten times as much must fit into an int on every platform
)

// Validate reports every field that is negative or beyond its bound, and a RunCost below
// EstimatedCost, joined, each a *[FieldError].
func (l Limits) Validate() error {
	var f faults
	check := func(name string, value, most int) {
		if value < 0 || value > most {
			f.add(name, CodeOutOfRange, value, "must be from 1 to %d, or 0 for the default", most)
		}
	}
	check("textBytes", l.TextBytes, maxTextBytes)
	check("nodes", l.Nodes, maxNodes)
	check("depth", l.Depth, maxDepth)
	check("nesting", l.Nesting, maxNesting)
	check("regexProgram", l.RegexProgram, maxRegex)
	check("stringBytes", l.StringBytes, maxData)
	check("listItems", l.ListItems, maxData)
	for _, cost := range []struct {
		name  string
		value uint64
	}{{"estimatedCost", l.EstimatedCost}, {"runCost", l.RunCost}} {
		if cost.value > maxCost {
			f.add(cost.name, CodeOutOfRange, cost.value, "must be at most %d", maxCost)
		}
	}
	if full := l.withDefaults(); full.RunCost < full.EstimatedCost {
		f.add("runCost", CodeConflict, full.RunCost, "must not be below estimatedCost %d, which expressions are admitted up to", full.EstimatedCost)
	}
	return f.err()
}

// withDefaults returns the limits with what zero fields stand for.
func (l Limits) withDefaults() Limits {
	return Limits{
		TextBytes:     cmp.Or(l.TextBytes, 4096),
		Nodes:         cmp.Or(l.Nodes, 500),
		Depth:         cmp.Or(l.Depth, 50),
		Nesting:       cmp.Or(l.Nesting, 1),
		RegexProgram:  cmp.Or(l.RegexProgram, 1000),
		EstimatedCost: cmp.Or(l.EstimatedCost, 10_000),
		StringBytes:   cmp.Or(l.StringBytes, 256),
		ListItems:     cmp.Or(l.ListItems, 64),
		RunCost:       cmp.Or(l.RunCost, max(10_000, l.EstimatedCost)),
	}
}

// A value beyond these sizes cannot be read within RunCost: a string costs a tenth per byte, a list
// one per item.
func (l Limits) refusedBytes() int { return int(l.RunCost) * 10 }
func (l Limits) refusedItems() int { return int(l.RunCost) }
