package rollout

import (
	"cmp"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/bracket"
)

// bracketing holds the brackets of a plan and their members.
type bracketing struct {
	members        []bool // per target: whether it is a member of a bracket
	groups         map[ruleIn]*bracket.GroupRecord
	stepped        []*bracketWork           // every bracket in every environment that it involves, and those whose rule is gone
	formerBrackets map[int32][]*bracketWork // per target: brackets with an open execution there whose rule is gone, or that another bracket took it from
	blockedBy      map[int32][]string       // resource → the rules of such executions that are open on it

	executions executions
	opened     []opened                     // what eachOpen yielded last
	commands   map[ruleIn][]bracket.Command // by the bracket that their group is of
	gone       []string                     // deleted resources on which an execution is open, ascending

	concerns map[ruleAt][]int32 // by bracket: the numbers of the deployments of which its policy governs a target there

	bringing  bringing
	attempted attempted // the last that attemptsOf was asked for
}

// bracketWork is one bracket rule in one environment, for one planning.
type bracketWork struct {
	rule         *compiledRule // nil: the rule is gone, its open executions run to their end
	id           string
	environment  int32
	targets      []int32                   // of its members, in order
	deployments  []int32                   // numbers of its members
	losesTargets bool                      // another bracket has taken targets over on which its execution is open
	takenOver    map[int32]bool            // those of former that are members of another bracket
	former       map[int32]bool            // targets of an open execution that are no longer members, see former.go
	orders       map[int32][]order         // by member: the dependency rules that order it instead of blocking it, ascending
	group        *bracket.Group            // the latest closed group, if it still has to run somewhere
	needs        memberTable[[]memberNeed] // of the members of group
	unclear      *Verdict                  // an expression for the roles has no answer: until it has one, no group collects; open executions run on
	keeps        bool                      // a group was asked with a version that the open execution would keep if the group were merged, see merged
	pending      []pendingResource         // resources on which the latest group has still to run
	runs         []pendingRun              // of all pending resources, in their order
	started      map[int32]string          // targets of open executions on which a run may start now → version
	unknown      []jobOn                   // jobs whose run no group has, see runFacts
	kinds        kinds                     // of targets
	plan         bracket.Plan
	state        bracket.State

	ruleInForce bracket.Rule
	observation bracket.Observation

	following     []pendingRun // the runs of the executions that start, in order of their resources
	firstFollower int32        // the number of the first of them, see followerOf
}

func newBracketWork(rule *compiledRule, environment int32) *bracketWork {
	return &bracketWork{rule: rule, id: rule.id, environment: environment, orders: map[int32][]order{}}
}

type pendingResource struct {
	resource int32
	from, to int32 // its runs are runs[from:to]
	position int32
	founders int32     // of the rollout that gives the position
	starts   bool      // its first runs start
	queued   int32     // one more than the index of its start in the queue; 0: there is none
	blockers []Verdict // what keeps the execution from being due, besides time
	timed    []Verdict // rules that it waits for and that time will open
	due      time.Time // if time takes blockers away, or those who have them: when turn, timed and windows let it start after that
}

// pendingRun is a member that will run on a pending resource. There may be one per target, so it is
// small.
type pendingRun struct {
	target  int32
	version int32 // number; missing if the snapshot no longer holds the version, none for a hook without a version
}

// jobOn is a job of a target, by its place in the history of the target.
type jobOn struct{ target, job int32 }

// memberNeed is a member that another one needs.
type memberNeed struct {
	deployment int32
	versions   []string // nil: whatever it runs; else only where it runs one of these after the execution
}

// ruleIn is a bracket rule in an environment.
type ruleIn struct{ rule, environment string }

// brackets steps every bracket rule in every environment that it involves.
func (w *work) brackets() error {
	stored := w.snapshot.State.Brackets
	w.divide(w.snapshot.State.Executions)
	w.groups = make(map[ruleIn]*bracket.GroupRecord, len(stored))
	for _, record := range stored {
		w.groups[ruleIn{record.Rule, record.Environment}] = record
	}
	w.assignCommands()
	var works []*bracketWork
	for b, err := range w.formed() {
		if err != nil {
			return err
		}
		works = append(works, b)
	}
	if err := w.leftBehind(stored); err != nil {
		return err
	}
	works = w.losingFirst(works)
	for k, b := range works {
		w.addFormer(b)
		if err := w.step(b); err != nil {
			return err
		}
		if err := w.dropFormer(b); err != nil {
			return err
		}
		if w.unblock(b) {
			if err := w.askAgain(works[:k]); err != nil {
				return err
			}
		}
	}
	if err := w.stepAgain(works); err != nil {
		return err
	}
	for _, b := range w.stepped {
		if b.state.Group.Number > 0 {
			w.plan.State.Brackets = append(w.plan.State.Brackets, b.state.Group)
		}
	}
	slices.SortFunc(w.plan.State.Brackets, compareGroups)
	w.plan.State.Executions = w.executions.all()
	w.findUnseen()
	return nil
}

// formed yields every bracket rule in every environment that it involves, with its members, and the
// errors of one that claims targets of others.
func (w *work) formed() iter.Seq2[*bracketWork, error] {
	return func(yield func(*bracketWork, error) bool) {
		w.findConcerns()
		involved := w.involved()
		var works []*bracketWork
		for _, rule := range w.set.brackets {
			for _, e := range involved(rule) {
				b, taken := w.membersOf(rule, e)
				err := w.overlaps(rule, taken, works)
				if works = append(works, b); !yield(b, err) {
					return
				}
			}
		}
	}
}

// assignCommands finds the commands that concern each bracket, and the deletions that concern any.
// A host may list many of both, and there may be many brackets.
func (w *work) assignCommands() {
	w.commands = map[ruleIn][]bracket.Command{}
	for _, c := range w.snapshot.Commands {
		if rule, environment, _, ok := bracket.ParseGroupID(c.Group); ok {
			in := ruleIn{rule, environment}
			w.commands[in] = append(w.commands[in], c)
		}
	}
	if len(w.deleted) > 0 {
		for _, record := range w.snapshot.State.Executions {
			if record.Open != nil && w.deleted[record.Resource] {
				w.gone = append(w.gone, record.Resource)
			}
		}
		slices.Sort(w.gone)
	}
}

// findConcerns finds the deployments that each bracket is asked about. In a large set most brackets
// are about few of them, such as those of one tenant, and to ask all about all is a square.
func (w *work) findConcerns() {
	w.concerns = map[ruleAt][]int32{}
	if len(w.set.brackets) == 0 {
		return
	}
	met := make([]int32, len(w.views.list)) // per view: one more than the pair in which it was met last
	for e := range int32(len(w.environments)) {
		for d := range int32(len(w.deployments)) {
			pair := w.pairAt(e, d) + 1
			for _, i := range w.pairs[pair-1].targets {
				view := w.view[i]
				if met[view] == pair { // as that of most targets
					continue
				}
				met[view] = pair
				for _, rule := range w.views.list[view].brackets {
					at := ruleAt{rule.id, e}
					if list := w.concerns[at]; len(list) == 0 || list[len(list)-1] != d {
						w.concerns[at] = append(list, d)
					}
				}
			}
		}
	}
}

// involved returns the environments, in order, in which a bracket may have members, or something is
// stored of it. There may be as many brackets as environments, each in few of them.
func (w *work) involved() func(rule *compiledRule) []int32 {
	lists := map[string][]int32{}
	add := func(rule string, e int32) { lists[rule] = append(lists[rule], e) }
	for at := range w.concerns {
		add(at.rule, at.environment)
	}
	for at := range w.executions.own {
		add(at.rule, at.environment)
	}
	for in := range w.groups {
		if e, known := w.environment(in.environment); known {
			add(in.rule, e)
		}
	}
	return func(rule *compiledRule) []int32 {
		list := lists[rule.id]
		if len(w.executions.common[rule.id]) > 0 {
			list = nil
			for e := range w.environments {
				list = append(list, int32(e))
			}
		}
		slices.Sort(list)
		return slices.Compact(list)
	}
}

// leftBehind steps what is stored of rules that are gone, and of environments that the snapshot does
// not hold.
func (w *work) leftBehind(stored []*bracket.GroupRecord) error {
	for _, record := range slices.SortedFunc(slices.Values(append(w.lostGroups(), stored...)), compareGroups) {
		e, known := w.environment(record.Environment)
		switch rule := w.set.rule(record.Rule); {
		case !known:
			if err := w.elsewhere(record); err != nil {
				return err
			}
			if record.Number > 0 {
				w.plan.State.Brackets = append(w.plan.State.Brackets, record)
			}
		case rule == nil || rule.bracket == nil:
			b := w.abandoned(record, e)
			if err := w.step(b); err != nil {
				return err
			}
			w.keepAbandoned(b)
		}
	}
	return nil
}

func compareGroups(a, b *bracket.GroupRecord) int {
	return cmp.Or(strings.Compare(a.Rule, b.Rule), strings.Compare(a.Environment, b.Environment))
}

func compareExecutions(a, b *bracket.ExecutionRecord) int {
	return cmp.Or(strings.Compare(a.Rule, b.Rule), strings.Compare(a.Resource, b.Resource))
}

// byRule returns the executions of each rule, in order of their resources.
func byRule(list []*bracket.ExecutionRecord) map[string][]*bracket.ExecutionRecord {
	lists := map[string][]*bracket.ExecutionRecord{}
	if !slices.IsSortedFunc(list, compareExecutions) {
		list = slices.SortedFunc(slices.Values(list), compareExecutions)
	}
	for own := range stretches(list, func(a, b *bracket.ExecutionRecord) bool { return a.Rule == b.Rule }) {
		lists[own[0].Rule] = own
	}
	return lists
}
