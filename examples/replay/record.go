package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/clock"
	"github.com/tranche-dev/tranche/examples/internal/program"
	"github.com/tranche-dev/tranche/rollout"
	"github.com/tranche-dev/tranche/rollout/rollouttest"
	"github.com/tranche-dev/tranche/selector"
)

// day is a fleet file: what exists, what happens, and how long jobs take.
type day struct {
	Start     time.Time                   `json:"start"`
	End       time.Time                   `json:"end"`
	Fleet     rollout.Snapshot            `json:"fleet"`
	Durations map[string]program.Duration `json:"durations"` // by deployment
	Failures  []failure                   `json:"failures,omitempty"`
}

// failure is a version of which the first job on a cluster fails.
type failure struct {
	Resource   string `json:"resource"`
	Deployment string `json:"deployment"`
	Version    string `json:"version"`
}

func (d *day) validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if err := program.Start(d.Start); err != nil {
		faults = append(faults, err)
	}
	if !d.End.After(d.Start) || d.End.Sub(d.Start) > program.Longest {
		fault("end: must be later than start, by at most %s", program.Short(program.Longest))
	}
	if len(d.Fleet.Targets) == 0 {
		fault("fleet.targets: at least one is needed: there is nothing to play")
	}
	known := map[string]bool{}
	for _, deployment := range d.Fleet.Deployments {
		known[deployment.ID] = true
		if d.Durations[deployment.ID] == 0 {
			fault("durations.%s: is required, such as 6m", deployment.ID)
		}
	}
	for _, deployment := range slices.Sorted(maps.Keys(d.Durations)) {
		if !known[deployment] {
			fault("durations.%s: the fleet has no such deployment", deployment)
		}
	}
	for i, f := range d.Failures {
		if !slices.ContainsFunc(d.Fleet.Targets, func(t rollout.Target) bool { return t.Resource == f.Resource && t.Deployment == f.Deployment }) {
			fault("failures[%d]: %s does not run %s", i, f.Resource, f.Deployment)
		} else if !slices.ContainsFunc(d.Fleet.Versions, func(v rollout.Version) bool { return v.Deployment == f.Deployment && v.ID == f.Version }) {
			fault("failures[%d].version: %s has no version %q", i, f.Deployment, f.Version)
		}
	}
	return errors.Join(faults...)
}

// record plays a day and returns its log. The recorder of the planner is all that a host adds to
// keep one.
func record(ctx context.Context, o options) (string, error) {
	var d day
	file, err := program.Decode(builtin, o.fleet, "fleet.yaml", &d)
	if err != nil {
		return "", err
	}
	if err := d.validate(); err != nil {
		return "", &program.InputError{Source: file, Err: err}
	}
	set, policyFile, err := policies(o.policy)
	if err != nil {
		return "", err
	}
	if err := set.Check(d.Fleet); err != nil {
		return "", &program.InputError{Source: program.Blame(err, policyFile, file), Err: program.Below("fleet", err)}
	}

	var log bytes.Buffer
	lines := json.NewEncoder(&log)
	fake := clock.NewFake(d.Start)
	var failed error
	planner := rollout.Planner{
		Policies: set, Clock: fake, Store: &bracket.MemoryStore{},
		Recorder: func(r rollout.Recording) {
			r.Policies = set.Policies()
			failed = errors.Join(failed, lines.Encode(r))
		},
	}
	world := rollouttest.World{
		Policies: set, Fleet: d.Fleet, Start: d.Start, End: d.End, Job: d.outcome,
		Plan: func(ctx context.Context, snapshot rollout.Snapshot, now time.Time) (rollout.Plan, error) {
			fake.Set(now)
			return planner.Plan(ctx, snapshot)
		},
		Trust: true, // to check a plan the world makes others, which nobody decided
	}
	if _, err := world.Run(ctx); err != nil {
		return "", err
	}
	return log.String(), failed
}

func (d *day) outcome(start rollout.Start, attempt int) rollouttest.Outcome {
	outcome := rollouttest.Outcome{After: time.Duration(d.Durations[start.Deployment])}
	if attempt == 1 && slices.Contains(d.Failures, failure{start.Resource, start.Deployment, start.Version}) {
		outcome.Status = rollout.JobFailure
	}
	return outcome
}

// policies reads a policy file, and returns its name as well.
func policies(named string) (*rollout.PolicySet, string, error) {
	file, data, err := program.ReadPolicies(builtin, named, "policy.yaml")
	if err != nil {
		return nil, file, err
	}
	env, err := selector.NewEnv(selector.DefaultSchema(), selector.Limits{})
	if err != nil {
		return nil, file, err
	}
	set, err := rollout.Load(data, env, rollout.WithZones(time.LoadLocation))
	if err != nil {
		return nil, file, &program.InputError{Source: file, Err: err}
	}
	return set, file, nil
}

// compile compiles the policies of a recording. Faults have their paths in it.
func compile(list []rollout.Policy) (*rollout.PolicySet, error) {
	env, err := selector.NewEnv(selector.DefaultSchema(), selector.Limits{})
	if err != nil {
		return nil, err
	}
	set, err := rollout.Compile(list, env, rollout.WithZones(time.LoadLocation))
	if err != nil && len(list) == 1 { // Compile calls the fields of one policy as if it stood alone
		return nil, program.Below("policies[0]", err)
	}
	return set, program.Below("policies", err)
}
