package rollouttest_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/clock"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/rollout"
	"github.com/tranche-dev/tranche/rollout/rollouttest"
)

// TestPlannerEveryCall runs whole worlds through a planner, once for each single call that it makes
// of its store and its counter and each thing that can go wrong with it: a lost call, a lost answer,
// a conflict, a context that is cancelled, a rival. Plan then returns that error and nothing to
// start, or has recovered by itself from a conflict. Called again, at the same instant, it goes on
// as if nothing had happened: the timeline of the world, with every start in it, and what is stored
// at the end, are those of a world without trouble.
func TestPlannerEveryCall(t *testing.T) {
	t.Parallel()
	nodes := rfcWorld(t, 1)
	nodes.Policies = policyFile(t, "node-policy.json", withRules(`{"retry": {"maxRetries": 2, "backoffSeconds": 60}}`))
	nodes.Job = func(start rollout.Start, attempt int) rollouttest.Outcome {
		o := rollouttest.Durations(rfcDurations())(start, attempt)
		if start.Deployment == kubelet && attempt == 1 {
			o.Status = rollout.JobFailure
		}
		return o
	}
	seen := map[string]bool{}
	for name, world := range map[string]rollouttest.World{"nodes": nodes, "zones": zones(t)} {
		calm := newTrouble(0, "")
		want, err := calm.run(world)
		if err != nil || want.CutOff || len(calm.calls) < 60 {
			t.Fatalf("%s: %v after %d calls\n%v", name, err, len(calm.calls), want)
		}
		t.Logf("%s: %d calls", name, len(calm.calls))
		done, left := deeds(want), calm.stored(t)
		world.Trust = true // what happens is what has happened in a world that was checked
		for number, fault := range []string{"lost", "answer lost", "conflict", "cancelled before", "cancelled after", "rival"} {
			alike := map[string]int{}
			for n, which := range calm.calls {
				k := n + 1
				alike[which]++
				// The last three take turns: every call meets one of them, and the first of a kind all.
				others := number > 2 && alike[which] > 2 && k%3 != number%3
				if testing.Short() && k%7 != 0 || !happens(fault, which) || others {
					continue
				}
				own := newTrouble(k, fault)
				got, err := own.run(world)
				if err != nil {
					t.Fatalf("%s: call %d, %s, %s: %v", name, k, which, fault, err)
				}
				seen[fault+" "+which] = true
				if happened := deeds(got); !reflect.DeepEqual(done, happened) { // which is quicker than a comparison that can tell
					if diff := gocmp.Diff(done, happened); diff != "" {
						t.Fatalf("%s: call %d, %s, %s: another world:\n%s", name, k, which, fault, diff)
					}
				}
				if diff := gocmp.Diff(left, own.stored(t)); diff != "" {
					t.Fatalf("%s: call %d, %s, %s: something else is stored:\n%s", name, k, which, fault, diff)
				}
			}
		}
	}
	if testing.Short() {
		return
	}
	for _, fault := range []string{"lost", "answer lost", "cancelled before", "cancelled after", "rival"} {
		for _, which := range []string{"list pool", "list group", "list execution", "list rollout", "count", "save group", "save rollout", "save execution", "save pool", "delete rollout"} {
			if happens(fault, which) && !seen[fault+" "+which] {
				t.Errorf("no %s met with %s", which, fault)
			}
		}
	}
}

// changes reports whether a call may change what is stored.
func changes(call string) bool {
	return strings.HasPrefix(call, "save") || strings.HasPrefix(call, "delete")
}

// happens reports whether a fault can happen to a call and is no other one: a read meets no
// conflict, and if its answer is lost it is lost.
func happens(fault, call string) bool {
	return changes(call) || fault != "conflict" && fault != "answer lost"
}

// deeds are what happens in a world. What a plan tells of brackets is told once: with the plan it
// is lost. And a slot that was free to that plan is held by the next.
func deeds(t rollouttest.Timeline) []rollouttest.Entry {
	list := slices.DeleteFunc(slices.Clone(t.Entries), func(e rollouttest.Entry) bool { return e.Kind == rollouttest.Bracket })
	for k := range list {
		list[k].Reason = ""
	}
	slices.SortStableFunc(list, func(a, b rollouttest.Entry) int { // who holds a slot comes first
		return cmp.Or(a.At.Compare(b.At), strings.Compare(string(a.Kind), string(b.Kind)), strings.Compare(a.Run, b.Run))
	})
	return list
}

// zones is a world in which every kind of record is written, and one is deleted: a bracket beside a
// gradual rollout of which the version is withdrawn half-way, one zone after the other.
func zones(t testing.TB) rollouttest.World {
	parsed, err := rollout.ParsePolicies([]byte(`[
		{"name":"m","selector":"deployment.name != 'c'","rules":[{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","overlapStrategy":"merge","preparedStatePersists":true,"memberRoles":{"pre":"deployment.name == 'a'"}}}]},
		{"name":"g","selector":"deployment.name == 'c'","rules":[{"id":"G","gradualRollout":{"rolloutType":"linear","timeScaleInterval":120}}]},
		{"name":"p","selector":"true","rules":[{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":1,"groupBy":"resource.metadata['zone']","maxActiveKeys":1}}]}]`))
	if err != nil {
		t.Fatal(err)
	}
	set, err := rollout.Compile(parsed, newCompiler(t))
	if err != nil {
		t.Fatal(err)
	}
	s := rollout.Snapshot{Environments: []rollout.Environment{{ID: "prod", Name: "prod"}}}
	for _, d := range []string{"a", "b", "c"} {
		s.Deployments = append(s.Deployments, rollout.Deployment{ID: d, Name: d})
		s.Versions = append(s.Versions, version(d, "v1", at(-1, 0, 0)), version(d, "v2", at(1, 8, 0)), version(d, "v3", at(1, 8, 5)))
	}
	for k, zone := range []string{"x", "x", "y"} {
		id := fmt.Sprintf("r%d", k)
		s.Resources = append(s.Resources, rollout.Resource{ID: id, Name: id, Metadata: map[string]string{"zone": zone}})
		for _, d := range s.Deployments {
			s.Targets = append(s.Targets, rollout.Target{TargetID: rollout.TargetID{Resource: id, Environment: "prod", Deployment: d.ID}, Current: "v1"})
		}
	}
	return rollouttest.World{Policies: set, Fleet: s, Start: at(1, 8, 0), Changes: []rollouttest.Change{{At: at(1, 8, 7), What: "c v3 is withdrawn", Do: func(s *rollout.Snapshot) {
		s.Versions = slices.DeleteFunc(slices.Clone(s.Versions), func(v rollout.Version) bool { return v.Deployment == "c" && v.ID == "v3" })
		for k := range s.Targets {
			if t := &s.Targets[k]; t.Deployment == "c" && t.Current == "v3" {
				t.Current = "v2"
			}
		}
	}}}}
}

// trouble is a store and a counter of which one call goes wrong.
type trouble struct {
	*bracket.MemoryStore
	calls  []string // their names
	at     int
	fault  string
	cancel context.CancelFunc
	rival  func()
}

var errTrouble = errors.New("something went wrong")

func newTrouble(at int, fault string) *trouble {
	return &trouble{MemoryStore: &bracket.MemoryStore{}, at: at, fault: fault}
}

func (s *trouble) run(w rollouttest.World) (rollouttest.Timeline, error) {
	w.Plan = func(_ context.Context, snapshot rollout.Snapshot, now time.Time) (rollout.Plan, error) {
		planner := rollout.Planner{Policies: w.Policies, Store: s, Clock: clock.NewFake(now), JobCounter: s}
		s.rival = func() { // it plans, saves, and dies before it dispatches
			_, _ = (&rollout.Planner{Policies: w.Policies, Store: s.MemoryStore, Clock: clock.NewFake(now)}).Plan(context.Background(), snapshot)
		}
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		s.cancel = cancel
		before := len(s.calls)
		plan, err := planner.Plan(ctx, snapshot)
		met := before < s.at && s.at <= len(s.calls)
		if err == nil {
			return plan, nil
		}
		expected := errTrouble
		if strings.HasPrefix(s.fault, "cancelled") {
			expected = context.Canceled
		}
		if !met || !errors.Is(err, expected) || len(plan.Start) > 0 || plan.Waiting.Len() > 0 || !plan.Now.IsZero() {
			return rollout.Plan{}, fmt.Errorf("starts %v with %w", plan.Start, err)
		}
		return planner.Plan(context.Background(), snapshot)
	}
	return w.Run(context.Background())
}

// call counts a call, and returns what becomes of it if it is the one.
func (s *trouble) call(name string, do func() error) error {
	if s.calls = append(s.calls, name); len(s.calls) != s.at {
		return do()
	}
	switch s.fault {
	case "lost":
		return errTrouble
	case "answer lost":
		if err := do(); err != nil {
			return err
		}
		return errTrouble
	case "conflict":
		return bracket.ErrConflict
	case "cancelled before":
		s.cancel()
	case "cancelled after":
		defer s.cancel()
	case "rival":
		s.rival()
	}
	return do()
}

func (s *trouble) List(ctx context.Context, prefix string) (list []bracket.Entry, err error) {
	err = s.call("list "+kindOfKey(prefix), func() (err error) {
		list, err = s.MemoryStore.List(ctx, prefix)
		return err
	})
	return list, err
}

func (s *trouble) Save(ctx context.Context, key string, value []byte, revision int64) (next int64, err error) {
	err = s.call("save "+kindOfKey(key), func() (err error) {
		next, err = s.MemoryStore.Save(ctx, key, value, revision)
		return err
	})
	return next, err
}

func (s *trouble) Delete(ctx context.Context, key string, revision int64) error {
	return s.call("delete "+kindOfKey(key), func() error { return s.MemoryStore.Delete(ctx, key, revision) })
}

// Active knows of nobody: all jobs come from plans.
func (s *trouble) Active(ctx context.Context, _ string) ([]concurrency.Holder, error) {
	return nil, s.call("count", ctx.Err)
}

func kindOfKey(key string) string {
	kind, _, _ := strings.Cut(strings.TrimPrefix(key, "bracket/"), "/")
	return kind
}

var counters = regexp.MustCompile(`"(revision|nextToken)":\d+,`)

// stored is what the store holds, without revisions and tokens: saving in vain costs some.
func (s *trouble) stored(t testing.TB) map[string]string {
	entries, err := s.MemoryStore.List(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for _, entry := range entries {
		texts[entry.Key] = counters.ReplaceAllString(string(entry.Value), "")
	}
	return texts
}
