package rollouttest_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/rollout"
	"github.com/tranche-dev/tranche/rollout/rollouttest"
	"github.com/tranche-dev/tranche/selector"
)

const (
	drain      = "node-drain"
	osPatch    = "os-patch"
	kubelet    = "kubelet-upgrade"
	containerd = "containerd-upgrade"
	uncordon   = "node-uncordon"
)

var day1 = time.Date(2026, 3, 10, 0, 0, 0, 0, time.UTC)

// at is an instant of the RFC's two days: at(1, 9, 0) is day 1, 09:00.
func at(day, hour, minute int) time.Time {
	return day1.AddDate(0, 0, day-1).Add(time.Duration(hour)*time.Hour + time.Duration(minute)*time.Minute)
}

func minutes(n int) time.Duration { return time.Duration(n) * time.Minute }

// rfcDurations are those of the RFC's trace of node-3.
func rfcDurations() map[string]time.Duration {
	return map[string]time.Duration{drain: minutes(8), osPatch: minutes(3), kubelet: minutes(3), containerd: minutes(3), uncordon: minutes(1)}
}

// newCompiler returns a compiler that compiles each expression once: the properties ask for the same
// few in every world, and some of them plan several worlds at a time.
func newCompiler(tb testing.TB) rollout.Compiler {
	tb.Helper()
	env, err := selector.NewEnv(selector.DefaultSchema(), selector.Limits{})
	if err != nil {
		tb.Fatal(err)
	}
	return &remembering{env: env, known: map[string]rollout.Matcher{}}
}

type remembering struct {
	env   *selector.Env
	mutex sync.Mutex
	known map[string]rollout.Matcher
}

func (c *remembering) Matcher(expression string) (rollout.Matcher, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if known := c.known[expression]; known != nil {
		return known, nil
	}
	compiled, err := c.env.Matcher(expression)
	if err == nil {
		c.known[expression] = compiled
	}
	return compiled, err
}

// policyFile reads a policy of testdata; edits change the rules before it is compiled.
func policyFile(tb testing.TB, name string, edits ...func([]rollout.Policy)) *rollout.PolicySet {
	tb.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		tb.Fatal(err)
	}
	return compiled(tb, string(data), edits...)
}

func compiled(tb testing.TB, text string, edits ...func([]rollout.Policy)) *rollout.PolicySet {
	tb.Helper()
	policies, err := rollout.ParsePolicies([]byte(text))
	if err != nil {
		tb.Fatal(err)
	}
	for _, edit := range edits {
		edit(policies)
	}
	set, err := rollout.Compile(policies, newCompiler(tb))
	if err != nil {
		tb.Fatal(err)
	}
	return set
}

// withRules adds rules to the first policy.
func withRules(text ...string) func([]rollout.Policy) {
	return func(policies []rollout.Policy) {
		for _, one := range text {
			var rule rollout.Rule
			if err := json.Unmarshal([]byte(one), &rule); err != nil {
				panic(err)
			}
			policies[0].Rules = append(policies[0].Rules, rule)
		}
	}
}

// nodes is the RFC's cluster of n nodes, on which everything runs its old version.
func nodes(n int) rollout.Snapshot {
	s := rollout.Snapshot{Environments: []rollout.Environment{{ID: "prod", Name: "prod"}}}
	old := map[string]string{drain: "v1", osPatch: "2026-02", kubelet: "v1.29.1", containerd: "v1.7.2", uncordon: "v1"}
	for _, d := range []string{drain, osPatch, kubelet, containerd, uncordon} {
		s.Deployments = append(s.Deployments, rollout.Deployment{ID: d, Name: d, Metadata: map[string]string{"layer": "node"}})
		s.Versions = append(s.Versions, version(d, old[d], at(-20, 9, 0)))
	}
	for i := range n {
		id := fmt.Sprintf("node-%d", i)
		s.Resources = append(s.Resources, rollout.Resource{ID: id, Name: id, Kind: "Node", Metadata: map[string]string{"cluster": "prod-east"}})
		for _, d := range s.Deployments {
			s.Targets = append(s.Targets, rollout.Target{
				TargetID: rollout.TargetID{Resource: id, Environment: "prod", Deployment: d.ID}, Current: old[d.ID],
			})
		}
	}
	return s
}

func version(deployment, id string, created time.Time) rollout.Version {
	return rollout.Version{ID: id, Deployment: deployment, Name: id, Tag: id, Status: rollout.VersionReady, CreatedAt: created}
}

// rfcReleases are the three versions of the RFC's trace.
func rfcReleases() []rollout.Version {
	return []rollout.Version{
		version(kubelet, "v1.29.2", at(1, 9, 0)), version(containerd, "v1.7.3", at(1, 14, 0)), version(osPatch, "2026-03", at(1, 22, 0)),
	}
}

// rfcWorld is the RFC's first example on n nodes.
func rfcWorld(tb testing.TB, n int) rollouttest.World {
	w := rollouttest.World{
		Policies: policyFile(tb, "node-policy.json"), Fleet: nodes(n), Start: at(1, 8, 0), Job: rollouttest.Durations(rfcDurations()),
	}
	w.Fleet.Versions = append(w.Fleet.Versions, rfcReleases()...)
	return w
}
