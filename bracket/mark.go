package bracket

import (
	"slices"
	"time"
)

// What a group locks, and which versions are new after it.

// locks returns the versions that a group closing at c locks for the member: those eligible by then and still, newest first, up to the first
// one that every target may run.
func (d *deployment) locks(c time.Time) []VersionMark {
	locked := []VersionMark{}
	for r, lowest := int32(len(d.versions))-1, d.lowestLock(c); r >= lowest; r-- {
		if n := &d.versions[r]; n.eligible(c) {
			locked = append(locked, n.mark())
		}
	}
	return locked
}

// lowestLock returns the rank of the oldest version that a group closing at c may lock: the newest eligible one that every target may run, or else 0.
func (d *deployment) lowestLock(c time.Time) int32 {
	for r := int32(len(d.versions)) - 1; r > 0; r-- {
		if n := &d.versions[r]; n.eligible(c) && !n.narrow {
			return r
		}
	}
	return 0
}

// isNew reports whether version r of a main makes a group: a target needs it, and no group so far has locked it for whoever does.
func (v *view) isNew(g *GroupRecord, d *deployment, r int32) bool {
	return d.needs(r) && v.unlocked(g, d, r)
}

// unlocked reports whether a version is newer than all that were ever locked, or one of three exceptions: the latest group was cancelled with what it locked,
// or it missed the version, or the version is awaited.
func (v *view) unlocked(g *GroupRecord, d *deployment, r int32) bool {
	n, mark := &d.versions[r], g.Marks[d.id]
	if mark.ID == "" || n.mark().compare(mark) > 0 {
		return true
	}
	latest := g.latest()
	if latest == nil {
		return false
	}
	locked := latest.locks(d.id)
	switch {
	case g.cancelled() && len(locked) > 0 && locked[0] == mark:
		return true
	case slices.ContainsFunc(locked, func(l VersionMark) bool { return l.ID == n.id }):
		return false
	}
	return n.awaited || d.missed(r, latest.ReadyAt, locked)
}

// missed reports whether a group that locked some versions would have locked one more if the planner that closed it had known all that is known now. That one
// had not read the version yet, or what made it eligible, or the member. An earlier group may have locked the version already; wherever that had not begun the
// later group took its place, and without one more group nobody there would ever get the version. A version that became eligible after the close came too
// late for the group, like any other.
func (d *deployment) missed(r int32, closed time.Time, locked []VersionMark) bool {
	n := &d.versions[r]
	return n.eligible(closed) && r >= d.lowestLock(closed) && (len(locked) == 0 || n.mark().compare(locked[len(locked)-1]) > 0)
}

// await finds the versions that are new for some targets only: those for which nothing that the latest group locked is meant, as for a resource that
// joined later, or only something older, as where a version for everybody was approved after a newer one for others. Tempting: to compare with the greatest
// version that was locked for anybody. These targets would wait for the next release. Whoever has not read what was locked cannot tell for whom it is, and
// finds nothing.
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

// cancelled reports whether the latest closed group was cancelled with its rule. Once the rule is back nothing of it begins any more, but what it locked is new
// again wherever it does not run: otherwise a rule that was away for an hour would let nobody have these versions ever.
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
