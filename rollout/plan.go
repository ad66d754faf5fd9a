package rollout

import (
	"slices"
	"time"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/concurrency"
)

// Plan is what may start now, and for everything that waits the reason. It is freshly allocated, ordered, and the same for every order
// of the input. Any subset of its starts may be carried out, in any order, before the next plan.
type Plan struct {
	Now time.Time `json:"now"`

	// Start lists the jobs that may be dispatched, in the order in which they were given their slots. They must first be committed
	// with [Plan.Commit] and the state saved; a repeated start carries the same run id, so dispatch is create-if-absent.
	Start []Start `json:"start,omitempty"`

	// Waiting lists, by resource, environment and deployment, every target whose newest candidate may not start, with all blockers.
	Waiting WaitingList `json:"waiting,omitzero"`

	// Keep counts the targets for which there is nothing to do.
	Keep Keep `json:"keep"`

	Pools []Pool  `json:"pools,omitempty"` // by key
	Stuck []Stuck `json:"stuck,omitempty"` // runs and leases without progress for too long

	// Orphans are leases whose holder is not at work, by pool, resource and group. They go on counting, and so may keep everybody else waiting for ever: no plan
	// gives them back, for it cannot know whether somebody is about to dispatch. The host does so with [Planner.Release], or in a state of its own with
	// [concurrency.Record.Release], once nobody can be: a job on a target that the snapshot does not list is seen by nobody.
	Orphans []concurrency.Lease `json:"orphans,omitempty"`

	Events      []Event      `json:"events,omitempty"`      // what changed in the brackets since the state that went in
	Diagnostics []Diagnostic `json:"diagnostics,omitempty"` // oddities that did not prevent the plan

	// Next is the earliest instant after Now at which another plan could differ without a new observation. Between the two nothing
	// changes. Zero: only events can change anything.
	Next time.Time `json:"next,omitzero"`

	brackets []*bracketWork
	work     *work // for Explain

	// State goes into the next snapshot if nothing is started; [Plan.Commit] returns the one that follows the starts.
	State State `json:"state,omitzero"`
}

// Start is a job to dispatch. Where several controllers plan outside brackets from observations of different age, two of them may offer different versions for
// one target, and the one that comes late may be of the older. Such a host creates the job in a transaction that reads the jobs of the target again: if there
// is one, active or over, that the snapshot lacks, it drops the start and plans again.
type Start struct {
	TargetID
	Version string `json:"version"`
	// Run is the identity of the job. Dispatch is create-if-absent by it, and by more with several planners: see above. It is made of ids, joined by
	// slashes and escaped where they contain any, so it is as long as they are together, and of the same characters and %: hash it where names are restricted.
	Run     string  `json:"run"`
	Purpose Purpose `json:"purpose"`

	// Group holds the slot together with the resource: a bracket's version group, or the release target.
	Group string `json:"group"`

	// Claims are the leases that the start needs, one per pool, by pool key; whoever acts for the job carries their tokens.
	Claims []Claim `json:"claims,omitempty"`

	Reason Reason `json:"reason"` // how it got its slot: slot_free, slot_held, slot_already_down, rule_not_applicable or overridden

	Scoped bool `json:"scoped,omitempty"` // the version is not for every target: it has a targetSelector
}

// Purpose says why a job runs.
type Purpose string

const (
	PurposeDeploy   Purpose = "deploy"   // towards the chosen version
	PurposeRollback Purpose = "rollback" // back to the version before, in a bracket that failed or by a rollback rule
)

// Claim is a place in a pool, valid at one revision of the pool's record.
type Claim struct {
	Pool     string `json:"pool"`     // key
	Revision uint64 `json:"revision"` // of the record that the plan read
	Token    uint64 `json:"token"`    // of the lease: greater than that of every earlier lease of the pool
}

// Keep counts targets that need nothing now.
type Keep struct {
	Current int `json:"current"` // run the newest version they may have, be it that their last job is still being verified: their slot is kept until then
	Started int `json:"started"` // have a job in progress
}

// Pool describes a pool: Active after the starts of the plan, all else before them. Two pools are two limits, also where one is the other one under its new name:
// while planners work with both revisions of a policy that renames a rule, what the two let in adds up. With MaxActiveKeys a pool that has no
// holder is active as well if a member is unavailable.
type Pool struct {
	Key         string               `json:"key"`
	Active      int                  `json:"active"` // distinct members that are being disrupted
	Max         int                  `json:"max"`    // how many may be
	Total       int                  `json:"total"`  // members
	Holders     []concurrency.Holder `json:"holders,omitempty"`
	Quarantined []concurrency.Holder `json:"quarantined,omitempty"`
	Unavailable []string             `json:"unavailable,omitempty"`
}

// Stuck is a run or a lease without progress for longer than its rule allows. It keeps its slot.
type Stuck struct {
	Resource string    `json:"resource"`
	Group    string    `json:"group"`
	Run      string    `json:"run,omitempty"`  // the run, for a bracket's stuckAfterSeconds
	Pool     string    `json:"pool,omitempty"` // the pool, for that of a concurrency rule
	Since    time.Time `json:"since"`          // since when it counts as stuck
}

// Event is a change in a bracket.
type Event struct {
	Kind        bracket.EventKind `json:"kind"`
	Rule        string            `json:"rule"`
	Environment string            `json:"environment"`
	Group       string            `json:"group"`
	Resource    string            `json:"resource,omitempty"` // empty for events of a group
	At          time.Time         `json:"at"`                 // when it took effect, which may be before Now
	Status      bracket.Status    `json:"status"`             // of the group or execution afterwards
	Into        string            `json:"into,omitempty"`     // the group whose execution took this one over
}

// Plan decides who may start now and why everybody else waits. It changes nothing: what it would store is in the result.
//
// Rules are asked in the order of the chain in the package documentation, and all that block are returned; capacity is asked last, in one
// batch, and only for what passes everything else.
//
// The error joins one *[FieldError] per contradiction in the snapshot, or is a [*CycleError], or one of package bracket or
// concurrency about the state; then there is no plan. An expression that fails on a target holds that target only, and is in its blockers.
//
// Time and memory grow with the number of targets, plus a sort of what is ranked.
func (s *PolicySet) Plan(snapshot Snapshot, now time.Time) (Plan, error) {
	w, err := s.begin(&snapshot, now)
	if err != nil {
		return Plan{}, err
	}
	if err := w.cycles(); err != nil {
		return Plan{}, err
	}
	for _, cycle := range w.versionCycles() {
		w.diagnose(DiagnosticVersionCycle, "", cycle.Error(), TargetID{})
	}
	w.openPools(&snapshot)
	if err := w.capacity.validateForeign(); err != nil {
		return Plan{}, err
	}
	if err := w.brackets(&snapshot); err != nil {
		return Plan{}, err
	}
	w.settle(&snapshot)
	w.incumbents()
	w.unconfirmed()
	w.reportBrackets()
	w.choose()
	if err := w.admit(); err != nil {
		return Plan{}, err
	}
	w.finish()
	w.release()
	w.plan.work, w.plan.Waiting = w, WaitingList{plan: w}
	return w.plan, nil
}

// begin indexes a snapshot and finds who is governed by what.
func (s *PolicySet) begin(snapshot *Snapshot, now time.Time) (*work, error) {
	x, err := newIndex(snapshot)
	if err != nil {
		return nil, err
	}
	w := &work{
		index: x, set: s, now: now,
		held:        map[int32][]Verdict{},
		rollouts:    map[rolloutKey]RolloutRecord{},
		diagnostics: map[diagnosticKey]*Diagnostic{},
		bases:       map[rolloutKey]time.Time{},
		begun:       map[rolloutKey]*rollout{},
		passed:      map[dependencyKey]asked{},
		named:       map[dependencyKey][]int32{},
		providers:   map[dependencyKey]answer{},
		satisfies:   map[dependencyKey]outcome{},
		compiled:    map[string]compiledText{},
		members:     make([]bool, len(x.targets)),
		waits:       make([]wait, len(x.targets)),
		orderOf:     map[order]int32{},
		vanished:    map[int32]string{},
		scopes:      make([][]*scope, len(x.deployments)),
		hours:       map[overriddenHours]*hours{},
		scoped:      make([]bool, len(x.deployments)),
		plan:        Plan{Now: now.UTC()},
	}
	for _, record := range snapshot.State.Rollouts {
		w.rollouts[record.key()] = record
	}
	for d := range w.scoped {
		w.scoped[d] = s.maxScope != nil || slices.ContainsFunc(x.versions[d].list, func(v *Version) bool { return v.TargetSelector != "" })
	}
	if err := w.override(snapshot.Overrides); err != nil {
		return nil, err
	}
	w.approve(snapshot.Approvals)
	w.pair()
	w.govern()
	return w, nil
}

// finish puts everything into its order.
func (w *work) finish() {
	w.listOrphans()
	w.nameOrphans()
	w.plan.Diagnostics = w.diagnosed()
	groups := map[string]bool{}
	for _, record := range w.plan.State.Brackets {
		for _, group := range record.Closed {
			groups[group.ID] = true
		}
	}
	for _, record := range w.rollouts {
		if w.needed(record, groups) {
			w.plan.State.Rollouts = append(w.plan.State.Rollouts, record)
		}
	}
	slices.SortFunc(w.plan.State.Rollouts, compareRollouts)
}

// release lets go of what only planning needs. The rest stays for as long as the plan does: Commit and Explain read it.
func (w *work) release() {
	w.candidates, w.turns = nil, nil
	for _, b := range w.plan.brackets {
		b.pending, b.runs, b.plan.Wait = nil, nil, nil
	}
}

// needed reports whether a rollout can still place anybody: its version, or its group, exists.
func (w *work) needed(record RolloutRecord, groups map[string]bool) bool {
	if record.Group != "" {
		return groups[record.Group]
	}
	d, known := w.deployment(record.Deployment)
	return known && w.versions[d].number(record.Version) != missing
}

// work is one planning: the index and everything derived from it, alive for one call.
type work struct {
	*index
	set *PolicySet
	now time.Time

	pairs     []pair  // per (environment, deployment)
	ordinal   []int32 // per target: its number among those of its pair
	views     views
	view      []int32             // per target: its view
	windowed  bool                // one of the views has windows
	held      map[int32][]Verdict // targets that nothing may start on, because an expression failed
	approvals map[approvalKey][]Approval
	overrides map[overrideKey]*inForce   // that are active
	hours     map[overriddenHours]*hours // that overrides leave
	meetings  []*meeting
	narrowed  bool                         // one of them names a resource
	singled   map[int32]bool               // resources that one of them names
	scoped    []bool                       // per deployment: not every version is for every target
	scopes    [][]*scope                   // per deployment and version, as they are asked for
	asking    bound                        // of scopes
	rollouts  map[rolloutKey]RolloutRecord // kept and new
	bases     map[rolloutKey]time.Time     // of versions: from when rollouts without a record count
	begun     map[rolloutKey]*rollout      // of versions: the first that was ranked
	passed    map[dependencyKey]asked      // by progression rules, whatever else governs
	groups    map[ruleIn]*bracket.GroupRecord
	capacity  capacity
	members   []bool // per target: it is a member of a bracket

	named     map[dependencyKey][]int32 // by rule and environment
	providers map[dependencyKey]answer
	satisfies map[dependencyKey]outcome
	compiled  map[string]compiledText

	waits       []wait          // per target
	waiting     int             // how many are set
	blockers    [][]Verdict     // the lists that they refer to
	turnsAhead  [][]ahead       // those that are nothing but a turn: turnsTogether in each slice but the last
	orders      []order         // of these
	orderOf     map[order]int32 // as in ahead
	lastOrder   int32
	vanished    map[int32]string // candidates that the snapshot no longer holds
	unslotted   []unslotted      // who waits for a slot with a version that is not the newest one
	candidates  []candidate
	turns       []int32                         // of the candidates: their indices, the first to ask for capacity first
	doubted     map[int32][]concurrency.Refusal // candidates that the pools would admit, by index, and why they are refused all the same
	slotless    map[int32]bool                  // targets outside brackets that wait for a slot
	idle        []idleLease                     // that nobody is seen to use
	past        map[poolPlace]bool              // places beyond the limit that the plan gives, because an override says so
	holding     holding
	leaving     []*bracketWork   // brackets with open executions whose rule is gone, or on targets of another bracket
	closing     map[int32]string // resources on which such an execution is open → the rule
	diagnostics map[diagnosticKey]*Diagnostic
	verdicts    []Verdict // slab
	data        []Data    // slab
	translated  translation
	conditions  []Condition // slab
	plan        Plan
}

// pair is a deployment in an environment.
type pair struct {
	targets  []int32 // in order of their resources
	gates    []*gate
	next     int // in gates: that of the next older version, where all of a target's are asked for one after the other
	blocking []blocking
	group    string // lease group of its targets outside brackets
}

func (w *work) pairOf(t *target) int32 { return t.environment*int32(len(w.deployments)) + t.deployment }

func (w *work) pair() {
	w.pairs = make([]pair, len(w.environments)*len(w.deployments))
	w.ordinal = make([]int32, len(w.targets))
	sizes := make([]int32, len(w.pairs))
	for i := range w.targets {
		sizes[w.pairOf(&w.targets[i])]++
	}
	slab := make([]int32, len(w.targets))
	for k, size := range sizes {
		w.pairs[k].targets, slab = slab[:0:size], slab[size:]
	}
	for i := range w.targets {
		p := &w.pairs[w.pairOf(&w.targets[i])]
		w.ordinal[i] = int32(len(p.targets))
		p.targets = append(p.targets, int32(i))
	}
}

func (v *view) has(rule *compiledRule) bool {
	return slices.ContainsFunc(v.policies, func(p *compiledPolicy) bool { return slices.Contains(p.rules, rule) })
}

// rulesIn reports for every view whether a rule is in it.
func (w *work) rulesIn(rule *compiledRule) []bool {
	has := make([]bool, len(w.views.list))
	for k, v := range w.views.list {
		has[k] = v.has(rule)
	}
	return has
}

func (w *work) bound(i int32) bound {
	t := &w.targets[i]
	return bound{resource: &w.resources[t.resource], environment: &w.environments[t.environment], deployment: &w.deployments[t.deployment]}
}

// id names a target in the words of its entities, which are closer at hand than the target itself.
func (w *work) id(i int32) TargetID {
	t := &w.targets[i]
	return TargetID{Resource: w.resources[t.resource].ID, Environment: w.environments[t.environment].ID, Deployment: w.deployments[t.deployment].ID}
}

// wake notes an instant at which the plan may change by itself. Like every instant that a plan tells it is in UTC, whatever zone the host reads
// its clocks in: of two that are equal it must not matter which comes first.
func (w *work) wake(at time.Time) {
	if at.After(w.now) && (w.plan.Next.IsZero() || at.Before(w.plan.Next)) {
		w.plan.Next = at.UTC()
	}
}

// also adds a verdict to blockers that may be shared: it never writes into their array.
func (w *work) also(blockers []Verdict, verdict Verdict) []Verdict {
	size := len(blockers) + 1
	room := cap(w.verdicts) - len(w.verdicts)
	if n := len(w.verdicts); size > 1 && n > 0 && room > 0 && &w.verdicts[n-1] == &blockers[size-2] {
		w.verdicts = append(w.verdicts, verdict) // behind the last ones, which nobody else continues
		return w.verdicts[n+1-size : n+1 : n+1]
	}
	if room < size {
		w.verdicts = make([]Verdict, 0, max(size, min(max(64, 2*cap(w.verdicts)), 8192)))
	}
	w.verdicts = append(append(w.verdicts, blockers...), verdict)
	n := len(w.verdicts)
	return w.verdicts[n-size : n : n]
}

// once is also, unless the blockers hold the verdict already: what several members of a bracket wait for is said once for their resource.
func (w *work) once(blockers []Verdict, verdict Verdict) []Verdict {
	for k := range blockers {
		if blockers[k].same(&verdict) {
			return blockers
		}
	}
	return w.also(blockers, verdict)
}

// push appends to a list that may become long: append alone lets those grow by a quarter only, and copies all of them several times over.
func push[T any](list []T, item T) []T {
	if len(list) == cap(list) {
		list = slices.Grow(list, max(16, len(list)))
	}
	return append(list, item)
}

// take cuts n elements off a slab, and makes a new one where it is used up.
func take[T any](slab *[]T, n int) []T {
	if cap(*slab)-len(*slab) < n {
		*slab = make([]T, 0, max(n, min(max(16, 2*cap(*slab)), 4096)))
	}
	from := len(*slab)
	*slab = (*slab)[:from+n]
	return (*slab)[from : from+n : from+n]
}

// datum keeps the data of a verdict in a slab.
func (w *work) datum(d Data) *Data {
	own := &take(&w.data, 1)[0]
	*own = d
	return own
}

// unslotted is a target of which an older version waits for nothing but its slots. The plan lists what the newest one waits for; this is for [Plan.Explain].
type unslotted struct {
	target, version int32
	blockers        int32 // as work.list returns it
}

func (w *work) kept(i int32) {
	if w.leaves(i) || w.waits[i].blockers != 0 {
		return // the execution of a rule that is gone has spoken of it
	}
	if w.targets[i].busy {
		w.plan.Keep.Started++
	} else {
		w.plan.Keep.Current++
	}
}
