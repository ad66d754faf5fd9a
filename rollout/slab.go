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
	halted     halt
	texts      textkey.Joiner
}

// appendVerdict adds a verdict to blockers that may be shared: it never writes into their array.
func (w *work) appendVerdict(blockers []Verdict, verdict Verdict) []Verdict {
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

// push appends to a list that may become long. append alone lets a long list grow by only a
// quarter, and so copies it several times over.
func push[T any](list []T, item T) []T {
	if len(list) == cap(list) {
		list = slices.Grow(list, max(16, len(list)))
	}
	return append(list, item)
}

// chunks is a list that may become very long, in slices of 4,096: a single one would be copied as
// it grows.
type chunks[T any] [][]T

const chunkLength = 4096

// push appends an item and returns its place, which holds until the next push.
func (p *chunks[T]) push(item T) *T {
	if last := len(*p) - 1; last < 0 || len((*p)[last]) == cap((*p)[last]) {
		p.grow()
	}
	own := &(*p)[len(*p)-1]
	*own = append(*own, item)
	return &(*own)[len(*own)-1]
}

// grow makes room in the last chunk, the first of which grows as any list.
func (p *chunks[T]) grow() {
	switch {
	case len(*p) == 0:
		*p = chunks[T]{make([]T, 0, 16)}
	case len(*p) == 1 && cap((*p)[0]) < chunkLength:
		(*p)[0] = append(make([]T, 0, 2*cap((*p)[0])), (*p)[0]...)
	default:
		*p = append(*p, make([]T, 0, chunkLength))
	}
}

func (p chunks[T]) at(k int32) *T { return &p[uint32(k)/chunkLength][uint32(k)%chunkLength] }

func (p chunks[T]) len() int {
	if len(p) == 0 {
		return 0
	}
	return (len(p)-1)*chunkLength + len(p[len(p)-1])
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

// keepData keeps the data of a verdict in a slab.
func (w *work) keepData(d Data) *Data {
	own := &take(&w.data, 1)[0]
	*own = d
	return own
}
