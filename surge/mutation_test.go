package surge_test

import (
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var mutate = flag.Bool("surge.mutate", false, "apply every deliberate fault of TestMutations and see that its test catches it")

// mutation is a fault that somebody shipped, or would: one edit of the source, the test that must
// fail, and the rule that its output must name.
type mutation struct {
	fault    string
	file     string
	from, to string
	test     string
	rule     string
}

func mutations() []mutation {
	const plan, set = "plan.go", "setplan.go"
	const hole = "case Absent:\n\t\t\tlist = append(list, Action{Index: i, Op: Create, Revision: Target, Reason: Hole})"
	const exhaustive, sets, cases = "TestExhaustive", "TestSetExhaustive", "TestCases"
	const stuck, named = "setstuck.go", "TestEveryStallIsNamed"
	return []mutation{
		{"budget one too large", plan, "c.beyond.available() - r.Floor()", "c.beyond.available() - r.Floor() + 1", exhaustive, "I2"},
		{"an unready surge counts as available", plan, "c.surge.available() + c.beyond", "c.surge.live() + c.beyond", exhaustive, "I2"},
		{"budget not spent when a surge is retired", plan, "spend(c.surge[TargetAvailable])", "c.surge[TargetAvailable]", exhaustive, "I2"},
		{"a ready stale surge is a free delete", plan, "spend(c.surge[OldAvailable])", "c.surge[OldAvailable]", exhaustive, "I2"},
		{"leftovers deleted without budget", plan, "q.condemned = spend(c.beyond.available())", "q.condemned = c.beyond.available()", exhaustive, "I2"},
		{"create on a terminating index", plan, hole, strings.Replace(hole, "Absent", "Absent, Terminating", 1), exhaustive, "I1"},
		{"surge taken one index too high", plan, "Action{Index: i, Op: Create, Revision: Target, Reason: Surge}", "Action{Index: i + 1, Op: Create, Revision: Target, Reason: Surge}", exhaustive, "I3"},
		{"partition ignored for deletes", plan, "c := tally(r, slots)", "r.Partition = 0\n\tc := tally(r, slots)", exhaustive, "I4"},
		{"pending target base replica replaced", plan, "case OldUnavailable:\n\t\t\tif unavailable", "case OldUnavailable, TargetUnavailable:\n\t\t\tif unavailable", exhaustive, "I5"},
		{"base holes wait while a surge is pending", plan, hole, "case Absent:\n\t\t\tif c.surge[TargetUnavailable] == 0 {\n\t\t\t\tlist = append(list, Action{Index: i, Op: Create, Revision: Target, Reason: Hole})\n\t\t\t}", exhaustive, "I6"},
		{"ceiling kept as a count, so a leftover blocks a hole", plan, hole, "case Absent:\n\t\t\tif c.surge.present()+c.beyond.present() <= r.Surge {\n\t\t\t\tlist = append(list, Action{Index: i, Op: Create, Revision: Target, Reason: Hole})\n\t\t\t}", exhaustive, "I6"},
		{"repair charged to the availability budget", plan, "window = max(plus(r.Unavailable, r.Surge)-inFlight, 0)", "window = max(budget+0*inFlight, 0)", exhaustive, "I7"},
		{"repair window without the share of the surge", plan, "plus(r.Unavailable, r.Surge)-inFlight", "r.Unavailable-inFlight", exhaustive, "I7"},
		{"need counts only those that wait, not those that are broken", plan, "need = min(r.Surge, r.Floor()-stay)", "need = min(r.Surge, q.waiting+0*stay)", exhaustive, "I7"},
		{"need one short", plan, "r.Floor()-stay)", "r.Floor()-stay-1)", exhaustive, "I7"},
		{"no fencepost", "spec.go", "r.Unavailable = 1\n", "r.Unavailable = 0\n", "TestResolve", "fencepost"},
		{"stale pending surge kept", plan, "if !spec.Paused {\n\t\t\t\tremove(i, StaleSurge)", "if spec.Force {\n\t\t\t\tremove(i, StaleSurge)", exhaustive, "I[78]"},
		{"surges never retired", plan, "excess := max(live-need, 0)", "excess := 0", exhaustive, "I8"},
		{"unavailable leftovers never deleted", plan, "|| slot.Live() && !slot.Available() {", "{", exhaustive, "I[68]"},
		{"repair window ignores replacements in flight", plan, "plus(r.Unavailable, r.Surge)-inFlight", "plus(r.Unavailable, r.Surge)-0*inFlight", exhaustive, "I9"},
		{"every surge retired at once", plan, "excess := max(live-need, 0)", "excess := live", exhaustive, "I9"},
		{"a terminating surge counts as present", plan, "live := c.surge[OldAvailable] +", "live := c.surge[Terminating] + c.surge[OldAvailable] +", exhaustive, "I9"},
		{"full burst instead of need", plan, "need = min(r.Surge, r.Floor()-stay)", "need = r.Surge + 0*stay", exhaustive, "IE"},
		{"need ignores the replicas that stay", plan, "r.Floor()-stay)", "r.Floor()-0*stay)", exhaustive, "IE"},
		{"surge while nothing available is outdated", plan, "if q.waiting > 0 {", "if q.waiting+c.eligible(OldUnavailable) > 0 {", exhaustive, "IE"},
		{"protected replicas do not count as staying", plan, "stay := c.protected.available() + ", "stay := ", exhaustive, "IE"},
		{"base-gang members wait for the window", plan, "gang := i < r.MinAvailable && !spec.Paused", "gang := spec.Force && spec.Paused", exhaustive, "IG"},
		{"protected hole created at the target", plan, "Revision: Stable, Reason: Hole", "Revision: Target, Reason: Hole", exhaustive, "IR"},
		{"a hole is left above the base of a paused set", plan, "q.condemned = spend(c.beyond.available())\n\tif spec.Paused", "if spec.Paused", exhaustive, "I"},
		{"a leftover that left a surge index is counted as surge", plan, "surge:     count(slots, r.Replicas, end)", "surge:     count(slots, r.Replicas, max(end, len(slots)))", exhaustive, "I"},
		{"order ignored", plan, "last := spec.Order == Descending", "last := false", cases, "prio-05"},
		{"unhealthy before unscheduled", plan, "q.unscheduled = min(c.eligible(OldUnscheduled), window)\n\t\tq.unavailable = min(c.eligible(OldUnavailable), window-q.unscheduled)",
			"q.unavailable = min(c.eligible(OldUnavailable), window)\n\t\tq.unscheduled = min(c.eligible(OldUnscheduled), window-q.unavailable)", cases, "prio-01"},
		{"lowest leftover first", plan, "pick(q.condemned, c.beyond.available(), true)", "pick(q.condemned, c.beyond.available(), false)", cases, "explain-16"},
		{"current surge retired before a stale one", plan, "q.surplusOld = spend(c.surge[OldAvailable])\n\tq.surplusTarget = spend(c.surge[TargetAvailable])",
			"q.surplusTarget = spend(c.surge[TargetAvailable])\n\tq.surplusOld = spend(c.surge[OldAvailable])", cases, "reclaim-09"},
		{"a paused update surges", plan, "if spec.Paused {\n\t\treturn q\n\t}", "", exhaustive, "paused|I9"},

		{"set: a replica without live units is not started", set, "case f.old() == 0:\n\t\treturn 1", "case f.all.live() == 0:\n\t\treturn 7\n\tcase f.old() == 0:\n\t\treturn 1", sets, "H5"},
		{"set: a leftover elsewhere goes before a mixed replica", set, "case f.mixed:\n\t\treturn 0", "case f.mixed || f.surged:\n\t\treturn 0", sets, "H1"},
		{"set: a leftover elsewhere goes before a replica in the middle", set, "return 0\n\tcase f.old() == 0:", "return 0\n\tcase f.surged:\n\t\treturn 1\n\tcase f.old() == 0:", sets, "H5"},
		{"set: the lowest index is current, whatever was started", set, "f.rank() < p.facts[result.Current].rank()", "false", sets, "H1"},
		{"set: two replicas are current", set, "case i == result.Current:", "case i == result.Current || i == result.Current+1:", sets, "H[15]"},
		{"set: held replica repaired at the target", set, "if atTarget {", "if atTarget || true {", sets, "H"},
		{"set: old revisions are all alike", "setstate.go", "name = u.Revisions[i]", "name = \"\"", sets, "H|Apply"},
		{"set: components of a recreated replica created one by one", set, "plan := Result{Blocked: BlockedWaitingForBase}", "if c > 0 {\n\t\t\tcontinue\n\t\t}\n\t\tplan := Result{Blocked: BlockedWaitingForBase}", "ExamplePlanSet_replicaRecreate", "."},
		{"set: a kept replica gives up what it needs", set, "MaxSurge: concurrency.Count(1), MaxUnavailable: concurrency.Count(0)}", "MaxSurge: concurrency.Count(0), MaxUnavailable: concurrency.Count(1)}", sets, "H3|never ends|H6"},
		{"set: a replica that waits is taken down within its budgets", set, "held.kept(", "Plan(held, ", sets, "H7"},
		{"set: a replica at the target is taken down within its budgets", set, "p.toTarget(i, Spec.kept)", "p.toTarget(i, Plan)", sets, "H7"},
		{"set: a leftover goes beside the current replica", set, "(i != result.Current || p.survives(i))", "p != nil", "TestPlanSet", "a_leftover_stays"},
		{"stuck: held replicas are forgotten", stuck, "for i := range p.replicas {\n\t\tlist", "for i := range p.partition * 0 {\n\t\tlist", named, "places"},
		{"stuck: other replicas beside the current one", stuck, "current >= 0 {", "current >= len(p.facts) {", named, "places|named"},
		{"stuck: a pause of a set is forgotten", stuck, "if len(outdated) > 0 {", "if len(outdated) > len(p.facts) {", named, "places"},
		{"stuck: units are asked for although whole replicas do not serve", stuck, "} else if !over {", "} else if !over && p.spec.Paused {", named, "places|named"},
		{"stuck: the surges that the Spec alone has are counted on", stuck, "Diagnose(p.flat, slots, never)", "Diagnose(p.spec.Flat(), slots, never)", "TestDiagnoseSetOwnNumbers", "TargetNotReady"},
		{"stuck: a surge that has nothing to create is still to come", stuck, "slots[i] = replica.Slot\n", "slots[i] = p.facts[i].slot() + 0*replica.Slot\n", named, "places|named"},
		{"stuck: a whole replica that lacks what is terminating is called broken", stuck, "if all.available()+base[Terminating] < need {", "if all.available()+0*base[Terminating] < need {", named, "named"},
		{"stuck: what the partition protects is replaced after a new revision", stuck, "r.Partition = r.Replicas\n", "r.Partition = 0\n", named, "named|remedy"},
		{"stuck: the pause holds no new revision back", stuck, "r, p.spec.Paused, ", "r, false, ", named, "remedy"},
	}
}

// TestMutations keeps the list of deliberate faults true: every edit still applies to the source,
// and every test is there. With -surge.mutate each fault is built and its test run, which takes
// minutes.
func TestMutations(t *testing.T) {
	list := mutations()
	if len(list) < 15 {
		t.Errorf("only %d mutations", len(list))
	}
	tests, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	var named strings.Builder
	for _, file := range tests {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		named.Write(data)
	}
	faults := map[string]bool{}
	for _, m := range list {
		if faults[m.fault] {
			t.Errorf("%s is listed twice", m.fault)
		}
		faults[m.fault] = true
		source, err := os.ReadFile(m.file)
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(source), m.from); n != 1 {
			t.Errorf("%s: %d places in %s are %q", m.fault, n, m.file, m.from)
		}
		if !strings.Contains(named.String(), "func "+m.test+"(") {
			t.Errorf("%s: there is no %s", m.fault, m.test)
		}
		if *mutate {
			t.Run(m.fault, func(t *testing.T) { m.apply(t, string(source)) })
		}
	}
}

func (m mutation) apply(t *testing.T, source string) {
	directory := t.TempDir()
	original, err := filepath.Abs(m.file)
	if err != nil {
		t.Fatal(err)
	}
	mutant, overlay := filepath.Join(directory, m.file), filepath.Join(directory, "overlay.json")
	if err := os.WriteFile(mutant, []byte(strings.Replace(source, m.from, m.to, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(map[string]map[string]string{"Replace": {original: mutant}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(overlay, data, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("go", "test", "-overlay", overlay, "-count=1", "-run", "^"+m.test+"$", ".").CombinedOutput()
	if err == nil {
		t.Fatalf("%s survives:\n%s", m.test, out)
	}
	if strings.Contains(string(out), "build failed") {
		t.Fatalf("the mutant does not compile:\n%s", out)
	}
	rule := regexp.MustCompile(m.rule)
	if !rule.MatchString(string(out)) {
		t.Errorf("%s fails, but not by %s:\n%.3000s", m.test, m.rule, out)
	}
}
