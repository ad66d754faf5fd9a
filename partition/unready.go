package partition

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/tranche-dev/tranche/internal/strictjson"
)

// Unready is a cluster that is NotReady and does not wait, with the reasons.
type Unready struct {
	ID
	Why Why `json:"why"`
}

// String returns "cluster: why".
func (u Unready) String() string { return u.ID.String() + ": " + u.Why.String() }

// Why is the set of reasons why a cluster is NotReady.
type Why uint8

// The reasons why a cluster is NotReady.
const (
	// Its agent has not applied the version that it was pointed at. In the default mode this also
	// holds for every cluster that the step releases, whatever its agent applied before.
	NotApplied Why = 1 << iota
	NotReady       // its agent does not say that it is ready
	IsOffline
	IsPaused
)

func (Why) codes() []string { return []string{"not_applied", "not_ready", "offline", "paused"} }

func (w Why) list() []string {
	list := []string{}
	for bit, code := range w.codes() {
		if w&(1<<bit) != 0 {
			list = append(list, code)
		}
	}
	return list
}

// String returns the stable codes in the order of the constants, separated by commas. It leaves out
// bits that are none of the constants.
func (w Why) String() string { return strings.Join(w.list(), ",") }

// MarshalJSON returns the list of codes in the order of the constants. The error for other bits is
// a *[FieldError].
func (w Why) MarshalJSON() ([]byte, error) {
	if w >= 1<<len(w.codes()) {
		return nil, &FieldError{Code: CodeValue, Value: "Why(" + strconv.Itoa(int(w)) + ")", Hint: "holds bits that are none of the constants"}
	}
	return json.Marshal(w.list())
}

// UnmarshalJSON reads a list of codes in any order. The error for an unknown code is a
// *[FieldError], and the set is then unchanged.
func (w *Why) UnmarshalJSON(data []byte) error {
	var list []string
	if err := json.Unmarshal(data, &list); err != nil {
		return &FieldError{Code: CodeType, Value: string(data), Hint: "must be a list of codes"}
	}
	set := Why(0)
	for _, code := range list {
		bit := slices.Index(w.codes(), code)
		if bit < 0 {
			return &FieldError{Code: CodeValue, Value: strconv.Quote(code), Hint: "must be " + strictjson.Choice(w.codes()...)}
		}
		set |= 1 << bit
	}
	*w = set
	return nil
}

// unready returns why a cluster that neither waits nor is held is NotReady, or 0 if it is not
// NotReady.
func (c *Compiled) unready(cluster uint32) (w Why) {
	f, class := c.facts[cluster], c.class(cluster)
	if c.mode == FleetController && class&(waits|lenient) != lenient ||
		c.mode != FleetController && class != updating && class != blocked {
		return 0
	}
	for _, row := range []struct {
		is  bool
		why Why
	}{
		{!f.has(appliedReleased), NotApplied},
		{!f.has(isReady), NotReady},
		{f.has(isOffline), IsOffline},
		{f.has(isPaused), IsPaused},
	} {
		if row.is {
			w |= row.why
		}
	}
	return w
}
