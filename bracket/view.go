package bracket

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tranche-dev/tranche/internal/instant"
)

// view is an observation prepared for one Step: everything sorted, versions ranked, targets grouped
// by resource. It is immutable once Step has returned; Waits, Commit and Evaluate of the plan read
// it.
type view struct {
	rule        Rule // with defaults
	id          string
	environment string
	now         time.Time

	deployments []deployment // ascending by id: members now, and members of closed groups
	roster
	runs     []RunFact // ascending by (resource, group, deployment, generation, attempt, purpose)
	commands []Command // ascending by (resource, group, at, id)
	closers  []Command // those that close a group; they name no resource
	deleted  []string  // ascending

	selected []Member      // members now
	ordered  bool          // … with the versions of their needs in order, see orderNeeds
	named    time.Time     // when the newest of those versions was created, once they are in order; zero if none is listed
	members  []GroupMember // members now that have targets, with roles and without locks

	latest  *groupView  // the latest closed group, nil if there is none
	pending []int32     // resources on which latest has still to run, by index in resources, ascending
	due     []time.Time // when it may start there; nil: at once
	closes  time.Time   // when the collecting group closes, zero if that is not known

	onVersions, onConfig []Condition // shared lists of conditions

	works      []work      // the open executions
	collecting string      // the id of the collecting group
	waits      []waitEntry // in the order of Plan.Waits
}

// deployment is what a Step knows of one deployment.
type deployment struct {
	id       string
	versions []version
	rank     map[string]int32 // by version id
	targets  int
	lowest   int32       // lowest rank that a target with nothing out of scope runs; -1 is below all; len(versions) without such a target
	outdated []time.Time // instants after the close of the last group in the state, ascending
	awaited  int32       // lowest rank of an awaited version; len(versions) without one
	needed   []onset     // by rank: of the versions from there on that some target needs; nil until asked for
}

type version struct {
	id        string
	createdAt time.Time
	at        time.Time // e(v): when it was both created and eligible; zero if it is not eligible
	wanted    bool      // a target with some versions out of scope has this one in scope and runs an older one
	narrow    bool      // out of scope for some target
	awaited   bool      // wanted, and newer than what the latest group has locked for such a target, if anything: see await
}

// eligible reports whether no gate holds the version back at an instant.
func (n *version) eligible(at time.Time) bool { return !n.at.IsZero() && !n.at.After(at) }

// needs reports whether some target needs the version of rank r: it runs neither it nor a greater
// one.
func (d *deployment) needs(r int32) bool { return d.lowest < r || d.versions[r].wanted }

// above returns the lowest rank above a mark.
func (d *deployment) above(mark VersionMark) int32 {
	r, _ := slices.BinarySearchFunc(d.versions, mark, func(v version, m VersionMark) int {
		if c := v.mark().compare(m); c != 0 {
			return c
		}
		return -1
	})
	return int32(r)
}

// rankOf returns the rank of a version, -1 if it is empty or not listed: older than all listed
// ones.
func (d *deployment) rankOf(id string) int32 {
	if r, ok := d.rank[id]; ok {
		return r
	}
	return -1
}

func (n *version) mark() VersionMark { return VersionMark{n.id, n.createdAt} }

// compare orders versions by creation, those of one instant by id.
func (m VersionMark) compare(other VersionMark) int {
	return cmp.Or(m.CreatedAt.Compare(other.CreatedAt), strings.Compare(m.ID, other.ID))
}

func compareRuns(a, b *Run) int {
	return cmp.Or(
		strings.Compare(a.Resource, b.Resource),
		strings.Compare(a.Group, b.Group),
		strings.Compare(a.Deployment, b.Deployment),
		cmp.Compare(a.Generation, b.Generation),
		cmp.Compare(a.Attempt, b.Attempt),
		strings.Compare(string(a.Purpose), string(b.Purpose)),
	)
}

// sortedCopy returns s in order, copying it only if it is not, and the index of the first element
// that equals the one before it, -1 if there is none.
func sortedCopy[T any](s []T, compare func(a, b T) int) (sorted []T, equal int) {
	if !slices.IsSortedFunc(s, compare) {
		s = slices.Clone(s)
		slices.SortFunc(s, compare)
	}
	for i := 1; i < len(s); i++ {
		if compare(s[i-1], s[i]) == 0 {
			return s, i
		}
	}
	return s, -1
}

// newView sorts and checks the observation. group is the record of the state.
func newView(rule Rule, group *GroupRecord, o Observation, now time.Time) (*view, error) {
	v := &view{rule: rule, id: group.Rule, environment: group.Environment, now: now}
	members := o.Members
	if o.RuleDeleted {
		members = nil
	}
	declared := rule.MemberRoles != nil
	if err := checkMembers("observation.members", group.Rule, members, declared); err != nil {
		return nil, err
	}
	v.addDeployments(members, group.Closed)
	if err := v.addVersions(o.Versions); err != nil {
		return nil, err
	}

	v.deleted, _ = sortedCopy(o.DeletedResources, strings.Compare)
	if o.Targets != nil {
		if err := v.addTargets(group, o.Targets); err != nil {
			return nil, err
		}
		v.await(group)
		if len(v.resources) > 0 && v.resources[0] == "" { // a record without a resource cannot be decoded
			return nil, fault("observation.targets", CodeRequired, nil, "the resource of a target of %q must be set", v.deploymentOf(&v.targets[0]))
		}
	}
	if err := v.checkNames(); err != nil {
		return nil, err
	}
	if err := v.addRuns(o.Runs); err != nil {
		return nil, err
	}
	if err := v.addCommands(o.Commands); err != nil {
		return nil, err
	}
	v.selected = members
	v.members = v.frozen(members)
	return v, nil
}

// checkNames refuses names that are not UTF-8. JSON changes them, so that what is stored would not be
// found again, or be found for another resource: an execution would begin a second time.
func (v *view) checkNames() error {
	refuse := func(path, name string) error {
		return fault("observation."+path, CodeType, name, hintUTF8)
	}
	for i := range v.deployments {
		d := &v.deployments[i]
		if !utf8.ValidString(d.id) {
			return refuse("members", d.id)
		}
		for _, n := range d.versions {
			if !utf8.ValidString(n.id) {
				return refuse("versions", n.id)
			}
		}
	}
	for _, names := range [...][]string{v.resources, v.texts} {
		for _, name := range names {
			if !utf8.ValidString(name) {
				return refuse("targets", name)
			}
		}
	}
	return nil
}

const (
	hintUTF8  = "must be UTF-8: JSON would store another name"
	hintTexts = "must be UTF-8: JSON would store another text"
)

func (v *view) addDeployments(members []Member, closed []*Group) {
	var ids []string
	for _, m := range members {
		ids = append(ids, m.Deployment)
	}
	for _, g := range closed {
		for _, m := range g.Members {
			ids = append(ids, m.Deployment)
		}
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	v.deployments = make([]deployment, len(ids))
	for i, id := range ids {
		v.deployments[i].id = id
	}
}

// find returns the index of a deployment, -1 if the view does not have it.
func (v *view) find(id string) int32 {
	i, found := slices.BinarySearchFunc(v.deployments, id, func(d deployment, id string) int { return strings.Compare(d.id, id) })
	if !found {
		return -1
	}
	return int32(i)
}

func (v *view) addVersions(versions []Version) error {
	for i, o := range versions {
		if o.CreatedAt.IsZero() || o.ID == "" {
			return fault(fmt.Sprintf("observation.versions[%d]", i), CodeRequired, nil, "id and createdAt of a version of %q must be set", o.Deployment)
		}
		if instant.Unset(o.CreatedAt) || !storable(o.CreatedAt) {
			return fault(fmt.Sprintf("observation.versions[%d].createdAt", i), CodeOutOfRange, stamp(o.CreatedAt), hintYears)
		}
		d := v.find(o.Deployment)
		if d < 0 {
			continue
		}
		n := version{id: o.ID, createdAt: utc(o.CreatedAt)}
		if !instant.Unset(o.EligibleAt) {
			n.at = maxTime(utc(o.EligibleAt), n.createdAt)
		}
		v.deployments[d].versions = append(v.deployments[d].versions, n)
	}
	for i := range v.deployments {
		d := &v.deployments[i]
		slices.SortFunc(d.versions, func(a, b version) int { return a.mark().compare(b.mark()) })
		d.rank = make(map[string]int32, len(d.versions))
		for r, n := range d.versions {
			if _, twice := d.rank[n.id]; twice {
				return fault("observation.versions", CodeDuplicate, n.id, "is listed twice for %q", d.id)
			}
			d.rank[n.id] = int32(r)
		}
	}
	return nil
}

func (v *view) addRuns(runs []RunFact) error {
	var equal int
	if v.runs, equal = sortedCopy(runs, func(a, b RunFact) int { return compareRuns(&a.Run, &b.Run) }); equal >= 0 {
		return fault("observation.runs", CodeDuplicate, v.runs[equal].Run, "is listed twice")
	}
	for _, f := range v.runs {
		switch f.Status {
		case RunRunning, RunSucceeded, RunFailed, RunLost:
		default:
			return fault("observation.runs", CodeUnknownValue, f.Status, "is the status of %s: must be running, succeeded, failed or lost", f.Run)
		}
		for _, own := range [...]struct {
			name string
			at   time.Time
		}{{"start", f.StartedAt}, {"end", f.EndedAt}, {"next attempt", f.RetryAt}} {
			if !storable(own.at) {
				return fault("observation.runs", CodeOutOfRange, stamp(own.at), "is the %s of %s: %s", own.name, f.Run, hintYears)
			}
		}
	}
	return nil
}

func (v *view) addCommands(commands []Command) error {
	var f faults
	for i, c := range commands {
		f.under(fmt.Sprintf("observation.commands[%d]", i), c.Validate())
	}
	if len(f) > 0 {
		return f.err()
	}
	ids := make([]string, len(commands))
	for i, c := range commands {
		ids[i] = c.ID
	}
	if sorted, twice := sortedCopy(ids, strings.Compare); twice >= 0 {
		return fault("observation.commands", CodeDuplicate, sorted[twice], "is the id of two commands")
	}
	at := func(c *Command) time.Time {
		if instant.Unset(c.At) {
			return v.now
		}
		return c.At
	}
	v.commands, _ = sortedCopy(commands, func(a, b Command) int {
		return cmp.Or(strings.Compare(a.Resource, b.Resource), strings.Compare(a.Group, b.Group), at(&a).Compare(at(&b)), strings.Compare(a.ID, b.ID))
	})
	n := 0
	for n < len(v.commands) && v.commands[n].Kind == Close {
		n++
	}
	v.closers, v.commands = v.commands[:n:n], v.commands[n:]
	return nil
}

// dueAt returns when the latest group may start on the i-th pending resource, zero if that is not
// known.
func (v *view) dueAt(i int) time.Time {
	switch {
	case v.due == nil:
		return v.latest.ReadyAt
	case instant.Unset(v.due[i]):
		return time.Time{}
	}
	return v.due[i]
}

// utc returns t in the form in which instants are stored: UTC, without a monotonic reading.
func utc(t time.Time) time.Time { return t.UTC() }

// earlier lowers *t to at; a zero *t is unset.
func earlier(t *time.Time, at time.Time) {
	if t.IsZero() || at.Before(*t) {
		*t = at
	}
}

func maxTime(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
