package concurrency

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/internal/testkit"
)

// hourly is a pool of ten that lets so many begin per hour, of which some did so long before the
// epoch.
func hourly(limit int, minutes ...int) *scene {
	s := newScene(Pool{Key: "nodes", Limit: Count(9), Total: 10, Rate: Rate{Count(limit), 3600}})
	for _, m := range minutes {
		s.Pools[0].Record.Begun = append(s.Pools[0].Record.Begun, Begun{epoch.Add(-time.Duration(m) * time.Minute), 1})
	}
	return s
}

// edited changes the first pool of a scene.
func (s *scene) edited(edit func(p *Pool)) *scene {
	edit(&s.Pools[0])
	return s
}

func TestRateRows(t *testing.T) {
	at := func(minutes float64) time.Time { return epoch.Add(time.Duration(minutes * float64(time.Minute))) }
	never := time.Time{}
	for _, row := range []struct {
		why         string
		scene       *scene
		want        []string
		opens, next time.Time
	}{
		{"as many as the rate lets, whatever room there is; how long they count depends on when they start", hourly(2).ask("n1", "g", "nodes").ask("n2", "g", "nodes").ask("n3", "g", "nodes"),
			[]string{"n1 slot_free", "n2 slot_free", "n3 nodes:slot_rate_full"}, never, never},
		{"it is used up, and nobody waits for it", hourly(1, 10), nil, never, never},
		{"just as many", hourly(2).ask("n1", "g", "nodes").ask("n2", "g", "nodes"), []string{"n1 slot_free", "n2 slot_free"}, never, never},
		{"one is left", hourly(2).ask("n1", "g", "nodes"), []string{"n1 slot_free"}, never, never},
		{"who began before counts, the oldest is over first", hourly(3, 50, 20).ask("n1", "g", "nodes").ask("n2", "g", "nodes"),
			[]string{"n1 slot_free", "n2 nodes:slot_rate_full"}, at(10), at(10)},
		{"the interval is half-open: an hour later one is over", hourly(1, 60).ask("n1", "g", "nodes").ask("n2", "g", "nodes"),
			[]string{"n1 slot_free", "n2 nodes:slot_rate_full"}, never, never},
		{"a nanosecond less and it is not", hourly(1).edited(func(p *Pool) { p.Record.Begun = []Begun{{at(-60).Add(1), 1}} }).ask("n1", "g", "nodes"),
			[]string{"n1 nodes:slot_rate_full"}, epoch.Add(1), epoch.Add(1)},
		{"more than the rate have begun, before it was lowered: all but none must be over", hourly(1, 50, 40, 20).ask("n1", "g", "nodes"),
			[]string{"n1 nodes:slot_rate_full"}, at(40), at(40)},
		{"several at once are over at once", hourly(2).edited(func(p *Pool) { p.Record.Begun = []Begun{{at(-30), 3}, {at(-10), 1}} }).ask("n1", "g", "nodes"),
			[]string{"n1 nodes:slot_rate_full"}, at(30), at(30)},
		{"by a clock that was ahead, and has been set back", hourly(1, -5).ask("n1", "g", "nodes"), []string{"n1 nodes:slot_rate_full"}, at(65), at(65)},
		{"who begins now is over before those, but if nobody does, both may begin then", hourly(2, -5).ask("n1", "g", "nodes").ask("n2", "g", "nodes"),
			[]string{"n1 slot_free", "n2 nodes:slot_rate_full"}, at(65), at(65)},
		{"and if that is not enough, after them", hourly(1, -5).lease("nodes", "n1", "h", 0).edited(func(p *Pool) { p.Departed = []string{"n1"} }).ask("n1", "h", "nodes").ask("n2", "g", "nodes"),
			[]string{"n1 slot_held", "n2 nodes:slot_rate_full"}, at(65), at(65)},
		{"a holder begins nothing", hourly(1, 10).lease("nodes", "n1", "g", 0).ask("n1", "g", "nodes").ask("n2", "g", "nodes"),
			[]string{"n1 slot_held", "n2 nodes:slot_rate_full"}, at(50), at(50)},
		{"nor another group on a resource that is active", hourly(1, 10).lease("nodes", "n1", "h", 0).ask("n1", "g", "nodes"),
			[]string{"n1 slot_already_down"}, never, never},
		{"nor what is down: a fix can always be rolled out", hourly(1, 10).unavailable("nodes", "n1").ask("n1", "g", "nodes"),
			[]string{"n1 slot_already_down"}, never, never},
		{"the second start of a resource is free", hourly(1).ask("n1", "g", "nodes").ask("n1", "h", "nodes").ask("n2", "g", "nodes"),
			[]string{"n1 slot_free", "n1 slot_already_down", "n2 nodes:slot_rate_full"}, never, never},
		{"the limit is told first: room does not come with time", hourly(1, 10).edited(func(p *Pool) { p.Limit = Count(1) }).lease("nodes", "n1", "h", 0).ask("n2", "g", "nodes"),
			[]string{"n2 nodes:slot_full"}, never, never},
		{"a percentage of the members", hourly(1).edited(func(p *Pool) { p.Rate.Limit = Percent(20) }).ask("n1", "g", "nodes").ask("n2", "g", "nodes").ask("n3", "g", "nodes"),
			[]string{"n1 slot_free", "n2 slot_free", "n3 nodes:slot_rate_full"}, never, never},
		{"it is rounded as the limit is", hourly(1).edited(func(p *Pool) { p.Rate.Limit, p.Total = Percent(20), 12 }).ask("n1", "g", "nodes").ask("n2", "g", "nodes").ask("n3", "g", "nodes"),
			[]string{"n1 slot_free", "n2 slot_free", "n3 slot_free"}, never, never},
		{"one that amounts to nothing pauses", hourly(1).edited(func(p *Pool) { p.Rate.Limit, p.Rounding = Percent(9), Floor }).ask("n1", "g", "nodes"),
			[]string{"n1 nodes:slot_paused"}, never, never},
		{"a place that is reserved is one of the rate, too", newScene(Pool{Key: "nodes", Limit: Count(9), Total: 10, Strict: true, Rate: Rate{Count(1), 3600}}, Pool{Key: "rack", Limit: Count(1), Total: 2}).
			lease("rack", "r", "x", 0).ask("n1", "g", "nodes", "rack").ask("n2", "g", "nodes"),
			[]string{"n1 rack:slot_full", "n2 nodes:slot_reserved"}, never, never},
		{"two are reserved, which is as many as may begin in a second", newScene(Pool{Key: "nodes", Limit: Count(9), Total: 10, Strict: true, Rate: Rate{Count(2), 1}}, Pool{Key: "rack", Limit: Count(1), Total: 2}).
			lease("rack", "r", "x", 0).ask("n1", "g", "nodes", "rack").ask("n2", "g", "nodes", "rack").ask("n3", "g", "nodes"),
			[]string{"n1 rack:slot_full", "n2 rack:slot_full", "n3 nodes:slot_reserved"}, never, never},
		{"two may begin in a second, and no third in this plan", newScene(Pool{Key: "nodes", Limit: Count(9), Total: 10, Rate: Rate{Count(2), 1}}).ask("n1", "g", "nodes").ask("n2", "g", "nodes").ask("n3", "g", "nodes"),
			[]string{"n1 slot_free", "n2 slot_free", "n3 nodes:slot_rate_full"}, never, never},
		{"reserved of what is left, until one more is over", newScene(Pool{Key: "nodes", Limit: Count(9), Total: 10, Strict: true, Rate: Rate{Count(2), 3600}}, Pool{Key: "rack", Limit: Count(1), Total: 2}).
			edited(func(p *Pool) { p.Record.Begun = []Begun{{at(-20), 1}} }).lease("rack", "r", "x", 0).ask("n1", "g", "nodes", "rack").ask("n2", "g", "nodes"),
			[]string{"n1 rack:slot_full", "n2 nodes:slot_reserved"}, at(40), at(40)},
		{"reserved because the pool is full: the rate has room", newScene(Pool{Key: "nodes", Limit: Count(1), Total: 10, Strict: true, Rate: Rate{Count(3), 3600}}, Pool{Key: "rack", Limit: Count(1), Total: 2}).
			edited(func(p *Pool) { p.Record.Begun = []Begun{{at(-20), 1}} }).lease("rack", "r", "x", 0).ask("n1", "g", "nodes", "rack").ask("n2", "g", "nodes"),
			[]string{"n1 rack:slot_full", "n2 nodes:slot_reserved"}, never, never},
		{"its own reservation holds nobody", newScene(Pool{Key: "nodes", Limit: Count(9), Total: 10, Strict: true, Rate: Rate{Count(1), 3600}}, Pool{Key: "rack", Limit: Count(1), Total: 2}).
			lease("rack", "r", "x", 0).ask("n1", "g", "nodes", "rack").ask("n1", "h", "nodes"),
			[]string{"n1 slot_free", "n1 rack:slot_full"}, never, never},
	} {
		r := row.scene.plan(t)
		if got := row.scene.verdict(r); !slices.Equal(got, row.want) {
			t.Errorf("%s: %q, want %q", row.why, got, row.want)
		}
		if got := r.Pools[0].RateOpens; !got.Equal(row.opens) || !r.Next.Equal(row.next) {
			t.Errorf("%s: opens %v, next %v, want %v, %v", row.why, got, r.Next, row.opens, row.next)
		}
	}
}

// TestBegun: what a record remembers.
func TestBegun(t *testing.T) {
	at := func(minutes int) time.Time { return epoch.Add(time.Duration(minutes) * time.Minute) }
	for _, row := range []struct {
		why    string
		scene  *scene
		starts []int // of the plan's
		want   []Begun
	}{
		{"one entry for those of one instant", hourly(2).ask("n1", "g", "nodes").ask("n2", "g", "nodes"), []int{0, 1}, []Begun{{epoch, 2}}},
		{"what is over is forgotten, once something begins", hourly(9, 61, 60, 59).ask("n1", "g", "nodes"), []int{0}, []Begun{{at(-59), 1}, {epoch, 1}}},
		{"nothing begins by a further group", hourly(9, 61).lease("nodes", "n1", "h", 0).ask("n1", "g", "nodes"), []int{0}, []Begun{{at(-61), 1}}},
		{"among others", hourly(9).lease("nodes", "n0", "h", 0).lease("nodes", "n2", "h", 0).lease("nodes", "n4", "h", 0).ask("n1", "g", "nodes").ask("n2", "g", "nodes").ask("n3", "g", "nodes").ask("n5", "g", "nodes"),
			[]int{0, 1, 2, 3}, []Begun{{epoch, 3}}},
		{"nor on what is down", hourly(9).unavailable("nodes", "n1").ask("n1", "g", "nodes"), []int{0}, nil},
		{"a resource begins once", hourly(9).ask("n1", "g", "nodes").ask("n1", "h", "nodes"), []int{0, 1}, []Begun{{epoch, 1}}},
		{"also among others", hourly(9).lease("nodes", "n0", "h", 0).lease("nodes", "n2", "h", 0).ask("n1", "g", "nodes").ask("n1", "h", "nodes"), []int{0, 1}, []Begun{{epoch, 1}}},
		{"also by its second start alone", hourly(9).ask("n1", "g", "nodes").ask("n1", "h", "nodes"), []int{1}, []Begun{{epoch, 1}}},
		{"without a rate nothing is remembered", newScene(ten(Count(9))).ask("n1", "g", "nodes"), []int{0}, nil},
		{"a clock that was set back", hourly(9, -5).ask("n1", "g", "nodes"), []int{0}, []Begun{{epoch, 1}, {at(5), 1}}},
		{"one that stands still", hourly(9, 0).ask("n1", "g", "nodes"), []int{0}, []Begun{{epoch, 2}}},
	} {
		r := row.scene.plan(t)
		var some []Admitted
		record := row.scene.Pools[0].Record
		for _, k := range row.starts {
			some = append(some, r.Admitted[k])
			c := row.scene.candidates[r.Admitted[k].Candidate]
			var err error
			if record, err = record.Claim(r.Admitted[k].Claims[0], Holder{c.Resource, c.Group}, epoch); err != nil {
				t.Fatal(err)
			}
		}
		before := slices.Clone(row.scene.Pools[0].Record.Begun)
		records, err := Apply(row.scene.Snapshot, row.scene.candidates, some, epoch)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(row.want, records[0].Begun); diff != "" {
			t.Errorf("%s: %s", row.why, diff)
		}
		if diff := cmp.Diff(records[0], record); diff != "" {
			t.Errorf("%s: Claim and Apply differ: %s", row.why, diff)
		}
		if diff := cmp.Diff(before, row.scene.Pools[0].Record.Begun); diff != "" {
			t.Errorf("%s: the old record is modified: %s", row.why, diff)
		}
		text, err := json.Marshal(records[0])
		if err != nil {
			t.Fatal(err)
		}
		if back, err := ParseRecord(text); err != nil || !cmp.Equal(back, records[0]) {
			t.Errorf("%s: %s: %v", row.why, text, err)
		}
	}
	s := hourly(1, 10).lease("nodes", "n1", "g", 10*time.Minute)
	released, err := s.Pools[0].Record.Release(Holder{"n1", "g"}, 1)
	if s.Pools[0].Record = released; err != nil || s.ask("n2", "g", "nodes").verdict(s.plan(t))[0] != "n2 nodes:slot_rate_full" {
		t.Errorf("a lease that was given back has begun all the same: %v", err)
	}
	for _, bad := range []Holder{{"", "g"}, {"n1", "\xff"}} {
		if after, err := NewRecord("nodes").Claim(Claim{Token: 1, PeriodSeconds: 60}, bad, epoch); err == nil || after.Begun != nil {
			t.Errorf("%q begins: %+v, %v", bad, after, err)
		}
	}
	full := NewRecord("nodes")
	full.Begun = []Begun{{epoch, 2147483647}}
	if full, err = full.Claim(Claim{Token: 1, PeriodSeconds: 60}, Holder{"n1", "g"}, epoch); err != nil || full.Validate() != nil || full.Begun[0].Count != 2147483647 {
		t.Errorf("a count that could not be read again: %+v, %v", full.Begun, err)
	}
	s = hourly(1, 10)
	s.Pools[0].Record = Record{Begun: s.Pools[0].Record.Begun}
	if _, err := Plan(s.Snapshot, nil, epoch); err == nil {
		t.Error("a record without a key or a schema was used all the same")
	}
}

func TestBegunFaults(t *testing.T) {
	over := math.MaxInt32
	over++ // negative where an int has 32 bits
	for _, row := range []struct {
		begun []Begun
		want  string
	}{
		{[]Begun{{epoch, 0}}, "out_of_range begun[0].count: 0: must be from 1 to 2147483647"},
		{[]Begun{{epoch, -1}}, "out_of_range begun[0].count: -1: must be from 1 to 2147483647"},
		{[]Begun{{epoch, 1}, {epoch, 1}}, "conflict begun[1].at: \"2026-03-10T09:00:00Z\": must come after that of begun[0]"},
		{[]Begun{{epoch, 1}, {epoch.Add(-1), 1}}, "conflict begun[1].at: \"2026-03-10T08:59:59.999999999Z\": must come after that of begun[0]"},
		{[]Begun{{time.Time{}, 1}}, "required begun[0].at: must be the instant at which the members began"},
		{[]Begun{{epoch, 1}, {time.Time{}, 1}}, "required begun[1].at: must be the instant at which the members began"},
		{[]Begun{{epoch.AddDate(9000, 0, 0), 1}}, "out_of_range begun[0].at: \"11026-03-10T09:00:00Z\": must lie in the years 1 to 9999: RFC 3339 has no name for later instants, so that a lease could not be stored"},
		{[]Begun{{epoch, 1}, {epoch.Add(1), 2147483647}}, ""},
		{[]Begun{{epoch, over}}, fmt.Sprintf("out_of_range begun[0].count: %d: must be from 1 to 2147483647", over)},
		{[]Begun{{epoch, math.MaxInt}}, map[bool]string{true: fmt.Sprintf("out_of_range begun[0].count: %d: must be from 1 to 2147483647", math.MaxInt)}[math.MaxInt > math.MaxInt32]},
	} {
		record := NewRecord("p")
		record.Begun = row.begun
		got := ""
		if err := record.Validate(); err != nil {
			got = faultsOf(t, err)[0]
		}
		if got != row.want {
			t.Errorf("%v: %s, want %s", row.begun, got, row.want)
		}
	}
}

func TestRateFaults(t *testing.T) {
	period := ": must be a whole number of seconds from 1 to 2147483647, such as 3600"
	few := `must be a count of at least 1 such as 5, or a percentage of at least "1%"`
	for _, row := range []struct{ text, want, why string }{
		{`{"limit":5,"periodSeconds":3600}`, "", "the usual"},
		{`{"limit":"1%","periodSeconds":1}`, "", "the least"},
		{`{"limit":2147483647,"periodSeconds":2147483647}`, "", "the most"},
		{`null`, "", "counts as absent"},
		{`{}`, "rate.limit: is required: " + few + "\nrate.periodSeconds: is required" + period, "a rate that says nothing is no rate by mistake"},
		{`{"limit":0,"periodSeconds":3600}`, "rate.limit: 0: " + few + "; to pause, write 0 as the limit on how many may be disrupted at once", "it would pause in a roundabout way"},
		{`{"limit":"0%","periodSeconds":3600}`, `rate.limit: "0%": ` + few + "; to pause, write 0 as the limit on how many may be disrupted at once", "the same"},
		{`{"limit":5,"periodSeconds":-1}`, "rate.periodSeconds: -1" + period, "negative"},
		{`{"limit":5,"periodSeconds":2147483648}`, "rate.periodSeconds: 2147483648" + period, "too long"},
		{`{"limit":5,"period":3600}`, "rate.period: unknown field; did you mean \"periodSeconds\"?", "nearly"},
	} {
		got := ""
		rule, err := ParseRule([]byte(`{"groupSelector":"x","limit":1,"rate":` + row.text + `}`))
		if err != nil {
			got = err.Error()
		}
		if got != row.want {
			t.Errorf("%s: %s:\n%s\nwant\n%s", row.text, row.why, got, row.want)
		}
		if err == nil && row.text != "null" {
			if back := rule.Rate.String(); back != row.text {
				t.Errorf("%s prints as %s", row.text, back)
			}
			if p := rule.Pool("id", "", 9); p.Rate != *rule.Rate {
				t.Errorf("the pool has the rate %v", p.Rate)
			}
		}
	}
	if err := (Rate{}).Validate(); err == nil || err.Error() != "limit: is required: "+few+"\nperiodSeconds: is required"+period {
		t.Errorf("no rate: %v", err)
	}
	_, err := Plan(Snapshot{Pools: []Pool{{Key: "p", Limit: Count(1), Total: 1, Rate: Rate{Limit: Count(1)}}}}, nil, epoch)
	if want := "pools[0].rate.periodSeconds: is required" + period; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	first := Rule{GroupSelector: "a", Limit: Count(1), SharedPool: "s", Rate: &Rate{Count(5), 60}}
	for _, row := range []struct {
		rate *Rate
		want string
	}{
		{&Rate{Count(5), 60}, ""},
		{nil, `rate: unset: must be {"limit":5,"periodSeconds":60} as in the first rule of the shared pool "s"`},
		{&Rate{Percent(5), 60}, `rate: {"limit":"5%","periodSeconds":60}: must be {"limit":5,"periodSeconds":60} as in the first rule of the shared pool "s"`},
	} {
		other := first
		other.Rate = row.rate
		got := ""
		if err := other.ValidateShared(first); err != nil {
			got = err.Error()
		}
		if got != row.want {
			t.Errorf("%s, want %s", got, row.want)
		}
	}
}

// TestQueueKeepsTheRate: a place that becomes free is not one of the rate.
func TestQueueKeepsTheRate(t *testing.T) {
	s := hourly(2, 10).ask("n1", "g", "nodes").ask("n2", "g", "nodes").ask("n1", "h", "nodes")
	q, err := NewQueue(s.Snapshot, epoch)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range s.candidates {
		if _, err := q.Add(c); err != nil {
			t.Fatal(err)
		}
	}
	first := q.Admit()
	if len(first) != 2 || first[0].Claims[0].PeriodSeconds != 3600 || first[1].Claims[0].PeriodSeconds != 3600 {
		t.Fatalf("both of n1, which begins by either: %+v", first)
	}
	if _, err := q.Add(Candidate{Resource: "n1", Group: "i", Needs: []int32{0}}); err != nil {
		t.Fatal(err)
	}
	if again := q.Admit(); len(again) != 1 || again[0].Claims[0].PeriodSeconds != 0 {
		t.Fatalf("n1 has begun: %+v", again)
	}
	for _, group := range []string{"g", "h", "i"} {
		if err := q.Release(0, Holder{"n1", group}, 1); err != nil {
			t.Fatal(err)
		}
	}
	if rest := q.Admit(); len(rest) != 0 || q.Len() != 1 {
		t.Fatalf("%+v started, %d wait", rest, q.Len())
	}
}

// rateModel plans, carries out parts of plans, releases and waits, and keeps a list of its own of
// who began when.
type rateModel struct {
	pool  Pool
	now   time.Time       // by a clock that may be set back
	past  time.Duration   // that has passed in truth
	ahead time.Duration   // of another host's clock, which may be that of any plan
	began []time.Duration // in truth
	seen  testkit.Tally
}

func (m *rateModel) plan(t *rapid.T) {
	resource := rapid.SampledFrom([]string{"n0", "n1", "n2", "n3", "n4", "n5"})
	var candidates []Candidate
	for range rapid.IntRange(1, 4).Draw(t, "candidates") {
		candidates = append(candidates, Candidate{
			Resource: resource.Draw(t, "resource"), Group: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "group"), Rank: rapid.IntRange(0, 3).Draw(t, "rank"), Needs: []int32{0},
		})
	}
	now := m.now
	if m.ahead > 0 && rapid.Bool().Draw(t, "by the clock that is ahead") {
		now = now.Add(m.ahead)
		m.seen["by the clock that is ahead"]++
	}
	s := Snapshot{Pools: []Pool{m.pool}}
	r, err := Plan(s, candidates, now)
	if err != nil {
		t.Fatal(err)
	}
	m.check(t, s, candidates, r, now)
	held := map[string]bool{}
	for _, l := range m.pool.Record.Leases {
		held[l.Resource] = true
	}
	some := subset(t, r.Admitted)
	records, err := Apply(s, candidates, some, now)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range some {
		if c := candidates[a.Candidate]; !held[c.Resource] {
			held[c.Resource] = true
			m.began = append(m.began, m.past)
		}
	}
	if len(records) > 0 {
		m.pool.Record = records[0]
		m.pool.Record.Revision++
	}
	if n := m.within(m.pool.Rate.period() - m.ahead); n > m.pool.Rate.Limit.Value() {
		t.Fatalf("%d began within %v", n, m.pool.Rate.period()-m.ahead)
	}
	if m.within(m.pool.Rate.period()) > m.pool.Rate.Limit.Value() {
		m.seen["more within the period"]++
	}
	for _, refused := range r.Refused {
		m.seen[string(r.Refusals[refused.Why][0].Reason)]++
	}
	m.seen["began"] += len(m.began)
}

// within returns the greatest number of those that began in one half-open interval of that length.
func (m *rateModel) within(length time.Duration) int {
	most := 0
	for _, start := range m.began { // it is enough to look at intervals that begin with a start
		n := 0
		for _, other := range m.began {
			if start <= other && other < start+length {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// check holds a plan against its Next: carried out as a whole, it says the same until then, and at
// RateOpens somebody may begin.
func (m *rateModel) check(t *rapid.T, s Snapshot, candidates []Candidate, r Result, now time.Time) {
	opens := r.Pools[0].RateOpens
	var waiting []Candidate
	rated := false
	for _, refused := range r.Refused {
		waiting = append(waiting, candidates[refused.Candidate])
		rated = rated || r.Refusals[refused.Why][0].Reason == SlotRateFull
	}
	if !rated {
		return
	}
	if r.Next.IsZero() != opens.IsZero() || !opens.Equal(r.Next) {
		t.Fatalf("opens at %v, next %v", opens, r.Next)
	}
	begin := slices.ContainsFunc(r.Admitted, func(a Admitted) bool { return a.Claims[0].PeriodSeconds > 0 })
	if over := now.Add(m.pool.Rate.period()); opens.IsZero() || begin && over.Before(opens) { // some of those that start now must be over, or are so earlier, by a clock that was set back
		opens = over
		m.seen["waited for the plan"]++
	}
	records, err := Apply(s, candidates, r.Admitted, now)
	if err != nil {
		t.Fatal(err)
	}
	if s.Pools = slices.Clone(s.Pools); len(records) > 0 {
		s.Pools[0].Record = records[0]
	}
	for _, at := range []time.Time{now, opens.Add(-1), opens} {
		later, err := Plan(s, waiting, at)
		if err != nil {
			t.Fatal(err)
		}
		started := slices.ContainsFunc(later.Admitted, func(a Admitted) bool { return a.Reason == SlotFree })
		if want := at.Equal(opens); started != want {
			t.Fatalf("at %v, of %v: %v", at, opens, later)
		}
	}
	m.seen["waited for the rate"]++
}

func (m *rateModel) end(t *rapid.T) {
	if len(m.pool.Record.Leases) == 0 {
		return
	}
	l := rapid.SampledFrom(m.pool.Record.Leases).Draw(t, "ends")
	r, err := m.pool.Record.Release(l.Holder, l.Token)
	if err != nil {
		t.Fatal(err)
	}
	m.pool.Record = r
}

func (m *rateModel) wait(t *rapid.T) {
	d := time.Duration(rapid.IntRange(1, 70).Draw(t, "seconds")) * time.Second
	m.now, m.past = m.now.Add(d), m.past+d
}

func (m *rateModel) back(t *rapid.T) {
	m.now = m.now.Add(-time.Duration(rapid.IntRange(1, 30).Draw(t, "seconds back")) * time.Second)
	m.seen["the clock is set back"]++
}

// TestI13: no interval of the period has more beginnings than the rate lets, whichever part of a
// plan is carried out, whoever ends meanwhile, and by a clock that is set back.
func TestI13(t *testing.T) {
	seen := testkit.Tally{}
	seen.Check(t, func(t *rapid.T) {
		m := &rateModel{now: epoch, seen: seen, pool: Pool{
			Key: "nodes", Total: 6, Limit: Count(rapid.IntRange(1, 6).Draw(t, "limit")), Rate: Rate{Count(rapid.IntRange(1, 3).Draw(t, "rate")), 60}, Record: NewRecord("nodes"),
		}}
		t.Repeat(map[string]func(*rapid.T){"plan": m.plan, "plan again": m.plan, "end": m.end, "wait": m.wait, "back": m.back})
	}, "began", string(SlotRateFull), string(SlotFull), "waited for the rate", "waited for the plan", "the clock is set back")
}

// TestRateByTwoClocks: where the clock of one host is ahead of another's, what the first one takes
// for over is not over by the second. The intervals in which at most as many begin as the rate lets
// are shorter by the difference, and no more than that.
func TestRateByTwoClocks(t *testing.T) {
	seen := testkit.Tally{}
	seen.Check(t, func(t *rapid.T) {
		m := &rateModel{now: epoch, ahead: time.Duration(rapid.IntRange(1, 50).Draw(t, "seconds ahead")) * time.Second, seen: seen, pool: Pool{
			Key: "nodes", Total: 6, Limit: Count(6), Rate: Rate{Count(rapid.IntRange(1, 3).Draw(t, "rate")), 60}, Record: NewRecord("nodes"),
		}}
		t.Repeat(map[string]func(*rapid.T){"plan": m.plan, "plan again": m.plan, "end": m.end, "wait": m.wait, "back": m.back})
	}, "began", string(SlotRateFull), "waited for the rate", "the clock is set back", "by the clock that is ahead", "more within the period")
}

func TestRatePrints(t *testing.T) {
	s := hourly(1, 10).ask("n1", "g", "nodes")
	want := "0 candidates may start, 1 must wait\nn1 for g must wait: slot_rate_full in pool nodes\npool nodes: 0 of at most 9 active, 10 members, rate opens at 2026-03-10T09:50:00Z\nnext: 2026-03-10T09:50:00Z"
	if got := s.plan(t).Describe(s.Snapshot, s.candidates); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	for _, rate := range []Rate{{Limit: Count(5), PeriodSeconds: 3600}, {Limit: Percent(5), PeriodSeconds: 60}, {PeriodSeconds: 60}, {Limit: Count(5)}} {
		text, err := json.Marshal(rate)
		if err != nil || rate.String() != string(text) {
			t.Errorf("a rate prints as %s, in JSON it is %s, %v", rate, text, err)
		}
	}
	if text := (Rate{}).String(); text != "unset" {
		t.Errorf("no rate prints as %s", text)
	}
	var e *FieldError
	if err := (Rate{Limit: Count(1), PeriodSeconds: -1}).Validate(); !errors.As(err, &e) || fmt.Sprint(e.Code) != string(CodeOutOfRange) {
		t.Errorf("%v", err)
	}
}

// TestNextOfARate: until Next a plan says the same whenever it is made anew, also of a record by a
// clock that was ahead. A plan that admitted one candidate before such a beginning was over had no
// Next, as if the other one waited for that start alone; but the host may leave the start out, and
// then both may begin. And as soon as the beginning lay ahead no more, RateOpens was another one.
func TestNextOfARate(t *testing.T) {
	seen := testkit.Tally{}
	seen.Check(t, func(t *rapid.T) {
		s := drawSnapshot(t, epoch)
		for i := range s.Pools {
			p := &s.Pools[i]
			at := epoch
			if n := len(p.Record.Begun); n > 0 && p.Record.Begun[n-1].At.After(at) {
				at = p.Record.Begun[n-1].At
			}
			if !p.Rate.IsZero() && rapid.Bool().Draw(t, "ahead") {
				p.Record.Begun = append(p.Record.Begun, Begun{at.Add(time.Duration(rapid.IntRange(1, 200).Draw(t, "seconds ahead")) * time.Second), 1})
			}
		}
		candidates := drawCandidates(t, s)
		r, err := Plan(s, candidates, epoch)
		if err != nil {
			t.Fatal(err)
		}
		last := epoch.Add(time.Hour)
		if !r.Next.IsZero() {
			last = r.Next.Add(-1)
		}
		for _, at := range []time.Time{epoch.Add(1), epoch.Add(last.Sub(epoch) / 3), last} {
			if at.After(last) {
				continue
			}
			later, err := Plan(s, candidates, at)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(r, later); diff != "" {
				t.Fatalf("at %v, next is %v: %s", at, r.Next, diff)
			}
			seen["the same"]++
		}
		for _, p := range r.Pools {
			if !p.RateOpens.IsZero() {
				seen["opens"]++
			}
		}
	}, "the same", "opens")
}

// TestRateLets: how many more may begin, and when so many may that do not yet.
func TestRateLets(t *testing.T) {
	at := func(minutes int) time.Time { return epoch.Add(time.Duration(minutes) * time.Minute) }
	for _, row := range []struct {
		why   string
		scene *scene
		n     int
		lets  bool
		at    time.Time
	}{
		{"as many as the rate", hourly(2), 2, true, time.Time{}},
		{"more than it ever lets at once", hourly(2), 3, false, time.Time{}},
		{"one is left beside one that began", hourly(2, 10), 1, true, time.Time{}},
		{"two are when that is over", hourly(2, 10), 2, false, at(50)},
		{"the first of two is enough", hourly(3, 50, 10), 2, false, at(10)},
		{"both must be over", hourly(3, 50, 10), 3, false, at(50)},
		{"more have begun than it lets by now", hourly(1, 50, 10), 0, false, at(10)},
		{"without a rate", newScene(ten(Count(1))), 99, true, time.Time{}},
		{"no sum overflows", hourly(1, 50, 10), math.MaxInt, false, time.Time{}},
		{"nor the other way", hourly(1, 50, 10), math.MinInt, true, time.Time{}},
	} {
		if lets, opens := row.scene.Pools[0].RateLets(row.n, epoch); lets != row.lets || !opens.Equal(row.at) {
			t.Errorf("%s: %v %v, want %v %v", row.why, lets, opens, row.lets, row.at)
		}
	}
}

// TestHaltedBeginsNothing: n1 is down, and its pool halted; the group that is at work there needs the
// pool from now on, and another group comes with it. That disrupts nobody who was not.
func TestHaltedBeginsNothing(t *testing.T) {
	s := hourly(1).edited(func(p *Pool) { p.HaltAboveUnavailable = Count(0) }).unavailable("nodes", "n1")
	s.Pools = append(s.Pools, Pool{Key: "zone", Limit: Count(1), Total: 5, Record: NewRecord("zone")})
	s.lease("zone", "n1", "g", 0).ask("n1", "g", "nodes", "zone").ask("n1", "h", "nodes")
	plan := s.plan(t)
	if len(plan.Admitted) != 2 {
		t.Fatalf("%v", plan)
	}
	for _, a := range plan.Admitted {
		for _, claim := range a.Claims {
			if claim.PeriodSeconds != 0 {
				t.Errorf("%v begins: %+v", s.candidates[a.Candidate], claim)
			}
		}
	}
}

// TestRateOfAReservedKey: a pool is paused, and its rate used up. Two starts on n1, which is down there,
// need the key of its family: the first also that of another pool, so it waits, and reserves what
// the second needs. Neither waits for the rate.
func TestRateOfAReservedKey(t *testing.T) {
	paused := Pool{Key: "a", Limit: Count(0), Total: 5, Family: "f", MaxActiveKeys: 1, Rate: Rate{Count(1), 3600}, Keyless: []Holder{{"n1", "g"}}}
	s := newScene(paused, Pool{Key: "b", Limit: Count(1), Total: 5, Family: "f", MaxActiveKeys: 1}, Pool{Key: "c", Limit: Count(1), Total: 5, Strict: true}).
		lease("a", "n1", "g", 0).ask("n1", "h", "a", "b", "c").ask("n1", "h", "a", "c")
	s.Pools[0].Record.Begun = []Begun{{epoch.Add(-time.Minute), 1}}
	plan := s.plan(t)
	if got, want := s.verdict(plan), []string{"n1 b:slot_keys_full", "n1 a:slot_reserved"}; !slices.Equal(got, want) || !plan.Pools[0].RateOpens.IsZero() || !plan.Next.IsZero() {
		t.Errorf("%q, want %q, opens %v, next %v", got, want, plan.Pools[0].RateOpens, plan.Next)
	}
}
