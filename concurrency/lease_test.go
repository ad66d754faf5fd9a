package concurrency

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// issue gives a holder a lease with the next token.
func issue(t testing.TB, r Record, h Holder, at time.Time) Record {
	t.Helper()
	next, err := r.Claim(Claim{Revision: r.Revision, Token: r.NextToken}, h, at)
	if err != nil {
		t.Fatal(err)
	}
	return next
}

func TestRecordLife(t *testing.T) {
	a, b, c := Holder{"n1", "a"}, Holder{"n1", "b"}, Holder{"n0", "c"}
	empty := NewRecord("p")
	r := issue(t, issue(t, issue(t, empty, b, epoch), a, epoch), c, epoch)
	if len(empty.Leases) != 0 || empty.NextToken != 1 {
		t.Error("the old record was touched")
	}
	var order []Holder
	for _, l := range r.Leases {
		order = append(order, l.Holder)
	}
	if diff := cmp.Diff([]Holder{c, a, b}, order); diff != "" {
		t.Error(diff)
	}
	if err := r.Validate(); err != nil || r.NextToken != 4 {
		t.Error(err, r.NextToken)
	}

	// Re-entrant: the same claim again, at whatever revision, is the same record.
	again, err := r.Claim(Claim{Revision: 99, Token: 2}, a, epoch.Add(time.Hour))
	if diff := cmp.Diff(r, again); diff != "" || err != nil {
		t.Error(diff, err)
	}
	for _, bad := range []struct {
		claim Claim
		want  error
		why   string
	}{
		{Claim{Revision: 0, Token: 1}, ErrFenced, "an older token of a present holder"},
		{Claim{Revision: 0, Token: 9}, ErrFenced, "a newer token of a present holder"},
	} {
		if _, err := r.Claim(bad.claim, a, epoch); !errors.Is(err, bad.want) {
			t.Errorf("%v: %s", err, bad.why)
		}
	}
	// What could not be read again is not made: a pool whose record is refused by ParseRecord would
	// stand still for good.
	for _, bad := range []struct {
		record Record
		holder Holder
		want   string
		why    string
	}{
		{r, Holder{"", "a"}, "resource: is required: a lease without one could not be read again", "nobody holds it"},
		{r, Holder{"n\xff", "a"}, `resource: "n\xff": must be UTF-8: a lease with another name could not be read again`, "JSON makes n\ufffd of it, and of n\xfe as well"},
		{r, Holder{"n2", "\xff"}, `group: "\xff": must be UTF-8: a lease with another name could not be read again`, "the holder would not find its lease"},
		{Record{}, a, "schema: 0: must be 1: a record of a pool that nobody ever used is made by NewRecord", "not a record"},
	} {
		got, err := bad.record.Claim(Claim{Revision: bad.record.Revision, Token: 4}, bad.holder, epoch)
		var fault *FieldError
		if !errors.As(err, &fault) || fault.Code == "" || err.Error() != bad.want || cmp.Diff(bad.record, got) != "" {
			t.Errorf("%s: %v, %v", bad.why, got, err)
		}
	}
	odd := newScene(ten(Count(2))).ask("\xfe", "g", "nodes").ask("\xff", "g", "nodes")
	var fault *FieldError
	if records, err := Apply(odd.Snapshot, odd.candidates, odd.plan(t).Admitted, epoch); !errors.As(err, &fault) || records != nil {
		t.Errorf("what JSON makes one holder of: %v, %v", records, err)
	}
	// Starts of two plans, of which the second did not know the first: a record has a token once, and
	// a holder once.
	two := newScene(ten(Count(2))).ask("n1", "g", "nodes").ask("n1", "g", "nodes").ask("n2", "g", "nodes")
	admitted := two.plan(t).Admitted
	for _, token := range [][2]uint64{{1, 1}, {2, 2}, {2, 1}, {2, 3}} { // of the second start of n1, and of that of n2
		mixed := slices.Clone(admitted)
		for i, token := range token {
			mixed[1+i].Claims = []Claim{{Pool: 0, Token: token}}
		}
		records, err := Apply(two.Snapshot, two.candidates, mixed, epoch)
		if !errors.Is(err, ErrFenced) || records != nil {
			t.Errorf("tokens 1, %v: %v, %v", token, records, err)
		}
		want := map[[2]uint64]string{
			{2, 2}: "n1 for g and n2 for g claim pool nodes with the same token 2",
			{2, 3}: "n1 for g claims pool nodes with the tokens 1 and 2",
		}[token]
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the starts are told apart by their holders, and the two of n1 by their tokens: %v", err)
		}
	}
	if _, err := r.Claim(Claim{Revision: 1, Token: 4}, Holder{"n2", "a"}, epoch); !errors.Is(err, ErrConflict) || !strings.Contains(err.Error(), "pool p is at revision 0, the claim of n2 for a was planned at 1") {
		t.Errorf("a claim planned at another revision: %v", err)
	}
	if _, err := r.Claim(Claim{Token: 3}, Holder{"n2", "a"}, epoch); !errors.Is(err, ErrFenced) {
		t.Errorf("a token that was issued: %v", err)
	}
	skipped, err := r.Claim(Claim{Token: 8}, Holder{"n2", "a"}, epoch)
	if err != nil || skipped.NextToken != 9 {
		t.Errorf("claims of a plan may be left out: %v", err)
	}

	// Renewal.
	later, err := r.Renew(a, 2, epoch.Add(time.Minute))
	if l, _ := later.Lease(a); err != nil || !l.ProgressAt.Equal(epoch.Add(time.Minute)) || !l.Since.Equal(epoch) {
		t.Error(later, err)
	}
	if l, _ := r.Lease(a); !l.ProgressAt.Equal(epoch) {
		t.Error("the old record was touched")
	}
	earlier, err := later.Renew(a, 2, epoch.Add(time.Second))
	if diff := cmp.Diff(later, earlier); diff != "" || err != nil {
		t.Error("progress that arrives late takes nothing back: ", diff, err)
	}
	if n := testing.AllocsPerRun(10, func() { _, _ = later.Renew(a, 2, epoch.Add(time.Second)) }); n != 0 {
		t.Errorf("%v allocations for a report that is no news: a host gives all that it sees, each time", n)
	}

	// Quarantine and back.
	quarantined, err := later.Quarantine(a, 2, "stuck for 2h")
	if l, _ := quarantined.Lease(a); err != nil || l.State != Quarantined || l.Reason != "stuck for 2h" {
		t.Error(quarantined, err)
	}
	back, err := quarantined.Renew(a, 2, epoch.Add(time.Hour))
	if l, _ := back.Lease(a); err != nil || l.State != Active || l.Reason != "" || !l.ProgressAt.Equal(epoch.Add(time.Hour)) {
		t.Error("progress ends quarantine: ", back, err)
	}
	for _, old := range []time.Time{epoch, epoch.Add(time.Minute)} {
		same, err := quarantined.Renew(a, 2, old)
		if diff := cmp.Diff(quarantined, same); diff != "" || err != nil {
			t.Error("the progress that was known at the quarantine, reported once more, does not end it: ", diff, err)
		}
	}

	// Fencing: whatever carries a token that is not the lease's, or that of a lease that is gone.
	gone, err := r.Release(a, 2)
	if _, ok := gone.Lease(a); ok || err != nil || gone.NextToken != 4 || len(gone.Leases) != 2 {
		t.Error(gone, err)
	}
	second := issue(t, gone, a, epoch)
	if l, _ := second.Lease(a); l.Token != 4 {
		t.Errorf("a lease after release has a greater token: %+v", l)
	}
	for name, try := range map[string]func(Record, uint64) (Record, error){
		"release":    func(r Record, token uint64) (Record, error) { return r.Release(a, token) },
		"renew":      func(r Record, token uint64) (Record, error) { return r.Renew(a, token, epoch.Add(time.Hour)) },
		"quarantine": func(r Record, token uint64) (Record, error) { return r.Quarantine(a, token, "x") },
	} {
		for _, c := range []struct {
			record Record
			token  uint64
		}{{gone, 2}, {second, 2}, {second, 5}, {second, 0}} {
			after, err := try(c.record, c.token)
			if diff := cmp.Diff(c.record, after); !errors.Is(err, ErrFenced) || diff != "" {
				t.Errorf("%s with token %d: %v %s", name, c.token, err, diff)
			}
		}
		if _, err := try(second, 4); err != nil {
			t.Errorf("%s with the present token: %v", name, err)
		}
	}

	for token, want := range map[uint64]string{0: "was never issued", 2: "was given up", 3: "is that of n0 for c", 4: "was never issued"} {
		want := fmt.Sprintf("n9 for z holds nothing in pool p, where token %d %s", token, want)
		if _, err := gone.Release(Holder{"n9", "z"}, token); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("a token that belongs elsewhere does not say that a slot was lost: got %v, want %s", err, want)
		}
	}

	for key, want := range map[string]string{
		"\xff":    `type key: "\xff": must be UTF-8: a record with another key could not be read again`,
		"p/\xe4x": `type key: "p/\xe4x": must be UTF-8: a record with another key could not be read again`,
		"":        "required key: is required: a record without one could not be read again",
	} {
		strange := NewRecord(key)
		after, err := strange.Claim(Claim{Token: 1}, a, epoch)
		if diff := cmp.Diff(strange, after); diff != "" || err == nil || !slices.Equal(faultsOf(t, err), []string{want}) {
			t.Errorf("a record under the key %q could not be read again: %v %s", key, err, diff)
		}
	}

	last := r
	last.NextToken = math.MaxUint64
	if _, err := last.Claim(Claim{Token: math.MaxUint64}, Holder{"n9", "z"}, epoch); err == nil {
		t.Error("no token can follow the last one")
	}
}

// TestUnsetClock: a clock that nobody set tells the zero time. Every function that takes an instant
// refuses it, whatever else it is asked, and changes and decides nothing.
func TestUnsetClock(t *testing.T) {
	const claiming = "required now: must be set to the present instant: a lease since the zero time would be stuck at once, and older than every job"
	const planning = "required now: must be set to the present instant: at the zero time no lease is ever stuck"
	h := Holder{"n1", "g"}
	s := newScene(ten(Count(2))).lease("nodes", "n1", "g", 0).quarantined("nodes", "n1").ask("n1", "g", "nodes").ask("n2", "g", "nodes")
	record, plan := s.Pools[0].Record, s.plan(t)
	held, new := plan.Admitted[:1], plan.Admitted[1:]
	if held[0].Reason != SlotHeld || new[0].Reason != SlotFree {
		t.Fatalf("%+v", plan.Admitted)
	}
	var zero time.Time
	for _, c := range []struct {
		name string
		try  func(time.Time) (changed bool, err error)
		want string
		why  string
	}{
		{"plan", func(now time.Time) (bool, error) {
			r, err := Plan(s.Snapshot, s.candidates, now)
			return cmp.Diff(Result{}, r) != "", err
		}, planning, "a stuck lease would hold its place for good, and nobody would be told"},
		{"plan nothing", func(now time.Time) (bool, error) {
			_, err := Plan(Snapshot{}, nil, now)
			return false, err
		}, planning, "whether the clock is set does not depend on the fleet"},
		{"queue", func(now time.Time) (bool, error) {
			q, err := NewQueue(s.Snapshot, now)
			return q != nil, err
		}, planning, "like a plan"},
		{"apply", func(now time.Time) (bool, error) {
			records, err := Apply(s.Snapshot, s.candidates, new, now)
			return records != nil, err
		}, claiming, "the lease would be the oldest of all"},
		{"apply what is held", func(now time.Time) (bool, error) {
			records, err := Apply(s.Snapshot, s.candidates, held, now)
			return records != nil, err
		}, claiming, "no lease is added, but the next batch may add one"},
		{"claim", func(now time.Time) (bool, error) {
			r, err := record.Claim(Claim{Token: 2}, Holder{"n2", "g"}, now)
			return cmp.Diff(record, r) != "", err
		}, claiming, "the lease would be the oldest of all"},
		{"claim again", func(now time.Time) (bool, error) {
			r, err := record.Claim(Claim{Token: 1}, h, now)
			return cmp.Diff(record, r) != "", err
		}, claiming, "re-entrant or not"},
		{"renew", func(now time.Time) (bool, error) {
			r, err := record.Renew(h, 1, now)
			return cmp.Diff(record, r) != "", err
		}, "required at: must be the instant of the progress", "the lease would leave quarantine without any progress, and be stuck at once"},
	} {
		if changed, err := c.try(zero); changed || err == nil || !slices.Equal(faultsOf(t, err), []string{c.want}) {
			t.Errorf("%s: changed %t, %v: %s", c.name, changed, err, c.why)
		}
		for _, far := range []time.Time{time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(-1, 12, 31, 0, 0, 0, 0, time.UTC)} {
			changed, err := c.try(far)
			if c.want == planning {
				continue // a plan stores nothing
			}
			if changed || err == nil || len(faultsOf(t, err)) != 1 || !strings.HasPrefix(faultsOf(t, err)[0], "out_of_range ") {
				t.Errorf("%s at %v: changed %t, %v: no record could hold that", c.name, far, changed, err)
			}
		}
		for _, none := range []time.Time{time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC), time.Time{}.Add(-1)} {
			changed, err := c.try(none)
			if changed || err == nil || len(faultsOf(t, err)) != 1 || !strings.HasPrefix(faultsOf(t, err)[0], "out_of_range ") || !strings.Contains(err.Error(), "the year 0") {
				t.Errorf("%s at %v: changed %t, %v: some databases write the year 0 for a missing date", c.name, none, changed, err)
			}
		}
		for _, good := range []time.Time{epoch, time.Time{}.Add(1), time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)} {
			if _, err := c.try(good); err != nil {
				t.Errorf("%s at %v, with a clock: %v", c.name, good, err)
			}
		}
	}
	if _, err := record.Renew(h, 7, zero); !errors.Is(err, ErrFenced) {
		t.Errorf("who lost the lease must hear of that first: %v", err)
	}
	if _, err := Plan(Snapshot{Pools: []Pool{{}}}, []Candidate{{}}, zero); len(faultsOf(t, err)) != 4 {
		t.Errorf("the other faults are reported as well: %v", err)
	}
}

// TestLastLease: a pool that is empty again is stored and read like a new one, but for its tokens.
func TestLastLease(t *testing.T) {
	h := Holder{"n1", "a"}
	r, err := issue(t, NewRecord("p"), h, epoch).Release(h, 1)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(r)
	if err != nil || string(text) != `{"schema":1,"key":"p","revision":0,"nextToken":2,"leases":[]}` {
		t.Errorf("%s, %v", text, err)
	}
	if back, err := ParseRecord(text); err != nil || cmp.Diff(r, back) != "" {
		t.Errorf("%+v, %v", back, err)
	}
}

// TestInstantsAreStoredAsTheyAre: a record comes back from a store as it was, whatever clock the
// host has.
func TestInstantsAreStoredAsTheyAre(t *testing.T) {
	h, amsterdam := Holder{"n1", "g"}, time.FixedZone("LMT", 19*60+32) // JSON knows no seconds of a zone
	for name, now := range map[string]time.Time{"monotonic": time.Now(), "zone": epoch.In(time.FixedZone("x", 3600)), "seconds": epoch.In(amsterdam)} {
		claimed := issue(t, NewRecord("p"), h, now)
		s := newScene(ten(Count(1))).ask("n1", "g", "nodes")
		applied, err := Apply(s.Snapshot, s.candidates, s.plan(t).Admitted, now)
		if err != nil {
			t.Fatal(err)
		}
		renewed, err := claimed.Renew(h, 1, now.Add(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range []Record{claimed, applied[0], renewed} {
			data, err := json.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			if back, err := ParseRecord(data); err != nil || back.Leases[0] != r.Leases[0] || !r.Leases[0].Since.Equal(now) {
				t.Errorf("%s: %+v comes back as %+v, %v", name, r.Leases[0], back, err)
			}
		}
	}
}

func TestOrphans(t *testing.T) {
	r := issue(t, issue(t, NewRecord("p"), Holder{"n1", "a"}, epoch), Holder{"n2", "a"}, epoch)
	orphans := r.Orphans([]Holder{{"n2", "a"}, {"n3", "a"}})
	if len(orphans) != 1 || orphans[0].Resource != "n1" || orphans[0].Token != 1 {
		t.Errorf("%+v", orphans)
	}
	if o := r.Orphans(nil); len(o) != 2 || o[1].Resource != "n2" {
		t.Errorf("nobody lives, so all are: %+v", o)
	}
	if o := r.Orphans([]Holder{{"n1", "a"}, {"n2", "a"}}); o != nil {
		t.Errorf("%+v", o)
	}
	abandoned, err := r.Quarantine(Holder{"n1", "a"}, 1, "abandoned")
	if err != nil {
		t.Fatal(err)
	}
	if o := abandoned.Orphans([]Holder{{"n2", "a"}}); len(o) != 1 || o[0].State != Quarantined {
		t.Errorf("the lease of an abandoned execution, which counts until somebody releases it: %+v", o)
	}
}

// TestConfirms: a list that nobody keeps says nothing of a lease; an empty one says that nobody
// began under it, and is stored as one.
func TestConfirms(t *testing.T) {
	h := Holder{"n1", "a"}
	first := issue(t, NewRecord("p/a"), h, epoch)
	again, err := first.Release(h, 1)
	if err != nil {
		t.Fatal(err)
	}
	again = issue(t, again, h, epoch)
	for _, row := range []struct {
		list          []Confirmation
		first, second bool
		text          string
		why           string
	}{
		{nil, true, true, "", "nobody keeps it"},
		{[]Confirmation{}, false, false, `,"confirmed":[]`, "nobody began"},
		{[]Confirmation{{"p/a", 1}, {"p/b", 2}}, true, false, `,"confirmed":[{"pool":"p/a","token":1},{"pool":"p/b","token":2}]`, "a lease that was given back and taken again is another one"},
	} {
		family := NewRecord("p")
		family.Confirmed = row.list
		if family.Confirms(first.Leases[0]) != row.first || family.Confirms(again.Leases[0]) != row.second {
			t.Errorf("%s: %v and %v", row.why, family.Confirms(first.Leases[0]), family.Confirms(again.Leases[0]))
		}
		text, err := json.Marshal(family)
		if want := `{"schema":1,"key":"p","revision":0,"nextToken":1,"leases":[]` + row.text + `}`; err != nil || string(text) != want {
			t.Errorf("%s: %s, %v", row.why, text, err)
		}
		if back, err := ParseRecord(text); err != nil || cmp.Diff(family, back) != "" {
			t.Errorf("%s: %+v, %v", row.why, back, err)
		}
	}
}

func TestRecordJSON(t *testing.T) {
	r := issue(t, NewRecord("zone/a"), Holder{"n1", "g/7"}, epoch.Add(123456789))
	r, _ = r.Quarantine(Holder{"n1", "g/7"}, 1, "stuck")
	r.Revision = 3
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"schema":1,"key":"zone/a","revision":3,"nextToken":2,"leases":[{"pool":"zone/a","resource":"n1","group":"g/7","token":1,"state":"quarantined","since":"2026-03-10T09:00:00.123456789Z","progressAt":"2026-03-10T09:00:00.123456789Z","reason":"stuck"}]}`
	if string(text) != want {
		t.Errorf("%s\nwant\n%s", text, want)
	}
	back, err := ParseRecord(text)
	if diff := cmp.Diff(r, back); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if empty, _ := json.Marshal(NewRecord("p")); string(empty) != `{"schema":1,"key":"p","revision":0,"nextToken":1,"leases":[]}` {
		t.Errorf("%s", empty)
	}
	lease := func(fields string) string {
		return `{"schema":1,"key":"p","revision":0,"nextToken":9,"leases":[` + fields + `]}`
	}
	confirmed := func(list string) string {
		return `{"schema":1,"key":"p","revision":0,"nextToken":1,"leases":[],"confirmed":[` + list + `]}`
	}
	const good = `{"pool":"p","resource":"n1","group":"a","token":1,"state":"active","since":"2026-03-10T09:00:00Z","progressAt":"2026-03-10T09:00:00Z"}`
	for _, c := range []struct {
		text string
		want []string
		why  string
	}{
		{`{"schema":2,"key":"","revision":0,"nextToken":0,"leases":[]}`, []string{"unknown_value schema: 2: must be 1: written by", "required key", "out_of_range nextToken: 0"}, "all faults at once"},
		{`{"schema":1,"key":"p","revision":0,"nextToken":1,"leases":[],"extra":1}`, []string{"unknown_field extra"}, "unknown field"},
		{`{"schema":1,"key":"p","revision":-1,"nextToken":1,"leases":[]}`, []string{"type revision"}, "negative revision"},
		{lease(strings.Replace(good, `"pool":"p"`, `"pool":"q"`, 1)), []string{`conflict leases[0].pool: "q"`}, "lease of another pool"},
		{lease(strings.Replace(good, `"n1"`, `""`, 1)), []string{"required leases[0].resource"}, "nobody's lease"},
		{lease(strings.Replace(good, `"token":1`, `"token":9`, 1)), []string{"out_of_range leases[0].token: 9"}, "a token that is to be issued yet"},
		{lease(strings.Replace(good, `"token":1`, `"token":0`, 1)), []string{"out_of_range leases[0].token: 0"}, "no token"},
		{lease(strings.Replace(good, `"active"`, `"stuck"`, 1)), []string{`unknown_value leases[0].state: "stuck"`}, "unknown state"},
		{lease(strings.Replace(good, `,"since":"2026-03-10T09:00:00Z","progressAt":"2026-03-10T09:00:00Z"`, "", 1)), []string{"required leases[0].since", "required leases[0].progressAt"}, "it would be stuck at once, and might be forgiven"},
		{lease(strings.Replace(good, `,"progressAt":"2026-03-10T09:00:00Z"`, "", 1)), []string{"required leases[0].progressAt"}, "it would be stuck as soon as its holder runs"},
		{lease(strings.ReplaceAll(good, "2026-03-10T09:00:00Z", "0000-12-31T23:59:59Z")), []string{"out_of_range leases[0].since", "out_of_range leases[0].progressAt"}, "some databases write the year 0 for a missing date"},
		{lease(good + "," + strings.Replace(good, `"n1"`, `"n2"`, 1)), []string{"duplicate leases[1].token: 1: is also"}, "one token twice"},
		{lease(good + "," + strings.Replace(good, `"token":1`, `"token":2`, 1)), []string{"conflict leases[1]: n1 for a"}, "one holder twice"},
		{lease(good + "," + strings.Replace(strings.Replace(good, `"token":1`, `"token":2`, 1), `"n1"`, `"n0"`, 1)), []string{"conflict leases[1]: n0 for a"}, "out of order"},
		{confirmed(`{"pool":"p/a","token":0},{"token":1}`), []string{"required confirmed[0]", "required confirmed[1]", "conflict confirmed[1]:  1"}, "leases of nobody"},
		{confirmed(`{"pool":"p/a","token":2},{"pool":"p/a","token":2}`), []string{"conflict confirmed[1]: p/a 2"}, "a lease twice"},
		{confirmed(`{"pool":"p/b","token":1},{"pool":"p/a","token":2}`), []string{"conflict confirmed[1]: p/a 2"}, "pools out of order"},
		{``, []string{"syntax the document is empty"}, "nothing"},
	} {
		got, err := ParseRecord([]byte(c.text))
		if err == nil {
			t.Errorf("%s: no error", c.why)
			continue
		}
		lines := faultsOf(t, err)
		if len(lines) != len(c.want) || got.Key != "" {
			t.Errorf("%s: %q", c.why, lines)
			continue
		}
		for i := range lines {
			if !strings.HasPrefix(lines[i], c.want[i]) {
				t.Errorf("%s: %q, want %q", c.why, lines[i], c.want[i])
			}
		}
	}
	for _, unknown := range []LeaseState{"", "Active", "stuck"} {
		bad := issue(t, NewRecord("p"), Holder{"n1", "a"}, epoch)
		bad.Leases[0].State = unknown
		if err := bad.Validate(); err == nil || err.Error() != fmt.Sprintf("leases[0].state: %q: %s", unknown, hintState) {
			t.Errorf("the state of a lease is never guessed: %v", err)
		}
	}
}
