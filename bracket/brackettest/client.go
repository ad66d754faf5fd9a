package brackettest

import (
	"context"
	"errors"
	"testing"

	"github.com/tranche-dev/tranche/bracket"
)

// client is one case with the store under test.
type client struct {
	testing.TB
	store bracket.Store
}

func (c *client) save(key, value string, revision int64) int64 {
	c.Helper()
	next, err := c.store.Save(context.Background(), key, []byte(value), revision)
	if revision == 0 && errors.Is(err, bracket.ErrConflict) {
		c.Fatalf("Save(%.40q, revision 0): %v: there is no such key, so another one is taken for it", key, err)
	}
	if err != nil {
		c.Fatalf("Save(%.40q, revision %d): %v", key, revision, err)
	}
	if next <= revision { // revision is never negative
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

// impossible tries to write at a revision that no Save returns, and that is any revision to some
// storages. It is a mistake of the caller, so any error will do.
func (c *client) impossible(key string, revision int64) {
	c.Helper()
	if next, err := c.store.Save(context.Background(), key, []byte("impossible"), revision); err == nil {
		c.Fatalf("Save(%.40q, revision %d) returns revision %d, want an error: no Save ever returned that revision", key, revision, next)
	}
	if err := c.store.Delete(context.Background(), key, revision); err == nil {
		c.Fatalf("Delete(%.40q, revision %d) succeeds, want an error: no Save ever returned that revision", key, revision)
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

// winner returns the one of several writers at a revision whose save succeeded; the others must
// have got ErrConflict.
func (c *client) winner(revision int64, errs []error) int {
	c.Helper()
	winner := -1
	for i, err := range errs {
		switch {
		case err == nil && winner >= 0:
			c.Fatalf("writers %d and %d both saved at revision %d", winner, i, revision)
		case err == nil:
			winner = i
		case !errors.Is(err, bracket.ErrConflict):
			c.Fatalf("Save at revision %d: %v, want success or ErrConflict", revision, err)
		}
	}
	if winner < 0 {
		c.Fatalf("none of %d writers saved at revision %d", len(errs), revision)
	}
	return winner
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
