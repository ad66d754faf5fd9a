package rollouttest_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/internal/testkit"
	"github.com/tranche-dev/tranche/rollout"
	"github.com/tranche-dev/tranche/rollout/rollouttest"
)

// TestHalts: what an operator is asked about executions that halt, and what comes of the decisions. The
// kubelet of node-0 fails in its first attempts, as many as failures says.
func TestHalts(t *testing.T) {
	t.Parallel()
	decide := func(d rollouttest.Decision) func(rollouttest.Halt) (rollouttest.Decision, bool) {
		return func(rollouttest.Halt) (rollouttest.Decision, bool) { return d, true }
	}
	for _, row := range []struct {
		why      string
		failures int
		operator func(rollouttest.Halt) (rollouttest.Decision, bool)
		asked    []string
		attempts int // at the kubelet of node-0
		done     bool
		left     string // why another node waits at the end
	}{
		{"nobody fails", 0, rollouttest.RetryAfter(minutes(10), 1), nil, 1, true, ""},
		{"it fails once, and is tried again", 1, rollouttest.RetryAfter(minutes(10), 1), []string{"+9 1"}, 2, true, ""},
		{"at once", 1, rollouttest.RetryAfter(0, 1), []string{"+9 1"}, 2, true, ""},
		{"it fails again, and is tried twice", 2, rollouttest.RetryAfter(minutes(10), 2), []string{"+9 1", "+22 2"}, 3, true, ""},
		{"nobody tries a third time", 3, rollouttest.RetryAfter(minutes(10), 2), []string{"+9 1", "+22 2", "+35 3"}, 3, false, "bracket_failed_holding"},
		{"nobody decides", 1, func(rollouttest.Halt) (rollouttest.Decision, bool) { return rollouttest.Decision{}, false }, []string{"+9 1"}, 1, false, "bracket_failed_holding"},
		{"the member is skipped: the node is uncordoned without it", 1, decide(rollouttest.Decision{After: minutes(5), Kind: bracket.Skip}), []string{"+9 1"}, 1, false, "bracket_ended"},
		{"the execution is taken to be complete", 1, decide(rollouttest.Decision{After: minutes(5), Kind: bracket.Resolve}), []string{"+9 1"}, 1, false, "bracket_ended"},
		{"the execution is given up, and its slot not given back", 1, decide(rollouttest.Decision{After: minutes(5), Kind: bracket.Abandon}), []string{"+9 1"}, 1, false, "bracket_ended"},
		{"after the end of time", 1, decide(rollouttest.Decision{After: math.MaxInt64}), []string{"+9 1"}, 1, false, "bracket_failed_holding"},
	} {
		t.Run(row.why, func(t *testing.T) {
			t.Parallel()
			w := rfcWorld(t, 2)
			w.Job = func(start rollout.Start, attempt int) rollouttest.Outcome {
				o := rollouttest.Outcome{After: minutes(3)}
				if start.Resource == "node-0" && start.Deployment == kubelet && attempt <= row.failures {
					o.Status = rollout.JobFailure
				}
				return o
			}
			run := func(w rollouttest.World) (asked []string, timeline rollouttest.Timeline) {
				var halts []rollouttest.Halt
				w.Operator = func(h rollouttest.Halt) (rollouttest.Decision, bool) {
					halts = append(halts, h)
					return row.operator(h)
				}
				timeline, err := w.Run(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				for _, h := range halts {
					first := timeline.Entries[slices.IndexFunc(timeline.Entries, func(e rollouttest.Entry) bool { return e.Kind == rollouttest.Start && e.Resource == "node-0" })]
					asked = append(asked, fmt.Sprintf("+%d %d", int(h.At.Sub(first.At).Minutes()), h.Number))
					if h.Resource != "node-0" || h.Group != first.Group || !slices.Equal(h.Members, []string{kubelet}) {
						t.Errorf("asked about %+v", h)
					}
				}
				return asked, timeline
			}
			asked, timeline := run(w)
			attempts, left := 0, ""
			for _, e := range timeline.Entries {
				if e.Kind == rollouttest.Start && e.Resource == "node-0" && e.Deployment == kubelet {
					attempts++
				}
			}
			for _, l := range timeline.Left {
				if l.Resource == "node-0" && l.Deployment == kubelet {
					left = string(l.Blockers[0].Reason)
				}
			}
			if !slices.Equal(asked, row.asked) || attempts != row.attempts || timeline.Done != row.done || left != row.left {
				t.Errorf("asked %q, %d attempts, done %v, left by %q; want %q, %d, %v, %q\n%s", asked, attempts, timeline.Done, left, row.asked, row.attempts, row.done, row.left, timeline)
			}
			w.Pure, w.Trust = true, true
			if pure, same := run(w); !slices.Equal(pure, asked) || !cmp.Equal(happened(same), happened(timeline)) {
				t.Errorf("without a planner: asked %q, want %q", pure, asked)
			}
		})
	}
}

// TestImpossibleDecisions: what no operator can decide is an error that says which halt it is about.
func TestImpossibleDecisions(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		why      string
		decision rollouttest.Decision
		want     string
	}{
		{"before the halt", rollouttest.Decision{After: -time.Second}, "on node-0 1s before it halts: After must be at least 0"},
		{"a command for groups", rollouttest.Decision{Kind: bracket.Close}, `on node-0 by the command "close": use retry, skip, resolve or abandon`},
		{"a command that there is not", rollouttest.Decision{Kind: "again"}, `on node-0 by the command "again"`},
	} {
		w := rfcWorld(t, 1)
		w.Job = func(start rollout.Start, _ int) rollouttest.Outcome {
			if start.Deployment == kubelet {
				return rollouttest.Outcome{Status: rollout.JobFailure}
			}
			return rollouttest.Outcome{}
		}
		w.Operator = func(rollouttest.Halt) (rollouttest.Decision, bool) { return row.decision, true }
		if _, err := w.Run(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "rollouttest: World.Operator decides about halt 1 of ") || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v", row.why, err)
		}
	}
}

// TestDrawnHalts: a world in which an operator decides is the one in which it is known from the start
// what will be decided and when; and nothing that can go on is left halting.
func TestDrawnHalts(t *testing.T) {
	if testing.Short() {
		t.Skip("whole worlds, twice each")
	}
	seen := testkit.Tally{}
	compiler := newCompiler(t)
	seen.Check(t, func(t *rapid.T) {
		d := drawn{t}
		text, w, accepted := d.governed(compiler, seen)
		if !accepted || !strings.Contains(text, "deploymentBracket") {
			return
		}
		w.Pure, w.Trust = true, true
		delay := []time.Duration{minutes(d.number(1, 2, 30)), minutes(d.number(1, 5, 200))}
		kinds := []bracket.CommandKind{"", bracket.Retry, bracket.CommandKind(d.of("skip", "retry")), bracket.CommandKind(d.of("resolve", "abandon", "retry"))}
		asking, decided := w, []bracket.Command(nil)
		asking.Operator = func(h rollouttest.Halt) (rollouttest.Decision, bool) {
			if h.Number > 5 {
				seen["given up"]++
				return rollouttest.Decision{}, false
			}
			decision := rollouttest.Decision{After: delay[h.Number%2], Kind: kinds[(h.Number+len(h.Members))%4]}
			own := bracket.Command{Kind: decision.Kind, Group: h.Group, Resource: h.Resource, At: h.At.Add(decision.After), ID: fmt.Sprint(h.Group, h.Resource, h.Number)}
			if own.Kind == "" {
				own.Kind = bracket.Retry
			}
			seen[string(own.Kind)]++
			if own.Kind == bracket.Resolve || own.Kind == bracket.Abandon {
				decided = append(decided, own)
				return decision, true
			}
			for _, member := range h.Members {
				one := own
				one.ID, one.Deployment = own.ID+member, member
				decided = append(decided, one)
			}
			return decision, true
		}
		got, err := asking.Run(context.Background())
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		w.Fleet.Commands = append(slices.Clone(w.Fleet.Commands), decided...)
		want, err := w.Run(context.Background())
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if diff := cmp.Diff(happened(want), happened(got)); diff != "" {
			t.Fatalf("an operator decides, and it is known what (-known +asked):\n%s\n%s\n%v", diff, text, decided)
		}
	}, "retry", "skip", "resolve", "abandon")
}
