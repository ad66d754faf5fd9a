package rollout

import "slices"

// Actor is who can open what blocks a version, in words that fit into a sentence.
type Actor string

const (
	ActorTime     Actor = "time"             // no one has to act: it opens by itself
	ActorFleet    Actor = "the fleet"        // jobs that run, or are about to, and what comes up again
	ActorApprover Actor = "an approver"      // the people who approve versions
	ActorPublish  Actor = "the release"      // those who publish versions and set their status
	ActorPolicy   Actor = "the policy owner" // those who edit policies and labels
	ActorOperator Actor = "an operator"      // those who give commands and overrides, end freezes, and give back orphans
)

// Actors returns who can open the verdict, without repetition: time first, if Until is set, then in
// the order of its conditions. An allowed verdict has none. The JSON of a verdict leaves them out,
// and a reader in another language finds them by the kinds of the conditions: rate is [ActorTime];
// approval is [ActorApprover]; version and group_close are [ActorPublish]; config is [ActorPolicy];
// operator, orphan and freeze are [ActorOperator]; every other is [ActorFleet], and execution_end
// [ActorOperator] as well if data.names is not empty, because these members have failed.
func (v Verdict) Actors() []Actor {
	var actors []Actor
	add := func(a Actor) {
		if !slices.Contains(actors, a) {
			actors = append(actors, a)
		}
	}
	if v.Status == Allowed {
		return nil
	}
	if !v.Until.IsZero() {
		add(ActorTime)
	}
	for _, on := range v.On {
		switch on.Kind {
		case OnRate:
			add(ActorTime)
		case OnApproval:
			add(ActorApprover)
		case OnVersion, OnGroupClose: // new versions open groups
			add(ActorPublish)
		case OnConfig:
			add(ActorPolicy)
		case OnOperator, OnOrphan, OnFreeze:
			add(ActorOperator)
		case OnExecutionEnd:
			if add(ActorFleet); v.Data != nil && len(v.Data.Names) > 0 { // members have failed: a hold may last until an operator gives a command
				add(ActorOperator)
			}
		default:
			add(ActorFleet)
		}
	}
	return actors
}
