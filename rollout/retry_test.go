package rollout_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/rollout"
)

// TestDelay: no attempt number and no base makes a delay negative, or longer than its bound.
func TestDelay(t *testing.T) {
	const longest = math.MaxInt64 / int64(time.Second)
	seconds := func(n int64) *int64 { return &n }
	exponential := rollout.BackoffExponential
	for _, row := range []struct {
		why   string
		retry rollout.Retry
		n     int
		want  time.Duration
	}{
		{"linear is the base after every attempt", rollout.Retry{BackoffSeconds: 60}, 5, time.Minute},
		{"and is bounded, too", rollout.Retry{BackoffSeconds: 60, MaxBackoffSeconds: seconds(30)}, 1, 30 * time.Second},
		{"exponential begins with the base", rollout.Retry{BackoffSeconds: 60, BackoffStrategy: exponential}, 1, time.Minute},
		{"and doubles", rollout.Retry{BackoffSeconds: 60, BackoffStrategy: exponential}, 4, 8 * time.Minute},
		{"up to the bound, at an attempt at which ctrlplane's delay is negative", rollout.Retry{BackoffSeconds: 60, BackoffStrategy: exponential, MaxBackoffSeconds: seconds(3600)}, 27, time.Hour},
		{"a bound of nothing", rollout.Retry{BackoffSeconds: 60, BackoffStrategy: exponential, MaxBackoffSeconds: seconds(0)}, 3, 0},
		{"nothing doubled is nothing", rollout.Retry{BackoffStrategy: exponential}, math.MaxInt, 0},
		{"without a bound the last doubling that fits", rollout.Retry{BackoffSeconds: 1, BackoffStrategy: exponential}, 34, 1 << 33 * time.Second},
		{"the first that does not", rollout.Retry{BackoffSeconds: 1, BackoffStrategy: exponential}, 35, math.MaxInt64},
		{"nor any later one", rollout.Retry{BackoffSeconds: 1, BackoffStrategy: exponential}, math.MaxInt, math.MaxInt64},
		{"the longest base", rollout.Retry{BackoffSeconds: longest, BackoffStrategy: exponential}, 2, math.MaxInt64},
	} {
		row.retry.MaxRetries = new(int)
		if got, err := row.retry.Delay(row.n), row.retry.Validate(); got != row.want || err != nil {
			t.Errorf("%s: %v, %v, want %v", row.why, got, err, row.want)
		}
	}
}

// TestRetriesOfWhatIsOutdatedAgain: each OutdatedAt asks for a run with attempts of its own. What was
// attempted before it neither uses them up nor delays them; a version that has yet to succeed has
// only those that it has.
func TestRetriesOfWhatIsOutdatedAgain(t *testing.T) {
	const failure = rollout.JobFailure
	const twice = `{"id":"x","retry":{"maxRetries":1,"backoffSeconds":600}}`
	failed := []rollout.Job{ran("v1", rollout.JobSuccessful, -60), ran("v1", failure, 5), ran("v1", failure, 7)}
	since := func(jobs ...rollout.Job) []rollout.Job { return append(slices.Clone(failed), jobs...) }
	at := func(minutes int) rollout.Job {
		return rollout.Job{Version: "v1", Status: failure, CreatedAt: minute(minutes)}
	}
	for _, row := range []struct {
		why, rules string
		outdated   int
		jobs       []rollout.Job
		want       string // what it waits for; empty: it starts
	}{
		{"no attempt is left", twice, 4, failed, "retry_exhausted x"},
		{"a second change", twice, 8, failed, ""},
		{"in the instant of the last attempt, which is then one at it", twice, 7, append(failed[:2:2], at(7)), "retry_backoff x 01 00:17:00"},
		{"a nanosecond later it would not be", twice, 7, append(failed[:2:2], rollout.Job{Version: "v1", Status: failure, CreatedAt: minute(7).Add(-1)}), ""},
		{"an attempt at the second change", twice, 8, since(at(9)), "retry_backoff x 01 00:19:00"},
		{"and another", twice, 8, since(at(9), at(10)), "retry_exhausted x"},
		{"a third change", twice, 11, since(at(9), at(10)), ""},
		{"without a rule there is one attempt", `{"id":"w","anyApproval":{"minApprovals":0}}`, 4, failed, "retry_exhausted"},
		{"at each of them", `{"id":"w","anyApproval":{"minApprovals":0}}`, 8, failed, ""},
		{"as with a pruned history", twice, 8, failed[1:], ""},
	} {
		s := fleet(1, "v1", map[string][]string{"api": {"v1"}})
		s.Targets[0].OutdatedAt, s.Targets[0].Jobs = minute(row.outdated), row.jobs
		plan := mustPlan(t, compile(t, policy(row.rules)), s, minute(12))
		if got := waits(plan); got != row.want || (len(plan.Start) == 1) != (row.want == "") {
			t.Errorf("%s: starts %q, waits for %q", row.why, started(plan), got)
		}
	}
	s := fleet(1, "v1", map[string][]string{"api": {"v1", "v2"}})
	s.Targets[0].OutdatedAt, s.Targets[0].Jobs = minute(8), []rollout.Job{ran("v2", failure, 5), ran("v2", failure, 7)}
	if got := waits(mustPlan(t, compile(t, policy(twice)), s, minute(12))); got != "retry_exhausted x" {
		t.Errorf("v2 has not been there yet: waits for %q", got)
	}
}

// TestRetriesOfSeveralRules: the smallest number of retries and the longest delay win, in whichever
// order they are. Each rule that is in the way is named: who overrides one of them knows what is
// left.
func TestRetriesOfSeveralRules(t *testing.T) {
	s := fleet(1, "v1", map[string][]string{"api": {"v1", "v2"}})
	s.Targets[0].Jobs = []rollout.Job{ran("v2", rollout.JobFailure, -1)}
	const few, slow, quick = `{"id":"few","retry":{"maxRetries":0}}`, `{"id":"slow","retry":{"maxRetries":5,"backoffSeconds":600}}`, `{"id":"quick","retry":{"maxRetries":5,"backoffSeconds":120}}`
	for _, row := range []struct{ rules, want string }{
		{few + "," + slow, "retry_exhausted few; retry_backoff slow 01 00:09:00"},
		{slow + "," + few, "retry_backoff slow 01 00:09:00; retry_exhausted few"},
		{slow + "," + quick, "retry_backoff slow 01 00:09:00; retry_backoff quick 01 00:01:00"},
		{quick + "," + slow, "retry_backoff quick 01 00:01:00; retry_backoff slow 01 00:09:00"},
	} {
		plan := mustPlan(t, compile(t, policy(row.rules)), s, t0)
		if got := waits(plan); got != row.want {
			t.Errorf("%s: waits for %q, want %q", row.rules, got, row.want)
		}
		e, err := plan.Explain(s.Targets[0].TargetID)
		if err != nil || len(e.Waits().Blockers()) != 2 {
			t.Errorf("%s: explained as\n%v (%v)", row.rules, e, err)
		}
	}
}

// TestRetriesOfSeveralRulesInBracket: there, too, a rule that allows no further attempt decides over
// one that would wait for it, and the longest delay over the others.
func TestRetriesOfSeveralRulesInBracket(t *testing.T) {
	const few, slow, quick = `{"retry":{"maxRetries":0}}`, `{"retry":{"maxRetries":5,"backoffSeconds":600}}`, `{"retry":{"maxRetries":5,"backoffSeconds":120}}`
	for _, row := range []struct {
		rules, want string
		next        time.Time
	}{
		{few + "," + slow, "bracket_failed_holding", time.Time{}},
		{slow + "," + few, "bracket_failed_holding", time.Time{}},
		{slow + "," + quick, "bracket_waits_for_members", minute(10)},
		{quick + "," + slow, "bracket_waits_for_members", minute(10)},
	} {
		s := fleet(1, "v1", map[string][]string{"api": {"v1", "v2"}})
		set := compile(t, policy(alone+","+row.rules))
		carryOut(t, &s, mustPlan(t, set, s, t0), t0, rollout.JobFailure)
		plan := mustPlan(t, set, s, minute(1))
		if len(plan.Start) > 0 || plan.Waiting.Len() != 1 || string(waitingOf(plan)[0].Blockers[0].Reason) != row.want || !plan.Next.Equal(row.next) {
			t.Errorf("%s: starts %q, waits for %q, next %v; want %s, %v", row.rules, started(plan), waits(plan), plan.Next, row.want, row.next)
		}
	}
}

// TestRetriesWithoutEnd: the largest numbers that Validate lets through saturate instead of
// wrapping.
func TestRetriesWithoutEnd(t *testing.T) {
	s := fleet(1, "v1", map[string][]string{"api": {"v1", "v2"}})
	s.Targets[0].Jobs = []rollout.Job{ran("v2", rollout.JobFailure, -5)}
	for _, row := range []struct {
		why, fields string
		until       time.Time
	}{
		{"as many attempts as there are numbers", fmt.Sprintf(`"maxRetries":%d,"backoffSeconds":600`, math.MaxInt), minute(5)},
		{"a delay to the end of time", `"maxRetries":1,"backoffSeconds":9223372036`, time.Unix(0, math.MaxInt64)},
	} {
		plan := mustPlan(t, compile(t, policy(`{"retry":{`+row.fields+`}}`)), s, t0)
		if plan.Waiting.Len() != 1 || len(waitingOf(plan)[0].Blockers) != 1 {
			t.Errorf("%s: waits %q, starts %q", row.why, blockers(plan), started(plan))
		} else if b := waitingOf(plan)[0].Blockers[0]; b.Reason != rollout.ReasonRetryBackoff || !b.Until.Equal(row.until) || b.Data.Attempt != 1 || b.Data.Allowed < 2 {
			t.Errorf("%s: %v (%+v), want until %v", row.why, b, b.Data, row.until)
		}
	}
}

// TestBackoffInUTC: whatever zone the host writes the end of a job in, a plan says when to try
// again in UTC.
func TestBackoffInUTC(t *testing.T) {
	s := fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}})
	s.Targets[0].Jobs = []rollout.Job{{Run: "r", Version: "v2", Status: rollout.JobFailure, CreatedAt: t0, CompletedAt: t0.In(time.FixedZone("", 7200))}}
	plan := mustPlan(t, compile(t, policy(`{"retry":{"maxRetries":1,"backoffSeconds":60}}`)), s, t0)
	if got := waitingOf(plan)[0].Blockers[0].Until; got != t0.Add(time.Minute) {
		t.Errorf("until %v", got)
	}
}

// TestBackoffWithoutAnEnd: the end of a job is missing, as a zero time or as the year 0 that some
// databases write for it. The delay counts from its creation.
func TestBackoffWithoutAnEnd(t *testing.T) {
	for _, end := range []time.Time{{}, time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC)} {
		s := fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}})
		s.Targets[0].Jobs = []rollout.Job{{Run: "r", Version: "v2", Status: rollout.JobFailure, CreatedAt: t0, CompletedAt: end}}
		plan := mustPlan(t, compile(t, policy(`{"retry":{"maxRetries":1,"backoffSeconds":60}}`)), s, t0)
		if waits := waitingOf(plan); len(waits) != 1 || !waits[0].Blockers[0].Until.Equal(t0.Add(time.Minute)) {
			t.Errorf("end %v: waits %q", end, blockers(plan))
		}
	}
}
