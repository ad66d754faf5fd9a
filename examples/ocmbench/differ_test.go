package main

import (
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
	rolloutv1alpha1 "open-cluster-management.io/sdk-go/pkg/apis/cluster/v1alpha1"

	"github.com/tranche-dev/tranche/rollout/staged"
)

// TestDifferences shows each case in which the library and staged.FromOCM differ: what the library
// does today, and what the package does.
func TestDifferences(t *testing.T) {
	t.Run("maxFailures above the size is read as 0", func(t *testing.T) {
		const text = `{"type": "Progressive", "progressive": {"maxConcurrency": 1, "maxFailures": 10}}`
		groups := decisionGroups(3)
		theirs, ours := newOCM(t, text, groups), newOwn(t, text, groups)
		first := theirs.started()[0]
		ours.started()
		theirs.set(first, rolloutv1alpha1.TimeOut)
		if list := theirs.started(); len(list) != 0 || !theirs.last.MaxFailureBreach {
			t.Errorf("the library goes on: %v", list)
		}
		if list := ours.started(ours.saw(first, staged.HealthFailed)); !slices.Equal(list, []string{clusterName(1)}) {
			t.Errorf("staged starts %v", list)
		}
	})
	t.Run("failures behind full slots are not counted", func(t *testing.T) {
		const text = `{"type": "Progressive", "progressive": {"maxConcurrency": 2, "maxFailures": 0}}`
		groups := decisionGroups(4)
		theirs, ours := newOCM(t, text, groups), newOwn(t, text, groups)
		theirs.started()
		ours.started()
		theirs.set(clusterName(2), rolloutv1alpha1.Failed) // of an earlier rollout of the same work, say
		theirs.started()
		if theirs.last.MaxFailureBreach {
			t.Error("the library counts it")
		}
		ours.started(ours.saw(clusterName(0), staged.HealthFailed))
		if phase := ours.run.Phase(); phase != staged.PhaseHeld {
			t.Errorf("staged is %s", phase)
		}
	})
	t.Run("the next group starts while a cluster is in progress", func(t *testing.T) {
		const text = `{"type": "ProgressivePerGroup", "progressivePerGroup": {"maxFailures": 1, "progressDeadline": "10m"}}`
		groups := decisionGroups(3, 2)
		theirs, ours := newOCM(t, text, groups), newOwn(t, text, groups)
		theirs.started()
		ours.started()
		theirs.set(clusterName(2), rolloutv1alpha1.Succeeded)
		theirs.set(clusterName(0), rolloutv1alpha1.TimeOut)
		if list := theirs.started(); !slices.Equal(list, []string{clusterName(3), clusterName(4)}) {
			t.Errorf("the library starts %v although %s is in progress", list, clusterName(1))
		}
		if list := ours.started(ours.saw(clusterName(2), staged.HealthReady), ours.saw(clusterName(0), staged.HealthFailed)); len(list) > 0 {
			t.Errorf("staged starts %v", list)
		}
	})
	t.Run("a tolerated failure behind the first group ends the rollout", func(t *testing.T) {
		// The library takes the failed cluster for one in progress of the first group.
		const text = `{"type": "ProgressivePerGroup", "progressivePerGroup": {"maxFailures": 1}}`
		groups := decisionGroups(1, 2, 1)
		theirs, ours := newOCM(t, text, groups), newOwn(t, text, groups)
		theirs.started()
		ours.started()
		theirs.set(clusterName(0), rolloutv1alpha1.Succeeded)
		theirs.started()
		ours.started(ours.saw(clusterName(0), staged.HealthReady))
		theirs.set(clusterName(1), rolloutv1alpha1.Failed)
		theirs.set(clusterName(2), rolloutv1alpha1.Succeeded)
		if list := theirs.started(); len(list) > 0 || theirs.last.MaxFailureBreach || theirs.last.RecheckAfter != nil {
			t.Errorf("the library starts %v, %+v", list, theirs.last)
		}
		if list := ours.started(ours.saw(clusterName(1), staged.HealthFailed), ours.saw(clusterName(2), staged.HealthReady)); !slices.Equal(list, []string{clusterName(3)}) {
			t.Errorf("staged starts %v", list)
		}
	})
	t.Run("a gap in group indexes loses a group", func(t *testing.T) {
		const text = `{"type": "All"}`
		groups := decisionGroups(2, 2)
		groups[1].Index = 2
		theirs, ours := newOCM(t, text, groups), newOwn(t, text, groups)
		if list := theirs.started(); len(list) != 2 {
			t.Errorf("the library starts %v", list)
		}
		theirs.set(clusterName(3), rolloutv1alpha1.Progressing)
		theirs.started()
		if len(theirs.last.ClustersRemoved) != 1 {
			t.Errorf("the library does not report a placed cluster as removed: %+v", theirs.last.ClustersRemoved)
		}
		if list := ours.started(); len(list) != 4 {
			t.Errorf("staged starts %v", list)
		}
	})
	t.Run("no time of transition: soaks never end", func(t *testing.T) {
		const text = `{"type": "Progressive", "progressive": {"maxConcurrency": 1, "minSuccessTime": "1m"}}`
		groups := decisionGroups(2)
		theirs, ours := newOCM(t, text, groups), newOwn(t, text, groups)
		theirs.started()
		ours.started()
		theirs.status[clusterName(0)].Status, theirs.status[clusterName(0)].LastTransitionTime = rolloutv1alpha1.Succeeded, nil
		for range 10 {
			theirs.clock.Step(time.Hour)
			if list := theirs.started(); len(list) > 0 {
				t.Errorf("the library starts %v", list)
			}
		}
		ours.started(ours.saw(clusterName(0), staged.HealthReady))
		ours.now = ours.now.Add(time.Minute)
		if list := ours.started(); !slices.Equal(list, []string{clusterName(1)}) {
			t.Errorf("staged starts %v", list)
		}
	})
	t.Run("no time of transition: deadlines never pass", func(t *testing.T) {
		const text = `{"type": "Progressive", "progressive": {"maxConcurrency": 1, "maxFailures": 1, "progressDeadline": "10m"}}`
		groups := decisionGroups(2)
		theirs, ours := newOCM(t, text, groups), newOwn(t, text, groups)
		theirs.started()
		ours.started()
		theirs.status[clusterName(0)].LastTransitionTime = nil
		theirs.clock.Step(24 * time.Hour)
		if list := theirs.started(); len(list) > 0 || len(theirs.last.ClustersTimeOut) > 0 {
			t.Errorf("the library starts %v, timed out %v", list, theirs.last.ClustersTimeOut)
		}
		ours.now = ours.now.Add(10 * time.Minute)
		if list := ours.started(); !slices.Equal(list, []string{clusterName(1)}) {
			t.Errorf("staged starts %v", list)
		}
	})
	t.Run("maxConcurrency 0 is all at once", func(t *testing.T) {
		const text = `{"type": "Progressive", "progressive": {"maxConcurrency": 0}}`
		groups := decisionGroups(5)
		if list := newOCM(t, text, groups).started(); len(list) != 5 {
			t.Errorf("the library starts %v", list)
		}
		if _, err := compile(text, groups); err == nil {
			t.Error("staged accepts it")
		}
	})
	t.Run("a mandatory group that does not exist is passed over", func(t *testing.T) {
		const text = `{"type": "Progressive", "progressive": {"mandatoryDecisionGroups": [{"groupName": "canary"}]}}`
		groups := decisionGroups(1, 2)
		if list := newOCM(t, text, groups).started(); len(list) != 3 {
			t.Errorf("the library starts %v", list)
		}
		if _, err := compile(text, groups); err == nil {
			t.Error("staged accepts it")
		}
	})
	t.Run("maxFailures below 0 is 0", func(t *testing.T) {
		const text = `{"type": "Progressive", "progressive": {"maxConcurrency": 1, "maxFailures": -1}}`
		groups := decisionGroups(3)
		theirs := newOCM(t, text, groups)
		if list := theirs.started(); len(list) != 1 || theirs.last.MaxFailureBreach {
			t.Errorf("the library starts %v", list)
		}
		if _, err := compile(text, groups); err == nil {
			t.Error("staged accepts it")
		}
	})
	t.Run("a timed-out mandatory cluster holds nobody back", func(t *testing.T) {
		const text = `{"type": "Progressive", "progressive": {"maxConcurrency": 1, "maxFailures": 1, "progressDeadline": "10m", "mandatoryDecisionGroups": [{"groupName": "g0"}]}}`
		groups := decisionGroups(1, 2)
		theirs, ours := newOCM(t, text, groups), newOwn(t, text, groups)
		theirs.started()
		ours.started()
		theirs.set(clusterName(0), rolloutv1alpha1.TimeOut)
		if list := theirs.started(); !slices.Equal(list, []string{clusterName(1)}) {
			t.Errorf("the library starts %v", list)
		}
		ours.now = ours.now.Add(10 * time.Minute)
		if list := ours.started(); len(list) > 0 || ours.run.Phase() != staged.PhaseHeld {
			t.Errorf("staged starts %v, %s", list, ours.run.Phase())
		}
	})
	t.Run("a mandatory group turns the window into batches", func(t *testing.T) {
		const text = `{"type": "Progressive", "progressive": {"maxConcurrency": 2, "mandatoryDecisionGroups": [{"groupName": "g0"}]}}`
		groups := decisionGroups(1, 3)
		theirs, ours := newOCM(t, text, groups), newOwn(t, text, groups)
		theirs.started()
		ours.started()
		theirs.set(clusterName(0), rolloutv1alpha1.Succeeded)
		theirs.started()
		ours.started(ours.saw(clusterName(0), staged.HealthReady))
		theirs.set(clusterName(1), rolloutv1alpha1.Succeeded)
		if list := theirs.started(); len(list) > 0 {
			t.Errorf("the library starts %v while %s is in progress", list, clusterName(2))
		}
		if list := ours.started(ours.saw(clusterName(1), staged.HealthReady)); !slices.Equal(list, []string{clusterName(3)}) {
			t.Errorf("staged starts %v", list)
		}
	})
	t.Run("a failed cluster keeps its slot", func(t *testing.T) {
		const text = `{"type": "Progressive", "progressive": {"maxConcurrency": 1, "maxFailures": 2}}`
		groups := decisionGroups(3)
		theirs, ours := newOCM(t, text, groups), newOwn(t, text, groups)
		theirs.started()
		ours.started()
		theirs.set(clusterName(0), rolloutv1alpha1.Failed)
		if list := theirs.started(); len(list) != 0 {
			t.Errorf("the library starts %v", list)
		}
		if list := ours.started(ours.saw(clusterName(0), staged.HealthFailing)); len(list) > 0 {
			t.Errorf("staged starts %v beside one that may recover", list)
		}
		if list := ours.started(ours.saw(clusterName(0), staged.HealthFailed)); len(list) != 1 {
			t.Errorf("staged starts %v beside one that will not", list)
		}
	})
	t.Run("a failed cluster counts while it may yet succeed", func(t *testing.T) {
		const text = `{"type": "Progressive", "progressive": {"maxConcurrency": 2}}`
		groups := decisionGroups(3)
		theirs, ours := newOCM(t, text, groups), newOwn(t, text, groups)
		theirs.started()
		ours.started()
		theirs.set(clusterName(0), rolloutv1alpha1.Failed)
		theirs.set(clusterName(1), rolloutv1alpha1.Succeeded)
		if list := theirs.started(); len(list) > 0 || !theirs.last.MaxFailureBreach {
			t.Errorf("the library starts %v", list)
		}
		theirs.set(clusterName(0), rolloutv1alpha1.Progressing)
		if list := theirs.started(); !slices.Equal(list, []string{clusterName(2)}) {
			t.Errorf("the library starts %v once it may succeed again", list)
		}
		if list := ours.started(ours.saw(clusterName(0), staged.HealthFailing), ours.saw(clusterName(1), staged.HealthReady)); !slices.Equal(list, []string{clusterName(2)}) {
			t.Errorf("staged starts %v beside a failing one", list)
		}
	})
	t.Run("progressDeadline 0s times out at once", func(t *testing.T) {
		const text = `{"type": "Progressive", "progressive": {"maxConcurrency": 1, "maxFailures": 2, "progressDeadline": "0s"}}`
		groups := decisionGroups(3)
		theirs := newOCM(t, text, groups)
		theirs.started()
		if list := theirs.started(); !slices.Equal(list, []string{clusterName(1)}) || len(theirs.last.ClustersTimeOut) != 1 {
			t.Errorf("the library starts %v, timed out %v", list, theirs.last.ClustersTimeOut)
		}
		if _, err := compile(text, groups); err == nil {
			t.Error("staged accepts it")
		}
	})
	t.Run("a cluster that joins the placement has its turn", func(t *testing.T) {
		const text = `{"type": "Progressive", "progressive": {"maxConcurrency": 1}}`
		groups := decisionGroups(2)
		theirs, ours := newOCM(t, text, groups), newOwn(t, text, groups)
		theirs.started()
		ours.started()
		placed := decisionGroups(3)
		var err error
		if theirs.handler, err = newHandler(placed); err != nil {
			t.Fatal(err)
		}
		for i := range placed[0].Clusters {
			theirs.set(clusterName(i), rolloutv1alpha1.Succeeded)
			if list := theirs.started(); i < 2 && !slices.Equal(list, []string{clusterName(i + 1)}) {
				t.Errorf("the library starts %v", list)
			}
		}
		ours.step(staged.Input{Added: []staged.Target{{Name: clusterName(2)}}})
		if events := ours.result.Events; len(events) != 1 || events[0].Kind != staged.EventMembershipIgnored {
			t.Errorf("staged does not ignore it: %v", events)
		}
		ours.started(ours.saw(clusterName(0), staged.HealthReady))
		ours.started(ours.saw(clusterName(1), staged.HealthReady))
		if phase := ours.run.Phase(); phase != staged.PhaseSucceeded {
			t.Errorf("staged is %s", phase)
		}
	})
	t.Run("a cluster that leaves the placement counts no longer", func(t *testing.T) {
		const text = `{"type": "Progressive", "progressive": {"maxConcurrency": "50%"}}`
		groups := decisionGroups(4)
		theirs, ours := newOCM(t, text, groups), newOwn(t, text, groups)
		theirs.started()
		ours.started()
		theirs.set(clusterName(0), rolloutv1alpha1.TimeOut)
		if list := theirs.started(); len(list) > 0 || !theirs.last.MaxFailureBreach {
			t.Errorf("the library starts %v", list)
		}
		ours.started(ours.saw(clusterName(0), staged.HealthFailed))
		placed := []staged.DecisionGroup{{Name: "g0", Clusters: groups[0].Clusters[1:]}}
		var err error
		if theirs.handler, err = newHandler(placed); err != nil {
			t.Fatal(err)
		}
		if list := theirs.started(); !slices.Equal(list, []string{clusterName(2)}) {
			t.Errorf("the library starts %v without the failed one", list)
		}
		placed[0].Clusters = placed[0].Clusters[:2] // 50% of the two that are left is one
		if theirs.handler, err = newHandler(placed); err != nil {
			t.Fatal(err)
		}
		if theirs.started(); len(theirs.last.ClustersToRollout) != 1 {
			t.Errorf("the library rolls out %+v", theirs.last.ClustersToRollout)
		}
		ours.step(staged.Input{Removed: []string{clusterName(0), clusterName(3)}})
		if phase := ours.run.Phase(); phase != staged.PhaseHeld {
			t.Errorf("staged is %s", phase)
		}
		ours.step(staged.Input{Commands: []staged.Command{{Kind: staged.CommandSkip, Target: clusterName(0)}}})
		for stage := range ours.run.Stages() {
			if stage.Name == "rest" && (stage.Limit != 2 || stage.Counts.Starting != 2) {
				t.Errorf("staged rolls out %+v", stage)
			}
		}
	})
	t.Run("an edit of the strategy applies at once", func(t *testing.T) {
		groups := decisionGroups(3)
		const text = `{"type": "Progressive", "progressive": {"maxConcurrency": 1}}`
		theirs := newOCM(t, text, groups)
		theirs.started()
		theirs.strategy.Progressive.MaxConcurrency = intstr.FromInt32(3)
		if list := theirs.started(); len(list) != 2 {
			t.Errorf("the library starts %v", list)
		}
		ours := newOwn(t, text, groups)
		ours.started()
		if list := ours.started(); len(list) > 0 {
			t.Errorf("staged starts %v", list)
		}
	})
	t.Run("the next check looks at the list alone", func(t *testing.T) {
		// A group behind a breach: its deadline is not in the answer.
		const text = `{"type": "Progressive", "progressive": {"maxConcurrency": 2, "progressDeadline": "10m", "minSuccessTime": "5m"}}`
		groups := decisionGroups(4)
		theirs, ours := newOCM(t, text, groups), newOwn(t, text, groups)
		theirs.started()
		ours.started()
		theirs.clock.Step(time.Minute)
		theirs.started()
		if theirs.last.RecheckAfter == nil || *theirs.last.RecheckAfter != 9*time.Minute {
			t.Errorf("the library checks again after %v", theirs.last.RecheckAfter)
		}
		// A cluster out of the two slots, still in progress from before: the library does not reach
		// it.
		theirs.set(clusterName(3), rolloutv1alpha1.Progressing)
		early := theirs.status[clusterName(3)]
		at := early.LastTransitionTime.Add(-9 * time.Minute)
		early.LastTransitionTime.Time = at
		theirs.started()
		if after := *theirs.last.RecheckAfter; after <= time.Minute {
			t.Errorf("the library sees the deadline of the last cluster: %v", after)
		}
		if ours.result.Next.Sub(ours.now) != 5*time.Minute { // the first instant is that of being stuck
			t.Errorf("staged steps again at %v", ours.result.Next)
		}
	})
}
