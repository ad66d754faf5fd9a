package etcdstore

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/bracket/brackettest"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/examples/internal/controller/controllertest"
	"github.com/tranche-dev/tranche/rollout"
)

var (
	schedules = flag.Int("schedules", 6, "how many `schedules` of killed, paused and disconnected controllers to run")
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

// end reports the end of a job, under the condition that nobody created one since the active ones
// were read.
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

// TestHistory: one order of the writes explains what each of four clients was told while its
// network failed.
func TestHistory(t *testing.T) {
	controllertest.RunHistory(t, driver(sharedMember(t)), *firstSeed)
}

// TestHistoryWhileMembersCrash: and it does so across elections.
func TestHistoryWhileMembersCrash(t *testing.T) {
	if tally := controllertest.RunHistory(t, crashing(t), *firstSeed); tally.Count("disturbed") == 0 {
		t.Error("no member was ever killed")
	}
}

// crashing is a cluster of three of which one member at a time is killed and comes back.
func crashing(t *testing.T) controllertest.Driver {
	members := newCluster(t, 3)
	d := driver(members...)
	random := rand.New(rand.NewPCG(*firstSeed, 3))
	d.Disturb = func() error {
		m := members[random.IntN(len(members))]
		m.kill()
		time.Sleep(time.Duration(random.IntN(1000)) * time.Millisecond)
		return m.start()
	}
	return d
}

// TestSchedulesWhileMembersCrash kills the members of a cluster too, one at a time, with the leader
// among them. The other two go on.
func TestSchedulesWhileMembersCrash(t *testing.T) {
	d := crashing(t)
	tally := controllertest.RunSchedules(t, d, max(2, *schedules/10), *firstSeed)
	if tally.Count("disturbed") == 0 {
		t.Error("no member was ever killed")
	}
}

// TestClusterConforms runs the kit on a cluster of which a follower is stopped and comes back, over
// and over. Who does not talk to it notices nothing.
func TestClusterConforms(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: it takes some seconds")
	}
	members := newMembers(t, 3)
	for _, m := range members {
		m.Fast = true // nobody is killed here
	}
	startCluster(t, members)
	client := connect(t, members[0])
	status, err := client.Status(t.Context(), members[0].Client)
	if err != nil {
		t.Fatal(err)
	}
	follower := members[1]
	if second, err := connect(t, members[1]).Status(t.Context(), members[1].Client); err != nil {
		t.Fatal(err)
	} else if second.Header.MemberId == status.Leader {
		follower = members[2]
	}
	stop, stopped := make(chan struct{}), make(chan error, 1)
	times := 0
	go func() {
		for {
			select {
			case <-stop:
				stopped <- nil
				return
			case <-time.After(200 * time.Millisecond):
			}
			times++
			follower.stop()
			time.Sleep(200 * time.Millisecond)
			if err := follower.start(); err != nil {
				stopped <- err
				return
			}
		}
	}()
	brackettest.Run(t, func(*testing.T) bracket.Store { return NewStore(client, space(), 0) })
	close(stop)
	if err := <-stopped; err != nil || times < 2 {
		t.Errorf("the follower was stopped %d times: %v", times, err)
	}
}

// TestMinorityDown: a cluster works while one member after the other is killed and comes back, and
// answers nothing while two are down.
func TestMinorityDown(t *testing.T) {
	members := newCluster(t, 3)
	client := connect(t, members...)
	store := NewStore(client, space(), 2*time.Second)
	save := func(key string, revision int64) (next int64) {
		t.Helper()
		for deadline := time.Now().Add(20 * time.Second); ; { // an election takes its time, and its victims do not know what became of them
			next, err := store.Save(t.Context(), key, []byte("x"), revision)
			if err == nil {
				return next
			}
			if _, now, loaded := store.Load(t.Context(), key); loaded == nil && now > revision {
				return now
			}
			if time.Now().After(deadline) {
				t.Fatal(err)
			}
		}
	}
	first := save("k", 0)
	for _, down := range members {
		down.kill()
		if next := save("k", first); next <= first {
			t.Errorf("without %s revision %d follows %d", down.Name, next, first)
		} else {
			first = next
		}
		if err := down.start(); err != nil {
			t.Fatal(err)
		}
	}
	members[0].kill()
	members[1].kill()
	alone := NewStore(connect(t, members[2]), store.prefix, 500*time.Millisecond)
	if value, _, err := alone.Load(context.Background(), "k"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("without a majority: %q, %v, want the end of its time and not an old value", value, err)
	}
	if _, err := alone.Save(context.Background(), "k", nil, first); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("without a majority: Save: %v", err)
	}
	if err := errors.Join(members[0].start(), members[1].start()); err != nil {
		t.Fatal(err)
	}
	save("k", first)
	if list, err := store.List(t.Context(), ""); err != nil || len(list) != 1 {
		t.Errorf("%v, %v", list, err)
	}
}
