package testkit_test

import (
	"flag"
	"testing"

	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/internal/testkit"
)

// TestFails: a failure is seen however it is told, it ends the test where it has to, and it is of
// that test alone.
func TestFails(t *testing.T) {
	after := false
	for _, row := range []struct {
		why  string
		test func(testing.TB)
		want bool
	}{
		{"nothing is wrong", func(t testing.TB) { t.Log("fine"); t.Logf("%s", "fine") }, false},
		{"Error", func(t testing.TB) { t.Error("wrong") }, true},
		{"Errorf", func(t testing.TB) { t.Errorf("wrong") }, true},
		{"Fail", func(t testing.TB) { t.Fail() }, true},
		{"Fatal", func(t testing.TB) { t.Fatal("wrong"); after = true }, true},
		{"Fatalf", func(t testing.TB) { t.Fatalf("wrong"); after = true }, true},
		{"FailNow", func(t testing.TB) { t.FailNow(); after = true }, true},
	} {
		if got := testkit.Fails(t, row.test); got != row.want || after {
			t.Errorf("%s: fails is %t, goes on %t", row.why, got, after)
		}
	}
}

// TestFailsAtRandom: a property is checked often enough to find what is rare, and the command line
// counts again afterwards.
func TestFailsAtRandom(t *testing.T) {
	before := flag.Lookup("rapid.checks").Value.String()
	for _, rare := range []int{20, 1000} {
		if got, want := testkit.FailsAtRandom(t, func(t testing.TB) {
			rapid.Check(t, func(t *rapid.T) {
				if rapid.IntRange(1, 20).Draw(t, "n") == rare {
					t.Fatal("found")
				}
			})
		}), rare == 20; got != want {
			t.Errorf("one in %d: found is %t", rare, got)
		}
	}
	if now := flag.Lookup("rapid.checks").Value.String(); now != before {
		t.Errorf("%s checks, were %s", now, before)
	}
}
