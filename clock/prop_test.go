package clock_test

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/clock"
	"github.com/tranche-dev/tranche/internal/testkit"
)

// place is a time and zones whose clocks are changed around it.
type place struct {
	middle time.Time
	zones  []string
}

func places() []place {
	return []place{
		{at("2026-03-29T01:00:00Z"), []string{"UTC", "Europe/Berlin", "Europe/London"}},
		{at("2026-10-25T01:00:00Z"), []string{"UTC", "Europe/Berlin", "Asia/Tokyo"}},
		{at("2026-03-08T07:00:00Z"), []string{"UTC", "America/New_York", "America/Havana"}},
		{at("2026-11-01T06:00:00Z"), []string{"America/New_York", "America/Havana", "Asia/Kolkata"}},
		{at("2026-04-04T15:00:00Z"), []string{"Australia/Lord_Howe", "Pacific/Auckland", "UTC"}},
		{at("2011-12-30T10:00:00Z"), []string{"Pacific/Apia", "UTC"}},
		{at("2026-06-06T12:00:00Z"), []string{"UTC", "Europe/Berlin"}},
		{at("2024-12-31T12:00:00Z"), []string{"Europe/Berlin", "UTC"}},
		{at("2104-12-31T12:00:00Z"), []string{"Europe/Berlin", "Pacific/Auckland"}}, // beyond every table
	}
}

// world is a calendar beside the open minutes that the reference evaluator finds in [from, to).
type world struct {
	plans    []plan
	calendar clock.Calendar
	clocks   func(string) readings
	from     time.Time
	minutes  []bool
}

const worldDays = 6

// clockCache keeps readings by zone and time: reading the clocks takes longer than everything else.
type clockCache map[string]readings

func drawWorld(t *rapid.T, cache clockCache) world {
	p := rapid.SampledFrom(places()).Draw(t, "place")
	// The reference must see the clocks for four more days on both sides.
	from := p.middle.Truncate(24 * time.Hour).Add(-worldDays / 2 * 24 * time.Hour)
	to := from.Add(worldDays * 24 * time.Hour)
	w := world{from: from}
	w.clocks = func(zone string) readings {
		key := zone + p.middle.String()
		if _, known := cache[key]; !known {
			location, err := time.LoadLocation(zone)
			if err != nil {
				t.Fatal(err)
			}
			cache[key] = readClocks(location, from.Add(-96*time.Hour), to.Add(96*time.Hour))
		}
		return cache[key]
	}
	w.plans = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) plan { return drawPlan(t, p) }), 0, 4).Draw(t, "plans")
	w.calendar = compilePlans(t, w.plans)
	w.minutes = w.open(w.plans)
	return w
}

func (w world) open(plans []plan) []bool {
	all := open(plans, w.clocks)
	return all[96*60 : len(all)-96*60]
}

type fataler interface{ Fatalf(string, ...any) }

func compilePlans(t fataler, plans []plan) clock.Calendar {
	windows := make([]clock.Window, len(plans))
	for i, p := range plans {
		windows[i] = p.window()
	}
	c, err := clock.NewCalendar(windows, time.LoadLocation)
	if err != nil {
		t.Fatalf("%v: %v", plans, err)
	}
	return c
}

func drawPlan(t *rapid.T, at place) plan {
	zone := rapid.SampledFrom(at.zones).Draw(t, "zone")
	p := plan{
		zone: zone, allow: rapid.IntRange(0, 2).Draw(t, "effect") > 0, skip: rapid.IntRange(0, 3).Draw(t, "gap") == 0,
		last: rapid.IntRange(0, 3).Draw(t, "overlap") == 0, every: rapid.SampledFrom([]int{1, 1, 1, 2, 3}).Draw(t, "every"),
		days: map[int]bool{}, anchor: time.Date(2026, 1, rapid.IntRange(1, 20).Draw(t, "anchor"), 0, 0, 0, 0, time.UTC),
	}
	for d := range 7 {
		p.days[d] = rapid.IntRange(0, 2).Draw(t, "day") > 0
	}
	p.days[rapid.IntRange(0, 6).Draw(t, "a day")] = true
	hour := rapid.OneOf(rapid.IntRange(0, 23), rapid.IntRange(0, 3))
	minute := rapid.SampledFrom([]int{0, 30, 15, 59, 1})
	p.hours, p.minutes = []int{hour.Draw(t, "hour")}, []int{minute.Draw(t, "minute")}
	switch p.weekly = true; rapid.IntRange(0, 2).Draw(t, "form") {
	case 0:
		p.byFields = true
		p.end = rapid.SampledFrom([]int{1440, 0, 60, 90, 120, 150, 180, 600, 1020}).Draw(t, "end")
		return p
	case 1:
		p.byFields = true
	default:
		switch rapid.IntRange(0, 2).Draw(t, "frequency") {
		case 0:
			p.weekly, p.days = false, map[int]bool{}
		case 1:
			p.onMonths(at.middle.AddDate(0, 0, rapid.IntRange(-4, 4).Draw(t, "on")), func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "month") })
		}
		p.hours = append(p.hours, rapid.SliceOfN(hour, 0, 3).Draw(t, "hours")...)
		p.minutes = append(p.minutes, rapid.SliceOfN(minute, 0, 2).Draw(t, "minutes")...)
	}
	p.length = rapid.OneOf(rapid.IntRange(1, 120), rapid.SampledFrom([]int{1440, 1439, 1441, 2000, 60})).Draw(t, "length")
	return p
}

// minute draws an index into the world, most often next to a boundary.
func (w world) minute(t *rapid.T, label string) int {
	var edges []int
	for i := 1; i < len(w.minutes); i++ {
		if w.minutes[i] != w.minutes[i-1] {
			edges = append(edges, i, i-1)
		}
	}
	if len(edges) > 0 && rapid.Bool().Draw(t, label+" at an edge") {
		return rapid.SampledFrom(edges).Draw(t, label)
	}
	return rapid.IntRange(0, len(w.minutes)-1).Draw(t, label)
}

func (w world) time(i int) time.Time { return w.from.Add(time.Duration(i) * time.Minute) }

// until returns the calendar with a horizon that ends with the world, for questions at minute i.
func (w world) until(i int) clock.Calendar {
	return w.calendar.WithHorizon(time.Duration(len(w.minutes)-i) * time.Minute)
}

// next returns the first index from i on at which the world is open, or is not.
func (w world) next(i int, open bool) (int, bool) {
	for ; i < len(w.minutes); i++ {
		if w.minutes[i] == open {
			return i, true
		}
	}
	return i, false
}

// checkWorlds checks a property until each of the outcomes was reached.
func checkWorlds(t *testing.T, outcomes []string, property func(t *rapid.T, w world, seen testkit.Tally)) {
	t.Helper()
	seen, cache := testkit.Tally{}, clockCache{}
	seen.Check(t, func(t *rapid.T) { property(t, drawWorld(t, cache), seen) }, outcomes...)
}

func TestI1OpenAgreesWithTheReference(t *testing.T) {
	checkWorlds(t, []string{"open", "closed"}, func(t *rapid.T, w world, seen testkit.Tally) {
		for i, want := range w.minutes {
			if got := w.calendar.Open(w.time(i)); got != want {
				t.Fatalf("Open(%v) = %v\n%v", w.time(i), got, w.plans)
			}
			// Between whole minutes nothing changes.
			if got := w.calendar.Open(w.time(i + 1).Add(-1)); got != want {
				t.Fatalf("Open(%v) = %v\n%v", w.time(i+1).Add(-1), got, w.plans)
			}
			if want {
				seen["open"]++
			} else {
				seen["closed"]++
			}
		}
	})
}

func TestI2NextOpenAndNextClose(t *testing.T) {
	checkWorlds(t, []string{"opens", "never opens", "closes", "never closes", "at once"}, func(t *rapid.T, w world, seen testkit.Tally) {
		i := w.minute(t, "t")
		if rapid.Bool().Draw(t, "short horizon") {
			w.minutes = w.minutes[:min(len(w.minutes), i+rapid.IntRange(1, 200).Draw(t, "horizon"))]
		}
		c := w.until(i)
		got, err := c.NextOpen(w.time(i))
		switch u, found := w.next(i, true); {
		case found && (err != nil || !got.Equal(w.time(u))):
			t.Fatalf("NextOpen(%v) = %v, %v, want %v\n%v", w.time(i), got, err, w.time(u), w.plans)
		case !found && !errors.Is(err, clock.ErrNeverOpen):
			t.Fatalf("NextOpen(%v) = %v, %v, want never\n%v", w.time(i), got, err, w.plans)
		case found:
			seen["opens"]++
			if u == i {
				seen["at once"]++
			}
		default:
			seen["never opens"]++
		}
		closes := c.NextClose(w.time(i))
		if u, found := w.next(i, false); found {
			seen["closes"]++
			if !closes.Equal(w.time(u)) {
				t.Fatalf("NextClose(%v) = %v, want %v\n%v", w.time(i), closes, w.time(u), w.plans)
			}
		} else if seen["never closes"]++; !closes.IsZero() {
			t.Fatalf("NextClose(%v) = %v, want never\n%v", w.time(i), closes, w.plans)
		}
	})
}

func TestI3IntervalsAreTheOpenSet(t *testing.T) {
	checkWorlds(t, []string{"several"}, func(t *rapid.T, w world, seen testkit.Tally) {
		i, j := w.minute(t, "from"), w.minute(t, "to")
		var got []int
		for start, end := range w.calendar.Intervals(w.time(i), w.time(j)) {
			got = append(got, int(start.Sub(w.from)/time.Minute), int(end.Sub(w.from)/time.Minute))
		}
		var want []int
		for at := i; at < j; {
			start, found := w.next(at, true)
			if !found || start >= j {
				break
			}
			end, _ := w.next(start, false)
			want = append(want, start, min(end, j))
			at = end
		}
		if len(want) > 2 {
			seen["several"]++
		}
		if !slices.Equal(got, want) {
			t.Fatalf("Intervals(%v, %v) = %v, want %v\n%v", w.time(i), w.time(j), got, want, w.plans)
		}
	})
}

// openMinutes counts in [i, j).
func (w world) openMinutes(i, j int) int {
	n := 0
	for ; i < j; i++ {
		if w.minutes[i] {
			n++
		}
	}
	return n
}

func TestI4OpenBetweenIsAdditive(t *testing.T) {
	checkWorlds(t, []string{"some", "added"}, func(t *rapid.T, w world, seen testkit.Tally) {
		of := []int{w.minute(t, "a"), w.minute(t, "b"), w.minute(t, "c")}
		slices.Sort(of)
		between := func(i, j int) time.Duration {
			d, err := w.calendar.OpenBetween(w.time(i), w.time(j))
			if err != nil {
				t.Fatal(err)
			}
			if want := time.Duration(w.openMinutes(i, j)) * time.Minute; d != want {
				t.Fatalf("OpenBetween(%v, %v) = %v, want %v\n%v", w.time(i), w.time(j), d, want, w.plans)
			}
			return d
		}
		if whole := between(of[0], of[2]); whole != between(of[0], of[1])+between(of[1], of[2]) {
			t.Fatal("not additive")
		} else if whole > 0 {
			seen["some"]++
		}
		d := time.Duration(rapid.Int64Range(0, int64(30*time.Hour)).Draw(t, "d"))
		u, err := w.until(of[0]).AddOpen(w.time(of[0]), d)
		if err != nil {
			return
		}
		seen["added"]++
		if spent, err := w.calendar.OpenBetween(w.time(of[0]), u); err != nil || spent != d {
			t.Fatalf("OpenBetween(%v, AddOpen(%v)) = %v, %v\n%v", w.time(of[0]), d, spent, err, w.plans)
		}
	})
}

func TestI5AddOpenIsAdditiveAndMonotone(t *testing.T) {
	checkWorlds(t, []string{"found", "never"}, func(t *rapid.T, w world, seen testkit.Tally) {
		i := w.minute(t, "t")
		limit := w.time(len(w.minutes))
		add := func(from time.Time, d time.Duration) (time.Time, bool) {
			horizon := limit.Sub(from)
			if horizon <= 0 {
				return time.Time{}, false
			}
			u, err := w.calendar.WithHorizon(horizon).AddOpen(from, d)
			if err != nil && !errors.Is(err, clock.ErrNeverOpen) {
				t.Fatal(err)
			}
			return u, err == nil
		}
		minutes := func(label string) time.Duration {
			return time.Duration(rapid.IntRange(0, 1500).Draw(t, label)) * time.Minute
		}
		a, b := minutes("a"), minutes("b")
		// The answer of the minutes: the first open one before which a is used up.
		want, spent := len(w.minutes), 0
		for u := i; u < len(w.minutes); u++ {
			if w.minutes[u] && time.Duration(spent)*time.Minute >= a {
				want = u
				break
			}
			if w.minutes[u] {
				spent++
			}
		}
		first, ok := add(w.time(i), a)
		if ok != (want < len(w.minutes)) || ok && !first.Equal(w.time(want)) {
			t.Fatalf("AddOpen(%v, %v) = %v, %v, want minute %d of %d\n%v", w.time(i), a, first, ok, want, len(w.minutes), w.plans)
		}
		if !ok {
			seen["never"]++
			return
		}
		seen["found"]++
		then, thenOK := add(first, b)
		sum, sumOK := add(w.time(i), a+b)
		if thenOK != sumOK || thenOK && !then.Equal(sum) {
			t.Fatalf("AddOpen(AddOpen(t, %v), %v) = %v, %v, but AddOpen(t, %v) = %v, %v\n%v", a, b, then, thenOK, a+b, sum, sumOK, w.plans)
		}
		if sumOK && sum.Before(first) {
			t.Fatalf("a longer duration ends earlier\n%v", w.plans)
		}
		if j := w.minute(t, "later"); j >= i {
			if late, ok := add(w.time(j), a); ok && late.Before(first) {
				t.Fatalf("a later start ends earlier\n%v", w.plans)
			}
		}
	})
}

func TestI5WalkIsAddOpen(t *testing.T) {
	checkWorlds(t, []string{"found", "never", "back"}, func(t *rapid.T, w world, seen testkit.Tally) {
		i := w.minute(t, "t")
		c := w.until(i)
		walk := c.Walk(w.time(i))
		before := time.Duration(0)
		for _, d := range rapid.SliceOfN(rapid.Int64Range(0, int64(48*time.Hour)), 1, 12).Draw(t, "durations") {
			d := time.Duration(d)
			if rapid.IntRange(0, 3).Draw(t, "ascending") > 0 {
				d = before + d/8
			}
			if d < before {
				seen["back"]++
			}
			before = d
			u, err := c.AddOpen(w.time(i), d)
			v, walkErr := walk.AddOpen(d)
			if !u.Equal(v) || errors.Is(err, clock.ErrNeverOpen) != errors.Is(walkErr, clock.ErrNeverOpen) {
				t.Fatalf("AddOpen(%v, %v) = %v, %v, the walk says %v, %v\n%v", w.time(i), d, u, err, v, walkErr, w.plans)
			}
			if err == nil {
				seen["found"]++
			} else {
				seen["never"]++
			}
		}
	})
}

// I6: an allow window more closes nothing if there was one before, and a deny window more opens
// nothing. I7: the order of windows does not matter.
func TestI6I7AddingAndOrderingWindows(t *testing.T) {
	checkWorlds(t, []string{"allow", "deny", "shuffled"}, func(t *rapid.T, w world, seen testkit.Tally) {
		more := drawPlan(t, rapid.SampledFrom(places()).Draw(t, "elsewhere"))
		wider := compilePlans(t, append(slices.Clone(w.plans), more))
		shuffled := slices.Clone(w.plans)
		rand.New(rand.NewPCG(1, uint64(len(w.plans)))).Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		other := compilePlans(t, shuffled)
		hadAllow := slices.ContainsFunc(w.plans, func(p plan) bool { return p.allow })
		if len(w.plans) > 1 {
			seen["shuffled"]++
		}
		for i, before := range w.minutes {
			now := w.time(i)
			after := wider.Open(now)
			if !more.allow {
				if seen["deny"]++; after && !before {
					t.Fatalf("a deny window opens %v\n%v\n%v", now, w.plans, more)
				}
			} else if hadAllow {
				if seen["allow"]++; before && !after {
					t.Fatalf("an allow window closes %v\n%v\n%v", now, w.plans, more)
				}
			}
			if other.Open(now) != before {
				t.Fatalf("the order of windows matters at %v\n%v", now, w.plans)
			}
		}
		if diff := cmp.Diff(intervals(w.calendar, w.from, w.time(len(w.minutes))), intervals(other, w.from, w.time(len(w.minutes)))); diff != "" {
			t.Fatalf("the order of windows matters\n%s", diff)
		}
	})
}

// Laws of sets: allow windows are united, deny windows subtracted, calendars intersected.
func TestAlgebraOfCalendars(t *testing.T) {
	checkWorlds(t, []string{"open", "closed"}, func(t *rapid.T, w world, seen testkit.Tally) {
		var allow, deny []plan
		for _, p := range w.plans {
			if p.allow {
				allow = append(allow, p)
			} else {
				deny = append(deny, p)
			}
		}
		only := func(plans []plan) clock.Calendar { return compilePlans(t, plans) }
		union := func(now time.Time) bool {
			return len(allow) == 0 || slices.ContainsFunc(allow, func(p plan) bool { return only([]plan{p}).Open(now) })
		}
		split := clock.Intersect(only(allow), only(deny), w.calendar)
		for range 20 {
			now := w.time(w.minute(t, "t"))
			want := union(now)
			for _, p := range deny {
				want = want && only([]plan{p}).Open(now)
			}
			if w.calendar.Open(now) != want || split.Open(now) != want {
				t.Fatalf("at %v: %v and, split, %v, want %v\n%v", now, w.calendar.Open(now), split.Open(now), want, w.plans)
			}
			if want {
				seen["open"]++
			} else {
				seen["closed"]++
			}
		}
		if diff := cmp.Diff(intervals(w.calendar, w.from, w.time(len(w.minutes))), intervals(split, w.from, w.time(len(w.minutes)))); diff != "" {
			t.Fatalf("split and whole differ\n%s\n%v", diff, w.plans)
		}
	})
}

func TestI8AnswersDoNotDependOnTheQuestionsBefore(t *testing.T) {
	checkWorlds(t, []string{"asked"}, func(t *rapid.T, w world, seen testkit.Tally) {
		i := w.minute(t, "t")
		fresh := compilePlans(t, w.plans)
		for range 10 {
			w.calendar.Open(w.time(w.minute(t, "other")))
			_, _ = w.calendar.NextFit(w.time(w.minute(t, "other")), time.Hour)
		}
		seen["asked"]++
		if w.calendar.Open(w.time(i)) != fresh.Open(w.time(i)) || !w.calendar.NextClose(w.time(i)).Equal(fresh.NextClose(w.time(i))) {
			t.Fatalf("the answer at %v changed", w.time(i))
		}
		zone := time.FixedZone("elsewhere", rapid.IntRange(-50000, 50000).Draw(t, "offset"))
		if w.calendar.Open(w.time(i)) != w.calendar.Open(w.time(i).In(zone)) {
			t.Fatal("the zone of the question matters")
		}
	})
}

// counted is a host's recurrence that counts questions: hourly starts.
type counted struct{ asked *int }

func (c counted) Next(t time.Time) time.Time {
	*c.asked++
	return t.Truncate(time.Hour).Add(time.Hour)
}

func TestI9SearchesAreBounded(t *testing.T) {
	for _, row := range []struct {
		minutes clock.Minutes
		horizon time.Duration
	}{{61, 24 * time.Hour}, {90, 1000 * time.Hour}, {5000, 1000 * time.Hour}, {60, 1000 * time.Hour}} {
		asked, deny := 0, false
		c := calendar(t, clock.Window{Recurrence: counted{&asked}, DurationMinutes: row.minutes, AllowWindow: &deny}).WithHorizon(row.horizon)
		_, open := c.NextOpen(at("2026-01-01T00:20:00Z"))
		_, fit := c.NextFit(at("2026-01-01T00:20:00Z"), time.Hour)
		if !errors.Is(open, clock.ErrNeverOpen) || !errors.Is(fit, clock.ErrNeverFits) {
			t.Errorf("%d minutes every hour: %v, %v", row.minutes, open, fit)
		}
		// Two searches, and three questions per step: one for the start, one that it does not
		// depend on the question, and one for a later start.
		if bound := 2 * 3 * (int(row.horizon/time.Hour) + 2); asked == 0 || asked > bound {
			t.Errorf("%d minutes every hour, horizon %v: %d questions, want at most %d", row.minutes, row.horizon, asked, bound)
		}
	}
}

// TestI9LongClosedTimeIsOneStep: what one window closes for centuries is not walked through at the
// pace of another, whichever comes first: minute by minute that takes a hundred million steps.
func TestI9LongClosedTimeIsOneStep(t *testing.T) {
	var numbers []string
	for i := range 60 {
		numbers = append(numbers, strconv.Itoa(i))
	}
	eachMinute := `"rrule":"FREQ=DAILY;BYHOUR=` + strings.Join(numbers[:24], ",") + `;BYMINUTE=` + strings.Join(numbers, ",") + `","durationMinutes":1}`
	deny, always := `{"allowWindow":false,`+eachMinute, `{`+eachMinute
	freeze := `{"allowWindow":false,"from":"2026-01-01T00:00:00Z","until":"2300-01-01T00:00:00Z"}`
	allow := `{"from":"2300-01-01T00:00:00Z","until":"2301-01-01T00:00:00Z"}`
	for name, c := range map[string]clock.Calendar{
		"a deny window and a freeze":           parsed(t, deny, freeze),
		"a freeze and a deny window":           parsed(t, freeze, deny),
		"a deny window and an allowing policy": clock.Intersect(parsed(t, deny), parsed(t, allow)),
		"an allowing policy and a deny window": clock.Intersect(parsed(t, allow), parsed(t, deny)),
		"two allowing policies":                clock.Intersect(parsed(t, always), parsed(t, allow)),
	} {
		within := func(years time.Duration) func() {
			return func() {
				if _, err := c.WithHorizon(years * 365 * 24 * time.Hour).NextOpen(at("2026-01-01T00:00:00Z")); !errors.Is(err, clock.ErrNeverOpen) {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
		testkit.CompareCost(t, name, 5, within(2), within(270))
	}
}

// TestWalkOfOtherDurations: a shorter duration is answered as if none had been asked before, and
// the same one without asking the windows again.
func TestWalkOfOtherDurations(t *testing.T) {
	walk := parsed(t, daily("09:00", "17:00")).Walk(at("2026-01-05T00:00:00Z"))
	for _, row := range []struct {
		d    time.Duration
		want string
	}{{9 * time.Hour, "2026-01-06T10:00:00Z"}, {time.Hour, "2026-01-05T10:00:00Z"}, {8 * time.Hour, "2026-01-06T09:00:00Z"}} {
		if u, err := walk.AddOpen(row.d); err != nil || !u.Equal(at(row.want)) {
			t.Errorf("%v after others: %v, %v, want %s", row.d, u, err, row.want)
		}
	}
	asked := 0
	walk = calendar(t, clock.Window{Recurrence: counted{&asked}, DurationMinutes: 30}).Walk(at("2026-01-05T00:00:00Z"))
	for range 2 {
		asked = 0
		if u, err := walk.AddOpen(12 * time.Hour); err != nil || !u.Equal(at("2026-01-06T00:00:00Z")) {
			t.Error(u, err)
		}
	}
	if asked > 0 {
		t.Errorf("%d questions for a duration that was just asked for and ends with a window", asked)
	}
}

func TestI10NextFitIsTheFirst(t *testing.T) {
	checkWorlds(t, []string{"at once", "later", "never"}, func(t *rapid.T, w world, seen testkit.Tally) {
		i := w.minute(t, "t")
		d := rapid.OneOf(rapid.IntRange(1, 200), rapid.IntRange(1, 2000)).Draw(t, "minutes")
		// Starts in the first part of the world only, so that the reference sees the end of what
		// fits.
		last := len(w.minutes) - 2000
		if i >= last {
			i = last - 1
		}
		got, err := w.calendar.WithHorizon(w.time(last).Sub(w.time(i))).NextFit(w.time(i), time.Duration(d)*time.Minute)
		want := -1
		for u := i; u < last && want < 0; u++ {
			if w.openMinutes(u, u+d) == d {
				want = u
			}
		}
		switch {
		case want < 0:
			if seen["never"]++; !errors.Is(err, clock.ErrNeverFits) {
				t.Fatalf("NextFit(%v, %d min) = %v, %v, want never\n%v", w.time(i), d, got, err, w.plans)
			}
		case err != nil || !got.Equal(w.time(want)):
			t.Fatalf("NextFit(%v, %d min) = %v, %v, want %v\n%v", w.time(i), d, got, err, w.time(want), w.plans)
		case want == i:
			seen["at once"]++
		default:
			seen["later"]++
		}
	})
}

func TestI11DecodingAgainIsTheSame(t *testing.T) {
	seen := testkit.Tally{}
	seen.Check(t, func(t *rapid.T) {
		w := drawPlan(t, rapid.SampledFrom(places()).Draw(t, "place")).window()
		if rapid.IntRange(0, 3).Draw(t, "one-off") == 0 {
			seen["one-off"]++
			from := time.Unix(rapid.Int64Range(-1e9, 4e9).Draw(t, "from"), rapid.Int64Range(0, 1e9-1).Draw(t, "fraction"))
			from = from.In(time.FixedZone("", 60*rapid.IntRange(-1000, 1000).Draw(t, "offset")))
			w = clock.Window{From: from, Until: from.Add(time.Duration(rapid.Int64Range(1, 1e15).Draw(t, "length"))), AllowWindow: w.AllowWindow}
		}
		first, err := json.Marshal(w)
		if err != nil {
			t.Fatal(err)
		}
		once, err := clock.ParseWindow(first)
		if err != nil {
			t.Fatalf("%s: %v", first, err)
		}
		second, err := json.Marshal(once)
		if err != nil || string(first) != string(second) {
			t.Fatalf("%s became %s, %v", first, second, err)
		}
		twice, err := clock.ParseWindow(second)
		if err != nil || !cmp.Equal(once, twice) || !cmp.Equal(w, once) {
			t.Fatalf("%s: %+v became %+v, %v", first, once, twice, err)
		}
	}, "one-off")
}

// TestOpenHoursOfAYear: what recurs with an interval is open for as many minutes of 2026 as the
// reference evaluator counts. A phase that moves along with the question would be open at all times
// or never.
func TestOpenHoursOfAYear(t *testing.T) {
	t.Parallel()
	location, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	from, to := at("2026-01-01T00:00:00Z"), at("2027-01-01T00:00:00Z")
	clocks := readClocks(location, from.Add(-96*time.Hour), to.Add(96*time.Hour))
	anchor := at("2025-01-06T00:00:00Z")
	monday := map[int]bool{1: true}
	for _, row := range []struct {
		plan  plan
		hours float64 // for the reader; the reference decides
	}{
		{plan{weekly: true, every: 1, days: monday, hours: []int{9}, length: 60}, 52},
		{plan{weekly: true, every: 2, days: monday, hours: []int{9}, length: 60}, 26},
		{plan{weekly: true, every: 3, days: map[int]bool{0: true, 6: true}, hours: []int{2, 3}, length: 60}, 34 * 2},
		{plan{every: 1, hours: []int{2}, length: 60}, 365},
		{plan{every: 2, hours: []int{2}, length: 1500}, 183 * 25},
		{plan{every: 10, hours: []int{0, 12}, length: 90}, 37 * 3},
		{plan{every: 7, hours: []int{23}, length: 24 * 60}, 52 * 24},
		{plan{weekly: true, every: 1, days: map[int]bool{0: true}, hours: []int{2}, end: 210, byFields: true}, 52 * 1.5},
	} {
		p := row.plan
		p.zone, p.allow, p.anchor = "Europe/Berlin", true, anchor
		p.minutes = []int{0}
		want := time.Duration(0)
		for _, open := range open([]plan{p}, func(string) readings { return clocks })[96*60 : len(clocks.shown)-96*60] {
			if open {
				want += time.Minute
			}
		}
		got, err := compilePlans(t, []plan{p}).OpenBetween(from, to)
		if err != nil || got != want || max(want.Hours()-row.hours, row.hours-want.Hours()) > 25 {
			t.Errorf("%v: open for %v, %v; the reference counts %v, the calendar on the wall %v h", p, got, err, want, row.hours)
		}
	}
}

// TestCalendarsAreShared is for the race detector.
func TestCalendarsAreShared(t *testing.T) {
	c := nights(t)
	want := intervals(c, at("2026-03-20T00:00:00Z"), at("2026-04-03T00:00:00Z"))
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			if got := intervals(c, at("2026-03-20T00:00:00Z"), at("2026-04-03T00:00:00Z")); !slices.Equal(got, want) {
				t.Errorf("another answer beside others: %v", got)
			}
		})
	}
	group.Wait()
}
