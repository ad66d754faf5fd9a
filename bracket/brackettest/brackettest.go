// Package brackettest holds the conformance test for implementations of bracket.Store, and a store that injects faults into another
// one, for tests of everything that is built on stores.
package brackettest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/bracket"
)

// Run checks that a store keeps the promises of bracket.Store. newStore is called once per case and must return an empty store; it
// may register cleanup with its argument. A failed case prints what the promise is for.
func Run(t *testing.T, newStore func(*testing.T) bracket.Store) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Cleanup(func() {
				if t.Failed() {
					t.Logf("why this matters: %s", c.why)
				}
			})
			c.run(&client{TB: t, store: newStore(t)})
		})
	}
	t.Run("agrees with the reference", func(t *testing.T) {
		store := newStore(t)
		n := 0
		rapid.Check(t, func(r *rapid.T) {
			n++ // keys of their own for each run, as the store is shared by all
			machine(r, store, fmt.Sprintf("run %d/", n))
		})
	})
}

var cases = []struct {
	name string
	why  string
	run  func(*client)
}{
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
		c.holds("k", "two")
	}},
	{"a revision of a key that does not exist conflicts", "a record that was deleted must not come back by a late save", func(c *client) {
		c.refused("k", "one", 7, bracket.ErrConflict)
		c.absent("k")
	}},
	{"of two writers one wins", "the limit on disrupted resources rests on this and nothing else", func(c *client) {
		const writers, rounds = 8, 20
		revision := c.save("k", "start", 0)
		for round := range rounds {
			revisions, values := make([]int64, writers), make([]string, writers)
			errs := make([]error, writers)
			var group sync.WaitGroup
			for i := range writers {
				values[i] = fmt.Sprintf("%d/%d", round, i)
				group.Go(func() { revisions[i], errs[i] = c.store.Save(context.Background(), "k", []byte(values[i]), revision) })
			}
			group.Wait()
			winner := -1
			for i, err := range errs {
				switch {
				case err == nil && winner >= 0:
					c.Fatalf("round %d: writers %d and %d both saved at revision %d", round, winner, i, revision)
				case err == nil:
					winner = i
				case !errors.Is(err, bracket.ErrConflict):
					c.Fatalf("round %d: Save: %v, want success or ErrConflict", round, err)
				}
			}
			if winner < 0 {
				c.Fatalf("round %d: none of %d writers saved at revision %d", round, writers, revision)
			}
			c.holds("k", values[winner])
			if revisions[winner] <= revision {
				c.Fatalf("round %d: revision %d follows %d", round, revisions[winner], revision)
			}
			revision = revisions[winner]
		}
	}},
	{"of many creators one wins", "two planners that both find nothing must not both have a first record, and no conflict may come from nobody", func(c *client) {
		const writers, rounds = 8, 20
		for round := range rounds {
			key := fmt.Sprint("k", round)
			revisions, errs := make([]int64, writers), make([]error, writers)
			var group sync.WaitGroup
			for i := range writers {
				group.Go(func() {
					revisions[i], errs[i] = c.store.Save(context.Background(), key, []byte(fmt.Sprint(i)), 0)
				})
			}
			group.Wait()
			winner := -1
			for i, err := range errs {
				switch {
				case err == nil && winner >= 0:
					c.Fatalf("round %d: writers %d and %d both created the key", round, winner, i)
				case err == nil:
					winner = i
				case !errors.Is(err, bracket.ErrConflict):
					c.Fatalf("round %d: Save: %v, want success or ErrConflict", round, err)
				}
			}
			if winner < 0 {
				c.Fatalf("round %d: none of %d writers created the key", round, writers)
			}
			if got := c.holds(key, fmt.Sprint(winner)); got != revisions[winner] {
				c.Fatalf("round %d: revision %d, the winner was told %d", round, got, revisions[winner])
			}
		}
	}},
	{"a save and a delete at one revision exclude each other", "a record that one planner gives up and another one needs must end as one of them decided, and the other must know", func(c *client) {
		for round := range 40 {
			key := fmt.Sprint("k", round)
			revision := c.save(key, "old", 0)
			var saved, deleted error
			var group sync.WaitGroup
			group.Go(func() { _, saved = c.store.Save(context.Background(), key, []byte("new"), revision) })
			group.Go(func() { deleted = c.store.Delete(context.Background(), key, revision) })
			group.Wait()
			switch {
			case saved == nil && errors.Is(deleted, bracket.ErrConflict):
				c.holds(key, "new")
			case deleted == nil && errors.Is(saved, bracket.ErrConflict):
				c.absent(key)
			default:
				c.Fatalf("round %d: Save: %v, Delete: %v, want one success and one ErrConflict", round, saved, deleted)
			}
		}
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
	{"revisions grow across delete, whoever deletes and creates", "a revision that was taken before others were done with the key may be older than theirs", func(c *client) {
		// Only who created the key deletes it. So nobody can have created it between somebody else's creation and its answer, and every
		// revision that was answered before is older.
		const writers, successes, attempts = 6, 12, 400
		var mu sync.Mutex
		greatest, total := int64(0), 0
		var group sync.WaitGroup
		for range writers {
			group.Go(func() {
				for own, n := 0, 0; own < successes && n < attempts; n++ {
					revision, err := c.store.Save(context.Background(), "k", []byte("x"), 0)
					if errors.Is(err, bracket.ErrConflict) {
						continue
					}
					if err != nil {
						c.Errorf("Save: %v", err)
						return
					}
					own++
					mu.Lock()
					if revision <= greatest {
						c.Errorf("the key has revision %d after it had %d", revision, greatest)
					}
					greatest = max(greatest, revision)
					total++
					mu.Unlock()
					if err := c.store.Delete(context.Background(), "k", revision); err != nil {
						c.Errorf("Delete: %v", err)
						return
					}
				}
			})
		}
		group.Wait()
		if total == 0 {
			c.Errorf("nobody ever created the key")
		}
	}},
	{"delete is conditional", "cleaning up must not remove a record that came back to life", func(c *client) {
		c.delete("k", 1, bracket.ErrNotFound)
		first := c.save("k", "one", 0)
		second := c.save("k", "two", first)
		c.delete("k", first, bracket.ErrConflict)
		c.holds("k", "two")
		c.delete("k", second, nil)
		c.absent("k")
		c.delete("k", second, bracket.ErrNotFound)
	}},
	{"values are copies", "callers reuse buffers; a store that keeps one changes its records behind everybody's back", func(c *client) {
		buffer := []byte("value")
		if _, err := c.store.Save(context.Background(), "k", buffer, 0); err != nil {
			c.Fatal(err)
		}
		buffer[0] = 'X'
		c.holds("k", "value")
		loaded, _, err := c.store.Load(context.Background(), "k")
		if err != nil {
			c.Fatal(err)
		}
		loaded[0] = 'X'
		c.holds("k", "value")
		entries, err := c.store.List(context.Background(), "")
		if err != nil || len(entries) != 1 {
			c.Fatalf("List: %v, %v", entries, err)
		}
		entries[0].Value[0] = 'X'
		c.holds("k", "value")
	}},
	{"values round-trip byte for byte", "records are JSON today; nothing promises that they are text", func(c *client) {
		every := make([]byte, 256)
		for i := range every {
			every[i] = byte(i)
		}
		for i, value := range []string{"", "\x00", string(every), "\xff\xfe", strings.Repeat("long ", 20000), "trailing \n\n "} {
			key := fmt.Sprint("k", i)
			c.save(key, value, 0)
			c.holds(key, value)
		}
	}},
	{"keys are any text", "keys hold names that users chose", func(c *client) {
		keys := []string{"a", "a/b", "a//b", "/a", "a/", "a%2Fb", "a%b", "a b", " ", "A", "nœud-3", "日本", "a\nb", `a"b'c\d`, "a*b?c[d]", "a_b", "..", "a\tb",
			"a\x00", "a\x00b", "\U0010ffff", "\U0010ffff/a", strings.Repeat("k", 1024), strings.Repeat("k", 1023)}
		for i, key := range keys {
			c.save(key, fmt.Sprint(i), 0)
		}
		for i, key := range keys {
			c.holds(key, fmt.Sprint(i))
		}
		c.lists("", keys...)
		c.lists("a%", "a%2Fb", "a%b")
		c.lists("a_", "a_b")
		c.lists("a/", "a/", "a//b", "a/b")
		c.lists("a\x00", "a\x00", "a\x00b")
		c.lists("\U0010ffff", "\U0010ffff", "\U0010ffff/a") // nothing that is text comes after it
		c.lists(strings.Repeat("k", 1024), strings.Repeat("k", 1024))
		c.lists("nobody")
	}},
	{"keys that cannot be are errors", "a key that is cut short or ignored is another key", func(c *client) {
		for _, key := range []string{"", strings.Repeat("k", 1025)} {
			_, revision, loaded := c.store.Load(context.Background(), key)
			_, saved := c.store.Save(context.Background(), key, []byte("x"), 0)
			deleted := c.store.Delete(context.Background(), key, 1)
			for method, err := range map[string]error{"Load": loaded, "Save": saved, "Delete": deleted} {
				if err == nil || errors.Is(err, bracket.ErrNotFound) || errors.Is(err, bracket.ErrConflict) || revision != 0 {
					c.Errorf("%s with a key of %d bytes: %v, want an error that says so", method, len(key), err)
				}
			}
		}
		c.lists("")
	}},
	{"times keep nanoseconds", "an instant that was rounded closes a window too early", func(c *client) {
		at := time.Date(2026, 3, 10, 9, 0, 0, 123456789, time.UTC)
		record := bracket.NewState("rule", "prod").Group
		record.Number, record.Collecting = 1, &bracket.Collecting{ID: bracket.GroupID("rule", "prod", 1), OpenedAt: at}
		value, err := json.Marshal(record)
		if err != nil {
			c.Fatal(err)
		}
		c.save("k", string(value), 0)
		loaded, _, err := c.store.Load(context.Background(), "k")
		if err != nil {
			c.Fatal(err)
		}
		var back bracket.GroupRecord
		if err := json.Unmarshal(loaded, &back); err != nil || !back.Collecting.OpenedAt.Equal(at) {
			c.Fatalf("%v comes back as %s, %v", at, loaded, err)
		}
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
		if got := c.holds("k", "one"); got != revision {
			c.Fatalf("revision %d became %d", revision, got)
		}
		c.absent("new")
	}},
	{"a list of 10,000 is complete and in order", "a store that answers in pages must not lose one", func(c *client) {
		const n, writers = 10000, 8 // several, for the sake of stores that are far away
		saved := make([]bracket.Entry, n)
		var group sync.WaitGroup
		for w := range writers {
			group.Go(func() {
				for i := w; i < n; i += writers {
					at := (i * 7919) % n // in no order
					e := bracket.Entry{Key: fmt.Sprintf("many/%05d", at), Value: []byte(fmt.Sprint(i))}
					var err error
					if e.Revision, err = c.store.Save(context.Background(), e.Key, e.Value, 0); err != nil {
						c.Errorf("Save(%q): %v", e.Key, err)
						return
					}
					saved[at] = e
				}
			})
		}
		group.Wait()
		c.save("manx", "before", 0)
		c.save("many0", "after", 0)
		entries, err := c.store.List(context.Background(), "many/")
		if err != nil || len(entries) != n {
			c.Fatalf("List: %d entries, %v, want %d", len(entries), err, n)
		}
		for i, e := range entries {
			if want := saved[i]; e.Key != want.Key || e.Revision != want.Revision || !bytes.Equal(e.Value, want.Value) {
				c.Fatalf("List: entry %d is %q at %d, saved was %q at %d", i, e.Key, e.Revision, want.Key, want.Revision)
			}
		}
	}},
	{"a list is complete while others write", "a store that answers in pages must not skip a record because its neighbours come and go", func(c *client) {
		const stable = 1500
		want := make(map[string]bool, stable)
		for i := range stable {
			key := fmt.Sprintf("k/%05d", i)
			c.save(key, "stays", 0)
			want[key] = true
		}
		ctx, cancel := context.WithCancel(context.Background())
		var group sync.WaitGroup
		defer group.Wait()
		defer cancel()
		for w := range 2 {
			group.Go(func() {
				for i := 0; ctx.Err() == nil; i++ {
					key := fmt.Sprintf("k/%05d/%d", (i*397)%stable, w) // between two that stay
					revision, err := c.store.Save(context.Background(), key, []byte("comes and goes"), 0)
					if err == nil {
						err = c.store.Delete(context.Background(), key, revision)
					}
					if err != nil {
						c.Errorf("Save or Delete: %v", err)
						return
					}
				}
			})
		}
		for range 10 {
			entries, err := c.store.List(context.Background(), "k/")
			if err != nil {
				c.Fatalf("List: %v", err)
			}
			found := 0
			for i, e := range entries {
				if i > 0 && entries[i-1].Key >= e.Key {
					c.Fatalf("List: %q comes before %q", entries[i-1].Key, e.Key)
				}
				if want[e.Key] {
					found++
				}
			}
			if found != stable {
				c.Fatalf("List: %d of the %d records that stay", found, stable)
			}
		}
	}},
	{"a list never mixes versions", "a snapshot may be old, but each record in it must have existed", func(c *client) {
		const keys, writes = 4, 60
		var mu sync.Mutex
		saved := make(map[string]map[int64][]byte)
		for k := range keys { // all of it before the first writer starts: the outer map is never written again
			saved[fmt.Sprint("k", k)] = make(map[int64][]byte)
		}
		var group sync.WaitGroup
		for k := range keys {
			key := fmt.Sprint("k", k)
			group.Go(func() {
				revision := int64(0)
				for i := range writes {
					value := bytes.Repeat([]byte{byte('a' + i%26)}, 1000+i)
					mu.Lock() // held across the call, so that the log is never behind a list
					r, err := c.store.Save(context.Background(), key, value, revision)
					if err != nil {
						c.Errorf("Save: %v", err)
					}
					saved[key][r], revision = value, r
					mu.Unlock()
				}
			})
		}
		done := make(chan struct{})
		go func() { group.Wait(); close(done) }()
		for finished := false; !finished; {
			select {
			case <-done:
				finished = true
			default:
			}
			entries, err := c.store.List(context.Background(), "k")
			if err != nil {
				c.Fatalf("List: %v", err)
			}
			mu.Lock()
			for _, e := range entries {
				if want, known := saved[e.Key][e.Revision]; !known || !bytes.Equal(want, e.Value) {
					c.Errorf("List shows %q at revision %d with a value of %d bytes that was never saved so", e.Key, e.Revision, len(e.Value))
				}
			}
			mu.Unlock()
		}
	}},
}

// client is one case with the store under test.
type client struct {
	testing.TB
	store bracket.Store
}

func (c *client) save(key, value string, revision int64) int64 {
	c.Helper()
	next, err := c.store.Save(context.Background(), key, []byte(value), revision)
	if err != nil {
		c.Fatalf("Save(%.40q, revision %d): %v", key, revision, err)
	}
	if next <= revision || next < 1 {
		c.Fatalf("Save(%.40q, revision %d) returns revision %d: must be greater, and at least 1", key, revision, next)
	}
	return next
}

func (c *client) refused(key, value string, revision int64, want error) {
	c.Helper()
	if _, err := c.store.Save(context.Background(), key, []byte(value), revision); !errors.Is(err, want) {
		c.Fatalf("Save(%.40q, revision %d): %v, want %v", key, revision, err, want)
	}
}

func (c *client) delete(key string, revision int64, want error) {
	c.Helper()
	if err := c.store.Delete(context.Background(), key, revision); !errors.Is(err, want) {
		c.Fatalf("Delete(%.40q, revision %d): %v, want %v", key, revision, err, want)
	}
}

func (c *client) holds(key, want string) int64 {
	c.Helper()
	value, revision, err := c.store.Load(context.Background(), key)
	if err != nil || string(value) != want || revision < 1 {
		c.Fatalf("Load(%.40q): %.60q, revision %d, %v; want %.60q", key, value, revision, err, want)
	}
	return revision
}

func (c *client) absent(key string) {
	c.Helper()
	if value, revision, err := c.store.Load(context.Background(), key); !errors.Is(err, bracket.ErrNotFound) || revision != 0 {
		c.Fatalf("Load(%.40q): %.60q, revision %d, %v; want revision 0 and ErrNotFound", key, value, revision, err)
	}
}

// lists checks that exactly these keys have the prefix, whatever order they are given in.
func (c *client) lists(prefix string, want ...string) {
	c.Helper()
	entries, err := c.store.List(context.Background(), prefix)
	if err != nil {
		c.Fatalf("List(%.40q): %v", prefix, err)
	}
	missing := make(map[string]bool, len(want))
	for _, key := range want {
		missing[key] = true
	}
	for i, e := range entries {
		if i > 0 && entries[i-1].Key >= e.Key {
			c.Fatalf("List(%.40q): %.40q comes before %.40q", prefix, entries[i-1].Key, e.Key)
		}
		if !missing[e.Key] {
			c.Fatalf("List(%.40q): %.40q is not expected", prefix, e.Key)
		}
		delete(missing, e.Key)
		if revision := c.holds(e.Key, string(e.Value)); revision != e.Revision {
			c.Fatalf("List(%.40q): %.40q has revision %d, Load says %d", prefix, e.Key, e.Revision, revision)
		}
	}
	for key := range missing {
		c.Fatalf("List(%.40q): %.40q is missing, of %d keys", prefix, key, len(want))
	}
}

func (c *client) cancelled(method string, err error) {
	c.Helper()
	if !errors.Is(err, context.Canceled) {
		c.Errorf("%s with a cancelled context: %v, want context.Canceled", method, err)
	}
}

// machine runs random calls against the store and against the reference. Revisions are compared by what they are good for: the same
// calls succeed and fail, and they grow.
func machine(t *rapid.T, store bracket.Store, prefix string) {
	ctx := context.Background()
	var reference bracket.MemoryStore
	type pair struct{ real, model int64 }
	seen := map[string][]pair{} // revisions that a key has had, oldest first
	keys := rapid.SampledFrom([]string{prefix + "a", prefix + "a/b", prefix + "b", prefix + "ä"})
	draw := func(key string) pair {
		known := append([]pair{{0, 0}}, seen[key]...)
		return known[rapid.IntRange(0, len(known)-1).Draw(t, "revision")]
	}
	same := func(what string, real, model error) {
		for _, sentinel := range []error{bracket.ErrConflict, bracket.ErrNotFound} {
			if errors.Is(real, sentinel) != errors.Is(model, sentinel) || (real == nil) != (model == nil) {
				t.Fatalf("%s: %v, the reference says %v", what, real, model)
			}
		}
	}
	t.Repeat(map[string]func(*rapid.T){
		"save": func(t *rapid.T) {
			key, value := keys.Draw(t, "key"), rapid.SliceOfN(rapid.Byte(), 0, 4).Draw(t, "value")
			at := draw(key)
			r1, err1 := store.Save(ctx, key, value, at.real)
			r2, err2 := reference.Save(ctx, key, value, at.model)
			same("Save", err1, err2)
			if err1 == nil {
				if n := len(seen[key]); n > 0 && r1 <= seen[key][n-1].real {
					t.Fatalf("Save: revision %d after %d", r1, seen[key][n-1].real)
				}
				seen[key] = append(seen[key], pair{r1, r2})
			}
		},
		"delete": func(t *rapid.T) {
			key := keys.Draw(t, "key")
			at := draw(key)
			same("Delete", store.Delete(ctx, key, at.real), reference.Delete(ctx, key, at.model))
		},
		"load": func(t *rapid.T) {
			key := keys.Draw(t, "key")
			v1, r1, err1 := store.Load(ctx, key)
			v2, r2, err2 := reference.Load(ctx, key)
			same("Load", err1, err2)
			if n := len(seen[key]); err1 == nil && (!bytes.Equal(v1, v2) || seen[key][n-1] != pair{r1, r2}) {
				t.Fatalf("Load: %q at %d, the reference says %q at %d", v1, r1, v2, r2)
			}
		},
		"list": func(t *rapid.T) {
			from := prefix + rapid.SampledFrom([]string{"", "a", "a/", "zzz"}).Draw(t, "prefix")
			l1, err1 := store.List(ctx, from)
			l2, err2 := reference.List(ctx, from)
			same("List", err1, err2)
			if len(l1) != len(l2) {
				t.Fatalf("List: %d entries, the reference says %d", len(l1), len(l2))
			}
			for i := range l1 {
				if l1[i].Key != l2[i].Key || !bytes.Equal(l1[i].Value, l2[i].Value) {
					t.Fatalf("List: entry %d is %q, the reference says %q", i, l1[i].Key, l2[i].Key)
				}
			}
		},
	})
}
