package rollouttest_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/rollout"
)

// explained makes sure that explanations agree with the plan.
func (u *upheaval) explained(plan rollout.Plan) {
	if u.chance(15) {
		u.untilsHold(plan)
	}
	for _, t := range u.s.Targets {
		if slices.Contains(u.s.DeletedResources, t.Resource) {
			continue
		}
		x, err := plan.Explain(t.TargetID)
		if err != nil {
			u.report(u.editor, "explain", "%v", err)
			continue
		}
		_ = x.String()
		wait, waits := plan.Waiting.Of(t.TargetID)
		var listed *rollout.VersionExplanation
		for n := range x.Versions {
			if x.Versions[n].Listed {
				if listed != nil {
					u.report(u.editor, "explain", "lists two versions\n%v", x)
				}
				listed = &x.Versions[n]
			}
			if x.Versions[n].Prospect == rollout.ProspectStarts && !slices.ContainsFunc(plan.Start, func(s rollout.Start) bool { return s.TargetID == t.TargetID && s.Version == x.Versions[n].Version }) {
				u.report(u.editor, "explain", "starts nothing\n%v", x)
			}
		}
		switch {
		case !waits && listed != nil:
			u.report(u.editor, "explain", "lists what does not wait\n%v", x)
		case waits && listed == nil && len(x.Held) == 0:
			u.report(u.editor, "explain", "does not list what waits: %v\n%v", wait, x)
		case waits && listed != nil:
			var said, explained []string
			for _, b := range wait.Blockers {
				said = append(said, b.String())
			}
			for _, b := range listed.Blockers() {
				explained = append(explained, b.Verdict.String())
			}
			slices.Sort(said)
			slices.Sort(explained)
			for _, b := range explained {
				if !slices.Contains(said, b) {
					u.report(u.editor, "explain", "otherwise: the plan says %v\n%v", said, x)
				}
			}
			for _, b := range said {
				if !slices.Contains(explained, b) && !slices.ContainsFunc(x.Held, func(v rollout.Verdict) bool { return v.String() == b }) {
					u.report(u.editor, "explain", "less: the plan says %v\n%v", said, x)
				}
			}
		}
		for _, s := range plan.Start {
			if s.TargetID == t.TargetID && !slices.ContainsFunc(x.Versions, func(v rollout.VersionExplanation) bool {
				return v.Version == s.Version && v.Prospect == rollout.ProspectStarts
			}) {
				u.report(u.editor, "explain", "does not start %v\n%v", s, x)
			}
		}
	}
}

// stored makes sure that what is saved is read back.
func (u *upheaval) stored(plan rollout.Plan) {
	data, err := json.Marshal(plan.State)
	if err != nil {
		u.report(u.editor, "json", "%v", err)
		return
	}
	var state rollout.State
	if err := json.Unmarshal(data, &state); err != nil {
		u.report(u.editor, "json", "%v", err)
		return
	}
	if len(state.Pools) == len(plan.State.Pools) {
		for k := range state.Pools {
			state.Pools[k].Revision = plan.State.Pools[k].Revision
		}
	}
	again, _ := json.Marshal(state)
	if string(again) != string(data) {
		u.report(u.editor, "json", "%s", cmp.Diff(string(data), string(again)))
	}
	s := u.s
	s.State = state
	slices.Reverse(s.State.Brackets)
	slices.Reverse(s.State.Executions)
	slices.Reverse(s.State.Rollouts)
	slices.Reverse(s.State.Pools)
	s.Approvals, s.Overrides, s.Freezes, s.Commands = backwards(s.Approvals), backwards(s.Overrides), backwards(s.Freezes), backwards(s.Commands)
	p, err := u.set.Plan(s, u.now)
	if err != nil {
		u.report(u.editor, "json", "%v", err)
		return
	}
	s.State = plan.State
	own, err := u.set.Plan(s, u.now)
	if err != nil || said(p) != said(own) {
		u.report(u.editor, "json", "read back, the state has another plan: %v %s", err, cmp.Diff(said(own), said(p)))
	}
}

// permitted makes sure, in a simple way, that whatever begins may: by its status, its scope, and
// the approvals and selectors of the policies in force.
func (u *upheaval) permitted(plan rollout.Plan) {
	if len(plan.Start) == 0 {
		return
	}
	policies := u.tree()
	for _, start := range plan.Start {
		open := slices.ContainsFunc(u.s.State.Executions, func(r *bracket.ExecutionRecord) bool {
			return r.Resource == start.Resource && r.Open != nil && r.Open.Group == start.Group
		}) || slices.ContainsFunc(plan.State.Executions, func(r *bracket.ExecutionRecord) bool {
			return r.Resource == start.Resource && r.Open != nil && r.Open.Group == start.Group
		})
		if open || start.Purpose == rollout.PurposeRollback || slices.ContainsFunc(u.s.Overrides, func(o rollout.Override) bool { return o.Version == start.Version }) {
			continue
		}
		t := u.s.Targets[slices.IndexFunc(u.s.Targets, func(t rollout.Target) bool { return t.TargetID == start.TargetID })]
		k := slices.IndexFunc(u.s.Versions, func(v rollout.Version) bool { return v.Deployment == start.Deployment && v.ID == start.Version })
		if t.Current == start.Version || slices.ContainsFunc(t.Jobs, func(j rollout.Job) bool { return j.Version == start.Version }) {
			continue
		}
		if k < 0 {
			u.report(u.editor, "forbidden", "%v does not exist", start)
			continue
		}
		v := u.s.Versions[k]
		holds := func(text string) bool { return u.holds(text, start.TargetID, &v) }
		if v.Status != rollout.VersionReady || v.CreatedAt.After(u.now) || !holds(v.TargetSelector) {
			u.report(u.editor, "forbidden", "%v: %+v", start, v)
		}
		for _, p := range policies {
			if p["enabled"] == false || !holds(p["selector"].(string)) {
				continue
			}
			for _, rule := range rulesOf(p) {
				switch own, _ := rule[kindOf(rule)].(map[string]any); kindOf(rule) {
				case "versionSelector":
					if own := own["selector"].(string); !holds(own) && (start.Group[:6] == "target" || strings.HasPrefix(own, "resource")) {
						u.report(u.editor, "forbidden", "%v by %v", start, rule)
					}
				case "anyApproval":
					by := map[string]bool{}
					for _, a := range u.s.Approvals {
						if a.Version == v.ID && a.Deployment == v.Deployment && a.Environment == start.Environment && a.Status == rollout.Approved && !a.At.After(u.now) {
							by[a.By] = true
						}
					}
					if len(by) < int(own["minApprovals"].(float64)) {
						u.report(u.editor, "forbidden", "%v by %v: %v", start, rule, by)
					}
				}
			}
		}
		u.seen["permitted"]++
	}
}

func waits(p rollout.Plan) string {
	var b strings.Builder
	for w := range p.Waiting.All() {
		fmt.Fprintln(&b, w.TargetID, w.Version, w.Blockers)
	}
	return b.String()
}
