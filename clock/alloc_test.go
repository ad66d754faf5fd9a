package clock_test

import (
	"testing"
	"time"

	"github.com/tranche-dev/tranche/clock"
	"github.com/tranche-dev/tranche/internal/testkit"
)

// nights is a calendar as policies have it: nights and a weekend window in one zone, a freeze in
// another, and a one-off.
func nights(t testing.TB) clock.Calendar {
	return parsed(t,
		`{"weekly":{"days":["mon","tue","wed","thu"],"start":"22:00","end":"04:00"},"timezone":"Europe/Berlin"}`,
		`{"weekly":{"days":["sat"],"start":"06:00","everyWeeks":2},"anchor":"2026-01-03T00:00","durationMinutes":600,"timezone":"Europe/Berlin"}`,
		`{"weekly":{"days":["thu"],"start":"12:00","end":"18:00"},"timezone":"America/New_York","allowWindow":false}`,
		`{"from":"2026-12-20T00:00:00Z","until":"2027-01-05T00:00:00Z","allowWindow":false}`)
}

func TestQuestionsDoNotAllocate(t *testing.T) {
	if testkit.Race {
		t.Skip("the race detector allocates")
	}
	c := nights(t)
	twice := clock.Intersect(c, c) // eight windows
	monthly := parsed(t, `{"rrule":"FREQ=MONTHLY;BYDAY=2TU;BYMONTHDAY=-1,8,9,10,11,12,13,14;BYHOUR=22","durationMinutes":360,"timezone":"Europe/Berlin"}`)
	walk := c.Walk(at("2026-03-27T12:00:00Z"))
	var offset time.Duration
	for name, question := range map[string]func(now time.Time){
		"Open":        func(now time.Time) { c.Open(now) },
		"NextOpen":    func(now time.Time) { _, _ = c.NextOpen(now) },
		"intersected": func(now time.Time) { _, _ = twice.NextOpen(now) },
		"monthly":     func(now time.Time) { _, _ = monthly.NextOpen(now) },
		"NextClose":   func(now time.Time) { c.NextClose(now) },
		"AddOpen":     func(now time.Time) { _, _ = c.AddOpen(now, 20*time.Hour) },
		"NextFit":     func(now time.Time) { _, _ = c.NextFit(now, 5*time.Hour) },
		"OpenBetween": func(now time.Time) { _, _ = c.OpenBetween(now, now.Add(100*time.Hour)) },
		"Walk":        func(time.Time) { offset += time.Minute; _, _ = walk.AddOpen(offset) },
	} {
		// From a plain day to one at which the clocks are changed.
		for _, day := range []string{"2026-03-27T12:00:00Z", "2026-03-29T01:30:00Z", "2026-10-25T00:59:00Z"} {
			now := at(day)
			if n := testing.AllocsPerRun(50, func() { question(now) }); n > 0 {
				t.Errorf("%s allocates %v times", name, n)
			}
		}
	}
}
