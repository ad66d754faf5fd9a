package rollout_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/internal/testkit"
	"github.com/tranche-dev/tranche/rollout"
	"github.com/tranche-dev/tranche/rollout/rollouttest"
)

// lintWorld is a small fleet under small policies, in which everything succeeds: what does not
// happen in it within the horizon does not happen.
type lintWorld struct {
	policies string
	fleet    rollout.Snapshot
	options  rollout.LintOptions
	window   [2]time.Time // the only window, if there is one rule about windows and it allows
}

const lintHorizon = 6 * time.Hour

// genLintWorld draws one. Every rule comes from a short menu in which some are sound and some can
// never let anybody pass.
func genLintWorld(t *rapid.T) lintWorld {
	pick := func(label string, menu ...string) string { return oneOf(t, label, menu...) }
	one := func(label string, outOf int) bool { return uniform(t, label, outOf) == outOf-1 }
	w := lintWorld{options: rollout.LintOptions{Durations: map[string]time.Duration{}}}

	theme := pick("theme", "", "", "", "hook", "circle", "mixed", "roles", "tight", "stages") // what chance alone brings together too rarely

	environments := []string{"prod"}
	if theme == "stages" || !one("one environment", 3) {
		environments = append(environments, "staging")
	}
	deployments := []string{"db", "drain", "web"}
	for _, e := range environments {
		w.fleet.Environments = append(w.fleet.Environments, rollout.Environment{ID: e, Name: e})
	}
	for _, d := range deployments {
		w.fleet.Deployments = append(w.fleet.Deployments, rollout.Deployment{ID: d, Name: d})
		w.options.Durations[d] = time.Duration(oneOf(t, "minutes", 1, 20, 50)) * time.Minute
		for n, id := range []string{"v1", "v2"} {
			if d == "drain" && (theme == "hook" || one("the drain was never released", 6)) {
				continue
			}
			v := rollout.Version{ID: id, Tag: id, Deployment: d, Status: rollout.VersionReady, CreatedAt: t0.Add(time.Duration(n-2) * 24 * time.Hour)}
			switch {
			case n == 0:
			case theme == "mixed" && d == "db": // with the rule of the theme, a circle of both
				v.Dependencies = []rollout.VersionDependency{{Deployment: "web", VersionSelector: "version.tag == 'v2'"}}
			case one("needs a version", 8):
				v.Dependencies = []rollout.VersionDependency{{Deployment: pick("of", "db", "web"), VersionSelector: pick("which", "version.tag == 'v2'", "version.tag == 'v1'", "version.tag == 'v3'")}}
			}
			w.fleet.Versions = append(w.fleet.Versions, v)
		}
	}
	for r := range between(t, "resources", 1, 3) {
		id := fmt.Sprintf("r%d", r+1)
		w.fleet.Resources = append(w.fleet.Resources, rollout.Resource{ID: id, Name: id, Metadata: map[string]string{"cluster": []string{"east", "west"}[r%2], "rack": []string{"7", "four", "9"}[r]}})
		for _, e := range environments {
			for _, d := range deployments {
				if one("missing", 7) {
					continue
				}
				current := ""
				if slices.ContainsFunc(w.fleet.Versions, func(v rollout.Version) bool { return v.Deployment == d && v.ID == "v1" }) && !one("runs nothing", 4) {
					current = "v1"
				}
				target := rollout.Target{TargetID: rollout.TargetID{Resource: id, Environment: e, Deployment: d}}
				if current != "" {
					ended := t0.Add(-24 * time.Hour)
					target.Jobs = []rollout.Job{{Run: "old", Version: current, Status: rollout.JobSuccessful, CreatedAt: ended, CompletedAt: ended}}
				}
				w.fleet.Targets = append(w.fleet.Targets, target)
			}
		}
	}
	approvers := []string{"ann", "bob"}[:between(t, "approvers", 0, 2)]
	w.options.Approvers = approvers
	for _, v := range w.fleet.Versions {
		for _, e := range environments {
			for _, by := range approvers {
				w.fleet.Approvals = append(w.fleet.Approvals, rollout.Approval{Version: v.ID, Deployment: v.Deployment, Environment: e, By: by, Status: rollout.Approved, At: t0.Add(10 * time.Minute)})
			}
		}
	}

	windows, id := 0, 0
	rule := func(kind string) string {
		id++
		text := ""
		switch kind {
		case "limit":
			text = `"resourceConcurrency":{"groupSelector":"` + pick("group", "true", "resource.metadata['cluster'] == 'west'") + `","limit":` + pick("limit", "0", "1", "1", `"20%"`, `"20%"`) + `,"rounding":"` + pick("rounding", "ceil", "floor") + `"}`
		case "window":
			windows++ // one that allows is kept, to see what fits into it
			from := t0.Add(time.Duration(oneOf(t, "from", -48, 0, 2, 7)) * time.Hour)
			until := from.Add(time.Duration(oneOf(t, "hours", 1, 3, 12)) * time.Hour)
			allow := one("allow", 2)
			if allow {
				w.window = [2]time.Time{from, until}
			}
			text = fmt.Sprintf(`"deploymentWindow":{"from":%q,"until":%q,"allowWindow":%v,"minimumRemainingMinutes":%s%s}`, from.Format(time.RFC3339), until.Format(time.RFC3339), allow,
				pick("remaining", "0", "0", "120"), pick("first", "", `,"firstDeploy":"apply"`))
		case "dependency":
			text = `"deploymentDependency":{"dependsOn":"` +
				pick("on", "deployment.name == 'db'", "deployment.name == 'web'", "deployment.name == 'db' && version.tag == 'v2'", "deployment.name == 'web' && version.tag == 'v2'", "deployment.name == 'queue'", "deployment.name == 'db' && version.tag == 'v3'", "deployment.name != 'web'") +
				`","appliesTo":"deployment.name == '` + pick("to", "web", "db", "web", "db", "queue") + `'"` + pick("how", "", "", `,"match":"all"`, `,"anyEnvironment":true`) + `}`
		case "progression":
			text = `"environmentProgression":{"dependsOnEnvironmentSelector":"environment.name == '` + pick("environment", "staging", "staging", "prod", "qa") + `'","minimumSoakTimeMinutes":` + pick("soak", "0", "30", "60", "90") +
				pick("age", "", "", `,"maximumAgeHours":1`) + pick("share", "", "", `,"minimumSuccessPercentage":50`) + `}`
		case "approval":
			text = `"anyApproval":{"minApprovals":` + pick("approvals", "0", "1", "2") + `}`
		case "gradual":
			text = `"gradualRollout":{"rolloutType":"linear","timeScaleInterval":` + pick("interval", "600", "600", "600", "9000000000") + `}`
		case "selector":
			text = `"versionSelector":{"selector":"` + pick("selected", "version.tag != 'v3'", "deployment.name != 'db' || int(version.tag) > 1", "int(resource.metadata['rack']) > 3") + `"}`
		case "bracket":
			text = `"deploymentBracket":{"deploymentSelector":"` + pick("members", "true", "deployment.name != 'db'", "deployment.name == 'drain'") + `","readinessMode":"immediate","memberRoles":` +
				pick("roles", "{}", `{"pre":"deployment.name == 'drain'"}`, `{"pre":"deployment.name == 'drain'"}`, `{"pre":"deployment.name == 'drain'","post":"deployment.name == 'db'"}`) + `}`
		}
		return fmt.Sprintf(`{"id":"rule-%d",%s}`, id, text)
	}
	var policies []string
	add := func(selector string, rules ...string) {
		policies = append(policies, fmt.Sprintf(`{"name":"theme-%d","selector":"%s","rules":[%s]}`, len(policies), selector, strings.Join(rules, ",")))
	}
	drained := `{"id":"theme-b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{"pre":"deployment.name == 'drain'"}}}`
	needs := func(id, who, whom string) string {
		return `{"id":"theme-` + id + `","deploymentDependency":{"dependsOn":"deployment.name == '` + whom + `'` + pick("version", "", " && version.tag == 'v2'") + `","appliesTo":"deployment.name == '` + who + `'"}}`
	}
	switch theme {
	case "hook":
		add("true", drained)
	case "circle":
		add("true", needs("x", "web", "db"), needs("y", "db", "web"))
	case "mixed":
		add("true", needs("x", "web", "db"))
	case "roles":
		add("true", drained, needs("x", "drain", "web"))
	case "tight":
		windows++
		w.window = [2]time.Time{t0.Add(time.Hour), t0.Add(2 * time.Hour)}
		for _, d := range deployments {
			w.options.Durations[d] = time.Duration(oneOf(t, "minutes", 20, 31)) * time.Minute
		}
		add("true", drained, `{"id":"theme-w","deploymentWindow":{"from":"2025-01-01T01:00:00Z","until":"2025-01-01T02:00:00Z","firstDeploy":"apply"}}`)
	case "stages":
		add("environment.name == 'prod'", `{"id":"theme-x","environmentProgression":{"dependsOnEnvironmentSelector":"environment.name == 'staging'"}}`)
		add("environment.name == 'staging'", `{"id":"theme-y","environmentProgression":{"dependsOnEnvironmentSelector":"environment.name == 'prod'"}}`)
	}
	for n := range between(t, "policies", 1, 3) - min(1, len(policies)) {
		menu := []string{"limit", "window", "dependency", "progression", "approval", "gradual", "bracket", "selector"}
		kinds := []string{pick("kind", menu...)}
		switch more := pick("more", menu...); {
		case more != kinds[0]:
			kinds = append(kinds, more)
		case more == "dependency":
			kinds = append(kinds, "dependency", "dependency")
		}
		var rules []string
		for _, kind := range kinds {
			rules = append(rules, rule(kind))
		}
		policies = append(policies, fmt.Sprintf(`{"name":"policy-%d","selector":"%s","rules":[%s]}`, n, pick("selector", "true", "true", "environment.name == 'prod'", "environment.name == 'staging'", "deployment.name == 'web'", "resource.name == 'r1'"), strings.Join(rules, ",")))
	}
	if windows != 1 {
		w.window = [2]time.Time{}
	}
	w.policies = "[" + strings.Join(policies, ",") + "]"
	return w
}

// run lets the world take its course, with the real planner.
func (w lintWorld) run(set *rollout.PolicySet) (rollouttest.Timeline, error) {
	return rollouttest.World{
		Policies: set, Fleet: w.fleet, Start: t0, End: t0.Add(lintHorizon), Job: rollouttest.Durations(w.options.Durations), Pure: true, Trust: true,
	}.Run(context.Background())
}

// lintCovers says which code answers for a reason by which something can wait for ever.
func lintCovers(reason rollout.Reason) []rollout.LintCode {
	switch reason {
	case rollout.ReasonWindowClosed, rollout.ReasonWindowTooShort:
		return []rollout.LintCode{rollout.LintWindowNeverOpens, rollout.LintFreezeCoversOpenings}
	case "slot_paused":
		return []rollout.LintCode{rollout.LintLimitZero}
	case rollout.ReasonSelectorError:
		return []rollout.LintCode{rollout.LintSelectorFails}
	case rollout.ReasonDependencyUnmatched:
		return []rollout.LintCode{rollout.LintDependencyUnmatched}
	case rollout.ReasonProgressionNoEnvironment:
		return []rollout.LintCode{rollout.LintProgressionNoEnvironment}
	case rollout.ReasonApprovalMissing:
		return []rollout.LintCode{rollout.LintApprovalUnreachable}
	case rollout.Reason(bracket.ReasonHookWithoutVersion):
		return []rollout.LintCode{rollout.LintBracketHookWithoutVersion}
	}
	return nil
}

// TestLintAgreesWithSimulation: what an error says never starts does not start within the horizon,
// although everything succeeds; and where the world comes to rest while somebody waits for what
// lint knows about, lint has said so.
func TestLintAgreesWithSimulation(t *testing.T) {
	env, seen := newRemembering(t), testkit.Tally{}
	seen.Check(t, func(t *rapid.T) {
		for range 8 {
			checkLintWorld(t, env, seen, genLintWorld(t))
		}
	}, "finished", "cut off", "at rest with waiting", "refused",
		"error window_never_opens", "error freeze_covers_openings", "error limit_zero", "error dependency_cycle", "error dependency_unmatched", "error progression_cycle", "error progression_no_environment",
		"error deadline_below_soak", "error approval_unreachable", "error bracket_no_main", "error bracket_hook_without_version", "error bracket_overlapping", "error dependency_across_roles", "error window_shorter_than_bracket",
		"error selector_fails", "error curve_overflows", "waits selector_error", "waits window_closed", "waits window_too_short", "waits slot_paused", "waits dependency_unmatched", "waits progression_no_environment", "waits approval_missing", "waits bracket_hook_without_version")
}

func checkLintWorld(t *rapid.T, env rollout.Compiler, seen testkit.Tally, w lintWorld) {
	parsed, err := rollout.ParsePolicies([]byte(w.policies))
	if err != nil {
		t.Fatal(err)
	}
	set, err := rollout.Compile(parsed, env)
	if err != nil {
		t.Fatal(err)
	}
	findings, err := set.Lint(w.fleet, t0, lintHorizon, w.options)
	if err != nil {
		t.Fatal(err)
	}
	timeline, err := w.run(set)
	complain := func(format string, args ...any) {
		t.Helper()
		t.Fatalf("%s\n%s\n%v\nfindings %v\n%v", fmt.Sprintf(format, args...), w.policies, w.fleet.Targets, findings, timeline)
	}
	says := func(severity rollout.Severity, codes ...rollout.LintCode) bool {
		return slices.ContainsFunc(findings, func(f rollout.Finding) bool {
			return (severity == "" || f.Severity == severity) && slices.Contains(codes, f.Code)
		})
	}
	if err != nil {
		seen["refused"]++
		code := refusedBy(err)
		if code == "" {
			complain("%v", err)
		}
		if !says(rollout.SeverityError, code) {
			complain("the plan is refused, and lint is silent: %v", err)
		}
	}
	for _, f := range findings {
		if f.Severity == rollout.SeverityError {
			seen["error "+string(f.Code)]++
			if broken := w.broken(timeline, f); broken != "" {
				complain("%s: %s", f, broken)
			}
		}
	}
	if err != nil {
		return
	}
	end := t0.Add(lintHorizon)
	stalled := func(reason rollout.Reason) {
		seen["waits "+string(reason)]++
		codes := lintCovers(reason)
		if reason == rollout.Reason(bracket.ReasonHookWithoutVersion) && slices.ContainsFunc(w.fleet.Versions, func(v rollout.Version) bool { return v.Deployment == "drain" }) {
			return // it has one, which something else holds back: see below
		}
		late := codes[0] == rollout.LintWindowNeverOpens && says("", append(codes, rollout.LintCurveLongerThanWindowPeriod)...) // a turn after the last opening
		if !late && !says(rollout.SeverityError, codes...) {
			complain("%s for ever, and lint is silent", reason)
		}
	}
	for _, entry := range timeline.Entries {
		if entry.Kind != rollouttest.Wait || !entry.At.Equal(t0) {
			continue
		}
		for _, v := range entry.Blockers { // who waits for a window that does not open within the horizon
			if (v.Reason == rollout.ReasonWindowClosed || v.Reason == rollout.ReasonWindowTooShort) && (v.Until.IsZero() || !v.Until.Before(end)) {
				stalled(v.Reason)
			}
		}
	}
	if timeline.CutOff {
		seen["cut off"]++
		return
	}
	if len(timeline.Left) == 0 {
		seen["finished"]++
		return
	}
	for _, left := range timeline.Left {
		for _, v := range left.Blockers {
			if v.Reason != rollout.ReasonWindowClosed && v.Reason != rollout.ReasonWindowTooShort && lintCovers(v.Reason) != nil {
				stalled(v.Reason)
			}
		}
	}
	// Nothing failed, nothing runs, no time is waited for: who waits still waits for ever, and
	// there must be a root of it.
	seen["at rest with waiting"]++
	if !slices.ContainsFunc(findings, func(f rollout.Finding) bool {
		return f.Severity == rollout.SeverityError || f.Code == rollout.LintDependencyUnmatched || f.Code == rollout.LintDependencyCycle || f.Code == rollout.LintDeadlineBelowSoak
	}) && !slices.ContainsFunc(timeline.Left, func(left rollout.Waiting) bool { return w.silentAbout(left) }) {
		complain("somebody waits for ever, and lint is silent")
	}
}

// silentAbout: a hook waits for what is published next; and while something else was waited for, a
// version grew too old that did not have to, or the last opening passed, or passes before a turn
// comes, or the old version that another one needs was overtaken, or what a version needs waits in
// turn for another member of its bracket. Nor does a version of a hook that a gate lets in come to
// a group that was closed before it did, or after it no longer does.
func (w lintWorld) silentAbout(left rollout.Waiting) bool {
	return slices.ContainsFunc(left.Blockers, func(v rollout.Verdict) bool {
		switch v.Reason {
		case rollout.Reason(bracket.ReasonHookWaitsForMain), rollout.ReasonProgressionTooOld, rollout.ReasonWindowClosed, rollout.ReasonWindowTooShort, rollout.ReasonRolloutOverflow:
			return true
		case rollout.ReasonVersionUnmet:
			return strings.Contains(w.policies, "deploymentBracket") || slices.ContainsFunc(w.fleet.Versions, func(v rollout.Version) bool {
				return slices.ContainsFunc(v.Dependencies, func(d rollout.VersionDependency) bool { return strings.Contains(d.VersionSelector, "v1") })
			})
		case rollout.Reason(bracket.ReasonHookWithoutVersion):
			gated := strings.Contains(w.policies, "environmentProgression") || strings.Contains(w.policies, "anyApproval")
			return gated && slices.ContainsFunc(w.fleet.Versions, func(v rollout.Version) bool { return v.Deployment == "drain" })
		}
		return false
	})
}

// refusedBy is the code that answers for an error of Plan.
func refusedBy(err error) rollout.LintCode {
	var cycle *rollout.CycleError
	var inside *bracket.CycleError
	var against *bracket.RoleError
	var overlap *bracket.OverlapError
	switch {
	case errors.As(err, &cycle), errors.As(err, &inside):
		return rollout.LintDependencyCycle
	case errors.As(err, &against):
		return rollout.LintDependencyAcrossRoles
	case errors.As(err, &overlap):
		return rollout.LintBracketOverlapping
	}
	return ""
}

// broken says what happened although an error says that it never does.
func (w lintWorld) broken(timeline rollouttest.Timeline, f rollout.Finding) string {
	end := t0.Add(lintHorizon)
	if f.Code == rollout.LintWindowShorterThanBracket {
		if w.window[0].IsZero() {
			return ""
		}
		began := map[string]time.Time{}
		for _, entry := range timeline.Entries {
			key := entry.Group
			switch {
			case entry.Kind != rollouttest.Bracket || entry.Resource != f.Example.Resource:
			case entry.Event == bracket.ExecutionStarted:
				began[key] = entry.At
			case entry.Event == bracket.ExecutionEnded && !began[key].Before(w.window[0]) && !entry.At.After(w.window[1]):
				return fmt.Sprintf("an execution ran from %v to %v, inside the window", began[key], entry.At)
			}
		}
		return ""
	}
	had := map[rollout.TargetID]string{}
	for _, target := range w.fleet.Targets {
		for _, job := range target.Jobs {
			had[target.TargetID] = job.Version
		}
	}
	started := map[rollout.TargetID]bool{}
	for _, entry := range timeline.Entries {
		if entry.Kind != rollouttest.Start || !entry.At.Before(end) {
			continue
		}
		id := rollout.TargetID{Resource: entry.Resource, Environment: entry.Environment, Deployment: entry.Deployment}
		if strings.HasPrefix(f.Path, "versions[") || f.Code == rollout.LintSelectorFails { // about the version that comes next, which is v2
			started[id] = started[id] || entry.Version == "v2"
			continue
		}
		switch f.Code {
		case rollout.LintProgressionCycle: // it is about new versions; an old one may have been in the other environment before
			started[id] = started[id] || entry.Version == "v2"
		case rollout.LintProgressionNoEnvironment, rollout.LintDeadlineBelowSoak, rollout.LintApprovalUnreachable: // hooks run what they have again
			started[id] = started[id] || entry.Version != had[id]
		default:
			started[id] = true
		}
	}
	idle := 0
	for _, target := range w.fleet.Targets {
		if !started[target.TargetID] {
			idle++
		}
	}
	switch {
	case started[f.Example]:
		return f.Example.String() + " started"
	case idle < f.Targets:
		return fmt.Sprintf("only %d targets never started", idle)
	}
	return ""
}
