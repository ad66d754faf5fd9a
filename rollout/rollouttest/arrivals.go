package rollouttest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/internal/instant"
	"github.com/tranche-dev/tranche/internal/textlist"
	"github.com/tranche-dev/tranche/rollout"
)

// schedule divides the fleet into what exists at the start and what arrives later.
func (r *running) schedule() error {
	f, s := &r.fleet, r.Fleet
	r.fleet = s
	f.Environments, f.Deployments = slices.Clone(s.Environments), slices.Clone(s.Deployments)
	f.Unavailable, f.DeletedResources = slices.Clone(s.Unavailable), slices.Clone(s.DeletedResources)
	f.Resources, f.Versions, f.Targets, f.Approvals, f.Overrides, f.Freezes, f.Commands = nil, nil, nil, nil, nil, nil, nil
	later := func(at time.Time) bool { return at.After(r.Start) }
	arrive := func(at time.Time, do func(*rollout.Snapshot), what string, args ...any) {
		r.arrivals = append(r.arrivals, Change{At: at, What: fmt.Sprintf(what, args...), Do: do})
	}
	for _, v := range s.Versions {
		if !later(v.CreatedAt) {
			f.Versions = append(f.Versions, v)
			continue
		}
		arrive(v.CreatedAt, func(s *rollout.Snapshot) { s.Versions = append(s.Versions, v) }, "%s %s published", textlist.Name(v.Deployment), textlist.Name(v.ID))
	}
	for _, a := range s.Approvals {
		if !later(a.At) {
			f.Approvals = append(f.Approvals, a)
			continue
		}
		arrive(a.At, func(s *rollout.Snapshot) { s.Approvals = append(s.Approvals, a) }, "%s", approvalText(a))
	}
	for _, o := range s.Overrides {
		if !later(o.CreatedAt) {
			f.Overrides = append(f.Overrides, o)
			continue
		}
		arrive(o.CreatedAt, func(s *rollout.Snapshot) { s.Overrides = append(s.Overrides, o) }, "%s", overrideText(o))
	}
	for _, z := range s.Freezes {
		if !later(z.CreatedAt) {
			f.Freezes = append(f.Freezes, z)
			continue
		}
		arrive(z.CreatedAt, func(s *rollout.Snapshot) { s.Freezes = append(s.Freezes, z) }, "%s", freezeText(z))
	}
	for _, c := range s.Commands {
		if !later(c.At) {
			f.Commands = append(f.Commands, c)
			continue
		}
		arrive(c.At, func(s *rollout.Snapshot) { s.Commands = append(s.Commands, c) }, "%s", commandText(c))
	}
	joins := map[string]time.Time{} // when the first target of a resource joins; zero: from the start
	for _, t := range s.Targets {
		t.Jobs = slices.Clone(t.Jobs)
		at, known := joins[t.Resource]
		if !later(t.JoinedAt) {
			f.Targets = append(f.Targets, t)
			joins[t.Resource] = time.Time{}
		} else if !known || t.JoinedAt.Before(at) {
			joins[t.Resource] = t.JoinedAt
		}
	}
	for _, resource := range s.Resources {
		if at := joins[resource.ID]; at.IsZero() {
			f.Resources = append(f.Resources, resource)
		} else {
			arrive(at, func(s *rollout.Snapshot) { s.Resources = append(s.Resources, resource) }, "%s joined", textlist.Name(resource.ID))
		}
	}
	for _, t := range s.Targets {
		if later(t.JoinedAt) {
			t.Jobs = slices.Clone(t.Jobs)
			arrive(t.JoinedAt, func(s *rollout.Snapshot) { s.Targets = append(s.Targets, t) }, "")
		}
	}
	for i, c := range r.Changes {
		if instant.Unset(c.At) || c.Do == nil {
			return fmt.Errorf("World.Changes[%d]: At and Do must be set", i)
		}
		r.arrivals = append(r.arrivals, c)
	}
	r.arrivals = slices.DeleteFunc(r.arrivals, func(c Change) bool { return c.At.After(lastInstant()) }) // no plan will ever see them
	slices.SortStableFunc(r.arrivals, func(a, b Change) int { return a.At.Compare(b.At) })
	return nil
}

// approvalText says what was decided about which version, where, and by whom.
func approvalText(a rollout.Approval) string {
	return fmt.Sprintf("%s %s %s in %s by %s", textlist.Name(a.Deployment), textlist.Name(a.Version), textlist.Name(a.Status), textlist.Name(a.Environment), textlist.Remark(a.By))
}

// overrideText describes an override as an audit reads it: what, where, for how long, who and why.
func overrideText(o rollout.Override) string {
	text := fmt.Sprintf("override %s: %s past %s", textlist.Name(o.ID), textlist.Name(o.Version), textlist.Name(o.Rule)) + placeText(o.Environment, o.Resource)
	if !instant.Unset(o.ExpiresAt) {
		text += " " + untilText(o.ExpiresAt)
	}
	return fmt.Sprintf("%s, by %s: %s", text, textlist.Remark(o.CreatedBy), textlist.Remark(o.Reason))
}

// freezeText describes a freeze as an audit reads it: what, where, what goes on, for how long, who
// and why.
func freezeText(z rollout.Freeze) string {
	text := fmt.Sprintf("freeze %s: %s", textlist.Name(z.ID), textlist.Name(cmp.Or(z.Deployment, "everything"))) + placeText(z.Environment, z.Resource)
	if z.FinishBegun {
		text += " but what has begun"
	}
	if z.PauseCurves {
		text += ", curves stand still"
	}
	if !instant.Unset(z.ExpiresAt) {
		text += ", " + untilText(z.ExpiresAt)
	}
	return fmt.Sprintf("%s, by %s: %s", text, textlist.Remark(z.CreatedBy), textlist.Remark(z.Reason))
}

// commandText describes a command as an audit reads it: what, to which member or group, who and why.
func commandText(c bracket.Command) string {
	text := fmt.Sprintf("command %s: %s", textlist.Name(c.ID), textlist.Name(c.Kind))
	if c.Kind == bracket.Close {
		text += " " + textlist.Name(c.Group)
	} else {
		text = strings.TrimSpace(fmt.Sprintf("%s on %s %s", text, textlist.Name(c.Resource), textlist.Name(c.Deployment)))
	}
	if by := textlist.Remark(c.By); by != "" {
		text += ", by " + by
	}
	if why := textlist.Remark(c.Reason); why != "" {
		text += ": " + why
	}
	return text
}

// placeText says where a decision holds, if that is not everywhere.
func placeText(environment, resource string) (text string) {
	if environment != "" {
		text += " in " + textlist.Name(environment)
	}
	if resource != "" {
		text += " on " + textlist.Name(resource)
	}
	return text
}

func untilText(at time.Time) string { return "until " + at.UTC().Format("2006-01-02 15:04:05") }
