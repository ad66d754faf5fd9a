// Command hotfix plays the three examples of the scoped versions RFC on a virtual clock, under an
// ordinary promotion policy. A release for all targets goes from staging to production, a hotfix
// reaches only one region, and a config change reaches only one environment.
//
//	go run ./examples/hotfix                                           # three days, and why targets wait at three moments of them
//	go run ./examples/hotfix -all                                      # … with every event and every wait in full
//	go run ./examples/hotfix -why eu-1@2026-03-09T12:00:00Z            # … or why, at a moment of your own
//	go run ./examples/hotfix -typo                                     # the hotfix's targetSelector does not compile: it reaches no target
//	go run ./examples/hotfix -typo -scope-errors include               # … as the RFC proposes: it reaches every target
//	go run ./examples/hotfix -releases mine.yaml                       # your own releases, approvals and overrides
//
// It reads policy.yaml, fleet.yaml and releases.yaml of this folder; -policy, -fleet and -releases
// name other files, in YAML or JSON. Nothing is deployed. If a file or a flag is wrong, it reports
// every fault and exits with 2.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"
	_ "time/tzdata" // policies name zones, and not every machine has them

	"github.com/tranche-dev/tranche/examples/internal/program"
	"github.com/tranche-dev/tranche/rollout"
)

func main() { program.Main(run) }

// options are the flags.
type options struct {
	policy, fleet, releases string
	typo, unchecked         bool
	scopeErrors             rollout.ScopeErrors
	why                     *question
	all, json               bool
}

func parse(args []string, out io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("hotfix", flag.ContinueOnError)
	flags.StringVar(&o.policy, "policy", "", "`file` with one policy or a list of them (default: policy.yaml, a promotion from staging to production)")
	flags.StringVar(&o.fleet, "fleet", "", "`file` with deployments, environments and clusters (default: fleet.yaml, ten clusters in three regions)")
	flags.StringVar(&o.releases, "releases", "", "`file` with versions, approvals, overrides and durations (default: releases.yaml, three of them)")
	flags.BoolVar(&o.typo, "typo", false, "play releases-typo.yaml, where the targetSelector of the hotfix does not compile")
	flags.BoolVar(&o.unchecked, "unchecked", false, "play versions whose targetSelector does not compile, as if nobody had checked them when they were published")
	program.Choice(flags, &o.scopeErrors, "scope-errors", rollout.ScopeExclude, "whether a version whose targetSelector does not compile reaches nobody, or everybody", rollout.ScopeExclude, rollout.ScopeInclude)
	flags.Func("why", "`cluster@instant` to explain instead of what the releases file asks, such as us-1@2026-03-10T18:15:00Z", func(text string) error {
		at := strings.LastIndexByte(text, '@')
		if at < 1 {
			return fmt.Errorf("%q: write a cluster and an instant, such as us-1@2026-03-10T18:15:00Z", text)
		}
		instant, err := time.Parse(time.RFC3339, text[at+1:])
		if err != nil {
			return fmt.Errorf("%q: %q is no instant: write one such as in us-1@2026-03-10T18:15:00Z", text, text[at+1:])
		}
		o.why = &question{Resource: text[:at], At: instant}
		return nil
	})
	flags.BoolVar(&o.all, "all", false, "tell every event and every wait in full")
	flags.BoolVar(&o.json, "json", false, "print everything as JSON")
	if err := program.Parse(flags, args, out, builtin, "hotfix plays releases with scopes on a virtual clock: what starts where, and what a rollout under a policy waits for.",
		"files are named with -policy, -fleet and -releases"); err != nil {
		return o, err
	}
	if o.typo && o.releases != "" {
		return o, program.Wrong("-typo", "has releases of its own, and -releases names others: use -unchecked, which plays these as they are")
	}
	o.unchecked = o.unchecked || o.typo
	return o, nil
}

func run(args []string, out io.Writer) error {
	o, err := parse(args, out)
	if err != nil {
		return err
	}
	in, err := load(o)
	if err != nil {
		return err
	}
	told, err := play(context.Background(), in)
	if err != nil {
		return err
	}
	return program.Print(out, o.json, told, func() string { return report(in, told, o.all) })
}
