package main

import (
	"cmp"
	"embed"
	"slices"
	"time"

	"github.com/tranche-dev/tranche/examples/internal/program"
	"github.com/tranche-dev/tranche/rollout"
	"github.com/tranche-dev/tranche/selector"
)

//go:embed policy.yaml fleet.yaml releases.yaml releases-typo.yaml
var builtin embed.FS

// fleet is a fleet file. Every cluster is in one environment; a cluster has a target for every
// deployment.
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
	set      *rollout.PolicySet
	fleet    fleet
	releases releases
	refused  map[[2]string]error // deployment and version → what is wrong with its targetSelector, where these are played nevertheless
}

func load(o options) (input, error) {
	var in input
	policyName, data, err := program.ReadPolicies(builtin, o.policy, "policy.yaml")
	if err != nil {
		return in, err
	}
	env, err := selector.NewEnv(selector.DefaultSchema(), selector.Limits{})
	if err != nil {
		return in, err
	}
	in.set, err = rollout.Load(data, env, rollout.WithZones(time.LoadLocation), rollout.WithScopeErrors(o.scopeErrors))
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

func (f *fleet) clusters() (ids []string) {
	for _, c := range f.Clusters {
		ids = append(ids, c.ID)
	}
	return ids
}

func (f *fleet) deployments() (ids []string) {
	for _, d := range f.Deployments {
		ids = append(ids, d.ID)
	}
	return ids
}

func (f *fleet) environments() (ids []string) {
	for _, e := range f.Environments {
		ids = append(ids, e.ID)
	}
	return ids
}

func (in *input) deploys(deployment string) bool {
	return slices.Contains(in.fleet.deployments(), deployment)
}

func (in *input) knows(environment string) bool {
	return slices.Contains(in.fleet.environments(), environment)
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
			// A job and not Target.Current: a policy with a rollback rule goes back to what
			// succeeded before.
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
