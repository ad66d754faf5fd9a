package brackettest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/tranche-dev/tranche/bracket"
)

// History records the calls of several clients of one storage, and checks afterwards that one order
// of all writes explains every answer. It is for tests that [Run] cannot make: several processes,
// servers that are killed, networks that lose answers. Let each client call through a store that
// [History.Record] returns, and call [History.Check] at the end. The zero value is the history of a
// storage that is still empty. It is safe for concurrent use, must not be copied after first use,
// and keeps every value that is written or read: a million calls of short values take about 200 MB,
// and Check some seconds.
type History struct {
	mu      sync.Mutex
	now     int // counts the beginnings and the ends of calls
	clients int
	calls   []*call
}

// call is one call of a client.
type call struct {
	client    int
	method    string // "Load", "Save", "Delete" or "List"
	key       string // or prefix
	value     string // what was saved, or loaded
	replaced  int64  // the revision that a Save or Delete was given
	revision  int64  // what a Save or Load returned
	entries   []bracket.Entry
	err       error
	begin     int
	end       int // never, while the call has not returned
	effective int // when its effect is there at the latest; never, if the outcome is unknown
}

// never is later than every instant of a history.
const never = math.MaxInt

func (c *call) String() string {
	text := fmt.Sprintf("%s(%.40q", c.method, c.key)
	if c.method == "Save" || c.method == "Delete" {
		text += fmt.Sprint(", revision ", c.replaced)
	}
	text += fmt.Sprint(") of client ", c.client)
	switch {
	case c.end == never:
		return text + ": no answer yet"
	case c.method == "List":
		return text
	case c.err != nil:
		return fmt.Sprintf("%s: %.100v", text, c.err)
	case c.method == "Delete":
		return text + ": deleted"
	}
	return fmt.Sprint(text, ": revision ", c.revision)
}

// succeeded reports whether the effect of a write is known to be there.
func (c *call) succeeded() bool { return c.end != never && c.err == nil }

// unknown reports whether a write may have had its effect, or have it yet.
func (c *call) unknown() bool {
	return !c.succeeded() && !errors.Is(c.err, bracket.ErrConflict) && !errors.Is(c.err, bracket.ErrNotFound)
}

// Record returns a client whose calls are those of store, and are recorded. Record a client of its
// own for each process, and every client that writes or reads what others write at: a revision that
// no recorded call wrote, or that a writer knows from a call that was not recorded, may be taken for
// a contradiction. Below a [FaultStore], the history is that of the storage; above it, what is stale
// or repeated by intent is a contradiction, too.
func (h *History) Record(store bracket.Store) bracket.Store {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.clients++
	return &recorded{h, store, h.clients}
}

// Check returns an error with what contradicts the promises of [bracket.Store] in the calls so far,
// or nil:
//
//   - a revision that two saves returned, that was replaced or deleted twice, or that nobody wrote;
//   - a write that took effect although it returned [bracket.ErrConflict] or [bracket.ErrNotFound],
//     or that returned one of them without a reason;
//   - revisions that do not grow, also across a delete;
//   - a value that is not the one that was saved with its revision, or is read before it was saved;
//   - a client that does not read its own writes.
//
// A read may be older than the writes of other clients: the store promises no more. A write that
// returned another error, or has not returned, may have had its effect or not, or have it at any
// later time. What contradicts only if several refused or unknown writes are taken together may be
// missed. Check may be called at any time, also while calls are under way, and names at most twenty
// contradictions.
func (h *History) Check() error {
	h.mu.Lock()
	keys := make(map[string]*keyHistory)
	of := func(key string) *keyHistory {
		if keys[key] == nil {
			keys[key] = &keyHistory{key: key}
		}
		return keys[key]
	}
	var lists []call
	for _, recorded := range h.calls {
		c := new(call)
		*c = *recorded // complete or not: what returns later changes the original
		switch c.method {
		case "Save":
			of(c.key).saves = append(of(c.key).saves, c)
		case "Delete":
			of(c.key).deletes = append(of(c.key).deletes, c)
		case "Load":
			if c.succeeded() || errors.Is(c.err, bracket.ErrNotFound) {
				of(c.key).reads = append(of(c.key).reads, c)
			}
		case "List":
			if c.succeeded() {
				lists = append(lists, *c)
			}
		}
	}
	h.mu.Unlock()

	// A list reads every key of its prefix that its client wrote, and every key that it has.
	own := make(map[int][]string)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		for _, c := range keys[key].saves {
			if n := len(own[c.client]); n == 0 || own[c.client][n-1] != key {
				own[c.client] = append(own[c.client], key)
			}
		}
	}
	for _, c := range lists {
		listed := make(map[string]bool, len(c.entries))
		for _, e := range c.entries {
			listed[e.Key] = true
			read := c
			read.value, read.revision = string(e.Value), e.Revision
			of(e.Key).reads = append(of(e.Key).reads, &read)
		}
		first, _ := slices.BinarySearch(own[c.client], c.key)
		for _, key := range own[c.client][first:] {
			if !strings.HasPrefix(key, c.key) {
				break
			}
			if !listed[key] {
				read := c
				read.err = bracket.ErrNotFound
				of(key).reads = append(of(key).reads, &read)
			}
		}
	}
	var faults []error
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		faults = append(faults, keys[key].check()...)
	}
	const most = 20 // a store that is wrong once is wrong often
	if more := len(faults) - most; more > 0 {
		faults = append(faults[:most], fmt.Errorf("brackettest: and %d more", more))
	}
	return errors.Join(faults...)
}

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

// last returns the place of the last state that can have begun by an instant.
func (k *keyHistory) last(by int) int {
	i, _ := slices.BinarySearchFunc(k.states, by, func(s state, by int) int { return cmp.Compare(s.earliest, by) })
	return i - 1
}

// first returns the place of the first state that need not have ended by an instant.
func (k *keyHistory) first(by int) int {
	i, _ := slices.BinarySearchFunc(k.states[1:], by, func(s state, by int) int { return cmp.Compare(s.latest, by) })
	return i
}

// absences counts the states without a revision from one place to another.
func (k *keyHistory) absences(from, to int) int {
	n := k.states[to].absent
	if from > 0 {
		n -= k.states[from-1].absent
	}
	return n
}

// later reports whether a write of unknown outcome, which replaces or deletes the last state, may
// have taken effect by an instant. Nobody was told of it.
func (k *keyHistory) later(writes []*call, by int) bool {
	last := k.states[len(k.states)-1]
	return by > last.earliest && slices.ContainsFunc(writes, func(c *call) bool {
		return c.unknown() && c.replaced == last.revision && c.begin < by
	})
}

// refusals checks that who was refused had a reason to be.
func (k *keyHistory) refusals() {
	for _, c := range slices.Concat(k.saves, k.deletes) {
		conflict := errors.Is(c.err, bracket.ErrConflict)
		if c.end == never || !conflict && !errors.Is(c.err, bracket.ErrNotFound) {
			continue
		}
		from, to := k.first(c.begin), k.last(c.end)
		absent := k.absences(from, to)
		switch {
		case c.replaced == 0 && c.method == "Save":
			if absent == to-from+1 && !k.later(k.saves, c.end) {
				k.fault("%v, though there was no such key", c)
			}
		case conflict:
			if k.states[from].revision == c.replaced && from == to && !k.later(k.saves, c.end) && !k.later(k.deletes, c.end) {
				k.fault("%v, though that was the stored revision", c)
			}
		case absent == 0 && !k.later(k.deletes, c.end):
			k.fault("%v, though the key was there", c)
		}
	}
}

// readings checks that what was read had been written, and not before the client's own writes.
func (k *keyHistory) readings() {
	type write struct{ end, place int } // place: the latest state that the client made until then
	own := make(map[int][]write)        // by client, in order of their ends
	for i, s := range k.states {
		if s.writer != nil && s.writer.succeeded() {
			own[s.writer.client] = append(own[s.writer.client], write{s.writer.end, i})
		}
	}
	for _, writes := range own {
		slices.SortFunc(writes, func(a, b write) int { return cmp.Compare(a.end, b.end) })
		for i := 1; i < len(writes); i++ {
			writes[i].place = max(writes[i].place, writes[i-1].place)
		}
	}
	for _, c := range k.reads {
		writes, from := own[c.client], 0
		if n, _ := slices.BinarySearchFunc(writes, c.begin, func(w write, begin int) int { return cmp.Compare(w.end, begin) }); n > 0 {
			from = writes[n-1].place
		}
		if c.err != nil {
			if k.absences(from, k.last(c.end)) == 0 && !k.later(k.deletes, c.end) {
				k.fault("%v found nothing, though the key was there since the same client's %v", c, k.states[from].writer)
			}
			continue
		}
		at := k.places[c.revision]
		switch s := k.states[at]; {
		case s.writer.value != c.value:
			k.fault("%v: revision %d has the value %.40q, and was saved as %.40q", c, c.revision, c.value, s.writer.value)
		case at < from:
			k.fault("%v: revision %d is older than the same client's %v", c, c.revision, k.states[from].writer)
		}
	}
}

// recorded is one client of a history.
type recorded struct {
	history *History
	store   bracket.Store
	client  int
}

var _ bracket.Store = (*recorded)(nil)

func (r *recorded) begin(c call) *call {
	r.history.mu.Lock()
	defer r.history.mu.Unlock()
	r.history.now++
	c.client, c.begin, c.end, c.effective = r.client, r.history.now, never, never
	r.history.calls = append(r.history.calls, &c)
	return &c
}

func (r *recorded) end(c *call, complete func()) {
	r.history.mu.Lock()
	defer r.history.mu.Unlock()
	complete()
	r.history.now++
	if c.end = r.history.now; c.err == nil {
		c.effective = c.end
	}
}

func (r *recorded) Load(ctx context.Context, key string) ([]byte, int64, error) {
	c := r.begin(call{method: "Load", key: key})
	value, revision, err := r.store.Load(ctx, key)
	r.end(c, func() { c.value, c.revision, c.err = string(value), revision, err })
	return value, revision, err
}

func (r *recorded) Save(ctx context.Context, key string, value []byte, revision int64) (int64, error) {
	c := r.begin(call{method: "Save", key: key, value: string(value), replaced: revision})
	next, err := r.store.Save(ctx, key, value, revision)
	r.end(c, func() { c.revision, c.err = next, err })
	return next, err
}

func (r *recorded) Delete(ctx context.Context, key string, revision int64) error {
	c := r.begin(call{method: "Delete", key: key, replaced: revision})
	err := r.store.Delete(ctx, key, revision)
	r.end(c, func() { c.err = err })
	return err
}

func (r *recorded) List(ctx context.Context, prefix string) ([]bracket.Entry, error) {
	c := r.begin(call{method: "List", key: prefix})
	entries, err := r.store.List(ctx, prefix)
	r.end(c, func() {
		c.err = err
		for _, e := range entries {
			c.entries = append(c.entries, bracket.Entry{Key: e.Key, Value: slices.Clone(e.Value), Revision: e.Revision})
		}
	})
	return entries, err
}
