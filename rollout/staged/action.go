package staged

import (
	"fmt"
	"strconv"
	"time"

	"github.com/tranche-dev/tranche/internal/textkey"
)

// Action is something to be done by the host after it has stored the run.
type Action struct {
	Kind  ActionKind `json:"kind"`
	Stage int        `json:"stage"` // index
	// Token identifies the attempt of a start or a removal. Doing an action twice must have the
	// effect of doing it once.
	Token   Token  `json:"token,omitzero"`
	Target  string `json:"target,omitempty"`
	Version string `json:"version,omitempty"` // what to point the target at
	// Run, Side and Name identify an approval; Name is what KubeFleet calls the request, for
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

// String says it in a few words.
func (a Action) String() string {
	if a.Kind == RequestApproval {
		return "request approval " + a.Name
	}
	return fmt.Sprintf("%s %s, attempt %d", a.Kind, a.Target, a.Token.Attempt)
}

// Token identifies one attempt at one target in one run. Tokens are compared with ==; hosts that
// need a text use [Token.String].
type Token struct {
	Run     string     `json:"run"`
	Stage   int        `json:"stage"`
	Target  string     `json:"target"`
	Attempt int        `json:"attempt"` // from 1
	Kind    ActionKind `json:"kind"`    // Start or Remove
}

// String returns a text that no other token has.
func (t Token) String() string {
	return textkey.Join(t.Run, strconv.Itoa(t.Stage), t.Target, strconv.Itoa(t.Attempt), string(t.Kind))
}

// ApprovalName is what KubeFleet calls the approval request on one side of a stage. Objects cannot
// be named after the cleanup, so that it is delete-stage there, which is no name of another stage.
func ApprovalName(run string, side Side, stage string) string {
	if stage == cleanupName {
		stage = "delete-stage"
	}
	return run + "-" + string(side) + "-" + stage
}

func (p *plan) token(k int, r *record, name string) Token {
	t := Token{Run: p.id, Stage: k, Target: name, Attempt: int(r.attempt), Kind: Start}
	if p.stages[k].cleanup {
		t.Kind = Remove
	}
	return t
}

// actions lists what is not acknowledged: all of it in the current stage, because no other is open.
func (e *edit) actions() []Action {
	r, p := e.run, e.plan
	if r.phase.Terminal() {
		return nil
	}
	k := r.current
	s := r.stage(k)
	var list []Action
	if n := s.number[Starting]; n > 0 {
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
	request := func(side Side, state ApprovalState) {
		if state == ApprovalRequested {
			list = append(list, Action{Kind: RequestApproval, Stage: k, Run: p.id, Side: side, Name: ApprovalName(p.spec.Name, side, p.stages[k].name)})
		}
	}
	request(Before, s.before)
	request(After, s.after)
	return list
}

// next is the earliest instant at which anything can change by itself.
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
