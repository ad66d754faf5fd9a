package rollout_test

import (
	"encoding/json"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tranche-dev/tranche/rollout"
)

// waitingFleet waits for turns that come later, in two environments, but for a target of each that
// is busy besides and one that is done.
func waitingFleet(t *testing.T) (*rollout.PolicySet, rollout.Snapshot) {
	s := fleet(3, "v1", map[string][]string{"api": {"v1", "v2"}, "web": {"v1", "v2"}})
	s.Targets[0].Jobs = []rollout.Job{{Version: "v1", Status: rollout.JobInProgress, CreatedAt: t0}} // in both: the first target of the plan waits
	s.Environments = append(s.Environments, rollout.Environment{ID: "beta"})
	for _, target := range slices.Clone(s.Targets) {
		target.Environment = "beta"
		s.Targets = append(s.Targets, target)
	}
	s.Targets[1].Current = "v2"
	return compile(t, policy(`{"gradualRollout":{"rolloutType":"linear","timeScaleInterval":60}}`)), s
}

func TestWaitingList(t *testing.T) {
	set, s := waitingFleet(t)
	waiting := map[rollout.TargetID]bool{}
	for _, target := range s.Targets {
		waiting[target.TargetID] = target.Current != "v2"
	}
	plan := mustPlan(t, set, s, t0)
	for _, start := range plan.Start {
		waiting[start.TargetID] = false
	}
	encoded, err := json.Marshal(plan)
	if err != nil {
		t.Fatal(err)
	}
	var decoded rollout.Plan
	if err := json.Unmarshal(encoded, &decoded); err != nil {
		t.Fatal(err)
	}
	all := slices.Collect(plan.Waiting.All())
	reversed := slices.Clone(all)
	slices.Reverse(reversed)
	for name, list := range map[string]rollout.WaitingList{"of the plan": plan.Waiting, "decoded": decoded.Waiting, "made": rollout.NewWaitingList(reversed...)} {
		t.Run(name, func(t *testing.T) {
			var ids []string
			for w := range list.All() {
				ids = append(ids, w.Resource+"/"+w.Environment+"/"+w.Deployment)
				if !waiting[w.TargetID] || w.Version != "v2" || len(w.Blockers) == 0 {
					t.Errorf("%+v", w)
				}
			}
			if !slices.IsSorted(ids) || len(slices.Compact(ids)) != list.Len() || list.Len() < 6 || list.IsZero() {
				t.Errorf("%d: %q", list.Len(), ids)
			}
			if diff := cmp.Diff(all, slices.Collect(list.All())); diff != "" {
				t.Error(diff)
			}
			for range list.All() {
				break // a reader may stop
			}
			for id, waits := range waiting {
				if w, found := list.Of(id); found != waits || found && w.TargetID != id || !found && w.Blockers != nil {
					t.Errorf("%v: %+v %t", id, w, found)
				}
			}
			for _, id := range []rollout.TargetID{{}, {Resource: "r1", Environment: "prod", Deployment: "nothing"}, {Resource: "r1", Environment: "nowhere", Deployment: "api"}} {
				if w, found := list.Of(id); found {
					t.Errorf("%v waits: %+v", id, w)
				}
			}
			if again, err := json.Marshal(list); err != nil || !json.Valid(again) || string(again) != text(t, plan.Waiting) {
				t.Errorf("%s %v", again, err)
			}
		})
	}
	if k := slices.IndexFunc(all, func(w rollout.Waiting) bool { return w.TargetID == s.Targets[0].TargetID }); k >= 0 {
		if b := all[k].Blockers; b[len(b)-1].Reason != rollout.ReasonTargetBusy {
			t.Errorf("%v: a turn is not all that the first one waits for", b)
		}
	}
}

// TestWaitingListEmpty: of a plan for which nobody waits, and the zero list, which reads as one.
func TestWaitingListEmpty(t *testing.T) {
	s := fleet(2, "v1", map[string][]string{"api": {"v1"}})
	for name, list := range map[string]rollout.WaitingList{"of a plan": mustPlan(t, compile(t, "[]"), s, t0).Waiting, "zero": {}, "made": rollout.NewWaitingList()} {
		_, found := list.Of(s.Targets[0].TargetID)
		if list.Len() != 0 || !list.IsZero() || found || slices.Collect(list.All()) != nil || text(t, list) != "[]" {
			t.Errorf("%s: %d %s", name, list.Len(), text(t, list))
		}
		if got := text(t, rollout.Plan{Waiting: list}); got != text(t, rollout.Plan{}) {
			t.Errorf("%s: %s", name, got)
		}
	}
	list := rollout.NewWaitingList(rollout.Waiting{TargetID: s.Targets[0].TargetID, Version: "v2"})
	before := text(t, list)
	for why, faulty := range map[string]string{
		"an object is no list":         `{}`,
		"a target that is there twice": `[{"resource":"r","version":"v1","blockers":[]},{"resource":"r","version":"v2","blockers":[]}]`,
	} {
		if err := json.Unmarshal([]byte(faulty), &list); err == nil || text(t, list) != before {
			t.Errorf("%s: %v, and then there is %s", why, err, text(t, list))
		}
	}
}

// TestWaitingListOfWrongTypes: two targets that cannot be read are not one that is listed twice.
func TestWaitingListOfWrongTypes(t *testing.T) {
	var list rollout.WaitingList
	err := json.Unmarshal([]byte(`[{"resource":1},{"resource":2}]`), &list)
	if err == nil || strings.Contains(err.Error(), "twice") {
		t.Error(err)
	}
}

// TestWaitingListOfNeighbours: one approval is missing for everybody, and one target is busy
// besides. Its list begins with the verdict that all share, and is not that of its neighbours.
func TestWaitingListOfNeighbours(t *testing.T) {
	s := fleet(3, "v1", map[string][]string{"api": {"v1", "v2"}})
	s.Targets[1].Jobs = []rollout.Job{{Version: "v1", Status: rollout.JobInProgress, CreatedAt: t0}}
	var got []string
	for w := range mustPlan(t, compile(t, policy(`{"anyApproval":{"minApprovals":1}}`)), s, t0).Waiting.All() {
		for _, b := range w.Blockers {
			got = append(got, w.Resource+" "+string(b.Reason))
		}
	}
	if want := []string{"r1 approval_missing", "r2 approval_missing", "r2 target_busy", "r3 approval_missing"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestWaitingListCopies: a list that is made from a slice does not see what becomes of the slice.
func TestWaitingListCopies(t *testing.T) {
	own := []rollout.Waiting{{Version: "v2"}, {Version: "v1"}}
	own[0].Resource, own[1].Resource = "b", "a"
	list := rollout.NewWaitingList(own...)
	own[0].Version, own[1].Version = "x", "x"
	if got := slices.Collect(list.All()); own[0].Resource != "b" || got[0].Version != "v1" || got[1].Version != "v2" {
		t.Errorf("%+v of %+v", got, own)
	}
}

// TestWaitingListTurns: a turn that is kept in few bytes says what it would say as a verdict, to
// the nanosecond, whoever else waits between.
func TestWaitingListTurns(t *testing.T) {
	s := fleet(40, "v1", map[string][]string{"api": {"v1", "v2"}, "web": {"v1", "v2", "v3"}})
	s.Versions[len(s.Versions)-1].TargetSelector = "resource.name == 'r7'"
	for i := range s.Targets {
		if i%7 == 0 { // not a turn alone
			s.Targets[i].Jobs = []rollout.Job{{Version: "v1", Status: rollout.JobInProgress, CreatedAt: t0}}
		}
	}
	set := compile(t, policy(`{"gradualRollout":{"rolloutType":"linear-normalized","timeScaleInterval":7}},{"gradualRollout":{"rolloutType":"linear","timeScaleInterval":0}}`))
	plan := mustPlan(t, set, s, t0)
	turns, others := 0, 0
	for w := range plan.Waiting.All() {
		explanation, err := plan.Explain(w.TargetID)
		if err != nil {
			t.Fatal(err)
		}
		var want []rollout.Verdict
		for _, rule := range explanation.Waits().Blockers() {
			want = append(want, rule.Verdict)
		}
		if diff := cmp.Diff(want, w.Blockers); diff != "" || explanation.Waits().Version != w.Version {
			t.Errorf("%v: %s", w.TargetID, diff)
		}
		if len(w.Blockers) == 1 && w.Blockers[0].Reason == rollout.ReasonRolloutNotDue {
			if w.Blockers[0].Until.Location() != time.UTC {
				t.Errorf("%v: a turn in the zone of the machine: %v", w.TargetID, w.Blockers[0].Until)
			}
			turns++
		} else {
			others++
		}
	}
	if turns < 20 || others < 5 {
		t.Errorf("%d wait for a turn alone, %d for something else", turns, others)
	}
}

// TestWaitingListOfAHostsTurn: a rule of the host may say of a turn what it likes, and all of it is
// listed.
func TestWaitingListOfAHostsTurn(t *testing.T) {
	s := fleet(2, "v1", map[string][]string{"api": {"v1", "v2"}})
	pending, until := rollout.Pending, t0.Add(time.Minute)
	event := []rollout.Condition{{Kind: rollout.OnOperator}}
	for _, row := range []struct {
		why string
		own rollout.Verdict
	}{
		{"the first", rollout.Verdict{Status: pending, Until: until, Data: &rollout.Data{Population: math.MaxInt}}},
		{"another", rollout.Verdict{Status: pending, Until: until, Data: &rollout.Data{Position: 7, Population: math.MaxInt}}},
		{"the last of 32 bits", rollout.Verdict{Status: pending, Until: until, Data: &rollout.Data{Position: math.MaxInt32}}},
		{"more than 32 bits where an int has 64", rollout.Verdict{Status: pending, Until: until, Data: &rollout.Data{Position: math.MaxInt}}},
		{"negative", rollout.Verdict{Status: pending, Until: until, Data: &rollout.Data{Position: -1}}},
		{"no data", rollout.Verdict{Status: pending, Until: until}},
		{"denied until then", rollout.Verdict{Status: rollout.Denied, Until: until, Data: &rollout.Data{Position: 7}}},
		{"an event, and no instant", rollout.Verdict{Status: pending, On: event, Data: &rollout.Data{Position: 7}}},
		{"an event besides", rollout.Verdict{Status: pending, Until: until, On: event, Data: &rollout.Data{Position: 7}}},
		{"an attempt", rollout.Verdict{Status: pending, Until: until, Data: &rollout.Data{Position: 7, Attempt: 1}}},
		{"a bound", rollout.Verdict{Status: pending, Until: until, Data: &rollout.Data{Position: 7, Allowed: 1}}},
		{"names", rollout.Verdict{Status: pending, Until: until, Data: &rollout.Data{Position: 7, Names: []string{"ann"}}}},
		{"a text", rollout.Verdict{Status: pending, Until: until, Data: &rollout.Data{Position: 7, Detail: "queue"}}},
	} {
		row.own.Reason, row.own.Rule = "queue", "x"
		set := compile(t, "[]", rollout.WithRule(hostRule{"x", func(rollout.Candidate) rollout.Verdict { return row.own }}))
		plan := mustPlan(t, set, s, t0)
		if plan.Waiting.Len() != 2 {
			t.Errorf("%s: %d wait", row.why, plan.Waiting.Len())
		}
		for wait := range plan.Waiting.All() {
			if diff := cmp.Diff([]rollout.Verdict{row.own}, wait.Blockers); diff != "" {
				t.Errorf("%s: %s", row.why, diff)
			}
		}
	}
}

// TestWaitingIsSmall: what a plan keeps of a target that waits for its turn does not depend on how
// much there is to say about it, nor on who asked: most turns are kept as they are found, but where
// there are overrides they come as verdicts.
func TestWaitingIsSmall(t *testing.T) {
	const n = 50_000
	for name, overrides := range map[string][]rollout.Override{
		"turns": nil, "verdicts": {{ID: "o", Rule: "g", Version: "v1", CreatedAt: day1, CreatedBy: "ann", Reason: "of what they have"}},
	} {
		t.Run(name, func(t *testing.T) {
			set, s := compile(t, policy(`{"id":"g","gradualRollout":{"rolloutType":"linear","timeScaleInterval":1}}`)), clusters(n)
			s.Overrides = overrides
			plan := mustPlan(t, set, s, day1)
			turns := make([]bool, n)
			for w := range plan.Waiting.All() {
				own := w.Blockers[0]
				if turns[own.Data.Position] || own.Data.Population != n || !own.Until.Equal(day1.Add(time.Duration(own.Data.Position)*time.Second)) {
					t.Fatalf("%v: %v", w.TargetID, own)
				}
				turns[own.Data.Position] = true
			}
			if plan.Waiting.Len() != n-1 || turns[0] || slices.Contains(turns[1:], false) {
				t.Fatalf("%d of %d wait", plan.Waiting.Len(), n)
			}
			if kept := keptBy(&plan) / n; kept > 150 {
				t.Errorf("%d bytes are kept of each target", kept)
			}
			runtime.KeepAlive(s)
		})
	}
}

// TestMembersAtWorkAreSmall: what members of open executions wait for is not kept either.
func TestMembersAtWorkAreSmall(t *testing.T) {
	const n = 20_000
	half := day2.Add(n / 5 / 2 * 300 * time.Second)
	set := compile(t, nodeLifecycle(t))
	s := atWork(t, set, largeFleet(n), half)
	plan := mustPlan(t, set, s, half.Add(time.Minute))
	if plan.Keep.Started != n/25 {
		t.Fatalf("%d of %d targets are at work", plan.Keep.Started, n)
	}
	if kept := keptBy(&plan) / n; kept > 140 {
		t.Errorf("%d bytes are kept of each target", kept)
	}
	runtime.KeepAlive(s)
	runtime.KeepAlive(set)
}

// keptBy returns how many bytes become free when a plan is given up. What it refers to of its
// snapshot and policies must be kept alive meanwhile.
func keptBy(plan *rollout.Plan) int64 {
	heap() // twice: what a pool holds outlives one collection
	held := heap()
	runtime.KeepAlive(plan)
	*plan = rollout.Plan{}
	return held - heap()
}

// TestWaitingListSideBySide: several goroutines may read one list, also of what waits for members of
// an execution that starts or is open. The race detector looks on.
func TestWaitingListSideBySide(t *testing.T) {
	set, s := waitingFleet(t)
	nodes, fleet := compile(t, nodeLifecycle(t)), largeFleet(50)
	plans := []rollout.Plan{mustPlan(t, set, s, t0), mustPlan(t, nodes, fleet, day2), mustPlan(t, nodes, atWork(t, nodes, fleet, day2), day2.Add(time.Minute))}
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for k := range plans {
				list := plans[k].Waiting
				for w := range list.All() {
					if own, waits := list.Of(w.TargetID); !waits || own.String() != w.String() {
						t.Errorf("%v is listed, and on its own %v", w, own)
					}
				}
			}
		})
	}
	readers.Wait()
}

// TestDecodersReportEveryFault: a document that somebody has to correct is told all its faults at
// once, however many there are. Of a recording and of a list of who waits, twenty used to be told.
func TestDecodersReportEveryFault(t *testing.T) {
	const faults = 30
	list := strings.TrimSuffix(strings.Repeat(`{"resource":"r","environment":"e","deployment":"d","blockers":[]},`, faults+1), ",")
	policies := strings.TrimSuffix(strings.Repeat(`{"odd":1},`, faults), ",")
	_, recording := rollout.ParseRecording([]byte(`{"schema":1,"policies":[` + policies + `]}`))
	for why, err := range map[string]error{
		"targets that are listed again": json.Unmarshal([]byte("["+list+"]"), new(rollout.WaitingList)),
		"unknown fields of policies":    recording,
	} {
		all := joined(err)
		if len(all) != faults || slices.ContainsFunc(all, func(err error) bool { _, ok := err.(*rollout.FieldError); return !ok }) {
			t.Errorf("%s: %d faults, the last %v; want %d *FieldErrors", why, len(all), all[len(all)-1], faults)
		}
	}
}
