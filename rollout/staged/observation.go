package staged

import (
	"cmp"
	"slices"
)

// Observation is what a host sees of a target. Only Target is required. An unknown version never
// counts as another version, and an unknown health changes nothing. Like a [Target] it is decoded
// strictly as a part of an [Input].
type Observation struct {
	Target  string `json:"target"`
	Version string `json:"version,omitempty"` // what it points at now; empty if unknown
	Health  Health `json:"health,omitempty"`  // at that version; empty if unknown
	Gone    bool   `json:"gone,omitempty"`    // it no longer exists
	// Token is the token of this run's last action on the target before this observation. An
	// observation with any other token, be it of another run, is stale and ignored. An observation
	// without a token is never stale, and a target that is Gone needs none. But otherwise it
	// acknowledges a start only if it shows the version of the run, and a removal never: while an
	// action is not acknowledged, any other observation without a token changes nothing, whatever
	// its health.
	//
	// A retry makes a new attempt: from then on the token of the failed one is stale, even before
	// the new attempt is started, because what was seen of the failed attempt says nothing about
	// the new one. If the target is gone meanwhile, list it in Input.Removed.
	Token Token `json:"token,omitzero"`
}

// Health is the host's judgement of a target.
type Health string

// The values of health. The empty one is unknown.
const (
	HealthProgressing Health = "progressing" // not ready yet
	HealthReady       Health = "ready"
	HealthFailing     Health = "failing" // not ready, and may recover: also while the host itself tries again
	HealthFailed      Health = "failed"  // not ready, and the host knows that it will not be
)

func (h Health) known() bool {
	switch h {
	case "", HealthProgressing, HealthReady, HealthFailing, HealthFailed:
		return true
	}
	return false
}

// seen is the place of an observation in the list and in the run.
type seen struct {
	at place
	i  int
}

// observations applies the last observation of each target, in the order of the targets.
func (e *edit) observations(list []Observation) {
	order := make([]seen, 0, len(list))
	var unknown []string
	for i := range list {
		if at, ok := e.run.find(list[i].Target); ok {
			order = append(order, seen{at, i})
		} else {
			unknown = append(unknown, list[i].Target)
		}
	}
	slices.SortFunc(order, func(a, b seen) int {
		return cmp.Or(cmp.Compare(a.at.stage, b.at.stage), cmp.Compare(a.at.member, b.at.member), cmp.Compare(a.i, b.i))
	})
	for n, s := range order {
		if n+1 < len(order) && order[n+1].at == s.at {
			continue // a later one counts
		}
		e.observe(int(s.at.stage), int(s.at.member), &list[s.i])
	}
	slices.Sort(unknown)
	for _, name := range slices.Compact(unknown) {
		e.event(Event{Kind: EventObservationIgnored, Stage: -1, Target: name, Reason: ReasonUnknownTarget})
	}
}

// observe applies the observation of one target. While the cleanup is pending, a done member that
// moved to it is also verified in its stage: nothing has changed for the member yet, and a
// regressed one must be able to recover. Once it was gone, it is not: what has its name from then on
// is another target, and may be at any version.
func (e *edit) observe(k, i int, o *Observation) {
	rec, name := e.run.stage(k).tree.at(i)
	r := *rec
	if o.Token != (Token{}) && o.Token != e.last(k, &r, name) {
		e.event(Event{Kind: EventObservationIgnored, Stage: k, Target: name, Reason: ReasonStaleToken})
		return
	}
	cleanup := e.plan.stages[k].cleanup
	if cleanup && !o.Gone && e.run.stillHome(k, i) {
		home := e.run.home(name)
		if was, _ := e.run.stage(int(home.stage)).tree.at(int(home.member)); was.state == Done && int(home.stage) != k {
			e.verify(int(home.stage), int(home.member), *was, o)
		}
	}
	switch {
	case o.Gone:
		e.vanish(k, i)
	case r.state == Waiting:
		if !cleanup {
			e.await(k, i, r, o)
		}
	case r.state == Starting:
		if o.Token == (Token{}) && (cleanup || !e.ours(o)) {
			return // nothing shows that this was observed after the start
		}
		r.state = Updating
		e.progress(k, i, r, o)
	case r.state.inProgress():
		e.progress(k, i, r, o)
	case r.state == Done && !cleanup:
		e.verify(k, i, r, o)
	}
}

// ours and other report whether a target is at the version of the run, or at another one. If the
// version is unknown, it is neither.
func (e *edit) ours(o *Observation) bool  { return o.Version == e.plan.version }
func (e *edit) other(o *Observation) bool { return o.Version != "" && o.Version != e.plan.version }

// stillHome reports whether a member of the cleanup is still looked at in the stage that it came
// from, if it came from one.
func (r *Run) stillHome(k, i int) bool {
	s := r.stage(k)
	rec, _ := s.tree.at(i)
	return s.phase == StagePending && rec.state != Done
}

// last returns the token of the last action of the present attempt at a member, or the zero Token if
// there was none. For a member of the cleanup that has no removal yet, this is its start in the
// stage that it came from: the host has no other token with which to report it gone already.
func (e *edit) last(k int, r *record, name string) Token {
	if r.marks.has(started) {
		return e.plan.token(k, r, name)
	}
	if e.plan.stages[k].cleanup && r.attempt == 1 {
		if home := e.run.home(name); int(home.stage) != k {
			was, _ := e.run.stage(int(home.stage)).tree.at(int(home.member))
			return e.last(int(home.stage), was, name)
		}
	}
	return Token{}
}

// await marks a waiting target that needs no start as current, or clears the mark.
func (e *edit) await(k, i int, r record, o *Observation) {
	was := r.marks
	switch {
	case e.other(o), o.Health != "" && o.Health != HealthReady:
		r.marks &^= current
	case e.ours(o) && o.Health == HealthReady:
		r.marks |= current
	}
	if r.marks != was {
		e.put(k, i, r)
	}
}

// progress applies the observation of a target in progress whose start is acknowledged. If this
// observation acknowledged the start, r has that already and the run has not.
func (e *edit) progress(k, i int, r record, o *Observation) {
	p := &e.plan.stages[k]
	switch health := o.Health; {
	case e.other(o) && !p.cleanup:
		e.settleTarget(k, i, r, Failed, superseded)
		return
	case health == HealthFailed:
		e.settleTarget(k, i, r, Failed, reported)
		return
	case health == HealthReady && r.state == Updating && !p.cleanup:
		if p.timing.soak == 0 {
			e.settleTarget(k, i, r, Done, noCause)
			return
		}
		r.state, r.end = Soaking, e.now
		r.marks &^= stuck
	case health == HealthProgressing || health == HealthFailing: // no longer soaking, if it was
		r.state = Updating
	}
	if now, _ := e.run.stage(k).tree.at(i); *now != r {
		e.put(k, i, r)
	}
}

// verify looks at a done target again.
func (e *edit) verify(k, i int, r record, o *Observation) {
	switch e.plan.options.VerifyDone {
	case Never:
		return
	case Always:
	default:
		if k != e.run.current {
			return
		}
	}
	why := noCause
	switch health := o.Health; {
	case e.other(o):
		why = superseded
	case health == HealthFailing:
		why = unhealthy
	case health == HealthFailed:
		why = reported
	case health == HealthReady && r.marks.has(regressed) && (e.ours(o) || r.cause != superseded):
		r.marks &^= regressed
		r.cause = noCause
		e.put(k, i, r)
		e.event(Event{Kind: EventRecovered, Stage: k, Target: o.Target})
		return
	default:
		return
	}
	switch e.plan.options.OnRegression {
	case Note:
	case Fail:
		e.settleTarget(k, i, r, Failed, why)
		return
	default:
		if r.cause == why {
			return // it is recorded already
		}
		r.marks |= regressed
		r.cause = why
		e.put(k, i, r)
	}
	e.event(Event{Kind: EventRegressed, Stage: k, Target: o.Target, Reason: why.reason()})
}
