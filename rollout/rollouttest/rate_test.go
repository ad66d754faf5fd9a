package rollouttest_test

import (
	"context"
	"strings"
	"testing"

	"github.com/tranche-dev/tranche/rollout"
	"github.com/tranche-dev/tranche/rollout/rollouttest"
)

// TestRateIsTold: a world in which two nodes may begin in 40 minutes says how many did, and who
// waits for that, although the limit alone would let more be at work.
func TestRateIsTold(t *testing.T) {
	t.Parallel()
	world := webWorld(t, 5, `{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":"100%","rate":{"limit":2,"periodSeconds":2400}}}`)
	timeline, err := world.Run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"P: at most 2 of 5 active, 5 allowed; at most 2 began within 40m",
		"c-2, c-3, c-4: web v2: slot_rate_full in P until 2026-03-10 09:40:00",
		"done at 2026-03-10 10:23:00",
	}
	text := timeline.String()
	for _, line := range want {
		if !strings.Contains(text, line) {
			t.Errorf("%q is missing in\n%s", line, text)
		}
	}
	begun := map[string]int{}
	for _, e := range timeline.Entries {
		if e.Kind == rollouttest.Start {
			begun[e.At.Format("15:04")]++
		}
	}
	if len(begun) != 3 || begun["09:00"] != 2 || begun["09:40"] != 2 || begun["10:20"] != 1 {
		t.Errorf("%v", begun)
	}
	if p := timeline.Pools[0]; p.Began != 2 || p.PeriodSeconds != 2400 || p.Active != 2 {
		t.Errorf("%+v", p)
	}
	without := webWorld(t, 5, `{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":"100%"}}`)
	if timeline, err = without.Run(context.Background()); err != nil || timeline.Pools[0].Began != 0 || timeline.Pools[0].PeriodSeconds != 0 || strings.Contains(timeline.Summary(), "began") {
		t.Errorf("%+v %v", timeline.Pools, err)
	}
	two := webWorld(t, 3, `{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":1,"rate":{"limit":9,"periodSeconds":3600}}}`)
	two.Fleet.Deployments = append(two.Fleet.Deployments, rollout.Deployment{ID: "api", Name: "api"})
	two.Fleet.Versions = append(two.Fleet.Versions, version("api", "v1", at(-20, 9, 0)), version("api", "v2", at(1, 9, 0)))
	for _, target := range two.Fleet.Targets[:3] {
		target.Deployment, target.Jobs, target.Current = "api", nil, "v1"
		two.Fleet.Targets = append(two.Fleet.Targets, target)
	}
	if timeline, err = two.Run(context.Background()); err != nil || timeline.Pools[0].Began != 3 {
		t.Errorf("both deployments of a cluster begin once, with the same start: %+v %v\n%s", timeline.Pools, err, timeline)
	}
}
