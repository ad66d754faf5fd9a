package concurrencytest

import (
	"context"
	"errors"
	"fmt"

	"github.com/tranche-dev/tranche/concurrency"
)

// Who is counted: the jobs that are active, on the members of the pool, each holder once.

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
		expect(ctx, b, "zone", concurrency.Holder{Resource: "n2", Group: "g"}),
		expect(ctx, b, "never heard of"))
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
