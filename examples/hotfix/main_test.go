package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tranche-dev/tranche/examples/internal/program/programtest"
	"github.com/tranche-dev/tranche/rollout"
	"github.com/tranche-dev/tranche/rollout/rollouttest"
)

func TestReports(t *testing.T) {
	programtest.Reports(t, run, nil, []programtest.Report{
		{
			Name: "default", Why: "the RFC's three examples",
			Says: []string{
				"    09:10  start checkout 2.5.0 on all of staging",
				"    18:10  override INC-2114: 2.5.1 past office-hours in production until 2026-03-10 22:00:00, by dana: payments fail in us-east",
				"    18:10  start checkout 2.5.1 on us-3",
				"  production  us-east   checkout 2.4.0 -> 2.5.0 -> 2.5.1 -> 2.5.2 us-1, us-2, us-3",
				"          not a word about       all of staging, production eu-west, production ap-south",
				"done at 2026-03-11 12:28:00",
			},
		},
		{Name: "all", Why: "every event in full", Args: []string{"-all"}, Says: []string{"    12:28:00  us-2: checkout 2.5.2 ended: successful"}},
		{
			Name: "typo", Why: "a hotfix that does not compile reaches nobody", Args: []string{"-typo"},
			Says: []string{
				"          CheckVersion refuses it: targetSelector: 1:34: syntax error at AND (write && for AND)",
				"          not a word about       all of staging, all of production",
				"diagnostic: scope_invalid: checkout@2.5.1: selector: 1:34: syntax error at AND (write && for AND) (10 times, such as ap-1 / production / checkout)",
			},
		},
		{
			Name: "typo-include", Why: "as the RFC proposes it reaches everybody, and the region that needs it last", Args: []string{"-typo", "-scope-errors", "include"},
			Says: []string{
				"  2.5.1   started or waited on  all of staging, all of production",
				"  production  us-east   checkout 2.4.0 -> 2.5.0 -> 2.5.2          us-1",
				"diagnostic: scope_invalid: checkout@2.5.1: selector: 1:34: syntax error at AND (write && for AND) (10 times, such as ap-1 / production / checkout)",
			},
		},
		{
			Name: "one-cluster", Why: "a number is said with its noun, and seconds where there are any",
			Args: []string{"-policy", "testdata/one.yaml", "-fleet", "testdata/one-fleet.yaml", "-releases", "testdata/one-releases.yaml", "-unchecked", "-why", "n@2026-01-01T01:00:30Z"},
			Says: []string{"fleet: 1 cluster in 1 environment", "    01:00:30  start a v1 on n", "diagnostic: scope_invalid: a@v2: selector: 1:1: syntax error: mismatched input '==' (a condition is written as in x == 'a' && 'key' in m) (n / e / a)", "why n, on Thu 2026-01-01 01:00:30?"},
		},
		{
			Name: "nothing", Why: "nothing is released", Args: []string{"-policy", "testdata/one.yaml", "-fleet", "testdata/one-fleet.yaml", "-releases", "testdata/no-releases.yaml"},
			Says: []string{"  none", "  nothing", "nothing to do"},
		},
		{Name: "why", Why: "a question of one's own", Args: []string{"-why", "eu-1@2026-03-10T18:05:00Z"}, Says: []string{"    2.5.1, scoped: out of scope"}},
	})
}

// TestHotfixConcernsOneRegion reads the story instead of the text: who is not meant has no trace of
// the version anywhere, and an environment in which nobody is meant needs no approval.
func TestHotfixConcernsOneRegion(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := run([]string{"-json"}, &out); err != nil {
		t.Fatal(err)
	}
	var got story
	decoder := json.NewDecoder(&out)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&got); err != nil {
		t.Fatal(err)
	}
	for _, e := range got.Timeline.Entries {
		if e.Version == "2.5.1" && !strings.HasPrefix(e.Resource, "us-") {
			t.Errorf("%s %s on %s", e.Kind, e.Version, e.Resource)
		}
	}
	want := map[string]reach{
		"2.5.0": {Deployment: "checkout", Version: "2.5.0", Asked: []string{"staging-eu", "staging-us", "eu-1", "eu-2", "eu-3", "us-1", "us-2", "us-3", "ap-1", "ap-2"}, Approvals: []string{"staging", "production"}},
		"2.5.1": {Deployment: "checkout", Version: "2.5.1", Asked: []string{"us-1", "us-2", "us-3"}, Never: []string{"staging-eu", "staging-us", "eu-1", "eu-2", "eu-3", "ap-1", "ap-2"}, Approvals: []string{"production"}},
		"2.5.2": {Deployment: "checkout", Version: "2.5.2", Asked: []string{"eu-1", "eu-2", "eu-3", "us-1", "us-2", "us-3", "ap-1", "ap-2"}, Never: []string{"staging-eu", "staging-us"}, Approvals: []string{"production"}},
	}
	for _, r := range got.Reach {
		if diff := cmp.Diff(want[r.Version], r); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	if len(got.Reach) != 3 || !got.Timeline.Done || len(got.Answers) != 4 || len(got.Clusters) != 10 || len(got.Timeline.Diagnostics) != 0 {
		t.Errorf("%d versions, done %t, %d answers, %d clusters, %d diagnostics", len(got.Reach), got.Timeline.Done, len(got.Answers), len(got.Clusters), len(got.Timeline.Diagnostics))
	}
	overridden := false
	for _, a := range got.Answers {
		for _, v := range a.Versions {
			overridden = overridden || slices.ContainsFunc(v.Rules, func(r rollout.RuleVerdict) bool { return r.Reason == rollout.ReasonOverridden })
		}
	}
	if !overridden {
		t.Error("no answer shows the override")
	}
}

// TestWithoutOverride: without it the hotfix waits for the window, for everybody to see that the
// override is what lets it pass.
func TestWithoutOverride(t *testing.T) {
	t.Parallel()
	in, err := load(options{scopeErrors: "exclude"})
	if err != nil {
		t.Fatal(err)
	}
	in.releases.Overrides = nil
	told, err := play(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	var starts []string
	for _, e := range told.Timeline.Entries {
		if e.Kind == rollouttest.Start && e.Version == "2.5.1" {
			starts = append(starts, e.At.Format("Mon 15:04 ")+e.Resource)
		}
	}
	if diff := cmp.Diff([]string{"Wed 10:00 us-3", "Wed 10:20 us-2", "Wed 10:40 us-1"}, starts); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestRefusedVersion: of two deployments with a version of the same id, only that one is said to be
// refused whose version is.
func TestRefusedVersion(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"fleet.yaml": "deployments: [{id: a}, {id: b}]\nenvironments: [{id: e}]\nclusters: [{id: n, environment: e}]\n",
		"releases.yaml": "start: 2026-01-01T00:00:00Z\nversions:\n" +
			"  - {deployment: a, id: v1, status: ready, createdAt: 2026-01-01T01:00:00Z, targetSelector: \"==\"}\n" +
			"  - {deployment: b, id: v1, status: ready, createdAt: 2026-01-01T02:00:00Z}\n" +
			"durations: {a: 1m, b: 1m}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text := programtest.Print(t, run, "-policy", "testdata/one.yaml", "-fleet", filepath.Join(dir, "fleet.yaml"), "-releases", filepath.Join(dir, "releases.yaml"), "-unchecked")
	if n := strings.Count(text, "CheckVersion refuses it"); n != 1 {
		t.Errorf("%d versions are refused, want that of a alone:\n%s", n, text)
	}
}

func TestWrongInput(t *testing.T) {
	programtest.Refusals(t, run, []programtest.Refusal{
		{Why: "all faults of a policy at once", Args: []string{"-policy", "testdata/wrong-policy.yaml"}, Faults: []string{
			`^testdata/wrong-policy\.yaml: selector: 1:18`, `dependsOnEnvironmentSelector: "resource\.name": is not known here`, `minimumSoakTimeMinutes: -1`,
			`weekly\.days\[0\]: .*monday`, `weekly\.start: .*25:00`, `timezone: .*Atlantis`, `versionCooldown\.intervalSeconds: is required`,
		}},
		{Why: "all faults of a fleet", Args: []string{"-fleet", "testdata/wrong-fleet.yaml"}, Faults: []string{
			`^testdata/wrong-fleet\.yaml: clusters\[3\]\.id: is required`, `clusters\[1\]\.id: "a": is the id of clusters\[0\] too`, `clusters\[0\]\.runs\.checkout: releases\.yaml has no version "9\.9\.9"`,
			`clusters\[1\]\.environment: "prod": testdata/wrong-fleet\.yaml has no such environment: there are production, staging$`,
			`clusters\[2\]\.runs\.cart: there is no such deployment: there is only checkout$`,
			`^releases\.yaml: why\[0\]\.resource: .*"eu-1"`, `^releases\.yaml: why\[1\]\.resource: .*"us-1"`, `why\[2\]\.resource`, `why\[3\]\.resource`,
			`^-fleet: releases\.yaml was made for another fleet: name releases of your own with -releases$`,
		}},
		{Why: "all faults of a releases file", Args: []string{"-releases", "testdata/wrong-releases.yaml"}, Faults: []string{
			`^testdata/wrong-releases\.yaml: versions\[1\]\.deployment: "cart"`, `versions\[2\]\.createdAt: is required`, `versions\[3\]\.targetSelector: .*metdata.*-unchecked`,
			`approvals\[0\]\.version: "checkout" has no version "2\.5\.9"`, `approvals\[0\]\.environment: fleet\.yaml has no environment "prod"`, `approvals\[0\]\.by: `, `approvals\[0\]\.status: "yes please"`,
			`durations\.cart: `, `durations\.checkout: is required`, `why\[0\]\.resource: .*"us-9"`, `why\[0\]\.at: .* lies before the start`,
		}},
		{Why: "an override is checked like everything else", Args: []string{"-releases", "testdata/wrong-overrides.yaml"}, Faults: []string{
			`overrides\[0\]\.reason: is required`, `overrides\[0\]\.expiresAt: must be after createdAt`, `overrides\[1\]\.ruleId: is required`,
		}},
		{Why: "a typo in a field is named", Args: []string{"-releases", "testdata/unknown-fields.yaml"}, Faults: []string{
			`versions\[0\]\.id: `, `versions\[0\]\.target_selector: `, `durations\.checkout: "soon"`,
		}},
		{Why: "what a host checks when a version is published", Args: []string{"-releases", "releases-typo.yaml"}, Faults: []string{
			`^releases-typo\.yaml: versions\[2\]\.targetSelector: 1:34: syntax error at AND \(write && for AND\) \(-unchecked plays it all the same\)`,
		}},
		{Why: "two brackets that claim the same clusters", Args: []string{"-policy", "testdata/two-brackets.yaml"}, Faults: []string{`^testdata/two-brackets\.yaml: bracket: .* both bracket deployment "checkout" on resource "ap-1"`}},
		{Why: "a file that is not there", Args: []string{"-fleet", "testdata/none.yaml"}, Faults: []string{`testdata/none\.yaml: no such file`}},
		{Why: "an unknown answer", Args: []string{"-scope-errors", "ignore"}, Faults: []string{`^-scope-errors: "ignore": must be "exclude" or "include"$`}},
		{Why: "no instant", Args: []string{"-why", "us-1"}, Faults: []string{`^-why: "us-1": write a cluster and an instant`}},
		{Why: "a day is no instant", Args: []string{"-why", "us-1@2026-03-10"}, Faults: []string{`^-why: "us-1@2026-03-10": "2026-03-10" is no instant: write one such as in us-1@`}},
		{Why: "no such cluster", Args: []string{"-why", "us-9@2026-03-10T18:05:00Z"}, Faults: []string{`^-why: fleet\.yaml has no cluster "us-9": there are ap-1, ap-2, eu-1, eu-2, eu-3, staging-eu and 4 more$`}},
		{Why: "after all instants", Args: []string{"-why", "us-1@9999-03-10T18:05:00Z"}, Faults: []string{`^-why: 9999-03-10T18:05:00Z lies after the year 2199, up to which the files are played$`}},
		{Why: "before anything happened", Args: []string{"-why", "us-1@2020-03-10T18:05:00Z"}, Faults: []string{`^-why: 2020-03-10T18:05:00Z lies before the start, 2026-03-09T08:00:00Z$`}},
		{Why: "two sets of releases", Args: []string{"-typo", "-releases", "releases.yaml"}, Faults: []string{`^-typo: has releases of its own, .*-unchecked`}},
		{Why: "no policies", Args: []string{"-policy", "testdata/no-policies.yaml"}, Faults: []string{`^testdata/no-policies\.yaml: must hold at least one policy`}},
		{Why: "a file without flag", Args: []string{"policy.yaml"}, Faults: []string{`unexpected argument "policy\.yaml"`}},
		{Why: "an unknown flag", Args: []string{"-overide"}, Faults: []string{`-overide`}},
	})
}

func TestHelp(t *testing.T) { programtest.Help(t, run, "-scope-errors exclude") }
