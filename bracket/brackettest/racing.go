package brackettest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"

	"github.com/tranche-dev/tranche/bracket"
)

// racing: what several clients see of one another when they call at once.
var racing = []promise{
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
			winner := c.winner(revision, errs)
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
			winner := c.winner(0, errs)
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
	{"calls at once have one order", "a value with the revision of another one, or a conflict with nobody, misleads every later decision", func(c *client) {
		const workers, turns = 4, 40
		var history History
		var group sync.WaitGroup
		for w := range workers {
			store := history.Record(c.store)
			group.Go(func() {
				for i := range turns {
					if err := turn(store, fmt.Sprint("k", (i/3+w)%2), fmt.Sprint(w, "/", i), i+w); err != nil {
						c.Error(err)
						return
					}
				}
			})
		}
		group.Wait()
		if err := history.Check(); err != nil {
			c.Error(err)
		}
	}},
	{"revisions grow across delete, whoever deletes and creates", "a revision that was taken before others were done with the key may be older than theirs", func(c *client) {
		// Only the writer that created the key deletes it. So no other writer can create the key
		// between a creation and its answer, and every revision answered before is older.
		const writers, successes, attempts = 6, 12, 400
		var mu sync.Mutex
		greatest, total := int64(0), 0
		fell, from, to := 0, int64(0), int64(0) // how often, and the first time
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
						if fell == 0 {
							from, to = greatest, revision
						}
						fell++
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
		if fell > 0 {
			c.Errorf("the key was created with revision %d after it had had %d, and %d times of %d not with a greater one", to, from, fell, total)
		}
		if total == 0 {
			c.Errorf("nobody ever created the key")
		}
	}},
}

// turn is one turn of a worker: it reads a key, by Load or by List, and replaces, creates or
// deletes what it found.
func turn(store bracket.Store, key, value string, i int) error {
	ctx := context.Background()
	_, revision, err := store.Load(ctx, key)
	if err != nil && !errors.Is(err, bracket.ErrNotFound) {
		return fmt.Errorf("Load(%q): %w", key, err)
	}
	if i%4 == 0 {
		entries, err := store.List(ctx, "k")
		if err != nil {
			return fmt.Errorf("List: %w", err)
		}
		for _, e := range entries {
			if e.Key == key {
				revision = e.Revision
			}
		}
	}
	runtime.Gosched() // a store in memory waits for nothing: others would come only between turns
	if i%5 == 0 && revision > 0 {
		if err := store.Delete(ctx, key, revision); err != nil && !errors.Is(err, bracket.ErrConflict) && !errors.Is(err, bracket.ErrNotFound) {
			return fmt.Errorf("Delete(%q, revision %d): %w", key, revision, err)
		}
		return nil
	}
	if _, err := store.Save(ctx, key, []byte(value), revision); err != nil && !errors.Is(err, bracket.ErrConflict) {
		return fmt.Errorf("Save(%q, revision %d): %w", key, revision, err)
	}
	return nil
}
