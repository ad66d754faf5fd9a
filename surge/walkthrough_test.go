package surge_test

import (
	"strings"
	"testing"

	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/surge"
)

// TestWalkthroughs: worked examples that the documentation has no room for, step by step.
func TestWalkthroughs(t *testing.T) {
	for _, row := range []struct {
		why    string
		spec   surge.Spec
		state  string
		events []string
		want   string // one state after the other
	}{
		{"whole replicas of a set are planned by the same rules: two of them with one surge", surge.Spec{Replicas: 2, MaxSurge: concurrency.Count(1), MaxUnavailable: concurrency.Count(0)},
			"OO.", []string{"2 ready", "0 gone", "0 ready", "1 gone", "1 ready", "2 gone"},
			"OO.  +2 | OOn  2 ready | OON  -0 | tON  0 gone | .ON  +0 | nON  0 ready | NON  -1 | NtN  1 gone | N.N  +1 | NnN  1 ready | NNN  -2 | NNt  2 gone | NN.  converged"},
		{"both at once: fast, and nothing serves meanwhile", surge.Spec{Replicas: 2, MaxUnavailable: concurrency.Count(2)},
			"OO", []string{"0 gone", "1 gone", "0 ready", "1 ready"},
			"OO  -0 -1 | tt  0 gone | .t  +0 | nt  1 gone | n.  +1 | nn  0 ready | Nn  1 ready | NN  converged"},
		{"two at a time: a replica that comes back is used at once, whichever it is", surge.Spec{Replicas: 4, MaxUnavailable: concurrency.Count(2)},
			"OOOO", []string{"0 gone", "1 gone", "1 ready", "0 ready", "2 gone", "2 ready", "3 gone", "3 ready"},
			"OOOO  -0 -1 | ttOO  0 gone | .tOO  +0 | ntOO  1 gone | n.OO  +1 | nnOO  1 ready | nNOO  -2 | nNtO  0 ready | NNtO  -3 | NNtt  2 gone | NN.t  +2 | NNnt  2 ready | NNNt  3 gone | NNN.  +3 | NNNn  3 ready | NNNN  converged"},
		{"the surge pays for a third replica at a time, and is retired before the update is over", surge.Spec{Replicas: 5, MaxSurge: concurrency.Count(1), MaxUnavailable: concurrency.Count(2)},
			"OOOOO.", []string{"0 gone", "1 gone", "5 ready", "0 ready", "1 ready", "2 gone", "2 ready", "5 gone", "3 gone", "4 gone", "3 ready", "4 ready"},
			"OOOOO.  -0 -1 +5 | ttOOOn  0 gone | .tOOOn  +0 | ntOOOn  1 gone | n.OOOn  +1 | nnOOOn  5 ready | nnOOON  -2 | nntOON  0 ready | NntOON  -3 | NnttON  1 ready | NNttON  -4 | NNtttN  2 gone | NN.ttN  +2 | NNnttN  2 ready | NNNttN  -5 | NNNttt  5 gone | NNNtt.  3 gone | NNN.t.  +3 | NNNnt.  4 gone | NNNn..  +4 | NNNnn.  3 ready | NNNNn.  4 ready | NNNNN.  converged"},
		{"without any configuration, one replica after the other", surge.Spec{Replicas: 2},
			"OO", []string{"0 gone", "0 ready", "1 gone", "1 ready"},
			"OO  -0 | tO  0 gone | .O  +0 | nO  0 ready | NO  -1 | Nt  1 gone | N.  +1 | Nn  1 ready | NN  converged"},
	} {
		if got := strings.Join(walkthrough(row.spec, row.state, row.events), " | "); got != row.want {
			t.Errorf("%s:\n got %s\nwant %s", row.why, got, row.want)
		}
	}
}
