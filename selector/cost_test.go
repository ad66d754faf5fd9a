package selector_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tranche-dev/tranche/internal/testkit"
	"github.com/tranche-dev/tranche/selector"
)

// TestIndexCountsBeforeItLists: whether a key is there is asked of the few candidates that another
// condition leaves, and not of all values of the key, of which there may be as many as elements: a
// thousand selectors of one host each would list a thousand hosts each.
func TestIndexCountsBeforeItLists(t *testing.T) {
	if testkit.Race {
		t.Skip("the race detector allocates")
	}
	env := must(selector.NewEnv(selector.Schema{{Name: selector.LabelsVariable, Type: selector.StringMap}}, selector.Limits{}))
	for _, row := range []struct {
		l     selector.LabelSelector
		found int
	}{
		{selector.LabelSelector{MatchLabels: map[string]string{"host": "h1"}, MatchExpressions: []selector.LabelRequirement{{Key: "host", Operator: selector.Exists}}}, 1},
		{selector.LabelSelector{MatchLabels: map[string]string{"host": "h1"}, MatchExpressions: []selector.LabelRequirement{{Key: "host", Operator: selector.DoesNotExist}}}, 0},
		{selector.LabelSelector{MatchLabels: map[string]string{"rack": "r1"}, MatchExpressions: []selector.LabelRequirement{{Key: "host", Operator: selector.Exists}}}, 10},
	} {
		l, s := must(row.l.Compile()), must(env.CompileLabels(selector.LabelsVariable, row.l))
		var counts [2][]float64
		for _, n := range []int{100, 10_000} {
			index, sets := selector.NewIndex(selector.LabelsVariable), make([]selector.LabelMap, n)
			for i := range sets {
				sets[i] = selector.LabelMap{"host": fmt.Sprint("h", i), "rack": fmt.Sprint("r", i/10)}
				if err := index.Put(i, sets[i]); err != nil {
					t.Fatal(err)
				}
			}
			found := 0
			for k, search := range []func(){
				func() {
					for range index.MatchLabels(l, func(i int) map[string]string { return sets[i] }) {
						found++
					}
				},
				func() {
					for range index.Match(s, func(i int) selector.Vars { return sets[i] }) {
						found++
					}
				},
			} {
				found = 0
				search()
				if found != row.found {
					t.Errorf("%v: found %d of %d, want %d", l, found, n, row.found)
				}
				counts[k] = append(counts[k], testing.AllocsPerRun(10, search))
			}
		}
		for _, c := range counts {
			if c[1] > c[0] {
				t.Errorf("%v: %v allocations among 100 elements, %v among 10,000", l, c[0], c[1])
			}
		}
	}
}

// TestCostOfSchemas: eight times as many names, or a name of eight times the length, cost about eight
// times the processor time, and not sixty-four times.
func TestCostOfSchemas(t *testing.T) {
	testkit.NeedCPUTime(t)
	const factor = 8
	for _, row := range []struct {
		why string
		few int
		of  func(n int) func()
	}{
		{"names to keep: each variable is looked for among them, and not each of them for each variable", 500, func(n int) func() {
			var schema selector.Schema
			var names []string
			for i := range n {
				names = append(names, fmt.Sprintf("part%d", i))
				schema = append(schema, selector.Variable{Name: names[i] + ".id", Type: selector.String})
			}
			slices.Reverse(names)
			return func() {
				if kept := must(schema.Only(names...)); len(kept) != n {
					t.Fatal(len(kept))
				}
			}
		}},
		{"letters of one name: only what ends before a dot can be another variable", 8000, func(n int) func() {
			schema := append(selector.DefaultSchema(), selector.Variable{Name: strings.Repeat("a", n), Type: selector.String})
			return func() {
				if err := schema.Validate(); err != nil {
					t.Fatal(err)
				}
			}
		}},
	} {
		of := func(n int) func() {
			run := row.of(n)
			return func() {
				for range 40 { // one takes no time that can be measured
					run()
				}
			}
		}
		testkit.CompareCost(t, row.why, 30, of(row.few), of(factor*row.few))
	}
}
