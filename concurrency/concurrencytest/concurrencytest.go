// Package concurrencytest checks that a [concurrency.JobCounter] keeps its promises. It knows no
// implementation; an adapter's test is one call of [Run].
package concurrencytest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/concurrency"
	"pgregory.net/rapid"
)

// Backend is the counter under test together with two methods that change what it counts. SetPool
// replaces the members of a pool; PutJob creates or replaces the job with an ID. Once they have
// returned, Active shows the change. All methods must be safe for concurrent use. Names and ids are
// any UTF-8 text of up to 1024 bytes; a group may be empty. [concurrency.MemoryJobs] is a Backend.
//
// If the backend cannot move a job to another resource or group, or cannot change the status of a
// job that has ended, PutJob refuses that with [errors.ErrUnsupported] and changes nothing. It
// never refuses a new job, nor the next status of a job that has not ended.
type Backend interface {
	concurrency.JobCounter
	SetPool(ctx context.Context, pool string, resources []string) error
	PutJob(ctx context.Context, job concurrency.Job) error
}

// Breakable is a [Backend] that can be cut off from what it reads, such as by a proxy or an
// interceptor before its server. With a Breakable, [Run] also checks that Active returns an error
// if it could read only a part, and that the counter recovers.
type Breakable interface {
	Backend

	// Break lets pass more steps of Active through and fails every later step, until mend is
	// called. A step is anything that can fail by itself: a request, a page, a packet.
	Break(pass int) (mend func())
}

// statuses are those that jobs of ctrlplane have, and some that none has, with whether they are
// terminal.
var statuses = []struct {
	name     string
	terminal bool
}{
	{"successful", true}, {"failure", true}, {"cancelled", true}, {"skipped", true},
	{"invalidJobAgent", true}, {"invalidIntegration", true}, {"externalRunNotFound", true},
	{"pending", false}, {"queued", false}, {"inProgress", false}, {"actionRequired", false},
	{"", false}, {"Successful", false}, {"successful ", false}, {"some-future-status", false},
	// Terminal statuses of other systems. An adapter that knows their meaning translates them
	// before it puts the job.
	{"succeeded", false}, {"completed", false}, {"failed", false}, {"error", false}, {"canceled", false},
}

// Run runs the conformance cases. newBackend must return an empty backend. It is called once per
// case, and the last case calls it for each of its random histories: 100 of them, or as many as
// -rapid.checks says.
func Run(t *testing.T, newBackend func(*testing.T) Backend) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			b := newBackend(t)
			if b == nil {
				t.Fatal("newBackend returned nil")
			}
			if err := c.check(context.Background(), b); errors.Is(err, errNotBreakable) {
				t.Skip(err)
			} else if err != nil {
				t.Errorf("%v\nwhy: %s", err, c.why)
			}
		})
	}
	t.Run("random histories", func(t *testing.T) { histories(t, func() Backend { return newBackend(t) }) })
}

// histories compares backends with the reference, each after a random history of its own.
func histories(t rapid.TB, newBackend func() Backend) {
	rapid.Check(t, func(r *rapid.T) { history(r, newBackend()) })
}

type conformance struct {
	name, why string
	check     func(context.Context, Backend) error
}

var cases = []conformance{
	{"statuses", "a job counts unless it is over; a status that nobody knows may be a job that is still disrupting its resource", checkStatuses},
	{"distinct and sorted", "several jobs of one target are one holder, and a plan must not depend on the order of storage", checkDistinct},
	{"nobody's job", "a job that no plan asked for is of no group, and disrupts its resource all the same", checkNobody},
	{"groups", "two groups on one resource are two holders: each must find its own slot", checkGroups},
	{"members", "a job outside the pool holds nothing in it; a resource may be in many pools", checkMembers},
	{"empty", "nobody is not an error", checkEmpty},
	{"latest status", "a job that ended stops counting, and one that is taken up again counts again", checkLatest},
	{"the caller's slice", "callers sort, append and overwrite", checkOwnership},
	{"cancelled context", "what was not read must not look like nobody", checkCancelled},
	{"odd names", "resources, groups and pools are named by users", checkNames},
	{"one step", "half of the old members and half of the new ones is a pool that never was", checkAtomic},
	{"ten thousand", "a page of results is not the result", checkMany},
	{"cut off", "half of a snapshot looks like a pool with free places", checkBroken},
}

func put(ctx context.Context, b Backend, jobs ...concurrency.Job) error {
	for i, job := range jobs {
		if job.ID == "" {
			job.ID = fmt.Sprintf("job-%d", i)
		}
		if err := b.PutJob(ctx, job); err != nil {
			return fmt.Errorf("PutJob(%+v): %w", job, err)
		}
	}
	return nil
}

func expect(ctx context.Context, b Backend, pool string, want ...concurrency.Holder) error {
	got, err := b.Active(ctx, pool)
	if err != nil {
		return fmt.Errorf("Active(%q): %w", pool, err)
	}
	if !slices.Equal(got, want) {
		return fmt.Errorf("Active(%q) = %v, want %v", pool, got, want)
	}
	return nil
}

func checkStatuses(ctx context.Context, b Backend) error {
	var resources []string
	var holders []concurrency.Holder
	for i, s := range statuses {
		resource := fmt.Sprintf("n%02d", i)
		resources = append(resources, resource)
		if !s.terminal {
			holders = append(holders, concurrency.Holder{Resource: resource, Group: "g"})
		}
		if err := errors.Join(b.SetPool(ctx, "p", resources), b.PutJob(ctx, concurrency.Job{ID: resource, Resource: resource, Group: "g", Status: s.name})); err != nil {
			return err
		}
		if err := expect(ctx, b, "p", holders...); err != nil {
			return fmt.Errorf("status %q of %s: %w", s.name, resource, err)
		}
	}
	return nil
}

func checkDistinct(ctx context.Context, b Backend) error {
	return errors.Join(
		b.SetPool(ctx, "p", []string{"n2", "n1", "n10", "n1"}),
		put(ctx, b,
			concurrency.Job{Resource: "n2", Group: "g", Status: "inProgress"},
			concurrency.Job{Resource: "n10", Group: "g", Status: "queued"},
			concurrency.Job{Resource: "n1", Group: "h", Status: "pending"},
			concurrency.Job{Resource: "n2", Group: "g", Status: "queued"},
			concurrency.Job{Resource: "n1", Group: "g", Status: "inProgress"},
			concurrency.Job{Resource: "n2", Group: "g", Status: "successful"}),
		expect(ctx, b, "p", concurrency.Holder{Resource: "n1", Group: "g"}, concurrency.Holder{Resource: "n1", Group: "h"},
			concurrency.Holder{Resource: "n10", Group: "g"}, concurrency.Holder{Resource: "n2", Group: "g"}))
}

func checkNobody(ctx context.Context, b Backend) error {
	return errors.Join(
		b.SetPool(ctx, "p", []string{"n1", "n2"}),
		put(ctx, b,
			concurrency.Job{Resource: "n1", Status: "inProgress"},
			concurrency.Job{Resource: "n1", Group: "g", Status: "inProgress"},
			concurrency.Job{Resource: "n2", Status: "queued"}),
		expect(ctx, b, "p", concurrency.Holder{Resource: "n1"}, concurrency.Holder{Resource: "n1", Group: "g"}, concurrency.Holder{Resource: "n2"}))
}

func checkGroups(ctx context.Context, b Backend) error {
	return errors.Join(
		b.SetPool(ctx, "p", []string{"n1"}),
		put(ctx, b,
			concurrency.Job{Resource: "n1", Group: "a", Status: "inProgress"},
			concurrency.Job{Resource: "n1", Group: "b", Status: "inProgress"},
			concurrency.Job{Resource: "n1", Group: "c", Status: "failure"}),
		expect(ctx, b, "p", concurrency.Holder{Resource: "n1", Group: "a"}, concurrency.Holder{Resource: "n1", Group: "b"}))
}

func checkMembers(ctx context.Context, b Backend) error {
	err := errors.Join(
		b.SetPool(ctx, "all", []string{"n1", "n2"}),
		b.SetPool(ctx, "zone", []string{"n2"}),
		put(ctx, b,
			concurrency.Job{Resource: "n1", Group: "g", Status: "inProgress"},
			concurrency.Job{Resource: "n2", Group: "g", Status: "inProgress"},
			concurrency.Job{Resource: "n3", Group: "g", Status: "inProgress"}),
		expect(ctx, b, "all", concurrency.Holder{Resource: "n1", Group: "g"}, concurrency.Holder{Resource: "n2", Group: "g"}),
		expect(ctx, b, "zone", concurrency.Holder{Resource: "n2", Group: "g"}))
	if err != nil {
		return err
	}
	return errors.Join(b.SetPool(ctx, "zone", []string{"n3"}), expect(ctx, b, "zone", concurrency.Holder{Resource: "n3", Group: "g"}))
}

func checkEmpty(ctx context.Context, b Backend) error {
	return errors.Join(
		expect(ctx, b, "never heard of"),
		b.SetPool(ctx, "p", nil), expect(ctx, b, "p"),
		b.SetPool(ctx, "p", []string{"n1"}), expect(ctx, b, "p"))
}

func checkLatest(ctx context.Context, b Backend) error {
	job := concurrency.Job{ID: "j", Resource: "n1", Group: "g", Status: "queued"}
	holder := concurrency.Holder{Resource: "n1", Group: "g"}
	err := b.SetPool(ctx, "p", []string{"n1"})
	for _, s := range []string{"queued", "inProgress", "successful", "inProgress", "failure"} {
		was := job.Status
		job.Status = s
		if refused := b.PutJob(ctx, job); concurrency.Terminal(was) && errors.Is(refused, errors.ErrUnsupported) {
			job.Status = was // its end is final
		} else {
			err = errors.Join(err, refused)
		}
		if concurrency.Terminal(job.Status) {
			err = errors.Join(err, expect(ctx, b, "p"))
		} else {
			err = errors.Join(err, expect(ctx, b, "p", holder))
		}
	}
	return err
}

func checkOwnership(ctx context.Context, b Backend) error {
	resources := []string{"n1", "n2"}
	if err := errors.Join(b.SetPool(ctx, "p", resources), put(ctx, b,
		concurrency.Job{Resource: "n1", Group: "g", Status: "inProgress"}, concurrency.Job{Resource: "n2", Group: "g", Status: "inProgress"})); err != nil {
		return err
	}
	resources[0] = "changed"
	first, err := b.Active(ctx, "p")
	if err != nil || len(first) != 2 {
		return fmt.Errorf("two holders expected, Active = %v, %v", first, err)
	}
	second, err := b.Active(ctx, "p")
	if err != nil {
		return err
	}
	was := slices.Clone(second)
	first[0] = concurrency.Holder{Resource: "changed"}
	_ = append(first[:1], concurrency.Holder{Resource: "changed"})
	if !slices.Equal(second, was) {
		return fmt.Errorf("one caller changed what another one got: %v, it was %v", second, was)
	}
	return expect(ctx, b, "p", concurrency.Holder{Resource: "n1", Group: "g"}, concurrency.Holder{Resource: "n2", Group: "g"})
}

func checkCancelled(ctx context.Context, b Backend) error {
	if err := errors.Join(b.SetPool(ctx, "p", []string{"n1"}), put(ctx, b, concurrency.Job{Resource: "n1", Group: "g", Status: "inProgress"})); err != nil {
		return err
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if holders, err := b.Active(cancelled, "p"); !errors.Is(err, context.Canceled) || len(holders) != 0 {
		return fmt.Errorf("with a cancelled context Active = %v, %v, want nothing and context.Canceled", holders, err)
	}
	late, cancel := context.WithDeadline(ctx, time.Unix(0, 0))
	defer cancel()
	if holders, err := b.Active(late, "p"); !errors.Is(err, context.DeadlineExceeded) || len(holders) != 0 {
		return fmt.Errorf("after the deadline Active = %v, %v, want nothing and context.DeadlineExceeded", holders, err)
	}
	return expect(ctx, b, "p", concurrency.Holder{Resource: "n1", Group: "g"})
}

func checkNames(ctx context.Context, b Backend) error {
	long := strings.Repeat("x", 1024)
	names := []string{" ", "%", "%2F", "/", "A", "B", "a", "a ", "a b", "a.", "a/b", "e\u0301", "n\u0153ud", "\u00e9", "日本", "\uff4e", "\U0010ffff", long}
	slices.Sort(names)
	var holders []concurrency.Holder
	for _, name := range names {
		if err := b.PutJob(ctx, concurrency.Job{ID: name, Resource: name, Group: name, Status: "inProgress"}); err != nil {
			return fmt.Errorf("PutJob with the name %.40q of %d bytes: %w", name, len(name), err)
		}
		holders = append(holders, concurrency.Holder{Resource: name, Group: name})
	}
	for i, pool := range names { // each pool lacks a different member, so that none passes for another
		if err := b.SetPool(ctx, pool, slices.Delete(slices.Clone(names), i, i+1)); err != nil {
			return fmt.Errorf("SetPool with the name %.40q of %d bytes: %w", pool, len(pool), err)
		}
	}
	for i, pool := range names {
		if err := expect(ctx, b, pool, slices.Delete(slices.Clone(holders), i, i+1)...); err != nil {
			return err
		}
	}
	return checkJoinedNames(ctx, b)
}

// checkJoinedNames looks for names that are joined to one key: x/y of z is not x of y/z.
func checkJoinedNames(ctx context.Context, b Backend) error {
	for _, by := range []string{"/", ":", "|", ",", " ", "-"} {
		both := []concurrency.Holder{{Resource: "x", Group: "y" + by + "z"}, {Resource: "x" + by + "y", Group: "z"}}
		err := errors.Join(
			b.SetPool(ctx, "joined", []string{both[0].Resource, both[1].Resource}),
			b.SetPool(ctx, "q", []string{"nobody"}),
			b.SetPool(ctx, "q"+by+"x", []string{"y"}))
		for i, h := range both {
			err = errors.Join(err, b.PutJob(ctx, concurrency.Job{ID: fmt.Sprint(by, i), Resource: h.Resource, Group: h.Group, Status: "inProgress"}))
		}
		if err = errors.Join(err, expect(ctx, b, "q"), expect(ctx, b, "q"+by+"x")); err != nil {
			return err
		}
		holders, err := b.Active(ctx, "joined")
		if err != nil || !slices.Contains(holders, both[0]) || !slices.Contains(holders, both[1]) {
			return fmt.Errorf("in a pool of %q and %q Active found %v, %v, want both of %v", both[0].Resource, both[1].Resource, holders, err, both)
		}
	}
	return nil
}

// checkAtomic counts while another goroutine changes the members of a pool and moves a job: each
// answer must be one that was true at some moment.
func checkAtomic(ctx context.Context, b Backend) error {
	const n = 40
	sets := make([][]string, 2)
	answers := make([][]concurrency.Holder, 2)
	for i := range n {
		name := fmt.Sprintf("n%02d", i)
		if err := b.PutJob(ctx, concurrency.Job{ID: name, Resource: name, Group: "g", Status: "inProgress"}); err != nil {
			return err
		}
		half := i * 2 / n
		sets[half] = append(sets[half], name)
		answers[half] = append(answers[half], concurrency.Holder{Resource: name, Group: "g"})
	}
	moving := func(i int) concurrency.Job {
		return concurrency.Job{ID: "moving", Resource: []string{"here", "there"}[i%2], Group: "g", Status: "inProgress"}
	}
	if err := errors.Join(b.SetPool(ctx, "p", sets[0]), b.SetPool(ctx, "q", []string{"here", "there"}), b.PutJob(ctx, moving(0))); err != nil {
		return err
	}
	var rounds atomic.Int64
	stop, stopped := make(chan struct{}), make(chan error, 1)
	go func() {
		for i := 1; ; i++ {
			rounds.Add(1)
			moved := b.PutJob(ctx, moving(i))
			if errors.Is(moved, errors.ErrUnsupported) {
				moved = nil // it stays where it is
			}
			if err := errors.Join(b.SetPool(ctx, "p", sets[i%2]), moved); err != nil {
				stopped <- err
				return
			}
			select {
			case <-stop:
				stopped <- nil
				return
			default:
			}
		}
	}()
	count := func() error {
		// A busy machine may run many reads in a row, and then many changes: between counts the
		// reads that follow a change.
		for n, seen, between := 0, int64(0), 0; n < 100 || between < 50; n++ {
			if now := rounds.Load(); now != seen {
				seen = now
				between++
			}
			if len(stopped) > 0 {
				return nil // the change failed, which is the error to report
			}
			got, err := b.Active(ctx, "p")
			if err != nil {
				return err
			}
			if !slices.Equal(got, answers[0]) && !slices.Equal(got, answers[1]) {
				return fmt.Errorf("while the members change from one half to the other, Active = %v", got)
			}
			if got, err = b.Active(ctx, "q"); err != nil {
				return err
			}
			if len(got) != 1 {
				return fmt.Errorf("while a job moves from one resource to another, Active = %v", got)
			}
		}
		return nil
	}
	err := count()
	close(stop)
	return errors.Join(err, <-stopped)
}

func checkMany(ctx context.Context, b Backend) error {
	const n = 10_000
	holders, err := fill(ctx, b, n)
	if err != nil {
		return err
	}
	got, err := b.Active(ctx, "p")
	if err != nil {
		return err
	}
	if !slices.Equal(got, holders) {
		return fmt.Errorf("%d holders, want %d in order", len(got), n)
	}
	return nil
}

// fill puts a job on each of n members of the pool p, and returns the holders.
func fill(ctx context.Context, b Backend, n int) ([]concurrency.Holder, error) {
	const writers = 8 // several, because a remote backend is slow
	resources := make([]string, n)
	holders := make([]concurrency.Holder, n)
	for i := range n {
		resources[i] = fmt.Sprintf("n%05d", (i*7919)%n)
		holders[i] = concurrency.Holder{Resource: fmt.Sprintf("n%05d", i), Group: "g"}
	}
	errs := make([]error, writers)
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			for i := w; i < n && errs[w] == nil; i += writers {
				errs[w] = b.PutJob(ctx, concurrency.Job{ID: fmt.Sprint(i), Resource: resources[i], Group: "g", Status: "queued"})
			}
		})
	}
	group.Wait()
	return holders, errors.Join(append(errs, b.SetPool(ctx, "p", resources))...)
}

var errNotBreakable = errors.New("the backend is not Breakable: nothing is checked of what it reads in part")

// checkBroken cuts Active off after each of its first steps in turn, then after ever more of them
// until Active answers, and then bisects to its last step: a counter may take one step for all
// jobs, or several for each.
func checkBroken(ctx context.Context, b Backend) error {
	broken, ok := b.(Breakable)
	if !ok {
		return errNotBreakable
	}
	const each, most = 100, 1 << 20
	holders, err := fill(ctx, b, 1200) // more than most backends return on one page
	if err != nil {
		return err
	}
	cut, enough := -1, 0 // the greatest number of steps after which it was cut off, and the least with which there is an answer
	for pass := 0; enough == 0; pass += 1 + pass/each*each/2 {
		if pass > most {
			return fmt.Errorf("with %d steps let through there is still no answer: Break must let so many steps of the next Active pass", cut)
		}
		switch answered, err := cutOff(ctx, broken, pass, holders); {
		case err != nil:
			return err
		case !answered:
			cut = pass
		case pass == 0:
			return errors.New("nothing was let through, and still there is an answer: it is not of what is there now")
		default:
			enough = pass
		}
	}
	for cut+1 < enough {
		pass := (cut + enough) / 2
		answered, err := cutOff(ctx, broken, pass, holders)
		if err != nil {
			return err
		}
		if answered {
			enough = pass
		} else {
			cut = pass
		}
	}
	return nil
}

// cutOff calls Active once with pass steps let through and, if that failed, again with all of them.
func cutOff(ctx context.Context, b Breakable, pass int, holders []concurrency.Holder) (answered bool, err error) {
	mend := b.Break(pass)
	got, failed := b.Active(ctx, "p")
	mend()
	switch {
	case failed == nil && pass > 0 && !slices.Equal(got, holders):
		return false, fmt.Errorf("cut off after %d steps Active = %d of %d holders, without an error", pass, len(got), len(holders))
	case failed == nil:
		return true, nil
	case len(got) > 0:
		return false, fmt.Errorf("cut off after %d steps Active = %d holders, with the error %w", pass, len(got), failed)
	}
	if err := expect(ctx, b, "p", holders...); err != nil {
		return false, fmt.Errorf("mended, after it was cut off: %w", err)
	}
	return false, nil
}

// history compares the backend with the in-memory reference after random changes.
func history(t *rapid.T, b Backend) {
	ctx := context.Background()
	var reference concurrency.MemoryJobs
	jobs := map[string]concurrency.Job{}
	id := rapid.SampledFrom([]string{"1", "2", "3", "4", "5", "6", "7", "8", "9"})
	resource := rapid.SampledFrom([]string{"n1", "n2", "n3"})
	pool := rapid.SampledFrom([]string{"p", "q"})
	check := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range []string{"p", "q"} {
		check(b.SetPool(ctx, p, nil))
	}
	t.Repeat(map[string]func(*rapid.T){
		"put": func(t *rapid.T) {
			job := concurrency.Job{
				ID: id.Draw(t, "id"), Resource: resource.Draw(t, "resource"), Group: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "group"),
				Status: statuses[rapid.IntRange(0, len(statuses)-1).Draw(t, "status")].name,
			}
			old, known := jobs[job.ID]
			if known && rapid.Bool().Draw(t, "the same job") {
				job.Resource, job.Group = old.Resource, old.Group
			}
			err := b.PutJob(ctx, job)
			moved, again := old.Resource != job.Resource || old.Group != job.Group, concurrency.Terminal(old.Status) && job.Status != old.Status
			if known && (moved || again) && errors.Is(err, errors.ErrUnsupported) {
				return // and nothing has changed
			}
			check(errors.Join(err, reference.PutJob(ctx, job)))
			jobs[job.ID] = job
		},
		"members": func(t *rapid.T) {
			p, members := pool.Draw(t, "pool"), rapid.SliceOfDistinct(resource, rapid.ID[string]).Draw(t, "members")
			check(errors.Join(b.SetPool(ctx, p, members), reference.SetPool(ctx, p, members)))
		},
		"": func(t *rapid.T) {
			for _, p := range []string{"p", "q"} {
				want, err := reference.Active(ctx, p)
				check(err)
				check(expect(ctx, b, p, want...))
			}
		},
	})
}
