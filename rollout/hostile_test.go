package rollout_test

import (
	"encoding/json"
	"maps"
	"math/rand"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/internal/testseed"
	"github.com/tranche-dev/tranche/rollout"
	"github.com/tranche-dev/tranche/selector"
)

// jsonPlace is where a value lies in a decoded JSON document.
type jsonPlace struct {
	at  any // map[string]any or *[]any
	key string
	i   int
}

func (p jsonPlace) get() any {
	if m, ok := p.at.(map[string]any); ok {
		return m[p.key]
	}
	return (*p.at.(*[]any))[p.i]
}

func (p jsonPlace) set(value any) {
	if m, ok := p.at.(map[string]any); ok {
		m[p.key] = value
		return
	}
	(*p.at.(*[]any))[p.i] = value
}

// spoil makes one change to a document: something is missing, there twice, null, far too large, or the value of something else.
func spoil(r *rand.Rand, document map[string]any) {
	var places []jsonPlace
	var walk func(value any)
	walk = func(value any) {
		switch v := value.(type) {
		case map[string]any:
			for _, key := range slices.Sorted(maps.Keys(v)) {
				inner := v[key]
				if list, ok := inner.([]any); ok {
					inner = &list
					v[key] = inner
				}
				places = append(places, jsonPlace{at: v, key: key})
				walk(inner)
			}
		case *[]any:
			for i := range *v {
				if list, ok := (*v)[i].([]any); ok {
					(*v)[i] = &list
				}
				places = append(places, jsonPlace{at: v, i: i})
				walk((*v)[i])
			}
		}
	}
	walk(document)
	if len(places) == 0 {
		return
	}
	p := places[r.Intn(len(places))]
	switch r.Intn(8) {
	case 0, 1: // gone
		switch at := p.at.(type) {
		case map[string]any:
			delete(at, p.key)
		case *[]any:
			*at = append((*at)[:p.i:p.i], (*at)[p.i+1:]...)
		}
	case 2: // twice
		if at, ok := p.at.(*[]any); ok {
			*at = append(*at, p.get())
		}
	case 3: // another value of the same type
		other := places[r.Intn(len(places))].get()
		for range 50 {
			if kind(other) == kind(p.get()) {
				break
			}
			other = places[r.Intn(len(places))].get()
		}
		data, _ := json.Marshal(other) // a copy, so that nothing contains itself
		var copied any
		if json.Unmarshal(data, &copied) == nil {
			p.set(copied)
		}
	case 4:
		p.set(nil)
	default:
		values := []any{"", "x", "a/b%2F", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999999Z", "2262-04-11T23:47:16Z", "1677-09-21T00:12:43Z", "true", "100%"}
		if _, ok := p.get().(float64); ok {
			values = []any{0, -1, 1, 1 << 31, json.Number("9223372036854775807"), json.Number("-9223372036854775808")}
		} else if _, ok := p.get().(bool); ok {
			values = []any{true, false}
		}
		p.set(values[r.Intn(len(values))])
	}
}

func kind(value any) int {
	switch value.(type) {
	case string:
		return 1
	case float64:
		return 2
	case bool:
		return 3
	case map[string]any:
		return 4
	case *[]any:
		return 5
	}
	return 0
}

// TestHostileRecordings: whatever a snapshot, its stored state and the policies say, nothing panics and nothing takes for ever: there is an error, or a
// plan whose every method works.
func TestHostileRecordings(t *testing.T) {
	env, seen := newEnv(t), testseed.Tally{}
	checkWorlds(t, env, seen, 60, nil, func(t *rapid.T, w *world) {
		data, err := json.Marshal(rollout.Recording{Schema: 1, Policies: w.policies, Snapshot: w.s, Plan: w.plan})
		if err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewSource(rapid.Int64().Draw(t, "seed")))
		for range 8 {
			var document map[string]any
			if err := json.Unmarshal(data, &document); err != nil {
				t.Fatal(err)
			}
			plan := document["plan"].(map[string]any)
			document["plan"] = map[string]any{"now": plan["now"], "keep": plan["keep"]}
			for range 1 + r.Intn(4) {
				spoil(r, document)
			}
			spoilt, err := json.Marshal(document)
			if err != nil {
				t.Fatal(err)
			}
			seen[survives(t, env, w, spoilt)]++
		}
	}, "not decoded", "not compiled", "not planned", "planned", "started")
}

// survives takes a recording through all that can be done with it and says how far it came.
func survives(t *rapid.T, env *selector.Env, w *world, data []byte) string {
	hostile = data
	recording, err := rollout.ParseRecording(data)
	if err != nil {
		return "not decoded"
	}
	set, err := rollout.Compile(recording.Policies, env, w.options...)
	if err != nil {
		return "not compiled"
	}
	if _, err := set.Lint(recording.Snapshot, recording.Plan.Now, 24*time.Hour, rollout.LintOptions{}); err != nil {
		seenError(t, err)
	}
	plan, _, err := set.Replay(recording)
	if err != nil {
		seenError(t, err)
		return "not planned"
	}
	for _, target := range recording.Snapshot.Targets {
		if explanation, err := plan.Explain(target.TargetID); err == nil {
			_ = explanation.String()
		}
	}
	state, err := plan.Commit(plan.Start, plan.Now)
	if err != nil {
		t.Fatalf("the starts of the plan itself are refused: %v\n%s", err, data)
	}
	if len(plan.Start) == 0 {
		return "planned"
	}
	recording.Snapshot.State = state
	if _, err := set.Plan(recording.Snapshot, plan.Now.Add(time.Minute)); err != nil {
		t.Fatalf("the state of a commit is refused: %v\n%s", err, data)
	}
	return "started"
}

func seenError(t *rapid.T, err error) {
	if err.Error() == "" {
		t.Fatal("an error without a text")
	}
}

// hostile is the last recording that was tried, for the message of a panic.
var hostile []byte
