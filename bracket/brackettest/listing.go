package brackettest

import (
	"bytes"
	"context"
	"fmt"
	"sync"

	"github.com/tranche-dev/tranche/bracket"
)

// listing: what List promises, also while others write.
var listing = []promise{
	{"a list of 10,000 is complete and in order", "a store that answers in pages must not lose one", func(c *client) {
		const n, writers = 10000, 8 // several, because a remote store is slow
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
		for k := range keys { // complete before the first writer starts: the outer map is never written again
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
		defer group.Wait() // if a list fails, too: no writer may report to a case that is over
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
