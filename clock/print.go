package clock

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/internal/textlist"
)

// String returns what the calendar is made of, for people: the windows in which it is open, then
// those in which it is not, in the order in which they were given, as in
//
//	open mon-fri 22:00 to 04:00 Europe/Berlin, except 2026-12-18T12:00:00Z to 2027-01-04T12:00:00Z
//
// Days and times of day are local to the zone behind them, instants are in UTC. Of many windows, or
// many times of day, it counts those beyond the first few. The parts of an [Intersect] are
// separated by semicolons.
func (c Calendar) String() string {
	var parts []string
	for i := range c.sets {
		if own := &c.sets[i]; len(own.allow.rules)+len(own.deny.rules) > 0 { // any other is always open
			parts = append(parts, own.String())
		}
	}
	if len(parts) == 0 {
		return "always open"
	}
	text := strings.Join(parts, "; and ")
	if c.horizon > 0 && c.horizon != DefaultHorizon {
		text += "; searched " + textlist.Duration(c.horizon) + " ahead"
	}
	return text
}

func (s *set) String() string {
	switch allow, deny := s.allow.String(), s.deny.String(); {
	case deny == "":
		return "open " + allow
	case allow == "":
		return "open except " + deny
	default:
		return "open " + allow + ", except " + deny
	}
}

func (g group) String() string {
	return few(g.rules, " or ", func(r rule) string { return fmt.Sprint(r) })
}

func (o once) String() string { return stamp(o.from) + " to " + stamp(o.until) }

func (h hosted) String() string {
	return fmt.Sprintf("%s for %s %s", h.path, textlist.Duration(h.length), h.location)
}

func (r *repeated) String() string {
	var parts []string
	switch {
	case r.monthly != nil:
		parts = append(parts, r.monthly.String())
	case r.weekly || r.interval == 1 || r.days != everyDay:
		parts = append(parts, daysOf(r.days))
	}
	switch {
	case r.interval == 1 || r.monthly != nil:
	case r.weekly:
		parts = append(parts, fmt.Sprintf("every %d weeks, as in that of %s,", r.interval, dateOf(r.phase*week-3)))
	default:
		parts = append(parts, fmt.Sprintf("every %d days, as on %s,", r.interval, dateOf(r.phase)))
	}
	parts = append(parts, few(r.times, ", ", timeOf))
	if r.length > 0 {
		parts = append(parts, "for "+textlist.Duration(time.Duration(r.length)*time.Second))
	} else {
		end := r.end
		if end > day {
			end -= day
		}
		parts = append(parts, "to "+timeOf(end))
	}
	parts = append(parts, r.zone.location.String())
	switch {
	case r.skip && r.last:
		parts = append(parts, "(gap skip, overlap last)")
	case r.skip:
		parts = append(parts, "(gap skip)")
	case r.last:
		parts = append(parts, "(overlap last)")
	}
	return strings.Join(parts, " ")
}

// String names the months and their days, as in "monthly 2nd tue", or "monthly fri on day 11-17".
func (m *monthly) String() string {
	text := "monthly"
	if m.interval > 1 {
		begin, _ := monthAt(m.phase)
		text = fmt.Sprintf("every %d months, as in %s,", m.interval, instant(begin*day).Format("2006-01"))
	}
	var weekdays, days []string
	if m.weekdays != 0 {
		weekdays = append(weekdays, daysOf(m.weekdays))
	}
	for i := range m.nth {
		if m.nth[i] != 0 {
			weekdays = append(weekdays, nth(i+1)+" "+daysOf(m.nth[i]))
		}
	}
	for i := range m.nthLast {
		if m.nthLast[i] != 0 {
			weekdays = append(weekdays, nthLast(i+1)+" "+daysOf(m.nthLast[i]))
		}
	}
	if m.days != 0 {
		days = append(days, "day "+ranges(32, func(d int) bool { return m.days>>d&1 == 1 }, strconv.Itoa))
	}
	for d := 1; d <= 31; d++ {
		if m.daysLast>>d&1 == 1 {
			days = append(days, nthLast(d)+" day")
		}
	}
	if len(weekdays) > 0 {
		text += " " + strings.Join(weekdays, ", ")
	}
	if len(weekdays) > 0 && len(days) > 0 {
		text += " on"
	}
	if len(days) > 0 {
		text += " " + few(days, ", ", func(d string) string { return d })
	}
	return text
}

// nth is a small number as people count with it, and nthLast one that counts from the end.
func nth(n int) string {
	suffix := "th"
	if n/10 != 1 {
		switch n % 10 {
		case 1:
			suffix = "st"
		case 2:
			suffix = "nd"
		case 3:
			suffix = "rd"
		}
	}
	return fmt.Sprint(n) + suffix
}

func nthLast(n int) string {
	if n == 1 {
		return "last"
	}
	return nth(n) + " last"
}

// few joins a list, and counts what is beyond the first few.
func few[T any](list []T, separator string, text func(T) string) string {
	const most = 8
	var parts []string
	for i, one := range list {
		if rest := len(list) - i; i == most && rest > 1 {
			return strings.Join(parts, separator) + fmt.Sprintf(" and %d more", rest)
		}
		parts = append(parts, text(one))
	}
	return strings.Join(parts, separator)
}

const everyDay = 1<<week - 1

// daysOf names weekdays.
func daysOf(days uint8) string {
	if days == everyDay {
		return "daily"
	}
	return ranges(week, func(i int) bool { return days>>i&1 == 1 }, func(i int) string { return dayNames[3*i:][:3] })
}

// ranges names those of some numbers below n that are on, three or more in a row by the first and the
// last of them.
func ranges(n int, on func(i int) bool, name func(i int) string) string {
	var parts []string
	for i := 0; i < n; i++ {
		if !on(i) {
			continue
		}
		last := i
		for last+1 < n && on(last+1) {
			last++
		}
		if last < i+2 {
			parts = append(parts, name(i))
			continue
		}
		parts, i = append(parts, name(i)+"-"+name(last)), last
	}
	return strings.Join(parts, " ")
}

func dateOf(date int64) string { return instant(date * day).Format(time.DateOnly) }

// timeOf is a number of seconds after midnight as [Weekly] has it.
func timeOf(second int64) string {
	text := fmt.Sprintf("%02d:%02d", second/3600, second/60%60)
	if second%60 != 0 {
		text += fmt.Sprintf(":%02d", second%60)
	}
	return text
}
