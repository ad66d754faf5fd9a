package rollout_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/internal/testkit"
	"github.com/tranche-dev/tranche/rollout"
)

// TestPositionInJSON: a place in a rollout is written, the first one too, and no place where there is
// none. Whatever is written is read again.
func TestPositionInJSON(t *testing.T) {
	for _, row := range []struct {
		why  string
		data rollout.Data
		want string
	}{
		{"nothing", rollout.Data{}, `{}`},
		{"an approval is no turn", rollout.Data{Attempt: 1, Allowed: 2, Names: []string{"ann"}}, `{"attempt":1,"allowed":2,"names":["ann"]}`},
		{"the first turn", rollout.Data{Population: 5}, `{"position":0,"population":5}`},
		{"a later one", rollout.Data{Position: 3, Population: 5}, `{"position":3,"population":5}`},
		{"one that is too late for all time", rollout.Data{Position: 3, Detail: "overflows"}, `{"position":3,"detail":"overflows"}`},
		{"one of nobody knows how many", rollout.Data{Position: 3}, `{"position":3}`},
		{"one beside a failure", rollout.Data{Position: 3, Population: 5, Names: []string{"a"}}, `{"position":3,"population":5,"names":["a"]}`},
		{"one with attempts", rollout.Data{Position: 3, Population: 5, Attempt: 1}, `{"position":3,"population":5,"attempt":1}`},
		{"one with how many are allowed", rollout.Data{Position: 3, Population: 5, Allowed: 2}, `{"position":3,"population":5,"allowed":2}`},
		{"one with a detail", rollout.Data{Position: 3, Population: 5, Detail: "b"}, `{"position":3,"population":5,"detail":"b"}`},
		{"one with a text", rollout.Data{Population: 5, Names: []string{"a"}, Detail: "b"}, `{"position":0,"population":5,"names":["a"],"detail":"b"}`},
	} {
		text, err := json.Marshal(rollout.Verdict{Data: &row.data})
		if got := strings.TrimSuffix(strings.TrimPrefix(string(text), `{"status":"","reason":"","data":`), "}"); err != nil || got != row.want {
			t.Errorf("%s: %s, %v, want %s", row.why, got, err, row.want)
		}
		var read rollout.Verdict
		if err := json.Unmarshal(text, &read); err != nil || !read.Equal(rollout.Verdict{Data: &row.data}) {
			t.Errorf("%s: read as %+v, %v", row.why, read, err)
		}
	}
}

// TestVerdictsInFull: what a blocker holds besides its reason: the rule, until when, on what, and
// what somebody needs who is to do something about it. Each row has v2 of api wait on r1 for one
// reason.
func TestVerdictsInFull(t *testing.T) {
	t.Parallel()
	judge := func(v rollout.Verdict) []rollout.Option {
		return []rollout.Option{rollout.WithRule(hostRule{"host", func(rollout.Candidate) rollout.Verdict { return v }})}
	}
	qa := func(at ...int) func(*rollout.Snapshot) { // successes of v2 in qa
		return func(s *rollout.Snapshot) {
			for k, m := range at {
				s.Resources = append(s.Resources, rollout.Resource{ID: "q" + string(rune('1'+k)), Name: "q"})
				x := rollout.Target{TargetID: rollout.TargetID{Resource: "q" + string(rune('1'+k)), Environment: "qa", Deployment: "api"}}
				if m != 0 {
					x.Jobs = []rollout.Job{{Run: x.Resource, Version: "v2", Status: rollout.JobSuccessful, CreatedAt: minute(m), CompletedAt: minute(m)}}
				}
				s.Targets = append(s.Targets, x)
			}
		}
	}
	const everybody = `{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}},{"id":"G","gradualRollout":{"rolloutType":"linear","timeScaleInterval":6000,"orderKey":"resource"}}`
	const immediate = `{"id":"B","deploymentBracket":{"deploymentSelector":"deployment.id == 'api'","readinessMode":"immediate","memberRoles":{}}}`
	later := func(s *rollout.Snapshot) {
		s.Resources = append(s.Resources, rollout.Resource{ID: "r2"})
		s.Targets = append(s.Targets, rollout.Target{TargetID: rollout.TargetID{Resource: "r2", Environment: "prod", Deployment: "api"}, Current: "v1", Priority: 1})
		s.Targets = append(s.Targets, rollout.Target{TargetID: rollout.TargetID{Resource: "r2", Environment: "prod", Deployment: "db"}, Current: "v1", Priority: 1})
	}
	for _, row := range []struct {
		why     string
		rules   string
		edit    func(*rollout.Snapshot)
		options []rollout.Option
		want    string
	}{
		{why: "the version is paused", edit: func(s *rollout.Snapshot) { newest(s).Status = rollout.VersionPaused },
			want: `[{"status":"denied","reason":"version_not_deployable","on":[{"kind":"version","deployment":"api"}],"data":{"detail":"paused"}}]`},
		{why: "a version selector fails", rules: `{"id":"R","versionSelector":{"selector":"int(version.tag) > 1"}}`,
			want: `[{"status":"denied","reason":"selector_error","rule":"R","on":[{"kind":"config","rule":"R"}],"data":{"detail":"fails: int(version.tag) > 1"}}]`},
		{why: "it asks for a key that is missing", rules: `{"id":"R","versionSelector":{"selector":"version.metadata['channel'] == 'stable'"}}`,
			want: `[{"status":"denied","reason":"selector_missing_key","rule":"R","on":[{"kind":"config","rule":"R"}],"data":{"detail":"version.metadata['channel']"}}]`},
		{why: "it refuses the resource", rules: `{"id":"R","versionSelector":{"selector":"resource.id != 'r1'"}}`,
			want: `[{"status":"denied","reason":"selector_no_match","rule":"R","on":[{"kind":"config","rule":"R"}]}]`},
		{why: "it refuses the resource, and says why", rules: `{"id":"R","versionSelector":{"selector":"resource.id != 'r1'","description":"no image for it yet"}}`,
			want: `[{"status":"denied","reason":"selector_no_match","rule":"R","on":[{"kind":"config","rule":"R"}],"data":{"detail":"no image for it yet"}}]`},
		{why: "an approval is missing", rules: `{"id":"R","anyApproval":{"minApprovals":3}}`, edit: func(s *rollout.Snapshot) {
			for _, by := range []string{"eve", "ann", "eve"} {
				s.Approvals = append(s.Approvals, rollout.Approval{Version: "v2", Deployment: "api", Environment: "prod", By: by, Status: rollout.Approved, At: t0})
			}
		},
			want: `[{"status":"pending","reason":"approval_missing","rule":"R","on":[{"kind":"approval","environment":"prod","deployment":"api","version":"v2"}],"data":{"attempt":2,"allowed":3,"names":["ann","eve"]}}]`},
		{why: "successes are missing", rules: `{"id":"R","environmentProgression":{"dependsOnEnvironmentSelector":"true"}}`, edit: qa(1, 0, 0),
			want: `[{"status":"pending","reason":"progression_waiting","rule":"R","on":[{"kind":"job","environment":"qa","deployment":"api","version":"v2"}],"data":{"attempt":1,"allowed":3,"names":["qa"]}}]`},
		{why: "the soak is not over", rules: `{"id":"R","environmentProgression":{"dependsOnEnvironmentSelector":"true","minimumSoakTimeMinutes":30}}`, edit: qa(1, 2),
			want: `[{"status":"pending","reason":"progression_waiting","rule":"R","until":"2025-01-01T00:32:00Z","on":[{"kind":"job","environment":"qa","deployment":"api","version":"v2"}],"data":{"attempt":2,"allowed":2,"names":["qa"]}}]`},
		{why: "they are too old", rules: `{"id":"R","environmentProgression":{"dependsOnEnvironmentSelector":"true","maximumAgeHours":1}}`, edit: qa(-60, -70),
			want: `[{"status":"denied","reason":"progression_too_old","rule":"R","on":[{"kind":"config","rule":"R"},{"kind":"job","environment":"qa","deployment":"api","version":"v2"}],"data":{"detail":"2024-12-31T23:00:00Z"}}]`},
		{why: "there is no such environment", rules: `{"id":"R","environmentProgression":{"dependsOnEnvironmentSelector":"environment.id == 'dev'"}}`, edit: qa(1),
			want: `[{"status":"denied","reason":"progression_no_environment","rule":"R","on":[{"kind":"config","rule":"R"}]}]`},
		{why: "nobody can say whether there is", rules: `{"id":"R","environmentProgression":{"dependsOnEnvironmentSelector":"int(environment.id) > 1"}}`, edit: qa(1),
			want: `[{"status":"denied","reason":"selector_error","rule":"R","on":[{"kind":"config","rule":"R"}],"data":{"detail":"fails: int(environment.id) > 1"}}]`},
		{why: "a dependency", rules: `{"id":"R","deploymentDependency":{"appliesTo":"deployment.id == 'api'","dependsOn":"deployment.id == 'db' && version.tag == 'v2'"}}`,
			want: `[{"status":"denied","reason":"dependency_unmet","rule":"R","on":[{"kind":"version","deployment":"db"},{"kind":"dependency","environment":"prod","deployment":"db","resource":"r1"}],"data":{"names":["db"]}}]`},
		{why: "a dependency that matches nobody", rules: `{"id":"R","deploymentDependency":{"appliesTo":"deployment.id == 'api'","dependsOn":"deployment.id == 'cache'"}}`,
			want: `[{"status":"denied","reason":"dependency_unmatched","rule":"R","on":[{"kind":"config","rule":"R"}]}]`},
		{why: "one that cannot be asked", rules: `{"id":"R","deploymentDependency":{"appliesTo":"deployment.id == 'api'","dependsOn":"int(deployment.id) > 1"}}`,
			want: `[{"status":"denied","reason":"selector_error","rule":"R","on":[{"kind":"config","rule":"R"}],"data":{"detail":"fails: int(deployment.id) > 1"}}]`},
		{why: "of which nobody knows whom it concerns", rules: `{"id":"R","deploymentDependency":{"appliesTo":"int(deployment.id) > 1","dependsOn":"deployment.id == 'db'"}}`,
			want: `[{"status":"denied","reason":"selector_error","rule":"R","on":[{"kind":"config","rule":"R"}],"data":{"detail":"fails: int(deployment.id) > 1"}}]`},
		{why: "a dependency of the version", edit: func(s *rollout.Snapshot) { needs(s, "v2") },
			want: `[{"status":"denied","reason":"version_dependency_unmet","on":[{"kind":"version","deployment":"db"},{"kind":"dependency","environment":"prod","deployment":"db","resource":"r1"}],"data":{"names":["db"],"detail":"version.tag == 'v2'"}}]`},
		{why: "one that fails", edit: func(s *rollout.Snapshot) {
			newest(s).Dependencies = []rollout.VersionDependency{{Deployment: "db", VersionSelector: "int(version.tag) > 1"}}
		},
			want: `[{"status":"denied","reason":"selector_error","on":[{"kind":"dependency","environment":"prod","deployment":"db","resource":"r1"}],"data":{"detail":"fails: int(version.tag) > 1"}}]`},
		{why: "one that is malformed", edit: func(s *rollout.Snapshot) {
			newest(s).Dependencies = []rollout.VersionDependency{{Deployment: "db", VersionSelector: "version.tag ="}}
		},
			want: `[{"status":"denied","reason":"selector_error","on":[{"kind":"dependency","environment":"prod","deployment":"db","resource":"r1"}],"data":{"detail":"selector: 1:13: syntax error at = (write == for =)"}}]`},
		{why: "it failed elsewhere", rules: `{"id":"R","failureBudget":{"maxFailures":0}}`, edit: func(s *rollout.Snapshot) {
			s.Resources = append(s.Resources, rollout.Resource{ID: "r2"})
			s.Targets = append(s.Targets, rollout.Target{TargetID: rollout.TargetID{Resource: "r2", Environment: "prod", Deployment: "api"}, Current: "v2", Jobs: []rollout.Job{{Run: "1", Version: "v2", Status: rollout.JobFailure, CreatedAt: minute(-90)}}})
		},
			want: `[{"status":"denied","reason":"failure_budget_exceeded","rule":"R","on":[{"kind":"operator"},{"kind":"version","deployment":"api"},{"kind":"job","environment":"prod","deployment":"api","version":"v2"}],"data":{"attempt":1,"names":["r2"]}}]`},
		{why: "it failed too often among those on which it has ended", rules: `{"id":"R","failureBudget":{"maxFailureRate":"50%","minimumSample":2}}`, edit: func(s *rollout.Snapshot) {
			for k, status := range []rollout.JobStatus{rollout.JobFailure, rollout.JobSuccessful, rollout.JobFailure} {
				id := fmt.Sprint("r", k+2)
				s.Resources = append(s.Resources, rollout.Resource{ID: id})
				s.Targets = append(s.Targets, rollout.Target{TargetID: rollout.TargetID{Resource: id, Environment: "prod", Deployment: "api"}, Current: "v2", Jobs: []rollout.Job{{Run: id, Version: "v2", Status: status, CreatedAt: minute(-90)}}})
			}
		},
			want: `[{"status":"denied","reason":"failure_budget_exceeded","rule":"R","on":[{"kind":"operator"},{"kind":"version","deployment":"api"},{"kind":"job","environment":"prod","deployment":"api","version":"v2"}],"data":{"attempt":2,"allowed":1,"names":["r2","r4"],"detail":"3"}}]`},
		{why: "a cooldown", rules: `{"id":"R","versionCooldown":{"intervalSeconds":7200}}`, edit: func(s *rollout.Snapshot) {
			s.Targets[0].Jobs = []rollout.Job{{Run: "1", Version: "v1", Status: rollout.JobSuccessful, CreatedAt: minute(-90)}}
		},
			want: `[{"status":"denied","reason":"cooldown","rule":"R","until":"2025-01-01T01:00:00Z","data":{"names":["v1"]}}]`},
		{why: "a window", rules: `{"id":"R","deploymentWindow":{"weekly":{"days":["wed"],"start":"05:00","end":"06:00"}}}`,
			want: `[{"status":"pending","reason":"window_closed","rule":"R","until":"2025-01-01T05:00:00Z"}]`},
		{why: "its turn", rules: `{"id":"R","gradualRollout":{"rolloutType":"linear","timeScaleInterval":6000,"orderKey":"resource"}}`, edit: later,
			want: `[{"status":"pending","reason":"rollout_not_due","rule":"R","until":"2025-01-01T01:40:00Z","data":{"position":1,"population":2}}]`},
		{why: "it is busy", edit: func(s *rollout.Snapshot) {
			s.Targets[0].Jobs = []rollout.Job{{Run: "1", Version: "v1", Status: rollout.JobInProgress, CreatedAt: minute(-90)}}
		},
			want: `[{"status":"denied","reason":"target_busy","on":[{"kind":"job","environment":"prod","deployment":"api","resource":"r1"}]}]`},
		{why: "the host's rule", options: judge(rollout.Verdict{Status: rollout.Pending, Reason: "freeze", Until: minute(90), Data: &rollout.Data{Detail: "quarter end"}}),
			want: `[{"status":"pending","reason":"freeze","rule":"host","until":"2025-01-01T01:30:00Z","data":{"detail":"quarter end"}}]`},
		{why: "which has no such status", options: judge(rollout.Verdict{Status: "maybe", Reason: "freeze"}),
			want: `[{"status":"denied","reason":"custom_invalid","rule":"host","on":[{"kind":"config","rule":"host"}],"data":{"detail":"the status \"maybe\" is unknown"}}]`},
		{why: "or gives no reason", options: judge(rollout.Verdict{Status: rollout.Denied}),
			want: `[{"status":"denied","reason":"custom_invalid","rule":"host","on":[{"kind":"config","rule":"host"}],"data":{"detail":"a verdict without reason"}}]`},
		{why: "or an instant that is over", options: judge(rollout.Verdict{Status: rollout.Pending, Reason: "freeze", Until: minute(5)}),
			want: `[{"status":"denied","reason":"custom_invalid","rule":"host","on":[{"kind":"config","rule":"host"}],"data":{"detail":"a verdict until an instant that is not after now"}}]`},
		{why: "or nothing to wait for", options: judge(rollout.Verdict{Status: rollout.Pending, Reason: "freeze"}),
			want: `[{"status":"denied","reason":"custom_invalid","rule":"host","on":[{"kind":"config","rule":"host"}],"data":{"detail":"a pending verdict without an instant or an event"}}]`},
		{why: "a pool that is paused", rules: `{"id":"R","resourceConcurrency":{"groupSelector":"true","limit":0}}`,
			want: `[{"status":"pending","reason":"slot_paused","rule":"R","on":[{"kind":"config","pool":"R"}]}]`},
		{why: "one of which nobody knows its members", rules: `{"id":"R","resourceConcurrency":{"groupSelector":"int(resource.id) > 1","limit":1}}`,
			want: `[{"status":"denied","reason":"selector_error","rule":"R","on":[{"kind":"config","rule":"R"}],"data":{"detail":"fails: int(resource.id) > 1"}}]`},
		{why: "a bracket of which nobody knows the members", rules: `{"id":"R","deploymentBracket":{"deploymentSelector":"int(deployment.id) > 1","readinessMode":"immediate"}}`,
			want: `[{"status":"denied","reason":"selector_error","rule":"R","on":[{"kind":"config","rule":"R"}],"data":{"detail":"fails: int(deployment.id) > 1"}}]`},
		{why: "nor their roles", rules: `{"id":"R","deploymentBracket":{"deploymentSelector":"deployment.id == 'api'","readinessMode":"immediate","memberRoles":{"pre":"int(deployment.id) > 1"}}}`,
			want: `[{"status":"denied","reason":"selector_error","rule":"R","on":[{"kind":"config","rule":"R"}],"data":{"detail":"fails: int(deployment.id) > 1"}}]`},
		{why: "a bracket that collects", rules: `{"id":"R","deploymentBracket":{"deploymentSelector":"deployment.id == 'api'","readinessWindowSeconds":600,"memberRoles":{}}}`,
			want: `[{"status":"pending","reason":"bracket_collecting","rule":"R","until":"2025-01-01T00:10:00Z","on":[{"kind":"version","deployment":"api"}]}]`},
		{why: "nobody knows what it runs", edit: func(s *rollout.Snapshot) { s.Targets[0].Current = "v0" },
			want: `[{"status":"denied","reason":"version_unknown","on":[{"kind":"version","deployment":"api"}],"data":{"detail":"v0"}}]`},
		{why: "its turn is beyond all time", rules: `{"id":"R","gradualRollout":{"rolloutType":"linear","timeScaleInterval":9000000000,"orderKey":"resource"}}`, edit: later,
			want: `[{"status":"denied","reason":"rollout_overflow","rule":"R","on":[{"kind":"config","rule":"R"}],"data":{"position":1,"detail":"rollout: duration overflows 292 years"}}]`},
		{why: "its turn in a bracket is", rules: immediate + `,{"id":"R","gradualRollout":{"rolloutType":"linear","timeScaleInterval":9000000000,"orderKey":"resource"}}`, edit: later,
			want: `[{"status":"pending","reason":"bracket_not_due","rule":"B","on":[{"kind":"config","rule":"R"}],"data":{"position":1,"population":2}},{"status":"denied","reason":"rollout_overflow","rule":"R","on":[{"kind":"config","rule":"R"}],"data":{"detail":"rollout: duration overflows 292 years"}}]`},
		{why: "the window of a member is closed", rules: immediate + `,{"id":"R","deploymentWindow":{"weekly":{"days":["wed"],"start":"05:00","end":"06:00"}}}`,
			want: `[{"status":"pending","reason":"bracket_not_due","rule":"B","until":"2025-01-01T05:00:00Z"},{"status":"pending","reason":"window_closed","rule":"R","until":"2025-01-01T05:00:00Z"}]`},
		{why: "it has a window that opens when its turn comes, and is closed again", rules: immediate + `,{"id":"R","deploymentWindow":{"weekly":{"days":["wed"],"start":"00:00","end":"01:00"}}},{"id":"G","gradualRollout":{"rolloutType":"linear","timeScaleInterval":6000,"orderKey":"resource"}}`, edit: later,
			want: `[{"status":"pending","reason":"bracket_not_due","rule":"B","until":"2025-01-08T00:40:00Z","data":{"position":1,"population":2}}]`},
		{why: "it has one that never is long enough", rules: immediate + `,{"id":"R","deploymentWindow":{"weekly":{"days":["wed"],"start":"05:00","end":"06:00"},"minimumRemainingMinutes":90}}`,
			want: `[{"status":"pending","reason":"bracket_not_due","rule":"B","on":[{"kind":"config","rule":"R"}]},{"status":"pending","reason":"window_closed","rule":"R","on":[{"kind":"config","rule":"R"}],"data":{"detail":"no opening of 1h30m within 5 years"}}]`},
		{why: "a member has a cooldown besides", rules: immediate + `,{"id":"R","deploymentWindow":{"weekly":{"days":["wed"],"start":"05:00","end":"06:00"}}},{"id":"C","versionCooldown":{"intervalSeconds":7200}}`, edit: func(s *rollout.Snapshot) {
			s.Targets[0].Jobs = []rollout.Job{{Run: "1", Version: "v1", Status: rollout.JobSuccessful, CreatedAt: minute(-90)}}
		},
			want: `[{"status":"pending","reason":"bracket_not_due","rule":"B","until":"2025-01-01T05:00:00Z"},{"status":"denied","reason":"cooldown","rule":"C","until":"2025-01-01T01:00:00Z","data":{"names":["v1"]}},{"status":"pending","reason":"window_closed","rule":"R","until":"2025-01-01T05:00:00Z"}]`},
		{why: "the snapshot does not hold what a group has locked", rules: everybody, edit: func(s *rollout.Snapshot) {
			later(s)
			s.Versions = append(s.Versions, rollout.Version{ID: "v3", Tag: "v3", Deployment: "db", Status: rollout.VersionReady, CreatedAt: t0})
			s.State = mustPlan(t, compile(t, policy(everybody)), *s, t0).State
			s.Versions = s.Versions[:len(s.Versions)-1]
		},
			want: `[{"status":"pending","reason":"bracket_not_due","rule":"B","on":[{"kind":"version","deployment":"db"}],"data":{"position":1,"population":2}},{"status":"denied","reason":"version_unknown","on":[{"kind":"version","deployment":"db"}],"data":{"detail":"v3"}}]`},
	} {
		s := fleet(1, "v1", map[string][]string{"api": {"v1", "v2"}, "db": {"v1"}})
		s.Environments = append(s.Environments, rollout.Environment{ID: "qa"})
		if row.edit != nil {
			row.edit(&s)
		}
		policies := "[]"
		if row.rules != "" {
			policies = policy(row.rules)
		}
		plan := mustPlan(t, compile(t, policies, row.options...), s, minute(5))
		wait, _ := plan.Waiting.Of(s.Targets[0].TargetID)
		text, err := json.Marshal(wait.Blockers)
		if err != nil {
			t.Fatal(err)
		}
		// How the compiler of the expressions puts it is its own affair.
		got := strings.NewReplacer("selector: type conversion error from 'string' to 'int', in: ", "fails: ", `\u003e`, ">").Replace(string(text))
		if got != row.want {
			t.Errorf("%s: %s", row.why, got)
		}
	}
}

// TestDataOfReasons: what the data of a verdict holds is in the table of the documentation, under its
// reason, in what waits and in what explanations say.
func TestDataOfReasons(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("verdict.go")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(source), "// Data holds the facts of a verdict.")
	table, _, _ = strings.Cut(table, "type Data struct")
	documented := map[string]bool{}
	for _, row := range regexp.MustCompile(`(?m)^//\t([a-z_, ]+?)  +(.*)$`).FindAllStringSubmatch(table, -1) {
		for reason := range strings.SplitSeq(row[1], ", ") {
			for _, field := range regexp.MustCompile(`Position|Population|Attempt|Allowed|Names|Detail`).FindAllString(row[2], -1) {
				documented[reason+" "+field] = true
			}
		}
	}
	env := newRemembering(t)
	seen := testkit.Tally{}
	reached := slices.DeleteFunc(slices.Sorted(maps.Keys(documented)), func(s string) bool { // few worlds have these
		return strings.HasPrefix(s, "custom_invalid") || strings.HasPrefix(s, "rollout_overflow") || strings.HasPrefix(s, "bracket_merge_budget") ||
			slices.Contains([]string{"selector_no_match Detail", "window_too_short Names", "window_too_short Detail", "window_closed Names", "window_closed Detail", "progression_waiting Detail"}, s)
	})
	checkWorlds(t, env, seen, 60, nil, func(t *rapid.T, w *world) {
		check := func(v rollout.Verdict) {
			if v.Data == nil || strings.HasPrefix(string(v.Reason), "host_") {
				return
			}
			for field, set := range map[string]bool{
				"Position": v.Data.Position != 0, "Population": v.Data.Population != 0, "Attempt": v.Data.Attempt != 0,
				"Allowed": v.Data.Allowed != 0, "Names": len(v.Data.Names) > 0, "Detail": v.Data.Detail != "",
			} {
				if one := string(v.Reason) + " " + field; set && strings.HasPrefix(one, "bracket_") && strings.HasPrefix(field, "Po") {
					seen["turn in a bracket"]++
				} else if set && !documented[one] {
					t.Fatalf("%s is not in the table: %+v", one, v.Data)
				} else if set {
					seen[one]++
				}
			}
		}
		for wait := range w.plan.Waiting.All() {
			for _, v := range wait.Blockers {
				check(v)
			}
		}
		for _, target := range w.s.Targets {
			e, err := w.plan.Explain(target.TargetID)
			if err != nil {
				continue // it is on a resource that is gone
			}
			for _, v := range e.Held {
				check(v)
			}
			for _, version := range e.Versions {
				for _, rule := range version.Rules {
					check(rule.Verdict)
				}
			}
		}
	}, append(reached, "turn in a bracket")...)
}
