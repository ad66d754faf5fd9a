package rollouttest_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/internal/testkit"
	"github.com/tranche-dev/tranche/rollout"
	"github.com/tranche-dev/tranche/rollout/rollouttest"
)

// TestLintForetellsDrawnWorlds draws policies with every kind of rule and lets them run to the end
// in a world where no job fails and nobody changes anything, and people approve of everything.
// Whatever a finding says never starts does not start; and of everybody who waits at the end, and
// should not, a finding has named the rule, or the rule of somebody for whom they wait.
func TestLintForetellsDrawnWorlds(t *testing.T) {
	const horizon = 6 * 24 * time.Hour
	seen := testkit.Tally{}
	compiler := newCompiler(t)
	seen.Check(t, func(t *rapid.T) {
		text, world, accepted := drawn{t}.governed(compiler, seen)
		if !accepted {
			return
		}
		world.Changes, world.Fleet.Overrides, world.Fleet.Freezes, world.Pure, world.Trust = nil, nil, nil, true, true
		world.Job = func(rollout.Start, int) rollouttest.Outcome {
			return rollouttest.Outcome{After: time.Minute, Verification: rollout.VerificationPassed}
		}
		world.Fleet.Approvals = nil
		for _, v := range world.Fleet.Versions {
			for _, e := range world.Fleet.Environments {
				for _, by := range []string{"ann", "bob"} {
					world.Fleet.Approvals = append(world.Fleet.Approvals, rollout.Approval{Version: v.ID, Deployment: v.Deployment, Environment: e.ID, By: by, Status: rollout.Approved, At: v.CreatedAt})
				}
			}
		}
		for i := range world.Fleet.Targets {
			world.Fleet.Targets[i].JoinedAt = time.Time{}
		}
		world.End = world.Start.Add(horizon)
		findings, err := world.Policies.Lint(world.Fleet, world.Start, horizon, rollout.LintOptions{Approvers: []string{"ann", "bob"}})
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		timeline, err := world.Run(context.Background())
		if code := refusal(err); err != nil {
			if seen["not planned"]++; code == "" || !slices.ContainsFunc(findings, func(f rollout.Finding) bool { return f.Code == code && f.Severity == rollout.SeverityError }) {
				t.Fatalf("not planned, and no finding says so: %v\n%v\n%s", err, findings, text)
			}
			return
		}
		choosy := strings.Contains(text, "versionSelector") || strings.Contains(text, "environmentProgression") || slices.ContainsFunc(world.Fleet.Versions, func(v rollout.Version) bool { return v.TargetSelector != "" })
		forecast := foretold{world.Fleet, findings, timeline, choosy}
		for _, f := range findings {
			if f.Severity == rollout.SeverityError {
				if seen["error "+string(f.Code)]++; forecast.starts(f) {
					t.Fatalf("%s\nit started\n%v\n%s", f, timeline, text)
				}
			}
		}
		why := forecast.explain()
		for k, left := range timeline.Left {
			if seen["left: "+why[k]]++; why[k] == "" {
				t.Fatalf("%s waits for ever, and no finding says so: %v\nfindings %v\n%v\n%s", left.TargetID, left.Blockers, findings, timeline, text)
			}
		}
		if len(timeline.Left) == 0 {
			seen["finished"]++
		}
	}, "finished", "left: foretold", "left: as it should", "left: follows", "error progression_no_environment")
}

// refusal is the code of the finding that foretells an error of Plan.
func refusal(err error) rollout.LintCode {
	var cycle *rollout.CycleError
	var inside *bracket.CycleError
	var against *bracket.RoleError
	var overlap *bracket.OverlapError
	switch {
	case errors.As(err, &cycle), errors.As(err, &inside):
		return rollout.LintDependencyCycle
	case errors.As(err, &against):
		return rollout.LintDependencyAcrossRoles
	case errors.As(err, &overlap):
		return rollout.LintBracketOverlapping
	}
	return ""
}

// foretold is what was said of a fleet, and what became of it.
type foretold struct {
	fleet    rollout.Snapshot
	findings []rollout.Finding
	timeline rollouttest.Timeline

	// choosy: a group may lock a version of a hook that is not, or not yet, for all of its
	// resources; see LintBracketHookWithoutVersion.
	choosy bool
}

// starts reports whether the target that an error names as its example got a version that nobody
// ran before.
func (w foretold) starts(f rollout.Finding) bool {
	return slices.ContainsFunc(w.timeline.Entries, func(e rollouttest.Entry) bool {
		return e.Kind == rollouttest.Start && e.Resource == f.Example.Resource && e.Environment == f.Example.Environment && e.Deployment == f.Example.Deployment &&
			!slices.ContainsFunc(w.fleet.Targets, func(t rollout.Target) bool { return t.Deployment == e.Deployment && t.Current == e.Version })
	})
}

// explain says of everybody who waits at the end why that was to be expected; of whom it is empty
// nothing was said.
func (w foretold) explain() []string {
	why := make([]string, len(w.timeline.Left))
	for k, left := range w.timeline.Left {
		for _, b := range left.Blockers {
			windows := b.Reason == rollout.ReasonWindowClosed || b.Reason == rollout.ReasonWindowTooShort // a finding about several names one of them
			switch said := slices.ContainsFunc(w.findings, func(f rollout.Finding) bool {
				return (windows || f.Rule == b.Rule) && slices.Contains(foretells[b.Reason], f.Code)
			}); {
			case said:
				why[k] = "foretold"
			case !b.Until.IsZero() && b.Until.After(w.timeline.Start):
				why[k] = "time passes"
			case w.overtaken(left, b):
				why[k] = "overtaken"
			case slices.Contains(meant, b.Reason), b.Reason == rollout.Reason(bracket.ReasonHookWithoutVersion) && w.choosy:
				why[k] = "as it should"
			}
		}
	}
	for again := true; again; {
		again = false
		for k, left := range w.timeline.Left {
			for _, b := range left.Blockers {
				for j, other := range w.timeline.Left {
					if why[k] == "" && why[j] != "" && follows(left, b, other) {
						why[k], again = "follows", true
					}
				}
			}
		}
	}
	return why
}

// overtaken: the environments that a progression asks started something newer before the version
// was done there, which no finding foresees.
func (w foretold) overtaken(left rollout.Waiting, b rollout.Verdict) bool {
	age := func(id string) time.Time {
		k := slices.IndexFunc(w.fleet.Versions, func(v rollout.Version) bool { return v.Deployment == left.Deployment && v.ID == id })
		return w.fleet.Versions[k].CreatedAt
	}
	return b.Reason == rollout.ReasonProgressionWaiting && slices.ContainsFunc(w.timeline.Entries, func(e rollouttest.Entry) bool {
		return e.Kind == rollouttest.Start && e.Deployment == left.Deployment && slices.Contains(b.Data.Names, e.Environment) && age(e.Version).After(age(left.Version))
	})
}

// foretells says which findings about a rule tell that its verdict stays.
var foretells = map[rollout.Reason][]rollout.LintCode{
	rollout.ReasonWindowClosed:                       {rollout.LintWindowNeverOpens, rollout.LintFreezeCoversOpenings},
	rollout.ReasonWindowTooShort:                     {rollout.LintWindowNeverOpens, rollout.LintFreezeCoversOpenings},
	"slot_paused":                                    {rollout.LintLimitZero},
	rollout.ReasonDependencyUnmatched:                {rollout.LintDependencyUnmatched},
	rollout.ReasonDependencyUnmet:                    {rollout.LintDependencyUnmatched, rollout.LintDependencyCycle},
	rollout.ReasonProgressionNoEnvironment:           {rollout.LintProgressionNoEnvironment},
	rollout.ReasonProgressionWaiting:                 {rollout.LintProgressionCycle, rollout.LintDeadlineBelowSoak, rollout.LintProgressionUnreachable},
	rollout.ReasonProgressionTooOld:                  {rollout.LintDeadlineBelowSoak, rollout.LintProgressionUnreachable},
	rollout.Reason(bracket.ReasonHookWithoutVersion): {rollout.LintBracketHookWithoutVersion},
}

// meant are reasons that nobody would call a mistake: a version is not for everybody, or was not
// deployed in time, and a hook runs its next version when it is needed.
var meant = []rollout.Reason{
	rollout.ReasonVersionNotDeployable, rollout.ReasonSelectorNoMatch, rollout.ReasonSelectorMissingKey, rollout.ReasonProgressionTooOld,
	rollout.Reason(bracket.ReasonHookWaitsForMain),
}

// follows reports whether a target waits, for this reason, for another one that waits itself.
func follows(left rollout.Waiting, b rollout.Verdict, other rollout.Waiting) bool {
	switch {
	case b.Reason == rollout.ReasonProgressionWaiting:
		return other.Deployment == left.Deployment && other.Environment != left.Environment
	case b.Reason == rollout.ReasonDependencyUnmet:
		return other.Resource == left.Resource && slices.Contains(b.Data.Names, other.Deployment)
	case strings.HasPrefix(string(b.Reason), "bracket_"): // a member for another one
		return other.Resource == left.Resource
	case strings.HasPrefix(string(b.Reason), "slot_"):
		return true
	}
	return false
}
