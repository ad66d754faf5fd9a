package staged

import (
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/internal/strictjson"
	"github.com/tranche-dev/tranche/selector"
)

// maxStages is KubeFleet's limit. Stages made of decision groups have none.
const maxStages = 31

// Validate reports every fault that does not depend on a fleet, joined, in stage order, each a
// *[FieldError]. Paths are those of the document that the strategy was read from: of a whole object
// they begin with spec.
func (s Strategy) Validate() error {
	var list faults
	if n := len(s.Stages); n == 0 || n > maxStages && !s.groups {
		list.add(CodeStages, "stages", strconv.Itoa(n), fmt.Sprintf("must be 1 to %d stages", maxStages))
	}
	names := make(map[string]int, len(s.Stages))
	for i := range s.Stages {
		stage := &s.Stages[i]
		if !stageName(stage.Name) {
			list.add(CodeStageName, inStage(i, "name"), strconv.Quote(stage.Name), "must be 1 to 63 lower-case letters and digits")
		}
		if first, taken := names[stage.Name]; taken && stage.Name != "" {
			list.add(CodeStageNameUnique, inStage(i, "name"), strconv.Quote(stage.Name), fmt.Sprintf("is the name of stages[%d] already", first))
		} else {
			names[stage.Name] = i
		}
		stage.validate(&list, i)
	}
	limit(&list, CodeRunMaxFailures, "maxFailures", s.MaxFailures, 0)
	durations(&list, CodeDuration, "", s.ProgressDeadline, s.MinSuccessTime)
	beforeTasks(&list, "deleteStage.beforeStageTasks", s.DeleteStage.BeforeStageTasks)
	return list.within(s.within).err()
}

func (s *Stage) validate(list *faults, i int) {
	if s.LabelSelector != nil {
		for _, fault := range strictjson.Faults(s.LabelSelector.Validate()) {
			list.add(CodeSelector, strictjson.Path(inStage(i, "labelSelector"), fault.Path), fault.Value, fault.Hint)
		}
		if s.Targets != nil {
			list.add(CodeSelector, inStage(i, "targets"), "", "must not be given beside labelSelector: keep one of them")
		}
	}
	listed := make(map[string]bool, len(s.Targets))
	for k, name := range s.Targets {
		path := fmt.Sprintf("stages[%d].targets[%d]", i, k)
		if !targetName(name) {
			list.add(CodeSelector, path, strconv.Quote(name), hintName)
		} else if listed[name] {
			list.add(CodeSelector, path, strconv.Quote(name), "is listed twice")
		}
		listed[name] = true
	}
	if s.SortingLabelKey != "" && !labelKey(s.SortingLabelKey) {
		list.add(CodeSortKey, inStage(i, "sortingLabelKey"), strconv.Quote(s.SortingLabelKey), "must be the key of a label")
	}
	limit(list, CodeMaxConcurrency, inStage(i, "maxConcurrency"), s.MaxConcurrency, 1)
	switch {
	case s.GroupBy != "" && !labelKey(s.GroupBy):
		list.add(CodeGroupBy, inStage(i, "groupBy"), strconv.Quote(s.GroupBy), "must be the key of a label")
	case s.GroupBy == "" && !s.MaxConcurrencyPerGroup.IsZero():
		list.add(CodeGroupBy, inStage(i, "groupBy"), "", "must be given for maxConcurrencyPerGroup: the label whose values are the groups")
	}
	if s.GroupBy != "" && s.MaxConcurrencyPerGroup.IsZero() {
		list.add(CodeMaxConcurrencyPerGroup, inStage(i, "maxConcurrencyPerGroup"), "", "must be given for groupBy: how many of each group may be in progress")
	}
	limit(list, CodeMaxConcurrencyPerGroup, inStage(i, "maxConcurrencyPerGroup"), s.MaxConcurrencyPerGroup, 1)
	limit(list, CodeMaxFailures, inStage(i, "maxFailures"), s.MaxFailures, 0)
	durations(list, CodeDuration, inStage(i, ""), s.ProgressDeadline, s.MinSuccessTime)
	beforeTasks(list, inStage(i, "beforeStageTasks"), s.BeforeStageTasks)
	afterTasks(list, inStage(i, "afterStageTasks"), s.AfterStageTasks)
}

func labelKey(key string) bool {
	probe := selector.LabelSelector{MatchExpressions: []selector.LabelRequirement{{Key: key, Operator: selector.Exists}}}
	return probe.Validate() == nil
}

// beforeTasks checks the tasks before a stage or before the cleanup.
func beforeTasks(list *faults, path string, tasks []Task) {
	if n := len(tasks); n > 1 {
		list.add(CodeBeforeCount, path, strconv.Itoa(n), "must be at most one task")
	}
	for k, t := range tasks {
		at := fmt.Sprintf("%s[%d].", path, k)
		if t.Type != Approval {
			list.add(CodeBeforeType, at+"type", strconv.Quote(string(t.Type)), "must be Approval: a wait belongs after the stage before")
		}
		if !t.WaitTime.IsZero() {
			list.add(CodeBeforeWaitTime, at+"waitTime", strconv.Quote(t.WaitTime.String()), "must be left out: an approval does not wait for time")
		}
	}
}

// afterTasks checks the tasks after a stage.
func afterTasks(list *faults, path string, tasks []Task) {
	if n := len(tasks); n > 2 {
		list.add(CodeAfterCount, path, strconv.Itoa(n), "must be at most two tasks")
	}
	seen := map[TaskType]bool{}
	for k, t := range tasks {
		at := fmt.Sprintf("%s[%d].", path, k)
		switch {
		case t.Type != Approval && t.Type != TimedWait:
			list.add(CodeAfterType, at+"type", strconv.Quote(string(t.Type)), "must be "+strictjson.Choice(Approval, TimedWait))
		case seen[t.Type]:
			list.add(CodeAfterTypeUnique, at+"type", strconv.Quote(string(t.Type)), "must not be there twice")
		}
		seen[t.Type] = true
		length, given := t.WaitTime.Value()
		switch {
		case t.Type == TimedWait && t.WaitTime.IsZero():
			list.add(CodeWaitTimeMissing, at+"waitTime", "", "must be given for a TimedWait, such as 1h")
		case t.Type == TimedWait && (!given || length <= 0):
			list.add(CodeWaitTime, at+"waitTime", strconv.Quote(t.WaitTime.String()), "must be more than zero: where nothing waits, leave the task out")
		case t.Type == Approval && given && length == 0: // KubeFleet's first versions store 0s with every Approval
			list.add(CodeWaitTimeForbidden, at+"waitTime", strconv.Quote(t.WaitTime.String()), "must be left out for an Approval")
		case t.Type == Approval && !t.WaitTime.IsZero():
			list.add(CodeWaitTimeForbidden, at+"waitTime", strconv.Quote(t.WaitTime.String()), "must be left out for an Approval: add a TimedWait beside it")
		}
	}
}

// limit checks a count or percentage against its smallest value; unset passes.
func limit(list *faults, code Code, path string, l concurrency.Limit, least int) {
	if !l.IsZero() && (l.Value() < least || l.IsPercent() && l.Value() > 100) {
		list.add(code, path, strictjson.Value(l), limitHint(least))
	}
}

// limitHint says what a limit may be. A value that is no limit at all gets it as well: the hint of
// concurrency.Limit, which accepts more, would lead to a value that is refused next.
func limitHint(least int) string {
	return fmt.Sprintf(`must be a count from %d to %d, without quotes, or a whole percentage from "%d%%" to "100%%"`, least, math.MaxInt32, least)
}

func durations(list *faults, code Code, base string, deadline, soak Duration) {
	if length, given := deadline.Value(); given && length <= 0 {
		list.add(code, base+"progressDeadline", strconv.Quote(deadline.String()), "must be more than zero, or None")
	}
	if length, given := soak.Value(); !soak.IsZero() && (!given || length < 0) {
		list.add(code, base+"minSuccessTime", strconv.Quote(soak.String()), "must be a duration, or 0")
	}
}

func stageName(name string) bool {
	for _, c := range []byte(name) {
		if (c < 'a' || 'z' < c) && (c < '0' || '9' < c) {
			return false
		}
	}
	return name != "" && len(name) <= 63
}

const hintName = "must not be empty, and valid UTF-8"

// targetName reports whether a name is valid: not empty and, because names are written into JSON,
// valid UTF-8.
func targetName(name string) bool { return name != "" && utf8.ValidString(name) }
