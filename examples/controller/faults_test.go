package controller

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// network is what lies between a controller and its server.
type network struct {
	random *rand.Rand
	broken bool
	late   []func() error // writes that have not arrived yet
	seen   map[string]int
}

// write does one, or what a network makes of it.
func (n *network) write(do func() error) error {
	if !n.broken || n.random.IntN(8) > 0 {
		return do()
	}
	switch n.random.IntN(4) {
	case 0:
		n.seen["lost"]++
		return errUnknown
	case 1:
		n.seen["answer lost"]++
		_ = do()
		return errUnknown
	case 2:
		n.seen["late"]++
		n.late = append(n.late, do)
		return errUnknown
	default:
		n.seen["refused"]++
		return apierrors.NewConflict(schema.GroupResource{}, "", errUnknown)
	}
}

func (n *network) read(do func() error) error {
	if n.broken && n.random.IntN(40) == 0 {
		n.seen["not read"]++
		return errUnknown
	}
	return do()
}

// arrive lets some of the late writes arrive, in the wrong order.
func (n *network) arrive(all bool) {
	for len(n.late) > 0 && (all || n.random.IntN(3) == 0) {
		last := len(n.late) - 1
		if n.late[last]() == nil {
			n.seen["arrived"]++
		}
		n.late = n.late[:last]
	}
}

// over returns a client that works over the network. What arrives late is what was sent, whatever
// became of the object since.
func (n *network) over(c client.WithWatch) client.WithWatch {
	return interceptor.NewClient(c, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			return n.read(func() error { return c.Get(ctx, key, object, options...) })
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			return n.read(func() error { return c.List(ctx, list, options...) })
		},
		Create: func(_ context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
			sent := object.DeepCopyObject().(client.Object)
			err := n.write(func() error { return c.Create(context.Background(), sent, options...) })
			object.SetResourceVersion(sent.GetResourceVersion())
			return err
		},
		Update: func(_ context.Context, c client.WithWatch, object client.Object, options ...client.UpdateOption) error {
			sent := object.DeepCopyObject().(client.Object)
			err := n.write(func() error { return c.Update(context.Background(), sent, options...) })
			object.SetResourceVersion(sent.GetResourceVersion())
			return err
		},
		Delete: func(_ context.Context, c client.WithWatch, object client.Object, options ...client.DeleteOption) error {
			return n.write(func() error { return c.Delete(context.Background(), object, options...) })
		},
		SubResourcePatch: func(_ context.Context, c client.Client, sub string, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
			sent := object.DeepCopyObject().(client.Object)
			return n.write(func() error { return c.SubResource(sub).Patch(context.Background(), sent, patch, options...) })
		},
	})
}

// TestFaults: two controllers, each behind a network that loses writes and answers, delays and
// refuses, and fails to read. It may slow a rollout down, and nothing else.
func TestFaults(t *testing.T) {
	seeds, seen, failed := uint64(4), map[string]int{}, 0
	if testing.Short() {
		seeds = 2
	}
	for seed := range seeds {
		random := rand.New(rand.NewPCG(seed, 0))
		c := newFake(t, interceptor.Funcs{})
		create(t, c, newFleet(t, "fleet", 3)...)
		h := newHost(t, c, "fleet", day2.Add(-time.Minute))
		var networks []*network
		var controllers []*Reconciler
		for range 2 {
			n := &network{random: random, broken: true, seen: seen}
			over := n.over(c)
			networks = append(networks, n)
			controllers = append(controllers, &Reconciler{Client: over, Server: over, Clock: h.clock, Resync: 10_000 * time.Hour})
		}
		h.reconcile = func(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
			for _, n := range networks {
				n.broken = h.clock.Now().Before(day2.Add(time.Hour))
				n.arrive(!n.broken)
			}
			result, err := controllers[random.IntN(2)].Reconcile(ctx, request)
			if errors.Is(err, errUnknown) || apierrors.IsConflict(err) {
				failed++
				return ctrl.Result{RequeueAfter: time.Duration(1+random.IntN(20)) * time.Second}, nil
			}
			if networks[0].broken {
				result.RequeueAfter = min(result.RequeueAfter, time.Minute) // what the other one left behind
			}
			return result, err
		}
		h.run(day2.Add(6 * time.Hour))
		audit(t, listJobs(t, c, "fleet"), 3, 1)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
		for _, machine := range []string{"node-0", "node-1", "node-2"} {
			if got := reason(t, c, "fleet", machine); got != "current" {
				t.Errorf("seed %d: in the end %s says %s", seed, machine, got)
			}
		}
	}
	for _, what := range []string{"lost", "answer lost", "late", "arrived", "refused", "not read"} {
		if seen[what] == 0 {
			t.Errorf("never %s", what)
		}
	}
	t.Logf("%v; %d reconciliations failed", seen, failed)
}
