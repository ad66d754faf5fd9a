package chance_test

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/internal/chance"
)

// TestDraw: draws are frozen, so that a prediction can be repeated; each of n is drawn about as often
// as any other, and every part of the key makes a difference.
func TestDraw(t *testing.T) {
	t.Parallel()
	var got []int
	for trial := range uint64(12) {
		got = append(got, chance.Draw(7, trial, "run-1", 10))
	}
	if want := []int{8, 5, 5, 3, 1, 3, 6, 3, 4, 3, 4, 3}; !slices.Equal(got, want) {
		t.Errorf("draws have changed: %v", got)
	}
	const all = 10_000
	for _, key := range []func(i int) int{
		func(i int) int { return chance.Draw(uint64(i), 1, "a", 4) },
		func(i int) int { return chance.Draw(1, uint64(i), "a", 4) },
		func(i int) int { return chance.Draw(1, 1, fmt.Sprint("a", i), 4) },
	} {
		count := make([]int, 4)
		for i := range all {
			count[key(i)]++
		}
		for k, n := range count {
			if n < all/4-all/40 || n > all/4+all/40 {
				t.Errorf("%d was drawn %d times of %d", k, n, all)
			}
		}
	}
}

// TestQuantile: of few values, the first by which a share is reached. They are in no order.
func TestQuantile(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		why  string
		q    float64
		n    int
		want int
	}{
		{"no share at all is the first", 0, 5, 0},
		{"half of two is one", 0.5, 2, 0},
		{"half of three is two of them", 0.5, 3, 1},
		{"nine of ten", 0.9, 10, 8},
		{"more than nine of ten", 0.91, 10, 9},
		{"a product that is rounded up, 0.07 * 100, does not reach the next one", 0.07, 100, 6},
		{"all", 1, 5, 4},
		{"more than all", 1.01, 5, 5},
		{"less than none", -0.01, 5, 5},
		{"no number", math.NaN(), 5, 5},
		{"of nothing", 0.5, 0, 0},
	} {
		values := make([]int, row.n)
		for k := range values {
			values[k] = row.n - 1 - k
		}
		got, reached := chance.Quantile(values, cmp.Compare[int], row.q, row.n)
		if !reached {
			got = row.n
		}
		if got != row.want {
			t.Errorf("%s: %d", row.why, got)
		}
	}
}

// TestQuantileOfSome: trials that have no value count, and give none.
func TestQuantileOfSome(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		q    float64
		want int // 0: never
	}{{0, 10}, {0.25, 10}, {0.5, 20}, {0.75, 30}, {0.76, 0}, {1, 0}} {
		if got, reached := chance.Quantile([]int{30, 10, 20}, cmp.Compare[int], row.q, 4); got != row.want || reached != (row.want > 0) {
			t.Errorf("%v: %d, %v", row.q, got, reached)
		}
	}
}

// TestPercent: one of many is not none, and all but one are not all.
func TestPercent(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		n, all int
		want   string
	}{{0, 1000, "0 %"}, {1, 1000, "less than 1 %"}, {10, 1000, "1 %"}, {994, 1000, "more than 99 %"}, {990, 1000, "99 %"}, {1000, 1000, "100 %"}, {1, 3, "33 %"}} {
		if got := chance.Percent(row.n, row.all); got != row.want {
			t.Errorf("%d of %d: %s", row.n, row.all, got)
		}
	}
}

// TestLonger: of what has lasted for some time the longer samples are left; of what has lasted for
// longer than any, the longest, and it is late.
func TestLonger(t *testing.T) {
	t.Parallel()
	length := func(n int) time.Duration { return time.Duration(n) }
	for _, row := range []struct {
		why     string
		samples []int
		age     time.Duration
		want    []int
		late    bool
	}{
		{"those that are over are not left", []int{1, 3, 2, 5}, 2, []int{3, 5}, false},
		{"all are over", []int{1, 5, 2, 5}, 9, []int{5, 5}, true},
		{"the longest ends just now", []int{1, 5, 2}, 5, []int{5}, true},
		{"the longest ends next", []int{1, 5, 2}, 4, []int{5}, false},
		{"it has only begun", []int{1, 2}, 0, []int{1, 2}, false},
		{"those that are left are in the order of their lengths, whatever order they had", []int{7, 1, 9, 8}, 2, []int{7, 8, 9}, false},
		{"one that takes no time has ended as it begins", []int{0}, 0, []int{0}, true},
		{"none", nil, 3, nil, false},
	} {
		got, late := chance.ByLength(row.samples, length).Longer(row.age)
		if !slices.Equal(got, row.want) || late != row.late {
			t.Errorf("%s: %v, %v", row.why, got, late)
		}
	}
}

// TestInParallel: everything is done once, by one worker in order; after a failure nothing more
// begins.
func TestInParallel(t *testing.T) {
	t.Parallel()
	for _, workers := range []int{1, 3, 100} {
		var lock sync.Mutex
		var done []int
		chance.InParallel(20, workers, func(i int) bool {
			lock.Lock()
			defer lock.Unlock()
			done = append(done, i)
			return true
		})
		if ordered := slices.IsSorted(done); workers == 1 && !ordered {
			t.Errorf("one worker: %v", done)
		}
		slices.Sort(done)
		if len(done) != 20 || len(slices.Compact(done)) != 20 {
			t.Errorf("%d workers: %v", workers, done)
		}
	}
	var done []int
	chance.InParallel(20, 1, func(i int) bool {
		done = append(done, i)
		return i < 4
	})
	if len(done) != 5 {
		t.Errorf("after a failure: %v", done)
	}
	chance.InParallel(0, 4, func(int) bool { t.Error("nothing to do"); return true })
}
