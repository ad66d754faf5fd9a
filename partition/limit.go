package partition

import (
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// The values that apply where the strategy gives none.
const (
	defaultMaxUnavailable = "100%"
	defaultAutoSize       = "25%"
	defaultThreshold      = 200
	defaultMaxNew         = 50
)

// value is a limit and its origin. The path is put together only for a fault.
type value struct {
	IntOrString
	field     string
	partition int // index of the manual partition that has the field; -1 for the strategy
}

func global(v IntOrString, field string) value { return value{v, field, -1} }

func (v value) path() string {
	if v.partition >= 0 {
		return inPartition(v.partition, v.field)
	}
	return v.field
}

func (v value) fault(code Code, hint string) error {
	return &FieldError{Code: code, Path: v.path(), Value: v.String(), Hint: hint}
}

// documentedFault is a fault of the default mode. It says so if the other mode takes the value.
func (v value) documentedFault(code Code, hint string) error {
	if _, err := v.controllerLimit(1); err == nil {
		hint += onlyController
	}
	return v.fault(code, hint)
}

// limit returns how many of count clusters the first present value stands for. The last value is
// the default and is always present.
func limit(mode Mode, count int, values ...value) (int, error) {
	v := values[slices.IndexFunc(values, func(v value) bool { return !v.IsZero() })]
	if mode == FleetController {
		return v.controllerLimit(count)
	}
	return v.exactLimit(count)
}

const (
	hintFormat  = `must be an int such as 5 or a percentage such as "10%"`
	hintPercent = "must be digits with an optional fraction, at most 9 digits in all, and a percent sign"

	onlyController = "; only the mode fleet_controller takes it"
)

// exactLimit returns the limit in the default mode, between 0 and count. Percentages are rounded
// down, but to at least 1 unless they are 0. They are computed in integers: 4.6% of 1500 is 69,
// which floating point makes 68.
func (v value) exactLimit(count int) (int, error) {
	if v.form == isInt {
		return clamp(int64(v.n), count), nil
	}
	text := strings.TrimPrefix(v.text, "+")
	number, isPercent := strings.CutSuffix(text, "%")
	if !isPercent {
		n, ok := digits(number)
		if !ok {
			return 0, v.documentedFault(CodeLimitFormat, hintFormat)
		}
		return clamp(n, count), nil
	}
	whole, fraction, dotted := strings.Cut(number, ".")
	n, ok := digits(whole + fraction)
	if !ok || dotted && fraction == "" || len(whole)+len(fraction) > 9 {
		return 0, v.documentedFault(CodeLimitNumber, hintPercent)
	}
	if n == 0 || count <= 0 {
		return 0, nil
	}
	divisor := uint64(100)
	for range fraction {
		divisor *= 10
	}
	hi, lo := bits.Mul64(uint64(count), uint64(n))
	if hi >= divisor {
		return count, nil // the quotient would have more than 64 bits
	}
	q, _ := bits.Div64(hi, lo, divisor)
	return int(max(1, min(q, uint64(count)))), nil
}

// digits reads a decimal number. A number that does not fit becomes the largest int64.
func digits(text string) (int64, bool) {
	n := int64(0)
	for i := range len(text) {
		d := text[i] - '0'
		if d > 9 {
			return 0, false
		}
		if n > (math.MaxInt64-int64(d))/10 {
			n = math.MaxInt64 // and stays at it
		} else {
			n = n*10 + int64(d)
		}
	}
	return n, text != ""
}

func clamp(n int64, count int) int { return int(max(0, min(n, int64(count)))) }

// controllerLimit returns the limit as Fleet's controller computes it: it reads nothing if count is
// 0, does not clamp an int inside a string, computes percentages in floating point, and makes every
// percentage at least 1.
func (v value) controllerLimit(count int) (int, error) {
	if count == 0 {
		return 1, nil
	}
	if v.form == isInt {
		return clamp(int64(v.n), count), nil
	}
	// Beside an error ParseInt returns 0, or on overflow the largest int, which Fleet uses. What
	// overflows must not depend on the processor. In Fleet "4611686018427387904%" is a percentage
	// where an int has 64 bits. Where an int has 32 bits, it is an int that is too large, whatever
	// comes after the digits.
	if n, _ := strconv.ParseInt(v.text, 10, 64); n > 0 {
		return int(min(n, math.MaxInt)), nil
	}
	number, isPercent := strings.CutSuffix(v.text, "%")
	if !isPercent {
		return 0, v.fault(CodeLimitFormat, `Fleet's controller takes a percentage such as "10%", an int without quotes, or one above 0 in quotes`)
	}
	p, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return 0, v.fault(CodeLimitNumber, "Fleet's controller takes a floating-point number and a percent sign here")
	}
	product := float64(count) * p
	// A product that no int64 can hold, NaN included, gives 1: its conversion would differ between
	// processors.
	if !(p > 0) || !(product < math.MaxInt64) {
		return 1, nil
	}
	return int(max(1, min(int64(product)/100, int64(count)))), nil
}
