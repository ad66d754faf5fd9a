package staged_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/internal/golden"
	"github.com/tranche-dev/tranche/internal/strictjson"
	"github.com/tranche-dev/tranche/rollout/staged"
	"github.com/tranche-dev/tranche/selector"
)

// everyCode lists the rules that a row must violate.
func everyCode() []staged.Code {
	return []staged.Code{staged.CodeStages, staged.CodeStageName, staged.CodeStageNameUnique, staged.CodeSelector, staged.CodeSortKey, staged.CodeMaxConcurrency,
		staged.CodeGroupBy, staged.CodeMaxConcurrencyPerGroup, staged.CodeMaxFailures, staged.CodeRunMaxFailures, staged.CodeDuration, staged.CodeBeforeCount, staged.CodeBeforeType, staged.CodeBeforeWaitTime,
		staged.CodeAfterCount, staged.CodeAfterType, staged.CodeAfterTypeUnique, staged.CodeWaitTimeMissing, staged.CodeWaitTimeForbidden, staged.CodeWaitTime,
		staged.CodePlacementExternal, staged.CodeTargetName, staged.CodeTargetDuplicate, staged.CodeTargetOverlap, staged.CodeTargetUnmatched, staged.CodeTargetNone,
		staged.CodeRunName, staged.CodePlacementName, staged.CodeStrategyName, staged.CodeSnapshotIndex, staged.CodeVersion, staged.CodeState, staged.CodeOption, staged.CodeFormat,
		staged.CodeUnknownField, staged.CodeDuplicate, staged.CodeType}
}

// TestRules compiles one strategy, run, fleet and set of options per row, of which one thing is
// wrong, or just not wrong.
func TestRules(t *testing.T) {
	const good = `{"stages": [{"name": "a", "labelSelector": {}}]}`
	stage := func(fields string) string {
		return `{"stages": [{"name": "ok", "labelSelector": {"matchLabels": {"x": "y"}}}, {"name": "a", "labelSelector": {}, ` + fields + `}]}`
	}
	many := func(n int) string {
		list := make([]string, n)
		for i := range list {
			list[i] = fmt.Sprintf(`{"name": "s%d"}`, i)
		}
		list[0] = `{"name": "s0", "labelSelector": {}}`
		return `{"stages": [` + strings.Join(list, ",") + `]}`
	}
	type row struct {
		why      string
		strategy string
		run      string
		options  string
		fleet    *staged.Fleet
		rule     staged.Code // empty: it passes
		path     string
		value    string
		more     bool // another rule is violated with it
	}
	fleet := func(names ...string) *staged.Fleet {
		f := &staged.Fleet{Version: "1"}
		for _, name := range names {
			f.Targets = append(f.Targets, staged.Target{Name: name, Labels: map[string]string{"env": name[:1], "n": "7"}})
		}
		return f
	}
	rows := []row{
		{why: "the smallest", strategy: good},
		{why: "no stages do nothing, which is a mistake", strategy: `{"stages": []}`, rule: staged.CodeStages, path: "stages", value: "0"},
		{why: "31 stages are KubeFleet's limit", strategy: many(31)},
		{why: "and 32 above it", strategy: many(32), rule: staged.CodeStages, path: "stages", value: "32"},
		{why: "63 characters are allowed", strategy: `{"stages": [{"name": "` + strings.Repeat("a", 63) + `", "labelSelector": {}}]}`},
		{why: "64 are not", strategy: `{"stages": [{"name": "` + strings.Repeat("a", 64) + `", "labelSelector": {}}]}`, rule: staged.CodeStageName, path: "stages[0].name"},
		{why: "the first and the last letter and digit are names", strategy: `{"stages": [{"name": "az09", "labelSelector": {}}]}`},
		{why: "what comes behind z is not", strategy: `{"stages": [{"name": "a{", "labelSelector": {}}]}`, rule: staged.CodeStageName, path: "stages[0].name", value: `"a{"`},
		{why: "nor are letters of other languages", strategy: `{"stages": [{"name": "süd", "labelSelector": {}}]}`, rule: staged.CodeStageName, path: "stages[0].name", value: `"süd"`},
		{why: "nor is a dash, which the name of a run may have", strategy: `{"stages": [{"name": "a-b", "labelSelector": {}}]}`, rule: staged.CodeStageName, path: "stages[0].name", value: `"a-b"`},
		{why: "capitals are not", strategy: `{"stages": [{"name": "Prod", "labelSelector": {}}]}`, rule: staged.CodeStageName, path: "stages[0].name", value: `"Prod"`},
		{why: "two stages of one name share an approval", strategy: `{"stages": [{"name": "a", "labelSelector": {}}, {"name": "a"}]}`, rule: staged.CodeStageNameUnique, path: "stages[1].name"},
		{why: "an unknown operator", strategy: `{"stages": [{"name": "a", "labelSelector": {"matchExpressions": [{"key": "x", "operator": "Is"}]}}]}`, rule: staged.CodeSelector, path: "stages[0].labelSelector.matchExpressions[0].operator", value: `"Is"`},
		{why: "two ways of saying who", strategy: stage(`"targets": ["c"]`), rule: staged.CodeSelector, path: "stages[1].targets"},
		{why: "a target listed twice", strategy: `{"stages": [{"name": "a", "targets": ["c1", "c1"]}]}`, rule: staged.CodeSelector, path: "stages[0].targets[1]", value: `"c1"`},
		{why: "a target without name", strategy: `{"stages": [{"name": "a", "targets": [""]}]}`, rule: staged.CodeSelector, path: "stages[0].targets[0]"},
		{why: "no target has such a label", strategy: stage(`"sortingLabelKey": "a b"`), rule: staged.CodeSortKey, path: "stages[1].sortingLabelKey"},
		{why: "a label that is there", strategy: stage(`"sortingLabelKey": "n"`)},
		{why: "a label that is missing", strategy: stage(`"sortingLabelKey": "order"`), rule: staged.CodeSortKey, path: `targets["c1"].labels["order"]`},
		{why: "or not, by the options", strategy: stage(`"sortingLabelKey": "order"`), options: `{"missingSortKey": "last"}`},
		{why: "a label that is no number", strategy: stage(`"sortingLabelKey": "env"`), options: `{"missingSortKey": "last"}`, rule: staged.CodeSortKey, path: `targets["c1"].labels["env"]`, value: `"c"`},
		{why: "a signed number", strategy: stage(`"sortingLabelKey": "n"`), fleet: &staged.Fleet{Version: "1", Targets: []staged.Target{{Name: "c1", Labels: map[string]string{"n": "-1"}}}}, rule: staged.CodeSortKey, path: `targets["c1"].labels["n"]`},
		{why: "a number above 64 bits", strategy: stage(`"sortingLabelKey": "n"`), fleet: &staged.Fleet{Version: "1", Targets: []staged.Target{{Name: "c1", Labels: map[string]string{"n": "9223372036854775808"}}}}, rule: staged.CodeSortKey, path: `targets["c1"].labels["n"]`},
		{why: "one at a time", strategy: stage(`"maxConcurrency": 1`)},
		{why: "none at a time is never", strategy: stage(`"maxConcurrency": 0`), rule: staged.CodeMaxConcurrency, path: "stages[1].maxConcurrency", value: "0"},
		{why: "nor is 0%", strategy: stage(`"maxConcurrency": "0%"`), rule: staged.CodeMaxConcurrency, path: "stages[1].maxConcurrency", value: `"0%"`},
		{why: "101% is a typo", strategy: stage(`"maxConcurrency": "101%"`), rule: staged.CodeMaxConcurrency, path: "stages[1].maxConcurrency", value: `"101%"`},
		{why: "a leading zero", strategy: stage(`"maxConcurrency": "05%"`), rule: staged.CodeMaxConcurrency, path: "stages[1].maxConcurrency"},
		{why: "a number in a string", strategy: stage(`"maxConcurrency": "50"`), rule: staged.CodeMaxConcurrency, path: "stages[1].maxConcurrency"},
		{why: "a fraction", strategy: stage(`"maxConcurrency": 1.5`), rule: staged.CodeMaxConcurrency, path: "stages[1].maxConcurrency"},
		{why: "two of each group", strategy: stage(`"groupBy": "topology.kubernetes.io/zone", "maxConcurrencyPerGroup": 2`)},
		{why: "a share of each, of a label that nobody has", strategy: stage(`"groupBy": "zone", "maxConcurrencyPerGroup": "10%"`)},
		{why: "more of each than of all is of no effect, but no fault", strategy: stage(`"maxConcurrency": 2, "groupBy": "zone", "maxConcurrencyPerGroup": 5`)},
		{why: "null is absent for both", strategy: stage(`"groupBy": null, "maxConcurrencyPerGroup": null`)},
		{why: "no target has this as a label", strategy: stage(`"groupBy": "a b", "maxConcurrencyPerGroup": 1`), rule: staged.CodeGroupBy, path: "stages[1].groupBy", value: `"a b"`},
		{why: "groups without a limit", strategy: stage(`"groupBy": "env"`), rule: staged.CodeMaxConcurrencyPerGroup, path: "stages[1].maxConcurrencyPerGroup"},
		{why: "a limit without groups", strategy: stage(`"maxConcurrencyPerGroup": 1`), rule: staged.CodeGroupBy, path: "stages[1].groupBy"},
		{why: "none of a group is never", strategy: stage(`"groupBy": "env", "maxConcurrencyPerGroup": 0`), rule: staged.CodeMaxConcurrencyPerGroup, path: "stages[1].maxConcurrencyPerGroup", value: "0"},
		{why: "nor is 0% of it", strategy: stage(`"groupBy": "env", "maxConcurrencyPerGroup": "0%"`), rule: staged.CodeMaxConcurrencyPerGroup, path: "stages[1].maxConcurrencyPerGroup", value: `"0%"`},
		{why: "what cannot be read as a limit of groups", strategy: stage(`"groupBy": "env", "maxConcurrencyPerGroup": "5"`), rule: staged.CodeMaxConcurrencyPerGroup, path: "stages[1].maxConcurrencyPerGroup", value: `"5"`},
		{why: "a label that is no text", strategy: stage(`"groupBy": 3, "maxConcurrencyPerGroup": 1`), rule: staged.CodeType, path: "stages[1].groupBy"},
		{why: "no failures", strategy: stage(`"maxFailures": 0`)},
		{why: "no failures in percent", strategy: stage(`"maxFailures": "0%"`)},
		{why: "this form has two digits", strategy: stage(`"maxFailures": "05%"`)},
		{why: "not three", strategy: stage(`"maxFailures": "005%"`), rule: staged.CodeMaxFailures, path: "stages[1].maxFailures"},
		{why: "more than all", strategy: stage(`"maxFailures": "101%"`), rule: staged.CodeMaxFailures, path: "stages[1].maxFailures", value: `"101%"`},
		{why: "fewer than none", strategy: stage(`"maxFailures": -1`), rule: staged.CodeMaxFailures, path: "stages[1].maxFailures"},
		{why: "the same beside stages", strategy: `{"maxFailures": "101%", "stages": [{"name": "a", "labelSelector": {}}]}`, rule: staged.CodeRunMaxFailures, path: "maxFailures", value: `"101%"`},
		{why: "and what cannot be read there", strategy: `{"maxFailures": "x", "stages": [{"name": "a", "labelSelector": {}}]}`, rule: staged.CodeRunMaxFailures, path: "maxFailures"},
		{why: "no deadline", strategy: stage(`"progressDeadline": "None"`)},
		{why: "a deadline at once", strategy: stage(`"progressDeadline": "0s"`), rule: staged.CodeDuration, path: "stages[1].progressDeadline"},
		{why: "the shortest deadline", strategy: stage(`"progressDeadline": "0.000000001s"`)},
		{why: "no unit", strategy: stage(`"progressDeadline": "10"`), rule: staged.CodeDuration, path: "stages[1].progressDeadline"},
		{why: "no soak, as YAML reads it", strategy: stage(`"minSuccessTime": 0`)},
		{why: "no soak", strategy: stage(`"minSuccessTime": "0s"`)},
		{why: "no soak is not None", strategy: stage(`"minSuccessTime": "None"`), rule: staged.CodeDuration, path: "stages[1].minSuccessTime"},
		{why: "the same beside stages", strategy: `{"minSuccessTime": "None", "stages": [{"name": "a", "labelSelector": {}}]}`, rule: staged.CodeDuration, path: "minSuccessTime"},
		{why: "one approval before", strategy: stage(`"beforeStageTasks": [{"type": "Approval"}]`)},
		{why: "two before", strategy: stage(`"beforeStageTasks": [{"type": "Approval"}, {"type": "Approval"}]`), rule: staged.CodeBeforeCount, path: "stages[1].beforeStageTasks", value: "2"},
		{why: "a wait before", strategy: stage(`"beforeStageTasks": [{"type": "TimedWait", "waitTime": "1h"}]`), rule: staged.CodeBeforeType, path: "stages[1].beforeStageTasks[0].type", more: true},
		{why: "an approval that waits", strategy: stage(`"beforeStageTasks": [{"type": "Approval", "waitTime": "1h"}]`), rule: staged.CodeBeforeWaitTime, path: "stages[1].beforeStageTasks[0].waitTime"},
		{why: "both after", strategy: stage(`"afterStageTasks": [{"type": "Approval"}, {"type": "TimedWait", "waitTime": "1h30m"}]`)},
		{why: "three after", strategy: stage(`"afterStageTasks": [{"type": "Approval"}, {"type": "TimedWait", "waitTime": "1h"}, {"type": "Approval"}]`), rule: staged.CodeAfterCount, path: "stages[1].afterStageTasks", value: "3", more: true},
		{why: "an unknown task fails closed", strategy: stage(`"afterStageTasks": [{"type": "Prayer"}]`), rule: staged.CodeAfterType, path: "stages[1].afterStageTasks[0].type"},
		{why: "two waits", strategy: stage(`"afterStageTasks": [{"type": "TimedWait", "waitTime": "1h"}, {"type": "TimedWait", "waitTime": "1h"}]`), rule: staged.CodeAfterTypeUnique, path: "stages[1].afterStageTasks[1].type"},
		{why: "a wait for nothing", strategy: stage(`"afterStageTasks": [{"type": "TimedWait"}]`), rule: staged.CodeWaitTimeMissing, path: "stages[1].afterStageTasks[0].waitTime"},
		{why: "an approval that waits", strategy: stage(`"afterStageTasks": [{"type": "Approval", "waitTime": "1h"}]`), rule: staged.CodeWaitTimeForbidden, path: "stages[1].afterStageTasks[0].waitTime"},
		{why: "an approval with the 0s that KubeFleet's first versions stored", strategy: stage(`"afterStageTasks": [{"type": "Approval", "waitTime": "0s"}]`), rule: staged.CodeWaitTimeForbidden, path: "stages[1].afterStageTasks[0].waitTime"},
		{why: "another strategy type", strategy: good, fleet: &staged.Fleet{Version: "1", PlacementStrategy: "RollingUpdate", Targets: []staged.Target{{Name: "c1"}}}, rule: staged.CodePlacementExternal, path: "placementStrategy"},
		{why: "the right one in the wrong case", strategy: good, fleet: &staged.Fleet{Version: "1", PlacementStrategy: "external", Targets: []staged.Target{{Name: "c1"}}}, rule: staged.CodePlacementExternal, path: "placementStrategy", value: `"external"`},
		{why: "the right one", strategy: good, fleet: &staged.Fleet{Version: "1", PlacementStrategy: "External", Targets: []staged.Target{{Name: "c1"}}}},
		{why: "a target without name", strategy: good, fleet: &staged.Fleet{Version: "1", Targets: []staged.Target{{Name: "c1"}, {}}}, rule: staged.CodeTargetName, path: "targets[1].name"},
		{why: "a name that JSON cannot hold", strategy: good, fleet: &staged.Fleet{Version: "1", Leaving: []string{"c1", "\xff"}}, rule: staged.CodeTargetName, path: "leaving[1]"},
		{why: "a target twice", strategy: good, fleet: fleet("c1", "c2", "c1", "c1"), rule: staged.CodeTargetDuplicate, path: "targets", value: `"c1"`},
		{why: "twice, and another one in between", strategy: good, fleet: fleet("c1", "c2", "c1"), rule: staged.CodeTargetDuplicate, path: "targets", value: `"c1"`},
		{why: "three times, behind another one", strategy: good, fleet: fleet("c2", "c1", "c2", "c2"), rule: staged.CodeTargetDuplicate, path: "targets", value: `"c2"`},
		{why: "to be updated and removed", strategy: good, fleet: &staged.Fleet{Version: "1", Targets: []staged.Target{{Name: "c1"}}, Leaving: []string{"c1"}}, rule: staged.CodeTargetDuplicate, path: "targets", value: `"c1"`},
		{why: "in two stages", strategy: `{"stages": [{"name": "a", "labelSelector": {}}, {"name": "b", "targets": ["c2"]}]}`, fleet: fleet("c1", "c2"), rule: staged.CodeTargetOverlap, path: "targets", value: "1"},
		{why: "the first counts, by the options", strategy: `{"stages": [{"name": "a", "labelSelector": {}}, {"name": "b", "targets": ["c2"]}]}`, options: `{"overlap": "first"}`, fleet: fleet("c1", "c2")},
		{why: "in no stage", strategy: `{"stages": [{"name": "a"}]}`, rule: staged.CodeTargetUnmatched, path: "targets", value: "1"},
		{why: "ignored, by the options", strategy: `{"stages": [{"name": "a"}]}`, options: `{"unmatched": "ignore"}`},
		{why: "nothing to do", strategy: good, fleet: &staged.Fleet{Version: "1"}, rule: staged.CodeTargetNone, path: "targets"},
		{why: "leaving ones are something", strategy: good, fleet: &staged.Fleet{Version: "1", Leaving: []string{"d1"}}},
		{why: "no version is known", strategy: good, fleet: &staged.Fleet{Leaving: []string{"d1"}}, run: `{"placementName": "p", "stagedRolloutStrategyName": "s"}`, rule: staged.CodeVersion, path: "version"},
		{why: "a version that a stored run does not hold: every target would be at another one", strategy: good, fleet: &staged.Fleet{Version: "\xff", Leaving: []string{"d1"}}, rule: staged.CodeVersion, path: "version", value: `"\xff"`},
		{why: "the index is the version", strategy: good, fleet: &staged.Fleet{Leaving: []string{"d1"}}, run: `{"placementName": "p", "stagedRolloutStrategyName": "s", "resourceSnapshotIndex": "0"}`},
		{why: "a name with a dot", strategy: good, run: `{"metadata": {"name": "a.b"}, "spec": {"placementName": "p", "stagedRolloutStrategyName": "s"}}`, rule: staged.CodeRunName, path: "metadata.name"},
		{why: "the first and the last of what a name may hold", strategy: good, run: `{"metadata": {"name": "a0-9z"}, "spec": {"placementName": "p", "stagedRolloutStrategyName": "s"}}`},
		{why: "a name that begins with a dash", strategy: good, run: `{"metadata": {"name": "-a"}, "spec": {"placementName": "p", "stagedRolloutStrategyName": "s"}}`, rule: staged.CodeRunName, path: "metadata.name"},
		{why: "a name with what comes behind z", strategy: good, run: `{"metadata": {"name": "a{"}, "spec": {"placementName": "p", "stagedRolloutStrategyName": "s"}}`, rule: staged.CodeRunName, path: "metadata.name"},
		{why: "a name that ends with a dash", strategy: good, run: `{"metadata": {"name": "a-"}, "spec": {"placementName": "p", "stagedRolloutStrategyName": "s"}}`, rule: staged.CodeRunName, path: "metadata.name"},
		{why: "and of 63", strategy: good, run: `{"metadata": {"name": "` + strings.Repeat("a", 63) + `"}, "spec": {"placementName": "p", "stagedRolloutStrategyName": "s"}}`},
		{why: "a name of 64 characters", strategy: good, run: `{"metadata": {"name": "` + strings.Repeat("a", 64) + `"}, "spec": {"placementName": "p", "stagedRolloutStrategyName": "s"}}`, rule: staged.CodeRunName, path: "metadata.name"},
		{why: "no placement", strategy: good, run: `{"stagedRolloutStrategyName": "s"}`, rule: staged.CodePlacementName, path: "placementName"},
		{why: "a placement of 256 characters", strategy: good, run: `{"placementName": "` + strings.Repeat("p", 256) + `", "stagedRolloutStrategyName": "s"}`, rule: staged.CodePlacementName, path: "placementName"},
		{why: "and of 255", strategy: good, run: `{"placementName": "` + strings.Repeat("p", 255) + `", "stagedRolloutStrategyName": "s"}`},
		{why: "characters, not bytes", strategy: good, run: `{"placementName": "` + strings.Repeat("ü", 255) + `", "stagedRolloutStrategyName": "s"}`},
		{why: "no strategy", strategy: good, run: `{"placementName": "p"}`, rule: staged.CodeStrategyName, path: "stagedRolloutStrategyName"},
		{why: "an index that is no number", strategy: good, run: `{"placementName": "p", "stagedRolloutStrategyName": "s", "resourceSnapshotIndex": "-1"}`, rule: staged.CodeSnapshotIndex, path: "resourceSnapshotIndex", value: `"-1"`},
		{why: "an unknown state fails closed", strategy: good, run: `{"placementName": "p", "stagedRolloutStrategyName": "s", "state": "Go"}`, rule: staged.CodeState, path: "state", value: `"Go"`},
		{why: "an unknown choice fails closed", strategy: good, options: `{"onFailure": "pray"}`, rule: staged.CodeOption, path: "onFailure", value: `"pray"`},
		{why: "a choice of another field", strategy: good, options: `{"onFailure": "skip"}`, rule: staged.CodeOption, path: "onFailure"},
		{why: "stuck at once", strategy: good, options: `{"stuckAfter": "0"}`, rule: staged.CodeOption, path: "stuckAfter"},
		{why: "never stuck", strategy: good, options: `{"stuckAfter": "None"}`, rule: staged.CodeOption, path: "stuckAfter"},
		{why: "no time to stop", strategy: good, options: `{"stopGrace": "0s"}`},
		{why: "all time to stop", strategy: good, options: `{"stopGrace": "None"}`},
		{why: "no removals at a time", strategy: good, options: `{"cleanup": {"maxConcurrency": 0}}`, rule: staged.CodeOption, path: "cleanup.maxConcurrency"},
		{why: "too many failed removals", strategy: good, options: `{"cleanup": {"maxFailures": "200%"}}`, rule: staged.CodeOption, path: "cleanup.maxFailures"},
		{why: "a deadline at once", strategy: good, options: `{"cleanup": {"progressDeadline": "0"}}`, rule: staged.CodeOption, path: "cleanup.progressDeadline"},
		{why: "a misspelt field must not be no field", strategy: stage(`"maxConcurency": 1`), rule: staged.CodeUnknownField, path: "stages[1].maxConcurency"},
		{why: "of a run, too", strategy: good, run: `{"placement": "p"}`, rule: staged.CodeUnknownField, path: "placement"},
		{why: "of the options, too", strategy: good, options: `{"onfailure": "hold"}`, rule: staged.CodeUnknownField, path: "onfailure"},
		{why: "another kind of object", strategy: `{"kind": "ConfigMap", "spec": ` + good + `}`, rule: staged.CodeFormat, path: "kind", value: `"ConfigMap"`},
		{why: "an object without its spec", strategy: `{"apiVersion": "v1", "kind": "StagedUpdateStrategy", "metadata": {"name": "s"}}`, rule: staged.CodeFormat, path: "spec"},
		{why: "the spec of an object not below spec", strategy: `{"metadata": {"name": "s"}, ` + good[1:], rule: staged.CodeUnknownField, path: "stages", more: true},
		{why: "a field of the spec that slipped beside it would be ignored", strategy: `{"kind": "StagedUpdateStrategy", "spec": ` + good + `, "maxFailures": 1}`, rule: staged.CodeUnknownField, path: "maxFailures"},
		{why: "of a run, too: it would start at once", strategy: good, run: `{"metadata": {"name": "a"}, "spec": {"placementName": "p", "stagedRolloutStrategyName": "s"}, "state": "Initialize"}`, rule: staged.CodeUnknownField, path: "state"},
		{why: "a name that is not UTF-8 is another name", strategy: `{"kind": "StagedUpdateStrategy", "spec": ` + good + `, "` + "\xff" + `": 1}`, rule: staged.CodeSyntax},
		{why: "an object whose spec is null", strategy: `{"kind": "StagedUpdateStrategy", "spec": null}`, rule: staged.CodeFormat, path: "spec"},
		{why: "two specs, of which one would be ignored", strategy: `{"kind": "StagedUpdateStrategy", "spec": ` + good + `, "spec": ` + good + `}`, rule: staged.CodeDuplicate, path: "spec"},
		{why: "two names", strategy: good, run: `{"metadata": {"name": "a", "name": "b"}, "spec": {"placementName": "p", "stagedRolloutStrategyName": "s"}}`, rule: staged.CodeDuplicate, path: "metadata.name"},
		{why: "the rest of an object is not looked at", strategy: `{"apiVersion": 7, "kind": "StagedUpdateStrategy", "metadata": {"labels": 7}, "spec": ` + good + `, "status": [7]}`},
		{why: "an approval before the removals", strategy: `{"stages": [{"name": "a", "labelSelector": {}}], "deleteStage": {"beforeStageTasks": [{"type": "Approval"}]}}`},
		{why: "nothing about the removals", strategy: `{"stages": [{"name": "a", "labelSelector": {}}], "deleteStage": {}}`},
		{why: "a wait belongs after the last stage", strategy: `{"stages": [{"name": "a", "labelSelector": {}}], "deleteStage": {"beforeStageTasks": [{"type": "TimedWait"}]}}`,
			rule: staged.CodeBeforeType, path: "deleteStage.beforeStageTasks[0].type", value: `"TimedWait"`},
		{why: "an approval before the removals that waits for time", strategy: `{"stages": [{"name": "a", "labelSelector": {}}], "deleteStage": {"beforeStageTasks": [{"type": "Approval", "waitTime": "1h"}]}}`,
			rule: staged.CodeBeforeWaitTime, path: "deleteStage.beforeStageTasks[0].waitTime", value: `"1h"`},
		{why: "two approvals before the removals", strategy: `{"stages": [{"name": "a", "labelSelector": {}}], "deleteStage": {"beforeStageTasks": [{"type": "Approval"}, {"type": "Approval"}]}}`,
			rule: staged.CodeBeforeCount, path: "deleteStage.beforeStageTasks", value: "2"},
		{why: "nothing comes after the removals", strategy: `{"stages": [{"name": "a", "labelSelector": {}}], "deleteStage": {"afterStageTasks": []}}`,
			rule: staged.CodeUnknownField, path: "deleteStage.afterStageTasks"},
		{why: "null is not a stage", strategy: `{"stages": [null]}`, rule: staged.CodeType, path: "stages[0]"},
		{why: "what is wrong inside a whole object", strategy: `{"kind": "StagedUpdateStrategy", "spec": {"stages": [{"name": 1}]}}`, rule: staged.CodeType, path: "spec.stages[0].name"},
	}
	for _, wait := range []string{"1h30m", "1.5h", "30s", "0.5s", "10m", "0h1m"} {
		rows = append(rows, row{why: wait + " is a wait", strategy: stage(`"afterStageTasks": [{"type": "TimedWait", "waitTime": "` + wait + `"}]`)})
	}
	for _, wait := range []string{"1d", "1", "01h", "100ms", "-1h", "0s", "0", "None", "1.h", ".5h", "h", "1 h", "3000000h", "1h1", "1e3s"} {
		rows = append(rows, row{why: wait + " is no wait", strategy: stage(`"afterStageTasks": [{"type": "TimedWait", "waitTime": "` + wait + `"}]`), rule: staged.CodeWaitTime, path: "stages[1].afterStageTasks[0].waitTime"})
	}
	rows = append(rows, row{why: "seconds without their unit are shown as they were written, without quotes", strategy: stage(`"afterStageTasks": [{"type": "TimedWait", "waitTime": 3600}]`),
		rule: staged.CodeWaitTime, path: "stages[1].afterStageTasks[0].waitTime", value: "3600"})
	seen := map[staged.Code]bool{}
	whys := map[string]bool{}
	said := ""
	for _, r := range rows {
		if key := r.why + r.strategy + r.run + r.options; r.why == "" || whys[key] {
			t.Fatalf("a row without reason, or twice: %+v", r)
		} else {
			whys[key] = true
		}
		var strategy staged.Strategy
		spec := staged.Spec{}
		var options staged.Options
		if r.run == "" {
			r.run = `{"placementName": "p", "stagedRolloutStrategyName": "s"}`
		}
		if r.options == "" {
			r.options = "{}"
		}
		err := errors.Join(json.Unmarshal([]byte(r.strategy), &strategy), json.Unmarshal([]byte(r.run), &spec), json.Unmarshal([]byte(r.options), &options))
		if err == nil {
			if !strings.Contains(r.run, "metadata") {
				spec.Name = "run"
			}
			f := r.fleet
			if f == nil {
				f = fleet("c1")
			}
			_, err = staged.Compile(strategy, spec, *f, options)
		}
		if r.rule == "" {
			if err != nil {
				t.Errorf("%s: %v", r.why, err)
			}
			continue
		}
		seen[r.rule] = true
		faults := flatten(err)
		if len(faults) == 0 || len(faults) > 1 != r.more || faults[0].Code != r.rule || faults[0].Path != r.path || r.value != "" && faults[0].Value != r.value || faults[0].Hint == "" {
			t.Errorf("%s: got %+v, want one fault of rule %s at %s", r.why, err, r.rule, r.path)
		}
		said += refusal(r.why, err)
	}
	golden.Check(t, "rules.txt", said)
	for _, rule := range everyCode() {
		if !seen[rule] {
			t.Errorf("no row violates %s", rule)
		}
	}
}

func flatten(err error) (list []*staged.FieldError) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range joined.Unwrap() {
			list = append(list, flatten(one)...)
		}
		return list
	}
	var fault *staged.FieldError
	if errors.As(err, &fault) {
		list = append(list, fault)
	}
	return list
}

// TestAllFaultsAtOnce: all violations are found, in stage order, and there is no run.
func TestAllFaultsAtOnce(t *testing.T) {
	strategy := staged.Strategy{MaxFailures: concurrency.Percent(200), Stages: []staged.Stage{
		{Name: "A", MaxConcurrency: concurrency.Count(0)},
		{Name: "b", BeforeStageTasks: []staged.Task{{Type: staged.TimedWait}}, AfterStageTasks: []staged.Task{{Type: staged.TimedWait, WaitTime: staged.For(-time.Hour)}, {Type: staged.TimedWait}}},
		{Name: "b", ProgressDeadline: staged.For(0), MinSuccessTime: staged.For(-1)},
		{Name: "A"},
		{}, {},
	}}
	run, err := staged.Compile(strategy, staged.Spec{State: "x"}, staged.Fleet{}, staged.Options{Rounding: staged.Hold, StopGrace: staged.For(-1)})
	want := []staged.Code{staged.CodeStageName, staged.CodeMaxConcurrency, staged.CodeBeforeType, staged.CodeWaitTime, staged.CodeAfterTypeUnique, staged.CodeWaitTimeMissing,
		staged.CodeStageNameUnique, staged.CodeDuration, staged.CodeDuration, staged.CodeStageName, staged.CodeStageNameUnique, staged.CodeStageName, staged.CodeStageName, staged.CodeRunMaxFailures, staged.CodeRunName, staged.CodePlacementName, staged.CodeStrategyName,
		staged.CodeState, staged.CodeOption, staged.CodeOption, staged.CodeVersion, staged.CodeTargetNone}
	if got := rules(err); run != nil || !slices.Equal(got, want) {
		t.Errorf("got %v\nwant %v\n%v", got, want, err)
	}
	if list := flatten(err); list[1].Error() != `stages[0].maxConcurrency: 0: must be a count from 1 to 2147483647, without quotes, or a whole percentage from "1%" to "100%"` {
		t.Error(list[1])
	}
}

// TestFaultsOfStrategyAndFleet: a fault of a strategy hides none in how its stages divide the fleet,
// unless it leaves that open.
func TestFaultsOfStrategyAndFleet(t *testing.T) {
	fleet := staged.Fleet{Version: "v2", Targets: []staged.Target{{Name: "c1"}, {Name: "c2", Labels: map[string]string{"order": "1"}}, {Name: "c3"}}}
	const name, wait, failures, option = staged.CodeStageName, staged.CodeWaitTimeMissing, staged.CodeMaxFailures, staged.CodeOption
	for _, row := range []struct {
		why    string
		change func(*staged.Strategy)
		want   []staged.Code
	}{
		{"all of them at once", func(*staged.Strategy) {}, []staged.Code{name, wait, failures, option, staged.CodeSortKey, staged.CodeTargetOverlap, staged.CodeTargetUnmatched}},
		{"a length that has no stored form", func(s *staged.Strategy) { s.ProgressDeadline = staged.For(-1) }, []staged.Code{name, wait, failures, staged.CodeDuration, option}},
		{"who is the second c1?", func(s *staged.Strategy) { s.Stages[1].Targets = []string{"c1", "c1"} }, []staged.Code{name, wait, staged.CodeSelector, failures, option}},
		{"which label orders?", func(s *staged.Strategy) { s.Stages[0].SortingLabelKey = "the order" }, []staged.Code{name, staged.CodeSortKey, wait, failures, option}},
		{"which label groups?", func(s *staged.Strategy) { s.Stages[0].GroupBy = "the group" }, []staged.Code{name, staged.CodeGroupBy, staged.CodeMaxConcurrencyPerGroup, wait, failures, option}},
		{"how many of each group leaves nothing of that open", func(s *staged.Strategy) { s.Stages[0].GroupBy = "order" }, []staged.Code{name, staged.CodeMaxConcurrencyPerGroup, wait, failures, option, staged.CodeSortKey, staged.CodeTargetOverlap, staged.CodeTargetUnmatched}},
		{"without stages nobody is in one, which needs no saying", func(s *staged.Strategy) { s.Stages = nil }, []staged.Code{staged.CodeStages, option}},
	} {
		strategy := staged.Strategy{Stages: []staged.Stage{
			{Name: "A", Targets: []string{"c1", "c2"}, SortingLabelKey: "order", AfterStageTasks: []staged.Task{{Type: staged.TimedWait}}},
			{Name: "b", Targets: []string{"c2"}, MaxFailures: concurrency.Percent(101)},
		}}
		row.change(&strategy)
		run, err := staged.Compile(strategy, benchSpec(), fleet, staged.Options{Rounding: "odd"})
		if got := rules(err); !slices.Equal(got, row.want) || run != nil {
			t.Errorf("%s:\ngot  %v\nwant %v\n%v", row.why, got, row.want, err)
		}
	}
}

func TestValidateUpdate(t *testing.T) {
	spec := staged.Spec{Name: "run", PlacementName: "p", ResourceSnapshotIndex: "1", StagedRolloutStrategyName: "s"}
	for _, c := range []struct {
		from, to staged.State
		ok       bool
	}{
		{"", "Run", true}, {"", "Initialize", true}, {"Initialize", "Stop", false}, {"", "Stop", false}, {"Run", "Stop", true}, {"Run", "Run", true}, {"Run", "", false},
		{"Run", "Initialize", false}, {"Stop", "Run", true}, {"Stop", "Initialize", false}, {"Stop", "Stop", true},
	} {
		from, to := spec, spec
		from.State, to.State = c.from, c.to
		if err := from.ValidateUpdate(to); (err == nil) != c.ok || err != nil && !slices.Equal(rules(err), []staged.Code{staged.CodeTransition}) {
			t.Errorf("%q to %q: %v", c.from, c.to, err)
		}
	}
	for _, absent := range []bool{true, false} {
		from, to := spec, spec
		if to.ResourceSnapshotIndex = ""; absent {
			from, to = to, from
		}
		if err := from.ValidateUpdate(to); !slices.Equal(rules(err), []staged.Code{staged.CodeImmutable}) {
			t.Errorf("the index changes from %q to %q: %v", from.ResourceSnapshotIndex, to.ResourceSnapshotIndex, err)
		}
	}
	other := staged.Spec{PlacementName: "q", StagedRolloutStrategyName: "t", State: "Nonsense"}
	if got := rules(spec.ValidateUpdate(other)); !slices.Equal(got, []staged.Code{staged.CodeImmutable, staged.CodeImmutable, staged.CodeImmutable, staged.CodeState}) {
		t.Error(got)
	}
	var got []string
	for _, fault := range flatten(spec.ValidateUpdate(other)) {
		got = append(got, fault.Path+": "+fault.Value)
	}
	if want := []string{`placementName: "q"`, `resourceSnapshotIndex: ""`, `stagedRolloutStrategyName: "t"`, `state: "Nonsense"`}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestPathsOfDocuments: a fault is at its place in the document that was read, whether it is one of
// form or one of meaning: a user who wrote a whole object looks for spec.stages.
func TestPathsOfDocuments(t *testing.T) {
	const stages, run = `{"stages": [{"name": "A", "labelSelector": {}}], "maxFailures": "200%"}`, `{"placementName": "", "stagedRolloutStrategyName": "s", "state": "Sit"}`
	const good = `{"placementName": "p", "stagedRolloutStrategyName": "s", "state": "Stop"}`
	for _, row := range []struct {
		why  string
		wrap string
		want string // of the strategy, of the run, of both in Compile, of an update
	}{
		{"a bare spec is the document", `%s`, "stages[0].name maxFailures|metadata.name placementName state|stages[0].name maxFailures metadata.name placementName state|state|placementName state"},
		{"a whole object has it below spec", `{"metadata": {"name": "-"}, "spec": %s}`,
			"spec.stages[0].name spec.maxFailures|metadata.name spec.placementName spec.state|spec.stages[0].name spec.maxFailures metadata.name spec.placementName spec.state|spec.state|spec.placementName spec.state"},
	} {
		read := func(text string, into json.Unmarshaler) {
			if err := into.UnmarshalJSON([]byte(fmt.Sprintf(row.wrap, text))); err != nil {
				t.Fatal(row.why, err)
			}
		}
		var strategy staged.Strategy
		var spec, stop staged.Spec
		read(stages, &strategy)
		read(run, &spec)
		read(good, &stop)
		fleet := staged.Fleet{Version: "1", Targets: []staged.Target{{Name: "c1"}}}
		_, compiled := staged.Compile(strategy, spec, fleet, staged.Options{})
		var got []string
		// A run that has not started cannot be stopped; and a new spec may differ in the state alone.
		for _, err := range []error{strategy.Validate(), spec.Validate(), compiled, staged.Spec{PlacementName: "p", StagedRolloutStrategyName: "s"}.ValidateUpdate(stop), stop.ValidateUpdate(spec)} {
			var paths []string
			for _, fault := range flatten(err) {
				paths = append(paths, fault.Path)
			}
			got = append(got, strings.Join(paths, " "))
		}
		if text := strings.Join(got, "|"); text != row.want {
			t.Errorf("%s:\ngot  %s\nwant %s", row.why, text, row.want)
		}
		stop.Name = "r"
		legal, err := staged.Compile(staged.Strategy{Stages: []staged.Stage{all("a", 1)}}, stop, fleet, staged.Options{})
		if err != nil {
			t.Fatal(row.why, err)
		}
		if want := (staged.Spec{Name: "r", ID: "r", PlacementName: "p", StagedRolloutStrategyName: "s", State: staged.StateStop}); legal.Spec() != want {
			t.Errorf("%s: a run keeps of the document what is in it, and not where: %+v", row.why, legal.Spec())
		}
	}
}

// TestChoicesOfOptions: each option has its own choices, by its own name, and refuses those of all
// others: a choice that no code knows would count as the default.
func TestChoicesOfOptions(t *testing.T) {
	all := []staged.Choice{"reject", "ignore", "last", "first", "append", "skip", "fail", "clean", "count", "freeze", "duringWait", "never", "always", "block", "note", "hold", "down", "up", "other"}
	for field, accepted := range map[string][]staged.Choice{
		"unmatched":      {"reject", "ignore", "last"},
		"overlap":        {"reject", "first"},
		"missingSortKey": {"reject", "last"},
		"added":          {"ignore", "append"},
		"removed":        {"skip", "fail"},
		"lateLeaving":    {"ignore", "clean"},
		"waitDuringStop": {"count", "freeze"},
		"verifyDone":     {"duringWait", "never", "always"},
		"onRegression":   {"block", "note", "fail"},
		"onFailure":      {"fail", "hold"},
		"onReject":       {"fail", "hold"},
		"rounding":       {"down", "up"},
	} {
		for _, choice := range all {
			var options staged.Options
			if err := json.Unmarshal([]byte(fmt.Sprintf(`{%q: %q}`, field, choice)), &options); err != nil {
				t.Fatal(err)
			}
			faults := flatten(options.Validate())
			if slices.Contains(accepted, choice) {
				if len(faults) > 0 {
					t.Errorf("%s: %s: %v", field, choice, faults[0])
				}
			} else if len(faults) != 1 || faults[0].Code != staged.CodeOption || faults[0].Path != field || !strings.Contains(faults[0].Hint, ` or "`+string(accepted[len(accepted)-1])+`"; left out it is "`+string(accepted[0])+`"`) {
				t.Errorf("%s: %s: got %v, want one fault that names the default, %s", field, choice, faults, accepted[0])
			}
		}
	}
}

// TestStepRefuses: what no run can make sense of is an error that changes nothing.
func TestStepRefuses(t *testing.T) {
	run := compileBench(t, 1000, concurrency.Count(1))
	said := ""
	for _, c := range []struct {
		in   staged.Input
		now  time.Time
		rule staged.Code
		path string
	}{
		{staged.Input{State: "Going"}, benchStart, staged.CodeState, "state"},
		{staged.Input{State: staged.StateInitialize}, benchStart, staged.CodeTransition, "state"},
		{staged.Input{Commands: []staged.Command{{}}}, benchStart, staged.CodeInput, "commands[0].kind"},
		{staged.Input{Commands: []staged.Command{{Kind: staged.CommandCancel}, {Kind: staged.CommandApprove}}}, benchStart, staged.CodeInput, "commands[1].side"},
		{staged.Input{Commands: []staged.Command{{Kind: staged.CommandCancel, Target: "c1"}}}, benchStart, staged.CodeInput, "commands[0].target"}, // it would end the whole run
		{staged.Input{Commands: []staged.Command{{Kind: staged.CommandCancel, Stage: 1}}}, benchStart, staged.CodeInput, "commands[0].stage"},
		{staged.Input{Commands: []staged.Command{{Kind: staged.CommandCancel, Side: staged.Before}}}, benchStart, staged.CodeInput, "commands[0].side"},
		{staged.Input{Commands: []staged.Command{{Kind: staged.CommandApprove, Side: staged.Before, Target: "c1"}}}, benchStart, staged.CodeInput, "commands[0].target"}, // it would let all others through
		{staged.Input{Commands: []staged.Command{{Kind: staged.CommandReject, Side: staged.After, Target: "c1"}}}, benchStart, staged.CodeInput, "commands[0].target"},
		{staged.Input{Commands: []staged.Command{{Kind: staged.CommandApprove, Side: staged.Before, Attempt: 1}}}, benchStart, staged.CodeInput, "commands[0].attempt"},
		{staged.Input{Commands: []staged.Command{{Kind: staged.CommandCancel, Attempt: 1}}}, benchStart, staged.CodeInput, "commands[0].attempt"},
		{staged.Input{Commands: []staged.Command{{Kind: staged.CommandReject, Side: staged.Before, Attempt: 1}}}, benchStart, staged.CodeInput, "commands[0].attempt"},
		{staged.Input{Commands: []staged.Command{{Kind: staged.CommandEndWait, Run: "run", Side: staged.After}}}, benchStart, staged.CodeInput, "commands[0].side"},
		{staged.Input{Commands: []staged.Command{{Kind: staged.CommandEndWait, Run: "run", Target: "c1"}}}, benchStart, staged.CodeInput, "commands[0].target"}, // it would end the wait for all others
		{staged.Input{Commands: []staged.Command{{Kind: staged.CommandEndWait, Run: "run", Attempt: 1}}}, benchStart, staged.CodeInput, "commands[0].attempt"},
		{staged.Input{Commands: []staged.Command{{Kind: staged.CommandSkip, Target: "c1", Attempt: 1}}}, benchStart, staged.CodeInput, "commands[0].attempt"}, // it would skip the attempt behind as well
		{staged.Input{Commands: []staged.Command{{Kind: staged.CommandSkip, Target: "c1", Stage: 1}}}, benchStart, staged.CodeInput, "commands[0].stage"},
		{staged.Input{Commands: []staged.Command{{Kind: staged.CommandRetry, Target: "c1", Attempt: 1, Side: staged.After}}}, benchStart, staged.CodeInput, "commands[0].side"},
		{staged.Input{Commands: []staged.Command{{Kind: staged.CommandSuspend, Target: "c1", Attempt: 1}}}, benchStart, staged.CodeInput, "commands[0].attempt"}, // an attempt that is over would be thought to count
		{staged.Input{Commands: []staged.Command{{Kind: staged.CommandSuspend, Stage: 1}}}, benchStart, staged.CodeInput, "commands[0].stage"},                   // no command suspends a whole stage
		{staged.Input{Commands: []staged.Command{{Kind: staged.CommandResume, Target: "c1", Side: staged.Before}}}, benchStart, staged.CodeInput, "commands[0].side"},
		{staged.Input{Commands: []staged.Command{{Kind: staged.CommandResume, Target: "c1", Attempt: 1}}}, benchStart, staged.CodeInput, "commands[0].attempt"},
		{staged.Input{Observations: []staged.Observation{{Health: "well"}}}, benchStart, staged.CodeInput, "observations[0].health"},
		{staged.Input{Added: []staged.Target{{}}}, benchStart, staged.CodeTargetName, "added[0].name"},
		{staged.Input{Leaving: []string{"\xff"}}, benchStart, staged.CodeTargetName, "leaving[0]"},
		{staged.Input{}, time.Time{}, staged.CodeInput, "now"},
		{staged.Input{}, time.Date(2262, 1, 1, 0, 0, 0, 0, time.UTC), staged.CodeInput, "now"},
	} {
		next, result, err := staged.Step(run, c.in, c.now)
		faults := flatten(err)
		if next != run || len(result.Actions) > 0 || len(faults) != 1 || faults[0].Code != c.rule || faults[0].Path != c.path {
			t.Errorf("%+v: %v", c.in, err)
		}
		in, _ := json.Marshal(c.in)
		said += refusal(string(in), err)
	}
	golden.Check(t, "steps.txt", said)
	for now, want := range map[time.Time]string{
		{}: "now: must be set to the present instant", // as every package says of a clock that was never set
		time.Date(2262, 1, 1, 0, 0, 0, 0, time.UTC): "now: 2262-01-01T00:00:00Z: must be within the years 1970 and 2261",
	} {
		if _, _, err := staged.Step(run, staged.Input{}, now); err == nil || err.Error() != want {
			t.Errorf("%v: got %v, want %s", now, err, want)
		}
	}
	_, _, err := staged.Step(run, staged.Input{State: "Going", Leaving: []string{""}}, time.Time{})
	if got, want := rules(err), []staged.Code{staged.CodeInput, staged.CodeState, staged.CodeTargetName}; !slices.Equal(got, want) {
		t.Errorf("all faults of a step at once: got %q, want %q", got, want)
	}
	for _, empty := range []*staged.Run{nil, new(staged.Run)} {
		if _, _, err := staged.Step(empty, staged.Input{}, benchStart); !errors.Is(err, staged.ErrNoRun) {
			t.Error(err)
		}
	}
	empty := new(staged.Run)
	if _, err := json.Marshal(empty); !errors.Is(err, staged.ErrNoRun) {
		t.Error(err)
	}
	if _, ok := empty.Waits(); ok || empty.String() != "no run" || empty.Phase() != "" || empty.Version() != "" || len(slices.Collect(empty.Stages())) > 0 {
		t.Error("the zero run knows something")
	}
	if _, ok := empty.Explain("c"); ok {
		t.Error("the zero run explains something")
	}
}

// TestCompileOrder: by the number of the label, then by name, whatever the order of the fleet.
func TestCompileOrder(t *testing.T) {
	target := func(name, key string) staged.Target {
		if key == "" {
			return staged.Target{Name: name}
		}
		return staged.Target{Name: name, Labels: map[string]string{"order": key}}
	}
	fleet := staged.Fleet{Version: "1", Leaving: []string{"z", "y"}, Targets: []staged.Target{target("c10", "7"), target("c2", ""), target("c1", "007"), target("a", "10"), target("b", "9223372036854775807"),
		target("c3", "0"), target("a0", "")}}
	strategy := staged.Strategy{Stages: []staged.Stage{{Name: "a", LabelSelector: &selector.LabelSelector{}, SortingLabelKey: "order"}}}
	for range 2 {
		run, err := staged.Compile(strategy, benchSpec(), fleet, staged.Options{MissingSortKey: staged.Last})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for s := range run.Stages() {
			for target := range run.Targets(s.Index) {
				got = append(got, target.Name)
			}
		}
		if want := []string{"c3", "c1", "c10", "a", "b", "a0", "c2", "y", "z"}; !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		slices.Reverse(fleet.Targets)
		slices.Reverse(fleet.Leaving)
	}
}

// TestSortFaults: members that their label cannot order are told by stage and by name, in whatever
// order the fleet is given.
func TestSortFaults(t *testing.T) {
	ring := func(name string, of ...string) staged.Stage {
		return staged.Stage{Name: name, Targets: of, SortingLabelKey: "order"}
	}
	strategy := staged.Strategy{Stages: []staged.Stage{ring("a", "c2", "c4"), ring("b", "c1", "c3", "c5")}}
	fleet := staged.Fleet{Version: "1", Targets: []staged.Target{{Name: "c1"}, {Name: "c2", Labels: map[string]string{"order": ""}}, {Name: "c3", Labels: map[string]string{"order": "1"}}, {Name: "c4"},
		{Name: "c5", Labels: map[string]string{"order": "x"}}}}
	want := []string{`targets["c2"].labels["order"]`, `targets["c4"].labels["order"]`, `targets["c1"].labels["order"]`, `targets["c5"].labels["order"]`}
	for range 2 {
		_, err := staged.Compile(strategy, benchSpec(), fleet, staged.Options{})
		var paths []string
		for _, fault := range flatten(err) {
			if paths = append(paths, fault.Path); fault.Code != staged.CodeSortKey {
				t.Errorf("%+v", fault)
			}
		}
		if !slices.Equal(paths, want) {
			t.Errorf("got %v, want %v", paths, want)
		}
		slices.Reverse(fleet.Targets)
	}
}

// TestStoredNames: what a run is known by is stored, and JSON replaces what is not UTF-8: the
// tokens of a run that was read back would not be its own.
func TestStoredNames(t *testing.T) {
	for _, row := range []struct {
		why  string
		of   func(*staged.Spec)
		rule staged.Code
		path string
		name string
	}{
		{"it is part of every token", func(s *staged.Spec) { s.ID = "a\xff" }, staged.CodeRunName, "id", `"a\xff"`},
		{"two namespaces would become one", func(s *staged.Spec) { s.Namespace = "b\xff" }, staged.CodeRunName, "metadata.namespace", `"b\xff"`},
		{"and two placements", func(s *staged.Spec) { s.PlacementName = "c\xff" }, staged.CodePlacementName, "placementName", `"c\xff"`},
		{"it is compared with the next spec", func(s *staged.Spec) { s.StagedRolloutStrategyName = "d\xff" }, staged.CodeStrategyName, "stagedRolloutStrategyName", `"d\xff"`},
		{"a uid of any form", func(s *staged.Spec) { s.ID, s.Namespace = "ü/ \x00", "ü" }, "", "", ""},
	} {
		spec := benchSpec()
		row.of(&spec)
		faults := flatten(spec.Validate())
		if row.rule == "" {
			run, err := staged.Compile(staged.Strategy{Stages: []staged.Stage{all("a", 1)}}, spec, fleetOf("c1"), staged.Options{})
			var again staged.Run
			if err == nil {
				err = json.Unmarshal(encode(t, run), &again)
			}
			if err != nil || again.Spec() != run.Spec() {
				t.Errorf("%s: %+v, %v", row.why, again.Spec(), err)
			}
		} else if len(faults) != 1 || faults[0].Code != row.rule || faults[0].Path != row.path || faults[0].Value != row.name {
			t.Errorf("%s: got %v", row.why, faults)
		}
	}
}

// TestStagesDecide: what a stage says of its own, None and 0 included, counts in place of what
// holds for all stages.
func TestStagesDecide(t *testing.T) {
	for _, row := range []struct {
		why            string
		deadline, soak staged.Duration
		next           time.Duration // of a target that was started; 0 is never
		ready          string        // what it is as soon as it is ready
	}{
		{"nothing", staged.Duration{}, staged.Duration{}, time.Minute, "soaking"},
		{"no deadline", staged.None(), staged.Duration{}, 0, "soaking"},
		{"another deadline", staged.For(2 * time.Minute), staged.Duration{}, 2 * time.Minute, "soaking"},
		{"no soak", staged.Duration{}, staged.For(0), time.Minute, "done"},
	} {
		stage := all("only", 1)
		stage.ProgressDeadline, stage.MinSuccessTime = row.deadline, row.soak
		strategy := staged.Strategy{Stages: []staged.Stage{stage}, ProgressDeadline: staged.For(time.Minute), MinSuccessTime: staged.For(time.Hour)}
		run, err := staged.Compile(strategy, benchSpec(), fleetOf("c1"), staged.Options{StuckAfter: staged.For(1000 * time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
		run, result := step(t, run, staged.Input{}, benchStart)
		if next := result.Next.Sub(benchStart); next != row.next && (row.next > 0 || next != 1000*time.Hour) {
			t.Errorf("%s: next in %v, want %v", row.why, next, row.next)
		}
		run, _ = step(t, run, staged.Input{Observations: acknowledge(result.Actions, staged.HealthReady)}, benchStart)
		if target, _ := run.Target("c1"); target.State.String() != row.ready {
			t.Errorf("%s: %s", row.why, target)
		}
	}
}

// TestNamesBesideStages: what holds for all stages is read and written under its name beside stages.
func TestNamesBesideStages(t *testing.T) {
	const text = `{"stages":[{"name":"a","labelSelector":{}}],"maxFailures":"5%","progressDeadline":"30m","minSuccessTime":"1m","deleteStage":{"beforeStageTasks":[{"type":"Approval"}]}}`
	want := staged.Strategy{
		Stages: []staged.Stage{{Name: "a", LabelSelector: &selector.LabelSelector{}}}, MaxFailures: concurrency.Percent(5),
		ProgressDeadline: staged.For(30 * time.Minute), MinSuccessTime: staged.For(time.Minute), DeleteStage: staged.DeleteStage{BeforeStageTasks: []staged.Task{{Type: staged.Approval}}},
	}
	var got staged.Strategy
	if err := json.Unmarshal([]byte(text), &got); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	if data, err := json.Marshal(want); err != nil || string(data) != text {
		t.Errorf("got %s, %v, want %s", data, err, text)
	}
}

// TestNothingIsRetained: what the caller does with its strategy later has no effect.
func TestNothingIsRetained(t *testing.T) {
	strategy := benchStrategy(concurrency.Count(1))
	strategy.Stages[0].LabelSelector.MatchExpressions = []selector.LabelRequirement{{Key: "ring", Operator: selector.In, Values: []string{"canary"}}}
	strategy.Stages[0].AfterStageTasks = []staged.Task{{Type: staged.Approval}}
	strategy.Stages = append(strategy.Stages, staged.Stage{Name: "last", Targets: []string{"d1"}, BeforeStageTasks: []staged.Task{{Type: staged.Approval}}})
	strategy.DeleteStage.BeforeStageTasks = []staged.Task{{Type: staged.Approval}}
	run, err := staged.Compile(strategy, benchSpec(), benchFleet(1000), staged.Options{Added: staged.Append})
	if err != nil {
		t.Fatal(err)
	}
	was := encode(t, run)
	strategy.DeleteStage.BeforeStageTasks[0].Type = "other"
	strategy.Stages[3].Targets[0] = "other"
	strategy.Stages[3].BeforeStageTasks[0].Type = "other"
	strategy.Stages[0].LabelSelector.MatchLabels["ring"] = "other"
	strategy.Stages[0].LabelSelector.MatchExpressions[0].Values[0] = "other"
	strategy.Stages[0].AfterStageTasks[0].Type = "other"
	strategy.Stages[1].Name = "other"
	if string(was) != string(encode(t, run)) {
		t.Error("the run changed with the strategy")
	}
}

// TestRulesOfUnreadableValues: what cannot even be read violates the rule of its field.
func TestRulesOfUnreadableValues(t *testing.T) {
	for _, row := range []struct {
		text string
		into json.Unmarshaler
		rule staged.Code
	}{
		{`{"progressive": {"maxFailures": "x"}}`, &staged.OCMStrategy{}, staged.CodeMaxFailures},
		{`{"progressive": {"maxConcurrency": "x"}}`, &staged.OCMStrategy{}, staged.CodeMaxConcurrency},
		{`{"progressive": {"minSuccessTime": 5}}`, &staged.OCMStrategy{}, staged.CodeDuration},
		{`{"progressivePerGroup": {"maxFailures": "x"}}`, &staged.OCMStrategy{}, staged.CodeMaxFailures},
		{`{"all": {"maxFailures": "x"}}`, &staged.OCMStrategy{}, staged.CodeMaxFailures},
		{`{"all": {"progressDeadline": 5}}`, &staged.OCMStrategy{}, staged.CodeDuration},
		{`{"maxFailures": "x"}`, &staged.Strategy{}, staged.CodeRunMaxFailures},
		{`{"stages": [{"maxFailures": "x"}]}`, &staged.Strategy{}, staged.CodeMaxFailures},
		{`{"stages": [{"maxConcurrency": "x"}]}`, &staged.Strategy{}, staged.CodeMaxConcurrency},
		{`{"stages": [{"beforeStageTasks": [{"type": "Approval", "waitTime": "x"}]}]}`, &staged.Strategy{}, staged.CodeBeforeWaitTime},
		{`{"stages": [{"afterStageTasks": [{"type": "TimedWait", "waitTime": "x"}]}]}`, &staged.Strategy{}, staged.CodeWaitTime},
		{`{"stages": [{"afterStageTasks": [{"type": 5}]}]}`, &staged.Strategy{}, staged.CodeType},
		{`{"stages": [{"labelSelector": {"matchLabels": 5}}]}`, &staged.Strategy{}, staged.CodeSelector},
		{`{"stages": [{"name": 5}]}`, &staged.Strategy{}, staged.CodeType},
		{`{"stages": [{"beforeStageTasks": [{"type": 5}]}]}`, &staged.Strategy{}, staged.CodeType},
		{`{"stages": [{"maxFailures": "0"}]}`, &staged.Strategy{}, staged.CodeMaxFailures}, // no percentage, and shorter than one with a 0 in front
		{`{"stages": [{"maxFailures": "05"}]}`, &staged.Strategy{}, staged.CodeMaxFailures},
		{`{"cleanup": {"maxConcurrency": "50"}}`, &staged.Options{}, staged.CodeType},
		{`{"cleanup": {"maxFailures": "x"}}`, &staged.Options{}, staged.CodeType},
		{`{"cleanup": {"progressDeadline": "1d"}}`, &staged.Options{}, staged.CodeType}, // no rule of a stage
		{`{"kind": 5, "spec": {"stages": []}}`, &staged.Strategy{}, staged.CodeType},
		{`{"metadata": {"namespace": []}, "spec": {"stages": []}}`, &staged.Strategy{}, staged.CodeType},
		{`{"rolloutTyp": "All"}`, &staged.OCMStrategy{}, staged.CodeUnknownField},
	} {
		faults := flatten(row.into.UnmarshalJSON([]byte(row.text)))
		if len(faults) != 1 || faults[0].Code != row.rule {
			t.Errorf("%s: got %v, want one fault of rule %s", row.text, faults, row.rule)
		}
	}
}

// TestFaultsAroundASpec: what is wrong around the spec of an object hides nothing that is wrong in it.
func TestFaultsAroundASpec(t *testing.T) {
	for _, row := range []struct {
		text string
		into json.Unmarshaler
		want string
	}{
		{`{"kind": 7, "metadata": {"name": 3, "namespace": []}, "spec": {"stat": "Run"}}`, &staged.Spec{}, `kind: must be a string, not 7: put it in quotes
metadata.name: must be a string, not 3: put it in quotes
metadata.namespace: must be a string, not a list
spec.stat: unknown field; did you mean "state"?`},
		{`{"metadata": [], "spec": {"stages": 5}}`, &staged.Strategy{}, `metadata: must be an object, not a list
spec.stages: must be a list, not a number`},
		// The spec of another kind has other fields.
		{`{"kind": "StagedUpdateRun", "metadata": [], "spec": {"state": "Run"}}`, &staged.Strategy{}, `kind: "StagedUpdateRun": must be "ClusterStagedUpdateStrategy" or "StagedUpdateStrategy"
metadata: must be an object, not a list`},
		// What kubectl writes of several objects: its fields are no faults beside that.
		{`{"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": [{"kind": "ClusterStagedUpdateStrategy"}]}`, &staged.Strategy{}, `kind: "List": must be "ClusterStagedUpdateStrategy" or "StagedUpdateStrategy": decode each item of a list by itself`},
		{`{"kind": "StagedUpdateRunList", "metadata": 7, "items": []}`, &staged.Spec{}, `kind: "StagedUpdateRunList": must be "ClusterStagedUpdateRun" or "StagedUpdateRun": decode each item of a list by itself`},
		// A spec alone makes an object: a manifest may come without all else.
		{`{"spec": {"stages": 5}}`, &staged.Strategy{}, `spec.stages: must be a list, not a number`},
		// The hint says where the field belongs.
		{`{"spec": {"stages": []}, "minSuccessTime": "1m"}`, &staged.Strategy{}, `minSuccessTime: unknown field: an object has apiVersion, kind, metadata, spec and status; all else is below spec`},
		{`{"metadata": {"name": 3}, "spec": null}`, &staged.Strategy{}, `spec: must be given: its fields belong below it
metadata.name: must be a string, not 3: put it in quotes`},
	} {
		if err := row.into.UnmarshalJSON([]byte(row.text)); err == nil || err.Error() != row.want {
			t.Errorf("%s: got\n%v\nwant\n%s", row.text, err, row.want)
		}
	}
}

// TestWaitsOfAnApproval: who meant a wait is told where it belongs, and who meant none is not.
func TestWaitsOfAnApproval(t *testing.T) {
	for _, row := range []struct{ task, want string }{
		{`{"type": "Approval", "waitTime": "1h"}`, `waitTime: "1h": must be left out for an Approval: add a TimedWait beside it`},
		{`{"type": "Approval", "waitTime": "0s"}`, `waitTime: "0": must be left out for an Approval`},
		{`{"type": "Approval", "waitTime": 0}`, `waitTime: "0": must be left out for an Approval`},
		{`{"type": "TimedWait", "waitTime": "0h0m"}`, `waitTime: "0": must be more than zero: where nothing waits, leave the task out`},
		{`{"type": "TimedWait"}`, "waitTime: must be given for a TimedWait, such as 1h"},
	} {
		var strategy staged.Strategy
		if err := strategy.UnmarshalJSON([]byte(`{"stages": [{"name": "a", "labelSelector": {}, "afterStageTasks": [` + row.task + `]}]}`)); err != nil {
			t.Fatal(err)
		}
		if err, want := strategy.Validate(), "stages[0].afterStageTasks[0]."+row.want; err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", row.task, err, want)
		}
	}
}

// TestNullIsAbsent: an optional field of KubeFleet's objects may be null, as Kubernetes accepts it;
// what must be given may not.
func TestNullIsAbsent(t *testing.T) {
	var strategy staged.Strategy
	if err := strategy.UnmarshalJSON([]byte(`{"apiVersion": null, "kind": null, "metadata": {"name": "s", "namespace": null}, "spec": {"stages": [{"name": "a", "labelSelector": {"matchLabels": null},
		"sortingLabelKey": null, "maxConcurrency": null, "beforeStageTasks": null, "afterStageTasks": [{"type": "Approval", "waitTime": null}]}]}, "status": null}`)); err != nil {
		t.Fatal(err)
	}
	if text, err := json.Marshal(strategy); err != nil || strategy.Name != "s" || string(text) != `{"stages":[{"name":"a","labelSelector":{},"afterStageTasks":[{"type":"Approval"}]}]}` {
		t.Errorf("%s, %v", text, err)
	}
	var spec staged.Spec
	if err := spec.UnmarshalJSON([]byte(`{"metadata": {"name": "r"}, "spec": {"placementName": "p", "resourceSnapshotIndex": null, "stagedRolloutStrategyName": "s", "state": null}}`)); err != nil {
		t.Fatal(err)
	}
	var want staged.Spec
	if err := want.UnmarshalJSON([]byte(`{"metadata": {"name": "r"}, "spec": {"placementName": "p", "stagedRolloutStrategyName": "s"}}`)); err != nil {
		t.Fatal(err)
	}
	if spec != want || spec.ResourceSnapshotIndex != "" || spec.State != "" || spec.Validate() != nil {
		t.Errorf("got %+v, want %+v", spec, want)
	}
	for _, row := range []struct {
		into json.Unmarshaler
		text string
		path string
	}{
		{&strategy, `{"stages": [{"name": null}]}`, "stages[0].name"},
		{&strategy, `{"stages": [{"name": "a", "afterStageTasks": [{"type": null}]}]}`, "stages[0].afterStageTasks[0].type"},
		{&spec, `{"placementName": null}`, "placementName"},
		{&spec, `{"stagedRolloutStrategyName": null}`, "stagedRolloutStrategyName"},
	} {
		if faults := flatten(row.into.UnmarshalJSON([]byte(row.text))); len(faults) != 1 || faults[0].Path != row.path || faults[0].Code != staged.CodeType {
			t.Errorf("%s: got %v", row.text, faults)
		}
	}
	err := strategy.UnmarshalJSON([]byte(`{"stages": [{"name": "a", "sortingLabelKye": "x", "sortingLabelKey": 3}]}`))
	if want := "stages[0].sortingLabelKye: unknown field; did you mean \"sortingLabelKey\"?\nstages[0].sortingLabelKey: must be a string, not 3: put it in quotes"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestRefusedDocuments: what is refused leaves what was there before, and null is nothing.
func TestRefusedDocuments(t *testing.T) {
	strategy, spec, options, ocm := benchStrategy(concurrency.Count(1)), benchSpec(), staged.Options{OnFailure: staged.Hold}, staged.OCMStrategy{Type: staged.OCMProgressive}
	run := *midRun(t)
	for _, text := range []string{`{"stages": [], "placementName": "q", "onFailure": "fail", "type": "All", "format": 2, "odd": 1}`, `{"spec": {"odd": 1}}`, `[]`, `null`} {
		for what, into := range map[string]json.Unmarshaler{"strategy": &strategy, "spec": &spec, "options": &options, "ocm": &ocm, "run": &run} {
			err := json.Unmarshal([]byte(text), into)
			if (err == nil) != (text == "null") || err != nil && len(flatten(err)) == 0 {
				t.Errorf("%s: %s: %v", what, text, err)
			}
		}
	}
	if was := benchStrategy(concurrency.Count(1)); !reflect.DeepEqual(strategy, was) || spec != benchSpec() || options.OnFailure != staged.Hold || ocm.Type != staged.OCMProgressive || run.String() != midRun(t).String() {
		t.Errorf("%+v %+v %+v %+v\n%s", strategy, spec, options, ocm, &run)
	}
}

// TestManyFaults: one mistake that is in each target of a fleet is listed a hundred times
// and then counted. All of them are joined.
func TestManyFaults(t *testing.T) {
	_, err := staged.Compile(benchStrategy(concurrency.Count(1)), benchSpec(), staged.Fleet{Targets: make([]staged.Target, 2000), Version: "v"}, staged.Options{})
	if got := strictjson.Parts(err); len(got) != 2001 {
		t.Fatalf("%d faults are joined", len(got))
	}
	if list := strings.Split(err.Error(), "\n"); len(list) != 101 || list[100] != "and 1901 more faults" {
		t.Errorf("the text has %d lines: %s", len(list), list[len(list)-1])
	}
}

// TestNextAPI: an object of rollout.kubefleet.dev/v1alpha1 is read, or the error says what to write
// instead.
func TestNextAPI(t *testing.T) {
	var strategy staged.Strategy
	if err := json.Unmarshal([]byte(`{"apiVersion": "rollout.kubefleet.dev/v1alpha1", "kind": "ClusterStagedUpdateStrategy", "metadata": {"name": "s", "namespace": "team"},
		"spec": {"stages": [{"name": "a", "labelSelector": {}, "maxConcurrency": "25%", "afterStageTasks": [{"type": "TimedWait", "waitTime": "1h30m"}]}]}}`), &strategy); err != nil {
		t.Error(err)
	}
	if strategy.Name != "s" || strategy.Namespace != "team" {
		t.Errorf("the names of the object are %q and %q", strategy.Name, strategy.Namespace)
	}
	var spec staged.Spec
	err := json.Unmarshal([]byte(`{"apiVersion": "rollout.kubefleet.dev/v1alpha1", "kind": "StagedUpdateRun", "metadata": {"name": "r"}, "spec": {"placementPolicyName": "p",
		"stagedUpdateStrategyName": "s", "resourceSnapshotName": "p-1", "suspended": true, "suspended": false, "failurePolicy": {"maxAllowedClusterFailures": 1}, "stat": "Run"}}`), &spec)
	const want = `spec.placementPolicyName: unknown field: write placementName
spec.stagedUpdateStrategyName: unknown field: write stagedRolloutStrategyName
spec.resourceSnapshotName: unknown field: leave it out, and give the snapshot's name to Compile as the version of the fleet
spec.suspended: unknown field: write state: Run for false; for true Initialize if the run is new, else Stop
spec.suspended: given twice
spec.failurePolicy: unknown field: write maxFailures and progressDeadline in the strategy
spec.stat: unknown field; did you mean "state"?`
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
