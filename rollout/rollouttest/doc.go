// Package rollouttest runs a whole rollout on a virtual clock: the real planner, an invented world
// of jobs that take their time, fail or hang, and everything that may come in between. Describe a
// [World] and call [World.Run]: it tells what would happen, and checks that the planner keeps its
// promises at every step. [Forecast] says when a rollout is done. Nothing is deployed, and nothing
// waits.
//
//	world := rollouttest.World{Policies: policies, Fleet: fleet, Job: rollouttest.Durations(durations)}
//	timeline, err := world.Run(ctx)
//	fmt.Println(timeline)            // every event and every wait, with its reason
//	fmt.Println(timeline.Chart(0))   // one row per resource
//
// A [World] is a plain value and a [Timeline] is another. [World.Run] wakes only at the instants
// that a host would wake at: the plan's Next, and its own events. So it also proves that these
// suffice.
//
// [Invariants] are the promises that every plan keeps; [Step.Check] puts one plan of any host to
// the test. [Forecast] runs a world many times with durations drawn from samples.
//
// Everything that happens takes a plan of the whole fleet, and three more where they are checked,
// so the time of a run grows with the square of the fleet: a cluster of ten nodes with five
// deployments each takes some milliseconds, one of a hundred less than a second, one of a thousand
// a minute with all checks and a third of that without. For large worlds set Trust and Pure, as
// [Forecast] does after its first trial.
//
// The package is a kit for tests and for tools that look ahead. It is deterministic: the same
// world, samples and seed give the same bytes.
package rollouttest
