package rollout

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tranche-dev/tranche/internal/textorder"
)

// A host may list everything in any order; a host that reads an in-memory cache often has no order
// at all. A list that is in order already is used as it is. Any other is sorted by numbers, because
// it may have a million entries and strings are scattered in memory.

// sortedByID returns a list in the order of its ids, as a copy unless it is in that order already.
// It reports ids that are empty, not unique, or not UTF-8. host has the index of each item in the
// host's list, nil if that is the list itself.
func sortedByID[T any](f *faults, list string, items []T, id func(*T) string, host []int) []T {
	sorted := items
	if !ascend(items, id) {
		sorted = make([]T, 0, len(items))
		order := textorder.Of(items, id, nil)
		at := func(i int) string {
			k := order[i]
			if host != nil {
				k = host[k]
			}
			return fmt.Sprintf("%s[%d]", list, k)
		}
		for _, k := range order {
			sorted = append(sorted, items[k])
		}
		for i, first := 0, 0; i < len(sorted); i++ {
			switch own := id(&sorted[i]); {
			case own == "":
				f.add(at(i)+".id", CodeRequired, nil, "is required: every entry needs its own")
			case !utf8.ValidString(own):
				f.encoded(at(i)+".id", own)
			case i > 0 && own == id(&sorted[i-1]):
				f.add(at(i)+".id", CodeDuplicate, own, "is the id of %s too: ids are unique", at(first))
			default:
				first = i
			}
		}
	}
	if len(items) > math.MaxInt32 {
		f.add(list, CodeOutOfRange, nil, "has %d entries: at most %d are planned at once", len(items), math.MaxInt32)
	}
	return sorted
}

// ascend reports whether every id is greater than the one before, none is empty, and all are UTF-8.
func ascend[T any](items []T, id func(*T) string) bool {
	last := ""
	for i := range items {
		own := id(&items[i])
		if own <= last || !utf8.ValidString(own) {
			return false
		}
		last = own
	}
	return true
}

// indexTargets sorts targets by environment, resource and deployment, looks these up, and reads
// what there is on each target.
func (x *index) indexTargets(f *faults, list []Target) {
	x.targets = make([]target, len(list))
	if x.locateAll(f, list) || x.sortTargets(list) {
		return
	}
	order := make([]int, len(list)) // one names an entity that is in no list, or occurs twice
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int {
		a, b := &list[i].TargetID, &list[j].TargetID
		return cmp.Or(strings.Compare(a.Environment, b.Environment), strings.Compare(a.Resource, b.Resource), strings.Compare(a.Deployment, b.Deployment), i-j)
	})
	for k, i := range order {
		x.targets[k] = target{Target: &list[i]}
	}
	x.locateAll(f, nil)
}

// locateAll looks up the entities of the targets of list or, if it is nil, of the index, and reads
// what there is on each target. It stops at a target that is out of order and returns false.
func (x *index) locateAll(f *faults, list []Target) (ordered bool) {
	known := len(f.list)
	var cursor cursor
	for i := range x.targets {
		t := &x.targets[i]
		if list != nil {
			t.Target = &list[i]
		}
		same := 0 // number of leading parts of the id that equal those of the target before
		if i > 0 {
			before := &x.targets[i-1].TargetID
			order := 0
			switch {
			case before.Environment != t.Environment:
				order = strings.Compare(before.Environment, t.Environment)
			case before.Resource != t.Resource:
				same, order = 1, strings.Compare(before.Resource, t.Resource)
			default:
				same, order = 2, strings.Compare(before.Deployment, t.Deployment)
			}
			if order > 0 {
				f.forget(known)
				return false
			}
			if order == 0 {
				f.addOf(t.Target, "", CodeDuplicate, nil, "%s occurs twice: one entry per release target", t.TargetID)
			}
		}
		cursor.find(x, f, t, same)
		if !cursor.lost { // its deployment may be in no list
			x.observe(t)
		}
	}
	return true
}

// cursor remembers the entities of the last target: the next target mostly has the same ones or the
// next ones.
type cursor struct {
	environment, resource, deployment int32
	lost                              bool // an entity of the last target is not in its list
}

// find looks up the parts of the id except the first few, which are the same as last time.
func (c *cursor) find(x *index, f *faults, t *target, same int) {
	if c.lost {
		same = 0 // so that the next target is reported as well
	}
	known := len(f.list)
	if same < 1 {
		c.environment = locate(f, t, "environment", t.Environment, x.environments, c.environment, (*Environment).id)
	}
	if same < 2 {
		c.resource = locate(f, t, "resource", t.Resource, x.resources, c.resource, (*Resource).id)
	}
	c.deployment = locate(f, t, "deployment", t.Deployment, x.deployments, c.deployment, (*Deployment).id)
	t.environment, t.resource, t.deployment = c.environment, c.resource, c.deployment
	c.lost = len(f.list) > known
}

func locate[T any](f *faults, t *target, field, id string, list []T, last int32, idOf func(*T) string) int32 {
	for _, guess := range [...]int32{last + 1, last, 0} {
		if int(guess) < len(list) && idOf(&list[guess]) == id {
			return guess
		}
	}
	i, ok := indexOf(list, id, idOf)
	if !ok {
		f.addOf(t.Target, field, CodeUnknownValue, id, "is not the id of a listed %s (%s)", field, t.TargetID)
	}
	return i
}

// sortTargets is locateAll for targets in any order: it looks up their entities first. If an entity
// is in no list, or a target occurs twice, it returns false and leaves the report to locateAll.
func (x *index) sortTargets(list []Target) bool {
	environments := numbers(x.environments, (*Environment).id)
	resources := numbers(x.resources, (*Resource).id)
	deployments := numbers(x.deployments, (*Deployment).id)
	located, other := make([]target, len(list)), x.targets
	for i := range list {
		// Resources are many, so each lookup waits for memory. In a loop that does nothing else, the
		// processor is at several of them at once.
		resource, listed := resources[list[i].Resource]
		if !listed {
			return false
		}
		located[i].resource = resource
	}
	for i := range list {
		t, id := &located[i], &list[i].TargetID
		environment, known := environments[id.Environment]
		deployment, deployed := deployments[id.Deployment]
		if !known || !deployed {
			return false
		}
		t.Target, t.environment, t.deployment = &list[i], environment, deployment
		x.observe(t) // here, because in their order each is far away from the one before
	}
	for _, part := range []struct {
		n      int
		number func(*target) int32
	}{
		{len(x.deployments), func(t *target) int32 { return t.deployment }},
		{len(x.resources), func(t *target) int32 { return t.resource }},
		{len(x.environments), func(t *target) int32 { return t.environment }},
	} {
		if part.n > 1 { // else it is the same everywhere
			distribute(located, other, part.n, part.number)
			located, other = other, located
		}
	}
	x.targets = located
	for i := range x.targets {
		t := &x.targets[i]
		if i > 0 && t.together(&x.targets[i-1]) && t.deployment == x.targets[i-1].deployment {
			return false
		}
	}
	return true
}

func numbers[T any](list []T, id func(*T) string) map[string]int32 {
	all := make(map[string]int32, len(list))
	for i := range list {
		all[id(&list[i])] = int32(i)
	}
	return all
}

// distribute sorts targets by a number below n. Targets with the same number stay in order.
func distribute(from, into []target, n int, number func(*target) int32) {
	ends := make([]int, n+1)
	for i := range from {
		ends[number(&from[i])+1]++
	}
	for k := range n {
		ends[k+1] += ends[k]
	}
	for i := range from {
		k := number(&from[i])
		into[ends[k]] = from[i]
		ends[k]++
	}
}
