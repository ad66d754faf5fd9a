package staged

import (
	"fmt"
	"strconv"
	"strings"
)

// stateLetters has the code of each state, in the order of the states.
const stateLetters = "wsuodftxr"

// letter returns the code of a record: that of its state, c for waiting and current, g for done and
// regressed. A settled member that was never started has the capital letter.
func (r *record) letter() byte {
	l := stateLetters[r.state]
	switch {
	case r.marks.has(current):
		l = 'c'
	case r.marks.has(regressed):
		l = 'g'
	}
	if r.state.Settled() && !r.marks.has(started) {
		l -= 'a' - 'A'
	}
	return l
}

// recordOf is the inverse of [record.letter].
func recordOf(letter byte) (record, bool) {
	r := record{attempt: 1}
	lower := letter | ('a' - 'A')
	switch lower {
	case 'c':
		r.marks = current
	case 'g':
		r.state, r.marks = Done, regressed
	default:
		state := strings.IndexByte(stateLetters, lower)
		if state < 0 {
			return r, false
		}
		r.state = TargetState(state)
	}
	if r.state != Waiting && lower == letter {
		r.marks |= started
	}
	// A member that is in progress or timed out was started, and a waiting member has no capital
	// letter.
	return r, lower == letter || r.state.Settled() && r.state != TimedOut
}

// letters writes the states of the members of a stage: one letter each, with a count in front of
// several equal ones. [expand] reads them.
type letters struct {
	text  []byte
	last  byte
	equal int // how many of the last letter are not written yet
}

func (l *letters) add(letter byte) {
	if letter != l.last {
		l.flush()
		l.last = letter
	}
	l.equal++
}

func (l *letters) flush() {
	if l.equal > 1 {
		l.text = strconv.AppendInt(l.text, int64(l.equal), 10)
	}
	if l.equal > 0 {
		l.text = append(l.text, l.last)
	}
	l.equal = 0
}

// expand reads the states of n members.
func expand(states string, n int) (records []record, fault string) {
	records = make([]record, 0, n)
	last := byte(0)
	for states != "" {
		digits := digitsOf(states)
		count := 1
		if digits != "" {
			count = 0
			for _, c := range []byte(digits) {
				if count = count*10 + int(c-'0'); count > n {
					return nil, "have more entries than there are names"
				}
			}
			if count < 2 || digits[0] == '0' {
				return nil, "must have counts from 2, without leading zeros"
			}
		}
		if states = states[len(digits):]; states == "" {
			return nil, "end with a count"
		}
		r, ok := recordOf(states[0])
		switch {
		case !ok:
			return nil, fmt.Sprintf("have the unknown state %q", states[0])
		case states[0] == last:
			return nil, fmt.Sprintf("have %q twice in a row without a count", last)
		case len(records)+count > n:
			return nil, "have more entries than there are names"
		}
		last, states = states[0], states[1:]
		for range count {
			records = append(records, r)
		}
	}
	if len(records) != n {
		return nil, fmt.Sprintf("have %d entries for %d names", len(records), n)
	}
	return records, ""
}
