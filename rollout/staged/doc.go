// Package staged decides which targets of a staged update may be pointed at the new version now,
// which approvals to ask for, and what every other target waits for. [Compile] makes a [Run] of a
// strategy and a fleet; call [Step] whenever something happens, and carry out the actions that it
// returns:
//
//	run, err := staged.Compile(strategy, spec, fleet, options)   // the order is fixed; run.String() is the preview
//	run, result, err = staged.Step(run, input, now)              // as often as something happens, and at result.Next
//
// It performs no I/O, starts no goroutine, reads no clock, and never changes a run: a step returns
// the next one.
//
// The strategy is that of KubeFleet's staged update, as it is. Stages are ordered and select
// targets by labels; within each a limited number of targets is in progress. An approval may come
// before a stage, and an approval and a timed wait after it. Runs are prepared, started, stopped
// and resumed. Failure budgets, deadlines and soaks come from the rollout strategies of Open
// Cluster Management, see [FromOCM].
//
// # A host's duties
//
//  1. Decide which targets are ready, and tell which version they point at.
//  2. Store the run that a step returned, with compare-and-swap, before carrying out its actions,
//     unless it has not Changed. A run that could not be stored is forgotten, actions and all: the
//     same step gives the same tokens again. Keep its input for that step: commands and changes of
//     the fleet are heard once.
//  3. Carry out the actions, in any order. They are repeated until they are acknowledged, by an
//     observation with their token or at their version. So each token must take effect at most
//     once: point a target with a compare-and-swap, or keep the token beside it. A removal is done
//     when the target is observed to be gone, or listed as removed.
//  4. Attach the token of this run's last action on a target to what is observed after it, whoever
//     acted on the target since. With the token of another run an observation is stale, and a
//     takeover goes unnoticed. Leave out what was observed before that action: once the target has
//     a Start, whatever shows no token of this run. From a stale cache, it would be taken for
//     another run's version.
//  5. Step again on every observation, command and change of the fleet, and no later than Next.
//     There is no polling. After a restart step at once: the actions are repeated, and Next is not
//     stored.
//  6. Give every run an id of its own, such as the uid of its object, and ask [Conflicts] before a
//     second run of one placement starts.
//
// Strategies and runs are decoded from JSON; sigs.k8s.io/yaml, or any converter that goes by json
// tags, makes that of YAML. A stage that may only begin in working hours is an approval that the
// host gives while a calendar of package clock is open, see the examples of [Step].
//
// # One step
//
//  1. A time before that of the last step counts as that.
//  2. The desired state is taken, then commands in order, then what became of the fleet, then the
//     last observation of each target.
//  3. Time passes: soaks end, deadlines pass, targets become stuck, the wait is over. Every
//     comparison is now >= instant.
//  4. Budgets and rejections decide on the phase of the run before anything is started.
//  5. Only a progressing run goes on, as far as it can: before-task, members that need nothing,
//     free slots, after-tasks, next stage, the cleanup after the last one, the outcome.
//  6. Stopping, failing and cancelling end once every target in progress is stuck or ready, or the
//     grace has passed.
//
// # What a run keeps
//
// Whatever the input, in any order, late, repeated or lost:
//
//	I1   in each stage, members in progress <= limit
//	I2   nothing starts before every earlier stage is closed and the approval before its own is given
//	I3   a step that leaves the run stopped, held, failing, cancelling or over budget starts
//	     nothing; a terminal run never changes
//	I4   the same step twice gives the same; a second step at once, without input, changes nothing
//	     and repeats the actions
//	I5   the order of observations of different targets does not matter
//	I6   steps without input change nothing if every Next is honoured; Next is later than now, and
//	     no pending instant is before it
//	I7   no wait is shorter than its waitTime; with frozen waits, stopped time is no part of it
//	I8   one token for each attempt; repeated, dropped and lost actions and steps lead to the same end
//	I9   what was started is settled in the end, or listed as in progress; counters equal a recount
//	I10  if targets become ready, approvals are given and the state is Run, the run ends; Skip,
//	     Approve or Cancel lead out of Held
//	I11  JSON round trip gives an equal run; a damaged one is an error
//
// # Coming from KubeFleet
//
// Every row is a test that computes the last column.
//
//	     situation                                     KubeFleet                        here
//	K1   two stages of one name                        share one approval               rejected
//	K2   no stages; two waits after a stage            accepted, fails later            rejected
//	K3   a rejected strategy                           a failed run object              no run
//	K4   resourceSnapshotIndex added or removed        allowed                          rejected
//	K5   a stage of N that are all ready               ceil(N/limit) polls of 15 s      one step
//	K6   targets that are at the version already       a slot and a poll each           done in one step, without slot
//	K7   at the version, but failing                   never started, never stuck       started like any other
//	K8   the pass that fails the run                   still starts targets             starts nothing
//	K9   a failing target                              slot for ever, slows polling     progressDeadline, Skip
//	K10  stuck                                         state of the run, after 5m       mark of the target, at stuckAfter
//	K11  another run takes a target in progress        fails; a success while stopping  failed, superseded; the budget decides
//	K12  another run takes a done target               not noticed                      regressed, by verifyDone
//	K13  an approval request of another run            fails the run                    ignored
//	K14  Stop during a wait                            the whole wait again             what is left of it
//	K15  a wake-up while stopped                       moves the start of the wait      nothing
//	K16  Stop after a wait is over                     forgotten                        over for good
//	K17  Stop with a stuck target                      never Stopped                    Stopped at once
//	K18  Stop during the cleanup                       until no leaving target is left  until no removal is in progress
//	K19  a target added, removed or relabelled         fails the run                    ignored, removed, no effect
//	K20  only leaving targets                          always Failed                    Succeeded
//	K21  a removal that never ends                     no limit, no deadline            cleanup options
//	K22  a crash between action and record             acts unrecorded                  intent first, same token
//	K23  concurrent runs with other strategies         not checked                      Conflicts
//	K24  time of a wait                                of a condition, to the second    its own, to the nanosecond
//	K25  status of a run                               415 bytes per cluster            under 60 bytes per target
//	K26  an approval before it is asked for            counts                           ignored
//	K27  waitTime 01h; sortingLabelKey that is no key  accepted                         rejected
//	K28  a leaving target that is gone before its turn recorded in its turn             done at once
//	K29  a run's name of 64 characters, or with a dot  accepted, up to 127              rejected
//	K30  a run fails while targets are in progress     Failed at once                   Failing until they settle, are stuck or ready
//	K31  a target that is listed as leaving, too       updated, then removed            rejected
//	K32  Run and Stop before anybody looked            Stopped                          an error: leave the state out
//
// Where KubeFleet's document and its code differ, the document holds: see K14 and K17.
//
// On every pass KubeFleet also looks at the placement, its apply strategy and its policy snapshot,
// and fails the run if they changed. Here that is up to the host, which has [CommandCancel]. A
// binding is at the version of a run only if its overrides and its apply strategy are those of the
// run: observe it as at another version otherwise.
//
// The strategies of KubeFleet's next API, rollout.kubefleet.dev/v1alpha1, are read as they are. It
// refuses what K1, K2 and the first half of K27 are about, too, and gives a target of two stages to
// the first, as Options.Overlap can. Its runs are not, and the errors say what to write: suspended
// is a [State], resourceSnapshotName is Fleet.Version, and of failurePolicy
// maxAllowedClusterFailures is MaxFailures and maxWaitTimePerClusterMinutes is ProgressDeadline of
// the strategy.
//
// # Where the designs are silent
//
//   - A progressDeadline is a deadline for becoming ready: it does not end a soak. A target that
//     loses readiness has it again, from its start.
//   - A wait counts from when the last member was settled, even if that was during a stop or while
//     held, but not from before the stage began. With frozen waits, stopped time does not count.
//   - A retry during a stop takes a stage that waits behind its members back to Updating at once;
//     nothing starts before the run goes on.
//   - Actions are repeated in every phase that is not terminal, Stopped included, while their
//     targets are starting: they may have had their effect. A host that must not let anything take
//     effect after a stop has to see to that where it carries out actions.
//   - A target that was removed and comes back does not join again, nor does one that went to the
//     cleanup.
//   - A member that starts leaving can be in its stage, settled, and in the cleanup. Its name then
//     means the one in the cleanup; Skip takes it out of both.
//   - A regressed target that goes away for good is not ready again: it keeps blocking until it is
//     skipped, since whoever deletes what the new version broke should say so.
//   - A change to a state that cannot follow the present one is an error of the whole step. A host
//     that sees only the newest spec, and there Stop of a run that is Initialized, has missed a
//     Run: it leaves the state out, because nothing has started.
//   - What happens to targets in a run that failed or was cancelled while they were soaking or
//     stuck is not followed: they stay in progress.
//
// # Cost
//
// A step costs what it changes and starts, and what it repeats: twenty changes of state take the
// same at 1,000 and at 1,000,000 targets. A run takes 34 bytes per target beside its name in
// memory, and 25 beside its name as JSON with both times recorded.
package staged
