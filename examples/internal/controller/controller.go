// Package controller is a minimal host around [rollout.Planner] whose jobs live in the same
// database as the planner's state. It observes, plans and dispatches. Any number of controllers may
// run at once on one fleet, without electing a leader.
//
// Two interfaces that a database implements keep them from harming each other:
//
//  1. [bracket.Store]: every save is conditional on the revision that was read. A controller that
//     slept with a plan in hand cannot save it.
//  2. [Jobs]: a job is created once, under its run id. It is created only while every slot that its
//     start claimed is still held with the claimed token, and while its target has no job that the
//     plan did not see. A controller that slept between saving and dispatching can neither create a
//     job on a slot that it lost, nor take a target back that others have moved on meanwhile.
//
// The examples for real databases share this package, and their tests share controllertest.
package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/clock"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/rollout"
)

// ErrBusy is returned by [Jobs.Dispatch] when another job is active on the target: the plan was
// made from an observation that missed it.
var ErrBusy = errors.New("controller: another job is active on the target")

// ErrOvertaken is returned by [Jobs.Dispatch] when jobs came to the target, and ended, that the
// plan's observation did not have: one of them may have brought a newer version than the start's.
// Observe and plan again.
var ErrOvertaken = errors.New("controller: another job has come to the target since the plan looked")

// Job is a job as the database holds it.
type Job struct {
	rollout.TargetID // Deployment is empty for a job that no plan started: it counts in pools, and is no part of a snapshot
	rollout.Job
	Group string `json:"group"` // who holds the slot, together with the resource
}

// Holder is who the job is active for.
func (j Job) Holder() concurrency.Holder {
	return concurrency.Holder{Resource: j.Resource, Group: j.Group}
}

// Validate reports what a job must have. Implementations of [Jobs] call it before they store one.
func (j Job) Validate() error {
	if j.Run == "" || j.Resource == "" {
		return fmt.Errorf("controller: job %q on resource %q: both must be named", j.Run, j.Resource)
	}
	what := "job " + strconv.Quote(j.Run)
	return errors.Join(checkNames(what, j.Run, j.Resource, j.Environment, j.Deployment, j.Version, j.Group, string(j.Status)),
		checkInstants(what, j.CreatedAt, j.CompletedAt))
}

// CheckPool returns an error if a name of a pool or of its members is not valid UTF-8. JSON would
// store another name, which the host does not know: a member would count no more.
func CheckPool(pool string, resources []string) error {
	what := "pool " + strconv.Quote(pool)
	return errors.Join(checkNames(what, pool), checkNames(what, resources...))
}

func checkNames(what string, names ...string) error {
	for _, name := range names {
		if !utf8.ValidString(name) {
			return fmt.Errorf("controller: %s: the name %q must be UTF-8", what, name)
		}
	}
	return nil
}

// checkInstants refuses what does not fit into 64 bits of nanoseconds, as a column may hold them: it
// would come back as another instant.
func checkInstants(what string, instants ...time.Time) error {
	for _, at := range instants {
		if !at.IsZero() && !time.Unix(0, at.UnixNano()).Equal(at) {
			return fmt.Errorf("controller: %s: the instant %s must lie between 1678 and 2262", what, at.Format(time.RFC3339Nano))
		}
	}
	return nil
}

// Jobs are the host's jobs, beside the planner's records. Implementations are safe for concurrent
// use, answer a cancelled context with its error, and answer what they cannot read with an error,
// never with less.
type Jobs interface {
	concurrency.JobCounter

	// SetPool replaces the members of a pool, in one step. Jobs are counted in no pool that was never
	// set, so the host sets all of them, as [rollout.PolicySet.PoolKeys] has them, before the first
	// plan, and again whenever its resources or policies change. A [Controller] does not.
	SetPool(ctx context.Context, pool string, resources []string) error

	// All returns all jobs in ascending order of their runs, as they were at one instant.
	All(ctx context.Context) ([]Job, error)

	// Put creates or replaces a job as it is, for jobs that no plan started and for those of
	// another database. A second active job on a target is [ErrBusy].
	Put(ctx context.Context, job Job) error

	// Dispatch creates the job of a start, queued at the given instant, and reports whether it did:
	// false without an error means that a job with this run id exists. In the same transaction it
	// makes sure that every claim holds, as [rollout.Start.Held] tells, else the error is
	// [concurrency.ErrFenced], that no other job is active on the target, else it is [ErrBusy], and
	// that the target has no more jobs, ended ones among them, than seen, else it is
	// [ErrOvertaken]. If pools or targets change too often meanwhile it is [bracket.ErrConflict].
	// After any other error the outcome is unknown; dispatching again is harmless.
	//
	// seen is how many jobs the plan's observation had on the start's target. It is a number and
	// not a list, which is enough while no job leaves its target: a host that deletes old jobs
	// numbers them instead, and compares with the greatest number that it saw.
	Dispatch(ctx context.Context, start rollout.Start, seen int, at time.Time) (bool, error)

	// Report sets the status of a job; a terminal one ends it at the given instant. The first end
	// counts: another status for a job that has ended is [bracket.ErrConflict], the same one is
	// nothing. An unknown run is [bracket.ErrNotFound].
	Report(ctx context.Context, run string, status rollout.JobStatus, at time.Time) error
}

// NewJob is the job of a start that [Jobs.Dispatch] creates.
func NewJob(start rollout.Start, at time.Time) Job {
	return Job{
		TargetID: start.TargetID, Group: start.Group,
		Job: rollout.Job{Run: start.Run, Version: start.Version, Status: rollout.JobQueued, CreatedAt: at.UTC()},
	}
}

// Reported is the job after a report about it, and whether it changed; see [Jobs.Report].
func (j Job) Reported(status rollout.JobStatus, at time.Time) (Job, bool, error) {
	if j.Status == status {
		return j, false, nil
	}
	if j.Status.Terminal() {
		return j, false, fmt.Errorf("controller: run %s: is %s since %s and cannot become %s: %w",
			j.Run, j.Status, j.CompletedAt.Format(time.RFC3339Nano), status, bracket.ErrConflict)
	}
	if err := errors.Join(checkNames("run "+j.Run, string(status)), checkInstants("run "+j.Run, at)); err != nil {
		return j, false, err
	}
	if j.Status = status; status.Terminal() {
		j.CompletedAt = at.UTC()
	}
	return j, true, nil
}

// Observe returns the fleet with the jobs on its targets. The fleet is not modified. Jobs on
// targets that the fleet does not have are left out; they still count in their pools.
func Observe(fleet rollout.Snapshot, jobs []Job) rollout.Snapshot {
	on := make(map[rollout.TargetID][]rollout.Job, len(fleet.Targets))
	for _, job := range jobs {
		on[job.TargetID] = append(on[job.TargetID], job.Job)
	}
	fleet.Targets = slices.Clone(fleet.Targets)
	for i := range fleet.Targets {
		fleet.Targets[i].Jobs = on[fleet.Targets[i].TargetID]
	}
	return fleet
}

// Controller makes one turn after the other: see [Controller.Turn].
type Controller struct {
	Policies *rollout.PolicySet
	Store    bracket.Store
	Jobs     Jobs
	Clock    clock.Clock
	Fleet    rollout.Snapshot // what exists, without jobs

	// Grace is how long a lease must have been called an orphan, in every plan, before it is given
	// back; 0 means [DefaultGrace]. One that is quarantined is not: a person gives it back.
	Grace time.Duration

	planner  rollout.Planner     // kept, for it decodes only what has changed
	suspects map[lease]time.Time // since when they are called orphans
}

// Turn is what one turn did.
type Turn struct {
	Plan       rollout.Plan
	Dispatched []string // runs whose jobs this turn created
	Repeated   []string // runs whose jobs existed
	Refused    []error  // one per start whose job was refused: ErrFenced, ErrBusy, ErrOvertaken or ErrConflict
	Released   []string // orphaned leases that were given back
	Conflicts  int      // saves that met a newer revision; more than the planner's attempts allow is ErrConflict
}

// Turn observes, plans and dispatches once. An error of the database is returned at once; then
// nothing further is dispatched, and the next turn finds what this one left. It is not safe for
// concurrent use; use one Controller per goroutine.
func (c *Controller) Turn(ctx context.Context) (Turn, error) {
	var turn Turn
	jobs, err := c.Jobs.All(ctx)
	if err != nil {
		return turn, fmt.Errorf("controller: observe jobs: %w", err)
	}
	meter := &meter{Store: c.Store}
	c.planner.Policies, c.planner.Store, c.planner.Clock, c.planner.JobCounter = c.Policies, meter, c.Clock, c.Jobs
	turn.Plan, err = c.planner.Plan(ctx, Observe(c.Fleet, jobs))
	turn.Conflicts = int(meter.conflicts.Load())
	if err != nil {
		return turn, err
	}
	seen := make(map[rollout.TargetID]int, len(c.Fleet.Targets))
	newest := make(map[rollout.TargetID]time.Time, len(c.Fleet.Targets))
	for _, job := range jobs {
		seen[job.TargetID]++
		if job.CreatedAt.After(newest[job.TargetID]) {
			newest[job.TargetID] = job.CreatedAt
		}
	}
	for _, start := range turn.Plan.Start {
		at := c.Clock.Now()
		if at.Before(turn.Plan.Now) {
			at = turn.Plan.Now // a job is never older than the plan that asked for it
		}
		if last := newest[start.TargetID]; !at.After(last) {
			at = last.Add(1) // it is younger than all that its target had before
		}
		created, err := c.Jobs.Dispatch(ctx, start, seen[start.TargetID], at)
		switch {
		case errors.Is(err, concurrency.ErrFenced), errors.Is(err, ErrBusy), errors.Is(err, ErrOvertaken), errors.Is(err, bracket.ErrConflict):
			turn.Refused = append(turn.Refused, err)
		case err != nil:
			return turn, fmt.Errorf("controller: dispatch %s: %w", start.Run, err)
		case created:
			turn.Dispatched = append(turn.Dispatched, start.Run)
		default:
			turn.Repeated = append(turn.Repeated, start.Run)
		}
	}
	return turn, c.release(ctx, &turn, turn.Plan.Now)
}

// meter counts the conflicts that the planner deals with by itself.
type meter struct {
	bracket.Store
	conflicts atomic.Int64
}

func (m *meter) Save(ctx context.Context, key string, value []byte, revision int64) (int64, error) {
	next, err := m.Store.Save(ctx, key, value, revision)
	if errors.Is(err, bracket.ErrConflict) {
		m.conflicts.Add(1)
	}
	return next, err
}
