package rollouttest_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/rollout"
	"github.com/tranche-dev/tranche/rollout/rollouttest"
)

// TestSummary: how a world ended, what it cost, and what is left.
func TestSummary(t *testing.T) {
	t.Parallel()
	waits := func(who string, reason rollout.Reason) (list []rollout.Waiting) {
		for one := range strings.SplitSeq(who, ", ") {
			resource, environment, _ := strings.Cut(one, " ")
			list = append(list, rollout.Waiting{TargetID: rollout.TargetID{Resource: resource, Environment: environment, Deployment: "web"}, Version: "v2", Blockers: []rollout.Verdict{{Reason: reason}}})
		}
		return list
	}
	odd := func(n int) (list []rollout.Diagnostic) {
		for k := range n {
			list = append(list, rollout.Diagnostic{Code: rollout.DiagnosticMissingKey, Detail: string(rune('a' + k))})
		}
		return list
	}
	for _, row := range []struct {
		why      string
		timeline rollouttest.Timeline
		want     string
	}{
		{"there was nothing to do", rollouttest.Timeline{Done: true}, "nothing to do\nat most 0 resources in flight at once\n"},
		{"all is done", rollouttest.Timeline{Done: true, Finish: noon, InFlight: 1, Drains: 2, DrainsSaved: 3},
			"done at 2026-03-10 12:00:00\nat most 1 resource in flight at once\ndrains: 2 instead of 5 (one for each upgrade)\n"},
		{"drains of which none was saved", rollouttest.Timeline{Done: true, Drains: 2}, "nothing to do\nat most 0 resources in flight at once\ndrains: 2\n"},
		{"nothing ran, and somebody waits for ever", rollouttest.Timeline{Left: waits("r1 prod", rollout.ReasonApprovalMissing)},
			"not done, and nothing will happen any more\nat most 0 resources in flight at once\nstill waiting: 1 target\n  r1: web v2: approval_missing\n"},
		{"the world ended before it was done", rollouttest.Timeline{CutOff: true, Finish: noon, Running: strings.Fields("a b c d e f g"), Left: slices.Concat(waits("r1 prod, r1 test, r2 prod", rollout.ReasonCooldown), waits("r3 prod", "x"))},
			"not done when it was cut off\nat most 0 resources in flight at once\nstill running: a, b, c, d, e and 2 more\nstill waiting: 4 targets\n  r1 in prod, r1 in test, r2: web v2: cooldown\n  r3: web v2: x\n"},
		{"five reasons are told", rollouttest.Timeline{Left: slices.Concat(waits("r1 prod", "a"), waits("r2 prod", "b"), waits("r3 prod", "c"), waits("r4 prod", "d"), waits("r5 prod", "e"))},
			"not done, and nothing will happen any more\nat most 0 resources in flight at once\nstill waiting: 5 targets\n  r1: web v2: a\n  r2: web v2: b\n  r3: web v2: c\n  r4: web v2: d\n  r5: web v2: e\n"},
		{"and more are counted", rollouttest.Timeline{Left: slices.Concat(waits("r1 prod", "a"), waits("r2 prod", "b"), waits("r3 prod", "c"), waits("r4 prod", "d"), waits("r5 prod", "e"), waits("r6 prod", "f"))},
			"not done, and nothing will happen any more\nat most 0 resources in flight at once\nstill waiting: 6 targets\n  r1: web v2: a\n  r2: web v2: b\n  r3: web v2: c\n  r4: web v2: d\n  r5: web v2: e\n  and others, for 1 other reason\n"},
		{"five are named", rollouttest.Timeline{Running: strings.Fields("a b c d e")},
			"not done, and nothing will happen any more\nat most 0 resources in flight at once\nstill running: a, b, c, d, e\n"},
		{"pools are named without escapes, if they have any", rollouttest.Timeline{Done: true, Pools: []rollouttest.Peak{{Pool: "a%2Fb/c", Active: 1, Max: 2, Total: 3}, {Pool: "50%"}}},
			"nothing to do\nat most 0 resources in flight at once\na/b/c: at most 1 of 3 active, 2 allowed\n50%: at most 0 of 0 active, 0 allowed\n"},
		{"five oddities are told", rollouttest.Timeline{Done: true, Diagnostics: odd(5)},
			"nothing to do\nat most 0 resources in flight at once\ndiagnostic: missing_key: a\ndiagnostic: missing_key: b\ndiagnostic: missing_key: c\ndiagnostic: missing_key: d\ndiagnostic: missing_key: e\n"},
		{"and more are counted", rollouttest.Timeline{Done: true, Diagnostics: odd(6)},
			"nothing to do\nat most 0 resources in flight at once\ndiagnostic: missing_key: a\ndiagnostic: missing_key: b\ndiagnostic: missing_key: c\ndiagnostic: missing_key: d\ndiagnostic: missing_key: e\nand 1 other diagnostic\n"},
	} {
		if diff := cmp.Diff(row.want, row.timeline.Summary()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", row.why, diff)
		}
		if whole := row.timeline.String(); whole+"\n" != row.want {
			t.Errorf("%s: as a whole it is\n%s", row.why, whole)
		}
	}
}

// TestWaitsAreTold: each row is one wait of web v2 on r1, as the trace tells it.
func TestWaitsAreTold(t *testing.T) {
	t.Parallel()
	member := func(deployment string) rollout.Condition {
		return rollout.Condition{Kind: rollout.OnMember, Group: "R/prod/1", Resource: "r1", Deployment: deployment}
	}
	slot := func(pool string) rollout.Condition { return rollout.Condition{Kind: rollout.OnSlot, Pool: pool} }
	operator := rollout.Condition{Kind: rollout.OnOperator, Group: "R/prod/1", Resource: "r1"}
	names := func(n int) (list []string) {
		for k := range n {
			list = append(list, string(rune('a'+k)))
		}
		return list
	}
	for _, row := range []struct {
		why      string
		blockers []rollout.Verdict
		holders  []string
		want     string
	}{
		{"an instant says more than the events before it", []rollout.Verdict{{Reason: rollout.ReasonRetryBackoff, Until: noon, On: []rollout.Condition{operator}}}, nil, "retry_backoff until 2026-03-10 12:00:00"},
		{"the member that it waits for, and itself", []rollout.Verdict{{Reason: "bracket_waits_for_members", On: []rollout.Condition{member("drain"), member("web"), member("drain")}}}, nil,
			"bracket_waits_for_members, needs drain, the end of its own run"},
		{"its own run, which an earlier line names", []rollout.Verdict{{Reason: "bracket_waits_for_members", On: []rollout.Condition{member("web")}, Data: &rollout.Data{Names: []string{"v1"}}}}, nil,
			"bracket_waits_for_members, needs the end of its own run"},
		{"members, or somebody", []rollout.Verdict{{Reason: "bracket_failed_holding", On: []rollout.Condition{member("drain"), operator}}}, nil,
			"bracket_failed_holding, waits for drain on r1 or an operator"},
		{"a slot", []rollout.Verdict{{Reason: rollout.Reason(concurrency.SlotFull), On: []rollout.Condition{slot("a%2Fb/c"), slot("d")}}}, []string{"r2", "r3"}, "slot_full in a/b/c, d, held by r2, r3"},
		{"a slot that only somebody can free", []rollout.Verdict{{Reason: rollout.Reason(concurrency.SlotFull), On: []rollout.Condition{slot("d"), operator}}}, []string{"r2", "r3"}, "slot_full in d, waits for an operator, held by r2, r3"},
		{"a key, for which others must go", []rollout.Verdict{{Reason: rollout.Reason(concurrency.SlotKeysFull), On: []rollout.Condition{slot("d")}}}, nil, "slot_keys_full beside d"},
		{"gates that are listed beside it", []rollout.Verdict{{Reason: rollout.ReasonRolloutNotStarted, On: []rollout.Condition{{Kind: rollout.OnApproval, Version: "v2", Environment: "prod"}}}, {Reason: rollout.ReasonApprovalMissing, On: []rollout.Condition{operator}}}, nil,
			"rollout_not_started; approval_missing, waits for an operator"},
		{"what several rules say in the same words", []rollout.Verdict{{Rule: "a", Reason: rollout.ReasonCooldown, Until: noon}, {Rule: "b", Reason: rollout.ReasonCooldown, Until: noon}}, nil, "cooldown until 2026-03-10 12:00:00"},
		{"ten holders are named", []rollout.Verdict{{Reason: rollout.Reason(concurrency.SlotFull)}}, names(10), "slot_full, held by a, b, c, d, e, f, g, h, i, j"},
		{"and more are counted", []rollout.Verdict{{Reason: rollout.Reason(concurrency.SlotFull)}}, names(12), "slot_full, held by a, b, c, d, e, f, g, h, i, j and 2 more"},
	} {
		on := operator
		timeline := rollouttest.Timeline{Entries: []rollouttest.Entry{{At: noon, Kind: rollouttest.Wait, Resource: "r1", Deployment: "web", Version: "v2", Blockers: row.blockers, Holders: row.holders}}}
		if got, want := timeline.Trace(), "2026-03-10\n  12:00:00  r1: web v2: "+row.want+"\n"; got != want {
			t.Errorf("%s: told as\n%swant\n%s", row.why, got, want)
		}
		for _, v := range row.blockers {
			if n := len(v.On); n > 0 && v.On[n-1].Kind == rollout.OnOperator && v.On[n-1] != on {
				t.Errorf("%s: the events were changed: %v", row.why, v.On)
			}
		}
	}
}

// TestEntriesAreTold: each row is one entry, as the trace tells it.
func TestEntriesAreTold(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		why  string
		e    rollouttest.Entry
		want string
	}{
		{"a start", rollouttest.Entry{Kind: rollouttest.Start, Resource: "r1", Deployment: "web", Version: "v2", Attempt: 1}, "r1: start web v2"},
		{"another attempt", rollouttest.Entry{Kind: rollouttest.Start, Resource: "r1", Deployment: "web", Version: "v2", Attempt: 2}, "r1: start web v2, attempt 2"},
		{"back", rollouttest.Entry{Kind: rollouttest.Start, Resource: "r1", Deployment: "web", Version: "v1", Purpose: rollout.PurposeRollback}, "r1: roll web back to v1"},
		{"a start that disrupts nobody", rollouttest.Entry{Kind: rollouttest.Start, Resource: "r1", Deployment: "web", Version: "v2", Reason: "slot_already_down"}, "r1: start web v2, it is down anyway"},
		{"an end", rollouttest.Entry{Kind: rollouttest.End, Resource: "r1", Deployment: "web", Version: "v2", Status: "failure"}, "r1: web v2 ended: failure"},
		{"an end with checks", rollouttest.Entry{Kind: rollouttest.End, Resource: "r1", Deployment: "web", Version: "v2", Status: "successful", Note: "being verified"}, "r1: web v2 ended: successful, being verified"},
		{"the end of checks", rollouttest.Entry{Kind: rollouttest.Verify, Resource: "r1", Deployment: "web", Version: "v2", Status: "passed"}, "r1: verification of web v2: passed"},
		{"a run that is stuck", rollouttest.Entry{Kind: rollouttest.Stuck, Resource: "r1", Run: "r1/prod/web/v2/1"}, "r1: stuck, no outcome of r1/prod/web/v2/1"},
		{"a slot that is stuck", rollouttest.Entry{Kind: rollouttest.Stuck, Resource: "r1", Note: "a/b"}, "r1: stuck, its slot in a/b sees no progress"},
		{"a group closes", rollouttest.Entry{Kind: rollouttest.Bracket, Event: bracket.GroupClosed, Group: "R/prod/1", Locks: map[string]string{"b": "2", "a": "1"}}, "group 1 in prod closed, locked a 1, b 2"},
		{"without waiting any longer", rollouttest.Entry{Kind: rollouttest.Bracket, Event: bracket.GroupClosed, Group: "R/prod/1", TimedOut: true}, "group 1 in prod closed, timed out, nothing locked"},
		{"a group merges", rollouttest.Entry{Kind: rollouttest.Bracket, Event: bracket.GroupMerged, Resource: "r1", Group: "R/prod/2", Into: "R/prod/1"}, "r1: group 2 in prod merged into group 1 in prod"},
		{"an event that was noticed late", rollouttest.Entry{Kind: rollouttest.Bracket, Event: bracket.GroupOpened, Group: "R/prod/1", Note: "as of noon"}, "group 1 in prod opened, as of noon"},
		{"an execution is found", rollouttest.Entry{Kind: rollouttest.Bracket, Event: bracket.ExecutionStarted, Resource: "r1", Group: "R/prod/1"}, "r1: group 1 in prod started"},
		{"an execution ends", rollouttest.Entry{Kind: rollouttest.Bracket, Event: bracket.ExecutionEnded, Resource: "r1", Group: "R/prod/1", Status: "completed"}, "r1: group 1 in prod ended: completed"},
		{"an event without words of its own", rollouttest.Entry{Kind: rollouttest.Bracket, Event: "group_lost_much", Group: "R/prod/1"}, "group 1 in prod lost much"},
		{"an event on a resource", rollouttest.Entry{Kind: rollouttest.Bracket, Event: "group_lost_much", Resource: "r1", Group: "odd"}, "r1: group odd lost much"},
		{"something else", rollouttest.Entry{Kind: "odd"}, "odd"},
	} {
		row.e.At = noon
		if got, want := (rollouttest.Timeline{Entries: []rollouttest.Entry{row.e}}).Trace(), "2026-03-10\n  12:00:00  "+row.want+"\n"; got != want {
			t.Errorf("%s: told as\n%swant\n%s", row.why, got, want)
		}
	}
}

// TestEnvironmentsAreNamedWhereTheyDiffer: what is of no environment, or of no resource, does not
// count, and a resource that is in one alone is named as it is.
func TestEnvironmentsAreNamedWhereTheyDiffer(t *testing.T) {
	t.Parallel()
	entry := func(resource, environment, note string) rollouttest.Entry {
		return rollouttest.Entry{At: noon, Kind: rollouttest.Stuck, Resource: resource, Environment: environment, Run: note}
	}
	for _, row := range []struct {
		why     string
		entries []rollouttest.Entry
		want    string
	}{
		{"one environment, and none", []rollouttest.Entry{entry("r1", "prod", "a"), entry("r1", "", "b")}, "r1: stuck, no outcome of a|r1: stuck, no outcome of b"},
		{"two resources", []rollouttest.Entry{entry("r1", "prod", "a"), entry("r2", "test", "b")}, "r1: stuck, no outcome of a|r2: stuck, no outcome of b"},
		{"events of no resource", []rollouttest.Entry{
			{At: noon, Kind: rollouttest.Bracket, Event: bracket.GroupOpened, Environment: "prod", Group: "R/prod/1"}, {At: noon, Kind: rollouttest.Bracket, Event: bracket.GroupOpened, Environment: "test", Group: "R/test/1"},
		}, "group 1 in prod opened|group 1 in test opened"},
		{"two environments", []rollouttest.Entry{entry("r1", "prod", "a"), entry("r1", "test", "b"), entry("r1", "", "c")}, "r1 in prod: stuck, no outcome of a|r1 in test: stuck, no outcome of b|r1: stuck, no outcome of c"},
	} {
		want := "2026-03-10\n  12:00:00  " + strings.ReplaceAll(row.want, "|", "\n  12:00:00  ") + "\n"
		if got := (rollouttest.Timeline{Entries: row.entries}).Trace(); got != want {
			t.Errorf("%s: told as\n%swant\n%s", row.why, got, want)
		}
	}
}

// TestChart draws jobs by hand. A job is "resource deployment from to", in minutes; without an end
// it never ends.
func TestChart(t *testing.T) {
	t.Parallel()
	minute := func(n int) time.Time { return noon.Add(minutes(n)) }
	job := func(resource, deployment string, from, to int) []rollouttest.Entry {
		run := resource + deployment + minute(from).String()
		list := []rollouttest.Entry{{At: minute(from), Kind: rollouttest.Start, Resource: resource, Deployment: deployment, Run: run}}
		if to >= 0 {
			list = append(list, rollouttest.Entry{At: minute(to), Kind: rollouttest.End, Resource: resource, Deployment: deployment, Run: run})
		}
		return list
	}
	jobs := func(lists ...[]rollouttest.Entry) (all []rollouttest.Entry) {
		for _, list := range lists {
			all = append(all, list...)
		}
		return all
	}
	for _, row := range []struct {
		why     string
		entries []rollouttest.Entry
		step    time.Duration
		want    string
	}{
		{"nothing ran", []rollouttest.Entry{{At: noon, Kind: rollouttest.Arrival, Note: "hello"}}, 0, ""},
		{"a job that has begun when the column ends, or ends after it has begun, has the column", jobs(job("r1", "web", 0, 3), job("r2", "web", 3, 7)), minutes(2), `2m = 1 column, from 2026-03-10 12:00:00
w web  # several  - slot held
   +0s
r1 ww..
r2 .www
`},
		{"two at once, and one after the other", jobs(job("r1", "web", 0, 2), job("r1", "api", 1, 3), job("r1", "web", 3, 4)), time.Minute, `1m = 1 column, from 2026-03-10 12:00:00
w web  a api  # several  - slot held
   +0s
r1 w#aw
`},
		{"two of one deployment, as after a retry in one column, are no several", jobs(job("r1", "web", 0, 1), job("r1", "web", 1, 3)), minutes(2), `2m = 1 column, from 2026-03-10 12:00:00
w web  # several  - slot held
   +0s
r1 ww
`},
		{"one that never ends lasts to the end of the timeline", append(job("r1", "web", 0, -1), rollouttest.Entry{At: minute(3), Kind: rollouttest.Arrival}, rollouttest.Entry{At: minute(2), Kind: rollouttest.Stuck}), time.Minute, `1m = 1 column, from 2026-03-10 12:00:00
w web  # several  - slot held
   +0s
r1 www
`},
		{"a letter of a word that no other has, or else any that is free", jobs(job("r1", "node-drain", 0, 1), job("r1", "node-update", 1, 2), job("r1", "dns", 2, 3), job("r1", "-", 3, 4), job("r1", "é", 4, 5), job("r1", "ud", 5, 6)), time.Minute, `1m = 1 column, from 2026-03-10 12:00:00
d node-drain  u node-update  n dns  a -  b é  c ud  # several  - slot held
   +0s
r1 dunabc
`},
		{"letters that can be seen", jobs(job("r1", "web-", 0, 1), job("r1", " a", 1, 2), job("r1", "\x7fb", 2, 3)), time.Minute, "1m = 1 column, from 2026-03-10 12:00:00\nw web-  a  a  b \"\\x7fb\"  # several  - slot held\n   +0s\nr1 wab\n"},
		{"a hundred columns are a page", jobs(job("r1", "web", 0, 100)), 0, "1m = 1 column, from 2026-03-10 12:00:00\nw web  # several  - slot held\n   +0s       +10m      +20m      +30m      +40m      +50m      +1h       +1h10m    +1h20m    +1h30m\nr1 " + strings.Repeat("w", 100) + "\n"},
		{"and more are not", jobs(job("r1", "web", 0, 101)), 0, "2m = 1 column, from 2026-03-10 12:00:00\nw web  # several  - slot held\n   +0s       +20m      +40m      +1h       +1h20m    +1h40m\nr1 " + strings.Repeat("w", 51) + "\n"},
		{"a column of centuries", jobs(job("r1", "web", 0, 3)), math.MaxInt64, "2562047h47m16.854775807s = 1 column, from 2026-03-10 12:00:00\nw web  # several  - slot held\n   +0s\nr1 w\n"},
		{"marks stay above their columns, and one for which there is no room is left out", jobs(job("r1", "web", 0, 1)), 1500*time.Millisecond + 123456, "1.500123456s = 1 column, from 2026-03-10 12:00:00\nw web  # several  - slot held\n   +0s       +15.00123456s       +45.00370368s\nr1 " + strings.Repeat("w", 40) + "\n"},
		{"a mark that fills its ten columns leaves no room for a blank, and so none for the next", jobs(job("r1", "web", 0, 7)), 12345670 * time.Microsecond, "12.34567s = 1 column, from 2026-03-10 12:00:00\nw web  # several  - slot held\n   +0s       +2m3.4567s          +6m10.3701s\nr1 " + strings.Repeat("w", 35) + "\n"},
		{"a mark of microseconds is as wide as its letters", []rollouttest.Entry{{At: noon, Kind: rollouttest.Start, Resource: "r1", Deployment: "web", Run: "a"}, {At: noon.Add(25 * time.Microsecond), Kind: rollouttest.End, Resource: "r1", Deployment: "web", Run: "a"}}, time.Microsecond, "1µs = 1 column, from 2026-03-10 12:00:00\nw web  # several  - slot held\n   +0s       +10µs     +20µs\nr1 " + strings.Repeat("w", 25) + "\n"},
		{"a name of several bytes a letter is no wider for that", jobs(job("nœud", "web", 0, 1), job("r2", "web", 0, 1)), time.Minute, "1m = 1 column, from 2026-03-10 12:00:00\nw web  # several  - slot held\n     +0s\nnœud w\nr2   w\n"},
		{"months", jobs(job("r1", "web", 0, 60*24*150+1)), 0, "2d = 1 column, from 2026-03-10 12:00:00\nw web  # several  - slot held\n   +0s       +20d      +40d      +60d      +80d      +100d     +120d     +140d\nr1 " + strings.Repeat("w", 76) + "\n"},
		{"two hundred days are as many columns of two", jobs(job("r1", "web", 0, 60*24*200)), 0, "2d = 1 column, from 2026-03-10 12:00:00\nw web  # several  - slot held\n   +0s       +20d      +40d      +60d      +80d      +100d     +120d     +140d     +160d     +180d\nr1 " + strings.Repeat("w", 100) + "\n"},
	} {
		if diff := cmp.Diff(row.want, (rollouttest.Timeline{Start: noon, Entries: row.entries}).Chart(row.step)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", row.why, diff)
		}
	}
	// Deployments for which no letter is left share one that says nothing.
	var many []rollouttest.Entry
	for k := range 120 {
		many = append(many, job("r1", strings.Repeat("é", k+1), k, k+1)...)
	}
	chart := (rollouttest.Timeline{Start: noon, Entries: many}).Chart(time.Minute)
	if lines := strings.Split(chart, "\n"); !strings.Contains(lines[1], "  9 "+strings.Repeat("é", 62)+"  ? "+strings.Repeat("é", 63)+"  ") || !strings.HasSuffix(lines[3], strings.Repeat("?", 58)) {
		t.Errorf("of many deployments the chart is\n%s", chart)
	}
}

// TestChartOfManyDeployments: those that share the letter that says nothing are several at once all
// the same, and none has it for its own.
func TestChartOfManyDeployments(t *testing.T) {
	t.Parallel()
	var entries []rollouttest.Entry
	ran := func(from, to int, deployment string) {
		for _, e := range []rollouttest.Entry{{At: noon.Add(minutes(from)), Kind: rollouttest.Start}, {At: noon.Add(minutes(to)), Kind: rollouttest.End}} {
			e.Resource, e.Deployment, e.Run = "r1", deployment, fmt.Sprint(deployment, from)
			entries = append(entries, e)
		}
	}
	ran(0, 1, "?") // the first free letter, as it has none that can be told from the one that says nothing
	for k := range 61 {
		ran(k+1, k+2, strings.Repeat("é", k+1))
	}
	ran(62, 64, "ö")
	ran(63, 66, "ü")
	ran(66, 67, "ü")
	lines := strings.Split(rollouttest.Timeline{Start: noon, Entries: entries}.Chart(time.Minute), "\n")
	if !strings.HasPrefix(lines[1], "a ?  b é  ") || !strings.Contains(lines[1], "  ? ö  ? ü  # several") || !strings.HasPrefix(lines[3], "r1 ab") || !strings.HasSuffix(lines[3], "9?#???") {
		t.Errorf("got\n%s", strings.Join(lines, "\n"))
	}
}

// TestDefectChartWithoutBound: a step of a nanosecond over a job of a year is more columns than there
// is memory. The columns are then as many of these steps wide as it takes, which the chart says.
func TestDefectChartWithoutBound(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		why    string
		takes  time.Duration
		step   time.Duration
		column string
		wide   int
	}{
		{"as many as are drawn", 10_000 * time.Second, time.Second, "1s", 10_000},
		{"one more", 10_001 * time.Second, time.Second, "2s", 5001},
		{"a part of one more", 10_000*time.Second + 1, time.Second, "2s", 5001},
		{"a year, by the nanosecond", 365 * 24 * time.Hour, 1, "52m33.6s", 10_000},
		{"all that there is", 1<<63 - 1, 3, "", 10_000},
	} {
		entries := []rollouttest.Entry{{At: noon, Kind: rollouttest.Start, Resource: "r1", Deployment: "web", Run: "1"},
			{At: noon.Add(row.takes), Kind: rollouttest.End, Resource: "r1", Deployment: "web", Run: "1"}}
		lines := strings.Split((rollouttest.Timeline{Start: noon, Entries: entries}).Chart(row.step), "\n")
		if got := len(strings.TrimPrefix(lines[3], "r1 ")); got != row.wide || !strings.HasPrefix(lines[0], row.column) || !strings.Contains(lines[0], " = 1 column") {
			t.Errorf("%s: %d columns, %s", row.why, got, lines[0])
		}
	}
}

// TestChartOfWhatHangs: what has not ended is drawn to the end, and has a column even if it began
// there.
func TestChartOfWhatHangs(t *testing.T) {
	t.Parallel()
	entry := func(minute int, kind rollouttest.Kind, resource string) rollouttest.Entry {
		return rollouttest.Entry{At: noon.Add(minutes(minute)), Kind: kind, Resource: resource, Deployment: "web", Run: resource}
	}
	const head = "1m = 1 column, from 2026-03-10 12:00:00\nw web  # several  - slot held\n   +0s\n"
	for _, row := range []struct {
		why     string
		entries []rollouttest.Entry
		want    string
	}{
		{"what began before the end", []rollouttest.Entry{entry(0, rollouttest.Start, "r1"), entry(0, rollouttest.Start, "r2"), entry(2, rollouttest.End, "r2")}, "r1 ww\nr2 ww\n"},
		{"and what began with it", []rollouttest.Entry{entry(0, rollouttest.Start, "r1"), entry(0, rollouttest.Start, "r2"), entry(2, rollouttest.End, "r2"), entry(2, rollouttest.Start, "r3")},
			"r1 www\nr2 ww.\nr3 ..w\n"},
		{"alone", []rollouttest.Entry{entry(0, rollouttest.Start, "r1")}, "r1 w\n"},
		{"what took no time is not drawn, as ever", []rollouttest.Entry{entry(0, rollouttest.Start, "r1"), entry(1, rollouttest.End, "r1"), entry(1, rollouttest.Start, "r2"), entry(1, rollouttest.End, "r2")}, "r1 w\nr2 .\n"},
	} {
		if diff := cmp.Diff(head+row.want, (rollouttest.Timeline{Start: noon, Entries: row.entries}).Chart(time.Minute)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", row.why, diff)
		}
	}
}

// TestChartOfExecutions: a slot is held from the first start of an execution to its end.
func TestChartOfExecutions(t *testing.T) {
	t.Parallel()
	entry := func(minute int, kind rollouttest.Kind, deployment string, role bracket.Role) rollouttest.Entry {
		return rollouttest.Entry{At: noon.Add(minutes(minute)), Kind: kind, Resource: "r1", Group: "R/prod/1", Deployment: deployment, Run: deployment, Role: role}
	}
	ended := entry(6, rollouttest.Bracket, "", "")
	ended.Event, ended.Run = bracket.ExecutionEnded, ""
	timeline := rollouttest.Timeline{Start: noon, Entries: []rollouttest.Entry{
		entry(0, rollouttest.Start, "drain", bracket.Pre), entry(2, rollouttest.End, "drain", bracket.Pre),
		entry(3, rollouttest.Start, "web", bracket.Main), entry(5, rollouttest.End, "web", bracket.Main), ended,
		entry(7, rollouttest.Start, "api", ""), entry(8, rollouttest.End, "api", ""),
	}}
	const want = `1m = 1 column, from 2026-03-10 12:00:00
d drain  w web  a api  # several  - slot held
   +0s
r1 dd-ww-.a
`
	if diff := cmp.Diff(want, timeline.Chart(time.Minute)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestEventsNoticedLate: an event that lies before what was told already is told when it is noticed,
// with its own instant beside it.
func TestEventsNoticedLate(t *testing.T) {
	t.Parallel()
	event := func(at time.Time, number int) rollout.Event {
		return rollout.Event{Kind: bracket.GroupOpened, Group: bracket.GroupID("R", "prod", number), Environment: "prod", At: at}
	}
	plans := [][]rollout.Event{
		{event(noon, 1)},
		{event(noon.Add(-time.Second), 2), event(noon, 3), event(noon.Add(time.Second), 4), {Kind: bracket.GroupClosed, Group: "R/prod/4", At: noon.Add(time.Minute)}, {Kind: bracket.GroupClosed, Group: "R/prod/5", At: noon.Add(time.Minute)}},
	}
	w := webWorld(t, 1, rollback)
	w.Start, w.Trust = noon, true
	w.Plan = func(_ context.Context, _ rollout.Snapshot, now time.Time) (rollout.Plan, error) {
		plan := rollout.Plan{Now: now, Events: plans[0]}
		// Of group 4 the state tells what it locked; group 5 is not kept any more.
		plan.State.Brackets = []*bracket.GroupRecord{{Rule: "R", Environment: "prod", Closed: []*bracket.Group{
			{ID: "R/prod/3", Members: []bracket.GroupMember{{Deployment: "web", Locks: []bracket.VersionMark{{ID: "v1"}}}}},
			{ID: "R/prod/4", TimedOut: true, Members: []bracket.GroupMember{{Deployment: "api"}, {Deployment: "web", Locks: []bracket.VersionMark{{ID: "v2"}, {ID: "v1"}}}}},
		}}}
		if plans = plans[1:]; len(plans) > 0 {
			plan.Next = now.Add(time.Minute)
		}
		return plan, nil
	}
	timeline, err := w.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const want = `2026-03-10
  12:00:00  group 1 in prod opened
  12:00:00  group 3 in prod opened
  12:00:01  group 4 in prod opened
  12:01:00  group 2 in prod opened, as of 2026-03-10 11:59:59
  12:01:00  group 4 in prod closed, timed out, locked web v2
  12:01:00  group 5 in prod closed, nothing locked
`
	if diff := cmp.Diff(want, timeline.Trace()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestEndsNoticedLate: an execution of which nobody knows that its last job was the last one, because
// the checks of another have not ended, has ended with that job all the same, and it is told there.
func TestEndsNoticedLate(t *testing.T) {
	t.Parallel()
	w := webWorld(t, 1, `{"id":"bracket","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate"}},{"id":"undo","rollback":{"onVerificationFailure":true}}`)
	w.Fleet.Deployments = append(w.Fleet.Deployments, rollout.Deployment{ID: "api"})
	w.Fleet.Versions = append(w.Fleet.Versions, version("api", "v2", at(1, 9, 0)))
	w.Fleet.Targets = append(w.Fleet.Targets, rollout.Target{TargetID: rollout.TargetID{Resource: "c-0", Environment: "prod", Deployment: "api"}})
	w.Job = func(start rollout.Start, _ int) rollouttest.Outcome {
		if start.Deployment == "api" {
			return rollouttest.Outcome{After: minutes(5)}
		}
		return rollouttest.Outcome{After: minutes(1), Verification: rollout.VerificationPassed, VerifiedAfter: 24 * time.Hour}
	}
	timeline, err := w.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	trace := timeline.Trace()
	const want = `  09:05:00  c-0: api v2 ended: successful
  09:05:00  c-0: group 1 in prod ended: completed
2026-03-11
  09:01:00  c-0: verification of web v2: passed
`
	if !strings.HasSuffix(trace, want) {
		t.Errorf("want\n%sin\n%s", want, trace)
	}
	for k := 1; k < len(timeline.Entries); k++ {
		if timeline.Entries[k].At.Before(timeline.Entries[k-1].At) {
			t.Errorf("entry %d is not in order:\n%s", k, trace)
		}
	}
}

// TestSummaryInUTC: a timeline that was stored with another offset reads like its trace.
func TestSummaryInUTC(t *testing.T) {
	timeline := rollouttest.Timeline{Done: true, Finish: time.Date(2026, 3, 10, 11, 0, 0, 0, time.FixedZone("", 2*3600))}
	if got, want := timeline.Summary(), "done at 2026-03-10 09:00:00\n"; !strings.HasPrefix(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
