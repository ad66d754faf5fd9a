package staged

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
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
//	decisions who skipped or retried members, by decision, in the order of the first position of each
type storedStage struct {
	Phase    StagePhase    `json:"phase"`
	Before   ApprovalState `json:"before,omitempty"`
	BeforeBy *Decision     `json:"beforeBy,omitempty"`
	After    ApprovalState `json:"after,omitempty"`
	AfterBy  *Decision     `json:"afterBy,omitempty"`
	Start    time.Time     `json:"start,omitzero"`
	End      time.Time     `json:"end,omitzero"`
	Settled  time.Time     `json:"settled,omitzero"`
	Paused   int64         `json:"paused,omitempty"` // nanoseconds
	Elapsed  bool          `json:"elapsed,omitempty"`

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
	Causes    map[Reason][]int `json:"causes,omitempty"`
	Decisions []storedDecision `json:"decisions,omitempty"`
}

// storedDecision is a decision about several members: a command for each, given by one person at
// one time for one reason.
type storedDecision struct {
	Members []int    `json:"members"` // positions, ascending
	Is      Decision `json:"is"`
}

// column keeps the text of a list until the whole document is known to be well formed. The list is
// then read once, as a whole.
type column []byte

// UnmarshalJSON keeps the text of a list.
func (c *column) UnmarshalJSON(data []byte) error {
	if len(data) == 0 || data[0] != '[' {
		return &FieldError{Code: CodeType, Hint: "must be a list"}
	}
	*c = append((*c)[:0], data...)
	return nil
}

// names reads a list of strings. Unless one of them has an escape or is not ASCII, all of them
// share one text.
func (c column) names() ([]string, error) {
	if len(c) == 0 {
		return nil, nil
	}
	text := string(c)
	list := make([]string, 0, strings.Count(text, ",")+1)
	for rest := text[1:]; ; {
		if rest = strings.TrimLeft(rest, ", \t\r\n"); rest[0] == ']' {
			return list, nil
		}
		end := 1
		for rest[0] == '"' && rest[end] != '"' && rest[end] != '\\' && rest[end] < utf8.RuneSelf {
			end++
		}
		if rest[0] != '"' || rest[end] != '"' {
			return read[string](c)
		}
		list = append(list, rest[1:end])
		rest = rest[end+1:]
	}
}

// numbers reads a list of whole numbers.
func (c column) numbers() ([]int64, error) {
	if len(c) == 0 {
		return nil, nil
	}
	list := make([]int64, 0, bytes.Count(c, []byte{','})+1)
	for rest := c[1:]; ; {
		if rest = bytes.TrimLeft(rest, ", \t\r\n"); rest[0] == ']' {
			return list, nil
		}
		negative := rest[0] == '-'
		if negative {
			rest = rest[1:]
		}
		n, digits := int64(0), 0
		for ; '0' <= rest[digits] && rest[digits] <= '9' && digits < 18; digits++ {
			n = n*10 + int64(rest[digits]-'0')
		}
		if next := rest[digits]; next != ',' && next != ']' {
			return read[int64](c) // spaces, many digits, or no whole number
		}
		if negative {
			n = -n
		}
		list, rest = append(list, n), rest[digits:]
	}
}

// read reads a list with encoding/json, and rejects null, which encoding/json would turn into a
// zero value.
func read[T any](c column) ([]T, error) {
	var entries []*T
	if err := json.Unmarshal(c, &entries); err != nil {
		return nil, err
	}
	list := make([]T, len(entries))
	for i, entry := range entries {
		if entry == nil {
			return nil, &FieldError{Code: CodeType, Hint: "must not hold null"}
		}
		list[i] = *entry
	}
	return list, nil
}

// letter returns the code of a record: w waiting, c waiting and current, s starting, u updating, o
// soaking, d done, g done and regressed, f failed, t timed out, x skipped, r removed. A settled
// member that was never started has the capital letter.
func (r *record) letter() byte {
	l := byte('w')
	switch r.state {
	case Waiting:
		if r.marks.has(current) {
			return 'c'
		}
		return l
	case Starting:
		l = 's'
	case Updating:
		l = 'u'
	case Soaking:
		l = 'o'
	case Done:
		l = 'd'
		if r.marks.has(regressed) {
			l = 'g'
		}
	case Failed:
		l = 'f'
	case TimedOut:
		l = 't'
	case Skipped:
		l = 'x'
	case Removed:
		l = 'r'
	}
	if !r.marks.has(started) {
		l -= 'a' - 'A'
	}
	return l
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
		Format: format, ID: p.id, Name: p.spec.Name, Namespace: p.spec.Namespace, Version: p.version,
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

// halting reports whether Run.since is valid in the phase.
func (p Phase) halting() bool {
	switch p {
	case PhaseStopping, PhaseStopped, PhaseFailing, PhaseCancelling, PhaseFailed, PhaseCancelled:
		return true
	}
	return false
}

func (s *stage) append(out []byte) ([]byte, error) {
	stored := storedStage{
		Phase: s.phase, Members: s.tree.size, PhaseSince: s.since.time(),
		BeforeRequested: s.before.requested.time(), BeforeDecided: s.before.decided.time(),
		AfterRequested: s.after.requested.time(), AfterDecided: s.after.decided.time(),
	}
	if s.before.state != ApprovalNone {
		stored.Before, stored.BeforeBy = s.before.state, s.before.by
	}
	if s.after.state != ApprovalNone {
		stored.After, stored.AfterBy = s.after.state, s.after.by
	}
	if s.begun {
		stored.Start = timeOf(s.start)
	}
	if s.phase.ended() {
		stored.End = timeOf(s.end)
	}
	if s.isSettled {
		stored.Settled, stored.Paused, stored.Elapsed = timeOf(s.settled), s.paused, s.elapsed
	}
	var (
		base, previous       int64
		based                bool
		states, starts, ends []byte
		names, attempts      []byte
		causesOf             = map[Reason][]int{}
		decided              map[Decision]int // place in stored.Decisions
		equal                int
		last                 byte
	)
	// The base is the first start in the order of the members, or the first end if no member was
	// started.
	s.tree.all(func(_ int, r *record, _ string) bool {
		if r.marks.has(started) {
			base, based = r.start, true
		}
		return !based
	})
	if !based {
		s.tree.all(func(_ int, r *record, _ string) bool {
			if r.state.Settled() {
				base, based = r.end, true
			}
			return !based
		})
	}
	previous = base
	flush := func() {
		if equal > 1 {
			states = strconv.AppendInt(states, int64(equal), 10)
		}
		if equal > 0 {
			states = append(states, last)
		}
	}
	s.tree.all(func(i int, r *record, name string) bool {
		names = appendName(comma(names), name)
		if l := r.letter(); l == last {
			equal++
		} else {
			flush()
			last, equal = l, 1
		}
		origin := base
		if r.marks.has(started) {
			starts = strconv.AppendInt(comma(starts), r.start-previous, 10)
			previous, origin = r.start, r.start
		}
		if r.state.Settled() || r.state == Soaking {
			ends = strconv.AppendInt(comma(ends), r.end-origin, 10)
		}
		if r.attempt > 1 {
			attempts = append(strconv.AppendInt(comma(attempts), int64(i), 10), ',')
			attempts = strconv.AppendUint(attempts, uint64(r.attempt), 10)
		}
		if r.cause != noCause {
			causesOf[r.cause.reason()] = append(causesOf[r.cause.reason()], i)
		}
		if d := s.told.find(i); d != nil {
			n, known := decided[*d]
			if !known {
				if decided == nil {
					decided = map[Decision]int{}
				}
				n = len(stored.Decisions)
				decided[*d] = n
				stored.Decisions = append(stored.Decisions, storedDecision{Is: *d})
			}
			stored.Decisions[n].Members = append(stored.Decisions[n].Members, i)
		}
		return true
	})
	flush()
	stored.States, stored.Causes = string(states), causesOf
	if based {
		stored.From = timeOf(base)
	}
	head, err := json.Marshal(stored)
	if err != nil {
		return nil, err
	}
	out = append(out, head[:len(head)-1]...)
	for _, c := range []struct {
		name string
		list []byte
	}{{"names", names}, {"starts", starts}, {"ends", ends}, {"attempts", attempts}} {
		if len(c.list) > 0 {
			out = append(append(append(out, `,"`...), c.name...), `":[`...)
			out = append(append(out, c.list...), ']')
		}
	}
	return append(out, '}'), nil
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
