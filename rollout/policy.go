package rollout

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/internal/runid"
	"github.com/tranche-dev/tranche/internal/strictjson"
)

// Policy is a set of rules and an expression that says which release targets they govern. Every
// policy that matches a target governs it, and all their rules must allow a start. The JSON form is
// that of the deployment bracket RFC.
type Policy struct {
	ID   string `json:"id,omitempty"` // unique in the set; unset: Name
	Name string `json:"name"`         // required, for people

	// Enabled is true if it is nil. A disabled policy is checked but governs nothing. Its id and
	// those of its rules stay taken, because state may be stored under them, with which the policy
	// goes on when it is enabled again. So no other rule may have such an id, and no shared pool
	// such a name.
	Enabled *bool `json:"enabled,omitempty"`

	Selector string `json:"selector"` // required: CEL on resource, environment and deployment; a missing key is no match
	Rules    []Rule `json:"rules"`    // at least one
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
	FailureBudget        *FailureBudget        `json:"failureBudget,omitempty"`
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
		r.ResourceConcurrency.Rate = copyOf(r.ResourceConcurrency.Rate)
	}
	if r.GradualRollout = copyOf(r.GradualRollout); r.GradualRollout != nil {
		own := r.GradualRollout
		own.TimeScaleInterval, own.Waves = copyOf(own.TimeScaleInterval), slices.Clone(own.Waves)
	}
	r.DeploymentDependency, r.VersionSelector = copyOf(r.DeploymentDependency), copyOf(r.VersionSelector)
	if r.FailureBudget = copyOf(r.FailureBudget); r.FailureBudget != nil {
		r.FailureBudget.OnJobStatuses = slices.Clone(r.FailureBudget.OnJobStatuses)
	}
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
		own := r.Rollback
		own.OnJobStatuses, own.OnVersionStatuses = slices.Clone(own.OnJobStatuses), slices.Clone(own.OnVersionStatuses)
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
	KindFailureBudget   RuleKind = "failureBudget"
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

func (r Rule) kinds() [12]kindOfRule {
	return [...]kindOfRule{
		{KindBracket, r.DeploymentBracket, r.DeploymentBracket != nil},
		{KindConcurrency, r.ResourceConcurrency, r.ResourceConcurrency != nil},
		{KindGradualRollout, r.GradualRollout, r.GradualRollout != nil},
		{KindDependency, r.DeploymentDependency, r.DeploymentDependency != nil},
		{KindVersionSelector, r.VersionSelector, r.VersionSelector != nil},
		{KindFailureBudget, r.FailureBudget, r.FailureBudget != nil},
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
	f.encoded(join(path, "name"), p.Name)
	f.encoded(join(path, "id"), p.ID)
	f.required(join(path, "selector"), p.Selector, `write "true" to govern every target`)
	if len(p.Rules) == 0 {
		f.add(join(path, "rules"), CodeRequired, nil, "is required: at least one rule")
	}
	ids := map[string]int{}
	var order, brackets []int
	for i, rule := range p.Rules {
		at := join(path, fmt.Sprintf("rules[%d]", i))
		rule.validate(at, f)
		f.encoded(join(at, "id"), rule.ID)
		if rule.ID != "" {
			if first, taken := ids[rule.ID]; taken {
				f.add(join(at, "id"), CodeDuplicate, rule.ID, "is the id of rules[%d] too: ids are unique", first).reading(join(path, fmt.Sprintf("rules[%d].id", first)))
			} else {
				ids[rule.ID] = i
			}
		}
		if rule.DeploymentBracket != nil && rule.ID == runid.Reserved {
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
		f.add(path, CodeConflict, nil, "must hold only one kind of rule: make a rule of each") // how many is not told: a mistyped one may be another
	}
}

// maxSeconds is the longest duration that fits into 64 bits of nanoseconds.
const maxSeconds = math.MaxInt64 / int64(time.Second)

// copyOf returns a pointer to a copy of the value, or nil for nil.
func copyOf[T any](value *T) *T {
	if value == nil {
		return nil
	}
	own := *value
	return &own
}
