// Package stagedtest plays a staged run on a virtual clock: the steps are those of package staged,
// and the targets that become ready, fail or hang, the people who approve, and everything else that
// may happen are simulated. Describe a [World] and call [World.Run]: it tells what would happen
// when. [Forecast] predicts when a run is over, and when each of its stages is. Nothing is deployed,
// and nothing sleeps.
//
//	world := stagedtest.World{StagedRun: run, Start: now, Approval: stagedtest.ApproveAfter(10 * time.Minute)}
//	timeline, err := world.Run(ctx)
//	fmt.Println(timeline) // every event, and a line for each stage
//
// [World] and [Timeline] are plain values. A world steps only at the instants at which a host would:
// when something happens, and at the Next of the last step. So it also proves that these suffice.
// Invariants I4, I6 and I11 of package staged are checked at every step, see [World.Run].
//
// A world may begin in the middle of a run, with what a host has stored: how long will the rest
// take? What is in progress then ends as [World].Target or the samples of a forecast say, counted
// from its own start. [SamplesOf] takes samples from stored runs.
//
// Unlike the worlds of package rollouttest, whose time grows with the square of the fleet, that of
// these grows with what happens: 100,000 targets take some seconds. The package is a kit for tests
// and for tools that look ahead. It is deterministic: the same world, samples and seed give the same
// bytes.
package stagedtest
