package brackettest

import (
	"testing"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/internal/testkit"
)

// Names yields the names of all cases.
func Names() func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for _, c := range cases() {
			if !yield(c.name) {
				return
			}
		}
	}
}

// Fails reports whether the case of a name fails.
func Fails(t *testing.T, name string, store bracket.Store) bool {
	t.Helper()
	for _, c := range cases() {
		if c.name == name {
			return testkit.Fails(t, func(t testing.TB) { c.run(&client{TB: t, store: store}) })
		}
	}
	t.Fatalf("there is no case %q", name)
	return false
}

// Disagrees reports whether random calls tell a store from the reference.
func Disagrees(t *testing.T, store bracket.Store) bool {
	t.Helper()
	return testkit.FailsAtRandom(t, func(t testing.TB) { agrees(t, store) })
}

// Recorded is one call of a history, as a test writes it down.
type Recorded struct {
	Client     int
	Method     string
	Value      string
	Replaced   int64 // what a Save or Delete was given
	Revision   int64 // what a Save or Load returned
	Err        error
	Begin, End int // End 0: it has not returned
}

// HistoryOf returns the history of calls on one key.
func HistoryOf(calls ...Recorded) *History {
	h := new(History)
	for _, r := range calls {
		c := &call{client: r.Client, method: r.Method, key: "k", value: r.Value, replaced: r.Replaced, revision: r.Revision, err: r.Err, begin: r.Begin, end: r.End, effective: r.End}
		if r.End == 0 {
			c.end = never
		}
		if r.End == 0 || r.Err != nil {
			c.effective = never
		}
		h.calls = append(h.calls, c)
	}
	return h
}
