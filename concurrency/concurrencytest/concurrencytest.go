// Package concurrencytest checks that a [concurrency.JobCounter] keeps its promises. It knows no
// implementation; an adapter's test is one call of [Run].
package concurrencytest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/tranche-dev/tranche/concurrency"
)

// Backend is the counter under test together with two methods that change what it counts. SetPool
// replaces the members of a pool; PutJob creates or replaces the job with an ID. Once they have
// returned, Active shows the change. All methods must be safe for concurrent use. Names and ids are
// any UTF-8 text of up to 1024 bytes; a group may be empty. A name with the character NUL may be
// refused: there are databases whose text cannot hold it. [concurrency.MemoryJobs] is a Backend.
//
// If the backend cannot move a job to another resource or group, or cannot change the status of a
// job that has ended, PutJob refuses that with [errors.ErrUnsupported] and changes nothing. It
// refuses neither a new job, but for such a name, nor the next status of a job that has not ended.
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

// Run runs the conformance cases. newBackend must return an empty backend. It is called once per
// case, and the last case calls it for each of its random histories: 100 of them, or as many as
// -rapid.checks says, and with -short a fifth of that.
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
