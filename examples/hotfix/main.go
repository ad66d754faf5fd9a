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
	scopeErrors             string
	why                     *question
	all, json               bool
}

func parse(args []string, out io.Writer) (options, error) {
	var o options
	var why string
	flags := flag.NewFlagSet("hotfix", flag.ContinueOnError)
	flags.StringVar(&o.policy, "policy", "", "`file` with one policy or a list of them (default: a promotion from staging to production)")
	flags.StringVar(&o.fleet, "fleet", "", "`file` with deployments, environments and clusters (default: ten clusters in three regions)")
	flags.StringVar(&o.releases, "releases", "", "`file` with versions, approvals, overrides and durations (default: three releases)")
	flags.BoolVar(&o.typo, "typo", false, "play a hotfix whose targetSelector does not compile, unless -releases says otherwise")
	flags.BoolVar(&o.unchecked, "unchecked", false, "play versions whose targetSelector does not compile, as if nobody had checked them when they were published")
	flags.StringVar(&o.scopeErrors, "scope-errors", string(rollout.ScopeExclude), "`exclude|include`: a version whose targetSelector does not compile reaches nobody, or everybody")
	flags.StringVar(&why, "why", "", "`cluster@instant` to explain instead of what the releases file asks, such as us-1@2026-03-10T18:15:00Z")
	flags.BoolVar(&o.all, "all", false, "tell every event and every wait in full")
	flags.BoolVar(&o.json, "json", false, "print everything as JSON")
	if err := program.Parse(flags, args, out, "hotfix plays releases with scopes on a virtual clock: what starts where, and what a rollout under a policy waits for.",
		"files are named with -policy, -fleet and -releases"); err != nil {
		return o, err
	}
	if s := rollout.ScopeErrors(o.scopeErrors); s != rollout.ScopeExclude && s != rollout.ScopeInclude {
		return o, program.Wrong("-scope-errors", "%q is unknown: use %s or %s", o.scopeErrors, rollout.ScopeExclude, rollout.ScopeInclude)
	}
	if why != "" {
		resource, instant, _ := strings.Cut(why, "@")
		at, err := time.Parse(time.RFC3339, instant)
		if err != nil || resource == "" {
			return o, program.Wrong("-why", "%q: write a cluster and an instant, such as us-1@2026-03-10T18:15:00Z", why)
		}
		o.why = &question{Resource: resource, At: at}
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
