package brackettest

import (
	"context"
	"flag"
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

func (r *recorder) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

func (r *recorder) Helper()                           {}
func (r *recorder) Log(args ...any)                   {}
func (r *recorder) Logf(format string, args ...any)   {}
func (r *recorder) Fail()                             { r.fail() }
func (r *recorder) FailNow()                          { r.fail(); runtime.Goexit() }
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
		return failsAlone(t, func(r *recorder) { c.run(&client{TB: r, store: store}) })
	}
	t.Fatalf("there is no case %q", name)
	return false
}

// Disagrees reports whether random calls, as many as are enough with any seed, tell a store from the reference. Nothing is written to testdata.
func Disagrees(t *testing.T, store bracket.Store) bool {
	t.Helper()
	set := func(name, value string) {
		if err := flag.Set(name, value); err != nil {
			t.Fatal(err)
		}
	}
	for name, value := range map[string]string{"rapid.nofailfile": "true", "rapid.checks": "500", "rapid.shrinktime": "1ms"} {
		keep := flag.Lookup(name).Value.String()
		set(name, value)
		defer set(name, keep)
	}
	return failsAlone(t, func(r *recorder) { agrees(r, store) })
}

func failsAlone(t *testing.T, test func(*recorder)) bool {
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		test(r)
	}()
	<-done
	return r.Failed()
}
