//go:build unix

package controllertest

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/bracket/brackettest"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/examples/internal/controller"
	"github.com/tranche-dev/tranche/rollout"
)

// RunHost checks what a host relies on, with a database under it: jobs that are created once and fenced, plans that are whole or errors, state
// that another database continues.
func RunHost(t *testing.T, d Driver) {
	for _, c := range []struct {
		name string
		why  string
		run  func(*testing.T, Driver)
	}{
		{"jobs", "attempts, slots and ages are derived from jobs, so nothing of them may be lost or rounded", checkJobs},
		{"dispatch", "a job is created once, on a slot that is held, on a target that is free", checkDispatch},
		{"foreign jobs count", "what people do by hand disrupts a node as well", checkForeign},
		{"a plan that slept is fenced", "a controller that was paused after its save must not start what was finished and given up meanwhile", checkFenced},
		{"a save that slept conflicts", "a controller that was paused before its save must decide again", checkConflict},
		{"a process that slept", "the same with a real process, stopped in the middle of a call and woken when everything is over", checkPaused},
		{"a network that is cut", "a controller that is cut off for longer than it held anything must change nothing when it is back", checkCutOff},
		{"crashes after every write", "whatever was written when a controller died, the next one goes on", checkCrashes},
		{"two controllers with faults", "lost calls, lost answers, stale reads and late writes may slow a rollout down, and nothing else", checkFaults},
		{"no answer, no plan", "a host that cannot read must not decide", checkDown},
		{"half an answer, no list", "what is missing from a list looks like a free slot", checkHalf},
		{"orphans are given back", "a slot that nobody uses and nobody releases stops the rollout for ever", checkOrphans},
		{"another database goes on", "moving to another database must not repeat or forget anything", checkMove},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel() // each has a database of its own
			t.Cleanup(func() {
				if t.Failed() {
					t.Logf("why this matters: %s", c.why)
				}
			})
			c.run(t, d)
		})
	}
}

func (d Driver) fresh(t *testing.T) Database {
	t.Helper()
	return d.open(t, d.Space(t))
}

func checkJobs(t *testing.T, d Driver) {
	ctx, jobs := t.Context(), d.fresh(t).Jobs
	at := time.Date(2026, 3, 10, 9, 0, 0, 123456789, time.UTC)
	long := strings.Repeat("x", 200)
	want := []controller.Job{
		{TargetID: rollout.TargetID{Resource: "a/b%c", Environment: "prod", Deployment: "api"}, Group: "g 1",
			Job: rollout.Job{Run: "1/ä %2F", Version: "v1", Status: rollout.JobSuccessful, CreatedAt: at, CompletedAt: at.Add(time.Nanosecond)}},
		{TargetID: rollout.TargetID{Resource: "by hand"}, Job: rollout.Job{Run: "2", Status: "a status of tomorrow"}},
		{TargetID: rollout.TargetID{Resource: long, Environment: long, Deployment: long}, Group: long, Job: rollout.Job{Run: "3" + long, Version: long, Status: rollout.JobQueued, CreatedAt: at}},
	}
	for _, i := range []int{2, 0, 1} {
		if err := jobs.Put(ctx, want[i]); err != nil {
			t.Fatal(err)
		}
	}
	all := func() []controller.Job {
		t.Helper()
		got, err := jobs.All(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := all(); !reflect.DeepEqual(got, want) {
		t.Errorf("All:\n%+v\nwant\n%+v", got, want)
	}
	for _, row := range []struct {
		why    string
		run    string
		status rollout.JobStatus
		want   error
	}{
		{"an unknown run is not found", "4", rollout.JobSuccessful, bracket.ErrNotFound},
		{"the first end counts", "1/ä %2F", rollout.JobFailure, bracket.ErrConflict},
		{"a repeated report is nothing", "1/ä %2F", rollout.JobSuccessful, nil},
		{"a job that began is still active", "3" + long, rollout.JobInProgress, nil},
		{"a job ends", "3" + long, rollout.JobFailure, nil},
	} {
		if err := jobs.Report(ctx, row.run, row.status, at.Add(time.Hour)); !errors.Is(err, row.want) || (err == nil) != (row.want == nil) {
			t.Errorf("%s: Report: %v, want %v", row.why, err, row.want)
		}
	}
	want[2].Status, want[2].CompletedAt = rollout.JobFailure, at.Add(time.Hour)
	if got := all(); !reflect.DeepEqual(got, want) {
		t.Errorf("after the reports:\n%+v\nwant\n%+v", got, want)
	}
	for _, wrong := range []controller.Job{{TargetID: rollout.TargetID{Resource: "r"}}, {Job: rollout.Job{Run: "r"}}} {
		if err := jobs.Put(ctx, wrong); err == nil {
			t.Errorf("%+v is stored", wrong)
		}
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	_, err := jobs.All(cancelled)
	_, dispatched := jobs.Dispatch(cancelled, rollout.Start{TargetID: want[0].TargetID, Run: "9"}, at)
	for _, err := range []error{err, dispatched, jobs.Put(cancelled, want[0]), jobs.Report(cancelled, "2", rollout.JobFailure, at), jobs.SetPool(cancelled, "p", nil)} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("with a cancelled context: %v", err)
		}
	}
	if got := all(); !reflect.DeepEqual(got, want) {
		t.Errorf("after what was refused:\n%+v\nwant\n%+v", got, want)
	}
}

func checkDispatch(t *testing.T, d Driver) {
	ctx, db := t.Context(), d.fresh(t)
	at := epoch()
	holder := concurrency.Holder{Resource: "n1", Group: "g"}
	save := func(pool string, revision int64, leases ...concurrency.Lease) int64 {
		t.Helper()
		record := concurrency.NewRecord(pool)
		record.NextToken = 10
		record.Leases = append(record.Leases, leases...)
		value, err := json.Marshal(record)
		if err != nil {
			t.Fatal(err)
		}
		next, err := db.Store.Save(ctx, rollout.PoolKey(pool), value, revision)
		if err != nil {
			t.Fatal(err)
		}
		return next
	}
	leaseIn := func(pool string, token uint64) concurrency.Lease {
		return concurrency.Lease{Pool: pool, Resource: holder.Resource, Group: holder.Group, Token: token, Since: at, ProgressAt: at}
	}
	const cluster, zone = "cluster/%", "zone"
	save(cluster, 0, leaseIn(cluster, 4))
	inZone := save(zone, 0, leaseIn(zone, 7))
	start := func(run, deployment string, tokens ...uint64) rollout.Start {
		s := rollout.Start{TargetID: rollout.TargetID{Resource: "n1", Environment: "prod", Deployment: deployment}, Version: "v1", Run: run, Group: "g"}
		for i, pool := range []string{zone, cluster}[:len(tokens)] {
			s.Claims = append(s.Claims, rollout.Claim{Pool: pool, Token: tokens[i]})
		}
		return s
	}
	expect := func(why string, s rollout.Start, created bool, want error) {
		t.Helper()
		got, err := db.Jobs.Dispatch(ctx, s, at)
		if got != created || !errors.Is(err, want) || (err == nil) != (want == nil) {
			t.Errorf("%s: Dispatch: %v, %v, want %v, %v", why, got, err, created, want)
		}
	}
	expect("an old token", start("1", "api", 6, 4), false, concurrency.ErrFenced)
	expect("one of two tokens is old", start("1", "api", 7, 3), false, concurrency.ErrFenced)
	expect("nothing was created", start("1", "api", 7, 4), true, nil)
	expect("again", start("1", "api", 7, 4), false, nil)
	expect("another job is active", start("2", "api", 7, 4), false, controller.ErrBusy)
	expect("on another target it is not", start("3", "web", 7, 4), true, nil)
	expect("no claims: no limit governs it", start("4", "free"), true, nil)
	if err := db.Jobs.Put(ctx, controller.NewJob(start("5", "api"), at)); !errors.Is(err, controller.ErrBusy) {
		t.Errorf("a second active job on a target: %v", err)
	}
	if err := db.Jobs.Report(ctx, "1", rollout.JobSuccessful, at); err != nil {
		t.Fatal(err)
	}
	expect("the target is free", start("2", "api", 7, 4), true, nil)
	if err := db.Jobs.Report(ctx, "2", rollout.JobSuccessful, at); err != nil {
		t.Fatal(err)
	}
	save(zone, inZone)
	expect("the lease was given back", start("6", "api", 7, 4), false, concurrency.ErrFenced)
	expect("also for a job that exists: whoever asks has lost the slot", start("2", "api", 7, 4), false, concurrency.ErrFenced)
	unknown := start("7", "api", 1)
	unknown.Claims[0].Pool = "never heard of"
	expect("a pool without a record", unknown, false, concurrency.ErrFenced)
	if _, err := db.Jobs.Dispatch(ctx, rollout.Start{}, at); err == nil {
		t.Error("a start without names creates a job")
	}
}

func checkForeign(t *testing.T, d Driver) {
	w := newWorld(t, d.fresh(t), 4)
	w.clock.Advance(2 * time.Minute)
	for i, status := range []rollout.JobStatus{"by hand", "successful", "by hand"} {
		err := w.db.Jobs.Put(t.Context(), controller.Job{TargetID: rollout.TargetID{Resource: fmt.Sprint("node-", i)}, Job: rollout.Job{Run: fmt.Sprint(i), Status: status}, Group: "by hand"})
		if err != nil {
			t.Fatal(err)
		}
	}
	turn := w.turn(w.controller(nil))
	for _, run := range turn.Dispatched {
		if !strings.Contains(run, "node-0/") && !strings.Contains(run, "node-2/") {
			t.Errorf("%s starts while two nodes are down by hand", run)
		}
	}
	if len(turn.Dispatched) == 0 {
		t.Error("nodes that are down already may be repaired")
	}
}

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

// listen starts a controller as a process, and returns what it says.
func listen(t *testing.T, c child) (*os.Process, <-chan string) {
	t.Helper()
	h := &host{schedule: &schedule{TB: t, tally: &Tally{}, over: make(chan struct{}), calm: make(chan struct{})}}
	description, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	process, out, err := h.start(string(description))
	if err != nil {
		t.Fatal(err)
	}
	lines := make(chan string, 10000)
	go func() {
		defer close(lines)
		for in := bufio.NewScanner(out); in.Scan(); {
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
	return process.Process, lines
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

// real is a controller in this process on the clock that processes share, with agents, until everything is done.
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

func checkPaused(t *testing.T, d Driver) {
	if testing.Short() {
		t.Skip("skipped: it takes some seconds of real time")
	}
	for call, want := range map[string]string{"dispatch": lineFenced, "save": lineConflict} {
		t.Run(call, func(t *testing.T) {
			s := newSchedule(t, d, 1, &Tally{})
			process, lines := listen(t, child{Address: d.Address, Space: s.space, Nodes: scheduleNodes, Epoch: s.clock.epoch, Start: s.clock.start, Trap: call, Patience: 10 * time.Second})
			await(t, lines, lineStopped, 40*time.Second)
			s.finishAlone()
			before := s.dispatched()
			if err := process.Signal(syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
			t.Log(await(t, lines, want, 20*time.Second))
			s.audit()
			if after := s.dispatched(); !reflect.DeepEqual(before, after) {
				t.Errorf("the late write changed the jobs:\n%+v\nwere\n%+v", after, before)
			}
		})
	}
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

func checkCrashes(t *testing.T, d Driver) {
	db := d.fresh(t)
	var want []string
	for n := 0; ; n++ {
		if n > 0 {
			db = d.fresh(t)
		}
		w := newWorld(t, db, 3)
		w.clock.Advance(2 * time.Minute)
		_, err := w.try(t.Context(), w.controller(brackettest.NewFaultStore(db.Store, brackettest.CrashAfter(n))))
		if err != nil && !errors.Is(err, brackettest.ErrCrashed) {
			t.Fatal(err)
		}
		w.clock.Advance(time.Second)
		w.turn(w.controller(nil))
		var runs []string
		for _, job := range w.jobs() {
			runs = append(runs, job.Run)
		}
		if want == nil {
			want = runs
		}
		if len(runs) == 0 || !slices.Equal(runs, want) {
			t.Errorf("crash after %d writes: jobs %q, want %q", n, runs, want)
		}
		if err == nil {
			if n < 3 {
				t.Errorf("only %d writes", n)
			}
			return
		}
	}
}

func checkFaults(t *testing.T, d Driver) {
	kinds := []brackettest.Fault{brackettest.Lose, brackettest.LoseAnswer, brackettest.Conflict, brackettest.Repeat, brackettest.Stale, brackettest.Delay, brackettest.Crash}
	seeds, seen := uint64(6), map[string]int{}
	if testing.Short() {
		seeds = 2
	}
	for seed := range seeds {
		random := rand.New(rand.NewPCG(seed, 0))
		w := newWorld(t, d.fresh(t), 3)
		faults := true
		choose := func(brackettest.Call) brackettest.Fault {
			if !faults || random.IntN(8) > 0 {
				return brackettest.None
			}
			return kinds[random.IntN(len(kinds))]
		}
		var clients []*brackettest.FaultStore
		var hosts []*controller.Controller
		for range 2 {
			client := brackettest.NewFaultStore(w.db.Store, choose)
			clients, hosts = append(clients, client), append(hosts, w.controller(client))
		}
		for range 60 {
			i := random.IntN(2)
			turn, err := w.try(t.Context(), hosts[i])
			switch {
			case err == nil:
				seen["turn"]++
			case errors.Is(err, bracket.ErrConflict):
				seen["gave up"]++
			case errors.Is(err, brackettest.ErrInjected):
				seen["lost"]++
			case errors.Is(err, brackettest.ErrCrashed):
				seen["crash"]++
				clients[i].Restart(choose)
				hosts[i] = w.controller(clients[i])
			default:
				t.Fatalf("seed %d: %v", seed, err)
			}
			seen["conflict"] += turn.Conflicts
			seen["created"] += len(turn.Dispatched)
			w.agents()
			w.clock.Advance(time.Duration(random.IntN(15)) * time.Second)
		}
		faults = false
		for _, client := range clients {
			client.Restart(nil)
		}
		w.finish(hosts[0])
		s := &schedule{TB: t, db: w.db, tally: &Tally{}}
		s.audit()
	}
	for _, want := range []string{"turn", "conflict", "lost", "crash", "created"} {
		if seen[want] == 0 {
			t.Errorf("%q never happened", want)
		}
	}
	t.Log(seen)
}

func checkDown(t *testing.T, d Driver) {
	proxies, address := d.proxied(t)
	space := d.Space(t)
	w := newWorld(t, d.open(t, space), 3)
	w.clock.Advance(2 * time.Minute)
	far, err := d.Open(t.Context(), address, space)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(far.Close)
	c := &controller.Controller{Policies: w.set, Store: far.Store, Jobs: far.Jobs, Clock: w.clock}
	down := func(why string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		turn, err := w.try(ctx, c)
		if err == nil || errors.Is(err, bracket.ErrConflict) || errors.Is(err, bracket.ErrNotFound) {
			t.Errorf("%s: %v, want an error that says so", why, err)
		}
		planner := rollout.Planner{Policies: w.set, Store: far.Store, Clock: w.clock}
		late, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		plan, planned := planner.Plan(late, nodes(w.size, epoch(), w.clock.Now()))
		if planned == nil || !plan.Now.IsZero() || len(plan.Start) > 0 || !turn.Plan.Now.IsZero() || len(turn.Dispatched) > 0 {
			t.Errorf("%s: a decision: %+v, %v", why, plan, planned)
		}
		t.Logf("%s: %v; %v", why, err, planned)
		if got := w.jobs(); len(got) > 0 {
			t.Errorf("%s: jobs %+v", why, got)
		}
	}
	for _, p := range proxies {
		p.stall()
	}
	down("nothing arrives")
	for _, p := range proxies {
		p.resume()
		p.deafen()
	}
	down("no answer arrives")
	for _, p := range proxies {
		p.close()
	}
	down("nobody listens")
	if turn := w.turn(w.controller(nil)); len(turn.Dispatched) == 0 {
		t.Error("nothing starts when the database is back")
	}
}

func checkHalf(t *testing.T, d Driver) {
	proxies, address := d.proxied(t)
	space := d.Space(t)
	db := d.open(t, space)
	const records = 2500 // more than one page
	value := bytes.Repeat([]byte("value "), 50)
	for i := range records {
		if _, err := db.Store.Save(t.Context(), fmt.Sprintf("k/%05d", i), value, 0); err != nil {
			t.Fatal(err)
		}
	}
	far, err := d.Open(t.Context(), address, space)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(far.Close)
	begun := time.Now()
	if list, err := far.Store.List(t.Context(), "k/"); err != nil || len(list) != records {
		t.Fatalf("%d records, %v", len(list), err)
	}
	enough := 300*time.Millisecond + 5*time.Since(begun)
	whole, broken := 0, 0
	for n := int64(100); ; n *= 3 {
		for _, p := range proxies {
			p.cut()
			p.allow(n)
		}
		ctx, cancel := context.WithTimeout(t.Context(), enough)
		list, err := far.Store.List(ctx, "k/")
		cancel()
		switch {
		case err != nil:
			broken++
			if len(list) > 0 {
				t.Fatalf("cut after %d bytes: an error and %d records", n, len(list))
			}
		case len(list) != records:
			t.Fatalf("cut after %d bytes: %d records of %d, and no error", n, len(list), records)
		default:
			whole++
		}
		if n > 8<<20 {
			break
		}
	}
	if whole == 0 || broken < 4 {
		t.Errorf("%d lists were whole and %d were errors: both must happen", whole, broken)
	}
}

func checkOrphans(t *testing.T, d Driver) {
	w := newWorld(t, d.fresh(t), 3)
	w.clock.Advance(2 * time.Minute)
	stale := controller.Observe(nodes(w.size, epoch(), w.clock.Now()), w.jobs())
	w.finish(w.controller(nil))
	planner := rollout.Planner{Policies: w.set, Store: w.db.Store, Clock: w.clock} // it missed a whole rollout
	plan, err := planner.Plan(t.Context(), stale)
	if err != nil {
		t.Fatal(err)
	}
	if len(plan.Start) == 0 {
		t.Fatal("the stale observation starts nothing, so no slot is orphaned")
	}
	for _, start := range plan.Start {
		if created, err := w.db.Jobs.Dispatch(t.Context(), start, w.clock.Now()); created || err != nil {
			t.Errorf("%s: created %v, %v: its job exists", start.Run, created, err)
		}
	}
	c, released := w.controller(nil), 0
	for range 20 {
		released += len(w.turn(c).Released)
		w.clock.Advance(10 * time.Second)
	}
	if released == 0 || !w.done() {
		t.Errorf("%d leases released, done %v", released, w.done())
	}
}

// halfWay is when the rollout is interrupted: executions are open, members have succeeded, a slot is held between two jobs, and somebody waits.
const halfWay = 4*time.Minute + 10*time.Second

//go:embed testdata/*.json
var dumps embed.FS

// checkMove exports a rollout that is half done, compares that with what was exported when the files were written (TRANCHE_UPDATE=1 writes them),
// and lets every such file, from whatever database, be continued on this one. It must end as the rollout that was never interrupted.
func checkMove(t *testing.T, d Driver) {
	uninterrupted := newWorld(t, memory(), 3)
	uninterrupted.finish(uninterrupted.controller(nil))

	w := newWorld(t, d.fresh(t), 3)
	w.run(w.controller(nil), epoch().Add(halfWay))
	dump, err := controller.Export(t.Context(), w.db.Store, w.db.Jobs)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.MarshalIndent(dump, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	name := "from-" + d.Name + ".json"
	if os.Getenv("TRANCHE_UPDATE") != "" {
		if err := os.WriteFile(filepath.Join(d.Dumps, name), append(text, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	files, err := dumps.ReadDir("testdata")
	if err != nil {
		t.Fatal(err)
	}
	own := false
	for _, file := range files {
		data, err := dumps.ReadFile("testdata/" + file.Name())
		if err != nil {
			t.Fatal(err)
		}
		stored, err := controller.ParseDump(data)
		if err != nil {
			t.Fatal(err)
		}
		if file.Name() == name {
			own = true
			if got, want := normal(t, dump), normal(t, stored); got != want {
				t.Errorf("the export is not what %s holds (TRANCHE_UPDATE=1 writes it):\n%s\nwant\n%s", name, got, want)
			}
		}
		next := newWorld(t, d.fresh(t), 3)
		if err := controller.Import(t.Context(), stored, next.db.Store, next.db.Jobs); err != nil {
			t.Fatal(err)
		}
		next.clock.Set(epoch().Add(halfWay))
		next.finish(next.controller(nil))
		if got, want := next.jobs(), uninterrupted.jobs(); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: continued here, the jobs are\n%+v\nand without interruption\n%+v", file.Name(), got, want)
		}
		if err := controller.Import(t.Context(), stored, next.db.Store, next.db.Jobs); !errors.Is(err, bracket.ErrConflict) && !errors.Is(err, controller.ErrBusy) {
			t.Errorf("%s: import into a database that is not empty: %v", file.Name(), err)
		}
	}
	if !own || len(files) < 2 {
		t.Errorf("%d dumps, own %v", len(files), own)
	}
}

// normal is a dump without what belongs to a database: the revision that a pool's record was read at.
func normal(t *testing.T, dump controller.Dump) string {
	t.Helper()
	dump.Records = slices.Clone(dump.Records)
	for i, record := range dump.Records {
		if !strings.HasPrefix(record.Key, rollout.PoolKey("")) {
			continue
		}
		pool, err := concurrency.ParseRecord(record.Value)
		if err != nil {
			t.Fatal(err)
		}
		pool.Revision = 0
		if dump.Records[i].Value, err = json.Marshal(pool); err != nil {
			t.Fatal(err)
		}
	}
	slices.SortFunc(dump.Records, func(a, b controller.Record) int { return cmp.Compare(a.Key, b.Key) })
	text, err := json.MarshalIndent(dump, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// memory is the reference.
func memory() Database {
	m := &controller.Memory{}
	return Database{Store: m, Jobs: m, Close: func() {}}
}
