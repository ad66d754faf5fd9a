package concurrency

import (
	"encoding/json"
	"errors"
	"math"
	"math/big"
	"strconv"
	"strings"
	"testing"
)

func TestLimitOf(t *testing.T) {
	for _, c := range []struct {
		limit                  Limit
		total                  int
		ceil, floor, floorMin1 int
		why                    string
	}{
		{Percent(20), 10, 2, 2, 2, "the bracket RFC's example"},
		{Percent(20), 3, 1, 0, 1, "up gives one, down would stop everything"},
		{Percent(33), 10, 4, 3, 3, "up and down differ by one"},
		{Percent(50), 3, 2, 1, 1, "half of an odd total"},
		{Percent(1), 1000, 10, 10, 10, "exact quotient: no rounding"},
		{Percent(1), 1, 1, 0, 1, "smallest pool"},
		{Percent(15), 7, 2, 1, 1, "1.05 rounds up to 2"},
		{Percent(7), 29, 3, 2, 2, "2.03 rounds up to 3"},
		{Percent(100), 29, 29, 29, 29, "all"},
		{Percent(150), 3, 5, 4, 4, "more than all: not clamped"},
		{Percent(0), 29, 0, 0, 0, "zero is zero, also with a minimum of one"},
		{Percent(20), 0, 0, 0, 0, "nothing of nothing"},
		{Percent(20), -5, 0, 0, 0, "fails closed"},
		{Count(5), 3, 5, 5, 5, "a count is not clamped"},
		{Count(0), 3, 0, 0, 0, "paused"},
		{Count(5), 0, 5, 5, 5, "a count ignores the total"},
		{Limit{}, 10, 0, 0, 0, "unset admits nothing"},
		{Percent(100), math.MaxInt, math.MaxInt, math.MaxInt, math.MaxInt, "largest total is exact"},
		{Percent(1000), math.MaxInt, math.MaxInt, math.MaxInt, math.MaxInt, "overflow saturates"},
		{Percent(101), math.MaxInt, math.MaxInt, math.MaxInt, math.MaxInt, "overflow below the carry saturates"},
		{Percent(101), (100*(math.MaxInt+1) - 1) / 101, math.MaxInt, math.MaxInt, math.MaxInt, "only rounding up would overflow, and saturates"},
		{Percent(99), math.MaxInt / 100 * 100, math.MaxInt / 100 * 99, math.MaxInt / 100 * 99, math.MaxInt / 100 * 99, "no overflow in the product"},
	} {
		for _, r := range []struct {
			rounding Rounding
			want     int
		}{{Ceil, c.ceil}, {Floor, c.floor}, {FloorMin1, c.floorMin1}, {"", c.ceil}, {"round", c.floor}} {
			if got := c.limit.Of(c.total, r.rounding); got != r.want {
				t.Errorf("%v of %d, %v = %d, want %d: %s", c.limit, c.total, r.rounding, got, r.want, c.why)
			}
		}
	}
}

// TestLimitOfAgainstBig compares with arbitrary precision over the totals at which integer
// arithmetic breaks.
func TestLimitOfAgainstBig(t *testing.T) {
	totals := []int{0, 1, 2, 3, 7, 10, 99, 100, 101, 1_000_000, math.MaxInt / 2,
		math.MaxInt/1000 - 1, math.MaxInt / 1000, math.MaxInt/1000 + 1, math.MaxInt/10 - 1, math.MaxInt / 10, math.MaxInt - 1, math.MaxInt}
	for _, total := range totals {
		for p := 0; p <= 1000; p++ {
			product := new(big.Int).Mul(big.NewInt(int64(total)), big.NewInt(int64(p)))
			q, rest := new(big.Int).QuoRem(product, big.NewInt(100), new(big.Int))
			saturate := func(n *big.Int) int {
				if n.IsInt64() && n.Int64() <= math.MaxInt {
					return int(n.Int64())
				}
				return math.MaxInt
			}
			floor := saturate(q)
			ceil := floor
			if rest.Sign() > 0 {
				ceil = saturate(new(big.Int).Add(q, big.NewInt(1)))
			}
			minimum := floor
			if p > 0 && total > 0 {
				minimum = max(1, floor)
			}
			l := Percent(p)
			if got := [3]int{l.Of(total, Ceil), l.Of(total, Floor), l.Of(total, FloorMin1)}; got != [3]int{ceil, floor, minimum} {
				t.Fatalf("%d%% of %d = %v, want %v", p, total, got, [3]int{ceil, floor, minimum})
			}
			if p > 0 && l.Of(total, Ceil) < Percent(p-1).Of(total, Ceil) {
				t.Fatalf("raising to %d%% of %d lowers the count", p, total)
			}
		}
	}
}

func TestLimitText(t *testing.T) {
	for _, c := range []struct {
		text string
		want Limit
		why  string
	}{
		{"0", Count(0), "zero is a count"},
		{"5", Count(5), "count"},
		{"2147483647", Count(2147483647), "largest count"},
		{"1234567890", Count(1234567890), "every digit"},
		{"0%", Percent(0), "zero percent"},
		{"20%", Percent(20), "percent"},
		{"1000%", Percent(1000), "largest percentage"},
	} {
		got, err := ParseLimit(c.text)
		if err != nil || got != c.want || got.String() != c.text {
			t.Errorf("ParseLimit(%q) = %v, %v: %s", c.text, got, err, c.why)
		}
	}
	for _, c := range []struct{ text, why string }{
		{"", "empty"}, {"-1", "negative"}, {"+1", "sign"}, {" 5", "space"}, {"5 ", "space"}, {"20 %", "space before the sign"},
		{"12.5%", "fraction"}, {"5.5", "fraction"}, {"05", "leading zero"}, {"00", "leading zero"}, {"020%", "leading zero"},
		{"2147483648", "one too many"}, {"1001%", "one percent too many"}, {"99999999999999999999", "does not fit an int64"},
		{"18446744073709551617%", "wraps to 1 in 64 bits"},
		{"%", "no digits"}, {"20%%", "two signs"}, {"%20", "sign in front"}, {"1e3", "exponent"}, {"0x5", "hexadecimal"}, {"٥", "digit of another script"},
		{"unset", "String of unset is for people"}, {"-20%", "negative"},
	} {
		if got, err := ParseLimit(c.text); !isLimitError(err) || got != (Limit{}) {
			t.Errorf("ParseLimit(%q) = %v, %v, want a FieldError: %s", c.text, got, err, c.why)
		}
	}
}

func isLimitError(err error) bool {
	var e *FieldError
	return errors.As(err, &e) && e.Code == CodeType && e.Hint != ""
}

func TestLimitJSON(t *testing.T) {
	type box struct {
		L Limit `json:"l,omitzero"`
	}
	for _, c := range []struct {
		json string
		want Limit
		back string
		why  string
	}{
		{`{"l":5}`, Count(5), `{"l":5}`, "count"},
		{`{"l":0}`, Count(0), `{"l":0}`, "zero is written"},
		{`{"l":"20%"}`, Percent(20), `{"l":"20%"}`, "percent"},
		{`{"l":null}`, Limit{}, `{}`, "null counts as absent"},
		{`{}`, Limit{}, `{}`, "absent"},
		{`{"l":"\u0032\u0030%"}`, Percent(20), `{"l":"20%"}`, "JSON escapes are JSON's matter"},
	} {
		var b box
		err := json.Unmarshal([]byte(c.json), &b)
		back, err2 := json.Marshal(b)
		if err != nil || err2 != nil || b.L != c.want || string(back) != c.back {
			t.Errorf("%s = %v, %v; back %s, %v: %s", c.json, b.L, err, back, err2, c.why)
		}
	}
	for _, c := range []struct{ json, why string }{
		{`"5"`, "a count is a number"}, {`"20 %"`, "space"}, {`"12.5%"`, "fraction"}, {`5.5`, "fraction"}, {`-5`, "negative"}, {`"-5%"`, "negative"},
		{`-0`, "sign"}, {`5.0`, "fraction"}, {`1e3`, "exponent"}, {`2147483648`, "too many"}, {`"1001%"`, "too many"}, {`true`, "type"}, {`{}`, "type"}, {`[5]`, "type"}, {`""`, "empty"}, {`"null"`, "a word"},
	} {
		l := Count(7)
		if err := json.Unmarshal([]byte(c.json), &l); !isLimitError(err) || l != Count(7) {
			t.Errorf("%s = %v, %v, want a FieldError and the old value: %s", c.json, l, err, c.why)
		}
	}
	if l := Count(7); json.Unmarshal([]byte("null"), &l) != nil || l != Count(7) {
		t.Errorf("null, which counts as absent, leaves %v", l)
	}
	if err := new(Limit).UnmarshalJSON([]byte(`"5"`)); !strings.HasSuffix(err.Error(), "write 5") {
		t.Errorf("a count in quotes: %v", err) // YAML and Kubernetes take both
	}
	for _, text := range []string{"1001%", "12.5%", "20 %", "-1", "x"} {
		_, err := ParseLimit(text)
		quoted := strconv.Quote(text)
		if !strings.HasSuffix(text, "%") {
			quoted = text // no percentage is a number without quotes
		}
		if fault := new(Limit).UnmarshalJSON([]byte(quoted)); strings.TrimPrefix(err.Error(), strconv.Quote(text)) != strings.TrimPrefix(fault.Error(), quoted) {
			t.Errorf("one limit, and two remedies:\n%v\n%v", err, fault)
		}
	}
	for _, raw := range []string{"", "20%", `"20%`, `5"`} { // what only a direct caller can pass
		l := Count(7)
		if err := l.UnmarshalJSON([]byte(raw)); !isLimitError(err) || l != Count(7) {
			t.Errorf("UnmarshalJSON(%s) = %v, %v", raw, l, err)
		}
	}
	if got, err := json.Marshal(Limit{}); string(got) != "null" || err != nil {
		t.Errorf("unset = %s, %v", got, err)
	}
}

func TestLimitAccessors(t *testing.T) {
	for _, c := range []struct {
		limit   Limit
		zero    bool
		percent bool
		value   int
		text    string
	}{
		{Limit{}, true, false, 0, "unset"},
		{Count(0), false, false, 0, "0"},
		{Percent(0), false, true, 0, "0%"},
		{Count(7), false, false, 7, "7"},
		{Percent(7), false, true, 7, "7%"},
	} {
		if l := c.limit; l.IsZero() != c.zero || l.IsPercent() != c.percent || l.Value() != c.value || l.String() != c.text || (l.Validate() != nil) != c.zero {
			t.Errorf("%#v: %v %v %v %v %v", l, l.IsZero(), l.IsPercent(), l.Value(), l, l.Validate())
		}
		text, err := c.limit.MarshalText()
		back := Count(99)
		if err2 := back.UnmarshalText(text); err != nil || err2 != nil || back != c.limit {
			t.Errorf("text round trip of %v: %q, %v, %v, %v", c.limit, text, back, err, err2)
		}
	}
	l := Count(3)
	if err := l.UnmarshalText([]byte("x")); !isLimitError(err) || l != Count(3) {
		t.Errorf("UnmarshalText(x) = %v, %v", l, err)
	}
}

func TestLimitConstructorsPanic(t *testing.T) {
	most := math.MaxInt32
	for name, f := range map[string]func(){
		"Count(-1)":         func() { Count(-1) },
		"Count(2147483648)": func() { Count(most + 1) },
		"Percent(-1)":       func() { Percent(-1) },
		"Percent(1001)":     func() { Percent(1001) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			f()
		})
	}
	if Count(math.MaxInt32).Value() != math.MaxInt32 || Percent(1000).Value() != 1000 {
		t.Error("the bounds themselves are valid")
	}
}
