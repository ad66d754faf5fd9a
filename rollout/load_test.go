package rollout_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/rollout"
)

// TestLoad: the faults of reading and those of compiling come at once, and none that only follows
// from another one.
func TestLoad(t *testing.T) {
	head := `{"name":"p","selector":"true","rules":[`
	for _, row := range []struct {
		why, in string
		want    []string // code, path and the beginning of the text, in order
	}{
		{"what is read and what is compiled, in one list of two policies", `[{"name":"p","selector":"resource.knd == 'x'","rules":[{"retry":{"maxRetries":1,"backoffs":5}}]},
			{"id":"p","name":"q","selector":"true","enabeld":true,"rules":[{"gradualRollout":{"rolloutType":"linear","timeScaleInterval":"x"}},{"anyApproval":{"minApprovals":-1}},
			{"deploymentWindow":{"weekly":{"days":["mon"],"start":"09:00","end":"10:00"},"timezone":"Mars/Olympus"}}]}]`,
			[]string{"unknown_field [0].rules[0].retry.backoffs: ", "unknown_field [1].enabeld: ", "type [1].rules[0].gradualRollout.timeScaleInterval: ",
				"expression [0].selector: ", "out_of_range [1].rules[1].anyApproval.minApprovals: ", `duplicate [1].id: "p"`, "timezone_unknown [1].rules[2].deploymentWindow.timezone: "}},
		{"a list of one is a list", `[` + policy(`{"retry":{"maxRetries":-1,"x":1}}`) + `]`, []string{"unknown_field [0].rules[0].retry.x: ", "out_of_range [0].rules[0].retry.maxRetries: "}},
		{"of a broken text nothing can be said", head + `{"retry":{}}`, []string{"syntax line 1"}},
		{"nor of what is no policy", `5`, []string{"type must be an object"}},
		{"an entry that is no policy, beside one that has a fault", `[5,` + policy(`{"retry":{}}`) + `]`, []string{"type [0]: must be an object", "required [1].rules[0].retry.maxRetries: "}},
		{"a refused value is not missing", policy(`{"retry":{"maxRetries":"one","backoffSeconds":-1}}`), []string{"type rules[0].retry.maxRetries: ", "out_of_range rules[0].retry.backoffSeconds: "}},
		{"a refused rule is one, whatever it says", policy(`{"retry":5},null,{"deploymentBracket":"node"},{"gradualRollout":{"rolloutType":"linear","timeScaleInterval":1,"orderKey":"resource_bracket"}}`),
			[]string{"type rules[0].retry: ", "type rules[1]: ", "type rules[2].deploymentBracket: "}},
		{"a kind that there is not is missed by nobody", policy(`{"deploymentFreeze":{}},{"id":"x"}`), []string{"unknown_field rules[0].deploymentFreeze: ", "required rules[1]: "}},
		{"whether it is required depends on a refused field", policy(`{"deploymentBracket":{"deploymentSelector":"tru","readinessMode":1}}`),
			[]string{"type rules[0].deploymentBracket.readinessMode: ", "expression rules[0].deploymentBracket.deploymentSelector: "}},
		{"as does whether it may be there", policy(`{"gradualRollout":{"rolloutType":5,"timeScaleInterval":1,"waves":[0]}}`),
			[]string{"type rules[0].gradualRollout.rolloutType: ", "out_of_range rules[0].gradualRollout.waves[0]: "}},
		{"a limit that was refused is a limit", policy(`{"resourceConcurrency":{"groupSelector":"1","limitValue":"x"}},{"resourceConcurrency":{"groupSelector":"true","limit":"x"}}`),
			[]string{"type rules[0].resourceConcurrency.limitValue: ", "type rules[1].resourceConcurrency.limit: ", "expression rules[0].resourceConcurrency.groupSelector: "}},
		{"and contradicts no other one of the same pool", policy(`{"resourceConcurrency":{"groupSelector":"true","limit":"x","sharedPool":"s"}},{"resourceConcurrency":{"groupSelector":"true","limit":2,"sharedPool":"s"}}`),
			[]string{"type rules[0].resourceConcurrency.limit: "}},
		{"an entry of a list keeps its place", policy(`{"gradualRollout":{"rolloutType":"waves","timeScaleInterval":1,"waves":["x",0,null]}}`),
			[]string{`type rules[0].gradualRollout.waves[0]: "x": must be a count of at least 1, without quotes`, "out_of_range rules[0].gradualRollout.waves[1]: 0: must be a count of at least 1", "required rules[0].gradualRollout.waves[2]: must be a count of at least 1"}},
		{"of two values the first is looked at", policy(`{"retry":{"maxRetries":-1,"maxRetries":1,"backoffStrategy":"cubic"}}`),
			[]string{"duplicate rules[0].retry.maxRetries: ", `unknown_value rules[0].retry.backoffStrategy: "cubic"`}},
		{"also of what is inside of it", policy(`{"retry":{"maxRetries":-1},"retry":{"maxRetries":1}}`), []string{"duplicate rules[0].retry: ", "out_of_range rules[0].retry.maxRetries: "}},
		{"policies without a readable name have no ids in common", `[{"name":1,"selector":"true","rules":[{"retry":{"maxRetries":1}}]},{"name":2,"selector":"true","rules":[{"retry":{"maxRetries":1}}]}]`,
			[]string{"type [0].name: ", "type [1].name: "}},
		{"a field that is mistyped is not missing", policy(`{"retry":{"maxRetrys":1}}`), []string{"unknown_field rules[0].retry.maxRetrys: "}},
		{"one beside a field that nobody knows is", policy(`{"retry":{"colour":1}}`), []string{"unknown_field rules[0].retry.colour: ", "required rules[0].retry.maxRetries: "}},
		{"a rule with a decoder of its own", policy(`{"deploymentBracket":{"deploymentSelector":"resource.name == 'x'","readinessWindowSeconds":-1,"overlap":"queue"}}`),
			[]string{"unknown_field rules[0].deploymentBracket.overlap: ", "out_of_range rules[0].deploymentBracket.readinessWindowSeconds: ", "expression rules[0].deploymentBracket.deploymentSelector: "}},
		{"one that may be the field on which another one depends", policy(`{"deploymentBracket":{"deploymentSelector":"true","readinesMode":"immediate"}}`), []string{"unknown_field rules[0].deploymentBracket.readinesMode: "}},
		{"a field that stands beside what it should stand in", policy(`{"deploymentWindow":{"start":"09:00","weekly":{"days":["mon"],"end":"10:00"}}}`), []string{"unknown_field rules[0].deploymentWindow.start: "}},
		{"and in what it should stand beside", `{"name":"p","rules":[{"retry":{"maxRetries":1},"selector":"true"}]}`, []string{"unknown_field rules[0].selector: "}},
		{"one that is there is not the mistyped one", policy(`{"retry":{"maxRetrys":1,"maxRetries":-1}}`), []string{"unknown_field rules[0].retry.maxRetrys: ", "out_of_range rules[0].retry.maxRetries: "}},
		{"a kind that may be the one that is missed", policy(`{"deploymentBrackets":{}},{"gradualRollout":{"rolloutType":"linear","timeScaleInterval":1,"orderKey":"resource_bracket"}}`), []string{"unknown_field rules[0].deploymentBrackets: "}},
		{"so may a rule that was refused", policy(`5,{"gradualRollout":{"rolloutType":"linear","timeScaleInterval":1,"orderSalt":"group"}}`), []string{"type rules[0]: "}},
		{"but none that holds nothing", policy(`{},{"gradualRollout":{"rolloutType":"linear","timeScaleInterval":1,"orderSalt":"group"}},{"retry":5}`),
			[]string{"type rules[2].retry: ", "required rules[0]: ", "conflict rules[1].gradualRollout.orderSalt: "}},
		{"a window with a refused shape has one", policy(`{"deploymentWindow":{"rrule":5,"durationMinutes":60}}`), []string{"type rules[0].deploymentWindow.rrule: "}},
		{"or two, and then nobody knows what belongs to it", policy(`{"deploymentWindow":{"rrule":5,"from":"2025-01-01T00:00:00Z","until":"2025-01-02T00:00:00Z","anchor":"2025-01-06T09:00"}}`), []string{"type rules[0].deploymentWindow.rrule: "}},
		{"a limit that was refused is a limit, whatever stands beside it", policy(`{"resourceConcurrency":{"groupSelector":"true","limit":"x","limitValue":5}}`), []string{"type rules[0].resourceConcurrency.limit: "}},
		{"a hint that mentions a refused field, on which nothing depends", policy(`{"rollback":{"onJobStatuses":["successful"],"onVerificationFailure":"yes"}}`),
			[]string{"type rules[0].rollback.onVerificationFailure: ", "conflict rules[0].rollback.onJobStatuses[0]: "}},
		{"a hint in which the name of a refused field is a word", `{"name":5,"selector":"true","rules":[{"resourceConcurrency":{"groupSelector":"true","limit":1,"sharedPool":"s"}},{"id":"s","retry":{"maxRetries":1}}]}`,
			[]string{"type name: ", "duplicate rules[0].resourceConcurrency.sharedPool: "}},
		{"a policy with a refused id is not known by its name", `[{"id":5,"name":"p","selector":"true","rules":[{"retry":{"maxRetries":1}}]},{"name":"p","selector":"true","rules":[{"retry":{"maxRetries":1}}]}]`, []string{"type [0].id: "}},
		{"nor does a rule have a derived one", policy(`{"id":"p/retry/0","retry":{"maxRetries":1}},{"id":5,"retry":{"maxRetries":1}}`), []string{"type rules[1].id: "}},
		{"a policy that may be disabled shares no pool", `[{"name":"p","enabled":"no","selector":"true","rules":[{"resourceConcurrency":{"groupSelector":"true","limit":1,"sharedPool":"s"}}]},{"name":"q","selector":"true","rules":[{"resourceConcurrency":{"groupSelector":"true","limit":2,"sharedPool":"s"}}]}]`,
			[]string{"type [0].enabled: "}},
		{"rules that share a pool are compared but for what was refused", policy(`{"resourceConcurrency":{"groupSelector":"true","limit":1,"rounding":5,"sharedPool":"s"}},{"resourceConcurrency":{"groupSelector":"true","limit":2,"rounding":"floor","sharedPool":"s"}}`),
			[]string{"type rules[0].resourceConcurrency.rounding: ", "conflict rules[1].resourceConcurrency.limit: "}},
		{"of a field that is given twice nothing is known", policy(`{"deploymentBracket":{"deploymentSelector":"true","readinessWindowSeconds":1,"overlapStrategy":"merge","overlapStrategy":"queue"}}`), []string{"duplicate rules[0].deploymentBracket.overlapStrategy: "}},
		{"an instant that is none", `{"name":"p","selector":"true","rules":[{"createdAt":"today","retry":{}}]}`, []string{"type rules[0].createdAt: ", "required rules[0].retry.maxRetries: "}},
	} {
		set, err := rollout.Load([]byte(row.in), newEnv(t))
		got := coded(err)
		if len(got) != len(row.want) || set != nil {
			t.Errorf("%s: got\n\t%s\nwant\n\t%s", row.why, strings.Join(got, "\n\t"), strings.Join(row.want, "\n\t"))
			continue
		}
		for i, want := range row.want {
			if !strings.HasPrefix(got[i], want) {
				t.Errorf("%s: got %q, want %q …", row.why, got[i], want)
			}
		}
	}
}

// TestRemedies: a fault says what to write instead, and it is right.
func TestRemedies(t *testing.T) {
	window := policy(`{"deploymentWindow":{"weekly":{"days":["mon"],"start":"09:00","end":"10:00"},"timezone":"Europe/Berlin"}}`)
	for _, row := range []struct{ why, in, want string }{
		{"seconds, which the name does not say", policy(`{"gradualRollout":{"rolloutType":"linear","timeScaleInterval":"1h"}}`), "rules[0].gradualRollout.timeScaleInterval: must be a whole number of seconds, not a string: write 3600"},
		{"seconds", policy(`{"retry":{"maxRetries":1,"backoffSeconds":"5m"}}`), "rules[0].retry.backoffSeconds: must be a whole number of seconds, not a string: write 300"},
		{"seconds of a bracket", policy(`{"deploymentBracket":{"deploymentSelector":"true","readinessWindowSeconds":"5m"}}`), "rules[0].deploymentBracket.readinessWindowSeconds: must be a whole number of seconds, not a string: write 300"},
		{"minutes of a window", policy(`{"deploymentWindow":{"weekly":{"days":["mon"],"start":"09:00"},"durationMinutes":"2h"}}`), `rules[0].deploymentWindow.durationMinutes: "2h": must be a whole number of minutes from 1 to 153722867: write 120`},
		{"hours", policy(`{"environmentProgression":{"dependsOnEnvironmentSelector":"true","maximumAgeHours":"48h"}}`), "rules[0].environmentProgression.maximumAgeHours: must be a whole number of hours, not a string: write 48"},
		{"a percentage is a limit", policy(`{"resourceConcurrency":{"groupSelector":"true","limitType":"percentage","limitValue":"20%"}}`), `rules[0].resourceConcurrency.limitValue: must be a whole number, not a string: write "limit": "20%" instead of limitType and limitValue`},
		{"the same in another unit", policy(`{"retry":{"maxRetries":1,"backoffMinutes":5}}`), `rules[0].retry.backoffMinutes: unknown field; did you mean "backoffSeconds"?`},
		{"no zones were given, so nobody knows whether it is one", window, `rules[0].deploymentWindow.timezone: "Europe/Berlin": cannot be looked up: Compile and Load know UTC alone, unless they are given WithZones(time.LoadLocation)`},
		{"no id is the text true", `{"name":"p","selector":"environment.id","rules":[{"retry":{"maxRetries":1}}]}`, "selector: 1:1: the result is not a bool (compare it, as in environment.id == '…')"},
	} {
		_, err := rollout.Load([]byte(row.in), newEnv(t))
		if err == nil || err.Error() != row.want {
			t.Errorf("%s: got\n%v\nwant\n%s", row.why, err, row.want)
		}
	}
	if _, err := rollout.Load([]byte(window), newEnv(t), rollout.WithZones(time.LoadLocation)); err != nil {
		t.Error(err)
	}
}

// TestLoadSound: without a fault Load is Compile of what ParsePolicies reads, and what that cannot
// read is compiled by nobody.
func TestLoadSound(t *testing.T) {
	set, err := rollout.Load([]byte(nodeLifecycle(t)), newEnv(t))
	if err != nil || set == nil {
		t.Error(err)
	}
	if _, err := rollout.Load([]byte(nodeLifecycle(t)), nil); err == nil {
		t.Error("loaded without a compiler")
	}
	var fault *rollout.FieldError
	if _, err := rollout.Load([]byte(`{"name":`), nil); len(joined(err)) != 1 || !errors.As(err, &fault) || fault.Code != rollout.CodeSyntax {
		t.Errorf("what is no JSON has that fault alone, also without a compiler: %v", err)
	}
}

// TestFaultsOfAHugeDocument: one mistake that is in every entry of a huge document fills no log: the
// text lists as many faults as a person can read, and counts the rest. The error joins them all the
// same, each with its path.
func TestFaultsOfAHugeDocument(t *testing.T) {
	t.Parallel()
	const unread, uncompiled = `{"name":"p%d","selector":"true","rules":[{"id":"r%[1]d","retry":{"maxRetries":"1"}}]}`, `{"name":"p%d","selector":"true","rules":[{"id":"r%[1]d","retry":{"maxRetries":-1}}]}`
	const target = `{"resource":"r%d","environment":5,"deployment":"d"}`
	list := func(entry string, n int) string {
		entries := make([]string, n)
		for i := range entries {
			entries[i] = fmt.Sprintf(entry, i)
		}
		return "[" + strings.Join(entries, ",") + "]"
	}
	parse := func(data string) error { _, err := rollout.ParsePolicies([]byte(data)); return err }
	env := newEnv(t)
	load := func(data string) error { _, err := rollout.Load([]byte(data), env); return err }
	decode := func(data string) error {
		return new(rollout.Snapshot).UnmarshalJSON([]byte(`{"targets":` + data + `}`))
	}
	for _, row := range []struct {
		why   string
		read  func(data string) error
		entry string
		n     int
		lines int
		path  string // of the last fault
		last  string // line
	}{
		{"a hundred are listed", parse, unread, 100, 100, "[99].rules[0].retry.maxRetries", "[99].rules[0].retry.maxRetries: must be a whole number, not a string: leave the quotes out"},
		{"as soon as there is one more, it is counted", parse, unread, 101, 101, "[100].rules[0].retry.maxRetries", "and one more fault"},
		{"so is the rest of very many", parse, unread, 2000, 101, "[1999].rules[0].retry.maxRetries", "and 1900 more faults"},
		{"also of those that are read and compiled", load, unread, 2000, 101, "[1999].rules[0].retry.maxRetries", "and 1900 more faults"},
		{"and of those that only compiling finds", load, uncompiled, 2000, 101, "[1999].rules[0].retry.maxRetries", "and 1900 more faults"},
		{"and of a snapshot that cannot be read", decode, target, 2000, 101, "targets[1999].environment", "and 1900 more faults"},
	} {
		err := row.read(list(row.entry, row.n))
		all := joined(err)
		if len(all) != row.n {
			t.Errorf("%s: %d faults are joined, want %d", row.why, len(all), row.n)
			continue
		}
		var fault *rollout.FieldError
		if !errors.As(all[row.n-1], &fault) || fault.Path != row.path {
			t.Errorf("%s: the last fault is %v", row.why, all[row.n-1])
		}
		lines := strings.Split(err.Error(), "\n")
		if last := lines[len(lines)-1]; len(lines) != row.lines || last != row.last {
			t.Errorf("%s: %d lines, the last one %q; want %d, %q", row.why, len(lines), last, row.lines, row.last)
		}
	}
}

// FuzzLoad: it accepts what ParsePolicies and Compile accept, it reports all that ParsePolicies
// does, and what Compile does if that reports nothing.
func FuzzLoad(f *testing.F) {
	f.Add([]byte(nodeLifecycle(f)))
	f.Add([]byte(`[5,{"name":"p","selector":"true","rules":[{"retry":{"maxRetries":"1","x":{}}},null]}]`))
	f.Add([]byte(policy(`{"gradualRollout":{"rolloutType":"waves","timeScaleInterval":1,"waves":["x",2]}},{"deploymentBracket":{"readinessMode":[]}}`)))
	env := newEnv(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		_, err := rollout.Load(data, env)
		policies, parsed := rollout.ParsePolicies(data)
		want := joined(parsed)
		if parsed == nil {
			_, compiled := rollout.Compile(policies, env)
			if want = joined(compiled); len(want) != len(joined(err)) {
				t.Fatalf("Load says %v, Compile %v: %s", err, compiled, data)
			}
			return
		}
		got := joined(err)
		if len(got) < len(want) {
			t.Fatalf("Load says %v, ParsePolicies %v: %s", err, parsed, data)
		}
		for i := range want {
			if got[i].Error() != want[i].Error() {
				t.Fatalf("Load says %v, ParsePolicies %v: %s", got[i], want[i], data)
			}
		}
	})
}
