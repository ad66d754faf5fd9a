package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tranche-dev/tranche/examples/internal/program/programtest"
	"github.com/tranche-dev/tranche/internal/golden"
)

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
		"partition-above":    "-replicas 3 -partition 3",
		"force":              "-replicas 2 -max-unavailable 1 -order descending -force -inject fail,new-revision",
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
			got := "$ surge " + args + "\n" + programtest.Print(t, run, strings.Fields(args)...)
			golden.Check(t, name+".golden", got)
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
	empty := filepath.Join(t.TempDir(), "empty.yaml")
	if err := os.WriteFile(empty, []byte("spec:\n  replicas: 1\n  updateStrategy: {type: ReplicaRecreate}\n  template: {}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	large := filepath.Join(t.TempDir(), "large.yaml")
	cut := filepath.Join(t.TempDir(), "cut.yaml")
	if err := os.WriteFile(cut, []byte("spec: {replicas: 1, replicas: 2}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(large, []byte("spec:\n  replicas: 400\n  template: {cliques: [{name: a, replicas: 3}]}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	programtest.Refusals(t, run, []programtest.Refusal{
		{Why: "half a replica", Args: []string{"-max-surge", "1.5"}, Faults: []string{`^-max-surge: "1\.5": must be a count`}},
		{Why: "a negative budget", Args: []string{"-max-unavailable", "-1"}, Faults: []string{`^-max-unavailable: "-1": must be a count`}},
		{Why: "more than there are", Args: []string{"-max-unavailable", "4", "-min-available", "5"}, Faults: []string{
			`^-max-unavailable: 4: must be at most -replicas, 3$`, `^-min-available: 5: must be at most -replicas, 3$`}},
		{Why: "nothing could move", Args: []string{"-max-unavailable", "0"}, Faults: []string{`^-max-unavailable: 0: -max-surge is 0 too, so nothing could ever be updated: raise one of them$`}},
		{Why: "a picture that nobody could look at", Args: []string{"-replicas", "9999999"}, Faults: []string{`^-replicas: "9999999": must be a whole number from 0 to 1000$`}},
		{Why: "nor that of a set", Args: []string{"-f", large}, Faults: []string{`large\.yaml: spec\.replicas: a line has a column for each pod of 400 set replicas: use at most 1000 pods in all`}},
		{Why: "a negative set", Args: []string{"-replicas", "-2"}, Faults: []string{`^-replicas: "-2": must be a whole number from 0 to 1000$`}},
		{Why: "all flags at once", Args: []string{"-partition", "-1", "-min-available", "x", "-order", "up", "-ready", "0s", "-gone", "999h"}, Faults: []string{
			`^-partition: "-1": must be a whole number of at least 0$`, `^-min-available: "x": must be a whole number from 0 to 1000$`, `^-order: "up": must be "ascending" or "descending"$`,
			`^-ready: "0s": must be a duration above 0 and of at most 24h`, `^-gone: "999h": must be`}},
		{Why: "an unknown fault", Args: []string{"-inject", "fail,earthquake"}, Faults: []string{`^-inject: "earthquake": must be stuck-surge`}},
		{Why: "no fault between two commas", Args: []string{"-inject", "fail,,hang"}, Faults: []string{`^-inject: "": must be stuck-surge`}},
		{Why: "a fault twice", Args: []string{"-inject", "fail,hang,fail"}, Faults: []string{`^-inject: fail: is there twice`}},
		{Why: "a file without flag", Args: []string{"podcliqueset.yaml"}, Faults: []string{`unexpected argument "podcliqueset\.yaml": a file is named with -f`}},
		{Why: "a file that is not there", Args: []string{"-f", "missing.yaml"}, Faults: []string{`^missing\.yaml: no such file`}},
		{Why: "no surge to get stuck", Args: []string{"-inject", "stuck-surge"}, Faults: []string{`^-inject: stuck-surge: there is no surge: allow one with -max-surge$`}},
		{Why: "no surge to get stuck in a set", Args: []string{"-f", "recreate.yaml", "-inject", "stuck-surge"}, Faults: []string{`^-inject: stuck-surge: there is no surge: allow one with maxSurge in recreate\.yaml$`}},
		{Why: "no surge to give up", Args: []string{"-unblock"}, Faults: []string{`^-unblock: gives a surge up, and there is none: allow one with -max-surge$`}},
		{Why: "flags of a flat set", Args: []string{"-f", "podcliqueset.yaml", "-force", "-replicas", "3", "-max-surge", "1", "-unblock"}, Faults: []string{
			`^-force: is for a flat set, and the file of -f cannot say it: leave it out$`, `^-replicas: is for a flat set: leave it out, and write spec\.replicas into the file of -f$`,
			`^-max-surge: .*the maxSurge of an updateStrategy`, `^-unblock: is for a flat set, and the file of -f cannot say it: leave it out$`}},
		{Why: "all faults of a document", Args: []string{"-f", invalid}, Faults: []string{`invalid\.yaml: .*replicas: -1`, `spec\.template\.cliques\[0\]\.updateStrategy\.maxUnavailable: 3: must be at most replicas, 2`}},
		{Why: "a field twice", Args: []string{"-f", cut}, Faults: []string{`cut\.yaml: spec\.replicas: yaml: line 1: is given in line 1 already`}},
		{Why: "a set of nothing", Args: []string{"-f", empty}, Faults: []string{`empty\.yaml: spec\.template: has neither cliques`}},
		{Why: "no YAML", Args: []string{"-f", "main.go"}, Faults: []string{`^main\.go: yaml:`}},
	})
}

// TestStuck: an update that stops says what it waits for, whatever it is.
func TestStuck(t *testing.T) {
	const cliques = "\n  template: {cliques: [{name: a, replicas: 2}]}\n"
	for _, row := range []struct{ why, document, flags, want string }{
		{"paused", "spec:\n  replicas: 2\n  paused: true" + cliques, "", "stuck: replicas: UpdatePaused [0 1]: resume the update\n"},
		{"two components of the current replica", "spec:\n  replicas: 2\n  partition: 1\n  template: {cliques: [{name: a, replicas: 2}, {name: b, replicas: 1}]}\n", "-inject broken",
			"stuck: replica 1, a: TargetNotReady [0]: publish a working revision, or go back to the old one\n" +
				"stuck: replica 1, b: TargetNotReady [0]: publish a working revision, or go back to the old one\n"},
		{"paused, whole replicas", "spec:\n  replicas: 2\n  paused: true\n  updateStrategy: {type: ReplicaRecreate}" + cliques, "",
			"stuck: replicas: UpdatePaused [0 1]: resume the update"},
		{"whole replicas above a partition", "spec:\n  replicas: 3\n  partition: 2\n  updateStrategy: {type: ReplicaRecreate}" + cliques, "-inject broken",
			"stuck: replicas: TargetNotReady [2]: publish a working revision, or go back to the old one"},
		{"no unavailable replica, in percent", "", "-replicas 2 -max-surge 1 -max-unavailable 0% -inject stuck-surge -unblock", "surge given up, from now on at most 1 missing "},
		{"one unavailable replica by default, which is down", "", "-replicas 2 -max-surge 1 -inject broken -unblock", "surge given up, from now on at most 2 missing "},
		{"two of three are down", "", "-replicas 3 -max-surge 1 -max-unavailable 2 -inject broken -unblock", "surge given up, from now on at most 3 missing "},
	} {
		args := strings.Fields(row.flags)
		if row.document != "" {
			file := filepath.Join(t.TempDir(), "set.yaml")
			if err := os.WriteFile(file, []byte(row.document), 0o644); err != nil {
				t.Fatal(err)
			}
			args = append(args, "-f", file)
		}
		if got := programtest.Print(t, run, args...); !strings.Contains(got, row.want) {
			t.Errorf("%s: got\n%s", row.why, got)
		}
	}
}

func TestHelp(t *testing.T) { programtest.Help(t, run, "-max-unavailable") }
