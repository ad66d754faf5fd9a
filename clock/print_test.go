package clock_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/clock"
)

// A calendar prints as what its windows say. Before it had a String, package fmt printed the tables
// of its zones, of which nobody reads anything.
func TestCalendarString(t *testing.T) {
	always := clock.Calendar{}
	office := parsed(t, `{"weekly":{"days":["fri","mon","tue","wed","thu"],"start":"09:00","end":"17:00"},"timezone":"Europe/Berlin"}`)
	freeze := parsed(t, `{"from":"2026-12-18T13:00:00+01:00","until":"2027-01-04T12:00:00.5Z","allowWindow":false}`)
	var many []clock.Window
	for hour := range 12 {
		many = append(many, parse(t, fmt.Sprintf(`{"rrule":"FREQ=DAILY;BYHOUR=%d","durationMinutes":30,"allowWindow":false}`, hour)))
	}
	for _, row := range []struct {
		name, want, why string
		calendar        clock.Calendar
	}{
		{"none", "always open", "without windows nothing is shut", always},
		{"days in a row", "open mon-fri 09:00 to 17:00 Europe/Berlin", "in the order of the week, whatever the order of the list", office},
		{"days apart", "open mon wed thu sat 22:00 to 04:00 UTC", "two days in a row are as short by their names; the end on the next day is the reading that was written",
			parsed(t, `{"weekly":{"days":["mon","wed","thu","sat"],"start":"22:00","end":"04:00"}}`)},
		{"the end of the day", "open daily 09:00:30 to 24:00 UTC", "seconds are shown where there are some, and 24:00 stays",
			parsed(t, `{"weekly":{"days":["mon","tue","wed","thu","fri","sat","sun"],"start":"09:00:30","end":"24:00"}}`)},
		{"a whole day", "open sun 12:00 to 12:00 UTC", "an end at the start is on the next day",
			parsed(t, `{"weekly":{"days":["sun"],"start":"12:00","end":"12:00"}}`)},
		{"elapsed time", "open sat 22:00 for 6h America/New_York (gap skip, overlap last)", "a length is not an end, and the rules about changes of the clock are part of what was written",
			parsed(t, `{"weekly":{"days":["sat"],"start":"22:00"},"durationMinutes":360,"timezone":"America/New_York","gap":"skip","overlap":"last"}`)},
		{"every second week", "open mon every 2 weeks, as in that of 2025-01-06, 09:00 for 1h30m UTC", "the Monday of the anchor's week says which weeks count",
			parsed(t, `{"weekly":{"days":["mon"],"start":"09:00","everyWeeks":2},"durationMinutes":90,"anchor":"2025-01-08T00:00"}`)},
		{"every third day", "open every 3 days, as on 2025-01-08, 09:00 for 1m UTC", "as does the anchor's day where days are counted",
			parsed(t, `{"rrule":"FREQ=DAILY;INTERVAL=3;BYHOUR=9","durationMinutes":1,"anchor":"2025-01-08T00:00"}`)},
		{"every third day if it is a Monday", "open mon every 3 days, as on 2025-01-08, 09:00 for 1m UTC (gap skip)", "a filter by day of the week narrows that further",
			parsed(t, `{"rrule":"FREQ=DAILY;INTERVAL=3;BYDAY=MO;BYHOUR=9","durationMinutes":1,"anchor":"2025-01-08T00:00","gap":"skip"}`)},
		{"some weekdays of a month", "open monthly sat, 1st sun, 2nd mon tue, 3rd wed, 4th thu, last fri, 2nd last sun 09:00 for 1m UTC", "the number goes before the day, as people say it",
			parsed(t, `{"rrule":"FREQ=MONTHLY;BYDAY=SA,2TU,-1FR,1SU,2MO,3WE,4TH,-2SU;BYHOUR=9","durationMinutes":1}`)},
		{"some days of a month", "open monthly day 1 3 4 11-13 30 31, last day, 3rd last day, 11th last day, 22nd last day, 31st last day 09:00 for 1m UTC", "three in a row are a range",
			parsed(t, `{"rrule":"FREQ=MONTHLY;BYMONTHDAY=1,3,4,11,12,13,30,31,-1,-3,-22,-11,-31;BYHOUR=9","durationMinutes":1}`)},
		{"a weekday if it is one of some days", "open every 3 months, as in 2025-02, fri on day 29-31 09:00 for 1m UTC", "the month of the anchor says which months count",
			parsed(t, `{"rrule":"FREQ=MONTHLY;INTERVAL=3;BYDAY=FR;BYMONTHDAY=29,30,31;BYHOUR=9","durationMinutes":1,"anchor":"2025-02-28T00:00"}`)},
		{"the anchor's day of the month", "open monthly day 28 12:30 for 1m UTC", "where nothing else says it",
			parsed(t, `{"rrule":"FREQ=MONTHLY","durationMinutes":1,"anchor":"2025-02-28T12:30"}`)},
		{"the second pass", "open sat sun 01:30 for 1h UTC (overlap last)", "each of the two rules about changes of the clock stands alone, too",
			parsed(t, `{"weekly":{"days":["sat","sun"],"start":"01:30"},"durationMinutes":60,"overlap":"last"}`)},
		{"times of day", "open daily 00:00, 00:30, 06:00, 06:30 for 10m UTC", "a rule may have several",
			parsed(t, `{"rrule":"FREQ=DAILY;BYHOUR=6,0;BYMINUTE=0,30","durationMinutes":10}`)},
		{"many times", "open daily 00:00, 00:01, 00:02, 00:03, 00:04, 00:05, 00:06, 00:07 and 16 more for 10m UTC", "a rule can have 86,400 of them",
			parsed(t, `{"rrule":"FREQ=DAILY;BYHOUR=0;BYMINUTE=0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23","durationMinutes":10}`)},
		{"a freeze", "open except 2026-12-18T12:00:00Z to 2027-01-04T12:00:00.5Z", "instants are in UTC, whatever zone they were written in", freeze},
		{"several", "open sat 01:00 for 1h UTC or sun 01:00 for 1h UTC, except 2026-12-18T12:00:00Z to 2027-01-04T12:00:00Z", "allow windows are united, and what is denied comes behind all of them",
			parsed(t, `{"weekly":{"days":["sat"],"start":"01:00"},"durationMinutes":60}`, `{"from":"2026-12-18T12:00:00Z","until":"2027-01-04T12:00:00Z","allowWindow":false}`,
				`{"weekly":{"days":["sun"],"start":"01:00"},"durationMinutes":60}`)},
		{"many windows", "open except daily 00:00 for 30m UTC or daily 01:00 for 30m UTC or daily 02:00 for 30m UTC or daily 03:00 for 30m UTC or daily 04:00 for 30m UTC or daily 05:00 for 30m UTC or daily 06:00 for 30m UTC or daily 07:00 for 30m UTC and 4 more",
			"a line of a log is no place for hundreds of freezes", calendar(t, many...)},
		{"one beyond the first few", "open except daily 00:00 for 30m UTC or daily 01:00 for 30m UTC or daily 02:00 for 30m UTC or daily 03:00 for 30m UTC or daily 04:00 for 30m UTC or daily 05:00 for 30m UTC or daily 06:00 for 30m UTC or daily 07:00 for 30m UTC or daily 08:00 for 30m UTC",
			"to say that there is one more is no shorter", calendar(t, many[:9]...)},
		{"a host's", "open windows[0].recurrence for 1h Europe/Berlin", "only the host knows its starts; faults name it so as well",
			calendar(t, clock.Window{Recurrence: sixth{}, DurationMinutes: 60, Timezone: "Europe/Berlin"})},
		{"an intersection", "open mon-fri 09:00 to 17:00 Europe/Berlin; and open except 2026-12-18T12:00:00Z to 2027-01-04T12:00:00.5Z", "one that is always open adds nothing",
			clock.Intersect(office, always, calendar(t), freeze)},
		{"a horizon", "open mon-fri 09:00 to 17:00 Europe/Berlin; searched 720h ahead", "it decides which answers there are", office.WithHorizon(720 * time.Hour)},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := fmt.Sprint(row.calendar); got != row.want {
				t.Errorf("%s\nwant %s\ngot  %s", row.why, row.want, got)
			}
		})
	}
}

// sixth starts on every sixth of a month.
type sixth struct{}

func (sixth) Next(t time.Time) time.Time {
	start := time.Date(t.Year(), t.Month(), 6, 0, 0, 0, 0, t.Location())
	if !start.After(t) {
		start = start.AddDate(0, 1, 0)
	}
	return start
}
