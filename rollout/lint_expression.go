package rollout

import "fmt"

// failed reports an expression that fails where it is asked, as opposed to one that says no or misses a key.
func (l *lint) failed(f Finding, severity Severity, concerns reach, err, consequence string) {
	l.add(f, LintSelectorFails, severity, concerns, fmt.Sprintf("it fails, and %s: %s", consequence, err),
		"correct the expression, or what it reads; test for what may be missing or malformed first")
}

const nothingStarts = "nothing starts as long as it does"

// lookAtHeld finds the expressions of policies and groups that fail on targets: these are held, see work.selectorFailed and work.groupSelectorFailed.
func (l *lint) lookAtHeld() {
	w := l.w
	concerned := map[string]*reach{}
	details := map[string]string{}
	for i := range w.targets {
		for _, verdict := range w.held[int32(i)] {
			if concerned[verdict.Rule] == nil {
				concerned[verdict.Rule], details[verdict.Rule] = &reach{}, verdict.Data.Detail
			}
			concerned[verdict.Rule].add(int32(i))
		}
	}
	for _, p := range w.set.policies {
		for _, rule := range p.concurrency {
			if own := concerned[rule.id]; own != nil {
				l.failed(at(rule, "groupSelector"), SeverityError, *own, details[rule.id], nothingStarts)
			}
		}
		if own := concerned[p.id]; own != nil && w.set.rule(p.id) == nil { // else it is told of a rule that has the same id
			l.failed(Finding{Policy: p.id, Path: join(p.path, "selector")}, SeverityError, *own, details[p.id], nothingStarts)
		}
	}
}

// lookAtSelected finds version selectors that fail on the version that targets would get next.
func (l *lint) lookAtSelected() {
	w := l.w
	type question struct {
		view, pair, version int32
		rule                *compiledRule
	}
	answers := map[question]string{} // the errors of expressions that do not read the resource
	for _, p := range w.set.policies {
		for _, rule := range p.selectors {
			var concerns reach
			detail := ""
			for i := range w.targets {
				if !w.views.list[w.view[i]].has(rule) {
					continue
				}
				n := l.candidate(int32(i))
				if n == none {
					continue
				}
				q := question{w.view[i], w.pairOf(&w.targets[i]), n, rule}
				answer, known := answers[q]
				if !known || rule.readsResource {
					b := w.boundWith(int32(i), n)
					answer = ""
					if verdict, ok := w.versionSelector(rule, &b); !ok && verdict.Reason == ReasonSelectorError {
						answer = verdict.Data.Detail
					}
					answers[q] = answer
				}
				if answer != "" && w.overriddenAt(rule.id, int32(i), n) == nil {
					concerns.add(int32(i))
					detail = answer
				}
			}
			if concerns.targets > 0 {
				l.failed(at(rule, "selector"), SeverityError, concerns, detail, "the version that would be next never starts")
			}
		}
	}
}

// candidate is the newest version that is ready and meant for a target, and newer than what it has; none if there is none.
func (l *lint) candidate(i int32) int32 {
	w := l.w
	t := &w.targets[i]
	versions := w.versions[t.deployment].list
	for n := int32(len(versions)) - 1; n > t.floor(); n-- {
		if versions[n].Status == VersionReady && versions[n].CreatedAt.Before(l.until) && w.inScope(i, n) {
			return n
		}
	}
	return none
}
