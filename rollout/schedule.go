package rollout

import (
	"slices"
	"time"

	"github.com/tranche-dev/tranche/bracket"
)

// schedule holds the gradual rollouts of one bracket group.
type schedule struct {
	w       *work
	bracket *bracketWork
	group   *bracket.Group
	rules   map[*compiledRule]*scheduledRule
	alike   bool // the runs on one resource that the same policies govern are due together

	unopposed map[int32][]answer // by view, for each deployment from the first member to the last: see isUnopposed
}

type scheduledRule struct {
	rule     *compiledRule
	rollouts map[numbered]*rollout // by what is ranked on its own; if resources are ranked, one under wholeGroup
}

// wholeGroup stands for all members of a group and all their versions if these have one rollout.
func wholeGroup() numbered { return numbered{none, none} }

func (w *work) schedule(b *bracketWork, group *bracket.Group) *schedule {
	s := &schedule{
		w: w, bracket: b, group: group, alike: !w.windowed && len(w.overrides) == 0,
		rules: map[*compiledRule]*scheduledRule{}, unopposed: map[int32][]answer{},
	}
	for _, rule := range w.gradualOf(b.targets) {
		s.rules[rule] = s.scheduled(rule)
		s.alike = s.alike && rule.gradual.OrderKey != OrderByTarget
	}
	return s
}

// scheduled ranks the resources that one gradual rule governs, once for the whole group: every
// member on a resource gets the same turn. If targets are ranked on their own, other versions than
// the newest locked ones are ranked as their runs come up.
func (s *schedule) scheduled(rule *compiledRule) *scheduledRule {
	w, b, group := s.w, s.bracket, s.group
	own := &scheduledRule{rule: rule, rollouts: map[numbered]*rollout{}}
	if rule.gradual.OrderKey == OrderByTarget {
		for k := range group.Members {
			if d, known := w.deployment(group.Members[k].Deployment); known {
				s.rank(own, numbered{d, w.lockedNumber(group, d)})
			}
		}
		return own
	}
	var among *roster
	if rule.gradual.OrderKey == OrderByResource || rule.bracketID != b.id {
		among = w.rosterOf(rule, w.pairAt(b.environment, 0), none)
	} else {
		among = w.roster(b.targets, false)
	}
	key := rolloutKey{rule: rule.id, environment: w.environments[b.environment].ID, group: group.ID}
	members := make([]string, len(group.Members))
	for k := range group.Members {
		members[k] = group.Members[k].Deployment
	}
	own.rollouts[wholeGroup()] = w.begin(rule, key, rule.hash("", group.ID), group.ReadyAt, among, w.pauseIn(key.environment, members...), true)
	return own
}

// lockedNumber returns the number of the newest version that a group has locked for one of its
// members, or none.
func (w *work) lockedNumber(group *bracket.Group, d int32) int32 {
	m := groupMember(group, w.deployments[d].ID)
	if len(m.Locks) == 0 {
		return none
	}
	return w.versions[d].number(m.Locks[0].ID)
}

// rank ranks the targets of a member that may get one version. A group may have locked several
// versions of the member, each for some of the targets. The newest has the record of the group; the
// others, and a version that runs again without being locked, have records that name them.
func (s *schedule) rank(own *scheduledRule, at numbered) *rollout {
	w, b, group := s.w, s.bracket, s.group
	population := w.governed(own.rule, w.targetsIn(b.environment, at.deployment))
	version := ""
	if at.version >= 0 {
		version = w.versions[at.deployment].list[at.version].ID
		if w.scoped[at.deployment] { // a scope does not take from a target what it runs, so it may run that once more
			population = slices.DeleteFunc(slices.Clone(population), func(i int32) bool {
				return !w.inScope(i, at.version) && w.targets[i].current != at.version
			})
		}
	}
	if len(population) == 0 { // the version is for none of them, so none of them runs it
		return nil
	}
	key := rolloutKey{rule: own.rule.id, environment: w.environments[b.environment].ID, deployment: w.deployments[at.deployment].ID, group: group.ID}
	if at.version != w.lockedNumber(group, at.deployment) {
		key.version = version
	}
	r := w.begin(own.rule, key, own.rule.hash(version, group.ID), group.ReadyAt, w.roster(population, true), w.pauseIn(key.environment, key.deployment), true)
	own.rollouts[at] = r
	return r
}

// turn returns when a member's target is due under all rules that govern it, and those that say
// that it never is.
func (s *schedule) turn(run pendingRun) (due time.Time, position, founders int32, never []Verdict) {
	w, i := s.w, run.target
	for _, rule := range w.viewOf(i).gradual {
		r := s.rules[rule]
		if w.overriddenAt(r.rule.id, i, run.version) != nil {
			continue
		}
		rollout := r.rollouts[wholeGroup()]
		if r.rule.gradual.OrderKey == OrderByTarget {
			at := numbered{w.targets[i].deployment, run.version}
			if rollout = r.rollouts[at]; rollout == nil {
				rollout = s.rank(r, at)
			}
		}
		p := w.positionIn(rollout, i)
		h := w.hoursOf(i, run.version)
		at, err := rollout.due(p, h)
		if err != nil {
			verdict := w.never(rollout, p, h, err)
			if verdict.Reason == ReasonRolloutOverflow {
				verdict.Data.Position = 0 // it is told with the turn of the execution, once for all members
			}
			if never = append(never, verdict); len(never) == 1 {
				position, founders = p, int32(rollout.record.Founders)
			}
		} else if at.After(due) && len(never) == 0 {
			due, position, founders = at, p, int32(rollout.record.Founders)
		}
	}
	return due, position, founders, never
}
