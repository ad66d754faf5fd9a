// Command surge plays a rolling update over numbered replicas on a virtual clock and draws what package surge plans at each step,
// and why. Nothing is deployed and nothing waits: an update of hours is drawn at once.
//
//	go run ./examples/surge -replicas 3 -max-surge 1 -max-unavailable 0
//	go run ./examples/surge -replicas 3 -max-surge 1 -max-unavailable 0 -inject stuck-surge -unblock
//	go run ./examples/surge -f examples/surge/podcliqueset.yaml
//
// The first form updates one flat set, the second a Grove PodCliqueSet on its three levels. A line shows the time, what happened, the
// state it led to and the plan for it. In a state, the position is the index and the character what sits there:
//
//	. nothing   t terminating   O old, available   o old, not available   N new, available   n new, not available
//
// Components of a set replica are separated by a blank, set replicas by a bar.
package main

import (
	"embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/examples/internal/yamljson"
	"github.com/tranche-dev/tranche/surge"
)

func main() {
	err := run(os.Args[1:], os.Stdout)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("surge", flag.ContinueOnError)
	flags.SetOutput(out)
	var spec surge.Spec
	flags.IntVar(&spec.Replicas, "replicas", 3, "replicas of a flat set")
	limit := func(into *concurrency.Limit, name, usage string) {
		flags.Func(name, usage, func(text string) (err error) {
			*into, err = concurrency.ParseLimit(text)
			return err
		})
	}
	limit(&spec.MaxSurge, "max-surge", "replicas above that number during the update, such as 1 or 25% (default 0)")
	limit(&spec.MaxUnavailable, "max-unavailable", "base capacity that may be missing, such as 0 or 25% (default 1)")
	flags.IntVar(&spec.Partition, "partition", 0, "lowest index that is updated")
	flags.IntVar(&spec.MinAvailable, "min-available", 0, "size of the base gang, which becomes ready before all others")
	flags.StringVar((*string)(&spec.Order), "order", "ascending", "ascending or descending")
	flags.BoolVar(&spec.Force, "force", false, "replace all unavailable old replicas at once")
	file := flags.String("f", "", "update the Grove PodCliqueSet of this YAML file instead of a flat set")
	ready := flags.Duration("ready", 20*time.Second, "how long a created replica takes to become available")
	gone := flags.Duration("gone", 10*time.Second, "how long a deleted replica takes to vanish")
	inject := flags.String("inject", "", "what goes wrong, separated by commas: stuck-surge (a surge never becomes ready), new-revision, scale-down "+
		"(both once the first replica is updated), fail (the first updated replica fails and recovers), broken (the new revision never becomes ready), "+
		"hang (the first deletion takes ten times as long), remove (the last replica is evicted)")
	unblock := flags.Bool("unblock", false, "give the surge up when the update of a flat set is stuck: maxSurge 0 and maxUnavailable 1")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if *ready <= 0 || *gone <= 0 {
		return errors.New("-ready and -gone must be positive")
	}

	w := &world{ready: *ready, gone: *gone, target: 2}
	if err := w.inject(*inject); err != nil {
		return err
	}
	if *file == "" {
		if err := spec.Validate(); err != nil {
			return err
		}
		w.planner = &flatSet{spec: spec, unblock: *unblock}
	} else {
		set, err := load(*file, flags)
		if err != nil {
			return err
		}
		w.planner = &podCliqueSet{spec: set}
	}
	w.fill()
	return w.play(out)
}

// shipped are the documents beside this file, so that -f podcliqueset.yaml works from every folder.
//
//go:embed *.yaml
var shipped embed.FS

// load reads a PodCliqueSet. The flags of a flat set have no meaning beside it, and what has no meaning is not ignored.
func load(file string, flags *flag.FlagSet) (surge.SetSpec, error) {
	var stray []string
	flags.Visit(func(f *flag.Flag) {
		switch f.Name {
		case "f", "ready", "gone", "inject":
		default:
			stray = append(stray, "-"+f.Name)
		}
	})
	if len(stray) > 0 {
		return surge.SetSpec{}, fmt.Errorf("%s cannot be used with -f: write it into %s", strings.Join(stray, ", "), file)
	}
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		if own, ownErr := shipped.ReadFile(file); ownErr == nil {
			data, err = own, nil
		}
	}
	if err != nil {
		return surge.SetSpec{}, err
	}
	document, err := yamljson.Convert(data)
	if err != nil {
		return surge.SetSpec{}, fmt.Errorf("%s: %w", file, err)
	}
	spec, err := surge.ParsePodCliqueSet(document)
	if err != nil {
		return surge.SetSpec{}, fmt.Errorf("%s:\n%w", file, err)
	}
	return spec, nil
}
