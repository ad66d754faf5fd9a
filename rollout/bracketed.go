package rollout

import (
	"cmp"
	"math/bits"
	"slices"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/internal/textkey"
)

// bracketWork is one bracket rule in one environment, for one planning.
type bracketWork struct {
	rule        *compiledRule // nil: the rule is gone, its open executions run to their end
	id          string
	environment int32
	view        *view             // of its policy alone
	targets     []int32           // of its members, in order
	deployments []int32           // its members
	former      map[int32]bool    // targets of an open execution that are no members any more, see former.go
	edges       map[edge]bool     // dependency rules that order members instead of blocking them
	group       *bracket.Group    // the latest closed one, if it still has to run somewhere
	needs       [][]int32         // of its members, whatever their versions: numbers of deployments, by number of the deployment
	pending     []pendingResource // resources on which the latest group has still to run
	runs        []pendingRun      // of all pending resources, in their order
	started     map[int32]string  // targets of open executions on which a run may start now → version
	plan        bracket.Plan
	state       bracket.State

	before      *bracket.GroupRecord // as it was read
	ruleInForce bracket.Rule
	observation bracket.Observation
}

type edge struct {
	rule       *compiledRule
	deployment int32
}

type pendingResource struct {
	resource int32
	from, to int32 // its runs
	position int32
	n        int32     // founders of the rollout that gives the position
	starts   bool      // its first runs start
	blockers []Verdict // what keeps the execution from being due, besides time
	timed    []Verdict // rules that it waits for and that time will open
}

// pendingRun is a member that will run on a pending resource: there may be as many as targets, so it is small.
type pendingRun struct {
	target  int32
	version int32 // number; missing if the snapshot no longer holds the version, none for a hook without any
}

// brackets steps every bracket rule in every environment. An execution belongs to the resource, whatever the environment, so the
// executions of a rule pass from one environment to the next.
func (w *work) brackets(s *Snapshot) error {
	executions := byRule(s.State.Executions)
	live := map[string]bool{}
	var works []*bracketWork
	for _, policy := range w.set.policies {
		if rule := policy.bracket; rule != nil {
			live[rule.id] = true
			for e := range w.environments {
				b, err := w.membersOf(policy, int32(e), works)
				if err != nil {
					return err
				}
				works = append(works, b)
			}
		}
	}
	for _, record := range slices.SortedFunc(slices.Values(s.State.Brackets), compareGroups) {
		e, known := w.environment(record.Environment)
		switch {
		case !known:
			w.plan.State.Brackets = append(w.plan.State.Brackets, record)
		case !live[record.Rule]:
			b := w.abandoned(record, e)
			if err := w.step(b, s, executions); err != nil {
				return err
			}
			w.runOut(b)
		}
	}
	for _, b := range works {
		w.addFormer(b, executions[b.id])
		if err := w.step(b, s, executions); err != nil {
			return err
		}
		w.dropFormer(b)
	}
	if err := w.again(works, executions); err != nil {
		return err
	}
	for _, b := range w.plan.brackets {
		if b.state.Group.Number > 0 || b.state.Group != b.before {
			w.plan.State.Brackets = append(w.plan.State.Brackets, b.state.Group)
		}
	}
	slices.SortFunc(w.plan.State.Brackets, compareGroups)
	for _, list := range executions {
		w.plan.State.Executions = append(w.plan.State.Executions, list...)
	}
	slices.SortFunc(w.plan.State.Executions, compareExecutions)
	return nil
}

func compareGroups(a, b *bracket.GroupRecord) int {
	return cmp.Or(strings.Compare(a.Rule, b.Rule), strings.Compare(a.Environment, b.Environment))
}

func compareExecutions(a, b *bracket.ExecutionRecord) int {
	return cmp.Or(strings.Compare(a.Rule, b.Rule), strings.Compare(a.Resource, b.Resource))
}

func byRule(list []*bracket.ExecutionRecord) map[string][]*bracket.ExecutionRecord {
	lists := map[string][]*bracket.ExecutionRecord{}
	if !slices.IsSortedFunc(list, compareExecutions) {
		list = slices.SortedFunc(slices.Values(list), compareExecutions)
	}
	for len(list) > 0 {
		n := 1
		for n < len(list) && list[n].Rule == list[0].Rule {
			n++
		}
		lists[list[0].Rule] = list[:n:n]
		list = list[n:]
	}
	return lists
}

// membersOf finds the targets of a bracket's members in an environment: governed by its policy, of a deployment that the rule selects. No
// other bracket may have them.
func (w *work) membersOf(policy *compiledPolicy, e int32, others []*bracketWork) (*bracketWork, error) {
	rule := policy.bracket
	b := &bracketWork{rule: rule, id: rule.id, environment: e, view: newView([]*compiledPolicy{policy}), edges: map[edge]bool{}}
	d := len(w.deployments)
	size := 0
	for k := range d {
		size += len(w.pairs[int(e)*d+k].targets)
	}
	b.targets = make([]int32, 0, size)
	has := w.rulesIn(rule)
	for k := range d {
		p := &w.pairs[int(e)*d+k]
		if len(p.targets) == 0 {
			continue
		}
		ok, err := rule.members.Match(&bound{deployment: &w.deployments[k]})
		if err != nil {
			for _, i := range p.targets {
				if has[w.view[i]] {
					w.selectorFailed(i, policy.id, rule.id, err)
				}
			}
			continue
		}
		if !ok {
			continue
		}
		before := len(b.targets)
		for _, i := range p.targets {
			if has[w.view[i]] {
				if w.members[i] {
					ids := [2]string{bracketOf(i, others), rule.id}
					slices.Sort(ids[:])
					t := &w.targets[i]
					return nil, &bracket.OverlapError{Brackets: ids, Deployment: t.Deployment, Resource: t.Resource}
				}
				w.members[i] = true
				b.targets = append(b.targets, i)
			}
		}
		if len(b.targets) > before {
			b.deployments = append(b.deployments, int32(k))
		}
	}
	if len(b.deployments) > 1 {
		ascending(b.targets, len(w.targets))
	}
	return b, nil
}

// ascending sorts distinct numbers below n, in time proportional to n: they are many, and close together.
func ascending(numbers []int32, n int) {
	in := make([]uint64, (n+63)/64)
	for _, i := range numbers {
		in[i/64] |= 1 << (i % 64)
	}
	numbers = numbers[:0]
	for at, word := range in {
		for ; word != 0; word &= word - 1 {
			numbers = append(numbers, int32(at*64+bits.TrailingZeros64(word)))
		}
	}
}

// bracketOf is the id of the bracket that a target belongs to already.
func bracketOf(i int32, works []*bracketWork) string {
	for _, b := range works {
		if slices.Contains(b.targets, i) {
			return b.id
		}
	}
	return ""
}

// abandoned is a bracket whose rule is gone: the targets that its groups name.
func (w *work) abandoned(record *bracket.GroupRecord, e int32) *bracketWork {
	b := &bracketWork{id: record.Rule, environment: e, view: newView(nil)}
	d := len(w.deployments)
	seen := map[string]bool{}
	for _, group := range record.Closed {
		for _, m := range group.Members {
			k, known := w.deployment(m.Deployment)
			if known && !seen[m.Deployment] {
				seen[m.Deployment] = true
				b.targets = append(b.targets, w.pairs[int(e)*d+int(k)].targets...)
			}
		}
	}
	slices.Sort(b.targets)
	return b
}

// step observes one bracket and lets package bracket decide.
func (w *work) step(b *bracketWork, s *Snapshot, executions map[string][]*bracket.ExecutionRecord) error {
	environment := w.environments[b.environment].ID
	state := bracket.NewState(b.id, environment)
	for _, record := range s.State.Brackets {
		if record.Rule == b.id && record.Environment == environment {
			state.Group = record
		}
	}
	state.Executions = executions[b.id]
	observation := bracket.Observation{
		RuleDeleted:      b.rule == nil,
		Commands:         s.Commands,
		DeletedResources: s.DeletedResources,
		Runs:             w.runFacts(b, state),
		Due:              func(p bracket.Pending) []time.Time { return w.due(b, p) },
	}
	rule := bracket.Rule{}
	if b.rule != nil {
		rule = *b.rule.bracket
		observation.Members = w.edgesOf(b)
	} else if n := len(state.Group.Closed); n > 0 {
		rule = state.Group.Closed[n-1].Rule
	}
	observation.Versions, observation.Targets = w.observed(b)
	b.state = state // for what is asked before the step is done
	b.before, b.observation, b.ruleInForce = state.Group, observation, rule
	w.plan.brackets = append(w.plan.brackets, b)
	return w.decide(b, executions)
}

func (w *work) decide(b *bracketWork, executions map[string][]*bracket.ExecutionRecord) error {
	var err error
	b.state, b.plan, err = bracket.Step(b.ruleInForce, b.state, b.observation, w.now)
	if err != nil {
		return err
	}
	executions[b.id] = b.state.Executions
	w.wake(b.plan.Next)
	return nil
}

// again asks once more the environments that were asked before an execution of another one ended: the resource may be theirs in this very
// plan, and nothing that happens later would make the host look again.
func (w *work) again(works []*bracketWork, executions map[string][]*bracket.ExecutionRecord) error {
	ends := func(e bracket.Event) bool { return e.Kind == bracket.ExecutionEnded }
	for k, b := range works {
		freed := slices.ContainsFunc(works[k+1:], func(later *bracketWork) bool { return later.id == b.id && slices.ContainsFunc(later.plan.Events, ends) })
		if !freed {
			continue
		}
		events := b.plan.Events
		b.state.Executions = executions[b.id]
		if err := w.decide(b, executions); err != nil {
			return err
		}
		b.plan.Events = slices.Concat(events, b.plan.Events)
	}
	return nil
}

// edgesOf lists the members with the dependencies between them. A dependency rule of the bracket's policy that names members orders them and
// no longer blocks; one that names none stays an ordinary dependency.
func (w *work) edgesOf(b *bracketWork) []bracket.Member {
	numbers := b.deployments
	members := make([]bracket.Member, len(numbers))
	for k, d := range numbers {
		members[k] = bracket.Member{Deployment: w.deployments[d].ID, Role: w.role(b, d)}
		for _, rule := range b.view.dependencies {
			own := bound{deployment: &w.deployments[d], environment: &w.environments[b.environment]}
			if rule.appliesTo != nil && ask(rule.appliesTo, &own) == no {
				continue
			}
			for _, other := range numbers {
				if other == d {
					continue
				}
				switch need := w.need(rule, b, other); {
				case need == nil:
				case need.Versions == nil:
					members[k].Needs = append(members[k].Needs, need.Deployment)
					b.edges[edge{rule, d}] = true
				default:
					members[k].NeedsIf = append(members[k].NeedsIf, *need)
					b.edges[edge{rule, d}] = true
				}
			}
		}
	}
	return members
}

// need is the edge to a member that a rule names: nil if it does not, without versions if it does so whatever the version. An expression
// that also reads the resource counts as naming the member on every resource: an order too many does less harm than one too few.
func (w *work) need(rule *compiledRule, b *bracketWork, d int32) *bracket.ConditionalNeed {
	need := &bracket.ConditionalNeed{Deployment: w.deployments[d].ID}
	at := bound{deployment: &w.deployments[d], environment: &w.environments[b.environment]}
	switch ask(rule.dependsOn, &at) {
	case no:
		return nil
	case yes:
		return need
	}
	if rule.readsResource {
		return need
	}
	for _, v := range w.versions[d].list {
		at.version = v
		if ask(rule.dependsOn, &at) == yes {
			need.Versions = append(need.Versions, v.ID)
		}
	}
	if need.Versions == nil {
		return nil
	}
	return need
}

// role is the declared role of a member; pre wins over post. An expression that fails declares nothing.
func (w *work) role(b *bracketWork, d int32) bracket.Role {
	own := bound{deployment: &w.deployments[d]}
	switch {
	case b.rule.pre != nil && ask(b.rule.pre, &own) == yes:
		return bracket.Pre
	case b.rule.post != nil && ask(b.rule.post, &own) == yes:
		return bracket.Post
	}
	return bracket.Main
}

// observed lists the versions of the members with the instant at which their gates opened, and the targets. Where the gates differ from
// target to target, because other policies govern some of them too, a version that some may have is out of scope for the others.
func (w *work) observed(b *bracketWork) ([]bracket.Version, bracket.Targets) {
	first := map[viewed]int32{} // a target of each kind
	var kinds []viewed
	last := make([]viewed, len(w.deployments)) // that was seen; neighbours of a deployment mostly are of one kind
	for d := range last {
		last[d].deployment = none
	}
	for _, i := range b.targets {
		kind := w.viewed(i)
		if kind == last[kind.deployment] || len(b.former) > 0 && b.former[i] { // a former target gets nothing new, so nobody asks who may have it
			continue
		}
		if _, known := first[kind]; !known {
			first[kind] = i
			kinds = append(kinds, kind)
		}
		last[kind.deployment] = kind
	}
	var versions []bracket.Version
	excluded := map[viewed][]string{}
	slices.SortFunc(kinds, func(a, b viewed) int {
		return cmp.Or(cmp.Compare(a.deployment, b.deployment), cmp.Compare(a.view, b.view), cmp.Compare(a.only, b.only))
	})
	for len(kinds) > 0 {
		n := 1
		for n < len(kinds) && kinds[n].deployment == kinds[0].deployment {
			n++
		}
		same := kinds[:n]
		kinds = kinds[n:]
		for number, v := range w.versions[same[0].deployment].list {
			if v.CreatedAt.After(w.now) { // nobody may have it yet; who runs it already is not taken back
				w.wake(v.CreatedAt)
				versions = append(versions, bracket.Version{Deployment: v.Deployment, ID: v.ID, CreatedAt: v.CreatedAt})
				continue
			}
			observed := bracket.Version{Deployment: v.Deployment, ID: v.ID, CreatedAt: v.CreatedAt}
			var shut []viewed
			for _, kind := range same {
				g := w.gateAt(first[kind], int32(number))
				if len(g.blockers) > 0 {
					shut = append(shut, kind)
				} else if g.base.After(observed.EligibleAt) {
					observed.EligibleAt = g.base
				}
			}
			if len(shut) < len(same) {
				for _, kind := range shut {
					excluded[kind] = append(excluded[kind], v.ID)
				}
			}
			versions = append(versions, observed)
		}
	}
	return versions, &observedTargets{w, b, excluded}
}

// viewed is what decides which versions a target may have, as far as expressions that read its resource do not.
type viewed struct{ deployment, view, only int32 } // only: the resource if an override names it

func (w *work) viewed(i int32) viewed {
	t := &w.targets[i]
	return viewed{t.deployment, w.view[i], w.namedByOverride(t)}
}

// observedTargets shows package bracket the members' targets without a list of them.
type observedTargets struct {
	*work
	bracket  *bracketWork
	excluded map[viewed][]string
}

func (o *observedTargets) Len() int { return len(o.bracket.targets) }

func (o *observedTargets) At(k int) bracket.Target {
	b, i := o.bracket, o.bracket.targets[k]
	t := &o.targets[i]
	own := bracket.Target{Resource: o.resources[t.resource].ID, Deployment: o.deployments[t.deployment].ID, Current: o.currentID(t)}
	if t.outdated {
		own.OutdatedAt = t.OutdatedAt
	}
	if len(o.excluded) > 0 {
		own.OutOfScope = o.excluded[o.viewed(i)]
	}
	if len(b.former) > 0 && b.former[i] {
		own.OutOfScope = o.allVersions(t.deployment)
	} else if b.rule != nil {
		own.OutOfScope = o.outOfScope(own.OutOfScope, i)
	}
	return own
}

// outOfScope adds the versions that do not exist for a target, and those that a version selector refuses on its resource.
func (w *work) outOfScope(list []string, i int32) []string {
	t := &w.targets[i]
	versions := w.versions[t.deployment].list
	for n := int32(len(versions)) - 1; n > t.current && n >= 0; n-- {
		perResource := w.gateOf(i, n).perResource
		if len(perResource) == 0 && !w.scoped[t.deployment] && !w.narrowed {
			return list
		}
		out := !w.inScope(i, n)
		for _, rule := range perResource {
			at := w.bound(i)
			at.version = versions[n]
			if _, ok := w.versionSelector(rule, &at); !ok && w.overriddenAt(rule.id, i, n) == nil {
				out = true
			}
		}
		if out {
			list = append(slices.Clip(list), versions[n].ID)
		}
	}
	return list
}

func (w *work) currentID(t *target) string {
	switch {
	case t.current >= 0:
		return w.versions[t.deployment].list[t.current].ID
	case t.Target.Current != "":
		return t.Target.Current
	}
	for i := range t.Jobs {
		if t.Jobs[i].Status == JobSuccessful {
			return t.Jobs[i].Version
		}
	}
	return ""
}

// runFacts reads the jobs of the groups that the state still knows. Attempts are counted within one group, generation and purpose.
func (w *work) runFacts(b *bracketWork, state bracket.State) []bracket.RunFact {
	var groups, prefixes []string // and what the ids of their runs begin with
	know := func(group string) {
		if !slices.Contains(groups, group) {
			groups, prefixes = append(groups, group), append(prefixes, textkey.Join(group)+"/")
		}
	}
	for _, group := range state.Group.Closed {
		know(group.ID)
	}
	// A host that stopped between saving the group and saving the execution that ended has forgotten the group of an open execution.
	for _, record := range state.Executions {
		if open := record.Open; open != nil && open.Environment == state.Group.Environment {
			know(open.Group)
		}
	}
	if len(prefixes) == 0 {
		return nil
	}
	var facts []bracket.RunFact
	for _, i := range b.targets {
		t := &w.targets[i]
		if !t.worked {
			continue
		}
		for k := range t.Jobs {
			job := &t.Jobs[k]
			g := slices.IndexFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(job.Run, prefix) })
			if g < 0 {
				continue
			}
			run, err := parseRun(groups[g], job.Run[len(prefixes[g]):])
			if err != nil || run.Resource != t.Resource || run.Deployment != t.Deployment {
				w.diagnose(DiagnosticUnknownRun, b.id, job.Run, t.TargetID)
				continue
			}
			facts = push(facts, w.runFact(i, k, run))
		}
	}
	return facts
}

func (w *work) runFact(i int32, k int, run bracket.Run) bracket.RunFact {
	t := &w.targets[i]
	job := &t.Jobs[k]
	fact := bracket.RunFact{Run: run, StartedAt: job.CreatedAt, Status: bracket.RunRunning}
	if !job.Status.Terminal() {
		return fact
	}
	final, judging := w.failedBy(i, job)
	if judging {
		return fact // what a rollback rule has not judged yet has not succeeded yet
	}
	fact.EndedAt = job.end()
	switch job.Status {
	case JobSuccessful:
		fact.Status = bracket.RunSucceeded
		if final {
			fact.Status = bracket.RunFailed
		}
		return fact
	case JobExternalRunNotFound:
		fact.Status = bracket.RunLost
	default:
		fact.Status = bracket.RunFailed
	}
	// The attempts of this run's generation and purpose, this one and those before it.
	prefix := strings.TrimSuffix(job.Run, textkey.Join("", string(run.Purpose)))
	prefix = prefix[:strings.LastIndexByte(prefix, '/')+1]
	var row []Job
	for _, earlier := range t.Jobs[k:] {
		if strings.HasPrefix(earlier.Run, prefix) && strings.HasSuffix(earlier.Run, "/"+string(run.Purpose)) {
			row = append(row, earlier)
		}
	}
	a := w.after(i, w.versions[t.deployment].number(job.Version), row)
	if a.failed > 0 && a.verdict != ReasonRetryExhausted && !final {
		fact.RetryAt = a.next
	}
	return fact
}
