package rollout

import (
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
