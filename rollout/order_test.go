package rollout_test

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tranche-dev/tranche/rollout"
)

// TestTargetsInAnyOrder: the same targets give the same plan and the same faults, each fault once,
// in whatever order a host lists them. What is in order is found in one pass, what is not is sorted
// by the numbers of its entities, and by their ids where one has no number.
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
			[]string{"duplicate targets[r2 / beta / web]: r2 / beta / web occurs twice: one entry per release target"}},
		{"one occurs three times: two are too many", []rollout.TargetID{at("r1", "prod", "api"), at("r1", "prod", "api"), at("r1", "prod", "api"), at("r1", "prod", "web")},
			[]string{"duplicate targets[r1 / prod / api]: r1 / prod / api occurs twice: one entry per release target", "duplicate targets[r1 / prod / api]: r1 / prod / api occurs twice: one entry per release target"}},
		{"an environment is in no list", []rollout.TargetID{at("r1", "beta", "api"), at("r1", "qa", "api"), at("r2", "beta", "api")},
			[]string{`unknown_value targets[r1 / qa / api].environment: "qa": is not the id of a listed environment (r1 / qa / api)`}},
		{"no environment is in a list", []rollout.TargetID{at("r1", "qa", "api"), at("r2", "dev", "api")}, []string{
			`unknown_value targets[r2 / dev / api].environment: "dev": is not the id of a listed environment (r2 / dev / api)`,
			`unknown_value targets[r1 / qa / api].environment: "qa": is not the id of a listed environment (r1 / qa / api)`}},
		{"a resource is in no list", []rollout.TargetID{at("r1", "beta", "api"), at("r3", "beta", "api"), at("r1", "prod", "api")},
			[]string{`unknown_value targets[r3 / beta / api].resource: "r3": is not the id of a listed resource (r3 / beta / api)`}},
		{"a deployment is in no list", []rollout.TargetID{at("r1", "beta", "api"), at("r1", "beta", "db"), at("r1", "prod", "api")},
			[]string{`unknown_value targets[r1 / beta / db].deployment: "db": is not the id of a listed deployment (r1 / beta / db)`}},
		{"no deployment is in a list", []rollout.TargetID{at("r1", "prod", "db"), at("r1", "prod", "cache")}, []string{
			`unknown_value targets[r1 / prod / cache].deployment: "cache": is not the id of a listed deployment (r1 / prod / cache)`,
			`unknown_value targets[r1 / prod / db].deployment: "db": is not the id of a listed deployment (r1 / prod / db)`}},
		{"one that is in no list occurs twice", []rollout.TargetID{at("r1", "prod", "api"), at("r3", "beta", "api"), at("r3", "beta", "api"), at("r1", "beta", "web")}, []string{
			`unknown_value targets[r3 / beta / api].resource: "r3": is not the id of a listed resource (r3 / beta / api)`,
			"duplicate targets[r3 / beta / api]: r3 / beta / api occurs twice: one entry per release target", `unknown_value targets[r3 / beta / api].resource: "r3": is not the id of a listed resource (r3 / beta / api)`}},
		{"one of a known id follows, and is not taken for it", []rollout.TargetID{at("r1", "prod", "api"), at("r1", "prod", "db"), at("r1", "prod", "web"), at("r2", "beta", "api")},
			[]string{`unknown_value targets[r1 / prod / db].deployment: "db": is not the id of a listed deployment (r1 / prod / db)`}},
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
			if err == nil && text(t, plan) != text(t, first) {
				t.Errorf("%s: %v: %s, and in another order %s", row.why, order, text(t, plan), text(t, first))
			}
			var got []string
			if err != nil {
				got = coded(err)
			}
			for k, line := range got { // the index of the target stands for the target
				head, rest, _ := strings.Cut(line, "[")
				number, rest, _ := strings.Cut(rest, "]")
				i, err := strconv.Atoi(number)
				if err != nil || i >= len(order) {
					t.Fatalf("%s: %v: %s is not about a target", row.why, order, line)
				}
				if strings.HasPrefix(line, "duplicate ") && slices.Index(order, order[i]) == i {
					t.Errorf("%s: %v: %s, which is the first", row.why, order, line)
				}
				got[k] = head + "[" + order[i].String() + "]" + rest
			}
			if !slices.Equal(got, row.want) {
				t.Errorf("%s: %v: faults %q, want %q", row.why, order, got, row.want)
			}
		})
	}
}

// TestTargetPaths: a fault of a target is told with the index that the target has in the host's
// list, whatever is left out of it and however it is sorted, and however many others there are.
func TestTargetPaths(t *testing.T) {
	paths := func(s rollout.Snapshot) []string {
		_, err := compile(t, policy(`{"retry":{"maxRetries":1}}`)).Plan(s, t0)
		var list []string
		for _, one := range joined(err) {
			if fault := (*rollout.FieldError)(nil); errors.As(one, &fault) {
				list = append(list, fault.Path)
			} else {
				list = append(list, one.Error())
			}
		}
		return list
	}
	at := func(resource, environment string) rollout.Target {
		return rollout.Target{TargetID: rollout.TargetID{Resource: resource, Environment: environment, Deployment: "a"}}
	}
	var many, alike []rollout.Target
	var first, each []string
	for i := range 30 {
		many = append(many, at(fmt.Sprintf("x%02d", 29-i), "prod"))
	}
	for i := range 20 {
		first = append(first, fmt.Sprintf("targets[%d].resource", 29-i))
	}
	for i := range 50 {
		alike = append(alike, at([]string{"r9", "r8", "r8"}[i%3], "prod"))
		if i > 1 && i%3 > 0 {
			each = append(each, fmt.Sprintf("targets[%d]", i))
		}
		if i%3 > 0 {
			each = append(each, fmt.Sprintf("targets[%d].resource", i))
		}
	}
	each = each[:20]
	for _, row := range []struct {
		why     string
		targets []rollout.Target
		deleted []string
		want    []string
	}{
		{"in order", []rollout.Target{at("r1", "prod"), at("r2", "prd")}, nil, []string{"targets[1].environment"}},
		{"in another order, and two fields of one target", []rollout.Target{at("r2", "prod"), at("r1", "prod"), at("r9", "prd")}, nil, []string{"targets[2].environment", "targets[2].resource"}},
		{"targets of deleted resources are passed over, and counted", []rollout.Target{at("r2", "prod"), at("gone", "prod"), at("r1", "prd"), at("gone", "prd")}, []string{"gone"}, []string{"targets[2].environment"}},
		{"the second and the third of three", []rollout.Target{at("r1", "prod"), at("r2", "prod"), at("r1", "prod"), at("r1", "prod")}, nil, []string{"targets[2]", "targets[3]"}},
		{"the second, beside one that is in no list", []rollout.Target{at("r1", "prod"), at("r0", "prod"), at("r1", "prod")}, nil, []string{"targets[1].resource", "targets[2]"}},
		{"of many that are two and in no list, in the order of the list", alike, nil, append(each, "and 78 more faults")},
		{"of many the first in order of the ids", many, nil, append(first, "and 10 more faults")},
	} {
		s := fleet(2, "v1", map[string][]string{"a": {"v1"}})
		s.Targets, s.DeletedResources = row.targets, row.deleted
		if got := paths(s); !slices.Equal(got, row.want) {
			t.Errorf("%s: faults at %q, want %q", row.why, got, row.want)
		}
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
