package rollout

import "slices"

// Which versions satisfy a dependency, and whether one of them may still come.
//
// A dependency waits for the fleet only as long as a version that would do may still come to the
// deployment that it names. Otherwise no job of the fleet satisfies it, and somebody has to publish
// a version. Whether the rules of that deployment let a version in is for the verdicts there to say.

// ruleMayBeMet reports whether target k may still get a version that satisfies a dependency rule. A
// rule that reads what the version and its deployment alone do not tell may be satisfied by any.
func (w *work) ruleMayBeMet(rule *compiledRule, k int32) bool {
	key := questionKey{rule: rule, environment: none, deployment: w.targets[k].deployment, version: none}
	list, asked := w.ruleSatisfiers[key]
	if !asked {
		list = w.holdsFor(rule.dependsOn, key.deployment)
		put(&w.ruleSatisfiers, key, list)
	}
	return w.mayCome(k, list, int32(len(w.versions[key.deployment].list)))
}

// neededMayCome reports whether the deployment that version v of target i needs may still get a
// version that will do. Of its own deployment v needs one that is older.
func (w *work) neededMayCome(i int32, v *Version, needed VersionDependency) bool {
	k := w.sibling(i, needed.Deployment)
	versions := &w.versions[w.targets[k].deployment]
	before := int32(len(versions.list))
	if k == i {
		before = versions.number(v.ID)
	}
	return w.mayCome(k, w.satisfying(needed), before)
}

// mayCome reports whether one of the versions of the deployment of target k is one that the target
// has begun, or newer than what it runs, and for it. They are in order, and those from before on do
// not count.
func (w *work) mayCome(k int32, list []numbered, before int32) bool {
	t := &w.targets[k]
	return slices.ContainsFunc(list, func(v numbered) bool {
		return v.version >= max(t.started, t.current+1) && v.version < before && w.inScope(k, v.version)
	})
}

// satisfying lists the versions for which a dependency may hold, as holdsFor does. The answer is the
// same for all versions that have the dependency, and in all environments.
func (w *work) satisfying(dependency VersionDependency) []numbered {
	list, asked := w.satisfiers[dependency]
	if asked {
		return list
	}
	d, known := w.deployment(dependency.Deployment)
	matcher, err := w.expression(dependency.VersionSelector)
	if !known || err != nil {
		return nil
	}
	list = w.holdsFor(matcher, d)
	put(&w.satisfiers, dependency, list)
	return list
}

// holdsFor lists the versions of a deployment, in order, for which an expression may hold. One that
// fails on a version, or cannot be decided by the version and its deployment alone, may hold for it.
func (w *work) holdsFor(matcher Matcher, deployment int32) (list []numbered) {
	b := &w.subject // one for all: a version that may need any of thousands is asked about each
	*b = bound{deployment: &w.deployments[deployment]}
	for n, v := range w.versions[deployment].list {
		b.version = v
		if ask(matcher, b) != no {
			list = append(list, numbered{deployment, int32(n)})
		}
	}
	return list
}
