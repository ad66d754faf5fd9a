package rollout_test

import (
	"slices"
	"testing"

	"github.com/tranche-dev/tranche/rollout"
)

// TestTargetsInAnyOrder: the same targets give the same plan and the same faults, each fault once, in whatever order a host lists them. What is in order is
// found in one pass, what is not is sorted by the numbers of its entities, and by their ids where one has no number.
func TestTargetsInAnyOrder(t *testing.T) {
	at := func(resource, environment, deployment string) rollout.TargetID {
		return rollout.TargetID{Resource: resource, Environment: environment, Deployment: deployment}
	}
	for _, row := range []struct {
		why     string
		targets []rollout.TargetID
		want    []string // faults
	}{
		{"all are known", []rollout.TargetID{at("r2", "beta", "api"), at("r1", "prod", "api"), at("r1", "prod", "web"), at("r2", "prod", "api")}, nil},
		{"one occurs twice", []rollout.TargetID{at("r1", "prod", "api"), at("r2", "beta", "web"), at("r2", "beta", "web")},
			[]string{"duplicate targets: r2 / beta / web occurs twice: one entry per release target"}},
		{"one occurs three times: two are too many", []rollout.TargetID{at("r1", "prod", "api"), at("r1", "prod", "api"), at("r1", "prod", "api"), at("r1", "prod", "web")},
			[]string{"duplicate targets: r1 / prod / api occurs twice: one entry per release target", "duplicate targets: r1 / prod / api occurs twice: one entry per release target"}},
		{"an environment is in no list", []rollout.TargetID{at("r1", "beta", "api"), at("r1", "qa", "api"), at("r2", "beta", "api")},
			[]string{`unknown_value targets: "qa": is not the id of a listed environment`}},
		{"a resource is in no list", []rollout.TargetID{at("r1", "beta", "api"), at("r3", "beta", "api"), at("r1", "prod", "api")},
			[]string{`unknown_value targets: "r3": is not the id of a listed resource`}},
		{"a deployment is in no list", []rollout.TargetID{at("r1", "beta", "api"), at("r1", "beta", "db"), at("r1", "prod", "api")},
			[]string{`unknown_value targets: "db": is not the id of a listed deployment`}},
		{"one that is in no list occurs twice", []rollout.TargetID{at("r1", "prod", "api"), at("r3", "beta", "api"), at("r3", "beta", "api"), at("r1", "beta", "web")}, []string{
			`unknown_value targets: "r3": is not the id of a listed resource`,
			"duplicate targets: r3 / beta / api occurs twice: one entry per release target", `unknown_value targets: "r3": is not the id of a listed resource`}},
		{"one of a known id follows, and is not taken for it", []rollout.TargetID{at("r1", "prod", "api"), at("r1", "prod", "db"), at("r1", "prod", "web"), at("r2", "beta", "api")},
			[]string{`unknown_value targets: "db": is not the id of a listed deployment`}},
	} {
		var first *rollout.Plan
		permute(row.targets, func(order []rollout.TargetID) {
			s := fleet(2, "v1", map[string][]string{"api": {"v1", "v2"}, "web": {"v1", "v2"}})
			s.Environments, s.Targets = append(s.Environments, rollout.Environment{ID: "beta"}), nil
			for _, id := range order {
				s.Targets = append(s.Targets, rollout.Target{TargetID: id, Current: "v1"})
			}
			plan, err := compile(t, policy(`{"gradualRollout":{"rolloutType":"linear","timeScaleInterval":60}}`)).Plan(s, t0)
			if err == nil && first == nil {
				first = &plan
			}
			if err == nil && string(encode(t, plan)) != string(encode(t, first)) {
				t.Errorf("%s: %v: %s, and in another order %s", row.why, order, encode(t, plan), encode(t, first))
			}
			var got []string
			if err != nil {
				got = coded(err)
			}
			if !slices.Equal(got, row.want) {
				t.Errorf("%s: %v: faults %q, want %q", row.why, order, got, row.want)
			}
		})
	}
}

// permute calls do with every order of a list.
func permute(list []rollout.TargetID, do func([]rollout.TargetID)) {
	var from func(k int)
	from = func(k int) {
		if k == len(list) {
			do(slices.Clone(list))
			return
		}
		for other := k; other < len(list); other++ {
			list[k], list[other] = list[other], list[k]
			from(k + 1)
			list[k], list[other] = list[other], list[k]
		}
	}
	from(0)
}
