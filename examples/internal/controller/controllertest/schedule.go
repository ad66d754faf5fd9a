//go:build unix

package controllertest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/examples/internal/controller"
	"github.com/tranche-dev/tranche/rollout"
)

// Tally counts what happened in schedules.
type Tally struct {
	mu     sync.Mutex
	counts map[string]int
}

func (t *Tally) add(what string, n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.counts == nil {
		t.counts = map[string]int{}
	}
	t.counts[what] += n
}

// Count returns how often something happened.
func (t *Tally) Count(what string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.counts[what]
}

// String lists the counts by name.
func (t *Tally) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var parts []string
	for _, what := range slices.Sorted(maps.Keys(t.counts)) {
		parts = append(parts, fmt.Sprintf("%s %d", what, t.counts[what]))
	}
	return strings.Join(parts, ", ")
}

// RunSchedules runs n schedules, as subtests by their seeds, and returns what happened in them. In each, two controllers on one database upgrade four
// nodes, at most two at a time, and disagree about who comes first. They are processes, and until some seconds have passed they are killed and paused at random moments, from without
// and, between any two calls of the database, from within; the network between them and the database stalls, loses answers and is cut. Then they
// are left alone, and everything must come to its end.
//
// Checked are: never more nodes disrupted than allowed; every job created once, under a token that belongs to its holder; drains before, uncordons
// after everything else, each succeeding once per group; no job lost; in the end the newest versions everywhere and no slot held.
//
// A seed fixes who does what to whom, and not how the machine interleaves it: a failure may need the same seed several times to come back.
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

// failed reports an error of the test's own calls, unless the servers are harmed: then the outcome is unknown, and the call is repeated.
func (s *schedule) failed(format string, args ...any) {
	if s.driver.Disturb != nil {
		s.tally.add("own call failed", 1)
		return
	}
	s.Errorf(format, args...)
}

// observe reads the jobs and checks what must hold at every moment. It reports whether it could.
func (s *schedule) observe() (jobs []controller.Job, active []concurrency.Holder, seen bool) {
	s.mu.Lock()
	for _, fault := range s.faults {
		s.Error(fault)
	}
	s.faults = nil
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(s.Context(), 20*time.Second)
	defer cancel()
	active, err := s.db.Jobs.Active(ctx, poolKey)
	if err != nil {
		s.failed("count jobs: %v", err)
		return nil, nil, false
	}
	s.bounded(active)
	if jobs, err = s.db.Jobs.All(ctx); err != nil {
		s.failed("read jobs: %v", err)
		return nil, nil, false
	}
	return jobs, active, true
}

// bounded checks the limit.
func (s *schedule) bounded(active []concurrency.Holder) {
	disrupted := map[string]bool{}
	for _, holder := range active {
		disrupted[holder.Resource] = true
	}
	if len(disrupted) > limit {
		s.Errorf("%d nodes are disrupted at once, %d may be: %v", len(disrupted), limit, active)
	}
	s.tally.mu.Lock()
	defer s.tally.mu.Unlock()
	if s.tally.counts == nil {
		s.tally.counts = map[string]int{}
	}
	s.tally.counts["peak"] = max(s.tally.counts["peak"], len(disrupted))
}

// agents do the work of the jobs: they begin, take their time, and end, now and then without success.
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

func current(jobs []controller.Job) map[rollout.TargetID]controller.Job {
	newest := map[rollout.TargetID]controller.Job{}
	for _, job := range jobs {
		if job.Status == rollout.JobSuccessful && job.CompletedAt.After(newest[job.TargetID].CompletedAt) {
			newest[job.TargetID] = job
		}
	}
	return newest
}

// leases are those that are held now.
func (s *schedule) leases() []concurrency.Lease {
	value, _, err := s.db.Store.Load(s.Context(), rollout.PoolKey(poolKey))
	if err != nil {
		return []concurrency.Lease{{Reason: err.Error()}} // not yet written
	}
	record, err := concurrency.ParseRecord(value)
	if err != nil {
		s.Errorf("pool: %v", err)
	}
	return record.Leases
}

func (s *schedule) finished(jobs []controller.Job, active []concurrency.Holder, size int) bool {
	if len(active) > 0 {
		return false
	}
	now := current(jobs)
	for i := range size {
		for deployment, version := range wanted() {
			if now[rollout.TargetID{Resource: fmt.Sprint("node-", i), Environment: "prod", Deployment: deployment}].Version != version {
				return false
			}
		}
	}
	return len(s.leases()) == 0
}

func (s *schedule) state(jobs []controller.Job, active []concurrency.Holder) string {
	var b strings.Builder
	fmt.Fprintf(&b, "active %v, leases %+v", active, s.leases())
	for _, job := range jobs {
		fmt.Fprintf(&b, "\n%s %s %s %s", job.Run, job.Status, job.CreatedAt.Format("15:04:05.000"), job.CompletedAt.Format("15:04:05.000"))
	}
	return b.String()
}

// audit looks at everything that happened, when it is over.
func (s *schedule) audit() {
	jobs, err := s.db.Jobs.All(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	known := map[string]bool{}
	type unit struct{ resource, group string }
	units := map[unit][]controller.Job{}
	for _, job := range jobs {
		known[job.Run] = true
		if bracketed(job.Group) {
			u := unit{job.Resource, job.Group}
			units[u] = append(units[u], job)
		}
	}
	s.mu.Lock()
	for run, n := range s.created {
		if n > 1 {
			s.Errorf("run %s was created by %d controllers", run, n)
		}
		if !known[run] {
			s.Errorf("run %s was created and is lost", run)
		}
	}
	s.mu.Unlock()
	for u, all := range units {
		var drained, prepared time.Time // ends of the drain, and of the last main
		succeeded := map[string]int{}
		for _, job := range all {
			if job.Status == rollout.JobSuccessful {
				succeeded[job.Deployment]++
				switch {
				case job.Deployment == drain:
					drained = job.CompletedAt
				case job.Deployment != uncordon && job.CompletedAt.After(prepared):
					prepared = job.CompletedAt
				}
			}
		}
		if succeeded[drain] != 1 || succeeded[uncordon] != 1 {
			s.Errorf("%v: %d drains and %d uncordons succeeded, want one of each: %s", u, succeeded[drain], succeeded[uncordon], s.state(all, nil))
		}
		for _, job := range all {
			switch {
			case job.Deployment == uncordon && job.CreatedAt.Before(prepared):
				s.Errorf("%s began at %v, the last main ended at %v", job.Run, job.CreatedAt, prepared)
			case job.Deployment != uncordon && job.Deployment != drain && job.CreatedAt.Before(drained):
				s.Errorf("%s began at %v, the drain ended at %v", job.Run, job.CreatedAt, drained)
			}
		}
	}
	s.tally.add("finished", 1)
	s.tally.add("execution", len(units))
}

// host is a controller with the network around it. Its process comes and goes.
type host struct {
	*schedule
	number  uint64
	name    string
	proxies []*proxy
	address string

	mu      sync.Mutex
	process *os.Process
	stdin   io.WriteCloser
}

// random returns the source of one of the goroutines around a host.
func (h *host) random(use uint64) *rand.Rand { return rand.New(rand.NewPCG(h.seed, 1+h.number*10+use)) }

// supervise starts the process again and again, until the test ends.
func (h *host) supervise() {
	life := h.random(1)
	for n := 0; ; n++ {
		select {
		case <-h.over:
			return
		default:
		}
		description, err := json.Marshal(child{
			Address: h.address, Space: h.space, Seed: life.Uint64(), Nodes: scheduleNodes, Contrary: h.number > 0, Epoch: h.clock.epoch, Start: h.clock.start,
		})
		if err != nil {
			h.fault("%v", err)
			return
		}
		process, out, err := h.start(string(description))
		if err != nil {
			h.fault("start %s: %v", h.name, err)
			return
		}
		h.tally.add("process", 1)
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			h.hear(process.Process, lines.Text(), life)
		}
		err = process.Wait()
		h.mu.Lock()
		h.process = nil
		h.mu.Unlock()
		if exit := new(exec.ExitError); err != nil && (!errors.As(err, &exit) || exit.ExitCode() > 0) {
			h.fault("%s ended: %v", h.name, err)
			return
		}
		h.sleep(life, 10, 100)
	}
}

func (h *host) start(description string) (*exec.Cmd, io.Reader, error) {
	process := exec.Command(os.Args[0])
	process.Env = append(os.Environ(), childVariable+"="+description)
	process.Stderr = os.Stderr
	process.SysProcAttr = attributes()
	stdin, err := process.StdinPipe()
	if err != nil {
		return nil, nil, err
	}
	out, err := process.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := process.Start(); err != nil {
		return nil, nil, err
	}
	h.mu.Lock()
	h.process, h.stdin = process.Process, stdin
	h.mu.Unlock()
	h.group.Go(func() { // it ends with the test at the latest, paused or not
		select {
		case <-h.calm:
			_, _ = io.WriteString(stdin, "calm\n")
		case <-h.over:
		}
		<-h.over
		_ = process.Process.Signal(syscall.SIGCONT)
		_ = stdin.Close()
		time.AfterFunc(time.Second, func() { _ = process.Process.Kill() }) // a process that has ended is not signalled
	})
	return process, out, nil
}

// hear takes down what a controller says.
func (h *host) hear(process *os.Process, line string, life *rand.Rand) {
	kind, rest, _ := strings.Cut(line, " ")
	n := 1
	switch kind {
	case lineStopped:
		pause := time.Duration(20+life.IntN(1200)) * time.Millisecond
		h.group.Go(func() {
			select {
			case <-h.over:
			case <-h.calm:
			case <-time.After(pause):
			}
			time.Sleep(2 * time.Millisecond) // so that the process has stopped by now
			_ = process.Signal(syscall.SIGCONT)
		})
	case lineCreated:
		h.schedule.mu.Lock()
		h.created[rest]++
		h.schedule.mu.Unlock()
	case lineConflict:
		n, _ = strconv.Atoi(rest)
	case lineKilled, lineRepeated, lineReleased, lineFenced, lineBusy, lineGaveUp, lineFailed:
	default:
		h.fault("%s: %s", h.name, line)
	}
	h.tally.add(kind, n)
}

func (s *schedule) fault(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, fmt.Sprintf(format, args...))
}

// sleep waits for a random time, and reports whether there is still trouble to make.
func (h *host) sleep(random *rand.Rand, least, most int) bool {
	select {
	case <-h.over:
	case <-h.calm:
	case <-time.After(time.Duration(least+random.IntN(most-least)) * time.Millisecond):
		return true
	}
	return false
}

// network makes the network between the controller and its database fail, at times for longer than the controller waits.
func (h *host) network() {
	random := h.random(2)
	for h.sleep(random, 100, 700) {
		kind := [...]string{"stalled", "deaf", "cut"}[random.IntN(3)]
		h.tally.add(kind, 1)
		for _, p := range h.proxies {
			switch kind {
			case "stalled":
				p.stall()
			case "deaf":
				p.deafen()
			default:
				p.cut()
			}
		}
		if kind != "cut" {
			h.sleep(random, 50, 3*int(callTimeout/time.Millisecond))
		}
		for _, p := range h.proxies {
			p.resume()
		}
	}
}

// killer kills the process from without.
func (h *host) killer() {
	random := h.random(3)
	for h.sleep(random, 300, 2500) {
		h.mu.Lock()
		if h.process != nil {
			_ = h.process.Signal(syscall.SIGKILL)
			h.tally.add("killed", 1)
		}
		h.mu.Unlock()
	}
}
