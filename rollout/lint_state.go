package rollout

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/tranche-dev/tranche/internal/textkey"
	"github.com/tranche-dev/tranche/internal/textlist"
)

// leftovers counts what is stored for a rule or a shared pool that is in no enabled policy, or that
// is in one but whose pools have no members.
type leftovers struct {
	records, open, held int
	inForce             bool
}

// lookAtState finds the state of rules that are gone, and slots in pools that are gone.
func (l *lint) lookAtState() {
	gone := map[string]*leftovers{}
	l.leftByRules(gone)
	l.leftInPools(gone)
	disabled := map[string]*compiledRule{} // by id, and by the name of a shared pool
	for _, p := range l.w.set.disabled {
		for _, rule := range p.rules {
			disabled[rule.id] = rule
			if rule.pool != nil && rule.pool.SharedPool != "" {
				disabled[rule.pool.SharedPool] = rule
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(gone)) {
		l.leftOver(id, *gone[id], disabled[id])
	}
}

// leftByRules counts the records of rules that are in no enabled policy, except those of pools.
func (l *lint) leftByRules(gone map[string]*leftovers) {
	note := func(rule string, open bool) {
		if l.w.set.rule(rule) != nil {
			return
		}
		if gone[rule] == nil {
			gone[rule] = &leftovers{}
		}
		gone[rule].records++
		if open {
			gone[rule].open++
		}
	}
	state := &l.w.snapshot.State
	for _, record := range state.Brackets {
		note(record.Rule, false)
	}
	for _, record := range state.Executions {
		note(record.Rule, record.Open != nil)
	}
	for _, record := range state.Rollouts {
		note(record.Rule, false)
	}
}

// leftInPools counts the records of pools that no resource is in.
func (l *lint) leftInPools(gone map[string]*leftovers) {
	pools := map[string]bool{}
	for _, rule := range l.w.set.concurrency {
		pools[cmp.Or(rule.pool.SharedPool, rule.id)] = true
	}
	for _, record := range l.w.capacity.otherRecords {
		name := record.Key
		if parts, err := textkey.Split(record.Key); err == nil {
			name = parts[0]
		}
		if own := l.w.set.rule(name); len(record.Leases) == 0 && (pools[name] || own != nil && own.pool != nil) {
			continue // of a value of groupBy that no resource has any more, or of a rule that shares a pool by now
		}
		if gone[name] == nil {
			gone[name] = &leftovers{inForce: pools[name]}
		}
		gone[name].records++
		gone[name].held += len(record.Leases)
	}
}

// leftOver reports what is left of a rule or a pool; disabled is a rule of a disabled policy that
// has this id, or shares this pool, or nil.
func (l *lint) leftOver(id string, own leftovers, disabled *compiledRule) {
	f := Finding{Rule: id, Path: "state"}
	where, back := "is in no policy", "an enabled rule with this id takes them up again"
	switch rule := l.w.set.rule(id); {
	case own.inForce:
		where, back = "has pools without members", "a resource that comes back into such a pool takes them up again"
	case disabled != nil:
		f, where = findingOf(disabled, ""), fmt.Sprintf("is in the disabled policy %q", disabled.policy.id)
	case rule != nil:
		f, where, back = findingOf(rule, ""), "has no pool of its own any more", "such a pool takes them up again"
	}
	severity := SeverityInfo
	if own.open+own.held > 0 {
		severity = SeverityWarning
	}
	l.add(f, LintPolicyDisabledState, severity, reach{},
		fmt.Sprintf("%q %s, and state of it is stored: %s, %s, %s", id, where, textlist.Counted(own.records, "record"), textlist.Counted(own.open, "open execution"), textlist.Counted(own.held, "held slot")),
		"let open executions end and release what is still held, then delete the records; "+back)
}
