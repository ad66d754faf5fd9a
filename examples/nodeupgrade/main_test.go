package main

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tranche-dev/tranche/examples/internal/program/programtest"
	"github.com/tranche-dev/tranche/rollout"
	"github.com/tranche-dev/tranche/rollout/rollouttest"
	"github.com/tranche-dev/tranche/selector"
)

func TestReports(t *testing.T) {
	programtest.Reports(t, run, nil, []programtest.Report{
		{
			Name: "default", Why: "the RFC's example",
			Says: []string{
				"  node-1     start +0m      end +15m     completed", "  node-3     start +5m      end +20m     completed",
				"  node-8     start +15m     end +30m     completed", "  node-7     start +20m     end +35m     completed",
				"  node-2     start +30m     end +45m     completed", "  node-0     start +35m     end +50m     completed",
				"  node-9     start +45m     end +60m     completed", "  node-4     start +50m     end +65m     completed",
				"  node-5     start +60m     end +75m     completed", "  node-6     start +65m     end +80m     completed",
				"at most 2 resources in flight at once", "drains: 10 instead of 30 (one for each upgrade)", "done at 2026-03-11 10:20:00",
			},
		},
		{
			Name: "partial", Why: "only the kubelet is new", Args: []string{"-partial"},
			Says: []string{
				"    09:05:00  node-3: start node-drain v1", "    09:13:00  node-3: start kubelet-upgrade v1.29.2", "    09:16:00  node-3: start node-uncordon v1",
				"    09:17:00  node-3: group 1 in prod ended: completed", "drains: 10",
			},
		},
		{
			Name: "queue", Why: "a second wave waits for the first", Args: []string{"-overlap", "queue"},
			Says: []string{
				"    09:12:00  node-1: start kubelet-upgrade v1.29.2", "    09:19:00  node-1: start node-uncordon v1",
				"    09:20:00  node-1: start node-drain v1", "    09:28:00  node-1: start os-patch 2026-04",
				"    09:32:00  node-1: start kubelet-upgrade v1.29.3", "    09:39:00  node-1: start node-uncordon v1", "    09:40:00  node-1: group 2 in prod ended: completed",
			},
		},
		{
			Name: "merge", Why: "a second wave goes into the execution that is open", Args: []string{"-overlap", "merge"},
			Says: []string{
				"    09:10:00  node-1: group 2 in prod merged into group 1 in prod", "    09:12:00  node-1: start os-patch 2026-04",
				"    09:16:00  node-1: start kubelet-upgrade v1.29.3", "    09:23:00  node-1: start node-uncordon v1", "    09:24:00  node-1: group 1 in prod ended: completed",
			},
		},
		{
			Name: "failure", Why: "without a retry rule the node stays drained", Args: []string{"-fail", "kubelet-upgrade"},
			Says: []string{"    09:19:00  node-3: kubelet-upgrade v1.29.2 ended: failure", "    09:19:00  node-3: kubelet-upgrade v1.29.2, node-uncordon v1: bracket_failed_holding (kubelet-upgrade failed), waits for an operator", "not done, and nothing will happen any more"},
		},
		{
			Name: "failure-retry", Why: "the policy in YAML, with a retry rule", Args: []string{"-fail", "kubelet-upgrade", "-policy", "policy-retry.yaml"},
			Says: []string{
				"    09:20:00  node-3: start kubelet-upgrade v1.29.2, attempt 2", "    09:25:00  node-3: start kubelet-upgrade v1.29.2, attempt 3",
				"    09:28:00  node-3: start node-uncordon v1", "    09:29:00  node-3: group 1 in prod ended: completed", "drains: 10 instead of 30 (one for each upgrade)",
			},
		},
		{
			Name: "operator", Why: "an operator retries what holds the node", Args: []string{"-fail", "kubelet-upgrade", "-operator", "20m"},
			Says: []string{
				"    09:19:00  node-3: kubelet-upgrade v1.29.2 ended: failure", "    09:39:00  operator: retry on node-3 kubelet-upgrade", "    09:39:00  node-3: start kubelet-upgrade v1.29.2, attempt 2",
				"    10:02:00  node-3: start kubelet-upgrade v1.29.2, attempt 3", "drains: 10 instead of 30 (one for each upgrade)",
			},
		},
		{
			Name: "other-node", Why: "another node is traced and fails", Args: []string{"-resource", "node-7", "-fail", "containerd-upgrade", "-fail-attempts", "1"},
			Says: []string{"every decision about node-7", "    09:34:00  node-7: containerd-upgrade v1.7.3 ended: failure"},
		},
		{
			Name: "two-clusters", Why: "the RFC's second example, in CEL", Args: []string{"-policy", "testdata/two-clusters.json", "-fleet", "testdata/two-clusters-fleet.json"},
			Says: []string{"Prod Node Lifecycle/resourceConcurrency/0: at most 2 of 10 active, 2 allowed", "Staging Node Lifecycle/resourceConcurrency/0: at most 3 of 5 active, 3 allowed"},
		},
		{
			Name: "one-node", Why: "a number is said with its noun", Args: []string{"-policy", "testdata/one.yaml", "-fleet", "testdata/one-node.yaml", "-releases", "testdata/one-release.yaml"},
			Says: []string{`policy "one": 1 rule`, "fleet: 1 resource, 1 deployment", "at most 1 resource in flight at once"},
		},
		{
			Name: "freeze", Why: "an incident stops what has not begun, and a node is kept out for longer", Args: []string{"-releases", "releases-freeze.json"},
			Says: []string{
				"    09:12:00  freeze INC-7: everything but what has begun, until 2026-03-11 09:45:00, by ann: alerts since the first node",
				"  node-3     start +5m      end +20m     completed", "  node-8     start +45m     end +60m     completed", "  node-7     start +90m     end +105m    completed",
				"at most 2 resources in flight at once", "done at 2026-03-11 10:45:00",
			},
		},
		{
			Name: "urgent", Why: "an operator closes the group of a security fix", Args: []string{"-releases", "releases-urgent.json"},
			Says: []string{
				"    14:20:00  command CVE-2026-7: close Node Lifecycle%2FdeploymentBracket%2F0/prod/1, by ann: containerd v1.7.3 is the fix",
				"  2026-03-10 14:20:00  window closes, versions locked:", "    14:25:00  node-3: start node-drain v1", "  2026-03-11 22:00:00  window closes, versions locked:",
				"drains: 20 instead of 30 (one for each upgrade)",
			},
		},
		{
			Name: "outage", Why: "half of the nodes look down: those that are due start without a slot", Args: []string{"-releases", "releases-outage.json"},
			Says: []string{"    09:08:00  node-2 is down", "    09:20:00  node-2: start node-drain v1, it is down anyway", "  node-0     start +25m     end +40m     completed", "done at 2026-03-11 10:25:00"},
		},
		{
			Name: "halt", Why: "as long as they look down nothing begins, and what has begun goes on", Args: []string{"-releases", "releases-outage.json", "-policy", "policy-halt.yaml", "-all"},
			Says: []string{
				"    09:10:00  node-8: containerd-upgrade v1.7.3, kubelet-upgrade v1.29.2, node-drain v1, node-uncordon v1, os-patch 2026-03: slot_halted (5 down, 4 may be) in Node Lifecycle/resourceConcurrency/0",
				"    09:19:00  node-3: start node-uncordon v1", "    09:30:00  node-8: start node-drain v1", "  node-2     start +45m     end +60m     completed", "done at 2026-03-11 10:30:00",
			},
		},
		{
			Name: "every", Why: "a planner that looks every five minutes: what a job makes possible between two looks waits for the next one", Args: []string{"-every", "5m"},
			Says: []string{
				"    09:23:00  node-3: kubelet-upgrade v1.29.2 ended: successful", "    09:25:00  node-3: start node-uncordon v1",
				"  node-8     start +25m     end +46m     completed", "done at 2026-03-11 11:06:00",
			},
		},
		{
			Name: "forecast", Long: true, Why: "durations drawn from past jobs", Args: []string{"-forecast", "50", "-seed", "7"},
			Says: []string{"forecast with durations of past jobs: 50 trials from 2026-03-10 08:00:00 on", "never done: 0 %"},
		},
		{
			Name: "forecast-failure", Long: true, Why: "what fails in the run fails in every trial", Args: []string{"-forecast", "20", "-seed", "7", "-fail", "kubelet-upgrade"},
			Says: []string{"not done, and nothing will happen any more", "never done: 100 %: bracket_failed_holding in 20 trials", "no samples, so World.Job decides: kubelet-upgrade"},
		},
		{
			Name: "faults", Long: true, Why: "with a retry rule only a job that hangs is for good", Args: []string{"-faults", "-policy", "policy-retry.yaml"},
			Says: []string{"if a job fails or hangs: 100 trials with faults from 2026-03-10 08:00:00 on", "node-drain fails (10 trials): done at 2026-03-11 10:29:00 (+26h29m)"},
		},
	})
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
	var kinds []rollout.RuleKind
	for _, rule := range list[0].Rules {
		kinds = append(kinds, rule.Kind())
		if rule.ID != "" || rule.DeploymentBracket != nil && rule.DeploymentBracket.MemberRoles != nil {
			t.Errorf("rule %q: the comment of the package says that the policy has neither ids nor memberRoles", rule.ID)
		}
	}
	want := []rollout.RuleKind{rollout.KindBracket, rollout.KindConcurrency, rollout.KindGradualRollout, rollout.KindDependency, rollout.KindDependency, rollout.KindDependency}
	if diff := cmp.Diff(want, kinds); diff != "" {
		t.Error(diff)
	}
}

func TestJSON(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := run([]string{"-json", "-forecast", "3"}, &out); err != nil {
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
	if err := run(nil, &one); err != nil {
		t.Fatal(err)
	}
	if err := run([]string{"-all"}, &all); err != nil {
		t.Fatal(err)
	}
	if n, m := strings.Count(one.String(), ": start node-drain v1"), strings.Count(all.String(), ": start node-drain v1"); n != 1 || m != 10 {
		t.Errorf("%d drains told of one node, %d of all; want 1 and 10", n, m)
	}
}

func TestWrongInput(t *testing.T) {
	programtest.Refusals(t, run, []programtest.Refusal{
		{Why: "all faults of a policy at once", Args: []string{"-policy", "testdata/wrong-policy.json"}, Faults: []string{
			`^testdata/wrong-policy\.json: selector: .*1:\d+`,
			`rules\[0\]\.deploymentBracket\.deploymentSelector: .*metdata`,
			`rules\[0\]\.deploymentBracket\.readinessWindowSeconds: -1`,
			`rules\[0\]\.deploymentBracket\.preparedStatePersists: `,
			`rules\[1\]\.resourceConcurrency\.limitValue: `,
			`rules\[2\]\.gradualRollout\.rolloutType: "lineal"`,
			`rules\[3\]\.deploymentDependency\.dependsOn: .*bool`,
		}},
		{Why: "a typo in a field is named, with the field that was meant", Args: []string{"-policy", "testdata/unknown-fields.json"}, Faults: []string{
			`rules\[0\]\.deploymentBracket\.readinessWindowSecond: .*readinessWindowSeconds`, `rules\[1\]\.resourceConcurrency\.limitValue: `,
		}},
		{Why: "the RFC's second example as printed is no CEL", Args: []string{"-policy", "testdata/two-clusters-as-printed.json", "-fleet", "testdata/two-clusters-fleet.json"}, Faults: []string{
			`\[0\]\.selector: .*1:40.*&&`, `\[1\]\.selector: .*1:40.*&&`,
		}},
		{Why: "all faults of a releases file", Args: []string{"-releases", "testdata/wrong-releases.json"}, Faults: []string{
			`trace: the fleet has no resource "node-33"`, `versions\[0\]\.deployment: .*"kubelet"`, `versions\[1\]\.publishedAt: is required`,
			`durations\.node-uncordon: is required`, `versions: containerd-upgrade v1\.7\.2 is missing`, `versions: kubelet-upgrade v1\.29\.1 is missing`,
			`versions: node-drain v1 is missing`, `versions: node-uncordon v1 is missing`, `versions: os-patch 2026-02 is missing`,
		}},
		{Why: "all faults of a fleet", Args: []string{"-fleet", "testdata/wrong-fleet.yaml"}, Faults: []string{
			`^testdata/wrong-fleet\.yaml: deployments\[1\]\.id: "os-patch"`, `deployments\[2\]\.id: ""`, `clusters\[0\]\.resources\[1\]\.id: "node-1"`, `clusters\[0\]\.runs\.kubelet: there is no such deployment`,
			`clusters\[1\]\.environment: prod is another one in clusters\[0\]`, `clusters\[1\]\.resources: at least one`, `clusters\[2\]\.environment\.id: is required`, `clusters\[2\]\.resources\[0\]\.id: ""`,
		}},
		{Why: "outages that are none, and that overlap", Args: []string{"-releases", "testdata/wrong-outages.yaml"}, Faults: []string{
			`^testdata/wrong-outages\.yaml: outages\[2\]: node-1 is down at the same time in outages\[0\]`, `outages\[3\]\.until: must come after from`, `outages\[4\]\.resource: the fleet has no resource "node-10"`,
		}},
		{Why: "freezes without end, author or place, and two of one id", Args: []string{"-releases", "testdata/wrong-freezes.yaml"}, Faults: []string{
			`^testdata/wrong-freezes\.yaml: freezes\[0\]\.createdBy: is required`, `freezes\[0\]\.reason: is required`, `freezes\[0\]\.expiresAt: must be after createdAt`, `freezes\[0\]\.resourceId: the fleet has no resource "node-10"`,
			`freezes\[1\]\.id: "z": every freeze`, `freezes\[1\]\.deploymentId: the fleet has no deployment "kubelet"`, `freezes\[1\]\.environmentId: the fleet has no environment "prd"`,
		}},
		{Why: "commands that name nothing, and two of one id", Args: []string{"-releases", "testdata/wrong-commands.yaml"}, Faults: []string{
			`^testdata/wrong-commands\.yaml: commands\[0\]\.group: is required`, `commands\[0\]\.resource: "node-1": must be empty`, `commands\[1\]\.id: "c": every command`,
			`commands\[1\]\.resource: the fleet has no resource "node-10"`, `commands\[1\]\.deployment: the fleet has no deployment "kubelet"`,
		}},
		{Why: "deployments that wait for one another", Args: []string{"-policy", "testdata/cycle.yaml"}, Faults: []string{`^testdata/cycle\.yaml: rollout: dependency cycle: node-drain needs node-uncordon needs node-drain \(rules Circle/deploymentDependency/0, .*: remove`}},
		{Why: "two brackets that claim the same nodes", Args: []string{"-policy", "testdata/two-brackets.yaml"}, Faults: []string{`^testdata/two-brackets\.yaml: bracket: "evenings/deploymentBracket/0" and "mornings/deploymentBracket/0" both bracket deployment "containerd-upgrade" on resource "node-0": narrow`}},
		{Why: "a flag without value", Args: []string{"-policy", ""}, Faults: []string{`^-policy: is empty`}},
		{Why: "a policy is no fleet", Args: []string{"-fleet", "policy.json"}, Faults: []string{`policy\.json: name: `, `policy\.json: selector: `, `policy\.json: rules: `}},
		{Why: "a broken YAML file", Args: []string{"-policy", "testdata/broken.yaml"}, Faults: []string{`testdata/broken\.yaml: yaml: `}},
		{Why: "a file that is not there", Args: []string{"-policy", "testdata/none.json"}, Faults: []string{`testdata/none\.json: no such file`}},
		{Why: "a directory is no file", Args: []string{"-fleet", "testdata"}, Faults: []string{`testdata: is a directory`}},
		{Why: "an unknown flag", Args: []string{"-policies", "x"}, Faults: []string{`-policies`}},
		{Why: "a file without flag", Args: []string{"policy.json"}, Faults: []string{`unexpected argument "policy\.json"`}},
		{Why: "an unknown strategy", Args: []string{"-overlap", "replace"}, Faults: []string{`^-overlap: "replace": must be "queue" or "merge"$`}},
		{Why: "two sets of releases", Args: []string{"-overlap", "merge", "-partial"}, Faults: []string{`-overlap: `}},
		{Why: "two sets of releases", Args: []string{"-partial", "-releases", "releases.json"}, Faults: []string{`^-partial: has releases of its own`}},
		{Why: "no bracket to change", Args: []string{"-overlap", "queue", "-policy", "testdata/one.yaml"}, Faults: []string{`^-overlap: testdata/one\.yaml has no deploymentBracket rule that it could change: leave it out`}},
		{Why: "no policies", Args: []string{"-policy", "testdata/none.yaml"}, Faults: []string{`^testdata/none\.yaml: must hold at least one policy`}},
		{Why: "rules have the paths of their document, also in a list of one", Args: []string{"-policy", "testdata/wrong-list.yaml"}, Faults: []string{
			`^testdata/wrong-list\.yaml: \[0\]\.rules\[0\]\.retry\.maxRetrys: unknown field`, `^testdata/wrong-list\.yaml: \[0\]\.rules\[1\]\.gradualRollout\.timeScaleInterval: -1`}},
		{Why: "the releases that are built in are for the fleet that is built in", Args: []string{"-fleet", "testdata/one-node.yaml"}, Faults: []string{
			`^releases\.json: trace: the fleet has no resource "node-3": there is only n`, `versions\[0\]`, `versions\[1\]`, `versions\[2\]`, `versions\[3\]`, `versions\[4\]`, `versions\[5\]`, `versions\[6\]`, `versions\[7\]`,
			`durations\.containerd-upgrade`, `durations\.kubelet-upgrade`, `durations\.node-drain`, `durations\.node-uncordon`, `durations\.os-patch`, `durations\.a: is required`,
			`samples\.containerd-upgrade`, `samples\.kubelet-upgrade`, `samples\.node-drain`, `samples\.node-uncordon`, `samples\.os-patch`, `^-fleet: releases\.json was made for another fleet: name releases of your own with -releases`}},
		{Why: "a clock that ends before the rollout does", Args: []string{"-policy", "testdata/one.yaml", "-fleet", "testdata/one-node.yaml", "-releases", "testdata/far.yaml"}, Faults: []string{`^testdata/far\.yaml: start: 9999-12-31T00:00:00Z: must lie in the years 1970 to 2199`}},
		{Why: "no attempt fails", Args: []string{"-fail-attempts", "0"}, Faults: []string{`^-fail-attempts: "0": must be a whole number (from 1 to|of at least 1)`}},
		{Why: "a place without a failure", Args: []string{"-fail-on", "node-1"}, Faults: []string{`^-fail-on: .*-fail`}},
		{Why: "attempts without a failure", Args: []string{"-fail-attempts", "1"}, Faults: []string{`^-fail-attempts: .*-fail`}},
		{Why: "a seed without a forecast", Args: []string{"-seed", "3"}, Faults: []string{`^-seed: .*-forecast`}},
		{Why: "one node and all", Args: []string{"-all", "-resource", "node-1"}, Faults: []string{`^-resource: .*-all`}},
		{Why: "looks back in time", Args: []string{"-every", "-1m"}, Faults: []string{`^-every: "-1m": must be 0, or a duration of at most 8760h such as 90s or 1h30m$`}},
		{Why: "a number without a unit, of which package flag says no more than that it is a parse error", Args: []string{"-every", "5"}, Faults: []string{`^-every: "5": must be 0, or a duration of at most 8760h such as 90s or 1h30m$`}},
		{Why: "negative trials", Args: []string{"-forecast", "-1"}, Faults: []string{`^-forecast: "-1": must be a whole number from 0 to 100000$`}},
		{Why: "a node that is not there", Args: []string{"-resource", "node-10"}, Faults: []string{`^-resource: the fleet has no resource "node-10": there are node-0, .*node-5 and 4 more`}},
		{Why: "a node that is not there", Args: []string{"-fail", "kubelet-upgrade", "-fail-on", "node-10"}, Faults: []string{`-fail-on: the fleet has no resource "node-10"`}},
		{Why: "a deployment that is not there", Args: []string{"-fail", "kubelet"}, Faults: []string{`^-fail: the fleet has no deployment "kubelet": there are containerd-upgrade, kubelet-upgrade, node-drain, node-uncordon, os-patch`}},
	})
}

func TestHelp(t *testing.T) { programtest.Help(t, run, "-overlap queue") }
