package concurrency_test

import (
	"context"
	"errors"
	"testing"

	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/concurrency/concurrencytest"
)

func TestMemoryJobs(t *testing.T) {
	concurrencytest.Run(t, func(*testing.T) concurrencytest.Backend { return new(concurrency.MemoryJobs) })
}

func TestMemoryJobsRefuses(t *testing.T) {
	var m concurrency.MemoryJobs
	job := concurrency.Job{ID: "1", Resource: "n1", Group: "g", Status: "inProgress"}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := errors.Join(m.SetPool(t.Context(), "p", []string{"n1"}), m.PutJob(t.Context(), job)); err != nil {
		t.Fatal(err)
	}
	if err := m.SetPool(gone, "p", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("a pool is set for nobody: %v", err)
	}
	if err := m.PutJob(gone, concurrency.Job{ID: "1", Resource: "n1", Status: "successful"}); !errors.Is(err, context.Canceled) {
		t.Errorf("a job is put for nobody: %v", err)
	}
	if holders, err := m.Active(t.Context(), "p"); err != nil || len(holders) != 1 {
		t.Errorf("what was cancelled was written: %v, %v", holders, err)
	}
	for want, job := range map[string]concurrency.Job{"resource: is required": {ID: "1"}, "id: is required": {Resource: "n1"}, "id: is required\nresource: is required": {}} {
		err := m.PutJob(t.Context(), job)
		if fault := (*concurrency.FieldError)(nil); !errors.As(err, &fault) || fault.Code != concurrency.CodeRequired || err.Error() != want {
			t.Errorf("%+v: %v, want %s", job, err, want)
		}
	}
}
