package bracket

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/internal/strictjson"
)

// Bracket is one rule with what it selects, for [Check].
type Bracket struct {
	ID      string // rule id, for messages
	Rule    Rule
	Members []Member
	Targets []Target // of the members; only Resource and Deployment are read; nil: overlaps are not checked
}

// Check reports, joined, all faults of brackets that [Rule.Validate] cannot see: a dependency
// against the roles as a [*RoleError], a dependency cycle as a [*CycleError], of every two brackets
// the first target that both claim as an [*OverlapError], and any other fault, such as a bracket
// without a main member or a need that is not a member, as a *[FieldError]. Of several cycles in
// one bracket it reports one. The order of the brackets does not matter to the overlaps, that of
// their targets to nothing, and that of their members only to the paths of faults and to the order
// in which these are listed. It modifies nothing.
func Check(brackets ...Bracket) error {
	var faults []error
	for _, b := range brackets {
		list := "members"
		if b.ID != "" {
			list = fmt.Sprintf("brackets[%q].members", b.ID)
		}
		faults = append(faults, checkMembers(list, b.ID, b.Members, b.Rule.MemberRoles != nil))
		if !hasMain(b) {
			faults = append(faults, fault(list, CodeRequired, nil, "at least one main member, or nothing would ever open a group: widen deploymentSelector or narrow memberRoles"))
		}
	}
	return strictjson.Join(append(faults, overlaps(brackets)...)...)
}

// overlaps reports each pair of brackets that claim a target, once, in the order of the first
// target of each. A target that only one bracket claims costs no comparison with the other
// brackets.
func overlaps(brackets []Bracket) (faults []error) {
	type claim struct {
		*Target
		bracket int
	}
	var claims []claim
	for i := range brackets {
		for k := range brackets[i].Targets {
			claims = append(claims, claim{&brackets[i].Targets[k], i})
		}
	}
	slices.SortFunc(claims, func(a, b claim) int {
		return cmp.Or(compareTargets(*a.Target, *b.Target), strings.Compare(brackets[a.bracket].ID, brackets[b.bracket].ID), cmp.Compare(a.bracket, b.bracket))
	})
	told := make(map[[2]int]bool)
	for i, c := range claims {
		for k := i - 1; k >= 0 && compareTargets(*claims[k].Target, *c.Target) == 0; k-- {
			if pair := [2]int{claims[k].bracket, c.bracket}; pair[0] != pair[1] && !told[pair] {
				told[pair] = true
				faults = append(faults, &OverlapError{[2]string{brackets[pair[0]].ID, brackets[pair[1]].ID}, c.Deployment, c.Resource})
			}
		}
	}
	return faults
}

// hasMain reports whether some member is a main, or may be one once its invalid role is corrected.
// Derived roles leave at least one main.
func hasMain(b Bracket) bool {
	return slices.ContainsFunc(b.Members, func(m Member) bool {
		return b.Rule.MemberRoles == nil || m.Role != Pre && m.Role != Post
	})
}

// checkMembers reports every fault of the members and of the edges between them. list is the path
// of the members, and id the rule id for messages.
func checkMembers(list, id string, members []Member, declared bool) error {
	var f faults
	path := func(i int, field string) string { return fmt.Sprintf("%s[%d].%s", list, i, field) }
	at := make(map[string]int, len(members))
	for i, m := range members {
		if m.Deployment == "" {
			f.add(path(i, "deployment"), CodeRequired, nil, "must not be empty")
		} else if _, twice := at[m.Deployment]; twice {
			f.add(path(i, "deployment"), CodeDuplicate, m.Deployment, "is listed twice")
		}
		at[m.Deployment] = i
		if declared && m.Role != "" && m.Role != Pre && m.Role != Main && m.Role != Post {
			f.add(path(i, "role"), CodeUnknownValue, m.Role, "must be pre, main or post")
		}
	}
	for i, m := range members {
		var told []string // needs at fault: several rules may name one
		for need := range needsOf(m.Needs, m.NeedsIf) {
			j, known := at[need]
			switch {
			case slices.Contains(told, need):
			case !known:
				told = append(told, need)
				f.add(path(i, "needs"), CodeUnknownValue, need, "is not a member, and %q needs it: leave it to an ordinary dependency", m.Deployment)
			case j == i:
				// a cycle of one, reported below
			case declared && roleOrder(m.Role) < roleOrder(members[j].Role):
				told = append(told, need)
				f = append(f, &RoleError{id, m.Deployment, need, orMain(m.Role), orMain(members[j].Role)})
			}
		}
	}
	if cycle := findCycle(members, at); cycle != nil {
		f = append(f, &CycleError{id, cycle})
	}
	return f.sorted()
}

// needsOf yields the deployments of needs and conditional needs alike.
func needsOf(needs []string, needsIf []ConditionalNeed) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, need := range needs {
			if !yield(need) {
				return
			}
		}
		for _, need := range needsIf {
			if !yield(need.Deployment) {
				return
			}
		}
	}
}

func orMain(r Role) Role {
	if r == "" {
		return Main
	}
	return r
}

// phases is how many phases an execution has.
const phases = 3

// roleOrder returns the phase in which a role runs, from 0 to phases-1.
func roleOrder(r Role) int {
	switch r {
	case Pre:
		return 0
	case Post:
		return 2
	}
	return 1
}

// findCycle returns a cycle of needs with its first member repeated at the end, or nil. Of several
// cycles it finds the one that contains or is reached from the smallest deployment, so that the
// order of the input does not matter.
func findCycle(members []Member, at map[string]int) []string {
	const (
		unseen = iota
		open
		done
	)
	mark := make([]int, len(members))
	var path []string
	var visit func(i int) []string
	visit = func(i int) []string {
		mark[i] = open
		path = append(path, members[i].Deployment)
		for _, need := range slices.Sorted(needsOf(members[i].Needs, members[i].NeedsIf)) {
			j, known := at[need]
			if !known {
				continue
			}
			if mark[j] == open {
				return append(slices.Clone(path[slices.Index(path, need):]), need)
			}
			if mark[j] == unseen {
				if cycle := visit(j); cycle != nil {
					return cycle
				}
			}
		}
		path = path[:len(path)-1]
		mark[i] = done
		return nil
	}
	order := make([]int, len(members))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return strings.Compare(members[a].Deployment, members[b].Deployment) })
	for _, i := range order {
		if mark[i] == unseen {
			if cycle := visit(i); cycle != nil {
				return cycle
			}
		}
	}
	return nil
}

// membersAt returns the members of a group that closes at an instant. A version that was created
// later makes no member need another one in the group, and so makes none a hook: a Step in time did
// not know the version (I9).
func (v *view) membersAt(at time.Time) []GroupMember {
	v.orderNeeds()
	if !v.named.After(at) {
		return slices.Clone(v.members)
	}
	members := slices.Clone(v.selected)
	for i := range members {
		m := &members[i]
		all := m.NeedsIf
		m.NeedsIf = nil
		for _, need := range all {
			n := sort.Search(len(need.Versions), func(k int) bool { return v.createdAt(need.Deployment, need.Versions[k]).After(at) })
			if n == 0 && len(need.Versions) > 0 {
				continue
			}
			need.Versions = need.Versions[:n]
			m.NeedsIf = append(m.NeedsIf, need)
		}
	}
	return v.frozen(members)
}

// orderNeeds puts the versions of the needs in the order in which they were created, those that are
// not listed first. It does so once, and only for a Step that closes a group: a late one closes a
// group for each of many versions, and would read all of them each time.
func (v *view) orderNeeds() {
	if v.ordered {
		return
	}
	v.ordered = true
	v.selected = slices.Clone(v.selected)
	for i := range v.selected {
		m := &v.selected[i]
		m.NeedsIf = slices.Clone(m.NeedsIf)
		for k := range m.NeedsIf {
			need := &m.NeedsIf[k]
			need.Versions = slices.SortedFunc(slices.Values(need.Versions), func(a, b string) int {
				return cmp.Or(v.createdAt(need.Deployment, a).Compare(v.createdAt(need.Deployment, b)), strings.Compare(a, b))
			})
			if n := len(need.Versions); n > 0 {
				v.named = maxTime(v.named, v.createdAt(need.Deployment, need.Versions[n-1]))
			}
		}
	}
	v.members = v.frozen(v.selected)
}

// createdAt returns when a version was created, zero if it is not listed.
func (v *view) createdAt(deployment, version string) time.Time {
	if d := v.find(deployment); d >= 0 {
		if r := v.deployments[d].rankOf(version); r >= 0 {
			return v.deployments[d].versions[r].createdAt
		}
	}
	return time.Time{}
}

func (v *view) frozen(members []Member) []GroupMember {
	return frozenMembers(members, v.rule.MemberRoles != nil, func(id string) bool {
		d := v.find(id)
		return d >= 0 && v.deployments[d].targets > 0
	})
}

// frozenMembers returns the members that have targets, ascending by deployment, with their roles
// and with needs that include those of the roles: each main needs each pre, each post needs each
// pre and each main. Locks are left empty. The members must have passed checkMembers.
func frozenMembers(members []Member, declared bool, hasTarget func(string) bool) []GroupMember {
	frozen := make([]GroupMember, 0, len(members))
	for _, m := range members {
		if hasTarget(m.Deployment) {
			g := GroupMember{Deployment: m.Deployment, Role: orMain(m.Role), Needs: append([]string{}, m.Needs...)}
			for _, need := range m.NeedsIf {
				if hasTarget(need.Deployment) {
					g.NeedsIf = append(g.NeedsIf, need)
				}
			}
			frozen = append(frozen, g)
		}
	}
	slices.SortFunc(frozen, func(a, b GroupMember) int { return strings.Compare(a.Deployment, b.Deployment) })
	if !declared {
		deriveRoles(frozen)
	}
	var before [phases][]string // by role: the members of the roles before it
	for i := range frozen {
		for later := roleOrder(frozen[i].Role) + 1; later < phases; later++ {
			before[later] = append(before[later], frozen[i].Deployment)
		}
	}
	for i := range frozen {
		m := &frozen[i]
		m.Needs = slices.DeleteFunc(m.Needs, func(need string) bool { return !hasTarget(need) })
		m.Needs = append(m.Needs, before[roleOrder(m.Role)]...)
		slices.Sort(m.Needs)
		m.Needs = slices.Compact(m.Needs)
		slices.SortFunc(m.NeedsIf, func(a, b ConditionalNeed) int { // several rules may name one deployment: I8
			return cmp.Or(strings.Compare(a.Deployment, b.Deployment), slices.Compare(a.Versions, b.Versions))
		})
	}
	return frozen
}

// deriveRoles makes the only member that needs nothing the pre, and the only member that nothing
// needs the post, if both exist, differ and leave at least one main. In an acyclic graph the only
// member without needs is reached from all others, and the only one that is not needed reaches all
// others, so that both are hooks around everything else.
func deriveRoles(members []GroupMember) {
	needed := make(map[string]bool)
	first, last, firsts, lasts := 0, 0, 0, 0
	for i := range members {
		m := &members[i]
		m.Role = Main
		needs := 0
		for need := range needsOf(m.Needs, m.NeedsIf) {
			if _, member := slices.BinarySearchFunc(members, need, byDeployment); member {
				needed[need] = true
				needs++
			}
		}
		if needs == 0 {
			first, firsts = i, firsts+1
		}
	}
	for i, m := range members {
		if !needed[m.Deployment] {
			last, lasts = i, lasts+1
		}
	}
	if firsts == 1 && lasts == 1 && first != last && len(members) > 2 {
		members[first].Role, members[last].Role = Pre, Post
	}
}

func byDeployment(m GroupMember, deployment string) int {
	return strings.Compare(m.Deployment, deployment)
}

// levels writes to level the topological level of each member: 0 without needs, else one more than
// the highest that it needs. needs returns the needs of the i-th member, and index the member that
// a need names, -1 if there is none.
func levels[N any](level []int, needs func(i int) []N, index func(need N) int) {
	for i := range level {
		level[i] = -1
	}
	for i := range level {
		levelOf(i, level, needs, index)
	}
}

func levelOf[N any](i int, level []int, needs func(i int) []N, index func(need N) int) int {
	if level[i] < 0 {
		level[i] = 0 // also ends the recursion on a cycle, which a stored record may have
		highest := 0
		for _, need := range needs(i) {
			if j := index(need); j >= 0 {
				highest = max(highest, levelOf(j, level, needs, index)+1)
			}
		}
		level[i] = highest
	}
	return level[i]
}

func compareTargets(a, b Target) int {
	return cmp.Or(strings.Compare(a.Resource, b.Resource), strings.Compare(a.Deployment, b.Deployment))
}
