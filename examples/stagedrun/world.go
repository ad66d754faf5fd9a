package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/examples/internal/program"
	"github.com/tranche-dev/tranche/rollout/staged"
	"github.com/tranche-dev/tranche/rollout/staged/stagedtest"
)

// clusterList is the file of clusters.
type clusterList struct {
	Clusters []struct {
		Name   string            `json:"name"`
		Labels map[string]string `json:"labels,omitempty"`
		Ready  program.Duration  `json:"ready,omitempty"`
		Fails  int               `json:"fails,omitempty"`
	} `json:"clusters"`
	Leaving []string `json:"leaving,omitempty"`
}

// sampleList is the file of samples: what past runs have shown, by the name of the stage. The empty
// name is for all other stages.
type sampleList struct {
	Targets map[string]struct {
		Ready  []program.Duration `json:"ready,omitempty"`
		Failed []program.Duration `json:"failed,omitempty"`
		Hung   int                `json:"hung,omitempty"`
	} `json:"targets,omitempty"`
	Approvals map[string][]program.Duration `json:"approvals,omitempty"`
}

// mostHung keeps the samples in the memory.
const mostHung = 1000

// samples returns what the file says, for the stages of a run.
func (l *sampleList) samples(run *staged.Run) (stagedtest.Samples, error) {
	samples := stagedtest.Samples{Targets: map[string][]stagedtest.Outcome{}, Approvals: map[string][]stagedtest.Answer{}}
	var faults []error
	var stages []string
	for s := range run.Stages() {
		stages = append(stages, s.Name)
	}
	known := func(list, stage string) {
		if stage != "" && !slices.Contains(stages, stage) {
			faults = append(faults, fmt.Errorf("%s[%q]: the strategy has no such stage: use %s, or \"\" for all others", list, stage, strings.Join(stages, ", ")))
		}
	}
	for _, stage := range slices.Sorted(maps.Keys(l.Targets)) {
		known("targets", stage)
		own, outcomes := l.Targets[stage], []stagedtest.Outcome(nil)
		for _, d := range own.Ready {
			outcomes = append(outcomes, stagedtest.Outcome{After: time.Duration(d)})
		}
		for _, d := range own.Failed {
			outcomes = append(outcomes, stagedtest.Outcome{After: time.Duration(d), Health: staged.HealthFailed})
		}
		if own.Hung < 0 || own.Hung > mostHung {
			faults = append(faults, fmt.Errorf("targets[%q].hung: %d: must be from 0 to %d", stage, own.Hung, mostHung))
			own.Hung = 0
		}
		samples.Targets[stage] = append(outcomes, slices.Repeat([]stagedtest.Outcome{{Health: staged.HealthProgressing}}, own.Hung)...)
	}
	for _, stage := range slices.Sorted(maps.Keys(l.Approvals)) {
		known("approvals", stage)
		for _, d := range l.Approvals[stage] {
			samples.Approvals[stage] = append(samples.Approvals[stage], stagedtest.Answer{After: time.Duration(d)})
		}
	}
	return samples, errors.Join(faults...)
}

// world is everything around the run.
type world struct {
	in           *bufio.Reader
	out          io.Writer
	clusters     map[string]*cluster
	ready        time.Duration
	approveAfter time.Duration
	retryAfter   time.Duration
	endWaits     time.Duration
	by           string // who gives the commands
	states       []change
	state        string // file that keeps the run, with -crash-every-step
	start, now   time.Time
	shown        string // what the run was last said to wait for
}

// change is a state that somebody sets at a time after the beginning; never if that is 0.
type change struct {
	flag  string
	at    time.Duration
	state staged.State
}

type cluster struct {
	takes time.Duration
	fails int
}

// mostFails keeps a run that is retried without end from being printed without end.
const mostFails = 100

// populate makes the clusters of the list.
func (w *world) populate(list *clusterList) (staged.Fleet, error) {
	var fleet staged.Fleet
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if len(list.Clusters)+len(list.Leaving) == 0 {
		fault("clusters: at least one is needed, or one that is leaving")
	}
	given := map[string]string{} // where a cluster is listed
	add := func(at, path, name string, c *cluster) {
		if name == "" {
			fault("%s: every cluster needs a name", path)
		} else if first, twice := given[name]; twice {
			fault("%s: %q: is given as %s already", path, name, first)
		} else {
			given[name] = at
		}
		w.clusters[name] = c
	}
	for i, c := range list.Clusters {
		at := fmt.Sprintf("clusters[%d]", i)
		if c.Fails < 0 || c.Fails > mostFails {
			fault("%s.fails: %d: must be from 0 to %d", at, c.Fails, mostFails)
		}
		add(at, at+".name", c.Name, &cluster{takes: cmp.Or(time.Duration(c.Ready), w.ready), fails: c.Fails})
		fleet.Targets = append(fleet.Targets, staged.Target{Name: c.Name, Labels: c.Labels})
	}
	for i, name := range list.Leaving {
		at := fmt.Sprintf("leaving[%d]", i)
		add(at, at, name, &cluster{takes: w.ready})
		fleet.Leaving = append(fleet.Leaving, name)
	}
	return fleet, errors.Join(faults...)
}

// faults are those of how the stages divide the clusters: the library calls them targets, and what
// flags say here options.
func (l *clusterList) faults(err error) error {
	err = program.Within(err, func(field string) string {
		for i, c := range l.Clusters {
			if label, own := strings.CutPrefix(field, fmt.Sprintf("targets[%q]", c.Name)); own {
				return fmt.Sprintf("clusters[%d]%s", i, label)
			}
		}
		return strings.Replace(field, "targets", "clusters", 1)
	})
	return errors.New(strings.NewReplacer("choose unmatched ", "choose -unmatched ", "choose overlap ", "choose -overlap ", "choose missingSortKey ", "choose -missing-sort-key ").Replace(err.Error()))
}

// model returns the world of package stagedtest in which the run is played.
func (w *world) model(run *staged.Run) stagedtest.World {
	w.start = time.Date(2026, 3, 10, 8, 0, 0, 0, time.UTC)
	world := stagedtest.World{StagedRun: run, Start: w.start, Target: w.target, Approval: w.answer, React: w.react}
	for _, c := range w.states {
		if c.at > 0 {
			world.Changes = append(world.Changes, stagedtest.SetState(w.start.Add(c.at), c.state))
		}
	}
	if w.state != "" {
		world.Store = w.restart
	}
	return world
}

// play runs the world, and prints what happens as it does.
func (w *world) play(run *staged.Run) error {
	timeline, err := w.model(run).Run(context.Background())
	if err != nil {
		return err
	}
	if timeline.Ended.IsZero() {
		w.say("nothing more will happen by itself: %s", w.waits(timeline.Run))
	}
	for _, c := range w.states {
		if c.at > 0 && w.start.Add(c.at).After(w.now) {
			w.say("%s %s: the run has ended before", c.flag, program.Short(c.at))
		}
	}
	w.summary(timeline.Run)
	return nil
}

// forecast plays the world many times, with what is drawn from samples. Nobody is asked: without
// -approve-after the answers are drawn, too, and where there are no samples, requests are approved
// as if nobody had answered.
func (w *world) forecast(run *staged.Run, samples stagedtest.Samples, trials int, seed uint64) error {
	world := w.model(run)
	if w.approveAfter > 0 {
		samples.Approvals = nil
	}
	world.React, world.Approval = w.operate, stagedtest.ApproveAfter(cmp.Or(w.approveAfter, defaultApproval))
	prediction, err := stagedtest.Forecast(context.Background(), world, samples, trials, seed)
	if err != nil {
		return err
	}
	fmt.Fprintln(w.out, prediction)
	return nil
}

// restart writes the run to its file and reads it back, as a process does that died in between.
func (w *world) restart(run *staged.Run) (*staged.Run, error) {
	data, err := json.Marshal(run)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(w.state, data, 0o600); err != nil {
		return nil, err
	}
	if data, err = os.ReadFile(w.state); err != nil {
		return nil, err
	}
	var again staged.Run
	return &again, json.Unmarshal(data, &again)
}

// target is how an attempt at a cluster ends.
func (w *world) target(action staged.Action) stagedtest.Outcome {
	c := w.clusters[action.Target]
	outcome := stagedtest.Outcome{After: c.takes}
	if action.Token.Attempt <= c.fails {
		outcome.Health = staged.HealthFailed
	}
	return outcome
}

// answer finds out when a request is answered, and how.
func (w *world) answer(request staged.Action, _ time.Time) (stagedtest.Answer, bool) {
	for w.approveAfter == 0 {
		fmt.Fprintf(w.out, "            approve %s? [y/n, and why] ", request.Name)
		line, err := w.in.ReadString('\n')
		answer, why, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch answer = strings.ToLower(answer); {
		case strings.HasPrefix(answer, "y"), strings.HasPrefix(answer, "n"):
			fmt.Fprintln(w.out)
			return stagedtest.Answer{Reject: answer[0] == 'n', By: w.by, Reason: strings.TrimSpace(strings.ToValidUTF8(why, "?"))}, true
		case err != nil:
			fmt.Fprintf(w.out, "\n            no answer: from now on every request is approved after %s\n", program.Short(defaultApproval))
			w.approveAfter = defaultApproval
		}
	}
	return stagedtest.Answer{After: w.approveAfter, By: w.by, Reason: program.Short(w.approveAfter) + " after the request"}, true
}

// react prints what a step has changed, and returns what the operator does about it.
func (w *world) react(run *staged.Run, result staged.Result, now time.Time) []stagedtest.Change {
	w.now = now
	w.report(run, result.Events)
	return w.operate(run, result, now)
}

// operate returns what the operator does about what a step has changed.
func (w *world) operate(run *staged.Run, result staged.Result, now time.Time) (changes []stagedtest.Change) {
	for _, e := range result.Events {
		switch {
		case e.Kind == staged.EventTarget && e.To == staged.Failed.String() && w.retryAfter > 0:
			t, _ := run.Target(e.Target)
			changes = append(changes, stagedtest.Give(now.Add(w.retryAfter), staged.Command{Kind: staged.CommandRetry, Target: t.Name, Attempt: t.Attempt, By: w.by,
				Reason: program.Short(w.retryAfter) + " after the failure"}))
		case e.Kind == staged.EventWait && e.To == "running" && w.endWaits > 0:
			at := now.Add(w.endWaits)
			changes = append(changes, stagedtest.Change{At: at, Do: func(run *staged.Run) staged.Input { return w.endWait(run, e.Stage, at) }})
		}
	}
	return changes
}

// endWait ends the wait after a stage, unless it is over.
func (w *world) endWait(run *staged.Run, stage int, at time.Time) (in staged.Input) {
	for s := range run.Stages() {
		if s.Index == stage && s.Phase == staged.StageWaitingAfter && !s.Waited && (s.WaitUntil.IsZero() || at.Before(s.WaitUntil)) {
			in.Commands = append(in.Commands, staged.Command{Kind: staged.CommandEndWait, Run: run.Spec().ID, Stage: stage, By: w.by, Reason: program.Short(w.endWaits) + " are enough"})
		}
	}
	return in
}
