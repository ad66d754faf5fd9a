package surge

import "strconv"

// Gang is a group of indices that is scheduled together. The base gang holds the indices [0,
// minAvailable). Every index above is a scaled gang of its own, which waits for the base gang. A
// surge replica lies at or above the number of replicas, which is never below minAvailable, so it
// is always in a scaled gang.
type Gang struct {
	Base    bool `json:"base"`    // true for the base gang, false for a scaled one
	Ordinal int  `json:"ordinal"` // of a scaled gang: index minus minAvailable; 0 for the base gang
	First   int  `json:"first"`   // its indices are [First, End)
	End     int  `json:"end"`
}

// String returns "base" or "scaled-1".
func (g Gang) String() string {
	if g.Base {
		return "base"
	}
	return "scaled-" + strconv.Itoa(g.Ordinal)
}

// Placement returns the gang that an index belongs to. Negative arguments count as 0. With
// minAvailable 0 there is no base gang.
func Placement(index, minAvailable int) Gang {
	index, minAvailable = max(index, 0), max(minAvailable, 0)
	if index < minAvailable {
		return Gang{Base: true, End: minAvailable}
	}
	return Gang{Ordinal: index - minAvailable, First: index, End: plus(index, 1)}
}

// Gangs lists the gangs that a set needs, the base gang first, then the scaled gangs in order. It
// goes up to the highest index in use and not only up to Replicas: a caller that enumerated up to
// Replicas would remove the gang of a surge as excess. Within Replicas a gang is listed even if its
// index is a hole; above, the gangs of absent indices are left out. The gangs are those of
// [Placement] with the MinAvailable of the Spec, even if Replicas is smaller. So if a set is scaled
// to 0, what is left of the base gang is still in it.
func Gangs(spec Spec, slots []Slot) []Gang {
	spec = spec.bounded(slots)
	replicas := spec.Resolve().Replicas
	var list []Gang
	for i := range max(replicas, len(slots)) {
		if i >= replicas && slots[i] == Absent {
			continue
		}
		if gang := Placement(i, spec.MinAvailable); !gang.Base || len(list) == 0 {
			list = append(list, gang)
		}
	}
	return list
}

// PodGang is a gang of one replica of a set: the base gang, or the scaled gang of one unit of a
// scaling group.
type PodGang struct {
	Replica   int          `json:"replica"`   // of the set
	Component int          `json:"component"` // of a scaled gang; -1 for the base gang
	Ordinal   int          `json:"ordinal"`   // of a scaled gang, within its component; 0 for the base gang
	Members   []GangMember `json:"members"`   // by component; the base gang may have none
}

// GangMember is the part of a gang that belongs to one component: its units [First, End).
type GangMember struct {
	Component int `json:"component"`
	First     int `json:"first"`
	End       int `json:"end"`
}

// SetGangs lists the gangs of every replica of a set, surge replicas and surge units included, by
// replica, the base gang first. The base gang holds all pods of the standalone cliques, surge pods
// included, and of each scaling group the units below its MinAvailable. Every other unit of a
// scaling group is a scaled gang of its own. As in [Gangs], it lists what is desired and, above
// that, what exists.
func SetGangs(spec SetSpec, state SetState) []PodGang {
	var list []PodGang
	spec = spec.bounded(state)
	desired := spec.Flat().Resolve().Replicas
	for r := range max(desired, len(state)) {
		base := PodGang{Replica: r, Component: -1}
		var scaled []PodGang
		exists := r < desired
		for c, component := range spec.Components {
			flat, slots := state.scaled(spec, r, c).Flat(), state.units(r, c).Slots
			if r >= desired {
				flat.Replicas = 0 // nothing is desired in this replica, only what exists counts
			}
			used := flat.Resolve().Replicas
			for i, slot := range slots {
				if slot != Absent {
					used, exists = max(used, i+1), true
				}
			}
			if component.Kind != PodCliqueScalingGroup {
				if used > 0 {
					base.Members = append(base.Members, GangMember{Component: c, End: used})
				}
				continue
			}
			limit := max(component.MinAvailable, 0)
			if in := min(limit, used); in > 0 {
				base.Members = append(base.Members, GangMember{Component: c, End: in})
			}
			for i := limit; i < used; i++ {
				if i < flat.Replicas || slots[i] != Absent {
					scaled = append(scaled, PodGang{Replica: r, Component: c, Ordinal: i - limit, Members: []GangMember{{Component: c, First: i, End: i + 1}}})
				}
			}
		}
		if exists {
			list = append(append(list, base), scaled...)
		}
	}
	return list
}

// FreeIndices returns the n lowest indices from 0 on that are not in used, ascending. used may be
// in any order and hold an index twice; negative entries are ignored. These are the indices that an
// index tracker must hand out, provided that a terminating replica still uses its index. The result
// is nil if n is not positive, and has [MaxReplicas] indices if n is greater than that.
func FreeIndices(used []int, n int) []int {
	if n <= 0 {
		return nil
	}
	taken := make(map[int]bool, len(used))
	for _, index := range used {
		taken[index] = true
	}
	n = min(n, MaxReplicas)
	free := make([]int, 0, n)
	for index := 0; len(free) < n; index++ {
		if !taken[index] {
			free = append(free, index)
		}
	}
	return free
}
