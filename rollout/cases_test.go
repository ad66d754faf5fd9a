package rollout_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/rollout"
)

// recorded is one row of testdata/cases.json: what other systems give for an input, and where this
// library gives something else on purpose.
type recorded struct {
	ID, Area, Kind, Library, Note string
	Input                         caseInput
	Expected                      caseExpected
}

// rawCase is a row before it is known which fields its area has.
type rawCase struct {
	ID, Area, Kind, Library, Note string
	Input, Expected               json.RawMessage
}

// strictly decodes a part of a row. A field that is not read is a case that is not tested.
func strictly(t *testing.T, data json.RawMessage, into any) {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		t.Fatal(err)
	}
}

// common runs a case of an area of which all cases have the same fields.
func common(run func(*testing.T, recorded)) func(*testing.T, rawCase) {
	return func(t *testing.T, raw rawCase) {
		row := recorded{ID: raw.ID, Area: raw.Area, Kind: raw.Kind, Library: raw.Library, Note: raw.Note}
		strictly(t, raw.Input, &row.Input)
		strictly(t, raw.Expected, &row.Expected)
		run(t, row)
	}
}

type caseInput struct {
	// rollout.order
	Hash, Bytes                      string
	KeyFormat                        string `json:"key_format"`
	Environment, Deployment, Version string
	Resources                        []string
	Inputs                           [][]string
	A, B                             map[string]string
	Bracket, Resource                string
	LegacyHashKey                    string `json:"legacy_hash_key"`
	Members                          map[string][]string
	OrderHash                        rollout.OrderHash
	OrderKey                         rollout.OrderKey
	Salt                             string
	BracketRule                      string

	// rollout.offset, rollout.decide
	Type                           rollout.RolloutType
	Interval                       int64 `json:"interval_s"`
	Targets, Position              int
	Positions                      []int
	Growth                         int64
	Waves                          json.RawMessage
	Start, Now                     time.Time
	PositionBefore                 int  `json:"position_before"`
	PositionAfter                  int  `json:"position_after_new_target_joined"`
	RunStarted                     bool `json:"run_started"`
	Candidate, Current, Mode, Self string
	Windows                        []caseWindow
	Nows                           []time.Time

	// dependency
	Matched        map[string]string
	VersionEquals  string `json:"version_equals"`
	AppliesTo      string `json:"applies_to"`
	Edges          map[string][]string
	Group, Member  string
	Needs          []string
	State, History map[string]string

	// approval, rollout.start
	Min            int
	ApprovedAt     []time.Time `json:"approved_at"`
	VersionCreated time.Time   `json:"version_created"`
	RuleCreated    time.Time   `json:"rule_created"`
	Gates          []struct {
		Type       string
		Min        int
		ApprovedAt []time.Time `json:"approved_at"`
		Satisfied  *time.Time
		Skip       *time.Time `json:"skip_created"`
	}
	HasReleased bool `json:"has_release"`

	// retry
	Base     int64 `json:"base_s"`
	Strategy rollout.BackoffStrategy
	Attempts int
	Cap      *int64 `json:"cap_s"`
	Rule     *int
	Jobs     []rollout.JobStatus `json:"same_release_jobs"`
	Max      int
	Newest   [][2]string `json:"jobs_newest_first"`
	Release  string

	// select
	Candidates    json.RawMessage
	Allowed, Wait []string
	Status        rollout.VersionStatus
	HasRelease    bool `json:"has_release_on_target"`
}

type caseExpected struct {
	Hashes         map[string]string
	Hash           string
	Order          []string
	Legacy         bool `json:"legacy_keys_equal"`
	New            bool `json:"new_keys_equal"`
	Positions      map[string]int
	OffsetsS       []int64         `json:"offsets_s"`
	OffsetS        *int64          `json:"offset_s"`
	OffsetNs       json.RawMessage `json:"offset_ns"`
	Error          string
	Decision       string
	Decisions      []string
	Next           json.RawMessage
	Reason, Action string
	Satisfied      time.Time
	Backoff        int64 `json:"backoff_s"`
	Attempts       int
	Start          *time.Time
	Pick           string
	Allowed        []int `json:"curve_allowed"`
	Blocking       []string
	Levels         [][]string
}

// caseWindow is a window in few words.
type caseWindow struct {
	Rule    string // daily HH:MM
	Minutes int
	Allow   bool
}

func (c caseWindow) rule(t *testing.T) string {
	t.Helper()
	at, err := time.Parse("daily 15:04", c.Rule)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf(`{"deploymentWindow":{"rrule":"FREQ=DAILY;BYHOUR=%d;BYMINUTE=%d;BYSECOND=0","durationMinutes":%d,"allowWindow":%v}}`, at.Hour(), at.Minute(), c.Minutes, c.Allow)
}

// TestRecordedCases runs every recorded case through the public API.
func TestRecordedCases(t *testing.T) {
	data, err := os.ReadFile("testdata/cases.json")
	if err != nil {
		t.Fatal(err)
	}
	var rows []rawCase
	strictly(t, data, &rows)
	if len(rows) != 91 {
		t.Errorf("%d cases, want 91", len(rows))
	}
	areas := map[string]func(*testing.T, rawCase){
		"rollout.order": common(caseOrder), "rollout.offset": common(caseOffset), "rollout.decide": common(caseDecide), "rollout.start": common(caseStart),
		"dependency": common(caseDependency), "approval": common(caseApproval), "retry": common(caseRetry), "select": caseSelection,
		"scope": caseScope, "cooldown": caseCooldown, "window": caseOfWindow, "progression": caseProgression, "rollback": caseRollback, "concurrency": caseBusy,
	}
	for _, row := range rows {
		run := areas[row.Area]
		if run == nil {
			t.Errorf("%s: nobody knows the area %q", row.ID, row.Area)
			continue
		}
		t.Run(row.ID, func(t *testing.T) { run(t, row) })
	}
}

// oneDeployment is a fleet of these resources with one version of one deployment, new everywhere.
func oneDeployment(environment, deployment, version string, resources []string) rollout.Snapshot {
	s := rollout.Snapshot{
		Environments: []rollout.Environment{{ID: environment, Name: environment}}, Deployments: []rollout.Deployment{{ID: deployment, Name: deployment}},
		Versions: []rollout.Version{{ID: version, Tag: version, Deployment: deployment, Status: rollout.VersionReady, CreatedAt: t0}},
	}
	for _, id := range resources {
		s.Resources = append(s.Resources, rollout.Resource{ID: id, Name: id})
		s.Targets = append(s.Targets, rollout.Target{TargetID: rollout.TargetID{Resource: id, Environment: environment, Deployment: deployment}})
	}
	return s
}

// orderOf reads the order out of a plan: the first is started, the others say their positions.
func orderOf(t *testing.T, plan rollout.Plan, n int) []string {
	t.Helper()
	order := make([]string, n)
	for _, s := range plan.Start {
		order[0] = s.Resource
	}
	for w := range plan.Waiting.All() {
		for _, b := range w.Blockers {
			if b.Reason == rollout.ReasonRolloutNotDue || b.Reason == "bracket_not_due" {
				order[b.Data.Position] = w.Resource
			}
		}
	}
	return order
}

func caseOrder(t *testing.T, row recorded) {
	in, want := row.Input, row.Expected
	legacy := in.Hash == "fnv1a64" || in.OrderHash == rollout.HashLegacy
	keyOf := func(resource string) uint64 {
		switch {
		case legacy && in.Bracket != "":
			return hashLegacy(resource + in.Bracket)
		case legacy:
			return hashLegacy(resource + "-" + in.Environment + "-" + in.Deployment + in.Version)
		case in.OrderKey == rollout.OrderByTarget:
			return hashV1("position/1", "target", in.Salt, resource, in.Environment, in.Deployment)
		case in.OrderKey == rollout.OrderByResource:
			return hashV1("position/1", "resource", in.Salt, resource)
		}
		return hashV1("position/1", "resource_bracket", in.Salt, resource, in.BracketRule)
	}
	for resource, text := range want.Hashes {
		if hash, err := strconv.ParseUint(text, 10, 64); err != nil || keyOf(resource) != hash {
			t.Errorf("hash of %s is %d, want %s, %v", resource, keyOf(resource), text, err)
		}
	}
	switch {
	case in.Bytes != "":
		if got := fmt.Sprint(hashLegacy(in.Bytes)); got != want.Hash {
			t.Errorf("hash %s, want %s", got, want.Hash)
		}
		return
	case in.A != nil:
		old := func(f map[string]string) uint64 {
			return hashLegacy(f["resource"] + "-" + f["environment"] + "-" + f["deployment"] + f["version"])
		}
		now := func(f map[string]string) uint64 {
			return hashV1("position/1", "target", f["version"], f["resource"], f["environment"], f["deployment"])
		}
		if (old(in.A) == old(in.B)) != want.Legacy || (now(in.A) == now(in.B)) != want.New {
			t.Errorf("legacy %d %d, v1 %d %d", old(in.A), old(in.B), now(in.A), now(in.B))
		}
		return
	case in.Members != nil:
		caseUnion(t, row)
		return
	}
	inputs := in.Inputs
	if inputs == nil {
		inputs = [][]string{in.Resources}
	}
	rule := fmt.Sprintf(`{"gradualRollout":{"rolloutType":"linear","timeScaleInterval":60,"orderKey":%q,"orderHash":%q,"orderSalt":%q}}`,
		map[bool]rollout.OrderKey{true: rollout.OrderByTarget, false: in.OrderKey}[in.OrderKey == ""],
		map[bool]rollout.OrderHash{true: rollout.HashLegacy, false: rollout.HashV1}[legacy],
		map[bool]rollout.OrderSalt{true: rollout.SaltByVersion, false: rollout.SaltNone}[in.Salt != ""])
	for _, resources := range inputs {
		s := oneDeployment(orElse(in.Environment, "prod"), orElse(in.Deployment, "api"), orElse(in.Version, orElse(in.Salt, "v1")), resources)
		now := t0
		policies := policy(rule)
		if in.OrderKey == rollout.OrderByBracket {
			policies = `{"name":"Node Lifecycle","selector":"true","rules":[{"deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}},` + rule + `]}`
		}
		if got := orderOf(t, mustPlan(t, compile(t, policies), s, now), len(resources)); !slices.Equal(got, want.Order) {
			t.Errorf("order %q, want %q", got, want.Order)
		}
	}
}

func orElse(text, other string) string {
	if text == "" {
		return other
	}
	return text
}

// caseUnion ranks a resource once for all members of a bracket, whichever of them have a target
// there.
func caseUnion(t *testing.T, row recorded) {
	in := row.Input
	s := rollout.Snapshot{Environments: []rollout.Environment{{ID: "prod"}}}
	for deployment, resources := range in.Members {
		s.Deployments = append(s.Deployments, rollout.Deployment{ID: deployment})
		s.Versions = append(s.Versions, rollout.Version{ID: "v1", Deployment: deployment, Status: rollout.VersionReady, CreatedAt: t0})
		for _, id := range resources {
			if !slices.ContainsFunc(s.Resources, func(r rollout.Resource) bool { return r.ID == id }) {
				s.Resources = append(s.Resources, rollout.Resource{ID: id})
			}
			s.Targets = append(s.Targets, rollout.Target{TargetID: rollout.TargetID{Resource: id, Environment: "prod", Deployment: deployment}})
		}
	}
	set := compile(t, fmt.Sprintf(`{"name":"p","selector":"true","rules":[
		{"id":%q,"deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}},
		{"gradualRollout":{"rolloutType":"linear","timeScaleInterval":60,"orderHash":"legacy"}}]}`, in.Bracket))
	got := map[string]int{}
	for w := range mustPlan(t, set, s, t0).Waiting.All() {
		if w.Resource == in.Resource {
			got[w.Deployment] = w.Blockers[0].Data.Position
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(row.Expected.Positions) {
		t.Errorf("positions %v, want %v", got, row.Expected.Positions)
	}
}

func caseOffset(t *testing.T, row recorded) {
	in, want := row.Input, row.Expected
	g := rollout.GradualRollout{RolloutType: in.Type, TimeScaleInterval: &in.Interval, PositionGrowthFactor: in.Growth}
	if in.Waves != nil {
		if err := json.Unmarshal(in.Waves, &g.Waves); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(position int, offset time.Duration) {
		t.Helper()
		if got, err := g.Offset(position, in.Targets); err != nil || got != offset {
			t.Errorf("offset of %d is %v, %v, want %v", position, got, err, offset)
		}
	}
	switch {
	case row.ID == "offset-normalized-legacy-truncation": // differs: a float loses a second there
		expect(in.Position, 220*time.Second)
	case row.ID == "offset-unknown-type-legacy": // differs: an exponential curve without its factor is refused, and not taken for a linear one
		if _, err := g.Offset(in.Position, in.Targets); err == nil {
			t.Error("accepted")
		}
	case row.Library == "differs":
		t.Errorf("%s differs, and nobody said how", row.ID)
	case want.Error == "overflow":
		if _, err := g.Offset(in.Position, 1); !errors.Is(err, rollout.ErrOverflow) {
			t.Errorf("got %v", err)
		}
	case want.OffsetNs != nil && in.Positions != nil:
		var list []time.Duration
		if err := json.Unmarshal(want.OffsetNs, &list); err != nil || len(list) != len(in.Positions) {
			t.Fatal(err, list)
		}
		for k, position := range in.Positions {
			expect(position, list[k])
		}
	case want.OffsetNs != nil:
		var one time.Duration
		if err := json.Unmarshal(want.OffsetNs, &one); err != nil {
			t.Fatal(err)
		}
		expect(in.Position, one)
	default:
		if len(want.OffsetsS) != in.Targets {
			t.Fatalf("%d offsets for %d targets", len(want.OffsetsS), in.Targets)
		}
		for position, seconds := range want.OffsetsS {
			expect(position, time.Duration(seconds)*time.Second)
		}
	}
}

// instant decodes an expected instant; null is zero.
func instant(t *testing.T, data json.RawMessage) (at time.Time) {
	t.Helper()
	if len(data) > 0 && string(data) != "null" {
		if err := json.Unmarshal(data, &at); err != nil {
			t.Fatal(err)
		}
	}
	return at
}

// checkTarget compares what a plan says about one target with a recorded decision.
func checkTarget(t *testing.T, plan rollout.Plan, resource, decision string, until time.Time) {
	t.Helper()
	started := slices.ContainsFunc(plan.Start, func(s rollout.Start) bool { return s.Resource == resource })
	var status rollout.VerdictStatus
	var at time.Time
	for w := range plan.Waiting.All() {
		if w.Resource == resource {
			for _, b := range w.Blockers {
				if status != rollout.Denied {
					status = b.Status
				}
				at = later(at, b.Until)
			}
		}
	}
	want := map[string]rollout.VerdictStatus{"allow": "", "wait": rollout.Pending, "deny": rollout.Denied, "noop": ""}
	if expected, known := want[decision]; !known || status != expected || !at.Equal(until) || started != (decision == "allow") {
		t.Errorf("%s: started %v, status %q until %v, want %q until %v: %q", resource, started, status, at, decision, until, blockers(plan))
	}
}

func caseDecide(t *testing.T, row recorded) {
	in, want := row.Input, row.Expected
	if in.Windows != nil {
		caseInterrupted(t, row)
		return
	}
	n := max(in.Targets, in.Position+1, in.PositionAfter+1)
	var ids []string
	for k := range n {
		ids = append(ids, fmt.Sprint("r", k))
	}
	version := orElse(in.Candidate, "v1")
	s := oneDeployment("prod", "api", version, ids)
	s.Versions[0].CreatedAt = in.Start
	if in.Current != "" {
		s.Versions = append(s.Versions, rollout.Version{ID: in.Current, Deployment: "api", Status: rollout.VersionReady, CreatedAt: in.Start.Add(-time.Hour)})
		for k := range s.Targets {
			s.Targets[k].Current = in.Current
		}
	}
	set := compile(t, policy(fmt.Sprintf(`{"gradualRollout":{"rolloutType":%q,"timeScaleInterval":%d}}`, in.Type, in.Interval)))
	order := orderOf(t, mustPlan(t, set, s, in.Start), n) // by position: at the start everybody but the first waits
	if in.RunStarted {                                    // somebody joins in front of a target that was started: it goes on
		joined := rollout.Target{TargetID: rollout.TargetID{Resource: "joiner", Environment: "prod", Deployment: "api"}, Priority: 1}
		s.Resources = append(s.Resources, rollout.Resource{ID: "joiner"})
		run := order[in.PositionBefore]
		plan := mustPlan(t, set, s, in.Start.Add(time.Duration(in.Interval)*time.Second))
		s.State = mustCommit(t, plan, in.Start.Add(time.Duration(in.Interval)*time.Second))
		for k := range s.Targets {
			if s.Targets[k].Resource == run {
				s.Targets[k].Jobs = []rollout.Job{{Version: version, Status: rollout.JobFailure, CreatedAt: in.Start.Add(time.Duration(in.Interval) * time.Second)}}
			}
		}
		s.Targets = append(s.Targets, joined)
		retries := compile(t, policy(fmt.Sprintf(`{"gradualRollout":{"rolloutType":%q,"timeScaleInterval":%d}},{"retry":{"maxRetries":1}}`, in.Type, in.Interval)))
		checkTarget(t, mustPlan(t, retries, s, in.Now), run, want.Decision, time.Time{})
		return
	}
	plan := mustPlan(t, set, s, in.Now)
	if want.Decisions == nil {
		checkTarget(t, plan, order[in.Position], want.Decision, instant(t, want.Next))
		return
	}
	var next []json.RawMessage
	if err := json.Unmarshal(want.Next, &next); err != nil {
		t.Fatal(err)
	}
	for position, decision := range want.Decisions {
		checkTarget(t, plan, order[position], decision, instant(t, next[position]))
	}
}

func caseStart(t *testing.T, row recorded) {
	in, want := row.Input, row.Expected
	s := oneDeployment("prod", "api", "v1", []string{"r1", "r2"})
	s.Versions[0].CreatedAt = in.VersionCreated
	rules := `{"gradualRollout":{"rolloutType":"linear","timeScaleInterval":60}}`
	approve := func(by string, at time.Time) {
		s.Approvals = append(s.Approvals, rollout.Approval{Version: "v1", Deployment: "api", Environment: "prod", By: by, Status: rollout.Approved, At: at})
	}
	need := 0
	for _, window := range in.Windows {
		rules += "," + window.rule(t)
	}
	if in.HasReleased {
		for k := range s.Targets {
			s.Targets[k].Current = "v0"
		}
		s.Versions = append(s.Versions, rollout.Version{ID: "v0", Deployment: "api", Status: rollout.VersionReady, CreatedAt: in.VersionCreated.Add(-time.Hour)})
	}
	for k, gate := range in.Gates {
		minimum := gate.Min
		if gate.Type == "progression" {
			rules += `,{"environmentProgression":{"dependsOnEnvironmentSelector":"environment.id == 'staging'"}}`
			s.Environments = append(s.Environments, rollout.Environment{ID: "staging"})
			s.Targets = append(s.Targets, rollout.Target{
				TargetID: rollout.TargetID{Resource: "r1", Environment: "staging", Deployment: "api"},
				Jobs:     []rollout.Job{{Version: "v1", Status: rollout.JobSuccessful, CreatedAt: in.VersionCreated, CompletedAt: *gate.Satisfied}},
			})
			continue
		}
		if gate.Skip != nil {
			s.Overrides = append(s.Overrides, rollout.Override{ID: "o", Rule: fmt.Sprint("p/anyApproval/", k), Version: "v1", CreatedAt: *gate.Skip, CreatedBy: "ann", Reason: "urgent"})
		}
		for i, at := range gate.ApprovedAt {
			approve(fmt.Sprint(k, i), at)
		}
		if minimum == 0 { // one more voice than the gate before, which is there or not
			minimum = need + 1
			if gate.Satisfied != nil {
				approve(fmt.Sprint(k), *gate.Satisfied)
			}
		}
		need = max(need, minimum)
		rules += fmt.Sprintf(`,{"anyApproval":{"minApprovals":%d}}`, minimum)
	}
	plan := mustPlan(t, compile(t, policy(rules)), s, in.VersionCreated.Add(24*time.Hour))
	plan.Start = slices.DeleteFunc(plan.Start, func(s rollout.Start) bool { return s.Environment == "staging" })
	start := want.Start
	if row.Library == "differs" {
		if row.ID != "start-two-approval-rules-legacy" {
			t.Errorf("%s differs, and nobody said how", row.ID)
		}
		start = nil // an unmet rule is not ignored: there is no start
	}
	if in.Windows != nil { // a record keeps the base; the first position is due when windows let it be
		set := compile(t, policy(rules))
		first := func(now time.Time) (list []string) {
			return started(mustPlan(t, set, s, now))
		}
		if got := first(start.Add(-1)); len(got) != 0 {
			t.Errorf("%q start before %v", got, start)
		}
		if got := first(*start); len(got) != 1 {
			t.Errorf("%q start at %v, want one", got, start)
		}
		return
	}
	switch records := plan.State.Rollouts; {
	case start == nil:
		if len(records) != 0 || len(plan.Start) != 0 || !plan.Next.IsZero() {
			t.Errorf("records %+v, starts %q, next %v", records, started(plan), plan.Next)
		}
	case len(records) != 1 || !records[0].StartAt.Equal(*start):
		t.Errorf("records %+v, want a start at %v", records, *start)
	}
}

func caseDependency(t *testing.T, row recorded) {
	in, want := row.Input, row.Expected
	if in.Group != "" || want.Levels != nil {
		caseMembers(t, row)
		return
	}
	if in.Mode == "all-edges" && len(in.Edges) == 0 {
		s := fleet(1, "", map[string][]string{"web": {"v1"}})
		s.Versions[0].Dependencies = []rollout.VersionDependency{}
		checkTarget(t, mustPlan(t, compile(t, "[]"), s, t0), "r1", want.Decision, time.Time{})
		return
	}
	self := orElse(in.Self, orElse(in.Deployment, "web"))
	deployments := map[string][]string{self: {"v9"}}
	expression := "deployment.name in ['" + orElse(in.Self, "db") + "']"
	for name, version := range in.Matched {
		if name != self {
			deployments[name] = []string{orElse(map[bool]string{true: version}[version != "deployed"], "v0")}
		}
	}
	if in.VersionEquals != "" {
		expression += " && version.tag == '" + in.VersionEquals + "'"
	}
	s := fleet(1, "", deployments)
	for k := range s.Targets {
		if s.Targets[k].Deployment != self {
			s.Targets[k].Current = deployments[s.Targets[k].Deployment][0]
		}
	}
	rule := fmt.Sprintf(`{"deploymentDependency":{"dependsOn":%q,"appliesTo":%q,"match":%q}}`, expression, in.AppliesTo, orElse(in.Mode, "any"))
	plan := mustPlan(t, compile(t, policy(rule)), s, t0)
	if got := len(plan.Start) == 1; got != (want.Decision == "allow") {
		t.Errorf("started %q, want %s: %q", started(plan), want.Decision, blockers(plan))
	}
	if want.Decision == "deny" && waitingOf(plan)[0].Blockers[0].Reason != rollout.ReasonDependencyUnmatched {
		t.Errorf("blockers %q", blockers(plan))
	}
}

func caseApproval(t *testing.T, row recorded) {
	in := row.Input
	s := oneDeployment("prod", "api", "v1", []string{"r1"})
	s.Versions[0].CreatedAt = in.VersionCreated
	created, err := in.RuleCreated.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	plan := mustPlan(t, compile(t, policy(fmt.Sprintf(`{"createdAt":%q,"anyApproval":{"minApprovals":%d}},{"gradualRollout":{"rolloutType":"linear","timeScaleInterval":1}}`, created, in.Min))),
		s, in.VersionCreated.Add(time.Hour))
	checkTarget(t, plan, "r1", row.Expected.Decision, time.Time{})
	if got := plan.State.Rollouts[0].StartAt; !got.Equal(row.Expected.Satisfied) {
		t.Errorf("satisfied at %v, want %v", got, row.Expected.Satisfied)
	}
}

func caseRetry(t *testing.T, row recorded) {
	in, want := row.Input, row.Expected
	if in.Base != 0 {
		retries := 99
		r := rollout.Retry{MaxRetries: &retries, BackoffSeconds: in.Base, BackoffStrategy: in.Strategy, MaxBackoffSeconds: in.Cap}
		if got := r.Delay(in.Attempts); got != time.Duration(want.Backoff)*time.Second {
			t.Errorf("delay %v, want %d s", got, want.Backoff)
		}
		return
	}
	s := fleet(1, "", map[string][]string{"api": {"v2", "v1"}}) // v1 is the newer one
	newest := in.Newest
	for _, status := range in.Jobs {
		newest = append(newest, [2]string{"v1", string(status)})
	}
	for k, job := range newest {
		at := t0.Add(-time.Duration(k) * time.Minute)
		s.Targets[0].Jobs = append(s.Targets[0].Jobs, rollout.Job{Version: job[0], Status: rollout.JobStatus(job[1]), CreatedAt: at, CompletedAt: at})
	}
	rules := fmt.Sprintf(`{"retry":{"maxRetries":%d,"backoffSeconds":60}}`, in.Max)
	if row.ID == "retry-default-once" {
		rules = `{"gradualRollout":{"rolloutType":"linear","timeScaleInterval":0}}` // no retry rule
	}
	decision := want.Decision
	if row.Library == "differs" {
		if row.ID != "retry-default-once" {
			t.Errorf("%s differs, and nobody said how", row.ID)
		}
		decision = "noop" // a success is done, and no reason to complain
	}
	now := t0.Add(time.Hour)
	plan := mustPlan(t, compile(t, policy(rules)), s, now)
	checkTarget(t, plan, "r1", decision, time.Time{})
	if decision == "noop" && plan.Keep.Current != 1 {
		t.Errorf("keeps %+v", plan.Keep)
	}
	if want.Attempts != 0 { // the next but one attempt would be the first that is too many
		exhausted := compile(t, policy(fmt.Sprintf(`{"retry":{"maxRetries":%d}}`, want.Attempts-1)))
		wait := waitingOf(mustPlan(t, exhausted, s, now))
		if len(wait) != 1 || wait[0].Blockers[0].Data.Attempt != want.Attempts {
			t.Errorf("waits %+v, want %d attempts", wait, want.Attempts)
		}
	}
}

func caseSelect(t *testing.T, row recorded) {
	in, want := row.Input, row.Expected
	var candidates []string // newest first
	waits := map[string]string{}
	if err := json.Unmarshal(in.Candidates, &candidates); err != nil && in.Candidates != nil {
		if err := json.Unmarshal(in.Candidates, &waits); err != nil {
			t.Fatal(err)
		}
		for id := range waits {
			candidates = append(candidates, id)
		}
	}
	for _, id := range in.Wait {
		waits[id] = "wait"
	}
	if in.Status != "" {
		candidates = []string{"v1"}
	}
	if in.Current != "" && !slices.Contains(candidates, in.Current) {
		candidates = append(candidates, in.Current)
	}
	slices.Reverse(candidates)
	s := fleet(1, in.Current, map[string][]string{"api": candidates})
	for k := range s.Versions {
		v := &s.Versions[k]
		switch {
		case in.Status != "":
			v.Status = in.Status
		case in.Allowed != nil && !slices.Contains(in.Allowed, v.ID), waits[v.ID] != "":
			v.Status = "building"
		}
	}
	plan := mustPlan(t, compile(t, "[]"), s, t0)
	switch {
	case want.Pick != "":
		if got := started(plan); !slices.Equal(got, []string{"r1/api@" + want.Pick}) {
			t.Errorf("starts %q, want %s", got, want.Pick)
		}
	case want.Action == "keep-current", want.Decision == "deny":
		if len(plan.Start) != 0 || plan.Waiting.Len() != 1 || waitingOf(plan)[0].Blockers[0].Status != rollout.Denied {
			t.Errorf("starts %q, waits %q", started(plan), blockers(plan))
		}
	default:
		t.Error("nothing is expected")
	}
}
