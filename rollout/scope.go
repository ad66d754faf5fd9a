package rollout

import (
	"fmt"
	"slices"
)

// ScopeErrors says what happens to a version whose targetSelector does not compile, reads a missing
// key or fails on a target.
type ScopeErrors string

const (
	// ScopeExclude puts the version out of scope there, with a diagnostic: a typo reaches no
	// target. The default.
	ScopeExclude ScopeErrors = "exclude"
	// ScopeInclude puts it in scope, as the scoped versions RFC proposes: a typo reaches every
	// target.
	ScopeInclude ScopeErrors = "include"
)

// scope says which targets one version is for.
type scope struct {
	version  *Version
	everyone bool // it is for every target: there is nothing to ask
	matcher  Matcher
	err      error
	alike    bool        // the matcher does not read the resource: the targets of an environment have one answer
	answers  [][]answer  // of the matcher, per environment and ordinal of its targets, or one for all if alike; nil, undecided: not asked yet
	requires requirement // what the matcher requires of resources
}

// scopeField is a field of the resources of a pair.
type scopeField struct {
	pair int32
	fieldRead
}

// scopeIndex holds the targets of a pair, by their ordinals, by what their resources have in a field.
type scopeIndex struct {
	scopes int // how many have asked; the targets are listed for the first beyond fewSelectors
	byValue
}

// scoping says which versions are for which targets.
type scoping struct {
	scoped   []bool     // per deployment: not every version is for every target
	scopes   [][]*scope // per deployment and version, as they are asked for
	fields   map[scopeField]*scopeIndex
	question bound // reused for every question to a scope
}

// scope finds the deployments with versions that are not for every target.
func (w *work) scope() {
	w.scopes = make([][]*scope, len(w.deployments))
	w.scoped = make([]bool, len(w.deployments))
	for d := range w.scoped {
		w.scoped[d] = w.set.maxScope != nil || slices.ContainsFunc(w.versions[d].list, func(v *Version) bool { return v.TargetSelector != "" })
	}
}

// inScope reports whether version n exists for target i. It is asked before every rule.
func (w *work) inScope(i, n int32) bool {
	d := w.targets[i].deployment
	return !w.scoped[d] || w.has(w.scopeOf(d, n), i)
}

// has reports whether the version of a scope exists for target i.
func (w *work) has(s *scope, i int32) bool {
	if s.everyone {
		return true
	}
	t := &w.targets[i]
	if w.set.maxScope != nil && !w.set.maxScope(*s.version, t.TargetID) {
		return false
	}
	if s.version.TargetSelector == "" {
		return true
	}
	answers, at := s.answers[t.environment], w.ordinal[i]
	if answers == nil {
		answers = w.unanswered(s, w.pairOf(t))
		s.answers[t.environment] = answers
	}
	if s.alike {
		at = 0
	}
	if answers[at] == undecided { // asked once: choice, positions, progressions and explanations all need the answer, and diagnostics are counted
		answers[at] = no
		if w.scopeAllows(s, i) {
			answers[at] = yes
		}
	}
	return answers[at] == yes
}

// unanswered returns the answers of a scope for the targets of a pair before it is asked. Where a
// resource surely has not what the scope requires, the answer is no already: of many versions that
// are for one tenant each, every resource is asked only about its own.
func (w *work) unanswered(s *scope, pair int32) []answer {
	if s.alike {
		return []answer{undecided}
	}
	targets := w.pairs[pair].targets
	if s.requires.variable == "" || s.version.isLong() || w.isLongIn(w.splitPair(pair)) {
		return slices.Repeat([]answer{undecided}, len(targets))
	}
	key := scopeField{pair, s.requires.fieldRead}
	index := w.fields[key]
	if index == nil {
		index = &scopeIndex{}
		put(&w.fields, key, index)
	}
	if index.scopes++; index.scopes <= fewSelectors {
		return slices.Repeat([]answer{undecided}, len(targets))
	}
	if index.scopes == fewSelectors+1 {
		b := new(bound)
		for at, i := range targets {
			b.resource = &w.resources[w.targets[i].resource]
			index.add(int32(at), s.requires.fieldRead, b, b.resource.isLong())
		}
	}
	answers := slices.Repeat([]answer{no}, len(targets))
	for at := range index.about(s.requires.values) {
		answers[at] = undecided
	}
	return answers
}

func (w *work) scopeAllows(s *scope, i int32) bool {
	if s.err != nil {
		return w.scopeFailed(s, DiagnosticScopeInvalid, s.err.Error(), i)
	}
	b := &w.question // one for all: a value in an interface is allocated
	*b = w.bound(i)
	b.version = s.version
	ok, err := s.matcher.Match(b)
	if key, missing := missingKey(err); missing {
		return w.scopeFailed(s, DiagnosticScopeMissingKey, key, i)
	} else if err != nil {
		return w.scopeFailed(s, DiagnosticScopeInvalid, err.Error(), i)
	}
	return ok
}

// scopeFault returns why the targetSelector of version n has no answer for target i; empty if it
// has one.
func (w *work) scopeFault(i, n int32) string {
	s := w.scopeOf(w.targets[i].deployment, n)
	err := s.err
	if err == nil && s.matcher != nil {
		b := w.boundWith(i, n)
		_, err = s.matcher.Match(&b)
	}
	if err == nil {
		return ""
	}
	return err.Error()
}

// isScoped reports whether a version is not for every target.
func (w *work) isScoped(deployment, version int32) bool {
	return w.scoped[deployment] && version >= 0 && w.versions[deployment].list[version].TargetSelector != ""
}

func (w *work) scopeOf(deployment, version int32) *scope {
	if w.scopes[deployment] == nil {
		w.scopes[deployment] = make([]*scope, len(w.versions[deployment].list))
	}
	s := w.scopes[deployment][version]
	if s == nil {
		s = &scope{version: w.versions[deployment].list[version]}
		s.everyone = s.version.TargetSelector == "" && w.set.maxScope == nil
		if s.version.TargetSelector != "" {
			s.matcher, s.err = w.expression(s.version.TargetSelector)
			if s.err == nil {
				s.alike = !reads(s.matcher, ofResource)
				s.requires = required(s.matcher, ofResource)
			}
			s.answers = make([][]answer, len(w.environments))
		}
		w.scopes[deployment][version] = s
	}
	return s
}

func (w *work) scopeFailed(s *scope, code DiagnosticCode, detail string, i int32) bool {
	targets := []int32{i}
	if s.alike {
		targets = w.pairs[w.pairOf(&w.targets[i])].targets
	}
	for _, i := range targets {
		w.diagnose(code, "", s.version.named()+": "+detail, w.targets[i].TargetID)
	}
	return w.set.scopeErrors == ScopeInclude
}

// CheckVersion reports every fault of the expressions that a version carries, its targetSelector
// and those of its dependencies, joined, each a *[FieldError]. A host calls it when a version is
// published: a plan can only leave out a version with such faults.
func (s *PolicySet) CheckVersion(v Version) error {
	if s == nil || s.compiler == nil {
		return ErrNoPolicies
	}
	c := compilation{set: s}
	c.expression("targetSelector", v.TargetSelector, ofResource, ofEnv, ofDeployment, ofVersion)
	for i, d := range v.Dependencies {
		at := fmt.Sprintf("dependencies[%d]", i)
		c.required(join(at, "deployment"), d.Deployment, "the id of a deployment")
		c.required(join(at, "versionSelector"), d.VersionSelector, `write "true" if any version will do`)
		c.expression(join(at, "versionSelector"), d.VersionSelector, ofVersion, ofDeployment, ofEnv, ofResource)
	}
	return c.err()
}
