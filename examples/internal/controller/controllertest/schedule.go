//go:build unix

package controllertest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/examples/internal/controller"
	"github.com/tranche-dev/tranche/rollout"
)

// RunSchedules runs n schedules, as subtests by their seeds, and returns what happened in them. In
// each, two controllers on one database upgrade four nodes, at most two at a time, and disagree
// about who comes first. They are processes, and until some seconds have passed they are killed and
// paused at random moments, from without and, between any two calls of the database, from within;
// the network between them and the database stalls, loses answers and is cut. Then they are left
// alone, and everything must come to its end.
//
// Checked are: never more nodes disrupted than allowed; every job created once, under a token that
// belongs to its holder; drains before, uncordons after everything else, each succeeding once per
// group; no job lost; no target taken back to an older version than one that succeeded there; in
// the end the newest versions everywhere and no slot held.
//
// A seed fixes who does what to whom, and not how the machine interleaves it: a failure may need
// the same seed several times to come back.
func RunSchedules(t *testing.T, d Driver, n int, seed uint64) *Tally {
	tally := &Tally{}
	t.Run("schedules", func(t *testing.T) {
		for i := range uint64(n) {
			t.Run(fmt.Sprint("seed=", seed+i), func(t *testing.T) {
				if d.Disturb == nil {
					t.Parallel()
				}
				newSchedule(t, d, seed+i, tally).run()
			})
		}
	})
	t.Logf("%d schedules: %v", n, tally)
	return tally
}

// schedule is one of them.
type schedule struct {
	testing.TB
	driver Driver
	seed   uint64
	tally  *Tally
	space  string
	db     Database
	clock  scaled
	random *rand.Rand // of the agents, which are in the goroutine of the test
	hosts  []*host
	over   chan struct{} // closed when the test ends
	calm   chan struct{} // closed when the trouble is over
	group  sync.WaitGroup

	mu      sync.Mutex
	created map[string]int // run → how many controllers say that they created it
	faults  []string       // what a controller says that must not be
	started map[string]bool
}

const scheduleNodes = 4

func newSchedule(tb testing.TB, d Driver, seed uint64, tally *Tally) *schedule {
	space := d.Space(tb)
	s := &schedule{
		TB: tb, driver: d, seed: seed, tally: tally, space: space, db: d.open(tb, space),
		clock:  scaled{epoch: epoch(), start: time.Now()},
		random: rand.New(rand.NewPCG(seed, 0)), over: make(chan struct{}), calm: make(chan struct{}),
		created: map[string]int{}, started: map[string]bool{},
	}
	var members []string
	for i := range scheduleNodes {
		members = append(members, fmt.Sprint("node-", i))
	}
	if err := s.db.Jobs.SetPool(tb.Context(), poolKey, members); err != nil {
		tb.Fatal(err)
	}
	return s
}

// trouble is how long things go wrong, and patience how long everything may take.
const (
	trouble  = 2 * time.Second
	patience = 60 * time.Second
)

func (s *schedule) run() {
	for i := range 2 {
		h := &host{schedule: s, number: uint64(i), name: fmt.Sprint("controller ", i)}
		h.proxies, h.address = s.driver.proxied(s.TB)
		s.hosts = append(s.hosts, h)
		s.group.Go(h.supervise)
		s.group.Go(h.network)
		s.group.Go(h.killer)
	}
	if s.driver.Disturb != nil {
		s.group.Go(s.disturb)
	}
	defer s.group.Wait()
	defer close(s.over)
	begun := time.Now()
	calm := false
	for {
		if !calm && time.Since(begun) > trouble {
			calm = true
			close(s.calm)
		}
		jobs, active, seen := s.observe()
		if s.Failed() {
			return
		}
		if !seen {
			time.Sleep(20 * time.Millisecond)
			continue
		}
		if calm && s.finished(jobs, active, scheduleNodes) {
			break
		}
		if time.Since(begun) > patience {
			s.Errorf("the rollout does not end: %s", s.state(jobs, active))
			return
		}
		s.agents(jobs, calm)
		time.Sleep(5 * time.Millisecond)
	}
	s.audit()
}

// disturb harms the servers, again and again while there is trouble.
func (s *schedule) disturb() {
	random := rand.New(rand.NewPCG(s.seed, 0xd))
	for {
		select {
		case <-s.over:
			return
		case <-s.calm:
			return
		case <-time.After(time.Duration(100+random.IntN(500)) * time.Millisecond):
		}
		s.tally.add("disturbed", 1)
		if err := s.driver.Disturb(); err != nil {
			s.fault("disturb: %v", err)
			return
		}
	}
}

// agents do the work of the jobs: they begin, take their time, and end, now and then without
// success.
func (s *schedule) agents(jobs []controller.Job, calm bool) {
	ctx, cancel := context.WithTimeout(s.Context(), 20*time.Second)
	defer cancel()
	now := s.clock.Now()
	for _, job := range jobs {
		switch {
		case job.Status.Terminal():
		case job.Status == rollout.JobQueued:
			if s.started[job.Run] {
				s.Errorf("run %s is queued again after it began", job.Run)
			}
			if err := s.db.Jobs.Report(ctx, job.Run, rollout.JobInProgress, now); err != nil {
				s.failed("begin %s: %v", job.Run, err)
				continue
			}
			s.started[job.Run] = true
		case now.Sub(job.CreatedAt) >= durations()[job.Deployment]:
			status := rollout.JobSuccessful
			if !calm && s.random.IntN(12) == 0 {
				status = rollout.JobFailure
				s.tally.add("job failed", 1)
			}
			before, err := s.db.End(ctx, job.Run, status, now)
			if err != nil {
				s.failed("end %s: %v", job.Run, err)
				continue
			}
			s.bounded(before)
			s.tally.add("job", 1)
		}
	}
}

// failed reports an error of the test's own calls, unless the servers are harmed: then the outcome
// is unknown, and the call is repeated.
func (s *schedule) failed(format string, args ...any) {
	if s.driver.Disturb != nil {
		s.tally.add("own call failed", 1)
		return
	}
	s.Errorf(format, args...)
}

func (s *schedule) fault(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, fmt.Sprintf(format, args...))
}
