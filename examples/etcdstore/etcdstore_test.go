package etcdstore

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
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
	if description, ok := os.LookupEnv(memberVariable); ok {
		if err := serveMember(description); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	code := controllertest.Main(m, open)
	stopShared()
	os.Exit(code)
}

var spaces atomic.Int64

// space returns a prefix that no other test uses.
func space() string { return fmt.Sprintf("test/%d", spaces.Add(1)) }

func TestStoreConforms(t *testing.T) {
	client := connect(t, sharedMember(t))
	brackettest.Run(t, func(*testing.T) bracket.Store { return NewStore(client, space(), 0) })
}

// counted lets the kit put jobs that no plan started.
type counted struct{ *Jobs }

func (c counted) PutJob(ctx context.Context, job concurrency.Job) error {
	return c.Put(ctx, controller.Job{
		TargetID: rollout.TargetID{Resource: job.Resource}, Job: rollout.Job{Run: job.ID, Status: rollout.JobStatus(job.Status)}, Group: job.Group,
	})
}

func TestJobsConform(t *testing.T) {
	client := connect(t, sharedMember(t))
	concurrencytest.Run(t, func(*testing.T) concurrencytest.Backend { return counted{NewJobs(NewStore(client, space(), 0))} })
}
