package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	clusterv1alpha1 "open-cluster-management.io/api/cluster/v1alpha1"
	rolloutv1alpha1 "open-cluster-management.io/sdk-go/pkg/apis/cluster/v1alpha1"

	"github.com/tranche-dev/tranche/rollout/staged"
)

var begin = time.Date(2026, 3, 10, 8, 0, 0, 0, time.UTC)

func decisionGroups(sizes ...int) (groups []staged.DecisionGroup) {
	next := 0
	for i, size := range sizes {
		g := staged.DecisionGroup{Name: fmt.Sprint("g", i), Index: int32(i), Clusters: []string{}}
		for range size {
			g.Clusters = append(g.Clusters, clusterName(next))
			next++
		}
		groups = append(groups, g)
	}
	return groups
}

// ocm is a host of the library: it keeps the statuses.
type ocm struct {
	t        *testing.T
	strategy clusterv1alpha1.RolloutStrategy
	handler  *rolloutv1alpha1.RolloutHandler[struct{}]
	clock    *clocktesting.FakeClock
	status   map[string]*rolloutv1alpha1.ClusterRolloutStatus
	last     rolloutv1alpha1.RolloutResult
}

func newOCM(t *testing.T, text string, groups []staged.DecisionGroup) *ocm {
	o := &ocm{t: t, clock: clocktesting.NewFakeClock(begin), status: map[string]*rolloutv1alpha1.ClusterRolloutStatus{}}
	was := rolloutv1alpha1.RolloutClock
	rolloutv1alpha1.RolloutClock = o.clock
	t.Cleanup(func() { rolloutv1alpha1.RolloutClock = was })
	if err := json.Unmarshal([]byte(text), &o.strategy); err != nil {
		t.Fatal(err)
	}
	var err error
	if o.handler, err = newHandler(groups); err != nil {
		t.Fatal(err)
	}
	return o
}

func (o *ocm) set(name string, status rolloutv1alpha1.RolloutStatus) {
	at := metav1.NewTime(o.clock.Now())
	o.status[name] = &rolloutv1alpha1.ClusterRolloutStatus{ClusterName: name, Status: status, LastTransitionTime: &at}
}

// started asks the library, applies what is to be applied, and returns it.
func (o *ocm) started() (names []string) {
	var list []rolloutv1alpha1.ClusterRolloutStatus
	for _, s := range o.status {
		list = append(list, *s)
	}
	_, result, err := o.handler.GetRolloutCluster(o.strategy, list)
	if err != nil {
		o.t.Fatal(err)
	}
	o.last = result
	for _, s := range result.ClustersTimeOut {
		o.status[s.ClusterName].Status = rolloutv1alpha1.TimeOut
	}
	for _, s := range result.ClustersToRollout {
		if s.Status == rolloutv1alpha1.ToApply {
			names = append(names, s.ClusterName)
			o.set(s.ClusterName, rolloutv1alpha1.Progressing)
		}
	}
	slices.Sort(names)
	return names
}

// own is a host of the package.
type own struct {
	t      *testing.T
	run    *staged.Run
	now    time.Time
	tokens map[string]staged.Action
	result staged.Result
}

func newOwn(t *testing.T, text string, groups []staged.DecisionGroup) *own {
	run, err := compile(text, groups)
	if err != nil {
		t.Fatal(err)
	}
	return &own{t: t, run: run, now: begin, tokens: map[string]staged.Action{}}
}

// started steps and returns what is to be started.
func (o *own) started(list ...staged.Observation) (names []string) {
	o.step(staged.Input{Observations: list})
	for _, a := range o.result.Actions {
		if _, known := o.tokens[a.Target]; !known {
			o.tokens[a.Target] = a
			names = append(names, a.Target)
		}
	}
	slices.Sort(names)
	return names
}

func (o *own) step(in staged.Input) {
	run, result, err := staged.Step(o.run, in, o.now)
	if err != nil {
		o.t.Fatal(err)
	}
	o.run, o.result = run, result
}

func (o *own) saw(name string, health staged.Health) staged.Observation {
	a := o.tokens[name]
	return staged.Observation{Target: name, Version: a.Version, Health: health, Token: a.Token}
}

// TestAgree plays whole rollouts without failures through both. In each round some of the clusters
// in progress become ready; both must then start the same ones, until all are done.
func TestAgree(t *testing.T) {
	for name, c := range map[string]struct {
		text  string
		sizes []int
	}{
		"all":                        {`{"type": "All"}`, []int{4, 3}},
		"progressive":                {`{"type": "Progressive", "progressive": {"maxConcurrency": 3}}`, []int{10}},
		"progressive percent":        {`{"type": "Progressive", "progressive": {"maxConcurrency": "25%"}}`, []int{4, 5}},
		"progressive unset":          {`{"type": "Progressive"}`, []int{4, 5}},
		"progressive mandatory":      {`{"type": "Progressive", "progressive": {"maxConcurrency": 2, "mandatoryDecisionGroups": [{"groupName": "g1"}]}}`, []int{4, 3, 2}},
		"progressive mandatory two":  {`{"type": "Progressive", "progressive": {"maxConcurrency": 2, "mandatoryDecisionGroups": [{"groupIndex": 2}, {"groupName": "g1"}]}}`, []int{4, 3, 2}},
		"per group":                  {`{"type": "ProgressivePerGroup"}`, []int{3, 1, 4}},
		"per group mandatory":        {`{"type": "ProgressivePerGroup", "progressivePerGroup": {"mandatoryDecisionGroups": [{"groupIndex": 2}]}}`, []int{3, 1, 4}},
		"progressive deadline, soak": {`{"type": "Progressive", "progressive": {"maxConcurrency": 3, "progressDeadline": "1h", "minSuccessTime": "1m"}}`, []int{7}},
	} {
		t.Run(name, func(t *testing.T) {
			groups := decisionGroups(c.sizes...)
			theirs, ours := newOCM(t, c.text, groups), newOwn(t, c.text, groups)
			var progress []string
			var observed []staged.Observation
			total, done := 0, 0
			for _, n := range c.sizes {
				total += n
			}
			for round := 0; ; round++ {
				if round > 50 {
					t.Fatal("does not end")
				}
				a, b := theirs.started(), ours.started(observed...)
				if !slices.Equal(a, b) {
					t.Fatalf("round %d: the library starts %v, staged %v\n%s", round, a, b, ours.run)
				}
				progress = append(progress, a...)
				if len(progress) == 0 && ours.run.Phase().Terminal() {
					break
				}
				// A varying part of what is in progress becomes ready.
				observed = nil
				n := min(len(progress), 1+round%3)
				if strings.Contains(c.text, "mandatory") {
					n = len(progress) // see "a mandatory group turns the window into batches"
				}
				for _, name := range progress[:n] {
					theirs.set(name, rolloutv1alpha1.Succeeded)
					observed = append(observed, ours.saw(name, staged.HealthReady))
					done++
				}
				progress = progress[n:]
				if strings.Contains(c.text, "minSuccessTime") && len(observed) > 0 {
					// Neither starts anything while they soak. Then both do.
					if a, b := theirs.started(), ours.started(observed...); len(a)+len(b) > 0 {
						t.Fatalf("round %d: started during the soak: %v, %v", round, a, b)
					}
					observed = nil
					theirs.clock.Step(time.Minute)
					ours.now = ours.now.Add(time.Minute)
				}
			}
			if done != total {
				t.Errorf("%d of %d clusters were started", done, total)
			}
			if phase := ours.run.Phase(); phase != staged.PhaseSucceeded {
				t.Errorf("ends as %s", phase)
			}
		})
	}
}

// TestMidway: the state that is measured is the same for both: the same cluster is started next.
func TestMidway(t *testing.T) {
	m, err := newMidway(100)
	if err != nil {
		t.Fatal(err)
	}
	_, theirs, err := m.handler.GetRolloutCluster(m.strategy, m.statuses)
	if err != nil {
		t.Fatal(err)
	}
	_, ours, err := staged.Step(m.run, m.input, m.now)
	if err != nil {
		t.Fatal(err)
	}
	var a, b []string
	for _, s := range theirs.ClustersToRollout {
		a = append(a, s.ClusterName)
	}
	for _, action := range ours.Actions {
		b = append(b, action.Target)
	}
	if !slices.Equal(a, b) || len(a) != 10 {
		t.Errorf("the library: %v\nstaged: %v", a, b)
	}
	var out strings.Builder
	if err := run([]string{"-n", "100"}, &out); err != nil || !strings.Contains(out.String(), "       100  ") {
		t.Errorf("%v\n%s", err, &out)
	}
	if err := run([]string{"-n", "few"}, &out); err == nil {
		t.Error("few is no number")
	}
}
