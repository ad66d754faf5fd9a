package etcdstore

import (
	"context"
	"encoding/json"
	"flag"
	"net"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/examples/internal/controller/controllertest"
	"github.com/tranche-dev/tranche/rollout"
)

var (
	schedules = flag.Int("schedules", 10, "how many `schedules` of killed, paused and disconnected controllers to run")
	firstSeed = flag.Uint64("seed", 1, "`seed` of the first schedule")
)

// open connects to the members at the addresses, which are separated by commas, below a prefix.
func open(_ context.Context, addresses, space string) (controllertest.Database, error) {
	client, err := dial(strings.Split(addresses, ",")...)
	if err != nil {
		return controllertest.Database{}, err
	}
	jobs := NewJobs(NewStore(client, space, 0))
	return controllertest.Database{Store: jobs.store, Jobs: jobs, Close: func() { client.Close() }, End: jobs.end}, nil
}

// end reports the end of a job, under the condition that nobody created one since the active ones were read.
func (j *Jobs) end(ctx context.Context, run string, status rollout.JobStatus, at time.Time) (active []concurrency.Holder, err error) {
	err = j.change(ctx, "end job", run, func(ctx context.Context) error {
		old, revision, err := j.load(ctx, run)
		if err != nil {
			return err
		}
		read, err := j.store.client.Get(ctx, j.activeKey(""), clientv3.WithPrefix())
		if err != nil {
			return err
		}
		active = nil
		for _, kv := range read.Kvs {
			var holder concurrency.Holder
			if err := json.Unmarshal(kv.Value, &holder); err != nil {
				return err
			}
			active = append(active, holder)
		}
		next, changed, err := old.Reported(status, at)
		if err != nil || !changed {
			return err
		}
		return j.write(ctx, old, revision, next, clientv3.Compare(clientv3.ModRevision(j.activeKey("")), "<", read.Header.Revision+1).WithPrefix())
	})
	return active, err
}

func driver(members ...*member) controllertest.Driver {
	var addresses []string
	for _, m := range members {
		addresses = append(addresses, m.Client)
	}
	return controllertest.Driver{
		Name: "etcd", Dumps: "../internal/controller/controllertest/testdata",
		Open:    open,
		Space:   func(testing.TB) string { return space() },
		Network: "tcp", Servers: addresses, Address: strings.Join(addresses, ","),
		Listen: func(tb testing.TB) (listeners []net.Listener, proxies string) {
			var at []string
			for range members {
				listener, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					tb.Fatal(err)
				}
				listeners, at = append(listeners, listener), append(at, listener.Addr().String())
			}
			return listeners, strings.Join(at, ",")
		},
	}
}

func TestHost(t *testing.T) {
	controllertest.RunHost(t, driver(sharedMember(t)))
}

func TestSchedules(t *testing.T) {
	controllertest.RunSchedules(t, driver(sharedMember(t)), *schedules, *firstSeed)
}
