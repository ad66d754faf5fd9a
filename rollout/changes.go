package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Change is what is different about one release target between two plans.
type Change struct {
	TargetID
	Before Situation `json:"before"`
	After  Situation `json:"after"`
}

// Changes are the targets about which two plans differ, as [Plan.Changes] lists them. In a log or a
// chat write the whole, which says once what many targets have in common, and not each of them.
type Changes []Change

// Situation is what one plan says about one release target. The zero Situation means that there is
// nothing to do.
type Situation struct {
	Start    string    `json:"start,omitempty"`    // the version that starts
	Wait     string    `json:"wait,omitempty"`     // the version that waits
	Blockers []Verdict `json:"blockers,omitempty"` // why; shared with the plan, do not modify
}

// Changes returns the targets about which the plan differs from an earlier one, in ascending order
// of resource, environment and deployment: targets that start now, that wait for something else or
// until another time, and that have nothing left to do. It does not compare the facts of a verdict
// ([Data]), such as a count of successes, nor the events that can change the verdict, nor the order
// of the verdicts, nor how many of them are alike but for that. A nil before stands for a plan that
// says nothing. Either plan may be a decoded copy; if it is not, its snapshot must not have been
// modified. Changes takes time in proportion to both plans.
func (p *Plan) Changes(before *Plan) Changes {
	if before == nil {
		before = &Plan{}
	}
	old, now := before.situations(), p.situations()
	var changes Changes
	for len(old) > 0 || len(now) > 0 {
		order := 0
		switch {
		case len(old) == 0:
			order = 1
		case len(now) == 0:
			order = -1
		default:
			order = old[0].id.compare(now[0].id)
		}
		var change Change
		if order <= 0 {
			change.TargetID, change.Before = old[0].id, old[0].Situation
			old = old[1:]
		}
		if order >= 0 {
			change.TargetID, change.After = now[0].id, now[0].Situation
			now = now[1:]
		}
		if !change.Before.equal(change.After) {
			changes = append(changes, change)
		}
	}
	return changes
}

type placed struct {
	id TargetID
	Situation
}

// situations lists the targets that start or wait, in order.
func (p *Plan) situations() []placed {
	list := make([]placed, 0, p.Waiting.Len()+len(p.Start))
	for wait := range p.Waiting.All() {
		list = append(list, placed{wait.TargetID, Situation{Wait: wait.Version, Blockers: wait.Blockers}})
	}
	for _, start := range p.Start {
		list = append(list, placed{start.TargetID, Situation{Start: start.Version}})
	}
	slices.SortStableFunc(list, func(a, b placed) int { return a.id.compare(b.id) })
	merged := list[:0]
	for _, one := range list {
		if n := len(merged); n > 0 && merged[n-1].id == one.id {
			merged[n-1].Start = cmp.Or(merged[n-1].Start, one.Start)
			continue
		}
		merged = append(merged, one)
	}
	return merged
}

func (s Situation) equal(other Situation) bool {
	if s.Start != other.Start || s.Wait != other.Wait {
		return false
	}
	// What the members of a bracket wait for comes in another order once one of them waits no more,
	// and what two of them wait for comes once.
	return slices.EqualFunc(s.Blockers, other.Blockers, sameBlocker) || slices.EqualFunc(distinctBlockers(s.Blockers), distinctBlockers(other.Blockers), sameBlocker)
}

func distinctBlockers(list []Verdict) []Verdict {
	return slices.CompactFunc(slices.SortedFunc(slices.Values(list), compareBlockers), sameBlocker)
}

func sameBlocker(a, b Verdict) bool { return compareBlockers(a, b) == 0 }

// compareBlockers orders verdicts by what makes one another blocker.
func compareBlockers(a, b Verdict) int {
	return cmp.Or(cmp.Compare(a.Status, b.Status), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Rule, b.Rule), a.Until.Compare(b.Until))
}

// String describes the situation in a few words. What several rules say in the same words is said
// once.
func (s Situation) String() string {
	var parts []string
	if s.Start != "" {
		parts = append(parts, "starts "+s.Start)
	}
	if len(s.Blockers) > 0 {
		var why []string
		for _, verdict := range s.Blockers {
			if text := verdict.String(); !slices.Contains(why, text) {
				why = append(why, text)
			}
		}
		parts = append(parts, strings.TrimSpace(fmt.Sprintf("%s waits: %s", s.Wait, strings.Join(why, "; "))))
	}
	if parts == nil {
		return "nothing to do"
	}
	return strings.Join(parts, ", ")
}

// String returns "target: before -> after".
func (c Change) String() string { return fmt.Sprintf("%s: %s -> %s", c.TargetID, c.Before, c.After) }
