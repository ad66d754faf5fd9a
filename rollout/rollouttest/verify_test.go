package rollouttest_test

import (
	"context"
	"fmt"
	"maps"
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

// TestFreezesArrive: a freeze is unknown before it was given, keeps what has not started by then, and
// lets it start when it ends. What is at work goes on.
func TestFreezesArrive(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		why    string
		freeze rollout.Freeze
		want   []string
		frozen string // when the first wait says so; empty: none does
	}{
		{"given while the first is at work", rollout.Freeze{CreatedAt: at(1, 9, 1), ExpiresAt: at(1, 9, 30)}, []string{"09:00 c-0", "09:30 c-1"}, "09:01"},
		{"it finishes what has begun, and the second has not", rollout.Freeze{CreatedAt: at(1, 9, 1), ExpiresAt: at(1, 9, 30), FinishBegun: true}, []string{"09:00 c-0", "09:30 c-1"}, "09:01"},
		{"given before the version exists", rollout.Freeze{CreatedAt: at(1, 8, 30), ExpiresAt: at(1, 9, 45)}, []string{"09:45 c-0", "09:48 c-1"}, "09:00"},
		{"given before the world begins", rollout.Freeze{CreatedAt: at(1, 7, 0), ExpiresAt: at(1, 9, 45)}, []string{"09:45 c-0", "09:48 c-1"}, "09:00"},
		{"expired before the version exists", rollout.Freeze{CreatedAt: at(1, 8, 30), ExpiresAt: at(1, 8, 45)}, []string{"09:00 c-0", "09:03 c-1"}, ""},
		{"of one cluster, without end: the other one does not wait for it", rollout.Freeze{CreatedAt: at(1, 8, 30), Resource: "c-0"}, []string{"09:00 c-1"}, "09:00"},
		{"when there is nothing left to start", rollout.Freeze{CreatedAt: at(1, 10, 15)}, []string{"09:00 c-0", "09:03 c-1"}, ""},
	} {
		t.Run(row.why, func(t *testing.T) {
			t.Parallel()
			w := webWorld(t, 2, oneByOne)
			z := row.freeze
			z.ID, z.CreatedBy, z.Reason = "stop", "bob", "INC-7"
			w.Fleet.Freezes = []rollout.Freeze{z}
			timeline, err := w.Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var starts, notes []string
			frozen := ""
			for _, e := range timeline.Entries {
				switch {
				case e.Kind == rollouttest.Start:
					starts = append(starts, e.At.Format("15:04 ")+e.Resource)
				case e.Kind == rollouttest.Arrival && strings.HasPrefix(e.Note, "freeze"):
					notes = append(notes, e.At.Format("15:04 ")+e.Note)
				case frozen == "" && slices.ContainsFunc(e.Blockers, func(v rollout.Verdict) bool { return v.Reason == rollout.ReasonFrozen }):
					frozen = e.At.Format("15:04")
				}
			}
			if diff := cmp.Diff(row.want, starts); diff != "" {
				t.Errorf("starts (-want +got):\n%s", diff)
			}
			if frozen != row.frozen {
				t.Errorf("frozen from %q, want %q\n%s", frozen, row.frozen, timeline.Trace())
			}
			if told := len(notes) == 1; told != z.CreatedAt.After(w.Start) {
				t.Errorf("the timeline tells of %q", notes)
			}
			if len(w.Fleet.Freezes) != 1 {
				t.Errorf("the world was changed: %v", w.Fleet.Freezes)
			}
		})
	}
	w := webWorld(t, 2, oneByOne)
	w.Fleet.Freezes = []rollout.Freeze{
		{ID: "a", PauseCurves: true, CreatedAt: at(1, 8, 30), ExpiresAt: at(1, 8, 45), CreatedBy: "bob", Reason: "INC-7"},
		{ID: "b", Environment: "prod", FinishBegun: true, CreatedAt: at(1, 8, 31), ExpiresAt: at(1, 8, 45), CreatedBy: "bob", Reason: "INC-7"},
		{ID: "c", Deployment: "web", Environment: "prod", Resource: "c-1", CreatedAt: at(1, 8, 32), CreatedBy: "ann", Reason: "the disk is being replaced"},
	}
	timeline, err := w.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const want = `2026-03-10
  08:30:00  freeze a: everything, curves stand still, until 2026-03-10 08:45:00, by bob: INC-7
  08:31:00  freeze b: everything in prod but what has begun, until 2026-03-10 08:45:00, by bob: INC-7
  08:32:00  freeze c: web in prod on c-1, by ann: the disk is being replaced
  09:00:00  web v2 published
  09:00:00  c-0: start web v2
  09:00:00  c-1: web v2: frozen by ann (the disk is being replaced), waits for the end of freeze c
  09:03:00  c-0: web v2 ended: successful
`
	if diff := cmp.Diff(want, timeline.Trace()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if timeline.Done || len(timeline.Left) != 1 {
		t.Errorf("done %t, %d are left", timeline.Done, len(timeline.Left))
	}
}

func TestFreezeHalfWay(t *testing.T) {
	t.Parallel()
	const first, rest = "09:00 node-1 node-drain", "09:08 node-1 os-patch, 09:11 node-1 containerd-upgrade, 09:11 node-1 kubelet-upgrade, 09:14 node-1 node-uncordon"
	const other = "09:15 node-0 node-drain, 09:23 node-0 os-patch, 09:26 node-0 containerd-upgrade, 09:26 node-0 kubelet-upgrade, 09:29 node-0 node-uncordon"
	const late = "09:35 node-1 os-patch, 09:38 node-1 containerd-upgrade, 09:38 node-1 kubelet-upgrade, 09:41 node-1 node-uncordon, " +
		"09:42 node-0 node-drain, 09:50 node-0 os-patch, 09:53 node-0 containerd-upgrade, 09:53 node-0 kubelet-upgrade, 09:56 node-0 node-uncordon"
	for _, row := range []struct {
		why    string
		freeze rollout.Freeze
		lifted bool
		want   string // starts
		left   string // why who waits, by resource
	}{
		{why: "until it expires", freeze: rollout.Freeze{ExpiresAt: at(2, 9, 35)}, want: first + ", " + late},
		{why: "until it is lifted", lifted: true, want: first + ", " + late},
		{why: "until it is lifted, before it expires", freeze: rollout.Freeze{ExpiresAt: at(2, 9, 45)}, lifted: true, want: first + ", " + late},
		{why: "for ever", want: first, left: "node-0 [bracket_not_due frozen], node-1 [bracket_waits_for_members frozen]"},
		{why: "what has begun is finished", freeze: rollout.Freeze{FinishBegun: true}, want: first + ", " + rest, left: "node-0 [bracket_not_due frozen]"},
		{why: "what has begun is finished, and the rest follows", freeze: rollout.Freeze{FinishBegun: true, ExpiresAt: at(2, 9, 12)}, want: first + ", " + rest + ", " + other},
		{why: "the other node", freeze: rollout.Freeze{Resource: "node-0"}, want: first + ", " + rest, left: "node-0 [bracket_not_due frozen]"},
		{why: "the last member, which is not ready by then", freeze: rollout.Freeze{Deployment: uncordon, ExpiresAt: at(2, 9, 12)}, want: first + ", " + rest + ", " + other},
	} {
		t.Run(row.why, func(t *testing.T) {
			t.Parallel()
			w := rfcWorld(t, 2)
			row.freeze.ID, row.freeze.CreatedAt, row.freeze.CreatedBy, row.freeze.Reason = "stop", at(2, 9, 5), "bob", "INC-7"
			w.Fleet.Freezes = []rollout.Freeze{row.freeze}
			if row.lifted {
				w.Changes = []rollouttest.Change{{At: at(2, 9, 35), What: "the freeze is lifted", Do: func(s *rollout.Snapshot) { s.Freezes = nil }}}
			}
			timeline, err := w.Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var starts []string
			for _, e := range timeline.Entries {
				if e.Kind == rollouttest.Start {
					starts = append(starts, e.At.Format("15:04 ")+e.Resource+" "+e.Deployment)
				}
			}
			if got := strings.Join(starts, ", "); got != row.want {
				t.Errorf("starts %s, want\n%s\n%s", got, row.want, timeline.Trace())
			}
			reasons := map[string][]string{}
			for _, left := range timeline.Left {
				for _, b := range left.Blockers {
					if own := string(b.Reason); !slices.Contains(reasons[left.Resource], own) {
						reasons[left.Resource] = append(reasons[left.Resource], own)
					}
				}
			}
			var left []string
			for _, resource := range slices.Sorted(maps.Keys(reasons)) {
				left = append(left, fmt.Sprint(resource, " ", reasons[resource]))
			}
			if got := strings.Join(left, ", "); got != row.left || timeline.Done != (row.left == "") {
				t.Errorf("done %t, left %s, want %s", timeline.Done, got, row.left)
			}
		})
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
