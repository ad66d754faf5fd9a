//go:build unix

package controllertest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/examples/internal/controller"
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
		if created, err := w.db.Jobs.Dispatch(t.Context(), start, w.clock.Now()); created || !errors.Is(err, concurrency.ErrFenced) {
			t.Errorf("late dispatch of %s: %v, %v, want ErrFenced", start.Run, created, err)
		}
	}
	if after := w.jobs(); !reflect.DeepEqual(before, after) {
		t.Errorf("the late dispatch changed the jobs")
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

// finishAlone runs a controller in this process, on the clock that processes share, with agents, until everything is done.
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

// dispatched are all jobs that there are. Records may differ after a pause: a plan that is made again after a conflict still rests on what was
// observed before it, may claim a slot for a job that has ended since, and gives it back as an orphan.
func (s *schedule) dispatched() []controller.Job {
	s.Helper()
	jobs, err := s.db.Jobs.All(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	return jobs
}
