package main

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/tranche-dev/tranche/rollout"
	"github.com/tranche-dev/tranche/rollout/rollouttest"
)

// story is all that is told, and what -json prints.
type story struct {
	Timeline rollouttest.Timeline `json:"timeline"`
	Plans    int                  `json:"plans"` // how often it was planned
	Answers  []answer             `json:"answers,omitempty"`
	Reach    []reach              `json:"reach"`
	Clusters []outcome            `json:"clusters"`
}

// answer is what a target was told at the instant of a question.
type answer struct {
	rollout.Explanation
	asked question
}

// reach is whom a version concerned, as the plans show it and not as its selector reads.
type reach struct {
	Deployment string   `json:"deployment"`
	Version    string   `json:"version"`
	Asked      []string `json:"asked,omitempty"`     // resources of targets that it started on, or waited for
	Never      []string `json:"never,omitempty"`     // those of all others: in no plan was there a word about them
	Approvals  []string `json:"approvals,omitempty"` // environments in which an approval was waited for
}

// outcome is what a cluster went through.
type outcome struct {
	rollout.TargetID
	Region   string   `json:"region"`
	Versions []string `json:"versions"` // that succeeded there, oldest first
}

// play lets the files take their course on a virtual clock, and looks over the shoulder of the
// planner.
func play(ctx context.Context, in input) (story, error) {
	world := rollouttest.World{Policies: in.set, Fleet: in.snapshot(), Start: in.releases.Start}
	world.Job = func(start rollout.Start, _ int) rollouttest.Outcome {
		return rollouttest.Outcome{After: time.Duration(in.releases.Durations[start.Deployment])}
	}
	for _, q := range in.releases.Why {
		// Nothing happens, but the world looks at itself at that instant.
		world.Changes = append(world.Changes, rollouttest.Change{At: q.At, Do: func(*rollout.Snapshot) {}})
	}
	var told story
	witness := newWitness(in)
	var state rollout.State
	var last []rollout.Target
	world.Plan = func(_ context.Context, snapshot rollout.Snapshot, now time.Time) (rollout.Plan, error) {
		snapshot.State = state
		plan, err := in.set.Plan(snapshot, now)
		if err != nil {
			return plan, err
		}
		told.Plans++
		last = snapshot.Targets
		witness.see(&plan)
		if err := witness.ask(&plan, now); err != nil {
			return plan, err
		}
		plan.State, err = plan.Commit(plan.Start, now)
		state = plan.State
		return plan, err
	}
	var err error
	if told.Timeline, err = world.Run(ctx); err != nil {
		return told, err
	}
	told.Answers, told.Reach = witness.answers, witness.reach()
	for _, t := range last {
		own := outcome{TargetID: t.TargetID}
		for _, c := range in.fleet.Clusters {
			if c.ID == t.Resource {
				own.Region = c.region()
			}
		}
		jobs := slices.SortedStableFunc(slices.Values(t.Jobs), func(a, b rollout.Job) int { return a.CreatedAt.Compare(b.CreatedAt) })
		for _, job := range jobs {
			if job.Status == rollout.JobSuccessful {
				own.Versions = append(own.Versions, job.Version)
			}
		}
		told.Clusters = append(told.Clusters, own)
	}
	return told, nil
}

// witness remembers what the plans said about whom.
type witness struct {
	in        input
	said      map[rollout.TargetID]map[string]bool // target → version
	approvals map[[2]string][]string               // (deployment, version) → environments
	answers   []answer
}

func newWitness(in input) *witness {
	return &witness{in: in, said: map[rollout.TargetID]map[string]bool{}, approvals: map[[2]string][]string{}}
}

func (w *witness) see(plan *rollout.Plan) {
	for _, start := range plan.Start {
		w.hear(start.TargetID, start.Version)
	}
	for wait := range plan.Waiting.All() {
		w.hear(wait.TargetID, wait.Version)
		for _, verdict := range wait.Blockers {
			for _, on := range verdict.On {
				key := [2]string{wait.Deployment, wait.Version}
				if on.Kind == rollout.OnApproval && !slices.Contains(w.approvals[key], on.Environment) {
					w.approvals[key] = append(w.approvals[key], on.Environment)
				}
			}
		}
	}
}

func (w *witness) hear(id rollout.TargetID, version string) {
	if w.said[id] == nil {
		w.said[id] = map[string]bool{}
	}
	w.said[id][version] = true
}

// ask answers the questions of an instant. Its last plan is the one that counts: by then everything
// has started that could.
func (w *witness) ask(plan *rollout.Plan, now time.Time) error {
	for _, q := range w.in.releases.Why {
		if !q.At.Equal(now) {
			continue
		}
		id := rollout.TargetID{Resource: q.Resource, Deployment: cmp.Or(q.Deployment, w.in.fleet.Deployments[0].ID)}
		for _, c := range w.in.fleet.Clusters {
			if c.ID == q.Resource {
				id.Environment = c.Environment
			}
		}
		e, err := plan.Explain(id)
		if err != nil {
			return err
		}
		k := slices.IndexFunc(w.answers, func(a answer) bool { return a.asked == q })
		if k < 0 {
			w.answers = append(w.answers, answer{e, q})
		} else {
			w.answers[k] = answer{e, q}
		}
	}
	return nil
}

// reach lists the versions that nobody ran at the start, oldest first.
func (w *witness) reach() []reach {
	versions := slices.SortedStableFunc(slices.Values(w.in.releases.Versions), func(a, b rollout.Version) int { return a.CreatedAt.Compare(b.CreatedAt) })
	var list []reach
	for _, v := range versions {
		if slices.ContainsFunc(w.in.fleet.Clusters, func(c cluster) bool { return c.Runs[v.Deployment] == v.ID }) {
			continue
		}
		own := reach{Deployment: v.Deployment, Version: v.ID}
		for _, e := range w.in.fleet.Environments {
			if slices.Contains(w.approvals[[2]string{v.Deployment, v.ID}], e.ID) {
				own.Approvals = append(own.Approvals, e.ID)
			}
		}
		for _, c := range w.in.fleet.Clusters {
			if w.said[rollout.TargetID{Resource: c.ID, Environment: c.Environment, Deployment: v.Deployment}][v.ID] {
				own.Asked = append(own.Asked, c.ID)
			} else {
				own.Never = append(own.Never, c.ID)
			}
		}
		list = append(list, own)
	}
	return list
}
