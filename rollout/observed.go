package rollout

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/bracket"
)

// observed returns the versions of the members, each with the instant at which its gates opened,
// and the targets, as they were at an instant that is now or before it.
func (w *work) observed(b *bracketWork, at time.Time) ([]bracket.Version, *observedTargets) {
	o := &observedTargets{
		work: w, bracket: b, asOf: at, excluded: map[targetKind][]string{}, late: map[targetKind][]lateVersion{},
		latest: b.latest(), executions: b.state.Executions,
	}
	var versions []bracket.Version
	var kinds openings
	for same := range stretches(b.kinds.list, func(a, b memberKind) bool { return a.deployment == b.deployment }) {
		for number := range w.versions[same[0].deployment].list {
			versions = append(versions, o.observe(same, int32(number), &kinds))
		}
	}
	for _, d := range b.kinds.left { // eligible for no target, but listed, so that no execution takes one back from a former target
		for _, v := range w.versions[d].list {
			versions = append(versions, bracket.Version{Deployment: v.Deployment, ID: v.ID, CreatedAt: v.CreatedAt})
		}
	}
	o.unseen = w.unseenTargets(b)
	return versions, o
}

// openings are the kinds of targets that may have a version by an instant, and those that may not.
type openings struct {
	open     []memberKind
	instants []time.Time // since when each of the open kinds may have it
	shut     []targetKind
}

// observe returns a version of a deployment that has some kinds of targets. The gates differ from
// target to target if other policies govern some of them too. A version that only some targets may
// have is then out of scope for the others, and eligible from the instant at which the first target
// that needs it may have it. So a later approval for the others delays no target, and an earlier
// one for targets that run the version already opens no window for those that do not. The openings
// are room to work in.
func (o *observedTargets) observe(same []memberKind, number int32, kinds *openings) bracket.Version {
	v := o.versions[same[0].deployment].list[number]
	own := bracket.Version{Deployment: v.Deployment, ID: v.ID, CreatedAt: v.CreatedAt}
	if v.CreatedAt.After(o.asOf) { // no target may have it yet; one that runs it already is not taken back
		o.wake(v.CreatedAt)
		return own
	}
	o.divide(same, number, kinds)
	if len(kinds.open) == 0 {
		return own
	}
	for _, kind := range kinds.shut {
		o.excluded[kind] = append(o.excluded[kind], v.ID)
	}
	soonest := slices.MinFunc(kinds.instants, time.Time.Compare)
	own.EligibleAt = soonest
	if slices.ContainsFunc(kinds.instants, soonest.Before) {
		var first time.Time
		for _, k := range o.lacking(o.bracket, kinds.open, number) {
			first = sooner(first, kinds.instants[k])
			if kinds.instants[k].After(soonest) {
				o.widened = append(o.widened, kinds.instants[k])
			}
		}
		own.EligibleAt = later(soonest, first)
	}
	return own
}

// divide finds out which kinds of targets may have a version, and notes for which of them its gates
// opened only after the latest group had closed.
func (o *observedTargets) divide(same []memberKind, number int32, into *openings) {
	v := o.versions[same[0].deployment].list[number]
	into.open, into.instants, into.shut = into.open[:0], into.instants[:0], into.shut[:0]
	for _, kind := range same {
		g := o.gateAt(kind.first, number)
		if len(g.blockers) > 0 {
			into.shut = append(into.shut, kind.targetKind)
			continue
		}
		eligible, anew := o.eligible(o.bracket, kind.targetKind, kind.first, g)
		if eligible.After(o.asOf) {
			into.shut = append(into.shut, kind.targetKind)
			continue
		}
		into.open, into.instants = append(into.open, kind), append(into.instants, eligible)
		if anew.After(o.asOf) {
			anew = eligible // the last override had yet to begin
		}
		if o.latest != nil && anew.After(o.latest.ReadyAt) && o.bracket.locked(v) {
			o.late[kind.targetKind] = append(o.late[kind.targetKind], lateVersion{number, anew})
		} else if len(o.late[kind.targetKind]) > 0 {
			o.late[kind.targetKind] = append(o.late[kind.targetKind], lateVersion{number: number})
		}
	}
}

// lacking returns the indices, in no order, of those of some kinds of one deployment of which a
// target runs an older version than one that it may have. There may be as many kinds as targets, so
// it does not look for the targets of each.
func (w *work) lacking(b *bracketWork, list []memberKind, number int32) (lack []int) {
	var asked map[targetKind]int // kinds whose targets have to be asked one by one
	for k, kind := range list {
		switch {
		case kind.oldest >= number:
		case !w.scoped[kind.deployment] && len(w.gateOf(kind.first, number).perResource) == 0:
			lack = append(lack, k)
		default:
			put(&asked, kind.targetKind, k)
		}
	}
	if len(asked) == 0 {
		return lack
	}
	for _, i := range b.targets {
		t := &w.targets[i]
		if t.deployment != list[0].deployment || t.current >= number || b.former[i] {
			continue
		}
		k, open := asked[w.kindOfTarget(i)]
		if !open || !w.inScope(i, number) || slices.ContainsFunc(w.gateOf(i, number).perResource, func(rule *compiledRule) bool { return !w.selects(rule, i, number) }) {
			continue
		}
		lack = append(lack, k)
		delete(asked, list[k].targetKind)
	}
	return lack
}

// eligible returns the instant at which the open gates of a version first opened for any target of
// a kind; i is the first of the kind. A selector that reads the resource is asked for each target.
// If it lets none of them have the version, it opened by the override that lets them past it. anew
// is the same by the last override of each rule, see gate.
func (w *work) eligible(b *bracketWork, kind targetKind, i int32, g *gate) (at, anew time.Time) {
	at, anew = g.eligible, g.anew
	for _, rule := range g.perResource {
		ends := w.overridesAt(rule.id, i, g.number)
		if ends.first == nil || !ends.first.satisfied(g.version).After(at) && !ends.last.satisfied(g.version).After(anew) {
			continue
		}
		if !slices.ContainsFunc(w.targetsOf(b, kind), func(i int32) bool {
			if !w.inScope(i, g.number) {
				return false
			}
			one := w.boundWith(i, g.number)
			_, ok := rule.versionSelector(&one)
			return ok
		}) {
			at, anew = later(at, ends.first.satisfied(g.version)), later(anew, ends.last.satisfied(g.version))
		}
	}
	return at, anew
}

// latest returns the latest closed group, or nil.
func (b *bracketWork) latest() *bracket.Group {
	if n := len(b.state.Group.Closed); n > 0 {
		return b.state.Group.Closed[n-1]
	}
	return nil
}

// locked reports whether a closed group has locked v or a newer version, so that v is no longer
// new.
func (b *bracketWork) locked(v *Version) bool {
	mark := b.state.Group.Marks[v.Deployment] // if there is none every version is newer
	return cmp.Or(v.CreatedAt.Compare(mark.CreatedAt), strings.Compare(v.ID, mark.ID)) <= 0
}

// observedTargets shows package bracket the members' targets without building a list of them.
type observedTargets struct {
	*work
	bracket  *bracketWork
	asOf     time.Time
	excluded map[targetKind][]string
	widened  []time.Time // when versions that some targets might have already came into scope for others that lack them, in no order

	late            map[targetKind][]lateVersion // ascending
	latest          *bracket.Group
	executions      []*bracket.ExecutionRecord // as they were read
	unseen          []bracket.Target           // behind the others
	outOfScopeLists map[outOfScopeKey][]string // see outOfScope
	dated           bool                       // missed or joined found a target that needs a run
}

func (o *observedTargets) Len() int { return len(o.bracket.targets) + len(o.unseen) }

func (o *observedTargets) At(k int) (own bracket.Target) {
	if n := len(o.bracket.targets); k >= n {
		return o.unseen[k-n]
	}
	b, i := o.bracket, o.bracket.targets[k]
	t := &o.targets[i]
	own.Resource, own.Deployment, own.Current = o.resources[t.resource].ID, o.deployments[t.deployment].ID, o.currentID(t)
	if t.outdated && !t.renewed(own.Current) { // without renewed targets, so that a group that closes again because the state was lost finds its work done
		own.OutdatedAt = t.OutdatedAt
	}
	if len(o.excluded) > 0 {
		own.OutOfScope = o.excluded[o.kindOfTarget(i)]
	}
	if len(b.former) > 0 && b.former[i] { // an empty map costs a call for each target
		own.OutOfScope, own.OutdatedAt = o.allVersions(t.deployment), time.Time{}
	} else if b.rule != nil {
		own.OutOfScope = o.outOfScope(own.OutOfScope, i)
		at := own.OutdatedAt
		if len(o.late) > 0 {
			own.OutdatedAt = o.missed(i, own)
		}
		if o.mayJoin(t) {
			own.OutdatedAt = o.joined(i, own)
		}
		if !own.OutdatedAt.Equal(at) {
			o.dated = true
			o.wake(at) // of the future: the bracket is not told of it yet
		}
	}
	return own
}

// outOfScopeKey says which versions are not for a target: those that are not for any target of its
// kind, and bits of numbers.
type outOfScopeKey struct {
	targetKind
	out string
}

// outOfScope adds to those of its kind the versions that do not exist for a target, and those that a
// version selector refuses on its resource. Where each tenant has versions of its own, all targets
// of the tenant get the same long list.
func (o *observedTargets) outOfScope(list []string, i int32) []string {
	t := &o.targets[i]
	selective := o.viewOf(i).selective
	if !selective && !o.scoped[t.deployment] {
		return list
	}
	versions := o.versions[t.deployment].list
	bits := make([]byte, (len(versions)+7)/8)
	n := 0
	for v := int32(len(versions)) - 1; v > t.current && v >= 0; v-- {
		out := !o.inScope(i, v)
		if selective && slices.ContainsFunc(o.gateOf(i, v).perResource, func(rule *compiledRule) bool { return !o.selects(rule, i, v) }) {
			out = true
		}
		if out {
			bits[v/8] |= 1 << (v % 8)
			n++
		}
	}
	if n == 0 {
		return list
	}
	key := outOfScopeKey{o.kindOfTarget(i), string(bits)}
	own, known := o.outOfScopeLists[key]
	if !known {
		own = append(make([]string, 0, len(list)+n), list...)
		for v := int32(len(versions)) - 1; v >= 0; v-- {
			if bits[v/8]&(1<<(v%8)) != 0 {
				own = append(own, versions[v].ID)
			}
		}
		put(&o.outOfScopeLists, key, own)
	}
	return own
}

// currentID returns the version that a target runs. If the number of the version is known, the
// Target is not touched: it is large and far away in memory.
func (w *work) currentID(t *target) string {
	switch {
	case t.current >= 0:
		return w.versions[t.deployment].list[t.current].ID
	case t.Target.Current != "":
		return t.Target.Current
	}
	if job := t.history().newestSuccess(); job != nil {
		return job.Version
	}
	return ""
}
