package partition

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// TestTextTableIsAMap: it numbers texts as a map would, filed by fingerprint or, where too many
// look alike or there are too many, by a map.
func TestTextTableIsAMap(t *testing.T) {
	filed, hashed := 0, 0
	check := func(fatal func(string, ...any), texts, others []string) {
		table, plain := newTextTable(len(texts)), map[string]int32{}
		for i, text := range texts {
			if got := table.number(text); got != int32(i) {
				fatal("%q is new and has number %d, want %d", text, got, i)
			}
		}
		if table.hashed == nil {
			filed++
		} else {
			hashed++
		}
		for i, text := range texts {
			plain[text] = int32(i)
		}
		for _, text := range append(others, texts...) {
			want, ok := plain[text]
			if !ok {
				want = -1
			}
			if got := table.find(text); got != want {
				fatal("%q: %d, want %d", text, got, want)
			}
			if want >= 0 && table.number(text) != want {
				fatal("%q is numbered again", text)
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOfN(rapid.SampledFrom([]rune("ab-")), 0, 6, -1)
		texts := rapid.SliceOfNDistinct(text, 0, 40, rapid.ID[string]).Draw(t, "texts")
		check(t.Fatalf, texts, rapid.SliceOf(text).Draw(t, "others"))
	})
	var many, alike []string
	for i := range 2000 {
		many = append(many, fmt.Sprint("value-", i))
		alike = append(alike, fmt.Sprintf("a%04dbbbbbbbb", i))
	}
	check(t.Fatalf, many, []string{"", "value-", "value-2000"})
	check(t.Fatalf, alike[:8], alike[8:])
	if filed == 0 || hashed < 2 {
		t.Errorf("filed %d, hashed %d", filed, hashed)
	}
}
