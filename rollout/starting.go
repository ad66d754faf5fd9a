package rollout

import "slices"

// precondition is what one rule asks of deployments: that one of the providers has started, or that all
// others have.
type precondition struct {
	rule      *compiledRule
	of        []int32 // the deployments that have it, ascending; none of them is the only provider
	providers []int32 // may contain some of them
	left      int     // how many of the providers have not started
	met       bool    // for all that have it
	alone     int32   // the one for which it was met before, as the last of the providers; none: no such one
}

func (p *precondition) all() bool { return p.rule.dependency.Match == MatchAll }

// starting finds out which deployments can be the first to start, and which can once these have.
type starting struct {
	can    []bool            // per deployment: it can start
	needs  [][]*precondition // per deployment
	unmet  []int             // per deployment: how many of them are not met
	wanted [][]*precondition // per deployment: those of which it is a provider
}

func newStarting(n int) *starting {
	return &starting{make([]bool, n), make([][]*precondition, n), make([]int, n), make([][]*precondition, n)}
}

// require adds a precondition of deployments that cannot start yet, unless it is met already.
func (s *starting) require(p *precondition) {
	p.left, p.alone = 0, none
	for _, d := range p.providers {
		if !s.can[d] {
			p.left++
		}
	}
	if p.left == 0 || !p.all() && p.left < len(p.providers) {
		return
	}
	for _, d := range p.providers {
		if !s.can[d] {
			s.wanted[d] = append(s.wanted[d], p)
		}
	}
	for _, d := range p.of {
		s.needs[d] = append(s.needs[d], p)
		s.unmet[d]++
	}
	if p.left == 1 {
		s.meetAlone(p)
	}
}

// run marks those of some deployments that can start. It returns the others, in the same slice.
func (s *starting) run(among []int32) (left []int32) {
	var next []int32
	for _, d := range among {
		if s.unmet[d] == 0 {
			next = append(next, d)
		}
	}
	for len(next) > 0 {
		last := len(next) - 1
		d := next[last]
		next, s.can[d] = next[:last], true
		for _, p := range s.wanted[d] {
			p.left--
			switch {
			case p.met:
			case p.left == 0 || !p.all():
				p.met = true
				for _, d := range p.of {
					if d != p.alone && s.meet(d) {
						next = append(next, d)
					}
				}
			case p.left == 1:
				if s.meetAlone(p) {
					next = append(next, p.alone)
				}
			}
		}
	}
	return slices.DeleteFunc(among, func(d int32) bool { return s.can[d] })
}

// meet notes that a precondition of a deployment is met, and reports whether it was the last one.
func (s *starting) meet(d int32) bool {
	s.unmet[d]--
	return s.unmet[d] == 0
}

// meetAlone meets a precondition for the provider that is left, if it is one of those that have it: it
// needs only the others. It is then met for nobody else before that one has started.
func (s *starting) meetAlone(p *precondition) bool {
	d := p.providers[slices.IndexFunc(p.providers, func(d int32) bool { return !s.can[d] })]
	if _, has := slices.BinarySearch(p.of, d); !has {
		return false
	}
	p.alone = d
	return s.meet(d)
}
