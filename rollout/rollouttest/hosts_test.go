package rollouttest_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/bracket/brackettest"
	"github.com/tranche-dev/tranche/clock"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/internal/testseed"
	"github.com/tranche-dev/tranche/rollout"
	"github.com/tranche-dev/tranche/rollout/rollouttest"
)

// TestHosts lets two or three hosts work on one store. Each has a view of its own, of which every part is as old as it happens to be: jobs, what is
// current, versions, approvals, what is unavailable, labels, members, policies. Their clocks differ by up to a minute. Between any two calls of a planner to
// the store another host may have a whole turn; calls are lost, repeated, and end in crashes; starts are dispatched late or never. The dispatching
// side is that of a fair host: a run is created once, under claims that hold, on a target without any other job that the plan had not seen.
//
// At every moment of the truth no pool has more than its limit, nothing goes back, hooks keep their order, and no run means two things. When everybody sees
// everything and nothing fails any more, all executions end and no slot is left. Of the limit this is excused, and nothing else:
//
//   - A resource that somebody believed to be unavailable, or deleted: it needs no place, or loses the one it has.
//   - Who was at work on the resource already, or held a lease on it in another pool, when policies or labels gave it a pool that it has no lease in: with two
//     revisions of the policies, or two labels, each pool keeps the limit that the planner of the entering start believed in for those who come anew.
//   - An execution that is open and got another member by a merge or as a target was added: it waits for no further pool.
//   - Where an override let somebody past a limit, and who joins it on that resource.
func TestHosts(t *testing.T) {
	seen, compiler := testseed.Tally{}, newCompiler(t)
	outcomes := []string{"plan", "start", "turn in between", "injected", "late dispatch", "already down", "execution", "given back", "rest", "counter", "member", "entered"}
	if testing.Short() {
		outcomes = nil
	}
	all := os.Getenv("RAPID_CHECKS") != "" // whoever searches further
	seen.Check(t, func(t *rapid.T) {
		if !all && (drawn{t}).chance(75) {
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
	seen     testseed.Tally
	compiler rollout.Compiler
	now      time.Time
	store    *bracket.MemoryStore
	fleet    rollout.Snapshot // without jobs
	jobs     map[rollout.TargetID][]rollout.Job
	current  map[rollout.TargetID]string
	sets     []*rollout.PolicySet // revisions; the last one is in force
	hosts    []*viewer
	faults   bool
	depth    int
	late     []lateStart
	starts   map[string]rollout.Start // dispatched, by run
	limits   map[string]int           // pool and token → what its planner believed to be the limit
	free     map[string]bool          // resources that need no place, or lost theirs, because somebody believed so
	edited   map[string]bool          // kinds of edits so far
	ids      int
	story    []string
}

// viewer is a host.
type viewer struct {
	name     string
	client   *brackettest.FaultStore
	skew     time.Duration
	counts   bool
	view     rollout.Snapshot
	set      *rollout.PolicySet
	suspects map[string]time.Time
	acting   bool
}

type lateStart struct {
	rollout.Start
	host *viewer
	at   time.Time       // its plan's
	seen map[string]bool // runs that its plan had seen
	max  map[string]int  // limits that its plan believed in
}

func newTruth(t *rapid.T, compiler rollout.Compiler, seen testseed.Tally) *truth {
	m := &truth{drawn: drawn{t}, seen: seen, compiler: compiler, now: at(2, 9, 0), store: &bracket.MemoryStore{}, jobs: map[rollout.TargetID][]rollout.Job{}, current: map[rollout.TargetID]string{},
		starts: map[string]rollout.Start{}, limits: map[string]int{}, free: map[string]bool{}, edited: map[string]bool{}, faults: true}
	f := &m.fleet
	for _, id := range []string{"prod", "staging"}[:m.number(1, 1, 2)] {
		f.Environments = append(f.Environments, rollout.Environment{ID: id, Name: id})
	}
	for _, id := range []string{"a", "b", "c", "d"}[:m.number(1, 2, 3, 4, 4)] {
		f.Deployments = append(f.Deployments, rollout.Deployment{ID: id, Name: id})
		for n := range m.number(2, 2, 3) {
			v := version(id, fmt.Sprint(id, n+1), m.now.AddDate(0, 0, n-9))
			v.Tag, v.Metadata = fmt.Sprint(n+1), map[string]string{"channel": "stable"}
			f.Versions = append(f.Versions, v)
		}
	}
	for r := range m.number(2, 2, 3, 4) {
		id := fmt.Sprint("r", r)
		f.Resources = append(f.Resources, rollout.Resource{ID: id, Name: id, Metadata: map[string]string{"region": m.of("eu", "us")}})
		for _, e := range f.Environments {
			for _, d := range f.Deployments {
				if !m.chance(10) {
					t := rollout.Target{TargetID: rollout.TargetID{Resource: id, Environment: e.ID, Deployment: d.ID}}
					f.Targets = append(f.Targets, t)
					m.current[t.TargetID] = d.ID + "1"
				}
			}
		}
	}
	if !m.load(m.rules()) {
		return nil
	}
	for k := range m.number(2, 2, 3) {
		h := &viewer{name: fmt.Sprint("h", k), skew: time.Duration(m.number(0, 0, 30, 60)) * time.Second, counts: m.chance(30), suspects: map[string]time.Time{}}
		h.client = brackettest.NewFaultStore(m.store, m.fault)
		for _, part := range parts {
			m.refresh(h, part)
		}
		m.hosts = append(m.hosts, h)
	}
	return m
}

// rules draws policies: a bracket with hooks or none, and pools that share resources with it, one another, and deployments that no bracket has.
func (m *truth) rules() string {
	limit := func(id string) string {
		text := `{"id":"` + id + `","resourceConcurrency":{"groupSelector":"` + m.of("true", "true", "resource.metadata['region'] == 'eu'", "resource.name != 'r1'") + `","limit":` + m.of("1", "1", "2", `"50%"`, `"34%"`)
		if m.chance(25) {
			text += `,"groupBy":"resource.metadata['region']"` + m.maybe(50, func() string { return `"maxActiveKeys":1` })
		} else {
			text += m.maybe(15, func() string { return `"sharedPool":"shared"` })
		}
		return text + m.maybe(20, func() string { return `"strict":true` }) + `}}`
	}
	var policies []string
	for k := range m.number(1, 2, 2, 3) {
		rules := []string{limit(fmt.Sprint("limit", k))}
		if k == 0 && m.chance(60) {
			rules = append(rules, `{"id":"bracket","deploymentBracket":{"deploymentSelector":"`+m.of("true", "deployment.name != 'c'", "deployment.name != 'b'")+`",`+
				m.of(`"readinessMode":"immediate"`, `"readinessMode":"immediate"`, `"readinessWindowSeconds":120`)+
				m.maybe(80, func() string { return `"memberRoles":{"pre":"deployment.name == 'a'","post":"deployment.name == 'd'"}` })+
				m.maybe(40, func() string {
					return `"onMemberFailure":"` + m.of("run_post", "rollback_member", "rollback_all") + `"`
				})+
				m.maybe(40, func() string { return `"overlapStrategy":"merge","preparedStatePersists":true` })+`}}`)
		}
		if m.chance(50) {
			rules = append(rules, fmt.Sprintf(`{"id":"retry%d","retry":{"maxRetries":2,"backoffSeconds":%s}}`, k, m.seconds(0, 60)))
		}
		if m.chance(15) {
			rules = append(rules, fmt.Sprintf(`{"id":"approval%d","anyApproval":{"minApprovals":1}}`, k))
		}
		if m.chance(10) {
			rules = append(rules, fmt.Sprintf(`{"id":"curve%d",%s}`, k, `"gradualRollout":{"rolloutType":"linear","timeScaleInterval":60,"orderKey":"resource"}`))
		}
		if m.chance(10) {
			rules = append(rules, fmt.Sprintf(`{"id":"needs%d",%s}`, k, m.dependency()))
		}
		if m.chance(30) {
			rules = append(rules, limit(fmt.Sprint("more", k)))
		}
		selector := "true"
		if k > 0 || m.chance(20) {
			selector = m.of("true", "environment.name == 'prod'", "deployment.name == 'a'", "deployment.name == 'b'", "deployment.name == 'c'", "deployment.name != 'a'")
		}
		policies = append(policies, fmt.Sprintf(`{"name":"p%d","selector":"%s","rules":[%s]}`, k, selector, strings.Join(rules, ",")))
	}
	return "[" + strings.Join(policies, ",") + "]"
}

// load puts policies in force, unless they are refused.
func (m *truth) load(text string) bool {
	policies, err := rollout.ParsePolicies([]byte(text))
	if err != nil {
		m.Fatalf("%v\n%s", err, text)
	}
	set, err := rollout.Compile(policies, m.compiler)
	if err != nil {
		return false
	}
	m.sets = append(m.sets, set)
	m.note("policies %s", text)
	return true
}

func (m *truth) note(format string, args ...any) {
	m.story = append(m.story, m.now.Format("15:04:05 ")+fmt.Sprintf(format, args...))
}

func (m *truth) fail(format string, args ...any) {
	m.Fatalf("%s\n\t%s", fmt.Sprintf(format, args...), strings.Join(m.story, "\n\t"))
}

func (m *truth) fault(brackettest.Call) brackettest.Fault {
	if !m.faults || !m.chance(3) {
		return brackettest.None
	}
	return rapid.SampledFrom([]brackettest.Fault{brackettest.Stale, brackettest.Lose, brackettest.LoseAnswer, brackettest.Conflict, brackettest.Repeat, brackettest.Crash}).Draw(m.T, "fault")
}

var parts = []string{"members", "labels", "jobs", "versions", "approvals", "overrides", "unavailable", "deleted", "policies"}

// refresh brings one part of a view up to date.
func (m *truth) refresh(h *viewer, part string) {
	v, f := &h.view, m.fleet
	switch part {
	case "members":
		old := map[rollout.TargetID]rollout.Target{}
		for _, t := range v.Targets {
			old[t.TargetID] = t
		}
		v.Resources, v.Environments, v.Deployments = slices.Clone(f.Resources), f.Environments, f.Deployments
		v.Targets = slices.Clone(f.Targets)
		for k := range v.Targets {
			t := &v.Targets[k]
			if before, known := old[t.TargetID]; known {
				t.Jobs, t.Current = before.Jobs, before.Current
			} else {
				t.Jobs, t.Current = slices.Clone(m.jobs[t.TargetID]), m.current[t.TargetID]
			}
		}
	case "labels":
		v.Resources = slices.Clone(v.Resources)
		for k := range v.Resources {
			for _, r := range f.Resources {
				if r.ID == v.Resources[k].ID {
					v.Resources[k] = r
				}
			}
		}
	case "jobs":
		v.Targets = slices.Clone(v.Targets)
		for k := range v.Targets {
			t := &v.Targets[k]
			t.Jobs, t.Current = slices.Clone(m.jobs[t.TargetID]), m.current[t.TargetID]
		}
	case "versions":
		v.Versions = slices.Clone(f.Versions)
	case "approvals":
		v.Approvals = slices.Clone(f.Approvals)
	case "overrides":
		v.Overrides = slices.Clone(f.Overrides)
	case "unavailable":
		v.Unavailable = slices.Clone(f.Unavailable)
	case "deleted":
		v.DeletedResources = slices.Clone(f.DeletedResources)
	case "policies":
		h.set = m.sets[len(m.sets)-1]
	}
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
	case n < 94:
		m.dispatchLate()
	default:
		m.edit()
	}
}

func (m *truth) chance(percent int) bool { return m.evenly(100) >= 100-percent }

func (m *truth) evenly(n int) int { return (&upheaval{drawn: m.drawn}).evenly(n) }

func (m *truth) someHost() *viewer { return m.hosts[m.evenly(len(m.hosts))] }

// between is a host's client in which others have turns between the calls.
type between struct {
	bracket.Store
	m *truth
}

func (b *between) List(ctx context.Context, prefix string) ([]bracket.Entry, error) {
	entries, err := b.Store.List(ctx, prefix)
	b.m.interrupt()
	return entries, err
}

func (b *between) Save(ctx context.Context, key string, value []byte, revision int64) (int64, error) {
	b.m.interrupt()
	next, err := b.Store.Save(ctx, key, value, revision)
	b.m.interrupt()
	return next, err
}

func (m *truth) interrupt() {
	if !m.faults || m.depth > 1 || !m.chance(8) {
		return
	}
	m.seen["turn in between"]++
	m.depth++
	defer func() { m.depth-- }()
	for range m.number(1, 2, 4, 8) {
		m.step()
	}
}

// Active counts what is active now, whatever the view.
func (m *truth) Active(_ context.Context, pool string) (holders []concurrency.Holder, _ error) {
	m.seen["counter"]++
	for _, start := range m.active() {
		if holding(start, pool) {
			holders = append(holders, concurrency.Holder{Resource: start.Resource, Group: start.Group})
		}
	}
	slices.SortFunc(holders, func(a, b concurrency.Holder) int {
		return cmp.Or(cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Group, b.Group))
	})
	return slices.Compact(holders), nil
}

// active are the starts of the jobs that have not ended, in order of their runs.
func (m *truth) active() (list []rollout.Start) {
	for _, run := range slices.Sorted(maps.Keys(m.starts)) {
		start := m.starts[run]
		if slices.ContainsFunc(m.jobs[start.TargetID], func(j rollout.Job) bool { return j.Run == run && !j.Status.Terminal() }) {
			list = append(list, start)
		}
	}
	return list
}

func holding(start rollout.Start, pool string) bool {
	return slices.ContainsFunc(start.Claims, func(c rollout.Claim) bool { return c.Pool == pool })
}

// turn is a turn of a host: it plans, saves, dispatches some of the starts, and gives back what has been nobody's for long.
func (m *truth) turn(h *viewer) (plan rollout.Plan, ok bool) {
	h.acting = true
	defer func() { h.acting = false }()
	s, set := h.view, h.set
	at := m.now.Add(h.skew)
	planner := &rollout.Planner{Policies: set, Store: &between{h.client, m}, Clock: clock.NewFake(at)}
	if h.counts {
		planner.JobCounter = m
	}
	for _, id := range slices.Concat(s.Unavailable, s.DeletedResources) {
		m.free[id] = true
	}
	plan, err := planner.Plan(m.Context(), s)
	var cycle *rollout.CycleError
	var inside *bracket.CycleError
	var against *bracket.RoleError
	var overlap *bracket.OverlapError
	switch {
	case errors.Is(err, bracket.ErrConflict):
		m.seen["conflict"]++
	case errors.Is(err, brackettest.ErrCrashed):
		m.seen["crash"]++
		h.client.Restart(m.fault)
		h.suspects = map[string]time.Time{}
	case errors.Is(err, brackettest.ErrInjected):
		m.seen["injected"]++
	case errors.As(err, &cycle), errors.As(err, &inside), errors.As(err, &against), errors.As(err, &overlap):
		m.seen["refused plan"]++
	case err != nil:
		m.fail("%s: plan: %v", h.name, err)
	}
	if err != nil {
		m.note("%s plans in vain: %v", h.name, err)
		return plan, false
	}
	m.seen["plan"]++
	if set != m.sets[len(m.sets)-1] {
		m.seen["old policies"]++
	}
	m.note("%s plans at %s: %s", h.name, at.Format("15:04:05"), brief(plan))
	if err := (rollouttest.Step{Snapshot: s, Plan: plan, Dispatched: m.starts, Lagging: true}).Check(); err != nil && !m.lagged(err) {
		m.fail("%s: %v", h.name, err)
	}
	runs := map[string]bool{}
	for _, t := range s.Targets {
		for _, job := range t.Jobs {
			runs[job.Run] = true
		}
	}
	limits := map[string]int{}
	for _, p := range plan.Pools {
		limits[p.Key] = p.Max
	}
	for _, start := range plan.Start {
		if start.Reason == rollout.ReasonOverridden {
			m.free[start.Resource] = true
		}
		for _, claim := range start.Claims {
			name := fmt.Sprint(claim.Pool, claim.Token)
			if _, known := m.limits[name]; !known {
				if m.limits[name] = limits[claim.Pool]; start.Reason == rollout.ReasonOverridden || start.Reason == "slot_held" && m.edited["let past"] {
					m.limits[name] = 1000
				}
			}
		}
		own := lateStart{start, h, at, runs, limits}
		switch m.seen[string(start.Reason)]++; {
		case !m.faults || !m.chance(30):
			m.dispatch(own)
		case m.chance(80):
			m.late = append(m.late, own)
		}
	}
	m.giveBack(h, plan)
	return plan, true
}

// lagged: what the invariants look for in a view, and the view is of several times. The limit is checked against the truth: a start that a planner claimed in
// part, and claims the rest of, passes there for one that takes a place in both pools.
func (m *truth) lagged(err error) bool {
	for _, line := range strings.Split(err.Error(), "\n") {
		if strings.Contains(line, "invariant ") && !(strings.Contains(line, "invariant limit") || strings.Contains(line, "invariant order") || strings.Contains(line, "invariant forward") ||
			m.edited["any"] && strings.Contains(line, "invariant locked")) {
			return false
		}
	}
	return true
}

func brief(p rollout.Plan) string {
	var b strings.Builder
	for _, s := range p.Start {
		fmt.Fprintf(&b, " start %s (%s)", s.Run, s.Reason)
	}
	for _, e := range p.Events {
		fmt.Fprintf(&b, " %s %s %s", e.Kind, e.Group, e.Resource)
	}
	for _, record := range p.State.Pools {
		fmt.Fprintf(&b, " %s:", record.Key)
		for _, l := range record.Leases {
			fmt.Fprintf(&b, "%s %s#%d,", l.Resource, l.Group, l.Token)
		}
	}
	for _, o := range p.Orphans {
		fmt.Fprintf(&b, " orphan %s %s#%d", o.Pool, o.Resource, o.Token)
	}
	return b.String()
}

func (m *truth) dispatchLate() {
	late := m.late
	m.late = nil
	for _, start := range late {
		m.seen["late dispatch"]++
		m.dispatch(start)
	}
}

func (m *truth) record(pool string) concurrency.Record {
	value, _, err := m.store.Load(context.Background(), rollout.PoolRecordKey(pool))
	if err != nil {
		return concurrency.NewRecord(pool)
	}
	record, err := concurrency.ParseRecord(value)
	if err != nil {
		m.fail("%v", err)
	}
	return record
}

// executions are the open ones.
func (m *truth) executions() (open []bracket.ExecutionRecord) {
	prefix := bracket.ExecutionKey("", "")
	entries, err := m.store.List(context.Background(), prefix[:len(prefix)-1])
	if err != nil {
		m.fail("%v", err)
	}
	for _, entry := range entries {
		var record bracket.ExecutionRecord
		if err := json.Unmarshal(entry.Value, &record); err != nil {
			m.fail("%v", err)
		}
		if record.Open != nil {
			open = append(open, record)
		}
	}
	return open
}

// dispatch creates the job of a start, as a fair host does.
func (m *truth) dispatch(l lateStart) {
	start := l.Start
	if known, exists := m.starts[start.Run]; exists {
		if known.TargetID != start.TargetID || known.Version != start.Version || known.Purpose != start.Purpose {
			m.fail("run %s was %v and is now %v", start.Run, known, start)
		}
		return
	}
	for _, claim := range start.Claims {
		lease, held := m.record(claim.Pool).Lease(concurrency.Holder{Resource: start.Resource, Group: start.Group})
		if !held || lease.Token != claim.Token {
			m.seen["fenced"]++
			return
		}
	}
	if !slices.ContainsFunc(m.fleet.Targets, func(t rollout.Target) bool { return t.TargetID == start.TargetID }) {
		return
	}
	for _, job := range m.jobs[start.TargetID] {
		if !job.Status.Terminal() {
			m.seen["busy"]++
			return
		}
		if !l.seen[job.Run] {
			m.seen["unseen job"]++
			return
		}
	}
	m.check(l)
	created := m.now.Add(l.host.skew)
	if created.Before(l.at) {
		created = l.at
	}
	m.seen["start"]++
	m.starts[start.Run] = start
	m.jobs[start.TargetID] = append(slices.Clip(m.jobs[start.TargetID]), rollout.Job{Run: start.Run, Version: start.Version, Status: rollout.JobInProgress, CreatedAt: created})
	m.note("%s dispatches %s", l.host.name, start.Run)
}

// in is who is at work in a pool by a claim to it.
func (m *truth) in(pool string) map[string]bool {
	in := map[string]bool{}
	for _, start := range m.active() {
		if holding(start, pool) {
			in[start.Resource] = true
		}
	}
	for _, record := range m.executions() {
		for _, start := range m.starts {
			if start.Resource == record.Resource && start.Group == record.Open.Group && holding(start, pool) {
				in[record.Resource] = true
			}
		}
	}
	return in
}

// check looks at a job that is about to begin.
func (m *truth) check(l lateStart) {
	start := l.Start
	busy := slices.ContainsFunc(m.active(), func(s rollout.Start) bool { return s.Resource == start.Resource }) ||
		slices.ContainsFunc(m.executions(), func(r bracket.ExecutionRecord) bool { return r.Resource == start.Resource }) ||
		slices.ContainsFunc(m.stored(rollout.Snapshot{}).State.Pools, func(r concurrency.Record) bool {
			return slices.ContainsFunc(r.Leases, func(l concurrency.Lease) bool { return l.Resource == start.Resource && !holding(start, r.Key) })
		})
	open := slices.ContainsFunc(m.executions(), func(r bracket.ExecutionRecord) bool {
		grown := len(r.Open.Merged) > 0 || m.edited["members"]
		return grown && r.Resource == start.Resource && r.Open.Group == start.Group
	})
	if start.Reason == "slot_already_down" {
		m.seen["already down"]++
	}
	m.seen[map[bool]string{true: "execution", false: "alone"}[!strings.HasPrefix(start.Group, "target/")]]++
	for _, claim := range start.Claims {
		in := m.in(claim.Pool)
		if in[start.Resource] || m.free[start.Resource] || start.Reason == rollout.ReasonOverridden || busy && m.edited["scope"] || open {
			if !in[start.Resource] {
				m.free[start.Resource+" "+claim.Pool] = true // it came in beside the limit
			}
			continue
		}
		m.seen["entered"]++
		in[start.Resource] = true
		maps.DeleteFunc(in, func(id string, _ bool) bool { return m.free[id] || m.free[id+" "+claim.Pool] })
		if limit := max(l.max[claim.Pool], m.limits[fmt.Sprint(claim.Pool, claim.Token)]); len(in) > limit {
			m.fail("%s of %s enters pool %s of limit %d, by %s: %v", start.Run, l.host.name, claim.Pool, limit, start.Reason, slices.Sorted(maps.Keys(in)))
		}
		if family, value, grouped := strings.Cut(claim.Pool, "/"); grouped && m.oneKey(l.host.set, family) && !m.edited["scope"] && len(m.free) == 0 { // who is unavailable makes its key active
			for _, other := range []string{"eu", "us"} {
				if who := m.in(family + "/" + other); other != value {
					maps.DeleteFunc(who, func(id string, _ bool) bool { return m.free[id] })
					if len(who) > 0 {
						m.fail("%s of %s makes the key %s active, and %v is active in %s", start.Run, l.host.name, value, who, other)
					}
				}
			}
		}
	}
	if start.Purpose == rollout.PurposeRollback {
		return
	}
	order := func(id string) int {
		return slices.IndexFunc(m.fleet.Versions, func(v rollout.Version) bool { return v.ID == id })
	}
	if has := m.current[start.TargetID]; order(start.Version) < order(has) && !m.edited["policies"] {
		m.fail("%s of %s takes %s back", start.Run, l.host.name, has)
	}
	for _, record := range m.executions() {
		if open := record.Open; record.Resource == start.Resource && open.Group == start.Group && open.Recovery == "" {
			m.member(start, open)
		}
	}
}

// oneKey reports whether a rule allows one active key only.
func (m *truth) oneKey(set *rollout.PolicySet, rule string) bool {
	text := m.story[slices.Index(m.sets, set)]
	_, own, found := strings.Cut(text, `{"id":"`+rule+`"`)
	own, _, _ = strings.Cut(own, "}}")
	return found && strings.Contains(own, "maxActiveKeys")
}

// member makes sure that everybody who comes before in an execution has succeeded by a job.
func (m *truth) member(start rollout.Start, open *bracket.Execution) {
	m.seen["member"]++
	own := slices.IndexFunc(open.Members, func(e bracket.ExecutionMember) bool { return e.Deployment == start.Deployment })
	if own < 0 {
		m.fail("%s is no member", start.Run)
	}
	for _, other := range open.Members {
		before := other.Role == bracket.Pre && open.Members[own].Role != bracket.Pre || other.Role == bracket.Main && open.Members[own].Role == bracket.Post
		if !before || other.Status == bracket.MemberSkipped || other.Status == bracket.MemberCancelled || other.Status == bracket.MemberRolledBack {
			continue
		}
		target := rollout.TargetID{Resource: start.Resource, Environment: start.Environment, Deployment: other.Deployment}
		if !slices.ContainsFunc(m.jobs[target], func(j rollout.Job) bool {
			group := m.starts[j.Run].Group
			return j.Status == rollout.JobSuccessful && (group == open.Group || slices.Contains(open.Merged, group))
		}) {
			m.fail("%s begins while %s is %s", start.Run, other.Deployment, other.Status)
		}
	}
}

// endSome ends a job.
func (m *truth) endSome() {
	active := m.active()
	if len(active) == 0 {
		return
	}
	start := active[m.evenly(len(active))]
	jobs := slices.Clone(m.jobs[start.TargetID])
	for k := range jobs {
		if jobs[k].Run != start.Run {
			continue
		}
		jobs[k].Status, jobs[k].CompletedAt = rollout.JobSuccessful, m.now.Add(m.someHost().skew)
		if m.faults && m.chance(12) {
			jobs[k].Status = rollout.JobStatus(m.of("failure", "failure", "cancelled"))
		}
		if jobs[k].Status == rollout.JobSuccessful {
			m.current[start.TargetID] = start.Version
		}
		m.note("%s: %s", start.Run, jobs[k].Status)
	}
	m.jobs[start.TargetID] = jobs
}

// edit changes the truth.
func (m *truth) edit() {
	m.edited["any"] = true
	f := &m.fleet
	r := m.evenly(len(f.Resources))
	switch m.of("version", "version", "version", "approval", "policies", "relabelled", "removed", "added", "unavailable", "deleted", "override") {
	case "version":
		m.ids++
		d := f.Deployments[m.evenly(len(f.Deployments))].ID
		v := version(d, fmt.Sprint(d, "9", m.ids), m.now.Add(-time.Second))
		v.Tag, v.Metadata = "4", map[string]string{"channel": "stable"}
		f.Versions = append(slices.Clip(f.Versions), v)
		m.note("release %s", v.ID)
	case "approval":
		m.approve()
	case "policies":
		if m.chance(50) && m.load(m.rules()) {
			m.edited["policies"], m.edited["scope"] = true, true
		}
	case "relabelled":
		m.edited["scope"] = true
		f.Resources = slices.Clone(f.Resources)
		f.Resources[r].Metadata = map[string]string{"region": m.of("eu", "us")}
		m.seen["relabelled"]++
		m.note("%v", f.Resources[r])
	case "removed":
		if len(f.Targets) > 2 {
			k := m.evenly(len(f.Targets))
			m.note("remove %v", f.Targets[k].TargetID)
			f.Targets = slices.Delete(slices.Clone(f.Targets), k, k+1)
			m.seen["removed"]++
			m.edited["members"] = true
		}
	case "added":
		for _, e := range f.Environments {
			for _, d := range f.Deployments {
				id := rollout.TargetID{Resource: f.Resources[r].ID, Environment: e.ID, Deployment: d.ID}
				if !slices.ContainsFunc(f.Targets, func(t rollout.Target) bool { return t.TargetID == id }) {
					m.note("add %v", id)
					f.Targets = append(slices.Clip(f.Targets), rollout.Target{TargetID: id, JoinedAt: m.now})
					m.edited["members"] = true
					return
				}
			}
		}
	case "unavailable":
		if m.chance(30) {
			f.Unavailable = nil
			if m.chance(60) {
				f.Unavailable = []string{f.Resources[r].ID}
			}
			m.note("unavailable %v", f.Unavailable)
			m.seen["unavailable"]++
		}
	case "deleted":
		if len(f.Resources) > 2 && m.chance(20) {
			id := f.Resources[r].ID
			f.Resources = slices.Delete(slices.Clone(f.Resources), r, r+1)
			f.Targets = slices.DeleteFunc(slices.Clone(f.Targets), func(t rollout.Target) bool { return t.Resource == id })
			f.DeletedResources = append(slices.Clip(f.DeletedResources), id)
			m.note("delete %s", id)
			m.seen["deleted"]++
			m.edited["members"] = true
		}
	case "override":
		m.ids++
		f.Overrides = append(slices.Clip(f.Overrides), rollout.Override{ID: fmt.Sprint(m.ids), Rule: m.of("limit0", "limit1", "bracket", "approval0"),
			Version: f.Versions[m.evenly(len(f.Versions))].ID, CreatedAt: m.now, CreatedBy: "ann", Reason: "urgent", ExpiresAt: m.now.Add(5 * time.Minute)})
		m.edited["let past"] = true
		m.note("override %+v", f.Overrides[len(f.Overrides)-1])
	}
}

func (m *truth) approve() {
	for _, v := range m.fleet.Versions {
		for _, e := range m.fleet.Environments {
			m.fleet.Approvals = append(slices.Clip(m.fleet.Approvals), rollout.Approval{Version: v.ID, Deployment: v.Deployment, Environment: e.ID, By: "ann", Status: rollout.Approved, At: m.now})
		}
	}
}

// grace is how long a lease must have been nobody's in all plans of a host before that gives it back, as package controller does.
const grace = 3 * time.Minute

func (m *truth) giveBack(h *viewer, plan rollout.Plan) {
	suspects := map[string]time.Time{}
	for _, orphan := range plan.Orphans {
		name := fmt.Sprint(orphan.Pool, orphan.Token)
		since, known := h.suspects[name]
		if !known {
			since = m.now
		}
		suspects[name] = since
		if m.depth > 0 || m.now.Sub(since) < grace {
			continue
		}
		for _, part := range parts { // it must not look at what was so long ago
			m.refresh(h, part)
		}
		now, err := h.set.Plan(m.stored(h.view), m.now.Add(h.skew))
		if err != nil || !slices.ContainsFunc(now.Orphans, func(l concurrency.Lease) bool {
			return l.Pool == orphan.Pool && l.Holder == orphan.Holder && l.Token == orphan.Token
		}) {
			continue
		}
		for _, start := range m.active() {
			if start.Resource == orphan.Resource && start.Group == orphan.Group && holding(start, orphan.Pool) {
				m.fail("%+v is called an orphan while %s is at work", orphan, start.Run)
			}
		}
		record := m.record(orphan.Pool)
		_, revision, _ := m.store.Load(m.Context(), rollout.PoolRecordKey(orphan.Pool))
		next, err := record.Release(orphan.Holder, orphan.Token)
		if err != nil {
			continue
		}
		value, err := json.Marshal(next)
		if err == nil {
			_, err = m.store.Save(m.Context(), rollout.PoolRecordKey(orphan.Pool), value, revision)
		}
		if err != nil {
			m.fail("%v", err)
		}
		m.seen["given back"]++
		m.note("%s gives back %s %s#%d", h.name, orphan.Pool, orphan.Resource, orphan.Token)
	}
	h.suspects = suspects
}

// stored is a view with the state that is stored now.
func (m *truth) stored(s rollout.Snapshot) rollout.Snapshot {
	ctx := context.Background()
	list := func(prefix string, decode func([]byte) error) {
		entries, err := m.store.List(ctx, prefix)
		for _, entry := range entries {
			err = errors.Join(err, decode(entry.Value))
		}
		if err != nil {
			m.fail("%v", err)
		}
	}
	s.State = rollout.State{}
	list("bracket/group/", func(b []byte) error {
		r := new(bracket.GroupRecord)
		s.State.Brackets = append(s.State.Brackets, r)
		return json.Unmarshal(b, r)
	})
	list("bracket/execution/", func(b []byte) error {
		r := new(bracket.ExecutionRecord)
		s.State.Executions = append(s.State.Executions, r)
		return json.Unmarshal(b, r)
	})
	list("rollout/", func(b []byte) error {
		var r rollout.RolloutRecord
		err := json.Unmarshal(b, &r)
		s.State.Rollouts = append(s.State.Rollouts, r)
		return err
	})
	list("pool/", func(b []byte) error {
		r, err := concurrency.ParseRecord(b)
		s.State.Pools = append(s.State.Pools, r)
		return err
	})
	return s
}

// rest lets everybody see everything, and nothing fail any more: then everything ends.
func (m *truth) rest() {
	m.note("REST")
	m.faults = false
	m.fleet.Unavailable = nil
	m.approve()
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
		if !ok && round > 20 && m.seen["refused plan"] > 0 {
			return // policies that this fleet does not allow: nobody can plan
		}
		m.story = m.story[:max(before, len(m.story)-1)]
		if len(m.starts) > jobs || len(m.active()) > 0 {
			m.endSome()
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
		m.seen["rest"]++
		return
	}
}

// operate answers what only an operator can.
func (m *truth) operate(plan rollout.Plan) (did bool) {
	for wait := range plan.Waiting.All() {
		if !slices.ContainsFunc(wait.Blockers, func(b rollout.Verdict) bool {
			return slices.ContainsFunc(b.On, func(c rollout.Condition) bool { return c.Kind == rollout.OnOperator })
		}) {
			continue
		}
		for _, record := range m.executions() {
			if record.Resource == wait.Resource && record.Open.Environment == wait.Environment {
				m.ids++
				c := bracket.Command{ID: fmt.Sprint("op", m.ids), Kind: bracket.Resolve, Group: record.Open.Group, Resource: record.Resource}
				m.note("%+v", c)
				for _, h := range m.hosts {
					h.view.Commands = append(slices.Clip(h.view.Commands), c)
				}
				did = true
			}
		}
	}
	return did
}

// ended reports whether nothing is left that should not be.
func (m *truth) ended(plan rollout.Plan) bool {
	circle := slices.ContainsFunc(waitingOf(plan), func(w rollout.Waiting) bool {
		return slices.ContainsFunc(w.Blockers, func(v rollout.Verdict) bool {
			return slices.Contains([]rollout.Reason{rollout.ReasonDependencyUnmatched, rollout.ReasonDependencyUnmet}, v.Reason)
		})
	})
	if circle {
		m.seen["circle"]++
		return true
	}
	if len(m.executions()) > 0 && !m.edited["members"] {
		return false
	}
	for _, record := range m.stored(rollout.Snapshot{}).State.Pools {
		for _, lease := range record.Leases {
			if !slices.ContainsFunc(m.executions(), func(r bracket.ExecutionRecord) bool { return r.Resource == lease.Resource }) {
				return false
			}
		}
	}
	for w := range plan.Waiting.All() {
		if slices.ContainsFunc(w.Blockers, func(v rollout.Verdict) bool { return strings.HasPrefix(string(v.Reason), "slot_") }) && !m.edited["members"] {
			return false
		}
	}
	return true
}
