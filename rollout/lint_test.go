package rollout_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/clock"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/internal/golden"
	"github.com/tranche-dev/tranche/rollout"
	"github.com/tranche-dev/tranche/rollout/rollouttest"
)

// lintRow is one policy over one fleet, and what is found of one code: severity, path, and how many
// targets it concerns; nothing if want is empty.
type lintRow struct {
	code    rollout.LintCode
	why     string
	rules   string // of the policy p, which governs everything
	more    string // further policies; or all of them, if rules is lintEmpty
	fleet   func(*rollout.Snapshot)
	options rollout.LintOptions
	horizon time.Duration // default: 30 days
	want    string
	says    string // a part of the detail and the fix
}

// lintFleet is what rows begin with: two resources with web, db and cache, all running v1, with a
// v2 to get.
func lintFleet() rollout.Snapshot {
	return fleet(2, "v1", map[string][]string{"web": {"v1", "v2"}, "db": {"v1", "v2"}, "cache": {"v1", "v2"}})
}

func (row lintRow) policies() string {
	switch {
	case row.rules == "":
		return "[" + row.more + "]"
	case row.more == "":
		return policy(row.rules)
	}
	return "[" + policy(row.rules) + "," + row.more + "]"
}

func (row lintRow) lint(t testing.TB) []rollout.Finding {
	t.Helper()
	s := lintFleet()
	if row.fleet != nil {
		row.fleet(&s)
	}
	horizon := row.horizon
	if horizon == 0 {
		horizon = 30 * 24 * time.Hour
	}
	findings, err := compile(t, row.policies(), withZones()).Lint(s, t0, horizon, row.options)
	if err != nil {
		t.Fatalf("%s: %s: %v", row.code, row.why, err)
	}
	return findings
}

// The pieces of which rows are made.
const (
	lintHooks     = `"memberRoles":{"pre":"deployment.name == 'db'","post":"deployment.name == 'cache'"}`
	lintImmediate = `{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate",` + lintHooks + `}}`
	lintMains     = `{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}}`
	lintDBAlone   = `{"id":"b","deploymentBracket":{"deploymentSelector":"deployment.name == 'db'","readinessMode":"immediate","memberRoles":{}}}`
	lintEast      = `"resource.metadata['cluster'] == 'east'"`
	lintPast      = `{"id":"w","deploymentWindow":{"from":"2024-01-01T00:00:00Z","until":"2024-01-02T00:00:00Z"}}`
	lintOffice    = `{"id":"w","deploymentWindow":{"weekly":{"days":["mon","tue","wed","thu","fri"],"start":"09:00","end":"17:00"}}}`
	lintStaging   = `"environment.name == 'staging'"`
)

func lintWeekly(more string) string {
	return `{"id":"w","deploymentWindow":{"weekly":{"days":["sun"],"start":"02:30","end":"04:30"},"timezone":"Europe/Berlin"` + more + `}}`
}

func lintLimited(limit string) string {
	return `{"id":"c","resourceConcurrency":{"groupSelector":"true",` + limit + `}}`
}

// The dependencies of web on v2 of db, and back.
const (
	lintForth = `{"id":"d","deploymentDependency":{"dependsOn":"deployment.name == 'db' && version.tag == 'v2'","appliesTo":"deployment.name == 'web'"}}`
	lintBack  = `{"id":"e","deploymentDependency":{"dependsOn":"deployment.name == 'web' && version.tag == 'v2'","appliesTo":"deployment.name == 'db'"}}`
)

// lintSlowly lets an older version through before a newer one.
const lintSlowly = `,{"id":"g","gradualRollout":{"rolloutType":"linear","timeScaleInterval":60}}`

// lintNewer has a v3 of some deployments.
func lintNewer(deployments ...string) func(*rollout.Snapshot) {
	return func(s *rollout.Snapshot) {
		for _, d := range deployments {
			s.Versions = append(s.Versions, rollout.Version{ID: "v3", Tag: "v3", Deployment: d, Status: rollout.VersionReady, CreatedAt: t0})
		}
	}
}

// lintChain is a bracket in which web needs db, and cache needs web.
const lintChain = `{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate"}},` +
	`{"id":"d","deploymentDependency":{"dependsOn":"deployment.name == 'db'","appliesTo":"deployment.name == 'web'"}},{"id":"e","deploymentDependency":{"dependsOn":"deployment.name == 'web'","appliesTo":"deployment.name == 'cache'"}}`

// lintWithGPU adds a deployment of two versions.
func lintWithGPU(s *rollout.Snapshot) {
	s.Deployments = append(s.Deployments, rollout.Deployment{ID: "gpu", Name: "gpu"})
	for _, id := range []string{"v1", "v2"} {
		s.Versions = append(s.Versions, rollout.Version{ID: id, Tag: id, Deployment: "gpu", Status: rollout.VersionReady, CreatedAt: t0})
	}
	s.Targets = append(s.Targets, rollout.Target{TargetID: rollout.TargetID{Resource: "r1", Environment: "prod", Deployment: "gpu"}})
}

// A bracket of web and db, and a rule by which cache waits for web.
const (
	lintWithoutCache  = `{"id":"b","deploymentBracket":{"deploymentSelector":"deployment.name != 'cache'","readinessMode":"immediate","memberRoles":{}}}`
	lintCacheNeedsWeb = `{"id":"d","deploymentDependency":{"dependsOn":"deployment.name == 'web' && version.tag == 'v2'","appliesTo":"deployment.name == 'cache'"}}`
)

func lintDependsOn(fields string) string { return `{"id":"d","deploymentDependency":{` + fields + `}}` }

func lintProgression(id, on, more string) string {
	return `{"id":"` + id + `","environmentProgression":{"dependsOnEnvironmentSelector":` + on + more + `}}`
}

// Expressions that fail on r1 of lintRacks and on db of lintTiers.
const (
	lintRack = "int(resource.metadata['rack']) > 3"
	lintTier = "int(deployment.metadata['tier']) > 3"

	lintRackTenth = "10 / int(resource.metadata['rack']) > 3" // see lintRackZero
)

func lintRacks(s *rollout.Snapshot) {
	s.Resources[0].Metadata["rack"], s.Resources[1].Metadata["rack"] = "four", "4"
}

// lintRackZero lets the quotient of lintRackTenth fail on both resources, for a reason of its own on
// each.
func lintRackZero(s *rollout.Snapshot) {
	s.Resources[0].Metadata["rack"], s.Resources[1].Metadata["rack"] = "four", "0"
}

// lintSplitRacks lets lintRack fail on r1 and say no on r2.
func lintSplitRacks(s *rollout.Snapshot) {
	s.Resources[0].Metadata["rack"], s.Resources[1].Metadata["rack"] = "four", "1"
}

// lintBuilding lets v2 of a deployment not be ready.
func lintBuilding(deployment string) func(*rollout.Snapshot) {
	return lintStatus("building", deployment)
}

// lintStatus gives v2 of some deployments a status.
func lintStatus(status rollout.VersionStatus, deployments ...string) func(*rollout.Snapshot) {
	return func(s *rollout.Snapshot) {
		for i := range s.Versions {
			if v := &s.Versions[i]; v.ID == "v2" && slices.Contains(deployments, v.Deployment) {
				v.Status = status
			}
		}
	}
}

// lintForStaging has v2 of db for staging alone.
func lintForStaging(s *rollout.Snapshot) {
	lintWithStaging(s)
	for i := range s.Versions {
		if v := &s.Versions[i]; v.Deployment == "db" && v.ID == "v2" {
			v.TargetSelector = lintStaging[1 : len(lintStaging)-1]
		}
	}
}

// lintRenamed gives a deployment another id.
func lintRenamed(deployment, id string) func(*rollout.Snapshot) {
	return func(s *rollout.Snapshot) {
		rename := func(own *string) {
			if *own == deployment {
				*own = id
			}
		}
		for i := range s.Deployments {
			rename(&s.Deployments[i].ID)
		}
		for i := range s.Versions {
			rename(&s.Versions[i].Deployment)
			for k := range s.Versions[i].Dependencies {
				rename(&s.Versions[i].Dependencies[k].Deployment)
			}
		}
		for i := range s.Targets {
			rename(&s.Targets[i].Deployment)
		}
	}
}

// lintStarted lets a version be on its way to all targets of its deployment.
func lintStarted(deployment, version string) func(*rollout.Snapshot) {
	return func(s *rollout.Snapshot) {
		for i := range s.Targets {
			if t := &s.Targets[i]; t.Deployment == deployment {
				t.Jobs = []rollout.Job{{Run: "1", Version: version, Status: rollout.JobInProgress, CreatedAt: t0.Add(-time.Hour)}}
			}
		}
	}
}

// lintOverridden has an override of a rule for a version.
func lintOverridden(rule, version string) func(*rollout.Snapshot) {
	return func(s *rollout.Snapshot) {
		s.Overrides = []rollout.Override{{ID: "1", Rule: rule, Version: version, CreatedAt: t0.Add(-time.Hour), CreatedBy: "ann", Reason: "urgent"}}
	}
}

func lintTiers(s *rollout.Snapshot) {
	for i := range s.Deployments {
		s.Deployments[i].Metadata = map[string]string{"tier": "1"}
		if s.Deployments[i].ID == "db" {
			s.Deployments[i].Metadata["tier"] = "one"
		}
	}
}

// lintThroughBracket lets cache v2 need web v2, and db v2 need cache v2.
func lintThroughBracket(s *rollout.Snapshot) {
	for i := range s.Versions {
		switch v := &s.Versions[i]; {
		case v.ID == "v2" && v.Deployment == "cache":
			v.Dependencies = []rollout.VersionDependency{{Deployment: "web", VersionSelector: "version.tag == 'v2'"}}
		case v.ID == "v2" && v.Deployment == "db":
			v.Dependencies = []rollout.VersionDependency{{Deployment: "cache", VersionSelector: "version.tag == 'v2'"}}
		}
	}
}

// lintMutual lets v2 of web and v2 of db need one another.
func lintMutual(s *rollout.Snapshot) {
	for i := range s.Versions {
		if v := &s.Versions[i]; v.ID == "v2" && v.Deployment != "cache" {
			v.Dependencies = []rollout.VersionDependency{{Deployment: map[string]string{"web": "db", "db": "web"}[v.Deployment], VersionSelector: "version.tag == 'v2'"}}
		}
	}
}

// lintReleased gives web further versions, at such intervals.
func lintReleased(gaps ...time.Duration) func(*rollout.Snapshot) {
	return func(s *rollout.Snapshot) {
		at := t0.Add(-365 * 24 * time.Hour)
		s.Versions = slices.DeleteFunc(s.Versions, func(v rollout.Version) bool { return v.Deployment == "web" })
		for n := 0; n <= len(gaps); n++ {
			s.Versions = append(s.Versions, rollout.Version{ID: fmt.Sprintf("v%d", n+1), Deployment: "web", Status: rollout.VersionReady, CreatedAt: at})
			if n < len(gaps) {
				at = at.Add(gaps[n])
			}
		}
	}
}

// lintReleasedTo does so for as many resources.
func lintReleasedTo(n int, gaps ...time.Duration) func(*rollout.Snapshot) {
	return func(s *rollout.Snapshot) {
		lintNodes(n)(s)
		lintReleased(gaps...)(s)
	}
}

// lintHooked adds main members for three brackets of which web, db and cache are the hooks.
func lintHooked(s *rollout.Snapshot) {
	*s = fleet(2, "v1", map[string][]string{"web": {"v1"}, "db": {"v1"}, "cache": {"v1"}, "main-web": {"v1", "v2"}, "main-db": {"v1", "v2"}, "main-cache": {"v1", "v2"}})
}

// lintReleasedInTurn gives the versions of lintReleased to r1 and r2 in turn.
func lintReleasedInTurn(gaps ...time.Duration) func(*rollout.Snapshot) {
	return func(s *rollout.Snapshot) {
		lintReleased(gaps...)(s)
		turn := 0
		for n := range s.Versions {
			if s.Versions[n].Deployment == "web" {
				s.Versions[n].TargetSelector = fmt.Sprintf("resource.id == 'r%d'", 1+turn%2)
				turn++
			}
		}
	}
}

func lintWithStaging(s *rollout.Snapshot) { *s = inEnvironments(*s, "staging") }

// lintThird adds staging, and a third resource to prod.
func lintThird(s *rollout.Snapshot) {
	lintWithStaging(s)
	s.Resources = append(s.Resources, rollout.Resource{ID: "r3", Name: "r3", Kind: "Node", Metadata: map[string]string{"cluster": "east"}})
	s.Targets = append(s.Targets, rollout.Target{TargetID: rollout.TargetID{Resource: "r3", Environment: "prod", Deployment: "web"}, Current: s.Targets[0].Current})
}

// lintWithQA adds an environment without targets.
func lintWithQA(s *rollout.Snapshot) {
	s.Environments = append(s.Environments, rollout.Environment{ID: "qa", Name: "qa"})
}

func lintWithTiers(s *rollout.Snapshot) {
	lintWithStaging(s)
	s.Environments[1].Metadata = map[string]string{"tier": "1"}
}

// lintEmpty lets nobody run a deployment yet.
func lintEmpty(s *rollout.Snapshot, deployment string) {
	for i := range s.Targets {
		if s.Targets[i].Deployment == deployment {
			s.Targets[i].Current = ""
		}
	}
}

func lintLacking(deployment, resource string) func(*rollout.Snapshot) {
	return func(s *rollout.Snapshot) {
		s.Targets = slices.DeleteFunc(s.Targets, func(t rollout.Target) bool { return t.Deployment == deployment && t.Resource == resource })
	}
}

// lintDatabaseElsewhere has db in another environment than all else, on the same resources.
func lintDatabaseElsewhere(s *rollout.Snapshot) {
	s.Environments = append(s.Environments, rollout.Environment{ID: "shared", Name: "shared"})
	for i := range s.Targets {
		if t := &s.Targets[i]; t.Deployment == "db" {
			t.Environment = "shared"
		}
	}
}

// lintKinds makes the resources of these kinds, as many as there are.
func lintKinds(kinds ...string) func(*rollout.Snapshot) {
	return func(s *rollout.Snapshot) {
		*s = fleet(len(kinds), "v1", map[string][]string{"web": {"v1", "v2"}})
		for i, kind := range kinds {
			s.Resources[i].Kind = kind
		}
	}
}

// lintStored is the record of a pool, with a slot that is held or none, and empty ones of others.
func lintStored(key string, held bool, more ...string) func(*rollout.Snapshot) {
	return func(s *rollout.Snapshot) {
		record := concurrency.NewRecord(key)
		if held {
			record.Leases = []concurrency.Lease{{Pool: key, Holder: concurrency.Holder{Resource: "r1", Group: "target/prod/web"}, Token: 1, State: concurrency.Active, Since: t0, ProgressAt: t0}}
			record.NextToken = 2
		}
		s.State.Pools = append(s.State.Pools, record)
		for _, key := range more {
			s.State.Pools = append(s.State.Pools, concurrency.NewRecord(key))
		}
	}
}

// lintScoped makes v2 of web a version for some.
func lintScoped(selector string) func(*rollout.Snapshot) {
	return func(s *rollout.Snapshot) {
		for i := range s.Versions {
			if v := &s.Versions[i]; v.Deployment == "web" && v.ID == "v2" {
				v.TargetSelector = selector
			}
		}
	}
}

// lintNeeds lets v2 of web depend on a version of another deployment.
func lintNeeds(deployment, selector string) func(*rollout.Snapshot) {
	return lintNeedsOf("web", deployment, selector)
}

// lintDBNeeds lets v2 of db do so.
func lintDBNeeds(deployment, selector string) func(*rollout.Snapshot) {
	return lintNeedsOf("db", deployment, selector)
}

func lintNeedsOf(own, deployment, selector string) func(*rollout.Snapshot) {
	return func(s *rollout.Snapshot) {
		for i := range s.Versions {
			if v := &s.Versions[i]; v.Deployment == own && v.ID == "v2" {
				v.Dependencies = []rollout.VersionDependency{{Deployment: deployment, VersionSelector: selector}}
			}
		}
	}
}

// lintAfter adds a v3 of web that depends on what web runs before it.
func lintAfter(selector string) func(*rollout.Snapshot) {
	return func(s *rollout.Snapshot) {
		s.Versions = append(s.Versions, rollout.Version{ID: "v3", Tag: "v3", Deployment: "web", Status: rollout.VersionReady, CreatedAt: t0, Dependencies: []rollout.VersionDependency{{Deployment: "web", VersionSelector: selector}}})
	}
}

// lintRelease moves the release of a version.
func lintRelease(deployment, version string, at time.Time) func(*rollout.Snapshot) {
	return func(s *rollout.Snapshot) {
		for i := range s.Versions {
			if v := &s.Versions[i]; v.Deployment == deployment && v.ID == version {
				v.CreatedAt = at
			}
		}
	}
}

// lintWorked gives each target of an environment successful jobs of these lengths.
func lintWorked(environment string, lengths ...time.Duration) func(*rollout.Snapshot) {
	return func(s *rollout.Snapshot) {
		if environment != "prod" {
			*s = inEnvironments(*s, environment)
		}
		for i := range s.Targets {
			if s.Targets[i].Environment != environment {
				continue
			}
			for n, length := range lengths {
				at := t0.Add(time.Duration(n-100) * time.Hour)
				s.Targets[i].Jobs = append(s.Targets[i].Jobs, rollout.Job{Run: fmt.Sprint(n), Version: "v1", Status: rollout.JobSuccessful, CreatedAt: at, CompletedAt: at.Add(length)})
			}
		}
	}
}

// lintUnfinished gives each target a job of ten hours, with something wrong.
func lintUnfinished(wrong func(*rollout.Job)) func(*rollout.Snapshot) {
	return func(s *rollout.Snapshot) {
		lintWorked("prod", 10*time.Hour)(s)
		for i := range s.Targets {
			wrong(&s.Targets[i].Jobs[0])
		}
	}
}

// lintRuns lets every target of a deployment run a version.
func lintRuns(s *rollout.Snapshot, deployment, version string) {
	for i := range s.Targets {
		if s.Targets[i].Deployment == deployment {
			s.Targets[i].Current = version
		}
	}
}

// lintCadences releases db and web at these intervals.
func lintCadences(db, web time.Duration) func(*rollout.Snapshot) {
	return func(s *rollout.Snapshot) {
		s.Versions = slices.DeleteFunc(s.Versions, func(v rollout.Version) bool { return v.Deployment != "cache" })
		for n := range 3 {
			for deployment, interval := range map[string]time.Duration{"db": db, "web": web} {
				s.Versions = append(s.Versions, rollout.Version{ID: fmt.Sprintf("v%d", n+1), Deployment: deployment, Status: rollout.VersionReady, CreatedAt: t0.Add(-99*time.Hour + time.Duration(n)*interval)})
			}
		}
	}
}

// lintNodes makes the fleet as large as this.
func lintNodes(n int) func(*rollout.Snapshot) {
	return func(s *rollout.Snapshot) {
		*s = fleet(n, "v1", map[string][]string{"web": {"v1", "v2"}, "db": {"v1", "v2"}, "cache": {"v1", "v2"}})
	}
}

// lintProves is a policy that lets web into prod once it has proved itself in staging.
func lintProves(more string) string { return lintPromotes(lintStaging, more) }

// lintInStaging is a policy with a bracket of web in staging.
func lintInStaging(more string) string {
	return `{"name":"q","selector":"environment.name == 'staging' && deployment.name == 'web'","rules":[` + strings.Replace(lintMains, `"memberRoles"`, more+`"memberRoles"`, 1) + `]}`
}

// lintProgressive is the same with other environments to prove itself in.
func lintProgressive(on string) string { return lintPromotes(on, "") }

func lintPromotes(on, more string) string {
	return `{"name":"p","selector":"deployment.name == 'web' && environment.name == 'prod'","rules":[` + lintProgression("a", on, more) + `]}`
}

// lintAdopted is a staging that runs v1 of web, more about which is said for each of its targets,
// and a prod that is to get it. There is a v2 for others.
func lintAdopted(more func(*rollout.Snapshot, *rollout.Target)) func(*rollout.Snapshot) {
	return func(s *rollout.Snapshot) {
		lintWithStaging(s)
		lintScoped("resource.name == 'r9'")(s)
		for i := range s.Targets {
			switch t := &s.Targets[i]; {
			case t.Deployment != "web":
			case t.Environment == "prod":
				t.Current = ""
			case more != nil:
				more(s, t)
			}
		}
	}
}

func lintSucceeded(t *rollout.Target, version string, at time.Time) {
	t.Jobs = []rollout.Job{{Run: "1", Version: version, Status: rollout.JobSuccessful, CreatedAt: at, CompletedAt: at}}
}

// lintVerified says that v1 succeeded on a target, and that it was verified.
func lintVerified(_ *rollout.Snapshot, t *rollout.Target) {
	lintSucceeded(t, "v1", t0.Add(-time.Hour))
	t.Jobs[0].Verification = rollout.VerificationPassed
}

func lintRows() []lintRow {
	hour, minute := time.Hour, time.Minute
	all := func(d time.Duration) rollout.LintOptions {
		return rollout.LintOptions{Durations: map[string]time.Duration{"web": d, "db": d, "cache": d}}
	}
	hooked := func(id, role, hook string) string { // a bracket of this deployment, as a hook, and a main member of its own
		return fmt.Sprintf(`{"id":%q,"deploymentBracket":{"deploymentSelector":"deployment.name in ['%[3]s','main-%[3]s']","readinessMode":"immediate","memberRoles":{%[2]q:"deployment.name == '%[3]s'"}}}`, id, role, hook)
	}
	week := 7 * 24 * hour
	web := func(d time.Duration) rollout.LintOptions {
		return rollout.LintOptions{Durations: map[string]time.Duration{"web": d}}
	}
	sundays := func(more string) string {
		return `{"id":"w","deploymentWindow":{"weekly":{"days":["sun"],"start":"02:00","end":"04:00"}` + more + `}}`
	}
	curve := func(seconds int64, more string) string {
		return fmt.Sprintf(`{"id":"g","gradualRollout":{"rolloutType":"linear","timeScaleInterval":%d%s}}`, seconds, more)
	}
	cooldown := func(seconds int) string {
		return fmt.Sprintf(`{"id":"k","versionCooldown":{"intervalSeconds":%d}}`, seconds)
	}
	retry := func(more string) string { return `{"id":"r","retry":{` + more + `}}` }
	merging := func(window string) string {
		return `{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessWindowSeconds":` + window + `,"overlapStrategy":"merge","preparedStatePersists":true,` + lintHooks + `}}`
	}
	other := func(id, selector, rules string) string {
		return `{"name":"` + id + `","selector":"` + selector + `","rules":[` + rules + `]}`
	}
	return []lintRow{
		// Windows.
		{code: rollout.LintWindowNeverOpens, why: "the only opening is over", rules: lintPast, want: "error rules[0].deploymentWindow 6"},
		{code: rollout.LintWindowNeverOpens, why: "nobody who runs nothing yet waits for it", rules: lintPast, want: "warning rules[0].deploymentWindow 0",
			fleet: func(s *rollout.Snapshot) { lintEmpty(s, "web"); lintEmpty(s, "db"); lintEmpty(s, "cache") }},
		{code: rollout.LintWindowNeverOpens, why: "nobody waits for both windows yet, and whoever runs nothing will for the version after that", rules: lintOffice, want: "warning [0].rules[0].deploymentWindow 0", says: "the windows of p, q are never open together",
			more: other("q", "deployment.name == 'web'", `{"id":"v","deploymentWindow":{"weekly":{"days":["sun"],"start":"02:00","end":"04:00"}}}`), fleet: func(s *rollout.Snapshot) { lintEmpty(s, "web") }},
		{code: rollout.LintWindowNeverOpens, why: "what is fatal for others already is not said again of whoever runs nothing", rules: lintPast, want: "error [0].rules[0].deploymentWindow 4",
			more: other("q", "deployment.name == 'web'", `{"id":"v","deploymentWindow":{"weekly":{"days":["sun"],"start":"02:00","end":"04:00"}}}`), fleet: func(s *rollout.Snapshot) { lintEmpty(s, "web") }},
		{code: rollout.LintWindowNeverOpens, why: "unless the rule says so", rules: `{"id":"w","deploymentWindow":{"from":"2024-01-01T00:00:00Z","until":"2024-01-02T00:00:00Z","firstDeploy":"apply"}}`,
			fleet: func(s *rollout.Snapshot) { lintEmpty(s, "web") }, want: "error rules[0].deploymentWindow 6"},
		{code: rollout.LintWindowNeverOpens, why: "it opens on the last day that is looked at", rules: `{"id":"w","deploymentWindow":{"from":"2025-01-30T23:00:00Z","until":"2025-02-02T00:00:00Z"}}`},
		{code: rollout.LintWindowNeverOpens, why: "the end of the horizon is not looked at", rules: `{"id":"w","deploymentWindow":{"from":"2025-01-31T00:00:00Z","until":"2025-02-02T00:00:00Z"}}`, want: "error rules[0].deploymentWindow 6"},
		{code: rollout.LintWindowNeverOpens, why: "another window of the policy opens", rules: lintPast + `,{"id":"v","deploymentWindow":{"weekly":{"days":["sun"],"start":"02:00","end":"04:00"}}}`},
		{code: rollout.LintWindowNeverOpens, why: "it opens, for an hour less than is asked for", rules: `{"id":"w","deploymentWindow":{"weekly":{"days":["sun"],"start":"02:00","end":"04:00"},"minimumRemainingMinutes":180}}`,
			want: "error rules[0].deploymentWindow 6", says: `the windows of "p" are never open for the 3h that minimumRemainingMinutes asks for within 720h`},
		{code: rollout.LintWindowNeverOpens, why: "it does not open, for however long", rules: `{"id":"w","deploymentWindow":{"from":"2024-01-01T00:00:00Z","until":"2024-01-02T00:00:00Z","minimumRemainingMinutes":180}}`,
			want: "error rules[0].deploymentWindow 6", says: `the windows of "p" are never open within 720h`},
		{code: rollout.LintWindowNeverOpens, why: "it opens for exactly as long as is asked for", rules: `{"id":"w","deploymentWindow":{"weekly":{"days":["sun"],"start":"02:00","end":"04:00"},"minimumRemainingMinutes":120}}`},
		{code: rollout.LintWindowNeverOpens, why: "two policies never meet", rules: lintOffice, more: other("q", "deployment.name == 'web'", `{"id":"v","deploymentWindow":{"weekly":{"days":["sun"],"start":"02:00","end":"04:00"}}}`),
			want: "error [0].rules[0].deploymentWindow 2", says: "the windows of p, q are never open together within 720h"},
		{code: rollout.LintWindowNeverOpens, why: "two policies meet for an hour", rules: lintOffice, more: other("q", "deployment.name == 'web'", `{"id":"v","deploymentWindow":{"weekly":{"days":["mon"],"start":"16:00","end":"20:00"}}}`)},
		{code: rollout.LintWindowNeverOpens, why: "two policies meet for half an hour, and one asks for an hour", rules: `{"id":"w","deploymentWindow":{"weekly":{"days":["mon"],"start":"09:00","end":"17:00"},"minimumRemainingMinutes":60}}`,
			more: other("q", "deployment.name == 'web'", `{"id":"v","deploymentWindow":{"weekly":{"days":["mon"],"start":"16:30","end":"20:00"}}}`),
			want: "error [0].rules[0].deploymentWindow 2", says: "the windows of p, q are never open together for the 1h that minimumRemainingMinutes asks for"},
		{code: rollout.LintWindowNeverOpens, why: "members of a bracket whose windows never meet, the hook's among them", want: "error [0].rules[0].deploymentBracket 6", rules: lintImmediate,
			more: other("q", "deployment.name == 'web'", lintOffice) + "," + other("s", "deployment.name == 'db'", `{"id":"v","deploymentWindow":{"weekly":{"days":["sun"],"start":"02:00","end":"04:00"}}}`)},
		{code: rollout.LintWindowNeverOpens, why: "members of a bracket whose windows never meet, of which each can go alone", want: "warning [0].rules[0].deploymentBracket 6",
			rules: `{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}}`,
			more:  other("q", "deployment.name == 'web'", lintOffice) + "," + other("s", "deployment.name == 'db'", `{"id":"v","deploymentWindow":{"weekly":{"days":["sun"],"start":"02:00","end":"04:00"}}}`)},
		{code: rollout.LintFreezeCoversOpenings, why: "a freeze for the whole of the horizon", rules: `{"id":"w","deploymentWindow":{"from":"2025-01-01T00:00:00Z","until":"2025-03-01T00:00:00Z","allowWindow":false}}`,
			want: "error rules[0].deploymentWindow 6", says: `the closing windows of "p" cover every opening within 720h`},
		{code: rollout.LintFreezeCoversOpenings, why: "two freezes, of two policies, leave a day between them", want: "error [0].rules[0].deploymentWindow 6", says: "the closing windows of p, q together cover every opening for the 48h that minimumRemainingMinutes asks for within 720h",
			rules: `{"id":"w","deploymentWindow":{"from":"2025-01-01T00:00:00Z","until":"2025-01-15T00:00:00Z","allowWindow":false,"minimumRemainingMinutes":2880}}`,
			more:  other("q", "true", `{"id":"f","deploymentWindow":{"from":"2025-01-16T00:00:00Z","until":"2025-03-01T00:00:00Z","allowWindow":false}}`)},
		{code: rollout.LintFreezeCoversOpenings, why: "a freeze that ends within the horizon", rules: `{"id":"w","deploymentWindow":{"from":"2025-01-01T00:00:00Z","until":"2025-01-29T00:00:00Z","allowWindow":false}}`},
		{code: rollout.LintFreezeCoversOpenings, why: "closed whenever it would be open", rules: lintOffice + `,{"id":"f","deploymentWindow":{"weekly":{"days":["mon","tue","wed","thu","fri"],"start":"08:00","end":"18:00"},"allowWindow":false}}`,
			want: "error rules[1].deploymentWindow 6"},
		{code: rollout.LintFreezeCoversOpenings, why: "closed on all days but one", rules: lintOffice + `,{"id":"f","deploymentWindow":{"weekly":{"days":["mon","tue","wed","thu"],"start":"08:00","end":"18:00"},"allowWindow":false}}`},
		{code: rollout.LintFreezeCoversOpenings, why: "the freeze of another policy", rules: lintOffice, more: other("q", "true", `{"id":"f","deploymentWindow":{"weekly":{"days":["mon","tue","wed","thu","fri"],"start":"08:00","end":"18:00"},"allowWindow":false}}`),
			want: "error [1].rules[0].deploymentWindow 6"},
		{code: rollout.LintWindowShorterThanBracket, why: "not even one main member fits between its hooks", rules: lintImmediate + "," + lintOffice, options: all(3 * hour), want: "error rules[0].deploymentBracket 6"},
		{code: rollout.LintWindowShorterThanBracket, why: "two mains in a row do not fit, each does",
			rules:   `{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}},` + lintDependsOn(`"dependsOn":"deployment.name == 'db'","appliesTo":"deployment.name == 'web'"`) + "," + lintOffice,
			options: all(5 * hour), want: "warning rules[0].deploymentBracket 6"},
		{code: rollout.LintWindowShorterThanBracket, why: "side by side they do",
			rules: `{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}},` + lintOffice, options: all(5 * hour)},
		{code: rollout.LintWindowShorterThanBracket, why: "it takes exactly as long as the window is open", rules: lintImmediate + "," + lintOffice, options: all(160 * minute)},
		{code: rollout.LintWindowShorterThanBracket, why: "what is not known is not guessed", rules: lintImmediate + "," + lintOffice},
		{code: rollout.LintWindowShorterThanBracket, why: "jobs that succeeded tell how long they take", rules: lintImmediate + "," + lintOffice, want: "error rules[0].deploymentBracket 6",
			fleet: func(s *rollout.Snapshot) {
				for i := range s.Targets {
					at := t0.Add(-100 * hour)
					s.Targets[i].Jobs = []rollout.Job{{Run: "1", Version: "v1", Status: rollout.JobSuccessful, CreatedAt: at, CompletedAt: at.Add(3 * hour)}}
				}
			}},
		{code: rollout.LintCurveLongerThanWindowPeriod, why: "41 hours of a week with 40", rules: curve(41*3600, "") + "," + lintOffice, want: "warning rules[0].gradualRollout.timeScaleInterval 6"},
		{code: rollout.LintCurveLongerThanWindowPeriod, why: "40 hours of a week with 40", rules: curve(40*3600, "") + "," + lintOffice},
		{code: rollout.LintCurveLongerThanWindowPeriod, why: "the curve is for web alone", rules: lintOffice, more: other("q", "deployment.name == 'web'", curve(41*3600, "")), want: "warning [1].rules[0].gradualRollout.timeScaleInterval 2"},
		{code: rollout.LintCurveLongerThanWindowPeriod, why: "the windows are for web alone", rules: curve(41*3600, ""), more: other("q", "deployment.name == 'web'", lintOffice), want: "warning [0].rules[0].gradualRollout.timeScaleInterval 2"},
		{code: rollout.LintCurveLongerThanWindowPeriod, why: "who runs nothing yet waits for one window of two, and is counted once", want: "warning rules[0].gradualRollout.timeScaleInterval 6",
			rules: curve(41*3600, "") + "," + lintOffice + `,{"id":"v","deploymentWindow":{"weekly":{"days":["mon","tue","wed","thu","fri"],"start":"09:00","end":"17:00"},"firstDeploy":"apply"}}`,
			fleet: func(s *rollout.Snapshot) { s.Targets[0].Current = "" }},
		{code: rollout.LintCurveLongerThanWindowPeriod, why: "who runs nothing yet waits for no window", rules: curve(41*3600, "") + "," + lintOffice, want: "warning rules[0].gradualRollout.timeScaleInterval 5", fleet: func(s *rollout.Snapshot) { s.Targets[0].Current = "" }},
		{code: rollout.LintCurveLongerThanWindowPeriod, why: "one night a month, and a curve of two", want: "warning rules[0].gradualRollout.timeScaleInterval 6", says: "every 744h the windows let jobs start for 6h at most",
			rules: curve(12*3600, "") + `,{"id":"w","deploymentWindow":{"rrule":"BYDAY=2TU;BYHOUR=22;FREQ=MONTHLY","durationMinutes":360}}`},
		{code: rollout.LintCurveLongerThanWindowPeriod, why: "two nights a month", rules: curve(12*3600, "") + `,{"id":"w","deploymentWindow":{"rrule":"FREQ=MONTHLY;BYDAY=2TU,3TU;BYHOUR=22","durationMinutes":360}}`},
		{code: rollout.LintCurveLongerThanWindowPeriod, why: "that it never opens is another finding", rules: curve(3600, "") + "," + lintPast},
		{code: rollout.LintCurveLongerThanWindowPeriod, why: "ten hours of all that is looked at", rules: curve(11*3600, "") + `,{"id":"w","deploymentWindow":{"from":"2025-01-10T00:00:00Z","until":"2025-01-10T10:00:00Z"}}`,
			want: "warning rules[0].gradualRollout.timeScaleInterval 6", says: "every 720h the windows let jobs start for 10h at most"},
		{code: rollout.LintCurveLongerThanWindowPeriod, why: "what opens beyond the horizon is not looked at", want: "warning rules[0].gradualRollout.timeScaleInterval 6", says: "every 24h the windows let jobs start for 1h at most",
			rules: curve(2*3600, "") + `,{"id":"w","deploymentWindow":{"rrule":"FREQ=DAILY;BYHOUR=3","durationMinutes":60}},{"id":"v","deploymentWindow":{"from":"2025-03-01T00:00:00Z","until":"2025-03-02T00:00:00Z"}}`},
		{code: rollout.LintCurveLongerThanWindowPeriod, why: "weekly, on the day of the anchor", want: "warning rules[0].gradualRollout.timeScaleInterval 6", says: "every 168h the windows let jobs start for 1h at most",
			rules: curve(2*3600, "") + `,{"id":"w","deploymentWindow":{"rrule":"FREQ=WEEKLY;BYHOUR=3","durationMinutes":60,"anchor":"2025-01-06T00:00:00Z"}}`},
		{code: rollout.LintCurveLongerThanWindowPeriod, why: "once in four centuries is more than can be counted", want: "warning rules[0].gradualRollout.timeScaleInterval 6", says: "every 2562047h47m16.854775807s the windows let jobs start for 1h at most",
			rules: curve(2*3600, "") + `,{"id":"w","deploymentWindow":{"weekly":{"days":["mon"],"start":"03:00","end":"04:00","everyWeeks":20000},"anchor":"2025-01-06T00:00:00Z"}}`},
		{code: rollout.LintCurveLongerThanWindowPeriod, why: "the resources of the second environment", rules: lintOffice, fleet: lintWithStaging, want: "warning [1].rules[0].gradualRollout.timeScaleInterval 6", says: "a rollout to 2 takes",
			more: other("q", "environment.name == 'staging'", curve(41*3600, `,"orderKey":"resource"`))},
		{code: rollout.LintCurveLongerThanWindowPeriod, why: "an environment without deployments", rules: curve(41*3600, `,"orderKey":"resource"`) + "," + lintOffice,
			fleet: func(s *rollout.Snapshot) { s.Deployments, s.Versions, s.Targets = nil, nil, nil }},
		{code: rollout.LintCurveLongerThanWindowPeriod, why: "one that is always open has no period", rules: curve(400*3600, "")},
		{code: rollout.LintCurveLongerThanWindowPeriod, why: "a daily hour, and two of curve", rules: curve(2*3600, "") + `,{"id":"w","deploymentWindow":{"rrule":"FREQ=DAILY;BYHOUR=3","durationMinutes":60}}`,
			want: "warning rules[0].gradualRollout.timeScaleInterval 6"},
		{code: rollout.LintCurveLongerThanWindowPeriod, why: "two of the three days on which it recurs", rules: curve(2*3600, "") + `,{"id":"w","deploymentWindow":{"rrule":"FREQ=DAILY;BYHOUR=3;BYDAY=MO,TU,WE","durationMinutes":60}}`},
		{code: rollout.LintCurveLongerThanWindowPeriod, why: "a freeze in the first week is no measure", rules: curve(40*3600, "") + "," + lintOffice + `,{"id":"f","deploymentWindow":{"from":"2025-01-01T00:00:00Z","until":"2025-01-08T00:00:00Z","allowWindow":false}}`},
		{code: rollout.LintCurveLongerThanWindowPeriod, why: "an hour of which nothing may start in the last quarter", rules: curve(46*60, "") + `,{"id":"w","deploymentWindow":{"rrule":"FREQ=DAILY;BYHOUR=3","durationMinutes":60,"minimumRemainingMinutes":15}}`,
			want: "warning rules[0].gradualRollout.timeScaleInterval 6"},
		{code: rollout.LintCurveLongerThanWindowPeriod, why: "it fits into the first three", rules: curve(45*60, "") + `,{"id":"w","deploymentWindow":{"rrule":"FREQ=DAILY;BYHOUR=3","durationMinutes":60,"minimumRemainingMinutes":15}}`},
		{code: rollout.LintCurveLongerThanWindowPeriod, why: "only the very instant at which it opens will do", rules: curve(1, "") + `,{"id":"w","deploymentWindow":{"rrule":"FREQ=DAILY;BYHOUR=3","durationMinutes":60,"minimumRemainingMinutes":60}}`,
			want: "warning rules[0].gradualRollout.timeScaleInterval 6"},
		{code: rollout.LintCurveLongerThanWindowPeriod, why: "a weekly hour, and two of curve", rules: curve(2*3600, "") + `,{"id":"w","deploymentWindow":{"rrule":"FREQ=WEEKLY;BYDAY=MO;BYHOUR=3","durationMinutes":60}}`,
			want: "warning rules[0].gradualRollout.timeScaleInterval 6", says: "every 168h the windows let jobs start for 1h at most"},
		{code: rollout.LintCurveLongerThanWindowPeriod, why: "every other Monday and every Tuesday: three hours in two weeks",
			rules: curve(3*3600, "") + `,{"id":"w","deploymentWindow":{"rrule":"FREQ=WEEKLY;INTERVAL=2;BYDAY=MO;BYHOUR=3","durationMinutes":60,"anchor":"2025-01-06T00:00:00Z"}},{"id":"v","deploymentWindow":{"weekly":{"days":["tue"],"start":"03:00","end":"04:00"}}}`},
		{code: rollout.LintCurveLongerThanWindowPeriod, why: "and no more", want: "warning rules[0].gradualRollout.timeScaleInterval 6", says: "every 336h the windows let jobs start for 3h at most",
			rules: curve(3*3600+1, "") + `,{"id":"w","deploymentWindow":{"rrule":"FREQ=WEEKLY;INTERVAL=2;BYDAY=MO;BYHOUR=3","durationMinutes":60,"anchor":"2025-01-06T00:00:00Z"}},{"id":"v","deploymentWindow":{"weekly":{"days":["tue"],"start":"03:00","end":"04:00"}}}`},
		{code: rollout.LintCurveLongerThanWindowPeriod, why: "eight hours over midnight, and eight of curve", rules: curve(8*3600, "") + `,{"id":"w","deploymentWindow":{"rrule":"FREQ=DAILY;BYHOUR=20","durationMinutes":480}}`},
		{code: rollout.LintCurveLongerThanWindowPeriod, why: "and a second", rules: curve(8*3600+1, "") + `,{"id":"w","deploymentWindow":{"rrule":"FREQ=DAILY;BYHOUR=20","durationMinutes":480}}`,
			want: "warning rules[0].gradualRollout.timeScaleInterval 6", says: "a rollout to 2 takes 8h0m1s of open time, and every 24h the windows let jobs start for 8h at most"},
		{code: rollout.LintCurveLongerThanWindowPeriod, why: "resources are counted, whatever runs on them", rules: curve(41*3600, `,"orderKey":"resource"`) + "," + lintOffice,
			want: "warning rules[0].gradualRollout.timeScaleInterval 6", says: "a rollout to 2 takes 41h"},
		{code: rollout.LintWindowClockChange, why: "the anchor of a recurrence is an instant", horizon: 120 * 24 * hour, want: "info rules[0].deploymentWindow 0", says: "it begins at 2025-03-30 02:30:00, a reading that the clock of Europe/Berlin skips",
			rules: `{"id":"w","deploymentWindow":{"rrule":"FREQ=WEEKLY;BYDAY=SU;BYHOUR=2;BYMINUTE=30","durationMinutes":60,"timezone":"Europe/Berlin","anchor":"2025-01-05T01:30:00Z"}}`},
		{code: rollout.LintWindowClockChange, why: "and its time of day is that of its zone", horizon: 120 * 24 * hour, want: "info rules[0].deploymentWindow 0", says: "it begins at 2025-03-30 02:30:00, a reading that the clock of Europe/Berlin skips",
			rules: `{"id":"w","deploymentWindow":{"rrule":"FREQ=WEEKLY;BYDAY=SU","durationMinutes":60,"timezone":"Europe/Berlin","anchor":"2025-01-05T01:30:00Z"}}`},
		{code: rollout.LintWindowClockChange, why: "instants are no readings, whatever the zone", horizon: 120 * 24 * hour,
			rules: `{"id":"w","deploymentWindow":{"from":"2025-03-30T02:30:00Z","until":"2025-03-30T02:45:00Z","timezone":"Europe/Berlin"}}`},
		{code: rollout.LintWindowClockChange, why: "Tokyo has no changes any more", rules: `{"id":"w","deploymentWindow":{"weekly":{"days":["sun"],"start":"02:30","end":"04:30"},"timezone":"Asia/Tokyo"}}`, horizon: 330 * 24 * hour},
		{code: rollout.LintWindowClockChange, why: "once in spring and once in autumn", rules: lintWeekly(""), horizon: 330 * 24 * hour, want: "info rules[0].deploymentWindow 0", says: "it is taken for the end of the gap, and once more within the horizon"},
		{code: rollout.LintWindowClockChange, why: "and again next spring", rules: lintWeekly(""), horizon: 500 * 24 * hour, want: "info rules[0].deploymentWindow 0", says: "it is taken for the end of the gap, and 2 times more within the horizon"},
		{code: rollout.LintWindowClockChange, why: "it ends in the hour that Santiago has twice", horizon: 120 * 24 * hour, want: "info rules[0].deploymentWindow 0", says: "it ends at 2025-04-05 23:30:00, a reading that the clock of America/Santiago shows twice: the first pass is meant",
			rules: `{"id":"w","deploymentWindow":{"weekly":{"days":["sat"],"start":"20:00","end":"23:30"},"timezone":"America/Santiago"}}`},
		{code: rollout.LintWindowClockChange, why: "so does a freeze, which is to be sure", horizon: 120 * 24 * hour, want: "info rules[0].deploymentWindow 0", says: "the last pass is meant",
			rules: `{"id":"w","deploymentWindow":{"weekly":{"days":["sat"],"start":"20:00","end":"23:30"},"timezone":"America/Santiago","allowWindow":false}}`},
		{code: rollout.LintWindowClockChange, why: "02:30 is skipped in Berlin on 30 March", rules: lintWeekly(""), horizon: 120 * 24 * hour, want: "info rules[0].deploymentWindow 0"},
		{code: rollout.LintWindowClockChange, why: "all of it is skipped, up to the hour at which it ends", rules: `{"id":"w","deploymentWindow":{"weekly":{"days":["sun"],"start":"02:00","end":"03:00"},"timezone":"Europe/Berlin"}}`, horizon: 120 * 24 * hour, want: "info rules[0].deploymentWindow 0",
			says: "it begins at 2025-03-30 02:00:00, a reading that the clock of Europe/Berlin skips: all up to its end is skipped, so there is no window that day"},
		{code: rollout.LintWindowClockChange, why: "a second of it is not", rules: `{"id":"w","deploymentWindow":{"weekly":{"days":["sun"],"start":"02:00","end":"03:00:01"},"timezone":"Europe/Berlin"}}`, horizon: 120 * 24 * hour, want: "info rules[0].deploymentWindow 0", says: "it is taken for the end of the gap"},
		{code: rollout.LintWindowClockChange, why: "an elapsed length is that long, wherever it begins", rules: `{"id":"w","deploymentWindow":{"weekly":{"days":["sun"],"start":"02:00"},"durationMinutes":60,"timezone":"Europe/Berlin"}}`, horizon: 120 * 24 * hour, want: "info rules[0].deploymentWindow 0", says: "it is taken for the end of the gap"},
		{code: rollout.LintWindowClockChange, why: "not before April", rules: lintWeekly("")},
		{code: rollout.LintWindowClockChange, why: "somebody knows", rules: lintWeekly(`,"gap":"skip"`), horizon: 120 * 24 * hour},
		{code: rollout.LintWindowClockChange, why: "and did not think of October", rules: lintWeekly(`,"gap":"skip"`), horizon: 330 * 24 * hour, want: "info rules[0].deploymentWindow 0"},
		{code: rollout.LintWindowClockChange, why: "somebody knows of October, too", rules: lintWeekly(`,"gap":"skip","overlap":"last"`), horizon: 330 * 24 * hour},
		{code: rollout.LintWindowClockChange, why: "it begins at the first reading that is skipped", rules: `{"id":"w","deploymentWindow":{"weekly":{"days":["sun"],"start":"02:00","end":"05:00"},"timezone":"Europe/Berlin"}}`, horizon: 120 * 24 * hour, want: "info rules[0].deploymentWindow 0"},
		{code: rollout.LintWindowClockChange, why: "it begins at the first one after those", rules: `{"id":"w","deploymentWindow":{"weekly":{"days":["sun"],"start":"03:00","end":"05:00"},"timezone":"Europe/Berlin"}}`, horizon: 330 * 24 * hour},
		{code: rollout.LintWindowClockChange, why: "the end of the horizon, at which the clock is changed, is not looked at", rules: lintWeekly(""), horizon: (88*24 + 1) * hour},
		{code: rollout.LintWindowClockChange, why: "UTC has no changes", rules: `{"id":"w","deploymentWindow":{"weekly":{"days":["sun"],"start":"02:30","end":"04:30"}}}`, horizon: 330 * 24 * hour},
		{code: rollout.LintWindowClockChange, why: "Monday is no day of change", rules: `{"id":"w","deploymentWindow":{"weekly":{"days":["mon"],"start":"02:30","end":"04:30"},"timezone":"Europe/Berlin"}}`, horizon: 330 * 24 * hour},
		{code: rollout.LintWindowClockChange, why: "it ends at a reading that is skipped", rules: `{"id":"w","deploymentWindow":{"weekly":{"days":["sun"],"start":"01:00","end":"02:30"},"timezone":"Europe/Berlin"}}`, horizon: 120 * 24 * hour, want: "info rules[0].deploymentWindow 0"},
		{code: rollout.LintWindowClockChange, why: "02:00 is no reading that is skipped, and is shown twice in October", rules: `{"id":"w","deploymentWindow":{"weekly":{"days":["sun"],"start":"01:00","end":"02:00"},"timezone":"Europe/Berlin"}}`, horizon: 330 * 24 * hour,
			want: "info rules[0].deploymentWindow 0", says: "it ends at 2025-10-26 02:00:00, a reading that the clock of Europe/Berlin shows twice: the first pass is meant"},
		{code: rollout.LintWindowClockChange, why: "it is over the day before", rules: `{"id":"w","deploymentWindow":{"weekly":{"days":["sat"],"start":"01:00","end":"02:30"},"timezone":"Europe/Berlin"}}`, horizon: 330 * 24 * hour},
		{code: rollout.LintWindowClockChange, why: "it begins before the hour that is skipped, and ends after it", rules: `{"id":"w","deploymentWindow":{"weekly":{"days":["sun"],"start":"01:00","end":"05:00"},"timezone":"Europe/Berlin"}}`, horizon: 330 * 24 * hour},
		{code: rollout.LintWindowClockChange, why: "a freeze begins in the first of two passes, as an opening does", rules: lintWeekly(`,"gap":"skip","allowWindow":false`), horizon: 330 * 24 * hour, want: "info rules[0].deploymentWindow 0",
			says: "the first pass is meant; move it to hours that every day has once, or write overlap to say that you know"},
		{code: rollout.LintWindowClockChange, why: "it ends where the gap begins: the instant is the same", rules: `{"id":"w","deploymentWindow":{"weekly":{"days":["sun"],"start":"01:00","end":"02:00"},"timezone":"Europe/Berlin"}}`, horizon: 120 * 24 * hour},
		{code: rollout.LintWindowClockChange, why: "an elapsed length has no reading", rules: `{"id":"w","deploymentWindow":{"weekly":{"days":["sun"],"start":"01:00"},"durationMinutes":90,"timezone":"Europe/Berlin"}}`, horizon: 120 * 24 * hour},

		// Capacity.
		{code: rollout.LintLimitZero, why: "a pause", rules: lintLimited(`"limit":0`), want: "error rules[0].resourceConcurrency.limit 6"},
		{code: rollout.LintLimitZero, why: "20 % of 2 rounded down, in the words of the RFC", rules: lintLimited(`"limitType":"percentage","limitValue":20,"rounding":"floor"`), want: "error rules[0].resourceConcurrency.limitValue 6"},
		{code: rollout.LintLimitZero, why: "rounded down to at least 1", rules: lintLimited(`"limit":"20%","rounding":"floor_min_1"`)},
		{code: rollout.LintLimitZero, why: "half of 2 is 1", rules: lintLimited(`"limit":"50%","rounding":"floor"`)},
		{code: rollout.LintLimitZero, why: "a rate of 20 % of 2, rounded down", rules: lintLimited(`"limit":2,"rate":{"limit":"20%","periodSeconds":60},"rounding":"floor"`), want: "error rules[0].resourceConcurrency.rate.limit 6", says: "20% of 2, rounded by floor, is 0: nobody starts"},
		{code: rollout.LintLimitZero, why: "with a rate, but for the limit", rules: lintLimited(`"limit":0,"rate":{"limit":"20%","periodSeconds":60},"rounding":"floor"`), want: "error rules[0].resourceConcurrency.limit 6", says: "a limit of 0 lets none of 2 members start"},
		{code: rollout.LintLimitZero, why: "one per minute", rules: lintLimited(`"limit":2,"rate":{"limit":1,"periodSeconds":60}`)},
		{code: rollout.LintLimitZero, why: "nobody is governed by it", more: other("q", "deployment.name == 'nobody'", lintLimited(`"limit":0`)), want: "warning rules[0].resourceConcurrency.limit 0"},
		{code: rollout.LintLimitZero, why: "whoever is down already starts all the same", rules: lintLimited(`"limit":0`), fleet: func(s *rollout.Snapshot) { s.Unavailable = []string{"r1"} }, want: "error rules[0].resourceConcurrency.limit 3"},
		{code: rollout.LintLimitZero, why: "so does who holds a slot", rules: lintLimited(`"limit":0`), want: "error rules[0].resourceConcurrency.limit 3", fleet: func(s *rollout.Snapshot) {
			record := concurrency.NewRecord("c")
			record.Leases = []concurrency.Lease{{Pool: "c", Holder: concurrency.Holder{Resource: "r1", Group: "target/prod/web"}, Token: 1, State: concurrency.Active, Since: t0, ProgressAt: t0}}
			s.State.Pools = []concurrency.Record{record}
		}},
		{code: rollout.LintLimitZero, why: "and who is seen at work", rules: lintLimited(`"limit":0`), want: "error rules[0].resourceConcurrency.limit 3", fleet: func(s *rollout.Snapshot) {
			s.Active = map[string][]concurrency.Holder{"c": {{Resource: "r2", Group: "by hand"}}}
		}},
		{code: rollout.LintOnStuckNever, why: "nothing says when a lease is stuck", rules: lintLimited(`"limit":1,"onStuck":"quarantine","quarantineAllowance":1`), want: "warning rules[0].resourceConcurrency.onStuck 0", says: "leases that are stuck are quarantined, and without stuckAfterSeconds none ever is"},
		{code: rollout.LintOnStuckNever, why: "0 switches it off", rules: lintLimited(`"limit":1,"stuckAfterSeconds":0,"onStuck":"quarantine"`), want: "warning rules[0].resourceConcurrency.onStuck 0"},
		{code: rollout.LintOnStuckNever, why: "hold is what there is without it", rules: lintLimited(`"limit":1,"onStuck":"hold"`)},
		{code: rollout.LintOnStuckNever, why: "a rule whose group has no members yet", rules: `{"id":"c","resourceConcurrency":{"groupSelector":"resource.metadata['cluster'] == 'west'","limit":1,"onStuck":"quarantine"}}`, want: "warning rules[0].resourceConcurrency.onStuck 0"},
		{code: rollout.LintOnStuckNever, why: "an hour", rules: lintLimited(`"limit":1,"stuckAfterSeconds":3600,"onStuck":"quarantine"`)},
		{code: rollout.LintOnStuckNever, why: "an allowance is for leases of executions that were given up, too", rules: lintLimited(`"limit":1,"quarantineAllowance":1`)},
		{code: rollout.LintHaltNever, why: "40 was meant to be 40 %", rules: lintLimited(`"limit":1,"haltAboveUnavailable":40`), want: "warning rules[0].resourceConcurrency.haltAboveUnavailable 0", says: "40 may be down, of 2 members in all: it never halts"},
		{code: rollout.LintHaltNever, why: "all may be down", rules: lintLimited(`"limit":1,"haltAboveUnavailable":"100%"`), want: "warning rules[0].resourceConcurrency.haltAboveUnavailable 0"},
		{code: rollout.LintHaltNever, why: "in the pool of the only a; of two b more than one can be down", rules: lintLimited(`"limit":1,"haltAboveUnavailable":1,"groupBy":"resource.kind"`), fleet: lintKinds("a", "b", "b"), want: "warning rules[0].resourceConcurrency.haltAboveUnavailable 0", says: "1 may be down, of 1 member in all: it never halts, in 1 of 2 pools"},
		{code: rollout.LintHaltNever, why: "all but one may be", rules: lintLimited(`"limit":1,"haltAboveUnavailable":1`)},
		{code: rollout.LintHaltNever, why: "99 % are less than all", rules: lintLimited(`"limit":1,"haltAboveUnavailable":"99%","groupBy":"resource.name"`)},
		{code: rollout.LintHaltNever, why: "nothing is to halt it", rules: lintLimited(`"limit":1`)},
		{code: rollout.LintPoolEmpty, why: "no resource is in the west", rules: `{"id":"c","resourceConcurrency":{"groupSelector":"resource.metadata['cluster'] == 'west'","limit":1}}`, want: "warning rules[0].resourceConcurrency.groupSelector 0"},
		{code: rollout.LintPoolEmpty, why: "one is in the east", rules: `{"id":"c","resourceConcurrency":{"groupSelector":` + lintEast + `,"limit":1}}`},
		{code: rollout.LintPoolEmpty, why: "it has members, and the policy governs none of them", more: other("q", "resource.name == 'r1'", `{"id":"c","resourceConcurrency":{"groupSelector":"resource.name == 'r2'","limit":1}}`),
			want: "warning rules[0].resourceConcurrency.groupSelector 0"},
		{code: rollout.LintPoolWithoutValue, why: "one of two has lost its label", rules: lintLimited(`"limit":1,"groupBy":"resource.metadata['cluster']"`), fleet: func(s *rollout.Snapshot) { s.Resources[1].Metadata = nil },
			want: "warning rules[0].resourceConcurrency.groupBy 3", says: "for 1 of 2 members, such as r2, resource.metadata['cluster'] has no value: they are limited together, in a pool of their own, c/, besides those of the values"},
		{code: rollout.LintPoolWithoutValue, why: "a value that is empty is none", rules: lintLimited(`"limit":1,"groupBy":"resource.kind"`), fleet: lintKinds("a", "", ""), want: "warning rules[0].resourceConcurrency.groupBy 2", says: "for 2 of 3 members, such as r2, resource.kind has no value"},
		{code: rollout.LintPoolWithoutValue, why: "of a shared pool", rules: lintLimited(`"limit":1,"sharedPool":"s","groupBy":"resource.kind"`), fleet: lintKinds("a", ""), want: "warning rules[0].resourceConcurrency.groupBy 1", says: "a pool of their own, s/,"},
		{code: rollout.LintPoolWithoutValue, why: "everybody has one", rules: lintLimited(`"limit":1,"groupBy":"resource.metadata['cluster']"`)},
		{code: rollout.LintPoolWithoutValue, why: "nobody has, which is said of the key", rules: lintLimited(`"limit":1,"groupBy":"resource.metadata['zone']"`)},
		{code: rollout.LintPoolWithoutValue, why: "all are meant to be one pool", rules: lintLimited(`"limit":1`), fleet: lintKinds("", "")},
		{code: rollout.LintPoolWithoutValue, why: "the one without is no member", rules: `{"id":"c","resourceConcurrency":{"groupSelector":"resource.kind != ''","limit":1,"groupBy":"resource.kind"}}`, fleet: lintKinds("a", "")},
		{code: rollout.LintPoolWithoutValue, why: "nor is it limited", more: other("p", "resource.name == 'r1'", lintLimited(`"limit":1,"groupBy":"resource.kind"`)), fleet: lintKinds("a", "")},
		{code: rollout.LintCeilExceedsPercent, why: "by less than a tenth of a percent", rules: lintLimited(`"limit":"20%"`), fleet: lintKinds(make([]string, 1001)...), want: "info rules[0].resourceConcurrency.limit 0", says: "20% of 1001, rounded up, is 201, which is just above 20 %;"},
		{code: rollout.LintCeilExceedsPercent, why: "20 % of 2 is half", rules: lintLimited(`"limit":"20%"`), want: "info rules[0].resourceConcurrency.limit 0", says: "20% of 2, rounded up, is 1, which is 50.0 %"},
		{code: rollout.LintCeilExceedsPercent, why: "a third and more", rules: lintLimited(`"limit":"20%"`), fleet: lintKinds("a", "a", "a"), want: "info rules[0].resourceConcurrency.limit 0", says: "20% of 3, rounded up, is 1, which is 33.3 %"},
		{code: rollout.LintCeilExceedsPercent, why: "more than all is all, however it is rounded", rules: lintLimited(`"limit":"150%"`), fleet: lintKinds("a", "a", "a")},
		{code: rollout.LintCeilExceedsPercent, why: "of each alone it is all", rules: lintLimited(`"limit":"20%","groupBy":"resource.name"`), want: "info rules[0].resourceConcurrency.limit 0", says: "in 2 of 2 pools"},
		{code: rollout.LintCeilExceedsPercent, why: "said of the pool that exceeds it by most, the last", rules: lintLimited(`"limit":"20%","groupBy":"resource.kind"`), fleet: lintKinds("a", "b", "a", "a"), want: "info rules[0].resourceConcurrency.limit 0", says: "20% of 1, rounded up, is 1, which is 100.0 %, in 2 of 2 pools"},
		{code: rollout.LintCeilExceedsPercent, why: "or the first", rules: lintLimited(`"limit":"20%","groupBy":"resource.kind"`), fleet: lintKinds("a", "b", "b", "b"), want: "info rules[0].resourceConcurrency.limit 0", says: "20% of 1, rounded up, is 1, which is 100.0 %, in 2 of 2 pools"},
		{code: rollout.LintCeilExceedsPercent, why: "half of 2 is half", rules: lintLimited(`"limit":"50%"`)},
		{code: rollout.LintCeilExceedsPercent, why: "a count says what it means", rules: lintLimited(`"limit":1`)},
		{code: rollout.LintCeilExceedsPercent, why: "all of it is no more than all", rules: lintLimited(`"limit":"150%"`)},
		{code: rollout.LintPoolsOverlapUnshared, why: "web and db each have a limit of their own", more: other("p", "deployment.name == 'web'", lintLimited(`"limit":1`)) + "," + other("q", "deployment.name == 'db'", `{"id":"e","resourceConcurrency":{"groupSelector":"true","limit":1}}`),
			want: "warning [1].rules[0].resourceConcurrency.groupSelector 4"},
		{code: rollout.LintPoolsOverlapUnshared, why: "both limit everybody", rules: lintLimited(`"limit":1`) + `,{"id":"e","resourceConcurrency":{"groupSelector":` + lintEast + `,"limit":1}}`, want: "info rules[1].resourceConcurrency.groupSelector 0"},
		{code: rollout.LintPoolsOverlapUnshared, why: "said of the one with the greater id", rules: `{"id":"e","resourceConcurrency":{"groupSelector":` + lintEast + `,"limit":1}},` + lintLimited(`"limit":1`), want: "info rules[0].resourceConcurrency.groupSelector 0"},
		{code: rollout.LintPoolsOverlapUnshared, why: "they share a pool", more: other("p", "deployment.name == 'web'", lintLimited(`"limit":1,"sharedPool":"s"`)) + "," + other("q", "deployment.name == 'db'", `{"id":"e","resourceConcurrency":{"groupSelector":"true","limit":1,"sharedPool":"s"}}`)},
		{code: rollout.LintPoolsOverlapUnshared, why: "they have no member in common", rules: `{"id":"c","resourceConcurrency":{"groupSelector":"resource.name == 'r1'","limit":1}},{"id":"e","resourceConcurrency":{"groupSelector":"resource.name == 'r2'","limit":1}}`},

		// Dependencies.
		{code: rollout.LintDependencyCycle, why: "web and db need each other", want: "error rules[0].deploymentDependency.dependsOn 4",
			rules: lintDependsOn(`"dependsOn":"deployment.name == 'db'","appliesTo":"deployment.name == 'web'"`) + `,{"id":"e","deploymentDependency":{"dependsOn":"deployment.name == 'web'","appliesTo":"deployment.name == 'db'"}}`},
		{code: rollout.LintDependencyCycle, why: "web needs db, which needs nobody", rules: lintDependsOn(`"dependsOn":"deployment.name == 'db'","appliesTo":"deployment.name == 'web'"`)},
		{code: rollout.LintDependencyCycle, why: "members of a bracket need each other, if they have certain versions", want: "error rules[0].deploymentBracket 6",
			rules: `{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}},` +
				lintDependsOn(`"dependsOn":"deployment.name == 'db' && version.tag == 'v2'","appliesTo":"deployment.name == 'web'"`) + `,{"id":"e","deploymentDependency":{"dependsOn":"deployment.name == 'web' && version.tag == 'v2'","appliesTo":"deployment.name == 'db'"}}`},
		{code: rollout.LintDependencyCycle, why: "members will need each other, once v2 of web is there", want: "error rules[0].deploymentBracket 6", says: "nothing is planned once a version is there that is listed for later, as long as they do",
			rules: lintMains + "," + lintForth + "," + lintBack, fleet: func(s *rollout.Snapshot) {
				for i := range s.Versions {
					if v := &s.Versions[i]; v.Deployment == "web" && v.ID == "v2" {
						v.CreatedAt = t0.Add(hour)
					}
				}
			}},
		{code: rollout.LintDependencyCycle, why: "web and db need each other's next version", want: "error rules[0].deploymentDependency.dependsOn 4",
			rules: lintDependsOn(`"dependsOn":"deployment.name == 'db' && version.tag == 'v2'","appliesTo":"deployment.name == 'web'"`) + `,{"id":"e","deploymentDependency":{"dependsOn":"deployment.name == 'web' && version.tag == 'v2'","appliesTo":"deployment.name == 'db'"}}`},
		{code: rollout.LintDependencyCycle, why: "the version that one of them has will do",
			rules: lintDependsOn(`"dependsOn":"deployment.name == 'db' && version.tag == 'v2'","appliesTo":"deployment.name == 'web'"`) + `,{"id":"e","deploymentDependency":{"dependsOn":"deployment.name == 'web' && version.tag == 'v1'","appliesTo":"deployment.name == 'db'"}}`},
		{code: rollout.LintDependencyCycle, why: "a bracket waits for what it would bring itself, by a rule of another policy", want: "error [1].rules[0].deploymentDependency.dependsOn 2",
			rules: lintImmediate, more: other("q", "true", lintDependsOn(`"dependsOn":"deployment.name == 'db' && version.tag == 'v2'","appliesTo":"deployment.name == 'web'"`))},
		{code: rollout.LintDependencyCycle, why: "by a rule of its own it is an order", rules: lintImmediate + "," + lintDependsOn(`"dependsOn":"deployment.name == 'db' && version.tag == 'v2'","appliesTo":"deployment.name == 'web'"`)},
		{code: rollout.LintDependencyCycle, why: "who waits has nothing to get, so the others go ahead", rules: lintImmediate, fleet: func(s *rollout.Snapshot) {
			for i := range s.Versions {
				if v := &s.Versions[i]; v.Deployment == "web" && v.ID == "v2" {
					v.Status = rollout.VersionPaused
				}
			}
		}, more: other("q", "true", lintDependsOn(`"dependsOn":"deployment.name == 'db' && version.tag == 'v2'","appliesTo":"deployment.name == 'web'"`))},
		{code: rollout.LintDependencyCycle, why: "who waits has nothing to get before its next release, and the others might go ahead until then", rules: lintImmediate, fleet: lintRelease("web", "v2", t0.Add(time.Hour)),
			more: other("q", "true", lintDependsOn(`"dependsOn":"deployment.name == 'db' && version.tag == 'v2'","appliesTo":"deployment.name == 'web'"`)), want: "warning [1].rules[0].deploymentDependency.dependsOn 2"},
		{code: rollout.LintDependencyCycle, why: "a group that was locked between the two releases brings one without the other", rules: lintMains, fleet: lintRelease("db", "v2", t0.Add(-time.Minute)),
			more: other("q", "true", lintDependsOn(`"dependsOn":"deployment.name == 'db' && version.tag == 'v2'","appliesTo":"deployment.name == 'web'"`)), want: "warning [1].rules[0].deploymentDependency.dependsOn 2"},
		{code: rollout.LintDependencyCycle, why: "who waits was released first, and is part of every group", rules: lintMains, fleet: lintRelease("web", "v2", t0.Add(-time.Minute)),
			more: other("q", "true", lintDependsOn(`"dependsOn":"deployment.name == 'db' && version.tag == 'v2'","appliesTo":"deployment.name == 'web'"`)), want: "error [1].rules[0].deploymentDependency.dependsOn 2"},
		{code: rollout.LintDependencyCycle, why: "a group that was locked before brings neither of them", rules: lintMains, fleet: lintRelease("cache", "v2", t0.Add(-time.Minute)),
			more: other("q", "true", lintDependsOn(`"dependsOn":"deployment.name == 'db' && version.tag == 'v2'","appliesTo":"deployment.name == 'web'"`)), want: "error [1].rules[0].deploymentDependency.dependsOn 2"},
		{code: rollout.LintDependencyCycle, why: "a group of others, locked before, brings the hook", rules: strings.Replace(lintMains, "{}", `{"pre":"deployment.name == 'db'"}`, 1), fleet: lintRelease("cache", "v2", t0.Add(-time.Minute)),
			more: other("q", "true", lintDependsOn(`"dependsOn":"deployment.name == 'db' && version.tag == 'v2'","appliesTo":"deployment.name == 'web'"`)), want: "warning [1].rules[0].deploymentDependency.dependsOn 2"},
		{code: rollout.LintDependencyCycle, why: "its next release is not within the horizon", rules: lintImmediate, fleet: lintRelease("web", "v2", t0.Add(time.Hour)), horizon: time.Hour,
			more: other("q", "true", lintDependsOn(`"dependsOn":"deployment.name == 'db' && version.tag == 'v2'","appliesTo":"deployment.name == 'web'"`))},
		{code: rollout.LintDependencyCycle, why: "cache and db would wait for each other, if web did not do for cache, which is seen later", fleet: lintWithGPU,
			rules: lintDependsOn(`"dependsOn":"deployment.name in ['db', 'web'] && version.tag == 'v2'","appliesTo":"deployment.name == 'cache'"`) +
				`,{"id":"e","deploymentDependency":{"dependsOn":"deployment.name == 'cache' && version.tag == 'v2'","appliesTo":"deployment.name == 'db'"}}` +
				`,{"id":"f","deploymentDependency":{"dependsOn":"deployment.name == 'gpu' && version.tag == 'v2'","appliesTo":"deployment.name == 'web' && resource.name == 'r1'"}}`},
		{code: rollout.LintDependencyCycle, why: "cache waits for a circle and is in none", want: "error rules[0].deploymentDependency.dependsOn 4",
			rules: lintDependsOn(`"dependsOn":"deployment.name == 'db' && version.tag == 'v2'","appliesTo":"deployment.name in ['cache', 'web']"`) + `,{"id":"e","deploymentDependency":{"dependsOn":"deployment.name == 'web' && version.tag == 'v2'","appliesTo":"deployment.name == 'db'"}}`},
		{code: rollout.LintDependencyCycle, why: "versions need each other", rules: lintLimited(`"limit":1`), fleet: func(s *rollout.Snapshot) {
			for i := range s.Versions {
				if v := &s.Versions[i]; v.ID == "v2" && v.Deployment == "web" {
					v.Dependencies = []rollout.VersionDependency{{Deployment: "db", VersionSelector: "version.tag == 'v2'"}}
				} else if v.ID == "v2" && v.Deployment == "db" {
					v.Dependencies = []rollout.VersionDependency{{Deployment: "web", VersionSelector: "version.tag == 'v2'"}}
				}
			}
		}, want: "error versions[db@v2].dependencies 0"},
		{code: rollout.LintDependencyUnmatched, why: "nobody has this name", rules: lintDependsOn(`"dependsOn":"deployment.name == 'queue'"`), want: "error rules[0].deploymentDependency.dependsOn 6"},
		{code: rollout.LintDependencyUnmatched, why: "there is no db on r2", rules: lintDependsOn(`"dependsOn":"deployment.name == 'db'","appliesTo":"deployment.name == 'web'"`), fleet: lintLacking("db", "r2"), want: "error rules[0].deploymentDependency.dependsOn 1"},
		{code: rollout.LintDependencyUnmatched, why: "there is one", rules: lintDependsOn(`"dependsOn":"deployment.name == 'db'","appliesTo":"deployment.name == 'web'"`)},
		{code: rollout.LintDependencyUnmatched, why: "itself does not count", rules: lintDependsOn(`"dependsOn":"deployment.name == 'web'","appliesTo":"deployment.name == 'web'"`), want: "error rules[0].deploymentDependency.dependsOn 2"},
		{code: rollout.LintDependencyUnmatched, why: "there is no v3 of db yet", rules: lintDependsOn(`"dependsOn":"deployment.name == 'db' && version.tag == 'v3'","appliesTo":"deployment.name == 'web'"`), want: "warning rules[0].deploymentDependency.dependsOn 2"},
		{code: rollout.LintDependencyUnmatched, why: "db may still get v2", rules: lintDependsOn(`"dependsOn":"deployment.name == 'db' && version.tag == 'v2'","appliesTo":"deployment.name == 'web'"`)},
		{code: rollout.LintDependencyUnmatched, why: "db runs v2 only in staging", rules: lintDependsOn(`"dependsOn":"deployment.name == 'queue'","appliesTo":"deployment.name == 'web'","anyEnvironment":true`), fleet: lintWithStaging, want: "error rules[0].deploymentDependency.dependsOn 4"},
		{code: rollout.LintDependencyUnmatched, why: "db is on the resource in another environment alone", rules: lintDependsOn(`"dependsOn":"deployment.name == 'db'","appliesTo":"deployment.name == 'web'"`), want: "error rules[0].deploymentDependency.dependsOn 2",
			says: "with a target on the same resource in the same environment: nothing newer ever starts there; correct the expression, set anyEnvironment if one in another environment will do", fleet: lintDatabaseElsewhere},
		{code: rollout.LintDependencyUnmatched, why: "db in another environment will do", rules: lintDependsOn(`"dependsOn":"deployment.name == 'db'","appliesTo":"deployment.name == 'web'","anyEnvironment":true`), fleet: lintDatabaseElsewhere},
		{code: rollout.LintDependencyUnmatched, why: "no environment has the deployment", rules: lintDependsOn(`"dependsOn":"deployment.name == 'queue'","appliesTo":"deployment.name == 'web'","anyEnvironment":true`), want: "error rules[0].deploymentDependency.dependsOn 2",
			says: "with a target on the same resource: nothing newer ever starts there; correct the expression, or leave"},
		{code: rollout.LintDependencyUnmatched, why: "the version depends on a deployment that is on the resource in another environment alone", rules: lintLimited(`"limit":1`), want: "error versions[web@v2].dependencies[0].deployment 2",
			says: `"db" has no target on the same resource in the same environment`, fleet: func(s *rollout.Snapshot) {
				lintNeeds("db", "true")(s)
				lintDatabaseElsewhere(s)
			}},
		{code: rollout.LintDependencyUnmatched, why: "the version depends on a deployment that is not on the resource", rules: lintLimited(`"limit":1`), fleet: func(s *rollout.Snapshot) {
			lintLacking("db", "r2")(s)
			for i := range s.Versions {
				if v := &s.Versions[i]; v.ID == "v2" && v.Deployment == "web" {
					v.Dependencies = []rollout.VersionDependency{{Deployment: "db", VersionSelector: "true"}}
				}
			}
		}, want: "error versions[web@v2].dependencies[0].deployment 1"},
		{code: rollout.LintDependencyUnmatched, why: "the version depends on one of db that does not exist", rules: lintLimited(`"limit":1`), fleet: lintNeeds("db", "version.tag == 'v3'"),
			want: "warning versions[web@v2].dependencies[0].versionSelector 2", says: "no version of db that is deployed, or may be, satisfies it"},
		{code: rollout.LintDependencyUnmatched, why: "a version that is withdrawn waits for nothing any more", rules: lintLimited(`"limit":1`), fleet: func(s *rollout.Snapshot) {
			lintNeeds("db", "version.tag == 'v3'")(s)
			lintStatus("withdrawn", "web")(s)
		}},
		{code: rollout.LintDependencyUnmatched, why: "nor does one that is paused before anybody has it", rules: lintLimited(`"limit":1`), fleet: func(s *rollout.Snapshot) {
			lintNeeds("db", "version.tag == 'v3'")(s)
			lintStatus(rollout.VersionPaused, "web")(s)
		}},
		{code: rollout.LintDependencyUnmatched, why: "of db there is a v2 to come", rules: lintLimited(`"limit":1`), fleet: lintNeeds("db", "version.tag == 'v2'")},
		{code: rollout.LintDependencyUnmatched, why: "db runs the v1 that it depends on", rules: lintLimited(`"limit":1`), fleet: lintNeeds("db", "version.tag == 'v1'")},
		{code: rollout.LintDependencyUnmatched, why: "the v2 of db that it depends on is refused", rules: `{"id":"v","versionSelector":{"selector":"deployment.name != 'db' || version.tag != 'v2'"}}`, fleet: lintNeeds("db", "version.tag == 'v2'"),
			want: "warning versions[web@v2].dependencies[0].versionSelector 2", says: "no version of db that is deployed, or may be, satisfies it"},
		{code: rollout.LintDependencyUnmatched, why: "the v2 of db that it depends on is withdrawn", rules: lintLimited(`"limit":1`), want: "warning versions[web@v2].dependencies[0].versionSelector 2", fleet: func(s *rollout.Snapshot) {
			lintNeeds("db", "version.tag == 'v2'")(s)
			for i := range s.Versions {
				if v := &s.Versions[i]; v.Deployment == "db" && v.ID == "v2" {
					v.Status = "withdrawn"
				}
			}
		}},
		{code: rollout.LintDependencyUnmatched, why: "its own execution brings another one of db", rules: lintMains, fleet: lintNeeds("db", "version.tag == 'v1'"),
			want: "warning versions[web@v2].dependencies[0].versionSelector 2", says: "brings one of db that does not satisfy it"},
		{code: rollout.LintDependencyUnmatched, why: "the other one of db is not for r2", rules: lintMains, want: "warning versions[web@v2].dependencies[0].versionSelector 1", fleet: func(s *rollout.Snapshot) {
			lintNeeds("db", "version.tag == 'v1'")(s)
			for i := range s.Versions {
				if v := &s.Versions[i]; v.Deployment == "db" && v.ID == "v2" {
					v.TargetSelector = "resource.id == 'r1'"
				}
			}
		}},
		{code: rollout.LintDependencyUnmatched, why: "the other one of db is not released yet", rules: lintMains, fleet: func(s *rollout.Snapshot) {
			lintNeeds("db", "version.tag == 'v1'")(s)
			lintRelease("db", "v2", t0.Add(time.Hour))(s)
		}},
		{code: rollout.LintDependencyUnmatched, why: "db is in no bracket", rules: strings.Replace(lintMains, `"true"`, `"deployment.name != 'db'"`, 1), fleet: lintNeeds("db", "version.tag == 'v1'")},
		{code: rollout.LintDependencyUnmatched, why: "a newer version of web depends on nothing", rules: lintMains, fleet: func(s *rollout.Snapshot) {
			lintNeeds("db", "version.tag == 'v1'")(s)
			s.Versions = append(s.Versions, rollout.Version{ID: "v3", Tag: "v3", Deployment: "web", Status: rollout.VersionReady, CreatedAt: t0})
		}},
		{code: rollout.LintDependencyUnmatched, why: "what a version needs before it must be older: it does not satisfy itself", rules: lintLimited(`"limit":1`), want: "warning versions[web@v3].dependencies[0].versionSelector 2", says: "no version of web that is deployed, or may be, satisfies it",
			fleet: func(s *rollout.Snapshot) { lintAfter("version.tag != 'v1'")(s); lintBuilding("web")(s) }},
		{code: rollout.LintDependencyUnmatched, why: "v2 comes first, and then v3", rules: lintLimited(`"limit":1`), fleet: lintAfter("version.tag == 'v2'")},
		{code: rollout.LintDependencyUnmatched, why: "a bracket brings v3 at once", rules: lintMains, fleet: lintAfter("version.tag == 'v2'"), want: "warning versions[web@v3].dependencies[0].versionSelector 2", says: "brings none of web before it that satisfies it"},
		{code: rollout.LintDependencyUnmatched, why: "v3 is paused until v2 is there", rules: lintMains, fleet: func(s *rollout.Snapshot) {
			lintAfter("version.tag == 'v2'")(s)
			s.Versions[len(s.Versions)-1].Status = rollout.VersionPaused
		}, want: ""},
		{code: rollout.LintDependencyUnmatched, why: "web runs what v3 needs before it", rules: lintMains, fleet: lintAfter("version.tag == 'v1'")},
		{code: rollout.LintDependencyUnmatched, why: "r1 runs nothing that v3 could come after", rules: lintMains, want: "warning versions[web@v3].dependencies[0].versionSelector 1", fleet: func(s *rollout.Snapshot) {
			lintAfter("true")(s)
			for i := range s.Targets {
				if t := &s.Targets[i]; t.Resource == "r1" && t.Deployment == "web" {
					t.Current = ""
				}
			}
		}},
		{code: rollout.LintDependencyUnmatched, why: "v2 is on its way", rules: lintMains, fleet: func(s *rollout.Snapshot) { lintAfter("version.tag == 'v2'")(s); lintStarted("web", "v2")(s) }},
		{code: rollout.LintDependencyUnmatched, why: "what it depends on does not compile", rules: lintLimited(`"limit":1`), fleet: lintNeeds("db", "version.tag = 'v2'"), want: "warning versions[web@v2].dependencies[0].versionSelector 2"},
		{code: rollout.LintDependencyUnmatched, why: "a version that nobody is to get depends on what it likes", rules: lintLimited(`"limit":1`), fleet: func(s *rollout.Snapshot) {
			lintNeeds("db", "version.tag == 'v3'")(s)
			lintScoped("resource.name == 'r3'")(s)
		}},
		{code: rollout.LintDependencyUnmatched, why: "members of a bracket that are ordered by it wait for nobody", rules: lintImmediate + "," + lintDependsOn(`"dependsOn":"deployment.name == 'db'","appliesTo":"deployment.name == 'web'"`)},
		{code: rollout.LintDependencyAcrossRoles, why: "the drain needs what it drains for", rules: lintImmediate + "," + lintDependsOn(`"dependsOn":"deployment.name == 'web'","appliesTo":"deployment.name == 'db'"`), want: "error rules[1].deploymentDependency.dependsOn 2", says: `leave "db" out with appliesTo, or take it out of memberRoles.pre`},
		{code: rollout.LintDependencyAcrossRoles, why: "a main needs the hook that runs after it", rules: lintImmediate + "," + lintDependsOn(`"dependsOn":"deployment.name == 'cache'","appliesTo":"deployment.name == 'web'"`), want: "error rules[1].deploymentDependency.dependsOn 2", says: `leave "web" out with appliesTo, or take "cache" out of memberRoles.post`},
		{code: rollout.LintDependencyAcrossRoles, why: "the drain needs the hook that runs last", rules: lintImmediate + "," + lintDependsOn(`"dependsOn":"deployment.name == 'cache'","appliesTo":"deployment.name == 'db'"`), want: "error rules[1].deploymentDependency.dependsOn 2", says: `leave "db" out with appliesTo, or declare it post in memberRoles`},
		{code: rollout.LintDependencyAcrossRoles, why: "the main needs the drain anyway", rules: lintImmediate + "," + lintDependsOn(`"dependsOn":"deployment.name == 'db'","appliesTo":"deployment.name == 'web'"`)},
		{code: rollout.LintAppliesToUnmatched, why: "nobody is called queue", rules: lintDependsOn(`"dependsOn":"deployment.name == 'db'","appliesTo":"deployment.name == 'queue'"`), want: "warning rules[0].deploymentDependency.appliesTo 0"},
		{code: rollout.LintAppliesToUnmatched, why: "one is called web", rules: lintDependsOn(`"dependsOn":"deployment.name == 'db'","appliesTo":"deployment.name == 'web'"`)},
		{code: rollout.LintAppliesToUnmatched, why: "an order inside a bracket concerns somebody", rules: lintImmediate + "," + lintDependsOn(`"dependsOn":"deployment.name == 'db'","appliesTo":"deployment.name == 'web'"`)},
		{code: rollout.LintProgressionCycle, why: "prod waits for staging and staging for prod", fleet: lintWithStaging, want: "error [0].rules[0].environmentProgression.dependsOnEnvironmentSelector 12",
			more: other("p", "environment.name == 'prod'", lintProgression("x", lintStaging, "")) + "," + other("q", "environment.name == 'staging'", lintProgression("y", `"environment.name == 'prod'"`, ""))},
		{code: rollout.LintProgressionCycle, why: "or for one without targets, which proves nothing", want: "error [0].rules[0].environmentProgression.dependsOnEnvironmentSelector 12", fleet: func(s *rollout.Snapshot) { lintWithStaging(s); lintWithQA(s) },
			more: other("p", "environment.name == 'prod'", lintProgression("x", `"environment.name in ['qa', 'staging']"`, "")) + "," + other("q", "environment.name == 'staging'", lintProgression("y", `"environment.name == 'prod'"`, ""))},
		{code: rollout.LintProgressionCycle, why: "or for one without targets alone", fleet: func(s *rollout.Snapshot) { lintWithStaging(s); lintWithQA(s) },
			more: other("p", "environment.name == 'prod'", lintProgression("x", `"environment.name == 'qa'"`, "")) + "," + other("q", "environment.name == 'staging'", lintProgression("y", `"environment.name == 'prod'"`, ""))},
		{code: rollout.LintProgressionCycle, why: "prod waits for staging", fleet: lintWithStaging, more: other("p", "environment.name == 'prod'", lintProgression("x", lintStaging, ""))},
		{code: rollout.LintProgressionCycle, why: "half of staging is free to begin", fleet: lintWithStaging,
			more: other("p", "environment.name == 'prod'", lintProgression("x", lintStaging, `,"minimumSuccessPercentage":50`)) + "," + other("q", "environment.name == 'staging' && resource.name == 'r1'", lintProgression("y", `"environment.name == 'prod'"`, ""))},
		{code: rollout.LintProgressionCycle, why: "half is not all", fleet: lintWithStaging, want: "error [0].rules[0].environmentProgression.dependsOnEnvironmentSelector 9",
			more: other("p", "environment.name == 'prod'", lintProgression("x", lintStaging, `,"minimumSuccessPercentage":51`)) + "," + other("q", "environment.name == 'staging' && resource.name == 'r1'", lintProgression("y", `"environment.name == 'prod'"`, ""))},
		{code: rollout.LintProgressionCycle, why: "whoever waits for a victim is no circle", fleet: lintWithStaging, rules: lintProgression("x", lintStaging, "")},
		{code: rollout.LintProgressionNoEnvironment, why: "there is no qa", rules: lintProgression("x", `"environment.name == 'qa'"`, ""), want: "error rules[0].environmentProgression.dependsOnEnvironmentSelector 6"},
		{code: rollout.LintProgressionNoEnvironment, why: "staging has none before it", rules: lintProgression("x", lintStaging, ""), fleet: lintWithStaging, want: "error rules[0].environmentProgression.dependsOnEnvironmentSelector 6"},
		{code: rollout.LintProgressionNoEnvironment, why: "staging is left out", more: other("p", "environment.name == 'prod'", lintProgression("x", lintStaging, "")), fleet: lintWithStaging},
		{code: rollout.LintDeadlineBelowSoak, why: "too old after an hour, soaks for one", fleet: lintWithStaging, more: other("p", "environment.name == 'prod'", lintProgression("x", lintStaging, `,"minimumSoakTimeMinutes":60,"maximumAgeHours":1`)),
			want: "error rules[0].environmentProgression.maximumAgeHours 6"},
		{code: rollout.LintDeadlineBelowSoak, why: "another rule soaks for as long as this one lets it be young", fleet: lintWithStaging, want: "error [0].rules[0].environmentProgression.maximumAgeHours 6",
			more: other("p", "environment.name == 'prod'", lintProgression("x", lintStaging, `,"maximumAgeHours":1`)) + "," + other("q", "environment.name == 'prod'", lintProgression("y", lintStaging, `,"minimumSoakTimeMinutes":60`))},
		{code: rollout.LintDeadlineBelowSoak, why: "another rule soaks in another environment", fleet: func(s *rollout.Snapshot) { *s = inEnvironments(*s, "staging", "qa") },
			more: other("p", "environment.name == 'prod'", lintProgression("x", lintStaging, `,"maximumAgeHours":1`)) + "," + other("q", "environment.name == 'prod'", lintProgression("y", `"environment.name == 'qa'"`, `,"minimumSoakTimeMinutes":60`))},
		{code: rollout.LintDeadlineBelowSoak, why: "a minute is left", fleet: lintWithStaging, more: other("p", "environment.name == 'prod'", lintProgression("x", lintStaging, `,"minimumSoakTimeMinutes":59,"maximumAgeHours":1`))},
		{code: rollout.LintDeadlineBelowSoak, why: "a second target may come later", fleet: lintWithStaging, more: other("p", "environment.name == 'prod'", lintProgression("x", lintStaging, `,"minimumSoakTimeMinutes":60,"maximumAgeHours":1,"minimumSuccessPercentage":50`)),
			want: "warning rules[0].environmentProgression.maximumAgeHours 6"},
		{code: rollout.LintDeadlineBelowSoak, why: "a bracket runs what does not change again, and the new success is younger", want: "warning [0].rules[0].environmentProgression.maximumAgeHours 6", fleet: lintWithStaging,
			more: other("p", "environment.name == 'prod'", lintProgression("a", lintStaging, `,"minimumSoakTimeMinutes":120,"maximumAgeHours":1`)) + "," +
				other("q", "environment.name == 'staging'", `{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","unchangedMemberStrategy":"redeploy_current","memberRoles":{}}}`)},
		{code: rollout.LintDeadlineBelowSoak, why: "a bracket runs its hook again, and leaves its main members as they are", want: "error [0].rules[0].environmentProgression.maximumAgeHours 2", fleet: lintWithStaging,
			more: other("p", "environment.name == 'prod' && deployment.name == 'web'", lintProgression("a", lintStaging, `,"minimumSoakTimeMinutes":120,"maximumAgeHours":1`)) + "," +
				other("q", "environment.name == 'staging'", lintImmediate)},
		{code: rollout.LintDeadlineBelowSoak, why: "the hook has a younger success each time", want: "warning [0].rules[0].environmentProgression.maximumAgeHours 2", fleet: lintWithStaging,
			more: other("p", "environment.name == 'prod' && deployment.name == 'db'", lintProgression("a", lintStaging, `,"minimumSoakTimeMinutes":120,"maximumAgeHours":1`)) + "," +
				other("q", "environment.name == 'staging'", lintImmediate)},
		{code: rollout.LintDeadlineBelowCurve, why: "two turns in an hour, and too old after it", fleet: lintWithStaging, want: "warning rules[0].environmentProgression.maximumAgeHours 6", says: "a rollout to 2 takes 1h under \"g\", and begins with the success",
			more: other("p", "environment.name == 'prod'", lintProgression("x", lintStaging, `,"maximumAgeHours":1`)+","+curve(3600, ""))},
		{code: rollout.LintDeadlineBelowCurve, why: "the last turn comes a second before", fleet: lintWithStaging, more: other("p", "environment.name == 'prod'", lintProgression("x", lintStaging, `,"maximumAgeHours":1`)+","+curve(3599, ""))},
		{code: rollout.LintDeadlineBelowCurve, why: "and a minute of soak makes it too late", fleet: lintWithStaging, want: "warning rules[0].environmentProgression.maximumAgeHours 6",
			more: other("p", "environment.name == 'prod'", lintProgression("x", lintStaging, `,"minimumSoakTimeMinutes":1,"maximumAgeHours":1`)+","+curve(3599, ""))},
		{code: rollout.LintDeadlineBelowCurve, why: "a soak that is as long is another finding", fleet: lintWithStaging, more: other("p", "environment.name == 'prod'", lintProgression("x", lintStaging, `,"minimumSoakTimeMinutes":60,"maximumAgeHours":1`)+","+curve(3600, ""))},
		{code: rollout.LintDeadlineBelowCurve, why: "no age is too old", fleet: lintWithStaging, more: other("p", "environment.name == 'prod'", lintProgression("x", lintStaging, "")+","+curve(3600, ""))},
		{code: rollout.LintDeadlineBelowCurve, why: "the curve is for others than the progression", fleet: lintWithStaging,
			more: other("p", "environment.name == 'prod' && deployment.name == 'web'", lintProgression("x", lintStaging, `,"maximumAgeHours":1`)) + "," + other("q", "environment.name == 'prod' && deployment.name == 'db'", curve(3600, ""))},
		{code: rollout.LintDeadlineBelowCurve, why: "the curve is for one of three deployments", fleet: lintWithStaging, want: "warning [0].rules[0].environmentProgression.maximumAgeHours 2",
			more: other("p", "environment.name == 'prod'", lintProgression("x", lintStaging, `,"maximumAgeHours":1`)) + "," + other("q", "environment.name == 'prod' && deployment.name == 'web'", curve(3600, ""))},
		{code: rollout.LintDeadlineBelowCurve, why: "there is no environment to prove anything", more: other("p", "environment.name == 'prod'", lintProgression("x", `"environment.name == 'qa'"`, `,"maximumAgeHours":1`)+","+curve(3600, ""))},
		{code: rollout.LintDeadlineBelowCurve, why: "there is nobody in it", fleet: lintWithQA, more: other("p", "environment.name == 'prod'", lintProgression("x", `"environment.name == 'qa'"`, `,"maximumAgeHours":1`)+","+curve(3600, ""))},
		{code: rollout.LintDeadlineBelowCurve, why: "the curve of three never ends, which is another finding; those of two do", fleet: lintThird, want: "warning rules[0].environmentProgression.maximumAgeHours 4", more: other("p", "environment.name == 'prod'", lintProgression("x", lintStaging, `,"maximumAgeHours":1`)+","+curve(9_000_000_000, ""))},
		{code: rollout.LintDeadlineBelowCurve, why: "no age is too old, whether the curve ends or not", fleet: lintThird, more: other("p", "environment.name == 'prod'", lintProgression("x", lintStaging, "")+","+curve(9_000_000_000, ""))},
		{code: rollout.LintDeadlineBelowCurve, why: "the members of a bracket are asked until they begin, too", fleet: lintWithStaging, want: "warning rules[0].environmentProgression.maximumAgeHours 6",
			more: other("p", "environment.name == 'prod'", lintProgression("x", lintStaging, `,"maximumAgeHours":1`)+","+curve(3600, "")+","+lintMains)},
		{code: rollout.LintProgressionUnreachable, why: "staging was adopted with the version that prod is to get, and no job says that it succeeded", more: lintProves(""), want: "warning rules[0].environmentProgression.dependsOnEnvironmentSelector 2",
			says:  "web v1 does not get to prod: of 2 targets in staging 2 must have succeeded, and at most 0 can; 2 run it and no job says that it succeeded",
			fleet: lintAdopted(nil)},
		{code: rollout.LintProgressionUnreachable, why: "an environment without targets beside it proves nothing", more: lintProgressive(`"environment.name in ['qa', 'staging']"`), want: "warning rules[0].environmentProgression.dependsOnEnvironmentSelector 2",
			says: "web v1 does not get to prod: of 2 targets in staging", fleet: func(s *rollout.Snapshot) { lintAdopted(nil)(s); lintWithQA(s) }},
		{code: rollout.LintProgressionUnreachable, why: "nor does one where the version is for no target", more: lintProgressive(`"environment.name in ['qa', 'staging']"`), want: "warning rules[0].environmentProgression.dependsOnEnvironmentSelector 2",
			says: "web v1 does not get to prod: of 2 targets in staging", fleet: func(s *rollout.Snapshot) {
				lintAdopted(nil)(s)
				lintWithQA(s)
				s.Targets = append(s.Targets, rollout.Target{TargetID: rollout.TargetID{Resource: "r1", Environment: "qa", Deployment: "web"}, Current: "v0"})
				for k := range s.Versions {
					if v := &s.Versions[k]; v.Deployment == "web" && v.TargetSelector == "" {
						v.TargetSelector = "environment.name != 'qa'"
					}
				}
			}},
		{code: rollout.LintProgressionWithoutProof, why: "nothing is deployed to qa", more: lintProgressive(`"environment.name == 'qa'"`), fleet: lintWithQA, want: "info rules[0].environmentProgression.dependsOnEnvironmentSelector 2"},
		{code: rollout.LintProgressionWithoutProof, why: "but to staging", more: lintProgressive(`"environment.name in ['qa', 'staging']"`), fleet: func(s *rollout.Snapshot) { lintWithStaging(s); lintWithQA(s) }},
		{code: rollout.LintProgressionWithoutProof, why: "of one deployment", more: other("p", "environment.name == 'prod'", lintProgression("a", lintStaging, "")), want: "info rules[0].environmentProgression.dependsOnEnvironmentSelector 2", fleet: func(s *rollout.Snapshot) {
			lintWithStaging(s)
			s.Targets = slices.DeleteFunc(s.Targets, func(t rollout.Target) bool { return t.Environment == "staging" && t.Deployment == "web" })
		}},
		{code: rollout.LintProgressionUnverified, why: "jobs in staging are verified, and it does not ask for that", more: lintProves(""), fleet: lintAdopted(lintVerified), want: "warning rules[0].environmentProgression.requireVerificationPassed 2"},
		{code: rollout.LintProgressionUnverified, why: "it asks for that", more: lintProves(`,"requireVerificationPassed":true`), fleet: lintAdopted(lintVerified)},
		{code: rollout.LintProgressionUnverified, why: "nothing is verified", more: lintProves(""), fleet: lintAdopted(func(s *rollout.Snapshot, t *rollout.Target) { lintSucceeded(t, "v1", t0.Add(-time.Hour)) })},
		{code: rollout.LintProgressionUnverified, why: "nothing is in staging, but in prod", more: lintProves(""), fleet: func(s *rollout.Snapshot) {
			lintWithStaging(s)
			lintVerified(s, &s.Targets[slices.IndexFunc(s.Targets, func(t rollout.Target) bool { return t.Environment == "prod" && t.Deployment == "web" })])
		}},
		{code: rollout.LintProgressionUnreachable, why: "the job that brought it is on record", more: lintProves(""), fleet: lintAdopted(func(s *rollout.Snapshot, t *rollout.Target) { lintSucceeded(t, "v1", t0.Add(-time.Hour)) })},
		{code: rollout.LintProgressionUnreachable, why: "of one of two", more: lintProves(""), want: "warning rules[0].environmentProgression.dependsOnEnvironmentSelector 2", says: "at most 1 can; 1 run it",
			fleet: lintAdopted(func(s *rollout.Snapshot, t *rollout.Target) {
				if t.Resource == "r1" {
					lintSucceeded(t, "v1", t0.Add(-time.Hour))
				}
			})},
		{code: rollout.LintProgressionUnreachable, why: "one of two is enough", more: lintProves(`,"minimumSuccessPercentage":50`), fleet: lintAdopted(func(s *rollout.Snapshot, t *rollout.Target) {
			if t.Resource == "r1" {
				lintSucceeded(t, "v1", t0.Add(-time.Hour))
			}
		})},
		{code: rollout.LintProgressionUnreachable, why: "it succeeded, and its checks have not passed", more: lintProves(`,"requireVerificationPassed":true`), want: "warning rules[0].environmentProgression.dependsOnEnvironmentSelector 2",
			fleet: lintAdopted(func(s *rollout.Snapshot, t *rollout.Target) {
				lintSucceeded(t, "v1", t0.Add(-time.Hour))
				t.Jobs[0].Verification = rollout.VerificationFailed
			})},
		{code: rollout.LintProgressionUnreachable, why: "its checks are neither over nor of a state that is known", more: lintProves(`,"requireVerificationPassed":true`), fleet: lintAdopted(func(s *rollout.Snapshot, t *rollout.Target) {
			lintSucceeded(t, "v1", t0.Add(-time.Hour))
			t.Jobs[0].Verification = "canary"
		})},
		{code: rollout.LintProgressionUnreachable, why: "a job that failed is not verified", more: lintProves(`,"requireVerificationPassed":true`), want: "warning rules[0].environmentProgression.dependsOnEnvironmentSelector 2",
			fleet: lintAdopted(func(s *rollout.Snapshot, t *rollout.Target) {
				lintSucceeded(t, "v1", t0.Add(-time.Hour))
				t.Jobs[0].Status = rollout.JobFailure
			})},
		{code: rollout.LintProgressionUnreachable, why: "its checks are not over", more: lintProves(`,"requireVerificationPassed":true`), fleet: lintAdopted(func(s *rollout.Snapshot, t *rollout.Target) {
			lintSucceeded(t, "v1", t0.Add(-time.Hour))
			t.Jobs[0].Verification = rollout.VerificationRunning
		})},
		{code: rollout.LintProgressionUnreachable, why: "nor have they begun", more: lintProves(`,"requireVerificationPassed":true`), fleet: lintAdopted(func(s *rollout.Snapshot, t *rollout.Target) {
			lintSucceeded(t, "v1", t0.Add(-time.Hour))
		})},
		{code: rollout.LintProgressionUnreachable, why: "it is being run again", more: lintProves(""), fleet: lintAdopted(func(s *rollout.Snapshot, t *rollout.Target) {
			t.Jobs = []rollout.Job{{Run: "1", Version: "v1", Status: rollout.JobInProgress, CreatedAt: t0.Add(-time.Hour)}}
		})},
		{code: rollout.LintProgressionUnreachable, why: "it is to be run again, because something changed", more: lintProves(""), fleet: lintAdopted(func(s *rollout.Snapshot, t *rollout.Target) { t.OutdatedAt = t0 })},
		{code: rollout.LintProgressionUnreachable, why: "a bracket will run it again", fleet: lintAdopted(nil),
			more: lintProves("") + "," + other("q", "environment.name == 'staging'", `{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","unchangedMemberStrategy":"redeploy_current","memberRoles":{}}}`)},
		{code: rollout.LintProgressionUnreachable, why: "a bracket that leaves it as it is will not", fleet: lintAdopted(nil), want: "warning [0].rules[0].environmentProgression.dependsOnEnvironmentSelector 2",
			more: lintProves("") + "," + other("q", "environment.name == 'staging'", `{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}}`)},
		{code: rollout.LintProgressionUnreachable, why: "it succeeded two hours ago, which is too long", more: lintProves(`,"maximumAgeHours":2`), want: "warning rules[0].environmentProgression.dependsOnEnvironmentSelector 2",
			says:  "web v1 does not get to prod: its newest success in staging is older than maximumAgeHours 2",
			fleet: lintAdopted(func(s *rollout.Snapshot, t *rollout.Target) { lintSucceeded(t, "v1", t0.Add(-2*time.Hour)) })},
		{code: rollout.LintProgressionUnreachable, why: "a second less is not", more: lintProves(`,"maximumAgeHours":2`), fleet: lintAdopted(func(s *rollout.Snapshot, t *rollout.Target) {
			lintSucceeded(t, "v1", t0.Add(-2*time.Hour+time.Second))
		})},
		{code: rollout.LintProgressionUnreachable, why: "the other one is to get it, and will be younger", more: lintProves(`,"maximumAgeHours":2,"minimumSuccessPercentage":50`), fleet: lintAdopted(func(s *rollout.Snapshot, t *rollout.Target) {
			if t.Current = ""; t.Resource == "r1" {
				lintSucceeded(t, "v1", t0.Add(-2*time.Hour))
			}
		})},
		{code: rollout.LintProgressionUnreachable, why: "staging went on to what prod may not have", want: "warning rules[0].environmentProgression.dependsOnEnvironmentSelector 2", says: "at most 0 can; 2 went on to a newer version",
			more: lintProves(""), fleet: lintAdopted(func(s *rollout.Snapshot, t *rollout.Target) {
				t.Current = "v2"
				lintScoped("environment.name == 'staging'")(s)
			})},
		{code: rollout.LintProgressionUnreachable, why: "staging failed with it, and is not tried again", want: "warning rules[0].environmentProgression.dependsOnEnvironmentSelector 2", says: "at most 0 can; 2 failed for good",
			more: lintProves(""), fleet: lintAdopted(func(s *rollout.Snapshot, t *rollout.Target) {
				lintSucceeded(t, "v1", t0.Add(-time.Hour))
				t.Current, t.Jobs[0].Status = "", rollout.JobFailure
			})},
		{code: rollout.LintProgressionUnreachable, why: "staging failed with it when it ran it once more, and the first success may still be verified", more: lintProves(`,"requireVerificationPassed":true`),
			fleet: lintAdopted(func(s *rollout.Snapshot, t *rollout.Target) {
				lintSucceeded(t, "v1", t0.Add(-time.Hour))
				t.Jobs = append(t.Jobs, rollout.Job{Run: "2", Version: "v1", Status: rollout.JobFailure, CreatedAt: t0.Add(-time.Minute)})
				t.Current, t.OutdatedAt = "", t0.Add(-2*time.Minute)
			})},
		{code: rollout.LintProgressionUnreachable, why: "staging went on before its success was verified, which may still come", more: lintProves(`,"requireVerificationPassed":true`),
			fleet: lintAdopted(func(s *rollout.Snapshot, t *rollout.Target) {
				lintSucceeded(t, "v1", t0.Add(-time.Hour))
				t.Current = "v2"
				lintScoped("environment.name == 'staging'")(s)
			})},
		{code: rollout.LintProgressionUnreachable, why: "staging goes back to it from what failed", more: lintProves("") + "," + other("q", "environment.name == 'staging'", `{"id":"k","rollback":{"onJobStatuses":["failure"]}}`),
			fleet: lintAdopted(func(s *rollout.Snapshot, t *rollout.Target) {
				lintSucceeded(t, "v2", t0.Add(-time.Hour))
				t.Current, t.Jobs[0].Status = "v1", rollout.JobFailure
				lintScoped("environment.name == 'staging'")(s)
			})},
		{code: rollout.LintProgressionUnreachable, why: "staging takes it back", more: lintProves("") + "," + other("q", "environment.name == 'staging'", retry(`"maxRetries":1`)+`,{"id":"k","rollback":{"onJobStatuses":["failure"]}}`),
			want: "warning [0].rules[0].environmentProgression.dependsOnEnvironmentSelector 2", says: "at most 1 can; 1 failed for good",
			fleet: lintAdopted(func(s *rollout.Snapshot, t *rollout.Target) {
				if lintSucceeded(t, "v1", t0.Add(-time.Hour)); t.Resource == "r1" {
					t.Current, t.Jobs[0].Status = "", rollout.JobFailure
				}
			})},
		{code: rollout.LintProgressionUnreachable, why: "staging is refused it", want: "warning [0].rules[0].environmentProgression.dependsOnEnvironmentSelector 2", says: "at most 0 can; for 2 a version selector is in the way",
			more: lintProves("") + "," + other("q", "environment.name == 'staging'", `{"id":"v","versionSelector":{"selector":"version.tag != 'v2'"}}`), fleet: lintWithStaging},
		{code: rollout.LintProgressionUnreachable, why: "it speaks of the target that it shows, the first by its resource", want: "warning [0].rules[0].environmentProgression.dependsOnEnvironmentSelector 3", says: "web v2 does not get to prod",
			more: other("p", "environment.name == 'prod' && deployment.name != 'cache'", lintProgression("a", lintStaging, "")) + "," + other("q", "environment.name == 'staging'", `{"id":"v","versionSelector":{"selector":"version.tag != 'v2'"}}`),
			fleet: func(s *rollout.Snapshot) {
				lintWithStaging(s)
				s.Targets = slices.DeleteFunc(s.Targets, func(t rollout.Target) bool {
					return t.TargetID == rollout.TargetID{Resource: "r1", Environment: "prod", Deployment: "db"}
				})
			}},
		{code: rollout.LintProgressionUnreachable, why: "an override lets it past the selector there", fleet: func(s *rollout.Snapshot) {
			lintWithStaging(s)
			s.Overrides = []rollout.Override{{ID: "1", Rule: "v", Version: "v2", CreatedAt: t0.Add(-time.Hour), CreatedBy: "ann", Reason: "urgent"}}
		}, more: lintProves("") + "," + other("q", "environment.name == 'staging'", `{"id":"v","versionSelector":{"selector":"version.tag != 'v2'"}}`)},
		{code: rollout.LintProgressionUnreachable, why: "or past the progression", fleet: func(s *rollout.Snapshot) {
			lintWithStaging(s)
			s.Overrides = []rollout.Override{{ID: "1", Rule: "a", Version: "v2", CreatedAt: t0.Add(-time.Hour), CreatedBy: "ann", Reason: "urgent"}}
		}, more: lintProves("") + "," + other("q", "environment.name == 'staging'", `{"id":"v","versionSelector":{"selector":"version.tag != 'v2'"}}`)},
		{code: rollout.LintProgressionUnreachable, why: "it is not meant for staging, so that nothing is to be proved there", more: lintProves(""), fleet: func(s *rollout.Snapshot) {
			lintWithStaging(s)
			lintScoped("environment.name == 'prod'")(s)
		}},
		{code: rollout.LintProgressionUnreachable, why: "staging and prod are to get it", more: lintProves(""), fleet: lintWithStaging},
		{code: rollout.LintProgressionUnreachable, why: "prod may not have it either", fleet: lintWithStaging, more: other("p", "deployment.name == 'web' && environment.name == 'prod'", lintProgression("a", lintStaging, "")+`,{"id":"w","versionSelector":{"selector":"version.tag != 'v2'"}}`) + "," +
			other("q", "environment.name == 'staging'", `{"id":"v","versionSelector":{"selector":"version.tag != 'v2'"}}`)},
		{code: rollout.LintProgressionUnreachable, why: "it can be proved in canary", more: other("p", "deployment.name == 'web' && environment.name == 'prod'", lintProgression("a", `"environment.name != 'prod'"`, "")), fleet: func(s *rollout.Snapshot) {
			*s = inEnvironments(*s, "staging", "canary")
			for i := range s.Targets {
				if s.Targets[i].Environment != "staging" {
					s.Targets[i].Current = ""
				}
			}
			lintScoped("resource.name == 'r9'")(s)
		}},
		{code: rollout.LintApprovalUnreachable, why: "three of two", rules: `{"id":"a","anyApproval":{"minApprovals":3}}`, options: rollout.LintOptions{Approvers: []string{"ann", "bob", "ann"}}, want: "error rules[0].anyApproval.minApprovals 6"},
		{code: rollout.LintApprovalUnreachable, why: "two of two", rules: `{"id":"a","anyApproval":{"minApprovals":2}}`, options: rollout.LintOptions{Approvers: []string{"ann", "bob", "ann"}}},
		{code: rollout.LintApprovalUnreachable, why: "nobody knows who may approve", rules: `{"id":"a","anyApproval":{"minApprovals":3}}`},
		{code: rollout.LintApprovalUnreachable, why: "nobody may", rules: `{"id":"a","anyApproval":{"minApprovals":1}}`, options: rollout.LintOptions{Approvers: []string{}}, want: "error rules[0].anyApproval.minApprovals 6"},

		// Brackets.
		{code: rollout.LintBracketNoMain, why: "nothing but hooks", rules: `{"id":"b","deploymentBracket":{"deploymentSelector":"deployment.name in ['db', 'cache']","readinessMode":"immediate",` + lintHooks + `}}`, want: "error rules[0].deploymentBracket.memberRoles 4"},
		{code: rollout.LintBracketNoMain, why: "web is main", rules: lintImmediate},
		{code: rollout.LintBracketHookWithoutVersion, why: "the drain was never released", rules: lintImmediate, want: "error rules[0].deploymentBracket 2", fleet: func(s *rollout.Snapshot) {
			lintEmpty(s, "db")
			s.Versions = slices.DeleteFunc(s.Versions, func(v rollout.Version) bool { return v.Deployment == "db" })
		}},
		{code: rollout.LintBracketHookWithoutVersion, why: "its versions are not ready", rules: lintImmediate, want: "error rules[0].deploymentBracket 2", fleet: func(s *rollout.Snapshot) {
			lintEmpty(s, "db")
			for i := range s.Versions {
				if s.Versions[i].Deployment == "db" {
					s.Versions[i].Status = rollout.VersionPaused
				}
			}
		}},
		{code: rollout.LintBracketHookWithoutVersion, why: "one of them is for r2 only", rules: lintImmediate, want: "error rules[0].deploymentBracket 1", fleet: func(s *rollout.Snapshot) {
			lintEmpty(s, "db")
			for i := range s.Versions {
				if s.Versions[i].Deployment == "db" {
					s.Versions[i].TargetSelector = "resource.name == 'r2'"
				}
			}
		}},
		{code: rollout.LintBracketHookWithoutVersion, why: "a version selector refuses them all", rules: lintImmediate + `,{"id":"v","versionSelector":{"selector":"deployment.name != 'db'"}}`, want: "error rules[0].deploymentBracket 2",
			fleet: func(s *rollout.Snapshot) { lintEmpty(s, "db") }},
		{code: rollout.LintBracketHookWithoutVersion, why: "it has one to begin with", rules: lintImmediate, fleet: func(s *rollout.Snapshot) { lintEmpty(s, "db") }},
		{code: rollout.LintBracketHookWithoutVersion, why: "it runs one", rules: lintImmediate, fleet: func(s *rollout.Snapshot) {
			for i := range s.Versions {
				if s.Versions[i].Deployment == "db" {
					s.Versions[i].Status = "withdrawn"
				}
			}
		}},
		{code: rollout.LintBracketOverlapping, why: "web is in two brackets", rules: lintImmediate, more: other("q", "true", `{"id":"z","deploymentBracket":{"deploymentSelector":"deployment.name == 'web'","readinessMode":"immediate"}}`),
			want: "error [1].rules[0].deploymentBracket.deploymentSelector 2"},
		{code: rollout.LintBracketOverlapping, why: "each has a resource of its own", more: other("p", "resource.name == 'r1'", lintImmediate) + "," + other("q", "resource.name == 'r2'", `{"id":"z","deploymentBracket":{"deploymentSelector":"deployment.name == 'web'","readinessMode":"immediate"}}`)},
		// rancher/system-upgrade-controller#225: two plans drain, upgrade and uncordon one node at once.
		{code: rollout.LintBracketsSideBySide, fleet: lintHooked, why: "the drain of one, and the uncordon of the other", rules: hooked("b", "pre", "db"), more: other("q", "true", hooked("z", "post", "cache")), want: "info [1].rules[0].deploymentBracket.deploymentSelector 0",
			says: `it has hooks on 2 resources where "b" has hooks too, such as r1`},
		{code: rollout.LintBracketsSideBySide, fleet: lintHooked, why: "the uncordon of one, and the drain of the other", rules: hooked("b", "post", "db"), more: other("q", "true", hooked("z", "pre", "cache")), want: "info [1].rules[0].deploymentBracket.deploymentSelector 0"},
		{code: rollout.LintBracketsSideBySide, why: "of three the first that it meets is told", rules: hooked("b", "pre", "db"), more: other("q", "true", hooked("y", "pre", "web")) + "," + other("s", "true", hooked("z", "post", "cache")), want: "info [2].rules[0].deploymentBracket.deploymentSelector 0", says: `where "b" has hooks too`, fleet: lintHooked},
		{code: rollout.LintBracketsSideBySide, fleet: lintHooked, why: "one at a time", rules: hooked("b", "pre", "db") + `,{"id":"c","resourceConcurrency":{"groupSelector":"true","limit":2,"exclusive":true}}`, more: other("q", "true", hooked("z", "post", "cache"))},
		{code: rollout.LintBracketsSideBySide, fleet: lintHooked, why: "one at a time, by rules of both that share a pool", more: other("p", "deployment.name != 'cache'", hooked("b", "pre", "db")+`,{"id":"c","resourceConcurrency":{"groupSelector":"true","limit":2,"exclusive":true,"sharedPool":"s"}}`) +
			"," + other("q", "deployment.name == 'cache' || deployment.name == 'main-cache'", hooked("z", "post", "cache")+`,{"id":"d","resourceConcurrency":{"groupSelector":"true","limit":2,"exclusive":true,"sharedPool":"s"}}`)},
		{code: rollout.LintBracketsSideBySide, fleet: lintHooked, why: "each has a pool of its own", more: other("p", "deployment.name != 'cache' && deployment.name != 'main-cache'", hooked("b", "pre", "db")+`,{"id":"c","resourceConcurrency":{"groupSelector":"true","limit":2,"exclusive":true}}`) +
			"," + other("q", "deployment.name == 'cache' || deployment.name == 'main-cache'", hooked("z", "post", "cache")+`,{"id":"d","resourceConcurrency":{"groupSelector":"true","limit":2,"exclusive":true}}`), want: "info [1].rules[0].deploymentBracket.deploymentSelector 0"},
		{code: rollout.LintBracketsSideBySide, fleet: lintHooked, why: "two on a node have one slot", rules: hooked("b", "pre", "db") + `,{"id":"c","resourceConcurrency":{"groupSelector":"true","limit":2}}`, more: other("q", "true", hooked("z", "post", "cache")), want: "info [1].rules[0].deploymentBracket.deploymentSelector 0"},
		{code: rollout.LintBracketsSideBySide, fleet: lintHooked, why: "one at a time on r1", rules: hooked("b", "pre", "db") + `,{"id":"c","resourceConcurrency":{"groupSelector":"resource.name == 'r1'","limit":2,"exclusive":true}}`, more: other("q", "true", hooked("z", "post", "cache")),
			want: "info [1].rules[0].deploymentBracket.deploymentSelector 0", says: "on 1 resource where \"b\" has hooks too, such as r2"},
		{code: rollout.LintBracketsSideBySide, fleet: lintHooked, why: "the first of three is kept apart, and the second is told", more: other("p", "deployment.name != 'web' && deployment.name != 'main-web'", hooked("b", "pre", "db")+`,{"id":"c","resourceConcurrency":{"groupSelector":"true","limit":2,"exclusive":true}}`) +
			"," + other("q", "true", hooked("y", "pre", "web")) + "," + other("s", "true", hooked("z", "post", "cache")), want: "info [2].rules[0].deploymentBracket.deploymentSelector 0", says: `where "y" has hooks too`},
		{code: rollout.LintBracketsSideBySide, why: "both have a drain alone", rules: hooked("b", "pre", "db"), more: other("q", "true", hooked("z", "pre", "cache")), fleet: lintHooked},
		{code: rollout.LintBracketsSideBySide, fleet: lintHooked, why: "each has a node of its own", more: other("p", "resource.name == 'r1'", hooked("b", "pre", "db")) + "," + other("q", "resource.name == 'r2'", hooked("z", "post", "cache"))},
		{code: rollout.LintBracketsSideBySide, fleet: lintHooked, why: "they meet on one of two nodes", rules: hooked("b", "pre", "db"), more: other("q", "resource.name == 'r2'", hooked("z", "post", "cache")), want: "info [1].rules[0].deploymentBracket.deploymentSelector 0", says: "on 1 resource where \"b\" has hooks too, such as r2"},
		{code: rollout.LintBracketsSideBySide, why: "hooks without a main member do nothing", rules: hooked("b", "pre", "db"), more: other("q", "true", hooked("z", "post", "cache")), fleet: func(s *rollout.Snapshot) {
			lintHooked(s)
			s.Targets = slices.DeleteFunc(s.Targets, func(t rollout.Target) bool { return t.Deployment == "main-db" && t.Resource == "r1" })
		}, want: "info [1].rules[0].deploymentBracket.deploymentSelector 0", says: "on 1 resource where \"b\" has hooks too, such as r2"},
		{code: rollout.LintBracketsSideBySide, why: "it meets another one on each of two nodes, and the first of the two is told", more: other("p", "resource.name == 'r2'", hooked("b", "pre", "db")) + "," + other("q", "resource.name == 'r1'", hooked("y", "pre", "web")) + "," + other("s", "true", hooked("z", "post", "cache")),
			fleet: lintHooked, want: "info [2].rules[0].deploymentBracket.deploymentSelector 0", says: "on 1 resource where \"b\" has hooks too, such as r2"},
		{code: rollout.LintBracketsSideBySide, why: "one bracket in two environments is at work in one at a time", rules: lintImmediate, fleet: lintWithStaging},
		{code: rollout.LintBracketsSideBySide, why: "one of them has no hooks", rules: lintDBAlone, more: other("q", "deployment.name == 'web'", strings.Replace(lintMains, `"b"`, `"z"`, 1))},
		{code: rollout.LintImmediateStarves, why: "an hour between releases, an hour to the last turn", rules: lintImmediate + "," + curve(3600, `,"orderKey":"resource_bracket"`), fleet: lintReleased(hour, hour, hour), want: "warning rules[1].gradualRollout.orderSalt 0"},
		{code: rollout.LintImmediateStarves, why: "ranked by resource it is the same", rules: lintImmediate + "," + curve(3600, `,"orderKey":"resource"`), fleet: lintReleased(hour, hour, hour), want: "warning rules[1].gradualRollout.orderSalt 0"},
		{code: rollout.LintImmediateStarves, why: "a second less", rules: lintImmediate + "," + curve(3599, `,"orderKey":"resource_bracket"`), fleet: lintReleased(hour, hour, hour)},
		{code: rollout.LintImmediateStarves, why: "others are last each time", rules: lintImmediate + "," + curve(3600, `,"orderKey":"resource_bracket","orderSalt":"group"`), fleet: lintReleased(hour, hour, hour)},
		{code: rollout.LintImmediateStarves, why: "what is released for another environment alone opens no group here", rules: lintImmediate + "," + curve(3600, `,"orderKey":"resource_bracket"`), fleet: func(s *rollout.Snapshot) {
			lintReleased(hour, hour, hour)(s)
			for n := range s.Versions {
				if s.Versions[n].Deployment == "web" {
					s.Versions[n].TargetSelector = "environment.id == 'staging'"
				}
			}
		}},
		{code: rollout.LintImmediateStarves, why: "what is released for the resources in turn opens groups for both", rules: lintImmediate + "," + curve(3600, `,"orderKey":"resource_bracket"`), fleet: lintReleasedInTurn(hour, hour, hour), want: "warning rules[1].gradualRollout.orderSalt 0"},
		{code: rollout.LintImmediateStarves, why: "two releases are no habit", rules: lintImmediate + "," + curve(3600, `,"orderKey":"resource_bracket"`), fleet: lintReleased(hour)},
		{code: rollout.LintImmediateStarves, why: "one of two begins in an hour", rules: lintImmediate + "," + lintLimited(`"limit":2,"rate":{"limit":1,"periodSeconds":3600}`), fleet: lintReleased(hour, hour, hour), want: "warning rules[1].resourceConcurrency.rate 0",
			says: `releases come every 1h or faster and the bracket "b" closes one at once, but of 2 resources 1 may begin every 1h: the last ones are superseded each time`},
		{code: rollout.LintImmediateStarves, why: "a second less, and at times both begin between two releases", rules: lintImmediate + "," + lintLimited(`"limit":2,"rate":{"limit":1,"periodSeconds":3599}`), fleet: lintReleased(hour, hour, hour)},
		{code: rollout.LintImmediateStarves, why: "both begin at once, however late", rules: lintImmediate + "," + lintLimited(`"limit":2,"rate":{"limit":2,"periodSeconds":36000}`), fleet: lintReleased(hour, hour, hour)},
		{code: rollout.LintImmediateStarves, why: "a rate that amounts to nothing is another finding", rules: lintImmediate + "," + lintLimited(`"limit":2,"rounding":"floor","rate":{"limit":"20%","periodSeconds":3600}`), fleet: lintReleased(hour, hour, hour)},
		{code: rollout.LintImmediateStarves, why: "one of the two is no member, and the other begins", rules: lintImmediate + `,{"id":"c","resourceConcurrency":{"groupSelector":"resource.name == 'r1'","limit":1,"rate":{"limit":1,"periodSeconds":3600}}}`, fleet: lintReleased(hour, hour, hour)},
		{code: rollout.LintImmediateStarves, why: "each has a rate of its own", rules: lintImmediate + "," + lintLimited(`"limit":2,"groupBy":"resource.name","rate":{"limit":1,"periodSeconds":3600}`), fleet: lintReleased(hour, hour, hour)},
		{code: rollout.LintImmediateStarves, why: "others are last each time, for the rate as well", rules: lintImmediate + "," + lintLimited(`"limit":2,"rate":{"limit":1,"periodSeconds":3600}`) + "," + curve(0, `,"orderKey":"resource_bracket","orderSalt":"group"`), fleet: lintReleased(hour, hour, hour)},
		{code: rollout.LintImmediateStarves, why: "the rate is that of another policy's targets", rules: lintImmediate, more: other("q", "environment.name == 'nowhere'", lintLimited(`"limit":2,"rate":{"limit":1,"periodSeconds":3600}`)), fleet: lintReleased(hour, hour, hour)},
		{code: rollout.LintOrderStarves, why: "collected for an hour, while one of two begins in it", want: "warning rules[1].resourceConcurrency.rate 0", fleet: lintReleased(hour, hour, hour),
			rules: `{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessWindowSeconds":3600,` + lintHooks + `}},` + lintLimited(`"limit":2,"rate":{"limit":1,"periodSeconds":3600}`)},
		{code: rollout.LintOrderStarves, why: "collected for two hours", fleet: lintReleased(hour, hour, hour),
			rules: `{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessWindowSeconds":7200,` + lintHooks + `}},` + lintLimited(`"limit":2,"rate":{"limit":1,"periodSeconds":3600}`)},
		{code: rollout.LintOrderStarves, why: "a window of half an hour and an hour of curve", want: "warning rules[1].gradualRollout.orderSalt 0", fleet: lintReleased(hour, hour, hour),
			rules: `{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessWindowSeconds":1800,` + lintHooks + `}},` + curve(3600, `,"orderKey":"resource_bracket"`)},
		{code: rollout.LintOrderStarves, why: "a window that keeps groups two hours apart", fleet: lintReleased(hour, hour, hour),
			rules: `{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessWindowSeconds":7200,` + lintHooks + `}},` + curve(3600, `,"orderKey":"resource_bracket"`)},
		{code: rollout.LintHoldWithoutRetry, why: "one failure and nobody tries again", rules: lintImmediate, want: "warning rules[0].deploymentBracket.onMemberFailure 6"},
		{code: rollout.LintHoldWithoutRetry, why: "another policy retries", rules: lintImmediate, more: other("q", "true", retry(`"maxRetries":1`))},
		{code: rollout.LintHoldWithoutRetry, why: "no retry is none, and a further rule would not help", rules: lintImmediate + "," + retry(`"maxRetries":0`), want: "warning rules[0].deploymentBracket.onMemberFailure 6", says: "be at least 1, since the fewest retries count"},
		{code: rollout.LintHoldWithoutRetry, why: "it ends by itself", rules: `{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","onMemberFailure":"run_post",` + lintHooks + `}}`},
		{code: rollout.LintRollbackWithHold, why: "the rule says back, the bracket says hold", rules: lintImmediate + `,{"id":"r","rollback":{"onJobStatuses":["failure"]}}`, want: "warning rules[1].rollback 6"},
		{code: rollout.LintRollbackWithHold, why: "the bracket rolls back", rules: `{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","rollbackStrategy":"all_members",` + lintHooks + `}},{"id":"r","rollback":{"onJobStatuses":["failure"]}}`},
		{code: rollout.LintRollbackWithHold, why: "outside brackets it does", rules: `{"id":"r","rollback":{"onJobStatuses":["failure"]}}`},
		{code: rollout.LintRollbackBeforeRetry, why: "another rule keeps everything from being tried again", rules: `{"id":"k","rollback":{"onJobStatuses":["failure"]}},` + retry(`"maxRetries":2`) + `,{"id":"t","retry":{"maxRetries":0}}`},
		{code: rollout.LintRollbackBeforeRetry, why: "what failed is taken back, not tried again", rules: `{"id":"back","rollback":{"onJobStatuses":["cancelled","failure"]}},` + retry(`"maxRetries":2`), want: "warning rules[0].rollback.onJobStatuses 6"},
		{code: rollout.LintRollbackBeforeRetry, why: "by the rule of another policy", rules: `{"id":"back","rollback":{"onJobStatuses":["failure"]}}`, more: other("q", "deployment.name == 'web'", retry(`"maxRetries":2`)), want: "warning [0].rules[0].rollback.onJobStatuses 2"},
		{code: rollout.LintRollbackBeforeRetry, why: "it tries again what nothing takes back", rules: `{"id":"back","rollback":{"onJobStatuses":["failure"]}},` + retry(`"maxRetries":2,"retryOnStatuses":["externalRunNotFound"]`)},
		{code: rollout.LintRollbackBeforeRetry, why: "a job that was cancelled is no attempt", rules: `{"id":"back","rollback":{"onJobStatuses":["cancelled"]}},` + retry(`"maxRetries":2`)},
		{code: rollout.LintRollbackBeforeRetry, why: "no retry is none", rules: `{"id":"back","rollback":{"onJobStatuses":["failure"]}},` + retry(`"maxRetries":0`)},
		{code: rollout.LintRollbackBeforeRetry, why: "a failed verification is no failed job", rules: `{"id":"back","rollback":{"onVerificationFailure":true}},` + retry(`"maxRetries":2`)},
		{code: rollout.LintRollbackBeforeRetry, why: "nor does a bracket", rules: `{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","rollbackStrategy":"all_members",` + lintHooks + `}},{"id":"back","rollback":{"onJobStatuses":["failure"]}},` + retry(`"maxRetries":2`), want: "warning rules[1].rollback.onJobStatuses 6"},
		{code: rollout.LintRetryWithoutEnd, why: "three failures are no attempts", rules: retry(`"maxRetries":2,"retryOnStatuses":["failure"]`), want: "warning rules[0].retry.retryOnStatuses 6",
			says: "ends as invalidJobAgent, invalidIntegration, externalRunNotFound is no attempt by any rule"},
		{code: rollout.LintRetryWithoutEnd, why: "every failure is one", rules: retry(`"maxRetries":2`)},
		{code: rollout.LintRetryWithoutEnd, why: "every failure is one, and so is what was called off", rules: retry(`"maxRetries":0,"retryOnStatuses":["failure","cancelled","skipped","invalidJobAgent","invalidIntegration","externalRunNotFound"]`)},
		{code: rollout.LintRetryWithoutEnd, why: "no further attempt is allowed, and yet what is not counted is repeated", rules: retry(`"maxRetries":0,"retryOnStatuses":["cancelled","skipped"]`), want: "warning rules[0].retry.retryOnStatuses 6", says: "ends as failure, invalidJobAgent"},
		{code: rollout.LintRetryWithoutEnd, why: "another rule counts every failure", rules: retry(`"maxRetries":0,"retryOnStatuses":["cancelled"]`) + `,{"id":"t","retry":{"maxRetries":2}}`},
		{code: rollout.LintRetryWithoutEnd, why: "on two targets of six another one does", rules: retry(`"maxRetries":0,"retryOnStatuses":["cancelled"]`), more: other("q", "deployment.name == 'web'", `{"id":"t","retry":{"maxRetries":2}}`), want: "warning [0].rules[0].retry.retryOnStatuses 4"},
		{code: rollout.LintRetryWithoutEnd, why: "what is left out takes the target back", rules: `{"id":"back","rollback":{"onJobStatuses":["invalidJobAgent","invalidIntegration","externalRunNotFound"]}},` + retry(`"maxRetries":2,"retryOnStatuses":["failure"]`)},
		{code: rollout.LintRetryWithoutEnd, why: "in a bracket what is no attempt has failed for good", rules: lintImmediate + "," + retry(`"maxRetries":2,"retryOnStatuses":["failure"]`)},
		{code: rollout.LintRetryWithoutEnd, why: "without a retry rule nothing is repeated", rules: `{"id":"back","rollback":{"onVersionStatuses":["rejected"]}}`},
		{code: rollout.LintRollbackWithoutBudget, why: "no budget governs them", rules: `{"id":"back","rollback":{"onFailureBudget":true}}`, want: "warning rules[0].rollback.onFailureBudget 6"},
		{code: rollout.LintRollbackWithoutBudget, why: "one governs a deployment of three", rules: `{"id":"back","rollback":{"onFailureBudget":true}}`, more: other("q", "deployment.name == 'web'", `{"id":"f","failureBudget":{"maxFailures":0}}`), want: "warning [0].rules[0].rollback.onFailureBudget 4"},
		{code: rollout.LintRollbackWithoutBudget, why: "one governs all", rules: `{"id":"back","rollback":{"onFailureBudget":true}},{"id":"f","failureBudget":{"maxFailures":0}}`},
		{code: rollout.LintRollbackWithoutBudget, why: "the rule asks for none", rules: `{"id":"back","rollback":{"onVersionStatuses":["rejected"]}}`},
		{code: rollout.LintRollbackSparesMembers, why: "all are members", rules: lintImmediate + `,{"id":"back","rollback":{"onVersionStatuses":["rejected"]}}`, want: "info rules[1].rollback 6"},
		{code: rollout.LintRollbackSparesMembers, why: "by the budget, for one of three deployments", rules: lintImmediate, more: other("q", "deployment.name == 'web'", `{"id":"back","rollback":{"onFailureBudget":true}}`), want: "info [1].rules[0].rollback 2"},
		{code: rollout.LintRollbackSparesMembers, why: "what failed on one of them is its bracket's", rules: lintImmediate + `,{"id":"back","rollback":{"onJobStatuses":["failure"]}}`},
		{code: rollout.LintRollbackSparesMembers, why: "there is no bracket", rules: `{"id":"back","rollback":{"onVersionStatuses":["rejected"]}}`},
		{code: rollout.LintStuckBeforeRetry, why: "ten minutes until the retry, five until it is stuck", rules: lintLimited(`"limit":1,"stuckAfterSeconds":300`) + "," + retry(`"maxRetries":2,"backoffSeconds":600`) + "," + lintMains, want: "info rules[0].resourceConcurrency.stuckAfterSeconds 0"},
		{code: rollout.LintStuckBeforeRetry, why: "and then it is quarantined", rules: lintLimited(`"limit":1,"stuckAfterSeconds":300,"onStuck":"quarantine"`) + "," + retry(`"maxRetries":2,"backoffSeconds":600`) + "," + lintMains, want: "warning rules[0].resourceConcurrency.stuckAfterSeconds 0"},
		{code: rollout.LintStuckBeforeRetry, why: "the third delay is the one that is too long", rules: lintLimited(`"limit":1,"stuckAfterSeconds":300`) + "," + retry(`"maxRetries":3,"backoffSeconds":75,"backoffStrategy":"exponential"`) + "," + lintMains, want: "info rules[0].resourceConcurrency.stuckAfterSeconds 0"},
		{code: rollout.LintStuckBeforeRetry, why: "there is no third", rules: lintLimited(`"limit":1,"stuckAfterSeconds":300`) + "," + retry(`"maxRetries":2,"backoffSeconds":75,"backoffStrategy":"exponential"`) + "," + lintMains},
		{code: rollout.LintStuckBeforeRetry, why: "another rule allows fewer attempts, so that the long delay never comes", rules: lintLimited(`"limit":1,"stuckAfterSeconds":300`) + "," +
			retry(`"maxRetries":9,"backoffSeconds":75,"backoffStrategy":"exponential"`) + `,{"id":"t","retry":{"maxRetries":2}},` + lintMains},
		{code: rollout.LintStuckBeforeRetry, why: "nothing is ever stuck", rules: lintLimited(`"limit":1`) + "," + retry(`"maxRetries":2,"backoffSeconds":600`) + "," + lintMains},
		{code: rollout.LintFailureBudgetUnreachable, why: "each deployment has two targets", rules: `{"id":"f","failureBudget":{"maxFailures":2}},` + curve(60, ""), want: "warning rules[0].failureBudget.maxFailures 6", says: "it is 2, and no deployment has more than 2 targets"},
		{code: rollout.LintFailureBudgetUnreachable, why: "one of them may fail", rules: `{"id":"f","failureBudget":{"maxFailures":1}},` + curve(60, "")},
		{code: rollout.LintFailureBudgetUnreachable, why: "all may", rules: `{"id":"f","failureBudget":{"maxFailures":"100%"}},` + curve(60, ""), want: "warning rules[0].failureBudget.maxFailures 6"},
		{code: rollout.LintFailureBudgetUnreachable, why: "nearly all may", rules: `{"id":"f","failureBudget":{"maxFailures":"99%"}},` + curve(60, "")},
		{code: rollout.LintFailureBudgetUnreachable, why: "each environment has two", rules: `{"id":"f","failureBudget":{"maxFailures":2}},` + curve(60, ""), fleet: lintWithStaging, want: "warning rules[0].failureBudget.maxFailures 12"},
		{code: rollout.LintFailureBudgetUnreachable, why: "together they have four", rules: `{"id":"f","failureBudget":{"maxFailures":2,"anyEnvironment":true}},` + curve(60, ""), fleet: lintWithStaging},
		{code: rollout.LintFailureBudgetUnreachable, why: "one deployment has enough", rules: `{"id":"f","failureBudget":{"maxFailures":1}},` + curve(60, ""), fleet: lintLacking("web", "r2")},
		{code: rollout.LintFailureBudgetUnreachable, why: "a rate of all", rules: `{"id":"f","failureBudget":{"maxFailureRate":"100%","minimumSample":1}},` + curve(60, ""), want: "warning rules[0].failureBudget.maxFailureRate 6", says: "it is 100%: it never holds anything"},
		{code: rollout.LintFailureBudgetUnreachable, why: "nearly all", rules: `{"id":"f","failureBudget":{"maxFailureRate":"99%","minimumSample":2}},` + curve(60, "")},
		{code: rollout.LintFailureBudgetUnreachable, why: "a sample that is never there", rules: `{"id":"f","failureBudget":{"maxFailureRate":"10%","minimumSample":3}},` + curve(60, ""), want: "warning rules[0].failureBudget.minimumSample 6", says: "it is 3, and no deployment has more than 2 targets: the rate never counts"},
		{code: rollout.LintFailureBudgetUnreachable, why: "together there are enough", rules: `{"id":"f","failureBudget":{"maxFailureRate":"10%","minimumSample":3,"anyEnvironment":true}},` + curve(60, ""), fleet: lintWithStaging},
		{code: rollout.LintFailureBudgetUnreachable, why: "the number holds, and the rate never does", rules: `{"id":"f","failureBudget":{"maxFailures":1,"maxFailureRate":"10%","minimumSample":3}},` + curve(60, ""), want: "warning rules[0].failureBudget.minimumSample 6"},
		{code: rollout.LintFailureBudgetUnreachable, why: "the rate holds, and the number never does", rules: `{"id":"f","failureBudget":{"maxFailures":2,"maxFailureRate":"10%","minimumSample":2}},` + curve(60, ""), want: "warning rules[0].failureBudget.maxFailures 6"},
		{code: rollout.LintFailureBudgetMissing, why: "windows alone, which open for all at once", rules: lintWeekly(""), fleet: lintNodes(3), want: "info rules 9"},
		{code: rollout.LintFailureBudgetMissing, why: "a curve goes on after each failure", rules: curve(60, ""), fleet: lintNodes(3), want: "info rules[0].gradualRollout 9"},
		{code: rollout.LintFailureBudgetMissing, why: "a curve of nothing is none", rules: curve(0, ""), fleet: lintNodes(3), want: "info rules 9"},
		{code: rollout.LintFailureBudgetMissing, why: "a job that has failed gives its slot back", rules: lintLimited(`"limit":1`), fleet: lintNodes(3), want: "info rules[0].resourceConcurrency 9"},
		{code: rollout.LintFailureBudgetMissing, why: "of both, the curve is named", rules: lintLimited(`"limit":1`) + "," + curve(60, ""), fleet: lintNodes(3), want: "info rules[1].gradualRollout 9"},
		{code: rollout.LintFailureBudgetMissing, why: "there is a budget", rules: `{"id":"f","failureBudget":{"maxFailures":0}},` + curve(60, ""), fleet: lintNodes(3)},
		{code: rollout.LintFailureBudgetMissing, why: "for one of three deployments", rules: curve(60, ""), more: other("q", "deployment.name == 'web'", `{"id":"f","failureBudget":{"maxFailures":0}}`), fleet: lintNodes(3), want: "info [0].rules[0].gradualRollout 6"},
		{code: rollout.LintFailureBudgetMissing, why: "of two targets the first that fails is half", rules: curve(60, "")},
		{code: rollout.LintFailureBudgetMissing, why: "a bracket that holds keeps its slots", rules: lintMains + "," + lintLimited(`"limit":1`), fleet: lintNodes(3)},
		{code: rollout.LintFailureBudgetMissing, why: "a curve goes on beside one that holds", rules: lintMains + "," + curve(60, `,"orderKey":"resource_bracket"`), fleet: lintNodes(3), want: "info rules[1].gradualRollout 9"},
		{code: rollout.LintFailureBudgetMissing, why: "one that does not hold gives its slots back", rules: strings.Replace(lintMains, `"memberRoles"`, `"onMemberFailure":"run_post","memberRoles"`, 1) + "," + lintLimited(`"limit":1`), fleet: lintNodes(3), want: "info rules[1].resourceConcurrency 9"},
		{code: rollout.LintFailureBudgetMissing, why: "web has to succeed in staging first", rules: curve(60, ""), more: other("q", "environment.name == 'prod' && deployment.name == 'web'", lintProgression("x", `"environment.name == 'staging'"`, "")),
			fleet: func(s *rollout.Snapshot) { lintNodes(3)(s); lintWithStaging(s) }, want: "info [0].rules[0].gradualRollout 12"},
		{code: rollout.LintFailureBudgetMissing, why: "one that goes back and then holds keeps them", rules: strings.Replace(lintMains, `"memberRoles"`, `"onMemberFailure":"rollback_member","memberRoles"`, 1) + "," + lintLimited(`"limit":1`), fleet: lintNodes(3)},
		{code: rollout.LintFailureBudgetMissing, why: "and gives them back with allowMixedPost", rules: strings.Replace(lintMains, `"memberRoles"`, `"onMemberFailure":"rollback_member","allowMixedPost":true,"memberRoles"`, 1) + "," + lintLimited(`"limit":1`), fleet: lintNodes(3), want: "info rules[1].resourceConcurrency 9"},
		{code: rollout.LintFailureBudgetMissing, why: "whom no policy governs has another finding", more: other("q", "deployment.name == 'web'", curve(60, "")), fleet: lintNodes(3), want: "info rules[0].gradualRollout 3"},
		{code: rollout.LintFailureBudgetUnpaced, why: "a rate comes too late as well", rules: `{"id":"f","failureBudget":{"maxFailureRate":"10%","minimumSample":1}}`, want: "warning rules[0].failureBudget 6"},
		{code: rollout.LintFailureBudgetUnpaced, why: "one that holds nothing anyway is said once", rules: `{"id":"f","failureBudget":{"maxFailureRate":"100%","minimumSample":1}}`},
		{code: rollout.LintFailureBudgetUnreachable, why: "it governs nobody yet", rules: `{"id":"f","failureBudget":{"maxFailures":0}}`, fleet: func(s *rollout.Snapshot) { s.Targets = nil }},
		{code: rollout.LintFailureBudgetUnpaced, why: "neither a curve nor a pool", rules: `{"id":"f","failureBudget":{"maxFailures":0}}`, want: "warning rules[0].failureBudget 6"},
		{code: rollout.LintFailureBudgetUnpaced, why: "a curve of nothing", rules: `{"id":"f","failureBudget":{"maxFailures":0}},` + curve(0, ""), want: "warning rules[0].failureBudget 6"},
		{code: rollout.LintFailureBudgetUnpaced, why: "a curve", rules: `{"id":"f","failureBudget":{"maxFailures":0}},` + curve(1, "")},
		{code: rollout.LintFailureBudgetUnpaced, why: "a pool", rules: `{"id":"f","failureBudget":{"maxFailures":0}},` + lintLimited(`"limit":1`)},
		{code: rollout.LintFailureBudgetUnpaced, why: "a first wave of all", rules: `{"id":"f","failureBudget":{"maxFailures":0}},{"id":"g","gradualRollout":{"rolloutType":"waves","timeScaleInterval":60,"waves":["100%"]}}`, want: "warning rules[0].failureBudget 6"},
		{code: rollout.LintFailureBudgetUnpaced, why: "a first wave of half", rules: `{"id":"f","failureBudget":{"maxFailures":0}},{"id":"g","gradualRollout":{"rolloutType":"waves","timeScaleInterval":60,"waves":["50%"]}}`},
		{code: rollout.LintFailureBudgetUnpaced, why: "a pool with room for all", rules: `{"id":"f","failureBudget":{"maxFailures":0}},` + lintLimited(`"limit":"100%"`), want: "warning rules[0].failureBudget 6"},
		{code: rollout.LintFailureBudgetUnpaced, why: "and a rate below that", rules: `{"id":"f","failureBudget":{"maxFailures":0}},` + lintLimited(`"limit":"100%","rate":{"limit":1,"periodSeconds":60}`)},
		{code: rollout.LintFailureBudgetUnpaced, why: "a pool for every resource", rules: `{"id":"f","failureBudget":{"maxFailures":0}},` + lintLimited(`"limit":1,"groupBy":"resource.name"`), want: "warning rules[0].failureBudget 6"},
		{code: rollout.LintFailureBudgetUnpaced, why: "of which one at a time is active", rules: `{"id":"f","failureBudget":{"maxFailures":0}},` + lintLimited(`"limit":1,"groupBy":"resource.name","maxActiveKeys":1`)},
		{code: rollout.LintFailureBudgetUnpaced, why: "a pool of other resources", rules: `{"id":"f","failureBudget":{"maxFailures":0}},{"id":"p","resourceConcurrency":{"groupSelector":"resource.kind == 'Gateway'","limit":1}}`, want: "warning rules[0].failureBudget 6"},
		{code: rollout.LintFailureBudgetUnpaced, why: "a pool for one of three", rules: `{"id":"f","failureBudget":{"maxFailures":0}}`, more: other("q", "deployment.name == 'web'", lintLimited(`"limit":1`)), want: "warning [0].rules[0].failureBudget 4"},
		{code: rollout.LintFailureBudgetUnpaced, why: "prod waits for staging, whose failures hold it", rules: `{"id":"f","failureBudget":{"maxFailures":0,"anyEnvironment":true}}`, fleet: lintWithStaging,
			more: other("q", "environment.name == 'prod'", lintProgression("x", `"environment.name == 'staging'"`, `,"minimumSuccessPercentage":50`))},
		{code: rollout.LintFailureBudgetUnpaced, why: "prod waits for a person, who has seen staging", rules: `{"id":"f","failureBudget":{"maxFailures":0,"anyEnvironment":true}}`, fleet: lintWithStaging,
			more: other("q", "environment.name == 'prod'", `{"id":"a","anyApproval":{"minApprovals":1}}`)},
		{code: rollout.LintFailureBudgetUnpaced, why: "web alone waits for staging", rules: `{"id":"f","failureBudget":{"maxFailures":0,"anyEnvironment":true}}`, fleet: lintWithStaging,
			more: other("q", "environment.name == 'prod' && deployment.name == 'web'", lintProgression("x", `"environment.name == 'staging'"`, "")), want: "warning [0].rules[0].failureBudget 8"},
		{code: rollout.LintFailureBudgetUnpaced, why: "no environment waits for another", rules: `{"id":"f","failureBudget":{"maxFailures":0,"anyEnvironment":true}}`, fleet: lintWithStaging, want: "warning rules[0].failureBudget 12"},
		{code: rollout.LintFailureBudgetUnpaced, why: "what fails in staging does not hold prod", rules: `{"id":"f","failureBudget":{"maxFailures":0}}`, fleet: lintWithStaging,
			more: other("q", "environment.name == 'prod'", lintProgression("x", `"environment.name == 'staging'"`, "")), want: "warning [0].rules[0].failureBudget 12"},
		{code: rollout.LintFailureBudgetUnpaced, why: "where there is one target there is nobody to hold", rules: `{"id":"f","failureBudget":{"maxFailures":0}}`, fleet: lintLacking("web", "r2"), want: "warning rules[0].failureBudget 4"},
		{code: rollout.LintFailureBudgetUnpaced, why: "that it holds nothing is told instead", rules: `{"id":"f","failureBudget":{"maxFailures":"100%"}}`},
		{code: rollout.LintBracketRolesDerived, why: "a chain of three has hooks at both ends", want: "warning rules[0].deploymentBracket.memberRoles 0",
			rules: `{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate"}},` + lintDependsOn(`"dependsOn":"deployment.name == 'db'","appliesTo":"deployment.name == 'web'"`) + `,{"id":"e","deploymentDependency":{"dependsOn":"deployment.name == 'web'","appliesTo":"deployment.name == 'cache'"}}`},
		{code: rollout.LintBracketRolesDerived, why: "the advice is an expression whatever the id", want: "warning rules[0].deploymentBracket.memberRoles 0",
			says: `write "memberRoles": {"pre":"deployment.id == 'd\\'b\\\\'","post":"deployment.id == 'cache'"}`, fleet: lintRenamed("db", `d'b\`),
			rules: `{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate"}},` + lintDependsOn(`"dependsOn":"deployment.name == 'db'","appliesTo":"deployment.name == 'web'"`) + `,{"id":"e","deploymentDependency":{"dependsOn":"deployment.name == 'web'","appliesTo":"deployment.name == 'cache'"}}`},
		{code: rollout.LintBracketRolesDerived, why: "without an order there are none, today", rules: `{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate"}}`, want: "info rules[0].deploymentBracket.memberRoles 0"},
		{code: rollout.LintBracketRolesDerived, why: "one more member without dependencies, and nothing is drained", want: "warning rules[0].deploymentBracket.memberRoles 0", says: "but for gpu,",
			rules: `{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate"}},` + lintDependsOn(`"dependsOn":"deployment.name == 'db'","appliesTo":"deployment.name == 'web'"`) + `,{"id":"e","deploymentDependency":{"dependsOn":"deployment.name == 'web'","appliesTo":"deployment.name == 'cache'"}}`,
			fleet: func(s *rollout.Snapshot) {
				s.Deployments = append(s.Deployments, rollout.Deployment{ID: "gpu", Name: "gpu"})
				s.Versions = append(s.Versions, rollout.Version{ID: "v1", Deployment: "gpu", Status: rollout.VersionReady, CreatedAt: t0})
				s.Targets = append(s.Targets, rollout.Target{TargetID: rollout.TargetID{Resource: "r1", Environment: "prod", Deployment: "gpu"}, Current: "v1"})
			}},
		{code: rollout.LintBracketRolesDerived, why: "two of three in an order make no hooks, whoever is beside them", want: "info rules[0].deploymentBracket.memberRoles 0",
			rules: `{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate"}},` + lintDependsOn(`"dependsOn":"deployment.name == 'db'","appliesTo":"deployment.name == 'web'"`)},
		{code: rollout.LintBracketRolesDerived, why: "they are written down", rules: lintImmediate},
		{code: rollout.LintMergeBudgetUnused, why: "an hour between groups, six minutes each, two at once", rules: merging("3600"), options: all(2 * minute), want: "info rules[0].deploymentBracket.overlapStrategy 0"},
		{code: rollout.LintMergeBudgetUnused, why: "one after the other it takes as long as the window", rules: merging("720") + "," + lintLimited(`"limit":1`), options: all(2 * minute), want: "info rules[0].deploymentBracket.overlapStrategy 0"},
		{code: rollout.LintMergeBudgetUnused, why: "a rate may keep a node waiting", rules: merging("720") + "," + lintLimited(`"limit":1,"rate":{"limit":1,"periodSeconds":3600}`), options: all(2 * minute)},
		{code: rollout.LintMergeBudgetUnused, why: "a second longer", rules: merging("719") + "," + lintLimited(`"limit":1`), options: all(2 * minute)},
		{code: rollout.LintMergeBudgetUnused, why: "a curve spreads them over an hour", rules: merging("3600") + "," + curve(3600, `,"orderKey":"resource_bracket"`), options: all(2 * minute)},
		{code: rollout.LintMergeBudgetUnused, why: "a curve of ten seconds, which ranks nobody in staging", rules: merging("3600"), more: other("q", "environment.name == 'prod'", curve(10, `,"orderKey":"resource"`)), fleet: lintWithStaging, options: all(2 * minute),
			want: "info [0].rules[0].deploymentBracket.overlapStrategy 0"},
		{code: rollout.LintMergeBudgetUnused, why: "staging is done in time, and prod, one after the other, is not", rules: merging("3600"), more: other("q", "environment.name == 'prod'", lintLimited(`"limit":1`)), fleet: lintWithStaging, options: all(20 * minute)},
		{code: rollout.LintMergeBudgetUnused, why: "prod would be done in time, if staging did not take its places", rules: merging("7200") + "," + lintLimited(`"limit":1`), fleet: lintWithStaging, options: all(20 * minute)},
		{code: rollout.LintMergeBudgetUnused, why: "so would the bracket, if nothing else took them", rules: strings.Replace(merging("7200"), `"true"`, `"deployment.name == 'web'"`, 1) + "," + lintLimited(`"limit":1`), options: all(20 * minute)},
		{code: rollout.LintMergeBudgetUnused, why: "r4 waits for r2 in one pool, and for r3 in another, which waits for r1", rules: merging("10800") + "," + lintLimited(`"limit":1,"groupBy":"resource.kind"`) + `,{"id":"d","resourceConcurrency":{"groupSelector":"resource.name in ['r3', 'r4']","limit":1}}`,
			fleet: func(s *rollout.Snapshot) {
				lintNodes(4)(s)
				for i := range s.Resources {
					s.Resources[i].Kind = []string{"x", "y"}[i%2]
				}
			}, options: all(20 * minute), want: "info rules[0].deploymentBracket.overlapStrategy 0", says: "done everywhere after 3h"},
		{code: rollout.LintMergeBudgetUnused, why: "a pool that two rules share is waited for once", rules: merging("7200") + "," + lintLimited(`"limit":1,"sharedPool":"s"`) + `,{"id":"d","resourceConcurrency":{"groupSelector":"true","limit":1,"sharedPool":"s"}}`, options: all(20 * minute), want: "info rules[0].deploymentBracket.overlapStrategy 0"},
		{code: rollout.LintMergeBudgetUnused, why: "nobody knows how long web takes", rules: merging("3600"), options: rollout.LintOptions{Durations: map[string]time.Duration{"db": 1, "cache": 1}}},
		{code: rollout.LintMergeBudgetUnused, why: "a window may keep a group waiting", rules: merging("3600") + "," + lintOffice, options: all(2 * minute)},
		{code: rollout.LintMergeBudgetUnused, why: "nothing is to be merged", rules: lintImmediate, options: all(2 * minute)},
		{code: rollout.LintMergeBudgetUnused, why: "members that are all hooks have no groups, which is told", rules: strings.Replace(merging("3600"), lintHooks, `"memberRoles":{"pre":"true"}`, 1), options: all(2 * minute)},
		{code: rollout.LintMergeBudgetUnused, why: "the bracket would be done in time, if those that come after it did not take its places", options: all(20 * minute),
			rules: strings.NewReplacer(`"true"`, `"deployment.name == 'cache'"`, lintHooks, `"memberRoles":{}`).Replace(merging("7200")) + "," + lintLimited(`"limit":1`)},
		{code: rollout.LintMergeBudgetUnused, why: "the targets of db, which alone has two, come an hour apart", rules: merging("3600"), more: other("q", "true", curve(3600, `,"orderKey":"target"`)), options: all(2 * minute), fleet: func(s *rollout.Snapshot) {
			lintLacking("web", "r2")(s)
			lintLacking("cache", "r2")(s)
		}},
		{code: rollout.LintMergeBudgetUnused, why: "a curve in the order of another bracket ranks the one resource of this one with all that it governs", options: all(2 * minute), fleet: lintLacking("web", "r2"),
			rules: strings.NewReplacer(`"true"`, `"deployment.name == 'web'"`, lintHooks, `"memberRoles":{}`).Replace(merging("3600")), more: other("q", "true", strings.Replace(lintDBAlone, `"b"`, `"a"`, 1)+","+curve(3600, ""))},

		// Pace, names and selectors.
		{code: rollout.LintCooldownLongerThanReleases, why: "a release an hour, and two hours to stand", rules: cooldown(7200), fleet: lintReleased(hour, hour, 3*hour), want: "warning rules[0].versionCooldown.intervalSeconds 2"},
		{code: rollout.LintCooldownLongerThanReleases, why: "an hour to stand", rules: cooldown(3600), fleet: lintReleased(hour, hour, 3*hour)},
		{code: rollout.LintCooldownLongerThanReleases, why: "a version that nobody may deploy is skipped by nobody", rules: cooldown(7200), fleet: func(s *rollout.Snapshot) {
			lintReleased(hour, hour, 3*hour)(s)
			s.Versions[slices.IndexFunc(s.Versions, func(v rollout.Version) bool { return v.Deployment == "web" && v.ID == "v2" })].Status = "withdrawn"
		}},
		{code: rollout.LintCooldownLongerThanReleases, why: "nor is one that appears after all that is looked at", rules: cooldown(7200), fleet: func(s *rollout.Snapshot) {
			lintReleased(3*hour, 3*hour)(s)
			for n := range 5 {
				s.Versions = append(s.Versions, rollout.Version{ID: fmt.Sprintf("v%d", n+4), Deployment: "web", Status: rollout.VersionReady, CreatedAt: t0.AddDate(9, 0, 0).Add(time.Duration(n) * hour)})
			}
		}},
		{code: rollout.LintCooldownLongerThanReleases, why: "each resource has a release every two hours of its own", rules: cooldown(7200), fleet: lintReleasedInTurn(hour, hour, hour, hour, hour)},
		{code: rollout.LintCooldownLongerThanReleases, why: "a release in two hours is too often for one that stands for three", rules: cooldown(10800), fleet: lintReleasedInTurn(hour, hour, hour, hour, hour), want: "warning rules[0].versionCooldown.intervalSeconds 2"},
		{code: rollout.LintCooldownLongerThanReleases, why: "one of the two resources has all releases", rules: cooldown(7200), fleet: func(s *rollout.Snapshot) {
			lintReleased(hour, hour, hour)(s)
			for n := range s.Versions {
				if s.Versions[n].Deployment == "web" {
					s.Versions[n].TargetSelector = "resource.id == 'r2'"
				}
			}
		}, want: "warning rules[0].versionCooldown.intervalSeconds 1"},
		{code: rollout.LintCooldownLongerThanReleases, why: "two releases are no habit", rules: cooldown(7200), fleet: lintReleased(hour)},
		{code: rollout.LintOrderKeyImplied, why: "ranked by the bracket because there is one", rules: lintImmediate + "," + curve(60, ""), want: "warning rules[1].gradualRollout.orderKey 0"},
		{code: rollout.LintOrderKeyImplied, why: "written", rules: lintImmediate + "," + curve(60, `,"orderKey":"resource_bracket"`)},
		{code: rollout.LintOrderKeyImplied, why: "without a bracket there is one meaning", rules: curve(60, "")},
		{code: rollout.LintRuleIDMissing, why: "no id", rules: `{"anyApproval":{"minApprovals":1}}`, want: "warning rules[0].id 0"},
		{code: rollout.LintRuleIDMissing, why: "an id", rules: `{"id":"a","anyApproval":{"minApprovals":1}}`},
		{code: rollout.LintSelectorMatchesNothing, why: "a policy for nobody", more: other("q", "deployment.name == 'wbe'", lintLimited(`"limit":1`)), want: "warning selector 0"},
		{code: rollout.LintSelectorMatchesNothing, why: "a policy for web", more: other("q", "deployment.name == 'web'", lintLimited(`"limit":1`))},
		{code: rollout.LintSelectorMatchesNothing, why: "a fleet without targets", more: other("q", "deployment.name == 'wbe'", lintLimited(`"limit":1`)), fleet: func(s *rollout.Snapshot) { s.Targets = nil }},
		{code: rollout.LintSelectorMatchesNothing, why: "a bracket of nobody", rules: `{"id":"b","deploymentBracket":{"deploymentSelector":"deployment.name == 'wbe'","readinessMode":"immediate"}}`, want: "warning rules[0].deploymentBracket.deploymentSelector 0"},
		{code: rollout.LintSelectorMatchesNothing, why: "a bracket of those that the policy does not govern", more: other("q", "deployment.name == 'web'", `{"id":"b","deploymentBracket":{"deploymentSelector":"deployment.name == 'db'","readinessMode":"immediate"}}`),
			want: "warning rules[0].deploymentBracket.deploymentSelector 0"},
		{code: rollout.LintSelectorMatchesNothing, why: "a hook that is no member", rules: `{"id":"b","deploymentBracket":{"deploymentSelector":"deployment.name == 'web'","readinessMode":"immediate","memberRoles":{"pre":"deployment.name == 'db'"}}}`, want: "warning rules[0].deploymentBracket.memberRoles.pre 0"},
		{code: rollout.LintSelectorMatchesNothing, why: "no version is called v9", rules: `{"id":"v","versionSelector":{"selector":"version.tag == 'v9'"}}`, want: "warning rules[0].versionSelector.selector 6"},
		{code: rollout.LintSelectorMatchesNothing, why: "one is called v2", rules: `{"id":"v","versionSelector":{"selector":"version.tag == 'v2'"}}`},
		{code: rollout.LintSelectorMatchesNothing, why: "what is in a policy for nobody is not looked at", want: "warning selector 0",
			more: other("q", "deployment.name == 'wbe'", `{"id":"b","deploymentBracket":{"deploymentSelector":"deployment.name == 'web'","readinessMode":"immediate"}}`)},
		{code: rollout.LintSelectorMatchesNothing, why: "the hooks of a bracket of nobody are not looked at", want: "warning rules[0].deploymentBracket.deploymentSelector 0",
			rules: `{"id":"b","deploymentBracket":{"deploymentSelector":"deployment.name == 'wbe'","readinessMode":"immediate",` + lintHooks + `}}`},
		{code: rollout.LintSelectorMatchesNothing, why: "hooks that are members", rules: lintImmediate},
		{code: rollout.LintSelectorMatchesNothing, why: "db has a v9, and the rule is for web", want: "warning rules[0].versionSelector.selector 2",
			more: other("q", "deployment.name == 'web'", `{"id":"v","versionSelector":{"selector":"version.tag == 'v9'"}}`),
			fleet: func(s *rollout.Snapshot) {
				*s = fleet(2, "v1", map[string][]string{"web": {"v1", "v2"}, "db": {"v1", "v9"}})
			}},
		{code: rollout.LintSelectorMatchesNothing, why: "r2 would pass, and the rule is for r1", want: "warning rules[0].versionSelector.selector 3",
			more: other("q", "resource.name == 'r1'", `{"id":"v","versionSelector":{"selector":"resource.name == 'r2'"}}`)},
		{code: rollout.LintSelectorMatchesNothing, why: "v2 passes on the second resource", rules: `{"id":"v","versionSelector":{"selector":"version.tag == 'v2' && resource.name == 'r2'"}}`},
		{code: rollout.LintSelectorMatchesNothing, why: "no version is there to pass", rules: `{"id":"v","versionSelector":{"selector":"version.tag == 'v9'"}}`, fleet: func(s *rollout.Snapshot) {
			s.Versions = nil
			lintEmpty(s, "web")
			lintEmpty(s, "db")
			lintEmpty(s, "cache")
		}},
		{code: rollout.LintSelectorMatchesNothing, why: "a version for nobody that everybody runs", rules: lintLimited(`"limit":1`), fleet: func(s *rollout.Snapshot) {
			lintScoped("resource.name == 'r3'")(s)
			for i := range s.Targets {
				s.Targets[i].Current = "v2"
			}
		}},
		{code: rollout.LintSelectorMatchesNothing, why: "a version for the second environment", rules: lintLimited(`"limit":1`), fleet: func(s *rollout.Snapshot) {
			lintWithStaging(s)
			lintScoped("environment.name == 'staging'")(s)
		}},
		{code: rollout.LintSelectorMatchesNothing, why: "a version for nobody that was withdrawn, as is advised", rules: lintLimited(`"limit":1`), fleet: func(s *rollout.Snapshot) {
			lintScoped("resource.name == 'r3'")(s)
			lintStatus("withdrawn", "web")(s)
		}},
		{code: rollout.LintSelectorUnknownKeys, why: "a version for a clustre that was withdrawn", rules: lintLimited(`"limit":1`), fleet: func(s *rollout.Snapshot) {
			lintScoped("resource.metadata['clustre'] == 'east'")(s)
			lintStatus("withdrawn", "web")(s)
		}},
		{code: rollout.LintSelectorFails, why: "whom a version is for that was withdrawn", rules: lintLimited(`"limit":1`), fleet: func(s *rollout.Snapshot) {
			lintRacks(s)
			lintScoped(lintRack)(s)
			lintStatus("withdrawn", "web")(s)
		}},
		{code: rollout.LintSelectorUnknownKeys, why: "only a version that was withdrawn is asked for a chanel", rules: `{"id":"v","versionSelector":{"selector":"version.tag == 'v1' || version.metadata['chanel'] == 'stable'"}}`, fleet: lintStatus("withdrawn", "web", "db", "cache")},
		{code: rollout.LintSelectorMatchesNothing, why: "a version for nobody", rules: lintLimited(`"limit":1`), fleet: lintScoped("resource.name == 'r3'"), want: "warning versions[web@v2].targetSelector 0"},
		{code: rollout.LintSelectorMatchesNothing, why: "a version for r2", rules: lintLimited(`"limit":1`), fleet: lintScoped("resource.name == 'r2'")},
		{code: rollout.LintSelectorMatchesEverything, why: "!= instead of ==", more: other("q", "deployment.name != 'wbe'", lintLimited(`"limit":1`)), want: "info selector 0"},
		{code: rollout.LintSelectorMatchesEverything, why: "both of two", more: other("q", "deployment.name != 'wbe'", lintLimited(`"limit":1`)), fleet: lintKinds("a", "a"), want: "info selector 0", says: "all 2 targets"},
		{code: rollout.LintSelectorMatchesEverything, why: "of one it says nothing", more: other("q", "deployment.name == 'web'", lintLimited(`"limit":1`)), fleet: lintKinds("a")},
		{code: rollout.LintSelectorMatchesEverything, why: "it says so", rules: lintLimited(`"limit":1`)},
		{code: rollout.LintSelectorMatchesEverything, why: "all but one", more: other("q", "deployment.name != 'web'", lintLimited(`"limit":1`))},
		{code: rollout.LintSelectorMatchesEverything, why: "every resource is in the east", rules: `{"id":"c","resourceConcurrency":{"groupSelector":` + lintEast + `,"limit":1}}`, want: "info rules[0].resourceConcurrency.groupSelector 0"},
		{code: rollout.LintSelectorMatchesEverything, why: "a bracket of whoever is not called wbe", rules: `{"id":"b","deploymentBracket":{"deploymentSelector":"deployment.name != 'wbe'","readinessMode":"immediate"}}`, want: "info rules[0].deploymentBracket.deploymentSelector 0", says: "all 3 deployments"},
		{code: rollout.LintSelectorMatchesEverything, why: "a bracket of both", rules: `{"id":"b","deploymentBracket":{"deploymentSelector":"deployment.name != 'wbe'","readinessMode":"immediate"}}`, want: "info rules[0].deploymentBracket.deploymentSelector 0", says: "all 2 deployments",
			fleet: func(s *rollout.Snapshot) {
				*s = fleet(2, "v1", map[string][]string{"web": {"v1", "v2"}, "db": {"v1", "v2"}})
			}},
		{code: rollout.LintSelectorMatchesEverything, why: "a bracket of the only one", rules: `{"id":"b","deploymentBracket":{"deploymentSelector":"deployment.name == 'web'","readinessMode":"immediate"}}`, fleet: lintKinds("a", "b")},
		{code: rollout.LintSelectorMatchesEverything, why: "a bracket of two of three", rules: `{"id":"b","deploymentBracket":{"deploymentSelector":"deployment.name != 'web'","readinessMode":"immediate"}}`},
		{code: rollout.LintSelectorMatchesEverything, why: "a bracket of all says so", rules: lintImmediate},
		{code: rollout.LintSelectorUnknownKeys, why: "clustre", rules: `{"id":"c","resourceConcurrency":{"groupSelector":"resource.metadata['clustre'] == 'east'","limit":1}}`, want: "warning rules[0].resourceConcurrency.groupSelector 0"},
		{code: rollout.LintSelectorUnknownKeys, why: "cluster", rules: `{"id":"c","resourceConcurrency":{"groupSelector":` + lintEast + `,"limit":1}}`},
		{code: rollout.LintSelectorUnknownKeys, why: "one resource has it", rules: `{"id":"c","resourceConcurrency":{"groupSelector":"resource.metadata['zone'] == 'a'","limit":1}}`, fleet: func(s *rollout.Snapshot) { s.Resources[1].Metadata = map[string]string{"zone": "a"} }},
		{code: rollout.LintSelectorUnknownKeys, why: "grouped by what nobody has", rules: `{"id":"c","resourceConcurrency":{"groupSelector":"true","limit":1,"groupBy":"resource.metadata['zone']"}}`, want: "warning rules[0].resourceConcurrency.groupBy 0"},
		{code: rollout.LintSelectorUnknownKeys, why: "a policy that asks deployments for their layer", more: other("q", "deployment.metadata['layer'] == 'node'", lintLimited(`"limit":1`)), want: "warning selector 0"},
		{code: rollout.LintSelectorUnknownKeys, why: "a version that is asked for its channel", rules: `{"id":"v","versionSelector":{"selector":"version.metadata['channel'] == 'stable'"}}`, want: "warning rules[0].versionSelector.selector 0"},
		{code: rollout.LintSelectorUnknownKeys, why: "an environment that is asked for its tier", fleet: lintWithStaging, rules: lintProgression("x", `"environment.metadata['tier'] == '1'"`, ""), want: "warning rules[0].environmentProgression.dependsOnEnvironmentSelector 0"},
		{code: rollout.LintSelectorUnknownKeys, why: "the last environment has a tier", fleet: lintWithTiers, rules: lintProgression("x", `"environment.metadata['tier'] == '1'"`, "")},
		{code: rollout.LintSelectorUnknownKeys, why: "only the second environment is asked", fleet: lintWithStaging, rules: lintProgression("x", `"environment.name == 'staging' && environment.metadata['tier'] == '1'"`, ""),
			want: "warning rules[0].environmentProgression.dependsOnEnvironmentSelector 0"},
		{code: rollout.LintSelectorUnknownKeys, why: "a deployment has a layer", more: other("q", "deployment.metadata['layer'] == 'node'", lintLimited(`"limit":1`)), fleet: func(s *rollout.Snapshot) { s.Deployments[2].Metadata = map[string]string{"layer": "node"} }},
		{code: rollout.LintSelectorUnknownKeys, why: "a version has a channel", rules: `{"id":"v","versionSelector":{"selector":"version.metadata['channel'] == 'stable'"}}`, fleet: func(s *rollout.Snapshot) { s.Versions[0].Metadata = map[string]string{"channel": "stable"} }},
		{code: rollout.LintSelectorUnknownKeys, why: "the version that it runs is asked, too", rules: `{"id":"v","versionSelector":{"selector":"version.tag == 'v2' || version.metadata['channel'] == 'stable'"}}`, want: "warning rules[0].versionSelector.selector 0"},
		{code: rollout.LintSelectorUnknownKeys, why: "only the version that it may get is asked", rules: `{"id":"v","versionSelector":{"selector":"version.tag == 'v1' || version.metadata['channel'] == 'stable'"}}`, want: "warning rules[0].versionSelector.selector 0"},
		{code: rollout.LintSelectorUnknownKeys, why: "versions that nobody can get any more are not asked", rules: `{"id":"v","versionSelector":{"selector":"version.tag == 'v2' || version.metadata['channel'] == 'stable'"}}`, fleet: func(s *rollout.Snapshot) {
			for i := range s.Targets {
				s.Targets[i].Current = "v2"
			}
		}},
		{code: rollout.LintSelectorUnknownKeys, why: "only the second resource is asked", rules: `{"id":"c","resourceConcurrency":{"groupSelector":"resource.name == 'r2' && resource.metadata['clustre'] == 'east'","limit":1}}`, want: "warning rules[0].resourceConcurrency.groupSelector 0"},
		{code: rollout.LintSelectorUnknownKeys, why: "only the second resource of a policy is asked", more: other("q", "resource.name == 'r2' && resource.metadata['clustre'] == 'east'", lintLimited(`"limit":1`)), want: "warning selector 0"},
		{code: rollout.LintSelectorUnknownKeys, why: "the members of a bracket, and only the last of them is asked", want: "warning rules[0].deploymentBracket.deploymentSelector 0",
			rules: `{"id":"b","deploymentBracket":{"deploymentSelector":"deployment.name != 'web' || deployment.metadata['layer'] == 'node'","readinessMode":"immediate"}}`},
		{code: rollout.LintSelectorUnknownKeys, why: "a hook before", rules: `{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{"pre":"deployment.metadata['layer'] == 'node'"}}}`,
			want: "warning rules[0].deploymentBracket.memberRoles.pre 0"},
		{code: rollout.LintSelectorUnknownKeys, why: "a hook after", rules: `{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{"post":"deployment.metadata['layer'] == 'node'"}}}`,
			want: "warning rules[0].deploymentBracket.memberRoles.post 0"},
		{code: rollout.LintSelectorUnknownKeys, why: "who is waited for", rules: lintDependsOn(`"dependsOn":"deployment.metadata['layer'] == 'node'","appliesTo":"deployment.name == 'web'"`), want: "warning rules[0].deploymentDependency.dependsOn 0"},
		{code: rollout.LintSelectorUnknownKeys, why: "who waits", rules: lintDependsOn(`"dependsOn":"deployment.name == 'db'","appliesTo":"deployment.metadata['layer'] == 'node'"`), want: "warning rules[0].deploymentDependency.appliesTo 0"},
		{code: rollout.LintSelectorUnknownKeys, why: "everybody waits", rules: lintDependsOn(`"dependsOn":"deployment.name == 'db'"`)},
		{code: rollout.LintSelectorUnknownKeys, why: "db is asked by nobody: the policy is for web", more: other("q", "deployment.name == 'web'", lintDependsOn(`"dependsOn":"deployment.name == 'db'","appliesTo":"deployment.name == 'db' && deployment.metadata['layer'] == 'node'"`))},
		{code: rollout.LintSelectorUnknownKeys, why: "r2 is asked by nobody: the policy is for r1", more: other("q", "resource.name == 'r1'", lintDependsOn(`"dependsOn":"deployment.name == 'db'","appliesTo":"resource.name == 'r2' && resource.metadata['zone'] == 'a'"`))},
		{code: rollout.LintSelectorUnknownKeys, why: "a version for a clustre", rules: lintLimited(`"limit":1`), fleet: lintScoped("resource.name == 'r2' && resource.metadata['clustre'] == 'east'"), want: "warning versions[web@v2].targetSelector 0"},
		{code: rollout.LintSelectorUnknownKeys, why: "a version for a cluster", rules: lintLimited(`"limit":1`), fleet: lintScoped("resource.metadata['cluster'] == 'east'")},
		{code: rollout.LintSelectorUnknownKeys, why: "a version for a tier of the second environment", rules: lintLimited(`"limit":1`), want: "warning versions[web@v2].targetSelector 0", fleet: func(s *rollout.Snapshot) {
			lintWithStaging(s)
			lintScoped("environment.name == 'staging' && environment.metadata['tier'] == '1'")(s)
		}},
		{code: rollout.LintSelectorUnknownKeys, why: "a version that asks for its own channel", rules: lintLimited(`"limit":1`), fleet: lintScoped("version.metadata['channel'] == 'stable'"), want: "warning versions[web@v2].targetSelector 0"},
		{code: rollout.LintSelectorUnknownKeys, why: "a version whose expression is none asks for no key", rules: lintLimited(`"limit":1`), fleet: lintScoped("resource.")},
		{code: rollout.LintSelectorUnknownKeys, why: "grouped by what all have", rules: `{"id":"c","resourceConcurrency":{"groupSelector":"true","limit":1,"groupBy":"resource.metadata['cluster']"}}`},
		{code: rollout.LintSelectorUnknownKeys, why: "grouped by what is no key", rules: `{"id":"c","resourceConcurrency":{"groupSelector":"true","limit":1,"groupBy":"resource.kind"}}`},
		{code: rollout.LintSelectorUnknownKeys, why: "nobody is there to have a key", rules: `{"id":"c","resourceConcurrency":{"groupSelector":"true","limit":1,"groupBy":"resource.metadata['zone']"}}`,
			fleet: func(s *rollout.Snapshot) { s.Resources, s.Targets = nil, nil }},
		{code: rollout.LintTargetsUnmatched, why: "nobody governs db and cache", more: other("q", "deployment.name == 'web'", lintLimited(`"limit":1`)), want: "warning targets 4"},
		{code: rollout.LintTargetsUnmatched, why: "two policies govern all", more: other("p", "deployment.name == 'web'", lintLimited(`"limit":1`)) + "," + other("q", "deployment.name != 'web'", `{"id":"e","resourceConcurrency":{"groupSelector":"true","limit":1}}`)},
		{code: rollout.LintPolicyDisabledState, why: "a slot is held under a rule that is switched off", more: `{"name":"q","enabled":false,"selector":"true","rules":[` + lintLimited(`"limit":1`) + `]}`, want: "warning rules[0].resourceConcurrency 0", fleet: lintStored("c", true),
			says: `"c" is in the disabled policy "q", and state of it is stored: 1 record, 0 open executions, 1 held slot`},
		{code: rollout.LintPolicyDisabledState, why: "in the pool of a value", more: `{"name":"q","enabled":false,"selector":"true","rules":[` + lintLimited(`"limit":1,"groupBy":"resource.metadata['cluster']"`) + `]}`,
			want: "warning rules[0].resourceConcurrency 0", fleet: lintStored("c/east", true)},
		{code: rollout.LintPolicyDisabledState, why: "in a shared pool", more: `{"name":"q","enabled":false,"selector":"true","rules":[{"id":"a","anyApproval":{"minApprovals":1}},` + lintLimited(`"limit":1,"sharedPool":"s"`) + `]}`, want: "warning rules[1].resourceConcurrency 0", fleet: lintStored("s", true)},
		{code: rollout.LintPolicyDisabledState, why: "in a pool that two share: one of them is named, whichever is listed first", want: "warning [0].rules[0].resourceConcurrency 0", fleet: lintStored("s", true), says: `"s" is in the disabled policy "z"`,
			more: `{"name":"z","enabled":false,"selector":"true","rules":[` + lintLimited(`"limit":1,"sharedPool":"s"`) + `]},{"name":"q","enabled":false,"selector":"true","rules":[{"id":"d","resourceConcurrency":{"groupSelector":"true","limit":1,"sharedPool":"s"}}]}`},
		{code: rollout.LintPolicyDisabledState, why: "in a pool that a disabled rule shares with one in force", want: "warning state 0", fleet: lintStored("s/west", true), says: `"s" has pools without members`,
			rules: lintLimited(`"limit":1,"sharedPool":"s","groupBy":"resource.metadata['cluster']"`), more: `{"name":"q","enabled":false,"selector":"true","rules":[{"id":"d","resourceConcurrency":{"groupSelector":"true","limit":1,"sharedPool":"s"}}]}`},
		{code: rollout.LintPolicyDisabledState, why: "in a pool that no rule shares any more", more: `{"name":"q","enabled":false,"selector":"true","rules":[` + lintLimited(`"limit":1,"sharedPool":"s"`) + `]}`, want: "warning state 0", fleet: lintStored("z", true)},
		{code: rollout.LintPolicyDisabledState, why: "two empty pools of a rule that is gone", rules: lintLimited(`"limit":1`), want: "info state 0", fleet: lintStored("gone/east", false, "gone/west"),
			says: `"gone" is in no policy, and state of it is stored: 2 records, 0 open executions, 0 held slots`},
		{code: rollout.LintPolicyDisabledState, why: "a value that no resource has any more", rules: lintLimited(`"limit":1,"groupBy":"resource.metadata['cluster']"`), fleet: lintStored("c/west", false)},
		{code: rollout.LintPolicyDisabledState, why: "a value of a shared pool that no resource has any more", rules: lintLimited(`"limit":1,"sharedPool":"s","groupBy":"resource.metadata['cluster']"`), fleet: lintStored("s/west", false)},
		{code: rollout.LintPolicyDisabledState, why: "a value that somebody holds a slot of, and no resource has", rules: lintLimited(`"limit":1,"groupBy":"resource.metadata['cluster']"`), fleet: lintStored("c/west", true),
			want: "warning state 0", says: `"c" has pools without members, and state of it is stored: 1 record, 0 open executions, 1 held slot`},
		{code: rollout.LintPolicyDisabledState, why: "records of a bracket that nobody knows any more", rules: lintLimited(`"limit":1`), want: "info state 0", fleet: func(s *rollout.Snapshot) {
			s.State.Brackets = []*bracket.GroupRecord{bracket.NewState("gone", "prod").Group}
		}},
		{code: rollout.LintPolicyDisabledState, why: "an execution of one", rules: lintLimited(`"limit":1`), want: "info state 0", fleet: func(s *rollout.Snapshot) {
			s.State.Executions = []*bracket.ExecutionRecord{{Schema: 1, Rule: "gone", Resource: "r1"}}
		}},
		{code: rollout.LintPolicyDisabledState, why: "an open execution of one, and the record of its group", rules: lintLimited(`"limit":1`), want: "warning state 0", says: "2 records, 1 open execution, 0 held slots", fleet: func(s *rollout.Snapshot) {
			s.State.Brackets = []*bracket.GroupRecord{bracket.NewState("gone", "prod").Group}
			s.State.Executions = []*bracket.ExecutionRecord{{Schema: 1, Rule: "gone", Resource: "r1", Open: &bracket.Execution{
				Group: "gone/prod/0", Environment: "prod", Status: bracket.StatusExecuting, Generation: 1, StartedAt: t0,
			}}}
		}},
		{code: rollout.LintPolicyDisabledState, why: "positions of one", rules: lintLimited(`"limit":1`), want: "info state 0", fleet: func(s *rollout.Snapshot) {
			s.State.Rollouts = []rollout.RolloutRecord{{Schema: 1, Rule: "gone", Environment: "prod", Deployment: "web", Version: "v2", StartAt: t0, Founders: 2}}
		}},
		{code: rollout.LintPolicyDisabledState, why: "records of a rule that is in force", rules: lintImmediate + "," + lintLimited(`"limit":1`), fleet: func(s *rollout.Snapshot) {
			s.State.Brackets = []*bracket.GroupRecord{bracket.NewState("b", "prod").Group}
			s.State.Pools = []concurrency.Record{concurrency.NewRecord("c")}
		}},
		// What keeps a finding apart from one like it.
		{code: rollout.LintProgressionNoEnvironment, why: "the first of those whom it concerns is not of the first deployment", rules: lintProgression("a", lintStaging, ""), fleet: func(s *rollout.Snapshot) {
			lintLacking("cache", "r1")(s)
			lintLacking("db", "r1")(s)
		}, want: "error rules[0].environmentProgression.dependsOnEnvironmentSelector 4"},
		{code: rollout.LintWindowShorterThanBracket, why: "jobs in staging tell how long those in prod take", rules: lintImmediate + "," + lintOffice, want: "error rules[0].deploymentBracket 12", fleet: lintWorked("staging", 3*hour)},
		{code: rollout.LintWindowShorterThanBracket, why: "unless the host says that they take no time", rules: lintImmediate + "," + lintOffice, fleet: lintWorked("staging", 3*hour), options: rollout.LintOptions{Durations: map[string]time.Duration{"web": 0, "db": 0, "cache": 0}}},
		{code: rollout.LintWindowShorterThanBracket, why: "of three jobs the one in the middle tells", rules: lintImmediate + "," + lintOffice, fleet: lintWorked("prod", 3*hour, hour, 2*hour, hour)},
		{code: rollout.LintWindowShorterThanBracket, why: "a job that failed tells nothing", rules: lintImmediate + "," + lintOffice, fleet: lintUnfinished(func(j *rollout.Job) { j.Status = rollout.JobFailure })},
		{code: rollout.LintWindowShorterThanBracket, why: "nor does one that does not say when it ended", rules: lintImmediate + "," + lintOffice, fleet: lintUnfinished(func(j *rollout.Job) { j.CompletedAt = time.Time{} })},
		{code: rollout.LintWindowShorterThanBracket, why: "nor one that ended before it began", rules: lintImmediate + "," + lintOffice, options: rollout.LintOptions{Durations: map[string]time.Duration{"web": 9 * hour}}, want: "error rules[0].deploymentBracket 6", says: "takes 9h",
			fleet: lintUnfinished(func(j *rollout.Job) { j.CompletedAt = j.CreatedAt.Add(-hour) })},
		{code: rollout.LintCooldownLongerThanReleases, why: "three releases are a habit", rules: cooldown(7200), fleet: lintReleased(hour, hour), want: "warning rules[0].versionCooldown.intervalSeconds 2"},
		{code: rollout.LintCooldownLongerThanReleases, why: "two of one instant are one release", rules: cooldown(7200), fleet: lintReleased(0, hour, 9*hour)},
		{code: rollout.LintCooldownLongerThanReleases, why: "in whatever order they are listed", rules: cooldown(7200), fleet: func(s *rollout.Snapshot) {
			lintReleased(hour, hour, 9*hour)(s)
			slices.Reverse(s.Versions)
			for i := range s.Versions {
				s.Versions[i].ID = fmt.Sprintf("v%d", 9-i)
			}
			for i := range s.Targets {
				s.Targets[i].Current = ""
			}
		}, want: "warning rules[0].versionCooldown.intervalSeconds 2"},
		{code: rollout.LintCooldownLongerThanReleases, why: "the fastest of several is named, and all of them", rules: cooldown(2 * 86400), fleet: func(s *rollout.Snapshot) {
			for _, d := range []string{"cache", "db", "web"} {
				s.Versions = append(s.Versions, rollout.Version{ID: "v3", Deployment: d, Status: rollout.VersionReady, CreatedAt: t0.Add(-time.Minute)})
			}
		}, want: "warning rules[0].versionCooldown.intervalSeconds 6", says: "of cache, db, web"},
		{code: rollout.LintDependencyAcrossRoles, why: "said of the rule that makes it so, not of the one before, or behind", rules: lintImmediate + "," + lintDependsOn(`"dependsOn":"deployment.name == 'web'","appliesTo":"deployment.name == 'cache'"`) +
			`,{"id":"e","deploymentDependency":{"dependsOn":"deployment.name == 'web'","appliesTo":"deployment.name == 'db'"}},{"id":"f","deploymentDependency":{"dependsOn":"deployment.name == 'cache'","appliesTo":"deployment.name == 'nobody'"}}`,
			want: "error rules[2].deploymentDependency.dependsOn 2"},
		{code: rollout.LintDependencyAcrossRoles, why: "a rule for everybody is one for the drain", rules: lintImmediate + "," + lintDependsOn(`"dependsOn":"deployment.name == 'web'"`), want: "error rules[1].deploymentDependency.dependsOn 2"},
		{code: rollout.LintBracketRolesDerived, why: "nothing is said of members that cannot be ordered", rules: `{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate"}},` +
			lintDependsOn(`"dependsOn":"deployment.name == 'db' && version.tag == 'v2'","appliesTo":"deployment.name == 'web'"`) + `,{"id":"e","deploymentDependency":{"dependsOn":"deployment.name == 'web' && version.tag == 'v2'","appliesTo":"deployment.name == 'db'"}}`},
		{code: rollout.LintBracketHookWithoutVersion, why: "r2 has no main member, so nobody misses its hook", rules: lintImmediate, want: "error rules[0].deploymentBracket 1", fleet: func(s *rollout.Snapshot) {
			s.Versions = slices.DeleteFunc(s.Versions, func(v rollout.Version) bool { return v.Deployment == "db" })
			lintEmpty(s, "db")
			lintLacking("web", "r2")(s)
		}},
		{code: rollout.LintBracketHookWithoutVersion, why: "a main member without version is no hook", rules: lintImmediate, fleet: func(s *rollout.Snapshot) {
			s.Versions = slices.DeleteFunc(s.Versions, func(v rollout.Version) bool { return v.Deployment == "web" })
			lintEmpty(s, "web")
		}},
		{code: rollout.LintBracketHookWithoutVersion, why: "both hooks", rules: lintImmediate, want: "error rules[0].deploymentBracket 4", says: ": cache, db;", fleet: func(s *rollout.Snapshot) {
			s.Versions = slices.DeleteFunc(s.Versions, func(v rollout.Version) bool { return v.Deployment != "web" })
			lintEmpty(s, "db")
			lintEmpty(s, "cache")
		}},
		{code: rollout.LintBracketHookWithoutVersion, why: "its first version is not within the horizon", rules: lintImmediate, horizon: hour, want: "error rules[0].deploymentBracket 2", fleet: func(s *rollout.Snapshot) {
			lintEmpty(s, "db")
			lintRelease("db", "v1", t0.Add(hour))(s)
			lintRelease("db", "v2", t0.Add(2*hour))(s)
		}},
		{code: rollout.LintBracketHookWithoutVersion, why: "the version selector lets its v2 pass", rules: lintImmediate + `,{"id":"v","versionSelector":{"selector":"deployment.name != 'db' || version.tag == 'v2'"}}`,
			fleet: func(s *rollout.Snapshot) { lintEmpty(s, "db") }},
		{code: rollout.LintBracketHookWithoutVersion, why: "an override lets it pass", rules: lintImmediate + `,{"id":"v","versionSelector":{"selector":"deployment.name != 'db'"}}`, fleet: func(s *rollout.Snapshot) {
			lintEmpty(s, "db")
			s.Overrides = []rollout.Override{{ID: "1", Rule: "v", Version: "v1", CreatedAt: t0.Add(-hour), CreatedBy: "ann", Reason: "urgent"}}
		}},
		{code: rollout.LintImmediateStarves, why: "versions that were withdrawn are no releases", rules: lintImmediate + "," + curve(3600, `,"orderKey":"resource_bracket"`), fleet: func(s *rollout.Snapshot) {
			lintReleased(hour, hour, hour)(s)
			for i := range s.Versions {
				if s.Versions[i].Deployment == "web" && s.Versions[i].ID != "v1" {
					s.Versions[i].Status = "withdrawn"
				}
			}
		}},
		{code: rollout.LintImmediateStarves, why: "nor are those that are not within the horizon", rules: lintImmediate + "," + curve(3600, `,"orderKey":"resource_bracket"`), fleet: func(s *rollout.Snapshot) {
			lintReleased(hour, hour, hour)(s)
			for i := range s.Versions {
				if s.Versions[i].Deployment == "web" && s.Versions[i].ID != "v1" {
					s.Versions[i].CreatedAt = s.Versions[i].CreatedAt.Add(3 * 365 * 24 * hour)
				}
			}
		}},
		{code: rollout.LintImmediateStarves, why: "a curve of another policy that ranks targets gives each version an order of its own", rules: lintImmediate, more: other("q", "true", curve(3600, `,"orderKey":"target"`)), fleet: lintReleased(hour, hour, hour)},
		{code: rollout.LintImmediateStarves, why: "a curve of another policy that ranks one resource", rules: lintImmediate, more: other("q", "resource.name == 'r1'", curve(3600, `,"orderKey":"resource"`)), fleet: lintReleased(hour, hour, hour)},
		{code: rollout.LintImmediateStarves, why: "a curve of another policy that ranks both", rules: lintImmediate, more: other("q", "true", curve(3600, `,"orderKey":"resource"`)), fleet: lintReleased(hour, hour, hour), want: "warning [1].rules[0].gradualRollout.orderSalt 0"},
		{code: rollout.LintImmediateStarves, why: "ranked by resource, those without a member have a place too", want: "warning rules[1].gradualRollout.orderSalt 0", says: "the last of 2 resources",
			rules: `{"id":"b","deploymentBracket":{"deploymentSelector":"deployment.name == 'web'","readinessMode":"immediate","memberRoles":{}}},` + curve(3600, `,"orderKey":"resource"`), fleet: func(s *rollout.Snapshot) {
				lintReleased(hour, hour, hour)(s)
				lintLacking("web", "r2")(s)
			}},
		{code: rollout.LintImmediateStarves, why: "ranked by bracket they have none", rules: `{"id":"b","deploymentBracket":{"deploymentSelector":"deployment.name == 'web'","readinessMode":"immediate","memberRoles":{}}},` + curve(3600, `,"orderKey":"resource_bracket"`), fleet: func(s *rollout.Snapshot) {
			lintReleased(hour, hour, hour)(s)
			lintLacking("web", "r2")(s)
		}},
		{code: rollout.LintMergeBudgetUnused, why: "groups that close at once may meet", rules: `{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","overlapStrategy":"merge","preparedStatePersists":true,` + lintHooks + `}}`, options: all(2 * minute)},
		{code: rollout.LintMergeBudgetUnused, why: "groups that queue merge nothing anyway", rules: `{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessWindowSeconds":3600,` + lintHooks + `}}`, options: all(2 * minute)},
		{code: rollout.LintMergeBudgetUnused, why: "a cooldown may keep a group waiting", rules: merging("3600") + "," + cooldown(60), options: all(2 * minute)},
		{code: rollout.LintMergeBudgetUnused, why: "so may a deployment of another policy", rules: merging("3600"), more: other("q", "true", lintDependsOn(`"dependsOn":"deployment.name == 'db'","appliesTo":"deployment.name == 'web'"`)), options: all(2 * minute)},
		{code: rollout.LintMergeBudgetUnused, why: "or one that a version depends on", rules: merging("3600"), fleet: lintNeeds("db", "true"), options: all(2 * minute)},
		{code: rollout.LintMergeBudgetUnused, why: "so does a node that is down, for as long as it is", rules: merging("3600") + "," + lintLimited(`"limit":1`), options: all(2 * minute), fleet: func(s *rollout.Snapshot) { s.Unavailable = []string{"r1"} }},
		{code: rollout.LintMergeBudgetUnused, why: "a pool that is shut keeps it waiting for ever", rules: merging("3600") + "," + lintLimited(`"limit":0`), options: all(2 * minute)},
		{code: rollout.LintMergeBudgetUnused, why: "a pool that lets one key at a time be active", rules: merging("3600") + "," + lintLimited(`"limit":1,"groupBy":"resource.metadata['cluster']","maxActiveKeys":1`), options: all(2 * minute)},
		{code: rollout.LintMergeBudgetUnused, why: "four nodes, two at a time, take twice as long as one", rules: merging("720") + "," + lintLimited(`"limit":2`), options: all(2 * minute), fleet: lintNodes(4), want: "info rules[0].deploymentBracket.overlapStrategy 0", says: "done everywhere after 12m"},
		{code: rollout.LintMergeBudgetUnused, why: "three nodes, two at a time, as well", rules: merging("720") + "," + lintLimited(`"limit":2`), options: all(2 * minute), fleet: lintNodes(3), want: "info rules[0].deploymentBracket.overlapStrategy 0", says: "done everywhere after 12m"},
		{code: rollout.LintDependencyCycle, why: "a hook is part of every execution, whatever it runs", rules: lintImmediate, more: other("q", "true", lintDependsOn(`"dependsOn":"deployment.name == 'web' && version.tag == 'v2'","appliesTo":"deployment.name == 'db'"`)),
			want: "error [1].rules[0].deploymentDependency.dependsOn 2", says: "db needs web, which its bracket starts only together with db"},
		{code: rollout.LintDependencyCycle, why: "who waits may have nothing newer, because of a version selector", rules: lintImmediate + `,{"id":"v","versionSelector":{"selector":"deployment.name != 'web' || version.tag != 'v2'"}}`,
			more: other("q", "true", lintDependsOn(`"dependsOn":"deployment.name == 'db' && version.tag == 'v2'","appliesTo":"deployment.name == 'web'"`))},
		{code: rollout.LintDependencyCycle, why: "or because it is for others", rules: lintImmediate, fleet: lintScoped("resource.name == 'r9'"),
			more: other("q", "true", lintDependsOn(`"dependsOn":"deployment.name == 'db' && version.tag == 'v2'","appliesTo":"deployment.name == 'web'"`))},
		{code: rollout.LintDependencyCycle, why: "who waits still needs an approval, and the others might go ahead until then", rules: lintImmediate, want: "warning [1].rules[0].deploymentDependency.dependsOn 2",
			more: other("q", "deployment.name == 'web'", lintDependsOn(`"dependsOn":"deployment.name == 'db' && version.tag == 'v2'","appliesTo":"deployment.name == 'web'"`)+`,{"id":"a","anyApproval":{"minApprovals":1}}`)},
		{code: rollout.LintDependencyCycle, why: "who comes first only waits for the circle", want: "error rules[0].deploymentDependency.dependsOn 4", says: "d needs c, c needs d;", fleet: func(s *rollout.Snapshot) {
			*s = fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}, "c": {"v1", "v2"}, "d": {"v1", "v2"}})
		}, rules: lintDependsOn(`"dependsOn":"deployment.name == 'd' && version.tag == 'v2'","appliesTo":"deployment.name in ['a', 'c']"`) + `,{"id":"e","deploymentDependency":{"dependsOn":"deployment.name == 'c' && version.tag == 'v2'","appliesTo":"deployment.name == 'd'"}}`},
		{code: rollout.LintDependencyCycle, why: "in the second environment only, and by the deployments that are last", fleet: lintWithStaging, want: "error rules[0].deploymentDependency.dependsOn 4", says: "in staging db needs web needs db, and nothing is planned as long as they do; rules d, e",
			rules: lintDependsOn(`"dependsOn":"deployment.name == 'db'","appliesTo":"deployment.name == 'web' && environment.name == 'staging'"`) + `,{"id":"e","deploymentDependency":{"dependsOn":"deployment.name == 'web'","appliesTo":"deployment.name == 'db' && environment.name == 'staging'"}}`},
		{code: rollout.LintStuckBeforeRetry, why: "an execution is stuck before the retry, too", rules: `{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","stuckAfterSeconds":300,` + lintHooks + `}},` + retry(`"maxRetries":2,"backoffSeconds":600`), want: "info rules[0].deploymentBracket.stuckAfterSeconds 0"},
		{code: rollout.LintStuckBeforeRetry, why: "said once, however many rules retry", rules: lintLimited(`"limit":1,"stuckAfterSeconds":300`) + "," + lintMains, more: other("q", "deployment.name == 'web'", retry(`"maxRetries":2,"backoffSeconds":600`)) + "," + other("s", "deployment.name == 'db'", `{"id":"t","retry":{"maxRetries":2,"backoffSeconds":700}}`),
			want: "info [0].rules[0].resourceConcurrency.stuckAfterSeconds 0"},
		{code: rollout.LintStuckBeforeRetry, why: "the longest delay is told, whoever has it", rules: lintLimited(`"limit":1,"stuckAfterSeconds":300`) + "," + lintMains, more: other("q", "deployment.name == 'web'", retry(`"maxRetries":2,"backoffSeconds":700`)) + "," + other("s", "deployment.name == 'db'", `{"id":"t","retry":{"maxRetries":2,"backoffSeconds":600}}`),
			want: "info [0].rules[0].resourceConcurrency.stuckAfterSeconds 0", says: `the rule "r" waits for 11m40s`},
		{code: rollout.LintStuckBeforeRetry, why: "outside brackets no other job is at work under the lease of a target that waits", rules: lintLimited(`"limit":1,"stuckAfterSeconds":300`) + "," + retry(`"maxRetries":2,"backoffSeconds":600`)},
		{code: rollout.LintStuckBeforeRetry, why: "nor is one in a bracket of one", rules: lintLimited(`"limit":1,"stuckAfterSeconds":300`) + "," + retry(`"maxRetries":2,"backoffSeconds":600`) + "," + lintDBAlone},
		{code: rollout.LintStuckBeforeRetry, why: "nobody has both", more: other("q", "deployment.name == 'web'", retry(`"maxRetries":2,"backoffSeconds":600`)) + "," + other("s", "deployment.name == 'db'", lintLimited(`"limit":1,"stuckAfterSeconds":300`))},
		{code: rollout.LintHoldWithoutRetry, why: "the bracket of another policy ends by itself", want: "warning [0].rules[0].deploymentBracket.onMemberFailure 2",
			more: other("p", "deployment.name == 'web'", `{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}}`) + "," +
				other("q", "deployment.name == 'db'", `{"id":"z","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","onMemberFailure":"run_post","memberRoles":{}}}`)},
		{code: rollout.LintHoldWithoutRetry, why: "of two retry rules the one that does not retry counts", rules: lintImmediate + "," + retry(`"maxRetries":1`), more: other("q", "deployment.name == 'web'", `{"id":"t","retry":{"maxRetries":0}}`), want: "warning [0].rules[0].deploymentBracket.onMemberFailure 2"},
		{code: rollout.LintImmediateStarves, why: "the releases of two main members come in turn, an hour apart", want: "warning rules[1].gradualRollout.orderSalt 0", says: "releases come every 1h",
			rules: `{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}},` + curve(3600, `,"orderKey":"resource_bracket"`), fleet: func(s *rollout.Snapshot) {
				s.Versions = nil
				for n := range 8 {
					s.Versions = append(s.Versions, rollout.Version{ID: fmt.Sprintf("v%d", n+1), Deployment: []string{"db", "web"}[n%2], Status: rollout.VersionReady, CreatedAt: t0.Add(time.Duration(n-99) * hour)})
				}
				lintEmpty(s, "cache")
				lintEmpty(s, "db")
				lintEmpty(s, "web")
			}},
		{code: rollout.LintDependencyUnmatched, why: "the version depends on one of cache that does not exist", rules: lintLimited(`"limit":1`), fleet: lintNeeds("cache", "version.tag == 'v3'"), want: "warning versions[web@v2].dependencies[0].versionSelector 2"},
		{code: rollout.LintDependencyUnmatched, why: "the version that runs asks for nothing any more", rules: lintLimited(`"limit":1`), fleet: func(s *rollout.Snapshot) {
			lintNeeds("db", "version.tag == 'v3'")(s)
			lintRuns(s, "web", "v2")
		}},
		{code: rollout.LintDependencyUnmatched, why: "db does not go back to the v1 that it depends on", rules: lintLimited(`"limit":1`), want: "warning versions[web@v2].dependencies[0].versionSelector 2", fleet: func(s *rollout.Snapshot) {
			lintNeeds("db", "version.tag == 'v1'")(s)
			lintRuns(s, "db", "v2")
		}},
		{code: rollout.LintDependencyUnmatched, why: "nobody knows what db runs, and there is no v3", rules: lintLimited(`"limit":1`), want: "warning versions[web@v2].dependencies[0].versionSelector 2", fleet: func(s *rollout.Snapshot) {
			lintNeeds("db", "version.tag == 'v3'")(s)
			lintRuns(s, "db", "v9")
		}},
		{code: rollout.LintDependencyUnmatched, why: "the v2 of db that it depends on is not within the horizon", rules: lintLimited(`"limit":1`), horizon: hour, want: "warning versions[web@v2].dependencies[0].versionSelector 2", fleet: func(s *rollout.Snapshot) {
			lintNeeds("db", "version.tag == 'v2'")(s)
			lintRelease("db", "v2", t0.Add(hour))(s)
		}},
		{code: rollout.LintDependencyUnmatched, why: "the v2 of db is for r1 alone", rules: lintLimited(`"limit":1`), want: "warning versions[web@v2].dependencies[0].versionSelector 1", fleet: func(s *rollout.Snapshot) {
			lintNeeds("db", "version.tag == 'v2'")(s)
			for i := range s.Versions {
				if v := &s.Versions[i]; v.Deployment == "db" && v.ID == "v2" {
					v.TargetSelector = "resource.name == 'r1'"
				}
			}
		}},
		{code: rollout.LintDependencyUnmatched, why: "a rule that wants v2 of db, which is for r1 alone", rules: lintDependsOn(`"dependsOn":"deployment.name == 'db' && version.tag == 'v2'","appliesTo":"deployment.name == 'web'"`), want: "warning rules[0].deploymentDependency.dependsOn 1", fleet: func(s *rollout.Snapshot) {
			for i := range s.Versions {
				if v := &s.Versions[i]; v.Deployment == "db" && v.ID == "v2" {
					v.TargetSelector = "resource.name == 'r1'"
				}
			}
		}},
		{code: rollout.LintDependencyUnmatched, why: "a rule that wants v2 of db on r1, and v3 on r2", rules: lintDependsOn(`"dependsOn":"deployment.name == 'db' && (resource.name == 'r1' && version.tag == 'v2' || version.tag == 'v3')","appliesTo":"deployment.name == 'web'"`), want: "warning rules[0].deploymentDependency.dependsOn 1"},
		{code: rollout.LintDependencyUnmatched, why: "a rule that wants v2 of db, which another policy refuses on r2", rules: lintDependsOn(`"dependsOn":"deployment.name == 'db' && version.tag == 'v2'","appliesTo":"deployment.name == 'web'"`), want: "warning [0].rules[0].deploymentDependency.dependsOn 1",
			more: other("q", "resource.name == 'r2'", `{"id":"v","versionSelector":{"selector":"version.tag != 'v2' || deployment.name != 'db'"}}`)},
		{code: rollout.LintDependencyUnmatched, why: "which its own selector refuses on r2", rules: lintDependsOn(`"dependsOn":"deployment.name == 'db' && version.tag == 'v2'","appliesTo":"deployment.name == 'web'"`) + `,{"id":"v","versionSelector":{"selector":"resource.name == 'r1' || version.tag != 'v2' || deployment.name != 'db'"}}`, want: "warning rules[0].deploymentDependency.dependsOn 1"},
		{code: rollout.LintDependencyUnmatched, why: "which a selector refuses, and somebody lets past it on r1", rules: lintDependsOn(`"dependsOn":"deployment.name == 'db' && version.tag == 'v2'","appliesTo":"deployment.name == 'web'"`) + `,{"id":"v","versionSelector":{"selector":"version.tag != 'v2' || deployment.name != 'db'"}}`, want: "warning rules[0].deploymentDependency.dependsOn 1", fleet: func(s *rollout.Snapshot) {
			s.Overrides = []rollout.Override{{ID: "1", Rule: "v", Version: "v2", Deployment: "db", Resource: "r1", CreatedAt: t0.Add(-time.Hour), CreatedBy: "ann", Reason: "urgent"}}
		}},
		{code: rollout.LintDependencyUnmatched, why: "and everywhere", rules: lintDependsOn(`"dependsOn":"deployment.name == 'db' && version.tag == 'v2'","appliesTo":"deployment.name == 'web'"`) + `,{"id":"v","versionSelector":{"selector":"version.tag != 'v2' || deployment.name != 'db'"}}`, fleet: func(s *rollout.Snapshot) {
			s.Overrides = []rollout.Override{{ID: "1", Rule: "v", Version: "v2", Deployment: "db", CreatedAt: t0.Add(-time.Hour), CreatedBy: "ann", Reason: "urgent"}}
		}},
		{code: rollout.LintCooldownLongerThanReleases, why: "the faster of two is named, and is the second", rules: cooldown(9 * 3600), fleet: lintCadences(2*hour, hour), want: "warning rules[0].versionCooldown.intervalSeconds 4", says: "every 1h or so"},
		{code: rollout.LintCooldownLongerThanReleases, why: "the faster of two is the first", rules: cooldown(9 * 3600), fleet: lintCadences(hour, 2*hour), want: "warning rules[0].versionCooldown.intervalSeconds 4", says: "every 1h or so"},
		// Circles in and around brackets.
		{code: rollout.LintDependencyCycle, why: "a deployment whose id reads like a circle", rules: lintLimited(`"limit":1`), want: "error versions[a needs b@v2].dependencies 0", says: "a needs b@v2 needs web@v2 needs a needs b@v2: in prod",
			fleet: func(s *rollout.Snapshot) { lintMutual(s); lintRenamed("db", "a needs b")(s) }},
		{code: rollout.LintDependencyCycle, why: "versions that need one another come in one execution", rules: lintMains, fleet: lintMutual},
		{code: rollout.LintDependencyCycle, why: "versions that need one another, of which the bracket has one", want: "error versions[db@v2].dependencies 0", fleet: lintMutual,
			rules: `{"id":"b","deploymentBracket":{"deploymentSelector":"deployment.name != 'db'","readinessMode":"immediate","memberRoles":{}}}`},
		{code: rollout.LintDependencyCycle, why: "versions that need one another, in the environment without the bracket", want: "error versions[db@v2].dependencies 0", more: other("q", "environment.name == 'prod'", lintMains), says: "in staging none of these versions",
			fleet: func(s *rollout.Snapshot) { lintWithStaging(s); lintMutual(s) }},
		{code: rollout.LintDependencyCycle, why: "members that need one another and are on no resource together", want: "error versions[db@v2].dependencies 0", rules: lintMains, fleet: func(s *rollout.Snapshot) {
			lintMutual(s)
			lintLacking("db", "r1")(s)
			lintLacking("web", "r2")(s)
		}},
		{code: rollout.LintDependencyCycle, why: "a version that needs itself, also in a bracket", rules: lintMains, fleet: lintNeeds("web", "version.tag == 'v2'"), want: "error versions[web@v2].dependencies 0", says: "web@v2 needs web@v2"},
		{code: rollout.LintDependencyCycle, why: "one of them was withdrawn, so the other waits for what does not come", rules: lintLimited(`"limit":1`), fleet: func(s *rollout.Snapshot) {
			lintMutual(s)
			lintStatus("withdrawn", "db")(s)
		}},
		{code: rollout.LintDependencyUnmatched, why: "of two that need one another one was withdrawn", rules: lintLimited(`"limit":1`), want: "warning versions[web@v2].dependencies[0].versionSelector 2", fleet: func(s *rollout.Snapshot) {
			lintMutual(s)
			lintStatus("withdrawn", "db")(s)
		}},
		{code: rollout.LintDependencyCycle, why: "a version that needs the one before it", rules: lintMains, fleet: lintNeeds("web", "version.tag == 'v1'")},
		{code: rollout.LintDependencyCycle, why: "what runs again in every execution waits for what the execution would bring", want: "error [1].rules[0].deploymentDependency.dependsOn 2", says: "web needs db, which its bracket starts only together with web",
			rules: `{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","unchangedMemberStrategy":"redeploy_current","memberRoles":{}}}`,
			more:  other("q", "deployment.name == 'web'", lintDependsOn(`"dependsOn":"deployment.name == 'db'"`)), fleet: func(s *rollout.Snapshot) { lintEmpty(s, "db"); lintRuns(s, "web", "v2") }},
		{code: rollout.LintDependencyCycle, why: "what is skipped if nothing is new waits for nothing", rules: lintMains,
			more: other("q", "deployment.name == 'web'", lintDependsOn(`"dependsOn":"deployment.name == 'db'"`)), fleet: func(s *rollout.Snapshot) { lintEmpty(s, "db"); lintRuns(s, "web", "v2") }},
		{code: rollout.LintDependencyUnmatched, why: "a version of a member that is not deployable", rules: lintMains + "," + lintDependsOn(`"dependsOn":"deployment.name == 'db' && version.tag == 'v2'","appliesTo":"deployment.name == 'web'"`), want: "warning rules[1].deploymentDependency.dependsOn 2", fleet: func(s *rollout.Snapshot) {
			for i := range s.Versions {
				if v := &s.Versions[i]; v.Deployment == "db" && v.ID == "v2" {
					v.Status = "building"
				}
			}
		}},
		{code: rollout.LintDependencyUnmatched, why: "a version of a member that the same execution brings", rules: lintMains + "," + lintDependsOn(`"dependsOn":"deployment.name == 'db' && version.tag == 'v2'","appliesTo":"deployment.name == 'web'"`)},
		// Turns that never come.
		{code: rollout.LintCurveOverflows, why: "the second of two is due in 285 years", rules: curve(9_000_000_000, ""), want: "error rules[0].gradualRollout.timeScaleInterval 0", says: "only 1 of 2 turns come before 2262"},
		{code: rollout.LintCurveOverflows, why: "the second of two is due in 95 years", rules: curve(3_000_000_000, "")},
		{code: rollout.LintCurveOverflows, why: "products of more than 64 bits", rules: curve(9_000_000_000, ""), fleet: lintNodes(40), want: "error rules[0].gradualRollout.timeScaleInterval 0", says: "only 1 of 40 turns"},
		{code: rollout.LintCurveOverflows, why: "there is only one", rules: curve(9_000_000_000, ""), fleet: lintNodes(1)},
		{code: rollout.LintCurveOverflows, why: "they are normalized", rules: `{"id":"g","gradualRollout":{"rolloutType":"linear-normalized","timeScaleInterval":3000000000}}`, fleet: lintNodes(40)},
		{code: rollout.LintCurveOverflows, why: "members have the turns of their resources", rules: lintMains + "," + curve(9_000_000_000, `,"orderKey":"resource_bracket"`), want: "error rules[1].gradualRollout.timeScaleInterval 0"},
		// Expressions that fail.
		{code: rollout.LintSelectorFails, why: "the selector of a policy, on one resource", more: other("q", lintRack, lintLimited(`"limit":1`)), fleet: lintRacks, want: "error selector 3", says: "it fails, and nothing starts as long as it does: selector: type conversion error"},
		{code: rollout.LintSelectorFails, why: "the selector of a policy, which misses a key", more: other("q", lintRack, lintLimited(`"limit":1`))},
		{code: rollout.LintSelectorFails, why: "a group", rules: `{"id":"c","resourceConcurrency":{"groupSelector":"` + lintRack + `","limit":1}}`, fleet: lintRacks, want: "error rules[0].resourceConcurrency.groupSelector 3"},
		{code: rollout.LintSelectorFails, why: "a group, where the policy governs nobody", more: other("q", "resource.name == 'r2'", `{"id":"c","resourceConcurrency":{"groupSelector":"`+lintRack+`","limit":1}}`), fleet: lintRacks},
		{code: rollout.LintSelectorFails, why: "the members of a bracket, for one deployment", want: "error rules[0].deploymentBracket.deploymentSelector 2", fleet: lintTiers,
			rules: `{"id":"b","deploymentBracket":{"deploymentSelector":"` + lintTier + `","readinessMode":"immediate","memberRoles":{}}}`},
		{code: rollout.LintSelectorFails, why: "the roles of a bracket, for one deployment: for all", want: "error rules[0].deploymentBracket.memberRoles 6", says: "no group collects", fleet: lintTiers,
			rules: `{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{"pre":"` + lintTier + `"}}}`},
		{code: rollout.LintSelectorFails, why: "the roles of a bracket, for one that is no member", fleet: lintTiers,
			rules: `{"id":"b","deploymentBracket":{"deploymentSelector":"deployment.name != 'db'","readinessMode":"immediate","memberRoles":{"pre":"` + lintTier + `"}}}`},
		{code: rollout.LintSelectorFails, why: "whom a dependency applies to", rules: lintDependsOn(`"dependsOn":"deployment.name == 'db'","appliesTo":"deployment.name == 'web' && ` + lintRack + `"`), fleet: lintRacks, want: "error rules[0].deploymentDependency.appliesTo 1"},
		{code: rollout.LintSelectorFails, why: "what a dependency depends on, whatever its version", rules: lintDependsOn(`"dependsOn":"deployment.name == 'db' && ` + lintRack + `","appliesTo":"deployment.name == 'web'"`), fleet: lintRacks, want: "error rules[0].deploymentDependency.dependsOn 1"},
		{code: rollout.LintSelectorFails, why: "what a dependency depends on, because of the version that runs now", rules: lintDependsOn(`"dependsOn":"deployment.name == 'db' && int(version.tag) > 1","appliesTo":"deployment.name == 'web'"`), want: "warning rules[0].deploymentDependency.dependsOn 2"},
		{code: rollout.LintSelectorFails, why: "the version that comes next", rules: `{"id":"s","versionSelector":{"selector":"int(version.tag) > 1"}}`, want: "error rules[0].versionSelector.selector 6", says: "the version that would be next never starts"},
		{code: rollout.LintSelectorFails, why: "the version that comes next, on one resource", rules: `{"id":"s","versionSelector":{"selector":"version.tag == 'v2' && ` + lintRack + `"}}`, fleet: lintRacks, want: "error rules[0].versionSelector.selector 3"},
		{code: rollout.LintSelectorFails, why: "the version that comes next, for a reason of its own on each resource: that of the first is told", want: "error rules[0].versionSelector.selector 6", says: "conversion error from 'string' to 'int'",
			rules: `{"id":"s","versionSelector":{"selector":"resource.name == 'r1' && int(version.tag) > 1 || resource.name == 'r2' && duration(version.tag) > duration('1s')"}}`},
		{code: rollout.LintSelectorFails, why: "no version comes next", rules: `{"id":"s","versionSelector":{"selector":"int(version.tag) > 1"}}`, fleet: func(s *rollout.Snapshot) {
			lintRuns(s, "web", "v2")
			lintRuns(s, "db", "v2")
			lintRuns(s, "cache", "v2")
		}},
		{code: rollout.LintSelectorFails, why: "an override lets the version past", rules: `{"id":"s","versionSelector":{"selector":"deployment.name == 'web' && int(version.tag) > 1"}}`, fleet: func(s *rollout.Snapshot) {
			s.Overrides = []rollout.Override{{ID: "o", Rule: "s", Version: "v2", CreatedAt: t0, CreatedBy: "ann", Reason: "urgent"}}
		}},
		{code: rollout.LintSelectorFails, why: "a progression, in another environment", rules: lintProgression("a", `"int(environment.name) > 0"`, ""), fleet: lintWithStaging, want: "error rules[0].environmentProgression.dependsOnEnvironmentSelector 12"},
		{code: rollout.LintSelectorFails, why: "a progression, in the environment that it does not ask", more: other("q", "environment.name == 'prod'", lintProgression("a", `"int(environment.name) > 0"`, "")), fleet: func(s *rollout.Snapshot) {
			lintWithStaging(s)
			s.Environments[1].Name = "1"
		}},
		{code: rollout.LintProgressionNoEnvironment, why: "the expression fails in the environment that it does not ask, and says no in the other", more: other("q", "environment.name == 'prod'", lintProgression("a", `"int(environment.name) > 1"`, "")), fleet: func(s *rollout.Snapshot) {
			lintWithStaging(s)
			s.Environments[1].Name = "1"
		}, want: "error rules[0].environmentProgression.dependsOnEnvironmentSelector 6"},
		{code: rollout.LintSelectorFails, why: "whom a version is for", rules: lintLimited(`"limit":1`), fleet: func(s *rollout.Snapshot) { lintRacks(s); lintScoped(lintRack)(s) }, want: "warning versions[web@v2].targetSelector 0", says: "the version is not for the targets where it does"},
		{code: rollout.LintSelectorFails, why: "whom a version is for that nobody needs any more", rules: lintLimited(`"limit":1`), fleet: func(s *rollout.Snapshot) {
			lintRacks(s)
			lintScoped(lintRack)(s)
			lintRuns(s, "web", "v2")
		}},
		// Who is counted, and who is not.
		{code: rollout.LintLimitZero, why: "of one target alone", more: other("q", "deployment.name == 'web' && resource.name == 'r1'", lintLimited(`"limit":0`)), want: "error rules[0].resourceConcurrency.limit 1"},
		{code: rollout.LintLimitZero, why: "the rule before it limits nothing", rules: `{"id":"e","resourceConcurrency":{"groupSelector":"resource.name == 'r9'","limit":1}},` + lintLimited(`"limit":0`), want: "error rules[1].resourceConcurrency.limit 6"},
		{code: rollout.LintLimitZero, why: "one per cent is more than none", rules: lintLimited(`"limit":"1%","rounding":"floor"`), want: "error rules[0].resourceConcurrency.limit 6", says: "1% of 2, rounded by floor, is 0"},
		{code: rollout.LintLimitZero, why: "a fifth of three is none, and of five it is one", rules: lintLimited(`"limit":"20%","rounding":"floor","groupBy":"resource.kind"`), fleet: lintKinds("a", "a", "a", "b", "b", "b", "b", "b"), want: "error rules[0].resourceConcurrency.limit 3"},
		{code: rollout.LintCeilExceedsPercent, why: "the first pool does not, and of the others the worst is named", rules: lintLimited(`"limit":"20%","groupBy":"resource.kind"`), fleet: lintKinds("a", "a", "a", "a", "a", "b", "b", "b", "c", "d", "d"),
			want: "info rules[0].resourceConcurrency.limit 0", says: "20% of 1, rounded up, is 1, which is 100.0 %, in 3 of 4 pools"},
		{code: rollout.LintCeilExceedsPercent, why: "the worst has several places", rules: lintLimited(`"limit":"50%","groupBy":"resource.kind"`), fleet: lintKinds("a", "a", "a", "a", "a", "b", "b", "b", "c", "c", "c", "c", "c", "c", "c"),
			want: "info rules[0].resourceConcurrency.limit 0", says: "50% of 3, rounded up, is 2, which is 66.6 %, in 3 of 3 pools"},
		{code: rollout.LintSelectorMatchesEverything, why: "a group of one of two", rules: `{"id":"c","resourceConcurrency":{"groupSelector":"resource.kind == 'a'","limit":1}}`, fleet: lintKinds("a", "b")},
		{code: rollout.LintSelectorMatchesEverything, why: "a group of the only one", rules: `{"id":"c","resourceConcurrency":{"groupSelector":"resource.kind == 'a'","limit":1}}`, fleet: lintKinds("a")},
		{code: rollout.LintSelectorMatchesEverything, why: "a group of both of two", rules: `{"id":"c","resourceConcurrency":{"groupSelector":"resource.kind == 'a'","limit":1}}`, fleet: lintKinds("a", "a"), want: "info rules[0].resourceConcurrency.groupSelector 0"},
		{code: rollout.LintPoolsOverlapUnshared, why: "who is alone where only one of the pools is, is not counted", rules: lintLimited(`"limit":1`), more: other("q", "deployment.name == 'web'", `{"id":"e","resourceConcurrency":{"groupSelector":"resource.name == 'r1'","limit":1}}`),
			want: "warning [1].rules[0].resourceConcurrency.groupSelector 2", says: "have 1 resource in common, such as r1"},
		{code: rollout.LintPoolsOverlapUnshared, why: "one target is alone", want: "warning [1].rules[0].resourceConcurrency.groupSelector 1", fleet: lintKinds("a", "a"),
			rules: lintLimited(`"limit":1`), more: other("q", "resource.name == 'r1'", `{"id":"e","resourceConcurrency":{"groupSelector":"true","limit":1}}`)},
		// Executions and their windows.
		{code: rollout.LintWindowNeverOpens, why: "windows of a bracket that never open are told once", rules: lintMains + "," + lintPast, want: "error rules[1].deploymentWindow 6"},
		{code: rollout.LintWindowNeverOpens, why: "the windows of two members meet, and not for as long as one of them asks", want: "warning [0].rules[0].deploymentBracket 6", rules: lintMains,
			more: other("q", "deployment.name == 'db'", `{"id":"w","deploymentWindow":{"weekly":{"days":["sun"],"start":"02:00","end":"04:00"},"minimumRemainingMinutes":90}}`) + "," +
				other("s", "deployment.name == 'web'", `{"id":"v","deploymentWindow":{"weekly":{"days":["sun"],"start":"03:00","end":"05:00"}}}`)},
		{code: rollout.LintWindowNeverOpens, why: "a policy that governs nobody", more: other("q", "deployment.name == 'wbe'", lintPast), want: "warning rules[0].deploymentWindow 0"},
		{code: rollout.LintWindowNeverOpens, why: "one target waits for what others do not wait for yet", rules: lintPast, want: "error rules[0].deploymentWindow 1", fleet: func(s *rollout.Snapshot) {
			*s = fleet(1, "v1", map[string][]string{"web": {"v1", "v2"}, "db": {"v1", "v2"}})
			lintEmpty(s, "db")
		}},
		{code: rollout.LintWindowShorterThanBracket, why: "hooks and mains in a row: all are too long, one with its hook is not", options: all(3 * hour), want: "warning rules[0].deploymentBracket 6",
			rules: `{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{"post":"deployment.name == 'cache'"}}},` + lintDependsOn(`"dependsOn":"deployment.name == 'db'","appliesTo":"deployment.name == 'web'"`) + "," + lintOffice},
		{code: rollout.LintWindowShorterThanBracket, why: "of mains side by side one is too long", rules: lintMains + "," + lintOffice, options: rollout.LintOptions{Durations: map[string]time.Duration{"db": 9 * hour, "web": hour, "cache": hour}}, want: "warning rules[0].deploymentBracket 6"},
		{code: rollout.LintWindowShorterThanBracket, why: "the member that is too long is not on every resource", rules: lintImmediate + "," + lintOffice, fleet: lintLacking("cache", "r1"), want: "error rules[0].deploymentBracket 3",
			options: rollout.LintOptions{Durations: map[string]time.Duration{"cache": 9 * hour}}},
		{code: rollout.LintWindowShorterThanBracket, why: "a resource has nothing but hooks", rules: lintImmediate + "," + lintOffice, fleet: lintLacking("web", "r1"), options: all(3 * hour), want: "error rules[0].deploymentBracket 3"},
		{code: rollout.LintWindowShorterThanBracket, why: "the last resource has one member", rules: lintMains + "," + lintOffice, options: all(9 * hour), fleet: lintKinds("a", "b"), want: "error rules[0].deploymentBracket 2"},
		{code: rollout.LintWindowShorterThanBracket, why: "what is longer than can be counted is no less", rules: lintImmediate + "," + lintOffice, options: all(200 * 365 * 24 * hour), want: "error rules[0].deploymentBracket 6"},
		{code: rollout.LintBracketHookWithoutVersion, why: "where no main is, a hook without a version is in nobody's way", rules: lintImmediate, want: "error rules[0].deploymentBracket 1", fleet: func(s *rollout.Snapshot) {
			lintEmpty(s, "db")
			s.Versions = slices.DeleteFunc(s.Versions, func(v rollout.Version) bool { return v.Deployment == "db" })
			lintLacking("web", "r1")(s)
			lintLacking("cache", "r1")(s)
		}},
		{code: rollout.LintBracketNoMain, why: "the main is not governed", want: "error rules[0].deploymentBracket.memberRoles 4",
			more: other("q", "deployment.name != 'web'", lintImmediate)},
		{code: rollout.LintSelectorFails, why: "the members of a bracket, for a deployment that is not governed", fleet: lintTiers,
			more: other("q", "deployment.name == 'web'", `{"id":"b","deploymentBracket":{"deploymentSelector":"`+lintTier+`","readinessMode":"immediate","memberRoles":{}}}`)},
		{code: rollout.LintSelectorFails, why: "the members of a bracket, for one target", fleet: lintTiers, want: "error rules[0].deploymentBracket.deploymentSelector 1",
			more: other("q", "resource.name == 'r1'", `{"id":"b","deploymentBracket":{"deploymentSelector":"`+lintTier+`","readinessMode":"immediate","memberRoles":{}}}`)},
		{code: rollout.LintDependencyAcrossRoles, why: "the rule before it names nobody, and the one after it the same", want: "error rules[2].deploymentDependency.dependsOn 2",
			rules: lintImmediate + `,{"id":"e","deploymentDependency":{"dependsOn":"deployment.name == 'queue'","appliesTo":"deployment.name == 'db'"}},` +
				lintDependsOn(`"dependsOn":"deployment.name == 'web'","appliesTo":"deployment.name == 'db'"`) + `,{"id":"f","deploymentDependency":{"dependsOn":"deployment.name == 'web'","appliesTo":"deployment.name == 'db'"}}`},
		{code: rollout.LintBracketRolesDerived, why: "another bracket has no main", want: "info [1].rules[0].deploymentBracket.memberRoles 0",
			more: other("p", "deployment.name != 'web'", lintImmediate) + "," + other("q", "deployment.name == 'web'", `{"id":"z","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate"}}`)},
		{code: rollout.LintOrderStarves, why: "a group that waits for all comes as fast as releases do", want: "warning rules[1].gradualRollout.orderSalt 0", fleet: lintReleased(hour, hour, hour),
			rules: `{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"wait_for_all","readinessWindowSeconds":7200,` + lintHooks + `}},` + curve(3600, `,"orderKey":"resource_bracket"`)},
		{code: rollout.LintMergeBudgetUnused, why: "one job of each tells how long they take", rules: merging("3600"), want: "info rules[0].deploymentBracket.overlapStrategy 0", fleet: func(s *rollout.Snapshot) {
			lintWorked("prod", 2*time.Minute)(s)
			for i := range s.Targets {
				if s.Targets[i].Resource == "r2" {
					s.Targets[i].Jobs = nil
				}
			}
		}},
		{code: rollout.LintMergeBudgetUnused, why: "a pool of some of the resources", rules: merging("3600") + `,{"id":"c","resourceConcurrency":{"groupSelector":"resource.name == 'r1'","limit":1}}`, options: all(2 * minute), want: "info rules[0].deploymentBracket.overlapStrategy 0"},
		{code: rollout.LintMergeBudgetUnused, why: "one after the other it takes longer than can be counted", rules: merging("3600") + "," + lintLimited(`"limit":1`), options: all(90 * 365 * 24 * hour)},
		{code: rollout.LintMergeBudgetUnused, why: "a curve that never ends", rules: merging("3600") + "," + curve(9_000_000_000, `,"orderKey":"resource_bracket"`), options: all(2 * minute), fleet: lintNodes(40)},
		// Failures.
		{code: rollout.LintRollbackBeforeRetry, why: "one retry is one", rules: `{"id":"back","rollback":{"onJobStatuses":["failure"]}},` + retry(`"maxRetries":1`), want: "warning rules[0].rollback.onJobStatuses 6"},
		{code: rollout.LintStuckBeforeRetry, why: "where nothing is tried again no delay is waited for", rules: lintLimited(`"limit":1,"stuckAfterSeconds":300`) + "," + retry(`"maxRetries":0,"backoffSeconds":600`) + "," + lintMains},
		{code: rollout.LintStuckBeforeRetry, why: "before the only retry", rules: lintLimited(`"limit":1,"stuckAfterSeconds":300`) + "," + retry(`"maxRetries":1,"backoffSeconds":600`) + "," + lintMains, want: "info rules[0].resourceConcurrency.stuckAfterSeconds 0"},
		{code: rollout.LintSelectorFails, why: "the selector of a policy, which has the id of one of its rules", more: other("r", lintRack, retry(`"maxRetries":1`)), fleet: lintRacks, want: "error selector 3"},
		{code: rollout.LintSelectorFails, why: "a group, in a policy that has its id and does not fail", more: other("c", "true", `{"id":"c","resourceConcurrency":{"groupSelector":"`+lintRack+`","limit":1}}`), fleet: lintRacks, want: "error rules[0].resourceConcurrency.groupSelector 3"},
		{code: rollout.LintSelectorFails, why: "the version that comes next, where the rule is asked", more: other("q", "deployment.name == 'web'", `{"id":"s","versionSelector":{"selector":"int(version.tag) > 1"}}`), want: "error rules[0].versionSelector.selector 2"},
		{code: rollout.LintSelectorFails, why: "the version that comes next, on one target", more: other("q", "deployment.name == 'web' && resource.name == 'r2'", `{"id":"s","versionSelector":{"selector":"int(version.tag) > 1"}}`), want: "error rules[0].versionSelector.selector 1"},
		{code: rollout.LintSelectorFails, why: "where a version comes next", rules: `{"id":"s","versionSelector":{"selector":"int(version.tag) > 1"}}`, want: "error rules[0].versionSelector.selector 4", fleet: func(s *rollout.Snapshot) { lintRuns(s, "cache", "v2") }},
		{code: rollout.LintSelectorFails, why: "a version that is not ready does not come next", rules: `{"id":"s","versionSelector":{"selector":"int(version.tag) > 1"}}`, want: "error rules[0].versionSelector.selector 4", fleet: func(s *rollout.Snapshot) {
			s.Versions[slices.IndexFunc(s.Versions, func(v rollout.Version) bool { return v.Deployment == "web" && v.ID == "v2" })].Status = "building"
		}},
		{code: rollout.LintSelectorFails, why: "nor one that is released beyond the horizon", rules: `{"id":"s","versionSelector":{"selector":"int(version.tag) > 1"}}`, want: "error rules[0].versionSelector.selector 4", fleet: lintRelease("web", "v2", t0.Add(30*24*hour))},
		{code: rollout.LintSelectorFails, why: "nor one that is for others", rules: `{"id":"s","versionSelector":{"selector":"int(version.tag) > 1"}}`, want: "error rules[0].versionSelector.selector 5", fleet: lintScoped("resource.name == 'r1'")},
		// Environments that wait for others.
		{code: rollout.LintDeadlineBelowSoak, why: "whoever names no environment is not asked how long", rules: lintProgression("x", `"environment.name == 'qa'"`, `,"minimumSoakTimeMinutes":60,"maximumAgeHours":1`)},
		{code: rollout.LintDeadlineBelowSoak, why: "two rules soak too long, and everybody is counted once", fleet: lintWithStaging, want: "error [0].rules[0].environmentProgression.maximumAgeHours 6",
			more: other("p", "environment.name == 'prod'", lintProgression("x", lintStaging, `,"minimumSoakTimeMinutes":60,"maximumAgeHours":1`)) + "," + other("q", "environment.name == 'prod'", lintProgression("y", lintStaging, `,"minimumSoakTimeMinutes":60`))},
		{code: rollout.LintDeadlineBelowSoak, why: "a rule that names two environments", fleet: func(s *rollout.Snapshot) { *s = inEnvironments(*s, "staging", "qa") }, want: "error rules[0].environmentProgression.maximumAgeHours 6",
			more: other("p", "environment.name == 'prod'", lintProgression("x", `"environment.name != 'prod'"`, `,"minimumSoakTimeMinutes":60,"maximumAgeHours":1`))},
		{code: rollout.LintDeadlineBelowSoak, why: "two rules that name two environments may each be satisfied by another one", fleet: func(s *rollout.Snapshot) { *s = inEnvironments(*s, "staging", "qa") },
			more: other("p", "environment.name == 'prod'", lintProgression("x", `"environment.name != 'prod'"`, `,"maximumAgeHours":1`)) + "," + other("q", "environment.name == 'prod'", lintProgression("y", `"environment.name != 'prod'"`, `,"minimumSoakTimeMinutes":60`))},
		{code: rollout.LintDeadlineBelowSoak, why: "there is nobody in staging", more: other("p", "environment.name == 'prod'", lintProgression("x", lintStaging, `,"minimumSoakTimeMinutes":60,"maximumAgeHours":1`)), fleet: func(s *rollout.Snapshot) {
			lintWithStaging(s)
			s.Targets = slices.DeleteFunc(s.Targets, func(t rollout.Target) bool { return t.Environment == "staging" })
		}},
		{code: rollout.LintDeadlineBelowSoak, why: "there is one in staging", more: other("p", "environment.name == 'prod'", lintProgression("x", lintStaging, `,"minimumSoakTimeMinutes":60,"maximumAgeHours":1,"minimumSuccessPercentage":50`)), want: "error rules[0].environmentProgression.maximumAgeHours 3", fleet: func(s *rollout.Snapshot) {
			lintNodes(1)(s)
			lintWithStaging(s)
		}},
		{code: rollout.LintDeadlineBelowSoak, why: "in one of two environments somebody may come later", fleet: func(s *rollout.Snapshot) {
			*s = inEnvironments(*s, "qa", "staging")
			s.Targets = slices.DeleteFunc(s.Targets, func(t rollout.Target) bool { return t.Environment == "staging" && t.Resource == "r2" })
		}, want: "warning rules[0].environmentProgression.maximumAgeHours 6",
			more: other("p", "environment.name == 'prod'", lintProgression("x", `"environment.name != 'prod'"`, `,"minimumSoakTimeMinutes":60,"maximumAgeHours":1,"minimumSuccessPercentage":50`))},
		{code: rollout.LintDeadlineBelowSoak, why: "the rule with the age is content with half", fleet: lintWithStaging, want: "warning [0].rules[0].environmentProgression.maximumAgeHours 6",
			more: other("p", "environment.name == 'prod'", lintProgression("x", lintStaging, `,"maximumAgeHours":1,"minimumSuccessPercentage":50`)) + "," + other("q", "environment.name == 'prod'", lintProgression("y", lintStaging, `,"minimumSoakTimeMinutes":60`))},
		{code: rollout.LintDeadlineBelowSoak, why: "the rule with the soak is content with half", fleet: lintWithStaging, want: "warning [0].rules[0].environmentProgression.maximumAgeHours 6",
			more: other("p", "environment.name == 'prod'", lintProgression("x", lintStaging, `,"maximumAgeHours":1`)) + "," + other("q", "environment.name == 'prod'", lintProgression("y", lintStaging, `,"minimumSoakTimeMinutes":60,"minimumSuccessPercentage":50`))},
		{code: rollout.LintProgressionUnreachable, why: "the targets of one deployment are governed by several policies", more: lintProves("") + "," + other("q", "resource.name == 'r1'", lintLimited(`"limit":1`)), want: "warning [0].rules[0].environmentProgression.dependsOnEnvironmentSelector 2", fleet: lintAdopted(nil)},
		{code: rollout.LintProgressionUnreachable, why: "an override of the progression for the first of two resources", more: lintProves(""), want: "warning rules[0].environmentProgression.dependsOnEnvironmentSelector 1", fleet: func(s *rollout.Snapshot) {
			lintAdopted(nil)(s)
			s.Overrides = []rollout.Override{{ID: "1", Rule: "a", Version: "v1", Resource: "r1", CreatedAt: t0.Add(-time.Hour), CreatedBy: "ann", Reason: "urgent"}}
		}},
		{code: rollout.LintProgressionUnreachable, why: "the first gets what can be proved, the second what cannot", more: lintProves(""), want: "warning rules[0].environmentProgression.dependsOnEnvironmentSelector 1", fleet: func(s *rollout.Snapshot) {
			lintAdopted(nil)(s)
			lintScoped("resource.name == 'r1'")(s)
		}},
		{code: rollout.LintProgressionUnreachable, why: "neither gets what can be proved, and the first is told of", want: "warning [0].rules[0].environmentProgression.dependsOnEnvironmentSelector 2", says: "web v2 does not get to prod", fleet: func(s *rollout.Snapshot) {
			lintAdopted(nil)(s)
			lintScoped("resource.name == 'r1'")(s)
		}, more: lintProves("") + "," + other("q", "environment.name == 'staging'", `{"id":"v","versionSelector":{"selector":"version.tag != 'v2'"}}`)},
		{code: rollout.LintProgressionUnreachable, why: "one of two in staging is refused it", want: "warning [0].rules[0].environmentProgression.dependsOnEnvironmentSelector 2", says: "at most 1 can; for 1 a version selector is in the way",
			more: lintProves("") + "," + other("q", "environment.name == 'staging' && resource.name == 'r1'", `{"id":"v","versionSelector":{"selector":"version.tag != 'v2'"}}`), fleet: lintWithStaging},
		{code: rollout.LintProgressionUnreachable, why: "one of two in staging went on", want: "warning rules[0].environmentProgression.dependsOnEnvironmentSelector 2", says: "at most 1 can; 1 went on to a newer version",
			more: lintProves(""), fleet: lintAdopted(func(s *rollout.Snapshot, t *rollout.Target) {
				if lintSucceeded(t, "v1", t0.Add(-time.Hour)); t.Resource == "r1" {
					t.Current, t.Jobs = "v2", nil
				}
			})},
		{code: rollout.LintProgressionUnreachable, why: "what is released beyond the horizon is not the next", more: lintProves(""), want: "warning rules[0].environmentProgression.dependsOnEnvironmentSelector 2", fleet: func(s *rollout.Snapshot) {
			lintAdopted(nil)(s)
			lintScoped("")(s)
			lintRelease("web", "v2", t0.Add(30*24*hour))(s)
		}},
		{code: rollout.LintProgressionUnreachable, why: "where the expression fails nothing starts, which is told", more: lintProgressive(`"int(environment.name) > 0"`), fleet: func(s *rollout.Snapshot) {
			lintAdopted(nil)(s)
			s.Environments = append(s.Environments, rollout.Environment{ID: "qa", Name: "qa"})
			s.Environments[slices.IndexFunc(s.Environments, func(e rollout.Environment) bool { return e.ID == "staging" })].Name = "1"
		}},
		{code: rollout.LintProgressionUnreachable, why: "of two environments the one that comes closest is named, and is the first", more: lintProgressive(`"environment.name != 'prod'"`), want: "warning rules[0].environmentProgression.dependsOnEnvironmentSelector 2", says: "of 2 targets in canary 2 must have succeeded, and at most 1 can", fleet: func(s *rollout.Snapshot) {
			*s = inEnvironments(*s, "canary", "staging")
			lintScoped("resource.name == 'r9'")(s)
			for i := range s.Targets {
				if t := &s.Targets[i]; t.Environment == "prod" {
					t.Current = ""
				} else if t.Environment == "canary" && t.Resource == "r1" {
					lintSucceeded(t, "v1", t0.Add(-hour))
				}
			}
		}},
		{code: rollout.LintProgressionUnreachable, why: "and is the second", more: lintProgressive(`"environment.name != 'prod'"`), want: "warning rules[0].environmentProgression.dependsOnEnvironmentSelector 2", says: "of 2 targets in staging 2 must have succeeded, and at most 1 can", fleet: func(s *rollout.Snapshot) {
			*s = inEnvironments(*s, "canary", "staging")
			lintScoped("resource.name == 'r9'")(s)
			for i := range s.Targets {
				if t := &s.Targets[i]; t.Environment == "prod" {
					t.Current = ""
				} else if t.Environment == "staging" && t.Resource == "r1" {
					lintSucceeded(t, "v1", t0.Add(-hour))
				}
			}
		}},
		{code: rollout.LintProgressionUnreachable, why: "it is meant for the second in staging alone, which is refused it", want: "warning [0].rules[0].environmentProgression.dependsOnEnvironmentSelector 1", says: "of 1 target in staging 1 must have succeeded, and at most 0 can",
			more: lintProves("") + "," + other("q", "environment.name == 'staging'", `{"id":"v","versionSelector":{"selector":"version.tag != 'v2'"}}`), fleet: func(s *rollout.Snapshot) {
				lintWithStaging(s)
				lintScoped("resource.name == 'r2'")(s)
				for i := range s.Targets {
					if t := &s.Targets[i]; t.Environment == "staging" {
						lintSucceeded(t, "v1", t0.Add(-hour))
					}
				}
			}},
		{code: rollout.LintProgressionUnreachable, why: "the success of the version before it proves nothing", more: lintProves(""), want: "warning rules[0].environmentProgression.dependsOnEnvironmentSelector 2", says: "2 run it and no job says that it succeeded", fleet: func(s *rollout.Snapshot) {
			lintWithStaging(s)
			for i := range s.Targets {
				if t := &s.Targets[i]; t.Environment == "staging" {
					lintSucceeded(t, "v1", t0.Add(-hour))
					t.Current = "v2"
				}
			}
		}},
		{code: rollout.LintProgressionUnreachable, why: "the job failed, and its checks are not asked for", more: lintProves(""), want: "warning rules[0].environmentProgression.dependsOnEnvironmentSelector 2", fleet: lintAdopted(func(s *rollout.Snapshot, t *rollout.Target) {
			lintSucceeded(t, "v1", t0.Add(-time.Hour))
			t.Jobs[0].Status = rollout.JobFailure
		})},
		{code: rollout.LintProgressionUnreachable, why: "of two successes the newer one counts", more: lintProves(`,"maximumAgeHours":2`), fleet: lintAdopted(func(s *rollout.Snapshot, t *rollout.Target) {
			lintSucceeded(t, "v1", t0.Add(-hour))
			t.Jobs = append(t.Jobs, rollout.Job{Run: "0", Version: "v1", Status: rollout.JobSuccessful, CreatedAt: t0.Add(-5 * hour), CompletedAt: t0.Add(-5 * hour)})
		})},
		{code: rollout.LintProgressionUnreachable, why: "what is to be run again is the newer version", more: lintProves(""), want: "warning rules[0].environmentProgression.dependsOnEnvironmentSelector 2", says: "2 went on to a newer version",
			fleet: lintAdopted(func(s *rollout.Snapshot, t *rollout.Target) { t.Current, t.OutdatedAt = "v2", t0 })},
		{code: rollout.LintProgressionUnreachable, why: "the job that was to bring it failed, and may be tried again", more: lintProves("") + "," + other("q", "environment.name == 'staging'", retry(`"maxRetries":1`)), fleet: lintAdopted(func(s *rollout.Snapshot, t *rollout.Target) {
			lintSucceeded(t, "v1", t0.Add(-time.Hour))
			t.Current, t.Jobs[0].Status = "", rollout.JobFailure
		})},
		{code: rollout.LintProgressionUnreachable, why: "the first one is to get it, and will be younger", more: lintProves(`,"maximumAgeHours":2,"minimumSuccessPercentage":50`), fleet: lintAdopted(func(s *rollout.Snapshot, t *rollout.Target) {
			if t.Current = ""; t.Resource == "r2" {
				lintSucceeded(t, "v1", t0.Add(-2*time.Hour))
			}
		})},
		{code: rollout.LintProgressionUnreachable, why: "too few have succeeded, however long ago", more: lintProves(`,"maximumAgeHours":2`), want: "warning rules[0].environmentProgression.dependsOnEnvironmentSelector 2", says: "2 must have succeeded, and at most 1 can", fleet: lintAdopted(func(s *rollout.Snapshot, t *rollout.Target) {
			if t.Resource == "r1" {
				lintSucceeded(t, "v1", t0.Add(-5*time.Hour))
			}
		})},
		{code: rollout.LintProgressionCycle, why: "there is nobody in staging to wait for", more: other("p", "environment.name == 'prod'", lintProgression("x", lintStaging, "")), fleet: func(s *rollout.Snapshot) {
			lintWithStaging(s)
			s.Targets = slices.DeleteFunc(s.Targets, func(t rollout.Target) bool { return t.Environment == "staging" })
		}},
		{code: rollout.LintProgressionCycle, why: "one target in each, and the rule that comes first by id is that of the other", want: "error [1].rules[0].environmentProgression.dependsOnEnvironmentSelector 2", fleet: func(s *rollout.Snapshot) {
			lintKinds("a")(s)
			lintWithStaging(s)
		}, more: other("p", "environment.name == 'prod'", lintProgression("y", lintStaging, "")) + "," + other("q", "environment.name == 'staging'", lintProgression("x", `"environment.name == 'prod'"`, ""))},
		{code: rollout.LintProgressionCycle, why: "one of them fails, which is told", fleet: func(s *rollout.Snapshot) {
			*s = inEnvironments(*s, "staging", "qa")
			s.Environments[slices.IndexFunc(s.Environments, func(e rollout.Environment) bool { return e.ID == "staging" })].Name = "1"
		}, more: other("p", "environment.name == 'prod'", lintProgression("x", `"int(environment.name) > 0"`, "")) + "," + other("q", "environment.name == '1'", lintProgression("y", `"environment.name == 'prod'"`, ""))},
		{code: rollout.LintProgressionCycle, why: "the first half of staging is free to begin, and is not all", fleet: lintWithStaging, want: "error [0].rules[0].environmentProgression.dependsOnEnvironmentSelector 9",
			more: other("p", "environment.name == 'prod'", lintProgression("x", lintStaging, `,"minimumSuccessPercentage":51`)) + "," + other("q", "environment.name == 'staging' && resource.name == 'r2'", lintProgression("y", `"environment.name == 'prod'"`, ""))},
		// Curves and clocks.
		{code: rollout.LintCurveOverflows, why: "of several deployments one has the most turns, and not the last", rules: curve(9_000_000_000, ""), fleet: lintLacking("web", "r2"), want: "error rules[0].gradualRollout.timeScaleInterval 0", says: "only 1 of 2 turns"},
		{code: rollout.LintCurveOverflows, why: "versions are for some of the targets, and the next one may be for all", rules: curve(9_000_000_000, ""), fleet: func(s *rollout.Snapshot) {
			for i := range s.Versions {
				s.Versions[i].TargetSelector = "resource.name == 'r1'"
			}
		}, want: "error rules[0].gradualRollout.timeScaleInterval 0", says: "only 1 of 2 turns"},
		{code: rollout.LintCurveOverflows, why: "it ranks the members of its own bracket, of which there is one", want: "",
			more: other("p", "deployment.name == 'web' && resource.name == 'r1'", `{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}},`+curve(9_000_000_000, `,"orderKey":"resource_bracket"`)) + "," +
				other("q", "deployment.name == 'db'", `{"id":"z","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}}`)},
		{code: rollout.LintCurveOverflows, why: "what is in no bracket is ranked with all resources that the rule governs", want: "error rules[1].gradualRollout.timeScaleInterval 0", says: "only 1 of 2 turns", fleet: lintLacking("db", "r2"),
			rules: lintDBAlone + "," + curve(9_000_000_000, "")},
		{code: rollout.LintCurveOverflows, why: "and so are the members of another bracket", want: "error [0].rules[1].gradualRollout.timeScaleInterval 0", says: "only 1 of 2 turns", fleet: lintLacking("db", "r2"),
			rules: lintDBAlone + "," + curve(9_000_000_000, ""),
			more:  other("q", "deployment.name != 'db'", `{"id":"z","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}}`)},
		{code: rollout.LintCurveLongerThanWindowPeriod, why: "of what is in no bracket, beside the one member, whose turn comes first", want: "warning rules[1].gradualRollout.timeScaleInterval 4", says: "a rollout to 2 takes 41h", fleet: lintLacking("db", "r2"),
			rules: lintDBAlone + "," + curve(41*3600, "") + "," + lintOffice},
		{code: rollout.LintCurveLongerThanWindowPeriod, why: "of what is in another bracket than the one that orders it, too", want: "warning [0].rules[1].gradualRollout.timeScaleInterval 4", fleet: lintLacking("db", "r2"),
			rules: lintDBAlone + "," + curve(41*3600, "") + "," + lintOffice, more: other("q", "deployment.name == 'cache'", strings.NewReplacer(`"b"`, `"a"`, "'db'", "'cache'").Replace(lintDBAlone))},
		{code: rollout.LintCurveLongerThanWindowPeriod, why: "the one member is ranked with all the others, where resources are", want: "warning rules[1].gradualRollout.timeScaleInterval 5", fleet: lintLacking("db", "r2"),
			rules: lintDBAlone + "," + curve(41*3600, `,"orderKey":"resource"`) + "," + lintOffice},
		{code: rollout.LintCurveLongerThanWindowPeriod, why: "all there is is one deployment in one environment", rules: curve(41*3600, "") + "," + lintOffice, want: "warning rules[0].gradualRollout.timeScaleInterval 2",
			fleet: func(s *rollout.Snapshot) { *s = fleet(2, "v1", map[string][]string{"web": {"v1", "v2"}}) }},
		{code: rollout.LintCurveLongerThanWindowPeriod, why: "the one resource of staging is due at once", rules: curve(41*3600, "") + "," + lintOffice, want: "warning rules[0].gradualRollout.timeScaleInterval 6",
			fleet: func(s *rollout.Snapshot) {
				lintWithStaging(s)
				s.Targets = slices.DeleteFunc(s.Targets, func(t rollout.Target) bool { return t.Environment == "staging" && t.Resource == "r2" })
			}},
		{code: rollout.LintCurveLongerThanWindowPeriod, why: "one that never ends is another finding", rules: curve(9_000_000_000, "") + "," + lintOffice},
		{code: rollout.LintCurveLongerThanWindowPeriod, why: "the one before it never ends", rules: curve(9_000_000_000, "") + `,{"id":"h","gradualRollout":{"rolloutType":"linear","timeScaleInterval":147600}},` + lintOffice, want: "warning rules[1].gradualRollout.timeScaleInterval 6"},
		{code: rollout.LintCurveLongerThanWindowPeriod, why: "the first of two runs nothing yet", more: other("q", "deployment.name == 'web'", curve(41*3600, "")+","+lintOffice), want: "warning rules[0].gradualRollout.timeScaleInterval 1",
			fleet: func(s *rollout.Snapshot) {
				for i := range s.Targets {
					if t := &s.Targets[i]; t.Resource == "r1" {
						t.Current = ""
					}
				}
			}},
		{code: rollout.LintCurveLongerThanWindowPeriod, why: "a freeze at the end of the horizon is no measure", rules: curve(40*3600, "") + "," + lintOffice + `,{"id":"f","deploymentWindow":{"from":"2025-01-20T00:00:00Z","until":"2025-03-01T00:00:00Z","allowWindow":false}}`},
		{code: rollout.LintCurveLongerThanWindowPeriod, why: "as far as instants reach", horizon: math.MaxInt64, rules: curve(2*3600, "") + `,{"id":"w","deploymentWindow":{"weekly":{"days":["mon"],"start":"03:00","end":"04:00","everyWeeks":500},"anchor":"2025-01-06T00:00:00Z"}}`,
			want: "warning rules[0].gradualRollout.timeScaleInterval 6", says: "every 84000h the windows let jobs start for 1h at most"},
		// Selectors, and what is left.
		{code: rollout.LintSelectorMatchesNothing, why: "the bracket of one policy has members, that of another has none", want: "warning [1].rules[0].deploymentBracket.deploymentSelector 0",
			more: other("p", "deployment.name == 'web'", lintMains) + "," + other("q", "deployment.name == 'cache'", `{"id":"z","deploymentBracket":{"deploymentSelector":"deployment.name == 'db'","readinessMode":"immediate"}}`)},
		{code: rollout.LintSelectorMatchesNothing, why: "the roles of another bracket fail", fleet: lintTiers, want: "warning [0].rules[0].deploymentBracket.memberRoles.pre 0",
			more: other("p", "deployment.name == 'web'", `{"id":"z","deploymentBracket":{"deploymentSelector":"deployment.name == 'web'","readinessMode":"immediate","memberRoles":{"pre":"deployment.name == 'cache'"}}}`) + "," +
				other("q", "deployment.name == 'db'", `{"id":"b","deploymentBracket":{"deploymentSelector":"deployment.name == 'db'","readinessMode":"immediate","memberRoles":{"pre":"`+lintTier+`"}}}`)},
		{code: rollout.LintSelectorMatchesNothing, why: "r1 would not pass either, and the rule is for r2", more: other("q", "resource.name == 'r2'", `{"id":"v","versionSelector":{"selector":"version.tag == 'v9'"}}`), want: "warning rules[0].versionSelector.selector 3"},
		{code: rollout.LintSelectorMatchesNothing, why: "the only version of the only target", rules: `{"id":"v","versionSelector":{"selector":"version.tag == 'v9'"}}`, want: "warning rules[0].versionSelector.selector 1",
			fleet: func(s *rollout.Snapshot) { *s = fleet(1, "v1", map[string][]string{"web": {"v1"}}) }},
		{code: rollout.LintSelectorUnknownKeys, why: "what one resource is grouped by", rules: lintLimited(`"limit":1,"groupBy":"resource.metadata['zone']"`), fleet: lintNodes(1), want: "warning rules[0].resourceConcurrency.groupBy 0"},
		{code: rollout.LintSelectorUnknownKeys, why: "where the rule is asked", more: other("q", "deployment.name == 'web'", `{"id":"v","versionSelector":{"selector":"version.metadata['channel'] == 'stable'"}}`), want: "warning rules[0].versionSelector.selector 0"},
		{code: rollout.LintSelectorUnknownKeys, why: "some are not asked for the key", more: other("q", "deployment.name == 'cache' || environment.metadata['tier'] == '1'", lintLimited(`"limit":1`)), want: "warning selector 0"},
		{code: rollout.LintSelectorFails, why: "whom a version is for, which the last runs already", rules: lintLimited(`"limit":1`), want: "warning versions[web@v2].targetSelector 0", fleet: func(s *rollout.Snapshot) {
			lintRacks(s)
			lintScoped(lintRack)(s)
			for i := range s.Targets {
				if t := &s.Targets[i]; t.Resource == "r2" && t.Deployment == "web" {
					t.Current = "v2"
				}
			}
		}},
		{code: rollout.LintTargetsUnmatched, why: "one is forgotten", more: other("q", "resource.name != 'r2' || deployment.name != 'web'", lintLimited(`"limit":1`)), want: "warning targets 1"},
		{code: rollout.LintPolicyDisabledState, why: "a value of a shared pool that somebody holds a slot of, and no resource has", rules: lintLimited(`"limit":1,"sharedPool":"s","groupBy":"resource.metadata['cluster']"`), fleet: lintStored("s/north", true), want: "warning state 0",
			says: `"s" has pools without members`},
		{code: rollout.LintPolicyDisabledState, why: "a value that nobody has any more, and a rule that is gone", rules: lintLimited(`"limit":1,"groupBy":"resource.metadata['cluster']"`), fleet: lintStored("c/north", false, "gone"), want: "info state 0", says: `"gone" is in no policy`},
		// Dependencies, one by one.
		{code: rollout.LintDependencyCycle, why: "those that run nothing yet are told of once", rules: lintDependsOn(`"dependsOn":"deployment.name == 'db'","appliesTo":"deployment.name == 'web'"`) + `,{"id":"e","deploymentDependency":{"dependsOn":"deployment.name == 'web'","appliesTo":"deployment.name == 'db'"}}`,
			want: "error rules[0].deploymentDependency.dependsOn 4", says: "; rules d, e", fleet: func(s *rollout.Snapshot) { lintEmpty(s, "web"); lintEmpty(s, "db") }},
		{code: rollout.LintDependencyCycle, why: "one rule makes a circle of two", rules: lintDependsOn(`"dependsOn":"deployment.name != 'cache'","appliesTo":"deployment.name != 'cache'"`), want: "error rules[0].deploymentDependency.dependsOn 4", says: "and nothing is planned as long as they do; remove"},
		{code: rollout.LintDependencyUnmatched, why: "whom it does not apply to, or who cannot tell, is not counted, and asked about the next rule", fleet: lintSplitRacks, want: "error rules[1].deploymentDependency.dependsOn 2",
			rules: lintDependsOn(`"dependsOn":"deployment.name == 'queue'","appliesTo":"deployment.name == 'web' && `+lintRack+`"`) + `,{"id":"e","deploymentDependency":{"dependsOn":"deployment.name == 'queue'","appliesTo":"deployment.name == 'web'"}}`},
		{code: rollout.LintAppliesToUnmatched, why: "nobody knows whether it concerns somebody", fleet: lintSplitRacks,
			rules: lintDependsOn(`"dependsOn":"deployment.name == 'queue'","appliesTo":"deployment.name == 'web' && ` + lintRack + `"`)},
		{code: rollout.LintSelectorFails, why: "whom a dependency on versions applies to", rules: lintDependsOn(`"dependsOn":"deployment.name == 'db' && version.tag == 'v1'","appliesTo":"deployment.name == 'web' && ` + lintRack + `"`), fleet: lintRacks, want: "error rules[0].deploymentDependency.appliesTo 1"},
		{code: rollout.LintDependencyUnmatched, why: "all that are named, of which one has no such version", rules: lintDependsOn(`"dependsOn":"deployment.name != 'web' && version.tag == 'v2'","appliesTo":"deployment.name == 'web'","match":"all"`), want: "warning rules[0].deploymentDependency.dependsOn 2", fleet: lintBuilding("cache")},
		{code: rollout.LintDependencyUnmatched, why: "any that is named, of which one has no such version", rules: lintDependsOn(`"dependsOn":"deployment.name != 'web' && version.tag == 'v2'","appliesTo":"deployment.name == 'web'"`), fleet: lintBuilding("cache")},
		{code: rollout.LintDependencyUnmatched, why: "all that are named, and cache is not", rules: lintDependsOn(`"dependsOn":"deployment.name == 'db' && version.tag == 'v2'","appliesTo":"deployment.name == 'web'","match":"all"`), fleet: lintBuilding("cache")},
		{code: rollout.LintDependencyUnmatched, why: "nobody satisfies his own dependency", rules: lintDependsOn(`"dependsOn":"deployment.name != 'cache' && version.tag == 'v2'","appliesTo":"deployment.name == 'web'"`), want: "warning rules[0].deploymentDependency.dependsOn 2", fleet: lintBuilding("db")},
		{code: rollout.LintDependencyUnmatched, why: "the version is for another environment", rules: lintDependsOn(`"dependsOn":"deployment.name == 'db' && version.tag == 'v2'","appliesTo":"deployment.name == 'web' && environment.name == 'prod'"`), want: "warning rules[0].deploymentDependency.dependsOn 2", fleet: lintForStaging},
		{code: rollout.LintDependencyUnmatched, why: "the version is for another environment, and any will do", rules: lintDependsOn(`"dependsOn":"deployment.name == 'db' && version.tag == 'v2'","appliesTo":"deployment.name == 'web' && environment.name == 'prod'","anyEnvironment":true`), fleet: lintForStaging},
		{code: rollout.LintDependencyUnmatched, why: "nobody knows what runs, and so not what comes", rules: lintLimited(`"limit":1`), fleet: func(s *rollout.Snapshot) {
			lintNeeds("queue", "true")(s)
			lintRuns(s, "web", "v9")
		}},
		{code: rollout.LintDependencyUnmatched, why: "a rule beside the bracket is counted once", rules: lintMains, more: other("q", "true", lintDependsOn(`"dependsOn":"deployment.name == 'db' && version.tag == 'v3'","appliesTo":"deployment.name == 'web'"`)), want: "warning [1].rules[0].deploymentDependency.dependsOn 2"},
		{code: rollout.LintDependencyUnmatched, why: "a member that has nothing to run keeps nobody waiting", rules: lintMains + "," + lintDependsOn(`"dependsOn":"deployment.name == 'db'","appliesTo":"deployment.name == 'web'"`), fleet: func(s *rollout.Snapshot) {
			lintEmpty(s, "db")
			s.Versions = slices.DeleteFunc(s.Versions, func(v rollout.Version) bool { return v.Deployment == "db" })
		}},
		{code: rollout.LintDependencyUnmatched, why: "a version of a member, for one of two resources, and by the second rule", fleet: lintBuilding("db"), want: "warning rules[2].deploymentDependency.dependsOn 1",
			rules: lintMains + `,{"id":"a","deploymentDependency":{"dependsOn":"deployment.name == 'cache'","appliesTo":"deployment.name == 'web'"}},` +
				lintDependsOn(`"dependsOn":"deployment.name == 'db' && version.tag == 'v2'","appliesTo":"deployment.name == 'web' && resource.name == 'r1'"`)},
		{code: rollout.LintDependencyUnmatched, why: "nobody knows what the member runs that a version needs", rules: lintMains, want: "warning versions[web@v2].dependencies[0].versionSelector 2", fleet: func(s *rollout.Snapshot) {
			lintNeeds("db", "version.tag == 'v1'")(s)
			lintRuns(s, "db", "v9")
		}},
		{code: rollout.LintCooldownLongerThanReleases, why: "another deployment is released more often", more: other("q", "deployment.name == 'web'", cooldown(9*3600)), fleet: lintCadences(hour, 10*hour)},
		{code: rollout.LintCooldownLongerThanReleases, why: "it is released more often than another one", more: other("q", "deployment.name == 'web'", cooldown(9*3600)), fleet: lintCadences(10*hour, hour), want: "warning rules[0].versionCooldown.intervalSeconds 2"},
		// Circles of rules and versions.
		{code: rollout.LintDependencyCycle, why: "a rule needs a version that needs what the rule keeps back", rules: lintBack, fleet: lintNeeds("db", "version.tag == 'v2'"), want: "error rules[0].deploymentDependency.dependsOn 2", says: "db needs web@v2, web@v2 needs db; "},
		{code: rollout.LintDependencyCycle, why: "an older version of the other will do", rules: lintBack, fleet: lintNeeds("db", "version.tag == 'v1'")},
		{code: rollout.LintDependencyCycle, why: "a version between them is free", rules: `{"id":"e","deploymentDependency":{"dependsOn":"deployment.name == 'web' && version.tag != 'v1'","appliesTo":"deployment.name == 'db'"}}`, fleet: func(s *rollout.Snapshot) {
			lintNeeds("db", "version.tag == 'v2'")(s)
			s.Versions = append(s.Versions, rollout.Version{ID: "v3", Tag: "v3", Deployment: "web", Status: rollout.VersionReady, CreatedAt: t0.Add(-hour)})
		}},
		{code: rollout.LintDependencyCycle, why: "a rule needs a version that needs one that needs what the rule keeps back", rules: lintBack, want: "error rules[0].deploymentDependency.dependsOn 2", says: "db needs web@v2, web@v2 needs cache@v2, cache@v2 needs db; ", fleet: func(s *rollout.Snapshot) {
			lintNeeds("cache", "version.tag == 'v2'")(s)
			s.Versions[slices.IndexFunc(s.Versions, func(v rollout.Version) bool { return v.Deployment == "cache" && v.ID == "v2" })].Dependencies = []rollout.VersionDependency{{Deployment: "db", VersionSelector: "version.tag == 'v2'"}}
		}},
		{code: rollout.LintDependencyCycle, why: "whoever waits for versions in a circle is not in it", rules: `{"id":"e","deploymentDependency":{"dependsOn":"deployment.name == 'web' && version.tag == 'v2'","appliesTo":"deployment.name == 'cache'"}}`, fleet: lintMutual, want: "error versions[db@v2].dependencies 0"},
		{code: rollout.LintDependencyCycle, why: "a version needs one that nobody has, which is told", rules: lintBack, fleet: func(s *rollout.Snapshot) {
			lintNeeds("db", "version.tag == 'v3'")(s)
		}},
		{code: rollout.LintDependencyCycle, why: "a version needs a deployment that is not there, which is told", rules: lintBack, fleet: lintNeeds("queue", "true")},
		{code: rollout.LintDependencyCycle, why: "a version needs what cannot be read, which is told", rules: lintBack, fleet: lintNeeds("db", "version.tag ==")},
		{code: rollout.LintDependencyCycle, why: "on the resource where the other is", rules: lintBack, want: "error rules[0].deploymentDependency.dependsOn 1", fleet: func(s *rollout.Snapshot) {
			lintNeeds("db", "version.tag == 'v2'")(s)
			for i := range s.Targets {
				if t := &s.Targets[i]; t.Deployment == "web" && t.Resource == "r1" {
					t.Current = "v2"
				}
			}
		}},
		{code: rollout.LintDependencyCycle, why: "a rule needs a version that needs a member that is brought only with whom the rule keeps back", want: "error [1].rules[0].deploymentDependency.dependsOn 2", says: "db needs web@v2, web@v2 needs cache, which its bracket starts only together with db",
			rules: `{"id":"b","deploymentBracket":{"deploymentSelector":"deployment.name != 'web'","readinessMode":"immediate","memberRoles":{}}}`, more: other("q", "true", lintBack), fleet: lintNeeds("cache", "version.tag == 'v2'")},
		{code: rollout.LintDependencyCycle, why: "what is brought by the execution that brings the version", rules: lintMains + "," + lintBack, fleet: lintNeeds("db", "version.tag == 'v2'")},
		{code: rollout.LintDependencyCycle, why: "two rules, and a version that one of them needs has been started", rules: lintForth + "," + lintBack, fleet: lintStarted("web", "v2")},
		{code: rollout.LintDependencyCycle, why: "two rules, and another version has been started", rules: lintForth + "," + lintBack, want: "error rules[0].deploymentDependency.dependsOn 4", fleet: func(s *rollout.Snapshot) {
			s.Versions = append(s.Versions, rollout.Version{ID: "v3", Tag: "v3", Deployment: "cache", Status: rollout.VersionReady, CreatedAt: t0.Add(-hour)})
			lintStarted("cache", "v3")(s)
		}},
		{code: rollout.LintDependencyCycle, why: "a rule and a version, which has been started", rules: lintBack, fleet: func(s *rollout.Snapshot) {
			lintNeeds("db", "version.tag == 'v2'")(s)
			lintStarted("web", "v2")(s)
		}},
		{code: rollout.LintDependencyCycle, why: "two versions, of which one has been started", rules: lintLimited(`"limit":1`), fleet: func(s *rollout.Snapshot) {
			lintMutual(s)
			lintStarted("web", "v2")(s)
		}},
		{code: rollout.LintDependencyCycle, why: "two rules, and an override lets one past", rules: lintForth + "," + lintBack, fleet: lintOverridden("e", "v2")},
		{code: rollout.LintDependencyCycle, why: "two rules, and an override lets past what is there already", rules: lintForth + "," + lintBack, fleet: lintOverridden("e", "v1"), want: "error rules[0].deploymentDependency.dependsOn 4"},
		{code: rollout.LintDependencyCycle, why: "two rules, and an override lets past what is not deployable", rules: lintForth + "," + lintBack, want: "error rules[0].deploymentDependency.dependsOn 4", fleet: func(s *rollout.Snapshot) {
			s.Versions = append(s.Versions, rollout.Version{ID: "v3", Tag: "v3", Deployment: "db", Status: "building", CreatedAt: t0.Add(-hour)})
			lintOverridden("e", "v3")(s)
		}},
		{code: rollout.LintDependencyCycle, why: "one of two that are named waits, the other has no such version", want: "error rules[0].deploymentDependency.dependsOn 2", says: "db needs web@v2, web@v2 needs db; ",
			rules: `{"id":"e","deploymentDependency":{"dependsOn":"deployment.name != 'db' && version.tag == 'v2'","appliesTo":"deployment.name == 'db'"}}`, fleet: func(s *rollout.Snapshot) {
				lintNeeds("db", "version.tag == 'v2'")(s)
				lintBuilding("cache")(s)
			}},
		{code: rollout.LintDependencyCycle, why: "one of two that are named waits, the other does not", rules: `{"id":"e","deploymentDependency":{"dependsOn":"deployment.name != 'db' && version.tag == 'v2'","appliesTo":"deployment.name == 'db'"}}`, fleet: lintNeeds("db", "version.tag == 'v2'")},
		{code: rollout.LintDependencyCycle, why: "the version needs somebody else before it needs what the rule keeps back", rules: lintBack, want: "error rules[0].deploymentDependency.dependsOn 2", fleet: func(s *rollout.Snapshot) {
			lintNeeds("db", "version.tag == 'v2'")(s)
			v := &s.Versions[slices.IndexFunc(s.Versions, func(v rollout.Version) bool { return v.Deployment == "web" && v.ID == "v2" })]
			v.Dependencies = append([]rollout.VersionDependency{{Deployment: "queue", VersionSelector: "true"}, {Deployment: "cache", VersionSelector: "version.tag == 'v3'"}}, v.Dependencies...)
		}},
		{code: rollout.LintDependencyCycle, why: "a version that is free is not deployable", rules: `{"id":"e","deploymentDependency":{"dependsOn":"deployment.name == 'web' && version.tag != 'v1'","appliesTo":"deployment.name == 'db'"}}`, want: "error rules[0].deploymentDependency.dependsOn 2", fleet: func(s *rollout.Snapshot) {
			lintNeeds("db", "version.tag == 'v2'")(s)
			s.Versions = append(s.Versions, rollout.Version{ID: "v3", Tag: "v3", Deployment: "web", Status: "building", CreatedAt: t0.Add(-hour)})
		}},
		{code: rollout.LintDependencyCycle, why: "of two rules the one with the smaller id is named", rules: lintForth + `,{"id":"a","deploymentDependency":{"dependsOn":"deployment.name == 'web' && version.tag == 'v2'","appliesTo":"deployment.name == 'db'"}}`, want: "error rules[1].deploymentDependency.dependsOn 4"},
		{code: rollout.LintDependencyUnmatched, why: "the newest version is for others, and the one before it needs what is not there", rules: lintLimited(`"limit":1`), want: "error versions[web@v2].dependencies[0].deployment 2", fleet: func(s *rollout.Snapshot) {
			lintNeeds("queue", "true")(s)
			s.Versions = append(s.Versions, rollout.Version{ID: "v3", Tag: "v3", Deployment: "web", Status: rollout.VersionReady, CreatedAt: t0.Add(-hour), TargetSelector: "resource.name == 'r9'"})
		}},
		{code: rollout.LintSelectorMatchesEverything, why: "a group of two of three", rules: `{"id":"c","resourceConcurrency":{"groupSelector":"resource.kind == 'a'","limit":1}}`, fleet: lintKinds("a", "a", "b")},
		{code: rollout.LintCeilExceedsPercent, why: "by a hundredth", rules: lintLimited(`"limit":"33%"`), fleet: lintKinds("a", "a", "a"), want: "info rules[0].resourceConcurrency.limit 0", says: "33% of 3, rounded up, is 1, which is 33.3 %"},
		{code: rollout.LintPoolsOverlapUnshared, why: "who is alone where only the other pool is, is not counted", more: other("p", "deployment.name == 'web'", lintLimited(`"limit":1`)) + "," + other("q", "true", `{"id":"a","resourceConcurrency":{"groupSelector":"resource.name == 'r1'","limit":1}}`),
			want: "warning [0].rules[0].resourceConcurrency.groupSelector 2"},
		{code: rollout.LintMergeBudgetUnused, why: "groups that wait for all may come faster than the window is long", rules: `{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"wait_for_all","readinessWindowSeconds":3600,"overlapStrategy":"merge","preparedStatePersists":true,` + lintHooks + `}}`, options: all(2 * minute)},
		// What is alike is looked at once, and what is not is not.
		{code: rollout.LintLimitZero, why: "of several pools the largest is named", rules: lintLimited(`"limit":0,"groupBy":"resource.kind"`), fleet: lintKinds("a", "a", "a", "b"), want: "error rules[0].resourceConcurrency.limit 4", says: "lets none of 3 members start"},
		{code: rollout.LintMergeBudgetUnused, why: "a pool with room for more than its members", rules: merging("3600") + `,{"id":"c","resourceConcurrency":{"groupSelector":"resource.name == 'r1'","limit":2}}`, options: all(20 * minute), want: "info rules[0].deploymentBracket.overlapStrategy 0"},
		{code: rollout.LintMergeBudgetUnused, why: "more resources than there is room for", rules: merging("3600") + "," + lintLimited(`"limit":2`), options: all(20 * minute), fleet: lintNodes(3)},
		{code: rollout.LintDependencyUnmatched, why: "a newer version has been started on the first of two resources, and the one that is needed can still come on the other", rules: lintForth + lintSlowly, want: "warning rules[0].deploymentDependency.dependsOn 1", fleet: func(s *rollout.Snapshot) {
			s.Versions = append(s.Versions, rollout.Version{ID: "v3", Tag: "v3", Deployment: "db", Status: rollout.VersionReady, CreatedAt: t0})
			for i := range s.Targets {
				if t := &s.Targets[i]; t.Deployment == "db" && t.Resource == "r1" {
					t.Jobs = []rollout.Job{{Run: "1", Version: "v3", Status: rollout.JobInProgress, CreatedAt: t0.Add(-hour)}}
				}
			}
		}},
		{code: rollout.LintWindowShorterThanBracket, why: "roles that cannot be told are all there is to say of a bracket", fleet: lintTiers, options: all(9 * hour),
			rules: `{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{"pre":"` + lintTier + `"}}},` + lintOffice},
		{code: rollout.LintBracketRolesDerived, why: "who needs a member for some versions only is not without any dependency", want: "info rules[0].deploymentBracket.memberRoles 0", says: "the dependencies make no member a hook",
			rules: `{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate"}},` + lintDependsOn(`"dependsOn":"deployment.name == 'db'","appliesTo":"deployment.name == 'web'"`) +
				`,{"id":"e","deploymentDependency":{"dependsOn":"deployment.name == 'db' && version.tag == 'v2'","appliesTo":"deployment.name == 'cache'"}}`},
		{code: rollout.LintWindowShorterThanBracket, why: "the members of one of two resources have windows", rules: lintImmediate, more: other("q", "resource.name == 'r1'", lintOffice), options: all(9 * hour), want: "error [0].rules[0].deploymentBracket 3"},
		{code: rollout.LintWindowNeverOpens, why: "the windows of two mains never meet, and each is too short for its main", rules: `{"id":"b","deploymentBracket":{"deploymentSelector":"deployment.name != 'cache'","readinessMode":"immediate","memberRoles":{}}}`, options: all(9 * hour),
			more: other("q", "deployment.name == 'web'", lintOffice) + "," + other("s", "deployment.name == 'db'", `{"id":"v","deploymentWindow":{"weekly":{"days":["sun"],"start":"02:00","end":"04:00"}}}`), want: "warning [0].rules[0].deploymentBracket 4"},
		{code: rollout.LintWindowShorterThanBracket, why: "not even the shortest main fits", rules: lintMains + "," + lintOffice, options: rollout.LintOptions{Durations: map[string]time.Duration{"web": 10 * hour, "db": 9 * hour, "cache": 11 * hour}}, want: "error rules[0].deploymentBracket 6", says: "takes 9h"},
		{code: rollout.LintDependencyCycle, why: "a version needs a member that is brought only with one that may come, once it is approved", want: "warning [1].rules[0].deploymentDependency.dependsOn 2", rules: `{"id":"b","deploymentBracket":{"deploymentSelector":"deployment.name != 'web'","readinessMode":"immediate","memberRoles":{}}}`,
			more: other("q", "deployment.name == 'db'", lintBack+`,{"id":"a","anyApproval":{"minApprovals":1}}`), fleet: lintNeeds("cache", "version.tag == 'v2'")},
		{code: rollout.LintDependencyCycle, why: "or that runs what it has again, if it had anything", want: "warning [1].rules[0].deploymentDependency.dependsOn 2", rules: `{"id":"b","deploymentBracket":{"deploymentSelector":"deployment.name != 'web'","readinessMode":"immediate","unchangedMemberStrategy":"redeploy_current","memberRoles":{}}}`,
			more: other("q", "deployment.name == 'db'", lintBack+`,{"id":"a","anyApproval":{"minApprovals":1}}`), fleet: func(s *rollout.Snapshot) {
				lintNeeds("cache", "version.tag == 'v2'")(s)
				lintEmpty(s, "db")
			}},
		{code: rollout.LintDependencyCycle, why: "every group since it had a version that is older than what the other needs brings both", want: "error [1].rules[0].deploymentDependency.dependsOn 2", rules: `{"id":"b","deploymentBracket":{"deploymentSelector":"deployment.name != 'web'","readinessMode":"immediate","memberRoles":{}}}`,
			more: other("q", "true", lintBack), fleet: func(s *rollout.Snapshot) {
				lintNeeds("cache", "version.tag == 'v2'")(s)
				for i := range s.Versions {
					if v := &s.Versions[i]; v.ID == "v2" {
						v.CreatedAt = t0.Add(map[string]time.Duration{"db": -10 * hour, "cache": -5 * hour, "web": -hour}[v.Deployment])
					} else {
						v.CreatedAt = t0.Add(-20 * hour)
					}
				}
				s.Versions = append(s.Versions, rollout.Version{ID: "v3", Tag: "v3", Deployment: "db", Status: rollout.VersionReady, CreatedAt: t0.Add(-hour)})
			}},
		{code: rollout.LintSelectorUnknownKeys, why: "of what is depended on, which the policy does not govern", more: other("q", "deployment.name == 'web'", lintDependsOn(`"dependsOn":"deployment.name == 'db' && version.metadata['soak'] == 'done'"`)), want: "warning rules[0].deploymentDependency.dependsOn 0"},
		{code: rollout.LintPolicyDisabledState, why: "a slot in the pool that a rule had before it shared one", rules: lintLimited(`"limit":1,"sharedPool":"s"`), fleet: lintStored("c", true), want: "warning rules[0].resourceConcurrency 0", says: `"c" has no pool of its own any more`},
		{code: rollout.LintPolicyDisabledState, why: "a pool of its own that a rule had before it shared one", rules: lintLimited(`"limit":1,"sharedPool":"s"`), fleet: lintStored("c", false)},
		{code: rollout.LintAppliesToUnmatched, why: "a policy that governs nobody concerns nobody", more: other("q", "deployment.name == 'wbe'", lintDependsOn(`"dependsOn":"deployment.name == 'db'","appliesTo":"deployment.name == 'queue'"`))},
		// A member that waits for what depends on it, through a version.
		{code: rollout.LintDependencyCycle, why: "a member is brought only with one whose version needs who waits for the member", want: "error [1].rules[0].deploymentDependency.dependsOn 2", says: "cache needs web, which its bracket starts only together with db@v2, db@v2 needs cache;",
			rules: lintWithoutCache, more: other("q", "true", lintCacheNeedsWeb), fleet: lintDBNeeds("cache", "version.tag == 'v2'")},
		{code: rollout.LintDependencyCycle, why: "a group that was locked before that version brings the member without it", want: "warning [1].rules[0].deploymentDependency.dependsOn 2",
			rules: lintWithoutCache, more: other("q", "true", lintCacheNeedsWeb), fleet: func(s *rollout.Snapshot) {
				lintDBNeeds("cache", "version.tag == 'v2'")(s)
				lintRelease("web", "v2", t0.Add(-time.Minute))(s)
			}},
		{code: rollout.LintDependencyCycle, why: "or with what the hook runs already", want: "warning [1].rules[0].deploymentDependency.dependsOn 2",
			rules: strings.Replace(lintWithoutCache, "{}", `{"pre":"deployment.name == 'db'"}`, 1), more: other("q", "true", lintCacheNeedsWeb), fleet: func(s *rollout.Snapshot) {
				lintDBNeeds("cache", "version.tag == 'v2'")(s)
				lintRelease("web", "v2", t0.Add(-time.Minute))(s)
			}},
		{code: rollout.LintDependencyCycle, why: "the member that it is brought with may get that version once it is approved", want: "warning [1].rules[0].deploymentDependency.dependsOn 2",
			rules: lintWithoutCache, more: other("q", "true", lintCacheNeedsWeb) + "," + other("s", "deployment.name == 'db'", `{"id":"a","anyApproval":{"minApprovals":1}}`), fleet: lintDBNeeds("cache", "version.tag == 'v2'")},
		{code: rollout.LintDependencyCycle, why: "the member that it is brought with has another version to get", rules: lintWithoutCache, more: other("q", "true", lintCacheNeedsWeb), fleet: func(s *rollout.Snapshot) {
			lintDBNeeds("cache", "version.tag == 'v2'")(s)
			s.Versions = append(s.Versions, rollout.Version{ID: "v3", Tag: "v3", Deployment: "db", Status: rollout.VersionReady, CreatedAt: t0})
		}},
		{code: rollout.LintDependencyCycle, why: "one execution brings both members, whose versions need each other", rules: lintWithoutCache, more: other("q", "true", lintCacheNeedsWeb), fleet: lintMutual},
		{code: rollout.LintDependencyCycle, why: "the version is of no member", rules: strings.Replace(lintWithoutCache, "!= 'cache'", "== 'web'", 1), more: other("q", "true", lintCacheNeedsWeb), fleet: lintDBNeeds("cache", "version.tag == 'v2'")},
		{code: rollout.LintDependencyCycle, why: "a version of the member counts even if a newer one overtakes it, which waits", rules: lintWithoutCache, more: other("q", "true", lintCacheNeedsWeb), fleet: func(s *rollout.Snapshot) {
			s.Versions = append(s.Versions, rollout.Version{ID: "v3", Tag: "v3", Deployment: "web", Status: rollout.VersionReady, CreatedAt: t0, Dependencies: []rollout.VersionDependency{{Deployment: "cache", VersionSelector: "version.tag == 'v2'"}}})
		}},
		{code: rollout.LintDependencyCycle, why: "a version that is not deployable is no way out", want: "error [1].rules[0].deploymentDependency.dependsOn 2", rules: lintWithoutCache, more: other("q", "true", lintCacheNeedsWeb), fleet: func(s *rollout.Snapshot) {
			lintDBNeeds("cache", "version.tag == 'v2'")(s)
			s.Versions = append(s.Versions, rollout.Version{ID: "v3", Tag: "v3", Deployment: "db", Status: "building", CreatedAt: t0})
		}},
		{code: rollout.LintDependencyCycle, why: "the version that waits is for other targets", rules: lintWithoutCache, more: other("q", "true", lintCacheNeedsWeb), fleet: func(s *rollout.Snapshot) {
			lintDBNeeds("cache", "version.tag == 'v2'")(s)
			for i := range s.Versions {
				if v := &s.Versions[i]; v.Deployment == "db" && v.ID == "v2" {
					v.TargetSelector = "resource.name == 'r9'"
				}
			}
		}},
		{code: rollout.LintDependencyCycle, why: "what a rule keeps from everything is named, and none of its versions", want: "error [1].rules[0].deploymentDependency.dependsOn 4", says: "which its bracket starts only together with db, db needs cache;",
			rules: lintWithoutCache, more: other("q", "true", lintCacheNeedsWeb+`,{"id":"e","deploymentDependency":{"dependsOn":"deployment.name == 'cache' && version.tag == 'v2'","appliesTo":"deployment.name == 'db'"}}`), fleet: lintDBNeeds("cache", "version.tag == 'v2'")},
		{code: rollout.LintDependencyCycle, why: "of two versions of a member that wait, the one that is meant is named", want: "error [1].rules[0].deploymentDependency.dependsOn 2", says: "web needs db@v2, db@v2 needs web;",
			rules: strings.Replace(lintWithoutCache, "'cache'", "'web'", 1), more: other("q", "true", lintForth), fleet: func(s *rollout.Snapshot) {
				lintDBNeeds("web", "version.tag == 'v2'")(s)
				s.Versions = append(s.Versions, rollout.Version{ID: "v3", Tag: "v3", Deployment: "db", Status: rollout.VersionReady, CreatedAt: t0, Dependencies: []rollout.VersionDependency{{Deployment: "web", VersionSelector: "version.tag == 'v2'"}}})
			}},
		{code: rollout.LintDependencyCycle, why: "versions alone wait for one another, because a bracket starts two of them together", want: "error versions[cache@v2].dependencies 4",
			says: "web, which its bracket starts only together with db@v2", rules: lintWithoutCache, fleet: lintThroughBracket},
		{code: rollout.LintDependencyCycle, why: "without the bracket web comes first", rules: lintLimited(`"limit":1`), fleet: lintThroughBracket},
		{code: rollout.LintDependencyCycle, why: "nor is there one if the member that waits has another version to get", rules: lintWithoutCache, fleet: func(s *rollout.Snapshot) {
			lintThroughBracket(s)
			s.Versions = append(s.Versions, rollout.Version{ID: "v3", Tag: "v3", Deployment: "db", Status: rollout.VersionReady, CreatedAt: t0})
		}},
		{code: rollout.LintDependencyCycle, why: "and only on resources where that member is", want: "error versions[cache@v2].dependencies 2", rules: lintWithoutCache, fleet: func(s *rollout.Snapshot) {
			lintLacking("db", "r2")(s)
			lintThroughBracket(s)
		}},
		// Circles, and what is none.
		{code: rollout.LintDependencyCycle, why: "what a rule waits for waits for a version that can come", rules: lintForth, fleet: lintDBNeeds("cache", "version.tag == 'v2'")},
		{code: rollout.LintDependencyCycle, why: "of two that are in a circle with it the first is named", want: "error rules[0].deploymentDependency.dependsOn 4", says: "others do not get: cache needs web, web needs cache;",
			rules: lintDependsOn(`"dependsOn":"deployment.name != 'web' && version.tag == 'v2'","appliesTo":"deployment.name == 'web'"`) + `,{"id":"e","deploymentDependency":{"dependsOn":"deployment.name == 'web' && version.tag == 'v2'","appliesTo":"deployment.name != 'web'"}}`},
		{code: rollout.LintDependencyCycle, why: "of two versions that would do the older one is named", want: "error rules[0].deploymentDependency.dependsOn 2", says: "web needs db@v2, db@v2 needs web;",
			rules: lintDependsOn(`"dependsOn":"deployment.name == 'db' && version.tag in ['v2', 'v3']","appliesTo":"deployment.name == 'web'"`), fleet: func(s *rollout.Snapshot) {
				needs := []rollout.VersionDependency{{Deployment: "web", VersionSelector: "version.tag == 'v2'"}}
				lintDBNeeds("web", "version.tag == 'v2'")(s)
				s.Versions = append(s.Versions, rollout.Version{ID: "v3", Tag: "v3", Deployment: "db", Status: rollout.VersionReady, CreatedAt: t0, Dependencies: needs})
			}},
		{code: rollout.LintDependencyCycle, why: "members that are all hooks wait for a main, which is told", rules: strings.Replace(lintMains, "{}", `{"pre":"true"}`, 1), more: other("q", "true", lintForth)},
		{code: rollout.LintDependencyCycle, why: "who waits is in no bracket", rules: lintDBAlone, more: other("q", "true", lintForth)},
		{code: rollout.LintDependencyCycle, why: "a hook is part of every execution, also of those that were locked before its next version", rules: lintImmediate, more: other("q", "true", strings.Replace(lintBack, `"e"`, `"d"`, 1)),
			want: "error [1].rules[0].deploymentDependency.dependsOn 2", fleet: lintRelease("web", "v2", t0.Add(-time.Minute))},
		{code: rollout.LintDependencyCycle, why: "or has none", rules: lintImmediate, more: other("q", "true", lintBack), want: "error [1].rules[0].deploymentDependency.dependsOn 2", fleet: func(s *rollout.Snapshot) {
			s.Versions = slices.DeleteFunc(s.Versions, func(v rollout.Version) bool { return v.Deployment == "db" && v.ID == "v2" })
		}},
		{code: rollout.LintDependencyCycle, why: "so is a main that runs its only version again", rules: strings.Replace(lintMains, `"memberRoles"`, `"unchangedMemberStrategy":"redeploy_current","memberRoles"`, 1), more: other("q", "true", lintBack), want: "error [1].rules[0].deploymentDependency.dependsOn 2", fleet: func(s *rollout.Snapshot) {
			s.Versions = slices.DeleteFunc(s.Versions, func(v rollout.Version) bool { return v.Deployment == "db" && v.ID == "v2" })
		}},
		{code: rollout.LintDependencyCycle, why: "the release of a hook opens no group that could bring it alone", rules: lintImmediate, more: other("q", "true", lintForth), want: "error [1].rules[0].deploymentDependency.dependsOn 2", fleet: lintRelease("db", "v2", t0.Add(-time.Minute))},
		{code: rollout.LintDependencyCycle, why: "no group was locked for an older version that is not for these targets", rules: lintMains, more: other("q", "true", lintForth), want: "error [1].rules[0].deploymentDependency.dependsOn 2", fleet: func(s *rollout.Snapshot) {
			for i := range s.Versions {
				if v := &s.Versions[i]; v.Deployment == "db" && v.ID == "v2" {
					older := *v
					older.ID, older.CreatedAt, older.TargetSelector = "v1.5", t0.Add(-time.Minute), "resource.name == 'r9'"
					s.Versions = append(s.Versions, older)
				}
			}
		}},
		{code: rollout.LintDependencyCycle, why: "who waits may have nothing newer, because of a version selector that reads the resource", rules: lintImmediate + `,{"id":"v","versionSelector":{"selector":"resource.name == 'r9' || deployment.name != 'web' || version.tag != 'v2'"}}`, more: other("q", "true", lintForth)},
		// Dependencies.
		{code: rollout.LintDependencyUnmatched, why: "on r2 cache is not among those that it names", rules: lintDependsOn(`"dependsOn":"deployment.name == 'cache' && resource.name == 'r1' && version.tag == 'v9' || deployment.name == 'db' && version.tag == 'v2'","match":"all","appliesTo":"deployment.name == 'web' && resource.name == 'r2'"`)},
		{code: rollout.LintDependencyUnmatched, why: "one of two runs what was withdrawn since, and the other can still come", fleet: func(s *rollout.Snapshot) { lintBuilding("db")(s); lintRuns(s, "db", "v2") },
			rules: lintDependsOn(`"dependsOn":"deployment.name != 'web' && version.tag == 'v2'","match":"all","appliesTo":"deployment.name == 'web'"`)},
		{code: rollout.LintDependencyUnmatched, why: "a newer version has been started on the second of two resources, and the one that is needed can still come on the first", rules: lintForth + lintSlowly, want: "warning rules[0].deploymentDependency.dependsOn 1", fleet: func(s *rollout.Snapshot) {
			s.Versions = append(s.Versions, rollout.Version{ID: "v3", Tag: "v3", Deployment: "db", Status: rollout.VersionReady, CreatedAt: t0})
			for i := range s.Targets {
				if t := &s.Targets[i]; t.Deployment == "db" && t.Resource == "r2" {
					t.Jobs = []rollout.Job{{Run: "1", Version: "v3", Status: rollout.JobInProgress, CreatedAt: t0.Add(-hour)}}
				}
			}
		}},
		{code: rollout.LintDependencyUnmatched, why: "db goes on to v3, past the v2 that web needs", rules: lintForth, fleet: lintNewer("db"), want: "warning rules[0].deploymentDependency.dependsOn 2", says: "db@v3 comes next there, which does not satisfy it"},
		{code: rollout.LintDependencyUnmatched, why: "db may come to v2 first, because its turn in v3 comes later", rules: lintForth + lintSlowly, fleet: lintNewer("db")},
		{code: rollout.LintDependencyUnmatched, why: "db may come to v2 first, because v3 is approved later", rules: lintForth + `,{"id":"a","anyApproval":{"minApprovals":1}}`, fleet: lintNewer("db")},
		{code: rollout.LintDependencyUnmatched, why: "db has begun the v2 that web needs", rules: lintForth, fleet: func(s *rollout.Snapshot) { lintNewer("db")(s); lintStarted("db", "v2")(s) }},
		{code: rollout.LintDependencyUnmatched, why: "a newer version will do as well", rules: lintDependsOn(`"dependsOn":"deployment.name == 'db' && version.tag != 'v1'","appliesTo":"deployment.name == 'web'"`), fleet: lintNewer("db")},
		{code: rollout.LintDependencyUnmatched, why: "a version that comes later will do again", rules: lintDependsOn(`"dependsOn":"deployment.name == 'db' && version.tag in ['v2', 'v4']","appliesTo":"deployment.name == 'web'"`), fleet: func(s *rollout.Snapshot) {
			lintNewer("db")(s)
			s.Versions = append(s.Versions, rollout.Version{ID: "v4", Tag: "v4", Deployment: "db", Status: rollout.VersionReady, CreatedAt: t0.Add(hour)})
		}},
		{code: rollout.LintDependencyUnmatched, why: "of two that are named one comes to what web needs", rules: lintDependsOn(`"dependsOn":"version.tag == 'v2'","appliesTo":"deployment.name == 'web'"`), fleet: lintNewer("db")},
		{code: rollout.LintDependencyUnmatched, why: "all are needed, and one goes on", rules: lintDependsOn(`"dependsOn":"version.tag == 'v2'","appliesTo":"deployment.name == 'web'","match":"all"`), fleet: lintNewer("db"), want: "warning rules[0].deploymentDependency.dependsOn 2", says: "db@v3 comes next there"},
		{code: rollout.LintDependencyUnmatched, why: "db waits for cache itself", rules: lintForth + `,{"id":"e","deploymentDependency":{"dependsOn":"deployment.name == 'cache'","appliesTo":"deployment.name == 'db'"}}`, fleet: lintNewer("db")},
		{code: rollout.LintDependencyUnmatched, why: "db goes on to v3, past the v2 that the version needs", rules: lintWithoutCache, fleet: func(s *rollout.Snapshot) {
			lintNewer("cache")(s)
			lintNeeds("cache", "version.tag == 'v2'")(s)
		}, want: "warning versions[web@v2].dependencies[0].versionSelector 2", says: "cache@v3 comes next there, which does not satisfy it, past the older ones that do; pause the newer version until this one is deployed"},
		{code: rollout.LintDependencyUnmatched, why: "an override may let v2 through first", rules: lintForth, fleet: func(s *rollout.Snapshot) { lintNewer("db")(s); lintOverridden("d", "v2")(s) }},
		{code: rollout.LintDependencyUnmatched, why: "a version needs the first one of its own deployment, and the second comes before it", rules: lintSlowly[1:], fleet: func(s *rollout.Snapshot) {
			lintEmpty(s, "web")
			lintNewer("web")(s)
			s.Versions[len(s.Versions)-1].Dependencies = []rollout.VersionDependency{{Deployment: "web", VersionSelector: "version.tag == 'v1'"}}
		}},
		{code: rollout.LintDependencyUnmatched, why: "a version needs the first one of its own deployment, and the second comes at once", rules: `{"id":"r","retry":{"maxRetries":1}}`, fleet: func(s *rollout.Snapshot) {
			lintEmpty(s, "web")
			lintNewer("web")(s)
			s.Versions[len(s.Versions)-1].Dependencies = []rollout.VersionDependency{{Deployment: "web", VersionSelector: "version.tag == 'v1'"}}
		}, want: "warning versions[web@v3].dependencies[0].versionSelector 2", says: "web@v2 comes next there"},
		{code: rollout.LintDependencyUnmatched, why: "the execution brings a version that is newer still, and needs nothing", rules: lintMains, fleet: func(s *rollout.Snapshot) {
			lintAfter("version.tag == 'v2'")(s)
			s.Versions = append(s.Versions, rollout.Version{ID: "v4", Tag: "v4", Deployment: "web", Status: rollout.VersionReady, CreatedAt: t0})
		}},
		// What is told of several is that of the first.
		{code: rollout.LintSelectorFails, why: "the failure of the first target is told", want: "error rules[0].deploymentDependency.appliesTo 6", says: "type conversion error",
			rules: lintDependsOn(`"dependsOn":"deployment.name == 'db'","appliesTo":"` + lintRackTenth + `"`), fleet: lintRackZero},
		{code: rollout.LintSelectorFails, why: "of a policy as well", more: other("q", lintRackTenth, lintLimited(`"limit":1`)), want: "error selector 6", says: "type conversion error", fleet: lintRackZero},
		{code: rollout.LintCeilExceedsPercent, why: "of two pools that exceed it alike the first is named", rules: lintLimited(`"limit":"20%","groupBy":"resource.kind"`), fleet: lintKinds("a", "a", "a", "b", "b", "b", "b", "b", "b"), want: "info rules[0].resourceConcurrency.limit 0", says: "20% of 3, rounded up, is 1"},
		{code: rollout.LintCeilExceedsPercent, why: "by a hundredth of a percent, of a small share", rules: lintLimited(`"limit":"1%"`), fleet: lintKinds(make([]string, 1099)...), want: "info rules[0].resourceConcurrency.limit 0", says: "1% of 1099, rounded up, is 11, which is just above 1 %;"},
		{code: rollout.LintCurveOverflows, why: "of two environments the one with more turns that never come is named", rules: curve(3_000_000_000, ""), want: "error rules[0].gradualRollout.timeScaleInterval 0", says: "only 3 of 6 turns", fleet: func(s *rollout.Snapshot) {
			lintNodes(6)(s)
			lintWithStaging(s)
			s.Targets = slices.DeleteFunc(s.Targets, func(t rollout.Target) bool { return t.Environment == "prod" && t.Resource > "r4" })
		}},
		{code: rollout.LintSelectorFails, why: "of one target as of several", more: other("q", "resource.name == 'r1' && deployment.name == 'web' && "+lintRack, lintLimited(`"limit":1`)), want: "error selector 1", says: "type conversion error", fleet: lintRacks},
		{code: rollout.LintStuckBeforeRetry, why: "of two delays that are alike the first is told", rules: lintLimited(`"limit":1,"stuckAfterSeconds":300`) + "," + lintMains + "," + retry(`"maxRetries":2,"backoffSeconds":600`) + `,{"id":"t","retry":{"maxRetries":2,"backoffSeconds":600}}`,
			want: "info rules[0].resourceConcurrency.stuckAfterSeconds 0", says: `the rule "r" waits for 10m`},
		{code: rollout.LintBracketRolesDerived, why: "who needs a member for some versions only has a dependency, beside a chain that would have hooks", want: "info rules[0].deploymentBracket.memberRoles 0",
			rules: lintChain + `,{"id":"x","deploymentDependency":{"dependsOn":"deployment.name == 'db' && version.tag == 'v2'","appliesTo":"deployment.name == 'gpu'"}}`, fleet: lintWithGPU},
		{code: rollout.LintBracketRolesDerived, why: "so has whom a member needs for some versions only", want: "warning rules[0].deploymentBracket.memberRoles 0", says: "the dependencies make gpu pre and cache post;",
			rules: lintChain + `,{"id":"x","deploymentDependency":{"dependsOn":"deployment.name == 'gpu' && version.tag == 'v2'","appliesTo":"deployment.name == 'db'"}}`, fleet: lintWithGPU},
		{code: rollout.LintPolicyDisabledState, why: "a key that no rule makes is shown as it is", rules: lintLimited(`"limit":1`), fleet: lintStored("a%zz", false), want: "info state 0", says: `"a%zz" is in no policy`},
		// Paces.
		{code: rollout.LintImmediateStarves, why: "a limit is no rate", rules: lintImmediate + "," + lintLimited(`"limit":1`), fleet: lintReleased(hour, hour, hour)},
		{code: rollout.LintImmediateStarves, why: "one place for two, where each takes as long as it is between two releases", rules: lintImmediate + "," + lintLimited(`"limit":1`), fleet: lintReleased(hour, hour, hour), options: web(hour), want: "warning rules[1].resourceConcurrency.limit 0",
			says: `but an execution takes 1h or longer, and so no more than 1 of 2 resources begin before the next one`},
		{code: rollout.LintImmediateStarves, why: "an instant less, and the second begins before the next release", rules: lintImmediate + "," + lintLimited(`"limit":1`), fleet: lintReleased(hour, hour, hour), options: web(hour - 1)},
		{code: rollout.LintImmediateStarves, why: "the hooks take their time, too", rules: lintImmediate + "," + lintLimited(`"limitType":"percentage","limitValue":50`), fleet: lintReleased(hour, hour, hour), options: all(20 * minute), want: "warning rules[1].resourceConcurrency.limitValue 0"},
		{code: rollout.LintImmediateStarves, why: "two places for two", rules: lintImmediate + "," + lintLimited(`"limit":2`), fleet: lintReleased(hour, hour, hour), options: web(hour)},
		{code: rollout.LintImmediateStarves, why: "two places for four, twice in an hour", rules: lintImmediate + "," + lintLimited(`"limit":2`), fleet: lintReleasedTo(4, hour, hour, hour), options: web(30 * minute)},
		{code: rollout.LintImmediateStarves, why: "two places for five, twice in an hour", rules: lintImmediate + "," + lintLimited(`"limit":2`), fleet: lintReleasedTo(5, hour, hour, hour), options: web(30 * minute), want: "warning rules[1].resourceConcurrency.limit 0", says: "no more than 4 of 5 resources begin"},
		{code: rollout.LintImmediateStarves, why: "of two the one that is down needs no place", rules: lintImmediate + "," + lintLimited(`"limit":1`), options: web(hour), fleet: func(s *rollout.Snapshot) {
			lintReleased(hour, hour, hour)(s)
			s.Unavailable = []string{"r2"}
		}},
		{code: rollout.LintImmediateStarves, why: "a place for each", rules: lintImmediate + "," + lintLimited(`"limit":1,"groupBy":"resource.name"`), fleet: lintReleased(hour, hour, hour), options: web(hour)},
		{code: rollout.LintImmediateStarves, why: "no place at all is another finding", rules: lintImmediate + "," + lintLimited(`"limit":0`), fleet: lintReleased(hour, hour, hour), options: web(hour)},
		{code: rollout.LintImmediateStarves, why: "others are last each time, for the places as well", rules: lintImmediate + "," + lintLimited(`"limit":1`) + "," + curve(0, `,"orderKey":"resource_bracket","orderSalt":"group"`), fleet: lintReleased(hour, hour, hour), options: web(hour)},
		{code: rollout.LintImmediateStarves, why: "a main member that nobody knows the duration of may be done at once", rules: lintMains + "," + lintLimited(`"limit":1`), fleet: lintReleased(hour, hour, hour), options: rollout.LintOptions{Durations: map[string]time.Duration{"web": hour, "db": hour}}},
		{code: rollout.LintImmediateStarves, why: "the shortest of three main members", rules: lintMains + "," + lintLimited(`"limit":1`), fleet: lintReleased(hour, hour, hour), options: rollout.LintOptions{Durations: map[string]time.Duration{"web": 2 * hour, "db": hour, "cache": 3 * hour}}, want: "warning rules[1].resourceConcurrency.limit 0", says: "takes 1h or longer"},
		// kubereboot/kured#620: a fleet for which one window is too short begins anew in the next.
		{code: rollout.LintImmediateStarves, why: "one release a week, and a window for one of two nodes", rules: lintImmediate + "," + lintLimited(`"limit":1`) + "," + sundays(""), fleet: lintReleased(week, week, week), options: web(2 * hour), want: "warning rules[1].resourceConcurrency.limit 0", says: "releases come every 168h or faster"},
		{code: rollout.LintImmediateStarves, why: "the second begins an instant before the window closes", rules: lintImmediate + "," + lintLimited(`"limit":1`) + "," + sundays(""), fleet: lintReleased(week, week, week), options: web(2*hour - 1)},
		{code: rollout.LintImmediateStarves, why: "two windows before the next release", rules: lintImmediate + "," + lintLimited(`"limit":1`) + "," + sundays(""), fleet: lintReleased(2*week, 2*week, 2*week), options: web(2 * hour)},
		{code: rollout.LintImmediateStarves, why: "a freeze that shortens one window is no measure", rules: lintImmediate + "," + lintLimited(`"limit":1`) + "," + sundays("") + `,{"id":"f","deploymentWindow":{"from":"2025-01-26T03:00:00Z","until":"2025-03-01T00:00:00Z","allowWindow":false}}`, fleet: lintReleased(week, week, week), options: web(2*hour - 1)},
		{code: rollout.LintImmediateStarves, why: "the second begins while exactly as much is left of the window as is asked for", rules: lintImmediate + "," + lintLimited(`"limit":1`) + "," + sundays(`,"minimumRemainingMinutes":60`), fleet: lintReleased(week, week, week), options: web(hour)},
		{code: rollout.LintImmediateStarves, why: "for the second an instant too little is left of the window", rules: lintImmediate + "," + lintLimited(`"limit":1`) + "," + sundays(`,"minimumRemainingMinutes":60`), fleet: lintReleased(week, week, week), options: web(hour + 1), want: "warning rules[1].resourceConcurrency.limit 0"},
		{code: rollout.LintImmediateStarves, why: "jobs start at one instant a week alone", rules: lintImmediate + "," + lintLimited(`"limit":1`) + "," + sundays(`,"minimumRemainingMinutes":120`), fleet: lintReleased(week, week, week), options: web(minute), want: "warning rules[1].resourceConcurrency.limit 0", says: "no more than 1 of 2 resources"},
		{code: rollout.LintImmediateStarves, why: "the window is for one of two nodes", rules: lintImmediate + "," + lintLimited(`"limit":1`), more: other("q", "resource.name == 'r2'", sundays("")), fleet: lintReleased(week, week, week), options: web(2 * hour)},
		{code: rollout.LintImmediateStarves, why: "hooks are in no window, and nothing begins without a main member", rules: lintImmediate + "," + lintLimited(`"limit":1`), more: other("q", "deployment.name == 'web'", sundays("")), fleet: lintReleased(week, week, week), options: web(2 * hour), want: "warning [0].rules[1].resourceConcurrency.limit 0"},
		{code: rollout.LintImmediateStarves, why: "between the openings of one night a release comes every minute", rules: lintImmediate + "," + lintLimited(`"limit":1`) + "," + sundays(""), fleet: lintReleased(minute, minute, minute), options: web(minute), want: "warning rules[1].resourceConcurrency.limit 0", says: "takes 1m or longer", horizon: 40 * 365 * 24 * hour},
		{code: rollout.LintImmediateStarves, why: "the last turn comes when the window has closed", rules: lintImmediate + "," + sundays("") + "," + curve(7200, `,"orderKey":"resource_bracket"`), fleet: lintReleased(week, week, week), want: "warning rules[2].gradualRollout.orderSalt 0", says: "the last of 2 resources is due after 2h of open time, of which the windows have 2h at most before the next group"},
		{code: rollout.LintImmediateStarves, why: "the last turn comes a second before the window closes", rules: lintImmediate + "," + sundays("") + "," + curve(7199, `,"orderKey":"resource_bracket"`), fleet: lintReleased(week, week, week)},
		{code: rollout.LintImmediateStarves, why: "the last turn comes in the second window", rules: lintImmediate + "," + sundays("") + "," + curve(7200, `,"orderKey":"resource_bracket"`), fleet: lintReleased(2*week, 2*week, 2*week)},
		{code: rollout.LintImmediateStarves, why: "in windows that never close it is as without them", rules: lintImmediate + `,{"id":"w","deploymentWindow":{"rrule":"FREQ=DAILY;BYHOUR=0","durationMinutes":1440}},` + curve(3600, `,"orderKey":"resource_bracket"`), fleet: lintReleased(hour, hour, hour), want: "warning rules[2].gradualRollout.orderSalt 0", says: "is due 1h after a group closes"},
		{code: rollout.LintImmediateStarves, why: "a curve beside the rate that has the same ones last each time", rules: lintImmediate + "," + lintLimited(`"limit":2,"rate":{"limit":1,"periodSeconds":3600}`) + "," + curve(0, `,"orderKey":"resource_bracket"`), fleet: lintReleased(hour, hour, hour), want: "warning rules[1].resourceConcurrency.rate 0"},
		{code: rollout.LintImmediateStarves, why: "an instant more than an hour, and at times both begin between two releases", rules: lintImmediate + "," + lintLimited(`"limit":2,"rate":{"limit":1,"periodSeconds":3600}`), fleet: lintReleased(hour+1, hour+1, hour+1)},
		{code: rollout.LintMergeBudgetUnused, why: "one after the other it takes so long that the count begins again", rules: merging("3600") + "," + lintLimited(`"limit":1`), fleet: lintNodes(4), options: rollout.LintOptions{Durations: map[string]time.Duration{"web": 1 << 62, "db": 0, "cache": 0}}},
		{code: rollout.LintMergeBudgetUnused, why: "the bracket of another policy, which queues, has nothing to merge", want: "info [1].rules[0].deploymentBracket.overlapStrategy 0", options: all(2 * minute),
			more: other("p", "deployment.name == 'db'", lintDBAlone) + "," + other("q", "deployment.name == 'web'", strings.NewReplacer(`"b"`, `"z"`, lintHooks, `"memberRoles":{}`).Replace(merging("3600")))},
		{code: rollout.LintMergeBudgetUnused, why: "staging has a curve of two steps, and prod of none", rules: merging("7200"), options: all(2 * minute), want: "info [0].rules[0].deploymentBracket.overlapStrategy 0", says: "done everywhere after 1h2m", more: other("q", "true", curve(1800, `,"orderKey":"resource"`)), fleet: func(s *rollout.Snapshot) {
			*s = inEnvironments(fleet(3, "v1", map[string][]string{"web": {"v1", "v2"}}), "staging")
			s.Targets = slices.DeleteFunc(s.Targets, func(t rollout.Target) bool { return t.Environment == "prod" && t.Resource != "r1" })
		}},
		{code: rollout.LintFailureBudgetUnreachable, why: "half of one is none, and the first failure holds", rules: `{"id":"f","failureBudget":{"maxFailures":"50%"}},` + curve(60, ""), fleet: lintNodes(1)},
		{code: rollout.LintStuckBeforeRetry, why: "two members are several", rules: lintLimited(`"limit":1,"stuckAfterSeconds":300`) + "," + retry(`"maxRetries":2,"backoffSeconds":600`) + "," + strings.Replace(lintMains, `"true"`, `"deployment.name != 'cache'"`, 1), want: "info rules[0].resourceConcurrency.stuckAfterSeconds 0"},
		{code: rollout.LintStuckBeforeRetry, why: "no member takes a slot of the rule", rules: `{"id":"c","resourceConcurrency":{"groupSelector":"resource.name == 'r9'","limit":1,"stuckAfterSeconds":300}},` + retry(`"maxRetries":2,"backoffSeconds":600`) + "," + lintMains},
		{code: rollout.LintStuckBeforeRetry, why: "the several members are those of another bracket", rules: strings.Replace(lintDBAlone, `"memberRoles"`, `"stuckAfterSeconds":300,"memberRoles"`, 1) + "," + retry(`"maxRetries":2,"backoffSeconds":600`),
			more: other("q", "deployment.name != 'db'", strings.Replace(lintMains, `"b"`, `"others"`, 1))},
		{code: rollout.LintStuckBeforeRetry, why: "a second is a deadline", rules: lintLimited(`"limit":1,"stuckAfterSeconds":1`) + "," + retry(`"maxRetries":2,"backoffSeconds":1`) + "," + lintMains, want: "info rules[0].resourceConcurrency.stuckAfterSeconds 0"},
		{code: rollout.LintLimitZero, why: "one percent, rounded down", rules: lintLimited(`"limit":"1%","rounding":"floor"`), want: "error rules[0].resourceConcurrency.limit 6", says: "1% of 2, rounded by floor, is 0: nobody starts"},
		{code: rollout.LintLimitZero, why: "a limit of one is not to blame for a rate of none", rules: lintLimited(`"limit":1,"rounding":"floor","rate":{"limit":"20%","periodSeconds":3600}`), want: "error rules[0].resourceConcurrency.rate.limit 6"},
		{code: rollout.LintCurveLongerThanWindowPeriod, why: "ranked by target, each of two deployments has one turn", rules: curve(7200, "") + `,{"id":"w","deploymentWindow":{"rrule":"FREQ=DAILY","durationMinutes":60,"anchor":"2025-01-01T09:00:00Z"}}`, fleet: func(s *rollout.Snapshot) {
			s.Targets = slices.DeleteFunc(s.Targets, func(t rollout.Target) bool {
				return t.Deployment == map[string]string{"r1": "web", "r2": "db"}[t.Resource] || t.Deployment == "cache"
			})
		}},
		{code: rollout.LintCurveLongerThanWindowPeriod, why: "the members of the bracket that it ranks", rules: lintMains + "," + curve(7200, `,"orderKey":"resource_bracket"`) + `,{"id":"w","deploymentWindow":{"rrule":"FREQ=DAILY","durationMinutes":60,"anchor":"2025-01-01T09:00:00Z"}}`, want: "warning rules[1].gradualRollout.timeScaleInterval 6"},
		{code: rollout.LintProgressionUnreachable, why: "staging failed with it for good, in a bracket that runs it again", more: lintProves("") + "," + lintInStaging(`"unchangedMemberStrategy":"redeploy_current",`), fleet: lintAdopted(func(_ *rollout.Snapshot, t *rollout.Target) {
			t.Jobs = []rollout.Job{{Run: "1/deploy", Version: "v1", Status: rollout.JobFailure, CreatedAt: t0.Add(-hour), CompletedAt: t0.Add(-hour)}}
		})},
		{code: rollout.LintProgressionUnreachable, why: "it failed with a job of which the bracket does not know", more: lintProves("") + "," + lintInStaging(""), fleet: lintAdopted(func(_ *rollout.Snapshot, t *rollout.Target) {
			t.Current, t.Jobs = "", []rollout.Job{{Run: "1", Version: "v1", Status: rollout.JobFailure, CreatedAt: t0.Add(-hour), CompletedAt: t0.Add(-hour)}}
		})},
		// Expressions.
		{code: rollout.LintSelectorMatchesNothing, why: "the first version of a deployment that nobody runs yet is for nobody", rules: lintLimited(`"limit":1`), want: "warning versions[web@v1].targetSelector 0", fleet: func(s *rollout.Snapshot) {
			lintEmpty(s, "web")
			for i := range s.Versions {
				if v := &s.Versions[i]; v.Deployment == "web" && v.ID == "v1" {
					v.TargetSelector = "resource.name == 'r9'"
				}
			}
		}},
		{code: rollout.LintSelectorMatchesNothing, why: "who runs what is not listed may get any version", rules: lintLimited(`"limit":1`), want: "warning versions[web@v2].targetSelector 0", fleet: func(s *rollout.Snapshot) {
			lintRuns(s, "web", "v0")
			lintScoped("resource.name == 'r9'")(s)
		}},
		{code: rollout.LintSelectorUnknownKeys, why: "only r2 is asked for it", rules: lintDependsOn(`"dependsOn":"deployment.name == 'db'","appliesTo":"resource.name == 'r1' || resource.metadata['zone'] == 'x'"`), want: "warning rules[0].deploymentDependency.appliesTo 0"},
		{code: rollout.LintSelectorUnknownKeys, why: "only what runs is asked for it, and was withdrawn", rules: lintDependsOn(`"dependsOn":"version.tag == 'v1' && version.metadata['soak'] == 'done'"`), want: "warning rules[0].deploymentDependency.dependsOn 0", fleet: func(s *rollout.Snapshot) {
			for i := range s.Versions {
				if v := &s.Versions[i]; v.ID == "v1" {
					v.Status = "withdrawn"
				}
			}
		}},
		{code: rollout.LintOnStuckNever, why: "without targets the policies are judged by themselves", rules: lintLimited(`"limit":1,"onStuck":"quarantine"`), want: "warning rules[0].resourceConcurrency.onStuck 0", fleet: func(s *rollout.Snapshot) { s.Targets = nil }},
	}
}

func TestLint(t *testing.T) {
	t.Parallel()
	found, spared := map[rollout.LintCode]bool{}, map[rollout.LintCode]bool{}
	names := map[string]bool{}
	var all strings.Builder // whole sentences, to be read
	for _, row := range lintRows() {
		name := string(row.code) + ": " + row.why
		if row.why == "" || names[name] {
			t.Errorf("%s: a row needs a reason of its own", name)
		}
		names[name] = true
		var got []string
		fmt.Fprintf(&all, "%s\n", name)
		for _, f := range row.lint(t) {
			if fmt.Fprintf(&all, "  %s\n", f); f.Code == row.code {
				got = append(got, fmt.Sprintf("%s %s %d", f.Severity, f.Path, f.Targets))
				if said := f.Detail + "; " + f.Fix; !strings.Contains(said, row.says) {
					t.Errorf("%s: %q does not say %q", name, said, row.says)
				}
				if f.Detail == "" || f.Fix == "" || (f.Targets > 0) != (f.Example != rollout.TargetID{}) {
					t.Errorf("%s: a finding without detail, fix or the example of its targets: %+v", name, f)
				}
			}
		}
		want := []string{}
		if row.want != "" {
			want = append(want, row.want)
			found[row.code] = true
		} else {
			spared[row.code] = true
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	golden.Check(t, "lint.txt", all.String())
	codes := lintCodes(t)
	if len(codes) < 35 {
		t.Fatalf("only %d codes", len(codes))
	}
	for _, code := range codes {
		if !found[code] || !spared[code] {
			t.Errorf("%s: found by a row: %v, spared by a row: %v; both are needed", code, found[code], spared[code])
		}
	}
}

// TestLintLooksAtNoFreeze: what can never finish does not depend on who has frozen what, which is no
// policy.
func TestLintLooksAtNoFreeze(t *testing.T) {
	t.Parallel()
	for _, row := range lintRows() {
		want := fmt.Sprint(row.lint(t))
		fleet := row.fleet
		row.fleet = func(s *rollout.Snapshot) {
			if fleet != nil {
				fleet(s)
			}
			s.Freezes = []rollout.Freeze{freeze(), freeze(finishing, func(z *rollout.Freeze) { z.ID = "later" }, thaws(minute(60)))}
		}
		if got := fmt.Sprint(row.lint(t)); got != want {
			t.Errorf("%s: %s: frozen\n%s\nwithout\n%s", row.code, row.why, got, want)
		}
	}
}

// lintCodes reads the codes from the source, so that none is forgotten; each has a comment that
// says what it means.
func lintCodes(t *testing.T) []rollout.LintCode {
	t.Helper()
	source, err := os.ReadFile("lint_code.go")
	if err != nil {
		t.Fatal(err)
	}
	var codes []rollout.LintCode
	for _, m := range regexp.MustCompile(`(?m)(^\t// .*\n)?^\tLint\w+ LintCode = "(\w+)"$`).FindAllStringSubmatch(string(source), -1) {
		if m[1] == "" {
			t.Errorf("%s has no comment", m[2])
		}
		codes = append(codes, rollout.LintCode(m[2]))
	}
	return codes
}

// TestLintRolesOfAnyID: the roles that lint writes down are those that the dependencies make, whatever
// an id holds, and a terminal that shows them obeys none of it.
func TestLintRolesOfAnyID(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ id, pre, why string }{
		{"db", `"deployment.id == 'db'"`, "a plain id"},
		{`d'b\`, `"deployment.id == 'd\\'b\\\\'"`, "the end of a literal, and the beginning of an escape"},
		{"d\nb\r\t", `"deployment.id == 'd\\nb\\r\\t'"`, "a literal of one line"},
		{"d\x00\x1bb", `"deployment.id == 'd\\u0000\\u001bb'"`, "an escape sequence"},
		{"d\u009bb\x7f", `"deployment.id == 'd\\u009bb\\u007f'"`, "control characters that JSON lets pass"},
	} {
		bracketed := func(roles string) lintRow {
			return lintRow{why: row.why, fleet: lintRenamed("db", row.id),
				rules: `{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate"` + roles + `}},` +
					lintDependsOn(`"dependsOn":"deployment.name == 'db'","appliesTo":"deployment.name == 'web'"`) + `,{"id":"e","deploymentDependency":{"dependsOn":"deployment.name == 'web'","appliesTo":"deployment.name == 'cache'"}}`}
		}
		want := `"memberRoles": {"pre":` + row.pre + `,"post":"deployment.id == 'cache'"}`
		var fixes []string
		for _, f := range bracketed("").lint(t) {
			if f.Code == rollout.LintBracketRolesDerived {
				fixes = append(fixes, f.Fix)
			}
		}
		if !slices.Equal(fixes, []string{"write " + want}) {
			t.Errorf("%s: %q, want %q", row.why, fixes, "write "+want)
		}
		for _, f := range bracketed("," + want).lint(t) {
			if f.Code == rollout.LintBracketRolesDerived || f.Code == rollout.LintSelectorMatchesNothing {
				t.Errorf("%s: %s, with what was to be written", row.why, f)
			}
		}
	}
}

// TestLintMergeBesideHostRules: a rule of the host may delay a start for any time, so that nothing
// is said of merges that would not happen without it.
func TestLintMergeBesideHostRules(t *testing.T) {
	t.Parallel()
	const merging = `{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessWindowSeconds":3600,"overlapStrategy":"merge","preparedStatePersists":true,` + lintHooks + `}}`
	durations := map[string]time.Duration{"web": time.Minute, "db": time.Minute, "cache": time.Minute}
	for _, row := range []struct {
		why     string
		options []rollout.Option
		want    bool
	}{
		{"the policies alone", nil, true},
		{"and a rule of the host", []rollout.Option{rollout.WithRule(hostRule{"x", frozenUntil(minute(7))})}, false},
	} {
		findings, err := compile(t, policy(merging), row.options...).Lint(lintFleet(), t0, 30*24*time.Hour, rollout.LintOptions{Durations: durations})
		if err != nil {
			t.Fatal(err)
		}
		if got := slices.ContainsFunc(findings, func(f rollout.Finding) bool { return f.Code == rollout.LintMergeBudgetUnused }); got != row.want {
			t.Errorf("%s: said is %t, want %t: %v", row.why, got, row.want, findings)
		}
	}
}

// TestLintBracketMeetsTwo: the last of three brackets meets both others on each node, with its drain and
// with its uncordon. The first of the two is told, whichever of the hooks it meets.
func TestLintBracketMeetsTwo(t *testing.T) {
	t.Parallel()
	bracket := func(id, members, roles string) string {
		return `{"name":"` + id + `","selector":"true","rules":[{"id":"` + id + `","deploymentBracket":{"deploymentSelector":"deployment.name in [` + members + `]","readinessMode":"immediate","memberRoles":{` + roles + `}}}]}`
	}
	last := bracket("z", "'cache','main-cache','after'", `"pre":"deployment.name == 'cache'","post":"deployment.name == 'after'"`)
	for _, roles := range [][]string{{"pre", "post"}, {"post", "pre"}} {
		set := compile(t, "["+bracket("b", "'db','main-db'", `"`+roles[0]+`":"deployment.name == 'db'"`)+","+bracket("y", "'web','main-web'", `"`+roles[1]+`":"deployment.name == 'web'"`)+","+last+"]")
		s := fleet(2, "v1", map[string][]string{"web": {"v1"}, "db": {"v1"}, "cache": {"v1"}, "after": {"v1"}, "main-web": {"v1"}, "main-db": {"v1"}, "main-cache": {"v1"}})
		findings, err := set.Lint(s, t0, time.Hour, rollout.LintOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var told []string
		for _, f := range findings {
			if f.Code == rollout.LintBracketsSideBySide {
				told = append(told, f.Rule)
				if !strings.Contains(f.Detail, `where "b" has hooks too`) {
					t.Errorf("%v: %s", roles, f)
				}
			}
		}
		if !slices.Equal(told, []string{"y", "z"}) {
			t.Errorf("%v: told of %q", roles, told)
		}
	}
}

// TestLintBudgetBesideHostRules: a rule of the host may spread the starts, so that nothing is said of
// a budget without a curve.
func TestLintBudgetBesideHostRules(t *testing.T) {
	t.Parallel()
	for want, options := range map[bool][]rollout.Option{true: nil, false: {rollout.WithRule(hostRule{"x", frozenUntil(minute(7))})}} {
		findings, err := compile(t, budget(`"maxFailures":0`), options...).Lint(lintFleet(), t0, 30*24*time.Hour, rollout.LintOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got := slices.ContainsFunc(findings, func(f rollout.Finding) bool { return f.Code == rollout.LintFailureBudgetUnpaced }); got != want {
			t.Errorf("with %d options said is %t: %v", len(options), got, findings)
		}
	}
}

// TestLintTellsApart: two findings of one code about one field stay two if one is worse, or about
// another rule.
func TestLintTellsApart(t *testing.T) {
	t.Parallel()
	inBracket := func(id, deployment, rules string) string {
		return `{"name":"` + id + `","selector":"deployment.name == '` + deployment + `'","rules":[{"id":"` + id + `","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}}` + rules + `]}`
	}
	for _, row := range []struct {
		why, rules string
		more       string // policies
		take       func(*rollout.Snapshot)
		want       []string
	}{
		{"r1 has no db at all, and r2 none that will do", `{"id":"d","deploymentDependency":{"dependsOn":"deployment.name == 'db' && version.tag == 'v9'","appliesTo":"deployment.name == 'web'"}}`, "", lintLacking("db", "r1"),
			[]string{"error dependency_unmatched rules[0].deploymentDependency.dependsOn 1", "warning dependency_unmatched rules[0].deploymentDependency.dependsOn 1"}},
		{"so it is with members, which a version orders on r2 alone", lintMains + `,{"id":"d","deploymentDependency":{"dependsOn":"deployment.name == 'db' && version.tag == 'v9'","appliesTo":"deployment.name == 'web'"}}`, "", lintLacking("db", "r1"),
			[]string{"error dependency_unmatched rules[1].deploymentDependency.dependsOn 1", "warning dependency_unmatched rules[1].deploymentDependency.dependsOn 1"}},
		{"the last pool has members in common with each of the others", lintLimited(`"limit":1`) + `,{"id":"d","resourceConcurrency":{"groupSelector":"true","limit":1}},{"id":"e","resourceConcurrency":{"groupSelector":"true","limit":1}}`, "", func(*rollout.Snapshot) {},
			[]string{"info pools_overlap_unshared rules[1].resourceConcurrency.groupSelector 0", "info pools_overlap_unshared rules[2].resourceConcurrency.groupSelector 0", "info pools_overlap_unshared rules[2].resourceConcurrency.groupSelector 0"}},
		{"the last bracket claims what each of the others has", "", inBracket("a", "web", "") + "," + inBracket("b", "db", "") + "," + policy(`{"id":"c","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}}`), func(*rollout.Snapshot) {},
			[]string{"error bracket_overlapping [2].rules[0].deploymentBracket.deploymentSelector 2", "error bracket_overlapping [2].rules[0].deploymentBracket.deploymentSelector 2"}},
		{"two brackets hold, and one rule is for the members of both", "", inBracket("a", "web", "") + "," + inBracket("b", "db", "") + "," + policy(`{"id":"r","rollback":{"onJobStatuses":["failure"]}}`), func(*rollout.Snapshot) {},
			[]string{"warning rollback_with_hold [2].rules[0].rollback 2", "warning rollback_with_hold [2].rules[0].rollback 2"}},
		{"the drain needs two that run after it", lintImmediate + "," + lintDependsOn(`"dependsOn":"deployment.name in ['web', 'cache']","appliesTo":"deployment.name == 'db'"`), "", func(*rollout.Snapshot) {},
			[]string{"error dependency_across_roles rules[1].deploymentDependency.dependsOn 2", "error dependency_across_roles rules[1].deploymentDependency.dependsOn 2"}},
		{"who waits is not known on r2, and on r1 what for", lintDependsOn(`"dependsOn":"deployment.name == 'db' && int(version.tag) > 1","appliesTo":"deployment.name == 'web' && (resource.name == 'r1' || int(resource.metadata['cluster']) > 3)"`), "", func(*rollout.Snapshot) {},
			[]string{"error selector_fails rules[0].deploymentDependency.appliesTo 1", "warning selector_fails rules[0].deploymentDependency.dependsOn 1"}},
	} {
		codes := []rollout.LintCode{rollout.LintSelectorFails, rollout.LintDependencyUnmatched, rollout.LintPoolsOverlapUnshared, rollout.LintBracketOverlapping, rollout.LintRollbackWithHold, rollout.LintDependencyAcrossRoles}
		var got []string
		for _, f := range (lintRow{rules: row.rules, more: row.more, fleet: row.take}).lint(t) {
			if slices.Contains(codes, f.Code) {
				got = append(got, fmt.Sprintf("%s %s %s %d", f.Severity, f.Code, f.Path, f.Targets))
			}
		}
		if !slices.Equal(got, row.want) {
			t.Errorf("%s: %q", row.why, got)
		}
	}
}

// TestLintTellsEach: what is said of one field, in other words of other targets, is said of each. Only
// the first of them was, and counted the targets of all.
func TestLintTellsEach(t *testing.T) {
	t.Parallel()
	needs := func(id, who, environment, whom string) string {
		return `{"id":"` + id + `","deploymentDependency":{"dependsOn":"deployment.name == '` + whom + `'","appliesTo":"deployment.name == '` + who + `' && environment.name == '` + environment + `'"}}`
	}
	sunday := `{"id":"v","deploymentWindow":{"weekly":{"days":["sun"],"start":"02:00","end":"04:00"}}}`
	for _, row := range []struct {
		why, policies string
		fleet         func(*rollout.Snapshot)
		code          rollout.LintCode
		want          []string // parts of the details
	}{
		{"the windows of p meet neither those of q nor those of r", "[" + policy(lintOffice) + `,{"name":"q","selector":"deployment.name == 'web'","rules":[` + sunday + `]},{"name":"r","selector":"deployment.name == 'db'","rules":[` + strings.Replace(sunday, `"v"`, `"x"`, 1) + "]}]",
			func(*rollout.Snapshot) {}, rollout.LintWindowNeverOpens, []string{"the windows of p, q are never open together", "the windows of p, r are never open together"}},
		{"the windows open not for long enough and, for who waits for fewer of them, not at all", policy(strings.Replace(lintPast, `}}`, `,"firstDeploy":"apply"}}`, 1) + `,{"id":"v","deploymentWindow":{"from":"2025-01-02T00:00:00Z","until":"2025-01-02T01:00:00Z","minimumRemainingMinutes":120}}`),
			func(s *rollout.Snapshot) { lintEmpty(s, "web") }, rollout.LintWindowNeverOpens, []string{"never open for the 2h", "never open within"}},
		{"members wait for one another here and there, and not the same ones", policy(lintMains + "," + needs("1", "web", "prod", "db") + "," + needs("2", "db", "prod", "web") + "," + needs("3", "web", "staging", "cache") + "," + needs("4", "cache", "staging", "web")),
			lintWithStaging, rollout.LintDependencyCycle, []string{"in prod db needs web needs db", "in staging cache needs web needs cache"}},
		{"the dependencies make other hooks there", policy(`{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate"}},` + needs("1", "web", "prod", "db") + "," + needs("2", "cache", "prod", "web") + "," + needs("3", "web", "staging", "cache") + "," + needs("4", "db", "staging", "web")),
			lintWithStaging, rollout.LintBracketRolesDerived, []string{"in prod the dependencies make db pre and cache post", "in staging the dependencies make cache pre and db post"}},
		{"the same hooks are told of once", policy(lintChain), lintWithStaging, rollout.LintBracketRolesDerived, []string{"in prod, staging the dependencies make db pre and cache post"}},
		{"another hook lacks a version there", policy(lintImmediate), func(s *rollout.Snapshot) {
			lintWithStaging(s)
			lintEmpty(s, "db")
			lintEmpty(s, "cache")
			for i := range s.Versions {
				switch s.Versions[i].Deployment {
				case "db":
					s.Versions[i].TargetSelector = "environment.name == 'prod'"
				case "cache":
					s.Versions[i].TargetSelector = "environment.name == 'staging'"
				}
			}
		}, rollout.LintBracketHookWithoutVersion, []string{"starting: cache", "starting: db"}},
		{"the version that web needs is passed on r1, and replaced on r2", policy(lintMains), func(s *rollout.Snapshot) {
			lintNeeds("db", "version.tag == 'v1'")(s)
			for i := range s.Targets {
				if own := &s.Targets[i]; own.Deployment == "db" && own.Resource == "r1" {
					own.Current = "v2"
				}
			}
		}, rollout.LintDependencyUnmatched, []string{"no version of db that is deployed, or may be, satisfies it", `the execution of "b" that brings the version brings one of db that does not satisfy it`}},
		{"another circle on another resource", policy(lintDependsOn(`"dependsOn":"deployment.name == 'db' && version.tag == 'v2'","appliesTo":"deployment.name != 'db'"`) + `,{"id":"e","deploymentDependency":{"dependsOn":"deployment.name != 'db' && version.tag == 'v2'","appliesTo":"deployment.name == 'db'"}}`),
			func(s *rollout.Snapshot) { lintLacking("cache", "r1")(s); lintLacking("web", "r2")(s) }, rollout.LintDependencyCycle, []string{"cache needs db, db needs cache", "db needs web, web needs db"}},
	} {
		s := lintFleet()
		row.fleet(&s)
		findings, err := compile(t, row.policies, withZones()).Lint(s, t0, 30*24*time.Hour, rollout.LintOptions{})
		if err != nil {
			t.Fatalf("%s: %v", row.why, err)
		}
		var got []string
		for _, f := range findings {
			if f.Code == row.code {
				got = append(got, f.Detail)
			}
		}
		if !slices.EqualFunc(got, row.want, strings.Contains) {
			t.Errorf("%s: %q", row.why, got)
		}
	}
}

// TestLintDeadlines: a deadline is over before the soaks of several rules are. Each finding names a
// soak of the targets that it is about, and the one that makes it an error if there is one.
func TestLintDeadlines(t *testing.T) {
	t.Parallel()
	prod := func(name, deployment, rule string) string {
		return fmt.Sprintf(`{"name":%q,"selector":"environment.name == 'prod' && deployment.name == '%s'","rules":[%s]}`, name, deployment, rule)
	}
	half := lintProgression("y", lintStaging, `,"minimumSoakTimeMinutes":120,"minimumSuccessPercentage":50`)
	for _, row := range []struct {
		why, policies string
		want          []string
	}{
		{"db always waits for one rule, and web mostly for another", strings.Join([]string{
			`{"name":"a","selector":"environment.name == 'prod'","rules":[` + lintProgression("x", lintStaging, `,"maximumAgeHours":1`) + `]}`,
			prod("b", "web", half), prod("c", "db", lintProgression("z", lintStaging, `,"minimumSoakTimeMinutes":60`)),
		}, ","), []string{`error 2 minimumSoakTimeMinutes 60 of "z":`, `warning 2 minimumSoakTimeMinutes 120 of "y":`}},
		{"the first rule mostly keeps web waiting, and the second always", prod("a", "web", half) + "," + prod("b", "web", lintProgression("x", lintStaging, `,"maximumAgeHours":1,"minimumSoakTimeMinutes":60`)),
			[]string{`error 2 minimumSoakTimeMinutes 60:`}},
	} {
		var got []string
		for _, f := range (lintRow{more: row.policies, fleet: lintWithStaging}).lint(t) {
			if f.Code == rollout.LintDeadlineBelowSoak {
				soak := f.Detail[strings.Index(f.Detail, "minimumSoak"):]
				got = append(got, fmt.Sprintf("%s %d %s", f.Severity, f.Targets, soak[:strings.Index(soak, ":")+1]))
			}
		}
		if !slices.Equal(got, row.want) {
			t.Errorf("%s: %q, want %q", row.why, got, row.want)
		}
	}
}

// TestLintFarAhead: past the changes of the clock that are recorded, years are told apart by rule.
// Lint of a horizon with December 31 of a leap year in it went round for ever.
func TestLintFarAhead(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		zone, now, until string
		more             string // how the count is told
	}{
		{"Europe/Berlin", "2039-06-01T00:00:00Z", "2043-06-01T00:00:00Z", "and 7 times more"},
		{"Europe/Berlin", "2041-03-31T01:00:00Z", "2041-03-31T02:00:00Z", "the end of the gap;"}, // at the very instant of the change
		{"Europe/Berlin", "2040-12-31T12:00:00Z", "2041-12-31T12:00:00Z", "and once more"},
		{"Europe/Berlin", "2040-10-01T00:00:00Z", "2041-01-02T00:00:00Z", "the first pass is meant;"},
		{"Australia/Sydney", "2039-06-01T00:00:00Z", "2043-06-01T00:00:00Z", "and 7 times more"},
		{"Asia/Tokyo", "2039-06-01T00:00:00Z", "2043-06-01T00:00:00Z", ""},
	} {
		now, err := time.Parse(time.RFC3339, row.now)
		if err != nil {
			t.Fatal(err)
		}
		until, err := time.Parse(time.RFC3339, row.until)
		if err != nil {
			t.Fatal(err)
		}
		rules := fmt.Sprintf(`{"id":"w","deploymentWindow":{"weekly":{"days":["sun"],"start":"02:30","end":"04:30"},"timezone":%q}}`, row.zone)
		findings, err := compile(t, policy(rules), withZones()).Lint(lintFleet(), now, until.Sub(now), rollout.LintOptions{})
		if err != nil {
			t.Fatal(err)
		}
		told := ""
		for _, f := range findings {
			if f.Code == rollout.LintWindowClockChange {
				told = f.String()
			}
		}
		if !strings.Contains(told, row.more) || (told == "") != (row.more == "") {
			t.Errorf("%s from %s to %s: %q, want %q", row.zone, row.now, row.until, told, row.more)
		}
	}
}

// TestLintErrors: what is asked wrongly is said, and a snapshot that contradicts itself is not
// looked at.
func TestLintErrors(t *testing.T) {
	set := compile(t, policy(lintLimited(`"limit":1`)))
	s := lintFleet()
	for _, horizon := range []time.Duration{0, -1} {
		_, err := set.Lint(s, t0, horizon, rollout.LintOptions{Durations: map[string]time.Duration{"web": -1, "api": 0, "a": -2}})
		var paths []string
		for _, one := range joined(err) {
			if fault := (*rollout.FieldError)(nil); errors.As(one, &fault) && fault.Code == rollout.CodeOutOfRange {
				paths = append(paths, fault.Path)
			}
		}
		if !slices.Equal(paths, []string{"horizon", "durations[a]", "durations[web]"}) {
			t.Errorf("horizon %v and negative durations: %v", horizon, err)
		}
	}
	if _, err := set.Lint(s, t0, 1, rollout.LintOptions{Durations: map[string]time.Duration{"web": 0}}); err != nil {
		t.Errorf("no time at all: %v", err)
	}
	s.Targets = append(s.Targets, s.Targets[0])
	var fault *rollout.FieldError
	if _, err := set.Lint(s, t0, 1, rollout.LintOptions{}); !errors.As(err, &fault) {
		t.Errorf("a target twice: %v", err)
	}
	findings, err := set.Lint(rollout.Snapshot{}, t0, 1, rollout.LintOptions{})
	if err != nil || len(findings) > 0 {
		t.Errorf("nothing at all: %v, %v", findings, err)
	}
}

// TestLintHostRecurrence: what cannot be followed to the end of a period is not measured.
func TestLintHostRecurrence(t *testing.T) {
	parsed, err := rollout.ParsePolicies([]byte(policy(`{"id":"g","gradualRollout":{"rolloutType":"linear","timeScaleInterval":500000}},` + lintOffice)))
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		steps, want int
		why         string
	}{
		{1000, 1, "an hour of six, for 250 days"},
		{3, 0, "it stands still after three openings"},
	} {
		end := t0.Add(time.Duration(row.steps) * 6 * time.Hour)
		parsed[0].Rules[1].DeploymentWindow.Window = clock.Window{DurationMinutes: 60, Recurrence: lintRecurrence(func(at time.Time) time.Time {
			if !at.Before(end) {
				return at
			}
			return at.Truncate(6 * time.Hour).Add(6 * time.Hour)
		})}
		set, err := rollout.Compile(parsed, newEnv(t))
		if err != nil {
			t.Fatal(err)
		}
		findings, err := set.Lint(lintFleet(), t0, 30*24*time.Hour, rollout.LintOptions{})
		if err != nil {
			t.Fatal(err)
		}
		findings = slices.DeleteFunc(findings, func(f rollout.Finding) bool { return f.Code != rollout.LintCurveLongerThanWindowPeriod })
		if len(findings) != row.want {
			t.Errorf("%s: %v", row.why, findings)
		}
	}
}

// TestLintScopeInclude: a host that lets a version through where its expression fails reads that,
// and not the opposite.
func TestLintScopeInclude(t *testing.T) {
	for _, selector := range []string{lintRack, "resource."} { // the second one does not compile: it is for all targets
		s := lintFleet()
		lintRacks(&s)
		lintScoped(selector)(&s)
		findings, err := compile(t, policy(lintLimited(`"limit":1`)), rollout.WithScopeErrors(rollout.ScopeInclude)).Lint(s, t0, 30*24*time.Hour, rollout.LintOptions{})
		if err != nil || !slices.ContainsFunc(findings, func(f rollout.Finding) bool {
			return f.Code == rollout.LintSelectorFails && f.Path == "versions[web@v2].targetSelector" && strings.HasPrefix(f.Detail, "it fails, and the version is for the targets where it does: ")
		}) {
			t.Errorf("%s: %v, %v", selector, findings, err)
		}
	}
}

// TestLintMaxScope: a version without an expression that the host lets reach nobody was said to
// have one that is wrong.
func TestLintMaxScope(t *testing.T) {
	none := rollout.WithMaxScope(func(v rollout.Version, _ rollout.TargetID) bool { return v.Deployment != "web" || v.ID != "v2" })
	for selector, want := range map[string]string{
		"":                      "warning selector_matches_nothing versions[web@v2]: the version is for none of the 2 targets of its deployment, because WithMaxScope admits none; let the function of WithMaxScope admit targets, or withdraw the version",
		"resource.name == 'r1'": "warning selector_matches_nothing versions[web@v2].targetSelector: the version is for none of the 2 targets of its deployment; correct the expression, or withdraw the version",
	} {
		s := lintFleet()
		lintScoped(selector)(&s)
		findings, err := compile(t, policy(lintLimited(`"limit":1`)), none).Lint(s, t0, 30*24*time.Hour, rollout.LintOptions{})
		if err != nil || !slices.ContainsFunc(findings, func(f rollout.Finding) bool { return f.String() == want }) {
			t.Errorf("%q: %v, %v", selector, findings, err)
		}
	}
}

// TestLintUngovernedHeld: a host that holds what no policy governs was told that it starts at once,
// and so was one whose own rules may hold it.
func TestLintUngovernedHeld(t *testing.T) {
	t.Parallel()
	s := lintFleet()
	web := `{"name":"p","selector":"deployment.name == 'web'","rules":[` + lintLimited(`"limit":1`) + `]}`
	for _, row := range []struct {
		why      string
		options  []rollout.Option
		severity rollout.Severity
		says     string
	}{
		{"nothing else holds them", nil, rollout.SeverityWarning, "they start as soon as there is a version"},
		{"the set was compiled to hold them", []rollout.Option{rollout.WithUngovernedHeld()}, rollout.SeverityError, "nothing newer ever starts there"},
		{"a rule of the host governs every target", []rollout.Option{rollout.WithRule(hostRule{"x", frozenUntil(minute(7))})}, rollout.SeverityWarning, "only the rules of the host hold them back"},
		{"both", []rollout.Option{rollout.WithUngovernedHeld(), rollout.WithRule(hostRule{"x", frozenUntil(minute(7))})}, rollout.SeverityError, "nothing newer ever starts there"},
	} {
		set := compile(t, web, row.options...)
		findings, err := set.Lint(s, t0, 30*24*time.Hour, rollout.LintOptions{})
		if err != nil {
			t.Fatal(err)
		}
		k := slices.IndexFunc(findings, func(f rollout.Finding) bool { return f.Code == rollout.LintTargetsUnmatched })
		if k < 0 || findings[k].Severity != row.severity || findings[k].Targets != 4 || !strings.Contains(findings[k].Detail, row.says) {
			t.Errorf("%s: %v, want %s that says %q", row.why, findings, row.severity, row.says)
		}
		plan, err := set.Plan(s, t0)
		if err != nil {
			t.Fatal(err)
		}
		for _, start := range plan.Start { // a plan does as the finding says
			if row.severity == rollout.SeverityError && start.Deployment != "web" {
				t.Errorf("%s: %s starts", row.why, start.TargetID)
			}
		}
	}
}

// TestLintPausedUntilNeeded: a bracket brings a version that needs an older one of its own deployment
// after that one if it is paused until then, as Lint says, and else never.
func TestLintPausedUntilNeeded(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		status rollout.VersionStatus
		starts []string
	}{{rollout.VersionReady, nil}, {rollout.VersionPaused, []string{"v2", "v3"}}} {
		world := rollouttest.World{Policies: compile(t, policy(lintMains)), Fleet: lintFleet(), Start: t0}
		lintAfter("version.tag == 'v2'")(&world.Fleet)
		last := len(world.Fleet.Versions) - 1
		world.Fleet.Versions[last].Status = row.status
		world.Changes = []rollouttest.Change{{At: t0.Add(time.Hour), What: "v3 is ready", Do: func(s *rollout.Snapshot) { s.Versions[last].Status = rollout.VersionReady }}}
		timeline, err := world.Run(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		var starts []string
		for _, entry := range timeline.Entries {
			if entry.Kind == rollouttest.Start && entry.Resource == "r1" && entry.Deployment == "web" {
				starts = append(starts, entry.Version)
			}
		}
		if !slices.Equal(starts, row.starts) {
			t.Errorf("%s: web gets %q, want %q", row.status, starts, row.starts)
		}
	}
}

// lintRecurrence is a host's recurrence.
type lintRecurrence func(time.Time) time.Time

func (r lintRecurrence) Next(t time.Time) time.Time { return r(t) }

// TestLintIsPure: the order of the input says nothing, the input is left alone, and the findings
// are in their order.
func TestLintIsPure(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	total := 0
	for _, row := range lintRows() {
		s := lintFleet()
		if row.fleet != nil {
			row.fleet(&s)
		}
		set := compile(t, row.policies(), withZones())
		horizon := max(row.horizon, 30*24*time.Hour)
		want, err := set.Lint(s, t0, horizon, row.options)
		if err != nil {
			t.Fatal(err)
		}
		total += len(want)
		for range 3 {
			shuffled := s
			shuffled.Resources, shuffled.Environments, shuffled.Deployments = slices.Clone(s.Resources), slices.Clone(s.Environments), slices.Clone(s.Deployments)
			shuffled.Versions, shuffled.Targets = slices.Clone(s.Versions), slices.Clone(s.Targets)
			for _, list := range []any{shuffled.Resources, shuffled.Environments, shuffled.Deployments, shuffled.Versions, shuffled.Targets} {
				random.Shuffle(reflect.ValueOf(list).Len(), reflect.Swapper(list))
			}
			before := fmt.Sprintf("%+v", shuffled)
			got, err := set.Lint(shuffled, t0, horizon, row.options)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("%s: %s: another order, other findings:\n%v\n%v", row.code, row.why, got, want)
			}
			if after := fmt.Sprintf("%+v", shuffled); after != before {
				t.Fatalf("%s: %s: the snapshot was changed", row.code, row.why)
			}
		}
		rank := map[rollout.Severity]int{rollout.SeverityError: 0, rollout.SeverityWarning: 1, rollout.SeverityInfo: 2}
		if !slices.IsSortedFunc(want, func(a, b rollout.Finding) int { return rank[a.Severity] - rank[b.Severity] }) {
			t.Errorf("%s: %s: not by severity: %v", row.code, row.why, want)
		}
	}
	if total < 120 {
		t.Errorf("only %d findings: the rows say little", total)
	}
}

// TestFinding: for people on one line, for programs in JSON.
func TestFinding(t *testing.T) {
	var one rollout.Finding
	for _, f := range (lintRow{rules: lintLimited(`"limit":0`)}).lint(t) {
		if f.Code == rollout.LintLimitZero {
			one = f
		}
	}
	const line = "error limit_zero rules[0].resourceConcurrency.limit: a limit of 0 lets none of 2 members start (6 targets, such as r1 / prod / cache); write at least 1 to resume; 0 is a pause"
	if got := one.String(); got != line {
		t.Errorf("%s", got)
	}
	other := one
	other.Targets = 1
	if got := other.String(); !strings.Contains(got, "start (r1 / prod / cache); write") {
		t.Errorf("of one target: %s", got)
	}
	other.Targets, other.Example = 0, rollout.TargetID{}
	if got := other.String(); !strings.Contains(got, "start; write") {
		t.Errorf("of none: %s", got)
	}
	other.Path = ""
	if got := other.String(); !strings.HasPrefix(got, "error limit_zero: a limit of 0") {
		t.Errorf("of no field: %s", got)
	}
	text, err := json.Marshal(one)
	const want = `{"code":"limit_zero","severity":"error","policy":"p","rule":"c","path":"rules[0].resourceConcurrency.limit","detail":"a limit of 0 lets none of 2 members start",` +
		`"fix":"write at least 1 to resume; 0 is a pause","targets":6,"example":{"resource":"r1","environment":"prod","deployment":"cache"}}`
	if err != nil || string(text) != want {
		t.Errorf("%s, %v", text, err)
	}
}
