package staged

import (
	"bytes"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

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
