package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/tranche-dev/tranche/internal/textlist"
)

// Change is what is different about one release target between two plans.
type Change struct {
	TargetID
	Before Situation `json:"before"`
	After  Situation `json:"after"`
}

// Changes are the targets about which two plans differ, as [Plan.Changes] lists them. In a log or a
// chat, print them together rather than one by one: String says once what many targets have in
// common.
type Changes []Change

// Situation is what one plan says about one release target. The zero Situation means that there is
// nothing to do, or, in a decoded plan, that a job may be in progress.
type Situation struct {
	Start    string    `json:"start,omitempty"`    // the version that starts
	Running  string    `json:"running,omitempty"`  // the version of the newest job in progress; a decoded plan does not know it
	Wait     string    `json:"wait,omitempty"`     // the version that waits
	Blockers []Verdict `json:"blockers,omitempty"` // why; shared with the plan, do not modify
}

// Changes returns the targets about which the plan differs from an earlier one, or from one of
// other policies on the same snapshot, in ascending order of resource, environment and deployment:
// targets that start now, that have a job in progress, that wait for something else, such as
// another [Freeze], or until another time, and that have nothing left to do. It does not compare
// the facts of a verdict ([Data]), such as a count of successes, nor the events that can change the
// verdict, nor the order of the verdicts, nor how many of them are alike but for that. A nil before
// stands for a plan that says nothing. Either plan may be a decoded copy. A copy does not know
// which jobs are in progress, and neither does a nil before: then these alone are no change. The
// snapshot of a plan that is no copy, with the jobs in it, must not have been modified. Changes
// takes time in proportion to both plans.
func (p *Plan) Changes(before *Plan) Changes {
	if before == nil {
		before = &Plan{}
	}
	return changesOf(before.situations(before.work), p.situations(p.work), before.work != nil && p.work != nil)
}

// changesOf compares what two plans say; jobs says whether both know what is in progress.
func changesOf(before, after situations, jobs bool) (changes Changes) {
	old, hadOld := before.next()
	now, hasNow := after.next()
	for hadOld || hasNow {
		skipAlike(&before, &after)
		order := 0
		switch {
		case !hadOld:
			order = 1
		case !hasNow:
			order = -1
		default:
			order = old.id.compare(now.id)
		}
		var change Change
		if order <= 0 {
			change.TargetID, change.Before = old.id, old.Situation
			old, hadOld = before.next()
		}
		if order >= 0 {
			change.TargetID, change.After = now.id, now.Situation
			now, hasNow = after.next()
		}
		if jobs && change.Before.Running != change.After.Running || !change.Before.equal(change.After) {
			changes = append(changes, change)
		}
	}
	return changes
}

// targetSituation is what one plan says about one target.
type targetSituation struct {
	id TargetID
	Situation
}

// situations are what a plan says about its targets, in order. Targets with a job in progress are
// few bytes each, because there may be as many as targets, and mostly nothing changes about them.
type situations struct {
	list []targetSituation // those that start or wait
	busy []int32           // those with a job in progress, which may be in list as well
	jobs *work             // of which they are; nil: what is in progress is not known
}

// situations returns what the plan says, with what is in progress in a snapshot; nil if that is not
// known.
func (p *Plan) situations(jobs *work) situations {
	s := situations{list: p.startsAndWaits(), jobs: jobs}
	if jobs == nil {
		return s
	}
	n := 0
	for i := range jobs.targets {
		if jobs.targets[i].busy {
			n++
		}
	}
	if n == 0 {
		return s
	}
	s.busy = make([]int32, 0, n)
	for i := range jobs.byResource() {
		if jobs.targets[i].busy {
			s.busy = append(s.busy, i)
		}
	}
	return s
}

// next takes the situation of the next target; ok is false if there is none left.
func (s *situations) next() (own targetSituation, ok bool) {
	var id TargetID
	order := -1
	if len(s.busy) > 0 {
		id = s.jobs.id(s.busy[0])
		order = 1
		if len(s.list) > 0 {
			order = s.list[0].id.compare(id)
		}
	} else if len(s.list) == 0 {
		return targetSituation{}, false
	}
	if order <= 0 {
		own, s.list = s.list[0], s.list[1:]
	}
	if order >= 0 {
		own.id, own.Running = id, s.jobs.targets[s.busy[0]].inProgress()
		s.busy = s.busy[1:]
	}
	return own, true
}

// skipAlike drops the targets that come next in both, of which both say that the same version is in
// progress, and nothing else. In a fleet at work these are nearly all, and a situation is large. A
// target that changesOf has taken from one of them already is not next in either.
func skipAlike(before, after *situations) {
	for len(before.busy) > 0 && len(after.busy) > 0 {
		i, k := before.busy[0], after.busy[0]
		one, other := &before.jobs.targets[i], &after.jobs.targets[k]
		if one.Target != other.Target && (before.jobs.id(i) != after.jobs.id(k) || one.inProgress() != other.inProgress()) || before.lists(i) || after.lists(k) {
			return
		}
		before.busy, after.busy = before.busy[1:], after.busy[1:]
	}
}

// lists reports whether target i or one before it is in the list.
func (s *situations) lists(i int32) bool {
	return len(s.list) > 0 && s.list[0].id.compare(s.jobs.id(i)) <= 0
}

// startsAndWaits lists the targets that start or wait, in order.
func (p *Plan) startsAndWaits() []targetSituation {
	list := make([]targetSituation, 0, p.Waiting.Len()+len(p.Start))
	for wait := range p.Waiting.All() {
		list = append(list, targetSituation{wait.TargetID, Situation{Wait: wait.Version, Blockers: wait.Blockers}})
	}
	for _, start := range p.Start {
		list = append(list, targetSituation{start.TargetID, Situation{Start: start.Version}})
	}
	slices.SortStableFunc(list, func(a, b targetSituation) int { return a.id.compare(b.id) })
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

// equal compares what a plan decides.
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
	return cmp.Or(cmp.Compare(a.Status, b.Status), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.freeze(), b.freeze()), a.Until.Compare(b.Until))
}

// String describes the situation in a few words. What several rules say in the same words is said
// once.
func (s Situation) String() string {
	var parts []string
	if s.Start != "" {
		parts = append(parts, "starts "+textlist.Name(s.Start))
	}
	if s.Running != "" {
		parts = append(parts, textlist.Name(s.Running)+" in progress")
	}
	if len(s.Blockers) > 0 {
		var why []string
		said := map[string]bool{}
		for _, verdict := range s.Blockers {
			if text := verdict.String(); !said[text] {
				said[text] = true
				why = append(why, text)
			}
		}
		parts = append(parts, strings.TrimSpace(fmt.Sprintf("%s waits: %s", textlist.Name(s.Wait), strings.Join(why, "; "))))
	}
	if parts == nil {
		return "nothing to do"
	}
	return strings.Join(parts, ", ")
}

// String returns "target: before -> after".
func (c Change) String() string { return fmt.Sprintf("%s: %s -> %s", c.TargetID, c.Before, c.After) }
