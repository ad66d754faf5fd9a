package surge_test

import (
	"encoding/json"
	"testing"

	"github.com/tranche-dev/tranche/internal/testkit"
	"github.com/tranche-dev/tranche/surge"
)

// TestTextsStay: the texts of codes and choices are what hosts store and compare, so that none of
// them may change, whatever the constant is called.
func TestTextsStay(t *testing.T) {
	testkit.TextsStay(t, ".", map[string]string{
		"Code":         "conflict duplicate out_of_range required syntax type unknown_field unknown_value",
		"WarningCode":  "BelowMinAvailable Fencepost RoundsToZero SurgeGated WholeSetDown",
		"Stuck":        " ReplicasUnhealthy SurgeGated SurgeNotReady SurgeUnscheduled TargetNotReady UpdatePaused",
		"Order":        "ascending descending",
		"StrategyType": "ReplicaRecreate RollingUpdate",
		"Kind":         "PodClique PodCliqueScalingGroup",
		"Role":         "condemned current held recreated target",
	})
}

// TestJSONStays: the names of the fields of what hosts store and show. Those of a Spec, a set, its
// state and most of its plan are pinned by TestSpecJSON, TestSetJSON and TestSetRecord.
func TestJSONStays(t *testing.T) {
	for want, value := range map[string]any{
		`{"current":-1,"replicas":[{"role":"held","slot":"O","complete":false,"revision":"v1","blocked":[],"components":null}],` +
			`"whole":{"blocked":["Terminating"],"updated":true,"converged":false},"blocked":[],"updated":false,"converged":false}`: surge.SetResult{
			Current: -1, Replicas: []surge.ReplicaResult{{Role: surge.RoleHeld, Slot: surge.OldAvailable, Revision: "v1"}}, Whole: surge.Result{Blocked: surge.BlockedTerminating, Updated: true}},
		`{"stuck":"SurgeGated","indices":[1],"remedy":"r"}`:                                                    surge.Diagnosis{Stuck: surge.SurgeGated, Indices: []int{1}, Remedy: "r"},
		`{"stuck":"SurgeNotReady","maxUnavailable":2}`:                                                         surge.Diagnosis{Stuck: surge.SurgeNotReady, MaxUnavailable: 2},
		`{"replica":0,"component":1,"name":"decode","stuck":"SurgeNotReady","indices":[2],"maxUnavailable":1}`: surge.SetDiagnosis{Component: 1, Name: "decode", Diagnosis: surge.Diagnosis{Stuck: surge.SurgeNotReady, Indices: []int{2}, MaxUnavailable: 1}},
		`{"replica":-1,"component":-1,"stuck":"UpdatePaused","indices":[0]}`:                                   surge.SetDiagnosis{Replica: -1, Component: -1, Diagnosis: surge.Diagnosis{Stuck: surge.UpdatePaused, Indices: []int{0}}},
		`{"base":true,"ordinal":1,"first":2,"end":3}`:                                                          surge.Gang{Base: true, Ordinal: 1, First: 2, End: 3},
		`{"replica":1,"component":2,"ordinal":3,"members":[{"component":4,"first":5,"end":6}]}`:                surge.PodGang{Replica: 1, Component: 2, Ordinal: 3, Members: []surge.GangMember{{Component: 4, First: 5, End: 6}}},
		`{"index":1,"slot":"N"}`:                     surge.Replica{Index: 1, Slot: surge.TargetAvailable},
		`{"code":"Fencepost","path":"p","text":"t"}`: surge.Warning{Code: surge.WarningFencepost, Path: "p", Text: "t"},
	} {
		if data, err := json.Marshal(value); err != nil || string(data) != want {
			t.Errorf("%v\ngot  %s\nwant %s", err, data, want)
		}
	}
}
