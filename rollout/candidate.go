package rollout

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/internal/runid"
)

// candidate is a start that passed every rule but capacity. There may be one per target, so it is
// small: its texts are built only if it starts.
type candidate struct {
	seconds     int64 // due time, since 1970
	nanoseconds int32
	position    int32
	target      int32
	version     int32        // number; missing if the snapshot no longer holds the version of a member
	attempt     int32        // outside brackets
	revert      bool         // takes the target back to the version before; goes first
	forced      bool         // an override lets it past a full pool
	member      *memberStart // nil outside brackets
}

// memberStart is a start that a bracket offers.
type memberStart struct {
	start *bracket.Start

	// If it begins an execution: the bracket, and the resource of the execution; else nil.
	bracket *bracketWork
	pending *pendingResource
}

// brings returns the runs of the execution that a candidate begins; nil if it begins none.
func (c *candidate) brings() []pendingRun {
	if c.member == nil || c.member.pending == nil {
		return nil
	}
	return c.member.bracket.runsOn(c.member.pending)
}

// anyRun reports whether is holds for the target and the version that a candidate starts or, if it
// begins an execution, for those of any run of that.
func (c *candidate) anyRun(is func(i, n int32) bool) bool {
	if runs := c.brings(); runs != nil {
		return slices.ContainsFunc(runs, func(run pendingRun) bool { return is(run.target, run.version) })
	}
	return is(c.target, c.version)
}

// runsOn returns the runs of a pending resource.
func (b *bracketWork) runsOn(p *pendingResource) []pendingRun { return b.runs[p.from:p.to] }

func newCandidate(target, version int32, due time.Time, position int32) candidate {
	return candidate{target: target, version: version, seconds: due.Unix(), nanoseconds: int32(due.Nanosecond()), position: position}
}

// resourceOf returns the id of the resource on which a candidate starts.
func (w *work) resourceOf(c *candidate) string { return w.resources[w.targets[c.target].resource].ID }

// run returns the id of the job that a candidate starts. The id stays the same until the job is
// observed, however often the start is offered.
func (w *work) run(c *candidate) string {
	if c.member != nil {
		return c.member.start.Run.String()
	}
	id := w.id(c.target)
	return runid.Target{Resource: id.Resource, Environment: id.Environment, Deployment: id.Deployment, Version: w.versionID(c)}.Join(&w.texts, int(c.attempt), c.revert)
}

// goesBack reports whether a candidate takes its target, or the resource of its execution, back.
func (c *candidate) goesBack() bool {
	return c.revert || c.member != nil && c.member.start.Run.Purpose == bracket.Rollback
}

func purpose(goesBack bool) Purpose {
	if goesBack {
		return PurposeRollback
	}
	return PurposeDeploy
}

func (w *work) versionID(c *candidate) string {
	if c.member != nil {
		return c.member.start.Version
	}
	return w.version(c.target, c.version).ID
}

// group returns the group that, with the resource, holds the lease of a candidate.
func (w *work) group(c *candidate) string {
	if c.member != nil {
		return c.member.start.Run.Group
	}
	return w.groupOf(&w.targets[c.target])
}

// groupOf returns the group that, with the resource, holds the slots of a target outside brackets.
func (w *work) groupOf(t *target) string {
	p := &w.pairs[w.pairOf(t)]
	if p.group == "" {
		p.group = runid.Group(t.Environment, t.Deployment)
	}
	return p.group
}

// sortBatch puts the candidates in the order in which they ask for capacity: starts that take a
// target back come first, then the order is by priority, due time, position and ids. Ids are
// compared only where the rest is equal. Small entries are sorted instead of candidates.
func (w *work) sortBatch() {
	type entry struct {
		seconds     int64
		nanoseconds int32
		position    int32
		index       int32
		class       int32
	}
	entries := make([]entry, w.candidates.len())
	first, last := int64(math.MaxInt64), int64(math.MinInt64) // of those that do not go back
	for k := range entries {
		c := w.candidates.at(int32(k))
		entries[k] = entry{c.seconds, c.nanoseconds, c.position, int32(k), w.class(c)}
		if !c.revert {
			first, last = min(first, c.seconds), max(last, c.seconds)
		}
	}
	var span uint64
	if seconds := uint64(last) - uint64(first); last > first && seconds < 1<<33 && len(w.priorities) == 0 { // else it may not fit in nanoseconds
		span = (seconds + 1) * 1e9
	}
	entries = sortSpread(entries, span, func(e entry) uint64 {
		if e.class == 0 || span == 0 {
			return 0
		}
		return uint64(e.seconds-first)*1e9 + uint64(e.nanoseconds)
	}, func(a, b entry) int {
		switch {
		case a.class != b.class:
			return cmp.Compare(a.class, b.class)
		case a.seconds != b.seconds:
			return cmp.Compare(a.seconds, b.seconds)
		case a.nanoseconds != b.nanoseconds:
			return cmp.Compare(a.nanoseconds, b.nanoseconds)
		case a.position != b.position:
			return cmp.Compare(a.position, b.position)
		}
		return w.compareIDs(w.candidates.at(a.index), w.candidates.at(b.index))
	})
	w.batch = make([]int32, len(entries))
	for k := range entries {
		w.batch[k] = entries[k].index
	}
}

// class returns 0 for a candidate that takes its target back, and for every other one a number that
// is the greater the lower its priority is.
func (w *work) class(c *candidate) int32 {
	switch {
	case c.revert:
		return 0
	case len(w.priorities) == 0:
		return 1
	}
	at, _ := slices.BinarySearchFunc(w.priorities, w.priority(c), func(a, b int) int { return cmp.Compare(b, a) })
	return int32(at) + 1
}

// priority returns that of the version that a candidate starts. The first start of an execution has
// the highest of those that the execution brings: what hooks and outdated members repeat says nothing
// about its urgency.
func (w *work) priority(c *candidate) int {
	runs := c.brings()
	if runs == nil {
		return w.priorityOf(c.target, c.version)
	}
	highest, brings := 0, false
	for _, run := range runs {
		if run.version == w.targets[run.target].current {
			continue
		}
		if own := w.priorityOf(run.target, run.version); !brings || own > highest {
			highest, brings = own, true
		}
	}
	return highest
}

// priorityOf returns the priority of version n for target i, and 0 if the snapshot does not hold it.
func (w *work) priorityOf(i, n int32) int {
	if n < 0 {
		return 0
	}
	return w.version(i, n).Priority
}

func (w *work) compareIDs(a, b *candidate) int {
	if a.target == b.target {
		return strings.Compare(w.run(a), w.run(b))
	}
	ta, tb := &w.targets[a.target], &w.targets[b.target]
	return cmp.Or(cmp.Compare(ta.resource, tb.resource), cmp.Compare(ta.environment, tb.environment), cmp.Compare(ta.deployment, tb.deployment))
}
