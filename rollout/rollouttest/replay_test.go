package rollouttest_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/internal/golden"
	"github.com/tranche-dev/tranche/rollout"
	"github.com/tranche-dev/tranche/rollout/rollouttest"
)

// TestReplayOfTenNodes is the RFC's first example, its policy verbatim, on all ten nodes.
func TestReplayOfTenNodes(t *testing.T) {
	t.Parallel()
	timeline, err := rfcWorld(t, 10).Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	closed := at(2, 9, 0)
	var order []string
	var starts, ends []int
	for _, e := range timeline.Entries {
		switch {
		case e.Kind == rollouttest.Start && e.Deployment == drain:
			order = append(order, e.Resource)
			starts = append(starts, int(e.At.Sub(closed).Minutes()))
		case e.Event == bracket.ExecutionEnded:
			ends = append(ends, int(e.At.Sub(closed).Minutes()))
		}
	}
	if want := []string{"node-1", "node-3", "node-8", "node-7", "node-2", "node-0", "node-9", "node-4", "node-5", "node-6"}; !slices.Equal(order, want) {
		t.Errorf("order %v, want %v", order, want)
	}
	if want := []int{0, 5, 15, 20, 30, 35, 45, 50, 60, 65}; !slices.Equal(starts, want) {
		t.Errorf("starts %v minutes after the close, want %v", starts, want)
	}
	if want := []int{15, 20, 30, 35, 45, 50, 60, 65, 75, 80}; !slices.Equal(ends, want) {
		t.Errorf("ends %v minutes after the close, want %v", ends, want)
	}
	if !timeline.Done || !timeline.Finish.Equal(closed.Add(minutes(80))) {
		t.Errorf("done %t at %v, want +80 minutes", timeline.Done, timeline.Finish)
	}
	if timeline.InFlight != 2 || timeline.Pools[0].Active != 2 || timeline.Pools[0].Max != 2 || timeline.Pools[0].Total != 10 {
		t.Errorf("in flight %d, pools %+v, want 2 of 10 and 2 allowed", timeline.InFlight, timeline.Pools)
	}
	if timeline.Drains != 10 || timeline.DrainsSaved != 20 {
		t.Errorf("%d drains, %d saved, want 10 instead of 30", timeline.Drains, timeline.DrainsSaved)
	}
	phases := [][]string{{drain}, {osPatch}, {containerd, kubelet}, {uncordon}}
	for _, node := range order {
		var got [][]string
		var last time.Time
		for _, e := range timeline.About(node).Entries {
			if e.Kind == rollouttest.Start {
				if !e.At.Equal(last) {
					got = append(got, nil)
				}
				last = e.At
				got[len(got)-1] = append(got[len(got)-1], e.Deployment)
			}
		}
		if diff := cmp.Diff(phases, got); diff != "" {
			t.Errorf("phases of %s (-want +got):\n%s", node, diff)
		}
	}
	golden.Check(t, "replay.txt", timeline.String()+"\n\n"+timeline.Chart(0))
	golden.Check(t, "replay-node-3.txt", timeline.About("node-3").String()+"\n")
}

// trace tells what ran on a resource, one line per start, failure and end of an execution, on day
// 2.
func trace(timeline rollouttest.Timeline, resource string) string {
	var b strings.Builder
	for _, e := range timeline.About(resource).Entries {
		if e.Resource == "" {
			continue
		}
		when := e.At.Format("15:04")
		if e.At.Second() != 0 {
			when = e.At.Format("15:04:05")
		}
		switch {
		case e.Kind == rollouttest.Start && e.Purpose == rollout.PurposeRollback:
			fmt.Fprintf(&b, "%s %s back to %s\n", when, e.Deployment, e.Version)
		case e.Kind == rollouttest.Start:
			fmt.Fprintf(&b, "%s %s %s\n", when, e.Deployment, e.Version)
		case e.Kind == rollouttest.End && e.Status != string(rollout.JobSuccessful):
			fmt.Fprintf(&b, "%s %s %s: %s\n", when, e.Deployment, e.Version, e.Status)
		case e.Event == bracket.GroupMerged:
			fmt.Fprintf(&b, "%s merged\n", when)
		case e.Event == bracket.ExecutionEnded:
			fmt.Fprintf(&b, "%s %s\n", when, e.Status)
		}
	}
	return b.String()
}

func editBracket(edit func(*bracket.Rule)) func([]rollout.Policy) {
	return func(policies []rollout.Policy) { edit(policies[0].Rules[0].DeploymentBracket) }
}

// failing lets the kubelet of some nodes fail on its first attempts.
func failing(attempts int, nodes ...string) func(rollout.Start, int) rollouttest.Outcome {
	durations := rollouttest.Durations(rfcDurations())
	return func(start rollout.Start, attempt int) rollouttest.Outcome {
		outcome := durations(start, attempt)
		if start.Deployment == kubelet && start.Purpose == rollout.PurposeDeploy && attempt <= attempts && slices.Contains(nodes, start.Resource) {
			outcome.Status = rollout.JobFailure
		}
		return outcome
	}
}

// partial publishes the kubelet alone.
func partial(tb testing.TB, edits ...func([]rollout.Policy)) rollouttest.World {
	w := rfcWorld(tb, 10)
	w.Policies = policyFile(tb, "node-policy.json", edits...)
	w.Fleet = nodes(10)
	w.Fleet.Versions = append(w.Fleet.Versions, version(kubelet, "v1.29.2", at(1, 9, 0)))
	return w
}

func mid(tb testing.TB, fails int, edits ...func([]rollout.Policy)) rollouttest.World {
	w := rfcWorld(tb, 10)
	w.Policies = policyFile(tb, "node-policy.json", edits...)
	w.Job = failing(fails, "node-3")
	return w
}

// overlapping is the RFC's second group on one node: group A is ready since day 1, 09:00, and finds
// a slot on day 2, 09:00, because another member of the pool is down until then; group B closes a
// day after its first version. Both are due at once.
func overlapping(tb testing.TB, firstOfB time.Time, strategy bracket.OverlapStrategy) rollouttest.World {
	w := rollouttest.World{Start: at(0, 8, 0), Fleet: nodes(4)}
	w.Policies = policyFile(tb, "node-policy.json", func(policies []rollout.Policy) {
		rule := policies[0].Rules[0].DeploymentBracket
		rule.OverlapStrategy, rule.PreparedStatePersists = strategy, strategy == bracket.Merge
		policies[0].Rules = slices.Delete(policies[0].Rules, 2, 3) // no curve
	})
	w.Fleet.Targets = slices.DeleteFunc(w.Fleet.Targets, func(t rollout.Target) bool { return t.Resource != "node-3" })
	w.Fleet.Unavailable = []string{"node-0"}
	w.Changes = []rollouttest.Change{{At: at(2, 9, 0), What: "node-0 is back", Do: func(s *rollout.Snapshot) { s.Unavailable = nil }}}
	w.Fleet.Versions = append(w.Fleet.Versions,
		version(osPatch, "2026-03", at(0, 9, 0)), version(kubelet, "v1.29.2", at(0, 10, 0)), version(containerd, "v1.7.3", at(0, 11, 0)),
		version(osPatch, "2026-04", firstOfB), version(kubelet, "v1.29.3", at(1, 12, 0)), version(containerd, "v1.7.4", at(1, 13, 0)),
	)
	w.Job = rollouttest.Durations(map[string]time.Duration{
		drain: minutes(8), osPatch: minutes(4), kubelet: minutes(7), containerd: minutes(7), uncordon: minutes(1),
	})
	return w
}

// TestTraces replays the RFC's other scenarios on node-3, to the minute.
func TestTraces(t *testing.T) {
	t.Parallel()
	retry := withRules(`{"retry": {"maxRetries": 3, "backoffSeconds": 60, "backoffStrategy": "exponential"}}`)
	onFailure := func(f bracket.OnMemberFailure) func([]rollout.Policy) {
		return editBracket(func(r *bracket.Rule) { r.OnMemberFailure = f })
	}
	for _, row := range []struct {
		name, why string
		world     func(testing.TB) rollouttest.World
		want      string
		done      bool
	}{
		{
			name: "node-3", why: "the RFC's own trace",
			world: func(tb testing.TB) rollouttest.World { return rfcWorld(tb, 10) },
			want: `09:05 node-drain v1
09:13 os-patch 2026-03
09:16 containerd-upgrade v1.7.3
09:16 kubelet-upgrade v1.29.2
09:19 node-uncordon v1
09:20 completed
`, done: true,
		},
		{
			name: "partial-skip", why: "one new version costs one drain; what is skipped counts as satisfied",
			world: func(tb testing.TB) rollouttest.World { return partial(tb) },
			want: `09:05 node-drain v1
09:13 kubelet-upgrade v1.29.2
09:16 node-uncordon v1
09:17 completed
`, done: true,
		},
		{
			name: "partial-redeploy", why: "redeploy_current runs the others again with what they have",
			world: func(tb testing.TB) rollouttest.World {
				return partial(tb, editBracket(func(r *bracket.Rule) { r.UnchangedMemberStrategy = bracket.RedeployCurrent }))
			},
			want: `09:05 node-drain v1
09:13 os-patch 2026-02
09:16 containerd-upgrade v1.7.2
09:16 kubelet-upgrade v1.29.2
09:19 node-uncordon v1
09:20 completed
`, done: true,
		},
		{
			name: "partial-wait-for-all", why: "wait_for_all gives up when the window ends, at the same instants",
			world: func(tb testing.TB) rollouttest.World {
				return partial(tb, editBracket(func(r *bracket.Rule) { r.ReadinessMode = bracket.WaitForAll }))
			},
			want: `09:05 node-drain v1
09:13 kubelet-upgrade v1.29.2
09:16 node-uncordon v1
09:17 completed
`, done: true,
		},
		{
			name: "queue", why: "the second group waits for the first and drains again",
			world: func(tb testing.TB) rollouttest.World { return overlapping(tb, at(1, 9, 10), bracket.Queue) },
			want: `09:00 node-drain v1
09:08 os-patch 2026-03
09:12 containerd-upgrade v1.7.3
09:12 kubelet-upgrade v1.29.2
09:19 node-uncordon v1
09:20 completed
09:20 node-drain v1
09:28 os-patch 2026-04
09:32 containerd-upgrade v1.7.4
09:32 kubelet-upgrade v1.29.3
09:39 node-uncordon v1
09:40 completed
`, done: true,
		},
		{
			name: "merge", why: "the second group takes over the drained node; kubelet and containerd of the first never run",
			world: func(tb testing.TB) rollouttest.World { return overlapping(tb, at(1, 9, 10), bracket.Merge) },
			want: `09:00 node-drain v1
09:08 os-patch 2026-03
09:10 merged
09:12 os-patch 2026-04
09:16 containerd-upgrade v1.7.4
09:16 kubelet-upgrade v1.29.3
09:23 node-uncordon v1
09:24 completed
`, done: true,
		},
		{
			name: "merge-while-mains-run", why: "what runs is finished before its successor starts",
			world: func(tb testing.TB) rollouttest.World { return overlapping(tb, at(1, 9, 14), bracket.Merge) },
			want: `09:00 node-drain v1
09:08 os-patch 2026-03
09:12 containerd-upgrade v1.7.3
09:12 kubelet-upgrade v1.29.2
09:14 merged
09:19 os-patch 2026-04
09:23 containerd-upgrade v1.7.4
09:23 kubelet-upgrade v1.29.3
09:30 node-uncordon v1
09:31 completed
`, done: true,
		},
		{
			name: "merge-beats-uncordon", why: "at the instant at which both could happen the merge wins",
			world: func(tb testing.TB) rollouttest.World { return overlapping(tb, at(1, 9, 19), bracket.Merge) },
			want: `09:00 node-drain v1
09:08 os-patch 2026-03
09:12 containerd-upgrade v1.7.3
09:12 kubelet-upgrade v1.29.2
09:19 merged
09:19 os-patch 2026-04
09:23 containerd-upgrade v1.7.4
09:23 kubelet-upgrade v1.29.3
09:30 node-uncordon v1
09:31 completed
`, done: true,
		},
		{
			name: "merge-too-late", why: "once uncordon has started nothing is merged any more",
			world: func(tb testing.TB) rollouttest.World {
				return overlapping(tb, at(1, 9, 19).Add(30*time.Second), bracket.Merge)
			},
			want: `09:00 node-drain v1
09:08 os-patch 2026-03
09:12 containerd-upgrade v1.7.3
09:12 kubelet-upgrade v1.29.2
09:19 node-uncordon v1
09:20 completed
09:20 node-drain v1
09:28 os-patch 2026-04
09:32 containerd-upgrade v1.7.4
09:32 kubelet-upgrade v1.29.3
09:39 node-uncordon v1
09:40 completed
`, done: true,
		},
		{
			name: "failure-with-retry", why: "the slot is kept from the first failure to the success",
			world: func(tb testing.TB) rollouttest.World { return mid(tb, 2, retry) },
			want: `09:05 node-drain v1
09:13 os-patch 2026-03
09:16 containerd-upgrade v1.7.3
09:16 kubelet-upgrade v1.29.2
09:19 kubelet-upgrade v1.29.2: failure
09:20 kubelet-upgrade v1.29.2
09:23 kubelet-upgrade v1.29.2: failure
09:25 kubelet-upgrade v1.29.2
09:28 node-uncordon v1
09:29 completed
`, done: true,
		},
		{
			name: "failure-hold", why: "without a retry rule the node stays drained and keeps its slot",
			world: func(tb testing.TB) rollouttest.World { return mid(tb, 1) },
			want: `09:05 node-drain v1
09:13 os-patch 2026-03
09:16 containerd-upgrade v1.7.3
09:16 kubelet-upgrade v1.29.2
09:19 kubelet-upgrade v1.29.2: failure
`,
		},
		{
			name: "failure-operator", why: "an operator repeats the run, and the bracket goes on",
			world: func(tb testing.TB) rollouttest.World {
				w := mid(tb, 1)
				group := bracket.GroupID("Node Lifecycle/deploymentBracket/0", "prod", 1)
				w.Fleet.Commands = []bracket.Command{{ID: "c1", Kind: bracket.Retry, Group: group, Resource: "node-3", Deployment: kubelet, By: "ops", At: at(2, 10, 0)}}
				return w
			},
			want: `09:05 node-drain v1
09:13 os-patch 2026-03
09:16 containerd-upgrade v1.7.3
09:16 kubelet-upgrade v1.29.2
09:19 kubelet-upgrade v1.29.2: failure
10:00 kubelet-upgrade v1.29.2
10:03 node-uncordon v1
10:04 completed
`, done: true,
		},
		{
			name: "failure-run-post", why: "the node is given back as it is",
			world: func(tb testing.TB) rollouttest.World { return mid(tb, 1, onFailure(bracket.RunPost)) },
			want: `09:05 node-drain v1
09:13 os-patch 2026-03
09:16 containerd-upgrade v1.7.3
09:16 kubelet-upgrade v1.29.2
09:19 kubelet-upgrade v1.29.2: failure
09:19 node-uncordon v1
09:20 failed
`,
		},
		{
			name: "failure-rollback-all", why: "what ran goes back, in reverse order, under the slot that is held",
			world: func(tb testing.TB) rollouttest.World { return mid(tb, 1, onFailure(bracket.RollbackAll)) },
			want: `09:05 node-drain v1
09:13 os-patch 2026-03
09:16 containerd-upgrade v1.7.3
09:16 kubelet-upgrade v1.29.2
09:19 kubelet-upgrade v1.29.2: failure
09:19 containerd-upgrade back to v1.7.2
09:19 kubelet-upgrade back to v1.29.1
09:22 os-patch back to 2026-02
09:25 node-uncordon v1
09:26 failed
`,
		},
		{
			name: "failure-rollback-member", why: "only the failed member goes back; uncordon does not run on a mixed set",
			world: func(tb testing.TB) rollouttest.World { return mid(tb, 1, onFailure(bracket.RollbackMember)) },
			want: `09:05 node-drain v1
09:13 os-patch 2026-03
09:16 containerd-upgrade v1.7.3
09:16 kubelet-upgrade v1.29.2
09:19 kubelet-upgrade v1.29.2: failure
09:19 kubelet-upgrade back to v1.29.1
`,
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			timeline, err := row.world(t).Run(t.Context())
			if err != nil {
				t.Errorf("%v\n%s", err, timeline.About("node-3"))
			}
			if diff := cmp.Diff(row.want, trace(timeline, "node-3")); diff != "" {
				t.Errorf("%s: trace of node-3 (-want +got):\n%s", row.why, diff)
			}
			if timeline.Done != row.done {
				t.Errorf("done %t, want %t: %s", timeline.Done, row.done, timeline.Summary())
			}
			golden.Check(t, "trace-"+row.name+".txt", "# "+row.why+"\n"+timeline.About("node-3").String()+"\n")
		})
	}
}

// TestHeldNodesBlockTheRest: without a retry rule two failures take all slots, and everybody else
// is told who has them.
func TestHeldNodesBlockTheRest(t *testing.T) {
	t.Parallel()
	w := rfcWorld(t, 10)
	w.Job = failing(1, "node-1", "node-3")
	timeline, err := w.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if timeline.Done {
		t.Fatal("done with two nodes held")
	}
	full := map[string]bool{}
	for _, e := range timeline.Entries {
		if e.Kind == rollouttest.Wait && e.Blockers[0].Reason == "slot_full" {
			full[e.Resource] = true
			if !slices.Equal(e.Holders, []string{"node-1", "node-3"}) {
				t.Errorf("%s waits for a slot held by %v, want node-1 and node-3", e.Resource, e.Holders)
			}
		}
	}
	if len(full) != 8 {
		t.Errorf("%d nodes wait for a slot, want the 8 at positions 2 to 9: %v", len(full), full)
	}
	golden.Check(t, "held.txt", timeline.String()+"\n")
}
