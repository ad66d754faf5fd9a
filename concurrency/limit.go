package concurrency

import (
	"encoding/json"
	"math"
	"math/bits"
	"strconv"
	"strings"
)

// Bounds of a [Limit].
const (
	maxCount   = math.MaxInt32
	maxPercent = 1000
)

// Limit is a count or a percentage: the library's one type for "how many". It carries the value and
// never a rounding, because every published design rounds differently. The rounding is written
// where the limit is used, as in limit.Of(total, concurrency.Ceil).
//
// In JSON a count is a number (5) and a percentage a string ("20%"); as text both are bare (5,
// 20%). Nothing else is a limit: no sign, space, fraction, exponent or leading zero, and no number
// inside a JSON string. A JSON null counts as absent.
//
// The zero value is unset, which differs from [Count](0): 0 must be written, and as a limit on
// starts it means "nothing may start". Each field says what unset means there, a default or an
// error. Limits are comparable with ==.
type Limit struct {
	value int32
	kind  limitKind
}

type limitKind uint8

const (
	unset limitKind = iota
	count
	percent
)

// Count returns the limit of n, which must be within 0 … 2147483647. It is meant for literals and
// panics otherwise; [ParseLimit] returns an error instead.
func Count(n int) Limit {
	if n < 0 || n > maxCount {
		panic("concurrency: Count(" + strconv.Itoa(n) + "): " + hintCount)
	}
	return Limit{value: int32(n), kind: count}
}

// Percent returns the limit of p percent of a total, which must be within 0 … 1000. It is meant for
// literals and panics otherwise; [ParseLimit] returns an error instead.
func Percent(p int) Limit {
	if p < 0 || p > maxPercent {
		panic("concurrency: Percent(" + strconv.Itoa(p) + "): " + hintPercent)
	}
	return Limit{value: int32(p), kind: percent}
}

// ParseLimit reads the text form: "5" is a count and "20%" a percentage. Every other text, the
// empty one included, is a *[FieldError].
func ParseLimit(text string) (Limit, error) {
	if digits, ok := strings.CutSuffix(text, "%"); ok {
		n, ok := parseDigits(digits, maxPercent)
		if !ok {
			return Limit{}, &FieldError{Code: CodeType, Value: strconv.Quote(text), Hint: hintPercent}
		}
		return Limit{value: n, kind: percent}, nil
	}
	n, ok := parseDigits(text, maxCount)
	if !ok {
		return Limit{}, &FieldError{Code: CodeType, Value: strconv.Quote(text), Hint: hintLimit}
	}
	return Limit{value: n, kind: count}, nil
}

// parseDigits reads a canonical decimal of at most bound: digits only, no leading zero.
func parseDigits(s string, bound int64) (int32, bool) {
	if s == "" || len(s) > 1 && s[0] == '0' {
		return 0, false
	}
	var n int64
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return 0, false
		}
		if n = n*10 + int64(c-'0'); n > bound {
			return 0, false
		}
	}
	return int32(n), true
}

// Of returns how many of total the limit is. For a count it returns the count, whatever the total
// and the rounding: Of does not clamp, since a surge may exceed its total while a pool may not. For
// a percentage it rounds as asked, in exact integer arithmetic; a result that no int can hold (more
// than 100 % of an enormous total) is [math.MaxInt].
//
// Of fails closed: an unset limit is 0, a percentage of a negative total is 0, and an unknown
// rounding is [Floor].
func (l Limit) Of(total int, r Rounding) int {
	if l.kind != percent {
		return int(l.value)
	}
	if total <= 0 || l.value == 0 {
		return 0
	}
	// 128 bits hold total·p for every total. A high word of 50 or more means total·p ≥ 50·2⁶⁴, that
	// is a result of at least 2⁶³; below it Div64 cannot overflow, because 50 < 100.
	hi, lo := bits.Mul64(uint64(total), uint64(l.value))
	if hi >= 50 {
		return math.MaxInt
	}
	n, rest := bits.Div64(hi, lo, 100)
	switch {
	case (r == Ceil || r == "") && rest > 0, r == FloorMin1 && n == 0:
		n++
	}
	return int(min(n, math.MaxInt))
}

// IsZero reports whether the limit is unset. encoding/json consults it for fields tagged omitzero.
func (l Limit) IsZero() bool { return l.kind == unset }

// IsPercent reports whether the limit is a percentage; false for a count and for an unset limit.
func (l Limit) IsPercent() bool { return l.kind == percent }

// Value returns the number as written: 5 for 5, 20 for 20%, and 0 if unset.
func (l Limit) Value() int { return int(l.value) }

// Validate returns a *[FieldError] if the limit is unset; every other Limit is valid.
func (l Limit) Validate() error {
	if l.kind == unset {
		return &FieldError{Code: CodeRequired, Hint: "is required: " + hintLimit + "; write 0 to pause, or leave the whole rule out for no limit"}
	}
	return nil
}

// String returns the text form: "5", "20%", or "unset".
func (l Limit) String() string {
	if l.kind == unset {
		return "unset"
	}
	text, _ := l.MarshalText()
	return string(text)
}

// MarshalText returns "5" or "20%", and empty text if unset.
func (l Limit) MarshalText() ([]byte, error) {
	switch l.kind {
	case unset:
		return []byte{}, nil
	case percent:
		return append(strconv.AppendInt(nil, int64(l.value), 10), '%'), nil
	}
	return strconv.AppendInt(nil, int64(l.value), 10), nil
}

// UnmarshalText reads what [Limit.MarshalText] writes: empty text is unset. On error the limit is
// unchanged.
func (l *Limit) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*l = Limit{}
		return nil
	}
	v, err := ParseLimit(string(text))
	if err == nil {
		*l = v
	}
	return err
}

// MarshalJSON returns 5, "20%", or null if unset.
func (l Limit) MarshalJSON() ([]byte, error) {
	switch l.kind {
	case unset:
		return []byte("null"), nil
	case percent:
		return strconv.AppendQuote(nil, l.String()), nil
	}
	return l.MarshalText()
}

// UnmarshalJSON reads 5 or "20%"; null leaves the limit as it is. Everything else, a count inside a
// string included, is a *[FieldError], and the limit is unchanged.
func (l *Limit) UnmarshalJSON(data []byte) error {
	text := string(data)
	if text == "null" {
		return nil
	}
	quoted := strings.HasPrefix(text, `"`) && json.Unmarshal(data, &text) == nil
	v, err := ParseLimit(text)
	if err == nil && v.IsPercent() == quoted {
		*l = v
		return nil
	}
	hint := hintLimit
	switch {
	case err == nil && quoted:
		hint = "must not be in quotes, which are for percentages: write " + v.String()
	case quoted && strings.HasSuffix(text, "%"):
		hint = hintPercent
	}
	return &FieldError{Code: CodeType, Value: string(data), Hint: hint}
}

// Rounding says how a percentage is rounded to a count. It does not affect a count. Empty means
// Ceil, the rounding of resource concurrency in the bracket RFC.
type Rounding string

const (
	// Ceil rounds up: 20 % of 3 is 1. Resource concurrency rounds this way, as does surge in
	// Kubernetes.
	Ceil Rounding = "ceil"
	// Floor rounds down: 20 % of 3 is 0. Unavailability in Kubernetes rounds this way.
	Floor Rounding = "floor"
	// FloorMin1 rounds down, but to at least 1 unless the percentage or the total is 0. KubeFleet's
	// stages, Argo CD's progressive sync and Rancher Fleet's partitions round this way.
	FloorMin1 Rounding = "floor_min_1"
)

func (r Rounding) known() bool { return r == "" || r == Ceil || r == Floor || r == FloorMin1 }
