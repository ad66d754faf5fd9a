package brackettest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/tranche-dev/tranche/bracket"
)

// ErrInjected is returned by a call that a [FaultStore] lost or delayed, or whose answer it lost:
// the caller does not know the outcome.
var ErrInjected = errors.New("brackettest: injected fault")

// ErrCrashed is returned by every call from a crash until [FaultStore.Restart]. A host under test
// that gets it must give up, as a dead process would.
var ErrCrashed = errors.New("brackettest: crashed")

// Fault is what happens to one call.
type Fault int

const (
	None       Fault = iota // the call is carried out and answered
	Stale                   // Load or List: answer with the oldest value and revision of each key that this store has seen
	Lose                    // the call never arrives; the answer is ErrInjected
	LoseAnswer              // the call is carried out; the answer is ErrInjected
	Conflict                // Save or Delete: the call never arrives; the answer is bracket.ErrConflict
	Repeat                  // Save or Delete: the call arrives twice, and the answer to the second is returned
	Delay                   // Save or Delete: the answer is ErrInjected, and the call arrives only after the next write that does, or at Restart
	Crash                   // the call never arrives; it and all later ones are answered with ErrCrashed
)

// Call is one call of a store method.
type Call struct {
	Method string // "Load", "Save", "Delete" or "List"
	Key    string // or prefix
	Write  int    // number of writes requested before this call, since the last Restart
}

// FaultStore passes calls on to a store and injects faults. One FaultStore is one client, so
// several may share a store. It is safe for concurrent use if the choosing function is.
type FaultStore struct {
	inner  bracket.Store
	choose func(Call) Fault

	mu      sync.Mutex
	writes  int
	crashed bool
	oldest  map[string]*bracket.Entry // the first version seen of each key; nil: it was absent
	delayed []func()
}

var _ bracket.Store = (*FaultStore)(nil)

// NewFaultStore returns a client of inner. Until a crash, choose picks the fault of each call; nil
// injects nothing. Choose may call the store, and is then asked about that call as well.
func NewFaultStore(inner bracket.Store, choose func(Call) Fault) *FaultStore {
	return &FaultStore{inner: inner, choose: choose, oldest: make(map[string]*bracket.Entry)}
}

// CrashAfter returns a choosing function that lets n writes through and crashes at the next one.
// Runs with n = 0, 1, 2, … until one ends without [FaultStore.Crashed] cover every prefix of the
// side effects.
func CrashAfter(n int) func(Call) Fault {
	return func(c Call) Fault {
		if c.Write >= n && (c.Method == "Save" || c.Method == "Delete") {
			return Crash
		}
		return None
	}
}

// Crashed reports whether the client has crashed.
func (f *FaultStore) Crashed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.crashed
}

// Restart ends a crash: delayed calls arrive, what this client has seen is forgotten, and writes
// are counted anew. choose replaces the choosing function; nil injects nothing.
func (f *FaultStore) Restart(choose func(Call) Fault) {
	f.mu.Lock()
	f.choose, f.crashed, f.writes = choose, false, 0
	f.oldest = make(map[string]*bracket.Entry)
	delayed := f.delayed
	f.delayed = nil
	f.mu.Unlock()
	for _, call := range delayed {
		call()
	}
}

// fault asks for the fault of a call, without the lock: the choosing function may use this store.
func (f *FaultStore) fault(method, key string) Fault {
	f.mu.Lock()
	crashed, choose, call := f.crashed, f.choose, Call{Method: method, Key: key, Write: f.writes}
	if !crashed && (method == "Save" || method == "Delete") {
		f.writes++
	}
	f.mu.Unlock()
	fault := None
	if !crashed && choose != nil {
		fault = choose(call)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.crashed = f.crashed || fault == Crash
	if f.crashed {
		return Crash
	}
	return fault
}

// see remembers the first version of a key.
func (f *FaultStore) see(key string, e *bracket.Entry) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, seen := f.oldest[key]; !seen {
		if e != nil {
			copied := *e
			copied.Value = slices.Clone(e.Value)
			e = &copied
		}
		f.oldest[key] = e
	}
}

// old returns the first version of a key, if the client has seen any.
func (f *FaultStore) old(key string) (e *bracket.Entry, seen bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	e, seen = f.oldest[key]
	return e, seen
}

// Load implements bracket.Store.
func (f *FaultStore) Load(ctx context.Context, key string) ([]byte, int64, error) {
	switch fault := f.fault("Load", key); fault {
	case Crash:
		return nil, 0, ErrCrashed
	case Lose, LoseAnswer:
		return nil, 0, ErrInjected
	case Stale:
		if e, seen := f.old(key); seen && e != nil {
			return slices.Clone(e.Value), e.Revision, nil
		} else if seen {
			return nil, 0, bracket.ErrNotFound
		}
	}
	value, revision, err := f.inner.Load(ctx, key)
	switch {
	case err == nil:
		f.see(key, &bracket.Entry{Key: key, Value: value, Revision: revision})
	case errors.Is(err, bracket.ErrNotFound):
		f.see(key, nil)
	}
	return value, revision, err
}

// List implements bracket.Store.
func (f *FaultStore) List(ctx context.Context, prefix string) ([]bracket.Entry, error) {
	fault := f.fault("List", prefix)
	switch fault {
	case Crash:
		return nil, ErrCrashed
	case Lose, LoseAnswer:
		return nil, ErrInjected
	}
	entries, err := f.inner.List(ctx, prefix)
	if err != nil {
		return nil, err
	}
	listed := entries[:0]
	for _, e := range entries {
		if old, seen := f.old(e.Key); fault == Stale && seen {
			if old == nil {
				continue
			}
			e = *old
			e.Value = slices.Clone(e.Value)
		}
		f.see(e.Key, &e)
		listed = append(listed, e)
	}
	if fault == Stale {
		listed = f.deleted(listed, prefix)
	}
	return listed, nil
}

// deleted adds the first versions of keys that have the prefix and are no longer listed.
func (f *FaultStore) deleted(listed []bracket.Entry, prefix string) []bracket.Entry {
	f.mu.Lock()
	defer f.mu.Unlock()
	present := make(map[string]bool, len(listed))
	for _, e := range listed {
		present[e.Key] = true
	}
	for key, old := range f.oldest {
		if old != nil && strings.HasPrefix(key, prefix) && !present[key] {
			e := *old
			e.Value = slices.Clone(old.Value)
			listed = append(listed, e)
		}
	}
	slices.SortFunc(listed, func(a, b bracket.Entry) int { return strings.Compare(a.Key, b.Key) })
	return listed
}

// Save implements bracket.Store.
func (f *FaultStore) Save(ctx context.Context, key string, value []byte, revision int64) (int64, error) {
	value = slices.Clone(value)
	var next int64
	err := f.write(ctx, "Save", key, func(ctx context.Context) error {
		r, err := f.inner.Save(ctx, key, value, revision)
		next = r
		return err
	})
	if err != nil {
		return 0, err
	}
	f.see(key, &bracket.Entry{Key: key, Value: value, Revision: next})
	return next, nil
}

// Delete implements bracket.Store.
func (f *FaultStore) Delete(ctx context.Context, key string, revision int64) error {
	return f.write(ctx, "Delete", key, func(ctx context.Context) error { return f.inner.Delete(ctx, key, revision) })
}

func (f *FaultStore) write(ctx context.Context, method, key string, call func(context.Context) error) error {
	fault := f.fault(method, key)
	switch fault {
	case Crash:
		return ErrCrashed
	case Lose:
		return ErrInjected
	case Conflict:
		return bracket.ErrConflict
	case Delay:
		f.mu.Lock()
		f.delayed = append(f.delayed, func() { _ = call(context.WithoutCancel(ctx)) })
		f.mu.Unlock()
		return ErrInjected
	}
	err := call(ctx)
	if fault == Repeat {
		err = call(ctx)
	}
	f.mu.Lock()
	delayed := f.delayed
	f.delayed = nil
	f.mu.Unlock()
	for _, late := range delayed {
		late()
	}
	if fault == LoseAnswer {
		return ErrInjected
	}
	return err
}
