package rollout_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/bracket/brackettest"
	"github.com/tranche-dev/tranche/clock"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/internal/testkit"
	"github.com/tranche-dev/tranche/rollout"
)

// TestKeysUnderFaults lets three planners work on one store, each on observations of its own age,
// with turns of others between any two calls, lost calls and answers, conflicts and crashes. No
// more zones are at work than may be, no zone has more at work than it may, and once the faults
// stop everything ends, although nobody gives a slot back that was claimed and never used.
func TestKeysUnderFaults(t *testing.T) {
	seen := testkit.Tally{}
	sets := map[string]*rollout.PolicySet{}
	for _, also := range []string{"", `,{"id":"Q","resourceConcurrency":{"groupSelector":"true","limit":2}}`} {
		for _, bracketed := range []string{"", `,{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{"pre":"deployment.name == 'a'"}}}`} {
			for _, limits := range [][2]int{{1, 1}, {1, 2}, {2, 1}, {2, 2}} {
				sets[fmt.Sprint(limits, also != "", bracketed != "")] = compile(t, policy(fmt.Sprintf(`{"id":"R","retry":{"maxRetries":99}},
					{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":%d,"groupBy":"resource.metadata['zone']","maxActiveKeys":%d}}`, limits[0], limits[1])+also+bracketed))
			}
		}
	}
	seen.Check(t, func(t *rapid.T) {
		w := newKeyWorld(t, seen, sets)
		for range between(t, "steps", 5, 40) {
			w.step()
		}
		w.finish()
	}, "start", "turn in between", "crash", "injected", "conflict", "late", "given back", "idle claim", "too many idle claims", "waits for a key", "execution", "finished")
}

type keyWorld struct {
	*rapid.T
	seen   testkit.Tally
	set    *rollout.PolicySet
	store  *bracket.MemoryStore
	fleet  rollout.Snapshot
	now    time.Time
	hosts  []*keyHost
	starts map[string]rollout.Start
	late   []lateKeyStart
	places int // per zone
	keys   int
	faults bool
	depth  int
}

type keyHost struct {
	client *brackettest.FaultStore
	view   []rollout.Target
	blind  string // the resource for which it has not heard of v2
	acting bool
}

type lateKeyStart struct {
	rollout.Start
	seen map[string]bool // jobs
}

func newKeyWorld(t *rapid.T, seen testkit.Tally, sets map[string]*rollout.PolicySet) *keyWorld {
	w := &keyWorld{T: t, seen: seen, store: &bracket.MemoryStore{}, now: t0, starts: map[string]rollout.Start{}, faults: true,
		places: between(t, "places", 1, 2), keys: between(t, "keys", 1, 2)}
	w.set = sets[fmt.Sprint([2]int{w.places, w.keys}, uniform(t, "another pool", 3) == 2, uniform(t, "bracket", 3) == 2)]
	w.fleet = fleet(between(t, "resources", 2, 5), "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}})
	for k := range w.fleet.Resources {
		w.fleet.Resources[k].Metadata = map[string]string{"zone": oneOf(t, "zone", "east", "north", "west")}
	}
	for range 3 {
		h := &keyHost{view: slices.Clone(w.fleet.Targets), blind: oneOf(t, "blind", w.fleet.Resources...).ID}
		h.client = brackettest.NewFaultStore(w.store, w.fault)
		w.hosts = append(w.hosts, h)
	}
	return w
}

func (w *keyWorld) fault(call brackettest.Call) brackettest.Fault {
	if w.faults && call.Method == "Save" && call.Key == rollout.PoolRecordKey("P") && uniform(w.T, "crash?", 3) == 2 {
		return brackettest.Crash
	}
	if !w.faults || uniform(w.T, "fault?", 12) > 0 {
		return brackettest.None
	}
	return oneOf(w.T, "fault", brackettest.Lose, brackettest.LoseAnswer, brackettest.Conflict, brackettest.Repeat, brackettest.Stale, brackettest.Crash)
}

func (w *keyWorld) step() {
	w.now = w.now.Add(time.Second)
	switch h := w.hosts[uniform(w.T, "host", len(w.hosts))]; uniform(w.T, "step", 8) {
	case 0, 1, 2, 3:
		if uniform(w.T, "refresh", 3) > 0 {
			h.view = slices.Clone(w.fleet.Targets)
		}
		w.turn(h)
	case 4, 5:
		w.end()
	case 6:
		late := w.late
		w.late = nil
		for _, start := range late {
			w.seen["late"]++
			w.dispatch(start)
		}
	default:
		h.view = slices.Clone(w.fleet.Targets)
	}
}

func (w *keyWorld) turn(h *keyHost) {
	if h.acting {
		return
	}
	h.acting = true
	defer func() { h.acting = false }()
	s := w.fleet
	s.Targets = slices.Clone(h.view)
	jobs := map[string]bool{}
	for k := range s.Targets {
		for _, job := range s.Targets[k].Jobs {
			jobs[job.Run] = true
		}
		if w.faults && s.Targets[k].Resource == h.blind && len(s.Targets[k].Jobs) == 0 {
			s.Targets[k].Current = "v2"
		}
	}
	plan, err := (&rollout.Planner{Policies: w.set, Store: &turnsBetween{h.client, w}, Clock: clock.NewFake(w.now)}).Plan(w.Context(), s)
	switch {
	case errors.Is(err, brackettest.ErrCrashed):
		w.seen["crash"]++
		h.client.Restart(w.fault)
	case errors.Is(err, brackettest.ErrInjected):
		w.seen["injected"]++
	case errors.Is(err, bracket.ErrConflict):
		w.seen["conflict"]++
	case err != nil:
		w.Fatal(err)
	}
	if err != nil {
		w.claims()
		return
	}
	for wait := range plan.Waiting.All() {
		if slices.ContainsFunc(wait.Blockers, func(v rollout.Verdict) bool { return v.Reason == "slot_keys_full" }) {
			w.seen["waits for a key"]++
		}
	}
	if !w.faults {
		w.giveBack(plan.Orphans)
	}
	for _, start := range plan.Start {
		own := lateKeyStart{start, jobs}
		switch uniform(w.T, "dispatch", 4) {
		case 0, 1:
			w.dispatch(own)
		case 2:
			w.late = append(w.late, own)
		default:
			if !w.faults {
				w.dispatch(own)
			}
		}
	}
}

// giveBack releases what is left of those who have nothing left to do, as a host does once it is
// sure. Who has only claimed goes on without that.
func (w *keyWorld) giveBack(orphans []concurrency.Lease) {
	for _, orphan := range orphans {
		if slices.ContainsFunc(w.fleet.Targets, func(t rollout.Target) bool {
			return t.Resource == orphan.Resource && t.Current != "v2" && strings.HasSuffix(orphan.Group, "/"+t.Deployment)
		}) {
			continue
		}
		key := rollout.PoolRecordKey(orphan.Pool)
		_, revision, err := w.store.Load(w.Context(), key)
		record, wrong := w.record(orphan.Pool).Release(orphan.Holder, orphan.Token)
		value, failed := json.Marshal(record)
		err = errors.Join(err, wrong, failed)
		if err == nil {
			_, err = w.store.Save(w.Context(), key, value, revision)
		}
		if err != nil {
			w.Fatal(err)
		}
		w.seen["given back"]++
	}
}

// claims notes whether there are claims that nobody has confirmed in more zones than may be active,
// and nobody is at work.
func (w *keyWorld) claims() {
	family := w.record("P")
	idle, atWork := 0, 0
	for _, zone := range []string{"east", "north", "west"} {
		leases := w.record("P/" + zone).Leases
		if len(leases) > 0 && !slices.ContainsFunc(leases, family.Confirms) {
			w.seen["idle claim"]++
			idle++
		}
		atWork += len(w.at(zone))
	}
	if idle > w.keys && atWork == 0 {
		w.seen["too many idle claims"]++
	}
}

func (w *keyWorld) record(pool string) concurrency.Record {
	value, _, err := w.store.Load(w.Context(), rollout.PoolRecordKey(pool))
	if errors.Is(err, bracket.ErrNotFound) {
		return concurrency.NewRecord(pool)
	}
	record, wrong := concurrency.ParseRecord(value)
	if err = errors.Join(err, wrong); err != nil {
		w.Fatal(err)
	}
	return record
}

// at lists who is at work in a zone.
func (w *keyWorld) at(zone string) []string {
	at := map[string]bool{}
	for _, x := range w.fleet.Targets {
		if slices.ContainsFunc(x.Jobs, func(job rollout.Job) bool { return !job.Status.Terminal() }) {
			at[x.Resource] = true
		}
	}
	for _, r := range w.fleet.Resources {
		value, _, err := w.store.Load(w.Context(), bracket.ExecutionKey("B", r.ID))
		if err == nil && strings.Contains(string(value), `"open":`) && slices.ContainsFunc(slices.Collect(maps.Values(w.starts)), func(s rollout.Start) bool {
			return s.Resource == r.ID && strings.Contains(string(value), `"open":{"group":"`+s.Group+`"`)
		}) {
			w.seen["execution"]++
			at[r.ID] = true
		}
		if r.Metadata["zone"] != zone {
			delete(at, r.ID)
		}
	}
	return slices.Sorted(maps.Keys(at))
}

// dispatch creates a job as a fair host does, and looks at who is at work then.
func (w *keyWorld) dispatch(start lateKeyStart) {
	if _, exists := w.starts[start.Run]; exists {
		return
	}
	for _, claim := range start.Claims {
		if lease, held := w.record(claim.Pool).Lease(concurrency.Holder{Resource: start.Resource, Group: start.Group}); !held || lease.Token != claim.Token {
			w.seen["fenced"]++
			return
		}
	}
	k := slices.IndexFunc(w.fleet.Targets, func(t rollout.Target) bool { return t.TargetID == start.TargetID })
	x := &w.fleet.Targets[k]
	if slices.ContainsFunc(x.Jobs, func(job rollout.Job) bool { return !job.Status.Terminal() || !start.seen[job.Run] }) {
		return
	}
	w.seen["start"]++
	w.starts[start.Run] = start.Start
	x.Jobs = append(slices.Clip(x.Jobs), job(start.Start, w.now, rollout.JobInProgress))
	active := 0
	for _, zone := range []string{"east", "north", "west"} {
		who := w.at(zone)
		if len(who) > w.places {
			w.Fatalf("%s begins, and %q are at work in %s", start.Run, who, zone)
		}
		if len(who) > 0 {
			active++
		}
	}
	if active > w.keys {
		w.Fatalf("%s begins, and %d zones are at work", start.Run, active)
	}
}

// end ends a job.
func (w *keyWorld) end() {
	var active []int
	for k := range w.fleet.Targets {
		if jobs := w.fleet.Targets[k].Jobs; len(jobs) > 0 && !jobs[len(jobs)-1].Status.Terminal() {
			active = append(active, k)
		}
	}
	if len(active) == 0 {
		return
	}
	x := &w.fleet.Targets[oneOf(w.T, "ends", active...)]
	x.Jobs = slices.Clone(x.Jobs)
	last := &x.Jobs[len(x.Jobs)-1]
	last.Status, last.CompletedAt = rollout.JobFailure, w.now
	if !w.faults || uniform(w.T, "fails", 5) < 4 {
		last.Status, x.Current = rollout.JobSuccessful, last.Version
	}
}

// finish lets everybody see everything, and nothing fail: then everything ends.
func (w *keyWorld) finish() {
	w.faults = false
	for _, h := range w.hosts {
		h.client.Restart(nil)
	}
	for round := range 300 {
		if !slices.ContainsFunc(w.fleet.Targets, func(t rollout.Target) bool { return t.Current != "v2" }) {
			w.seen["finished"]++
			return
		}
		w.now = w.now.Add(time.Minute)
		h := w.hosts[round%len(w.hosts)]
		h.view = slices.Clone(w.fleet.Targets)
		w.turn(h)
		w.end()
	}
	for _, prefix := range []string{"pool/", "bracket/execution/"} {
		entries, err := w.store.List(w.Context(), prefix)
		for _, entry := range entries {
			w.Logf("%s %s %v", entry.Key, entry.Value, err)
		}
	}
	w.Fatal("it does not end")
}

// turnsBetween is a client between the calls of which others have turns.
type turnsBetween struct {
	bracket.Store
	w *keyWorld
}

func (b *turnsBetween) List(ctx context.Context, prefix string) ([]bracket.Entry, error) {
	entries, err := b.Store.List(ctx, prefix)
	b.w.interrupt()
	return entries, err
}

func (b *turnsBetween) Save(ctx context.Context, key string, value []byte, revision int64) (int64, error) {
	b.w.interrupt()
	if key == rollout.PoolRecordKey("P") {
		b.w.interrupt()
	}
	next, err := b.Store.Save(ctx, key, value, revision)
	b.w.interrupt()
	return next, err
}

func (w *keyWorld) interrupt() {
	if !w.faults || w.depth > 1 || uniform(w.T, "interrupt", 5) > 0 {
		return
	}
	w.seen["turn in between"]++
	w.depth++
	for range between(w.T, "steps between", 1, 4) {
		w.step()
	}
	w.depth--
}
