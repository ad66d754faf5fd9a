package controller

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/tranche-dev/tranche/examples/controller/api/v1alpha1"
	"github.com/tranche-dev/tranche/rollout"
)

// pages is a server that shows two jobs at a time, with faults.
type pages struct {
	client.Reader
	lists, read int                  // how many were begun, and pages read
	fault       func(page int) error // of a list, from 1; may be nil
	shown       [][]v1alpha1.NodeJob // as they were when the list was begun
	expiring    int                  // so many lists are forgotten before their second page
	between     func()               // what happens then
}

func (p *pages) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	jobs, ok := list.(*v1alpha1.NodeJobList)
	if !ok {
		return p.Reader.List(ctx, list, options...)
	}
	var asked client.ListOptions
	asked.ApplyOptions(options)
	page := 0
	if asked.Continue == "" {
		if err := p.Reader.List(ctx, jobs, options...); err != nil {
			return err
		}
		p.lists++
		p.shown = slices.Collect(slices.Chunk(jobs.Items, 2))
	} else if _, err := fmt.Sscanf(asked.Continue, "page %d", &page); err != nil {
		return fmt.Errorf("it was not this server that said to continue with %q", asked.Continue)
	}
	p.read++
	if p.fault != nil {
		if err := p.fault(page + 1); err != nil {
			return err
		}
	}
	if page == 1 && p.expiring > 0 {
		p.expiring--
		p.between()
		expired := apierrors.NewResourceExpired("the provided continue parameter is too old")
		expired.ErrStatus.ListMeta.Continue = "the newest revision instead"
		return expired
	}
	jobs.Items, jobs.Continue = nil, ""
	if page < len(p.shown) {
		jobs.Items = slices.Clone(p.shown[page])
	}
	if page+1 < len(p.shown) {
		jobs.Continue = fmt.Sprint("page ", page+1)
	}
	return nil
}

// unplanned creates jobs by hand on machines of these numbers.
func unplanned(tb testing.TB, c client.Client, machines ...int) {
	for _, i := range machines {
		create(tb, c, inNamespace(&v1alpha1.NodeJob{Spec: v1alpha1.NodeJobSpec{
			Run: fmt.Sprint("by hand ", i), Machine: fmt.Sprint("node-", i), Environment: "prod", Deployment: "memory-test", Version: "v1", CreatedAt: day1,
		}}, "fleet", fmt.Sprint("by-hand-", i)))
	}
}

// TestCountFails: what the server does not answer, or answers in part, is an error. Nothing is
// planned, saved or dispatched, and all of it later.
func TestCountFails(t *testing.T) {
	kind := schema.GroupResource{Group: v1alpha1.GroupVersion().Group, Resource: "nodejobs"}
	for _, row := range []struct {
		why  string
		err  error
		want string
	}{
		{"the server is broken", apierrors.NewInternalError(errors.New("etcdserver: no leader")), "no leader"},
		{"it is busy", apierrors.NewTooManyRequests("slow down", 1), "slow down"},
		{"its cache does not get as far", apierrors.NewTimeoutError("too large resource version", 1), "too large resource version"},
		{"a conflict of a list is none that planning again mends", apierrors.NewConflict(kind, "", errors.New("odd")), "odd"},
		{"the connection breaks", io.ErrUnexpectedEOF, "unexpected EOF"},
		{"it takes too long", context.DeadlineExceeded, "deadline"},
		{"it may not be read", apierrors.NewForbidden(kind, "", errors.New("role fleet")), "role fleet"},
		{"the definitions are older than the controller", apierrors.NewBadRequest("field label not supported: status.state"), "Install"},
		{"every revision is forgotten before the list is at its end", apierrors.NewResourceExpired("too old"), "too old"},
	} {
		for page := 1; page <= 3; page++ {
			t.Run(fmt.Sprint(row.why, ", page ", page), func(t *testing.T) {
				c := newFake(t, interceptor.Funcs{})
				create(t, c, newFleet(t, "fleet", 40)...) // eight at a time
				unplanned(t, c, 30, 31, 32, 33, 34, 35)
				server := &pages{Reader: c, fault: func(at int) error {
					if at == page {
						return row.err
					}
					return nil
				}}
				h := newHost(t, c, "fleet", day2.Add(10*time.Hour)) // everybody is due
				r := &Reconciler{Client: withoutJobs(c), Server: server, Clock: h.clock}
				_, err := r.Reconcile(t.Context(), h.request())
				if err == nil || !errors.Is(err, row.err) || !strings.Contains(err.Error(), row.want) || !strings.Contains(err.Error(), "active jobs of namespace fleet") {
					t.Errorf("error %v, want one about %q", err, row.want)
				}
				if jobs := listJobs(t, c, "fleet"); len(jobs) != 6 {
					t.Errorf("%d jobs were dispatched", len(jobs)-6)
				}
				var records v1alpha1.PlannerStateList
				if err := c.List(t.Context(), &records); err != nil || len(records.Items) > 0 {
					t.Errorf("%d records were saved: %v", len(records.Items), err)
				}
				server.fault, r.Client = nil, c
				h.reconcile = r.Reconcile
				h.once()
				down := map[string]bool{} // work may begin on those that are down already
				for _, job := range listJobs(t, c, "fleet") {
					down[job.Spec.Machine] = true
				}
				if len(down) != 8 {
					t.Errorf("%d machines are down in the end, want two more", len(down))
				}
			})
		}
	}
}

// TestForgottenPages: a list that is forgotten between two pages is begun anew. A job that began
// meanwhile, before the place where the list was, counts.
func TestForgottenPages(t *testing.T) {
	for expiring, want := range map[int]int{0: 6, 1: 7, 3: 7} {
		c := newFake(t, interceptor.Funcs{})
		unplanned(t, c, 30, 31, 32, 33, 34, 35)
		began := false
		server := &pages{Reader: c, expiring: expiring, between: func() {
			if !began {
				unplanned(t, c, 1) // by name before all others
				began = true
			}
		}}
		holders, err := NewNodeJobs(server, "fleet", func(string) ([]string, error) { return []string{"pool"}, nil }).Active(t.Context(), "pool")
		if err != nil || len(holders) != want || server.lists != expiring+1 {
			t.Errorf("forgotten %d times: %d holders in %d lists, want %d: %v", expiring, len(holders), server.lists, want, err)
		}
	}
}

// TestPerPlan: one list answers for all pools of a plan; whoever asks for a pool again makes
// another plan, and must not hear what was.
func TestPerPlan(t *testing.T) {
	c := newFake(t, interceptor.Funcs{})
	unplanned(t, c, 1, 2, 3)
	server := &pages{Reader: c}
	zone := func(machine string) ([]string, error) {
		return []string{"all", map[string]string{"node-1": "a", "node-2": "b", "node-3": "b"}[machine]}, nil
	}
	counter := NewNodeJobs(server, "fleet", zone).PerPlan()
	count := func(pool string) int {
		t.Helper()
		holders, err := counter.Active(t.Context(), pool)
		if err != nil {
			t.Fatal(err)
		}
		for i := range holders {
			defer func() { holders[i].Resource = "overwritten" }()
		}
		return len(holders)
	}
	if a, all, b := count("a"), count("all"), count("b"); a != 1 || all != 3 || b != 2 || server.lists != 1 {
		t.Errorf("%d, %d and %d holders in %d lists", a, all, b, server.lists)
	}
	for _, job := range listJobs(t, c, "fleet")[1:] {
		if err := report(t.Context(), c, &job, rollout.JobSuccessful, day2); err != nil {
			t.Fatal(err)
		}
	}
	if a, all, b := count("a"), count("all"), count("b"); a != 1 || all != 1 || b != 0 || server.lists != 2 {
		t.Errorf("another plan: %d, %d and %d holders in %d lists", a, all, b, server.lists)
	}
	server.fault = func(int) error { return errCut }
	for _, pool := range []string{"a", "never asked"} {
		if holders, err := counter.Active(t.Context(), pool); !errors.Is(err, errCut) || len(holders) > 0 {
			t.Errorf("cut off: %v, %v", holders, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	server.fault = nil
	count("a")
	cancel()
	if holders, err := counter.Active(ctx, "all"); !errors.Is(err, context.Canceled) || len(holders) > 0 {
		t.Errorf("cancelled: %v, %v", holders, err)
	}
}

// TestCountedOncePerAttempt: a planner that loses the race counts again, and only then.
func TestCountedOncePerAttempt(t *testing.T) {
	for conflicts, want := range map[int]int{0: 1, 2: 3} {
		left := conflicts
		c := newFake(t, interceptor.Funcs{})
		create(t, c, newFleet(t, "fleet", 3)...)
		racing := interceptor.NewClient(c, interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
				if _, record := object.(*v1alpha1.PlannerState); record && left > 0 {
					left--
					return apierrors.NewAlreadyExists(schema.GroupResource{}, object.GetName())
				}
				return c.Create(ctx, object, options...)
			},
		})
		server := &pages{Reader: c}
		h := newHost(t, c, "fleet", day2)
		h.reconcile = (&Reconciler{Client: racing, Server: server, Clock: h.clock}).Reconcile
		if h.once(); server.lists != want || len(listJobs(t, c, "fleet")) != 1 {
			t.Errorf("%d conflicts: counted %d times, want %d, and %d jobs", conflicts, server.lists, want, len(listJobs(t, c, "fleet")))
		}
	}
}
