package bracket

import (
	"slices"
	"sort"
	"time"
)

// What a group locks, and which versions are new after it.

// locks returns the versions that a group closing at c locks for the member: those that were
// eligible at c and still are, newest first, up to the first one that every target may run.
func (d *deployment) locks(c time.Time) []VersionMark {
	locked := []VersionMark{}
	for r, lowest := d.createdBy(c)-1, d.lowestLock(c); r >= lowest; r-- {
		if n := &d.versions[r]; n.eligible(c) {
			locked = append(locked, n.mark())
		}
	}
	return locked
}

// lowestLock returns the rank of the oldest version that a group closing at c may lock: the newest
// eligible one that every target may run, or else 0.
func (d *deployment) lowestLock(c time.Time) int32 {
	for r := d.createdBy(c) - 1; r > 0; r-- {
		if n := &d.versions[r]; n.eligible(c) && !n.narrow {
			return r
		}
	}
	return 0
}

// createdBy returns how many versions there were at an instant; the others cannot be eligible then.
// A late step closes a group for each of many versions, and would read all later ones each time.
func (d *deployment) createdBy(at time.Time) int32 {
	return int32(sort.Search(len(d.versions), func(r int) bool { return d.versions[r].createdAt.After(at) }))
}

// served is what the groups so far have locked of one deployment.
type served struct {
	mark   VersionMark // the greatest version of all groups
	latest *Group      // nil if none has closed
	locked []VersionMark
}

func (g *GroupRecord) served(deployment string) served {
	s := served{mark: g.Marks[deployment], latest: g.latest()}
	if s.latest != nil {
		s.locked = s.latest.locks(deployment)
	}
	return s
}

// isNew reports whether version r of a main opens a group: some target needs it, and no group so
// far has locked it for such a target.
func (d *deployment) isNew(s *served, r int32) bool {
	return d.needs(r) && d.unlocked(s, r)
}

// unlocked reports whether a version is newer than every version ever locked, or one of three
// exceptions: the latest group was cancelled with its rule and had locked it or a newer one, the
// latest group missed it, or it is awaited. A cancelled group starts nothing any more, even if the
// rule comes back. Without the first exception, a rule that was deleted for an hour would keep the
// versions that the group had locked from all targets for ever.
func (d *deployment) unlocked(s *served, r int32) bool {
	n, last := &d.versions[r], len(s.locked)-1
	switch {
	case s.mark.ID == "" || n.mark().compare(s.mark) > 0:
		return true
	case s.latest == nil:
		return false
	case s.latest.Status == StatusCancelled && last >= 0 && n.mark().compare(s.locked[0]) <= 0: // compared with the lock, not the mark: an earlier group may have locked a newer version, withdrawn since
		return true
	case n.awaited:
	case last >= 0 && n.mark().compare(s.locked[last]) <= 0:
		return false // the usual case, tested early
	}
	if _, found := slices.BinarySearchFunc(s.locked, n.mark(), func(l, m VersionMark) int { return m.compare(l) }); found {
		return false // the usual case of the rest: where every version is narrow, a group locks all that are eligible
	}
	return (n.awaited || d.missed(r, s.latest.ReadyAt)) && !slices.ContainsFunc(s.locked, func(l VersionMark) bool { return l.ID == n.id })
}

// unmarked returns the lowest rank of the versions that are newer than a deployment's mark, which is
// empty if no group has locked any.
func (d *deployment) unmarked(mark VersionMark) int32 {
	if mark.ID == "" {
		return 0
	}
	return d.above(mark)
}

// unserved returns a rank below which no version is new: see unlocked.
func (d *deployment) unserved(s *served) int32 {
	if len(s.locked) == 0 || s.latest.Status == StatusCancelled {
		return 0
	}
	return min(d.above(s.locked[len(s.locked)-1]), d.awaited)
}

// missed reports whether the latest group, closed at closed, would have locked version r, which it
// did not lock, if its planner had known what is known now. That planner had not read the version
// yet, or what made it eligible, or the member. An earlier group may have locked the version
// already; but where that group had not begun, the latest group took its place, and without one
// more group the targets there would never get the version. A version that became eligible after
// the close is not missed: it came too late for the group.
func (d *deployment) missed(r int32, closed time.Time) bool {
	return d.versions[r].eligible(closed) && r >= d.lowestLock(closed)
}

// await marks the versions that are new for some targets only. For these targets nothing that the
// latest group locked is in scope, as on a resource that joined later, or only an older version is,
// as when a version for all targets was approved after a newer one for others. Tempting: to compare
// with the greatest version locked for any target; these targets would then wait for the next
// release. A locked version that this planner has not read counts as in scope for every target,
// because its scope is unknown.
func (v *view) await(g *GroupRecord) {
	for i := range v.deployments {
		d := &v.deployments[i]
		for r := int(d.awaited); r < len(d.versions); r++ {
			d.versions[r].awaited = false
		}
		d.awaited = int32(len(d.versions))
	}
	latest := g.latest()
	if latest == nil {
		return
	}
	locked := make([]*lockedRanks, len(v.deployments))
	for i := range v.scopes {
		s := &v.scopes[i]
		d := &v.deployments[s.deployment]
		own := locked[s.deployment]
		if own == nil {
			own = d.ranksOf(latest.locks(d.id), g.Marks[d.id])
			locked[s.deployment] = own
		}
		// What the others of the scope await is among what the one with the oldest version does.
		first := max(s.lowest, own.unread, s.last(own.read)) + 1
		for r := s.next(first); r < own.end; r = s.next(r + 1) {
			d.versions[r].awaited = true
			d.awaited = min(d.awaited, r)
		}
	}
}

// lockedRanks is what a group has locked for a deployment, by ranks.
type lockedRanks struct {
	read   []uint64 // bits of the locked versions that are listed
	unread int32    // the greatest rank below a locked version that is not listed, -1 without
	end    int32    // from there on every version is new
}

func (d *deployment) ranksOf(locks []VersionMark, mark VersionMark) *lockedRanks {
	own := &lockedRanks{make([]uint64, d.words()), -1, d.unmarked(mark)}
	for _, l := range locks {
		if r := d.rankOf(l.ID); r >= 0 {
			own.read[r/64] |= 1 << (r % 64)
		} else {
			own.unread = max(own.unread, d.above(l)-1)
		}
	}
	return own
}

// locks returns what a group has locked for a deployment.
func (g *Group) locks(deployment string) []VersionMark {
	if i, member := slices.BinarySearchFunc(g.Members, deployment, byDeployment); member {
		return g.Members[i].Locks
	}
	return nil
}

// servedUntil returns the instant up to which the latest group takes care of outdated targets, zero
// if no group does.
func (g *GroupRecord) servedUntil() time.Time {
	if latest := g.latest(); latest != nil && latest.Status != StatusCancelled {
		return latest.ReadyAt
	}
	return time.Time{}
}
