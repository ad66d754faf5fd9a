package rollouttest_test

import (
	"slices"
	"time"

	"github.com/tranche-dev/tranche/rollout"
	"pgregory.net/rapid"
)

// attic is something that was taken out of the fleet, for good or until it is seen again.
type attic struct {
	what string
	s    rollout.Snapshot
}

// pick draws one of n things, or none.
func (u *upheaval) pick(n int) int {
	if n == 0 {
		return -1
	}
	return rapid.IntRange(0, n-1).Draw(u.T, "pick")
}

func (u *upheaval) fleetEdits() (list []drawnEdit) {
	add := func(kind string, do func() bool) { list = append(list, drawnEdit{kind, do}) }
	takeTargets := func(a *attic, which func(rollout.Target) bool) {
		for _, t := range u.s.Targets {
			if which(t) {
				a.s.Targets = append(a.s.Targets, t)
			}
		}
		u.s.Targets = slices.DeleteFunc(slices.Clone(u.s.Targets), which)
	}
	add("fleet resource unseen", func() bool {
		k := u.pick(len(u.s.Resources))
		if k < 0 {
			return false
		}
		id := u.s.Resources[k].ID
		a := attic{what: id, s: rollout.Snapshot{Resources: []rollout.Resource{u.s.Resources[k]}}}
		takeTargets(&a, func(t rollout.Target) bool { return t.Resource == id })
		u.s.Resources = slices.Delete(slices.Clone(u.s.Resources), k, k+1)
		u.attic = append(u.attic, a)
		u.note("%s unseen", id)
		return true
	})
	add("fleet environment unseen", func() bool {
		if len(u.s.Environments) == 0 {
			return false
		}
		k := rapid.IntRange(0, len(u.s.Environments)-1).Draw(u.T, "environment")
		id := u.s.Environments[k].ID
		a := attic{what: id, s: rollout.Snapshot{Environments: []rollout.Environment{u.s.Environments[k]}}}
		takeTargets(&a, func(t rollout.Target) bool { return t.Environment == id })
		for _, p := range u.s.Approvals {
			if p.Environment == id {
				a.s.Approvals = append(a.s.Approvals, p)
			}
		}
		u.s.Approvals = slices.DeleteFunc(slices.Clone(u.s.Approvals), func(p rollout.Approval) bool { return p.Environment == id })
		u.s.Environments = slices.Delete(slices.Clone(u.s.Environments), k, k+1)
		u.attic = append(u.attic, a)
		u.note("%s unseen", id)
		return true
	})
	add("fleet deployment removed", func() bool {
		if len(u.s.Deployments) == 0 {
			return false
		}
		k := rapid.IntRange(0, len(u.s.Deployments)-1).Draw(u.T, "deployment")
		id := u.s.Deployments[k].ID
		a := attic{what: id, s: rollout.Snapshot{Deployments: []rollout.Deployment{u.s.Deployments[k]}}}
		takeTargets(&a, func(t rollout.Target) bool { return t.Deployment == id })
		for _, v := range u.s.Versions {
			if v.Deployment == id {
				a.s.Versions = append(a.s.Versions, v)
			}
		}
		for _, p := range u.s.Approvals {
			if p.Deployment == id {
				a.s.Approvals = append(a.s.Approvals, p)
			}
		}
		u.s.Versions = slices.DeleteFunc(slices.Clone(u.s.Versions), func(v rollout.Version) bool { return v.Deployment == id })
		u.s.Approvals = slices.DeleteFunc(slices.Clone(u.s.Approvals), func(p rollout.Approval) bool { return p.Deployment == id })
		u.s.Deployments = slices.Delete(slices.Clone(u.s.Deployments), k, k+1)
		u.attic = append(u.attic, a)
		u.note("deployment %s removed", id)
		return true
	})
	add("fleet deployment added", func() bool {
		u.ids++
		id := u.of("b", "c", "e")
		if slices.ContainsFunc(u.s.Deployments, func(d rollout.Deployment) bool { return d.ID == id }) || u.inAttic(id) {
			return false
		}
		u.s.Deployments = append(slices.Clip(u.s.Deployments), rollout.Deployment{ID: id, Name: id})
		u.s.Versions, u.s.Approvals = slices.Clone(u.s.Versions), slices.Clone(u.s.Approvals)
		u.release(&u.editor.s, id)
		for _, r := range u.s.Resources {
			for _, e := range u.s.Environments {
				if slices.ContainsFunc(u.s.Targets, func(t rollout.Target) bool { return t.Resource == r.ID && t.Environment == e.ID }) {
					u.s.Targets = append(slices.Clip(u.s.Targets), rollout.Target{TargetID: rollout.TargetID{Resource: r.ID, Environment: e.ID, Deployment: id}, JoinedAt: u.now})
				}
			}
		}
		u.note("deployment %s added", id)
		return true
	})
	add("fleet deployment renamed", func() bool {
		if len(u.s.Deployments) == 0 {
			return false
		}
		k := rapid.IntRange(0, len(u.s.Deployments)-1).Draw(u.T, "deployment")
		u.s.Deployments = slices.Clone(u.s.Deployments)
		d := &u.s.Deployments[k]
		d.Name = u.of("a", "b", "c", "d", "x", d.ID)
		u.note("%s is now called %s", d.ID, d.Name)
		return true
	})
	add("fleet target removed", func() bool {
		k := u.pick(len(u.s.Targets))
		if k < 0 {
			return false
		}
		id := u.s.Targets[k].TargetID
		a := attic{what: id.String()}
		takeTargets(&a, func(t rollout.Target) bool { return t.TargetID == id })
		u.attic = append(u.attic, a)
		u.note("%v removed", id)
		return true
	})
	add("fleet target renewed", func() bool {
		k := u.pick(len(u.s.Targets))
		if k < 0 {
			return false
		}
		u.s.Targets = slices.Clone(u.s.Targets)
		t := &u.s.Targets[k]
		t.Current, t.Jobs, t.JoinedAt, t.OutdatedAt = "", nil, u.now, time.Time{}
		u.note("%v renewed", t.TargetID)
		return true
	})
	add("fleet resource deleted", func() bool {
		k := u.pick(len(u.s.Resources))
		if k < 0 {
			return false
		}
		id := u.s.Resources[k].ID
		u.s.Targets = slices.DeleteFunc(slices.Clone(u.s.Targets), func(t rollout.Target) bool { return t.Resource == id })
		own := u.s.Resources[k]
		u.s.Resources = slices.Delete(slices.Clone(u.s.Resources), k, k+1)
		u.s.DeletedResources = append(slices.Clip(u.s.DeletedResources), id)
		u.note("%s deleted", id)
		if u.chance(50) {
			u.after(time.Duration(u.number(1, 5, 60))*time.Minute, id+" made again", func(e *editor) {
				if slices.ContainsFunc(e.s.Resources, func(r rollout.Resource) bool { return r.ID == id }) {
					return
				}
				e.s.DeletedResources = slices.DeleteFunc(slices.Clone(e.s.DeletedResources), func(r string) bool { return r == id })
				e.s.Resources = append(slices.Clip(e.s.Resources), own)
				for _, env := range e.s.Environments[:min(1, len(e.s.Environments))] {
					for _, d := range e.s.Deployments {
						e.s.Targets = append(slices.Clip(e.s.Targets), rollout.Target{TargetID: rollout.TargetID{Resource: id, Environment: env.ID, Deployment: d.ID}, JoinedAt: e.now})
					}
				}
			})
		}
		return true
	})
	for range 3 {
		add("fleet back", func() bool {
			if len(u.attic) == 0 {
				return false
			}
			u.restore(rapid.IntRange(0, len(u.attic)-1).Draw(u.T, "attic"))
			return true
		})
	}
	add("fleet relabelled", func() bool {
		k := u.pick(len(u.s.Resources))
		if k < 0 {
			return false
		}
		u.s.Resources = slices.Clone(u.s.Resources)
		r := &u.s.Resources[k]
		switch u.number(0, 1, 2) {
		case 0:
			r.Metadata = map[string]string{"region": u.of("eu", "us")}
		case 1:
			r.Metadata = nil
		case 2:
			r.Name = u.of("r1", "r2", "x")
		}
		u.note("%v", *r)
		return true
	})
	return list
}

func (u *upheaval) inAttic(what string) bool {
	return slices.ContainsFunc(u.attic, func(a attic) bool { return a.what == what })
}

// restore puts back what was taken out, as far as there is room for it.
func (u *upheaval) restore(k int) {
	a := u.attic[k]
	u.attic = slices.Delete(u.attic, k, k+1)
	u.note("%s back", a.what)
	s := &u.editor.s
	for _, r := range a.s.Resources {
		if !slices.ContainsFunc(s.Resources, func(o rollout.Resource) bool { return o.ID == r.ID }) {
			s.Resources = append(slices.Clip(s.Resources), r)
		}
	}
	for _, r := range a.s.Environments {
		if !slices.ContainsFunc(s.Environments, func(o rollout.Environment) bool { return o.ID == r.ID }) {
			s.Environments = append(slices.Clip(s.Environments), r)
		}
	}
	for _, r := range a.s.Deployments {
		if !slices.ContainsFunc(s.Deployments, func(o rollout.Deployment) bool { return o.ID == r.ID }) {
			s.Deployments = append(slices.Clip(s.Deployments), r)
		}
	}
	for _, r := range a.s.Versions {
		if !slices.ContainsFunc(s.Versions, func(o rollout.Version) bool { return o.Deployment == r.Deployment && o.ID == r.ID }) {
			s.Versions = append(slices.Clip(s.Versions), r)
		}
	}
	s.Approvals = slices.Concat(s.Approvals, a.s.Approvals)
	var rest []rollout.Target
	for _, t := range a.s.Targets {
		known := slices.ContainsFunc(s.Resources, func(r rollout.Resource) bool { return r.ID == t.Resource }) &&
			slices.ContainsFunc(s.Environments, func(r rollout.Environment) bool { return r.ID == t.Environment }) &&
			slices.ContainsFunc(s.Deployments, func(r rollout.Deployment) bool { return r.ID == t.Deployment })
		switch {
		case slices.Contains(s.DeletedResources, t.Resource):
		case !known:
			rest = append(rest, t)
		case !slices.ContainsFunc(s.Targets, func(o rollout.Target) bool { return o.TargetID == t.TargetID }):
			s.Targets = append(slices.Clip(s.Targets), t)
		}
	}
	if len(rest) > 0 && len(u.attic) > 0 { // what it belongs to is in the attic, too
		u.attic[0].s.Targets = append(u.attic[0].s.Targets, rest...)
	}
}
