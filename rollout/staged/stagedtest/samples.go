package stagedtest

import (
	"cmp"
	"time"

	"github.com/tranche-dev/tranche/rollout/staged"
)

// Samples are what past runs have shown, by the name of the stage, that of the cleanup included.
// What is listed under the empty name is for all stages that are not listed. [SamplesOf] takes them
// from stored runs.
type Samples struct {
	Targets   map[string][]Outcome `json:"targets,omitempty"`   // how long updates and removals took, and which of them failed or hung
	Approvals map[string][]Answer  `json:"approvals,omitempty"` // how long people took to answer, before or after the stage
}

// SamplesOf returns what runs have shown, by the names of their stages: of each target that was
// started or removed, how long the last attempt took until it was ready or gone, without the
// minSuccessTime that followed, or until it was reported as failed; one that timed out hangs. Of each
// approval, how long its present answer took, and whether that is a rejection. A nil run shows
// nothing.
//
// A target shows nothing if it was at the version before, is starting or updating, was skipped, was
// taken over or left. With OnRegression at Fail, one that was done and is then reported as failed
// shows a failure after all that time: a run does not keep that it was done. Nor does it keep the
// attempts before a retry. So where people retry or skip what failed, failures are rarer in the
// samples than they were; and what is slow is rarer, unless all runs are over. For a run whose stages
// have other names, list what is to count for them under their names, or under the empty one.
func SamplesOf(runs ...*staged.Run) Samples {
	samples := Samples{Targets: map[string][]Outcome{}, Approvals: map[string][]Answer{}}
	for _, run := range runs {
		if run == nil {
			continue
		}
		strategy := run.Strategy()
		for s := range run.Stages() {
			soak := time.Duration(0)
			if !s.Cleanup {
				own := staged.Duration{}
				if s.Index < len(strategy.Stages) { // there is one more with Options.Unmatched at Last
					own = strategy.Stages[s.Index].MinSuccessTime
				}
				soak, _ = cmp.Or(own, strategy.MinSuccessTime).Value()
			}
			for t := range run.Targets(s.Index) {
				if o, ok := shownBy(t, soak); ok {
					samples.Targets[s.Name] = append(samples.Targets[s.Name], o)
				}
			}
			for _, gate := range []staged.Gate{s.Before, s.After} {
				if !gate.Requested.IsZero() && !gate.Decided.IsZero() {
					samples.Approvals[s.Name] = append(samples.Approvals[s.Name], Answer{After: gate.Decided.Sub(gate.Requested), Reject: gate.State == staged.ApprovalRejected})
				}
			}
		}
	}
	return samples
}

// shownBy returns how the last attempt at a target ended, if that is known.
func shownBy(t staged.TargetStatus, soak time.Duration) (Outcome, bool) {
	took := t.End.Sub(t.Start)
	switch {
	case t.Start.IsZero():
	case t.State == staged.Done:
		return Outcome{After: max(0, took-soak)}, true
	case t.State == staged.Soaking:
		return Outcome{After: took}, true
	case t.State == staged.Failed && t.Reason == staged.ReasonReported:
		return Outcome{After: took, Health: staged.HealthFailed}, true
	case t.State == staged.TimedOut:
		return Outcome{Health: staged.HealthProgressing}, true
	}
	return Outcome{}, false
}
