package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tranche-dev/tranche/examples/internal/program/programtest"
	"github.com/tranche-dev/tranche/internal/golden"
)

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
			got := "$ fleetrollout " + args + "\n" + programtest.Print(t, run, strings.Fields(args)...)
			golden.Check(t, name+".golden", got)
			if !strings.Contains(got, "  done: ") && !strings.Contains(got, "  ends with ") {
				t.Error("the rollout just stops")
			}
			if strings.Contains(got, "pauses: the batch of") || strings.Contains(got, "pauses: the step has") {
				t.Error("a rollout goes on after a full batch, unless something else holds the next one back")
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
	strategy := func(text string) []string { return []string{"-clusters", "clusters-50.yaml", "-f", file(text)} }
	clusters := func(text string) []string { return []string{"-f", "fleet-10pct.yaml", "-clusters", file(text)} }
	programtest.Refusals(t, run, []programtest.Refusal{
		{Why: "a file that is not there", Args: []string{"-f", "missing.yaml"}, Faults: []string{`^missing\.yaml: no such file`}},
		{Why: "no YAML", Args: []string{"-f", "main.go"}, Faults: []string{`^main\.go: yaml:`}},
		{Why: "a fleet.yaml is no list of clusters", Args: []string{"-clusters", "fleet-10pct.yaml"}, Faults: []string{`^fleet-10pct\.yaml: rolloutStrategy: unknown field`, `defaultNamespace`, `helm`}},
		{Why: "nothing is ready at once", Args: []string{"-ready", "0s"}, Faults: []string{`^-ready: "0s": must be a duration above 0`}},
		{Why: "a file without flag", Args: []string{"fleet-10pct.yaml"}, Faults: []string{`unexpected argument "fleet-10pct\.yaml": files are named with -f`}},
		{Why: "an unknown flag", Args: []string{"-clsters", "x"}, Faults: []string{`^-clsters: there is no such flag: did you mean -clusters\?`}},
		{Why: "all flags at once", Args: []string{"-mode", "fleet", "-paused", "maybe", "-leftovers", "x", "-max-per-step", "-1"}, Faults: []string{
			`^-mode: "fleet": must be "default" or "fleet_controller"$`, `^-paused: "maybe": must be "skip" or "block"$`, `^-leftovers: "x": must be "exclude" or "append"$`,
			`^-max-per-step: "-1": must be a whole number (from 1 to|of at least 1)`}},
		{Why: "one mode of both", Args: []string{"-compare", "-mode", "fleet_controller"}, Faults: []string{`^-mode: -compare shows both`}},
		{Why: "an option that would change nothing", Args: []string{"-mode", "fleet_controller", "-max-per-step", "3"}, Faults: []string{`^-max-per-step: Fleet's controller knows no such option`}},
		{Why: "all of them", Args: []string{"-mode", "fleet_controller", "-releases", "budget", "-paused", "block"}, Faults: []string{`^-paused: Fleet's controller knows no such option`, `^-releases: Fleet's controller knows no such option`}},
		{Why: "no releases at all are not all of them", Args: []string{"-max-per-step", "0"}, Faults: []string{`^-max-per-step: "0": must be a whole number (from 1 to|of at least 1)`}},
		{Why: "what only the controller takes", Args: []string{"-f", "fleet-controller-only.yaml"}, Faults: []string{`^fleet-controller-only\.yaml: rolloutStrategy\.maxUnavailable: "1e1%": must be digits`}},
		{Why: "a list is no fleet.yaml", Args: strategy("[]\n"), Faults: []string{`^\S*file\.yaml: must be an object, not a list$`}},
		{Why: "nothing at all is no fleet.yaml either", Args: strategy("null\n"), Faults: []string{`^\S*file\.yaml: must be an object, not null$`}},
		{Why: "a Bundle would be played with Fleet's defaults", Args: strategy("apiVersion: fleet.cattle.io/v1alpha1\nkind: Bundle\nspec: {rolloutStrategy: {maxUnavailable: 1}}\n"),
			Faults: []string{`file\.yaml: apiVersion and kind: .*below spec`}},
		{Why: "the wrong case would be ignored", Args: strategy("rolloutstrategy: {}\n"), Faults: []string{`file\.yaml: rolloutstrategy: a fleet\.yaml has no such field; did you mean "rolloutStrategy"\?$`}},
		{Why: "and so would what is almost right", Args: strategy("rolloutStategy: {}\npuased: true\nrollout_strategies: {}\nhelm: {chart: a}\n"), Faults: []string{
			`puased: a fleet\.yaml has no such field; did you mean "paused"\?`, `rolloutStategy: .*did you mean "rolloutStrategy"\?`, `rollout_strategies: .*did you mean "rolloutStrategy"\?`}},
		{Why: "limits that are not indented would be played as Fleet's defaults", Args: strategy("rolloutStrategy:\nmaxUnavailable: 1\npartitions: []\nhelm: {}\n"), Faults: []string{
			`file\.yaml: maxUnavailable: a fleet\.yaml has no such field; did you mean "rolloutStrategy\.maxUnavailable"\?$`, `file\.yaml: partitions: .*did you mean "rolloutStrategy\.partitions"\?$`}},
		{Why: "a misspelt field, and a value of another type", Args: strategy("rolloutStrategy: {maxUnavailble: 1}\npaused: 'true'\n"), Faults: []string{
			`file\.yaml: paused: must be true or false`, `file\.yaml: rolloutStrategy\.maxUnavailble: unknown field; did you mean "maxUnavailable"\?`}},
		{Why: "half a cluster", Args: strategy("rolloutStrategy: {maxUnavailable: 1.5}\n"), Faults: []string{`rolloutStrategy\.maxUnavailable: 1\.5: must be an int`}},
		{Why: "all rules of a strategy, with the same paths", Args: strategy("rolloutStrategy: {maxUnavailable: x, partitions: [{clusterSelector: {matchExpressions: [{key: a, operator: Is}]}}]}\n"), Faults: []string{
			`file\.yaml: rolloutStrategy\.maxUnavailable: "x": must be`, `file\.yaml: rolloutStrategy\.partitions\[0\]\.clusterSelector\.matchExpressions\[0\]\.operator: "Is": must be`}},
		{Why: "no strategy", Args: strategy("rolloutStrategy: 3\n"), Faults: []string{`file\.yaml: rolloutStrategy: must be an object, not a number`}},
		{Why: "no cluster", Args: clusters("clusters: [{name: a, count: 0}]\n"), Faults: []string{`clusters\[0\]\.count: 0: must be at least 1, and 20000 in all at most`}},
		{Why: "more clusters than can be played", Args: clusters("clusters: [{name: a, count: 15000}, {name: b, count: 15000}]\n"), Faults: []string{`clusters\[1\]\.count: 15000: must be at least 1, and 20000 in all at most`}},
		{Why: "nobody", Args: clusters("clusters: []\n"), Faults: []string{`file\.yaml: clusters: at least one is needed`}},
		{Why: "nothing", Args: clusters("{}\n"), Faults: []string{`file\.yaml: clusters: at least one is needed`}},
		{Why: "no duration", Args: clusters("clusters: [{name: a, offline: soon}]\n"), Faults: []string{`clusters\[0\]\.offline: "soon": must be a duration above 0`}},
		{Why: "a cluster twice, which is a fault of the list and not of the fleet.yaml", Args: clusters("clusters: [{name: a}, {name: a}]\n"),
			Faults: []string{`file\.yaml: clusters\[1\]: "a": is given as clusters\[0\] already`}},
		{Why: "blocks are numbered as they are written, and all faults are told", Args: clusters("clusters: [{name: a, count: 3}, {name: a-001}, {name: ''}]\n"),
			Faults: []string{`file\.yaml: clusters\[1\]: "a-001": is given as clusters\[0\] already`, `file\.yaml: clusters\[2\]\.name: must not be empty`}},
		{Why: "a field that clusters do not have", Args: clusters("clusters: [{name: a, state: new}]\n"), Faults: []string{`clusters\[0\]\.state`}},
	})
}

func TestHelp(t *testing.T) { programtest.Help(t, run, "-compare") }

// TestFleetYAML plays files as they are in the wild: what a rollout does not read is accepted.
func TestFleetYAML(t *testing.T) {
	file := filepath.Join(t.TempDir(), "fleet.yaml")
	if err := os.WriteFile(file, []byte(`# fields of Fleet's reference
defaultNamespace: a
namespace: a
namespaceLabels: {a: b}
namespaceAnnotations: {a: b}
labels: {a: b}
kustomize: {dir: .}
helm: {chart: a, values: {rolloutStrategy: x}}
deleteCRDResources: false
diff: {comparePatches: []}
paused: false
rolloutStrategy: {maxUnavailable: 20%}
targetCustomizations: [{name: prod, clusterSelector: {}}]
overrideTargets: []
dependsOn: [{name: b}]
ignore: {conditions: []}
correctDrift: {enabled: true}
keepResources: true
deleteNamespace: false
serviceAccount: a
yaml: {overlays: [a]}
`), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := programtest.Print(t, run, "-f", file, "-clusters", "clusters-50.yaml"); !strings.Contains(got, "  0 All: 50 clusters, at most 10 NotReady\n") {
		t.Error(got)
	}
}

// TestOneCluster: a number is said with its noun, and who is not done by name.
func TestOneCluster(t *testing.T) {
	file := filepath.Join(t.TempDir(), "clusters.yaml")
	if err := os.WriteFile(file, []byte("clusters: [{name: a}, {name: b, unready: true}, {name: c, paused: true}, {name: d, unready: true}]\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	got := programtest.Print(t, run, "-f", "fleet-10pct.yaml", "-clusters", file)
	if want := "00:02:00  ends with 3 not done: 1 step, at most 3 clusters NotReady at once\n  not_ready: 2, b, d\n  paused: 1, c\n"; !strings.HasSuffix(got, want) {
		t.Error(got)
	}
}
