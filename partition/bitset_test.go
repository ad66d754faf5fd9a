package partition

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestBitsetIsASet: it finds what a list of numbers finds, for sizes around those at which it gets
// another level.
func TestBitsetIsASet(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	for _, size := range []int{1, 63, 64, 65, 64*64 - 1, 64 * 64, 64*64 + 1, 3 * 64 * 64, 64 * 64 * 64, 64*64*64 + 1} {
		b := newBitset(size)
		if highest := b.levels[len(b.levels)-1]; len(highest) != 1 {
			t.Errorf("%d: the highest level has %d words", size, len(highest))
		}
		var in []uint32 // ascending
		check := func(at string) {
			t.Helper()
			places := []uint32{0, uint32(size - 1), uint32(random.IntN(size)), uint32(random.IntN(size))}
			for _, n := range in {
				places = append(places, n, n+1)
			}
			for _, i := range places {
				for _, end := range []uint32{uint32(size), i, i + 1, i + 64, i + 4096} {
					end = min(end, uint32(size))
					want := end
					if k, _ := slices.BinarySearch(in, i); k < len(in) {
						want = min(in[k], end)
					}
					if got := b.next(i, end); i <= end && got != want {
						t.Fatalf("size %d, %s: next(%d, %d) is %d, want %d", size, at, i, end, got, want)
					}
				}
			}
			again := bitset{levels: make([][]uint64, len(b.levels))}
			for level := range b.levels {
				again.levels[level] = make([]uint64, len(b.levels[level]))
			}
			copy(again.levels[0], b.levels[0])
			again.summarize()
			for level := range b.levels {
				if !slices.Equal(b.levels[level], again.levels[level]) {
					t.Fatalf("size %d, %s: level %d is not what the one below says", size, at, level)
				}
			}
		}
		check("empty")
		for range 12 {
			n := uint32(random.IntN(size))
			if k, there := slices.BinarySearch(in, n); there {
				b.remove(n)
				in = slices.Delete(in, k, k+1)
			} else {
				b.add(n)
				in = slices.Insert(in, k, n)
			}
			check("changed")
		}
		for len(in) > 0 {
			b.remove(in[0])
			in = in[1:]
			check("emptied")
		}
	}
}
