// Command nodeupgrader runs the controller on a cluster:
//
//	go run ./cmd/nodeupgrader -install                 # creates or updates the custom resources, and exits
//	go run ./cmd/nodeupgrader                          # works on all namespaces
//	go run ./cmd/nodeupgrader -namespace fleet -leader-election=false -metrics-bind-address 0
//
// The program finds the cluster in the usual way: by -kubeconfig, by KUBECONFIG, or by the service
// account of the pod. Several instances may run at once. A leader saves work and conflicts, but
// safety does not need one.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/tranche-dev/tranche/clock"
	"github.com/tranche-dev/tranche/examples/controller"
)

func main() {
	var o options
	flag.BoolVar(&o.install, "install", false, "create or update the custom resources, and end")
	flag.StringVar(&o.namespace, "namespace", "", "the only `namespace` to work on; all if empty")
	flag.BoolVar(&o.elect, "leader-election", true, "let one of several controllers work at a time")
	flag.StringVar(&o.leases, "leader-election-namespace", "", "`namespace` of the lease; that of the pod if empty")
	flag.StringVar(&o.metrics, "metrics-bind-address", ":8080", "`address` at which metrics are served; 0: nowhere")
	flag.Usage = func() {
		fmt.Fprint(flag.CommandLine.Output(), "nodeupgrader is a controller that rolls out what the custom resources of its namespaces describe, under their policies.\n\nFlags:\n")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() > 0 { // what follows it would be lost, such as -namespace after "-leader-election false"
		fmt.Fprintf(os.Stderr, "nodeupgrader: unexpected argument %q: write -name or -name=value (-help lists the flags)\n", flag.Arg(0))
		os.Exit(2)
	}
	ctrl.SetLogger(klog.Background())
	if err := run(ctrl.SetupSignalHandler(), o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

type options struct {
	install, elect             bool
	namespace, leases, metrics string
}

func run(ctx context.Context, o options) error {
	config, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("nodeupgrader: which cluster: give -kubeconfig or KUBECONFIG, or run in a pod: %w", err)
	}
	scheme, err := controller.NewScheme()
	if err != nil {
		return err
	}
	if o.install {
		c, err := client.New(config, client.Options{Scheme: scheme})
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		return controller.Install(ctx, c)
	}
	managed := ctrl.Options{
		Scheme: scheme, LeaderElection: o.elect, LeaderElectionID: "nodeupgrader.rollout.tranche.dev", LeaderElectionNamespace: o.leases,
		Metrics: metricsserver.Options{BindAddress: o.metrics},
	}
	if o.namespace != "" {
		managed.Cache.DefaultNamespaces = map[string]cache.Config{o.namespace: {}}
	}
	mgr, err := ctrl.NewManager(config, managed)
	if err != nil {
		return err
	}
	r := &controller.Reconciler{
		Client: mgr.GetClient(), Server: mgr.GetAPIReader(), Clock: clock.System(), Recorder: mgr.GetEventRecorder("nodeupgrader"),
	}
	if err := r.SetupWithManager(mgr); err != nil {
		return err
	}
	return mgr.Start(ctx)
}
