package partition_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/internal/golden"
	"github.com/tranche-dev/tranche/internal/testkit"
	"github.com/tranche-dev/tranche/partition"
	"github.com/tranche-dev/tranche/selector"
)

// faultsOf returns "kind path" of every fault of an error; a fault without type is its text.
func faultsOf(err error) (list []string) {
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range joined.Unwrap() {
			list = append(list, faultsOf(one)...)
		}
		return list
	}
	var fault *partition.FieldError
	if !errors.As(err, &fault) {
		return []string{"untyped: " + err.Error()}
	}
	if fault.Hint == "" || !strings.Contains(fault.Error(), fault.Hint) {
		list = append(list, "no remedy: "+fault.Error())
	}
	return append(list, string(fault.Code)+" "+fault.Path)
}

// TestDecode: a rolloutStrategy decodes as it is, and what does not is refused with all faults and
// their paths.
func TestDecode(t *testing.T) {
	said := ""
	for _, row := range []struct {
		in, why string
		want    []string
	}{
		{`{}`, "everything has a default", nil},
		{`null`, "no strategy is the default one", nil},
		{`{"maxUnavailable": null, "maxNew": null, "autoPartitionThreshold": null, "partitions": null}`, "null is absent", nil},
		{`{"partitions": []}`, "no partitions", nil},
		{`{"partitions": [{"name": null, "clusterName": null, "clusterGroup": null, "clusterSelector": null, "clusterGroupSelector": null, "maxUnavailable": null}]}`, "null is absent in a partition, too", nil},
		{`{"partitions": [{"clusterSelector": {"matchLabels": null, "matchExpressions": null}}]}`, "and in a selector", nil},
		{`{"maxUnavailable": -2147483648, "maxUnavailablePartitions": 2147483647, "autoPartitionSize": "25%"}`, "the ends of int32", nil},
		{`{"maxUnavailable": 2147483648}`, "more than int32", []string{"type maxUnavailable"}},
		{`{"maxUnavailable": 1.5}`, "a fraction", []string{"type maxUnavailable"}},
		{`{"maxUnavailable": 1e1}`, "an exponent", []string{"type maxUnavailable"}},
		{`{"maxUnavailable": true}`, "a bool", []string{"type maxUnavailable"}},
		{`{"maxUnavailable": [5]}`, "a list", []string{"type maxUnavailable"}},
		{`{"maxNew": "5"}`, "an int inside a string where there is no int or string", []string{"type maxNew"}},
		{`{"autoPartitionThreshold": 1.5}`, "a fraction of a cluster", []string{"type autoPartitionThreshold"}},
		{`{"maxUnavailble": "10%"}`, "a misspelt limit must not become no limit", []string{"unknown_field maxUnavailble"}},
		{`{"MaxUnavailable": "10%"}`, "names are exact", []string{"unknown_field MaxUnavailable"}},
		{`{"maxNew": 1, "maxNew": 2}`, "a field given twice", []string{"duplicate maxNew"}},
		{`{"partitions": [null]}`, "null is not a partition", []string{"type partitions[0]"}},
		{`{"partitions": {}}`, "an object for a list", []string{"type partitions"}},
		{`{"maxUnavailable": 1.5, "partitions": [{}, {"maxUnavailable": false, "selector": {}, "clusterName": 5}]}`, "all faults are reported",
			[]string{"type maxUnavailable", "type partitions[1].maxUnavailable", "unknown_field partitions[1].selector", "type partitions[1].clusterName"}},
		{`{"partitions": [{"clusterSelector": {"matchLabel": {}}}, {"clusterGroupSelector": {"matchExpressions": [{"key": 1}]}}]}`, "inside selectors as well",
			[]string{"unknown_field partitions[0].clusterSelector.matchLabel", "type partitions[1].clusterGroupSelector.matchExpressions[0].key"}},
		{`[]`, "no object", []string{"type "}},
	} {
		s := partition.Strategy{MaxNew: count(7)}
		err := json.Unmarshal([]byte(row.in), &s)
		if got := faultsOf(err); !slices.Equal(got, row.want) {
			t.Errorf("%s: %s: got %q, want %q", row.why, row.in, got, row.want)
		}
		if err != nil && (s.MaxNew == nil || *s.MaxNew != 7) {
			t.Errorf("%s: a refused document changed the strategy", row.in)
		}
		if err != nil {
			said += fmt.Sprintf("%s\n\t%s\n", row.in, strings.ReplaceAll(err.Error(), "\n", "\n\t"))
		}
	}
	golden.Check(t, "decode.txt", said)
	if err := (&partition.Strategy{}).UnmarshalJSON([]byte(`{`)); err == nil {
		t.Error("a broken document is accepted")
	}
}

// TestReferenceOfFleetYAML: the two forms of clusterGroupSelector that Fleet's reference of
// fleet.yaml shows, and Fleet has not.
func TestReferenceOfFleetYAML(t *testing.T) {
	for _, row := range []struct{ in, want string }{
		{`"agroup"`, "partitions[0].clusterGroupSelector: must be an object, not a string: write the name of a group as clusterGroup, and its labels as matchLabels below this field"},
		{`{"clusterSelector": {"matchLabels": {"env": "prod"}}}`, "partitions[0].clusterGroupSelector.clusterSelector: unknown field: move what is below it one level up"},
	} {
		var s partition.Strategy
		if err := json.Unmarshal([]byte(`{"partitions": [{"name": "canary", "clusterGroupSelector": `+row.in+`}]}`), &s); err == nil || err.Error() != row.want {
			t.Errorf("%s: got %v, want %s", row.in, err, row.want)
		}
	}
}

// TestLabelsWithoutMatchLabels: what Fleet takes for the selector of every cluster gets an error
// that says where labels stand.
func TestLabelsWithoutMatchLabels(t *testing.T) {
	for _, row := range []struct{ in, want, why string }{
		{`"clusterSelector": {"env": "prod"}`, "partitions[0].clusterSelector.env: unknown field: labels stand below matchLabels", "the usual mistake"},
		{`"clusterGroupSelector": {"example.com/tier": "gold"}`, `partitions[0].clusterGroupSelector["example.com/tier"]: unknown field: labels stand below matchLabels`, "of groups, and with a prefix"},
		{`"clusterSelector": {"matchLabel": {}}`, `partitions[0].clusterSelector.matchLabel: unknown field; did you mean "matchLabels"?`, "a misspelt field is no label"},
		{`"clusterSelector": {"matchExpressions": [{"wert": "x"}]}`, "partitions[0].clusterSelector.matchExpressions[0].wert: unknown field", "deeper down there are no labels"},
		{`"zone": {}`, "partitions[0].zone: unknown field", "nor beside the selector"},
	} {
		var s partition.Strategy
		if err := json.Unmarshal([]byte(`{"partitions": [{`+row.in+`}]}`), &s); err == nil || err.Error() != row.want {
			t.Errorf("%s: got %v, want %s: %s", row.in, err, row.want, row.why)
		}
	}
}

// TestClusterGroupsStandForClusterGroup: who writes the name of a group as clusterGroups is not told
// to write it as clusterGroupSelector, which is refused next.
func TestClusterGroupsStandForClusterGroup(t *testing.T) {
	var s partition.Strategy
	const want = `partitions[0].clusterGroups: unknown field; did you mean "clusterGroup"?`
	if err := json.Unmarshal([]byte(`{"partitions": [{"clusterGroups": "edge"}]}`), &s); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestIndentedTooFar: a field of a partition that stands inside its selector is no label. Below
// matchLabels, where labels stand, a limit would be accepted and limit nothing.
func TestIndentedTooFar(t *testing.T) {
	for _, row := range []struct{ in, want, why string }{
		{`"clusterSelector": {"matchLabels": {"env": "prod"}, "maxUnavailable": 1}`, `partitions[0].clusterSelector.maxUnavailable: unknown field; it stands beside "clusterSelector"`, "a limit"},
		{`"clusterGroupSelector": {"maxUnavailable": "10%"}`, `partitions[0].clusterGroupSelector.maxUnavailable: unknown field; it stands beside "clusterGroupSelector"`, "of a partition of groups"},
		{`"clusterSelector": {"clusterName": "a"}`, `partitions[0].clusterSelector.clusterName: unknown field; it stands beside "clusterSelector"`, "another criterion"},
		{`"clusterGroupSelector": {"clusterGroup": "a"}`, `partitions[0].clusterGroupSelector.clusterGroup: unknown field; it stands beside "clusterGroupSelector"`, "of groups"},
		{`"clusterSelector": {"clusterGroupSelector": {}}`, `partitions[0].clusterSelector.clusterGroupSelector: unknown field; it stands beside "clusterSelector"`, "the other selector"},
		{`"clusterSelector": {"clusterSelector": {}}`, "partitions[0].clusterSelector.clusterSelector: unknown field: move what is below it one level up", "the same selector"},
		{`"clusterSelector": {"clusterName": "a", "clusterName": "b"}`, "partitions[0].clusterSelector.clusterName: unknown field; it stands beside \"clusterSelector\"\npartitions[0].clusterSelector.clusterName: given twice", "that it is there twice is another fault, in any place"},
		{`"clusterSelector": {"name": "a"}`, "partitions[0].clusterSelector.name: unknown field: labels stand below matchLabels", "name is a usual label"},
		{`"clusterSelector": {"matchExpressions": [{"clusterName": "a"}]}`, "partitions[0].clusterSelector.matchExpressions[0].clusterName: unknown field", "two levels too far: it is not clear what is meant"},
	} {
		var s partition.Strategy
		if err := json.Unmarshal([]byte(`{"partitions": [{`+row.in+`}]}`), &s); err == nil || err.Error() != row.want {
			t.Errorf("%s: got %v, want %s: %s", row.in, err, row.want, row.why)
		}
	}
}

// TestOneLevelOff: a partition names the place of what stands one level too deep in it, or too high,
// as other objects do.
func TestOneLevelOff(t *testing.T) {
	for _, row := range []struct{ in, want, why string }{
		{`"maxUnavailablePartitions": 1`, `partitions[0].maxUnavailablePartitions: unknown field; it stands beside "partitions"`, "a limit of all partitions"},
		{`"autoPartitionSize": 1, "autoPartitionThreshold": 1`, "partitions[0].autoPartitionSize: unknown field; it stands beside \"partitions\"\npartitions[0].autoPartitionThreshold: unknown field; it stands beside \"partitions\"", "of automatic partitions"},
		{`"maxNew": 5`, `partitions[0].maxNew: unknown field; it stands beside "partitions"`, "one batch for all"},
		{`"matchLabels": {"env": "prod"}`, "partitions[0].matchLabels: unknown field; it stands below clusterSelector or clusterGroupSelector", "a selector without its name"},
		{`"matchExpressions": []`, "partitions[0].matchExpressions: unknown field; it stands below clusterSelector or clusterGroupSelector", "the other half of one"},
		{`"partitions": []`, "partitions[0].partitions: unknown field", "partitions have no partitions"},
		{`"maxNew": 5, "maxNew": 6`, "partitions[0].maxNew: unknown field; it stands beside \"partitions\"\npartitions[0].maxNew: given twice", "that it is there twice is another fault, in any place"},
		{`"matchLabels": {}, "matchLabels": {}`, "partitions[0].matchLabels: unknown field; it stands below clusterSelector or clusterGroupSelector\npartitions[0].matchLabels: given twice", "and so is it of labels"},
		{`"clusterGroupSelector": {}, "clusterGroupSelector": {}`, "partitions[0].clusterGroupSelector: given twice", "each of them is a selector: nothing is said of the name of a group"},
		{`"clusterGroupSelector": {"clusterSelector": {}, "clusterSelector": {}}`, "partitions[0].clusterGroupSelector.clusterSelector: unknown field: move what is below it one level up\npartitions[0].clusterGroupSelector.clusterSelector: given twice", "what is said once is not said twice"},
	} {
		var s partition.Strategy
		if err := json.Unmarshal([]byte(`{"partitions": [{`+row.in+`}]}`), &s); err == nil || err.Error() != row.want {
			t.Errorf("%s: got %v, want %s: %s", row.in, err, row.want, row.why)
		}
	}
}

// TestNeighboursOfTheStrategy: what a fleet.yaml has beside its rolloutStrategy has its place there,
// as where the indentation of YAML is wrong.
func TestNeighboursOfTheStrategy(t *testing.T) {
	for _, row := range []struct{ in, want, why string }{
		{`"paused": true`, `paused: unknown field; it stands beside "rolloutStrategy"`, "the bundle is paused, not its strategy"},
		{`"helm": {}, "targetCustomizations": []`, "helm: unknown field; it stands beside \"rolloutStrategy\"\ntargetCustomizations: unknown field; it stands beside \"rolloutStrategy\"", "each is told its place"},
		{`"name": "app", "targets": []`, "name: unknown field; it stands beside \"rolloutStrategy\"\ntargets: unknown field; it stands beside \"rolloutStrategy\"", "what a bundle is called and where it goes"},
		{`"spec": {"rolloutStrategy": {}}`, "spec: unknown field: decode what is below rolloutStrategy in it", "a whole Bundle"},
		{`"partitions": [{"spec": {}}]`, "partitions[0].spec: unknown field", "only at the top is it a Bundle's"},
		{`"partitions": [{"paused": true}]`, "partitions[0].paused: unknown field", "a level further down it may be anything"},
		{`"paused": true, "rolloutStrategy": {}`, "paused: unknown field\nrolloutStrategy: unknown field: decode what is below it", "in a whole fleet.yaml it is where it belongs"},
		{`"pause": true`, "pause: unknown field", "no field has this name"},
		{`"spec": {}, "spec": {}`, "spec: unknown field: decode what is below rolloutStrategy in it\nspec: given twice", "and so is it of what is around it"},
		{`"paused": true, "paused": true`, "paused: unknown field; it stands beside \"rolloutStrategy\"\npaused: given twice", "that it is there twice is another fault, in any place"},
	} {
		var s partition.Strategy
		if err := json.Unmarshal([]byte(`{`+row.in+`}`), &s); err == nil || err.Error() != row.want {
			t.Errorf("%s: got %v, want %s: %s", row.in, err, row.want, row.why)
		}
	}
}

// TestWholeFleetYAML: somebody who decodes a whole fleet.yaml is told where the strategy begins.
func TestWholeFleetYAML(t *testing.T) {
	var s partition.Strategy
	err := json.Unmarshal([]byte(`{"defaultNamespace": "app", "rolloutStrategy": {"maxUnavailable": 1}}`), &s)
	if err == nil || !strings.Contains(err.Error(), "rolloutStrategy: unknown field: decode what is below it") {
		t.Errorf("got %v", err)
	}
}

// TestDecodeFields: every field of fleet.yaml arrives, and is written as it was.
func TestDecodeFields(t *testing.T) {
	const text = `{"maxUnavailable":"10%","maxUnavailablePartitions":1,"autoPartitionSize":"25%","autoPartitionThreshold":0,"maxNew":7,"partitions":[` +
		`{"name":"p","maxUnavailable":0,"clusterName":"c","clusterSelector":{"matchLabels":{"env":"prod"}},"clusterGroup":"g",` +
		`"clusterGroupSelector":{"matchExpressions":[{"key":"tier","operator":"In","values":["a"]},{"key":"x","operator":"Exists"}]}},{"clusterSelector":{}}]}`
	want := partition.Strategy{
		MaxUnavailable: partition.FromString("10%"), MaxUnavailablePartitions: partition.FromInt(1), AutoPartitionSize: partition.FromString("25%"),
		AutoPartitionThreshold: count(0), MaxNew: count(7),
		Partitions: []partition.Definition{{
			Name: "p", MaxUnavailable: partition.FromInt(0), ClusterName: "c", ClusterGroup: "g",
			ClusterSelector: &selector.LabelSelector{MatchLabels: map[string]string{"env": "prod"}},
			ClusterGroupSelector: &selector.LabelSelector{MatchExpressions: []selector.LabelRequirement{
				{Key: "tier", Operator: selector.In, Values: []string{"a"}}, {Key: "x", Operator: selector.Exists}}},
		}, {ClusterSelector: &selector.LabelSelector{}}},
	}
	var got partition.Strategy
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	back, err := json.Marshal(got)
	if err != nil || string(back) != text {
		t.Errorf("got %s, %v, want %s", back, err, text)
	}
	if data, err := json.Marshal(partition.IntOrString{}); err != nil || string(data) != "null" {
		t.Errorf("an absent limit is written as %s, %v", data, err)
	}
	if !(partition.IntOrString{}).IsZero() || partition.FromInt(0).IsZero() || partition.FromString("").IsZero() {
		t.Error("IsZero mistakes a value for none, or none for a value")
	}
	for _, text := range []string{"10%", "", "a\x01\x7f", "\u00e9 <&> \u2028", `"\`, "null"} { // whatever was written is a value, a wrong one as well
		limit, back := partition.FromString(text), partition.FromInt(7)
		data, err := json.Marshal(limit)
		if err == nil {
			err = json.Unmarshal(data, &back)
		}
		if err != nil || back != limit {
			t.Errorf("%q is written as %s and comes back as %v: %v", text, data, back, err)
		}
	}
	if v := partition.FromInt(7); v.UnmarshalJSON([]byte("null")) != nil || !v.IsZero() {
		t.Errorf("null is absent, and not what was there before: %v", v)
	}
	var v partition.IntOrString
	for _, bad := range []string{`"\x"`, `+1`, `-`, ``} {
		if err := v.UnmarshalJSON([]byte(bad)); err == nil {
			t.Errorf("%q is accepted as %v", bad, v)
		}
	}
}

// TestBadInput: what a well-formed value means is checked, in the default mode completely and at
// once, in the mode FleetController as far as Fleet's controller would see it.
func TestBadInput(t *testing.T) {
	text := partition.FromString
	def := func(d partition.Definition) partition.Strategy {
		return partition.Strategy{Partitions: []partition.Definition{{ClusterSelector: &selector.LabelSelector{}}, d}}
	}
	near := &selector.LabelSelector{MatchExpressions: []selector.LabelRequirement{{Key: "e", Operator: "Near"}, {Key: "f", Operator: selector.In}}}
	said := ""
	for _, row := range []struct {
		why                 string
		strategy            partition.Strategy
		options             partition.Options
		clusters            int
		fallback, onFleet   []string // faults in the default mode and in the other
		warnings            []string
		validateSaysNothing bool
	}{
		{why: "no percentage", strategy: partition.Strategy{MaxUnavailable: text("abc")}, clusters: 1, fallback: []string{"limit_format maxUnavailable"}, onFleet: []string{"limit_format maxUnavailable"}},
		{why: "a word before %", strategy: partition.Strategy{MaxUnavailable: text("abc%")}, clusters: 1, fallback: []string{"limit_number maxUnavailable"}, onFleet: []string{"limit_number maxUnavailable"}},
		{why: "the controller takes a negative percentage for 1", strategy: partition.Strategy{MaxUnavailable: text("-10%")}, clusters: 1, fallback: []string{"limit_number maxUnavailable"}},
		{why: "the controller takes NaN for 1", strategy: partition.Strategy{MaxUnavailable: text("NaN%")}, clusters: 1, fallback: []string{"limit_number maxUnavailable"}},
		{why: "a negative int is 0 in both", strategy: partition.Strategy{MaxUnavailable: partition.FromInt(-3)}, clusters: 1, warnings: []string{"clamped maxUnavailable"}},
		{why: "ten digits", strategy: partition.Strategy{MaxUnavailable: text("0000000010%")}, clusters: 1, fallback: []string{"limit_number maxUnavailable"}},
		{why: "an empty text is a value", strategy: partition.Strategy{MaxUnavailablePartitions: text("")}, clusters: 1, fallback: []string{"limit_format maxUnavailablePartitions"}, onFleet: []string{"limit_format maxUnavailablePartitions"}},
		{why: "without a cluster the controller sees nothing", strategy: partition.Strategy{MaxUnavailable: text("abc")}, fallback: []string{"limit_format maxUnavailable"}},
		{why: "a batch of none", strategy: partition.Strategy{MaxNew: count(0)}, clusters: 1, fallback: []string{"value maxNew"}},
		{why: "a negative batch", strategy: partition.Strategy{MaxNew: count(-5)}, clusters: 1, fallback: []string{"value maxNew"}},
		{why: "every fault at once; the controller meets the limit over all first", clusters: 1,
			strategy: partition.Strategy{MaxUnavailable: text("5 %"), MaxUnavailablePartitions: text("-1"), MaxNew: count(0), Partitions: []partition.Definition{{MaxUnavailable: text("10%%"), ClusterSelector: near, ClusterGroupSelector: near}}},
			fallback: []string{"limit_number maxUnavailable", "limit_format maxUnavailablePartitions", "value maxNew", "limit_number partitions[0].maxUnavailable",
				"selector partitions[0].clusterSelector.matchExpressions[0].operator", "selector partitions[0].clusterSelector.matchExpressions[1].values", "selector partitions[0].clusterGroupSelector.matchExpressions[0].operator", "selector partitions[0].clusterGroupSelector.matchExpressions[1].values"},
			onFleet: []string{"limit_number maxUnavailable"}},
		{why: "an unknown operator", strategy: def(partition.Definition{ClusterSelector: &selector.LabelSelector{MatchExpressions: near.MatchExpressions[:1]}}), clusters: 1,
			fallback: []string{"selector partitions[1].clusterSelector.matchExpressions[0].operator"}, onFleet: []string{"selector partitions[1].clusterSelector.matchExpressions[0].operator"}},
		{why: "the controller reads the selector for groups first, and stops at its first fault", clusters: 1,
			strategy: def(partition.Definition{ClusterSelector: near, ClusterGroupSelector: near, MaxUnavailable: text("x")}),
			fallback: []string{"limit_format partitions[1].maxUnavailable", "selector partitions[1].clusterSelector.matchExpressions[0].operator", "selector partitions[1].clusterSelector.matchExpressions[1].values", "selector partitions[1].clusterGroupSelector.matchExpressions[0].operator", "selector partitions[1].clusterGroupSelector.matchExpressions[1].values"},
			onFleet:  []string{"selector partitions[1].clusterGroupSelector.matchExpressions[0].operator"}},
		{why: "then the one for clusters, and stops there, too", clusters: 1,
			strategy: def(partition.Definition{ClusterSelector: near, ClusterGroupSelector: &selector.LabelSelector{}, MaxUnavailable: text("x")}),
			fallback: []string{"limit_format partitions[1].maxUnavailable", "selector partitions[1].clusterSelector.matchExpressions[0].operator", "selector partitions[1].clusterSelector.matchExpressions[1].values"},
			onFleet:  []string{"selector partitions[1].clusterSelector.matchExpressions[0].operator"}},
		{why: "a partition's limit, met before the selector of the next", clusters: 1,
			strategy: partition.Strategy{Partitions: []partition.Definition{{MaxUnavailable: text("x"), ClusterSelector: &selector.LabelSelector{}}, {ClusterGroupSelector: near}}},
			fallback: []string{"limit_format partitions[0].maxUnavailable", "selector partitions[1].clusterGroupSelector.matchExpressions[0].operator", "selector partitions[1].clusterGroupSelector.matchExpressions[1].values"},
			onFleet:  []string{"limit_format partitions[0].maxUnavailable"}},
		{why: "the limit of partitions is met last", clusters: 1,
			strategy: partition.Strategy{MaxUnavailablePartitions: text("-1"), Partitions: []partition.Definition{{MaxUnavailable: text("x"), ClusterSelector: &selector.LabelSelector{}}}},
			fallback: []string{"limit_format maxUnavailablePartitions", "limit_format partitions[0].maxUnavailable"},
			onFleet:  []string{"limit_format partitions[0].maxUnavailable"}},
		{why: "the controller does not read the limit of an empty partition", strategy: def(partition.Definition{ClusterName: "nobody", MaxUnavailable: text("x")}), clusters: 1,
			fallback: []string{"limit_format partitions[1].maxUnavailable"}},
		{why: "an automatic size is not looked at beside manual partitions", strategy: partition.Strategy{AutoPartitionSize: text("x"), AutoPartitionThreshold: count(5), Partitions: []partition.Definition{{ClusterSelector: &selector.LabelSelector{}}}},
			clusters: 1, warnings: []string{"ignored_field autoPartitionSize", "ignored_field autoPartitionThreshold"}},
		{why: "unless leftovers are appended", strategy: partition.Strategy{AutoPartitionSize: text("x"), AutoPartitionThreshold: count(5), Partitions: []partition.Definition{{ClusterSelector: &selector.LabelSelector{}}}},
			options: partition.Options{Leftovers: partition.AppendLeftovers}, clusters: 1, fallback: []string{"limit_format autoPartitionSize"}, validateSaysNothing: true},
		{why: "then it has a meaning", strategy: partition.Strategy{AutoPartitionSize: text("10%"), AutoPartitionThreshold: count(5), Partitions: []partition.Definition{{ClusterSelector: &selector.LabelSelector{}}}},
			options: partition.Options{Leftovers: partition.AppendLeftovers}, clusters: 1},
		{why: "a partition without criterion", strategy: def(partition.Definition{Name: "typo"}), clusters: 1, warnings: []string{"no_criterion partitions[1]"}},
		{why: "a group is a criterion", strategy: def(partition.Definition{ClusterGroup: "g"}), clusters: 1, warnings: []string{"no_member partitions[1]"}},
		{why: "so are the labels of one", strategy: def(partition.Definition{ClusterGroupSelector: &selector.LabelSelector{}}), clusters: 1, warnings: []string{"no_member partitions[1]"}},
		{why: "a misspelt label leaves its clusters to the partitions behind", strategy: def(partition.Definition{ClusterSelector: &selector.LabelSelector{MatchLabels: map[string]string{"env": "canray"}}}), clusters: 1,
			warnings: []string{"no_member partitions[1]"}},
		{why: "a group is a criterion, and of no clusters nobody can be a member", strategy: def(partition.Definition{ClusterGroup: "g"})},
		{why: "nor of a partition without criterion, now or later", strategy: def(partition.Definition{Name: "typo"}), warnings: []string{"no_criterion partitions[1]"}},
		{why: "a gate that nothing can close", strategy: partition.Strategy{MaxUnavailablePartitions: partition.FromInt(0)}, clusters: 1, warnings: []string{"gate_without_effect maxUnavailablePartitions"}},
		{why: "no gate has an effect on no clusters", strategy: partition.Strategy{MaxUnavailablePartitions: partition.FromInt(0)}},
		{why: "a gate that something can close", strategy: partition.Strategy{MaxUnavailablePartitions: partition.FromInt(0), MaxUnavailable: partition.FromInt(0)}, clusters: 1},
		{why: "names of partitions may be repeated", strategy: partition.Strategy{Partitions: []partition.Definition{{Name: "p", ClusterSelector: &selector.LabelSelector{}}, {Name: "p", ClusterName: "c000000"}}}, clusters: 1},
	} {
		for _, mode := range modes() {
			want, options := row.fallback, row.options
			if options.Mode = mode; mode == partition.FleetController {
				want = row.onFleet
			}
			plan, err := partition.Plan(row.strategy, fleetOf(row.clusters, fresh()), options)
			if got := faultsOf(err); !slices.Equal(got, want) {
				t.Errorf("%s, %s: got %q, want %q", row.why, mode, got, want)
			}
			if err != nil {
				said += fmt.Sprintf("%s, %s\n\t%s\n", row.why, mode, strings.ReplaceAll(err.Error(), "\n", "\n\t"))
			}
			if mode == partition.FleetController {
				if len(plan.Warnings) > 0 {
					t.Errorf("%s: warnings of a mode that has none: %v", row.why, plan.Warnings)
				}
				continue
			}
			if got := faultsOf(row.strategy.Validate()); !row.validateSaysNothing && !slices.Equal(got, want) || row.validateSaysNothing && got != nil {
				t.Errorf("%s: Validate: got %q, want %q", row.why, got, want)
			}
			var warnings []string
			for _, w := range plan.Warnings {
				warnings = append(warnings, string(w.Code)+" "+w.Path)
				if !strings.Contains(w.String(), w.Text) || w.Text == "" {
					t.Errorf("%s: %q", row.why, w)
				}
			}
			if !slices.Equal(warnings, row.warnings) {
				t.Errorf("%s: got the warnings %q, want %q", row.why, warnings, row.warnings)
			}
		}
	}
	golden.Check(t, "faults.txt", said)
}

// TestLimitWarnings: a limit that does something else than it says is told, and none that does
// what it says.
func TestLimitWarnings(t *testing.T) {
	const idle = `: one batch of 50 releases all members: lower maxNew, or for updates choose releases: "budget" (limit_without_effect)`
	const behind = ": all its clusters are in earlier partitions as well, which have their turns first: move it before them, or leave its clusters out of them (no_own_member)"
	for _, row := range []struct {
		strategy string
		clusters int
		options  partition.Options
		want     []string
		why      string
	}{
		{strategy: `{"maxUnavailable": "10%"}`, clusters: 50, want: []string{"maxUnavailable" + idle}, why: "5 at a time are expected, and 50 come at once"},
		{strategy: `{"maxUnavailable": 0}`, clusters: 50, want: []string{"maxUnavailable" + idle}, why: "a limit of 0 promises most"},
		{strategy: `{"maxUnavailable": "10%"}`, clusters: 51, why: "the second batch waits"},
		{strategy: `{"maxUnavailable": "10%", "maxNew": 49}`, clusters: 50, why: "the remedy"},
		{strategy: `{"maxUnavailable": "10%"}`, clusters: 50, options: partition.Options{MaxPerStep: count(49)}, why: "a step does not release all, so the next one waits"},
		{strategy: `{"maxUnavailable": "10%"}`, clusters: 50, options: partition.Options{MaxPerStep: count(50)}, want: []string{"maxUnavailable" + idle}, why: "a step releases all"},
		{strategy: `{"maxUnavailable": 0, "maxUnavailablePartitions": 2, "partitions": [{"clusterName": "c000000"}, {"clusterSelector": {}}]}`, clusters: 9, why: "the first partition releases a member of the second, which then waits"},
		{strategy: `{"maxUnavailable": "10%"}`, clusters: 50, options: partition.Options{Releases: partition.ByBudget}, why: "the other remedy"},
		{strategy: `{}`, clusters: 50, why: "nobody expects an effect of what nobody wrote"},
		{strategy: `{"maxUnavailable": "100%"}`, clusters: 50, why: "no limit is what it says"},
		{strategy: `{"maxUnavailable": 50}`, clusters: 50, why: "nor is this one"},
		{strategy: `{"maxUnavailable": 49}`, clusters: 50, want: []string{"maxUnavailable" + idle}, why: "this one is"},
		{strategy: `{"maxUnavailable": 0}`, clusters: 1, why: "one cluster cannot be divided"},
		{strategy: `{"maxUnavailable": "10%"}`, why: "nor can none"},
		{strategy: `{"maxUnavailable": 0, "partitions": [{"clusterName": "c000000"}, {"clusterName": "c000001"}]}`, clusters: 2, why: "one after the other"},
		{strategy: `{"maxUnavailable": 0, "autoPartitionThreshold": 1, "autoPartitionSize": "50%"}`, clusters: 100, why: "the second partition waits for the first"},
		{strategy: `{"maxUnavailable": 0, "maxUnavailablePartitions": 1, "autoPartitionThreshold": 1, "autoPartitionSize": "50%"}`, clusters: 100, want: []string{"maxUnavailable" + idle}, why: "the second partition never waits for the first"},
		{strategy: `{"maxUnavailable": 0, "maxUnavailablePartitions": 1, "autoPartitionThreshold": 1, "autoPartitionSize": 33}`, clusters: 99, why: "the third one waits for one of them"},
		{strategy: `{"maxUnavailable": 0, "maxUnavailablePartitions": 1, "autoPartitionThreshold": 1, "autoPartitionSize": 60}`, clusters: 99, why: "the second batch of the first one waits"},
		{strategy: `{"maxUnavailable": 0, "partitions": [{"clusterSelector": {}}, {"clusterName": "nobody"}]}`, clusters: 9, want: []string{"maxUnavailable" + idle, "partitions[1]: no cluster matches, so the rollout passes this partition at once: check its criteria (no_member)"}, why: "nobody is in the partition that would wait"},
		{strategy: `{"partitions": [{"clusterName": "nobody"}, {"clusterSelector": {}, "maxUnavailable": 0}, {"clusterName": "nobody"}]}`, clusters: 9, want: []string{"partitions[0]: no cluster matches, so the rollout passes this partition at once: check its criteria (no_member)", "partitions[1].maxUnavailable" + idle, "partitions[2]: no cluster matches, so the rollout passes this partition at once: check its criteria (no_member)"}, why: "a partition's own limit"},
		{strategy: `{"maxUnavailable": 1, "partitions": [{"clusterSelector": {}, "maxUnavailable": "100%"}]}`, clusters: 9, why: "no partition has the strategy's limit"},
		{strategy: `{"maxUnavailable": 0, "partitions": [{"clusterName": "c000000"}]}`, clusters: 9, options: partition.Options{Leftovers: partition.AppendLeftovers}, why: "the leftovers wait"},
		{strategy: `{"maxUnavailable": 0, "partitions": [{"clusterName": "c000000", "maxUnavailable": 1}]}`, clusters: 9, options: partition.Options{Leftovers: partition.AppendLeftovers}, want: []string{"maxUnavailable" + idle}, why: "the leftovers have the strategy's limit, and are the last"},

		{strategy: `{"maxUnavailable": -1, "maxUnavailablePartitions": -1, "partitions": [{"clusterSelector": {}, "maxUnavailable": -1}]}`, clusters: 1, want: []string{"maxUnavailable: counts as 0 (clamped)", "maxUnavailablePartitions: counts as 0 (clamped)", "partitions[0].maxUnavailable: counts as 0 (clamped)"}, why: "-1 does not mean no limit"},
		{strategy: `{"maxUnavailable": "120%", "maxUnavailablePartitions": "100.01%", "autoPartitionSize": "+101%"}`, want: []string{`maxUnavailable: counts as "100%" (clamped)`, `maxUnavailablePartitions: counts as "100%" (clamped)`, `autoPartitionSize: counts as "100%" (clamped)`}, why: "no part is larger than all; it does not depend on the clusters"},
		{strategy: `{"maxUnavailable": "100.00%", "maxUnavailablePartitions": 0, "autoPartitionSize": "100%"}`, why: "the largest percentage, and the smallest int"},
		{strategy: `{"maxUnavailable": 500, "autoPartitionSize": "500"}`, clusters: 1, why: "the fleet may grow"},
		{strategy: `{"partitions": [{"clusterSelector": {}}, {"clusterName": "c000003"}]}`, clusters: 9, want: []string{"partitions[1]" + behind}, why: "the canary comes after everybody"},
		{strategy: `{"partitions": [{"clusterName": "c000000"}, {"clusterName": "c000001"}, {"clusterName": "c000001"}]}`, clusters: 9, want: []string{"partitions[2]" + behind}, why: "the same twice"},
		{strategy: `{"partitions": [{"clusterName": "c000000"}, {"clusterName": "c000001"}, {"clusterSelector": {}}]}`, clusters: 2, why: "a last one of all clusters is for those to come"},
		{strategy: `{"partitions": [{"clusterName": "c000000"}, {"clusterSelector": {}}]}`, clusters: 2, why: "it has one that the first has not"},
		{strategy: `{"partitions": [{"clusterName": "c000003"}]}`, clusters: 9, options: partition.Options{Leftovers: partition.AppendLeftovers}, why: "leftovers are in no other"},
		{strategy: `{"autoPartitionSize": 10}`, clusters: 50, want: []string{"autoPartitionSize: there is one partition of 50 clusters, because fewer than 200 are not cut: write autoPartitionThreshold: 1 to have them cut (size_without_effect)"}, why: "ten at a time are expected, and 50 come at once"},
		{strategy: `{"autoPartitionSize": "10%"}`, clusters: 199, want: []string{"autoPartitionSize: there is one partition of 199 clusters, because fewer than 200 are not cut: write autoPartitionThreshold: 1 to have them cut (size_without_effect)"}, why: "one cluster more and there are ten partitions"},
		{strategy: `{"autoPartitionSize": "10%"}`, clusters: 200, why: "here they are"},
		{strategy: `{"autoPartitionSize": 10, "autoPartitionThreshold": 1}`, clusters: 50, why: "the remedy"},
		{strategy: `{"autoPartitionSize": 10, "autoPartitionThreshold": 60}`, clusters: 50, why: "who wrote the threshold knows of it"},
		{strategy: `{"autoPartitionSize": 50}`, clusters: 50, why: "one partition is what it says"},
		{strategy: `{"autoPartitionSize": 49}`, clusters: 50, want: []string{"autoPartitionSize: there is one partition of 50 clusters, because fewer than 200 are not cut: write autoPartitionThreshold: 1 to have them cut (size_without_effect)"}, why: "this is not"},
		{strategy: `{"autoPartitionSize": 1}`, clusters: 1, why: "one cluster cannot be divided"},
		{strategy: `{"autoPartitionSize": 1}`, why: "nor can none"},
		{strategy: `{"autoPartitionSize": 2, "partitions": [{"clusterName": "c000000"}]}`, clusters: 9, options: partition.Options{Leftovers: partition.AppendLeftovers}, want: []string{"autoPartitionSize: there is one partition of 8 clusters, because fewer than 200 are not cut: write autoPartitionThreshold: 1 to have them cut (size_without_effect)"}, why: "the leftovers are not cut either"},
		{strategy: `{"autoPartitionSize": 2, "partitions": [{"clusterSelector": {}}]}`, clusters: 9, options: partition.Options{Leftovers: partition.AppendLeftovers}, why: "there are none left over"},
		{strategy: `{"autoPartitionSize": "0%"}`, clusters: 50, why: "0 is how to write a single partition"},
		{strategy: `{"autoPartitionSize": -1}`, clusters: 1, why: "0 or less is how to write a single partition"},
		{strategy: `{"autoPartitionSize": "120%", "partitions": [{"clusterSelector": {}}]}`, clusters: 1, want: []string{"autoPartitionSize: has no meaning beside manual partitions (ignored_field)"}, why: "it is not looked at"},
		{strategy: `{"autoPartitionSize": "120%", "partitions": [{"clusterSelector": {}}]}`, clusters: 1, options: partition.Options{Leftovers: partition.AppendLeftovers}, want: []string{`autoPartitionSize: counts as "100%" (clamped)`}, why: "it is looked at"},
	} {
		var strategy partition.Strategy
		if err := json.Unmarshal([]byte(row.strategy), &strategy); err != nil {
			t.Fatal(err)
		}
		var got []string
		p, err := partition.Plan(strategy, fleetOf(row.clusters, healthy(oldVersion)), row.options)
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range p.Warnings {
			if w.Code != partition.WarningGateWithoutEffect && w.Code != partition.WarningGateMissing { // see TestBadInput and TestPartitionsThatWaitForNobody
				got = append(got, w.String())
			}
		}
		if !slices.Equal(got, row.want) {
			t.Errorf("%s: %s of %d:\ngot  %q\nwant %q", row.why, row.strategy, row.clusters, got, row.want)
		}
	}
}

// TestPartitionsThatWaitForNobody: who writes partitions expects that one waits until those before it
// are ready, and without a maxUnavailable none does.
func TestPartitionsThatWaitForNobody(t *testing.T) {
	const warning = "partitions: without maxUnavailable all members of a partition may be NotReady, so no later one waits until they are ready: write maxUnavailable: 0, or as many as may be (gate_missing)"
	const canary, others = `{"clusterName": "c000000"}`, `{"clusterSelector": {}}`
	for _, row := range []struct {
		strategy string
		options  partition.Options
		want     string
		why      string
	}{
		{strategy: `{"partitions": [` + canary + `, ` + others + `]}`, want: warning, why: "a bad version comes to all in the step behind that of the canary"},
		{strategy: `{"partitions": [` + canary + `, {"clusterSelector": {}, "maxUnavailable": 0}]}`, want: warning, why: "the limit of the last one is for its own batches"},
		{strategy: `{"partitions": [` + canary + `]}`, options: partition.Options{Leftovers: partition.AppendLeftovers}, want: warning, why: "leftovers do not wait either"},
		{strategy: `{"maxUnavailablePartitions": 0, "partitions": [` + canary + `, {"clusterSelector": {}, "maxUnavailable": 0}]}`, want: warning, why: "nor with a gate that is written"},
		{strategy: `{"partitions": [{"clusterName": "c000000", "maxUnavailable": 0}, ` + others + `]}`, why: "the remedy"},
		{strategy: `{"maxUnavailable": 0, "partitions": [` + canary + `, ` + others + `]}`, why: "the other remedy"},
		{strategy: `{"maxUnavailable": "100%", "partitions": [` + canary + `, ` + others + `]}`, why: "who writes that all may be NotReady knows"},
		{strategy: `{"partitions": [{"clusterName": "c000000", "maxUnavailable": 1}, ` + others + `]}`, why: "so does who writes it of the canary"},
		{strategy: `{"maxUnavailablePartitions": "100%", "partitions": [` + canary + `, {"clusterSelector": {}, "maxUnavailable": 0}]}`, why: "and who opens the gate"},
		{strategy: `{"maxUnavailablePartitions": 0, "partitions": [` + canary + `, ` + others + `]}`, want: "maxUnavailablePartitions: maxUnavailable lets all members of every partition be NotReady, so no partition ever counts once it is released: lower maxUnavailable (gate_without_effect)", why: "the gate that is written is named, and once is enough"},
		{strategy: `{"partitions": [` + others + `]}`, why: "there is no other to wait"},
		{strategy: `{"partitions": [` + others + `, {"clusterName": "nobody"}]}`, want: "partitions[1]: no cluster matches, so the rollout passes this partition at once: check its criteria (no_member)", why: "nor is there one without members"},
		{strategy: `{"partitions": [` + others + `, ` + others + `]}`, why: "nor one with members of its own"},
		{strategy: `{"autoPartitionSize": 2, "autoPartitionThreshold": 1}`, why: "automatic ones are made of any clusters, also to spread the load alone"},
	} {
		var strategy partition.Strategy
		if err := json.Unmarshal([]byte(row.strategy), &strategy); err != nil {
			t.Fatal(err)
		}
		var got []string
		p, err := partition.Plan(strategy, fleetOf(4, healthy(oldVersion)), row.options)
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range p.Warnings {
			got = append(got, w.String())
		}
		if strings.Join(got, "\n") != row.want {
			t.Errorf("%s: %s:\ngot  %q\nwant %q", row.why, row.strategy, got, row.want)
		}
	}
}

// TestIdleLimitsAreIdle: a limit that is said to have no effect on releases has none: with it, every
// step of a rollout releases the same as without it.
func TestIdleLimitsAreIdle(t *testing.T) {
	seen := testkit.Tally{}
	seen.Check(t, func(t *rapid.T) {
		strategy, fleet, options := genStrategy(t, false), genFleet(t, 12), genOptions(t, partition.Default)
		// Else few limits would be idle.
		fleet.Paused, options.Releases = false, partition.ByBatch
		strategy.MaxUnavailable = partition.FromInt(int32(rapid.IntRange(0, 3).Draw(t, "limit")))
		if rapid.Bool().Draw(t, "ordinary batch") {
			strategy.MaxNew = nil
		}
		if rapid.Bool().Draw(t, "open gate") {
			strategy.MaxUnavailablePartitions = partition.FromString("100%")
		}
		for i := range fleet.Clusters { // nobody is NotReady before the rollout, and nobody stays behind
			fleet.Clusters[i].Wanted = newVersion
			fleet.Clusters[i].State = rapid.SampledFrom([]partition.State{fresh(), healthy(oldVersion)}).Draw(t, "state")
		}
		without := strategy
		without.Partitions = slices.Clone(strategy.Partitions)
		idle := 0
		for _, w := range plan(t, strategy, fleet, options).Warnings {
			if w.Code != partition.WarningLimitWithoutEffect {
				continue
			}
			idle++
			if w.Path == "maxUnavailable" {
				for i := range without.Partitions { // it is inherited no longer
					if without.Partitions[i].MaxUnavailable.IsZero() {
						without.Partitions[i].MaxUnavailable = partition.FromString("100%")
					}
				}
				without.MaxUnavailable = partition.FromString("100%")
			}
			for i := range without.Partitions {
				if w.Path == fmt.Sprintf("partitions[%d].maxUnavailable", i) {
					without.Partitions[i].MaxUnavailable = partition.FromString("100%")
				}
			}
		}
		if idle == 0 {
			return
		}
		fleets := [2]partition.Fleet{fleet, fleet}
		order := rapid.Permutation(numbers(len(fleet.Clusters))).Draw(t, "ready")
		for range 2 * len(order) {
			one, two := plan(t, strategy, fleets[0], options), plan(t, without, fleets[1], options)
			if diff := gocmp.Diff(one.Releases, two.Releases); diff != "" {
				t.Fatalf("(-with +without)\n%s", diff)
			}
			seen["a step"]++
			if len(one.Releases) > 0 {
				seen["a release"]++
			}
			fleets[0], fleets[1] = apply(fleets[0], &one.Step), apply(fleets[1], &two.Step)
			if len(order) == 0 || !rapid.Bool().Draw(t, "becomes ready") {
				continue
			}
			for _, fleet := range fleets {
				if c := &fleet.Clusters[order[0]]; c.Released == c.Wanted {
					c.Applied, c.Ready = c.Wanted, true
				}
			}
			order = order[1:]
		}
	}, "a step", "a release")
}

// TestOnlyTheControllerTakesIt: a value that Fleet takes, and its document does not, is refused with
// the mode that takes it.
func TestOnlyTheControllerTakesIt(t *testing.T) {
	const hint = "; only the mode fleet_controller takes it"
	for _, row := range []struct {
		text, why string
		taken     bool
	}{
		{"-10%", "Fleet makes 1 of it", true},
		{"1e1%", "a float", true},
		{"NaN%", "a float, too", true},
		{"1234567890%", "more digits than are exact", true},
		{"5.%", "a float without fraction", true},
		{"abc", "nobody takes it", false},
		{"-1", "an int in quotes must be above 0 for Fleet", false},
		{"5 %", "a blank", false},
		{"%", "no number", false},
		{"", "nothing", false},
	} {
		strategy := partition.Strategy{MaxUnavailable: partition.FromString(row.text)}
		err := strategy.Validate()
		if err == nil || strings.HasSuffix(err.Error(), hint) != row.taken {
			t.Errorf("%s: %q: %v", row.why, row.text, err)
		}
		var fault *partition.FieldError
		if errors.As(err, &fault); fault == nil || fault.Value != strategy.MaxUnavailable.String() {
			t.Errorf("%s: %q: the fault has the value %+v", row.why, row.text, fault)
		}
		if _, err := partition.Plan(strategy, fleetOf(3, fresh()), partition.Options{Mode: partition.FleetController}); (err == nil) != row.taken {
			t.Errorf("%s: %q: Fleet: %v", row.why, row.text, err)
		}
	}
	if err := (partition.Strategy{MaxNew: count(0)}).Validate(); err == nil || !strings.HasSuffix(err.Error(), hint) {
		t.Errorf("a batch of none: %v", err)
	}
}

// TestLimitBounds: the longest percentages, and products that 64 bits do not hold.
func TestLimitBounds(t *testing.T) {
	for _, row := range []struct {
		why   string
		count int
		text  string
		want  int // -1: refused
	}{
		{"nine digits", 1 << 30, "999999999%", 1 << 30},
		{"ten digits", 1 << 30, "1000000000%", -1},
		{"nine digits on both sides of the point", 1 << 20, "1234.56789%", 1 << 20},
		{"ten digits on both sides of the point", 1 << 20, "1234.567890%", -1},
		{"nine digits behind the point", 1_000_000_000, ".100000000%", 1_000_000},
		{"ten digits behind the point", 1_000_000_000, ".1000000000%", -1},
		{"a product of 100 times 2 to the 64th and more", math.MaxInt, "201%", math.MaxInt},
		{"a product of 99 times 2 to the 64th and more", math.MaxInt, "199%", math.MaxInt},
		{"an int that 64 bits do not hold", math.MaxInt, "9223372036854775808", math.MaxInt},
		{"the largest int that they hold", math.MaxInt, "9223372036854775807", math.MaxInt},
		{"the one below", math.MaxInt, strconv.Itoa(math.MaxInt - 1), math.MaxInt - 1},
		{"a sign", 10, "+5", 5},
		{"two signs", 10, "++5", -1},
		{"a sign of nothing", 10, "+", -1},
		{"a signed percentage", 10, "+50%", 5},
		{"two signs of a percentage", 10, "++50%", -1},
		{"a signed fraction", 1000, "+.5%", 5},
		{"a percentage of nothing", 10, "%", -1},
		{"a point", 10, ".%", -1},
		{"two points", 10, "1.2.3%", -1},
	} {
		got, err := partition.Limit(partition.Default, row.count, partition.FromString(row.text))
		if err != nil {
			got = -1
		}
		if got != row.want {
			t.Errorf("%s: %s of %d is %d, %v, want %d", row.why, row.text, row.count, got, err, row.want)
		}
	}
}

// TestControllerLimitBounds: what no int64 holds is 1 on every processor, and what one just holds
// is the count.
func TestControllerLimitBounds(t *testing.T) {
	for text, want := range map[string]int{
		"4611686018427387392%": 2, // twice that is the largest float64 below 2 to the 63rd
		"4611686018427387904%": 1, // twice that is 2 to the 63rd
		"1e300%":               1,
		"Inf%":                 1,
		"-Inf%":                1,
		"NaN%":                 1,
		"0x1p5%":               1,
		"1e2%":                 2,
		"-0%":                  1,
	} {
		if got, err := partition.Limit(partition.FleetController, 2, partition.FromString(text)); err != nil || got != want {
			t.Errorf("%s of 2 is %d, %v, want %d", text, got, err, want)
		}
	}
}

// TestFaultsAreFlat: several faults of one partition are joined with all others, not to one another
// first: each is a *FieldError.
func TestFaultsAreFlat(t *testing.T) {
	bad := &selector.LabelSelector{MatchLabels: map[string]string{"a b": "c d"}}
	err := partition.Strategy{MaxNew: count(0), Partitions: []partition.Definition{{ClusterSelector: bad, ClusterGroupSelector: bad}}}.Validate()
	list := err.(interface{ Unwrap() []error }).Unwrap()
	for _, one := range list {
		if _, ok := one.(*partition.FieldError); !ok {
			t.Errorf("%T: %v", one, one)
		}
	}
	if len(list) != 5 {
		t.Errorf("%d faults, want 5: %v", len(list), err)
	}
	// A caller that goes through the faults of a plan does so in either mode: Fleet's controller meets
	// one.
	for _, wrong := range []partition.Strategy{{MaxUnavailable: partition.FromString("x")}, {Partitions: []partition.Definition{{ClusterSelector: bad}}}} {
		_, err := partition.Plan(wrong, fleetOf(1, partition.State{}), partition.Options{Mode: partition.FleetController})
		if all, ok := err.(interface{ Unwrap() []error }); !ok || len(all.Unwrap()) != 1 {
			t.Errorf("in the mode FleetController the faults are no list of one: %T: %v", err, err)
		}
	}
}

// TestBadClusters: what is wrong with the fleet itself is found in both modes, beside what is wrong
// with the strategy.
func TestBadClusters(t *testing.T) {
	fleet := partition.Fleet{Clusters: []partition.Cluster{
		{Namespace: "b", Name: "x", Wanted: "v"}, {Namespace: "a", Name: "x", Wanted: "v"}, {Namespace: "b", Name: "x", Wanted: "w"}, {Name: "y"}, {Wanted: "v"},
	}}
	want := []string{"value clusters[3].wanted", "value clusters[4].name", "duplicate clusters[2]"}
	for _, mode := range modes() {
		_, err := partition.Compile(partition.Strategy{}, fleet, partition.Options{Mode: mode})
		if got := faultsOf(err); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", mode, got, want)
		}
	}
	_, err := partition.Compile(partition.Strategy{MaxNew: count(0)}, fleet, partition.Options{})
	if got := faultsOf(err); len(got) != 4 || got[0] != "value maxNew" {
		t.Errorf("the faults of the strategy and of the clusters: got %q", got)
	}
	if err == nil || !strings.Contains(err.Error(), `clusters[2]: "b/x": is given as clusters[0] already`) {
		t.Errorf("got %v", err)
	}
	// Each further one is a fault of its own, and all of them point at the first.
	fleet.Clusters = append(fleet.Clusters, fleet.Clusters[2], fleet.Clusters[0])
	if _, err = partition.Compile(partition.Strategy{}, fleet, partition.Options{}); err == nil || !strings.Contains(err.Error(), `clusters[5]: "b/x": is given as clusters[0] already`) ||
		!strings.Contains(err.Error(), `clusters[6]: "b/x": is given as clusters[0] already`) {
		t.Errorf("got %v", err)
	}
	// By name alone, as Fleet orders clusters, those of another namespace may stand before the
	// first.
	fleet.Clusters = []partition.Cluster{{Namespace: "a", Name: "x", Wanted: "v"}, {Namespace: "b", Name: "x", Wanted: "v"}, {Namespace: "b", Name: "x", Wanted: "v"}}
	if _, err = partition.Compile(partition.Strategy{}, fleet, partition.Options{Mode: partition.FleetController}); err == nil ||
		err.Error() != `clusters[2]: "b/x": is given as clusters[1] already` {
		t.Errorf("got %v", err)
	}
	// Several that are given twice do not get in one another's way, in whichever order they stand.
	fleet.Clusters = nil
	for _, id := range [][2]string{{"b", "y"}, {"a", "z"}, {"b", "y"}, {"c", "y"}, {"a", "z"}, {"c", "x"}, {"c", "x"}, {"c", "y"}} {
		fleet.Clusters = append(fleet.Clusters, partition.Cluster{Namespace: id[0], Name: id[1], Wanted: "v"})
	}
	for mode, want := range map[partition.Mode]string{
		partition.Default:         `clusters[4]: "a/z": 1 clusters[2]: "b/y": 0 clusters[6]: "c/x": 5 clusters[7]: "c/y": 3`,
		partition.FleetController: `clusters[6]: "c/x": 5 clusters[2]: "b/y": 0 clusters[7]: "c/y": 3 clusters[4]: "a/z": 1`,
	} {
		_, err := partition.Compile(partition.Strategy{}, fleet, partition.Options{Mode: mode})
		if got := strings.NewReplacer("is given as clusters[", "", "] already", "", "\n", " ").Replace(fmt.Sprint(err)); got != want {
			t.Errorf("%s: got %s, want %s", mode, got, want)
		}
	}
}

// TestManyFaults: one mistake that is in each cluster of a fleet is listed a hundred times
// and then counted. All of them are joined.
func TestManyFaults(t *testing.T) {
	_, err := partition.Compile(partition.Strategy{}, partition.Fleet{Clusters: make([]partition.Cluster, 2000)}, partition.Options{})
	if got := faultsOf(err); len(got) != 5999 {
		t.Fatalf("%d faults are joined", len(got))
	}
	if list := strings.Split(err.Error(), "\n"); len(list) != 101 || list[100] != "and 5899 more faults" {
		t.Errorf("the text has %d lines: %s", len(list), list[len(list)-1])
	}
}

// TestNamesThatJSONWouldChange: two clusters whose names differ only in bytes that are not UTF-8 would
// be one in the JSON of a result, so a host that reads its plan back could not tell them apart.
func TestNamesThatJSONWouldChange(t *testing.T) {
	fleet := partition.Fleet{Clusters: []partition.Cluster{{Name: "a\xfe", Wanted: "v2"}, {Namespace: "\xff", Name: "a\xff", Wanted: "v2"}, {Namespace: "größe", Name: "\u202e", Wanted: "v2"}}}
	want := `clusters[0].name: "a\xfe": must be valid UTF-8
clusters[1].namespace: "\xff": must be valid UTF-8
clusters[1].name: "a\xff": must be valid UTF-8`
	for _, mode := range []partition.Mode{partition.Default, partition.FleetController} {
		if _, err := partition.Plan(partition.Strategy{}, fleet, partition.Options{Mode: mode}); err == nil || err.Error() != want {
			t.Errorf("%s: got %v\nwant %s", mode, err, want)
		}
	}
}

// TestPartitionNameThatJSONWouldChange: the name of a partition is for display, so what is not UTF-8
// in it is shown as such, and a result survives JSON (I8).
func TestPartitionNameThatJSONWouldChange(t *testing.T) {
	strategy := partition.Strategy{Partitions: []partition.Definition{{Name: "größe \xff\xfe", ClusterSelector: &selector.LabelSelector{}}}}
	for _, mode := range []partition.Mode{partition.Default, partition.FleetController} {
		plan, err := partition.Plan(strategy, fleetOf(1, partition.State{}), partition.Options{Mode: mode})
		if err != nil {
			t.Fatal(err)
		}
		data, err := json.Marshal(plan)
		if err != nil {
			t.Fatal(err)
		}
		var back partition.Result
		if err := json.Unmarshal(data, &back); err != nil || back.Partitions[0].Name != plan.Partitions[0].Name || plan.Partitions[0].Name != "größe \ufffd" {
			t.Errorf("%s: %q becomes %q, %v", mode, plan.Partitions[0].Name, back.Partitions[0].Name, err)
		}
	}
}

// TestNullOfWhatIsNeeded: what must be there and is null cannot be left out, which is refused next,
// so the remedy names the other way, too.
func TestNullOfWhatIsNeeded(t *testing.T) {
	for _, row := range []struct {
		in   string
		into any
		path string
	}{
		{`{"partitions": [{"clusterSelector": {"matchExpressions": [{"key": null, "operator": "Exists"}]}}]}`, &partition.Strategy{}, "partitions[0].clusterSelector.matchExpressions[0].key"},
		{`{"partitions": [{"clusterSelector": {"matchExpressions": [{"key": "a", "operator": null}]}}]}`, &partition.Strategy{}, "partitions[0].clusterSelector.matchExpressions[0].operator"},
		{`{"clusters": [{"name": null, "wanted": "v2"}]}`, &partition.Fleet{}, "clusters[0].name"},
		{`{"clusters": [{"name": "a", "wanted": null}]}`, &partition.Fleet{}, "clusters[0].wanted"},
	} {
		want := row.path + ": null is not a value here: write one, or leave it out"
		if err := json.Unmarshal([]byte(row.in), row.into); err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", row.in, err, want)
		}
	}
}

// TestDecodeFleet: a fleet is read as strictly as a strategy, with the clusters in it.
func TestDecodeFleet(t *testing.T) {
	given := func() partition.Fleet { return partition.Fleet{Paused: true} }
	every := partition.Fleet{
		Clusters: []partition.Cluster{{
			Namespace: "n", Name: "c", Labels: map[string]string{"l": "v"}, Groups: []string{"g"}, Wanted: "w",
			State: partition.State{Released: "r", Applied: "a", Ready: true, Paused: true, Offline: true, Staged: "s"},
		}},
		Groups: map[string]map[string]string{"g": {"l": "v"}},
		Paused: true,
	}
	written := func(fleet partition.Fleet) string {
		data, err := json.Marshal(fleet)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	for _, row := range []struct {
		in, why string
		want    partition.Fleet
		faults  []string
	}{
		{written(every), "every field, as it is written", every, nil},
		{written(partition.Fleet{}), "no clusters are written as null", partition.Fleet{}, nil},
		{`{}`, "what is not given is not there", partition.Fleet{}, nil},
		{`null`, "null leaves what is there", given(), nil},
		{`{"clusters": [{"name": "c", "wanted": "w", "pausd": true}]}`, "a misspelt paused must not release anything", given(), []string{"unknown_field clusters[0].pausd"}},
		{`{"Paused": true}`, "letter case counts, as in a strategy", given(), []string{"unknown_field Paused"}},
		{`{"clusters": [{"name": 1}, {"name": "c", "offline": "yes"}], "stopped": true}`, "all faults are reported", given(), []string{"type clusters[0].name", "type clusters[1].offline", "unknown_field stopped"}},
		{`{"clusters": [{"name": "c", "wanted": "v", "wanted": "w"}]}`, "a field given twice", given(), []string{"duplicate clusters[0].wanted"}},
		{`{"paused": null}`, "null is neither paused nor not", given(), []string{"type paused"}},
	} {
		got := given()
		if err := json.Unmarshal([]byte(row.in), &got); !slices.Equal(faultsOf(err), row.faults) || !reflect.DeepEqual(got, row.want) {
			t.Errorf("%s: %s is %+v, %v", row.why, row.in, got, err)
		}
	}
}

// TestDecodeOptions: options are read as strictly as a strategy.
func TestDecodeOptions(t *testing.T) {
	label := ""
	for _, row := range []struct {
		in, why string
		want    partition.Options
		faults  []string
	}{
		{`{"mode": "fleet_controller", "leftovers": "append", "paused": "block", "offline": "exclude", "releases": "budget", "maxPerStep": 7, "displayNameLabel": ""}`, "every field",
			partition.Options{Mode: partition.FleetController, Leftovers: partition.AppendLeftovers, Paused: partition.BlockPaused, Offline: partition.ExcludeOffline, Releases: partition.ByBudget, MaxPerStep: count(7), DisplayNameLabel: &label}, nil},
		{`{}`, "the default of every field", partition.Options{}, nil},
		{`null`, "null leaves what is there", partition.Options{MaxPerStep: count(9)}, nil},
		{`{"displayNameLabel": null, "maxPerStep": null}`, "the constant, and no limit", partition.Options{}, nil},
		{`{"maxPerStep": 0}`, "decoded as it is, for Validate to refuse: a limit of 0 must not become no limit", partition.Options{MaxPerStep: count(0)}, nil},
		{`{"mode": "fleet"}`, "what a value means shows in Validate", partition.Options{Mode: "fleet"}, nil},
		{`{"maxperstep": 7}`, "a misspelt limit must not become no limit", partition.Options{MaxPerStep: count(9)}, []string{"unknown_field maxperstep"}},
		{`{"maxPerStep": "7", "offlin": "exclude", "paused": 1}`, "all faults are reported", partition.Options{MaxPerStep: count(9)}, []string{"type maxPerStep", "unknown_field offlin", "type paused"}},
		{`{"maxPerStep": 7, "maxPerStep": 8}`, "a field given twice", partition.Options{MaxPerStep: count(9)}, []string{"duplicate maxPerStep"}},
	} {
		got := partition.Options{MaxPerStep: count(9)}
		if err := json.Unmarshal([]byte(row.in), &got); !slices.Equal(faultsOf(err), row.faults) || !reflect.DeepEqual(got, row.want) {
			t.Errorf("%s: %s is %+v, %v", row.why, row.in, got, err)
		}
	}
}

func TestBadOptions(t *testing.T) {
	bad := partition.Options{Mode: "fleet", Leftovers: "keep", Paused: "no", Offline: "no", Releases: "all", MaxPerStep: count(0)}
	want := []string{"value mode", "value leftovers", "value paused", "value offline", "value releases", "value maxPerStep"}
	if _, err := partition.Compile(partition.Strategy{}, partition.Fleet{}, bad); !slices.Equal(faultsOf(err), want) {
		t.Errorf("got %q, want %q", faultsOf(err), want)
	}
	// They hide nothing of what else is wrong, but for a strategy that only Fleet's controller
	// would look at.
	nameless := partition.Fleet{Clusters: []partition.Cluster{{Wanted: "v"}}}
	for mode, more := range map[partition.Mode][]string{partition.Default: {"value maxPerStep", "value maxNew", "value clusters[0].name"}, partition.FleetController: {"value maxPerStep", "value clusters[0].name"}} {
		_, err := partition.Plan(partition.Strategy{MaxNew: count(0), MaxUnavailable: partition.IntOrString{}}, nameless, partition.Options{Mode: mode, MaxPerStep: count(-1)})
		if got := faultsOf(err); !slices.Equal(got, more) {
			t.Errorf("%s: got %q, want %q", mode, got, more)
		}
	}
	all := partition.Options{Mode: partition.Default, Leftovers: partition.ExcludeLeftovers, Paused: partition.SkipPaused, Offline: partition.CountOffline, Releases: partition.ByBatch, MaxPerStep: count(1)}
	if err := all.Validate(); err != nil {
		t.Error(err)
	}
}

// TestReasons: every reason names what can end the wait, and what is none does not.
func TestReasons(t *testing.T) {
	for reason, on := range map[partition.Reason]partition.ConditionKind{
		partition.BundlePaused: partition.OnOperator, partition.ClusterPaused: partition.OnOperator, partition.ClusterOffline: partition.OnCluster,
		partition.Gate: partition.OnPartition, partition.Threshold: partition.OnMember, partition.Budget: partition.OnMember, partition.TotalBudget: partition.OnMember,
		partition.StepLimit: partition.OnStep, partition.Batch: partition.OnStep, partition.Unmatched: partition.OnConfig, "": "", "late": "",
	} {
		if reason.On() != on || (reason.Status() == "denied") != (reason == partition.Unmatched) {
			t.Errorf("%q: %s, ended by %q, want %q", reason, reason.Status(), reason.On(), on)
		}
	}
}

// TestWhy: sets of reasons are lists of stable codes in JSON, as those of package surge are, and
// what is none is refused.
func TestWhy(t *testing.T) {
	for why := range partition.Why(32) {
		text, err := json.Marshal(why)
		if (err == nil) != (why < 16) {
			t.Errorf("%d: %s, %v", why, text, err)
		}
		back := partition.NotReady
		if err == nil {
			if err := json.Unmarshal(text, &back); err != nil || back != why {
				t.Errorf("%s is read as %s, %v", text, back, err)
			}
		}
	}
	if text, err := json.Marshal(partition.IsPaused | partition.NotApplied); string(text) != `["not_applied","paused"]` {
		t.Errorf("got %s, %v", text, err)
	}
	if text, err := partition.Why(16).MarshalJSON(); err == nil || err.Error() != "Why(16): holds bits that are none of the constants" {
		t.Errorf("got %s, %v", text, err)
	}
	for text, want := range map[string]string{
		`["paused","late"]`: `value "late": must be "not_applied", "not_ready", "offline" or "paused"`,
		`"paused"`:          `type "paused": must be a list of codes`,
		`[1]`:               `type [1]: must be a list of codes`,
	} {
		back := partition.NotReady
		var fault *partition.FieldError
		if err := json.Unmarshal([]byte(text), &back); !errors.As(err, &fault) || string(fault.Code)+" "+err.Error() != want || back != partition.NotReady {
			t.Errorf("%s is read as %s, %v, want %s", text, back, err, want)
		}
	}
}
