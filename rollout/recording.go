package rollout

import (
	"fmt"

	"github.com/tranche-dev/tranche/internal/strictjson"
)

// recordingSchema is the version of the stored form of a recording.
const recordingSchema = 1

// Recording is one plan as a decision log keeps it: what it was made from, and what it says. A plan
// depends on nothing else, so a recording can be planned again years later, by a later version of
// this package or under other policies. [PolicySet.Replay] lists what comes out differently. A log
// holds one recording per line, in JSON.
//
// A host makes a recording of the values that went into [PolicySet.Plan] and came out of it;
// [Planner.Recorder] receives recordings ready-made. Options of [Compile] and the host's own rules
// are not part of a recording.
type Recording struct {
	Schema int `json:"schema"` // 1

	// Policies are those of the plan, see [PolicySet.Policies]. A host that keeps the history of
	// its policies elsewhere leaves them out.
	Policies []Policy `json:"policies,omitempty"`

	Snapshot Snapshot `json:"snapshot"` // with the State and Active that were planned on
	Plan     Plan     `json:"plan"`     // with its Now
}

// ParseRecording decodes a recording. Unknown fields, fields given twice and values of the wrong
// type are errors, and so are another schema and a plan without Now. All faults are reported,
// joined, each a *[FieldError]. [PolicySet.Replay] finds contradictions within the snapshot.
func ParseRecording(data []byte) (Recording, error) {
	var r Recording
	if err := r.UnmarshalJSON(data); err != nil {
		return Recording{}, err
	}
	if err := r.validate(); err != nil {
		return Recording{}, err
	}
	return r, nil
}

// UnmarshalJSON decodes a recording as strictly as [ParseRecording] does, which also checks Schema
// and Now.
func (r *Recording) UnmarshalJSON(data []byte) error {
	type plain Recording
	return fieldErrors(strictjson.Unmarshal(data, (*plain)(r)))
}

func (r *Recording) validate() error {
	var f faults
	if r.Schema != recordingSchema {
		f.add("schema", CodeUnknownValue, r.Schema, "must be %d: written by another release of the library", recordingSchema)
	}
	f.created("plan.now", r.Plan.Now, "a plan is made for an instant")
	return f.err()
}

// Replay makes the recorded plan again with the policies of the set, and returns the new plan and
// its changes from the recorded one. With the policies of the recording, any change means that this
// version of the package decides differently from the one that recorded. With other policies, the
// changes are what these would have decided in that situation.
//
// Each recording is replayed on its own: what other policies would have started or held back
// earlier is not carried over to the next recording of a log. To see a whole rollout under other
// policies, run it with package rollouttest.
//
// The error is one of [PolicySet.Plan], or joins a *[FieldError] per fault of the recording:
// another schema, or no Now.
func (s *PolicySet) Replay(r Recording) (Plan, Changes, error) {
	if err := r.validate(); err != nil {
		return Plan{}, nil, fmt.Errorf("rollout: recording: %w", err)
	}
	plan, err := s.Plan(r.Snapshot, r.Plan.Now)
	if err != nil {
		return Plan{}, nil, err
	}
	return plan, changesOf(r.Plan.situations(plan.work), plan.situations(plan.work), true), nil // a recorded plan has the same jobs in progress, and does not know them once it is decoded
}
