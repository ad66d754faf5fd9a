package rollout

import "time"

// timetable holds when positions are due in the open time of a calendar.
type timetable struct {
	dues  []time.Time // by position, up to the first that is never due; nil as long as positions are found one by one
	err   error       // why that position, and those behind it, are never due
	asked int         // how many positions were found one by one
}

// dueIn returns when a position is due in the open time of h that no pause takes away. The turns of
// all positions are found at once. But a separate rollout, and hours with overrides
// in force, are mostly for one target, and there may be as many of them as targets, so their first
// few turns are found one by one.
func (r *rollout) dueIn(position int32, h *hours) (time.Time, error) {
	to, known := r.timetables[h]
	if !known {
		to = &timetable{}
		put(&r.timetables, h, to)
	}
	if to.dues == nil {
		if to.asked++; (r.separate || h != nil && h.before != nil) && to.asked < 8 {
			alone := r.timetable(h, int(position), int(position))
			if alone.err != nil {
				return time.Time{}, alone.err
			}
			return alone.dues[0], nil
		}
		*to = *r.timetable(h, 0, r.positions.count-1)
	}
	if int(position) < len(to.dues) {
		return to.dues[position], nil
	}
	return time.Time{}, to.err
}

// comesUnpaused reports whether a turn that never comes would come but for the freezes that are over
// or will be: of a window that opens once they may take what the curve needs.
func (r *rollout) comesUnpaused(position int32, h *hours) bool {
	if r.pause == nil {
		return false
	}
	if r.unpaused == nil {
		r.unpaused = &rollout{rule: r.rule, record: r.record, positions: r.positions, curve: r.curve, room: r.room, separate: r.separate}
	}
	_, err := r.unpaused.due(position, h)
	return err == nil
}

// timetable finds the turns of the positions from first to last in one walk over the calendar,
// since offsets are monotone. If an override took windows away, the time before it counts as it did
// then: closed time is not made up for, and what an earlier override had opened stays open.
func (r *rollout) timetable(h *hours, first, last int) *timetable {
	to := &timetable{dues: make([]time.Time, last-first+1)}
	stages := []*hours{h} // latest first
	for h != nil && h.since.After(r.record.StartAt) {
		h = h.before
		stages = append(stages, h)
	}
	start, at := r.record.StartAt, len(stages)-1
	walk, spent := r.pause.counts(stages[at]).Walk(start), time.Duration(0) // spent is the open time before the stage
	for p := range to.dues {
		offset, err := r.curve.offset(first + p)
		for err == nil {
			to.dues[p], err = walk.AddOpen(max(0, offset-spent))
			if at == 0 || err == nil && to.dues[p].Before(stages[at-1].since) {
				if err == nil && to.dues[p].After(lastInstant()) {
					err = ErrOverflow
				}
				break
			}
			// The next override begins before this turn: go on under that one.
			end := stages[at-1].since
			var open time.Duration
			if open, err = r.pause.counts(stages[at]).OpenBetween(start, end); err == nil {
				at, start, spent = at-1, end, spent+open
				walk = r.pause.counts(stages[at]).Walk(start)
			}
		}
		if err != nil {
			to.dues, to.err = to.dues[:p], err
			break
		}
	}
	return to
}
