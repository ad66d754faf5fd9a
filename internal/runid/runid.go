// Package runid is the form of the texts that identify runs outside brackets and the groups that
// hold slots for them. Package rollout writes them, and package rollouttest reads them where
// nothing but a job is left of a start. Runs of brackets are written by package bracket, see its
// Run.
package runid

import (
	"cmp"
	"math"
	"strconv"
	"strings"

	"github.com/tranche-dev/tranche/internal/textkey"
)

// Reserved is the first part of the group of a target outside brackets. The group of a bracket
// begins with the id of its rule instead.
const Reserved = "target"

// back is the end of the id of a run that takes a target back, in brackets and outside.
const back = "/rollback"

// Group returns the group that, with the resource, holds the slots of a target outside brackets.
func Group(environment, deployment string) string {
	return textkey.Join(Reserved, environment, deployment)
}

// Target is a target with a version.
type Target struct{ Resource, Environment, Deployment, Version string }

// Join returns the id of a run outside brackets. Attempts count from 1.
func (t Target) Join(texts *textkey.Joiner, attempt int, rollback bool) string {
	run := texts.Join(t.Resource, t.Environment, t.Deployment, t.Version, strconv.Itoa(attempt))
	if rollback {
		run += back
	}
	return run
}

// Attempt returns the number of the attempt in the id of a run of the version on the target; 0 if
// it is no such id, or a number that an attempt after it cannot follow. The first attempt is 0 too:
// that is no more than there are jobs.
func (t Target) Attempt(run string) int32 {
	run = strings.TrimSuffix(run, back)
	slash := strings.LastIndexByte(run, '/')
	number, ok := textkey.Number(run[slash+1:])
	if !ok || number < 2 || number == math.MaxInt32 {
		return 0
	}
	if run[:slash+1] != textkey.Join(t.Resource, t.Environment, t.Deployment, t.Version)+"/" {
		return 0
	}
	return int32(number)
}

// IsRollback reports whether a run takes its target back, in a bracket or outside.
func IsRollback(run string) bool { return strings.HasSuffix(run, back) }

// Compare orders runs by their ids, byte-wise, but with the numbers in them as numbers: the tenth
// attempt comes behind the ninth, and so do the tenth generation and the tenth group.
func Compare(a, b string) int {
	restA, restB := a, b
	for restA != "" && restB != "" {
		digitsA, digitsB := digits(restA), digits(restB)
		if digitsA == 0 || digitsB == 0 {
			if restA[0] != restB[0] {
				return cmp.Compare(restA[0], restB[0])
			}
			restA, restB = restA[1:], restB[1:]
			continue
		}
		x, y := strings.TrimLeft(restA[:digitsA], "0"), strings.TrimLeft(restB[:digitsB], "0")
		if c := cmp.Or(cmp.Compare(len(x), len(y)), strings.Compare(x, y)); c != 0 {
			return c
		}
		restA, restB = restA[digitsA:], restB[digitsB:]
	}
	return cmp.Or(cmp.Compare(len(restA), len(restB)), strings.Compare(a, b)) // numbers may begin with zeros
}

// digits returns the number of digits that a text begins with.
func digits(text string) int {
	n := 0
	for n < len(text) && '0' <= text[n] && text[n] <= '9' {
		n++
	}
	return n
}

// GroupOf returns the group for which a run of the version on the target holds its slots, in a
// bracket or outside. It is empty if the id is none that a plan gives to such a run.
func (t Target) GroupOf(run string) string {
	if attempt, own := strings.CutPrefix(strings.TrimSuffix(run, back), textkey.Join(t.Resource, t.Environment, t.Deployment, t.Version)+"/"); own && isNumber(attempt) {
		return Group(t.Environment, t.Deployment)
	}
	var group, resource, deployment, generation, attempt, purpose string
	if textkey.Scan(run, &group, &resource, &deployment, &generation, &attempt, &purpose) &&
		resource == t.Resource && deployment == t.Deployment && isNumber(generation) && isNumber(attempt) {
		return group
	}
	return ""
}

func isNumber(text string) bool {
	_, ok := textkey.Number(text)
	return ok
}
