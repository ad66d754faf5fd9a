package rollout

import (
	"cmp"
	"slices"
	"time"

	"github.com/tranche-dev/tranche/clock"
)

// opening moves the instant at which an execution is due to the first one, neither before it nor
// before now, at which the windows of all its runs are open for long enough. A past instant stays
// as it is if they are open now.
func (w *work) opening(runs []pendingRun, due time.Time, pending *pendingResource) time.Time {
	all := w.hoursOfAll(runs)
	for _, h := range all {
		for _, verdict := range w.hoursNow(h).blockers {
			pending.timed = w.appendDistinct(pending.timed, w.unlessLetPast(verdict, runs))
		}
	}
	if !due.After(w.now) && len(pending.timed) == 0 {
		return due
	}
	at, never := w.together(all, later(due, w.now))
	if never != nil {
		// The windows never open once the execution is due, so an opening before then does not
		// help.
		for _, rule := range never.rules {
			pending.timed = slices.DeleteFunc(pending.timed, func(v Verdict) bool { return v.Rule == rule.id })
			// The text of the error names the instant of the search, which differs from plan to plan.
			pending.blockers = w.appendDistinct(pending.blockers, w.unlessLetPast(Verdict{ // several members may wait for it
				Status: Pending, Reason: ReasonWindowClosed, Rule: rule.id, On: onConfig(rule.id), Data: &Data{Detail: never.why[rule]},
			}, runs))
		}
	}
	return at
}

// openFrom returns the first instant from at on at which the windows of all runs are open for long
// enough, and at itself if there is none.
func (w *work) openFrom(runs []pendingRun, at time.Time) time.Time {
	if !w.windowed {
		return at
	}
	opens, _ := w.together(w.hoursOfAll(runs), at)
	return opens
}

// hoursOfAll lists the hours of some runs, each once.
func (w *work) hoursOfAll(runs []pendingRun) (all []*hours) {
	for _, run := range runs {
		if h := w.hoursOf(run.target, run.version); h != nil && !slices.Contains(all, h) {
			all = append(all, h)
		}
	}
	return all
}

// unlessLetPast names the members that a window holds if an override lets other members of the same
// execution past it: the author of the override sees which ones are missing.
func (w *work) unlessLetPast(shut Verdict, runs []pendingRun) Verdict {
	if len(w.overrides) == 0 {
		return shut
	}
	var held []string
	past := false
	for _, run := range runs {
		switch h := w.hoursOf(run.target, run.version); {
		case w.overriddenAt(shut.Rule, run.target, run.version) != nil:
			past = true
		case h != nil && slices.ContainsFunc(w.hoursNow(h).blockers, func(v Verdict) bool { return v.Rule == shut.Rule }):
			held = append(held, w.targets[run.target].Deployment)
		}
	}
	if past {
		data := Data{Names: held}
		if shut.Data != nil {
			data.Detail = shut.Data.Detail
		}
		shut.Data = w.keepData(data)
	}
	return shut
}

// meeting is what is known about calendars that have to be open together.
type meeting struct {
	hours []*hours
	shut  bool      // a search has failed
	from  time.Time // from this instant on they are never open together

	// What is in the way from then on; found once, because a search to the horizon takes long.
	rules []*compiledRule
	why   map[*compiledRule]string // what is said of each
}

// together returns the first instant from at on at which several calendars are open, each for as
// long as it asks. If there is none, it returns what is in the way. Two calendars that are never
// open at the same time would send the search from one opening to the next for ever, so it ends with
// the horizon. A search that fails would fail from all later instants, too.
func (w *work) together(all []*hours, at time.Time) (opens time.Time, never *meeting) {
	if len(all) == 0 {
		return at, nil
	}
	ends := [2]*hours{all[0], all[len(all)-1]}
	k := slices.IndexFunc(w.meetings[ends], func(m *meeting) bool { return slices.Equal(m.hours, all) })
	if k < 0 {
		k = len(w.meetings[ends])
		put(&w.meetings, ends, append(w.meetings[ends], &meeting{hours: all}))
	}
	m := w.meetings[ends][k]
	if m.shut && !at.Before(m.from) {
		return at, m
	}
	opens = at
	limit := at.Add(clock.DefaultHorizon)
	for moved := true; moved; {
		moved = false
		for _, h := range all {
			next, err := h.calendar.NextFit(opens, h.longest)
			if err != nil || next.After(limit) {
				m.shut, m.from = true, at
				w.blame(m)
				return at, m
			}
			if next.After(opens) {
				opens, moved = next, true
			}
		}
	}
	return opens, nil
}

// blame finds what keeps calendars from ever being open together: those that are never open by
// themselves or, if each is open at times, all of them. Which of these a search had reached when it
// ended says nothing, and differs from instant to instant.
func (w *work) blame(m *meeting) {
	m.rules, m.why = nil, map[*compiledRule]string{}
	shut := slices.DeleteFunc(slices.Clone(m.hours), func(h *hours) bool {
		_, err := h.calendar.NextFit(m.from, h.longest)
		return err == nil
	})
	longest := time.Duration(0) // for how long those in the way have to be open
	blamed := func(rules []*compiledRule, text string) {
		for _, rule := range rules {
			m.rules = append(m.rules, rule)
			m.why[rule] = cmp.Or(m.why[rule], text)
		}
	}
	for _, h := range shut {
		longest = max(longest, h.longest)
	}
	for _, h := range shut {
		if rules, apart := w.neverOpening(h, m.from, &w.wakeup); apart {
			blamed(rules, neverMeet(rules, longest))
		} else {
			blamed(rules, neverOpens(longest))
		}
	}
	if len(shut) > 0 {
		return
	}
	var all []*compiledRule
	for _, h := range m.hours {
		all, longest = append(all, h.rules...), max(longest, h.longest)
	}
	blamed(all, neverMeet(all, longest))
}
