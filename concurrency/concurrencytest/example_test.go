package concurrencytest_test

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/concurrency/concurrencytest"
)

// jobTable counts the jobs of a host, which keeps them in a table of its own. Active is what the
// host writes for its planner; the other two methods fill the table, and are needed by the test
// alone.
type jobTable struct {
	mu    sync.Mutex
	jobs  map[string]concurrency.Job
	pools map[string][]string
}

func (t *jobTable) Active(ctx context.Context, pool string) ([]concurrency.Holder, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	var holders []concurrency.Holder
	for _, job := range t.jobs {
		if !concurrency.Terminal(job.Status) && slices.Contains(t.pools[pool], job.Resource) {
			holders = append(holders, concurrency.Holder{Resource: job.Resource, Group: job.Group})
		}
	}
	slices.SortFunc(holders, func(a, b concurrency.Holder) int {
		return cmp.Or(cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Group, b.Group))
	})
	return slices.Compact(holders), nil
}

func (t *jobTable) SetPool(_ context.Context, pool string, resources []string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pools == nil {
		t.pools = map[string][]string{}
	}
	t.pools[pool] = slices.Clone(resources)
	return nil
}

func (t *jobTable) PutJob(_ context.Context, job concurrency.Job) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.jobs == nil {
		t.jobs = map[string]concurrency.Job{}
	}
	t.jobs[job.ID] = job
	return nil
}

// The test of a counter is one call. In a package of your own it stands in a func TestJobTable(t
// *testing.T).
func ExampleRun() {
	test := func(t *testing.T) {
		concurrencytest.Run(t, func(*testing.T) concurrencytest.Backend { return new(jobTable) })
	}
	_ = test
}
