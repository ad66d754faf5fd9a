package bracket

import (
	"slices"
	"time"
)

// What a group locks, and which versions are new after it.

// locks returns the versions that a group closing at c locks for the member: those eligible by then
// and still, newest first, up to the first one that every target may run.
func (d *deployment) locks(c time.Time) []VersionMark {
	locked := []VersionMark{}
	for r, lowest := int32(len(d.versions))-1, d.lowestLock(c); r >= lowest; r-- {
		if n := &d.versions[r]; n.eligible(c) {
			locked = append(locked, n.mark())
		}
	}
	return locked
}

// lowestLock returns the rank of the oldest version that a group closing at c may lock: the newest
// eligible one that every target may run, or else 0.
func (d *deployment) lowestLock(c time.Time) int32 {
	for r := int32(len(d.versions)) - 1; r > 0; r-- {
		if n := &d.versions[r]; n.eligible(c) && !n.narrow {
			return r
		}
	}
	return 0
}

// served is what the groups so far have locked of one deployment.
type served struct {
	mark      VersionMark // the greatest version of all groups
	latest    *Group      // nil if none has closed
	locked    []VersionMark
	cancelled bool // latest was
}

func (g *GroupRecord) served(deployment string) served {
	s := served{mark: g.Marks[deployment], latest: g.latest(), cancelled: g.cancelled()}
	if s.latest != nil {
		s.locked = s.latest.locks(deployment)
	}
	return s
}

// isNew reports whether version r of a main makes a group: a target needs it, and no group so far
// has locked it for whoever does.
func (d *deployment) isNew(s *served, r int32) bool {
	return d.needs(r) && d.unlocked(s, r)
}

// unlocked reports whether a version is newer than all that were ever locked, or one of three
// exceptions: the latest group was cancelled with what it locked, or it missed the version, or the
// version is awaited.
func (d *deployment) unlocked(s *served, r int32) bool {
	n, last := &d.versions[r], len(s.locked)-1
	switch {
	case s.mark.ID == "" || n.mark().compare(s.mark) > 0:
		return true
	case s.latest == nil:
		return false
	case s.cancelled && last >= 0 && n.mark().compare(s.locked[0]) <= 0: // not the mark: an earlier group may have locked a newer one, withdrawn since
		return true
	case n.awaited:
	case last >= 0 && n.mark().compare(s.locked[last]) <= 0:
		return false // as nearly all are: each group that a late call closes asks for all versions
	}
	if _, found := slices.BinarySearchFunc(s.locked, n.mark(), func(l, m VersionMark) int { return m.compare(l) }); found {
		return false // as nearly all others are: where every version is narrow, a group locks all that are eligible
	}
	return (n.awaited || d.missed(r, s.latest.ReadyAt)) && !slices.ContainsFunc(s.locked, func(l VersionMark) bool { return l.ID == n.id })
}

// missed reports whether a group that closed then would have locked a version, which is newer than
// those that it did lock, if the planner that closed it had known all that is known now. That one
// had not read the version yet, or what made it eligible, or the member. An earlier group may have
// locked the version already; wherever that had not begun the later group took its place, and
// without one more group nobody there would ever get the version. A version that became eligible
// after the close came too late for the group, like any other.
func (d *deployment) missed(r int32, closed time.Time) bool {
	return d.versions[r].eligible(closed) && r >= d.lowestLock(closed)
}

// await finds the versions that are new for some targets only: those for which nothing that the
// latest group locked is meant, as for a resource that joined later, or only something older, as
// where a version for everybody was approved after a newer one for others. Tempting: to compare
// with the greatest version that was locked for anybody. These targets would wait for the next
// release. Whoever has not read what was locked cannot tell for whom it is, and finds nothing.
func (v *view) await(g *GroupRecord) {
	for i := range v.deployments {
		for r := range v.deployments[i].versions {
			v.deployments[i].versions[r].awaited = false
		}
	}
	latest := g.latest()
	if latest == nil {
		return
	}
	for i := range v.special {
		if v.special[i].outOfScope == nil {
			continue
		}
		t := &v.targets[v.special[i].target]
		d := &v.deployments[t.deployment]
		first := t.rank() + 1
		for _, l := range latest.locks(d.id) {
			if r := d.rankOf(l.ID); r < 0 || v.inScope(t, r) {
				first = max(first, d.above(l))
				break
			}
		}
		for r := first; int(r) < len(d.versions); r++ {
			d.versions[r].awaited = d.versions[r].awaited || v.inScope(t, r)
		}
	}
}

// locks returns what a group has locked for a deployment.
func (g *Group) locks(deployment string) []VersionMark {
	if i, member := slices.BinarySearchFunc(g.Members, deployment, byDeployment); member {
		return g.Members[i].Locks
	}
	return nil
}

// cancelled reports whether the latest closed group was cancelled with its rule. Once the rule is
// back nothing of it begins any more, but what it locked is new again wherever it does not run:
// otherwise a rule that was away for an hour would let nobody have these versions ever.
func (g *GroupRecord) cancelled() bool {
	latest := g.latest()
	return latest != nil && latest.Status == StatusCancelled
}

// servedUntil is the instant up to which a group has taken care of outdated targets.
func (g *GroupRecord) servedUntil() time.Time {
	if latest := g.latest(); latest != nil && !g.cancelled() {
		return latest.ReadyAt
	}
	return time.Time{}
}
