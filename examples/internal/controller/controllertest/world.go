//go:build unix

package controllertest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/clock"
	"github.com/tranche-dev/tranche/examples/internal/controller"
	"github.com/tranche-dev/tranche/rollout"
)

// world is a fleet on a fake clock, with controllers in this process: what happens in it is the
// same every time.
type world struct {
	testing.TB
	db    Database
	set   *rollout.PolicySet
	clock *clock.Fake
	size  int
}

// epoch is when the first version is released.
func epoch() time.Time { return time.Date(2026, 3, 10, 9, 0, 0, 0, time.UTC) }

func newWorld(tb testing.TB, db Database, size int) *world {
	tb.Helper()
	set, err := compiled()
	if err != nil {
		tb.Fatal(err)
	}
	w := &world{TB: tb, db: db, set: set, clock: clock.NewFake(epoch()), size: size}
	var members []string
	for i := range size {
		members = append(members, fmt.Sprint("node-", i))
	}
	if err := db.Jobs.SetPool(tb.Context(), poolKey, members); err != nil {
		tb.Fatal(err)
	}
	return w
}

// controller returns one that works on the world's database, or on a client of it with faults.
func (w *world) controller(store bracket.Store) *controller.Controller {
	if store == nil {
		store = w.db.Store
	}
	return &controller.Controller{Policies: w.set, Store: store, Jobs: w.db.Jobs, Clock: w.clock}
}

// turn makes one, and expects it to succeed.
func (w *world) turn(c *controller.Controller) controller.Turn {
	w.Helper()
	turn, err := w.try(w.Context(), c)
	if err != nil {
		w.Fatalf("at %s: %v", w.clock.Now().Format(time.TimeOnly), err)
	}
	return turn
}

func (w *world) try(ctx context.Context, c *controller.Controller) (controller.Turn, error) {
	c.Fleet = nodes(w.size, epoch(), w.clock.Now())
	return c.Turn(ctx)
}

// plan makes a plan of the current observation without dispatching anything, as a controller does
// that stops in between.
func (w *world) plan() rollout.Plan {
	w.Helper()
	planner := rollout.Planner{Policies: w.set, Store: w.db.Store, Clock: w.clock, JobCounter: w.db.Jobs}
	plan, err := planner.Plan(w.Context(), controller.Observe(nodes(w.size, epoch(), w.clock.Now()), w.jobs()))
	if err != nil {
		w.Fatal(err)
	}
	return plan
}

func (w *world) jobs() []controller.Job {
	w.Helper()
	jobs, err := w.db.Jobs.All(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	return jobs
}

// agents let jobs begin, and end with success when their time is up.
func (w *world) agents() {
	w.Helper()
	now := w.clock.Now()
	for _, job := range w.jobs() {
		var err error
		switch {
		case job.Status == rollout.JobQueued:
			err = w.db.Jobs.Report(w.Context(), job.Run, rollout.JobInProgress, now)
		case !job.Status.Terminal() && now.Sub(job.CreatedAt) >= durations()[job.Deployment]:
			err = w.db.Jobs.Report(w.Context(), job.Run, rollout.JobSuccessful, now)
		}
		if err != nil {
			w.Fatal(err)
		}
	}
	disrupted := map[string]bool{}
	active, err := w.db.Jobs.Active(w.Context(), poolKey)
	if err != nil {
		w.Fatal(err)
	}
	for _, holder := range active {
		disrupted[holder.Resource] = true
	}
	if len(disrupted) > limit {
		w.Fatalf("%d nodes are disrupted at once, %d may be: %v", len(disrupted), limit, active)
	}
}

// run lets a controller work until an instant.
func (w *world) run(c *controller.Controller, until time.Time) {
	w.Helper()
	for w.clock.Now().Before(until) {
		w.turn(c)
		w.agents()
		w.clock.Advance(10 * time.Second)
	}
}

// finish lets a controller work until everything is done.
func (w *world) finish(c *controller.Controller) {
	w.Helper()
	for range 400 {
		w.turn(c)
		w.agents()
		w.clock.Advance(10 * time.Second)
		if w.done() {
			return
		}
	}
	w.Fatalf("the rollout does not end: %v", w.jobs())
}

func (w *world) done() bool {
	s := &schedule{TB: w.TB, db: w.db}
	active, err := w.db.Jobs.Active(w.Context(), poolKey)
	if err != nil {
		w.Fatal(err)
	}
	return s.finished(w.jobs(), active, w.size)
}
