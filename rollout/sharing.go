package rollout

import (
	"reflect"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/concurrency"
)

// sharing lets decoded records share what they repeat of one another, as the records that a plan
// returns do. encoding/json gives each text, and each copy of a rule, memory of its own. With
// thousands of executions at work that is half of their size, and planning waits for all of it.
type sharing struct {
	texts map[string]string
	rules map[string]*bracket.Rule // by group
}

func newSharing() *sharing {
	return &sharing{map[string]string{}, map[string]*bracket.Rule{}}
}

// share replaces a text by the one that is the same.
func share[T ~string](s *sharing, text *T) {
	same, known := s.texts[string(*text)]
	if !known {
		same = string(*text)
		s.texts[same] = same
	}
	*text = T(same)
}

// group notes what executions repeat of their group, and changes nothing: the record may belong to
// other states, too.
func (s *sharing) group(r *bracket.GroupRecord) {
	for _, g := range r.Closed {
		id := g.ID
		share(s, &id)
		s.rules[id] = &g.Rule
		for _, m := range g.Members {
			share(s, &m.Deployment)
			for _, lock := range m.Locks {
				share(s, &lock.ID)
			}
		}
	}
}

// pool changes a record that nobody else has yet, to an equal one.
func (s *sharing) pool(r concurrency.Record) {
	for i := range r.Leases {
		l := &r.Leases[i]
		share(s, &l.Pool)
		share(s, &l.Group)
		share(s, &l.State)
	}
	for i := range r.Confirmed {
		share(s, &r.Confirmed[i].Pool)
	}
}

// execution changes a record that nobody else has yet, to an equal one.
func (s *sharing) execution(r *bracket.ExecutionRecord) {
	share(s, &r.Rule)
	for environment, last := range r.Last {
		share(s, &environment)
		share(s, &last.Group)
		share(s, &last.Status)
		r.Last[environment] = last // under the id that is shared
	}
	x := r.Open
	if x == nil {
		return
	}
	share(s, &x.Group)
	share(s, &x.Environment)
	share(s, &x.Status)
	if rule := s.rules[x.Group]; rule == nil {
		s.rules[x.Group] = x.Rule
	} else if reflect.DeepEqual(rule, x.Rule) {
		x.Rule = rule
	}
	for i := range x.Members {
		m := &x.Members[i]
		share(s, &m.Deployment)
		share(s, &m.Version)
		share(s, &m.From)
		share(s, &m.Role)
		share(s, &m.Action)
		share(s, &m.Status)
		for k := range m.Needs {
			share(s, &m.Needs[k])
		}
	}
}
