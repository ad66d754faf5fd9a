package main

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/examples/internal/program"
	"github.com/tranche-dev/tranche/internal/textlist"
	"github.com/tranche-dev/tranche/rollout"
)

// verdict is what came out of a log.
type verdict struct {
	Log      string     `json:"log"`
	Policy   string     `json:"policy,omitempty"` // the file that decided; empty: the policies of the recordings
	Plans    int        `json:"plans"`
	First    time.Time  `json:"first"` // instant of the first plan
	Last     time.Time  `json:"last"`
	Starts   int        `json:"starts"`   // in the log
	HeldBack int        `json:"heldBack"` // of these, what would not have started then
	Besides  int        `json:"besides"`  // what would have started then, and did not
	Differs  []decision `json:"differs,omitempty"`
}

// decision is a plan that comes out differently.
type decision struct {
	Line    int              `json:"line"` // of the log, from 1
	At      time.Time        `json:"at"`
	Changes []rollout.Change `json:"changes"`
}

// mostWrong is how many lines are told in full. Of a file that is no log, every one is wrong.
const mostWrong = 20

// replay decides again, line by line.
func replay(o options) (verdict, error) {
	name, data, err := program.Raw(builtin, o.log, "decisions.jsonl")
	if err != nil {
		return verdict{}, err
	}
	told := verdict{Log: name, Policy: o.policy}
	var set *rollout.PolicySet
	if o.policy != "" {
		if set, _, err = policies(o.policy); err != nil {
			return verdict{}, err
		}
	}
	var faults []error
	line, wrong := 0, 0
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, len(data)+1) // a recording may be as long as the log
	for lines.Scan() {
		line++
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		if err := told.decide(line, lines.Bytes(), set); err != nil {
			if wrong++; wrong > mostWrong {
				continue
			}
			for fault := range strings.SplitSeq(err.Error(), "\n") {
				separator := ": "
				if column, ok := strings.CutPrefix(fault, "line 1, "); ok { // a recording is one line, and this is it
					separator, fault = ", ", column
				}
				faults = append(faults, fmt.Errorf("line %d%s%s", line, separator, fault))
			}
		}
	}
	if wrong > mostWrong {
		faults = append(faults, fmt.Errorf("%d more lines are wrong", wrong-mostWrong))
	}
	if told.Plans == 0 && len(faults) == 0 {
		faults = append(faults, errors.New("no recording is in it: a log has one per line"))
	}
	if err := errors.Join(faults...); err != nil {
		return verdict{}, &program.InputError{Source: name, Err: err}
	}
	return told, nil
}

func (v *verdict) decide(line int, data []byte, set *rollout.PolicySet) error {
	recording, err := rollout.ParseRecording(data)
	if err != nil {
		return err
	}
	if set == nil {
		if len(recording.Policies) == 0 {
			return errors.New("policies: are not recorded: name those that were in force with -policy")
		}
		if set, err = compile(recording.Policies); err != nil {
			return err
		}
	}
	_, changes, err := set.Replay(recording)
	if err != nil {
		return program.Below("snapshot", err) // all else in it has been checked
	}
	v.Plans++
	v.Starts += len(recording.Plan.Start)
	v.Last = recording.Plan.Now
	if v.First.IsZero() {
		v.First = v.Last
	}
	for _, change := range changes {
		if change.Before.Start != "" && change.After.Start != change.Before.Start {
			v.HeldBack++
		}
		if change.After.Start != "" && change.After.Start != change.Before.Start {
			v.Besides++
		}
	}
	if len(changes) > 0 {
		v.Differs = append(v.Differs, decision{Line: line, At: recording.Plan.Now, Changes: changes})
	}
	return nil
}

const layout = "2006-01-02 15:04:05"

// String tells it for people: what differs, once; a plan in which the same targets differ in the
// same way as in the one before is counted.
func (v verdict) String() string {
	var b strings.Builder
	when := "from " + v.First.Format(layout) + " to " + v.Last.Format(layout)
	if v.Plans == 1 {
		when = "at " + v.First.Format(layout)
	}
	fmt.Fprintf(&b, "%s: %s %s, %s\n", v.Log, textlist.Counted(v.Plans, "plan"), when, textlist.Counted(v.Starts, "start"))
	who := cmp.Or(v.Policy, "the policies of the log")
	if len(v.Differs) == 0 {
		fmt.Fprintf(&b, "%s: every plan is the same again\n", who)
		return b.String()
	}
	if len(v.Differs) == 1 {
		fmt.Fprintf(&b, "%s: 1 plan comes out differently\n", who)
	} else {
		fmt.Fprintf(&b, "%s: %d plans come out differently; one that repeats the one before is not shown\n", who, len(v.Differs))
	}
	before := map[rollout.TargetID]string{}
	for _, d := range v.Differs {
		var text strings.Builder
		now := map[rollout.TargetID]string{}
		for _, change := range d.Changes {
			own := fmt.Sprintf("    was    %s\n    would  %s\n", change.Before, change.After)
			now[change.TargetID] = own
			if before[change.TargetID] != own {
				fmt.Fprintf(&text, "  %s/%s/%s\n%s", change.Resource, change.Environment, change.Deployment, own)
			}
		}
		before = now
		if text.Len() > 0 {
			fmt.Fprintf(&b, "\n%s\n%s", d.At.Format(layout), text.String())
		}
	}
	fmt.Fprintf(&b, "\n%s: %d of %s would have been held back, %s made; each in the situation that was recorded\n", who, v.HeldBack, textlist.Counted(v.Starts, "start"), textlist.Counted(v.Besides, "other"))
	return b.String()
}
