package staged

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/internal/strictjson"
)

// cleanupName is KubeFleet's name for the stage that removes leaving targets.
const cleanupName = "kubernetes-fleet.io/deleteStage"

// Fleet describes the targets that a run is compiled for. It is decoded strictly: an unknown field
// or a value of the wrong type is an error.
type Fleet struct {
	// Targets are the targets to point at the version, in any order.
	Targets []Target `json:"targets,omitempty"`
	// Leaving are the names of the targets to remove after all stages, in any order.
	Leaving []string `json:"leaving,omitempty"`
	// Version is the version that is really used, as observations name it. It must be valid UTF-8.
	// Empty means the resourceSnapshotIndex of the spec, which must then be given.
	Version string `json:"version,omitempty"`
	// PlacementStrategy is the placement's strategy type. Empty means that the host does not say;
	// any other value but External is refused.
	PlacementStrategy string `json:"placementStrategy,omitempty"`
}

// UnmarshalJSON reads a fleet and its targets strictly. All faults are reported, joined, each a
// *[FieldError], and the fleet is then unchanged. Null leaves it unchanged as well. [Compile] checks
// what well-formed values mean.
func (f *Fleet) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		return nil
	}
	type plain Fleet
	return inputFaults(strictjson.Unmarshal(data, (*plain)(f)))
}

// Compile fixes which targets a run updates, and in which order. The returned run has not begun: it
// can be shown as a preview, and the first [Step] starts it if the spec says so. The order of the
// fleet does not matter. The run retains nothing of the arguments but strings.
//
// The error joins the faults that [Strategy.Validate], [Spec.Validate] and [Options.Validate]
// report and those of the fleet, each a *[FieldError]; the run is then nil. Faults in how the
// stages divide the fleet are reported only if there are stages, and their selectors, targets and
// sorting labels are valid.
func Compile(strategy Strategy, spec Spec, fleet Fleet, options Options) (*Run, error) {
	var list faults
	wrong := strictjson.Parts(strategy.Validate())
	list = append(list, wrong...)
	list = append(list, strictjson.Parts(spec.Validate())...)
	list = append(list, strictjson.Parts(options.Validate())...)
	version := cmp.Or(fleet.Version, spec.ResourceSnapshotIndex)
	if version == "" {
		list.add(CodeVersion, "version", "", "must be given where the spec leaves resourceSnapshotIndex out: the version that is really used")
	} else if !utf8.ValidString(version) {
		list.add(CodeVersion, "version", strconv.Quote(version), "must be valid UTF-8: a stored run would take every target for another version's")
	}
	if fleet.PlacementStrategy != "" && fleet.PlacementStrategy != "External" {
		list.add(CodePlacementExternal, "placementStrategy", strconv.Quote(fleet.PlacementStrategy), "must be External: the placement rolls out by itself")
	}
	checkNames(&list, &fleet)
	if len(strategy.Stages) == 0 || slices.ContainsFunc(wrong, undivided) {
		return nil, list.err()
	}
	spec.ID, spec.State = cmp.Or(spec.ID, spec.Name), cmp.Or(spec.State, StateInitialize)
	spec.within, strategy.within = "", "" // a run has documents of its own
	p, err := newPlan(strategy.clone(), spec, version, options)
	if err != nil {
		return nil, cmp.Or(list.err(), err) // it is among the faults of the strategy, if there are any
	}
	members, groups := p.assign(&list, fleet.Targets)
	members = append(members, slices.Sorted(slices.Values(fleet.Leaving)))
	if len(list) > 0 {
		return nil, list.err()
	}
	return p.assemble(members, groups), nil
}

// undivided reports whether a fault of a strategy leaves open which targets are in which stage and
// which group, or in which order.
func undivided(fault error) bool {
	code := fault.(*FieldError).Code
	return code == CodeSelector || code == CodeSortKey || code == CodeGroupBy
}

// checkNames reports invalid names, and each name that occurs more than once.
func checkNames(list *faults, fleet *Fleet) {
	n := len(fleet.Targets) + len(fleet.Leaving)
	if n == 0 {
		list.add(CodeTargetNone, "targets", "", "must hold a target, or leaving one: there is nothing to do")
	}
	if n >= math.MaxInt32 {
		list.add(CodeTargetCount, "targets", strconv.Itoa(n), fmt.Sprintf("must be fewer than %d", math.MaxInt32))
		return
	}
	names := make([]string, 0, n)
	for i := range fleet.Targets {
		if name := fleet.Targets[i].Name; targetName(name) {
			names = append(names, name)
		} else {
			list.add(CodeTargetName, fmt.Sprintf("targets[%d].name", i), strconv.Quote(name), hintName)
		}
	}
	for i, name := range fleet.Leaving {
		if targetName(name) {
			names = append(names, name)
		} else {
			list.add(CodeTargetName, fmt.Sprintf("leaving[%d]", i), strconv.Quote(name), hintName)
		}
	}
	slices.Sort(names)
	for i := 1; i < len(names); i++ {
		if names[i] == names[i-1] && (i == 1 || names[i] != names[i-2]) {
			list.add(CodeTargetDuplicate, "targets", strconv.Quote(names[i]), "must be there once, and not both as a target and leaving")
		}
	}
}

// newPlan compiles a strategy, which it keeps. If the strategy or the options are not valid, the plan
// is only good for finding the faults of a fleet.
func newPlan(strategy Strategy, spec Spec, version string, options Options) (*plan, error) {
	text, err := json.Marshal(strategy)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(text)
	p := &plan{
		spec: spec, version: version, strategy: strategy, options: options, hash: hex.EncodeToString(sum[:]),
		budget: strategy.MaxFailures, grace: options.StopGrace.length(never),
	}
	stuckAfter := options.StuckAfter.length(int64(defaultStuckAfter))
	stageBudget := concurrency.Limit{}
	if strategy.MaxFailures.IsZero() {
		stageBudget = concurrency.Count(0)
	}
	stages := strategy.Stages
	if options.Unmatched == Last {
		stages = append(slices.Clip(stages), Stage{Name: freeName(stages)})
	}
	for i := range stages {
		s := &stages[i]
		q := stagePlan{name: s.Name, limit: cmp.Or(s.MaxConcurrency, concurrency.Count(1)), budget: cmp.Or(s.MaxFailures, stageBudget)}
		q.timing = timing{
			deadline:   cmp.Or(s.ProgressDeadline, strategy.ProgressDeadline).length(never),
			soak:       cmp.Or(s.MinSuccessTime, strategy.MinSuccessTime).length(0),
			stuckAfter: stuckAfter,
		}
		if s.LabelSelector != nil {
			if q.labels, err = s.LabelSelector.Compile(); err != nil {
				return nil, &FieldError{Code: CodeSelector, Path: inStage(i, "labelSelector"), Hint: err.Error()}
			}
		}
		q.groupBy, q.perGroup = s.GroupBy, s.MaxConcurrencyPerGroup
		_, q.before = task(s.BeforeStageTasks, Approval)
		_, q.after = task(s.AfterStageTasks, Approval)
		wait, waits := task(s.AfterStageTasks, TimedWait)
		q.wait, q.waits = wait.WaitTime.length(0), waits
		p.stages = append(p.stages, q)
	}
	c := options.Cleanup
	_, gated := task(strategy.DeleteStage.BeforeStageTasks, Approval)
	p.stages = append(p.stages, stagePlan{
		name: cleanupName, cleanup: true, before: gated, limit: cmp.Or(c.MaxConcurrency, concurrency.Percent(100)), budget: cmp.Or(c.MaxFailures, concurrency.Count(0)),
		timing: timing{deadline: c.ProgressDeadline.length(never), stuckAfter: stuckAfter},
	})
	if options.Added == Append {
		p.matcher = newMatcher(p) // so that a step does not try every stage
	}
	return p, nil
}

// freeName returns an unused name for the stage of the targets that no other stage matches.
func freeName(stages []Stage) string {
	name := "unmatched"
	for i := 2; slices.ContainsFunc(stages, func(s Stage) bool { return s.Name == name }); i++ {
		name = "unmatched" + strconv.Itoa(i)
	}
	return name
}

// assemble makes a run that has not begun. The names become parts of one text. Otherwise the
// garbage collector would mark every single name of the fleet in each of its cycles as long as the
// run lives. groups are the values that divide the members of each stage with groups.
func (p *plan) assemble(members, groups [][]string) *Run {
	r := &Run{plan: p, desired: p.spec.State, phase: PhaseInitialized}
	all, from, most := slices.Concat(members...), make([]int32, len(members)+1), 0
	for k, names := range members {
		from[k+1] = from[k] + int32(len(names))
		most = max(most, len(names))
	}
	text := strings.Join(all, "")
	for i, name := range all {
		all[i], text = text[:len(name)], text[len(name):]
	}
	p.index = newIndex(all, from)
	fresh := slices.Repeat([]record{{attempt: 1}}, most)
	list := make([]*stage, len(members))
	for k := range members {
		names := all[from[k]:from[k+1]]
		list[k] = &stage{
			phase: StagePending, before: approval{state: ApprovalNone}, after: approval{state: ApprovalNone},
			tree: newTree(names, fresh[:len(names)], &p.stages[k].timing),
		}
		if p.stages[k].groupBy != "" {
			list[k].groups = p.newGrouping(k, groups[k], fresh)
		}
		list[k].number[Waiting] = int32(len(names))
	}
	r.setStages(list)
	return r
}
