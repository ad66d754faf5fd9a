package rollout

import (
	"errors"
	"time"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/clock"
	"github.com/tranche-dev/tranche/concurrency"
)

// PolicySet is a list of policies, checked and compiled, ready for any number of plans. It is
// immutable and safe for concurrent use if its compiler is. Build it with [Load] or [Compile].
// [PolicySet.Plan] plans with it, and [PolicySet.Policies] returns what it was built from. The zero
// PolicySet plans nothing: see [ErrNoPolicies].
type PolicySet struct {
	given           []Policy          // in the order given; the compiled policies share their rules
	policies        []*compiledPolicy // enabled ones, by id
	asking          asking            // which of them are asked about a deployment in an environment
	askingResources asking            // and which, of those that are undecided there, about a resource
	askingGroups    asking            // which group selectors are asked about a resource
	byKind                            // their rules
	byID            map[string]*compiledRule
	disabled        []*compiledPolicy // by id; they govern nothing, Lint reports what is left of them
	compiler        Compiler
	load            func(name string) (*time.Location, error)
	zones           map[string]*time.Location // loaded ones
	scopeErrors     ScopeErrors
	maxScope        func(Version, TargetID) bool
	ungovernedHeld  bool // nothing new starts on targets that no policy governs
	customs         []CustomRule
	customIDs       map[string]bool
}

// ErrNoPolicies is returned for a [PolicySet] that neither [Load] nor [Compile] made. If no policy
// is meant to hold anything back, compile an empty list.
var ErrNoPolicies = errors.New("rollout: the policy set is empty: take it from Load or Compile")

// Option changes what [Compile] does.
type Option func(*PolicySet)

// WithZones sets the function that loads the time zones of deployment windows, usually
// time.LoadLocation; the package reads no zone files itself. Without it only UTC is known. Each
// zone is loaded once, so a policy set keeps the rules that were in force when it was compiled.
func WithZones(load func(name string) (*time.Location, error)) Option {
	return func(s *PolicySet) { s.load = load }
}

// WithScopeErrors sets what becomes of versions whose targetSelector fails. Without it they are
// excluded. [Compile] refuses an unknown value.
func WithScopeErrors(errors ScopeErrors) Option {
	return func(s *PolicySet) { s.scopeErrors = errors }
}

// WithMaxScope bounds the targets that versions may reach, whatever their targetSelector says:
// where within returns false, a version is out of scope. The function must be pure. With it the
// host says who may publish for which targets.
func WithMaxScope(within func(version Version, target TargetID) bool) Option {
	return func(s *PolicySet) { s.maxScope = within }
}

// WithUngovernedHeld lets nothing new start on targets that no policy governs; they wait with
// [ReasonNotGoverned]. Without it such a target is limited only by what its versions say of
// themselves, by its attempts and by its own jobs. Then a typo in the selector of a policy, a lost
// label or an empty list of policies lets all these targets start at once. Use it if the policies
// are meant to cover the fleet.
func WithUngovernedHeld() Option {
	return func(s *PolicySet) { s.ungovernedHeld = true }
}

// WithRule adds a rule of the host's own, which governs every target. Several rules are asked in
// the order in which they are given. [Compile] refuses nil.
func WithRule(rule CustomRule) Option {
	return func(s *PolicySet) { s.customs = append(s.customs, rule) }
}

// Policies returns the policies that the set was built from, in the order given, disabled ones
// included and with nothing filled in. Use it for a decision log, see [Recording], or to list them.
// The caller owns the result, except for the Recurrence of a window.
func (s *PolicySet) Policies() []Policy {
	policies := make([]Policy, len(s.given))
	for i, p := range s.given {
		policies[i] = p.clone()
	}
	return policies
}

// rule returns the rule of an enabled policy with this id, or nil.
func (s *PolicySet) rule(id string) *compiledRule { return s.byID[id] }

// custom reports whether this is the id of a rule of the host's.
func (s *PolicySet) custom(id string) bool { return s.customIDs[id] }

type compiledPolicy struct {
	id       string
	number   int32  // among the policies of the set
	path     string // such as [1]; empty if the policy was compiled alone
	selector Matcher
	alike    bool // the selector does not read the resource
	paired   bool // it may have an answer without the resource
	rules    []*compiledRule
	byKind
	askingAppliesTo asking // which of its dependency rules are asked whether they concern a deployment in an environment

	hours, firstHours policyHours // all windows, and those that apply to targets without a current version
}

// byKind holds rules by their kind. Rules of one kind are in the order of the policies, and of the
// rules in each policy.
type byKind struct {
	brackets     []*compiledRule // of one policy at most one
	concurrency  []*compiledRule
	gradual      []*compiledRule
	dependencies []*compiledRule
	selectors    []*compiledRule
	budgets      []*compiledRule
	approvals    []*compiledRule
	progressions []*compiledRule
	cooldowns    []*compiledRule
	windows      []*compiledRule
	retries      []*compiledRule
	rollbacks    []*compiledRule
}

// rulesByID returns the rules of some policies by their ids, which are unique.
func rulesByID(policies []*compiledPolicy) map[string]*compiledRule {
	rules := map[string]*compiledRule{}
	for _, p := range policies {
		for _, r := range p.rules {
			rules[r.id] = r
		}
	}
	return rules
}

func (k *byKind) addAll(policies []*compiledPolicy) {
	for _, p := range policies {
		for _, r := range p.rules {
			k.add(r)
		}
	}
}

func (k *byKind) add(r *compiledRule) {
	switch r.kind {
	case KindBracket:
		k.brackets = append(k.brackets, r)
	case KindConcurrency:
		k.concurrency = append(k.concurrency, r)
	case KindGradualRollout:
		k.gradual = append(k.gradual, r)
	case KindDependency:
		k.dependencies = append(k.dependencies, r)
	case KindVersionSelector:
		k.selectors = append(k.selectors, r)
	case KindFailureBudget:
		k.budgets = append(k.budgets, r)
	case KindApproval:
		k.approvals = append(k.approvals, r)
	case KindProgression:
		k.progressions = append(k.progressions, r)
	case KindCooldown:
		k.cooldowns = append(k.cooldowns, r)
	case KindWindow:
		k.windows = append(k.windows, r)
	case KindRetry:
		k.retries = append(k.retries, r)
	case KindRollback:
		k.rollbacks = append(k.rollbacks, r)
	}
}

// compiledRule is a rule ready to be asked. Below the first group of fields it has only those of its
// kind.
type compiledRule struct {
	id        string
	kind      RuleKind
	path      string
	createdAt time.Time
	derived   bool // its id was not given
	policy    *compiledPolicy
	number    int32 // among the rules of its kind in the set; of pools and dependencies only

	bracket   *bracket.Rule
	members   Matcher // deploymentSelector
	pre, post Matcher // declared roles; nil if absent

	pool    *concurrency.Rule
	group   Matcher   // groupSelector
	groupBy *variable // nil if absent

	gradual   *GradualRollout
	implied   bool   // its orderKey was not given
	bracketID string // of the bracket rule of the same policy, or empty

	dependency *DeploymentDependency
	dependsOn  Matcher
	requires   requirement // what dependsOn requires of the deployment that it names, or of the environment
	appliesTo  Matcher     // nil: every target

	selector  Matcher // versionSelector; environmentProgression: the other environment
	described *Data   // what a versionSelector says of versions that it does not let pass; nil: nothing

	readsResource, readsVersion bool // whether dependsOn or selector, whichever the rule has, reads it

	window   *DeploymentWindow
	calendar clock.Calendar // of this rule alone

	budget      *FailureBudget
	approval    *AnyApproval
	progression *EnvironmentProgression
	asMuch      *compiledRule // the first rule whose progression asks for as much of an environment
	cooldown    *VersionCooldown
	retry       *Retry
	rollback    *Rollback
}
