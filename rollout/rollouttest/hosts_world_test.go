package rollouttest_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/bracket/brackettest"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/internal/testkit"
	"github.com/tranche-dev/tranche/rollout"
)

func newTruth(t *rapid.T, compiler rollout.Compiler, seen testkit.Tally) *truth {
	m := &truth{drawn: drawn{t}, seen: seen, compiler: compiler, now: at(2, 9, 0), store: &bracket.MemoryStore{}, jobs: map[rollout.TargetID][]rollout.Job{}, current: map[rollout.TargetID]string{},
		starts: map[string]rollout.Start{}, limits: map[string]int{}, free: map[string]bool{}, edited: map[string]bool{}, groups: map[string]*bracket.Group{}, had: map[string]bool{}, texts: map[*rollout.PolicySet]string{}, decoded: map[string]*bracket.ExecutionRecord{}, faults: true}
	m.eager = m.number(8, 8, 30)
	f := &m.fleet
	for _, id := range []string{"prod", "staging"}[:m.number(1, 1, 2)] {
		f.Environments = append(f.Environments, rollout.Environment{ID: id, Name: id})
	}
	newest := map[string]string{}
	for _, id := range []string{"a", "b", "c", "d"}[:m.number(1, 2, 3, 4, 4)] {
		f.Deployments = append(f.Deployments, rollout.Deployment{ID: id, Name: id})
		for n := range m.number(2, 2, 3) {
			v := version(id, fmt.Sprint(id, n+1), m.now.AddDate(0, 0, n-9))
			v.Tag, v.Metadata = fmt.Sprint(n+1), map[string]string{"channel": "stable"}
			if n > 0 {
				v.TargetSelector, v.Dependencies = m.scope(), m.dependencies(id)
			}
			f.Versions = append(f.Versions, v)
			newest[id] = v.ID
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
					if m.current[t.TargetID] = d.ID + "1"; m.chance(30) { // not everybody begins in the same place
						m.current[t.TargetID] = newest[d.ID]
					}
					m.had[t.TargetID.String()+m.current[t.TargetID]] = true
				}
			}
		}
	}
	if !m.load(m.rules()) {
		return nil
	}
	for k := range m.number(2, 2, 3) {
		h := &viewer{name: fmt.Sprint("h", k), skew: time.Duration(m.number(0, 0, 30, 60)) * time.Second, counts: m.chance(30), suspects: map[string]time.Time{}}
		h.client = brackettest.NewFaultStore(ledger{m.store, m}, m.fault)
		for _, part := range parts {
			m.refresh(h, part)
		}
		switch d := f.Deployments[m.evenly(len(f.Deployments))].ID; { // a group that it closes locks what it has heard of
		case m.chance(40):
			h.view.Versions = slices.DeleteFunc(h.view.Versions, func(v rollout.Version) bool { return v.Deployment == d && v.ID != d+"1" })
		case m.chance(30):
			h.view.Versions = slices.DeleteFunc(h.view.Versions, func(v rollout.Version) bool { return v.ID == d+"2" })
		}
		m.hosts = append(m.hosts, h)
	}
	return m
}

// rules draws policies: a bracket with hooks or none, and pools that share resources with it, one
// another, and deployments that no bracket has.
func (m *truth) rules() string {
	limit := func(id string) string {
		text := `{"id":"` + id + `","resourceConcurrency":{"groupSelector":"` + m.of("true", "true", "resource.metadata['region'] == 'eu'", "resource.name != 'r1'") + `","limit":` + m.of("1", "1", "2", `"50%"`, `"34%"`)
		if m.chance(35) {
			text += `,"groupBy":"resource.metadata['region']"` + m.maybe(60, func() string { return `"maxActiveKeys":1` })
		} else {
			text += m.maybe(15, func() string { return `"sharedPool":"shared"` })
		}
		text += m.maybe(15, func() string {
			return `"stuckAfterSeconds":60` + m.maybe(50, func() string { return `"onStuck":"quarantine"` })
		})
		text += m.maybe(20, func() string {
			return `"rate":{"limit":` + m.of("1", "2") + `,"periodSeconds":` + m.of("60", "300") + `}`
		})
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
		for _, other := range []struct {
			id      string
			percent int
			rule    func() string
		}{
			{"back", 20, m.rollback}, {"shut", 10, m.shut}, {"cooldown", 8, func() string { return `"versionCooldown":{"intervalSeconds":` + m.seconds(30, 120) + `}` }},
			{"stages", 10, m.progression}, {"only", 8, m.drawn.versions},
		} {
			if m.chance(other.percent) {
				rules = append(rules, fmt.Sprintf(`{"id":"%s%d",%s}`, other.id, k, other.rule()))
			}
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

// shut draws a window that is shut for some of the time.
func (m *truth) shut() string {
	return `"deploymentWindow":{"allowWindow":false,"from":"2026-03-11T09:01:00Z","until":"2026-03-11T09:0` + m.seconds(2, 4) + `:00Z"` + m.maybe(50, func() string { return `"firstDeploy":"apply"` }) + `}`
}

// dependencies draws what a version needs on its resource.
func (m *truth) dependencies(deployment string) []rollout.VersionDependency {
	if !m.chance(10) {
		return nil
	}
	other := m.of("a", "b", "c")
	if other == deployment {
		return nil
	}
	return []rollout.VersionDependency{{Deployment: other, VersionSelector: m.of("version.tag != '1'", "version.tag >= '3'")}}
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
	m.sets, m.texts[set] = append(m.sets, set), text
	m.note("policies %s", text)
	return true
}

// edit changes the truth.
func (m *truth) edit() {
	m.edited["any"] = true
	f := &m.fleet
	r := m.evenly(len(f.Resources))
	switch m.of("version", "version", "version", "frozen", "approval", "thawed", "policies", "relabelled", "removed", "added", "unavailable", "deleted", "override", "paused", "command", "frozen") {
	case "version":
		m.ids++
		d := f.Deployments[m.evenly(len(f.Deployments))].ID
		v := version(d, fmt.Sprintf("%s9%02d", d, m.ids), m.now.Add(-time.Second)) // in order of ids
		v.Tag, v.Metadata = "4", map[string]string{"channel": "stable"}
		v.TargetSelector, v.Dependencies, v.Priority = m.scope(), m.dependencies(d), m.number(0, 0, 1, -1)
		f.Versions = append(slices.Clip(f.Versions), v)
		m.note("release %s %s", v.ID, v.TargetSelector)
	case "paused":
		if !m.chance(40) {
			return
		}
		k := m.evenly(len(f.Versions))
		f.Versions = slices.Clone(f.Versions)
		if f.Versions[k].Status = rollout.VersionReady; m.chance(60) {
			f.Versions[k].Status = rollout.VersionPaused
		}
		m.note("%s is %s", f.Versions[k].ID, f.Versions[k].Status)
		m.seen["paused"]++
	case "command":
		if groups := m.collecting(); len(groups) > 0 && m.chance(50) {
			m.command(bracket.Command{Kind: bracket.Close, Group: groups[m.evenly(len(groups))]})
			return
		}
		if open := m.executions(); len(open) > 0 {
			record := open[m.evenly(len(open))]
			x := record.Open
			m.command(bracket.Command{Kind: bracket.CommandKind(m.of("retry", "skip", "resolve", "abandon")), Group: x.Group, Resource: record.Resource, Deployment: x.Members[m.evenly(len(x.Members))].Deployment})
		}
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
	case "frozen":
		if len(f.Targets) == 0 { // the last was deleted with its resource
			return
		}
		m.ids++
		z := rollout.Freeze{ID: fmt.Sprint("z", m.ids), CreatedAt: m.now, CreatedBy: "bob", Reason: "INC-7", FinishBegun: m.chance(50)}
		switch t := f.Targets[m.evenly(len(f.Targets))]; m.of("", "resource", "resource", "deployment", "target") {
		case "resource":
			z.Resource = t.Resource
		case "deployment":
			z.Deployment = t.Deployment
		case "target":
			z.Resource, z.Environment, z.Deployment = t.Resource, t.Environment, t.Deployment
		}
		if m.chance(60) {
			z.ExpiresAt = m.now.Add(time.Duration(m.number(20, 60, 300)) * time.Second)
		}
		z.PauseCurves = z.Resource == "" && m.chance(60)
		f.Freezes = append(slices.Clip(f.Freezes), z)
		m.note("freeze %+v", z)
	case "thawed":
		if n := len(f.Freezes); n > 0 {
			k := m.evenly(n)
			m.note("lift %s", f.Freezes[k].ID)
			f.Freezes = slices.Clone(f.Freezes)
			if z := &f.Freezes[k]; z.PauseCurves && m.now.After(z.CreatedAt) && (z.ExpiresAt.IsZero() || z.ExpiresAt.After(m.now)) && m.chance(70) {
				z.ExpiresAt = m.now // its time still counts for no curve
			} else {
				f.Freezes = slices.Delete(f.Freezes, k, k+1)
			}
			m.seen["thawed"]++
		}
	}
}

// frozen reports whether a target is frozen for a host, or in truth, at an instant.
func frozen(list []rollout.Freeze, t rollout.TargetID, at time.Time) bool {
	return slices.ContainsFunc(list, func(z rollout.Freeze) bool {
		return (z.Resource == "" || z.Resource == t.Resource) && (z.Environment == "" || z.Environment == t.Environment) && (z.Deployment == "" || z.Deployment == t.Deployment) &&
			!z.CreatedAt.After(at) && (z.ExpiresAt.IsZero() || z.ExpiresAt.After(at))
	})
}

// command gives an operator's command. One who resolves an execution, or skips a member, says that
// nothing is at work there.
func (m *truth) command(c bracket.Command) {
	m.ids++
	if c.ID = fmt.Sprint("op", m.ids); c.Kind == bracket.Resolve || c.Kind == bracket.Abandon {
		c.Deployment = ""
	}
	if c.Kind == bracket.Resolve || c.Kind == bracket.Skip {
		m.free[c.Resource] = true
	}
	m.fleet.Commands = append(slices.Clip(m.fleet.Commands), c)
	m.note("%+v", c)
	m.seen["command "+string(c.Kind)]++
}

func (m *truth) approve() {
	for _, v := range m.fleet.Versions {
		for _, e := range m.fleet.Environments {
			m.fleet.Approvals = append(slices.Clip(m.fleet.Approvals), rollout.Approval{Version: v.ID, Deployment: v.Deployment, Environment: e.ID, By: "ann", Status: rollout.Approved, At: m.now})
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
			m.had[start.TargetID.String()+start.Version] = true
			if m.faults && m.chance(15) {
				jobs[k].Verification = rollout.VerificationRunning
			}
		}
		m.note("%s: %s %s", start.Run, jobs[k].Status, jobs[k].Verification)
	}
	m.jobs[start.TargetID] = jobs
}

// verify tells what came of the checks of a job, or of all.
func (m *truth) verify(all bool) {
	for _, t := range m.fleet.Targets {
		for k := range m.jobs[t.TargetID] {
			if m.jobs[t.TargetID][k].Verification != rollout.VerificationRunning {
				continue
			}
			jobs := slices.Clone(m.jobs[t.TargetID])
			if jobs[k].Verification = rollout.VerificationPassed; m.faults && m.chance(40) {
				jobs[k].Verification = rollout.VerificationFailed
			}
			m.jobs[t.TargetID] = jobs
			m.note("%s: %s", jobs[k].Run, jobs[k].Verification)
			m.seen["verification "+string(jobs[k].Verification)]++
			if !all {
				return
			}
		}
	}
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

func holding(start rollout.Start, pool string) bool {
	return slices.ContainsFunc(start.Claims, func(c rollout.Claim) bool { return c.Pool == pool })
}

// scope draws a targetSelector.
func (m *truth) scope() string {
	if !m.chance(25) {
		return ""
	}
	return m.of(slices.Sorted(maps.Keys(scopes))...)
}

// scopes are targetSelectors, and what they mean.
var scopes = map[string]func(rollout.Resource) bool{
	"":                                    func(rollout.Resource) bool { return true },
	"resource.metadata['region'] == 'eu'": func(r rollout.Resource) bool { return r.Metadata["region"] == "eu" },
	"resource.name == 'r1'":               func(r rollout.Resource) bool { return r.Name == "r1" },
	"resource.name != 'r1'":               func(r rollout.Resource) bool { return r.Name != "r1" },
}
