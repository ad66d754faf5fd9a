package main

import (
	"encoding/json"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	clusterv1alpha1 "open-cluster-management.io/api/cluster/v1alpha1"
	rolloutv1alpha1 "open-cluster-management.io/sdk-go/pkg/apis/cluster/v1alpha1"
	placementv1beta1 "open-cluster-management.io/sdk-go/pkg/apis/cluster/v1beta1"

	"github.com/tranche-dev/tranche/rollout/staged"
)

// midway is one fleet in one state, once for the library and once for the package.
type midway struct {
	strategy clusterv1alpha1.RolloutStrategy
	handler  *rolloutv1alpha1.RolloutHandler[struct{}]
	statuses []rolloutv1alpha1.ClusterRolloutStatus
	run      *staged.Run
	input    staged.Input // what changed
	all      staged.Input // what is the case everywhere, as the library is told it
	now      time.Time
}

const strategyText = `{"type": "Progressive", "progressive": {"maxConcurrency": 10, "progressDeadline": "1h"}}`

func clusterName(i int) string { return fmt.Sprintf("cluster-%08d", i) }

// newHandler returns the library's handler for decision groups. What it asks for the status of a
// cluster is not used by the call measured.
func newHandler(groups []staged.DecisionGroup) (*rolloutv1alpha1.RolloutHandler[struct{}], error) {
	placed := placementv1beta1.ClusterGroupsMap{}
	for _, g := range groups {
		placed[placementv1beta1.GroupKey{GroupName: g.Name, GroupIndex: g.Index}] = sets.New(g.Clusters...)
	}
	tracker := placementv1beta1.NewPlacementDecisionClustersTrackerWithGroups(nil, nil, placed)
	return rolloutv1alpha1.NewRolloutHandler[struct{}](tracker, nil)
}

// compile returns a run of the package, about to begin.
func compile(text string, groups []staged.DecisionGroup) (*staged.Run, error) {
	var strategy staged.OCMStrategy
	if err := json.Unmarshal([]byte(text), &strategy); err != nil {
		return nil, err
	}
	stages, options, err := staged.FromOCM(strategy, groups)
	if err != nil {
		return nil, err
	}
	fleet := staged.Fleet{Version: "v2"}
	for _, g := range groups {
		for _, name := range g.Clusters {
			fleet.Targets = append(fleet.Targets, staged.Target{Name: name})
		}
	}
	spec := staged.Spec{Name: "run", PlacementName: "placement", StagedRolloutStrategyName: "ocm", State: staged.StateRun}
	return staged.Compile(stages, spec, fleet, options)
}

func newMidway(n int) (*midway, error) {
	m := &midway{now: time.Now().Truncate(time.Second)}
	group := staged.DecisionGroup{}
	for i := range n {
		group.Clusters = append(group.Clusters, clusterName(i))
	}
	if err := json.Unmarshal([]byte(strategyText), &m.strategy); err != nil {
		return nil, err
	}
	var err error
	if m.handler, err = newHandler([]staged.DecisionGroup{group}); err != nil {
		return nil, err
	}
	at := metav1.NewTime(m.now)
	for i := range n/2 + 10 {
		s := rolloutv1alpha1.ClusterRolloutStatus{ClusterName: clusterName(i), Status: rolloutv1alpha1.Succeeded, LastTransitionTime: &at}
		if i > n/2 { // cluster n/2 has just become ready
			s.Status = rolloutv1alpha1.Progressing
		}
		m.statuses = append(m.statuses, s)
	}

	run, err := compile(strategyText, []staged.DecisionGroup{group})
	if err != nil {
		return nil, err
	}
	run, result, err := staged.Step(run, staged.Input{}, m.now)
	for done := 0; err == nil && done < n/2; {
		var in staged.Input
		for _, a := range result.Actions {
			if done < n/2 {
				in.Observations = append(in.Observations, ready(a))
				done++
			}
		}
		run, result, err = staged.Step(run, in, m.now)
	}
	if err != nil {
		return nil, err
	}
	m.run = run
	m.input.Observations = []staged.Observation{ready(result.Actions[0])}
	for _, s := range m.statuses {
		o := staged.Observation{Target: s.ClusterName, Version: "v2", Health: staged.HealthReady}
		if s.Status == rolloutv1alpha1.Progressing {
			o.Health = staged.HealthProgressing
		}
		m.all.Observations = append(m.all.Observations, o)
	}
	return m, nil
}

func ready(a staged.Action) staged.Observation {
	return staged.Observation{Target: a.Target, Version: a.Version, Health: staged.HealthReady, Token: a.Token}
}

// library asks the library once what to roll out.
func (m *midway) library() error {
	// The call sorts its argument.
	_, result, err := m.handler.GetRolloutCluster(m.strategy, append([]rolloutv1alpha1.ClusterRolloutStatus(nil), m.statuses...))
	if err == nil && len(result.ClustersToRollout) != 10 {
		err = fmt.Errorf("the library rolls out %d clusters, not 10", len(result.ClustersToRollout))
	}
	return err
}

// step tells the package once what changed since the step before.
func (m *midway) step() error { return m.told(m.input, 10) }

// stepAll tells the package as much as the library is told, for a host that does not know what
// changed. Of the ten that are to be at work it is told of nine that they are, and starts one.
func (m *midway) stepAll() error { return m.told(m.all, 1) }

func (m *midway) told(in staged.Input, starts int) error {
	_, result, err := staged.Step(m.run, in, m.now)
	if err == nil && len(result.Actions) != starts {
		err = fmt.Errorf("%d clusters are started, not %d", len(result.Actions), starts)
	}
	return err
}
