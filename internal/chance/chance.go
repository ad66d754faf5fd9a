// Package chance is what forecasts share: they play a world many times with what is drawn from
// samples, and tell which share of the trials was done by when.
package chance

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"time"
)

// Draw picks one of n for a task in a trial. Each task has its own generator, so what one draws does
// not affect the others.
func Draw(seed, trial uint64, task string, n int) int {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d/%s", trial, task)
	return rand.New(rand.NewPCG(seed, h.Sum64())).IntN(n)
}

// Quantile returns the first of the values, in ascending order, by which a share q of all n trials is
// reached, and false if that is never; trials without a value have none to give. It sorts the values.
// Nothing is interpolated: a value between those of two trials would promise what neither of them
// kept.
func Quantile[T any](values []T, compare func(a, b T) int, q float64, n int) (value T, reached bool) {
	if !(q >= 0) {
		return value, false
	}
	// Divided and not multiplied: a product such as 0.07 * 100 is rounded to above 7.
	k := sort.Search(n, func(k int) bool { return float64(k+1)/float64(n) >= q })
	if k >= len(values) {
		return value, false
	}
	slices.SortFunc(values, compare)
	return values[k], true
}

// Percent returns how much n is of all. It is 0 % of none alone, and 100 % of all of them alone.
func Percent(n, all int) string {
	switch share := 100 * float64(n) / float64(all); {
	case n > 0 && share < 1:
		return "less than 1 %"
	case n < all && share > 99:
		return "more than 99 %"
	default:
		return fmt.Sprintf("%.0f %%", share)
	}
}

// InParallel calls do for 0 to n-1, by so many workers, and begins no further one after a failure.
func InParallel(n, workers int, do func(i int) (ok bool)) {
	var next atomic.Int64
	var failed atomic.Bool
	var all sync.WaitGroup
	for range min(workers, n) {
		all.Go(func() {
			for !failed.Load() {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if !do(i) {
					failed.Store(true)
				}
			}
		})
	}
	all.Wait()
}

// Lengths are samples in the order of their lengths; those of one length stay in the order given.
// The zero value has none.
type Lengths[T any] struct {
	samples []T
	length  func(T) time.Duration
}

// ByLength returns the samples in that order, in a list of its own.
func ByLength[T any](samples []T, length func(T) time.Duration) Lengths[T] {
	own := slices.Clone(samples)
	slices.SortStableFunc(own, func(a, b T) int { return cmp.Compare(length(a), length(b)) })
	return Lengths[T]{own, length}
}

// Longer returns the samples of which something may still become one that has lasted for age: those
// that are longer. If none is, late is true, and the longest remain. The list must not be modified.
func (l Lengths[T]) Longer(age time.Duration) (left []T, late bool) {
	last := len(l.samples) - 1
	if last < 0 {
		return nil, false
	}
	longest := l.length(l.samples[last])
	if late = longest <= age; late {
		age = longest - 1
	}
	return l.samples[sort.Search(last, func(k int) bool { return l.length(l.samples[k]) > age }):], late
}
