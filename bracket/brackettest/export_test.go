package brackettest

import (
	"context"
	"runtime"
	"sync"
	"testing"

	"github.com/tranche-dev/tranche/bracket"
)

// recorder is a test that fails for itself alone.
type recorder struct {
	testing.TB
	mu     sync.Mutex
	failed bool
}

func (r *recorder) fail() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = true
}

func (r *recorder) Helper()                           {}
func (r *recorder) Context() context.Context          { return context.Background() }
func (r *recorder) Error(args ...any)                 { r.fail() }
func (r *recorder) Errorf(format string, args ...any) { r.fail() }
func (r *recorder) Fatal(args ...any)                 { r.fail(); runtime.Goexit() }
func (r *recorder) Fatalf(format string, args ...any) { r.fail(); runtime.Goexit() }

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
		if c.name != name {
			continue
		}
		r := &recorder{TB: t}
		done := make(chan struct{})
		go func() {
			defer close(done)
			c.run(&client{TB: r, store: store})
		}()
		<-done
		return r.failed
	}
	t.Fatalf("there is no case %q", name)
	return false
}
