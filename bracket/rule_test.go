package bracket

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

func ptr[T any](v T) *T { return &v }

func TestRuleValidate(t *testing.T) {
	ok := func() Rule { return windowRule(60) }
	rows := []struct {
		name   string
		change func(*Rule)
		faults string // code and path of each, in order
		why    string
	}{
		{"complete", func(r *Rule) {}, "", "the smallest valid rule"},
		{"blank selector", func(r *Rule) { r.DeploymentSelector = " \t\n" }, "required deploymentSelector", "it is no expression either"},
		{"zero", func(r *Rule) { *r = Rule{} }, "required deploymentSelector, required readinessWindowSeconds", "nothing is guessed"},
		{"zero window", func(r *Rule) { *r.ReadinessWindowSeconds = 0 }, "", "0 is a window that closes at once"},
		{"negative window", func(r *Rule) { *r.ReadinessWindowSeconds = -1 }, "out_of_range readinessWindowSeconds", "a window cannot end before it starts"},
		{"10 years", func(r *Rule) { *r.ReadinessWindowSeconds = maxSeconds }, "", "the bound itself is allowed"},
		{"longer", func(r *Rule) { *r.ReadinessWindowSeconds = maxSeconds + 1 }, "out_of_range readinessWindowSeconds", "such a number is mistyped, and sums would overflow one day"},
		{"immediate", func(r *Rule) { r.ReadinessMode, r.ReadinessWindowSeconds = Immediate, nil }, "", "no window needed"},
		{"immediate, window 0", func(r *Rule) { r.ReadinessMode, *r.ReadinessWindowSeconds = Immediate, 0 }, "", "0 says the same"},
		{"immediate, window", func(r *Rule) { r.ReadinessMode = Immediate }, "conflict readinessWindowSeconds", "the window would be ignored in silence"},
		{"immediate, a second", func(r *Rule) { r.ReadinessMode, *r.ReadinessWindowSeconds = Immediate, 1 }, "conflict readinessWindowSeconds", "the shortest window is one"},
		{"immediate, require_all", func(r *Rule) {
			r.ReadinessMode, r.ReadinessWindowSeconds, r.UnchangedMemberStrategy = Immediate, nil, RequireAll
		}, "conflict unchangedMemberStrategy", "nothing waits, and everything is required"},
		{"timeout", func(r *Rule) { r.UnchangedMemberStrategy, r.RequireAllTimeoutSeconds = RequireAll, 5 }, "", "what it is for"},
		{"timeout, mode written", func(r *Rule) {
			r.ReadinessMode, r.UnchangedMemberStrategy, r.RequireAllTimeoutSeconds = CollectionWindow, RequireAll, 5
		}, "", "the default mode written out"},
		{"timeout, other mode", func(r *Rule) {
			r.ReadinessMode, r.UnchangedMemberStrategy, r.RequireAllTimeoutSeconds = WaitForAll, RequireAll, 5
		}, "conflict requireAllTimeoutSeconds", "wait_for_all has its window"},
		{"timeout, other strategy", func(r *Rule) { r.RequireAllTimeoutSeconds = 5 }, "conflict requireAllTimeoutSeconds", "nothing is required"},
		{"negative timeout", func(r *Rule) { r.UnchangedMemberStrategy, r.RequireAllTimeoutSeconds = RequireAll, -5 }, "out_of_range requireAllTimeoutSeconds", "as for the window"},
		{"long timeout", func(r *Rule) { r.UnchangedMemberStrategy, r.RequireAllTimeoutSeconds = RequireAll, maxSeconds+1 }, "out_of_range requireAllTimeoutSeconds", "as for the window"},
		{"longest timeout", func(r *Rule) { r.UnchangedMemberStrategy, r.RequireAllTimeoutSeconds = RequireAll, maxSeconds }, "", "the bound itself is allowed"},
		{"merge", func(r *Rule) { r.OverlapStrategy, r.PreparedStatePersists, r.MaxMerges = Merge, true, ptr(3) }, "", "what it is for"},
		{"merge, state gone", func(r *Rule) { r.OverlapStrategy = Merge }, "conflict preparedStatePersists", "the merged group would run on a resource that nobody prepared"},
		{"no merges", func(r *Rule) { r.OverlapStrategy, r.PreparedStatePersists, r.MaxMerges = Merge, true, ptr(0) }, "out_of_range maxMerges", "that is queue"},
		{"one merge", func(r *Rule) { r.OverlapStrategy, r.PreparedStatePersists, r.MaxMerges = Merge, true, ptr(1) }, "", "the smallest number"},
		{"merges with queue", func(r *Rule) { r.MaxMerges = ptr(1) }, "conflict maxMerges", "it would be ignored in silence"},
		{"both names", func(r *Rule) { r.OnMemberFailure, r.RollbackStrategy = Hold, haltAndNotify }, "conflict rollbackStrategy", "which one counts?"},
		{"mixed post", func(r *Rule) { r.OnMemberFailure, r.AllowMixedPost = RollbackMember, true }, "", "what it is for"},
		{"mixed post, alias", func(r *Rule) { r.RollbackStrategy, r.AllowMixedPost = individual, true }, "", "the same by its other name"},
		{"mixed post, hold", func(r *Rule) { r.AllowMixedPost = true }, "conflict allowMixedPost", "no other strategy leaves a mixed set"},
		{"negative stuck", func(r *Rule) { r.StuckAfterSeconds = -1 }, "out_of_range stuckAfterSeconds", "0 is off, a negative number is a mistake"},
		{"enums", func(r *Rule) {
			r.ReadinessMode, r.UnchangedMemberStrategy, r.OverlapStrategy, r.TriggerOn, r.OnMemberFailure, r.RollbackStrategy = "a", "b", "c", "d", "e", "f"
		}, "unknown_value readinessMode, unknown_value unchangedMemberStrategy, unknown_value overlapStrategy, unknown_value triggerOn, " +
			"unknown_value onMemberFailure, unknown_value rollbackStrategy, conflict rollbackStrategy", "all faults at once"},
		{"enums, and what depends on them", func(r *Rule) {
			r.ReadinessMode, r.ReadinessWindowSeconds, r.RequireAllTimeoutSeconds = "a", nil, 5
			r.OverlapStrategy, r.MaxMerges, r.OnMemberFailure, r.AllowMixedPost = "c", ptr(1), "e", true
		}, "unknown_value readinessMode, unknown_value overlapStrategy, unknown_value onMemberFailure", "which fields belong to a value that there is not, nobody can say"},
		{"timeout, unknown strategy", func(r *Rule) { r.UnchangedMemberStrategy, r.RequireAllTimeoutSeconds = "b", 5 }, "unknown_value unchangedMemberStrategy", "require_all may be meant"},
		{"mixed post, unknown alias", func(r *Rule) { r.RollbackStrategy, r.AllowMixedPost = "f", true }, "unknown_value rollbackStrategy", "individual may be meant"},
	}
	names := make(map[string]bool)
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			if row.why == "" || names[row.name] {
				t.Fatal("a row needs a name of its own and a reason")
			}
			names[row.name] = true
			r := ok()
			row.change(&r)
			err := r.Validate()
			if got := faultsOf(t, err); got != row.faults {
				t.Errorf("faults of %q, want %q: %v", got, row.faults, err)
			}
			if err == nil {
				if err := r.WithDefaults().Validate(); err != nil {
					t.Errorf("with its defaults it is invalid: %v", err)
				}
			}
		})
	}
}

// TestNoMergesHint follows the hint of a rule that would merge nothing.
func TestNoMergesHint(t *testing.T) {
	r := windowRule(60)
	r.OverlapStrategy, r.PreparedStatePersists, r.MaxMerges = Merge, true, ptr(0)
	if err := r.Validate(); err == nil || !strings.Contains(err.Error(), "leave it out and use overlapStrategy queue") {
		t.Error(err)
	}
	if r.OverlapStrategy = Queue; r.Validate() == nil {
		t.Error("maxMerges is accepted beside queue, so the hint need not say to leave it out")
	}
	if r.MaxMerges = nil; r.Validate() != nil {
		t.Error(r.Validate())
	}
}

func TestRuleDefaults(t *testing.T) {
	r := windowRule(60)
	want := Rule{DeploymentSelector: "true", ReadinessMode: CollectionWindow, ReadinessWindowSeconds: ptr(int64(60)), UnchangedMemberStrategy: SkipUnchanged,
		OverlapStrategy: Queue, TriggerOn: Eligible, OnMemberFailure: Hold, HooksIdempotent: ptr(true)}
	if diff := gocmp.Diff(want, r.WithDefaults()); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if !reflect.DeepEqual(want.WithDefaults(), want) {
		t.Error("defaults of a rule with defaults differ")
	}
	r = Rule{DeploymentSelector: "true", ReadinessMode: Immediate, OverlapStrategy: Merge, PreparedStatePersists: true, MemberRoles: &MemberRoles{Pre: "p"}, HooksIdempotent: ptr(false)}
	d := r.WithDefaults()
	if *d.MaxMerges != 1 || *d.ReadinessWindowSeconds != 0 || *d.HooksIdempotent || d.MemberRoles == r.MemberRoles || d.MemberRoles.Pre != "p" || d.HooksIdempotent == r.HooksIdempotent {
		t.Errorf("%+v shares with the original, or has other defaults", d)
	}
	if r := (Rule{}); !r.hooksIdempotent() || r.maxMerges() != 1 {
		t.Error("a rule without its defaults, as in a record that was put together by hand, has others than those that are written out")
	}
	for alias, want := range map[string]OnMemberFailure{haltAndNotify: Hold, individual: RollbackMember, allMembers: RollbackAll} {
		r := windowRule(1)
		r.RollbackStrategy = alias
		if got := r.WithDefaults(); got.OnMemberFailure != want || got.RollbackStrategy != "" {
			t.Errorf("%s becomes %s %s, want %s", alias, got.OnMemberFailure, got.RollbackStrategy, want)
		}
	}
}

func TestRuleJSON(t *testing.T) {
	// the rule of the RFC's node policy, as printed there
	const text = `{"deploymentSelector":"deployment.metadata['layer'] == 'node'","readinessMode":"collection_window","readinessWindowSeconds":86400,
		"unchangedMemberStrategy":"skip_unchanged","overlapStrategy":"queue"}`
	var r Rule
	if err := json.Unmarshal([]byte(text), &r); err != nil || r.Validate() != nil || *r.ReadinessWindowSeconds != 86400 {
		t.Fatalf("%+v, %v", r, err)
	}
	again := Rule{AllowMixedPost: true, StuckAfterSeconds: 1}
	if err := json.Unmarshal([]byte(text), &again); err != nil || !reflect.DeepEqual(again, r) {
		t.Errorf("what is left out of the text keeps what it was before: %+v, %v", again, err)
	}
	full := r.WithDefaults()
	full.MemberRoles = &MemberRoles{}
	full.OverlapStrategy, full.PreparedStatePersists, full.MaxMerges = Merge, true, ptr(2)
	data, err := json.Marshal(full)
	var back Rule
	if err == nil {
		err = json.Unmarshal(data, &back)
	}
	if diff := gocmp.Diff(full, back); err != nil || diff != "" {
		t.Errorf("%v -want +got\n%s", err, diff)
	}
	for _, row := range []struct{ text, faults, why string }{
		{`{"deploymentSelector":"true","readinesMode":"immediate"}`, "unknown_field readinesMode", "a typo must not fall back to a default"},
		{`{"deploymentSelector":"true","deploymentSelector":"false"}`, "duplicate deploymentSelector", "which one counts?"},
		{`{"readinessWindowSeconds":"86400"}`, "type readinessWindowSeconds", "a text is no number"},
		{`{"readinessWindowSeconds":1.5}`, "type readinessWindowSeconds", "whole seconds"},
		{`{"readinessWindowSeconds":99999999999999999999}`, "type readinessWindowSeconds", "overflow is an error, never a wrap"},
		{`{"memberRoles":{"pre":"true","main":"true"}}`, "unknown_field memberRoles.main", "unknown fields below as well"},
		{`[]`, "type ", "not an object"},
		{`{"DeploymentSelector":"true"}`, "unknown_field DeploymentSelector", "names match exactly"},
	} {
		var r Rule
		err := json.Unmarshal([]byte(row.text), &r)
		if got := faultsOf(t, err); got != row.faults || row.why == "" {
			t.Errorf("%s: faults %q, want %q: %v", row.text, got, row.faults, err)
		}
	}
}

func TestCommandJSON(t *testing.T) {
	want := Command{ID: "c1", Kind: Skip, Group: "r/prod/1", Resource: "n1", Deployment: "kubelet", By: "ann", At: at(5), Reason: "tested"}
	data, err := json.Marshal(want)
	got := Command{By: "bob"}
	if err == nil {
		err = json.Unmarshal(data, &got)
	}
	if err != nil || got != want {
		t.Errorf("%s is read as %+v: %v", data, got, err)
	}
	for _, row := range []struct {
		c      Command
		faults string
	}{
		{Command{ID: "c", Kind: Close, Group: "r/prod/1"}, ""},
		{Command{ID: "c", Kind: Close}, "required group"},
		{Command{ID: "c", Kind: Close, Resource: "n1", Deployment: "a"}, "required group, conflict resource, conflict deployment"},
		{Command{ID: "c", Kind: Close, Group: "r/prod/1", Resource: "n1"}, "conflict resource"},
		{Command{ID: "c", Kind: Close, Group: "r/prod/1", Deployment: "a"}, "conflict deployment"},
		{Command{ID: "c", Kind: Retry, Group: "r/prod/1"}, "required resource"},
		{Command{ID: "c", Kind: Retry}, "required group, required resource"},
	} {
		var faults string
		if err := row.c.Validate(); err != nil {
			faults = faultsOf(t, err)
			if text := err.Error(); strings.Count(text, `command "c"`) != strings.Count(text, "is required") {
				t.Errorf("%v: it is not said of which command that is required: %v", row.c, err)
			}
		}
		if faults != row.faults {
			t.Errorf("%v: faults %q, want %q", row.c, faults, row.faults)
		}
	}
	for _, row := range []struct{ text, faults, why string }{
		{`{"id":"c2","kind":"skip","deploymnet":"kubelet"}`, "unknown_field deploymnet", "it would skip every failed member"},
		{`{"id":"c2","Kind":"skip"}`, "unknown_field Kind", "names match exactly"},
		{`{"id":"c2","kind":"retry","kind":"skip"}`, "duplicate kind", "which one counts?"},
		{`{"id":2,"at":"soon"}`, "type id, type at", "all faults at once"},
		{`null`, "type ", "a command that is not there is none"},
	} {
		got := want
		err := json.Unmarshal([]byte(row.text), &got)
		if faults := faultsOf(t, err); faults != row.faults || row.why == "" || got != want {
			t.Errorf("%s: faults %q, want %q: %v; the command is %+v", row.text, faults, row.faults, err, got)
		}
	}
}
