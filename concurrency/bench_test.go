package concurrency

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/tranche-dev/tranche/internal/testkit"
)

// fleet is n candidates over three pools each: one of all, one of ten of a tenth, one of a thousand
// small ones. Candidates, pools and the lists of unavailable resources are in order. Every
// downEvery-th resource is unavailable; 0: none is.
func fleet(n int, downEvery int) (Snapshot, []Candidate) {
	var s Snapshot
	add := func(key string, total int, limit Limit) {
		p := Pool{Key: key, Total: total, Limit: limit, Record: NewRecord(key)}
		s.Pools = append(s.Pools, p)
	}
	add("all", n, Percent(20))
	for i := range 10 {
		add(fmt.Sprintf("tenth-%d", i), n/10, Percent(20))
	}
	for i := range 1000 {
		add(fmt.Sprintf("unit-%03d", i), max(1, n/1000), Percent(20))
	}
	candidates := make([]Candidate, n)
	needs := make([]int32, 3*n)
	for i := range candidates {
		k := needs[3*i : 3*i+3 : 3*i+3]
		k[0], k[1], k[2] = 0, int32(1+i%10), int32(11+i%1000)
		candidates[i] = Candidate{Resource: fmt.Sprintf("node-%07d", i), Group: "group-1", Rank: i, Needs: k}
	}
	if downEvery > 0 {
		for i := 0; i < n; i += downEvery {
			for _, p := range candidates[i].Needs {
				s.Pools[p].Unavailable = append(s.Pools[p].Unavailable, candidates[i].Resource)
			}
		}
	}
	return s, candidates
}

var sink any

// naive is the plain loop: string keys, maps, no explanation, no tokens, no duplicates.
func naive(s Snapshot, candidates []Candidate) (admitted []string) {
	room := make(map[string]int, len(s.Pools))
	down := map[string]bool{}
	for i := range s.Pools {
		p := &s.Pools[i]
		room[p.Key] = p.max() - len(p.Unavailable)
		for _, r := range p.Unavailable {
			down[r] = true
		}
	}
	for _, c := range candidates {
		if down[c.Resource] {
			admitted = append(admitted, c.Resource)
			continue
		}
		fits := true
		for _, p := range c.Needs {
			fits = fits && room[s.Pools[p].Key] > 0
		}
		if !fits {
			continue
		}
		for _, p := range c.Needs {
			room[s.Pools[p].Key]--
		}
		admitted = append(admitted, c.Resource)
	}
	return admitted
}

// perCandidate reports the time per candidate: of the clock, and of the processor, which on a
// shared machine says more.
func perCandidate(b *testing.B, n int, run func()) {
	b.ReportAllocs()
	before := testkit.CPUTime()
	for b.Loop() {
		run()
	}
	spent := testkit.CPUTime() - before
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/candidate")
	b.ReportMetric(float64(spent.Nanoseconds())/float64(b.N)/float64(n), "cpu-ns/candidate")
}

func BenchmarkPlan(b *testing.B) {
	for _, n := range []int{1_000, 10_000, 100_000, 1_000_000} {
		for _, state := range []struct {
			name      string
			downEvery int
		}{{"idle", 0}, {"busy", 5}} {
			s, candidates := fleet(n, state.downEvery)
			b.Run(fmt.Sprintf("%s/n=%d", state.name, n), func(b *testing.B) {
				perCandidate(b, n, func() {
					r, err := Plan(s, candidates, epoch)
					if err != nil {
						b.Fatal(err)
					}
					sink = r
				})
			})
			b.Run(fmt.Sprintf("naive-%s/n=%d", state.name, n), func(b *testing.B) {
				perCandidate(b, n, func() { sink = naive(s, candidates) })
			})
		}
	}
}

// BenchmarkPlanShuffled: the same, out of order. What it costs more is sorting.
func BenchmarkPlanShuffled(b *testing.B) {
	for _, n := range []int{10_000, 100_000, 1_000_000} {
		s, candidates := fleet(n, 5)
		r := rand.New(rand.NewPCG(1, 2))
		r.Shuffle(n, func(i, k int) { candidates[i], candidates[k] = candidates[k], candidates[i] })
		for i := range s.Pools {
			list := s.Pools[i].Unavailable
			r.Shuffle(len(list), func(i, k int) { list[i], list[k] = list[k], list[i] })
		}
		b.Run(fmt.Sprintf("busy/n=%d", n), func(b *testing.B) {
			perCandidate(b, n, func() {
				r, err := Plan(s, candidates, epoch)
				if err != nil {
					b.Fatal(err)
				}
				sink = r
			})
		})
	}
}

// running is a start of the fleet in a queue.
type running struct {
	Candidate
	claims []Claim
}

// waitingFleet is a queue in which everybody waits who could not start.
func waitingFleet(t testing.TB, n int) (*Queue, []running) {
	s, candidates := fleet(n, 0)
	q, err := NewQueue(s, epoch)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range candidates {
		if _, err := q.Add(c); err != nil {
			t.Fatal(err)
		}
	}
	return q, started(q, candidates)
}

func started(q *Queue, candidates []Candidate) (list []running) {
	for _, a := range q.Admit() {
		list = append(list, running{candidates[a.Candidate], a.Claims})
	}
	return list
}

// event ends one that runs; whoever is next starts, and the ended one waits again.
func event(t testing.TB, q *Queue, list *[]running) {
	r := (*list)[0]
	*list = (*list)[1:]
	for _, c := range r.claims {
		if err := q.Release(c.Pool, Holder{r.Resource, r.Group}, c.Revision); err != nil {
			t.Fatal(err)
		}
	}
	r.Rank += 10_000_000
	if _, err := q.Add(r.Candidate); err != nil {
		t.Fatal(err)
	}
	candidates := q.waiting
	for _, a := range q.Admit() {
		*list = append(*list, running{candidates[a.Candidate].Candidate, a.Claims})
	}
}

func BenchmarkQueueEvent(b *testing.B) {
	for _, n := range []int{1_000, 10_000, 100_000, 1_000_000} {
		q, list := waitingFleet(b, n)
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				event(b, q, &list)
			}
		})
	}
}

// manyEnds is a queue with as many pools as candidates, all of which got a place at one time.
func manyEnds(t testing.TB, n int) *Queue {
	s := Snapshot{Pools: make([]Pool, n)}
	for i := range s.Pools {
		s.Pools[i] = Pool{Key: fmt.Sprintf("%06d", i), Limit: Count(1), Total: 2, Jobs: []Holder{{fmt.Sprint("old", i), "g"}}}
	}
	q, err := NewQueue(s, epoch)
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if _, err := q.Add(Candidate{fmt.Sprint("new", i), "g", (i * 7) % n, []int32{int32(i)}, false}); err != nil {
			t.Fatal(err)
		}
	}
	if got := q.Admit(); len(got) != 0 {
		t.Fatalf("%d start where nothing is free", len(got))
	}
	for i := range n {
		if err := q.Release(int32(i), s.Pools[i].Jobs[0], 1); err != nil {
			t.Fatal(err)
		}
	}
	return q
}

// BenchmarkQueueEnds is the walk after a place became free in each of many pools.
func BenchmarkQueueEnds(b *testing.B) {
	for _, n := range []int{1_000, 10_000, 100_000} {
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				q := manyEnds(b, n)
				b.StartTimer()
				if got := q.Admit(); len(got) != n {
					b.Fatal(len(got))
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/candidate")
		})
	}
}

// BenchmarkOneResource lets many groups ask for one resource, as many deployments do for one
// cluster: once one starts, all may.
func BenchmarkOneResource(b *testing.B) {
	for _, n := range []int{10, 100, 1_000, 10_000} {
		snapshot := Snapshot{Pools: []Pool{{Key: "p", Limit: Count(1), Total: 1}}}
		candidates := make([]Candidate, n)
		for i := range candidates {
			candidates[i] = Candidate{Resource: "n", Group: strconv.Itoa(i), Needs: []int32{0}}
		}
		b.Run(fmt.Sprintf("plan/n=%d", n), func(b *testing.B) {
			perCandidate(b, n, func() {
				if result, err := Plan(snapshot, candidates, epoch); err != nil || len(result.Admitted) != n {
					b.Fatal(len(result.Admitted), err)
				}
			})
		})
		if n > 1_000 {
			continue // each event looks at all that wait on its resource
		}
		b.Run(fmt.Sprintf("queue/n=%d", n), func(b *testing.B) {
			perCandidate(b, n, func() {
				q, err := NewQueue(snapshot, epoch)
				if err != nil {
					b.Fatal(err)
				}
				for _, c := range candidates {
					if _, err := q.Add(c); err != nil {
						b.Fatal(err)
					}
				}
				if started := q.Admit(); len(started) != n {
					b.Fatal(len(started))
				}
			})
		})
	}
}
