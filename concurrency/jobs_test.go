package concurrency_test

import (
	"testing"

	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/concurrency/concurrencytest"
)

func TestMemoryJobs(t *testing.T) {
	concurrencytest.Run(t, func(*testing.T) concurrencytest.Backend { return new(concurrency.MemoryJobs) })
}

func TestMemoryJobsRefuses(t *testing.T) {
	var m concurrency.MemoryJobs
	for _, job := range []concurrency.Job{{ID: "1"}, {Resource: "n1"}} {
		if m.PutJob(t.Context(), job) == nil {
			t.Errorf("%+v must be refused", job)
		}
	}
}
