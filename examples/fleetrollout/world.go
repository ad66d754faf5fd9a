package main

import (
	"cmp"
	"slices"
	"time"

	"github.com/tranche-dev/tranche/partition"
)

// world is a fleet on a virtual clock that does what is planned for it.
type world struct {
	compiled *partition.Compiled
	clusters []simulated // in cluster order
	now      time.Duration
	warnings []partition.Warning
}

// simulated is a cluster, and what it does when.
type simulated struct {
	behaviour
	state   partition.State
	readyAt time.Duration // when it applies the new version and becomes ready; 0 if it is not about to
}

func newWorld(strategy partition.Strategy, fleet partition.Fleet, behaviours map[string]behaviour, options partition.Options) (*world, error) {
	compiled, err := partition.Compile(strategy, fleet, options)
	if err != nil {
		return nil, err
	}
	w := &world{compiled: compiled, clusters: make([]simulated, compiled.Len())}
	for _, c := range fleet.Clusters {
		if at, ok := compiled.Find(c.Namespace, c.Name); ok {
			w.clusters[at] = simulated{behaviour: behaviours[c.Namespace+"/"+c.Name], state: c.State}
		}
	}
	w.warnings = compiled.Plan().Warnings
	return w, nil
}

// carryOut stores what a plan asks for, and lets it take effect later.
func (w *world) carryOut(plan *partition.Result) error {
	if plan.Controller != nil {
		for _, id := range plan.Controller.Created {
			s := &w.clusters[id.Index].state
			*s = partition.State{Paused: s.Paused, Offline: s.Offline}
		}
		for _, id := range plan.Controller.Staged {
			w.clusters[id.Index].state.Staged = newVersion
		}
	}
	for _, r := range plan.Releases {
		c := &w.clusters[r.Index]
		c.state.Released = newVersion
		c.readyAt = max(w.now, c.offline) + c.readyAfter
	}
	for i := range w.clusters {
		if _, err := w.compiled.Update(i, w.clusters[i].state); err != nil {
			return err
		}
	}
	return nil
}

// advance moves the clock to the next event and lets everything happen that is due then; false if
// nothing ever will.
func (w *world) advance() (bool, error) {
	next := time.Duration(0)
	for i := range w.clusters {
		c := &w.clusters[i]
		for _, at := range []time.Duration{c.readyAt, c.offline} {
			if at > w.now && (next == 0 || at < next) {
				next = at
			}
		}
	}
	if next == 0 {
		return false, nil
	}
	w.now = next
	for i := range w.clusters {
		c := &w.clusters[i]
		if c.offline == w.now {
			c.state.Offline = false
		}
		if c.readyAt == w.now {
			c.state.Applied, c.state.Ready, c.readyAt = newVersion, !c.unready, 0
		}
		if _, err := w.compiled.Update(i, c.state); err != nil {
			return false, err
		}
	}
	return true, nil
}

// moment is what was planned at one instant, and how the fleet stood after it.
type moment struct {
	at       time.Duration
	batches  []batch
	plan     partition.Result // the last one of the instant
	released int
	notReady int // clusters that were released and are not ready, or offline
	done     int
}

// batch is what one partition released in one step.
type batch struct {
	step, partition int
	first, last     partition.ID
	count           int
}

// play carries out every plan until nothing happens any more.
func (w *world) play() (list []moment, err error) {
	for {
		m := moment{at: w.now}
		for step := 0; ; step++ {
			m.plan = w.compiled.Plan()
			for _, r := range m.plan.Releases {
				at := slices.IndexFunc(m.batches, func(b batch) bool { return b.step == step && b.partition == r.Partition })
				if at < 0 {
					m.batches = append(m.batches, batch{step: step, partition: r.Partition, first: r.ID})
					at = len(m.batches) - 1
				}
				m.batches[at].last = r.ID
				m.batches[at].count++
			}
			m.released += len(m.plan.Releases)
			if err := w.carryOut(&m.plan); err != nil {
				return nil, err
			}
			if !m.plan.More && len(m.plan.Releases) == 0 { // its reasons are what holds the next batch back, and not that this one is full
				break
			}
		}
		slices.SortStableFunc(m.batches, func(a, b batch) int { return cmp.Or(a.step-b.step, a.partition-b.partition) })
		for i := range w.clusters {
			switch s := w.clusters[i].state; {
			case s.Released == newVersion && s.Applied == newVersion && s.Ready && !s.Offline:
				m.done++
			case s.Released == newVersion || s.Offline:
				m.notReady++
			}
		}
		list = append(list, m)
		if more, err := w.advance(); err != nil || !more {
			return list, err
		}
	}
}
