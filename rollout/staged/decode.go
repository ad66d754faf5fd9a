package staged

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/tranche-dev/tranche/internal/strictjson"
)

// UnmarshalJSON reads what [Run.MarshalJSON] writes. Null leaves the run unchanged. If the parts of
// a stored run contradict each other, because it was damaged or edited, the run is unchanged and
// the error joins the faults, each a *[FieldError]. Such faults are more members in progress than
// the limit, a closed stage after an open one, open members in a settled stage, a task that is over
// before its time, an approval that was decided before it was requested, a run that waits for an
// approval that is given or for nothing at all, or wrong counts.
//
// A field that this version does not know is a fault too: a newer version may have stored it, and a
// step would lose what it says. So let all controllers read a run with a newer version before one of
// them relies on what is new in it. What an older version stored is read as long as the format is
// the same.
func (r *Run) UnmarshalJSON(data []byte) error {
	if string(bytes.TrimSpace(data)) == "null" {
		return nil
	}
	var d document
	if err := strictjson.Unmarshal(data, &d); err != nil {
		return decodeFaults("", err)
	}
	decoded, err := d.run()
	if err == nil {
		*r = *decoded
	}
	return err
}

// mostFaults is how many faults of names or of stages are told: there may be one in each of a
// hundred thousand.
const mostFaults = 20

// decoder collects the faults of a stored run.
type decoder struct {
	faults
	run *Run
}

func (d *decoder) wrong(path, format string, args ...any) {
	d.add(CodeFormat, path, "", fmt.Sprintf(format, args...))
}

func (d *document) run() (*Run, error) {
	c := &decoder{}
	p := d.plan(c)
	if p == nil {
		return nil, c.err()
	}
	if p.hash != d.Hash {
		c.wrong("hash", "is not that of the strategy")
	}
	if len(d.Stages) != len(p.stages) {
		c.wrong("stages", "must be %d by the strategy, with the cleanup, not %d", len(p.stages), len(d.Stages))
		return nil, c.err()
	}
	r := &Run{plan: p, desired: d.State, phase: d.Phase, current: d.Current, begun: !d.Time.IsZero()}
	c.run = r
	r.time = c.instant("time", d.Time)
	r.first, r.phased = c.noted("begun", d.Begun), c.noted("phaseSince", d.PhaseSince)
	if r.phase.halting() {
		r.since = c.instant("since", d.Since)
		if d.Since.IsZero() || r.since > r.time {
			c.wrong("since", "must be given, and not after time")
		}
	} else if !d.Since.IsZero() {
		c.wrong("since", "must be left out in phase %s", d.Phase)
	}
	if r.cancelled = c.decision("cancelled", d.Cancelled); r.cancelled != nil && r.phase != PhaseCancelling && r.phase != PhaseCancelled {
		c.wrong("cancelled", "must be left out in phase %s", d.Phase)
	}
	if d.Current < 0 || d.Current > len(p.stages) {
		c.wrong("current", "must be the index of a stage, or their number")
		return nil, c.err()
	}
	c.members(d.Stages)
	if len(c.faults) > 0 {
		return nil, c.err()
	}
	for k := 0; k < len(d.Stages) && len(c.faults) < mostFaults; k++ {
		c.checkStage(k)
	}
	c.checkRun()
	if len(c.faults) > 0 {
		return nil, c.err()
	}
	return r, nil
}

// plan reads what never changes in a run. It returns nil if there is a fault.
func (d *document) plan(c *decoder) *plan {
	if d.Format != format {
		c.wrong("format", "is %d, and this version of the library reads %d: let the version that wrote the run end it, or compile a new one", d.Format, format)
		return nil
	}
	var (
		spec     Spec
		strategy Strategy
		options  Options
	)
	read := func(path string, raw []byte, decode func([]byte) error, validate func() error) {
		if len(raw) == 0 {
			c.wrong(path, "must be there")
			return
		}
		for _, err := range strictjson.Parts(strictjson.Join(decode(raw), validate())) {
			c.wrong(path, "%v", err)
		}
	}
	read("spec", d.Spec, spec.UnmarshalJSON, func() error {
		spec.ID, spec.Name, spec.Namespace = d.ID, d.Name, d.Namespace
		return spec.Validate()
	})
	read("strategy", d.Strategy, strategy.UnmarshalJSON, func() error {
		strategy.groups = d.Groups
		return strategy.Validate()
	})
	read("options", d.Options, options.UnmarshalJSON, func() error { return options.Validate() })
	if d.ID == "" {
		c.wrong("id", "must not be empty")
	}
	if d.Version == "" {
		c.wrong("version", "must not be empty")
	}
	if len(c.faults) > 0 {
		return nil
	}
	p, err := newPlan(strategy, spec, d.Version, options)
	if err != nil {
		c.wrong("strategy", "%v", err)
		return nil
	}
	return p
}

// instant returns the nanoseconds since 1970. It returns 0 for the zero time, which means that
// there is none.
func (d *decoder) instant(path string, t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	instant, fault := instantOf(t)
	if fault != nil {
		d.add(CodeFormat, path, fault.Value, fault.Hint)
	}
	return instant
}

// noted returns an instant that may be missing.
func (d *decoder) noted(path string, t time.Time) noted {
	if t.IsZero() {
		return 0
	}
	return notedAt(d.instant(path, t))
}

// members builds the stages from their columns, and builds the index.
func (d *decoder) members(stored []storedStage) {
	r := d.run
	var all []string
	from := make([]int32, len(stored)+1)
	for k := range stored {
		names, err := stored[k].Names.names()
		if err != nil {
			d.wrong(inStage(k, "names"), "%v", err)
			return
		}
		all = append(all, names...)
		if len(all) >= math.MaxInt32 {
			d.wrong("stages", "have too many members")
			return
		}
		from[k+1] = int32(len(all))
	}
	all = slices.Clip(all)
	list := make([]*stage, len(stored))
	for k := range stored {
		if list[k] = d.stage(k, &stored[k], all[from[k]:from[k+1]]); list[k] == nil || len(d.faults) >= mostFaults {
			return
		}
	}
	r.plan.index = newIndex(all, from)
	// Each name occurs once. The exception is a target that moved to the cleanup: it occurs there
	// and, settled, in its stage.
	cleanup := len(stored) - 1
	for k := range stored {
		list[k].tree.all(func(i int, rec *record, name string) bool {
			at := place{int32(k), int32(i)}
			h := hash(name)
			first, _ := r.plan.index.find(name, h)
			switch {
			case !targetName(name):
				d.wrong(fmt.Sprintf("stages[%d].names[%d]", k, i), hintName)
			case first == at:
			case k == cleanup && int(first.stage) != cleanup && r.joined.find(name, h) == nil && r.plan.options.LateLeaving == Clean && list[first.stage].memberSettled(int(first.member)):
				r.joined = r.joined.put(name, h, residence{at, first})
				home := list[first.stage]
				was, _ := home.tree.at(int(first.member)) // still the decoder's own
				home.count(was, -1)
				was.marks |= moved
				home.count(was, 1)
			default:
				d.wrong(fmt.Sprintf("stages[%d].names[%d]", k, i), "%q is there twice", name)
			}
			return len(d.faults) < mostFaults
		})
	}
	r.setStages(list)
}

// stage builds one stage. It returns nil if the columns contradict each other.
func (d *decoder) stage(k int, from *storedStage, names []string) *stage {
	path := func(field string) string { return inStage(k, field) }
	s := &stage{phase: from.Phase, paused: from.Paused, elapsed: from.Elapsed}
	approvalOf := func(side Side, state ApprovalState, by *Decision, requested, decided time.Time) approval {
		field := string(side)
		return approval{
			cmp.Or(state, ApprovalNone), d.decision(path(field+"By"), by),
			d.noted(path(field+"Requested"), requested), d.noted(path(field+"Decided"), decided),
		}
	}
	s.before = approvalOf(Before, from.Before, from.BeforeBy, from.BeforeRequested, from.BeforeDecided)
	s.after = approvalOf(After, from.After, from.AfterBy, from.AfterRequested, from.AfterDecided)
	s.settled = d.noted(path("settled"), from.Settled)
	s.ended, s.endedBy = d.noted(path("waitEnded"), from.WaitEnded), d.decision(path("waitEndedBy"), from.WaitEndedBy)
	s.start = d.noted(path("start"), from.Start)
	s.end = d.noted(path("end"), from.End)
	s.since = d.noted(path("phaseSince"), from.PhaseSince)
	if from.End.IsZero() == s.phase.ended() {
		d.wrong(path("end"), "must be there if, and only if, the stage is closed or failed")
	}
	if from.Members != len(names) {
		d.wrong(path("members"), "is %d, but there are %d names", from.Members, len(names))
		return nil
	}
	records, err := expand(from.States, len(names))
	if err != "" {
		d.wrong(path("states"), "%s", err)
		return nil
	}
	d.times(k, from, records)
	attempts, ok := d.numbers(path("attempts"), from.Attempts)
	if !ok {
		return nil
	}
	d.sparse(k, attempts, from.Causes, records)
	s.decisions = d.decisions(inStage(k, "decisions"), from.Decisions, records, func(r *record) string {
		if r.state != Skipped && r.attempt == 1 {
			return "must have been skipped or retried"
		}
		return ""
	})
	s.holds = d.decisions(inStage(k, "suspended"), from.Suspended, records, func(r *record) string {
		if r.state != Waiting {
			return "must be waiting"
		}
		r.marks |= suspended
		return ""
	})
	s.tree = newTree(names, records, &d.run.plan.stages[k].timing)
	if values, ok := d.groupColumns(k, from, len(names)); !ok {
		return nil
	} else if d.run.plan.stages[k].groupBy != "" {
		s.groups = d.run.plan.newGrouping(k, values, records)
	}
	for i := range records {
		s.count(&records[i], 1)
	}
	s.over = d.run.plan.over(k, s)
	return s
}

// groupColumns returns the value of each member by which a stage groups, and no values if it has no
// groups.
func (d *decoder) groupColumns(k int, from *storedStage, members int) (of []string, ok bool) {
	values, err := from.Groups.names()
	if err != nil {
		d.wrong(inStage(k, "groups"), "%v", err)
		return nil, false
	}
	numbers, ok := d.numbers(inStage(k, "groupOf"), from.GroupOf)
	if !ok {
		return nil, false
	}
	if d.run.plan.stages[k].groupBy == "" {
		members = 0
	}
	if len(numbers) != members {
		d.wrong(inStage(k, "groupOf"), "must be there for each member of a stage with groups, and for nothing else: %d are needed, not %d", members, len(numbers))
		return nil, false
	}
	known, first := 0, make(map[string]bool, len(values))
	for i, n := range numbers {
		if n < 0 || n > int64(known) || n >= int64(len(values)) {
			d.wrong(inStage(k, "groupOf"), "must be indexes of groups, in the order of their first members: position %d", i)
			return nil, false
		}
		if of = append(of, values[n]); n == int64(known) {
			known++
		}
	}
	for n, value := range values {
		if n >= known || first[value] || !utf8.ValidString(value) {
			d.wrong(inStage(k, "groups"), "must each be there once, for a member, in valid UTF-8: index %d", n)
			return nil, false
		}
		first[value] = true
	}
	return of, true
}

// decision returns what a command said of itself, as a step keeps it. It returns nil if there is
// nothing.
func (d *decoder) decision(path string, is *Decision) *Decision {
	if is == nil {
		return nil
	}
	if is.At.IsZero() {
		d.wrong(path+".at", "must be there")
		return nil
	}
	return &Decision{By: is.By, At: timeOf(d.instant(path+".at", is.At)), Reason: is.Reason}
}

// decisions reads decisions about the members of a stage. take says what is wrong with a member that
// has one.
func (d *decoder) decisions(path string, list []storedDecision, records []record, take func(*record) string) (decisions *trie[int, *Decision]) {
	first := -1
	for n := range list {
		path := at(path, n)
		is := d.decision(path+".is", &list[n].Is)
		if is == nil {
			return nil
		}
		positions, last := list[n].Members, first
		for _, i := range positions {
			if i <= last || i >= len(records) || decisions.find(i, uint64(i)) != nil {
				d.wrong(path+".members", "must be ascending positions, each once in all decisions, the first after that of the decision before")
				return nil
			}
			if wrong := take(&records[i]); wrong != "" {
				d.wrong(path+".members", "%s: position %d", wrong, i)
				return nil
			}
			decisions = decisions.put(i, uint64(i), is)
			last = i
		}
		if len(positions) == 0 {
			d.wrong(path+".members", "must name a member")
			return nil
		}
		first = positions[0]
	}
	return decisions
}
