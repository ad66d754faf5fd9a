package rollout

import (
	"cmp"
	"slices"
)

// targetKind is what decides which versions a target may have, apart from expressions that read its
// resource.
type targetKind struct{ deployment, view, only int32 } // only: the resource if an override names it

func (w *work) kindOfTarget(i int32) targetKind {
	t := &w.targets[i]
	return targetKind{t.deployment, w.view[i], w.namedByOverride(t)}
}

// kinds are the kinds of targets that a bracket has.
type kinds struct {
	list []memberKind // by deployment
	left []int32      // deployments with former targets only, ascending

	targets map[targetKind][]int32 // former ones included; nil: not asked for yet
}

type memberKind struct {
	targetKind
	first  int32 // its first target
	oldest int32 // number of the oldest version that a target of it runs; less than all numbers if one runs none, or one that is not known
}

func (w *work) kindsOf(b *bracketWork) kinds {
	var all kinds
	known := map[targetKind]int32{}    // → index in all.list
	last := tableOf(w, b, int32(none)) // index of the kind seen last, by deployment; neighbours are mostly of one kind
	for _, i := range b.targets {
		if len(b.former) > 0 && b.former[i] { // a former target gets nothing new, so its gates do not matter
			continue
		}
		t, own := &w.targets[i], w.kindOfTarget(i)
		before := last.at(t.deployment)
		k := *before
		if k == none || all.list[k].targetKind != own {
			var met bool
			if k, met = known[own]; !met {
				k = int32(len(all.list))
				known[own], all.list = k, append(all.list, memberKind{own, i, t.current})
			}
			*before = k
		}
		all.list[k].oldest = min(all.list[k].oldest, t.current)
	}
	slices.SortFunc(all.list, func(a, b memberKind) int { return cmp.Compare(a.deployment, b.deployment) })
	if len(b.former) > 0 {
		for _, i := range b.targets {
			if d := w.targets[i].deployment; *last.at(d) == none && !slices.Contains(all.left, d) {
				all.left = append(all.left, d)
			}
		}
		slices.Sort(all.left)
	}
	return all
}

// targetsOf lists the targets of a kind. There may be as many kinds as targets.
func (w *work) targetsOf(b *bracketWork, kind targetKind) []int32 {
	if b.kinds.targets == nil {
		b.kinds.targets = map[targetKind][]int32{}
		for _, i := range b.targets {
			own := w.kindOfTarget(i)
			b.kinds.targets[own] = append(b.kinds.targets[own], i)
		}
	}
	return b.kinds.targets[kind]
}
