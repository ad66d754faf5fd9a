package staged

import (
	"fmt"
	"strconv"
	"time"

	"github.com/tranche-dev/tranche/internal/textkey"
	"github.com/tranche-dev/tranche/internal/textlist"
)

// Action is something that the host does after it has stored the run.
type Action struct {
	Kind  ActionKind `json:"kind"`
	Stage int        `json:"stage"` // index
	// Token identifies the attempt of a start or a removal. Carrying out an action twice must have
	// the effect of carrying it out once.
	Token   Token  `json:"token,omitzero"`
	Target  string `json:"target,omitempty"`
	Version string `json:"version,omitempty"` // the version to point Target at
	// Run, Side and Name identify an approval. Name is KubeFleet's name for the request, for
	// display.
	Run  string `json:"run,omitempty"`
	Side Side   `json:"side,omitempty"`
	Name string `json:"name,omitempty"`
}

// ActionKind is what an action asks for.
type ActionKind string

// The kinds of actions.
const (
	Start           ActionKind = "start"           // point Target at Version
	Remove          ActionKind = "remove"          // remove Target, and observe that it is Gone
	RequestApproval ActionKind = "requestApproval" // make the request visible if it is not
)

// String describes the action in a few words.
func (a Action) String() string {
	if a.Kind == RequestApproval {
		return "request approval " + textlist.Name(a.Name)
	}
	return fmt.Sprintf("%s %s, attempt %d", a.Kind, textlist.Name(a.Target), a.Token.Attempt)
}

// Token identifies one attempt at one target in one run. Compare tokens with ==; use [Token.String]
// where a text is needed.
type Token struct {
	Run     string     `json:"run"`   // the ID of the run
	Stage   int        `json:"stage"` // index
	Target  string     `json:"target"`
	Attempt int        `json:"attempt"` // from 1
	Kind    ActionKind `json:"kind"`    // Start or Remove
}

// String returns a text that is unique to the token.
func (t Token) String() string {
	return textkey.Join(t.Run, strconv.Itoa(t.Stage), t.Target, strconv.Itoa(t.Attempt), string(t.Kind))
}

// ApprovalName returns KubeFleet's name for the approval request on one side of a stage. The name
// of the cleanup stage cannot be part of an object's name, so delete-stage stands for it; no other
// stage can have that name.
func ApprovalName(run string, side Side, stage string) string {
	if stage == cleanupName {
		stage = "delete-stage"
	}
	return run + "-" + string(side) + "-" + stage
}

func (p *plan) token(k int, r *record, name string) Token {
	t := Token{Run: p.spec.ID, Stage: k, Target: name, Attempt: int(r.attempt), Kind: Start}
	if p.stages[k].cleanup {
		t.Kind = Remove
	}
	return t
}

// actions lists the unacknowledged actions. All of them are in the current stage, because no other
// stage is open.
func (e *edit) actions() []Action {
	r, p := e.run, e.plan
	if r.phase.Terminal() {
		return nil
	}
	k := r.current
	s := r.stage(k)
	var list []Action
	if n := int(s.number[Starting]); n > 0 {
		list = make([]Action, 0, n+1)
	}
	s.tree.each(isStarting, func(_ int, rec *record, name string) bool {
		a := Action{Stage: k, Token: p.token(k, rec, name), Target: name}
		if a.Kind = a.Token.Kind; a.Kind == Start {
			a.Version = p.version
		}
		list = append(list, a)
		return true
	})
	for _, side := range []Side{Before, After} {
		if s.approval(side).state == ApprovalRequested {
			list = append(list, Action{Kind: RequestApproval, Stage: k, Run: p.spec.ID, Side: side, Name: ApprovalName(p.spec.Name, side, p.stages[k].name)})
		}
	}
	return list
}

// next returns the earliest instant at which the run can change without an input.
func (e *edit) next() time.Time {
	r := e.run
	if r.phase.Terminal() {
		return time.Time{}
	}
	s, p := r.stage(r.current), &e.plan.stages[r.current]
	first := s.tree.root.first.due
	if r.phase.ending() {
		first = min(first, after(r.since, e.plan.grace))
	}
	if p.waits && s.phase == StageWaitingAfter && !s.elapsed && !r.frozen() {
		first = min(first, s.waitUntil(p))
	}
	if first == never {
		return time.Time{}
	}
	return timeOf(first)
}
