// Package rollouttest runs a whole rollout on a virtual clock, with the real planner and a
// simulated world of jobs that take time, fail or hang, and of everything that may happen in
// between. Describe a [World] and call [World.Run]: it returns what would happen, and checks at
// every step that the planner keeps its promises. [Forecast] predicts when a rollout is done, and
// when each version has come to each environment. Nothing is deployed, and nothing sleeps.
//
//	world := rollouttest.World{Policies: policies, Fleet: fleet, Job: rollouttest.Durations(durations)}
//	timeline, err := world.Run(ctx)
//	fmt.Println(timeline)            // every event and every wait, with its reason
//	fmt.Println(timeline.Chart(0))   // one row per resource
//
// [World] and [Timeline] are plain values. [World.Run] wakes only at the instants at which a host
// would wake: the plan's Next, and its own events. So it also proves that these suffice.
//
// A world may begin in the middle of a rollout, from what a host has observed or a recording holds:
// the jobs and verifications that are in progress then end as [World].Job or the samples of a
// forecast say.
//
// People who approve are in the Fleet, if it is known when they do, or answer by [World].Approval once
// they are asked; a forecast draws their answers from [Samples], too. An operator decides by
// [World].Operator about executions that halt after a failure, and about targets that have no attempt
// left. Whatever else people do about what they see, [World].React returns.
//
// [Explore] runs a world once for every job that may fail or hang, or for every two of them, and says
// what that holds up and what it leaves in disruption. [World.With] is the world with such faults, to
// see its timeline. Set [World].Every for a host that polls, to see what it loses by that; then it
// also bounds the number of plans by the time that passes.
//
// An override, a freeze, a command or a status that is misspelt looks like one that is not there,
// but for the diagnostics, which are at the end of the texts and in each [Timeline] and [Trial].
//
// [Invariants] are the promises that every plan keeps; [Step.Check] checks one plan of any host
// against them. [Forecast] runs a world many times with durations drawn from samples.
//
// Each thing that happens takes a plan of the whole fleet, a second one if that starts something, and
// two more if plans are checked. So the time of a run grows with the square of the fleet: a cluster
// of ten nodes with five deployments each takes some milliseconds, one of a hundred less than a
// second, one of a thousand a minute with all checks and a third of that without. For large worlds
// set Trust and Pure, as [Forecast] does after its first trial.
//
// The package is a kit for tests and for tools that look ahead. It is deterministic: the same
// world, samples and seed give the same bytes.
package rollouttest
