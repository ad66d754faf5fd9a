package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/examples/internal/program"
	"github.com/tranche-dev/tranche/rollout"
)

// faults are what is wrong with the files, each under the name of its own.
type faults struct {
	names                   struct{ policy, fleet, releases string }
	policy, fleet, releases []error
}

func (f *faults) inFleet(format string, args ...any) {
	f.fleet = append(f.fleet, fmt.Errorf(format, args...))
}

func (f *faults) inReleases(format string, args ...any) {
	f.releases = append(f.releases, fmt.Errorf(format, args...))
}

func (f *faults) err() error {
	var all []error
	for _, file := range []struct {
		name   string
		faults []error
	}{{f.names.policy, f.policy}, {f.names.fleet, f.fleet}, {f.names.releases, f.releases}} {
		if len(file.faults) > 0 {
			all = append(all, &program.InputError{Source: file.name, Err: errors.Join(file.faults...)})
		}
	}
	return errors.Join(all...)
}

// validate reports every fault of the files. Those of a policy that can be seen without a fleet
// have been found before.
func (in *input) validate(o options, policyName, fleetName, releasesName string) error {
	var f faults
	f.names.policy, f.names.fleet, f.names.releases = policyName, fleetName, releasesName
	in.checkPlan(&f)
	in.checkFleet(&f)
	if in.releases.Start.IsZero() {
		f.inReleases("start: is required: the instant at which the virtual clock starts")
	}
	in.checkVersions(&f, o.unchecked)
	in.checkApprovals(&f)
	in.checkDurations(&f)
	if o.why != nil {
		if wrong := in.faultsOf(*o.why, fleetName); len(wrong) > 0 {
			return &program.InputError{Source: "-why", Err: errors.Join(wrong...)}
		}
		return f.err()
	}
	for i, q := range in.releases.Why {
		for _, wrong := range in.faultsOf(q, fleetName) {
			f.inReleases("why[%d].%w", i, wrong)
		}
	}
	return f.err()
}

// checkPlan finds what the planner itself would refuse.
func (in *input) checkPlan(f *faults) {
	for _, fault := range flatten(in.set.Check(in.snapshot())) {
		var path *rollout.FieldError
		about := func(lists ...string) bool {
			return errors.As(fault, &path) && slices.ContainsFunc(lists, func(list string) bool { return strings.HasPrefix(path.Path, list) })
		}
		switch {
		case about("versions", "approvals", "overrides"):
			f.inReleases("%w", fault)
		case about("resources"):
			f.inFleet("clusters: %s", strings.TrimPrefix(path.Error(), "resources: "))
		case about("targets"):
			// It follows from what is said about the lists that they are made of.
		case program.Blame(fault, f.names.policy, f.names.fleet) == f.names.policy:
			f.policy = append(f.policy, fault)
		default:
			f.inFleet("%w", fault)
		}
	}
}

func (in *input) checkFleet(f *faults) {
	if len(in.fleet.Deployments) == 0 {
		f.inFleet("deployments: at least one is needed")
	}
	if len(in.fleet.Clusters) == 0 {
		f.inFleet("clusters: at least one is needed")
	}
	for i, c := range in.fleet.Clusters {
		if !in.knows(c.Environment) {
			f.inFleet("clusters[%d].environment: %q is not the id of an environment", i, c.Environment)
		}
		for _, d := range slices.Sorted(maps.Keys(c.Runs)) {
			if !in.deploys(d) {
				f.inFleet("clusters[%d].runs.%s: there is no such deployment", i, d)
			} else if !in.has(d, c.Runs[d]) {
				f.inFleet("clusters[%d].runs.%s: %s has no version %q", i, d, f.names.releases, c.Runs[d])
			}
		}
	}
}

// checkVersions refuses versions that no fleet could have, but for a targetSelector that is to be
// played as it is.
func (in *input) checkVersions(f *faults, unchecked bool) {
	in.refused = map[string]error{}
	for i, v := range in.releases.Versions {
		for _, fault := range flatten(in.set.CheckVersion(v)) {
			var field *rollout.FieldError
			switch {
			case !errors.As(fault, &field) || field.Path != "targetSelector":
				f.inReleases("versions[%d].%w", i, fault)
			case unchecked:
				in.refused[v.ID] = fault
			default:
				f.inReleases("versions[%d].%w (-unchecked plays it all the same)", i, fault)
			}
		}
	}
}

func (in *input) checkApprovals(f *faults) {
	for i, a := range in.releases.Approvals {
		at := fmt.Sprintf("approvals[%d]", i)
		if a.Deployment != "" && a.Version != "" && !in.has(a.Deployment, a.Version) {
			f.inReleases("%s.version: %q has no version %q", at, a.Deployment, a.Version)
		}
		if a.Environment != "" && !in.knows(a.Environment) {
			f.inReleases("%s.environment: %s has no environment %q", at, f.names.fleet, a.Environment)
		}
		if a.Status != rollout.Approved && a.Status != rollout.Rejected {
			f.inReleases("%s.status: %q is unknown: use %s or %s", at, a.Status, rollout.Approved, rollout.Rejected)
		}
		if a.At.IsZero() {
			f.inReleases("%s.at: is required: when", at)
		}
	}
}

func (in *input) checkDurations(f *faults) {
	for _, d := range slices.Sorted(maps.Keys(in.releases.Durations)) {
		if !in.deploys(d) {
			f.inReleases("durations.%s: %s has no such deployment", d, f.names.fleet)
		}
	}
	for _, d := range in.fleet.Deployments {
		if _, ok := in.releases.Durations[d.ID]; !ok {
			f.inReleases("durations.%s: is required", d.ID)
		}
	}
}

// faultsOf are those of a question, with paths within it.
func (in *input) faultsOf(q question, fleetName string) []error {
	var wrong []error
	if !slices.ContainsFunc(in.fleet.Clusters, func(c cluster) bool { return c.ID == q.Resource }) {
		wrong = append(wrong, fmt.Errorf("resource: %s has no cluster %q", fleetName, q.Resource))
	}
	if q.Deployment != "" && !in.deploys(q.Deployment) {
		wrong = append(wrong, fmt.Errorf("deployment: %s has no deployment %q", fleetName, q.Deployment))
	}
	if q.At.Before(in.releases.Start) {
		wrong = append(wrong, fmt.Errorf("at: lies before the start, %s", in.releases.Start.Format(time.RFC3339)))
	}
	return wrong
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
