package main

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tranche-dev/tranche/examples/internal/program/programtest"
	"github.com/tranche-dev/tranche/internal/golden"
	"github.com/tranche-dev/tranche/rollout/staged"
)

type play struct {
	args, input string
	ends        string // how the last summary begins
}

func plays() map[string]play {
	return map[string]play{
		"closed-input":   {"", "", "run example-run: Succeeded"},
		"approve-after":  {"-approve-after 10m", "", "run example-run: Succeeded"},
		"end-waits":      {"-approve-after 10m -end-waits-after 20m", "", "run example-run: Succeeded"},
		"asked":          {"-by ann", "y\nyes all is green\nwhat\ny\ny\ny\n", "run example-run: Succeeded"},
		"rejected":       {"", "y\nn  Latency  is up\n", "run example-run: Failed"},
		"rejected-hold":  {"-on-reject hold", "y\nn\n", "run example-run: Held"},
		"regions":        {"-f regions.yaml -approve-after 10m", "", "run example-run: Succeeded"},
		"preview":        {"-preview", "", "run example-run: Initialized"},
		"stop-resume":    {"-approve-after 10m -stop-at 50m -resume-at 80m", "", "run example-run: Succeeded"},
		"stop-freeze":    {"-approve-after 10m -stop-at 50m -resume-at 80m -wait-during-stop freeze", "", "run example-run: Succeeded"},
		"stop-for-good":  {"-approve-after 10m -stop-at 12m", "", "run example-run: Stopped"},
		"stop-too-late":  {"-approve-after 10m -stop-at 5h", "", "run example-run: Succeeded"},
		"trouble":        {"-approve-after 10m -clusters trouble.yaml", "", "run example-run: Failed"},
		"trouble-retry":  {"-approve-after 10m -clusters trouble.yaml -on-failure hold -retry-after 15m", "", "run example-run: Succeeded"},
		"forecast":       {"-forecast 200 -approve-after 10m", "", ""},
		"forecast-retry": {"-forecast 200 -seed 7 -on-failure hold -retry-after 15m", "", ""},
		"trouble-untold": {"-approve-after 10m -clusters trouble.yaml -on-failure hold", "", "run example-run: Held"},
	}
}

func draw(t *testing.T, p play, more ...string) string {
	t.Helper()
	var drawn strings.Builder
	if err := run(append(strings.Fields(p.args), more...), strings.NewReader(p.input), &drawn); err != nil {
		t.Fatal(err)
	}
	return drawn.String()
}

func TestGolden(t *testing.T) {
	for name, p := range plays() {
		t.Run(name, func(t *testing.T) {
			text := draw(t, p)
			got := "$ stagedrun " + p.args + "\n" + text
			golden.Check(t, name+".golden", got)
			if p.ends == "" {
				return
			}
			if last := text[strings.LastIndex(text, "\nrun ")+1:]; !strings.HasPrefix(last, p.ends) {
				t.Errorf("ends with\n%s", last)
			}
		})
	}
}

// TestCrashEveryStep: what is forgotten after every step makes no difference, because the run is in
// its file before anything is done.
func TestCrashEveryStep(t *testing.T) {
	for name, p := range plays() {
		if strings.HasPrefix(name, "forecast") {
			continue // of whole runs
		}
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "run.json")
			if got, want := draw(t, p, "-crash-every-step", "-state", file), draw(t, p); got != want {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
			if name == "preview" {
				return
			}
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var stored staged.Run
			if err := json.Unmarshal(data, &stored); err != nil {
				t.Fatal(err)
			}
			if got := stored.String(); !strings.HasPrefix(got, p.ends) {
				t.Errorf("stored:\n%s", got)
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	file := func(text string) string {
		name := filepath.Join(t.TempDir(), "file.yaml")
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return name
	}
	silent := func(args []string, out io.Writer) error { return run(args, strings.NewReader(""), out) }
	programtest.Refusals(t, silent, []programtest.Refusal{
		{Why: "a file without flag", Args: []string{"strategy.yaml"}, Faults: []string{`unexpected argument "strategy\.yaml": files are named with -f`}},
		{Why: "a file that is not there", Args: []string{"-f", "missing.yaml"}, Faults: []string{`^missing\.yaml: no such file`}},
		{Why: "all flags at once", Args: []string{"-ready", "0s", "-approve-after", "-1s", "-on-failure", "never", "-unmatched", "append"}, Faults: []string{
			`^-ready: "0s": must be a duration above 0`, `^-approve-after: "-1s": must be 0, or a duration of at most 8760h`, `^-on-failure: "never": must be "fail" or "hold"$`,
			`^-unmatched: "append": must be "reject", "ignore" or "last"$`}},
		{Why: "nobody who can be stored", Args: []string{"-by", "\xff"}, Faults: []string{`^-by: "\\xff": must be valid UTF-8$`}},
		{Why: "resumed before it stops", Args: []string{"-stop-at", "10m", "-resume-at", "5m"}, Faults: []string{`^-resume-at: 5m: must be later than -stop-at, 10m$`}},
		{Why: "resumed without a stop", Args: []string{"-resume-at", "5m"}, Faults: []string{`^-resume-at: .*-stop-at`}},
		{Why: "nobody starts it, so that nothing can be stopped", Args: []string{"-stop-at", "5m", "-run", file("metadata: {name: r}\nspec: {placementName: p, stagedRolloutStrategyName: production-rollout}\n")}, Faults: []string{`^-stop-at: .*state Initialize`}},
		{Why: "a seed without a forecast", Args: []string{"-seed", "3"}, Faults: []string{`^-samples and -seed: are those of a forecast`}},
		{Why: "samples without a forecast", Args: []string{"-samples", "samples.yaml"}, Faults: []string{`^-samples and -seed: are those of a forecast`}},
		{Why: "a forecast that is a preview", Args: []string{"-forecast", "2", "-preview"}, Faults: []string{`^-forecast: is of whole runs: leave out -preview`}},
		{Why: "negative trials", Args: []string{"-forecast", "-1"}, Faults: []string{`^-forecast: "-1": must be a whole number from 0 to 100000$`}},
		{Why: "all faults of the samples", Args: []string{"-forecast", "2", "-samples", file("targets: {stagin: {ready: [1m]}, canary: {hung: -1}}\napprovals: {prod: [5m]}\n")}, Faults: []string{
			`file\.yaml: targets\["canary"\]\.hung: -1: must be from 0 to 1000`, `file\.yaml: targets\["stagin"\]: the strategy has no such stage: use staging, canary, production, kubernetes-fleet\.io/deleteStage, or "" for all others`,
			`file\.yaml: approvals\["prod"\]: the strategy has no such stage`}},
		{Why: "a sample that is no duration", Args: []string{"-forecast", "2", "-samples", file("targets: {'': {ready: [soon]}}\n")}, Faults: []string{`file\.yaml: targets\["?"?\]\.ready\[0\]: "soon": must be a duration above 0`}},
		{Why: "a file for nothing", Args: []string{"-state", "run.json"}, Faults: []string{`^-state: .*-crash-every-step`}},
		{Why: "a file in a folder that is not there", Args: []string{"-approve-after", "1m", "-crash-every-step", "-state", "missing/run.json"}, Faults: []string{`^-state: open missing/run\.json: no such file`}},
		{Why: "a run is no strategy", Args: []string{"-f", "run.yaml"}, Faults: []string{`must be "ClusterStagedUpdateStrategy" or "StagedUpdateStrategy"`}},
		{Why: "no stages", Args: []string{"-f", file("stages: []\n")}, Faults: []string{`file\.yaml: stages: .*must be 1 to 31 stages`}},
		{Why: "nothing at all", Args: []string{"-f", file("null\n")}, Faults: []string{`file\.yaml: must be an object, not null`}},
		{Why: "a misspelt field", Args: []string{"-f", file("stges: []\n")}, Faults: []string{`stges: .*did you mean`}},
		{Why: "a misspelt field of an object", Args: []string{"-f", file("spec: {stages: [{nam: a}]}\n")}, Faults: []string{`file\.yaml: spec\.stages\[0\]\.nam: unknown field`}},
		{Why: "its other faults have the same paths", Args: []string{"-f", file("spec: {stages: [{name: A, maxConcurrency: 0}]}\n")}, Faults: []string{
			`file\.yaml: spec\.stages\[0\]\.name: "A": must be`, `file\.yaml: spec\.stages\[0\]\.maxConcurrency: 0: must be`}},
		{Why: "and so have those of a run", Args: []string{"-run", file("metadata: {name: R}\nspec: {state: Go, stagedRolloutStrategyName: s}\n")}, Faults: []string{
			`file\.yaml: metadata\.name: "R": must be`, `file\.yaml: spec\.placementName: "": must be`, `file\.yaml: spec\.state: "Go": must be "Initialize", "Run" or "Stop"`}},
		{Why: "the run of another strategy", Args: []string{"-run", file("metadata: {name: r}\nspec: {placementName: p, stagedRolloutStrategyName: s, state: Run}\n")}, Faults: []string{
			`file\.yaml: spec\.stagedRolloutStrategyName: "s": the strategy of strategy\.yaml is called "production-rollout": name the same one`}},
		{Why: "no duration", Args: []string{"-clusters", file("clusters: [{name: a, ready: soon}]\n")}, Faults: []string{`clusters\[0\]\.ready: "soon": must be a duration above 0`}},
		{Why: "nobody", Args: []string{"-clusters", file("clusters: []\n")}, Faults: []string{`file\.yaml: clusters: at least one is needed, or one that is leaving`}},
		{Why: "a cluster in no stage", Args: []string{"-clusters", file("clusters: [{name: a, labels: {environment: none}}]\n")}, Faults: []string{
			`file\.yaml: clusters: 1: in no stage: a: change the selectors, or choose -unmatched "ignore" or "last"$`}},
		{Why: "a cluster in two stages", Args: []string{"-f", file("stages: [{name: a, labelSelector: {}}, {name: b, labelSelector: {}}]\n"), "-clusters", file("clusters: [{name: c}]\n")}, Faults: []string{
			`file\.yaml: clusters: 1: in more than one stage: c: .*choose -overlap "first"$`}},
		{Why: "clusters that cannot be sorted", Args: []string{"-f", file("stages: [{name: a, labelSelector: {}, sortingLabelKey: n}]\n"), "-clusters", file("clusters: [{name: b}, {name: c, labels: {n: x}}]\n")}, Faults: []string{
			`file\.yaml: clusters\[0\]\.labels\["n"\]: must be there, .*or choose -missing-sort-key "last"$`, `file\.yaml: clusters\[1\]\.labels\["n"\]: "x": must be a whole number`}},
		{Why: "a field that clusters do not have", Args: []string{"-clusters", file("clusters: [{name: a, lables: {}}]\n")}, Faults: []string{`clusters\[0\]\.lables: .*labels`}},
		{Why: "all faults of the list", Args: []string{"-clusters", file("clusters: [{name: a, fails: -1}, {name: ''}, {name: a}, {name: b, fails: 1000}]\nleaving: [b, '', c, c]\n")}, Faults: []string{
			`clusters\[0\]\.fails: -1: must be from 0 to 100`, `clusters\[1\]\.name: every cluster needs a name`, `clusters\[2\]\.name: "a": is given as clusters\[0\] already`,
			`clusters\[3\]\.fails: 1000: must be from 0 to 100`, `leaving\[0\]: "b": is given as clusters\[3\] already`, `leaving\[1\]: every cluster needs a name`,
			`leaving\[3\]: "c": is given as leaving\[2\] already`}},
	})
	programtest.Help(t, silent, "-crash-every-step")
	programtest.Help(t, silent, "approves after 10m where nobody answers")
}
