package bracket

import (
	"cmp"
	"encoding/json"
	"maps"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// sharedCase is one verified case of testdata/cases.json.
type sharedCase struct {
	ID, Area, Note  string
	Input, Expected json.RawMessage
}

func sharedCases(t *testing.T, area string) []sharedCase {
	t.Helper()
	data, err := os.ReadFile("testdata/cases.json")
	if err != nil {
		t.Fatal(err)
	}
	var all []sharedCase
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	all = slices.DeleteFunc(all, func(c sharedCase) bool { return c.Area != area })
	if len(all) == 0 {
		t.Fatalf("no case of area %q", area)
	}
	return all
}

func decodeInto(t *testing.T, data json.RawMessage, into any) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(string(data)))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		t.Fatal(err)
	}
}

type traceInput struct {
	Rule        Rule                `json:"rule"`
	Needs       map[string][]string `json:"needs"`
	Resources   []string            `json:"resources"`
	Current     map[string]string   `json:"current"`
	Versions    map[string][]traceVersion
	DurationMin map[string]int `json:"duration_min"`
	From, Until time.Time
	Limit       *struct{ Count int }
	Curve       *struct {
		Type      string
		IntervalS int `json:"interval_s"`
		Order     []string
	}
	DueAt    map[string]map[string]time.Time `json:"dueAt"`
	Failures []traceFailure
	Commands []struct {
		At                         time.Time
		Kind, Resource, Deployment string
	}
}

type traceVersion struct {
	ID                    string
	CreatedAt, EligibleAt time.Time
}

type traceFailure struct {
	Deployment, Version, Resource string
	Attempt                       int
	RetryAfterS                   int `json:"retry_after_s"`
}

type traceGroup struct {
	Number            int
	OpenedAt, ReadyAt time.Time
	TimedOut          bool
	Locks             map[string]string
}

type traceStart struct {
	At                            time.Time
	Resource, Deployment, Version string
	Purpose                       string
}

type traceEnd struct {
	At       time.Time
	Resource string
	Group    int
	Status   string
}

type traceOpen struct {
	Group      int
	Status     string
	Generation int
	Merged     []int
	Members    map[string]string
}

type traceOutput struct {
	Groups []traceGroup
	Starts []traceStart
	Ended  []traceEnd
	Open   map[string]traceOpen
}

// traceWorld is a host that acts at every whole minute, carries out everything offered as far as
// slots allow, and plans again until nothing is offered.
type traceWorld struct {
	t       *testing.T
	in      traceInput
	state   State
	current map[string]map[string]string
	facts   map[Run]*RunFact
	version map[Run]string
	orders  []Command
	out     traceOutput
	seen    map[string]bool
}

func newTraceWorld(t *testing.T, in traceInput) *traceWorld {
	w := &traceWorld{t: t, in: in, state: NewState("rule", "prod"), current: make(map[string]map[string]string),
		facts: make(map[Run]*RunFact), version: make(map[Run]string), seen: make(map[string]bool)}
	w.out.Open = map[string]traceOpen{}
	w.out.Ended = []traceEnd{}
	for _, r := range in.Resources {
		w.current[r] = make(map[string]string)
		maps.Copy(w.current[r], in.Current)
	}
	return w
}

func (w *traceWorld) observation() Observation {
	var o Observation
	old := time.Date(2026, 3, 10, 9, 0, 0, 0, time.UTC).AddDate(0, 0, -90)
	var targets TargetList
	for d, v := range w.in.Current {
		o.Members = append(o.Members, Member{Deployment: d, Needs: w.in.Needs[d]})
		o.Versions = append(o.Versions, Version{Deployment: d, ID: v, CreatedAt: old, EligibleAt: old})
		for r := range w.current {
			targets = append(targets, Target{Resource: r, Deployment: d, Current: w.current[r][d]})
		}
		for _, v := range w.in.Versions[d] {
			if v.EligibleAt.IsZero() {
				v.EligibleAt = v.CreatedAt
			}
			o.Versions = append(o.Versions, Version{Deployment: d, ID: v.ID, CreatedAt: v.CreatedAt, EligibleAt: v.EligibleAt})
		}
	}
	for _, f := range w.facts {
		o.Runs = append(o.Runs, *f)
	}
	o.Commands = w.orders
	o.Due = func(p PendingGroup) []time.Time {
		at := make([]time.Time, len(p.Resources))
		for i, r := range p.Resources {
			at[i] = p.Group.ReadyAt
			if due, ok := w.in.DueAt[strconv.Itoa(number(p.Group.ID))][r]; ok {
				at[i] = due
			}
			if c := w.in.Curve; c != nil {
				at[i] = p.Group.ReadyAt.Add(time.Duration(slices.Index(c.Order, r)*c.IntervalS) * time.Second)
			}
		}
		return at
	}
	o.Targets = targets
	return o
}

func number(group string) int {
	n := 0
	for _, c := range group[strings.LastIndex(group, "/")+1:] {
		n = n*10 + int(c-'0')
	}
	return n
}

// visible hides what was published after now: the host sees versions when they exist.
func visible(o Observation, now time.Time) Observation {
	o.Versions = slices.DeleteFunc(o.Versions, func(v Version) bool { return v.CreatedAt.After(now) })
	return o
}

func (w *traceWorld) finishRuns(now time.Time) {
	for run, f := range w.facts {
		if f.Status != RunRunning || f.StartedAt.Add(time.Duration(w.in.DurationMin[run.Deployment])*time.Minute).After(now) {
			continue
		}
		f.EndedAt = now
		f.Status = RunSucceeded
		for _, failure := range w.in.Failures {
			if failure.Deployment == run.Deployment && (failure.Version == "" || failure.Version == w.version[run]) &&
				(failure.Resource == "" || failure.Resource == run.Resource) && (failure.Attempt == 0 || failure.Attempt == run.Attempt) && run.Purpose == Deploy {
				f.Status = RunFailed
				if failure.RetryAfterS > 0 {
					f.RetryAt = now.Add(time.Duration(failure.RetryAfterS) * time.Second)
				}
			}
		}
		if f.Status == RunSucceeded {
			w.current[run.Resource][run.Deployment] = w.version[run]
		}
	}
}

func (w *traceWorld) holders() map[string]bool {
	holders := make(map[string]bool)
	for _, r := range w.state.Executions {
		if r.Open != nil {
			holders[r.Resource] = true
		}
	}
	return holders
}

func (w *traceWorld) run() {
	for now := w.in.From; !now.After(w.in.Until); now = now.Add(time.Minute) {
		w.finishRuns(now)
		for i, c := range w.in.Commands {
			if c.At.Equal(now) {
				open := ""
				for _, r := range w.state.Executions {
					if r.Resource == c.Resource && r.Open != nil {
						open = r.Open.Group
					}
				}
				w.orders = append(w.orders, Command{ID: strconv.Itoa(i), Kind: CommandKind(c.Kind), Group: open, Resource: c.Resource, Deployment: c.Deployment, At: c.At})
			}
		}
		for range 100 {
			next, plan, err := Step(w.in.Rule, w.state, visible(w.observation(), now), now)
			if err != nil {
				w.t.Fatalf("%v: %v", now, err)
			}
			if len(plan.Unknown) > 0 || len(plan.Refused) > 0 {
				w.t.Fatalf("%v: unknown %v, refused %v", now, plan.Unknown, plan.Refused)
			}
			if group, executions := next.Changed(w.state); group != nil || executions != nil {
				next = stored(w.t, next)
			}
			w.state = next
			w.note(plan)
			w.check(plan, now)
			starts := w.admit(plan)
			if len(starts) == 0 {
				break
			}
			var runs []Run
			for _, s := range starts {
				runs = append(runs, s.Run)
			}
			if w.state, err = plan.Commit(w.state, runs, now); err != nil {
				w.t.Fatalf("%v: %v", now, err)
			}
			for _, s := range starts {
				w.facts[s.Run] = &RunFact{Run: s.Run, Status: RunRunning, StartedAt: now}
				w.version[s.Run] = s.Version
				purpose := string(s.Run.Purpose)
				if purpose == "deploy" {
					purpose = ""
				}
				w.out.Starts = append(w.out.Starts, traceStart{now, s.Run.Resource, s.Run.Deployment, s.Version, purpose})
			}
		}
	}
	for _, r := range w.state.Executions {
		if x := r.Open; x != nil {
			o := traceOpen{Group: number(x.Group), Status: string(x.Status), Generation: x.Generation, Merged: []int{}, Members: map[string]string{}}
			for _, m := range x.Merged {
				o.Merged = append(o.Merged, number(m))
			}
			for _, m := range x.Members {
				o.Members[m.Deployment] = string(m.Status)
			}
			w.out.Open[r.Resource] = o
		}
	}
	slices.SortStableFunc(w.out.Starts, func(a, b traceStart) int {
		return cmp.Or(a.At.Compare(b.At), strings.Compare(a.Resource, b.Resource), strings.Compare(a.Deployment, b.Deployment))
	})
}

// check compares the listed offers and waits with the verdict on each of them.
func (w *traceWorld) check(plan Plan, now time.Time) {
	for _, s := range plan.Start {
		if v := plan.Evaluate(w.state, s.Run.Resource, s.Run.Deployment, s.Version, now); v.Reason != ReasonRun {
			w.t.Errorf("%v: %s is offered, but its verdict is %+v", now, s.Run, v)
		}
	}
	for _, wait := range waitsOf(plan) {
		if wait.Reason.Status() != Pending || len(wait.On) == 0 && !wait.Until.After(now) {
			w.t.Errorf("%v: %+v has nothing to wait for", now, wait)
		}
	}
}

// admit chooses the starts that the pool has slots for: holders first, then by due, then in the
// order of the resources.
func (w *traceWorld) admit(plan Plan) []Start {
	starts := slices.Clone(plan.Start)
	order := w.in.Resources
	slices.SortStableFunc(starts, func(a, b Start) int {
		return cmp.Or(a.DueAt.Compare(b.DueAt), cmp.Compare(slices.Index(order, a.Run.Resource), slices.Index(order, b.Run.Resource)))
	})
	holders := w.holders()
	return slices.DeleteFunc(starts, func(s Start) bool {
		if holders[s.Run.Resource] {
			return false
		}
		if w.in.Limit != nil && len(holders) >= w.in.Limit.Count {
			return true
		}
		holders[s.Run.Resource] = true
		return false
	})
}

func (w *traceWorld) note(plan Plan) {
	for _, e := range plan.Events {
		if e.Kind == ExecutionEnded {
			w.out.Ended = append(w.out.Ended, traceEnd{e.At, e.Resource, number(e.Group), string(e.Status)})
		}
	}
	for _, g := range w.state.Group.Closed {
		if w.seen[g.ID] {
			continue
		}
		w.seen[g.ID] = true
		locks := make(map[string]string)
		for _, m := range g.Members {
			if len(m.Locks) > 0 {
				locks[m.Deployment] = m.Locks[0].ID
			}
		}
		w.out.Groups = append(w.out.Groups, traceGroup{number(g.ID), g.OpenedAt, g.ReadyAt, g.TimedOut, locks})
	}
}

func TestTraces(t *testing.T) {
	for _, c := range sharedCases(t, "bracket.trace") {
		t.Run(c.ID, func(t *testing.T) {
			t.Parallel()
			var in traceInput
			var want traceOutput
			decodeInto(t, c.Input, &in)
			decodeInto(t, c.Expected, &want)
			w := newTraceWorld(t, in)
			w.run()
			if diff := gocmp.Diff(want, w.out); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

// stored returns the state as it comes back from a store, and fails if that is not the same.
func stored(t failer, s State) State {
	t.Helper()
	back := State{Group: new(GroupRecord)}
	data, err := json.Marshal(s.Group)
	if err == nil {
		err = json.Unmarshal(data, back.Group)
	}
	for _, r := range s.Executions {
		if err == nil {
			var record ExecutionRecord
			if data, err = json.Marshal(r); err == nil {
				err = json.Unmarshal(data, &record)
			}
			back.Executions = append(back.Executions, &record)
		}
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, data)
	}
	if reflect.DeepEqual(s, back) {
		return back
	}
	if diff := gocmp.Diff(s, back, cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("a stored state comes back different: -want +got\n%s", diff)
	}
	return back
}
