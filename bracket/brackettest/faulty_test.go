package brackettest_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"runtime"
	"slices"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/bracket/brackettest"
)

// careless is the reference with mistakes that adapters make.
type careless struct {
	bracket.MemoryStore
	blind   bool // creates without looking whether the key exists
	check   bool // looks first and writes afterwards
	deletes bool // deletes whatever the revision
	trim    bool // ends keys at the first NUL, as C does
	short   bool // cuts keys that are too long
	paged   bool // lists by offset, page by page
	deaf    bool // ignores the context
	micro   bool // rounds what looks like a time
	late    bool // takes the end of a deadline for none
	closed  bool // says of a cancelled context that it is closed
	ahead   bool // deletes at a revision that is yet to come
	bare    bool // lists keys without values
	page    bool // the values of a list are parts of one buffer
	null    bool // takes a nil value for none
	any     bool // takes a negative revision for any
	narrow  bool // keeps revisions in 32 bits

	column func(key string) string        // what a column, or a file system, makes of keys
	match  func(pattern, key string) bool // lists what a pattern matches, made of the prefix without a care
	utf16  bool                           // lists in the order of UTF-16
	folds  bool                           // lists in an order that ignores case
	writes func(value string) string      // what a column makes of values
}

// at returns the present revision of a key if the given one is taken for it, else the given one.
func (c *careless) at(ctx context.Context, key string, revision int64) int64 {
	_, now, _ := c.MemoryStore.Load(ctx, key)
	if c.any && revision < 0 || c.narrow && int32(revision) == int32(now) {
		return now
	}
	return revision
}

func (c *careless) key(key string) string {
	if c.trim {
		key, _, _ = strings.Cut(key, "\x00")
	}
	if c.short && len(key) > 1024 {
		key = key[:1024]
	}
	if c.column != nil {
		key = cmp.Or(c.column(key), key)
	}
	return key
}

func (c *careless) context(ctx context.Context) context.Context {
	if c.deaf || c.late && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return context.WithoutCancel(ctx)
	}
	return ctx
}

func (c *careless) Load(ctx context.Context, key string) ([]byte, int64, error) {
	if c.closed && ctx.Err() != nil {
		return nil, 0, errOwn
	}
	return c.MemoryStore.Load(c.context(ctx), c.key(key))
}

func (c *careless) Save(ctx context.Context, key string, value []byte, revision int64) (int64, error) {
	ctx, key = c.context(ctx), c.key(key)
	revision = c.at(ctx, key, revision)
	switch {
	case c.writes != nil:
		value = []byte(c.writes(string(value)))
	case c.null && value == nil:
		return 0, errOwn
	case c.micro:
		value = []byte(strings.Replace(string(value), "123456789Z", "123457Z", 1))
	case c.blind && revision == 0:
		if _, now, err := c.MemoryStore.Load(ctx, key); err == nil {
			revision = now
		}
	case c.check:
		_, now, err := c.MemoryStore.Load(ctx, key)
		if err != nil && !errors.Is(err, bracket.ErrNotFound) {
			return 0, err
		}
		if now != revision {
			return 0, bracket.ErrConflict
		}
		time.Sleep(time.Millisecond)
		for { // overwrites what came in between
			_, now, _ := c.MemoryStore.Load(ctx, key)
			if next, err := c.MemoryStore.Save(ctx, key, value, now); !errors.Is(err, bracket.ErrConflict) {
				return next, err
			}
		}
	}
	return c.MemoryStore.Save(ctx, key, value, revision)
}

func (c *careless) Delete(ctx context.Context, key string, revision int64) error {
	ctx, key = c.context(ctx), c.key(key)
	revision = c.at(ctx, key, revision)
	if c.deletes {
		time.Sleep(time.Millisecond)
		_, now, err := c.MemoryStore.Load(ctx, key)
		if err != nil {
			return err
		}
		revision = now
	}
	if c.ahead {
		if _, now, err := c.MemoryStore.Load(ctx, key); err == nil {
			revision = min(revision, now)
		}
	}
	return c.MemoryStore.Delete(ctx, key, revision)
}

func (c *careless) List(ctx context.Context, prefix string) ([]bracket.Entry, error) {
	ctx = c.context(ctx)
	switch {
	case c.match != nil:
		all, err := c.MemoryStore.List(ctx, "")
		return slices.DeleteFunc(all, func(e bracket.Entry) bool { return !c.match(prefix, e.Key) }), err
	case c.utf16:
		all, err := c.MemoryStore.List(ctx, prefix)
		slices.SortFunc(all, func(a, b bracket.Entry) int {
			return slices.Compare(utf16.Encode([]rune(a.Key)), utf16.Encode([]rune(b.Key)))
		})
		return all, err
	case c.folds:
		all, err := c.MemoryStore.List(ctx, prefix)
		slices.SortStableFunc(all, func(a, b bracket.Entry) int { return cmp.Compare(strings.ToLower(a.Key), strings.ToLower(b.Key)) })
		return all, err
	case c.bare:
		all, err := c.MemoryStore.List(ctx, prefix)
		for i := range all {
			all[i].Value = nil
		}
		return all, err
	case c.page:
		all, err := c.MemoryStore.List(ctx, prefix)
		var page []byte
		for _, e := range all {
			page = append(page, e.Value...)
		}
		for i := range all {
			n := len(all[i].Value)
			all[i].Value, page = page[:n], page[n:]
		}
		return all, err
	case !c.paged:
		return c.MemoryStore.List(ctx, prefix)
	}
	var all []bracket.Entry
	for {
		now, err := c.MemoryStore.List(ctx, prefix)
		if err != nil {
			return nil, err
		}
		if len(all) >= len(now) {
			break
		}
		all = append(all, now[len(all):min(len(now), len(all)+100)]...)
		time.Sleep(time.Millisecond)
	}
	sort.Slice(all, func(i, j int) bool { return all[i].Key < all[j].Key })
	return all, nil
}

// early hands out a revision that it took before others were done with the key.
type early struct {
	bracket.MemoryStore
	mu    sync.Mutex
	last  int64
	known map[string][2]int64 // key → the reference's revision, and what was told
}

func (e *early) Load(ctx context.Context, key string) ([]byte, int64, error) {
	value, real, err := e.MemoryStore.Load(ctx, key)
	e.mu.Lock()
	defer e.mu.Unlock()
	if told := e.known[key]; err == nil && told[0] == real {
		return value, told[1], nil
	}
	if err == nil {
		err = bracket.ErrNotFound
	}
	return nil, 0, err
}

func (e *early) Save(ctx context.Context, key string, value []byte, revision int64) (int64, error) {
	e.mu.Lock()
	e.last++
	next, told := e.last, e.known[key]
	e.mu.Unlock()
	time.Sleep(time.Duration(next%3) * time.Millisecond)
	e.mu.Lock()
	defer e.mu.Unlock()
	real := int64(0)
	if revision != 0 {
		if told[1] != revision {
			return 0, bracket.ErrConflict
		}
		real = told[0]
	}
	real, err := e.MemoryStore.Save(ctx, key, value, real)
	if err != nil {
		return 0, err
	}
	if e.known == nil {
		e.known = map[string][2]int64{}
	}
	e.known[key] = [2]int64{real, next}
	return next, nil
}

func (e *early) Delete(ctx context.Context, key string, revision int64) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	told, known := e.known[key]
	if !known {
		return bracket.ErrNotFound
	}
	if told[1] != revision {
		return bracket.ErrConflict
	}
	delete(e.known, key)
	return e.MemoryStore.Delete(ctx, key, told[0])
}

// compacted is a value without the space that JSON ignores, if it is JSON.
func compacted(value string) string {
	var b bytes.Buffer
	if json.Compact(&b, []byte(value)) != nil {
		return value
	}
	return b.String()
}

// matches reports whether a key has a prefix as a regular expression says.
func matches(pattern, key string) bool {
	r, err := regexp.Compile("^(?:" + pattern + ")")
	return err == nil && r.MatchString(key)
}

// snapshots keeps the last list until something is written, and gives it away.
type snapshots struct {
	bracket.MemoryStore
	kept map[string][]bracket.Entry
}

func (s *snapshots) Save(ctx context.Context, key string, value []byte, revision int64) (int64, error) {
	s.kept = map[string][]bracket.Entry{}
	return s.MemoryStore.Save(ctx, key, value, revision)
}

func (s *snapshots) List(ctx context.Context, prefix string) ([]bracket.Entry, error) {
	if list, ok := s.kept[prefix]; ok {
		return list, nil
	}
	list, err := s.MemoryStore.List(ctx, prefix)
	s.kept[prefix] = list
	return list, err
}

// naive is a first attempt at a store, with mistakes that the reference cannot be brought to.
type naive struct {
	mu      sync.Mutex
	entries map[string]bracket.Entry
	before  map[string]bracket.Entry // what Save replaced
	clock   int64

	blank   bool // a key without value is an empty value
	upsert  bool // a save at any revision creates
	loose   bool // a save at an old revision replaces
	lag     bool // reads come from a copy that is one write behind
	restart bool // revisions are counted per key, and begin anew after a delete
	keeps   bool // buffers of callers are kept
	gives   bool // and the store's own are given away
	text    bool // values are trimmed, as text
	capped  bool // a list ends after 1,000 entries
	torn    bool // a list reads revisions and values one after the other
	silent  bool // what conflicts is dropped without a word
	vague   bool // what conflicts is an error of its own
	still   bool // a save that replaces keeps the revision
	ghost   bool // a key that is not there has a revision all the same
	above   bool // a list leaves out the key that is the prefix
	older   bool // a list tells the revision before
	partial bool // a list comes with an error
}

var errOwn = errors.New("naive: an error of its own")

func (n *naive) Load(ctx context.Context, key string) ([]byte, int64, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	e, ok := n.entries[key]
	if old, lags := n.before[key]; n.lag && lags {
		e = old
	}
	if !ok && n.ghost {
		return nil, n.clock + 1, bracket.ErrNotFound
	}
	if !ok && !n.blank {
		return nil, 0, bracket.ErrNotFound
	}
	if n.gives {
		return e.Value, e.Revision, nil
	}
	return append([]byte{}, e.Value...), e.Revision, nil
}

func (n *naive) Save(ctx context.Context, key string, value []byte, revision int64) (int64, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	e, ok := n.entries[key]
	if e.Revision != revision && !(n.upsert && !ok) && !(n.loose && ok && revision > 0 && revision < e.Revision) {
		switch {
		case n.silent:
			return revision + 1, nil
		case n.vague:
			return 0, errOwn
		}
		return 0, bracket.ErrConflict
	}
	if n.entries == nil {
		n.entries, n.before = map[string]bracket.Entry{}, map[string]bracket.Entry{}
	}
	if ok {
		n.before[key] = e
	}
	if n.clock++; n.restart {
		n.clock = e.Revision + 1
	}
	if n.still && ok {
		n.clock = e.Revision
	}
	if !n.keeps {
		value = append([]byte{}, value...)
	}
	if n.text {
		value = []byte(strings.TrimSpace(string(value)))
	}
	n.entries[key] = bracket.Entry{Key: key, Value: value, Revision: n.clock}
	return n.clock, nil
}

func (n *naive) Delete(ctx context.Context, key string, revision int64) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch e, ok := n.entries[key]; {
	case !ok:
		return bracket.ErrNotFound
	case e.Revision != revision && n.silent:
		return nil
	case e.Revision != revision && n.vague:
		return errOwn
	case e.Revision != revision:
		return bracket.ErrConflict
	}
	delete(n.entries, key)
	delete(n.before, key)
	return nil
}

func (n *naive) List(ctx context.Context, prefix string) ([]bracket.Entry, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var list []bracket.Entry
	for key, e := range n.entries {
		if !strings.HasPrefix(key, prefix) || n.above && key == prefix {
			continue
		}
		if n.older {
			e.Revision--
		}
		if old, replaced := n.before[key]; n.torn && replaced {
			e.Value = old.Value
		}
		if !n.gives {
			e.Value = append([]byte{}, e.Value...)
		}
		list = append(list, e)
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Key < list[j].Key })
	if n.capped {
		list = list[:min(len(list), 1000)]
	}
	if n.partial {
		return list, errOwn
	}
	return list, nil
}

// hasty is a store that is right as long as nobody calls it at the same time.
type hasty struct {
	bracket.MemoryStore
	halves bool // a load reads the value, and then the revision
	after  bool // a save reads the revision after it has written
	impede bool // a save conflicts with whatever is under way, of any key
	twice  bool // every fifth save is sent again, and the second answer is returned
	saves  atomic.Int64
	busy   atomic.Bool
}

// pause lets the others go on until somebody has replaced a revision, or nobody does.
func (h *hasty) pause(ctx context.Context, key string, revision int64) (now int64) {
	for range 200 {
		if _, now, _ = h.MemoryStore.Load(ctx, key); now != revision {
			break
		}
		runtime.Gosched()
	}
	return now
}

func (h *hasty) Load(ctx context.Context, key string) ([]byte, int64, error) {
	value, revision, err := h.MemoryStore.Load(ctx, key)
	if now := revision; h.halves && err == nil {
		if now = h.pause(ctx, key, revision); now > 0 {
			revision = now
		}
	}
	return value, revision, err
}

func (h *hasty) Save(ctx context.Context, key string, value []byte, revision int64) (int64, error) {
	if h.impede {
		if !h.busy.CompareAndSwap(false, true) {
			return 0, bracket.ErrConflict
		}
		defer h.busy.Store(false)
		runtime.Gosched()
	}
	next, err := h.MemoryStore.Save(ctx, key, value, revision)
	if h.twice && h.saves.Add(1)%5 == 0 {
		next, err = h.MemoryStore.Save(ctx, key, value, revision)
	}
	if h.after && err == nil {
		if now := h.pause(ctx, key, next); now > 0 {
			next = now
		}
	}
	return next, err
}

// TestKitFindsHaste: mistakes that only calls at once bring to light.
func TestKitFindsHaste(t *testing.T) {
	const name = "calls at once have one order"
	for mistake, store := range map[string]func() bracket.Store{
		"reads a value and a revision one after the other": func() bracket.Store { return &hasty{halves: true} },
		"returns the revision that is there afterwards":    func() bracket.Store { return &hasty{after: true} },
		"conflicts with saves of other keys":               func() bracket.Store { return &hasty{impede: true} },
		"repeats a save whose answer it lost":              func() bracket.Store { return &hasty{twice: true} },
		"looks first and writes afterwards":                func() bracket.Store { return &careless{check: true} },
		"deletes whatever the revision":                    func() bracket.Store { return &careless{deletes: true} },
		"tells a list with the values before":              func() bracket.Store { return &naive{torn: true} },
		"fails":                                            func() bracket.Store { return &naive{vague: true} },
		"fails to list":                                    func() bracket.Store { return &naive{partial: true} },
	} {
		found := false
		for n := 0; n < 50 && !found; n++ { // who calls when is for the scheduler to decide
			found = brackettest.Fails(t, name, store())
		}
		if !found {
			t.Errorf("a store that %s is not found by %q", mistake, name)
		}
	}
	if brackettest.Fails(t, name, &hasty{}) {
		t.Errorf("%q finds a mistake where there is none", name)
	}
}

// TestKitFindsFaults: a kit that accepts everything proves nothing. Each mistake must be found by
// the case that is about it, which the reference passes.
func TestKitFindsFaults(t *testing.T) {
	for name, store := range map[string]bracket.Store{
		"an unknown key is not found":                               &naive{blank: true},
		"a revision of a key that does not exist conflicts":         &naive{upsert: true},
		"an old revision conflicts":                                 &naive{loose: true},
		"a client reads its own save":                               &naive{lag: true},
		"revisions grow across delete":                              &naive{restart: true},
		"values are copies":                                         &naive{keeps: true},
		"values round-trip byte for byte":                           &naive{text: true},
		"a list of 10,000 is complete and in order":                 &naive{capped: true},
		"a list never mixes versions":                               &naive{torn: true},
		"revision 0 creates, once":                                  &careless{blind: true},
		"of many creators one wins":                                 &careless{check: true},
		"of two writers one wins":                                   &careless{check: true},
		"a save and a delete at one revision exclude each other":    &careless{deletes: true},
		"delete is conditional":                                     &careless{deletes: true},
		"revisions grow across delete, whoever deletes and creates": &early{},
		"keys are any text":                                         &careless{trim: true},
		"keys that cannot be are errors":                            &careless{short: true},
		"times keep nanoseconds":                                    &careless{micro: true},
		"a cancelled context writes nothing":                        &careless{deaf: true},
		"a list is complete while others write":                     &careless{paged: true},
	} {
		if !brackettest.Fails(t, name, store) {
			t.Errorf("%q does not find the mistake", name)
		}
		if brackettest.Fails(t, name, new(bracket.MemoryStore)) {
			t.Errorf("%q: the reference fails", name)
		}
	}
	for mistake, row := range map[string]struct {
		name  string
		store bracket.Store
	}{
		"gives its own buffers away": {"values are copies", &naive{gives: true}},

		"drops what conflicts":                      {"an old revision conflicts", &naive{silent: true}},
		"drops what conflicts, of several":          {"of two writers one wins", &naive{silent: true}},
		"drops what conflicts, of several creators": {"of many creators one wins", &naive{silent: true}},
		"drops a delete that conflicts":             {"delete is conditional", &naive{silent: true}},
		"calls a conflict something else":           {"an old revision conflicts", &naive{vague: true}},
		"calls it so, of several":                   {"of two writers one wins", &naive{vague: true}},
		"calls it so, of a delete":                  {"delete is conditional", &naive{vague: true}},
		"keeps the revision":                        {"a client reads its own save", &naive{still: true}},
		"tells a revision of what is not there":     {"an unknown key is not found", &naive{ghost: true}},
		"leaves out the key that is the prefix":     {"keys are any text", &naive{above: true}},
		"lists the revision before":                 {"keys are any text", &naive{older: true}},
		"lists, and has failed":                     {"keys are any text", &naive{partial: true}},
		"lists keys alone":                          {"values are copies", &careless{bare: true}},
		"deletes at a revision that is yet to come": {"delete is conditional", &careless{ahead: true}},
		"calls a cancelled context something else":  {"a cancelled context writes nothing", &careless{closed: true}},

		"writes after the deadline": {"a cancelled context writes nothing", &careless{late: true}},
		"pads keys, as SQL does":    {"keys are any text", &careless{column: func(key string) string { return strings.TrimRight(key, " ") }}},
		"drops the end of a line":   {"keys are any text", &careless{column: func(key string) string { return strings.TrimRight(key, "\n") }}},
		"reads keys as a query":     {"keys are any text", &careless{column: func(key string) string { return strings.ReplaceAll(key, "+", " ") }}},
		"drops dots, as file names": {"keys are any text", &careless{column: func(key string) string { return strings.TrimRight(key, ".") }}},
		"composes letters":          {"keys are any text", &careless{column: func(key string) string { return strings.ReplaceAll(key, "e\u0301", "\u00e9") }}},
		"lists by LIKE, any case": {"keys are any text", &careless{match: func(pattern, key string) bool {
			return strings.HasPrefix(strings.ToLower(key), strings.ToLower(pattern))
		}}},
		"lists by LIKE, and escapes all but the escape": {"keys are any text", &careless{match: func(pattern, key string) bool { return strings.HasPrefix(key, strings.ReplaceAll(pattern, `\`, "")) }}},
		"lists by a glob": {"keys are any text", &careless{match: func(pattern, key string) bool {
			return strings.HasPrefix(key, strings.NewReplacer("[d]", "d").Replace(pattern))
		}}},
		"lists by a regular expression": {"keys are any text", &careless{match: matches}},

		"gives the list away that it keeps": {"values are copies", &snapshots{}},
		"gives parts of one buffer away":    {"values are copies", &careless{page: true}},
		"takes nil for no value":            {"values round-trip byte for byte", &careless{null: true}},
		"lists in order of UTF-16":          {"keys are any text", &careless{utf16: true}},

		"lists in an order that ignores case": {"keys are any text", &careless{folds: true}},
		"lists up to the next byte, as a character": {"keys are any text", &careless{match: func(prefix, key string) bool {
			return prefix == "" || prefix <= key && key < prefix[:len(prefix)-1]+string(rune(prefix[len(prefix)-1]+1))
		}}},
		"takes a negative revision for any":                   {"an old revision conflicts", &careless{any: true}},
		"takes it for any, of what is not there":              {"a revision of a key that does not exist conflicts", &careless{any: true}},
		"takes it for any, of a delete":                       {"delete is conditional", &careless{any: true}},
		"keeps revisions in 32 bits":                          {"an old revision conflicts", &careless{narrow: true}},
		"keeps them in 32 bits, and creates at one beyond":    {"a revision of a key that does not exist conflicts", &careless{narrow: true}},
		"keeps them in 32 bits, and deletes at one beyond":    {"delete is conditional", &careless{narrow: true}},
		"keeps values in a column of JSON":                    {"values round-trip byte for byte", &careless{writes: compacted}},
		"writes the ends of lines in the way of its platform": {"values round-trip byte for byte", &careless{writes: func(value string) string { return strings.ReplaceAll(value, "\r\n", "\n") }}},
	} {
		if !brackettest.Fails(t, row.name, row.store) {
			t.Errorf("a store that %s is not found by %q", mistake, row.name)
		}
	}
	for mistake, store := range map[string]bracket.Store{
		"gives a key without value": &naive{blank: true}, "creates at any revision": &naive{upsert: true}, "replaces at an old revision": &naive{loose: true}, "reads what was before": &naive{lag: true},
		"counts revisions anew": &naive{restart: true}, "drops what conflicts": &naive{silent: true}, "calls a conflict something else": &naive{vague: true}, "keeps the revision": &naive{still: true},
		"lists the revision before": &naive{older: true}, "lists what was before": &naive{torn: true}, "lists, and has failed": &naive{partial: true}, "cuts keys": &careless{column: func(key string) string { return strings.TrimSuffix(key, "/b") }},
	} {
		if !brackettest.Disagrees(t, store) {
			t.Errorf("random calls do not find a store that %s", mistake)
		}
	}
	if brackettest.Disagrees(t, &naive{}) {
		t.Error("random calls find a mistake where there is none")
	}
	for name := range brackettest.Names() {
		if brackettest.Fails(t, name, &naive{}) && name != "a cancelled context writes nothing" && name != "keys that cannot be are errors" {
			t.Errorf("%q: a store without a mistake that it is about fails", name)
		}
	}
}

// unlisted is a store whose lists fail, and that saves nothing before the first of them has.
type unlisted struct {
	bracket.MemoryStore
	once   sync.Once
	failed chan struct{}
	saves  atomic.Int64
}

func (u *unlisted) Save(ctx context.Context, key string, value []byte, revision int64) (int64, error) {
	<-u.failed
	defer u.saves.Add(1)
	return u.MemoryStore.Save(ctx, key, value, revision)
}

func (u *unlisted) List(context.Context, string) ([]bracket.Entry, error) {
	u.once.Do(func() { close(u.failed) })
	return nil, errors.New("no list")
}

// TestWritersEndWithTheirCase: a case that fails used to leave its writers behind. They reported to
// a test that was over, which ends the whole program, as soon as their store was closed.
func TestWritersEndWithTheirCase(t *testing.T) {
	store := &unlisted{failed: make(chan struct{})}
	if !brackettest.Fails(t, "a list never mixes versions", store) {
		t.Error("a list that fails passes")
	}
	if saves := store.saves.Load(); saves != 4*60 {
		t.Errorf("the case ended after %d saves, and the writers go on", saves)
	}
}
