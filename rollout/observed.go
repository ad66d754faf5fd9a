package rollout

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/internal/textkey"
)

// observed returns the versions of the members, each with the instant at which its gates opened,
// and the targets, as they were at an instant that is now or before it. The gates differ from
// target to target if other policies govern some of them too. A version that only some targets may
// have is then out of scope for the others, and eligible from the instant at which the first target
// that needs it may have it. So a later approval for the others delays no target, and an earlier
// one for targets that run the version already opens no window for those that do not.
func (w *work) observed(b *bracketWork, at time.Time) ([]bracket.Version, *observedTargets) {
	var versions []bracket.Version
	var shut, open []memberKind
	var instants, widened []time.Time // instants are of the open kinds
	excluded, late := map[viewed][]string{}, map[viewed][]lateVersion{}
	latest := b.latest()
	for same := range stretches(b.kinds.list, func(a, b memberKind) bool { return a.deployment == b.deployment }) {
		for number, v := range w.versions[same[0].deployment].list {
			if v.CreatedAt.After(at) { // no target may have it yet; one that runs it already is not taken back
				w.wake(v.CreatedAt)
				versions = append(versions, bracket.Version{Deployment: v.Deployment, ID: v.ID, CreatedAt: v.CreatedAt})
				continue
			}
			observed := bracket.Version{Deployment: v.Deployment, ID: v.ID, CreatedAt: v.CreatedAt}
			shut, open, instants = shut[:0], open[:0], instants[:0]
			for _, kind := range same {
				g := w.gateAt(kind.first, int32(number))
				if len(g.blockers) > 0 {
					shut = append(shut, kind)
					continue
				}
				eligible, anew := w.eligible(b, kind.viewed, kind.first, g)
				if eligible.After(at) {
					shut = append(shut, kind)
					continue
				}
				open, instants = append(open, kind), append(instants, eligible)
				if anew.After(at) {
					anew = eligible // the last override had yet to begin
				}
				if latest != nil && anew.After(latest.ReadyAt) && b.locked(v) {
					late[kind.viewed] = append(late[kind.viewed], lateVersion{int32(number), anew})
				} else if len(late[kind.viewed]) > 0 {
					late[kind.viewed] = append(late[kind.viewed], lateVersion{number: int32(number)})
				}
			}
			if len(open) > 0 {
				observed.EligibleAt = slices.MinFunc(instants, time.Time.Compare)
				for _, kind := range shut {
					excluded[kind.viewed] = append(excluded[kind.viewed], v.ID)
				}
			}
			if soonest := observed.EligibleAt; slices.ContainsFunc(instants, soonest.Before) {
				var first time.Time
				for _, k := range w.lacking(b, open, int32(number)) {
					first = sooner(first, instants[k])
					if instants[k].After(soonest) {
						widened = append(widened, instants[k])
					}
				}
				observed.EligibleAt = later(soonest, first)
			}
			versions = append(versions, observed)
		}
	}
	for _, d := range b.kinds.left { // eligible for no target, but listed, so that no execution takes one back from a former target
		for _, v := range w.versions[d].list {
			versions = append(versions, bracket.Version{Deployment: v.Deployment, ID: v.ID, CreatedAt: v.CreatedAt})
		}
	}
	return versions, &observedTargets{
		work: w, bracket: b, asOf: at, excluded: excluded, widened: widened,
		late: late, latest: latest, executions: b.state.Executions, unseen: w.unseenTargets(b),
	}
}

// lacking returns the indices, in no order, of those of some kinds of one deployment of which a
// target runs an older version than one that it may have. There may be as many kinds as targets, so
// it does not look for the targets of each.
func (w *work) lacking(b *bracketWork, list []memberKind, number int32) (lack []int) {
	var asked map[viewed]int // kinds whose targets have to be asked one by one
	for k, kind := range list {
		switch {
		case kind.oldest >= number:
		case !w.scoped[kind.deployment] && len(w.gateOf(kind.first, number).perResource) == 0:
			lack = append(lack, k)
		default:
			put(&asked, kind.viewed, k)
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
		k, open := asked[w.viewed(i)]
		if !open || !w.inScope(i, number) || slices.ContainsFunc(w.gateOf(i, number).perResource, func(rule *compiledRule) bool { return !w.selects(rule, i, number) }) {
			continue
		}
		lack = append(lack, k)
		delete(asked, list[k].viewed)
	}
	return lack
}

// eligible returns the instant at which the open gates of a version first opened for any target of
// a kind; i is the first of the kind. A selector that reads the resource is asked for each target.
// If it lets none of them have the version, it opened by the override that lets them past it. anew
// is the same by the last override of each rule, see gate.
func (w *work) eligible(b *bracketWork, kind viewed, i int32, g *gate) (at, anew time.Time) {
	at, anew = g.eligible, g.anew
	for _, rule := range g.perResource {
		ends := w.overridesAt(rule.id, i, g.version)
		if ends.first == nil || !ends.first.satisfied(g.created).After(at) && !ends.last.satisfied(g.created).After(anew) {
			continue
		}
		if !slices.ContainsFunc(w.targetsOf(b, kind), func(i int32) bool {
			if !w.inScope(i, g.version) {
				return false
			}
			one := w.boundWith(i, g.version)
			_, ok := rule.versionSelector(&one)
			return ok
		}) {
			at, anew = later(at, ends.first.satisfied(g.created)), later(anew, ends.last.satisfied(g.created))
		}
	}
	return at, anew
}

// targetsOf lists the targets of a kind. There may be as many kinds as targets.
func (w *work) targetsOf(b *bracketWork, kind viewed) []int32 {
	if b.kinds.targets == nil {
		b.kinds.targets = map[viewed][]int32{}
		for _, i := range b.targets {
			own := w.viewed(i)
			b.kinds.targets[own] = append(b.kinds.targets[own], i)
		}
	}
	return b.kinds.targets[kind]
}

// lateVersion is a version whose gates opened for the targets of a kind only after the latest group
// had closed, although a closed group has locked it, or a newer version, for other targets. The
// newer versions that these targets may have follow it in the list, with a zero since.
type lateVersion struct {
	number int32
	since  time.Time
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

// viewed is what decides which versions a target may have, apart from expressions that read its
// resource.
type viewed struct{ deployment, view, only int32 } // only: the resource if an override names it

func (w *work) viewed(i int32) viewed {
	t := &w.targets[i]
	return viewed{t.deployment, w.view[i], w.namedByOverride(t)}
}

// kinds are the kinds of targets that a bracket has.
type kinds struct {
	list []memberKind // by deployment
	left []int32      // deployments with former targets only, ascending

	targets map[viewed][]int32 // former ones included; nil: not asked for yet
}

type memberKind struct {
	viewed
	first  int32 // its first target
	oldest int32 // number of the oldest version that a target of it runs; less than all numbers if one runs none, or one that is not known
}

func (w *work) kindsOf(b *bracketWork) kinds {
	var all kinds
	known := map[viewed]int32{}        // → index in all.list
	last := tableOf(w, b, int32(none)) // index of the kind seen last, by deployment; neighbours are mostly of one kind
	for _, i := range b.targets {
		if len(b.former) > 0 && b.former[i] { // a former target gets nothing new, so its gates do not matter
			continue
		}
		t, own := &w.targets[i], w.viewed(i)
		before := last.at(t.deployment)
		k := *before
		if k == none || all.list[k].viewed != own {
			var met bool
			if k, met = known[own]; !met {
				k = int32(len(all.list))
				known[own], all.list = k, append(all.list, memberKind{own, i, t.current})
			}
			*before = k
		}
		all.list[k].oldest = min(all.list[k].oldest, t.current)
	}
	slices.SortFunc(all.list, func(a, b memberKind) int { return cmp.Compare(a.deployment, b.deployment) })
	if len(b.former) > 0 {
		for _, i := range b.targets {
			if d := w.targets[i].deployment; *last.at(d) == none && !slices.Contains(all.left, d) {
				all.left = append(all.left, d)
			}
		}
		slices.Sort(all.left)
	}
	return all
}

// observedTargets shows package bracket the members' targets without building a list of them.
type observedTargets struct {
	*work
	bracket  *bracketWork
	asOf     time.Time
	excluded map[viewed][]string
	widened  []time.Time // when versions that some targets might have already came into scope for others that lack them, in no order

	late       map[viewed][]lateVersion // ascending
	latest     *bracket.Group
	executions []*bracket.ExecutionRecord // as they were read
	unseen     []bracket.Target           // behind the others
	outside    map[outside][]string       // see outOfScope
	dated      bool                       // missed or joined found a target that needs a run
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
		own.OutOfScope = o.excluded[o.viewed(i)]
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

// missed returns the instant since which a target needs a run because the execution of the latest
// group began, or ended, on its resource before the target might have the version that it may have
// now, such as one that was approved later and there alone. The group has locked the version, so
// the version opens no other group by being new, and the target would wait for the next release.
// The same holds if the group has not locked it because a newer version, for other targets, was
// there before. A group that collects for the target goes on to do so when the execution ends. An
// execution that failed or was given up is not begun again, nor is one that began when the version
// was there. Without such a version, missed returns the target's own OutdatedAt.
func (o *observedTargets) missed(i int32, own bracket.Target) time.Time {
	t := &o.targets[i]
	versions := o.late[o.viewed(i)]
	id := func(v lateVersion) string { return o.version(i, v.number).ID }
	for len(versions) > 0 && slices.Contains(own.OutOfScope, id(versions[len(versions)-1])) {
		versions = versions[:len(versions)-1]
	}
	if len(versions) == 0 {
		return own.OutdatedAt
	}
	version := versions[len(versions)-1]
	if t.current == missing || t.current >= version.number || !version.since.After(o.past(own.OutdatedAt)) {
		return own.OutdatedAt
	}
	if slices.ContainsFunc(t.Jobs, func(job Job) bool { return job.Version == id(version) }) {
		return own.OutdatedAt
	}
	if !locks(groupMember(o.latest, own.Deployment), id(version)) {
		return version.since
	}
	record := executionOn(o.executions, own.Resource)
	if record == nil {
		return own.OutdatedAt
	}
	environment := o.environments[o.bracket.environment].ID
	if open := record.Open; open != nil && includes(open.Group, open.Merged, o.latest.ID) {
		if m := memberIn(open, own.Deployment); m == nil || m.Version != id(version) {
			return version.since
		}
	} else if last := endedIn(record, environment); includes(last.Group, last.Merged, o.latest.ID) && last.Status == bracket.StatusCompleted &&
		(!version.since.Before(last.EndedAt) || o.beganBy(version.since, i, last.Group)) {
		return version.since
	}
	return own.OutdatedAt
}

// beganBy reports whether an execution that has ended on the resource of target i had begun by an
// instant, with what was merged into it. Only its jobs tell when that was, the first of the last
// generation; so without them it is false.
func (o *observedTargets) beganBy(at time.Time, i int32, group string) bool {
	prefix, last := textkey.Join(group)+"/", 0
	var began time.Time
	from, to := o.siblingsIn(o.bracket.environment, o.targets[i].resource)
	for k := from; k < to; k++ {
		for _, job := range o.targets[k].Jobs {
			rest, ours := strings.CutPrefix(job.Run, prefix)
			if !ours {
				continue
			}
			if run, ok := parseRun(group, rest); ok && run.Generation >= last {
				if run.Generation > last {
					last, began = run.Generation, time.Time{}
				}
				began = sooner(began, job.CreatedAt)
			}
		}
	}
	return !began.IsZero() && !at.Before(began)
}

// mayJoin reports whether joined can apply to a target, now or later. Few targets join after the
// latest group has closed, and only these are looked at more closely.
func (o *observedTargets) mayJoin(t *target) bool {
	return o.latest != nil && t.placed && t.JoinedAt.After(o.latest.ReadyAt) && t.current != missing
}

// past returns an instant since which a target is outdated, or zero if it is not yet: what makes
// the target need a run before then must not wait for that.
func (o *observedTargets) past(outdated time.Time) time.Time {
	if outdated.After(o.asOf) {
		return time.Time{}
	}
	return outdated
}

// anyDated reports whether missed or joined finds any target that needs a run.
func (o *observedTargets) anyDated() bool {
	for k, i := range o.bracket.targets {
		if len(o.late) > 0 || o.mayJoin(&o.targets[i]) {
			o.At(k)
		}
		if o.dated {
			return true
		}
	}
	return false
}

// joined returns the instant since which a target needs a run because it joined after the execution
// of the latest group had ended on its resource. An example is a node that was made again under the
// name of one that is gone, with nothing on it or with an old version from its image. A group runs
// on a resource once, and its run ids are not used twice, so the next group opens without waiting
// for a release. For a target that did not join so late, joined returns its own OutdatedAt.
func (o *observedTargets) joined(i int32, own bracket.Target) time.Time {
	at := o.targets[i].JoinedAt
	if at.After(o.asOf) {
		o.wake(at)
		return own.OutdatedAt
	}
	record := executionOn(o.executions, own.Resource)
	if record == nil || !at.After(o.past(own.OutdatedAt)) {
		return own.OutdatedAt
	}
	last := endedIn(record, o.environments[o.bracket.environment].ID)
	if !includes(last.Group, last.Merged, o.latest.ID) || !at.After(last.EndedAt) {
		return own.OutdatedAt
	}
	versions := o.versions[o.targets[i].deployment].list
	for n := len(versions) - 1; n > int(o.targets[i].current); n-- { // an unlocked version opens a group by being new, and without a newer version no group is needed
		if v := versions[n]; v.CreatedAt.After(o.asOf) || slices.Contains(own.OutOfScope, v.ID) || len(o.gateAt(i, int32(n)).blockers) > 0 {
			continue
		} else if o.bracket.locked(v) {
			return at
		}
		break
	}
	return own.OutdatedAt
}

// outside says which versions are not for a target: those that are not for any target of its kind,
// and bits of numbers.
type outside struct {
	viewed
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
	key := outside{o.viewed(i), string(bits)}
	own, known := o.outside[key]
	if !known {
		own = append(make([]string, 0, len(list)+n), list...)
		for v := int32(len(versions)) - 1; v >= 0; v-- {
			if bits[v/8]&(1<<(v%8)) != 0 {
				own = append(own, versions[v].ID)
			}
		}
		put(&o.outside, key, own)
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
