package rollout

import "slices"

// fewDistinct is how many entries are compared one by one, without a table.
const fewDistinct = 16

// distinctVerdicts adds verdicts to a list, each once, as appendDistinct does, and looks for them
// in a table where they are many.
type distinctVerdicts struct {
	w        *work
	blockers []Verdict
	table    map[verdictKey][]int32 // where in the list; nil while it is short
}

// verdictKey is what tells most verdicts apart.
type verdictKey struct {
	reason             Reason
	rule, about, where string
}

func verdictKeyOf(v *Verdict) (g verdictKey) {
	g.reason, g.rule = v.Reason, v.Rule
	if v.Data != nil {
		g.about = v.Data.Detail
	}
	if len(v.On) > 0 {
		g.where = v.On[len(v.On)-1].Deployment
	}
	return g
}

func newDistinct(w *work, blockers []Verdict) distinctVerdicts {
	return distinctVerdicts{w: w, blockers: blockers}
}

func (d *distinctVerdicts) add(verdict Verdict) {
	if len(d.blockers) < fewDistinct {
		d.blockers = d.w.appendDistinct(d.blockers, verdict)
		return
	}
	if d.table == nil {
		d.table = make(map[verdictKey][]int32, len(d.blockers))
		for k := range d.blockers {
			g := verdictKeyOf(&d.blockers[k])
			d.table[g] = append(d.table[g], int32(k))
		}
	}
	g := verdictKeyOf(&verdict)
	for _, k := range d.table[g] {
		if d.blockers[k].Equal(verdict) {
			return
		}
	}
	d.table[g] = append(d.table[g], int32(len(d.blockers)))
	d.blockers = d.w.appendVerdict(d.blockers, verdict)
}

// idSet is a set of ids, which takes no table while they are few.
type idSet struct {
	few  []string
	many map[string]bool
}

// add reports whether the id was not there.
func (s *idSet) add(id string) bool {
	if s.many == nil {
		if slices.Contains(s.few, id) {
			return false
		}
		if s.few = append(s.few, id); len(s.few) == fewDistinct {
			s.many = make(map[string]bool, 2*fewDistinct)
			for _, one := range s.few {
				s.many[one] = true
			}
		}
		return true
	}
	before := len(s.many)
	s.many[id] = true
	return len(s.many) > before
}

// appendDistinct is appendVerdict, unless the blockers hold the verdict already: what several
// members of a bracket wait for is listed once for their resource.
func (w *work) appendDistinct(blockers []Verdict, verdict Verdict) []Verdict {
	for k := range blockers {
		if blockers[k].Equal(verdict) {
			return blockers
		}
	}
	return w.appendVerdict(blockers, verdict)
}
