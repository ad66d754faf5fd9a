package bracket

import (
	"slices"
	"time"
)

// groupView is a closed group, seen with the present observation.
type groupView struct {
	*Group
	members []memberView  // like Group.Members
	slot    []int32       // per deployment of the view: index in members, -1; see memberOf
	order   []int32       // indices of members by (level, deployment)
	hooks   []int32       // those of order that are no mains
	needs   [][]groupNeed // per member
}

// groupNeed is a need by member index. If versions is not nil, the need exists only if the needed
// member runs one of them afterwards.
type groupNeed struct {
	member   int32
	versions []string
}

// memberView is a member of a closed group with those of its locks that are still eligible, newest
// first.
type memberView struct {
	deployment int32
	locks      []lock
}

type lock struct {
	id   string
	rank int32
}

func (v *view) viewGroup(g *Group) *groupView {
	gv := &groupView{Group: g, members: make([]memberView, len(g.Members)), slot: slices.Repeat([]int32{-1}, len(v.deployments)), needs: make([][]groupNeed, len(g.Members))}
	// A version that was eligible at the close stays so for a planner whose clock is behind the
	// close.
	now := maxTime(v.now, g.ReadyAt)
	for i, m := range g.Members {
		at := v.find(m.Deployment) // the view has all members of closed groups
		gv.slot[at] = int32(i)
		gv.members[i].deployment = at
		d := &v.deployments[at]
		for _, l := range m.Locks {
			if r := d.rankOf(l.ID); r >= 0 && d.versions[r].eligible(now) {
				gv.members[i].locks = append(gv.members[i].locks, lock{l.ID, r})
			}
		}
		gv.order = append(gv.order, int32(i))
	}
	for i, m := range g.Members {
		add := func(deployment string, versions []string) {
			if j, found := slices.BinarySearchFunc(g.Members, deployment, byDeployment); found {
				gv.needs[i] = append(gv.needs[i], groupNeed{int32(j), versions})
			}
		}
		for _, need := range m.Needs {
			add(need, nil)
		}
		for _, need := range m.NeedsIf {
			add(need.Deployment, append([]string{}, need.Versions...)) // never nil
		}
	}
	level := make([]int, len(g.Members))
	levels(level, func(i int) []groupNeed { return gv.needs[i] }, func(need groupNeed) int { return int(need.member) })
	slices.SortStableFunc(gv.order, func(a, b int32) int { return level[a] - level[b] })
	for _, i := range gv.order {
		if g.Members[i].Role != Main {
			gv.hooks = append(gv.hooks, i)
		}
	}
	return gv
}

// memberOf returns the index of the member that a target belongs to, -1 if it belongs to none.
func (g *groupView) memberOf(t *target) int32 {
	if t.deployment < 0 {
		return -1
	}
	return g.slot[t.deployment]
}

// targetOf returns the target of the i-th member among those of one resource, nil if it has none.
func (g *groupView) targetOf(targets []target, i int32) *target {
	d := g.members[i].deployment
	if int(i) < len(targets) && targets[i].deployment == d {
		return &targets[i] // the usual case: the resource has a target for every member and for nothing else
	}
	for k := range targets {
		if targets[k].deployment == d {
			return &targets[k]
		}
	}
	return nil
}

// targetNamed is targetOf for a deployment of an execution; nil if that is not a member of the
// group.
func (g *groupView) targetNamed(v *view, targets []target, deployment string) *target {
	if t := v.targetIn(targets, deployment); t != nil && g.memberOf(t) >= 0 {
		return t
	}
	return nil
}

// lockFor returns the first lock of a member that is in scope for its target; ok is false if there
// is none.
func (g *groupView) lockFor(v *view, t *target) (l lock, ok bool) {
	for _, l := range g.members[g.memberOf(t)].locks {
		if v.inScope(t, l.rank) {
			return l, true
		}
	}
	return lock{}, false
}

// plan returns what the group does with the target of a member, and the version that the target
// must run afterwards.
func (g *groupView) plan(v *view, t *target) (Action, string) {
	l, locked := g.lockFor(v, t)
	if g.Members[g.memberOf(t)].Role != Main {
		if locked && t.rank() <= l.rank { // no target goes back to an older version, even if its newer one is not eligible any more
			return ActionRun, l.id
		}
		return ActionRun, v.currentOf(t) // empty: the hook has no version and blocks the execution
	}
	switch {
	case !locked && t.current == -1:
		return ActionSkip, ""
	case !locked:
	case t.current == l.rank:
		if g.outdates(v, t) {
			return ActionDeploy, l.id
		}
	case t.rank() < l.rank:
		return ActionDeploy, l.id
	}
	if g.Strategy == RedeployCurrent {
		return ActionRedeploy, v.currentOf(t)
	}
	return ActionSkip, v.currentOf(t)
}

// outdates reports whether the target needs a new run of the same version in this group. A target
// that became outdated after the close opens the next group instead.
func (g *groupView) outdates(v *view, t *target) bool {
	at := v.outdatedAt(t)
	return !at.IsZero() && !at.After(g.ReadyAt)
}

// needed reports whether the group has a main to deploy on the targets of one resource.
func (g *groupView) needed(v *view, targets []target) bool {
	for k := range targets {
		t := &targets[k]
		m := g.memberOf(t)
		if m < 0 || g.Members[m].Role != Main {
			continue
		}
		if locks := g.members[m].locks; len(locks) > 0 && locks[0].rank == t.current && t.special == 0 {
			continue // up to date: the usual case, decided by one comparison
		}
		if action, _ := g.plan(v, t); action == ActionDeploy {
			return true
		}
	}
	return false
}

// pendingRuns lists the members that the group would run on the targets of one resource.
func (g *groupView) pendingRuns(v *view, targets []target) []PendingRun {
	var runs []PendingRun
	for _, i := range g.order {
		t := g.targetOf(targets, i)
		if t == nil {
			continue
		}
		if action, version := g.plan(v, t); action != ActionSkip {
			m := &g.Members[i]
			runs = append(runs, PendingRun{Deployment: m.Deployment, Version: version, Role: m.Role, Action: action})
		}
	}
	return runs
}

// idleHook returns the target of the first hook on one resource that has no version to run and so
// blocks the execution, nil if there is none.
func (g *groupView) idleHook(v *view, targets []target) *target {
	for _, i := range g.hooks {
		if t := g.targetOf(targets, i); t != nil {
			if _, version := g.plan(v, t); version == "" {
				return t
			}
		}
	}
	return nil
}

// onHook returns the events that can give a version to a hook that has none: a new version that the
// hook may run, and the close of the next group, because this group locks nothing more. If such a
// version exists already and came too late for this group, only the close of the next group can
// help: the instant is that of the one that collects, if that is known.
func (g *groupView) onHook(v *view, hook *target, now time.Time) (until time.Time, on []Condition) {
	next := Condition{Kind: OnGroupClose, Rule: v.id, Environment: v.environment}
	if g.cameLate(v, hook) {
		return after(v.closes, now), []Condition{next}
	}
	return until, []Condition{{Kind: OnVersion, Deployment: v.deploymentOf(hook)}, next}
}

// cameLate reports whether a hook that runs nothing has a version that it may run now or from a known
// instant on, and no version locked by the group that may become eligible again. It reads no clock:
// at that instant nothing changes for the group.
func (g *groupView) cameLate(v *view, hook *target) bool {
	d := &v.deployments[hook.deployment]
	for _, l := range g.Members[g.memberOf(hook)].Locks {
		if r := d.rankOf(l.ID); r >= 0 && v.inScope(hook, r) {
			return false
		}
	}
	for r := len(d.versions) - 1; r >= 0; r-- {
		if !d.versions[r].at.IsZero() && v.inScope(hook, int32(r)) {
			return true
		}
	}
	return false
}

// startsFirst reports whether nothing that runs on the resource must run before the i-th member.
func (g *groupView) startsFirst(v *view, i int32, targets []target) bool {
	for _, n := range g.needs[i] {
		t := g.targetOf(targets, n.member)
		if t == nil {
			continue
		}
		if action, version := g.plan(v, t); action != ActionSkip && (n.versions == nil || slices.Contains(n.versions, version)) {
			return false
		}
	}
	return true
}

// firstRun reports whether a run is the first run of a member of the group that has a target on the
// resource.
func (g *groupView) firstRun(r Run, v *view, resource int32) bool {
	return g.targetNamed(v, v.span(resource), r.Deployment) != nil && r.Generation == 1 && r.Attempt == 1 && r.Purpose == Deploy
}
