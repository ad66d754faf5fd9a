package main

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files")

// TestGolden plays one update per line of arguments and compares what is drawn.
func TestGolden(t *testing.T) {
	for name, args := range map[string]string{
		"surge":              "-replicas 3 -max-surge 1 -max-unavailable 0",
		"defaults":           "-replicas 3",
		"two-at-a-time":      "-replicas 4 -max-unavailable 2",
		"percent":            "-replicas 5 -max-surge 25% -max-unavailable 40%",
		"descending":         "-replicas 3 -order descending -partition 1",
		"stuck-surge":        "-replicas 3 -max-surge 1 -max-unavailable 0 -inject stuck-surge",
		"unblock":            "-replicas 3 -max-surge 1 -max-unavailable 0 -inject stuck-surge -unblock",
		"new-revision":       "-replicas 3 -max-surge 1 -max-unavailable 0 -inject new-revision",
		"scale-down":         "-replicas 4 -max-surge 1 -max-unavailable 0 -inject scale-down",
		"fail":               "-replicas 3 -max-surge 1 -max-unavailable 0 -inject fail",
		"hang":               "-replicas 3 -max-surge 1 -max-unavailable 0 -inject hang",
		"remove":             "-replicas 3 -max-surge 1 -max-unavailable 0 -inject remove",
		"broken":             "-replicas 4 -max-surge 1 -max-unavailable 1 -inject broken",
		"everything":         "-replicas 5 -max-surge 2 -max-unavailable 1 -inject new-revision,scale-down,fail,hang,remove",
		"gang":               "-replicas 3 -max-surge 1 -max-unavailable 1 -min-available 2",
		"set":                "-f podcliqueset.yaml",
		"set-single":         "-f single-node.yaml",
		"set-recreate":       "-f recreate.yaml",
		"set-surge":          "-f recreate-surge.yaml",
		"set-revision":       "-f podcliqueset.yaml -inject new-revision",
		"set-scale-down":     "-f recreate-surge.yaml -inject scale-down",
		"set-stuck":          "-f podcliqueset.yaml -inject stuck-surge",
		"set-recreate-stuck": "-f recreate-surge.yaml -inject stuck-surge",
	} {
		t.Run(name, func(t *testing.T) {
			var drawn strings.Builder
			if err := run(strings.Fields(args), &drawn); err != nil {
				t.Fatal(err)
			}
			got := "$ surge " + args + "\n" + drawn.String()
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
			last := got[strings.LastIndex(strings.TrimSpace(got), "\n")+1:]
			if !strings.Contains(last, "converged") && !strings.HasPrefix(last, "stuck: ") {
				t.Errorf("the update just stops: %s", last)
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	invalid := filepath.Join(t.TempDir(), "invalid.yaml")
	if err := os.WriteFile(invalid, []byte("spec:\n  replicas: -1\n  template:\n    cliques:\n      - name: a\n        replicas: 2\n        updateStrategy: {maxUnavailable: 3}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"-max-surge 1.5":                 "must be a count",
		"-max-unavailable -1":            "must be a count",
		"-max-unavailable 4":             "maxUnavailable: 4: must be at most replicas, 3",
		"-max-unavailable 0":             "maxSurge is 0 too",
		"-replicas -2":                   "replicas: -2: must not be negative",
		"-order up":                      `order: "up"`,
		"-inject earthquake":             "-inject earthquake: must be stuck-surge",
		"-ready 0s":                      "must be positive",
		"extra":                          `unexpected argument "extra"`,
		"-f missing.yaml":                "missing.yaml",
		"-f podcliqueset.yaml -force":    "-force cannot be used with -f",
		"-f " + invalid:                  "spec.template.cliques[0].updateStrategy.maxUnavailable: 3: must be at most replicas, 2",
		"-f main.go":                     "main.go: yaml:",
		"-f " + invalid + " -replicas 3": "-replicas cannot be used with -f",
	} {
		var drawn strings.Builder
		if err := run(strings.Fields(args), &drawn); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", args, err, want)
		}
	}
}
