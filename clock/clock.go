package clock

import (
	"fmt"
	"sync"
	"time"
)

// Clock tells the current time. Implementations must be safe for concurrent use.
type Clock interface {
	Now() time.Time
}

// System returns the clock of the machine. Its one method is the only place of this library that
// reads the wall clock.
func System() Clock { return system{} }

type system struct{}

func (system) Now() time.Time { return time.Now() }

// Fake is a clock that stands still until [Fake.Advance] or [Fake.Set] moves it. The zero value
// stands at the zero time; use [NewFake] to start elsewhere. It is safe for concurrent use and must
// not be copied.
type Fake struct {
	mu  sync.Mutex
	now time.Time
}

// NewFake returns a clock that stands at now.
func NewFake(now time.Time) *Fake { return &Fake{now: now} }

// Now returns the instant at which the clock stands.
func (f *Fake) Now() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

// Advance moves the clock forward by d and returns the new instant. It panics if d is negative: a
// test that moves time back by mistake proves nothing. To go back on purpose, as a machine's clock
// may, use [Fake.Set].
func (f *Fake) Advance(d time.Duration) time.Time {
	if d < 0 {
		panic(fmt.Sprintf("clock: Advance by %v: time does not run backwards, use Set", d))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = f.now.Add(d)
	return f.now
}

// Set moves the clock to now, forward or back.
func (f *Fake) Set(now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = now
}
