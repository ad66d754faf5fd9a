package rollout_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/internal/testkit"
	"github.com/tranche-dev/tranche/rollout"
)

// TestLatePlanEqualsTimely: a host that was away while versions were published and approved, and
// gates and windows opened, plans what it would have planned had it looked at every Next. Overrides
// are another matter: one that has expired meanwhile was never seen.
func TestLatePlanEqualsTimely(t *testing.T) {
	env, seen := newRemembering(t), testkit.Tally{}
	checkWorlds(t, env, seen, 60, nil, func(t *rapid.T, w *world) {
		w.s = cloneFleet(w.s)
		w.s.Overrides, w.s.State = nil, rollout.State{}
		for k := range w.s.Targets { // nor does it know of any group
			x := &w.s.Targets[k]
			x.Jobs = slices.DeleteFunc(x.Jobs, func(j rollout.Job) bool { return j.Run != "" })
		}
		if slices.ContainsFunc(w.policies, func(p rollout.Policy) bool {
			return slices.ContainsFunc(p.Rules, func(r rollout.Rule) bool { return r.FailureBudget != nil })
		}) {
			seen["under a budget"]++
			endAll(w.s.Targets, minute(0)) // nobody knows later which failures a budget had counted when
		}
		first, last := minute(0), minute(between(t, "late", 1, 30))
		timely := w.s
		looks := 0
		for now := first; now.Before(last); looks++ {
			plan, planned := planIfAny(t, w.set, timely, now)
			if !planned {
				seen["contradiction"]++
				return
			}
			timely.State = plan.State
			if now = plan.Next; now.IsZero() || looks > 200 {
				break
			}
		}
		want, planned := planIfAny(t, w.set, timely, last)
		got, alsoLate := planIfAny(t, w.set, w.s, last)
		if planned != alsoLate {
			t.Fatalf("in time something is planned: %v, late: %v\n%v", planned, alsoLate, w)
		}
		if !planned { // a version has come by which the members contradict their roles, or one another
			seen["contradiction"]++
			return
		}
		if missesGroups(w.policies, want.State, got.State) { // bracket: I9
			seen["no group for who is a hook by now"]++
			return
		}
		for _, record := range got.State.Rollouts { // there may be more of what was overtaken on the way
			if !slices.Contains(want.State.Rollouts, record) {
				t.Fatalf("after %d plans %+v, as the first %+v\n%v", looks, want.State.Rollouts, record, w)
			}
		}
		seen["rollouts"] += len(got.State.Rollouts)
		want.State, got.State = rollout.State{}, rollout.State{} // a group that closed in time may have locked what was for nobody then, and approved since
		want.Events, got.Events = nil, nil                       // which have been told on the way
		for _, plan := range []*rollout.Plan{&want, &got} {      // the gates of a rollout that began in time are not asked again, nor whom its version is for, so they miss no key
			plan.Diagnostics = slices.DeleteFunc(plan.Diagnostics, func(d rollout.Diagnostic) bool {
				return d.Code == rollout.DiagnosticMissingKey || d.Code == rollout.DiagnosticScopeMissingKey
			})
		}
		if diff := cmp.Diff(text(t, want), text(t, got)); diff != "" {
			t.Fatalf("after %d plans (-) and as the first (+), at %v:\n%s\n%v", looks, last, diff, w)
		}
		if looks > 1 {
			seen["after a while"]++
		}
		count(seen, got)
	}, "after a while", "rollouts", "rollout_not_due", "slot_full", "start alone", "start in bracket", "bracket_not_due", "bracket_collecting", "under a budget")
}

// missesGroups reports whether the late state has fewer groups of a bracket of which versions may make
// a member a hook: such a member then opens none for what it had before, as package bracket says.
func missesGroups(policies []rollout.Policy, timely, late rollout.State) bool {
	return slices.ContainsFunc(timely.Brackets, func(in *bracket.GroupRecord) bool {
		derived := slices.ContainsFunc(policies, func(p rollout.Policy) bool {
			return slices.ContainsFunc(p.Rules, func(r rollout.Rule) bool {
				return r.ID == in.Rule && r.DeploymentBracket != nil && r.DeploymentBracket.MemberRoles == nil
			}) && slices.ContainsFunc(p.Rules, func(r rollout.Rule) bool {
				return r.DeploymentDependency != nil && strings.Contains(r.DeploymentDependency.DependsOn, "version.")
			})
		})
		return derived && !slices.ContainsFunc(late.Brackets, func(own *bracket.GroupRecord) bool {
			return own.Rule == in.Rule && own.Environment == in.Environment && own.Number >= in.Number
		})
	})
}

// TestMembersAreNamedOnce: a member that is needed both by its role and by a dependency that reads its
// version is named once, whether its execution starts in this plan or is open. (Found by
// TestLatePlanEqualsTimely, -rapid.seed=3292843: of an execution that starts it was named twice.)
func TestMembersAreNamedOnce(t *testing.T) {
	set := compile(t, `{"name":"P","selector":"true","rules":[
		{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{"pre":"deployment.name == 'drain'"}}},
		{"deploymentDependency":{"dependsOn":"deployment.name == 'drain' && version.tag != 'v1'","appliesTo":"deployment.name != 'drain'"}},
		{"deploymentDependency":{"dependsOn":"deployment.name == 'cni' && version.tag != 'v1'","appliesTo":"deployment.name == 'os'"}}]}`)
	s := fleet(1, "", map[string][]string{"drain": {"v2"}, "os": {"v2"}, "cni": {"v2"}})
	for round := range 2 {
		plan := mustPlan(t, set, s, minute(1))
		for _, wait := range waitingOf(plan) {
			var names []string
			for _, on := range wait.Blockers[0].On {
				names = append(names, on.Deployment)
			}
			if want := map[string]string{"os": "cni drain", "cni": "drain"}[wait.Deployment]; strings.Join(names, " ") != want {
				t.Errorf("round %d: %s waits for %v, want %s", round, wait.Deployment, names, want)
			}
		}
		s.State = plan.State
		var err error
		if s.State, err = plan.Commit(plan.Start, minute(1)); err != nil {
			t.Fatal(err)
		}
		start := plan.Start
		for _, x := range start {
			for k := range s.Targets {
				if s.Targets[k].TargetID == x.TargetID {
					s.Targets[k].Jobs = append(s.Targets[k].Jobs, rollout.Job{Run: x.Run, Version: x.Version, Status: rollout.JobInProgress, CreatedAt: minute(1)})
				}
			}
		}
		if round == 0 && (len(start) != 1 || start[0].Deployment != "drain") {
			t.Fatalf("%v", plan)
		}
	}
}
