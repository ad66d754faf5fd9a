package rollout

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/internal/celtext"
	"github.com/tranche-dev/tranche/internal/strictjson"
	"github.com/tranche-dev/tranche/internal/textlist"
)

// What Lint says of the roles of the members of a bracket, and of members that no order fits.

// reportContradictions adds the findings that say why members cannot be ordered, and returns any
// other error.
func (l *lint) reportContradictions(b *lintBracket, err error) error {
	told := map[[2]string]bool{} // several rules may need the same of a member
	met := l.contradictionsNow(b)
	for _, one := range strictjson.Parts(err) {
		var circle *bracket.CycleError
		var against *bracket.RoleError
		when := "as long as" // they do
		if !met[one.Error()] {
			when = "once a version is there that is listed for later, as long as"
		}
		switch {
		case errors.As(one, &circle) && l.alsoCircular(b.environment, circle.Path): // lookAtCycles reports it, with its rules
		case circle != nil:
			l.addApart(findingOf(b.rule, ""), strings.Join(circle.Path, "\n"), LintDependencyCycle, SeverityError, reachOf(b.targets),
				"members wait for one another, and nothing is planned "+when+" they do: "+strings.Join(circle.Path, " needs "),
				"remove one of these dependencies, or narrow it with appliesTo")
		case errors.As(one, &against):
			if pair := [2]string{against.Deployment, against.Need}; !told[pair] {
				told[pair] = true
				l.reportAcrossRoles(b, against, when)
			}
		default:
			return one
		}
	}
	return nil
}

// reportAcrossRoles reports a member that needs one which runs after it; when says when nothing is
// planned because of that.
func (l *lint) reportAcrossRoles(b *lintBracket, against *bracket.RoleError, when string) {
	from, _ := l.w.deployment(against.Deployment)
	to, _ := l.w.deployment(against.Need)
	rule, field := b.rule, "memberRoles"
	for _, r := range b.rule.policy.dependencies {
		own := l.w.boundIn(b.environment, from)
		if need, _ := l.w.edgeTo(r, b.bracketWork, to, l.until); need != nil && (r.appliesTo == nil || ask(r.appliesTo, &own) != no) {
			rule, field = r, "dependsOn"
			break
		}
	}
	var concerns reach
	for _, i := range b.targets {
		if l.w.targets[i].deployment == from {
			concerns.add(i)
		}
	}
	l.addApart(findingOf(rule, field), against.Deployment+"\n"+against.Need, LintDependencyAcrossRoles, SeverityError, concerns,
		fmt.Sprintf("the %s member %q needs the %s member %q, which runs after it, and nothing is planned %s it does", against.Role, against.Deployment, against.NeedRole, against.Need, when),
		fmt.Sprintf("leave %q out with appliesTo, or %s", against.Deployment, inOrder(against)))
}

// contradictionsNow returns the texts of what is wrong with the members of a bracket by the
// versions that are there by now. It works on a copy, because edgesOf fills in what the rest of
// Lint goes by.
func (l *lint) contradictionsNow(b *lintBracket) map[string]bool {
	own := newBracketWork(b.rule, b.environment)
	own.targets, own.deployments = b.targets, b.deployments
	_, err := closedGroup(&lintBracket{bracketWork: own}, l.w.edgesOf(own, l.w.now)) // whose roles closeGroup has found clear
	met := map[string]bool{}
	for _, one := range strictjson.Parts(err) {
		met[one.Error()] = true
	}
	return met
}

// inOrder says how memberRoles lets a member run after the one that it needs. Main is whoever is in
// neither of its expressions.
func inOrder(against *bracket.RoleError) string {
	switch {
	case against.Role == bracket.Main:
		return fmt.Sprintf("take %q out of memberRoles.post", against.Need)
	case against.NeedRole == bracket.Main:
		return "take it out of memberRoles.pre"
	}
	return "declare it post in memberRoles"
}

// alsoCircular reports whether the members of a circle are also in the one that [PolicySet.Check]
// would refuse in an environment whatever the versions are.
func (l *lint) alsoCircular(e int32, members []string) bool {
	var circle *CycleError
	set := func(path []string) []string { return slices.Compact(slices.Sorted(slices.Values(path))) }
	return errors.As(l.w.deploymentCycle(e), &circle) && slices.Equal(set(circle.Path), set(members))
}

// roles is what the dependencies make of the members of a bracket, in some environments.
type roles struct {
	severity     Severity
	environments []string
	detail, fix  string
}

// lookAtRoles says of each environment which members of a bracket are hooks only by the dependencies.
// The brackets are those of one rule, of which memberRoles holds in all environments.
func (l *lint) lookAtRoles(brackets []*lintBracket) {
	var all []*roles
	for _, b := range brackets {
		if b.group == nil || b.rule.bracket.MemberRoles != nil {
			continue
		}
		own := rolesIn(b)
		known := slices.IndexFunc(all, func(other *roles) bool { return other.detail == own.detail })
		if known < 0 {
			known, all = len(all), append(all, own)
		}
		all[known].environments = append(all[known].environments, l.w.environments[b.environment].ID)
	}
	for _, own := range all {
		where := strings.Join(textlist.Few(own.environments), ", ")
		l.addApart(findingOf(brackets[0].rule, "memberRoles"), where, LintBracketRolesDerived, own.severity, reach{}, "in "+where+" "+own.detail, own.fix)
	}
}

// rolesIn says what the dependencies make of the members in the environment of a bracket.
func rolesIn(b *lintBracket) *roles {
	pre, post := rolesOf(b.group, bracket.Pre), rolesOf(b.group, bracket.Post)
	if alone, pre, post := unorderedMembers(b); len(pre)+len(post) > 0 {
		return &roles{severity: SeverityWarning,
			detail: fmt.Sprintf("no member is a hook, and but for %s, without any dependency, %s would be pre and %s post: as it is, they run only for new versions of their own, and everything else runs without them",
				strings.Join(alone, ", "), strings.Join(pre, ", "), strings.Join(post, ", ")),
			fix: fmt.Sprintf(`write "memberRoles": %s, or {} if no hook is meant`, rolesInJSON(pre, post))}
	}
	if len(pre)+len(post) == 0 {
		return &roles{severity: SeverityInfo,
			detail: "the dependencies make no member a hook; a further member or dependency may",
			fix:    `write "memberRoles": {} if that is meant`}
	}
	return &roles{severity: SeverityWarning,
		detail: fmt.Sprintf("the dependencies make %s pre and %s post; a further member may change that", strings.Join(pre, ", "), strings.Join(post, ", ")),
		fix:    fmt.Sprintf(`write "memberRoles": %s`, rolesInJSON(pre, post))}
}

// rolesInJSON writes roles as a policy gives them.
func rolesInJSON(pre, post []string) string {
	anyOf := func(ids []string) string {
		var terms []string
		for _, id := range ids {
			terms = append(terms, "deployment.id == "+celtext.Quote(id))
		}
		return strings.Join(terms, " || ")
	}
	text, _ := json.Marshal(bracket.MemberRoles{Pre: anyOf(pre), Post: anyOf(post)}) // no text is refused
	return string(text)
}

// unorderedMembers returns the members that need no other member and that none needs, and the hooks
// that the dependencies would make of the other members without them.
func unorderedMembers(b *lintBracket) (alone, pre, post []string) {
	ordered := map[string]bool{}
	for _, m := range b.members {
		for _, need := range m.Needs {
			ordered[m.Deployment], ordered[need] = true, true
		}
		for _, need := range m.NeedsIf {
			ordered[m.Deployment], ordered[need.Deployment] = true, true
		}
	}
	var others []bracket.Member
	for _, m := range b.members {
		if ordered[m.Deployment] {
			others = append(others, m)
		} else {
			alone = append(alone, m.Deployment)
		}
	}
	if len(alone) == 0 {
		return nil, nil, nil
	}
	group, _ := closedGroup(b, others) // a contradiction is reported for all members together
	return alone, rolesOf(group, bracket.Pre), rolesOf(group, bracket.Post)
}

// rolesOf lists the members of a role by id.
func rolesOf(members []bracket.GroupMember, role bracket.Role) []string {
	var ids []string
	for _, m := range members {
		if m.Role == role {
			ids = append(ids, m.Deployment)
		}
	}
	return ids
}
