package concurrencytest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tranche-dev/tranche/concurrency"
)

// What an answer is: the caller's own, of the names that were given, of one moment, and whole.

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
	names := []string{" ", "%", "%2F", "..", "/", "/a", "A", "B", "a", " a", "a ", "a b", "a.", "a/", "a//b", "a/b", "a_b", "e\u0301", "n\u0153ud", "\u00e9", "日本", "\uff4e", "\U0010ffff", long,
		long[1:] + "y",                               // another one, unless names are cut
		"a\n", "a\nb", "a\tb", `a"b'c\d`, "a*b?c[d]", // what texts, lines and patterns give a meaning to
		"a#b", "a&b", "a+b"} // what an address gives a meaning to
	// Every sign, and at last nothing.
	joints := append(strings.Split(" !\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~\t\n\x1f", ""), "")
	if put(ctx, b, concurrency.Job{ID: "a\x00", Resource: "a\x00", Group: "a\x00", Status: "inProgress"}) == nil { // else it is refused, and not lost
		names, joints = append(names, "a\x00"), append(joints, "\x00")
	}
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
	return checkJoinedNames(ctx, b, joints)
}

// checkJoinedNames looks for names that are joined to one key: x/y of z is not x of y/z.
func checkJoinedNames(ctx context.Context, b Backend, joints []string) error {
	for _, by := range joints {
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
		stopped <- change(ctx, b, stop, func(i int) (members []string, job concurrency.Job) {
			rounds.Add(1)
			return sets[i%2], moving(i)
		})
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

// change changes the members of the pool p and a job, again and again until stop is closed, to what
// next returns for 1, 2 and so on.
func change(ctx context.Context, b Backend, stop <-chan struct{}, next func(i int) ([]string, concurrency.Job)) error {
	for i := 1; ; i++ {
		members, job := next(i)
		moved := b.PutJob(ctx, job)
		if errors.Is(moved, errors.ErrUnsupported) {
			moved = nil // it stays where it is
		}
		if err := errors.Join(b.SetPool(ctx, "p", members), moved); err != nil {
			return err
		}
		select {
		case <-stop:
			return nil
		default:
		}
	}
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
