package rollout_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tranche-dev/tranche/rollout"
)

// TestExplainTellsEveryAnswer: an explanation has the answer of every rule, in the order of the
// chain, under the kind of the rule, with the instant since which it allows or until which it does
// not. The target is r1/prod/api; the host has a rule as well.
func TestExplainTellsEveryAnswer(t *testing.T) {
	t.Parallel()
	const (
		selectors  = `{"id":"V","versionSelector":{"selector":"version.tag != 'v0'"}},{"id":"N","versionSelector":{"selector":"resource.id != 'r0'"}}`
		refusing   = `{"id":"V","versionSelector":{"selector":"version.tag != 'v2'"}},{"id":"N","versionSelector":{"selector":"resource.id != 'r1'"}}`
		gates      = `,{"id":"A","anyApproval":{"minApprovals":1}},{"id":"E","environmentProgression":{"dependsOnEnvironmentSelector":"environment.id == 'qa'"}}`
		dependsOn  = `,{"id":"D","deploymentDependency":{"appliesTo":"deployment.id == 'api'","dependsOn":"deployment.id == 'db' && version.tag == 'v1'"}},{"id":"O","deploymentDependency":{"appliesTo":"deployment.id == 'db'","dependsOn":"deployment.id == 'api'"}}`
		cooldown   = `,{"id":"C","versionCooldown":{"intervalSeconds":7200}}`
		windows    = `,{"id":"W","deploymentWindow":{"weekly":{"days":["wed"],"start":"00:00","end":"06:00"},"firstDeploy":"apply"}}`
		curve      = `,{"id":"G","gradualRollout":{"rolloutType":"linear","timeScaleInterval":60}}`
		retry      = `,{"id":"R","retry":{"maxRetries":1,"backoffSeconds":600}}`
		pool       = `,{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":1}}`
		back       = `,{"id":"B","rollback":{"onJobStatuses":["failure"]}}`
		bracketed  = `{"id":"K","deploymentBracket":{"deploymentSelector":"deployment.id == 'api'","readinessMode":"immediate","memberRoles":{}}}`
		drained    = `{"id":"K","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{"pre":"deployment.id == 'db'"}}}`
		everything = gates + dependsOn + cooldown + windows + curve + retry + pool + back
	)
	target := func(s *rollout.Snapshot, environment, deployment string) *rollout.Target {
		return &s.Targets[slices.IndexFunc(s.Targets, func(t rollout.Target) bool {
			return t.Resource == "r1" && t.Environment == environment && t.Deployment == deployment
		})]
	}
	ran := func(version string, status rollout.JobStatus, at int) func(*rollout.Snapshot) {
		return func(s *rollout.Snapshot) {
			x := target(s, "prod", "api")
			own := rollout.Job{Run: "r1/prod/api/" + version + "/1", Version: version, Status: status, CreatedAt: minute(at)}
			if status.Terminal() {
				own.CompletedAt = minute(at)
			}
			x.Jobs, x.Current = append(x.Jobs, own), ""
		}
	}
	met := func(s *rollout.Snapshot) {
		s.Approvals = []rollout.Approval{{Version: "v2", Deployment: "api", Environment: "prod", By: "ann", Status: rollout.Approved, At: minute(2).In(time.FixedZone("", 7200))}}
		for k := range s.Targets {
			if x := &s.Targets[k]; x.Environment == "qa" && x.Deployment == "api" {
				x.Current, x.Jobs = "", []rollout.Job{{Run: x.Resource + "/qa/api/v2/1", Version: "v2", Status: rollout.JobSuccessful, CreatedAt: minute(2), CompletedAt: minute(3)}}
			}
		}
		needs(s, "v1")
	}
	override := func(rule string, expires time.Time) func(*rollout.Snapshot) {
		return func(s *rollout.Snapshot) {
			s.Overrides = append(s.Overrides, rollout.Override{ID: "o" + rule, Rule: rule, Version: "v2", CreatedAt: minute(1), ExpiresAt: expires, CreatedBy: "ann", Reason: "urgent"})
		}
	}
	returns := func(status rollout.JobStatus) func(*rollout.Snapshot) {
		return func(s *rollout.Snapshot) {
			ran("v1", status, 2)(s)
			jobs := target(s, "prod", "api").Jobs
			jobs[len(jobs)-1].Run = "r1/prod/api/v1/2/rollback"
		}
	}
	first := func(s *rollout.Snapshot) { target(s, "prod", "db").Current = "" }
	locked := func(rules, deployment string) func(*rollout.Snapshot) { // under these rules a run of the deployment has begun on r1
		return func(s *rollout.Snapshot) {
			plan := mustPlan(t, compile(t, policy(rules)), *s, minute(4))
			plan.Start = slices.DeleteFunc(plan.Start, func(s rollout.Start) bool { return s.Deployment != deployment || s.Resource != "r1" })
			carryOut(t, s, plan, minute(4), rollout.JobInProgress)
		}
	}
	drainedNode := func(s *rollout.Snapshot) {
		own := &target(s, "prod", "db").Jobs[0]
		own.Status, own.CompletedAt = rollout.JobSuccessful, minute(5)
	}
	nothing := func(s *rollout.Snapshot) { target(s, "prod", "api").Current = "" }
	unready := func(s *rollout.Snapshot) { nothing(s); newest(s).Status = rollout.VersionPaused }
	down := func(s *rollout.Snapshot) { s.Unavailable = []string{"r9", "r2"} }
	for _, row := range []struct {
		why   string
		rules string
		play  []func(*rollout.Snapshot)
		at    int
		host  int      // until this minute its rule says no
		want  []string // of the newest versions
	}{
		{why: "nothing is in the way", rules: selectors + everything, play: []func(*rollout.Snapshot){met, ran("v1", rollout.JobSuccessful, -200)}, at: 65, want: []string{
			`v2 waits: + version; + versionSelector V; + versionSelector N; + anyApproval A since 00:02; + environmentProgression E since 00:03; + deploymentDependency D; + deploymentDependency O rule_not_applicable; + versionDependencies; + versionCooldown C; + deploymentWindow W; + gradualRollout G since 00:04; + custom host; ~ resourceConcurrency P slot_full, waits for a free slot in P`,
			`v1 kept: + target current`,
		}},
		{why: "everything is", rules: refusing + strings.ReplaceAll(strings.ReplaceAll(everything, "version.tag == 'v1'", "version.tag == 'v2'"), "00:00", "05:00"), play: []func(*rollout.Snapshot){
			ran("v1", rollout.JobInProgress, -10), func(s *rollout.Snapshot) { needs(s, "v2"); newest(s).Status = rollout.VersionPaused }}, at: 5, host: 9, want: []string{
			`v2 waits: - version version_not_deployable: paused, waits for a version of api; - versionSelector V selector_no_match, waits for a change of the policy; - versionSelector N selector_no_match, waits for a change of the policy; ~ anyApproval A approval_missing (0 of 1 needed), waits for an approval of v2 in prod; ~ environmentProgression E progression_waiting (0 succeeded in qa, 2 needed), waits for successes of api v2 in qa; - deploymentDependency D dependency_unmet db, waits for a new version of db or db on r1; + deploymentDependency O rule_not_applicable; - versionDependencies version_dependency_unmet db: version.tag == 'v2', waits for a new version of db or db on r1; - versionCooldown C cooldown after v1 until 2025-01-01T01:00:00Z, waits for the end of a job of api on r1; ~ deploymentWindow W window_closed until 2025-01-01T05:00:00Z; ~ gradualRollout G rollout_not_started, waits for an approval of v2 in prod and successes of api v2 in qa; ~ custom host change_freeze until 2025-01-01T00:09:00Z; - target target_busy, waits for the end of a job of api on r1`,
			`v1 kept: + target started`,
		}},
		{why: "and overridden", rules: refusing + strings.ReplaceAll(strings.ReplaceAll(everything, "version.tag == 'v1'", "version.tag == 'v2'"), "00:00", "05:00"), play: []func(*rollout.Snapshot){
			ran("v1", rollout.JobSuccessful, -10), override("V", minute(99)), override("N", time.Time{}), override("A", time.Time{}), override("E", time.Time{}), override("D", time.Time{}), override("C", time.Time{}), override("W", time.Time{}),
			override("G", time.Time{}), override("P", minute(98).In(time.FixedZone("", 7200))), down}, at: 5, want: []string{
			`v2 starts: + version; + versionSelector V overridden by ann: oV until 2025-01-01T01:39:00Z since 00:01; + versionSelector N overridden by ann: oN since 00:01; + anyApproval A overridden by ann: oA since 00:01; + environmentProgression E overridden by ann: oE since 00:01; + deploymentDependency D overridden by ann: oD since 00:01; + deploymentDependency O rule_not_applicable; + versionCooldown C overridden by ann: oC since 00:01; + deploymentWindow W overridden by ann: oW since 00:01; + gradualRollout G overridden by ann: oG since 00:01; + custom host; + resourceConcurrency P overridden by ann: oP until 2025-01-01T01:38:00Z since 00:01`,
			`v1 kept: + target current`,
		}},
		{why: "its turn is still to come", rules: selectors + strings.ReplaceAll(curve, "60", "600"), at: 5, want: []string{
			`v2 waits: + version; + versionSelector V; + versionSelector N; ~ gradualRollout G rollout_not_due (turn 2 of 2) until 2025-01-01T00:10:00Z; + custom host`,
		}},
		{why: "the pool is full", rules: selectors + pool, play: []func(*rollout.Snapshot){down}, at: 5, want: []string{
			`v2 waits: + version; + versionSelector V; + versionSelector N; + custom host; ~ resourceConcurrency P slot_full, waits for a free slot in P`,
			`v1 kept: + target current`,
		}},
		{why: "the second attempt waits", rules: selectors + windows + retry + pool, play: []func(*rollout.Snapshot){ran("v2", rollout.JobFailure, 1)}, at: 5, want: []string{
			`v2 waits: + deploymentWindow W; ~ retry R retry_backoff (1 of 2 attempts failed) until 2025-01-01T00:11:00Z`,
		}},
		{why: "it starts", rules: selectors + windows + retry + pool, play: []func(*rollout.Snapshot){ran("v2", rollout.JobFailure, 1)}, at: 11, want: []string{
			`v2 starts: + deploymentWindow W; + retry R; + resourceConcurrency P slot_already_down`,
		}},
		{why: "it waits for a place", rules: selectors + windows + retry + pool, play: []func(*rollout.Snapshot){ran("v2", rollout.JobFailure, 1), down}, at: 11, want: []string{
			`v2 waits: + deploymentWindow W; + retry R; ~ resourceConcurrency P slot_full, waits for a free slot in P`,
		}},
		{why: "there is no other attempt", rules: selectors + pool, play: []func(*rollout.Snapshot){ran("v2", rollout.JobFailure, 1)}, at: 11, want: []string{
			`v2 waits: - retry retry_exhausted (1 of 1 attempts failed), waits for an operator or a version of api`,
		}},
		{why: "but one that an operator lets through", rules: selectors + retry, play: []func(*rollout.Snapshot){ran("v2", rollout.JobFailure, -1), ran("v2", rollout.JobFailure, 0), override("R", time.Time{})}, at: 11, want: []string{
			`v2 starts: + retry R overridden by ann: oR since 00:01`,
		}},
		{why: "and that fails as well", rules: selectors + retry, play: []func(*rollout.Snapshot){override("R", time.Time{}), ran("v2", rollout.JobFailure, 2), ran("v2", rollout.JobFailure, 3)}, at: 33, want: []string{
			`v2 waits: - retry R retry_exhausted (2 of 2 attempts failed), waits for an operator's override or a version of api`,
		}},
		{why: "somebody is at work there", rules: selectors + retry, play: []func(*rollout.Snapshot){ran("v2", rollout.JobFailure, 1), ran("v0", rollout.JobInProgress, 2)}, at: 33, want: []string{
			`v2 waits: + retry R; - target target_busy, waits for the end of a job of api on r1`,
		}},
		{why: "and every attempt may be forgotten, of which none is the newest job", rules: selectors + retry, play: []func(*rollout.Snapshot){override("R", time.Time{}), ran("v2", rollout.JobFailure, 0), ran("v0", rollout.JobInProgress, 2)}, at: 33, want: []string{
			`v2 waits: + retry R overridden by ann: oR since 00:01; - target target_busy, waits for the end of a job of api on r1`,
		}},
		{why: "the oldest version is let past a full pool", rules: selectors + pool, play: []func(*rollout.Snapshot){down, unready, override("P", time.Time{}), func(s *rollout.Snapshot) { s.Overrides[0].Version = "v1" }}, at: 5, want: []string{
			`v2 waits: - version version_not_deployable: paused, waits for a version of api; + versionSelector V; + versionSelector N; + custom host`,
			`v1 starts: + version; + versionSelector V; + versionSelector N; + custom host; + resourceConcurrency P overridden by ann: oP since 00:01`,
		}},
		{why: "it goes back", rules: selectors + back + pool, play: []func(*rollout.Snapshot){ran("v1", rollout.JobSuccessful, 0), ran("v2", rollout.JobFailure, 1)}, at: 5, want: []string{
			`v2 waits: - rollback B rollback_triggered (back to v1): failure, waits for an operator's override or a version of api`,
			`v1 starts: + rollback B; + resourceConcurrency P slot_free`,
		}},
		{why: "when it has a place", rules: selectors + back + pool, play: []func(*rollout.Snapshot){ran("v1", rollout.JobSuccessful, 0), ran("v2", rollout.JobFailure, 1), down}, at: 5, want: []string{
			`v2 waits: - rollback B rollback_triggered (back to v1): failure, waits for an operator's override or a version of api`,
			`v1 waits: + rollback B; ~ resourceConcurrency P slot_full, waits for a free slot in P`,
		}},
		{why: "and the job is over", rules: selectors + back + pool, play: []func(*rollout.Snapshot){ran("v1", rollout.JobSuccessful, 0), ran("v2", rollout.JobFailure, 1), ran("v0", rollout.JobInProgress, 1)}, at: 5, want: []string{
			`v2 waits: - rollback B rollback_triggered (back to v1): failure, waits for an operator's override or a version of api; - target target_busy, waits for the end of a job of api on r1`,
		}},
		{why: "it is going back", rules: selectors + back, play: []func(*rollout.Snapshot){ran("v1", rollout.JobSuccessful, 0), ran("v2", rollout.JobFailure, 1), returns(rollout.JobInProgress)}, at: 5, want: []string{
			`v2 waits: - rollback B rollback_triggered (back to v1): failure, waits for an operator's override or a version of api; - target target_busy, waits for the end of a job of api on r1`,
		}},
		{why: "it is back", rules: selectors + back, play: []func(*rollout.Snapshot){ran("v1", rollout.JobSuccessful, 0), ran("v2", rollout.JobFailure, 1), returns(rollout.JobSuccessful)}, at: 5, want: []string{
			`v2 waits: - rollback B rollback_triggered (back to v1): failure, waits for an operator's override or a version of api`,
		}},
		{why: "it is back, and somebody is at work there", rules: selectors + back, play: []func(*rollout.Snapshot){ran("v1", rollout.JobSuccessful, 0), ran("v2", rollout.JobFailure, 1), returns(rollout.JobSuccessful), ran("v1", rollout.JobInProgress, 3)}, at: 5, want: []string{
			`v2 waits: - rollback B rollback_triggered (back to v1): failure, waits for an operator's override or a version of api; - target target_busy, waits for the end of a job of api on r1`,
		}},
		{why: "it could not go back", rules: selectors + back, play: []func(*rollout.Snapshot){ran("v1", rollout.JobSuccessful, 0), ran("v2", rollout.JobFailure, 1), returns(rollout.JobFailure)}, at: 5, want: []string{
			`v2 waits: - rollback B rollback_failed (back to v1): failure, waits for an operator's override or a version of api`,
		}},
		{why: "it could not, and somebody is at work there", rules: selectors + back, play: []func(*rollout.Snapshot){ran("v1", rollout.JobSuccessful, 0), ran("v2", rollout.JobFailure, 1), returns(rollout.JobFailure), ran("v1", rollout.JobInProgress, 3)}, at: 5, want: []string{
			`v2 waits: - rollback B rollback_failed (back to v1): failure, waits for an operator's override or a version of api; - target target_busy, waits for the end of a job of api on r1`,
		}},
		{why: "it has nothing to go back to, and a job of a version that is not listed is at work there", rules: selectors + back, play: []func(*rollout.Snapshot){ran("v2", rollout.JobFailure, 1), ran("gone", rollout.JobInProgress, 3)}, at: 5, want: []string{
			`v2 waits: - rollback B rollback_triggered (nothing to go back to): failure, waits for an operator's override or a version of api; - target target_busy, waits for the end of a job of api on r1`,
		}},
		{why: "a bracket runs it", rules: bracketed + pool, at: 5, want: []string{
			`v2 starts: + version; + deploymentBracket K bracket_run; + resourceConcurrency P slot_free`,
			`v1 kept: + version; + deploymentBracket K bracket_current`,
		}},
		{why: "it waits for its place there", rules: bracketed + pool, play: []func(*rollout.Snapshot){down}, at: 5, want: []string{
			`v2 waits: + version; ~ resourceConcurrency P slot_full, waits for a free slot in P`,
			`v1 kept: + version; + deploymentBracket K bracket_current`,
		}},
		{why: "and an older one would not be let through", rules: bracketed + pool + `,{"id":"V","versionSelector":{"selector":"version.tag != 'v1'"}}`, play: []func(*rollout.Snapshot){down, nothing}, at: 5, want: []string{
			`v2 waits: + version; + versionSelector V; ~ resourceConcurrency P slot_full, waits for a free slot in P`,
			`v1 waits: + version; - versionSelector V selector_no_match, waits for a change of the policy; - deploymentBracket K bracket_not_locked`,
		}},
		{why: "it is running there", rules: bracketed, play: []func(*rollout.Snapshot){locked(bracketed, "api")}, at: 5, want: []string{
			`v2 kept: + version; + target started`,
		}},
		{why: "it is not collected", rules: bracketed + gates, at: 5, want: []string{
			`v2 waits: + version; ~ anyApproval A approval_missing (0 of 1 needed), waits for an approval of v2 in prod; ~ environmentProgression E progression_waiting (0 succeeded in qa, 2 needed), waits for successes of api v2 in qa; - deploymentBracket K bracket_not_locked`,
		}},
		{why: "what the bracket waits for", rules: bracketed + strings.ReplaceAll(dependsOn+cooldown+windows+curve, "version.tag == 'v1'", "version.tag == 'v2'"), play: []func(*rollout.Snapshot){
			func(s *rollout.Snapshot) { needs(s, "v2") }, ran("v1", rollout.JobInProgress, -10)}, at: 5, host: 9, want: []string{
			`v2 waits: + version; ~ deploymentBracket K bracket_not_due (turn 2 of 2), waits for a new version of db or db on r1 or the end of a job of api on r1; - deploymentDependency D dependency_unmet db, waits for a new version of db or db on r1; - versionDependencies version_dependency_unmet db: version.tag == 'v2', waits for a new version of db or db on r1; - versionCooldown C cooldown after v1 until 2025-01-01T01:00:00Z, waits for the end of a job of api on r1; ~ custom host change_freeze until 2025-01-01T00:09:00Z; - target target_busy, waits for the end of a job of api on r1`,
		}},
		{why: "it is locked, and its node drained, when somebody asks for an approval", rules: drained + `,{"id":"A","anyApproval":{"minApprovals":1}}`, play: []func(*rollout.Snapshot){locked(drained, "db")}, at: 5, want: []string{
			`v2 waits: + version; + anyApproval A rule_not_applicable; ~ deploymentBracket K bracket_waits_for_members, waits for db on r1`,
		}},
		{why: "and then it runs", rules: drained + `,{"id":"A","anyApproval":{"minApprovals":1}}`, play: []func(*rollout.Snapshot){locked(drained, "db"), drainedNode}, at: 5, want: []string{
			`v2 starts: + version; + anyApproval A rule_not_applicable; + deploymentBracket K bracket_run`,
		}},
		{why: "it does even if it is withdrawn, as soon as nobody else is at work there", rules: drained, play: []func(*rollout.Snapshot){locked(drained, "db"), drainedNode, ran("v1", rollout.JobInProgress, 5), func(s *rollout.Snapshot) { newest(s).Status = rollout.VersionPaused }}, at: 5, want: []string{
			`v2 waits: + version rule_not_applicable; - target target_busy, waits for the end of a job of api on r1`,
		}},
		{why: "an execution of a rule that is gone", rules: bracketed, play: []func(*rollout.Snapshot){first, locked(`{"id":"old","deploymentBracket":{"deploymentSelector":"deployment.id == 'db'","readinessMode":"immediate","memberRoles":{}}}`, "db")}, at: 5, want: []string{
			`v2 waits: + version; ~ deploymentBracket K bracket_not_due, waits for the end of the bracket on r1; ~ deploymentBracket old bracket_queued, waits for the end of the bracket on r1`,
			`v1 kept: + version; + deploymentBracket K bracket_current`,
		}},
		{why: "there is nothing to go back to", rules: selectors + back, play: []func(*rollout.Snapshot){ran("v2", rollout.JobFailure, 1)}, at: 5, want: []string{
			`v2 waits: - rollback B rollback_triggered (nothing to go back to): failure, waits for an operator's override or a version of api`,
		}},
	} {
		s := inEnvironments(fleet(2, "v1", map[string][]string{"api": {"v1", "v2"}, "db": {"v1"}}), "qa")
		for _, f := range row.play {
			f(&s)
		}
		plan := mustPlan(t, compile(t, policy(row.rules), rollout.WithRule(hostRule{"host", frozenUntil(minute(row.host))})), s, minute(row.at))
		e, err := plan.Explain(rollout.TargetID{Resource: "r1", Environment: "prod", Deployment: "api"})
		if err != nil {
			t.Fatal(err)
		}
		var lines []string
		for _, v := range e.Versions {
			line := v.Version + " " + string(v.Prospect)
			for k, r := range v.Rules {
				if r.Until != r.Until.UTC() {
					t.Errorf("%s: %v is not in UTC", row.why, r)
				}
				line += map[bool]string{true: ": ", false: "; "}[k == 0] + map[rollout.VerdictStatus]string{rollout.Allowed: "+ ", rollout.Pending: "~ ", rollout.Denied: "- "}[r.Status] + string(r.Kind)
				if r.Rule != "" {
					line += " " + r.Rule
				}
				if r.Reason != rollout.ReasonAllowed {
					line += " " + r.Verdict.String()
				}
				if !r.Since.IsZero() {
					line += " since " + r.Since.Format("15:04")
				}
			}
			lines = append(lines, line)
		}
		if diff := cmp.Diff(row.want, lines[:min(len(lines), len(row.want))]); diff != "" {
			t.Errorf("%s:\n%s", row.why, diff)
		}
	}
}

// TestExplanationInFull: who is asked about, what runs there and has begun, which policies govern
// it, and every version from the newest to the one it has, also those that no rule is asked about.
func TestExplanationInFull(t *testing.T) {
	t.Parallel()
	const bracketed = `{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{"pre":"deployment.id == 'drain'"}}}`
	world := func(versions ...string) rollout.Snapshot {
		s := fleet(2, "v1", map[string][]string{"api": {"v1", "v2", "v3", "v4", "v5"}, "drain": versions})
		for k := range s.Versions {
			switch v := &s.Versions[k]; {
			case v.Deployment != "api":
			case v.ID == "v5":
				v.CreatedAt = minute(30)
			case v.ID == "v4":
				v.TargetSelector = "resource.id == 'r2'"
			case v.ID == "v3":
				v.TargetSelector, v.Tag = "resource.id == 'r1'", "3.0"
			}
		}
		return s
	}
	for _, row := range []struct {
		why      string
		policies string
		world    rollout.Snapshot
		edit     func(*rollout.Snapshot)
		of       string // deployment
		want     string
	}{
		{why: "outside brackets", of: "api", world: world("v1"), policies: `{"name":"p","selector":"true","rules":[{"id":"V","versionSelector":{"selector":"version.id != 'v3'"}}]},{"name":"q","selector":"true","rules":[{"id":"R","retry":{"maxRetries":0}}]},{"name":"n","selector":"false","rules":[{"id":"N","retry":{"maxRetries":0}}]}`, edit: func(s *rollout.Snapshot) {
			s.Targets[0].Jobs = []rollout.Job{{Run: "1", Version: "v2", Status: rollout.JobInProgress, CreatedAt: t0}}
		}, want: `r1 / prod / api at 2025-01-01T00:05:00Z
  runs      v1
  begun     v2
  job       v2 inProgress since 2025-01-01T00:00:00Z as 1
  policies  p, q
  v5: future
    └─ - version                version_not_deployable until 2025-01-01T00:30:00Z  <- time
       opens by itself not before 2025-01-01T00:30:00Z
  v4, scoped: out of scope
  v3 (3.0), scoped: waits
    ├─ + version                allowed
    ├─ - versionSelector        selector_no_match, waits for a change of the policy  [V]  <- the policy owner
    └─ - target                 target_busy, waits for the end of a job of api on r1  <- the fleet
  v2: kept
    └─ + target                 started
`},
		{why: "in a bracket", of: "api", world: world("v1"), policies: policy(bracketed), want: `r1 / prod / api at 2025-01-01T00:05:00Z
  runs      v1
  policies  p
  bracket   B
  v5: future
    └─ - version                version_not_deployable until 2025-01-01T00:30:00Z  <- time
       opens by itself not before 2025-01-01T00:30:00Z
  v4, scoped: out of scope
  v3 (3.0), scoped: waits
    ├─ + version                allowed
    └─ ~ deploymentBracket      bracket_waits_for_members, waits for drain on r1  [B]  <- the fleet
  v2: waits
    ├─ + version                allowed
    └─ - deploymentBracket      bracket_not_locked  [B]
  v1: kept
    ├─ + version                allowed
    └─ + deploymentBracket      bracket_current  [B]
`},
		{why: "that may not begin", of: "api", world: world("v1"), policies: policy(bracketed + `,{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":0}}`), want: `r1 / prod / api at 2025-01-01T00:05:00Z
  runs      v1
  policies  p
  bracket   B
  v5: future
    └─ - version                version_not_deployable until 2025-01-01T00:30:00Z  <- time
       opens by itself not before 2025-01-01T00:30:00Z
  v4, scoped: out of scope
  v3 (3.0), scoped: waits
    ├─ + version                allowed
    └─ ~ resourceConcurrency    slot_paused, waits for a change of the limit of P  [P]  <- the policy owner
  v2: waits
    ├─ + version                allowed
    └─ - deploymentBracket      bracket_not_locked  [B]
  v1: kept
    ├─ + version                allowed
    └─ + deploymentBracket      bracket_current  [B]
  queue     P: 1 of 2
  pool      P: 0 of 0 active; 2 in the queue
`},
		{why: "its hook", of: "drain", world: world("v1"), policies: policy(bracketed), want: `r1 / prod / drain at 2025-01-01T00:05:00Z
  runs      v1
  policies  p
  bracket   B
  v1: starts
    ├─ + version                allowed
    └─ + deploymentBracket      bracket_run  [B]
`},
		{why: "a hook of which the version is gone", of: "drain", world: world(), policies: policy(bracketed), want: `r1 / prod / drain at 2025-01-01T00:05:00Z
  runs      v1
  policies  p
  bracket   B
  held      version_unknown: v1, waits for a version of drain  <- the release
  without version: waits
    ├─ ~ deploymentBracket      bracket_not_due, waits for a version of drain  [B]  <- the release
    └─ - target                 version_unknown: v1, waits for a version of drain  <- the release
`},
		{why: "a hook that has no version", of: "drain", world: world(), policies: policy(bracketed), edit: func(s *rollout.Snapshot) { s.Targets[1].Current = "" }, want: `r1 / prod / drain at 2025-01-01T00:05:00Z
  runs      nothing
  policies  p
  bracket   B
  without version: waits
    └─ ~ deploymentBracket      bracket_hook_without_version, waits for a version of drain and the next group in prod  [B]  <- the release
`},
		{why: "a policy cannot be asked", of: "api", world: world("v1"), policies: `{"name":"p","selector":"int(resource.id) > 1","rules":[{"id":"R","retry":{"maxRetries":0}}]}`, want: `r1 / prod / api at 2025-01-01T00:05:00Z
  runs      v1
  policies  none
  held      selector_error: fails: int(resource.id) > 1, waits for a change of the policy  [p]  <- the policy owner
  v5: future
    └─ - version                version_not_deployable until 2025-01-01T00:30:00Z  <- time
       opens by itself not before 2025-01-01T00:30:00Z
  v4, scoped: out of scope
  v3 (3.0), scoped: waits
    └─ + version                allowed
  v2: waits
    └─ + version                allowed
  v1: kept
    └─ + target                 current
`},
		{why: "nor can one that governs a member", of: "api", world: world("v1"), policies: policy(bracketed) + `,{"name":"q","selector":"int(resource.id) > 1","rules":[{"id":"R","retry":{"maxRetries":0}}]}`, want: `r1 / prod / api at 2025-01-01T00:05:00Z
  runs      v1
  policies  p
  bracket   B
  held      selector_error: fails: int(resource.id) > 1, waits for a change of the policy  [q]  <- the policy owner
  v5: future
    └─ - version                version_not_deployable until 2025-01-01T00:30:00Z  <- time
       opens by itself not before 2025-01-01T00:30:00Z
  v4, scoped: out of scope
  v3 (3.0), scoped: waits
    ├─ + version                allowed
    ├─ - policy                 selector_error: fails: int(resource.id) > 1, waits for a change of the policy  [q]  <- the policy owner
    └─ ~ deploymentBracket      bracket_not_due, waits for a change of the policy  [B]  <- the policy owner
  v2: waits
    ├─ + version                allowed
    └─ - deploymentBracket      bracket_not_locked  [B]
  v1: kept
    ├─ + version                allowed
    └─ + deploymentBracket      bracket_current  [B]
`},
		{why: "nor can one that governs a bracket's hook without a version", of: "drain", world: world(), policies: policy(bracketed) + `,{"name":"q","selector":"int(resource.id) > 1","rules":[{"id":"R","retry":{"maxRetries":0}}]}`, want: `r1 / prod / drain at 2025-01-01T00:05:00Z
  runs      v1
  policies  p
  bracket   B
  held      selector_error: fails: int(resource.id) > 1, waits for a change of the policy  [q]  <- the policy owner
  held      version_unknown: v1, waits for a version of drain  <- the release
  without version: waits
    ├─ ~ deploymentBracket      bracket_not_due, waits for a change of the policy or a version of drain  [B]  <- the policy owner, the release
    ├─ - policy                 selector_error: fails: int(resource.id) > 1, waits for a change of the policy  [q]  <- the policy owner
    └─ - target                 version_unknown: v1, waits for a version of drain  <- the release
`},
	} {
		s := row.world
		if row.edit != nil {
			row.edit(&s)
		}
		plan := mustPlan(t, compile(t, "["+row.policies+"]"), s, minute(5))
		e, err := plan.Explain(rollout.TargetID{Resource: "r1", Environment: "prod", Deployment: row.of})
		if err != nil {
			t.Fatal(err)
		}
		// How the compiler of the expressions puts it is its own affair.
		if diff := cmp.Diff(row.want, strings.ReplaceAll(e.String()+"\n", "selector: type conversion error from 'string' to 'int', in: ", "fails: ")); diff != "" {
			t.Errorf("%s:\n%s", row.why, diff)
		}
	}
}

// needs makes v2 of api need a version of db.
func needs(s *rollout.Snapshot, version string) {
	newest(s).Dependencies = []rollout.VersionDependency{{Deployment: "db", VersionSelector: "version.tag == '" + version + "'"}}
}

func newest(s *rollout.Snapshot) *rollout.Version {
	return &s.Versions[slices.IndexFunc(s.Versions, func(v rollout.Version) bool { return v.Deployment == "api" && v.ID == "v2" })]
}
