package concurrency

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// scene builds a snapshot from words: pools "key limit total", leases "pool resource group [age]".
type scene struct {
	Snapshot
	candidates []Candidate
}

func newScene(pools ...Pool) *scene {
	s := &scene{Snapshot: Snapshot{Pools: pools}}
	for i := range s.Pools {
		s.Pools[i].Record = NewRecord(s.Pools[i].Key)
	}
	return s
}

func (s *scene) pool(key string) *Pool {
	for i := range s.Pools {
		if s.Pools[i].Key == key {
			return &s.Pools[i]
		}
	}
	panic("no pool " + key)
}

// lease gives the resource a lease of the group, taken and last renewed age before the epoch.
func (s *scene) lease(pool, resource, group string, age time.Duration) *scene {
	p := s.pool(pool)
	r, err := p.Record.Claim(Claim{Revision: p.Record.Revision, Token: p.Record.NextToken}, Holder{resource, group}, epoch.Add(-age))
	if err != nil {
		panic(err)
	}
	p.Record = r
	return s
}

// quarantined puts the resources' leases of group g into quarantine.
func (s *scene) quarantined(pool string, resources ...string) *scene {
	p := s.pool(pool)
	for _, resource := range resources {
		h := Holder{resource, "g"}
		lease, _ := p.Record.Lease(h)
		r, err := p.Record.Quarantine(h, lease.Token, "stuck")
		if err != nil {
			panic(err)
		}
		p.Record = r
	}
	return s
}

func (s *scene) unavailable(pool string, resources ...string) *scene {
	s.pool(pool).Unavailable = append(s.pool(pool).Unavailable, resources...)
	return s
}

func (s *scene) running(resource, group string) *scene {
	s.Running = append(s.Running, Holder{resource, group})
	return s
}

func (s *scene) jobs(pool, resource string) *scene {
	s.pool(pool).Jobs = append(s.pool(pool).Jobs, Holder{resource, "g"})
	return s
}

func (s *scene) keyless(pool, resource string) *scene {
	s.pool(pool).Keyless = append(s.pool(pool).Keyless, Holder{resource, "g"})
	return s
}

// begins adds a candidate that only begins.
func (s *scene) begins(resource, group string, pools ...string) *scene {
	s.ask(resource, group, pools...)
	s.candidates[len(s.candidates)-1].Begins = true
	return s
}

// ask adds a candidate, ranked after those before.
func (s *scene) ask(resource, group string, pools ...string) *scene {
	c := Candidate{Resource: resource, Group: group, Rank: len(s.candidates)}
	for _, key := range pools {
		c.Needs = append(c.Needs, int32(slices.IndexFunc(s.Pools, func(p Pool) bool { return p.Key == key })))
	}
	s.candidates = append(s.candidates, c)
	return s
}

func (s *scene) plan(t testing.TB) Result {
	t.Helper()
	r, err := Plan(s.Snapshot, s.candidates, epoch)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// verdict says what became of every candidate: "n1 slot_free", "n2 zone-a:slot_full", in order of
// admission, then of rank.
func (s *scene) verdict(r Result) []string {
	var lines []string
	for _, a := range r.Admitted {
		lines = append(lines, s.candidates[a.Candidate].Resource+" "+string(a.Reason))
	}
	for _, a := range r.Refused {
		line := s.candidates[a.Candidate].Resource
		for _, refusal := range r.Refusals[a.Why] {
			line += " " + s.Pools[refusal.Pool].Key + ":" + string(refusal.Reason)
		}
		lines = append(lines, line)
	}
	return lines
}

func ten(limit Limit) Pool { return Pool{Key: "nodes", Limit: limit, Total: 10} }

// halted has a strict pool of one and a zone that halts above a number of unavailable members, which
// is also what the pool of all does; with keys they are one family.
func halted(above Limit, keys int) *scene {
	s := newScene(ten(Count(1)), Pool{Key: "zone", Limit: Count(1), Total: 5})
	for i := range s.Pools {
		s.Pools[i].HaltAboveUnavailable = above
		if keys > 0 {
			s.Pools[i].Family, s.Pools[i].MaxActiveKeys = "f", keys
		}
	}
	s.Pools[0].Strict = keys == 0
	return s
}

// exclusive has a pool of two nodes, each for one group at a time, and another one of three.
func exclusive() *scene {
	nodes := ten(Count(2))
	nodes.Exclusive = true
	return newScene(nodes, Pool{Key: "zone", Limit: Count(3), Total: 5})
}

// strictlyExclusive is the same, strict and with a zone that is full.
func strictlyExclusive() *scene {
	s := exclusive().lease("zone", "n9", "x", 0)
	s.Pools[0].Strict, s.Pools[1].Limit = true, Count(1)
	return s
}

func stuck(allowance int, onStuck OnStuck) Pool {
	return Pool{Key: "nodes", Limit: Count(2), Total: 10, StuckAfter: time.Hour, OnStuck: onStuck, QuarantineAllowance: Count(allowance)}
}

func overlap(strict bool) *scene {
	return newScene(Pool{Key: "cluster", Limit: Count(2), Total: 6, Strict: strict}, Pool{Key: "zone-a", Limit: Count(1), Total: 3, Strict: strict}).
		lease("cluster", "n1", "g", 0).lease("zone-a", "n1", "g", 0).
		ask("n2", "g", "cluster", "zone-a").ask("n5", "g", "cluster")
}

func zones(keys int) *scene {
	zone := func(key string) Pool {
		return Pool{Key: key, Limit: Count(1), Total: 3, Family: "zones", MaxActiveKeys: keys}
	}
	return newScene(zone("a"), zone("b"), zone("c"))
}

// strictZones are three zones of two places each, of which two may be active, and a rack without
// place.
func strictZones() *scene {
	zone := func(key string) Pool {
		return Pool{Key: key, Limit: Count(2), Total: 3, Family: "zones", MaxActiveKeys: 2, Strict: true}
	}
	return newScene(zone("a"), zone("b"), zone("c"), Pool{Key: "rack", Limit: Count(1), Total: 2}).lease("rack", "r", "x", 0)
}

func TestPlanRows(t *testing.T) {
	rows := []struct {
		name  string
		scene *scene
		want  []string
		why   string
	}{
		{"batch", func() *scene {
			s := newScene(ten(Percent(20)))
			for i := range 10 {
				s.ask(fmt.Sprint("n", i), "g", "nodes")
			}
			return s
		}(), []string{"n0 slot_free", "n1 slot_free", "n2 nodes:slot_full", "n3 nodes:slot_full", "n4 nodes:slot_full", "n5 nodes:slot_full",
			"n6 nodes:slot_full", "n7 nodes:slot_full", "n8 nodes:slot_full", "n9 nodes:slot_full"},
			"ten separate checks would all pass; a batch counts what it admits"},
		{"between jobs", newScene(ten(Percent(10))).lease("nodes", "n1", "g", time.Hour).ask("n2", "g", "nodes").ask("n1", "g", "nodes"),
			[]string{"n1 slot_held", "n2 nodes:slot_full"}, "a slot belongs to the group, not to the job: it stays while none runs, and its holder is not blocked by itself"},
		{"overlap", overlap(false), []string{"n5 slot_free", "n2 zone-a:slot_full"}, "who waits elsewhere takes nothing from the others"},
		{"overlap, strict", overlap(true), []string{"n2 zone-a:slot_full", "n5 cluster:slot_reserved"}, "strict keeps the order: n2 has reserved the cluster's last place"},
		{"unavailable", newScene(ten(Percent(20))).lease("nodes", "n1", "g", 0).unavailable("nodes", "n7").ask("n3", "g", "nodes").ask("n7", "g", "nodes"),
			[]string{"n7 slot_already_down", "n3 nodes:slot_full"}, "what is down already counts, and can be repaired for nothing"},
		{"stuck, hold", newScene(stuck(0, Hold)).lease("nodes", "n1", "g", 2*time.Hour).lease("nodes", "n2", "g", 0).running("n1", "g").ask("n3", "g", "nodes"),
			[]string{"n3 nodes:slot_full"}, "a stuck lease still counts"},
		{"stuck, quarantine", newScene(stuck(0, Quarantine)).lease("nodes", "n1", "g", 2*time.Hour).lease("nodes", "n2", "g", 0).running("n1", "g").ask("n3", "g", "nodes"),
			[]string{"n3 nodes:slot_full"}, "a quarantined lease still counts without an allowance"},
		{"stuck, allowance", newScene(stuck(1, Quarantine)).lease("nodes", "n1", "g", 2*time.Hour).lease("nodes", "n2", "g", 0).running("n1", "g").ask("n3", "g", "nodes"),
			[]string{"n3 slot_free"}, "an explicit allowance lets the rollout pass one quarantined lease"},
		{"stuck, allowance in percent", func() *scene {
			s := newScene(stuck(0, Quarantine)).lease("nodes", "n1", "g", 2*time.Hour).lease("nodes", "n2", "g", 0).running("n1", "g").ask("n3", "g", "nodes")
			s.Pools[0].QuarantineAllowance = Percent(9)
			return s
		}(), []string{"n3 nodes:slot_full"}, "9 % of ten members is no lease: allowances round down"},
		{"stuck, allowance of one in percent", func() *scene {
			s := newScene(stuck(0, Quarantine)).lease("nodes", "n1", "g", 2*time.Hour).lease("nodes", "n2", "g", 0).running("n1", "g").ask("n3", "g", "nodes")
			s.Pools[0].QuarantineAllowance = Percent(10)
			return s
		}(), []string{"n3 slot_free"}, "10 % of ten members is one"},
		{"stuck, allowance, unavailable", newScene(stuck(1, Quarantine)).lease("nodes", "n1", "g", 2*time.Hour).lease("nodes", "n2", "g", 0).running("n1", "g").unavailable("nodes", "n1").ask("n3", "g", "nodes"),
			[]string{"n3 nodes:slot_full"}, "no allowance makes an unavailable resource available"},
		{"shrunk", func() *scene { s := newScene(ten(Percent(20))); s.Pools[0].Total = 5; return s }().
			lease("nodes", "n1", "g", 0).lease("nodes", "n2", "g", 0).ask("n3", "g", "nodes").ask("n1", "g", "nodes"),
			[]string{"n1 slot_held", "n3 nodes:slot_full"}, "nothing is pre-empted: two hold a pool of one until they end"},
		{"zones", zones(1).ask("a1", "g", "a").ask("b1", "g", "b").ask("a2", "g", "a"),
			[]string{"a1 slot_free", "b1 b:slot_keys_full", "a2 a:slot_full"}, "one node in one zone at a time, and no second zone before the first is quiet"},
		{"zones, two", zones(2).lease("a", "a1", "g", 0).ask("b1", "g", "b").ask("c1", "g", "c"),
			[]string{"b1 slot_free", "c1 c:slot_keys_full"}, "two zones may be active; the batch opens the second"},
		{"zones, two of one candidate", func() *scene {
			s := zones(2)
			for i := range s.Pools {
				s.Pools[i].Limit = Count(2)
			}
			return s
		}().lease("a", "a1", "g", 0).ask("ab", "g", "a", "b").ask("bc", "g", "b", "c").ask("ac", "g", "a", "c"),
			[]string{"ab slot_free", "bc c:slot_keys_full", "ac a:slot_full c:slot_keys_full"}, "a zone that is active already costs a candidate no key, and one key is enough for the other"},
		{"zones, unknown", func() *scene {
			s := zones(1)
			s.Pools[0] = Pool{Key: "a", Unknown: true, Family: "zones", MaxActiveKeys: 3, Strict: true}
			return s
		}().ask("a1", "g", "a").ask("b1", "g", "b").ask("c1", "g", "c"),
			[]string{"b1 slot_free", "a1 a:pool_unknown", "c1 c:slot_keys_full"}, "of an unknown pool nothing but the key is looked at, the number of keys included"},
		{"zones, unavailable", zones(1).unavailable("c", "c9").ask("a1", "g", "a").ask("c9", "g", "c"),
			[]string{"c9 slot_already_down", "a1 a:slot_keys_full"}, "a zone with a dead node is an active one"},
		{"zones, claimed", zones(1).lease("a", "a1", "g", 0).lease("b", "b1", "g", 0).keyless("a", "a1").keyless("b", "b1").begins("b1", "g", "b").begins("a1", "g", "a").ask("b2", "g", "b"),
			[]string{"b1 slot_held", "a1 a:slot_keys_full", "b2 b:slot_full"}, "a claim without a key makes no zone active, and keeps its place"},
		{"zones, claimed and unavailable", zones(1).lease("a", "a1", "g", 0).keyless("a", "a1").unavailable("a", "a1").ask("b1", "g", "b"),
			[]string{"b1 b:slot_keys_full"}, "a dead node is one, whoever claims it"},
		{"zones, claimed by two", zones(1).lease("a", "a1", "g", 0).lease("a", "a1", "h", 0).keyless("a", "a1").begins("a1", "g", "a").ask("b1", "g", "b"),
			[]string{"a1 slot_held", "b1 b:slot_keys_full"}, "another group is at work on the resource, so the zone is active"},
		{"zones, claimed by who is at work", zones(1).lease("a", "a1", "g", 0).keyless("a", "a1").jobs("a", "a1").ask("b1", "g", "b"),
			[]string{"b1 b:slot_keys_full"}, "an active job says more than a list of the idle"},
		{"claimed", newScene(ten(Count(1))).lease("nodes", "n1", "g", 0).keyless("nodes", "n1").begins("n1", "g", "nodes"),
			[]string{"n1 slot_held"}, "without a family there are no keys"},
		{"rollback", newScene(ten(Count(1))).lease("nodes", "n1", "g", 0).ask("n1", "g", "nodes"),
			[]string{"n1 slot_held"}, "a rollback runs in the slot that the group holds"},
		{"new pool for a holder", newScene(ten(Count(2)), Pool{Key: "zone", Limit: Count(1), Total: 3}).lease("nodes", "n1", "g", 0).lease("zone", "n9", "x", 0).ask("n1", "g", "nodes", "zone"),
			[]string{"n1 slot_held"}, "a holder is admitted in every pool, also above the limit: it is down already"},
		{"holder, paused and unknown", newScene(ten(Count(0)), Pool{Key: "lost", Unknown: true}).lease("nodes", "n1", "g", 0).ask("n1", "g", "nodes", "lost").ask("n2", "g", "nodes", "lost"),
			[]string{"n1 slot_held", "n2 lost:pool_unknown nodes:slot_paused"}, "a holder is never refused; all others learn of every pool that refuses, by key"},
		{"exclusive", exclusive().lease("nodes", "n1", "a", 0).ask("n1", "b", "nodes").ask("n1", "a", "nodes").ask("n2", "b", "nodes"),
			[]string{"n1 slot_held", "n2 slot_free", "n1 nodes:slot_exclusive"}, "another group is at work on n1, and on n2 nobody"},
		{"exclusive, in one batch", exclusive().ask("n1", "a", "nodes").ask("n1", "b", "nodes").ask("n1", "a", "nodes").ask("n2", "b", "nodes"),
			[]string{"n1 slot_free", "n1 slot_held", "n2 slot_free", "n1 nodes:slot_exclusive"}, "the first to begin keeps the others out, and takes no second place"},
		{"exclusive, down", exclusive().unavailable("nodes", "n1").ask("n1", "a", "nodes").ask("n1", "b", "nodes"),
			[]string{"n1 slot_already_down", "n1 nodes:slot_exclusive"}, "what is broken is repaired by one at a time"},
		{"exclusive, job", exclusive().jobs("nodes", "n1").ask("n1", "a", "nodes"),
			[]string{"n1 nodes:slot_exclusive"}, "a job without a lease is at work all the same"},
		{"exclusive, forgiven", func() *scene {
			s := exclusive().lease("nodes", "n1", "g", 0).quarantined("nodes", "n1").ask("n1", "b", "nodes")
			s.Pools[0].QuarantineAllowance = Count(1)
			return s
		}(), []string{"n1 nodes:slot_exclusive"}, "an allowance is for the places of others: on n1 somebody may still be at work"},
		{"exclusive, departed", func() *scene {
			s := exclusive().lease("nodes", "n1", "a", 0).ask("n1", "b", "nodes")
			s.Pools[0].Departed = []string{"n1"}
			return s
		}(), []string{"n1 nodes:slot_exclusive"}, "the label is gone, and the work goes on"},
		{"exclusive, two at work", exclusive().lease("nodes", "n1", "a", 0).lease("nodes", "n1", "b", 0).begins("n1", "a", "nodes").ask("n1", "b", "nodes"),
			[]string{"n1 slot_held", "n1 slot_held"}, "the rule is new: who holds is never refused"},
		{"exclusive, held elsewhere", exclusive().lease("nodes", "n1", "a", 0).lease("zone", "n1", "b", 0).ask("n1", "b", "nodes", "zone").begins("n1", "b", "nodes", "zone"),
			[]string{"n1 slot_held", "n1 slot_held"}, "a holder comes in everywhere, and is one there from then on"},
		{"exclusive, begins with a part", exclusive().lease("nodes", "n1", "a", 0).lease("zone", "n1", "b", 0).begins("n1", "b", "nodes", "zone"),
			[]string{"n1 nodes:slot_exclusive"}, "a planner stopped while it claimed, and another one was first"},
		{"exclusive, full", func() *scene {
			s := exclusive().lease("nodes", "n1", "a", 0).ask("n1", "b", "nodes", "zone").ask("n2", "b", "nodes")
			s.Pools[0].Limit, s.Pools[1].Limit = Count(1), Count(0)
			return s
		}(), []string{"n1 nodes:slot_exclusive zone:slot_paused", "n2 nodes:slot_full"}, "a free place would not help on n1; all pools that refuse are named"},
		{"exclusive, another pool", exclusive().lease("nodes", "n1", "a", 0).ask("n1", "b", "zone"),
			[]string{"n1 slot_free"}, "the rule does not govern it"},
		{"exclusive, strict", strictlyExclusive().ask("n1", "a", "nodes", "zone").ask("n1", "b", "nodes").ask("n2", "b", "nodes"),
			[]string{"n2 slot_free", "n1 zone:slot_full", "n1 nodes:slot_reserved"}, "the place is kept for the first group of n1: the second would keep it out"},
		{"exclusive, strict, one group", strictlyExclusive().ask("n1", "a", "nodes", "zone").ask("n1", "a", "nodes").ask("n2", "b", "nodes"),
			[]string{"n1 slot_free", "n2 slot_free", "n1 zone:slot_full"}, "it is kept for the group"},
		{"exclusive, strict, waits for its own", func() *scene {
			s := exclusive().lease("nodes", "n1", "a", 0).ask("n1", "b", "nodes", "zone").ask("n2", "b", "zone")
			s.Pools[0].Strict, s.Pools[1].Limit = true, Count(1)
			return s
		}(), []string{"n2 slot_free", "n1 nodes:slot_exclusive"}, "whoever waits for the end of a group may wait long, and reserves nothing"},
		{"halted", halted(Count(2), 0).unavailable("nodes", "n1", "n2", "n3").lease("nodes", "n3", "g", 0).lease("nodes", "n9", "g", 0).
			ask("n1", "g", "nodes").ask("n4", "g", "nodes").ask("n3", "g", "nodes").ask("n3", "h", "nodes").begins("n9", "g", "nodes"),
			[]string{"n3 slot_held", "n3 slot_already_down", "n9 slot_held", "n1 nodes:slot_halted", "n4 nodes:slot_halted"},
			"so many look down that it may be the view that is broken: only who holds goes on, and who comes to where somebody does"},
		{"halted, not yet", halted(Count(2), 0).unavailable("nodes", "n1", "n2", "n1").ask("n1", "g", "nodes").ask("n4", "g", "nodes"),
			[]string{"n1 slot_already_down", "n4 nodes:slot_full"}, "as many as are named may be unavailable, and who is listed twice is one: the broken one is repaired"},
		{"halted, percent", halted(Percent(19), 0).unavailable("nodes", "n1", "n2").ask("n1", "g", "nodes"),
			[]string{"n1 nodes:slot_halted"}, "two of ten are more than 19 %"},
		{"halted, percent, not yet", halted(Percent(20), 0).unavailable("nodes", "n1", "n2").ask("n1", "g", "nodes"),
			[]string{"n1 slot_already_down"}, "two of ten are not more than 20 %"},
		{"halted by one", halted(Count(0), 0).unavailable("nodes", "n1").ask("n1", "g", "nodes"),
			[]string{"n1 nodes:slot_halted"}, "0 is not unset"},
		{"halted by nobody", halted(Count(0), 0).ask("n1", "g", "nodes"),
			[]string{"n1 slot_free"}, "nobody is not more than 0"},
		{"halted, paused", func() *scene {
			s := halted(Count(0), 0).unavailable("nodes", "n1").ask("n2", "g", "nodes").ask("n1", "g", "nodes")
			s.Pools[0].Limit = Count(0)
			return s
		}(), []string{"n2 nodes:slot_paused", "n1 nodes:slot_paused"}, "members that come back do not help as long as the limit is 0"},
		{"halted, strict", halted(Count(0), 0).unavailable("zone", "n1").ask("n1", "g", "nodes", "zone").ask("n2", "g", "nodes"),
			[]string{"n2 slot_free", "n1 zone:slot_halted"}, "who cannot start for long reserves nothing"},
		{"halted, key", func() *scene {
			s := halted(Count(0), 1)
			return s.unavailable("zone", "n1").ask("n1", "g", "zone").ask("n5", "g", "nodes")
		}(), []string{"n1 zone:slot_halted", "n5 nodes:slot_keys_full"}, "a zone with a dead node is an active one, halted or not"},
		{"twice", newScene(ten(Count(1))).ask("n1", "a", "nodes").ask("n1", "b", "nodes").ask("n2", "a", "nodes"),
			[]string{"n1 slot_free", "n1 slot_already_down", "n2 nodes:slot_full"}, "two groups on one resource are one disruption"},
		{"two groups, two leases", newScene(ten(Count(2))).lease("nodes", "n1", "a", 0).lease("nodes", "n1", "b", 0).ask("n2", "a", "nodes"),
			[]string{"n2 slot_free"}, "resources are counted, not leases"},
		{"no member", newScene(ten(Count(0))).ask("x", "g"), []string{"x rule_not_applicable"}, "who is in no pool is not limited"},
		{"strict, paused", newScene(Pool{Key: "cluster", Limit: Count(1), Total: 6, Strict: true}, Pool{Key: "zone-a", Limit: Count(0), Total: 3}).
			ask("n2", "g", "cluster", "zone-a").ask("n5", "g", "cluster"),
			[]string{"n5 slot_free", "n2 zone-a:slot_paused"}, "who cannot start for long reserves nothing"},
		{"strict, key", func() *scene {
			s := zones(1)
			for i := range s.Pools {
				s.Pools[i].Strict = true
			}
			s.Pools = append(s.Pools, Pool{Key: "rack", Limit: Count(1), Total: 2, Record: NewRecord("rack")})
			return s.lease("rack", "r", "x", 0)
		}().ask("a1", "g", "a", "rack").ask("b1", "g", "b").ask("a2", "g", "a"),
			[]string{"a1 rack:slot_full", "b1 b:slot_reserved", "a2 a:slot_reserved"}, "a reserved place in a quiet zone reserves the zone too"},
		{"strict, key taken", strictZones().ask("a1", "g", "a", "rack").ask("a2", "g", "a").ask("b1", "g", "b"),
			[]string{"a2 slot_free", "b1 slot_free", "a1 rack:slot_full"}, "a zone that becomes active needs no reservation any more: two zones may be"},
		{"strict, keys reserved", strictZones().ask("a1", "g", "a").ask("b1", "g", "b", "rack").ask("c1", "g", "c"),
			[]string{"a1 slot_free", "b1 rack:slot_full", "c1 c:slot_reserved"}, "one zone is active, the second is reserved"},
		{"strict, own reservation", strictZones().ask("a1", "g", "a", "rack").ask("a1", "h", "a").ask("b1", "g", "b"),
			[]string{"a1 slot_free", "b1 slot_free", "a1 rack:slot_full"}, "the place was reserved for a1, whichever group: the zone is active now, and reserved no more"},
		{"strict, reserved in a zone that is active", strictZones().lease("a", "a1", "g", 0).ask("a2", "g", "a", "rack").ask("b1", "g", "b"),
			[]string{"b1 slot_free", "a2 rack:slot_full"}, "the place is reserved, and no key: the zone has one"},
		{"strict, own reservation in a zone that is active", strictZones().lease("a", "a1", "g", 0).ask("a2", "g", "a", "rack").ask("a2", "h", "a").ask("b1", "g", "b", "rack").ask("c1", "g", "c"),
			[]string{"a2 slot_free", "a2 rack:slot_full", "b1 rack:slot_full", "c1 c:slot_reserved"}, "a2 gives no key back, because none was reserved: the second is b's"},
		{"strict, reserved for another than one that was a member before", func() *scene {
			s := newScene(Pool{Key: "cluster", Limit: Count(1), Total: 6, Strict: true}, Pool{Key: "zone-a", Limit: Count(1), Total: 3}).
				lease("cluster", "n1", "g", time.Hour).lease("zone-a", "n3", "g", 0)
			s.Pools[0].Departed = []string{"n1"}
			return s
		}().ask("n2", "g", "cluster", "zone-a").ask("n1", "h", "cluster"),
			[]string{"n2 zone-a:slot_full", "n1 cluster:slot_reserved"}, "its lease does not count, so that it has no place of its own either"},
		{"strict, one of two reservations", strictZones().ask("a1", "g", "a", "rack").ask("a2", "g", "a", "rack").ask("a1", "h", "a").ask("b1", "g", "b", "rack").ask("c1", "g", "c"),
			[]string{"a1 slot_free", "a1 rack:slot_full", "a2 rack:slot_full", "b1 rack:slot_full", "c1 c:slot_reserved"}, "the zone gives its reservation back once, when it becomes active"},
		{"job without lease", func() *scene {
			s := newScene(ten(Count(1)))
			s.Pools[0].Jobs = []Holder{{"n1", "g"}, {"n1", "g"}}
			return s
		}().ask("n1", "g", "nodes").ask("n2", "g", "nodes"),
			[]string{"n1 slot_held", "n2 nodes:slot_full"}, "holders that only the jobs know hold all the same"},
		{"departed", func() *scene {
			s := newScene(ten(Count(1))).lease("nodes", "n1", "g", 0)
			s.Pools[0].Departed = []string{"n1"}
			return s
		}().ask("n2", "g", "nodes"),
			[]string{"n2 slot_free"}, "only members count; leaving a pool by label is an observation, unlike vanishing"},
		{"departed and back", func() *scene {
			s := newScene(ten(Count(1))).lease("nodes", "n1", "g", 0)
			s.Pools[0].Departed = []string{"n1"}
			return s
		}().ask("n1", "g", "nodes").ask("n2", "g", "nodes"),
			[]string{"n1 slot_held", "n2 nodes:slot_full"}, "who needs the pool is a member: its lease counts again"},
		{"oldest is down", newScene(stuck(1, Hold)).lease("nodes", "n1", "g", time.Hour).lease("nodes", "n2", "g", 2*time.Hour).quarantined("nodes", "n1", "n2").unavailable("nodes", "n2").ask("n3", "g", "nodes"),
			[]string{"n3 nodes:slot_full"}, "the allowance is spent on the oldest lease, whose resource is down all the same; the younger one counts"},
		{"youngest is down", newScene(stuck(1, Hold)).lease("nodes", "n1", "g", 2*time.Hour).lease("nodes", "n2", "g", time.Hour).quarantined("nodes", "n1", "n2").unavailable("nodes", "n2").ask("n3", "g", "nodes"),
			[]string{"n3 slot_free"}, "the oldest lease is covered, and the other resource is down"},
		{"two as old", newScene(stuck(1, Hold)).lease("nodes", "n2", "g", time.Hour).lease("nodes", "n1", "g", time.Hour).quarantined("nodes", "n1", "n2").unavailable("nodes", "n1").ask("n3", "g", "nodes"),
			[]string{"n3 nodes:slot_full"}, "of two that are as old the allowance goes to the resource that comes first, which is down"},
		{"forgiven, and held by another group", newScene(stuck(1, Hold)).lease("nodes", "n1", "g", 2*time.Hour).lease("nodes", "n1", "h", 0).lease("nodes", "n2", "g", time.Hour).quarantined("nodes", "n1", "n2").ask("n3", "g", "nodes"),
			[]string{"n3 nodes:slot_full"}, "leases are forgiven, not resources: the oldest one is of n1, which another group holds as well"},
		{"quarantined holder", newScene(stuck(0, Quarantine)).lease("nodes", "n1", "g", 2*time.Hour).running("n1", "g").ask("n1", "g", "nodes"),
			[]string{"n1 slot_held"}, "quarantine does not lock the holder out of its own slot"},
		{"fix for a forgiven one", func() *scene {
			s := newScene(stuck(1, Quarantine)).lease("nodes", "n1", "g", 2*time.Hour).running("n1", "g")
			return s.lease("nodes", "n2", "g", 0).lease("nodes", "n3", "g", 0)
		}().ask("n1", "fix", "nodes").ask("n4", "g", "nodes"),
			[]string{"n1 slot_already_down", "n4 nodes:slot_full"}, "the allowance went to others, but a fix for the broken resource disrupts nothing more"},
		{"fix before others", newScene(stuck(1, Quarantine)).lease("nodes", "n1", "g", 2*time.Hour).running("n1", "g").lease("nodes", "n2", "g", 0).
			ask("n5", "g", "nodes").ask("n1", "fix", "nodes"),
			[]string{"n1 slot_already_down", "n5 nodes:slot_full"}, "the fix consumes nothing, so it comes first; its lease is not forgiven"},
		{"fix without a key", func() *scene {
			s := zones(1)
			s.Pools[1].StuckAfter, s.Pools[1].OnStuck, s.Pools[1].QuarantineAllowance = time.Hour, Quarantine, Count(1)
			return s.lease("b", "b1", "g", 2*time.Hour).running("b1", "g").lease("a", "a1", "g", 0)
		}().ask("b1", "fix", "b"),
			[]string{"b1 b:slot_keys_full"}, "a zone whose only lease is forgiven is quiet; the fix would make it the second one that is active"},
		{"stuck, hold, allowance", newScene(stuck(1, Hold)).lease("nodes", "n1", "g", 2*time.Hour).lease("nodes", "n2", "g", 0).running("n1", "g").ask("n3", "g", "nodes"),
			[]string{"n3 nodes:slot_full"}, "the allowance is for quarantined leases; hold quarantines none"},
		{"stuck, hold, quarantined by its operator", newScene(stuck(1, Hold)).lease("nodes", "n1", "g", 2*time.Hour).lease("nodes", "n2", "g", 0).running("n1", "g").quarantined("nodes", "n1").ask("n3", "g", "nodes"),
			[]string{"n3 slot_free"}, "hold takes no lease out of quarantine, either"},
		{"not stuck after progress", func() *scene {
			s := newScene(stuck(1, Quarantine)).lease("nodes", "n1", "g", 2*time.Hour).lease("nodes", "n2", "g", 0).running("n1", "g")
			lease, _ := s.Pools[0].Record.Lease(Holder{"n1", "g"})
			r, err := s.Pools[0].Record.Renew(lease.Holder, lease.Token, epoch.Add(-30*time.Minute))
			if err != nil {
				panic(err)
			}
			s.Pools[0].Record = r
			return s
		}().ask("n3", "g", "nodes"),
			[]string{"n3 nodes:slot_full"}, "it is the progress that counts, not how long the lease is held"},
		{"departed and quarantined", func() *scene {
			s := newScene(stuck(1, Hold)).lease("nodes", "n1", "g", 3*time.Hour).lease("nodes", "n2", "g", 2*time.Hour).quarantined("nodes", "n1", "n2")
			s.Pools[0].Limit, s.Pools[0].Departed = Count(1), []string{"n1"}
			return s
		}().ask("n3", "g", "nodes"),
			[]string{"n3 slot_free"}, "the allowance is not spent on a lease that does not count anyway"},
		{"departed and down", func() *scene {
			s := newScene(ten(Count(1))).lease("nodes", "n1", "g", 0).unavailable("nodes", "n1")
			s.Pools[0].Departed = []string{"n1"}
			return s
		}().ask("n1", "fix", "nodes").ask("n2", "g", "nodes"),
			[]string{"n1 slot_already_down", "n2 nodes:slot_full"}, "what is listed as unavailable is down and counts, whatever else is said of it"},
		{"another group of a holder's resource, with the holder", newScene(ten(Count(1)), Pool{Key: "fleet", Limit: Count(9), Total: 10}).lease("nodes", "n1", "g", 0).lease("fleet", "n2", "g", 0).ask("n2", "g", "nodes").ask("n2", "h", "nodes"),
			[]string{"n2 slot_held", "n2 slot_already_down"}, "the holder comes in above the limit, and its resource is disrupted already, whichever of the two is carried out"},
		{"another group of a holder's resource, without it", newScene(ten(Count(1)), Pool{Key: "fleet", Limit: Count(9), Total: 10}).lease("nodes", "n1", "g", 0).lease("fleet", "n2", "g", 0).ask("n2", "h", "nodes"),
			[]string{"n2 nodes:slot_full"}, "as long as the holder does not ask, nobody has come into the pool"},
		{"zones, one lease forgiven begins", func() *scene {
			s := zones(1)
			s.Pools[1].QuarantineAllowance = Count(1)
			return s.lease("a", "a1", "g", 0).lease("b", "b1", "g", 2*time.Hour).quarantined("b", "b1")
		}().begins("b1", "g", "b"),
			[]string{"b1 b:slot_keys_full"}, "a lease that the allowance covers makes no zone active, and by a start it would"},
		{"zones, one lease forgiven goes on", func() *scene {
			s := zones(1)
			s.Pools[1].QuarantineAllowance = Count(1)
			return s.lease("a", "a1", "g", 0).lease("b", "b1", "g", 2*time.Hour).quarantined("b", "b1")
		}().ask("b1", "g", "b"),
			[]string{"b1 slot_held"}, "a holder is never refused"},
		{"zones, one lease forgiven and one claimed", func() *scene {
			s := zones(1)
			s.Pools[1].QuarantineAllowance, s.Pools[1].Keyless = Count(1), []Holder{{"b1", "h"}}
			return s.lease("b", "b1", "g", 2*time.Hour).lease("b", "b1", "h", 0).quarantined("b", "b1")
		}().ask("a1", "g", "a"),
			[]string{"a1 slot_free"}, "neither lease makes the zone active, and so both do not"},
		{"not stuck without a run", newScene(stuck(1, Quarantine)).lease("nodes", "n1", "g", 2*time.Hour).lease("nodes", "n2", "g", 0).ask("n3", "g", "nodes"),
			[]string{"n3 nodes:slot_full"}, "waiting for a window or an approval is not stuck"},
		{"empty", newScene(), nil, "nothing asked, nothing said"},
	}
	seen := map[string]bool{}
	for _, row := range rows {
		if row.why == "" || seen[row.name] {
			t.Fatalf("row %q needs a name of its own and a why", row.name)
		}
		seen[row.name] = true
		t.Run(row.name, func(t *testing.T) {
			r := row.scene.plan(t)
			if diff := cmp.Diff(row.want, row.scene.verdict(r), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s\n%s", row.why, diff)
			}
		})
	}
}

// TestBegins: a lease that nobody has used yet is its holder's own, and opens no other pool; one
// that is in use does.
func TestBegins(t *testing.T) {
	rack := Pool{Key: "rack", Limit: Count(1), Total: 10}
	for _, row := range []struct {
		why    string
		begins bool
		zone   string // who is in the rack
		want   string
	}{
		{"who is at work is refused nowhere", false, "n2", "n1 slot_held"},
		{"who only claimed waits where it holds nothing", true, "n2", "n1 rack:slot_full"},
		{"and starts where there is a place", true, "", "n1 slot_free"},
		{"or where its resource is down anyway", true, "n1", "n1 slot_already_down"},
	} {
		s := newScene(ten(Count(1)), rack).lease("nodes", "n1", "g", 0)
		if row.zone != "" {
			s.lease("rack", row.zone, "h", 0)
		}
		s.ask("n1", "g", "nodes", "rack")
		s.candidates[0].Begins = row.begins
		r := s.plan(t)
		if got := s.verdict(r); !slices.Equal(got, []string{row.want}) {
			t.Errorf("%s: %q, want %q", row.why, got, row.want)
		}
		for _, a := range r.Admitted {
			if a.Claims[0].Token != 1 {
				t.Errorf("%s: claims %+v: its lease is its own", row.why, a.Claims)
			}
		}
	}
}

// TestOrder: rank, then resource, then group, then who only begins, then what is needed, however
// the input is ordered.
func TestOrder(t *testing.T) {
	s := Snapshot{Pools: []Pool{{Key: "b", Limit: Count(9), Total: 9}, {Key: "a", Limit: Count(9), Total: 9}}}
	ordered := []Candidate{
		{"n2", "b", 1, []int32{0}, false},
		{"n1", "a", 2, []int32{0, 1}, false},
		{"n1", "a", 2, []int32{0}, false},
		{"n1", "b", 2, []int32{0}, false},
		{"n2", "a", 2, []int32{0}, false},
		{"n2", "a", 2, []int32{0}, true},
	}
	for i := range ordered {
		for j := range ordered {
			candidates := slices.Clone(ordered)
			candidates[i], candidates[j] = candidates[j], candidates[i]
			r, err := Plan(s, candidates, epoch)
			if err != nil {
				t.Fatal(err)
			}
			var got []Candidate
			for _, a := range r.Admitted {
				got = append(got, candidates[a.Candidate])
			}
			if diff := cmp.Diff(ordered, got); diff != "" {
				t.Errorf("%d and %d exchanged: %s", i, j, diff)
			}
		}
	}
	for _, pair := range [][2]Candidate{{ordered[2], ordered[3]}, {ordered[1], ordered[2]}, {ordered[3], ordered[4]}, {ordered[0], ordered[4]}, {ordered[4], ordered[5]}} {
		r, err := Plan(s, []Candidate{pair[1], pair[0]}, epoch)
		if err != nil || len(r.Admitted) != 2 || r.Admitted[0].Candidate != 1 {
			t.Errorf("%v comes before %v: %+v, %v", pair[0], pair[1], r.Admitted, err)
		}
	}
}

func TestPlanClaims(t *testing.T) {
	s := newScene(ten(Count(9)), Pool{Key: "a-first", Limit: Count(9), Total: 9}).lease("nodes", "n1", "g", 0)
	s.Pools[0].Record.Revision = 7
	s.ask("n1", "g", "nodes", "a-first").ask("n2", "g", "nodes", "a-first").ask("n2", "h", "nodes")
	r := s.plan(t)
	want := []Admitted{
		{0, SlotHeld, []Claim{{1, 0, 0, 1}, {0, 0, 7, 1}}},
		{1, SlotFree, []Claim{{1, 0, 0, 2}, {0, 0, 7, 2}}},
		{2, SlotAlreadyDown, []Claim{{0, 0, 7, 3}}},
	}
	if diff := cmp.Diff(want, r.Admitted); diff != "" {
		t.Error("claims are by key, carry the revision of the record, the holder's token or the next one: ", diff)
	}
	records, err := Apply(s.Snapshot, s.candidates, []Admitted{r.Admitted[2], r.Admitted[0]}, epoch)
	if err != nil || len(records) != 2 {
		t.Fatal(records, err)
	}
	if records[0].Key != "a-first" || records[1].Key != "nodes" || records[1].NextToken != 4 || records[1].Revision != 7 {
		t.Errorf("records by key, at the revision they were read: %+v", records)
	}
	if l, ok := records[1].Lease(Holder{"n2", "h"}); !ok || l.Token != 3 || !l.Since.Equal(epoch) || !l.ProgressAt.Equal(epoch) || l.State != Active || l.Pool != "nodes" {
		t.Errorf("%+v", l)
	}
	if _, ok := records[1].Lease(Holder{"n2", "g"}); ok {
		t.Error("a start that was left out took a lease")
	}
	if len(s.Pools[0].Record.Leases) != 1 {
		t.Error("the input was modified")
	}
	if again, err := Apply(Snapshot{Pools: []Pool{s.Pools[0], {Key: "a-first", Record: records[0]}}}, s.candidates, r.Admitted[:1], epoch); err != nil || len(again) != 0 {
		t.Errorf("a lease that is there already changes nothing: %v %v", again, err)
	}
	if again, err := Apply(s.Snapshot, s.candidates, []Admitted{r.Admitted[1], r.Admitted[1]}, epoch); err != nil || len(again) != 2 || len(again[0].Leases) != 1 {
		t.Errorf("the same start twice is one lease: %v %v", again, err)
	}
}

// TestFirstRecord: the record of a pool that nobody ever used is made by its first start, at the
// revision that the store has for it.
func TestFirstRecord(t *testing.T) {
	s := newScene(ten(Count(1))).ask("n1", "g", "nodes")
	s.Pools[0].Record = Record{Revision: 3}
	records, err := Apply(s.Snapshot, s.candidates, s.plan(t).Admitted, epoch)
	want := NewRecord("nodes")
	want.Revision, want.NextToken = 3, 2
	want.Leases = []Lease{{Pool: "nodes", Holder: Holder{"n1", "g"}, Token: 1, State: Active, Since: epoch, ProgressAt: epoch}}
	if diff := cmp.Diff([]Record{want}, records); diff != "" || err != nil {
		t.Error(err, diff)
	}
}

// TestJobGetsALease: a holder that only its job knew holds one lease from its first start on, and a
// second start carries the same token.
func TestJobGetsALease(t *testing.T) {
	s := newScene(ten(Count(1))).ask("n1", "g", "nodes").ask("n1", "g", "nodes")
	s.Pools[0].Jobs = []Holder{{"n1", "g"}}
	r := s.plan(t)
	want := []Admitted{{0, SlotHeld, []Claim{{0, 0, 0, 1}}}, {1, SlotHeld, []Claim{{0, 0, 0, 1}}}}
	if diff := cmp.Diff(want, r.Admitted); diff != "" || r.Pools[0].Starts != 1 {
		t.Errorf("%d starts: %s", r.Pools[0].Starts, diff)
	}
}

// TestListsOfAResult: what a host appends to the list of one candidate gets into no other one.
func TestListsOfAResult(t *testing.T) {
	s := overlap(false).ask("n1", "g", "cluster").ask("n1", "g", "zone-a").ask("n3", "g", "zone-a").ask("n6", "g", "cluster")
	r, want := s.plan(t), s.plan(t)
	if len(r.Admitted) < 2 || len(r.Refusals) < 2 {
		t.Fatalf("%d lists of claims and %d of refusals", len(r.Admitted), len(r.Refusals))
	}
	for _, a := range r.Admitted {
		_ = append(a.Claims, Claim{Pool: 99})
	}
	for _, refusals := range r.Refusals {
		_ = append(refusals, Refusal{Pool: 99})
	}
	if diff := cmp.Diff(want, r); diff != "" {
		t.Error(diff)
	}
}

func TestApplyRefuses(t *testing.T) {
	s := newScene(ten(Count(9))).ask("n1", "g", "nodes")
	start := func(c Claim) []Admitted { return []Admitted{{0, SlotFree, []Claim{c}}} }
	later := newScene(ten(Count(9))).lease("nodes", "n9", "g", 0)
	held := newScene(ten(Count(9))).lease("nodes", "n1", "g", 0)
	full := newScene(ten(Count(9)))
	full.Pools[0].Record.NextToken = math.MaxUint64
	moved := newScene(ten(Count(9)))
	moved.Pools[0].Record.Revision = 3
	for _, c := range []struct {
		name     string
		snapshot Snapshot
		starts   []Admitted
		want     error
		why      string
	}{
		{"no token", s.Snapshot, start(Claim{}), ErrFenced, "tokens begin at 1"},
		{"another token", held.Snapshot, start(Claim{Token: 2}), ErrFenced, "the holder has a lease: a second one would make a record that nobody can read"},
		{"revision", s.Snapshot, start(Claim{Revision: 3, Token: 1}), ErrConflict, "the record changed"},
		{"older revision", moved.Snapshot, start(Claim{Revision: 2, Token: 1}), ErrConflict, "the record has changed since the plan: the place may be somebody else's"},
		{"token", later.Snapshot, start(Claim{Token: 1}), ErrFenced, "the token was issued to somebody else"},
		{"two tokens", s.Snapshot, append(start(Claim{Token: 2}), start(Claim{Token: 1})...), ErrFenced, "the starts are those of two plans, and one of the two tokens would be valid for nothing"},
		{"last token", full.Snapshot, start(Claim{Token: math.MaxUint64}), nil, "no token can follow"},
	} {
		records, err := Apply(c.snapshot, s.candidates, c.starts, epoch)
		if err == nil || records != nil || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: %v, %v: %s", c.name, records, err, c.why)
		}
	}
	good := Admitted{0, SlotFree, []Claim{{0, 0, 0, 1}}}
	for _, c := range []struct {
		start     Admitted
		want, why string
	}{
		{Admitted{Candidate: 1}, "out_of_range starts[1].candidate: 1: must be an index of the 1 candidates, which must be those of the plan", "candidates of another plan"},
		{Admitted{Candidate: -1}, "out_of_range starts[1].candidate: -1: must be an index of the 1 candidates, which must be those of the plan", "no candidate"},
		{Admitted{0, SlotFree, []Claim{{0, 0, 0, 1}, {1, 0, 0, 1}}}, "out_of_range starts[1].claims[1].pool: 1: must be an index of the 1 pools of the snapshot, which must be that of the plan", "snapshot of another plan"},
		{Admitted{0, SlotFree, []Claim{{Pool: -1}}}, "out_of_range starts[1].claims[0].pool: -1: must be an index of the 1 pools of the snapshot, which must be that of the plan", "no pool"},
	} {
		records, err := Apply(s.Snapshot, s.candidates, []Admitted{good, c.start}, epoch)
		if records != nil || err == nil || !slices.Equal(faultsOf(t, err), []string{c.want}) {
			t.Errorf("%+v: %v, %v, want %s: %s", c.start, records, err, c.want, c.why)
		}
	}
}

// TestOneTokenPerHolder: I9, also for a resource that is down and asks several times in one batch.
func TestOneTokenPerHolder(t *testing.T) {
	s := newScene(ten(Count(1))).unavailable("nodes", "n7").ask("n7", "g", "nodes").ask("n7", "h", "nodes").ask("n7", "g", "nodes").ask("n7", "h", "nodes")
	r := s.plan(t)
	tokens := map[string]uint64{}
	for _, a := range r.Admitted {
		group, token := s.candidates[a.Candidate].Group, a.Claims[0].Token
		if tokens[group] == 0 {
			tokens[group] = token
		}
		if tokens[group] != token || token == 0 {
			t.Errorf("%s gets the tokens %d and %d", group, tokens[group], token)
		}
	}
	if len(r.Admitted) != 4 || tokens["g"] == tokens["h"] {
		t.Errorf("%+v", r.Admitted)
	}
	if records, err := Apply(s.Snapshot, s.candidates, r.Admitted, epoch); err != nil || len(records) != 1 || len(records[0].Leases) != 2 {
		t.Errorf("%+v, %v", records, err)
	}
}

// TestOneTokenPerHolderInACrowd: the same for so many groups on one resource that they are looked up
// in another way, those that started in this batch included.
func TestOneTokenPerHolderInACrowd(t *testing.T) {
	const groups = 60
	s := newScene(ten(Count(1))).unavailable("nodes", "n7")
	for range 2 {
		for i := range groups {
			s.ask("n7", fmt.Sprintf("g%02d", i), "nodes")
		}
	}
	r := s.plan(t)
	tokens := map[string]uint64{}
	for _, a := range r.Admitted {
		group, token := s.candidates[a.Candidate].Group, a.Claims[0].Token
		if tokens[group] != 0 && tokens[group] != token {
			t.Errorf("%s gets the tokens %d and %d", group, tokens[group], token)
		}
		tokens[group] = token
	}
	if len(r.Admitted) != 2*groups || len(tokens) != groups {
		t.Errorf("%d admitted of %d groups", len(r.Admitted), len(tokens))
	}
	if records, err := Apply(s.Snapshot, s.candidates, r.Admitted, epoch); err != nil || len(records) != 1 || len(records[0].Leases) != groups {
		t.Errorf("%+v, %v", records, err)
	}
}

// TestStuckInOrder: by the pools' keys, not by their places in the snapshot, then by holder.
func TestStuckInOrder(t *testing.T) {
	pool := func(key string) Pool {
		return Pool{Key: key, Limit: Count(9), Total: 9, StuckAfter: time.Hour}
	}
	s := newScene(pool("b"), pool("a")).lease("b", "n1", "g", 3*time.Hour).lease("a", "n2", "g", 2*time.Hour).lease("a", "n1", "h", 2*time.Hour).lease("a", "n1", "g", 5*time.Hour).
		running("n1", "g").running("n1", "h").running("n2", "g")
	var got []string
	for _, stuck := range s.plan(t).Stuck {
		got = append(got, fmt.Sprint(s.Pools[stuck.Pool].Key, " ", stuck.Lease.Resource, " ", stuck.Lease.Group))
	}
	if diff := cmp.Diff([]string{"a n1 g", "a n1 h", "a n2 g", "b n1 g"}, got); diff != "" {
		t.Error(diff)
	}
}

// TestMax: a pool has no more places than members, however large its limit is, and none without
// members. The number is what people are told.
func TestMax(t *testing.T) {
	for _, row := range []struct {
		why   string
		limit Limit
		total int
		want  int
	}{
		{"a count below the members", Count(2), 3, 2},
		{"all of them", Count(3), 3, 3},
		{"a count above them", Count(5), 3, 3},
		{"more than all of them", Percent(1000), 3, 3},
		{"a pool without members", Count(5), 0, 0},
		{"a pool that is paused", Count(0), 3, 0},
		{"rounded up, unless said otherwise", Percent(50), 3, 2},
	} {
		s := newScene(Pool{Key: "nodes", Limit: row.limit, Total: row.total})
		if got := s.plan(t).Pools[0].Max; got != row.want {
			t.Errorf("%s: %v of %d is %d, want %d", row.why, row.limit, row.total, got, row.want)
		}
	}
	for rounding, want := range map[Rounding]int{"": 1, Ceil: 1, Floor: 0, FloorMin1: 1} {
		s := newScene(Pool{Key: "nodes", Limit: Percent(20), Rounding: rounding, Total: 3})
		if got := s.plan(t).Pools[0].Max; got != want {
			t.Errorf("20 %% of 3, rounding %q, is %d, want %d", rounding, got, want)
		}
	}
}

func TestSummaries(t *testing.T) {
	s := newScene(stuck(1, Quarantine)).lease("nodes", "n2", "g", 2*time.Hour).lease("nodes", "n1", "h", 0).lease("nodes", "n1", "g", 3*time.Hour).
		running("n2", "g").unavailable("nodes", "n9").unavailable("nodes", "n0").unavailable("nodes", "n9").ask("n9", "g", "nodes")
	s.Pools[0].Jobs = []Holder{{"n0", "job"}, {"n1", "h"}, {"n0", "job"}} // one with a lease, one given twice
	r := s.plan(t)
	want := Summary{
		Active: 3, Starts: 1, Total: 10, Max: 2,
		Holders:     []Holder{{"n0", "job"}, {"n1", "g"}, {"n1", "h"}, {"n2", "g"}},
		Quarantined: []Holder{{"n2", "g"}},
		Unavailable: []string{"n0", "n9"},
		Stuck:       []Holder{{"n2", "g"}},
	}
	if diff := cmp.Diff(want, r.Pools[0]); diff != "" {
		t.Error(diff)
	}
	if holders := newScene(ten(Count(9))).plan(t).Pools[0].Holders; holders == nil || len(holders) > 0 {
		t.Errorf("nobody holds anything, which is an empty list in JSON: %#v", holders)
	}
	lease, _ := s.Pools[0].Record.Lease(Holder{"n2", "g"})
	if diff := cmp.Diff([]Stuck{{0, lease, epoch.Add(-time.Hour)}}, r.Stuck); diff != "" {
		t.Error(diff)
	}
}

// TestStoredQuarantine: a lease that was quarantined because it is stuck is stuck still. What is
// stored of a plan changes nothing of the next one.
func TestStoredQuarantine(t *testing.T) {
	s := newScene(stuck(1, Quarantine)).lease("nodes", "n1", "g", 2*time.Hour).lease("nodes", "n2", "g", 0).
		running("n1", "g").running("n2", "g").ask("n3", "g", "nodes").ask("n4", "g", "nodes")
	first := s.plan(t)
	if len(first.Stuck) != 1 || len(first.Admitted) != 1 {
		t.Fatalf("%d stuck, %d admitted, want one each", len(first.Stuck), len(first.Admitted))
	}
	lease := first.Stuck[0].Lease
	record, err := s.Pools[0].Record.Quarantine(lease.Holder, lease.Token, "stuck")
	if err != nil {
		t.Fatal(err)
	}
	s.Pools[0].Record = record
	stored := s.plan(t)
	if stored.Stuck[0].Lease.State != Quarantined {
		t.Error("the lease is listed as it was before it was stored")
	}
	stored.Stuck[0].Lease = lease
	if diff := cmp.Diff(first, stored); diff != "" {
		t.Errorf("(-before +after)\n%s", diff)
	}
}

// TestNext: between now and Next the plan is the same, and at Next it is another.
func TestNext(t *testing.T) {
	s := newScene(stuck(1, Quarantine), Pool{Key: "other", Limit: Count(1), Total: 1, StuckAfter: 2 * time.Hour}).
		lease("nodes", "n1", "g", 20*time.Minute).lease("nodes", "n2", "g", 30*time.Minute).lease("other", "n1", "g", 0).
		running("n1", "g").running("n2", "g").ask("n3", "g", "nodes")
	r := s.plan(t)
	if want := epoch.Add(30 * time.Minute); !r.Next.Equal(want) {
		t.Fatalf("next %v, want %v", r.Next, want)
	}
	before, _ := Plan(s.Snapshot, s.candidates, r.Next.Add(-1))
	at, _ := Plan(s.Snapshot, s.candidates, r.Next)
	if diff := cmp.Diff(r, before); diff != "" {
		t.Error(diff)
	}
	if len(at.Admitted) != 1 || len(at.Stuck) != 1 || !at.Next.Equal(epoch.Add(40*time.Minute)) {
		t.Errorf("%+v", at)
	}
	s.Running = nil
	if r := s.plan(t); !r.Next.IsZero() {
		t.Errorf("nobody runs, nothing becomes stuck: %v", r.Next)
	}
}

func TestPlanInputFaults(t *testing.T) {
	good := func() Pool { return Pool{Key: "p", Limit: Count(1), Total: 1} }
	edit := func(f func(*Pool)) Pool { p := good(); f(&p); return p }
	record := NewRecord("p")
	record.NextToken = 0
	for _, c := range []struct {
		name       string
		pools      []Pool
		candidates []Candidate
		want       []string
	}{
		{"key", []Pool{edit(func(p *Pool) { p.Key = "" })}, nil, []string{"required pools[0].key"}},
		{"same key", []Pool{good(), good()}, nil, []string{`duplicate pools[1].key: "p": is also the key of pools[0]`}},
		{"same key, further on", []Pool{{Key: "q", Limit: Count(1)}, good(), good()}, nil, []string{`duplicate pools[2].key: "p": is also the key of pools[1]`}},
		{"limit", []Pool{edit(func(p *Pool) { p.Limit = Limit{} })}, nil, []string{"required pools[0].limit: is required"}},
		{"rounding", []Pool{edit(func(p *Pool) { p.Rounding = "up" })}, nil, []string{`unknown_value pools[0].rounding: "up"`}},
		{"several", []Pool{edit(func(p *Pool) { p.Total, p.StuckAfter, p.OnStuck = -1, -1, "release" })}, nil, []string{"out_of_range pools[0].total: -1", "out_of_range pools[0].stuckAfter: -1ns", `unknown_value pools[0].onStuck: "release"`}},
		{"family without keys", []Pool{edit(func(p *Pool) { p.Family = "f" })}, nil, []string{`conflict pools[0].maxActiveKeys: 0: must be at least 1 with a family ("f")`}},
		{"keys without family", []Pool{edit(func(p *Pool) { p.MaxActiveKeys = 1 })}, nil, []string{"conflict pools[0].maxActiveKeys"}},
		{"negative keys", []Pool{edit(func(p *Pool) { p.Family, p.MaxActiveKeys = "f", -1 })}, nil, []string{"conflict pools[0].maxActiveKeys: -1"}},
		{"keys without family, twice", []Pool{edit(func(p *Pool) { p.MaxActiveKeys = 1 }), {Key: "q", Limit: Count(1), MaxActiveKeys: 2}}, nil, []string{"conflict pools[0].maxActiveKeys", "conflict pools[1].maxActiveKeys: 2: must be at least 1"}},
		{"a family with keys and without", []Pool{edit(func(p *Pool) { p.Family, p.MaxActiveKeys = "f", 2 }), {Key: "q", Limit: Count(1), Family: "f"}}, nil, []string{"conflict pools[1].maxActiveKeys"}},
		{"fewer keys", []Pool{edit(func(p *Pool) { p.Family, p.MaxActiveKeys = "f", 2 }), {Key: "q", Limit: Count(1), Family: "f", MaxActiveKeys: 1}}, nil, []string{"conflict pools[1].maxActiveKeys: 1: must be 2 as in pools[0]"}},
		{"different keys", []Pool{edit(func(p *Pool) { p.Family, p.MaxActiveKeys = "f", 1 }), {Key: "q", Limit: Count(1), Family: "f", MaxActiveKeys: 2}}, nil, []string{"conflict pools[1].maxActiveKeys: 2: must be 1 as in pools[0]"}},
		{"record of another pool", []Pool{edit(func(p *Pool) { p.Record = NewRecord("q") })}, nil, []string{`conflict pools[0].record.key: "q": must be the pool's key "p"`}},
		{"bad record", []Pool{edit(func(p *Pool) { p.Record = record })}, nil, []string{"out_of_range pools[0].record.nextToken: 0"}},
		{"index", []Pool{good()}, []Candidate{{Resource: "n", Needs: []int32{1}}, {Resource: "n", Needs: []int32{-1}}}, []string{"out_of_range candidates[0].needs[0]: 1", "out_of_range candidates[1].needs[0]: -1"}},
		{"twice", []Pool{good(), {Key: "q", Limit: Count(1)}}, []Candidate{{Resource: "n", Needs: []int32{0, 1, 0}}, {Resource: "n", Needs: []int32{1, 0}}}, []string{"duplicate candidates[0].needs[2]: 0: is listed twice"}},
		{"pools and candidates", []Pool{edit(func(p *Pool) { p.Key = "" })}, []Candidate{{}}, []string{"required pools[0].key", "required candidates[0].resource"}},
		{"pools and an index", []Pool{edit(func(p *Pool) { p.Key = "" })}, []Candidate{{Resource: "n", Needs: []int32{0, 1}}}, []string{"required pools[0].key", "out_of_range candidates[0].needs[1]: 1"}},
		{"resource", []Pool{good()}, []Candidate{{}}, []string{"required candidates[0].resource"}},
		{"resource, further on", []Pool{good()}, []Candidate{{Resource: "n"}, {}}, []string{"required candidates[1].resource"}},
	} {
		r, err := Plan(Snapshot{Pools: c.pools}, c.candidates, epoch)
		if err == nil {
			t.Errorf("%s: no error", c.name)
			continue
		}
		lines := faultsOf(t, err)
		if len(lines) != len(c.want) {
			t.Errorf("%s: %q, want %q", c.name, lines, c.want)
			continue
		}
		for i, want := range c.want {
			if !strings.HasPrefix(lines[i], want) {
				t.Errorf("%s: %q, want %q", c.name, lines[i], want)
			}
		}
		if diff := cmp.Diff(Result{}, r); diff != "" {
			t.Errorf("%s: something was decided: %s", c.name, diff)
		}
		if len(c.candidates) == 0 {
			if _, err2 := NewQueue(Snapshot{Pools: c.pools}, epoch); err2 == nil || err2.Error() != err.Error() {
				t.Errorf("%s: queue: %v", c.name, err2)
			}
		}
	}
	for _, part := range []Record{{Schema: 1}, {Key: "p"}, {NextToken: 1}, {Leases: []Lease{{}}}} {
		if _, err := Plan(Snapshot{Pools: []Pool{edit(func(p *Pool) { p.Record = part })}}, nil, epoch); err == nil {
			t.Errorf("%+v is part of a record, not that of a pool that nobody ever used", part)
		}
	}
	many := make([]Candidate, 1000)
	_, err := Plan(Snapshot{}, many, epoch)
	if n := strings.Count(err.Error(), "\n") + 1; n != maxFaults {
		t.Errorf("%d faults of candidates reported, want %d", n, maxFaults)
	}
	if _, err := Plan(Snapshot{Pools: []Pool{{Key: "lost", Unknown: true, Total: -1}}}, nil, epoch); err != nil {
		t.Errorf("of an unknown pool nothing but the key is looked at: %v", err)
	}
}

func TestReasons(t *testing.T) {
	for reason, want := range map[Reason]ConditionKind{
		SlotFree: "", SlotHeld: "", SlotAlreadyDown: "", RuleNotApplicable: "",
		SlotExclusive: "slot", SlotHalted: "available", SlotFull: "slot", SlotKeysFull: "slot", SlotReserved: "slot", SlotPaused: "config", PoolUnknown: "config", SlotRateFull: "rate",
	} {
		if reason.On() != want {
			t.Errorf("%s: on %q, want %q", reason, reason.On(), want)
		}
	}
	if Reason("other").On() != "" {
		t.Error("nobody knows what ends an unknown reason")
	}
}
