package rollout

import (
	"cmp"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/internal/runid"
	"github.com/tranche-dev/tranche/internal/textkey"
)

// leaseAction is what becomes of a lease before new ones are given.
type leaseAction uint8

const (
	keepLease leaseAction = iota
	releaseLease
	quarantineLease
)

// reasonStuck is the reason of a lease that is quarantined because a rule calls it stuck. Progress
// takes the quarantine back.
const reasonStuck = "stuck"

// leasing holds what is found out about leases.
type leasing struct {
	idle      []idleLease // leases that nobody is seen to use
	lastGroup parsedGroup // of the holder that openExecution was asked about last
}

// idleLease is a lease that nobody is seen to use.
type idleLease struct {
	concurrency.Lease
	used bool // a job was started under the lease as it is
}

// settle releases the leases whose groups have ended, notes the progress of those whose holders are
// at work, and collects those that nobody is seen to use. It releases a lease only on proof: the
// end of an execution, an ended job that is younger than the lease and the last start under it, or
// a deleted resource. A lease that another planner took a moment ago has no job yet, and must
// survive.
func (w *work) settle() {
	c := &w.capacity
	ended := map[concurrency.Holder]leaseAction{}
	for _, b := range w.stepped {
		for _, e := range b.plan.Events {
			if e.Kind == bracket.ExecutionEnded {
				holder := concurrency.Holder{Resource: e.Resource, Group: e.Group}
				if ended[holder] = releaseLease; e.Quarantine {
					ended[holder] = quarantineLease
				}
			}
		}
	}
	for k := range c.snapshot.Pools {
		p := &c.snapshot.Pools[k]
		p.Record = w.settleRecord(p.Record, ended, p.StuckAfter > 0)
	}
	for k := range c.otherRecords {
		c.otherRecords[k] = w.settleRecord(c.otherRecords[k], ended, false)
	}
}

// settleRecord returns the record with its leases settled. The old record is not modified, and is
// returned if nothing changed.
func (w *work) settleRecord(record concurrency.Record, ended map[concurrency.Holder]leaseAction, timed bool) concurrency.Record {
	leases := record.Leases
	changed := false
	kept := leases[:0:0]
	for k, lease := range leases {
		became, own := lease, releaseLease
		if !w.deleted[lease.Resource] {
			became, own = w.settleLease(lease, ended[lease.Holder], timed)
		}
		if !changed && (own == releaseLease || became != lease) {
			changed = true
			kept = append(make([]concurrency.Lease, 0, len(leases)), leases[:k]...)
		}
		if changed && own != releaseLease {
			kept = append(kept, became)
		}
	}
	if changed {
		record.Leases = kept
	}
	return record
}

// settleLease returns what becomes of a lease on a resource that is not proved gone; own is what
// the end of an execution in this plan makes of it. If timed is false, the pool has no use for the
// progress of an open execution, and settleLease does not read it.
func (w *work) settleLease(lease concurrency.Lease, own leaseAction, timed bool) (concurrency.Lease, leaseAction) {
	closed := strings.HasPrefix(lease.Group, runid.Reserved+"/") || w.openExecution(lease.Holder) == nil // if it is of an execution, that has ended or never began
	if own == releaseLease || !timed && !closed {
		return lease, own
	}
	proved, progress, running, used := w.progress(lease)
	became := lease
	became.ProgressAt = progress
	if running && timed {
		w.capacity.snapshot.Running = append(w.capacity.snapshot.Running, lease.Holder)
	}
	if own == keepLease {
		own = proved
	}
	if own == keepLease && closed && !running && (lease.State == concurrency.Active || lease.Reason == reasonStuck) {
		own = w.outlived(lease.Holder)
	}
	// An end is progress even if its instant is not known: nothing is stuck any more.
	if lease.Reason == reasonStuck && (progress.After(lease.ProgressAt) || used && !running) {
		became.State, became.Reason = concurrency.Active, ""
	}
	if own == quarantineLease {
		became.State, became.Reason = concurrency.Quarantined, "abandoned"
	}
	if closed && !running && own != releaseLease { // nobody is seen to use it, nor will be
		w.idle = append(w.idle, idleLease{became, used})
	}
	return became, own
}

// listOrphans lists the idle leases whose holders neither start nor have a job to repeat. If the
// plan offers a start that holds an idle lease, an earlier host stopped before it dispatched, and
// this one goes on.
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

// holds reports whether a failure holds an open execution until an operator gives a command, or
// another group takes it over. In doubt, while a reaction to the failure has members left, it does
// not.
func holds(x *bracket.Execution) bool {
	return x.Status == bracket.StatusFailed && !slices.ContainsFunc(x.Members, func(m bracket.ExecutionMember) bool {
		return m.Status == bracket.MemberRunning || m.Status == bracket.MemberRollingBack || x.Recovery != "" && m.Status == bracket.MemberWaiting
	})
}

// repeats reports whether a holder is a target outside brackets that still has a job to repeat,
// such as one that backs off. A target that waits for a slot of another pool does not count, so
// that the host can give back what it holds: two such targets could wait for one another.
func (w *work) repeats(h concurrency.Holder) bool {
	i, _ := w.single(h)
	return i != none && w.targets[i].current != missing && !w.finished(i) && !w.slotless[i]
}

// TargetOf returns the target outside brackets that a holder of slots stands for; outside is false
// if the holder is an execution of a bracket. For a lease of [Plan.Orphans] it tells the host whose
// jobs to look for before it gives the lease back.
func TargetOf(holder concurrency.Holder) (target TargetID, outside bool) {
	var first string
	target.Resource = holder.Resource
	if !textkey.Scan(holder.Group, &first, &target.Environment, &target.Deployment) || first != runid.Reserved {
		return TargetID{}, false
	}
	return target, true
}

// single returns the number of the target that [TargetOf] finds; none if the snapshot does not have
// it.
func (w *work) single(h concurrency.Holder) (i int32, outside bool) {
	id, outside := TargetOf(h)
	if !outside {
		return none, false
	}
	return w.target(id), true
}

func compareHolders(a, b concurrency.Holder) int {
	return cmp.Or(strings.Compare(a.Resource, b.Resource), strings.Compare(a.Group, b.Group))
}

// leaseAt returns the index of the lease of a holder among those of a pool, or where it would be.
func leaseAt(leases []concurrency.Lease, h concurrency.Holder) int {
	k, _ := slices.BinarySearchFunc(leases, h, func(l concurrency.Lease, h concurrency.Holder) int { return compareHolders(l.Holder, h) })
	return k
}

// leasedOn reports whether any holder has a lease on a resource among those of a pool.
func leasedOn(leases []concurrency.Lease, resource string) bool {
	_, found := slices.BinarySearchFunc(leases, resource, func(l concurrency.Lease, id string) int { return strings.Compare(l.Resource, id) })
	return found
}

// openExecution returns the open execution of a bracket that a holder is, also one in an
// environment that the snapshot does not hold; nil if it is none.
func (w *work) openExecution(h concurrency.Holder) *bracket.Execution {
	if w.lastGroup.id != h.Group { // leases mostly are of the same group as the one before
		rule, _, _, _ := bracket.ParseGroupID(h.Group) // the group of a target outside brackets yields a rule without such groups
		w.lastGroup = parsedGroup{h.Group, rule}
	}
	// A planner that believed the execution ended may have exchanged its lease for one of the group
	// that another planner merged into it.
	record := w.execution(w.lastGroup.rule, h.Resource)
	if record == nil || record.Open == nil || !includes(record.Open.Group, record.Open.Merged, h.Group) {
		return nil
	}
	return record.Open
}

// parsedGroup is the id of a bracket group, and the rule that it names.
type parsedGroup struct{ id, rule string }

// outlived returns what becomes of a lease whose execution can never be opened again, because its
// group, or a later one, ran on the resource or runs there. A host stopped between saving the lease
// and saving the execution, or between saving the end of the execution and giving the lease back.
// Until such a group has run, nothing is proved: the host may only be slow. Afterwards its save
// fails, because the record of the resource has changed. The lease of an execution that was given
// up is quarantined, as it would have been when that ended.
func (w *work) outlived(h concurrency.Holder) leaseAction {
	rule, environment, number, ok := bracket.ParseGroupID(h.Group)
	if !ok {
		return keepLease
	}
	atLeast := func(group string) bool { // the group is of the rule, like the record; an empty group is in no environment
		_, e, n, _ := bracket.ParseGroupID(group)
		return e == environment && n >= number
	}
	record := w.execution(rule, h.Resource)
	if record == nil {
		return keepLease
	}
	last := endedIn(record, environment)
	if last.Group == h.Group && last.Status == bracket.StatusCancelled {
		return quarantineLease
	}
	if open := record.Open; open != nil && (atLeast(open.Group) || slices.ContainsFunc(open.Merged, atLeast)) {
		return releaseLease
	}
	if atLeast(last.Group) || slices.ContainsFunc(last.Merged, atLeast) {
		return releaseLease
	}
	return keepLease
}

// progress reads the jobs of the holder of a lease. It returns whether the group has ended, the
// newest progress, whether the holder is at work, and whether it has been since the last start
// under the lease.
func (w *work) progress(lease concurrency.Lease) (own leaseAction, progress time.Time, running, used bool) {
	progress = lease.ProgressAt
	read := func(t *target, prefix string) { // of the run ids of the holder; empty: all jobs are the holder's
		jobs := t.history()
		for k := range jobs.len() {
			job := jobs.at(k)
			if !strings.HasPrefix(job.Run, prefix) {
				continue
			}
			running = running || !job.Status.Terminal() // even by a clock that is behind that of the planner that took the lease
			if job.CreatedAt.Before(lease.Since) {
				continue
			}
			used = used || proves(jobs, k, lease.ProgressAt)
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
			own = releaseLease
		}
	}
	if outside {
		return own, progress, running, used
	}
	resource, known := w.resource(lease.Resource)
	if !known { // the number is that of another resource
		return own, progress, running, used
	}
	prefix := textkey.Join(lease.Group) + "/"
	for from, to := range w.everywhere(resource) {
		for i := from; i < to; i++ {
			read(&w.targets[i], prefix)
		}
	}
	return own, progress, running, used
}

// proves reports whether the end of job k of a target is not older than known, the last progress of
// a lease. If the job ended at once, or at an unknown instant, its creation tells whether it was
// started under the lease as it is: a start under a lease that was held already is noted a
// nanosecond late. A clock that tells only seconds may give several such jobs one instant; then
// each proves a nanosecond more. The start of the next job is noted behind all that were seen
// before it, and is proved as soon as there is one more. If jobs are forgotten meanwhile, the start
// is not proved, and the lease is an orphan.
func proves(jobs history, k int, known time.Time) bool {
	job := jobs.at(k)
	if job.CompletedAt.After(job.CreatedAt) {
		return !job.CompletedAt.Before(known)
	}
	return !job.CreatedAt.Add(atOnce(jobs, job.CreatedAt)).Before(known)
}

// atOnce returns a nanosecond for each of a target's jobs that was created at an instant. The result
// matters only when all of them have ended.
func atOnce(jobs history, created time.Time) time.Duration {
	from := sort.Search(jobs.len(), func(k int) bool { return !jobs.at(k).CreatedAt.After(created) })
	to := sort.Search(jobs.len(), func(k int) bool { return jobs.at(k).CreatedAt.Before(created) })
	return time.Duration(to - from)
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
	if t := &w.targets[i]; t.current == missing { // it waits until that version is listed; which job is repeated then is not known
		return t.history().at(0).Status == JobSuccessful // floor was started, so there is one
	}
	if s := w.wayBackOf(i, floor); s != nil {
		return s.done || s.stuck || s.to < 0
	}
	blockers, needed := w.repeat(i, floor)
	return !needed || slices.ContainsFunc(blockers, func(v Verdict) bool { return v.Reason == ReasonRetryExhausted })
}
