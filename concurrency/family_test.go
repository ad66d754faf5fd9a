package concurrency

import (
	"slices"
	"testing"
)

// familyHost is a host that starts one member of one zone, in steps that another host's steps may
// come between. list, before, condition and empty are what the docs of Confirmed ask for.
type familyHost struct {
	zone                     int
	list, before, condition  bool
	at                       int
	family                   Record
	pools                    [2]Record
	changed                  []Record
	admitted, done, conflict bool
}

// familyStore has the records of two zones, and that of their family.
type familyStore struct {
	family Record
	pools  [2]Record
}

// write is the store's compare and swap.
func write(stored *Record, r Record) bool {
	if stored.Revision != r.Revision {
		return false
	}
	r.Revision++
	*stored = r
	return true
}

// step does the host's next step: it reads three records, plans, claims, confirms and dispatches.
// After a conflict it does nothing until it begins again.
func (h familyHost) step(t *testing.T, s *familyStore) familyHost {
	order := []string{"family", "a", "b", "plan", "claim", "confirm", "dispatch"}
	if !h.before {
		order = []string{"a", "b", "family", "plan", "claim", "confirm", "dispatch"}
	}
	what := order[h.at]
	h.at++
	candidates := []Candidate{{Resource: string(rune('m' + h.zone)), Group: "g", Needs: []int32{int32(h.zone)}, Begins: true}}
	switch what {
	case "family":
		h.family = s.family
	case "a":
		h.pools[0] = s.pools[0]
	case "b":
		h.pools[1] = s.pools[1]
	case "plan":
		var snapshot Snapshot
		for _, r := range h.pools {
			p := Pool{Key: r.Key, Limit: Count(1), Total: 1, Family: h.family.Key, MaxActiveKeys: 1, Record: r}
			for _, l := range r.Leases {
				if h.list && !h.family.Confirms(l) {
					p.Keyless = append(p.Keyless, l.Holder)
				}
			}
			snapshot.Pools = append(snapshot.Pools, p)
		}
		plan, err := Plan(snapshot, candidates, epoch)
		if err != nil {
			t.Fatal(err)
		}
		if h.admitted = len(plan.Admitted) > 0; !h.admitted {
			return h
		}
		if h.changed, err = Apply(snapshot, candidates, plan.Admitted, epoch); err != nil {
			t.Fatal(err)
		}
		list := []Confirmation{{h.pools[h.zone].Key, plan.Admitted[0].Claims[0].Token}}
		for _, r := range h.pools {
			for _, l := range r.Leases {
				if h.family.Confirms(l) {
					list = append(list, Confirmation{l.Pool, l.Token})
				}
			}
		}
		slices.SortFunc(list, Confirmation.Compare)
		h.family.Confirmed = slices.Compact(list)
	case "claim":
		if len(h.changed) > 0 {
			h.conflict = !write(&s.pools[h.zone], h.changed[0])
		}
	case "confirm":
		if h.list {
			if !h.condition {
				h.family.Revision = s.family.Revision
			}
			h.conflict = !write(&s.family, h.family)
		}
	case "dispatch":
		h.done = true
	}
	return h
}

func (h familyHost) stopped() bool { return h.conflict || h.done || h.at > 3 && !h.admitted }

// begin lets the host begin anew, as after a crash.
func (h familyHost) begin() familyHost {
	h.at, h.changed, h.conflict, h.admitted = 0, nil, false, false
	return h
}

// interleave tries every order of the steps of two hosts, each of which may stop after any of them
// and begins anew once the other one has stopped too. It returns how many members of how many zones
// are at work in the end, at least and at most.
func interleave(t *testing.T, s familyStore, a, b familyHost) (least, most int) {
	end := func(s familyStore, hosts [2]familyHost) int {
		for range 2 {
			for i := range hosts {
				if hosts[i].done {
					continue
				}
				for hosts[i] = hosts[i].begin(); !hosts[i].stopped(); {
					hosts[i] = hosts[i].step(t, &s)
				}
			}
		}
		n := 0
		for _, h := range hosts {
			if h.done {
				n++
			}
		}
		return n
	}
	least = 2
	var visit func(s familyStore, hosts [2]familyHost)
	visit = func(s familyStore, hosts [2]familyHost) {
		n := end(s, hosts) // both stop here
		least, most = min(least, n), max(most, n)
		for i := range hosts {
			if hosts[i].stopped() {
				continue
			}
			s, hosts := s, hosts
			hosts[i] = hosts[i].step(t, &s)
			visit(s, hosts)
		}
	}
	visit(s, [2]familyHost{a, b})
	return least, most
}

// TestMaxActiveKeysOfSeveralHosts: two hosts that claim in different pools of a family change
// different records. Only the record of the family lets one of them notice the other, and only if
// the host does all that the doc of Confirmed says.
func TestMaxActiveKeysOfSeveralHosts(t *testing.T) {
	for _, row := range []struct {
		why                            string
		list, before, condition, empty bool
		most                           int
	}{
		{"as the doc says", true, true, true, true, 1},
		{"without the list no record conflicts", false, true, true, true, 2},
		{"a list that is read after the pools confirms leases that were not seen there", true, false, true, true, 2},
		{"a list that is written whatever others have added tells nobody of the other", true, true, false, true, 2},
		{"as long as there is no list, a claim that was never used is taken for one that was", true, true, true, false, 2},
	} {
		s := familyStore{NewRecord("zone"), [2]Record{NewRecord("zone/a"), NewRecord("zone/b")}}
		if row.empty {
			s.family.Confirmed = []Confirmation{}
		}
		host := familyHost{list: row.list, before: row.before, condition: row.condition}
		other := host
		other.zone = 1
		if least, most := interleave(t, s, host, other); least < 1 || most != row.most {
			t.Errorf("%s: members of %d to %d zones are at work, want 1 to %d", row.why, least, most, row.most)
		}
	}
}
