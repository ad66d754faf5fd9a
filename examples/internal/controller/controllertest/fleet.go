//go:build unix

package controllertest

import (
	"fmt"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/rollout"
	"github.com/tranche-dev/tranche/selector"
)

// Deployments of the fleet: a bracket of four, and one outside it that shares its pool.
const (
	drain    = "node-drain"
	osPatch  = "os-patch"
	kubelet  = "kubelet"
	uncordon = "node-uncordon"
	monitor  = "monitor"
)

// poolKey is the pool of all nodes, and limit how many of them may be disrupted at once.
const (
	poolKey = "nodes"
	limit   = 2
)

const policies = `[
{"name": "nodes", "selector": "deployment.metadata['layer'] == 'node'", "rules": [
	{"deploymentBracket": {"deploymentSelector": "deployment.metadata['layer'] == 'node'", "readinessMode": "collection_window", "readinessWindowSeconds": 120,
		"unchangedMemberStrategy": "skip_unchanged", "overlapStrategy": "queue", "memberRoles": {"pre": "deployment.name == 'node-drain'", "post": "deployment.name == 'node-uncordon'"}}},
	{"resourceConcurrency": {"groupSelector": "resource.kind == 'Node'", "limit": 2, "sharedPool": "nodes"}},
	{"gradualRollout": {"rolloutType": "linear", "timeScaleInterval": 30}},
	{"retry": {"maxRetries": 9, "backoffSeconds": 20}},
	{"deploymentDependency": {"dependsOn": "deployment.name == 'os-patch'", "appliesTo": "deployment.name == 'kubelet'"}}]},
{"name": "monitors", "selector": "deployment.name == 'monitor'", "rules": [
	{"resourceConcurrency": {"groupSelector": "resource.kind == 'Node'", "limit": 2, "sharedPool": "nodes"}},
	{"retry": {"maxRetries": 9, "backoffSeconds": 20}}]}]`

// compiled returns the policies of the fleet.
func compiled() (*rollout.PolicySet, error) { return compile(policies) }

func compile(policies string) (*rollout.PolicySet, error) {
	env, err := selector.NewEnv(selector.DefaultSchema(), selector.Limits{})
	if err != nil {
		return nil, err
	}
	return rollout.Load([]byte(policies), env)
}

// disagreeing is the fleet of n nodes at an instant: what will be released later is not there yet.
// The first releases come within the window of one group, the last one makes a second group while
// the first is under way.
//
// Controllers that sort alike decide alike, and two of them keep a limit by luck. So they may be
// told to disagree: a contrary one prefers the last node to the first.
func disagreeing(n int, epoch, now time.Time, contrary bool) rollout.Snapshot {
	s := nodes(n, epoch, now)
	for i := range s.Targets {
		if contrary {
			s.Targets[i].Priority = i
		} else {
			s.Targets[i].Priority = -i
		}
	}
	return s
}

// release is a version and when it is published.
type release struct {
	deployment, version string
	at                  time.Time
}

// releases are the versions of a fleet whose clock began at the epoch, the older ones of a
// deployment first.
func releases(epoch time.Time) []release {
	return []release{
		{drain, "v1", epoch.Add(-24 * time.Hour)},
		{uncordon, "v1", epoch.Add(-24 * time.Hour)},
		{kubelet, "1.29.2", epoch},
		{osPatch, "2026-03", epoch.Add(time.Minute)},
		{monitor, "v2", epoch.Add(2 * time.Minute)},
		{kubelet, "1.29.3", epoch.Add(4 * time.Minute)},
		{monitor, "v3", epoch.Add(5 * time.Minute)},
	}
}

// nodes is the fleet without priorities.
func nodes(n int, epoch, now time.Time) rollout.Snapshot {
	s := rollout.Snapshot{Environments: []rollout.Environment{{ID: "prod", Name: "prod"}}}
	for _, d := range []string{drain, osPatch, kubelet, uncordon, monitor} {
		layer := "node"
		if d == monitor {
			layer = "app"
		}
		s.Deployments = append(s.Deployments, rollout.Deployment{ID: d, Name: d, Metadata: map[string]string{"layer": layer}})
	}
	for _, r := range releases(epoch) {
		if !r.at.After(now) {
			s.Versions = append(s.Versions, rollout.Version{ID: r.version, Deployment: r.deployment, Name: r.version, Tag: r.version, Status: rollout.VersionReady, CreatedAt: r.at})
		}
	}
	for i := range n {
		id := fmt.Sprint("node-", i)
		s.Resources = append(s.Resources, rollout.Resource{ID: id, Name: id, Kind: "Node"})
		for _, d := range s.Deployments {
			s.Targets = append(s.Targets, rollout.Target{TargetID: rollout.TargetID{Resource: id, Environment: "prod", Deployment: d.ID}})
		}
	}
	return s
}

// wanted is what every node runs in the end.
func wanted() map[string]string {
	return map[string]string{drain: "v1", uncordon: "v1", osPatch: "2026-03", kubelet: "1.29.3", monitor: "v3"}
}

// durations of jobs, on the clock of the fleet.
func durations() map[string]time.Duration {
	return map[string]time.Duration{drain: 60 * time.Second, osPatch: 30 * time.Second, kubelet: 30 * time.Second, uncordon: 20 * time.Second, monitor: 40 * time.Second}
}

// bracketed reports whether a group is one of the bracket.
func bracketed(group string) bool { return strings.HasPrefix(group, "nodes%2F") }
