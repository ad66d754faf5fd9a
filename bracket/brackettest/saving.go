package brackettest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tranche-dev/tranche/bracket"
)

// saving: what one client sees of what it does, one call after the other.
var saving = []promise{
	{"an unknown key is not found", "a host starts with empty records when nothing is stored, and must tell that from a failure", func(c *client) {
		c.absent("nothing/here")
	}},
	{"revision 0 creates, once", "two planners that both find nothing must not both create the first record", func(c *client) {
		c.save("k", "one", 0)
		c.refused("k", "two", 0, bracket.ErrConflict)
		c.holds("k", "one")
	}},
	{"an old revision conflicts", "a plan made from a stale record must not overwrite what was decided since", func(c *client) {
		first := c.save("k", "one", 0)
		second := c.save("k", "two", first)
		c.refused("k", "three", first, bracket.ErrConflict)
		c.refused("k", "three", second+1000, bracket.ErrConflict)
		c.refused("k", "three", second+1<<32, bracket.ErrConflict) // in a column of 32 bits it is the present one
		c.impossible("k", -1)
		c.holds("k", "two")
	}},
	{"a revision of a key that does not exist conflicts", "a record that was deleted must not come back by a late save", func(c *client) {
		c.refused("k", "one", 7, bracket.ErrConflict)
		c.impossible("k", -1)
		c.refused("k", "one", 1<<32, bracket.ErrConflict)
		c.absent("k")
	}},
	{"a client reads its own save", "a planner that saved and loads again must not plan from what it replaced", func(c *client) {
		revision := int64(0)
		for i := range 50 {
			value := fmt.Sprint(i)
			revision = c.save("k", value, revision)
			if got := c.holds("k", value); got != revision {
				c.Fatalf("Load returns revision %d after Save returned %d", got, revision)
			}
		}
	}},
	{"revisions grow across delete", "a client that still holds the revision of a deleted key must not match the key that took its place", func(c *client) {
		last := int64(0)
		for i := range 5 {
			revision := c.save("k", fmt.Sprint(i), 0)
			if revision <= last {
				c.Fatalf("revision %d of the re-created key is not greater than %d before", revision, last)
			}
			last = c.save("k", fmt.Sprint(i, "again"), revision)
			if last <= revision {
				c.Fatalf("revision %d follows %d", last, revision)
			}
			c.delete("k", last, nil)
			c.absent("k")
			c.refused("k", "late", last, bracket.ErrConflict)
		}
	}},
	{"delete is conditional", "cleaning up must not remove a record that came back to life", func(c *client) {
		c.delete("k", 1, bracket.ErrNotFound)
		first := c.save("k", "one", 0)
		second := c.save("k", "two", first)
		c.delete("k", first, bracket.ErrConflict)
		c.delete("k", second+1000, bracket.ErrConflict)
		c.delete("k", second+1<<32, bracket.ErrConflict)
		c.impossible("k", -1)
		c.holds("k", "two")
		c.delete("k", second, nil)
		c.absent("k")
		c.delete("k", second, bracket.ErrNotFound)
	}},
	{"a cancelled context writes nothing", "a host that shuts down must know that its last save did not happen", func(c *client) {
		revision := c.save("k", "one", 0)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_, _, err := c.store.Load(ctx, "k")
		c.cancelled("Load", err)
		_, err = c.store.Save(ctx, "k", []byte("two"), revision)
		c.cancelled("Save", err)
		_, err = c.store.Save(ctx, "new", []byte("two"), 0)
		c.cancelled("Save", err)
		_, err = c.store.List(ctx, "")
		c.cancelled("List", err)
		c.cancelled("Delete", c.store.Delete(ctx, "k", revision))
		late, cancel := context.WithDeadline(context.Background(), time.Unix(0, 0))
		defer cancel()
		_, _, loaded := c.store.Load(late, "k")
		_, saved := c.store.Save(late, "k", []byte("two"), revision)
		_, listed := c.store.List(late, "")
		deleted := c.store.Delete(late, "k", revision)
		for method, err := range map[string]error{"Load": loaded, "Save": saved, "List": listed, "Delete": deleted} {
			if !errors.Is(err, context.DeadlineExceeded) {
				c.Errorf("%s after the deadline of its context: %v, want context.DeadlineExceeded", method, err)
			}
		}
		if got := c.holds("k", "one"); got != revision {
			c.Fatalf("revision %d became %d", revision, got)
		}
		c.absent("new")
	}},
}
