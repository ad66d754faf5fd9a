package rollout

import (
	"fmt"
	"strings"

	"github.com/tranche-dev/tranche/internal/textkey"
	"github.com/tranche-dev/tranche/internal/textlist"
)

// ConditionKind says what kind of event a verdict waits for.
type ConditionKind string

const (
	OnApproval     ConditionKind = "approval"      // an approval of Version in Environment
	OnJob          ConditionKind = "job"           // a job or its verification ends: of Deployment on Resource, or of Version of Deployment in Environment or, if that is empty, anywhere
	OnDependency   ConditionKind = "dependency"    // another deployment succeeds on the resource
	OnMember       ConditionKind = "member"        // another member of the bracket ends on the resource
	OnExecutionEnd ConditionKind = "execution_end" // the open execution of Rule on Resource ends
	OnGroupClose   ConditionKind = "group_close"   // a group of Rule closes in Environment
	OnSlot         ConditionKind = "slot"          // a place in Pool becomes free; for slot_keys_full, Pool becomes empty; for slot_exclusive, nobody is at work on Resource any more
	OnAvailable    ConditionKind = "available"     // members of Pool become available
	OnRate         ConditionKind = "rate"          // the rate of Pool lets one more resource begin: at Until or, if that is zero, one period after the starts of the plan
	OnOrphan       ConditionKind = "orphan"        // the host gives back an orphan of Pool, see [Plan.Orphans]
	OnVersion      ConditionKind = "version"       // a version of Deployment appears or becomes eligible
	OnConfig       ConditionKind = "config"        // a change of the policy, the limit of Pool or the fleet
	OnFreeze       ConditionKind = "freeze"        // Freeze is left out of the snapshot, or ends earlier

	// OnOperator names no single event. With Group and Resource it is a [bracket.Command] for the
	// execution of that group on that resource; for slot_full, for the first one that holds a slot
	// of the pool, and for slot_exclusive, the resource. Without them:
	//
	//   - bracket_ended, whose execution no command begins again: [Target.OutdatedAt] is set to
	//     now, and so the next group runs the target;
	//   - retry_exhausted without a Rule, because there is no retry rule to override: such a rule is
	//     added, a job of the host's own succeeds or, where it was a [Target.OutdatedAt] that asked
	//     for the run, or the host has gone back to an older version, that is set to now;
	//   - slot_full, slot_exclusive: a job whose slot is stuck or quarantined is ended, see [Stuck];
	//   - any other verdict: an [Override] of its Rule.
	OnOperator ConditionKind = "operator"
)

// Condition is an event that can change a verdict. Which fields are set follows from the kind.
type Condition struct {
	Kind        ConditionKind `json:"kind"`
	Rule        string        `json:"rule,omitempty"`
	Environment string        `json:"environment,omitempty"`
	Deployment  string        `json:"deployment,omitempty"`
	Resource    string        `json:"resource,omitempty"`
	Version     string        `json:"version,omitempty"`
	Group       string        `json:"group,omitempty"`
	Pool        string        `json:"pool,omitempty"`
	Freeze      string        `json:"freeze,omitempty"` // id
}

// String names the event in a few words.
func (c Condition) String() string {
	switch c.Kind {
	case OnApproval:
		return fmt.Sprintf("an approval of %s in %s", textlist.Name(c.Version), textlist.Name(c.Environment))
	case OnJob:
		if c.Resource == "" {
			return strings.TrimSuffix(fmt.Sprintf("successes of %s %s in %s", textlist.Name(c.Deployment), textlist.Name(c.Version), textlist.Name(c.Environment)), " in ")
		}
		return fmt.Sprintf("the end of a job of %s on %s", textlist.Name(c.Deployment), textlist.Name(c.Resource))
	case OnDependency, OnMember:
		return fmt.Sprintf("%s on %s", textlist.Name(c.Deployment), textlist.Name(c.Resource))
	case OnExecutionEnd:
		return fmt.Sprintf("the end of the bracket on %s", textlist.Name(c.Resource))
	case OnGroupClose:
		return fmt.Sprintf("the next group in %s", textlist.Name(c.Environment))
	case OnSlot:
		if c.Resource != "" {
			return fmt.Sprintf("the end of what is at work on %s in %s", textlist.Name(c.Resource), poolName(c.Pool))
		}
		return fmt.Sprintf("a free slot in %s", poolName(c.Pool))
	case OnAvailable:
		return fmt.Sprintf("members of %s that come up", poolName(c.Pool))
	case OnRate:
		return fmt.Sprintf("the rate of %s", poolName(c.Pool))
	case OnOrphan:
		return fmt.Sprintf("the release of an orphan in %s", poolName(c.Pool))
	case OnVersion:
		return fmt.Sprintf("a version of %s", textlist.Name(c.Deployment))
	case OnConfig:
		if c.Pool != "" {
			return fmt.Sprintf("a change of the limit of %s", poolName(c.Pool))
		}
		return "a change of the policy"
	case OnFreeze:
		return fmt.Sprintf("the end of freeze %s", textlist.Name(c.Freeze))
	case OnOperator:
		if c.Group != "" {
			return fmt.Sprintf("an operator's command for %s on %s", textlist.Name(c.Group), textlist.Name(c.Resource)) // the group verbatim, as the command names it
		}
		return "an operator"
	}
	return textlist.Name(c.Kind)
}

// poolName returns the key of a pool as people read it.
func poolName(key string) string { return textlist.Name(textkey.Plain(key)) }
