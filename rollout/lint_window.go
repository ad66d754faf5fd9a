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
		if h := l.w.views.list[c.view].hours; h != nil {
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

func (l *lint) lookAtHours(h *hours, waiting reach) {
	if l.fits(h.calendar, h.longest) {
		return
	}
	stretch := ""
	if l.fits(h.calendar, 0) {
		stretch = fmt.Sprintf(" for the %v that minimumRemainingMinutes asks for", textlist.Duration(h.longest))
	}
	within := "within " + textlist.Duration(l.horizon)
	say := func(rule *compiledRule, code LintCode, detail, fix string) {
		f := findingOf(rule, "")
		// One rule may stand for several calendars: one with the rules of each other policy.
		if _, worse := l.index[findingKey{code, SeverityError, f.Policy, f.Rule, f.Path, detail}]; !worse || waiting.some() {
			l.addApart(f, detail, code, neverOr(waiting), waiting, detail, fix)
		}
	}
	var opening, closing []*compiledRule
	var names []string
	var openings []clock.Calendar
	alone := false
	for rules := range stretches(h.rules, samePolicy) {
		policy := rules[0].policy
		var allows, denies []*compiledRule
		for _, rule := range rules {
			if rule.window.allows() {
				allows = append(allows, rule)
			} else {
				denies = append(denies, rule)
			}
		}
		names = append(names, policy.id)
		opening, closing = append(opening, allows...), append(closing, denies...)
		open, failed := l.w.set.calendar(allows)
		whole, faulty := l.w.set.calendar(rules)
		openings = append(openings, open)
		switch {
		case failed != nil || !l.fits(open, h.longest): // without any it is always open
			alone = true
			say(allows[0], LintWindowNeverOpens,
				fmt.Sprintf("the windows of %q are never open%s %s", policy.id, stretch, within),
				"add an opening that is still to come and long enough, or ask for less remaining time")
		case faulty != nil || !l.fits(whole, h.longest):
			alone = true
			say(denies[0], LintFreezeCoversOpenings,
				fmt.Sprintf("the closing windows of %q cover every opening%s %s", policy.id, stretch, within),
				"shorten or remove one of them, or override it for the version that cannot wait")
		}
	}
	switch {
	case alone:
	case !l.fits(clock.Intersect(openings...), h.longest):
		say(opening[0], LintWindowNeverOpens,
			fmt.Sprintf("the windows of %s are never open together%s %s", strings.Join(names, ", "), stretch, within),
			"a target starts only while the windows of all its policies are open: let them meet, or put them into one policy, where one open window will do")
	default:
		say(closing[0], LintFreezeCoversOpenings,
			fmt.Sprintf("the closing windows of %s together cover every opening%s %s", strings.Join(names, ", "), stretch, within),
			"shorten or remove one of them, or override it for the version that cannot wait")
	}
}
