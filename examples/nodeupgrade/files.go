package main

import (
	"embed"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/examples/internal/program"
	"github.com/tranche-dev/tranche/internal/strictjson"
	"github.com/tranche-dev/tranche/rollout"
	"github.com/tranche-dev/tranche/rollout/rollouttest"
)

//go:embed policy.json policy-retry.yaml policy-halt.yaml fleet.json releases.json releases-partial.json releases-overlap.json releases-freeze.json releases-urgent.json releases-outage.json
var builtin embed.FS

// fleet is a fleet file: every deployment has a target on every resource of every cluster.
type fleet struct {
	Deployments []rollout.Deployment `json:"deployments"`
	Clusters    []cluster            `json:"clusters"`
}

// cluster is resources in an environment, all of which run the same versions in the beginning.
type cluster struct {
	Environment rollout.Environment `json:"environment"`
	Runs        map[string]string   `json:"runs"` // deployment → version; a deployment that is not listed was never deployed
	Resources   []rollout.Resource  `json:"resources"`
}

// releases is a releases file: what comes, how long jobs take, and what goes wrong besides.
type releases struct {
	Start     time.Time                     `json:"start"` // of the virtual clock
	Trace     string                        `json:"trace"` // the resource that is told about in full
	Versions  []release                     `json:"versions"`
	Durations map[string]program.Duration   `json:"durations"`         // by deployment
	Samples   map[string][]program.Duration `json:"samples,omitempty"` // by deployment: how long past jobs took, for a forecast
	Outages   []outage                      `json:"outages,omitempty"`
	Freezes   []rollout.Freeze              `json:"freezes,omitempty"`  // who stops what, and for how long
	Commands  []bracket.Command             `json:"commands,omitempty"` // what operators do about groups and their executions
}

type release struct {
	Deployment  string    `json:"deployment"`
	ID          string    `json:"id"`
	PublishedAt time.Time `json:"publishedAt"`
}

// outage is a resource that is down for a while, for reasons of its own.
type outage struct {
	Resource string    `json:"resource"`
	From     time.Time `json:"from"`
	Until    time.Time `json:"until"`
}

func readWorld(o options) (f fleet, r releases, err error) {
	name, err := program.Decode(builtin, o.fleet, "fleet.json", &f)
	if err != nil {
		return f, r, err
	}
	if err := f.validate(); err != nil {
		return f, r, &program.InputError{Source: name, Err: err}
	}
	standard := "releases.json"
	switch {
	case o.partial:
		standard = "releases-partial.json"
	case o.overlap != "":
		standard = "releases-overlap.json"
	}
	name, err = program.Decode(builtin, o.releases, standard, &r)
	if err != nil {
		return f, r, err
	}
	if err := r.validate(f); err != nil {
		err = &program.InputError{Source: name, Err: err}
		if o.fleet != "" && o.releases == "" {
			err = errors.Join(err, program.Wrong("-fleet", "%s was made for another fleet: name releases of your own with -releases", name))
		}
		return f, r, err
	}
	return f, r, nil
}

// validate reports every fault of the file; the planner looks at the rest.
func (f fleet) validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if len(f.Deployments) == 0 {
		fault("deployments: at least one is needed")
	}
	if len(f.Clusters) == 0 {
		fault("clusters: at least one is needed")
	}
	ids := map[string]bool{}
	for i, d := range f.Deployments {
		if d.ID == "" || ids["d"+d.ID] {
			fault("deployments[%d].id: %q: every deployment needs one of its own", i, d.ID)
		}
		ids["d"+d.ID] = true
	}
	for i, c := range f.Clusters {
		if c.Environment.ID == "" {
			fault("clusters[%d].environment.id: is required", i)
		}
		for k, other := range f.Clusters[:i] {
			if e := c.Environment; e.ID == other.Environment.ID && (e.Name != other.Environment.Name || !maps.Equal(e.Metadata, other.Environment.Metadata)) {
				fault("clusters[%d].environment: %s is another one in clusters[%d]: describe it the same way, or give it an id of its own", i, e.ID, k)
				break
			}
		}
		if len(c.Resources) == 0 {
			fault("clusters[%d].resources: at least one is needed", i)
		}
		for k, resource := range c.Resources {
			if resource.ID == "" || ids["r"+resource.ID] {
				fault("clusters[%d].resources[%d].id: %q: every resource needs one of its own", i, k, resource.ID)
			}
			ids["r"+resource.ID] = true
		}
		for _, name := range slices.Sorted(maps.Keys(c.Runs)) {
			if !f.deploys(name) {
				fault("clusters[%d].runs.%s: there is no such deployment", i, name)
			}
		}
	}
	return errors.Join(faults...)
}

func (r releases) validate(f fleet) error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if err := program.Start(r.Start); err != nil {
		faults = append(faults, err)
	}
	if !f.has(r.Trace) {
		fault("trace: the fleet has no resource %q: %s", r.Trace, program.Among(f.resources()))
	}
	known := map[[2]string]bool{}
	for i, v := range r.Versions {
		if !f.deploys(v.Deployment) {
			fault("versions[%d].deployment: the fleet has no deployment %q", i, v.Deployment)
		}
		if key := [2]string{v.Deployment, v.ID}; v.ID == "" || known[key] {
			fault("versions[%d].id: %q: every version of a deployment needs one of its own", i, v.ID)
		} else {
			known[key] = true
		}
		if v.PublishedAt.IsZero() {
			fault("versions[%d].publishedAt: is required", i)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.Durations)) {
		if !f.deploys(name) {
			fault("durations.%s: the fleet has no such deployment", name)
		}
	}
	for _, d := range f.Deployments {
		if _, ok := r.Durations[d.ID]; !ok {
			fault("durations.%s: is required", d.ID)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.Samples)) {
		if !f.deploys(name) || len(r.Samples[name]) == 0 {
			fault("samples.%s: must be a deployment of the fleet with at least one duration", name)
		}
	}
	for i, o := range r.Outages {
		if !f.has(o.Resource) {
			fault("outages[%d].resource: the fleet has no resource %q", i, o.Resource)
		}
		if o.From.IsZero() || !o.Until.After(o.From) {
			fault("outages[%d].until: must come after from", i)
		}
		for k, other := range r.Outages[:i] {
			if o.Resource == other.Resource && o.From.Before(other.Until) && other.From.Before(o.Until) {
				fault("outages[%d]: %s is down at the same time in outages[%d]: make them one", i, o.Resource, k)
				break
			}
		}
	}
	for i, z := range r.Freezes {
		for _, err := range strictjson.Parts(z.Validate()) {
			fault("freezes[%d].%w", i, err)
		}
		if slices.ContainsFunc(r.Freezes[:i], func(other rollout.Freeze) bool { return other.ID == z.ID }) {
			fault("freezes[%d].id: %q: every freeze needs one of its own", i, z.ID)
		}
		if z.Resource != "" && !f.has(z.Resource) {
			fault("freezes[%d].resourceId: the fleet has no resource %q", i, z.Resource)
		}
		if z.Deployment != "" && !f.deploys(z.Deployment) {
			fault("freezes[%d].deploymentId: the fleet has no deployment %q", i, z.Deployment)
		}
		if z.Environment != "" && !slices.ContainsFunc(f.Clusters, func(c cluster) bool { return c.Environment.ID == z.Environment }) {
			fault("freezes[%d].environmentId: the fleet has no environment %q", i, z.Environment)
		}
	}
	for i, c := range r.Commands {
		for _, err := range strictjson.Parts(c.Validate()) {
			fault("commands[%d].%w", i, err)
		}
		if slices.ContainsFunc(r.Commands[:i], func(other bracket.Command) bool { return other.ID == c.ID }) {
			fault("commands[%d].id: %q: every command needs one of its own", i, c.ID)
		}
		if c.Resource != "" && !f.has(c.Resource) {
			fault("commands[%d].resource: the fleet has no resource %q", i, c.Resource)
		}
		if c.Deployment != "" && !f.deploys(c.Deployment) {
			fault("commands[%d].deployment: the fleet has no deployment %q", i, c.Deployment)
		}
	}
	for i, c := range f.Clusters {
		for _, name := range slices.Sorted(maps.Keys(c.Runs)) {
			if f.deploys(name) && !known[[2]string{name, c.Runs[name]}] {
				fault("versions: %s %s is missing, which clusters[%d] of the fleet runs", name, c.Runs[name], i)
			}
		}
	}
	return errors.Join(faults...)
}

func (f fleet) resources() (ids []string) {
	for _, c := range f.Clusters {
		for _, r := range c.Resources {
			ids = append(ids, r.ID)
		}
	}
	return ids
}

func (f fleet) deployments() (ids []string) {
	for _, d := range f.Deployments {
		ids = append(ids, d.ID)
	}
	return ids
}

func (f fleet) has(resource string) bool { return slices.Contains(f.resources(), resource) }

func (f fleet) deploys(deployment string) bool { return slices.Contains(f.deployments(), deployment) }

func (f fleet) snapshot() rollout.Snapshot {
	s := rollout.Snapshot{Deployments: f.Deployments}
	for _, c := range f.Clusters {
		if !slices.ContainsFunc(s.Environments, func(e rollout.Environment) bool { return e.ID == c.Environment.ID }) {
			s.Environments = append(s.Environments, c.Environment)
		}
		for _, resource := range c.Resources {
			s.Resources = append(s.Resources, resource)
			for _, d := range f.Deployments {
				s.Targets = append(s.Targets, rollout.Target{
					TargetID: rollout.TargetID{Resource: resource.ID, Environment: c.Environment.ID, Deployment: d.ID}, Current: c.Runs[d.ID],
				})
			}
		}
	}
	return s
}

func (r releases) durations() map[string]time.Duration {
	durations := make(map[string]time.Duration, len(r.Durations))
	for deployment, d := range r.Durations {
		durations[deployment] = time.Duration(d)
	}
	return durations
}

// outcomes are the samples as outcomes of jobs that succeeded.
func (r releases) outcomes() map[string][]rollouttest.Outcome {
	outcomes := make(map[string][]rollouttest.Outcome, len(r.Samples))
	for deployment, samples := range r.Samples {
		for _, d := range samples {
			outcomes[deployment] = append(outcomes[deployment], rollouttest.Outcome{After: time.Duration(d)})
		}
	}
	return outcomes
}

func (o outage) changes() []rollouttest.Change {
	return []rollouttest.Change{
		{At: o.From, What: o.Resource + " is down", Do: func(s *rollout.Snapshot) { s.Unavailable = append(s.Unavailable, o.Resource) }},
		{At: o.Until, What: o.Resource + " is back", Do: func(s *rollout.Snapshot) {
			s.Unavailable = slices.DeleteFunc(s.Unavailable, func(id string) bool { return id == o.Resource })
		}},
	}
}
