package bracket

import (
	"math"
	"math/bits"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/internal/instant"
	"github.com/tranche-dev/tranche/internal/textkey"
	"github.com/tranche-dev/tranche/internal/textorder"
)

// roster is what a Step knows of all targets, with numbers instead of texts, because there may be
// millions of targets and every Step goes over them.
type roster struct {
	resources []string // ascending
	start     []int32  // per resource: its first target; one more entry at the end
	targets   []target // ascending by (resource, deployment)
	special   []special
	scopes    []scope

	scopeNumbers map[string]int32    // index in scopes, by deployment and list
	scopeLists   map[listOfIDs]int32 // the same by the list itself, which many targets share
	texts        []string            // deployments and current versions that the view does not know
	numbers      map[string]int32
}

// listOfIDs is a list that some targets of one deployment share: as long as it does not change, what
// it says need not be compared.
type listOfIDs struct {
	deployment int32
	first      *string
	n          int
}

// target is a Target without its resource.
type target struct {
	deployment int32 // index in deployments; -1-i: texts[i]
	current    int32 // rank; -1: none; -2-i: texts[i], which is older than all listed versions
	special    int32 // one more than the index in special, or 0
}

// special holds the properties that few targets have.
type special struct {
	outdatedAt time.Time
	scope      int32 // index in scopes; -1: every version is in scope
}

// scope is what the targets of a deployment have in common that list the same versions as out of
// scope. There are few, even where there are many such targets.
type scope struct {
	deployment int32
	out        []uint64 // bits by rank
	lowest     int32    // lowest rank that one of the targets runs
}

// has reports whether the listed version of a rank is in scope.
func (s *scope) has(rank int32) bool { return s.out[rank/64]&(1<<(rank%64)) == 0 }

// next returns the lowest rank in scope that is not below another one, or one beyond all versions.
func (s *scope) next(rank int32) int32 {
	for word := rank / 64; int(word) < len(s.out); word++ {
		in := ^s.out[word]
		if word == rank/64 {
			in &= math.MaxUint64 << (rank % 64)
		}
		if in != 0 {
			return word*64 + int32(bits.TrailingZeros64(in))
		}
	}
	return math.MaxInt32
}

// last returns the greatest of some ranks that is in scope, -1 without one.
func (s *scope) last(ranks []uint64) int32 {
	for word := len(ranks) - 1; word >= 0; word-- {
		if in := ranks[word] &^ s.out[word]; in != 0 {
			return int32(word*64 + bits.Len64(in) - 1)
		}
	}
	return -1
}

// words returns how many words have a bit for each version.
func (d *deployment) words() int { return (len(d.versions) + 63) / 64 }

// rank returns the rank of the current version, -1 if there is none or it is not listed.
func (t *target) rank() int32 { return max(t.current, -1) }

// deploymentOf returns the id of the target's deployment.
func (v *view) deploymentOf(t *target) string {
	if t.deployment < 0 {
		return v.texts[-1-t.deployment]
	}
	return v.deployments[t.deployment].id
}

// currentOf returns the id of the target's current version, empty if there is none.
func (v *view) currentOf(t *target) string {
	switch {
	case t.current >= 0:
		return v.deployments[t.deployment].versions[t.current].id
	case t.current == -1:
		return ""
	}
	return v.texts[-2-t.current]
}

func (v *view) outdatedAt(t *target) time.Time {
	if t.special == 0 {
		return time.Time{}
	}
	return v.special[t.special-1].outdatedAt
}

// inScope reports whether the listed version of a rank is meant for the target.
func (v *view) inScope(t *target, rank int32) bool {
	if t.special == 0 {
		return true
	}
	at := v.special[t.special-1].scope
	return at < 0 || v.scopes[at].has(rank)
}

// addTargets reads the targets and collects what each deployment must know about them. This is the
// one pass over the fleet that every Step makes. It looks up a version only where a target runs
// another one than its neighbours. Versions must have been added before.
func (v *view) addTargets(group *GroupRecord, list Targets) error {
	n := list.Len()
	at, twice := v.read(group, list, n)
	if twice {
		t := list.At(at)
		return fault("observation.targets", CodeDuplicate, nil, "deployment %q on resource %q is listed twice", t.Deployment, t.Resource)
	}
	if at == n {
		return nil
	}
	listed, plain := list.(TargetList)
	if !plain {
		listed = make(TargetList, n)
		for i := range listed {
			listed[i] = list.At(i)
		}
	}
	sorted := make(TargetList, 0, n)
	for _, i := range textorder.Of(listed, (*Target).resource, func(a, b *Target) int { return strings.Compare(a.Deployment, b.Deployment) }) {
		sorted = append(sorted, listed[i])
	}
	return v.addTargets(group, sorted)
}

func (t *Target) resource() string { return t.Resource }

// nearby is how many deployments are passed by before one is searched, which takes longer to begin.
const nearby = 8

// read does the work of addTargets for n targets in ascending order. A deleted resource has no
// targets, whatever the list says: hosts may list them for a while. It stops at the first target
// that is out of order and returns its index; twice reports whether that target equals the one
// before it. If all are in order, at is n.
func (v *view) read(group *GroupRecord, list Targets, n int) (at int, twice bool) {
	since := group.servedUntil()
	for i := range v.deployments {
		d := &v.deployments[i]
		d.targets, d.lowest, d.outdated = 0, int32(len(d.versions)), nil
	}
	recent := make([]recent, len(v.deployments))
	v.roster = roster{targets: make([]target, 0, n)}
	next := 0    // in deployments
	before := "" // deployment of the target before
	resource, gone := "", false
	for i := range n {
		t := list.At(i)
		if i == 0 || t.Resource != resource {
			if t.Resource < resource {
				return i, false
			}
			resource, next = t.Resource, 0
			if _, gone = slices.BinarySearch(v.deleted, resource); !gone {
				v.addResource(resource, i, n)
			}
		} else if t.Deployment <= before {
			return i, t.Deployment == before
		}
		if before = t.Deployment; gone {
			continue
		}
		own := target{current: -1}
		if instant.Unset(t.OutdatedAt) {
			t.OutdatedAt = time.Time{}
		}
		if !t.OutdatedAt.IsZero() || len(t.OutOfScope) > 0 {
			v.special = append(v.special, special{outdatedAt: t.OutdatedAt, scope: -1})
			own.special = int32(len(v.special))
		}
		for step := 0; next < len(v.deployments) && v.deployments[next].id != t.Deployment && v.deployments[next].id < t.Deployment; step++ {
			if step == nearby { // the resource lacks many of the deployments
				further, _ := slices.BinarySearchFunc(v.deployments[next:], t.Deployment, func(d deployment, id string) int { return strings.Compare(d.id, id) })
				next += further
				break
			}
			next++
		}
		if next == len(v.deployments) || v.deployments[next].id != t.Deployment {
			own.deployment = -1 - v.number(t.Deployment)
			if t.Current != "" {
				own.current = -2 - v.number(t.Current)
			}
			v.targets = append(v.targets, own)
			continue
		}
		d := &v.deployments[next]
		own.deployment = int32(next)
		own.current = recent[next].find(v, d, t.Current)
		next++
		v.targets = append(v.targets, own)
		d.targets++
		if len(t.OutOfScope) > 0 {
			at := recent[next-1].scopeOf(v, own.deployment, t.OutOfScope)
			v.special[own.special-1].scope = at
			v.scopes[at].lowest = min(v.scopes[at].lowest, own.rank())
		} else {
			d.lowest = min(d.lowest, own.rank())
		}
		if t.OutdatedAt.After(since) {
			d.outdated = append(d.outdated, utc(t.OutdatedAt))
		}
	}
	v.start = append(v.start, int32(len(v.targets)))
	v.conclude()
	return n, false
}

// conclude works out what the versions and deployments must know about the targets, all of which
// have been read.
func (v *view) conclude() {
	v.scopeNumbers, v.scopeLists = nil, nil // they hold the lists, and a plan keeps the view
	for i := range v.scopes {
		s := &v.scopes[i]
		versions := v.deployments[s.deployment].versions
		for r := range versions {
			switch n := &versions[r]; {
			case !s.has(int32(r)):
				n.narrow = true
			case int32(r) > s.lowest:
				n.wanted = true
			}
		}
	}
	for i := range v.deployments {
		d := &v.deployments[i]
		slices.SortFunc(d.outdated, time.Time.Compare)
		d.outdated = slices.CompactFunc(d.outdated, time.Time.Equal)
	}
}

// addResource begins the targets of a resource, after i of n targets in the list.
func (r *roster) addResource(resource string, i, n int) {
	if len(r.resources) == cap(r.resources) {
		more := 64 // and then in proportion, because most resources have as many targets as those before
		if i > 0 {
			more += int(int64(n-i) * int64(len(r.resources)) / int64(i))
		}
		r.resources, r.start = slices.Grow(r.resources, more), slices.Grow(r.start, more+1)
	}
	r.resources = append(r.resources, resource)
	r.start = append(r.start, int32(len(r.targets)))
}

// recent holds the versions of one deployment that were looked up last, and the last scope: the
// neighbours of a target are mostly like it.
type recent struct {
	known   int
	id      [2]string
	current [2]int32
	ids     []string // out of scope
	scope   int32
}

// find returns the value of target.current for a version.
func (c *recent) find(v *view, d *deployment, id string) int32 {
	for i := range c.known {
		if c.id[i] == id {
			return c.current[i]
		}
	}
	current, listed := d.rank[id]
	switch {
	case id == "":
		current = -1
	case !listed:
		current = -2 - v.number(id)
	}
	c.id[1], c.current[1] = c.id[0], c.current[0]
	c.id[0], c.current[0] = id, current
	c.known = min(c.known+1, len(c.id))
	return current
}

// scopeOf returns the index of the scope of the targets with such a list, which is not empty, and
// adds the scope if it is new. Versions that are not listed have no place in it.
func (c *recent) scopeOf(v *view, d int32, ids []string) int32 {
	if slices.Equal(c.ids, ids) {
		return c.scope
	}
	list := listOfIDs{d, &ids[0], len(ids)}
	at, known := v.scopeLists[list]
	if !known {
		at = v.scopeOf(d, ids)
		if v.scopeLists == nil {
			v.scopeLists = make(map[listOfIDs]int32)
		}
		v.scopeLists[list] = at
	}
	c.ids, c.scope = ids, at
	return at
}

// scopeOf returns the index of the scope with a list that is another one in memory than all before.
func (v *view) scopeOf(d int32, ids []string) int32 {
	own := &v.deployments[d]
	key := textkey.Join(append([]string{own.id}, ids...)...)
	at, known := v.scopeNumbers[key]
	if !known {
		if v.scopeNumbers == nil {
			v.scopeNumbers = make(map[string]int32)
		}
		at = int32(len(v.scopes))
		v.scopeNumbers[key] = at
		out := make([]uint64, own.words())
		for _, id := range ids {
			if r, listed := own.rank[id]; listed {
				out[r/64] |= 1 << (r % 64)
			}
		}
		v.scopes = append(v.scopes, scope{deployment: d, out: out, lowest: int32(len(own.versions))})
	}
	return at
}

// number returns the index of a text in texts, and adds the text if it is new.
func (r *roster) number(text string) int32 {
	n, known := r.numbers[text]
	if !known {
		if r.numbers == nil {
			r.numbers = make(map[string]int32)
		}
		n = int32(len(r.texts))
		r.texts = append(r.texts, text)
		r.numbers[text] = n
	}
	return n
}

// span returns the targets of the i-th resource.
func (r *roster) span(i int32) []target { return r.targets[r.start[i]:r.start[i+1]] }

// targetIn returns the target of a deployment among those of one resource, nil if it has none.
func (v *view) targetIn(targets []target, deployment string) *target {
	if len(targets) > nearby {
		k, found := sort.Find(len(targets), func(k int) int { return strings.Compare(deployment, v.deploymentOf(&targets[k])) })
		if !found {
			return nil
		}
		return &targets[k]
	}
	for k := range targets {
		if v.deploymentOf(&targets[k]) == deployment {
			return &targets[k]
		}
	}
	return nil
}

// locate returns the index of a resource, -1 if it has no targets.
func (r *roster) locate(resource string) int32 {
	i, found := slices.BinarySearch(r.resources, resource)
	if !found {
		return -1
	}
	return int32(i)
}
