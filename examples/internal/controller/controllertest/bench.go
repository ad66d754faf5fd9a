//go:build unix

package controllertest

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/clock"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/examples/internal/controller"
	"github.com/tranche-dev/tranche/rollout"
)

// Benchmark measures what a host does with its database: claims by compare-and-swap, alone and
// against others, jobs created on slots that are held, and plans over a fleet in which nothing
// happens.
func Benchmark(b *testing.B, d Driver) {
	b.Run("claim", func(b *testing.B) {
		db := d.open(b, d.Space(b))
		value, revision := make([]byte, 500), int64(0)
		for b.Loop() {
			var err error
			if revision, err = db.Store.Save(b.Context(), "pool/p", value, revision); err != nil {
				b.Fatal(err)
			}
		}
		perSecond(b, "claims/s", b.N)
	})
	b.Run("claim, 8 on one pool", func(b *testing.B) {
		db := d.open(b, d.Space(b))
		value := make([]byte, 500)
		if _, err := db.Store.Save(b.Context(), "pool/p", value, 0); err != nil {
			b.Fatal(err)
		}
		var conflicts atomic.Int64
		b.SetParallelism(4) // times two processors
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				for {
					_, revision, err := db.Store.Load(b.Context(), "pool/p")
					if err == nil {
						_, err = db.Store.Save(b.Context(), "pool/p", value, revision)
					}
					if err == nil {
						break
					}
					if !errors.Is(err, bracket.ErrConflict) {
						b.Error(err)
						return
					}
					conflicts.Add(1)
				}
			}
		})
		perSecond(b, "claims/s", b.N)
		b.ReportMetric(float64(conflicts.Load())/float64(b.N), "conflicts/claim")
	})
	b.Run("dispatch", func(b *testing.B) {
		db := d.open(b, d.Space(b))
		at := epoch()
		record := concurrency.NewRecord("p")
		record.NextToken = 2
		record.Leases = []concurrency.Lease{{Pool: "p", Holder: concurrency.Holder{Resource: "n", Group: "g"}, Token: 1, State: concurrency.Active, Since: at, ProgressAt: at}}
		value, err := json.Marshal(record)
		if err == nil {
			_, err = db.Store.Save(b.Context(), rollout.PoolRecordKey("p"), value, 0)
		}
		if err != nil {
			b.Fatal(err)
		}
		n := 0
		for b.Loop() {
			n++
			start := rollout.Start{TargetID: rollout.TargetID{Resource: "n", Environment: "prod", Deployment: fmt.Sprint(n)}, Run: fmt.Sprint(n), Group: "g",
				Claims: []rollout.Claim{{Pool: "p", Token: 1}}}
			if created, err := db.Jobs.Dispatch(b.Context(), start, 0, at); !created || err != nil {
				b.Fatal(created, err)
			}
		}
		perSecond(b, "jobs/s", b.N)
	})
	for _, size := range []int{10, 1000} {
		b.Run(fmt.Sprintf("plan, nodes=%d", size), func(b *testing.B) {
			set, err := compiled()
			if err != nil {
				b.Fatal(err)
			}
			db := d.open(b, d.Space(b))
			var members []string
			for i := range size {
				members = append(members, fmt.Sprint("node-", i))
			}
			if err := db.Jobs.SetPool(b.Context(), poolKey, members); err != nil {
				b.Fatal(err)
			}
			now := clock.NewFake(epoch().Add(3 * time.Minute))
			c := controller.Controller{Policies: set, Store: db.Store, Jobs: db.Jobs, Clock: now, Fleet: nodes(size, epoch(), now.Now())}
			if _, err := c.Turn(b.Context()); err != nil { // the first starts; from then on everybody waits
				b.Fatal(err)
			}
			for b.Loop() {
				if turn, err := c.Turn(b.Context()); err != nil || len(turn.Dispatched) > 0 {
					b.Fatal(turn.Dispatched, err)
				}
			}
			perSecond(b, "plans/s", b.N)
		})
	}
}

func perSecond(b *testing.B, unit string, n int) {
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), unit)
}
