package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/rollout"
)

// Memory is a database in memory: the reference for the tests of real ones. It is a [bracket.Store]
// and [Jobs] under one lock, which is its transaction. The zero value is empty and ready for use.
// It must not be copied.
type Memory struct {
	mu      sync.Mutex
	records bracket.MemoryStore
	pools   map[string][]string
	jobs    map[string]Job
}

var (
	_ bracket.Store = (*Memory)(nil)
	_ Jobs          = (*Memory)(nil)
)

// Load implements [bracket.Store].
func (m *Memory) Load(ctx context.Context, key string) ([]byte, int64, error) {
	return m.records.Load(ctx, key)
}

// Save implements [bracket.Store].
func (m *Memory) Save(ctx context.Context, key string, value []byte, revision int64) (int64, error) {
	m.mu.Lock() // so that no lease goes away while Dispatch looks at it
	defer m.mu.Unlock()
	return m.records.Save(ctx, key, value, revision)
}

// Delete implements [bracket.Store].
func (m *Memory) Delete(ctx context.Context, key string, revision int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.records.Delete(ctx, key, revision)
}

// List implements [bracket.Store].
func (m *Memory) List(ctx context.Context, prefix string) ([]bracket.Entry, error) {
	return m.records.List(ctx, prefix)
}

// SetPool implements [Jobs].
func (m *Memory) SetPool(ctx context.Context, pool string, resources []string) error {
	if err := errors.Join(ctx.Err(), CheckPool(pool, resources)); err != nil {
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

// Active implements [concurrency.JobCounter].
func (m *Memory) Active(ctx context.Context, pool string) ([]concurrency.Holder, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	members := make(map[string]bool, len(m.pools[pool]))
	for _, resource := range m.pools[pool] {
		members[resource] = true
	}
	var holders []concurrency.Holder
	for _, job := range m.jobs {
		if !job.Status.Terminal() && members[job.Resource] {
			holders = append(holders, job.Holder())
		}
	}
	slices.SortFunc(holders, func(a, b concurrency.Holder) int {
		return cmp.Or(cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Group, b.Group))
	})
	return slices.Compact(holders), nil
}

// All implements [Jobs].
func (m *Memory) All(ctx context.Context) ([]Job, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make([]Job, 0, len(m.jobs))
	for _, job := range m.jobs {
		all = append(all, job)
	}
	slices.SortFunc(all, func(a, b Job) int { return cmp.Compare(a.Run, b.Run) })
	return all, nil
}

// busy reports whether another job is active on the target. The caller holds the lock.
func (m *Memory) busy(job Job) error {
	if job.Deployment == "" || job.Status.Terminal() {
		return nil
	}
	for _, other := range m.jobs {
		if other.Run != job.Run && other.TargetID == job.TargetID && !other.Status.Terminal() {
			return fmt.Errorf("controller: run %s: run %s: %w", job.Run, other.Run, ErrBusy)
		}
	}
	return nil
}

// overtaken reports whether the job's target has more jobs than were seen. The caller holds the
// lock.
func (m *Memory) overtaken(job Job, seen int) error {
	n := 0
	for _, other := range m.jobs {
		if job.Deployment != "" && other.TargetID == job.TargetID {
			n++
		}
	}
	if n > seen {
		return fmt.Errorf("controller: run %s: %d jobs were seen, there are %d: %w", job.Run, seen, n, ErrOvertaken)
	}
	return nil
}

func (m *Memory) keep(job Job) {
	if m.jobs == nil {
		m.jobs = make(map[string]Job)
	}
	m.jobs[job.Run] = job
}

// Put implements [Jobs].
func (m *Memory) Put(ctx context.Context, job Job) error {
	if err := errors.Join(ctx.Err(), job.Validate()); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.busy(job); err != nil {
		return err
	}
	m.keep(job)
	return nil
}

// Dispatch implements [Jobs].
func (m *Memory) Dispatch(ctx context.Context, start rollout.Start, seen int, at time.Time) (bool, error) {
	job := NewJob(start, at)
	if err := errors.Join(ctx.Err(), job.Validate()); err != nil {
		return false, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, claim := range start.Claims {
		record := concurrency.NewRecord(claim.Pool)
		switch value, _, err := m.records.Load(ctx, rollout.PoolRecordKey(claim.Pool)); {
		case errors.Is(err, bracket.ErrNotFound):
		case err != nil:
			return false, err
		default:
			if record, err = concurrency.ParseRecord(value); err != nil {
				return false, err
			}
		}
		if err := start.Held(record); err != nil {
			return false, err
		}
	}
	if _, exists := m.jobs[job.Run]; exists {
		return false, nil
	}
	if err := m.busy(job); err != nil {
		return false, err
	}
	if err := m.overtaken(job, seen); err != nil {
		return false, err
	}
	m.keep(job)
	return true, nil
}

// Report implements [Jobs].
func (m *Memory) Report(ctx context.Context, run string, status rollout.JobStatus, at time.Time) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	job, exists := m.jobs[run]
	if !exists {
		return fmt.Errorf("controller: run %s: %w", run, bracket.ErrNotFound)
	}
	next, changed, err := job.Reported(status, at)
	if changed {
		m.jobs[run] = next
	}
	return err
}
