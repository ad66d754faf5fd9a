package partition

import (
	"cmp"
	"slices"
)

// Step decides what may be released now, and overwrites step with it. It reuses the slices of step,
// so a host that keeps one Step does not allocate. Its decisions are those of [Compiled.Plan],
// without the reasons.
func (c *Compiled) Step(step *Step) {
	c.run(step, false)
	c.settle(step)
}

// Plan decides what may be released now, and gives the reason for every other cluster. It looks at
// each cluster once.
func (c *Compiled) Plan() Result {
	r := Result{Batch: c.maxNew, MaxPerStep: c.maxPerStep}
	c.run(&r.Step, true)
	waiting := 0
	for i := range c.facts {
		if c.waits(c.class(uint32(i))) {
			waiting++
		}
	}
	if waiting > 0 {
		r.Waiting = make([]Waiting, 0, waiting)
	}
	for i := range c.names {
		cluster := uint32(i)
		if verdict, ok := c.verdict(&r.Step, cluster); ok {
			r.Waiting = append(r.Waiting, Waiting{c.id(cluster), verdict})
		} else if why := c.unready(cluster); why != 0 {
			r.Unready = append(r.Unready, Unready{c.id(cluster), why})
		}
		if len(c.slotsOf(cluster)) == 0 {
			r.Unmatched = append(r.Unmatched, c.id(cluster))
		}
	}
	c.settle(&r.Step)
	r.Warnings = slices.Clone(c.warnings)
	return r
}

// Explain says why a cluster waits or is held after the step that is due now. waits is false if the
// cluster does neither. For a place that no cluster has the error is a *[FieldError]. Explain costs
// as much as a step.
func (c *Compiled) Explain(cluster int) (verdict Verdict, waits bool, err error) {
	if err := c.check(cluster); err != nil {
		return Verdict{}, false, err
	}
	c.run(&c.probe, false)
	verdict, waits = c.verdict(&c.probe, uint32(cluster))
	c.revert()
	return verdict, waits, nil
}

// turn is what the reasons need to know of a partition's turn.
type turn struct {
	broken, pending, outOfSync Reason // why the remaining members of each class wait
	used                       int    // FleetController: members that take up the budget
}

// run decides the step, and leaves the clusters in the state after it until revert.
func (c *Compiled) run(step *Step, explain bool) {
	c.begin(step)
	if c.mode == FleetController {
		c.reconcile(step, false, explain)
		byID := func(a, b ID) int { return cmp.Compare(a.Index, b.Index) }
		slices.SortFunc(step.Controller.Created, byID)
		slices.SortFunc(step.Controller.Staged, byID)
	} else {
		c.documented(step, c.maxPerStep, explain)
	}
	slices.SortFunc(step.Releases, func(a, b Release) int { return cmp.Compare(a.Index, b.Index) })
	for i := range c.partitions {
		c.partitions[i].complete(c.mode, &step.Partitions[i])
	}
}

// begin empties a step but keeps its slices.
func (c *Compiled) begin(step *Step) {
	*step = Step{
		Releases:              step.Releases[:0],
		Partitions:            slices.Grow(step.Partitions[:0], len(c.partitions))[:len(c.partitions)],
		MaxNotReadyPartitions: c.maxParts,
		ClosedBy:              -1,
		Controller:            step.Controller,
	}
	if c.mode != FleetController {
		step.Controller = nil
		return
	}
	if step.Controller == nil {
		step.Controller = new(Controller)
	}
	step.Controller.Created, step.Controller.Staged = step.Controller.Created[:0], step.Controller.Staged[:0]
}

// settle finds out whether another step would do more, and then reverts everything.
func (c *Compiled) settle(step *Step) {
	p := &c.probe
	c.begin(p)
	if c.mode == FleetController {
		step.More = c.reconcile(p, true, false)
	} else {
		// The step assumed that what it releases is NotReady. Now only what the host stores has
		// changed, so a cluster whose agent runs the wanted version already is done.
		for _, change := range c.undo {
			c.set(change.cluster, change.before.pointed())
		}
		c.documented(p, 1, false)
		step.More = len(p.Releases) > 0
	}
	c.revert()
}

// documented is the step of the default mode. Releases change the counts at once, for all
// partitions of the cluster.
func (c *Compiled) documented(step *Step, perStep int, explain bool) {
	bad, closed := 0, false
	for i := range c.partitions {
		p, s := &c.partitions[i], &step.Partitions[i]
		*s = Status{Index: i, Name: p.name, Count: int(p.count), MaxUnavailable: p.max, Reached: !closed, Unavailable: p.notReady()}
		if closed {
			continue
		}
		if !c.paused {
			c.turns[i] = c.release(p, s, step, perStep)
		}
		s.Ready = p.ready()
		if explain && p.notReady() > p.max {
			s.Blockers = c.blockers(p)
		}
		if !s.Ready {
			bad++
		}
		if bad > c.maxParts {
			closed, step.ClosedBy = true, i
		}
	}
	step.NotReadyPartitions = bad
}

// release is the turn of one partition. More NotReady members than the limit pause it; an equal
// number does not. Broken members get their fix in any case.
func (c *Compiled) release(p *part, s *Status, step *Step, perStep int) turn {
	end := p.slot + p.count
	open := s.Unavailable <= p.max
	budget := p.max - s.Unavailable // for updates of healthy clusters
	if s.Unavailable == 0 {
		budget = max(budget, 1)
	}
	spent := c.byBudget && budget <= 0
	nextBroken, nextPending, nextOutOfSync := c.in[setBroken].next(p.slot, end), end, end
	if open {
		nextPending = c.in[setPending].next(p.slot, end)
		if !spent {
			nextOutOfSync = c.in[setOutOfSync].next(p.slot, end)
		}
	}
	for s.Released < c.maxNew && (perStep == 0 || len(step.Releases) < perStep) {
		slot := min(nextBroken, nextPending, nextOutOfSync)
		if slot == end {
			break
		}
		cluster := c.members[p.member+slot-p.slot]
		before := c.facts[cluster]
		// Without appliedWanted the cluster is updating, whatever its agent reported before the
		// cluster was pointed at the version.
		c.try(cluster, before.pointed()&^(appliedWanted|appliedReleased))
		s.Released++
		step.Releases = append(step.Releases, Release{ID: c.id(cluster), Partition: s.Index, First: !before.has(released)})
		switch slot {
		case nextBroken:
			nextBroken = c.in[setBroken].next(slot+1, end)
		case nextPending:
			nextPending = c.in[setPending].next(slot+1, end)
		default:
			nextOutOfSync = c.in[setOutOfSync].next(slot+1, end)
			budget--
			if c.byBudget && budget <= 0 {
				spent, nextOutOfSync = true, end
			}
		}
	}
	full := Batch
	if perStep > 0 && len(step.Releases) >= perStep {
		full = StepLimit
	}
	switch {
	case !open:
		return turn{broken: full, pending: Threshold, outOfSync: Threshold}
	case spent:
		return turn{broken: full, pending: full, outOfSync: Budget}
	}
	return turn{broken: full, pending: full, outOfSync: full}
}

func (p *part) notReady() int { return int(p.counts[updating] + p.counts[blocked] + p.counts[broken]) }

func (p *part) waiting() int { return int(p.counts[broken] + p.counts[pending] + p.counts[outOfSync]) }

// ready reports whether the partition is ready. A partition with waiting members is not, so
// partitions start in order.
func (p *part) ready() bool { return p.waiting() == 0 && p.notReady() <= p.max }

// blockers lists the first members that are NotReady or, in the mode FleetController, unavailable
// to releases.
func (c *Compiled) blockers(p *part) (list []ID) {
	for _, cluster := range c.members[p.member : p.member+p.count] {
		class := c.class(cluster)
		is := class == updating || class == blocked || class == broken
		if c.mode == FleetController {
			is = class&lenient != 0
		}
		if is {
			if list = append(list, c.id(cluster)); len(list) == 3 {
				break
			}
		}
	}
	return list
}

// complete fills in the state of the partition after the whole step.
func (p *part) complete(mode Mode, s *Status) {
	if mode == FleetController {
		for k, n := range p.counts {
			switch class := class(k); {
			case class&(waits|stopped) == waits|stopped:
				s.Held += int(n)
			case class == uncreated || class&waits != 0:
				s.Waiting += int(n)
			case class == done:
				s.Done += int(n)
			}
		}
		if !s.Reached {
			s.NotReady = p.strictlyUnavailable()
			s.Ready = s.NotReady <= p.max
		}
		return
	}
	n := func(c class) int { return int(p.counts[c]) }
	s.Classes = Classes{Done: n(done), Held: n(held), Updating: n(updating), Blocked: n(blocked), Broken: n(broken),
		Pending: n(pending), OutOfSync: n(outOfSync)}
	s.NotReady, s.Waiting, s.Held, s.Done = p.notReady(), p.waiting(), n(held), n(done)
	if !s.Reached {
		s.Ready = p.ready()
	}
}
