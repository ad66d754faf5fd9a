// Command nodeupgrader runs the controller on a cluster:
//
//	go run ./cmd/nodeupgrader -install                 # creates or updates the custom resources, and exits
//	go run ./cmd/nodeupgrader -leader-election=false   # works on all namespaces
//	go run ./cmd/nodeupgrader -namespace fleet -leader-election-namespace fleet -metrics-bind-address 0 -health-probe-bind-address 0
//
// The program finds the cluster in the usual way: by -kubeconfig, by KUBECONFIG, or by the service
// account of the pod. Several instances may run at once. A leader saves work and conflicts, but
// safety does not need one. Outside a pod, the namespace of the leader's lease must be given.
//
// It answers probes: /healthz as long as it runs, /readyz as soon as its caches are filled. An
// instance that does not lead is ready too, for it can take over.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"
	_ "time/tzdata" // policies name zones, and not every machine has them

	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/tranche-dev/tranche/clock"
	"github.com/tranche-dev/tranche/examples/controller"
	"github.com/tranche-dev/tranche/examples/internal/program"
)

func main() {
	program.Main(func(args []string, out io.Writer) error {
		o, err := parse(args, out)
		if err != nil {
			return err
		}
		ctrl.SetLogger(klog.Background())
		return run(ctrl.SetupSignalHandler(), o)
	})
}

// parse reads the flags; -kubeconfig is for package config of controller-runtime.
func parse(args []string, out io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("nodeupgrader", flag.ContinueOnError)
	config.RegisterFlags(flags)
	flags.BoolVar(&o.install, "install", false, "create or update the custom resources, and end")
	flags.StringVar(&o.namespace, "namespace", "", "the only `namespace` to work on (default: all)")
	flags.BoolVar(&o.elect, "leader-election", true, "let one of several controllers work at a time")
	flags.StringVar(&o.leases, "leader-election-namespace", "", "`namespace` of the lease (default: that of the pod; required outside of one)")
	flags.StringVar(&o.metrics, "metrics-bind-address", ":8080", "`address` at which metrics are served; 0: nowhere")
	flags.StringVar(&o.probes, "health-probe-bind-address", ":8081", "`address` at which probes are answered, /healthz and /readyz; 0: nowhere")
	return o, program.Parse(flags, args, out, nil, "nodeupgrader is a controller that rolls out what the custom resources of its namespaces describe, under their policies.",
		"write -name or -name=value") // what follows it would be lost, such as -namespace after "-leader-election false"
}

type options struct {
	install, elect                     bool
	namespace, leases, metrics, probes string
}

// lease is the name of the leader's lease. Programs that work on different namespaces have different
// leaders: with one name for all, the leases of one namespace of pods would let only one of them work.
func (o options) lease() string {
	const all = "nodeupgrader.rollout.tranche.dev"
	if o.namespace == "" {
		return all
	}
	return o.namespace + "." + all
}

func run(ctx context.Context, o options) error {
	cluster, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("nodeupgrader: which cluster: give -kubeconfig or KUBECONFIG, or run in a pod: %w", err)
	}
	scheme, err := controller.NewScheme()
	if err != nil {
		return err
	}
	if o.install {
		c, err := client.New(cluster, client.Options{Scheme: scheme})
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		return controller.Install(ctx, c)
	}
	if o.elect && o.leases == "" && !inPod() { // the manager would name an option of its own
		return errors.New("nodeupgrader: outside a pod there is no namespace for the leader's lease: give -leader-election-namespace, or -leader-election=false")
	}
	managed := ctrl.Options{
		Scheme: scheme, LeaderElection: o.elect, LeaderElectionID: o.lease(), LeaderElectionNamespace: o.leases,
		LeaderElectionReleaseOnCancel: true, // the program ends with the manager, so the next one need not wait for the end of the lease
		Metrics:                       metricsserver.Options{BindAddress: o.metrics}, HealthProbeBindAddress: o.probes,
	}
	if o.namespace != "" {
		managed.Cache.DefaultNamespaces = map[string]cache.Config{o.namespace: {}}
	}
	mgr, err := ctrl.NewManager(cluster, managed)
	if err != nil {
		return err
	}
	r := &controller.Reconciler{
		Client: mgr.GetClient(), Server: mgr.GetAPIReader(), Clock: clock.System(), Recorder: mgr.GetEventRecorder("nodeupgrader"),
	}
	if err := r.SetupWithManager(mgr); err != nil {
		return err
	}
	// What is unready is restarted by nobody, so a server that does not answer, or has no
	// definitions yet, makes it unready and not unhealthy.
	if err := errors.Join(mgr.AddHealthzCheck("ping", healthz.Ping), mgr.AddReadyzCheck("caches", controller.Ready(mgr.GetCache()))); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// inPod reports whether the program runs in a pod, which has a namespace.
func inPod() bool {
	_, err := os.Stat("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
	return err == nil
}
