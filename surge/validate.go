package surge

import (
	"fmt"
	"strconv"

	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/internal/strictjson"
)

// Validate reports every fault of the Spec, joined, each a *[FieldError]. Values that can change
// later, such as Replicas under an autoscaler, are clamped when planning. So a Spec that was valid
// once can always be planned with.
//
// Counts must not be negative, and Replicas not above [MaxReplicas]. MaxSurge and MaxUnavailable
// must not both be zero as written: "0%" is zero, "1%" of 3 is not. MaxUnavailable must not exceed
// Replicas or 100 %, and MinAvailable must not exceed Replicas. The comparisons with Replicas are
// not made while Replicas is 0, so that a set can be scaled to 0 and back.
func (s Spec) Validate() error {
	var faults faults
	s.validate(&faults, below("", ""))
	return faults.err()
}

// fields returns the path of a field of a Spec in a document, by the name of the field.
type fields func(name string) (path string)

// below returns fields whose budgets have one prefix and whose other fields have another. Both
// prefixes end in a dot or are empty.
func below(prefix, budgets string) fields {
	return func(name string) string {
		if name == "maxSurge" || name == "maxUnavailable" {
			return budgets + name
		}
		return prefix + name
	}
}

// validate appends the faults of the Spec.
func (s Spec) validate(faults *faults, at fields) {
	count := func(name string, value int) {
		if value < 0 {
			faults.add(at(name), CodeOutOfRange, strconv.Itoa(value), "must not be negative")
		}
	}
	count("replicas", s.Replicas)
	count("partition", s.Partition)
	count("minAvailable", s.MinAvailable)
	if s.Replicas > MaxReplicas {
		faults.add(at("replicas"), CodeOutOfRange, strconv.Itoa(s.Replicas), "must be at most "+strconv.Itoa(MaxReplicas))
	}
	unavailable := s.maxUnavailable()
	if unavailable.Value() == 0 && s.MaxSurge.Value() == 0 {
		faults.add(at("maxUnavailable"), CodeConflict, strictjson.Value(unavailable),
			"maxSurge is 0 too, so nothing could ever be updated: raise one of them")
	}
	if unavailable.IsPercent() && unavailable.Value() > 100 {
		faults.add(at("maxUnavailable"), CodeOutOfRange, strictjson.Value(unavailable), "must be at most 100%")
	}
	if s.Replicas > 0 {
		if !unavailable.IsPercent() && unavailable.Value() > s.Replicas {
			faults.add(at("maxUnavailable"), CodeOutOfRange, strictjson.Value(unavailable), fmt.Sprintf("must be at most replicas, %d", s.Replicas))
		}
		if s.MinAvailable > s.Replicas {
			faults.add(at("minAvailable"), CodeOutOfRange, strconv.Itoa(s.MinAvailable), fmt.Sprintf("must be at most replicas, %d", s.Replicas))
		}
	}
	switch s.Order {
	case "", Ascending, Descending:
	default:
		faults.add(at("order"), CodeUnknownValue, strconv.Quote(string(s.Order)), `must be "ascending" or "descending"`)
	}
}

// WarningCode is a kind of warning. Codes are part of the compatibility promise.
type WarningCode string

// The kinds of warnings, in the order in which they are listed.
const (
	// WarningBelowMinAvailable: the update itself goes below the minimum of the base gang, so a
	// mechanism that acts on a broken minimum must be suspended while it runs.
	WarningBelowMinAvailable WarningCode = "BelowMinAvailable"
	// WarningSurgeGated: surges wait for a base gang that the same update takes apart.
	WarningSurgeGated WarningCode = "SurgeGated"
	// WarningRoundsToZero: a percentage that rounds down resolves to 0.
	WarningRoundsToZero WarningCode = "RoundsToZero"
	// WarningWholeSetDown: all replicas may be down at once.
	WarningWholeSetDown WarningCode = "WholeSetDown"
	// WarningFencepost: both budgets resolve to 0, so one replica may be unavailable.
	WarningFencepost WarningCode = "Fencepost"
)

// Warning is a legal configuration that its author may not have meant. A warning is never a reason
// to refuse it.
type Warning struct {
	Code WarningCode `json:"code"`
	Path string      `json:"path"` // the field to look at
	Text string      `json:"text"` // for people
}

// String returns "path: text (code)".
func (w Warning) String() string { return w.Path + ": " + w.Text + " (" + string(w.Code) + ")" }

// Warnings lists legal settings that their author may not have meant, in the order of the codes.
func (s Spec) Warnings() []Warning { return s.warnings(below("", "")) }

func (s Spec) warnings(at fields) []Warning {
	var list []Warning
	add := func(code WarningCode, path, format string, args ...any) {
		list = append(list, Warning{Code: code, Path: path, Text: fmt.Sprintf(format, args...)})
	}
	r := s.Resolve()
	if r.Floor() < r.MinAvailable {
		add(WarningBelowMinAvailable, at("minAvailable"),
			"the update itself goes down to %d available, below %d: suspend gang termination while it runs", r.Floor(), r.MinAvailable)
	}
	if r.Surge > 0 && r.Unavailable > 0 && r.MinAvailable == r.Replicas {
		add(WarningSurgeGated, at("maxSurge"),
			"surge replicas wait for a base gang of %s, which maxUnavailable lets the update take apart", all(r.Replicas))
	}
	if r.Replicas > 0 {
		if v := s.maxUnavailable(); v.Value() > 0 && v.Of(r.Replicas, concurrency.Floor) == 0 {
			add(WarningRoundsToZero, at("maxUnavailable"), "%s of %d is 0", v, r.Replicas)
		}
		if r.Unavailable == r.Replicas {
			add(WarningWholeSetDown, at("maxUnavailable"), "%s may be down at once", all(r.Replicas))
		}
		if r.Surge == 0 && s.maxUnavailable().Of(r.Replicas, concurrency.Floor) == 0 {
			add(WarningFencepost, at("maxUnavailable"), "both budgets resolve to 0, so one replica may be unavailable")
		}
	}
	return list
}

// all returns words for the whole set.
func all(replicas int) string {
	if replicas == 1 {
		return "the only replica"
	}
	return fmt.Sprintf("all %d replicas", replicas)
}
