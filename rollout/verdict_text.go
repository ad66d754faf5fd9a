package rollout

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/internal/textkey"
	"github.com/tranche-dev/tranche/internal/textlist"
)

// String describes the verdict for people: the reason, what it is about, until when and what it
// waits for.
func (v Verdict) String() string {
	text := textlist.Name(v.Reason)
	if v.Data != nil {
		text += v.Data.factsText(v.Reason)
	}
	if v.Until.IsZero() {
		return text + v.eventsText()
	}
	if v.Reason == Reason(bracket.ReasonWaitsForMembers) {
		text += " (its next attempt)" // the member it waits for is itself
	}
	text += " until " + v.Until.UTC().Format(time.RFC3339)
	if v.Reason == ReasonProgressionWaiting || v.Reason == Reason(bracket.ReasonCollecting) {
		return text // it only soaks or collects: the jobs and versions that could still change it are not what it waits for
	}
	return text + v.eventsText()
}

// eventsText says which events the verdict waits for; empty if there is nothing to say.
func (v Verdict) eventsText() (text string) {
	on, locked := v.toldEvents()
	if len(on) > 0 {
		together, others := v.partEvents(on)
		list := v.eventPhrases(others)
		for _, all := range together {
			list = append(list, strings.Join(v.eventPhrases(all), " and "))
		}
		or := " or "
		switch v.Reason {
		case ReasonRolloutNotStarted, Reason(bracket.ReasonWaitsForMembers), Reason(bracket.ReasonHookWithoutVersion):
			or = " and " // its gates must all open, all these members must end, and the version comes before the group that takes it along
		}
		text += ", waits for " + strings.Join(list, or)
	}
	if len(locked) > 0 {
		gates := Verdict{Rule: v.Rule} // an override lets a version past these
		text += ", or for " + strings.Join(gates.eventPhrases(locked), " or ")
	}
	return text
}

// toldEvents returns those of the events that the text names; locked are what a version waits for
// that the group has locked.
func (v Verdict) toldEvents() (on, locked []Condition) {
	switch v.Reason {
	case ReasonRolloutNotStarted: // how a gate opens that does not by itself is said by the gate, and one that soaks waits for no success
		return slices.DeleteFunc(slices.Clone(v.On), func(c Condition) bool {
			return c.Kind == OnOperator || c.Kind == OnVersion || c.Kind == OnJob && !v.Until.IsZero()
		}), nil
	case Reason(bracket.ReasonHookWithoutVersion):
		if next := slices.IndexFunc(v.On, func(c Condition) bool { return c.Kind == OnGroupClose }) + 1; next > 0 {
			return v.On[:next], v.On[next:]
		}
	}
	return v.On, nil
}

// partEvents divides events into those of which all of a kind must happen, beside what else ends
// the wait, and the others: no member that is waited for may be left, no freeze, and no job that is
// at work on a target of an execution that has still to begin. A single one of a kind is among the
// others.
func (v Verdict) partEvents(on []Condition) (together [][]Condition, others []Condition) {
	for _, kind := range [...]ConditionKind{OnFreeze, OnMember, OnJob} {
		is := func(c Condition) bool { return c.Kind == kind }
		if kind == OnJob && v.Reason != Reason(bracket.ReasonNotDue) || !slices.ContainsFunc(on, is) {
			continue
		}
		all := slices.DeleteFunc(slices.Clone(on), func(c Condition) bool { return !is(c) })
		if len(all) > 1 {
			on, together = slices.DeleteFunc(slices.Clone(on), is), append(together, all)
		}
	}
	return together, on
}

// eventPhrases names events, each once. The environment is added only to events that are alike but
// for it. A target that waits for a key waits until a pool is empty, even one that has a free
// place; and where slots are free, the rate may be what is reserved for others. Of an operator it
// says what is needed, as far as the verdict tells: see [OnOperator].
func (v Verdict) eventPhrases(on []Condition) []string {
	in, several := map[string]string{}, map[string]bool{} // by text: an environment; whether there are others
	for _, c := range on {
		text := c.String()
		if environment, known := in[text]; known && environment != c.Environment {
			several[text] = true
		}
		in[text] = c.Environment
	}
	var list []string
	named, needed := map[string]bool{}, map[string]bool{} // by text; by deployment
	for _, c := range on {
		if c.Kind == OnDependency {
			needed[c.Deployment] = true
		}
	}
	for _, c := range on {
		text := c.String()
		switch {
		case c.Kind == OnSlot && v.Reason == Reason(concurrency.SlotKeysFull):
			text = "an empty " + poolName(c.Pool)
		case c.Kind == OnConfig && v.Reason == Reason(concurrency.SlotPaused) && c.Pool != "" && v.Data != nil && v.Data.Detail == rateIsZero:
			text = "a change of the rate of " + poolName(c.Pool)
		case c.Kind == OnSlot && v.Reason == Reason(concurrency.SlotReserved): // of the limit, or of the rate
			text = "a place in " + poolName(c.Pool) + " that is not reserved"
		case c.Kind == OnVersion && needed[c.Deployment]: // none that there is will do
			text = "a new version of " + textlist.Name(c.Deployment)
		case c.Kind != OnOperator || c.Group != "":
		case v.Reason == Reason(bracket.ReasonEnded):
			text += "'s outdatedAt"
		case v.Reason == Reason(concurrency.SlotFull), v.Reason == Reason(concurrency.SlotKeysFull), v.Reason == Reason(concurrency.SlotExclusive):
			text += " who ends what is stuck"
		case v.Rule != "" && !strings.HasPrefix(string(v.Reason), "bracket_"): // no override lets a version out of its bracket
			text += "'s override"
		}
		if several[text] {
			text += " in " + textlist.Name(c.Environment)
		}
		if !named[text] {
			named[text] = true
			list = append(list, text)
		}
	}
	return textlist.Few(list) // the verdict has all of them
}

// whyHeld says which status keeps a version from being deployed. One that this package does not
// know may be the host's own, or a typo.
func (s VersionStatus) whyHeld() string {
	switch {
	case s == VersionPaused:
		return string(s)
	case s == "":
		return "it has no status"
	}
	for _, known := range [...]VersionStatus{VersionReady, VersionPaused} {
		if strings.EqualFold(string(s), string(known)) {
			return fmt.Sprintf("%q is no known status, which %q would be", s, known)
		}
	}
	return textlist.Name(s) + " is neither ready nor paused"
}

// factsText describes the facts behind a reason in words.
func (d *Data) factsText(reason Reason) string {
	list := textlist.Names(d.Names)
	names := strings.Join(list, ", ")
	text := ""
	switch reason {
	case ReasonVersionNotDeployable:
		return ": " + VersionStatus(d.Detail).whyHeld()
	case ReasonRolloutNotDue, Reason(bracket.ReasonNotDue):
		// People count from 1. A target that joined later has a turn after all those at the start.
		text = fmt.Sprintf(" (turn %d of %d)", d.Position+1, d.Population)
		if d.Position >= d.Population {
			text = fmt.Sprintf(" (turn %d, after the %d at the start)", d.Position+1, d.Population)
		}
	case Reason(concurrency.SlotHalted):
		return fmt.Sprintf(" (%d down, %d may be)", d.Attempt, d.Allowed)
	case ReasonRetryBackoff, ReasonRetryExhausted:
		text = fmt.Sprintf(" (%d of %d attempts failed)", d.Attempt, d.Allowed)
		switch {
		case names != "" && d.Attempt > 0:
			text, names = fmt.Sprintf(" (%d of %d attempts failed, back to %s by hand)", d.Attempt, d.Allowed, names), ""
		case names != "":
			text, names = fmt.Sprintf(" (back to %s by hand)", names), ""
		}
	case ReasonFailureBudget:
		of := ""
		if d.Detail != "" {
			of = " of " + textlist.Name(d.Detail)
		}
		return fmt.Sprintf(" (%s%s failed, %d may: %s)", textlist.Counted(d.Attempt, "target"), of, d.Allowed, strings.Join(textlist.Few(list), ", "))
	case ReasonApprovalMissing:
		text = fmt.Sprintf(" (%d of %d needed)", d.Attempt, d.Allowed)
		if names != "" {
			text, names = fmt.Sprintf(" (%d of %d needed: %s)", d.Attempt, d.Allowed, names), ""
		}
	case ReasonProgressionWaiting:
		soaking := ""
		if d.Attempt >= d.Allowed {
			soaking = ", soaking"
		}
		// Not "of": there may be more targets than are needed.
		text, names = fmt.Sprintf(" (%d succeeded in %s, %d needed%s)", d.Attempt, strings.Join(list, " or "), d.Allowed, soaking), ""
	case ReasonProgressionTooOld:
		return fmt.Sprintf(" (newest success at %s)", textlist.Name(d.Detail))
	case ReasonCooldown:
		text, names = " after "+names, ""
	case ReasonOverridden:
		text, names = " by "+names, ""
	case ReasonFrozen:
		if why := textlist.Remark(d.Detail); names != "" && why != "" { // a person's text may be of several lines
			return fmt.Sprintf(" by %s (%s)", names, why)
		}
	case ReasonWindowClosed, ReasonWindowTooShort:
		if names != "" {
			text, names = " for "+names, ""
		}
	case Reason(concurrency.SlotKeysFull):
		text, names = " in "+textlist.Name(textkey.Plain(strings.Join(d.Names, ", "))), "" // which may well be empty
	case Reason(bracket.ReasonWaitsForMembers):
		if names != "" {
			text, names = fmt.Sprintf(" (its own run of %s ends first)", names), ""
		}
	case Reason(bracket.ReasonFailedHolding), Reason(bracket.ReasonQueued), Reason(bracket.ReasonMergeBudget):
		if names != "" {
			text, names = fmt.Sprintf(" (%s failed)", names), ""
		}
	case ReasonRollbackTriggered, ReasonRollbackFailed:
		text = " (nothing to go back to)"
		if names != "" {
			text, names = fmt.Sprintf(" (back to %s)", names), ""
		}
	}
	if names != "" {
		text += " " + names
	}
	if d.Detail != "" {
		text += ": " + textlist.Name(d.Detail)
	}
	return text
}
