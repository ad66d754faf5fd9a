// Package pgstore keeps the state of [rollout.Planner] and the host's jobs in PostgreSQL: [Store]
// is a [bracket.Store], and [Jobs] are the jobs that hold its slots. [Migrate] creates the tables
// of both.
//
// Every write is one statement or one transaction that compares what was read, whatever isolation
// level a database has as its default. So any number of controllers may share a database
// without a leader. A list is one statement and so shows one instant: it is complete or it is an
// error.
package pgstore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tranche-dev/tranche/bracket"
)

// DefaultTimeout is how long a call may take if its context says nothing else.
const DefaultTimeout = 5 * time.Second

// Store is a [bracket.Store] in the table tranche_record. It is safe for concurrent use.
type Store struct {
	pool    *pgxpool.Pool
	timeout time.Duration
}

var _ bracket.Store = (*Store)(nil)

// NewStore returns the store in the schema that the pool's connections work in. A call whose
// context has no deadline ends after timeout; 0 means [DefaultTimeout]. The pool stays the
// caller's.
func NewStore(pool *pgxpool.Pool, timeout time.Duration) *Store {
	if timeout <= 0 {
		timeout = DefaultTimeout
	}
	return &Store{pool: pool, timeout: timeout}
}

func checkKey(key string) error {
	if key == "" || len(key) > 1024 || !utf8.ValidString(key) {
		return fmt.Errorf("pgstore: key of %d bytes: must be 1 to 1024 bytes of UTF-8", len(key))
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

// fail names the call that went wrong. The driver reports the end of a context as an error of the
// network; callers get the one they know.
func (s *Store) fail(ctx context.Context, call, key string, err error) error {
	if done := ctx.Err(); done != nil && !errors.Is(err, done) {
		err = fmt.Errorf("%w (%v)", done, err)
	}
	at := s.pool.Config().ConnConfig
	return fmt.Errorf("pgstore: %s %q at %s: %w", call, key, at.Host, err)
}

// db is what both a pool and a transaction do.
type db interface {
	Exec(ctx context.Context, sql string, arguments ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, arguments ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, arguments ...any) pgx.Row
	SendBatch(ctx context.Context, batch *pgx.Batch) pgx.BatchResults
}

// committed are transactions at READ COMMITTED, whatever the server's default. A client that sends
// nothing for as long as a call may take is gone, and the server ends its transaction: with the
// locks of a machine that has lost its power everybody else would wait until TCP gives it up, which
// takes hours by default.
func committed(timeout time.Duration) pgx.TxOptions {
	return pgx.TxOptions{BeginQuery: fmt.Sprintf("BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL idle_in_transaction_session_timeout = %d",
		min(max(timeout.Milliseconds(), 1), math.MaxInt32))} // 0 would be no limit
}

// run does something at the isolation level that is the default of the database, which needs no
// transaction of its own. Above READ COMMITTED the server may refuse it and undo it because another
// transaction came between, also if that one had nothing to do with it. It is then done at READ
// COMMITTED, where a statement waits and looks at the rows anew.
func (s *Store) run(ctx context.Context, do func(db) error) error {
	err := do(s.pool)
	var refused *pgconn.PgError
	if errors.As(err, &refused) && refused.Code == "40001" { // serialization_failure
		err = pgx.BeginTxFunc(ctx, s.pool, committed(s.timeout), func(tx pgx.Tx) error { return do(tx) })
	}
	return err
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
	var value []byte
	var revision int64
	err = s.run(ctx, func(on db) error {
		return on.QueryRow(ctx, `SELECT value, revision FROM tranche_record WHERE key = $1`, []byte(key)).Scan(&value, &revision)
	})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, 0, bracket.ErrNotFound
	case err != nil:
		return nil, 0, s.fail(ctx, "load", key, err)
	}
	return value, revision, nil
}

// Save implements [bracket.Store].
//
// A new key is inserted without a revision and gets one in a second statement of the same
// transaction, when the row is ours. Tempting and wrong: to insert it with the next revision. That
// is taken before the insert has waited for whoever is deleting the key, and a revision that the
// key had meanwhile may be greater.
func (s *Store) Save(ctx context.Context, key string, value []byte, revision int64) (int64, error) {
	if err := checkKey(key); err != nil {
		return 0, err
	}
	ctx, cancel, err := s.begin(ctx)
	if err != nil {
		return 0, err
	}
	defer cancel()
	if value == nil {
		value = []byte{}
	}
	const replace = `UPDATE tranche_record SET value = $2, revision = nextval('tranche_revision'), updated_at = now() WHERE key = $1 AND revision = $3 RETURNING revision`
	var next int64
	err = s.run(ctx, func(on db) error {
		if revision != 0 {
			return on.QueryRow(ctx, replace, []byte(key), value, revision).Scan(&next)
		}
		var both pgx.Batch // sent at once; the server makes one transaction of it
		both.Queue(`INSERT INTO tranche_record (key, value, revision) VALUES ($1, '', 0) ON CONFLICT DO NOTHING`, []byte(key))
		both.Queue(replace, []byte(key), value, 0).QueryRow(func(row pgx.Row) error { return row.Scan(&next) })
		return on.SendBatch(ctx, &both).Close()
	})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return 0, bracket.ErrConflict
	case err != nil:
		return 0, s.fail(ctx, "save", key, err)
	}
	return next, nil
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
	deleted := false
	err = s.run(ctx, func(on db) error {
		done, err := on.Exec(ctx, `DELETE FROM tranche_record WHERE key = $1 AND revision = $2`, []byte(key), revision)
		deleted = done.RowsAffected() == 1
		return err
	})
	if err != nil {
		return s.fail(ctx, "delete", key, err)
	}
	if deleted {
		return nil
	}
	if _, _, err := s.Load(ctx, key); err != nil {
		return err // not found, or not known
	}
	return bracket.ErrConflict
}

// List implements [bracket.Store].
func (s *Store) List(ctx context.Context, prefix string) ([]bracket.Entry, error) {
	ctx, cancel, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer cancel()
	var entries []bracket.Entry
	err = s.run(ctx, func(on db) error {
		entries = nil
		rows, err := on.Query(ctx, `SELECT key, value, revision FROM tranche_record WHERE key >= $1 AND ($2::bytea IS NULL OR key < $2) ORDER BY key`, []byte(prefix), after(prefix))
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var key []byte
			var e bracket.Entry
			if err := rows.Scan(&key, &e.Value, &e.Revision); err != nil {
				return err
			}
			e.Key = string(key)
			entries = append(entries, e)
		}
		return rows.Err() // a connection that was cut ends the rows too
	})
	if err != nil {
		return nil, s.fail(ctx, "list", prefix, err)
	}
	return entries, nil
}

// after returns the first key that is greater than all keys with the prefix, nil if there is none.
func after(prefix string) []byte {
	end := []byte(prefix)
	for n := len(end); n > 0; n-- {
		if end[n-1] < 0xff {
			end[n-1]++
			return end[:n]
		}
	}
	return nil
}
