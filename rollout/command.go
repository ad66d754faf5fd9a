package rollout

import (
	"fmt"
	"slices"

	"github.com/tranche-dev/tranche/bracket"
)

// A command names one execution by its group and its resource. It is heard once, by the first plan
// that sees it while that execution is open. A command with a wrong name must not pass for one that
// was carried out.

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

// refusedIn holds the commands that a bracket refused in an environment.
type refusedIn struct {
	in       ruleIn
	commands []bracket.Command
}

// unheeded reports the commands that this plan heard and that do not apply, and those that name an
// execution that has not begun or is another group's by now. It reports none that names an
// execution that is over: the command may have ended it, or have been given while it was open, and
// a host may go on listing it.
func (w *work) unheeded() {
	unapplied := map[string]bool{} // ids of commands that do not apply to the execution that they name; a bracket also refuses commands for others
	note := func(refused []bracket.Command, own ruleIn) {
		for _, c := range refused {
			if rule, environment, _, _ := bracket.ParseGroupID(c.Group); own == (ruleIn{rule, environment}) {
				unapplied[c.ID] = true
			}
		}
	}
	for _, b := range w.stepped {
		note(b.plan.Refused, ruleIn{b.id, w.environments[b.environment].ID})
	}
	for _, own := range w.elsewhereRefused {
		note(own.commands, own.in)
	}
	for _, c := range w.snapshot.Commands {
		rule, environment, number, ok := bracket.ParseGroupID(c.Group)
		var x *bracket.Execution
		var last bracket.EndedExecution
		if record := w.execution(rule, c.Resource); ok && record != nil {
			x, last = record.Open, record.Last[environment]
		}
		_, _, ended, _ := bracket.ParseGroupID(last.Group) // 0: none has ended
		why := ""
		switch {
		case x != nil && x.Group == c.Group:
			if unapplied[c.ID] {
				why = fmt.Sprintf("%s does not apply to the execution of %s on %s as it is", c.Kind, c.Group, c.Resource)
			}
		case x != nil && slices.Contains(x.Merged, c.Group):
			why = fmt.Sprintf("the execution on %s is that of %s by now", c.Resource, x.Group)
		case number > ended || !ok:
			why = fmt.Sprintf("no execution of %s has begun on %s", c.Group, c.Resource)
		}
		if why != "" {
			w.diagnose(DiagnosticCommandWithoutEffect, rule, c.ID+": "+why, TargetID{Resource: c.Resource, Environment: environment, Deployment: c.Deployment})
		}
	}
}
