package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tranche-dev/tranche/rollout"
	"github.com/tranche-dev/tranche/rollout/rollouttest"
	"github.com/tranche-dev/tranche/selector"
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

func TestReports(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name, why string
		args      []string
		says      []string // lines that must be there, whatever the golden file says
	}{
		{
			name: "default", why: "the RFC's example",
			says: []string{
				"  node-1     start +0m      end +15m     completed", "  node-3     start +5m      end +20m     completed",
				"  node-8     start +15m     end +30m     completed", "  node-7     start +20m     end +35m     completed",
				"  node-2     start +30m     end +45m     completed", "  node-0     start +35m     end +50m     completed",
				"  node-9     start +45m     end +60m     completed", "  node-4     start +50m     end +65m     completed",
				"  node-5     start +60m     end +75m     completed", "  node-6     start +65m     end +80m     completed",
				"at most 2 resources in flight at once", "drains: 10 instead of 30", "done at 2026-03-11 10:20:00",
			},
		},
		{
			name: "partial", why: "only the kubelet is new", args: []string{"-partial"},
			says: []string{
				"    09:05:00  node-3: start node-drain v1", "    09:13:00  node-3: start kubelet-upgrade v1.29.2", "    09:16:00  node-3: start node-uncordon v1",
				"    09:17:00  node-3: group 1 in prod ended: completed", "drains: 10 instead of 10",
			},
		},
		{
			name: "queue", why: "a second wave waits for the first", args: []string{"-overlap", "queue"},
			says: []string{
				"    09:12:00  node-1: start kubelet-upgrade v1.29.2", "    09:19:00  node-1: start node-uncordon v1",
				"    09:20:00  node-1: start node-drain v1", "    09:28:00  node-1: start os-patch 2026-04",
				"    09:32:00  node-1: start kubelet-upgrade v1.29.3", "    09:39:00  node-1: start node-uncordon v1", "    09:40:00  node-1: group 2 in prod ended: completed",
			},
		},
		{
			name: "merge", why: "a second wave goes into the execution that is open", args: []string{"-overlap", "merge"},
			says: []string{
				"    09:10:00  node-1: group 2 in prod merged into group 1 in prod", "    09:12:00  node-1: start os-patch 2026-04",
				"    09:16:00  node-1: start kubelet-upgrade v1.29.3", "    09:23:00  node-1: start node-uncordon v1", "    09:24:00  node-1: group 1 in prod ended: completed",
			},
		},
		{
			name: "failure", why: "without a retry rule the node stays drained", args: []string{"-fail", "kubelet-upgrade"},
			says: []string{"    09:19:00  node-3: kubelet-upgrade v1.29.2 ended: failure", "    09:19:00  node-3: kubelet-upgrade v1.29.2, node-uncordon v1: bracket_failed_holding, waits for an operator", "not done, and nothing will happen any more"},
		},
		{
			name: "failure-retry", why: "the policy in YAML, with a retry rule", args: []string{"-fail", "kubelet-upgrade", "-policy", "policy-retry.yaml"},
			says: []string{
				"    09:20:00  node-3: start kubelet-upgrade v1.29.2, attempt 2", "    09:25:00  node-3: start kubelet-upgrade v1.29.2, attempt 3",
				"    09:28:00  node-3: start node-uncordon v1", "    09:29:00  node-3: group 1 in prod ended: completed", "drains: 10 instead of 30",
			},
		},
		{
			name: "other-node", why: "another node is traced and fails", args: []string{"-resource", "node-7", "-fail", "containerd-upgrade", "-fail-attempts", "1"},
			says: []string{"every decision about node-7", "    09:34:00  node-7: containerd-upgrade v1.7.3 ended: failure"},
		},
		{
			name: "two-clusters", why: "the RFC's second example, in CEL", args: []string{"-policy", "testdata/two-clusters.json", "-fleet", "testdata/two-clusters-fleet.json"},
			says: []string{"Prod Node Lifecycle/resourceConcurrency/0: at most 2 of 10 active, 2 allowed", "Staging Node Lifecycle/resourceConcurrency/0: at most 3 of 5 active, 3 allowed"},
		},
		{
			name: "forecast", why: "durations drawn from past jobs", args: []string{"-forecast", "50", "-seed", "7"},
			says: []string{"forecast with durations of past jobs: 50 trials", "never done: 0 %"},
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			if err := run(t.Context(), row.args, &out, &out); err != nil {
				t.Fatal(err)
			}
			lines := strings.Split(out.String(), "\n")
			for _, want := range row.says {
				found := false
				for _, line := range lines {
					found = found || line == want || strings.HasPrefix(line, want+" ")
				}
				if !found {
					t.Errorf("%s: the report lacks the line %q", row.why, want)
				}
			}
			golden(t, row.name+".txt", out.String())
		})
	}
}

// TestPolicyIsTheRFCs keeps the shipped policy what the RFC prints.
func TestPolicyIsTheRFCs(t *testing.T) {
	t.Parallel()
	shipped, err := os.ReadFile("policy.json")
	if err != nil {
		t.Fatal(err)
	}
	list, err := rollout.ParsePolicies(shipped)
	if err != nil || len(list) != 1 {
		t.Fatalf("%d policies, %v", len(list), err)
	}
	env, err := selector.NewEnv(selector.DefaultSchema(), selector.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rollout.Compile(list, env); err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, rule := range list[0].Rules {
		kinds = append(kinds, rule.Kind())
	}
	want := []string{rollout.KindBracket, rollout.KindConcurrency, rollout.KindGradualRollout, rollout.KindDependency, rollout.KindDependency, rollout.KindDependency}
	if diff := cmp.Diff(want, kinds); diff != "" {
		t.Error(diff)
	}
}

func TestJSON(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := run(t.Context(), []string{"-json", "-forecast", "3"}, &out, &out); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Timeline rollouttest.Timeline   `json:"timeline"`
		Forecast rollouttest.Prediction `json:"forecast"`
	}
	decoder := json.NewDecoder(&out)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&got); err != nil {
		t.Fatal(err)
	}
	if !got.Timeline.Done || got.Timeline.Drains != 10 || got.Timeline.DrainsSaved != 20 || got.Timeline.InFlight != 2 || len(got.Forecast.Trials) != 3 {
		t.Errorf("done %t, %d drains, %d saved, %d in flight, %d trials", got.Timeline.Done, got.Timeline.Drains, got.Timeline.DrainsSaved, got.Timeline.InFlight, len(got.Forecast.Trials))
	}
}

func TestAllResources(t *testing.T) {
	t.Parallel()
	var one, all bytes.Buffer
	if err := run(t.Context(), nil, &one, &one); err != nil {
		t.Fatal(err)
	}
	if err := run(t.Context(), []string{"-all"}, &all, &all); err != nil {
		t.Fatal(err)
	}
	if n, m := strings.Count(one.String(), ": start node-drain v1"), strings.Count(all.String(), ": start node-drain v1"); n != 1 || m != 10 {
		t.Errorf("%d drains told of one node, %d of all; want 1 and 10", n, m)
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
		{"policy", "all faults of a policy at once", []string{"-policy", "testdata/wrong-policy.json"}, []string{
			`^testdata/wrong-policy\.json: selector: .*1:\d+`,
			`rules\[0\]\.deploymentBracket\.deploymentSelector: .*metdata`,
			`rules\[0\]\.deploymentBracket\.readinessWindowSeconds: -1`,
			`rules\[0\]\.deploymentBracket\.preparedStatePersists: `,
			`rules\[1\]\.resourceConcurrency\.limitValue: `,
			`rules\[2\]\.gradualRollout\.rolloutType: "lineal"`,
			`rules\[3\]\.deploymentDependency\.dependsOn: .*bool`,
		}},
		{"unknown fields", "a typo in a field is named, with the field that was meant", []string{"-policy", "testdata/unknown-fields.json"}, []string{
			`rules\[0\]\.deploymentBracket\.readinessWindowSecond: .*readinessWindowSeconds`, `rules\[1\]\.resourceConcurrency\.limitValue: `,
		}},
		{"AND", "the RFC's second example as printed is no CEL", []string{"-policy", "testdata/two-clusters-as-printed.json", "-fleet", "testdata/two-clusters-fleet.json"}, []string{
			`\[0\]\.selector: .*1:40.*&&`, `\[1\]\.selector: .*1:40.*&&`,
		}},
		{"releases", "all faults of a releases file", []string{"-releases", "testdata/wrong-releases.json"}, []string{
			`trace: the fleet has no resource "node-33"`, `versions\[0\]\.deployment: .*"kubelet"`, `versions\[1\]\.publishedAt: is required`,
			`durations\.node-uncordon: is required`, `versions: containerd-upgrade v1\.7\.2 is missing`, `versions: kubelet-upgrade v1\.29\.1 is missing`,
			`versions: node-drain v1 is missing`, `versions: node-uncordon v1 is missing`, `versions: os-patch 2026-02 is missing`,
		}},
		{"fleet", "a policy is no fleet", []string{"-fleet", "policy.json"}, []string{`policy\.json: name: `, `policy\.json: selector: `, `policy\.json: rules: `}},
		{"yaml", "a broken YAML file", []string{"-policy", "testdata/broken.yaml"}, []string{`testdata/broken\.yaml: yaml: `}},
		{"missing", "a file that is not there", []string{"-policy", "testdata/none.json"}, []string{`testdata/none\.json: no such file`}},
		{"directory", "a directory is no file", []string{"-fleet", "testdata"}, []string{`testdata: is a directory`}},
		{"flag", "an unknown flag", []string{"-policies", "x"}, []string{`-policies`}},
		{"argument", "a file without flag", []string{"policy.json"}, []string{`unexpected argument "policy\.json"`}},
		{"overlap", "an unknown strategy", []string{"-overlap", "replace"}, []string{`-overlap: "replace" is unknown`}},
		{"overlap and partial", "two sets of releases", []string{"-overlap", "merge", "-partial"}, []string{`-overlap: `}},
		{"attempts", "no attempt fails", []string{"-fail-attempts", "0"}, []string{`-fail-attempts: 0`}},
		{"forecast", "negative trials", []string{"-forecast", "-1"}, []string{`-forecast: -1`}},
		{"resource", "a node that is not there", []string{"-resource", "node-10"}, []string{`-resource: the fleet has no resource "node-10"`}},
		{"fail-on", "a node that is not there", []string{"-fail-on", "node-10"}, []string{`-fail-on: the fleet has no resource "node-10"`}},
		{"fail", "a deployment that is not there", []string{"-fail", "kubelet"}, []string{`-fail: the fleet has no deployment "kubelet"`}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			err := run(t.Context(), row.args, &out, &out)
			var wrong *inputError
			if !errors.As(err, &wrong) {
				t.Fatalf("%s: got %v, want the error of an input, which exits with 2", row.why, err)
			}
			lines := strings.Split(err.Error(), "\n")
			for _, want := range row.want {
				found := false
				for _, line := range lines {
					found = found || regexp.MustCompile(want).MatchString(line)
				}
				if !found {
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
	if err := run(t.Context(), []string{"-help"}, &out, &out); !errors.Is(err, flag.ErrHelp) || !strings.Contains(out.String(), "-overlap queue") {
		t.Errorf("%v: %s", err, out.String())
	}
}
