//go:build unix

package controllertest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/bracket/brackettest"
)

// RunHistory lets four clients, with a network each that fails, write the same few keys of a
// database, and checks with a [brackettest.History] that one order of the writes explains what all
// of them were told. It goes on for as long as a schedule has trouble, and until the outcome of
// some writes is unknown. It returns what happened.
func RunHistory(t *testing.T, d Driver, seed uint64) *Tally {
	var history brackettest.History
	var clients, nature sync.WaitGroup
	tally, space, begun := &Tally{}, d.Space(t), time.Now()
	s := &schedule{TB: t, driver: d, seed: seed, tally: tally, over: make(chan struct{})}
	for i := range uint64(4) {
		proxies, address := d.proxied(t)
		db, err := d.Open(t.Context(), address, space)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(db.Close)
		store := history.Record(db.Store)
		random := rand.New(rand.NewPCG(seed, i))
		clients.Go(func() {
			for n := 0; time.Since(begun) < trouble || tally.Count("unknown") < 10 && time.Since(begun) < patience; n++ {
				err := replace(t.Context(), store, fmt.Sprint("k", random.IntN(3)), fmt.Sprint(i, "/", n), random)
				switch {
				case err == nil:
					tally.add("written", 1)
				case errors.Is(err, errUnread):
					tally.add("unread", 1)
				case errors.Is(err, bracket.ErrConflict) || errors.Is(err, bracket.ErrNotFound):
					tally.add("refused", 1)
				default:
					tally.add("unknown", 1)
				}
			}
		})
		h := &host{schedule: s, number: i, proxies: proxies}
		nature.Go(h.network)
	}
	if d.Disturb != nil {
		nature.Go(s.disturb)
	}
	clients.Wait()
	close(s.over)
	nature.Wait()
	for _, fault := range s.faults {
		t.Error(fault)
	}
	if err := history.Check(); err != nil {
		t.Error(err)
	}
	for _, want := range []string{"written", "refused", "unknown"} {
		if tally.Count(want) == 0 {
			t.Errorf("no write was %s", want)
		}
	}
	t.Logf("%v", tally)
	return tally
}

// errUnread means that nothing was written, because the reading before it failed.
var errUnread = errors.New("nothing was read")

// replace reads a key, now and then by a list, and then replaces, creates or deletes it. It returns
// the error of the write, or errUnread.
func replace(ctx context.Context, store bracket.Store, key, value string, random *rand.Rand) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, revision, err := store.Load(ctx, key)
	if err != nil && !errors.Is(err, bracket.ErrNotFound) {
		return fmt.Errorf("%w: %v", errUnread, err)
	}
	if random.IntN(4) == 0 {
		entries, err := store.List(ctx, "k")
		if err != nil {
			return fmt.Errorf("%w: %v", errUnread, err)
		}
		for _, e := range entries {
			if e.Key == key {
				revision = e.Revision
			}
		}
	}
	if revision > 0 && random.IntN(6) == 0 {
		return store.Delete(ctx, key, revision)
	}
	_, err = store.Save(ctx, key, []byte(value), revision)
	return err
}
