package bracket

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"
)

const groupJSON = `{"schema":1,"rule":"node lifecycle","environment":"prod","number":8,"marks":{"kubelet":{"id":"v1.29.2","createdAt":"2026-03-10T09:00:00.123456789Z"}},
 "collecting":{"id":"node lifecycle/prod/8","openedAt":"2026-03-11T10:00:00Z"},
 "closed":[{"id":"node lifecycle/prod/7","openedAt":"2026-03-10T09:00:00Z","readyAt":"2026-03-11T09:00:00Z","status":"executing","timedOut":false,"strategy":"skip_unchanged",
  "closedBy":{"id":"c9","kind":"close","group":"node lifecycle/prod/7","by":"ann","at":"2026-03-11T09:00:00Z"},
  "rule":{"deploymentSelector":"true","readinessWindowSeconds":86400},
  "members":[{"deployment":"drain","role":"pre","needs":[],"locks":[]},
   {"deployment":"kubelet","role":"main","needs":["drain"],"needsIf":[{"deployment":"drain","versions":["d1"]}],"locks":[{"id":"v1.29.2","createdAt":"2026-03-10T09:00:00Z"}]}]}]}`

const executionJSON = `{"schema":1,"rule":"node lifecycle","resource":"node-3","last":{"prod":{"group":"node lifecycle/prod/6","status":"completed","merged":[],"endedAt":"2026-03-09T09:20:00Z",
  "decisions":[{"id":"c0","kind":"resolve","group":"node lifecycle/prod/6","resource":"node-3","by":"ada","at":"2026-03-09T09:20:00Z","reason":"done by hand"}]}},
 "open":{"group":"node lifecycle/prod/7","environment":"prod","status":"executing","generation":1,"merged":[],"startedAt":"2026-03-11T09:05:00Z","commands":["c1"],
  "decisions":[{"id":"c1","kind":"retry","group":"node lifecycle/prod/7","resource":"node-3","at":"2026-03-11T09:06:00Z"}],
  "members":[{"deployment":"drain","role":"pre","action":"run","version":"d1","from":"d1","status":"succeeded","attempt":1,"needs":[]},
   {"deployment":"kubelet","role":"main","action":"deploy","version":"v1.29.2","from":"v1.29.1","status":"running","attempt":1,"needs":["drain"]}]}}`

// A record that decodes encodes to one that decodes to the same.
func TestRecordsRoundTrip(t *testing.T) {
	var g, g2 GroupRecord
	var x, x2 ExecutionRecord
	for _, r := range []struct {
		text      string
		into, two any
	}{{groupJSON, &g, &g2}, {executionJSON, &x, &x2}} {
		if err := json.Unmarshal([]byte(r.text), r.into); err != nil {
			t.Fatal(err)
		}
		data, err := json.Marshal(r.into)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(data, r.two); err != nil || !reflect.DeepEqual(r.into, r.two) {
			t.Errorf("%v\n%+v\n%+v", err, r.into, r.two)
		}
	}
	if g.Marks["kubelet"].CreatedAt.Nanosecond() != 123456789 || *g.Closed[0].Rule.HooksIdempotent != true || g.Closed[0].Members[1].NeedsIf[0].Versions[0] != "d1" {
		t.Errorf("%+v", g)
	}
	if x.Open.Members[1].Version != "v1.29.2" || x.Last["prod"].Status != StatusCompleted {
		t.Errorf("%+v", x)
	}
	// a state put together from stored records plans
	s := State{Group: &g, Executions: []*ExecutionRecord{&x}}
	if _, plan, err := Step(windowRule(86400), s, Observation{}, time.Date(2026, 3, 11, 9, 6, 0, 0, time.UTC)); err != nil || len(plan.Redispatch) != 1 {
		t.Errorf("%+v, %v", plan, err)
	}
}

func TestRecordsRefuse(t *testing.T) {
	rows := []struct{ old, new, fault, why string }{
		{`"schema":1`, `"schema":2`, "schema: 2: must be 1: written by", "a newer release wrote it"},
		{`"schema":1`, `"schema":0`, "schema: 0: must be 1", "no release has written such a record, and what it lacks would be taken for empty"},
		{`"schema":1`, `"schema":1,"extra":0`, "extra", "unknown fields carry a meaning that would be lost"},
		{`"rule":"node lifecycle","e`, `"rule":"","e`, "rule", "records belong to a rule"},
		{`"rule":"node lifecycle","r`, `"rule":"","r`, "rule", "records belong to a rule"},
		{`"number":8`, `"number":-8`, "number", "groups are counted"},
		{`"number":8`, `"number":6`, "closed[0].id", "a group after the last one"},
		{`"number":8`, `"number":9`, "collecting.id", "the collecting group is the latest"},
		{`"id":"node lifecycle/prod/8"`, `"id":"node lifecycle/prod/08"`, "collecting.id", "one text per group"},
		{`"id":"node lifecycle/prod/7"`, `"id":"node lifecycle/prod/0"`, "closed[0].id", "groups are counted from one"},
		{`"id":"node lifecycle/prod/7"`, `"id":"node lifecycle/test/7"`, `closed[0].id: "node lifecycle/test/7": must be a group of rule "node lifecycle" in environment "prod" up to number 8`, "a group of another environment"},
		{`"id":"node lifecycle/prod/7"`, `"id":"node lifecycle/prod/8"`, "closed[0].id", "the collecting group would close under an id that is taken"},
		{`"id":"node lifecycle/prod/7"`, `"id":"node%20lifecycle/prod/7"`, "closed[0].id", "no escape that is ever written"},
		{`"status":"executing","timedOut"`, `"status":"done","timedOut"`, "closed[0].status", "enums fail closed"},
		{`"strategy":"skip_unchanged"`, `"strategy":"skip"`, "closed[0].strategy", "enums fail closed"},
		{`"deploymentSelector":"true"`, `"deploymentSelector":""`, "closed[0].rule", "a rule that Validate refuses"},
		{`"readyAt":"2026-03-11T09:00:00Z"`, `"readyAt":"2026-03-11T09:00:00+01:00"`, "closed[0].readyAt", "times are UTC"},
		{`"openedAt":"2026-03-10T09:00:00Z"`, `"openedAt":"2026-03-10T09:00:00+01:00"`, "closed[0].openedAt", "times are UTC"},
		{`"readyAt":"2026-03-11T09:00:00Z"`, `"readyAt":"2026-03-11T09:00:00-05:00"`, "closed[0].readyAt", "on either side of Greenwich"},
		{`"readyAt":"2026-03-11T09:00:00Z"`, `"readyAt":"0001-01-01T00:00:00Z"`, "closed[0].readyAt", "a closed group has an instant"},
		{`"openedAt":"2026-03-10T09:00:00Z"`, `"openedAt":"0001-01-01T00:00:00Z"`, "closed[0].openedAt", "and it opened before"},
		{`"deployment":"drain","role":"pre","needs":[],"locks"`, `"deployment":"z","role":"pre","needs":[],"locks"`, "closed[0].members[1].deployment", "members are searched in order"},
		{`"role":"pre","needs":[],"locks"`, `"role":"hook","needs":[],"locks"`, "closed[0].members[0].role", "enums fail closed"},
		{`"locks":[{"id":"v1.29.2"`, `"locks":[{"id":""`, "closed[0].members[1].locks[0].id", "a version has an id"},
		{`"locks":[{"id":"v1.29.2"`, `"locks":[{"id":"v1.29.1","createdAt":"2026-03-09T09:00:00Z"},{"id":"v1.29.2"`, "closed[0].members[1].locks[1]", "a resource would get the older one, and the newer one would be new once more"},
		{`"locks":[{"id":"v1.29.2"`, `"locks":[{"id":"v1.29.2","createdAt":"2026-03-10T09:00:00Z"},{"id":"v1.29.2"`, "closed[0].members[1].locks[1]", "a version is locked once"},
		{`{"kubelet":{"id":"v1.29.2"`, `{"kubelet":{"id":""`, "marks.kubelet.id", "a version has an id"},
		{`"closed":[`, `"closed":[null,`, "closed[0]", "a group is missing"},
		{`"closed":[`, `"closed":[{"id":"node lifecycle/prod/8"},`, "closed[1].id: \"node lifecycle/prod/7\": must come before group 8", "the last one is the latest"},
		{`"closed":[`, `"closed":[{"id":"node lifecycle/prod/7"},`, "closed[1].id: \"node lifecycle/prod/7\": must come before group 7", "a group closes once"},
		{`"deployment":"drain","role":"pre","needs":[],"locks"`, `"deployment":"kubelet","role":"pre","needs":[],"locks"`, "closed[0].members[1].deployment", "which of the two is meant?"},
		{`"deployment":"drain","role":"pre","needs":[],"locks"`, `"deployment":"","role":"pre","needs":[],"locks"`, "closed[0].members[0].deployment", "nothing can refer to it"},
		{`"resource":"node-3"`, `"resource":""`, "resource", "records belong to a resource"},
		{`"last":{"prod"`, `"last":{"staging":null,"prod"`, "last.staging", "an end of nothing"},
		{`"status":"completed"`, `"status":"executing"`, "last.prod.status", "what ended has ended"},
		{`"endedAt":"2026-03-09T09:20:00Z"`, `"endedAt":"0001-01-01T00:00:00Z"`, "last.prod.endedAt", "what ended has an end"},
		{`"endedAt":"2026-03-09T09:20:00Z"`, `"endedAt":"0000-12-31T00:00:00Z"`, "last.prod.endedAt", "some databases write the year 0 for none"},
		{`"group":"node lifecycle/prod/6"`, `"group":""`, "last.prod.group", "nothing would be known to have ended"},
		{`"group":"node lifecycle/prod/7"`, `"group":""`, "open.group", "runs could not be told apart"},
		{`"startedAt":"2026-03-11T09:05:00Z"`, `"startedAt":"0001-01-01T00:00:00Z"`, "open.startedAt", "what is open has begun"},
		{`"status":"executing","generation"`, `"status":"queued","generation"`, "open.status", "an open execution executes or has failed"},
		{`"generation":1,`, `"generation":0,`, "open.generation", "the first generation is 1"},
		{`"generation":1,"merged":[],`, `"generation":1,"merged":["node lifecycle/prod/8"],`, "open.generation: 1: must be at least 1 more than the 1 merges, and at most 2147483647", "every merge begins another one"},
		{`"generation":1,`, `"generation":2147483648,`, "open.generation", "none could follow"},
		{`"generation":1,`, `"generation":1,"recovery":"all",`, "open.recovery", "enums fail closed"},
		{`"generation":1,`, `"generation":1,"rule":{},`, "open.rule", "a rule that Validate refuses"},
		{`"kind":"close"`, `"kind":"shut"`, "closed[0].closedBy.kind", "enums fail closed"},
		{`"kind":"close"`, `"kind":"retry","resource":"n1"`, "closed[0].closedBy.kind", "no other command closes a group"},
		{`"by":"ann","at":"2026-03-11T09:00:00Z"`, `"by":"ann"`, "closed[0].closedBy.at", "every decision has its instant"},
		{`"kind":"retry","group":"node lifecycle/prod/7","resource":"node-3"`, `"kind":"close","group":"node lifecycle/prod/7"`, "open.decisions[0].kind", "it concerns no execution"},
		{`"kind":"resolve"`, `"kind":"solve"`, "last.prod.decisions[0].kind", "enums fail closed"},
		{`"kind":"retry"`, `"kind":"again"`, "open.decisions[0].kind", "enums fail closed"},
		{`,"at":"2026-03-11T09:06:00Z"`, ``, "open.decisions[0].at", "every decision has its instant"},
		{`"at":"2026-03-09T09:20:00Z"`, `"at":"2026-03-09T09:20:00-01:00"`, "last.prod.decisions[0].at", "times are UTC"},
		{`"action":"deploy"`, `"action":"go"`, "open.members[1].action", "enums fail closed"},
		{`"status":"running"`, `"status":"runs"`, "open.members[1].status", "enums fail closed"},
		{`"role":"main","action"`, `"role":"","action"`, "open.members[1].role", "a stored role is explicit"},
		{`"status":"running","attempt":1`, `"status":"running","attempt":-1`, "open.members[1].attempt: -1: ", "attempts are counted"},
		{`"status":"running","attempt":1`, `"status":"running","attempt":2147483648`, "open.members[1].attempt: ", "nobody has counted so far"},
		{`"status":"running","attempt":1`, `"status":"running","attempt":1,"generation":-1`, "open.members[1].generation: -1: ", "nobody ever gave a run that identity"},
		{`"status":"running","attempt":1`, `"status":"running","attempt":1,"generation":2`, "open.members[1].generation: 2: ", "a run of a generation to come"},
		{`"status":"running","attempt":1`, `"status":"running","attempt":1,"generation":1`, "open.members[1].generation: 1: ", "the present generation is written as none"},
		{`"status":"running","attempt":1`, `"status":"waiting","attempt":0`, "open.members[1].attempt: 0: must be at least 1 while the member waits", "the first run is attempt 1"},
		{`"status":"running","attempt":1`, `"status":"waiting","attempt":1,"generation":1`, "open.members[1].generation: 1: must be 0 while the member waits", "an older generation had that run"},
		{`"status":"running","attempt":1`, `"status":"waiting","attempt":1,"runVersion":"v0"`, "open.members[1].runVersion: \"v0\": must be empty", "the next run would deploy it, and not the version that is frozen"},
		{`"status":"running","attempt":1`, `"status":"running","attempt":1,"purpose":"deploy"`, "open.members[1].purpose", "only a rollback is written"},
		{`"status":"running","attempt":1`, `"status":"running","attempt":1,"startedAt":"2026-03-11T09:05:00+02:00"`, "open.members[1].startedAt", "times are UTC"},
		{`"status":"running","attempt":1`, `"status":"running","attempt":1,"endedAt":"2026-03-11T09:05:00+02:00"`, "open.members[1].endedAt", "times are UTC"},
		{`"status":"running","attempt":1`, `"status":"running","attempt":1,"retryAt":"2026-03-11T09:05:00+02:00"`, "open.members[1].retryAt", "times are UTC"},
		{`"deployment":"drain","role":"pre","action"`, `"deployment":"z","role":"pre","action"`, "open.members[1].deployment", "members are searched in order"},
		{`"deployment":"drain","role":"pre","action"`, `"deployment":"kubelet","role":"pre","action"`, `open.members[1].deployment: "kubelet": must come after "kubelet", once`, "which of the two is meant?"},
		{`"deployment":"drain","role":"pre","action"`, `"deployment":"","role":"pre","action"`, "open.members[0].deployment", "nothing can refer to it"},
	}
	for _, row := range rows {
		tried := false
		for _, text := range []string{groupJSON, executionJSON} {
			changed := strings.Replace(text, row.old, row.new, 1)
			if changed == text {
				continue
			}
			var err error
			if text == groupJSON {
				var g GroupRecord
				if err = json.Unmarshal([]byte(changed), &g); err != nil && !reflect.DeepEqual(g, GroupRecord{}) {
					t.Errorf("%s: a refused record is decoded all the same: %+v", row.new, g)
				}
			} else {
				var x ExecutionRecord
				if err = json.Unmarshal([]byte(changed), &x); err != nil && !reflect.DeepEqual(x, ExecutionRecord{}) {
					t.Errorf("%s: a refused record is decoded all the same: %+v", row.new, x)
				}
			}
			if strings.Contains(row.fault, "open.") && text == groupJSON || strings.Contains(row.fault, "closed[") && text == executionJSON {
				continue
			}
			tried = true
			faultsOf(t, err)
			if err == nil || !strings.Contains(err.Error(), row.fault) || row.why == "" {
				t.Errorf("%s: %v, want a fault of %s", row.new, err, row.fault)
			}
		}
		if !tried {
			t.Errorf("%s is in neither record", row.old)
		}
	}
}

// A number out of range is a fault of its own, also where no group could contradict it: the next
// group would have a number that cannot be read, or that is negative.
func TestNumbersOfGroups(t *testing.T) {
	for number, want := range map[int64]string{-1: "out_of_range number", 0: "", math.MaxInt32: "", math.MaxInt32 + 1: "out_of_range number"} {
		err := json.Unmarshal(fmt.Appendf(nil, `{"schema":1,"rule":"r","environment":"prod","number":%d,"marks":{},"closed":[]}`, number), new(GroupRecord))
		if got := faultsOf(t, err); got != want && strconv.IntSize > 32 {
			t.Errorf("%d: faults %q, want %q: %v", number, got, want, err)
		}
	}
	last := strings.Replace(executionJSON, `"status":"running","attempt":1`, `"status":"running","attempt":2147483647`, 1)
	if err := json.Unmarshal([]byte(last), new(ExecutionRecord)); err != nil || last == executionJSON {
		t.Errorf("the last attempt that can be counted: %v", err)
	}
}

// Faults are told in one order, whatever the order of a map.
func TestFaultsOfRecordsInOrder(t *testing.T) {
	text := strings.Replace(groupJSON, `"marks":{`, `"marks":{"a":{"id":""},"b":{"id":""},"c":{"id":""},"d":{"id":""},`, 1)
	want := json.Unmarshal([]byte(text), new(GroupRecord))
	for range 20 {
		if err := json.Unmarshal([]byte(text), new(GroupRecord)); err == nil || err.Error() != want.Error() {
			t.Fatalf("%v\nbefore: %v", err, want)
		}
	}
}

func seeds(f *testing.F, texts ...string) {
	for _, text := range texts {
		f.Add([]byte(text))
		f.Add([]byte(strings.ReplaceAll(text, "1", "-1")))
		f.Add([]byte(text[:len(text)/2]))
	}
}

func FuzzGroupRecord(f *testing.F) {
	seeds(f, groupJSON, `null`)
	f.Fuzz(func(t *testing.T, data []byte) {
		var g, back GroupRecord
		if json.Unmarshal(data, &g) != nil {
			return
		}
		text, err := json.Marshal(&g)
		if err == nil {
			err = json.Unmarshal(text, &back)
		}
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		// whatever decodes is safe to plan with
		if _, _, err := Step(windowRule(1), State{Group: &g}, Observation{}, day0); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	})
}

func FuzzExecutionRecord(f *testing.F) {
	seeds(f, executionJSON, `null`)
	f.Fuzz(func(t *testing.T, data []byte) {
		var x, back ExecutionRecord
		if json.Unmarshal(data, &x) != nil {
			return
		}
		text, err := json.Marshal(&x)
		if err == nil {
			err = json.Unmarshal(text, &back)
		}
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		environment := "prod"
		if x.Open != nil {
			environment = x.Open.Environment
		}
		o := Observation{Targets: TargetList{{Resource: x.Resource, Deployment: "kubelet", Current: "v1"}}}
		s := State{Group: NewState(x.Rule, environment).Group, Executions: []*ExecutionRecord{&x}}
		if _, _, err := Step(windowRule(1), s, o, day0); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	})
}

func FuzzRule(f *testing.F) {
	seeds(f, `{"deploymentSelector":"true","readinessMode":"wait_for_all","readinessWindowSeconds":86400,"overlapStrategy":"merge","preparedStatePersists":true,"maxMerges":2,
		"memberRoles":{"pre":"a","post":"b"},"rollbackStrategy":"all_members","hooksIdempotent":false}`, `{}`)
	f.Fuzz(func(t *testing.T, data []byte) {
		var r, back Rule
		if json.Unmarshal(data, &r) != nil || r.Validate() != nil {
			return
		}
		r = r.WithDefaults()
		text, err := json.Marshal(r)
		if err == nil {
			err = json.Unmarshal(text, &back)
		}
		if err != nil || back.Validate() != nil || !reflect.DeepEqual(r, back.WithDefaults()) {
			t.Fatalf("%s: %v, %v", text, err, back.Validate())
		}
	})
}

// TestRecordsAreReadInOneGo: a record has a rule in it, and both decode themselves. A host reads
// thousands for every plan, so that no level may take apart what the one below has looked at.
func TestRecordsAreReadInOneGo(t *testing.T) {
	f := newFleet(t, 50, 0, 10)
	data, err := json.Marshal(f.state.Executions[0])
	if err != nil {
		t.Fatal(err)
	}
	plain := testing.AllocsPerRun(20, func() {
		var any map[string]any
		if err := json.Unmarshal(data, &any); err != nil {
			t.Fatal(err)
		}
	})
	strict := testing.AllocsPerRun(20, func() {
		var record ExecutionRecord
		if err := json.Unmarshal(data, &record); err != nil || record.Open == nil || record.Open.Rule == nil {
			t.Fatalf("%+v %v", record, err)
		}
	})
	t.Logf("%.0f allocations, %.0f into a map", strict, plain)
	if strict > 5*plain {
		t.Errorf("%.0f allocations, %.0f where encoding/json reads it into a map", strict, plain)
	}
}
