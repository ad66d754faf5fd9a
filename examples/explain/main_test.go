package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tranche-dev/tranche/rollout"
)

var update = flag.Bool("update", false, "rewrite the golden files of testdata")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

// headings leaves out the explanations of findings: they belong to the library, and are tested there.
func headings(text string) string {
	report, findings, _ := strings.Cut(text, "\nfindings about the policies\n")
	var b strings.Builder
	b.WriteString(report + "\nfindings about the policies\n")
	for line := range strings.Lines(findings) {
		if !strings.HasPrefix(line, "    ") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// present is a clock that must not be read where the files of this folder are used.
func present() time.Time { return time.Date(2026, 3, 11, 12, 0, 0, 0, time.UTC) }

func TestReports(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name, why string
		args      []string
		says      []string // lines that must be there, whatever the golden file says
	}{
		{name: "default", why: "everybody", says: []string{
			"at 2026-03-11T11:00:00Z: 4 start, 15 wait, 2 need nothing; look again at 2026-03-11T11:25:00Z",
			"  db pg16 in production on eu-1, weekend overridden by dana: INC-77 until 2026-03-11T18:00:00Z",
			"  slot_full: 1 target, the only one in the way of 1; opened by the fleet",
		}},
		{name: "web", why: "four kinds of blockers, and time alone does not help", args: []string{"-target", "eu-2/production/web"}, says: []string{
			"in the way of v2: 4 rules, and every one must open", "time alone does not open them",
		}},
		{name: "db", why: "two blockers that time opens", args: []string{"-target", "eu-2/production/db"}, says: []string{"by itself it opens at 2026-03-14T01:00:00Z"}},
		{name: "db-undone", why: "a rollback", args: []string{"-target", "us-2/production/db"}, says: []string{"  db-rollback            opened by an operator, the release"}},
		{name: "cache", why: "a newer version that is for others", args: []string{"-target", "us-1/production/cache"}, says: []string{"  v4, scoped: out of scope"}},
		{name: "starts", why: "nothing stands in the way of what starts", args: []string{"-target", "eu-1/production/db"}, says: []string{"nothing stands in the way"}},
		{name: "bracket", why: "a member of a bracket", args: []string{"-target", "node-1/production/kubelet"}, says: []string{"  bracket   node-upgrade"}},
		{name: "clean", why: "policies in which nothing is wrong", args: []string{"-policy", "testdata/clean.yaml", "-snapshot", "testdata/clean-snapshot.yaml", "-now", "2026-03-11T11:00:00Z"}, says: []string{
			"at 2026-03-11T11:00:00Z: 0 start, 0 wait, 1 needs nothing", "findings about the policies", "  none",
		}},
		{name: "before", why: "what ten minutes changed", args: []string{"-before", "before.yaml"}, says: []string{
			"    - pg16 waits: window_closed until 2026-03-14T01:00:00Z", "    + starts pg16",
		}},
		{name: "before-target", why: "… for one target", args: []string{"-before", "before.yaml", "-target", "eu-1/production/web"}, says: []string{"what is different", "  nothing"}},
		{name: "before-now", why: "what time alone changes in a day", args: []string{"-now", "2026-03-12T08:00:00Z", "-before-now", "2026-03-11T11:00:00Z"}, says: []string{
			"    - v3 waits: cooldown after v2 until 2026-03-12T08:00:00Z", "    + starts v3",
		}},
		{name: "before-policy", why: "what an edited policy would change", args: []string{"-policy", "testdata/easier.yaml", "-before-policy", "policy.yaml"}, says: []string{
			"  web in production on eu-1, eu-2, us-1, us-2", "    + pg16 waits: window_closed until 2026-03-12T01:00:00Z",
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			if err := run(row.args, present, &out, &out); err != nil {
				t.Fatal(err)
			}
			lines := strings.Split(out.String(), "\n")
			for _, want := range row.says {
				if !slices.Contains(lines, want) {
					t.Errorf("%s: the report lacks the line %q", row.why, want)
				}
			}
			golden(t, row.name+".txt", headings(out.String()))
		})
	}
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
		"approval_missing", "bracket_collecting", "cooldown", "dependency_unmatched", "dependency_unmet", "progression_waiting", "retry_backoff", "retry_exhausted",
		"rollback_triggered", "rollout_not_due", "rollout_not_started", "selector_missing_key", "selector_no_match", "slot_full", "target_busy",
		"version_dependency_unmet", "version_not_deployable", "window_closed",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestBlockersSuffice takes the rules that are listed for a target out of the policies: then it starts, and with one of them left it does not.
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
	if err := run([]string{"-json", "-target", "eu-2/production/web", "-before", "before.yaml"}, present, &out, &out); err != nil {
		t.Fatal(err)
	}
	var got answer
	decoder := json.NewDecoder(&out)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&got); err != nil {
		t.Fatal(err)
	}
	if got.Target == nil || len(got.Target.Blockers) != 4 || len(got.Target.Versions) != 2 || len(got.Waiting) != 1 || len(got.Changes) != 0 || len(got.Findings) == 0 {
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
	if err := run([]string{"-snapshot", "snapshot.yaml"}, present, &out, &out); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(out.String(), "at 2026-03-11T12:00:00Z: ") {
		t.Errorf("got %.60q", out.String())
	}
}

// TestWrongInput: every fault is named with the file or flag and its path.
func TestWrongInput(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name, why string
		args      []string
		want      []string // expressions, one per fault
	}{
		{"policy and snapshot", "faults of both files at once", []string{"-policy", "testdata/wrong-policy.yaml", "-snapshot", "testdata/unknown-fields.yaml"}, []string{
			`^testdata/wrong-policy\.yaml: selector: 1:17`, `rules\[0\]\.anyApproval\.minApprovals: -1`, `rules\[1\]: must hold exactly one kind`, `rules\[1\]\.gradualRollout\.rolloutType: "steps"`,
			`^testdata/unknown-fields\.yaml: resources\[0\]\.labels: `, `versions\[0\]\.createdAt: `, `targets\[0\]\.job: .*jobs`,
		}},
		{"snapshot", "contradictions in a snapshot", []string{"-snapshot", "testdata/wrong-snapshot.yaml"}, []string{
			`^testdata/wrong-snapshot\.yaml: resources: the id "a" occurs twice`, `versions\[0\]\.deployment: "wep"`, `versions\[1\]\.createdAt: required`, `targets\[0\]\.environment: "prod"|targets: .*"prod"`,
		}},
		{"cycle", "deployments that wait for one another", []string{"-policy", "testdata/cycle.yaml"}, []string{`db.*report|report.*db`}},
		{"target", "a target that is not there, and which are", []string{"-target", "eu-2/staging/web"}, []string{`-target: snapshot\.yaml has no target "eu-2/staging/web": there are eu-2/production/api, eu-2/production/db, eu-2/production/web`}},
		{"target form", "no target at all", []string{"-target", "web"}, []string{`-target: .*write it as resource/environment/deployment`}},
		{"instants", "both of them", []string{"-now", "noon", "-before-now", "11:00"}, []string{`^-now: "noon"`, `^-before-now: "11:00"`}},
		{"horizon", "no time to look ahead", []string{"-horizon", "0s"}, []string{`-horizon: 0s`}},
		{"missing", "a file that is not there", []string{"-before", "none.yaml"}, []string{`none\.yaml: no such file`}},
		{"before", "contradictions before", []string{"-before", "testdata/unknown-fields.yaml"}, []string{`resources\[0\]\.labels`, `createdAt`, `targets\[0\]\.job`}},
		{"argument", "a file without flag", []string{"snapshot.yaml"}, []string{`unexpected argument "snapshot\.yaml"`}},
		{"flag", "an unknown flag", []string{"-why"}, []string{`-why`}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			err := run(row.args, present, &out, &out)
			var wrong *inputError
			if !errors.As(err, &wrong) {
				t.Fatalf("%s: got %v, want the error of an input, which exits with 2", row.why, err)
			}
			lines := strings.Split(err.Error(), "\n")
			for _, want := range row.want {
				if !slices.ContainsFunc(lines, regexp.MustCompile(want).MatchString) {
					t.Errorf("%s: no line matches %q in\n%v", row.why, want, err)
				}
			}
			if len(lines) != len(row.want) {
				t.Errorf("%s: %d lines, want %d:\n%v", row.why, len(lines), len(row.want), err)
			}
			if out.Len() > 0 {
				t.Errorf("%s: something was printed before the error: %s", row.why, out.String())
			}
		})
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := run([]string{"-help"}, present, &out, &out); !errors.Is(err, flag.ErrHelp) || !strings.Contains(out.String(), "-before-policy file") {
		t.Errorf("%v: %s", err, out.String())
	}
}
