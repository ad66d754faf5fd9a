package brackettest

import (
	"errors"
	"fmt"
	"maps"
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
