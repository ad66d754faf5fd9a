package partition

// reconcile is the step of the mode FleetController: one reconcile of Fleet's bundle controller.
// With probe it stops at the first change that it makes, and reports whether there was one.
//
// There are two notions of unavailable and two comparisons. Releases count members whose agent has
// not done what it was told (lenient), and go on while their number is below the limit. Readiness
// counts all members that are not up to date and ready, and is lost when their number exceeds the
// limit. A healthy cluster on the old version and a cluster without a deployment are available to
// releases and unavailable to readiness.
func (c *Compiled) reconcile(step *Step, probe, explain bool) bool {
	r := step.Controller
	r.MaxUnavailable = c.maxAll
	r.UnavailableBefore = countLenient(&c.totals)
	r.Unavailable = r.UnavailableBefore
	// All partitions are counted before anything changes, so that a partition does not see which of
	// its members an earlier one released.
	for i := range c.partitions {
		p, s := &c.partitions[i], &step.Partitions[i]
		*s = Status{Index: i, Name: p.name, Count: int(p.count), MaxUnavailable: p.max, Unavailable: countLenient(&p.counts)}
	}
	bad := 0
	for i := range c.partitions {
		p, s := &c.partitions[i], &step.Partitions[i]
		s.Reached = true
		if c.create(p, r, probe) || c.update(p, s, step, probe) {
			return true
		}
		s.NotReady = p.strictlyUnavailable()
		s.Ready = s.NotReady <= p.max
		if explain && !s.Ready {
			s.Blockers = c.blockers(p)
		}
		if !s.Ready {
			bad++
		}
		if bad > c.maxParts {
			step.ClosedBy = i
			break
		}
	}
	step.NotReadyPartitions = bad
	return false
}

func countLenient(counts *[classes]int32) (n int) {
	for k, of := range counts {
		if class(k)&lenient != 0 {
			n += int(of)
		}
	}
	return n
}

// strictlyUnavailable counts the members that are unavailable to readiness: all that are not up to
// date and ready.
func (p *part) strictlyUnavailable() int { return int(p.count) - int(p.counts[done]) }

// create makes the deployments of new members, as many as the batch has left for all partitions
// together, and stages the wanted version for every member that has a deployment. A member that is
// paused, or whose object cannot be written, uses up the batch as well. With probe it stops at the
// first change, and reports whether there was one.
func (c *Compiled) create(p *part, r *Controller, probe bool) (stopped bool) {
	end := p.slot + p.count
	for slot := p.slot; len(r.Created) < c.maxNew; slot++ {
		if slot = c.in[setUncreated].next(slot, end); slot == end {
			break
		}
		cluster := c.members[p.member+slot-p.slot]
		c.try(cluster, c.facts[cluster]&isPaused|exists|appliedReleased|stagedWanted)
		r.Created = append(r.Created, c.id(cluster))
		r.Staged = append(r.Staged, c.id(cluster))
		if probe {
			return true
		}
	}
	for slot := p.slot; ; slot++ {
		if slot = c.in[setUnstaged].next(slot, end); slot == end {
			break
		}
		cluster := c.members[p.member+slot-p.slot]
		c.try(cluster, c.facts[cluster]|stagedWanted)
		r.Staged = append(r.Staged, c.id(cluster))
		if probe {
			return true
		}
	}
	return false
}

// update releases members. Members that are unavailable already are released at no cost. The others
// are released while both the budget of the partition and that of all targets have room. The two
// kinds do not influence each other, so they need not be walked over together. With probe it does
// as create does.
func (c *Compiled) update(p *part, s *Status, step *Step, probe bool) (stopped bool) {
	if c.paused {
		return false
	}
	end := p.slot + p.count
	point := func(slot uint32) {
		cluster := c.members[p.member+slot-p.slot]
		before := c.facts[cluster]
		c.try(cluster, before.pointed())
		s.Released++
		step.Releases = append(step.Releases, Release{ID: c.id(cluster), Partition: s.Index, First: !before.has(released)})
	}
	for slot := p.slot; ; slot++ {
		if slot = c.in[setLenient].next(slot, end); slot == end {
			break
		}
		if point(slot); probe {
			return true
		}
	}
	all, own := &step.Controller.Unavailable, s.Unavailable
	for slot := p.slot; *all < c.maxAll && own < p.max; slot++ {
		if slot = c.in[setHealthy].next(slot, end); slot == end {
			break
		}
		*all++
		own++
		if point(slot); probe {
			return true
		}
	}
	c.turns[s.Index].used = own
	return false
}
