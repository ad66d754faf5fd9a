package rollouttest_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/internal/testkit"
	"github.com/tranche-dev/tranche/rollout"
	"github.com/tranche-dev/tranche/rollout/rollouttest"
)

// TestApprovals: who is asked when, and when the version then starts. v2 comes at nine, and a job
// takes three minutes.
func TestApprovals(t *testing.T) {
	t.Parallel()
	const one, two = `{"id":"ok","anyApproval":{"minApprovals":1}}`, `{"id":"ok","anyApproval":{"minApprovals":2}}`
	const staged = `{"id":"staging","environmentProgression":{"dependsOnEnvironmentSelector":"environment.id == 'staging'","minimumSoakTimeMinutes":20}}`
	after := rollouttest.ApproveAfter(minutes(30))
	withStaging := func(w *rollouttest.World) {
		w.Policies = compiled(t, `[{"name":"prod","selector":"environment.id == 'prod'","rules":[`+one+","+staged+`]}]`)
		w.Fleet.Environments = append(w.Fleet.Environments, rollout.Environment{ID: "staging", Name: "staging"})
		own := w.Fleet.Targets[0]
		own.Environment = "staging"
		w.Fleet.Targets = append(w.Fleet.Targets, own)
	}
	for _, row := range []struct {
		why, rules string
		approval   func(rollouttest.ApprovalRequest) (rollouttest.Answer, bool)
		change     func(*rollouttest.World)
		asked      []string
		started    []string // of v2 and v3, in prod
	}{
		{"nobody is asked twice for two clusters", one, after, nil, []string{"09:00 v2 1"}, []string{"09:30 v2", "09:30 v2"}},
		{"at once", one, rollouttest.ApproveAfter(0), nil, []string{"09:00 v2 1"}, []string{"09:00 v2", "09:00 v2"}},
		{"two people, of whom the second takes longer", two, func(r rollouttest.ApprovalRequest) (rollouttest.Answer, bool) {
			return rollouttest.Answer{After: minutes(10 * r.Number)}, true
		}, nil, []string{"09:00 v2 1", "09:00 v2 2"}, []string{"09:20 v2", "09:20 v2"}},
		{"one has approved before, and one does so without being asked", two, after, func(w *rollouttest.World) {
			w.Fleet.Approvals = []rollout.Approval{
				{Version: "v2", Deployment: "web", Environment: "prod", By: "ann", Status: rollout.Approved, At: at(1, 8, 0)},
				{Version: "v2", Deployment: "web", Environment: "prod", By: "bob", Status: rollout.Approved, At: at(1, 9, 5)},
			}
		}, nil, []string{"09:05 v2", "09:05 v2"}},
		{"a rejection that comes unasked approves nothing, and nor does an approval of another version", one, after, func(w *rollouttest.World) {
			w.Fleet.Versions = append(w.Fleet.Versions, version("web", "v9", at(2, 9, 0)))
			w.Fleet.Approvals = []rollout.Approval{
				{Version: "v2", Deployment: "web", Environment: "prod", By: "ann", Status: rollout.Rejected, At: at(1, 9, 5)},
				{Version: "v9", Deployment: "web", Environment: "prod", By: "bob", Status: rollout.Approved, At: at(1, 9, 5)},
			}
			w.End = at(1, 12, 0)
		}, []string{"09:00 v2 1"}, []string{"09:30 v2", "09:30 v2"}},
		{"who has approved may reject what another one is asked for", two, func(r rollouttest.ApprovalRequest) (rollouttest.Answer, bool) {
			return rollouttest.Answer{Reject: r.Number == 2, By: "ann"}, true
		}, nil, []string{"09:00 v2 1", "09:00 v2 2"}, nil},
		{"one has approved before: one is asked", two, after, func(w *rollouttest.World) {
			w.Fleet.Approvals = []rollout.Approval{{Version: "v2", Deployment: "web", Environment: "prod", By: "ann", Status: rollout.Approved, At: at(1, 8, 0)}}
		}, []string{"09:00 v2 1"}, []string{"09:30 v2", "09:30 v2"}},
		{"of two rules the one that wants more people counts", two + `,{"id":"ok too","anyApproval":{"minApprovals":1}}`, after, nil, []string{"09:00 v2 1", "09:00 v2 2"}, []string{"09:30 v2", "09:30 v2"}},
		{"what was there before nine in the morning", one, after, func(w *rollouttest.World) { w.Start = at(1, 12, 0) }, []string{"12:00 v2 1"}, []string{"12:30 v2", "12:30 v2"}},
		{"not before staging has proved it", one, after, withStaging, []string{"09:23 v2 1"}, []string{"09:53 v2", "09:53 v2"}},
		{"nobody is asked about a cluster that is held whatever its version, by a selector that fails", one, after, func(w *rollouttest.World) {
			w.Policies = compiled(t, `[{"name":"p","selector":"int(resource.metadata['tier']) > 0","rules":[`+one+`]}]`)
			w.Fleet.Resources[0].Metadata, w.Fleet.Resources[1].Metadata = map[string]string{"tier": "1"}, map[string]string{"tier": "gold"}
		}, []string{"09:00 v2 1"}, []string{"09:30 v2"}},
		{"not while it is paused", one, after, func(w *rollouttest.World) {
			w.Fleet.Versions[1].Status = rollout.VersionPaused
			w.Changes = append(w.Changes, rollouttest.Change{At: at(1, 11, 0), Do: func(s *rollout.Snapshot) { s.Versions[1].Status = rollout.VersionReady }})
		}, []string{"11:00 v2 1"}, []string{"11:30 v2", "11:30 v2"}},
		{"rejected: nobody else is asked", one, func(rollouttest.ApprovalRequest) (rollouttest.Answer, bool) {
			return rollouttest.Answer{After: minutes(5), Reject: true, By: "eve"}, true
		}, nil, []string{"09:00 v2 1"}, nil},
		{"one of two rejects: nobody is asked instead", two, func(r rollouttest.ApprovalRequest) (rollouttest.Answer, bool) {
			return rollouttest.Answer{After: minutes(5), Reject: r.Number == 1}, true
		}, nil, []string{"09:00 v2 1", "09:00 v2 2"}, nil},
		{"nobody answers", one, func(rollouttest.ApprovalRequest) (rollouttest.Answer, bool) { return rollouttest.Answer{}, false }, nil, []string{"09:00 v2 1"}, nil},
		{"after the end of time", one, rollouttest.ApproveAfter(math.MaxInt64), nil, []string{"09:00 v2 1"}, nil},
		{"a newer version is asked for as well", one, after, func(w *rollouttest.World) {
			w.Fleet.Versions = append(w.Fleet.Versions, version("web", "v3", at(1, 9, 10)))
		}, []string{"09:00 v2 1", "09:10 v3 1"}, []string{"09:30 v2", "09:30 v2", "09:40 v3", "09:40 v3"}},
		{"a newer version is rejected, and so overtakes nothing", one, after, func(w *rollouttest.World) {
			w.Fleet.Versions = append(w.Fleet.Versions, version("web", "v3", at(1, 9, 0)))
			w.Fleet.Versions[2].Status = "rejected"
		}, []string{"09:00 v2 1"}, []string{"09:30 v2", "09:30 v2"}},
		{"and one that is for other clusters overtakes nothing either", one, after, func(w *rollouttest.World) {
			w.Fleet.Versions = append(w.Fleet.Versions, version("web", "v3", at(1, 9, 0)), version("web", "v4", at(1, 9, 0)))
			w.Fleet.Versions[2].Status, w.Fleet.Versions[3].TargetSelector = "rejected", "resource.name == 'c-9'"
		}, []string{"09:00 v2 1"}, []string{"09:30 v2", "09:30 v2"}},
		{"a newer version has yet to be proved", one, after, func(w *rollouttest.World) {
			withStaging(w)
			w.Fleet.Versions = append(w.Fleet.Versions, version("web", "v3", at(1, 9, 10)))
		}, []string{"09:23 v2 1", "09:33 v3 1"}, []string{"09:53 v2", "09:53 v2", "10:03 v3", "10:03 v3"}},
		{"a newer version, also missing an approval, overtakes it before anybody is asked", one, after, func(w *rollouttest.World) {
			w.Fleet.Versions = append(w.Fleet.Versions, version("web", "v3", at(1, 9, 0)))
		}, []string{"09:00 v3 1"}, []string{"09:30 v3", "09:30 v3"}},
		{"taken back after it was given: asked again", one, after, func(w *rollouttest.World) {
			w.Changes = append(w.Changes, rollouttest.Change{At: at(1, 9, 30), Do: func(s *rollout.Snapshot) { s.Approvals = nil }})
		}, []string{"09:00 v2 1"}, []string{"09:30 v2", "09:30 v2"}},
		{"taken back while the curve is on its way", one + `,{"id":"turn","gradualRollout":{"rolloutType":"linear","timeScaleInterval":600}}`, after, func(w *rollouttest.World) {
			w.Changes = append(w.Changes, rollouttest.Change{At: at(1, 9, 35), Do: func(s *rollout.Snapshot) { s.Approvals = nil }})
		}, []string{"09:00 v2 1", "09:35 v2 2"}, []string{"09:30 v2", "10:05 v2"}},
		{"a host that polls asks at its looks", one, after, func(w *rollouttest.World) { w.Every = minutes(7) }, []string{"09:03 v2 1"}, []string{"09:38 v2", "09:38 v2"}},
	} {
		t.Run(row.why, func(t *testing.T) {
			t.Parallel()
			w := webWorld(t, 2, row.rules)
			if row.change != nil {
				row.change(&w)
			}
			run := func(w rollouttest.World) (asked, started []string) {
				w.Approval = func(r rollouttest.ApprovalRequest) (rollouttest.Answer, bool) {
					if r.Deployment != "web" || r.Environment != "prod" {
						t.Errorf("asked for %+v", r)
					}
					asked = append(asked, fmt.Sprintf("%s %s %d", r.At.Format("15:04"), r.Version, r.Number))
					return row.approval(r)
				}
				timeline, err := w.Run(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				for _, e := range timeline.Entries {
					if e.Kind == rollouttest.Start && e.Environment == "prod" {
						started = append(started, e.At.Format("15:04")+" "+e.Version)
					}
				}
				return asked, started
			}
			asked, started := run(w)
			if !slices.Equal(asked, row.asked) || !slices.Equal(started, row.started) {
				t.Errorf("asked %q, starts %q; want %q, %q", asked, started, row.asked, row.started)
			}
			w.Pure, w.Trust = true, true
			if pure, same := run(w); !slices.Equal(pure, asked) || !slices.Equal(same, started) {
				t.Errorf("without a planner: asked %q, starts %q; want %q, %q", pure, same, asked, started)
			}
		})
	}
}

// TestImpossibleAnswers: what nobody can answer is an error that says which request it is about.
func TestImpossibleAnswers(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		why    string
		answer rollouttest.Answer
		want   string
	}{
		{"before the request", rollouttest.Answer{After: -time.Second}, "World.Approval answers request 1 of web v2 in prod 1s before it was made"},
		{"one person for two approvals", rollouttest.Answer{By: "ann"}, "World.Approval answers request 2 of web v2 in prod by ann, who answers another one"},
	} {
		w := webWorld(t, 1, `{"id":"ok","anyApproval":{"minApprovals":2}}`)
		w.Approval = func(rollouttest.ApprovalRequest) (rollouttest.Answer, bool) { return row.answer, true }
		if timeline, err := w.Run(t.Context()); err == nil || !strings.Contains(err.Error(), row.want) || !timeline.CutOff {
			t.Errorf("%s: %v", row.why, err)
		}
	}
}

// TestDrawnApprovals: a world in which people answer is the one in which it is known from the start
// what they will say and when. (An answer at once would hide the wait for it.)
func TestDrawnApprovals(t *testing.T) {
	if testing.Short() {
		t.Skip("whole worlds, twice each")
	}
	seen := testkit.Tally{}
	compiler := newCompiler(t)
	seen.Check(t, func(t *rapid.T) {
		d := drawn{t}
		policies := d.policies()
		for range d.number(1, 1, 2) { // each time for one more policy
			policies = strings.Replace(policies, `"rules":[{`, `"rules":[{"id":"ask`+fmt.Sprint(strings.Count(policies, "ask"))+`","anyApproval":{"minApprovals":`+d.seconds(1, 1, 2)+`}},{`, 1)
		}
		list, err := rollout.ParsePolicies([]byte(policies))
		if err != nil {
			t.Fatal(err)
		}
		set, err := rollout.Compile(list, compiler)
		if err != nil {
			seen["refused"]++
			return
		}
		w := d.world(set, list)
		w.Fleet.Approvals, w.Pure, w.Trust = nil, true, true
		delay := []time.Duration{minutes(d.number(1, 2, 30)), minutes(d.number(1, 5, 200)), minutes(d.number(10, 2000))}
		reject := d.number(0, 0, 3, 5)
		asking, given := w, []rollout.Approval(nil)
		asking.Approval = func(r rollouttest.ApprovalRequest) (rollouttest.Answer, bool) {
			k := len(r.Version) + len(r.Environment) + r.Number + int(r.Deployment[0])
			a := rollouttest.Answer{After: delay[k%3], Reject: reject > 0 && k%reject == 0, By: fmt.Sprintf("p%d", r.Number)}
			own := rollout.Approval{Version: r.Version, Deployment: r.Deployment, Environment: r.Environment, By: a.By, Status: rollout.Approved, At: r.At.Add(a.After)}
			if a.Reject {
				own.Status = rollout.Rejected
			}
			seen[string(own.Status)]++
			given = append(given, own)
			return a, true
		}
		got := played(t, asking, policies)
		w.Fleet.Approvals = given
		sameIfKnown(t, w, got, fmt.Sprintf("%s\n%v", policies, given))
		if len(given) > 0 && slices.ContainsFunc(got.Entries, func(e rollouttest.Entry) bool { return e.Kind == rollouttest.Start && e.At.After(given[0].At) }) {
			seen["started later"]++
		}
	}, "approved", "rejected", "started later")
}

// TestForecastOfAnswers: the answers of a forecast are drawn from the samples of the environment, the
// same for the same seed, and those of an environment without samples are the world's.
func TestForecastOfAnswers(t *testing.T) {
	t.Parallel()
	w := webWorld(t, 1, `{"id":"ok","anyApproval":{"minApprovals":2}}`)
	finish := func(samples map[string][]rollouttest.Answer, q float64) string {
		p, err := rollouttest.Forecast(t.Context(), w, rollouttest.Samples{Approvals: samples}, 200, 7)
		if err != nil {
			t.Fatal(err)
		}
		at, ok := p.Finish(q)
		if !ok {
			return p.String()
		}
		return at.Format("15:04")
	}
	hours := []rollouttest.Answer{{After: time.Hour}, {After: 2 * time.Hour}, {After: 4 * time.Hour}}
	for _, row := range []struct {
		q    float64
		want string
	}{{0, "10:03"}, {0.3, "11:03"}, {0.9, "13:03"}, {1, "13:03"}} { // the later of two of three
		if got := finish(map[string][]rollouttest.Answer{"prod": hours}, row.q); got != row.want {
			t.Errorf("%v of the trials are done by %s, want %s", row.q, got, row.want)
		}
	}
	if got := finish(map[string][]rollouttest.Answer{"prod": {{After: time.Hour, Reject: true}}}, 0); !strings.Contains(got, "never done: 100 %: approval_missing in 200 trials") {
		t.Error(got)
	}
	if got := finish(nil, 0); !strings.Contains(got, "never done: 100 %: approval_missing in 200 trials") {
		t.Error(got)
	}
	w.Approval = rollouttest.ApproveAfter(minutes(30))
	if got := finish(nil, 1); got != "09:33" {
		t.Errorf("without samples it is done by %s", got)
	}
	if got := finish(map[string][]rollouttest.Answer{"prod": {{After: minutes(5)}}}, 1); got != "09:08" {
		t.Errorf("with samples it is done by %s", got)
	}
	for want, samples := range map[string]map[string][]rollouttest.Answer{
		`rollouttest: Samples.Approvals["prd"]: the fleet has no such environment`:                        {"prd": nil},
		`rollouttest: Samples.Approvals["prod"][1] lets people answer 1s before they are asked`:           {"prod": {{}, {After: -time.Second}}},
		`rollouttest: World.Approval answers request 2 of web v2 in prod by ann, who answers another one`: {"prod": {{By: "ann"}}},
	} {
		if _, err := rollouttest.Forecast(t.Context(), w, rollouttest.Samples{Approvals: samples}, 1, 1); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestSamplesOf: which jobs show what.
func TestSamplesOf(t *testing.T) {
	t.Parallel()
	job := func(change func(*rollout.Job)) rollout.Job {
		j := rollout.Job{Version: "v1", Status: rollout.JobSuccessful, CreatedAt: at(1, 9, 0), CompletedAt: at(1, 9, 4)}
		change(&j)
		return j
	}
	s := rollout.Snapshot{Targets: []rollout.Target{
		{TargetID: rollout.TargetID{Resource: "r1", Deployment: "web"}, Jobs: []rollout.Job{
			job(func(*rollout.Job) {}),
			job(func(j *rollout.Job) { j.Status, j.Verification = rollout.JobFailure, rollout.VerificationPassed }), // which says nothing of a job that failed
			job(func(j *rollout.Job) { j.Verification = rollout.VerificationFailed }),
			job(func(j *rollout.Job) { j.Verification = rollout.VerificationRunning }),
			job(func(j *rollout.Job) { j.Status = rollout.JobInProgress }),
			job(func(j *rollout.Job) { j.Status = rollout.JobCancelled }),
			job(func(j *rollout.Job) { j.Status = rollout.JobSkipped }),
			job(func(j *rollout.Job) { j.CompletedAt = time.Time{} }),
			job(func(j *rollout.Job) { j.CreatedAt = time.Time{} }),
			job(func(j *rollout.Job) { j.CompletedAt = at(1, 8, 59) }),
			job(func(j *rollout.Job) { j.CompletedAt = j.CreatedAt }),
		}},
		{TargetID: rollout.TargetID{Resource: "r1", Deployment: "db"}, Jobs: []rollout.Job{job(func(j *rollout.Job) { j.Status = rollout.JobExternalRunNotFound })}},
		{TargetID: rollout.TargetID{Resource: "r1", Deployment: "cache"}},
	}}
	want := rollouttest.Samples{Jobs: map[string][]rollouttest.Outcome{
		"web": {
			{After: minutes(4), Status: rollout.JobSuccessful}, {After: minutes(4), Status: rollout.JobFailure},
			{After: minutes(4), Status: rollout.JobSuccessful, Verification: rollout.VerificationFailed}, {Status: rollout.JobSuccessful},
		},
		"db": {{After: minutes(4), Status: rollout.JobExternalRunNotFound}},
	}}
	if diff := cmp.Diff(want, rollouttest.SamplesOf(s)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := rollouttest.SamplesOf(s, s); len(got.Jobs["db"]) != 2 {
		t.Errorf("of two snapshots: %v", got.Jobs["db"])
	}
	if _, err := rollouttest.Forecast(t.Context(), webWorld(t, 2, oneByOne), want, 20, 1); err != nil {
		t.Errorf("a forecast does not take them: %v", err)
	}
}
