package rollout

import (
	"errors"
	"fmt"
	"slices"
)

// ScopeErrors says what becomes of a version whose targetSelector does not compile, reads a missing key or fails on a target.
type ScopeErrors string

const (
	// ScopeExclude puts the version out of scope there, with a diagnostic: a typo reaches nobody. The default.
	ScopeExclude ScopeErrors = "exclude"
	// ScopeInclude puts it in scope, as the scoped versions RFC proposes: a typo reaches everybody.
	ScopeInclude ScopeErrors = "include"
)

// scope is the targetSelector of one version, ready to be asked.
type scope struct {
	matcher      Matcher
	err          error
	readsTarget  bool     // it reads the resource
	environments []answer // per environment, where it does not read the resource; undecided: not asked yet
}

// inScope reports whether version n exists for target i. It is asked before every rule.
func (w *work) inScope(i, n int32) bool {
	t := &w.targets[i]
	if !w.scoped[t.deployment] {
		return true
	}
	v := w.versions[t.deployment].list[n]
	if w.set.maxScope != nil && !w.set.maxScope(*v, t.TargetID) {
		return false
	}
	if v.TargetSelector == "" {
		return true
	}
	s := w.scopeOf(v)
	if s.err != nil {
		return w.scopeFailed(DiagnosticScopeInvalid, v, s.err.Error(), t)
	}
	if !s.readsTarget && s.environments[t.environment] != undecided {
		return s.environments[t.environment] == yes
	}
	b := w.bound(i)
	b.version = v
	ok, err := s.matcher.Match(&b)
	if key, missing := missingKey(err); missing {
		ok = w.scopeFailed(DiagnosticScopeMissingKey, v, key, t)
	} else if err != nil {
		ok = w.scopeFailed(DiagnosticScopeInvalid, v, err.Error(), t)
	}
	if !s.readsTarget {
		s.environments[t.environment] = no
		if ok {
			s.environments[t.environment] = yes
		}
	}
	return ok
}

// isScoped reports whether a version is not for every target.
func (w *work) isScoped(deployment int32, version string) bool {
	if !w.scoped[deployment] {
		return false
	}
	n := w.versions[deployment].number(version)
	return n >= 0 && w.versions[deployment].list[n].TargetSelector != ""
}

func (w *work) scopeOf(v *Version) *scope {
	s := w.scopes[v]
	if s == nil {
		s = &scope{}
		if s.matcher, s.err = w.expression(v.TargetSelector); s.err == nil {
			s.readsTarget = reads(s.matcher, ofResource)
			s.environments = slices.Repeat([]answer{undecided}, len(w.environments))
		}
		w.scopes[v] = s
	}
	return s
}

func (w *work) scopeFailed(code DiagnosticCode, v *Version, detail string, t *target) bool {
	w.diagnose(code, "", fmt.Sprintf("%s@%s: %s", v.Deployment, v.ID, detail), t.TargetID)
	return w.set.scopeErrors == ScopeInclude
}

// CheckVersion reports what is wrong with the expressions that a version carries, its targetSelector and those of its dependencies, as one
// [*PolicyError] each. A host calls it when a version is published: a plan can only leave such a version out.
func (s *PolicySet) CheckVersion(v Version) error {
	c := compilation{compiler: s.compiler}
	c.expression("targetSelector", v.TargetSelector, ofResource, ofEnv, ofDeployment, ofVersion)
	for i, d := range v.Dependencies {
		at := fmt.Sprintf("dependencies[%d]", i)
		if d.Deployment == "" {
			c.add(join(at, "deployment"), "required: the id of a deployment")
		}
		if d.VersionSelector == "" {
			c.add(join(at, "versionSelector"), `required: write "true" if any version will do`)
		}
		c.expression(join(at, "versionSelector"), d.VersionSelector, ofVersion, ofDeployment, ofEnv, ofResource)
	}
	return errors.Join(c.list...)
}
