package concurrency

import "github.com/tranche-dev/tranche/internal/textorder"

// sortedTexts returns the distinct texts in ascending order. It returns the list itself if that is
// distinct and in order already.
func sortedTexts(texts []string) []string {
	ascend := true
	for i := 1; i < len(texts) && ascend; i++ {
		ascend = texts[i-1] < texts[i]
	}
	if ascend {
		return texts[:len(texts):len(texts)]
	}
	sorted := make([]string, 0, len(texts))
	for _, i := range textorder.Of(texts, func(text *string) string { return *text }, nil) {
		if n := len(sorted); n == 0 || sorted[n-1] != texts[i] {
			sorted = append(sorted, texts[i])
		}
	}
	return sorted
}
