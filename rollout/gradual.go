package rollout

import (
	"fmt"

	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/internal/strictjson"
)

// GradualRollout spreads the starts of a version over time: each target has a position, and a curve
// says how long after the start of the rollout that position is due.
//
// A curve, waves included, advances with time alone: jobs that failed earlier in it hold no target
// back. Only a [FailureBudget] does, once too many have failed. To stop a rollout by hand, set the
// version to paused; to stop its curve as well, close a window, or freeze it with PauseCurves of
// [Freeze]. To let success decide what is next, use an EnvironmentProgression between environments,
// package staged for stages with gates between them, or a [CustomRule].
//
// Targets that join once the curve of a version has come to its end are due at once, however many
// they are: let a pool spread them.
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
		if at := fmt.Sprintf("waves[%d]", i); size.IsZero() {
			f.add(at, CodeRequired, nil, "%s", hintWave)
		} else if size.Value() < 1 {
			f.add(at, CodeOutOfRange, size, "%s", hintWave)
		}
	}
	oneOf(&f, "orderKey", g.OrderKey, OrderByTarget, OrderByResource, OrderByBracket)
	oneOf(&f, "orderSalt", g.OrderSalt, SaltNone, SaltByVersion, SaltByGroup)
	oneOf(&f, "orderHash", g.OrderHash, HashV1, HashLegacy)
	return f.err()
}

const hintWave = `must be a count of at least 1, without quotes, or a percentage from "1%" to "1000%"`

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
