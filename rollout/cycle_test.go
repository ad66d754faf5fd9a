package rollout_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/rollout"
)

// TestCheck: what a host is told when a version is published or a policy is edited, all at once.
// Versions wait for one another only if none of them could be the first.
func TestCheck(t *testing.T) {
	needs := func(deployment, version, on, selector string) func(*rollout.Snapshot) {
		return func(s *rollout.Snapshot) {
			for k := range s.Versions {
				if v := &s.Versions[k]; v.Deployment == deployment && v.ID == version {
					v.Dependencies = append(slices.Clone(v.Dependencies), rollout.VersionDependency{Deployment: on, VersionSelector: selector})
				}
			}
		}
	}
	runs := func(deployment, version string) func(*rollout.Snapshot) {
		return func(s *rollout.Snapshot) {
			for k := range s.Targets {
				if s.Targets[k].Deployment == deployment {
					s.Targets[k].Current = version
				}
			}
		}
	}
	nobody := func(deployment, version string) func(*rollout.Snapshot) {
		return func(s *rollout.Snapshot) {
			for k := range s.Versions {
				if v := &s.Versions[k]; v.Deployment == deployment && v.ID == version {
					v.TargetSelector = "resource.name == 'nobody'"
				}
			}
		}
	}
	const v1, v2 = "version.tag == 'v1'", "version.tag == 'v2'"
	mutual := []func(*rollout.Snapshot){needs("a", "v2", "b", v2), needs("b", "v2", "a", v2)}
	const circle = "rollout: dependency cycle: a@v2 needs b@v2 needs a@v2: publish a version without one of these dependencies"
	for _, row := range []struct {
		why   string
		rules string
		spoil []func(*rollout.Snapshot)
		want  []string
	}{
		{"nothing to say", "", nil, nil},
		{"a line has a first", "", []func(*rollout.Snapshot){needs("a", "v2", "b", v2), needs("b", "v2", "c", v2)}, nil},
		{"two that wait for each other", "", mutual, []string{circle}},
		{"three, found once and from the first", "", []func(*rollout.Snapshot){needs("a", "v2", "c", v2), needs("b", "v2", "a", v2), needs("c", "v2", "b", v2)},
			[]string{"rollout: dependency cycle: a@v2 needs c@v2 needs b@v2 needs a@v2: publish a version without one of these dependencies"}},
		{"who waits for a circle is not in it", "", append(mutual[:2:2], needs("c", "v2", "a", v2)), []string{circle}},
		{"two circles", "", append(mutual[:2:2], needs("c", "v2", "d", v2), needs("d", "v2", "c", v2)),
			[]string{circle, "rollout: dependency cycle: c@v2 needs d@v2 needs c@v2: publish a version without one of these dependencies"}},
		{"each version in one of them", "", append(mutual[:2:2], needs("a", "v2", "c", v2), needs("c", "v2", "a", v2)), []string{circle}},
		{"in every environment, and told once", "", append(mutual[:2:2], func(s *rollout.Snapshot) { *s = inEnvironments(*s, "qa") }), []string{circle}},
		{"each version in one of them, also where one is in a circle that is found later", "", append(mutual[:2:2], needs("b", "v2", "c", v2), needs("c", "v2", "b", v2)), []string{circle}},
		{"or in one of three", "", []func(*rollout.Snapshot){needs("a", "v2", "b", v2), needs("b", "v2", "c", v2), needs("c", "v2", "a", v2), needs("a", "v2", "d", v2), needs("d", "v2", "a", v2)},
			[]string{"rollout: dependency cycle: a@v2 needs b@v2 needs c@v2 needs a@v2: publish a version without one of these dependencies"}},
		{"who waits for one that is known is not in the next", "", append(mutual[:2:2], needs("c", "v2", "a", v2), needs("a", "v3", "d", v2), needs("d", "v2", "c", v2), needs("d", "v2", "a", "version.tag == 'v3'")),
			[]string{circle, "rollout: dependency cycle: a@v3 needs d@v2 needs a@v3: publish a version without one of these dependencies"}},
		{"those that have another way are in none, whoever waits for them", "", []func(*rollout.Snapshot){needs("c", "v2", "a", v2), needs("c", "v2", "d", v2), needs("d", "v2", "c", v2), needs("a", "v2", "b", "true"), needs("b", "v2", "a", v2)},
			[]string{"rollout: dependency cycle: c@v2 needs d@v2 needs c@v2: publish a version without one of these dependencies"}},
		{"who could do without it and comes first", "", []func(*rollout.Snapshot){needs("a", "v2", "c", v2+" || "+v1), needs("c", "v2", "d", v2), needs("d", "v2", "c", v2)},
			[]string{"rollout: dependency cycle: c@v2 needs d@v2 needs c@v2: publish a version without one of these dependencies"}},
		{"another version will do, which has to wait itself", "", []func(*rollout.Snapshot){needs("a", "v2", "b", "true"), needs("b", "v2", "a", v2), needs("b", "v1", "a", v2), needs("b", "v3", "c", v2), needs("c", "v2", "d", v1), runs("b", ""), func(s *rollout.Snapshot) {
			s.Versions = append(s.Versions, rollout.Version{ID: "v3", Tag: "v3", Deployment: "b", Status: rollout.VersionReady, CreatedAt: minute(5000), Dependencies: []rollout.VersionDependency{{Deployment: "c", VersionSelector: v2}}})
		}}, nil},
		{"two brackets that claim the same targets in every environment", `{"deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}}]},{"name":"q","selector":"true","rules":[
			{"deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}}`, []func(*rollout.Snapshot){func(s *rollout.Snapshot) { *s = inEnvironments(*s, "qa") }},
			[]string{"bracket: "}},
		{"another version will do", "", []func(*rollout.Snapshot){mutual[0], needs("b", "v2", "a", "true")}, nil},
		{"of two dependencies one that can be met does not help", "", append(mutual[:2:2], needs("a", "v2", "c", v1)), []string{circle}},
		{"a selector may ask for the deployment", "", []func(*rollout.Snapshot){mutual[0], needs("b", "v2", "a", v2+" || deployment.name == 'x'")}, []string{circle}},
		{"one execution brings both", `{"deploymentBracket":{"deploymentSelector":"deployment.name in ['a', 'b']","readinessMode":"immediate","memberRoles":{}}}`, mutual, nil},
		{"one of them is no member", `{"deploymentBracket":{"deploymentSelector":"deployment.name in ['a', 'c']","readinessMode":"immediate","memberRoles":{}}}`, mutual, []string{circle}},
		{"the policy of the bracket governs one of them", `{"retry":{"maxRetries":0}}]},{"name":"q","selector":"deployment.name == 'a'","rules":[{"deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}}`, mutual, []string{circle}},
		{"the other one", `{"retry":{"maxRetries":0}}]},{"name":"q","selector":"deployment.name == 'b'","rules":[{"deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}}`, mutual, []string{circle}},
		{"two brackets, each of which governs one of them", `{"retry":{"maxRetries":0}}]},{"name":"q","selector":"deployment.name == 'a'","rules":[{"deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}}]},
			{"name":"r","selector":"deployment.name == 'b'","rules":[{"deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}}`, mutual, []string{circle}},
		{"two brackets, of each of which one is a member", `{"deploymentBracket":{"deploymentSelector":"deployment.name == 'a'","readinessMode":"immediate","memberRoles":{}}}]},
			{"name":"q","selector":"true","rules":[{"deploymentBracket":{"deploymentSelector":"deployment.name == 'b'","readinessMode":"immediate","memberRoles":{}}}`, mutual, []string{circle}},
		{"one execution brings both on the second resource", `{"retry":{"maxRetries":0}}]},{"name":"q","selector":"resource.name == 'r2'","rules":[{"deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}}`, mutual, nil},
		{"what has begun everywhere is repeated without waiting", "", append(mutual[:2:2], func(s *rollout.Snapshot) {
			for k := range s.Targets {
				if x := &s.Targets[k]; x.Deployment == "a" {
					x.Jobs = []rollout.Job{{Run: "x", Version: "v2", Status: rollout.JobFailure, CreatedAt: minute(5000)}}
				}
			}
		}), nil},
		{"none that is published: tomorrow perhaps", "", []func(*rollout.Snapshot){mutual[0], needs("b", "v2", "a", "version.tag == 'v9'")}, nil},
		{"what runs anywhere waits for nothing", "", append(mutual[:2:2], func(s *rollout.Snapshot) { s.Targets[1].Current = "v2" }), nil},
		{"so does what has begun anywhere", "", append(mutual[:2:2], func(s *rollout.Snapshot) {
			s.Targets[1].Jobs = []rollout.Job{{Run: "x", Version: "v2", Status: rollout.JobFailure, CreatedAt: minute(5000)}}
		}), nil},
		{"what no target can choose any more", "", append(mutual[:2:2], runs("a", "v3")), nil},
		{"but one target still can", "", append(mutual[:2:2], func(s *rollout.Snapshot) { s.Targets[0].Current = "v3" }), []string{circle}},
		{"whichever", "", append(mutual[:2:2], func(s *rollout.Snapshot) { s.Targets[4].Current = "v3" }), []string{circle}},
		{"the oldest version waits for nothing where it runs, though another target has none", "", []func(*rollout.Snapshot){runs("a", ""), func(s *rollout.Snapshot) { s.Targets[0].Current = "v1" }, needs("a", "v1", "b", v2), needs("b", "v2", "a", v1)}, nil},
		{"the oldest version of a deployment that runs nowhere", "", []func(*rollout.Snapshot){runs("a", ""), needs("a", "v1", "b", v2), needs("b", "v2", "a", v1), func(s *rollout.Snapshot) {
			s.Versions = slices.DeleteFunc(s.Versions, func(v rollout.Version) bool { return v.Deployment == "a" && v.ID != "v1" })
		}}, []string{"rollout: dependency cycle: a@v1 needs b@v2 needs a@v1: publish a version without one of these dependencies"}},
		{"a deployment without targets chooses nothing", "", append(mutual[:2:2], func(s *rollout.Snapshot) {
			s.Targets = slices.DeleteFunc(s.Targets, func(t rollout.Target) bool { return t.Deployment == "b" })
		}), nil},
		{"versions that are for no target keep nobody waiting", "", append(mutual[:2:2], nobody("a", "v2"), nobody("b", "v2")), nil},
		{"one that is for some waits for one that is for none", "", append(mutual[:2:2], nobody("b", "v2")), []string{circle}},
		{"a circle of what is for no target hides none of the others", "", []func(*rollout.Snapshot){needs("a", "v2", "c", v2), mutual[0], mutual[1], needs("c", "v2", "d", v2), needs("d", "v2", "c", v2), nobody("c", "v2"), nobody("d", "v2")}, []string{circle}},
		{"a resource may decide, and is not asked", "", []func(*rollout.Snapshot){mutual[0], needs("b", "v2", "a", v2+" || resource.name == 'r2'")}, []string{}},
		{"a selector that does not compile, and a deployment that nobody knows", "", []func(*rollout.Snapshot){needs("b", "v2", "a", v1), needs("b", "v2", "x", "version.tag ==")}, []string{
			`versions[b@v2].dependencies[1].versionSelector: `, `versions[b@v2].dependencies[1].deployment: "x": is not the id of a deployment`,
		}},
		{"deployments that wait for one another come first", `{"deploymentDependency":{"appliesTo":"deployment.name == 'c'","dependsOn":"deployment.name == 'd'"}},
			{"deploymentDependency":{"appliesTo":"deployment.name == 'd'","dependsOn":"deployment.name == 'c'"}}`, mutual, []string{
			"rollout: dependency cycle: c needs d needs c (rules p/deploymentDependency/0, p/deploymentDependency/1): remove one of these dependencies, or narrow it with appliesTo", circle,
		}},
		{"deployments that wait for one another in the second environment", `{"retry":{"maxRetries":0}}]},{"name":"q","selector":"environment.name == 'qa'","rules":[{"id":"x","deploymentDependency":{"appliesTo":"deployment.name == 'c'","dependsOn":"deployment.name == 'd'"}},
			{"id":"y","deploymentDependency":{"appliesTo":"deployment.name == 'd'","dependsOn":"deployment.name == 'c'"}}`, []func(*rollout.Snapshot){func(s *rollout.Snapshot) { *s = inEnvironments(*s, "qa") }},
			[]string{"rollout: dependency cycle: c needs d needs c (rules x, y): remove one of these dependencies, or narrow it with appliesTo"}},
		{"on the first resource c, which a needs as well, waits for nobody: d is on the second alone", `{"id":"s","deploymentDependency":{"appliesTo":"deployment.name == 'a'","dependsOn":"deployment.name == 'c'"}},
			{"id":"t","deploymentDependency":{"appliesTo":"deployment.name == 'a'","dependsOn":"deployment.name == 'b'"}},{"id":"u","deploymentDependency":{"appliesTo":"deployment.name == 'b'","dependsOn":"deployment.name == 'a'"}},
			{"id":"v","deploymentDependency":{"appliesTo":"deployment.name == 'c'","dependsOn":"deployment.name == 'd'"}},{"id":"w","deploymentDependency":{"appliesTo":"deployment.name == 'd'","dependsOn":"deployment.name == 'c'"}}`,
			[]func(*rollout.Snapshot){func(s *rollout.Snapshot) {
				s.Targets = slices.DeleteFunc(s.Targets, func(t rollout.Target) bool {
					return t.Deployment == "c" && t.Resource == "r2" || t.Deployment == "d" && t.Resource == "r1"
				})
			}}, []string{"rollout: dependency cycle: a needs b needs a (rules t, u): remove one of these dependencies, or narrow it with appliesTo"}},
		{"a contradiction in the snapshot is all there is to say", "", append(mutual[:2:2], func(s *rollout.Snapshot) { s.Resources = append(s.Resources, s.Resources[0]) }), []string{
			`resources[2].id: "r1": is the id of resources[0] too: ids are unique`,
		}},
	} {
		s := fleet(2, "v1", map[string][]string{"a": {"v1", "v2", "v3"}, "b": {"v1", "v2"}, "c": {"v1", "v2"}, "d": {"v1", "v2"}})
		for k := range s.Versions { // what is published later is checked now
			s.Versions[k].CreatedAt = s.Versions[k].CreatedAt.Add(48 * time.Hour)
		}
		for _, f := range row.spoil {
			f(&s)
		}
		policies := "[]"
		if row.rules != "" {
			policies = "[" + policy(row.rules) + "]"
		}
		err := compile(t, policies).Check(s)
		list := joined(err)
		if len(list) != len(row.want) {
			t.Errorf("%s: %v, want %q", row.why, err, row.want)
			continue
		}
		for k, one := range list {
			var fault *rollout.FieldError
			var cycle *rollout.CycleError
			var overlap *bracket.OverlapError
			if got := one.Error(); !errors.As(one, &fault) && !errors.As(one, &cycle) && !errors.As(one, &overlap) || fault != nil && fault.Code == "" || len(got) < len(row.want[k]) || got[:len(row.want[k])] != row.want[k] {
				t.Errorf("%s: %T %q, want %q", row.why, one, got, row.want[k])
			}
		}
	}
}

// TestCheckIsOneList: a host that shows every fault takes the error apart once, as it does that of
// Load. Faults of several kinds are beside one another there, none is hidden in a list of its own.
func TestCheckIsOneList(t *testing.T) {
	t.Parallel()
	bracketed := `{"deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}}`
	set := compile(t, `[`+policy(`{"deploymentDependency":{"dependsOn":"deployment.id == 'a'","appliesTo":"deployment.id == 'b'"}},
		{"deploymentDependency":{"dependsOn":"deployment.id == 'b'","appliesTo":"deployment.id == 'a'"}},`+bracketed)+
		`,{"name":"q","selector":"true","rules":[`+bracketed+`]},{"name":"r","selector":"true","rules":[`+bracketed+`]}]`)
	s := fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1"}})
	s.Versions[1].Dependencies = []rollout.VersionDependency{{Deployment: "x", VersionSelector: "true"}, {Deployment: "y", VersionSelector: "=="}}
	var list interface{ Unwrap() []error }
	if err := set.Check(s); !errors.As(err, &list) {
		t.Fatalf("%T: %v", err, err)
	}
	fields := 0
	for _, one := range list.Unwrap() {
		if _, nested := one.(interface{ Unwrap() []error }); nested {
			t.Errorf("%T: %v", one, one)
		}
		if _, own := one.(*rollout.FieldError); own {
			fields++
		}
	}
	if all := joined(set.Check(s)); fields != 3 || len(all) < 5 {
		t.Errorf("%d faults of fields among %q", fields, all)
	}
}

// TestLongCycle: the error of a long circle names both of its ends, and holds the whole of it. So does
// the one of package bracket.
func TestLongCycle(t *testing.T) {
	t.Parallel()
	var ids, rules []string
	for i := range 2000 {
		ids, rules = append(ids, fmt.Sprintf("d%04d", i)), append(rules, fmt.Sprintf("r%04d", i))
	}
	const first, last = "d0000 needs d0001 needs d0002 needs d0003 needs d0004 needs d0005 needs d0006 needs d0007 needs d0008 needs d0009", "d1991 needs d1992 needs d1993 needs d1994 needs d1995 needs d1996 needs d1997 needs d1998 needs d1999 needs d0000"
	outside := rollout.CycleError{Path: ids, Rules: rules}
	if got, want := outside.Error(), "rollout: dependency cycle: "+first+" needs (1981 more) needs "+last+
		" (rules r0000, r0001, r0002, r0003, r0004, r0005, r0006, r0007, r0008, r0009, 1990 others): remove one of these dependencies, or narrow it with appliesTo"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	inside := bracket.CycleError{Bracket: "b", Path: append(ids, ids[0])}
	if got, want := inside.Error(), `bracket: "b": dependency cycle `+strings.ReplaceAll(first+" needs (1981 more) needs "+last, "needs", "->")+": remove one of these dependencies"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
