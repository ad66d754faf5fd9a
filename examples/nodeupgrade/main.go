// Command nodeupgrade upgrades the nodes of a cluster on a virtual clock and explains every
// decision. It plays the example of the deployment bracket RFC, with the policy as printed there.
//
//	go run ./examples/nodeupgrade                                     # ten nodes, three releases, one drain per node
//	go run ./examples/nodeupgrade -partial                            # only one of the three gets a release
//	go run ./examples/nodeupgrade -overlap queue                      # a second wave of releases, and the node drains again
//	go run ./examples/nodeupgrade -overlap merge                      # … or joins the execution that is open
//	go run ./examples/nodeupgrade -fail kubelet-upgrade               # without a retry rule the node stays drained
//	go run ./examples/nodeupgrade -fail kubelet-upgrade -operator 20m # … until an operator has it tried again
//	go run ./examples/nodeupgrade -fail kubelet-upgrade -policy examples/nodeupgrade/policy-retry.yaml
//	go run ./examples/nodeupgrade -releases releases-freeze.json      # an incident stops it for half an hour, and one node is kept out for longer
//	go run ./examples/nodeupgrade -releases releases-urgent.json      # a security fix does not wait for the end of the window: an operator closes it
//	go run ./examples/nodeupgrade -releases releases-outage.json      # half of the nodes look down, and two of them start: the limit does not hold them
//	go run ./examples/nodeupgrade -releases releases-outage.json -policy policy-halt.yaml # … unless the pool halts meanwhile
//	go run ./examples/nodeupgrade -forecast 200                       # when will it be done, with durations drawn from past jobs
//	go run ./examples/nodeupgrade -forecast 200 -fail kubelet-upgrade # … if these jobs fail there in every trial; they take as long as the releases file says
//	go run ./examples/nodeupgrade -faults                             # what becomes of it if a job fails or hangs, whichever that is
//	go run ./examples/nodeupgrade -every 5m                           # what a planner loses that polls
//
// It reads policy.json, fleet.json and releases.json of this folder; -policy, -fleet and -releases
// name other files, in JSON or YAML. Nothing is deployed. If a file or a flag is wrong, it reports
// every fault and exits with 2.
//
// policy.json is the RFC's own text, so its rules have no id and its bracket has no memberRoles. A
// policy of your own should have both: ids are what stored state and overrides hold on to, and
// roles say that a drain is a hook, and not an upgrade of its own. PolicySet.Lint, which
// examples/explain runs on every policy, warns of what is missing here: rule_id_missing for each of
// the rules, bracket_roles_derived, and hold_without_retry, which -fail shows.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math"
	"time"
	_ "time/tzdata" // policies name zones, and not every machine has them

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/examples/internal/program"
	"github.com/tranche-dev/tranche/rollout"
	"github.com/tranche-dev/tranche/rollout/rollouttest"
	"github.com/tranche-dev/tranche/selector"
)

func main() { program.Main(run) }

// options are the flags.
type options struct {
	policy, fleet, releases string
	partial                 bool
	overlap                 bracket.OverlapStrategy
	fail, failOn            string
	failAttempts            int
	resource                string
	forecast                int
	seed                    uint64
	every, operator         time.Duration
	faults                  bool
	all, json               bool
}

func parse(args []string, out io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("nodeupgrade", flag.ContinueOnError)
	flags.StringVar(&o.policy, "policy", "", "`file` with one policy or a list of them (default: policy.json, the RFC's)")
	flags.StringVar(&o.fleet, "fleet", "", "`file` with deployments and clusters (default: fleet.json, ten nodes)")
	flags.StringVar(&o.releases, "releases", "", "`file` with versions, durations, outages, freezes and commands (default: releases.json, three of them)")
	flags.BoolVar(&o.partial, "partial", false, "play releases-partial.json, where only the kubelet gets a release")
	program.Choice(flags, &o.overlap, "overlap", "", "play releases-overlap.json, unless -releases names others, and say what becomes of releases while earlier ones are carried out", bracket.Queue, bracket.Merge)
	flags.StringVar(&o.fail, "fail", "", "`deployment` whose jobs fail on one node")
	flags.StringVar(&o.failOn, "fail-on", "", "`resource` on which they fail (default: the one that is traced)")
	program.Number(flags, &o.failAttempts, "fail-attempts", 2, 1, math.MaxInt32, "`number` of attempts that fail there")
	flags.StringVar(&o.resource, "resource", "", "`resource` to trace (default: the one that the releases file names)")
	program.Number(flags, &o.forecast, "forecast", 0, 0, 100_000, "`number` of trials with durations drawn from the samples of the releases file, but for the deployment of -fail, which fails in each of them; 0 for no forecast")
	flags.Uint64Var(&o.seed, "seed", 1, "`seed` of the forecast")
	program.Time(flags, &o.every, "every", 0, program.Longest, "let the planner poll, and look once every `duration`; 0 for whenever anything happens")
	program.Time(flags, &o.operator, "operator", 0, program.Longest, "let an operator retry what holds an execution, a `duration` after it failed; 0 for nobody who does")
	flags.BoolVar(&o.faults, "faults", false, "say what becomes of the rollout if one job fails or hangs, whichever it is")
	flags.BoolVar(&o.all, "all", false, "trace every resource")
	flags.BoolVar(&o.json, "json", false, "print the timeline, and the forecast and the faults if they are asked for, as JSON")
	if err := program.Parse(flags, args, out, builtin, "nodeupgrade plays the upgrade of the nodes of a cluster on a virtual clock, and explains every decision.",
		"files are named with -policy, -fleet and -releases"); err != nil {
		return o, err
	}
	given := map[string]bool{} // what would have no effect is not ignored
	flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	switch {
	case o.overlap != "" && o.partial:
		return o, program.Wrong("-overlap", "has releases of its own, and so has -partial: use one of them")
	case o.releases != "" && o.partial:
		return o, program.Wrong("-partial", "has releases of its own, and -releases names others: use one of them")
	case o.fail == "" && given["fail-on"]:
		return o, program.Wrong("-fail-on", "says where jobs fail: say with -fail which ones")
	case o.fail == "" && given["fail-attempts"]:
		return o, program.Wrong("-fail-attempts", "says how often jobs fail: say with -fail which ones")
	case o.forecast == 0 && given["seed"]:
		return o, program.Wrong("-seed", "is that of a forecast: ask for one with -forecast")
	case o.all && given["resource"] && o.fail == "":
		return o, program.Wrong("-resource", "says whom to trace, and -all traces everybody: use one of them")
	}
	return o, nil
}

func run(args []string, out io.Writer) error {
	o, err := parse(args, out)
	if err != nil {
		return err
	}
	policies, err := readPolicies(o)
	if err != nil {
		return err
	}
	fleet, releases, err := readWorld(o)
	if err != nil {
		return err
	}
	world, err := assemble(o, policies.set, fleet, releases)
	if err != nil {
		return err
	}
	// The files of fleet and releases have been checked, so a fault is what the policies make of them.
	if err := policies.set.Check(world.Fleet); err != nil {
		return &program.InputError{Source: policies.name, Err: err}
	}
	ctx := context.Background()
	timeline, err := world.Run(ctx)
	if err != nil {
		return err
	}
	var prediction *rollouttest.Prediction
	if o.forecast > 0 {
		samples := releases.outcomes()
		delete(samples, o.fail) // a deployment without samples follows world.Job, which lets it fail
		p, err := rollouttest.Forecast(ctx, world, rollouttest.Samples{Jobs: samples}, o.forecast, o.seed)
		if err != nil {
			return err
		}
		prediction = &p
	}
	var exploration *rollouttest.Exploration
	if o.faults {
		world.Trust = true // the world without them has been checked
		e, err := rollouttest.Explore(ctx, world, nil, 1)
		if err != nil {
			return err
		}
		exploration = &e
	}
	trace := o.traced(releases)
	if o.all {
		trace = ""
	}
	found := struct {
		Timeline rollouttest.Timeline     `json:"timeline"`
		Forecast *rollouttest.Prediction  `json:"forecast,omitempty"`
		Faults   *rollouttest.Exploration `json:"faults,omitempty"`
	}{timeline, prediction, exploration}
	return program.Print(out, o.json, found, func() string {
		text := report(policies.list, world.Fleet, timeline, trace)
		if prediction != nil {
			text += fmt.Sprintf("\nforecast with durations of past jobs: %s\n", prediction)
		}
		if exploration != nil {
			text += fmt.Sprintf("\nif a job fails or hangs: %s\n", exploration)
		}
		return text
	})
}

// policies are a policy file, as read and as compiled.
type policies struct {
	name string // of the file
	list []rollout.Policy
	set  *rollout.PolicySet
}

func readPolicies(o options) (policies, error) {
	name, data, err := program.ReadPolicies(builtin, o.policy, "policy.json")
	if err != nil {
		return policies{}, err
	}
	env, err := selector.NewEnv(selector.DefaultSchema(), selector.Limits{})
	if err != nil {
		return policies{}, err
	}
	zones := rollout.WithZones(time.LoadLocation)
	set, err := rollout.Load(data, env, zones)
	if err != nil {
		return policies{}, &program.InputError{Source: name, Err: err}
	}
	list := set.Policies()
	if o.overlap == "" {
		return policies{name, list, set}, nil
	}
	if !overlap(list, o.overlap) {
		return policies{}, program.Wrong("-overlap", "%s has no deploymentBracket rule that it could change: leave it out", name)
	}
	if set, err = rollout.Compile(list, env, zones); err != nil {
		return policies{}, &program.InputError{Source: "-overlap", Err: err}
	}
	return policies{name, list, set}, nil
}

// overlap changes the overlap strategy of every bracket, and says whether there is one. A merge
// relies on the node staying drained.
func overlap(list []rollout.Policy, strategy bracket.OverlapStrategy) bool {
	found := false
	for _, policy := range list {
		for _, rule := range policy.Rules {
			if b := rule.DeploymentBracket; b != nil {
				found = true
				b.OverlapStrategy = strategy
				if strategy == bracket.Merge {
					b.PreparedStatePersists = true
				} else {
					b.MaxMerges = nil
				}
			}
		}
	}
	return found
}

// assemble makes the world that the files and flags describe.
func assemble(o options, set *rollout.PolicySet, fleet fleet, releases releases) (rollouttest.World, error) {
	world := rollouttest.World{Policies: set, Fleet: fleet.snapshot(), Start: releases.Start, Every: o.every}
	for _, v := range releases.Versions {
		world.Fleet.Versions = append(world.Fleet.Versions, rollout.Version{
			ID: v.ID, Name: v.ID, Tag: v.ID, Deployment: v.Deployment, Status: rollout.VersionReady, CreatedAt: v.PublishedAt,
		})
	}
	world.Fleet.Freezes, world.Fleet.Commands = releases.Freezes, releases.Commands
	for _, outage := range releases.Outages {
		world.Changes = append(world.Changes, outage.changes()...)
	}
	traced := o.traced(releases)
	failOn := o.failOn
	if failOn == "" {
		failOn = traced
	}
	for _, named := range []struct{ flag, resource string }{{"-resource", traced}, {"-fail-on", failOn}} {
		if !fleet.has(named.resource) {
			return world, program.Wrong(named.flag, "the fleet has no resource %q: %s", named.resource, program.Among(fleet.resources()))
		}
	}
	if o.fail != "" && !fleet.deploys(o.fail) {
		return world, program.Wrong("-fail", "the fleet has no deployment %q: %s", o.fail, program.Among(fleet.deployments()))
	}
	durations := releases.durations()
	world.Job = func(start rollout.Start, attempt int) rollouttest.Outcome {
		outcome := rollouttest.Outcome{After: durations[start.Deployment]}
		if start.Deployment == o.fail && start.Resource == failOn && start.Purpose == rollout.PurposeDeploy && attempt <= o.failAttempts {
			outcome.Status = rollout.JobFailure
		}
		return outcome
	}
	if o.operator > 0 {
		world.Operator = rollouttest.RetryAfter(o.operator, math.MaxInt)
	}
	return world, nil
}

func (o options) traced(r releases) string {
	if o.resource != "" {
		return o.resource
	}
	return r.Trace
}
