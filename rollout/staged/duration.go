package staged

import (
	"encoding/json"
	"math"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// Duration is a length of time in a strategy or in the options. It has two values that a
// [time.Duration] does not have: unset, which is the zero value, and none, written "None", which
// means that there is no limit.
//
// The text form is a sequence of numbers with the units s, m and h, such as "1h30m" or "1.5h", or
// "0". It is the form of KubeFleet's waitTime, and accepts more than that of Open Cluster
// Management. A sign, a leading zero, another unit and more than 292 years are errors. Durations
// are comparable with ==.
type Duration struct {
	ns   int64
	kind durationKind
}

type durationKind uint8

const (
	durationUnset durationKind = iota
	durationNone
	durationGiven
)

// For returns the duration d. It accepts every d: Validate of the strategy or the options checks
// what their fields allow.
func For(d time.Duration) Duration { return Duration{ns: int64(d), kind: durationGiven} }

// None returns the duration that means no limit.
func None() Duration { return Duration{kind: durationNone} }

const (
	hintDuration = "must be numbers with the units s, m or h and without leading zeros, such as 30m, 1h30m or 1.5h"
	hintNone     = "write None, with a capital N, where no limit is meant"
	hintTooLong  = "is longer than 292 years"
	hintEndless  = ": write None where no limit is meant"
)

// ParseDuration reads the text form, "None" included. The error is a *[FieldError].
func ParseDuration(text string) (Duration, error) {
	switch text {
	case "None":
		return None(), nil
	case "0":
		return For(0), nil
	}
	if strings.EqualFold(text, "None") {
		return Duration{}, &FieldError{Code: CodeType, Value: strconv.Quote(text), Hint: hintNone}
	}
	sum, rest := int64(0), text
	for rest != "" || text == "" {
		whole := digitsOf(rest)
		rest = rest[len(whole):]
		fraction, dotted := "", strings.HasPrefix(rest, ".")
		if dotted {
			fraction = digitsOf(rest[1:])
			rest = rest[1+len(fraction):]
		}
		unit := unitOf(rest)
		if whole == "" || len(whole) > 1 && whole[0] == '0' || dotted && fraction == "" || unit == 0 {
			return Duration{}, badDuration(strconv.Quote(text))
		}
		rest = rest[1:]
		part, ok := scale(whole, fraction, unit)
		if !ok || sum > math.MaxInt64-part {
			return Duration{}, &FieldError{Code: CodeType, Value: strconv.Quote(text), Hint: hintTooLong + hintEndless}
		}
		sum += part
	}
	return For(time.Duration(sum)), nil
}

// hintWithoutNone returns the hint for a duration in a field that refuses None.
func hintWithoutNone(hint string) string {
	if hint == hintNone {
		return hintDuration
	}
	return strings.TrimSuffix(hint, hintEndless)
}

// badDuration returns the fault of a value, which is given as it was written.
func badDuration(value string) error {
	return &FieldError{Code: CodeType, Value: value, Hint: hintDuration}
}

func digitsOf(text string) string {
	n := 0
	for n < len(text) && '0' <= text[n] && text[n] <= '9' {
		n++
	}
	return text[:n]
}

func unitOf(text string) uint64 {
	if text == "" {
		return 0
	}
	switch text[0] {
	case 's':
		return uint64(time.Second)
	case 'm':
		return uint64(time.Minute)
	case 'h':
		return uint64(time.Hour)
	}
	return 0
}

// scale returns whole.fraction units in nanoseconds, rounded down. It computes in integers: in
// floating point, 1.1h is not 66m. It ignores the digits after the 18th of the fraction, which are
// worth less than a nanosecond.
func scale(whole, fraction string, unit uint64) (int64, bool) {
	n, err := strconv.ParseUint(whole, 10, 63)
	if err != nil {
		return 0, false
	}
	hi, ns := bits.Mul64(n, unit)
	part, divisor := uint64(0), uint64(1)
	for i := 0; i < len(fraction) && i < 18; i++ {
		part, divisor = part*10+uint64(fraction[i]-'0'), divisor*10
	}
	high, low := bits.Mul64(part, unit)
	below, _ := bits.Div64(high, low, divisor) // part < divisor, so the quotient is less than a unit
	ns, carry := bits.Add64(ns, below, 0)
	if hi != 0 || carry != 0 || ns > math.MaxInt64 {
		return 0, false
	}
	return int64(ns), true
}

// IsZero reports whether the duration is unset. encoding/json consults it for fields tagged
// omitzero.
func (d Duration) IsZero() bool { return d.kind == durationUnset }

// Value returns the length, and whether there is one. An unset duration and None have no length.
func (d Duration) Value() (time.Duration, bool) { return time.Duration(d.ns), d.kind == durationGiven }

// String returns the text form without zero parts, such as "1h30m" or "1m0.5s"; "None"; or "" if
// unset. A negative length, which only Go code can make, has no text form and is printed as
// [time.Duration] does.
func (d Duration) String() string {
	switch d.kind {
	case durationUnset:
		return ""
	case durationNone:
		return "None"
	}
	if d.ns <= 0 {
		if d.ns == 0 {
			return "0"
		}
		return time.Duration(d.ns).String()
	}
	var b []byte
	rest := d.ns
	for _, u := range [...]struct {
		length time.Duration
		name   byte
	}{{time.Hour, 'h'}, {time.Minute, 'm'}} {
		if n := rest / int64(u.length); n > 0 {
			b = append(strconv.AppendInt(b, n, 10), u.name)
			rest %= int64(u.length)
		}
	}
	if rest > 0 {
		b = strconv.AppendInt(b, rest/int64(time.Second), 10)
		if below := rest % int64(time.Second); below > 0 {
			digits := strconv.FormatInt(below+int64(time.Second), 10) // the leading 1 keeps the zeros
			b = append(b, '.')
			b = append(b, strings.TrimRight(digits[1:], "0")...)
		}
		b = append(b, 's')
	}
	return string(b)
}

// UnmarshalJSON reads a string as [ParseDuration] does, and the number 0, which a bare 0 in YAML
// becomes. Null leaves the duration unchanged.
func (d *Duration) UnmarshalJSON(data []byte) error {
	switch string(data) {
	case "null":
		return nil
	case "0":
		*d = For(0)
		return nil
	}
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return badDuration(string(data))
	}
	v, err := ParseDuration(text)
	if err == nil {
		*d = v
	}
	return err
}

// MarshalJSON writes the text form as a string, and null if unset. A negative length has no text
// form and is an error.
func (d Duration) MarshalJSON() ([]byte, error) {
	switch {
	case d.IsZero():
		return []byte("null"), nil
	case d.ns < 0:
		return nil, &FieldError{Code: CodeType, Value: d.String(), Hint: "must not be negative"}
	}
	return strconv.AppendQuote(nil, d.String()), nil
}

// length returns the nanoseconds, or absent if the duration is unset or None.
func (d Duration) length(absent int64) int64 {
	if d.kind != durationGiven {
		return absent
	}
	return d.ns
}
