package partition

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tranche-dev/tranche/internal/strictjson"
	"github.com/tranche-dev/tranche/selector"
)

// Strategy is the rolloutStrategy of a fleet.yaml, field by field. The zero value means Fleet's
// defaults: batches of 50, and no limit on what may be NotReady. It is decoded strictly: an unknown
// field or a value of the wrong type is an error, because a misspelt limit must not become no
// limit. An explicit null counts as absent.
type Strategy struct {
	// MaxUnavailable is how many members of a partition, of its own count, may be NotReady before
	// its next batch waits; 100% if absent. Percentages round down, but to at least 1 unless they
	// are 0. With 0, each batch waits for all members released before. The batch itself may make
	// more members NotReady: only MaxNew or the option [ByBudget] limits it. A partition without its
	// own value inherits this one.
	MaxUnavailable IntOrString `json:"maxUnavailable,omitzero"`
	// MaxUnavailablePartitions is how many partitions may be NotReady before the rollout pauses; 0
	// if absent. A percentage is one of all partitions, empty ones included, and rounds as that of
	// MaxUnavailable does.
	MaxUnavailablePartitions IntOrString `json:"maxUnavailablePartitions,omitzero"`
	// AutoPartitionSize is the number of members of an automatic partition; 25% if absent. A
	// percentage is one of the clusters that are cut, and rounds as that of MaxUnavailable does; the
	// last partition has the rest. 0 or less makes a single partition. It has no meaning beside
	// manual partitions, unless leftovers are appended.
	AutoPartitionSize IntOrString `json:"autoPartitionSize,omitzero"`
	// AutoPartitionThreshold is the number of clusters below which there is a single automatic
	// partition; 200 if nil. 0 or less means that there is always a single one.
	AutoPartitionThreshold *int `json:"autoPartitionThreshold,omitempty"`
	// MaxNew is the size of a batch; 50 if nil. It must be at least 1, except in the mode
	// FleetController, which then never deploys to a new cluster.
	MaxNew *int `json:"maxNew,omitempty"`
	// Partitions are the manual partitions in the order of the rollout. If there are none, the
	// clusters are cut into automatic partitions.
	Partitions []Definition `json:"partitions,omitempty"`
}

// Definition is a manual partition. A cluster is a member if it fulfils all given criteria. A
// partition without criteria has no members.
type Definition struct {
	Name           string      `json:"name,omitempty"`          // for display: it may be empty or repeated; what is not UTF-8 in it is shown as U+FFFD
	MaxUnavailable IntOrString `json:"maxUnavailable,omitzero"` // the strategy's if absent
	// ClusterName is the name of the cluster or its display name; more than one cluster may match.
	ClusterName string `json:"clusterName,omitempty"`
	// ClusterSelector selects by the labels of the cluster. {} matches all clusters; nil is no
	// criterion.
	ClusterSelector *selector.LabelSelector `json:"clusterSelector,omitempty"`
	// ClusterGroup is the name of a group that the cluster must be in.
	ClusterGroup string `json:"clusterGroup,omitempty"`
	// ClusterGroupSelector selects by the labels of a group that the cluster is in. If ClusterGroup
	// is given as well, both must hold for the same group.
	ClusterGroupSelector *selector.LabelSelector `json:"clusterGroupSelector,omitempty"`
}

// UnmarshalJSON reads the JSON form, or YAML that was converted to it. All faults are reported,
// joined, each a *[FieldError] with its path, and the strategy is then unchanged.
// [Strategy.Validate] checks what well-formed values mean. A field that is given twice is a fault
// as well. Many converters of YAML silently keep the last one, so the host should use one that
// refuses the document, such as YAMLToJSONStrict of sigs.k8s.io/yaml.
func (s *Strategy) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		return nil
	}
	type plain Strategy
	if err := strictjson.Unmarshal(data, (*plain)(s)); err != nil {
		var all []error
		faults := strictjson.Faults(err)
		whole := slices.ContainsFunc(faults, func(fault strictjson.Error) bool { return fault.Path == "rolloutStrategy" }) // the document is a whole fleet.yaml
		for _, fault := range faults {
			switch {
			case fault.Code != strictjson.CodeUnknownField:
			case fault.Path == "rolloutStrategy":
				fault.Hint = "unknown field: decode what is below it"
			case fault.Path == "spec": // the document is a whole Bundle
				fault.Hint = "unknown field: decode what is below rolloutStrategy in it"
			case !whole && neighbour(fault.Path):
				fault.Hint = `unknown field; it stands beside "rolloutStrategy"`
			}
			all = append(all, &fault)
		}
		return fieldErrors(strictjson.Join(all...))
	}
	return nil
}

// neighbour reports whether a fleet.yaml has a field of this name beside its rolloutStrategy.
func neighbour(name string) bool {
	switch name {
	case "correctDrift", "defaultNamespace", "deleteCRDResources", "deleteNamespace", "dependsOn", "diff", "helm", "ignore", "imageScans", "keepResources",
		"kustomize", "labels", "name", "namespace", "namespaceAnnotations", "namespaceLabels", "overrideTargets", "paused", "serviceAccount", "targetCustomizations", "targets", "yaml":
		return true
	}
	return false
}

// UnmarshalJSON reads one entry of partitions, as strictly as the strategy; null is an error. It is
// for the decoder of a [Strategy], which makes each fault a *[FieldError] with the entry's path.
func (d *Definition) UnmarshalJSON(data []byte) error {
	// The fields are pointers because null counts as absent, and a string cannot be null.
	var decoded struct {
		Name                 *string                 `json:"name"`
		MaxUnavailable       IntOrString             `json:"maxUnavailable"`
		ClusterName          *string                 `json:"clusterName"`
		ClusterSelector      *selector.LabelSelector `json:"clusterSelector"`
		ClusterGroup         *string                 `json:"clusterGroup"`
		ClusterGroupSelector *selector.LabelSelector `json:"clusterGroupSelector"`
	}
	if string(data) == "null" {
		return &strictjson.Error{Code: strictjson.CodeType, Hint: "null is not a partition: remove the entry"}
	}
	if err := strictjson.Unmarshal(data, &decoded); err != nil {
		return explained(err) // the decoder of the strategy continues its paths
	}
	*d = Definition{
		Name: or(decoded.Name, ""), MaxUnavailable: decoded.MaxUnavailable,
		ClusterName: or(decoded.ClusterName, ""), ClusterSelector: decoded.ClusterSelector,
		ClusterGroup: or(decoded.ClusterGroup, ""), ClusterGroupSelector: decoded.ClusterGroupSelector,
	}
	return nil
}

// explained says what to write instead of two forms of clusterGroupSelector that Fleet's reference
// of fleet.yaml shows and that are not selectors. Fleet cannot read the first, and takes the other
// for the empty selector. It also says where a field belongs that stands one level off: the decoder
// of selectors takes a field of the partition for a label, and that of a partition does not see the
// fields around it.
func explained(err error) error {
	var all []error
	for _, fault := range strictjson.Faults(err) {
		switch around, name, _ := strings.Cut(fault.Path, "."); {
		case fault.Code == strictjson.CodeDuplicate:
		case fault.Path == "clusterGroupSelector":
			fault.Hint += ": write the name of a group as clusterGroup, and its labels as matchLabels below this field"
		case fault.Path == "clusterGroupSelector.clusterSelector" || name == around:
			fault.Hint = "unknown field: move what is below it one level up"
		case slices.Contains([]string{"maxUnavailable", "clusterName", "clusterSelector", "clusterGroup", "clusterGroupSelector"}, name):
			fault.Hint = fmt.Sprintf("unknown field; it stands beside %q", around)
		case slices.Contains([]string{"maxUnavailablePartitions", "autoPartitionSize", "autoPartitionThreshold", "maxNew"}, fault.Path):
			fault.Hint = `unknown field; it stands beside "partitions"`
		case fault.Path == "matchLabels" || fault.Path == "matchExpressions":
			fault.Hint = "unknown field; it stands below clusterSelector or clusterGroupSelector"
		}
		all = append(all, &fault)
	}
	return strictjson.Join(all...)
}

// Validate reports every fault by the rules of the default mode, joined, each a *[FieldError],
// whatever clusters there are: values that are not limits, a maxNew below 1, and selectors that
// Kubernetes would refuse. It ignores AutoPartitionSize beside manual partitions. [Compile] reports
// the same faults, and more if leftovers are appended. In the mode FleetController it reports the
// first fault that Fleet's controller would meet.
func (s Strategy) Validate() error { return s.validate(false) }

func (s *Strategy) validate(leftovers bool) error {
	var faults []error
	check := func(v value) {
		if v.IsZero() {
			return
		}
		if _, err := v.exactLimit(1); err != nil {
			faults = append(faults, err)
		}
	}
	check(global(s.MaxUnavailable, "maxUnavailable"))
	check(global(s.MaxUnavailablePartitions, "maxUnavailablePartitions"))
	if len(s.Partitions) == 0 || leftovers {
		check(global(s.AutoPartitionSize, "autoPartitionSize"))
	}
	if n := or(s.MaxNew, defaultMaxNew); n < 1 {
		faults = append(faults, &FieldError{Code: CodeValue, Path: "maxNew", Value: strconv.Itoa(n),
			Hint: "must be at least 1: without a batch nothing is ever released" + onlyController})
	}
	for i := range s.Partitions {
		d := &s.Partitions[i]
		check(value{d.MaxUnavailable, "maxUnavailable", i})
		_, err := d.compile(i)
		faults = append(faults, strictjson.Parts(err)...)
	}
	return strictjson.Join(faults...)
}

// maxUnavailable returns the limit of a partition of count members. manual is the index of its
// definition, or -1.
func (s *Strategy) maxUnavailable(mode Mode, count, manual int) (int, error) {
	own := value{}
	if manual >= 0 {
		own = value{s.Partitions[manual].MaxUnavailable, "maxUnavailable", manual}
	}
	return limit(mode, count, own, global(s.MaxUnavailable, "maxUnavailable"), global(FromString(defaultMaxUnavailable), "maxUnavailable"))
}

// maxPartitions returns how many of count partitions may be NotReady.
func (s *Strategy) maxPartitions(mode Mode, count int) (int, error) {
	return limit(mode, count, global(s.MaxUnavailablePartitions, "maxUnavailablePartitions"), global(FromInt(0), "maxUnavailablePartitions"))
}

// autoSize returns the number of members of each automatic partition of n clusters. 0 means one
// partition without a range in its name.
func (s *Strategy) autoSize(mode Mode, n int) (int, error) {
	if threshold := or(s.AutoPartitionThreshold, defaultThreshold); threshold <= 0 || n < threshold {
		return 0, nil
	}
	return limit(mode, n, global(s.AutoPartitionSize, "autoPartitionSize"), global(FromString(defaultAutoSize), "autoPartitionSize"))
}

// criteria are the compiled selectors of a definition. An absent selector is nil.
type criteria struct {
	clusters, groups *selector.Labels
}

// compile compiles both selectors. The error joins all their faults.
func (d *Definition) compile(i int) (criteria, error) {
	var faults []error
	compile := func(l *selector.LabelSelector, field string) *selector.Labels {
		if l == nil {
			return nil
		}
		compiled, err := l.Compile()
		for _, fault := range strictjson.Faults(err) {
			faults = append(faults, &FieldError{Code: CodeSelector, Path: strictjson.Path(inPartition(i, field), fault.Path), Value: fault.Value, Hint: fault.Hint})
		}
		return compiled
	}
	c := criteria{clusters: compile(d.ClusterSelector, "clusterSelector"), groups: compile(d.ClusterGroupSelector, "clusterGroupSelector")}
	return c, strictjson.Join(faults...)
}

// controllerFault returns the fault that Fleet's controller meets first when a selector is wrong:
// it reads the selector for groups before the one for clusters, and stops at the first fault.
func (d *Definition) controllerFault(i int) error {
	groups := Definition{ClusterGroupSelector: d.ClusterGroupSelector}
	_, err := groups.compile(i)
	if err == nil {
		_, err = d.compile(i)
	}
	return strictjson.Parts(err)[0]
}

// grouped reports whether the definition has a criterion about groups.
func (d *Definition) grouped() bool { return d.ClusterGroup != "" || d.ClusterGroupSelector != nil }

// empty reports whether the definition has no criterion.
func (d *Definition) empty() bool {
	return !d.grouped() && d.ClusterName == "" && d.ClusterSelector == nil
}
