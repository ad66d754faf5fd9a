package partition

import (
	"encoding/json"
	"math"
	"strconv"
)

// IntOrString is a limit as fleet.yaml has it: an int such as 5, or a string such as "10%". It
// holds what was written, without its meaning: the meaning of a string depends on the [Mode], and
// is decided where the limit is used. The zero value is absent.
//
// In the default mode a string is a limit if it is digits, which mean the same as the int, or a
// percentage: digits with an optional fraction, such as "4.6%" or ".5%", at most nine digits in all.
// A plus sign may stand before either. An int above the number of members, clusters or partitions
// that it is about counts as that number.
//
// It is deliberately wider than concurrency.Limit: Fleet knows fractions of a percent and ints
// inside strings, and it clamps. A whole percentage means the same as there with the rounding
// FloorMin1.
type IntOrString struct {
	text string
	n    int32
	form form
}

type form uint8

const (
	absent form = iota
	isInt
	isString
)

// FromInt returns the limit that fleet.yaml writes as a bare number. A negative one counts as 0, and
// the default mode warns of it, except as AutoPartitionSize: there 0 or less makes a single
// partition.
func FromInt(n int32) IntOrString { return IntOrString{n: n, form: isInt} }

// FromString returns the limit that fleet.yaml writes as a string. The empty string is a value, and
// not a valid one.
func FromString(text string) IntOrString { return IntOrString{text: text, form: isString} }

// IsZero reports whether the value is absent. encoding/json consults it for fields tagged omitzero.
func (v IntOrString) IsZero() bool { return v.form == absent }

// String returns the value as fleet.yaml would have it: 5, "10%", or null if absent.
func (v IntOrString) String() string {
	switch v.form {
	case isInt:
		return strconv.Itoa(int(v.n))
	case isString:
		return strconv.Quote(v.text)
	}
	return "null"
}

// MarshalJSON returns 5, "10%", or null if absent.
func (v IntOrString) MarshalJSON() ([]byte, error) {
	if v.form == isString {
		return json.Marshal(v.text)
	}
	return []byte(v.String()), nil
}

// UnmarshalJSON reads a number without fraction and exponent, from -2147483648 to 2147483647, or
// any string. Null is absent. The error for everything else is a *[FieldError], and the value is
// then unchanged. [Strategy.Validate] checks whether a string is a limit.
func (v *IntOrString) UnmarshalJSON(data []byte) error {
	text := string(data)
	if text == "null" {
		*v = IntOrString{}
		return nil
	}
	if len(text) > 0 && text[0] == '"' {
		var s string
		if err := json.Unmarshal(data, &s); err != nil {
			return &FieldError{Code: CodeType, Value: text, Hint: err.Error()}
		}
		*v = FromString(s)
		return nil
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || text[0] == '+' {
		return &FieldError{Code: CodeType, Value: text,
			Hint: "must be an int from " + strconv.Itoa(math.MinInt32) + " to " + strconv.Itoa(math.MaxInt32) + `, or a percentage such as "10%"`}
	}
	*v = FromInt(int32(n))
	return nil
}
