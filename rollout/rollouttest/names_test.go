package rollouttest_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/rollout"
	"github.com/tranche-dev/tranche/rollout/rollouttest"
)

// namedWorld is a world in which as much happens as the texts have words for. All its ids, and what
// people wrote, have the given end.
func namedWorld(t *testing.T, end string) rollouttest.World {
	t.Helper()
	n := func(name string) string { return name + end }
	rule := func(id, rest string) string { return fmt.Sprintf(`{"id": %q, %s}`, n(id), rest) }
	w := rollouttest.World{Start: at(1, 9, 0), Policies: compiled(t, fmt.Sprintf(`[
		{"name": "nodes", "selector": "deployment.name in ['drain', 'kubelet']", "rules": [%s]},
		{"name": "services", "selector": "deployment.name == 'web'", "rules": [%s]},
		{"name": "prod", "selector": "deployment.name == 'web' && environment.name == 'prod'", "rules": [%s]}]`, strings.Join([]string{
		rule("B", `"deploymentBracket": {"deploymentSelector": "true", "readinessMode": "collection_window", "readinessWindowSeconds": 60, "stuckAfterSeconds": 300, "memberRoles": {"pre": "deployment.name == 'drain'"}}`),
		rule("L", `"resourceConcurrency": {"groupSelector": "true", "limit": 1, "stuckAfterSeconds": 300}`),
		rule("R", `"retry": {"maxRetries": 1, "backoffSeconds": 60}`),
	}, ","), strings.Join([]string{
		rule("A", `"anyApproval": {"minApprovals": 1}`),
		rule("K", `"resourceConcurrency": {"groupSelector": "true", "limit": 1, "groupBy": "resource.metadata['zone']", "maxActiveKeys": 1}`),
		rule("U", `"rollback": {"onVerificationFailure": true}`),
	}, ","), rule("P", `"environmentProgression": {"dependsOnEnvironmentSelector": "environment.name == 'test'", "minimumSuccessPercentage": 50}`)))}
	f := &w.Fleet
	for _, id := range []string{"prod", "test"} {
		f.Environments = append(f.Environments, rollout.Environment{ID: n(id), Name: id})
	}
	for _, id := range []string{"drain", "kubelet", "web"} {
		f.Deployments = append(f.Deployments, rollout.Deployment{ID: n(id), Name: id})
		for k, created := range []time.Time{at(0, 9, 0), at(1, 9, 1)} {
			v := version(n(id), n(fmt.Sprintf("v%d", k+1)), created)
			v.Name = id
			f.Versions = append(f.Versions, v)
		}
	}
	f.Versions = append(f.Versions, version(n("web"), n("v3"), at(1, 10, 0)))
	target := func(resource, environment, deployment string) *rollout.Target {
		f.Targets = append(f.Targets, rollout.Target{TargetID: rollout.TargetID{Resource: n(resource), Environment: n(environment), Deployment: n(deployment)}})
		t := &f.Targets[len(f.Targets)-1]
		t.Jobs = []rollout.Job{{Run: n("v1 on " + resource + environment + deployment), Version: n("v1"), Status: rollout.JobSuccessful, CreatedAt: at(0, 9, 0)}}
		return t
	}
	for k, id := range []string{"r1", "r2", "r3", "r4"} {
		f.Resources = append(f.Resources, rollout.Resource{ID: n(id), Name: id, Metadata: map[string]string{"zone": n(string(rune('a' + k/2)))}})
		if k < 3 {
			target(id, "prod", "drain")
			target(id, "prod", "kubelet")
		}
		target(id, "prod", "web")
		target(id, "test", "web")
	}
	f.Targets[len(f.Targets)-1].JoinedAt, f.Targets[len(f.Targets)-2].JoinedAt = at(1, 9, 5), at(1, 9, 5)
	f.Resources = append(f.Resources, rollout.Resource{ID: n("r9"), Metadata: map[string]string{"zone": n("c")}})
	found := target("r9", "prod", "web")
	found.Jobs = append(found.Jobs, rollout.Job{Version: n("v1"), Status: rollout.JobInProgress, CreatedAt: at(1, 8, 0)})
	f.Unavailable = []string{n("r3")}
	f.Approvals = []rollout.Approval{
		{Version: n("v2"), Deployment: n("web"), Environment: n("test"), By: n("ann"), Status: rollout.Approved, At: at(1, 9, 3)},
		{Version: n("v2"), Deployment: n("web"), Environment: n("prod"), By: n("bob"), Status: "aproved" + rollout.ApprovalStatus(end), At: at(1, 9, 4)},
		{Version: n("v2"), Deployment: n("web"), Environment: n("prod"), By: n("bob"), Status: rollout.Approved, At: at(1, 10, 4)},
	}
	f.Overrides = []rollout.Override{{ID: n("o1"), Rule: n("A"), Version: n("v2"), Deployment: n("web"), Resource: n("r1"), Environment: n("prod"), CreatedAt: at(1, 9, 2), ExpiresAt: at(1, 11, 0), CreatedBy: n("eve"), Reason: n("in a hurry")},
		{ID: n("o2"), Rule: n("none"), Version: n("v2"), CreatedAt: at(1, 9, 2), CreatedBy: n("eve"), Reason: n("why")}}
	f.Freezes = []rollout.Freeze{{ID: n("z1"), Resource: n("r2"), Environment: n("prod"), Deployment: n("web"), CreatedAt: at(1, 9, 3), ExpiresAt: at(1, 9, 30), CreatedBy: n("eve"), Reason: n("its disk")}}
	f.Commands = []bracket.Command{{ID: n("c1"), Kind: bracket.Close, Group: n("none"), By: n("ann"), Reason: n("soon"), At: at(1, 9, 1)},
		{ID: n("c2"), Kind: bracket.Retry, Group: n("none"), Resource: n("r1"), Deployment: n("drain"), By: n("ann"), Reason: n("again"), At: at(1, 9, 2)}}
	w.Changes = []rollouttest.Change{{At: at(1, 9, 20), What: n("r3 is back"), Do: func(s *rollout.Snapshot) { s.Unavailable = nil }}}
	w.Job = func(start rollout.Start, attempt int) rollouttest.Outcome {
		switch {
		case start.Resource == n("r9"):
			return rollouttest.Outcome{Status: rollout.JobActionRequired}
		case start.Resource == n("r1") && start.Deployment == n("kubelet") && attempt == 1:
			return rollouttest.Outcome{After: minutes(2), Status: rollout.JobFailure}
		case start.Resource == n("r2") && start.Deployment == n("kubelet"):
			return rollouttest.Outcome{Status: rollout.JobStatus(n("sucessful"))}
		case start.Resource == n("r2") && start.Deployment == n("web") && start.Version == n("v2") && start.Environment == n("test"):
			return rollouttest.Outcome{After: minutes(1), Verification: rollout.VerificationFailed, VerifiedAfter: minutes(1)}
		}
		return rollouttest.Outcome{After: minutes(3)}
	}
	return w
}

// plain takes the quotes and the line breaks out of quoted names that hold one.
func plain(text string) string {
	return regexp.MustCompile(`"[^"\n]*"`).ReplaceAllStringFunc(text, func(quoted string) string {
		if inner := strings.ReplaceAll(quoted[1:len(quoted)-1], `\n`, ""); len(inner) < len(quoted)-2 {
			return inner
		}
		return quoted
	})
}

// TestNamesOfOneLine: a line break in a name ends no line, in none of the texts. With quotes and line
// breaks taken away, they are those of the world whose names have no line breaks, word by word.
func TestNamesOfOneLine(t *testing.T) {
	t.Parallel()
	texts := func(end string) map[string]string {
		w := namedWorld(t, end)
		timeline, err := w.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		w.Trust = true
		exploration, err := rollouttest.Explore(t.Context(), w, nil, 1)
		if err != nil {
			t.Fatal(err)
		}
		prediction, err := rollouttest.Forecast(t.Context(), w, rollouttest.Samples{Jobs: map[string][]rollouttest.Outcome{"web" + end: {{After: time.Minute}}}}, 3, 1)
		if err != nil {
			t.Fatal(err)
		}
		list := map[string]string{"timeline": timeline.String(), "exploration": exploration.String(), "prediction": prediction.String()}
		for _, c := range exploration.Consequences {
			list["consequences"] += c.String() + "\n"
		}
		lines := strings.Split(timeline.Chart(time.Minute), "\n")
		list["chart"] = strings.Join(slices.Delete(lines, 2, 3), "\n") // without the axis, which begins behind the longest name
		return list
	}
	want, got := texts(""), texts("\n")
	for name, text := range got {
		if diff := cmp.Diff(want[name], plain(text)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if !strings.Contains(text, `\n"`) {
			t.Errorf("%s: no name is quoted:\n%s", name, text)
		}
	}
}
