package concurrencytest

import (
	"context"
	"errors"
	"flag"
	"runtime"
	"testing"
)

// Failures returns the names of the cases that fail.
func Failures(ctx context.Context, newBackend func() Backend) (names []string) {
	for _, c := range cases {
		if err := c.check(ctx, newBackend()); err != nil && !errors.Is(err, errNotBreakable) {
			names = append(names, c.name)
		}
	}
	return names
}

// Diverges reports whether random histories, as many as are enough with any seed, tell a backend from the reference. Nothing is written to testdata.
func Diverges(t *testing.T, newBackend func() Backend) bool {
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
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		histories(r, newBackend)
	}()
	<-done
	return r.failed
}

// recorder is a test that fails for itself alone.
type recorder struct {
	testing.TB
	failed bool
}

func (r *recorder) Helper()                           {}
func (r *recorder) Log(args ...any)                   {}
func (r *recorder) Logf(format string, args ...any)   {}
func (r *recorder) Failed() bool                      { return r.failed }
func (r *recorder) Fail()                             { r.failed = true }
func (r *recorder) FailNow()                          { r.failed = true; runtime.Goexit() }
func (r *recorder) Error(args ...any)                 { r.failed = true }
func (r *recorder) Errorf(format string, args ...any) { r.failed = true }
func (r *recorder) Fatal(args ...any)                 { r.FailNow() }
func (r *recorder) Fatalf(format string, args ...any) { r.FailNow() }
