package staged

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tranche-dev/tranche/internal/textlist"
)

// keyed is a member with the number that orders it.
type keyed struct {
	key  int64
	last bool // it has no number, and comes after the members that have one
	name string
}

// assign returns the names of the members of each stage but the cleanup, in order, and for each of
// them the value that is its group, if the stage has groups.
func (p *plan) assign(list *faults, targets []Target) (names, groups [][]string) {
	stages := len(p.stages) - 1
	members := make([][]keyed, stages)
	disordered := make([][]*Target, len(p.strategy.Stages)) // members that their sorting label cannot order
	values := make([]map[string]string, stages)             // by name, of the label that groups
	ungrouped := make([][]*Target, len(p.strategy.Stages))  // members whose value of it cannot be stored
	m := p.matcher
	if m == nil {
		m = newMatcher(p)
	}
	var buffer []int32
	var overlapping, unmatched []string
	key := func(stage int, t *Target) keyed {
		k := keyed{name: t.Name}
		if stage == len(p.strategy.Stages) {
			return k
		}
		if label := p.strategy.Stages[stage].SortingLabelKey; label != "" {
			ok := false
			if k.key, k.last, ok = p.sortKey(label, t); !ok {
				disordered[stage] = append(disordered[stage], t)
			}
		}
		if label := p.strategy.Stages[stage].GroupBy; label != "" {
			if values[stage] == nil {
				values[stage] = map[string]string{}
			}
			if values[stage][t.Name] = t.Labels[label]; !utf8.ValidString(t.Labels[label]) {
				ungrouped[stage] = append(ungrouped[stage], t)
			}
		}
		return k
	}
	for i := range targets {
		t := &targets[i]
		first, more := m.match(t, &buffer)
		switch {
		case first >= 0:
		case p.options.Unmatched == Last:
			first = stages - 1
		case p.options.Unmatched != Ignore:
			unmatched = append(unmatched, t.Name)
			continue
		default:
			continue
		}
		if more && p.options.Overlap != First {
			overlapping = append(overlapping, t.Name)
			for _, stage := range buffer { // report a bad label of any of them
				key(int(stage), t)
			}
			continue
		}
		k := key(first, t)
		members[first] = append(members[first], k)
	}
	for k := range disordered {
		p.sortFaults(list, k, disordered[k])
		p.groupFaults(list, k, ungrouped[k])
	}
	several(list, CodeTargetOverlap, overlapping, "in more than one stage", `change the selectors, or choose overlap "first"`)
	several(list, CodeTargetUnmatched, unmatched, "in no stage", `change the selectors, or choose unmatched "ignore" or "last"`)
	names, groups = make([][]string, stages), make([][]string, stages)
	for k := range members {
		names[k] = inOrder(members[k])
		if values[k] != nil {
			groups[k] = make([]string, len(names[k]))
			for i, name := range names[k] {
				groups[k][i] = values[k][name]
			}
		}
	}
	return names, groups
}

// inOrder sorts the members of a stage, and returns their names.
func inOrder(members []keyed) []string {
	slices.SortFunc(members, func(a, b keyed) int {
		if a.last != b.last {
			if a.last {
				return 1
			}
			return -1
		}
		return cmp.Or(cmp.Compare(a.key, b.key), strings.Compare(a.name, b.name))
	})
	names := make([]string, len(members))
	for i := range members {
		names[i] = members[i].name
	}
	return names
}

// sortKey returns the number that orders a member, or last if the label is missing. ok is false if
// the member cannot be ordered: the label is no number, or it is missing and the options reject
// that.
func (p *plan) sortKey(label string, t *Target) (key int64, last, ok bool) {
	text, given := t.Labels[label]
	if !given {
		return 0, true, p.options.MissingSortKey == Last
	}
	key, err := strconv.ParseInt(text, 10, 64)
	return key, false, err == nil && digitsOf(text) == text
}

// sortFaults reports the members of a stage that cannot be ordered, sorted by name, because the
// order of the fleet must not matter.
func (p *plan) sortFaults(list *faults, stage int, targets []*Target) {
	label := p.strategy.Stages[stage].SortingLabelKey
	sortByLabel(targets, label)
	for _, t := range targets {
		path := fmt.Sprintf("targets[%q].labels[%q]", t.Name, label)
		if text, given := t.Labels[label]; given {
			list.add(CodeSortKey, path, strconv.Quote(text), fmt.Sprintf("must be a whole number from 0 to 9223372036854775807, in digits: %s sorts by it", inStage(stage, "sortingLabelKey")))
		} else {
			list.add(CodeSortKey, path, "", fmt.Sprintf(`must be there, because %s sorts by it, or choose missingSortKey "last"`, inStage(stage, "sortingLabelKey")))
		}
	}
}

func sortByLabel(targets []*Target, label string) {
	slices.SortStableFunc(targets, func(a, b *Target) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Labels[label], b.Labels[label]))
	})
}

// groupFaults reports the members of a stage whose group could not be stored, in the same way.
func (p *plan) groupFaults(list *faults, stage int, targets []*Target) {
	label := p.strategy.Stages[stage].GroupBy
	sortByLabel(targets, label)
	for _, t := range targets {
		list.add(CodeGroupBy, fmt.Sprintf("targets[%q].labels[%q]", t.Name, label), strconv.Quote(t.Labels[label]), hintGroup(stage))
	}
}

func hintGroup(stage int) string {
	return fmt.Sprintf("must be valid UTF-8: %s groups by it, and a stored run would find another group", inStage(stage, "groupBy"))
}

// several reports names as one fault: how many there are, and the first ten.
func several(list *faults, code Code, names []string, what, remedy string) {
	if len(names) == 0 {
		return
	}
	slices.Sort(names)
	first, more := textlist.Names(names[:min(len(names), 10)]), ""
	for i := range first {
		first[i] = cmp.Or(first[i], `""`) // or else the list begins with a comma
	}
	if n := len(names) - len(first); n > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	list.add(code, "targets", strconv.Itoa(len(names)), fmt.Sprintf("%s: %s%s: %s", what, strings.Join(first, ", "), more, remedy))
}
