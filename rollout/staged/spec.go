package staged

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tranche-dev/tranche/internal/strictjson"
)

// Spec is the spec of KubeFleet's StagedUpdateRun or ClusterStagedUpdateRun, with the names of its
// object. It is decoded strictly, from the spec alone or from the whole object. Only State may
// change once the run exists.
type Spec struct {
	// Name is metadata.name, a DNS label of at most 63 characters. Approval requests are named
	// after it. Namespace is metadata.namespace, empty for a cluster-scoped run, and valid UTF-8.
	Name      string `json:"-"`
	Namespace string `json:"-"`
	// ID is part of every token and should be unique for ever. It is not read from a document: set
	// it to the object's metadata.uid. Empty means Name; a second run of the same name then issues
	// the same tokens, and a host takes its actions for done. ID must be valid UTF-8.
	ID string `json:"-"`

	PlacementName             string `json:"placementName"`                   // not empty, at most 255 characters
	ResourceSnapshotIndex     string `json:"resourceSnapshotIndex,omitempty"` // decimal digits; empty is the newest
	StagedRolloutStrategyName string `json:"stagedRolloutStrategyName"`       // not empty
	State                     State  `json:"state,omitempty"`

	within string // where the spec is in the document that it was read from, for the paths of faults
}

// State is what the user wants of a run. The empty state is Initialize.
type State string

// The states that a user can ask for.
const (
	StateInitialize State = "Initialize" // compute the stages, start nothing
	StateRun        State = "Run"        // start, or resume
	StateStop       State = "Stop"       // start nothing more until the state is Run again; targets in progress go on, and so do their deadlines
)

const hintState = `must be "Initialize", "Run" or "Stop"`

func (s State) known() bool { return s == StateInitialize || s == StateRun || s == StateStop }

// UnmarshalJSON reads the spec alone, or a whole object, of which it uses kind, spec and the names
// in metadata. Unknown fields, inside the spec or beside it, and values of a wrong type are errors.
// All of them are reported, each a *[FieldError], and the spec is then unchanged.
func (s *Spec) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		return nil
	}
	o, list := objectOf(data, "ClusterStagedUpdateRun", "StagedUpdateRun")
	type plain Spec
	var decoded struct {
		plain
		ResourceSnapshotIndex *string `json:"resourceSnapshotIndex"`
		State                 *State  `json:"state"`
	}
	if o.spec != nil {
		list = append(list, strictjson.Parts(decodeFaults(o.base, remedied(strictjson.Unmarshal(o.spec, &decoded), specRemedy)))...)
	}
	if err := list.err(); err != nil {
		return err
	}
	*s = Spec(decoded.plain)
	s.ResourceSnapshotIndex, s.State = orZero(decoded.ResourceSnapshotIndex), orZero(decoded.State)
	s.Name, s.Namespace, s.within = o.name, o.namespace, o.base
	return nil
}

// specRemedy says what to write instead of the fields of a rollout.kubefleet.dev/v1alpha1 run.
func specRemedy(fault *strictjson.Error) {
	if fault.Code != strictjson.CodeUnknownField { // such as the second one of a field that is given twice
		return
	}
	switch fault.Path {
	case "placementPolicyName":
		fault.Hint = "unknown field: write placementName"
	case "stagedUpdateStrategyName":
		fault.Hint = "unknown field: write stagedRolloutStrategyName"
	case "resourceSnapshotName":
		fault.Hint = "unknown field: leave it out, and give the snapshot's name to Compile as the version of the fleet"
	case "suspended":
		fault.Hint = "unknown field: write state: Run for false; for true Initialize if the run is new, else Stop"
	case "failurePolicy":
		fault.Hint = "unknown field: write maxFailures and progressDeadline in the strategy"
	}
}

// Validate reports every fault, joined, each a *[FieldError]. Paths are those of the document that
// the spec was read from: of a whole object they begin with spec. Those of the names begin with
// metadata in any case.
func (s Spec) Validate() error {
	var names, list faults
	if !dnsLabel(s.Name) {
		names.add(CodeRunName, "metadata.name", strconv.Quote(s.Name), "must be 1 to 63 lower-case letters, digits and -, beginning and ending with a letter or digit")
	}
	// A stored run must be decoded as it was: JSON replaces invalid UTF-8, and a decoded run would
	// not know its own tokens.
	if !utf8.ValidString(s.Namespace) {
		names.add(CodeRunName, "metadata.namespace", strconv.Quote(s.Namespace), "must be valid UTF-8")
	}
	if !utf8.ValidString(s.ID) {
		names.add(CodeRunName, "id", strconv.Quote(s.ID), "must be valid UTF-8")
	}
	if s.PlacementName == "" || utf8.RuneCountInString(s.PlacementName) > 255 || !utf8.ValidString(s.PlacementName) {
		list.add(CodePlacementName, "placementName", strconv.Quote(s.PlacementName), "must be the name of the placement, at most 255 characters, valid UTF-8")
	}
	if digitsOf(s.ResourceSnapshotIndex) != s.ResourceSnapshotIndex {
		list.add(CodeSnapshotIndex, "resourceSnapshotIndex", strconv.Quote(s.ResourceSnapshotIndex), "must be decimal digits, or left out for the newest version")
	}
	if s.StagedRolloutStrategyName == "" || !utf8.ValidString(s.StagedRolloutStrategyName) {
		list.add(CodeStrategyName, "stagedRolloutStrategyName", strconv.Quote(s.StagedRolloutStrategyName), "must be the name of the strategy, valid UTF-8")
	}
	if !cmp.Or(s.State, StateInitialize).known() {
		list.add(CodeState, "state", strconv.Quote(string(s.State)), hintState)
	}
	return append(names, list.within(s.within)...).err()
}

// ValidateUpdate reports every reason why the spec of a run must not be replaced by another one,
// joined, each a *[FieldError]. The reasons are a state that cannot follow the present one, and a
// change of any other field of the document. Name, Namespace and ID are not compared: they are not
// part of the document, and identify the run. Paths are those of the document that the new spec was
// read from.
func (s Spec) ValidateUpdate(to Spec) error {
	var list faults
	same := func(field, a, b string) {
		if a != b {
			list.add(CodeImmutable, field, strconv.Quote(b), fmt.Sprintf("must stay %q: create another run instead", a))
		}
	}
	same("placementName", s.PlacementName, to.PlacementName)
	same("resourceSnapshotIndex", s.ResourceSnapshotIndex, to.ResourceSnapshotIndex)
	same("stagedRolloutStrategyName", s.StagedRolloutStrategyName, to.StagedRolloutStrategyName)
	if !cmp.Or(to.State, StateInitialize).known() {
		list.add(CodeState, "state", strconv.Quote(string(to.State)), hintState)
	} else if fault := transition(s.State, to.State); fault != nil {
		list = append(list, fault)
	}
	return list.within(to.within).err()
}

// transition returns nil if the desired state of a run may change from one state to the other.
func transition(from, to State) error {
	from, to = cmp.Or(from, StateInitialize), cmp.Or(to, StateInitialize)
	switch {
	case from == to, to == StateRun, to == StateStop && from == StateRun:
		return nil
	case to == StateStop:
		return &FieldError{Code: CodeTransition, Path: "state", Value: strconv.Quote(string(to)), Hint: `must be "Run" first: what has not started cannot be stopped; leave it out if Run came and went unseen`}
	}
	return &FieldError{Code: CodeTransition, Path: "state", Value: strconv.Quote(string(to)), Hint: `must be "Run" or "Stop": a run that has started cannot be prepared again`}
}

func dnsLabel(name string) bool {
	for _, c := range []byte(name) {
		if (c < 'a' || 'z' < c) && (c < '0' || '9' < c) && c != '-' {
			return false
		}
	}
	return name != "" && len(name) <= 63 && !strings.HasPrefix(name, "-") && !strings.HasSuffix(name, "-")
}
