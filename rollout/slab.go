package rollout

import (
	"slices"

	"github.com/tranche-dev/tranche/internal/textkey"
)

// slabs hold the many small pieces of which a plan consists.
type slabs struct {
	verdicts   []Verdict
	data       []Data
	conditions []Condition
	translated translation
	texts      textkey.Joiner
}

// also adds a verdict to blockers that may be shared: it never writes into their array.
func (w *work) also(blockers []Verdict, verdict Verdict) []Verdict {
	size := len(blockers) + 1
	room := cap(w.verdicts) - len(w.verdicts)
	if n := len(w.verdicts); size > 1 && n > 0 && room > 0 && &w.verdicts[n-1] == &blockers[size-2] {
		w.verdicts = append(w.verdicts, verdict) // behind the last verdicts, which no other list continues
		return w.verdicts[n+1-size : n+1 : n+1]
	}
	if room < size {
		w.verdicts = make([]Verdict, 0, max(size+size/4, min(max(64, 2*cap(w.verdicts)), 8192))) // with room for more of a list that is longer than a slab
	}
	w.verdicts = append(append(w.verdicts, blockers...), verdict)
	n := len(w.verdicts)
	return w.verdicts[n-size : n : n]
}

// once is also, unless the blockers hold the verdict already: what several members of a bracket
// wait for is listed once for their resource.
func (w *work) once(blockers []Verdict, verdict Verdict) []Verdict {
	for k := range blockers {
		if blockers[k].Equal(verdict) {
			return blockers
		}
	}
	return w.also(blockers, verdict)
}

// distinctVerdicts adds verdicts to a list, each once, as once does, and looks for them in a table
// where they are many.
type distinctVerdicts struct {
	w        *work
	blockers []Verdict
	table    map[gist][]int32 // where in the list; nil while it is short
}

// gist is what tells most verdicts apart.
type gist struct {
	reason             Reason
	rule, about, where string
}

func gistOf(v *Verdict) (g gist) {
	g.reason, g.rule = v.Reason, v.Rule
	if v.Data != nil {
		g.about = v.Data.Detail
	}
	if len(v.On) > 0 {
		g.where = v.On[len(v.On)-1].Deployment
	}
	return g
}

func newDistinct(w *work, blockers []Verdict) distinctVerdicts {
	return distinctVerdicts{w: w, blockers: blockers}
}

func (d *distinctVerdicts) add(verdict Verdict) {
	if len(d.blockers) < 16 {
		d.blockers = d.w.once(d.blockers, verdict)
		return
	}
	if d.table == nil {
		d.table = make(map[gist][]int32, len(d.blockers))
		for k := range d.blockers {
			g := gistOf(&d.blockers[k])
			d.table[g] = append(d.table[g], int32(k))
		}
	}
	g := gistOf(&verdict)
	for _, k := range d.table[g] {
		if d.blockers[k].Equal(verdict) {
			return
		}
	}
	d.table[g] = append(d.table[g], int32(len(d.blockers)))
	d.blockers = d.w.also(d.blockers, verdict)
}

// idSet is a set of ids, which takes no table while they are few.
type idSet struct {
	few  []string
	many map[string]bool
}

// add reports whether the id was not there.
func (s *idSet) add(id string) bool {
	if s.many == nil {
		if slices.Contains(s.few, id) {
			return false
		}
		if s.few = append(s.few, id); len(s.few) == 16 {
			s.many = make(map[string]bool, 32)
			for _, one := range s.few {
				s.many[one] = true
			}
		}
		return true
	}
	before := len(s.many)
	s.many[id] = true
	return len(s.many) > before
}

// push appends to a list that may become long. append alone lets a long list grow by only a
// quarter, and so copies it several times over.
func push[T any](list []T, item T) []T {
	if len(list) == cap(list) {
		list = slices.Grow(list, max(16, len(list)))
	}
	return append(list, item)
}

// pieces is a list that may become very long, in slices of 4,096: a single one would be copied as it
// grows.
type pieces[T any] [][]T

const pieceLength = 4096

// push appends an item and returns its place, which holds until the next push.
func (p *pieces[T]) push(item T) *T {
	if last := len(*p) - 1; last < 0 || len((*p)[last]) == cap((*p)[last]) {
		p.grow()
	}
	own := &(*p)[len(*p)-1]
	*own = append(*own, item)
	return &(*own)[len(*own)-1]
}

// grow makes room in the last piece, the first of which grows as any list.
func (p *pieces[T]) grow() {
	switch {
	case len(*p) == 0:
		*p = pieces[T]{make([]T, 0, 16)}
	case len(*p) == 1 && cap((*p)[0]) < pieceLength:
		(*p)[0] = append(make([]T, 0, 2*cap((*p)[0])), (*p)[0]...)
	default:
		*p = append(*p, make([]T, 0, pieceLength))
	}
}

func (p pieces[T]) at(k int32) *T { return &p[uint32(k)/pieceLength][uint32(k)%pieceLength] }

func (p pieces[T]) len() int {
	if len(p) == 0 {
		return 0
	}
	return (len(p)-1)*pieceLength + len(p[len(p)-1])
}

// put sets an entry of a map that is made for its first entry: most plans need few of these maps.
func put[K comparable, V any](m *map[K]V, key K, value V) {
	if *m == nil {
		*m = map[K]V{}
	}
	(*m)[key] = value
}

// take cuts n elements off a slab, and makes a new slab if it is used up.
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
