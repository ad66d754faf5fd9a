package bracket

import (
	"maps"
	"slices"
	"time"
)

// groups closes and opens groups until nothing more is due, however much time has passed.
// Collecting never waits for executions.
func (s *step) groups() {
	v := s.view
	if s.ruleDeleted {
		s.cancelGroups()
		return
	}
	for {
		g := s.state.Group
		w := v.window(g)
		if g.Collecting == nil {
			if w.trigger.IsZero() {
				return // I15
			}
			opened := w.trigger
			if latest := g.latest(); latest != nil {
				opened = maxTime(opened, latest.ReadyAt)
			}
			if opened.After(v.now) {
				s.wake(opened)
				return
			}
			g = s.changeGroup()
			g.Number++
			g.Collecting = &Collecting{ID: GroupID(g.Rule, g.Environment, g.Number), OpenedAt: opened}
			s.event(Event{Kind: GroupOpened, Group: g.Collecting.ID, At: opened, Status: StatusCollecting})
		}
		if w.trigger.IsZero() {
			g = s.changeGroup()
			s.event(Event{Kind: GroupCancelled, Group: g.Collecting.ID, At: utc(v.now), Status: StatusCancelled})
			g.Collecting = nil
			return
		}
		at, timedOut, strategy, known := closing(&v.rule, g.Collecting.OpenedAt, w, time.Time{})
		if !known {
			return
		}
		by := v.closer(g.Collecting.ID)
		if by != nil {
			itself := at
			if at, timedOut, strategy, _ = closing(&v.rule, g.Collecting.OpenedAt, w, utc(v.now)); at.Equal(itself) {
				by = nil
			}
		}
		if at.After(v.now) {
			v.closes = at
			s.wake(at)
			return
		}
		s.close(at, timedOut, strategy, by)
	}
}

// closer returns the first command that closes a group, nil if there is none.
func (v *view) closer(group string) *Command {
	for k := range v.closers {
		if c := &v.closers[k]; c.Group == group {
			return c
		}
	}
	return nil
}

// refuseClosers refuses the commands that would close a group that there has not been yet, or that is
// none of the rule in the environment. Of another one the command has closed it, or comes too late,
// or waits for an eligible version.
func (s *step) refuseClosers() {
	for _, c := range s.view.closers {
		if n := groupNumber(s.view.id, s.view.environment, c.Group); n == 0 || n > s.state.Group.Number {
			s.astray = append(s.astray, c)
		}
	}
}

// close locks the collecting group as of at. by is the command that ends its window, nil if none
// does.
func (s *step) close(at time.Time, timedOut bool, strategy UnchangedMemberStrategy, by *Command) {
	v, g := s.view, s.changeGroup()
	closed := &Group{ID: g.Collecting.ID, OpenedAt: g.Collecting.OpenedAt, ReadyAt: at, Status: StatusReady,
		TimedOut: timedOut, Strategy: strategy, Rule: v.rule, Members: v.membersAt(at)}
	if by != nil {
		own := *by
		own.At = at
		closed.ClosedBy = &own
	}
	g.Marks = maps.Clone(g.Marks)
	if g.Marks == nil {
		g.Marks = make(map[string]VersionMark)
	}
	for i := range closed.Members {
		m := &closed.Members[i]
		d := &v.deployments[v.find(m.Deployment)]
		m.Locks = d.locks(at)
		if m.Role == Main && len(m.Locks) > 0 {
			if mark := g.Marks[d.id]; mark.ID == "" || m.Locks[0].compare(mark) > 0 {
				g.Marks[d.id] = m.Locks[0]
			}
		}
	}
	g.Collecting = nil
	g.Closed = append(slices.Clone(g.Closed), closed)
	v.await(g)
	s.event(Event{Kind: GroupClosed, Group: closed.ID, At: at, Status: StatusReady})
	s.retire()
}

// retire drops closed groups that are neither the latest nor in use by an open execution.
func (s *step) retire() {
	closed := s.state.Group.Closed
	kept := make([]*Group, 0, len(closed))
	for i, g := range closed {
		if i == len(closed)-1 || s.uses[g.ID] > 0 {
			kept = append(kept, g)
		} else if !g.Status.over() {
			s.event(Event{Kind: GroupSuperseded, Group: g.ID, At: maxTime(closed[len(closed)-1].ReadyAt, s.ends[g.ID]), Status: StatusSuperseded})
		}
	}
	if len(kept) < len(closed) {
		s.changeGroup().Closed = kept
	}
}

// cancelGroups cancels the groups that have not ended when the rule is gone.
func (s *step) cancelGroups() {
	if c := s.state.Group.Collecting; c != nil {
		s.changeGroup().Collecting = nil
		s.event(Event{Kind: GroupCancelled, Group: c.ID, At: utc(s.view.now), Status: StatusCancelled})
	}
	if latest := s.state.Group.latest(); latest != nil && !latest.Status.over() {
		s.state.Group = s.state.Group.withLatest(StatusCancelled)
		s.event(Event{Kind: GroupCancelled, Group: latest.ID, At: utc(s.view.now), Status: StatusCancelled})
	}
}

// over reports whether a closed group with this status has ended.
func (s Status) over() bool {
	return s == StatusCompleted || s == StatusFailed || s == StatusCancelled
}

// latest returns the latest closed group, nil if there is none.
func (g *GroupRecord) latest() *Group {
	if len(g.Closed) == 0 {
		return nil
	}
	return g.Closed[len(g.Closed)-1]
}

// withLatest returns the record with the given status of its latest closed group: the record itself
// if the group has that status already, else a copy.
func (g *GroupRecord) withLatest(status Status) *GroupRecord {
	latest := g.latest()
	if latest.Status == status {
		return g
	}
	record, group := *g, *latest
	group.Status = status
	record.Closed = slices.Clone(g.Closed)
	record.Closed[len(g.Closed)-1] = &group
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
