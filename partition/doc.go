// Package partition decides which clusters of a fleet may receive the wanted version now, and why
// the others must wait. Call [Plan] with the rolloutStrategy of a fleet.yaml and the state of every
// cluster, release what it returns, and plan again on every event. For a large fleet, call
// [Compile] once: a [Compiled] plan indexes the selectors and follows events in constant time, and
// the cost of its steps depends on the number of partitions and on what they release.
//
// The package performs no I/O, starts no goroutine, reads no clock and remembers nothing between
// calls.
//
// The strategy is that of Rancher Fleet, unchanged. Clusters are grouped into partitions, which are
// cut automatically or selected by name, labels and groups. Partitions are released in order, each
// in batches. NotReady members count against maxUnavailable, and partitions that are not ready
// against maxUnavailablePartitions. There are two modes. [Default] does what Fleet documents.
// [FleetController] decides as Fleet's controller does, oddities included. So the owner of a
// fleet.yaml can see both what Fleet will do with it today, and what Fleet's documentation
// promises.
//
// # A host's duties
//
//  1. Decide which clusters are ready, offline and paused.
//  2. For each release, store Released = Wanted and point the cluster at that version. Any part of
//     a plan may be carried out, in any order. In the mode FleetController, store first what
//     [Controller] lists. If what the host reads may be older than what it stored, as in a cache,
//     add what was stored since before planning: a cluster whose release is not seen counts as one
//     that still waits, so it is released again, and so are others beside it that should wait for
//     it.
//  3. Plan again on every event, and at once while More is true. No plan depends on time: without
//     an event nothing changes. Delays between partitions are added from outside; see the example
//     of Plan about soaking.
//  4. Compile again when clusters come and go, when labels change, or when another version is
//     wanted. As in Fleet, this moves the borders of automatic partitions. A cluster has not gone
//     because a cache lacks it, or because it is unhealthy: without the NotReady members that have
//     closed it, the gate is open.
//  5. Show Warnings and Unmatched before the first release. A selector with a typo matches no
//     cluster: its partition is empty and passed at once, and the clusters that were meant are in
//     later partitions or in none. A canary that stands behind a partition of everybody comes last.
//     During the rollout, look at Status.Held as well: a partition whose members are all held is
//     passed in the same way; see [SkipPaused].
//
// # One step of the default mode
//
// A cluster is in the first class that fits:
//
//	done         the wanted version is released and applied, and the cluster is ready and not offline
//	held         paused or offline, and not counted by the options
//	updating     the wanted version is released, and the cluster is not done
//	blocked      paused, and counted by the options
//	broken       another version is released, and it is not applied, or the cluster is not ready or is offline
//	pending      never released, offline or not
//	out of sync  healthy on another version
//
// Updating, blocked and broken clusters are NotReady. Broken, pending and out-of-sync clusters
// wait.
//
//  1. Partitions have their turn in order. A turn releases at most maxNew waiting members, in
//     cluster order. It releases pending and out-of-sync members only if at most maxUnavailable
//     members are NotReady before the turn: more pauses, equal proceeds. It releases broken members
//     in any case, to give them the fix. The batch itself is not limited by maxUnavailable, unless
//     [ByBudget] is chosen.
//  2. A partition is ready once no member waits and at most maxUnavailable members are NotReady.
//  3. The gate closes as soon as more than maxUnavailablePartitions of the partitions that had
//     their turn are not ready. Later partitions are not reached, not even for a fix: a version
//     that the first partition has not proved must not get into the last one.
//  4. A cluster in several partitions is released once, and counted in all of them at once.
//
// # How far a bad version comes
//
//   - Without maxUnavailable it comes to everybody. With it, to a whole batch in each partition that
//     is reached, even if that is 0: give canaries a partition of their own, or choose ByBudget.
//   - One that is ready at first and breaks later has come as far by then as it would come if it
//     were good: a plan goes on as soon as clusters are ready. Let partitions soak, as in duty 3.
//   - One that takes clusters offline passes with [ExcludeOffline], and one whose clusters are
//     paused, or left out of the fleet because they are broken, passes as well. So that clusters
//     which have been offline for long hold back nobody, pause these before the rollout instead.
//   - The way back is a plan with the earlier version as Wanted. It is released in the same order,
//     so behind a gate that a broken canary keeps closed it does not arrive. Plan it with a strategy
//     without limits, such as the zero Strategy, or pause what stays broken.
//
// # What a plan keeps
//
// In the default mode these invariants hold for all clusters, strategies and options:
//
//	I1  a step releases no cluster twice, and none that is done, held, updating or blocked
//	I2  a partition that releases pending or out-of-sync members had at most maxUnavailable
//	    NotReady members before; no turn releases more than maxNew, no step more than MaxPerStep
//	I3  of the partitions reached before the last one, at most maxUnavailablePartitions are not
//	    ready; nothing else is released
//	I4  if no cluster is paused or offline and every released one becomes ready, every matched
//	    cluster is done after at most 2 + Σ (⌈count/maxNew⌉ + 1) steps, for every maxUnavailable,
//	    even 0; with ByBudget or MaxPerStep after at most a step for each of them and one more
//	I5  if a step releases nothing and More is false, the same holds for the next step
//	I6  the order of the input does not matter, and a compiled plan equals a new one after any events
//	I7  without manual partitions, a larger maxUnavailable, maxUnavailablePartitions, maxNew or
//	    MaxPerStep never releases fewer clusters
//	I8  every waiting or held cluster has one reason, the classes of a partition add up, and a
//	    result survives JSON
//	I9  limits are exact, between 0 and the count, and grow with the percentage and with the count
//
// I6 and I8 hold in the mode FleetController as well, I6 as long as clusters of the same name in
// several namespaces keep their order.
//
// # Coming from fleet.yaml
//
// The table shows where Fleet's document (fleet.rancher.io/rollout) and its controller differ, or
// where one of them is silent. Every row is a test that computes the last two columns in the two
// modes.
//
//	     situation                                       document         FleetController   Default
//	D1   sizes of the partitions of 230 clusters         57 57 57 57 2    57 57 57 57 2     57 57 57 57 2
//	D2   sizes of the partitions of 199 clusters         199              199               199
//	D3   first deployment of 100 at 10%, none ready      50, wait         50 50             50, wait
//	D4   update of 50 at 10%, first step                 50               5                 50
//	D5   update of 1000 with all defaults, first step    50               1000              50
//	D6   update of 100 at maxUnavailable 0, first step   50               0                 50
//	D7   first deployment of 200 in 10 partitions        50 in each       50                200
//	D8   the same, one partition may be NotReady         20, wait         50                200 and a warning
//	D9   maxUnavailable "0%" of 10                       –                1                 0
//	D10  maxUnavailable "0"                              –                limit_format      0
//	D11  maxUnavailable "1e1%" of 50                     –                5                 limit_number
//	D12  maxUnavailable "15" of 10                       –                15                10
//	D13  4.6% of 1500                                    –                68                69
//	D14  autoPartitionSize "x", below the threshold      –                unseen            limit_format
//	D15  as many NotReady as allowed, the next batch     both             0                 3
//	D16  as many partitions NotReady as allowed          fewer proceeds   proceeds          proceeds
//	D17  a partition allows 5 and the strategy 1         5                1                 10
//	D18  healthy but offline, on the old version         NotReady         available         NotReady
//	D19  one paused cluster, maxUnavailable 0            –                blocks            does not count
//	D20  clusters in no partition                        excluded         excluded          excluded, or appended
//	D21  a cluster in no group, clusterGroupSelector {}  –                member            no member
//	D22  first of a/y and b/x                            –                b/x               a/y
//	D23  status after 4 of 4 are released                4 NotReady       0 unavailable     4 NotReady
//	D24  unhealthy member behind a closed gate           –                waits             waits
//	D25  partitions of 200 at autoPartitionSize "0%"     –                200               1
//	D26  NotReady ones that an empty partition may have  –                1                 0
//	D27  two manual partitions and no cluster            –                All               a b
//	D28  pointed at a version that it runs already       –                done at once      done a step later
//
// D3: the controller starts new clusters 50 per reconcile, ready or not. D15: the document says
// "fewer than 10" in one scenario and "more than 4 pauses" in another. D17: in the controller,
// maxUnavailable is a budget of the partition and also of all targets, here 10 clusters.
//
// Fleet's reference of fleet.yaml makes two more statements, which neither its document about
// rollouts nor its controller follows: that a partition without maxUnavailable allows 10%, and that
// clusters in no partition are appended. In this package, too, such a partition inherits the limit
// of the strategy.
//
// The mode FleetController follows a controller that knows autoPartitionThreshold and maxNew.
// Earlier controllers use 200 and 50 for these. They also take an int as it is written, so a
// partition with a negative maxUnavailable is never ready, and a status may show a limit above the
// count. Still earlier controllers put clusters in no group into no manual partition, and compare
// clusterName only with the name of the cluster.
//
// In the mode FleetController a plan has every number of the status that Fleet writes into a bundle.
// Its unavailable and maxUnavailable are those of [Controller], and newlyCreated is how many that
// has Created. Its unavailablePartitions and maxUnavailablePartitions are NotReadyPartitions and
// MaxNotReadyPartitions of [Step]. Of each of its partitions, name, count, maxUnavailable and
// unavailable are the fields of the same name of [Status].
//
// The package does not cover what bypasses the gate in Fleet too: dependsOn, drift correction, Helm
// options, namespace labels and schedules.
package partition
