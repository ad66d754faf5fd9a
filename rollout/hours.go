package rollout

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/tranche-dev/tranche/clock"
)

// hours are the windows that some targets wait for, as one calendar.
type hours struct {
	rules    []*compiledRule // of all policies
	calendar clock.Calendar
	longest  time.Duration            // the greatest minimumRemaining
	opened   map[*compiledPolicy]bool // policies with an allowing window that an override lets a version past: as if that window were open

	before *hours    // if an override takes windows away: what counts before since, which earlier overrides had left
	since  time.Time // zero if before is nil

	now *hoursNow // nil: not asked yet
}

// hoursNow is what a calendar says at the now of a plan.
type hoursNow struct {
	blockers []Verdict // of rules that are shut, or soon will be
	opens    time.Time // the next instant that is open for long enough; zero: none within the horizon
	wakeup             // when any of this may be otherwise
}

// hours puts windows of one policy together, with their rules.
func (s *PolicySet) hours(rules []*compiledRule) (policyHours, error) {
	calendar, err := s.calendar(rules)
	return policyHours{rules, calendar}, err
}

// calendar puts windows of one policy together; each has been compiled on its own before.
func (s *PolicySet) calendar(rules []*compiledRule) (clock.Calendar, error) {
	list := make([]clock.Window, len(rules))
	for i, rule := range rules {
		list[i] = rule.window.Window
	}
	return clock.NewCalendar(list, func(name string) (*time.Location, error) { return s.zones[name], nil })
}

// policyHours are windows of one policy, as one calendar.
type policyHours struct {
	rules    []*compiledRule
	calendar clock.Calendar
}

// newHours intersects the windows of several policies; nil if there are none.
func newHours(parts []policyHours) *hours {
	h := &hours{}
	var calendars []clock.Calendar
	for _, part := range parts {
		if len(part.rules) == 0 {
			continue
		}
		calendars = append(calendars, part.calendar)
		h.rules = append(h.rules, part.rules...)
		for _, rule := range part.rules {
			h.longest = max(h.longest, rule.window.remaining())
		}
	}
	if len(h.rules) == 0 {
		return nil
	}
	h.calendar, h.opened = clock.Intersect(calendars...), map[*compiledPolicy]bool{}
	return h
}

// without returns hours from which some rules are taken away: open whenever the others let it be,
// or nil if there are no others. Without one of several allowing windows, a policy is as open as if
// that window were open, since any of them will do.
func (s *PolicySet) without(h *hours, gone func(*compiledRule) bool) (*hours, error) {
	opened := maps.Clone(h.opened)
	for _, rule := range h.rules {
		if rule.window.allows() && gone(rule) {
			opened[rule.policy] = true
		}
	}
	var parts []policyHours
	for rules := range stretches(h.rules, samePolicy) {
		own := rules[0].policy
		kept := slices.DeleteFunc(slices.Clone(rules), gone)
		calendar, err := s.calendar(slices.DeleteFunc(slices.Clone(kept), func(rule *compiledRule) bool { return opened[own] && rule.window.allows() }))
		if err != nil {
			return nil, err
		}
		parts = append(parts, policyHours{kept, calendar})
	}
	rest := newHours(parts)
	if rest != nil {
		rest.opened = opened
	}
	return rest, nil
}

func samePolicy(a, b *compiledRule) bool { return a.policy == b.policy }

// openHours builds the calendars of a view: of all windows, and of those that targets without a
// current version wait for.
func (v *view) openHours() {
	var all, first []policyHours
	for _, p := range v.policies {
		if len(p.windows) > 0 { // mostly few of the policies
			all, first = append(all, p.hours), append(first, p.firstHours)
		}
	}
	v.hours, v.firstHours = newHours(all), newHours(first)
}

// hoursOf returns the windows that version n waits for on target i, or nil.
func (w *work) hoursOf(i, n int32) *hours {
	view := w.viewOf(i)
	own := view.hours
	if w.targets[i].current == none {
		own = view.firstHours
	}
	if own == nil || !w.mayBeOverridden(i, n) {
		return own
	}
	past := make([]*Override, len(own.rules))
	for k, rule := range own.rules {
		past[k] = w.overriddenAt(rule.id, i, n)
	}
	return w.hoursPast(own, past)
}

// hoursPast returns hours without the rules that overrides let a version past, each from the
// creation of its override on. past is by rule, nil if there is no override; hoursPast writes to
// it.
func (w *work) hoursPast(own *hours, past []*Override) *hours {
	var last *Override
	instants := make([]byte, 0, 64)
	for _, o := range past {
		if o == nil {
			instants = append(instants, '-')
			continue
		}
		if last == nil || o.CreatedAt.After(last.CreatedAt) {
			last = o
		}
		instants = o.CreatedAt.UTC().AppendFormat(append(instants, '+'), time.RFC3339Nano)
	}
	if last == nil {
		return own
	}
	key := overriddenHours{own, string(instants)}
	if h, known := w.hours[key]; known {
		return h
	}
	h, err := w.set.without(own, func(rule *compiledRule) bool { return past[slices.Index(own.rules, rule)] != nil })
	if err != nil {
		h = own // a recurrence of the host that is no longer accepted opens nothing
	} else {
		if h == nil {
			h = &hours{} // always open, but only from the override on
		}
		for k, o := range past {
			if o != nil && o.CreatedAt.Equal(last.CreatedAt) {
				past[k] = nil
			}
		}
		h.before, h.since = w.hoursPast(own, past), last.CreatedAt
	}
	put(&w.hours, key, h)
	return h
}

// timing is what is known about calendars besides their windows.
type timing struct {
	hours    map[overriddenHours]*hours // what overrides leave of hours
	meetings map[[2]*hours][]*meeting   // by the first and the last of their hours: overrides make many
}

// overriddenHours are hours of which some rules have an override in force; since says, by rule,
// from when on.
type overriddenHours struct {
	hours *hours
	since string
}

// windowBlockers appends why the windows do not let version n start on target i now.
func (w *work) windowBlockers(blockers []Verdict, i, n int32) []Verdict {
	if h := w.hoursOf(i, n); h != nil {
		for _, verdict := range w.hoursNow(h).blockers {
			blockers = w.appendVerdict(blockers, verdict)
		}
	}
	return blockers
}

// hoursNow asks a calendar once per plan. The host is woken for whoever asks: a decision that asked
// first may have been given up, see giveUp.
func (w *work) hoursNow(h *hours) *hoursNow {
	if h.now == nil {
		h.now = &hoursNow{wakeup: wakeup{now: w.now}}
		w.askHours(h)
	}
	w.wake(h.now.next)
	return h.now
}

func (w *work) askHours(h *hours) {
	h.now.opens, _ = h.calendar.NextFit(w.now, h.longest)
	if h.now.opens.Equal(w.now) {
		h.now.wakeBefore(h.calendar.NextClose(w.now), h.longest)
		return
	}
	reasons := w.shut(h)
	// Windows that are not shut may ask for more time than is left, even if the shut ones are taken
	// away.
	if rest, err := w.set.without(h, func(rule *compiledRule) bool { return reasons[rule] != "" }); err == nil && rest != nil {
		closes := rest.calendar.NextClose(w.now)
		for _, rule := range rest.rules {
			switch d := rule.window.remaining(); {
			case closes.IsZero(): // open for good
			case closes.Sub(w.now) < d:
				reasons[rule] = ReasonWindowTooShort
			default:
				h.now.wakeBefore(closes, d)
			}
		}
	}
	atFault := len(reasons) == 0 // a recurrence of the host that is at fault opens nothing
	opens, never := h.now.opens, map[*compiledRule]string{}
	if opens.IsZero() {
		opens, never = w.neverOpeningRules(h)
	}
	for _, rule := range h.rules {
		verdict := Verdict{Status: Pending, Reason: reasons[rule], Rule: rule.id, Until: opens}
		if atFault {
			verdict.Reason = ReasonWindowClosed
		}
		if why, named := never[rule]; named || opens.IsZero() {
			verdict.Until, verdict.On, verdict.Data = time.Time{}, onConfig(rule.id), &Data{Detail: cmp.Or(why, neverOpens(h.longest))}
		}
		if verdict.Reason != "" {
			h.now.blockers = append(h.now.blockers, verdict)
		}
	}
}

// shut returns the windows that are closed now, with that as the reason. The allowing windows of a
// policy are closed only if all of them are, since one open window is enough.
func (w *work) shut(h *hours) map[*compiledRule]Reason {
	allowed := maps.Clone(h.opened)
	for _, rule := range h.rules {
		open := rule.calendar.Open(w.now)
		if open && rule.window.allows() {
			allowed[rule.policy] = true
		}
		changes := rule.calendar.NextClose(w.now)
		if !open {
			changes, _ = rule.calendar.NextOpen(w.now)
		}
		h.now.wake(changes) // a closed window does not open before one of them changes
	}
	reasons := map[*compiledRule]Reason{}
	for _, rule := range h.rules {
		if rule.window.allows() && !allowed[rule.policy] || !rule.window.allows() && !rule.calendar.Open(w.now) {
			reasons[rule] = ReasonWindowClosed
		}
	}
	return reasons
}
