package main

import (
	"fmt"
	"strings"
	"testing"
)

// The library's call at 100,000 clusters takes seconds, so it is measured once or twice there:
// -short leaves it out.
func BenchmarkOneChange(b *testing.B) {
	for _, n := range []int{1_000, 10_000, 100_000} {
		m, err := newMidway(n)
		if err != nil {
			b.Fatal(err)
		}
		bench := func(name string, call func() error) {
			b.Run(fmt.Sprintf("%s/n=%d", name, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if err := call(); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/cluster")
			})
		}
		bench("staged", m.step)
		bench("staged-all", m.stepAll)
		if n < 100_000 || !testing.Short() {
			bench("ocm", m.library)
		}
	}
}

// TestProgram: both are asked for the same fleet in the same state, and each of them for the clusters
// that are to be at work; the program prints a line for each size.
func TestProgram(t *testing.T) {
	var out strings.Builder
	if err := run([]string{"-n", "30,100"}, &out); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Split(strings.TrimSpace(out.String()), "\n"); len(lines) != 3 || !strings.Contains(lines[0], "told as much") {
		t.Errorf("prints\n%s", out.String())
	}
}
