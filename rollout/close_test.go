package rollout_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/internal/testkit"
	"github.com/tranche-dev/tranche/rollout"
)

const (
	collecting = `{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessWindowSeconds":86400,"memberRoles":{"pre":"deployment.name == 'drain'"}}}`
	slowCurve  = `{"id":"G","gradualRollout":{"rolloutType":"linear","timeScaleInterval":3600,"orderKey":"resource_bracket"}}`
)

// TestCloseForAFix: a security fix in a bracket that collects for a day, along a curve of hours, with
// one node down at a time. The command ends the wait for the window, and overrides that for the curve.
func TestCloseForAFix(t *testing.T) {
	t.Parallel()
	set := compile(t, policy(collecting+","+slowCurve+","+oneAtATime))
	s := fleet(3, "v1", map[string][]string{"a": {"v1", "v2"}, "drain": {"v1"}})
	id := s.Targets[0].TargetID
	s.State = mustPlan(t, set, s, t0).State
	plan := mustPlan(t, set, s, minute(10))
	e, err := plan.Explain(id)
	if err != nil || e.Collecting != "B/prod/1" || !strings.Contains(e.String(), "  collects  B/prod/1\n") || len(plan.Start) > 0 {
		t.Fatalf("%v, %v, starts %v", e, err, started(plan))
	}
	s.Commands = []bracket.Command{{ID: "c", Kind: bracket.Close, Group: e.Collecting, By: "ann", Reason: "CVE", At: minute(9)}}
	plan = mustPlan(t, set, s, minute(10))
	if got := started(plan); len(got) != 1 || !strings.HasSuffix(got[0], "/drain@v1") || len(plan.Diagnostics) > 0 {
		t.Fatalf("starts %v, %v", got, plan.Diagnostics)
	}
	closed := plan.State.Brackets[0].Closed[0]
	if !closed.ReadyAt.Equal(minute(10)) || closed.ClosedBy == nil || closed.ClosedBy.By != "ann" || !closed.ClosedBy.At.Equal(minute(10)) {
		t.Errorf("closed at %v by %v", closed.ReadyAt, closed.ClosedBy)
	}
	if e, err = plan.Explain(id); err != nil || e.Collecting != "" {
		t.Errorf("it collects %q no more, %v", e.Collecting, err)
	}
	if next := plan.Next; !next.Equal(minute(70)) {
		t.Errorf("the second turn is at %v: the curve begins with the close", next)
	}

	// With an override of the curve for each member all are due at once, and wait for the slot alone.
	for member, version := range map[string]string{"a": "v2", "drain": "v1"} {
		s.Overrides = append(s.Overrides, rollout.Override{ID: member, Rule: "G", Deployment: member, Version: version, CreatedAt: minute(10), CreatedBy: "ann", Reason: "CVE"})
	}
	plan = mustPlan(t, set, s, minute(10))
	for _, line := range blockers(plan) {
		if !strings.HasSuffix(line, ": slot_full") && !strings.HasSuffix(line, ": bracket_waits_for_members") {
			t.Errorf("%s", line)
		}
	}

	// The next plan closes nothing again, and the command may be listed for ever.
	s.State = mustCommit(t, plan, minute(10))
	again := mustPlan(t, set, s, minute(11))
	if len(again.State.Brackets[0].Closed) != 1 || len(again.Diagnostics) > 0 || again.State.Brackets[0].Number != 1 {
		t.Errorf("%+v, %v", again.State.Brackets[0], again.Diagnostics)
	}
	data, err := json.Marshal(again.State)
	var read rollout.State
	if err == nil {
		err = json.Unmarshal(data, &read)
	}
	if err != nil || *read.Brackets[0].Closed[0].ClosedBy != *closed.ClosedBy {
		t.Errorf("%v: %s", err, data)
	}
}

// TestCloseWithoutEffect: what a command to close says if it closes nothing, or nothing yet, by the
// plan that sees it first and by those after.
func TestCloseWithoutEffect(t *testing.T) {
	t.Parallel()
	const approved = `{"id":"A","anyApproval":{"minApprovals":1}}`
	published := strings.Replace(collecting, `"deploymentSelector"`, `"triggerOn":"published","deploymentSelector"`, 1)
	for _, row := range []struct {
		why, rules, group string
		told              string
		closes            bool
	}{
		{"it closes the group", collecting, "B/prod/1", "", true},
		{"there is no second group yet", collecting, "B/prod/2", "c: there is no group B/prod/2 to close", false},
		{"no such environment", collecting, "B/dev/1", "c: there is no group B/dev/1 to close", false},
		{"no such rule", collecting, "D/prod/1", "c: there is no group D/prod/1 to close", false},
		{"it is no group at all", collecting, "prod", "c: there is no group prod to close", false},
		{"groups are counted from 1", collecting, "B/prod/0", "c: there is no group B/prod/0 to close", false},
		{"nobody has approved the version", published + "," + approved, "B/prod/1", "c: B/prod/1 closes as soon as one of its versions may be deployed", false},
	} {
		set := compile(t, policy(row.rules))
		s := fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}})
		s.State = mustPlan(t, set, s, t0).State
		s.Commands = []bracket.Command{{ID: "c", Kind: bracket.Close, Group: row.group, At: minute(1)}}
		for k := range 3 {
			plan := mustPlan(t, set, s, minute(1+k))
			told := ""
			for _, d := range plan.Diagnostics {
				told += d.Detail
			}
			if closed := plan.State.Brackets[0].Collecting == nil; told != row.told || closed != row.closes {
				t.Errorf("%s: plan %d says %q, want %q; closed: %v", row.why, k+1, told, row.told, closed)
			}
			s.State = plan.State
		}
		if !strings.HasPrefix(row.rules, published) {
			continue
		}
		s.Approvals = []rollout.Approval{{Version: "v2", Deployment: "a", Environment: "prod", By: "ann", Status: rollout.Approved, At: minute(5)}}
		if plan := mustPlan(t, set, s, minute(5)); !slices.Equal(started(plan), []string{"r1/a@v2"}) || len(plan.Diagnostics) > 0 {
			t.Errorf("approved: starts %v, %v", started(plan), plan.Diagnostics)
		}
	}
}

// TestCloseWhereNobodyLooks: in an environment that the snapshot lacks a group stays as it is. The
// command says why, and closes the group once the environment is back.
func TestCloseWhereNobodyLooks(t *testing.T) {
	t.Parallel()
	set := compile(t, policy(collecting))
	s := inEnvironments(fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}}), "test")
	s.State = mustPlan(t, set, s, t0).State
	s.Commands = []bracket.Command{{ID: "c", Kind: bracket.Close, Group: "B/test/1"}}
	half := s
	half.Environments = slices.DeleteFunc(slices.Clone(s.Environments), func(e rollout.Environment) bool { return e.ID == "test" })
	half.Targets = slices.DeleteFunc(slices.Clone(s.Targets), func(target rollout.Target) bool { return target.Environment == "test" })
	plan := mustPlan(t, set, half, minute(1))
	const want = "c: B/test/1 is of an environment that is not there"
	if list := plan.Diagnostics; len(list) != 1 || list[0].Detail != want || list[0].Example.Environment != "test" {
		t.Errorf("%+v, want %s", list, want)
	}
	if s.State = plan.State; s.State.Brackets[1].Collecting == nil {
		t.Fatalf("%+v", s.State.Brackets[1])
	}
	if plan = mustPlan(t, set, s, minute(2)); plan.State.Brackets[1].Collecting != nil || len(plan.Diagnostics) > 0 {
		t.Errorf("%+v, %v", plan.State.Brackets[1], plan.Diagnostics)
	}
}

// TestCloseInTheRightEnvironment: the groups of a rule are counted in each environment, and a command
// closes the one that it names.
func TestCloseInTheRightEnvironment(t *testing.T) {
	t.Parallel()
	set := compile(t, policy(collecting))
	s := inEnvironments(fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}}), "test")
	s.State = mustPlan(t, set, s, t0).State
	s.Commands = []bracket.Command{{ID: "c", Kind: bracket.Close, Group: "B/test/1"}}
	plan := mustPlan(t, set, s, minute(1))
	for _, group := range plan.State.Brackets {
		if collects := group.Collecting != nil; collects != (group.Environment == "prod") {
			t.Errorf("%s collects: %v", group.Environment, collects)
		}
	}
	if got := plan.Next; !got.Equal(t0.Add(24 * time.Hour)) {
		t.Errorf("next %v", got)
	}
}

// TestCloseLate: a plan that comes days late finds the group that its window closed, with what was
// there by then. The command was given later, and closes nothing.
func TestCloseLate(t *testing.T) {
	t.Parallel()
	set := compile(t, policy(collecting))
	s := fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}})
	s.State = mustPlan(t, set, s, t0).State
	at := t0.Add(30 * time.Hour)
	s.Versions = append(s.Versions, rollout.Version{ID: "v3", Tag: "v3", Deployment: "a", Status: rollout.VersionReady, CreatedAt: at.Add(-time.Hour)})
	s.Commands = []bracket.Command{{ID: "c", Kind: bracket.Close, Group: "B/prod/1", At: at}}
	plan := mustPlan(t, set, s, at)
	first := plan.State.Brackets[0].Closed[0]
	if got := fmt.Sprint(started(plan)); !first.ReadyAt.Equal(t0.Add(24*time.Hour)) || first.ClosedBy != nil || plan.State.Brackets[0].Collecting == nil || got != "[r1/a@v2 r2/a@v2]" {
		t.Errorf("closed at %v by %v, starts %s", first.ReadyAt, first.ClosedBy, got)
	}
	// The one that has opened since is another one, and is closed by its own name.
	s.Commands[0].Group = "B/prod/2"
	plan = mustPlan(t, set, s, at)
	if got := fmt.Sprint(started(plan)); plan.State.Brackets[0].Collecting != nil || got != "[r1/a@v3 r2/a@v3]" {
		t.Errorf("%+v, starts %s", plan.State.Brackets[0].Collecting, got)
	}
}

// TestCloseInDrawnWorlds: a command closes the group that it names, at once and once, or says why not,
// and changes no other bracket. Between then and Next the plan stays the same.
func TestCloseInDrawnWorlds(t *testing.T) {
	t.Parallel()
	env, seen := newRemembering(t), testkit.Tally{}
	checkWorlds(t, env, seen, 100, nil, func(t *rapid.T, w *world) {
		w.s.State = w.plan.State
		if chance(t, "late", 30) {
			w.now = w.now.Add(time.Duration(between(t, "minutes", 1, 9)) * time.Minute)
		}
		alone, planned := planIfAny(t, w.set, w.s, w.now)
		if !planned { // a version has come by which the members contradict their roles, or one another
			seen["contradiction"]++
			return
		}
		named := map[string]bool{}
		for _, record := range alone.State.Brackets {
			if record.Collecting != nil && chance(t, "named", 70) {
				named[record.Collecting.ID] = true
				w.s.Commands = append(w.s.Commands, bracket.Command{ID: record.Collecting.ID, Kind: bracket.Close, Group: record.Collecting.ID, At: w.now})
			}
		}
		if len(named) == 0 {
			return
		}
		plan, err := w.set.Plan(w.s, w.now)
		if err != nil {
			t.Fatal(err)
		}
		told := map[string]bool{}
		for _, d := range plan.Diagnostics {
			if id, _, is := strings.Cut(d.Detail, ": "); is && d.Code == rollout.DiagnosticCommandWithoutEffect {
				told[id] = true
			}
		}
		for k, record := range plan.State.Brackets {
			before := alone.State.Brackets[k].Collecting
			if before == nil || !named[before.ID] {
				if diff := cmp.Diff(text(t, alone.State.Brackets[k]), text(t, record)); diff != "" {
					t.Fatalf("nobody has named it:\n%s", diff)
				}
				continue
			}
			collects := record.Collecting != nil && record.Collecting.ID == before.ID
			if collects != told[before.ID] {
				t.Fatalf("%s collects: %v; told: %v", before.ID, collects, plan.Diagnostics)
			}
			at := slices.IndexFunc(record.Closed, func(g *bracket.Group) bool { return g.ID == before.ID })
			switch {
			case collects:
				seen["it waits"]++
			case at < 0:
				seen["replaced"]++
			case record.Closed[at].ClosedBy == nil || !record.Closed[at].ReadyAt.Equal(w.now):
				t.Fatalf("closed at %v by %v", record.Closed[at].ReadyAt, record.Closed[at].ClosedBy)
			default:
				seen["closed"]++
			}
		}
		w.s.State = plan.State
		again, err := w.set.Plan(w.s, w.now)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(text(t, plan.State), text(t, again.State)); diff != "" {
			t.Fatalf("another plan changes more:\n%s", diff)
		}
		again.Events, plan.Events = nil, nil
		if diff := cmp.Diff(text(t, plan), text(t, again)); diff != "" {
			t.Fatalf("another plan says something else:\n%s", diff)
		}
		w.plan, again.Now = again, time.Time{}
		for _, at := range []time.Time{w.now.Add(1), again.Next.Add(-1)} {
			if !at.After(w.now) || !again.Next.IsZero() && !at.Before(again.Next) {
				continue
			}
			later, err := w.set.Plan(w.s, at)
			if err != nil {
				t.Fatal(err)
			}
			later.Now = time.Time{}
			if diff := cmp.Diff(text(t, again), text(t, later)); diff != "" {
				t.Fatalf("at %v, next is %v:\n%s", at, again.Next, diff)
			}
		}
	}, "closed", "it waits")
}
