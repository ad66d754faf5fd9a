package staged_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"reflect"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/internal/testkit"
	"github.com/tranche-dev/tranche/rollout/staged"
)

func encode(t interface{ Fatal(...any) }, run *staged.Run) []byte {
	data, err := json.Marshal(run)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func phases() []string {
	return []string{"Initialized", "Progressing", "Waiting", "Held", "Stopping", "Stopped", "Failing", "Cancelling", "Succeeded", "PartiallySucceeded", "Failed", "Cancelled"}
}

// propReference: whatever the strategy, the options and the inputs, every step gives what the dumb
// version gives: each state, mark, time, count, action and the next instant. I9's recount is part
// of it, because the dumb version counts anew.
func propReference(seen testkit.Tally) func(*rapid.T) {
	return func(t *rapid.T) {
		var ref *reference
		drive(t, func(m *moment) {
			if ref == nil {
				ref = newReference(m.before, m.strategy, m.options)
			}
			actions, next := ref.step(m.input, m.now)
			if want, got := ref.picture(), pictureOf(m.run); !reflect.DeepEqual(want, got) {
				if diff := gocmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
					t.Fatalf("(-reference +run):\n%s\nbefore:\n%s\ninput: %+v at %v", diff, m.before, m.input, m.now)
				}
			}
			if diff := gocmp.Diff(actions, m.result.Actions, cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("actions (-reference +run):\n%s\n%s", diff, m.run)
			}
			if !next.Equal(m.result.Next) {
				t.Fatalf("next is %v, the reference says %v\n%s", m.result.Next, next, m.run)
			}
			seen[string(m.run.Phase())]++
			for s := range m.run.Stages() {
				if s.Counts.TimedOut > 0 {
					seen["timed out"]++
				}
				if s.Counts.Regressed > 0 {
					seen["regressed"]++
				}
				if s.Counts.Stuck > 0 {
					seen["stuck"]++
				}
				if s.Counts.Soaking > 0 {
					seen["soaking"]++
				}
				for target := range m.run.Targets(s.Index) {
					v, _ := m.run.Explain(target.Name)
					if v.Reason == staged.ReasonGroup && s.Counts.Starting+s.Counts.Updating+s.Counts.Soaking < s.Limit {
						seen["waits for its group"]++
						if target.SuspendedBy == nil && target.Attempt > 1 {
							seen["retried, and waits for its group"]++
						}
					} else if v.Reason == staged.ReasonGroup {
						seen["waits for its group and a slot"]++
					}
				}
				if s.Counts.Suspended > 0 {
					seen["suspended in "+string(s.Phase)]++
					if s.Cleanup {
						seen["suspended removal"]++
					}
					if s.Phase == staged.StageUpdating && m.run.Phase() == staged.PhaseWaiting {
						seen["only suspended ones left"]++
					}
				}
				if s.Cleanup && s.Counts.Done > 0 {
					seen["cleaned"]++
				}
			}
			for _, e := range m.result.Events {
				seen[string(e.Kind)]++
				if e.Reason != "" {
					seen[string(e.Reason)]++
				}
			}
		})
	}
}

func TestReference(t *testing.T) {
	seen := testkit.Tally{}
	seen.Check(t, propReference(seen), append(phases(), "timed out", "regressed", "stuck", "soaking", "cleaned", "recovered", "joined", "suspended", "resumed",
		"suspended in Pending", "suspended in WaitingBefore", "suspended in Updating", "suspended removal", "only suspended ones left", "waits for its group", "waits for its group and a slot", "retried, and waits for its group", "command_ignored",
		"observation_ignored", "membership_ignored", "already", "other_run", "unknown_stage", "unknown_target", "not_requested", "not_waiting", "not_failed", "other_attempt",
		"stage_finished", "stale_token", "frozen", "known", "too_late", "reported_failed", "unhealthy", "superseded", "gone")...)
}

func FuzzReference(f *testing.F) {
	f.Add(testkit.Bytes(8192))
	f.Add(testkit.Bytes(32768))
	f.Fuzz(rapid.MakeFuzz(propReference(testkit.Tally{})))
}

// TestI1LimitIsKept: in each stage and in the cleanup, members in progress never exceed the limit,
// retries and appended members included.
func TestI1LimitIsKept(t *testing.T) {
	seen := testkit.Tally{}
	seen.Check(t, func(t *rapid.T) {
		drive(t, func(m *moment) {
			for s := range m.run.Stages() {
				c := s.Counts
				if n := c.Starting + c.Updating + c.Soaking; n > s.Limit {
					t.Fatalf("%d in progress, limit %d\n%s", n, s.Limit, m.run)
				} else if n == s.Limit && s.Limit < c.Members && c.Waiting > 0 {
					seen["full"]++
				}
			}
			for _, e := range m.result.Events {
				if e.Kind == staged.EventJoined {
					seen["joined"]++
				}
			}
			for target := range m.run.Targets(m.run.Current()) {
				if target.Attempt > 1 && target.State == staged.Starting {
					seen["retried"]++
				}
			}
		})
	}, "full", "joined", "retried")
}

// TestI1GroupLimitIsKept: of each group of a stage no more are in progress than its limit allows,
// of all its members that there ever were; and while the stage has a free slot, nobody waits whose
// group has one, unless nothing may start or the target is suspended.
func TestI1GroupLimitIsKept(t *testing.T) {
	seen := testkit.Tally{}
	seen.Check(t, func(t *rapid.T) {
		drive(t, func(m *moment) {
			for s := range m.run.Stages() {
				if s.Index >= len(m.strategy.Stages) || m.strategy.Stages[s.Index].GroupBy == "" {
					continue
				}
				type group struct{ members, busy, waiting int }
				groups := map[string]group{}
				for target := range m.run.Targets(s.Index) {
					g := groups[target.Group]
					g.members++
					switch {
					case target.State == staged.Starting || target.State == staged.Updating || target.State == staged.Soaking:
						g.busy++
					case target.State == staged.Waiting && target.SuspendedBy == nil:
						g.waiting++
					}
					groups[target.Group] = g
				}
				c := s.Counts
				free := s.Phase == staged.StageUpdating && m.run.Phase() == staged.PhaseProgressing && c.Starting+c.Updating+c.Soaking < s.Limit
				for name, g := range groups {
					limit := m.strategy.Stages[s.Index].MaxConcurrencyPerGroup.Of(g.members, concurrency.Floor)
					if m.options.Rounding == staged.Up {
						limit = m.strategy.Stages[s.Index].MaxConcurrencyPerGroup.Of(g.members, concurrency.Ceil)
					}
					if limit = max(1, limit); g.busy > limit {
						t.Fatalf("%d of group %q in progress, limit %d\n%s", g.busy, name, limit, m.run)
					} else if free && g.waiting > 0 && g.busy < limit {
						t.Fatalf("%d of group %q wait, and %d of %d are in progress\n%s", g.waiting, name, g.busy, limit, m.run)
					} else if free && g.waiting > 0 {
						seen["full"]++
					}
					if limit > 1 && g.busy == limit {
						seen["several of one"]++
					}
				}
				if len(groups) > 1 && groups[""].busy > 0 {
					seen["without the label"]++
				}
			}
		})
	}, "full", "several of one", "without the label")
}

// startedIn lists the targets that a step started.
func startedIn(m *moment) (list []staged.TargetStatus) {
	for s := range m.run.Stages() {
		for target := range m.run.Targets(s.Index) {
			if was, ok := m.before.Target(target.Name); target.State == staged.Starting && (!ok || was.State != staged.Starting || was.Attempt != target.Attempt) {
				list = append(list, target)
			}
		}
	}
	return list
}

// TestI2OrderAndGates: no target starts before every earlier stage is closed and the approval
// before its own stage is given.
func TestI2OrderAndGates(t *testing.T) {
	seen := testkit.Tally{}
	seen.Check(t, func(t *rapid.T) {
		approved := map[int]bool{}
		drive(t, func(m *moment) {
			for _, c := range m.input.Commands {
				if c.Kind == staged.CommandApprove && c.Run == "run" && c.Side == staged.Before {
					approved[c.Stage] = true
				}
			}
			stages := slices.Collect(m.run.Stages())
			for _, target := range startedIn(m) {
				if target.SuspendedBy != nil {
					t.Fatalf("%s starts although it is suspended\n%s", target.Name, m.run)
				}
				for k := range target.Stage {
					if p := stages[k].Phase; p != staged.StageSucceeded && p != staged.StageSkipped {
						t.Fatalf("%s starts while stage %d is %s\n%s", target.Name, k, p, m.run)
					}
				}
				if s := stages[target.Stage]; s.Before.Required {
					if s.Before.State != staged.ApprovalApproved || !approved[target.Stage] {
						t.Fatalf("%s starts without approval\n%s", target.Name, m.run)
					}
					seen["behind an approval"]++
				}
				if target.Stage > 0 {
					seen["later stage"]++
				}
			}
		})
	}, "behind an approval", "later stage")
}

// TestI3NothingStartsWhenHalted: a step that leaves the run stopped, held, failing, cancelling,
// over budget or ended starts nothing, and a terminal run never changes.
func TestI3NothingStartsWhenHalted(t *testing.T) {
	seen := testkit.Tally{}
	seen.Check(t, func(t *rapid.T) {
		drive(t, func(m *moment) {
			switch phase := m.run.Phase(); phase {
			case staged.PhaseProgressing, staged.PhaseWaiting:
			default:
				if list := startedIn(m); len(list) > 0 {
					t.Fatalf("%v start in phase %s\n%s", list, phase, m.run)
				}
				seen[string(phase)]++
			}
			for s := range m.run.Stages() {
				if c := s.Counts; s.Budget >= 0 && c.Failed+c.TimedOut > s.Budget && len(startedIn(m)) > 0 {
					t.Fatalf("stage %d is over its budget\n%s", s.Index, m.run)
				}
			}
			if m.before.Phase().Terminal() && (m.run != m.before || len(m.result.Actions) > 0 || !m.result.Next.IsZero() || len(m.result.Events) != len(m.input.Commands)) {
				t.Fatalf("a %s run changes\n%s", m.before.Phase(), m.run)
			}
			if len(startedIn(m)) > 0 && m.run.Phase() != staged.PhaseProgressing {
				t.Fatalf("a step that starts something ends in %s", m.run.Phase())
			}
		})
	}, "Held", "Stopping", "Stopped", "Failing", "Failed", "Cancelling", "Cancelled", "Succeeded", "PartiallySucceeded", "Initialized")
}

// TestI4Deterministic: the same step twice gives the same, leaves its argument as it was, and a
// second step at once without input changes nothing and repeats the actions.
func TestI4Deterministic(t *testing.T) {
	seen := testkit.Tally{}
	seen.Check(t, func(t *rapid.T) {
		drive(t, func(m *moment) {
			was := encode(t, m.before)
			run, result, err := staged.Step(m.before, m.input, m.now)
			if err != nil || !bytes.Equal(encode(t, run), encode(t, m.run)) || !reflect.DeepEqual(result, m.result) {
				t.Fatalf("the second time:\n%s\nthe first time:\n%s\n%v", run, m.run, err)
			}
			if !bytes.Equal(was, encode(t, m.before)) {
				t.Fatal("the argument changed")
			}
			again, result, err := staged.Step(m.run, staged.Input{}, m.now)
			if err != nil || !bytes.Equal(encode(t, again), encode(t, m.run)) || len(result.Events) > 0 {
				t.Fatalf("a second step changes something: %v %v\n%s\n%s", result.Events, err, m.run, again)
			}
			if !reflect.DeepEqual(result.Actions, m.result.Actions) || !result.Next.Equal(m.result.Next) {
				t.Fatalf("other actions or another next: %v, %v", result, m.result)
			}
			if len(result.Actions) > 0 {
				seen["repeated actions"]++
			}
		})
	}, "repeated actions")
}

// TestChanged: a host that stores a run only if it changed gets the same runs, actions and events
// as one that stores every run; and a run that changed is another one.
func TestChanged(t *testing.T) {
	seen := testkit.Tally{}
	seen.Check(t, func(t *rapid.T) {
		var stored *staged.Run
		drive(t, func(m *moment) {
			if stored == nil {
				stored = m.before
			}
			now := m.run.Time()
			if m.before.Phase().Terminal() {
				now = m.now
			}
			run, result, err := staged.Step(stored, m.input, now)
			if err != nil || !reflect.DeepEqual(pictureOf(run), pictureOf(m.run)) || !reflect.DeepEqual(result, m.result) {
				t.Fatalf("%v: %+v, want %+v\n%s\nwant\n%s", err, result, m.result, run, m.run)
			}
			first := stored.Time().IsZero()
			if same := !first && reflect.DeepEqual(pictureOf(stored), pictureOf(run)); same == result.Changed {
				t.Fatalf("changed is %t\n%s\n%s", result.Changed, stored, run)
			}
			if !result.Changed {
				seen["unchanged"]++
				return
			}
			if len(result.Events) == 0 && !first {
				seen["changed without an event"]++
			}
			stored = new(staged.Run)
			if err := json.Unmarshal(encode(t, run), stored); err != nil {
				t.Fatal(err)
			}
		})
	}, "unchanged", "changed without an event")
}

// TestI5OrderOfObservations: the order of observations of different targets does not matter, nor
// that of facts about the fleet.
func TestI5OrderOfObservations(t *testing.T) {
	seen := testkit.Tally{}
	seen.Check(t, func(t *rapid.T) {
		drive(t, func(m *moment) {
			other := m.input
			other.Observations = nil
			for _, name := range rapid.Permutation(names(m.input.Observations)).Draw(t, "order") {
				for _, o := range m.input.Observations {
					if o.Target == name {
						other.Observations = append(other.Observations, o)
					}
				}
			}
			other.Removed, other.Leaving, other.Added = slices.Clone(other.Removed), slices.Clone(other.Leaving), slices.Clone(other.Added)
			slices.Reverse(other.Removed)
			slices.Reverse(other.Leaving)
			run, result, err := staged.Step(m.before, other, m.now)
			if err != nil || !bytes.Equal(encode(t, run), encode(t, m.run)) || !reflect.DeepEqual(result, m.result) {
				t.Fatalf("%v\n%s\n%s", err, m.run, run)
			}
			if !reflect.DeepEqual(other.Observations, m.input.Observations) {
				seen["reordered"]++
			}
		})
	}, "reordered")
}

func names(list []staged.Observation) (names []string) {
	for _, o := range list {
		if !slices.Contains(names, o.Target) {
			names = append(names, o.Target)
		}
	}
	return names
}

// TestI6NothingBeforeNext: steps without input before Next change nothing but the time of the last
// step, Next is later than now, and stepping in between makes no difference at Next.
func TestI6NothingBeforeNext(t *testing.T) {
	seen := testkit.Tally{}
	seen.Check(t, func(t *rapid.T) {
		drive(t, func(m *moment) {
			last := m.run.Time()
			if next := m.result.Next; !next.IsZero() && !next.After(last) {
				t.Fatalf("next %v is not behind now %v\n%s", next, last, m.run)
			}
			until := m.result.Next
			if until.IsZero() {
				until = last.Add(1000 * time.Hour)
				seen["no next"]++
			}
			between := last.Add(time.Duration(rapid.Int64Range(0, int64(until.Sub(last))-1).Draw(t, "between")))
			run, result, err := staged.Step(m.run, staged.Input{}, between)
			if err != nil || !reflect.DeepEqual(pictureOf(run), pictureOf(m.run)) || !reflect.DeepEqual(result.Actions, m.result.Actions) ||
				!result.Next.Equal(m.result.Next) || len(result.Events) > 0 || result.Changed {
				t.Fatalf("something happens %v before next: %v %v\n%s\n%s", until.Sub(between), result, err, m.run, run)
			}
			if m.result.Next.IsZero() {
				return
			}
			direct, _, err := staged.Step(m.run, staged.Input{}, until)
			if err != nil {
				t.Fatal(err)
			}
			indirect, _, err := staged.Step(run, staged.Input{}, until)
			if err != nil || !bytes.Equal(encode(t, direct), encode(t, indirect)) {
				t.Fatalf("a step in between matters: %v\n%s\n%s", err, direct, indirect)
			}
			if !reflect.DeepEqual(pictureOf(direct), pictureOf(m.run)) {
				seen["something happens at next"]++
			} else {
				t.Fatalf("nothing happens at next %v\n%s", until, m.run)
			}
		})
	}, "no next", "something happens at next")
}

// TestI7WaitsAreNeverShort: from the step that settled the last member to the one that closed the
// stage at least the waitTime passes, with frozen waits without the time between Stop and Run.
func TestI7WaitsAreNeverShort(t *testing.T) {
	seen := testkit.Tally{}
	seen.Check(t, func(t *rapid.T) {
		settled := map[int]time.Time{}
		stopped := map[int]time.Duration{}
		told := map[int]bool{} // to end the wait
		var since time.Time
		drive(t, func(m *moment) {
			now := m.run.Time()
			for _, c := range m.input.Commands {
				told[c.Stage] = told[c.Stage] || c.Kind == staged.CommandEndWait && c.Run == "run"
			}
			for s := range m.run.Stages() {
				c := s.Counts
				switch open := c.Waiting + c.Starting + c.Updating + c.Soaking; {
				case s.Index > m.before.Current() && s.Index > m.run.Current(), open > 0:
					delete(settled, s.Index)
					delete(stopped, s.Index)
				case settled[s.Index].IsZero():
					settled[s.Index] = now
				}
			}
			// A stop lasts from the step that took it to the one that took the next Run.
			if !since.IsZero() && m.before.State() == staged.StateStop {
				for k, from := range settled {
					if from.After(since) {
						stopped[k] += now.Sub(from)
					} else {
						stopped[k] += now.Sub(since)
					}
				}
			}
			since = now
			for s := range m.run.Stages() {
				was := slices.Collect(m.before.Stages())[s.Index]
				if s.Wait == 0 || s.Phase != staged.StageSucceeded || was.Phase == staged.StageSucceeded {
					continue
				}
				if s.WaitEndedBy != nil {
					if !told[s.Index] {
						t.Fatalf("nobody ended the wait\n%s", m.run)
					}
					seen["ended by a command"]++
					continue
				}
				passed := now.Sub(settled[s.Index])
				if m.options.WaitDuringStop == staged.Freeze {
					passed -= stopped[s.Index]
				}
				if passed < s.Wait {
					t.Fatalf("%v passed, the wait is %v\n%s", passed, s.Wait, m.run)
				}
				seen["closed"]++
				if stopped[s.Index] > 0 {
					seen["closed after a stop "+string(m.options.WaitDuringStop)]++
				}
			}
		})
	}, "closed", "closed after a stop ", "closed after a stop freeze", "ended by a command")
}

// TestI9Recount: what was started is settled or in progress, counters equal a recount, and no
// target is in two places.
func TestI9Recount(t *testing.T) {
	seen := testkit.Tally{}
	seen.Check(t, func(t *rapid.T) {
		drive(t, func(m *moment) {
			places := map[string]int{}
			var all staged.Counts
			for s := range m.run.Stages() {
				counts, suspended := map[staged.TargetState]int{}, 0
				for target := range m.run.Targets(s.Index) {
					counts[target.State]++
					if target.SuspendedBy != nil {
						suspended++
						if target.State != staged.Waiting {
							t.Fatalf("%s does not wait, and is suspended\n%s", target.Name, m.run)
						}
					}
					if !target.Start.IsZero() && target.State == staged.Waiting {
						t.Fatalf("%s was started and waits\n%s", target.Name, m.run)
					}
					if target.State.Settled() == target.End.IsZero() && target.State != staged.Soaking {
						t.Fatalf("%s has no end, or is not settled and has one\n%s", target.Name, m.run)
					}
					if places[target.Name]++; places[target.Name] > 1 {
						if !s.Cleanup {
							t.Fatalf("%s is in two stages\n%s", target.Name, m.run)
						}
						seen["moved to the cleanup"]++
					}
				}
				c := s.Counts
				want := staged.Counts{Members: c.Members, Waiting: counts[staged.Waiting], Starting: counts[staged.Starting], Updating: counts[staged.Updating],
					Soaking: counts[staged.Soaking], Done: counts[staged.Done], Failed: counts[staged.Failed], TimedOut: counts[staged.TimedOut],
					Skipped: counts[staged.Skipped], Removed: counts[staged.Removed], Regressed: c.Regressed, Stuck: c.Stuck, Suspended: suspended}
				if c != want {
					t.Fatalf("counts %+v, recounted %+v", c, want)
				}
				sum, more := reflect.ValueOf(&all).Elem(), reflect.ValueOf(c)
				for i := range sum.NumField() {
					sum.Field(i).SetInt(sum.Field(i).Int() + more.Field(i).Int())
				}
			}
			if m.run.Counts() != all {
				t.Fatalf("counts of the run %+v, of its stages %+v", m.run.Counts(), all)
			}
		})
	}, "moved to the cleanup")
}

// TestZeroOptions: the zero value of the options is the first choice of every field, written out.
func TestZeroOptions(t *testing.T) {
	seen := testkit.Tally{}
	seen.Check(t, func(t *rapid.T) {
		var explicit *staged.Run
		drive(t, func(m *moment) {
			if explicit == nil {
				o := m.options
				for _, c := range []struct {
					choice *staged.Choice
					first  staged.Choice
				}{{&o.Unmatched, staged.Reject}, {&o.MissingSortKey, staged.Reject}, {&o.Added, staged.Ignore}, {&o.Removed, staged.Skip}, {&o.LateLeaving, staged.Ignore}, {&o.WaitDuringStop, staged.Count},
					{&o.VerifyDone, staged.DuringWait}, {&o.OnRegression, staged.Block}, {&o.OnFailure, staged.Fail}, {&o.OnReject, staged.Fail}, {&o.Rounding, staged.Down}} {
					if *c.choice == "" {
						*c.choice = c.first
						seen[string(c.first)]++
					}
				}
				if o.StuckAfter.IsZero() {
					o.StuckAfter = staged.For(5 * time.Minute)
				}
				if o.StopGrace.IsZero() {
					o.StopGrace = staged.None()
				}
				if c := &o.Cleanup; true {
					c.MaxConcurrency = cmp.Or(c.MaxConcurrency, concurrency.Percent(100))
					c.MaxFailures = cmp.Or(c.MaxFailures, concurrency.Count(0))
					c.ProgressDeadline = cmp.Or(c.ProgressDeadline, staged.None())
				}
				text := encode(t, m.before)
				from, to := bytes.Index(text, []byte(`,"options":`)), bytes.Index(text, []byte(`,"hash":`))
				written, err := json.Marshal(o)
				if err != nil {
					t.Fatal(err)
				}
				explicit = new(staged.Run)
				if err := json.Unmarshal(slices.Concat(text[:from], []byte(`,"options":`), written, text[to:]), explicit); err != nil {
					t.Fatal(err)
				}
			}
			var result staged.Result
			var err error
			if explicit, result, err = staged.Step(explicit, m.input, m.now); err != nil || !reflect.DeepEqual(result, m.result) || !reflect.DeepEqual(pictureOf(explicit), pictureOf(m.run)) {
				t.Fatalf("%v\n%+v\n%+v\n%s\n%s", err, result, m.result, explicit, m.run)
			}
		})
	}, "reject", "ignore", "skip", "count", "duringWait", "block", "fail", "down")
}

// TestI11RoundTrip: at every step the run survives JSON: the copy equals it, encodes to the same
// bytes, and steps on like it.
func TestI11RoundTrip(t *testing.T) {
	seen := testkit.Tally{}
	seen.Check(t, func(t *rapid.T) {
		drive(t, func(m *moment) {
			data := encode(t, m.run)
			var copied staged.Run
			if err := json.Unmarshal(data, &copied); err != nil {
				t.Fatalf("%v\n%s\n%s", err, data, m.run)
			}
			if again := encode(t, &copied); !bytes.Equal(data, again) {
				t.Fatalf("%s\n%s", data, again)
			}
			if !reflect.DeepEqual(pictureOf(&copied), pictureOf(m.run)) {
				t.Fatal(gocmp.Diff(pictureOf(m.run), pictureOf(&copied)))
			}
			if copied.Counts() != m.run.Counts() {
				t.Fatalf("a decoded run counts %s, not %s\n%s", copied.Counts(), m.run.Counts(), m.run)
			}
			if copied.String() != m.run.String() { // and so is what it waits for
				t.Fatalf("a decoded run says something else:\n%s\n%s", m.run, &copied)
			}
			var before staged.Run
			if err := json.Unmarshal(encode(t, m.before), &before); err != nil {
				t.Fatal(err)
			}
			run, result, err := staged.Step(&before, m.input, m.now)
			if err != nil || !bytes.Equal(encode(t, run), data) || !reflect.DeepEqual(result, m.result) {
				t.Fatalf("a decoded run goes another way: %v\n%s\n%s", err, m.run, run)
			}
			seen[string(m.run.Phase())]++
		})
	}, "Initialized", "Progressing", "Waiting", "Held", "Stopped", "Succeeded", "PartiallySucceeded", "Failed", "Cancelled")
}

// TestI10Liveness: from any state a history leads to, a run whose targets become ready and are
// resumed, whose approvals are given and whose state is Run ends; out of Held lead Skip, Approve or Cancel. A
// target that regressed and is gone never becomes ready, and has to be skipped.
func TestI10Liveness(t *testing.T) {
	seen := testkit.Tally{}
	seen.Check(t, func(t *rapid.T) {
		m := drive(t, func(*moment) {})
		run, now, result := m.run, m.run.Time(), m.result
		for range 300 {
			if run.Phase().Terminal() {
				seen[string(run.Phase())]++
				return
			}
			in := staged.Input{State: staged.StateRun}
			for _, a := range result.Actions {
				if a.Kind == staged.RequestApproval {
					in.Commands = append(in.Commands, staged.Command{Kind: staged.CommandApprove, Run: a.Run, Stage: a.Stage, Side: a.Side})
				}
			}
			for s := range run.Stages() {
				for target := range run.Targets(s.Index) {
					in.Observations = append(in.Observations, staged.Observation{Target: target.Name, Version: "v2", Health: staged.HealthReady, Gone: s.Cleanup && target.State != staged.Waiting})
					if run.Phase() == staged.PhaseHeld && (target.State == staged.Failed || target.State == staged.TimedOut) {
						in.Commands = append(in.Commands, staged.Command{Kind: staged.CommandSkip, Target: target.Name})
						seen["skipped out of Held"]++
					}
					if target.SuspendedBy != nil {
						in.Commands = append(in.Commands, staged.Command{Kind: staged.CommandResume, Target: target.Name})
						seen["resumed"]++
					}
					if at, _ := run.Target(target.Name); target.Regressed && at.Stage != target.Stage && at.State.Settled() { // it went to the cleanup and is gone
						in.Commands = append(in.Commands, staged.Command{Kind: staged.CommandSkip, Target: target.Name})
					}
				}
				for side, state := range map[staged.Side]staged.ApprovalState{staged.Before: s.Before.State, staged.After: s.After.State} {
					if state == staged.ApprovalRejected && run.Phase() == staged.PhaseHeld {
						in.Commands = append(in.Commands, staged.Command{Kind: staged.CommandApprove, Run: "run", Stage: s.Index, Side: side})
						seen["approved out of Held"]++
					}
				}
			}
			// Removals need the token, or that the target is gone.
			for _, a := range result.Actions {
				if a.Kind == staged.Remove {
					in.Observations = append(in.Observations, staged.Observation{Target: a.Target, Gone: true, Token: a.Token})
				}
			}
			if !result.Next.IsZero() && rapid.Bool().Draw(t, "late") {
				now = result.Next
			}
			var err error
			if run, result, err = staged.Step(run, in, now); err != nil {
				t.Fatal(err)
			}
			if !result.Next.IsZero() {
				now = result.Next
			}
		}
		t.Fatalf("does not end:\n%s", run)
	}, "Succeeded", "PartiallySucceeded", "Failed", "Cancelled", "skipped out of Held", "approved out of Held", "resumed")
}
