package staged_test

import (
	"testing"
	"time"

	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/rollout/staged"
)

// TestShortestSoak: a soak of one nanosecond is one, and its end is the first instant at which the
// target is done.
func TestShortestSoak(t *testing.T) {
	stage := all("only", 1)
	stage.MinSuccessTime = staged.For(1)
	s := newScene(t, staged.Strategy{Stages: []staged.Stage{stage}}, staged.Options{}, []string{"c1", "c2"})
	s.see(staged.HealthReady, "c1").want(staged.PhaseProgressing, "c1 soaking, c2").left(1)
	s.after(1).step(staged.Input{}).want(staged.PhaseProgressing, "c1 done, c2 starting")
}

// TestObservations is the table of what an observation makes of a target, one row for each of its
// cells.
func TestObservations(t *testing.T) {
	const none, current, old = "none", "current", "old"
	for _, row := range []struct {
		is      string // before
		version string
		health  staged.Health
		token   string
		gone    bool
		want    string
	}{
		{"waiting", "v2", staged.HealthReady, none, false, "c2 current"},
		{"waiting", "v2", staged.HealthProgressing, none, false, "c2"},
		{"waiting", "v2", "", none, false, "c2"},
		{"waiting", "", staged.HealthReady, none, false, "c2"},
		{"waiting", "v3", staged.HealthReady, none, false, "c2"},
		{"waiting", "", "", none, true, "c2 removed"},
		{"current", "v2", staged.HealthReady, none, false, "c2 current"},
		{"current", "v2", "", none, false, "c2 current"},
		{"current", "", staged.HealthReady, none, false, "c2 current"},
		{"current", "v2", staged.HealthProgressing, none, false, "c2"},
		{"current", "v2", staged.HealthFailing, none, false, "c2"},
		{"current", "", staged.HealthFailed, none, false, "c2"},
		{"current", "v3", "", none, false, "c2"},
		{"starting", "", "", current, false, "c1 updating"},
		{"starting", "v2", "", none, false, "c1 updating"},
		{"starting", "v2", staged.HealthFailed, none, false, "c1 failed (reported_failed)"},
		{"starting", "v2", staged.HealthReady, none, false, "c1 soaking"},
		{"starting", "v3", staged.HealthReady, none, false, "c1 starting"},
		{"starting", "", staged.HealthFailed, none, false, "c1 starting"},
		{"starting", "v3", "", current, false, "c1 failed (superseded)"},
		{"starting", "v2", staged.HealthReady, old, false, "c1 starting"},
		{"starting", "", "", old, true, "c1 starting"},
		{"starting", "", "", none, true, "c1 removed"},
		{"updating", "v3", staged.HealthReady, none, false, "c1 failed (superseded)"},
		{"updating", "", staged.HealthReady, none, false, "c1 soaking"},
		{"updating", "v2", staged.HealthProgressing, none, false, "c1 updating"},
		{"updating", "v2", staged.HealthFailing, none, false, "c1 updating"},
		{"updating", "v2", staged.HealthFailed, none, false, "c1 failed (reported_failed)"},
		{"updating", "v2", "", none, false, "c1 updating"},
		{"updating", "v3", staged.HealthFailed, old, false, "c1 updating"},
		{"updating", "", "", none, true, "c1 removed"},
		{"soaking", "v3", staged.HealthReady, none, false, "c1 failed (superseded)"},
		{"soaking", "v2", staged.HealthProgressing, none, false, "c1 updating"},
		{"soaking", "", staged.HealthFailing, none, false, "c1 updating"},
		{"soaking", "v2", staged.HealthFailed, none, false, "c1 failed (reported_failed)"},
		{"soaking", "v2", staged.HealthReady, none, false, "c1 soaking"},
		{"soaking", "v2", "", none, false, "c1 soaking"},
		{"soaking", "", "", none, true, "c1 removed"},
		{"done", "", "", none, true, "c1 done"},
	} {
		stage := all("only", 1)
		stage.MinSuccessTime, stage.MaxFailures = staged.For(time.Hour), concurrency.Count(9)
		s := newScene(t, staged.Strategy{Stages: []staged.Stage{stage}}, staged.Options{}, []string{"c1", "c2", "c3"})
		of := "c1"
		switch row.is {
		case "waiting":
			of = "c2"
		case "current":
			of = "c2"
			s.step(staged.Input{State: staged.StateStop}).see(staged.HealthReady, of) // else it would be done at once
		case "updating":
			s.see(staged.HealthProgressing, of)
		case "soaking":
			s.see(staged.HealthReady, of)
		case "done":
			s.see(staged.HealthReady, of).after(time.Hour).step(staged.Input{})
		}
		o := staged.Observation{Target: of, Version: row.version, Health: row.health, Gone: row.gone}
		if row.token != none {
			if o.Token = s.tokens[of]; row.token == old {
				o.Token.Attempt++
			}
		}
		s.step(staged.Input{State: staged.StateStop, Observations: []staged.Observation{o}}) // stopped, so that nothing else starts
		if target, _ := s.run.Target(of); target.String() != row.want {
			t.Errorf("%s, seen at %q, %q, gone %t, with token: %s: got %s, want %s", row.is, row.version, row.health, row.gone, row.token, target, row.want)
		}
	}
}

// TestStaleTokenOfALaterStage: the event of a stale observation names the stage of its target.
func TestStaleTokenOfALaterStage(t *testing.T) {
	stages := []staged.Stage{{Name: "a", Targets: []string{"c1"}}, {Name: "b", Targets: []string{"c2"}}}
	s := newScene(t, staged.Strategy{Stages: stages}, staged.Options{}, []string{"c1", "c2"})
	of := s.result.Actions[0].Token // of c1
	s.see(staged.HealthReady, "c1").step(staged.Input{Observations: []staged.Observation{{Target: "c2", Token: of, Health: staged.HealthReady}}})
	want := staged.Event{Kind: staged.EventObservationIgnored, Stage: 1, Target: "c2", Reason: staged.ReasonStaleToken}
	if len(s.result.Events) != 1 || s.result.Events[0] != want {
		t.Errorf("got %+v", s.result.Events)
	}
}
