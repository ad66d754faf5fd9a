package partition

import "math/bits"

// bitset is a set of small numbers that finds the next member without walking over the numbers in
// between. Level 0 has one bit per number. Each further level has one bit per word of the level
// below that is not 0, up to a single word. A million numbers have four levels, so a step over a
// large fleet costs what it releases.
type bitset struct {
	levels [][]uint64
}

func newBitset(size int) bitset {
	var b bitset
	for {
		size = (size + 63) / 64
		b.levels = append(b.levels, make([]uint64, size))
		if size <= 1 {
			return b
		}
	}
}

func (b *bitset) add(i uint32) {
	for _, words := range b.levels {
		word := &words[i/64]
		before := *word
		*word |= 1 << (i % 64)
		if before != 0 {
			return // the levels above have the bit already
		}
		i /= 64
	}
}

func (b *bitset) remove(i uint32) {
	for _, words := range b.levels {
		word := &words[i/64]
		*word &^= 1 << (i % 64)
		if *word != 0 {
			return
		}
		i /= 64
	}
}

// next returns the smallest number in the set that is in [i, end), or end.
func (b *bitset) next(i, end uint32) uint32 {
	if i >= end {
		return end
	}
	at := i
	for level := 0; level < len(b.levels); level++ {
		words := b.levels[level]
		if int(at/64) >= len(words) {
			return end
		}
		if rest := words[at/64] >> (at % 64); rest != 0 {
			at += uint32(bits.TrailingZeros64(rest))
			for ; level > 0; level-- {
				at = at*64 + uint32(bits.TrailingZeros64(b.levels[level-1][at]))
			}
			return min(at, end)
		}
		at = at/64 + 1
	}
	return end
}

// summarize fills the levels above 0, which has been written word by word.
func (b *bitset) summarize() {
	for level := 1; level < len(b.levels); level++ {
		above := b.levels[level]
		clear(above)
		for i, word := range b.levels[level-1] {
			if word != 0 {
				above[i/64] |= 1 << (i % 64)
			}
		}
	}
}
