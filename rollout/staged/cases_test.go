package staged_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/tranche-dev/tranche/rollout/staged"
)

// The cases of testdata/kubefleet.json say what KubeFleet does; its "about" explains the words. A
// case with "here" differs: ours lists what holds instead, and a case that is in only one of the
// two places fails the test.
type kubeCase struct {
	ID     string `json:"id"`
	Area   string `json:"area"`
	Title  string `json:"title"`
	Input  kubeInput
	Expect kubeExpect
	Steps  []struct {
		Do     kubeDo
		Expect kubeExpect
	}
	Here string `json:"here"`
}

type kubeInput struct {
	MaxParallel json.RawMessage
	TargetCount int
	Stages      []kubeStage
	Targets     []kubeTarget
	Idle        []kubeTarget
	Leaving     []string
	Desired     string
	External    *bool
	From, To    *kubeRun
}

type kubeStage struct {
	Name          string
	Select        map[string]string
	SelectAll     bool
	SelectNone    bool
	OrderBy       string
	MaxParallel   json.RawMessage
	Before, After []struct {
		Kind string
		For  string
	}
}

type kubeTarget struct {
	Name    string
	Labels  map[string]string
	Current bool
}

type kubeRun struct {
	Desired, Placement, Version, Strategy string
}

type kubeDo struct {
	Tick         int
	Desired      string
	Advance      string
	Observe      map[string]string
	Approve      string
	Unapprove    string
	DropApproval string
	AddTarget    *kubeTarget
	RemoveTarget string
	Relabel      json.RawMessage
	LoseStatus   bool
}

type kubeExpect struct {
	Limit     *int
	Error     bool
	Rule      string
	Valid     *bool
	Run       string
	Order     map[string][]string
	Stages    map[string]string
	Targets   map[string]string
	Approvals *[]string
	Cleanup   string
	Next      string
	Reason    string
}

// ours is what holds here for the cases that differ: for a flow one expectation per step, where "="
// keeps KubeFleet's.
func ours() map[string][]string {
	return map[string][]string{
		"CO20": {`{"run": "rejected", "rule": "stage.nameUnique"}`},
		"PL26": {`{"valid": false, "rule": "after.waitTime"}`},
		"CT20": {`{"valid": false, "rule": "run.immutable"}`},
		"FL07": {"=", "=", "=", `{"stages": {"st": "done"}, "run": "done", "next": "none"}`, "="},
		"FL15": {`{"stages": {"a": "skipped", "st": "updating"}, "approvals": [], "targets": {"c1": "updating"}, "run": "running"}`, "="},
		"FL17": {"=", `{"stages": {"st": "done"}, "cleanup": "updating", "targets": {"d1": "updating"}}`, "=", "="},
		"FL25": {"=", `{"run": "running", "targets": {"c1": "updating"}, "stages": {"st": "updating"}}`},
		"FL27": {"=", `{"run": "running", "targets": {"c1": "updating", "c2": "removed"}}`},
		"FL29": {"=", "=", `{"run": "running", "stages": {"a": "done", "b": "updating"}, "targets": {"c1": "done", "c2": "updating"}}`},
		"FL33": {"=", `{"run": "paused", "stages": {"st": "paused"}, "targets": {"c1": "stuck"}, "next": "none"}`, `{"run": "paused", "next": "none"}`,
			`{"run": "paused", "targets": {"c1": "done"}, "next": "none"}`},
		"FL35": {"=", "=", "=", `{"run": "paused", "next": "10m0s"}`, `{"run": "gated", "next": "10m0s"}`},
		"FL37": {"=", "=", `{"run": "paused"}`, `{"run": "paused", "next": "20m0s"}`, `{"run": "gated", "next": "20m0s"}`},
		"FL43": {`{"targets": {"c1": "done", "c2": "done", "c3": "done"}, "stages": {"st": "done"}, "run": "done", "next": "none"}`, `{"run": "done"}`, `{"run": "done"}`, `{"run": "done"}`},
		"FL45": {`{"run": "rejected", "rule": "stage.nameUnique"}`},
		"FL47": {"=", "=", "="},
		"FL49": {"=", "=", "="},
		"FL51": {"=", `{"stages": {"st": "done"}, "cleanup": "updating"}`, `{"targets": {"d1": "updating"}, "cleanup": "updating"}`, "=", "="},
		"FL53": {"=", `{"run": "running", "targets": {"c1": "removed", "c2": "updating"}}`},
		"FL57": {"=", "=", "=", "="},
		"FL59": {"=", `{"targets": {"c1": "updating", "c2": "waiting"}, "run": "running", "stages": {"st": "updating"}}`,
			`{"targets": {"c1": "stuck", "c2": "waiting"}, "run": "running", "next": "none"}`, `{"run": "paused", "next": "none"}`},
	}
}

func kubeCases(t *testing.T) []kubeCase {
	t.Helper()
	data, err := os.ReadFile("testdata/kubefleet.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Cases []kubeCase }
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	return file.Cases
}

func TestKubeFleetCases(t *testing.T) {
	differ := ours()
	areas := map[string]int{}
	for _, c := range kubeCases(t) {
		t.Run(c.ID, func(t *testing.T) {
			instead, ok := differ[c.ID]
			if ok != (c.Here != "") {
				t.Fatalf("%s: the list of what holds here has it: %t; the case says here: %q", c.Title, ok, c.Here)
			}
			delete(differ, c.ID)
			areas[c.Area]++
			switch c.Area {
			case "limit":
				caseLimit(t, &c)
			case "plan":
				casePlan(t, &c, expectation(t, c.Expect, instead, 0))
			case "control":
				caseControl(t, &c, expectation(t, c.Expect, instead, 0))
			case "compile":
				caseCompile(t, &c, expectation(t, c.Expect, instead, 0))
			case "flow":
				caseFlow(t, &c, instead)
			default:
				t.Fatalf("unknown area %q", c.Area)
			}
		})
	}
	if len(differ) > 0 {
		t.Errorf("no such cases: %v", slices.Sorted(maps.Keys(differ)))
	}
	if want := map[string]int{"limit": 8, "plan": 18, "control": 10, "compile": 10, "flow": 30}; !gocmp.Equal(areas, want) {
		t.Errorf("cases by area: %s", gocmp.Diff(want, areas))
	}
}

func expectation(t *testing.T, theirs kubeExpect, instead []string, i int) kubeExpect {
	t.Helper()
	if len(instead) == 0 || instead[i] == "=" {
		return theirs
	}
	var own kubeExpect
	if err := json.Unmarshal([]byte(instead[i]), &own); err != nil {
		t.Fatal(err)
	}
	return own
}

// document writes the stages of a case as KubeFleet's strategy.
func document(stages []kubeStage) []byte {
	type object = map[string]any
	list := []object{}
	for _, s := range stages {
		o := object{"name": s.Name}
		if !s.SelectNone {
			o["labelSelector"] = object{}
			if len(s.Select) > 0 {
				o["labelSelector"] = object{"matchLabels": s.Select}
			}
		}
		if s.OrderBy != "" {
			o["sortingLabelKey"] = s.OrderBy
		}
		if s.MaxParallel != nil {
			o["maxConcurrency"] = s.MaxParallel
		}
		for field, tasks := range map[string][]struct{ Kind, For string }{"beforeStageTasks": s.Before, "afterStageTasks": s.After} {
			written := []object{}
			for _, k := range tasks {
				one := object{"type": map[string]string{"approval": "Approval", "wait": "TimedWait"}[k.Kind]}
				if k.For != "" {
					one["waitTime"] = k.For
				}
				written = append(written, one)
			}
			if len(written) > 0 {
				o[field] = written
			}
		}
		list = append(list, o)
	}
	data, err := json.Marshal(object{"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterStagedUpdateStrategy",
		"metadata": object{"name": "s", "labels": object{"a": "b"}}, "spec": object{"stages": list}})
	if err != nil {
		panic(err)
	}
	return data
}

// rules lists the rules that an error violates.
func rules(err error) []staged.Code {
	var list []staged.Code
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range joined.Unwrap() {
			list = append(list, rules(one)...)
		}
		return list
	}
	var fault *staged.FieldError
	if errors.As(err, &fault) {
		list = append(list, fault.Code)
	}
	return list
}

func wantRule(t *testing.T, err error, rule string) {
	t.Helper()
	if !slices.Contains(rules(err), staged.Code(rule)) {
		t.Errorf("got %v, want rule %s", err, rule)
	}
}

func caseLimit(t *testing.T, c *kubeCase) {
	var strategy staged.Strategy
	err := json.Unmarshal(document([]kubeStage{{Name: "a", SelectAll: true, MaxParallel: c.Input.MaxParallel}, {Name: "b", SelectNone: true}}), &strategy)
	if c.Expect.Error {
		wantRule(t, err, c.Expect.Rule)
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	fleet := staged.Fleet{Version: "1", Leaving: []string{"somebody"}}
	for i := range c.Input.TargetCount {
		fleet.Targets = append(fleet.Targets, staged.Target{Name: fmt.Sprint("c", i)})
	}
	run, err := staged.Compile(strategy, specOf("prepare"), fleet, staged.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for s := range run.Stages() {
		if s.Limit != *c.Expect.Limit {
			t.Errorf("limit %d, want %d", s.Limit, *c.Expect.Limit)
		}
		break
	}
}

func casePlan(t *testing.T, c *kubeCase, want kubeExpect) {
	var strategy staged.Strategy
	err := json.Unmarshal(document(c.Input.Stages), &strategy)
	if err == nil {
		err = strategy.Validate()
	}
	if *want.Valid != (err == nil) {
		t.Fatalf("got %v, want valid %t", err, *want.Valid)
	}
	if err != nil {
		wantRule(t, err, want.Rule)
	}
}

func specOf(desired string) staged.Spec {
	return staged.Spec{Name: "run", PlacementName: "p", ResourceSnapshotIndex: "1", StagedRolloutStrategyName: "s", State: state(desired)}
}

func state(desired string) staged.State {
	known := map[string]staged.State{"": "", "prepare": staged.StateInitialize, "run": staged.StateRun, "pause": staged.StateStop}
	if s, ok := known[desired]; ok {
		return s
	}
	return staged.State(desired)
}

func caseControl(t *testing.T, c *kubeCase, want kubeExpect) {
	spec := func(r *kubeRun) staged.Spec {
		return staged.Spec{Name: "run", PlacementName: r.Placement, ResourceSnapshotIndex: r.Version, StagedRolloutStrategyName: r.Strategy, State: state(r.Desired)}
	}
	err := spec(c.Input.To).Validate()
	if c.Input.From != nil {
		err = errors.Join(err, spec(c.Input.From).ValidateUpdate(spec(c.Input.To)))
	}
	if *want.Valid != (err == nil) {
		t.Fatalf("got %v, want valid %t", err, *want.Valid)
	}
	if err != nil {
		wantRule(t, err, want.Rule)
	}
}

func compileCase(t *testing.T, in *kubeInput, options staged.Options) (*staged.Run, error) {
	t.Helper()
	var strategy staged.Strategy
	if err := json.Unmarshal(document(in.Stages), &strategy); err != nil {
		return nil, err
	}
	fleet := staged.Fleet{Leaving: in.Leaving, Version: "1"}
	if in.External != nil {
		fleet.PlacementStrategy = map[bool]string{true: "External", false: "RollingUpdate"}[*in.External]
	}
	for _, k := range in.Targets {
		fleet.Targets = append(fleet.Targets, staged.Target{Name: k.Name, Labels: k.Labels})
	}
	return staged.Compile(strategy, specOf(in.Desired), fleet, options)
}

func caseCompile(t *testing.T, c *kubeCase, want kubeExpect) {
	run, err := compileCase(t, &c.Input, staged.Options{})
	if want.Run == "rejected" {
		wantRule(t, err, want.Rule)
		if want.Rule == "targets.unmatched" && !strings.Contains(err.Error(), "12: in no stage: c00, c01, c02, c03, c04, c05, c06, c07, c08, c09 and 2 more") {
			t.Errorf("must give the total and the first ten, sorted: %v", err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	for s := range run.Stages() {
		if order, ok := want.Order[s.Name]; ok {
			names := []string{}
			for k := range run.Targets(s.Index) {
				names = append(names, k.Name)
			}
			if diff := gocmp.Diff(order, names); diff != "" {
				t.Errorf("order of %s: %s", s.Name, diff)
			}
		}
	}
}

// kubeWorld is the fleet around a run: what each target points at and how it is.
type kubeWorld struct {
	run      *staged.Run
	now      time.Time
	version  map[string]string
	health   map[string]staged.Health
	gone     map[string]bool
	requests map[string]bool
	tokens   map[string]staged.Token // of what was carried out, so that what is observed is known to be later
	input    staged.Input
	next     time.Time
}

func newKubeWorld(in *kubeInput, run *staged.Run) *kubeWorld {
	w := &kubeWorld{run: run, now: time.Date(2026, 3, 10, 8, 0, 0, 0, time.UTC), version: map[string]string{}, health: map[string]staged.Health{},
		gone: map[string]bool{}, requests: map[string]bool{}, tokens: map[string]staged.Token{}}
	for _, k := range in.Targets {
		w.version[k.Name], w.health[k.Name] = "0", staged.HealthReady
		if k.Current {
			w.version[k.Name] = "1"
		}
	}
	for _, name := range in.Leaving {
		w.version[name] = "0"
	}
	return w
}

func (w *kubeWorld) do(t *testing.T, do *kubeDo) {
	t.Helper()
	if do.Advance != "" {
		d, err := time.ParseDuration(do.Advance)
		if err != nil {
			t.Fatal(err)
		}
		w.now = w.now.Add(d)
	}
	if do.Desired != "" {
		w.input.State = state(do.Desired)
	}
	for name, what := range do.Observe {
		switch what {
		case "ready":
			w.health[name] = staged.HealthReady
		case "failing":
			w.health[name] = staged.HealthFailing
		case "notReadyYet":
			w.health[name] = staged.HealthProgressing
		case "stolen":
			w.version[name], w.health[name] = "2", staged.HealthProgressing
		case "stolenReady":
			w.version[name], w.health[name] = "2", staged.HealthReady
		case "leaving":
			w.input.Leaving = append(w.input.Leaving, name)
		case "removed":
			w.gone[name] = true
		default:
			t.Fatalf("unknown observation %q", what)
		}
	}
	answer := func(kind staged.CommandKind, name string) {
		rest, ok := strings.CutPrefix(name, "run-")
		side, stage, _ := strings.Cut(rest, "-")
		for s := range w.run.Stages() {
			if ok && s.Name == stage {
				w.input.Commands = append(w.input.Commands, staged.Command{Kind: kind, Run: "run", Stage: s.Index, Side: staged.Side(side)})
				return
			}
		}
		t.Fatalf("no such approval: %s", name)
	}
	if do.Approve != "" {
		answer(staged.CommandApprove, do.Approve)
	}
	if do.Unapprove != "" {
		answer(staged.CommandReject, do.Unapprove)
	}
	delete(w.requests, do.DropApproval)
	if k := do.AddTarget; k != nil {
		w.input.Added = append(w.input.Added, staged.Target{Name: k.Name, Labels: k.Labels})
	}
	if do.RemoveTarget != "" {
		w.input.Removed = append(w.input.Removed, do.RemoveTarget)
		w.gone[do.RemoveTarget] = true
	}
	for range do.Tick {
		in := w.input
		for _, name := range slices.Sorted(maps.Keys(w.version)) {
			in.Observations = append(in.Observations, staged.Observation{Target: name, Version: w.version[name], Health: w.health[name], Gone: w.gone[name], Token: w.tokens[name]})
		}
		run, result, err := staged.Step(w.run, in, w.now)
		if err != nil {
			t.Fatal(err)
		}
		if !do.LoseStatus {
			w.run, w.next = run, result.Next
			w.input = staged.Input{}
		}
		if do.LoseStatus {
			continue // what was not stored was not carried out
		}
		for _, a := range result.Actions {
			switch a.Kind {
			case staged.RequestApproval:
				w.requests[a.Name] = true
			case staged.Remove:
				w.tokens[a.Target] = a.Token
			case staged.Start:
				w.tokens[a.Target] = a.Token
				if w.version[a.Target] != a.Version {
					w.version[a.Target], w.health[a.Target] = a.Version, staged.HealthProgressing
				}
			}
		}
	}
}

func (w *kubeWorld) check(t *testing.T, i int, want kubeExpect) {
	t.Helper()
	word := map[staged.Phase]string{staged.PhaseInitialized: "ready", staged.PhaseProgressing: "running", staged.PhaseWaiting: "gated", staged.PhaseStopping: "pausing",
		staged.PhaseStopped: "paused", staged.PhaseFailed: "failed", staged.PhaseSucceeded: "done"}[w.run.Phase()]
	if w.run.Time().IsZero() {
		word = "new"
	}
	if want.Run != "" && want.Run != word {
		t.Errorf("step %d: the run is %s, want %s", i, word, want.Run)
	}
	stages := map[string]string{}
	for s := range w.run.Stages() {
		stages[s.Name] = map[staged.StagePhase]string{staged.StagePending: "idle", staged.StageWaitingBefore: "gated", staged.StageUpdating: "updating",
			staged.StageWaitingAfter: "gated", staged.StageSucceeded: "done", staged.StageSkipped: "skipped", staged.StageFailed: "failed"}[s.Phase]
		if s.Index == w.run.Current() && (word == "paused" || word == "pausing") {
			stages[s.Name] = word
		}
	}
	for name, want := range want.Stages {
		if stages[name] != want {
			t.Errorf("step %d: stage %s is %s, want %s", i, name, stages[name], want)
		}
	}
	if got := stages["kubernetes-fleet.io/deleteStage"]; want.Cleanup != "" && got != want.Cleanup {
		t.Errorf("step %d: the cleanup is %s, want %s", i, got, want.Cleanup)
	}
	for name, want := range want.Targets {
		status, _ := w.run.Target(name)
		got := status.State.String()
		switch status.State {
		case staged.Starting, staged.Updating, staged.Soaking:
			got = "updating"
			if status.Stuck && want == "stuck" {
				got = "stuck"
			}
		}
		if got != want {
			t.Errorf("step %d: %s is %s, want %s", i, name, got, want)
		}
		if want == "failed" && status.Reason != staged.ReasonSuperseded {
			t.Errorf("step %d: %s failed because of %s", i, name, status.Reason)
		}
	}
	if want.Approvals != nil {
		if diff := gocmp.Diff(*want.Approvals, slices.AppendSeq([]string{}, slices.Values(slices.Sorted(maps.Keys(w.requests))))); diff != "" {
			t.Errorf("step %d: approvals: %s", i, diff)
		}
	}
	if want.Reason == "after-gate of st" {
		if v, _ := w.run.Waits(); v.Reason != staged.ReasonWait {
			t.Errorf("step %d: the run waits for %s", i, v)
		}
	}
	switch want.Next {
	case "", "15s", "1m0s", "now", "backoff": // KubeFleet's polling and its queue
	case "none":
		if !w.next.IsZero() {
			t.Errorf("step %d: next is %v, want none", i, w.next)
		}
	default:
		if left := w.next.Sub(w.now).String(); left != want.Next {
			t.Errorf("step %d: %s left, want %s", i, left, want.Next)
		}
	}
}

func caseFlow(t *testing.T, c *kubeCase, instead []string) {
	run, err := compileCase(t, &c.Input, staged.Options{})
	if len(instead) > 0 && strings.Contains(instead[0], "rejected") {
		wantRule(t, err, expectation(t, kubeExpect{}, instead, 0).Rule)
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	w := newKubeWorld(&c.Input, run)
	for i := range c.Steps {
		w.do(t, &c.Steps[i].Do)
		w.check(t, i, expectation(t, c.Steps[i].Expect, instead, i))
		if t.Failed() {
			t.Fatalf("%s\n%s", c.Title, w.run)
		}
	}
}
