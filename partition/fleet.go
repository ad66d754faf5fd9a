package partition

import "github.com/tranche-dev/tranche/internal/strictjson"

// Fleet holds the clusters that a strategy is applied to. Its form is of this package: no document
// of Rancher Fleet has it. It is decoded strictly: an unknown field or a value of the wrong type is
// an error, because a misspelt paused must not release anything.
type Fleet struct {
	// Clusters are the clusters that the bundle is meant for, in any order. Two clusters with the
	// same namespace and name are an error. In the mode FleetController clusters with the same name
	// in several namespaces keep the given order, which Fleet leaves to chance.
	Clusters []Cluster `json:"clusters"`
	// Groups has the labels of cluster groups by name. A group that is not in it has no labels. An
	// entry under the empty name is ignored. In Fleet a group belongs to a namespace. If a bundle
	// reaches several namespaces, and two groups with the same name have different labels, this
	// table can hold those of only one.
	Groups map[string]map[string]string `json:"groups,omitempty"`
	// Paused stops the whole bundle.
	Paused bool `json:"paused,omitzero"`
}

// UnmarshalJSON reads a fleet and its clusters strictly. All faults are reported, joined, each a
// *[FieldError], and the fleet is then unchanged. [Compile] reports what a well-formed cluster
// lacks.
func (f *Fleet) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		return nil
	}
	type plain Fleet
	return fieldErrors(strictjson.Unmarshal(data, (*plain)(f)))
}

// Cluster is one cluster of a fleet. All of it but State is fixed once a plan is compiled. It has
// no decoder of its own, so that a host can embed it in its own types: it is decoded strictly only
// as a part of a [Fleet].
type Cluster struct {
	Namespace string            `json:"namespace,omitempty"` // valid UTF-8
	Name      string            `json:"name"`                // not empty, valid UTF-8
	Labels    map[string]string `json:"labels,omitempty"`
	Groups    []string          `json:"groups,omitempty"` // names of the cluster groups that the cluster is in; an empty one is ignored
	// Wanted is the id of the version that the cluster should have. It may differ between clusters,
	// and must not be empty. A cluster for which it cannot be computed for now can be paused, with
	// any id, in the default mode: left out, it would move the borders of automatic partitions.
	Wanted string `json:"wanted"`
	State
}

// State is the part of a cluster that changes while a rollout proceeds. The zero value is a cluster
// that nothing was ever deployed to.
type State struct {
	Released string `json:"released,omitempty"` // id of the version that the cluster was last pointed at; empty if never
	Applied  string `json:"applied,omitempty"`  // id of the version that its agent says it applied
	Ready    bool   `json:"ready,omitzero"`     // what its agent reported last
	Paused   bool   `json:"paused,omitzero"`    // the cluster is not to be released, such as outside its window; see Options.Paused
	Offline  bool   `json:"offline,omitzero"`   // see Options.Offline; ignored in the mode FleetController
	// Staged is the id of the version that Fleet has prepared and not yet released: the
	// stagedDeploymentID of its BundleDeployment, whose deploymentID is Released. Empty means the
	// same as Released. If both are empty, there is no BundleDeployment. Only the mode
	// FleetController uses it.
	Staged string `json:"staged,omitempty"`
}
