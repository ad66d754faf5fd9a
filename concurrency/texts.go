package concurrency

import (
	"cmp"
	"slices"
	"strings"
)

// sortTexts puts texts in ascending order. Names of resources share a beginning and differ in what follows: eight bytes of that, compared
// as a number, decide nearly always.
func sortTexts(texts []string) {
	if slices.IsSorted(texts) {
		return
	}
	shared := len(texts[0])
	for _, text := range texts {
		shared = min(shared, len(text))
		for text[:shared] != texts[0][:shared] {
			shared--
		}
	}
	type keyed struct {
		key  uint64
		text string
	}
	list := make([]keyed, len(texts))
	for i, text := range texts {
		key := uint64(0)
		for k := range 8 {
			if key <<= 8; shared+k < len(text) {
				key |= uint64(text[shared+k])
			}
		}
		list[i] = keyed{key, text}
	}
	slices.SortFunc(list, func(a, b keyed) int {
		if a.key != b.key {
			return cmp.Compare(a.key, b.key)
		}
		return strings.Compare(a.text, b.text)
	})
	for i := range list {
		texts[i] = list[i].text
	}
}
