package rollout

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/internal/textkey"
)

// fate is what becomes of a lease before new ones are given.
type fate uint8

const (
	keep fate = iota
	release
	quarantine
)

// reasonStuck is why a lease is quarantined that a rule calls stuck. Progress takes it back.
const reasonStuck = "stuck"

// leasing is what is found out about leases.
type leasing struct {
	idle    []idleLease // that nobody is seen to use
	holding holding
}

// idleLease is a lease that nobody is seen to use.
type idleLease struct {
	concurrency.Lease
	used bool // a job was started under it, as it is
}

// settle ends the leases whose groups have ended, moves the progress of those whose holders are at
// work, and lists those that nobody answers for. Only what is proved is released: the end of an
// execution, an ended job that is younger than the lease and the last start under it, a deleted
// resource. A lease that was taken a moment ago by another planner has no job yet, and must
// survive.
func (w *work) settle() {
	c := &w.capacity
	ended := map[concurrency.Holder]fate{}
	for _, b := range w.stepped {
		for _, e := range b.plan.Events {
			if e.Kind == bracket.ExecutionEnded {
				holder := concurrency.Holder{Resource: e.Resource, Group: e.Group}
				if ended[holder] = release; e.Quarantine {
					ended[holder] = quarantine
				}
			}
		}
	}
	deleted := map[string]bool{}
	for _, id := range w.snapshot.DeletedResources {
		deleted[id] = true
	}
	for k := range c.snapshot.Pools {
		p := &c.snapshot.Pools[k]
		p.Record = w.settleRecord(p.Record, ended, deleted, p.StuckAfter > 0)
	}
	for k := range c.foreign {
		c.foreign[k] = w.settleRecord(c.foreign[k], ended, deleted, false)
	}
}

// settleRecord returns the record with its leases settled; the old one is not touched, and returned
// if nothing changed.
func (w *work) settleRecord(record concurrency.Record, ended map[concurrency.Holder]fate, deleted map[string]bool, timed bool) concurrency.Record {
	leases := record.Leases
	changed := false
	kept := leases[:0:0]
	for k, lease := range leases {
		became, own := lease, release
		if !deleted[lease.Resource] {
			became, own = w.settleLease(lease, ended[lease.Holder], timed)
		}
		if !changed && (own == release || became != lease) {
			changed = true
			kept = append(make([]concurrency.Lease, 0, len(leases)), leases[:k]...)
		}
		if changed && own != release {
			kept = append(kept, became)
		}
	}
	if changed {
		record.Leases = kept
	}
	return record
}

// settleLease returns what becomes of a lease on a resource that is not proved gone; own is what
// the end of an execution in this plan says of it. Where a pool times nothing nobody asks for the
// progress of an execution that is open.
func (w *work) settleLease(lease concurrency.Lease, own fate, timed bool) (concurrency.Lease, fate) {
	closed := strings.HasPrefix(lease.Group, reservedID+"/") || !w.open(lease.Holder) // of an execution it has ended, or never began
	if own == release || !timed && !closed {
		return lease, own
	}
	proved, progress, running, used := w.progress(lease)
	became := lease
	became.ProgressAt = progress
	if running && timed {
		w.capacity.snapshot.Running = append(w.capacity.snapshot.Running, lease.Holder)
	}
	if own == keep {
		own = proved
	}
	if own == keep && closed && !running && (lease.State == concurrency.Active || lease.Reason == reasonStuck) {
		own = w.outlived(lease.Holder)
	}
	// An end is progress also if nobody says when it was: then nothing is stuck any more.
	if lease.Reason == reasonStuck && (progress.After(lease.ProgressAt) || used && !running) {
		became.State, became.Reason = concurrency.Active, ""
	}
	if own == quarantine {
		became.State, became.Reason = concurrency.Quarantined, "abandoned"
	}
	if closed && !running && own != release { // nobody is seen to use it, nor will be
		w.idle = append(w.idle, idleLease{became, used})
	}
	return became, own
}

// listOrphans lists the idle leases of whoever neither starts nor has a job to repeat. If the plan
// offers a start that holds one, its host stopped before it dispatched, and this one goes on.
func (w *work) listOrphans() {
	starts := map[concurrency.Holder]bool{}
	if len(w.idle) > 0 {
		for k := range w.plan.Start {
			starts[w.plan.Start[k].holder()] = true
		}
	}
	for _, lease := range w.idle {
		if holder := lease.Holder; !starts[holder] && !w.repeats(holder) {
			w.plan.Orphans = append(w.plan.Orphans, lease.Lease)
		}
	}
	slices.SortStableFunc(w.plan.Orphans, func(a, b concurrency.Lease) int { return strings.Compare(a.Pool, b.Pool) }) // those of a pool are in order
}

// nameOrphans says of each wait for a slot which orphans have taken such slots: nobody at work will
// free these.
func (w *work) nameOrphans() {
	if len(w.plan.Orphans) == 0 {
		return
	}
	inPool, inFamily := map[string]bool{}, map[string][]string{} // pools with an orphan
	for _, lease := range w.plan.Orphans {
		if k, known := w.capacity.keys[lease.Pool]; known && !inPool[lease.Pool] {
			inPool[lease.Pool] = true
			family := w.capacity.snapshot.Pools[k].Family
			inFamily[family] = append(inFamily[family], lease.Pool)
		}
	}
	families := map[*Condition][]Condition{} // what verdicts share, with the orphans
	for _, list := range w.blockers {
		for n := range list {
			v := &list[n]
			if len(v.On) == 0 || v.On[0].Kind != OnSlot || v.On[len(v.On)-1].Kind == OnOrphan { // two entries may be one list, which has been dealt with
				continue
			}
			if key := v.On[0].Pool; v.Reason != Reason(concurrency.SlotKeysFull) {
				if inPool[key] {
					v.On = withOrphans(v.On, key)
				}
			} else if pools := inFamily[w.capacity.snapshot.Pools[w.capacity.keys[key]].Family]; len(pools) > 0 {
				shared := &v.On[0]
				if families[shared] == nil {
					families[shared] = withOrphans(v.On, pools...)
				}
				v.On = families[shared]
			}
		}
	}
}

// withOrphans appends the orphans of some pools to events.
func withOrphans(on []Condition, pools ...string) []Condition {
	on = slices.Clip(on)
	for _, pool := range pools {
		on = append(on, Condition{Kind: OnOrphan, Pool: pool})
	}
	return on
}

// repeats reports whether a target outside brackets still has a job to repeat, such as one that
// backs off. One that waits for a slot of another pool has to let go of what it holds if the host
// gives that back: two of them could wait for one another.
func (w *work) repeats(h concurrency.Holder) bool {
	i, _ := w.single(h)
	return i != none && w.targets[i].current != missing && !w.finished(i) && !w.slotless[i]
}

// TargetOf returns the target outside brackets that holds slots under this name; false if the
// holder is an execution of a bracket. A host asks it of [Plan.Orphans], to know whose jobs to look
// for before it gives one back.
func TargetOf(holder concurrency.Holder) (target TargetID, outside bool) {
	var first string
	target.Resource = holder.Resource
	if !textkey.Scan(holder.Group, &first, &target.Environment, &target.Deployment) || first != reservedID {
		return TargetID{}, false
	}
	return target, true
}

// single is the number of the target that [TargetOf] finds; none if the snapshot does not have it.
func (w *work) single(h concurrency.Holder) (i int32, outside bool) {
	if !strings.HasPrefix(h.Group, reservedID+"/") { // most are of brackets
		return none, false
	}
	id, outside := TargetOf(h)
	if !outside {
		return none, false
	}
	return w.target(id), true
}

func compareHolders(a, b concurrency.Holder) int {
	return cmp.Or(strings.Compare(a.Resource, b.Resource), strings.Compare(a.Group, b.Group))
}

// execution returns what is known of a bracket rule on a resource, or nil.
func (w *work) execution(rule, resource string) *bracket.ExecutionRecord {
	return executionOn(w.executions[rule], resource)
}

// open reports whether the holder is an open bracket execution, also one in an environment that the
// snapshot does not hold.
func (w *work) open(h concurrency.Holder) bool {
	if w.holding.group != h.Group { // leases mostly are of the same group as the one before
		rule, _, _, _ := groupNumber(h.Group) // of a target outside brackets it is one that has no such group
		w.holding = holding{h.Group, rule}
	}
	// A planner that believed the execution ended may have exchanged its lease for one of the group
	// that another merged into it.
	record := w.execution(w.holding.rule, h.Resource)
	return record != nil && record.Open != nil && includes(record.Open.Group, record.Open.Merged, h.Group)
}

// holding is the group of the lease that was looked at last.
type holding struct{ group, rule string }

// outlived is what becomes of a lease whose execution can never be opened any more, because its
// group, or a later one, ran on the resource or runs there: a host stopped between saving the lease
// and saving the execution, or between saving the end of the execution and giving the lease back.
// Before that nothing is proved: the host may only be slow. Afterwards its save fails, for the
// record of the resource has changed since. The lease of an execution that was given up is
// quarantined, as it would have been then.
func (w *work) outlived(h concurrency.Holder) fate {
	rule, environment, number, ok := groupNumber(h.Group)
	if !ok {
		return keep
	}
	atLeast := func(group string) bool { // of the rule, whose record it is; the empty one is in no environment
		_, e, n, _ := groupNumber(group)
		return e == environment && n >= number
	}
	record := w.execution(rule, h.Resource)
	if record == nil {
		return keep
	}
	last := record.Last[environment]
	if last.Group == h.Group && last.Status == bracket.StatusCancelled {
		return quarantine
	}
	if open := record.Open; open != nil && (atLeast(open.Group) || slices.ContainsFunc(open.Merged, atLeast)) {
		return release
	}
	if atLeast(last.Group) || slices.ContainsFunc(last.Merged, atLeast) {
		return release
	}
	return keep
}

// groupNumber takes a bracket group's id apart, see [bracket.GroupID].
func groupNumber(id string) (rule, environment string, number int, ok bool) {
	var digits string
	if !textkey.Scan(id, &rule, &environment, &digits) {
		return "", "", 0, false
	}
	number, err := strconv.Atoi(digits)
	return rule, environment, number, err == nil
}

// progress reads the jobs of a lease's holder: whether its group has ended, its newest progress,
// whether it is at work, and whether it was since the last start under the lease.
func (w *work) progress(lease concurrency.Lease) (own fate, progress time.Time, running, used bool) {
	progress = lease.ProgressAt
	read := func(t *target, prefix string) { // of the runs of the holder; empty: all are
		for k := range t.Jobs {
			job := &t.Jobs[k]
			if !strings.HasPrefix(job.Run, prefix) {
				continue
			}
			running = running || !job.Status.Terminal() // also by a clock that is behind that of whoever took the lease
			if job.CreatedAt.Before(lease.Since) {
				continue
			}
			used = used || proves(t.Jobs, k, lease.ProgressAt)
			for _, at := range [...]time.Time{job.CreatedAt, job.CompletedAt} {
				if at.After(w.now) {
					w.wake(at)
				} else if at.After(progress) {
					progress = at.UTC()
				}
			}
		}
	}
	i, outside := w.single(lease.Holder)
	if i != none {
		read(&w.targets[i], "")
		if used && !w.targets[i].busy && w.finished(i) {
			own = release
		}
	}
	if outside {
		return own, progress, running, used
	}
	resource, known := w.resource(lease.Resource)
	if !known { // its number is that of another one
		return own, progress, running, used
	}
	prefix := textkey.Join(lease.Group) + "/"
	for e := range w.environments {
		from, to := w.siblingsIn(int32(e), resource)
		for i := from; i < to; i++ {
			read(&w.targets[i], prefix)
		}
	}
	return own, progress, running, used
}

// proves reports whether the end of a target's job is not older than the last that was known of a
// lease. Of a job that ended at once, or nobody knows when, the creation says whether it was
// started under the lease as it is: a start under a lease that was held already is noted a
// nanosecond late. Of several such jobs of one instant, as clocks that tell seconds make them, each
// proves a nanosecond more: the start of the next one is noted behind all that were seen before it,
// and proved as soon as there is one more. If jobs are forgotten meanwhile it is not, and an
// orphan.
func proves(jobs []Job, k int, known time.Time) bool {
	job := &jobs[k]
	if job.CompletedAt.After(job.CreatedAt) {
		return !job.CompletedAt.Before(known)
	}
	return !job.CreatedAt.Add(atOnce(jobs, job.CreatedAt)).Before(known)
}

// atOnce is a nanosecond for each job that was created at an instant. All have ended: nobody asks
// while one is at work.
func atOnce(jobs []Job, created time.Time) (n time.Duration) {
	for k := range jobs {
		if job := &jobs[k]; job.CreatedAt.Equal(created) {
			n++
		}
	}
	return n
}

// finished reports whether a target outside brackets has no job to repeat or to take back, and none
// that is being verified.
func (w *work) finished(i int32) bool {
	floor := w.targets[i].floor()
	if floor < 0 || w.members[i] {
		return true
	}
	if w.targets[i].verifying() {
		return false
	}
	if t := &w.targets[i]; t.current == missing { // it waits until that is listed, and nobody knows which of its jobs is to be repeated then
		return len(t.Jobs) == 0 || t.Jobs[0].Status == JobSuccessful
	}
	if s := w.setbackOf(i, floor); s != nil {
		return s.done || s.stuck || s.to < 0
	}
	blockers, needed := w.repeat(i, floor)
	return !needed || slices.ContainsFunc(blockers, func(v Verdict) bool { return v.Reason == ReasonRetryExhausted })
}
