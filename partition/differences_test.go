package partition_test

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/tranche-dev/tranche/partition"
	"github.com/tranche-dev/tranche/selector"
)

// situation is a strategy for a number of equal clusters.
type situation struct {
	n        int
	state    partition.State
	strategy partition.Strategy
}

func fresh() partition.State { return partition.State{} }

func healthy(version string) partition.State {
	return partition.State{Released: version, Applied: version, Ready: true}
}

// fleetOf returns n clusters in one state.
func fleetOf(n int, state partition.State) partition.Fleet {
	var fleet partition.Fleet
	for i := range n {
		fleet.Clusters = append(fleet.Clusters, partition.Cluster{Name: fmt.Sprintf("c%06d", i), Wanted: newVersion, State: state})
	}
	return fleet
}

func (s situation) plan(t *testing.T, mode partition.Mode) (partition.Result, error) {
	t.Helper()
	return partition.Plan(s.strategy, fleetOf(s.n, s.state), partition.Options{Mode: mode})
}

// kindOr is the kind of a fault, or else the text.
func kindOr(err error, text func() string) string {
	var fault *partition.FieldError
	if errors.As(err, &fault) {
		return string(fault.Code)
	}
	if err != nil {
		return err.Error()
	}
	return text()
}

func count(n int) *int { return &n }

func stage(names ...string) (list []partition.Definition) {
	for _, name := range names {
		list = append(list, partition.Definition{Name: name, ClusterSelector: &selector.LabelSelector{MatchLabels: map[string]string{"stage": name}}})
	}
	return list
}

// differences computes a row of the package comment in one mode.
func differences() map[string]func(*testing.T, partition.Mode) string {
	percent := partition.FromString("10%")
	sizes := func(n int) func(*testing.T, partition.Mode) string {
		return func(t *testing.T, mode partition.Mode) string {
			plan, err := situation{n: n}.plan(t, mode)
			if err != nil {
				t.Fatal(err)
			}
			var list []string
			for _, p := range plan.Partitions {
				list = append(list, fmt.Sprint(p.Count))
			}
			return strings.Join(list, " ")
		}
	}
	releases := func(s situation) func(*testing.T, partition.Mode) string {
		return func(t *testing.T, mode partition.Mode) string {
			plan, err := s.plan(t, mode)
			return kindOr(err, func() string { return fmt.Sprint(len(plan.Releases)) })
		}
	}
	limit := func(n int, v partition.IntOrString) func(*testing.T, partition.Mode) string {
		return func(t *testing.T, mode partition.Mode) string {
			plan, err := situation{n: n, strategy: partition.Strategy{MaxUnavailable: v, AutoPartitionThreshold: count(0)}}.plan(t, mode)
			return kindOr(err, func() string { return fmt.Sprint(plan.Partitions[0].MaxUnavailable) })
		}
	}
	return map[string]func(*testing.T, partition.Mode) string{
		"D1": sizes(230),
		"D2": sizes(199),
		"D3": func(t *testing.T, mode partition.Mode) string {
			w := &world{fleet: fleetOf(100, fresh())}
			var text string
			for range 2 {
				plan, err := partition.Plan(partition.Strategy{MaxUnavailable: percent}, w.fleet, partition.Options{Mode: mode})
				if err != nil {
					t.Fatal(err)
				}
				w.apply(&plan.Step)
				if len(plan.Releases) == 0 {
					return text + ", wait"
				}
				text = strings.TrimSpace(fmt.Sprint(text, " ", len(plan.Releases)))
			}
			return text
		},
		"D4": releases(situation{50, healthy(oldVersion), partition.Strategy{MaxUnavailable: percent}}),
		"D5": releases(situation{1000, healthy(oldVersion), partition.Strategy{}}),
		"D6": releases(situation{100, healthy(oldVersion), partition.Strategy{MaxUnavailable: partition.FromInt(0)}}),
		"D7": releases(situation{200, fresh(), partition.Strategy{AutoPartitionSize: percent}}),
		"D8": func(t *testing.T, mode partition.Mode) string {
			plan, err := situation{200, fresh(), partition.Strategy{AutoPartitionSize: percent, MaxUnavailablePartitions: partition.FromInt(1)}}.plan(t, mode)
			text := kindOr(err, func() string { return fmt.Sprint(len(plan.Releases)) })
			if len(plan.Warnings) == 1 && plan.Warnings[0].Code == "gate_without_effect" {
				text += " and a warning"
			}
			return text
		},
		"D9":  limit(10, partition.FromString("0%")),
		"D10": limit(10, partition.FromString("0")),
		"D11": limit(50, partition.FromString("1e1%")),
		"D12": limit(10, partition.FromString("15")),
		"D13": limit(1500, partition.FromString("4.6%")),
		"D14": func(t *testing.T, mode partition.Mode) string {
			_, err := situation{n: 10, strategy: partition.Strategy{AutoPartitionSize: partition.FromString("x")}}.plan(t, mode)
			return kindOr(err, func() string { return "unseen" })
		},
		"D15": func(t *testing.T, mode partition.Mode) string {
			fleet := fleetOf(5, healthy(oldVersion))
			for i := range 2 {
				fleet.Clusters[i].State = partition.State{Released: newVersion, Applied: oldVersion}
			}
			plan, err := partition.Plan(partition.Strategy{MaxUnavailable: partition.FromInt(2)}, fleet, partition.Options{Mode: mode})
			return kindOr(err, func() string { return fmt.Sprint(len(plan.Releases)) })
		},
		"D16": func(t *testing.T, mode partition.Mode) string {
			fleet := fleetOf(2, partition.State{Released: newVersion, Applied: oldVersion})
			plan, err := partition.Plan(partition.Strategy{MaxUnavailable: partition.FromInt(0), MaxUnavailablePartitions: partition.FromInt(1),
				AutoPartitionSize: partition.FromInt(1), AutoPartitionThreshold: count(1)}, fleet, partition.Options{Mode: mode})
			return kindOr(err, func() string {
				return map[bool]string{true: "proceeds", false: "pauses"}[plan.Partitions[1].Reached]
			})
		},
		"D17": func(t *testing.T, mode partition.Mode) string {
			all := []partition.Definition{{MaxUnavailable: partition.FromInt(5), ClusterSelector: &selector.LabelSelector{}}}
			return releases(situation{10, healthy(oldVersion), partition.Strategy{MaxUnavailable: partition.FromInt(1), Partitions: all}})(t, mode)
		},
		"D18": func(t *testing.T, mode partition.Mode) string {
			state := healthy(oldVersion)
			state.Offline = true
			plan, err := situation{1, state, partition.Strategy{}}.plan(t, mode)
			return kindOr(err, func() string {
				return map[int]string{0: "available", 1: "NotReady"}[plan.Partitions[0].Unavailable]
			})
		},
		"D19": func(t *testing.T, mode partition.Mode) string {
			state := healthy(oldVersion)
			state.Paused = true
			plan, err := situation{1, state, partition.Strategy{MaxUnavailable: partition.FromInt(0)}}.plan(t, mode)
			return kindOr(err, func() string {
				return map[bool]string{true: "does not count", false: "blocks"}[plan.Partitions[0].Ready]
			})
		},
		"D20": func(t *testing.T, mode partition.Mode) string {
			strategy := partition.Strategy{Partitions: stage("none")}
			plan, err := situation{1, fresh(), strategy}.plan(t, mode)
			if err != nil || len(plan.Unmatched) != 1 || len(plan.Releases) != 0 {
				t.Errorf("%v, %v", plan, err)
			}
			appended, err := partition.Plan(strategy, fleetOf(1, fresh()), partition.Options{Mode: mode, Leftovers: partition.AppendLeftovers})
			if err == nil && len(appended.Unmatched) == 0 && appended.Partitions[1].Name == "Leftovers" {
				return "excluded, or appended"
			}
			return kindOr(err, func() string { return "excluded" })
		},
		"D21": func(t *testing.T, mode partition.Mode) string {
			plan, err := situation{1, fresh(), partition.Strategy{Partitions: []partition.Definition{{ClusterGroupSelector: &selector.LabelSelector{}}}}}.plan(t, mode)
			return kindOr(err, func() string {
				return map[int]string{0: "no member", 1: "member"}[plan.Partitions[0].Count]
			})
		},
		"D22": func(t *testing.T, mode partition.Mode) string {
			fleet := partition.Fleet{Clusters: []partition.Cluster{{Namespace: "a", Name: "y", Wanted: newVersion}, {Namespace: "b", Name: "x", Wanted: newVersion}}}
			plan, err := partition.Plan(partition.Strategy{}, fleet, partition.Options{Mode: mode})
			return kindOr(err, func() string { return plan.Releases[0].ID.String() })
		},
		"D23": func(t *testing.T, mode partition.Mode) string {
			plan, err := situation{4, healthy(oldVersion), partition.Strategy{}}.plan(t, mode)
			return kindOr(err, func() string {
				if len(plan.Releases) != 4 {
					return "not released"
				}
				if mode == partition.FleetController {
					return fmt.Sprint(plan.Partitions[0].Unavailable, " unavailable")
				}
				return fmt.Sprint(plan.Partitions[0].NotReady, " NotReady")
			})
		},
		"D24": func(t *testing.T, mode partition.Mode) string {
			fleet := fleetOf(2, partition.State{Released: newVersion})
			fleet.Clusters[1].State = partition.State{Released: oldVersion}
			plan, err := partition.Plan(partition.Strategy{MaxUnavailable: partition.FromInt(0), AutoPartitionSize: partition.FromInt(1), AutoPartitionThreshold: count(1)},
				fleet, partition.Options{Mode: mode})
			return kindOr(err, func() string {
				return map[int]string{0: "waits", 1: "is fixed"}[len(plan.Releases)]
			})
		},
		"D25": func(t *testing.T, mode partition.Mode) string {
			plan, err := situation{n: 200, strategy: partition.Strategy{AutoPartitionSize: partition.FromString("0%")}}.plan(t, mode)
			return kindOr(err, func() string { return fmt.Sprint(len(plan.Partitions)) })
		},
		"D26": func(t *testing.T, mode partition.Mode) string {
			plan, err := situation{n: 1, strategy: partition.Strategy{Partitions: stage("none")}}.plan(t, mode)
			return kindOr(err, func() string { return fmt.Sprint(plan.Partitions[0].MaxUnavailable) })
		},
		"D27": func(t *testing.T, mode partition.Mode) string {
			plan, err := situation{strategy: partition.Strategy{Partitions: stage("a", "b")}}.plan(t, mode)
			return kindOr(err, func() string {
				var names []string
				for _, p := range plan.Partitions {
					names = append(names, p.Name)
				}
				return strings.Join(names, " ")
			})
		},
		"D28": func(t *testing.T, mode partition.Mode) string {
			w := &world{fleet: fleetOf(1, partition.State{Released: oldVersion, Applied: newVersion, Ready: true})}
			for _, when := range []string{"at once", "a step later"} {
				plan, err := partition.Plan(partition.Strategy{}, w.fleet, partition.Options{Mode: mode})
				if err != nil {
					t.Fatal(err)
				}
				if plan.Partitions[0].NotReady == 0 {
					return "done " + when
				}
				w.apply(&plan.Step)
			}
			return "not done"
		},
	}
}

// TestDifferences computes every row of the table in the package comment.
func TestDifferences(t *testing.T) {
	source, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	computed := differences()
	cells := regexp.MustCompile(`\s{2,}`)
	rows := 0
	for line := range strings.Lines(string(source)) {
		line, ok := strings.CutPrefix(strings.TrimSpace(line), "//\tD")
		if !ok {
			continue
		}
		cell := cells.Split("D"+line, -1)
		if len(cell) != 5 {
			t.Errorf("%q: got %d columns, want number, situation, document, FleetController, Default", line, len(cell))
			continue
		}
		rows++
		t.Run(cell[0], func(t *testing.T) {
			compute, ok := computed[cell[0]]
			if !ok {
				t.Fatalf("%s: nothing computes it", cell[1])
			}
			for i, mode := range []partition.Mode{partition.FleetController, partition.Default} {
				if got := compute(t, mode); got != cell[3+i] {
					t.Errorf("%s, %s: got %q, the table says %q", cell[1], mode, got, cell[3+i])
				}
			}
		})
	}
	if rows != len(computed) {
		t.Errorf("the table has %d rows, %d are computed", rows, len(computed))
	}
}
