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
	weekly   bool         // every so many Monday weeks, or else months, or else days
	monthly  bool         // not by fields
	every    int          // at least 1
	days     map[int]bool // time.Weekday; daily plans: empty is all
	counted  [][2]int     // monthly plans: such as 2 and time.Tuesday for the second Tuesday
	inMonth  []int        // monthly plans: days of the month; negative ones from its end
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
	switch {
	case p.weekly:
		frequency = "WEEKLY"
	case p.monthly:
		frequency = "MONTHLY"
	}
	w.RRule = fmt.Sprintf("FREQ=%s;INTERVAL=%d;BYHOUR=%s;BYMINUTE=%s", frequency, p.every, commas(p.hours), commas(p.minutes))
	for i, d := range days {
		days[i] = strings.ToUpper(d[:2])
	}
	for _, counted := range p.counted {
		days = append(days, fmt.Sprint(counted[0])+strings.ToUpper(dayNames[counted[1]][:2]))
	}
	if len(days) > 0 {
		w.RRule += ";BYDAY=" + strings.Join(days, ",")
	}
	if len(p.inMonth) > 0 {
		w.RRule += ";BYMONTHDAY=" + commas(p.inMonth)
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

// hasDay reports whether the plan recurs on a date, if it does in its month, week or day.
func (p plan) hasDay(date time.Time) bool {
	upTo, from, length := 0, 0, time.Date(date.Year(), date.Month()+1, 0, 0, 0, 0, 0, time.UTC).Day()
	for d := date; d.Month() == date.Month(); d = d.AddDate(0, 0, -7) {
		upTo++
	}
	for d := date; d.Month() == date.Month(); d = d.AddDate(0, 0, 7) {
		from++
	}
	weekday := p.days[int(date.Weekday())]
	for _, counted := range p.counted {
		weekday = weekday || counted[1] == int(date.Weekday()) && (counted[0] == upTo || counted[0] == -from)
	}
	return (len(p.days)+len(p.counted) == 0 || weekday) &&
		(len(p.inMonth) == 0 || slices.Contains(p.inMonth, date.Day()) || slices.Contains(p.inMonth, date.Day()-length-1))
}

// onMonths makes a plan a monthly one, in which a date has the right day. draw returns a number below
// another one.
func (p *plan) onMonths(date time.Time, draw func(below int) int) {
	p.monthly, p.weekly, p.days = true, false, map[int]bool{}
	weekday, day, length := int(date.Weekday()), date.Day(), time.Date(date.Year(), date.Month()+1, 0, 0, 0, 0, 0, time.UTC).Day()
	by := 1 + draw(3) // 1: weekdays, 2: days, 3: both
	if by&1 == 1 {
		switch draw(3) {
		case 0:
			p.days[weekday] = true
		case 1:
			p.counted = append(p.counted, [2]int{(day + 6) / 7, weekday})
		default:
			if n := (length-day)/7 + 1; by == 1 {
				p.counted = append(p.counted, [2]int{-n, weekday})
			} else { // such a day of a longer month may never be the last but so many
				p.days[weekday] = true
			}
		}
		for range draw(3) {
			p.counted = append(p.counted, [2]int{[]int{1, 2, 3, 4, 5, -1, -2, -3, -4, -5}[draw(10)], draw(7)})
		}
	}
	if by&2 == 2 {
		if p.inMonth = []int{day}; by == 2 && draw(2) == 0 {
			p.inMonth[0] = day - length - 1
		}
		for range draw(4) {
			p.inMonth = append(p.inMonth, []int{1, -1}[draw(2)]*(1+draw(31)))
		}
	}
}

// covered tells for each index whether some occurrence of the plan covers it. What starts within
// the first 27 hours is not seen.
func (p plan) covered(r readings) []bool {
	result := make([]bool, len(r.shown))
	const day = 1440
	for d := (r.shown[0] + 27*60) / day; d*day <= r.shown[len(r.shown)-1]; d++ {
		date := time.Unix(int64(d)*day*60, 0).UTC()
		if !p.hasDay(date) {
			continue
		}
		apart := date.Sub(p.anchor.Truncate(24*time.Hour)) / (24 * time.Hour)
		switch {
		case p.monthly:
			apart = time.Duration(12*(date.Year()-p.anchor.Year()) + int(date.Month()) - int(p.anchor.Month()))
		case p.weekly:
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
