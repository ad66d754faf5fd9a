// Command explain answers the question that a deployment tool is asked most: why does this target
// not get the version? It reads a policy and a snapshot, and prints the verdict of every rule, who
// can lift what blocks a target, and what in the policies can never work.
//
//	go run ./examples/explain                                         # all targets: which start, which wait, and for what
//	go run ./examples/explain -target eu-2/production/web             # one target: every version and every rule, and who can unblock it
//	go run ./examples/explain -before examples/explain/before.yaml    # what has changed since another snapshot
//	go run ./examples/explain -now 2026-03-14T02:00:00Z               # what the answers would be at another instant
//	go run ./examples/explain -policy mine.yaml -snapshot mine.json -before-policy old.yaml   # what an edited policy changes
//
// It reads policy.yaml and snapshot.yaml of this folder; -policy and -snapshot name other files, in
// YAML or JSON. A snapshot is a rollout.Snapshot. If a file or a flag is wrong, it reports every
// fault and exits with 2.
package main

import (
	"flag"
	"fmt"
	"io"
	"time"
	_ "time/tzdata" // policies name zones, and not every machine has them

	"github.com/tranche-dev/tranche/examples/internal/program"
)

func main() {
	program.Main(func(args []string, out io.Writer) error { return run(args, time.Now(), out) })
}

// options are the flags.
type options struct {
	policy, snapshot     string
	now                  time.Time
	target               string
	before, beforePolicy string
	beforeNow            time.Time
	compare              bool
	horizon              time.Duration // of lint
	json                 bool
}

// observed is the instant of the snapshot of this folder.
var observed = time.Date(2026, 3, 11, 11, 0, 0, 0, time.UTC)

func parse(args []string, present time.Time, out io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("explain", flag.ContinueOnError)
	instant := func(into *time.Time, name, usage string) {
		flags.Func(name, usage, func(text string) (err error) {
			if *into, err = time.Parse(time.RFC3339, text); err != nil {
				return fmt.Errorf("%q: is not an instant: write one such as 2026-03-11T11:00:00Z", text)
			}
			if year := into.Year(); year < program.FirstYear || year > program.LastYear {
				return fmt.Errorf("%q: must lie in the years %d to %d", text, program.FirstYear, program.LastYear)
			}
			return nil
		})
	}
	flags.StringVar(&o.policy, "policy", "", "`file` with one policy or a list of them (default: policy.yaml, six small ones)")
	flags.StringVar(&o.snapshot, "snapshot", "", "`file` with a snapshot (default: snapshot.yaml, on which most rules have something to say)")
	instant(&o.now, "now", "`instant` of the plan, such as 2026-03-11T11:00:00Z (default: the present, or without -snapshot that of snapshot.yaml)")
	flags.StringVar(&o.target, "target", "", "`resource/environment/deployment` to explain (default: a summary of all)")
	flags.StringVar(&o.before, "before", "", "`file` with an earlier snapshot: print what the plan says differently since (default: the same one)")
	flags.StringVar(&o.beforePolicy, "before-policy", "", "`file` with the policies before: print what the edit changes (default: the same ones)")
	instant(&o.beforeNow, "before-now", "`instant` of the plan before, no later than -now (default: the same)")
	program.Time(flags, &o.horizon, "horizon", 90*24*time.Hour, 5*365*24*time.Hour, "how far ahead windows are looked at for findings, as a `duration`")
	flags.BoolVar(&o.json, "json", false, "print everything as JSON")
	if err := program.Parse(flags, args, out, builtin, "explain says why a target does not get a version: what every rule says about it, and who can open what is shut.",
		"files are named with -policy and -snapshot, a target with -target"); err != nil {
		return o, err
	}
	o.compare = o.before != "" || o.beforePolicy != "" || !o.beforeNow.IsZero()
	if o.snapshot == "" {
		present = observed
	}
	if o.now.IsZero() {
		o.now = present
	}
	if o.beforeNow.IsZero() {
		o.beforeNow = o.now
	}
	if o.beforeNow.After(o.now) { // what is different would be told backwards
		return o, program.Wrong("-before-now", "%s is later than -now, which is %s: give an earlier instant, or a later one with -now", o.beforeNow.Format(time.RFC3339Nano), o.now.Format(time.RFC3339Nano))
	}
	return o, nil
}

func run(args []string, present time.Time, out io.Writer) error {
	o, err := parse(args, present, out)
	if err != nil {
		return err
	}
	a, err := find(o)
	if err != nil {
		return err
	}
	return program.Print(out, o.json, a, a.String)
}
