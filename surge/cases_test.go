package surge_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/tranche-dev/tranche/internal/strictjson"
	"github.com/tranche-dev/tranche/surge"
)

// oneCase is an entry of testdata/cases.json; its "about" says what the kinds mean.
type oneCase struct {
	ID     string          `json:"id"`
	Kind   string          `json:"kind"`
	Source string          `json:"source"`
	Title  string          `json:"title"`
	Name   string          `json:"name"`
	Why    string          `json:"why"`
	Config json.RawMessage `json:"config"`

	State     json.RawMessage `json:"state"`
	Create    []int           `json:"create"`
	Delete    []int           `json:"delete"`
	Stable    []int           `json:"stable"`
	Converged bool            `json:"converged"`

	Final string `json:"final"`
	Steps []struct {
		State  string `json:"state"`
		Create []int  `json:"create"`
		Delete []int  `json:"delete"`
		Event  string `json:"event"`
		Note   string `json:"note"`
	} `json:"steps"`

	Actions          []surge.Action `json:"actions"`
	Blocked          surge.Blocked  `json:"blocked"`
	Updated          bool           `json:"updated"`
	UpdatedReplicas  int            `json:"updatedReplicas"`
	UpdatingReplicas []int          `json:"updatingReplicas"`

	Replicas        int             `json:"replicas"`
	MaxSurge        json.RawMessage `json:"maxSurge"`
	MaxUnavailable  json.RawMessage `json:"maxUnavailable"`
	Partition       int             `json:"partition"`
	WantSurge       int             `json:"wantSurge"`
	WantUnavailable int             `json:"wantUnavailable"`
	Error           bool            `json:"error"`
	Valid           bool            `json:"valid"`

	MinAvailable int    `json:"minAvailable"`
	Index        int    `json:"index"`
	Gang         string `json:"gang"`
	Used         []int  `json:"used"`
	Count        int    `json:"count"`
	Want         []int  `json:"want"`
	Slot         string `json:"slot"`
	Members      []struct {
		State        string `json:"state"`
		Replicas     int    `json:"replicas"`
		MinAvailable int    `json:"minAvailable"`
	} `json:"members"`

	UnreadyOrOutdatedBase int               `json:"unreadyOrOutdatedBase"`
	SurgesNeededAtLeast   int               `json:"surgesNeededAtLeast"`
	StsReplicas           int               `json:"stsReplicas"`
	NewTemplate           bool              `json:"newTemplate"`
	LwsPartition          int               `json:"lwsPartition"`
	LwsStatefulSet        int               `json:"lwsStatefulSetReplicas"`
	Set                   json.RawMessage   `json:"set"`
	Plan                  map[string]string `json:"plan"`
	Current               int               `json:"current"`
}

func readCases(t *testing.T) []oneCase {
	t.Helper()
	data, err := os.ReadFile("testdata/cases.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		About string    `json:"about"`
		Cases []oneCase `json:"cases"`
	}
	if err := strictjson.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	return file.Cases
}

// TestCases runs every entry of testdata/cases.json.
func TestCases(t *testing.T) {
	run := map[string]func(*testing.T, oneCase){
		"plan": casePlan, "trace": caseTrace, "explain": caseExplain, "lws-ref": caseLWS,
		"resolve": caseResolve, "validate": caseValidate, "gang": caseGang, "indices": caseIndices, "fold": caseFold,
		"set": caseSet, "validate-set": caseValidateSet,
	}
	seen := map[string]int{}
	ids := map[string]bool{}
	for _, c := range readCases(t) {
		if c.ID == "" || ids[c.ID] {
			t.Errorf("case %q has no name of its own", c.ID)
		}
		if c.Source == "" || cmp.Or(c.Why, c.Title, c.Name, c.Kind) == "" {
			t.Errorf("case %q does not say where it comes from and why", c.ID)
		}
		ids[c.ID] = true
		seen[c.Kind]++
		check, ok := run[c.Kind]
		if !ok {
			t.Fatalf("case %s is of unknown kind %q", c.ID, c.Kind)
		}
		t.Run(c.ID, func(t *testing.T) { check(t, c) })
	}
	for kind := range run {
		if seen[kind] == 0 {
			t.Errorf("no case of kind %s", kind)
		}
	}
	t.Logf("cases by kind: %v", seen)
}

func text(t *testing.T, raw json.RawMessage) string {
	t.Helper()
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		t.Fatal(err)
	}
	return s
}

func parse(t testing.TB, state string) []surge.Slot {
	t.Helper()
	slots, err := surge.ParseSlots(state)
	if err != nil {
		t.Fatal(err)
	}
	return slots
}

func (c oneCase) spec(t *testing.T) surge.Spec {
	t.Helper()
	var spec surge.Spec
	if err := strictjson.Unmarshal(c.Config, &spec); err != nil {
		t.Fatal(err)
	}
	return spec
}

// check compares a plan with the indices that it must create and delete.
func check(t *testing.T, spec surge.Spec, plan surge.Result, create, remove, stable []int) {
	t.Helper()
	created, deleted, atStable := []int{}, []int{}, []int{}
	for _, action := range plan.Actions {
		if action.Op == surge.Delete {
			deleted = append(deleted, action.Index)
			continue
		}
		created = append(created, action.Index)
		if action.Revision == surge.Stable {
			atStable = append(atStable, action.Index)
		} else if action.Revision != surge.Target {
			t.Errorf("%v is created at no revision", action)
		}
	}
	for _, diff := range []string{
		gocmp.Diff(append([]int{}, create...), created), gocmp.Diff(append([]int{}, remove...), deleted), gocmp.Diff(append([]int{}, stable...), atStable),
	} {
		if diff != "" {
			t.Errorf("-want +got:\n%s\nplan:\n%v\nspec: %+v", diff, plan, spec)
		}
	}
}

func casePlan(t *testing.T, c oneCase) {
	spec, slots := c.spec(t), parse(t, text(t, c.State))
	plan := surge.Plan(spec, slots)
	check(t, spec, plan, c.Create, c.Delete, c.Stable)
	if plan.Converged != c.Converged {
		t.Errorf("converged: got %v", plan.Converged)
	}
}

// event plays "3 ready" or "3 gone"; several are separated by commas.
func event(t testing.TB, slots []surge.Slot, events string) []surge.Slot {
	t.Helper()
	next := append([]surge.Slot{}, slots...)
	for one := range strings.SplitSeq(events, ",") {
		number, what, _ := strings.Cut(strings.TrimSpace(one), " ")
		i, err := strconv.Atoi(number)
		if err != nil || i >= len(next) {
			t.Fatalf("unreadable event %q", events)
		}
		switch slot := &next[i]; {
		case what == "ready" && *slot == surge.TargetUnavailable:
			*slot = surge.TargetAvailable
		case what == "ready" && *slot == surge.OldUnavailable:
			*slot = surge.OldAvailable
		case what == "gone" && *slot == surge.Terminating:
			*slot = surge.Absent
		default:
			t.Fatalf("event %q cannot happen to %s in %s", one, *slot, surge.FormatSlots(slots))
		}
	}
	return next
}

func caseTrace(t *testing.T, c oneCase) {
	spec := c.spec(t)
	for i, step := range c.Steps {
		slots := parse(t, step.State)
		plan := surge.Plan(spec, slots)
		check(t, spec, plan, step.Create, step.Delete, nil)
		next := surge.Apply(slots, plan.Actions)
		if len(plan.Actions) == 0 && step.Event != "" {
			next = event(t, slots, step.Event)
		} else if step.Event != "" {
			t.Errorf("step %d has a plan and an event", i)
		}
		want := c.Final
		if i+1 < len(c.Steps) {
			want = c.Steps[i+1].State
		}
		if got := surge.FormatSlots(next); got != want {
			t.Errorf("step %d from %s: got %s, want %s", i, step.State, got, want)
		}
		if last := i == len(c.Steps)-1; last != plan.Converged {
			t.Errorf("step %d, %s: converged is %v", i, step.State, plan.Converged)
		}
	}
}

func caseExplain(t *testing.T, c oneCase) {
	spec, slots := c.spec(t), parse(t, text(t, c.State))
	plan := surge.Plan(spec, slots)
	actions := append([]surge.Action{}, plan.Actions...)
	if diff := gocmp.Diff(append([]surge.Action{}, c.Actions...), actions); diff != "" {
		t.Errorf("actions, -want +got:\n%s", diff)
	}
	if plan.Blocked != c.Blocked {
		t.Errorf("blocked: got %v, want %v", plan.Blocked, c.Blocked)
	}
	if plan.Updated != c.Updated || plan.Converged != c.Converged {
		t.Errorf("got updated %v, converged %v", plan.Updated, plan.Converged)
	}
	progress := surge.Project(spec, slots, plan)
	if progress.UpdatedReplicas != c.UpdatedReplicas {
		t.Errorf("updatedReplicas: got %d, want %d", progress.UpdatedReplicas, c.UpdatedReplicas)
	}
	if diff := gocmp.Diff(append([]int{}, c.UpdatingReplicas...), append([]int{}, progress.Updating...)); diff != "" {
		t.Errorf("updatingReplicas, -want +got:\n%s", diff)
	}
}

// config builds the JSON of a Spec from the fields of a case, as a user writes them.
func (c oneCase) config() []byte {
	doc := fmt.Sprintf(`{"replicas":%d,"partition":%d`, c.Replicas, c.Partition)
	if c.MaxSurge != nil {
		doc += `,"maxSurge":` + string(c.MaxSurge)
	}
	if c.MaxUnavailable != nil {
		doc += `,"maxUnavailable":` + string(c.MaxUnavailable)
	}
	return []byte(doc + "}")
}

// caseLWS compares with LeaderWorkerSet: how many surges are kept while part of the base is
// outdated or not ready.
func caseLWS(t *testing.T, c oneCase) {
	var spec surge.Spec
	if err := json.Unmarshal(c.config(), &spec); err != nil {
		t.Fatal(err)
	}
	if c.State != nil {
		check(t, spec, surge.Plan(spec, parse(t, text(t, c.State))), c.Create, c.Delete, nil)
		return
	}
	r := spec.Resolve()
	for _, missing := range []string{"n", "O"} {
		state := strings.Repeat(missing, c.UnreadyOrOutdatedBase) + strings.Repeat("N", c.Replicas-c.UnreadyOrOutdatedBase+r.Surge)
		after := surge.Apply(parse(t, state), surge.Plan(spec, parse(t, state)).Actions)
		kept := 0
		for _, slot := range after[r.Replicas:] {
			if slot.Live() {
				kept++
			}
		}
		if kept != c.SurgesNeededAtLeast {
			t.Errorf("%s: %d surges are kept, want %d", state, kept, c.SurgesNeededAtLeast)
		}
	}
}

func caseResolve(t *testing.T, c oneCase) {
	var spec surge.Spec
	err := json.Unmarshal(c.config(), &spec)
	if (err != nil) != c.Error {
		t.Fatalf("got error %v", err)
	}
	if c.Error {
		return
	}
	if r := spec.Resolve(); r.Surge != c.WantSurge || r.Unavailable != c.WantUnavailable {
		t.Errorf("got %+v, want surge %d and unavailable %d", r, c.WantSurge, c.WantUnavailable)
	}
}

func caseValidate(t *testing.T, c oneCase) {
	var spec surge.Spec
	err := json.Unmarshal(c.config(), &spec)
	if err == nil {
		err = spec.Validate()
	}
	if (err == nil) != c.Valid {
		t.Errorf("%s: got %v", c.config(), err)
	}
}

func caseGang(t *testing.T, c oneCase) {
	if got := surge.Placement(c.Index, c.MinAvailable).String(); got != c.Gang {
		t.Errorf("got %s, want %s", got, c.Gang)
	}
}

func caseIndices(t *testing.T, c oneCase) {
	if diff := gocmp.Diff(c.Want, surge.FreeIndices(c.Used, c.Count)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func caseFold(t *testing.T, c oneCase) {
	var members []surge.Member
	for _, m := range c.Members {
		members = append(members, surge.Member{Slots: parse(t, m.State), Replicas: m.Replicas, MinAvailable: m.MinAvailable})
	}
	if got := surge.Fold(members).String(); got != c.Slot {
		t.Errorf("got %s, want %s", got, c.Slot)
	}
}
