package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/examples/internal/program"
	"github.com/tranche-dev/tranche/internal/strictjson"
	"github.com/tranche-dev/tranche/rollout"
)

// faults are what is wrong with the files, each under the name of its own.
type faults struct {
	names                   struct{ policy, fleet, releases string }
	policy, fleet, releases []error
	why, built              []error // of the flags -why and -fleet
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
	}{{f.names.policy, f.policy}, {f.names.fleet, f.fleet}, {f.names.releases, f.releases}, {"-why", f.why}, {"-fleet", f.built}} {
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
	if err := program.Start(in.releases.Start); err != nil {
		f.inReleases("%w", err)
	}
	in.checkVersions(&f, o.unchecked)
	in.checkApprovals(&f)
	in.checkDurations(&f)
	if o.why != nil {
		for _, wrong := range in.faultsOf(*o.why, fleetName) {
			f.why = append(f.why, errors.New(wrong.text))
		}
	} else {
		for i, q := range in.releases.Why {
			for _, wrong := range in.faultsOf(q, fleetName) {
				f.inReleases("why[%d].%s: %s", i, wrong.field, wrong.text)
			}
		}
	}
	if o.fleet != "" && o.releases == "" && len(f.releases) > 0 {
		f.built = append(f.built, fmt.Errorf("%s was made for another fleet: name releases of your own with -releases", releasesName))
	}
	return f.err()
}

// checkPlan finds what the planner itself would refuse.
func (in *input) checkPlan(f *faults) {
	for _, fault := range strictjson.Parts(in.set.Check(in.snapshot())) {
		var path *rollout.FieldError
		about := func(lists ...string) bool {
			return errors.As(fault, &path) && slices.ContainsFunc(lists, func(list string) bool { return strings.HasPrefix(path.Path, list) })
		}
		switch {
		case about("versions", "approvals", "overrides"):
			f.inReleases("%w", fault)
		case about("resources", "environments", "deployments", "targets"):
			// They are made of the lists of the file, of which checkFleet says the same.
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
	for _, list := range []struct {
		name string
		ids  []string
	}{{"deployments", in.fleet.deployments()}, {"environments", in.fleet.environments()}, {"clusters", in.fleet.clusters()}} {
		for i, id := range list.ids {
			if first := slices.Index(list.ids, id); id == "" {
				f.inFleet("%s[%d].id: is required", list.name, i)
			} else if first < i {
				f.inFleet("%s[%d].id: %q: is the id of %s[%d] too: give every entry one of its own", list.name, i, id, list.name, first)
			}
		}
	}
	for i, c := range in.fleet.Clusters {
		if !in.knows(c.Environment) {
			f.inFleet("clusters[%d].environment: %q: %s has no such environment: %s", i, c.Environment, f.names.fleet, program.Among(in.fleet.environments()))
		}
		for _, d := range slices.Sorted(maps.Keys(c.Runs)) {
			if !in.deploys(d) {
				f.inFleet("clusters[%d].runs.%s: there is no such deployment: %s", i, d, program.Among(in.fleet.deployments()))
			} else if !in.has(d, c.Runs[d]) {
				f.inFleet("clusters[%d].runs.%s: %s has no version %q", i, d, f.names.releases, c.Runs[d])
			}
		}
	}
}

// checkVersions refuses versions that no fleet could have, but for a targetSelector that is to be
// played as it is.
func (in *input) checkVersions(f *faults, unchecked bool) {
	in.refused = map[[2]string]error{}
	for i, v := range in.releases.Versions {
		for _, fault := range strictjson.Parts(in.set.CheckVersion(v)) {
			var field *rollout.FieldError
			switch {
			case !errors.As(fault, &field) || field.Path != "targetSelector":
				f.inReleases("versions[%d].%w", i, fault)
			case unchecked:
				in.refused[[2]string{v.Deployment, v.ID}] = fault
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
		if _, ok := in.releases.Durations[d.ID]; !ok && d.ID != "" {
			f.inReleases("durations.%s: is required", d.ID)
		}
	}
}

// fault is what is wrong with a field of a question.
type fault struct{ field, text string }

func (in *input) faultsOf(q question, fleetName string) (wrong []fault) {
	if !slices.Contains(in.fleet.clusters(), q.Resource) {
		wrong = append(wrong, fault{"resource", fmt.Sprintf("%s has no cluster %q: %s", fleetName, q.Resource, program.Among(in.fleet.clusters()))})
	}
	if q.Deployment != "" && !in.deploys(q.Deployment) {
		wrong = append(wrong, fault{"deployment", fmt.Sprintf("%s has no deployment %q: %s", fleetName, q.Deployment, program.Among(in.fleet.deployments()))})
	}
	if q.At.Before(in.releases.Start) {
		wrong = append(wrong, fault{"at", fmt.Sprintf("%s lies before the start, %s", q.At.Format(time.RFC3339), in.releases.Start.Format(time.RFC3339))})
	} else if q.At.Year() > program.LastYear {
		wrong = append(wrong, fault{"at", fmt.Sprintf("%s lies after the year %d, up to which the files are played", q.At.Format(time.RFC3339), program.LastYear)})
	}
	return wrong
}
