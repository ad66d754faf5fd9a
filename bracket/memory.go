package bracket

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

// MemoryStore is the reference implementation of [Store]: a map under a lock. The zero value is
// empty and ready for use. It must not be copied.
type MemoryStore struct {
	mu      sync.Mutex
	entries map[string]Entry
	clock   int64 // last revision of any key, so that re-created keys never repeat one
}

var _ Store = (*MemoryStore)(nil)

func (m *MemoryStore) check(ctx context.Context, key string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if key == "" || len(key) > 1024 || !utf8.ValidString(key) {
		return fmt.Errorf("bracket: key of %d bytes: must be 1 to 1024 bytes of UTF-8", len(key))
	}
	return nil
}

// Load implements [Store].
func (m *MemoryStore) Load(ctx context.Context, key string) ([]byte, int64, error) {
	if err := m.check(ctx, key); err != nil {
		return nil, 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.entries[key]
	if !ok {
		return nil, 0, ErrNotFound
	}
	return slices.Clone(e.Value), e.Revision, nil
}

// Save implements [Store].
func (m *MemoryStore) Save(ctx context.Context, key string, value []byte, revision int64) (int64, error) {
	if err := m.check(ctx, key); err != nil {
		return 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.entries[key].Revision != revision { // a missing entry has revision 0
		return 0, ErrConflict
	}
	if m.entries == nil {
		m.entries = make(map[string]Entry)
	}
	m.clock++
	m.entries[key] = Entry{Key: key, Value: slices.Clone(value), Revision: m.clock}
	return m.clock, nil
}

// Delete implements [Store].
func (m *MemoryStore) Delete(ctx context.Context, key string, revision int64) error {
	if err := m.check(ctx, key); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch e, ok := m.entries[key]; {
	case !ok:
		return ErrNotFound
	case e.Revision != revision:
		return ErrConflict
	}
	delete(m.entries, key)
	return nil
}

// List implements [Store].
func (m *MemoryStore) List(ctx context.Context, prefix string) ([]Entry, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var found []Entry
	for key, e := range m.entries {
		if strings.HasPrefix(key, prefix) {
			e.Value = slices.Clone(e.Value)
			found = append(found, e)
		}
	}
	slices.SortFunc(found, func(a, b Entry) int { return strings.Compare(a.Key, b.Key) })
	return found, nil
}
