package surge

import (
	"math"

	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/internal/strictjson"
)

// Spec configures one flat set of numbered replicas: the pods of a PodClique, the replicas of a
// scaling group, the replicas of a whole PodCliqueSet, or anything else of that shape. The JSON
// names are those of Grove's update strategy. The zero value is valid and means "no replicas".
type Spec struct {
	// Replicas is the desired number of replicas; at rest exactly the indices [0, Replicas) exist.
	// At most [MaxReplicas].
	Replicas int `json:"replicas"`
	// MaxSurge is how many replicas may exist above Replicas during an update, at the indices from
	// Replicas on; percentages round up. Unset means 0. There is no upper bound: the planner uses
	// no more than it needs.
	MaxSurge concurrency.Limit `json:"maxSurge,omitzero"`
	// MaxUnavailable is how much base capacity may be missing; percentages round down. Unset means
	// 1. A count must not exceed Replicas. Together with MaxSurge it must not be zero.
	MaxUnavailable concurrency.Limit `json:"maxUnavailable,omitzero"`
	// Partition is the lowest index that is updated; replicas below it keep the stable revision and
	// are never deleted. Zero updates all. It may exceed Replicas, which updates none.
	Partition int `json:"partition,omitempty"`
	// MinAvailable is the size of the base gang, the indices [0, MinAvailable), which are scheduled
	// together and before all others; zero means no gang. Its outdated and unavailable members are
	// replaced at once, since everybody waits for them. It is not a floor for availability.
	MinAvailable int `json:"minAvailable,omitempty"`
	// Order says which replica is updated first among equals. Unset means Ascending.
	Order Order `json:"order,omitempty"`
	// Force replaces every unavailable outdated replica at once instead of MaxUnavailable plus
	// MaxSurge of them at a time.
	Force bool `json:"force,omitempty"`
	// Paused freezes the update: missing base replicas are still created, at the revision they
	// would have without it, and a scale-in is finished; existing surges stay.
	Paused bool `json:"paused,omitempty"`
}

// Order is the direction of an update over the indices.
type Order string

const (
	Ascending  Order = "ascending"  // lowest index first, the default
	Descending Order = "descending" // highest index first, as in StatefulSet
)

// UnmarshalJSON reads a Spec strictly: unknown fields, repeated fields and malformed values are
// errors, all of them reported, joined, each a *[FieldError]. It does not validate. A field that is
// left out is unset, whatever it was before. On error the Spec is unchanged.
func (s *Spec) UnmarshalJSON(data []byte) error {
	type plain Spec
	var read plain
	if err := strictjson.Unmarshal(data, &read); err != nil {
		return decoded(err)
	}
	*s = Spec(read)
	return nil
}

// Resolved is a Spec in plain numbers, as the planner uses them.
type Resolved struct {
	Replicas     int // base replicas, R
	Surge        int // surge range [Replicas, Replicas+Surge), S
	Unavailable  int // within 0 … Replicas, U
	Partition    int // within 0 … Replicas, P
	MinAvailable int // within 0 … Replicas, M
}

// Floor is the number of available replicas, anywhere and of any revision, below which no plan goes
// on its own account.
func (r Resolved) Floor() int { return r.Replicas - r.Unavailable }

// Resolve turns the Spec into numbers. It is total, because what was valid may have moved since:
// negative values count as 0; MaxUnavailable, Partition and MinAvailable are clamped to Replicas;
// and if both budgets resolve to 0 there is one unavailable replica, for a surge may be impossible
// while unavailability never is.
func (s Spec) Resolve() Resolved {
	r := Resolved{Replicas: max(s.Replicas, 0)}
	r.Surge = s.MaxSurge.Of(r.Replicas, concurrency.Ceil)
	r.Unavailable = min(s.maxUnavailable().Of(r.Replicas, concurrency.Floor), r.Replicas)
	r.Partition = min(max(s.Partition, 0), r.Replicas)
	r.MinAvailable = min(max(s.MinAvailable, 0), r.Replicas)
	if r.Surge == 0 && r.Unavailable == 0 && r.Replicas > 0 {
		r.Unavailable = 1
	}
	return r
}

// bounded is the Spec with no more replicas than can be planned for, but never fewer than there are
// slots within its Replicas: nothing that exists is deleted because the number was too large.
func (s Spec) bounded(slots []Slot) Spec {
	s.Replicas = bounded(s.Replicas, len(slots))
	return s
}

func bounded(replicas, existing int) int { return min(replicas, max(MaxReplicas, existing)) }

// maxUnavailable is the budget with its default.
func (s Spec) maxUnavailable() concurrency.Limit {
	if s.MaxUnavailable.IsZero() {
		return concurrency.Count(1)
	}
	return s.MaxUnavailable
}

// plus adds two counts; a sum that no int can hold is the largest int.
func plus(a, b int) int {
	if a > math.MaxInt-b {
		return math.MaxInt
	}
	return a + b
}
