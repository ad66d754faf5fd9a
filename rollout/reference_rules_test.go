package rollout_test

import (
	"cmp"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/rollout"
)

// The rules that look at time, scopes, other environments and overrides, the slow and obvious way.
// Windows are evaluated minute by minute: those of the generators begin and end at whole minutes
// between 22:50 and 01:10, on every day or only once.

// inScope asks the version's own expression; one that fails reaches nobody, or everybody if the
// host wants it so.
func (r *reference) inScope(v rollout.Version, t rollout.Target) bool {
	if v.TargetSelector == "" {
		return true
	}
	ok, missing, err := r.match(v.TargetSelector, r.bind(t).version(v))
	if missing || err != nil {
		return r.include
	}
	return ok
}

// override is the first active override of a rule for a version on a target.
func (r *reference) override(rule, version string, t rollout.Target) *rollout.Override {
	first, _ := r.overrides(rule, version, t)
	return first
}

// overrides returns the first and the last active override.
func (r *reference) overrides(rule, version string, t rollout.Target) (first, last *rollout.Override) {
	now := r.now
	if !r.overridesAt.IsZero() {
		now = r.overridesAt
	}
	before := func(a, b *rollout.Override) bool {
		return a.CreatedAt.Before(b.CreatedAt) || a.CreatedAt.Equal(b.CreatedAt) && a.ID < b.ID
	}
	for k := range r.s.Overrides {
		o := &r.s.Overrides[k]
		active := !now.Before(o.CreatedAt) && (o.ExpiresAt.IsZero() || now.Before(o.ExpiresAt))
		if !active || o.Rule != rule || o.Version != version || o.Environment != "" && o.Environment != t.Environment || o.Deployment != "" && o.Deployment != t.Deployment || o.Resource != "" && o.Resource != t.Resource {
			continue
		}
		if first == nil || before(o, first) {
			first = o
		}
		if last == nil || before(last, o) {
			last = o
		}
	}
	return first, last
}

// gate asks the rules that look at a version in an environment. since is when the last of those
// that a rollout starts from was satisfied; shut lists those that are not; private says that an
// override for this very resource took part.
func (r *reference) gate(t rollout.Target, v rollout.Version, rules []namedRule) (blockers []string, since time.Time, shut []string, private bool) {
	since = v.CreatedAt
	if v.Status != rollout.VersionReady {
		blockers = append(blockers, "version_not_deployable")
	}
	if r.held && len(rules) == 0 {
		blockers = append(blockers, "not_governed")
	}
	for _, perResource := range []bool{false, true} {
		for _, rule := range rules {
			if x := rule.VersionSelector; x != nil && strings.Contains(x.Selector, "resource.") == perResource {
				if o := r.override(rule.id, v.ID, t); o != nil {
					private = private || o.Resource != "" && !perResource
				} else if b := r.versionSelector(rule, t, v); b != "" {
					blockers = append(blockers, b)
				}
			}
		}
	}
	for _, rule := range rules {
		if rule.FailureBudget != nil {
			over := r.overBudget(rule, v, t.Environment)
			if o := r.override(rule.id, v.ID, t); o != nil {
				private = private || o.Resource != ""
			} else if over {
				blockers = append(blockers, "failure_budget_exceeded "+rule.id)
			}
		}
	}
	for _, kind := range []rollout.RuleKind{rollout.KindApproval, rollout.KindProgression} {
		for _, rule := range rules {
			if rule.Kind() != kind {
				continue
			}
			var at time.Time
			blocker := ""
			if kind == rollout.KindApproval {
				reached, ok := r.approvedAt(rule, v, t.Environment)
				switch {
				case !ok:
					blocker = "approval_missing " + rule.id
				case reached.After(r.now):
					blocker = "approval_missing " + rule.id + " " + reached.Format(time.RFC3339Nano)
				default:
					at = later(reached, v.CreatedAt)
				}
			} else {
				at, blocker = r.progressedAt(rule, v, t)
			}
			if o := r.override(rule.id, v.ID, t); o != nil {
				private = private || o.Resource != ""
				if satisfied := later(o.CreatedAt, v.CreatedAt); blocker != "" || satisfied.Before(at) {
					at, blocker = satisfied, ""
				}
			}
			if blocker != "" {
				blockers, shut = append(blockers, blocker), append(shut, blocker)
			} else {
				since = later(since, at)
			}
		}
	}
	return blockers, since, shut, private
}

// overBudget reports whether a version has failed on more targets than a rule allows in an
// environment, or anywhere.
func (r *reference) overBudget(rule namedRule, v rollout.Version, environment string) bool {
	b := rule.FailureBudget
	population, failed, decided := 0, 0, 0
	rated := !b.MaxFailureRate.IsZero()
	for _, o := range r.s.Targets {
		rules, _ := r.governing(o)
		governs := slices.ContainsFunc(rules, func(other namedRule) bool { return other.id == rule.id })
		if o.Deployment != v.Deployment || o.Environment != environment && !b.AnyEnvironment || !governs || !r.inScope(v, o) {
			continue
		}
		population++
		bad, good := false, false
		var ahead, makeUp []time.Time                  // ends of the future that no job after them makes irrelevant; of successes that only make up for a failure
		for _, job := range slices.Backward(jobs(o)) { // the oldest first: the last word counts
			end := job.CompletedAt
			if end.IsZero() {
				end = job.CreatedAt
			}
			if job.Version != v.ID || !job.Status.Terminal() || strings.HasSuffix(job.Run, "/rollback") {
				continue
			}
			fails := slices.Contains([]rollout.JobStatus{rollout.JobFailure, rollout.JobInvalidAgent, rollout.JobInvalidIntegration, rollout.JobExternalRunNotFound}, job.Status)
			if len(b.OnJobStatuses) > 0 {
				fails = slices.Contains(b.OnJobStatuses, job.Status)
			}
			fails = fails || b.OnVerificationFailure && job.Verification == rollout.VerificationFailed
			succeeds := job.Status == rollout.JobSuccessful && (!b.OnVerificationFailure || job.Verification == "" || job.Verification == rollout.VerificationPassed)
			switch {
			case end.After(r.now) && (fails || rated && succeeds):
				ahead = append(ahead, end)
			case end.After(r.now) && succeeds:
				makeUp = append(makeUp, end)
			case fails:
				bad, good, ahead, makeUp = true, false, nil, nil
			case succeeds:
				bad, good, ahead, makeUp = false, true, nil, nil
			}
		}
		if bad { // else there is nothing that they could make up for
			ahead = append(ahead, makeUp...)
		}
		for _, end := range ahead {
			r.wake(end)
		}
		if bad || good {
			decided++
		}
		if bad {
			failed++
		}
	}
	allowed := b.MaxFailures.Value()
	if b.MaxFailures.IsPercent() {
		allowed = population * allowed / 100
	}
	if rated && decided >= b.MinimumSample && 100*failed > b.MaxFailureRate.Value()*decided {
		return true
	}
	return !b.MaxFailures.IsZero() && failed > allowed
}

// untilOpen is the end of what a rollout says that has not begun: when time alone has opened every
// gate, or nothing if one needs more than time.
func untilOpen(shut []string) (text string) {
	for _, blocker := range shut {
		words := strings.Fields(blocker)
		if len(words) < 3 {
			return ""
		}
		text = max(text, " "+words[2]) // in one zone, to the second: texts are in order
	}
	return text
}

func (r *reference) versionSelector(rule namedRule, t rollout.Target, v rollout.Version) string {
	ok, missing, err := r.match(rule.VersionSelector.Selector, r.bind(t).version(v))
	switch {
	case err != nil:
		return "selector_error " + rule.id
	case missing:
		return "selector_missing_key " + rule.id
	case !ok:
		return "selector_no_match " + rule.id
	}
	return ""
}

// progressedAt says when a version had succeeded elsewhere, enough and for long enough, or what is
// missing.
func (r *reference) progressedAt(rule namedRule, v rollout.Version, t rollout.Target) (time.Time, string) {
	p := rule.EnvironmentProgression
	var satisfied, until time.Time
	old, waits, nothing := false, false, false
	environments := slices.Clone(r.s.Environments)
	slices.SortFunc(environments, func(a, b rollout.Environment) int { return strings.Compare(a.ID, b.ID) })
	for _, e := range environments {
		if e.ID == t.Environment {
			continue
		}
		ok, missing, err := r.match(p.DependsOnEnvironmentSelector, vars{}.environment(e).deployment(r.deployment(t.Deployment)))
		if err != nil {
			return time.Time{}, "selector_error " + rule.id
		}
		if !ok || missing {
			continue
		}
		at, opens, tooOld, none := r.succeededAt(p, v, e.ID, t.Deployment)
		switch {
		case none:
			nothing = true
			continue
		case tooOld:
			old = true
		case !at.IsZero():
			if satisfied.IsZero() || at.Before(satisfied) {
				satisfied = at
			}
			continue
		default:
			waits = true
		}
		if !opens.IsZero() && (until.IsZero() || opens.Before(until)) {
			until = opens
		}
	}
	end := ""
	if !until.IsZero() {
		end = " " + until.Format(time.RFC3339Nano)
	}
	switch {
	case !satisfied.IsZero():
		return satisfied, ""
	case waits:
		return time.Time{}, "progression_waiting " + rule.id + end
	case old:
		return time.Time{}, "progression_too_old " + rule.id + end
	case nothing:
		return v.CreatedAt, ""
	}
	return time.Time{}, "progression_no_environment " + rule.id
}

// succeededAt looks at one environment. opens is when time alone lets it suffice.
func (r *reference) succeededAt(p *rollout.EnvironmentProgression, v rollout.Version, environment, deployment string) (at, opens time.Time, tooOld, nothing bool) {
	n := 0
	var firsts, all []time.Time
	for _, o := range r.s.Targets {
		if o.Environment != environment || o.Deployment != deployment || !r.inScope(v, o) {
			continue
		}
		n++
		var own []time.Time
		for _, job := range o.Jobs {
			counts := job.Status == rollout.JobSuccessful
			if len(p.SuccessStatuses) > 0 {
				counts = slices.Contains(p.SuccessStatuses, job.Status)
			}
			if p.RequireVerificationPassed && job.Verification != rollout.VerificationPassed || job.Version != v.ID || !counts {
				continue
			}
			end := job.CompletedAt
			if end.IsZero() {
				end = job.CreatedAt
			}
			r.wake(end)
			own = append(own, end)
		}
		slices.SortFunc(own, time.Time.Compare)
		firsts, all = append(firsts, own[:min(1, len(own))]...), append(all, own...)
	}
	if n == 0 {
		return at, at, false, true
	}
	share := big.NewRat(100, 1)
	if p.MinimumSuccessPercentage != nil {
		share.SetString(fmt.Sprint(*p.MinimumSuccessPercentage))
	}
	need := 1
	for new(big.Rat).SetInt64(int64(need)*100).Cmp(new(big.Rat).Mul(share, new(big.Rat).SetInt64(int64(n)))) < 0 {
		need++
	}
	if len(firsts) < need {
		return at, at, false, false
	}
	slices.SortFunc(firsts, time.Time.Compare)
	slices.SortFunc(all, time.Time.Compare)
	reached := firsts[need-1]
	soaked := reached.Add(time.Duration(p.MinimumSoakTimeMinutes) * time.Minute)
	expires := func(t time.Time) time.Time { // of the newest success by t
		var newest time.Time
		for _, end := range all {
			if !end.After(t) {
				newest = end
			}
		}
		if p.MaximumAgeHours == nil {
			return t.Add(1)
		}
		return newest.Add(time.Duration(*p.MaximumAgeHours) * time.Hour)
	}
	satisfied := func(t time.Time) bool { return !t.Before(soaked) && t.Before(expires(t)) }
	for _, t := range append([]time.Time{soaked}, all...) {
		if t.After(r.now) && satisfied(t) && (opens.IsZero() || t.Before(opens)) {
			opens = t
		}
	}
	tooOld = !reached.After(r.now) && !r.now.Before(expires(r.now))
	if !reached.After(r.now) && p.MaximumAgeHours != nil {
		r.wake(expires(r.now))
	}
	if satisfied(r.now) {
		return later(soaked, v.CreatedAt), at, false, false
	}
	r.wake(opens)
	return at, opens, tooOld, false
}

// cooldown is until when a rule keeps a version away from a target.
func (r *reference) cooldown(rule namedRule, t rollout.Target, v rollout.Version) (until time.Time, blocks bool) {
	reference := ""
	list := jobs(t)
	for _, job := range list {
		if !job.Status.Terminal() && reference == "" {
			reference = job.Version
		}
	}
	succeeded := false
	for _, job := range list {
		if job.Status == rollout.JobSuccessful {
			succeeded = true
			if reference == "" && (job.Verification == "" || job.Verification == rollout.VerificationPassed) {
				reference = job.Version
			}
		}
	}
	if reference == "" && !succeeded {
		reference = t.Current
	}
	versions := r.versions(t.Deployment)
	at := place(versions, reference)
	if at < 0 || reference == v.ID {
		return until, false
	}
	until = versions[at].CreatedAt.Add(time.Duration(*rule.VersionCooldown.IntervalSeconds) * time.Second)
	return until, r.now.Before(until)
}

// openings are the windows that a version waits for on a target.
type openings struct {
	rules  []namedRule
	opened map[int]bool // policies of which an allowing window was overridden

	// past has the windows in rules that an override lets past, with the instant from which it does:
	// before, they were windows like any other.
	past map[string]time.Time

	pauses []rollout.Freeze // of a curve: its time stands still under these
}

func (r *reference) openings(t rollout.Target, version string, rules []namedRule) openings {
	o := openings{opened: map[int]bool{}}
	for _, rule := range r.windows(t, rules) {
		if r.override(rule.id, version, t) != nil {
			o.opened[rule.policy] = o.opened[rule.policy] || allows(rule)
		} else {
			o.rules = append(o.rules, rule)
		}
	}
	return o
}

// openingsFrom are the windows in which the time of a rollout has passed, and passes. It is that of
// some deployments in the environment of a target.
func (r *reference) openingsFrom(t rollout.Target, version string, rules []namedRule, deployments ...string) openings {
	o := openings{rules: r.windows(t, rules), past: map[string]time.Time{}}
	for _, z := range r.s.Freezes {
		if z.PauseCurves && !r.now.Before(z.CreatedAt) && slices.ContainsFunc(deployments, func(d string) bool {
			return freezesTarget(z, rollout.TargetID{Environment: t.Environment, Deployment: d})
		}) {
			o.pauses = append(o.pauses, z)
		}
	}
	for _, rule := range o.rules {
		if given := r.override(rule.id, version, t); given != nil {
			o.past[rule.id] = given.CreatedAt
		}
	}
	return o
}

// timed reports whether time does not always count.
func (o openings) timed() bool { return len(o.rules) > 0 || len(o.pauses) > 0 }

// endless reports whether a curve stands still until somebody lifts a freeze.
func (o openings) endless() bool {
	return slices.ContainsFunc(o.pauses, func(z rollout.Freeze) bool { return z.ExpiresAt.IsZero() })
}

// at are the windows as they are at an instant.
func (o openings) at(at time.Time) openings {
	if len(o.past) == 0 {
		return o
	}
	then := openings{opened: map[int]bool{}, pauses: o.pauses}
	for _, rule := range o.rules {
		if from, overridden := o.past[rule.id]; overridden && !at.Before(from) {
			then.opened[rule.policy] = then.opened[rule.policy] || allows(rule)
		} else {
			then.rules = append(then.rules, rule)
		}
	}
	return then
}

// windows are those that a target has to do with.
func (r *reference) windows(t rollout.Target, rules []namedRule) (own []namedRule) {
	for _, rule := range rules { // what runs there need not be known
		if w := rule.DeploymentWindow; w != nil && (currentOf(t) != "" || w.FirstDeploy == rollout.FirstDeployApply) {
			own = append(own, rule)
		}
	}
	return own
}

func allows(rule namedRule) bool {
	return rule.DeploymentWindow.AllowWindow == nil || *rule.DeploymentWindow.AllowWindow
}

// inside reports whether an instant lies in a window as the generators make them: once, or at some
// minutes of two hours of the day.
func inside(rule namedRule, at time.Time) bool {
	w := rule.DeploymentWindow
	if w.RRule == "" {
		return !at.Before(w.From) && at.Before(w.Until)
	}
	_, minutes, _ := strings.Cut(w.RRule, "BYMINUTE=")
	minutes, _, _ = strings.Cut(minutes, ";")
	for text := range strings.SplitSeq(minutes, ",") {
		var start int
		fmt.Sscan(text, &start)
		for _, hour := range []int{0, 23} {
			if since := (at.Hour()*60 + at.Minute() - hour*60 - start + 24*60) % (24 * 60); since < int(w.DurationMinutes) {
				return true
			}
		}
	}
	return false
}

func (o openings) open(at time.Time) bool {
	if slices.ContainsFunc(o.pauses, func(z rollout.Freeze) bool {
		return !at.Before(z.CreatedAt) && (z.ExpiresAt.IsZero() || at.Before(z.ExpiresAt))
	}) {
		return false
	}
	o = o.at(at)
	for _, rule := range o.rules {
		covered := inside(rule, at)
		if !allows(rule) {
			if covered {
				return false
			}
			continue
		}
		for _, other := range o.rules {
			covered = covered || other.policy == rule.policy && allows(other) && inside(other, at)
		}
		if !covered && !o.opened[rule.policy] {
			return false
		}
	}
	return true
}

// nextMinute is the next instant at which a window may begin or end.
func nextMinute(at time.Time) time.Time {
	next := at.Truncate(time.Minute).Add(time.Minute)
	if minute := next.Hour()*60 + next.Minute(); minute > 70 && minute < 22*60+50 {
		return next.Truncate(24 * time.Hour).Add(22*time.Hour + 50*time.Minute)
	}
	return next
}

// fits reports whether it is open at an instant and for so long.
func (o openings) fits(at time.Time, d time.Duration) bool {
	for m := at; m.Equal(at) || m.Before(at.Add(d)); m = nextMinute(m) {
		if !o.open(m) {
			return false
		}
	}
	return true
}

// soon is when everything that happens once is over, and whatever recurs has shown what it does.
func soon(at time.Time) time.Time { return later(at, minute(60)).Add(26 * time.Hour) }

func (o openings) nextFit(at time.Time, d time.Duration) (time.Time, bool) {
	for m := at; m.Before(soon(at)); m = nextMinute(m) {
		if o.fits(m, d) {
			return m, true
		}
	}
	return time.Time{}, false
}

// addOpen goes on for so long in open time.
func (o openings) addOpen(at time.Time, d time.Duration) (time.Time, bool) {
	idle := 0
	for m := at; idle < 24*60; m = nextMinute(m) { // more than a week
		if !o.open(m) {
			idle++
			continue
		}
		idle = 0
		length := nextMinute(m).Sub(m)
		if d < length {
			return m.Add(d), true
		}
		d -= length
	}
	return time.Time{}, false
}

// shut lists the windows in the way.
func (r *reference) shut(o openings) (blockers []string) {
	var longest time.Duration
	remaining := func(rule namedRule) time.Duration {
		return time.Duration(rule.DeploymentWindow.MinimumRemainingMinutes) * time.Minute
	}
	for _, rule := range o.rules {
		longest = max(longest, remaining(rule))
	}
	if o.fits(r.now, longest) {
		return nil
	}
	until, ever := o.nextFit(r.now, longest)
	if ever {
		r.wake(until)
	}
	rest := openings{opened: map[int]bool{}}
	maps.Copy(rest.opened, o.opened)
	reasons := map[string]string{}
	for _, rule := range o.rules {
		covered := inside(rule, r.now)
		if allows(rule) {
			for _, other := range o.rules {
				covered = covered || other.policy == rule.policy && allows(other) && inside(other, r.now)
			}
			covered = covered || o.opened[rule.policy]
		} else {
			covered = !covered
		}
		if covered {
			rest.rules = append(rest.rules, rule)
			continue
		}
		reasons[rule.id] = "window_closed"
		rest.opened[rule.policy] = rest.opened[rule.policy] || allows(rule)
	}
	for _, rule := range rest.rules {
		if !rest.fits(r.now, remaining(rule)) {
			reasons[rule.id] = "window_too_short"
		}
	}
	var never []string
	if !ever {
		never, until, ever = o.blame(r.now, longest)
	}
	for _, rule := range o.rules {
		if reason := reasons[rule.id]; reason != "" {
			text := reason + " " + rule.id
			if ever && !slices.Contains(never, rule.id) {
				text += " " + until.Format(time.RFC3339Nano)
			}
			blockers = append(blockers, text)
		}
	}
	return blockers
}

// blame lists the windows because of which it is never open for so long, and when it would be without
// them. Those are the windows that are never open for so long themselves or, in a policy without such
// a window, all of them; and all windows if each policy is open for so long by itself.
func (o openings) blame(at time.Time, d time.Duration) (never []string, until time.Time, ever bool) {
	rest := openings{rules: o.rules, opened: map[int]bool{}}
	maps.Copy(rest.opened, o.opened)
	for len(rest.rules) > 0 && !ever {
		var shut []string
		for policy := range 10 {
			own := openings{opened: rest.opened}
			var alone, all []string
			for _, rule := range rest.rules {
				if rule.policy != policy || rest.opened[policy] && allows(rule) {
					continue
				}
				own.rules, all = append(own.rules, rule), append(all, rule.id)
				if _, fits := (openings{rules: []namedRule{rule}}).nextFit(at, d); !fits {
					alone = append(alone, rule.id)
				}
			}
			if _, fits := own.nextFit(at, d); !fits && len(alone) > 0 {
				shut = append(shut, alone...)
			} else if !fits {
				shut = append(shut, all...)
			}
		}
		var kept []namedRule
		for _, rule := range rest.rules {
			if len(shut) > 0 && !slices.Contains(shut, rule.id) {
				kept = append(kept, rule)
				continue
			}
			never = append(never, rule.id)
			rest.opened[rule.policy] = rest.opened[rule.policy] || allows(rule)
		}
		rest.rules = kept
		if len(kept) > 0 {
			until, ever = rest.nextFit(at, d)
		}
	}
	return never, until, ever && until.After(at)
}

// wayBack is what a rule of rollback makes of the version that a target keeps.
type wayBack struct {
	rules []string // that are triggered
	state string   // state: none, due, active, done, stuck
	to    string
	end   time.Time // of the job that failed
}

func (r *reference) wayBack(t rollout.Target, version string, rules []namedRule) *wayBack {
	versions := r.versions(t.Deployment)
	list := jobs(t)
	triggers := func(rule namedRule, job rollout.Job) bool {
		return job.Status.Terminal() && slices.Contains(rule.Rollback.OnJobStatuses, job.Status) || rule.Rollback.OnVerificationFailure && job.Verification == rollout.VerificationFailed
	}
	failed := slices.IndexFunc(list, func(j rollout.Job) bool { return j.Version == version })
	for k, job := range list { // what was called off says nothing, unless a rule names it
		says := job.Status != rollout.JobCancelled && job.Status != rollout.JobSkipped
		for _, rule := range rules {
			says = says || rule.Rollback != nil && triggers(rule, job)
		}
		if says && job.Version == version {
			failed = k
			break
		}
	}
	for _, older := range list[failed+1:] {
		if failed < 0 {
			break
		}
		if place(versions, older.Version) > place(versions, version) {
			return nil // it is itself a way back
		}
	}
	s := &wayBack{state: "none"}
	wentBack, forJob := false, false // a plan took the target back, and the job itself was the reason
	for k := failed - 1; k >= 0; k-- {
		if at := place(versions, list[k].Version); at >= 0 && at < place(versions, version) {
			wentBack = strings.HasSuffix(list[k].Run, "/rollback")
			break
		}
	}
	for _, rule := range rules {
		forJob = forJob || rule.Rollback != nil && failed >= 0 && triggers(rule, list[failed])
	}
	for _, rule := range rules {
		if rule.Rollback == nil || r.override(rule.id, version, t) != nil {
			continue
		}
		everywhere := len(rule.Rollback.OnVersionStatuses) > 0 || rule.Rollback.OnFailureBudget
		if failed >= 0 && triggers(rule, list[failed]) || r.recalled(rule, t, version, rules) || everywhere && wentBack && !forJob {
			s.rules = append(s.rules, rule.id)
		}
	}
	if len(s.rules) == 0 || failed < 0 {
		if len(s.rules) == 0 {
			return nil
		}
		return s
	}
	if s.end = list[failed].CompletedAt; s.end.IsZero() {
		s.end = list[failed].CreatedAt
	}
	for k := failed - 1; k >= 0; k-- {
		if at := place(versions, list[k].Version); at >= 0 && at < place(versions, version) {
			s.to, s.state = list[k].Version, "stuck"
			if !list[k].Status.Terminal() {
				s.state = "active"
			} else if list[k].Status == rollout.JobSuccessful {
				s.state = "done"
			}
			for later := k - 1; later >= 0 && s.state != "active"; later-- { // the host did what the way back could not
				if at := place(versions, list[later].Version); s.state == "stuck" && at >= 0 && list[later].Status == rollout.JobSuccessful {
					newest := slices.IndexFunc(list, func(j rollout.Job) bool { return j.Status == rollout.JobSuccessful && place(versions, j.Version) >= 0 })
					s.to, s.state = list[newest].Version, "done"
				}
			}
			return s
		}
	}
	for _, job := range list[failed+1:] {
		if job.Status != rollout.JobSuccessful || job.Version == version || place(versions, job.Version) < 0 {
			continue
		}
		bad := slices.ContainsFunc(rules, func(rule namedRule) bool {
			return rule.Rollback != nil && (triggers(rule, job) || r.recalled(rule, t, job.Version, rules))
		})
		if !bad {
			s.to, s.state = job.Version, "due"
			return s
		}
	}
	recalled := func(id string) bool {
		return slices.ContainsFunc(rules, func(rule namedRule) bool { return rule.Rollback != nil && r.recalled(rule, t, id, rules) })
	}
	if current := currentOf(t); current != version && place(versions, current) >= 0 && !recalled(current) &&
		!slices.ContainsFunc(list, func(j rollout.Job) bool { return j.Status == rollout.JobSuccessful && j.Version == current }) {
		s.to, s.state = current, "due"
	}
	return s
}

// recalled reports whether a rule of rollback takes a version back wherever it is.
func (r *reference) recalled(rule namedRule, t rollout.Target, id string, rules []namedRule) bool {
	at := slices.IndexFunc(r.versions(t.Deployment), func(v rollout.Version) bool { return v.ID == id })
	if at < 0 {
		return false
	}
	v := r.versions(t.Deployment)[at]
	return slices.Contains(rule.Rollback.OnVersionStatuses, v.Status) || rule.Rollback.OnFailureBudget && slices.ContainsFunc(rules, func(other namedRule) bool {
		return other.FailureBudget != nil && r.override(other.id, id, t) == nil && r.overBudget(other, v, t.Environment)
	})
}

// goBack says what happens to a target whose version went wrong.
func (r *reference) goBack(t rollout.Target, floor, current, waiting string, rules []namedRule, s *wayBack, out *outcome) (string, *attempt) {
	reason := "rollback_triggered "
	if s.state == "stuck" {
		reason = "rollback_failed "
	}
	text := "@" + floor + " " + reason + strings.Join(s.rules, "; "+reason)
	if active(t) {
		text += "; target_busy"
	}
	if waiting != "" {
		text = waiting
	}
	switch {
	case s.state == "active":
		if waiting == "" {
			out.Keep.Started++
		}
		return waiting, nil
	case s.state == "due" && !active(t):
		if frozen := r.freezes(t, true); len(frozen) > 0 {
			if waiting == "" {
				waiting = "@" + s.to + " " + strings.Join(frozen, "; ")
			}
			return waiting, nil
		}
		a := r.attempt(t, s.to, s.end, 0, rules)
		a.revert, a.run = true, a.run+"/rollback"
		return waiting, a
	case s.state == "done":
		kept, versions := s.to, r.versions(t.Deployment)
		if at := place(versions, current); at < place(versions, floor) && at > place(versions, kept) {
			kept = current
		}
		if blockers, needed := r.repeat(t, rules, kept, current); needed && len(blockers) == 0 {
			return text, r.attempt(t, kept, r.repeatDue(t, kept, current, rules), 0, rules)
		}
	}
	return text, nil
}

// host is the rule of a host in the properties: nobody gets anything on r2 before minute 3, and on
// VMs v2 stays away for good.
var host = hostRule{"host", func(c rollout.Candidate) rollout.Verdict {
	switch {
	case c.Resource.ID == "r2" && c.Now.Before(minute(3)):
		return rollout.Verdict{Status: rollout.Pending, Reason: "host_freeze", Until: minute(3)}
	case c.Resource.Kind == "VM" && c.Version.ID == "v2" && c.Environment.ID == "staging":
		return rollout.Verdict{Status: rollout.Denied, Reason: "host_denies"}
	}
	return rollout.Verdict{Status: rollout.Allowed}
}}

func (r *reference) hosted(t rollout.Target, v rollout.Version) string {
	if !r.custom {
		return ""
	}
	verdict := host.judge(rollout.Candidate{Resource: pointer(r.resource(t.Resource)), Environment: pointer(r.environment(t.Environment)), Version: &v, Now: r.now})
	if verdict.Status == rollout.Allowed {
		return ""
	}
	text := string(verdict.Reason) + " host"
	if !verdict.Until.IsZero() {
		r.wake(verdict.Until)
		text += " " + verdict.Until.Format(time.RFC3339Nano)
	}
	if r.override("host", v.ID, t) != nil {
		return ""
	}
	return text
}

// freezes are those that hold a target: first those that name no resource, each kind by age.
func (r *reference) freezes(t rollout.Target, begun bool) (blockers []string) {
	list := slices.Clone(r.s.Freezes)
	slices.SortFunc(list, func(a, b rollout.Freeze) int {
		return cmp.Or(cmp.Compare(min(1, len(a.Resource)), min(1, len(b.Resource))), a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	for _, z := range list {
		if r.now.Before(z.CreatedAt) || !z.ExpiresAt.IsZero() && !r.now.Before(z.ExpiresAt) || !freezesTarget(z, t.TargetID) || begun && z.FinishBegun {
			continue
		}
		text := "frozen by " + z.ID
		if !z.ExpiresAt.IsZero() {
			text += " " + z.ExpiresAt.Format(time.RFC3339Nano)
		}
		blockers = append(blockers, text)
	}
	return blockers
}

// freezesTarget reports whether a freeze concerns a target.
func freezesTarget(z rollout.Freeze, id rollout.TargetID) bool {
	return (z.Resource == "" || z.Resource == id.Resource) && (z.Environment == "" || z.Environment == id.Environment) && (z.Deployment == "" || z.Deployment == id.Deployment)
}

// lets reports whether an override can have an effect: one of the targets that it is for has its version
// among those of its deployment, and is governed by its rule, which is not a bracket's.
func (r *reference) lets(o rollout.Override) bool {
	return slices.ContainsFunc(r.s.Targets, func(t rollout.Target) bool {
		if o.Environment != "" && o.Environment != t.Environment || o.Deployment != "" && o.Deployment != t.Deployment || o.Resource != "" && o.Resource != t.Resource {
			return false
		}
		if !slices.ContainsFunc(r.versions(t.Deployment), func(v rollout.Version) bool { return v.ID == o.Version }) {
			return false
		}
		rules, _ := r.governing(t)
		return r.custom && o.Rule == "host" || slices.ContainsFunc(rules, func(x namedRule) bool { return x.id == o.Rule && x.DeploymentBracket == nil })
	})
}
