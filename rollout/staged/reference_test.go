package staged_test

import (
	"maps"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/rollout/staged"
)

// reference is the step function once more, as dumb as possible: lists that are scanned, no
// counters, no sharing. It knows nothing of the package but its types.
type reference struct {
	options          staged.Options
	strategy         staged.Strategy
	stages           []*refStage
	id, name         string
	version          string
	desired          staged.State
	phase            staged.Phase
	begun, cancelled bool
	now, since       time.Time
	first, phased    time.Time
	by               *staged.Decision // of the command at hand
}

type refStage struct {
	def     staged.Stage // of the cleanup and the rest: made up
	cleanup bool
	rest    bool
	phase   staged.StagePhase
	before  staged.ApprovalState
	after   staged.ApprovalState
	answers [2]*staged.Decision
	asked   [2]time.Time
	decided [2]time.Time
	phased  time.Time
	settled *time.Time
	paused  time.Duration
	elapsed bool
	ended   time.Time        // by a command
	endedBy *staged.Decision // what it said
	start   time.Time
	stop    time.Time
	members []*refTarget
}

type refTarget struct {
	staged.TargetStatus
}

func lengthOf(d staged.Duration, otherwise time.Duration) time.Duration {
	if v, ok := d.Value(); ok {
		return v
	}
	return otherwise
}

const forever = time.Duration(1<<63 - 1)

func add(t time.Time, d time.Duration) (time.Time, bool) {
	if d == forever {
		return time.Time{}, false
	}
	return t.Add(d), true
}

// newReference takes the order of members from a compiled run: that is tested elsewhere.
func newReference(run *staged.Run, strategy staged.Strategy, options staged.Options) *reference {
	r := &reference{options: options, strategy: strategy, id: run.Spec().ID, name: run.Spec().Name, version: run.Version(), desired: run.State(), phase: run.Phase()}
	for s := range run.Stages() {
		st := &refStage{phase: s.Phase, before: s.Before.State, after: s.After.State, cleanup: s.Cleanup}
		switch {
		case s.Cleanup:
			c := options.Cleanup
			st.def = staged.Stage{Name: s.Name, MaxConcurrency: c.MaxConcurrency, MaxFailures: c.MaxFailures, ProgressDeadline: c.ProgressDeadline}
			if c.MaxConcurrency.IsZero() {
				st.def.MaxConcurrency = concurrency.Percent(100)
			}
			if c.MaxFailures.IsZero() {
				st.def.MaxFailures = concurrency.Count(0)
			}
			st.def.BeforeStageTasks = strategy.DeleteStage.BeforeStageTasks
		case s.Index < len(strategy.Stages):
			st.def = strategy.Stages[s.Index]
		default:
			st.rest = true
			st.def.Name = s.Name
		}
		if !s.Cleanup {
			if st.def.ProgressDeadline.IsZero() {
				st.def.ProgressDeadline = strategy.ProgressDeadline
			}
			if st.def.MinSuccessTime.IsZero() {
				st.def.MinSuccessTime = strategy.MinSuccessTime
			}
			if st.def.MaxFailures.IsZero() && strategy.MaxFailures.IsZero() {
				st.def.MaxFailures = concurrency.Count(0)
			}
			if st.def.MaxConcurrency.IsZero() {
				st.def.MaxConcurrency = concurrency.Count(1)
			}
		}
		for t := range run.Targets(s.Index) {
			st.members = append(st.members, &refTarget{t})
		}
		r.stages = append(r.stages, st)
	}
	return r
}

func percentage(p, n int, up bool) int {
	if up {
		return (p*n + 99) / 100
	}
	return p * n / 100
}

func (r *reference) count(l concurrency.Limit, n int) int {
	if l.IsPercent() {
		return percentage(l.Value(), n, r.options.Rounding == staged.Up)
	}
	return l.Value()
}

func (s *refStage) has(states ...staged.TargetState) int {
	n := 0
	for _, t := range s.members {
		if slices.Contains(states, t.State) {
			n++
		}
	}
	return n
}

func (s *refStage) inProgress() int { return s.has(staged.Starting, staged.Updating, staged.Soaking) }
func (s *refStage) unsettled() int  { return s.inProgress() + s.has(staged.Waiting) }

func (s *refStage) task(list []staged.Task, kind staged.TaskType) (time.Duration, bool) {
	for _, t := range list {
		if t.Type == kind {
			return lengthOf(t.WaitTime, 0), true
		}
	}
	return 0, false
}

func (r *reference) current() int {
	for k, s := range r.stages {
		if s.phase != staged.StageSucceeded && s.phase != staged.StageSkipped {
			return k
		}
	}
	return len(r.stages)
}

func (r *reference) find(name string) (*refStage, *refTarget) {
	for k := len(r.stages) - 1; k >= 0; k-- { // the cleanup first
		for _, t := range r.stages[k].members {
			if t.Name == name {
				return r.stages[k], t
			}
		}
	}
	return nil, nil
}

func (r *reference) end(t *refTarget, state staged.TargetState, why staged.Reason) {
	t.State, t.Reason, t.End = state, why, r.now
	t.Current, t.Regressed, t.Stuck, t.SuspendedBy = false, false, false, nil
	r.noteAll()
}

// noteAll: the wait of an updating stage counts from when its last member was settled.
func (r *reference) noteAll() {
	for _, s := range r.stages {
		if s.phase != staged.StageUpdating {
			continue
		}
		if s.unsettled() == 0 && s.settled == nil {
			now := r.now
			s.settled = &now
		} else if s.unsettled() > 0 {
			s.settled, s.paused, s.elapsed, s.ended, s.endedBy = nil, 0, false, time.Time{}, nil
		}
	}
}

func (r *reference) waitEnd(s *refStage) time.Time {
	wait, _ := s.task(s.def.AfterStageTasks, staged.TimedWait)
	return s.settled.Add(wait).Add(s.paused)
}

func (r *reference) elapseWait() {
	if k := r.current(); k < len(r.stages) {
		s := r.stages[k]
		if _, waits := s.task(s.def.AfterStageTasks, staged.TimedWait); waits && s.phase == staged.StageWaitingAfter && !s.elapsed && !r.now.Before(r.waitEnd(s)) {
			s.elapsed = true
		}
	}
}

func (r *reference) frozen() bool {
	return r.desired == staged.StateStop && r.options.WaitDuringStop == staged.Freeze
}

func (r *reference) over() bool {
	all, members := 0, 0
	for _, s := range r.stages {
		failures := s.has(staged.Failed, staged.TimedOut)
		if !s.def.MaxFailures.IsZero() && failures > r.count(s.def.MaxFailures, len(s.members)) {
			return true
		}
		if !s.cleanup {
			all += failures
			members += len(s.members)
		}
	}
	return !r.strategy.MaxFailures.IsZero() && all > r.count(r.strategy.MaxFailures, members)
}

func (r *reference) rejected() bool {
	for _, s := range r.stages {
		if s.before == staged.ApprovalRejected || s.after == staged.ApprovalRejected {
			return true
		}
	}
	return false
}

func (r *reference) token(s *refStage, t *refTarget) staged.Token {
	kind := staged.Start
	if s.cleanup {
		kind = staged.Remove
	}
	return staged.Token{Run: r.id, Stage: slices.Index(r.stages, s), Target: t.Name, Attempt: t.Attempt, Kind: kind}
}

// step returns the actions and when to step again.
func (r *reference) step(in staged.Input, now time.Time) ([]staged.Action, time.Time) {
	if r.phase.Terminal() {
		return nil, time.Time{}
	}
	switch {
	case !r.begun:
		r.now = now
		r.since = now
		r.first, r.phased = now, now
	case now.After(r.now):
		r.now = now
	}
	r.begun = true
	was := r.phase
	r.desire(in.State)
	for _, c := range in.Commands {
		r.command(c)
	}
	r.membership(in)
	last := map[string]staged.Observation{}
	for _, o := range in.Observations {
		last[o.Target] = o
	}
	for _, name := range slices.Sorted(maps.Keys(last)) {
		if s, t := r.find(name); t != nil {
			for _, before := range r.stages[:len(r.stages)-1] { // it may have moved on to the cleanup, which has not begun, and is not gone
				if s.cleanup && s.phase == staged.StagePending && t.State != staged.Done {
					for _, old := range before.members {
						if old.Name == name {
							r.observe(before, old, last[name])
						}
					}
				}
			}
			r.observe(s, t, last[name])
		}
	}
	r.time()
	over, rejected := r.over(), r.rejected()
	halt := func(phase staged.Phase) {
		if r.phase != phase {
			r.phase, r.since = phase, r.now
		}
	}
	switch {
	case r.cancelled:
		halt(staged.PhaseCancelling)
	case r.phase == staged.PhaseFailing:
	case r.desired == staged.StateStop:
		r.phase = staged.PhaseStopping
	case r.desired != staged.StateRun:
		r.phase = staged.PhaseInitialized
	case over && r.options.OnFailure != staged.Hold || rejected && r.options.OnReject != staged.Hold:
		halt(staged.PhaseFailing)
	case over || rejected:
		r.phase = staged.PhaseHeld
	default:
		r.phase = staged.PhaseProgressing
		r.advance()
	}
	r.finish()
	if r.phase != was {
		r.phased = r.now
	}
	for _, s := range r.stages { // no stage both begins and ends halted in one step
		began := s.phase == staged.StageUpdating || s.phase == staged.StageWaitingAfter || s.phase == staged.StageSucceeded
		if began && s.start.IsZero() {
			s.start = r.now.UTC()
		}
		if (s.phase == staged.StageSucceeded || s.phase == staged.StageSkipped || s.phase == staged.StageFailed) && s.stop.IsZero() {
			s.stop = r.now.UTC()
		}
	}
	return r.actions(), r.next()
}

func (r *reference) desire(state staged.State) {
	if state == "" || state == r.desired {
		return
	}
	freeze := r.options.WaitDuringStop == staged.Freeze
	if state == staged.StateStop {
		if freeze {
			r.elapseWait()
		}
		if r.phase != staged.PhaseFailing && !r.cancelled {
			r.since = r.now
		}
	} else if k := r.current(); r.desired == staged.StateStop && freeze && r.phase != staged.PhaseFailing && !r.cancelled && k < len(r.stages) {
		s := r.stages[k]
		if _, waits := s.task(s.def.AfterStageTasks, staged.TimedWait); waits && s.settled != nil && !s.elapsed {
			if s.settled.After(r.since) {
				now := r.now
				s.settled = &now
			} else if r.waitEnd(s).After(r.since) {
				s.paused += r.now.Sub(r.since)
			}
		}
	}
	r.desired = state
}

func (r *reference) command(c staged.Command) {
	r.by = nil
	if said := (staged.Decision{By: c.By, At: c.At.UTC(), Reason: c.Reason}); said != (staged.Decision{}) {
		if c.At.IsZero() {
			said.At = r.now.UTC()
		}
		r.by = &said
	}
	if c.Run != "" && c.Run != r.id {
		return
	}
	switch c.Kind {
	case staged.CommandCancel:
		r.cancelled = true
	case staged.CommandApprove, staged.CommandReject:
		if c.Run != r.id || c.Stage < 0 || c.Stage >= len(r.stages) {
			return
		}
		state, answer, decided := &r.stages[c.Stage].before, &r.stages[c.Stage].answers[0], &r.stages[c.Stage].decided[0]
		if c.Side == staged.After {
			state, answer, decided = &r.stages[c.Stage].after, &r.stages[c.Stage].answers[1], &r.stages[c.Stage].decided[1]
		}
		if *state == staged.ApprovalRequested && c.Kind == staged.CommandReject {
			*state, *answer, *decided = staged.ApprovalRejected, r.by, r.now
		} else if c.Kind == staged.CommandApprove && (*state == staged.ApprovalRequested || *state == staged.ApprovalRejected) {
			*state, *answer, *decided = staged.ApprovalApproved, r.by, r.now
		}
	case staged.CommandEndWait:
		if c.Run != r.id || c.Stage < 0 || c.Stage >= len(r.stages) {
			return
		}
		s := r.stages[c.Stage]
		if _, waits := s.task(s.def.AfterStageTasks, staged.TimedWait); !waits || s.phase != staged.StageWaitingAfter || s.elapsed || !r.frozen() && !r.now.Before(r.waitEnd(s)) {
			return
		}
		s.elapsed, s.ended, s.endedBy = true, r.now, r.by
		if r.by == nil {
			s.endedBy = &staged.Decision{At: r.now.UTC()}
		}
	case staged.CommandSkip:
		for _, s := range r.stages { // it may be in the cleanup, too
			for _, t := range s.members {
				if t.Name == c.Target && t.State != staged.Skipped && t.State != staged.Removed && (t.State != staged.Done || t.Regressed) {
					r.end(t, staged.Skipped, "")
					t.Decision = r.by
				}
			}
		}
	case staged.CommandSuspend:
		if _, t := r.find(c.Target); t != nil && t.State == staged.Waiting && t.SuspendedBy == nil {
			if t.SuspendedBy = r.by; r.by == nil {
				t.SuspendedBy = &staged.Decision{At: r.now.UTC()}
			}
		}
	case staged.CommandResume:
		if _, t := r.find(c.Target); t != nil {
			t.SuspendedBy = nil
		}
	case staged.CommandRetry:
		s, t := r.find(c.Target)
		if t == nil || t.State != staged.Failed && t.State != staged.TimedOut || c.Attempt != t.Attempt || r.cancelled || r.phase == staged.PhaseFailing ||
			s.phase == staged.StageSucceeded || s.phase == staged.StageSkipped {
			return
		}
		if s.phase == staged.StageWaitingAfter {
			r.enter(s, staged.StageUpdating)
		}
		t.TargetStatus = staged.TargetStatus{Name: t.Name, Group: t.Group, Stage: t.Stage, Position: t.Position, Attempt: t.Attempt + 1, Decision: r.by}
		r.noteAll()
	}
}

func (r *reference) vanish(s *refStage, t *refTarget) {
	switch {
	case t.State.Settled():
	case s.cleanup:
		r.end(t, staged.Done, "")
	case r.options.Removed == staged.Fail:
		r.end(t, staged.Failed, staged.ReasonGone)
	default:
		r.end(t, staged.Removed, "")
	}
}

func (r *reference) membership(in staged.Input) {
	last := map[string]staged.Target{}
	for _, t := range in.Added {
		last[t.Name] = t
	}
	for _, name := range slices.Sorted(maps.Keys(last)) {
		if _, t := r.find(name); t != nil || r.options.Added != staged.Append {
			continue
		}
		matched := false
		for _, s := range r.stages {
			matches := s.rest && !matched
			if l := s.def.LabelSelector; l != nil {
				compiled, err := l.Compile()
				matches = err == nil && compiled.Match(last[name].Labels)
			} else if s.def.Targets != nil {
				matches = slices.Contains(s.def.Targets, name)
			}
			matched = matched || matches
			if matches && (s.phase == staged.StagePending || s.phase == staged.StageWaitingBefore || s.phase == staged.StageUpdating) {
				group := ""
				if label := s.def.GroupBy; label != "" {
					group = last[name].Labels[label]
				}
				r.join(s, name, group)
				break
			}
		}
	}
	cleanup := r.stages[len(r.stages)-1]
	names := slices.Clone(in.Leaving)
	sort.Strings(names)
	for _, name := range names {
		s, t := r.find(name)
		if s == cleanup {
			continue
		}
		var by *staged.Decision
		if t != nil {
			by = t.SuspendedBy
			r.vanish(s, t)
		}
		if r.options.LateLeaving == staged.Clean && cleanup.phase == staged.StagePending {
			r.join(cleanup, name, "")
			cleanup.members[len(cleanup.members)-1].SuspendedBy = by
		}
	}
	for _, name := range in.Removed {
		if s, t := r.find(name); t != nil {
			r.vanish(s, t)
		}
	}
}

func (r *reference) join(s *refStage, name, group string) {
	s.members = append(s.members, &refTarget{staged.TargetStatus{Name: name, Group: group, Stage: slices.Index(r.stages, s), Position: len(s.members), Attempt: 1}})
	r.noteAll()
}

func (r *reference) observe(s *refStage, t *refTarget, o staged.Observation) {
	if o.Token != (staged.Token{}) && (t.Start.IsZero() || o.Token != r.token(s, t)) {
		return
	}
	ours := o.Version == r.version
	other := o.Version != "" && !ours
	if o.Gone {
		r.vanish(s, t)
		return
	}
	switch t.State {
	case staged.Waiting:
		if s.cleanup {
			return
		}
		if ours && o.Health == staged.HealthReady {
			t.Current = true
		} else if other || o.Health != "" && o.Health != staged.HealthReady {
			t.Current = false
		}
	case staged.Starting, staged.Updating, staged.Soaking:
		if t.State == staged.Starting {
			if o.Token == (staged.Token{}) && (!ours || s.cleanup) {
				return
			}
			t.State = staged.Updating
		}
		switch {
		case s.cleanup && o.Health == staged.HealthFailed:
			r.end(t, staged.Failed, staged.ReasonReported)
		case s.cleanup:
		case other:
			r.end(t, staged.Failed, staged.ReasonSuperseded)
		case o.Health == staged.HealthFailed:
			r.end(t, staged.Failed, staged.ReasonReported)
		case o.Health == staged.HealthReady && t.State == staged.Updating:
			t.State, t.End, t.Stuck = staged.Soaking, r.now, false
			if lengthOf(s.def.MinSuccessTime, 0) == 0 {
				r.end(t, staged.Done, "")
			}
		case t.State == staged.Soaking && (o.Health == staged.HealthProgressing || o.Health == staged.HealthFailing):
			t.State, t.End = staged.Updating, time.Time{}
		}
	case staged.Done:
		if s.cleanup || r.options.VerifyDone == staged.Never || r.options.VerifyDone != staged.Always && slices.Index(r.stages, s) != r.current() {
			return
		}
		why := map[staged.Health]staged.Reason{staged.HealthFailing: staged.ReasonUnhealthy, staged.HealthFailed: staged.ReasonReported}[o.Health]
		if other {
			why = staged.ReasonSuperseded
		}
		switch {
		case why == "":
			if o.Health == staged.HealthReady && t.Regressed && (ours || t.Reason != staged.ReasonSuperseded) {
				t.Regressed, t.Reason = false, ""
			}
		case r.options.OnRegression == staged.Fail:
			r.end(t, staged.Failed, why)
		case r.options.OnRegression != staged.Note:
			t.Regressed, t.Reason = true, why
		}
	}
}

func (r *reference) stuckAfter() time.Duration { return lengthOf(r.options.StuckAfter, 5*time.Minute) }

func (r *reference) time() {
	for _, s := range r.stages {
		for _, t := range s.members {
			switch t.State {
			case staged.Soaking:
				if !r.now.Before(t.End.Add(lengthOf(s.def.MinSuccessTime, 0))) {
					r.end(t, staged.Done, "")
				}
			case staged.Starting, staged.Updating:
				if deadline, ok := add(t.Start, lengthOf(s.def.ProgressDeadline, forever)); ok && !r.now.Before(deadline) {
					r.end(t, staged.TimedOut, "")
				} else if !r.now.Before(t.Start.Add(r.stuckAfter())) {
					t.Stuck = true
				}
			}
		}
	}
	if !r.frozen() {
		r.elapseWait()
	}
}

func (r *reference) blocked(s *refStage) bool {
	if r.options.OnRegression == staged.Note || r.options.OnRegression == staged.Fail || r.options.VerifyDone == staged.Never {
		return false
	}
	for _, other := range r.stages {
		for _, t := range other.members {
			if t.Regressed && (r.options.VerifyDone == staged.Always || other == s && len(s.def.AfterStageTasks) > 0) {
				return true
			}
		}
	}
	return false
}

func (r *reference) advance() {
	for {
		k := r.current()
		if k == len(r.stages) {
			r.phase = staged.PhaseSucceeded
			for _, s := range r.stages {
				if s.has(staged.Failed, staged.TimedOut, staged.Skipped) > 0 {
					r.phase = staged.PhasePartiallySucceeded
				}
			}
			return
		}
		s := r.stages[k]
		_, before := s.task(s.def.BeforeStageTasks, staged.Approval)
		_, after := s.task(s.def.AfterStageTasks, staged.Approval)
		_, waits := s.task(s.def.AfterStageTasks, staged.TimedWait)
		switch s.phase {
		case staged.StagePending:
			switch {
			case s.has(staged.Removed, staged.Skipped) == len(s.members):
				r.enter(s, staged.StageSkipped)
			case before && !(s.cleanup && s.unsettled() == 0):
				r.enter(s, staged.StageWaitingBefore)
				s.before, s.asked[0] = staged.ApprovalRequested, r.now
			default:
				r.enter(s, staged.StageUpdating)
			}
			r.noteAll()
		case staged.StageWaitingBefore:
			if s.before != staged.ApprovalApproved {
				if !s.cleanup || s.unsettled() > 0 {
					r.phase = staged.PhaseWaiting
					return
				}
				s.before, s.asked[0] = staged.ApprovalNone, time.Time{}
			}
			r.enter(s, staged.StageUpdating)
			r.noteAll()
		case staged.StageUpdating:
			for _, t := range s.members {
				if t.State == staged.Waiting && t.Current {
					r.end(t, staged.Done, "")
				}
			}
			limit := max(1, r.count(s.def.MaxConcurrency, len(s.members)))
			for _, retried := range []bool{true, false} {
				for _, t := range s.members {
					if t.State == staged.Waiting && t.SuspendedBy == nil && (t.Attempt > 1) == retried && s.inProgress() < limit && !r.groupFull(s, t) {
						t.State, t.Start, t.Current = staged.Starting, r.now, false
					}
				}
			}
			if s.unsettled() > 0 {
				if s.inProgress() == 0 { // there is a free slot, and nobody may have it
					r.phase = staged.PhaseWaiting
				}
				return
			}
			r.enter(s, staged.StageWaitingAfter)
			r.elapseWait()
			if after && s.after == staged.ApprovalNone {
				s.after, s.asked[1] = staged.ApprovalRequested, r.now
			}
		case staged.StageWaitingAfter:
			if waits && !s.elapsed || after && s.after != staged.ApprovalApproved || r.blocked(s) {
				r.phase = staged.PhaseWaiting
				return
			}
			r.enter(s, staged.StageSucceeded)
		}
	}
}

// groupFull counts who of the group of a target is in progress, and how many it has.
func (r *reference) groupFull(s *refStage, t *refTarget) bool {
	if s.def.GroupBy == "" {
		return false
	}
	members, busy := 0, 0
	for _, other := range s.members {
		if other.Group == t.Group {
			members++
			if other.State == staged.Starting || other.State == staged.Updating || other.State == staged.Soaking {
				busy++
			}
		}
	}
	return busy >= max(1, r.count(s.def.MaxConcurrencyPerGroup, members))
}

func (r *reference) enter(s *refStage, phase staged.StagePhase) { s.phase, s.phased = phase, r.now }

func (r *reference) finish() {
	if r.phase != staged.PhaseStopping && r.phase != staged.PhaseFailing && r.phase != staged.PhaseCancelling {
		return
	}
	moving := false
	for _, s := range r.stages {
		for _, t := range s.members {
			moving = moving || (t.State == staged.Starting || t.State == staged.Updating) && !t.Stuck
		}
	}
	if grace, ok := add(r.since, lengthOf(r.options.StopGrace, forever)); moving && (!ok || r.now.Before(grace)) {
		return
	}
	switch r.phase {
	case staged.PhaseStopping:
		r.phase = staged.PhaseStopped
	case staged.PhaseCancelling:
		r.phase = staged.PhaseCancelled
	case staged.PhaseFailing:
		r.phase = staged.PhaseFailed
		if k := r.current(); k < len(r.stages) {
			r.enter(r.stages[k], staged.StageFailed)
		}
	}
}

func (r *reference) actions() (list []staged.Action) {
	if r.phase.Terminal() {
		return nil
	}
	for k, s := range r.stages {
		for _, t := range s.members {
			if t.State == staged.Starting {
				a := staged.Action{Kind: staged.Start, Stage: k, Token: r.token(s, t), Target: t.Name, Version: r.version}
				if s.cleanup {
					a.Kind, a.Version = staged.Remove, ""
				}
				list = append(list, a)
			}
		}
		for _, side := range []staged.Side{staged.Before, staged.After} {
			if side == staged.Before && s.before == staged.ApprovalRequested || side == staged.After && s.after == staged.ApprovalRequested {
				of := s.def.Name
				if s.cleanup {
					of = "delete-stage"
				}
				list = append(list, staged.Action{Kind: staged.RequestApproval, Stage: k, Run: r.id, Side: side, Name: strings.Join([]string{r.name, string(side), of}, "-")})
			}
		}
	}
	return list
}

func (r *reference) next() (first time.Time) {
	consider := func(t time.Time, ok bool) {
		if ok && t.After(r.now) && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	if r.phase.Terminal() {
		return first
	}
	for _, s := range r.stages {
		for _, t := range s.members {
			switch t.State {
			case staged.Soaking:
				consider(add(t.End, lengthOf(s.def.MinSuccessTime, 0)))
			case staged.Starting, staged.Updating:
				consider(add(t.Start, lengthOf(s.def.ProgressDeadline, forever)))
				if !t.Stuck {
					consider(add(t.Start, r.stuckAfter()))
				}
			}
		}
		if _, waits := s.task(s.def.AfterStageTasks, staged.TimedWait); waits && s.phase == staged.StageWaitingAfter && !s.elapsed && !r.frozen() {
			consider(r.waitEnd(s), true)
		}
	}
	if r.phase == staged.PhaseStopping || r.phase == staged.PhaseFailing || r.phase == staged.PhaseCancelling {
		consider(add(r.since, lengthOf(r.options.StopGrace, forever)))
	}
	return first
}

// picture is everything that a run shows.
type picture struct {
	Phase   staged.Phase
	Begun   time.Time
	Since   time.Time
	State   staged.State
	Current int
	Stages  []staged.StageStatus
	Targets [][]staged.TargetStatus
}

func pictureOf(run *staged.Run) picture {
	p := picture{Phase: run.Phase(), Begun: run.Begun(), Since: run.PhaseSince(), State: run.State(), Current: run.Current()}
	for s := range run.Stages() {
		p.Stages = append(p.Stages, s)
		p.Targets = append(p.Targets, slices.Collect(run.Targets(s.Index)))
	}
	return p
}

func (r *reference) picture() picture {
	p := picture{Phase: r.phase, Begun: r.first.UTC(), Since: r.phased.UTC(), State: r.desired, Current: r.current()}
	for k, s := range r.stages {
		status := staged.StageStatus{Index: k, Name: s.def.Name, Phase: s.phase, Cleanup: s.cleanup, Budget: -1,
			Limit: max(1, r.count(s.def.MaxConcurrency, len(s.members))), Start: s.start, End: s.stop, PhaseSince: s.phased.UTC(),
			Before: staged.Gate{State: s.before, Requested: s.asked[0].UTC(), Decided: s.decided[0].UTC(), Decision: s.answers[0]},
			After:  staged.Gate{State: s.after, Requested: s.asked[1].UTC(), Decided: s.decided[1].UTC(), Decision: s.answers[1]}}
		if !s.def.MaxFailures.IsZero() {
			status.Budget = r.count(s.def.MaxFailures, len(s.members))
		}
		_, status.Before.Required = s.task(s.def.BeforeStageTasks, staged.Approval)
		_, status.After.Required = s.task(s.def.AfterStageTasks, staged.Approval)
		if wait, waits := s.task(s.def.AfterStageTasks, staged.TimedWait); waits {
			status.Wait, status.Waited = wait, s.elapsed
			if s.settled != nil && (s.phase == staged.StageWaitingAfter || s.elapsed) { // what failed before that waits for nothing
				status.WaitFrom = s.settled.UTC()
				if s.elapsed || !r.frozen() {
					status.WaitUntil = r.waitEnd(s).UTC()
				}
				if s.endedBy != nil {
					status.WaitUntil, status.WaitEndedBy = s.ended.UTC(), s.endedBy
				}
			}
		}
		status.Counts = staged.Counts{Members: len(s.members), Waiting: s.has(staged.Waiting), Starting: s.has(staged.Starting), Updating: s.has(staged.Updating),
			Soaking: s.has(staged.Soaking), Done: s.has(staged.Done), Failed: s.has(staged.Failed), TimedOut: s.has(staged.TimedOut),
			Skipped: s.has(staged.Skipped), Removed: s.has(staged.Removed)}
		var targets []staged.TargetStatus
		for _, t := range s.members {
			if t.Regressed {
				status.Counts.Regressed++
			}
			if t.Stuck {
				status.Counts.Stuck++
			}
			if t.SuspendedBy != nil {
				status.Counts.Suspended++
			}
			targets = append(targets, t.TargetStatus)
		}
		p.Stages = append(p.Stages, status)
		p.Targets = append(p.Targets, targets)
	}
	return p
}
