package controller

import (
	"errors"
	"reflect"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// refusals counts the statuses that servers have refused, by kind. No reconciliation fails for that,
// see namespace.again, so the metrics of controller-runtime do not show it. Which object it was is
// in the log.
var refusals = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "nodeupgrader_status_refusals_total",
	Help: "Statuses that the server has refused, each time that they were written. They are written again after delays that grow to a minute.",
}, []string{"kind"})

// register adds the metrics to those that a manager serves. Several controllers of one process share
// them.
func register() error {
	var already prometheus.AlreadyRegisteredError
	if err := metrics.Registry.Register(refusals); err != nil && !errors.As(err, &already) {
		return err
	}
	for _, object := range reported() {
		refusals.WithLabelValues(kindOf(object)) // 0 from the start, so that the first one is an increase
	}
	return nil
}

func kindOf(object client.Object) string { return reflect.TypeOf(object).Elem().Name() }
