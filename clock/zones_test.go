package clock_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/clock"
	"github.com/tranche-dev/tranche/internal/testkit"
)

// TestI1AllZones compares Open, minute by minute, with the reference evaluator around the changes
// of all zones of the IANA database: every change of 2026 under windows near the change, and a
// sample of those of 1990 to 2037. CLOCK_YEARS=1990-2037 checks every change of such a range
// instead.
func TestI1AllZones(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(2026, 3))
	var chosen []change
	if text := os.Getenv("CLOCK_YEARS"); text != "" {
		from, to, _ := strings.Cut(text, "-")
		first, err1 := strconv.Atoi(from)
		last, err2 := strconv.Atoi(to)
		if err1 != nil || err2 != nil || first > last {
			t.Fatalf("CLOCK_YEARS=%s: want a range such as 1990-2037", text)
		}
		for year := first; year <= last; year++ {
			chosen = append(chosen, changesOfZones(t, year)...)
		}
	} else {
		years, sample := []int{1993, 2011, 1990 + random.IntN(10), 2000 + random.IntN(26), 2027 + random.IntN(11)}, 120
		if testkit.Race || testing.Short() {
			years, sample = years[1:2], 8
		} else if chosen = changesOfZones(t, 2026); len(chosen) < 50 {
			t.Fatalf("only %d changes in 2026", len(chosen))
		}
		var others []change
		for _, year := range years {
			others = append(others, changesOfZones(t, year)...)
		}
		for range sample {
			chosen = append(chosen, others[random.IntN(len(others))])
		}
	}
	seen := testkit.Tally{}
	for _, c := range chosen {
		if c.compare(t, random, seen); t.Failed() {
			return
		}
	}
	t.Logf("%d changes: %v", len(chosen), seen)
	for _, want := range []string{"open", "closed", "gap", "overlap", "skip", "last", "rrule", "weekly", "monthly", "deny", "by the clock", "elapsed"} {
		if seen[want] == 0 {
			t.Errorf("outcome %q was never reached: %v", want, seen)
		}
	}
}

// change is an instant at which the clocks of a zone jump.
type change struct {
	zone string
	at   time.Time
	jump time.Duration
}

// changesOfZones finds the changes of a year by looking at the clocks twice a day, and minute by
// minute where they differ. Zones whose clocks are the same all year are listed once.
func changesOfZones(t testing.TB, year int) []change {
	t.Helper()
	data, err := os.ReadFile("testdata/zones.txt")
	if err != nil {
		t.Fatal(err)
	}
	from, to := time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(year+1, 1, 1, 0, 0, 0, 0, time.UTC)
	var all []change
	seen := map[string]bool{}
	zones, missing := 0, 0
	for name := range strings.FieldsSeq(string(data)) {
		location, err := time.LoadLocation(name)
		if err != nil {
			missing++
			continue
		}
		zones++
		var mine []change
		offset := func(at time.Time) int { _, o := at.In(location).Zone(); return o }
		for at, before := from, offset(from); at.Before(to); {
			next := at.Add(12 * time.Hour)
			if after := offset(next); after != before {
				for low := at; ; low = low.Add(time.Minute) {
					if now := offset(low); now != before {
						mine = append(mine, change{name, low, time.Duration(now-before) * time.Second})
						before, next = now, low
						break
					}
				}
			}
			at = next
		}
		signature := fmt.Sprint(offset(from))
		for _, c := range mine {
			signature += fmt.Sprint(" ", c.at.Unix(), c.jump)
		}
		if !seen[signature] {
			seen[signature] = true
			all = append(all, mine...)
		}
	}
	if missing > 20 || zones < 500 {
		t.Fatalf("%d zones of the list are unknown here, %d are known", missing, zones)
	}
	return all
}

// compare checks random windows, most of them near the change, over 60 hours around it.
func (c change) compare(t *testing.T, random *rand.Rand, seen testkit.Tally) {
	location, err := time.LoadLocation(c.zone)
	if err != nil {
		t.Fatal(err)
	}
	near := c.at.Truncate(time.Minute)
	from, to := near.Add(-30*time.Hour), near.Add(30*time.Hour)
	clocks := readClocks(location, from.Add(-4*24*time.Hour), to.Add(4*24*time.Hour))
	skip := int(from.Unix()/60) - clocks.first
	if c.jump > 0 {
		seen["gap"]++
	} else {
		seen["overlap"]++
	}
	for range 5 {
		plans := make([]plan, 1+random.IntN(2))
		windows := make([]clock.Window, len(plans))
		for i := range plans {
			plans[i] = c.plan(random, near.In(location))
			windows[i] = plans[i].window()
			plans[i].count(seen)
		}
		calendar, err := clock.NewCalendar(windows, func(string) (*time.Location, error) { return location, nil })
		if err != nil {
			t.Fatalf("%v: %v", plans, err)
		}
		want := open(plans, func(string) readings { return clocks })
		for i := range int(to.Sub(from) / time.Minute) {
			now := from.Add(time.Duration(i) * time.Minute)
			if got := calendar.Open(now); got != want[skip+i] {
				t.Errorf("%s, change of %v at %v: Open(%v) = %v\n%v", c.zone, c.jump, c.at, now.In(location), got, plans)
				return
			}
			if want[skip+i] {
				seen["open"]++
			} else {
				seen["closed"]++
			}
		}
		// I3: the intervals are the same set.
		i := 0
		for start, end := range calendar.Intervals(from, to) {
			for ; i < int(to.Sub(from)/time.Minute); i++ {
				now := from.Add(time.Duration(i) * time.Minute)
				if !now.Before(end) {
					break
				}
				if inside := !now.Before(start); inside != want[skip+i] {
					t.Errorf("%s: interval %v to %v, but open(%v) = %v\n%v", c.zone, start, end, now, want[skip+i], plans)
					return
				}
			}
		}
		if rest := want[skip+i : skip+int(to.Sub(from)/time.Minute)]; slices.Contains(rest, true) {
			t.Errorf("%s: the intervals end before the last open minute\n%v", c.zone, plans)
		}
	}
}

// plan invents a window whose ends lie near the change more often than not. local is a reading of
// its clocks next to the change.
func (c change) plan(random *rand.Rand, local time.Time) plan {
	minute := func() (hour, minute int) {
		m := random.IntN(1440)
		if random.IntN(4) > 0 {
			m = ((local.Hour()*60+local.Minute()+random.IntN(300)-150)%1440 + 1440) % 1440
		}
		if random.IntN(2) == 0 {
			m -= m % 30
		}
		return m / 60, m % 60
	}
	p := plan{
		zone: c.zone, allow: random.IntN(3) > 0, skip: random.IntN(4) == 0, last: random.IntN(3) == 0, every: 1, days: map[int]bool{},
		anchor: time.Date(2000, 1, 1+random.IntN(20), 0, 0, 0, 0, time.UTC),
	}
	if random.IntN(3) == 0 {
		p.every = 1 + random.IntN(3)
	}
	for d := range 7 {
		if random.IntN(3) > 0 || d == int(local.Weekday()) {
			p.days[d] = true
		}
	}
	hour, m := minute()
	p.hours, p.minutes = []int{hour}, []int{m}
	switch p.weekly = true; random.IntN(3) {
	case 0:
		p.byFields = true
		endHour, endMinute := minute()
		if p.end = endHour*60 + endMinute; random.IntN(10) == 0 {
			p.end = 1440
		}
		return p
	case 1:
		p.byFields = true
	default:
		frequency := random.IntN(4)
		p.weekly = frequency < 2
		for range random.IntN(3) {
			hour, m := minute()
			p.hours, p.minutes = append(p.hours, hour), append(p.minutes, m)
		}
		switch frequency {
		case 2:
			p.days = map[int]bool{}
		case 3:
			p.onMonths(local, random.IntN)
		}
	}
	p.length = 1 + random.IntN(2000)
	if random.IntN(2) == 0 {
		p.length = 1 + random.IntN(100)
	}
	return p
}

func (p plan) count(seen testkit.Tally) {
	for name, is := range map[string]bool{
		"skip": p.skip, "last": p.last, "rrule": !p.byFields, "weekly": p.byFields, "monthly": p.monthly, "deny": !p.allow,
		"elapsed": p.length > 0, "by the clock": p.length == 0,
	} {
		if is {
			seen[name]++
		}
	}
}
