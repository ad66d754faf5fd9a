package partition

import (
	"strings"

	"github.com/tranche-dev/tranche/internal/strictjson"
)

// Plan decides what may be released now. It is [Compile] and [Compiled.Plan] in one: for a host
// that has its whole fleet at hand and plans now and then. The order of the clusters does not
// matter, and nothing of the input is changed or kept but its strings.
//
// Any part of the plan may be carried out, in any order, before planning again. For each release
// the host stores Released = Wanted and points the cluster at that version; then it plans again on
// every event, and at once while [Step.More] is true. No plan depends on time, so without an event
// nothing changes.
//
// The error joins all faults of the options, the strategy and the clusters, each a *[FieldError].
// In the mode [FleetController] the strategy is looked at once the others are right: of its faults
// the first that Fleet's controller would meet is reported, and those that it would not meet are
// none.
func Plan(strategy Strategy, fleet Fleet, options Options) (Result, error) {
	compiled, err := Compile(strategy, fleet, options)
	if err != nil {
		return Result{}, err
	}
	return compiled.Plan(), nil
}

// Fleet is what a strategy is applied to, in a form of this package: no document of Rancher Fleet
// has it. It is decoded strictly: an unknown field or a value of the wrong type is an error,
// because a misspelt paused must not release anything.
type Fleet struct {
	// Clusters are those that the bundle is meant for, in any order. Two with the same namespace
	// and name are an error. In the mode FleetController clusters of one name in several namespaces
	// keep the order given, which Fleet leaves to chance.
	Clusters []Cluster `json:"clusters"`
	// Groups has the labels of cluster groups by name. A group that is not here has no labels.
	// Names are not empty: an entry under the empty name is not looked at. In Fleet a group belongs
	// to a namespace. Where a bundle reaches several, and two groups of one name have different
	// labels, this table has room for those of one only.
	Groups map[string]map[string]string `json:"groups,omitempty"`
	// Paused stops the whole bundle.
	Paused bool `json:"paused,omitzero"`
}

// UnmarshalJSON reads a fleet, its clusters as strictly as itself. All faults are reported, joined,
// each a *[FieldError]; the fleet is then unchanged. What a well-formed cluster lacks is found by
// [Compile].
func (f *Fleet) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		return nil
	}
	type plain Fleet
	var decoded plain
	if err := strictjson.Unmarshal(data, &decoded); err != nil {
		return fieldErrors(err)
	}
	*f = Fleet(decoded)
	return nil
}

// Cluster is one cluster of a fleet. All but its State is fixed once a plan is compiled. It has no
// decoder of its own, so that a host can embed it in a form of its own: only as a part of a [Fleet]
// it is decoded strictly.
type Cluster struct {
	Namespace string            `json:"namespace,omitempty"`
	Name      string            `json:"name"`
	Labels    map[string]string `json:"labels,omitempty"`
	Groups    []string          `json:"groups,omitempty"` // names of the cluster groups it is in
	// Wanted is the id of the version that the cluster is to have. It may differ between clusters,
	// and must not be empty.
	Wanted string `json:"wanted"`
	State
}

// State is what changes while a rollout proceeds. The zero value is a cluster that nothing was ever
// deployed to.
type State struct {
	Released string `json:"released,omitempty"` // id of the version that the cluster was last pointed at; empty if never
	Applied  string `json:"applied,omitempty"`  // id of the version that its agent says it applied
	Ready    bool   `json:"ready,omitzero"`     // the last word of its agent
	Paused   bool   `json:"paused,omitzero"`
	Offline  bool   `json:"offline,omitzero"` // not looked at in the mode FleetController
	// Staged is the id of the version that Fleet has prepared and not yet released:
	// stagedDeploymentID of its BundleDeployment, whose deploymentID is Released. Empty means the
	// same as Released; if both are empty, there is no BundleDeployment. Only the mode
	// FleetController looks at it.
	Staged string `json:"staged,omitempty"`
}

// ID names a cluster in results.
type ID struct {
	// Index is the place in cluster order, by which [Compiled.Update] takes it; see
	// [Compiled.Find]. It is the place in Fleet.Clusters only if these are given in that order: by
	// namespace and name, in the mode FleetController by name.
	Index     int    `json:"index"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// String returns namespace/name, or the name alone if there is no namespace.
func (id ID) String() string {
	if id.Namespace == "" {
		return id.Name
	}
	return id.Namespace + "/" + id.Name
}

// Release says that a cluster may be pointed at its wanted version now.
type Release struct {
	ID
	Partition int  `json:"partition"`      // index of the partition that releases it
	First     bool `json:"first,omitzero"` // it is the first deployment to the cluster, not an update
}

// Step is what may be done now, and how the partitions stand.
type Step struct {
	Releases   []Release `json:"releases,omitempty"` // in cluster order, each cluster once
	Partitions []Status  `json:"partitions"`         // in the order of the rollout, all of them
	// NotReadyPartitions is how many of the reached partitions are not ready. As soon as it exceeds
	// MaxNotReadyPartitions, the gate closes: no partition after that is reached.
	NotReadyPartitions    int `json:"notReadyPartitions"`
	MaxNotReadyPartitions int `json:"maxNotReadyPartitions"`
	ClosedBy              int `json:"closedBy"` // index of the partition that closed the gate; -1 if it is open
	// More means that another step would do something without any other change than carrying this
	// one out: do not wait for an event.
	More bool `json:"more,omitzero"`
	// Controller is what the mode FleetController has besides; nil in the default mode.
	Controller *Controller `json:"controller,omitempty"`
}

// Controller is what a reconcile of Fleet's controller does besides releasing, and its budget over
// all targets. Created and Staged are in cluster order; a created target is staged, too, and
// usually released. A host that follows a rollout over several steps stores both before it stores
// the releases. For what is created it stores an empty state but for Paused and Offline, and for
// what is staged Staged = Wanted. What it cannot store, because the cluster has no namespace yet,
// is created again in every step and uses up the batch each time, as in Fleet.
type Controller struct {
	Created           []ID `json:"created,omitempty"` // a deployment object is made
	Staged            []ID `json:"staged,omitempty"`  // the wanted version is prepared
	MaxUnavailable    int  `json:"maxUnavailable"`    // of all targets
	UnavailableBefore int  `json:"unavailableBefore"` // targets that had not applied what they were pointed at, or were not ready, before
	Unavailable       int  `json:"unavailable"`       // these, and the healthy ones released in the step: new ones count in the next
}

// Status is how one partition stands.
type Status struct {
	Index int    `json:"index"` // from 0, in the order of the rollout
	Name  string `json:"name"`
	Count int    `json:"count"` // members
	// MaxUnavailable is how many members may be NotReady. In the mode FleetController it may exceed
	// Count.
	MaxUnavailable int `json:"maxUnavailable"`
	// NotReady is the number of NotReady members after the step. In the mode FleetController these
	// are all that are not up to date and ready, those not started yet included.
	NotReady int `json:"notReady"`
	// Unavailable is the number that the releases were decided by. In the default mode it is
	// NotReady before the partition's turn. In the mode FleetController it is the members that,
	// before the step, had not applied what they were pointed at or were not ready, as in Fleet's
	// status.
	Unavailable int `json:"unavailable"`
	Waiting     int `json:"waiting"` // members with another version than the wanted one, or none, after the step; not the held ones
	// Held is the number of those that are paused, or excluded while offline. In the mode
	// FleetController a paused member without a deployment is among the waiting ones: it gets one
	// all the same.
	Held     int  `json:"held"`
	Done     int  `json:"done"`             // up to date and ready
	Released int  `json:"released"`         // in this step, by this partition
	Reached  bool `json:"reached,omitzero"` // it had its turn
	// Ready means that it does not stand in the way of those after it. If it had its turn, this was
	// decided then: what a later partition released of its members is in the counts and not in
	// Ready.
	Ready bool `json:"ready,omitzero"`
	// Classes are the members by class after the step, in the default mode.
	Classes Classes `json:"classes,omitzero"`
	// Blockers are the first NotReady members, at most three, if so many are NotReady that others
	// wait. In the mode FleetController they are members that are unavailable to releases. Only
	// [Compiled.Plan] lists them.
	Blockers []ID `json:"blockers,omitempty"`
}

// Classes counts the members of a partition. Each is in one class, the first that fits. NotReady
// are updating, blocked and broken ones; waiting are broken, pending and out of sync ones.
type Classes struct {
	Done      int `json:"done"`      // at the wanted version, applied, ready and not offline
	Held      int `json:"held"`      // paused or offline, and by the options out of the count
	Updating  int `json:"updating"`  // released, and not done
	Blocked   int `json:"blocked"`   // paused, and by the options in the count
	Broken    int `json:"broken"`    // not healthy on another version: the fix is always due
	Pending   int `json:"pending"`   // never released
	OutOfSync int `json:"outOfSync"` // healthy on another version
}

// Result is a plan with its reasons. It is the caller's.
type Result struct {
	Step
	// Waiting has every cluster that waits or is held after the step, in cluster order, with the
	// one reason.
	Waiting []Waiting `json:"waiting,omitempty"`
	// Unready has every cluster that was released and is NotReady, or is NotReady because it is
	// paused, in cluster order. In the mode FleetController a healthy cluster on the wanted version
	// that has another one staged is not here: it counts as NotReady until its partition is
	// reached, and nothing is wrong with it.
	Unready   []Unready `json:"unready,omitempty"`
	Unmatched []ID      `json:"unmatched,omitempty"` // clusters in no partition, in cluster order
	// Warnings are in a fixed order: the gate, the partitions, then what is ignored. The mode
	// FleetController has none, for Fleet's controller warns of nothing: a host that wants them
	// asks the default mode as well.
	Warnings []Warning `json:"warnings,omitempty"`
	// Batch is the size of a batch, and MaxPerStep that of a step; 0 is no limit for the latter.
	Batch      int `json:"batch"`
	MaxPerStep int `json:"maxPerStep,omitzero"`
}

// WarningCode is a kind of warning. Codes are part of the compatibility promise.
type WarningCode string

// The kinds of warnings.
const (
	WarningGateWithoutEffect WarningCode = "gate_without_effect" // maxUnavailable never lets a partition count as not ready
	WarningNoCriterion       WarningCode = "no_criterion"        // a manual partition selects nothing
	WarningNoMember          WarningCode = "no_member"           // a manual partition matches no cluster, and is passed at once
	WarningIgnoredField      WarningCode = "ignored_field"       // a field has no meaning beside the others
)

// Warning is a legal configuration that its author may not have meant. It is never a reason to
// refuse.
type Warning struct {
	Code WarningCode `json:"code"`
	Path string      `json:"path"` // the field to look at
	Text string      `json:"text"` // for people
}

// String returns "path: text (code)".
func (w Warning) String() string { return w.Path + ": " + w.Text + " (" + string(w.Code) + ")" }

// String describes the step in a few lines: one for each partition, then the gate.
func (s Step) String() string {
	var lines []string
	for i := range s.Partitions {
		lines = append(lines, s.Partitions[i].String())
	}
	lines = append(lines, s.gate())
	return strings.Join(lines, "\n")
}
