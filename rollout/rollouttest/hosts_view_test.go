package rollouttest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/bracket/brackettest"
	"github.com/tranche-dev/tranche/clock"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/rollout"
	"github.com/tranche-dev/tranche/rollout/rollouttest"
)

// viewer is a host.
type viewer struct {
	name     string
	client   *brackettest.FaultStore
	skew     time.Duration
	counts   bool
	view     rollout.Snapshot
	set      *rollout.PolicySet
	suspects map[string]time.Time
	acting   bool
	planner  rollout.Planner
}

var parts = []string{"members", "labels", "jobs", "versions", "approvals", "overrides", "freezes", "unavailable", "deleted", "policies", "commands"}

// refresh brings one part of a view up to date.
func (m *truth) refresh(h *viewer, part string) {
	v, f := &h.view, m.fleet
	switch part {
	case "members":
		old := map[rollout.TargetID]rollout.Target{}
		for _, t := range v.Targets {
			old[t.TargetID] = t
		}
		v.Resources, v.Environments, v.Deployments = slices.Clone(f.Resources), f.Environments, f.Deployments
		v.Targets = slices.Clone(f.Targets)
		for k := range v.Targets {
			t := &v.Targets[k]
			if before, known := old[t.TargetID]; known {
				t.Jobs, t.Current = before.Jobs, before.Current
			} else {
				t.Jobs, t.Current = slices.Clone(m.jobs[t.TargetID]), m.current[t.TargetID]
			}
		}
	case "labels":
		v.Resources = slices.Clone(v.Resources)
		for k := range v.Resources {
			for _, r := range f.Resources {
				if r.ID == v.Resources[k].ID {
					v.Resources[k] = r
				}
			}
		}
	case "jobs":
		v.Targets = slices.Clone(v.Targets)
		for k := range v.Targets {
			t := &v.Targets[k]
			t.Jobs, t.Current = slices.Clone(m.jobs[t.TargetID]), m.current[t.TargetID]
		}
	case "versions":
		v.Versions = slices.Clone(f.Versions)
	case "approvals":
		v.Approvals = slices.Clone(f.Approvals)
	case "overrides":
		v.Overrides = slices.Clone(f.Overrides)
	case "freezes":
		v.Freezes = slices.Clone(f.Freezes)
	case "unavailable":
		v.Unavailable = slices.Clone(f.Unavailable)
	case "deleted":
		v.DeletedResources = slices.Clone(f.DeletedResources)
	case "commands":
		v.Commands = slices.Clone(f.Commands)
	case "policies":
		h.set = m.sets[len(m.sets)-1]
	}
}

// turn is a turn of a host: it plans, saves, dispatches some of the starts, and gives back what has
// been nobody's for long.
func (m *truth) turn(h *viewer) (plan rollout.Plan, ok bool) {
	h.acting = true
	defer func() { h.acting = false }()
	s, set := h.view, h.set
	at := m.now.Add(h.skew)
	planner := &h.planner
	planner.Policies, planner.Store, planner.Clock = set, &between{h.client, m}, clock.NewFake(at)
	if h.counts {
		planner.JobCounter = m
	}
	for _, id := range slices.Concat(s.Unavailable, s.DeletedResources) {
		m.free[id] = true
	}
	plan, err := planner.Plan(m.Context(), s)
	var cycle *rollout.CycleError
	var inside *bracket.CycleError
	var against *bracket.RoleError
	var overlap *bracket.OverlapError
	switch {
	case errors.Is(err, bracket.ErrConflict):
		m.seen["conflict"]++
	case errors.Is(err, brackettest.ErrCrashed):
		m.seen["crash"]++
		h.client.Restart(m.fault)
		h.suspects, h.planner = map[string]time.Time{}, rollout.Planner{}
	case errors.Is(err, brackettest.ErrInjected):
		m.seen["injected"]++
	case errors.As(err, &cycle), errors.As(err, &inside), errors.As(err, &against), errors.As(err, &overlap):
		m.seen["refused plan"]++
		m.refused = true
	case err != nil:
		m.fail("%s: plan: %v", h.name, err)
	}
	if err != nil {
		m.note("%s plans in vain: %v", h.name, err)
		m.savedInPart(set, s, at)
		return plan, false
	}
	m.seen["plan"]++
	if set != m.sets[len(m.sets)-1] {
		m.seen["old policies"]++
	}
	m.note("%s plans at %s: %s", h.name, at.Format("15:04:05"), brief(plan))
	if err := (rollouttest.Step{Snapshot: s, Plan: plan, Dispatched: m.starts, Lagging: true}).Check(); err != nil && !m.lagged(err) {
		m.fail("%s: %v", h.name, err)
	}
	if isFrozen(plan) {
		m.seen["frozen"]++
	}
	for _, start := range plan.Start {
		switch held, truly := frozen(s.Freezes, start.TargetID, at), frozen(m.fleet.Freezes, start.TargetID, m.now); {
		case held:
			m.seen["finished under a freeze"]++ // or else the invariant is broken
		case truly:
			m.seen["frozen unknown to its host"]++
		}
	}
	runs := map[string]bool{}
	for _, t := range s.Targets {
		for _, job := range t.Jobs {
			runs[job.Run] = true
		}
	}
	for _, record := range plan.State.Pools {
		for _, lease := range record.Leases {
			if lease.Reason == string(rollout.ReasonOverridden) { // claimed by a turn that is not over, or was cut off
				m.edited["let past keys"] = true
			}
		}
	}
	limits := map[string]int{}
	for _, p := range plan.Pools {
		limits[p.Key] = p.Max
	}
	for _, start := range plan.Start {
		m.locked(h, plan, start)
		for _, claim := range start.Claims {
			name := fmt.Sprint(claim.Pool, claim.Token)
			if _, known := m.limits[name]; !known {
				m.limits[name] = max(limits[claim.Pool], m.place(plan, claim.Pool, start.Resource))
				switch {
				case start.Reason == rollout.ReasonOverridden:
					m.limits[name] = unlimited
					m.edited["let past keys"] = true // and so may be whoever else has the key
				case m.edited["scope"] && start.Reason != "slot_free": // it was at work already, and so were others, who keep their places
					m.limits[name] = max(m.limits[name], m.places(claim.Pool))
				case start.Reason == "slot_held" && m.depth > 0: // by a turn that is not over, and may have found more room
					m.limits[name] = max(m.limits[name], m.places(claim.Pool))
				}
			}
		}
		own := lateStart{start, h, at, runs, limits}
		switch m.seen[string(start.Reason)]++; {
		case !m.faults || !m.chance(30):
			m.dispatch(own)
		case m.chance(80):
			m.late = append(m.late, own)
		}
	}
	m.giveBack(h, plan)
	return plan, true
}

// savedInPart notes what a planner that was cut off believed to be the limits, for the leases that
// it had saved by then.
func (m *truth) savedInPart(set *rollout.PolicySet, view rollout.Snapshot, at time.Time) {
	view = m.stored(view)
	plan, err := set.Plan(view, at)
	if err != nil {
		return // nor did the planner give any
	}
	limits := map[string]int{}
	for _, p := range plan.Pools {
		limits[p.Key] = p.Max
	}
	for _, record := range view.State.Pools {
		for _, lease := range record.Leases {
			name := fmt.Sprint(record.Key, lease.Token)
			if _, known := m.limits[name]; !known {
				m.limits[name] = max(limits[record.Key], m.place(plan, record.Key, lease.Resource))
			}
		}
	}
}

const unlimited = 1000

type lateStart struct {
	rollout.Start
	host *viewer
	at   time.Time       // its plan's
	seen map[string]bool // runs that its plan had seen
	max  map[string]int  // limits that its plan believed in
}

func (m *truth) dispatchLate() {
	late := m.late
	m.late = nil
	for _, start := range late {
		m.seen["late dispatch"]++
		m.dispatch(start)
	}
}

// dispatch creates the job of a start, as a fair host does.
func (m *truth) dispatch(l lateStart) {
	start := l.Start
	if known, exists := m.starts[start.Run]; exists {
		if known.TargetID != start.TargetID || known.Version != start.Version || known.Purpose != start.Purpose {
			m.fail("run %s was %v and is now %v", start.Run, known, start)
		}
		return
	}
	for _, claim := range start.Claims {
		lease, held := m.record(claim.Pool).Lease(concurrency.Holder{Resource: start.Resource, Group: start.Group})
		if !held || lease.Token != claim.Token {
			m.seen["fenced"]++
			return
		}
	}
	if !slices.ContainsFunc(m.fleet.Targets, func(t rollout.Target) bool { return t.TargetID == start.TargetID }) {
		return
	}
	for _, job := range m.jobs[start.TargetID] {
		if !job.Status.Terminal() {
			m.seen["busy"]++
			return
		}
		if !l.seen[job.Run] {
			m.seen["unseen job"]++
			return
		}
	}
	m.check(l)
	if frozen(m.fleet.Freezes, start.TargetID, m.now) {
		m.seen["saved before a freeze"]++
	}
	created := m.now.Add(l.host.skew)
	if created.Before(l.at) {
		created = l.at
	}
	m.seen["start"]++
	m.starts[start.Run] = start
	m.jobs[start.TargetID] = append(slices.Clip(m.jobs[start.TargetID]), rollout.Job{Run: start.Run, Version: start.Version, Status: rollout.JobInProgress, CreatedAt: created})
	m.note("%s dispatches %s", l.host.name, start.Run)
}

// grace is how long a lease must have been nobody's in all plans of a host before that gives it
// back, as package controller does.
const grace = 3 * time.Minute

func (m *truth) giveBack(h *viewer, plan rollout.Plan) {
	suspects := map[string]time.Time{}
	for _, orphan := range plan.Orphans {
		name := fmt.Sprint(orphan.Pool, orphan.Token)
		since, known := h.suspects[name]
		if !known {
			since = m.now
		}
		suspects[name] = since
		if m.depth > 0 || m.now.Sub(since) < grace {
			continue
		}
		for _, part := range parts { // it must not look at what was so long ago
			m.refresh(h, part)
		}
		now, err := h.set.Plan(m.stored(h.view), m.now.Add(h.skew))
		if err != nil || !slices.ContainsFunc(now.Orphans, func(l concurrency.Lease) bool {
			return l.Pool == orphan.Pool && l.Holder == orphan.Holder && l.Token == orphan.Token
		}) {
			continue
		}
		for _, start := range m.active() {
			listed := slices.ContainsFunc(m.fleet.Targets, func(t rollout.Target) bool { return t.TargetID == start.TargetID }) // else nobody shows the job to a plan
			if listed && start.Resource == orphan.Resource && start.Group == orphan.Group && holding(start, orphan.Pool) {
				m.fail("%+v is called an orphan while %s is at work", orphan, start.Run)
			}
		}
		record := m.record(orphan.Pool)
		_, revision, _ := m.store.Load(m.Context(), rollout.PoolRecordKey(orphan.Pool))
		next, err := record.Release(orphan.Holder, orphan.Token)
		if err != nil {
			continue
		}
		value, err := json.Marshal(next)
		if err == nil {
			_, err = m.store.Save(m.Context(), rollout.PoolRecordKey(orphan.Pool), value, revision)
		}
		if err != nil {
			m.fail("%v", err)
		}
		m.seen["given back"]++
		m.note("%s gives back %s %s#%d", h.name, orphan.Pool, orphan.Resource, orphan.Token)
	}
	h.suspects = suspects
}

// ledger is the store that all share. It remembers every group, for the record of a bracket holds
// only those that are needed.
type ledger struct {
	*bracket.MemoryStore
	m *truth
}

func (l ledger) Save(ctx context.Context, key string, value []byte, revision int64) (int64, error) {
	next, err := l.MemoryStore.Save(ctx, key, value, revision)
	if err == nil && strings.HasPrefix(key, "bracket/group/") {
		l.m.remember(value)
	}
	return next, err
}

// between is a host's client in which others have turns between the calls.
type between struct {
	bracket.Store
	m *truth
}

func (b *between) List(ctx context.Context, prefix string) ([]bracket.Entry, error) {
	entries, err := b.Store.List(ctx, prefix)
	b.m.interrupt()
	return entries, err
}

func (b *between) Save(ctx context.Context, key string, value []byte, revision int64) (int64, error) {
	b.m.interrupt()
	next, err := b.Store.Save(ctx, key, value, revision)
	b.m.interrupt()
	return next, err
}

func (m *truth) interrupt() {
	if !m.faults || m.depth > 1 || !m.chance(m.eager) {
		return
	}
	m.seen["turn in between"]++
	m.depth++
	defer func() { m.depth-- }()
	if m.chance(40) {
		m.overtake()
		return
	}
	for range m.number(1, 2, 4, 8) {
		m.step()
	}
}

// overtake ends jobs and lets a host that sees it all have a turn: what was read before and is not
// yet used was true until now.
func (m *truth) overtake() {
	h := m.someHost()
	if h.acting {
		return
	}
	for range m.number(1, 2, 4, 8) {
		m.endSome()
	}
	for _, part := range parts {
		m.refresh(h, part)
	}
	m.turn(h)
}

func (m *truth) fault(brackettest.Call) brackettest.Fault {
	if !m.faults || !m.chance(3) {
		return brackettest.None
	}
	return rapid.SampledFrom([]brackettest.Fault{brackettest.Stale, brackettest.Lose, brackettest.LoseAnswer, brackettest.Conflict, brackettest.Repeat, brackettest.Crash}).Draw(m.T, "fault")
}
