package rollout

import (
	"slices"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/internal/textkey"
)

// missed returns the instant since which a target needs a run because the execution of the latest
// group began, or ended, on its resource before the target might have the version that it may have
// now, such as one that was approved later and there alone. The group has locked the version, so
// the version opens no other group by being new, and the target would wait for the next release.
// The same holds if the group has not locked it because a newer version, for other targets, was
// there before. A group that collects for the target goes on to do so when the execution ends. An
// execution that failed or was given up is not begun again, nor is one that began when the version
// was there. Without such a version, missed returns the target's own OutdatedAt.
func (o *observedTargets) missed(i int32, own bracket.Target) time.Time {
	t := &o.targets[i]
	versions := o.late[o.kindOfTarget(i)]
	id := func(v lateVersion) string { return o.version(i, v.number).ID }
	for len(versions) > 0 && slices.Contains(own.OutOfScope, id(versions[len(versions)-1])) {
		versions = versions[:len(versions)-1]
	}
	if len(versions) == 0 {
		return own.OutdatedAt
	}
	version := versions[len(versions)-1]
	if t.current == missing || t.current >= version.number || !version.since.After(o.past(own.OutdatedAt)) {
		return own.OutdatedAt
	}
	if slices.ContainsFunc(t.Jobs, func(job Job) bool { return job.Version == id(version) }) {
		return own.OutdatedAt
	}
	if !locks(groupMember(o.latest, own.Deployment), id(version)) {
		return version.since
	}
	record := executionOn(o.executions, own.Resource)
	if record == nil {
		return own.OutdatedAt
	}
	environment := o.environments[o.bracket.environment].ID
	if open := record.Open; open != nil && includes(open.Group, open.Merged, o.latest.ID) {
		if m := memberIn(open, own.Deployment); m == nil || m.Version != id(version) {
			return version.since
		}
	} else if last := endedIn(record, environment); includes(last.Group, last.Merged, o.latest.ID) && last.Status == bracket.StatusCompleted &&
		(!version.since.Before(last.EndedAt) || o.beganBy(version.since, i, last.Group)) {
		return version.since
	}
	return own.OutdatedAt
}

// beganBy reports whether an execution that has ended on the resource of target i had begun by an
// instant, with what was merged into it. Only its jobs tell when that was, the first of the last
// generation; so without them it is false.
func (o *observedTargets) beganBy(at time.Time, i int32, group string) bool {
	prefix, last := textkey.Join(group)+"/", 0
	var began time.Time
	from, to := o.siblingsIn(o.bracket.environment, o.targets[i].resource)
	for k := from; k < to; k++ {
		for _, job := range o.targets[k].Jobs {
			rest, ours := strings.CutPrefix(job.Run, prefix)
			if !ours {
				continue
			}
			if run, ok := parseRun(group, rest); ok && run.Generation >= last {
				if run.Generation > last {
					last, began = run.Generation, time.Time{}
				}
				began = sooner(began, job.CreatedAt)
			}
		}
	}
	return !began.IsZero() && !at.Before(began)
}

// mayJoin reports whether joined can apply to a target, now or later. Few targets join after the
// latest group has closed, and only these are looked at more closely.
func (o *observedTargets) mayJoin(t *target) bool {
	return o.latest != nil && t.placed && t.JoinedAt.After(o.latest.ReadyAt) && t.current != missing
}

// past returns an instant since which a target is outdated, or zero if it is not yet: what makes
// the target need a run before then must not wait for that.
func (o *observedTargets) past(outdated time.Time) time.Time {
	if outdated.After(o.asOf) {
		return time.Time{}
	}
	return outdated
}

// anyDated reports whether missed or joined finds any target that needs a run.
func (o *observedTargets) anyDated() bool {
	for k, i := range o.bracket.targets {
		if len(o.late) > 0 || o.mayJoin(&o.targets[i]) {
			o.At(k)
		}
		if o.dated {
			return true
		}
	}
	return false
}

// joined returns the instant since which a target needs a run because it joined after the execution
// of the latest group had ended on its resource. An example is a node that was made again under the
// name of one that is gone, with nothing on it or with an old version from its image. A group runs
// on a resource once, and its run ids are not used twice, so the next group opens without waiting
// for a release. For a target that did not join so late, joined returns its own OutdatedAt. Where
// the execution ended because its resource was gone, whoever is there now is a new one, though it
// may have joined before the host saw that.
func (o *observedTargets) joined(i int32, own bracket.Target) time.Time {
	at := o.targets[i].JoinedAt
	if at.After(o.asOf) {
		o.wake(at)
		return own.OutdatedAt
	}
	record := executionOn(o.executions, own.Resource)
	if record == nil || !at.After(o.past(own.OutdatedAt)) {
		return own.OutdatedAt
	}
	last := endedIn(record, o.environments[o.bracket.environment].ID)
	if !includes(last.Group, last.Merged, o.latest.ID) || !at.After(last.EndedAt) && !endedByDeletion(last) {
		return own.OutdatedAt
	}
	versions := o.versions[o.targets[i].deployment].list
	for n := len(versions) - 1; n > int(o.targets[i].current); n-- { // an unlocked version opens a group by being new, and without a newer version no group is needed
		if v := versions[n]; v.CreatedAt.After(o.asOf) || slices.Contains(own.OutOfScope, v.ID) || len(o.gateAt(i, int32(n)).blockers) > 0 {
			continue
		} else if o.bracket.locked(v) {
			return at
		}
		break
	}
	return own.OutdatedAt
}

// endedByDeletion reports whether an execution ended because its resource was deleted: nothing else
// cancels one but an operator's last word.
func endedByDeletion(last bracket.EndedExecution) bool {
	n := len(last.Decisions)
	return last.Status == bracket.StatusCancelled && (n == 0 || last.Decisions[n-1].Kind != bracket.Abandon)
}

// lateVersion is a version whose gates opened for the targets of a kind only after the latest group
// had closed, although a closed group has locked it, or a newer version, for other targets. The
// newer versions that these targets may have follow it in the list, with a zero since.
type lateVersion struct {
	number int32
	since  time.Time
}
