package rollout

import "fmt"

// reportFailing reports an expression that fails where it is asked, as opposed to one that says no
// or misses a key.
func (l *lint) reportFailing(f Finding, severity Severity, concerns reach, err, consequence string) {
	l.add(f, LintSelectorFails, severity, concerns, fmt.Sprintf("it fails, and %s: %s", consequence, err),
		"correct the expression, or what it reads; test for what may be missing or malformed first")
}

const nothingStarts = "nothing starts as long as it does"

// lookAtFailingSelectors finds the expressions of policies and groups that fail on targets, which
// holds these targets; see work.selectorFailed and work.groupSelectorFailed.
func (l *lint) lookAtFailingSelectors() {
	w := l.w
	var concerned reaches[string]
	details := map[string]string{}
	for i := range w.targets {
		for _, verdict := range w.held[int32(i)] {
			if concerned.at(verdict.Rule).add(int32(i)) {
				details[verdict.Rule] = verdict.Data.Detail
			}
		}
	}
	for _, rule := range w.set.concurrency {
		if own := concerned.of[rule.id]; own != nil {
			l.reportFailing(findingOf(rule, "groupSelector"), SeverityError, *own, details[rule.id], nothingStarts)
		}
	}
	for _, p := range w.set.policies {
		own, rule := concerned.of[p.id], w.set.rule(p.id)
		if own != nil && (rule == nil || rule.pool == nil) { // else it is reported for the group, which has the same id
			l.reportFailing(Finding{Policy: p.id, Path: join(p.path, "selector")}, SeverityError, *own, details[p.id], nothingStarts)
		}
	}
}

// lookAtFailingVersionSelectors finds version selectors that fail on the version that targets would
// get next.
func (l *lint) lookAtFailingVersionSelectors() {
	w := l.w
	for _, rule := range w.set.selectors {
		var concerns reach
		detail := "" // of the example
		for c := range l.governed(rule) {
			answers := map[int32]string{} // by version: the error of an expression that does not read the resource
			for _, i := range c.targets {
				n := l.newest(i, w.targets[i].floor(), l.deployableOn)
				if n == none {
					continue
				}
				answer, known := answers[n]
				if !known || rule.readsResource {
					b := w.boundWith(i, n)
					answer = ""
					if verdict, _ := rule.versionSelector(&b); verdict.Reason == ReasonSelectorError {
						answer = verdict.Data.Detail
					}
					answers[n] = answer
				}
				if answer != "" && w.overriddenAt(rule.id, i, n) == nil && concerns.add(i) {
					detail = answer
				}
			}
		}
		if concerns.some() {
			l.reportFailing(findingOf(rule, "selector"), SeverityError, concerns, detail, "the version that would be next never starts")
		}
	}
}
