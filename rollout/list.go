package rollout

import (
	"iter"
	"math/bits"
	"slices"
	"sort"
)

// sortSpread returns the elements of a list in the order of compare. Their keys do not descend in
// that order, and are below span, or 0 without one. If they are spread evenly, as the turns of a
// curve are over its time, a count by their leading bits leaves a handful in each bucket to sort.
func sortSpread[T any](list []T, span uint64, key func(T) uint64, compare func(a, b T) int) []T {
	counted := max(0, bits.Len(uint(len(list)))-2)
	shift := max(0, bits.Len64(span)-counted)
	ends := make([]int32, span>>shift+2)
	for _, e := range list {
		ends[key(e)>>shift+1]++
	}
	for k := 1; k < len(ends); k++ {
		ends[k] += ends[k-1]
	}
	sorted := make([]T, len(list))
	for _, e := range list {
		at := &ends[key(e)>>shift]
		sorted[*at] = e
		*at++
	}
	from := int32(0)
	for _, to := range ends[:len(ends)-1] {
		slices.SortFunc(sorted[from:to], compare)
		from = to
	}
	return sorted
}

// seek returns the lowest index in [0, n] from which on before is false; before is true for a
// leading part of the indices. The cost grows with the logarithm of the distance to near, so lists
// in the same order can be walked side by side, whether sparse or dense.
func seek(n, near int, before func(int) bool) int {
	low, high := near, near
	if near > 0 && !before(near-1) {
		for step := 1; low > 0 && !before(low-1); step *= 2 {
			high = low - 1
			low -= min(step, low)
		}
	} else {
		for step := 1; high < n && before(high); step *= 2 {
			low = high + 1
			high += step
		}
		high = min(high, n)
	}
	return low + sort.Search(high-low, func(k int) bool { return !before(low + k) })
}

// stretches splits a list into stretches of neighbours that are the same, and yields these.
func stretches[T any](list []T, same func(a, b T) bool) iter.Seq[[]T] {
	return func(yield func([]T) bool) {
		for len(list) > 0 {
			n := 1
			for n < len(list) && same(list[0], list[n]) {
				n++
			}
			if !yield(list[:n:n]) {
				return
			}
			list = list[n:]
		}
	}
}

// grouped returns the numbers below n in the order of the groups that they are in, of which there
// are so many; those of one group stay in order. The numbers of group g are
// list[begins[g]:begins[g+1]].
func grouped(n, groups int, groupOf func(k int32) int32) (list, begins []int32) {
	begins = make([]int32, groups+2)
	for k := range int32(n) {
		begins[groupOf(k)+2]++
	}
	for g := range groups {
		begins[g+2] += begins[g+1]
	}
	list = make([]int32, n)
	for k := range int32(n) {
		next := &begins[groupOf(k)+1] // until all are filed, where the next one of the group goes
		list[*next] = k
		*next++
	}
	return list, begins[:groups+1]
}

// ascending sorts distinct numbers below n in time proportional to n. It is meant for many numbers
// that are close together.
func ascending(numbers []int32, n int) {
	in := make([]uint64, (n+63)/64)
	for _, i := range numbers {
		in[i/64] |= 1 << (i % 64)
	}
	numbers = numbers[:0]
	for at, word := range in {
		for ; word != 0; word &= word - 1 {
			numbers = append(numbers, int32(at*64+bits.TrailingZeros64(word)))
		}
	}
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
