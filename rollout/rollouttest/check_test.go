package rollouttest_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/clock"
	"github.com/tranche-dev/tranche/rollout"
	"github.com/tranche-dev/tranche/rollout/rollouttest"
)

// TestWhatChangesUnseen: a plan that forgets to name an instant is found out, whatever changes
// there, and the world says what does.
func TestWhatChangesUnseen(t *testing.T) {
	t.Parallel()
	forget := func(p *rollout.Plan) { // who waits would tell
		p.Keep.Current += p.Waiting.Len()
		p.Next, p.Waiting = time.Time{}, rollout.WaitingList{}
	}
	late := func(p *rollout.Plan) {
		if next := p.Next; !next.IsZero() {
			forget(p)
			p.Next = next.Add(time.Hour)
		}
	}
	from := func(at time.Time, spoil func(*rollout.Plan)) func(*rollout.Plan) {
		return func(p *rollout.Plan) {
			if !p.Now.Before(at) {
				spoil(p)
			}
		}
	}
	const night = `{"id":"night","deploymentWindow":{"rrule":"FREQ=DAILY;BYHOUR=22","durationMinutes":240}}`
	evening := webWorld(t, 1, night)
	evening.Fleet.Versions[1].CreatedAt = at(1, 21, 59)
	closes := rfcWorld(t, 1)
	closes.Policies = policyFile(t, "node-policy.json", func(policies []rollout.Policy) {
		policies[0].Rules[1].ResourceConcurrency.LimitValue = new(int64)
	})
	closes.Changes = []rollouttest.Change{{At: at(2, 8, 59), Do: func(*rollout.Snapshot) {}}}
	hangs := webWorld(t, 1, `{"id":"one","resourceConcurrency":{"groupSelector":"true","limit":1,"stuckAfterSeconds":3600}}`)
	hangs.Job = func(rollout.Start, int) rollouttest.Outcome {
		return rollouttest.Outcome{Status: rollout.JobInProgress}
	}
	edited := func(edit func(*rollout.Verdict)) func(*rollout.Plan) {
		return func(p *rollout.Plan) {
			list := slices.Collect(p.Waiting.All())
			for k := range list {
				list[k].Blockers = slices.Clone(list[k].Blockers)
				edit(&list[k].Blockers[0])
			}
			p.Waiting = rollout.NewWaitingList(list...)
		}
	}
	for _, row := range []struct {
		why   string
		w     rollouttest.World
		spoil func(*rollout.Plan)
		says  string
	}{
		{"a window opens, some day", webWorld(t, 1, night), from(at(1, 9, 0), forget),
			"quiet is broken at 2026-03-10T09:00:00Z: nobody is to look again, and at 2031-03-09T09:00:00Z others wait, or for other reasons: 0 targets that wait became 1"},
		{"a window opens before anybody looks", evening, from(at(1, 21, 59), late),
			"quiet is broken at 2026-03-10T21:59:00Z: nobody is to look before 2026-03-10T23:00:00Z, and at 2026-03-10T22:29:30Z web v2 could start on c-0"},
		{"a group closes, and nothing can start", closes, from(at(2, 8, 59), late),
			"nobody is to look before 2026-03-11T10:00:00Z, and at 2026-03-11T09:29:30Z there is a group_closed of Node Lifecycle%2FdeploymentBracket%2F0/prod/1"},
		{"a slot is stuck by then", hangs, from(at(1, 9, 0), late),
			"nobody is to look before 2026-03-10T11:00:00Z, and at 2026-03-10T10:00:00Z 1 runs or leases are stuck, and not 0"},
		{"somebody waits for another reason", webWorld(t, 1, night), edited(func(v *rollout.Verdict) { v.Reason = "tired" }),
			`others wait, or for other reasons: "c-0 / prod / web: v2 waits: tired until 2026-03-10T22:00:00Z" became "c-0 / prod / web: v2 waits: window_closed until 2026-03-10T22:00:00Z"`},
		{"somebody waits for a rule that the words do not tell", webWorld(t, 1, night), edited(func(v *rollout.Verdict) { v.Rule = "another" }),
			`"c-0 / prod / web: v2 waits: window_closed until 2026-03-10T22:00:00Z", with other facts or events than its words tell`},
		{"somebody else waits", webWorld(t, 1, night), func(p *rollout.Plan) {
			list := slices.Collect(p.Waiting.All())
			for k := range list {
				list[k].Resource = "c-9"
			}
			p.Waiting = rollout.NewWaitingList(list...)
		}, `"c-9 / prod / web: v2 waits: window_closed until 2026-03-10T22:00:00Z" became "c-0 / prod / web: v2 waits: window_closed until 2026-03-10T22:00:00Z"`},
	} {
		w := row.w
		w.Plan = pure(w.Policies, row.spoil)
		_, err := w.Run(t.Context())
		var violation *rollouttest.Violation
		if !errors.As(err, &violation) || !strings.Contains(err.Error(), row.says) {
			t.Errorf("%s: got %v, want %s", row.why, err, row.says)
		}
	}
}

// TestSleepsTooLong: a host that starts something and then sleeps for as long as the plan says must
// not miss what a plan knows that sees its starts.
func TestSleepsTooLong(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		why, rules, says string
	}{
		{"for ever", oneByOne, "lets its host sleep for ever, and now something is to be seen at 2026-03-10T09:05:00Z"},
		{"for too long", `{"gradualRollout":{"rolloutType":"linear","timeScaleInterval":600}}`, "lets its host sleep until 2026-03-10T09:10:00Z, and now something is to be seen at 2026-03-10T09:05:00Z"},
	} {
		w := webWorld(t, 2, row.rules)
		w.Plan = pure(w.Policies, func(p *rollout.Plan) {
			if len(p.Start) == 0 {
				p.Next = p.Now.Add(minutes(5))
			}
		})
		if _, err := w.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "again is broken at 2026-03-10T09:00:00Z: the plan that started the jobs "+row.says) {
			t.Errorf("%s: %v", row.why, err)
		}
	}
}

// TestLookAheadFails: an instant at which no plan can be made is no quiet one.
func TestLookAheadFails(t *testing.T) {
	t.Parallel()
	w := webWorld(t, 1, oneByOne)
	w.Plan = pure(w.Policies, func(p *rollout.Plan) {
		p.State.Pools = append(slices.Clone(p.State.Pools), p.State.Pools[0]) // a state with two records of one pool
	})
	if _, err := w.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "invariant quiet is broken at 2026-03-10T08:00:00Z: a plan at 2026-03-10T08:30:00Z fails: ") {
		t.Errorf("got %v", err)
	}
}

// TestOpeningsBeyondReach: a plan looks for openings within five years, and does not wake its host
// when a later one comes within reach, as package rollout says of its windows. That is no broken
// promise, while everybody else is still to be seen in time.
func TestOpeningsBeyondReach(t *testing.T) {
	t.Parallel()
	horizon := func(d time.Duration) time.Time { return at(1, 8, 0).Add(clock.DefaultHorizon + d) }
	once := func(from time.Time, d time.Duration) string {
		return fmt.Sprintf(`{"id":"once","deploymentWindow":{"from":%q,"until":%q}}`, from.Format(time.RFC3339), from.Add(d).Format(time.RFC3339))
	}
	const year = 365 * 24 * time.Hour
	curve := `,{"id":"turns","gradualRollout":{"rolloutType":"linear","timeScaleInterval":600}}`
	looks := func(after ...time.Duration) (changes []rollouttest.Change) {
		for _, d := range after {
			changes = append(changes, rollouttest.Change{At: at(1, 8, 0).Add(d), Do: func(*rollout.Snapshot) {}})
		}
		return changes
	}
	for _, row := range []struct {
		why   string
		rules string
		edit  func(*rollouttest.World)
		done  bool
		says  string // what is wrong all the same
	}{
		{why: "it opens an instant after what is within reach", rules: once(horizon(0), time.Hour)},
		{why: "it opens just within reach", rules: once(horizon(-time.Second), time.Hour), done: true},
		{why: "it is within reach half way", rules: once(horizon(2*year), year)},
		{why: "it is open half way", rules: once(horizon(time.Second), year)},
		{why: "it is open at the last instant that is looked at", rules: once(horizon(4*year), 9*year)},
		{why: "what closes until then", rules: `{"id":"closed","deploymentWindow":{"from":"2020-01-01T00:00:00Z","until":"2033-01-01T00:00:00Z","allowWindow":false}}`},
		{why: "beside a curve", rules: once(horizon(2*year), year) + curve},
		{why: "it is long enough only then", rules: once(at(2, 0, 0), time.Hour) + `,{"id":"long","deploymentWindow":{"from":"2035-01-01T00:00:00Z","until":"2036-01-01T00:00:00Z","minimumRemainingMinutes":90}}`},
		{why: "a bracket that waits for it", rules: `{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}},` + once(horizon(4*year), 9*year)},
		{why: "somebody looks when it is within reach", rules: once(horizon(2*year), year), done: true,
			edit: func(w *rollouttest.World) { w.Changes = looks(3 * year) }},
		{why: "somebody looks too early, and would sleep until it is within reach", rules: once(horizon(2*year), year),
			edit: func(w *rollouttest.World) { w.Changes = looks(year) }},
		{why: "somebody looks too early, and then again", rules: once(horizon(2*year), year), done: true,
			edit: func(w *rollouttest.World) { w.Changes = looks(year, 6*year) }},
		{why: "another target is to be seen meanwhile, and is not", rules: once(horizon(2*year), year),
			edit: func(w *rollouttest.World) {
				other := rollout.Deployment{ID: "api", Name: "api"}
				w.Policies = compiled(t, `[{"name":"w","selector":"deployment.id == 'web'","rules":[`+once(horizon(2*year), year)+`]},
					{"name":"a","selector":"deployment.id == 'api'","rules":[{"id":"soon","deploymentWindow":{"from":"2026-04-08T00:00:00Z","until":"2050-04-08T00:00:00Z","firstDeploy":"apply"}}]}]`)
				w.Fleet.Deployments = append(w.Fleet.Deployments, other)
				w.Fleet.Versions = append(w.Fleet.Versions, version("api", "v2", at(-1, 0, 0)))
				w.Fleet.Targets = append(w.Fleet.Targets, rollout.Target{TargetID: rollout.TargetID{Resource: "c-0", Environment: "prod", Deployment: "api"}})
				w.Plan = pure(w.Policies, func(p *rollout.Plan) {
					list := slices.DeleteFunc(slices.Collect(p.Waiting.All()), func(w rollout.Waiting) bool { return w.Deployment == "api" })
					p.Keep.Current += p.Waiting.Len() - len(list)
					p.Next, p.Waiting = time.Time{}, rollout.NewWaitingList(list...)
				})
			}, says: "nobody is to look again, and at 2031-03-09T08:00:00Z api v2 could start on c-0"},
		{why: "a plan that says of an opening within reach that there is none", rules: once(horizon(-2*year), 9*year),
			edit: func(w *rollouttest.World) {
				w.Plan = pure(w.Policies, func(p *rollout.Plan) {
					list := slices.Collect(p.Waiting.All())
					for k := range list {
						list[k].Blockers = slices.Clone(list[k].Blockers)
						b := &list[k].Blockers[0]
						b.Until, b.On = time.Time{}, []rollout.Condition{{Kind: rollout.OnConfig, Rule: "once"}}
					}
					p.Next, p.Waiting = time.Time{}, rollout.NewWaitingList(list...)
				})
			}, says: "nobody is to look again, and at 2031-03-09T08:00:00Z web v2 could start on c-0"},
	} {
		t.Run(row.why, func(t *testing.T) {
			t.Parallel()
			w := webWorld(t, 2, row.rules)
			w.Fleet.Versions[1].CreatedAt = at(1, 7, 0)
			for k := range w.Fleet.Targets {
				w.Fleet.Targets[k].Current = "v1" // not a first deployment, which a window lets past
			}
			if row.edit != nil {
				row.edit(&w)
			}
			timeline, err := w.Run(t.Context())
			switch {
			case row.says != "":
				if err == nil || !strings.Contains(err.Error(), row.says) {
					t.Errorf("%v, want %s", err, row.says)
				}
			case err != nil || timeline.Done != row.done:
				t.Errorf("%v, done %t:\n%s", err, timeline.Done, timeline)
			}
		})
	}
}
