package clock_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/clock"
)

var (
	sinkBool bool
	sinkTime time.Time
	sinkErr  error
	sinkSum  time.Duration
)

// moments spreads questions over a year, so that every branch of a search has its share.
func moments() []time.Time {
	list := make([]time.Time, 1024)
	for i := range list {
		list[i] = at("2026-01-01T00:00:00Z").Add(time.Duration(i) * (365 * 24 * time.Hour / 1024))
	}
	return list
}

func BenchmarkCalendar(b *testing.B) {
	weekly := parsed(b, `{"weekly":{"days":["mon","tue","wed","thu","fri"],"start":"09:00","end":"17:00"},"timezone":"Europe/Berlin"}`)
	hourly := parsed(b, `{"rrule":"FREQ=DAILY;BYHOUR=0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23","durationMinutes":20,"timezone":"Europe/Berlin"}`)
	inUTC := parsed(b, `{"rrule":"FREQ=DAILY;BYHOUR=0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23;BYMINUTE=0","durationMinutes":20}`)
	monthly := parsed(b, `{"rrule":"FREQ=MONTHLY;BYDAY=2TU,-1FR;BYHOUR=22","durationMinutes":360,"timezone":"Europe/Berlin"}`)
	many := make([]clock.Window, 0, 32)
	for i := range 32 {
		many = append(many, parse(b, fmt.Sprintf(`{"weekly":{"days":["mon","wed"],"start":"%02d:00","end":"%02d:45"},"timezone":"Europe/Berlin"}`, i%24, i%24)))
	}
	list := moments()
	for _, c := range []struct {
		name     string
		calendar clock.Calendar
	}{{"weekly", weekly}, {"policy", nights(b)}, {"hourly", hourly}, {"hourly in UTC", inUTC}, {"monthly", monthly}, {"windows=32", calendar(b, many...)}} {
		for _, question := range []struct {
			name string
			ask  func(c clock.Calendar, t time.Time)
		}{
			{"Open", func(c clock.Calendar, t time.Time) { sinkBool = c.Open(t) }},
			{"NextOpen", func(c clock.Calendar, t time.Time) { sinkTime, sinkErr = c.NextOpen(t) }},
			{"NextClose", func(c clock.Calendar, t time.Time) { sinkTime = c.NextClose(t) }},
			{"AddOpen", func(c clock.Calendar, t time.Time) { sinkTime, sinkErr = c.AddOpen(t, 4*time.Hour) }},
			{"NextFit", func(c clock.Calendar, t time.Time) { sinkTime, sinkErr = c.NextFit(t, 4*time.Hour) }},
			{"OpenBetween/week", func(c clock.Calendar, t time.Time) { sinkSum, sinkErr = c.OpenBetween(t, t.Add(7*24*time.Hour)) }},
			{"Intervals/week", func(c clock.Calendar, t time.Time) {
				for start := range c.Intervals(t, t.Add(7*24*time.Hour)) {
					sinkTime = start
				}
			}},
		} {
			b.Run(c.name+"/"+question.name, func(b *testing.B) {
				b.ReportAllocs()
				i := 0
				for b.Loop() {
					question.ask(c.calendar, list[i%len(list)])
					i++
				}
			})
		}
	}
}

// BenchmarkManyDeny: 480 windows of a minute each close everything for a year. They have the
// minutes in turn, or all have every second one. A search leaves out the days that repeat
// themselves.
func BenchmarkManyDeny(b *testing.B) {
	for _, kind := range []string{"in turn", "alternately"} {
		c := manyDeny(b, kind, 480).WithHorizon(365 * 24 * time.Hour)
		b.Run(kind+"/NextOpen", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				sinkTime, sinkErr = c.NextOpen(at("2026-01-01T00:00:00Z"))
			}
		})
		b.Run(kind+"/AddOpen", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				sinkTime, sinkErr = c.AddOpen(at("2026-01-01T00:00:00Z"), time.Hour)
			}
		})
	}
}

// BenchmarkDueTimes: a million due times on one calendar, a second of open time apart, by one walk,
// and by a search for each, of which there are fewer because it takes long.
func BenchmarkDueTimes(b *testing.B) {
	c := nights(b)
	start := at("2026-01-01T00:00:00Z")
	for _, n := range []int{1000, 1_000_000} {
		b.Run(fmt.Sprintf("walk/n=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				walk := c.Walk(start)
				for i := range n {
					sinkTime, sinkErr = walk.AddOpen(time.Duration(i) * time.Second)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/due")
		})
	}
	b.Run("search/n=1000", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			for i := range 1000 { // every thousandth of a million
				sinkTime, sinkErr = c.AddOpen(start, time.Duration(i)*1000*time.Second)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/due")
	})
}

// BenchmarkNaiveNextOpen looks for the opening minute by minute, as a plain loop over readings of
// the clock does.
func BenchmarkNaiveNextOpen(b *testing.B) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		b.Fatal(err)
	}
	list := moments()
	i := 0
	for b.Loop() {
		t := list[i%len(list)]
		i++
		for {
			local := t.In(berlin)
			if day := local.Weekday(); day != time.Saturday && day != time.Sunday && local.Hour() >= 9 && local.Hour() < 17 {
				break
			}
			t = t.Truncate(time.Minute).Add(time.Minute)
		}
		sinkTime = t
	}
}

func BenchmarkNewCalendar(b *testing.B) {
	w := parse(b, `{"weekly":{"days":["mon"],"start":"09:00","end":"17:00"},"timezone":"Europe/Berlin"}`)
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		_, sinkErr = clock.NewCalendar([]clock.Window{w}, func(string) (*time.Location, error) { return berlin, nil })
	}
}

func BenchmarkParseWindow(b *testing.B) {
	text := []byte(`{"rrule":"FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,TH;BYHOUR=9","durationMinutes":60,"anchor":"2025-01-06T09:00","timezone":"Europe/Berlin"}`)
	b.ReportAllocs()
	for b.Loop() {
		_, sinkErr = clock.ParseWindow(text)
	}
}
