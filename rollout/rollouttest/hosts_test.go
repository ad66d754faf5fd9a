package rollouttest_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/internal/testkit"
	"github.com/tranche-dev/tranche/rollout"
)

// TestHosts lets two or three hosts work on one store. Each has a view of its own, of which every
// part is as old as it happens to be: jobs, what is current, versions, approvals, what is
// unavailable, labels, members, policies, versions that are paused, checks of jobs, commands, what an
// operator has frozen and thawed. Their clocks differ by up to a minute. Between any two calls of a
// planner to the store another host may have a whole turn; calls are lost, repeated, and end in
// crashes; starts are dispatched late or never. The dispatching side is that of a fair host: a run is
// created once, under claims that hold, on a target without any other job that the plan had not seen.
//
// At every moment of the truth no pool has more than its limit, nothing goes back, hooks keep their
// order, nothing starts in a bracket that no group has locked, no host starts what it knows to be
// frozen, unless that finishes what has begun and may, and no run means two things. When everybody
// sees everything and nothing fails any more, all executions end, no slot is left and no version was
// forgotten. Of the limit this is excused, and nothing else:
//
//   - A resource that somebody believed to be unavailable, or deleted, or on which an operator
//     called a job done: it needs no place, or loses the one it has.
//   - Who was at work on the resource already, or held a lease on it in another pool, when policies
//     or labels gave it a pool that it has no lease in: with two revisions of the policies, or two
//     labels, each pool keeps the limit that the planner of the entering start believed in for
//     those who come anew.
//   - An execution that is open and got another member by a merge or as a target was added: it
//     waits for no further pool. Nor does who joins it there.
//   - Who joins others on their resource in a pool: the place there is that of the first, under the
//     limit of then.
//   - Where an override let somebody past a limit, and who joins it on that resource; and past a
//     limit of keys, who has its key.
func TestHosts(t *testing.T) {
	seen, compiler := testkit.Tally{}, newCompiler(t)
	outcomes := []string{"plan", "start", "turn in between", "injected", "late dispatch", "already down", "execution", "given back", "rest", "counter", "member", "entered", "key", "locked", "arrived", "not for it", "paused", "verification failed", "taken back", "command abandon", "command close", "frozen", "thawed", "finished under a freeze", "frozen unknown to its host", "saved before a freeze"}
	if testing.Short() {
		outcomes = nil
	}
	all := os.Getenv("RAPID_CHECKS") != "" // whoever searches further
	seen.Check(t, func(t *rapid.T) {
		if !all && (&upheaval{drawn: drawn{t}}).evenly(4) > 0 {
			return
		}
		if m := newTruth(t, compiler, seen); m != nil {
			m.play()
		}
	}, outcomes...)
}

// truth is what is so, whoever knows it.
type truth struct {
	drawn
	seen     testkit.Tally
	compiler rollout.Compiler
	now      time.Time
	store    *bracket.MemoryStore
	fleet    rollout.Snapshot // without jobs
	jobs     map[rollout.TargetID][]rollout.Job
	current  map[rollout.TargetID]string
	sets     []*rollout.PolicySet // revisions; the last one is in force
	texts    map[*rollout.PolicySet]string
	hosts    []*viewer
	faults   bool
	depth    int
	refused  bool
	eager    int // percent of the calls after which somebody else has a turn
	late     []lateStart
	starts   map[string]rollout.Start  // dispatched, by run
	limits   map[string]int            // pool and token → what its planner believed to be the limit
	free     map[string]bool           // resources that need no place, or lost theirs, because somebody believed so
	edited   map[string]bool           // kinds of edits so far
	groups   map[string]*bracket.Group // that were ever closed
	had      map[string]bool           // targets with versions that they run, or ran
	ids      int
	story    []string
	decoded  map[string]*bracket.ExecutionRecord // by what is stored
}

func (m *truth) play() {
	for range m.number(10, 20, 30, 40) {
		m.step()
	}
	m.rest()
}

func (m *truth) step() {
	switch n := m.evenly(100); {
	case n < 25:
		h := m.someHost()
		for range m.number(1, 1, 2, 4) {
			m.refresh(h, parts[m.evenly(len(parts))])
		}
	case n < 35:
		h := m.someHost()
		for _, part := range parts {
			m.refresh(h, part)
		}
	case n < 65:
		if h := m.someHost(); !h.acting {
			m.turn(h)
		}
	case n < 82:
		m.endSome()
	case n < 90:
		if m.depth == 0 {
			m.now = m.now.Add(time.Duration(m.number(1, 20, 60, 200)) * time.Second)
		}
	case n < 92:
		m.dispatchLate()
	case n < 94:
		m.verify(false)
	default:
		m.edit()
	}
}

func (m *truth) chance(percent int) bool { return m.evenly(100) >= 100-percent }

func (m *truth) evenly(n int) int { return (&upheaval{drawn: m.drawn}).evenly(n) }

func (m *truth) someHost() *viewer { return m.hosts[m.evenly(len(m.hosts))] }

// rest lets everybody see everything, and nothing fail any more: then everything ends.
func (m *truth) rest() {
	m.note("REST")
	m.faults = false
	m.fleet.Unavailable, m.fleet.Freezes = nil, nil
	m.fleet.Versions = slices.Clone(m.fleet.Versions)
	for k := range m.fleet.Versions {
		m.fleet.Versions[k].Status = rollout.VersionReady
	}
	m.approve()
	m.verify(true)
	for _, h := range m.hosts {
		h.client.Restart(nil)
	}
	m.dispatchLate()
	operated := 0
	for round := 0; ; round++ {
		if round > 400 {
			m.fail("no end")
		}
		h := m.hosts[round%len(m.hosts)]
		for _, part := range parts {
			m.refresh(h, part)
		}
		before := len(m.story)
		jobs := len(m.starts)
		plan, ok := m.turn(h)
		if !ok && round > 20 && m.refused {
			return // policies that this fleet does not allow: nobody can plan
		}
		m.story = m.story[:max(before, len(m.story)-1)]
		if len(m.starts) > jobs || len(m.active()) > 0 {
			for range m.number(1, 1, 2, 3) {
				m.endSome()
			}
			m.now = m.now.Add(20 * time.Second)
			continue
		}
		m.now = m.now.Add(time.Minute)
		if round%8 != 7 { // all hosts, and the time of grace
			continue
		}
		if m.operate(plan) {
			if operated++; operated > 8 {
				m.fail("an operator is asked for ever: %v", waits(plan))
			}
			continue
		}
		if !m.ended(plan) {
			if round > 200 {
				m.fail("left over: %s\n%s\n%v", brief(plan), waits(plan), plan.Diagnostics)
			}
			continue
		}
		m.arrived(plan)
		m.seen["rest"]++
		return
	}
}

// operate answers what only an operator can.
func (m *truth) operate(plan rollout.Plan) (did bool) {
	for wait := range plan.Waiting.All() {
		if !slices.ContainsFunc(wait.Blockers, func(b rollout.Verdict) bool {
			return strings.HasPrefix(string(b.Reason), "bracket_") && slices.ContainsFunc(b.On, func(c rollout.Condition) bool { return c.Kind == rollout.OnOperator })
		}) {
			continue
		}
		for _, record := range m.executions() {
			if record.Resource == wait.Resource && record.Open.Environment == wait.Environment {
				m.command(bracket.Command{Kind: bracket.Resolve, Group: record.Open.Group, Resource: record.Resource})
				did = true
			}
		}
	}
	return did
}

func (m *truth) note(format string, args ...any) {
	m.story = append(m.story, m.now.Format("15:04:05 ")+fmt.Sprintf(format, args...))
}

func (m *truth) fail(format string, args ...any) {
	m.Fatalf("%s\n\t%s", fmt.Sprintf(format, args...), strings.Join(m.story, "\n\t"))
}
