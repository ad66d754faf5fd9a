package surge

import (
	"fmt"
	"strconv"
	"strings"
)

// Slot is the state of one index of the set. An index has at most one occupant, and a terminating
// replica is one. This alone bounds what exists during an update, because nothing is ever created
// on a taken index.
//
// Old means any revision other than the target; two old revisions are never compared. The caller
// decides what available means: ready, ready for a while, or enough members ready.
//
// A Slot is a byte and not a text, because a state has one for every index. In JSON it is a text of
// one character.
type Slot uint8

const (
	// Absent means that the index is free. It is the zero value.
	Absent Slot = iota
	// Terminating is a replica on its way out; the index is still taken.
	Terminating
	// OldUnscheduled is an old replica that was never scheduled.
	OldUnscheduled
	// OldUnavailable is an old replica that was scheduled and does not serve.
	OldUnavailable
	// OldAvailable is an old replica that serves.
	OldAvailable
	// TargetUnavailable is a replica at the target revision that does not serve yet, or no longer
	// serves.
	TargetUnavailable
	// TargetAvailable is a replica at the target revision that serves.
	TargetAvailable

	slotKinds
)

// notation has one character per kind of slot, in the order of the constants.
const notation = ".tuoOnN"

const hintSlot = "must be one of the constants, from Absent, 0, to TargetAvailable, 6"

// normal maps a value that is none of the constants to Terminating: an unknown slot counts as taken
// and is left alone.
func (s Slot) normal() Slot {
	if s >= slotKinds {
		return Terminating
	}
	return s
}

// Live reports whether the slot has a replica that is not terminating.
func (s Slot) Live() bool { return OldUnscheduled <= s && s < slotKinds }

// Available reports whether the replica serves.
func (s Slot) Available() bool { return s == OldAvailable || s == TargetAvailable }

// Old reports whether a live replica runs another revision than the target.
func (s Slot) Old() bool { return OldUnscheduled <= s && s <= OldAvailable }

// String returns the one-character notation: '.' absent, 't' terminating, 'u' old and unscheduled,
// 'o' old and unavailable, 'O' old and available, 'n' target and unavailable, 'N' target and
// available; "?" for any other value.
func (s Slot) String() string {
	if s >= slotKinds {
		return "?"
	}
	return notation[s : s+1]
}

// MarshalText returns the one-character notation. The error for a value that is none of the
// constants is a *[FieldError].
func (s Slot) MarshalText() ([]byte, error) {
	if s >= slotKinds {
		return nil, &FieldError{Code: CodeUnknownValue, Value: strconv.Itoa(int(s)), Hint: hintSlot}
	}
	return []byte{notation[s]}, nil
}

// UnmarshalText reads the one-character notation. The error for any other text is a *[FieldError],
// and the slot is then unchanged.
func (s *Slot) UnmarshalText(text []byte) error {
	slots, err := ParseSlots(string(text))
	if err != nil || len(slots) != 1 {
		return &FieldError{Code: CodeUnknownValue, Value: strconv.Quote(string(text)), Hint: "must be one of " + notation}
	}
	*s = slots[0]
	return nil
}

// ParseSlots reads a state in the notation of [Slot.String], one character per index. Each unknown
// character is a *[FieldError] with the path slots[i]; all of them are reported, joined.
func ParseSlots(text string) ([]Slot, error) {
	var faults faults
	slots := make([]Slot, 0, len(text))
	for _, char := range text {
		slot := strings.IndexRune(notation, char)
		if slot < 0 {
			faults.add(fmt.Sprintf("slots[%d]", len(slots)), CodeUnknownValue, strconv.QuoteRune(char), "must be one of "+notation)
		}
		slots = append(slots, Slot(slot))
	}
	if err := faults.err(); err != nil {
		return nil, err
	}
	return slots, nil
}

// FormatSlots writes a state in the notation that [ParseSlots] reads. A slot that is none of the
// constants is "?", which ParseSlots refuses.
func FormatSlots(slots []Slot) string {
	text := make([]byte, len(slots))
	for i, slot := range slots {
		text[i] = slot.String()[0]
	}
	return string(text)
}

// MaxReplicas is the largest number of replicas that Validate accepts. The time that [Plan] needs,
// and the memory for the actions, grow with the replicas. Those of [PlanSet] grow with the units of
// all replicas of the set, and a valid SetSpec can have more units than a machine can hold.
const MaxReplicas = 1 << 24

// maxIndex is the highest index that Arrange accepts. It leaves room for a surge as large as the
// base.
const maxIndex = 2*MaxReplicas - 1

// Replica is one observed replica with its index, for callers that hold a list rather than a state.
type Replica struct {
	Index int  `json:"index"` // 0 … 33554431
	Slot  Slot `json:"slot"`
}

// Arrange puts observed replicas, given in any order, into the state that [Plan] reads. Indices
// that are not listed are absent. The result has no absent slot at its end and belongs to the
// caller. A negative or enormous index, an index given twice, and an unknown slot are errors. All
// of them are reported, joined, each a *[FieldError] with a path such as replicas[3].index. Two
// replicas on one index cannot be planned for: the caller must decide which one holds it.
func Arrange(replicas []Replica) ([]Slot, error) {
	var faults faults
	length := 0
	for i, replica := range replicas {
		at := "replicas[" + strconv.Itoa(i) + "]"
		if replica.Slot >= slotKinds {
			faults.add(at+".slot", CodeUnknownValue, strconv.Itoa(int(replica.Slot)), hintSlot)
		}
		if replica.Index < 0 || replica.Index > maxIndex {
			faults.add(at+".index", CodeOutOfRange, strconv.Itoa(replica.Index), "must be within 0 and "+strconv.Itoa(maxIndex))
		} else if replica.Slot != Absent {
			length = max(length, replica.Index+1)
		}
	}
	first := make(map[int]int, len(replicas))
	for i, replica := range replicas {
		if before, twice := first[replica.Index]; twice {
			faults.add("replicas["+strconv.Itoa(i)+"].index", CodeDuplicate, strconv.Itoa(replica.Index),
				"given twice, first by replicas["+strconv.Itoa(before)+"]: an index has one occupant")
			continue
		}
		first[replica.Index] = i
	}
	if err := faults.err(); err != nil {
		return nil, err
	}
	slots := make([]Slot, length)
	for _, replica := range replicas {
		if replica.Slot != Absent {
			slots[replica.Index] = replica.Slot
		}
	}
	return slots, nil
}
