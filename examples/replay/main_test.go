package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
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
			Says: []string{"office-hours.yaml: 3 of 9 starts would have been held back, 0 others made; each in the situation that was recorded"},
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

// TestFewPlans: a number is said with its noun.
func TestFewPlans(t *testing.T) {
	t.Parallel()
	text, err := builtin.ReadFile("decisions.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(text), "\n")
	file := func(name, text string) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for log, want := range map[string]string{
		lines[0]:                    ": 1 plan at 2026-03-10 12:00:00, 0 starts\n",
		strings.Join(lines[:3], ""): ": 3 plans from 2026-03-10 12:00:00 to 2026-03-10 12:10:00, 1 start\n",
	} {
		if got := programtest.Print(t, run, "-log", file("few.jsonl", log)); !strings.Contains(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	open := file("open.yaml", "name: open\nselector: \"true\"\nrules: [{id: none, retry: {maxRetries: 0}}]\n")
	got := programtest.Print(t, run, "-log", file("one.jsonl", lines[1]), "-policy", open)
	for _, want := range []string{open + ": 1 plan comes out differently\n", open + ": 0 of 1 start would have been held back, 3 others made;"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

// TestShippedLogByName: the log of this folder can be named from every directory, as other files.
func TestShippedLogByName(t *testing.T) {
	t.Chdir(t.TempDir())
	if got := programtest.Print(t, run, "-log", "decisions.jsonl", "-policy", "office-hours.yaml"); !strings.HasPrefix(got, "decisions.jsonl: 28 plans ") {
		t.Error(got)
	}
}

func TestWrongInput(t *testing.T) {
	programtest.Refusals(t, run, []programtest.Refusal{
		{Why: "all faults of a log, with their lines", Args: []string{"-log", "testdata/wrong.jsonl"}, Faults: []string{
			`^testdata/wrong\.jsonl: line 1: schema: 2: must be 1`, `^testdata/wrong\.jsonl: line 3: plan\.now: is required`,
			`^testdata/wrong\.jsonl: line 4: snapshot\.target: .*targets`, `^testdata/wrong\.jsonl: line 5, column \d+: unexpected EOF`,
			`^testdata/wrong\.jsonl: line 6: snapshot\.targets\[0\]\.resource: "r": is not the id of a listed resource`, `^testdata/wrong\.jsonl: line 7: policies\[0\]\.rules: .*required`,
			`^testdata/wrong\.jsonl: line 8: policies\[1\]\.rules\[0\]\.retry\.maxRetries: -1`, `^testdata/wrong\.jsonl: line 9: policies: are not recorded: name those that were in force with -policy`,
		}},
		{Why: "no log at all, of which not every line is worth a fault", Args: []string{"-log", "main_test.go"}, Faults: append(slices.Repeat([]string{`^main_test\.go: line \d+, column \d+: `}, 20), `^main_test\.go: \d+ more lines are wrong$`)},
		{Why: "a log of nothing", Args: []string{"-log", os.DevNull}, Faults: []string{`no recording is in it`}},
		{Why: "a file that is not there", Args: []string{"-log", "testdata/none.jsonl"}, Faults: []string{`testdata/none\.jsonl: no such file`}},
		{Why: "all faults of a policy", Args: []string{"-policy", "testdata/wrong-policy.yaml"}, Faults: []string{
			`^testdata/wrong-policy\.yaml: rules\[0\]\.retry\.maxRetries: -1`, `^testdata/wrong-policy\.yaml: selector: 1:6`,
		}},
		{Why: "all faults of a day", Args: []string{"-record", "-fleet", "testdata/wrong-fleet.yaml"}, Faults: []string{
			`^testdata/wrong-fleet\.yaml: end: must be later than start`, `durations\.web: is required`, `durations\.wep: the fleet has no such deployment`, `failures\[0\]: us-1 does not run web`, `failures\[1\]\.version: web has no version "9"`,
		}},
		{Why: "a fleet that contradicts itself", Args: []string{"-record", "-fleet", "testdata/ghosts.yaml"}, Faults: []string{`^testdata/ghosts\.yaml: fleet\.targets\[\d+\].resource: "b": is not the id of a listed resource`}},
		{Why: "a fleet of nobody", Args: []string{"-record", "-fleet", "testdata/nobody.yaml"}, Faults: []string{`^testdata/nobody\.yaml: start: is required`, `^testdata/nobody\.yaml: end: must be later`, `^testdata/nobody\.yaml: fleet\.targets: at least one is needed`}},
		{Why: "a circle is a fault of the policies", Args: []string{"-record", "-policy", "testdata/circle.yaml", "-fleet", "testdata/two.yaml"}, Faults: []string{`^testdata/circle\.yaml: rollout: dependency cycle: a needs b needs a`}},
		{Why: "no policies", Args: []string{"-policy", "testdata/none.yaml"}, Faults: []string{`^testdata/none\.yaml: must hold at least one policy`}},
		{Why: "a log is read or written", Args: []string{"-record", "-log", "x"}, Faults: []string{`^-log: "x": with -record`}},
		{Why: "a log is JSON", Args: []string{"-record", "-json"}, Faults: []string{`^-json: `}},
		{Why: "a log has its fleets in it", Args: []string{"-fleet", "x"}, Faults: []string{`^-fleet: "x": only with -record`}},
		{Why: "a file without flag", Args: []string{"mine.jsonl"}, Faults: []string{`unexpected argument "mine\.jsonl"`}},
		{Why: "an unknown flag", Args: []string{"-logs"}, Faults: []string{`-logs`}},
	})
}

func TestHelp(t *testing.T) { programtest.Help(t, run, "-log file") }
