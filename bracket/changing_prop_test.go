package bracket

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/internal/testkit"
)

// TestMachineOfChangingMembers: whatever becomes of the members, their roles and needs, and of the
// rule, and whenever an operator commands what, executions keep what they were frozen with and come
// to rest.
func TestMachineOfChangingMembers(t *testing.T) {
	out := testkit.Tally{}
	out.Check(t, propMachine(out, true), "reshaped", "rule gone", "rule back", "commanded skip", "commanded retry", "commanded abandon", "commanded resolve",
		"started", "saved by another", "rest", "group_merged superseded", "execution_ended completed", "execution_ended failed", "judged by its needs")
}

// changes are the actions of a machine whose members change.
func (m *machine) changes() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"rule": func(t *rapid.T) {
			switch {
			case m.gone:
				m.gone = false
				m.out["rule back"]++
			case rapid.IntRange(0, 5).Draw(t, "seldom") == 0:
				m.gone = true
				m.out["rule gone"]++
			}
		},
		"members": func(t *rapid.T) {
			if rapid.IntRange(0, 3).Draw(t, "seldom") == 0 {
				m.reshape(t)
				m.out["reshaped"]++
			}
		},
		"order": func(t *rapid.T) {
			r := m.record(rapid.SampledFrom([]string{"n1", "n2"}).Draw(t, "resource"))
			if r == nil || r.Open == nil || len(m.commands) > 8 {
				return
			}
			kind := rapid.SampledFrom([]CommandKind{Retry, Retry, Skip, Skip, Resolve, Abandon}).Draw(t, "kind")
			c := Command{ID: fmt.Sprint("c", len(m.commands)), Kind: kind, Group: r.Open.Group, Resource: r.Resource, At: m.now}
			if kind == Retry || kind == Skip {
				c.Deployment = rapid.SampledFrom([]string{"", "drain", "os", "kubelet", "containerd", "uncordon"}).Draw(t, "whom")
			}
			m.commands = append(m.commands, c)
			m.disturbed = true
			m.out["commanded "+string(kind)]++
		},
	}
}

// reshape draws which deployments are members, whether their roles are declared, and what they
// need.
func (m *machine) reshape(t *rapid.T) {
	m.reshaped = true
	m.members, m.rule.MemberRoles = nil, nil
	declared := rapid.Bool().Draw(t, "declared")
	if declared {
		m.rule.MemberRoles = &MemberRoles{Pre: "true"}
	}
	role := 0 // of the one before: what is needed comes no later in an execution
	for _, d := range []string{"drain", "os", "kubelet", "containerd", "uncordon"} {
		if rapid.IntRange(0, 3).Draw(t, "leaves "+d) == 0 {
			continue
		}
		own := Member{Deployment: d}
		if declared {
			role = max(role, rapid.IntRange(0, 2).Draw(t, "role"))
			own.Role = []Role{Pre, Main, Post}[role]
		}
		for _, o := range m.members {
			switch rapid.IntRange(0, 3).Draw(t, "needs "+o.Deployment) {
			case 0, 1:
				own.Needs = append(own.Needs, o.Deployment)
			case 2:
				need := ConditionalNeed{Deployment: o.Deployment}
				for v := range 6 {
					if rapid.Bool().Draw(t, "if it has") {
						need.Versions = append(need.Versions, fmt.Sprint("v", v+1))
					}
				}
				own.NeedsIf = append(own.NeedsIf, need)
			}
		}
		m.members = append(m.members, own)
	}
}

// judgeNeeds checks that an offer comes after what its member needs by the frozen execution (I3).
// After a failure the posts may come although something has not been brought.
func (m *machine) judgeNeeds(x *Execution, member ExecutionMember, run Run, fail func(string, ...any)) {
	if run.Purpose != Deploy || member.Role == Post && x.Recovery != "" {
		return
	}
	m.out["judged by its needs"]++
	for _, need := range member.Needs {
		k := x.member(need)
		if k < 0 {
			fail("%s needs %s, which is no member", run, need)
		}
		if o := &x.Members[k]; !o.satisfied() && !(o.Status == MemberRolledBack && member.Role == Post) {
			fail("I3: %s before %s, which is %s", run, need, o.Status)
		}
	}
}
