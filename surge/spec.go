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
	// Replicas on. Percentages round up. Unset means 0. There is no upper bound but that of a Limit:
	// the planner uses only what it needs.
	MaxSurge concurrency.Limit `json:"maxSurge,omitzero"`
	// MaxUnavailable is how many base replicas may be missing. Percentages round down. Unset means
	// 1. It must not exceed 100 %, or as a count Replicas, unless that is 0. MaxUnavailable and
	// MaxSurge must not both be zero.
	MaxUnavailable concurrency.Limit `json:"maxUnavailable,omitzero"`
	// Partition is the lowest index that is updated. Replicas below it keep the stable revision and
	// are never deleted. Zero updates all. A Partition of Replicas or more updates none.
	Partition int `json:"partition,omitempty"`
	// MinAvailable is the size of the base gang, the indices [0, MinAvailable), which are scheduled
	// together and before all others. Zero means no gang. Members of the base gang that are both
	// outdated and unavailable are replaced at once, because all other gangs wait for them.
	// MinAvailable is not a floor for availability. It must not exceed Replicas, unless that is 0.
	MinAvailable int `json:"minAvailable,omitempty"`
	// Order says which replica is updated first among those of equal rank. Unset means Ascending.
	Order Order `json:"order,omitempty"`
	// Force replaces every unavailable outdated replica at once, instead of at most MaxUnavailable
	// plus MaxSurge of them at a time.
	Force bool `json:"force,omitempty"`
	// Paused freezes the update. Missing base replicas are still created, at the revision they
	// would have without the pause, and what a scale-in leaves above the surge range is still
	// deleted. What is in the surge range stays, because it cannot be told from the surges of the
	// update.
	Paused bool `json:"paused,omitempty"`
}

// Order is the direction of an update over the indices.
//
// Any other order, such as the leader of a database last, is up to the caller: where the base has no
// gang, it calls [Plan] with the replicas of [Partition, Replicas) arranged in that order, and the
// indices of the actions are places in it. All that is kept in every state is kept, and the update
// ends, even if every call has an order of its own, as after another leader is elected. With a gang
// its members must stay ahead of the others. The actions that [Apply] overlays are those of the same
// order. The example of Plan that is called leaderLast shows it.
type Order string

const (
	Ascending  Order = "ascending"  // lowest index first, the default
	Descending Order = "descending" // highest index first, as in StatefulSet
)

// UnmarshalJSON reads a Spec strictly: unknown fields, repeated fields and malformed values are
// errors. All of them are reported, joined, each a *[FieldError], and the Spec is then unchanged. A
// field that is left out is unset, whatever its value was before. UnmarshalJSON does not validate.
func (s *Spec) UnmarshalJSON(data []byte) error {
	type plain Spec
	return decoded(strictjson.Unmarshal(data, (*plain)(s)))
}

// Resolved is a Spec in plain numbers, as the planner uses them.
type Resolved struct {
	Replicas     int // base replicas, R
	Surge        int // surge range [Replicas, Replicas+Surge), S
	Unavailable  int // within 0 … Replicas, U
	Partition    int // within 0 … Replicas, P
	MinAvailable int // within 0 … Replicas, M
}

// Floor returns the number of available replicas, at any index and of any revision, below which no
// plan goes by its own deletions.
func (r Resolved) Floor() int { return r.Replicas - r.Unavailable }

// Resolve turns the Spec into numbers. It is total, because what was valid may have changed since.
// Negative values count as 0. MaxUnavailable, Partition and MinAvailable are clamped to Replicas.
// If both budgets resolve to 0, MaxUnavailable is 1, because a surge may be impossible but
// unavailability never is.
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

// bounded returns the Spec with no more replicas than can be planned for, but with no fewer than
// there are slots within its Replicas: nothing that exists is deleted because the number was too
// large.
func (s Spec) bounded(slots []Slot) Spec {
	s.Replicas = bounded(s.Replicas, len(slots))
	return s
}

func bounded(replicas, existing int) int { return min(replicas, max(MaxReplicas, existing)) }

// maxUnavailable returns the budget with its default.
func (s Spec) maxUnavailable() concurrency.Limit {
	if s.MaxUnavailable.IsZero() {
		return concurrency.Count(1)
	}
	return s.MaxUnavailable
}

// plus adds two counts. A sum that an int cannot hold becomes the largest int.
func plus(a, b int) int {
	if a > math.MaxInt-b {
		return math.MaxInt
	}
	return a + b
}
