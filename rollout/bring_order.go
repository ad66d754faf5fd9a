package rollout

import (
	"slices"

	"github.com/tranche-dev/tranche/bracket"
)

// memberToBring is a member that an execution still has to bring.
type memberToBring struct {
	run     pendingRun
	needs   []int32 // deployments of members that come before it
	running bool
	brought bool // as far as the execution itself goes, nothing but its turn keeps it from its end
}

// inOrder returns the unmet dependencies of a member's version that keep the member from running
// now. The member waits for deployments that are no members, and for members that the execution
// brings before it. It does not wait for members that come later because something orders them so,
// or that need it in turn. The execution begins because it brings all of those, see obstacles; it
// must not stop halfway with the resource drained.
//
// It is tempting to count for every member all that is still to come. Then members that could run
// one after the other would run side by side.
func (w *work) inOrder(i, version int32, x bringer) []Verdict {
	v := w.version(i, version)
	blockers := w.versionDependencies(nil, i, v, nil)
	if len(blockers) == 0 {
		return nil
	}
	if w.bringing.bringer != x { // members of one execution are mostly asked for one after the other
		w.bringing = bringing{x, w.deadlocked(w.membersToBring(x))}
	}
	deadlocked := w.bringing.deadlocked
	if _, never := slices.BinarySearchFunc(deadlocked, i, func(run pendingRun, i int32) int { return int(run.target - i) }); !never {
		return blockers
	}
	return w.versionDependencies(nil, i, v, deadlocked) // the others come first, for this member too
}

// bringer is an execution that begins or one that is open.
type bringer struct {
	bracket *bracketWork       // of one that begins
	begins  *pendingResource   // nil: it is open
	open    *bracket.Execution // nil: it begins
	from    int32              // the first target on the resource of an open one
}

// bringing is what is known of the execution that was asked for last.
type bringing struct {
	bringer
	deadlocked []pendingRun
}

// deadlocked lists the members that would never run if every version waited for what it needs of
// the other members, in order of their targets.
func (w *work) deadlocked(members []memberToBring) []pendingRun {
	awaits := func(d int32) bool {
		k, member := slices.BinarySearchFunc(members, d, func(c memberToBring, d int32) int { return int(w.targets[c.run.target].deployment - d) })
		return member && !members[k].brought
	}
	free := func(c *memberToBring) bool {
		if c.running {
			return true
		}
		if slices.ContainsFunc(c.needs, awaits) {
			return false
		}
		return c.run.version < 0 || !slices.ContainsFunc(w.version(c.run.target, c.run.version).Dependencies, func(on VersionDependency) bool {
			d, known := w.deployment(on.Deployment)
			if !known || !awaits(d) {
				return false // for any other deployment the version waits as it would without the execution
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
	var deadlocked []pendingRun
	for k := range members {
		if c := &members[k]; !c.brought {
			deadlocked = append(deadlocked, c.run)
		}
	}
	return deadlocked
}

// membersToBring lists what an execution still has to bring, in order of the targets.
func (w *work) membersToBring(x bringer) []memberToBring {
	if x.begins != nil {
		return w.membersAtBegin(x.bracket, x.begins)
	}
	var list []memberToBring
	from, to := w.siblings(x.from)
	for k := range x.open.Members {
		m := &x.open.Members[k]
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
		c := memberToBring{run: pendingRun{at, w.versions[d].number(m.Version)}, running: m.Status == bracket.MemberRunning}
		for _, id := range m.Needs {
			if need, known := w.deployment(id); known {
				c.needs = append(c.needs, need)
			}
		}
		list = append(list, c)
	}
	return list
}

// membersAtBegin lists what an execution brings when it begins.
func (w *work) membersAtBegin(b *bracketWork, p *pendingResource) []memberToBring {
	runs := slices.Clone(b.runsOn(p))
	slices.SortFunc(runs, func(a, b pendingRun) int { return int(a.target - b.target) })
	list := make([]memberToBring, len(runs))
	for k, run := range runs {
		list[k].run = run
		for _, need := range *b.needs.at(w.targets[run.target].deployment) {
			if w.comesWith(runs, need) {
				list[k].needs = append(list[k].needs, need.deployment)
			}
		}
	}
	return list
}
