package bracket

import (
	"maps"
	"slices"
	"time"
)

// groupView is a closed group against the present observation.
type groupView struct {
	*Group
	members []memberView // like Group.Members
	slot    []int32      // per deployment of the view: index in members, -1
	order   []int32      // indices of members by (level, deployment)
	level   []int
	needs   [][]groupNeed // per member
}

// groupNeed is a need by index; with versions it exists only if the needed member runs one of them afterwards.
type groupNeed struct {
	member   int32
	versions []string
}

// memberView is a member of a closed group with those of its locks that are still eligible, best first.
type memberView struct {
	deployment int32
	locks      []lock
}

type lock struct {
	id   string
	rank int32
}

func (v *view) viewGroup(g *Group) *groupView {
	gv := &groupView{Group: g, members: make([]memberView, len(g.Members)), slot: make([]int32, len(v.deployments)), level: make([]int, len(g.Members)), needs: make([][]groupNeed, len(g.Members))}
	for i := range gv.slot {
		gv.slot[i] = -1
	}
	// What was eligible at the close has not ceased to be for a planner whose clock has not come that far.
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
	levels(gv.level, func(i int) []groupNeed { return gv.needs[i] }, func(need groupNeed) int { return int(need.member) })
	slices.SortStableFunc(gv.order, func(a, b int32) int { return gv.level[a] - gv.level[b] })
	return gv
}

// lockFor returns the first lock of the i-th member that is in scope for the target; ok is false if there is none.
func (g *groupView) lockFor(v *view, i int32, t *target) (l lock, ok bool) {
	for _, l := range g.members[i].locks {
		if v.inScope(t, l.rank) {
			return l, true
		}
	}
	return lock{}, false
}

// plan returns what the group does with a target of its i-th member, and the version the target shall run afterwards.
func (g *groupView) plan(v *view, i int32, t *target) (Action, string) {
	l, locked := g.lockFor(v, i, t)
	if g.Members[i].Role != Main {
		if locked && t.rank() <= l.rank { // nothing goes back to an older version, not even where the newer one may be deployed nowhere else any more
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

// outdates reports whether the target needs a new run of the same version in this group: one that became outdated after the close
// opens the next group instead of slipping into this one.
func (g *groupView) outdates(v *view, t *target) bool {
	at := v.outdatedAt(t)
	return !at.IsZero() && !at.After(g.ReadyAt)
}

// needed reports whether the group has a main to deploy on the targets of one resource.
func (g *groupView) needed(v *view, targets []target) bool {
	for k := range targets {
		if targets[k].deployment < 0 {
			continue
		}
		m := g.slot[targets[k].deployment]
		if m < 0 || g.Members[m].Role != Main {
			continue
		}
		t := &targets[k]
		if locks := g.members[m].locks; len(locks) > 0 && locks[0].rank == t.current && t.special == 0 {
			continue // up to date: the usual case, decided by one comparison
		}
		if action, _ := g.plan(v, m, t); action == ActionDeploy {
			return true
		}
	}
	return false
}

// window is what a collecting group knows about its members at the moment.
type window struct {
	any      bool      // some main has a new version with a defined trigger
	trigger  time.Time // the earliest trigger, if any
	earliest time.Time // E: the earliest instant at which a main had a new eligible version; zero if none has
	all      time.Time // A: the instant by which every main had one; zero if one has none
}

// window computes the instants for the next group.
func (v *view) window(g *GroupRecord) window {
	var w window
	since := g.servedUntil()
	complete := true
	for _, m := range v.members {
		if m.Role != Main {
			continue
		}
		d := &v.deployments[v.find(m.Deployment)]
		var eligible time.Time // the member's earliest
		for r := d.above(v.mark(g, d.id)); int(r) < len(d.versions); r++ {
			n := &d.versions[r]
			if !d.isNew(r) {
				continue
			}
			trigger := n.at
			if v.rule.TriggerOn == Published {
				trigger = n.createdAt
			}
			if !trigger.IsZero() {
				w.any = true
				earlier(&w.trigger, trigger)
			}
			if !n.at.IsZero() {
				earlier(&eligible, n.at)
			}
		}
		for _, at := range d.outdated {
			if at.After(since) {
				w.any = true
				earlier(&w.trigger, at)
				earlier(&eligible, at)
				break
			}
		}
		if eligible.IsZero() {
			complete = false
			continue
		}
		earlier(&w.earliest, eligible)
		w.all = maxTime(w.all, eligible)
	}
	if !complete {
		w.all = time.Time{}
	}
	return w
}

// earlier lowers *t to at; a zero *t is unset.
func earlier(t *time.Time, at time.Time) {
	if t.IsZero() || at.Before(*t) {
		*t = at
	}
}

func maxTime(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// closing returns when a group that opened at t closes, whether it stopped waiting, and the strategy in force. ok is false while
// nothing is eligible: a window never closes empty-handed.
//
//	mode               strategy          situation            close         in force
//	immediate          not require_all                        max(T, E)     as configured
//	collection_window  not require_all                        max(T+W, E)   as configured
//	collection_window  require_all       A <= T+W             T+W           as configured: nothing is unchanged
//	collection_window  require_all       T+W < A <= T+W+R     A             as configured: nothing is unchanged
//	collection_window  require_all       otherwise            max(T+W+R, E) skip_unchanged, timed out
//	wait_for_all       any               A <= T+W             A             as configured: nothing is unchanged
//	wait_for_all       any               otherwise            max(T+W, E)   as configured, require_all as skip_unchanged, timed out
func closing(rule *Rule, t time.Time, w window) (at time.Time, timedOut bool, strategy UnchangedMemberStrategy, ok bool) {
	strategy = rule.UnchangedMemberStrategy
	if w.earliest.IsZero() {
		return time.Time{}, false, strategy, false
	}
	earliest := maxTime(t, w.earliest)
	end := t.Add(time.Duration(*rule.ReadinessWindowSeconds) * time.Second)
	all, complete := maxTime(t, w.all), !w.all.IsZero()
	switch rule.ReadinessMode {
	case Immediate:
		return earliest, false, strategy, true
	case WaitForAll:
		if complete && !all.After(end) {
			return all, false, strategy, true
		}
	default:
		if strategy != RequireAll {
			return maxTime(end, earliest), false, strategy, true
		}
		if complete && !all.After(end) {
			return end, false, strategy, true
		}
		end = end.Add(time.Duration(rule.RequireAllTimeoutSeconds) * time.Second)
		if complete && !all.After(end) {
			return all, false, strategy, true
		}
	}
	if strategy == RequireAll {
		strategy = SkipUnchanged
	}
	return maxTime(end, earliest), true, strategy, true
}

// groups closes and opens groups until nothing more is due, however much time has passed: collecting never waits for executions.
func (s *step) groups() {
	v := s.view
	if s.ruleDeleted {
		s.cancelGroups()
		return
	}
	for {
		g := s.state.Group
		var since time.Time
		if n := len(g.Closed); n > 0 {
			since = g.Closed[n-1].ReadyAt
		}
		w := v.window(g)
		if g.Collecting == nil {
			if !w.any {
				return // I15
			}
			opened := maxTime(w.trigger, since)
			if opened.After(v.now) {
				s.wake(opened)
				return
			}
			g = s.changeGroup()
			g.Number++
			g.Collecting = &Collecting{ID: GroupID(g.Rule, g.Environment, g.Number), OpenedAt: opened}
			s.event(Event{Kind: GroupOpened, Group: g.Collecting.ID, At: opened, Status: StatusCollecting})
		}
		if !w.any {
			g = s.changeGroup()
			s.event(Event{Kind: GroupCancelled, Group: g.Collecting.ID, At: utc(v.now), Status: StatusCancelled})
			g.Collecting = nil
			return
		}
		at, timedOut, strategy, known := closing(&v.rule, g.Collecting.OpenedAt, w)
		if !known {
			return
		}
		if at.After(v.now) {
			v.closes = at
			s.wake(at)
			return
		}
		s.close(at, timedOut, strategy)
	}
}

// cancelled reports whether the latest closed group was cancelled with its rule. Once the rule is back nothing of it begins any more, but what it locked is new
// again wherever it does not run: otherwise a rule that was away for an hour would let nobody have these versions ever.
func (g *GroupRecord) cancelled() bool {
	n := len(g.Closed)
	return n > 0 && g.Closed[n-1].Status == StatusCancelled
}

// mark is the greatest version of a main member that is not new any more. That is the greatest that was locked, with two exceptions: what the latest group locked
// is new again if it was cancelled, and so is what it missed.
func (v *view) mark(g *GroupRecord, deployment string) VersionMark {
	mark := g.Marks[deployment]
	if mark.ID == "" || len(g.Closed) == 0 {
		return mark
	}
	latest := g.Closed[len(g.Closed)-1]
	var locked VersionMark
	if i, member := slices.BinarySearchFunc(latest.Members, deployment, byDeployment); member && len(latest.Members[i].Locks) > 0 {
		locked = latest.Members[i].Locks[0]
	}
	switch {
	case mark == locked && g.cancelled():
		return VersionMark{}
	case mark != locked && v.missed(latest, deployment, locked):
		return locked
	}
	return mark
}

// missed reports whether a group would have locked a newer version of a member if the planner that closed it had known all that is known now. That one had not
// read the version yet, or what made it eligible, or the member. An earlier group may have locked the version already; wherever that had not begun the later
// group took its place, and without one more group nobody there would ever get the version. A version that became eligible after the close came too late for
// the group, like any other.
func (v *view) missed(g *Group, deployment string, locked VersionMark) bool {
	seen := v.deployments[v.find(deployment)].locks(g.ReadyAt)
	return len(seen) > 0 && compareVersions(seen[0].CreatedAt, seen[0].ID, locked.CreatedAt, locked.ID) > 0
}

// servedUntil is the instant up to which a group has taken care of outdated targets.
func (g *GroupRecord) servedUntil() time.Time {
	if n := len(g.Closed); n > 0 && !g.cancelled() {
		return g.Closed[n-1].ReadyAt
	}
	return time.Time{}
}

// close locks the collecting group as of at.
func (s *step) close(at time.Time, timedOut bool, strategy UnchangedMemberStrategy) {
	v, g := s.view, s.changeGroup()
	closed := &Group{ID: g.Collecting.ID, OpenedAt: g.Collecting.OpenedAt, ReadyAt: at, Status: StatusReady,
		TimedOut: timedOut, Strategy: strategy, Rule: v.rule, Members: slices.Clone(v.members)}
	g.Marks = maps.Clone(g.Marks)
	if g.Marks == nil {
		g.Marks = make(map[string]VersionMark)
	}
	for i := range closed.Members {
		m := &closed.Members[i]
		d := &v.deployments[v.find(m.Deployment)]
		m.Locks = d.locks(at)
		if m.Role == Main && len(m.Locks) > 0 {
			newest, mark := m.Locks[0], g.Marks[d.id]
			if compareVersions(newest.CreatedAt, newest.ID, mark.CreatedAt, mark.ID) > 0 {
				g.Marks[d.id] = newest
			}
		}
	}
	g.Collecting = nil
	g.Closed = append(slices.Clone(g.Closed), closed)
	s.event(Event{Kind: GroupClosed, Group: closed.ID, At: at, Status: StatusReady})
	s.retire()
}

// locks returns the versions that a group closing at c locks for the member: those eligible by then and still, newest first, up to the first
// one that every target may run.
func (d *deployment) locks(c time.Time) []VersionMark {
	locked := []VersionMark{}
	for r := len(d.versions) - 1; r >= 0; r-- {
		n := &d.versions[r]
		if !n.eligible(c) {
			continue
		}
		locked = append(locked, VersionMark{n.id, n.createdAt})
		if !n.narrow {
			break
		}
	}
	return locked
}

// retire drops closed groups that are neither the latest nor in use by an open execution.
func (s *step) retire() {
	closed := s.state.Group.Closed
	kept := make([]*Group, 0, len(closed))
	for i, g := range closed {
		if i == len(closed)-1 || s.uses[g.ID] > 0 {
			kept = append(kept, g)
		} else if g.Status != StatusCompleted && g.Status != StatusFailed && g.Status != StatusCancelled {
			s.event(Event{Kind: GroupSuperseded, Group: g.ID, At: maxTime(closed[len(closed)-1].ReadyAt, s.ends[g.ID]), Status: StatusSuperseded})
		}
	}
	if len(kept) < len(closed) {
		s.changeGroup().Closed = kept
	}
}

// cancelGroups ends what has not started when the rule is gone.
func (s *step) cancelGroups() {
	if c := s.state.Group.Collecting; c != nil {
		s.changeGroup().Collecting = nil
		s.event(Event{Kind: GroupCancelled, Group: c.ID, At: utc(s.view.now), Status: StatusCancelled})
	}
	if n := len(s.state.Group.Closed); n > 0 {
		switch latest := s.state.Group.Closed[n-1]; latest.Status {
		case StatusCompleted, StatusFailed, StatusCancelled:
		default:
			s.state.Group = s.state.Group.withStatus(n-1, StatusCancelled)
			s.event(Event{Kind: GroupCancelled, Group: latest.ID, At: utc(s.view.now), Status: StatusCancelled})
		}
	}
}

// withStatus returns the record with another status of its i-th closed group: itself if that has it already, else a copy.
func (g *GroupRecord) withStatus(i int, status Status) *GroupRecord {
	if g.Closed[i].Status == status {
		return g
	}
	record, group := *g, *g.Closed[i]
	group.Status = status
	record.Closed = slices.Clone(g.Closed)
	record.Closed[i] = &group
	return &record
}

// changeGroup returns a group record that may be changed: a copy, made once per step.
func (s *step) changeGroup() *GroupRecord {
	if !s.groupChanged {
		g := *s.state.Group
		s.state.Group = &g
		s.groupChanged = true
	}
	return s.state.Group
}
