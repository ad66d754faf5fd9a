package concurrency

import (
	"context"
	"slices"
	"sync"
)

// JobCounter lists the holders that are active in a pool, for hosts that have jobs but no lease
// records. It returns holders, not their number, because a number cannot say "the slot is my own".
//
// A job is active unless its status is [Terminal]. The result is complete and of one moment,
// distinct by (resource, group), in ascending order, and belongs to the caller; resources outside
// the pool do not appear. If the jobs cannot be read, Active returns an error, never an empty list.
// A pool without active jobs, an unknown one included, has no holders. If ctx is done, Active
// returns its error. The package concurrencytest checks all this.
type JobCounter interface {
	Active(ctx context.Context, pool string) ([]Holder, error)
}

// Terminal reports whether a job with this status is over. The terminal statuses are those of
// ctrlplane: successful, failure, cancelled, skipped, invalidJobAgent, invalidIntegration,
// externalRunNotFound. Every other status, unknown ones included, is active: a job with an unknown
// status may still be disrupting its resource.
func Terminal(status string) bool {
	switch status {
	case "successful", "failure", "cancelled", "skipped", "invalidJobAgent", "invalidIntegration", "externalRunNotFound":
		return true
	}
	return false
}

// Job is one execution on a resource, for a group.
type Job struct {
	ID       string // required
	Resource string // required
	Group    string // may be empty: a job that no plan asked for
	Status   string // see [Terminal]; empty counts as active
}

// MemoryJobs is a [JobCounter] in memory: the reference of the conformance kit, and enough for
// tests and small hosts. The zero value is empty and ready for use. It is safe for concurrent use.
type MemoryJobs struct {
	mu    sync.RWMutex
	pools map[string][]string // key → member resources
	jobs  map[string]Job
}

// SetPool replaces the members of a pool. It copies resources.
func (m *MemoryJobs) SetPool(ctx context.Context, pool string, resources []string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.pools == nil {
		m.pools = make(map[string][]string)
	}
	m.pools[pool] = slices.Clone(resources)
	return nil
}

// PutJob creates or replaces the job with this ID. For a job without ID or Resource the error joins
// one *[FieldError] per fault.
func (m *MemoryJobs) PutJob(ctx context.Context, job Job) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var f faults
	for _, name := range []struct{ field, value string }{{"id", job.ID}, {"resource", job.Resource}} {
		if name.value == "" {
			f.add(name.field, CodeRequired, nil, "is required")
		}
	}
	if err := f.err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.jobs == nil {
		m.jobs = make(map[string]Job)
	}
	m.jobs[job.ID] = job
	return nil
}

// Active implements [JobCounter].
func (m *MemoryJobs) Active(ctx context.Context, pool string) ([]Holder, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	members := make(map[string]bool, len(m.pools[pool]))
	for _, resource := range m.pools[pool] {
		members[resource] = true
	}
	var holders []Holder
	for _, job := range m.jobs {
		if members[job.Resource] && !Terminal(job.Status) {
			holders = append(holders, Holder{job.Resource, job.Group})
		}
	}
	slices.SortFunc(holders, Holder.compare)
	return slices.Compact(holders), nil
}
