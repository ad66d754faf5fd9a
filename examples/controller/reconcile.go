// Package controller is a Kubernetes controller for custom resources that upgrades machines in
// brackets: it drains a machine once for several upgrades, keeps to the limits of its policies, and
// says on every machine what that machine waits for. [Reconciler] does all of it; package v1alpha1
// holds the resources.
//
// Any number of controllers may work on one fleet at once, with or without a leader: see [Store]
// and the records of targets in dispatch.go.
package controller

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/clock"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/examples/controller/api/v1alpha1"
	"github.com/tranche-dev/tranche/rollout"
)

// DefaultResync is how long a reconciler sleeps at most.
const DefaultResync = time.Minute

// retryDelay is how long it sleeps after a conflict: somebody else has just saved, and most often
// did the work.
const retryDelay = 100 * time.Millisecond

// Reconciler plans a namespace as a whole: a request names the namespace and nothing else. It is
// safe for concurrent use.
type Reconciler struct {
	Client   client.Client        // reads may come from a cache
	Server   client.Reader        // never from a cache, such as manager.Manager.GetAPIReader
	Clock    clock.Clock          // what now is, for plans and jobs
	Recorder events.EventRecorder // nil: no events

	// Resync is how long to sleep at most although neither time nor an event asks for a plan: what
	// another controller saved and did not live to dispatch is found then. 0 means [DefaultResync].
	Resync time.Duration

	compiler   compiler
	namespaces sync.Map // name → *namespace; of those that have policies
}

// namespace is what is kept of a namespace between requests.
type namespace struct {
	name    string
	store   *Store // it knows what it has seen
	mu      sync.Mutex
	planner rollout.Planner // it decodes only what has changed

	suspects map[lease]time.Time         // since when every plan has called them orphans
	given    map[concurrency.Holder]bool // whose slots this controller has given back, while a command says so
	unsaid   map[string]time.Time        // since when no turn has got the status of these objects written

	known known // what the last observation knew
}

func (r *Reconciler) namespace(name string) *namespace {
	own, known := r.namespaces.Load(name)
	if !known {
		own, _ = r.namespaces.LoadOrStore(name, &namespace{name: name, store: NewStore(r.Server, r.Client, name)})
	}
	return own.(*namespace)
}

// Reconcile observes the namespace, plans, saves what the plan claims, creates the jobs, gives
// slots back that nobody uses, and says what it found.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	report := &reporter{client: r.Client, recorder: r.Recorder, now: r.Clock.Now(), given: map[concurrency.Holder]bool{}}
	found, err := r.compiler.load(ctx, r.Client, request.Namespace)
	if err != nil {
		return ctrl.Result{}, err
	}
	if len(found.items) == 0 {
		return r.forget(ctx, report, request.Namespace)
	}
	own := r.namespace(request.Namespace)
	if err := report.accepted(ctx, found); err != nil || found.set == nil {
		return r.rest(ctx, own, report, err)
	}
	seen, plan, err := r.plan(ctx, own, found.set)
	switch {
	case errors.Is(err, bracket.ErrConflict):
		return ctrl.Result{RequeueAfter: retryDelay}, nil
	case rejected(err):
		return r.rest(ctx, own, report, report.refused(ctx, found, err))
	case told(err):
		return r.rest(ctx, own, report, errors.Join(err, report.refused(ctx, found, err)))
	case err != nil:
		return ctrl.Result{}, err
	}
	jobs := &dispatcher{store: own.store, writer: r.Client}
	again := false
	var denials error
	for _, start := range plan.Start {
		at := r.Clock.Now()
		if at.Before(plan.Now) {
			at = plan.Now // a job is never older than the plan that asked for it
		}
		frozen, err := r.freezesOf(ctx, own.name, start.TargetID, at)
		if err != nil {
			return ctrl.Result{}, errors.Join(denials, err)
		}
		if slices.ContainsFunc(frozen, func(z rollout.Freeze) bool { return !z.FinishBegun }) {
			// Somebody has frozen it since the plan was made, of which many starts may be left. The
			// next plan says so, and offers those again that are not frozen.
			return ctrl.Result{RequeueAfter: retryDelay}, denials
		}
		created, err := jobs.dispatch(ctx, start, seen.turns[start.TargetID], at)
		switch {
		case errors.Is(err, errOvertaken):
			again = true
		case denied(err):
			denials = errors.Join(denials, err) // it is offered again; the others do not wait for it
		case err != nil:
			return ctrl.Result{}, errors.Join(denials, err)
		case created:
			report.event(seen.machine(start.Resource), corev1.EventTypeNormal, string(start.Reason), "Dispatch", start.Deployment+" "+start.Version)
		}
	}
	given, due, err := r.giveBack(ctx, own, jobs, report, seen, plan)
	own.remember(report.given, seen.released)
	err = errors.Join(denials, err, report.planned(ctx, found, seen, plan))
	unsaid := own.again(ctx, report, r.Clock.Now())
	if err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: r.sleep(again || given, plan.Next, due, unsaid)}, nil
}

// rest ends a turn after which only an event asks for another one, unless it failed or something is
// to be reported again.
func (r *Reconciler) rest(ctx context.Context, own *namespace, report *reporter, err error) (ctrl.Result, error) {
	unsaid := own.again(ctx, report, r.Clock.Now())
	if err != nil || unsaid.IsZero() {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: r.sleep(false, unsaid)}, nil
}

// forget is the turn of a namespace without policies: nothing is planned, nothing is said on its
// machines any more, and nothing is kept of it, for it may be gone, and others come. The turn after
// a plan is repeated once: the cache may not have shown yet what that plan had said.
func (r *Reconciler) forget(ctx context.Context, report *reporter, name string) (ctrl.Result, error) {
	err := report.ungoverned(ctx, name)
	if err != nil || len(report.unsaid) > 0 {
		return r.rest(ctx, r.namespace(name), report, err)
	}
	if _, planned := r.namespaces.LoadAndDelete(name); planned {
		return ctrl.Result{RequeueAfter: r.sleep(false)}, nil
	}
	return ctrl.Result{}, nil
}

// plan observes and plans. Jobs are counted at the server by the planner itself, after it has read
// its records: see [NodeJobs]. If machines that are proved gone hold something it plans again without
// them; of those that hold nothing, and of which there are no jobs, it deletes the records. If former
// machines hold something whose names others have now, it first makes a plan that is told that they
// are gone, and starts nothing: jobs on the new machines count in none of it.
func (r *Reconciler) plan(ctx context.Context, own *namespace, set *rollout.PolicySet) (*observation, rollout.Plan, error) {
	own.mu.Lock()
	before := own.known
	own.mu.Unlock()
	seen, err := observe(ctx, r.Client, r.Server, own.name, before)
	if err != nil {
		return nil, rollout.Plan{}, err
	}
	if _, err := set.PoolKeys(seen.snapshot.Resources); err != nil {
		return nil, rollout.Plan{}, fmt.Errorf("%w: %w", errRejected, err) // what runs on such a machine would count nowhere
	}
	seen.freeze(r.Clock.Now())
	own.mu.Lock()
	defer own.mu.Unlock()
	own.known.unreleased = seen.known.unreleased
	planner := &own.planner
	planner.Policies, planner.Clock = set, r.Clock
	planner.Store = &fence{
		Store: own.store, jobs: &dispatcher{store: own.store, writer: r.Client}, seen: seen,
		executions: map[string][]byte{}, found: map[string]bool{},
	}
	planner.JobCounter = NewNodeJobs(r.Server, own.name, seen.pools(set)).PerPlan()
	var replaced []string
	looked := false // after that every start is carried out
	planner.Choose = func(plan *rollout.Plan) []rollout.Start {
		if !looked {
			replaced = seen.replaced(plan.State)
		}
		if len(replaced) > 0 {
			return nil
		}
		return plan.Start
	}
	plan, err := planner.Plan(ctx, seen.snapshot)
	if looked = true; err == nil && len(replaced) > 0 {
		seen.snapshot.DeletedResources = replaced
		if _, err = planner.Plan(ctx, seen.snapshot); err == nil {
			seen.snapshot.DeletedResources, replaced = nil, nil
			plan, err = planner.Plan(ctx, seen.snapshot)
		}
	}
	if err != nil {
		return nil, rollout.Plan{}, err
	}
	own.known.commands = seen.known.commands // a plan that failed has heard none
	holding, ended, err := seen.gone(ctx, r.Server, own.name, plan.State)
	if err == nil && len(holding) > 0 {
		seen.snapshot.DeletedResources = holding
		plan, err = planner.Plan(ctx, seen.snapshot)
	}
	if err == nil && len(ended) > 0 {
		err = planner.Forget(ctx, ended)
	}
	if err == nil {
		err = own.forgetTargets(ctx, r.Server, seen)
	}
	return seen, plan, err
}

// sleep is how long nothing needs to be planned unless something happens, at the latest until the
// first of the instants. A zero one is none.
func (r *Reconciler) sleep(again bool, until ...time.Time) time.Duration {
	sleep := r.Resync
	if sleep <= 0 {
		sleep = DefaultResync
	}
	if again {
		sleep = min(sleep, retryDelay)
	}
	for _, at := range until {
		if !at.IsZero() {
			sleep = min(sleep, max(at.Sub(r.Clock.Now()), time.Millisecond)) // 0 would be never
		}
	}
	return sleep
}

// SetupWithManager registers the reconciler: everything that happens in a namespace, other than its
// own reports, asks for one plan of it.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	return setup(mgr, r, controller.Options{})
}

func setup(mgr ctrl.Manager, r reconcile.Reconciler, options controller.Options) error {
	if err := register(); err != nil {
		return err
	}
	// Backing off stops at seconds, for what was wrong is most often the server, and all of the
	// fleet waits.
	options.RateLimiter = workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](10*time.Millisecond, 5*time.Second)
	fleet := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, object client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: object.GetNamespace()}}}
	})
	// A status does not count as a change of what is wanted, or every report would ask for a plan.
	// Only that of a job does.
	wanted := builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{}))
	b := ctrl.NewControllerManagedBy(mgr).Named("rollout").WithOptions(options)
	for _, object := range watched() {
		if _, job := object.(*v1alpha1.NodeJob); job {
			b.Watches(object, fleet)
		} else {
			b.Watches(object, fleet, wanted)
		}
	}
	return b.Complete(r)
}

// watched has an object of every kind that a plan is made from.
func watched() []client.Object {
	return []client.Object{
		&v1alpha1.RolloutPolicy{}, &v1alpha1.NodeDeployment{}, &v1alpha1.Release{}, &v1alpha1.Machine{}, &v1alpha1.NodeJob{},
		&v1alpha1.ReleaseApproval{}, &v1alpha1.RuleOverride{}, &v1alpha1.DeploymentFreeze{}, &v1alpha1.BracketCommand{},
	}
}

// reported has an object of every kind whose status the reconciler writes.
func reported() []client.Object {
	return []client.Object{&v1alpha1.RolloutPolicy{}, &v1alpha1.Machine{}, &v1alpha1.BracketCommand{}}
}

// Ready returns a check of whether a reconciler that reads from a cache could plan now: the cache
// holds all kinds. It does not ask who leads. An instance that waits to lead must be ready, or no
// deployment of two would ever be, and none could be updated; and it fills its cache by being asked,
// so that it takes over at once.
func Ready(c cache.Cache) healthz.Checker {
	return func(request *http.Request) error {
		for _, object := range watched() {
			informer, err := c.GetInformer(request.Context(), object, cache.BlockUntilSynced(false)) // it is started if it is not yet there
			if err != nil {
				return fmt.Errorf("controller: the cache of %T: %w", object, err)
			}
			if !informer.HasSynced() {
				return fmt.Errorf("controller: the cache of %T is not filled yet", object)
			}
		}
		return nil
	}
}
