// Package staged decides which targets of a staged update may be pointed at the new version now,
// which approvals to ask for, and what every other target waits for. [Compile] makes a [Run] from a
// strategy and a fleet. Call [Step] whenever something happens, and carry out the actions that it
// returns:
//
//	run, err := staged.Compile(strategy, spec, fleet, options)   // the order is fixed; run.String() is the preview
//	run, result, err = staged.Step(run, input, now)              // as often as something happens, and at result.Next
//
// The package performs no I/O, starts no goroutine, reads no clock, and never changes a run: a step
// returns the next one. Package stagedtest plays a whole run on a virtual clock, and forecasts when it
// is over.
//
// The strategy is that of KubeFleet's staged update, unchanged. Stages are ordered and select
// targets by labels. Within each stage a limited number of targets is in progress. An approval may
// come before a stage, and an approval and a timed wait after it. Runs are prepared, started,
// stopped and resumed. Failure budgets, deadlines and soaks come from the rollout strategies of
// Open Cluster Management; see [FromOCM].
//
// # A host's duties
//
//  1. Decide which targets are ready, and report the version that each of them points at.
//  2. Store the run that a step returned, with compare-and-swap, before carrying out its actions,
//     unless Result.Changed is false. If the run cannot be stored, discard it and its actions: the
//     same step gives the same tokens again. Keep the input for that step, because commands and
//     changes of the fleet are reported only once. If Changed is false, no compare-and-swap shows
//     that the run was the newest: a host that reads a cache makes sure of that before it acts. An
//     old run repeats actions of attempts that are over, even after the run has ended.
//  3. Carry out the actions, in any order. Each action is repeated until an observation with its
//     token or at its version acknowledges it. So each token must take effect at most once: point a
//     target with a compare-and-swap, and keep the token beside it. Do nothing if this token of the
//     run, or a later one, is there already: later is the one of a higher Stage or, in the same
//     Stage, of a higher Attempt. If an earlier token came back, every observation would be stale
//     for good. A removal is done when the target is observed to be gone, or is listed in
//     Input.Removed. Answer an approval only while a step asks for it, or approve what was rejected:
//     any other answer is ignored, with an event. See the example of [Step] about a reconcile.
//  4. Attach the token of this run's last action on a target to every observation made after that
//     action, even if another run has acted on the target since. With the token of the other run
//     the observation would be stale, and the takeover would go unnoticed. Leave out observations
//     made before that action: once the target has a Start, those that show no token of this run.
//     If one of them came from a stale cache, it would be taken for another run's version.
//  5. Step again on every observation, command and change of the fleet, and no later than Next. No
//     polling is needed. After a restart, step at once: the step repeats the actions, and Next is
//     not stored.
//  6. Give every run its own ID, such as the uid of its object, and call [Conflicts] before a
//     second run of one placement starts.
//
// Whatever a host configures, says or stores is decoded from JSON strictly: strategies, specs,
// options, fleets, inputs, commands and runs. For YAML, use sigs.k8s.io/yaml or any other converter
// that honours json tags.
//
// # What else a run can wait for
//
// To let a stage begin only in working hours, after a test or once another run is over, put an
// approval before it that the host gives then. To let targets start only while a window is open,
// stop the run when the window closes, and resume it when the window opens: until then it does not
// end either, even if no target is left to start. To keep single targets back, such as those whose
// own window is closed, suspend them, and resume each in its time. The examples of [Step] do all
// three with a calendar of package clock. An approval has no deadline: a host that wants one
// rejects what nobody has answered for too long since Gate.Requested. Next names none of these
// instants.
//
// # How far a bad version comes
//
// One that fails at once fails the run at its first failure, where no budget is set. Every other
// kind needs something that is not there by default:
//
//   - One that is ready at first and breaks later: a MinSuccessTime keeps the next targets back, and
//     a TimedWait the next stage, for as long as a bad version may take until it shows. An approval
//     does only if it is not given before. What breaks after that is looked at if VerifyDone is
//     Always, and stops further targets if OnRegression is Fail as well.
//   - One that hangs: without a ProgressDeadline its targets are marked as stuck and keep their
//     slots, and the run waits, but it does not fail.
//   - One that takes targets out of the fleet: Removed at Fail.
//   - One that fails on all canaries: where only the strategy has a MaxFailures, a stage of so many
//     targets may fail as a whole. A stage of canaries needs its own, such as 0.
//   - A list of the fleet that is wrong, as after a listing that failed, or of a selector that
//     matches nothing: behind the stages, all that is listed as leaving is removed at once, and
//     nobody is asked. Options.Cleanup sets a limit, and Strategy.DeleteStage an approval.
//
// A run that fails or is cancelled takes nothing back. A rollback is a run of its own, with the
// earlier version, once this one is over. With the strategy of the update it would reach last what
// the update reached last, behind all waits and approvals: give it one with a single stage. The
// example of stagedtest.World called badVersion plays versions that break later.
//
// # Groups of a stage
//
// "In production ten at once, but never two of one region" is a limit of the stage and one of its
// groups: MaxConcurrency 10, GroupBy with the label of the region, and MaxConcurrencyPerGroup 1. Next
// is always the first member, in the order of the stage, whose group has a free slot. A target that
// waits for its group says so with [ReasonGroup]; the printed run lists the groups. A stage ends, is
// over its budget, waits and is approved as a whole, whatever its groups are. To have one region after
// the other, give each a stage. The cleanup has no groups.
//
// KubeFleet has a limit of the stage alone. Azure Kubernetes Fleet Manager, which is built on it, has
// one of each update group as well (Azure/AKS#5636): there each group has its own, and here all groups
// of a stage have the same, which a percentage makes larger for larger groups.
//
// # One step
//
//  1. A time before that of the last step counts as the time of the last step.
//  2. The desired state is applied, then the commands in order, then the changes of the fleet, then
//     the last observation of each target.
//  3. Time passes: soaks end, deadlines pass, targets become stuck, the wait ends. Every comparison
//     is now >= instant.
//  4. Budgets and rejected approvals decide the phase of the run before anything is started.
//  5. Only a progressing run advances, as far as it can: before-task, members that need no start,
//     free slots, after-tasks, next stage, the cleanup after the last stage, the outcome.
//  6. Stopping, failing and cancelling end once every target in progress is stuck or ready, or the
//     grace has passed.
//
// # Who decided
//
// A [Command] may say who gave it, when and why. The run keeps this for the answer to each
// approval, for the end of each wait by a command, for the skip or the last retry of each target,
// for its suspension as long as that lasts, and for the cancel. [StageStatus], [TargetStatus] and
// the verdicts show it as a [Decision], as do the printed run, of the targets that it names, and
// the events of a command, even of an ignored one. Who set the state of the run is not kept: that
// is no command.
//
// # What a run keeps
//
// A run keeps these invariants whatever the input, in any order, late, repeated or lost:
//
//	I1   in each stage, members in progress <= limit, and those of each group <= that of the group
//	I2   no member starts before every earlier stage is closed and the approval before its own stage
//	     is given
//	I3   a step that leaves the run stopped, held, failing, cancelling or over budget starts
//	     nothing; a terminal run never changes
//	I4   the same step gives the same result twice; a second step at the same time without input
//	     changes nothing and repeats the actions
//	I5   the order of observations of different targets does not matter
//	I6   steps without input change nothing if every Next is honoured; Next is later than now, and
//	     no pending instant is before it
//	I7   no wait is shorter than its waitTime, unless a command ended it; a frozen wait does not
//	     count stopped time
//	I8   each attempt has one token; repeated, dropped and lost actions and steps lead to the same
//	     end
//	I9   a started member is settled in the end, or listed as in progress; counters equal a recount
//	I10  if targets become ready and are not suspended, approvals are given and the state is Run,
//	     the run ends; Skip, Approve or Cancel lead out of Held
//	I11  a JSON round trip gives an equal run; decoding a damaged run is an error
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
//	K5   a stage of N targets, all ready               ceil(N/limit) polls of 15 s      one step
//	K6   targets that are already at the version       a slot and a poll each           done in one step, without a slot
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
//	K29  a run's name with a dot                       accepted                         rejected
//	K30  a run fails while targets are in progress     Failed at once                   Failing until they settle, are stuck or ready
//	K31  a target that is also listed as leaving       updated, then removed            rejected
//	K32  Run, then Stop, with no step in between       Stopped                          an error: leave the state out
//	K33  times of a stage without targets              a start and an end               an end
//	K34  an empty sortingLabelKey                      fails the run                    as if left out
//	K35  a wait that need not be waited for            the whole wait                   CommandEndWait
//	K36  a target that cannot be updated for now       a slot, stuck                    CommandSuspend
//	K37  at most so many of one region at once         a stage for each region          groupBy
//
// Where KubeFleet's documentation and its code differ, this package follows the documentation: see
// K14 and K17.
//
// On every pass KubeFleet also looks at the placement, its apply strategy and its policy snapshot,
// and fails the run if they changed. Here the host does that, and has [CommandCancel] for it. A
// binding is at the version of a run only if its overrides and its apply strategy are those of the
// run: otherwise observe it at another version.
//
// Of the commands KubeFleet has only the approval. Its users abandon a run by deleting its object.
// Here a host cancels the run, and drops it and its requests for approvals once it is over.
//
// Strategies of KubeFleet's next API, rollout.kubefleet.dev/v1alpha1, can be read unchanged. That
// API also refuses what is rejected under K1, K2 and the first half of K27, and assigns a target of
// two stages to the first, as Options.Overlap can. Its runs cannot be read, and the errors say what
// to write instead: suspended is a [State], resourceSnapshotName is Fleet.Version, and in
// failurePolicy maxAllowedClusterFailures is MaxFailures and maxWaitTimePerClusterMinutes is
// ProgressDeadline of the strategy. Where a failurePolicy leaves these two out, they are 1 and 5
// minutes there; here they must be written.
//
// # Conditions of KubeFleet
//
// A controller can write all conditions that KubeFleet shows from a run that it has loaded, each
// with its instant. It does not need the events of earlier steps, which are lost in a crash between
// storing the run and writing the status.
//
//	of       condition                status                                    lastTransitionTime
//	run      Initialized              True                                      Run.Begun
//	run      Progressing              True in phase Progressing,                Run.PhaseSince
//	                                  Unknown in Stopping, else False
//	run      Succeeded                True in Succeeded, False in Failed        Run.PhaseSince
//	stage    Progressing              True in phase Updating, else False;       StageStatus.PhaseSince; of
//	                                  of Run.Current that of the run, while     Run.Current, Run.PhaseSince
//	                                  the run is Stopping or Stopped            if that is later
//	stage    Succeeded                True in Succeeded and Skipped,            StageStatus.End
//	                                  False in Failed
//	task     ApprovalRequestCreated   True unless ApprovalNone                  Gate.Requested
//	task     ApprovalRequestApproved  True if ApprovalApproved                  Gate.Decided
//	task     WaitTimeElapsed          True if Waited                            WaitUntil
//	request  ApprovalAccepted         True if ApprovalApproved                  Gate.Decided
//	cluster  Started                  True if it has a Start                    TargetStatus.Start
//	cluster  Succeeded                True in Done, False in Failed, TimedOut   TargetStatus.End
//
// A run that is Initialized has no condition Progressing, and a stage that is Pending has none at
// all. The request is the object of the approval, in which a user sets Approved. KubeFleet shows a
// run with stuck targets as not Progressing. Here that begins when stuckAfter has passed since the
// earliest Start of a target that is Stuck. Only if that target was ready at that instant, in its
// minSuccessTime, does it begin when the target ceased to be ready, and a run does not keep when
// that was. The phases that KubeFleet does not have are shown as the host likes, as is a run that
// is Waiting while its stage is Updating, because all that is left of the stage is suspended. See
// the example of [Run.Stages].
//
// Each instant is the now of the step that made the change, or the time of the step before it if the
// clock was set back. Only a wait is over at its own time, whichever step found it. An instant is in
// UTC. It is zero if what it tells has not happened, or happened while an older version of this
// package did not store it. By the convention of Kubernetes a lastTransitionTime changes only with
// the status. The host keeps to that, as meta.SetStatusCondition does: Progressing is False in phase
// Waiting, and also in the phase Succeeded that follows.
//
// # Where the designs are silent
//
//   - A run keeps the strategy and the options that it was compiled with: an edit of either is for
//     the next run. To bring it to the targets that are left, cancel the run and, once it is over,
//     compile another one under another ID. There the targets that are ready at the version are
//     done without a start. [Run.Strategy] and [Run.Options] return what the run keeps.
//   - A progressDeadline is a deadline for becoming ready: it does not end a soak. If a target
//     loses readiness, the deadline applies again, counted from the start of the target.
//   - A progressDeadline runs on during a stop, because the update of the target does: a stop
//     starts nothing more, and calls no target back. A target that times out meanwhile counts as a
//     failure when the run is resumed, and until then the verdicts say which budget is exceeded.
//     To go on all the same, retry or skip it before Run or in the same step: commands apply before
//     budgets decide. A paused Deployment of Kubernetes has no deadline, but it makes no progress
//     either.
//   - A wait counts from when the last member was settled, even during a stop or while the run is
//     held, but not from before the stage began. With WaitDuringStop Freeze, stopped time does not
//     count. A member that failed is settled: when a skip releases a held run, the wait can be over.
//   - Whether a stage is skipped is decided when its turn comes. If it has no member to update by
//     then, because its selector has a typo, or because all were skipped or have left, it is closed
//     with its approvals and its wait. So look at the preview, and put an approval that must hold
//     back a stage in any case before that stage. A stage that asks for its approval then goes
//     through all its tasks, even if its members leave or are skipped meanwhile. Only the cleanup
//     takes back a request that is no longer needed.
//   - A target that cannot be updated for now, such as a stopped cluster, has its turn like any
//     other. It then holds a slot, and its deadline counts from the step that starts it, whenever
//     the host carries out the start. To let the others go first, suspend it with [CommandSuspend]
//     before its turn, and resume it with [CommandResume] once it can be updated. Its stage is not
//     closed without it: when nothing else is left of the stage, the run is Waiting, and no Next
//     names an end of that, because only the host knows it.
//   - To let the next stages begin without such a target, leave it out of the fleet instead and,
//     with Options.Added at Append, list it in Input.Added once it can be updated. If that is too
//     late for its stage, it joins the next one that matches it: so a last stage that selects every
//     target, with Options.Overlap at First, is for those who are late. Otherwise, and if it was
//     skipped instead, it is for the next run.
//   - A retry during a stop returns a stage in WaitingAfter to Updating at once; nothing starts
//     before the run is resumed.
//   - Actions are repeated while their targets are starting, in every phase that is not terminal,
//     Stopped included: they may have had their effect. A host that must not let any action take
//     effect after a stop has to ensure that where it carries out actions.
//   - A target that was removed or that moved to the cleanup does not join again when it comes
//     back.
//   - The members of a group are frozen as those of a stage are: a label that changes during the run
//     moves nobody. A target that joins is the last of its group, and the first of a new one if
//     nobody has its value. Who was removed still counts for a percentage of the group.
//   - A member that starts leaving can be in its stage, settled, and also in the cleanup. Its name
//     then means the member of the cleanup; Skip skips both. VerifyDone looks at it in its stage as
//     well, until it is gone or the cleanup begins: a target that has its name later is another one.
//   - A regressed target that goes away for good does not become ready: it keeps blocking until it
//     is skipped. An operator who deletes what the new version broke should say so.
//   - A desired state that cannot follow the present one fails the whole step. A host that sees
//     only the newest spec may find Stop there although the run is Initialized: it has missed a
//     Run. The host then leaves the state out, because nothing has started.
//   - Targets that are soaking or stuck when a run becomes Failed or Cancelled stay in progress:
//     the run does not follow them any further.
//
// # Cost
//
// The cost of a step grows with what it changes, starts and repeats: twenty changes of state take
// the same time at 1,000 and at 1,000,000 targets. Every step repeats all actions that are not yet
// acknowledged. So where very many targets are started at once, give one step all observations at
// hand: a step for each acknowledgement costs the square of their number.
//
// Besides its name, a target takes 34 bytes in memory, and 25 bytes as JSON with both times recorded.
// In a stage with groups it takes 32 bytes more in memory and 2 to 5 more as JSON, and each group
// takes 220 in memory.
//
// A run keeps its strategy: where stages list their targets by name, as those of [FromOCM] do, each
// name is in memory and in the JSON a second time, and if Options.Added is Append, a table of these
// names takes 70 bytes more for each.
package staged
