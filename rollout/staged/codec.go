package staged

import (
	"encoding/json"
	"strconv"
	"time"
)

// format is the version of the stored form. Version 1 had no times of stages.
const format = 2

// document is the stored form of a run, with the columns of its stages left as text. The spec, the
// strategy and the options stay raw, so that their own decoders read each of them once.
type document struct {
	Format    int             `json:"format"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Namespace string          `json:"namespace,omitempty"`
	Spec      json.RawMessage `json:"spec"`
	Version   string          `json:"version"`
	Strategy  json.RawMessage `json:"strategy"`
	Groups    bool            `json:"groups,omitempty"` // the stages are decision groups
	Options   json.RawMessage `json:"options"`
	Hash      string          `json:"hash"`
	State     State           `json:"state"`
	Phase     Phase           `json:"phase"`
	Time      time.Time       `json:"time,omitzero"`
	Since     time.Time       `json:"since,omitzero"`
	// These two are only shown, and so are five times of a stage. An older version stored none
	// of them in the same format, so each may be missing.
	Begun      time.Time     `json:"begun,omitzero"`
	PhaseSince time.Time     `json:"phaseSince,omitzero"`
	Current    int           `json:"current"`
	Cancelled  *Decision     `json:"cancelled,omitempty"`
	Stages     []storedStage `json:"stages,omitempty"`
}

// storedStage is one stage. Its members are stored as columns, so that what most members share
// takes no space. Of what follows from the columns only the number of members is stored, as a
// check.
//
//	names     the members, in order
//	states    one letter each, with a count in front of several equal ones: "97d3u900w"; see letter
//	from      the first start in the order of the members, or the first end if no member was started
//	starts    for each started member, nanoseconds after the start of the started member before it, the first after from
//	ends      for each settled or soaking member, nanoseconds after its own start, or after from if it was never started
//	attempts  pairs of a position and an attempt above 1
//	causes    positions of failed and regressed members, by cause
//	groups    the values of the label by which the stage groups, in the order of their first members
//	groupOf   for each member, the index of its value among them
//	decisions who skipped or retried members, by decision, in the order of the first position of each
//	suspended who suspended members, in the same way
type storedStage struct {
	Phase       StagePhase    `json:"phase"`
	Before      ApprovalState `json:"before,omitempty"`
	BeforeBy    *Decision     `json:"beforeBy,omitempty"`
	After       ApprovalState `json:"after,omitempty"`
	AfterBy     *Decision     `json:"afterBy,omitempty"`
	Start       time.Time     `json:"start,omitzero"`
	End         time.Time     `json:"end,omitzero"`
	Settled     time.Time     `json:"settled,omitzero"`
	Paused      int64         `json:"paused,omitempty"` // nanoseconds
	Elapsed     bool          `json:"elapsed,omitempty"`
	WaitEnded   time.Time     `json:"waitEnded,omitzero"` // by a command
	WaitEndedBy *Decision     `json:"waitEndedBy,omitempty"`

	// These five are the ones that document mentions.
	BeforeRequested time.Time `json:"beforeRequested,omitzero"`
	BeforeDecided   time.Time `json:"beforeDecided,omitzero"`
	AfterRequested  time.Time `json:"afterRequested,omitzero"`
	AfterDecided    time.Time `json:"afterDecided,omitzero"`
	PhaseSince      time.Time `json:"phaseSince,omitzero"` // missing if the stage has ended: it is End

	Members   int              `json:"members"`
	Names     column           `json:"names,omitempty"`
	States    string           `json:"states,omitempty"`
	From      time.Time        `json:"from,omitzero"`
	Starts    column           `json:"starts,omitempty"`
	Ends      column           `json:"ends,omitempty"`
	Attempts  column           `json:"attempts,omitempty"`
	Groups    column           `json:"groups,omitempty"`
	GroupOf   column           `json:"groupOf,omitempty"`
	Causes    map[Reason][]int `json:"causes,omitempty"`
	Decisions []storedDecision `json:"decisions,omitempty"`
	Suspended []storedDecision `json:"suspended,omitempty"`
}

// storedDecision is a decision about several members: a command for each, given by one person at
// one time for one reason.
type storedDecision struct {
	Members []int    `json:"members"` // positions, ascending
	Is      Decision `json:"is"`
}

// MarshalJSON writes the stored form. Equal runs give equal bytes. The error for the zero Run is
// [ErrNoRun]. The receiver is a value so that a Run in a field of a host's record is written as a
// pointer to one is: with a pointer receiver, encoding/json would write the field as {}.
func (r Run) MarshalJSON() ([]byte, error) {
	if r.plan == nil {
		return nil, ErrNoRun
	}
	p := r.plan
	d := document{
		Format: format, ID: p.spec.ID, Name: p.spec.Name, Namespace: p.spec.Namespace, Version: p.version,
		Groups: p.strategy.groups, Hash: p.hash, State: r.desired, Phase: r.phase, Current: r.current, Cancelled: r.cancelled,
		Begun: r.first.time(), PhaseSince: r.phased.time(),
	}
	if r.begun {
		d.Time = timeOf(r.time)
	}
	if r.phase.halting() {
		d.Since = timeOf(r.since)
	}
	var err error
	for _, part := range []struct {
		into *json.RawMessage
		from any
	}{{&d.Spec, p.spec}, {&d.Strategy, p.strategy}, {&d.Options, p.options}} {
		if *part.into, err = json.Marshal(part.from); err != nil {
			return nil, err
		}
	}
	head, err := json.Marshal(d)
	if err != nil {
		return nil, err
	}
	out := append(head[:len(head)-1], `,"stages":[`...)
	for k := range r.count() {
		if k > 0 {
			out = append(out, ',')
		}
		if out, err = r.stage(k).append(out); err != nil {
			return nil, err
		}
	}
	return append(out, "]}"...), nil
}

// append writes the stored form of a stage: what is not a column first, as encoding/json does it,
// because the columns can be long.
func (s *stage) append(out []byte) ([]byte, error) {
	stored := s.stored()
	var columns memberColumns
	columns.write(s, &stored)
	head, err := json.Marshal(stored)
	if err != nil {
		return nil, err
	}
	out = append(out, head[:len(head)-1]...)
	for _, c := range []struct {
		name string
		list []byte
	}{{"names", columns.names}, {"starts", columns.starts}, {"ends", columns.ends}, {"attempts", columns.attempts}, {"groups", columns.groups}, {"groupOf", columns.groupOf}} {
		if len(c.list) > 0 {
			out = append(append(append(out, `,"`...), c.name...), `":[`...)
			out = append(append(out, c.list...), ']')
		}
	}
	return append(out, '}'), nil
}

// stored returns the stored form of a stage without its members.
func (s *stage) stored() storedStage {
	stored := storedStage{
		Phase: s.phase, Members: s.tree.size, PhaseSince: s.since.time(),
		Start: s.start.time(), End: s.end.time(), Settled: s.settled.time(), Paused: s.paused, Elapsed: s.elapsed,
		WaitEnded: s.ended.time(), WaitEndedBy: s.endedBy,
		BeforeRequested: s.before.requested.time(), BeforeDecided: s.before.decided.time(),
		AfterRequested: s.after.requested.time(), AfterDecided: s.after.decided.time(),
	}
	if s.before.state != ApprovalNone {
		stored.Before, stored.BeforeBy = s.before.state, s.before.by
	}
	if s.after.state != ApprovalNone {
		stored.After, stored.AfterBy = s.after.state, s.after.by
	}
	return stored
}

// firstTime returns the first start in the order of the members, or the first end if no member was
// started, and whether there is one.
func (s *stage) firstTime() (first int64, ok bool) {
	s.tree.all(func(_ int, r *record, _ string) bool {
		if r.marks.has(started) {
			first, ok = r.start, true
			return false
		}
		if r.state.Settled() && !ok {
			first, ok = r.end, true
		}
		return true
	})
	return first, ok
}

// memberColumns are the columns that are lists, without their brackets.
type memberColumns struct {
	names, starts, ends, attempts, groups, groupOf []byte
}

// write adds the members of a stage to its columns, and to its stored form what most members do not
// have.
func (c *memberColumns) write(s *stage, stored *storedStage) {
	base, timed := s.firstTime()
	if timed {
		stored.From = timeOf(base)
	}
	var (
		states   letters
		previous = base
		known    int32 // groups
		decided  = decisionColumn{place: map[Decision]int{}}
		held     = decisionColumn{place: map[Decision]int{}}
	)
	stored.Causes = map[Reason][]int{}
	s.tree.all(func(i int, r *record, name string) bool {
		c.names = appendName(comma(c.names), name)
		states.add(r.letter())
		origin := base
		if r.marks.has(started) {
			c.starts = strconv.AppendInt(comma(c.starts), r.start-previous, 10)
			previous, origin = r.start, r.start
		}
		if r.state.Settled() || r.state == Soaking {
			c.ends = strconv.AppendInt(comma(c.ends), r.end-origin, 10)
		}
		if r.attempt > 1 {
			c.attempts = append(strconv.AppendInt(comma(c.attempts), int64(i), 10), ',')
			c.attempts = strconv.AppendUint(c.attempts, uint64(r.attempt), 10)
		}
		if r.cause != noCause {
			stored.Causes[r.cause.reason()] = append(stored.Causes[r.cause.reason()], i)
		}
		if s.groups != nil {
			n := s.groups.seat(i).group
			if n == known {
				c.groups, known = appendName(comma(c.groups), s.groups.group(int(n)).value), known+1
			}
			c.groupOf = strconv.AppendInt(comma(c.groupOf), int64(n), 10)
		}
		decided.add(i, s.decision(i))
		if r.marks.has(suspended) {
			held.add(i, s.suspendedBy(i))
		}
		return true
	})
	stored.Decisions, stored.Suspended = decided.list, held.list
	states.flush()
	stored.States = string(states.text)
}

// decisionColumn collects decisions about members, each once.
type decisionColumn struct {
	list  []storedDecision
	place map[Decision]int // in the list
}

// add files a member under what was said of it, if anything was.
func (c *decisionColumn) add(i int, d *Decision) {
	if d == nil {
		return
	}
	n, known := c.place[*d]
	if !known {
		n = len(c.list)
		c.place[*d] = n
		c.list = append(c.list, storedDecision{Is: *d})
	}
	c.list[n].Members = append(c.list[n].Members, i)
}

func comma(list []byte) []byte {
	if len(list) > 0 {
		return append(list, ',')
	}
	return list
}

// appendName writes a string as encoding/json does; names of clusters need no escape.
func appendName(out []byte, name string) []byte {
	for i := range len(name) {
		if c := name[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			text, _ := json.Marshal(name) // no string is refused
			return append(out, text...)
		}
	}
	return append(append(append(out, '"'), name...), '"')
}
