package selector_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/internal/testkit"
	"github.com/tranche-dev/tranche/selector"
)

// indexModel is an index beside the dumb version of one: the elements themselves.
type indexModel struct {
	index    *selector.Index
	elements map[int]map[string]string
	seen     testkit.Tally
}

func (m *indexModel) Put(t *rapid.T) {
	i := rapid.IntRange(0, 1500).Draw(t, "element")
	labels := gen{t}.labels(false)
	if err := m.index.Put(i, selector.LabelMap(labels)); err != nil {
		t.Fatal(err)
	}
	if _, there := m.elements[i]; there {
		m.seen["replaced"]++
	}
	m.elements[i] = labels
}

// Fill puts many neighbours, so that postings consist of several blocks.
func (m *indexModel) Fill(t *rapid.T) {
	from, n := rapid.IntRange(0, 200).Draw(t, "from"), rapid.IntRange(1, 1300).Draw(t, "n")
	step := rapid.SampledFrom([]int{1, 2, -1}).Draw(t, "step")
	labels := gen{t}.labels(false)
	for k := range n {
		i := from + k*step
		if step < 0 {
			i = from + n - 1 - k
		}
		if err := m.index.Put(i, selector.LabelMap(labels)); err != nil {
			t.Fatal(err)
		}
		m.elements[i] = labels
	}
	m.seen["filled"]++
}

func (m *indexModel) Remove(t *rapid.T) {
	i := rapid.IntRange(-1, 1500).Draw(t, "element")
	m.index.Remove(i)
	delete(m.elements, i)
}

func (m *indexModel) RemoveMany(t *rapid.T) {
	keep := rapid.IntRange(0, 40).Draw(t, "keep")
	for _, i := range sortedKeys(m.elements) {
		if keep == 0 || i%keep != 0 {
			m.index.Remove(i)
			delete(m.elements, i)
			m.seen["removed"]++
		}
	}
}

func sortedKeys(m map[int]map[string]string) []int {
	var list []int
	for i := range m {
		list = append(list, i)
	}
	slices.Sort(list)
	return list
}

func (m *indexModel) Check(t *rapid.T) {
	if m.index.Len() != len(m.elements) {
		t.Fatalf("%d elements, want %d", m.index.Len(), len(m.elements))
	}
	if all := slices.Collect(m.index.Candidates(nil)); !slices.Equal(all, sortedKeys(m.elements)) {
		t.Fatalf("no terms: %v, want %v", all, sortedKeys(m.elements))
	}
	for _, terms := range [][]selector.Term{
		{{Variable: "labels", Keyed: true, Key: "a", Values: []string{"a"}}},
		{{Variable: "labels", Keyed: true, Key: "a", Values: []string{"", "a", "b"}}},
		{{Variable: "labels", Keyed: true, Key: "b"}},
		{{Variable: "labels", Keyed: true, Key: "a", Values: []string{"a", "b"}}, {Variable: "labels", Keyed: true, Key: "b", Values: []string{"ab"}}},
		{{Variable: "labels", Keyed: true, Key: "nobody has it", Values: []string{"a"}}},
		{{Variable: "labels", Keyed: true, Key: "a", Values: []string{}}},
	} {
		var fewest []int
		for k, term := range terms {
			var fulfil []int
			for _, i := range sortedKeys(m.elements) {
				if holds(term, hostVars{"labels": m.elements[i]}) {
					fulfil = append(fulfil, i)
				}
			}
			if k == 0 || len(fulfil) < len(fewest) {
				fewest = fulfil
			}
		}
		if got := slices.Collect(m.index.Candidates(terms)); !slices.Equal(got, fewest) {
			t.Fatalf("%v: %v, want %v", terms, got, fewest)
		}
	}
}

func propIndex(seen testkit.Tally) func(*rapid.T) {
	return func(t *rapid.T) {
		m := &indexModel{index: selector.NewIndex(selector.LabelsVariable), elements: map[int]map[string]string{}, seen: seen}
		t.Repeat(rapid.StateMachineActions(m))
	}
}

func TestIndexAgainstElements(t *testing.T) {
	seen := testkit.Tally{}
	seen.Check(t, propIndex(seen), "replaced", "filled", "removed")
}

func FuzzIndexAgainstElements(f *testing.F) {
	f.Add(testkit.Bytes(1 << 18))
	f.Fuzz(rapid.MakeFuzz(propIndex(testkit.Tally{})))
}

func TestIndexOfSeveralVariables(t *testing.T) {
	index := selector.NewIndex("resource.metadata", "resource.kind", "resource.kind")
	for i := range 6 {
		vars := hostVars{"resource.kind": fmt.Sprint("kind-", i%2), "resource.name": fmt.Sprint("name-", i), "resource.metadata": map[string]string{"n": fmt.Sprint(i % 3)}}
		if i == 5 {
			delete(vars, "resource.metadata")
		}
		if err := index.Put(i, vars); err != nil {
			t.Fatal(err)
		}
	}
	if got := index.String(); got != "index of resource.kind, resource.metadata: 6 elements, 2 keys, 5 values" {
		t.Error(got)
	}
	env := newEnv(t, selector.Limits{})
	for _, row := range []struct {
		expr string
		want []int
		why  string
	}{
		{"true", []int{0, 1, 2, 3, 4, 5}, "nothing is certain"},
		{"resource.kind == 'kind-1'", []int{1, 3, 5}, "a variable"},
		{"resource.metadata.n == '1'", []int{1, 4}, "a key"},
		{"resource.metadata.n == '1' && resource.kind == 'kind-1'", []int{1, 4}, "the shorter list"},
		{"resource.metadata.n == '1' && resource.kind == 'kind-7'", nil, "a value that nobody has"},
		{"resource.metadata.n in ['2', '0', '7']", []int{0, 2, 3}, "several values, in the order of elements"},
		{"has(resource.metadata.n)", []int{0, 1, 2, 3, 4}, "a key exists"},
		{"resource.name == 'name-1'", []int{0, 1, 2, 3, 4, 5}, "a variable that is not indexed"},
		{"resource.name == 'name-1' && resource.kind == 'kind-0'", []int{0, 2, 4}, "one that is and one that is not"},
		{"deployment.metadata.n == '1'", []int{0, 1, 2, 3, 4, 5}, "the same key of another variable"},
		{"resource.metadata.kind == 'kind-1'", nil, "a key is not a variable"},
	} {
		s, err := env.Compile(row.expr)
		if err != nil {
			t.Fatal(err)
		}
		if got := slices.Collect(index.Candidates(s.Terms())); !slices.Equal(got, row.want) {
			t.Errorf("%s: %v, want %v: %s", row.expr, got, row.want, row.why)
		}
	}
	// Values are sorted; one that is given twice counts once.
	twice := []selector.Term{{Variable: "resource.kind", Values: []string{"kind-0", "kind-0", "kind-1", "kind-1"}}}
	if got := slices.Collect(index.Candidates(twice)); !slices.Equal(got, []int{0, 1, 2, 3, 4, 5}) {
		t.Error(got)
	}
	// A loop may end early.
	for _, expr := range []string{"true", "resource.metadata.n in ['0', '1']"} {
		s, _ := env.Compile(expr)
		for i := range index.Candidates(s.Terms()) {
			if i != 0 {
				t.Error(expr, i)
			}
			break
		}
	}
}

// TestCandidatesOfOwnTerms: a host may write terms itself, and need not write them as Terms does.
func TestCandidatesOfOwnTerms(t *testing.T) {
	index := selector.NewIndex("resource.kind")
	for i, kind := range []string{"a", "b", "a"} {
		if err := index.Put(i, hostVars{"resource.kind": kind}); err != nil {
			t.Fatal(err)
		}
	}
	if found := slices.Collect(index.Candidates([]selector.Term{{Variable: "resource.kind", Values: []string{"a", "a"}}})); !slices.Equal(found, []int{0, 2}) {
		t.Errorf("a value given twice: %v", found)
	}
}

func TestIndexRefuses(t *testing.T) {
	index := selector.NewIndex("resource.metadata")
	if err := index.Put(2, hostVars{"resource.metadata": map[string]string{"a": "b"}}); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		i    int
		vars selector.Vars
		want string
	}{
		{-1, hostVars{}, "selector: element -1: the number must be from 0 to 1048579, which is 1048577 more than the largest so far"},
		{1<<20 + 4, hostVars{}, "selector: element 1048580: the number must be from 0 to 1048579, which is 1048577 more than the largest so far"},
		{2, hostVars{"resource.metadata": 7}, "selector: element 2: resource.metadata must be string or map[string]string, not int"},
		{2, hostVars{"resource.metadata": nil}, "selector: element 2: resource.metadata must be string or map[string]string, not nil"},
	} {
		if err := index.Put(row.i, row.vars); err == nil || err.Error() != row.want {
			t.Errorf("%v, want %s", err, row.want)
		}
	}
	term := []selector.Term{{Variable: "resource.metadata", Keyed: true, Key: "a", Values: []string{"b"}}}
	if got := slices.Collect(index.Candidates(term)); !slices.Equal(got, []int{2}) {
		t.Errorf("a refused Put changed the index: %v", got)
	}
	if err := index.Put(2, nil); err != nil || index.Len() != 1 {
		t.Error("no variables are no values:", err)
	}
	if got := slices.Collect(index.Candidates(term)); got != nil {
		t.Error(got)
	}
}

// TestIndexForgets: values that come and go leave nothing behind, nor do keys, such as those that
// name a volume or a request.
func TestIndexForgets(t *testing.T) {
	index := selector.NewIndex(selector.LabelsVariable)
	for i := range 1000 {
		if err := index.Put(i%3, selector.LabelMap{"id": fmt.Sprint(i), "kind": "x", "volume-" + fmt.Sprint(i): "attached"}); err != nil {
			t.Fatal(err)
		}
	}
	if got := index.String(); got != "index of labels: 3 elements, 5 keys, 7 values" {
		t.Error(got)
	}
	if n := index.Postings(); n != 7 {
		t.Errorf("%d postings for 7 values", n)
	}
	if n := index.Fields(); n != 5 {
		t.Errorf("%d keys are kept for 5", n)
	}
	for i, key := range []string{"volume-999", "volume-997", "volume-998"} { // element i has the last number that is i modulo 3
		for _, term := range []selector.Term{{Variable: selector.LabelsVariable, Keyed: true, Key: key}, {Variable: selector.LabelsVariable, Keyed: true, Key: key, Values: []string{"attached"}}} {
			if got := slices.Collect(index.Candidates([]selector.Term{term})); !slices.Equal(got, []int{i}) {
				t.Errorf("%v: %v, want %d", term, got, i)
			}
		}
	}
	gone := []selector.Term{{Variable: selector.LabelsVariable, Keyed: true, Key: "volume-996"}}
	if got := slices.Collect(index.Candidates(gone)); got != nil {
		t.Errorf("%v: %v", gone, got)
	}
	if err := index.Put(3+1<<20, selector.LabelMap{}); err != nil {
		t.Error("the largest gap there may be:", err)
	}
}

// TestIndexMatchDecides: what the index answers, and how many elements it has to look at for that.
// Element i of 400 has the labels mod2 … mod64 with i modulo that number, and every tenth has the
// label ten.
func TestIndexMatchDecides(t *testing.T) {
	const n = 400
	elements := make([]hostVars, n)
	index := selector.NewIndex("resource.metadata", "resource.name")
	for i := range elements {
		labels := map[string]string{}
		for _, m := range []int{2, 4, 16, 17, 20, 64, 116, 117} {
			labels[fmt.Sprint("mod", m)] = fmt.Sprintf("%c%d", 'a'+i%m%2, i%m)
		}
		if i%10 == 0 {
			labels["ten"] = "yes"
		}
		elements[i] = hostVars{"resource.metadata": labels, "resource.name": fmt.Sprint("r-", i), "weight": int64(i)}
		if err := index.Put(i, elements[i]); err != nil {
			t.Fatal(err)
		}
	}
	env := newEnv(t, selector.Limits{})
	for _, row := range []struct {
		expr          string
		found, looked int
		why           string
	}{
		{"true", 400, 400, "no condition that an index knows: everything is evaluated"},
		{"resource.metadata.mod4 == 'a0'", 100, 0, "one value"},
		{"resource.metadata.mod4 in ['a0', 'b1', 'nobody']", 200, 0, "several values"},
		{"resource.metadata.mod4 in ['nobody']", 0, 0, "a value that nobody has"},
		{"resource.metadata.nobody == 'a0'", 0, 0, "a key that nobody has"},
		{"resource.metadata.nobody.startsWith('a')", 0, 0, "a key that nobody has"},
		{"resource.name == 'r-7'", 1, 0, "a variable"},
		{"resource.metadata.mod4 == 'a0' && resource.metadata.ten == 'yes'", 20, 0, "two values: the fewer are looked up in the others"},
		{"resource.metadata.ten == 'yes' && resource.metadata.mod4 == 'a0'", 20, 0, "in either order"},
		{"'ten' in resource.metadata && resource.metadata.mod4 == 'a0'", 20, 0, "a key that exists"},
		{"has(resource.metadata.ten)", 40, 0, "a key that exists"},
		{"resource.metadata.mod4 != 'a0'", 300, 0, "unequal: the other values of the key"},
		{"resource.metadata.ten != 'yes'", 0, 0, "without the key it is no match"},
		{"!(resource.metadata.mod4 in ['a0', 'b1'])", 200, 0, "not listed: the other values of the key"},
		{"resource.metadata.mod4.startsWith('b') && resource.metadata.mod2.endsWith('1')", 200, 0, "prefix and suffix, by trying the values"},
		{"resource.metadata.mod4.matches('^[ab][01]$') && resource.metadata.mod2.contains('b')", 100, 0, "a regular expression, by trying the values"},
		{"!('ten' in resource.metadata) && resource.metadata.mod4 == 'a0'", 80, 100, "without a value for the map this would be an error: evaluated"},
		{"resource.metadata.mod4 == 'a0' && weight < 8", 2, 100, "not native: candidates are evaluated"},
		{"has(resource.metadata.ten) && weight < 25", 3, 40, "not native: candidates are evaluated"},
		{"weight < 8", 8, 400, "not native, and nothing to narrow it"},
		{"resource.metadata.mod4 == 'a0' || resource.metadata.mod4 == 'b1'", 200, 200, "an alternative: candidates are evaluated"},
		{"resource.metadata.mod4 == 'a0' && resource.kind == 'x'", 0, 100, "a variable that is not indexed: evaluated"},
		{"resource.kind == 'x' && resource.metadata.mod4 == 'a0'", 0, 100, "in either order"},
		{"resource.metadata.mod16.startsWith('a')", 200, 0, "8 of 16 values"},
		{"resource.metadata.mod16.contains('')", 400, 0, "16 of 16 values: as many as each candidate is looked up in"},
		{"resource.metadata.mod17.contains('')", 400, 400, "17 of 17 values: evaluated"},
		{"resource.metadata.mod17 in ['a0', 'a10', 'a12', 'a14', 'a16', 'a2', 'a4', 'a6', 'a8', 'b1', 'b11', 'b13', 'b15', 'b3', 'b5', 'b7', 'b9'] && resource.metadata.mod4 == 'a0'", 100, 100,
			"17 values listed: evaluated"},
		{"resource.metadata.mod16 in ['a0', 'a10', 'a12', 'a14', 'a2', 'a4', 'a6', 'a8', 'b1', 'b11', 'b13', 'b15', 'b3', 'b5', 'b7', 'b9'] && resource.metadata.mod4 == 'a0'", 100, 0,
			"16 values listed: looked up"},
		{"resource.metadata.mod116.startsWith('a1')", 44, 0, "116 values to try for 400 candidates"},
		{"resource.metadata.mod117.startsWith('a11')", 12, 400, "117 are too many"},
		{"resource.metadata.ten == 'yes' && resource.metadata.mod20.startsWith('a10')", 20, 0, "20 values to try for 40 candidates"},
		{"resource.metadata.ten == 'yes' && resource.metadata.mod64.startsWith('a10')", 2, 40, "64 are too many for 40"},
	} {
		s, err := env.Compile(row.expr)
		if err != nil {
			t.Fatal(err)
		}
		var want, got []int
		for i, vars := range elements {
			if ok, _ := s.Match(vars); ok {
				want = append(want, i)
			}
		}
		looked := 0
		found := index.Match(s, func(i int) selector.Vars { looked++; return elements[i] })
		for i, err := range found {
			// Only kind has no value here.
			if err == nil {
				got = append(got, i)
			}
		}
		if !slices.Equal(got, want) || len(got) != row.found || looked != row.looked {
			t.Errorf("%s: found %d, want %d and %d; looked at %d, want %d: %s", row.expr, len(got), len(want), row.found, looked, row.looked, row.why)
		}
		// What is returned can be walked again, and left early.
		again := 0
		for i, err := range found {
			if err == nil {
				if again++; i != want[again-1] {
					t.Errorf("%s: walked again: %d, want %d", row.expr, i, want[again-1])
				}
			}
			if again == 2 {
				break
			}
		}
		if again != min(2, row.found) {
			t.Errorf("%s: walked again: %d", row.expr, again)
		}
	}
}

// TestIndexMatchReportsErrors: a candidate without a result is yielded with its error; a missing
// key is no match.
func TestIndexMatchReportsErrors(t *testing.T) {
	elements := []hostVars{
		{"resource.kind": "a", "weight": int64(0)}, {"resource.kind": "a", "weight": int64(1)}, {"resource.kind": "a"}, {"resource.kind": "b"},
	}
	index := selector.NewIndex("resource.kind")
	for i, vars := range elements {
		if err := index.Put(i, vars); err != nil {
			t.Fatal(err)
		}
	}
	env := newEnv(t, selector.Limits{})
	at := func(i int) selector.Vars { return elements[i] }
	walk := func(expr string) string {
		out := ""
		for i, err := range index.Match(must(env.Compile(expr)), at) {
			out += fmt.Sprintf("%d%v ", i, err != nil)
		}
		return out
	}
	if got := walk("resource.kind == 'a' && 4 / weight == 4"); got != "0true 1false 2true " {
		t.Error(got)
	}
	if got := walk("resource.kind == 'a' && (weight == 1 || resource.metadata.a == 'x')"); got != "0true 1false 2true " {
		t.Error(got)
	}
	for i := range elements {
		elements[i]["resource.metadata"] = map[string]string{}
	}
	if got := walk("resource.kind == 'a' && (weight == 1 || resource.metadata.a == 'x')"); got != "1false 2true " {
		t.Error("a missing key is no match:", got)
	}
	// A value beyond the promised sizes is for the meter, not for the index.
	index = selector.NewIndex("resource.kind")
	elements = []hostVars{{"resource.kind": strings.Repeat("a", 257)}, {"resource.kind": strings.Repeat("a", 100_001)}, {"resource.kind": "ab"}}
	for i, vars := range elements {
		if err := index.Put(i, vars); err != nil {
			t.Fatal(err)
		}
	}
	if got := walk("resource.kind.startsWith('a')"); got != "0false 1true 2false " {
		t.Error(got)
	}
	if got := walk("resource.kind == '" + strings.Repeat("a", 257) + "'"); got != "0false " {
		t.Error(got)
	}
	// And what the meter refuses unread, an index does not find equal.
	env = newEnv(t, selector.Limits{EstimatedCost: 100, RunCost: 100})
	index = selector.NewIndex("resource.kind")
	elements = []hostVars{{"resource.kind": strings.Repeat("a", 900)}, {"resource.kind": strings.Repeat("a", 1001)}}
	for i, vars := range elements {
		if err := index.Put(i, vars); err != nil {
			t.Fatal(err)
		}
	}
	for n, want := range map[int]string{900: "0false ", 1001: "1true "} {
		if got := walk("resource.kind == '" + strings.Repeat("a", n) + "'"); got != want {
			t.Errorf("%d bytes: %s", n, got)
		}
	}
}

func TestIndexMatchLabels(t *testing.T) {
	const n = 60
	sets := make([]map[string]string, n)
	index := selector.NewIndex(selector.LabelsVariable)
	for i := range sets {
		sets[i] = map[string]string{"mod3": fmt.Sprint(i % 3), "mod30": fmt.Sprint(i % 30)}
		if i%5 == 0 {
			sets[i]["five"] = ""
		}
		if err := index.Put(i, selector.LabelMap(sets[i])); err != nil {
			t.Fatal(err)
		}
	}
	req := func(key string, op selector.LabelOperator, values ...string) selector.LabelRequirement {
		return selector.LabelRequirement{Key: key, Operator: op, Values: values}
	}
	for _, row := range []struct {
		l             selector.LabelSelector
		found, looked int
		why           string
	}{
		{selector.LabelSelector{}, 60, 0, "the empty selector matches everything"},
		{selector.LabelSelector{MatchLabels: map[string]string{"mod3": "1"}}, 20, 0, "a value"},
		{selector.LabelSelector{MatchLabels: map[string]string{"mod3": "1", "mod30": "4"}}, 2, 0, "two values"},
		{selector.LabelSelector{MatchExpressions: []selector.LabelRequirement{req("mod3", selector.NotIn, "1", "2")}}, 20, 0, "not listed"},
		{selector.LabelSelector{MatchExpressions: []selector.LabelRequirement{req("nobody", selector.NotIn, "1")}}, 60, 0, "absent is not listed"},
		{selector.LabelSelector{MatchExpressions: []selector.LabelRequirement{req("five", selector.DoesNotExist)}}, 48, 0, "absent"},
		{selector.LabelSelector{MatchExpressions: []selector.LabelRequirement{req("five", selector.Exists), req("mod3", selector.NotIn, "0")}}, 8, 0, "present and not listed"},
		{selector.LabelSelector{MatchExpressions: []selector.LabelRequirement{req("mod30", selector.DoesNotExist)}}, 0, 60, "30 values to look up are too many"},
	} {
		l := must(row.l.Compile())
		looked, found := 0, 0
		for i := range index.MatchLabels(l, func(i int) map[string]string { looked++; return sets[i] }) {
			if !matches(row.l, sets[i]) {
				t.Errorf("%v does not match %v", l, sets[i])
			}
			found++
		}
		if found != row.found || looked != row.looked {
			t.Errorf("%v: found %d, want %d; looked at %d, want %d: %s", l, found, row.found, looked, row.looked, row.why)
		}
		for range index.MatchLabels(l, func(i int) map[string]string { return sets[i] }) {
			break
		}
	}
}
