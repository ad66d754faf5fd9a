package rollout

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/clock"
	"github.com/tranche-dev/tranche/internal/strictjson"
	"github.com/tranche-dev/tranche/internal/textlist"
)

// DeploymentWindow lets jobs start while a window is open, or with allowWindow false while it is
// closed. The windows of one policy form one calendar, in which the allowing windows are united and
// the others taken away. If several policies have windows, all their calendars must be open.
// Gradual rollouts advance in open time only, so a rollout that a window interrupts goes on where
// it stopped. Windows apply to starts only: a job that is running when a window closes runs on.
// Package clock documents boundaries and time zones. (Deployment windows of ctrlplane's policy
// rules.)
//
// A plan looks for openings within five years. One that is further away is as good as none: the
// verdict says that there is none, and [Plan.Next] does not wake the host when it comes within
// reach.
type DeploymentWindow struct {
	clock.Window

	// FirstDeploy says whether targets without a current version wait for the window too. Unset:
	// bypass.
	FirstDeploy FirstDeploy `json:"firstDeploy,omitempty"`

	// MinimumRemainingMinutes is how long all windows must remain open after a start. Set it to the
	// length of a job, so that the job ends inside. At least 0; 0 requires nothing.
	MinimumRemainingMinutes int64 `json:"minimumRemainingMinutes,omitempty"`
}

// FirstDeploy says whether a window applies to a target without a current version.
type FirstDeploy string

const (
	FirstDeployBypass FirstDeploy = "bypass" // it does not apply; the default
	FirstDeployApply  FirstDeploy = "apply"  // it applies as to any other target
)

// Validate reports every fault that can be seen without zone data, joined, each a *[FieldError].
func (d DeploymentWindow) Validate() error {
	var f faults
	f.under("", d.Window.Validate())
	oneOf(&f, "firstDeploy", d.FirstDeploy, FirstDeployBypass, FirstDeployApply)
	f.within("minimumRemainingMinutes", d.MinimumRemainingMinutes, 0, maxSeconds/60, "minutes")
	return f.err()
}

// allows reports whether the window allows starts; otherwise it forbids them.
func (d *DeploymentWindow) allows() bool { return d.AllowWindow == nil || *d.AllowWindow }

func (d *DeploymentWindow) remaining() time.Duration {
	return time.Duration(d.MinimumRemainingMinutes) * time.Minute
}

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
	alarm              // when any of this may be otherwise
}

// applied leaves out the windows that a target without a current version does not wait for.
func applied(rules []*compiledRule) []*compiledRule {
	var some []*compiledRule
	for _, rule := range rules {
		if rule.window.FirstDeploy == FirstDeployApply {
			some = append(some, rule)
		}
	}
	return some
}

// window compiles the window of a rule on its own, to report its faults.
func (c *compilation) window(path string, r *compiledRule, own *DeploymentWindow) {
	r.window = own
	calendar, err := clock.NewCalendar([]clock.Window{own.Window}, c.zone)
	sound := own.Window.Validate() == nil
	below := func(field string) string {
		return join(path, strings.TrimPrefix(strings.TrimPrefix(field, "windows[0]"), "."))
	}
	for _, fault := range strictjson.Faults(err) {
		zone := Code(fault.Code) == Code(clock.CodeTimezoneUnknown)
		if !sound && (!zone || own.Timezone == "Local") {
			continue // Policy.Validate reports it; in a window with other faults, compiling finds no more than an unknown zone
		}
		if c.set.load == nil && zone { // it may well exist
			fault.Hint = "cannot be looked up: Compile and Load know UTC alone, unless they are given WithZones(time.LoadLocation)"
		}
		c.list = append(c.list, &FieldError{Path: below(fault.Path), Code: Code(fault.Code), Value: fault.Value, Hint: fault.Hint})
		var fields []string
		for _, field := range fault.Fields {
			fields = append(fields, below(field))
		}
		c.reading(fields...)
	}
	r.calendar = calendar
}

// zone loads a zone once, so that all calendars, including those that are built later, share it.
func (c *compilation) zone(name string) (*time.Location, error) {
	if c.set.load == nil {
		return nil, errors.New("no zones were given")
	}
	if known, ok := c.set.zones[name]; ok {
		return known, nil
	}
	location, err := c.set.load(name)
	if err == nil { // the caller refuses a nil location
		c.set.zones[name] = location
	}
	return location, err
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

// doomed returns, for hours that are never open for long enough, the rules because of which they are
// not, each with what is to be said of it, and when all other windows open for long enough. A window
// that is closed just now, beside one that never opens, is not to blame: it opens then, and only the
// other one has to be edited. The instant is zero if there is none after now.
func (w *work) doomed(h *hours) (opens time.Time, why map[*compiledRule]string) {
	why = map[*compiledRule]string{}
	for rest := h; rest != nil && opens.IsZero(); {
		guilty, apart := w.neverOpening(rest, w.now, &h.now.alarm)
		text := neverOpens(h.longest)
		if apart {
			text = neverMeet(guilty, h.longest)
		}
		for _, rule := range guilty {
			why[rule] = text
		}
		var err error
		if rest, err = w.set.without(h, func(rule *compiledRule) bool { return why[rule] != "" }); err != nil {
			break // a recurrence of the host that is no longer accepted opens nothing
		}
		if rest != nil {
			opens, _ = rest.calendar.NextFit(w.now, h.longest)
		}
		if opens.Equal(w.now) { // what asks for more time than a doomed window leaves
			h.now.wakeBefore(rest.calendar.NextClose(w.now), h.longest)
			return time.Time{}, why
		}
	}
	return opens, why
}

// neverOpening returns the rules because of which hours are never open for long enough from an
// instant on: of each policy whose own windows are not, the rules that alone keep it shut, or all
// if only several of them do together. If every policy is open at times, but never all of them at
// once, it returns all rules, and apart is true. If at is now, the last time that a policy was open
// for long enough may end by itself, and then its rules are among them: the alarm is set for that.
func (w *work) neverOpening(h *hours, at time.Time, a *alarm) (guilty []*compiledRule, apart bool) {
	shut := func(calendar clock.Calendar) bool {
		opens, err := calendar.NextFit(at, h.longest)
		if err == nil && opens.Equal(w.now) {
			a.wakeBefore(calendar.NextClose(w.now), h.longest)
		}
		return err != nil
	}
	for rules := range stretches(h.rules, samePolicy) {
		rules = slices.DeleteFunc(slices.Clone(rules), func(rule *compiledRule) bool { return h.opened[rule.policy] && rule.window.allows() })
		if calendar, err := w.set.calendar(rules); err == nil && !shut(calendar) {
			continue
		}
		if alone := slices.DeleteFunc(slices.Clone(rules), func(rule *compiledRule) bool { return !shut(rule.calendar) }); len(alone) > 0 {
			rules = alone
		}
		guilty = append(guilty, rules...)
	}
	if len(guilty) == 0 {
		return h.rules, true
	}
	return guilty, false
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
	if own == nil || len(w.overrides) == 0 {
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
	meetings []*meeting
}

// overriddenHours are hours of which some rules have an override in force; since says, by rule,
// from when on.
type overriddenHours struct {
	hours *hours
	since string
}

// closed appends why the windows do not let version n start on target i now.
func (w *work) closed(blockers []Verdict, i, n int32) []Verdict {
	if h := w.hoursOf(i, n); h != nil {
		for _, verdict := range w.hoursNow(h).blockers {
			blockers = w.also(blockers, verdict)
		}
	}
	return blockers
}

// hoursNow asks a calendar once per plan. The host is woken for whoever asks: a decision that asked
// first may have been given up, see giveUp.
func (w *work) hoursNow(h *hours) *hoursNow {
	if h.now == nil {
		h.now = &hoursNow{alarm: alarm{now: w.now}}
		w.askHours(h)
	}
	w.wake(h.now.rings)
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
	opens, doomed := h.now.opens, map[*compiledRule]string{}
	if opens.IsZero() {
		opens, doomed = w.doomed(h)
	}
	for _, rule := range h.rules {
		verdict := Verdict{Status: Pending, Reason: reasons[rule], Rule: rule.id, Until: opens}
		if atFault {
			verdict.Reason = ReasonWindowClosed
		}
		if why, never := doomed[rule]; never || opens.IsZero() {
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

func neverOpens(d time.Duration) string {
	length := ""
	if d > 0 {
		length = " of " + textlist.Duration(d)
	}
	return "no opening" + length + withinHorizon()
}

// neverMeet is what is said of rules of several policies that are open at times, but never at once.
func neverMeet(rules []*compiledRule, d time.Duration) string {
	var policies []string
	for _, rule := range rules {
		policies = append(policies, rule.policy.id)
	}
	slices.Sort(policies)
	length := ""
	if d > 0 {
		length = " for " + textlist.Duration(d)
	}
	return fmt.Sprintf("the windows of %s are never open together%s%s", strings.Join(slices.Compact(policies), ", "), length, withinHorizon())
}

func withinHorizon() string {
	return fmt.Sprintf(" within %d years", int64(clock.DefaultHorizon/(365*24*time.Hour)))
}
