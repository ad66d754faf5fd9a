package controller

import (
	"flag"
	"os"
	"runtime/debug"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/bracket/brackettest"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	debug.SetGCPercent(400) // a server in the process makes much garbage, and a fifth of the time went into collecting it
	flag.Parse()
	if os.Getenv("RAPID_CHECKS") == "" {
		_ = flag.Set("rapid.checks", "30") // every step is a call of a server
	}
	code := m.Run()
	if shared.server != nil {
		shared.server.close()
	}
	os.Exit(code)
}

// TestStore runs the conformance test of stores against a real API server.
func TestStore(t *testing.T) {
	t.Parallel()
	s := sharedServer(t)
	brackettest.Run(t, func(t *testing.T) bracket.Store {
		c := newDirectClient(t, s)
		return NewStore(c, c, newNamespace())
	})
}
