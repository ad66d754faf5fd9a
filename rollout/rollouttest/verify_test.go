package rollouttest_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/internal/golden"
	"github.com/tranche-dev/tranche/rollout"
	"github.com/tranche-dev/tranche/rollout/rollouttest"
)

// webWorld is a program on some clusters, all of which run v1; v2 comes at nine, and whatever else
// is given.
func webWorld(tb testing.TB, clusters int, rules string, versions ...rollout.Version) rollouttest.World {
	tb.Helper()
	s := rollout.Snapshot{
		Environments: []rollout.Environment{{ID: "prod", Name: "prod"}},
		Deployments:  []rollout.Deployment{{ID: "web", Name: "web"}},
		Versions:     append([]rollout.Version{version("web", "v1", at(-20, 9, 0)), version("web", "v2", at(1, 9, 0))}, versions...),
	}
	for i := range clusters {
		id := fmt.Sprintf("c-%d", i)
		s.Resources = append(s.Resources, rollout.Resource{ID: id, Name: id, Kind: "Cluster"})
		s.Targets = append(s.Targets, rollout.Target{
			TargetID: rollout.TargetID{Resource: id, Environment: "prod", Deployment: "web"},
			// A job and not Current: what succeeded before is what a rollback goes back to.
			Jobs: []rollout.Job{{Run: "v1 on " + id, Version: "v1", Status: rollout.JobSuccessful, CreatedAt: at(-20, 9, 0)}},
		})
	}
	return rollouttest.World{
		Policies: compiled(tb, `{"name":"Web","selector":"true","rules":[`+rules+`]}`), Fleet: s, Start: at(1, 8, 0),
		Job: rollouttest.Durations(map[string]time.Duration{"web": minutes(3)}),
	}
}

// checked lets every job of v2 be verified for ten minutes, with another outcome on some clusters.
func checked(w *rollouttest.World, outcomes map[string]rollout.Verification) {
	w.Job = func(start rollout.Start, _ int) rollouttest.Outcome {
		if start.Version != "v2" {
			return rollouttest.Outcome{After: minutes(3)}
		}
		outcome := rollouttest.Outcome{After: minutes(3), Verification: rollout.VerificationPassed, VerifiedAfter: minutes(10)}
		if v, other := outcomes[start.Resource]; other {
			outcome.Verification = v
			if v == rollout.VerificationRunning {
				outcome.VerifiedAfter = 0
			}
		}
		return outcome
	}
}

const rollback = `{"id":"turn","gradualRollout":{"rolloutType":"linear","timeScaleInterval":300}},{"id":"undo","rollback":{"onVerificationFailure":true}}`

// TestRollbackByVerification: a cluster whose checks fail goes back to what it had, stays there
// until a newer version comes, and nobody else is touched by that.
func TestRollbackByVerification(t *testing.T) {
	t.Parallel()
	w := webWorld(t, 3, rollback, version("web", "v3", at(1, 12, 0)))
	checked(&w, map[string]rollout.Verification{"c-1": rollout.VerificationFailed})
	timeline, err := w.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var back []string
	var failed, reverted time.Time
	for _, e := range timeline.Entries {
		switch {
		case e.Kind == rollouttest.Verify && e.Status == string(rollout.VerificationFailed):
			failed = e.At
		case e.Kind == rollouttest.Start && e.Purpose == rollout.PurposeRollback:
			back, reverted = append(back, e.Resource+" "+e.Version), e.At
		}
	}
	if !slices.Equal(back, []string{"c-1 v1"}) || failed.IsZero() || !reverted.Equal(failed) {
		t.Errorf("rolled back: %v at %v, the verification failed at %v; want c-1 to v1 at that instant", back, reverted, failed)
	}
	if !timeline.Done {
		t.Errorf("v3 comes for all three, so in the end nothing is left: %s", timeline.Summary())
	}
	golden.Check(t, "trace-verification-rollback.txt", timeline.String()+"\n")
}

// TestVerificationTakesItsTime: a job counts as running until its checks have ended, and a gate
// that asks for them waits for that long.
func TestVerificationTakesItsTime(t *testing.T) {
	t.Parallel()
	w := webWorld(t, 1, rollback)
	checked(&w, nil)
	timeline, err := w.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range timeline.Entries {
		if e.Resource != "" {
			got = append(got, strings.TrimSpace(fmt.Sprintf("%s %s %s %s", e.At.Format("15:04"), e.Kind, e.Status, e.Note)))
		}
	}
	if diff := cmp.Diff([]string{"09:00 start", "09:03 end successful being verified", "09:13 verify passed"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if !timeline.Done || !timeline.Finish.Equal(at(1, 9, 13)) {
		t.Errorf("done %t at %v, want the end of the checks", timeline.Done, timeline.Finish)
	}

	checked(&w, map[string]rollout.Verification{"c-0": rollout.VerificationRunning})
	hangs, err := w.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if hangs.Done || len(hangs.Running) != 1 {
		t.Errorf("checks that never end: done %t, running %v", hangs.Done, hangs.Running)
	}
}

// TestVerificationHoldsTheSlot: with one slot the next cluster starts when the checks of the one
// before have ended, not when its job has.
func TestVerificationHoldsTheSlot(t *testing.T) {
	t.Parallel()
	w := webWorld(t, 2, `{"id":"one","resourceConcurrency":{"groupSelector":"true","limitType":"count","limitValue":1}},{"id":"undo","rollback":{"onVerificationFailure":true}}`)
	checked(&w, nil)
	timeline, err := w.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var starts []time.Time
	for _, e := range timeline.Entries {
		if e.Kind == rollouttest.Start {
			starts = append(starts, e.At)
		}
	}
	if len(starts) != 2 || !starts[1].Equal(at(1, 9, 13)) {
		t.Errorf("starts at %v, want the second one at 09:13", starts)
	}
}

// TestImpossibleOutcomes: what World.Job may not return is named, with what to write instead.
func TestImpossibleOutcomes(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		why     string
		outcome rollouttest.Outcome
		want    string
	}{
		{"a job that ends before it starts", rollouttest.Outcome{After: -time.Second}, "end 1s before it starts"},
		{"checks that end before the job", rollouttest.Outcome{Verification: rollout.VerificationPassed, VerifiedAfter: -time.Second}, "verified 1s before it ends"},
		{"an outcome that nobody knows", rollouttest.Outcome{Verification: "ok"}, `"ok": use passed, failed or running`},
		{"checks of a job that failed", rollouttest.Outcome{Status: rollout.JobFailure, Verification: rollout.VerificationFailed}, "although it ends as failure"},
		{"a length of checks that there are not", rollouttest.Outcome{VerifiedAfter: time.Second}, "without an outcome"},
		{"an end of checks that never end", rollouttest.Outcome{Verification: rollout.VerificationRunning, VerifiedAfter: time.Second}, "without an outcome"},
	} {
		w := webWorld(t, 1, rollback)
		w.Job = func(rollout.Start, int) rollouttest.Outcome { return row.outcome }
		if _, err := w.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "World.Job lets attempt 1 of web on c-0 ") || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: got %v, want %q", row.why, err, row.want)
		}
	}
	w := webWorld(t, 1, rollback)
	w.Job = func(rollout.Start, int) rollouttest.Outcome {
		return rollouttest.Outcome{Status: rollout.JobSuccessful, Verification: rollout.VerificationPassed}
	}
	if timeline, err := w.Run(t.Context()); err != nil || !timeline.Done || !timeline.Finish.Equal(at(1, 9, 0)) {
		t.Errorf("a job and checks that take no time: %v, done %t at %v", err, timeline.Done, timeline.Finish)
	}
}

// TestOverridesArrive: an override is unknown before it was given, lets the version start at that
// instant, and only where it holds.
func TestOverridesArrive(t *testing.T) {
	t.Parallel()
	const night = `{"id":"night","deploymentWindow":{"rrule":"FREQ=DAILY;BYHOUR=22","durationMinutes":240}}`
	for _, row := range []struct {
		why      string
		override rollout.Override
		want     []string
	}{
		{"given while it waits", rollout.Override{CreatedAt: at(1, 10, 15), Resource: "c-1"}, []string{"10:15 c-1", "22:00 c-0"}},
		{"given before the version exists", rollout.Override{CreatedAt: at(1, 8, 30)}, []string{"09:00 c-0", "09:00 c-1"}},
		{"given before the world begins", rollout.Override{CreatedAt: at(1, 7, 0)}, []string{"09:00 c-0", "09:00 c-1"}},
		{"expired before the version exists", rollout.Override{CreatedAt: at(1, 8, 30), ExpiresAt: at(1, 8, 45)}, []string{"22:00 c-0", "22:00 c-1"}},
	} {
		t.Run(row.why, func(t *testing.T) {
			t.Parallel()
			w := webWorld(t, 2, night)
			o := row.override
			o.ID, o.Rule, o.Version, o.CreatedBy, o.Reason = "let-it-pass", "night", "v2", "dana", "customers are waiting"
			w.Fleet.Overrides = []rollout.Override{o}
			timeline, err := w.Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var starts, notes []string
			for _, e := range timeline.Entries {
				switch {
				case e.Kind == rollouttest.Start:
					starts = append(starts, e.At.Format("15:04 ")+e.Resource)
				case e.Kind == rollouttest.Arrival && strings.HasPrefix(e.Note, "override"):
					notes = append(notes, e.At.Format("15:04 ")+e.Note)
				}
			}
			if diff := cmp.Diff(row.want, starts); diff != "" {
				t.Errorf("starts (-want +got):\n%s", diff)
			}
			if told := len(notes) == 1; told != o.CreatedAt.After(w.Start) {
				t.Errorf("the timeline tells of %q", notes)
			}
			if len(w.Fleet.Overrides) != 1 {
				t.Errorf("the world was changed: %v", w.Fleet.Overrides)
			}
		})
	}
	w := webWorld(t, 2, night)
	w.Fleet.Overrides = []rollout.Override{{
		ID: "let-it-pass", Rule: "night", Version: "v2", Environment: "prod", Resource: "c-1", CreatedAt: at(1, 10, 15), ExpiresAt: at(1, 11, 0), CreatedBy: "dana", Reason: "customers are waiting",
	}}
	timeline, err := w.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if want := "10:15:00  override let-it-pass: v2 past night in prod on c-1 until 2026-03-10 11:00:00, by dana: customers are waiting\n"; !strings.Contains(timeline.Trace(), want) {
		t.Errorf("the audit is not as it should be in\n%s", timeline.Trace())
	}
}

// TestVerifiedWorldsKeepTheirPromises draws worlds in which checks pass, fail, take their time or
// never end, windows close, slots are few and overrides come and go: every plan keeps the
// invariants, nothing changes between the wake-ups, and the planner and its shell agree.
func TestVerifiedWorldsKeepTheirPromises(tt *testing.T) {
	tt.Parallel()
	seen := map[string]int{}
	rapid.Check(tt, func(t *rapid.T) {
		rules := []string{
			`{"id":"undo","rollback":{"onVerificationFailure":true,"onJobStatuses":["failure"]}}`,
			`{"id":"turn","gradualRollout":{"rolloutType":"linear","timeScaleInterval":300}}`,
			`{"id":"one","resourceConcurrency":{"groupSelector":"true","limitType":"count","limitValue":1}}`,
			`{"id":"hours","deploymentWindow":{"rrule":"FREQ=DAILY;BYHOUR=9","durationMinutes":20}}`,
			`{"id":"again","retry":{"maxRetries":1,"backoffSeconds":120}}`,
			`{"id":"stands","versionCooldown":{"intervalSeconds":1800}}`,
		}
		chosen := rapid.Permutation(rules).Draw(t, "rules")[:rapid.IntRange(1, len(rules)).Draw(t, "n")]
		w := webWorld(tt, rapid.IntRange(1, 3).Draw(t, "clusters"), strings.Join(chosen, ","), version("web", "v3", at(1, 9, rapid.IntRange(1, 40).Draw(t, "v3"))))
		w.End = at(3, 12, 0) // a window that opens every day never lets a world with somebody who waits come to rest
		for i := range rapid.IntRange(0, 2).Draw(t, "overrides") {
			created := at(1, 9, rapid.IntRange(-30, 60).Draw(t, "given"))
			o := rollout.Override{
				ID: fmt.Sprintf("o%d", i), Rule: rapid.SampledFrom([]string{"undo", "turn", "one", "hours", "again", "stands"}).Draw(t, "rule"), CreatedAt: created,
				Version: rapid.SampledFrom([]string{"v2", "v3"}).Draw(t, "of"), Resource: rapid.SampledFrom([]string{"", "c-0"}).Draw(t, "for"), CreatedBy: "dana", Reason: "drawn",
			}
			if rapid.Bool().Draw(t, "expires") {
				o.ExpiresAt = created.Add(minutes(rapid.IntRange(1, 40).Draw(t, "expiry")))
			}
			w.Fleet.Overrides = append(w.Fleet.Overrides, o)
		}
		ends := []rollout.Verification{"", rollout.VerificationPassed, rollout.VerificationFailed, rollout.VerificationRunning}
		drawn := map[string]rollouttest.Outcome{}
		for _, target := range w.Fleet.Targets {
			for _, v := range []string{"v1", "v2", "v3"} {
				// Every job takes its time: two jobs of a target that are created at one instant
				// have no order that a host could tell.
				o := rollouttest.Outcome{After: minutes(rapid.IntRange(1, 6).Draw(t, "job"))}
				if rapid.IntRange(0, 4).Draw(t, "fails") == 0 {
					o.Status = rollout.JobFailure
				} else if o.Verification = rapid.SampledFrom(ends).Draw(t, "checks"); o.Verification != "" && o.Verification != rollout.VerificationRunning {
					o.VerifiedAfter = minutes(rapid.IntRange(0, 12).Draw(t, "length"))
				}
				drawn[target.Resource+v] = o
			}
		}
		jobs := 0
		w.Job = func(start rollout.Start, _ int) rollouttest.Outcome {
			if jobs++; jobs > 200 {
				return rollouttest.Outcome{After: -1} // an error of the world: there must be an end to it
			}
			return drawn[start.Resource+start.Version]
		}
		timeline, err := w.Run(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		w.Pure, jobs = true, 0
		pure, err := w.Run(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(timeline.String(), pure.String()); diff != "" {
			t.Fatalf("(-planner +pure):\n%s", diff)
		}
		failed := map[string]time.Time{}
		for _, e := range timeline.Entries {
			switch {
			case e.Kind == rollouttest.Verify:
				seen["verified: "+e.Status]++
				if e.Status == string(rollout.VerificationFailed) {
					failed[e.Resource] = e.At
				}
			case e.Kind == rollouttest.End && e.Status == string(rollout.JobFailure):
				failed[e.Resource] = e.At
			case e.Kind == rollouttest.Start && e.Purpose == rollout.PurposeRollback:
				seen["rolled back"]++
				if failed[e.Resource].IsZero() {
					t.Fatalf("%s goes back to %s and nothing failed there", e.Resource, e.Version)
				}
			case e.Kind == rollouttest.Start && e.Reason == rollout.ReasonOverridden:
				seen["forced into a full pool"]++
			case e.Kind == rollouttest.Arrival && strings.HasPrefix(e.Note, "override"):
				seen["override"]++
			}
		}
		for _, run := range timeline.Running {
			if run != "" {
				seen["never verified"]++
			}
		}
		if timeline.Done {
			seen["done"]++
		}
	})
	for _, outcome := range []string{"verified: passed", "verified: failed", "rolled back", "override", "never verified", "done", "forced into a full pool"} {
		if seen[outcome] == 0 && !testing.Short() {
			tt.Errorf("it never came to this: %s (%v)", outcome, seen)
		}
	}
}
