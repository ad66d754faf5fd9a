package controller

import (
	"errors"
	"flag"
	"math"
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

// TestRevisionsOfNobody: a revision that no object can have is a conflict like any other, with a key
// and without.
func TestRevisionsOfNobody(t *testing.T) {
	t.Parallel()
	c := newDirectClient(t, sharedServer(t))
	store := NewStore(c, c, newNamespace())
	if _, err := store.Save(t.Context(), "key", nil, 0); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"key", "no key"} {
		for _, revision := range []int64{-1, math.MinInt64, math.MaxInt64} {
			if _, err := store.Save(t.Context(), key, nil, revision); !errors.Is(err, bracket.ErrConflict) {
				t.Errorf("Save of %q at %d: %v", key, revision, err)
			}
		}
		if err := store.Delete(t.Context(), key, -1); !errors.Is(err, bracket.ErrConflict) && !errors.Is(err, bracket.ErrNotFound) {
			t.Errorf("Delete of %q: %v", key, err)
		}
	}
}
