package concurrency

import (
	"cmp"
	"slices"
	"strings"
)

// sortedTexts returns the different texts in ascending order: the list itself, if it is in order already. Names of resources share a beginning
// and differ in what follows: eight bytes of that, compared as a number, decide nearly always.
func sortedTexts(texts []string) []string {
	ascend := true
	for i := 1; i < len(texts) && ascend; i++ {
		ascend = texts[i-1] < texts[i]
	}
	if ascend {
		return texts[:len(texts):len(texts)]
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
	sorted := make([]string, 0, len(list))
	for i := range list {
		if i == 0 || list[i].text != list[i-1].text {
			sorted = append(sorted, list[i].text)
		}
	}
	return sorted
}
