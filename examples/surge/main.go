// Command surge plays a rolling update over numbered replicas on a virtual clock and draws what
// package surge plans at each step, and why. Nothing is deployed and nothing waits: an update of
// hours is drawn at once.
//
//	go run ./examples/surge -replicas 3 -max-surge 1 -max-unavailable 0
//	go run ./examples/surge -replicas 3 -max-surge 1 -max-unavailable 0 -inject stuck-surge -unblock
//	go run ./examples/surge -f examples/surge/podcliqueset.yaml
//
// The first two commands update one flat set, the third a Grove PodCliqueSet on its three levels.
// The documents of this folder can be named from every directory. If a file or a flag is wrong, the
// program exits with 2. Each line of the output shows the time, what happened, the resulting state
// and the plan for it. In a state, the position is the index, and the character is what the index
// holds:
//
//	. nothing   t terminating   O old, available   o old, not available   N new, available   n new, not available
//
// A blank separates the components of a set replica, and a bar separates set replicas.
package main

import (
	"embed"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/examples/internal/program"
	"github.com/tranche-dev/tranche/surge"
)

func main() { program.Main(run) }

func run(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("surge", flag.ContinueOnError)
	var spec surge.Spec
	flags.IntVar(&spec.Replicas, "replicas", 3, "`number` of replicas of a flat set")
	limit := func(into *concurrency.Limit, name, usage string) {
		flags.Func(name, usage, func(text string) (err error) {
			*into, err = concurrency.ParseLimit(text)
			return err
		})
	}
	limit(&spec.MaxSurge, "max-surge", "`limit` of extra replicas during the update, such as 1 or 25% (default 0)")
	limit(&spec.MaxUnavailable, "max-unavailable", "`limit` of replicas that may be missing during the update, such as 0 or 25% (default 1)")
	flags.IntVar(&spec.Partition, "partition", 0, "lowest `index` that is updated")
	flags.IntVar(&spec.MinAvailable, "min-available", 0, "`size` of the base gang, which becomes ready before all others")
	flags.StringVar((*string)(&spec.Order), "order", "ascending", "`ascending|descending`: which of several equal replicas is updated first")
	flags.BoolVar(&spec.Force, "force", false, "replace all unavailable old replicas at once")
	file := flags.String("f", "", "`file` with a Grove PodCliqueSet to update instead of a flat set")
	ready := flags.Duration("ready", 20*time.Second, "how long a created replica takes to become available")
	gone := flags.Duration("gone", 10*time.Second, "how long a deleted replica takes to vanish")
	inject := flags.String("inject", "", "what goes wrong, as a `list` separated by commas: stuck-surge (a surge never becomes ready), new-revision, scale-down "+
		"(both once the first replica is updated), fail (the first updated replica fails and recovers), broken (the new revision never becomes ready), "+
		"hang (the first deletion takes ten times as long), remove (the last replica is evicted)")
	unblock := flags.Bool("unblock", false, "give the surge up when the update of a flat set is stuck: maxSurge 0 and maxUnavailable 1")
	if err := program.Parse(flags, args, out, "surge plays a rolling update over numbered replicas on a virtual clock, and draws what is planned at each step and why.",
		"a file is named with -f"); err != nil {
		return err
	}
	if *ready <= 0 || *gone <= 0 {
		return program.Wrong("surge", "-ready %v, -gone %v: both must be greater than 0, such as 20s", *ready, *gone)
	}

	w := &world{ready: *ready, gone: *gone, target: 2}
	if err := w.inject(*inject); err != nil {
		return err
	}
	if *file == "" {
		if err := spec.Validate(); err != nil {
			return &program.InputError{Source: "surge", Err: err}
		}
		if spec.MaxSurge.Value() == 0 && (*unblock || w.faults["stuck-surge"]) {
			return program.Wrong("surge", "-unblock and -inject stuck-surge are about surges: allow some with -max-surge")
		}
		if spec.Replicas > mostDrawn {
			return program.Wrong("-replicas", "%d: a line has a column for each: use at most %d", spec.Replicas, mostDrawn)
		}
		w.planner = &flatSet{spec: spec, unblock: *unblock}
	} else {
		set, warnings, err := load(*file, flags)
		if err != nil {
			return err
		}
		for _, warning := range warnings {
			fmt.Fprintf(out, "warning: %s\n", warning)
		}
		w.planner = &podCliqueSet{spec: set}
	}
	w.fill()
	return w.play(out)
}

// mostDrawn is how many replicas, or pods of a set, a line has columns for. Package surge has no
// such bound.
const mostDrawn = 1000

// fits reports whether all units of a set are drawn on one line.
func fits(sizes [][]int) bool {
	left := mostDrawn
	for _, replica := range sizes {
		for _, n := range replica {
			if n > left {
				return false
			}
			left -= n
		}
	}
	return true
}

//go:embed *.yaml
var builtin embed.FS

// load reads a PodCliqueSet. The flags of a flat set have no meaning beside it, and what has no
// meaning is not ignored.
func load(file string, flags *flag.FlagSet) (surge.SetSpec, []surge.Warning, error) {
	var stray []string
	flags.Visit(func(f *flag.Flag) {
		switch f.Name {
		case "f", "ready", "gone", "inject":
		default:
			stray = append(stray, "-"+f.Name)
		}
	})
	if len(stray) > 0 {
		return surge.SetSpec{}, nil, program.Wrong(strings.Join(stray, ", "), "cannot be used with -f: write it into %s", file)
	}
	name, document, err := program.Read(builtin, file, "")
	if err != nil {
		return surge.SetSpec{}, nil, err
	}
	spec, warnings, err := surge.ParsePodCliqueSet(document)
	if err != nil {
		return spec, nil, &program.InputError{Source: name, Err: err}
	}
	if len(spec.Components) == 0 {
		return spec, nil, program.Wrong(name, "spec.template: has neither cliques nor podCliqueScalingGroups, so there is nothing to update")
	}
	if drawn := (&podCliqueSet{spec: spec}); spec.Replicas > mostDrawn || !fits(drawn.sizes()) {
		return spec, nil, program.Wrong(name, "spec.replicas: a line has a column for each pod of %d set replicas: use at most %d pods in all", spec.Replicas, mostDrawn)
	}
	return spec, warnings, nil
}
