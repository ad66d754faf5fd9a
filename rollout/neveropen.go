package rollout

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/clock"
	"github.com/tranche-dev/tranche/internal/textlist"
)

// neverOpeningRules returns, for hours that are never open for long enough, the rules because of
// which they are not, each with what is to be said of it, and when all other windows open for long
// enough. A window that is closed just now, beside one that never opens, is not to blame: it opens
// then, and only the other one has to be edited. The instant is zero if there is none after now.
func (w *work) neverOpeningRules(h *hours) (opens time.Time, why map[*compiledRule]string) {
	why = map[*compiledRule]string{}
	for rest := h; rest != nil && opens.IsZero(); {
		causes, apart := w.neverOpening(rest, w.now, &h.now.wakeup)
		text := neverOpens(h.longest)
		if apart {
			text = neverMeet(causes, h.longest)
		}
		for _, rule := range causes {
			why[rule] = text
		}
		var err error
		if rest, err = w.set.without(h, func(rule *compiledRule) bool { return why[rule] != "" }); err != nil {
			break // a recurrence of the host that is no longer accepted opens nothing
		}
		if rest != nil {
			opens, _ = rest.calendar.NextFit(w.now, h.longest)
		}
		if opens.Equal(w.now) { // what asks for more time than a window that never opens leaves
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
// for long enough may end by itself, and then its rules are among them: the host is woken for that.
func (w *work) neverOpening(h *hours, at time.Time, next *wakeup) (causes []*compiledRule, apart bool) {
	shut := func(calendar clock.Calendar) bool {
		opens, err := calendar.NextFit(at, h.longest)
		if err == nil && opens.Equal(w.now) {
			next.wakeBefore(calendar.NextClose(w.now), h.longest)
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
		causes = append(causes, rules...)
	}
	if len(causes) == 0 {
		return h.rules, true
	}
	return causes, false
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
