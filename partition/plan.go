package partition

import (
	"fmt"
	"strings"

	"github.com/tranche-dev/tranche/internal/textlist"
)

// Plan decides what may be released now. It is [Compile] and [Compiled.Plan] in one, for a host
// that has its whole fleet at hand and plans now and then. The order of the clusters does not
// matter, except between clusters of the same name in the mode [FleetController]. Plan does not
// change its input, and keeps nothing of it but strings.
//
// The host may carry out any part of the plan, in any order, before planning again. For each
// release it stores Released = Wanted and points the cluster at that version. Then it plans again
// on every event, and at once while [Step.More] is true. No plan depends on time, so without an
// event nothing changes.
//
// The error joins all faults of the options, the strategy and the clusters, each a *[FieldError].
// In the mode [FleetController] the strategy is looked at only if the options and the clusters have
// no faults. Of its faults, the error has the first that Fleet's controller would meet; those that
// the controller would not meet are no error.
func Plan(strategy Strategy, fleet Fleet, options Options) (Result, error) {
	compiled, err := Compile(strategy, fleet, options)
	if err != nil {
		return Result{}, err
	}
	return compiled.Plan(), nil
}

// ID names a cluster in results.
type ID struct {
	// Index is the place of the cluster in cluster order, as [Compiled.Update] takes it and
	// [Compiled.Find] returns it. Cluster order is by namespace and name, in the mode
	// FleetController by name; Index is the place in Fleet.Clusters only if that list is in cluster
	// order.
	Index     int    `json:"index"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// String returns namespace/name, or the name alone if there is no namespace.
func (id ID) String() string {
	if id.Namespace == "" {
		return textlist.Name(id.Name)
	}
	return textlist.Name(id.Namespace) + "/" + textlist.Name(id.Name)
}

// Release says that a cluster may be pointed at its wanted version now.
type Release struct {
	ID
	Partition int  `json:"partition"`      // index of the partition that releases it
	First     bool `json:"first,omitzero"` // this is the first deployment to the cluster, not an update
}

// String returns "name from partition 2", and whether it is the first deployment.
func (r Release) String() string {
	text := fmt.Sprintf("%s from partition %d", r.ID, r.Partition)
	if r.First {
		text += ", the first deployment"
	}
	return text
}

// Step is what may be done now, and the state of the partitions.
type Step struct {
	Releases   []Release `json:"releases,omitempty"` // in cluster order, each cluster once
	Partitions []Status  `json:"partitions"`         // all partitions, in the order of the rollout
	// NotReadyPartitions is how many of the reached partitions are not ready. As soon as it exceeds
	// MaxNotReadyPartitions, the gate closes: no later partition is reached.
	NotReadyPartitions    int `json:"notReadyPartitions"`
	MaxNotReadyPartitions int `json:"maxNotReadyPartitions"`
	ClosedBy              int `json:"closedBy"` // index of the partition that closed the gate; -1 if it is open
	// More means that another step would do something after this one is carried out, without any
	// other change: plan again at once, without waiting for an event.
	More bool `json:"more,omitzero"`
	// Controller is what only the mode FleetController has; nil in the default mode.
	Controller *Controller `json:"controller,omitempty"`
}

// Controller is what a reconcile of Fleet's controller does besides releasing, and its budget over
// all targets. Created and Staged are in cluster order. A created target is also staged, and
// usually released. A host that follows a rollout over several steps stores both before it stores
// the releases: for a created target an empty state except for Paused and Offline, for a staged
// target Staged = Wanted. A target that the host cannot store, because the cluster has no namespace
// yet, is created again in every step and uses up the batch each time, as in Fleet.
type Controller struct {
	Created           []ID `json:"created,omitempty"` // targets whose deployment object is made
	Staged            []ID `json:"staged,omitempty"`  // targets whose wanted version is prepared
	MaxUnavailable    int  `json:"maxUnavailable"`    // how many of all targets may be unavailable
	UnavailableBefore int  `json:"unavailableBefore"` // targets that, before the step, had not applied what they were pointed at or were not ready
	Unavailable       int  `json:"unavailable"`       // these and the healthy targets released in the step; new targets count in the next step
}

// Status is the state of one partition.
type Status struct {
	Index int `json:"index"` // from 0, in the order of the rollout
	// Name is that of the manual partition. An automatic one is called All if it was not cut, and
	// else after the places of its members, such as "Partition 0 - 57" for the first 57. Of appended
	// leftovers it is "Leftovers" or, if there are several, such as "Leftovers 0 - 57".
	Name  string `json:"name"`
	Count int    `json:"count"` // members
	// MaxUnavailable is how many members may be NotReady. In the mode FleetController it may exceed
	// Count.
	MaxUnavailable int `json:"maxUnavailable"`
	// NotReady is the number of NotReady members after the step. In the mode FleetController these
	// are all members that are not up to date and ready, including those not started yet.
	NotReady int `json:"notReady"`
	// Unavailable is the number that decided the releases. In the default mode it is NotReady
	// before the partition's turn. In the mode FleetController it is the number of members that,
	// before the step, had not applied what they were pointed at or were not ready, as in Fleet's
	// status.
	Unavailable int `json:"unavailable"`
	// Waiting is the number of members that, after the step, have another version than the wanted
	// one, or none; without those that are held or blocked.
	Waiting int `json:"waiting"`
	// Held is the number of members that are paused, or excluded while offline. In the mode
	// FleetController a paused member without a deployment counts as waiting: it gets a deployment
	// all the same.
	Held     int  `json:"held"`
	Done     int  `json:"done"`             // up to date and ready
	Released int  `json:"released"`         // clusters released in this step by this partition
	Reached  bool `json:"reached,omitzero"` // the partition had its turn
	// Ready means that the partition does not stop later ones. For a partition that had its turn,
	// this was decided then: releases of its members by a later partition are in the counts, but do
	// not affect Ready.
	Ready bool `json:"ready,omitzero"`
	// Classes are the numbers of members by class after the step, in the default mode.
	Classes Classes `json:"classes,omitzero"`
	// Blockers are the first NotReady members, at most three, of a partition that had its turn, if
	// after it more than MaxUnavailable are NotReady: its next batch waits for them, and it is not
	// ready. In the mode FleetController they are members that are unavailable to releases. Only
	// [Compiled.Plan] lists them.
	Blockers []ID `json:"blockers,omitempty"`
}

// Classes counts the members of a partition. Each member is in the first class that fits. Updating,
// blocked and broken members are NotReady; broken, pending and out-of-sync members wait.
type Classes struct {
	Done      int `json:"done"`      // at the wanted version, applied, ready and not offline
	Held      int `json:"held"`      // paused or offline, and not counted by the options
	Updating  int `json:"updating"`  // released, and not done
	Blocked   int `json:"blocked"`   // paused, and counted by the options
	Broken    int `json:"broken"`    // not healthy on another version: the fix is always due
	Pending   int `json:"pending"`   // never released
	OutOfSync int `json:"outOfSync"` // healthy on another version
}

// Result is a plan with its reasons. It belongs to the caller.
type Result struct {
	Step
	// Waiting has every cluster that waits or is held after the step, in cluster order, each with
	// one reason. It is what stood in the way in this step, such as a full batch. To know what the
	// rollout pauses for, plan once more after releases were carried out.
	Waiting []Waiting `json:"waiting,omitempty"`
	// Unready has every cluster that is NotReady and does not wait, in cluster order: those that were
	// released to the wanted version and, if the options count them, paused ones. A broken cluster
	// waits, and is in Waiting alone. In the default mode a cluster in neither list is done, so
	// all are once both are empty. In the mode FleetController Unready does not have a healthy
	// cluster on the wanted version that has another version staged: this counts as NotReady until
	// its partition is reached, but nothing is wrong with it.
	Unready   []Unready `json:"unready,omitempty"`
	Unmatched []ID      `json:"unmatched,omitempty"` // clusters in no partition, in cluster order
	// Warnings are in a fixed order: the gate, the limits of the strategy, the partitions, then
	// ignored fields. The mode FleetController has none, because Fleet's controller does not warn. A
	// host that wants them plans in the default mode as well.
	Warnings []Warning `json:"warnings,omitempty"`
	// Batch is the size of a batch. MaxPerStep is the largest number of releases in a step, or 0
	// for no limit.
	Batch      int `json:"batch"`
	MaxPerStep int `json:"maxPerStep,omitzero"`
}

// String describes the step as [Step.String] does, and then what is created and what else is staged
// in the mode FleetController, what is released, what waits, what else is NotReady, and each
// warning. Clusters that the same partition releases, and clusters that wait or
// are NotReady for the same reason, share a line, which shows the first of them and counts the
// others; the most frequent come first. Clusters of all partitions that are not reached wait for the
// same reason. Of many lines of a kind it shows the first ten and counts the rest. The text does not
// end with a newline.
func (r Result) String() string {
	lines := r.Controller.print([]string{r.Step.String()})
	var releases textlist.Likewise[Release, Release]
	for _, release := range r.Releases {
		releases.Add(Release{Partition: release.Partition, First: release.First}, release, "")
	}
	lines = releases.Lines(lines, "release: ", "and %d more, of %d other kinds")
	var waits textlist.Likewise[Verdict, Waiting]
	for _, w := range r.Waiting {
		key := w.Verdict
		if key.Reason != Threshold && key.Reason != Budget {
			key.Partition = 0
		}
		waits.Add(key, w, "")
	}
	lines = waits.Lines(lines, "waits: ", "and %d more, for %d other reasons")
	var unready textlist.Likewise[Why, Unready]
	released := r.Releases // in the same order
	for _, u := range r.Unready {
		for len(released) > 0 && released[0].Index < u.Index {
			released = released[1:]
		}
		if len(released) == 0 || released[0].Index != u.Index {
			unready.Add(u.Why, u, "")
		}
	}
	lines = unready.Lines(lines, "not ready: ", "and %d more, for %d other reasons")
	lines = textlist.Lines(lines, "warning: ", r.Warnings)
	return strings.Join(lines, "\n")
}

// print appends a line about what is created, and one about what else is staged.
func (c *Controller) print(lines []string) []string {
	if c == nil {
		return lines
	}
	var create, stage textlist.Likewise[struct{}, ID]
	created := map[ID]bool{}
	for _, id := range c.Created {
		created[id] = true
		create.Add(struct{}{}, id, "")
	}
	for _, id := range c.Staged {
		if !created[id] {
			stage.Add(struct{}{}, id, "")
		}
	}
	return stage.Lines(create.Lines(lines, "create: ", ""), "stage: ", "")
}

// String describes the step in a few lines: one for each partition, then the gate, in the mode
// FleetController how many of all targets are unavailable, and whether there is [Step.More]. The
// text does not end with a newline.
func (s Step) String() string {
	var lines []string
	for i := range s.Partitions {
		lines = append(lines, s.Partitions[i].String())
	}
	gate := "open"
	if s.ClosedBy >= 0 {
		gate = fmt.Sprintf("closed by partition %d", s.ClosedBy)
	}
	lines = append(lines, fmt.Sprintf("gate: %s, %d of at most %d partitions not ready", gate, s.NotReadyPartitions, s.MaxNotReadyPartitions))
	if c := s.Controller; c != nil {
		lines = append(lines, fmt.Sprintf("all targets: %d of at most %d unavailable", c.Unavailable, c.MaxUnavailable))
	}
	if s.More {
		lines = append(lines, "more: plan again at once, without waiting for an event")
	}
	return strings.Join(lines, "\n")
}

// String describes the partition in one line, which names the [Status.Blockers].
func (s Status) String() string {
	text := fmt.Sprintf("partition %d %q: %s, %d done, %d waiting, %d NotReady of at most %d",
		s.Index, s.Name, counted(s.Count, "member", "members"), s.Done, s.Waiting, s.NotReady, s.MaxUnavailable)
	if len(s.Blockers) > 0 {
		var names []string
		for _, id := range s.Blockers {
			names = append(names, id.String())
		}
		if s.NotReady > len(names) {
			names = append(names, "…")
		}
		text += " (" + strings.Join(names, ", ") + ")"
	}
	if s.Held > 0 {
		text += fmt.Sprintf(", %d held", s.Held)
	}
	if s.Released > 0 {
		text += fmt.Sprintf(", %d released", s.Released)
	}
	switch {
	case !s.Reached:
		text += ", not reached"
	case s.Ready:
		text += ", ready"
	default:
		text += ", not ready"
	}
	return text
}
