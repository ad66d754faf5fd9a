package main

import (
	"bufio"
	"cmp"
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

// world is everything around the run: what a crash of the process does not touch.
type world struct {
	in           *bufio.Reader
	out          io.Writer
	clusters     map[string]*cluster
	requests     map[string]*request
	states       []change
	ready        time.Duration
	approveAfter time.Duration
	retryAfter   time.Duration
	endWaits     time.Duration
	by           string // who gives the commands
	crash        bool
	state        string // file
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
	token   staged.Token // of the last action that had an effect
	removal bool
	begun   time.Time
	takes   time.Duration
	fails   int
	told    bool // the end of this attempt was observed
	failed  time.Time
	attempt int
}

type request struct {
	action staged.Action
	reject bool
	why    string
	at     time.Time // when it is answered
	done   bool
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

// play is the host's loop: step, store, act, sleep until something happens.
func (w *world) play(run *staged.Run) error {
	w.start = time.Date(2026, 3, 10, 8, 0, 0, 0, time.UTC)
	w.now = w.start
	for {
		next, result, err := staged.Step(run, w.observe(run), w.now)
		if err != nil {
			return err
		}
		run = next
		if w.crash {
			if run, err = w.restart(run); err != nil {
				return err
			}
		}
		w.report(run, result.Events)
		for _, a := range result.Actions {
			w.act(a)
		}
		if run.Phase().Terminal() {
			for _, c := range w.states {
				if c.at > 0 {
					w.say("%s %s: the run has ended before", c.flag, program.Short(c.at))
				}
			}
			w.summary(run)
			return nil
		}
		wake := w.wake(run, result.Next)
		if wake.IsZero() {
			w.say("nothing more will happen by itself: %s", w.waits(run))
			w.summary(run)
			return nil
		}
		w.now = wake
	}
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

// act carries an action out. The token makes it happen once.
func (w *world) act(a staged.Action) {
	if a.Kind == staged.RequestApproval {
		if w.requests[a.Name] == nil {
			w.requests[a.Name] = w.ask(a)
		}
		return
	}
	if c := w.clusters[a.Target]; c.token != a.Token {
		c.token, c.begun, c.removal, c.told = a.Token, w.now, a.Kind == staged.Remove, false
		c.attempt++
	}
}

// ask finds out when a request is answered, and how.
func (w *world) ask(a staged.Action) *request {
	r := &request{action: a, at: w.now}
	for w.approveAfter == 0 {
		fmt.Fprintf(w.out, "            approve %s? [y/n, and why] ", a.Name)
		line, err := w.in.ReadString('\n')
		answer, why, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch answer = strings.ToLower(answer); {
		case strings.HasPrefix(answer, "y"), strings.HasPrefix(answer, "n"):
			fmt.Fprintln(w.out)
			r.reject, r.why = answer[0] == 'n', strings.TrimSpace(strings.ToValidUTF8(why, "?"))
			return r
		case err != nil:
			fmt.Fprintf(w.out, "\n            no answer: from now on every request is approved after %s\n", program.Short(defaultApproval))
			w.approveAfter = defaultApproval
		}
	}
	r.at, r.why = w.now.Add(w.approveAfter), program.Short(w.approveAfter)+" after the request"
	return r
}

// observe is what has come about until now.
func (w *world) observe(run *staged.Run) staged.Input {
	var in staged.Input
	for i, c := range w.states {
		if c.at > 0 && !w.now.Before(w.start.Add(c.at)) {
			in.State, w.states[i].at = c.state, 0
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.requests)) {
		if r := w.requests[name]; !r.done && !w.now.Before(r.at) {
			r.done = true
			kind := staged.CommandApprove
			if r.reject {
				kind = staged.CommandReject
			}
			in.Commands = append(in.Commands, staged.Command{Kind: kind, Run: r.action.Run, Stage: r.action.Stage, Side: r.action.Side, By: w.by, Reason: r.why})
		}
	}
	for s := range run.Stages() {
		if at := w.endWait(&s); !at.IsZero() && !w.now.Before(at) {
			in.Commands = append(in.Commands, staged.Command{Kind: staged.CommandEndWait, Run: run.Spec().ID, Stage: s.Index, By: w.by, Reason: program.Short(w.endWaits) + " are enough"})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.clusters)) {
		c := w.clusters[name]
		if c.token == (staged.Token{}) {
			continue
		}
		if w.retryAfter > 0 && !c.failed.IsZero() && !w.now.Before(c.failed.Add(w.retryAfter)) {
			in.Commands = append(in.Commands, staged.Command{Kind: staged.CommandRetry, Target: name, Attempt: c.token.Attempt, By: w.by,
				Reason: program.Short(w.retryAfter) + " after the failure"})
			c.failed = time.Time{}
			continue
		}
		if c.told {
			continue
		}
		o := staged.Observation{Target: name, Version: run.Version(), Health: staged.HealthProgressing, Token: c.token}
		if !w.now.Before(c.begun.Add(c.takes)) {
			c.told = true
			o.Health, o.Gone = staged.HealthReady, c.removal
			if c.attempt <= c.fails {
				o.Health, c.failed = staged.HealthFailed, w.now
			}
		}
		in.Observations = append(in.Observations, o)
	}
	return in
}

// endWait is when somebody ends the wait after a stage; zero if nobody does, or it is over before.
func (w *world) endWait(s *staged.StageStatus) time.Time {
	at := s.WaitFrom.Add(w.endWaits)
	if w.endWaits == 0 || s.Wait == 0 || s.Phase != staged.StageWaitingAfter || s.Waited || !s.WaitUntil.IsZero() && !at.Before(s.WaitUntil) {
		return time.Time{}
	}
	return at
}

// wake is when something happens next: in the world, or because of time.
func (w *world) wake(run *staged.Run, first time.Time) time.Time {
	consider := func(t time.Time) {
		if t.After(w.now) && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	now := false
	for _, c := range w.states {
		if c.at > 0 {
			consider(w.start.Add(c.at))
		}
	}
	for _, r := range w.requests {
		if !r.done {
			now = now || !r.at.After(w.now)
			consider(r.at)
		}
	}
	for s := range run.Stages() {
		consider(w.endWait(&s))
	}
	for _, c := range w.clusters {
		if c.token != (staged.Token{}) && !c.told {
			consider(c.begun.Add(c.takes))
		}
		if w.retryAfter > 0 && !c.failed.IsZero() {
			consider(c.failed.Add(w.retryAfter))
		}
	}
	if now {
		return w.now // somebody has just answered
	}
	return first
}
