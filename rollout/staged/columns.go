package staged

import (
	"fmt"
	"maps"
	"math"
	"slices"
)

func (d *decoder) numbers(path string, from column) ([]int64, bool) {
	list, err := from.numbers()
	if err != nil {
		d.wrong(path, "%v", err)
	}
	return list, err == nil
}

// times reads the starts and ends of the members of a stage, up to the first fault. Each start
// counts from the start before it, the first from the stage's own instant. Each end counts from the
// start of its member, or from the stage's own instant if the member has no start.
func (d *decoder) times(k int, from *storedStage, records []record) {
	base := d.instant(inStage(k, "from"), from.From)
	starts, ok := d.timeColumn(inStage(k, "starts"), from.Starts)
	if !ok {
		return
	}
	ends, ok := d.timeColumn(inStage(k, "ends"), from.Ends)
	if !ok {
		return
	}
	first := starts.left
	if len(first) == 0 {
		first = ends.left
	}
	if (len(first) == 0) != from.From.IsZero() {
		d.wrong(inStage(k, "from"), "must be there if, and only if, there are times")
		return
	}
	if len(first) > 0 && first[0] != 0 {
		d.wrong(inStage(k, "from"), "must be the first time")
		return
	}
	if base > d.run.time {
		d.wrong(inStage(k, "from"), "must not be after the time of the run")
		return
	}
	previous, stuckAfter := base, d.run.plan.stages[k].timing.stuckAfter
	for i := range records {
		r := &records[i]
		origin := base
		if r.marks.has(started) {
			if r.start, ok = starts.next(previous); !ok {
				return
			}
			previous, origin = r.start, r.start
		}
		if r.state.Settled() || r.state == Soaking {
			if r.end, ok = ends.next(origin); !ok {
				return
			}
			if r.end < origin && r.marks.has(started) {
				d.wrong(inStage(k, "ends"), "has an end before its start")
				return
			}
		}
		if (r.state == Starting || r.state == Updating) && after(r.start, stuckAfter) <= d.run.time {
			r.marks |= stuck
		}
	}
	if len(starts.left)+len(ends.left) > 0 {
		d.wrong(inStage(k, "starts"), "or ends have too many entries for the states")
	}
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
	v := c.left[0]
	c.left = c.left[1:]
	if v > c.run.time-origin {
		c.wrong(c.path, "has a time after that of the run")
		return 0, false
	}
	if v < -origin {
		c.wrong(c.path, "has a time before 1970")
		return 0, false
	}
	return origin + v, true
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
