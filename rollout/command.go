package rollout

import (
	"fmt"
	"slices"

	"github.com/tranche-dev/tranche/bracket"
)

// A command names one execution by its group and its resource, or a group that it closes. It is
// heard once, by the first plan that sees it while that execution is open, or that group collects.
// A command with a wrong name must not pass for one that was carried out.

// validateCommands reports the faults for which every bracket would reject a command, even if no
// policy has a bracket.
func validateCommands(f *faults, list []bracket.Command) {
	ids := map[string]bool{}
	for i, c := range list {
		at := fmt.Sprintf("commands[%d]", i)
		f.under(at, c.Validate())
		if ids[c.ID] && c.ID != "" {
			f.add(at+".id", CodeDuplicate, c.ID, "is the id of two commands: ids are unique")
		}
		ids[c.ID] = true
	}
}

// unheeded reports the commands that were heard and did not apply, as long as their execution goes
// on, and those that name an execution that has not begun or is another group's by now. It reports
// none that names an execution that is over: the command may have ended it, or have been given while
// it was open, and a host may go on listing it. The same holds for a group that is closed.
func (w *work) unheeded() {
	heard := map[*bracket.Execution]map[string]bool{} // and whether they applied, of the executions that commands name
	for _, c := range w.snapshot.Commands {
		rule, environment, number, ok := bracket.ParseGroupID(c.Group)
		if c.Kind == bracket.Close {
			if why := w.unclosed(c.Group); why != "" {
				w.diagnose(DiagnosticCommandWithoutEffect, rule, c.ID+": "+why, TargetID{Environment: environment})
			}
			continue
		}
		var x *bracket.Execution
		var last bracket.EndedExecution
		if record := w.execution(rule, c.Resource); ok && record != nil {
			x, last = record.Open, endedIn(record, environment)
		}
		_, _, ended, _ := bracket.ParseGroupID(last.Group) // 0: none has ended
		why := ""
		switch {
		case x != nil && x.Group == c.Group:
			if heard[x] == nil {
				heard[x] = heardBy(x)
			}
			if applied, known := heard[x][c.ID]; known && !applied {
				why = fmt.Sprintf("%s did not apply to the execution of %s on %s when it was heard, and never will: %s", c.Kind, c.Group, c.Resource, applies(c, x))
			}
		case x != nil && slices.Contains(x.Merged, c.Group):
			why = fmt.Sprintf("the execution on %s is that of %s by now", c.Resource, x.Group)
		case number > ended || number == 0:
			why = fmt.Sprintf("no execution of %s has begun on %s", c.Group, c.Resource)
		}
		if why != "" {
			w.diagnose(DiagnosticCommandWithoutEffect, rule, c.ID+": "+why, TargetID{Resource: c.Resource, Environment: environment, Deployment: c.Deployment})
		}
	}
}

// heardBy returns the ids of the commands that an open execution has seen, and whether each applied.
func heardBy(x *bracket.Execution) map[string]bool {
	ids := make(map[string]bool, len(x.Commands))
	for _, id := range x.Commands {
		ids[id] = false
	}
	for k := range x.Decisions {
		ids[x.Decisions[k].ID] = true
	}
	return ids
}

// unclosed says why a command does not close a group, or not yet; empty if the group is closed, or
// was cancelled.
func (w *work) unclosed(group string) string {
	rule, environment, number, _ := bracket.ParseGroupID(group) // 0: it is the id of none
	k, known := slices.BinarySearchFunc(w.plan.State.Brackets, &bracket.GroupRecord{Rule: rule, Environment: environment}, compareGroups)
	switch {
	case number == 0 || !known || number > w.plan.State.Brackets[k].Number:
		return fmt.Sprintf("there is no group %s to close", group)
	case w.plan.State.Brackets[k].Collecting == nil || w.plan.State.Brackets[k].Collecting.ID != group:
		return ""
	}
	if _, there := w.environment(environment); !there {
		return fmt.Sprintf("%s is of an environment that is not there", group)
	}
	return fmt.Sprintf("%s closes as soon as one of its versions may be deployed", group)
}

// applies says what a command is for that did not apply to an open execution. What the members were
// when it was heard is not known any more. Commands that end an execution always apply.
func applies(c bracket.Command, x *bracket.Execution) string {
	switch {
	case c.Deployment != "" && memberIn(x, c.Deployment) == nil:
		return c.Deployment + " is no member of it"
	case c.Kind == bracket.Retry && x.Recovery != "":
		return "once the reaction to a failure has begun, only post members and rollbacks that have failed are repeated"
	case c.Kind == bracket.Retry:
		return "only members that have failed are repeated"
	case c.Deployment == "":
		return "only members that have failed are skipped, unless one is named"
	}
	return "only a member that is not done is skipped"
}
