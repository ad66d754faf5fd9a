package clock_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/clock"
)

// plan describes a window to the reference evaluator, and is written out as a Window for the code
// under test. Everything is in minutes.
type plan struct {
	zone     string
	allow    bool
	weekly   bool         // every so many Monday weeks, else every so many days
	every    int          // at least 1
	days     map[int]bool // time.Weekday; daily plans: empty is all
	hours    []int
	minutes  []int
	length   int // elapsed minutes; 0: until end
	end      int // minute of the day, 0 to 1440; at or before the start it is that of the next day
	anchor   time.Time
	skip     bool
	last     bool
	byFields bool // as weekly, not as rrule; then there is one hour and one minute
}

var dayNames = [...]string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

func (p plan) window() clock.Window {
	allow := p.allow
	w := clock.Window{Timezone: clock.Zone(p.zone), AllowWindow: &allow, DurationMinutes: clock.Minutes(p.length)}
	if p.every > 1 {
		w.Anchor = p.anchor.Format("2006-01-02T15:04")
	}
	if p.skip {
		w.Gap = clock.GapSkip
	}
	if p.last {
		w.Overlap = clock.OverlapLast
	}
	var days []string
	for d := range 7 {
		if p.days[d] {
			days = append(days, dayNames[d])
		}
	}
	if p.byFields {
		w.Weekly = &clock.Weekly{Days: days, Start: fmt.Sprintf("%02d:%02d", p.hours[0], p.minutes[0]), EveryWeeks: clock.Weeks(p.every)}
		if p.length == 0 {
			w.Weekly.End = fmt.Sprintf("%02d:%02d", p.end/60, p.end%60)
		}
		return w
	}
	frequency := "DAILY"
	if p.weekly {
		frequency = "WEEKLY"
	}
	w.RRule = fmt.Sprintf("FREQ=%s;INTERVAL=%d;BYHOUR=%s;BYMINUTE=%s", frequency, p.every, commas(p.hours), commas(p.minutes))
	for i, d := range days {
		days[i] = strings.ToUpper(d[:2])
	}
	if len(days) > 0 {
		w.RRule += ";BYDAY=" + strings.Join(days, ",")
	}
	return w
}

func commas(list []int) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(list), " ", ","), "[]")
}

func (p plan) String() string {
	w := p.window()
	text := fmt.Sprintf("allow=%v zone=%s rrule=%s duration=%d anchor=%s gap=%s overlap=%s", p.allow, w.Timezone, w.RRule, w.DurationMinutes, w.Anchor, w.Gap, w.Overlap)
	if w.Weekly != nil {
		text += fmt.Sprintf(" weekly=%+v", *w.Weekly)
	}
	return text
}

// readings is what the clocks of a zone show at each of a number of consecutive minutes, written as
// the minute since 1970 at which a clock in UTC would show it. This and what follows is all that
// the reference evaluator knows: it goes through the minutes one by one.
type readings struct {
	first int // the minute since 1970 of the first entry
	shown []int
}

func readClocks(location *time.Location, from, to time.Time) readings {
	r := readings{first: int(from.Unix() / 60)}
	for m := r.first; m < int(to.Unix()/60); m++ {
		local := time.Unix(int64(m)*60, 0).In(location)
		year, month, d := local.Date()
		hour, minute, second := local.Clock()
		if second != 0 {
			panic(fmt.Sprintf("%v is not on a whole minute", local))
		}
		r.shown = append(r.shown, int(time.Date(year, month, d, hour, minute, 0, 0, time.UTC).Unix()/60))
	}
	return r
}

// near returns the range of indices at which the clock can show x to y at all: no clock is as much
// as 27 hours off UTC. Going through all of them instead gives the same and takes ten times as
// long.
func (r readings) near(x, y int) (from, to int) {
	limit := func(i int) int { return max(0, min(i, len(r.shown))) }
	return limit(x - r.first - 27*60), limit(y - r.first + 27*60)
}

// when returns the first index at or after from whose reading is at or past x.
func (r readings) when(from, x int) int {
	near, _ := r.near(x, x)
	for i := max(from, near); i < len(r.shown); i++ {
		if r.shown[i] >= x {
			return i
		}
	}
	return len(r.shown)
}

// whenForGood returns the first index after which no reading is before x.
func (r readings) whenForGood(x int) int {
	_, near := r.near(x, x)
	for i := near - 1; i >= 0; i-- {
		if r.shown[i] < x {
			return i + 1
		}
	}
	return 0
}

// covered tells for each index whether some occurrence of the plan covers it. What starts within
// the first 27 hours is not seen.
func (p plan) covered(r readings) []bool {
	result := make([]bool, len(r.shown))
	const day = 1440
	for d := (r.shown[0] + 27*60) / day; d*day <= r.shown[len(r.shown)-1]; d++ {
		date := time.Unix(int64(d)*day*60, 0).UTC()
		if len(p.days) > 0 && !p.days[int(date.Weekday())] {
			continue
		}
		apart := date.Sub(p.anchor.Truncate(24*time.Hour)) / (24 * time.Hour)
		if p.weekly {
			monday := func(t time.Time) time.Time {
				for t.Weekday() != time.Monday {
					t = t.AddDate(0, 0, -1)
				}
				return t
			}
			apart = monday(date).Sub(monday(p.anchor.Truncate(24*time.Hour))) / (7 * 24 * time.Hour)
		}
		if int(apart)%p.every != 0 {
			continue
		}
		from, to := r.near(d*day, (d+1)*day)
		if !slices.ContainsFunc(r.shown[from:to], func(x int) bool { return d*day <= x && x < (d+1)*day }) {
			continue // there is no such date
		}
		for _, hour := range p.hours {
			for _, minute := range p.minutes {
				x := d*day + hour*60 + minute
				start := r.when(0, x)
				if start == len(r.shown) {
					continue
				}
				switch exists := r.shown[start] == x; {
				case !exists && p.skip:
					continue
				case exists && p.last:
					for i := from; i < to; i++ {
						if r.shown[i] == x {
							start = i
						}
					}
				}
				end := start + p.length
				if p.length == 0 {
					y := d*day + p.end
					if y <= x {
						y += day
					}
					if end = r.when(start, y); !p.allow {
						end = r.whenForGood(y)
					}
				}
				for i := start; i < min(end, len(result)); i++ {
					result[i] = true
				}
			}
		}
	}
	return result
}

// open tells for each index whether the calendar of the plans is open. Plans may have different
// zones; readings are those of each.
func open(plans []plan, clocks func(zone string) readings) []bool {
	var allowed, denied []bool
	or := func(a *[]bool, b []bool) {
		if *a == nil {
			*a = make([]bool, len(b))
		}
		for i := range b {
			(*a)[i] = (*a)[i] || b[i]
		}
	}
	for _, p := range plans {
		if p.allow {
			or(&allowed, p.covered(clocks(p.zone)))
		} else {
			or(&denied, p.covered(clocks(p.zone)))
		}
	}
	result := make([]bool, len(clocks("UTC").shown))
	for i := range result {
		result[i] = (allowed == nil || allowed[i]) && (denied == nil || !denied[i])
	}
	return result
}
