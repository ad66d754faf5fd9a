package surge_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/internal/strictjson"
	"github.com/tranche-dev/tranche/surge"
)

// parseSet reads one string per set replica: the components, separated by blanks.
func parseSet(t testing.TB, replicas []string) surge.SetState {
	t.Helper()
	var state surge.SetState
	for _, line := range replicas {
		var replica []surge.Units
		for component := range strings.FieldsSeq(line) {
			replica = append(replica, surge.Units{Slots: parse(t, component)})
		}
		state = append(state, replica)
	}
	return state
}

// actionsOf writes a plan as the cases do: by 'replica/component', "-i" delete, "+i" create at the
// target, "~i" at the own revision.
func actionsOf(plan surge.SetResult) map[string]string {
	got := map[string]string{}
	for r, replica := range plan.Replicas {
		for c, component := range replica.Components {
			var list []string
			for _, action := range component.Actions {
				sign, _, _ := strings.Cut(action.String(), " ")
				list = append(list, sign)
			}
			if len(list) > 0 {
				got[fmt.Sprintf("%d/%d", r, c)] = strings.Join(list, " ")
			}
		}
	}
	return got
}

// reporter is what testing and rapid have in common.
type reporter interface {
	Helper()
	Errorf(format string, args ...any)
	Fatal(args ...any)
	Failed() bool
}

func planSet(t reporter, spec surge.SetSpec, state surge.SetState) surge.SetResult {
	t.Helper()
	plan, err := surge.PlanSet(spec, state)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

func caseSet(t *testing.T, c oneCase) {
	var set struct {
		Replicas       int                `json:"replicas"`
		Type           surge.StrategyType `json:"type"`
		MaxSurge       concurrency.Limit  `json:"maxSurge"`
		MaxUnavailable concurrency.Limit  `json:"maxUnavailable"`
		Components     []struct {
			Replicas       int               `json:"replicas"`
			MinAvailable   int               `json:"minAvailable"`
			MaxSurge       concurrency.Limit `json:"maxSurge"`
			MaxUnavailable concurrency.Limit `json:"maxUnavailable"`
		} `json:"components"`
	}
	if err := strictjson.Unmarshal(c.Set, &set); err != nil {
		t.Fatal(err)
	}
	spec := surge.SetSpec{Replicas: set.Replicas, UpdateStrategy: surge.SetUpdateStrategy{
		Type: set.Type, RollingUpdate: surge.UpdateStrategy{MaxSurge: set.MaxSurge, MaxUnavailable: set.MaxUnavailable},
	}}
	for i, component := range set.Components {
		one := surge.Component{Name: fmt.Sprint("c", i), Replicas: component.Replicas, MinAvailable: component.MinAvailable}
		if set.Type != surge.ReplicaRecreate {
			one.UpdateStrategy = &surge.UpdateStrategy{MaxSurge: component.MaxSurge, MaxUnavailable: component.MaxUnavailable}
		}
		spec.Components = append(spec.Components, one)
	}
	if err := spec.Validate(); err != nil {
		t.Fatal(err)
	}
	var replicas []string
	if err := json.Unmarshal(c.State, &replicas); err != nil {
		t.Fatal(err)
	}
	plan := planSet(t, spec, parseSet(t, replicas))
	if diff := gocmp.Diff(c.Plan, actionsOf(plan)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if plan.Current != c.Current {
		t.Errorf("current: got %d, want %d", plan.Current, c.Current)
	}
}

func caseValidateSet(t *testing.T, c oneCase) {
	var spec surge.SetSpec
	if err := json.Unmarshal(c.Set, &spec); err != nil {
		t.Fatal(err)
	}
	if err := spec.Validate(); (err == nil) != c.Valid {
		t.Errorf("got %v", err)
	}
}
