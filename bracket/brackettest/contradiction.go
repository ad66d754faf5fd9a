package brackettest

import (
	"cmp"
	"errors"
	"slices"

	"github.com/tranche-dev/tranche/bracket"
)

// last returns the place of the last state that can have begun by an instant.
func (k *keyHistory) last(by int) int {
	i, _ := slices.BinarySearchFunc(k.states, by, func(s state, by int) int { return cmp.Compare(s.earliest, by) })
	return i - 1
}

// first returns the place of the first state that need not have ended by an instant.
func (k *keyHistory) first(by int) int {
	i, _ := slices.BinarySearchFunc(k.states[1:], by, func(s state, by int) int { return cmp.Compare(s.latest, by) })
	return i
}

// absences counts the states without a revision from one place to another.
func (k *keyHistory) absences(from, to int) int {
	n := k.states[to].absent
	if from > 0 {
		n -= k.states[from-1].absent
	}
	return n
}

// later reports whether a write of unknown outcome, which replaces or deletes the last state, may
// have taken effect by an instant. Nobody was told of it.
func (k *keyHistory) later(writes []*call, by int) bool {
	last := k.states[len(k.states)-1]
	return by > last.earliest && slices.ContainsFunc(writes, func(c *call) bool {
		return c.unknown() && c.replaced == last.revision && c.begin < by
	})
}

// refusals checks that who was refused had a reason to be.
func (k *keyHistory) refusals() {
	for _, c := range slices.Concat(k.saves, k.deletes) {
		conflict := errors.Is(c.err, bracket.ErrConflict)
		if c.end == never || !conflict && !errors.Is(c.err, bracket.ErrNotFound) {
			continue
		}
		from, to := k.first(c.begin), k.last(c.end)
		absent := k.absences(from, to)
		switch {
		case c.replaced == 0 && c.method == "Save":
			if absent == to-from+1 && !k.later(k.saves, c.end) {
				k.fault("%v, though there was no such key", c)
			}
		case conflict:
			if k.states[from].revision == c.replaced && from == to && !k.later(k.saves, c.end) && !k.later(k.deletes, c.end) {
				k.fault("%v, though that was the stored revision", c)
			}
		case absent == 0 && !k.later(k.deletes, c.end):
			k.fault("%v, though the key was there", c)
		}
	}
}

// readings checks that what was read had been written, and not before the client's own writes.
func (k *keyHistory) readings() {
	type write struct{ end, place int } // place: the latest state that the client made until then
	own := make(map[int][]write)        // by client, in order of their ends
	for i, s := range k.states {
		if s.writer != nil && s.writer.succeeded() {
			own[s.writer.client] = append(own[s.writer.client], write{s.writer.end, i})
		}
	}
	for _, writes := range own {
		slices.SortFunc(writes, func(a, b write) int { return cmp.Compare(a.end, b.end) })
		for i := 1; i < len(writes); i++ {
			writes[i].place = max(writes[i].place, writes[i-1].place)
		}
	}
	for _, c := range k.reads {
		writes, from := own[c.client], 0
		if n, _ := slices.BinarySearchFunc(writes, c.begin, func(w write, begin int) int { return cmp.Compare(w.end, begin) }); n > 0 {
			from = writes[n-1].place
		}
		if c.err != nil {
			if k.absences(from, k.last(c.end)) == 0 && !k.later(k.deletes, c.end) {
				k.fault("%v found nothing, though the key was there since the same client's %v", c, k.states[from].writer)
			}
			continue
		}
		at := k.places[c.revision]
		switch s := k.states[at]; {
		case s.writer.value != c.value:
			k.fault("%v: revision %d has the value %.40q, and was saved as %.40q", c, c.revision, c.value, s.writer.value)
		case at < from:
			k.fault("%v: revision %d is older than the same client's %v", c, c.revision, k.states[from].writer)
		}
	}
}
