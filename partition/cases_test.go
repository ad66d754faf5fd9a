package partition_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/tranche-dev/tranche/internal/strictjson"
	"github.com/tranche-dev/tranche/partition"
)

// oneCase is an entry of testdata/cases.json; its "about" explains the fields.
type oneCase struct {
	ID      string          `json:"id"`
	About   string          `json:"about"`
	Request request         `json:"request"`
	Expect  expectation     `json:"expect"`
	Default *defaultOutcome `json:"default"`
	Doc     string          `json:"doc"`
}

type request struct {
	Limit *struct {
		Count  int                     `json:"count"`
		Values []partition.IntOrString `json:"values"`
	} `json:"limit"`
	Clusters []caseCluster      `json:"clusters"`
	Generate json.RawMessage    `json:"generate"`
	Strategy partition.Strategy `json:"strategy"`
	Settle   string             `json:"settle"`
	Steps    int                `json:"steps"`
}

type caseCluster struct {
	Name        string            `json:"name"`
	Count       int               `json:"count"`
	Start       int               `json:"start"`
	Prefix      string            `json:"prefix"`
	Labels      map[string]string `json:"labels"`
	Groups      []string          `json:"clusterGroups"`
	State       string            `json:"state"`
	Ready       bool              `json:"ready"`
	Paused      bool              `json:"paused"`
	Offline     bool              `json:"offline"`
	NoNamespace bool              `json:"noNamespace"`
}

type expectation struct {
	Limit *int `json:"limit"`
	Error *struct {
		Kind  partition.Code `json:"kind"`
		Field string         `json:"field"`
	} `json:"error"`
	Partitions               []row      `json:"partitions"`
	Members                  [][]string `json:"members"`
	Next                     names      `json:"next"`
	Excluded                 []string   `json:"excluded"`
	MaxUnavailable           *int       `json:"maxUnavailable"`
	MaxUnavailablePartitions *int       `json:"maxUnavailablePartitions"`
	UnavailablePartitions    *int       `json:"unavailablePartitions"`
	Unavailable              *int       `json:"unavailable"`
	NewlyCreated             *int       `json:"newlyCreated"`
	RoundsNext               []int      `json:"roundsNext"`
	RoundsCreatedLast        string     `json:"roundsCreatedLast"`
	Done                     *bool      `json:"done"`
}

type defaultOutcome struct {
	Error                    bool  `json:"error"`
	Limit                    *int  `json:"limit"`
	Released                 names `json:"released"`
	ReleasedPerStep          []int `json:"releasedPerStep"`
	Partitions               []row `json:"partitions"`
	MaxUnavailablePartitions *int  `json:"maxUnavailablePartitions"`
	NotReadyPartitions       *int  `json:"notReadyPartitions"`
}

// row is [name, count, maxUnavailable, NotReady after the step, ready, reached].
type row struct {
	name                 string
	count, max, notReady int
	ready, reached       bool
}

func (r *row) UnmarshalJSON(data []byte) error {
	return json.Unmarshal(data, &[]any{&r.name, &r.count, &r.max, &r.notReady, &r.ready, &r.reached})
}

// names is a list of names, or only its length and ends.
type names struct {
	given       bool
	list        []string
	count       int
	first, last string
}

func (n *names) UnmarshalJSON(data []byte) error {
	n.given = true
	if data[0] == '[' {
		return json.Unmarshal(data, &n.list)
	}
	var short struct {
		Count int    `json:"count"`
		First string `json:"first"`
		Last  string `json:"last"`
	}
	err := strictjson.Unmarshal(data, &short)
	n.count, n.first, n.last = short.Count, short.First, short.Last
	return err
}

func (n *names) check(t *testing.T, what string, got []string) {
	t.Helper()
	switch {
	case !n.given:
	case n.count > 0:
		if len(got) != n.count || n.first != "" && got[0] != n.first || n.last != "" && got[len(got)-1] != n.last {
			t.Errorf("%s: got %d, %v; want %d, %s to %s", what, len(got), got, n.count, n.first, n.last)
		}
	default:
		if !slices.Equal(got, n.list) {
			t.Errorf("%s: got %v, want %v", what, got, n.list)
		}
	}
}

func readCases(t testing.TB) []oneCase {
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

// world is the clusters of a case, and what no plan sees of them.
type world struct {
	fleet       partition.Fleet
	noNamespace map[string]bool
}

const oldVersion, newVersion = "v1", "v2"

func (r *request) world(t testing.TB) *world {
	t.Helper()
	w := &world{noNamespace: map[string]bool{}}
	specs := r.Clusters
	if r.Generate != nil {
		var list []caseCluster
		if r.Generate[0] != '[' {
			list = make([]caseCluster, 1)
			if err := strictjson.Unmarshal(r.Generate, &list[0]); err != nil {
				t.Fatal(err)
			}
		} else if err := strictjson.Unmarshal(r.Generate, &list); err != nil {
			t.Fatal(err)
		}
		for _, one := range list {
			if one.Prefix == "" {
				one.Prefix = "c"
			}
			for i := range one.Count {
				one.Name = fmt.Sprintf("%s%06d", one.Prefix, one.Start+i)
				specs = append(specs, one)
			}
		}
	}
	for _, one := range specs {
		cluster := partition.Cluster{Name: one.Name, Labels: one.Labels, Groups: one.Groups, Wanted: newVersion}
		cluster.Ready, cluster.Paused, cluster.Offline = one.Ready, one.Paused, one.Offline
		switch s := &cluster.State; one.State {
		case "new":
			s.Ready = false
		case "old":
			s.Released, s.Staged, s.Applied = oldVersion, oldVersion, oldVersion
		case "staged":
			s.Released, s.Staged, s.Applied = oldVersion, newVersion, oldVersion
		case "rolling":
			s.Released, s.Staged, s.Applied = newVersion, newVersion, oldVersion
		case "current":
			s.Released, s.Staged, s.Applied = newVersion, newVersion, newVersion
		default:
			t.Fatalf("unknown state %q", one.State)
		}
		w.noNamespace[one.Name] = one.NoNamespace
		w.fleet.Clusters = append(w.fleet.Clusters, cluster)
	}
	return w
}

// apply carries a plan out.
func (w *world) apply(step *partition.Step) {
	at := map[string]*partition.Cluster{}
	for i := range w.fleet.Clusters {
		at[w.fleet.Clusters[i].Name] = &w.fleet.Clusters[i]
	}
	if step.Controller != nil {
		for _, id := range step.Controller.Created {
			at[id.Name].State = partition.State{Paused: at[id.Name].Paused, Offline: at[id.Name].Offline}
		}
		for _, id := range step.Controller.Staged {
			at[id.Name].Staged = at[id.Name].Wanted
		}
	}
	for _, r := range step.Releases {
		at[r.Name].Released = at[r.Name].Wanted
	}
	for i := range w.fleet.Clusters {
		if w.noNamespace[w.fleet.Clusters[i].Name] {
			w.fleet.Clusters[i].State = partition.State{}
		}
	}
}

// settle lets every cluster that was released and is neither offline nor paused become ready.
func (w *world) settle() {
	for i := range w.fleet.Clusters {
		c := &w.fleet.Clusters[i]
		if c.Released == c.Wanted && !c.Offline && !c.Paused {
			c.Applied, c.Ready = c.Wanted, true
		}
	}
}

func (w *world) done() bool {
	return !slices.ContainsFunc(w.fleet.Clusters, func(c partition.Cluster) bool {
		return c.Released != c.Wanted || c.Applied != c.Wanted || !c.Ready
	})
}

func releasedNames(step *partition.Step) (list []string) {
	for _, r := range step.Releases {
		list = append(list, r.Name)
	}
	return list
}

func idNames(ids []partition.ID) (list []string) {
	for _, id := range ids {
		list = append(list, id.Name)
	}
	return list
}

func rowsOf(step *partition.Step) (rows []row) {
	for _, s := range step.Partitions {
		rows = append(rows, row{s.Name, s.Count, s.MaxUnavailable, s.NotReady, s.Ready, s.Reached})
	}
	return rows
}

// TestCases runs every entry of testdata/cases.json in both modes.
func TestCases(t *testing.T) {
	cases := readCases(t)
	if len(cases) < 67 {
		t.Errorf("only %d cases", len(cases))
	}
	seen := map[string]bool{}
	for _, c := range cases {
		if c.ID == "" || c.About == "" || seen[c.ID] {
			t.Errorf("case %q must have a name of its own and say what it is about", c.ID)
		}
		seen[c.ID] = true
		t.Run(c.ID, func(t *testing.T) {
			if c.Request.Limit != nil {
				c.checkLimit(t)
				return
			}
			t.Run("controller", c.checkController)
			t.Run("default", c.checkDefault)
		})
	}
}

func (c oneCase) checkLimit(t *testing.T) {
	got, err := partition.Limit(partition.FleetController, c.Request.Limit.Count, c.Request.Limit.Values...)
	if c.Expect.Error != nil {
		c.checkError(t, err)
	} else if err != nil || got != *c.Expect.Limit {
		t.Errorf("controller: got %d, %v, want %d", got, err, *c.Expect.Limit)
	}
	got, err = partition.Limit(partition.Default, c.Request.Limit.Count, c.Request.Limit.Values...)
	if c.Default.Error {
		if fault := new(partition.FieldError); !errors.As(err, &fault) {
			t.Errorf("default: got %d, %v, want an error", got, err)
		}
	} else if err != nil || got != *c.Default.Limit {
		t.Errorf("default: got %d, %v, want %d", got, err, *c.Default.Limit)
	}
}

func (c oneCase) checkError(t *testing.T, err error) {
	t.Helper()
	var fault *partition.FieldError
	if !errors.As(err, &fault) {
		t.Fatalf("got %v, want an error of kind %s", err, c.Expect.Error.Kind)
	}
	// A fault inside a selector has the path of the place there, which goes on behind the field.
	at, selector := strings.Index("."+fault.Path+".", "."+c.Expect.Error.Field+"."), fault.Code == partition.CodeSelector
	if fault.Code != c.Expect.Error.Kind || c.Expect.Error.Field != "" && (at < 0 || !selector && !strings.HasSuffix(fault.Path, c.Expect.Error.Field)) {
		t.Errorf("got %s at %s, want %s at %s", fault.Code, fault.Path, c.Expect.Error.Kind, c.Expect.Error.Field)
	}
}

func (c oneCase) checkController(t *testing.T) {
	w := c.Request.world(t)
	options := partition.Options{Mode: partition.FleetController}
	var rounds []int
	var created []string
	for round := 0; ; round++ {
		compiled, err := partition.Compile(c.Request.Strategy, w.fleet, options)
		if c.Expect.Error != nil {
			c.checkError(t, err)
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		plan := compiled.Plan()
		if round == 0 {
			c.checkFirst(t, compiled, &plan)
		}
		rounds = append(rounds, len(plan.Releases))
		if ids := plan.Controller.Created; len(ids) > 0 {
			created = append(created, ids[len(ids)-1].Name)
		}
		w.apply(&plan.Step)
		if moved := len(plan.Releases) + len(plan.Controller.Created); moved == 0 && round > 0 || round+1 >= c.Request.Steps {
			break
		}
		if c.Request.Settle != "none" {
			w.settle()
		}
	}
	if c.Expect.RoundsNext != nil && !slices.Equal(rounds, c.Expect.RoundsNext) {
		t.Errorf("released per step: got %v, want %v", rounds, c.Expect.RoundsNext)
	}
	if want := c.Expect.RoundsCreatedLast; want != "" && (len(created) < 2 || slices.ContainsFunc(created, func(name string) bool { return name != want })) {
		t.Errorf("last created per step: got %v, want %v in each", created, want)
	}
	if c.Expect.Done != nil && w.done() != *c.Expect.Done {
		t.Errorf("done: got %v, want %v", w.done(), *c.Expect.Done)
	}
}

func (c oneCase) checkFirst(t *testing.T, compiled *partition.Compiled, plan *partition.Result) {
	if c.Expect.Partitions != nil {
		if diff := gocmp.Diff(c.Expect.Partitions, rowsOf(&plan.Step), gocmp.AllowUnexported(row{})); diff != "" {
			t.Errorf("partitions (-want +got):\n%s", diff)
		}
	}
	for i, want := range c.Expect.Members {
		members, err := compiled.Members(i)
		if err != nil || !slices.Equal(idNames(members), want) {
			t.Errorf("members of %d: got %v, %v, want %v", i, members, err, want)
		}
	}
	c.Expect.Next.check(t, "released", releasedNames(&plan.Step))
	if c.Expect.Excluded != nil && !slices.Equal(idNames(plan.Unmatched), c.Expect.Excluded) {
		t.Errorf("excluded: got %v, want %v", plan.Unmatched, c.Expect.Excluded)
	}
	number := func(what string, want *int, got int) {
		if want != nil && *want != got {
			t.Errorf("%s: got %d, want %d", what, got, *want)
		}
	}
	number("maxUnavailable", c.Expect.MaxUnavailable, plan.Controller.MaxUnavailable)
	number("maxUnavailablePartitions", c.Expect.MaxUnavailablePartitions, plan.MaxNotReadyPartitions)
	number("unavailablePartitions", c.Expect.UnavailablePartitions, plan.NotReadyPartitions)
	number("unavailable", c.Expect.Unavailable, plan.Controller.Unavailable)
	number("newlyCreated", c.Expect.NewlyCreated, len(plan.Controller.Created))
}

func (c oneCase) checkDefault(t *testing.T) {
	if c.Default == nil {
		t.Skip("the case is about the controller alone")
	}
	w := c.Request.world(t)
	var rounds []int
	for round := 0; ; round++ {
		plan, err := partition.Plan(c.Request.Strategy, w.fleet, partition.Options{})
		if c.Default.Error {
			if fault := new(partition.FieldError); !errors.As(err, &fault) {
				t.Errorf("got %v, want an error", err)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if round == 0 {
			if diff := gocmp.Diff(c.Default.Partitions, rowsOf(&plan.Step), gocmp.AllowUnexported(row{})); diff != "" {
				t.Errorf("partitions (-want +got):\n%s", diff)
			}
			c.Default.Released.check(t, "released", releasedNames(&plan.Step))
			if *c.Default.MaxUnavailablePartitions != plan.MaxNotReadyPartitions || *c.Default.NotReadyPartitions != plan.NotReadyPartitions {
				t.Errorf("gate: got %d of %d, want %d of %d", plan.NotReadyPartitions, plan.MaxNotReadyPartitions, *c.Default.NotReadyPartitions, *c.Default.MaxUnavailablePartitions)
			}
		}
		rounds = append(rounds, len(plan.Releases))
		w.apply(&plan.Step)
		if len(plan.Releases) == 0 || round+1 >= c.Request.Steps {
			break
		}
		if c.Request.Settle != "none" {
			w.settle()
		}
	}
	if c.Default.ReleasedPerStep != nil && !slices.Equal(rounds, c.Default.ReleasedPerStep) {
		t.Errorf("released per step: got %v, want %v", rounds, c.Default.ReleasedPerStep)
	}
}
