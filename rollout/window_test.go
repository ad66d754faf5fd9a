package rollout_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/clock"
	"github.com/tranche-dev/tranche/rollout"
)

// withZones loads zones from the machine that runs the tests.
func withZones() rollout.Option { return rollout.WithZones(time.LoadLocation) }

// weekly is a window on every day, in UTC unless more says otherwise.
func weekly(id, start, end, more string) string {
	if more != "" {
		more = "," + more
	}
	return fmt.Sprintf(`{"id":%q,"deploymentWindow":{"weekly":{"days":["mon","tue","wed","thu","fri","sat","sun"],"start":%q,"end":%q}%s}}`, id, start, end, more)
}

func named(name, rules string) string {
	return fmt.Sprintf(`{"name":%q,"selector":"true","rules":[%s]}`, name, rules)
}

// waits lists the blockers of the first target that waits: reason, rule and until, as HH:MM or a
// date.
func waits(plan rollout.Plan) string {
	if plan.Waiting.Len() == 0 {
		return ""
	}
	var list []string
	for _, b := range waitingOf(plan)[0].Blockers {
		text := string(b.Reason)
		if b.Rule != "" {
			text += " " + b.Rule
		}
		if !b.Until.IsZero() {
			text += " " + b.Until.Format("02 15:04:05.999999999")
		}
		list = append(list, text)
	}
	return strings.Join(list, "; ")
}

func instantOf(t testing.TB, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

const deny = `"allowWindow":false`

// TestWindow: when a version may start that nothing but windows delays.
func TestWindow(t *testing.T) {
	for _, row := range []struct {
		why, policies, now string
		first              bool   // the target has no current version
		waits              string // blockers; empty: it starts
		next               string
	}{
		{"the start of a window is inside", policy(weekly("w", "09:00", "17:00", "")), "2025-01-06T09:00:00Z", false, "", "2025-01-06T17:00:00Z"},
		{"its end is outside", policy(weekly("w", "09:00", "17:00", "")), "2025-01-06T17:00:00Z", false, "window_closed w 07 09:00:00", "2025-01-07T09:00:00Z"},
		{"a nanosecond before its end is inside", policy(weekly("w", "09:00", "17:00", "")), "2025-01-06T16:59:59.999999999Z", false, "", "2025-01-06T17:00:00Z"},
		{"half a second early is early", policy(weekly("w", "09:00", "17:00", "")), "2025-01-06T08:59:59.5Z", false, "window_closed w 06 09:00:00", "2025-01-06T09:00:00Z"},
		{"a first deployment bypasses a window", policy(weekly("w", "09:00", "17:00", "")), "2025-01-06T20:00:00Z", true, "", ""},
		{"unless the window applies to it", policy(weekly("w", "09:00", "17:00", `"firstDeploy":"apply"`)), "2025-01-06T20:00:00Z", true, "window_closed w 07 09:00:00", "2025-01-07T09:00:00Z"},
		{"bypass may be written out", policy(weekly("w", "09:00", "17:00", `"firstDeploy":"bypass"`)), "2025-01-06T20:00:00Z", true, "", ""},
		{"of two windows of one policy a first deployment waits for the one that applies", policy(weekly("a", "09:00", "17:00", "") + "," + weekly("d", "12:00", "13:00", deny+`,"firstDeploy":"apply"`)),
			"2025-01-06T12:30:00Z", true, "window_closed d 06 13:00:00", "2025-01-06T13:00:00Z"},
		{"inside a window that denies", policy(weekly("d", "10:00", "12:00", deny)), "2025-01-06T10:00:00Z", false, "window_closed d 06 12:00:00", "2025-01-06T12:00:00Z"},
		{"at the end of a window that denies", policy(weekly("d", "10:00", "12:00", deny)), "2025-01-06T12:00:00Z", false, "", "2025-01-07T10:00:00Z"},
		{"of two touching ones that deny both are left, and the second is named once it is its turn", policy(weekly("d1", "10:00", "12:00", deny) + "," + weekly("d2", "12:00", "14:00", deny)),
			"2025-01-06T11:00:00Z", false, "window_closed d1 06 14:00:00", "2025-01-06T12:00:00Z"},
		{"allowing windows of one policy are united", policy(weekly("a", "09:00", "12:00", "") + "," + weekly("b", "14:00", "17:00", "")), "2025-01-06T15:00:00Z", false, "", "2025-01-06T17:00:00Z"},
		{"of several one that is open is enough, also where it is written out that they allow: only what denies is to blame",
			policy(weekly("a", "09:00", "12:00", `"allowWindow":true`) + "," + weekly("b", "14:00", "17:00", `"allowWindow":true`) + "," + weekly("d", "14:00", "15:00", deny)),
			"2025-01-06T14:30:00Z", false, "window_closed d 06 15:00:00", "2025-01-06T15:00:00Z"},
		{"between them both are shut", policy(weekly("a", "09:00", "12:00", "") + "," + weekly("b", "14:00", "17:00", "")), "2025-01-06T13:00:00Z", false,
			"window_closed a 06 14:00:00; window_closed b 06 14:00:00", "2025-01-06T14:00:00Z"},
		{"what denies wins over what allows", policy(weekly("a", "09:00", "17:00", "") + "," + weekly("d", "09:00", "11:00", deny)), "2025-01-06T10:00:00Z", false, "window_closed d 06 11:00:00", "2025-01-06T11:00:00Z"},
		{"outside of one and inside the other both are named", policy(weekly("a", "09:00", "17:00", "") + "," + weekly("d", "00:00", "11:00", deny)), "2025-01-06T08:00:00Z", false,
			"window_closed a 06 11:00:00; window_closed d 06 11:00:00", "2025-01-06T09:00:00Z"},
		{"windows of several policies are intersected", "[" + named("p", weekly("a", "09:00", "12:00", "")) + "," + named("q", weekly("b", "11:00", "17:00", "")) + "]", "2025-01-06T10:00:00Z", false,
			"window_closed b 06 11:00:00", "2025-01-06T11:00:00Z"},
		{"the hour in which both are open", "[" + named("p", weekly("a", "09:00", "12:00", "")) + "," + named("q", weekly("b", "11:00", "17:00", "")) + "]", "2025-01-06T11:30:00Z", false, "", "2025-01-06T12:00:00Z"},
		{"two that never meet", "[" + named("p", weekly("a", "09:00", "12:00", "")) + "," + named("q", weekly("b", "13:00", "17:00", "")) + "]", "2025-01-06T10:00:00Z", false, "window_closed b", "2025-01-06T12:00:00Z"},
		{"exactly as long as is asked for", policy(weekly("w", "09:00", "17:00", `"minimumRemainingMinutes":30`)), "2025-01-06T16:30:00Z", false, "", "2025-01-06T16:30:00.000000001Z"},
		{"a nanosecond less", policy(weekly("w", "09:00", "17:00", `"minimumRemainingMinutes":30`)), "2025-01-06T16:30:00.000000001Z", false, "window_too_short w 07 09:00:00", "2025-01-06T17:00:00Z"},
		{"longer than any opening", policy(weekly("w", "09:00", "17:00", `"minimumRemainingMinutes":500`)), "2025-01-06T10:00:00Z", false, "window_too_short w", "2025-01-06T17:00:00Z"},
		{"the time that remains is that of all policies together", "[" + named("p", weekly("a", "09:00", "17:00", `"minimumRemainingMinutes":60`)) + "," + named("q", weekly("d", "12:00", "13:00", deny)) + "]",
			"2025-01-06T11:30:00Z", false, "window_too_short a 06 13:00:00", "2025-01-06T12:00:00Z"},
		{"what would be too short once the other is open is named, too", policy(weekly("a", "12:00", "13:00", "") + "," + weekly("d", "09:00", "11:00", deny+`,"minimumRemainingMinutes":90`)),
			"2025-01-06T08:00:00Z", false, "window_closed a; window_too_short d 06 11:00:00", "2025-01-06T09:00:00Z"},
		{"in the order of the rules, whatever is the matter with each", policy(weekly("d", "09:00", "11:00", deny+`,"minimumRemainingMinutes":90`) + "," + weekly("a", "12:00", "13:00", "")),
			"2025-01-06T08:00:00Z", false, "window_too_short d 06 11:00:00; window_closed a", "2025-01-06T09:00:00Z"},
		{"just long enough once the other is open", policy(weekly("a", "12:00", "13:00", "") + "," + weekly("d", "09:00", "11:00", deny+`,"minimumRemainingMinutes":60`)),
			"2025-01-06T08:00:00Z", false, "window_closed a 06 12:00:00", "2025-01-06T08:00:00.000000001Z"},
		{"the longer of two minima blocks first, and then the other", policy(weekly("w", "09:00", "17:00", `"minimumRemainingMinutes":60`) + "," + weekly("v", "09:00", "17:00", `"minimumRemainingMinutes":30`)),
			"2025-01-06T16:15:00Z", false, "window_too_short w 07 09:00:00", "2025-01-06T16:30:00.000000001Z"},
		{"a window that never opens says so", policy(`{"id":"past","deploymentWindow":{"from":"2020-01-01T00:00:00Z","until":"2020-01-02T00:00:00Z"}}`), "2025-01-06T10:00:00Z", false, "window_closed past", ""},
		{"a freeze once", policy(`{"id":"freeze","deploymentWindow":{"from":"2025-01-01T00:00:00Z","until":"2025-01-08T00:00:00Z","allowWindow":false}}`), "2025-01-06T10:00:00Z", false,
			"window_closed freeze 08 00:00:00", "2025-01-08T00:00:00Z"},
		{"22:00 in New York is 03:00 UTC in winter", policy(weekly("ny", "22:00", "23:00", `"timezone":"America/New_York"`)), "2025-01-06T02:00:00Z", false, "window_closed ny 06 03:00:00", "2025-01-06T03:00:00Z"},
		{"and 02:00 UTC in summer", policy(weekly("ny", "22:00", "23:00", `"timezone":"America/New_York"`)), "2025-07-07T01:00:00Z", false, "window_closed ny 07 02:00:00", "2025-07-07T02:00:00Z"},
		{"a start in the gap of the spring day moves to its end", policy(weekly("ny", "02:30", "03:30", `"timezone":"America/New_York"`)), "2026-03-08T06:00:00Z", false, "window_closed ny 08 07:00:00", "2026-03-08T07:00:00Z"},
		{"Friday night lasts until Saturday morning", policy(`{"id":"f","deploymentWindow":{"weekly":{"days":["fri"],"start":"22:00","end":"04:00"}}}`), "2025-01-11T02:00:00Z", false, "", "2025-01-11T04:00:00Z"},
		{"and Friday morning is not Friday night", policy(`{"id":"f","deploymentWindow":{"weekly":{"days":["fri"],"start":"22:00","end":"04:00"}}}`), "2025-01-10T02:00:00Z", false,
			"window_closed f 10 22:00:00", "2025-01-10T22:00:00Z"},
	} {
		t.Run(row.why, func(t *testing.T) {
			now := instantOf(t, row.now)
			s := fleet(1, "v1", map[string][]string{"api": {"v1", "v2"}})
			for k := range s.Versions {
				s.Versions[k].CreatedAt = now.Add(time.Duration(k-2) * time.Hour)
			}
			if row.first {
				s.Targets[0].Current = ""
			}
			plan := mustPlan(t, compile(t, row.policies, withZones()), s, now)
			next := ""
			if !plan.Next.IsZero() {
				next = plan.Next.Format(time.RFC3339Nano)
			}
			if got := waits(plan); got != row.waits || (len(plan.Start) == 1) != (row.waits == "") || next != row.next {
				t.Errorf("waits for %q, starts %q, next %s; want %q, next %s", got, started(plan), next, row.waits, row.next)
			}
			for wait := range plan.Waiting.All() {
				for _, b := range wait.Blockers {
					if b.Status != rollout.Pending || b.Until.IsZero() && len(b.On) == 0 {
						t.Errorf("%+v: a shut window is pending and names what opens it", b)
					}
				}
			}
		})
	}
}

// TestWindowNeverOpensSays: which opening is looked for, and how far.
func TestWindowNeverOpensSays(t *testing.T) {
	plan := mustPlan(t, compile(t, policy(weekly("w", "09:00", "17:00", `"minimumRemainingMinutes":500`))), fleet(1, "v1", map[string][]string{"api": {"v1", "v2"}}), t0)
	if b := waitingOf(plan)[0].Blockers[0]; b.Data == nil || b.Data.Detail != "no opening of 8h20m within 5 years" {
		t.Errorf("%v", b)
	}
	plan = mustPlan(t, compile(t, policy(`{"id":"w","deploymentWindow":{"from":"2020-01-01T00:00:00Z","until":"2020-01-02T00:00:00Z"}}`)), fleet(1, "v1", map[string][]string{"api": {"v1", "v2"}}), t0)
	if b := waitingOf(plan)[0].Blockers[0]; b.Data == nil || b.Data.Detail != "no opening within 5 years" {
		t.Errorf("%v", b)
	}
}

// TestWindowsThatNeverOpenTogether: a window that is closed just now is not blamed for another one
// that never opens, or else its owner would be sent to edit it. It says when it opens. Windows of
// several policies that are all open at times, but never at once, name the policies.
func TestWindowsThatNeverOpenTogether(t *testing.T) {
	named := func(name, rules string) string {
		return `{"name":"` + name + `","selector":"true","rules":[` + rules + `]}`
	}
	once := func(id, from, until string) string {
		return `{"id":"` + id + `","deploymentWindow":{"from":"` + from + `T00:00:00Z","until":"` + until + `T00:00:00Z"}}`
	}
	past := once("past", "2020-01-01", "2020-01-02")
	freezes := weekly("f", "00:00", "12:00", deny) + "," + weekly("g", "12:00", "00:00", deny)
	const (
		never    = "window_closed: no opening within 5 years, waits for a change of the policy"
		tomorrow = "window_closed until 2025-01-07T09:00:00Z"
	)
	for _, row := range []struct {
		why, policies string
		want          []string
		next          string
	}{
		{"one has passed, the other opens tomorrow", "[" + named("p", weekly("office", "09:00", "17:00", "")) + "," + named("q", past) + "]", []string{tomorrow, never}, "2025-01-07T09:00:00Z"},
		{"two have passed", "[" + named("p", once("before", "2019-01-01", "2019-01-02")) + "," + named("q", past) + "]", []string{never, never}, ""},
		{"each is open at times", "[" + named("p", weekly("morning", "09:00", "12:00", "")) + "," + named("q", weekly("afternoon", "12:00", "17:00", "")) + "]", []string{
			"window_closed: the windows of p, q are never open together within 5 years, waits for a change of the policy",
			"window_closed: the windows of p, q are never open together within 5 years, waits for a change of the policy"}, "2025-01-07T09:00:00Z"},
		{"only for a shorter time", "[" + named("q", weekly("long", "09:00", "13:00", `"minimumRemainingMinutes":90`)) + "," + named("p", weekly("late", "12:00", "17:00", "")) + "]", []string{
			"window_closed: the windows of p, q are never open together for 1h30m within 5 years, waits for a change of the policy",
			"window_closed: the windows of p, q are never open together for 1h30m within 5 years, waits for a change of the policy"}, "2025-01-07T09:00:00Z"},
		{"two never meet, and a third has passed", "[" + named("p", weekly("morning", "09:00", "12:00", "")) + "," + named("q", weekly("afternoon", "12:00", "17:00", "")) + "," + named("r", past) + "]", []string{
			"window_closed: the windows of p, q are never open together within 5 years, waits for a change of the policy",
			"window_closed: the windows of p, q are never open together within 5 years, waits for a change of the policy", never}, "2025-01-07T09:00:00Z"},
		{"the freezes of one policy leave nothing, only one of them is at work", "[" + named("p", weekly("office", "09:00", "17:00", "")) + "," + named("q", freezes) + "]", []string{tomorrow, never}, "2025-01-07T00:00:00Z"},
		{"one is open for the last time for as long as the other asks for: after that it alone is to blame", "[" + named("p", once("last", "2025-01-01", "2025-01-07")) + "," + named("q", strings.Replace(once("first", "2025-01-08", "2025-01-09"), "{\"from", `{"minimumRemainingMinutes":90,"from`, 1)) + "]", []string{
			"window_closed: the windows of p, q are never open together for 1h30m within 5 years, waits for a change of the policy"}, "2025-01-06T22:30:00.000000001Z"},
	} {
		plan := mustPlan(t, compile(t, row.policies), fleet(1, "v1", map[string][]string{"api": {"v1", "v2"}}), instantOf(t, "2025-01-06T20:00:00Z"))
		var got []string
		for _, b := range waitingOf(plan)[0].Blockers {
			got = append(got, b.String())
		}
		if !slices.Equal(got, row.want) {
			t.Errorf("%s: it waits for\n%s", row.why, strings.Join(got, "\n"))
		}
		next := ""
		if !plan.Next.IsZero() {
			next = plan.Next.Format(time.RFC3339Nano)
		}
		if next != row.next {
			t.Errorf("%s: next %q, want %q", row.why, next, row.next)
		}
	}
}

// TestWindowForRepeats: another job of what a target has waits for the window as well; a target
// that has nothing yet bypasses it.
func TestWindowForRepeats(t *testing.T) {
	set := compile(t, policy(weekly("w", "09:00", "17:00", "")+`,{"retry":{"maxRetries":1}}`))
	now := instantOf(t, "2025-01-06T20:00:00Z")
	s := fleet(1, "v1", map[string][]string{"api": {"v1", "v2"}})
	s.Targets[0].Jobs = []rollout.Job{{Version: "v2", Status: rollout.JobFailure, CreatedAt: now.Add(-time.Hour)}}
	if got := waits(mustPlan(t, set, s, now)); got != "window_closed w 07 09:00:00" {
		t.Errorf("a retry waits for %q", got)
	}
	s.Targets[0].Current = ""
	if got := started(mustPlan(t, set, s, now)); len(got) != 1 {
		t.Errorf("the retry of a first deployment waits: %q", got)
	}
	s.Targets[0].Current, s.Targets[0].Jobs, s.Targets[0].OutdatedAt = "v2", nil, now
	if got := waits(mustPlan(t, set, s, now)); got != "window_closed w 07 09:00:00" {
		t.Errorf("an outdated target waits for %q", got)
	}
}

// TestWindowIsForStartsOnly: what runs when a window closes is not touched.
func TestWindowIsForStartsOnly(t *testing.T) {
	set := compile(t, policy(weekly("w", "09:00", "17:00", "")))
	s := fleet(1, "v1", map[string][]string{"api": {"v1", "v2"}})
	s.Targets[0].Jobs = []rollout.Job{{Version: "v2", Status: rollout.JobInProgress, CreatedAt: t0.Add(16 * time.Hour)}}
	plan := mustPlan(t, set, s, t0.Add(20*time.Hour))
	if len(plan.Start)+plan.Waiting.Len() != 0 || plan.Keep.Started != 1 {
		t.Errorf("starts %q, waits %q, keeps %+v", started(plan), blockers(plan), plan.Keep)
	}
}

// dues plans at a start and lists when each position is due.
func dues(t testing.TB, set *rollout.PolicySet, s rollout.Snapshot, start time.Time) []string {
	t.Helper()
	var list []time.Time
	plan := mustPlan(t, set, s, start)
	for range plan.Start {
		list = append(list, start)
	}
	for wait := range plan.Waiting.All() {
		for _, b := range wait.Blockers {
			if b.Reason == rollout.ReasonRolloutNotDue {
				list = append(list, b.Until)
			}
		}
	}
	slices.SortFunc(list, time.Time.Compare)
	var texts []string
	for _, at := range list {
		texts = append(texts, at.Format("02 15:04:05.999999999"))
	}
	return texts
}

// TestCurveInOpenTime: a curve advances while windows are open, and nobody piles up at the
// reopening.
func TestCurveInOpenTime(t *testing.T) {
	day := weekly("w", "09:00", "17:00", "")
	for _, row := range []struct {
		why, curve, windows, start string
		targets                    int
		first                      bool
		want                       []string
	}{
		{"five minutes apart, ten minutes before the end", `"linear","timeScaleInterval":300`, day, "2025-01-06T16:50:00Z", 5, false,
			[]string{"06 16:50:00", "06 16:55:00", "07 09:00:00", "07 09:05:00", "07 09:10:00"}},
		{"a rollout that begins while it is shut begins with the window", `"linear","timeScaleInterval":300`, day, "2025-01-06T20:00:00Z", 3, false, []string{"07 09:00:00", "07 09:05:00", "07 09:10:00"}},
		{"the normalized curve, a third of an hour apart", `"linear-normalized","timeScaleInterval":3600`, day, "2025-01-06T16:30:00Z", 3, false, []string{"06 16:30:00", "06 16:50:00", "07 09:10:00"}},
		{"the exponential curve", `"exponential","positionGrowthFactor":2,"timeScaleInterval":3600`, day, "2025-01-06T16:30:00Z", 3, false,
			[]string{"06 16:30:00", "06 16:53:36.489625035", "07 09:07:55.634011783"}},
		{"waves of two", `"waves","waves":[2],"timeScaleInterval":1200`, day, "2025-01-06T16:30:00Z", 5, false, []string{"06 16:30:00", "06 16:30:00", "06 16:50:00", "06 16:50:00", "07 09:10:00"}},
		{"no interval: everybody at the opening", `"linear","timeScaleInterval":0`, day, "2025-01-06T20:00:00Z", 3, false, []string{"07 09:00:00", "07 09:00:00", "07 09:00:00"}},
		{"over noon and night", `"linear","timeScaleInterval":10800`, weekly("w", "09:00", "12:00", "") + "," + weekly("v", "13:00", "17:00", ""), "2025-01-06T09:00:00Z", 5, false,
			[]string{"06 09:00:00", "06 13:00:00", "06 16:00:00", "07 11:00:00", "07 15:00:00"}},
		{"a freeze in between", `"linear","timeScaleInterval":3600`, `{"deploymentWindow":{"from":"2025-01-06T10:30:00Z","until":"2025-01-08T00:00:00Z","allowWindow":false}}`, "2025-01-06T10:00:00Z", 3, false,
			[]string{"06 10:00:00", "08 00:30:00", "08 01:30:00"}},
		{"first deployments know no closed time", `"linear","timeScaleInterval":300`, day, "2025-01-06T16:50:00Z", 4, true, []string{"06 16:50:00", "06 16:55:00", "06 17:00:00", "06 17:05:00"}},
		{"unless the window applies to them", `"linear","timeScaleInterval":300`, weekly("w", "09:00", "17:00", `"firstDeploy":"apply"`), "2025-01-06T16:50:00Z", 4, true,
			[]string{"06 16:50:00", "06 16:55:00", "07 09:00:00", "07 09:05:00"}},
	} {
		t.Run(row.why, func(t *testing.T) {
			start := instantOf(t, row.start)
			s := fleet(row.targets, "v1", map[string][]string{"api": {"v1", "v2"}})
			s.Versions[0].CreatedAt, s.Versions[1].CreatedAt = start.Add(-time.Hour), start
			if row.first {
				s.Versions = s.Versions[1:]
				for k := range s.Targets {
					s.Targets[k].Current = ""
				}
			}
			set := compile(t, policy(`{"gradualRollout":{"rolloutType":`+row.curve+`}},`+row.windows))
			if got := dues(t, set, s, start); !slices.Equal(got, row.want) {
				t.Errorf("due at %q, want %q", got, row.want)
			}
			// A host that looks only when Next says so starts everybody on time.
			var starts []string
			for now := start; !now.IsZero() && len(starts) < row.targets; {
				plan := mustPlan(t, set, s, now)
				carryOut(t, &s, plan, now, rollout.JobSuccessful)
				for range plan.Start {
					starts = append(starts, now.Format("02 15:04:05.999999999"))
				}
				if !plan.Next.After(now) && !plan.Next.IsZero() {
					t.Fatalf("next %v is not after %v", plan.Next, now)
				}
				now = plan.Next
			}
			if !slices.Equal(starts, row.want) {
				t.Errorf("started at %q, want %q", starts, row.want)
			}
		})
	}
}

// TestCurveNeverDue: a position that no open time of five years reaches is refused by name, and the
// others are not.
func TestCurveNeverDue(t *testing.T) {
	s := fleet(2, "v1", map[string][]string{"api": {"v1", "v2"}})
	set := compile(t, policy(`{"gradualRollout":{"rolloutType":"linear","timeScaleInterval":7200}},{"deploymentWindow":{"from":"2025-01-01T00:00:00Z","until":"2025-01-01T01:00:00Z"}}`))
	plan := mustPlan(t, set, s, t0)
	if got := waits(plan); len(plan.Start) != 1 || got != "rollout_overflow p/gradualRollout/0" {
		t.Errorf("starts %q, waits for %q", started(plan), got)
	}
	if b := waitingOf(plan)[0].Blockers[0]; b.Data == nil || b.Data.Detail != "the windows are not open for long enough within 5 years" {
		t.Errorf("a search of the calendar is told, and not what is wrong: %v", b)
	}
	// Without windows it is the last instant that 64 bits of nanoseconds can tell.
	for _, row := range []struct{ interval, waits string }{{"7400000000", "rollout_not_due g "}, {"7500000000", "rollout_overflow g"}} {
		plan := mustPlan(t, compile(t, policy(`{"id":"g","gradualRollout":{"rolloutType":"linear","timeScaleInterval":`+row.interval+`}}`)), s, t0)
		if got := waits(plan); len(plan.Start) != 1 || !strings.HasPrefix(got, row.waits) {
			t.Errorf("%s seconds: starts %q, waits for %q, want %q", row.interval, started(plan), got, row.waits)
		}
	}
}

// TestBracketWaitsForWindows: an execution begins only when all of its members may run, and then is
// asked no more.
func TestBracketWaitsForWindows(t *testing.T) {
	bracket := `{"deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}},{"deploymentDependency":{"dependsOn":"deployment.name == 'a'","appliesTo":"deployment.name == 'b'"}}`
	now := instantOf(t, "2025-01-06T20:00:00Z")
	world := func() rollout.Snapshot {
		s := fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}})
		for k := range s.Versions {
			s.Versions[k].CreatedAt = now.Add(time.Duration(k%2-1) * time.Hour)
		}
		return s
	}
	t.Run("the window of the policy", func(t *testing.T) {
		s := world()
		set := compile(t, policy(bracket+","+weekly("w", "09:00", "17:00", "")))
		plan := mustPlan(t, set, s, now)
		if got := waits(plan); got != "bracket_not_due p/deploymentBracket/0 07 09:00:00; window_closed w 07 09:00:00" || len(plan.Start) != 0 {
			t.Fatalf("starts %q, waits for %q", started(plan), got)
		}
		opens := instantOf(t, "2025-01-07T09:00:00Z")
		if !plan.Next.Equal(opens) {
			t.Errorf("next %v", plan.Next)
		}
		s.State = plan.State
		plan = mustPlan(t, set, s, opens.Add(8*time.Hour-1))
		if got := started(plan); !slices.Equal(got, []string{"r1/a@v2", "r2/a@v2"}) {
			t.Fatalf("starts %q, waits %q", got, blockers(plan))
		}
		carryOut(t, &s, plan, opens.Add(8*time.Hour-1), rollout.JobSuccessful)
		// 17:00: the window is shut, and what was begun is finished.
		if got := started(mustPlan(t, set, s, opens.Add(9*time.Hour))); !slices.Equal(got, []string{"r1/b@v2", "r2/b@v2"}) {
			t.Errorf("starts %q", got)
		}
	})
	t.Run("the window of another policy that one member has", func(t *testing.T) {
		s := world()
		set := compile(t, "["+policy(bracket)+`,{"name":"q","selector":"deployment.name == 'b'","rules":[`+weekly("w", "09:00", "17:00", "")+"]}]")
		if got := waits(mustPlan(t, set, s, now)); !strings.Contains(got, "window_closed w 07 09:00:00") {
			t.Errorf("waits for %q: nothing is drained to wait", got)
		}
	})
	t.Run("windows of two members that never meet", func(t *testing.T) {
		s := world()
		set := compile(t, "["+policy(bracket)+`,{"name":"q","selector":"deployment.name == 'b'","rules":[`+weekly("w", "09:00", "12:00", "")+
			`]},{"name":"r","selector":"deployment.name == 'a'","rules":[`+weekly("v", "13:00", "17:00", "")+"]}]")
		plan := mustPlan(t, set, s, now) // which ends
		if len(plan.Start) != 0 || plan.Waiting.Len() != 4 || !strings.Contains(waits(plan), "window_closed") {
			t.Errorf("starts %q, waits %q", started(plan), blockers(plan))
		}
	})
	t.Run("positions in open time", func(t *testing.T) {
		s := world()
		for k := range s.Versions {
			s.Versions[k].CreatedAt = s.Versions[k].CreatedAt.Add(-3*time.Hour - 10*time.Minute) // 16:50
		}
		set := compile(t, policy(bracket+","+weekly("w", "09:00", "17:00", "")+`,{"gradualRollout":{"rolloutType":"linear","timeScaleInterval":600}}`))
		start := instantOf(t, "2025-01-06T16:50:00Z")
		plan := mustPlan(t, set, s, start)
		if got := waits(plan); len(plan.Start) != 1 {
			t.Errorf("starts %q, waits for %q", started(plan), got)
		}
		carryOut(t, &s, plan, start, rollout.JobInProgress)
		var due time.Time
		for wait := range mustPlan(t, set, s, start.Add(time.Minute)).Waiting.All() {
			for _, b := range wait.Blockers {
				if b.Reason == "bracket_not_due" {
					due = b.Until
				}
			}
		}
		if want := instantOf(t, "2025-01-07T09:00:00Z"); !due.Equal(want) {
			t.Errorf("the second is due at %v, want %v", due, want)
		}
	})
}

// TestWindowFaultsAllAtOnce: a zone that does not exist is reported beside what else is wrong with
// the window.
func TestWindowFaultsAllAtOnce(t *testing.T) {
	parsed, err := rollout.ParsePolicies([]byte(policy(`{"deploymentWindow":{"weekly":{"days":["mon"],"start":"25:00","end":"26:00"},"timezone":"Nowhere/Town"}}`)))
	if err != nil {
		t.Fatal(err)
	}
	_, err = rollout.Compile(parsed, newEnv(t), rollout.WithZones(time.LoadLocation))
	for _, path := range []string{"weekly.start", "weekly.end", "timezone"} {
		if n := strings.Count(fmt.Sprint(err), "rules[0].deploymentWindow."+path+":"); n != 1 {
			t.Errorf("%s is reported %d times: %v", path, n, err)
		}
	}
}

// TestWindowZones: a zone that cannot be loaded is reported once for each window, with the loader's
// own words. Only a host that gave no loader is told to give one.
func TestWindowZones(t *testing.T) {
	for _, row := range []struct {
		why, zone string
		load      func(string) (*time.Location, error)
		want      int // windows of which the error says so
		says      string
	}{
		{"the loader fails, at every window", "Europe/Berlin", func(string) (*time.Location, error) { return nil, errors.New("the zone server is down") }, 2, "the zone server is down"},
		{"it knows no such zone", "Mars/Olympus", func(string) (*time.Location, error) { return nil, nil }, 2, "it was not found"},
		{"no loader was given", "Europe/Berlin", nil, 2, "WithZones(time.LoadLocation)"},
		{"the zone of whatever machine reads it is none", "Local", time.LoadLocation, 2, "differs from machine to machine"},
		{"nor is it without a loader", "Local", nil, 2, "differs from machine to machine"},
		{"by any name, though many machines find it", "localtime", time.LoadLocation, 2, "differs from machine to machine"},
		{"with leap seconds it is the same zone, some seconds later", "right/Europe/Berlin", time.LoadLocation, 2, "write Europe/Berlin"},
		{"and then, too, without a loader", "localtime", nil, 2, "differs from machine to machine"},
	} {
		zone := fmt.Sprintf(`"timezone":%q`, row.zone)
		parsed, err := rollout.ParsePolicies([]byte(policy(weekly("a", "09:00", "12:00", zone) + "," + weekly("b", "14:00", "17:00", zone))))
		if err != nil {
			t.Fatal(err)
		}
		_, err = rollout.Compile(parsed, newEnv(t), rollout.WithZones(row.load))
		text := fmt.Sprint(err)
		if n := strings.Count(text, row.says); n != row.want || strings.Count(text, "timezone:") != row.want {
			t.Errorf("%s: said %d times, want %d: %v", row.why, n, row.want, err)
		}
		if row.load != nil && strings.Contains(text, "WithZones") {
			t.Errorf("%s: tells a host to give what it gave: %v", row.why, err)
		}
	}
	// What else is found with the zone at hand has its own remedy.
	_, err := rollout.Load([]byte(policy(`{"deploymentWindow":{"rrule":"FREQ=DAILY;INTERVAL=7;BYDAY=MO","anchor":"2025-01-07T00:00:00Z","durationMinutes":60}}`)), newEnv(t))
	if text := fmt.Sprint(err); strings.Contains(text, "WithZones") || !strings.Contains(text, "never reaches a day of BYDAY") {
		t.Error(err)
	}
}

// recurring is a host's own recurrence.
type recurring func(time.Time) time.Time

func (r recurring) Next(at time.Time) time.Time { return r(at) }

// TestWindowOfAFaultyHost: a recurrence that breaks its promise opens nothing, and beside it
// nothing passes for open: every window is named.
func TestWindowOfAFaultyHost(t *testing.T) {
	parsed, err := rollout.ParsePolicies([]byte(policy(weekly("w", "09:00", "17:00", "") + "," + weekly("host", "10:00", "12:00", ""))))
	if err != nil {
		t.Fatal(err)
	}
	back := recurring(func(at time.Time) time.Time { return at.Add(-time.Hour) }) // it must name an instant that is still to come
	parsed[0].Rules[1].DeploymentWindow.Window = clock.Window{DurationMinutes: 60, Recurrence: back}
	set, err := rollout.Compile(parsed, newEnv(t))
	if err != nil {
		t.Fatal(err)
	}
	plan := mustPlan(t, set, fleet(1, "v1", map[string][]string{"api": {"v1", "v2"}}), t0.Add(10*time.Hour))
	if got := waits(plan); got != "window_closed w; window_closed host" || len(plan.Start) > 0 {
		t.Errorf("starts %q, waits for %q", started(plan), got)
	}
}

// TestFaultsOfWindowsHaveOneCode: what is wrong in a window has the same code in a document of
// package clock and in a policy.
func TestFaultsOfWindowsHaveOneCode(t *testing.T) {
	for text, want := range map[string]rollout.Code{
		`"from":"yesterday","until":"2026-01-01T00:00:00Z"`:               "time_invalid",
		`"from":17,"until":"2026-01-01T00:00:00Z"`:                        "time_invalid",
		`"weekly":{"days":["mon"],"start":9,"end":"17:00"}`:               "time_invalid",
		`"weekly":{"days":3,"start":"09:00","end":"17:00"}`:               "day_invalid",
		`"weekly":{"days":["mon"],"start":"09:00"},"durationMinutes":"x"`: "duration_invalid",
		`"rrule":"FREQ=DAILY","durationMinutes":60,"anchor":true`:         "time_invalid",
		`"rrule":"FREQ=DAILY","durationMinutes":60,"timezone":3`:          "timezone_unknown",
		`"rrule":3,"durationMinutes":60`:                                  rollout.CodeType,
		`"weekly":3`:                                                      rollout.CodeType,
	} {
		var own *clock.FieldError
		if _, err := clock.ParseWindow([]byte(`{` + text + `}`)); !errors.As(err, &own) || rollout.Code(own.Code) != want {
			t.Errorf("%s: package clock says %v, want %s", text, own, want)
		}
		var fault *rollout.FieldError
		if _, err := rollout.ParsePolicies([]byte(policy(`{"deploymentWindow":{` + text + `}}`))); !errors.As(err, &fault) || fault.Code != want {
			t.Errorf("%s: %v, want %s", text, fault, want)
		}
	}
}

// TestTurnsBesideAWindow: of the targets of one rollout, a window holds some and lets others past,
// because they run nothing yet. Each of them tells its own turn, whichever comes first, and its
// explanation tells the same.
func TestTurnsBesideAWindow(t *testing.T) {
	set := compile(t, policy(`{"id":"G","gradualRollout":{"rolloutType":"linear","timeScaleInterval":600,"orderKey":"target","orderSalt":"none"}},
		{"id":"W","deploymentWindow":{"allowWindow":false,"from":"2025-01-01T00:05:00Z","until":"2025-01-01T05:00:00Z"}}`))
	for _, row := range []struct {
		why     string
		current [3]string            // of r1, r2, r3; the order of the rollout is r2 r1 r3
		until   map[string]time.Time // turn 2 is that of r1, turn 3 that of r3; the rollout starts at 00:00
	}{
		{"first one without a window, then one with", [3]string{"", "", "v1"}, map[string]time.Time{"r1": t0.Add(10 * time.Minute), "r3": t0.Add(5*time.Hour + 15*time.Minute)}},
		{"first one with a window, then one without", [3]string{"v1", "", ""}, map[string]time.Time{"r1": t0.Add(5*time.Hour + 5*time.Minute), "r3": t0.Add(20 * time.Minute)}},
	} {
		s := fleet(3, "", map[string][]string{"a": {"v1", "v2"}})
		for k := range s.Targets {
			s.Targets[k].Current = row.current[k]
		}
		plan := mustPlan(t, set, s, t0.Add(time.Minute))
		if plan.Waiting.Len() != 2 {
			t.Fatalf("%s: %v", row.why, blockers(plan))
		}
		for w := range plan.Waiting.All() {
			if got := w.Blockers[0].Until; !got.Equal(row.until[w.Resource]) {
				t.Errorf("%s: %v; it is due at %v", row.why, w, row.until[w.Resource])
			}
			explanation, err := plan.Explain(w.TargetID)
			if err != nil {
				t.Fatal(err)
			}
			if explained := explanation.Waits().Blockers(); !explained[0].Verdict.Equal(w.Blockers[0]) {
				t.Errorf("%s: the plan says %v, its explanation %v", row.why, w.Blockers[0], explained[0].Verdict)
			}
		}
	}
}

// TestBracketNamesTheWindowThatNeverOpens: of several windows, those that keep an execution from
// ever being due are named, and not one that is open.
func TestBracketNamesTheWindowThatNeverOpens(t *testing.T) {
	const (
		bracket = `{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}}`
		past    = `{"id":"freeze","deploymentWindow":{"allowWindow":false,"from":"2024-06-01T00:00:00Z","until":"2024-06-02T00:00:00Z"}}`
		over    = `{"id":"once","deploymentWindow":{"from":"2024-07-01T00:00:00Z","until":"2024-07-02T00:00:00Z"}}`
		ending  = `{"id":"once","deploymentWindow":{"from":"2024-12-31T00:00:00Z","until":"2025-01-01T00:05:00Z"}}`
		cool    = `{"id":"C","versionCooldown":{"intervalSeconds":7200}}` // until 01:00
		day     = `{"id":"day","deploymentWindow":{"weekly":{"days":["mon","tue","wed","thu","fri","sat","sun"],"start":"08:00","end":"16:00"}}}`
		night   = `{"id":"night","deploymentWindow":{"weekly":{"days":["mon","tue","wed","thu","fri","sat","sun"],"start":"20:00","end":"23:00"}}}`
		quiet   = `{"id":"quiet","deploymentWindow":{"allowWindow":false,"weekly":{"days":["mon","tue","wed","thu","fri","sat","sun"],"start":"19:00","end":"24:00"}}}`
		early   = `{"id":"early","deploymentWindow":{"weekly":{"days":["mon","tue","wed","thu","fri","sat","sun"],"start":"00:00","end":"16:00"}}}`
		later   = `{"id":"later","deploymentWindow":{"allowWindow":false,"from":"2025-01-01T00:05:00Z","until":"2040-01-01T00:00:00Z"}}`
		first   = `{"id":"first","deploymentWindow":{"from":"2024-05-01T00:00:00Z","until":"2024-05-02T00:00:00Z"}}`
	)
	of := func(name, rules string) string {
		return `{"name":"` + name + `","selector":"true","rules":[` + rules + `]}`
	}
	for _, row := range []struct {
		why, policies string
		want          []string
		overridden    string // a window that an override opens for good
	}{
		{"one policy: the freeze is over", of("p", past+","+bracket+","+over), []string{"once"}, ""},
		{"two policies: the freeze is over", "[" + of("a", past) + "," + of("p", bracket+","+over) + "]", []string{"once"}, ""},
		{"open now, and over by the time the cooldown ends", "[" + of("a", past) + "," + of("p", bracket+","+cool+","+ending) + "]", []string{"once"}, ""},
		{"each opens every day, never both at once", "[" + of("a", day) + "," + of("p", bracket+","+night) + "]", []string{"day", "night"}, ""},
		{"two windows of a policy leave nothing, each alone would", "[" + of("a", early) + "," + of("p", bracket+","+night+","+quiet) + "]", []string{"night", "quiet"}, ""},
		{"an override of one allowing window opens the policy of the other", "[" + of("a", over) + "," + of("p", bracket+","+night+","+first) + "]", []string{"once"}, "night"},
		{"but not what denies in it, here by the time the cooldown ends", "[" + of("a", over) + "," + of("p", bracket+","+cool+","+night+","+later) + "]", []string{"once", "later"}, "night"},
	} {
		s := fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}})
		if row.overridden != "" {
			s.Overrides = []rollout.Override{override(row.overridden, func(o *rollout.Override) { o.Deployment = "a" })}
		}
		plan := mustPlan(t, compile(t, row.policies), s, t0.Add(time.Minute))
		if plan.Waiting.Len() != 1 {
			t.Fatalf("%s: %v", row.why, blockers(plan))
		}
		for w := range plan.Waiting.All() {
			var got []string
			for _, v := range w.Blockers {
				if v.Reason == rollout.ReasonWindowClosed {
					got = append(got, v.Rule)
				}
			}
			if !slices.Equal(got, row.want) {
				t.Errorf("%s: the windows in the way are %v, want %v\n%v", row.why, got, row.want, w)
			}
		}
	}
}
