package surge

// Member is one part of a whole that is planned as one slot: a clique of a replica of a scaling
// group, or a component of a PodCliqueSet replica under ReplicaRecreate.
type Member struct {
	Slots        []Slot // its units; units at or above Replicas count as well
	Replicas     int    // units it should have
	MinAvailable int    // units it needs; counts as at least 1, and as at most Replicas
}

// need returns how many available units the member must have for the whole to be available.
func (m Member) need() int { return max(min(m.Replicas, max(m.MinAvailable, 1)), 0) }

// Fold makes one slot of many units. The whole is absent or terminating only if no unit is live. It
// is old if a live unit is old, and available if every member has the units that it needs. It is
// unscheduled if it is old and not available, and all its live units are old and were never
// scheduled. Units that a live whole misses are in no plan of such slots: the caller creates them.
func Fold(members []Member) Slot {
	f := folding{enough: true}
	for _, member := range members {
		f.add(member, count(member.Slots, 0, len(member.Slots)))
	}
	return f.slot()
}

// folding is a whole of which some members have been added.
type folding struct {
	all    counts
	enough bool // every member has the units that it needs
}

func (f *folding) add(member Member, units counts) {
	f.all.add(units)
	f.enough = f.enough && units.available() >= member.need()
}

// old counts live units of another revision than the target.
func (f *folding) old() int {
	return f.all[OldUnscheduled] + f.all[OldUnavailable] + f.all[OldAvailable]
}

// unscheduled reports whether all live units are old ones that were never scheduled.
func (f *folding) unscheduled() bool { return f.all[OldUnscheduled] == f.all.live() }

func (f *folding) slot() Slot {
	switch {
	case f.all.live() == 0 && f.all[Terminating] > 0:
		return Terminating
	case f.all.live() == 0:
		return Absent
	case f.old() > 0 && f.enough:
		return OldAvailable
	case f.unscheduled():
		return OldUnscheduled
	case f.old() > 0:
		return OldUnavailable
	case f.enough:
		return TargetAvailable
	}
	return TargetUnavailable
}
