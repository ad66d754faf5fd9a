package surge

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/internal/strictjson"
)

// SetSpec configures a PodCliqueSet: numbered replicas that each hold the same components, which in
// turn are numbered sets of units. The JSON names are those of Grove; [ParsePodCliqueSet] reads
// them as Grove nests them.
type SetSpec struct {
	// Replicas is the desired number of set replicas. At most [MaxReplicas].
	Replicas int `json:"replicas"`
	// UpdateStrategy says how the replicas of the set are updated. Unset means RollingUpdate, one
	// replica at a time.
	UpdateStrategy SetUpdateStrategy `json:"updateStrategy,omitzero"`
	// Partition is the lowest set replica that is updated. Zero updates all.
	Partition int `json:"partition,omitempty"`
	// Paused stops further updates; holes are still filled. Surges of components are retired, as in
	// every replica that is held. Under ReplicaRecreate surge replicas stay, as [Spec] says.
	Paused bool `json:"paused,omitempty"`
	// Components are the components of each replica, in the order of the state.
	Components []Component `json:"components"`
}

// SetUpdateStrategy is the update strategy of a PodCliqueSet.
type SetUpdateStrategy struct {
	Type StrategyType `json:"type,omitempty"` // unset means RollingUpdate
	// RollingUpdate holds the budgets of ReplicaRecreate, in replicas of the set. Under the type
	// RollingUpdate only the defaults are accepted: MaxUnavailable 1 and MaxSurge 0.
	RollingUpdate UpdateStrategy `json:"rollingUpdate,omitzero"`
}

// StrategyType says how the replicas of a set are updated.
type StrategyType string

const (
	// RollingUpdate updates one replica of the set at a time, and each component in it by its own
	// strategy. It is the default.
	RollingUpdate StrategyType = "RollingUpdate"
	// ReplicaRecreate deletes and recreates whole replicas of the set, so no replica ever mixes
	// revisions.
	ReplicaRecreate StrategyType = "ReplicaRecreate"
)

// Names of strategies in Grove's released API. A manifest may have them, see [ParsePodCliqueSet].
const (
	rollingRecreate StrategyType = "RollingRecreate"
	onDelete        StrategyType = "OnDelete"
)

// UpdateStrategy holds the two budgets. They mean the same as in [Spec], but for the units of a
// component or the replicas of a set. If unset, MaxUnavailable is 1 and MaxSurge 0.
type UpdateStrategy struct {
	MaxUnavailable concurrency.Limit `json:"maxUnavailable,omitzero"`
	MaxSurge       concurrency.Limit `json:"maxSurge,omitzero"`
}

// Component is a standalone PodClique, whose units are pods, or a PodCliqueScalingGroup, whose
// units are replicas of all its cliques together.
type Component struct {
	Name         string `json:"name"`                   // unique in the set
	Kind         Kind   `json:"kind,omitempty"`         // unset means PodClique
	Replicas     int    `json:"replicas"`               // units at rest, at most [MaxReplicas]
	MinAvailable int    `json:"minAvailable,omitempty"` // size of the base gang in units, at most Replicas; 0 means no gang
	// UpdateStrategy is nil if the component has none. Nil differs from an empty strategy: under
	// ReplicaRecreate it must be nil.
	UpdateStrategy *UpdateStrategy `json:"updateStrategy,omitempty"`
	// Cliques are the members of a scaling group. The planner plans the group as a whole, and reads
	// its members only to refuse what a member must not have.
	Cliques []Clique `json:"cliques,omitempty"`
}

// Kind says what the units of a component are.
type Kind string

const (
	PodClique             Kind = "PodClique"             // pods, the default
	PodCliqueScalingGroup Kind = "PodCliqueScalingGroup" // replicas of a group of cliques
)

// Clique is a member of a scaling group. One unit of the group is the [Fold] of its cliques.
type Clique struct {
	Name         string `json:"name"`                   // unique in the set
	Replicas     int    `json:"replicas"`               // pods at rest, at most [MaxReplicas]
	MinAvailable int    `json:"minAvailable,omitempty"` // pods that a unit needs to serve, at most Replicas; 0 counts as 1, see [Member]
	// UpdateStrategy must be nil: a member is updated with its group. The field exists so that it
	// can be refused with a reason.
	UpdateStrategy *UpdateStrategy `json:"updateStrategy,omitempty"`
}

// UnmarshalJSON reads a SetSpec strictly: unknown fields, repeated fields and malformed values are
// errors. All of them are reported, joined, each a *[FieldError], and the SetSpec is then
// unchanged. A field that is left out is unset, whatever its value was before. UnmarshalJSON does
// not validate.
func (s *SetSpec) UnmarshalJSON(data []byte) error {
	type plain SetSpec
	return decoded(strictjson.Unmarshal(data, (*plain)(s)))
}

// recreate reports whether whole replicas are recreated.
func (s SetSpec) recreate() bool { return s.UpdateStrategy.Type == ReplicaRecreate }

// Flat returns the set as a flat set of whole replicas, as ReplicaRecreate plans it where a surge
// has units, see [Units]. [DiagnoseSet] says what the update of a set waits for.
func (s SetSpec) Flat() Spec {
	return Spec{
		Replicas: s.Replicas, Partition: s.Partition, Paused: s.Paused,
		MaxSurge: s.UpdateStrategy.RollingUpdate.MaxSurge, MaxUnavailable: s.UpdateStrategy.RollingUpdate.MaxUnavailable,
	}
}

// Flat returns the component as a flat set of its units, as it is planned in the current replica.
// With the units of the component there, [Project] says what a status shows of it. Where [Units]
// has its own Replicas, they take the place of those of the Spec. [DiagnoseSet] says what the
// update of a set waits for, in the current replica and elsewhere.
func (c Component) Flat() Spec {
	spec := Spec{Replicas: c.Replicas, MinAvailable: c.MinAvailable}
	if c.UpdateStrategy != nil {
		spec.MaxSurge, spec.MaxUnavailable = c.UpdateStrategy.MaxSurge, c.UpdateStrategy.MaxUnavailable
	}
	return spec
}

// bounded returns the set with no more replicas and units than can be planned for, like
// [Spec.bounded].
func (s SetSpec) bounded(state SetState) SetSpec {
	s.Replicas = bounded(s.Replicas, len(state))
	if !slices.ContainsFunc(s.Components, func(c Component) bool { return c.Replicas > MaxReplicas }) {
		return s
	}
	s.Components = slices.Clone(s.Components)
	for i := range s.Components {
		existing := 0
		for r := range state {
			existing = max(existing, len(state.units(r, i).Slots))
		}
		s.Components[i].Replicas = bounded(s.Components[i].Replicas, existing)
	}
	return s
}

// Validate reports every fault of the set, joined, each a *[FieldError]. These are the faults that
// [Spec.Validate] reports at each level against the replicas of that level, and settings that a
// level must not have: only ReplicaRecreate has budgets of the set, only RollingUpdate has
// strategies of components, and the members of a scaling group have no strategy.
func (s SetSpec) Validate() error {
	var faults faults
	s.validate(&faults, ownPaths())
	return faults.err()
}

// paths says where the parts of a set are in a document: the set itself, as a prefix; a component
// or a clique, with its fields.
type paths struct {
	set       string
	component func(i int) (path string, at fields)
	clique    func(i, j int) (path string, at fields)
}

// ownPaths returns the paths within a SetSpec.
func ownPaths() paths {
	part := func(path string) (string, fields) { return path, below(path+".", path+".updateStrategy.") }
	return paths{
		component: func(i int) (string, fields) { return part(fmt.Sprintf("components[%d]", i)) },
		clique:    func(i, j int) (string, fields) { return part(fmt.Sprintf("components[%d].cliques[%d]", i, j)) },
	}
}

// flat returns the fields of the set as a flat set of whole replicas.
func (p paths) flat() fields { return below(p.set, p.set+"updateStrategy.rollingUpdate.") }

func (s SetSpec) validate(faults *faults, at paths) {
	s.validateStrategy(faults, at)
	names := map[string]string{}
	name := func(path, name string) {
		if name == "" {
			faults.add(path+".name", CodeRequired, "", "must not be empty")
		} else if first, twice := names[name]; twice {
			faults.add(path+".name", CodeDuplicate, strconv.Quote(name), "is the name of "+first+" too")
		} else {
			names[name] = path
		}
	}
	for i, c := range s.Components {
		path, fields := at.component(i)
		name(path, c.Name)
		c.Flat().validate(faults, fields)
		if s.recreate() && c.UpdateStrategy != nil {
			faults.add(path+".updateStrategy", CodeConflict, "", "must be left out under ReplicaRecreate, which recreates all components together")
		}
		switch c.Kind {
		case PodCliqueScalingGroup, PodClique, "":
		default:
			faults.add(path+".kind", CodeUnknownValue, strconv.Quote(string(c.Kind)), `must be "PodClique" or "PodCliqueScalingGroup"`)
		}
		if len(c.Cliques) > 0 && c.Kind != PodCliqueScalingGroup {
			faults.add(path+".cliques", CodeConflict, "", `only a "PodCliqueScalingGroup" has member cliques`)
		}
		for j, member := range c.Cliques {
			path, fields := at.clique(i, j)
			name(path, member.Name)
			Spec{Replicas: member.Replicas, MinAvailable: member.MinAvailable}.validate(faults, fields)
			if member.UpdateStrategy != nil {
				faults.add(path+".updateStrategy", CodeConflict, "", fmt.Sprintf("must be left out: the clique is updated with its scaling group, %q", c.Name))
			}
		}
	}
}

// validateStrategy appends the faults of the level of the set.
func (s SetSpec) validateStrategy(faults *faults, at paths) {
	strategy, flat, fields := s.UpdateStrategy, s.Flat(), at.flat()
	if strategy.Type == ReplicaRecreate {
		flat.validate(faults, fields)
		return
	}
	flat.MaxSurge, flat.MaxUnavailable = concurrency.Limit{}, concurrency.Limit{}
	flat.validate(faults, fields)
	if strategy.Type != "" && strategy.Type != RollingUpdate {
		hint := `must be "RollingUpdate" or "ReplicaRecreate"`
		switch strategy.Type {
		case onDelete:
			hint += "; for OnDelete plan each component by itself, with paused: true, which fills holes at the target"
		case rollingRecreate:
			hint += "; what Grove calls RollingRecreate is RollingUpdate"
		case "Coherent":
			hint += "; where components must not mix revisions, recreate whole replicas"
		}
		faults.add(at.set+"updateStrategy.type", CodeUnknownValue, strconv.Quote(string(strategy.Type)), hint)
		return
	}
	const hint = "a RollingUpdate takes one replica of the set at a time: leave it out, or use the type ReplicaRecreate"
	if v := strategy.RollingUpdate.MaxUnavailable; !v.IsZero() && v != concurrency.Count(1) {
		faults.add(fields("maxUnavailable"), CodeConflict, strictjson.Value(v), hint)
	}
	if v := strategy.RollingUpdate.MaxSurge; v.Value() != 0 {
		faults.add(fields("maxSurge"), CodeConflict, strictjson.Value(v), hint)
	}
}

// Warnings lists legal settings that their author may not have meant at each level, as
// [Spec.Warnings] does. A text about a component begins with its name. Under ReplicaRecreate the
// budgets of components are not looked at.
func (s SetSpec) Warnings() []Warning { return s.warnings(ownPaths()) }

func (s SetSpec) warnings(at paths) []Warning {
	if s.recreate() {
		return s.Flat().warnings(at.flat())
	}
	var list []Warning
	for i, c := range s.Components {
		_, fields := at.component(i)
		for _, w := range c.Flat().warnings(fields) {
			w.Text = c.Name + ": " + w.Text // a manifest may have its components in another order
			list = append(list, w)
		}
	}
	return list
}
