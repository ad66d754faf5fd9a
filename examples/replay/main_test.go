package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tranche-dev/tranche/examples/internal/program/programtest"
	"github.com/tranche-dev/tranche/internal/golden"
)

func TestReports(t *testing.T) {
	programtest.Reports(t, run, nil, []programtest.Report{
		{
			Name: "default", Why: "the log is decided again as it was",
			Says: []string{"the policies of the log: every plan is the same again"},
		},
		{
			Name: "office-hours", Why: "what the proposed policy would have said", Args: []string{"-policy", "office-hours.yaml"},
			Says: []string{"office-hours.yaml: 3 of 9 starts would have been held back, 0 others made; each plan stands for itself"},
		},
	})
}

// TestLog: the log that is shipped is what the planner records on the day that is shipped.
func TestLog(t *testing.T) {
	golden.File(t, "decisions.jsonl", programtest.Print(t, run, "-record"))
}

// TestRecordOtherPolicies: the same day under the proposed policy, where one thing follows from the
// other, and its log agrees with itself.
func TestRecordOtherPolicies(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "office.jsonl")
	text := programtest.Print(t, run, "-record", "-policy", "office-hours.yaml")
	if err := os.WriteFile(log, []byte(text+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var got verdict
	if err := json.Unmarshal([]byte(programtest.Print(t, run, "-log", log, "-json")), &got); err != nil {
		t.Fatal(err)
	}
	if got.Starts != 6 || len(got.Differs) != 0 {
		t.Errorf("%d starts in office hours, want 6; %d plans differ", got.Starts, len(got.Differs))
	}
}

// TestAnotherVersionOfTheLibrary: a plan that this version would not make is shown, also where the
// policies are the same.
func TestAnotherVersionOfTheLibrary(t *testing.T) {
	t.Parallel()
	text, err := builtin.ReadFile("decisions.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(t.TempDir(), "other.jsonl")
	other := strings.ReplaceAll(string(text), `"reason":"progression_waiting"`, `"reason":"progression_too_old"`)
	if err := os.WriteFile(log, []byte(other), 0o600); err != nil {
		t.Fatal(err)
	}
	report := programtest.Print(t, run, "-log", log)
	if !strings.Contains(report, "was    1.4.0 waits: progression_too_old") || !strings.Contains(report, "would  1.4.0 waits: progression_waiting") {
		t.Error(report)
	}
}

func TestWrongInput(t *testing.T) {
	programtest.Refusals(t, run, []programtest.Refusal{
		{Why: "all faults of a log, with their lines", Args: []string{"-log", "testdata/wrong.jsonl"}, Faults: []string{
			`^testdata/wrong\.jsonl: line 1: schema: 2: must be 1`, `^testdata/wrong\.jsonl: line 3: plan\.now: is required`,
			`^testdata/wrong\.jsonl: line 4: snapshot\.target: .*targets`, `^testdata/wrong\.jsonl: line 5, column \d+: unexpected EOF`,
			`^testdata/wrong\.jsonl: line 6: targets\[0\].resource: "r": is not the id of a listed resource`, `^testdata/wrong\.jsonl: line 7: rules: .*required`,
		}},
		{Why: "a log of nothing", Args: []string{"-log", os.DevNull}, Faults: []string{`no recording is in it`}},
		{Why: "a file that is not there", Args: []string{"-log", "testdata/none.jsonl"}, Faults: []string{`testdata/none\.jsonl: no such file`}},
		{Why: "all faults of a policy", Args: []string{"-policy", "testdata/wrong-policy.yaml"}, Faults: []string{
			`^testdata/wrong-policy\.yaml: rules\[0\]\.retry\.maxRetries: -1`, `^testdata/wrong-policy\.yaml: selector: 1:6`,
		}},
		{Why: "all faults of a day", Args: []string{"-record", "-fleet", "testdata/wrong-fleet.yaml"}, Faults: []string{
			`^testdata/wrong-fleet\.yaml: start, end: `, `durations\.web: required`, `failures\[0\]: us-1 does not run web`, `failures\[1\]\.version: web has no version "9"`,
		}},
		{Why: "a fleet that contradicts itself", Args: []string{"-record", "-fleet", "testdata/ghosts.yaml"}, Faults: []string{`^testdata/ghosts\.yaml: targets\[\d+\].resource: "b": is not the id of a listed resource`}},
		{Why: "a log is read or written", Args: []string{"-record", "-log", "x"}, Faults: []string{`^-log: "x": with -record`}},
		{Why: "a log is JSON", Args: []string{"-record", "-json"}, Faults: []string{`^-json: `}},
		{Why: "a log has its fleets in it", Args: []string{"-fleet", "x"}, Faults: []string{`^-fleet: "x": only with -record`}},
		{Why: "a file without flag", Args: []string{"mine.jsonl"}, Faults: []string{`unexpected argument "mine\.jsonl"`}},
		{Why: "an unknown flag", Args: []string{"-logs"}, Faults: []string{`-logs`}},
	})
}

func TestHelp(t *testing.T) { programtest.Help(t, run, "-log file") }
