package textlist_test

import (
	"slices"
	"strconv"
	"testing"

	"github.com/tranche-dev/tranche/internal/textlist"
)

type number int

func (n number) String() string { return strconv.Itoa(int(n)) }

// TestLines: up to ten entries have a line each; of more, ten have, and the rest is counted.
func TestLines(t *testing.T) {
	ten := []number{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}
	shown := []string{"n 0", "n 1", "n 2", "n 3", "n 4", "n 5", "n 6", "n 7", "n 8", "n 9"}
	for _, row := range []struct {
		entries []number
		want    []string
	}{
		{nil, nil},
		{ten[:1], shown[:1]},
		{ten, shown},
		{append(slices.Clone(ten), 10), append(slices.Clone(shown), "n and 1 more")},
		{append(slices.Clone(ten), ten...), append(slices.Clone(shown), "n and 10 more")},
	} {
		if got := textlist.Lines([]string{"first"}, "n ", row.entries); !slices.Equal(got, append([]string{"first"}, row.want...)) {
			t.Errorf("%v: got %q", row.entries, got)
		}
	}
}
