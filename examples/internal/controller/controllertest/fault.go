//go:build unix

package controllertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/bracket/brackettest"
	"github.com/tranche-dev/tranche/examples/internal/controller"
	"github.com/tranche-dev/tranche/rollout"
)

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
		random := rand.New(rand.NewPCG(seed, 6))
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
		patience := enough
		if n > 4*records*int64(len(value)) { // it arrives as a whole, however long the client waits before it connects again
			patience = 30 * time.Second
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
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
		if created, err := w.db.Jobs.Dispatch(t.Context(), start, 0, w.clock.Now()); created || err != nil {
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

// loading is a store on which something happens around the load of a record.
type loading struct {
	bracket.Store
	before, after func()
}

func (l *loading) Load(ctx context.Context, key string) ([]byte, int64, error) {
	if l.before != nil {
		l.before()
	}
	value, revision, err := l.Store.Load(ctx, key)
	if l.after != nil {
		l.after()
	}
	return value, revision, err
}

func checkOrphanInUse(t *testing.T, d Driver) {
	for _, when := range []string{"before it is read", "before it is given back"} {
		w := newWorld(t, d.fresh(t), 3)
		w.clock.Advance(2 * time.Minute)
		const claimed = 3 // writes: the group, its rollout, the pool; the execution is not saved any more
		if _, err := w.try(t.Context(), w.controller(brackettest.NewFaultStore(w.db.Store, brackettest.CrashAfter(claimed)))); !errors.Is(err, brackettest.ErrCrashed) {
			t.Fatal(err)
		}
		store := &loading{Store: w.db.Store}
		c := w.controller(store)
		c.Grace = 10 * time.Second
		turn := func() controller.Turn { // it prefers other nodes, and so takes the lease for an orphan
			t.Helper()
			c.Fleet = disagreeing(w.size, epoch(), w.clock.Now(), true)
			turn, err := c.Turn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return turn
		}
		first := turn()
		if len(first.Plan.Orphans) != 1 {
			t.Fatalf("orphans %+v", first.Plan.Orphans)
		}
		orphan := first.Plan.Orphans[0]
		w.clock.Advance(c.Grace)
		used := false
		use := func() { // another controller goes on with what was claimed
			store.before, store.after = nil, nil
			for _, run := range w.turn(w.controller(nil)).Dispatched {
				used = used || strings.Contains(run, orphan.Resource+"/"+drain)
			}
		}
		if when == "before it is read" {
			store.before = use
		} else {
			store.after = use
		}
		if released := turn().Released; len(released) > 0 || !used {
			t.Errorf("%s: released %q, used %v", when, released, used)
		}
		holds := false
		for _, lease := range (&schedule{TB: t, db: w.db}).leases() {
			holds = holds || lease.Holder == orphan.Holder && lease.Token == orphan.Token
		}
		if !holds {
			t.Errorf("%s: %+v is lost while its job is active", when, orphan)
		}
		w.finish(w.controller(nil))
	}
}

// past is what the jobs were some time ago: everything but the observation is done with those of
// now.
type past struct {
	controller.Jobs
	all []controller.Job
}

func (p *past) All(ctx context.Context) ([]controller.Job, error) {
	return p.all, ctx.Err()
}

func checkPast(t *testing.T, d Driver) {
	const step = 10 * time.Second
	behind := 0
	seeds := uint64(8)
	if testing.Short() {
		seeds = 2
	}
	for seed := range seeds {
		random := rand.New(rand.NewPCG(seed, 1))
		w := newWorld(t, d.fresh(t), 4)
		w.clock.Advance(2 * time.Minute)
		hosts := []*controller.Controller{w.controller(nil), w.controller(nil)}
		var history [][]controller.Job
		for !w.done() {
			if history = append(history, w.jobs()); len(history) > 400 {
				t.Fatalf("seed %d: the rollout does not end: %v", seed, w.jobs())
			}
			contrary := random.IntN(2)
			c := hosts[contrary]
			lag := 0
			if random.IntN(3) == 0 {
				lag = random.IntN(16)
			}
			lag = min(lag, len(history)-1) // of the versions as well: whoever looks at the past knows no newer ones
			c.Jobs = &past{Jobs: w.db.Jobs, all: history[len(history)-1-lag]}
			c.Fleet = disagreeing(w.size, epoch(), w.clock.Now().Add(-time.Duration(lag)*step), contrary == 1)
			turn, err := c.Turn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, err := range turn.Refused {
				if errors.Is(err, controller.ErrOvertaken) {
					behind++
				}
			}
			w.agents()
			w.clock.Advance(step)
		}
		s := &schedule{TB: t, db: w.db, tally: &Tally{}}
		s.audit()
	}
	if behind == 0 && !testing.Short() {
		t.Error("nobody was ever overtaken")
	}
}
