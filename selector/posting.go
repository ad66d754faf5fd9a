package selector

import (
	"cmp"
	"slices"
)

// posting is an ordered set of element numbers. It is divided into blocks of bounded size, so that
// adding or removing a number never moves more than a block, however many there are.
type posting struct {
	field  uint32     // number of the field that the value is of
	place  uint32     // its place among the postings of that field
	value  string     // the value
	n      int        // how many elements
	blocks [][]uint32 // ascending within and across blocks; none is empty, or longer than blockSize
}

// blockSize trades the cost of moving within a block against the number of blocks.
const blockSize = 512

// block returns the index of the block that holds i or must take it: the last block that does not
// begin after i.
func (p *posting) block(i uint32) int {
	at, exact := slices.BinarySearchFunc(p.blocks, i, func(b []uint32, i uint32) int { return cmp.Compare(b[0], i) })
	if !exact && at > 0 {
		at--
	}
	return at
}

// add adds an element that is not in the posting.
func (p *posting) add(i uint32) {
	p.n++
	if len(p.blocks) == 0 {
		p.blocks = append(p.blocks, []uint32{i})
		return
	}
	// Elements mostly come in ascending order. A full last block is then left full and a new one
	// begun.
	last := len(p.blocks) - 1
	if b := p.blocks[last]; i > b[len(b)-1] {
		if len(b) < blockSize {
			p.blocks[last] = append(b, i)
		} else {
			p.blocks = append(p.blocks, []uint32{i})
		}
		return
	}
	at := p.block(i)
	b := p.blocks[at]
	place, _ := slices.BinarySearch(b, i)
	if len(b) < blockSize {
		p.blocks[at] = slices.Insert(b, place, i)
		return
	}
	const half = blockSize / 2
	right := append(make([]uint32, 0, blockSize), b[half:]...)
	b = b[:half]
	if place <= half {
		b = slices.Insert(b, place, i)
	} else {
		right = slices.Insert(right, place-half, i)
	}
	p.blocks[at] = b
	p.blocks = slices.Insert(p.blocks, at+1, right)
}

// remove removes an element that is in the posting.
func (p *posting) remove(i uint32) {
	p.n--
	at := p.block(i)
	b := p.blocks[at]
	place, _ := slices.BinarySearch(b, i)
	if len(b) == 1 {
		p.blocks = slices.Delete(p.blocks, at, at+1)
		return
	}
	p.blocks[at] = slices.Delete(b, place, place+1)
	p.join(at)
	p.join(at - 1)
}

// join merges block at with the next one if together they fill less than half a block, so that the
// remaining elements take no more room than they need.
func (p *posting) join(at int) {
	if at < 0 || at+1 >= len(p.blocks) || len(p.blocks[at])+len(p.blocks[at+1]) >= blockSize/2 {
		return
	}
	p.blocks[at] = append(p.blocks[at], p.blocks[at+1]...)
	p.blocks = slices.Delete(p.blocks, at+1, at+2)
}

// each yields the elements in ascending order.
func (p *posting) each(yield func(int) bool) {
	for _, b := range p.blocks {
		for _, i := range b {
			if !yield(int(i)) {
				return
			}
		}
	}
}
