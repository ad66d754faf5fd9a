package textorder_test

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/internal/textorder"
)

type item struct {
	text string
	rank int
}

func textOf(x *item) string { return x.text }
func byRank(a, b *item) int { return cmp.Compare(a.rank, b.rank) }
func texts(all ...string) (list []item) {
	for k, text := range all {
		list = append(list, item{text, -k})
	}
	return list
}

func TestOf(t *testing.T) {
	for _, row := range []struct {
		why  string
		list []item
		next func(a, b *item) int
		want []int
	}{
		{"nothing", nil, nil, []int{}},
		{"one", texts("a"), nil, []int{0}},
		{"a text before those that continue it", texts("node-1", "node", "node-10"), nil, []int{1, 0, 2}},
		{"what is missing counts less than a zero byte", texts("a\x00", "a", "a\x00\x00"), nil, []int{1, 0, 2}},
		{"the ninth byte behind the common ones", texts("n-12345678b", "n-12345678a"), nil, []int{1, 0}},
		{"bytes above 127 are large", texts("é", "e", "z"), nil, []int{1, 2, 0}},
		{"the empty text is the first", texts("b", "", "a"), nil, []int{1, 2, 0}},
		{"the same texts stay in order", texts("b", "a", "b", "a"), nil, []int{1, 3, 0, 2}},
		{"or follow what comes next", texts("b", "a", "b", "a"), byRank, []int{3, 1, 2, 0}},
		{"which may say nothing", texts("b", "b"), func(_, _ *item) int { return 0 }, []int{0, 1}},
	} {
		if got := textorder.Of(row.list, textOf, row.next); !slices.Equal(got, row.want) {
			t.Errorf("%s: %v, want %v", row.why, got, row.want)
		}
	}
}

// TestOfIsAStableSort: by the texts themselves.
func TestOfIsAStableSort(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.Custom(func(t *rapid.T) string {
			return rapid.SampledFrom([]string{"", "node-", "node-000000000", "zone"}).Draw(t, "begins") + rapid.StringOfN(rapid.RuneFrom([]rune("a0\x00é")), 0, 10, -1).Draw(t, "ends")
		})
		list := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) item { return item{text.Draw(t, "text"), rapid.IntRange(0, 2).Draw(t, "rank")} }), 0, 40).Draw(t, "list")
		var next func(a, b *item) int
		if rapid.Bool().Draw(t, "next") {
			next = byRank
		}
		want := make([]int, len(list))
		for k := range want {
			want[k] = k
		}
		slices.SortStableFunc(want, func(a, b int) int {
			c := strings.Compare(list[a].text, list[b].text)
			if next != nil {
				c = cmp.Or(c, next(&list[a], &list[b]))
			}
			return c
		})
		if got := textorder.Of(list, textOf, next); !slices.Equal(got, want) {
			t.Fatalf("%q: %v, want %v", list, got, want)
		}
	})
}
