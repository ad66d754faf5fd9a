package rollouttest

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/rollout"
)

// recorder writes the timeline.
type recorder struct {
	timeline      Timeline
	brief         bool                 // the waits are left out
	waiting       []rollout.Waiting    // the waits recorded last, in the order of the plan
	plan          rollout.Plan         // the last one after which nothing more started
	endedAt       map[string]time.Time // by keyOf: when the verification ended, or a change ended the job
	recordedUntil time.Time            // the last instant that was recorded in full
	lastEvent     time.Time            // the latest instant of an entry that is no wait
	running       []string
	unfinished    map[string]bool // by keyOf: the jobs that have not ended or are still being verified, those of the fleet too
	stuck         map[rollout.Stuck]bool
	roles         map[string]member          // of dispatched runs
	drains        map[member]bool            // pre members that ran
	upgrades      map[member]map[string]bool // main members that ran → versions
	pres          map[[2]string]int          // (group, resource) → pre members of the execution
	drained       map[[2]string]int          // (group, resource) → those of them that had run before the start, and no main member had
	begun         map[string][]beginning     // pool → who began in it within the period of its rate
}

// beginning is a resource that began in a pool with a rate.
type beginning struct {
	resource string
	at       time.Time
}

// member is a member of an execution.
type member struct {
	group, resource, deployment string
	role                        bracket.Role
}

func (r *recorder) begin(start time.Time) {
	r.timeline.Start, r.lastEvent = start, start
	r.endedAt = map[string]time.Time{}
	r.unfinished = map[string]bool{}
	r.stuck = map[rollout.Stuck]bool{}
	r.roles = map[string]member{}
	r.drains = map[member]bool{}
	r.upgrades = map[member]map[string]bool{}
	r.pres = map[[2]string]int{}
	r.drained = map[[2]string]int{}
	r.begun = map[string][]beginning{}
}

func (r *recorder) entry(e Entry) {
	r.timeline.Entries = append(r.timeline.Entries, e)
	if e.Kind != Wait && e.At.After(r.lastEvent) {
		r.lastEvent = e.At
	}
}

// observe records what every plan reports: what happened in the brackets, what is stuck, how full
// the pools are.
func (r *recorder) observe(plan *rollout.Plan) {
	for _, e := range plan.Events {
		entry := Entry{At: e.At, Kind: Bracket, Resource: e.Resource, Environment: e.Environment, Group: e.Group, Event: e.Kind, Status: string(e.Status), Into: e.Into}
		if e.At.Before(r.recordedUntil) {
			entry.At, entry.Note = plan.Now, "as of "+instantText(e.At)
		}
		if e.Kind == bracket.GroupClosed {
			entry.Locks, entry.TimedOut = locksOf(plan, e.Group)
		}
		r.entry(entry)
	}
	for _, s := range plan.Stuck {
		if !r.stuck[s] {
			r.stuck[s] = true
			r.entry(Entry{At: s.Since, Kind: Stuck, Resource: s.Resource, Group: s.Group, Run: s.Run, Note: s.Pool})
		}
	}
	r.timeline.Diagnostics = merged(r.timeline.Diagnostics, plan.Diagnostics)
	for _, p := range plan.Pools {
		k, known := slices.BinarySearchFunc(r.timeline.Pools, p.Key, func(peak Peak, key string) int { return strings.Compare(peak.Pool, key) })
		if !known {
			r.timeline.Pools = slices.Insert(r.timeline.Pools, k, Peak{Pool: p.Key, Active: -1})
		}
		if peak := &r.timeline.Pools[k]; p.Active > peak.Active {
			peak.Active, peak.Max, peak.Total, peak.At = p.Active, p.Max, p.Total, plan.Now
		}
	}
}

func locksOf(plan *rollout.Plan, id string) (map[string]string, bool) {
	for _, record := range plan.State.Brackets {
		for _, g := range record.Closed {
			if g.ID != id {
				continue
			}
			locks := map[string]string{}
			for _, m := range g.Members {
				if len(m.Locks) > 0 {
					locks[m.Deployment] = m.Locks[0].ID
				}
			}
			return locks, g.TimedOut
		}
	}
	return nil, false
}

// recordWaits records the targets that wait once nothing more starts at an instant.
func (r *recorder) recordWaits(plan *rollout.Plan) {
	r.recordedUntil, r.plan = plan.Now, *plan
	if r.brief {
		return
	}
	waiting, before := waitingOf(plan), r.waiting
	for k := range waiting {
		w := &waiting[k]
		for len(before) > 0 && compareTargets(before[0].TargetID, w.TargetID) < 0 {
			before = before[1:]
		}
		if len(before) > 0 && before[0].TargetID == w.TargetID && readsSame(w, &before[0]) {
			continue
		}
		r.entry(Entry{
			At: plan.Now, Kind: Wait, Resource: w.Resource, Environment: w.Environment, Deployment: w.Deployment, Version: w.Version, Blockers: w.Blockers,
			Holders: holdersOf(plan, w.Blockers),
		})
	}
	r.waiting = waiting
}

// sortEntries sorts the entries of a look at what has happened since the one before: a plan may
// find out late what has become of a group or an execution, and the first one what was before the
// start. The first of them is entry from.
func (r *recorder) sortEntries(from int) {
	slices.SortStableFunc(r.timeline.Entries[from:], func(a, b Entry) int { return a.At.Compare(b.At) })
}

// holdersOf names the resources that have the slots for which a target waits.
func holdersOf(plan *rollout.Plan, blockers []rollout.Verdict) []string {
	var holders []string
	for _, v := range blockers {
		for _, on := range v.On {
			for _, p := range plan.Pools {
				if on.Kind != rollout.OnSlot || p.Key != on.Pool {
					continue
				}
				for _, h := range p.Holders {
					holders = append(holders, h.Resource)
				}
				holders = append(holders, p.Unavailable...)
			}
		}
	}
	slices.Sort(holders)
	return slices.Compact(holders)
}

func (r *recorder) started(plan *rollout.Plan, start rollout.Start, attempt int, now time.Time) {
	m := r.memberOf(plan, start)
	r.roles[start.Run] = m
	if start.Purpose == rollout.PurposeDeploy {
		switch m.role {
		case bracket.Pre:
			r.drains[m] = true
		case bracket.Main:
			if r.upgrades[m] == nil {
				r.upgrades[m] = map[string]bool{}
			}
			r.upgrades[m][start.Version] = true
		}
	}
	for _, claim := range start.Claims {
		r.began(claim, start.Resource, now)
	}
	r.running = append(r.running, start.Run)
	r.unfinished[start.Run] = true
	e := entryOf(start, m)
	e.At, e.Kind, e.Attempt, e.Reason = now, Start, attempt, start.Reason
	r.entry(e)
}

// began notes that a resource begins in a pool with a rate, if a claim says so.
func (r *recorder) began(claim rollout.Claim, resource string, now time.Time) {
	if claim.PeriodSeconds == 0 {
		return
	}
	period := time.Duration(claim.PeriodSeconds) * time.Second
	begun := slices.DeleteFunc(r.begun[claim.Pool], func(b beginning) bool { return !b.at.Add(period).After(now) })
	if own := (beginning{resource, now}); !slices.Contains(begun, own) { // it begins once, whatever starts there
		begun = append(begun, own)
	}
	r.begun[claim.Pool] = begun
	for k := range r.timeline.Pools {
		if peak := &r.timeline.Pools[k]; peak.Pool == claim.Pool && len(begun) > peak.Began {
			peak.Began, peak.PeriodSeconds = len(begun), claim.PeriodSeconds
		}
	}
}

// entryOf returns an entry about a start, without what happened to it.
func entryOf(start rollout.Start, m member) Entry {
	return Entry{
		Resource: start.Resource, Environment: start.Environment, Deployment: start.Deployment, Version: start.Version,
		Run: start.Run, Purpose: start.Purpose, Role: m.role, Group: start.Group,
	}
}

// memberOf finds the member of the execution that a start belongs to, and notes how many pre
// members that execution has.
func (r *recorder) memberOf(plan *rollout.Plan, start rollout.Start) member {
	execution := openIn(plan.State, start.Resource, start.Group)
	if execution == nil {
		return member{}
	}
	key := [2]string{start.Group, start.Resource}
	r.pres[key] = 0
	own := member{}
	for _, m := range execution.Members {
		if m.Role == bracket.Pre {
			r.pres[key]++
		}
		if m.Deployment == start.Deployment {
			own = member{start.Group, start.Resource, start.Deployment, m.Role}
		}
	}
	return own
}

// drainedBefore notes, when the first main member of an execution starts, which of its drains are not
// of this world: they serve that upgrade, unless another one had them before.
func (r *worldRun) drainedBefore(plan *rollout.Plan, start rollout.Start) {
	key := [2]string{start.Group, start.Resource}
	if _, known := r.drained[key]; known || r.roles[start.Run].role != bracket.Main {
		return
	}
	r.drained[key] = 0
	ran := func(deployment string) bool {
		i, known := r.targets[rollout.TargetID{Resource: start.Resource, Environment: start.Environment, Deployment: deployment}]
		return known && slices.ContainsFunc(r.fleet.Targets[i].Jobs, func(job rollout.Job) bool {
			_, ours := r.dispatched[job.Run]
			return !ours && r.startOf(r.fleet.Targets[i].TargetID, &job).Group == start.Group
		})
	}
	n := 0
	for _, m := range openIn(plan.State, start.Resource, start.Group).Members {
		switch {
		case !ran(m.Deployment):
		case m.Role == bracket.Main:
			return
		case m.Role == bracket.Pre && !r.drains[member{start.Group, start.Resource, m.Deployment, bracket.Pre}]:
			n++
		}
	}
	r.drained[key] = n
}

func (r *recorder) ended(job rollout.Job, e ending) {
	entry := r.endEntry(End, job, e)
	entry.Status = string(job.Status)
	if job.Verification == rollout.VerificationRunning {
		entry.Note = "being verified"
	} else {
		r.removeUnfinished(keyOf(e.target, &job))
	}
	r.entry(entry)
}

func (r *recorder) verified(job rollout.Job, e ending) {
	entry := r.endEntry(Verify, job, e)
	entry.Status = string(job.Verification)
	r.endedAt[keyOf(e.target, &job)] = e.at
	r.removeUnfinished(keyOf(e.target, &job))
	r.entry(entry)
}

// endEntry returns an entry about the end of a job or of its verification.
func (r *recorder) endEntry(kind Kind, job rollout.Job, e ending) Entry {
	m := r.roles[job.Run]
	r.timeline.Finish = e.at.UTC()
	return Entry{
		At: e.at.UTC(), Kind: kind, Resource: e.target.Resource, Environment: e.target.Environment, Deployment: e.target.Deployment, Version: job.Version,
		Run: job.Run, Role: m.role, Group: m.group,
	}
}

func (r *recorder) removeUnfinished(key string) {
	delete(r.unfinished, key)
	r.running = slices.DeleteFunc(r.running, func(run string) bool { return run == key })
}

// lastingReasons returns the reasons for which targets wait that time alone does not open,
// ascending.
func (r *recorder) lastingReasons() []rollout.Reason {
	reasons := map[rollout.Reason]bool{}
	for w := range r.plan.Waiting.All() {
		for _, reason := range lasting(w.Blockers) {
			reasons[reason] = true
		}
	}
	return slices.Sorted(maps.Keys(reasons))
}

// countInFlight counts the resources that are being disrupted after the starts of a plan.
func (r *worldRun) countInFlight(plan *rollout.Plan) {
	r.timeline.InFlight = max(r.timeline.InFlight, len(r.disrupted(plan)))
}

// disrupted returns the resources that are being disrupted after the starts of a plan, whatever the
// pools: those with a job in progress or an open bracket execution.
func (r *worldRun) disrupted(plan *rollout.Plan) map[string]bool {
	disrupted := map[string]bool{}
	for _, record := range plan.State.Executions {
		if record.Open != nil {
			disrupted[record.Resource] = true
		}
	}
	for i := range r.fleet.Targets {
		t := &r.fleet.Targets[i]
		for k := range t.Jobs {
			if !t.Jobs[k].Status.Terminal() {
				disrupted[t.Resource] = true
			}
		}
	}
	return disrupted
}

// finish adds up what a run cost. found are the running jobs that the world has not started.
func (r *recorder) finish(found []string) {
	t := &r.timeline
	t.Left, t.Running = r.waiting, slices.Concat(found, r.running)
	t.Done = !t.CutOff && r.plan.Waiting.IsZero() && len(t.Running) == 0
	t.Drains = len(r.drains)
	separate := 0
	for m, versions := range r.upgrades {
		separate += len(versions) * r.pres[[2]string{m.group, m.resource}]
	}
	for _, n := range r.drained {
		separate -= n
	}
	t.DrainsSaved = max(0, separate-t.Drains)
}
