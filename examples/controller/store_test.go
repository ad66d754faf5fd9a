package controller

import (
	"os"
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
	code := m.Run()
	if shared.server != nil {
		shared.server.close()
	}
	os.Exit(code)
}

// TestStore runs the conformance test of stores against a real API server.
func TestStore(t *testing.T) {
	s := sharedServer(t)
	brackettest.Run(t, func(t *testing.T) bracket.Store {
		c := newClient(t, s)
		return NewStore(c, c, newNamespace())
	})
}
