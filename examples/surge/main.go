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
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/examples/internal/program"
	"github.com/tranche-dev/tranche/surge"
)

func main() { program.Main(run) }

func run(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("surge", flag.ContinueOnError)
	var spec surge.Spec
	program.Number(flags, &spec.Replicas, "replicas", 3, 0, mostDrawn, "`number` of replicas of a flat set, at most 1000: a line has a column for each")
	limit := func(into *concurrency.Limit, name, usage string) {
		flags.Func(name, usage, func(text string) (err error) {
			*into, err = concurrency.ParseLimit(text)
			return err
		})
	}
	limit(&spec.MaxSurge, "max-surge", "`limit` of extra replicas during the update, such as 1 or 25% (default 0)")
	limit(&spec.MaxUnavailable, "max-unavailable", "`limit` of replicas that may be missing during the update, such as 0 or 25% (default 1)")
	program.Number(flags, &spec.Partition, "partition", 0, 0, math.MaxInt, "lowest `index` that is updated")
	program.Number(flags, &spec.MinAvailable, "min-available", 0, 0, mostDrawn, "`size` of the base gang, which becomes ready before all others; 0 for none")
	program.Choice(flags, &spec.Order, "order", surge.Ascending, "which of several equal replicas is updated first", surge.Ascending, surge.Descending)
	flags.BoolVar(&spec.Force, "force", false, "replace all unavailable old replicas at once")
	file := flags.String("f", "", "`file` with a Grove PodCliqueSet to update instead of a flat set")
	w := &world{target: 2, faults: map[string]bool{}, fired: map[string]bool{}}
	program.Time(flags, &w.ready, "ready", 20*time.Second, 24*time.Hour, "how long a created replica takes to become available, as a `duration`")
	program.Time(flags, &w.gone, "gone", 10*time.Second, 24*time.Hour, "how long a deleted replica takes to vanish, as a `duration`")
	flags.Func("inject", "what goes wrong, as a `list` separated by commas: stuck-surge (a surge never becomes ready), new-revision, scale-down "+
		"(both once the first replica is updated), fail (the first updated replica fails and recovers), broken (the new revision never becomes ready), "+
		"hang (the first deletion takes ten times as long), remove (the last replica is evicted)", w.inject)
	unblock := flags.Bool("unblock", false, "give the surge up when the update of a flat set waits for it: set maxSurge to 0, and maxUnavailable to what is then needed")
	if err := program.Parse(flags, args, out, builtin, "surge plays a rolling update over numbered replicas on a virtual clock, and draws what is planned at each step and why.",
		"a file is named with -f"); err != nil {
		return err
	}
	if *file == "" {
		if err := spec.Validate(); err != nil {
			return program.Flags(err, flagOf...)
		}
		if spec.MaxSurge.Value() == 0 && *unblock {
			return program.Wrong("-unblock", "gives a surge up, and there is none: allow one with -max-surge")
		}
		if spec.MaxSurge.Value() == 0 && w.faults["stuck-surge"] {
			return program.Wrong("-inject", "stuck-surge: there is no surge: allow one with -max-surge")
		}
		w.planner = &flatSet{spec: spec, unblock: *unblock}
	} else {
		set, warnings, err := load(*file, flags)
		if err != nil {
			return err
		}
		w.planner = &podCliqueSet{spec: set}
		if w.faults["stuck-surge"] && !surges(set) {
			return program.Wrong("-inject", "stuck-surge: there is no surge: allow one with maxSurge in %s", *file)
		}
		for _, warning := range warnings {
			fmt.Fprintf(out, "warning: %s\n", warning)
		}
	}
	w.fill()
	return w.play(out)
}

// flagOf are the fields of a flat set, each before the flag that sets it.
var flagOf = []string{"replicas", "-replicas", "maxSurge", "-max-surge", "maxUnavailable", "-max-unavailable", "minAvailable", "-min-available"}

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

// fieldOf says where a document has what a flag says of a flat set.
var fieldOf = map[string]string{
	"replicas": "spec.replicas", "partition": "spec.partition", "min-available": "the minAvailable of a clique or scaling group",
	"max-surge": "the maxSurge of an updateStrategy", "max-unavailable": "the maxUnavailable of an updateStrategy",
}

// load reads a PodCliqueSet. The flags of a flat set have no meaning beside it, and what has no
// meaning is not ignored.
func load(file string, flags *flag.FlagSet) (surge.SetSpec, []surge.Warning, error) {
	var stray []error
	flags.Visit(func(f *flag.Flag) {
		switch field, ok := fieldOf[f.Name]; {
		case f.Name == "f" || f.Name == "ready" || f.Name == "gone" || f.Name == "inject":
		case ok:
			stray = append(stray, program.Wrong("-"+f.Name, "is for a flat set: leave it out, and write %s into the file of -f", field))
		default:
			stray = append(stray, program.Wrong("-"+f.Name, "is for a flat set, and the file of -f cannot say it: leave it out"))
		}
	})
	if len(stray) > 0 {
		return surge.SetSpec{}, nil, errors.Join(stray...)
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

// surges reports whether a set may have a surge on any of its levels.
func surges(set surge.SetSpec) bool {
	return set.Flat().Resolve().Surge > 0 || slices.ContainsFunc(set.Components, func(c surge.Component) bool { return c.Flat().Resolve().Surge > 0 })
}
