package bracket

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/tranche-dev/tranche/internal/instant"
	"github.com/tranche-dev/tranche/internal/strictjson"
)

// UnmarshalJSON decodes a stored record and refuses what [Step] would misread: unknown fields,
// another schema, unknown enum values, instants that are not in UTC, groups, members and locks out
// of order or without an id. The record is then unchanged. A record encoded by encoding/json
// decodes to an equal record if all its texts are valid UTF-8. Step checks the ids and the
// commands.
func (r *GroupRecord) UnmarshalJSON(data []byte) error {
	type plain GroupRecord
	var decoded plain
	if err := strictjson.Unmarshal(data, &decoded); err != nil {
		return decodeErrors(err)
	}
	var f faults
	g := GroupRecord(decoded)
	f.schema(g.Schema)
	f.text("rule", g.Rule)
	if g.Number < 0 || g.Number > math.MaxInt32 {
		f.add("number", CodeOutOfRange, g.Number, "must be from 0 to %d", math.MaxInt32)
	}
	for id, mark := range g.Marks {
		f.mark("marks."+id, mark)
	}
	if c := g.Collecting; c != nil {
		f.group("collecting.id", c.ID, &g, g.Number)
		f.instant("collecting.openedAt", c.OpenedAt, true)
	}
	last := 0
	for i, c := range g.Closed {
		path := fmt.Sprintf("closed[%d]", i)
		if c == nil {
			f.add(path, CodeRequired, nil, "must not be null")
			continue
		}
		n := f.group(path+".id", c.ID, &g, 0)
		switch {
		case n > 0 && n <= last:
			f.add(path+".id", CodeConflict, c.ID, "must come before group %d", last)
		case n > 0 && n == g.Number && g.Collecting != nil:
			f.add(path+".id", CodeConflict, c.ID, "must not be the group that is collecting")
		}
		last = n
		c.check(&f, path)
	}
	if err := f.sorted(); err != nil {
		return err
	}
	*r = g
	return nil
}

func (g *Group) check(f *faults, path string) {
	f.instant(path+".openedAt", g.OpenedAt, true)
	f.instant(path+".readyAt", g.ReadyAt, true)
	enum(f, path+".status", g.Status, StatusReady, StatusExecuting, StatusCompleted, StatusFailed, StatusCancelled)
	if c := g.ClosedBy; c != nil {
		f.decision(path+".closedBy", c, true)
	}
	enum(f, path+".strategy", g.Strategy, SkipUnchanged, RedeployCurrent, RequireAll)
	g.Rule = g.Rule.WithDefaults()
	f.under(path+".rule", g.Rule.Validate())
	for i, m := range g.Members {
		path := fmt.Sprintf("%s.members[%d]", path, i)
		f.text(path+".deployment", m.Deployment)
		enum(f, path+".role", m.Role, Pre, Main, Post)
		if i > 0 && m.Deployment <= g.Members[i-1].Deployment {
			f.add(path+".deployment", CodeConflict, m.Deployment, "must come after %q, once", g.Members[i-1].Deployment)
		}
		for k, l := range m.Locks {
			path := fmt.Sprintf("%s.locks[%d]", path, k)
			f.mark(path, l)
			if k > 0 && l.compare(m.Locks[k-1]) >= 0 {
				f.add(path, CodeConflict, l.ID, "must be older than %q: the newest comes first", m.Locks[k-1].ID)
			}
		}
	}
}

// UnmarshalJSON decodes a stored record as strictly as [GroupRecord.UnmarshalJSON] does.
func (r *ExecutionRecord) UnmarshalJSON(data []byte) error {
	type plain ExecutionRecord
	var decoded plain
	if err := strictjson.Unmarshal(data, &decoded); err != nil {
		return decodeErrors(err)
	}
	var f faults
	e := ExecutionRecord(decoded)
	f.schema(e.Schema)
	f.text("rule", e.Rule)
	f.text("resource", e.Resource)
	for environment, last := range e.Last {
		path := "last." + environment
		if last == nil {
			f.add(path, CodeRequired, nil, "must not be null")
			continue
		}
		f.text(path+".group", last.Group)
		enum(&f, path+".status", last.Status, StatusCompleted, StatusFailed, StatusCancelled)
		f.instant(path+".endedAt", last.EndedAt, true)
		f.decisions(path+".decisions", last.Decisions)
	}
	if e.Open != nil {
		e.Open.check(&f)
	}
	if err := f.sorted(); err != nil {
		return err
	}
	*r = e
	return nil
}

func (x *Execution) check(f *faults) {
	x.Members = slices.Clone(x.Members) // encoding/json reserves space for up to twice as many, and a member is large
	f.text("open.group", x.Group)
	enum(f, "open.status", x.Status, StatusExecuting, StatusFailed)
	f.instant("open.startedAt", x.StartedAt, true)
	f.decisions("open.decisions", x.Decisions)
	if x.Rule != nil {
		rule := x.Rule.WithDefaults()
		x.Rule = &rule
		f.under("open.rule", rule.Validate())
	}
	oneOf(f, "open.recovery", x.Recovery, RecoveryPost, RecoveryRollback)
	if x.Generation < 1+len(x.Merged) || x.Generation > math.MaxInt32 {
		f.add("open.generation", CodeConflict, x.Generation, "must be at least 1 more than the %d merges, and at most %d", len(x.Merged), math.MaxInt32)
	}
	for i, m := range x.Members {
		path := fmt.Sprintf("open.members[%d]", i)
		f.text(path+".deployment", m.Deployment)
		if i > 0 && m.Deployment <= x.Members[i-1].Deployment {
			f.add(path+".deployment", CodeConflict, m.Deployment, "must come after %q, once", x.Members[i-1].Deployment)
		}
		enum(f, path+".role", m.Role, Pre, Main, Post)
		enum(f, path+".action", m.Action, ActionDeploy, ActionRedeploy, ActionSkip, ActionRun)
		enum(f, path+".status", m.Status, MemberWaiting, MemberRunning, MemberSucceeded, MemberSkipped, MemberFailed, MemberCancelled,
			MemberRollingBack, MemberRolledBack)
		oneOf(f, path+".purpose", m.Purpose, Rollback)
		waiting := m.Status == MemberWaiting // with another attempt or generation its next run would have an id that is not its own
		switch {
		case m.Attempt < 0 || m.Attempt > math.MaxInt32:
			f.add(path+".attempt", CodeOutOfRange, m.Attempt, "must be from 0 to %d", math.MaxInt32)
		case m.Attempt == 0 && waiting:
			f.add(path+".attempt", CodeConflict, m.Attempt, "must be at least 1 while the member waits")
		}
		switch {
		case m.Generation == 0:
		case m.Generation > 0 && waiting:
			f.add(path+".generation", CodeConflict, m.Generation, "must be 0 while the member waits")
		case m.Generation < 0 || m.Generation >= x.Generation:
			f.add(path+".generation", CodeOutOfRange, m.Generation, "must be 0, or older than the execution's generation %d", x.Generation)
		}
		if m.RunVersion != "" && !m.running() {
			f.add(path+".runVersion", CodeConflict, m.RunVersion, "must be empty unless a run is in progress")
		}
		f.instant(path+".startedAt", m.StartedAt, false)
		f.instant(path+".endedAt", m.EndedAt, false)
		f.instant(path+".retryAt", m.RetryAt, false)
	}
}

func (f *faults) schema(n int) {
	if n != schema {
		f.add("schema", CodeUnknownValue, n, "must be %d: written by another release of the library", schema)
	}
}

func (f *faults) text(path, value string) {
	if value == "" {
		f.add(path, CodeRequired, nil, "must not be empty")
	}
}

func (f *faults) instant(path string, at time.Time, required bool) {
	if _, offset := at.Zone(); offset != 0 {
		f.add(path, CodeType, at.Format(time.RFC3339Nano), "must be in UTC")
	} else if required && at.IsZero() {
		f.add(path, CodeRequired, nil, "must be set")
	} else if required && instant.Unset(at) {
		f.add(path, CodeOutOfRange, stamp(at), hintYears)
	}
}

func (f *faults) mark(path string, m VersionMark) {
	f.text(path+".id", m.ID)
	f.instant(path+".createdAt", m.CreatedAt, true)
}

func (f *faults) decisions(path string, list []Command) {
	for i := range list {
		f.decision(fmt.Sprintf("%s[%d]", path, i), &list[i], false)
	}
}

// decision checks a command that was applied, to a group if it closed one, or else to an execution.
func (f *faults) decision(path string, c *Command, closes bool) {
	f.under(path, c.Validate())
	f.instant(path+".at", c.At, true)
	switch {
	case closes && c.Kind != Close:
		f.add(path+".kind", CodeConflict, c.Kind, "must be close: nothing else closes a group")
	case !closes && c.Kind == Close:
		f.add(path+".kind", CodeConflict, c.Kind, "must not be close: that concerns no execution")
	}
}

// group checks a group id of the record and returns its number; want is the number it must have, 0
// for any.
func (f *faults) group(path, id string, g *GroupRecord, want int) int {
	n := groupNumber(g.Rule, g.Environment, id)
	if n == 0 || n > g.Number || want > 0 && n != want {
		f.add(path, CodeUnknownValue, id, "must be a group of rule %q in environment %q up to number %d", g.Rule, g.Environment, g.Number)
	}
	return n
}
