package rollout

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/internal/strictjson"
)

// Policy is a set of rules and an expression that says which release targets they govern. Every
// policy that matches a target governs it, and all their rules must allow a start. The JSON form is
// that of the deployment bracket RFC.
type Policy struct {
	ID       string `json:"id,omitempty"`      // unique in the set; unset: Name
	Name     string `json:"name"`              // required, for people
	Enabled  *bool  `json:"enabled,omitempty"` // nil: true. A disabled policy is checked but governs nothing
	Selector string `json:"selector"`          // required: CEL on resource, environment and deployment; a missing key is no match
	Rules    []Rule `json:"rules"`             // at least one
}

// Rule holds exactly one kind of rule.
type Rule struct {
	// ID names the rule in every reason, and the state of brackets, rollouts and pools is stored
	// under it. If unset, it is derived from the policy, the kind and the ordinal of the rule among
	// those of its kind, such as "Node Lifecycle/deploymentBracket/0". Inserting a rule of the same
	// kind before it then makes it another rule.
	ID string `json:"id,omitempty"`

	// CreatedAt is the creation of the rule: an approval rule does not apply to versions created
	// before it. Zero: the rule always existed.
	CreatedAt time.Time `json:"createdAt,omitzero"`

	DeploymentBracket    *bracket.Rule         `json:"deploymentBracket,omitempty"`
	ResourceConcurrency  *concurrency.Rule     `json:"resourceConcurrency,omitempty"`
	GradualRollout       *GradualRollout       `json:"gradualRollout,omitempty"`
	DeploymentDependency *DeploymentDependency `json:"deploymentDependency,omitempty"`
	VersionSelector      *VersionSelector      `json:"versionSelector,omitempty"`
	AnyApproval          *AnyApproval          `json:"anyApproval,omitempty"`

	EnvironmentProgression *EnvironmentProgression `json:"environmentProgression,omitempty"`
	VersionCooldown        *VersionCooldown        `json:"versionCooldown,omitempty"`
	DeploymentWindow       *DeploymentWindow       `json:"deploymentWindow,omitempty"`
	Retry                  *Retry                  `json:"retry,omitempty"`
	Rollback               *Rollback               `json:"rollback,omitempty"`
}

// clone returns a copy that shares no mutable data with p: the author of a policy may go on editing
// it without affecting a policy set.
func (p Policy) clone() Policy {
	p.Enabled = copyOf(p.Enabled)
	p.Rules = slices.Clone(p.Rules)
	for i := range p.Rules {
		p.Rules[i] = p.Rules[i].clone()
	}
	return p
}

func (r Rule) clone() Rule {
	if r.DeploymentBracket = copyOf(r.DeploymentBracket); r.DeploymentBracket != nil {
		own := r.DeploymentBracket
		own.ReadinessWindowSeconds, own.MemberRoles = copyOf(own.ReadinessWindowSeconds), copyOf(own.MemberRoles)
		own.HooksIdempotent, own.MaxMerges = copyOf(own.HooksIdempotent), copyOf(own.MaxMerges)
	}
	if r.ResourceConcurrency = copyOf(r.ResourceConcurrency); r.ResourceConcurrency != nil {
		r.ResourceConcurrency.LimitValue = copyOf(r.ResourceConcurrency.LimitValue)
	}
	if r.GradualRollout = copyOf(r.GradualRollout); r.GradualRollout != nil {
		own := r.GradualRollout
		own.TimeScaleInterval, own.Waves = copyOf(own.TimeScaleInterval), slices.Clone(own.Waves)
	}
	r.DeploymentDependency, r.VersionSelector = copyOf(r.DeploymentDependency), copyOf(r.VersionSelector)
	if r.AnyApproval = copyOf(r.AnyApproval); r.AnyApproval != nil {
		r.AnyApproval.MinApprovals = copyOf(r.AnyApproval.MinApprovals)
	}
	if r.EnvironmentProgression = copyOf(r.EnvironmentProgression); r.EnvironmentProgression != nil {
		own := r.EnvironmentProgression
		own.MinimumSuccessPercentage, own.MaximumAgeHours = copyOf(own.MinimumSuccessPercentage), copyOf(own.MaximumAgeHours)
		own.SuccessStatuses = slices.Clone(own.SuccessStatuses)
	}
	if r.VersionCooldown = copyOf(r.VersionCooldown); r.VersionCooldown != nil {
		r.VersionCooldown.IntervalSeconds = copyOf(r.VersionCooldown.IntervalSeconds)
	}
	if r.DeploymentWindow = copyOf(r.DeploymentWindow); r.DeploymentWindow != nil {
		own := r.DeploymentWindow
		own.AllowWindow, own.Weekly = copyOf(own.AllowWindow), copyOf(own.Weekly)
		if own.Weekly != nil {
			own.Weekly.Days = slices.Clone(own.Weekly.Days)
		}
	}
	if r.Retry = copyOf(r.Retry); r.Retry != nil {
		own := r.Retry
		own.MaxRetries, own.MaxBackoffSeconds = copyOf(own.MaxRetries), copyOf(own.MaxBackoffSeconds)
		own.RetryOnStatuses = slices.Clone(own.RetryOnStatuses)
	}
	if r.Rollback = copyOf(r.Rollback); r.Rollback != nil {
		r.Rollback.OnJobStatuses = slices.Clone(r.Rollback.OnJobStatuses)
	}
	return r
}

// RuleKind is a kind of rule: the JSON name under which a [Rule] holds it.
type RuleKind string

const (
	KindBracket         RuleKind = "deploymentBracket"
	KindConcurrency     RuleKind = "resourceConcurrency"
	KindGradualRollout  RuleKind = "gradualRollout"
	KindDependency      RuleKind = "deploymentDependency"
	KindVersionSelector RuleKind = "versionSelector"
	KindApproval        RuleKind = "anyApproval"
	KindProgression     RuleKind = "environmentProgression"
	KindCooldown        RuleKind = "versionCooldown"
	KindWindow          RuleKind = "deploymentWindow"
	KindRetry           RuleKind = "retry"
	KindRollback        RuleKind = "rollback"
)

// kindOfRule is a kind with the value that a rule holds for it.
type kindOfRule struct {
	name RuleKind
	rule interface{ Validate() error }
	set  bool
}

func (r Rule) kinds() [11]kindOfRule {
	return [...]kindOfRule{
		{KindBracket, r.DeploymentBracket, r.DeploymentBracket != nil},
		{KindConcurrency, r.ResourceConcurrency, r.ResourceConcurrency != nil},
		{KindGradualRollout, r.GradualRollout, r.GradualRollout != nil},
		{KindDependency, r.DeploymentDependency, r.DeploymentDependency != nil},
		{KindVersionSelector, r.VersionSelector, r.VersionSelector != nil},
		{KindApproval, r.AnyApproval, r.AnyApproval != nil},
		{KindProgression, r.EnvironmentProgression, r.EnvironmentProgression != nil},
		{KindCooldown, r.VersionCooldown, r.VersionCooldown != nil},
		{KindWindow, r.DeploymentWindow, r.DeploymentWindow != nil},
		{KindRetry, r.Retry, r.Retry != nil},
		{KindRollback, r.Rollback, r.Rollback != nil},
	}
}

// Kind returns the JSON name of the one kind that the rule holds, and "" if it holds none or
// several.
func (r Rule) Kind() RuleKind {
	kind, n := RuleKind(""), 0
	for _, k := range r.kinds() {
		if k.set {
			kind, n = k.name, n+1
		}
	}
	if n != 1 {
		return ""
	}
	return kind
}

// Validate reports every fault of the policy that can be seen without compiling its expressions;
// [Compile] reports the faults of the expressions as well.
func (p Policy) Validate() error {
	var f faults
	p.validate("", &f)
	return f.err()
}

func (p Policy) validate(path string, f *faults) {
	f.required(join(path, "name"), p.Name, "a policy is named in every reason")
	f.required(join(path, "selector"), p.Selector, `write "true" to govern every target`)
	if len(p.Rules) == 0 {
		f.add(join(path, "rules"), CodeRequired, nil, "is required: at least one rule")
	}
	ids := map[string]int{}
	var order, brackets []int
	for i, rule := range p.Rules {
		at := join(path, fmt.Sprintf("rules[%d]", i))
		rule.validate(at, f)
		if rule.ID != "" {
			if first, taken := ids[rule.ID]; taken {
				f.add(join(at, "id"), CodeDuplicate, rule.ID, "is the id of rules[%d] too: ids are unique", first).reading(join(path, fmt.Sprintf("rules[%d].id", first)))
			} else {
				ids[rule.ID] = i
			}
		}
		if rule.DeploymentBracket != nil && rule.ID == reservedID {
			f.add(join(at, "id"), CodeConflict, rule.ID, "is reserved, because the slots of targets outside brackets are held under it: use another id")
		}
		if rule.DeploymentBracket != nil {
			brackets = append(brackets, i)
		}
		if rule.GradualRollout != nil {
			order = append(order, i)
		}
	}
	for _, i := range brackets[min(1, len(brackets)):] {
		f.add(join(path, fmt.Sprintf("rules[%d].%s", i, KindBracket)), CodeDuplicate, nil, "must be in a second policy: a policy has at most one bracket, and rules[%d] is one", brackets[0])
	}
	for _, i := range order {
		p.Rules[i].GradualRollout.validateOrder(join(path, fmt.Sprintf("rules[%d].%s", i, KindGradualRollout)), len(brackets) > 0, anyKind(path), f)
	}
}

// anyKind is the path of any kind of any rule of a policy: a check that depends on the kinds of all
// rules reads it.
func anyKind(path string) string {
	return join(path, "rules["+strictjson.AnyField+"]."+strictjson.AnyField)
}

// validateOrder checks the order against the presence of a bracket in the policy: the members of a
// bracket must share one turn on a resource.
func (g *GradualRollout) validateOrder(path string, bracketed bool, kinds string, f *faults) {
	switch key := join(path, "orderKey"); {
	case bracketed && g.OrderKey == OrderByTarget:
		f.add(key, CodeConflict, OrderByTarget, "gives the members of a bracket different turns on one resource: use %q or %q", OrderByBracket, OrderByResource)
	case !bracketed && g.OrderKey == OrderByBracket:
		f.add(key, CodeConflict, OrderByBracket, "needs a %s rule in the same policy: add one, or use %q", KindBracket, OrderByTarget).reading(kinds)
	}
	switch salt := join(path, "orderSalt"); {
	case bracketed && g.OrderSalt == SaltByVersion:
		f.add(salt, CodeConflict, SaltByVersion, "gives the members of a bracket different turns on one resource: use %q or %q", SaltNone, SaltByGroup)
	case !bracketed && g.OrderSalt == SaltByGroup:
		f.add(salt, CodeConflict, SaltByGroup, "needs a %s rule in the same policy: use %q or %q", KindBracket, SaltNone, SaltByVersion).reading(kinds)
	}
}

func (r Rule) validate(path string, f *faults) {
	held := 0
	for _, k := range r.kinds() {
		if k.set {
			held++
			f.under(join(path, string(k.name)), k.rule.Validate())
		}
	}
	switch held {
	case 0:
		f.add(path, CodeRequired, nil, "must hold one kind of rule, such as %s or %s", KindBracket, KindConcurrency).reading(join(path, strictjson.AnyField))
	case 1:
	default:
		f.add(path, CodeConflict, nil, "must hold only one kind of rule, and holds %d: make a rule of each", held)
	}
}

// RolloutType names a curve of [GradualRollout].
type RolloutType string

const (
	Linear           RolloutType = "linear"            // one position per interval
	LinearNormalized RolloutType = "linear-normalized" // all positions within one interval, evenly
	Exponential      RolloutType = "exponential"       // all positions within one interval, ever closer together
	Waves            RolloutType = "waves"             // one wave per interval
)

func (t RolloutType) known() bool {
	return t == Linear || t == LinearNormalized || t == Exponential || t == Waves
}

// OrderKey says what is ranked, and so which targets share a turn.
type OrderKey string

const (
	OrderByTarget   OrderKey = "target"           // every release target of a (deployment, environment) on its own; the default without a bracket
	OrderByResource OrderKey = "resource"         // the resources that the rule governs in an environment
	OrderByBracket  OrderKey = "resource_bracket" // the resources of all members of the policy's bracket; the default with one
)

// OrderSalt says what shuffles the order.
type OrderSalt string

const (
	SaltNone      OrderSalt = "none"    // the same order every time: stable canaries. The default of resource and resource_bracket
	SaltByVersion OrderSalt = "version" // another order for every version; the default of target
	SaltByGroup   OrderSalt = "group"   // another order for every bracket group
)

// OrderHash names the hash that makes the order.
type OrderHash string

const (
	HashV1     OrderHash = "v1"     // the default; frozen by golden vectors
	HashLegacy OrderHash = "legacy" // FNV-1a 64 of the concatenated ids, for migrations; close version ids give the same order
)

// GradualRollout spreads the starts of a version over time: each target has a position, and a curve
// says how long after the start of the rollout that position is due.
//
// A curve, waves included, advances with time alone: jobs that failed earlier in it hold no target
// back. To stop a rollout, set the version to paused; to stop its curve as well, close a window. To
// let success decide what is next, use an EnvironmentProgression between environments, package
// staged for stages with gates between them, or a [CustomRule].
type GradualRollout struct {
	RolloutType RolloutType `json:"rolloutType"` // required

	// TimeScaleInterval is the unit of the curve in seconds, at least 0; required. 0 makes every
	// target due at once.
	TimeScaleInterval *int64 `json:"timeScaleInterval" unit:"seconds"`

	// PositionGrowthFactor is the number of positions after which 1/e of the interval is left; at
	// least 1. Required for exponential, and left out otherwise.
	PositionGrowthFactor int64 `json:"positionGrowthFactor,omitempty"`

	// Waves are the sizes of the waves, counts or percents of the targets at the start, each at
	// least 1; the last size repeats. Required for waves, and left out otherwise.
	Waves []concurrency.Limit `json:"waves,omitempty"`

	OrderKey  OrderKey  `json:"orderKey,omitempty"`  // unset: resource_bracket in a policy with a bracket, else target
	OrderSalt OrderSalt `json:"orderSalt,omitempty"` // unset: version for target, else none
	OrderHash OrderHash `json:"orderHash,omitempty"` // unset: v1
}

// Validate reports every fault, joined, each a *[FieldError].
func (g GradualRollout) Validate() error {
	var f faults
	f.required("rolloutType", string(g.RolloutType), strictjson.Choice(Linear, LinearNormalized, Exponential, Waves))
	oneOf(&f, "rolloutType", g.RolloutType, Linear, LinearNormalized, Exponential, Waves)
	if i := g.TimeScaleInterval; i == nil {
		f.add("timeScaleInterval", CodeRequired, nil, "is required: the unit of the curve in seconds")
	} else {
		f.within("timeScaleInterval", *i, 0, maxSeconds, "seconds")
	}
	known := g.RolloutType.known() // otherwise it is unknown which fields belong to it
	switch growth := g.PositionGrowthFactor; {
	case g.RolloutType == Exponential && growth == 0:
		f.add("positionGrowthFactor", CodeRequired, nil, "is required with rolloutType %s: at least 1", Exponential).reading("rolloutType")
	case g.RolloutType == Exponential && growth < 1:
		f.add("positionGrowthFactor", CodeOutOfRange, growth, "must be at least 1").reading("rolloutType")
	case known && g.RolloutType != Exponential && growth != 0:
		f.add("positionGrowthFactor", CodeConflict, growth, "must be left out unless rolloutType is %s", Exponential).reading("rolloutType")
	}
	switch {
	case g.RolloutType == Waves && len(g.Waves) == 0:
		f.add("waves", CodeRequired, nil, "is required with rolloutType %s: at least one size", Waves).reading("rolloutType")
	case known && g.RolloutType != Waves && len(g.Waves) != 0:
		f.add("waves", CodeConflict, nil, "must be left out unless rolloutType is %s", Waves).reading("rolloutType")
	}
	for i, size := range g.Waves {
		at := fmt.Sprintf("waves[%d]", i)
		if err := size.Validate(); err != nil {
			f.under(at, err)
		} else if size.Value() < 1 {
			f.add(at, CodeOutOfRange, size, "lets nobody start: use at least 1")
		}
	}
	oneOf(&f, "orderKey", g.OrderKey, OrderByTarget, OrderByResource, OrderByBracket)
	oneOf(&f, "orderSalt", g.OrderSalt, SaltNone, SaltByVersion, SaltByGroup)
	oneOf(&f, "orderHash", g.OrderHash, HashV1, HashLegacy)
	return f.err()
}

// maxSeconds is the longest duration that fits into 64 bits of nanoseconds.
const maxSeconds = math.MaxInt64 / int64(time.Second)

// Quantifier says how many of several deployments must satisfy a dependency.
type Quantifier string

const (
	MatchAny Quantifier = "any" // one of them; the default
	MatchAll Quantifier = "all" // every one
)

// DeploymentDependency lets a version start on a target only when other deployments on the same
// resource run what it needs. Between members of a bracket it orders the members instead, and then
// every matched member is needed. The version of a member is then the one that it runs after the
// execution. If the rule matches no member by these versions, it is asked as it is outside
// brackets, and holds the whole execution.
type DeploymentDependency struct {
	// DependsOn is required: CEL on the other deployment, its current version, the resource and the
	// environment. A missing key is no match.
	DependsOn string `json:"dependsOn"`

	// AppliesTo is CEL on the deployment that waits. Unset: every governed target. If it reads a
	// missing key, the rule applies.
	AppliesTo string `json:"appliesTo,omitempty"`

	Match          Quantifier `json:"match,omitempty"`          // unset: any
	AnyEnvironment bool       `json:"anyEnvironment,omitempty"` // also count the resource's targets in other environments
}

// Validate reports every fault, joined, each a *[FieldError].
func (d DeploymentDependency) Validate() error {
	var f faults
	f.required("dependsOn", d.DependsOn, "an expression such as deployment.name == 'node-drain'")
	oneOf(&f, "match", d.Match, MatchAny, MatchAll)
	return f.err()
}

// VersionSelector lets only matching versions start.
type VersionSelector struct {
	Selector    string `json:"selector"`              // required: CEL on version, deployment, environment and resource; a missing key denies
	Description string `json:"description,omitempty"` // for people: why other versions may not start; reported with each of them
}

// Validate reports a missing expression as a *[FieldError].
func (s VersionSelector) Validate() error {
	var f faults
	f.required("selector", s.Selector, `write "true" to let every version pass`)
	return f.err()
}

// AnyApproval lets a version start in an environment once enough different people approved it
// there.
type AnyApproval struct {
	MinApprovals *int `json:"minApprovals"` // required; at least 0, and 0 needs no approval
}

// Validate reports a missing or negative number as a *[FieldError].
func (a AnyApproval) Validate() error {
	var f faults
	if a.MinApprovals == nil {
		f.add("minApprovals", CodeRequired, nil, "is required: how many people must approve")
	} else if *a.MinApprovals < 0 {
		f.add("minApprovals", CodeOutOfRange, *a.MinApprovals, "must be at least 0")
	}
	return f.err()
}

// copyOf returns a pointer to a copy of the value, or nil for nil.
func copyOf[T any](value *T) *T {
	if value == nil {
		return nil
	}
	own := *value
	return &own
}
