package pgstore

import (
	"context"
	"os"
	"testing"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/bracket/brackettest"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/concurrency/concurrencytest"
	"github.com/tranche-dev/tranche/examples/internal/controller"
	"github.com/tranche-dev/tranche/examples/internal/controller/controllertest"
	"github.com/tranche-dev/tranche/rollout"
)

func TestMain(m *testing.M) {
	code := controllertest.Main(m, open)
	stopShared()
	os.Exit(code)
}

func TestStoreConforms(t *testing.T) {
	empty := emptied(t, sharedServer(t))
	brackettest.Run(t, func(t *testing.T) bracket.Store { return NewStore(empty(t), 0) })
}

// counted lets the kit put jobs that no plan started.
type counted struct{ *Jobs }

func (c counted) PutJob(ctx context.Context, job concurrency.Job) error {
	return c.Put(ctx, controller.Job{
		TargetID: rollout.TargetID{Resource: job.Resource}, Job: rollout.Job{Run: job.ID, Status: rollout.JobStatus(job.Status)}, Group: job.Group,
	})
}

func TestJobsConform(t *testing.T) {
	empty := emptied(t, sharedServer(t))
	concurrencytest.Run(t, func(t *testing.T) concurrencytest.Backend { return counted{NewJobs(NewStore(empty(t), 0))} })
}
