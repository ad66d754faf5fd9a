package staged

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/tranche-dev/tranche/internal/strictjson"
)

// UnmarshalJSON reads what [Run.MarshalJSON] writes. Null leaves the run unchanged. If the parts of
// a stored run contradict each other, because it was damaged or edited, the run is unchanged and
// the error joins the faults, each a *[FieldError]. Such faults are more members in progress than
// the limit, a closed stage after an open one, open members in a settled stage, a task that is over
// before its time, or wrong counts.
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
	if d.Format != format {
		c.wrong("format", "is %d, and this version of the library reads %d: let the version that wrote the run end it, or compile a new one", d.Format, format)
		return nil, c.err()
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
		for _, err := range strictjson.Parts(errors.Join(decode(raw), validate())) {
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
		return nil, c.err()
	}
	p, err := newPlan(strategy, spec, d.Version, options)
	if err != nil {
		return nil, err
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
	for k := range d.Stages {
		c.checkStage(k)
	}
	c.checkRun()
	if len(c.faults) > 0 {
		return nil, c.err()
	}
	return r, nil
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
		if list[k] = d.stage(k, &stored[k], all[from[k]:from[k+1]]); list[k] == nil {
			return
		}
	}
	r.setStages(list)
	r.plan.index = newIndex(all, from)
	// Each name occurs once. The exception is a target that moved to the cleanup: it occurs there
	// and, settled, in its stage.
	cleanup := len(stored) - 1
	for k := range stored {
		list[k].tree.all(func(i int, rec *record, name string) bool {
			at := place{int32(k), int32(i)}
			first, _ := r.plan.index.find(name)
			switch {
			case !targetName(name):
				d.wrong(fmt.Sprintf("stages[%d].names[%d]", k, i), "must be a name: not empty, valid UTF-8")
			case first == at:
			case k == cleanup && int(first.stage) != cleanup && r.joined.find(name) == nil && r.plan.options.LateLeaving == Clean && list[first.stage].memberSettled(int(first.member)):
				r.joined = r.joined.put(name, at, first)
			default:
				d.wrong(fmt.Sprintf("stages[%d].names[%d]", k, i), "%q is there twice", name)
			}
			return len(d.faults) < 20
		})
	}
}

// longest is how far a time may lie before that of the run, in nanoseconds, so that an int64 holds
// the distance between any two times.
const longest = math.MaxInt64 / 2

// stage builds one stage. It returns nil if the columns contradict each other.
func (d *decoder) stage(k int, from *storedStage, names []string) *stage {
	path := func(field string) string { return inStage(k, field) }
	s := &stage{phase: from.Phase, before: cmp.Or(from.Before, ApprovalNone), after: cmp.Or(from.After, ApprovalNone), paused: from.Paused, elapsed: from.Elapsed}
	s.beforeBy, s.afterBy = d.decision(path("beforeBy"), from.BeforeBy), d.decision(path("afterBy"), from.AfterBy)
	s.isSettled, s.settled = !from.Settled.IsZero(), d.instant(path("settled"), from.Settled)
	s.begun, s.start = !from.Start.IsZero(), d.instant(path("start"), from.Start)
	s.end = d.instant(path("end"), from.End)
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
	if !d.times(k, from, records) {
		return nil
	}
	attempts, ok := d.numbers(path("attempts"), from.Attempts)
	if !ok {
		return nil
	}
	d.sparse(k, attempts, from.Causes, records)
	s.tree = newTree(names, records, &d.run.plan.stages[k].timing)
	s.told = d.decisions(k, from.Decisions, records)
	d.count(k, s, records)
	return s
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

// decisions reads the decisions about the members of a stage.
func (d *decoder) decisions(k int, list []storedDecision, records []record) (told *decisions) {
	first := -1
	for n := range list {
		path := inStage(k, fmt.Sprintf("decisions[%d]", n))
		is := d.decision(path+".is", &list[n].Is)
		if is == nil {
			return nil
		}
		positions, last := list[n].Members, first
		for _, i := range positions {
			if i <= last || i >= len(records) || told.find(i) != nil {
				d.wrong(path+".members", "must be ascending positions, each once in all decisions, the first after that of the decision before")
				return nil
			}
			if r := &records[i]; r.state != Skipped && r.attempt == 1 {
				d.wrong(path+".members", "must have been skipped or retried: position %d", i)
				return nil
			}
			told = told.put(i, is, i)
			last = i
		}
		if len(positions) == 0 {
			d.wrong(path+".members", "must name a member")
			return nil
		}
		first = positions[0]
	}
	return told
}

func (d *decoder) numbers(path string, from column) ([]int64, bool) {
	list, err := from.numbers()
	if err != nil {
		d.wrong(path, "%v", err)
	}
	return list, err == nil
}

// times reads the starts and ends of the members of a stage, and reports whether the columns fit
// the states. Each start counts from the start before it, the first from the stage's own instant.
// Each end counts from the start of its member, or from the stage's own instant if the member has
// no start.
func (d *decoder) times(k int, from *storedStage, records []record) bool {
	base := d.instant(inStage(k, "from"), from.From)
	starts, ok := d.timeColumn(inStage(k, "starts"), from.Starts)
	if !ok {
		return false
	}
	ends, ok := d.timeColumn(inStage(k, "ends"), from.Ends)
	if !ok {
		return false
	}
	first := starts.left
	if len(first) == 0 {
		first = ends.left
	}
	if (len(first) == 0) != from.From.IsZero() {
		d.wrong(inStage(k, "from"), "must be there if, and only if, there are times")
		return false
	}
	if len(first) > 0 && first[0] != 0 {
		d.wrong(inStage(k, "from"), "must be the first time")
		return false
	}
	if now := d.run.time; len(first) > 0 && (base > now || base < max(now, math.MinInt64+longest)-longest) {
		d.wrong(inStage(k, "from"), "must not be after the time of the run, nor more than 146 years before")
		return false
	}
	previous, stuckAfter := base, d.run.plan.stages[k].timing.stuckAfter
	for i := range records {
		r := &records[i]
		origin := base
		if r.marks.has(started) {
			if r.start, ok = starts.next(previous); !ok {
				return false
			}
			previous, origin = r.start, r.start
		}
		if r.state.Settled() || r.state == Soaking {
			if r.end, ok = ends.next(origin); !ok {
				return false
			}
			if r.end < origin && r.marks.has(started) {
				d.wrong(inStage(k, "ends"), "has an end before its start")
				return false
			}
		}
		if (r.state == Starting || r.state == Updating) && after(r.start, stuckAfter) <= d.run.time {
			r.marks |= stuck
		}
	}
	if len(starts.left)+len(ends.left) > 0 {
		d.wrong(inStage(k, "starts"), "or ends have too many entries for the states")
		return false
	}
	return true
}

// timeColumn is a list of times that is read from the front.
type timeColumn struct {
	*decoder
	path string
	left []int64
}

func (d *decoder) timeColumn(path string, from column) (timeColumn, bool) {
	list, ok := d.numbers(path, from)
	return timeColumn{d, path, list}, ok
}

// next removes the first entry and returns the time that lies so far after the origin. The origin
// has passed the same checks.
func (c *timeColumn) next(origin int64) (int64, bool) {
	if len(c.left) == 0 {
		c.wrong(c.path, "has too few entries for the states")
		return 0, false
	}
	v, most := c.left[0], c.run.time-origin
	c.left = c.left[1:]
	if v > most {
		c.wrong(c.path, "has a time after that of the run")
		return 0, false
	}
	if v < most-longest {
		c.wrong(c.path, "has a time more than 146 years before that of the run")
		return 0, false
	}
	return origin + v, true
}

// count adds up the states of a stage, and those of the run.
func (d *decoder) count(k int, s *stage, records []record) {
	t := &d.run.totals
	for i := range records {
		r := &records[i]
		s.number[r.state]++
		s.regressed += toInt(r.marks.has(regressed))
		s.stuck += toInt(r.marks.has(stuck))
		t.unhappy += toInt(unhappy(r.state))
	}
	t.regressed += s.regressed
	if !d.run.plan.stages[k].cleanup {
		t.members += len(records)
		t.failures += s.failures()
	}
	t.over += toInt(d.run.plan.over(k, s))
}

// expand reads the states of n members.
func expand(states string, n int) (records []record, fault string) {
	records = make([]record, 0, n)
	last := byte(0)
	for states != "" {
		digits := digitsOf(states)
		count := 1
		if digits != "" {
			count = 0
			for _, c := range []byte(digits) {
				if count = count*10 + int(c-'0'); count > n {
					return nil, "have more entries than there are names"
				}
			}
			if count < 2 || digits[0] == '0' {
				return nil, "must have counts from 2, without leading zeros"
			}
		}
		if states = states[len(digits):]; states == "" {
			return nil, "end with a count"
		}
		r, ok := recordOf(states[0])
		switch {
		case !ok:
			return nil, fmt.Sprintf("have the unknown state %q", states[0])
		case states[0] == last:
			return nil, fmt.Sprintf("have %q twice in a row without a count", last)
		case len(records)+count > n:
			return nil, "have more entries than there are names"
		}
		last, states = states[0], states[1:]
		for range count {
			records = append(records, r)
		}
	}
	if len(records) != n {
		return nil, fmt.Sprintf("have %d entries for %d names", len(records), n)
	}
	return records, ""
}

// recordOf is the inverse of [record.letter].
func recordOf(letter byte) (record, bool) {
	r := record{attempt: 1}
	lower := letter | ('a' - 'A')
	switch lower {
	case 'w':
	case 'c':
		r.marks = current
	case 's':
		r.state = Starting
	case 'u':
		r.state = Updating
	case 'o':
		r.state = Soaking
	case 'd':
		r.state = Done
	case 'g':
		r.state, r.marks = Done, regressed
	case 'f':
		r.state = Failed
	case 't':
		r.state = TimedOut
	case 'x':
		r.state = Skipped
	case 'r':
		r.state = Removed
	default:
		return r, false
	}
	if r.state != Waiting && lower == letter {
		r.marks |= started
	}
	// A member that is in progress or timed out was started, and a waiting member has no capital
	// letter.
	return r, lower == letter || r.state.Settled() && r.state != TimedOut
}

// sparse reads attempts and causes.
func (d *decoder) sparse(k int, attempts []int64, causesOf map[Reason][]int, records []record) {
	last := int64(-1)
	for i := 0; i < len(attempts); i += 2 {
		if i+1 == len(attempts) || attempts[i] <= last || attempts[i] >= int64(len(records)) || attempts[i+1] < 2 || attempts[i+1] > math.MaxInt32 {
			d.wrong(inStage(k, "attempts"), "must be pairs of an ascending position and an attempt from 2")
			return
		}
		last = attempts[i]
		records[last].attempt = uint32(attempts[i+1])
	}
	for _, reason := range slices.Sorted(maps.Keys(causesOf)) { // sorted, so that the first fault does not depend on map order
		list := causesOf[reason]
		why := cause(1)
		for why < causes && why.reason() != reason {
			why++
		}
		if why == causes || len(list) == 0 {
			d.wrong(inStage(k, "causes"), "has the unknown cause %q, or a cause of nothing", reason)
			return
		}
		for n, i := range list {
			if i < 0 || i >= len(records) || n > 0 && i <= list[n-1] || records[i].cause != noCause {
				d.wrong(inStage(k, "causes"), "must be ascending positions, each once")
				return
			}
			records[i].cause = why
		}
	}
	for i := range records {
		r := &records[i]
		needed := r.state == Failed || r.marks.has(regressed)
		if needed != (r.cause != noCause) {
			d.wrong(inStage(k, "causes"), "must name what failed or regressed, and nothing else: position %d", i)
			return
		}
	}
}
