//go:build unix

package controllertest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/examples/internal/controller"
	"github.com/tranche-dev/tranche/rollout"
)

func checkFenced(t *testing.T, d Driver) {
	w := newWorld(t, d.fresh(t), 3)
	w.clock.Advance(2 * time.Minute)
	slept := w.plan()
	if len(slept.Start) == 0 {
		t.Fatal("nothing starts")
	}
	w.finish(w.controller(nil)) // another one does it all
	before := w.jobs()
	for _, start := range slept.Start {
		if created, err := w.db.Jobs.Dispatch(t.Context(), start, 0, w.clock.Now()); created || !errors.Is(err, concurrency.ErrFenced) {
			t.Errorf("late dispatch of %s: %v, %v, want ErrFenced", start.Run, created, err)
		}
	}
	if after := w.jobs(); !reflect.DeepEqual(before, after) {
		t.Errorf("the late dispatch changed the jobs")
	}
}

// slept are jobs of a controller that sleeps before its first dispatch.
type slept struct {
	controller.Jobs
	meanwhile func()
}

func (s *slept) Dispatch(ctx context.Context, start rollout.Start, seen int, at time.Time) (bool, error) {
	if meanwhile := s.meanwhile; meanwhile != nil {
		s.meanwhile = nil
		meanwhile()
	}
	return s.Jobs.Dispatch(ctx, start, seen, at)
}

// checkOvertaken lets a controller be late on a target that no limit governs: no slot is lost that
// could fence it, and no job has its run id.
func checkOvertaken(t *testing.T, d Driver) {
	set, err := compile(`[{"name": "all", "selector": "true", "rules": [{"retry": {"maxRetries": 1, "backoffSeconds": 20}}]}]`)
	if err != nil {
		t.Fatal(err)
	}
	fleet := func(versions ...string) rollout.Snapshot {
		s := rollout.Snapshot{
			Environments: []rollout.Environment{{ID: "prod", Name: "prod"}}, Deployments: []rollout.Deployment{{ID: "app", Name: "app"}},
			Resources: []rollout.Resource{{ID: "r", Name: "r", Kind: "Node"}},
			Targets:   []rollout.Target{{TargetID: rollout.TargetID{Resource: "r", Environment: "prod", Deployment: "app"}}},
		}
		for _, id := range versions {
			at := epoch().Add(time.Duration(id[1]-'0') * time.Minute) // v1 a minute after the epoch, and so on
			s.Versions = append(s.Versions, rollout.Version{ID: id, Deployment: "app", Name: id, Tag: id, Status: rollout.VersionReady, CreatedAt: at})
		}
		return s
	}
	for _, row := range []struct {
		why  string
		late func(db Database, meanwhile func()) controller.Jobs
	}{
		{"it sleeps between its plan and the dispatch", func(db Database, meanwhile func()) controller.Jobs { return &slept{db.Jobs, meanwhile} }},
		{"it plans from what it had observed before", func(db Database, meanwhile func()) controller.Jobs {
			before, err := db.Jobs.All(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			meanwhile()
			return &past{db.Jobs, before}
		}},
	} {
		w := newWorld(t, d.fresh(t), 1)
		w.set = set
		w.clock.Advance(5 * time.Minute)
		turn := func(c *controller.Controller, versions ...string) controller.Turn {
			t.Helper()
			c.Fleet = fleet(versions...)
			turn, err := c.Turn(t.Context())
			if err != nil {
				t.Fatalf("%s: %v", row.why, err)
			}
			return turn
		}
		deploy := func(c *controller.Controller, versions ...string) { // the newest of them, with success
			t.Helper()
			started := turn(c, versions...).Dispatched
			if len(started) != 1 {
				t.Fatalf("%s: with the versions %q it starts %q", row.why, versions, started)
			}
			w.clock.Advance(time.Minute)
			if err := w.db.Jobs.Report(t.Context(), started[0], rollout.JobSuccessful, w.clock.Now()); err != nil {
				t.Fatal(err)
			}
			w.clock.Advance(time.Minute)
		}
		runs := func(want ...string) {
			t.Helper()
			var got []string
			for _, job := range w.jobs() {
				got = append(got, job.Version)
			}
			if !slices.Equal(got, want) { // runs, and so versions, in their order
				t.Errorf("%s: jobs bring %q, want %q", row.why, got, want)
			}
		}
		late, other := w.controller(nil), w.controller(nil)
		deploy(late, "v1")
		late.Jobs = row.late(w.db, func() { deploy(other, "v1", "v3") }) // v2 is skipped where this one reads its versions
		refused := turn(late, "v1", "v2")
		if len(refused.Dispatched) > 0 || len(refused.Refused) != 1 || !errors.Is(refused.Refused[0], controller.ErrOvertaken) {
			t.Errorf("%s: dispatched %q, refused %v, want ErrOvertaken", row.why, refused.Dispatched, refused.Refused)
		}
		runs("v1", "v3")
		late.Jobs = w.db.Jobs
		if again := turn(late, "v1", "v2", "v3"); len(again.Plan.Start) > 0 {
			t.Errorf("%s: planned again it starts %v", row.why, again.Plan.Start)
		}
		deploy(late, "v1", "v2", "v3", "v4")
		runs("v1", "v3", "v4")
	}
}

// checkRush lets many offer jobs for one target that all have seen the same. Whoever creates one
// ends it at once, so that nothing is active to stop the others.
func checkRush(t *testing.T, d Driver) {
	jobs, at := d.fresh(t).Jobs, epoch()
	const rounds, crowd = 4, 6
	for seen := range rounds {
		var group sync.WaitGroup
		var created, refused atomic.Int64
		for i := range crowd {
			group.Go(func() {
				start := rollout.Start{TargetID: rollout.TargetID{Resource: "r", Environment: "prod", Deployment: "app"}, Version: "v1", Run: fmt.Sprint(seen, " ", i), Group: "g"}
				switch done, err := jobs.Dispatch(t.Context(), start, seen, at); {
				case done:
					created.Add(1)
					if err := jobs.Report(t.Context(), start.Run, rollout.JobSuccessful, at); err != nil {
						t.Error(err)
					}
				case errors.Is(err, controller.ErrBusy), errors.Is(err, controller.ErrOvertaken), errors.Is(err, bracket.ErrConflict):
					refused.Add(1)
				default:
					t.Errorf("%s: %v, %v", start.Run, done, err)
				}
			})
		}
		group.Wait()
		if created.Load() != 1 || refused.Load() != crowd-1 {
			t.Errorf("after %d jobs, %d offers create %d, and %d are refused", seen, crowd, created.Load(), refused.Load())
		}
	}
}

// beaten is a store on which somebody else is faster.
type beaten struct {
	bracket.Store
	before func() // is called before every save
}

func (b *beaten) Save(ctx context.Context, key string, value []byte, revision int64) (int64, error) {
	if b.before != nil {
		b.before()
	}
	return b.Store.Save(ctx, key, value, revision)
}

func checkConflict(t *testing.T, d Driver) {
	w := newWorld(t, d.fresh(t), 3)
	w.clock.Advance(2 * time.Minute)
	store := &beaten{Store: w.db.Store}
	slow, other := w.controller(store), w.controller(nil)
	once := func() {
		store.before = nil
		w.turn(other)
	}
	store.before = once
	turn := w.turn(slow)
	if turn.Conflicts != 1 {
		t.Errorf("%d conflicts, want 1, and another attempt", turn.Conflicts)
	}
	if len(turn.Dispatched) > 0 {
		t.Errorf("the slow one starts %v besides what the other one started", turn.Dispatched)
	}
	w.run(other, w.clock.Now().Add(90*time.Second)) // ends of jobs are to be folded: there is something to save
	w.clock.Advance(time.Minute)
	w.agents()
	always, attempts := 0, 0
	store.before = func() {
		attempts++
		entries, err := w.db.Store.List(t.Context(), "bracket/")
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries { // the same value again is a newer revision
			if _, err := w.db.Store.Save(t.Context(), e.Key, e.Value, e.Revision); err == nil {
				always++
			}
		}
	}
	turn, err := w.try(t.Context(), slow)
	if !errors.Is(err, bracket.ErrConflict) || turn.Conflicts != 3 || attempts != 3 || always == 0 {
		t.Errorf("beaten every time: %d conflicts in %d attempts, %v, want 3 and ErrConflict", turn.Conflicts, attempts, err)
	}
	if !turn.Plan.Now.IsZero() || len(turn.Dispatched) > 0 {
		t.Errorf("an error and a plan: %+v", turn)
	}
	store.before = nil
	w.finish(slow)
}

func checkPaused(t *testing.T, d Driver) {
	if testing.Short() {
		t.Skip("skipped: it takes some seconds of real time")
	}
	for call, want := range map[string]string{"dispatch": lineFenced, "save": lineConflict} {
		t.Run(call, func(t *testing.T) {
			s := newSchedule(t, d, 1, &Tally{})
			process, lines := listen(t, child{Address: d.Address, Space: s.space, Nodes: scheduleNodes, Epoch: s.clock.epoch, Start: s.clock.start, Trap: call, Patience: 10 * time.Second})
			await(t, lines, lineStopped, 40*time.Second)
			process.pause()
			s.finishAlone()
			before := s.dispatched()
			process.wake()
			t.Log(await(t, lines, want, 20*time.Second))
			s.audit()
			if after := s.dispatched(); !reflect.DeepEqual(before, after) {
				t.Errorf("the late write changed the jobs:\n%+v\nwere\n%+v", after, before)
			}
		})
	}
}

func checkCutOff(t *testing.T, d Driver) {
	if testing.Short() {
		t.Skip("skipped: it takes some seconds of real time")
	}
	proxies, address := d.proxied(t)
	s := newSchedule(t, d, 1, &Tally{})
	_, lines := listen(t, child{Address: address, Space: s.space, Nodes: scheduleNodes, Epoch: s.clock.epoch, Start: s.clock.start, Trap: "nothing"})
	await(t, lines, lineCreated, 20*time.Second)
	for _, p := range proxies {
		p.stall()
	}
	s.finishAlone() // every slot that the other one ever held is given back
	before := s.dispatched()
	for _, p := range proxies {
		p.resume()
	}
	await(t, lines, lineFailed, 20*time.Second) // it says what happened to it
	time.Sleep(4 * callTimeout)                 // it has the network back, and some turns behind it
	s.audit()
	if after := s.dispatched(); !reflect.DeepEqual(before, after) {
		t.Errorf("what arrived late changed the jobs:\n%+v\nwere\n%+v", after, before)
	}
}

// listen starts a controller as a process, and returns what it says.
func listen(t *testing.T, c child) (*process, <-chan string) {
	t.Helper()
	h := &host{schedule: &schedule{TB: t, tally: &Tally{}, over: make(chan struct{}), calm: make(chan struct{})}}
	description, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	process, err := h.start(string(description))
	if err != nil {
		t.Fatal(err)
	}
	lines := make(chan string, 10000)
	go func() {
		defer close(lines)
		for in := bufio.NewScanner(process.out); in.Scan(); {
			lines <- in.Text()
		}
	}()
	t.Cleanup(func() {
		close(h.over)
		for range lines { // until it has ended
		}
		_ = process.Wait()
		h.group.Wait()
	})
	return process, lines
}

// await reads on until a line of some kind.
func await(t *testing.T, lines <-chan string, kind string, patience time.Duration) string {
	t.Helper()
	var seen []string
	for timeout := time.After(patience); ; {
		select {
		case line, open := <-lines:
			if got, _, _ := strings.Cut(line, " "); open && got == kind {
				return line
			}
			if !open || strings.HasPrefix(line, lineBroken) {
				t.Fatalf("the controller ended before it said %q: %s\n%s", kind, line, strings.Join(seen, "\n"))
			}
			seen = append(seen, line)
		case <-timeout:
			t.Fatalf("the controller does not say %q: %s", kind, strings.Join(seen, "\n"))
		}
	}
}

// finishAlone runs a controller in this process, on the clock that processes share, with agents,
// until everything is done.
func (s *schedule) finishAlone() {
	s.Helper()
	set, err := compiled()
	if err != nil {
		s.Fatal(err)
	}
	c := controller.Controller{Policies: set, Store: s.db.Store, Jobs: s.db.Jobs, Clock: s.clock}
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		c.Fleet = nodes(scheduleNodes, epoch(), s.clock.Now())
		if _, err := c.Turn(s.Context()); err != nil && !errors.Is(err, bracket.ErrConflict) {
			s.Fatal(err)
		}
		jobs, active, _ := s.observe()
		s.agents(jobs, true)
		if s.finished(jobs, active, scheduleNodes) {
			return
		}
	}
	jobs, active, _ := s.observe()
	s.Fatalf("the rollout does not end: %s", s.state(jobs, active))
}

// dispatched are all jobs that there are. Records may differ after a pause: a plan that is made
// again after a conflict still rests on what was observed before it, may claim a slot for a job
// that has ended since, and gives it back as an orphan.
func (s *schedule) dispatched() []controller.Job {
	s.Helper()
	jobs, err := s.db.Jobs.All(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	return jobs
}
