package rollout

import (
	"fmt"

	"github.com/tranche-dev/tranche/internal/strictjson"
)

// recordingSchema is the version of the stored form of a recording.
const recordingSchema = 1

// Recording is one plan as a decision log keeps it: what it was made from, and what it said. A plan
// depends on nothing else. So a recording can be planned again years later, by a later version of
// this package or under other policies, and [PolicySet.Replay] lists what comes out differently. A
// log is one recording per line, in JSON.
//
// A host makes one of the values that went into [PolicySet.Plan] and came out of it;
// [Planner.Recorder] hands them over. Options of [Compile] and rules of the host's own are not part
// of it.
type Recording struct {
	Schema int `json:"schema"` // 1

	// Policies are those that decided, see [PolicySet.Policies]. A host that keeps the history of
	// its policies elsewhere leaves them out.
	Policies []Policy `json:"policies,omitempty"`

	Snapshot Snapshot `json:"snapshot"` // with the State and Active that were planned on
	Plan     Plan     `json:"plan"`     // with its Now
}

// ParseRecording decodes a recording. Unknown fields, fields given twice and values of the wrong
// type are errors, and so are another schema and a plan without its instant. All faults are
// reported, joined, each a *[FieldError]. Contradictions within the snapshot are found by
// [PolicySet.Replay].
func ParseRecording(data []byte) (Recording, error) {
	var r Recording
	if err := strictjson.Unmarshal(data, &r); err != nil {
		var f faults
		f.under("", err)
		return Recording{}, f.few()
	}
	if err := r.validate(); err != nil {
		return Recording{}, err
	}
	return r, nil
}

func (r *Recording) validate() error {
	var f faults
	if r.Schema != recordingSchema {
		f.add("schema", CodeUnknownValue, r.Schema, "must be %d: written by another release of the library", recordingSchema)
	}
	if r.Plan.Now.IsZero() {
		f.add("plan.now", CodeRequired, nil, "is required: a plan is made for an instant")
	}
	return f.err()
}

// Replay plans what was recorded again, with the policies of the set, and returns the new plan and
// what it says differently from the recorded one. With the policies of the recording there are no
// changes, or else this version of the package decides otherwise than the one that recorded. With
// other policies, the changes are what these would have decided in that situation.
//
// Every recording stands for itself: what other policies would have started or held back earlier is
// not carried over to the next one of a log. To see a whole rollout under other policies, let
// package rollouttest run it.
//
// The error is one of [PolicySet.Plan], or joins a *[FieldError] per fault of the recording:
// another schema, no instant.
func (s *PolicySet) Replay(r Recording) (Plan, []Change, error) {
	if err := r.validate(); err != nil {
		return Plan{}, nil, fmt.Errorf("rollout: recording: %w", err)
	}
	plan, err := s.Plan(r.Snapshot, r.Plan.Now)
	if err != nil {
		return Plan{}, nil, err
	}
	return plan, plan.Changes(&r.Plan), nil
}
