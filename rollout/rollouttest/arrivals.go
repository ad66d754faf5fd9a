package rollouttest

import (
	"cmp"
	"errors"
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
func (r *worldRun) schedule() error {
	f, s := &r.fleet, r.Fleet
	r.fleet = s
	f.Environments, f.Deployments = slices.Clone(s.Environments), slices.Clone(s.Deployments)
	f.Unavailable, f.DeletedResources = slices.Clone(s.Unavailable), slices.Clone(s.DeletedResources)
	f.Versions = divide(r, s.Versions, versionText, func(v rollout.Version) time.Time { return v.CreatedAt },
		func(s *rollout.Snapshot) *[]rollout.Version { return &s.Versions })
	f.Approvals = divide(r, s.Approvals, approvalText, func(a rollout.Approval) time.Time { return a.At },
		func(s *rollout.Snapshot) *[]rollout.Approval { return &s.Approvals })
	f.Overrides = divide(r, s.Overrides, overrideText, func(o rollout.Override) time.Time { return o.CreatedAt },
		func(s *rollout.Snapshot) *[]rollout.Override { return &s.Overrides })
	f.Freezes = divide(r, s.Freezes, freezeText, func(z rollout.Freeze) time.Time { return z.CreatedAt },
		func(s *rollout.Snapshot) *[]rollout.Freeze { return &s.Freezes })
	f.Commands = divide(r, s.Commands, commandText, func(c bracket.Command) time.Time { return c.At },
		func(s *rollout.Snapshot) *[]bracket.Command { return &s.Commands })
	r.scheduleTargets()
	for i, c := range r.Changes {
		if err := c.validate(); err != nil {
			return fmt.Errorf("World.Changes[%d]: %w", i, err)
		}
		r.arrivals = append(r.arrivals, c)
	}
	r.arrivals = slices.DeleteFunc(r.arrivals, func(c Change) bool { return c.At.After(lastInstant()) }) // no plan will ever see them
	slices.SortStableFunc(r.arrivals, func(a, b Change) int { return a.At.Compare(b.At) })
	return nil
}

// scheduleTargets divides the targets, and the resources by when the first of their targets joins.
func (r *worldRun) scheduleTargets() {
	f, s := &r.fleet, r.Fleet
	f.Resources, f.Targets = nil, nil
	joins := map[string]time.Time{} // when the first target of a resource joins; zero: from the start
	for _, t := range s.Targets {
		t.Jobs = slices.Clone(t.Jobs)
		at, known := joins[t.Resource]
		if !r.later(t.JoinedAt) {
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
			r.arrive(at, textlist.Name(resource.ID)+" joined", func(s *rollout.Snapshot) { s.Resources = append(s.Resources, resource) })
		}
	}
	for _, t := range s.Targets {
		if r.later(t.JoinedAt) {
			t.Jobs = slices.Clone(t.Jobs)
			r.arrive(t.JoinedAt, "", func(s *rollout.Snapshot) { s.Targets = append(s.Targets, t) })
		}
	}
}

func (c *Change) validate() error {
	if instant.Unset(c.At) || c.Do == nil {
		return errors.New("its At and Do must be set")
	}
	return nil
}

// later reports whether what comes at an instant does not exist at the start.
func (r *worldRun) later(at time.Time) bool { return at.After(r.Start) }

func (r *worldRun) arrive(at time.Time, what string, do func(*rollout.Snapshot)) {
	r.arrivals = append(r.arrivals, Change{At: at, What: what, Do: do})
}

// divide returns the entries of a list that exist at the start. The others arrive later, in the
// same list of the fleet.
func divide[T any](r *worldRun, list []T, text func(T) string, at func(T) time.Time, in func(*rollout.Snapshot) *[]T) (there []T) {
	for _, entry := range list {
		if r.later(at(entry)) {
			r.arrive(at(entry), text(entry), func(s *rollout.Snapshot) { *in(s) = append(*in(s), entry) })
		} else {
			there = append(there, entry)
		}
	}
	return there
}

func versionText(v rollout.Version) string {
	return fmt.Sprintf("%s %s published", textlist.Name(v.Deployment), textlist.Name(v.ID))
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

func untilText(at time.Time) string { return "until " + instantText(at) }
