// Package tranche decides who may be deployed next, who must wait, until when, and why.
//
// It is a library for people who write deployment tools and Kubernetes controllers. They import the
// packages they need, feed them what they observed, and carry out what comes back. This package
// holds no code: start with the one for your task.
//
//	rollout                   one policy over a fleet, one plan: brackets, concurrency, curves, windows, progression, approvals, failure budgets, retries, rollbacks
//	rollout/staged            stages with approvals and waits around them, as one run that can be stopped and resumed
//	rollout/rollouttest       a whole rollout on a virtual clock, before it starts: timelines, forecasts, what each fault leads to; invariants for tests of hosts
//	rollout/staged/stagedtest a staged run on a virtual clock, before it starts or in its middle: timelines and forecasts
//	bracket                   several deployments on one resource as a unit: drain once, upgrade everything, uncordon once
//	concurrency               how many resources may be disrupted at once, or begin to be disrupted per hour: limits, rates, pools, slots as leases
//	selector                  what a rule points at: CEL expressions and label selectors, compiled and indexed
//	partition                 Fleet-style partitions with readiness thresholds, as documented and as Fleet's controller does it
//	surge                     rolling updates over numbered replicas that never leave a hole
//	clock                     when something may happen: windows that open or close, in time zones; and the Clock that tells the shells around the planners what time it is
//
// Packages bracket/brackettest and concurrency/concurrencytest test that a host's own store and its
// own count of jobs keep their promises.
//
// # Words
//
//	resource        a thing that is deployed to: a node, a cluster, a machine
//	release target  one deployment in one environment on one resource
//	job             one execution on a release target; active until its status says that it has ended
//	position        the zero-based place of a target in the order of a rollout
//	gate            what a version must pass before its rollout begins, such as an approval; in rollout/staged, an approval or a wait at a stage
//	bracket         deployments that are upgraded on a resource as a unit; its members are mains, and hooks that run before all mains (pre, a drain) or after them (post, an uncordon)
//	group           the versions that a bracket collected and locked in one window, for one environment
//	execution       one group at work on one resource
//	slot, lease     the right to disrupt a resource, held for a group from its first start there to its end; outside brackets, for a release target
//	pool            the resources that a concurrency limit covers
//	queue           the starts that only capacity keeps waiting, in the order in which slots are given
//
// # Asking why
//
// Every package says why something waits, with codes that are stable. Printed with package fmt, the
// results are a summary for people.
//
//	rollout          Plan.Waiting lists every target that waits, with all its blockers; Plan.Explain what every rule says about every version of one target; Plan.Queue who gets the next slots
//	rollout/staged   Run.Explain says why a target is not settled; the run prints as a table with its gates
//	bracket          Plan.Waits lists what does not start and why; Plan.Evaluate says it of any candidate
//	concurrency      Result.Refused and Refusals list every candidate that waits, with all pools that refuse it; Describe prints them with names
//	partition        Result.Waiting and Unready list every cluster that waits, or is waited for; Compiled.Explain says it of one
//	surge            Result.Blocked says what the next step waits for; Diagnose says which replicas it is stuck at, and the remedy
//	clock            Calendar.NextOpen and NextFit say when a window opens, or that it never does; a Calendar prints its windows
//
// Before a rollout, rollout's PolicySet.Lint tells what can never finish, and rollouttest plays it.
//
// # Instants
//
// An instant before the year 1 counts as missing, just like the zero time.Time, because some
// databases write the year 0 for a missing date. Where an instant is required, such as now or the
// creation of a version, it is refused; where it is optional, such as the end of a job or of an
// override, it counts as unset. This holds for everything that a host hands to rollout, bracket and
// concurrency, and for what they stored. Instants that are stored must not be after the year 9999.
// Package rollout plans as far as 2262, and rollout/staged refuses whatever is not in the years
// 1970 to 2261.
//
// # What it never does
//
// It never deploys anything, never decides whether something is healthy, opens no connection,
// leaves no goroutine behind, reads no clock and keeps no global state. A planner is a pure function
//
//	plan, err := planner.Plan(what is configured, what was observed, now)
//
// The same input gives the same plan, byte for byte, in whatever order the input comes. Where
// memory is needed, state is a plain value that goes in and comes out.
// [github.com/tranche-dev/tranche/rollout.Planner] is the one thin shell that loads and saves it;
// everything it does a host can do itself.
//
// # What the host does, in this order
//
//  1. Observe: read the stored state, pools first, and then the entities and the jobs. A stale read
//     is harmless, a partial read is not. (rollout.Planner verifies that everything a start depends
//     on still holds. A host that saves record by record without it must not read the state from a
//     cache.)
//  2. Plan.
//  3. Commit the starts that will be carried out, any subset of them, and save the state by
//     compare-and-swap. If a save conflicts, begin again at 1. The simple way is to save the state
//     as a whole. A host that saves record by record uses rollout.Planner over a bracket.Store,
//     which has four methods, or does what Planner does. The order is: groups and rollouts,
//     executions that ended, pools, the other executions, and last the deletion of rollouts that
//     the state holds no longer. Where one execution ended and another began on the same resource,
//     their record is saved twice: with Open unset among those that ended, and as it is after the
//     pools. For a rule with maxActiveKeys, the record under the rule's own key is saved after
//     those of its pools, and the first time before them as well, with the confirmations of those
//     leases that exist by then.
//  4. Dispatch each start, create-if-absent by its run id: a start that is offered again carries
//     the same id. The CreatedAt of a job is after that of every earlier job of the target, even if
//     the clock was set back: jobs are ordered by it. A start that is dispatched late may carry an
//     older version than another planner has deployed meanwhile. So a host with several planners
//     creates the job only if the target has no job that Observe did not see; otherwise it begins
//     again at 1.
//  5. Sleep until something happens: a job ends, a version is published, somebody approves. Sleep no
//     longer than until plan.Next if rollout.Planner made the plan, and no longer than until
//     plan.NextAfter(starts) if PolicySet.Plan did. If that is zero, nothing changes by itself.
//
// A crash between any two of these steps is repaired by the next plan. Only time is lost. The plan
// lists every slot whose holder is not seen at work, with its token: the host gives it back once it
// knows that no dispatch is under way.
//
// # What holds
//
//   - A limit holds, whatever the interleaving of planners, crashes and retries. A slot is a lease
//     that belongs to a resource and a group. It is taken by compare-and-swap before anything is
//     dispatched, and ends with the group. It is never derived from a count of jobs.
//   - What has begun is finished: a target is never taken back to an older version because of a
//     wait, and a drained node is upgraded and uncordoned before another policy change reaches it.
//     Apart from failures and an operator's commands, only a rollout.Freeze stops it half way, for
//     as long as the freeze lasts. That holds within one bracket: another one on the same resource
//     does not wait for it.
//   - Every wait says why: a stable code, the rule, the instant at which looking again can help,
//     and the events that can help. All blockers are reported, not only the first.
//   - Next is exact: between now and Next nothing changes by itself, so a host that starts nothing
//     and sleeps until then misses nothing. NextAfter is Next for a host that starts something.
//   - Nothing is guessed: unknown fields, expressions that do not compile and limits that make no
//     sense are errors, all of them reported at once. json.Unmarshal of a whole document, such as a
//     policy, an override or a state, refuses unknown fields without any setting. A part of a
//     document, such as a rule of a policy, is checked within the document only; a clock.Window
//     alone is read by clock.ParseWindow. Every package reports each fault of a document as its
//     FieldError, with the path of the field, a stable code, the value and what to write instead.
//     The codes of documents are the same everywhere: syntax, unknown_field, duplicate and type.
//     The others follow the design of the package. A limit of zero never means unlimited.
//
// Tests of the packages hold these against exhaustive explorations of small worlds, state machines
// with crashes and stale reads, and plain reference implementations.
package tranche
