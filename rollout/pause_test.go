package rollout_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tranche-dev/tranche/rollout"
)

// TestPauseCurves: v2 of a has a turn a minute on r1 to r6, in an order that the hash gives. A freeze
// begins in the middle of the second minute.
func TestPauseCurves(t *testing.T) {
	t.Parallel()
	const (
		curve   = `{"id":"g","gradualRollout":{"rolloutType":"linear","timeScaleInterval":60,"orderKey":"resource"}}`
		bracket = `{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}},`
		open    = `,{"id":"w","deploymentWindow":{"from":"2025-01-01T00:00:00Z","until":"2025-01-01T00:32:00Z"}}`
		until   = `,{"id":"w","deploymentWindow":{"from":"2025-01-01T00:00:00Z","until":"2025-01-01T00:02:00Z"}}`
	)
	half := t0.Add(90 * time.Second)
	pause := func(edit ...func(*rollout.Freeze)) rollout.Freeze {
		z := rollout.Freeze{ID: "z", PauseCurves: true, CreatedAt: half, ExpiresAt: half.Add(30 * time.Minute), CreatedBy: "ann", Reason: "INC-7"}
		for _, e := range edit {
			e(&z)
		}
		return z
	}
	going := func(z *rollout.Freeze) { z.PauseCurves = false }
	let := func(s *rollout.Snapshot) {
		s.Overrides = []rollout.Override{{ID: "o", Rule: "w", Version: "v2", CreatedAt: minute(5), CreatedBy: "ann", Reason: "INC-7"}}
	}
	everywhere := []string{"00:00", "00:01", "00:32", "00:33", "00:34", "00:35"}
	for _, row := range []struct {
		why, rules string
		freezes    []rollout.Freeze
		want       []string // when they start
		edit       func(*rollout.Snapshot)
	}{
		{"no freeze", curve, nil, []string{"00:00", "00:01", "00:02", "00:03", "00:04", "00:05"}, nil},
		{"time goes on: all that is due by its end starts then", curve, []rollout.Freeze{pause(going)}, []string{"00:00", "00:01", "00:31", "00:31", "00:31", "00:31"}, nil},
		{"the curve goes on where it stopped, after half a minute", curve, []rollout.Freeze{pause()}, everywhere, nil},
		{"what it names", curve, []rollout.Freeze{pause(func(z *rollout.Freeze) { z.Environment, z.Deployment = "prod", "a" })}, everywhere, nil},
		{"the curves of all deployments there", curve, []rollout.Freeze{pause(func(z *rollout.Freeze) { z.Environment = "prod" })},
			[]string{"00:00", "00:00", "00:01", "00:01", "00:32", "00:32", "00:33", "00:33", "00:34", "00:34", "00:35", "00:35"}, func(s *rollout.Snapshot) {
				s.Versions = append(s.Versions, rollout.Version{ID: "v2", Deployment: "b", Status: rollout.VersionReady, CreatedAt: t0})
			}},
		{"another deployment, and another environment", curve, []rollout.Freeze{
			pause(func(z *rollout.Freeze) { z.ID, z.Deployment = "y", "b" }), pause(func(z *rollout.Freeze) { z.Environment = "staging" }),
		}, []string{"00:00", "00:01", "00:02", "00:03", "00:04", "00:05"}, nil},
		{"two at a time count once", curve, []rollout.Freeze{
			pause(), pause(func(z *rollout.Freeze) {
				z.ID, z.CreatedAt, z.ExpiresAt = "y", half.Add(time.Minute), half.Add(29*time.Minute)
			}),
		}, everywhere, nil},
		{"one after the other add up", curve, []rollout.Freeze{
			pause(func(z *rollout.Freeze) { z.ExpiresAt = half.Add(time.Minute) }),
			pause(func(z *rollout.Freeze) { z.ID, z.CreatedAt, z.ExpiresAt = "y", minute(4), minute(14) }),
		}, []string{"00:00", "00:01", "00:03", "00:14", "00:15", "00:16"}, nil},
		{"time before the rollout does not count", curve, []rollout.Freeze{pause(func(z *rollout.Freeze) { z.CreatedAt = t0.Add(-time.Hour); z.ExpiresAt = minute(2) })},
			[]string{"00:02", "00:03", "00:04", "00:05", "00:06", "00:07"}, nil},
		{"what has begun may finish, and turns stand still all the same", curve, []rollout.Freeze{pause(func(z *rollout.Freeze) { z.FinishBegun = true })}, everywhere, nil},
		{"a window that closes in the meantime", curve + open, []rollout.Freeze{pause()}, []string{"00:00", "00:01"}, nil},
		{"what an override opens afterwards, and what counted before it", curve + until, []rollout.Freeze{pause(func(z *rollout.Freeze) { z.CreatedAt, z.ExpiresAt = minute(1), minute(10) })},
			[]string{"00:00", "00:10", "00:11", "00:12", "00:13", "00:14"}, let},
		{"in a bracket", bracket + curve, []rollout.Freeze{pause()}, everywhere, nil},
		{"… one member stops the curve of the group", bracket + curve, []rollout.Freeze{pause(func(z *rollout.Freeze) { z.Deployment = "b" })}, everywhere, nil},
	} {
		s := fleet(6, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1"}})
		s.Freezes = row.freezes
		if row.edit != nil {
			row.edit(&s)
		}
		var got []string
		for _, line := range begins(t, compile(t, policy(row.rules)), s, 100) {
			got = append(got, line[:len("00:00")])
		}
		if diff := cmp.Diff(row.want, got); diff != "" {
			t.Errorf("%s:\n%s", row.why, diff)
		}
	}
}

// TestPauseWithoutEnd: as long as nobody knows when a freeze is over, nobody knows when a turn comes
// that had not come before it. Once it is lifted, and only then, there are instants again.
func TestPauseWithoutEnd(t *testing.T) {
	t.Parallel()
	const curve = `{"id":"g","gradualRollout":{"rolloutType":"linear","timeScaleInterval":60,"orderKey":"resource"}}`
	for rules, want := range map[string][]string{
		curve: {
			"r1 / prod / a: v2 waits: rollout_not_due (turn 3 of 3), waits for the end of freeze z; frozen by ann (INC-7), waits for the end of freeze z",
			"r2 / prod / a: v2 waits: frozen by ann (INC-7), waits for the end of freeze z", // it was due before
			"r3 / prod / a: v2 waits: rollout_not_due (turn 2 of 3), waits for the end of freeze z; frozen by ann (INC-7), waits for the end of freeze z",
		},
		`{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}},` + curve: {
			"r1 / prod / a: v2 waits: bracket_not_due (turn 3 of 3), waits for the end of freeze z; rollout_not_due (turn 3 of 3), waits for the end of freeze z; frozen by ann (INC-7), waits for the end of freeze z",
			"r2 / prod / a: v2 waits: bracket_not_due (turn 1 of 3), waits for the end of freeze z; frozen by ann (INC-7), waits for the end of freeze z",
			"r3 / prod / a: v2 waits: bracket_not_due (turn 2 of 3), waits for the end of freeze z; rollout_not_due (turn 2 of 3), waits for the end of freeze z; frozen by ann (INC-7), waits for the end of freeze z",
		},
	} {
		s := fleet(3, "v1", map[string][]string{"a": {"v1", "v2"}})
		s.Freezes = []rollout.Freeze{{ID: "z", PauseCurves: true, CreatedAt: minute(1).Add(-time.Second), CreatedBy: "ann", Reason: "INC-7"}}
		set := compile(t, policy(rules))
		s.State = mustPlan(t, set, s, t0).State
		plan := mustPlan(t, set, s, minute(30))
		var got []string
		for wait := range plan.Waiting.All() {
			got = append(got, wait.String())
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s:\n%s", rules, diff)
		}
		if len(plan.Start) > 0 || !plan.Next.IsZero() {
			t.Errorf("it starts %v, and looks again at %v", plan.Start, plan.Next)
		}
		gone := s
		gone.Freezes = nil
		if plan := mustPlan(t, set, gone, minute(30)); len(plan.Start) != 3 {
			t.Errorf("%s: it is as if there had been no freeze, and %v start", rules, plan.Start)
		}
		s.Freezes[0].ExpiresAt = minute(40)
		for at, starts := range map[time.Time]int{minute(40): 1, minute(40).Add(time.Second): 2, minute(41): 2, minute(41).Add(time.Second): 3} {
			if plan := mustPlan(t, set, s, at); len(plan.Start) != starts {
				t.Errorf("%s: at %v %v start, want %d", rules, at, plan.Start, starts)
			}
		}
	}
}

// TestPauseOfWhatHasLeft: a freeze of a member of a group stops the curve of the group although its
// targets have left meanwhile. When it begins, the plan changes.
func TestPauseOfWhatHasLeft(t *testing.T) {
	t.Parallel()
	set := compile(t, policy(`{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}},
		{"id":"g","gradualRollout":{"rolloutType":"linear","timeScaleInterval":600,"orderKey":"resource"}}`))
	s := fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}})
	s.State = mustPlan(t, set, s, t0).State
	s.Targets = slices.DeleteFunc(s.Targets, func(t rollout.Target) bool { return t.Deployment == "b" })
	s.Freezes = []rollout.Freeze{{ID: "z", Deployment: "b", PauseCurves: true, CreatedAt: minute(5), ExpiresAt: minute(8), CreatedBy: "ann", Reason: "INC-7"}}
	for _, row := range []struct{ now, next, turn int }{{1, 5, 10}, {5, 8, 13}, {8, 13, 13}} {
		plan := mustPlan(t, set, s, minute(row.now))
		waiting := waitingOf(plan)
		if len(waiting) != 1 || !waiting[0].Blockers[0].Until.Equal(minute(row.turn)) || !plan.Next.Equal(minute(row.next)) {
			t.Errorf("after %d minutes: %v, to be looked at again at %v", row.now, waiting, plan.Next)
		}
	}
}

// TestPausesAreMadeOnce: many curves and many freezes that are over cost their sum, not their product.
func TestPausesAreMadeOnce(t *testing.T) {
	const n = 300
	set := compile(t, policy(`{"id":"g","gradualRollout":{"rolloutType":"linear","timeScaleInterval":60}}`))
	deployments := map[string][]string{}
	for k := range n {
		deployments[fmt.Sprint("d", k)] = []string{"v1", "v2"}
	}
	s := fleet(1, "v1", deployments)
	without := testing.AllocsPerRun(1, func() { mustPlan(t, set, s, minute(1)) })
	for k := range n {
		from := t0.Add(time.Duration(k-n) * time.Hour)
		s.Freezes = append(s.Freezes, rollout.Freeze{ID: fmt.Sprint(k), PauseCurves: true, CreatedAt: from, ExpiresAt: from.Add(time.Minute), CreatedBy: "ann", Reason: "INC-7"})
	}
	if with := testing.AllocsPerRun(1, func() { mustPlan(t, set, s, minute(1)) }); with > without+60*n {
		t.Errorf("%v allocations, %v without the freezes", with, without)
	}
}

// TestPauseWithoutEndAllocates nothing for each of those whose turn it stops.
func TestPauseWithoutEndAllocates(t *testing.T) {
	const n = 2000
	set := compile(t, policy(`{"id":"g","gradualRollout":{"rolloutType":"linear","timeScaleInterval":60}}`))
	s := fleet(n, "v1", map[string][]string{"a": {"v1", "v2"}})
	s.Freezes = []rollout.Freeze{{ID: "z", PauseCurves: true, CreatedAt: minute(1), CreatedBy: "ann", Reason: "INC-7"}}
	if allocated := testing.AllocsPerRun(1, func() { mustPlan(t, set, s, minute(10)) }); allocated > n/2 {
		t.Errorf("%v allocations for %d targets", allocated, n)
	}
}

// TestPauseAndOtherTime: what is said of a turn that has no instant for another reason than a freeze.
func TestPauseAndOtherTime(t *testing.T) {
	t.Parallel()
	const window = `,{"id":"w","deploymentWindow":{"from":"2025-01-01T00:00:00Z","until":"2025-01-01T00:10:00Z"}}`
	const bracket = `{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}},`
	last := time.Unix(0, math.MaxInt64).UTC()
	room := int64(last.Sub(t0) / time.Second)
	for _, row := range []struct {
		why, rules string
		interval   int64
		freeze     rollout.Freeze
		want       string
	}{
		{"a freeze that has still to begin changes no turn", "", 300, rollout.Freeze{CreatedAt: minute(3), ExpiresAt: minute(4)}, "rollout_not_due (turn 2 of 2) until 2025-01-01T00:05:00Z"},
		{"one that is over does", "", 300, rollout.Freeze{CreatedAt: minute(1).Add(-10 * time.Second), ExpiresAt: minute(1)}, "rollout_not_due (turn 2 of 2) until 2025-01-01T00:05:10Z"},
		{"the windows never open again", window, 3600, rollout.Freeze{CreatedAt: minute(1).Add(-10 * time.Second), ExpiresAt: minute(1)},
			"rollout_overflow: the windows are not open for long enough within 5 years, waits for a change of the policy"},
		{"they would be open for long enough, but for the freeze", window, 300, rollout.Freeze{CreatedAt: minute(1), ExpiresAt: minute(7)},
			"rollout_overflow: the windows are not open for long enough within 5 years, less the time of the freezes, waits for a change of the policy or the end of freeze z; frozen by ann (INC-7) until 2025-01-01T00:07:00Z, waits for the end of freeze z"},
		{"… or one that is over, and may be left out", window, 595, rollout.Freeze{CreatedAt: minute(1).Add(-10 * time.Second), ExpiresAt: minute(1)},
			"rollout_overflow: the windows are not open for long enough within 5 years, less the time of the freezes, waits for a change of the policy or the end of freeze z"},
		{"there is just enough time", "", room - 10, rollout.Freeze{CreatedAt: minute(1).Add(-10 * time.Second), ExpiresAt: minute(1)},
			"rollout_not_due (turn 2 of 2) until " + last.Truncate(time.Second).Format(time.RFC3339)},
		{"there was, but for the freeze", "", room - 9, rollout.Freeze{CreatedAt: minute(1).Add(-10 * time.Second), ExpiresAt: minute(1)},
			"rollout_overflow: rollout: duration overflows 292 years, waits for a change of the policy"},
		{"no turn of the curve, and a freeze without end", "", 9223372036, rollout.Freeze{CreatedAt: minute(1)},
			"rollout_overflow: rollout: duration overflows 292 years, waits for a change of the policy; frozen by ann (INC-7), waits for the end of freeze z"},
		{"a freeze that ends after all plans ends never", "", 300, rollout.Freeze{CreatedAt: minute(1), ExpiresAt: time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)},
			"rollout_not_due (turn 2 of 2), waits for the end of freeze z; frozen by ann (INC-7), waits for the end of freeze z"},
		{"… in a bracket as well", bracket, 300, rollout.Freeze{CreatedAt: minute(1), ExpiresAt: time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)},
			"bracket_not_due (turn 2 of 2), waits for the end of freeze z; rollout_not_due (turn 2 of 2), waits for the end of freeze z; frozen by ann (INC-7), waits for the end of freeze z"},
		{"one without end lasts, however long ago it began", "", 300, rollout.Freeze{CreatedAt: time.Date(1, 1, 2, 0, 0, 0, 0, time.UTC)},
			"rollout_not_due (turn 2 of 2), waits for the end of freeze z; frozen by ann (INC-7), waits for the end of freeze z"},
	} {
		rules := fmt.Sprintf(`{"id":"g","gradualRollout":{"rolloutType":"linear","timeScaleInterval":%d,"orderKey":"resource"}}`, row.interval) + row.rules
		if row.rules == bracket {
			rules = bracket + strings.TrimSuffix(rules, bracket)
		}
		s := fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}})
		if row.interval == 9223372036 { // the first position that overflows is that of the third
			s = fleet(3, "v1", map[string][]string{"a": {"v1", "v2"}})
		}
		s.Freezes = []rollout.Freeze{row.freeze}
		z := &s.Freezes[0]
		z.ID, z.PauseCurves, z.CreatedBy, z.Reason = "z", true, "ann", "INC-7"
		wait, _ := mustPlan(t, compile(t, policy(rules)), s, minute(1)).Waiting.Of(rollout.TargetID{Resource: "r1", Environment: "prod", Deployment: "a"})
		if got := strings.TrimPrefix(wait.String(), "r1 / prod / a: v2 waits: "); got != row.want {
			t.Errorf("%s: %s\nwant %s", row.why, got, row.want)
		}
	}
}
