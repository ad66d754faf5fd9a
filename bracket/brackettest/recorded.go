package brackettest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/tranche-dev/tranche/bracket"
)

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
