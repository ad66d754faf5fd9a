package rollout_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/rollout"
)

// TestSnapshotFaults: every contradiction of a snapshot is reported, up to as many as a person can
// read; the rest is counted.
func TestSnapshotFaults(t *testing.T) {
	ghosts := func(n int) func(*rollout.Snapshot) {
		return func(s *rollout.Snapshot) {
			for i := range n {
				s.Targets = append(s.Targets, rollout.Target{TargetID: rollout.TargetID{Resource: fmt.Sprintf("x%03d", i), Environment: "prod", Deployment: "api"}})
			}
		}
	}
	for _, row := range []struct {
		why   string
		spoil func(*rollout.Snapshot)
		lines int
		last  string
	}{
		{"neighbours on a resource that there is not are reported each", func(s *rollout.Snapshot) {
			s.Targets = append(s.Targets, rollout.Target{TargetID: rollout.TargetID{Resource: "x", Environment: "prod", Deployment: "api"}},
				rollout.Target{TargetID: rollout.TargetID{Resource: "x", Environment: "prod", Deployment: "web"}})
		}, 2, `unknown_value targets[3].resource: "x": is not the id of a listed resource (x / prod / web)`},
		{"so are those in an environment that there is not", func(s *rollout.Snapshot) {
			for k := range s.Targets {
				s.Targets[k].Environment = "qa"
			}
		}, 2, `unknown_value targets[1].environment: "qa": is not the id of a listed environment (r1 / qa / web)`},
		{"a target of a deployment where there is none", func(s *rollout.Snapshot) { s.Deployments, s.Versions = nil, nil }, 2, `unknown_value targets[1].deployment: "web": is not the id of a listed deployment (r1 / prod / web)`},
		{"twenty are listed", ghosts(20), 20, `unknown_value targets[21].resource: "x019": is not the id of a listed resource (x019 / prod / api)`},
		{"of more than twenty the rest is counted", ghosts(23), 21, "and 3 more faults"},
		{"as soon as there is one", ghosts(21), 21, "and one more fault"},
		{"a target occurs twice", func(s *rollout.Snapshot) { s.Targets = append(s.Targets, s.Targets[0]) }, 1, "duplicate targets[2]: r1 / prod / api occurs twice: one entry per release target"},
		{"a resource has no id", func(s *rollout.Snapshot) { s.Resources = append(s.Resources, rollout.Resource{}) }, 1, "required resources[1].id: is required: every entry needs its own"},
		{"an id is not UTF-8: its rollout would begin anew with every record that is read, or be that of another", func(s *rollout.Snapshot) {
			s.Environments = append(s.Environments, rollout.Environment{ID: "prod\xff"})
		}, 1, `type environments[1].id: "prod\xff": must be UTF-8: JSON would store another text`},
		{"nor is one of a list in no order", func(s *rollout.Snapshot) {
			s.Resources = []rollout.Resource{{ID: "x\xfe"}, s.Resources[0]}
		}, 1, `type resources[0].id: "x\xfe": must be UTF-8: JSON would store another text`},
		{"nor is that of a version", func(s *rollout.Snapshot) {
			s.Versions = append(s.Versions, rollout.Version{ID: "v\xff", Deployment: "api", CreatedAt: t0})
		}, 1, `type versions[2].id: "v\xff": must be UTF-8: JSON would store another text`},
		{"nor is that of a version that is not listed, which a target runs: a bracket would store it", func(s *rollout.Snapshot) {
			s.Targets[0].Current = "v\xff"
		}, 1, `type targets[0].current: "v\xff": must be UTF-8: JSON would store another text (r1 / prod / api)`},
		{"or ran", func(s *rollout.Snapshot) {
			s.Targets[0].Jobs = []rollout.Job{{Run: "1", Version: "v\xff", Status: rollout.JobSuccessful, CreatedAt: t0}}
		}, 1, `type targets[0].jobs[0].version: "v\xff": must be UTF-8: JSON would store another text (r1 / prod / api, run 1)`},
		{"the last of several resources does, in no order", func(s *rollout.Snapshot) {
			s.Resources = []rollout.Resource{{ID: "r9"}, s.Resources[0], {ID: "r9"}}
		}, 1, `duplicate resources[2].id: "r9": is the id of resources[0] too: ids are unique`},
		{"a resource occurs twice", func(s *rollout.Snapshot) { s.Resources = append(s.Resources, s.Resources[0]) }, 1, `duplicate resources[1].id: "r1": is the id of resources[0] too: ids are unique`},
		{"it occurs three times, behind one that is gone", func(s *rollout.Snapshot) {
			s.DeletedResources = []string{"x"}
			s.Resources = append([]rollout.Resource{{ID: "x"}}, s.Resources[0], s.Resources[0], s.Resources[0])
		}, 2, `duplicate resources[3].id: "r1": is the id of resources[1] too: ids are unique`},
		{"a version has no id", func(s *rollout.Snapshot) {
			s.Versions = append(s.Versions, rollout.Version{Deployment: "api", CreatedAt: t0})
		}, 1, "required versions[2].id: is required"},
		{"a version of a deployment that there is not", func(s *rollout.Snapshot) { s.Versions[1].Deployment = "db" }, 1, `unknown_value versions[1].deployment: "db": is not the id of a deployment (db@v1)`},
		{"a deployment has two versions of one id", func(s *rollout.Snapshot) {
			s.Versions = append(s.Versions, s.Versions[0])
		}, 1, `duplicate versions[2].id: "v1": is the id of versions[0] too: ids are unique within a deployment (api@v1)`},
		{"one version has every fault, and each is told", func(s *rollout.Snapshot) { s.Versions = append(s.Versions, rollout.Version{}) }, 3, `unknown_value versions[2].deployment: "": is not the id of a deployment`},
		{"one fault hides no other, wherever it is", func(s *rollout.Snapshot) {
			s.Resources = append(s.Resources, s.Resources[0])
			s.Targets[1].Deployment = "db"
			s.Targets[0].Jobs = []rollout.Job{{Version: "v1", Status: rollout.JobSuccessful}}
			s.Approvals = []rollout.Approval{{Version: "v1", Environment: "prod", By: "ann", Status: rollout.Approved, At: t0}}
			s.Commands = []bracket.Command{{ID: "c"}, {ID: "c"}}
			s.Overrides = []rollout.Override{{ID: "o", Rule: "r", Version: "v1", CreatedAt: t0, CreatedBy: "ann"}}
		}, 12, "required overrides[0].reason: is required: why the rule does not count this time"},
		{"a success of no version would hide what the target runs, and windows would let it through as one that runs nothing", func(s *rollout.Snapshot) {
			s.Targets[1].Jobs = []rollout.Job{{Version: "v1", Status: rollout.JobSuccessful, CreatedAt: t0}, {Status: rollout.JobSuccessful, CreatedAt: t0}}
		}, 1, "required targets[1].jobs[1].version: is required: the version that the job deploys (r1 / prod / web)"},
		{"also where sound jobs follow it", func(s *rollout.Snapshot) {
			s.Targets[0].Jobs = []rollout.Job{{Status: rollout.JobSuccessful, CreatedAt: t0}}
			s.Targets[1].Jobs = []rollout.Job{{Version: "v1", Status: rollout.JobSuccessful, CreatedAt: t0}}
		}, 1, "required targets[0].jobs[0].version: is required: the version that the job deploys (r1 / prod / api)"},
		{"jobs without an instant have no order, and a progression would wait for their success for ever", func(s *rollout.Snapshot) {
			s.Targets[1].Jobs = []rollout.Job{{Version: "v1", Status: rollout.JobSuccessful}}
		}, 1, "required targets[1].jobs[0].createdAt: is required: jobs are ordered by it, and attempts and successes count from it (r1 / prod / web)"},
		{"a missing date, as some databases write it, is no instant either", func(s *rollout.Snapshot) {
			s.Targets[1].Jobs = []rollout.Job{{Version: "v1", Status: rollout.JobSuccessful, CreatedAt: time.Date(0, 6, 1, 0, 0, 0, 0, time.UTC)}}
		}, 1, "out_of_range targets[1].jobs[0].createdAt: \"0000-06-01T00:00:00Z\": must be in the year 1 or later: jobs are ordered by it, and attempts and successes count from it; some databases write the year 0 for none (r1 / prod / web)"},
		{"nor is it one for a version: rollouts would start from it", func(s *rollout.Snapshot) {
			s.Versions[1].CreatedAt = time.Time{}.Add(-1)
		}, 1, "out_of_range versions[1].createdAt: \"0000-12-31T23:59:59Z\": must be in the year 1 or later: versions are ordered by it, and rollouts start from it; some databases write the year 0 for none (web@v1)"},
		{"of a job with a run the run is told too", func(s *rollout.Snapshot) {
			s.Targets[1].Jobs = []rollout.Job{{Run: "r1/prod/web/v1/1", Version: "v1", Status: rollout.JobSuccessful}}
		}, 1, "required targets[1].jobs[0].createdAt: is required: jobs are ordered by it, and attempts and successes count from it (r1 / prod / web, run r1/prod/web/v1/1)"},
		{"nor for an override", func(s *rollout.Snapshot) {
			s.Overrides = []rollout.Override{{ID: "o", Rule: "r", Version: "v1", CreatedBy: "ann", Reason: "x", CreatedAt: time.Time{}.Add(-1)}}
		}, 1, "out_of_range overrides[0].createdAt: \"0000-12-31T23:59:59Z\": must be in the year 1 or later: the override begins then; some databases write the year 0 for none"},
		{"a freeze has every fault, and each is told", func(s *rollout.Snapshot) { s.Freezes = []rollout.Freeze{{}} }, 4, "required freezes[0].createdAt: is required: the freeze begins then"},
		{"of one that says who, but not why, whoever waits could not tell", func(s *rollout.Snapshot) {
			s.Freezes = []rollout.Freeze{{ID: "z", CreatedBy: "ann", CreatedAt: t0}}
		}, 1, "required freezes[0].reason: is required: why nothing may start"},
		{"nor of one that says why, but not who, whom to ask", func(s *rollout.Snapshot) {
			s.Freezes = []rollout.Freeze{{ID: "z", Reason: "x", CreatedAt: t0}}
		}, 1, "required freezes[0].createdBy: is required: whom to ask"},
		{"one that ends when it begins", func(s *rollout.Snapshot) {
			s.Freezes = []rollout.Freeze{{ID: "z", CreatedBy: "ann", Reason: "x", CreatedAt: t0, ExpiresAt: t0}}
		}, 1, "conflict freezes[0].expiresAt: must be after createdAt, or the freeze would never be active"},
		{"a curve is not that of one resource", func(s *rollout.Snapshot) {
			s.Freezes = []rollout.Freeze{{ID: "z", CreatedBy: "ann", Reason: "x", CreatedAt: t0, Resource: "r1", PauseCurves: true}}
		}, 1, "conflict freezes[0].pauseCurves: must be left out with resourceId: a curve is that of all resources of a deployment in an environment"},
		{"whoever waits for one of two of one id cannot tell which", func(s *rollout.Snapshot) {
			own := rollout.Freeze{ID: "z", CreatedBy: "ann", Reason: "x", CreatedAt: t0}
			s.Freezes = []rollout.Freeze{own, own, own}
		}, 2, `duplicate freezes[2].id: "z": is the id of two freezes: ids are unique`},
		{"a command may be heard or not, and two of one id both at once", func(s *rollout.Snapshot) {
			own := bracket.Command{ID: "c", Kind: bracket.Resolve, Group: "b/prod/1", Resource: "r1", At: t0}
			s.Commands = []bracket.Command{own, own}
		}, 1, `duplicate commands[1].id: "c": is the id of two commands: ids are unique`},
		{"or for the start of a rollout", func(s *rollout.Snapshot) {
			s.State.Rollouts = []rollout.RolloutRecord{{Schema: 1, Rule: "g", Environment: "prod", StartAt: time.Time{}.Add(-1), Founders: 1}}
		}, 1, "out_of_range state.rollouts[0].startAt: \"0000-12-31T23:59:59Z\": must be in the year 1 or later: positions are counted from it; some databases write the year 0 for none"},
		{"an approval of no deployment would approve nothing, and nobody would know why", func(s *rollout.Snapshot) {
			s.Approvals = []rollout.Approval{{Version: "v1", Environment: "prod", By: "ann", Status: rollout.Approved, At: t0}}
		}, 1, "required approvals[0].deployment: is required: the deployment that the version belongs to"},
		{"nor does one that says nothing", func(s *rollout.Snapshot) { s.Approvals = []rollout.Approval{{}} }, 4, "required approvals[0].by: is required: who says so, since minApprovals counts persons"},
		{"two persons would be one in a recording, which then says something else", func(s *rollout.Snapshot) {
			s.Approvals = []rollout.Approval{{Version: "v1", Deployment: "api", Environment: "prod", By: "ann\xff", Status: rollout.Approved, At: t0}}
		}, 1, `type approvals[0].by: "ann\xff": must be UTF-8: JSON would store another text`},
		{"the state has two records of a pool, and one would hide the leases of the other", func(s *rollout.Snapshot) {
			s.State.Pools = []concurrency.Record{concurrency.NewRecord("a"), concurrency.NewRecord("b"), concurrency.NewRecord("a")}
		}, 1, `duplicate state.pools: two records of pool "a": keep the one that was saved last`},
		{"the record of a pool that no rule has any more is of another release", func(s *rollout.Snapshot) {
			s.State.Pools = []concurrency.Record{{Schema: 2, Key: "a", NextToken: 1}}
		}, 1, `unknown_value state.pools["a"].schema: 2: must be 1: written by another release of the library`},
		{"the state has two records of a bracket", func(s *rollout.Snapshot) {
			s.State.Brackets = []*bracket.GroupRecord{bracket.NewState("b", "prod").Group, bracket.NewState("b", "prod").Group}
		}, 1, `duplicate state.brackets: two records of rule "b" in "prod": keep the one that was saved last`},
		{"a list of a decoded state holds a null", func(s *rollout.Snapshot) {
			if err := json.Unmarshal([]byte(`{"brackets":[null,null],"rollouts":[]}`), &s.State); err != nil {
				t.Fatal(err)
			}
		}, 1, "required state.brackets[0]: must not be null"},
		{"so does the list of executions", func(s *rollout.Snapshot) { s.State.Executions = make([]*bracket.ExecutionRecord, 2) }, 1, "required state.executions[0]: must not be null"},
		{"the state has two records of the executions of one resource, also if no rule knows them", func(s *rollout.Snapshot) {
			s.State.Executions = []*bracket.ExecutionRecord{{Schema: 1, Rule: "gone", Resource: "r1"}, {Schema: 1, Rule: "gone", Resource: "r2"}, {Schema: 1, Rule: "gone", Resource: "r1"}}
		}, 1, `duplicate state.executions: two records of rule "gone" on "r1": keep the one that was saved last`},
		{"the record of a rollout is of another release of the library", func(s *rollout.Snapshot) {
			s.State.Rollouts = []rollout.RolloutRecord{{Schema: 2, Rule: "g", StartAt: t0, Founders: 1}}
		}, 1, "unknown_value state.rollouts[0].schema: 2: must be 1: written by another release of the library"},
		{"a rollout of nobody would make everybody due at once", func(s *rollout.Snapshot) {
			s.State.Rollouts = []rollout.RolloutRecord{{Schema: 1, Rule: "g", StartAt: t0}, {Schema: 1, Rule: "g", Founders: 1}, {Schema: 1, Rule: "h", StartAt: t0, Founders: -1}}
		}, 4, "out_of_range state.rollouts[2].n0: -1: must be at least 1"},
	} {
		s := fleet(1, "v1", map[string][]string{"api": {"v1"}, "web": {"v1"}})
		row.spoil(&s)
		set := compile(t, policy(`{"retry":{"maxRetries":1}}`))
		_, err := set.Plan(s, t0)
		if err == nil {
			t.Errorf("%s: no error", row.why)
			continue
		}
		if checked := set.Check(s); strings.Contains(row.last, "state.pools[") {
			if checked != nil { // a record of package concurrency, as Check says
				t.Errorf("%s: Check says %v", row.why, checked)
			}
		} else if checked == nil || checked.Error() != err.Error() {
			t.Errorf("%s: a plan says %v, Check %v", row.why, err, checked)
		}
		lines := coded(err)
		if len(lines) != row.lines || lines[len(lines)-1] != row.last {
			t.Errorf("%s: %d lines, the last one %q; want %d and %q", row.why, len(lines), lines[len(lines)-1], row.lines, row.last)
		}
	}
}

// TestTargetKey: the key tells targets apart whose texts for people are the same.
func TestTargetKey(t *testing.T) {
	for _, row := range []struct {
		why  string
		id   rollout.TargetID
		want string
	}{
		{"plain names", rollout.TargetID{Resource: "node-3", Environment: "prod", Deployment: "kubelet"}, "node-3/prod/kubelet"},
		{"a part may hold what joins them", rollout.TargetID{Resource: "a/b", Environment: "c", Deployment: "50%"}, "a%2Fb/c/50%25"},
		{"that is another target", rollout.TargetID{Resource: "a", Environment: "b/c", Deployment: "50%"}, "a/b%2Fc/50%25"},
		{"an empty part keeps its place", rollout.TargetID{Resource: "a", Deployment: "b"}, "a//b"},
		{"or its other place", rollout.TargetID{Resource: "a", Environment: "b"}, "a/b/"},
	} {
		if got := row.id.Key(); got != row.want {
			t.Errorf("%s: %+v: %q, want %q", row.why, row.id, got, row.want)
		}
	}
}
