package controller

import (
	"context"
	"fmt"
	"testing"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/tranche-dev/tranche/clock"
	"github.com/tranche-dev/tranche/examples/controller/api/v1alpha1"
	"github.com/tranche-dev/tranche/rollout"
)

func reconcileOnce(b *testing.B, r *Reconciler, namespace string) {
	b.Helper()
	if _, err := r.Reconcile(b.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: namespace}}); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkReconcile measures a reconciliation of a fleet at rest, on the RFC's policy: reading
// what is there is most of it. The cached one reads objects as a manager does, from memory, with a
// copy of each; records always come from the server.
func BenchmarkReconcile(b *testing.B) {
	for _, n := range []int{10, 100, 1000} {
		for _, cached := range []bool{false, true} {
			b.Run(fmt.Sprintf("machines=%d/cached=%v", n, cached), func(b *testing.B) {
				c := newClient(b, sharedServer(b))
				namespace := newNamespace()
				for _, object := range newFleet(b, namespace, n) {
					if err := c.Create(b.Context(), object); err != nil {
						b.Fatal(err)
					}
				}
				r := &Reconciler{Client: c, Server: c, Clock: clock.NewFake(day1.Add(time.Hour))} // the window is open: nothing starts
				if reconcileOnce(b, r, namespace); cached {
					r.Client = interceptor.NewClient(c, interceptor.Funcs{List: fill(b, c, namespace).list})
				}
				b.ReportAllocs()
				for b.Loop() {
					reconcileOnce(b, r, namespace)
				}
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "plans/s")
			})
		}
	}
}

// BenchmarkClaims measures starts: each is claimed, saved and dispatched. The batch is what one
// plan starts.
func BenchmarkClaims(b *testing.B) {
	for _, batch := range []int{1, 10, 100} {
		b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) {
			c := newClient(b, sharedServer(b))
			started := 0
			for b.Loop() {
				b.StopTimer()
				namespace := newNamespace()
				policy := fmt.Sprintf(`{"name":"p","selector":"true","rules":[{"resourceConcurrency":{"groupSelector":"true","limit":%d}}]}`, batch)
				objects := []client.Object{newPolicy(namespace, "p", []byte(policy)), inNamespace(&v1alpha1.NodeDeployment{}, namespace, "agent"), newRelease(namespace, "agent", "v1", day1)}
				for i := range batch {
					objects = append(objects, inNamespace(&v1alpha1.Machine{Spec: v1alpha1.MachineSpec{Environment: "prod"}}, namespace, fmt.Sprint("m", i)))
				}
				for _, object := range objects {
					if err := c.Create(context.Background(), object); err != nil {
						b.Fatal(err)
					}
				}
				r := &Reconciler{Client: c, Server: c, Clock: clock.NewFake(day2)}
				r.Client = interceptor.NewClient(c, interceptor.Funcs{List: fill(b, c, namespace).list, SubResourcePatch: unreported})
				b.StartTimer()
				reconcileOnce(b, r, namespace)
				b.StopTimer()
				var jobs v1alpha1.NodeJobList
				if err := c.List(context.Background(), &jobs, client.InNamespace(namespace)); err != nil || len(jobs.Items) != batch {
					b.Fatalf("%d jobs: %v", len(jobs.Items), err)
				}
				started += batch
				b.StartTimer()
			}
			b.ReportMetric(float64(started)/b.Elapsed().Seconds(), "claims/s")
		})
	}
}

// unreported drops reports, which are not what is measured.
func unreported(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
	return nil
}

// fill returns a cache of a namespace.
func fill(b *testing.B, c client.Client, namespace string) *stale {
	h := &stale{cached: map[string]client.ObjectList{}}
	for _, list := range kinds() {
		if err := c.List(context.Background(), list, client.InNamespace(namespace)); err != nil {
			b.Fatal(err)
		}
		h.cached[fmt.Sprintf("%T", list)] = list
	}
	return h
}

// BenchmarkStore measures the store alone, on one key.
func BenchmarkStore(b *testing.B) {
	c := newClient(b, sharedServer(b))
	store := NewStore(c, c, newNamespace())
	value := make([]byte, 1000)
	revision, err := store.Save(b.Context(), "key", value, 0)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("Save", func(b *testing.B) {
		for b.Loop() {
			if revision, err = store.Save(b.Context(), "key", value, revision); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("Load", func(b *testing.B) {
		for b.Loop() {
			if _, _, err := store.Load(b.Context(), "key"); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkCount measures a count of the active jobs. Those that have ended stay at the server.
// After a write of another kind the server waits until its watch cache has heard of it, which is up
// to 0.1 s and no work.
func BenchmarkCount(b *testing.B) {
	c := newDirectClient(b, sharedServer(b))
	for _, row := range []struct{ active, ended int }{{20, 0}, {20, 2000}, {2000, 0}} {
		namespace := newNamespace()
		for i := range row.active + row.ended {
			job := inNamespace(&v1alpha1.NodeJob{Spec: v1alpha1.NodeJobSpec{
				Run: fmt.Sprint(i), Machine: fmt.Sprint("m", i), Environment: "prod", Deployment: "d", Version: "v1",
			}}, namespace, fmt.Sprint("j", i))
			create(b, c, job)
			if i >= row.active {
				if err := report(b.Context(), c, job, rollout.JobSuccessful, day1); err != nil {
					b.Fatal(err)
				}
			}
		}
		counter := NewNodeJobs(c, namespace, func(string) ([]string, error) { return []string{"pool"}, nil })
		for _, written := range []bool{false, true} {
			b.Run(fmt.Sprintf("active=%d/ended=%d/written=%v", row.active, row.ended, written), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if written {
						b.StopTimer()
						if _, err := NewStore(c, c, newNamespace()).Save(b.Context(), "key", nil, 0); err != nil {
							b.Fatal(err)
						}
						b.StartTimer()
					}
					if holders, err := counter.Active(b.Context(), "pool"); err != nil || len(holders) != row.active {
						b.Fatalf("%d holders: %v", len(holders), err)
					}
				}
			})
		}
	}
}
