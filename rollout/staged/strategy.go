package staged

import (
	"maps"
	"slices"

	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/internal/strictjson"
	"github.com/tranche-dev/tranche/selector"
)

// Strategy is the spec of KubeFleet's StagedUpdateStrategy or ClusterStagedUpdateStrategy, field by
// field, with three additions for the whole run that KubeFleet does not have. It is decoded
// strictly, from the spec alone or from the whole object.
type Strategy struct {
	// Name and Namespace are those of the object's metadata, for display: no function looks up or
	// compares a strategy by its name. They are not part of the spec: decoding the bare spec leaves
	// them empty, and encoding writes the bare spec.
	Name      string `json:"-"`
	Namespace string `json:"-"`

	// Stages are processed in this order: 1 to 31 stages, or any number from [FromOCM], with unique
	// names.
	Stages []Stage `json:"stages"`
	// MaxFailures is how many targets of the run, without the cleanup, may be failed or timed out.
	// Percentages are of all members. Unset means that only the budgets of the stages apply.
	MaxFailures concurrency.Limit `json:"maxFailures,omitzero"`
	// ProgressDeadline and MinSuccessTime apply to every stage that does not set its own.
	ProgressDeadline Duration `json:"progressDeadline,omitzero"`
	MinSuccessTime   Duration `json:"minSuccessTime,omitzero"`
	// DeleteStage is for the cleanup, the removal of leaving targets after all stages. [Options]
	// decide how the cleanup proceeds.
	DeleteStage DeleteStage `json:"deleteStage,omitzero"`

	// groups is set if the stages are made of decision groups, of which there may be any number.
	groups bool
	within string // where the spec is in the document that it was read from, for the paths of faults
}

// Stage is an ordered group of targets with tasks around it. The selector, or the list of targets,
// says which targets of the fleet are its members; a stage with neither has none.
type Stage struct {
	Name string `json:"name"` // 1 to 63 lower-case letters and digits
	// LabelSelector selects by labels; the empty selector takes every target, nil takes none.
	LabelSelector *selector.LabelSelector `json:"labelSelector,omitempty"`
	// Targets are names of members, in place of a selector. Their order in the list means nothing:
	// see SortingLabelKey. Names that the fleet does not have are ignored, as are objects that a
	// selector matches and that are not targets.
	Targets []string `json:"targets,omitempty"`
	// SortingLabelKey is a label with a whole number, at least 0, that orders the members,
	// ascending; empty orders them by name alone.
	SortingLabelKey string `json:"sortingLabelKey,omitempty"`
	// MaxConcurrency is how many members may be in progress, at least 1 even if the percentage
	// gives less. Unset means 1.
	MaxConcurrency concurrency.Limit `json:"maxConcurrency,omitzero"`
	// GroupBy is a label, such as that of a region or a customer, whose values divide the members
	// into groups, and MaxConcurrencyPerGroup is how many members of each group may be in progress: a
	// count, or a percentage of the members of that group, and at least 1 even if the percentage
	// gives less. Neither is given without the other; empty and unset mean that there are no groups.
	// Members without the label, and those with an empty value, are one group, with that limit too.
	//
	// MaxConcurrency goes on to hold for all groups together: where it is unset, it is 1, and no limit
	// of a group matters. Members start in the order of the stage, but one whose group is full does
	// not keep back those of other groups behind it. KubeFleet has no groups: see the package comment.
	GroupBy                string            `json:"groupBy,omitempty"`
	MaxConcurrencyPerGroup concurrency.Limit `json:"maxConcurrencyPerGroup,omitzero"`
	// MaxFailures is how many members may be failed or timed out. Unset means 0, or no limit if the
	// strategy sets its own MaxFailures.
	MaxFailures concurrency.Limit `json:"maxFailures,omitzero"`
	// ProgressDeadline is how long a member may take from its start until it is ready, whether the
	// run is stopped meanwhile or not. Then it times out and frees its slot, although its update may
	// go on: a host that can withdraw an update does so. None means no limit. Unset means that of
	// the strategy, or no limit.
	ProgressDeadline Duration `json:"progressDeadline,omitzero"`
	// MinSuccessTime is how long a member must stay ready before it is done. Unset means that of
	// the strategy, or 0. It does not apply to a member that is ready at the version before it is
	// started.
	MinSuccessTime Duration `json:"minSuccessTime,omitzero"`
	// BeforeStageTasks must be closed before a member starts: at most one Approval.
	BeforeStageTasks []Task `json:"beforeStageTasks,omitempty"`
	// AfterStageTasks run side by side once all members are settled: at most one Approval and one
	// TimedWait.
	AfterStageTasks []Task `json:"afterStageTasks,omitempty"`
}

// DeleteStage is the part of a strategy that is for the cleanup.
type DeleteStage struct {
	// BeforeStageTasks must be closed before anything is removed: at most one Approval. As in
	// KubeFleet (kubefleet-dev/kubefleet#746), it is requested once the last stage is closed, and
	// not at all if nothing is left to remove by then.
	BeforeStageTasks []Task `json:"beforeStageTasks,omitempty"`
}

// Task is a gate before or after a stage.
type Task struct {
	Type TaskType `json:"type"`
	// WaitTime is the length of a TimedWait, more than zero; an Approval has none.
	WaitTime Duration `json:"waitTime,omitzero"`
}

// TaskType is the kind of a task. The zero value is refused.
type TaskType string

// The kinds of tasks.
const (
	Approval  TaskType = "Approval"  // an operator approves
	TimedWait TaskType = "TimedWait" // time passes, counted from when the last member settled
)

// UnmarshalJSON reads the spec alone, or a whole object, of which it uses kind, spec and the names
// in metadata. Unknown fields, inside the spec or beside it, and values of a wrong type are errors.
// All of them are reported, each a *[FieldError], and the strategy is then unchanged.
// [Strategy.Validate] checks what well-formed values mean.
func (s *Strategy) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		return nil
	}
	o, list := objectOf(data, "ClusterStagedUpdateStrategy", "StagedUpdateStrategy")
	type plain Strategy
	var decoded struct {
		plain
		MaxFailures padded `json:"maxFailures"`
	}
	if o.spec != nil {
		list = append(list, strictjson.Parts(decodeFaults(o.base, remedied(strictjson.Unmarshal(o.spec, &decoded), strategyRemedy)))...)
	}
	if err := list.err(); err != nil {
		return err
	}
	*s = Strategy(decoded.plain)
	s.MaxFailures = concurrency.Limit(decoded.MaxFailures)
	s.Name, s.Namespace, s.within = o.name, o.namespace, o.base
	return nil
}

// strategyRemedy says so where a task stands after the removals, instead of offering the field for
// tasks before them.
func strategyRemedy(fault *strictjson.Error) {
	if fault.Code == strictjson.CodeUnknownField && fault.Path == "deleteStage.afterStageTasks" {
		fault.Hint = "unknown field: nothing comes after the removals, so leave it out"
	}
}

// UnmarshalJSON reads one entry of stages, as strictly as the strategy. Paths begin at the stage if
// it is read alone.
func (s *Stage) UnmarshalJSON(data []byte) error {
	type plain Stage
	var decoded struct {
		plain
		SortingLabelKey *string `json:"sortingLabelKey"`
		GroupBy         *string `json:"groupBy"`
		MaxFailures     padded  `json:"maxFailures"`
	}
	if string(data) == "null" {
		return &FieldError{Code: CodeType, Hint: "null is not a stage: remove the entry"}
	}
	if err := strictjson.Unmarshal(data, &decoded); err != nil {
		return partFaults("stages[0]", err)
	}
	*s = Stage(decoded.plain)
	s.SortingLabelKey, s.GroupBy = orZero(decoded.SortingLabelKey), orZero(decoded.GroupBy)
	s.MaxFailures = concurrency.Limit(decoded.MaxFailures)
	return nil
}

// clone returns a copy that shares nothing with s.
func (s Strategy) clone() Strategy {
	s.Stages = slices.Clone(s.Stages)
	s.DeleteStage.BeforeStageTasks = slices.Clone(s.DeleteStage.BeforeStageTasks)
	for i := range s.Stages {
		stage := &s.Stages[i]
		stage.Targets = slices.Clone(stage.Targets)
		stage.BeforeStageTasks = slices.Clone(stage.BeforeStageTasks)
		stage.AfterStageTasks = slices.Clone(stage.AfterStageTasks)
		if l := stage.LabelSelector; l != nil {
			copied := selector.LabelSelector{MatchLabels: maps.Clone(l.MatchLabels), MatchExpressions: slices.Clone(l.MatchExpressions)}
			for k := range copied.MatchExpressions {
				copied.MatchExpressions[k].Values = slices.Clone(copied.MatchExpressions[k].Values)
			}
			stage.LabelSelector = &copied
		}
	}
	return s
}

// task returns the first task of a kind.
func task(list []Task, kind TaskType) (Task, bool) {
	i := slices.IndexFunc(list, func(t Task) bool { return t.Type == kind })
	if i < 0 {
		return Task{}, false
	}
	return list[i], true
}
