package rollout_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tranche-dev/tranche/rollout"
)

const oneAtATime = `{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":1}}`

// TestPriority: one resource may be down at a time, for two minutes. Version v2 of deployment a comes
// to r1, r2 and r3. A minute later v2 of b is published, for r4 and r5, where c is its drain.
func TestPriority(t *testing.T) {
	t.Parallel()
	const bracket = `{"id":"B","deploymentBracket":{"deploymentSelector":"deployment.name != 'a'","readinessMode":"immediate","memberRoles":{"pre":"deployment.name == 'c'"}}}`
	for _, row := range []struct {
		why, rules string
		a, b, c    int // priorities
		want       []string
	}{
		{"without a priority the longest due goes first", oneAtATime, 0, 0, 0,
			[]string{"00:00 r1/a", "00:02 r2/a", "00:04 r3/a", "00:06 r4/b", "00:08 r5/b"}},
		{"a fix has the next slot, and those after it; what is at work keeps its own", oneAtATime, 0, 1, 0,
			[]string{"00:00 r1/a", "00:02 r4/b", "00:04 r5/b", "00:06 r2/a", "00:08 r3/a"}},
		{"below 0 is behind what has none", oneAtATime, -1, 0, 0,
			[]string{"00:00 r1/a", "00:02 r4/b", "00:04 r5/b", "00:06 r2/a", "00:08 r3/a"}},
		{"the higher of two", oneAtATime, 7, 8, 0,
			[]string{"00:00 r1/a", "00:02 r4/b", "00:04 r5/b", "00:06 r2/a", "00:08 r3/a"}},
		{"the lower one waits as if it had none", oneAtATime, 8, 7, 0,
			[]string{"00:00 r1/a", "00:02 r2/a", "00:04 r3/a", "00:06 r4/b", "00:08 r5/b"}},
		{"a rate is given in the same order", onePerTenMinutes, 0, 1, 0,
			[]string{"00:00 r1/a", "00:10 r4/b", "00:20 r5/b", "00:30 r2/a", "00:40 r3/a"}},
		{"a priority opens no turn, although the slot is free", oneAtATime + `,{"gradualRollout":{"rolloutType":"linear","timeScaleInterval":300,"orderKey":"resource"}}`, 0, 1, 0,
			[]string{"00:00 r2/a", "00:06 r5/b", "00:11 r4/b", "00:15 r3/a", "00:20 r1/a"}},
		{"an execution has the priority of what it brings", bracket + "," + oneAtATime, 0, 1, 0,
			[]string{"00:00 r1/a", "00:02 r4/c", "00:04 r4/b", "00:06 r5/c", "00:08 r5/b", "00:10 r2/a", "00:12 r3/a"}},
		{"what its hooks repeat says nothing: b comes last, although the drain has none", bracket + "," + oneAtATime, 0, -1, 0,
			[]string{"00:00 r1/a", "00:02 r2/a", "00:04 r3/a", "00:06 r4/c", "00:08 r4/b", "00:10 r5/c", "00:12 r5/b"}},
		{"nor is it made urgent by them", bracket + "," + oneAtATime, 0, 0, 9,
			[]string{"00:00 r1/a", "00:02 r2/a", "00:04 r3/a", "00:06 r4/c", "00:08 r4/b", "00:10 r5/c", "00:12 r5/b"}},
	} {
		s := fleet(5, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}, "c": {"v1"}})
		s.Targets = slices.DeleteFunc(s.Targets, func(target rollout.Target) bool { return target.Deployment == "a" == (target.Resource > "r3") })
		for k := range s.Versions {
			v := &s.Versions[k]
			switch {
			case v.Deployment == "a" && v.ID == "v2":
				v.Priority = row.a
			case v.Deployment == "b" && v.ID == "v2":
				v.Priority, v.CreatedAt = row.b, minute(1)
			case v.Deployment == "c":
				v.Priority = row.c
			default:
				v.Priority = 99 // of what runs already
			}
		}
		got := begins(t, compile(t, policy(row.rules)), s, 60)
		for k := range got {
			got[k] = got[k][:len("00:00 r1/a")]
		}
		if diff := cmp.Diff(row.want, got); diff != "" {
			t.Errorf("%s:\n%s", row.why, diff)
		}
	}
}

// TestPriorityOfSeveral: an execution that brings several versions has the highest of their
// priorities, and rollbacks come before the highest of all.
func TestPriorityOfSeveral(t *testing.T) {
	t.Parallel()
	rules := `{"id":"B","deploymentBracket":{"deploymentSelector":"deployment.name != 'a'","readinessMode":"immediate","memberRoles":{}}},` + oneAtATime + `,{"rollback":{"onJobStatuses":["failure"]}}`
	for _, row := range []struct {
		why     string
		a, b, c int
		failed  bool // a on r2
		want    string
	}{
		{"the first of the two members is the more urgent", 1, 2, 0, false, "r1/b@v2"},
		{"the second one is", 1, 0, 2, false, "r1/b@v2"},
		{"neither is", 3, 1, 2, false, "r1/a@v2"},
		{"both are less than none", 0, -2, -1, false, "r1/a@v2"},
		{"less than both is less", -3, -2, -2, false, "r1/b@v2"},
		{"a failed job is taken back before the most urgent start", 1, 2, 3, true, "r2/a@v1"},
	} {
		s := fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}, "c": {"v1", "v2"}})
		for k := range s.Versions {
			if v := &s.Versions[k]; v.ID == "v2" {
				v.Priority = map[string]int{"a": row.a, "b": row.b, "c": row.c}[v.Deployment]
			}
		}
		if row.failed {
			k := slices.IndexFunc(s.Targets, func(target rollout.Target) bool { return target.Resource == "r2" && target.Deployment == "a" })
			s.Targets[k].Jobs = []rollout.Job{{Version: "v2", Status: rollout.JobFailure, CreatedAt: t0}}
		}
		if got := started(mustPlan(t, compile(t, policy(rules)), s, t0)); len(got) == 0 || got[0] != row.want {
			t.Errorf("%s: %v start, want %s first", row.why, got, row.want)
		}
	}
}

// TestPriorityPassed: what comes before a higher priority, and what has none.
func TestPriorityPassed(t *testing.T) {
	t.Parallel()
	const bracket = `{"id":"B","deploymentBracket":{"deploymentSelector":"deployment.name == 'b'","readinessMode":"immediate","memberRoles":{}}}`
	overridden := func(s *rollout.Snapshot) {
		s.Overrides = []rollout.Override{{ID: "o", Rule: "P", Deployment: "a", Version: "v2", CreatedAt: t0, CreatedBy: "ann", Reason: "INC-7"}}
	}
	outdated := func(s *rollout.Snapshot) {
		s.Versions = slices.DeleteFunc(s.Versions, func(v rollout.Version) bool { return v.Deployment == "b" && v.ID == "v2" })
		s.Targets[1].OutdatedAt = t0
	}
	for _, row := range []struct {
		why, rules string
		a, b       int // priorities
		adapt      func(*rollout.Snapshot)
		want       string
	}{
		{"the higher priority", oneAtATime, 0, 5, func(*rollout.Snapshot) {}, "r2/b@v2"},
		{"what may start beyond the limit takes the only slot, and not a further one", oneAtATime, 0, 5, overridden, "r1/a@v2"},
		{"an outdated target runs a version again, with its priority", oneAtATime, 0, 5, outdated, "r2/b@v1"},
		{"… with a low one as well", oneAtATime, 0, -5, outdated, "r1/a@v2"},
		{"an execution that brings nothing new has none", bracket + "," + oneAtATime, 0, 5, outdated, "r1/a@v2"},
		{"… whatever it repeats", bracket + "," + oneAtATime, -1, -5, outdated, "r2/b@v1"},
	} {
		s := fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}})
		s.Targets = []rollout.Target{s.Targets[0], s.Targets[3]} // r1/a and r2/b
		for k := range s.Versions {
			s.Versions[k].Priority = map[string]int{"a": row.a, "b": row.b}[s.Versions[k].Deployment]
		}
		row.adapt(&s)
		if got := started(mustPlan(t, compile(t, policy(row.rules)), s, minute(1))); !slices.Equal(got, []string{row.want}) {
			t.Errorf("%s: %v start, want %s", row.why, got, row.want)
		}
	}
}
