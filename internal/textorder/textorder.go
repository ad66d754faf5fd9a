// Package textorder sorts long lists by a text. Names of resources share a prefix and differ in
// what follows. The next eight bytes, compared as one number, decide nearly always, so the texts,
// which are scattered in memory, are hardly touched.
package textorder

import (
	"cmp"
	"slices"
	"strings"
)

// Of returns the indices of items in ascending order of their texts. If two texts are the same,
// next decides; if next is nil or returns 0, the order of the items does. The items are not
// modified, and text is given pointers into their array.
func Of[T any](items []T, text func(*T) string, next func(a, b *T) int) []int {
	common := ""
	for i := range items {
		own := text(&items[i])
		if i == 0 {
			common = own
		}
		common = common[:shared(common, own)]
	}
	type entry struct {
		key  uint64
		item int
	}
	entries := make([]entry, len(items))
	for i := range items {
		entries[i] = entry{leading(text(&items[i])[len(common):]), i}
	}
	slices.SortFunc(entries, func(a, b entry) int {
		if a.key != b.key {
			return cmp.Compare(a.key, b.key)
		}
		one, other := &items[a.item], &items[b.item]
		if c := strings.Compare(text(one), text(other)); c != 0 {
			return c
		}
		if next != nil {
			if c := next(one, other); c != 0 {
				return c
			}
		}
		return cmp.Compare(a.item, b.item)
	})
	order := make([]int, len(items))
	for k := range entries {
		order[k] = entries[k].item
	}
	return order
}

// shared returns the length of the prefix that two texts share.
func shared(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// leading returns the first eight bytes of a text as a big-endian number; missing bytes are zero.
func leading(text string) (key uint64) {
	for n := range 8 {
		key <<= 8
		if n < len(text) {
			key |= uint64(text[n])
		}
	}
	return key
}
