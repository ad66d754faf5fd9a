// Command replay reads a log of decisions, as a host keeps it, and decides again. With the policies
// that were in force, it shows whether this version of the library makes the same plans. With other
// policies, it shows what these would have decided in the same situations.
//
//	go run ./examples/replay                                         # is every plan of the log the same again?
//	go run ./examples/replay -policy office-hours.yaml               # what would other policies have said?
//	go run ./examples/replay -log mine.jsonl -policy mine.yaml       # a log and policies of your own
//	go run ./examples/replay -record                                 # make a log: play a day and write it
//	go run ./examples/replay -record -policy office-hours.yaml       # … and the same day under other policies
//
// A log has one rollout.Recording per line, in JSON. A host writes it from
// rollout.Planner.Recorder, or from the arguments and results of PolicySet.Plan. A log whose
// recordings leave out their policies needs -policy. The default log, policies and fleet are in
// this folder; policies are YAML or JSON. If a file or a flag is wrong, the program reports every
// fault and exits with 2.
package main

import (
	"context"
	"embed"
	"flag"
	"io"
	_ "time/tzdata" // policies name zones, and not every machine has them

	"github.com/tranche-dev/tranche/examples/internal/program"
)

//go:embed decisions.jsonl policy.yaml office-hours.yaml fleet.yaml
var builtin embed.FS

func main() { program.Main(run) }

// options are the flags.
type options struct {
	log, policy, fleet string
	record, json       bool
}

func parse(args []string, out io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("replay", flag.ContinueOnError)
	flags.StringVar(&o.log, "log", "", "`file` with one recording per line (default: decisions.jsonl, a day of four clusters)")
	flags.StringVar(&o.policy, "policy", "", "`file` with the policies to decide with, one or a list of them (default: those of each recording, or policy.yaml with -record)")
	flags.StringVar(&o.fleet, "fleet", "", "with -record, the `file` of the day that is played (default: fleet.yaml, that of decisions.jsonl)")
	flags.BoolVar(&o.record, "record", false, "play a day on a virtual clock and print its log")
	flags.BoolVar(&o.json, "json", false, "print everything as JSON")
	if err := program.Parse(flags, args, out, builtin, "replay reads a log of decisions and decides again, under the recorded policies or others, to show what would be different.",
		"files are named with -log, -policy and -fleet"); err != nil {
		return o, err
	}
	switch {
	case o.record && o.log != "":
		return o, program.Wrong("-log", "%q: with -record a log is written and none is read", o.log)
	case o.record && o.json:
		return o, program.Wrong("-json", "with -record it is JSON anyway")
	case !o.record && o.fleet != "":
		return o, program.Wrong("-fleet", "%q: only with -record, a log has its fleets in it", o.fleet)
	}
	return o, nil
}

func run(args []string, out io.Writer) error {
	o, err := parse(args, out)
	if err != nil {
		return err
	}
	if o.record {
		text, err := record(context.Background(), o)
		if err == nil {
			_, err = io.WriteString(out, text)
		}
		return err
	}
	told, err := replay(o)
	if err != nil {
		return err
	}
	return program.Print(out, o.json, told, told.String)
}
