package surge_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/internal/strictjson"
	"github.com/tranche-dev/tranche/surge"
)

func sprint(v any) string { return fmt.Sprint(v) }

// lines lists the faults of an error, each after its code, and fails if one is no *FieldError with
// a code and a hint.
func lines(t *testing.T, err error) []string {
	t.Helper()
	if err == nil {
		return nil
	}
	list := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		list = joined.Unwrap()
	}
	var faults []string
	for _, one := range list {
		fault, ok := one.(*surge.FieldError)
		if !ok || fault.Code == "" || fault.Hint == "" {
			t.Fatalf("%v is a %T: want a *FieldError with a code and a hint", one, one)
		}
		faults = append(faults, string(fault.Code)+" "+fault.Error())
	}
	return faults
}

func TestResolve(t *testing.T) {
	for _, row := range []struct {
		why  string
		spec surge.Spec
		want surge.Resolved
	}{
		{"surge up, unavailable down", surge.Spec{Replicas: 10, MaxSurge: concurrency.Percent(25), MaxUnavailable: concurrency.Percent(25)}, surge.Resolved{Replicas: 10, Surge: 3, Unavailable: 2}},
		{"one of two surges, none may be missing", surge.Spec{Replicas: 2, MaxSurge: concurrency.Percent(1), MaxUnavailable: concurrency.Percent(25)}, surge.Resolved{Replicas: 2, Surge: 1}},
		{"fencepost", surge.Spec{Replicas: 2, MaxSurge: concurrency.Percent(0), MaxUnavailable: concurrency.Percent(1)}, surge.Resolved{Replicas: 2, Unavailable: 1}},
		{"one replica", surge.Spec{Replicas: 1, MaxSurge: concurrency.Percent(25), MaxUnavailable: concurrency.Percent(25)}, surge.Resolved{Replicas: 1, Surge: 1}},
		{"clamp", surge.Spec{Replicas: 2, MaxUnavailable: concurrency.Count(5)}, surge.Resolved{Replicas: 2, Unavailable: 2}},
		{"surge is not clamped", surge.Spec{Replicas: 3, MaxSurge: concurrency.Percent(200), MaxUnavailable: concurrency.Count(0)}, surge.Resolved{Replicas: 3, Surge: 6}},
		{"nothing", surge.Spec{MaxUnavailable: concurrency.Count(0)}, surge.Resolved{}},
		{"default of one unavailable", surge.Spec{Replicas: 3}, surge.Resolved{Replicas: 3, Unavailable: 1}},
		{"the default, too, is clamped", surge.Spec{}, surge.Resolved{}},
		{"negative counts are none", surge.Spec{Replicas: 3, Partition: -1, MinAvailable: -1}, surge.Resolved{Replicas: 3, Unavailable: 1}},
		{"partition and gang are clamped", surge.Spec{Replicas: 3, Partition: 7, MinAvailable: 8}, surge.Resolved{Replicas: 3, Unavailable: 1, Partition: 3, MinAvailable: 3}},
		{"exact without floating point", surge.Spec{Replicas: math.MaxInt / 4 * 4, MaxSurge: concurrency.Percent(25)}, surge.Resolved{Replicas: math.MaxInt / 4 * 4, Surge: math.MaxInt / 4, Unavailable: 1}},
		{"no overflow", surge.Spec{Replicas: math.MaxInt, MaxSurge: concurrency.Percent(1000), MaxUnavailable: concurrency.Percent(100)}, surge.Resolved{Replicas: math.MaxInt, Surge: math.MaxInt, Unavailable: math.MaxInt}},
	} {
		if got := row.spec.Resolve(); got != row.want {
			t.Errorf("%s: got %+v, want %+v", row.why, got, row.want)
		}
	}
	if got := (surge.Resolved{Replicas: 5, Unavailable: 2}).Floor(); got != 3 {
		t.Errorf("floor %d", got)
	}
}

// TestManyFaults: one mistake that is in each component of a set is listed a hundred times
// and then counted. All of them are joined.
func TestManyFaults(t *testing.T) {
	err := surge.SetSpec{Components: make([]surge.Component, 2000)}.Validate()
	if got := strictjson.Parts(err); len(got) != 2000 {
		t.Fatalf("%d faults are joined", len(got))
	}
	if list := strings.Split(err.Error(), "\n"); len(list) != 101 || list[100] != "and 1900 more faults" {
		t.Errorf("the text has %d lines: %s", len(list), list[len(list)-1])
	}
}

func TestValidate(t *testing.T) {
	for _, row := range []struct {
		why  string
		spec surge.Spec
		want []string
	}{
		{"the zero value", surge.Spec{}, nil},
		{"everything at its bound", surge.Spec{Replicas: 3, MaxSurge: concurrency.Percent(1000), MaxUnavailable: concurrency.Count(3), MinAvailable: 3, Partition: 9, Order: surge.Descending}, nil},
		{"a percentage at its bound", surge.Spec{Replicas: 3, MaxUnavailable: concurrency.Percent(100), Order: surge.Ascending}, nil},
		{"a count above a hundred is no percentage", surge.Spec{Replicas: 200, MaxUnavailable: concurrency.Count(150)}, nil},
		{"a percentage that rounds to nothing is not zero as written", surge.Spec{Replicas: 3, MaxUnavailable: concurrency.Percent(1)}, nil},
		{"scaled to nothing, the rest stays", surge.Spec{MaxUnavailable: concurrency.Count(5), MinAvailable: 2}, nil},
		{"the largest set", surge.Spec{Replicas: surge.MaxReplicas}, nil},
		{"every count negative", surge.Spec{Replicas: -1, Partition: -2, MinAvailable: -3}, []string{
			"out_of_range replicas: -1: must not be negative", "out_of_range partition: -2: must not be negative", "out_of_range minAvailable: -3: must not be negative"}},
		{"larger than can be planned", surge.Spec{Replicas: surge.MaxReplicas + 1}, []string{"out_of_range replicas: 16777217: must be at most 16777216"}},
		{"both zero", surge.Spec{Replicas: 3, MaxSurge: concurrency.Percent(0), MaxUnavailable: concurrency.Percent(0)}, []string{
			"conflict maxUnavailable: \"0%\": maxSurge is 0 too, so nothing could ever be updated: raise one of them"}},
		{"both zero, one by default", surge.Spec{Replicas: 3, MaxUnavailable: concurrency.Count(0)}, []string{
			"conflict maxUnavailable: 0: maxSurge is 0 too, so nothing could ever be updated: raise one of them"}},
		{"above all replicas", surge.Spec{Replicas: 3, MaxUnavailable: concurrency.Count(4), MinAvailable: 4}, []string{
			"out_of_range maxUnavailable: 4: must be at most replicas, 3", "out_of_range minAvailable: 4: must be at most replicas, 3"}},
		{"above the only one", surge.Spec{Replicas: 1, MaxUnavailable: concurrency.Count(2), MinAvailable: 2}, []string{
			"out_of_range maxUnavailable: 2: must be at most replicas, 1", "out_of_range minAvailable: 2: must be at most replicas, 1"}},
		{"above all replicas in percent", surge.Spec{Replicas: 3, MaxUnavailable: concurrency.Percent(101)}, []string{"out_of_range maxUnavailable: \"101%\": must be at most 100%"}},
		{"more than all of none, once there are some", surge.Spec{MaxUnavailable: concurrency.Percent(101)}, []string{"out_of_range maxUnavailable: \"101%\": must be at most 100%"}},
		{"unknown order", surge.Spec{Order: "Ascending"}, []string{`unknown_value order: "Ascending": must be "ascending" or "descending"`}},
	} {
		err := row.spec.Validate()
		if diff := gocmp.Diff(row.want, lines(t, err)); diff != "" {
			t.Errorf("%s: -want +got:\n%s", row.why, diff)
		}
	}
}

func TestWarnings(t *testing.T) {
	for _, row := range []struct {
		why  string
		spec surge.Spec
		want []string
	}{
		{"nothing to say", surge.Spec{Replicas: 3, MaxSurge: concurrency.Count(1), MaxUnavailable: concurrency.Count(0), MinAvailable: 3}, nil},
		{"no replicas", surge.Spec{MaxSurge: concurrency.Count(1)}, nil},
		{"Grove's default clique", surge.Spec{Replicas: 3, MinAvailable: 3}, []string{
			"minAvailable: the update itself goes down to 2 available, below 3: suspend gang termination while it runs (BelowMinAvailable)"}},
		{"at the minimum", surge.Spec{Replicas: 3, MinAvailable: 2}, nil},
		{"gated surge", surge.Spec{Replicas: 3, MaxSurge: concurrency.Count(1), MinAvailable: 3}, []string{
			"minAvailable: the update itself goes down to 2 available, below 3: suspend gang termination while it runs (BelowMinAvailable)",
			"maxSurge: surge replicas wait for a base gang of all 3 replicas, which maxUnavailable lets the update take apart (SurgeGated)"}},
		{"a surge that is not gated: the base gang is not all", surge.Spec{Replicas: 3, MaxSurge: concurrency.Count(1), MinAvailable: 2}, nil},
		{"rounds to nothing", surge.Spec{Replicas: 3, MaxSurge: concurrency.Count(1), MaxUnavailable: concurrency.Percent(33)}, []string{
			"maxUnavailable: 33% of 3 is 0 (RoundsToZero)"}},
		{"both round to nothing", surge.Spec{Replicas: 3, MaxUnavailable: concurrency.Percent(33)}, []string{
			"maxUnavailable: 33% of 3 is 0 (RoundsToZero)", "maxUnavailable: both budgets resolve to 0, so one replica may be unavailable (Fencepost)"}},
		{"not to nothing", surge.Spec{Replicas: 10, MaxSurge: concurrency.Count(1), MaxUnavailable: concurrency.Percent(30)}, nil},
		{"nothing, as written", surge.Spec{Replicas: 3, MaxSurge: concurrency.Count(1), MaxUnavailable: concurrency.Percent(0)}, nil},
		{"all at once", surge.Spec{Replicas: 2, MaxUnavailable: concurrency.Percent(100)}, []string{
			"maxUnavailable: all 2 replicas may be down at once (WholeSetDown)"}},
		{"one is all there is, and both budgets round to nothing", surge.Spec{Replicas: 1, MaxUnavailable: concurrency.Percent(1)}, []string{
			"maxUnavailable: 1% of 1 is 0 (RoundsToZero)", "maxUnavailable: the only replica may be down at once (WholeSetDown)",
			"maxUnavailable: both budgets resolve to 0, so one replica may be unavailable (Fencepost)"}},
		{"a set of one", surge.Spec{Replicas: 1}, []string{"maxUnavailable: the only replica may be down at once (WholeSetDown)"}},
	} {
		var got []string
		for _, warning := range row.spec.Warnings() {
			got = append(got, warning.String())
		}
		if diff := gocmp.Diff(row.want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", row.why, diff)
		}
	}
}

func TestSpecJSON(t *testing.T) {
	full := surge.Spec{Replicas: 4, MaxSurge: concurrency.Percent(25), MaxUnavailable: concurrency.Count(0), Partition: 1, MinAvailable: 2,
		Order: surge.Descending, Force: true, Paused: true}
	for want, spec := range map[string]surge.Spec{
		`{"replicas":0}`: {},
		`{"replicas":4,"maxSurge":"25%","maxUnavailable":0,"partition":1,"minAvailable":2,"order":"descending","force":true,"paused":true}`: full,
	} {
		data, err := json.Marshal(spec)
		if err != nil || string(data) != want {
			t.Errorf("got %s, %v, want %s", data, err, want)
		}
		back := full // of which nothing is left
		if err := json.Unmarshal(data, &back); err != nil || back != spec {
			t.Errorf("%s came back as %+v, %v", data, back, err)
		}
	}
	for _, row := range []struct{ doc, want string }{
		{`{"replicas":3,"maxSurge":-1,"maxUnavailable":"101x"}`, "type maxSurge: -1: must be a count"},
		{`{"replicas":3,"maxSurge":-1,"maxUnavailable":"101x"}`, `type maxUnavailable: "101x": must be a count`},
		{`{"replicas":3,"maxSurge":"5"}`, `type maxSurge: "5": must not be in quotes, which are for percentages: write 5`},
		{`{"replicas":3,"maxSurge":"-5%"}`, `type maxSurge: "-5%": must be a whole percentage`},
		// What is told to write instead must not be refused next: above 100% a maxUnavailable is.
		{`{"replicas":3,"maxUnavailable":"2000%","maxSurge":"2000%"}`, `type maxUnavailable: "2000%": must be a whole percentage from 0% to 100%`},
		{`{"replicas":3,"maxUnavailable":"2000%","maxSurge":"2000%"}`, `type maxSurge: "2000%": must be a whole percentage from 0% to 1000%`},
		{`{"replicas":3,"maxSurge":1.5}`, `type maxSurge: 1.5: must be a count`},
		{`{"replicas":"3"}`, "type replicas: must be a whole number"},
		{`{"replicas":3,"maxsurge":1}`, `unknown_field maxsurge: unknown field; did you mean "maxSurge"?`},
		{`{"replicas":3,"replicas":4}`, "duplicate replicas: given twice"},
		{`[]`, "type must be an object"},
		{`{"replicas":3`, "syntax line 1, column 14"},
	} {
		spec := surge.Spec{Replicas: 7}
		err := spec.UnmarshalJSON([]byte(row.doc))
		if !strings.Contains(strings.Join(lines(t, err), "\n"), row.want) {
			t.Errorf("%s: got %v, want %s", row.doc, err, row.want)
		}
		if spec.Replicas != 7 {
			t.Errorf("%s: the Spec changed", row.doc)
		}
	}
}

func TestSlots(t *testing.T) {
	all := ".tuoOnN"
	slots := parse(t, all)
	if got := surge.FormatSlots(slots); got != all {
		t.Errorf("got %s", got)
	}
	for i, want := range []struct{ live, available, old bool }{
		{}, {}, {true, false, true}, {true, false, true}, {true, true, true}, {true, false, false}, {true, true, false},
	} {
		slot := slots[i]
		if slot.Live() != want.live || slot.Available() != want.available || slot.Old() != want.old {
			t.Errorf("%s: got %v %v %v", slot, slot.Live(), slot.Available(), slot.Old())
		}
		text, err := slot.MarshalText()
		var back surge.Slot
		if err != nil || back.UnmarshalText(text) != nil || back != slot {
			t.Errorf("%s: %q, %v came back as %v", slot, text, err, back)
		}
	}
	strange := surge.Slot(7)
	if strange.String() != "?" || strange.Live() || strange.Available() || strange.Old() {
		t.Error("an unknown slot is nothing")
	}
	if _, err := strange.MarshalText(); !slices.Equal(lines(t, err), []string{"unknown_value 7: must be one of the constants, from Absent, 0, to TargetAvailable, 6"}) {
		t.Errorf("an unknown slot has no text: %v", err)
	}
	for _, text := range []string{"", "NN", "x"} {
		slot := surge.OldAvailable
		if len(lines(t, slot.UnmarshalText([]byte(text)))) != 1 || slot != surge.OldAvailable {
			t.Errorf("%q is read as %s", text, slot)
		}
	}
	_, err := surge.ParseSlots("OxéN ")
	if diff := gocmp.Diff([]string{`unknown_value slots[1]: 'x': must be one of .tuoOnN`, `unknown_value slots[2]: 'é': must be one of .tuoOnN`, `unknown_value slots[4]: ' ': must be one of .tuoOnN`}, lines(t, err)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestArrange(t *testing.T) {
	N, O := surge.TargetAvailable, surge.OldAvailable
	for _, row := range []struct {
		why      string
		replicas []surge.Replica
		want     string
		faults   []string
	}{
		{"nothing", nil, "", nil},
		{"any order", []surge.Replica{{2, N}, {0, O}}, "O.N", nil},
		{"absent ones at the end are left out", []surge.Replica{{5, surge.Absent}, {0, O}}, "O", nil},
		{"a duplicate", []surge.Replica{{2, N}, {0, O}, {2, surge.Terminating}}, "", []string{"duplicate replicas[2].index: 2: given twice, first by replicas[0]: an index has one occupant"}},
		{"three times, and one says that nothing is there", []surge.Replica{{2, N}, {2, surge.Absent}, {2, O}}, "", []string{
			"duplicate replicas[1].index: 2: given twice, first by replicas[0]: an index has one occupant", "duplicate replicas[2].index: 2: given twice, first by replicas[0]: an index has one occupant"}},
		{"a negative and a huge index", []surge.Replica{{-1, N}, {1 << 30, O}}, "", []string{
			"out_of_range replicas[0].index: -1: must be within 0 and 33554431", "out_of_range replicas[1].index: 1073741824: must be within 0 and 33554431"}},
		{"just too high", []surge.Replica{{33554432, N}}, "", []string{"out_of_range replicas[0].index: 33554432: must be within 0 and 33554431"}},
		{"no slot", []surge.Replica{{1, 9}}, "", []string{"unknown_value replicas[0].slot: 9: must be one of the constants, from Absent, 0, to TargetAvailable, 6"}},
		{"the first that is none", []surge.Replica{{1, 7}}, "", []string{"unknown_value replicas[0].slot: 7: must be one of the constants, from Absent, 0, to TargetAvailable, 6"}},
	} {
		slots, err := surge.Arrange(row.replicas)
		if got := surge.FormatSlots(slots); got != row.want {
			t.Errorf("%s: got %q", row.why, got)
		}
		if diff := gocmp.Diff(row.faults, lines(t, err)); diff != "" {
			t.Errorf("%s: -want +got:\n%s", row.why, diff)
		}
	}
	if slots, err := surge.Arrange([]surge.Replica{{33554431, N}}); err != nil || len(slots) != 33554432 {
		t.Errorf("the highest index: %d, %v", len(slots), err)
	}
}

func TestCodes(t *testing.T) {
	action := surge.Action{Index: 3, Op: surge.Create, Revision: surge.Target, Reason: surge.Surge}
	data, err := json.Marshal([]surge.Action{action, {Index: 0, Op: surge.Delete, Reason: surge.Outdated}})
	if err != nil || string(data) != `[{"index":3,"op":"create","revision":"target","reason":"Surge"},{"index":0,"op":"delete","reason":"Outdated"}]` {
		t.Errorf("got %s, %v", data, err)
	}
	var back []surge.Action
	if err := json.Unmarshal(data, &back); err != nil || back[0] != action {
		t.Errorf("came back as %v, %v", back, err)
	}
	for reason, want := range map[surge.Reason]string{
		surge.Hole: "Hole", surge.Surge: "Surge", surge.Outdated: "Outdated", surge.OutdatedUnscheduled: "OutdatedUnscheduled",
		surge.OutdatedUnavailable: "OutdatedUnavailable", surge.StaleSurge: "StaleSurge", surge.SurplusSurge: "SurplusSurge", surge.Condemned: "Condemned",
		0: "Reason(0)", 9: "Reason(9)",
	} {
		var read surge.Reason
		text, err := reason.MarshalText()
		if reason.String() != want || (len(lines(t, err)) == 0) != (reason > 0 && reason < 9) || (err == nil) != (read.UnmarshalText(text) == nil && read == reason) {
			t.Errorf("%s: %q, %v, %v", want, text, err, read)
		}
	}
	for op, want := range map[surge.Op]string{surge.Create: "create", surge.Delete: "delete", 0: "Op(0)", 3: "Op(3)"} {
		var read surge.Op
		text, err := op.MarshalText()
		if op.String() != want || (len(lines(t, err)) == 0) != (op == 1 || op == 2) || (err == nil) != (read.UnmarshalText(text) == nil && read == op) {
			t.Errorf("%s: %q, %v, %v", want, text, err, read)
		}
	}
	for revision, want := range map[surge.Revision]string{surge.NoRevision: "none", surge.Target: "target", surge.Stable: "stable", 3: "Revision(3)"} {
		var read surge.Revision
		text, err := revision.MarshalText()
		if revision.String() != want || (len(lines(t, err)) == 0) != (revision < 3) || (err == nil) != (read.UnmarshalText(text) == nil && read == revision) {
			t.Errorf("%s: %q, %v, %v", want, text, err, read)
		}
	}
	var op surge.Op
	if err := op.UnmarshalText([]byte("remove")); !slices.Equal(lines(t, err), []string{`unknown_value "remove": must be "create" or "delete"`}) {
		t.Errorf("got %v", err)
	}
	var blocked surge.Blocked
	if err := json.Unmarshal([]byte(`["Paused","Waiting"]`), &blocked); err == nil || blocked != 0 || !strings.HasSuffix(err.Error(), `"RepairWindow" or "WaitingForReplica"`) {
		t.Errorf("got %v, %v", blocked, err)
	}
	var reason surge.Reason
	if err := reason.UnmarshalText(nil); err == nil || err.Error() != `"": must be "Hole", "Surge", "Outdated", "OutdatedUnscheduled", "OutdatedUnavailable", "StaleSurge", "SurplusSurge" or "Condemned"` {
		t.Errorf("got %v", err)
	}
}

func TestBlocked(t *testing.T) {
	all := surge.Blocked(0)
	for bit, want := range []string{"Paused", "Terminating", "BudgetExhausted", "WaitingForSurge", "WaitingForBase", "ProtectedDown", "RepairWindow", "WaitingForReplica"} {
		one := surge.Blocked(1 << bit)
		all |= one
		if one.String() != want {
			t.Errorf("got %s, want %s", one, want)
		}
	}
	both := surge.BlockedTerminating | surge.BlockedProtectedDown
	if !both.Has(surge.BlockedTerminating) || both.Has(both|surge.BlockedPaused) || !both.Has(0) {
		t.Error("Has wants all of them")
	}
	for set, want := range map[surge.Blocked]string{0: "[]", both: `["Terminating","ProtectedDown"]`} {
		data, err := json.Marshal(set)
		var back surge.Blocked
		if err != nil || string(data) != want || json.Unmarshal(data, &back) != nil || back != set {
			t.Errorf("%v: got %s, %v, %v", set, data, err, back)
		}
	}
	replaced := surge.BlockedPaused
	if err := json.Unmarshal([]byte(`["Terminating"]`), &replaced); err != nil || replaced != surge.BlockedTerminating {
		t.Errorf("what was in the set before stays in it: %v, %v", replaced, err)
	}
	var fault *surge.FieldError
	if _, err := json.Marshal(all + 1); !errors.As(err, &fault) || fault.Code != surge.CodeUnknownValue || fault.Value != "Blocked(256)" {
		t.Errorf("an unknown bit has no code: %v", err)
	}
	for _, doc := range []string{`["Nothing"]`, `["Paused","Nothing"]`, `"Paused"`, `[1]`, `[""]`} {
		set := both
		if err := set.UnmarshalJSON([]byte(doc)); len(lines(t, err)) != 1 || set != both {
			t.Errorf("%s: %v, %v", doc, set, err)
		}
	}
}

func TestResultString(t *testing.T) {
	for want, result := range map[string]surge.Result{
		"nothing":                               {},
		"converged":                             {Converged: true},
		"~0 Hole\n-2 Outdated\nblocked: Paused": {Actions: []surge.Action{{0, surge.Create, surge.Stable, surge.Hole}, {2, surge.Delete, 0, surge.Outdated}}, Blocked: surge.BlockedPaused},
	} {
		if got := result.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestSetResultString: a plan for a large set is read by people, too.
func TestSetResultString(t *testing.T) {
	spec := surge.SetSpec{Components: []surge.Component{{Name: "a", Replicas: 1}, {Name: "b", Replicas: 12}}}
	for replicas, want := range map[int]string{
		1: "0/0: +0 Hole\n0/1: +0 Hole, +1 Hole, +2 Hole, +3 Hole, +4 Hole, +5 Hole, +6 Hole, +7 Hole, +8 Hole, +9 Hole, and 2 more\ncurrent: 0\nblocked: WaitingForBase",
		0: "converged",
	} {
		spec.Replicas = replicas
		plan, err := surge.PlanSet(spec, nil)
		if err != nil || plan.String() != want {
			t.Errorf("%d replicas: got %q, %v, want %q", replicas, plan, err, want)
		}
	}
	spec.Replicas = 1000
	plan, err := surge.PlanSet(spec, nil)
	if lines := strings.Split(plan.String(), "\n"); err != nil || len(lines) != 13 || lines[10] != "and 1990 more" {
		t.Errorf("got %q, %v", lines[:min(len(lines), 13)], err)
	}
}

func TestGangs(t *testing.T) {
	format := func(gangs []surge.Gang) string {
		var list []string
		for _, g := range gangs {
			list = append(list, fmt.Sprintf("%s[%d,%d)", g, g.First, g.End))
		}
		return strings.Join(list, " ")
	}
	for _, row := range []struct {
		why                    string
		replicas, minAvailable int
		state, want            string
	}{
		{"a surge has a scaled gang, although it lies above replicas", 3, 2, "NNNn", "base[0,2) scaled-0[2,3) scaled-1[3,4)"},
		{"all in the base gang but the surge", 3, 3, "NNNn", "base[0,3) scaled-0[3,4)"},
		{"holes within replicas keep their gang", 4, 1, "N.N", "base[0,1) scaled-0[1,2) scaled-1[2,3) scaled-2[3,4)"},
		{"absent indices above have none", 2, 1, "NN..n.", "base[0,1) scaled-0[1,2) scaled-3[4,5)"},
		{"a terminating surge still has one", 1, 1, "Nt", "base[0,1) scaled-0[1,2)"},
		{"no base gang", 2, 0, "", "scaled-0[0,1) scaled-1[1,2)"},
		{"nothing", 0, 2, "", ""},
		{"scaled to nothing, what is left of the base gang is still in it", 0, 2, "tNt", "base[0,2) scaled-0[2,3)"},
		{"of the base gang, nothing is left", 0, 2, "..t", "scaled-0[2,3)"},
		{"of the base gang, the first is gone", 0, 2, ".t", "base[0,2)"},
		{"scaled below the base gang by force", 1, 3, "NNtt", "base[0,3) scaled-0[3,4)"},
	} {
		spec := surge.Spec{Replicas: row.replicas, MinAvailable: row.minAvailable}
		if got := format(surge.Gangs(spec, parse(t, row.state))); got != row.want {
			t.Errorf("%s: got %s, want %s", row.why, got, row.want)
		}
	}
	for want, got := range map[string]surge.Gang{
		"scaled-0[0,1)": surge.Placement(-5, -1),
		"base[0,2)":     surge.Placement(1, 2),
		"scaled-0[2,3)": surge.Placement(2, 2),
	} {
		if format([]surge.Gang{got}) != want {
			t.Errorf("got %s, want %s", format([]surge.Gang{got}), want)
		}
	}
	if g := surge.Placement(math.MaxInt, 0); g.End != math.MaxInt {
		t.Errorf("got %+v", g)
	}
}

func TestIndices(t *testing.T) {
	if got := surge.FreeIndices([]int{3, 0, 1, 1, -7}, 2); sprint(got) != "[2 4]" {
		t.Errorf("got %v", got)
	}
	if got := surge.FreeIndices([]int{-7, 1}, 2); sprint(got) != "[0 2]" {
		t.Errorf("a negative index takes another: got %v", got)
	}
	if got := surge.FreeIndices([]int{0}, 1); sprint(got) != "[1]" {
		t.Errorf("one alone is handed out, too: got %v", got)
	}
	if surge.FreeIndices(nil, 0) != nil || surge.FreeIndices(nil, -1) != nil {
		t.Error("none are wanted")
	}
	if got := surge.FreeIndices([]int{0}, math.MaxInt); len(got) != surge.MaxReplicas || got[0] != 1 || got[len(got)-1] != surge.MaxReplicas {
		t.Errorf("got %d indices, want no more than a set can have", len(got))
	}
}
