package rollouttest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/rollout"
)

// check looks at a job that is about to begin.
func (m *truth) check(l lateStart) {
	start := l.Start
	busy := slices.ContainsFunc(m.active(), func(s rollout.Start) bool { return s.Resource == start.Resource }) ||
		slices.ContainsFunc(m.executions(), func(r *bracket.ExecutionRecord) bool { return r.Resource == start.Resource }) || m.leased(start)
	open := slices.ContainsFunc(m.executions(), func(r *bracket.ExecutionRecord) bool {
		grown := len(r.Open.Merged) > 0 || m.edited["members"]
		return grown && r.Resource == start.Resource && (r.Open.Group == start.Group || start.Reason == "slot_already_down")
	})
	if start.Reason == rollout.ReasonOverridden {
		m.free[start.Resource] = true
	}
	if start.Reason == "slot_already_down" {
		m.seen["already down"]++
	}
	m.seen[map[bool]string{true: "execution", false: "alone"}[!strings.HasPrefix(start.Group, "target/")]]++
	for _, claim := range start.Claims {
		in := m.in(claim.Pool)
		if in[start.Resource] || m.free[start.Resource] || start.Reason == rollout.ReasonOverridden || m.edited["let past"] && start.Reason == "slot_already_down" || busy && m.edited["scope"] || open {
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
		if family, value, grouped := strings.Cut(claim.Pool, "/"); grouped && m.oneKey(l.host.set, family) && !m.edited["scope"] && !m.edited["let past keys"] && len(m.free) == 0 { // who is unavailable makes its key active
			m.seen["key"]++
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
		m.seen["taken back"]++
		return
	}
	if has := m.current[start.TargetID]; m.age(start.Version) < m.age(has) && !m.edited["policies"] {
		m.fail("%s of %s takes %s back", start.Run, l.host.name, has)
	}
	for _, record := range m.executions() {
		if open := record.Open; record.Resource == start.Resource && open.Group == start.Group && open.Recovery == "" {
			m.member(start, open)
		}
	}
}

// age is the place of a version in the order in which they came, -1 for none.
func (m *truth) age(version string) int {
	return slices.IndexFunc(m.fleet.Versions, func(v rollout.Version) bool { return v.ID == version })
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

// oneKey reports whether a rule allows one active key only.
func (m *truth) oneKey(set *rollout.PolicySet, rule string) bool {
	text := m.texts[set]
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
	if open.Members[own].Generation != 0 { // the run began before a merge, and comes before what that has added
		return
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

// remember notes the groups of a record that was saved. A group locks the same versions for ever.
func (m *truth) remember(record []byte) {
	var r bracket.GroupRecord
	if err := json.Unmarshal(record, &r); err != nil {
		m.fail("%v", err)
	}
	for _, group := range r.Closed {
		known, closed := m.groups[group.ID]
		if closed && !slices.EqualFunc(group.Members, known.Members, func(a, b bracket.GroupMember) bool {
			return a.Deployment == b.Deployment && slices.Equal(a.Locks, b.Locks)
		}) {
			m.fail("%s locks %v, and has locked %v", group.ID, group.Members, known.Members)
		}
		m.groups[group.ID] = group
	}
}

// locked makes sure that what starts in a bracket was locked by its group, or by one that was
// merged into its execution, or is what the target runs or has run: a plan alone does not hold
// every such group.
func (m *truth) locked(h *viewer, plan rollout.Plan, start rollout.Start) {
	if m.groups[start.Group] == nil || m.had[start.TargetID.String()+start.Version] {
		return
	}
	groups := []string{start.Group}
	for _, record := range plan.State.Executions {
		if record.Resource == start.Resource && record.Open != nil && record.Open.Group == start.Group {
			groups = append(groups, record.Open.Merged...)
		}
	}
	for _, id := range groups {
		for _, member := range m.groups[id].Members {
			if member.Deployment == start.Deployment && slices.ContainsFunc(member.Locks, func(v bracket.VersionMark) bool { return v.ID == start.Version }) {
				m.seen["locked"]++
				return
			}
		}
	}
	m.fail("%s: starts %s of %s, which none of %v has locked", h.name, start.Run, start.Version, groups)
}

// place is the limit under which a resource has got the place in a pool that its leases hold: a
// limit that is lower by now takes nothing back. There is none for a lease that says that an
// override gave it, by a plan that was saved in part and made anew. What a turn believes in that is
// not over, and has claimed a lease already, is not known yet: it had room for all that are there.
func (m *truth) place(plan rollout.Plan, pool, resource string) (limit int) {
	for _, record := range plan.State.Pools {
		for _, lease := range record.Leases {
			if record.Key == pool && lease.Resource == resource {
				believed, known := m.limits[fmt.Sprint(pool, lease.Token)]
				if !known && m.depth > 0 {
					believed = m.places(pool)
				}
				limit = max(limit, believed)
				if lease.Reason == "overridden" {
					limit = unlimited
				}
			}
		}
	}
	return limit
}

// places counts the resources with a lease in a pool.
func (m *truth) places(pool string) int {
	on := map[string]bool{}
	for _, lease := range m.record(pool).Leases {
		on[lease.Resource] = true
	}
	return len(on)
}

// lagged: an execution is finished as it began, and under other policies somebody may have deployed
// a newer version there that this host has seen by now.
func (m *truth) lagged(err error) bool {
	for line := range strings.SplitSeq(err.Error(), "\n") {
		if strings.Contains(line, "invariant ") && !(m.edited["policies"] && strings.Contains(line, "invariant forward")) {
			return false
		}
	}
	return true
}

// ended reports whether nothing is left that should not be.
func (m *truth) ended(plan rollout.Plan) bool {
	circle := slices.ContainsFunc(waitingOf(plan), func(w rollout.Waiting) bool {
		return slices.ContainsFunc(w.Blockers, func(v rollout.Verdict) bool {
			return slices.Contains([]rollout.Reason{rollout.ReasonDependencyUnmatched, rollout.ReasonDependencyUnmet, rollout.ReasonVersionUnmet}, v.Reason)
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
			if !slices.ContainsFunc(m.executions(), func(r *bracket.ExecutionRecord) bool { return r.Resource == lease.Resource }) {
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

// arrived makes sure that no version was lost on the way: in the end every target runs the newest
// one, or waits for a time or an event. An execution that is still open, for a target was removed
// while it was at work there, keeps all others of its resource.
func (m *truth) arrived(plan rollout.Plan) {
	if m.edited["policies"] { // who had a group of its own may be a hook by now, which runs with others only
		return
	}
	open := map[string]bool{}
	for _, record := range m.executions() {
		open[record.Resource] = true
	}
	newest := func(t rollout.TargetID) (id string) {
		for _, v := range m.fleet.Versions {
			for _, r := range m.fleet.Resources {
				if v.Deployment == t.Deployment && r.ID == t.Resource && scopes[v.TargetSelector](r) {
					id = v.ID
				}
			}
		}
		return id
	}
	expects := map[rollout.TargetID]bool{}
	for w := range plan.Waiting.All() {
		expects[w.TargetID] = slices.ContainsFunc(w.Blockers, func(v rollout.Verdict) bool { return len(v.On) > 0 || !v.Until.IsZero() })
	}
	for _, t := range m.fleet.Targets {
		switch has := m.current[t.TargetID]; {
		case m.age(has) >= m.age(newest(t.TargetID)): // what is newer was for it once
			m.seen["arrived"]++
			if slices.ContainsFunc(m.fleet.Versions, func(v rollout.Version) bool { return v.Deployment == t.Deployment && m.age(v.ID) > m.age(has) }) {
				m.seen["not for it"]++
			}
		case !expects[t.TargetID] && !open[t.Resource]:
			m.fail("%v has %s for ever, and %s is there: %s\n%s", t.TargetID, has, newest(t.TargetID), brief(plan), waits(plan))
		}
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

// executions are the open ones. Each is asked for many times before it changes.
func (m *truth) executions() (open []*bracket.ExecutionRecord) {
	entries, err := m.store.List(context.Background(), "bracket/execution/")
	if err != nil {
		m.fail("%v", err)
	}
	for _, entry := range entries {
		record, known := m.decoded[string(entry.Value)]
		if !known {
			record = new(bracket.ExecutionRecord)
			if err := json.Unmarshal(entry.Value, record); err != nil {
				m.fail("%v", err)
			}
			m.decoded[string(entry.Value)] = record
		}
		if record.Open != nil {
			open = append(open, record)
		}
	}
	return open
}

// collecting returns the groups that brackets are collecting.
func (m *truth) collecting() (groups []string) {
	entries, err := m.store.List(context.Background(), "bracket/group/")
	if err != nil {
		m.fail("%v", err)
	}
	for _, entry := range entries {
		var record bracket.GroupRecord
		if err := json.Unmarshal(entry.Value, &record); err != nil {
			m.fail("%v", err)
		}
		if record.Collecting != nil {
			groups = append(groups, record.Collecting.ID)
		}
	}
	return groups
}

// leased reports whether a resource has a lease in a pool of which the start knows nothing.
func (m *truth) leased(start rollout.Start) bool {
	entries, err := m.store.List(context.Background(), "pool/")
	for _, entry := range entries {
		if !strings.Contains(string(entry.Value), strconv.Quote(start.Resource)) {
			continue
		}
		record, wrong := concurrency.ParseRecord(entry.Value)
		err = errors.Join(err, wrong)
		if !holding(start, record.Key) && slices.ContainsFunc(record.Leases, func(l concurrency.Lease) bool { return l.Resource == start.Resource }) {
			return true
		}
	}
	if err != nil {
		m.fail("%v", err)
	}
	return false
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

func brief(p rollout.Plan) string {
	var b strings.Builder
	for _, s := range p.Start {
		fmt.Fprintf(&b, " start %s %s (%s)", s.Run, s.Version, s.Reason)
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
