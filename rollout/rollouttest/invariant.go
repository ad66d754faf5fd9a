package rollouttest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/internal/instant"
	"github.com/tranche-dev/tranche/rollout"
)

// Invariant is a promise that every plan keeps, in every state a host can get into.
type Invariant struct {
	Name    string // stable, such as "limit"
	Promise string // what is promised, and under which number packages rollout, bracket and concurrency state it
	Check   func(Step) error
}

// Invariants returns the promises that a single plan can be checked against.
func Invariants() []Invariant {
	return []Invariant{
		{"limit", "bracket I18: no start takes a slot in a pool that has none left", checkLimit},
		{"exclusive", "concurrency I14: no group begins on a resource on which another one is at work, where that is exclusive", checkExclusive},
		{"locked", "bracket I1: only the version frozen for a member is started, or the one it had, under rollback", checkLocked},
		{"order", "bracket I3: no main starts before every pre, no post before every main, and nothing before what it needs", checkOrder},
		{"once", "rollout I2, bracket I7: no run is offered twice, and none under the id of another", checkOnce},
		{"forward", "rollout I3: no target is given a version older than the one it has, or outside brackets has begun with since it was last rolled back, or since a host went back from what a rollback rule denies, except by rollback", checkForward},
		{"alone", "rollout I13: nothing starts on a target with a job in progress", checkAlone},
		{"frozen", "rollout: nothing starts on a frozen target, but what finishes what it has begun where its freezes let that finish", checkFrozen},
		{"next", "rollout I6: Next lies after now, and no wait lasts until an instant before it", checkNext},
		{"wakeup", "bracket I11, rollout I15: every pending verdict names an instant after now or an event", checkWakeUp},
		{"lease", "bracket I10: an open execution holds every slot that its starts claimed, and starts claim what they hold", checkLease},
		{"complete", "rollout I10: every target starts, waits for stated reasons, or is kept", checkComplete},
	}
}

// Violation is a broken promise.
type Violation struct {
	Invariant string    // its name
	At        time.Time // the now of the plan
	Err       error     // what was found
}

// Error names the invariant and the instant, and says what was found.
func (v *Violation) Error() string {
	return fmt.Sprintf("rollouttest: invariant %s is broken at %s: %v", v.Invariant, exactText(v.At), v.Err)
}

// Unwrap returns Err.
func (v *Violation) Unwrap() error { return v.Err }

// checkLimit counts by itself what is in a pool, from the leases that were saved and from the jobs
// and the claims that they were started with. Only for what was there before the plan does it rely
// on the plan: a start whose planner stopped before it had all its slots is offered again under
// those that it got, and the saved leases do not say when.
func checkLimit(s Step) error {
	var faults []error
	atWork, starts := claimants(s.atWork()), claimants(s.Plan.Start)
	leases := map[string][]concurrency.Lease{} // by pool
	for _, record := range s.Plan.State.Pools {
		leases[record.Key] = append(leases[record.Key], record.Leases...)
	}
	for _, p := range s.Plan.Pools {
		before := map[string]bool{}
		for _, holder := range slices.Concat(p.Holders, s.Snapshot.Active[p.Key]) {
			before[holder.Resource] = true
		}
		for _, start := range atWork[p.Key] {
			before[start.Resource] = true
		}
		working := maps.Clone(before)
		for _, id := range p.Unavailable {
			before[id] = true
		}
		in := maps.Clone(before)
		for _, lease := range leases[p.Key] {
			in[lease.Resource] = true
		}
		again := map[string]bool{} // down with a quarantined lease that does not count: what starts there needs no place, and counts
		let := map[string]bool{}   // let in regardless of the limit: the resource is at work already and needs this pool as well, or there is an override
		for _, start := range starts[p.Key] {
			in[start.Resource] = true
			if slices.ContainsFunc(p.Quarantined, func(h concurrency.Holder) bool { return h.Resource == start.Resource }) {
				again[start.Resource] = true
			}
			let[start.Resource] = let[start.Resource] || start.Reason == rollout.Reason(concurrency.SlotHeld) || start.Reason == rollout.ReasonOverridden
		}
		for _, start := range starts[p.Key] {
			if p.Halted && !working[start.Resource] && !let[start.Resource] {
				faults = append(faults, fmt.Errorf("pool %s is halted and admits %s", p.Key, start.Resource))
			}
		}
		// A limit that was lowered, or a node that broke, may leave more in the pool than is
		// allowed: then no other resource may come in.
		taken := slices.ContainsFunc(starts[p.Key], func(start rollout.Start) bool {
			return !before[start.Resource] && !let[start.Resource]
		})
		if taken && len(in) > p.Max+len(p.Quarantined) {
			faults = append(faults, fmt.Errorf("pool %s has %d members in disruption and admits only %d: %s", p.Key, len(in), p.Max, joinedKeys(in)))
		}
		if taken && p.Active > p.Max+len(again) {
			faults = append(faults, fmt.Errorf("pool %s: the plan itself counts %d active and admits only %d", p.Key, p.Active, p.Max))
		}
	}
	return errors.Join(faults...)
}

func checkExclusive(s Step) error {
	var faults []error
	atWork, starts := claimants(s.atWork()), claimants(s.Plan.Start)
	for _, p := range s.Plan.Pools {
		if !p.Exclusive {
			continue
		}
		working := map[string][]string{} // by resource: groups
		for _, h := range slices.Concat(p.Holders, s.Snapshot.Active[p.Key]) {
			working[h.Resource] = append(working[h.Resource], h.Group)
		}
		for _, start := range atWork[p.Key] {
			working[start.Resource] = append(working[start.Resource], start.Group)
		}
		for _, start := range starts[p.Key] {
			groups := working[start.Resource]
			held := start.Reason == rollout.Reason(concurrency.SlotHeld) // in this pool or, at work already, in another one
			if !held && len(groups) > 0 && !slices.Contains(groups, start.Group) {
				faults = append(faults, fmt.Errorf("pool %s is exclusive, and %s begins on %s beside %s", p.Key, start.Group, start.Resource, strings.Join(groups, ", ")))
			}
			working[start.Resource] = append(groups, start.Group)
		}
	}
	return errors.Join(faults...)
}

// atWork returns the starts whose jobs the snapshot shows in progress, or none if the snapshot may
// be old.
func (s *Step) atWork() []rollout.Start {
	if s.Lagging {
		return nil
	}
	var list []rollout.Start
	gone := deletedIn(&s.Snapshot)
	for k := range s.Snapshot.Targets {
		t := &s.Snapshot.Targets[k]
		for n := range t.Jobs {
			if t.Jobs[n].Status.Terminal() || gone[t.Resource] {
				continue
			}
			if start, known := s.Dispatched[t.Jobs[n].Run]; known && !s.dismissed(start) {
				list = append(list, start)
			}
		}
	}
	return list
}

// dismissed reports whether an operator has said that the outcome of a run does not matter any
// more. The slot that it was started with is then given back with the execution, although the job
// may go on. If its target needs a slot itself, the plan counts it among the holders.
func (s *Step) dismissed(start rollout.Start) bool {
	return slices.ContainsFunc(s.Snapshot.Commands, func(c bracket.Command) bool {
		return c.Group == start.Group && c.Resource == start.Resource && !c.At.After(s.Plan.Now) &&
			(c.Kind == bracket.Resolve || c.Kind == bracket.Skip && c.Deployment == start.Deployment)
	})
}

// claimants returns the starts that claim each pool.
func claimants(starts []rollout.Start) map[string][]rollout.Start {
	byPool := map[string][]rollout.Start{}
	for _, start := range starts {
		for _, claim := range start.Claims {
			byPool[claim.Pool] = append(byPool[claim.Pool], start)
		}
	}
	return byPool
}

func joinedKeys(set map[string]bool) string {
	return strings.Join(slices.Sorted(maps.Keys(set)), ", ")
}

func checkLocked(s Step) error {
	return s.eachMember(func(start rollout.Start, e *bracket.Execution, m *bracket.ExecutionMember) error {
		if start.Purpose == rollout.PurposeRollback {
			if start.Version != m.From {
				return fmt.Errorf("rolls back to %s, it came from %s", start.Version, m.From)
			}
			return nil
		}
		frozen := m.Version
		if m.RunVersion != "" {
			frozen = m.RunVersion // a run that a merge has outdated, and whose job has not been seen yet, keeps its version
		}
		if start.Version != frozen {
			return fmt.Errorf("starts %s, frozen is %s", start.Version, frozen)
		}
		if t := s.target(start.TargetID); t != nil && start.Version == current(t) || m.Action != bracket.ActionDeploy && start.Version == m.From {
			return nil // what it runs, or ran when the execution began
		}
		if s.Lagging && s.mayRun(start) {
			return nil // another host has seen that it does
		}
		groups := append([]string{e.Group}, e.Merged...)
		for _, id := range groups {
			if g := s.indexed().groups[id]; g != nil {
				for _, own := range g.Members {
					if own.Deployment == start.Deployment && slices.ContainsFunc(own.Locks, func(v bracket.VersionMark) bool { return v.ID == start.Version }) {
						return nil
					}
				}
			} else if id != e.Group || s.Lagging {
				return nil // a merged group is kept only while it is the latest one; the execution's own until a planner that has seen the execution end has saved that
			}
		}
		return fmt.Errorf("starts %s, which is neither current nor locked by %s", start.Version, strings.Join(groups, ", "))
	})
}

// mayRun reports whether the target of a start may have its version by another start.
func (s *Step) mayRun(start rollout.Start) bool {
	for run, other := range s.Dispatched {
		if run != start.Run && other.TargetID == start.TargetID && other.Version == start.Version {
			return true
		}
	}
	return false
}

// eachMember calls check with every start of a bracket. A start that names a bracket's group
// without an open execution is a fault, too.
func (s *Step) eachMember(check func(rollout.Start, *bracket.Execution, *bracket.ExecutionMember) error) error {
	var faults []error
	for _, start := range s.Plan.Start {
		execution, group := s.execution(start.Resource, start.Group)
		if execution == nil && group == nil {
			continue
		}
		var err error
		if execution == nil {
			err = fmt.Errorf("there is no open execution of %s", start.Group)
		} else if m := memberOf(execution, start.Deployment); m == nil {
			err = fmt.Errorf("it is no member of the execution of %s", start.Group)
		} else {
			err = check(start, execution, m)
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("%s on %s: %w", start.Deployment, start.Resource, err))
		}
	}
	return errors.Join(faults...)
}

func checkOrder(s Step) error {
	return s.eachMember(func(start rollout.Start, e *bracket.Execution, m *bracket.ExecutionMember) error {
		if e.Recovery != "" {
			return nil // after a failure the members that react to it run, whatever the others did
		}
		if m.Generation != 0 {
			return nil // a run that began before the last merge, and whose job has not been seen yet: what the merge has added comes after it
		}
		for k := range e.Members {
			other := &e.Members[k]
			before := other.Role == bracket.Pre && m.Role != bracket.Pre || other.Role == bracket.Main && m.Role == bracket.Post
			if !before && !slices.Contains(m.Needs, other.Deployment) || s.satisfied(start, other, e) {
				continue
			}
			return fmt.Errorf("starts while %s is %s", other.Deployment, other.Status)
		}
		return nil
	})
}

// satisfied looks for the job that satisfied a need: a status alone is only what the planner
// believes.
func (s *Step) satisfied(start rollout.Start, m *bracket.ExecutionMember, e *bracket.Execution) bool {
	switch m.Status {
	case bracket.MemberSkipped, bracket.MemberCancelled, bracket.MemberRolledBack:
		return true
	case bracket.MemberSucceeded:
		if s.Lagging {
			return true
		}
	default:
		return false
	}
	t := s.target(rollout.TargetID{Resource: start.Resource, Environment: start.Environment, Deployment: m.Deployment})
	if t == nil {
		return true // removed since
	}
	version := m.Version
	if m.Role != bracket.Main {
		version = "" // a merge may leave a pre with the version of an earlier group
	}
	return slices.ContainsFunc(t.Jobs, func(job rollout.Job) bool {
		return job.Status == rollout.JobSuccessful && (version == "" || job.Version == version) && !job.CreatedAt.Before(e.StartedAt)
	})
}

func checkOnce(s Step) error {
	var faults []error
	offered := map[string]bool{}
	for _, start := range s.Plan.Start {
		if start.Run == "" {
			faults = append(faults, fmt.Errorf("a start of %s on %s has no run id", start.Deployment, start.Resource))
		}
		if offered[start.Run] {
			faults = append(faults, fmt.Errorf("run %s is offered twice in one plan", start.Run))
		}
		offered[start.Run] = true
		t := s.target(start.TargetID)
		if t == nil {
			faults = append(faults, fmt.Errorf("run %s is for a target that does not exist", start.Run))
			continue
		}
		if slices.ContainsFunc(t.Jobs, func(job rollout.Job) bool { return job.Run == start.Run }) {
			faults = append(faults, fmt.Errorf("run %s is offered although its job was observed", start.Run))
		}
		if old, known := s.Dispatched[start.Run]; known && (old.TargetID != start.TargetID || old.Version != start.Version || old.Purpose != start.Purpose) {
			faults = append(faults, fmt.Errorf("run %s was dispatched for %s %s and is now offered for %s %s", start.Run, old.Deployment, old.Version, start.Deployment, start.Version))
		}
	}
	return errors.Join(faults...)
}

func checkAlone(s Step) error {
	var faults []error
	started := map[rollout.TargetID]string{}
	for _, start := range s.Plan.Start {
		if first, twice := started[start.TargetID]; twice {
			faults = append(faults, fmt.Errorf("%s on %s: %s and %s start at once", start.Deployment, start.Resource, first, start.Run))
		}
		started[start.TargetID] = start.Run
		t := s.target(start.TargetID)
		if t == nil {
			continue
		}
		for _, job := range t.Jobs {
			if !job.Status.Terminal() && !(s.Lagging && s.Dispatched[job.Run].Group == start.Group) {
				faults = append(faults, fmt.Errorf("%s on %s: starts while %s is %s", start.Deployment, start.Resource, job.Run, job.Status))
			}
		}
	}
	return errors.Join(faults...)
}

func checkFrozen(s Step) error {
	var faults []error
	for k := range s.Snapshot.Freezes {
		z := &s.Snapshot.Freezes[k]
		for _, start := range s.Plan.Start {
			if z.Holds(start.TargetID, s.Plan.Now) && !(z.FinishBegun && s.finishes(start)) {
				faults = append(faults, fmt.Errorf("%s on %s: starts %s under freeze %s", start.Deployment, start.Resource, start.Version, z.ID))
			}
		}
	}
	return errors.Join(faults...)
}

// finishes reports whether a start only finishes what its target has begun: it goes back, it
// continues an execution, or it tries a version again that the target has begun and does not run,
// or a run that it needs since it is outdated. An execution that begins in the plan has the instant
// of the plan, and so may one that another planner has just begun.
func (s *Step) finishes(start rollout.Start) bool {
	if start.Purpose == rollout.PurposeRollback {
		return true
	}
	t := s.target(start.TargetID)
	if _, outside := rollout.TargetOf(concurrency.Holder{Resource: start.Resource, Group: start.Group}); outside {
		return t != nil && slices.ContainsFunc(t.Jobs, func(job rollout.Job) bool {
			return job.Version == start.Version && (start.Version != current(t) || !instant.Unset(t.OutdatedAt) && !job.CreatedAt.Before(t.OutdatedAt))
		})
	}
	x, _ := s.execution(start.Resource, start.Group)
	return x == nil || !x.StartedAt.Equal(s.Plan.Now) || s.Lagging || s.begun(start)
}

func checkNext(s Step) error {
	next := s.Plan.Next
	if !next.IsZero() && !next.After(s.Plan.Now) {
		return fmt.Errorf("the plan's Next is %s, which is not after now", exactText(next))
	}
	for _, w := range s.indexed().waiting {
		for _, v := range w.Blockers {
			if v.Until.After(s.Plan.Now) && (next.IsZero() || next.After(v.Until)) {
				return fmt.Errorf("%s on %s: waits until %s, and Next is %s", w.Deployment, w.Resource, exactText(v.Until), exactText(next))
			}
		}
	}
	return nil
}

func checkWakeUp(s Step) error {
	for _, w := range s.indexed().waiting {
		if len(w.Blockers) == 0 {
			return fmt.Errorf("%s on %s: waits for no reason", w.Deployment, w.Resource)
		}
		for _, v := range w.Blockers {
			switch {
			case v.Status == rollout.Allowed:
				return fmt.Errorf("%s on %s: %s is a reason to wait and allows", w.Deployment, w.Resource, v.Reason)
			case !v.Until.IsZero() && !v.Until.After(s.Plan.Now):
				return fmt.Errorf("%s on %s: %s waits until %s, which is not after now", w.Deployment, w.Resource, v.Reason, exactText(v.Until))
			case v.Status == rollout.Pending && v.Until.IsZero() && len(v.On) == 0:
				return fmt.Errorf("%s on %s: %s names neither an instant nor an event", w.Deployment, w.Resource, v.Reason)
			}
		}
	}
	return nil
}

func checkLease(s Step) error {
	holds := map[[3]string]uint64{} // (pool, resource, group) → token
	for _, record := range s.Plan.State.Pools {
		for _, lease := range record.Leases {
			holds[[3]string{record.Key, lease.Resource, lease.Group}] = lease.Token
		}
	}
	var faults []error
	for _, start := range s.Plan.Start {
		for _, claim := range start.Claims {
			if token, held := holds[[3]string{claim.Pool, start.Resource, start.Group}]; !held || token != claim.Token {
				faults = append(faults, fmt.Errorf("%s on %s: claims pool %s with token %d, and the saved state has token %d", start.Deployment, start.Resource, claim.Pool, claim.Token, token))
			}
		}
	}
	// Until an execution ends, nothing may take away a slot that one of its runs was started with.
	gone := map[string][]error{} // by run
	for run, start := range s.Dispatched {
		if e, _ := s.execution(start.Resource, start.Group); e == nil || s.Lagging {
			continue
		}
		for _, claim := range start.Claims {
			if _, held := holds[[3]string{claim.Pool, start.Resource, start.Group}]; !held {
				gone[run] = append(gone[run], fmt.Errorf("%s: its execution is open and its slot in pool %s is gone", run, claim.Pool))
			}
		}
	}
	for _, run := range slices.Sorted(maps.Keys(gone)) {
		faults = append(faults, gone[run]...)
	}
	return errors.Join(faults...)
}

func checkComplete(s Step) error {
	starts := map[rollout.TargetID]string{}
	for _, start := range s.Plan.Start {
		starts[start.TargetID] = start.Version
	}
	said := len(starts)
	waiting := s.indexed().waiting // in order
	for k, w := range waiting {
		// An older version may start while the newest one waits, such as that of the next group.
		version, both := starts[w.TargetID]
		if both && version == w.Version || k > 0 && waiting[k-1].TargetID == w.TargetID {
			return fmt.Errorf("%s on %s: %s both starts and waits, or waits twice", w.Deployment, w.Resource, w.Version)
		}
		if !both {
			said++
		}
	}
	there, gone := 0, deletedIn(&s.Snapshot)
	for k := range s.Snapshot.Targets {
		if !gone[s.Snapshot.Targets[k].Resource] {
			there++
		}
	}
	if kept := s.Plan.Keep.Current + s.Plan.Keep.Started; said+kept != there {
		return fmt.Errorf("of %d targets %d start or wait and %d are kept", there, said, kept)
	}
	return nil
}
