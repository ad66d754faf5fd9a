package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

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
// Match must not keep vars, which are others at the next call. A matcher may implement Variables()
// []string, the names of the variables it reads; then [Compile] refuses variables that are not known
// where the expression stands, and one answer may serve targets for which these are the same.
//
// It may implement Requires(prefix string) (variable, key string, values []string). If variable is
// not empty, it begins with the prefix, and where it has another value than these, Match returns
// false and no error, whatever the other variables are and even if they are not known. If the
// variable is a map, the value is that of the key, which may be missing; then, and where a text among
// the variables is longer than 256 bytes, Match may return anything. With it a plan asks a policy
// that is about one deployment, one environment or some resources only about these, and so it does
// with the group selectors of pools and the target selectors of versions.
type Matcher = interface {
	Match(vars interface {
		Lookup(name string) (any, bool)
	}) (bool, error)
}

// Compiler compiles expressions; a *selector.Env of selector.DefaultSchema is one. This package
// knows only the variables of that schema, so [Compile] refuses an expression that reads another
// one, even if the compiler has it.
//
// The expressions of policies are compiled once. Those of versions are compiled in every plan, about
// 0.2 ms for each that some target could get: a host with hundreds of scoped versions passes a
// compiler that remembers them.
type Compiler interface {
	Matcher(expression string) (Matcher, error)
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
	c := compilation{set: set, policyIDs: map[string]origin{}, ruleIDs: map[string]origin{}}
	if compiler == nil {
		c.add("", CodeRequired, nil, "a compiler is needed: pass the *selector.Env of package selector")
		return nil, c.err()
	}
	for i, p := range policies {
		path := ""
		if listed {
			path = fmt.Sprintf("[%d]", i)
		}
		c.addPolicy(path, p.clone())
	}
	c.sharedPools()
	byID := func(a, b *compiledPolicy) int { return strings.Compare(a.id, b.id) }
	slices.SortStableFunc(set.policies, byID)
	slices.SortStableFunc(set.disabled, byID)
	set.addAll(set.policies)
	c.options()
	if err := strictjson.Join(append(strictjson.Parts(fieldErrors(refused)), newRefusals(refused).others(c.err())...)...); err != nil {
		return nil, err
	}
	set.byID = rulesByID(set.policies)
	set.findAsking()
	askAsMuch(set.progressions)
	if err := set.findHours(); err != nil {
		return nil, err
	}
	return set, nil
}

// findHours puts the windows of each policy together.
func (s *PolicySet) findHours() error {
	for _, p := range s.policies {
		var faults [2]error
		p.hours, faults[0] = s.hours(p.windows)
		p.firstHours, faults[1] = s.hours(applied(p.windows))
		if err := strictjson.Join(faults[:]...); err != nil {
			return err
		}
	}
	return nil
}

// findAsking numbers policies and rules, and finds out which expressions are asked about what.
func (s *PolicySet) findAsking() {
	for k, p := range s.policies {
		p.number = int32(k)
		p.askingAppliesTo = newAsking(each(p.dependencies, func(r *compiledRule) Matcher { return r.appliesTo }), ofDeployment, ofEnv)
	}
	for k, r := range s.concurrency {
		r.number = int32(k)
	}
	for k, r := range s.dependencies {
		r.number, r.requires = int32(k), required(r.dependsOn, ofDeployment, ofEnv)
	}
	selectors := each(s.policies, func(p *compiledPolicy) Matcher { return p.selector })
	s.asking, s.askingResources = newAsking(selectors, ofDeployment, ofEnv), newAsking(selectors, ofResource)
	s.askingGroups = newAsking(each(s.concurrency, func(r *compiledRule) Matcher { return r.group }), ofResource)
}

// each returns an expression of each of some policies or rules.
func each[T any](list []T, expression func(T) Matcher) []Matcher {
	expressions := make([]Matcher, len(list))
	for k, one := range list {
		expressions[k] = expression(one)
	}
	return expressions
}

type compilation struct {
	faults
	set                *PolicySet
	policyIDs, ruleIDs map[string]origin // by id
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

// addPolicy checks and compiles a policy, which the set keeps.
func (c *compilation) addPolicy(path string, p Policy) {
	c.set.given = append(c.set.given, p)
	p.validate(path, &c.faults)
	id, from := cmp.Or(p.ID, p.Name), []string{join(path, "id")}
	if p.ID == "" {
		from = append(from, join(path, "name"))
	}
	if first, taken := c.policyIDs[id]; taken && id != "" {
		c.add(join(path, "id"), CodeDuplicate, id, "is the id of %s too: ids are unique, and a missing one is the name", first.at).reading(slices.Concat(from, first.fields)...)
	}
	c.policyIDs[id] = origin{at: path, fields: from}
	compiled := c.policy(path, id, from, p)
	if p.Enabled == nil || *p.Enabled {
		c.set.policies = append(c.set.policies, compiled)
	} else {
		c.set.disabled = append(c.set.disabled, compiled)
	}
}

func (c *compilation) policy(path, id string, from []string, p Policy) *compiledPolicy {
	compiled := &compiledPolicy{
		id:       id,
		path:     path,
		selector: c.expression(join(path, "selector"), p.Selector, ofDeployment, ofResource, ofEnv),
	}
	if compiled.selector != nil {
		compiled.alike = !reads(compiled.selector, ofResource)
		compiled.paired = compiled.alike || reads(compiled.selector, ofDeployment) || reads(compiled.selector, ofEnv)
	}
	ordinals := map[RuleKind]int{}
	for i, rule := range p.Rules {
		kind := rule.Kind()
		at := join(path, fmt.Sprintf("rules[%d]", i))
		if kind == "" { // reported by Validate, but it takes its id
			if rule.ID != "" {
				c.identify(at, rule.ID, compiled)
			}
			continue
		}
		r := c.rule(join(at, string(kind)), rule)
		r.id, r.kind, r.createdAt, r.policy = rule.ID, kind, rule.CreatedAt, compiled
		if r.id == "" {
			r.id, r.derived = textkey.Join(id, string(kind), strconv.Itoa(ordinals[kind])), true
			c.deriveID(at, r.id, compiled, append(append([]string{join(at, "id")}, from...), anyKind(path))) // ordinals count the rules of one kind
		} else {
			c.identify(at, r.id, compiled)
		}
		ordinals[kind]++
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

// identify gives the rule at a path the id that is written there, and reports one that another rule
// has. Validate reports those that are written twice in one policy.
func (c *compilation) identify(at, id string, policy *compiledPolicy) {
	if first, taken := c.ruleIDs[id]; taken && (first.policy != policy || len(first.fields) > 1) {
		c.add(join(at, "id"), CodeDuplicate, id, "is the id of %s too: ids are unique among all policies", first.at).reading(first.fields...)
	}
	c.ruleIDs[id] = origin{at, []string{join(at, "id")}, policy}
}

// deriveID gives the rule at a path an id that is derived from some fields, and reports one that
// another rule has.
func (c *compilation) deriveID(at, id string, policy *compiledPolicy, fields []string) {
	if first, taken := c.ruleIDs[id]; taken && policy.id != "" { // a policy without a name is a fault already
		c.add(at, CodeDuplicate, id, "is derived as its id, and is the id of %s: give it an id of its own", first.at).reading(slices.Concat(fields, first.fields)...)
	}
	c.ruleIDs[id] = origin{at, fields, policy}
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
	case rule.FailureBudget != nil:
		r.budget = rule.FailureBudget
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
	c.set.customIDs = seen
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

// sharedPools refuses rules that share a pool and disagree about it, and shared pools with the id
// of a rule. The first rule of a pool is the first that is given, whatever the ids of the policies
// are: so what is said of one rule does not depend on the id of another. The rules of disabled
// policies share nothing, but their ids are taken, for shared pools as for rules: the leases that
// such a rule has left are stored under its id, and would count in the pool of another; and once
// the policy is enabled again, the two would be one pool.
func (c *compilation) sharedPools() {
	first := map[string]*compiledRule{}
	for _, p := range c.set.policies {
		enabled := join(p.path, "enabled")
		for _, r := range p.concurrency {
			name := r.pool.SharedPool
			if name == "" {
				continue
			}
			of, taken := first[name]
			switch {
			case r.pool.Validate() != nil: // a faulty rule does not say what its pool is
			case !taken:
				first[name] = r
			default:
				for _, fault := range strictjson.Faults(r.pool.ValidateShared(*of.pool)) {
					fields := append(fault.Fields, fault.Path)
					c.under(r.path, fault.Err)
					c.reading(slices.Concat(strictjson.Paths(r.path, fields), strictjson.Paths(of.path, fields), []string{enabled, join(of.policy.path, "enabled")})...)
				}
			}
			if own, taken := c.ruleIDs[name]; taken {
				c.add(join(r.path, "sharedPool"), CodeDuplicate, name, "is the id of %s: ids of rules name the pools that are not shared, so choose another name", own.at).reading(append([]string{enabled}, own.fields...)...)
			}
		}
	}
}
