package surge

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tranche-dev/tranche/internal/strictjson"
)

// Action is one step that may be taken now. Any subset of the actions of a plan may be carried out,
// in any order.
type Action struct {
	Index    int      `json:"index"`
	Op       Op       `json:"op"`
	Revision Revision `json:"revision,omitzero"` // of a creation; NoRevision for a deletion
	Reason   Reason   `json:"reason"`
}

// String returns the action as "+3 Surge", "-0 Outdated" or, for a creation at the stable revision,
// "~0 Hole".
func (a Action) String() string {
	sign := "+"
	if a.Op == Delete {
		sign = "-"
	} else if a.Revision == Stable {
		sign = "~"
	}
	return sign + strconv.Itoa(a.Index) + " " + a.Reason.String()
}

// Op says what to do with an index. Its zero value is not an operation. Op, [Revision] and [Reason]
// are bytes, and texts in JSON. The enums of configuration are texts in Go too, but a plan may have
// an Action for every replica: an Action takes 16 bytes, and would take 56 with texts.
type Op uint8

const (
	Create Op = iota + 1 // make a replica on a free index
	Delete               // remove a live replica
)

// Revision says what a created replica runs.
type Revision uint8

const (
	NoRevision Revision = iota // for a deletion
	Target                     // the revision that the set is updated to
	Stable                     // the revision that the replica had; used below the partition, and in a held replica of a set
)

// Reason says why an action is in a plan. The text is stable.
type Reason uint8

const (
	Hole                Reason = iota + 1 // create: a base index is absent
	Surge                                 // create: an extra replica is needed to keep the floor
	Outdated                              // delete: available and old, its turn has come, and the budget covers it
	OutdatedUnscheduled                   // delete: old and never scheduled, so nothing is lost
	OutdatedUnavailable                   // delete: old and not serving, so nothing is lost
	StaleSurge                            // delete: a surge of another revision that does not serve
	SurplusSurge                          // delete: a surge above what is needed
	Condemned                             // delete: above the surge range, a leftover of a larger configuration
)

// Blocked is the set of reasons why nothing more can be done after a plan: what the next step waits
// for. Nothing in this package depends on time, so there is no instant. A change of a slot can help
// for all reasons but [BlockedPaused], and a change of the Spec for all.
type Blocked uint16

const (
	// BlockedPaused: the Spec is paused, and a replica is outdated or lives at or above Replicas.
	BlockedPaused Blocked = 1 << iota
	// BlockedTerminating: a terminating replica holds an index.
	BlockedTerminating
	// BlockedBudgetExhausted: an available outdated replica must wait, because availability is at
	// the floor.
	BlockedBudgetExhausted
	// BlockedWaitingForSurge: as BlockedBudgetExhausted, and a surge exists that is not available
	// yet.
	BlockedWaitingForSurge
	// BlockedWaitingForBase: a base replica at the target revision is not available.
	BlockedWaitingForBase
	// BlockedProtectedDown: a replica below the partition, or a unit of a held replica of a set,
	// runs an old revision and is not available.
	BlockedProtectedDown
	// BlockedRepairWindow: an unavailable outdated replica must wait, because the largest allowed
	// number is in replacement.
	BlockedRepairWindow
	// BlockedWaitingForReplica: in a set under RollingUpdate, another replica is the current one.
	BlockedWaitingForReplica
)

// codes returns the texts of an enum by value. It is a method so that no package variable is
// needed. The empty text is no value.
func (Op) codes() []string { return []string{Create: "create", Delete: "delete"} }

func (Revision) codes() []string {
	return []string{NoRevision: "none", Target: "target", Stable: "stable"}
}

func (Reason) codes() []string {
	return []string{Hole: "Hole", Surge: "Surge", Outdated: "Outdated", OutdatedUnscheduled: "OutdatedUnscheduled",
		OutdatedUnavailable: "OutdatedUnavailable", StaleSurge: "StaleSurge", SurplusSurge: "SurplusSurge", Condemned: "Condemned"}
}

// The codes of a set are by position of the bit.
func (Blocked) codes() []string {
	return []string{"Paused", "Terminating", "BudgetExhausted", "WaitingForSurge", "WaitingForBase", "ProtectedDown",
		"RepairWindow", "WaitingForReplica"}
}

// coded is an enum whose texts are listed by value.
type coded interface {
	~uint8
	codes() []string
}

func codeText[T coded](value T, kind string) (string, error) {
	if codes := value.codes(); int(value) < len(codes) && codes[value] != "" {
		return codes[value], nil
	}
	text := kind + "(" + strconv.Itoa(int(value)) + ")"
	return text, &FieldError{Code: CodeUnknownValue, Value: text, Hint: "has no text: it is none of the constants"}
}

func marshalCode[T coded](value T, kind string) ([]byte, error) {
	text, err := codeText(value, kind)
	return []byte(text), err
}

func unmarshalCode[T coded](value *T, text []byte) error {
	position, err := codePosition((*value).codes(), string(text))
	if err == nil {
		*value = T(position)
	}
	return err
}

func codePosition(codes []string, text string) (int, error) {
	if position := slices.Index(codes, text); position >= 0 && text != "" {
		return position, nil
	}
	known := slices.DeleteFunc(codes, func(code string) bool { return code == "" })
	return 0, &FieldError{Code: CodeUnknownValue, Value: strconv.Quote(text), Hint: "must be " + strictjson.Choice(known...)}
}

// String returns "create" or "delete".
func (o Op) String() string { text, _ := codeText(o, "Op"); return text }

// MarshalText returns the text of String. The error for a value that is none of the constants is a
// *[FieldError].
func (o Op) MarshalText() ([]byte, error) { return marshalCode(o, "Op") }

// UnmarshalText reads what MarshalText writes. The error for an unknown text is a *[FieldError].
func (o *Op) UnmarshalText(text []byte) error { return unmarshalCode(o, text) }

// String returns "target", "stable" or "none".
func (r Revision) String() string { text, _ := codeText(r, "Revision"); return text }

// MarshalText returns the text of String. The error for a value that is none of the constants is a
// *[FieldError].
func (r Revision) MarshalText() ([]byte, error) { return marshalCode(r, "Revision") }

// UnmarshalText reads what MarshalText writes. The error for an unknown text is a *[FieldError].
func (r *Revision) UnmarshalText(text []byte) error { return unmarshalCode(r, text) }

// String returns the stable code, such as "Outdated".
func (r Reason) String() string { text, _ := codeText(r, "Reason"); return text }

// MarshalText returns the code. The error for a value that is none of the constants is a
// *[FieldError].
func (r Reason) MarshalText() ([]byte, error) { return marshalCode(r, "Reason") }

// UnmarshalText reads a code. The error for an unknown one is a *[FieldError].
func (r *Reason) UnmarshalText(text []byte) error { return unmarshalCode(r, text) }

// Has reports whether all reasons of other are in the set.
func (b Blocked) Has(other Blocked) bool { return b&other == other }

// list returns the stable codes of the set in the order of the constants; nil if it is empty.
func (b Blocked) list() []string {
	var list []string
	for bit, code := range b.codes() {
		if b.Has(1 << bit) {
			list = append(list, code)
		}
	}
	return list
}

// String returns the stable codes in the order of the constants, separated by blanks; it is empty
// for the empty set. It leaves out bits that are none of the constants.
func (b Blocked) String() string { return strings.Join(b.list(), " ") }

// MarshalJSON returns the list of codes; the empty set is an empty list. The error for bits that
// are none of the constants is a *[FieldError].
func (b Blocked) MarshalJSON() ([]byte, error) {
	if b >= 1<<len(b.codes()) {
		return nil, &FieldError{Code: CodeUnknownValue, Value: fmt.Sprintf("Blocked(%d)", uint16(b)), Hint: "holds bits that are none of the constants"}
	}
	if b == 0 {
		return []byte("[]"), nil
	}
	return json.Marshal(b.list())
}

// UnmarshalJSON reads a list of codes in any order. The error for an unknown code is a
// *[FieldError], and the set is then unchanged.
func (b *Blocked) UnmarshalJSON(data []byte) error {
	var list []string
	if err := json.Unmarshal(data, &list); err != nil {
		return &FieldError{Code: CodeType, Value: string(data), Hint: "must be a list of codes"}
	}
	set := Blocked(0)
	for _, code := range list {
		bit, err := codePosition(b.codes(), code)
		if err != nil {
			return err
		}
		set |= 1 << bit
	}
	*b = set
	return nil
}
