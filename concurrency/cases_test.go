package concurrency

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

type sharedCase struct {
	ID       string                     `json:"id"`
	Area     string                     `json:"area"`
	Kind     string                     `json:"kind"`
	Source   string                     `json:"source"`
	Input    map[string]json.RawMessage `json:"input"`
	Expected map[string]json.RawMessage `json:"expected"`
}

// TestCases runs the recorded cases. Each is described by its id and its source; a case that no
// branch understands fails.
func TestCases(t *testing.T) {
	data, err := os.ReadFile("testdata/cases.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Cases []sharedCase }
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	for _, c := range file.Cases {
		t.Run(c.ID, func(t *testing.T) {
			switch {
			case c.Area == "concurrency.batch":
				batchCase(t, c)
			case c.ID == "conc-simulate-10-nodes":
				simulateCase(t, c)
			case strings.HasPrefix(c.ID, "conc-target-"):
				statusCase(t, c)
			case c.Input["ask"] != nil || c.Input["ask_all_in_one_plan"] != nil:
				askCase(t, c)
			default:
				limitCase(t, c)
			}
		})
	}
	if len(file.Cases) != 30 {
		t.Errorf("%d cases, want 30", len(file.Cases))
	}
}

func decode[T any](t *testing.T, raw json.RawMessage) T {
	t.Helper()
	var v T
	if raw == nil {
		return v
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return v
}

// caseLimit reads {"percent":20} or {"count":2} through the rule's pair.
func caseLimit(t *testing.T, raw json.RawMessage) (Limit, error) {
	pair := decode[map[string]int64](t, raw)
	if len(pair) != 1 {
		t.Fatalf("limit %s", raw)
	}
	r := Rule{GroupSelector: "true"}
	for k, v := range pair {
		r.LimitType, r.LimitValue = map[string]string{"percent": "percentage", "count": "count"}[k], &v
	}
	return r.Max(), r.Validate()
}

func limitCase(t *testing.T, c sharedCase) {
	l, err := caseLimit(t, c.Input["limit"])
	if c.Expected["error"] != nil {
		if fault := (*FieldError)(nil); !errors.As(err, &fault) || fault.Code != CodeOutOfRange || fault.Hint == "" {
			t.Errorf("error %v, want a FieldError of code out_of_range", err)
		}
		return
	}
	total := decode[int](t, c.Input["total"])
	if err != nil || c.Expected["max_ceil"] == nil {
		t.Fatalf("%v, %v", err, c)
	}
	if got := l.Of(total, Ceil); got != decode[int](t, c.Expected["max_ceil"]) {
		t.Errorf("ceil: %d", got)
	}
	if got := l.Of(total, FloorMin1); got != decode[int](t, c.Expected["max_floor_min1"]) {
		t.Errorf("floor_min_1: %d", got)
	}
}

func statusCase(t *testing.T, c sharedCase) {
	busy := false
	for _, status := range decode[[]string](t, c.Input["jobs_on_target"]) {
		busy = busy || !Terminal(status)
	}
	if want := decode[string](t, c.Expected["decision"]) == "deny"; busy != want {
		t.Errorf("busy %v, want %v", busy, want)
	}
}

// askCase asks for one candidate, or for several in one batch, in one pool.
func askCase(t *testing.T, c sharedCase) {
	p := Pool{Key: "pool", Record: NewRecord("pool"), Limit: Count(99)}
	members := map[string]bool{}
	if raw := c.Input["group"]; raw != nil && raw[0] == '[' {
		for _, m := range decode[[]string](t, raw) {
			members[m] = true
		}
		p.Total = len(members)
	} else {
		p.Total = max(decode[int](t, raw), decode[int](t, c.Input["total"]))
	}
	limit, err := caseLimit(t, c.Input["limit"])
	if err != nil {
		t.Fatal(err)
	}
	p.Limit = limit
	if c.Input["jobs"] != nil {
		p.Total = 10
		for _, job := range decode[[][2]string](t, c.Input["jobs"]) {
			p.Jobs = append(p.Jobs, Holder{job[0], job[1]})
		}
	}
	claim := func(resource string, since time.Time) {
		r, err := p.Record.Claim(Claim{Token: p.Record.NextToken}, Holder{resource, "g"}, since)
		if err != nil {
			t.Fatal(err)
		}
		p.Record = r
	}
	for _, key := range []string{"holders", "active"} {
		for _, h := range decode[[]string](t, c.Input[key]) {
			claim(h, epoch)
		}
	}
	s := Snapshot{}
	leases := decode[map[string]string](t, c.Input["lease"])
	for _, resource := range slices.Sorted(maps.Keys(leases)) {
		since := epoch
		if leases[resource] == "stuck 2h" {
			since = epoch.Add(-2 * time.Hour)
		}
		claim(resource, since)
		if leases[resource] != "group A executing, no job running" {
			s.Running = append(s.Running, Holder{resource, "g"})
		}
	}
	p.Unavailable = decode[[]string](t, c.Input["unavailable"])
	if c.Input["onStuck"] != nil {
		p.OnStuck = decode[OnStuck](t, c.Input["onStuck"])
		p.StuckAfter = time.Duration(decode[int](t, c.Input["stuckAfterSeconds"])) * time.Second
		p.QuarantineAllowance = Count(decode[int](t, c.Input["quarantineAllowance"]))
	}
	s.Pools = []Pool{p}
	asked := decode[[]string](t, c.Input["ask_all_in_one_plan"])
	if len(asked) == 0 {
		asked = []string{decode[string](t, c.Input["ask"])}
	}
	var candidates []Candidate
	for i, resource := range asked {
		candidate := Candidate{Resource: resource, Group: "new", Rank: i, Needs: []int32{0}}
		if len(members) > 0 && !members[resource] {
			candidate.Needs = nil
		}
		candidates = append(candidates, candidate)
	}
	got, err := Plan(s, candidates, epoch)
	if err != nil {
		t.Fatal(err)
	}
	for key, raw := range c.Expected {
		var have any
		switch key {
		case "decision":
			have = map[bool]string{true: "allow", false: "wait"}[len(got.Admitted) == 1]
		case "reason":
			have = append(reasonsOf(got), "")[0]
		case "on":
			have = got.Refusals[got.Refused[0].Why][0].Reason.On()
		case "max":
			have = got.Pools[0].Max
		case "active": // before the start that was admitted
			have = got.Pools[0].Active - got.Pools[0].Starts
		case "holders":
			have = resourcesOf(got.Pools[0].Holders)
		case "quarantined":
			have = resourcesOf(got.Pools[0].Quarantined)
		case "preempt":
			records, err := Apply(s, candidates, got.Admitted, epoch)
			if err != nil {
				t.Fatal(err)
			}
			lost := []string{}
			for _, h := range p.Record.Leases {
				for _, r := range append(records, p.Record) {
					if _, ok := r.Lease(h.Holder); !ok {
						lost = append(lost, h.Resource)
					}
				}
			}
			have = lost
		case "starts", "waits":
			list := []string{}
			for _, a := range got.Admitted {
				if key == "starts" {
					list = append(list, candidates[a.Candidate].Resource)
				}
			}
			for _, a := range got.Refused {
				if key == "waits" {
					list = append(list, candidates[a.Candidate].Resource)
				}
			}
			have = list
		default:
			t.Fatalf("unknown expectation %q", key)
		}
		text, _ := json.Marshal(have)
		if string(text) != string(compact(raw)) {
			t.Errorf("%s: %s, want %s", key, text, raw)
		}
	}
}

func compact(raw json.RawMessage) []byte {
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		panic(err)
	}
	text, _ := json.Marshal(v)
	return text
}

func reasonsOf(r Result) []string {
	var reasons []string
	for _, a := range r.Admitted {
		reasons = append(reasons, string(a.Reason))
	}
	for _, a := range r.Refused {
		for _, refusal := range r.Refusals[a.Why] {
			reasons = append(reasons, string(refusal.Reason))
		}
	}
	return reasons
}

func resourcesOf(holders []Holder) []string {
	list := []string{}
	for _, h := range holders {
		list = append(list, h.Resource)
	}
	return list
}

func batchCase(t *testing.T, c sharedCase) {
	pools := decode[map[string]struct {
		Max     int
		Members []string
	}](t, c.Input["pools"])
	keys := slices.Sorted(maps.Keys(pools))
	unavailable := decode[[]string](t, c.Input["unavailable"])
	var s Snapshot
	for _, key := range keys {
		p := Pool{Key: key, Limit: Count(pools[key].Max), Total: len(pools[key].Members), Strict: decode[bool](t, c.Input["strict"]), Record: NewRecord(key)}
		for _, u := range unavailable {
			if slices.Contains(pools[key].Members, u) {
				p.Unavailable = append(p.Unavailable, u)
			}
		}
		for _, l := range decode[[]struct {
			Resource, Group string
			Pools           []string
		}](t, c.Input["leases"]) {
			if slices.Contains(l.Pools, key) {
				r, err := p.Record.Claim(Claim{Token: p.Record.NextToken}, Holder{l.Resource, l.Group}, epoch)
				if err != nil {
					t.Fatal(err)
				}
				p.Record = r
			}
		}
		s.Pools = append(s.Pools, p)
	}
	var candidates []Candidate
	for _, in := range decode[[]struct {
		Resource, Group string
		Rank            int
		Needs           []string
	}](t, c.Input["candidates"]) {
		candidate := Candidate{Resource: in.Resource, Group: in.Group, Rank: in.Rank}
		for _, need := range in.Needs {
			candidate.Needs = append(candidate.Needs, int32(slices.Index(keys, need)))
		}
		candidates = append(candidates, candidate)
	}
	got, err := Plan(s, candidates, epoch)
	if err != nil {
		t.Fatal(err)
	}
	admit := []string{}
	for _, a := range got.Admitted {
		admit = append(admit, candidates[a.Candidate].Resource)
	}
	slices.Sort(admit)
	refused := map[string][]string{}
	for _, a := range got.Refused {
		for _, refusal := range got.Refusals[a.Why] {
			resource := candidates[a.Candidate].Resource
			refused[resource] = append(refused[resource], keys[refusal.Pool])
		}
	}
	active := map[string]int{}
	for i, p := range got.Pools {
		active[keys[i]] = p.Active
	}
	have := fmt.Sprint(admit, refused, active)
	want := fmt.Sprint(decode[[]string](t, c.Expected["admit"]), decode[map[string][]string](t, c.Expected["refused"]), decode[map[string]int](t, c.Expected["active_after"]))
	if diff := cmp.Diff(want, have, cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
}

// simulateCase replays the RFC's ten nodes: 20 %, due every five minutes, fifteen minutes of work
// each.
func simulateCase(t *testing.T, c sharedCase) {
	s := Snapshot{Pools: []Pool{{Key: "nodes", Limit: Percent(20), Total: 10, Record: NewRecord("nodes")}}}
	starts := map[int]int{}
	ends := map[int]int{}
	for minute := 0; minute <= 120; minute++ {
		now := epoch.Add(time.Duration(minute) * time.Minute)
		for _, l := range s.Pools[0].Record.Leases {
			if !now.Before(l.Since.Add(15 * time.Minute)) {
				r, err := s.Pools[0].Record.Release(l.Holder, l.Token)
				if err != nil {
					t.Fatal(err)
				}
				s.Pools[0].Record = r
				ends[int(l.Resource[0]-'0')] = minute
			}
		}
		var candidates []Candidate
		for i := range 10 {
			if _, started := starts[i]; !started && minute >= 5*i {
				candidates = append(candidates, Candidate{Resource: fmt.Sprint(i), Group: "g", Rank: i, Needs: []int32{0}})
			}
		}
		plan, err := Plan(s, candidates, now)
		if err != nil {
			t.Fatal(err)
		}
		records, err := Apply(s, candidates, plan.Admitted, now)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range records {
			r.Revision++
			s.Pools[0].Record = r
		}
		for _, a := range plan.Admitted {
			starts[int(candidates[a.Candidate].Resource[0]-'0')] = minute
		}
	}
	var start, end []int
	for i := range 10 {
		start, end = append(start, starts[i]), append(end, ends[i])
	}
	if diff := cmp.Diff(decode[[]int](t, c.Expected["start_min"]), start); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(decode[[]int](t, c.Expected["end_min"]), end); diff != "" {
		t.Error(diff)
	}
}
