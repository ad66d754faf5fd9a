package main

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files")

// TestGolden plays one rollout per line of arguments and compares what is drawn.
func TestGolden(t *testing.T) {
	for name, args := range map[string]string{
		"50":               "-f fleet-10pct.yaml -clusters clusters-50.yaml",
		"50-compare":       "-f fleet-10pct.yaml -clusters clusters-50.yaml -update -compare",
		"100":              "-f fleet-10pct.yaml -clusters clusters-100.yaml",
		"100-compare":      "-f fleet-10pct.yaml -clusters clusters-100.yaml -compare",
		"200":              "-f fleet-200.yaml -clusters clusters-200.yaml",
		"no-arguments":     "",
		"200-update":       "-f fleet-200.yaml -clusters clusters-200.yaml -update",
		"200-controller":   "-f fleet-200.yaml -clusters clusters-200.yaml -mode fleet_controller",
		"200-compare":      "-f fleet-200.yaml -clusters clusters-200.yaml -update -compare",
		"200-defaults":     "-f fleet-defaults.yaml -clusters clusters-200.yaml",
		"230":              "-f fleet-230.yaml -clusters clusters-230.yaml",
		"230-compare":      "-f fleet-230.yaml -clusters clusters-230.yaml -update -compare",
		"strict":           "-f fleet-strict.yaml -clusters clusters-strict.yaml -update",
		"strict-compare":   "-f fleet-strict.yaml -clusters clusters-strict.yaml -update -compare",
		"storm":            "-f fleet-storm.yaml -clusters clusters-storm.yaml",
		"storm-compare":    "-f fleet-storm.yaml -clusters clusters-storm.yaml -update -compare",
		"options":          "-f fleet-strict.yaml -clusters clusters-strict.yaml -update -leftovers append -offline exclude -max-per-step 40",
		"options-block":    "-f fleet-strict.yaml -clusters clusters-strict.yaml -update -paused block",
		"options-budget":   "-f fleet-10pct.yaml -clusters clusters-50.yaml -update -releases budget",
		"refused":          "-f fleet-controller-only.yaml -clusters clusters-50.yaml -update -compare",
		"paused":           "-f fleet-paused.yaml -clusters clusters-50.yaml",
		"offline-for-good": "-f fleet-10pct.yaml -clusters clusters-50.yaml -ready 30s",
	} {
		t.Run(name, func(t *testing.T) {
			var drawn strings.Builder
			if err := run(strings.Fields(args), &drawn); err != nil {
				t.Fatal(err)
			}
			got := "$ fleetrollout " + args + "\n" + drawn.String()
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
			if !strings.Contains(got, "  done: ") && !strings.Contains(got, "  ends with ") {
				t.Error("the rollout just stops")
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
	const clusters = " -clusters clusters-50.yaml"
	for args, want := range map[string]string{
		"-f missing.yaml": "missing.yaml",
		"-f main.go":      "main.go: yaml:",
		"-f fleet-10pct.yaml -clusters fleet-10pct.yaml":                                             "rolloutStrategy",
		"-f fleet-10pct.yaml -ready 0s" + clusters:                                                   "must be positive",
		"-f fleet-10pct.yaml extra" + clusters:                                                       "unexpected argument",
		"-f fleet-10pct.yaml" + clusters + " -mode fleet":                                            `mode: "fleet": must be "default" or "fleet_controller"`,
		"-f fleet-10pct.yaml" + clusters + " -max-per-step -1":                                       "maxPerStep: -1",
		"-f fleet-controller-only.yaml" + clusters:                                                   "maxUnavailable",
		"-f " + file("[]\n") + clusters:                                                              "must be an object",
		"-f " + file("rolloutstrategy: {}\n") + clusters:                                             "the field is called rolloutStrategy",
		"-f " + file("rolloutStrategy: {maxUnavailble: 1}\n") + clusters:                             "maxUnavailble",
		"-f " + file("rolloutStrategy: {maxUnavailable: 1.5}\n") + clusters:                          "maxUnavailable: 1.5: must be an int",
		"-f fleet-10pct.yaml -clusters " + file("clusters: [{name: a, count: 0}]\n"):                 "clusters[0].count: must be from 1",
		"-f fleet-10pct.yaml -clusters " + file("clusters: [{name: a, offline: soon}]\n"):            "clusters[0].offline: must be a positive duration",
		"-f fleet-10pct.yaml -clusters " + file("clusters: [{name: a}, {name: a}]\n"):                `clusters[1]: "a": is given as clusters[0] already`,
		"-f fleet-10pct.yaml -clusters " + file("clusters: [{name: a, state: new}]\n"):               "clusters[0].state",
		"-f fleet-10pct.yaml -clusters " + file("clusters: [{count: 5}]\n") + " -mode fleet_control": "mode",
	} {
		var drawn strings.Builder
		if err := run(strings.Fields(args), &drawn); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", args, err, want)
		}
	}
}
