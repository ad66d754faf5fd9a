// Package etcdstore keeps the state of [rollout.Planner] and the host's jobs in etcd: [Store] is a
// [bracket.Store], and [Jobs] are the jobs that hold its slots. Both work below one prefix of a
// cluster that may serve other purposes too.
//
// Every write is one transaction that compares the revisions of what was read, so any number of
// controllers may share a prefix without a leader. A list is read at one revision of the cluster,
// in pages: it is complete or it is an error. Reads are linearizable: a majority has agreed on
// whatever a member answers. In a cluster without a majority, a call gets no answer until its time
// is up.
package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tranche-dev/tranche/bracket"
)

// DefaultTimeout is how long a call may take if its context says nothing else.
const DefaultTimeout = 5 * time.Second

// pageSize is how many entries are read at once; with values of some kilobytes a page stays far
// below the limits of gRPC.
const pageSize = 1000

// attempts bounds how often a read or a transaction is made again because the cluster moved on
// meanwhile.
const attempts = 8

// Store is a [bracket.Store] in etcd. A revision is that of the cluster at which the key was
// written, so it grows across deletes too. It is safe for concurrent use.
//
// A value may have at most what the server accepts in one request, 1.5 MiB unless it is told
// otherwise; a greater one is an error that says so.
type Store struct {
	client  *clientv3.Client
	prefix  string
	timeout time.Duration
}

var _ bracket.Store = (*Store)(nil)

// NewStore returns the store below a prefix, such as "tranche/prod", which it shares with the
// [Jobs] of the same prefix. The prefixes of several fleets lie side by side, none below another:
// the keys of "tranche/record" would be records of "tranche". A call whose context has no deadline
// ends after timeout; 0 means [DefaultTimeout]. The client stays the caller's.
func NewStore(client *clientv3.Client, prefix string, timeout time.Duration) *Store {
	if timeout <= 0 {
		timeout = DefaultTimeout
	}
	return &Store{client: client, prefix: strings.TrimSuffix(prefix, "/") + "/", timeout: timeout}
}

func (s *Store) recordKey(key string) string { return s.prefix + "record/" + key }

func checkKey(key string) error {
	if key == "" || len(key) > 1024 || !utf8.ValidString(key) {
		return fmt.Errorf("etcdstore: key of %d bytes: must be 1 to 1024 bytes of UTF-8", len(key))
	}
	return nil
}

// begin bounds a call. A context that is done is answered before anything is sent.
func (s *Store) begin(ctx context.Context) (context.Context, context.CancelFunc, error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	if _, bounded := ctx.Deadline(); bounded {
		return ctx, func() {}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	return ctx, cancel, nil
}

// fail names the call that went wrong. The client reports the end of a context in several ways;
// callers get the one they know. The server has the deadline too, and may notice it first.
func (s *Store) fail(ctx context.Context, call, key string, err error) error {
	done := ctx.Err()
	if done == nil && (errors.Is(err, rpctypes.ErrTimeout) || errors.Is(err, rpctypes.ErrTimeoutDueToLeaderFail) || errors.Is(err, rpctypes.ErrTimeoutDueToConnectionLost)) {
		done = context.DeadlineExceeded
	}
	if done != nil && !errors.Is(err, done) {
		err = fmt.Errorf("%w (%v)", done, err)
	}
	return fmt.Errorf("etcdstore: %s %q at %s: %w", call, key, strings.Join(s.client.Endpoints(), ", "), err)
}

// Load implements [bracket.Store].
func (s *Store) Load(ctx context.Context, key string) ([]byte, int64, error) {
	if err := checkKey(key); err != nil {
		return nil, 0, err
	}
	ctx, cancel, err := s.begin(ctx)
	if err != nil {
		return nil, 0, err
	}
	defer cancel()
	found, err := s.client.Get(ctx, s.recordKey(key))
	if err != nil {
		return nil, 0, s.fail(ctx, "load", key, err)
	}
	if len(found.Kvs) == 0 {
		return nil, 0, bracket.ErrNotFound
	}
	return found.Kvs[0].Value, found.Kvs[0].ModRevision, nil
}

// Save implements [bracket.Store].
func (s *Store) Save(ctx context.Context, key string, value []byte, revision int64) (int64, error) {
	if err := checkKey(key); err != nil {
		return 0, err
	}
	ctx, cancel, err := s.begin(ctx)
	if err != nil {
		return 0, err
	}
	defer cancel()
	at := s.recordKey(key)
	done, err := s.client.Txn(ctx).
		If(clientv3.Compare(clientv3.ModRevision(at), "=", revision)). // a key without value has revision 0
		Then(clientv3.OpPut(at, string(value))).
		Commit()
	if err != nil {
		return 0, s.fail(ctx, "save", key, err)
	}
	if !done.Succeeded {
		return 0, bracket.ErrConflict
	}
	return done.Header.Revision, nil
}

// Delete implements [bracket.Store].
func (s *Store) Delete(ctx context.Context, key string, revision int64) error {
	if err := checkKey(key); err != nil {
		return err
	}
	ctx, cancel, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	at := s.recordKey(key)
	done, err := s.client.Txn(ctx).
		If(clientv3.Compare(clientv3.ModRevision(at), "=", revision), clientv3.Compare(clientv3.CreateRevision(at), ">", 0)).
		Then(clientv3.OpDelete(at)).
		Else(clientv3.OpGet(at, clientv3.WithKeysOnly())).
		Commit()
	switch {
	case err != nil:
		return s.fail(ctx, "delete", key, err)
	case done.Succeeded:
		return nil
	case len(done.Responses[0].GetResponseRange().Kvs) == 0:
		return bracket.ErrNotFound
	}
	return bracket.ErrConflict
}

// List implements [bracket.Store]. All pages are read at the revision of the first one.
func (s *Store) List(ctx context.Context, prefix string) ([]bracket.Entry, error) {
	ctx, cancel, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer cancel()
	cut := len(s.recordKey(""))
	var entries []bracket.Entry
	err = s.pages(ctx, s.recordKey(prefix), func() { entries = nil }, func(key string, value []byte, revision int64) error {
		entries = append(entries, bracket.Entry{Key: key[cut:], Value: value, Revision: revision})
		return nil
	})
	if err != nil {
		return nil, s.fail(ctx, "list", prefix, err)
	}
	return entries, nil
}

// pages visits all keys with a prefix in order, as they were at one revision. If that revision is
// compacted away between two pages, begin is called and all is read again from the start: a later
// page at another revision could miss what was moved, and would be half a snapshot.
func (s *Store) pages(ctx context.Context, prefix string, begin func(), visit func(key string, value []byte, revision int64) error) error {
	var compacted error
	for range attempts {
		begin()
		err := s.pagesOnce(ctx, prefix, visit)
		if !errors.Is(err, rpctypes.ErrCompacted) {
			return err
		}
		compacted = err
	}
	return fmt.Errorf("gave up after %d attempts: %w", attempts, compacted)
}

func (s *Store) pagesOnce(ctx context.Context, prefix string, visit func(key string, value []byte, revision int64) error) error {
	end := clientv3.GetPrefixRangeEnd(prefix)
	revision := int64(0) // of the first page: the newest
	for from := prefix; ; {
		page, err := s.client.Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(pageSize), clientv3.WithRev(revision))
		if err != nil {
			return err
		}
		for _, kv := range page.Kvs {
			if err := visit(string(kv.Key), kv.Value, kv.ModRevision); err != nil {
				return err
			}
		}
		if !page.More {
			return nil
		}
		revision = page.Header.Revision
		if n := len(page.Kvs); n > 0 {
			from = string(page.Kvs[n-1].Key) + "\x00"
		}
	}
}
