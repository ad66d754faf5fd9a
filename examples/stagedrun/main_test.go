package main

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tranche-dev/tranche/rollout/staged"
)

var update = flag.Bool("update", false, "write the golden files")

type play struct {
	args, input string
	ends        string // how the last summary begins
}

func plays() map[string]play {
	return map[string]play{
		"closed-input":   {"", "", "run example-run: Succeeded"},
		"approve-after":  {"-approve-after 10m", "", "run example-run: Succeeded"},
		"asked":          {"", "y\nyes\nwhat\ny\ny\ny\n", "run example-run: Succeeded"},
		"rejected":       {"", "y\nn\n", "run example-run: Failed"},
		"rejected-hold":  {"-on-reject hold", "y\nn\n", "run example-run: Held"},
		"preview":        {"-preview", "", "run example-run: Initialized"},
		"stop-resume":    {"-approve-after 10m -stop-at 50m -resume-at 80m", "", "run example-run: Succeeded"},
		"stop-freeze":    {"-approve-after 10m -stop-at 50m -resume-at 80m -wait-during-stop freeze", "", "run example-run: Succeeded"},
		"stop-for-good":  {"-approve-after 10m -stop-at 12m", "", "run example-run: Stopped"},
		"trouble":        {"-approve-after 10m -clusters trouble.yaml", "", "run example-run: Failed"},
		"trouble-retry":  {"-approve-after 10m -clusters trouble.yaml -on-failure hold -retry-after 15m", "", "run example-run: Succeeded"},
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
			file := filepath.Join("testdata", name+".golden")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
			if last := text[strings.LastIndex(text, "\nrun ")+1:]; !strings.HasPrefix(last, p.ends) {
				t.Errorf("ends with\n%s", last)
			}
		})
	}
}

// TestCrashEveryStep: what is forgotten after every step makes no difference, because the run is in its file before anything is done.
func TestCrashEveryStep(t *testing.T) {
	for name, p := range plays() {
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
	for args, want := range map[string]string{
		"extra":                        "unexpected argument",
		"-f missing.yaml":              "missing.yaml",
		"-ready 0s":                    "-ready must be positive",
		"-stop-at 10m -resume-at 5m":   "-resume-at must be later",
		"-on-failure never":            `onFailure: "never"`,
		"-f run.yaml":                  "must be ClusterStagedUpdateStrategy",
		"-f " + file("stages: []\n"):   "must be 1 to 31 stages",
		"-f " + file("stges: []\n"):    "did you mean",
		"-run " + file("state: Run\n"): "placementName",
		"-clusters " + file("clusters: [{name: a, ready: soon}]\n"):                               "clusters[0].ready",
		"-clusters " + file("clusters: [{name: a, labels: {environment: none}}]\n"):               "1: a are in no stage",
		"-clusters " + file("clusters: [{name: a, lables: {}}]\n"):                                "lables",
		"-clusters " + file("clusters: [{name: a, labels: {environment: staging}, fails: -1}]\n"): "clusters[0].fails",
	} {
		var drawn strings.Builder
		if err := run(strings.Fields(args), strings.NewReader(""), &drawn); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", args, err, want)
		}
	}
}
