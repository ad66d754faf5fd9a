package testkit_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// recorder is a test that may fail.
type recorder struct {
	testing.TB
	errors []string
}

func (r *recorder) Helper()                         {}
func (r *recorder) Logf(format string, args ...any) {}
func (r *recorder) Log(args ...any)                 {}
func (r *recorder) Failed() bool                    { return len(r.errors) > 0 }
func (r *recorder) Errorf(format string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}

// once skips what takes more than the one round of checks that the race detector is given.
func once(t *testing.T) {
	if testkit.Race {
		t.Skip("with the race detector a property is checked once")
	}
}

// TestCheckGoesOnUntilRareOutcomesAreReached: one draw in three thousand need not come about in the
// first round.
func TestCheckGoesOnUntilRareOutcomesAreReached(t *testing.T) {
	once(t)
	before, seen, draws := testkit.Current(), testkit.Tally{}, map[uint64]bool{}
	seen.Check(t, func(t *rapid.T) {
		n := rapid.Uint64().Draw(t, "n")
		mixed := n * 0x9e3779b97f4a7c15 >> 32
		if mixed%3000 == 1 {
			seen["rare"]++
		}
		draws[n] = true
		seen["any"]++
	}, "any", "rare")
	if testkit.Current() != before {
		t.Errorf("the seed is %d and was %d: the next property would draw other values than alone", testkit.Current(), before)
	}
	if len(draws) < seen["any"]/2 {
		t.Errorf("%d draws, %d different ones: every round needs a seed of its own", seen["any"], len(draws))
	}
}

func TestCheckStopsAsSoonAsItCan(t *testing.T) {
	seen := testkit.Tally{}
	seen.Check(t, func(*rapid.T) { seen["any"]++ }, "any")
	once := seen["any"]
	testkit.Tally{}.Check(t, func(*rapid.T) { seen["none asked for"]++ })
	if seen["none asked for"] != once {
		t.Errorf("%d checks where nothing is asked for, %d where it is reached at once", seen["none asked for"], once)
	}
}

func TestCheckFailsIfAnOutcomeIsNeverReached(t *testing.T) {
	once(t)
	r := &recorder{TB: t}
	seen := testkit.Tally{}
	seen.Check(r, func(*rapid.T) { seen["any"]++ }, "any", "never")
	if len(r.errors) != 1 || !strings.Contains(r.errors[0], `["never"]`) {
		t.Errorf("errors %q", r.errors)
	}
}

// TestBytesLastLong: rapid skips what runs out, so a seed must be good for many draws.
func TestBytesLastLong(t *testing.T) {
	draws := 0
	property := rapid.MakeFuzz(func(t *rapid.T) {
		for range 100 {
			rapid.Uint64().Draw(t, "n")
			draws++
		}
	})
	t.Run("4096", func(t *testing.T) { property(t, testkit.Bytes(4096)) })
	if draws != 100 {
		t.Errorf("%d draws", draws)
	}
	if a, b := testkit.Bytes(64), testkit.Bytes(64); string(a) != string(b) || len(a) != 64 || string(testkit.Bytes(65)[:64]) == string(a) {
		t.Error("a seed depends on its size and on nothing else")
	}
}
