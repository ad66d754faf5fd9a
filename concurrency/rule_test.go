package concurrency

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func ptr(n int64) *int64 { return &n }

func TestParseRule(t *testing.T) {
	for _, c := range []struct {
		text string
		want Rule
		max  Limit
		why  string
	}{
		{`{"groupSelector":"resource.metadata['cluster'] == 'prod-east'","limitType":"percentage","limitValue":20}`,
			Rule{GroupSelector: "resource.metadata['cluster'] == 'prod-east'", LimitType: "percentage", LimitValue: ptr(20)}, Percent(20), "the RFC's rule, verbatim"},
		{`{"groupSelector":"x","limitType":"count","limitValue":0}`, Rule{GroupSelector: "x", LimitType: "count", LimitValue: ptr(0)}, Count(0), "0 is written: paused"},
		{`{"groupSelector":"x","limit":"33%","rounding":"floor_min_1","groupBy":"resource.metadata['zone']","maxActiveKeys":2,"strict":true,"exclusive":true,"stuckAfterSeconds":3600,"onStuck":"quarantine","quarantineAllowance":"10%","haltAboveUnavailable":"40%"}`,
			Rule{GroupSelector: "x", Limit: Percent(33), Rounding: FloorMin1, GroupBy: "resource.metadata['zone']", MaxActiveKeys: Count(2), Strict: true, Exclusive: true, StuckAfterSeconds: 3600, OnStuck: Quarantine, QuarantineAllowance: Percent(10), HaltAboveUnavailable: Percent(40)}, Percent(33), "everything"},
		{`{"groupSelector":"x","limit":1,"haltAboveUnavailable":0}`, Rule{GroupSelector: "x", Limit: Count(1), HaltAboveUnavailable: Count(0)}, Count(1), "a single member halts the pool, which is not the same as none that does"},
		{`{"groupSelector":"x","limitType":"count","limitValue":2147483647}`, Rule{GroupSelector: "x", LimitType: "count", LimitValue: ptr(2147483647)}, Count(2147483647), "the greatest count"},
		{`{"groupSelector":"x","limitType":"percentage","limitValue":1000}`, Rule{GroupSelector: "x", LimitType: "percentage", LimitValue: ptr(1000)}, Percent(1000), "the greatest percentage"},
		{`{"groupSelector":"x","limit":null,"limitType":"count","limitValue":5,"maxActiveKeys":null,"quarantineAllowance":null,"haltAboveUnavailable":null}`, Rule{GroupSelector: "x", LimitType: "count", LimitValue: ptr(5)}, Count(5), "null counts as absent"},
		{`{"groupSelector":"x","limit":5,"sharedPool":"nodes"}`, Rule{GroupSelector: "x", Limit: Count(5), SharedPool: "nodes"}, Count(5), "a shared pool"},
	} {
		got, err := ParseRule([]byte(c.text))
		if diff := cmp.Diff(c.want, got, cmp.Comparer(func(a, b Limit) bool { return a == b })); diff != "" || err != nil {
			t.Errorf("%s: %v %s", c.why, err, diff)
			continue
		}
		if got.Max() != c.max {
			t.Errorf("%s: max %v, want %v", c.why, got.Max(), c.max)
		}
		text, err := json.Marshal(got)
		back, err2 := ParseRule(text)
		if err != nil || err2 != nil || cmp.Diff(got, back, cmp.Comparer(func(a, b Limit) bool { return a == b })) != "" {
			t.Errorf("%s: round trip %s: %v %v", c.why, text, err, err2)
		}
	}
}

func TestRuleFaults(t *testing.T) {
	for _, c := range []struct {
		text   string
		faults []string // code and path, sorted
		why    string
	}{
		{`{}`, []string{"required groupSelector", "required limit"}, "both required"},
		{`{"groupSelector":"x","limit":5,"limitType":"count","limitValue":5}`, []string{"conflict limit"}, "one of the two ways"},
		{`{"groupSelector":"x","limit":5,"limitValue":5}`, []string{"conflict limit"}, "half of the other way is too much"},
		{`{"groupSelector":"x","limitType":"count"}`, []string{"required limitValue"}, "half of the pair"},
		{`{"groupSelector":"x","limitValue":5}`, []string{"required limitType"}, "half of the pair"},
		{`{"groupSelector":"x","limitType":"percent","limitValue":5}`, []string{"unknown_value limitType"}, "the RFC's word is percentage"},
		{`{"groupSelector":"x","limitType":"count","limitValue":-1}`, []string{"out_of_range limitValue"}, "negative"},
		{`{"groupSelector":"x","limitType":"percentage","limitValue":-20}`, []string{"out_of_range limitValue"}, "negative"},
		{`{"groupSelector":"x","limitType":"percentage","limitValue":1001}`, []string{"out_of_range limitValue"}, "too much"},
		{`{"groupSelector":"x","limitType":"count","limitValue":2147483648}`, []string{"out_of_range limitValue"}, "too much"},
		{`{"groupSelector":"x","limitType":"rate","limitValue":-1}`, []string{"out_of_range limitValue", "unknown_value limitType"}, "both faults"},
		{`{"groupSelector":"x","limit":1,"maxActiveKeys":0,"groupBy":"z"}`, []string{"out_of_range maxActiveKeys"}, "0 does not mean any number"},
		{`{"groupSelector":"x","limit":1,"maxActiveKeys":"50%","groupBy":"z"}`, []string{"out_of_range maxActiveKeys"}, "no percentage of keys"},
		{`{"groupSelector":"x","limit":1,"haltAboveUnavailable":-1}`, []string{"type haltAboveUnavailable"}, "it is absent if the pool never halts"},
		{`{"groupSelector":"x","limit":1,"maxActiveKeys":1}`, []string{"conflict maxActiveKeys"}, "keys of what"},
		{`{"groupSelector":"x","limit":1,"stuckAfterSeconds":-1}`, []string{"out_of_range stuckAfterSeconds"}, "negative"},
		{`{"groupSelector":"x","limit":1,"stuckAfterSeconds":9223372037}`, []string{"out_of_range stuckAfterSeconds"}, "would overflow a duration"},
		{`{"groupSelector":"x","limit":-1,"strict":1,"rounding":null}`, []string{"type limit", "type rounding", "type strict"}, "faults of decoding, all of them"},
		{`{"groupSelector":"x","limit":1,"onStuck":"release","rounding":"up"}`, []string{"unknown_value onStuck", "unknown_value rounding"}, "words that nobody knows"},
		{`{"groupSelector":"x","limit":1,"limit":2}`, []string{"duplicate limit"}, "which one counts?"},
		{`{"groupSelector":" \t","limit":1}`, []string{"required groupSelector"}, "white space is no expression"},
		{`{"groupSelector":"x","limit":1,"sharedPool":"nodes "}`, []string{"type sharedPool"}, "each of two pools that look like one would allow its own maximum"},
		{`{"groupSelector":"x","limit":1,"groupBy":" resource.metadata['zone']","sharedPool":" "}`, []string{"type groupBy", "type sharedPool"}, "a name that looks like another one"},
		{`{"groupSelector":"x"`, []string{"syntax line 1, column 21"}, "cut off"},
		{`{"groupSelector":"x","limit":1,"limmit":1}`, []string{"unknown_field limmit"}, "unknown field"},
	} {
		got, err := ParseRule([]byte(c.text))
		if err == nil {
			t.Errorf("%s: %s: no error", c.text, c.why)
			continue
		}
		var faults []string
		for _, text := range faultsOf(t, err) {
			fault, _, _ := strings.Cut(text, ":")
			faults = append(faults, fault)
		}
		slices.Sort(faults)
		if diff := cmp.Diff(c.faults, faults); diff != "" || got.GroupSelector != "" {
			t.Errorf("%s: %s: %v", c.text, c.why, err)
		}
	}
	if _, err := ParseRule([]byte(`{"groupSelector":"x","limit":1,"stuckAfterSeconds":9223372036}`)); err != nil {
		t.Errorf("the bound itself is valid: %v", err)
	}
	for _, value := range []string{`""`, `"5"`, `"-1%"`, "1.5", "0", `"50%"`} { // as a limit it is told of percentages and of 0, which are refused next
		_, err := ParseRule([]byte(`{"groupSelector":"x","limit":1,"groupBy":"z","maxActiveKeys":` + value + `}`))
		if err == nil || !strings.HasSuffix(err.Error(), ": "+hintActiveKeys) {
			t.Errorf("maxActiveKeys %s: %v", value, err)
		}
	}
	if _, err := ParseRule([]byte(`{"groupSelector":"x","limit":1,"groupBy":"z","maxActiveKeys":1,"maxActiveKeys":2}`)); err == nil || strings.Contains(err.Error(), hintActiveKeys) {
		t.Errorf("the second one is too many, whatever its value: %v", err)
	}
	if _, err := ParseRule([]byte(`{"groupSelector":"x","limit":1,"stuckAfterSeconds":"1h"}`)); err == nil || strings.Contains(err.Error(), hintActiveKeys) {
		t.Errorf("no other field is told of keys: %v", err)
	}
	for _, row := range []struct {
		rule Rule
		want []string
	}{
		{Rule{GroupSelector: "x", LimitType: "percent"}, []string{`unknown_value limitType: "percent": must be "count" or "percentage"`, "required limitValue: is required beside limitType: " + hintCount}},
		{Rule{GroupSelector: "x", LimitType: "percentage"}, []string{"required limitValue: is required beside limitType: must be a whole number from 0 to 1000, in percent"}},
	} {
		if diff := cmp.Diff(row.want, faultsOf(t, row.rule.Validate())); diff != "" {
			t.Errorf("%+v: %s", row.rule, diff)
		}
	}
	bad := Rule{GroupSelector: "x", Limit: Count(1), Rounding: "up", OnStuck: "release"}
	err := bad.Validate()
	var e *FieldError
	if !errors.As(err, &e) || e.Path != "rounding" || e.Value != `"up"` || !strings.Contains(err.Error(), `onStuck: "release": `) {
		t.Errorf("%v", err)
	}
	if m := (Rule{LimitType: "count"}).Max(); !m.IsZero() {
		t.Errorf("an invalid rule has no limit: %v", m)
	}
}

func TestPoolKey(t *testing.T) {
	for _, c := range []struct {
		rule      Rule
		id, value string
		want, why string
	}{
		{Rule{}, "policy/resourceConcurrency/0", "ignored", "policy%2FresourceConcurrency%2F0", "no groupBy, no value"},
		{Rule{GroupBy: "z"}, "r", "eu/1%", "r/eu%2F1%25", "parts are escaped"},
		{Rule{GroupBy: "z"}, "r", "", "r/", "resources without the key share a pool of their own"},
		{Rule{SharedPool: "s"}, "r", "", "s", "the shared name instead of the id"},
		{Rule{SharedPool: "s", GroupBy: "z"}, "r", "a", "s/a", "shared per value"},
	} {
		if got := c.rule.PoolKey(c.id, c.value); got != c.want {
			t.Errorf("%q, want %q: %s", got, c.want, c.why)
		}
	}
}

func TestRulePool(t *testing.T) {
	r := Rule{GroupSelector: "x", LimitType: "percentage", LimitValue: ptr(20), Rounding: Floor, GroupBy: "z", MaxActiveKeys: Count(2), Strict: true, Exclusive: true,
		StuckAfterSeconds: 60, OnStuck: Quarantine, QuarantineAllowance: Count(1), HaltAboveUnavailable: Percent(40)}
	want := Pool{Key: "r/a", Limit: Percent(20), Rounding: Floor, Total: 7, Strict: true, Exclusive: true, Family: "r", MaxActiveKeys: 2,
		StuckAfter: time.Minute, OnStuck: Quarantine, QuarantineAllowance: Count(1), HaltAboveUnavailable: Percent(40)}
	if diff := cmp.Diff(want, r.Pool("r", "a", 7), cmp.Comparer(func(a, b Limit) bool { return a == b })); diff != "" {
		t.Error(diff)
	}
	r.MaxActiveKeys = Limit{}
	if p := r.Pool("r", "a", 7); p.Family != "" || p.MaxActiveKeys != 0 {
		t.Errorf("%+v", p)
	}
	r.SharedPool, r.MaxActiveKeys = "s", Count(1)
	if p := r.Pool("r", "a", 7); p.Family != "s" || p.Key != "s/a" {
		t.Errorf("rules that share pools share their keys: %+v", p)
	}
}

func TestValidateShared(t *testing.T) {
	first := Rule{GroupSelector: "a", Limit: Percent(20), SharedPool: "s"}
	same := Rule{GroupSelector: "b", LimitType: "percentage", LimitValue: ptr(20), SharedPool: "s", QuarantineAllowance: Count(0)}
	if err := same.ValidateShared(first); err != nil {
		t.Errorf("the limit is the same, however it is written, and selectors may differ: %v", err)
	}
	other := Rule{GroupSelector: "b", Limit: Count(20), SharedPool: "s", Rounding: Floor, GroupBy: "z", MaxActiveKeys: Count(1), Strict: true, Exclusive: true, StuckAfterSeconds: 1, OnStuck: Quarantine, QuarantineAllowance: Percent(20), HaltAboveUnavailable: Count(0)}
	err := other.ValidateShared(first)
	want := []string{
		`conflict limit: 20: must be "20%" as in the first rule of the shared pool "s"`,
		`conflict rounding: "floor": must be "ceil" as in the first rule of the shared pool "s"`,
		`conflict groupBy: "z": must be "" as in the first rule of the shared pool "s"`,
		`conflict maxActiveKeys: 1: must be unset as in the first rule of the shared pool "s"`,
		`conflict strict: true: must be false as in the first rule of the shared pool "s"`,
		`conflict exclusive: true: must be false as in the first rule of the shared pool "s"`,
		`conflict stuckAfterSeconds: 1: must be 0 as in the first rule of the shared pool "s"`,
		`conflict onStuck: "quarantine": must be "hold" as in the first rule of the shared pool "s"`,
		`conflict haltAboveUnavailable: 0: must be unset as in the first rule of the shared pool "s"`,
		`conflict quarantineAllowance: "20%": must be 0 as in the first rule of the shared pool "s"`,
	}
	if diff := cmp.Diff(want, faultsOf(t, err)); diff != "" {
		t.Error(diff)
	}
	pair := Rule{GroupSelector: "b", LimitType: "count", LimitValue: ptr(5), SharedPool: "s", Strict: true}
	want = []string{
		`conflict limit: 5: must be "20%", in place of limitType and limitValue, as in the first rule of the shared pool "s"`,
		`conflict strict: true: must be false as in the first rule of the shared pool "s"`,
	}
	if diff := cmp.Diff(want, faultsOf(t, pair.ValidateShared(first))); diff != "" {
		t.Errorf("beside the pair the limit would be refused:\n%s", diff)
	}
	quarantines, holds := Rule{GroupSelector: "b", Limit: Percent(20), SharedPool: "s", OnStuck: Quarantine}, Rule{GroupSelector: "c", Limit: Percent(20), SharedPool: "s"}
	if err := quarantines.ValidateShared(quarantines); err != nil {
		t.Errorf("both quarantine: %v", err)
	}
	if diff := cmp.Diff([]string{`conflict onStuck: "hold": must be "quarantine" as in the first rule of the shared pool "s"`}, faultsOf(t, holds.ValidateShared(quarantines))); diff != "" {
		t.Errorf("an absent onStuck holds: %s", diff)
	}
	other.SharedPool = "t"
	if err := other.ValidateShared(first); err != nil {
		t.Errorf("different pools: %v", err)
	}
	first.SharedPool, other.SharedPool = "", ""
	if err := other.ValidateShared(first); err != nil {
		t.Errorf("no shared pool: %v", err)
	}
}
