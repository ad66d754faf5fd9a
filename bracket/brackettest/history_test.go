package brackettest_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/bracket/brackettest"
	"github.com/tranche-dev/tranche/internal/testkit"
)

// state is what a key holds between two writes.
type state struct {
	revision int64 // 0: nothing
	value    string
}

// explained reports whether calls on one key can be explained: it tries every order in which their
// writes can have taken effect.
func explained(calls []brackettest.Recorded) bool {
	type event struct{ at, of int }
	var events []event
	var numbers []int64 // revisions that a save of unknown outcome can have written
	for i, c := range calls {
		events = append(events, event{c.Begin, i})
		if c.End != 0 {
			events = append(events, event{c.End, i})
		}
		numbers = append(numbers, c.Revision, 99) // 99: one that nobody was ever told
		if c.End != 0 && c.Err == nil {
			numbers = append(numbers, c.Replaced)
		}
	}
	slices.SortFunc(events, func(a, b event) int { return a.at - b.at })
	slices.Sort(numbers)
	numbers = slices.Compact(numbers)
	refused := func(c brackettest.Recorded, s state) bool { // whether a state is a reason to refuse
		if errors.Is(c.Err, bracket.ErrNotFound) {
			return s.revision == 0
		}
		return s.revision != c.Replaced
	}
	isRefusal := func(c brackettest.Recorded) bool {
		return c.Method != "Load" && (errors.Is(c.Err, bracket.ErrConflict) || errors.Is(c.Err, bracket.ErrNotFound))
	}
	type world struct {
		next   int // event
		states []state
		active []int
		done   map[int]int // the state that each write led to
		ended  map[int]bool
		floor  map[int]int // of each read: the state of its client's last own write
		free   map[int]bool
	}
	var search func(w world) bool
	search = func(w world) bool {
		now := w.states[len(w.states)-1]
		free := map[int]bool{}
		for i := range w.free {
			free[i] = true
		}
		for _, i := range w.active {
			if isRefusal(calls[i]) && refused(calls[i], now) {
				free[i] = true
			}
		}
		w.free = free
		greatest := int64(0)
		for _, s := range w.states {
			greatest = max(greatest, s.revision)
		}
		apply := func(i int, s state) bool {
			done := map[int]int{i: len(w.states)}
			for k, v := range w.done {
				done[k] = v
			}
			n := w
			n.done, n.states = done, append(slices.Clone(w.states), s)
			return search(n)
		}
		for i, c := range calls {
			if _, done := w.done[i]; done || c.Method == "Load" || isRefusal(c) || c.Replaced != now.revision {
				continue
			}
			begun, unknown := slices.Contains(w.active, i), c.End == 0 || c.Err != nil
			if !begun && !(unknown && w.ended[i]) {
				continue
			}
			switch {
			case c.Method == "Delete":
				if now.revision != 0 && apply(i, state{}) {
					return true
				}
			case unknown:
				for _, r := range numbers {
					if r > greatest && apply(i, state{r, c.Value}) {
						return true
					}
				}
			case c.Revision > greatest:
				if apply(i, state{c.Revision, c.Value}) {
					return true
				}
			}
		}
		if w.next == len(events) {
			return true
		}
		i := events[w.next].of
		c := calls[i]
		n := w
		n.next++
		if !slices.Contains(w.active, i) {
			n.active = append(slices.Clone(w.active), i)
			if c.Method == "Load" {
				n.floor = map[int]int{}
				for k, v := range w.floor {
					n.floor[k] = v
				}
				for j, led := range w.done {
					if o := calls[j]; o.Client == c.Client && w.ended[j] && o.Err == nil {
						n.floor[i] = max(n.floor[i], led)
					}
				}
			}
			return search(n)
		}
		n.active = slices.DeleteFunc(slices.Clone(w.active), func(j int) bool { return j == i })
		n.ended = map[int]bool{i: true}
		for k := range w.ended {
			n.ended[k] = true
		}
		switch _, done := w.done[i]; {
		case c.Method == "Load" && c.Err != nil && !errors.Is(c.Err, bracket.ErrNotFound):
		case c.Method == "Load":
			want := state{c.Revision, c.Value}
			if c.Err != nil {
				want = state{}
			}
			if !slices.Contains(w.states[w.floor[i]:], want) {
				return false
			}
		case isRefusal(c):
			if !w.free[i] {
				return false
			}
		case c.Err == nil && !done:
			return false
		}
		return search(n)
	}
	return search(world{states: []state{{}}, done: map[int]int{}, ended: map[int]bool{}, floor: map[int]int{}, free: map[int]bool{}})
}

var errLost = errors.New("the answer is lost")

// play draws calls of a store without fault.
func play(r *rand.Rand) []brackettest.Recorded {
	var calls []brackettest.Recorded
	states := []state{{}}
	type pending struct {
		i       int
		applied bool
	}
	var open []*pending
	clock, greatest := 0, int64(0)
	told := []int64{0} // what callers know
	effect := func(p *pending) {
		c := &calls[p.i]
		now := states[len(states)-1]
		if p.applied {
			return
		}
		p.applied = true
		switch {
		case c.Method == "Load":
			if now.revision == 0 {
				c.Err = bracket.ErrNotFound
			}
			c.Revision, c.Value = now.revision, now.value
		case c.Method == "Delete" && now.revision == 0:
			c.Err = bracket.ErrNotFound
		case c.Replaced != now.revision:
			c.Err = bracket.ErrConflict
		case c.Method == "Delete":
			states = append(states, state{})
		default:
			greatest += 1 + int64(r.IntN(2))
			c.Revision = greatest
			states = append(states, state{greatest, c.Value})
		}
	}
	for n := 1 + r.IntN(6); len(calls) < n || len(open) > 0; {
		switch {
		case len(calls) < n && (len(open) == 0 || r.IntN(2) == 0):
			clock++
			c := brackettest.Recorded{Client: 1 + r.IntN(2), Method: []string{"Load", "Save", "Save", "Delete"}[r.IntN(4)], Begin: clock}
			if c.Method == "Save" || c.Method == "Delete" {
				c.Replaced = told[max(0, len(told)-1-r.IntN(4)/3)]
			}
			if c.Method == "Delete" && c.Replaced == 0 {
				c.Method = "Save"
			}
			if c.Method == "Save" {
				c.Value = string(rune('a' + r.IntN(2)))
			}
			calls = append(calls, c)
			open = append(open, &pending{i: len(calls) - 1})
		default:
			k := r.IntN(len(open))
			p := open[k]
			if r.IntN(3) == 0 {
				effect(p) // and answered later
				continue
			}
			c := &calls[p.i]
			open = slices.Delete(open, k, k+1)
			lost := c.Method != "Load" && r.IntN(5) == 0
			if !lost || r.IntN(2) == 0 {
				effect(p)
			}
			if clock++; !lost || r.IntN(2) == 0 {
				c.End = clock
			}
			if lost && (c.Err == nil || c.End == 0) {
				c.Err, c.Revision = errLost, 0
				if c.End == 0 {
					c.Err = nil
				}
			}
			if c.End != 0 && c.Method != "Delete" && c.Err == nil || errors.Is(c.Err, bracket.ErrNotFound) {
				told = append(told, c.Revision)
			}
		}
	}
	return calls
}

// spoil changes one thing of one call.
func spoil(r *rand.Rand, calls []brackettest.Recorded) {
	c := &calls[r.IntN(len(calls))]
	answered := c.End != 0 && c.Err == nil
	switch r.IntN(5) {
	case 0:
		if answered && c.Method != "Delete" {
			c.Revision = max(1, c.Revision+int64(r.IntN(3))-1)
		}
	case 1:
		if answered || c.Method == "Save" {
			c.Value = string(rune('a' + r.IntN(2)))
		}
	case 2:
		if c.Method != "Load" && c.Replaced > 0 {
			c.Replaced = max(1, c.Replaced+int64(r.IntN(3))-1)
		}
	case 3:
		if c.End != 0 {
			c.Err, c.Revision = []error{bracket.ErrConflict, bracket.ErrNotFound, errLost}[r.IntN(3)], 0
			if c.Method == "Save" && errors.Is(c.Err, bracket.ErrNotFound) || c.Method == "Load" {
				c.Err = bracket.ErrConflict
			}
			if c.Method == "Load" {
				c.Err = bracket.ErrNotFound
			}
		}
	case 4:
		if c.Err != nil && c.Method == "Save" && c.End != 0 {
			c.Err, c.Revision = nil, 1+int64(r.IntN(6))
		}
	}
}

// guessed reports whether a write was given a revision that no call had returned.
func guessed(calls []brackettest.Recorded) bool {
	return slices.ContainsFunc(calls, func(c brackettest.Recorded) bool {
		return c.Replaced != 0 && !slices.ContainsFunc(calls, func(o brackettest.Recorded) bool {
			return o.Revision == c.Replaced && o.End != 0 && o.Err == nil && o.End < c.Begin
		})
	})
}

func text(calls []brackettest.Recorded) string {
	var b strings.Builder
	for _, c := range calls {
		fmt.Fprintf(&b, "%+v\n", c)
	}
	return b.String()
}

// TestHistoryIsExplained: a history is refused only if no order of its writes explains it, and
// nearly whenever none does. What is missed are those in which several calls that were refused or
// lost contradict each other, none of them alone.
func TestHistoryIsExplained(t *testing.T) {
	seen := testkit.Tally{}
	seen.Check(t, func(t *rapid.T) {
		for range 20 {
			r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
			calls := play(r)
			if err := brackettest.HistoryOf(calls...).Check(); err != nil {
				t.Fatalf("%v\nof a store without fault:\n%s", err, text(calls))
			}
			for range r.IntN(3) {
				spoil(r, calls)
			}
			if guessed(calls) {
				continue
			}
			err, want := brackettest.HistoryOf(calls...).Check(), explained(calls)
			certain := !slices.ContainsFunc(calls, func(c brackettest.Recorded) bool { return c.End == 0 || c.Err == errLost })
			switch {
			case err != nil && want:
				t.Fatalf("%v\nthough there is an order:\n%s", err, text(calls))
			case err == nil && !want:
				seen["missed"]++
				failed := 0
				for _, c := range calls {
					if c.Err != nil || c.End == 0 {
						failed++
					}
				}
				if failed < 2 {
					t.Fatalf("no contradiction is found in\n%s", text(calls))
				}
			case certain:
				seen[fmt.Sprint("certain, explained ", want)]++
			default:
				seen[fmt.Sprint("explained ", want)]++
			}
		}
	}, "certain, explained true", "certain, explained false", "explained true", "explained false")
	if missed, found := seen["missed"], seen["certain, explained false"]+seen["explained false"]; missed*100 > found {
		t.Errorf("%d contradictions are found and %d are not", found, missed)
	}
}

// TestHistoryContradictions has a row for each kind of contradiction, and for what looks like one.
func TestHistoryContradictions(t *testing.T) {
	save := func(client int, replaced, revision int64, value string, begin, end int) brackettest.Recorded {
		return brackettest.Recorded{Client: client, Method: "Save", Replaced: replaced, Revision: revision, Value: value, Begin: begin, End: end}
	}
	load := func(client int, revision int64, value string, begin, end int) brackettest.Recorded {
		return brackettest.Recorded{Client: client, Method: "Load", Revision: revision, Value: value, Begin: begin, End: end}
	}
	remove := func(client int, replaced int64, begin, end int) brackettest.Recorded {
		return brackettest.Recorded{Client: client, Method: "Delete", Replaced: replaced, Begin: begin, End: end}
	}
	but := func(c brackettest.Recorded, err error) brackettest.Recorded {
		c.Err, c.Revision = err, 0
		return c
	}
	none := brackettest.Recorded{Client: 2, Method: "Load", Err: bracket.ErrNotFound}
	at := func(c brackettest.Recorded, begin, end int) brackettest.Recorded {
		c.Begin, c.End = begin, end
		return c
	}
	first := save(1, 0, 1, "a", 1, 2)
	for _, row := range []struct {
		why   string
		calls []brackettest.Recorded
		want  string // "": nothing contradicts the promises
	}{
		{"each save replaces the one before", []brackettest.Recorded{first, save(2, 1, 2, "b", 3, 4), load(1, 2, "b", 5, 6)}, ""},
		{"the answers of two saves came in the other order", []brackettest.Recorded{save(1, 0, 1, "a", 1, 6), load(2, 1, "a", 2, 3), save(2, 1, 2, "b", 4, 5)}, ""},
		{"another client may read what was before", []brackettest.Recorded{first, save(1, 1, 2, "b", 3, 4), load(2, 1, "a", 5, 6)}, ""},
		{"another client may not have seen that a key is there", []brackettest.Recorded{first, at(none, 3, 4)}, ""},
		{"both replaced one revision", []brackettest.Recorded{first, save(1, 1, 2, "b", 3, 5), save(2, 1, 3, "c", 4, 6)},
			`Save("k", revision 1) of client 2: revision 3 wrote revision 3, when the last was revision 2`},
		{"two saves with one revision", []brackettest.Recorded{first, save(2, 0, 1, "b", 3, 4)},
			`Save("k", revision 0) of client 1: revision 1, and Save("k", revision 0) of client 2: revision 1: two saves have one revision`},
		{"a save that was told of a conflict took effect", []brackettest.Recorded{first, but(save(2, 1, 0, "b", 3, 4), bracket.ErrConflict), load(1, 2, "b", 5, 6)},
			`nobody wrote revision 2 with the value "b", which comes after revision 1; or who did was told that it failed`},
		{"a save of unknown outcome took effect", []brackettest.Recorded{first, but(save(2, 1, 0, "b", 3, 4), errLost), load(1, 2, "b", 5, 6)}, ""},
		{"a save took effect that is under way", []brackettest.Recorded{first, save(2, 1, 0, "b", 3, 0), load(1, 2, "b", 4, 5)}, ""},
		{"one of unknown outcome, but of another value", []brackettest.Recorded{first, but(save(2, 1, 0, "b", 3, 4), errLost), load(1, 2, "c", 5, 6)},
			`nobody wrote revision 2 with the value "c", which comes after revision 1; or who did was told that it failed`},
		{"one of unknown outcome cannot be read before it began", []brackettest.Recorded{first, load(1, 2, "b", 3, 4), but(save(2, 1, 0, "b", 5, 6), errLost)},
			`revision 2 was read before it can have been written, by Save("k", revision 1) of client 2: the answer is lost`},
		{"nor one that has not returned", []brackettest.Recorded{first, load(1, 2, "b", 3, 4), save(2, 1, 0, "b", 5, 0)},
			`revision 2 was read before it can have been written, by Save("k", revision 1) of client 2: no answer yet`},
		{"a conflict with nobody", []brackettest.Recorded{first, but(save(2, 1, 0, "b", 3, 4), bracket.ErrConflict), save(1, 1, 2, "c", 5, 6)},
			`Save("k", revision 1) of client 2: bracket: value changed since it was read, though that was the stored revision`},
		{"a conflict with a save that was under way", []brackettest.Recorded{first, but(save(2, 1, 0, "b", 3, 5), bracket.ErrConflict), save(1, 1, 2, "c", 4, 6)}, ""},
		{"a conflict with one of unknown outcome, which may come yet", []brackettest.Recorded{first, but(save(1, 1, 0, "b", 3, 4), errLost), but(save(2, 1, 0, "c", 5, 6), bracket.ErrConflict)}, ""},
		{"a creation conflicts with nobody", []brackettest.Recorded{but(save(2, 0, 0, "b", 1, 2), bracket.ErrConflict)},
			`Save("k", revision 0) of client 2: bracket: value changed since it was read, though there was no such key`},
		{"the same, after a delete", []brackettest.Recorded{first, remove(1, 1, 3, 4), but(save(2, 0, 0, "b", 5, 6), bracket.ErrConflict)},
			`Save("k", revision 0) of client 2: bracket: value changed since it was read, though there was no such key`},
		{"a creation conflicts while the delete is under way", []brackettest.Recorded{first, remove(1, 1, 3, 6), but(save(2, 0, 0, "b", 4, 5), bracket.ErrConflict)}, ""},
		{"a creation conflicts with one of unknown outcome", []brackettest.Recorded{but(save(1, 0, 0, "a", 1, 2), errLost), but(save(2, 0, 0, "b", 3, 4), bracket.ErrConflict)}, ""},
		{"a creation although the key was there", []brackettest.Recorded{first, save(2, 0, 2, "b", 3, 4)},
			`Save("k", revision 0) of client 2: revision 2 created revision 2, though nobody had deleted revision 1`},
		{"a save and a delete at one revision", []brackettest.Recorded{first, save(2, 1, 2, "b", 3, 5), remove(1, 1, 4, 6)},
			`Delete("k", revision 1) of client 1: deleted, and Save("k", revision 1) of client 2: revision 2: both took effect`},
		{"two deletes at one revision", []brackettest.Recorded{first, remove(1, 1, 3, 5), remove(2, 1, 4, 6)},
			`Delete("k", revision 1) of client 1: deleted, and Delete("k", revision 1) of client 2: deleted: both took effect`},
		{"of two deletes one is lost", []brackettest.Recorded{first, but(remove(1, 1, 3, 5), errLost), remove(2, 1, 4, 6)}, ""},
		{"a delete of unknown outcome, and a creation", []brackettest.Recorded{first, but(remove(1, 1, 3, 4), errLost), save(2, 0, 2, "b", 5, 6)}, ""},
		{"a delete of unknown outcome that had none", []brackettest.Recorded{first, but(remove(1, 1, 3, 4), errLost), save(2, 1, 2, "b", 5, 6)}, ""},
		{"a delete of what nobody wrote", []brackettest.Recorded{first, remove(2, 7, 3, 4)},
			`nobody wrote revision 7, which comes after revision 1; or who did was told that it failed`},
		{"a save over what nobody wrote", []brackettest.Recorded{first, save(2, 7, 8, "b", 3, 4)},
			`Save("k", revision 7) of client 2: revision 8 wrote revision 8, when the last was revision 1`},
		{"of two deletes the second is certain, and nothing is left to conflict with", []brackettest.Recorded{first, but(remove(1, 1, 3, 4), errLost), remove(2, 1, 5, 6), but(save(2, 0, 0, "b", 7, 8), bracket.ErrConflict)},
			`Save("k", revision 0) of client 2: bracket: value changed since it was read, though there was no such key`},
		{"a save of unknown outcome takes effect once", []brackettest.Recorded{but(save(1, 0, 0, "b", 1, 2), errLost), load(1, 1, "b", 3, 4), remove(1, 1, 5, 6), load(1, 2, "b", 7, 8)},
			`nobody wrote revision 2 with the value "b", which comes after revision 1; or who did was told that it failed`},
		{"one that was over before may still take effect", []brackettest.Recorded{but(save(1, 0, 0, "x", 1, 2), errLost), save(2, 0, 1, "a", 3, 4), remove(2, 1, 5, 6), load(2, 2, "x", 7, 8)}, ""},
		{"of two of unknown outcome only the one after the delete can be it", []brackettest.Recorded{first, but(save(2, 1, 0, "b", 3, 4), errLost), remove(1, 1, 5, 6), but(save(1, 0, 0, "b", 7, 8), errLost), load(2, 2, "b", 9, 10)}, ""},
		{"of two with one value, either of which can be it, the one after a delete of unknown outcome explains the conflict", []brackettest.Recorded{first, but(remove(1, 1, 3, 4), errLost), but(save(2, 0, 0, "b", 5, 6), errLost), but(save(1, 1, 0, "c", 7, 8), bracket.ErrConflict), but(save(1, 1, 0, "b", 9, 10), errLost), load(2, 2, "b", 11, 12)}, ""},
		{"or was read before the other one began", []brackettest.Recorded{first, but(remove(1, 1, 3, 4), errLost), but(save(2, 0, 0, "b", 5, 6), errLost), load(2, 2, "b", 7, 8), but(save(1, 1, 0, "b", 9, 10), errLost)}, ""},
		{"or the other one explains it", []brackettest.Recorded{first, but(remove(1, 1, 3, 4), errLost), but(save(2, 1, 0, "b", 5, 6), errLost), load(2, 2, "b", 7, 8), but(save(1, 0, 0, "b", 9, 10), errLost)}, ""},
		{"and there may be need of the first one later", []brackettest.Recorded{first, but(remove(1, 1, 3, 4), errLost), but(save(2, 0, 0, "b", 5, 6), errLost), but(save(1, 1, 0, "b", 7, 8), errLost), load(2, 2, "b", 9, 10), remove(2, 2, 11, 12), load(2, 3, "b", 13, 14)}, ""},
		{"neither had begun", []brackettest.Recorded{first, load(2, 2, "b", 3, 4), but(remove(1, 1, 5, 6), errLost), but(save(2, 0, 0, "b", 7, 8), errLost), but(save(1, 1, 0, "b", 9, 10), errLost)},
			`revision 2 was read before it can have been written, by Save("k", revision 0) of client 2: the answer is lost`},
		{"read before what was there was deleted", []brackettest.Recorded{save(1, 0, 1, "a", 1, 3), save(2, 0, 2, "b", 2, 8), load(2, 2, "b", 4, 5), remove(1, 1, 6, 7)},
			`revision 2 was read before it can have been written, by Save("k", revision 0) of client 2: revision 2`},
		{"a conflict with nobody, once one of unknown outcome has been read", []brackettest.Recorded{first, but(save(1, 1, 0, "b", 3, 4), errLost), load(2, 2, "b", 5, 6), but(save(2, 2, 0, "c", 7, 8), bracket.ErrConflict)},
			`Save("k", revision 2) of client 2: bracket: value changed since it was read, though that was the stored revision`},
		{"a conflict with nobody, while a delete is answered late", []brackettest.Recorded{first, remove(1, 1, 3, 10), save(2, 0, 2, "b", 4, 5), but(save(2, 2, 0, "c", 6, 7), bracket.ErrConflict)},
			`Save("k", revision 2) of client 2: bracket: value changed since it was read, though that was the stored revision`},
		{"a conflict with what can only come later", []brackettest.Recorded{but(save(1, 0, 0, "x", 1, 2), errLost), but(save(2, 0, 0, "b", 3, 4), bracket.ErrConflict), save(2, 0, 1, "a", 5, 6), remove(2, 1, 7, 8)},
			`Save("k", revision 0) of client 2: bracket: value changed since it was read, though there was no such key`},
		{"a conflict with what began later", []brackettest.Recorded{first, but(save(2, 1, 0, "b", 3, 4), bracket.ErrConflict), but(save(1, 1, 0, "c", 5, 6), errLost)},
			`Save("k", revision 1) of client 2: bracket: value changed since it was read, though that was the stored revision`},
		{"nothing to delete at revision 0", []brackettest.Recorded{but(remove(2, 0, 1, 2), bracket.ErrNotFound)}, ""},
		{"nothing to delete, though nobody had", []brackettest.Recorded{first, but(remove(2, 1, 3, 4), bracket.ErrNotFound)},
			`Delete("k", revision 1) of client 2: bracket: no such key, though the key was there`},
		{"revisions that fall across a delete", []brackettest.Recorded{save(1, 0, 5, "a", 1, 2), remove(1, 5, 3, 4), save(2, 0, 3, "b", 5, 6)},
			`Save("k", revision 0) of client 1: revision 5 created revision 5, though nobody had deleted revision 3`},
		{"revisions that fall, where both are deleted", []brackettest.Recorded{save(1, 0, 5, "a", 1, 2), remove(1, 5, 3, 4), save(2, 0, 3, "b", 5, 6), remove(2, 3, 7, 8)},
			`Save("k", revision 0) of client 1: revision 5 was over before Delete("k", revision 3) of client 2: deleted began, and comes after it`},
		{"a revision of 0", []brackettest.Recorded{save(1, 0, 0, "a", 1, 2)}, `revision 0 is none: the least is 1`},
		{"the value of another revision", []brackettest.Recorded{first, save(1, 1, 2, "b", 3, 4), load(2, 2, "a", 5, 6)},
			`Load("k") of client 2: revision 2: revision 2 has the value "a", and was saved as "b"`},
		{"read before it was saved", []brackettest.Recorded{load(2, 1, "a", 1, 2), save(1, 0, 1, "a", 3, 4)},
			`revision 1 was read before it can have been written, by Save("k", revision 0) of client 1: revision 1`},
		{"a client reads what it replaced", []brackettest.Recorded{first, save(2, 1, 2, "b", 3, 4), load(2, 1, "a", 5, 6)},
			`Load("k") of client 2: revision 1: revision 1 is older than the same client's Save("k", revision 1) of client 2: revision 2`},
		{"the answers of its writes came in the other order", []brackettest.Recorded{first, save(2, 1, 2, "b", 3, 8), load(1, 2, "b", 4, 5), save(2, 2, 3, "c", 6, 7), load(2, 2, "b", 9, 10)},
			`Load("k") of client 2: revision 2: revision 2 is older than the same client's Save("k", revision 2) of client 2: revision 3`},
		{"the same, while its save is under way", []brackettest.Recorded{first, save(2, 1, 2, "b", 3, 6), load(2, 1, "a", 4, 5)}, ""},
		{"a client reads what it deleted", []brackettest.Recorded{first, remove(2, 1, 3, 4), load(2, 1, "a", 5, 6)},
			`Load("k") of client 2: revision 1: revision 1 is older than the same client's Delete("k", revision 1) of client 2: deleted`},
		{"a client finds nothing where it saved", []brackettest.Recorded{save(2, 0, 1, "a", 1, 2), at(none, 3, 4)},
			`Load("k") of client 2: bracket: no such key found nothing, though the key was there since the same client's Save("k", revision 0) of client 2: revision 1`},
		{"and nothing where another one may have deleted", []brackettest.Recorded{save(2, 0, 1, "a", 1, 2), but(remove(1, 1, 3, 4), errLost), at(none, 5, 6)}, ""},
		{"nothing while the read is under way", []brackettest.Recorded{first, load(2, 0, "", 3, 0)}, ""},
		{"a read that failed says nothing", []brackettest.Recorded{save(2, 0, 1, "a", 1, 2), but(load(2, 0, "", 3, 4), errLost)}, ""},
		{"a revision that nobody was told may conflict with anything", []brackettest.Recorded{first, but(save(2, 7, 0, "b", 3, 4), bracket.ErrConflict)}, ""},
	} {
		want := ""
		if row.want != "" {
			want = `brackettest: "k": ` + row.want
		}
		if got := fmt.Sprint(brackettest.HistoryOf(row.calls...).Check()); want != "" && got != want || want == "" && got != "<nil>" {
			t.Errorf("%s:\n got %s\nwant %s", row.why, got, want)
		}
		if explained(row.calls) != (row.want == "") {
			t.Errorf("%s: there is an order of the writes that explains it: %v", row.why, row.want != "")
		}
	}
}

// TestHistoryRecords: what clients do is recorded as it was, on every key and by every method, and
// is what the store does.
func TestHistoryRecords(t *testing.T) {
	ctx := context.Background()
	inner := &naive{}
	var history brackettest.History
	one, two := history.Record(inner), history.Record(inner)
	revision, err := one.Save(ctx, "a/1", []byte("x"), 0)
	if err != nil || revision != 1 {
		t.Fatal(revision, err)
	}
	if _, err := two.Save(ctx, "a/1", []byte("y"), 0); !errors.Is(err, bracket.ErrConflict) {
		t.Fatal(err)
	}
	if value, revision, err := two.Load(ctx, "a/1"); string(value) != "x" || revision != 1 || err != nil {
		t.Fatal(string(value), revision, err)
	}
	if _, err := one.Save(ctx, "a/2", []byte("z"), 0); err != nil {
		t.Fatal(err)
	}
	if entries, err := one.List(ctx, "a/"); len(entries) != 2 || err != nil {
		t.Fatal(entries, err)
	} else {
		entries[0].Value[0] = '!' // it is the caller's
	}
	if err := two.Delete(ctx, "a/1", 1); err != nil {
		t.Fatal(err)
	}
	if entries, err := one.List(ctx, "a/"); len(entries) != 1 || err != nil {
		t.Fatal(entries, err)
	}
	if err := one.Delete(ctx, "a/1", 1); !errors.Is(err, bracket.ErrNotFound) {
		t.Fatal(err)
	}
	if err := history.Check(); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		why    string
		damage func()
		call   func() error
		want   string
	}{
		{"a list without what its client saved", func() { inner.capped = true; delete(inner.entries, "a/2") }, func() error { _, err := one.List(ctx, "a/"); return err },
			`brackettest: "a/2": List("a/") of client 1 found nothing, though the key was there since the same client's Save("a/2", revision 0) of client 1: revision 2`},
		{"one of another prefix says nothing", nil, func() error { _, err := one.List(ctx, "b"); return err }, ""},
		{"nor does one that failed", func() { inner.partial = true }, func() error {
			_, err := one.List(ctx, "a/")
			if inner.partial = false; err == nil {
				return errors.New("it did not fail")
			}
			return nil
		}, ""},
		{"nor does that of another client", nil, func() error { _, err := two.List(ctx, "a/"); return err }, ""},
	} {
		if row.damage != nil {
			row.damage()
		}
		before := fmt.Sprint(history.Check())
		if err := row.call(); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(history.Check()); row.want != "" && got != row.want || row.want == "" && got != before {
			t.Errorf("%s:\n got %s\nwant %s", row.why, got, row.want)
		}
	}
	for _, row := range []struct{ prefix, last string }{
		{"c/", `brackettest: "c/9": List("c/") of client 1 found nothing, though the key was there since the same client's Save("c/9", revision 0) of client 1: revision 12`},
		{"d/", "brackettest: and 19 more"},
	} {
		for i := range 19 {
			key := fmt.Sprint(row.prefix, i)
			if _, err := one.Save(ctx, key, []byte("x"), 0); err != nil {
				t.Fatal(err)
			}
			delete(inner.entries, key)
		}
		if _, err := one.List(ctx, row.prefix); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(history.Check().Error(), "\n") // the first is that of a/2
		if last := lines[min(len(lines), 21)-1]; last != row.last {
			t.Errorf("of %d lines the last is %q", len(lines), last)
		}
	}
}

// TestHistoryOfFaults: whatever is lost or delayed on the way, one order explains what the clients
// saw; and below the faults, what the storage did.
func TestHistoryOfFaults(t *testing.T) {
	kinds := []brackettest.Fault{brackettest.None, brackettest.None, brackettest.Lose, brackettest.LoseAnswer, brackettest.Conflict, brackettest.Delay}
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 1))
		var mu sync.Mutex
		var above, below brackettest.History
		store, lost := new(bracket.MemoryStore), 0
		var group sync.WaitGroup
		for w := range 4 {
			client := above.Record(brackettest.NewFaultStore(below.Record(store), func(c brackettest.Call) brackettest.Fault {
				mu.Lock()
				defer mu.Unlock()
				fault := kinds[r.IntN(len(kinds))]
				if fault == brackettest.Conflict && c.Method != "Load" {
					fault = brackettest.Lose // a conflict with nobody is a contradiction, above
				}
				if fault != brackettest.None {
					lost++
				}
				return fault
			}))
			group.Go(func() {
				for i := range 30 {
					key := fmt.Sprint("k", i%2)
					_, revision, err := client.Load(context.Background(), key)
					if err != nil && !errors.Is(err, bracket.ErrNotFound) {
						continue
					}
					if i%7 == 0 && revision > 0 {
						_ = client.Delete(context.Background(), key, revision)
					} else {
						_, _ = client.Save(context.Background(), key, []byte(fmt.Sprint(w, i)), revision)
					}
				}
			})
		}
		group.Go(func() {
			for range 3 {
				if err := above.Check(); err != nil { // also while calls are under way
					t.Error(err)
				}
			}
		})
		group.Wait()
		if err := errors.Join(above.Check(), below.Check()); err != nil || lost == 0 {
			t.Fatalf("seed %d, %d calls with faults: %v", seed, lost, err)
		}
	}
}

// TestCostOfHistory: the time to check a history does not grow with its square.
func TestCostOfHistory(t *testing.T) {
	testkit.NeedCPUTime(t)
	ctx := context.Background()
	answered := func(client bracket.Store, n int) {
		revision := int64(0)
		for i := range n {
			revision, _ = client.Save(ctx, "k", []byte("x"), revision)
			_, _ = client.Save(ctx, "k", []byte("y"), 0) // refused
			_, _, _ = client.Load(ctx, "k")
			if i%3 == 0 {
				_ = client.Delete(ctx, "k", revision)
				revision = 0
			}
		}
	}
	lost := func(client bracket.Store, n int) {
		for i := range n {
			_, _ = client.Save(ctx, "k", fmt.Append(nil, i), 0)
			_, revision, _ := client.Load(ctx, "k")
			_ = client.Delete(ctx, "k", revision)
		}
	}
	check := func(calls func(bracket.Store, int), loses bool, n int) func() {
		saves := 0
		store := brackettest.NewFaultStore(new(bracket.MemoryStore), func(c brackettest.Call) brackettest.Fault {
			if !loses || c.Method != "Save" {
				return brackettest.None
			}
			saves++
			return []brackettest.Fault{brackettest.Lose, brackettest.LoseAnswer}[saves%2]
		})
		var history brackettest.History
		calls(history.Record(store), n)
		return func() {
			if err := history.Check(); err != nil {
				t.Fatal(err)
			}
		}
	}
	const few, factor = 1000, 32
	for _, row := range []struct {
		why   string
		calls func(bracket.Store, int)
		loses bool
	}{
		{"every write is answered", answered, false},
		{"of every other save the answer is lost, and of the others the call", lost, true},
	} {
		testkit.CompareCost(t, row.why, 6*factor, check(row.calls, row.loses, few), check(row.calls, row.loses, factor*few))
	}
}
