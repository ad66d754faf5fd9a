package selector

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/internal/testkit"
)

// checked fails unless the posting keeps its promises and holds exactly the elements.
func (p *posting) checked(t *rapid.T, want map[uint32]bool) {
	var all []uint32
	for k, b := range p.blocks {
		if len(b) == 0 || len(b) > blockSize || cap(b) > 2*blockSize {
			t.Fatalf("block %d has %d elements and room for %d", k, len(b), cap(b))
		}
		if k > 0 && len(p.blocks[k-1])+len(b) < blockSize/2 {
			t.Fatalf("blocks %d and %d have %d elements together", k-1, k, len(p.blocks[k-1])+len(b))
		}
		all = append(all, b...)
	}
	if p.n != len(want) || len(all) != len(want) || !slices.IsSorted(all) {
		t.Fatalf("n %d, %d elements, want %d, sorted %v", p.n, len(all), len(want), slices.IsSorted(all))
	}
	for _, i := range all {
		if !want[i] {
			t.Fatalf("%d is in it", i)
		}
	}
	c := cursor{posting: p}
	for i := range uint32(4 * blockSize) {
		if c.has(i) != want[i] {
			t.Fatalf("has(%d) is %v", i, !want[i])
		}
	}
}

func TestPosting(t *testing.T) {
	seen := testkit.Tally{}
	seen.Check(t, func(t *rapid.T) {
		p, want := &posting{}, map[uint32]bool{}
		for range rapid.IntRange(1, 12).Draw(t, "runs") {
			from := rapid.Uint32Range(0, 3*blockSize).Draw(t, "from")
			n := rapid.Uint32Range(1, 3*blockSize).Draw(t, "n")
			step := rapid.Uint32Range(1, 3).Draw(t, "step")
			down, remove := rapid.Bool().Draw(t, "down"), rapid.Bool().Draw(t, "remove")
			for k := range n {
				i := from + k*step
				if down {
					i = from + (n-1-k)*step
				}
				if i >= 4*blockSize || want[i] != remove {
					continue
				}
				before := len(p.blocks)
				if remove {
					p.remove(i)
					delete(want, i)
				} else {
					p.add(i)
					want[i] = true
				}
				switch {
				case len(p.blocks) > before && before > 0 && !remove && i < p.blocks[len(p.blocks)-1][0]:
					seen["split"]++
				case len(p.blocks) < before && len(p.blocks) > 0:
					seen["joined or emptied"]++
				}
			}
			p.checked(t, want)
		}
	}, "split", "joined or emptied")
}

func TestPostingBlocks(t *testing.T) {
	p := &posting{}
	for i := range uint32(blockSize) {
		p.add(2 * i)
	}
	shape := func() (list []int) {
		for _, b := range p.blocks {
			list = append(list, len(b))
		}
		return list
	}
	want := func(why string, sizes ...int) {
		t.Helper()
		if !slices.Equal(shape(), sizes) {
			t.Fatalf("blocks %v, want %v: %s", shape(), sizes, why)
		}
	}
	want("a block is filled before the next is begun", blockSize)
	p.add(2 * blockSize)
	want("in ascending order it stays full", blockSize, 1)
	p.remove(2 * blockSize)
	want("an empty block is dropped", blockSize)
	p.add(1)
	want("in the middle it is halved, and the left half grows", blockSize/2+1, blockSize/2)
	p.add(2*blockSize - 3)
	want("the right half grows", blockSize/2+1, blockSize/2+1)
	p.remove(1)
	p.remove(2*blockSize - 3)
	for i := uint32(0); len(p.blocks[0]) > 1; i++ {
		p.remove(2 * i)
	}
	want("together they still fill more than half a block", 1, blockSize/2)
	p.remove(2*blockSize - 2)
	want("the last block has no neighbour to its right", 1, blockSize/2-1)
	p.add(0)
	p.remove(0)
	want("together they fill just half a block", 1, blockSize/2-1)
	p.remove(2*blockSize - 4)
	want("together they fill less than half a block", blockSize/2-1)

	p = &posting{}
	for i := range uint32(blockSize + blockSize/2) {
		p.add(i)
	}
	for i := range uint32(blockSize - 1) {
		p.remove(i)
	}
	want("the right one is large enough for both", 1, blockSize/2)
	p.remove(blockSize)
	want("just", 1, blockSize/2-1)
	p.remove(blockSize + 1)
	want("a block is joined to its left neighbour too", blockSize/2-1)
}
