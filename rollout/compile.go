package rollout

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/clock"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/internal/strictjson"
	"github.com/tranche-dev/tranche/internal/textkey"
)

// Matcher is a compiled expression; *selector.Selector is one. It is an alias of an interface
// literal that package selector declares too, so that neither package imports the other.
//
// Match looks up the variables that the expression reads in vars, by their declared names; Lookup
// returns false if there is no such variable. Match returns an error instead of an answer if a
// missing map key decides the result; such an error implements MissingKey() string. Any other error
// means that the expression could not be evaluated. A variable that Lookup does not know is an
// error, which && and || absorb if the other side decides, as everywhere in CEL.
//
// A matcher may implement Variables() []string, the names of the variables it reads; then [Compile]
// refuses variables that are not known where the expression stands.
type Matcher = interface {
	Match(vars interface {
		Lookup(name string) (any, bool)
	}) (bool, error)
}

// Compiler compiles expressions; a *selector.Env of selector.DefaultSchema is one. This package has
// no further variables, so [Compile] refuses an expression that reads one of a larger schema.
type Compiler interface {
	Matcher(expression string) (Matcher, error)
}

// PolicySet is a list of policies, checked and compiled, ready for any number of plans. It is
// immutable and safe for concurrent use if its compiler is. Build it with [Load] or [Compile].
// [PolicySet.Plan] plans with it, and [PolicySet.Policies] returns what it was built from. The zero
// PolicySet plans nothing: see [ErrNoPolicies].
type PolicySet struct {
	given          []Policy          // in the order given; the compiled policies share their rules
	policies       []*compiledPolicy // enabled ones, by id
	byKind                           // their rules
	disabled       []*compiledPolicy // by id; they govern nothing, Lint reports what is left of them
	compiler       Compiler
	load           func(name string) (*time.Location, error)
	zones          map[string]*time.Location // loaded ones
	scopeErrors    ScopeErrors
	maxScope       func(Version, TargetID) bool
	ungovernedHeld bool // nothing new starts on targets that no policy governs
	customs        []CustomRule
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

// rule returns the compiled rule with this id, or nil.
func (s *PolicySet) rule(id string) *compiledRule {
	for _, p := range s.policies {
		for _, r := range p.rules {
			if r.id == id {
				return r
			}
		}
	}
	return nil
}

// custom returns the host's rule with this id, or nil.
func (s *PolicySet) custom(id string) CustomRule {
	for _, r := range s.customs {
		if r.ID() == id {
			return r
		}
	}
	return nil
}

type compiledPolicy struct {
	id       string
	from     []string // paths of the fields that the id was made of
	path     string   // such as [1]; empty if the policy was compiled alone
	selector Matcher
	rules    []*compiledRule
	byKind

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
	approvals    []*compiledRule
	progressions []*compiledRule
	cooldowns    []*compiledRule
	windows      []*compiledRule
	retries      []*compiledRule
	rollbacks    []*compiledRule
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

type compiledRule struct {
	id        string
	kind      RuleKind
	path      string
	createdAt time.Time
	derived   bool // its id was not given
	implied   bool // gradual: its orderKey was not given

	bracket    *bracket.Rule
	members    Matcher // bracket: deploymentSelector
	pre, post  Matcher // bracket: declared roles; nil if absent
	pool       *concurrency.Rule
	group      Matcher   // concurrency: groupSelector
	groupBy    *variable // concurrency: nil if absent
	gradual    *GradualRollout
	bracketID  string // gradual: id of the bracket rule of the same policy, or empty
	dependency *DeploymentDependency
	dependsOn  Matcher
	appliesTo  Matcher // nil: every target
	selector   Matcher // versionSelector; environmentProgression: the other environment
	described  *Data   // versionSelector: what it says of versions that it does not let pass; nil: nothing

	readsResource, readsVersion bool // whether dependsOn or selector, whichever the rule has, reads it
	approval                    *AnyApproval
	progression                 *EnvironmentProgression
	cooldown                    *VersionCooldown
	window                      *DeploymentWindow
	calendar                    clock.Calendar // window: of this rule alone
	policy                      *compiledPolicy

	retry    *Retry
	rollback *Rollback
}

// Compile checks the policies, compiles their expressions and derives missing ids. The error joins
// one *[FieldError] per fault, all faults of all policies at once. The cause of an expression that
// does not compile is the compiler's error, with its position. With any fault there is no set:
// nothing is planned on a policy that was not accepted whole. The policies are copied.
func Compile(policies []Policy, compiler Compiler, options ...Option) (*PolicySet, error) {
	return compile(policies, len(policies) > 1, nil, compiler, options)
}

// compile is Compile for a list of policies or for one alone. refused are the faults that were
// found when their document was read; compile does not report faults that may only follow from
// these.
func compile(policies []Policy, listed bool, refused error, compiler Compiler, options []Option) (*PolicySet, error) {
	set := &PolicySet{compiler: compiler, zones: map[string]*time.Location{}}
	for _, option := range options {
		option(set)
	}
	c := compilation{set: set, ruleIDs: map[string]origin{}}
	if compiler == nil {
		c.add("", CodeRequired, nil, "a compiler is needed: pass the *selector.Env of package selector")
		return nil, c.err()
	}
	policyIDs := map[string]origin{}
	for i, p := range policies {
		path := ""
		if listed {
			path = fmt.Sprintf("[%d]", i)
		}
		p = p.clone()
		set.given = append(set.given, p)
		p.validate(path, &c.faults)
		id, from := cmp.Or(p.ID, p.Name), []string{join(path, "id")}
		if p.ID == "" {
			from = append(from, join(path, "name"))
		}
		if first, taken := policyIDs[id]; taken && id != "" {
			c.add(join(path, "id"), CodeDuplicate, id, "is the id of %s too: ids are unique, and a missing one is the name", first.at).reading(slices.Concat(from, first.fields)...)
		}
		policyIDs[id] = origin{at: path, fields: from}
		compiled := c.policy(path, id, from, p)
		if p.Enabled == nil || *p.Enabled {
			set.policies = append(set.policies, compiled)
		} else {
			set.disabled = append(set.disabled, compiled)
		}
	}
	byID := func(a, b *compiledPolicy) int { return strings.Compare(a.id, b.id) }
	slices.SortStableFunc(set.policies, byID)
	slices.SortStableFunc(set.disabled, byID)
	set.addAll(set.policies)
	c.sharedPools()
	c.options()
	if err := errors.Join(append(strictjson.Parts(fieldErrors(refused)), newRefusals(refused).others(c.err())...)...); err != nil {
		return nil, err
	}
	for _, p := range set.policies {
		var faults [2]error
		p.hours, faults[0] = set.hours(p.windows)
		p.firstHours, faults[1] = set.hours(applied(p.windows))
		if err := errors.Join(faults[:]...); err != nil {
			return nil, err
		}
	}
	return set, nil
}

type compilation struct {
	faults
	set     *PolicySet
	ruleIDs map[string]origin // by id
}

// origin says where an id comes from: the path of the policy or rule that has it, and the paths of
// the fields that it was made of.
type origin struct {
	at     string
	fields []string        // the id itself, and more if it is derived
	policy *compiledPolicy // if the id is of a rule: its policy
}

// The prefixes of the variables that an expression may read. Which of them it may read depends on
// the place where it stands.
const (
	ofDeployment = "deployment."
	ofResource   = "resource."
	ofEnv        = "environment."
	ofVersion    = "version."
)

func (c *compilation) expression(path, text string, places ...string) Matcher {
	if text == "" {
		return nil // its absence is allowed, or reported by Validate
	}
	matcher, err := c.set.compiler.Matcher(text)
	if err != nil {
		c.faults.expression(path, err)
		return nil
	}
	if reader, ok := matcher.(interface{ Variables() []string }); ok {
		everything := bound{new(Resource), new(Environment), new(Deployment), new(Version)}
		for _, name := range reader.Variables() {
			if _, known := everything.Lookup(name); !known { // of a larger schema: it would fail on every target
				c.add(path, CodeExpression, name, "is no variable of a policy: keep the value in metadata, as in resource.metadata['zone']")
			} else if !slices.ContainsFunc(places, func(place string) bool { return strings.HasPrefix(name, place) }) {
				c.add(path, CodeExpression, name, "is not known here: use %s*", strings.Join(places, "*, "))
			}
		}
	}
	return matcher
}

func (c *compilation) policy(path, id string, from []string, p Policy) *compiledPolicy {
	compiled := &compiledPolicy{
		id:       id,
		from:     from,
		path:     path,
		selector: c.expression(join(path, "selector"), p.Selector, ofDeployment, ofResource, ofEnv),
	}
	ordinals := map[RuleKind]int{}
	for i, rule := range p.Rules {
		kind := rule.Kind()
		at := join(path, fmt.Sprintf("rules[%d]", i))
		if kind == "" {
			continue // reported by Validate
		}
		r := c.rule(join(at, string(kind)), rule)
		r.id, r.kind, r.createdAt, r.policy = rule.ID, kind, rule.CreatedAt, compiled
		if r.derived = r.id == ""; r.derived {
			r.id = textkey.Join(id, string(kind), strconv.Itoa(ordinals[kind]))
		}
		ordinals[kind]++
		own := []string{join(at, "id")}
		if r.derived {
			own = append(append(own, from...), anyKind(path)) // ordinals count the rules of one kind
		}
		if first, taken := c.ruleIDs[r.id]; taken && rule.ID != "" && (first.policy != compiled || len(first.fields) > 1) { // Validate reports those that are given twice in one policy
			c.add(join(at, "id"), CodeDuplicate, r.id, "is the id of %s too: ids are unique among all policies", first.at).reading(first.fields...)
		} else if taken && rule.ID == "" && id != "" { // a policy without a name is a fault already
			c.add(at, CodeDuplicate, r.id, "is derived as its id, and is the id of %s: give it an id of its own", first.at).reading(slices.Concat(own, first.fields)...)
		}
		c.ruleIDs[r.id] = origin{at, own, compiled}
		compiled.rules = append(compiled.rules, r)
		compiled.add(r)
	}
	for _, r := range compiled.gradual {
		r.implied = r.gradual.OrderKey == ""
		r.gradual = r.gradual.withDefaults(len(compiled.brackets) > 0)
		for _, own := range compiled.brackets {
			r.bracketID = own.id
		}
	}
	return compiled
}

// withDefaults returns a copy of g with the defaults that depend on the rest of the rule or of the
// policy. The copy shares the waves of g.
func (g *GradualRollout) withDefaults(bracketed bool) *GradualRollout {
	full := *g
	if full.OrderKey == "" {
		full.OrderKey = OrderByTarget
		if bracketed {
			full.OrderKey = OrderByBracket
		}
	}
	if full.OrderSalt == "" && full.OrderKey == OrderByTarget {
		full.OrderSalt = SaltByVersion
	}
	return &full
}

func (c *compilation) rule(path string, rule Rule) *compiledRule {
	r := &compiledRule{path: path}
	switch {
	case rule.DeploymentBracket != nil:
		r.bracket = rule.DeploymentBracket
		r.members = c.expression(join(path, "deploymentSelector"), r.bracket.DeploymentSelector, ofDeployment)
		if roles := r.bracket.MemberRoles; roles != nil {
			r.pre = c.expression(join(path, "memberRoles.pre"), roles.Pre, ofDeployment)
			r.post = c.expression(join(path, "memberRoles.post"), roles.Post, ofDeployment)
		}
	case rule.ResourceConcurrency != nil:
		r.pool = rule.ResourceConcurrency
		r.group = c.expression(join(path, "groupSelector"), r.pool.GroupSelector, ofResource)
		if r.pool.GroupBy != "" {
			by, err := parseVariable(r.pool.GroupBy)
			if err != nil {
				c.add(join(path, "groupBy"), CodeExpression, r.pool.GroupBy, "%v", err)
			}
			r.groupBy = by
		}
	case rule.GradualRollout != nil:
		r.gradual = rule.GradualRollout
	case rule.DeploymentDependency != nil:
		r.dependency = rule.DeploymentDependency
		r.dependsOn = c.expression(join(path, "dependsOn"), r.dependency.DependsOn, ofDeployment, ofVersion, ofResource, ofEnv)
		r.appliesTo = c.expression(join(path, "appliesTo"), r.dependency.AppliesTo, ofDeployment, ofResource, ofEnv)
		r.readsResource, r.readsVersion = reads(r.dependsOn, ofResource), reads(r.dependsOn, ofVersion)
	case rule.VersionSelector != nil:
		r.selector = c.expression(join(path, "selector"), rule.VersionSelector.Selector, ofVersion, ofDeployment, ofEnv, ofResource)
		if text := rule.VersionSelector.Description; text != "" {
			r.described = &Data{Detail: text}
		}
		r.readsResource = reads(r.selector, ofResource)
	case rule.AnyApproval != nil:
		r.approval = rule.AnyApproval
	case rule.EnvironmentProgression != nil:
		r.progression = rule.EnvironmentProgression
		r.selector = c.expression(join(path, "dependsOnEnvironmentSelector"), r.progression.DependsOnEnvironmentSelector, ofEnv, ofDeployment)
	case rule.VersionCooldown != nil:
		r.cooldown = rule.VersionCooldown
	case rule.DeploymentWindow != nil:
		c.window(path, r, rule.DeploymentWindow)
	case rule.Rollback != nil:
		r.rollback = rule.Rollback
	case rule.Retry != nil:
		r.retry = rule.Retry
	}
	return r
}

// options refuses an unknown value for versions whose scope fails, and rules of the host that are
// nil or whose id is missing or taken.
func (c *compilation) options() {
	switch c.set.scopeErrors {
	case "", ScopeExclude, ScopeInclude:
	default:
		c.add("", CodeUnknownValue, c.set.scopeErrors, "is given to WithScopeErrors: write %s or %s", ScopeExclude, ScopeInclude)
	}
	seen := map[string]bool{}
	for _, rule := range c.set.customs {
		if rule == nil {
			c.add("", CodeRequired, nil, "a rule given by WithRule is nil")
			continue
		}
		switch own, taken := c.ruleIDs[rule.ID()]; {
		case rule.ID() == "":
			c.add("", CodeRequired, nil, "a rule given by WithRule has no id: verdicts name it")
		case taken:
			c.add("", CodeDuplicate, rule.ID(), "is the id of %s and of a rule given by WithRule: ids are unique", own.at).reading(own.fields...)
		case seen[rule.ID()]:
			c.add("", CodeDuplicate, rule.ID(), "is the id of two rules given by WithRule: ids are unique")
		}
		seen[rule.ID()] = true
	}
}

// sharedPools refuses rules that share a pool and disagree about it. The rules of disabled policies
// share nothing.
func (c *compilation) sharedPools() {
	first := map[string]*compiledRule{}
	for _, r := range c.set.concurrency {
		name := r.pool.SharedPool
		if name == "" {
			continue
		}
		enabled := join(r.policy.path, "enabled")
		of, taken := first[name]
		switch {
		case r.pool.Validate() != nil: // a faulty rule does not say what its pool is
		case !taken:
			first[name] = r
		default:
			for _, fault := range strictjson.Faults(r.pool.ValidateShared(*of.pool)) {
				fields := append(fault.Fields, fault.Path)
				fields = slices.Concat(strictjson.Paths(r.path, fields), strictjson.Paths(of.path, fields), []string{enabled, join(of.policy.path, "enabled")})
				if of.policy != r.policy { // the ids of the policies say which rule is first
					fields = slices.Concat(fields, r.policy.from, of.policy.from)
				}
				c.under(r.path, fault.Err)
				c.reading(fields...)
			}
		}
		if own, taken := c.ruleIDs[name]; taken {
			c.add(join(r.path, "sharedPool"), CodeDuplicate, name, "is the id of %s, whose own pool has this name: choose another one", own.at).reading(append([]string{enabled}, own.fields...)...)
		}
	}
}
