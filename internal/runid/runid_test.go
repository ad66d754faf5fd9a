package runid_test

import (
	"cmp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/internal/runid"
	"github.com/tranche-dev/tranche/internal/textkey"
	"github.com/tranche-dev/tranche/rollout"
)

var web = runid.Target{Resource: "r1", Environment: "prod", Deployment: "web", Version: "v2"}

// TestWhatRunIDsTell: of the id of a run, which group it holds its slots for, which attempt it is
// and whether it goes back. An id that no plan gives to a run of the version on the target tells
// nothing.
func TestWhatRunIDsTell(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		run, why string
		group    string
		attempt  int32
		rollback bool
	}{
		{"r1/prod/web/v2/3", "the third attempt outside brackets", "target/prod/web", 3, false},
		{"r1/prod/web/v2/3/rollback", "the third attempt to go back to it", "target/prod/web", 3, true},
		{"r1/prod/web/v2/1", "the first attempt follows nothing", "target/prod/web", 0, false},
		{"r1/prod/web/v2/2147483646", "the greatest that another can follow", "target/prod/web", 2147483646, false},
		{"r1/prod/web/v2/2147483647", "none can follow the greatest number", "target/prod/web", 0, false},
		{"r1/prod/web/v2/2147483648", "a number that no attempt has", "", 0, false},
		{"r1/prod/web/v2/-2", "a number that no attempt has", "", 0, false},
		{"r1/prod/web/v2/", "no number", "", 0, false},
		{"r1/prod/web/v2/2/3", "more than a number", "", 0, false},
		{"r1/prod/web/v1/2", "another version", "", 0, false},
		{"r2/prod/web/v2/2", "another resource", "", 0, false},
		{"r1/test/web/v2/2", "another environment", "", 0, false},
		{"r1/prod/api/v2/2", "another deployment", "", 0, false},
		{"R%2Fprod%2F1/r1/web/1/2/deploy", "a run of a bracket", "R/prod/1", 0, false},
		{"R%2Fprod%2F1/r1/web/1/2/rollback", "a run of a bracket that goes back", "R/prod/1", 0, true},
		{"R%2Fprod%2F1/r2/web/1/2/deploy", "on another resource", "", 0, false},
		{"R%2Fprod%2F1/r1/api/1/2/deploy", "of another deployment", "", 0, false},
		{"R%2Fprod%2F1/r1/web/x/2/deploy", "a generation is a number", "", 0, false},
		{"r1/prod/web/v2/02", "one number has one text", "", 0, false},
		{"R%2Fprod%2F1/r1/web/1/02/deploy", "also in a bracket", "", 0, false},
		{"R%2Fprod%2F1/r1/web/1/x/deploy", "an attempt is a number", "", 0, false},
		{"R%2/r1/web/1/2/deploy", "an escape that nobody writes", "", 0, false},
		{"by hand", "a job that somebody else started", "", 0, false},
		{"", "a job without id", "", 0, false},
		{"by hand/rollback", "whoever gave it, that is what it says", "", 0, true},
	} {
		if group, attempt, back := web.GroupOf(row.run), web.Attempt(row.run), runid.IsRollback(row.run); group != row.group || attempt != row.attempt || back != row.rollback {
			t.Errorf("%s, %s: group %q, attempt %d, rollback %t; want %q, %d, %t", row.run, row.why, group, attempt, back, row.group, row.attempt, row.rollback)
		}
	}
}

// TestIDsAreRead: whatever the names are, an id tells what it was made of.
func TestIDsAreRead(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom([]string{"", "a", "target", "a/b", "%2F", "rollback", "1", "1/rollback"})
		own := runid.Target{Resource: name.Draw(t, "resource"), Environment: name.Draw(t, "environment"), Deployment: name.Draw(t, "deployment"), Version: name.Draw(t, "version")}
		attempt, back := rapid.IntRange(1, 12).Draw(t, "attempt"), rapid.Bool().Draw(t, "back")
		run := own.Join(&textkey.Joiner{}, attempt, back)
		want := int32(attempt)
		if attempt == 1 {
			want = 0
		}
		if got := own.Attempt(run); got != want || runid.IsRollback(run) != back || own.GroupOf(run) != runid.Group(own.Environment, own.Deployment) {
			t.Fatalf("%s: attempt %d, rollback %t, group %q", run, got, runid.IsRollback(run), own.GroupOf(run))
		}
		group := bracket.GroupID(name.Draw(t, "rule"), own.Environment, attempt)
		purpose := rapid.SampledFrom([]bracket.Purpose{bracket.Deploy, bracket.Rollback}).Draw(t, "purpose")
		member := bracket.Run{Group: group, Resource: own.Resource, Deployment: own.Deployment, Generation: 1, Attempt: attempt, Purpose: purpose}.String()
		if own.GroupOf(member) != group || runid.IsRollback(member) != (purpose == bracket.Rollback) {
			t.Fatalf("%s: rollback %t, group %q, want %q", member, runid.IsRollback(member), own.GroupOf(member), group)
		}
	})
}

// TestOneWordForRollback: packages rollout and bracket write it as this package reads it.
func TestOneWordForRollback(t *testing.T) {
	t.Parallel()
	run := web.Join(&textkey.Joiner{}, 1, true)
	if !strings.HasSuffix(run, "/"+string(rollout.PurposeRollback)) || string(bracket.Rollback) != string(rollout.PurposeRollback) {
		t.Errorf("a run that goes back is %s, with the purposes %s and %s", run, rollout.PurposeRollback, bracket.Rollback)
	}
}

// TestCompare: runs are ordered by their ids, with the numbers in them as numbers; the least comes
// first.
func TestCompare(t *testing.T) {
	t.Parallel()
	ordered := []string{
		"", "02/x", "2/x", "02/xy", "2/xy", "10", "R%2Fprod%2F1/r1/web/1/2/deploy", "R%2Fprod%2F1/r1/web/1/10/deploy", "R%2Fprod%2F1/r1/web/1/10/rollback", "R%2Fprod%2F1/r1/web/2/1/deploy",
		"R%2Fprod%2F1/r1/web/10/1/deploy", "R%2Fprod%2F9/r1/web/1/1/deploy", "R%2Fprod%2F10/r1/web/1/1/deploy", "by hand", "r1/prod/web/v2/", "r1/prod/web/v2/02", "r1/prod/web/v2/2",
		"r1/prod/web/v2/2/rollback", "r1/prod/web/v2/10", "r1/prod/web/v2/99999999999999999999", "r1/prod/web/v2/100000000000000000000", "r1/prod/web/v10/1",
	}
	for i, a := range ordered {
		for k, b := range ordered {
			if got, want := runid.Compare(a, b), cmp.Compare(i, k); got != want {
				t.Errorf("%q and %q: %d, want %d", a, b, got, want)
			}
		}
	}
}
