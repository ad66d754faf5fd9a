package bracket

import (
	"maps"
	"slices"
	"time"
)

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
	var locked []VersionMark
	if i, member := slices.BinarySearchFunc(latest.Members, deployment, byDeployment); member {
		locked = latest.Members[i].Locks
	}
	if g.cancelled() && len(locked) > 0 && locked[0] == mark {
		return VersionMark{}
	}
	missed, some := v.missed(latest, deployment, locked)
	if !some {
		return mark
	}
	for _, l := range locked {
		if l.compare(missed) < 0 {
			return l
		}
	}
	return VersionMark{}
}

// missed returns the oldest version of a member that a group did not lock, and would have if the planner that closed it had known all that is known now. That
// one had not read the version yet, or what made it eligible, or the member. An earlier group may have locked the version already; wherever that had not begun
// the later group took its place, and without one more group nobody there would ever get the version. A version that became eligible after the close came too
// late for the group, like any other.
//
// A version older than all that were locked was missed only if the oldest of these is not for everybody, and there is a target that runs an older one and has no
// newer one: one that joined after the close, for example. Whoever has not read what was locked cannot tell.
func (v *view) missed(g *Group, deployment string, locked []VersionMark) (oldest VersionMark, some bool) {
	d := &v.deployments[v.find(deployment)]
	for r := d.lowestLock(g.ReadyAt); int(r) < len(d.versions); r++ {
		n := &d.versions[r]
		seen := n.mark()
		if !n.eligible(g.ReadyAt) || slices.ContainsFunc(locked, func(l VersionMark) bool { return l.ID == seen.ID }) {
			continue
		}
		if len(locked) == 0 || seen.compare(locked[len(locked)-1]) > 0 {
			return seen, true
		}
		if last := d.rankOf(locked[len(locked)-1].ID); n.awaited && last >= 0 && d.versions[last].narrow {
			return seen, true
		}
	}
	return VersionMark{}, false
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
			if newest.compare(mark) > 0 {
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
