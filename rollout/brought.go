package rollout

import (
	"slices"

	"github.com/tranche-dev/tranche/bracket"
)

// coming is a member of an open execution that has still to run forward.
type coming struct {
	*bracket.ExecutionMember
	run     pendingRun
	brought bool // nothing but its turn stands between it and its end, as far as the execution itself goes
}

// broughtTogether lets a member of an open execution go whose version needs what the execution brings, but never before it: what orders the members has it come
// later, or it needs this one in turn. The execution began because it brings all of that, see obstacles; it must not stop halfway, with the resource drained.
// blockers are what keeps the member from running now; what is left of them is returned.
//
// Tempting: to count for every member what is still to come. Then those that could come one after the other would run side by side.
func (w *work) broughtTogether(b *bracketWork, i, version int32, blockers []Verdict) []Verdict {
	if slices.ContainsFunc(blockers, func(v Verdict) bool { return v.Reason != ReasonVersionUnmet }) {
		return blockers
	}
	t := &w.targets[i]
	members := w.coming(b.open(t.Resource), i)
	awaits := func(deployment string) bool {
		return slices.ContainsFunc(members, func(c coming) bool { return c.Deployment == deployment && !c.brought })
	}
	var brought []pendingRun
	free := func(c *coming) bool {
		if c.Status == bracket.MemberRunning {
			return true
		}
		if slices.ContainsFunc(c.Needs, awaits) {
			return false
		}
		return c.run.version < 0 || !slices.ContainsFunc(w.version(c.run.target, c.run.version).Dependencies, func(d VersionDependency) bool {
			_, met := w.versionDependency(c.run.target, d, brought)
			return !met && awaits(d.Deployment) // on anybody else it waits as it would without the execution
		})
	}
	for more := true; more; {
		more = false
		for k := range members {
			if c := &members[k]; !c.brought && free(c) {
				c.brought, more = true, true
				brought = append(brought, c.run)
			}
		}
	}
	if !awaits(t.Deployment) {
		return blockers
	}
	var all []pendingRun
	for _, c := range members {
		all = append(all, c.run)
	}
	return w.let(w.versionDependencies(nil, i, w.version(i, version), all), i, version)
}

// coming lists the members that an execution has still to bring to the resource of target i.
func (w *work) coming(open *bracket.Execution, i int32) []coming {
	var list []coming
	from, to := w.siblings(i)
	for k := range open.Members {
		m := &open.Members[k]
		if m.Purpose == bracket.Rollback || m.Status != bracket.MemberWaiting && m.Status != bracket.MemberRunning {
			continue
		}
		d, known := w.deployment(m.Deployment)
		if !known {
			continue
		}
		if k := w.among(from, to, d); k != none {
			list = append(list, coming{ExecutionMember: m, run: pendingRun{k, w.versions[d].number(m.Version)}})
		}
	}
	return list
}
