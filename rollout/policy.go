package rollout

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/internal/strictjson"
)

// Policy is a set of rules and an expression that says which release targets they govern. Every policy that matches a target governs it, and
// all their rules must allow a start. The JSON form is that of the deployment bracket RFC.
type Policy struct {
	ID       string `json:"id,omitempty"` // unset: Name
	Name     string `json:"name"`
	Enabled  *bool  `json:"enabled,omitempty"` // unset: true. A disabled policy is checked and governs nothing
	Selector string `json:"selector"`          // CEL on resource, environment and deployment; a missing key is no match
	Rules    []Rule `json:"rules"`
}

// Rule holds exactly one kind of rule.
type Rule struct {
	// ID names the rule in every reason, and the stored state of brackets, rollouts and pools hangs on it. Unset it is derived from the
	// policy, the kind and the ordinal of the rule among those of its kind, such as "Node Lifecycle/deploymentBracket/0": then
	// inserting a rule before it makes it another rule.
	ID string `json:"id,omitempty"`

	// CreatedAt grandfathers: an approval rule does not apply to versions created before it. Zero: it always existed.
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

// Kinds of rules: the JSON names under which a [Rule] holds them.
const (
	KindBracket         = "deploymentBracket"
	KindConcurrency     = "resourceConcurrency"
	KindGradualRollout  = "gradualRollout"
	KindDependency      = "deploymentDependency"
	KindVersionSelector = "versionSelector"
	KindApproval        = "anyApproval"
	KindProgression     = "environmentProgression"
	KindCooldown        = "versionCooldown"
	KindWindow          = "deploymentWindow"
	KindRetry           = "retry"
	KindRollback        = "rollback"
)

// kindOfRule is a kind with the rule's value of it.
type kindOfRule struct {
	name string
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

// Kind returns the JSON name of the one kind that the rule holds, and "" if it holds none or several.
func (r Rule) Kind() string {
	kind, n := "", 0
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

// ParsePolicies decodes one policy or a list of policies. Unknown fields, fields given twice and values of the wrong type are errors;
// all of them are reported, each with its path. It does not validate: [Compile] does.
func ParsePolicies(data []byte) ([]Policy, error) {
	if bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("[")) {
		var list []Policy
		if err := strictjson.Unmarshal(data, &list); err != nil {
			return nil, decodeErrors(err)
		}
		return list, nil
	}
	var one Policy
	if err := strictjson.Unmarshal(data, &one); err != nil {
		return nil, decodeErrors(err)
	}
	return []Policy{one}, nil
}

// PolicyError is one fault of a policy. Functions that check policies return all faults joined.
type PolicyError struct {
	Path string // such as rules[2].resourceConcurrency.limitValue; with several policies it begins with [1].
	Msg  string // what is wrong and what to write instead
	Err  error  // the cause, such as a compile error with its position; nil if Msg says all
}

// Error returns "path: message: cause", without the parts that are empty.
func (e *PolicyError) Error() string {
	if e.Path == "" {
		return e.Msg
	}
	return e.Path + ": " + e.Msg
}

// Unwrap returns Err.
func (e *PolicyError) Unwrap() error { return e.Err }

func decodeErrors(err error) error {
	var faults []error
	for _, one := range leaves(err) {
		var fault *strictjson.Error
		if errors.As(one, &fault) {
			one = &PolicyError{Path: fault.Path, Msg: fault.Msg, Err: fault.Err}
		}
		faults = append(faults, one)
	}
	return errors.Join(faults...)
}

// leaves returns the single errors of a joined one, in order; none of nil.
func leaves(err error) []error {
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var list []error
	for _, one := range joined.Unwrap() {
		list = append(list, leaves(one)...)
	}
	return list
}

// faults collects the errors of one validation, each under a path.
type faults struct {
	list []error
}

func (f *faults) add(path, format string, args ...any) {
	f.list = append(f.list, &PolicyError{Path: path, Msg: fmt.Sprintf(format, args...)})
}

// under adds every single error of err below path. An error that knows its own path continues it.
func (f *faults) under(path string, err error) {
	for _, one := range leaves(err) {
		at, msg := path, one.Error()
		if own, ok := pathOf(one); ok && own != "" {
			msg = msg[min(len(msg), len(own)+len(": ")):]
			at = join(path, own)
		}
		f.list = append(f.list, &PolicyError{Path: at, Msg: msg, Err: one})
	}
}

func (f *faults) err() error { return errors.Join(f.list...) }

func join(path, field string) string {
	if path == "" || field == "" || field[0] == '[' {
		return path + field
	}
	return path + "." + field
}

// Validate reports every fault of the policy that can be seen without compiling its expressions; [Compile] reports those as well.
func (p Policy) Validate() error {
	var f faults
	p.validate("", &f)
	return f.err()
}

func (p Policy) validate(path string, f *faults) {
	if p.Name == "" {
		f.add(join(path, "name"), "required: a policy is named in every reason")
	}
	if p.Selector == "" {
		f.add(join(path, "selector"), `required: write "true" to govern every target`)
	}
	if len(p.Rules) == 0 {
		f.add(join(path, "rules"), "required: at least one rule")
	}
	ids := map[string]int{}
	var order, brackets []int
	for i, rule := range p.Rules {
		at := join(path, fmt.Sprintf("rules[%d]", i))
		rule.validate(at, f)
		if rule.ID != "" {
			if first, taken := ids[rule.ID]; taken {
				f.add(join(at, "id"), "%q is the id of rules[%d] too: ids are unique", rule.ID, first)
			} else {
				ids[rule.ID] = i
			}
		}
		if rule.DeploymentBracket != nil && rule.ID == reservedID {
			f.add(join(at, "id"), "%q is reserved: the slots of targets outside brackets are held under it, use another id", rule.ID)
		}
		if rule.DeploymentBracket != nil {
			brackets = append(brackets, i)
		}
		if rule.GradualRollout != nil {
			order = append(order, i)
		}
	}
	for _, i := range brackets[min(1, len(brackets)):] {
		f.add(join(path, fmt.Sprintf("rules[%d].%s", i, KindBracket)), "a policy has at most one bracket, and rules[%d] is one: use a second policy", brackets[0])
	}
	for _, i := range order {
		p.Rules[i].GradualRollout.validateOrder(join(path, fmt.Sprintf("rules[%d].%s", i, KindGradualRollout)), len(brackets) > 0, f)
	}
}

// validateOrder checks the order against the presence of a bracket in the policy: its members must share one turn on a resource.
func (g *GradualRollout) validateOrder(path string, bracketed bool, f *faults) {
	switch key := join(path, "orderKey"); {
	case bracketed && g.OrderKey == OrderByTarget:
		f.add(key, "%q gives the members of a bracket different turns on one resource: use %q or %q", OrderByTarget, OrderByBracket, OrderByResource)
	case !bracketed && g.OrderKey == OrderByBracket:
		f.add(key, "%q needs a %s rule in the same policy: add one, or use %q", OrderByBracket, KindBracket, OrderByTarget)
	}
	switch salt := join(path, "orderSalt"); {
	case bracketed && g.OrderSalt == SaltByVersion:
		f.add(salt, "%q gives the members of a bracket different turns on one resource: use %q or %q", SaltByVersion, SaltNone, SaltByGroup)
	case !bracketed && g.OrderSalt == SaltByGroup:
		f.add(salt, "%q needs a %s rule in the same policy: use %q or %q", SaltByGroup, KindBracket, SaltNone, SaltByVersion)
	}
}

func (r Rule) validate(path string, f *faults) {
	kind := r.Kind()
	if kind == "" {
		f.add(path, "must hold exactly one kind of rule, such as %s or %s", KindBracket, KindConcurrency)
	}
	for _, k := range r.kinds() {
		if k.set {
			f.under(join(path, k.name), k.rule.Validate())
		}
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

// GradualRollout spreads the starts of a version over time: each target has a position, and a curve says how long after the start of
// the rollout that position is due.
type GradualRollout struct {
	RolloutType RolloutType `json:"rolloutType"`

	// TimeScaleInterval is the unit of the curve in seconds, at least 0; required. 0 makes every target due at once.
	TimeScaleInterval *int64 `json:"timeScaleInterval"`

	// PositionGrowthFactor is how many positions it takes until 1/e of the interval is left; required for exponential, at least 1.
	PositionGrowthFactor int64 `json:"positionGrowthFactor,omitempty"`

	// Waves are the sizes of the waves, counts or percents of the targets at the start, each at least 1; the last size repeats. Required for waves.
	Waves []concurrency.Limit `json:"waves,omitempty"`

	OrderKey  OrderKey  `json:"orderKey,omitempty"`  // unset: resource_bracket in a policy with a bracket, else target
	OrderSalt OrderSalt `json:"orderSalt,omitempty"` // unset: version for target, else none
	OrderHash OrderHash `json:"orderHash,omitempty"` // unset: v1
}

// Validate reports every fault; each is a [*PolicyError] with the field as its path.
func (g GradualRollout) Validate() error {
	var f faults
	switch g.RolloutType {
	case Linear, LinearNormalized, Exponential, Waves:
	case "":
		f.add("rolloutType", "required: %s, %s, %s or %s", Linear, LinearNormalized, Exponential, Waves)
	default:
		f.add("rolloutType", "%q is unknown: use %s, %s, %s or %s", g.RolloutType, Linear, LinearNormalized, Exponential, Waves)
	}
	switch i := g.TimeScaleInterval; {
	case i == nil:
		f.add("timeScaleInterval", "required: the unit of the curve in seconds")
	case *i < 0:
		f.add("timeScaleInterval", "%d is negative: use at least 0 seconds", *i)
	case *i > maxSeconds:
		f.add("timeScaleInterval", "%d seconds overflow: use at most %d", *i, maxSeconds)
	}
	switch {
	case g.RolloutType == Exponential && g.PositionGrowthFactor < 1:
		f.add("positionGrowthFactor", "%d: %s needs at least 1", g.PositionGrowthFactor, Exponential)
	case g.RolloutType != Exponential && g.PositionGrowthFactor != 0:
		f.add("positionGrowthFactor", "only %s has one: leave it out", Exponential)
	}
	switch {
	case g.RolloutType == Waves && len(g.Waves) == 0:
		f.add("waves", "%s needs at least one size", Waves)
	case g.RolloutType != Waves && len(g.Waves) != 0:
		f.add("waves", "only %s has them: leave them out", Waves)
	}
	for i, size := range g.Waves {
		at := fmt.Sprintf("waves[%d]", i)
		if err := size.Validate(); err != nil {
			f.under(at, err)
		} else if size.Value() < 1 {
			f.add(at, "%v lets nobody start: use at least 1", size)
		}
	}
	if k := g.OrderKey; k != "" && k != OrderByTarget && k != OrderByResource && k != OrderByBracket {
		f.add("orderKey", "%q is unknown: use %s, %s or %s", k, OrderByTarget, OrderByResource, OrderByBracket)
	}
	if s := g.OrderSalt; s != "" && s != SaltNone && s != SaltByVersion && s != SaltByGroup {
		f.add("orderSalt", "%q is unknown: use %s, %s or %s", s, SaltNone, SaltByVersion, SaltByGroup)
	}
	if h := g.OrderHash; h != "" && h != HashV1 && h != HashLegacy {
		f.add("orderHash", "%q is unknown: use %s or %s", h, HashV1, HashLegacy)
	}
	return f.err()
}

// maxSeconds is the longest duration that fits into 64 bits of nanoseconds.
const maxSeconds = math.MaxInt64 / int64(time.Second)

// Match says how many of several deployments must satisfy a dependency.
type Match string

const (
	MatchAny Match = "any" // one of them; the default
	MatchAll Match = "all" // every one
)

// DeploymentDependency lets a version start on a target only when other deployments on the same resource run what it needs. Between
// members of a bracket it orders the members instead, and then every matched member is needed.
type DeploymentDependency struct {
	// DependsOn is CEL on the other deployment, its current version, the resource and the environment. A missing key is no match.
	DependsOn string `json:"dependsOn"`

	// AppliesTo is CEL on the deployment that waits. Unset: every governed target. Where it reads a missing key the rule applies.
	AppliesTo string `json:"appliesTo,omitempty"`

	Match          Match `json:"match,omitempty"`          // unset: any
	AnyEnvironment bool  `json:"anyEnvironment,omitempty"` // also count the resource's targets in other environments
}

// Validate reports every fault; each is a [*PolicyError] with the field as its path.
func (d DeploymentDependency) Validate() error {
	var f faults
	if d.DependsOn == "" {
		f.add("dependsOn", "required: an expression such as deployment.name == 'node-drain'")
	}
	if d.Match != "" && d.Match != MatchAny && d.Match != MatchAll {
		f.add("match", "%q is unknown: use %s or %s", d.Match, MatchAny, MatchAll)
	}
	return f.err()
}

// VersionSelector lets only matching versions start.
type VersionSelector struct {
	Selector    string `json:"selector"` // CEL on version, deployment, environment and resource; a missing key denies
	Description string `json:"description,omitempty"`
}

// Validate reports a missing expression as a [*PolicyError].
func (s VersionSelector) Validate() error {
	var f faults
	if s.Selector == "" {
		f.add("selector", `required: write "true" to let every version pass`)
	}
	return f.err()
}

// AnyApproval lets a version start in an environment once enough different people approved it there.
type AnyApproval struct {
	MinApprovals *int `json:"minApprovals"` // required; at least 0, and 0 asks nobody
}

// Validate reports a missing or negative number as a [*PolicyError].
func (a AnyApproval) Validate() error {
	var f faults
	if a.MinApprovals == nil {
		f.add("minApprovals", "required: how many people must approve")
	} else if *a.MinApprovals < 0 {
		f.add("minApprovals", "%d is negative: use at least 0", *a.MinApprovals)
	}
	return f.err()
}
