package bracket

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/internal/testkit"
)

// TestHostileRecords: whatever stored records and an observation say, nothing panics: there is an
// error, or a state that can be stored, read, stepped and committed again.
func TestHostileRecords(t *testing.T) {
	out := testkit.Tally{}
	out.Check(t, func(t *rapid.T) {
		m := newMachine(t, testkit.Tally{})
		r := rand.New(rand.NewSource(rapid.Int64().Draw(t, "seed")))
		for n := range rapid.IntRange(2, 5).Draw(t, "rounds") {
			m.publish(rapid.SampledFrom([]string{"os", "kubelet", "containerd", "drain"}).Draw(t, "deployment"), fmt.Sprint("v", n+2), m.minute)
			m.minute += rapid.IntRange(0, 3).Draw(t, "minutes")
			m.plans()
			m.start(t)
			m.plans()
			for _, f := range m.running() {
				m.ends(t, f, rapid.IntRange(1, 7).Draw(t, "luck"))
			}
			m.plans()
			for range 5 {
				out[m.survives(r, 1+r.Intn(4))]++
			}
		}
	}, "refused by the decoder", "refused by the step", "stepped", "started")
}

// survives steps a spoilt copy of the state.
func (m *machine) survives(r *rand.Rand, changes int) string {
	spoilt := func(record any, into any) bool {
		data, err := json.Marshal(record)
		if err != nil {
			m.Fatal(err)
		}
		data = testkit.Spoil(r, data, r.Intn(changes+1))
		m.Logf("%s", data) // shown if what follows fails
		return json.Unmarshal(data, into) == nil
	}
	var state State
	if state.Group = new(GroupRecord); !spoilt(m.state.Group, state.Group) {
		return "refused by the decoder"
	}
	for _, record := range m.state.Executions {
		own := new(ExecutionRecord)
		if !spoilt(record, own) {
			return "refused by the decoder"
		}
		state.Executions = append(state.Executions, own)
	}
	o := m.observation()
	if len(o.Runs) > 0 && r.Intn(2) == 0 {
		f := o.Runs[r.Intn(len(o.Runs))]
		switch r.Intn(6) {
		case 0:
			f.Run.Generation += r.Intn(3) - 1
		case 1:
			f.Run.Attempt += r.Intn(3) - 1
		case 2:
			f.Run.Purpose = Rollback
		case 3:
			f.Run.Group = GroupID("rule", "prod", r.Intn(4))
		case 4:
			f.Run.Resource = "n1"
		case 5:
			f.EndedAt, f.StartedAt, f.RetryAt = at(r.Intn(9)-4), at(r.Intn(9)-4), at(r.Intn(9)-4)
		}
		f.Status = []RunStatus{RunRunning, RunSucceeded, RunFailed, RunLost}[r.Intn(4)]
		o.Runs = append(slices.Clone(o.Runs), f)
	}
	for _, x := range state.Executions {
		if x.Open != nil && r.Intn(3) == 0 {
			kind := []CommandKind{Retry, Skip, Resolve, Abandon}[r.Intn(4)]
			o.Commands = append(o.Commands, Command{ID: "x" + x.Resource, Kind: kind, Group: x.Open.Group, Resource: x.Resource, At: at(r.Intn(200) - 100)})
		}
	}
	if r.Intn(4) == 0 {
		o.Commands = append(o.Commands, Command{ID: "close", Kind: Close, Group: GroupID(state.Group.Rule, state.Group.Environment, state.Group.Number+r.Intn(2))})
	}
	o.RuleDeleted = r.Intn(8) == 0
	now := m.now.Add(time.Duration(r.Intn(7)-3) * time.Minute)
	result := "stepped"
	for range 3 {
		next, plan, err := Step(m.rule, state, o, now)
		if err != nil {
			return "refused by the step"
		}
		_ = plan.String()
		for key := range m.targets {
			for _, v := range m.versions {
				_ = plan.Evaluate(next, key[0], key[1], v.ID, now).String()
			}
		}
		next, err = plan.Commit(next, plan.runs(), now)
		if err != nil {
			m.Fatalf("what a plan offers cannot be committed: %v\n%s", err, plan)
		}
		if len(plan.Start) > 0 {
			result = "started"
		}
		state = stored(m.T, next) // fails if it cannot be read back
		now = now.Add(time.Minute)
		if plan.Next.After(now) && plan.Next.Year() < 9000 { // JSON has no years of five digits
			now = plan.Next
		}
	}
	return result
}
