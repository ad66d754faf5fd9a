package bracket

import (
	"fmt"
	"testing"
	"time"
)

// TestClose: a command closes the group that is collecting. T is minute 0, W is 60 minutes, and R
// is 30 under require_all. a and b are the required members; the numbers are when each has its
// first new version, -1 for never, and when the command is seen.
func TestClose(t *testing.T) {
	for _, row := range []struct {
		mode     ReadinessMode
		strategy UnchangedMemberStrategy
		a, b     int
		seen     int
		closes   int
		ordered  bool // the command closes it, and not its window
		timedOut bool
		inForce  UnchangedMemberStrategy
		why      string
	}{
		{CollectionWindow, SkipUnchanged, 0, -1, 10, 10, true, false, SkipUnchanged, "at once"},
		{CollectionWindow, SkipUnchanged, 0, 5, 10, 10, true, false, SkipUnchanged, "with all that has been collected"},
		{CollectionWindow, RedeployCurrent, 0, -1, 10, 10, true, false, RedeployCurrent, "as configured"},
		{CollectionWindow, SkipUnchanged, 0, -1, 0, 0, true, false, SkipUnchanged, "as soon as it has opened"},
		{CollectionWindow, SkipUnchanged, 0, -1, 59, 59, true, false, SkipUnchanged, "a minute before it would have closed"},
		{CollectionWindow, SkipUnchanged, 0, -1, 60, 60, false, false, SkipUnchanged, "its window is over by itself"},
		{CollectionWindow, SkipUnchanged, 0, -1, 75, 60, false, false, SkipUnchanged, "… and was before anybody looked"},
		{CollectionWindow, RequireAll, 0, -1, 10, 10, true, true, SkipUnchanged, "it waits for b no longer"},
		{CollectionWindow, RequireAll, 0, 5, 10, 10, true, false, RequireAll, "b is there"},
		{CollectionWindow, RequireAll, 0, 10, 10, 10, true, false, RequireAll, "… at that very instant"},
		{CollectionWindow, RequireAll, 0, -1, 70, 70, true, true, SkipUnchanged, "while the window is held open for b"},
		{CollectionWindow, RequireAll, 0, -1, 90, 90, false, true, SkipUnchanged, "it has timed out by itself"},
		{WaitForAll, SkipUnchanged, 0, -1, 10, 10, true, true, SkipUnchanged, "goes on without b"},
		{WaitForAll, RequireAll, 0, -1, 10, 10, true, true, SkipUnchanged, "require_all would deny for ever"},
		{WaitForAll, RedeployCurrent, 0, -1, 10, 10, true, true, RedeployCurrent, "as configured"},
		{WaitForAll, SkipUnchanged, 0, 10, 10, 10, false, false, SkipUnchanged, "all are there"},
		{Immediate, SkipUnchanged, 0, -1, 0, 0, false, false, SkipUnchanged, "nothing to wait for"},
	} {
		h := collectingHost(t, row.mode, row.strategy, "a", "b")
		h.publish("a", "v2", row.a)
		if row.b >= 0 && row.b <= row.seen {
			h.publish("b", "v2", row.b)
		}
		if row.seen > 0 {
			h.step(row.seen - 1)
		}
		h.commands = []Command{{ID: "now", Kind: Close, Group: GroupID(h.state.Group.Rule, h.state.Group.Environment, 1), By: "ann", Reason: "CVE", At: at(row.seen - 5)}}
		h.step(row.seen)
		if len(h.state.Group.Closed) != 1 || len(h.plan.Refused) > 0 {
			t.Errorf("%s: %s, refused %v", row.why, describe(h.state), h.plan.Refused)
			continue
		}
		g := h.state.Group.Closed[0]
		if !g.ReadyAt.Equal(at(row.closes)) || g.TimedOut != row.timedOut || g.Strategy != row.inForce || !g.OpenedAt.Equal(at(0)) {
			t.Errorf("%s: closed at %v, timed out %v, %s", row.why, g.ReadyAt, g.TimedOut, g.Strategy)
		}
		by := Command{ID: "now", Kind: Close, Group: g.ID, By: "ann", Reason: "CVE", At: at(row.closes)}
		if row.ordered && (g.ClosedBy == nil || *g.ClosedBy != by) || !row.ordered && g.ClosedBy != nil {
			t.Errorf("%s: closed by %v", row.why, g.ClosedBy)
		}
		if h.plan.Start == nil {
			t.Errorf("%s: nothing starts: %s", row.why, h.plan)
		}
		if !h.plan.Next.IsZero() && !row.ordered {
			t.Errorf("%s: next %v", row.why, h.plan.Next)
		}
	}
}

// TestCloseEmptyHanded: a group without an eligible version does not close by a command either. It
// closes as soon as a version is, also if it is known when that will be.
func TestCloseEmptyHanded(t *testing.T) {
	h := collectingHost(t, CollectionWindow, SkipUnchanged, "a")
	h.rule.TriggerOn = Published
	h.publish("a", "v2", 0)
	h.version("a", "v2").EligibleAt = time.Time{}
	h.commands = []Command{{ID: "now", Kind: Close, Group: GroupID(h.state.Group.Rule, h.state.Group.Environment, 1)}}
	h.step(5)
	if h.state.Group.Collecting == nil || len(h.plan.Refused) > 0 {
		t.Fatalf("nobody has approved it: %s, refused %v", describe(h.state), h.plan.Refused)
	}
	h.version("a", "v2").EligibleAt = at(20)
	h.step(10)
	if h.state.Group.Collecting == nil || !h.plan.Next.Equal(at(20)) {
		t.Fatalf("it is eligible at minute 20: %s, next %v", describe(h.state), h.plan.Next)
	}
	h.step(20)
	if len(h.state.Group.Closed) != 1 || !h.state.Group.Closed[0].ReadyAt.Equal(at(20)) || h.state.Group.Closed[0].ClosedBy == nil {
		t.Errorf("%s", describe(h.state))
	}
}

// TestCloseNamesAGroup: a command closes the group that it names and no other, and is refused if
// there has been none of that name.
func TestCloseNamesAGroup(t *testing.T) {
	h := collectingHost(t, CollectionWindow, SkipUnchanged, "a")
	h.publish("a", "v2", 0)
	rule, environment := h.state.Group.Rule, h.state.Group.Environment
	for k, group := range []string{GroupID(rule, environment, 2), GroupID(rule, "other", 1), GroupID("other", environment, 1), "1", rule} {
		h.commands = append(h.commands, Command{ID: fmt.Sprint("c", k), Kind: Close, Group: group})
	}
	h.step(1)
	if h.state.Group.Collecting == nil || len(h.plan.Refused) != len(h.commands) {
		t.Fatalf("%s, refused %v", describe(h.state), h.plan.Refused)
	}
	h.commands = []Command{{ID: "one", Kind: Close, Group: GroupID(rule, environment, 1)}, {ID: "again", Kind: Close, Group: GroupID(rule, environment, 1), At: at(1)}}
	h.step(2)
	if closed := h.state.Group.Closed; len(closed) != 1 || closed[0].ClosedBy.ID != "again" {
		t.Fatalf("the command that was given first closes it: %s", describe(h.state))
	}
	h.publish("a", "v3", 3)
	h.step(3)
	if c := h.state.Group.Collecting; c == nil || c.ID != GroupID(rule, environment, 2) || len(h.plan.Refused) > 0 || !h.plan.Next.Equal(at(63)) {
		t.Errorf("the next group collects for an hour, whoever closed the one before: %s, refused %v, next %v", describe(h.state), h.plan.Refused, h.plan.Next)
	}
}

// TestCloseByAnotherClock: the group is not closed before it opened, whatever the clock of the planner
// that hears the command, and the instant is stored in UTC wherever that clock stands.
func TestCloseByAnotherClock(t *testing.T) {
	for _, row := range []struct {
		why    string
		now    time.Time
		closes time.Time // zero: not yet
	}{
		{"it has been set back", at(5), time.Time{}},
		{"it is in another zone", at(15).In(time.FixedZone("", 3600)), at(15)},
	} {
		h := collectingHost(t, CollectionWindow, SkipUnchanged, "a")
		h.publish("a", "v2", 10)
		h.step(10)
		o := h.observation()
		o.Commands = []Command{{ID: "now", Kind: Close, Group: h.state.Group.Collecting.ID}}
		next, plan, err := Step(h.rule, h.state, o, row.now)
		if err != nil {
			t.Fatal(err)
		}
		if row.closes.IsZero() {
			if next.Group.Collecting == nil || !plan.Next.Equal(at(10)) {
				t.Errorf("%s: %s, next %v", row.why, describe(next), plan.Next)
			}
			continue
		}
		read := stored(t, next) // fails if it cannot be read back
		if g := read.Group.Closed[0]; g.ReadyAt != row.closes || g.ClosedBy.At != row.closes {
			t.Errorf("%s: closed at %v, by %v", row.why, g.ReadyAt, g.ClosedBy)
		}
	}
}

// TestCloseNotBeforeItOpened: a version that was eligible before the group opened is new since there is
// a target of its deployment, and a planner whose clock was set back hears the command.
func TestCloseNotBeforeItOpened(t *testing.T) {
	h := collectingHost(t, CollectionWindow, SkipUnchanged, "a")
	h.member("b")
	h.publish("a", "v2", 0)
	h.publish("b", "v2", 30)
	h.step(0)
	h.step(60)
	h.target("n1", "b", "v1")
	h.step(61)
	if c := h.state.Group.Collecting; c == nil || !c.OpenedAt.Equal(at(60)) {
		t.Fatalf("%s", describe(h.state))
	}
	o := h.observation()
	o.Commands = []Command{{ID: "now", Kind: Close, Group: h.state.Group.Collecting.ID}}
	if next, plan, err := Step(h.rule, h.state, o, at(45)); err != nil || next.Group.Collecting == nil || !plan.Next.Equal(at(60)) {
		t.Errorf("%s, next %v, %v", describe(next), plan.Next, err)
	}
}
