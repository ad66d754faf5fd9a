package rollout_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/clock"
	"github.com/tranche-dev/tranche/rollout"
)

// caseInterrupted counts whom a curve and a window together have let start at some instants. The
// recorded system lets everybody pile up at the reopening; here the curve goes on where it stopped.
func caseInterrupted(t *testing.T, row recorded) {
	if row.Library != "differs" || !slices.Equal(row.Expected.Allowed, []int{1, 2, 3, 20}) {
		t.Fatalf("%s %v: nobody said how this differs", row.Library, row.Expected.Allowed)
	}
	in := row.Input
	var ids []string
	for k := range in.Targets {
		ids = append(ids, fmt.Sprint("r", k))
	}
	s := oneDeployment("prod", "api", "v1", ids)
	s.Versions[0].CreatedAt = in.Start
	s.Versions = append(s.Versions, rollout.Version{ID: "v0", Deployment: "api", Status: rollout.VersionReady, CreatedAt: in.Start.Add(-time.Hour)})
	for k := range s.Targets {
		s.Targets[k].Current = "v0"
	}
	set := compile(t, policy(fmt.Sprintf(`{"gradualRollout":{"rolloutType":%q,"timeScaleInterval":%d}}`, in.Type, in.Interval)+","+in.Windows[0].rule(t)))
	var allowed []int
	for _, now := range append(in.Nows, in.Nows[len(in.Nows)-1].Add(5*time.Minute)) {
		n := len(s.Targets)
		for wait := range mustPlan(t, set, s, now).Waiting.All() {
			if slices.ContainsFunc(wait.Blockers, func(b rollout.Verdict) bool { return b.Reason == rollout.ReasonRolloutNotDue }) {
				n--
			}
		}
		allowed = append(allowed, n)
	}
	// 16:50, 16:59, 17:01, 09:00 and 09:05: the fifth minute after 16:55 is the first of the next
	// day.
	if want := []int{1, 2, 2, 3, 4}; !slices.Equal(allowed, want) {
		t.Errorf("the curve has allowed %v, want %v", allowed, want)
	}
}

// caseMembers lets members of a bracket wait for one another.
func caseMembers(t *testing.T, row recorded) {
	in, want := row.Input, row.Expected
	edges := in.Edges
	if in.Member != "" {
		edges = map[string][]string{in.Member: in.Needs}
	}
	deployments := map[string][]string{}
	rules := `{"deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}}`
	for _, member := range slices.Sorted(maps.Keys(edges)) {
		deployments[member] = []string{"v1", "v2"}
		for _, need := range edges[member] {
			deployments[need] = []string{"v1", "v2"}
			rules += fmt.Sprintf(`,{"deploymentDependency":{"dependsOn":"deployment.name == '%s'","appliesTo":"deployment.name == '%s'","match":%q}}`, need, member, orElse(in.Mode, "any"))
		}
	}
	if in.State != nil { // what failed is still to be repeated: it holds back those that need it, and not the whole bracket
		rules += `,{"retry":{"maxRetries":1,"backoffSeconds":600}}`
	}
	s := fleet(1, "v1", deployments)
	set := compile(t, policy(rules))
	now := t0
	var levels [][]string
	for range 10 {
		plan := mustPlan(t, set, s, now)
		var level []string
		for _, start := range plan.Start {
			level = append(level, start.Deployment)
		}
		if in.Member != "" && in.History == nil { // some fail and some succeed, and the member goes on waiting for those that failed
			s.State = mustCommit(t, plan, now)
			for _, start := range plan.Start {
				status := rollout.JobSuccessful
				if in.State[start.Deployment] == "failed" {
					status = rollout.JobFailure
				}
				add(&s, start, job(start, now, status))
			}
			break
		}
		carryOut(t, &s, plan, now, rollout.JobSuccessful)
		if len(level) == 0 {
			break
		}
		levels = append(levels, level)
		now = now.Add(time.Minute)
	}
	if want.Levels != nil {
		if fmt.Sprint(levels) != fmt.Sprint(want.Levels) {
			t.Errorf("levels %q, want %q", levels, want.Levels)
		}
		return
	}
	if in.History != nil { // all of the first group is done: the next one begins from the start
		for d := range deployments {
			s.Versions = append(s.Versions, rollout.Version{ID: "v3", Deployment: d, Status: rollout.VersionReady, CreatedAt: now})
		}
		plan := mustPlan(t, set, s, now)
		carryOut(t, &s, plan, now, rollout.JobInProgress)
	}
	for wait := range mustPlan(t, set, s, now).Waiting.All() {
		if wait.Deployment != in.Member {
			continue
		}
		var blocking []string
		for _, on := range wait.Blockers[0].On {
			if on.Kind == rollout.OnMember {
				blocking = append(blocking, on.Deployment)
			}
		}
		if !slices.Equal(blocking, want.Blocking) || wait.Blockers[0].Status == rollout.Allowed || want.Decision != "wait" {
			t.Errorf("%s waits: %v, want it to wait for %q", in.Member, wait.Blockers, want.Blocking)
		}
		return
	}
	t.Errorf("%s does not wait", in.Member)
}

// caseScope asks which versions exist for a target.
func caseScope(t *testing.T, raw rawCase) {
	var in struct {
		Versions  [][2]*string
		Target    struct{ Resource, Environment map[string]json.RawMessage }
		Current   string
		OnMissing string `json:"on_missing"`

		Targets map[string]struct {
			Resource struct{ Metadata map[string]string }
		}
		Scope    string
		Type     rollout.RolloutType
		Interval int64 `json:"interval_s"`

		Staging struct {
			In  int `json:"in_scope"`
			Out int `json:"out_of_scope"`
		}
		Succeeded  int
		MinPercent int `json:"min_percent"`
	}
	var want struct {
		Candidates             *[]string
		Pick, Reason, Decision string
		Noop                   bool
		N                      int
		Positions              []string
	}
	strictly(t, raw.Input, &in)
	strictly(t, raw.Expected, &want)
	switch {
	case in.Targets != nil:
		s := oneDeployment("prod", "api", "v1", slices.Sorted(maps.Keys(in.Targets)))
		for k := range s.Resources {
			s.Resources[k].Metadata = in.Targets[s.Resources[k].ID].Resource.Metadata
		}
		s.Versions[0].TargetSelector = in.Scope
		plan := mustPlan(t, compile(t, policy(fmt.Sprintf(`{"gradualRollout":{"rolloutType":%q,"timeScaleInterval":%d}}`, in.Type, in.Interval))), s, t0)
		var ranked []string
		for _, start := range plan.Start {
			ranked = append(ranked, start.Resource)
		}
		for wait := range plan.Waiting.All() {
			ranked = append(ranked, wait.Resource)
		}
		slices.Sort(ranked)
		if plan.State.Rollouts[0].Founders != want.N || !slices.Equal(ranked, want.Positions) || !plan.Next.Equal(t0.Add(30*time.Second)) {
			t.Errorf("%d founders, ranked %q, next %v", plan.State.Rollouts[0].Founders, ranked, plan.Next)
		}
		return
	case in.Staging.In != 0:
		s := oneDeployment("prod", "api", "v1", []string{"r"})
		s.Resources[0].Metadata = map[string]string{"region": "us-east-1"}
		s.Environments = append(s.Environments, rollout.Environment{ID: "staging", Name: "staging"})
		for k := range in.Staging.In + in.Staging.Out {
			r := rollout.Resource{ID: fmt.Sprint("s", k), Metadata: map[string]string{"region": "us-east-1"}}
			target := rollout.Target{TargetID: rollout.TargetID{Resource: r.ID, Environment: "staging", Deployment: "api"}}
			if k >= in.Staging.In {
				r.Metadata["region"] = "eu-west-1"
			} else if k < in.Succeeded {
				target.Jobs = []rollout.Job{{Version: "v1", Status: rollout.JobSuccessful, CreatedAt: t0}}
			}
			s.Resources, s.Targets = append(s.Resources, r), append(s.Targets, target)
		}
		s.Versions[0].TargetSelector = in.Scope
		rules := fmt.Sprintf(`{"environmentProgression":{"dependsOnEnvironmentSelector":"environment.name == 'staging'","minimumSuccessPercentage":%d}}`, in.MinPercent)
		set := compile(t, `{"name":"p","selector":"environment.name == 'prod'","rules":[`+rules+`]}`)
		checkTarget(t, mustPlan(t, set, s, t0), "r", want.Decision, time.Time{})
		s.Versions[0].TargetSelector = "" // without the scope eight targets would be missing
		checkTarget(t, mustPlan(t, set, s, t0), "r", "wait", time.Time{})
		return
	}
	s := oneDeployment("prod", "api", "", []string{"r"})
	s.Versions = nil
	for k, v := range in.Versions {
		version := rollout.Version{ID: *v[0], Deployment: "api", Status: rollout.VersionReady, CreatedAt: t0.Add(-time.Duration(k) * time.Hour)}
		if v[1] != nil {
			version.TargetSelector = *v[1]
		}
		s.Versions = append(s.Versions, version)
	}
	for field, value := range in.Target.Resource {
		if field != "metadata" {
			t.Fatal(field)
		}
		strictly(t, value, &s.Resources[0].Metadata)
	}
	for field, value := range in.Target.Environment {
		if field != "name" {
			t.Fatal(field)
		}
		strictly(t, value, &s.Environments[0].Name)
	}
	s.Targets[0].Current = in.Current
	var options []rollout.Option
	if raw.Library == "option scopeErrors: include" {
		options = append(options, rollout.WithScopeErrors(rollout.ScopeInclude))
	}
	set, err := rollout.Compile(nil, newEnv(t), options...)
	if err != nil {
		t.Fatal(err)
	}
	plan := mustPlan(t, set, s, t0)
	explanation, err := plan.Explain(s.Targets[0].TargetID)
	if err != nil {
		t.Fatal(err)
	}
	candidates := []string{}
	for _, v := range explanation.Versions {
		if v.Prospect != rollout.ProspectOutOfScope {
			candidates = append(candidates, v.Version)
		}
	}
	if want.Candidates != nil && !slices.Equal(candidates, *want.Candidates) {
		t.Errorf("candidates %q, want %q", candidates, *want.Candidates)
	}
	if want.Reason != "" && (len(plan.Diagnostics) != 1 || string(plan.Diagnostics[0].Code) != want.Reason || plan.Diagnostics[0].Count != 1) {
		t.Errorf("diagnostics %+v, want one %s", plan.Diagnostics, want.Reason)
	}
	switch got := started(plan); {
	case want.Noop:
		if len(got) != 0 || plan.Keep.Current != 1 || in.Current != want.Pick {
			t.Errorf("starts %q, keeps %+v", got, plan.Keep)
		}
	case want.Pick != "":
		if !slices.Equal(got, []string{"r/api@" + want.Pick}) {
			t.Errorf("starts %q, want %s", got, want.Pick)
		}
	}
}

// dated is a version with the instant at which it was created.
type dated struct {
	ID string
	At time.Time
}

func (d *dated) UnmarshalJSON(data []byte) error {
	var pair [2]string
	if err := json.Unmarshal(data, &pair); err != nil {
		return err
	}
	var err error
	d.ID = pair[0]
	d.At, err = time.Parse(time.RFC3339, pair[1])
	return err
}

func caseCooldown(t *testing.T, raw rawCase) {
	var in struct {
		Reference  *dated
		Deployed   *dated
		InProgress *dated `json:"in_progress"`
		Candidate  string
		Interval   int64 `json:"interval_s"`
		Now        time.Time
	}
	var want struct {
		Decision string
		Next     time.Time
	}
	strictly(t, raw.Input, &in)
	strictly(t, raw.Expected, &want)
	now := in.Now
	if now.IsZero() {
		now = t0
	}
	s := oneDeployment("prod", "api", in.Candidate, []string{"r"})
	s.Versions[0].CreatedAt = now
	have := func(v *dated, status rollout.JobStatus) {
		if v == nil {
			return
		}
		s.Versions = append(s.Versions, rollout.Version{ID: v.ID, Deployment: "api", Status: rollout.VersionReady, CreatedAt: v.At})
		s.Targets[0].Jobs = append(s.Targets[0].Jobs, rollout.Job{Version: v.ID, Status: status, CreatedAt: v.At})
	}
	have(in.Reference, rollout.JobSuccessful)
	have(in.Deployed, rollout.JobSuccessful)
	have(in.InProgress, rollout.JobInProgress)
	plan := mustPlan(t, compile(t, policy(fmt.Sprintf(`{"versionCooldown":{"intervalSeconds":%d}}`, in.Interval))), s, now)
	checkTarget(t, plan, "r", want.Decision, want.Next)
	if !plan.Next.Equal(want.Next) {
		t.Errorf("next %v, want %v", plan.Next, want.Next)
	}
}

func caseOfWindow(t *testing.T, raw rawCase) {
	var in struct {
		Rule, RRule, Anchor string
		Minutes             int
		Allow               bool
		Now                 time.Time
		Nows                []time.Time
	}
	var want struct {
		Decision string
		Next     time.Time
		Inside   []bool
		Error    string
	}
	strictly(t, raw.Input, &in)
	strictly(t, raw.Expected, &want)
	rule := fmt.Sprintf(`{"deploymentWindow":{"rrule":%q,"durationMinutes":%d,"anchor":%q}}`, in.RRule, max(1, in.Minutes), in.Anchor)
	if in.Rule != "" {
		rule = caseWindow{in.Rule, in.Minutes, in.Allow}.rule(t)
	}
	rule = strings.Replace(rule, `,"anchor":""`, "", 1)
	if want.Error != "" {
		policies, err := rollout.ParsePolicies([]byte(policy(rule)))
		if err == nil {
			_, err = rollout.Compile(policies, newEnv(t))
		}
		var fault *rollout.FieldError
		var calendar *clock.FieldError
		if !errors.As(err, &fault) || fault.Path != "rules[0].deploymentWindow."+want.Error || !errors.As(err, &calendar) {
			t.Errorf("got %v, want a fault of %s", err, want.Error)
		}
		return
	}
	s := oneDeployment("prod", "api", "v1", []string{"r"})
	s.Versions = append(s.Versions, rollout.Version{ID: "v0", Deployment: "api", Status: rollout.VersionReady, CreatedAt: t0.Add(-time.Hour)})
	s.Targets[0].Current = "v0"
	set := compile(t, policy(rule))
	for k, now := range in.Nows {
		s.Versions[0].CreatedAt = now
		if got := len(mustPlan(t, set, s, now).Start) == 1; got != want.Inside[k] {
			t.Errorf("at %v it starts: %v, want %v", now, got, want.Inside[k])
		}
	}
	if in.Nows == nil {
		s.Versions[0].CreatedAt = in.Now
		plan := mustPlan(t, set, s, in.Now)
		until := want.Next
		if want.Decision == "allow" {
			until = time.Time{}
		}
		checkTarget(t, plan, "r", want.Decision, until)
		if !plan.Next.Equal(want.Next) {
			t.Errorf("next %v, want %v", plan.Next, want.Next)
		}
	}
}

func caseProgression(t *testing.T, raw rawCase) {
	var in struct {
		Matching    *int `json:"matching_envs"`
		Envs        map[string]string
		Soak        int64 `json:"soak_min"`
		LastSuccess int64 `json:"last_success_min_ago"`
	}
	var want struct{ Decision, Satisfied string }
	strictly(t, raw.Input, &in)
	strictly(t, raw.Expected, &want)
	now := t0.Add(12 * time.Hour)
	envs := in.Envs
	if in.LastSuccess != 0 {
		envs = map[string]string{"staging": "allow " + now.Add(-time.Duration(in.LastSuccess)*time.Minute).Format("15:04")}
	}
	s := oneDeployment("prod", "api", "v1", []string{"r"})
	for _, name := range slices.Sorted(maps.Keys(envs)) {
		s.Environments = append(s.Environments, rollout.Environment{ID: name, Name: name})
		s.Resources = append(s.Resources, rollout.Resource{ID: "in-" + name})
		target := rollout.Target{TargetID: rollout.TargetID{Resource: "in-" + name, Environment: name, Deployment: "api"}}
		if clocked, ok := strings.CutPrefix(envs[name], "allow "); ok {
			at, err := time.Parse("15:04", clocked)
			if err != nil {
				t.Fatal(err)
			}
			target.Jobs = []rollout.Job{{Version: "v1", Status: rollout.JobSuccessful, CreatedAt: t0, CompletedAt: t0.Add(time.Duration(at.Hour())*time.Hour + time.Duration(at.Minute())*time.Minute)}}
		}
		s.Targets = append(s.Targets, target)
	}
	set := compile(t, fmt.Sprintf(`{"name":"p","selector":"environment.name == 'prod'","rules":[{"environmentProgression":{"dependsOnEnvironmentSelector":"environment.name in ['qa', 'staging']","minimumSoakTimeMinutes":%d}},
		{"gradualRollout":{"rolloutType":"linear","timeScaleInterval":60}}]}`, in.Soak))
	plan := mustPlan(t, set, s, now)
	checkTarget(t, plan, "r", want.Decision, time.Time{})
	if in.Matching != nil && waitingOf(plan)[0].Blockers[0].Reason != rollout.ReasonProgressionNoEnvironment {
		t.Errorf("blockers %q", blockers(plan))
	}
	if want.Satisfied != "" && plan.State.Rollouts[0].StartAt.Format("15:04") != want.Satisfied {
		t.Errorf("rollouts %+v, want a start at %s", plan.State.Rollouts, want.Satisfied)
	}
	if in.LastSuccess != 0 { // a nanosecond earlier it is not long enough
		checkTarget(t, mustPlan(t, set, s, now.Add(-1)), "r", "wait", now)
	}
}

func caseRollback(t *testing.T, raw rawCase) {
	var in struct {
		On   []rollout.JobStatus `json:"on_statuses"`
		Jobs []rollout.JobStatus `json:"jobs_newest_first"`
	}
	var want struct{ Decision string }
	strictly(t, raw.Input, &in)
	strictly(t, raw.Expected, &want)
	s := fleet(1, "", map[string][]string{"api": {"v1", "v2"}})
	s.Targets[0].Jobs = []rollout.Job{{Version: "v1", Status: rollout.JobSuccessful, CreatedAt: t0.Add(-time.Hour)}}
	for k, status := range in.Jobs {
		s.Targets[0].Jobs = append(s.Targets[0].Jobs, rollout.Job{Version: "v2", Status: status, CreatedAt: t0.Add(-time.Duration(k) * time.Minute)})
	}
	statuses, err := json.Marshal(in.On)
	if err != nil {
		t.Fatal(err)
	}
	plan := mustPlan(t, compile(t, policy(fmt.Sprintf(`{"rollback":{"onJobStatuses":%s}}`, statuses))), s, t0)
	if len(plan.Start)+plan.Waiting.Len() != 0 || plan.Keep.Current != 1 || want.Decision != "allow" {
		t.Errorf("starts %q, waits %q: only the newest job counts", started(plan), blockers(plan))
	}
}

func caseBusy(t *testing.T, raw rawCase) {
	var in struct {
		Jobs []rollout.JobStatus `json:"jobs_on_target"`
	}
	var want struct{ Decision string }
	strictly(t, raw.Input, &in)
	strictly(t, raw.Expected, &want)
	s := fleet(1, "v1", map[string][]string{"api": {"v1", "v2"}})
	for _, status := range in.Jobs {
		s.Targets[0].Jobs = append(s.Targets[0].Jobs, rollout.Job{Version: "v1", Status: status, CreatedAt: t0.Add(-time.Hour)})
	}
	plan := mustPlan(t, compile(t, "[]"), s, t0)
	checkTarget(t, plan, "r1", want.Decision, time.Time{})
	if want.Decision == "deny" && waitingOf(plan)[0].Blockers[0].Reason != rollout.ReasonTargetBusy {
		t.Errorf("blockers %q", blockers(plan))
	}
}

// caseSelection has two cases with fields of their own.
func caseSelection(t *testing.T, raw rawCase) {
	switch raw.ID {
	case "select-error":
		var in struct{ Error string }
		var want struct{ Action, Error string }
		strictly(t, raw.Input, &in)
		strictly(t, raw.Expected, &want)
		transient := errors.New(in.Error)
		planner := rollout.Planner{Policies: compile(t, "[]"), Store: brokenStore{&bracket.MemoryStore{}, transient}, Clock: clock.NewFake(t0)}
		plan, err := planner.Plan(context.Background(), fleet(1, "v1", map[string][]string{"api": {"v1", "v2"}}))
		if !errors.Is(err, transient) || len(plan.Start) != 0 || want.Action != "none" || want.Error != in.Error {
			t.Errorf("starts %q, %v", started(plan), err)
		}
	case "select-skip-active":
		var in struct {
			Rule string
			Skip struct{ Expires time.Time }
		}
		var want struct {
			Decision string
			Next     time.Time
		}
		strictly(t, raw.Input, &in)
		strictly(t, raw.Expected, &want)
		s := fleet(1, "v1", map[string][]string{"api": {"v1", "v2"}})
		set := compile(t, policy(`{"id":"`+in.Rule+`","versionSelector":{"selector":"version.tag == 'v1'"}}`))
		checkTarget(t, mustPlan(t, set, s, t0), "r1", in.Rule, time.Time{})
		s.Overrides = []rollout.Override{{ID: "o", Rule: in.Rule, Version: "v2", CreatedAt: t0, ExpiresAt: in.Skip.Expires, CreatedBy: "ann", Reason: "hotfix"}}
		plan := mustPlan(t, set, s, t0)
		checkTarget(t, plan, "r1", want.Decision, time.Time{})
		if !plan.Next.Equal(want.Next) {
			t.Errorf("next %v, want %v", plan.Next, want.Next)
		}
	default:
		common(caseSelect)(t, raw)
	}
}

// brokenStore cannot be read.
type brokenStore struct {
	bracket.Store
	err error
}

func (b brokenStore) List(context.Context, string) ([]bracket.Entry, error) { return nil, b.err }
