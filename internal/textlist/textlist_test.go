package textlist_test

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/internal/textlist"
)

type number int

func (n number) String() string { return strconv.Itoa(int(n)) }

// TestLikewise: what is alike has one line, the most frequent first, and of the same number what came
// first; what it belongs to is named if there are several. Of more than ten groups ten are shown.
func TestLikewise(t *testing.T) {
	type entry struct {
		key   string
		n     number
		owner string
	}
	var eleven, owned []entry
	for i := range 11 {
		eleven = append(eleven, entry{strconv.Itoa(i), number(i), ""})
		owned = append(owned, entry{"a", number(i), "o" + strconv.Itoa(i)})
	}
	shown := []string{"n 0", "n 1", "n 2", "n 3", "n 4", "n 5", "n 6", "n 7", "n 8", "n 9"}
	for _, row := range []struct {
		why     string
		entries []entry
		want    []string
	}{
		{"nothing", nil, nil},
		{"one", []entry{{"a", 1, ""}}, []string{"n 1"}},
		{"of the same number the one that came first", []entry{{"b", 1, ""}, {"a", 2, ""}}, []string{"n 1", "n 2"}},
		{"the most frequent first", []entry{{"a", 1, ""}, {"b", 2, ""}, {"b", 3, ""}}, []string{"n 2; and 1 more likewise", "n 1"}},
		{"one owner is not named", []entry{{"a", 1, "o"}, {"a", 2, "o"}, {"a", 3, "o"}}, []string{"n 1; and 2 more likewise"}},
		{"several owners are, each once", []entry{{"a", 1, "o"}, {"a", 2, "p"}, {"a", 3, "o"}}, []string{"n 1; and 2 more likewise, of o, p"}},
		{"ten owners", owned[:10], []string{"n 0; and 9 more likewise, of o0, o1, o2, o3, o4, o5, o6, o7, o8, o9"}},
		{"and more", owned, []string{"n 0; and 10 more likewise, of o0, o1, o2, o3, o4, o5, o6, o7, o8, o9 and others"}},
		{"ten groups", eleven[:10], shown},
		{"and more", append(slices.Clone(eleven), entry{"11", 11, ""}), append(slices.Clone(shown), "n and 2 of 2")},
	} {
		var groups textlist.Likewise[string, number]
		for _, e := range row.entries {
			groups.Add(e.key, e.n, e.owner)
		}
		if got := groups.Lines([]string{"first"}, "n ", "and %d of %d"); !slices.Equal(got, append([]string{"first"}, row.want...)) {
			t.Errorf("%s: got %q", row.why, got)
		}
	}
}

func TestCounted(t *testing.T) {
	for n, want := range []string{"0 nodes", "1 node", "2 nodes"} {
		if got := textlist.Counted(n, "node"); got != want {
			t.Errorf("%d: got %q, want %q", n, got, want)
		}
	}
}

// TestLines: up to ten entries have a line each; of more, ten have, and the rest is counted.
func TestDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 2 * time.Minute: "2m", 2160 * time.Hour: "2160h", 90 * time.Minute: "1h30m", 90 * time.Second: "1m30s", time.Hour + time.Second: "1h0m1s",
		20 * time.Second: "20s", -time.Hour: "-1h", 10 * time.Millisecond: "10ms",
	} {
		if got := textlist.Duration(d); got != want {
			t.Errorf("%v is %s, want %s", d, got, want)
		}
	}
}

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

// TestFew: of twelve entries ten are named and two counted; of eleven all are named, since the count
// would take the place of one.
func TestFew(t *testing.T) {
	list := []string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11"}
	if got := textlist.Few(list[:11]); !slices.Equal(got, list[:11]) {
		t.Errorf("11 entries: %q", got)
	}
	if got, want := textlist.Few(list), append(slices.Clone(list[:10]), "2 others"); !slices.Equal(got, want) {
		t.Errorf("12 entries: %q, want %q", got, want)
	}
	if list[10] != "10" {
		t.Error("Few writes into the list that it is given")
	}
}

// TestEnds: of a long chain both ends are named, unless the count would take the place of one entry.
func TestEnds(t *testing.T) {
	var list []string
	for i := range 22 {
		list = append(list, strconv.Itoa(i))
	}
	if got := textlist.Ends(list[:21]); !slices.Equal(got, list[:21]) {
		t.Errorf("21 entries: %q", got)
	}
	if got, want := textlist.Ends(list), slices.Concat(list[:10], []string{"(2 more)"}, list[12:]); !slices.Equal(got, want) {
		t.Errorf("22 entries: %q, want %q", got, want)
	}
	if list[10] != "10" {
		t.Error("Ends writes into the list that it is given")
	}
}
