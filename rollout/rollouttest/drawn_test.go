package rollouttest_test

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/internal/testkit"
	"github.com/tranche-dev/tranche/rollout"
	"github.com/tranche-dev/tranche/rollout/rollouttest"
)

// TestDrawnWorlds runs worlds that nobody thought of: every kind of rule with every setting in any
// company, fleets with joiners, leavers, changed labels and nodes that are down, versions that are
// published, scoped, withdrawn and taken back, overrides, freezes that end, are lifted or stay, and jobs that fail,
// hang or do not pass their checks.
// A world checks every plan against the invariants, that nothing happens before Next, and that
// planning again starts nothing. On top of that it is the same through a planner and a store, and
// in whatever order the fleet is listed.
func TestDrawnWorlds(t *testing.T) {
	if testing.Short() {
		t.Skip("whole worlds, twice each")
	}
	seen := testkit.Tally{}
	compiler := newCompiler(t)
	seen.Check(t, func(t *rapid.T) {
		d := drawn{t}
		text, world, accepted := d.governed(compiler, seen)
		if !accepted {
			return
		}
		world.Pure = true
		timeline, err := world.Run(context.Background())
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		for k := 1; k < len(timeline.Entries); k++ {
			if timeline.Entries[k].At.Before(timeline.Entries[k-1].At) {
				t.Fatalf("entry %d lies before the one that is told first:\n%s\n%s", k, timeline, text)
			}
		}
		tally(seen, timeline)
		underFreezes(t, seen, world, timeline, text)
		for _, p := range timeline.Pools { // nothing in these worlds has a holder need a further pool
			if slices.ContainsFunc(world.Fleet.Targets, func(t rollout.Target) bool { return t.JoinedAt.After(world.Start) }) {
				p.Total = len(world.Fleet.Resources) // at most; p has the members when most were active, which may have been before others joined
			}
			if most := perPeriod(world.Policies, p); p.Began > 0 && len(world.Fleet.Overrides) == 0 {
				if seen["began"]++; p.Began > most {
					t.Fatalf("%d began within %d s in %s, and %d may\n%s\n%s", p.Began, p.PeriodSeconds, p.Pool, most, timeline, text)
				}
			}
		}
		if world.Every > 0 {
			polled(t, seen, world, timeline)
		}

		other := world
		other.Pure = false
		other.Fleet.Targets, other.Fleet.Resources = backwards(world.Fleet.Targets), backwards(world.Fleet.Resources)
		other.Fleet.Versions, other.Fleet.Approvals = backwards(world.Fleet.Versions), backwards(world.Fleet.Approvals)
		other.Fleet.Freezes = backwards(world.Fleet.Freezes)
		again, err := other.Run(context.Background())
		if err != nil {
			t.Fatalf("through a planner: %v\n%s", err, text)
		}
		if diff := cmp.Diff(happened(timeline), happened(again)); diff != "" {
			t.Fatalf("a planner with a store, and the fleet backwards, make another world of it (-pure +planner):\n%s\n%s", diff, text)
		}
	}, "done", "over", "cut off", "rollback", "second attempt", "verified", "failed check", "stuck", "failed bracket", "hook", "down anyway", "approval_missing",
		"progression_waiting", "dependency_unmet", "cooldown", "window_closed", "rollout_not_due", "slot_full", "bracket_not_due", "bracket_queued", "retry_backoff", "retry_exhausted",
		"rollback_triggered", "polled", "between two looks", "began", "slot_rate_full", "slot_exclusive", "slot_halted", "frozen", "thawed", "lifted", "finished under a freeze")
}

// underFreezes checks that nothing starts under a freeze but what may finish, as the timeline tells it,
// and notes what started when a freeze was over.
func underFreezes(t *rapid.T, seen testkit.Tally, world rollouttest.World, timeline rollouttest.Timeline, policies string) {
	var lifted []time.Time
	for _, c := range world.Changes {
		if c.What == lift {
			lifted = append(lifted, c.At)
		}
	}
	begun := map[string]bool{} // executions, and versions of targets
	for _, e := range timeline.Entries {
		if e.Kind != rollouttest.Start {
			continue
		}
		own := fmt.Sprint(e.Resource, e.Environment, e.Deployment, e.Version)
		if e.Role != "" {
			own = e.Group + e.Resource
		}
		for _, z := range world.Fleet.Freezes {
			if z.Resource != "" && z.Resource != e.Resource || z.Environment != "" && z.Environment != e.Environment || z.Deployment != "" && z.Deployment != e.Deployment {
				continue
			}
			early := slices.ContainsFunc(lifted, func(at time.Time) bool { return !at.Before(z.CreatedAt) && !at.After(e.At) })
			switch {
			case e.At.Before(z.CreatedAt):
			case early:
				seen["lifted"]++
			case !z.ExpiresAt.IsZero() && !e.At.Before(z.ExpiresAt):
				seen["thawed"]++
			case z.FinishBegun && (e.Purpose == rollout.PurposeRollback || begun[own]):
				seen["finished under a freeze"]++
			default:
				t.Fatalf("%v starts under %+v\n%s\n%s", e, z, timeline, policies)
			}
		}
		begun[own] = true
	}
}

// perPeriod returns how many may begin in a pool within the period of its rate.
func perPeriod(set *rollout.PolicySet, p rollouttest.Peak) int {
	for _, policy := range set.Policies() {
		for _, rule := range policy.Rules {
			if c := rule.ResourceConcurrency; c != nil && c.Rate != nil {
				if key := c.PoolKey(rule.ID, ""); p.Pool == key || strings.HasPrefix(p.Pool, strings.TrimSuffix(key, "/")+"/") {
					return c.Rate.Limit.Of(p.Total, c.Rounding)
				}
			}
		}
	}
	return 0
}

// polled checks that a host that polls does nothing between its looks, that the timeline is in order
// all the same, and that time does not stop for it.
func polled(t *rapid.T, seen testkit.Tally, world rollouttest.World, timeline rollouttest.Timeline) {
	seen["polled"]++
	var last time.Time
	for _, e := range timeline.Entries {
		look := e.At.Sub(timeline.Start)%world.Every == 0
		switch {
		case e.Kind == rollouttest.Start || e.Kind == rollouttest.Wait:
			if !look {
				t.Fatalf("a host that looks every %s from %s on acts at %s: %v", world.Every, timeline.Start, e.At, e)
			}
		case e.Kind == rollouttest.Stuck:
			continue // since when
		case !look:
			seen["between two looks"]++
		}
		if e.At.Before(last) {
			t.Fatalf("%v comes after what happened at %s", e, last)
		}
		last = e.At
	}
}

// tally notes what came about in a world.
func tally(seen testkit.Tally, t rollouttest.Timeline) {
	switch {
	case t.Done:
		seen["done"]++
	case t.CutOff:
		seen["cut off"]++
	default:
		seen["over"]++
	}
	for _, e := range t.Entries {
		switch {
		case e.Kind == rollouttest.Start && e.Purpose == rollout.PurposeRollback:
			seen["rollback"]++
		case e.Kind == rollouttest.Start && e.Attempt > 1:
			seen["second attempt"]++
		case e.Kind == rollouttest.Start && e.Role == bracket.Pre:
			seen["hook"]++
		case e.Kind == rollouttest.Verify && e.Status == string(rollout.VerificationFailed):
			seen["failed check"]++
		case e.Kind == rollouttest.Verify:
			seen["verified"]++
		case e.Kind == rollouttest.Stuck:
			seen["stuck"]++
		case e.Event == bracket.GroupMerged:
			seen["merged"]++
		case e.Event == bracket.ExecutionEnded && e.Status == string(bracket.StatusFailed):
			seen["failed bracket"]++
		}
		switch e.Reason {
		case "slot_already_down":
			seen["down anyway"]++
		case rollout.ReasonOverridden:
			seen["overridden"]++
		}
		for _, blocker := range e.Blockers {
			seen[string(blocker.Reason)]++
			if blocker.Reason == "slot_quarantined" {
				seen["quarantined"]++
			}
		}
	}
}

// happened is what a timeline tells apart from the arrivals, which follow the lists of the fleet.
func happened(t rollouttest.Timeline) []rollouttest.Entry {
	return slices.DeleteFunc(slices.Clone(t.Entries), func(e rollouttest.Entry) bool { return e.Kind == rollouttest.Arrival })
}

// played runs a drawn world.
func played(t *rapid.T, w rollouttest.World, text string) rollouttest.Timeline {
	t.Helper()
	timeline, err := w.Run(context.Background())
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return timeline
}

// sameIfKnown checks that a world in which people answer, of which the timeline is given, is the one in
// which it is known from the start what they will say.
func sameIfKnown(t *rapid.T, known rollouttest.World, asked rollouttest.Timeline, text string) {
	t.Helper()
	if diff := cmp.Diff(happened(played(t, known, text)), happened(asked)); diff != "" {
		t.Fatalf("people answer, and it is known what they will say (-known +asked):\n%s\n%s", diff, text)
	}
}

func backwards[T any](list []T) []T {
	list = slices.Clone(list)
	slices.Reverse(list)
	return list
}

// drawn draws policies and worlds.
type drawn struct{ *rapid.T }

func (d drawn) chance(percent int) bool {
	return rapid.IntRange(0, 99).Draw(d.T, "chance") >= 100-percent
}

func (d drawn) of(list ...string) string { return rapid.SampledFrom(list).Draw(d.T, "of") }

func (d drawn) number(list ...int) int { return rapid.SampledFrom(list).Draw(d.T, "number") }

func (d drawn) seconds(list ...int) string { return strconv.Itoa(d.number(list...)) }

func (d drawn) maybe(percent int, text func() string) string {
	if !d.chance(percent) {
		return ""
	}
	return "," + text()
}

// when is an instant of the first 30 hours.
func (d drawn) when() time.Time {
	return at(1, 8, 0).Add(time.Duration(rapid.IntRange(0, 360).Draw(d.T, "when")) * 5 * time.Minute)
}

// governed draws policies and a world under them. It is not accepted if the policies are refused.
func (d drawn) governed(compiler rollout.Compiler, seen testkit.Tally) (text string, world rollouttest.World, accepted bool) {
	text, policies, set := d.compiled(compiler)
	if set == nil {
		seen["refused"]++
		return text, world, false
	}
	return text, d.world(set, policies), true
}

// compiled draws policies. The set is nil if they are refused, such as for rules that need one
// another in a circle.
func (d drawn) compiled(compiler rollout.Compiler) (text string, policies []rollout.Policy, set *rollout.PolicySet) {
	text = d.policies()
	policies, err := rollout.ParsePolicies([]byte(text))
	if err != nil {
		d.Fatalf("%v\n%s", err, text)
	}
	if set, err = rollout.Compile(policies, compiler); err != nil {
		set = nil
	}
	return text, policies, set
}

func (d drawn) policies() string {
	bracketed := d.chance(50)
	var policies []string
	for k := range rapid.IntRange(1, 3).Draw(d.T, "policies") {
		var rules []string
		if bracketed && k == 0 {
			rules = append(rules, `{"id":"bracket",`+d.bracket()+`}`)
		}
		for n, rule := range []func() string{
			d.limit, d.limit, func() string { return d.curve(bracketed && k == 0) }, d.dependency, d.versions, d.approval, d.progression, d.cooldown, d.window, d.window, d.retry, d.rollback, d.budget,
		} {
			if d.chance(28) {
				rules = append(rules, fmt.Sprintf(`{"id":"%d.%d",%s}`, k, n, rule()))
			}
		}
		selector := "true"
		if k > 0 {
			selector = d.of("true", "environment.name == 'prod'", "deployment.name == 'b'", "deployment.name == 'c'", "resource.metadata['region'] == 'eu'")
		}
		policies = append(policies, fmt.Sprintf(`{"name":"p%d","selector":"%s","rules":[%s]}`, k, selector, strings.Join(rules, ",")))
	}
	return "[" + strings.Join(policies, ",") + "]"
}

// bracket drains with a, upgrades b and c, and restores with d.
func (d drawn) bracket() string {
	return `"deploymentBracket":{"deploymentSelector":"` + d.of("true", "deployment.name != 'c'") + `",` +
		d.of(`"readinessMode":"immediate"`, `"readinessWindowSeconds":600`, `"readinessMode":"wait_for_all","readinessWindowSeconds":3600`) +
		d.maybe(80, func() string { return `"memberRoles":{"pre":"deployment.name == 'a'","post":"deployment.name == 'd'"}` }) +
		d.maybe(50, func() string {
			return `"onMemberFailure":"` + d.of("hold", "run_post", "rollback_member", "rollback_all") + `"`
		}) +
		d.maybe(30, func() string { return `"unchangedMemberStrategy":"redeploy_current"` }) +
		d.maybe(40, func() string { return `"overlapStrategy":"merge","preparedStatePersists":true` }) +
		d.maybe(30, func() string { return `"stuckAfterSeconds":` + d.seconds(300, 7200) }) + `}`
}

func (d drawn) limit() string {
	return `"resourceConcurrency":{"groupSelector":"` + d.of("true", "resource.metadata['region'] == 'eu'", "resource.name != 'r1'") + `","limit":` + d.of("1", "2", `"50%"`, `"34%"`) +
		d.maybe(30, func() string {
			return `"groupBy":"resource.metadata['region']"` + d.maybe(50, func() string { return `"maxActiveKeys":1` })
		}) +
		d.maybe(20, func() string { return `"strict":true` }) +
		d.maybe(20, func() string { return `"exclusive":true` }) +
		d.maybe(20, func() string { return `"haltAboveUnavailable":` + d.of("0", "1", `"34%"`) }) +
		d.maybe(25, func() string {
			return `"rate":{"limit":` + d.of("1", "2", `"50%"`) + `,"periodSeconds":` + d.seconds(120, 3600) + `}`
		}) +
		d.maybe(30, func() string { return `"rounding":"` + d.of("ceil", "floor", "floor_min_1") + `"` }) +
		d.maybe(60, func() string {
			return `"stuckAfterSeconds":` + d.seconds(300, 3600) + d.maybe(60, func() string {
				return `"onStuck":"quarantine"` + d.maybe(40, func() string { return `"quarantineAllowance":1` })
			})
		}) + `}`
}

func (d drawn) curve(bracketed bool) string {
	keys := []string{"target", "resource"}
	if bracketed {
		keys = []string{"resource", "resource_bracket"}
	}
	return `"gradualRollout":{` + d.of(`"rolloutType":"linear"`, `"rolloutType":"linear-normalized"`, `"rolloutType":"exponential","positionGrowthFactor":2`, `"rolloutType":"waves","waves":[1,"50%"]`) +
		`,"timeScaleInterval":` + d.seconds(0, 60, 1800, 7200) + d.maybe(60, func() string { return `"orderKey":"` + d.of(keys...) + `"` }) + `}`
}

func (d drawn) dependency() string {
	return `"deploymentDependency":{"dependsOn":"deployment.name == 'b'` + d.of("", " && version.tag >= '2'") + `","appliesTo":"deployment.name == 'c'"` + d.maybe(30, func() string { return `"match":"all"` }) + `}`
}

func (d drawn) versions() string {
	return `"versionSelector":{"selector":"` + d.of("version.tag != '3'", "version.metadata['channel'] == 'stable'", "resource.name != 'r2' || version.tag != '2'") + `"}`
}

func (d drawn) budget() string {
	most := d.of(`"maxFailures":0`, `"maxFailures":1`, `"maxFailures":"30%"`, `"maxFailureRate":"30%","minimumSample":2`, `"maxFailures":2,"maxFailureRate":"50%","minimumSample":1`)
	return `"failureBudget":{` + most + d.maybe(30, func() string { return `"anyEnvironment":true` }) + d.maybe(40, func() string { return `"onVerificationFailure":true` }) + `}`
}

func (d drawn) approval() string {
	return `"anyApproval":{"minApprovals":` + d.seconds(0, 1, 1, 2) + `}`
}

func (d drawn) progression() string {
	return `"environmentProgression":{"dependsOnEnvironmentSelector":"environment.name == 'staging'"` + d.maybe(40, func() string { return `"minimumSuccessPercentage":50` }) +
		d.maybe(50, func() string { return `"minimumSoakTimeMinutes":30` }) + d.maybe(20, func() string { return `"maximumAgeHours":4` }) + d.maybe(20, func() string { return `"requireVerificationPassed":true` }) + `}`
}

func (d drawn) cooldown() string {
	return `"versionCooldown":{"intervalSeconds":` + d.seconds(600, 7200) + `}`
}

func (d drawn) window() string {
	return `"deploymentWindow":{` + d.of(
		`"weekly":{"days":["mon","tue","wed","thu","fri"],"start":"09:00","end":"17:00"}`, `"rrule":"FREQ=DAILY;BYHOUR=9;BYMINUTE=0;BYSECOND=0","durationMinutes":120`,
		`"rrule":"FREQ=DAILY;BYHOUR=0,6,12,18;BYMINUTE=30;BYSECOND=0","durationMinutes":45`, `"allowWindow":false,"from":"2026-03-10T10:00:00Z","until":"2026-03-10T12:00:00Z"`,
		`"allowWindow":false,"rrule":"FREQ=DAILY;BYHOUR=12;BYMINUTE=0;BYSECOND=0","durationMinutes":60`,
	) + d.maybe(30, func() string { return `"minimumRemainingMinutes":` + d.seconds(5, 30) }) + d.maybe(30, func() string { return `"firstDeploy":"apply"` }) + `}`
}

func (d drawn) retry() string {
	return `"retry":{"maxRetries":` + d.seconds(0, 1, 2, 3) + `,"backoffSeconds":` + d.seconds(0, 60, 900) + d.maybe(40, func() string { return `"backoffStrategy":"exponential"` }) + `}`
}

func (d drawn) rollback() string {
	return `"rollback":{` + d.of(`"onJobStatuses":["failure"]`, `"onVerificationFailure":true`, `"onJobStatuses":["failure","cancelled"],"onVerificationFailure":true`,
		`"onVersionStatuses":["building"]`, `"onFailureBudget":true`, `"onVersionStatuses":["building"],"onFailureBudget":true,"onJobStatuses":["failure"]`) + `}`
}

func (d drawn) world(set *rollout.PolicySet, policies []rollout.Policy) rollouttest.World {
	var f rollout.Snapshot
	for _, id := range []string{"prod", "staging"}[:d.number(1, 1, 2)] {
		f.Environments = append(f.Environments, rollout.Environment{ID: id, Name: id})
	}
	for _, id := range []string{"a", "b", "c", "d"}[:d.number(1, 2, 3, 4, 4)] {
		f.Deployments = append(f.Deployments, rollout.Deployment{ID: id, Name: id})
		d.release(&f, id)
	}
	for r := range rapid.IntRange(1, 4).Draw(d.T, "resources") {
		d.join(&f, fmt.Sprintf("r%d", r), r)
	}
	var rules []string
	for _, p := range policies {
		for _, r := range p.Rules {
			rules = append(rules, r.ID)
		}
	}
	for k := range d.number(0, 0, 1, 2) {
		if len(rules) > 0 {
			o := rollout.Override{ID: fmt.Sprint(k), Rule: d.of(rules...), Version: rapid.SampledFrom(f.Versions).Draw(d.T, "let past").ID, CreatedAt: d.when(), CreatedBy: "ann", Reason: "urgent"}
			if d.chance(60) {
				o.ExpiresAt = o.CreatedAt.Add(time.Duration(d.number(1, 30, 300)) * time.Minute)
			}
			if d.chance(50) {
				o.Resource = d.of("r0", "r1")
			}
			f.Overrides = append(f.Overrides, o)
		}
	}
	for k := range d.number(0, 0, 0, 1, 1, 2) {
		z := d.freeze(fmt.Sprint("z", k), d.when())
		if d.chance(40) { // while a version is on its way
			z.CreatedAt = rapid.SampledFrom(f.Versions).Draw(d.T, "frozen").CreatedAt.Add(time.Duration(d.number(1, 3, 10, 30, 60)) * time.Minute)
			z.ExpiresAt, z.FinishBegun = z.CreatedAt.Add(time.Hour), true
		}
		f.Freezes = append(f.Freezes, z)
	}
	w := rollouttest.World{Policies: set, Fleet: f, Start: at(1, 8, 0), End: at(6, 0, 0), Job: d.jobs(), Every: time.Duration(d.number(0, 0, 0, 7, 60)) * time.Minute}
	for range d.number(0, 0, 1, 2, 3) {
		w.Changes = append(w.Changes, d.change(&f))
	}
	return w
}

// freeze draws a freeze, more often a narrow one, that mostly ends by itself.
func (d drawn) freeze(id string, from time.Time) rollout.Freeze {
	z := rollout.Freeze{ID: id, CreatedAt: from, CreatedBy: "bob", Reason: "INC-7", FinishBegun: d.chance(40)}
	switch d.of("", "resource", "resource", "environment", "deployment", "target") {
	case "resource":
		z.Resource = d.of("r0", "r1", "r2")
	case "environment":
		z.Environment = d.of("prod", "staging")
	case "deployment":
		z.Deployment = d.of("a", "b", "c", "d")
	case "target":
		z.Resource, z.Environment, z.Deployment = d.of("r0", "r1"), "prod", d.of("a", "b")
	}
	if d.chance(85) {
		z.ExpiresAt = from.Add(time.Duration(d.number(1, 5, 30, 300, 1500)) * time.Minute)
	}
	z.PauseCurves = z.Resource == "" && d.chance(60)
	return z
}

// lift is the change that ends all freezes.
const lift = "all freezes are lifted"

// release adds one to three versions of a deployment, and what people think of them.
func (d drawn) release(f *rollout.Snapshot, deployment string) {
	for n := range d.number(2, 3, 4) {
		v := version(deployment, fmt.Sprintf("%s%d", deployment, n+1), at(-3, 0, 0))
		v.Tag, v.Metadata = strconv.Itoa(n+1), map[string]string{"channel": d.of("stable", "stable", "beta")}
		if n > 0 {
			v.CreatedAt, v.Priority = d.when(), d.number(0, 0, 0, 1, -1)
			if d.chance(15) {
				v.TargetSelector = d.of("resource.metadata['region'] == 'eu'", "environment.name == 'prod'", "resource.name == 'r1'")
			}
			if d.chance(10) {
				v.Status = rollout.VersionStatus(d.of("paused", "building"))
			}
			if d.chance(10) {
				v.Metadata = nil
			}
		}
		f.Versions = append(f.Versions, v)
		for _, e := range f.Environments {
			for _, by := range []string{"ann", "bob"} {
				if d.chance(70) {
					f.Approvals = append(f.Approvals, rollout.Approval{Version: v.ID, Deployment: deployment, Environment: e.ID, By: by, Status: rollout.ApprovalStatus(d.of("approved", "approved", "rejected")), At: d.when()})
				}
			}
		}
	}
}

// join adds a resource, mostly to one environment, with mostly all deployments.
func (d drawn) join(f *rollout.Snapshot, id string, n int) {
	f.Resources = append(f.Resources, rollout.Resource{ID: id, Name: id, Metadata: map[string]string{"region": d.of("eu", "us")}})
	in := f.Environments
	if len(in) == 2 && d.chance(80) {
		in = in[n%2 : n%2+1]
	}
	var joined time.Time
	if d.chance(12) {
		joined = d.when()
	}
	for _, e := range in {
		for _, deployment := range f.Deployments {
			if d.chance(8) {
				continue
			}
			t := rollout.Target{TargetID: rollout.TargetID{Resource: id, Environment: e.ID, Deployment: deployment.ID}, Current: deployment.ID + "1", JoinedAt: joined, Priority: d.number(0, 0, 0, 1)}
			if d.chance(12) {
				t.Current = ""
			} else if d.chance(6) {
				t.OutdatedAt = d.when()
			}
			f.Targets = append(f.Targets, t)
		}
	}
}

// change is one of the things that happen to a fleet while it is deployed to.
func (d drawn) change(f *rollout.Snapshot) rollouttest.Change {
	id, at := d.of("r0", "r1", "r2"), d.when()
	switch d.of("down", "up", "relabelled", "version", "deleted", "lifted") {
	case "lifted":
		return rollouttest.Change{At: at, What: lift, Do: func(s *rollout.Snapshot) { s.Freezes = nil }}
	case "down":
		return rollouttest.Change{At: at, What: id + " goes down", Do: func(s *rollout.Snapshot) { s.Unavailable = append(s.Unavailable, id) }}
	case "up":
		return rollouttest.Change{At: at, What: "all come back", Do: func(s *rollout.Snapshot) { s.Unavailable = nil }}
	case "relabelled":
		return rollouttest.Change{At: at, What: id + " moves", Do: func(s *rollout.Snapshot) {
			for k := range s.Resources {
				if s.Resources[k].ID == id {
					s.Resources[k].Metadata = map[string]string{"region": "us"}
				}
			}
		}}
	case "version":
		v, status := rapid.SampledFrom(f.Versions).Draw(d.T, "version"), rollout.VersionStatus(d.of("ready", "paused", "building"))
		return rollouttest.Change{At: at, What: v.ID + " is " + string(status), Do: func(s *rollout.Snapshot) {
			for k := range s.Versions {
				if s.Versions[k].ID == v.ID {
					s.Versions[k].Status = status
				}
			}
		}}
	}
	return rollouttest.Change{At: at, What: id + " is deleted", Do: func(s *rollout.Snapshot) {
		s.Targets = slices.DeleteFunc(s.Targets, func(t rollout.Target) bool { return t.Resource == id })
		s.Resources = slices.DeleteFunc(s.Resources, func(r rollout.Resource) bool { return r.ID == id })
		s.DeletedResources = append(s.DeletedResources, id)
	}}
}

// jobs decides what becomes of a run by its name alone, so that a world repeats itself.
func (d drawn) jobs() func(rollout.Start, int) rollouttest.Outcome {
	salt, bad := rapid.Uint64().Draw(d.T, "salt"), d.number(0, 0, 10, 30)
	return func(start rollout.Start, attempt int) rollouttest.Outcome {
		h := fnv.New64a()
		fmt.Fprint(h, start.Run, attempt, salt)
		r := rand.New(rand.NewPCG(h.Sum64(), salt))
		o := rollouttest.Outcome{After: []time.Duration{0, time.Minute, 3 * time.Minute, 10 * time.Minute, 45 * time.Minute}[r.IntN(5)]}
		switch {
		case r.IntN(100) < bad:
			switch r.IntN(8) {
			case 0:
				o.Status = rollout.JobInProgress
			case 1:
				o.Status = rollout.JobCancelled
			case 2:
				o.Status = rollout.JobSkipped
			case 3, 4:
				o.Verification, o.VerifiedAfter = rollout.VerificationFailed, 7*time.Minute
			default:
				o.Status = rollout.JobFailure
			}
		case r.IntN(5) == 0:
			o.Verification, o.VerifiedAfter = rollout.VerificationPassed, 4*time.Minute
		}
		return o
	}
}
