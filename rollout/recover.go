package rollout

import (
	"math"
	"slices"
	"strings"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/internal/runid"
	"github.com/tranche-dev/tranche/internal/textkey"
)

// A group that closed in this very plan has run nowhere, because it is saved before any of its runs
// is dispatched. If there are jobs of a group with its name, the state was lost, or restored from a
// backup that is older than the jobs. If the jobs are what the group would have begun, it is the
// same group, and its executions go on where they were: nothing is drained twice, and a drained
// resource is finished. If they are not, they are of another group that had this number. Counting
// them as runs of this group would let mains start without their drain, and leave out versions that
// never ran. The group then takes a number that no group has had.

// recover looks for the runs of the groups that have just closed, by a decision that it may give up.
// before is the state as it was read.
func (w *work) recover(b *bracketWork, before bracket.State, since checkpoint) error {
	found, same, last := w.recovered(b)
	if !found {
		return nil
	}
	for _, number := range [...]int{last - 1, last} { // first the number of the last group, which may be the one that was lost, then one that no group has had
		if same {
			break
		}
		w.giveUp(since)
		group := *before.Group
		group.Number, group.Collecting = number, nil
		if err := w.decideFrom(b, bracket.State{Group: &group, Executions: before.Executions}); err != nil {
			return err
		}
		_, same, _ = w.recovered(b)
	}
	b.observation.Runs = w.runFacts(b, b.state)
	return w.decideAgain(b)
}

// recovered reports whether there are runs of a group that closed in this plan, whether all of them
// may be its own, and the greatest group number in any run.
func (w *work) recovered(b *bracketWork) (found, same bool, last int) {
	closed := map[int]*bracket.Group{} // by number; nil: another group that closed in this plan has followed it
	for _, e := range b.plan.Events {
		if e.Kind == bracket.GroupClosed {
			closed[groupNumber(e.Group)] = nil
		}
	}
	if len(closed) == 0 {
		return false, true, 0
	}
	for _, group := range b.state.Group.Closed {
		number := groupNumber(group.ID)
		if _, just := closed[number]; just {
			closed[number] = group
		}
	}
	prefix, known := groupPrefix(b.state.Group), lastNumber(b.state.Group)
	later := map[int32]bool{} // resources with jobs of a group that closed after the last known one
	same = true
	for _, i := range b.targets {
		t := &w.targets[i]
		if !t.worked() {
			continue
		}
		for k := range t.Jobs {
			job := &t.Jobs[k]
			number := numberOf(job.Run, prefix)
			last = max(last, number)
			if group, just := closed[number]; just {
				found = true
				same = same && group != nil && w.began(group, t, job)
			}
			if number > known {
				later[t.resource] = true
			}
		}
	}
	// Where a later group has been at work, the execution of this group is over, see isOpen, and
	// its run ids are used. If the group still has something to do there, such as for a target that
	// has been replaced, it is not the group that it was.
	same = same && !slices.ContainsFunc(b.pending, func(p pendingResource) bool { return later[p.resource] })
	return found, same, last
}

// numberOf returns the number of the group that a run id names if it begins with the prefix of the
// bracket's run ids; else 0, which no group has.
func numberOf(run, prefix string) int {
	rest, own := strings.CutPrefix(run, prefix)
	if !own {
		return 0
	}
	digits, _, _ := strings.Cut(rest, "/")
	if number, ok := textkey.Number(digits); ok && number < math.MaxInt32 { // else no group could follow it
		return number
	}
	return 0
}

// began reports whether a group may have dispatched a job: not before it closed and, for a job of a
// main that is no rollback, with a version that it has locked, or the current one if the group
// deploys that again.
func (w *work) began(group *bracket.Group, t *target, job *Job) bool {
	m := groupMember(group, t.Deployment)
	if m == nil || job.CreatedAt.Before(group.ReadyAt) {
		return false
	}
	return m.Role != bracket.Main || runid.IsRollback(job.Run) || group.Strategy == bracket.RedeployCurrent && job.Version == w.currentID(t) || locks(m, job.Version)
}
