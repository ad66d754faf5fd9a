package rollout

import (
	"slices"

	"github.com/tranche-dev/tranche/bracket"
)

// coming is a member that an execution has still to bring.
type coming struct {
	run     pendingRun
	needs   []int32 // deployments of members that come before it
	running bool
	brought bool // nothing but its turn stands between it and its end, as far as the execution itself goes
}

// inOrder is what keeps a member from running now, of what its version needs: besides who is no
// member, those that the execution brings before it. It does not wait for what comes later, because
// something orders the members so, or for what needs it in turn. The execution begins because it
// brings all of that, see obstacles; it must not stop halfway, with the resource drained.
//
// Tempting: to count for every member what is still to come. Then those that could come one after
// the other would run side by side.
func (w *work) inOrder(i, version int32, members func() []coming) []Verdict {
	v := w.version(i, version)
	blockers := w.versionDependencies(nil, i, v, nil)
	if len(blockers) == 0 {
		return nil
	}
	list := members()
	if !w.outOfOrder(list, w.targets[i].deployment) {
		return blockers
	}
	var late []pendingRun // those that are brought come first, for this one, too
	for k := range list {
		if c := &list[k]; !c.brought {
			late = append(late, c.run)
		}
	}
	return w.versionDependencies(nil, i, v, late)
}

// outOfOrder reports whether a member would never run if every version waited for what it needs of
// the others. It notes in members who would.
func (w *work) outOfOrder(members []coming, deployment int32) bool {
	awaits := func(d int32) bool {
		return slices.ContainsFunc(members, func(c coming) bool { return w.targets[c.run.target].deployment == d && !c.brought })
	}
	free := func(c *coming) bool {
		if c.running {
			return true
		}
		if slices.ContainsFunc(c.needs, awaits) {
			return false
		}
		return c.run.version < 0 || !slices.ContainsFunc(w.version(c.run.target, c.run.version).Dependencies, func(on VersionDependency) bool {
			d, known := w.deployment(on.Deployment)
			if !known || !awaits(d) {
				return false // on somebody else it waits as it would without the execution
			}
			_, met := w.versionDependency(c.run.target, on, nil)
			return !met
		})
	}
	for more := true; more; {
		more = false
		for k := range members {
			if c := &members[k]; !c.brought && free(c) {
				c.brought, more = true, true
			}
		}
	}
	return awaits(deployment)
}

// comingIn lists what an open execution has still to bring to the resource of target i.
func (w *work) comingIn(open *bracket.Execution, i int32) []coming {
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
		at := w.among(from, to, d)
		if at == none {
			continue
		}
		c := coming{run: pendingRun{at, w.versions[d].number(m.Version)}, running: m.Status == bracket.MemberRunning}
		for _, id := range m.Needs {
			if need, known := w.deployment(id); known {
				c.needs = append(c.needs, need)
			}
		}
		list = append(list, c)
	}
	return list
}

// comingOf lists what an execution that begins brings.
func (w *work) comingOf(b *bracketWork, p *pendingResource) []coming {
	runs := b.runs[p.from:p.to]
	list := make([]coming, len(runs))
	for k, run := range runs {
		list[k].run = run
		for _, need := range b.needs[w.targets[run.target].deployment] {
			if slices.ContainsFunc(runs, func(other pendingRun) bool { return w.fulfils(other, need) }) {
				list[k].needs = append(list[k].needs, need.deployment)
			}
		}
	}
	return list
}
