package rollout_test

import (
	"cmp"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/internal/textkey"
	"github.com/tranche-dev/tranche/rollout"
)

// reference plans targets outside brackets the slow and obvious way: every rule is asked about
// every candidate on every target, names stay names, positions are found by counting who comes
// before, and nothing is remembered from one target to the next but the rollout records.
type reference struct {
	policies []rollout.Policy
	env      rollout.Compiler // which may remember what it has compiled: that is not what is compared

	s        *rollout.Snapshot
	now      time.Time
	next     time.Time
	rollouts map[string]rollout.RolloutRecord
	pools    map[string]*referencePool
	keys     []string // of pools, in the order of their rules
	custom   bool     // the host has a rule
	include  bool     // a targetSelector that fails reaches everybody
	held     bool     // nothing new starts where no policy governs

	claimed     int       // who holds something, and found no place elsewhere
	overtaken   int       // who found no place, and was due before one of a higher priority that did
	overridesAt time.Time // which overrides are active; zero: those of now
}

// referencePool is a pool with names.
type referencePool struct {
	rule        concurrency.Rule
	owner       string
	members     map[string]bool
	leases      []concurrency.Lease
	next        uint64
	unavailable map[string]bool
	jobs        []concurrency.Holder
	observed    []string                    // resources that count for a job that the snapshot shows
	running     map[concurrency.Holder]bool // holders of leases that are at work
	stuck       map[concurrency.Holder]bool
	reserved    map[string]string // resources that wait, and keep a place, with their groups
	begun       []concurrency.Begun
	fresh       map[string]bool // resources that begin by the plan, if there is a rate
}

// outcome is what is compared of a plan: texts, so that a difference is readable.
type outcome struct {
	Start    []string
	Waiting  []string
	Keep     rollout.Keep
	Next     string
	Rollouts []string
	Pools    []string
	Stuck    []string
}

func newReference(policies []rollout.Policy, env rollout.Compiler) *reference {
	return &reference{policies: policies, env: env}
}

// vars are the variables of an expression in a map that is filled anew for each evaluation.
type vars map[string]any

func (v vars) Lookup(name string) (any, bool) {
	value, ok := v[name]
	return value, ok
}

func (v vars) resource(r rollout.Resource) vars {
	v["resource.id"], v["resource.name"], v["resource.kind"] = r.ID, r.Name, r.Kind
	v["resource.identifier"], v["resource.version"], v["resource.metadata"] = r.Identifier, r.Version, r.Metadata
	return v
}

func (v vars) environment(e rollout.Environment) vars {
	v["environment.id"], v["environment.name"], v["environment.metadata"] = e.ID, e.Name, e.Metadata
	return v
}

func (v vars) deployment(d rollout.Deployment) vars {
	v["deployment.id"], v["deployment.name"], v["deployment.slug"], v["deployment.metadata"] = d.ID, d.Name, d.Slug, d.Metadata
	return v
}

func (v vars) version(x rollout.Version) vars {
	v["version.id"], v["version.name"], v["version.tag"] = x.ID, x.Name, x.Tag
	v["version.status"], v["version.createdAt"], v["version.metadata"] = string(x.Status), x.CreatedAt, x.Metadata
	return v
}

// match is three-valued: a missing key is neither yes nor an error.
func (r *reference) match(expression string, v vars) (ok, missing bool, err error) {
	s, err := r.env.Matcher(expression)
	if err != nil {
		return false, false, err
	}
	ok, err = s.Match(v)
	if m, is := err.(interface{ MissingKey() string }); is && m.MissingKey() != "" {
		return false, true, nil
	}
	return ok, false, err
}

func find[T any, K comparable](list []T, id func(T) K, want K) (found T) {
	for _, item := range list {
		if id(item) == want {
			return item
		}
	}
	return found
}

func (r *reference) resource(id string) rollout.Resource {
	return find(r.s.Resources, func(x rollout.Resource) string { return x.ID }, id)
}

func (r *reference) environment(id string) rollout.Environment {
	return find(r.s.Environments, func(x rollout.Environment) string { return x.ID }, id)
}

func (r *reference) deployment(id string) rollout.Deployment {
	return find(r.s.Deployments, func(x rollout.Deployment) string { return x.ID }, id)
}

func (r *reference) bind(t rollout.Target) vars {
	return vars{}.resource(r.resource(t.Resource)).environment(r.environment(t.Environment)).deployment(r.deployment(t.Deployment))
}

// versions of a deployment, oldest first.
func (r *reference) versions(deployment string) []rollout.Version {
	var list []rollout.Version
	for _, v := range r.s.Versions {
		if v.Deployment == deployment {
			list = append(list, v)
		}
	}
	slices.SortFunc(list, func(a, b rollout.Version) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	return list
}

func place(list []rollout.Version, id string) int {
	return slices.IndexFunc(list, func(v rollout.Version) bool { return v.ID == id })
}

func jobs(t rollout.Target) []rollout.Job {
	list := slices.Clone(t.Jobs)
	slices.SortStableFunc(list, func(a, b rollout.Job) int {
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(b.Run, a.Run), cmp.Compare(b.Version, a.Version), cmp.Compare(b.Status, a.Status), b.CompletedAt.Compare(a.CompletedAt),
			cmp.Compare(b.Verification, a.Verification))
	})
	return list
}

func currentOf(t rollout.Target) string {
	if t.Current != "" {
		return t.Current
	}
	for _, job := range jobs(t) {
		if job.Status == rollout.JobSuccessful {
			return job.Version
		}
	}
	return ""
}

func active(t rollout.Target) bool {
	return slices.ContainsFunc(t.Jobs, func(j rollout.Job) bool { return !j.Status.Terminal() })
}

func (r *reference) wake(at time.Time) {
	if at.After(r.now) && (r.next.IsZero() || at.Before(r.next)) {
		r.next = at
	}
}

// namedRule is a rule with its id.
type namedRule struct {
	rollout.Rule
	id     string
	policy int
}

// rulesOf returns the rules of a policy with the ids they get.
func (r *reference) rulesOf(k int) []namedRule {
	p := r.policies[k]
	count := map[rollout.RuleKind]int{}
	var rules []namedRule
	for _, rule := range p.Rules {
		id := rule.ID
		if id == "" {
			id = textkey.Join(cmp.Or(p.ID, p.Name), string(rule.Kind()), fmt.Sprint(count[rule.Kind()]))
		}
		count[rule.Kind()]++
		rules = append(rules, namedRule{rule, id, k})
	}
	return rules
}

// enabled lists the indices of the enabled policies, by id.
func (r *reference) enabled() (order []int) {
	for k, p := range r.policies {
		if p.Enabled == nil || *p.Enabled {
			order = append(order, k)
		}
	}
	id := func(k int) string { return cmp.Or(r.policies[k].ID, r.policies[k].Name) }
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(id(a), id(b)) })
	return order
}

// governing returns the rules of all policies that match a target, and the failures of those that
// cannot be asked.
func (r *reference) governing(t rollout.Target) (rules []namedRule, held []string) {
	for _, k := range r.enabled() {
		p := r.policies[k]
		ok, _, err := r.match(p.Selector, r.bind(t))
		if err != nil {
			held = append(held, "selector_error "+cmp.Or(p.ID, p.Name))
		} else if ok {
			rules = append(rules, r.rulesOf(k)...)
		}
	}
	for _, rule := range rules {
		if c := rule.ResourceConcurrency; c != nil {
			if _, _, err := r.match(c.GroupSelector, vars{}.resource(r.resource(t.Resource))); err != nil {
				held = append(held, "selector_error "+rule.id)
			}
		}
	}
	return rules, held
}

// sees returns the other targets on the resource that a dependency rule looks at.
func (r *reference) sees(t rollout.Target, anyEnvironment bool) []rollout.Target {
	var list []rollout.Target
	for _, o := range r.s.Targets {
		if o.Resource == t.Resource && o.Deployment != t.Deployment && (anyEnvironment || o.Environment == t.Environment) {
			list = append(list, o)
		}
	}
	return list
}

// dependency says why a rule blocks a target, or nothing.
func (r *reference) dependency(rule namedRule, t rollout.Target) string {
	d := rule.DeploymentDependency
	if d.AppliesTo != "" {
		ok, missing, err := r.match(d.AppliesTo, r.bind(t))
		if err != nil {
			return "selector_error " + rule.id
		}
		if !ok && !missing {
			return ""
		}
	}
	named, satisfied := 0, 0
	for _, other := range r.sees(t, d.AnyEnvironment) {
		versions := r.versions(other.Deployment)
		at := place(versions, currentOf(other))
		byName, missing, err := r.match(d.DependsOn, r.bind(other)) // with the version unknown
		switch reads := strings.Contains(d.DependsOn, "version."); {
		case err == nil && !missing && !byName:
			continue // whatever the version
		case !reads && err != nil:
			return "selector_error " + rule.id
		case !reads && missing:
			continue
		case at < 0:
			named++
		case byName:
			named, satisfied = named+1, satisfied+1
		default:
			named++
			ok, _, err := r.match(d.DependsOn, r.bind(other).version(versions[at]))
			if err != nil {
				return "selector_error " + rule.id
			}
			if ok {
				satisfied++
			}
		}
	}
	switch {
	case named == 0:
		return "dependency_unmatched " + rule.id
	case d.Match == rollout.MatchAll && satisfied == named, d.Match != rollout.MatchAll && satisfied > 0:
		return ""
	}
	return "dependency_unmet " + rule.id
}

func (r *reference) versionDependency(d rollout.VersionDependency, t rollout.Target) string {
	for _, other := range r.s.Targets {
		if other.Resource == t.Resource && other.Environment == t.Environment && other.Deployment == d.Deployment {
			versions := r.versions(other.Deployment)
			at := place(versions, currentOf(other))
			if at < 0 {
				break
			}
			ok, _, err := r.match(d.VersionSelector, r.bind(other).version(versions[at]))
			if err != nil {
				return "selector_error"
			}
			if ok {
				return ""
			}
		}
	}
	return "version_dependency_unmet"
}

// approvedAt returns when enough people have approved, which may be in the future, and whether that
// ever is.
func (r *reference) approvedAt(rule namedRule, v rollout.Version, environment string) (time.Time, bool) {
	need := *rule.AnyApproval.MinApprovals
	if need == 0 || v.CreatedAt.Before(rule.CreatedAt) {
		return time.Time{}, true
	}
	voices := map[string]time.Time{}
	for _, a := range r.s.Approvals {
		if a.Status != rollout.Approved || a.Version != v.ID || a.Deployment != v.Deployment || a.Environment != environment {
			continue
		}
		if at, known := voices[a.By]; !known || a.At.Before(at) {
			voices[a.By] = a.At
		}
	}
	if len(voices) < need {
		return time.Time{}, false
	}
	var instants []time.Time
	for _, at := range voices {
		instants = append(instants, at)
	}
	slices.SortFunc(instants, time.Time.Compare)
	return instants[need-1], true
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// hashV1 is the frozen order hash, written from its definition: length-prefixed fields, FNV-1a, a
// finaliser.
func hashV1(fields ...string) uint64 {
	h := uint64(14695981039346656037)
	feed := func(b byte) { h = (h ^ uint64(b)) * 1099511628211 }
	for _, field := range fields {
		n := len(field)
		for _, b := range []byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)} {
			feed(b)
		}
		for _, b := range []byte(field) {
			feed(b)
		}
	}
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// hashLegacy is FNV-1a 64 of a text.
func hashLegacy(text string) uint64 {
	h := uint64(14695981039346656037)
	for _, b := range []byte(text) {
		h = (h ^ uint64(b)) * 1099511628211
	}
	return h
}

// ranked is one element of a population.
type ranked struct {
	id       rollout.TargetID
	priority int
	joined   time.Time
	hash     uint64
}

// before is the order of a rollout that started at start.
func (a ranked) before(b ranked, start time.Time) bool {
	joined := func(x ranked) time.Time {
		if x.joined.After(start) {
			return x.joined
		}
		return time.Time{}
	}
	return cmp.Or(
		joined(a).Compare(joined(b)), cmp.Compare(b.priority, a.priority), cmp.Compare(a.hash, b.hash),
		cmp.Compare(a.id.Resource, b.id.Resource), cmp.Compare(a.id.Environment, b.id.Environment), cmp.Compare(a.id.Deployment, b.id.Deployment),
	) < 0
}

// population lists what a gradual rule ranks for a version in the environment of a target.
func (r *reference) population(rule namedRule, t rollout.Target, version string) []ranked {
	g := rule.GradualRollout
	byTarget := g.OrderKey != rollout.OrderByResource
	salt := ""
	if g.OrderSalt == rollout.SaltByVersion || g.OrderSalt == "" && byTarget {
		salt = version
	}
	legacy := g.OrderHash == rollout.HashLegacy
	list := map[string]ranked{}
	for _, o := range r.s.Targets {
		if o.Environment != t.Environment || byTarget && o.Deployment != t.Deployment {
			continue
		}
		if rules, _ := r.governing(o); !slices.ContainsFunc(rules, func(x namedRule) bool { return x.id == rule.id }) {
			continue
		}
		if v := find(r.versions(t.Deployment), func(v rollout.Version) string { return v.ID }, version); byTarget && !r.inScope(v, o) {
			continue
		}
		one := ranked{id: o.TargetID, priority: o.Priority, joined: o.JoinedAt}
		key := fmt.Sprint(o.TargetID)
		switch {
		case byTarget && legacy:
			one.hash = hashLegacy(o.Resource + "-" + o.Environment + "-" + o.Deployment + version)
		case byTarget:
			one.hash = hashV1("position/1", "target", salt, o.Resource, o.Environment, o.Deployment)
		case legacy:
			one.hash, key = hashLegacy(o.Resource), o.Resource
		default:
			one.hash, key = hashV1("position/1", "resource", salt, o.Resource), o.Resource
		}
		if !byTarget {
			one.id = rollout.TargetID{Resource: o.Resource}
		}
		rank(list, key, one)
	}
	return slices.Collect(maps.Values(list))
}

// rank puts one on the list. What is there under its key already has one place with it: the higher
// priority and the earlier instant count.
func rank(list map[string]ranked, key string, one ranked) {
	if known, twice := list[key]; twice {
		one.priority = max(one.priority, known.priority)
		if known.joined.Before(one.joined) {
			one.joined = known.joined
		}
	}
	list[key] = one
}

// turn is the due time and the position of a target under a gradual rule.
func (r *reference) turn(rule namedRule, t rollout.Target, v rollout.Version, base time.Time, openings openings, store bool) (due time.Time, position int, founders int, overflow bool) {
	population := r.population(rule, t, v.ID)
	key := fmt.Sprint(rule.id, "|", t.Environment, "|", t.Deployment, "|", v.ID)
	record, known := r.rollouts[key]
	if !known {
		if store {
			base = r.base(rule, t, v)
		}
		record = rollout.RolloutRecord{Schema: 1, Rule: rule.id, Environment: t.Environment, Deployment: t.Deployment, Version: v.ID, StartAt: base, Founders: len(population)}
		if store {
			r.rollouts[key] = record
		}
	}
	var self ranked
	for _, one := range population {
		if one.id == t.TargetID || rule.GradualRollout.OrderKey == rollout.OrderByResource && one.id.Resource == t.Resource {
			self = one
		}
	}
	for _, one := range population {
		if one.before(self, record.StartAt) {
			position++
		}
	}
	offset, ok := referenceOffset(*rule.GradualRollout, position, record.Founders)
	if !ok {
		return due, position, record.Founders, true
	}
	due = record.StartAt.Add(offset)
	if openings.timed() {
		var ever bool
		if due, ever = openings.addOpen(record.StartAt, offset); !ever {
			return due, position, record.Founders, true
		}
	}
	return due, position, record.Founders, false
}

// curved reports whether a position has an offset at all.
func curved(rule namedRule, position, founders int) bool {
	_, ok := referenceOffset(*rule.GradualRollout, position, founders)
	return ok
}

// base is since when the gates of a version are open for any of those that a rule ranks together,
// whatever overrides for one resource say; zero: for none.
func (r *reference) base(rule namedRule, t rollout.Target, v rollout.Version) (first time.Time) {
	for _, o := range r.s.Targets {
		rules, _ := r.governing(o)
		if o.Environment != t.Environment || o.Deployment != t.Deployment || !slices.ContainsFunc(rules, func(x namedRule) bool { return x.id == rule.id }) || !r.inScope(v, o) {
			continue
		}
		o.Resource = "" // no override names it
		if _, base, shut, _ := r.gate(o, v, rules); len(shut) == 0 && (first.IsZero() || base.Before(first)) {
			first = base
		}
	}
	return first
}

// turnAside is the turn of a target for which an override opened the gate at base: in a rollout of
// its own, or in that of the others, whichever is earlier.
func (r *reference) turnAside(rule namedRule, t rollout.Target, v rollout.Version, base time.Time, openings openings) (due time.Time, position int, founders int, overflow bool) {
	key := fmt.Sprint(rule.id, "|", t.Environment, "|", t.Deployment, "|", v.ID)
	record, started := r.rollouts[key]
	whole := r.base(rule, t, v)
	own := func() (time.Time, int, int, bool) {
		delete(r.rollouts, key)
		defer func() {
			if started {
				r.rollouts[key] = record
			}
		}()
		return r.turn(rule, t, v, base, openings, false)
	}
	if !started && whole.IsZero() {
		return own()
	}
	due, position, founders, overflow = r.turn(rule, t, v, whole, openings, true)
	if record, started = r.rollouts[key]; !overflow && !record.StartAt.After(base) {
		return due, position, founders, overflow
	}
	if at, p, n, failed := own(); !failed && (overflow || at.Before(due)) {
		return at, p, n, failed
	}
	return due, position, founders, overflow
}

// referenceOffset computes a curve with numbers that cannot overflow.
func referenceOffset(g rollout.GradualRollout, position, n int) (time.Duration, bool) {
	interval := new(big.Int).Mul(big.NewInt(*g.TimeScaleInterval), big.NewInt(int64(time.Second)))
	p := big.NewInt(int64(position))
	result := new(big.Int)
	switch g.RolloutType {
	case rollout.Linear:
		result.Mul(p, interval)
	case rollout.LinearNormalized:
		if n > 0 {
			result.Div(result.Mul(p, interval), big.NewInt(int64(n)))
		}
	case rollout.Waves:
		wave := 0
		for left := position; ; wave++ {
			size := max(1, g.Waves[min(wave, len(g.Waves)-1)].Of(n, concurrency.Ceil))
			if left < size {
				break
			}
			left -= size
		}
		result.Mul(big.NewInt(int64(wave)), interval)
	case rollout.Exponential: // in units of 2^-62, one multiplication at a time in the order that is part of the definition
		one := new(big.Int).Lsh(big.NewInt(1), 62)
		base, term := new(big.Int), new(big.Int).Set(one)
		for k := int64(1); term.Sign() != 0; k++ {
			if k%2 == 1 {
				base.Add(base, term)
			} else {
				base.Sub(base, term)
			}
			term.Div(term, big.NewInt(k*g.PositionGrowthFactor))
		}
		mul := func(a, b *big.Int) *big.Int { return new(big.Int).Rsh(new(big.Int).Mul(a, b), 62) }
		power := one
		for bits := position; bits != 0; bits >>= 1 {
			if bits&1 == 1 {
				power = mul(power, base)
			}
			base = mul(base, base)
		}
		result.Sub(interval, mul(interval, power))
	}
	if !result.IsInt64() {
		return 0, false
	}
	return time.Duration(result.Int64()), true
}

// attempt is a start that passed everything but capacity.
type attempt struct {
	t        rollout.Target
	version  string
	run      string
	group    string
	due      time.Time
	position int
	rules    []namedRule
	revert   bool // back to the version before
}

// candidate asks everything about a version newer than what the target keeps.
func (r *reference) candidate(t rollout.Target, v rollout.Version, rules []namedRule) (blockers []string, due time.Time, position int) {
	blockers, base, shut, private := r.gate(t, v, rules)
	due = base
	if len(shut) > 0 {
		due = time.Time{}
	}
	overridden := func(rule namedRule) bool { return r.override(rule.id, v.ID, t) != nil }
	add := func(text string) {
		if text != "" {
			blockers = append(blockers, text)
		}
	}
	for _, rule := range rules {
		if rule.DeploymentDependency != nil && !overridden(rule) {
			add(r.dependency(rule, t))
		}
	}
	for _, d := range v.Dependencies {
		add(r.versionDependency(d, t))
	}
	for _, rule := range rules {
		if rule.VersionCooldown != nil {
			if until, blocks := r.cooldown(rule, t, v); blocks {
				r.wake(until)
				if !overridden(rule) {
					add("cooldown " + rule.id + " " + until.Format(time.RFC3339Nano))
				}
			}
		}
	}
	blockers = append(blockers, r.shut(r.openings(t, v.ID, rules))...)
	openings := r.openingsFrom(t, v.ID, rules, t.Deployment)
	for _, rule := range rules {
		if rule.GradualRollout == nil {
			continue
		}
		turn := func() (time.Time, int, int, bool) {
			if !private {
				return r.turn(rule, t, v, base, openings, true)
			}
			return r.turnAside(rule, t, v, base, openings)
		}
		if o := r.override(rule.id, v.ID, t); o != nil {
			given := later(o.CreatedAt, v.CreatedAt)
			if len(shut) == 0 && base.Before(given) {
				if at, p, _, overflow := turn(); !overflow && at.Before(given) {
					given, position = at, max(position, p)
				}
			}
			due = later(due, given)
			continue
		}
		if len(shut) > 0 {
			add("rollout_not_started " + rule.id + untilOpen(shut))
			continue
		}
		at, p, founders, overflow := turn()
		position = max(position, p)
		switch {
		case overflow && openings.endless() && curved(rule, p, founders):
			add(fmt.Sprintf("rollout_not_due %s %s %d/%d", rule.id, time.Time{}.Format(time.RFC3339Nano), p, founders))
		case overflow:
			add("rollout_overflow " + rule.id)
		case r.now.Before(at):
			r.wake(at)
			add(fmt.Sprintf("rollout_not_due %s %s %d/%d", rule.id, at.Format(time.RFC3339Nano), p, founders))
			due = later(due, at)
		default:
			due = later(due, at)
		}
	}
	add(r.hosted(t, v))
	blockers = append(blockers, r.freezes(t, false)...)
	if active(t) {
		add("target_busy")
	}
	return blockers, due, position
}

// repeat says whether the version that the target keeps needs another job, and what is in the way.
func (r *reference) repeat(t rollout.Target, rules []namedRule, floor, current string) (blockers []string, needed bool) {
	all, row := jobs(t), referenceRow(t, floor)
	if len(row) > 0 && !row[0].Status.Terminal() {
		return nil, false
	}
	if referenceDone(t, row, floor, current) {
		if t.OutdatedAt.IsZero() {
			return nil, false
		}
		if t.OutdatedAt.After(r.now) {
			r.wake(t.OutdatedAt)
			return nil, false
		}
		for _, job := range all {
			if job.Status == rollout.JobSuccessful && job.Version == floor && !job.CreatedAt.Before(t.OutdatedAt) {
				return nil, false
			}
		}
	}
	blockers = r.shut(r.openings(t, floor, rules))
	back := referenceGivenUp(t, floor)
	asked := back != nil && !t.OutdatedAt.IsZero() && !t.OutdatedAt.Before(back.CreatedAt) // for a run of it all the same
	if asked && t.OutdatedAt.After(r.now) {
		r.wake(t.OutdatedAt)
		asked = false
	}
	lifted := func(id string) bool {
		_, o := r.overrides(id, floor, t)
		return o != nil && !o.CreatedAt.Before(back.CreatedAt)
	}
	for _, rule := range rules {
		asked = asked || back != nil && rule.Rollback != nil && lifted(rule.id)
	}
	done := referenceDone(t, row, floor, current)
	since := done || back != nil && !t.OutdatedAt.IsZero() && !t.OutdatedAt.Before(back.CreatedAt) && !t.OutdatedAt.After(r.now)
	ask := func(id string, retry rollout.Retry) {
		n := 0
		_, o := r.overrides(id, floor, t)
		for _, job := range row {
			if o != nil && job.CreatedAt.Before(o.CreatedAt) || since && job.CreatedAt.Before(t.OutdatedAt) {
				break
			}
			counts := job.Status.Terminal() && job.Status != rollout.JobSuccessful && job.Status != rollout.JobCancelled && job.Status != rollout.JobSkipped
			if len(retry.RetryOnStatuses) > 0 {
				counts = slices.Contains(retry.RetryOnStatuses, job.Status)
			}
			if !counts {
				break
			}
			n++
		}
		if back != nil && (asked || lifted(id)) {
			n = 0
		}
		if n > *retry.MaxRetries || back != nil && !asked && !lifted(id) {
			blockers = append(blockers, strings.TrimSpace("retry_exhausted "+id))
		} else if n > 0 {
			end := row[0].CompletedAt
			if end.IsZero() {
				end = row[0].CreatedAt
			}
			if at := end.Add(referenceDelay(retry, n)); at.After(r.now) {
				r.wake(at)
				blockers = append(blockers, "retry_backoff "+id+" "+at.Format(time.RFC3339Nano))
			}
		}
	}
	any := false
	for _, rule := range rules {
		if rule.Retry != nil {
			any = true
			ask(rule.id, *rule.Retry)
		}
	}
	if !any {
		ask("", rollout.Retry{MaxRetries: new(int)})
	}
	blockers = append(blockers, r.freezes(t, !since || slices.ContainsFunc(row, func(job rollout.Job) bool { return !job.CreatedAt.Before(t.OutdatedAt) }))...)
	if active(t) {
		blockers = append(blockers, "target_busy")
	}
	return blockers, true
}

// referenceRow are the newest jobs of a version. What the host has tried since by jobs of its own does
// not end the row of those that went wrong.
func referenceRow(t rollout.Target, version string) (row []rollout.Job) {
	passed := []rollout.Job{}
	for _, job := range jobs(t) {
		switch {
		case job.Version == version:
			row = append(row, job)
		case len(row) > 0 || job.Run != "":
			return row
		default:
			passed = append(passed, job)
		}
		if len(passed) > 0 && (job.Status == rollout.JobSuccessful || !job.Status.Terminal()) && len(row) == 1 {
			return nil
		}
	}
	return row
}

// referenceGivenUp is the job of the host's own by which it has gone back from a version that nobody
// has tried again.
func referenceGivenUp(t rollout.Target, version string) (back *rollout.Job) {
	begun := false
	for _, job := range jobs(t) {
		switch {
		case job.Version == version && back == nil:
			return nil
		case job.Version == version:
			begun = true
		case back == nil && job.Status == rollout.JobSuccessful:
			if back = &job; job.Run != "" {
				return nil
			}
		}
	}
	if !begun {
		return nil
	}
	return back
}

// referenceDone says whether nothing but a change makes the target need a job of what it keeps. row
// are its newest jobs, all of that version.
func referenceDone(t rollout.Target, row []rollout.Job, floor, current string) bool {
	back := false // the host took it back from what had succeeded
	for k, job := range slices.DeleteFunc(slices.Clone(jobs(t)), func(job rollout.Job) bool { return job.Status != rollout.JobSuccessful }) {
		if k == 0 && (job.Run != "" || job.Version == floor) {
			break
		}
		back = back || job.Version == floor
	}
	return floor == current || len(row) > 0 && row[0].Status == rollout.JobSuccessful || back
}

// repeatDue is the latest of: the target became outdated, if it needs the job only because of that,
// its last job ended, the delay after the failed attempts was over.
func (r *reference) repeatDue(t rollout.Target, floor, current string, rules []namedRule) time.Time {
	all, row, back := jobs(t), referenceRow(t, floor), referenceGivenUp(t, floor)
	since := referenceDone(t, row, floor, current) || back != nil && !t.OutdatedAt.IsZero() && !t.OutdatedAt.Before(back.CreatedAt) && !t.OutdatedAt.After(r.now)
	var due time.Time
	if since {
		due = t.OutdatedAt
	}
	if len(all) == 0 {
		return due
	}
	end := all[0].CompletedAt
	if end.IsZero() {
		end = all[0].CreatedAt
	}
	if due = later(due, end); len(row) == 0 {
		return due
	}
	for at := r.now; ; at = at.Add(-30 * time.Second) { // delays are whole half minutes here: go back to where the last retry was still to come
		earlier := *r
		earlier.now, earlier.next, earlier.overridesAt = at, time.Time{}, r.now
		outdated := t
		if since { // what was attempted before is not delayed by
			outdated.Jobs = slices.DeleteFunc(slices.Clone(t.Jobs), func(job rollout.Job) bool { return job.CreatedAt.Before(t.OutdatedAt) })
		}
		outdated.OutdatedAt = time.Time{}
		timed := slices.DeleteFunc(slices.Clone(rules), func(x namedRule) bool { return x.Retry == nil })
		blockers, _ := earlier.repeat(outdated, timed, floor, "")
		if len(blockers) > 0 && strings.HasPrefix(blockers[0], "retry_backoff") {
			return later(due, earlier.next)
		}
		if at.Before(due) {
			return due
		}
	}
}

// referenceDelay doubles with numbers that cannot overflow.
func referenceDelay(retry rollout.Retry, n int) time.Duration {
	delay := new(big.Int).Mul(big.NewInt(retry.BackoffSeconds), big.NewInt(int64(time.Second)))
	if retry.BackoffStrategy == rollout.BackoffExponential {
		delay.Lsh(delay, uint(n-1))
	}
	if m := retry.MaxBackoffSeconds; m != nil {
		if limit := new(big.Int).Mul(big.NewInt(*m), big.NewInt(int64(time.Second))); delay.Cmp(limit) > 0 {
			delay = limit
		}
	}
	if !delay.IsInt64() {
		return 1<<63 - 1
	}
	return time.Duration(delay.Int64())
}

// openPools lists the pools with their members by name.
func (r *reference) openPools() {
	r.pools, r.keys = map[string]*referencePool{}, nil
	for _, k := range r.enabled() {
		for _, rule := range r.rulesOf(k) {
			if rule.ResourceConcurrency == nil {
				continue
			}
			for _, resource := range r.s.Resources {
				key, member := r.poolOf(rule, resource)
				if !member {
					continue
				}
				p := r.pools[key]
				if p == nil {
					p = &referencePool{rule: *rule.ResourceConcurrency, owner: rule.id, members: map[string]bool{}, unavailable: map[string]bool{}, next: 1, jobs: r.s.Active[key]}
					for _, record := range r.s.State.Pools {
						if record.Key == key {
							p.leases, p.next, p.begun = slices.Clone(record.Leases), record.NextToken, record.Begun
						}
					}
					r.pools[key] = p
					r.keys = append(r.keys, key)
				}
				p.members[resource.ID] = true
				if slices.Contains(r.s.Unavailable, resource.ID) {
					p.unavailable[resource.ID] = true
				}
			}
		}
	}
}

func (r *reference) poolOf(rule namedRule, resource rollout.Resource) (key string, member bool) {
	c := rule.ResourceConcurrency
	if ok, _, _ := r.match(c.GroupSelector, vars{}.resource(resource)); !ok {
		return "", false
	}
	value := ""
	switch c.GroupBy {
	case "resource.kind":
		value = resource.Kind
	case "resource.metadata['zone']":
		value = resource.Metadata["zone"]
	}
	return c.PoolKey(rule.id, value), true
}

// settle releases what is proved to have ended.
func (r *reference) settle() {
	for _, p := range r.pools {
		r.observe(p)
		p.leases = slices.DeleteFunc(p.leases, func(l concurrency.Lease) bool {
			if slices.Contains(r.s.DeletedResources, l.Resource) {
				return true
			}
			for _, t := range r.s.Targets {
				if t.Resource != l.Resource || l.Group != textkey.Join("target", t.Environment, t.Deployment) {
					continue
				}
				fresh := false
				for _, j := range t.Jobs {
					if !j.CreatedAt.Before(l.Since) {
						// An end that was seen before the target started once more under its lease
						// says nothing any more. Such a start is noted a nanosecond late, and a job
						// of which no end is known counts as one that ended then.
						end := j.CompletedAt
						if !end.After(j.CreatedAt) {
							end = j.CreatedAt.Add(1)
						}
						fresh = fresh || !end.Before(l.ProgressAt)
						r.wake(j.CreatedAt) // a job that a clock ahead of ours recorded is progress when its time has come
						r.wake(j.CompletedAt)
					}
				}
				return fresh && !active(t) && r.finished(t)
			}
			return false
		})
	}
}

// observe reads from the jobs who is at work under a lease of a pool, what its newest progress is,
// and whether it is stuck.
func (r *reference) observe(p *referencePool) {
	p.running, p.stuck = map[concurrency.Holder]bool{}, map[concurrency.Holder]bool{}
	for k := range p.leases {
		l := &p.leases[k]
		for _, t := range r.s.Targets {
			if t.Resource != l.Resource || l.Group != textkey.Join("target", t.Environment, t.Deployment) {
				continue
			}
			for _, j := range t.Jobs {
				p.running[l.Holder] = p.running[l.Holder] || !j.Status.Terminal()
				if j.CreatedAt.Before(l.Since) {
					continue
				}
				for _, at := range []time.Time{j.CreatedAt, j.CompletedAt} {
					if at.After(l.ProgressAt) && !at.After(r.now) {
						l.ProgressAt = at
						if l.Reason == "stuck" {
							l.State, l.Reason = concurrency.Active, ""
						}
					}
				}
			}
		}
		if after := time.Duration(p.rule.StuckAfterSeconds) * time.Second; after > 0 && p.running[l.Holder] {
			if at := l.ProgressAt.Add(after); at.After(r.now) {
				r.wake(at)
			} else if p.stuck[l.Holder] = true; p.rule.OnStuck == concurrency.Quarantine {
				l.State = concurrency.Quarantined
			}
		}
	}
}

// incumbents counts who has an active job in every pool that a rule gives the target, and who holds
// a lease of a pool that its resource has left.
func (r *reference) incumbents() {
	for _, t := range r.s.Targets {
		if slices.Contains(r.s.DeletedResources, t.Resource) {
			continue
		}
		h := concurrency.Holder{Resource: t.Resource, Group: textkey.Join("target", t.Environment, t.Deployment)}
		carried := false
		for _, p := range r.pools {
			for _, l := range p.leases {
				carried = carried || l.Holder == h && !p.members[t.Resource]
			}
		}
		counts := active(t) || carried
		rules, _ := r.governing(t)
		for _, rule := range rules {
			if rule.ResourceConcurrency == nil || !counts {
				continue
			}
			if key, member := r.poolOf(rule, r.resource(t.Resource)); member && !r.pools[key].holds(h.Resource, h.Group) {
				if !carried {
					r.pools[key].observed = append(r.pools[key].observed, t.Resource)
				} else {
					r.pools[key].jobs = append(slices.Clip(r.pools[key].jobs), h)
				}
			}
		}
	}
}

func (r *reference) finished(t rollout.Target) bool {
	current, floor := r.floor(t)
	if floor == "" {
		return true
	}
	rules, _ := r.governing(t)
	if list := jobs(t); len(list) > 0 && !slices.Contains([]rollout.Verification{"", "passed", "failed"}, list[0].Verification) {
		return false
	}
	if current == "" && currentOf(t) != "" { // of a version that nobody lists: it waits for that
		return jobs(t)[0].Status == rollout.JobSuccessful
	}
	if s := r.wayBack(t, floor, rules); s != nil {
		return s.state != "due" && s.state != "active"
	}
	blockers, needed := r.repeat(t, rules, floor, current)
	return !needed || slices.ContainsFunc(blockers, func(b string) bool { return strings.HasPrefix(b, "retry_exhausted") })
}

// floor returns the current version and the newest of current and started.
func (r *reference) floor(t rollout.Target) (current, floor string) {
	versions := r.versions(t.Deployment)
	at := place(versions, currentOf(t))
	best := at
	for _, job := range t.Jobs {
		best = max(best, place(versions, job.Version))
	}
	if at >= 0 {
		current = versions[at].ID
	}
	if best >= 0 {
		floor = versions[best].ID
	}
	return current, floor
}

func (p *referencePool) max() int {
	if p.rule.Rate != nil && p.rule.Rate.Limit.Of(len(p.members), p.rule.Rounding) == 0 {
		return 0
	}
	return min(len(p.members), p.rule.Max().Of(len(p.members), p.rule.Rounding))
}

// left is how many more may begin at an instant beside those of the plan.
func (p *referencePool) left(at time.Time) int {
	if p.rule.Rate == nil {
		return 1 << 20
	}
	period := time.Duration(p.rule.Rate.PeriodSeconds) * time.Second
	left := p.rule.Rate.Limit.Of(len(p.members), p.rule.Rounding)
	for _, b := range p.begun {
		if at.Sub(b.At) < period {
			left -= b.Count
		}
	}
	return left - len(p.fresh)
}

// opens is when more may begin than now, if nothing is left now that is not reserved; zero if that
// depends on when the plan is carried out.
func (p *referencePool) opens(now time.Time) time.Time {
	if p.rule.Rate == nil || p.max() == 0 || p.left(now) > len(p.reserved) {
		return time.Time{}
	}
	period := time.Duration(p.rule.Rate.PeriodSeconds) * time.Second
	for _, b := range p.begun { // in order
		at := b.At.Add(period)
		if more := max(0, p.left(now)); at.After(now) && p.left(at) > more {
			return at
		}
	}
	return time.Time{}
}

func (p *referencePool) holds(resource, group string) bool {
	return slices.ContainsFunc(p.leases, func(l concurrency.Lease) bool { return l.Resource == resource && l.Group == group }) ||
		slices.Contains(p.jobs, concurrency.Holder{Resource: resource, Group: group})
}

// forgiven are the quarantined leases that do not count.
func (p *referencePool) forgiven() map[concurrency.Holder]bool {
	quarantined := slices.DeleteFunc(slices.Clone(p.leases), func(l concurrency.Lease) bool { return l.State != concurrency.Quarantined })
	slices.SortFunc(quarantined, func(a, b concurrency.Lease) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Group, b.Group))
	})
	set := map[concurrency.Holder]bool{}
	for k, l := range quarantined {
		if k < p.rule.QuarantineAllowance.Of(len(p.members), concurrency.Floor) {
			set[l.Holder] = true
		}
	}
	return set
}

// proved are those that count for more than an observed job.
func (p *referencePool) proved() map[string]bool {
	set, forgiven := map[string]bool{}, p.forgiven()
	for _, l := range p.leases {
		if !forgiven[l.Holder] {
			set[l.Resource] = true
		}
	}
	for _, h := range p.jobs {
		set[h.Resource] = true
	}
	for id := range p.unavailable {
		set[id] = true
	}
	return set
}

// active counts those of whom only a job is seen, too.
func (p *referencePool) active() map[string]bool {
	set := p.proved()
	for _, id := range p.observed {
		set[id] = true
	}
	return set
}

// halted: so many are down that nobody begins, not even where something is down already.
func (p *referencePool) halted() bool {
	above := p.rule.HaltAboveUnavailable
	return !above.IsZero() && len(p.unavailable) > above.Of(len(p.members), concurrency.Floor)
}

// down are those on whom a start takes no place: the active ones, but for those that are only
// unavailable where that has halted the pool, and those whose leases are forgiven.
func (p *referencePool) down(id string) bool {
	if p.halted() {
		return p.busy(id)
	}
	return p.active()[id] || p.busy(id)
}

// busy are those with a lease or a job, forgiven or not.
func (p *referencePool) busy(id string) bool {
	return slices.Contains(p.observed, id) || slices.ContainsFunc(p.jobs, func(h concurrency.Holder) bool { return h.Resource == id }) || slices.ContainsFunc(p.leases, func(l concurrency.Lease) bool { return l.Resource == id })
}

// family is what pools have in common of which only so many may be active; empty without such a
// limit.
func (p *referencePool) family() string {
	if p.rule.MaxActiveKeys.IsZero() {
		return ""
	}
	return p.owner
}

// activeKeys counts the active pools of a family, and those that would be if everybody who keeps a
// place had it.
func (r *reference) activeKeys(family string) (active, kept int) {
	for _, p := range r.pools {
		if p.family() == family && len(p.active()) > 0 {
			active++
		} else if p.family() == family && len(p.reserved) > 0 {
			kept++
		}
	}
	return active, kept
}

// excludes: another group is at work on the resource, and this one is not.
func (p *referencePool) excludes(id, group string) bool {
	return p.rule.Exclusive && p.busy(id) && !p.holds(id, group)
}

// refusal says why a pool has no place, or no key, for a resource; id is empty for one that keeps
// no place there.
func (r *reference) refusal(p *referencePool, id, group string) string {
	n := len(p.active())
	keeper, kept := p.reserved[id]
	theirs := kept && p.rule.Exclusive && keeper != group
	switch {
	case p.excludes(id, group):
		return "slot_exclusive"
	case p.active()[id] && p.down(id):
		return ""
	case p.down(id): // it takes no place, and perhaps a key
	case p.max() == 0:
		return "slot_paused"
	case p.halted():
		return "slot_halted"
	case n >= p.max():
		return "slot_full"
	case p.left(r.now) <= 0:
		return "slot_rate_full"
	case theirs, (n+len(p.reserved) >= p.max() || len(p.reserved) >= p.left(r.now)) && !kept:
		return "slot_reserved"
	}
	if p.family() == "" || n > 0 {
		return ""
	}
	switch active, kept := r.activeKeys(p.family()); {
	case active >= p.rule.MaxActiveKeys.Value():
		return "slot_keys_full"
	case active+kept >= p.rule.MaxActiveKeys.Value() && len(p.reserved) == 0:
		return "slot_reserved"
	}
	return ""
}

// overfull is what a pool that has more than it may says to one more; empty: it has not.
func (r *reference) overfull(p *referencePool) string {
	active, _ := r.activeKeys(p.family())
	switch n := len(p.active()); {
	case n == 0:
	case p.max() == 0:
		return "slot_paused"
	case p.halted():
		return "slot_halted"
	case n > p.max():
		return "slot_full"
	case p.family() != "" && active > p.rule.MaxActiveKeys.Value():
		return "slot_keys_full"
	}
	return ""
}

// unproved is what a pool that has more than it may says to whoever would start on a place that
// counts for an observed job alone.
func (r *reference) unproved(before, after *referencePool, id string) string {
	proved := before.unavailable[id] && !before.halted() || slices.ContainsFunc(before.jobs, func(h concurrency.Holder) bool { return h.Resource == id })
	if before.active()[id] && !proved && !slices.ContainsFunc(before.leases, func(l concurrency.Lease) bool { return l.Resource == id }) {
		return r.overfull(after)
	}
	return ""
}

// unused is what a pool says to whoever begins there without a lease of its own, while more pools
// of its family are active than may be, and nobody is seen at work in it.
func (r *reference) unused(before, after *referencePool, id, group string) string {
	active, _ := r.activeKeys(after.family())
	inUse := len(before.unavailable) > 0 || len(before.jobs) > 0 || slices.ContainsFunc(before.leases, func(l concurrency.Lease) bool { return before.running[l.Holder] })
	if after.family() != "" && active > after.rule.MaxActiveKeys.Value() && !inUse && len(after.active()) > 0 && !before.holds(id, group) {
		return "slot_keys_full"
	}
	return ""
}

// plan decides about everything.
func (r *reference) plan(s rollout.Snapshot, now time.Time) outcome {
	r.s, r.now, r.next = &s, now, time.Time{}
	s.Targets = slices.DeleteFunc(slices.Clone(s.Targets), func(t rollout.Target) bool { return slices.Contains(s.DeletedResources, t.Resource) })
	s.Resources = slices.DeleteFunc(slices.Clone(s.Resources), func(x rollout.Resource) bool { return slices.Contains(s.DeletedResources, x.ID) })
	r.rollouts = map[string]rollout.RolloutRecord{}
	for _, record := range s.State.Rollouts {
		r.rollouts[fmt.Sprint(record.Rule, "|", record.Environment, "|", record.Deployment, "|", record.Version)] = record
	}
	for _, a := range s.Approvals {
		if a.Status == rollout.Approved {
			r.wake(a.At)
		}
	}
	for _, o := range s.Overrides {
		switch {
		case !r.lets(o):
			r.wake(o.ExpiresAt)
		case r.now.Before(o.CreatedAt):
			r.wake(o.CreatedAt)
		default:
			r.wake(o.ExpiresAt)
		}
	}
	for _, z := range s.Freezes {
		there := slices.ContainsFunc(s.Targets, func(t rollout.Target) bool { return freezesTarget(z, t.TargetID) })
		if there {
			r.wake(z.CreatedAt)
		}
		if !there || !r.now.Before(z.CreatedAt) {
			r.wake(z.ExpiresAt)
		}
	}
	r.openPools()
	r.settle()
	r.incumbents()
	targets := slices.Clone(s.Targets)
	slices.SortFunc(targets, func(a, b rollout.Target) int {
		return cmp.Or(cmp.Compare(a.Environment, b.Environment), cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Deployment, b.Deployment))
	})
	var out outcome
	var asking []attempt
	waiting := map[rollout.TargetID]string{}
	for _, t := range targets {
		text, a := r.decide(t, &out)
		if text != "" {
			waiting[t.TargetID] = text
		}
		if a != nil {
			asking = append(asking, *a)
		}
	}
	r.admit(asking, waiting, &out)
	slices.SortFunc(targets, func(a, b rollout.Target) int {
		return cmp.Or(cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Environment, b.Environment), cmp.Compare(a.Deployment, b.Deployment))
	})
	for _, t := range targets {
		if text := waiting[t.TargetID]; text != "" {
			out.Waiting = append(out.Waiting, fmt.Sprintf("%s/%s/%s %s", t.Resource, t.Environment, t.Deployment, text))
		}
	}
	if !r.next.IsZero() {
		out.Next = r.next.Format(time.RFC3339Nano)
	}
	for _, record := range r.rollouts {
		if place(r.versions(record.Deployment), record.Version) >= 0 {
			out.Rollouts = append(out.Rollouts, describeRollout(record))
		}
	}
	slices.Sort(out.Rollouts)
	for _, key := range r.keys {
		p := r.pools[key]
		out.Pools = append(out.Pools, fmt.Sprintf("%s %d of %d of %d", key, len(p.active()), p.max(), len(p.members)))
		for h := range p.stuck {
			out.Stuck = append(out.Stuck, fmt.Sprintf("%s %s %s", h.Resource, h.Group, key))
		}
	}
	slices.Sort(out.Pools)
	slices.Sort(out.Stuck)
	return out
}

// decide returns what the newest candidate of a target waits for, and the start it asks for.
func (r *reference) decide(t rollout.Target, out *outcome) (waiting string, a *attempt) {
	rules, held := r.governing(t)
	if len(held) > 0 {
		return "@ " + strings.Join(append(held, r.freezes(t, false)...), "; "), nil
	}
	versions := r.versions(t.Deployment)
	if current := currentOf(t); current != "" && place(versions, current) < 0 {
		return "@ " + strings.Join(append([]string{"version_unknown"}, r.freezes(t, false)...), "; "), nil
	}
	current, floor := r.floor(t)
	for n := len(versions) - 1; n > place(versions, floor); n-- {
		v := versions[n]
		if v.CreatedAt.After(r.now) {
			r.wake(v.CreatedAt)
			continue
		}
		if !r.inScope(v, t) {
			continue
		}
		blockers, due, position := r.candidate(t, v, rules)
		if len(blockers) == 0 {
			return waiting, r.attempt(t, v.ID, due, position, rules)
		}
		if waiting == "" {
			waiting = "@" + v.ID + " " + strings.Join(blockers, "; ")
		}
	}
	if floor != "" {
		if s := r.wayBack(t, floor, rules); s != nil {
			return r.goBack(t, floor, current, waiting, rules, s, out)
		}
		blockers, needed := r.repeat(t, rules, floor, current)
		switch {
		case len(blockers) > 0 && waiting == "":
			return "@" + floor + " " + strings.Join(blockers, "; "), nil
		case len(blockers) > 0:
			return waiting, nil
		case needed:
			return waiting, r.attempt(t, floor, r.repeatDue(t, floor, current, rules), 0, rules)
		}
	}
	if waiting == "" {
		if active(t) {
			out.Keep.Started++
		} else {
			out.Keep.Current++
		}
	}
	return waiting, nil
}

func (r *reference) attempt(t rollout.Target, version string, due time.Time, position int, rules []namedRule) *attempt {
	n := 1
	for _, job := range t.Jobs {
		if job.Version == version {
			n++
		}
	}
	return &attempt{
		t: t, version: version, due: due, position: position, rules: rules,
		run: textkey.Join(t.Resource, t.Environment, t.Deployment, version, fmt.Sprint(n)), group: textkey.Join("target", t.Environment, t.Deployment),
	}
}

// admit gives the places of the pools, first to whom they cost nothing, then in order. Who gets one
// on a place or by a key that nobody is proved to have waits, and all are asked again without it.
func (r *reference) admit(asking []attempt, waiting map[rollout.TargetID]string, out *outcome) {
	slices.SortFunc(asking, func(a, b attempt) int {
		if a.revert != b.revert {
			return map[bool]int{true: -1, false: 1}[a.revert]
		}
		if a, b := r.priority(a), r.priority(b); a != b {
			return cmp.Compare(b, a)
		}
		return cmp.Or(a.due.Compare(b.due), cmp.Compare(a.position, b.position), cmp.Compare(a.t.Resource, b.t.Resource),
			cmp.Compare(a.t.Environment, b.t.Environment), cmp.Compare(a.t.Deployment, b.t.Deployment))
	})
	before := r.pools
	vetoed := make([]bool, len(asking))
	for {
		r.pools = map[string]*referencePool{}
		for key, p := range before {
			own := *p
			own.leases, own.reserved, own.fresh = slices.Clone(p.leases), map[string]string{}, map[string]bool{}
			r.pools[key] = &own
		}
		starts, refused := r.round(asking, vetoed)
		again := false
		for _, unproved := range []bool{true, false} {
			for k, a := range asking {
				for _, key := range r.needs(a) {
					reason := r.unused(before[key], r.pools[key], a.t.Resource, a.group)
					if unproved {
						reason = r.unproved(before[key], r.pools[key], a.t.Resource)
					}
					switch {
					case reason == "":
					case refused[k] == nil:
						vetoed[k], again = true, true
					case refused[k][key] == "":
						refused[k][key] = reason
					}
				}
			}
			if again {
				break
			}
		}
		if again {
			continue
		}
		out.Start = append(out.Start, starts...)
		for k, a := range asking {
			if refused[k] == nil {
				continue
			}
			if slices.ContainsFunc(asking[:k], func(b attempt) bool {
				return !b.revert && a.due.Before(b.due) && refused[slices.IndexFunc(asking, func(c attempt) bool { return c.run == b.run })] == nil
			}) {
				r.overtaken++
			}
			var blockers []string
			for _, key := range r.needs(a) {
				reason, where := refused[k][key], key
				if at := r.pools[key].opens(r.now); !at.IsZero() && (reason == "slot_rate_full" || reason == "slot_reserved") {
					r.wake(at)
					where = at.Format(time.RFC3339Nano)
				}
				if reason != "" {
					blockers = append(blockers, reason+" "+r.pools[key].owner+" "+where)
				}
			}
			if waiting[a.t.TargetID] == "" {
				waiting[a.t.TargetID] = "@" + a.version + " " + strings.Join(blockers, "; ")
			}
			if slices.ContainsFunc(r.keys, func(key string) bool { return before[key].holds(a.t.Resource, a.group) }) { // in any pool, also in one that it does not need
				r.claimed++
			}
		}
		return
	}
}

// priority is that of the version of a start, of which those that go back have none.
func (r *reference) priority(a attempt) int {
	for _, v := range r.s.Versions {
		if !a.revert && v.Deployment == a.t.Deployment && v.ID == a.version {
			return v.Priority
		}
	}
	return 0
}

// needs lists the pools of a start by their keys.
func (r *reference) needs(a attempt) (keys []string) {
	for _, rule := range a.rules {
		if rule.ResourceConcurrency != nil {
			if key, member := r.poolOf(rule, r.resource(a.t.Resource)); member && !slices.Contains(keys, key) {
				keys = append(keys, key)
			}
		}
	}
	slices.Sort(keys)
	return keys
}

// round asks for all at once: who starts, and by pool why the others do not. Who is vetoed does
// not start, whatever the pools say.
func (r *reference) round(asking []attempt, vetoed []bool) (starts []string, refused []map[string]string) {
	take := func(a attempt) {
		reason, held := "slot_already_down", false
		if len(r.needs(a)) == 0 {
			reason = "rule_not_applicable"
		}
		var claims []string
		all := !slices.ContainsFunc(r.needs(a), func(key string) bool { return !r.pools[key].holds(a.t.Resource, a.group) })
		if held = len(r.needs(a)) > 0 && all; held {
			reason = "slot_held"
		}
		for _, key := range r.needs(a) {
			p := r.pools[key]
			if !held && !p.down(a.t.Resource) {
				reason = "slot_free"
			}
			at := slices.IndexFunc(p.leases, func(l concurrency.Lease) bool { return l.Resource == a.t.Resource && l.Group == a.group })
			if at < 0 {
				if p.rule.Rate != nil && !p.down(a.t.Resource) && !p.unavailable[a.t.Resource] {
					p.fresh[a.t.Resource] = true
				}
				p.leases = append(p.leases, concurrency.Lease{Holder: concurrency.Holder{Resource: a.t.Resource, Group: a.group}, Token: p.next, State: concurrency.Active})
				p.next++
				at = len(p.leases) - 1
			}
			delete(p.reserved, a.t.Resource)
			claims = append(claims, fmt.Sprintf("%s#%d", key, p.leases[at].Token))
			if p.fresh[a.t.Resource] {
				claims[len(claims)-1] += fmt.Sprint("/", p.rule.Rate.PeriodSeconds)
			}
		}
		starts = append(starts, fmt.Sprintf("%s@%s %s %s %v%s", a.run, a.version, a.group, reason, claims, map[bool]string{true: " rollback"}[a.revert]))
	}
	first := make([]bool, len(asking)) // by what was so before anybody was let in
	for k, a := range asking {
		first[k] = !vetoed[k] && !slices.ContainsFunc(r.needs(a), func(key string) bool {
			p := r.pools[key]
			return !p.down(a.t.Resource) || p.family() != "" && !p.active()[a.t.Resource] || p.rule.Exclusive && !p.holds(a.t.Resource, a.group)
		})
	}
	for k, a := range asking {
		if first[k] {
			take(a)
		}
	}
	refused = make([]map[string]string, len(asking))
	for k, a := range asking {
		if first[k] {
			continue
		}
		said := map[string]string{}
		strict, hopeless := false, vetoed[k]
		for _, key := range r.needs(a) {
			if reason := r.refusal(r.pools[key], a.t.Resource, a.group); reason != "" {
				said[key] = reason
				hopeless = hopeless || reason == "slot_paused" || reason == "slot_halted" || reason == "slot_exclusive"
			}
			strict = strict || r.pools[key].rule.Strict
		}
		if len(said) == 0 && !vetoed[k] {
			take(a)
			continue
		}
		refused[k] = said
		if !strict || hopeless {
			continue
		}
		for _, key := range r.needs(a) {
			p := r.pools[key]
			if _, kept := p.reserved[a.t.Resource]; !kept && !p.down(a.t.Resource) && r.refusal(p, "", "") == "" {
				p.reserved[a.t.Resource] = a.group
			}
		}
	}
	return starts, refused
}

func describeRollout(r rollout.RolloutRecord) string {
	return fmt.Sprintf("%s %s %s %s %s %d", r.Rule, r.Environment, r.Deployment, r.Version, r.StartAt.Format(time.RFC3339Nano), r.Founders)
}

// describe puts a plan of the library into the same words.
func describe(p rollout.Plan) outcome {
	out := outcome{Keep: p.Keep}
	for _, s := range p.Start {
		var claims []string
		for _, c := range s.Claims {
			claims = append(claims, fmt.Sprintf("%s#%d", c.Pool, c.Token))
			if c.PeriodSeconds > 0 {
				claims[len(claims)-1] += fmt.Sprint("/", c.PeriodSeconds)
			}
		}
		slices.Sort(claims)
		out.Start = append(out.Start, fmt.Sprintf("%s@%s %s %s %v%s", s.Run, s.Version, s.Group, s.Reason, claims, map[bool]string{true: " rollback"}[s.Purpose == rollout.PurposeRollback]))
	}
	for w := range p.Waiting.All() {
		var blockers []string
		for _, b := range w.Blockers {
			text := string(b.Reason)
			if b.Rule != "" {
				text += " " + b.Rule
			}
			if b.Reason == rollout.ReasonFrozen {
				text += " by " + b.On[0].Freeze
			}
			switch {
			case b.Reason == rollout.ReasonRolloutNotDue:
				text += fmt.Sprintf(" %s %d/%d", b.Until.Format(time.RFC3339Nano), b.Data.Position, b.Data.Population)
			case !b.Until.IsZero():
				text += " " + b.Until.Format(time.RFC3339Nano)
			case len(b.On) > 0 && b.On[0].Pool != "":
				text += " " + ownPool(b)
			}
			blockers = append(blockers, text)
		}
		out.Waiting = append(out.Waiting, fmt.Sprintf("%s/%s/%s @%s %s", w.Resource, w.Environment, w.Deployment, w.Version, strings.Join(blockers, "; ")))
	}
	if !p.Next.IsZero() {
		out.Next = p.Next.Format(time.RFC3339Nano)
	}
	for _, record := range p.State.Rollouts {
		out.Rollouts = append(out.Rollouts, describeRollout(record))
	}
	slices.Sort(out.Rollouts)
	for _, pool := range p.Pools {
		out.Pools = append(out.Pools, fmt.Sprintf("%s %d of %d of %d", pool.Key, pool.Active, pool.Max, pool.Total))
	}
	for _, stuck := range p.Stuck {
		out.Stuck = append(out.Stuck, fmt.Sprintf("%s %s %s", stuck.Resource, stuck.Group, stuck.Pool))
	}
	slices.Sort(out.Stuck)
	return out
}
