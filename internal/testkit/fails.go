package testkit

import (
	"context"
	"flag"
	"runtime"
	"sync"
	"testing"
)

// Fails reports whether a test fails, without failing t. It tests that a test finds what it must
// find.
func Fails(t testing.TB, test func(testing.TB)) bool {
	t.Helper()
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() { // a test that fails ends its goroutine
		defer close(done)
		test(r)
	}()
	<-done
	return r.Failed()
}

// FailsAtRandom is [Fails] for a test with properties. They are checked often enough for any seed,
// whatever the command line asks for, and a failure is neither shrunk nor written to testdata.
func FailsAtRandom(t testing.TB, test func(testing.TB)) bool {
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
	return Fails(t, test)
}

// recorder is a test that fails without failing the test around it.
type recorder struct {
	testing.TB
	mu     sync.Mutex
	failed bool
}

func (r *recorder) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

func (r *recorder) Fail() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = true
}

func (r *recorder) FailNow() {
	r.Fail()
	runtime.Goexit()
}

func (r *recorder) Helper()                           {}
func (r *recorder) Log(args ...any)                   {}
func (r *recorder) Logf(format string, args ...any)   {}
func (r *recorder) Context() context.Context          { return context.Background() }
func (r *recorder) Error(args ...any)                 { r.Fail() }
func (r *recorder) Errorf(format string, args ...any) { r.Fail() }
func (r *recorder) Fatal(args ...any)                 { r.FailNow() }
func (r *recorder) Fatalf(format string, args ...any) { r.FailNow() }
