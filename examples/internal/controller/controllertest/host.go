//go:build unix

package controllertest

import (
	"testing"
)

// RunHost checks what a host relies on, with a database under it: jobs that are created once and
// fenced, plans that are whole or errors, state that another database continues.
func RunHost(t *testing.T, d Driver) {
	for _, c := range []struct {
		name string
		why  string
		run  func(*testing.T, Driver)
	}{
		{"jobs", "attempts, slots and ages are derived from jobs, so nothing of them may be lost or rounded", checkJobs},
		{"dispatch", "a job is created once, on a slot that is held, on a target that is free", checkDispatch},
		{"foreign jobs count", "what people do by hand disrupts a node as well", checkForeign},
		{"a plan that slept is fenced", "a controller that was paused after its save must not start what was finished and given up meanwhile", checkFenced},
		{"a start that was overtaken is refused", "a target must not be taken back by who missed that others have moved it on", checkOvertaken},
		{"many dispatch at once", "what is looked up before the transaction that creates the job is out of date in it", checkRush},
		{"a save that slept conflicts", "a controller that was paused before its save must decide again", checkConflict},
		{"a process that slept", "the same with a real process, stopped in the middle of a call and woken when everything is over", checkPaused},
		{"a network that is cut", "a controller that is cut off for longer than it held anything must change nothing when it is back", checkCutOff},
		{"crashes after every write", "whatever was written when a controller died, the next one goes on", checkCrashes},
		{"two controllers with faults", "lost calls, lost answers, stale reads and late writes may slow a rollout down, and nothing else", checkFaults},
		{"no answer, no plan", "a host that cannot read must not decide", checkDown},
		{"half an answer, no list", "what is missing from a list looks like a free slot", checkHalf},
		{"orphans are given back", "a slot that nobody uses and nobody releases stops the rollout for ever", checkOrphans},
		{"orphans in use are kept", "a slot that was given back while a job is active is somebody else's at once", checkOrphanInUse},
		{"a look at the past", "jobs that ended since they were observed have given their slots away", checkPast},
		{"another database goes on", "moving to another database must not repeat or forget anything", checkMove},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel() // each has a database of its own
			t.Cleanup(func() {
				if t.Failed() {
					t.Logf("why this matters: %s", c.why)
				}
			})
			c.run(t, d)
		})
	}
}

func (d Driver) fresh(t *testing.T) Database {
	t.Helper()
	return d.open(t, d.Space(t))
}
