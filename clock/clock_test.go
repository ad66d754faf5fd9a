package clock_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tranche-dev/tranche/clock"
)

var start = time.Date(2026, 3, 10, 9, 0, 0, 0, time.UTC)

func TestSystemFollowsTheMachine(t *testing.T) {
	// Inside a bubble the machine's clock is known, so this neither sleeps nor tolerates.
	synctest.Test(t, func(t *testing.T) {
		before := time.Now()
		time.Sleep(time.Hour)
		if got := clock.System().Now(); !got.Equal(before.Add(time.Hour)) {
			t.Errorf("Now() = %v, want %v", got, before.Add(time.Hour))
		}
	})
}

func TestFake(t *testing.T) {
	fake := clock.NewFake(start)
	if got := fake.Now(); !got.Equal(start) {
		t.Errorf("Now() = %v, want the start %v", got, start)
	}
	if got, want := fake.Advance(5*time.Minute), start.Add(5*time.Minute); !got.Equal(want) || !fake.Now().Equal(want) {
		t.Errorf("Advance returned %v and Now() = %v, want both %v", got, fake.Now(), want)
	}
	if got := fake.Advance(0); !got.Equal(start.Add(5 * time.Minute)) {
		t.Errorf("Advance(0) moved the clock to %v", got)
	}
	fake.Set(start.Add(-time.Hour))
	if got := fake.Now(); !got.Equal(start.Add(-time.Hour)) {
		t.Errorf("Now() = %v after Set to an hour before the start", got)
	}
	if got := new(clock.Fake).Now(); !got.IsZero() {
		t.Errorf("the zero Fake stands at %v, want the zero time", got)
	}
}

func TestFakeRefusesToRunBackwards(t *testing.T) {
	fake := clock.NewFake(start)
	defer func() {
		if recover() == nil {
			t.Error("Advance(-1) did not panic")
		}
		if got := fake.Now(); !got.Equal(start) {
			t.Errorf("Now() = %v after a refused Advance, want %v", got, start)
		}
	}()
	fake.Advance(-1)
}

func TestFakeIsSafeForConcurrentUse(t *testing.T) {
	fake := clock.NewFake(start)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 100 {
				fake.Advance(time.Second)
				fake.Now()
			}
		})
	}
	group.Wait()
	if got, want := fake.Now(), start.Add(800*time.Second); !got.Equal(want) {
		t.Errorf("Now() = %v after 800 steps of a second, want %v", got, want)
	}
}

// A test moves the clock; what reads it sees a clock like any other.
func ExampleFake() {
	fake := clock.NewFake(time.Date(2026, 3, 10, 9, 0, 0, 0, time.UTC))
	var c clock.Clock = fake
	fake.Advance(90 * time.Minute)
	fmt.Println(c.Now().Format(time.DateTime))
	// Output: 2026-03-10 10:30:00
}
