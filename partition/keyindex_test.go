package partition

import (
	"testing"

	"github.com/tranche-dev/tranche/selector"
)

// TestLightest: a partition is filed where it has the fewest neighbours, so that few candidates are
// tried for a cluster.
func TestLightest(t *testing.T) {
	in := func(key string, values ...string) selector.Term {
		return selector.Term{Key: key, Keyed: true, Values: values}
	}
	exists := func(key string) selector.Term { return selector.Term{Key: key, Keyed: true} }
	for _, row := range []struct {
		why        string
		partitions [][]selector.Term
		want       string // key that the first one is filed under
	}{
		{"nothing to be filed under", [][]selector.Term{{}}, ""},
		{"no choice", [][]selector.Term{{exists("a")}, {exists("a")}}, "a"},
		{"a value that two others ask for, and one of its own", [][]selector.Term{{in("a", "1"), in("b", "1")}, {in("a", "1")}, {in("a", "1"), in("b", "2")}}, "b"},
		{"the same in the other order", [][]selector.Term{{in("a", "1"), in("b", "1")}, {in("b", "1")}, {in("a", "2"), in("b", "1")}}, "a"},
		{"of several values the most crowded one counts", [][]selector.Term{{in("a", "1", "2"), in("b", "1", "2")}, {in("a", "2")}, {in("a", "2")}, {in("b", "1")}, {in("b", "2")}}, "b"},
		{"any value is more than a crowded one", [][]selector.Term{{exists("a"), in("b", "1")}, {in("b", "1")}, {in("b", "1")}, {in("b", "1")}}, "b"},
		{"any value of the key that fewer ask for", [][]selector.Term{{exists("a"), exists("b")}, {in("a", "1")}, {in("a", "2")}, {in("b", "1")}}, "b"},
		{"of two values of its own that of the key that is looked up in any case", [][]selector.Term{{in("a", "1"), in("b", "1")}, {in("b", "2")}, {in("b", "3")}}, "b"},
		{"the same in the other order", [][]selector.Term{{in("a", "1"), in("b", "1")}, {in("a", "2")}}, "a"},
		{"the first of equals", [][]selector.Term{{in("a", "1"), in("b", "1")}, {in("a", "2"), in("b", "2")}}, "a"},
		{"values that contradict one another", [][]selector.Term{{in("a", "1"), {Key: "b", Keyed: true, Values: []string{}}}, {in("b", "2")}, {in("b", "3")}}, "b"},
	} {
		got := ""
		if term := loadOf(row.partitions).lightest(row.partitions[0]); term != nil {
			got = term.Key
		}
		if got != row.want {
			t.Errorf("%s: filed under %q, want %q", row.why, got, row.want)
		}
	}
}
