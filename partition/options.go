package partition

import (
	"strconv"

	"github.com/tranche-dev/tranche/internal/strictjson"
)

// DisplayNameLabel is the label in which Rancher keeps the display name of a cluster. See
// [Options.DisplayNameLabel].
const DisplayNameLabel = "management.cattle.io/cluster-display-name"

// Options are what fleet.yaml cannot express. The zero value is the default mode with what Fleet
// documents. The mode [FleetController] ignores all other options, but they must be valid.
type Options struct {
	Mode      Mode      `json:"mode,omitzero"`
	Leftovers Leftovers `json:"leftovers,omitzero"` // what happens to clusters in no manual partition
	Paused    Paused    `json:"paused,omitzero"`    // what a paused cluster counts as
	Offline   Offline   `json:"offline,omitzero"`   // what an offline cluster counts as
	Releases  Releases  `json:"releases,omitzero"`  // what limits the update of healthy clusters
	// MaxPerStep is the largest number of releases in one step, over all partitions. It must be at
	// least 1. Nil means no such limit.
	MaxPerStep *int `json:"maxPerStep,omitempty"`
	// DisplayNameLabel is the label whose value a partition's clusterName is compared with, besides
	// the name of the cluster. Nil means the constant [DisplayNameLabel]; the empty string means no
	// label.
	DisplayNameLabel *string `json:"displayNameLabel,omitempty"`
}

// Mode says whose decisions a plan follows.
type Mode string

// The values of Mode; the empty one means Default.
const (
	Default         Mode = "default"          // what Fleet's documentation promises
	FleetController Mode = "fleet_controller" // what Fleet's controller does, oddities included
)

// Leftovers says what happens to clusters in no manual partition.
type Leftovers string

// The values of Leftovers; the empty one means ExcludeLeftovers.
const (
	ExcludeLeftovers Leftovers = "exclude" // they are never released, and are listed as unmatched
	AppendLeftovers  Leftovers = "append"  // they are cut, from their own number, into automatic partitions after the manual ones
)

// Paused says what a paused cluster counts as. A paused cluster is never released.
type Paused string

// The values of Paused; the empty one means SkipPaused.
const (
	// SkipPaused means that it does not count. A partition whose members are all held is passed at
	// once, as an empty one is: canaries that are paused hold back nobody, and prove nothing.
	SkipPaused Paused = "skip"
	// BlockPaused means that it counts as NotReady until it has the wanted version.
	BlockPaused Paused = "block"
)

// Offline says what an offline cluster counts as.
type Offline string

// The values of Offline; the empty one means CountOffline.
const (
	CountOffline Offline = "count" // it counts as NotReady, unless it was never released
	// ExcludeOffline means that it is held, like a paused one, also after its release: so a version
	// that takes its clusters offline goes from the canaries to everybody.
	ExcludeOffline Offline = "exclude"
)

// Releases says what limits the update of healthy clusters.
type Releases string

// The values of Releases; the empty one means ByBatch.
const (
	ByBatch  Releases = "batch"  // only the batch
	ByBudget Releases = "budget" // also what maxUnavailable leaves, but at least one cluster if no member is NotReady
)

// UnmarshalJSON reads the options as strictly as a strategy: an unknown field is an error, because
// a misspelt limit must not become no limit. All faults are reported, joined, each a *[FieldError],
// and the options are then unchanged. [Options.Validate] checks whether a field accepts its value.
func (o *Options) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		return nil
	}
	type plain Options
	return fieldErrors(strictjson.Unmarshal(data, (*plain)(o)))
}

// Validate reports every fault, joined, each a *[FieldError].
func (o Options) Validate() error {
	var faults []error
	oneOf := func(path, got, zero, other string) {
		if got != "" && got != zero && got != other {
			faults = append(faults, &FieldError{Code: CodeValue, Path: path, Value: strconv.Quote(got),
				Hint: "must be " + strictjson.Choice(zero, other)})
		}
	}
	oneOf("mode", string(o.Mode), string(Default), string(FleetController))
	oneOf("leftovers", string(o.Leftovers), string(ExcludeLeftovers), string(AppendLeftovers))
	oneOf("paused", string(o.Paused), string(SkipPaused), string(BlockPaused))
	oneOf("offline", string(o.Offline), string(CountOffline), string(ExcludeOffline))
	oneOf("releases", string(o.Releases), string(ByBatch), string(ByBudget))
	if o.MaxPerStep != nil && *o.MaxPerStep < 1 {
		faults = append(faults, &FieldError{Code: CodeValue, Path: "maxPerStep", Value: strconv.Itoa(*o.MaxPerStep),
			Hint: "must be at least 1; leave it out for no limit"})
	}
	return strictjson.Join(faults...)
}

// or returns what is given, or the other value if nothing is.
func or[T any](given *T, otherwise T) T {
	if given == nil {
		return otherwise
	}
	return *given
}
