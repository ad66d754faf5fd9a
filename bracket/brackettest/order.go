package brackettest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// keyHistory is what happened to one key: the calls, and the one order of the writes that took
// effect. Writes of unknown outcome are in it if a later call shows what they did.
type keyHistory struct {
	key                   string
	saves, deletes, reads []*call

	states []state       // in order, from that in which the key has never been
	places map[int64]int // of the revisions in states
	told   map[int64]int // when somebody was first told each revision
	faults []error
}

// state is what the key holds between two writes.
type state struct {
	revision int64 // 0: nothing
	writer   *call // nil for the first state
	earliest int   // when it can have begun
	latest   int   // when it must have begun
	absent   int   // how many states are without a revision, of those up to this one
}

func (k *keyHistory) fault(format string, arguments ...any) {
	k.faults = append(k.faults, fmt.Errorf("brackettest: %.40q: %s", k.key, fmt.Sprintf(format, arguments...)))
}

func (k *keyHistory) check() []error {
	for _, calls := range [][]*call{k.saves, k.deletes, k.reads} {
		slices.SortStableFunc(calls, func(a, b *call) int { return cmp.Compare(a.begin, b.begin) })
	}
	k.order()
	if len(k.faults) == 0 {
		k.bound()
	}
	if len(k.faults) == 0 { // else there is nothing to compare the other calls with
		k.refusals()
		k.readings()
	}
	return k.faults
}

// order finds the order of the writes: revisions grow, and each write names what it replaced.
func (k *keyHistory) order() {
	told := k.answers()
	k.states, k.places = []state{{}}, make(map[int64]int)
	before := int64(0)
	for _, revision := range slices.Sorted(maps.Keys(told.revisions)) {
		w, either := told.writer(revision, before)
		d := told.deleters[before]
		switch {
		case revision < 1:
			k.fault("revision %d is none: the least is 1", revision)
		case w == nil:
			what := ""
			if value, read := told.values[revision]; read {
				what = fmt.Sprintf(" with the value %.40q", value)
			}
			k.fault("nobody wrote revision %d%s, which comes after revision %d; or who did was told that it failed", revision, what, before)
		case w.replaced != before && w.replaced != 0:
			k.fault("%v wrote revision %d, when the last was revision %d", w, revision, before)
		case w.replaced != before && d == nil:
			k.fault("%v created revision %d, though nobody had deleted revision %d", w, revision, before)
		case w.replaced == before && d != nil && d.succeeded():
			k.fault("%v, and %v: both took effect", d, w)
		case w.replaced != before:
			k.states = append(k.states, state{writer: d})
		case either: // there may have been nothing in between
			if d.begin > w.begin {
				d = w
			}
			k.states = append(k.states, state{writer: d})
		}
		k.places[revision] = len(k.states)
		k.states = append(k.states, state{revision: revision, writer: w})
		before = revision
	}
	if d := told.deleters[before]; d != nil && d.succeeded() {
		k.states = append(k.states, state{writer: d})
	}
}

// answers is what the clients were told about the writes.
type answers struct {
	revisions map[int64]bool   // that anybody was told, or deleted
	values    map[int64]string // what was read
	writers   map[int64]*call  // for sure
	deleters  map[int64]*call  // for sure, or else the first that may have done it
	perhaps   map[attempt][]*call
	taken     map[*call]bool // of perhaps: that have written another revision for sure
}

// attempt is what a save of unknown outcome may have done.
type attempt struct {
	replaced int64
	value    string
	read     bool // else the value is any
}

func (k *keyHistory) answers() *answers {
	a := &answers{
		revisions: make(map[int64]bool), values: make(map[int64]string), writers: make(map[int64]*call), deleters: make(map[int64]*call),
		perhaps: make(map[attempt][]*call), taken: make(map[*call]bool),
	}
	k.told = make(map[int64]int)
	tell := func(c *call) {
		if end, ok := k.told[c.revision]; !ok || c.end < end {
			k.told[c.revision] = c.end
		}
		a.revisions[c.revision] = true
	}
	for _, c := range k.reads {
		if c.err == nil {
			tell(c)
			a.values[c.revision] = c.value
		}
	}
	for _, c := range k.saves {
		switch other := a.writers[c.revision]; {
		case c.unknown():
			for _, own := range []attempt{{c.replaced, c.value, true}, {replaced: c.replaced}} {
				a.perhaps[own] = append(a.perhaps[own], c)
			}
		case !c.succeeded():
		case other != nil:
			k.fault("%v, and %v: two saves have one revision", other, c)
		default:
			tell(c)
			a.writers[c.revision] = c
		}
	}
	for _, c := range k.deletes {
		switch other := a.deleters[c.replaced]; {
		case !c.succeeded() && !c.unknown():
		case other != nil && other.succeeded() && c.succeeded():
			k.fault("%v, and %v: both took effect", other, c)
		case other == nil || !other.succeeded() && c.succeeded():
			a.deleters[c.replaced] = c
		}
		if c.succeeded() {
			a.revisions[c.replaced] = true
		}
	}
	return a
}

// writer returns who wrote a revision that comes after another one, or after nothing if that is 0;
// nil if nobody can have. If two may have, because the one before may have been deleted in between,
// it returns the one that may have done so sooner.
func (a *answers) writer(revision, before int64) (w *call, either bool) {
	if w = a.writers[revision]; w != nil {
		return w, false
	}
	d := a.deleters[before]
	gone := before != 0 && d != nil // perhaps
	if !gone || !d.succeeded() {
		w = a.mayBe(revision, before)
	}
	if w == nil {
		w = a.mayBe(revision, 0)
	} else if creates := a.mayBe(revision, 0); gone && creates != nil {
		if either = true; max(d.begin, creates.begin) < w.begin {
			w = creates
		}
	}
	a.taken[w] = !either
	return w, either
}

// mayBe finds the first save of unknown outcome at a base that may have written a revision.
func (a *answers) mayBe(revision, base int64) *call {
	value, read := a.values[revision]
	own := attempt{base, value, read}
	for len(a.perhaps[own]) > 0 && a.taken[a.perhaps[own][0]] {
		a.perhaps[own] = a.perhaps[own][1:]
	}
	if len(a.perhaps[own]) == 0 {
		return nil
	}
	return a.perhaps[own][0]
}

// bound finds when each state can have begun and must have begun, so that none begins before the
// one before it.
func (k *keyHistory) bound() {
	began := &call{}
	for i := range k.states {
		s := &k.states[i]
		if i > 0 {
			s.absent = k.states[i-1].absent
			if s.writer.effective < began.begin {
				k.fault("%v was over before %v began, and comes after it", s.writer, began)
				return
			}
			if s.writer.begin > began.begin {
				began = s.writer
			}
		}
		s.earliest = began.begin
		if s.revision == 0 {
			s.absent++
		} else if k.told[s.revision] < s.earliest {
			k.fault("revision %d was read before it can have been written, by %v", s.revision, s.writer)
		}
	}
	over := never
	for i := len(k.states) - 1; i > 0; i-- {
		s := &k.states[i]
		if over = min(over, s.writer.effective); s.revision != 0 {
			over = min(over, k.told[s.revision])
		}
		s.latest = over
	}
}
