package bracket

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/internal/testkit"
)

// The decision table, row by row, with the instants on both sides of each boundary. T is minute 0,
// W is 60 minutes and R 30. a and b are the required members; the numbers are when each has its
// first new version (e), -1 for never.
func TestDecisionTable(t *testing.T) {
	rows := []struct {
		mode     ReadinessMode
		strategy UnchangedMemberStrategy
		a, b     int
		closes   int
		timedOut bool
		inForce  UnchangedMemberStrategy
		why      string
	}{
		{Immediate, SkipUnchanged, 0, -1, 0, false, SkipUnchanged, "closes at the instant of the version"},
		{Immediate, RedeployCurrent, 0, 5, 0, false, RedeployCurrent, "does not wait for the others"},
		{CollectionWindow, SkipUnchanged, 0, -1, 60, false, SkipUnchanged, "the end of the window"},
		{CollectionWindow, SkipUnchanged, 0, 10, 60, false, SkipUnchanged, "never earlier, even if all are there"},
		{CollectionWindow, RedeployCurrent, 0, -1, 60, false, RedeployCurrent, "as configured"},
		{CollectionWindow, RequireAll, 0, 10, 60, false, RequireAll, "all there within the window: its end, never earlier"},
		{CollectionWindow, RequireAll, 0, 60, 60, false, RequireAll, "the end of the window is still within"},
		{CollectionWindow, RequireAll, 0, 61, 61, false, RequireAll, "the window is held open until the last arrives"},
		{CollectionWindow, RequireAll, 0, 90, 90, false, RequireAll, "to the end of the timeout, included"},
		{CollectionWindow, RequireAll, 0, 91, 90, true, SkipUnchanged, "too late: goes on without"},
		{CollectionWindow, RequireAll, 0, -1, 90, true, SkipUnchanged, "never comes"},
		{WaitForAll, SkipUnchanged, 0, 10, 10, false, SkipUnchanged, "as soon as all are there"},
		{WaitForAll, SkipUnchanged, 0, 60, 60, false, SkipUnchanged, "at the end, not timed out"},
		{WaitForAll, SkipUnchanged, 0, 61, 60, true, SkipUnchanged, "goes on without"},
		{WaitForAll, RedeployCurrent, 0, -1, 60, true, RedeployCurrent, "as configured"},
		{WaitForAll, RequireAll, 0, 30, 30, false, RequireAll, "as soon as all are there"},
		{WaitForAll, RequireAll, 0, -1, 60, true, SkipUnchanged, "require_all after a timeout means skip, not a denial for ever"},
	}
	for _, row := range rows {
		h := collectingHost(t, row.mode, row.strategy, "a", "b")
		h.publish("a", "v2", row.a)
		if row.b >= 0 {
			h.publish("b", "v2", row.b)
		}
		all := h.versions
		minute := func(m int) { // the host sees what is published
			h.versions = nil
			for _, v := range all {
				if !v.CreatedAt.After(at(m)) {
					h.versions = append(h.versions, v)
				}
			}
			h.step(m)
		}
		// one call a minute: it collects until the instant before the close, and is closed at the
		// close
		for m := 0; m < row.closes; m++ {
			minute(m)
			if len(h.state.Group.Closed) > 0 {
				t.Fatalf("%+v: closed at minute %d", row, m)
			}
			if m+1 == row.closes {
				h.stepAt(at(row.closes).Add(-1))
				if len(h.state.Group.Closed) > 0 || row.b < row.closes && !h.plan.Next.Equal(at(row.closes)) {
					t.Fatalf("%+v: a nanosecond before the close: %s, next %v", row, describe(h.state), h.plan.Next)
				}
			}
		}
		minute(row.closes)
		if len(h.state.Group.Closed) != 1 {
			t.Fatalf("%+v: not closed at minute %d", row, row.closes)
		}
		g := h.state.Group.Closed[0]
		if !g.ReadyAt.Equal(at(row.closes)) || g.TimedOut != row.timedOut || g.Strategy != row.inForce || !g.OpenedAt.Equal(at(0)) || row.why == "" {
			t.Errorf("%+v: closed at %v, timed out %v, %s", row, g.ReadyAt, g.TimedOut, g.Strategy)
		}
	}
}

// collectingHost has a window of an hour and, where members are required, half an hour more for them.
// The members have a target each, on n1, and no version yet.
func collectingHost(t *testing.T, mode ReadinessMode, strategy UnchangedMemberStrategy, members ...string) *host {
	h := newHost(t)
	h.members, h.versions = nil, nil
	window := int64(3600)
	h.rule = Rule{DeploymentSelector: "true", ReadinessMode: mode, UnchangedMemberStrategy: strategy, ReadinessWindowSeconds: &window}
	if mode == Immediate {
		h.rule.ReadinessWindowSeconds = nil
	}
	if mode == CollectionWindow && strategy == RequireAll {
		h.rule.RequireAllTimeoutSeconds = 1800
	}
	for _, d := range members {
		h.member(d)
		h.target("n1", d, "v1")
	}
	return h
}

// The table once more as an oracle: it tries every instant of a discrete time instead of computing
// one.
func TestClosingMatchesTheTable(t *testing.T) {
	outcomes := testkit.Tally{}
	outcomes.Check(t, func(t *rapid.T) {
		w := rapid.IntRange(0, 6).Draw(t, "W")
		r := rapid.IntRange(0, 3).Draw(t, "R")
		opened := rapid.IntRange(0, 3).Draw(t, "T")
		first := rapid.IntRange(-1, 12).Draw(t, "E")
		all := -1
		if first >= 0 && rapid.Bool().Draw(t, "complete") {
			all = rapid.IntRange(first, 14).Draw(t, "A")
		}
		mode := rapid.SampledFrom([]ReadinessMode{CollectionWindow, WaitForAll, Immediate}).Draw(t, "mode")
		strategy := rapid.SampledFrom([]UnchangedMemberStrategy{SkipUnchanged, RedeployCurrent, RequireAll}).Draw(t, "strategy")
		if mode == Immediate && strategy == RequireAll {
			strategy = SkipUnchanged
		}
		if mode != CollectionWindow || strategy != RequireAll {
			r = 0
		}
		instant := func(m int) time.Time {
			if m < 0 {
				return time.Time{}
			}
			return at(m)
		}
		seconds := int64(w) * 60
		rule := Rule{ReadinessMode: mode, UnchangedMemberStrategy: strategy, ReadinessWindowSeconds: &seconds, RequireAllTimeoutSeconds: int64(r) * 60}
		by := rapid.IntRange(-1, 12).Draw(t, "command")
		got, timedOut, inForce, ok := closing(&rule, at(opened), window{earliest: instant(first), all: instant(all)}, instant(by))

		end, held := opened+w, opened+w+r // of the window, and of the time for which it is held open
		if by >= 0 {
			end, held = min(end, by), min(held, by)
		}

		want, wantTimedOut := -1, false
		for c := opened; c < 40 && want < 0 && first >= 0; c++ {
			has, complete := first <= c, all >= 0 && all <= c
			var closes bool
			switch mode {
			case Immediate:
				closes = has
			case WaitForAll:
				closes = complete && c <= end || has && c >= end
			case CollectionWindow:
				closes = has && c >= end
				if strategy == RequireAll {
					closes = complete && c >= end && c <= held || has && c >= held
				}
			}
			if closes {
				want = c
				wantTimedOut = (mode == WaitForAll || strategy == RequireAll) && (!complete || max(all, opened) > held)
			}
		}
		wantInForce := strategy
		if wantTimedOut && strategy == RequireAll {
			wantInForce = SkipUnchanged
		}
		if ok != (want >= 0) || ok && (!got.Equal(at(want)) || timedOut != wantTimedOut || inForce != wantInForce) {
			t.Fatalf("closes %v (%v, %s, %v), want minute %d (%v, %s)", got, timedOut, inForce, ok, want, wantTimedOut, wantInForce)
		}
		outcomes[string(mode)+map[bool]string{true: " timed out"}[timedOut]]++
		if end < opened+w && ok && mode != Immediate {
			outcomes["by a command"]++
		}
	}, "by a command", "collection_window", "collection_window timed out", "wait_for_all", "wait_for_all timed out", "immediate")
}
