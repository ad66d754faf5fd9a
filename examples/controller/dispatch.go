package controller

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/examples/controller/api/v1alpha1"
	"github.com/tranche-dev/tranche/rollout"
)

// errOvertaken is returned for a start that was planned before another job was dispatched on its
// target, its slot was given back, or its bracket gave it up: it must be planned again.
var errOvertaken = errors.New("controller: another job was dispatched on the target since the plan was made, or the start was given up")

// Labels of a NodeJob, for people; omitted where a value is no valid label.
const (
	labelMachine    = "rollout.tranche.dev/machine"
	labelDeployment = "rollout.tranche.dev/deployment"
)

// dispatcher creates jobs. A server for custom resources has no transactions, so two things make a
// job exist once and at most one be active on a target:
//
//  1. The job's name is made of its run id. Whoever offers the same run meets the job that exists.
//  2. A record per target holds its last job, with a number, the turn. It is compared and swapped
//     before the job is created, and only by who has seen the job of the turn before. A controller
//     that slept with an old plan in hand, or saw an old cache, comes too late.
//
// Whoever finds a record without its job creates the job: the record's writer died in between, or
// sleeps, and will find it done.
//
// The record also says which slots of the target were given back, see orphan.go, and which runs
// were given up by their bracket, see fence.go. A start that claims one of these slots, or is one of
// these runs, comes too late as well.
type dispatcher struct {
	store  *Store
	writer client.Writer
}

// targetRecord is the record of a target: its last job, if it has had one, and what must not be
// dispatched any more. Without a job it may have a turn and an instant all the same, see revoke.
type targetRecord struct {
	v1alpha1.NodeJobSpec

	// Released is by pool the token of the last lease that was given back of the target outside
	// brackets. Nothing is dispatched any more under that lease, nor under an earlier one.
	Released map[string]uint64 `json:"released,omitempty"`

	// Revoked are the runs that their brackets have given up since the last job, and that must not
	// get one. Once the target has had another turn they come too late by themselves.
	Revoked []string `json:"revoked,omitempty"`
}

// released reports whether a lease that the target had outside brackets was given back.
func (t *targetRecord) released(pool string, token uint64) bool { return token <= t.Released[pool] }

// targetKeys is the prefix of the keys of all targets' records.
const targetKeys = "target/"

// targetKey is the store key of a target's record.
func targetKey(id rollout.TargetID) string {
	return targetKeys + id.Key()
}

// dispatch creates the job of a start, once. seen is the last turn of which the plan saw the job.
// It reports whether this call created the job. An error other than [errOvertaken] leaves the
// outcome open; dispatching again is harmless.
func (d *dispatcher) dispatch(ctx context.Context, start rollout.Start, seen int64, at time.Time) (bool, error) {
	key := targetKey(start.TargetID)
	last, revision, err := d.last(ctx, key)
	switch {
	case err != nil:
		return false, err
	case last.Run == start.Run:
		return d.create(ctx, last.NodeJobSpec)
	case last.Turn > seen:
		if last.Run != "" {
			if _, err := d.create(ctx, last.NodeJobSpec); err != nil {
				return false, err
			}
		}
		return false, fmt.Errorf("%w: run %s, by run %s", errOvertaken, start.Run, last.Run)
	}
	if err := d.refuse(ctx, last, start); err != nil {
		return false, err
	}
	if !at.After(last.CreatedAt) { // the clock was set back, or another controller's runs ahead: the last job would pass for the newest
		at = last.CreatedAt.Add(1)
	}
	spec := v1alpha1.NodeJobSpec{
		Run: start.Run, Machine: start.Resource, Environment: start.Environment, Deployment: start.Deployment, Version: start.Version,
		Purpose: start.Purpose, Group: start.Group, Turn: seen + 1, CreatedAt: at.UTC(),
	}
	for _, claim := range start.Claims {
		if claim.Token > math.MaxInt64 {
			return false, fmt.Errorf("controller: run %s: pool %s: token %d: an API server knows no numbers that great", start.Run, claim.Pool, claim.Token)
		}
		spec.Claims = append(spec.Claims, v1alpha1.Claim{Pool: claim.Pool, Token: int64(claim.Token)})
	}
	record, err := json.Marshal(targetRecord{NodeJobSpec: spec, Released: last.Released})
	if err != nil {
		return false, err
	}
	if _, err := d.store.Save(ctx, key, record, revision); errors.Is(err, bracket.ErrConflict) {
		return false, fmt.Errorf("%w: run %s", errOvertaken, start.Run)
	} else if err != nil {
		return false, err
	}
	return d.create(ctx, spec)
}

// refuse returns [errOvertaken] for a run of a bracket that was given up, and for a start outside
// brackets if a lease that it claims was given back. It takes that lease out of its pool first, if
// whoever gave it back died before that: as long as the target holds it, every plan offers the start
// with the same token.
func (d *dispatcher) refuse(ctx context.Context, last targetRecord, start rollout.Start) error {
	holder := concurrency.Holder{Resource: start.Resource, Group: start.Group}
	if _, outside := rollout.TargetOf(holder); !outside { // the slots of a bracket are others
		if !slices.Contains(last.Revoked, start.Run) {
			return nil
		}
		if standing, err := d.takeBack(ctx, start); err != nil || standing {
			return err
		}
		return fmt.Errorf("%w: run %s", errOvertaken, start.Run)
	}
	var refused error
	for _, claim := range start.Claims {
		if !last.released(claim.Pool, claim.Token) {
			continue
		}
		refused = fmt.Errorf("%w: run %s, pool %s, token %d", errOvertaken, start.Run, claim.Pool, claim.Token)
		// After a conflict the next plan comes here again.
		if _, err := d.free(ctx, claim.Pool, holder, claim.Token); err != nil && !errors.Is(err, bracket.ErrConflict) {
			return err
		}
	}
	return refused
}

// last returns the record of a target and its revision. A target that never had a job has turn 0.
func (d *dispatcher) last(ctx context.Context, key string) (record targetRecord, revision int64, err error) {
	value, revision, err := d.store.Load(ctx, key)
	switch {
	case errors.Is(err, bracket.ErrNotFound):
		return record, 0, nil
	case err != nil:
		return record, 0, err
	}
	if record, err = decodeTarget(key, value); err != nil {
		return record, 0, err
	}
	return record, revision, nil
}

func decodeTarget(key string, value []byte) (record targetRecord, err error) {
	decoder := json.NewDecoder(bytes.NewReader(value))
	decoder.DisallowUnknownFields() // what a newer controller wrote must not be lost
	if err := decoder.Decode(&record); err != nil {
		return record, fmt.Errorf("controller: record %s: %w", key, err)
	}
	return record, nil
}

// create creates a job unless it exists, and reports whether it did.
func (d *dispatcher) create(ctx context.Context, spec v1alpha1.NodeJobSpec) (bool, error) {
	job := &v1alpha1.NodeJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: d.store.namespace, Name: name(spec.Run), Labels: map[string]string{}},
		Spec:       spec,
	}
	for label, value := range map[string]string{labelMachine: spec.Machine, labelDeployment: spec.Deployment} {
		if len(validation.IsValidLabelValue(value)) == 0 {
			job.Labels[label] = value
		}
	}
	switch err := d.writer.Create(ctx, job); {
	case apierrors.IsAlreadyExists(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("controller: create the job of run %s: %w", spec.Run, err)
	}
	return true, nil
}

// denied reports whether a server that is well has refused this one object, as a webhook or a quota
// does: it may accept the next one. Of a server that does not answer, or is too busy, nothing more
// is asked. A target whose names are too long for a record is one such object.
func denied(err error) bool {
	if errors.Is(err, errKey) {
		return true
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	code := status.Status().Code
	return code >= http.StatusBadRequest && code < http.StatusInternalServerError && code != http.StatusUnauthorized && code != http.StatusTooManyRequests
}
