package rollouttest_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/rollout"
	"github.com/tranche-dev/tranche/rollout/rollouttest"
)

// took is a prediction of which one trial takes one minute, the next two minutes and so on, with as
// many resources in flight. The last ones are never done. They are listed in no order.
func took(n, halted int) rollouttest.Prediction {
	p := rollouttest.Prediction{Start: noon, Trials: make([]rollouttest.Trial, n)}
	for k := range p.Trials {
		at := k * 7 % n
		if n%7 == 0 {
			at = n - 1 - k
		}
		p.Trials[k] = rollouttest.Trial{Done: at < n-halted, Finish: noon.Add(minutes(at + 1)), InFlight: at + 1}
		if !p.Trials[k].Done {
			p.Trials[k].Left = []rollout.Reason{rollout.ReasonRetryExhausted}
		}
	}
	return p
}

// TestQuantiles: of few trials, a quantile is the first that reaches the share. Nothing is promised
// that no trial kept.
func TestQuantiles(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		why       string
		n, halted int
		q         float64
		minute    int // zero: never
		peak      int
	}{
		{"nine of ten are done by the ninth", 10, 0, 0.9, 9, 9},
		{"more than nine are done by the tenth", 10, 0, 0.91, 10, 10},
		{"of nine, nine tenths are all", 9, 0, 0.9, 9, 9},
		{"nine of ten are a share that was reached, although one is never done", 10, 1, 0.9, 9, 9},
		{"and more was not", 10, 1, 0.91, 0, 10},
		{"half of two is one", 2, 0, 0.5, 1, 1},
		{"half of two, of which one is never done", 2, 1, 0.5, 1, 1},
		{"half of three is two of them", 3, 0, 0.5, 2, 2},
		{"one trial is every share", 1, 0, 0.01, 1, 1},
		{"a product that is rounded up, 0.07 * 100, does not reach the next one", 100, 0, 0.07, 7, 7},
		{"no share at all is the earliest", 5, 0, 0, 1, 1},
		{"all is the latest", 5, 0, 1, 5, 5},
		{"all is never if one is never done", 5, 1, 1, 0, 5},
		{"more than all", 5, 0, 1.01, 0, 0},
		{"less than nothing", 5, 0, -0.01, 0, 0},
		{"no number", 5, 0, math.NaN(), 0, 0},
		{"none is done", 5, 5, 0, 0, 1},
		{"no trials", 0, 0, 0.5, 0, 0},
	} {
		p := took(row.n, row.halted)
		at, ok := p.Finish(row.q)
		if want := noon.Add(minutes(row.minute)); ok != (row.minute > 0) || ok && !at.Equal(want) || !ok && !at.IsZero() {
			t.Errorf("%s: %v by %s, want minute %d", row.why, ok, at, row.minute)
		}
		if got := p.Peak(row.q); got != row.peak {
			t.Errorf("%s: at most %d in flight, want %d", row.why, got, row.peak)
		}
	}
	// Finish and DoneBy are inverse, for every number of trials and every share.
	for n := 1; n <= 40; n++ {
		for halted := range n + 1 {
			p := took(n, halted)
			for percent := range 101 {
				q := float64(percent) / 100
				at, ok := p.Finish(q)
				if reached := p.DoneBy(noon.Add(minutes(n))); ok != (reached >= q && reached > 0) {
					t.Fatalf("%d trials, %d never done: Finish(%v) says %v, and the share that is done is %v", n, halted, q, ok, reached)
				}
				if before := p.DoneBy(at.Add(-1)); ok && (p.DoneBy(at) < q || before > 0 && before >= q) {
					t.Fatalf("%d trials, %d never done: Finish(%v) is %s, by when %v are done, and before it %v", n, halted, q, at, p.DoneBy(at), before)
				}
			}
		}
	}
}

// TestPredictionTellsOfDisruption: the greatest, and what is usual if that is less; and no instants
// if there are none.
func TestPredictionTellsOfDisruption(t *testing.T) {
	t.Parallel()
	one := took(1, 0)
	for _, row := range []struct {
		why  string
		p    rollouttest.Prediction
		want string
	}{
		{"half of the trials get by with less", took(4, 1), `4 trials
done, earliest: 2026-03-10 12:01:00 (+1m)
done, median:   2026-03-10 12:02:00 (+2m)
done, 90 %:     never
done, latest:   never
never done: 25 %: retry_exhausted in 1 trial
at most 4 resources in flight at once, in half of the trials at most 2`},
		{"all are alike", one, `1 trial
done, earliest: 2026-03-10 12:01:00 (+1m)
done, median:   2026-03-10 12:01:00 (+1m)
done, 90 %:     2026-03-10 12:01:00 (+1m)
done, latest:   2026-03-10 12:01:00 (+1m)
never done: 0 %
at most 1 resource in flight at once`},
		{"none is done", took(1, 1), `1 trial
never done: 100 %: retry_exhausted in 1 trial
at most 1 resource in flight at once`},
	} {
		if got := row.p.String(); got != row.want {
			t.Errorf("%s: it says\n%s\nwant\n%s", row.why, got, row.want)
		}
	}
	many := one
	for range 12 {
		many.Overdue = append(many.Overdue, fmt.Sprint("run ", len(many.Overdue)))
	}
	if got, want := many.String(), one.String()+"\nlonger in progress than any sample, and taken to end at once: run 0, run 1, run 2, run 3, run 4, run 5, run 6, run 7, run 8, run 9 and 2 more"; got != want {
		t.Errorf("of twelve it says\n%s\nwant\n%s", got, want)
	}
	if at, ok := one.Finish(0.5); !ok || at.Location() != time.UTC {
		t.Errorf("%v by %v", ok, at)
	}
}
