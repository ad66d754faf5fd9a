package concurrencytest_test

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/concurrency/concurrencytest"
)

func TestMemoryJobs(t *testing.T) {
	concurrencytest.Run(t, func(*testing.T) concurrencytest.Backend { return new(concurrency.MemoryJobs) })
}

// TestRunCallsNewBackend: as often as the doc says.
func TestRunCallsNewBackend(t *testing.T) {
	checks, err := strconv.Atoi(flag.Lookup("rapid.checks").Value.String())
	if err != nil {
		t.Fatal(err)
	}
	if testing.Short() {
		checks /= 5
	}
	calls, cases := 0, 0
	t.Run("kit", func(t *testing.T) {
		concurrencytest.Run(t, func(t *testing.T) concurrencytest.Backend {
			if calls++; !strings.HasSuffix(t.Name(), "/random_histories") {
				cases++
			}
			return new(concurrency.MemoryJobs)
		})
	})
	if want := concurrencytest.Cases(); cases != want || calls != want+checks {
		t.Errorf("%d calls for the cases and %d in all, want %d and %d", cases, calls, want, want+checks)
	}
}

// TestJobTable: the counter of the example keeps the promises.
func TestJobTable(t *testing.T) {
	concurrencytest.Run(t, func(*testing.T) concurrencytest.Backend { return new(jobTable) })
}

// TestFinalJobs: a backend may refuse to move a job and to take up one that has ended.
func TestFinalJobs(t *testing.T) {
	concurrencytest.Run(t, func(*testing.T) concurrencytest.Backend { return &final{jobs: map[string]concurrency.Job{}} })
}

// TestBreakable: a backend that can be cut off, and says so.
func TestBreakable(t *testing.T) {
	for name, page := range map[string]int{"pages": 500, "a request for each job": 1} {
		t.Run(name, func(t *testing.T) {
			concurrencytest.Run(t, func(*testing.T) concurrencytest.Backend { return &paged{page: page} })
		})
	}
}

func TestMemoryJobsRefuses(t *testing.T) {
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	var m concurrency.MemoryJobs
	if m.SetPool(cancelled, "p", []string{"n1"}) == nil || m.PutJob(cancelled, concurrency.Job{ID: "1", Resource: "n1"}) == nil {
		t.Error("a cancelled context must be refused")
	}
	for _, job := range []concurrency.Job{{ID: "1"}, {Resource: "n1"}} {
		if m.PutJob(t.Context(), job) == nil {
			t.Errorf("%+v must be refused", job)
		}
	}
	if err := m.SetPool(t.Context(), "p", []string{"n1"}); err != nil {
		t.Fatal(err)
	}
	if got, err := m.Active(t.Context(), "p"); err != nil || len(got) != 0 {
		t.Errorf("what was refused is not there: %v, %v", got, err)
	}
}

// broken is the reference with one promise broken.
type broken struct {
	*concurrency.MemoryJobs
	active func(ctx context.Context, pool string, of *concurrency.MemoryJobs) ([]concurrency.Holder, error)
}

func (b broken) Active(ctx context.Context, pool string) ([]concurrency.Holder, error) {
	return b.active(ctx, pool, b.MemoryJobs)
}

// failing stores nothing.
type failing struct{ read, job, members error }

func (f failing) Active(ctx context.Context, _ string) ([]concurrency.Holder, error) {
	return nil, errors.Join(f.read, ctx.Err())
}
func (f failing) SetPool(context.Context, string, []string) error { return f.members }
func (f failing) PutJob(context.Context, concurrency.Job) error   { return f.job }

// TestKitFindsFaults: a kit that accepts everything proves nothing.
func TestKitFindsFaults(t *testing.T) {
	faults := map[string]func(context.Context, string, *concurrency.MemoryJobs) ([]concurrency.Holder, error){
		"unsorted": func(ctx context.Context, pool string, m *concurrency.MemoryJobs) ([]concurrency.Holder, error) {
			h, err := m.Active(ctx, pool)
			slices.Reverse(h)
			return h, err
		},
		"an error is nobody": func(ctx context.Context, pool string, m *concurrency.MemoryJobs) ([]concurrency.Holder, error) {
			h, _ := m.Active(ctx, pool)
			return h, nil
		},
		"first page only": func(ctx context.Context, pool string, m *concurrency.MemoryJobs) ([]concurrency.Holder, error) {
			h, err := m.Active(ctx, pool)
			return h[:min(len(h), 1000)], err
		},
		"one group per resource": func(ctx context.Context, pool string, m *concurrency.MemoryJobs) ([]concurrency.Holder, error) {
			h, err := m.Active(ctx, pool)
			return slices.CompactFunc(h, func(a, b concurrency.Holder) bool { return a.Resource == b.Resource }), err
		},
		"sorted without case": func(ctx context.Context, pool string, m *concurrency.MemoryJobs) ([]concurrency.Holder, error) {
			h, err := m.Active(ctx, pool)
			slices.SortStableFunc(h, func(a, b concurrency.Holder) int {
				return cmp.Compare(strings.ToLower(a.Resource), strings.ToLower(b.Resource))
			})
			return h, err
		},
		"repeated": func(ctx context.Context, pool string, m *concurrency.MemoryJobs) ([]concurrency.Holder, error) {
			h, err := m.Active(ctx, pool)
			return append(h, h...), err
		},
	}
	// What fails outright fails in every case that uses it.
	down := errors.New("down")
	for name, backend := range map[string]func() concurrencytest.Backend{
		"reads fail":     func() concurrencytest.Backend { return failing{read: down} },
		"jobs fail":      func() concurrencytest.Backend { return failing{job: down} },
		"members fail":   func() concurrencytest.Backend { return failing{members: down} },
		"nothing stored": func() concurrencytest.Backend { return failing{} },
	} {
		want := 12
		if name == "jobs fail" {
			want = 11 // one case has no jobs
		}
		if name == "nothing stored" {
			want = 11 // and so does nobody
		}
		if failed := concurrencytest.Failures(t.Context(), backend); len(failed) != want {
			t.Errorf("%s: %d cases fail, want %d: %v", name, len(failed), want, failed)
		}
	}
	for name, active := range faults {
		backend := func() concurrencytest.Backend { return broken{new(concurrency.MemoryJobs), active} }
		if failed := concurrencytest.Failures(t.Context(), backend); len(failed) == 0 {
			t.Errorf("%s: the kit found nothing", name)
		} else {
			t.Logf("%s: %v", name, failed)
		}
	}
	for want, backend := range map[string]func() concurrencytest.Backend{
		"statuses":           func() concurrencytest.Backend { return &careless{over: "some-future-status"} },
		"members":            func() concurrencytest.Backend { return &careless{firstMembers: map[string]bool{}} },
		"the caller's slice": func() concurrencytest.Backend { return &careless{kept: map[string][]concurrency.Holder{}} },
		"odd names":          func() concurrencytest.Backend { return &careless{trim: true} },
		"cancelled context":  func() concurrencytest.Backend { return &careless{deaf: true} },
		"one step":           func() concurrencytest.Backend { return &careless{steps: true} },
		"latest status":      func() concurrencytest.Backend { return &careless{once: map[string]bool{}} },
		"nobody's job":       func() concurrencytest.Backend { return &careless{planned: true} },
		"cut off":            func() concurrencytest.Backend { return &paged{page: 500, half: true} },
	} {
		if failed := concurrencytest.Failures(t.Context(), backend); !slices.Contains(failed, want) {
			t.Errorf("%q was not found: %v", want, failed)
		}
	}
	for name, over := range map[string]string{"pads, as SQL": "successful ", "ignores case": "Successful", "guesses": "failed"} {
		backend := func() concurrencytest.Backend { return &careless{over: over} }
		if failed := concurrencytest.Failures(t.Context(), backend); !slices.Equal(failed, []string{"statuses"}) {
			t.Errorf("a status is compared by what %s: %v fail, want the one case", name, failed)
		}
	}
	shared := func() concurrencytest.Backend { return &careless{latest: map[string][]concurrency.Holder{}} }
	if failed := concurrencytest.Failures(t.Context(), shared); !slices.Contains(failed, "the caller's slice") {
		t.Errorf("callers that ask one after the other share a slice, and it was not found: %v", failed)
	}
	for name, column := range map[string]func(string) string{
		"ignores case":     strings.ToLower,
		"pads, as SQL":     func(name string) string { return cmp.Or(strings.TrimRight(name, " "), name) },
		"composes letters": func(name string) string { return strings.ReplaceAll(name, "e\u0301", "\u00e9") },
		"ends at a NUL":    func(name string) string { name, _, _ = strings.Cut(name, "\x00"); return name },
		"ends at a line":   func(name string) string { name, _, _ = strings.Cut(name, "\n"); return name },
		"is a query":       func(name string) string { return strings.ReplaceAll(name, "+", " ") },
		"is a value in it": func(name string) string { name, _, _ = strings.Cut(name, "&"); return name },
		"is a path":        func(name string) string { return strings.ReplaceAll(name, "//", "/") },
	} {
		backend := func() concurrencytest.Backend { return &careless{pool: column} }
		if failed := concurrencytest.Failures(t.Context(), backend); !slices.Equal(failed, []string{"odd names"}) {
			t.Errorf("the names of pools are in a column that %s: %v fail, want the one case", name, failed)
		}
	}
	cut := func() concurrencytest.Backend {
		return &careless{id: func(id string) string { return id[:min(len(id), 255)] }}
	}
	if failed := concurrencytest.Failures(t.Context(), cut); !slices.Equal(failed, []string{"odd names"}) {
		t.Errorf("the ids of jobs are cut after 255 bytes: %v fail, want the one case", failed)
	}
	unfiltered := func() concurrencytest.Backend { return &careless{unfiltered: true, pools: map[string]bool{}} }
	if failed := concurrencytest.Failures(t.Context(), unfiltered); !slices.Contains(failed, "members") {
		t.Errorf("a pool that is not known has every member: %v fail, want the case of the members", failed)
	}
	for _, by := range []string{"", "/", "#", "\x1f", "\x00"} {
		joined := func(ctx context.Context, pool string, m *concurrency.MemoryJobs) ([]concurrency.Holder, error) {
			holders, err := m.Active(ctx, pool)
			seen := map[string]bool{}
			return slices.DeleteFunc(holders, func(h concurrency.Holder) bool {
				key := h.Resource + by + h.Group
				was := seen[key]
				seen[key] = true
				return was
			}), err
		}
		backend := func() concurrencytest.Backend { return broken{new(concurrency.MemoryJobs), joined} }
		if failed := concurrencytest.Failures(t.Context(), backend); !slices.Equal(failed, []string{"odd names"}) {
			t.Errorf("holders are told apart by their names joined by %q: %v fail, want the one case", by, failed)
		}
		members := func() concurrencytest.Backend { return &keyed{by: by, members: map[string]bool{}} }
		if failed := concurrencytest.Failures(t.Context(), members); !slices.Contains(failed, "odd names") {
			t.Errorf("members are kept by their names joined by %q: %v fail", by, failed)
		}
	}
	for name, backend := range map[string]func() concurrencytest.Backend{
		"cut off, it answers from before":                                func() concurrencytest.Backend { return &paged{page: 500, kept: true} },
		"cut off, it answers with the error":                             func() concurrencytest.Backend { return &paged{page: 500, both: true} },
		"a request for each job, and it passes over the last that fails": func() concurrencytest.Backend { return &paged{page: 1, passed: 1100} },
		"it never recovers":                                              func() concurrencytest.Backend { return &paged{page: 500, forever: true} },
	} {
		if failed := concurrencytest.Failures(t.Context(), backend); !slices.Equal(failed, []string{"cut off"}) {
			t.Errorf("%s: %v fail, want the one case", name, failed)
		}
	}
	for name, backend := range map[string]func() concurrencytest.Backend{
		"a status is taken for terminal":      func() concurrencytest.Backend { return &careless{over: "some-future-status"} },
		"members are read once":               func() concurrencytest.Backend { return &careless{firstMembers: map[string]bool{}} },
		"one slice for all callers":           func() concurrencytest.Backend { return &careless{kept: map[string][]concurrency.Holder{}} },
		"names are changed":                   func() concurrencytest.Backend { return &careless{trim: true} },
		"what ended is never looked at again": func() concurrencytest.Backend { return &careless{once: map[string]bool{}} },
		"only jobs of plans":                  func() concurrencytest.Backend { return &careless{planned: true} },
		"every job is refused":                func() concurrencytest.Backend { return &final{jobs: map[string]concurrency.Job{}, always: true} },
		"nothing is stored":                   func() concurrencytest.Backend { return failing{} },
		"reads fail":                          func() concurrencytest.Backend { return failing{read: down} },
		"unsorted":                            func() concurrencytest.Backend { return broken{new(concurrency.MemoryJobs), faults["unsorted"]} },
		"one group per resource": func() concurrencytest.Backend {
			return broken{new(concurrency.MemoryJobs), faults["one group per resource"]}
		},
	} {
		if !concurrencytest.Diverges(t, backend) {
			t.Errorf("random histories do not find that %s", name)
		}
	}
	for name, backend := range map[string]func() concurrencytest.Backend{
		"the reference":       func() concurrencytest.Backend { return new(concurrency.MemoryJobs) },
		"one with final jobs": func() concurrencytest.Backend { return &final{jobs: map[string]concurrency.Job{}} },
	} {
		if concurrencytest.Diverges(t, backend) {
			t.Errorf("random histories find a mistake of %s", name)
		}
	}
	for name, active := range map[string]func(context.Context, string, *concurrency.MemoryJobs) ([]concurrency.Holder, error){
		"it gives what it read with the error": func(ctx context.Context, pool string, m *concurrency.MemoryJobs) ([]concurrency.Holder, error) {
			h, _ := m.Active(context.WithoutCancel(ctx), pool)
			return h, ctx.Err()
		},
		"it calls a cancelled context something else": func(ctx context.Context, pool string, m *concurrency.MemoryJobs) ([]concurrency.Holder, error) {
			if ctx.Err() != nil {
				return nil, down
			}
			return m.Active(ctx, pool)
		},
		"it heeds no deadline": func(ctx context.Context, pool string, m *concurrency.MemoryJobs) ([]concurrency.Holder, error) {
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				ctx = context.WithoutCancel(ctx)
			}
			return m.Active(ctx, pool)
		},
	} {
		backend := func() concurrencytest.Backend { return broken{new(concurrency.MemoryJobs), active} }
		if failed := concurrencytest.Failures(t.Context(), backend); !slices.Equal(failed, []string{"cancelled context"}) {
			t.Errorf("%s: %v fail, want the one case", name, failed)
		}
	}
	if failed := concurrencytest.Failures(t.Context(), func() concurrencytest.Backend { return withoutNUL{&concurrency.MemoryJobs{}} }); len(failed) > 0 {
		t.Errorf("whoever refuses names with a NUL fails in %v", failed)
	}
	refuses := func() concurrencytest.Backend { return &final{jobs: map[string]concurrency.Job{}, always: true} }
	if failed := concurrencytest.Failures(t.Context(), refuses); len(failed) != 11 {
		t.Errorf("whoever refuses every job fails in %v", failed)
	}
}

// final is the reference where jobs do not move and an end is final.
type final struct {
	concurrency.MemoryJobs
	mu     sync.Mutex
	jobs   map[string]concurrency.Job
	always bool // it refuses every job, which is not allowed
}

func (f *final) PutJob(ctx context.Context, job concurrency.Job) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	old, known := f.jobs[job.ID]
	if f.always || known && (old.Resource != job.Resource || old.Group != job.Group || concurrency.Terminal(old.Status) && old.Status != job.Status) {
		return errors.ErrUnsupported
	}
	f.jobs[job.ID] = job
	return f.MemoryJobs.PutJob(ctx, job)
}

// paged is the reference as if it were read a page at a time.
type paged struct {
	concurrency.MemoryJobs
	page    int
	cut     bool
	pass    int
	passed  int // after so many steps what was read is the answer
	mu      sync.Mutex
	last    []concurrency.Holder
	half    bool // what was read is the answer
	kept    bool // what was read before is the answer
	both    bool // what was read is the answer, together with the error
	forever bool // what is cut off stays cut off
}

func (p *paged) Break(pass int) (mend func()) {
	p.cut, p.pass = true, pass
	return func() { p.cut = p.forever }
}

func (p *paged) Active(ctx context.Context, pool string) ([]concurrency.Holder, error) {
	page := p.page
	holders, err := p.MemoryJobs.Active(ctx, pool)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil || !p.cut || len(holders) < p.pass*page {
		p.last = holders
		return holders, err
	}
	broken := errors.New("cut off")
	switch read := holders[:p.pass*page]; {
	case p.half && p.pass > 0, p.passed > 0 && p.pass > p.passed:
		return read, nil
	case p.both:
		return read, broken
	case p.kept:
		return p.last, nil
	}
	return nil, broken
}

// careless is the reference with mistakes that adapters make.
type careless struct {
	concurrency.MemoryJobs
	mu           sync.Mutex                      // over what follows
	over         string                          // a status that it takes for terminal
	firstMembers map[string]bool                 // members are read once
	kept         map[string][]concurrency.Holder // one slice for all callers
	latest       map[string][]concurrency.Holder // one slice for all callers, as long as it is right
	trim         bool                            // names are trimmed
	deaf         bool                            // the context is ignored
	steps        bool                            // members are replaced one after the other
	once         map[string]bool                 // a job that ended is never looked at again
	planned      bool                            // only jobs of plans are looked at
	pool         func(string) string             // what a column makes of the names of pools
	id           func(string) string             // and of the ids of jobs
	unfiltered   bool                            // a pool that it does not know has every member
	resources    []string                        // of all jobs
	pools        map[string]bool                 // those that it knows
}

func (c *careless) SetPool(ctx context.Context, pool string, resources []string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pool != nil {
		pool = c.pool(pool)
	}
	if c.unfiltered {
		c.pools[pool] = true
	}
	if c.firstMembers != nil {
		if c.firstMembers[pool] {
			return nil
		}
		c.firstMembers[pool] = true
	}
	if c.steps {
		for i := range resources {
			if err := c.MemoryJobs.SetPool(ctx, pool, resources[:i]); err != nil {
				return err
			}
		}
	}
	return c.MemoryJobs.SetPool(ctx, pool, resources)
}

func (c *careless) PutJob(ctx context.Context, job concurrency.Job) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.id != nil {
		job.ID = c.id(job.ID)
	}
	c.resources = append(c.resources, job.Resource)
	if c.over != "" && job.Status == c.over {
		job.Status = "successful"
	}
	if c.planned && job.Group == "" {
		return nil
	}
	if c.trim {
		job.Resource = strings.TrimSpace(job.Resource) + "."
	}
	if c.once != nil {
		if c.once[job.ID] {
			return nil
		}
		c.once[job.ID] = concurrency.Terminal(job.Status)
	}
	return c.MemoryJobs.PutJob(ctx, job)
}

func (c *careless) Active(ctx context.Context, pool string) ([]concurrency.Holder, error) {
	if c.deaf {
		ctx = context.WithoutCancel(ctx)
	}
	if c.pool != nil {
		pool = c.pool(pool)
	}
	if c.unfiltered {
		c.mu.Lock()
		defer c.mu.Unlock()
		if !c.pools[pool] {
			pool = "every resource"
			if err := c.MemoryJobs.SetPool(ctx, pool, c.resources); err != nil {
				return nil, err
			}
		}
	}
	holders, err := c.MemoryJobs.Active(ctx, pool)
	if c.kept != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		if kept, ok := c.kept[pool]; ok {
			return kept, nil
		}
		c.kept[pool] = holders
	}
	if c.latest != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		if latest := c.latest[pool]; slices.Equal(latest, holders) {
			return latest, err
		}
		c.latest[pool] = holders
	}
	return holders, err
}

// keyed keeps the members of all pools in one set of names.
type keyed struct {
	concurrency.MemoryJobs
	by      string
	mu      sync.Mutex
	members map[string]bool
	all     []string
}

func (k *keyed) SetPool(ctx context.Context, pool string, resources []string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	for key := range k.members {
		if strings.HasPrefix(key, pool+k.by) && !slices.Contains(resources, strings.TrimPrefix(key, pool+k.by)) {
			delete(k.members, key)
		}
	}
	for _, r := range resources {
		k.members[pool+k.by+r] = true
	}
	k.all = append(k.all, resources...)
	return k.MemoryJobs.SetPool(ctx, "all", k.all)
}

func (k *keyed) Active(ctx context.Context, pool string) ([]concurrency.Holder, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	holders, err := k.MemoryJobs.Active(ctx, "all")
	return slices.DeleteFunc(holders, func(h concurrency.Holder) bool { return !k.members[pool+k.by+h.Resource] }), err
}

// withoutNUL refuses what text in some databases cannot hold.
type withoutNUL struct{ concurrencytest.Backend }

var errNUL = errors.New("a text with a NUL")

func (w withoutNUL) SetPool(ctx context.Context, pool string, resources []string) error {
	if strings.ContainsRune(pool+strings.Join(resources, ""), 0) {
		return errNUL
	}
	return w.Backend.SetPool(ctx, pool, resources)
}

func (w withoutNUL) PutJob(ctx context.Context, job concurrency.Job) error {
	if strings.ContainsRune(job.ID+job.Resource+job.Group, 0) {
		return errNUL
	}
	return w.Backend.PutJob(ctx, job)
}
