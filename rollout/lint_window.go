package rollout

import (
	"fmt"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/clock"
	"github.com/tranche-dev/tranche/internal/textlist"
)

// lookAtWindows finds calendars that never open. It looks at those of targets that wait for them,
// of targets that run nothing yet and will wait only for their second version, and of policies that
// govern no target.
func (l *lint) lookAtWindows() {
	var waiting reaches[*hours]
	for i := range l.w.targets {
		if h := l.w.hoursOf(int32(i), none); h != nil {
			waiting.at(h).add(int32(i))
		}
	}
	for _, c := range l.classes {
		if h := c.view.hours; h != nil {
			waiting.at(h) // no target waits for them yet
		}
	}
	for _, h := range waiting.keys {
		l.lookAtHours(h, *waiting.at(h))
	}
	for _, p := range l.w.set.policies {
		if len(p.windows) > 0 {
			l.lookAtHours(newHours([]policyHours{p.hours}), reach{})
		}
	}
}

// fits reports whether a calendar is open for so long, from some instant within the horizon on.
func (l *lint) fits(c clock.Calendar, d time.Duration) bool {
	_, err := c.WithHorizon(l.horizon).NextFit(l.w.now, d)
	return err == nil
}

// lookAtHours says which windows are the reason if a calendar is never open for as long as it must
// be when a job starts. It names those of one policy if they alone are.
func (l *lint) lookAtHours(h *hours, waiting reach) {
	if l.fits(h.calendar, h.longest) {
		return
	}
	s := shutHours{lint: l, longest: h.longest, waiting: waiting, when: " within " + textlist.Duration(l.horizon)}
	if l.fits(h.calendar, 0) {
		s.when = fmt.Sprintf(" for the %v that minimumRemainingMinutes asks for", textlist.Duration(h.longest)) + s.when
	}
	alone := false
	for rules := range stretches(h.rules, samePolicy) {
		alone = s.lookAtPolicy(rules) || alone
	}
	if !alone {
		s.lookAtAll(h.rules)
	}
}

// shutHours are windows that are never open for as long as they must be.
type shutHours struct {
	*lint
	longest time.Duration // for how long
	waiting reach         // the targets that wait for them
	when    string        // the end of a sentence that says so
}

const (
	addOpening     = "add an opening that is still to come and long enough, or ask for less remaining time"
	letWindowsMeet = "a target starts only while the windows of all its policies are open: let them meet, or put them into one policy, where one open window will do"
	shortenClosing = "shorten or remove one of them, or override it for the version that cannot wait"
)

// lookAtPolicy reports the windows of one policy if they are never open, whatever the others are,
// and reports whether that is so.
func (s *shutHours) lookAtPolicy(rules []*compiledRule) bool {
	allows, denies := byEffect(rules)
	open, failed := s.w.set.calendar(allows) // without any it is always open
	if failed != nil || !s.fits(open, s.longest) {
		s.report(allows[0], LintWindowNeverOpens, fmt.Sprintf("the windows of %q are never open%s", rules[0].policy.id, s.when), addOpening)
		return true
	}
	whole, failed := s.w.set.calendar(rules)
	if failed != nil || !s.fits(whole, s.longest) {
		s.report(denies[0], LintFreezeCoversOpenings, fmt.Sprintf("the closing windows of %q cover every opening%s", rules[0].policy.id, s.when), shortenClosing)
		return true
	}
	return false
}

// lookAtAll reports the windows of several policies, of which each by itself does open.
func (s *shutHours) lookAtAll(rules []*compiledRule) {
	var names []string
	var openings []clock.Calendar
	for own := range stretches(rules, samePolicy) {
		allows, _ := byEffect(own)
		open, _ := s.w.set.calendar(allows) // lookAtPolicy has made it before
		names, openings = append(names, own[0].policy.id), append(openings, open)
	}
	list := strings.Join(names, ", ")
	allows, denies := byEffect(rules)
	if s.fits(clock.Intersect(openings...), s.longest) {
		s.report(denies[0], LintFreezeCoversOpenings, fmt.Sprintf("the closing windows of %s together cover every opening%s", list, s.when), shortenClosing)
		return
	}
	s.report(allows[0], LintWindowNeverOpens, fmt.Sprintf("the windows of %s are never open together%s", list, s.when), letWindowsMeet)
}

// byEffect divides windows into those that allow starts and those that deny them.
func byEffect(rules []*compiledRule) (allows, denies []*compiledRule) {
	for _, rule := range rules {
		if rule.window.allows() {
			allows = append(allows, rule)
		} else {
			denies = append(denies, rule)
		}
	}
	return allows, denies
}

// report adds a finding, unless a worse one says the same: one rule may stand for several
// calendars, one with the rules of each other policy.
func (s *shutHours) report(rule *compiledRule, code LintCode, detail, fix string) {
	f := findingOf(rule, "")
	if _, worse := s.index[findingKey{code, SeverityError, f.Policy, f.Rule, f.Path, detail}]; !worse || s.waiting.some() {
		s.addApart(f, detail, code, neverOr(s.waiting), s.waiting, detail, fix)
	}
}
