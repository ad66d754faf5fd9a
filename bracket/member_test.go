package bracket

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestCheck(t *testing.T) {
	declared := Rule{DeploymentSelector: "true", MemberRoles: &MemberRoles{}}
	derived := Rule{DeploymentSelector: "true"}
	pre := func(name string, needs ...string) Member { return Member{Deployment: name, Role: Pre, Needs: needs} }
	main := func(name string, needs ...string) Member { return Member{Deployment: name, Needs: needs} }
	post := func(name string, needs ...string) Member { return Member{Deployment: name, Role: Post, Needs: needs} }
	rows := []struct {
		name    string
		rule    Rule
		members []Member
		want    string // parts of the message; empty: no error
		why     string
	}{
		{"one main", derived, []Member{main("a")}, "", "the smallest bracket"},
		{"the RFC's node policy", derived, rfcMembers(), "", "must be accepted as it is"},
		{"no members", derived, nil, `required brackets["rule"].members: at least one main`, "nothing would ever open a group"},
		{"only hooks", declared, []Member{pre("a"), post("b")}, `required brackets["rule"].members: at least one main`, "hooks never open a group"},
		{"only hooks, in a circle", declared, []Member{pre("a", "b"), pre("b", "a")}, "a -> b -> a: remove one of these dependencies\nrequired brackets[\"rule\"].members: at least one main", "no fault hides another one"},
		{"self", derived, []Member{main("a", "a")}, "a -> a", "it waits for itself"},
		{"cycle of two", derived, []Member{main("a", "b"), main("b", "a")}, "a -> b -> a", "neither can start"},
		{"cycle beside a tail", derived, []Member{main("x", "b"), main("c", "b"), main("b", "c")}, "b -> c -> b", "only the members of the cycle are named"},
		{"cycle behind another need", derived, []Member{main("a", "b", "c"), main("b"), main("c", "a")}, "a -> c -> a", "nor is one named that the search has passed and left"},
		{"cycle through a condition", derived, []Member{{Deployment: "a", NeedsIf: []ConditionalNeed{{"b", []string{"v1"}}}}, main("b", "a")}, "a -> b -> a", "some versions would deadlock"},
		{"unknown need", derived, []Member{main("a", "z")}, `unknown_value brackets["rule"].members[0].needs: "z": is not a member, and "a" needs it`, "a typo, or an ordinary dependency"},
		{"twice", derived, []Member{main("a"), main("a")}, `.deployment: "a": is listed twice`, "whose needs count?"},
		{"nameless", derived, []Member{main("")}, `required brackets["rule"].members[0].deployment`, "nothing can refer to it"},
		{"unknown role", declared, []Member{{Deployment: "a", Role: "hook"}}, `unknown_value brackets["rule"].members[0].role: "hook"`, "enums fail closed"},
		{"pre needs main", declared, []Member{pre("a", "b"), main("b")}, `pre member "a" needs main member "b"`, "the drain would wait for what waits for it"},
		{"main needs post", declared, []Member{main("a", "b"), post("b")}, `main member "a" needs post member "b"`, "the same at the other end"},
		{"roles that agree", declared, []Member{pre("a"), main("b", "a"), post("c", "b", "a"), pre("d", "a")}, "", "needs within and between phases, forwards"},
		{"unknown role, roles derived", derived, []Member{{Deployment: "a", Role: "hook"}}, "", "roles that are derived are not read"},
		{"several faults", derived, []Member{main("a", "y"), main("b", "z"), main("c", "d"), main("d", "c")}, `"y": is not a member`, "all of them, in whatever order"},
		{"unknown need, several times", derived, []Member{{Deployment: "a", Needs: []string{"z", "z"}, NeedsIf: []ConditionalNeed{{"z", []string{"v1"}}, {"z", []string{"v2"}}}}}, `"z": is not a member`,
			"several rules may name one deployment: that is one fault"},
		{"pre needs main, several times", declared, []Member{{Deployment: "a", Role: Pre, Needs: []string{"b"}, NeedsIf: []ConditionalNeed{{"b", []string{"v1"}}, {"b", []string{"v2"}}}}, main("b")}, `pre member "a" needs main member "b"`,
			"one edge against the roles"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			if row.why == "" {
				t.Fatal("a row needs a reason")
			}
			err := Check(Bracket{ID: "rule", Rule: row.rule, Members: row.members})
			if row.want == "" != (err == nil) || err != nil && !strings.Contains(told(err), row.want) {
				t.Errorf("%v, want %q", err, row.want)
			}
			if lines := strings.Split(told(err), "\n"); len(slices.Compact(slices.Clone(lines))) < len(lines) {
				t.Errorf("a fault is told twice: %v", err)
			}
			reversed := slices.Clone(row.members)
			slices.Reverse(reversed)
			again := Check(Bracket{ID: "rule", Rule: row.rule, Members: reversed})
			if err != nil && !strings.Contains(told(again), row.want) {
				t.Errorf("in another order: %v", again)
			}
			if is, was := withoutIndices(again), withoutIndices(err); !slices.Equal(is, was) {
				t.Errorf("in another order, but for the indices: %v, was %v", is, was)
			}
		})
	}
	var cycle *CycleError
	if err := Check(Bracket{ID: "r", Rule: derived, Members: rows[6].members}); !errors.As(err, &cycle) || cycle.Bracket != "r" || strings.Join(cycle.Path, "") != "aba" {
		t.Errorf("%+v", cycle)
	}
	var role *RoleError
	if err := Check(Bracket{ID: "r", Rule: declared, Members: rows[14].members}); !errors.As(err, &role) || role.Deployment != "a" || role.Need != "b" || role.Role != Pre || role.NeedRole != Main {
		t.Errorf("%+v", role)
	}
}

// withoutIndices returns the texts of the faults, in order, with nothing that depends on the order
// of the members.
func withoutIndices(err error) []string {
	texts := strings.Split(regexp.MustCompile(`members\[\d+\]`).ReplaceAllString(told(err), "members"), "\n")
	slices.Sort(texts)
	return texts
}

// A role that is written out is a role; without memberRoles of the rule it means nothing.
func TestCheckOfWrittenRoles(t *testing.T) {
	window := int64(0)
	rule := Rule{DeploymentSelector: "true", ReadinessWindowSeconds: &window}
	members := []Member{{Deployment: "os", Role: Main, Needs: []string{"drain"}}, {Deployment: "drain", Role: Pre}}
	declared := rule
	declared.MemberRoles = &MemberRoles{Pre: "deployment.name == 'drain'"}
	if err := Check(Bracket{ID: "b", Rule: declared, Members: members}); err != nil {
		t.Error(err)
	}
	derived := []Member{{Deployment: "os", Role: Post}, {Deployment: "drain", Role: Pre, Needs: []string{"os"}}}
	if err := Check(Bracket{ID: "b", Rule: rule, Members: derived}); err != nil {
		t.Error(err)
	}
}

func TestCheckOverlap(t *testing.T) {
	bracket := func(id string, targets ...string) Bracket {
		b := Bracket{ID: id, Rule: Rule{DeploymentSelector: "true"}, Members: []Member{{Deployment: "a"}}}
		for _, target := range targets {
			resource, deployment, _ := strings.Cut(target, "/")
			b.Targets = append(b.Targets, Target{Resource: resource, Deployment: deployment})
		}
		return b
	}
	if err := Check(bracket("x", "n1/a", "n2/b", "n3/a"), bracket("y", "n2/a", "n1/b"), bracket("z"), bracket("w", "n9/a")); err != nil {
		t.Errorf("different deployments on each resource: %v", err)
	}
	err := Check(bracket("y", "n3/a", "n2/b", "n1/a"), bracket("x", "n2/a", "n2/b", "n3/a"))
	var overlap *OverlapError
	if !errors.As(err, &overlap) || *overlap != (OverlapError{[2]string{"x", "y"}, "b", "n2"}) {
		t.Errorf("%v", err)
	}
	for _, part := range []string{`"x" and "y"`, `"b"`, `"n2"`} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v does not name %s", err, part)
		}
	}
	if err := Check(bracket("x", "n1/a"), bracket("y", "n1/a", "n2/a")); !errors.As(err, &overlap) || *overlap != (OverlapError{[2]string{"x", "y"}, "a", "n1"}) {
		t.Errorf("the first target of all is theirs: %v", err)
	}
	x, y, z := bracket("x", "n1/a", "n2/a"), bracket("y", "n2/a", "n2/a", "n3/a"), bracket("z", "n1/a", "n2/a", "n3/a")
	err = Check(x, y, z)
	if text := fmt.Sprint(err); strings.Count(text, "\n") != 2 || text != fmt.Sprint(Check(z, y, x)) {
		t.Errorf("three pairs, told once each, in whatever order the brackets are: %v; %v", err, Check(z, y, x))
	}
}

// Who checks one bracket alone need not name it: then its faults are told without a name, and not
// with an empty one.
func TestCheckWithoutName(t *testing.T) {
	err := Check(Bracket{Rule: Rule{DeploymentSelector: "true", MemberRoles: &MemberRoles{}}, Members: []Member{
		{Deployment: "a", Needs: []string{"b"}}, {Deployment: "b", Needs: []string{"a"}}, {Deployment: "", Role: Pre}, {Deployment: "c", Role: Pre, Needs: []string{"a"}},
	}})
	if want := "bracket: dependency cycle a -> b -> a: remove one of these dependencies\n" +
		"bracket: pre member \"c\" needs main member \"a\""; err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(told(err), "required members[2].deployment: ") {
		t.Errorf("%v, want %s", err, want)
	}
}

func rolesOf(members []Member, declared bool) string {
	var b strings.Builder
	for _, m := range frozenMembers(members, declared, func(string) bool { return true }) {
		b.WriteString(m.Deployment + "=" + string(m.Role) + strings.ReplaceAll("("+strings.Join(m.Needs, ",")+") ", "()", ""))
	}
	return strings.TrimSpace(b.String())
}

func TestRoles(t *testing.T) {
	m := func(name string, needs ...string) Member { return Member{Deployment: name, Needs: needs} }
	for _, row := range []struct {
		members  []Member
		declared bool
		want     string
		why      string
	}{
		{[]Member{m("a"), m("b", "a"), m("c", "b")}, false, "a=pre b=main(a) c=post(a,b)", "a chain of three has both hooks"},
		{[]Member{m("a"), m("b", "a")}, false, "a=main b=main(a)", "two members leave no main between the hooks"},
		{[]Member{m("a")}, false, "a=main", "first and last are the same"},
		{[]Member{m("a"), m("b"), m("c", "a", "b")}, false, "a=main b=main c=main(a,b)", "two members need nothing: which one is the drain?"},
		{[]Member{m("a"), m("b", "a"), m("c", "a")}, false, "a=main b=main(a) c=main(a)", "nothing needs two of them: which one is the uncordon?"},
		{[]Member{m("a"), m("b", "a"), m("c", "a"), m("d", "b", "c")}, false, "a=pre b=main(a) c=main(a) d=post(a,b,c)", "a diamond"},
		{[]Member{m("a"), {Deployment: "b", NeedsIf: []ConditionalNeed{{"a", []string{"v1"}}}}, m("c", "b")}, false, "a=pre b=main(a) c=post(a,b)",
			"a dependency on some versions is one"},
		{[]Member{{Deployment: "a", Role: Post}, m("b", "a"), {Deployment: "c", Role: Pre, Needs: []string{"b"}}}, false, "a=pre b=main(a) c=post(a,b)",
			"without memberRoles, roles that are given say nothing"},
		{[]Member{m("a"), m("b", "a"), m("c", "b")}, true, "a=main b=main(a) c=main(b)", "an empty memberRoles makes all main"},
		{[]Member{{Deployment: "z", Role: Pre}, m("a"), {Deployment: "b", Role: Post}, {Deployment: "c", Role: Post}}, true,
			"a=main(z) b=post(a,z) c=post(a,z) z=pre", "roles add their edges"},
	} {
		if got := rolesOf(row.members, row.declared); got != row.want {
			t.Errorf("%s, want %s (%s)", got, row.want, row.why)
		}
	}
	idle := []Member{{Deployment: "a", Role: Post}, m("b", "a"), {Deployment: "c", Role: "hook", Needs: []string{"b"}}}
	if err := Check(Bracket{ID: "rule", Rule: windowRule(3600), Members: idle}); err != nil {
		t.Errorf("roles that say nothing are refused: %v", err)
	}
	if _, _, err := Step(windowRule(3600), NewState("rule", "prod"), Observation{Members: idle}, at(0)); err != nil {
		t.Errorf("roles that say nothing are refused by a step: %v", err)
	}
}

// I8: several dependency rules may name one deployment, each with versions of its own.
func TestConditionalNeedsInAnyOrder(t *testing.T) {
	needs := []ConditionalNeed{{"a", []string{"v3", "v2"}}, {"c", []string{"v1"}}, {"a", []string{"v1"}}}
	want := []ConditionalNeed{{"a", []string{"v1"}}, {"a", []string{"v2", "v3"}}, {"c", []string{"v1"}}}
	for range needs {
		needs = append(needs[1:], needs[0])
		o := Observation{Members: []Member{{Deployment: "a"}, {Deployment: "b", NeedsIf: slices.Clone(needs)}, {Deployment: "c"}}}
		var targets TargetList
		for _, m := range o.Members {
			o.Versions = append(o.Versions, Version{Deployment: m.Deployment, ID: "v0", CreatedAt: day0, EligibleAt: day0})
			targets = append(targets, Target{Resource: "n1", Deployment: m.Deployment})
		}
		o.Targets = targets
		state, _, err := Step(Rule{DeploymentSelector: "true", ReadinessMode: Immediate}, NewState("rule", "prod"), o, day0)
		if err != nil {
			t.Fatal(err)
		}
		if got := state.Group.Closed[0].Members[1].NeedsIf; !reflect.DeepEqual(got, want) {
			t.Errorf("%v become %v, want %v", needs, got, want)
		}
	}
}

// The definition of the derived roles by reachability, written out, against the counting that
// replaces it.
func TestDerivedRolesMatchTheirDefinition(t *testing.T) {
	hooks := 0
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 6).Draw(t, "members")
		members := make([]Member, n)
		for i := range members {
			members[i].Deployment = string(rune('a' + i))
			for j := range i {
				if rapid.IntRange(0, 3).Draw(t, "edge") > 0 {
					members[i].Needs = append(members[i].Needs, members[j].Deployment)
				}
			}
		}
		var reaches [6][6]bool
		for i := range members { // needs point to smaller indices, so one pass closes them
			for _, need := range members[i].Needs {
				j := int(need[0] - 'a')
				reaches[i][j] = true
				for k := range n {
					reaches[i][k] = reaches[i][k] || reaches[j][k]
				}
			}
		}
		source, sink := -1, -1
		for i := range n {
			first, last := true, true
			for k := range n {
				if k != i {
					first = first && reaches[k][i] && !reaches[i][k]
					last = last && reaches[i][k] && !reaches[k][i]
				}
			}
			if first {
				source = i
			}
			if last {
				sink = i
			}
		}
		got := frozenMembers(members, false, func(string) bool { return true })
		for i := range got {
			want := Main
			if source >= 0 && sink >= 0 && source != sink && n > 2 {
				hooks++
				switch i {
				case source:
					want = Pre
				case sink:
					want = Post
				}
			}
			if got[i].Role != want {
				t.Fatalf("%v: %s is %s, want %s", members, got[i].Deployment, got[i].Role, want)
			}
		}
	})
	if hooks == 0 && !testing.Short() {
		t.Error("no hooks were derived in any run")
	}
}
