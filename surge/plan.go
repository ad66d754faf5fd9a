package surge

import (
	"fmt"
	"math"
	"strings"

	"github.com/tranche-dev/tranche/internal/textlist"
)

// Plan decides what may be created and deleted now, given what exists: slots[i] is the state of
// index i, and indices at or beyond len(slots) are absent. Everything that Plan needs is in the
// slots; a new revision, a rollback, another Spec and a restart in the middle of an update are
// ordinary inputs. The slots are neither modified nor kept.
//
// Plan is total. [Spec.Resolve] clamps a Spec that was never validated. Replicas above
// [MaxReplicas] count as MaxReplicas, or as the number of slots if that is larger. A slot that is
// none of the constants counts as taken and is left alone.
//
// The caller may carry out any part of a plan, in any order, and then plans again on what it
// observes. A caller whose observation may be stale overlays it with the actions that it has
// issued, with [Apply], and plans on the result.
func Plan(spec Spec, slots []Slot) Result {
	spec = spec.bounded(slots)
	return spec.plan(spec.Resolve(), slots)
}

// kept is the plan for units of a replica of a set that is not updated now: none of them is old, or
// all are below the partition. It keeps the units that the replica needs to serve, whatever the
// budget. Since nothing is outdated, nothing can wait for a budget of 0.
func (s Spec) kept(slots []Slot) Result {
	s = s.bounded(slots)
	r := s.Resolve()
	need := Member{Replicas: r.Replicas, MinAvailable: r.MinAvailable}.need()
	r.Unavailable = min(r.Unavailable, r.Replicas-need)
	return s.plan(r, slots)
}

func (s Spec) plan(r Resolved, slots []Slot) Result {
	c := tally(r, slots)
	q := c.share(s, r)
	return Result{
		Actions:   q.actions(s, r, slots),
		Blocked:   c.blocked(s, q),
		Updated:   c.updated(r),
		Converged: c.converged(r),
	}
}

// Result is a plan for one flat set.
type Result struct {
	// Actions are the actions to take now, sorted by index, at most one per index; nil if there is
	// nothing to do. Any subset may be carried out, in any order, before planning again. The slice
	// belongs to the caller.
	Actions []Action `json:"actions,omitempty"`
	// Blocked is what the step after this plan waits for. It describes the state after the whole
	// plan is carried out.
	Blocked Blocked `json:"blocked"`
	// Updated means that every index in [Partition, Replicas) serves at the target revision. Surges
	// may still exist.
	Updated bool `json:"updated"`
	// Converged means that Updated is true, every index below Partition is available too, and
	// nothing is at or above Replicas. The plan is then empty, and nothing blocks.
	Converged bool `json:"converged"`
}

// String returns the actions, one per line, then a line "blocked: …" if something blocks, and a
// line "converged" if that is so. Of many actions it shows the first ten and counts the rest. It
// returns "nothing" for an empty plan that nothing blocks. The text does not end with a newline.
func (r Result) String() string {
	return described(textlist.Lines(nil, "", r.Actions), r.Blocked, r.Converged)
}

// described puts a plan into words, its actions first.
func described(lines []string, blocked Blocked, converged bool) string {
	if blocked != 0 {
		lines = append(lines, "blocked: "+blocked.String())
	}
	if converged {
		lines = append(lines, "converged")
	}
	if len(lines) == 0 {
		return "nothing"
	}
	return strings.Join(lines, "\n")
}

// shown returns the texts of the first entries of a list and, behind them, how many more there are.
func shown[T any](list []T, text func(T) string) []string {
	var words []string
	for _, entry := range list[:min(len(list), textlist.Shown)] {
		words = append(words, text(entry))
	}
	if more := len(list) - textlist.Shown; more > 0 {
		words = append(words, fmt.Sprintf("and %d more", more))
	}
	return words
}

// Every replica that the planner may touch falls into a class whose members are taken in one fixed
// order. So a plan consists of the number of replicas in each class (census), the number taken of
// each (quota), and one pass over the slots that takes them. No mark per slot is needed, and the
// slice of actions is allocated once.

// counts is a histogram of slots. With one more entry than there are kinds, the length is a power
// of two, which avoids a bounds check.
type counts [slotKinds + 1]int

func (c *counts) available() int { return c[OldAvailable] + c[TargetAvailable] }

func (c *counts) live() int {
	return c[OldUnscheduled] + c[OldUnavailable] + c[OldAvailable] + c[TargetUnavailable] + c[TargetAvailable]
}

// present counts the occupied indices.
func (c *counts) present() int { return c.live() + c[Terminating] }

func (c *counts) add(more counts) {
	for slot, n := range more {
		c[slot] += n
	}
}

// move counts one slot as another one.
func (c *counts) move(from, to Slot) {
	c[from.normal()&7]--
	c[to]++
}

// count counts the slots of [from, to). Indices beyond the end of the state are absent.
func count(slots []Slot, from, to int) counts {
	var c counts
	lo, hi := min(from, len(slots)), min(to, len(slots))
	for _, slot := range slots[lo:hi] {
		c[slot.normal()&7]++
	}
	c[Absent] += (to - from) - (hi - lo)
	return c
}

// census counts what exists, by what the planner may do with it.
type census struct {
	protected counts // [0, P): never updated
	gang      counts // [P, M): members of the base gang, for which all other gangs wait
	rest      counts // [max(P, M), R)
	surge     counts // [R, R+S)
	beyond    counts // from R+S on: leftovers of an earlier, larger configuration
}

func tally(r Resolved, slots []Slot) census {
	gang := max(r.Partition, r.MinAvailable)
	end := plus(r.Replicas, r.Surge)
	return census{
		protected: count(slots, 0, r.Partition),
		gang:      count(slots, r.Partition, gang),
		rest:      count(slots, gang, r.Replicas),
		surge:     count(slots, r.Replicas, end),
		beyond:    count(slots, end, max(end, len(slots))),
	}
}

// eligible counts slots of [P, R).
func (c *census) eligible(slot Slot) int { return c.gang[slot] + c.rest[slot] }

func (c *census) updated(r Resolved) bool {
	return c.eligible(TargetAvailable) == r.Replicas-r.Partition
}

func (c *census) converged(r Resolved) bool {
	return c.updated(r) && c.protected.available() == r.Partition && c.surge.present() == 0 && c.beyond.present() == 0
}

// quota is how many replicas of each class the plan takes.
type quota struct {
	classes census

	unscheduled, unavailable int // outdated replicas taken within the repair window, by order
	gangRepairs              int // members of the base gang taken outside the window
	outdated                 int // available outdated replicas, by order
	condemned                int // available leftovers, highest index first

	surplusUnavailable, surplusOld, surplusTarget int // surges retired, highest index first

	surges  int // creations on the lowest free indices of the surge range
	waiting int // available outdated replicas that are not taken
}

// share divides the budget and the repair window.
//
// I2: every deletion of an available replica is charged to budget, the number of available replicas
// above the floor; other deletions are not charged. A repair window is needed nevertheless: without
// one, a blip that makes every replica unavailable would have all of them replaced by a revision
// that was never seen serving. The window includes the share of the surge: with MaxUnavailable
// alone, "on." of 2/1/1 would wait for ever.
func (c *census) share(spec Spec, r Resolved) quota {
	q := quota{classes: *c}
	budget := c.protected.available() + c.gang.available() + c.rest.available() + c.surge.available() + c.beyond.available() - r.Floor()
	spend := func(wanted int) int {
		n := max(min(wanted, budget), 0)
		budget -= n
		return n
	}
	if !spec.Paused {
		window := math.MaxInt
		if !spec.Force {
			inFlight := c.eligible(Absent) + c.eligible(Terminating) + c.eligible(TargetUnavailable)
			window = max(plus(r.Unavailable, r.Surge)-inFlight, 0)
		}
		q.unscheduled = min(c.eligible(OldUnscheduled), window)
		q.unavailable = min(c.eligible(OldUnavailable), window-q.unscheduled)
		q.gangRepairs = outside(spec, c.gang[OldUnscheduled], c.rest[OldUnscheduled], q.unscheduled) +
			outside(spec, c.gang[OldUnavailable], c.rest[OldUnavailable], q.unavailable)
	}
	q.condemned = spend(c.beyond.available())
	if spec.Paused {
		return q
	}
	q.outdated = spend(c.eligible(OldAvailable))
	q.waiting = c.eligible(OldAvailable) - q.outdated

	// IE: need is the number of surges that keeps the floor once every waiting replica is gone. It
	// is never too small: replicas wait only if the budget ran out, so availability is at most the
	// floor, and floor-stay is at least the number of waiting replicas.
	need := 0
	if q.waiting > 0 {
		stay := c.protected.available() + c.eligible(TargetAvailable)
		need = min(r.Surge, r.Floor()-stay)
	}
	live := c.surge[OldAvailable] + c.surge[TargetUnavailable] + c.surge[TargetAvailable]
	excess := max(live-need, 0)
	q.surplusUnavailable = min(c.surge[TargetUnavailable], excess)
	// Available surges need no such bound: while a replica waits the budget is used up, and then
	// none of them is retired.
	q.surplusOld = spend(c.surge[OldAvailable])
	q.surplusTarget = spend(c.surge[TargetAvailable])
	q.surges = min(max(need-live, 0), c.surge[Absent])
	return q
}

// outside counts the members of the base gang that a window of the given size does not reach. In
// ascending order the gang goes first, in descending order last.
func outside(spec Spec, gang, rest, window int) int {
	if spec.Order == Descending {
		window -= min(window, rest)
	}
	return gang - min(gang, window)
}

// length returns the number of actions.
func (q *quota) length(spec Spec) int {
	c := &q.classes
	n := c.protected[Absent] + c.eligible(Absent) + // I6: every hole of the base
		c.beyond[OldUnscheduled] + c.beyond[OldUnavailable] + c.beyond[TargetUnavailable] + q.condemned
	if !spec.Paused {
		n += c.surge[OldUnscheduled] + c.surge[OldUnavailable]
	}
	return n + q.unscheduled + q.unavailable + q.gangRepairs + q.outdated +
		q.surplusUnavailable + q.surplusOld + q.surplusTarget + q.surges
}

// picker takes some members of a class as they pass by in ascending order.
type picker struct{ skip, take int }

// pick returns a picker that takes n of total members: the first n, or the last n.
func pick(n, total int, last bool) picker {
	if last {
		return picker{skip: total - n, take: n}
	}
	return picker{take: n}
}

func (p *picker) next() bool {
	if p.skip > 0 {
		p.skip--
		return false
	}
	if p.take > 0 {
		p.take--
		return true
	}
	return false
}

// actions takes the quota in one pass by index.
func (q *quota) actions(spec Spec, r Resolved, slots []Slot) []Action {
	length := q.length(spec)
	if length == 0 {
		return nil
	}
	list := make([]Action, 0, length)
	remove := func(index int, reason Reason) {
		list = append(list, Action{Index: index, Op: Delete, Reason: reason})
	}
	at := func(index int) Slot {
		if index < len(slots) {
			return slots[index]
		}
		return Absent
	}
	c := &q.classes

	// I4, IR: below the partition nothing is deleted, and holes come back at the stable revision.
	for i := range r.Partition {
		if at(i) == Absent {
			list = append(list, Action{Index: i, Op: Create, Revision: Stable, Reason: Hole})
		}
	}
	// I5: replicas at the target stay, available or not.
	last := spec.Order == Descending
	unscheduled := pick(q.unscheduled, c.eligible(OldUnscheduled), last)
	unavailable := pick(q.unavailable, c.eligible(OldUnavailable), last)
	outdated := pick(q.outdated, c.eligible(OldAvailable), last)
	for i := r.Partition; i < r.Replicas; i++ {
		gang := i < r.MinAvailable && !spec.Paused
		switch at(i) {
		case Absent:
			list = append(list, Action{Index: i, Op: Create, Revision: Target, Reason: Hole})
		case OldUnscheduled:
			if unscheduled.next() || gang {
				remove(i, OutdatedUnscheduled)
			}
		case OldUnavailable:
			if unavailable.next() || gang {
				remove(i, OutdatedUnavailable)
			}
		case OldAvailable:
			if outdated.next() {
				remove(i, Outdated)
			}
		}
	}
	surplusUnavailable := pick(q.surplusUnavailable, c.surge[TargetUnavailable], true)
	surplusOld := pick(q.surplusOld, c.surge[OldAvailable], true)
	surplusTarget := pick(q.surplusTarget, c.surge[TargetAvailable], true)
	surges := pick(q.surges, c.surge[Absent], false)
	end := plus(r.Replicas, r.Surge)
	// I3: a surge lives in [R, R+S). All indices beyond the state are absent, so the pass ends with
	// the last creation.
	for i := r.Replicas; i < end && (i < len(slots) || surges.take > 0); i++ {
		switch at(i) {
		case Absent:
			if surges.next() {
				list = append(list, Action{Index: i, Op: Create, Revision: Target, Reason: Surge})
			}
		case OldUnscheduled, OldUnavailable:
			if !spec.Paused {
				remove(i, StaleSurge)
			}
		case OldAvailable:
			if surplusOld.next() {
				remove(i, SurplusSurge)
			}
		case TargetUnavailable:
			if surplusUnavailable.next() {
				remove(i, SurplusSurge)
			}
		case TargetAvailable:
			if surplusTarget.next() {
				remove(i, SurplusSurge)
			}
		}
	}
	condemned := pick(q.condemned, c.beyond.available(), true)
	for i := end; i < len(slots); i++ {
		slot := at(i)
		if slot.Available() && condemned.next() || slot.Live() && !slot.Available() {
			remove(i, Condemned)
		}
	}
	return list
}

// blocked describes the state after the plan, from the counts alone.
func (c *census) blocked(spec Spec, q quota) Blocked {
	var b Blocked
	set := func(reason Blocked, holds bool) {
		if holds {
			b |= reason
		}
	}
	repairs := q.unscheduled + q.unavailable + q.gangRepairs
	broken := c.eligible(OldUnscheduled) + c.eligible(OldUnavailable) - repairs
	retired := q.surplusUnavailable + q.surplusOld + q.surplusTarget
	stale := c.surge[OldUnscheduled] + c.surge[OldUnavailable]
	leftovers := c.beyond.live() - c.beyond.available() + q.condemned // leftovers that the plan deletes

	terminating := c.protected[Terminating] + c.eligible(Terminating) + c.surge[Terminating] + c.beyond[Terminating] +
		repairs + q.outdated + retired + leftovers
	if spec.Paused {
		outdated := c.eligible(OldAvailable) + broken
		set(BlockedPaused, outdated+c.surge.live()+c.beyond.live()-leftovers > 0)
	} else {
		terminating += stale
		set(BlockedBudgetExhausted, q.waiting > 0)
		// IE: a surge is kept or created only while a replica waits.
		set(BlockedWaitingForSurge, c.surge[TargetUnavailable]-q.surplusUnavailable+q.surges > 0)
		set(BlockedRepairWindow, broken > 0)
	}
	set(BlockedTerminating, terminating > 0)
	set(BlockedWaitingForBase, c.protected[TargetUnavailable]+c.eligible(TargetUnavailable)+c.eligible(Absent) > 0)
	set(BlockedProtectedDown, c.protected[OldUnscheduled]+c.protected[OldUnavailable]+c.protected[Absent] > 0)
	return b
}

// Apply returns the slots after the calls for the actions are accepted: a deleted replica is
// terminating, and a created one is unavailable, old at the stable revision and new at the target.
// These are the revisions at the time of the plan: a new revision since makes what was created at
// the target old. It is for callers that read from a cache, and for simulations. An action that the
// slots do not allow changes nothing: a creation on a taken index, a deletion of a replica that is
// not live, a negative index, or one so high that no plan of these slots has it. The result is a new
// slice, long enough for every creation.
func Apply(slots []Slot, actions []Action) []Slot {
	length := len(slots)
	highest := 2*max(MaxReplicas, length) - 1 // behind all slots there are at most as many surges as replicas
	for _, action := range actions {
		if action.Op == Create && action.Index <= highest {
			length = max(length, action.Index+1)
		}
	}
	next := make([]Slot, length)
	copy(next, slots)
	for _, action := range actions {
		if action.Index < 0 || action.Index >= length {
			continue
		}
		switch slot := &next[action.Index]; {
		case action.Op == Create && *slot == Absent && action.Revision == Stable:
			*slot = OldUnavailable
		case action.Op == Create && *slot == Absent:
			*slot = TargetUnavailable
		case action.Op == Delete && slot.Live():
			*slot = Terminating
		}
	}
	return next
}
