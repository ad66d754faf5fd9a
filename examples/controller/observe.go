package controller

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/examples/controller/api/v1alpha1"
	"github.com/tranche-dev/tranche/rollout"
)

// observation is a namespace as a reader shows it: what the planner is told, and the objects behind
// it.
type observation struct {
	snapshot rollout.Snapshot
	machines []v1alpha1.Machine
	jobs     []v1alpha1.NodeJob
	running  map[string][]string        // machine → deployments with a job that has not ended
	turns    map[rollout.TargetID]int64 // the last turn of which a job was seen
	former   map[rollout.TargetID]former
	begun    map[concurrency.Holder]bool // the groups of brackets that had a job on a former machine
	active   int                         // jobs that have not ended

	released map[concurrency.Holder]bool // see decisions
	never    []rollout.Diagnostic        // about what people have decided that expires before it begins
	orders   []v1alpha1.BracketCommand   // see decisions

	known known // for the next observation
}

// former is what jobs did on a machine that has been deleted, and under whose name another one is
// registered: jobs are kept, and a target does not tell them from those of the new machine.
type former struct {
	success rollout.Job // the newest one
	last    time.Time   // when the newest job was created
}

// known is what an observation knows of earlier ones, so as not to ask the server for it again. It
// is replaced, never changed.
type known struct {
	unreleased map[jobID]bool  // the jobs of versions that there is no release of, as far as the server knows
	commands   map[string]bool // the ids of the commands that were planned with
	names      map[string]bool // of the machines that there are, or jobs of; nil before it is known of which others there are records
}

// jobID tells a job from a later one of the same name.
type jobID struct {
	name string
	uid  types.UID
}

// observe reads a namespace. The reader may be a cache, and its lists of different age: a job that
// is not seen yet is offered again under the same run id, and what else is old makes somebody wait.
// With five exceptions. A freeze that is not seen yet holds nothing, as if it were written later. A
// machine that is listed as unavailable is believed to be down: it may be repaired without a slot,
// however full the pool is. A job of a release that is not seen yet would look like one of a release
// that was deleted, and the version before it like the newest: then the server is asked, unless that
// job is known: one that was seen before the server answered that it has no release of it. Such a
// release was deleted, which is usual, for jobs are kept longer; or it never was. If it comes back,
// the jobs of it that follow are not known. And a command is heard once: one that is seen before the
// failure that it answers would be refused for good. So the server is asked for the jobs when a
// command is new. One that closes a group would close it without the release that it is given for, or
// without what lets that release in, and the release would wait for the next group. So the server is
// asked for everything when such a command is new.
func observe(ctx context.Context, reader, server client.Reader, namespace string, before known) (*observation, error) {
	var (
		deployments v1alpha1.NodeDeploymentList
		releases    v1alpha1.ReleaseList
		machines    v1alpha1.MachineList
		jobs        v1alpha1.NodeJobList
	)
	decided, err := decide(ctx, reader, namespace)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(decided.commands, func(c bracket.Command) bool { return c.Kind == bracket.Close && !before.commands[c.ID] }) {
		reader = server
		if decided, err = decide(ctx, reader, namespace); err != nil {
			return nil, err
		}
	}
	now := known{commands: make(map[string]bool, len(decided.commands))}
	jobsFrom := reader
	for _, command := range decided.commands {
		now.commands[command.ID] = true
		if !before.commands[command.ID] {
			jobsFrom = server
		}
	}
	if err := list(ctx, reader, namespace, &deployments, &releases, &machines); err != nil {
		return nil, err
	}
	if err := list(ctx, jobsFrom, namespace, &jobs); err != nil {
		return nil, err
	}
	missing := unreleased(jobs.Items, releases.Items)
	answered := true
	for job := range missing {
		answered = answered && before.unreleased[job]
	}
	if !answered {
		if err := list(ctx, server, namespace, &releases); err != nil {
			return nil, err
		}
		missing = unreleased(jobs.Items, releases.Items)
	}
	now.unreleased, now.names = missing, make(map[string]bool, len(machines.Items))
	for i := range machines.Items {
		now.names[machines.Items[i].Name] = true
	}
	for i := range jobs.Items {
		now.names[jobs.Items[i].Spec.Machine] = true
	}
	o := &observation{machines: machines.Items, jobs: jobs.Items, running: map[string][]string{}, turns: map[rollout.TargetID]int64{}, former: map[rollout.TargetID]former{}, begun: map[concurrency.Holder]bool{}, known: now}
	o.snapshot.Approvals, o.snapshot.Overrides, o.snapshot.Freezes, o.snapshot.Commands = decided.approvals, decided.overrides, decided.freezes, decided.commands
	o.released, o.never, o.orders = decided.released, decided.never, decided.orders
	slices.SortFunc(o.machines, func(a, b v1alpha1.Machine) int { return strings.Compare(a.Name, b.Name) })
	for i := range releases.Items {
		o.release(&releases.Items[i])
	}
	on := o.observeJobs(jobs.Items)
	environments := map[string]bool{}
	for i := range o.machines {
		machine := &o.machines[i]
		metadata := machine.Labels
		if deleted(machine) {
			metadata = map[string]string{metadataDeleted: "true"}
			maps.Copy(metadata, machine.Labels)
		}
		o.snapshot.Resources = append(o.snapshot.Resources, rollout.Resource{ID: machine.Name, Name: machine.Name, Kind: "Machine", Metadata: metadata})
		if machine.Spec.Unavailable {
			o.snapshot.Unavailable = append(o.snapshot.Unavailable, machine.Name)
		}
		if !environments[machine.Spec.Environment] {
			environments[machine.Spec.Environment] = true
			o.snapshot.Environments = append(o.snapshot.Environments, rollout.Environment{ID: machine.Spec.Environment, Name: machine.Spec.Environment})
		}
	}
	for i := range deployments.Items {
		if err := o.deployment(&deployments.Items[i], on); err != nil {
			return nil, err
		}
	}
	return o, nil
}

// list reads lists of a namespace, one after the other.
func list(ctx context.Context, reader client.Reader, namespace string, lists ...client.ObjectList) error {
	for _, list := range lists {
		if err := reader.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return fmt.Errorf("controller: observe %T: %w", list, err)
		}
	}
	return nil
}

// unreleased returns the jobs of versions that there is no release of.
func unreleased(jobs []v1alpha1.NodeJob, releases []v1alpha1.Release) map[jobID]bool {
	type version struct{ deployment, version string }
	released := make(map[version]bool, len(releases))
	for i := range releases {
		released[version{releases[i].Spec.Deployment, releases[i].Spec.Version}] = true
	}
	missing := map[jobID]bool{}
	for i := range jobs {
		if job := &jobs[i]; !released[version{job.Spec.Deployment, job.Spec.Version}] {
			missing[jobID{job.Name, job.UID}] = true
		}
	}
	return missing
}

func (o *observation) release(release *v1alpha1.Release) {
	version := rollout.Version{
		ID: release.Spec.Version, Name: release.Spec.Version, Tag: release.Spec.Version, Deployment: release.Spec.Deployment,
		Status: rollout.VersionReady, CreatedAt: release.Spec.PublishedAt, Metadata: release.Labels,
		Priority: int(release.Spec.Priority), TargetSelector: release.Spec.TargetSelector, Dependencies: release.Spec.Dependencies,
	}
	if version.CreatedAt.IsZero() {
		version.CreatedAt = release.CreationTimestamp.Time
	}
	if release.Spec.Paused {
		version.Status = rollout.VersionPaused
	}
	o.snapshot.Versions = append(o.snapshot.Versions, version)
}

// observeJobs returns the jobs by their targets. Which of them take a slot is not for a cache to
// say, see [NodeJobs].
func (o *observation) observeJobs(jobs []v1alpha1.NodeJob) map[rollout.TargetID][]rollout.Job {
	on := make(map[rollout.TargetID][]rollout.Job)
	for i := range jobs {
		spec, status := &jobs[i].Spec, &jobs[i].Status
		target := rollout.TargetID{Resource: spec.Machine, Environment: spec.Environment, Deployment: spec.Deployment}
		job := rollout.Job{
			Run: spec.Run, Version: spec.Version, Status: status.State, CreatedAt: spec.CreatedAt, CompletedAt: status.CompletedAt, Verification: status.Verification,
		}
		if job.CreatedAt.IsZero() {
			job.CreatedAt = jobs[i].CreationTimestamp.Time
		}
		if job.Status == "" {
			job.Status = rollout.JobQueued
		}
		on[target] = append(on[target], job)
		// Both instants are the server's. That of the plan is not, and a clock may be ahead.
		if machine, registered := o.find(spec.Machine); registered && jobs[i].CreationTimestamp.Before(&o.machines[machine].CreationTimestamp) {
			f := o.former[target]
			if job.CreatedAt.After(f.last) {
				f.last = job.CreatedAt
			}
			if job.Status == rollout.JobSuccessful && !job.CreatedAt.Before(f.success.CreatedAt) {
				f.success = job
			}
			o.former[target] = f
			o.begun[concurrency.Holder{Resource: spec.Machine, Group: spec.Group}] = true
		}
		o.turns[target] = max(o.turns[target], spec.Turn)
		if !job.Status.Terminal() {
			o.active++
			o.running[spec.Machine] = append(o.running[spec.Machine], spec.Deployment)
		}
	}
	return on
}

func (o *observation) deployment(d *v1alpha1.NodeDeployment, on map[rollout.TargetID][]rollout.Job) error {
	selector := labels.Everything()
	if d.Spec.MachineSelector != nil {
		var err error
		if selector, err = metav1.LabelSelectorAsSelector(d.Spec.MachineSelector); err != nil {
			return fmt.Errorf("%w: NodeDeployment %s: spec.machineSelector: %w", errRejected, d.Name, err)
		}
	}
	o.snapshot.Deployments = append(o.snapshot.Deployments, rollout.Deployment{ID: d.Name, Name: d.Name, Slug: d.Name, Metadata: d.Labels})
	for i := range o.machines {
		machine := &o.machines[i]
		if !selector.Matches(labels.Set(machine.Labels)) {
			continue
		}
		target := rollout.Target{
			TargetID: rollout.TargetID{Resource: machine.Name, Environment: machine.Spec.Environment, Deployment: d.Name},
			Priority: int(machine.Spec.Priority), JoinedAt: machine.Spec.JoinedAt,
		}
		if target.JoinedAt.IsZero() && !machine.CreationTimestamp.IsZero() {
			target.JoinedAt = from(machine) // after the end of what ran on a former machine of its name
		}
		target.Jobs = on[target.TargetID]
		if !slices.ContainsFunc(target.Jobs, func(job rollout.Job) bool { return job.Status == rollout.JobSuccessful }) {
			target.Current = machine.Spec.Versions[d.Name]
		}
		target.OutdatedAt = o.outdated(machine, target.TargetID)
		o.snapshot.Targets = append(o.snapshot.Targets, target)
	}
	return nil
}

// outdated returns since when a target needs a new run because its machine was replaced: what jobs
// had installed before is gone with the former machine, unless the new one was registered with it.
// Tempting: to leave the jobs of the former machine out. Then run ids would begin anew, and those
// jobs pass for the new ones.
func (o *observation) outdated(machine *v1alpha1.Machine, id rollout.TargetID) time.Time {
	f := o.former[id]
	if f.success.Version == "" || machine.Spec.Versions[id.Deployment] == f.success.Version {
		return time.Time{}
	}
	since := machine.CreationTimestamp.Time
	if !f.last.Before(since) {
		since = f.last.Add(1) // the controller's clock was ahead of the server's
	}
	return since
}

// pools returns the function that tells in which pools of the policies a machine is, as the plan
// will see it. Of a machine that was not observed the plan counts no place, and it is in none.
func (o *observation) pools(policies *rollout.PolicySet) func(machine string) ([]string, error) {
	return func(machine string) ([]string, error) {
		all := o.snapshot.Resources // by name, as the machines
		i, known := slices.BinarySearchFunc(all, machine, func(r rollout.Resource, id string) int { return strings.Compare(r.ID, id) })
		if !known {
			return nil, nil
		}
		return policies.PoolKeys(all[i : i+1])
	}
}

// hasJob reports whether a job of a run was seen. It looks through all jobs, and is asked about few.
func (o *observation) hasJob(run string) bool {
	for i := range o.jobs {
		if o.jobs[i].Spec.Run == run {
			return true
		}
	}
	return false
}

// gone returns which of the machines that the state speaks of were deleted: those that hold a slot or
// have an execution in progress, and those of which nothing is left but the records of what has ended.
// A cache may not know a machine yet that another controller has planned for: who is missing there is
// asked for at the server, and only its answer is a proof.
//
// As long as there are jobs of a machine, at the server too, its record is left: a machine that comes
// back under its name would be taken to have those jobs, and without the record to be in the middle of
// its bracket. Nor is a plan told of a machine that holds nothing. It would be made after the answer,
// and the machine may be back by then, with a slot that another controller has given it.
func (o *observation) gone(ctx context.Context, server client.Reader, namespace string, state rollout.State) (holding, ended []string, err error) {
	missing := map[string]bool{} // whether it holds something
	for _, record := range state.Executions {
		missing[record.Resource] = missing[record.Resource] || record.Open != nil
	}
	for _, pool := range state.Pools {
		for _, lease := range pool.Leases {
			missing[lease.Resource] = true
		}
	}
	for i := range o.machines {
		delete(missing, o.machines[i].Name)
	}
	for i := range o.jobs {
		if machine := o.jobs[i].Spec.Machine; !missing[machine] {
			delete(missing, machine)
		}
	}
	var idle []string
	for machine, holds := range missing {
		switch is, err := gone(ctx, server, namespace, machine); {
		case err != nil:
			return nil, nil, err
		case is && holds:
			holding = append(holding, machine)
		case is:
			idle = append(idle, machine)
		}
	}
	slices.Sort(holding)
	ended, err = jobless(ctx, server, namespace, idle)
	return holding, ended, err
}

// gone reports whether the server has no machine of this name.
func gone(ctx context.Context, server client.Reader, namespace, machine string) (bool, error) {
	err := server.Get(ctx, client.ObjectKey{Namespace: namespace, Name: machine}, &v1alpha1.Machine{})
	if err != nil && !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("controller: is machine %s gone: %w", machine, err)
	}
	return err != nil, nil
}

// jobless returns, in order, those of the machines of which the server has no jobs.
func jobless(ctx context.Context, server client.Reader, namespace string, machines []string) ([]string, error) {
	if len(machines) == 0 {
		return nil, nil
	}
	var jobs v1alpha1.NodeJobList
	if err := list(ctx, server, namespace, &jobs); err != nil {
		return nil, err
	}
	machines = slices.Clone(machines)
	slices.Sort(machines)
	for i := range jobs.Items {
		if at, found := slices.BinarySearch(machines, jobs.Items[i].Spec.Machine); found {
			machines = slices.Delete(machines, at, at+1)
		}
	}
	return machines, nil
}

// replaced returns the machines under whose names the state holds something of former ones: an open
// execution, or the slots of one, of a group that had a job there before the machine was created. A
// group runs on a resource once, so the new machine has not begun it. Nothing else may be held under
// the name, for a plan that is told that a resource is gone gives back all of it.
//
// Tempting: to note the machine's UID in its jobs, and to ask only for that. It would tell also within
// the second of the servers' instants, and whatever their clocks say. But after objects were restored
// from a backup every machine would have been replaced.
func (o *observation) replaced(state rollout.State) (list []string) {
	held := map[string]bool{} // by a former machine, and by nobody else
	hold := func(holder concurrency.Holder) {
		former, known := held[holder.Resource]
		_, outside := rollout.TargetOf(holder)
		held[holder.Resource] = (former || !known) && !outside && o.begun[holder]
	}
	for _, record := range state.Executions {
		if record.Open != nil {
			hold(concurrency.Holder{Resource: record.Resource, Group: record.Open.Group})
		}
	}
	for _, pool := range state.Pools {
		for _, lease := range pool.Leases {
			hold(lease.Holder)
		}
	}
	for machine, former := range held {
		if former {
			list = append(list, machine)
		}
	}
	slices.Sort(list)
	return list
}

// find returns the index of the machine of this name, and whether it was observed.
func (o *observation) find(name string) (int, bool) {
	return slices.BinarySearchFunc(o.machines, name, func(m v1alpha1.Machine, name string) int { return strings.Compare(m.Name, name) })
}

// machine returns the machine of this name; an object that says no more than the name if it was not
// observed.
func (o *observation) machine(name string) *v1alpha1.Machine {
	i, known := o.find(name)
	if !known {
		return &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	return &o.machines[i]
}
