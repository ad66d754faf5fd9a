package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/tranche-dev/tranche/internal/instant"
)

// index is a snapshot in a stable order, with numbers instead of names, so that nothing after it
// depends on the order of the input. Input that is sorted already is recognised in one pass and not
// copied.
type index struct {
	resources    []Resource      // by id
	environments []Environment   // by id
	deployments  []Deployment    // by id
	versions     []versionList   // per deployment number
	targets      []target        // by environment, resource, deployment
	dependent    []bool          // per deployment number: one of its versions has dependencies
	priorities   []int           // those of the versions, descending, and 0; nil if that is the priority of all
	unavailable  []string        // by id
	deleted      map[string]bool // ids of resources that are known to be gone
	strange      bool            // a job has an unknown status or verification
	incomplete   bool            // a job has no version, or no CreatedAt, or a version that is not UTF-8

	ordered   bool     // all jobs are newest first, because a rule of the host reads them
	reordered []Target // slab: copies of targets whose jobs are in no order, or not in that one
	jobs      []Job    // slab: the jobs of these copies
}

// versionList holds the versions of one deployment, oldest first.
type versionList struct {
	list []*Version
	byID map[string]int32

	asked  string // the last id that was looked up
	answer int32
}

// target is a release target with its entities as numbers.
type target struct {
	*Target                           // its jobs are in the order that listed says: see history
	resource, environment, deployment int32

	current int32 // number of the current version among those of the deployment; none or missing
	started int32 // number of the greatest version newer than current that has a job here; none

	// What most targets do not have. A loop over all targets asks here, because the Target itself
	// is large and far away in memory.
	listed   jobOrder // of its jobs; never noOrder
	busy     bool     // one of them has not ended
	outdated bool     // it has an OutdatedAt
	placed   bool     // it has a Priority or a JoinedAt
}

const (
	none    = -1 // no version at all
	missing = -2 // a version that the snapshot does not hold
)

// newIndex adds the faults of ids that are empty, repeated or unknown, and of what the snapshot says
// of single entities. If there are any, the index must not be used. ordered puts all jobs newest
// first.
func newIndex(f *faults, s *Snapshot, ordered bool) *index {
	resources, targets := s.Resources, s.Targets
	var deleted map[string]bool
	var left []int                   // the indices of resources in the host's list
	if len(s.DeletedResources) > 0 { // deleted resources have no targets and are members of no pool
		deleted = setOf(s.DeletedResources)
		resources = nil
		for i, r := range s.Resources {
			if !deleted[r.ID] {
				resources, left = append(resources, r), append(left, i)
			}
		}
		targets = slices.DeleteFunc(slices.Clone(targets), func(t Target) bool { return deleted[t.Resource] })
	}
	x := &index{
		ordered:      ordered,
		deleted:      deleted,
		resources:    sortedByID(f, "resources", resources, (*Resource).id, left),
		environments: sortedByID(f, "environments", s.Environments, (*Environment).id, nil),
		deployments:  sortedByID(f, "deployments", s.Deployments, (*Deployment).id, nil),
	}
	x.indexVersions(f, s.Versions)
	x.indexTargets(f, targets)
	f.place(targets, func(t *Target) bool { return deleted[t.Resource] }, s.Targets)
	if x.incomplete || len(f.list) > 0 { // with faults, not all targets have been looked at
		x.validateRun(f, s.Targets)
	}
	for i := range s.Approvals {
		if !s.Approvals[i].sound() { // there may be many, and a path is a text
			s.Approvals[i].validate(fmt.Sprintf("approvals[%d]", i), f)
		}
	}
	s.State.validate(f)
	x.unavailable = s.Unavailable
	if !slices.IsSorted(x.unavailable) {
		x.unavailable = slices.Clone(x.unavailable)
		slices.Sort(x.unavailable)
	}
	return x
}

// validateRun adds a fault for each job without a version or an instant. A success without a version
// would make its target look like one that runs nothing yet, which windows let through. Jobs without
// an instant have no order, and a success without an instant counts for no progression. It also adds
// one for each version that a target runs or ran and that is not UTF-8: no version of the snapshot is.
func (x *index) validateRun(f *faults, targets []Target) {
	for i, t := range targets {
		if x.deleted[t.Resource] {
			continue
		}
		if before := len(f.list); !utf8.ValidString(t.Current) {
			f.encoded(fmt.Sprintf("targets[%d].current", i), t.Current)
			f.about(before, t.TargetID.String())
		}
		for k := range t.Jobs {
			before := len(f.list)
			if t.Jobs[k].Version == "" {
				f.add(fmt.Sprintf("targets[%d].jobs[%d].version", i, k), CodeRequired, nil, "is required: the version that the job deploys")
			}
			f.encoded(fmt.Sprintf("targets[%d].jobs[%d].version", i, k), t.Jobs[k].Version)
			f.created(fmt.Sprintf("targets[%d].jobs[%d].createdAt", i, k), t.Jobs[k].CreatedAt, "jobs are ordered by it, and attempts and successes count from it")
			if len(f.list) > before {
				name := t.TargetID.String()
				if run := t.Jobs[k].Run; run != "" {
					name += ", run " + run
				}
				f.about(before, name)
			}
		}
	}
}

// indexVersions sorts the versions of each deployment, and finds what is rare among them.
func (x *index) indexVersions(f *faults, versions []Version) {
	x.versions = make([]versionList, len(x.deployments))
	x.dependent = make([]bool, len(x.deployments))
	prioritized := false
	for i := range versions {
		v, before := &versions[i], len(f.list)
		d, ok := x.deployment(v.Deployment)
		if v.ID == "" {
			f.add(fmt.Sprintf("versions[%d].id", i), CodeRequired, nil, "is required")
		}
		if !utf8.ValidString(v.ID) {
			f.encoded(fmt.Sprintf("versions[%d].id", i), v.ID)
		}
		if instant.Unset(v.CreatedAt) {
			f.created(fmt.Sprintf("versions[%d].createdAt", i), v.CreatedAt, "versions are ordered by it, and rollouts start from it")
		}
		if !ok {
			f.add(fmt.Sprintf("versions[%d].deployment", i), CodeUnknownValue, v.Deployment, "is not the id of a deployment")
		}
		if len(f.list) > before && v.ID != "" && utf8.ValidString(v.ID) {
			f.about(before, v.named())
		}
		if !ok {
			continue
		}
		x.versions[d].list = append(x.versions[d].list, v)
		prioritized = prioritized || v.Priority != 0
		x.dependent[d] = x.dependent[d] || len(v.Dependencies) > 0
	}
	if prioritized {
		x.priorities = append(x.priorities, 0)
		for i := range versions {
			x.priorities = append(x.priorities, versions[i].Priority)
		}
		slices.SortFunc(x.priorities, func(a, b int) int { return cmp.Compare(b, a) })
	}
	twice := false
	for d := range x.versions {
		l := &x.versions[d]
		slices.SortFunc(l.list, func(a, b *Version) int {
			return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), strings.Compare(a.ID, b.ID))
		})
		l.byID = make(map[string]int32, len(l.list))
		for i, v := range l.list {
			_, known := l.byID[v.ID]
			l.byID[v.ID], twice = int32(i), twice || known
		}
	}
	if twice {
		f.repeated(versions)
	}
}

// repeated adds a fault for each version that has the id of one before it of its deployment.
func (f *faults) repeated(versions []Version) {
	first := map[[2]string]int{}
	for i := range versions {
		v := &versions[i]
		own := [2]string{v.Deployment, v.ID}
		if k, known := first[own]; !known {
			first[own] = i
		} else if v.ID != "" {
			f.add(fmt.Sprintf("versions[%d].id", i), CodeDuplicate, v.ID, "is the id of versions[%d] too: ids are unique within a deployment (%s)", k, v.named())
		}
	}
}

func (e *Environment) id() string { return e.ID }
func (r *Resource) id() string    { return r.ID }
func (d *Deployment) id() string  { return d.ID }

func (x *index) deployment(id string) (int32, bool) {
	return indexOf(x.deployments, id, (*Deployment).id)
}
func (x *index) environment(id string) (int32, bool) {
	return indexOf(x.environments, id, (*Environment).id)
}
func (x *index) resource(id string) (int32, bool) { return indexOf(x.resources, id, (*Resource).id) }

// indexOf returns the index of the entity with an id in a list by id or, with false, where it would
// be.
func indexOf[T any](list []T, id string, idOf func(*T) string) (int32, bool) {
	i := sort.Search(len(list), func(i int) bool { return idOf(&list[i]) >= id })
	return int32(i), i < len(list) && idOf(&list[i]) == id
}

// observe derives current and started.
func (x *index) observe(t *target) {
	versions := &x.versions[t.deployment]
	if len(t.Jobs) > 0 {
		x.orderJobs(t)
	}
	t.current = versions.number(t.Target.Current)
	if t.Target.Current == "" {
		if job := t.history().newestSuccess(); job != nil {
			t.current = versions.number(job.Version)
		}
	}
	t.started = none
	x.incomplete = x.incomplete || t.current == missing && !utf8.ValidString(t.Target.Current)
	for i := range t.Jobs {
		n := versions.number(t.Jobs[i].Version)
		if n > t.current {
			t.started = max(t.started, n)
		}
		x.incomplete = x.incomplete || t.Jobs[i].Version == "" || instant.Unset(t.Jobs[i].CreatedAt)
		x.incomplete = x.incomplete || n == missing && !utf8.ValidString(t.Jobs[i].Version)
		if status := t.Jobs[i].Status; !status.Terminal() {
			t.busy = true
			x.strange = x.strange || !status.active()
		}
		x.strange = x.strange || !t.Jobs[i].Verification.known()
	}
	t.outdated, t.placed = !instant.Unset(t.OutdatedAt), t.Priority != 0 || !instant.Unset(t.JoinedAt)
}

// orderJobs notes the order of the jobs of a target, and copies those that are in none, or in the
// wrong one.
func (x *index) orderJobs(t *target) {
	t.listed = listingOf(t.Jobs)
	if t.listed == newestFirst || t.listed == oldestFirst && !x.ordered {
		return
	}
	own := take(&x.reordered, 1)
	own[0] = *t.Target
	jobs := take(&x.jobs, len(t.Jobs))
	copy(jobs, t.Jobs)
	if t.listed == oldestFirst {
		slices.Reverse(jobs)
	} else {
		slices.SortStableFunc(jobs, func(a, b Job) int { return newer(&a, &b) })
	}
	own[0].Jobs = jobs
	t.Target, t.listed = &own[0], newestFirst
}

func (l *versionList) number(id string) int32 {
	if id == "" {
		return none
	}
	if n := len(l.list); n > 0 && l.list[n-1].ID == id {
		return int32(n - 1)
	}
	if l.asked != id {
		i, ok := l.byID[id]
		if !ok {
			i = missing
		}
		l.asked, l.answer = id, i
	}
	return l.answer
}

// floor is the version that the target keeps if nothing newer may start.
func (t *target) floor() int32 {
	return max(t.started, t.current)
}
