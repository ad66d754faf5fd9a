package bracket

import "context"

// Store keeps the records of the library under text keys, each with a revision, and replaces them
// by compare-and-swap. Brackets store one record per (rule, environment) and one per (rule,
// resource), see [GroupKey] and [ExecutionKey]; pools and rollouts use the same store.
// [MemoryStore] is the reference, brackettest.Run the conformance test.
//
// Keys are any UTF-8 text of 1 to 1024 bytes; every other key is an error, so that nothing is saved
// that cannot be found again. Values are any bytes. Implementations must be safe for concurrent
// use, must write nothing and return the context's error if the context is cancelled, and must let
// a client read its own writes.
type Store interface {
	// Load returns the value of a key and its revision, which is at least 1. For a key without a
	// value it returns revision 0 and [ErrNotFound]. The caller owns the returned slice.
	Load(ctx context.Context, key string) (value []byte, revision int64, err error)
	// Save replaces the value if the stored revision is the given one, and returns the new
	// revision, which is greater than every revision the key ever had, also before a Delete.
	// Revision 0 means that the key must not exist. If the stored revision is another one, Save
	// changes nothing and returns [ErrConflict]. After any other error the outcome is unknown: load
	// before saving again. Save keeps no reference to value.
	Save(ctx context.Context, key string, value []byte, revision int64) (int64, error)
	// Delete removes a key if the stored revision is the given one. For a key without a value it
	// returns [ErrNotFound], for another revision [ErrConflict].
	Delete(ctx context.Context, key string, revision int64) error
	// List returns all entries whose key starts with prefix, ascending by key (byte-wise). The
	// result may be older than the last Save of another client, but each entry is one version of
	// its key, never a mixture. The caller owns the result.
	List(ctx context.Context, prefix string) ([]Entry, error)
}

// Entry is one stored value.
type Entry struct {
	Key      string
	Value    []byte
	Revision int64
}
