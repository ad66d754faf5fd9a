// Command ocmbench compares the time of a rollout step of package staged with that of the rollout
// handler of Open Cluster Management's library, on the same fleet in the same state: half of the
// clusters are done, ten are being rolled out, and one of them has just become ready.
//
// The library keeps nothing: each call is told the status of every cluster that has one. The package
// keeps a run, which its host stores, and is told what has changed; or as much as the library, by a
// host that does not know what has. Both are measured. Neither storing the run nor gathering the
// statuses is.
//
//	cd examples/ocmbench && go run . -n 1000,10000
//	cd examples/ocmbench && go test -run xxx -bench .
//
// The tests run whole rollouts through both, for the three types of strategies, and compare which
// clusters are started in which round. They also show, for each case in which the two differ, what
// the library does and what the package does.
package main

import (
	"flag"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/examples/internal/program"
)

func main() { program.Main(run) }

func run(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("ocmbench", flag.ContinueOnError)
	sizes := []int{1000, 5000}
	flags.Func("n", "numbers of clusters, a `list` separated by commas (default 1000,5000)", func(text string) error {
		sizes = nil
		for _, one := range strings.Split(text, ",") {
			n, err := strconv.Atoi(one)
			if err != nil || n < 30 || n > 1_000_000 {
				return fmt.Errorf("%q: must be a whole number from 30 to 1000000, or several of them with commas between", one)
			}
			sizes = append(sizes, n)
		}
		return nil
	})
	if err := program.Parse(flags, args, out, nil, "ocmbench measures a rollout step of package staged beside the rollout handler of Open Cluster Management's library.",
		"sizes are given with -n"); err != nil {
		return err
	}
	fmt.Fprintf(out, "%10s  %18s  %20s  %8s  %18s  %8s\n", "clusters", "ocm, per call", "staged, told as much", "ratio", "told what changed", "ratio")
	for _, n := range sizes {
		m, err := newMidway(n)
		if err != nil {
			return err
		}
		theirs, err := measure(m.library)
		if err != nil {
			return err
		}
		all, err := measure(m.stepAll)
		if err != nil {
			return err
		}
		changed, err := measure(m.step)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%10d  %18s  %20s  %8.0f  %18s  %8.0f\n", n, theirs, all, float64(theirs)/float64(all), changed, float64(theirs)/float64(changed))
	}
	return nil
}

// measure is the average time of a call, over at least 200 ms.
func measure(call func() error) (time.Duration, error) {
	start := time.Now()
	for n := 1; ; n++ {
		if err := call(); err != nil {
			return 0, err
		}
		if spent := time.Since(start); spent > 200*time.Millisecond {
			return spent / time.Duration(n), nil
		}
	}
}
