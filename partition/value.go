package partition

import (
	"encoding/json"
	"math"
	"strconv"
)

// IntOrString is a limit as fleet.yaml has it: an int such as 5, or a string such as "10%". It
// carries what was written and no meaning: what a string stands for depends on the [Mode] and is
// decided where the limit is used. The zero value is absent.
//
// It is wider than concurrency.Limit on purpose: Fleet knows fractions of a percent, ints inside
// strings, and clamps. Whole percentages mean the same there with the rounding FloorMin1.
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

// FromInt returns the limit that is a bare number in fleet.yaml. A negative one counts as 0.
func FromInt(n int32) IntOrString { return IntOrString{n: n, form: isInt} }

// FromString returns the limit that is a string in fleet.yaml. The empty string is a value, and a
// wrong one.
func FromString(text string) IntOrString { return IntOrString{text: text, form: isString} }

// IsZero reports whether the value is absent. encoding/json consults it for fields tagged omitzero.
func (v IntOrString) IsZero() bool { return v.form == absent }

// String returns the value as fleet.yaml would have it: 5, "10%", or null if absent.
func (v IntOrString) String() string {
	switch v.form {
	case isInt:
		return strconv.Itoa(int(v.n))
	case isString:
		return quoted(v.text)
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
// any string; null is absent. Everything else is a *[FieldError], and the value is unchanged.
// Whether a string is a limit shows later: see [Strategy.Validate].
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
