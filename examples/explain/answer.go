package main

import (
	"embed"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/examples/internal/program"
	"github.com/tranche-dev/tranche/rollout"
	"github.com/tranche-dev/tranche/selector"
)

//go:embed policy.yaml snapshot.yaml before.yaml
var builtin embed.FS

func readPolicies(named string) (set *rollout.PolicySet, name string, err error) {
	name, data, err := program.ReadPolicies(builtin, named, "policy.yaml")
	if err != nil {
		return nil, name, err
	}
	env, err := selector.NewEnv(selector.DefaultSchema(), selector.Limits{})
	if err != nil {
		return nil, name, err
	}
	set, err = rollout.Load(data, env, rollout.WithZones(time.LoadLocation))
	if err != nil {
		return nil, name, &program.InputError{Source: name, Err: err}
	}
	return set, name, nil
}

// readSnapshot also returns the name of the file, for faults that only show when it is planned.
func readSnapshot(named string) (snapshot rollout.Snapshot, name string, err error) {
	name, err = program.Decode(builtin, named, "snapshot.yaml", &snapshot)
	return snapshot, name, err
}

// answer is everything that is found out, and what -json prints.
type answer struct {
	Now     time.Time         `json:"now"`
	Next    time.Time         `json:"next,omitzero"` // of the plan
	Start   []rollout.Start   `json:"start,omitempty"`
	Waiting []rollout.Waiting `json:"waiting,omitempty"`
	Queue   []rollout.Queued  `json:"queue,omitempty"` // who gets the next slots
	Keep    rollout.Keep      `json:"keep"`

	// Target is set if one is asked for; then Start and Waiting hold it alone, and its place in the
	// queue is in its explanation.
	Target *explained `json:"target,omitempty"`

	Diagnostics []rollout.Diagnostic `json:"diagnostics,omitempty"`
	Changes     []rollout.Change     `json:"changes,omitempty"`  // of the target, or of all
	Findings    []rollout.Finding    `json:"findings,omitempty"` // about all policies, or about those of the target

	compared bool
	let      map[rollout.TargetID]string // of starts: the overrides that let them pass
}

// explained is one target.
type explained struct {
	rollout.Explanation
	Blockers []rollout.RuleVerdict `json:"blockers,omitempty"` // of the newest version that waits: all of them must open, and no other rule
	Until    time.Time             `json:"until,omitzero"`     // when time alone will have opened them; zero: it will not
	Actors   []rollout.Actor       `json:"actors,omitempty"`   // who can open them
}

// find plans, explains, compares and lints. Faults of all files are found before anything is
// refused.
func find(o options) (answer, error) {
	var a answer
	set, policyName, err := readPolicies(o.policy)
	snapshot, name, snapshotErr := readSnapshot(o.snapshot)
	before, beforeName, beforeSet, beforePolicyName := snapshot, name, set, policyName
	var beforeErr, beforePolicyErr error
	if o.before != "" {
		before, beforeName, beforeErr = readSnapshot(o.before)
	}
	if o.beforePolicy != "" {
		beforeSet, beforePolicyName, beforePolicyErr = readPolicies(o.beforePolicy)
	}
	if err := errors.Join(err, snapshotErr, beforeErr, beforePolicyErr); err != nil {
		return a, err
	}

	if len(snapshot.Targets) == 0 {
		return a, program.Wrong(name, "targets: at least one is needed: there is nothing to explain")
	}
	plan, err := set.Plan(snapshot, o.now)
	if err != nil {
		return a, &program.InputError{Source: program.Blame(err, policyName, name), Err: err}
	}
	a = answer{Now: plan.Now, Next: plan.Next, Start: plan.Start, Waiting: slices.Collect(plan.Waiting.All()), Keep: plan.Keep, Diagnostics: plan.Diagnostics, compared: o.compare}
	if o.compare {
		old, err := beforeSet.Plan(before, o.beforeNow)
		if err != nil {
			return a, &program.InputError{Source: program.Blame(err, beforePolicyName, beforeName), Err: err}
		}
		a.Changes = plan.Changes(&old)
	}
	if a.Findings, err = set.Lint(snapshot, o.now, o.horizon, rollout.LintOptions{}); err != nil {
		return a, &program.InputError{Source: name, Err: err}
	}
	if o.target == "" {
		if a.Queue, err = plan.Queue(); err != nil {
			return a, err
		}
		if len(snapshot.Overrides) > 0 {
			err = a.overridden(&plan)
		}
		return a, err
	}
	id, err := targetOf(snapshot, o.target, name)
	if err != nil {
		return a, err
	}
	explanation, err := plan.Explain(id)
	if err != nil {
		return a, &program.InputError{Source: "-target", Err: err}
	}
	a.narrow(id, explanation.Policies)
	a.Target = explain(explanation)
	return a, nil
}

// overridden notes what started only because somebody said so.
func (a *answer) overridden(plan *rollout.Plan) error {
	a.let = map[rollout.TargetID]string{}
	for _, start := range plan.Start {
		e, err := plan.Explain(start.TargetID)
		if err != nil {
			return err
		}
		for _, v := range e.Versions {
			for _, r := range v.Rules {
				if v.Version == start.Version && r.Reason == rollout.ReasonOverridden {
					a.let[start.TargetID] += ", " + r.Rule + " " + r.Verdict.String()
				}
			}
		}
	}
	return nil
}

// targetOf finds a target by its three ids with slashes between them; an id may hold slashes of its
// own.
func targetOf(snapshot rollout.Snapshot, text, name string) (rollout.TargetID, error) {
	spell := func(id rollout.TargetID) string { return id.Resource + "/" + id.Environment + "/" + id.Deployment }
	var found, near []rollout.TargetID
	resource, _, _ := strings.Cut(text, "/")
	for _, t := range snapshot.Targets {
		if spell(t.TargetID) == text {
			found = append(found, t.TargetID)
		} else if t.Resource == resource {
			near = append(near, t.TargetID)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return rollout.TargetID{}, program.Wrong("-target", "%q is more than one target of %s", text, name)
	}
	hint := "write it as resource/environment/deployment, such as " + spell(snapshot.Targets[0].TargetID)
	if len(near) > 0 {
		names := make([]string, len(near))
		for k, id := range near {
			names[k] = spell(id)
		}
		hint = program.Among(names)
	}
	return rollout.TargetID{}, program.Wrong("-target", "%s has no target %q: %s", name, text, hint)
}

// narrow leaves what concerns one target: of the findings, those about the policies that govern it
// and about versions of its deployment.
func (a *answer) narrow(id rollout.TargetID, policies []string) {
	a.Start = slices.DeleteFunc(slices.Clone(a.Start), func(s rollout.Start) bool { return s.TargetID != id })
	a.Waiting = slices.DeleteFunc(slices.Clone(a.Waiting), func(w rollout.Waiting) bool { return w.TargetID != id })
	a.Changes = slices.DeleteFunc(a.Changes, func(c rollout.Change) bool { return c.TargetID != id })
	a.Findings = slices.DeleteFunc(a.Findings, func(f rollout.Finding) bool {
		return !slices.Contains(policies, f.Policy) && !strings.HasPrefix(f.Path, "versions["+id.Deployment+"@") && f.Example != id
	})
}

func explain(e rollout.Explanation) *explained {
	own := &explained{Explanation: e}
	if v := e.Waits(); v != nil {
		own.Blockers, own.Until = v.Blockers(), v.Until()
	}
	for _, verdict := range e.Held {
		own.Blockers = append(own.Blockers, rollout.RuleVerdict{Kind: "target", Verdict: verdict})
	}
	for _, b := range own.Blockers {
		for _, actor := range b.Actors() {
			if !slices.Contains(own.Actors, actor) {
				own.Actors = append(own.Actors, actor)
			}
		}
	}
	return own
}
