package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tranche-dev/tranche/examples/internal/program/programtest"
	"github.com/tranche-dev/tranche/rollout"
)

// headings leaves out the explanations of findings: they belong to the library, and are tested
// there.
func headings(text string) string {
	at := strings.LastIndex(text, "\nfindings about ")
	report, findings := text[:at], text[at:]
	var b strings.Builder
	b.WriteString(report)
	for line := range strings.Lines(findings) {
		if !strings.HasPrefix(line, "    ") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// atPresent runs the program at an instant that must not matter where the snapshot of this folder
// is used.
func atPresent(args []string, out io.Writer) error {
	return run(args, time.Date(2026, 3, 11, 12, 0, 0, 0, time.UTC), out)
}

func TestReports(t *testing.T) {
	programtest.Reports(t, atPresent, headings, []programtest.Report{
		{Name: "default", Why: "everybody", Says: []string{
			"at 2026-03-11T11:00:00Z: 4 start, 15 wait, 2 need nothing; look again at 2026-03-11T11:25:00Z",
			"  db pg16 in production on eu-1, weekend overridden by dana: INC-77 until 2026-03-11T18:00:00Z",
			"  slot_full: 1 target, the only one in the way of 1; opened by the fleet",
			"  1. eu-1 / production / api: deploy v2, due since 2026-03-11T10:30:00Z, for one-per-region/eu",
		}},
		{Name: "web", Why: "four kinds of blockers, and time alone does not help", Args: []string{"-target", "eu-2/production/web"}, Says: []string{
			"in the way of v2: 4 rules, and every one must open", "time alone does not open them",
		}},
		{Name: "db", Why: "two blockers that time opens", Args: []string{"-target", "eu-2/production/db"}, Says: []string{
			"by itself it opens at 2026-03-14T01:00:00Z", "  info window_clock_change at [2].rules[0].deploymentWindow [weekend]",
		}},
		{Name: "db-undone", Why: "a rollback", Args: []string{"-target", "us-2/production/db"}, Says: []string{"  db-rollback            opened by an operator, the release"}},
		{Name: "cache", Why: "a newer version that is for others", Args: []string{"-target", "us-1/production/cache"}, Says: []string{"  v4, scoped: out of scope"}},
		{Name: "slot", Why: "a slot that another target holds", Args: []string{"-target", "eu-1/production/api"}, Says: []string{"  queue     one-per-region/eu: 1 of 1"}},
		{Name: "starts", Why: "nothing stands in the way of what starts", Args: []string{"-target", "eu-1/production/db"}, Says: []string{"nothing stands in the way"}},
		{Name: "bracket", Why: "a member of a bracket", Args: []string{"-target", "node-1/production/kubelet"}, Says: []string{"  bracket   node-upgrade"}},
		{Name: "clean", Why: "policies in which nothing is wrong", Args: []string{"-policy", "testdata/clean.yaml", "-snapshot", "testdata/clean-snapshot.yaml", "-now", "2026-03-11T11:00:00Z"}, Says: []string{
			"at 2026-03-11T11:00:00Z: 0 start, 0 wait, 1 needs nothing", "findings about the policies", "  none",
		}},
		{Name: "before", Why: "what ten minutes changed", Args: []string{"-before", "before.yaml"}, Says: []string{
			"    - pg16 waits: window_closed until 2026-03-14T01:00:00Z", "    + starts pg16",
		}},
		{Name: "before-target", Why: "… for one target", Args: []string{"-before", "before.yaml", "-target", "eu-1/production/web"}, Says: []string{"what is different", "  nothing"}},
		{Name: "before-now", Why: "what time alone changes in a day", Args: []string{"-now", "2026-03-12T08:00:00Z", "-before-now", "2026-03-11T11:00:00Z"}, Says: []string{
			"    - v3 waits: cooldown after v2 until 2026-03-12T08:00:00Z", "    + starts v3",
		}},
		{Name: "before-policy", Why: "what an edited policy would change", Args: []string{"-policy", "testdata/easier.yaml", "-before-policy", "policy.yaml"}, Says: []string{
			"  web in production on eu-1, eu-2, us-1, us-2", "    + pg16 waits: window_closed until 2026-03-12T01:00:00Z",
		}},
	})
}

// TestManyKinds keeps the shipped files what they are for: a wide choice of verdicts in one plan.
func TestManyKinds(t *testing.T) {
	t.Parallel()
	a, err := find(options{now: observed, horizon: 24 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, w := range a.Waiting {
		for _, v := range w.Blockers {
			if !slices.Contains(got, string(v.Reason)) {
				got = append(got, string(v.Reason))
			}
		}
	}
	slices.Sort(got)
	want := []string{
		"approval_missing", "bracket_collecting", "cooldown", "dependency_unmatched", "dependency_unmet", "frozen", "progression_waiting", "retry_backoff", "retry_exhausted",
		"rollback_triggered", "rollout_not_due", "rollout_not_started", "selector_missing_key", "selector_no_match", "slot_full", "target_busy",
		"version_dependency_unmet", "version_not_deployable", "window_closed",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestBlockersSuffice takes the rules that are listed for a target out of the policies: then it
// starts, and with one of them left it does not.
func TestBlockersSuffice(t *testing.T) {
	t.Parallel()
	a, err := find(options{now: observed, horizon: 24 * time.Hour, target: "eu-2/production/web"})
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("policy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	without := func(rules []string) bool {
		kept := string(text)
		for _, id := range rules {
			kept = regexp.MustCompile(`(?m)^    - id: `+id+`\n      .*\n`).ReplaceAllString(kept, "")
		}
		kept = strings.Replace(kept, "  rules:\n\n- name: Api", "  rules: [{id: none, retry: {maxRetries: 0}}]\n\n- name: Api", 1)
		path := filepath.Join(t.TempDir(), "policy.yaml")
		if err := os.WriteFile(path, []byte(kept), 0o644); err != nil {
			t.Fatal(err)
		}
		b, err := find(options{policy: path, now: observed, horizon: 24 * time.Hour, target: "eu-2/production/web"})
		if err != nil {
			t.Fatal(err)
		}
		return len(b.Start) == 1
	}
	var rules []string
	for _, b := range a.Target.Blockers {
		rules = append(rules, b.Rule)
	}
	if len(rules) != 4 {
		t.Fatalf("blockers %v", rules)
	}
	if !without(rules) {
		t.Error("it does not start without its blockers")
	}
	for k, left := range rules {
		if left == "web-turns" {
			continue // it has no start only because the gates are shut; without them its first position is due at once
		}
		if without(slices.Delete(slices.Clone(rules), k, k+1)) {
			t.Errorf("it starts although %s is left", left)
		}
	}
}

func TestJSON(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := atPresent([]string{"-json", "-target", "eu-2/production/web", "-before", "before.yaml"}, &out); err != nil {
		t.Fatal(err)
	}
	var got answer
	decoder := json.NewDecoder(&out)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&got); err != nil {
		t.Fatal(err)
	}
	if got.Target == nil || len(got.Target.Blockers) != 4 || len(got.Target.Versions) != 2 || len(got.Waiting) != 1 || len(got.Changes) != 0 || len(got.Findings) != 0 {
		t.Errorf("%+v", got)
	}
	if !slices.Contains(got.Target.Actors, rollout.ActorApprover) || !slices.Contains(got.Target.Actors, rollout.ActorPolicy) || !got.Target.Until.IsZero() {
		t.Errorf("actors %v, until %v", got.Target.Actors, got.Target.Until)
	}
}

// TestOwnSnapshot: a snapshot of one's own is looked at in the present.
func TestOwnSnapshot(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := atPresent([]string{"-snapshot", "snapshot.yaml"}, &out); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(out.String(), "at 2026-03-11T12:00:00Z: ") {
		t.Errorf("got %.60q", out.String())
	}
}

func TestWrongInput(t *testing.T) {
	programtest.Refusals(t, atPresent, []programtest.Refusal{
		{Why: "faults of both files at once", Args: []string{"-policy", "testdata/wrong-policy.yaml", "-snapshot", "testdata/unknown-fields.yaml"}, Faults: []string{
			`^testdata/wrong-policy\.yaml: selector: 1:17`, `rules\[0\]\.anyApproval\.minApprovals: -1`, `rules\[1\]: must hold only one kind`, `rules\[1\]\.gradualRollout\.rolloutType: "steps"`,
			`^testdata/unknown-fields\.yaml: resources\[0\]\.labels: `, `versions\[0\]\.createdAt: `, `targets\[0\]\.job: .*jobs`,
		}},
		{Why: "contradictions in a snapshot", Args: []string{"-snapshot", "testdata/wrong-snapshot.yaml"}, Faults: []string{
			`^testdata/wrong-snapshot\.yaml: resources\[1\]\.id: "a": is the id of resources\[0\] too`, `versions\[0\]\.deployment: "wep"`, `versions\[1\]\.createdAt: is required`, `targets\[0\]\.environment: "prod"`, `overrides\[0\]\.reason: is required`,
		}},
		{Why: "deployments that wait for one another", Args: []string{"-policy", "testdata/cycle.yaml"}, Faults: []string{`^testdata/cycle\.yaml: .*(db.*report|report.*db)`}},
		{Why: "two brackets that claim the same targets, before the edit", Args: []string{"-before-policy", "testdata/two-brackets.yaml"}, Faults: []string{`^testdata/two-brackets\.yaml: bracket: .* both bracket deployment "api" on resource "eu-1"`}},
		{Why: "a snapshot of nothing", Args: []string{"-snapshot", "testdata/empty.yaml"}, Faults: []string{`^testdata/empty\.yaml: targets: at least one`}},
		{Why: "a target that is not there, and which are", Args: []string{"-target", "eu-2/staging/web"}, Faults: []string{`-target: snapshot\.yaml has no target "eu-2/staging/web": there are eu-2/production/api, eu-2/production/db, eu-2/production/web`}},
		{Why: "no target at all", Args: []string{"-target", "web"}, Faults: []string{`^-target: .*write it as resource/environment/deployment, such as staging-1/staging/web$`}},
		{Why: "both of them", Args: []string{"-now", "noon", "-before-now", "11:00"}, Faults: []string{`^-now: "noon"`, `^-before-now: "11:00"`}},
		{Why: "instants that nobody plans for", Args: []string{"-now", "0001-01-01T00:00:00Z", "-before-now", "2262-04-12T00:00:00Z"}, Faults: []string{`^-now: "0001-.*: must lie in the years 1970 to 2199`, `^-before-now: "2262-.*: must lie`}},
		{Why: "the plan before comes after the other one", Args: []string{"-now", "2026-03-11T11:00:00Z", "-before-now", "2026-03-12T09:00:00+01:00"}, Faults: []string{`^-before-now: 2026-03-12T09:00:00\+01:00 is later than -now, which is 2026-03-11T11:00:00Z: give an earlier instant, or a later one with -now$`}},
		{Why: "it comes after the instant of the snapshot of this folder", Args: []string{"-before-now", "2026-03-11T11:00:01Z"}, Faults: []string{`^-before-now: 2026-03-11T11:00:01Z is later than -now, which is 2026-03-11T11:00:00Z`}},
		{Why: "it comes after the present", Args: []string{"-snapshot", "snapshot.yaml", "-before-now", "2026-03-11T12:00:01Z"}, Faults: []string{`^-before-now: 2026-03-11T12:00:01Z is later than -now, which is 2026-03-11T12:00:00Z`}},
		{Why: "no policies", Args: []string{"-policy", "testdata/no-policies.yaml", "-before-policy", "testdata/no-policies.yaml"}, Faults: []string{`^testdata/no-policies\.yaml: must hold at least one policy`, `^testdata/no-policies\.yaml: must`}},
		{Why: "a field twice", Args: []string{"-snapshot", "testdata/twice.yaml"}, Faults: []string{`^testdata/twice\.yaml: targets\[0\]\.current: yaml: line 2: is given in line 1 already: keep one of them`}},
		{Why: "no time to look ahead", Args: []string{"-horizon", "0s"}, Faults: []string{`^-horizon: "0s": must be a duration above 0 and of at most 43800h`}},
		{Why: "a file that is not there", Args: []string{"-before", "none.yaml"}, Faults: []string{`none\.yaml: no such file`}},
		{Why: "contradictions before", Args: []string{"-before", "testdata/unknown-fields.yaml"}, Faults: []string{`resources\[0\]\.labels`, `createdAt`, `targets\[0\]\.job`}},
		{Why: "a file without flag", Args: []string{"snapshot.yaml"}, Faults: []string{`unexpected argument "snapshot\.yaml"`}},
		{Why: "an unknown flag", Args: []string{"-why"}, Faults: []string{`-why`}},
	})
}

func TestHelp(t *testing.T) { programtest.Help(t, atPresent, "-before-policy file") }

// TestNarrowedFindings: what is wrong with a policy that governs a target concerns it, and what is
// wrong with a version of its deployment, whoever is the example.
func TestNarrowedFindings(t *testing.T) {
	t.Parallel()
	own := rollout.TargetID{Resource: "eu-1", Environment: "production", Deployment: "web"}
	other := rollout.TargetID{Resource: "eu-1", Environment: "production", Deployment: "webhook"}
	a := answer{Findings: []rollout.Finding{
		{Path: "[0].rules[0]", Policy: "web", Example: other},
		{Path: "[1].rules[0]", Policy: "hooks", Example: other},
		{Path: "versions[web@v2].dependencies[0]", Example: other},
		{Path: "versions[webhook@v2].dependencies[0]", Example: other},
		{Path: "targets", Example: other},
		{Path: "targets", Example: own},
	}}
	a.narrow(own, []string{"web"})
	var got []string
	for _, f := range a.Findings {
		got = append(got, f.Path)
	}
	if want := []string{"[0].rules[0]", "versions[web@v2].dependencies[0]", "targets"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
