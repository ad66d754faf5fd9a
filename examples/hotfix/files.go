package main

import (
	"cmp"
	"embed"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/examples/internal/program"
	"github.com/tranche-dev/tranche/rollout"
	"github.com/tranche-dev/tranche/selector"
)

//go:embed policy.yaml fleet.yaml releases.yaml releases-typo.yaml
var builtin embed.FS

// fleet is a fleet file. Every cluster is in one environment; a cluster has a target for every deployment.
type fleet struct {
	Deployments  []rollout.Deployment  `json:"deployments"`
	Environments []rollout.Environment `json:"environments"`
	Clusters     []cluster             `json:"clusters"`
}

type cluster struct {
	rollout.Resource
	Environment string            `json:"environment"` // id
	Runs        map[string]string `json:"runs"`        // deployment → version at the start; one that is not listed was never deployed
}

// releases is a releases file: what happens, in the library's own JSON wherever it has one.
type releases struct {
	Start     time.Time                   `json:"start"` // of the virtual clock
	Versions  []rollout.Version           `json:"versions"`
	Approvals []rollout.Approval          `json:"approvals,omitempty"`
	Overrides []rollout.Override          `json:"overrides,omitempty"`
	Durations map[string]program.Duration `json:"durations"` // by deployment: how long a job takes
	Why       []question                  `json:"why,omitempty"`
}

// question asks why a cluster gets what it gets at an instant.
type question struct {
	Resource   string    `json:"resource"`
	Deployment string    `json:"deployment,omitempty"` // empty: the first one of the fleet
	At         time.Time `json:"at"`
}

// input is what the files say, checked.
type input struct {
	policies []rollout.Policy
	set      *rollout.PolicySet
	fleet    fleet
	releases releases
	refused  map[string]error // version → what is wrong with its targetSelector, where these are played nevertheless
}

func load(o options) (input, error) {
	var in input
	policyName, data, err := program.Read(builtin, o.policy, "policy.yaml")
	if err != nil {
		return in, err
	}
	if in.policies, err = rollout.ParsePolicies(data); err != nil {
		return in, &program.InputError{Source: policyName, Err: err}
	}
	env, err := selector.NewEnv(selector.DefaultSchema(), selector.Limits{})
	if err != nil {
		return in, err
	}
	in.set, err = rollout.Compile(in.policies, env, rollout.WithZones(time.LoadLocation), rollout.WithScopeErrors(rollout.ScopeErrors(o.scopeErrors)))
	if err != nil {
		return in, &program.InputError{Source: policyName, Err: err}
	}
	fleetName, err := program.Decode(builtin, o.fleet, "fleet.yaml", &in.fleet)
	if err != nil {
		return in, err
	}
	standard := "releases.yaml"
	if o.typo {
		standard = "releases-typo.yaml"
	}
	releasesName, err := program.Decode(builtin, o.releases, standard, &in.releases)
	if err != nil {
		return in, err
	}
	if o.why != nil {
		in.releases.Why = []question{*o.why}
	}
	return in, in.validate(o, policyName, fleetName, releasesName)
}

// validate reports every fault of the files, each under the name of its own. Those of a policy that can be seen without a fleet have been found before.
func (in *input) validate(o options, policyName, fleetName, releasesName string) error {
	var wrong struct{ policy, fleet, releases []error }
	inFleet := func(format string, args ...any) { wrong.fleet = append(wrong.fleet, fmt.Errorf(format, args...)) }
	inReleases := func(format string, args ...any) { wrong.releases = append(wrong.releases, fmt.Errorf(format, args...)) }

	// What the planner itself would refuse.
	if err := in.set.Check(in.snapshot()); err != nil {
		for _, fault := range flatten(err) {
			var path *rollout.FieldError
			switch {
			case errors.As(fault, &path) && slices.ContainsFunc([]string{"versions", "approvals", "overrides"}, func(list string) bool { return strings.HasPrefix(path.Path, list) }):
				inReleases("%w", fault)
			case errors.As(fault, &path) && strings.HasPrefix(path.Path, "resources"):
				inFleet("clusters: %s", strings.TrimPrefix(path.Error(), "resources: "))
			case errors.As(fault, &path) && strings.HasPrefix(path.Path, "targets"):
				// It follows from what is said about the lists below.
			case program.Blame(fault, policyName, fleetName) == policyName:
				wrong.policy = append(wrong.policy, fault)
			default:
				inFleet("%w", fault)
			}
		}
	}

	if len(in.fleet.Deployments) == 0 {
		inFleet("deployments: at least one is needed")
	}
	if len(in.fleet.Clusters) == 0 {
		inFleet("clusters: at least one is needed")
	}
	for i, c := range in.fleet.Clusters {
		if !slices.ContainsFunc(in.fleet.Environments, func(e rollout.Environment) bool { return e.ID == c.Environment }) {
			inFleet("clusters[%d].environment: %q is not the id of an environment", i, c.Environment)
		}
		for _, d := range slices.Sorted(maps.Keys(c.Runs)) {
			if !in.deploys(d) {
				inFleet("clusters[%d].runs.%s: there is no such deployment", i, d)
			} else if !in.has(d, c.Runs[d]) {
				inFleet("clusters[%d].runs.%s: %s has no version %q", i, d, releasesName, c.Runs[d])
			}
		}
	}

	if in.releases.Start.IsZero() {
		inReleases("start: is required: the instant at which the virtual clock starts")
	}
	in.refused = map[string]error{}
	for i, v := range in.releases.Versions {
		err := in.set.CheckVersion(v)
		for _, fault := range flatten(err) {
			var policy *rollout.FieldError
			switch {
			case !errors.As(fault, &policy) || policy.Path != "targetSelector":
				inReleases("versions[%d].%w", i, fault)
			case o.unchecked:
				in.refused[v.ID] = fault
			default:
				inReleases("versions[%d].%w (-unchecked plays it all the same)", i, fault)
			}
		}
	}
	for i, a := range in.releases.Approvals {
		at := fmt.Sprintf("approvals[%d]", i)
		if a.Deployment != "" && a.Version != "" && !in.has(a.Deployment, a.Version) {
			inReleases("%s.version: %q has no version %q", at, a.Deployment, a.Version)
		}
		if a.Environment != "" && !slices.ContainsFunc(in.fleet.Environments, func(e rollout.Environment) bool { return e.ID == a.Environment }) {
			inReleases("%s.environment: %s has no environment %q", at, fleetName, a.Environment)
		}
		if a.Status != rollout.Approved && a.Status != rollout.Rejected {
			inReleases("%s.status: %q is unknown: use %s or %s", at, a.Status, rollout.Approved, rollout.Rejected)
		}
		if a.At.IsZero() {
			inReleases("%s.at: is required: when", at)
		}
	}
	for _, d := range slices.Sorted(maps.Keys(in.releases.Durations)) {
		if !in.deploys(d) {
			inReleases("durations.%s: %s has no such deployment", d, fleetName)
		}
	}
	for _, d := range in.fleet.Deployments {
		if _, ok := in.releases.Durations[d.ID]; !ok {
			inReleases("durations.%s: is required", d.ID)
		}
	}
	for i, q := range in.releases.Why {
		path, fault := fmt.Sprintf("why[%d].", i), inReleases
		var flagged []error
		if o.why != nil {
			path = ""
			fault = func(format string, args ...any) { flagged = append(flagged, fmt.Errorf(format, args...)) }
		}
		if !slices.ContainsFunc(in.fleet.Clusters, func(c cluster) bool { return c.ID == q.Resource }) {
			fault("%sresource: %s has no cluster %q", path, fleetName, q.Resource)
		}
		if q.Deployment != "" && !in.deploys(q.Deployment) {
			fault("%sdeployment: %s has no deployment %q", path, fleetName, q.Deployment)
		}
		if q.At.Before(in.releases.Start) {
			fault("%sat: lies before the start, %s", path, in.releases.Start.Format(time.RFC3339))
		}
		if len(flagged) > 0 {
			return &program.InputError{Source: "-why", Err: errors.Join(flagged...)}
		}
	}
	var all []error
	if len(wrong.policy) > 0 {
		all = append(all, &program.InputError{Source: policyName, Err: errors.Join(wrong.policy...)})
	}
	if len(wrong.fleet) > 0 {
		all = append(all, &program.InputError{Source: fleetName, Err: errors.Join(wrong.fleet...)})
	}
	if len(wrong.releases) > 0 {
		all = append(all, &program.InputError{Source: releasesName, Err: errors.Join(wrong.releases...)})
	}
	return errors.Join(all...)
}

// flatten lists the single errors of a joined one.
func flatten(err error) []error {
	if err == nil {
		return nil
	}
	if list, ok := err.(interface{ Unwrap() []error }); ok {
		var all []error
		for _, one := range list.Unwrap() {
			all = append(all, flatten(one)...)
		}
		return all
	}
	return []error{err}
}

func (in *input) deploys(deployment string) bool {
	return slices.ContainsFunc(in.fleet.Deployments, func(d rollout.Deployment) bool { return d.ID == deployment })
}

func (in *input) has(deployment, version string) bool {
	return slices.ContainsFunc(in.releases.Versions, func(v rollout.Version) bool { return v.Deployment == deployment && v.ID == version })
}

// snapshot is everything that exists by the end.
func (in *input) snapshot() rollout.Snapshot {
	s := rollout.Snapshot{
		Environments: in.fleet.Environments, Deployments: in.fleet.Deployments, Versions: in.releases.Versions, Approvals: in.releases.Approvals, Overrides: in.releases.Overrides,
	}
	for _, c := range in.fleet.Clusters {
		s.Resources = append(s.Resources, c.Resource)
		for _, d := range in.fleet.Deployments {
			t := rollout.Target{TargetID: rollout.TargetID{Resource: c.ID, Environment: c.Environment, Deployment: d.ID}}
			// A job and not Target.Current: a policy with a rollback rule goes back to what succeeded before.
			for _, v := range in.releases.Versions {
				if v.Deployment == d.ID && v.ID == c.Runs[d.ID] {
					t.Jobs = []rollout.Job{{Run: "before the start", Version: v.ID, Status: rollout.JobSuccessful, CreatedAt: v.CreatedAt}}
				}
			}
			s.Targets = append(s.Targets, t)
		}
	}
	return s
}

// region is what clusters are grouped by where they are listed.
func (c cluster) region() string { return cmp.Or(c.Metadata["region"], "-") }
