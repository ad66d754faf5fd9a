package rollout

import (
	"errors"
	"fmt"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/internal/strictjson"
)

// Check reports what is wrong with the fleet under these policies before anything is planned. Like
// [PolicySet.Plan], it refuses contradictions in the snapshot ([*FieldError]), deployments that
// wait for one another ([*CycleError]), targets that two brackets claim ([*bracket.OverlapError]),
// and members that no order fits ([*bracket.RoleError], [*bracket.CycleError]). Only a plan reads the
// records of brackets, executions and pools in the State, and refuses one that no planner wrote. Check
// looks at all versions, also at those that are created later, so of members that wait for one another
// it may name another circle than a plan does, or one that a plan does not meet yet.
//
// Check also reports versions that wait for one another, and dependencies of versions with a
// selector that does not compile or on a deployment that does not exist. In a plan such a version
// only waits, because it must not hold up the rest of the fleet; the plan lists circles as
// diagnostics. Call Check when a policy is edited or a version is published. All that is wrong is
// in one list, joined as by [errors.Join], but of deployments that wait for one another the first
// circle that is found, and of a bracket what is wrong in the first environment where something is.
func (s *PolicySet) Check(snapshot Snapshot) error {
	w, err := s.begin(&snapshot, lastInstant())
	if err != nil {
		return err
	}
	var f faults
	for d := range w.versions {
		for _, v := range w.versions[d].list {
			for k, dependency := range v.Dependencies {
				at := fmt.Sprintf("versions[%s].dependencies[%d]", v.named(), k)
				if _, err := w.expression(dependency.VersionSelector); err != nil {
					f.expression(at+".versionSelector", err)
				}
				if _, known := w.deployment(dependency.Deployment); !known {
					f.add(at+".deployment", CodeUnknownValue, dependency.Deployment, "is not the id of a deployment")
				}
			}
		}
	}
	for _, cycle := range w.versionCycles() {
		f.list = append(f.list, cycle)
	}
	return strictjson.Join(append([]error{w.cycles(), w.bracketFaults()}, f.list...)...)
}

// bracketFaults returns what package bracket would refuse of the members, and targets that are
// members twice: for each two brackets, the first such target.
func (w *work) bracketFaults() error {
	var found []error
	overlaps := map[[2]string]bool{}
	faulty := map[string]bool{} // by bracket: what is wrong in one environment is mostly wrong in all
	for b, err := range w.formed() {
		for _, fault := range strictjson.Parts(err) {
			var overlap *bracket.OverlapError
			if errors.As(fault, &overlap) && !overlaps[overlap.Brackets] {
				found = append(found, fault)
				overlaps[overlap.Brackets] = true
			}
		}
		if err != nil || faulty[b.id] {
			continue
		}
		for _, fault := range strictjson.Parts(bracket.Check(bracket.Bracket{ID: b.id, Rule: *b.rule.bracket, Members: w.edgesOf(b, w.now)})) {
			var roles *bracket.RoleError
			var circle *bracket.CycleError
			if errors.As(fault, &roles) || errors.As(fault, &circle) {
				found = append(found, fault)
				faulty[b.id] = true
			}
		}
	}
	return strictjson.Join(found...)
}
