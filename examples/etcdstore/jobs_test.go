package etcdstore

import (
	"context"
	"errors"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/examples/internal/controller"
	"github.com/tranche-dev/tranche/rollout"
)

// hurried is a client on which something happens right before its next transaction that compares
// anything.
type hurried struct {
	clientv3.KV
	before func()
}

func (h *hurried) Txn(ctx context.Context) clientv3.Txn {
	return &hurriedTxn{Txn: h.KV.Txn(ctx), client: h}
}

type hurriedTxn struct {
	clientv3.Txn
	client   *hurried
	compares bool
}

func (h *hurriedTxn) If(compare ...clientv3.Cmp) clientv3.Txn {
	h.Txn, h.compares = h.Txn.If(compare...), true
	return h
}
func (h *hurriedTxn) Then(do ...clientv3.Op) clientv3.Txn { h.Txn = h.Txn.Then(do...); return h }
func (h *hurriedTxn) Else(do ...clientv3.Op) clientv3.Txn { h.Txn = h.Txn.Else(do...); return h }

func (h *hurriedTxn) Commit() (*clientv3.TxnResponse, error) {
	if before := h.client.before; h.compares && before != nil {
		h.client.before = nil
		before()
	}
	return h.Txn.Commit()
}

// TestDispatchComparesTheTarget: what comes to a target between the count of its jobs and the
// transaction that rests on it.
func TestDispatchComparesTheTarget(t *testing.T) {
	at := time.Date(2026, 3, 10, 9, 0, 0, 0, time.UTC)
	target, elsewhere := rollout.TargetID{Resource: "r", Environment: "prod", Deployment: "app"}, rollout.TargetID{Resource: "r", Environment: "prod", Deployment: "ap"}
	job := func(run string, target rollout.TargetID, status rollout.JobStatus) controller.Job {
		return controller.Job{TargetID: target, Job: rollout.Job{Run: run, Version: "v3", Status: status, CreatedAt: at}}
	}
	for _, row := range []struct {
		why    string
		before []controller.Job // put in this order
		comes  []controller.Job
		want   error
	}{
		{"nothing", nil, nil, nil},
		{"a job that has ended by then", nil, []controller.Job{job("1", target, rollout.JobSuccessful)}, ErrOvertaken},
		{"one that is still active", nil, []controller.Job{job("1", target, rollout.JobInProgress)}, ErrBusy},
		{"one on another target, whose name begins alike", nil, []controller.Job{job("1", elsewhere, rollout.JobSuccessful)}, nil},
		{"one that is moved there", []controller.Job{job("1", elsewhere, rollout.JobSuccessful)}, []controller.Job{job("1", target, rollout.JobSuccessful)}, ErrOvertaken},
	} {
		t.Run(row.why, func(t *testing.T) {
			client, prefix := connect(t, sharedMember(t)), space()
			other := NewJobs(NewStore(connect(t, sharedMember(t)), prefix, 0))
			put := func(jobs []controller.Job) {
				for _, job := range jobs {
					if err := other.Put(t.Context(), job); err != nil {
						t.Fatal(err)
					}
				}
			}
			put(row.before)
			seen := 0
			for _, job := range row.before {
				if job.TargetID == target {
					seen++
				}
			}
			slow := &hurried{KV: client.KV, before: func() { put(row.comes) }}
			client.KV = slow
			created, err := NewJobs(NewStore(client, prefix, 0)).Dispatch(t.Context(), rollout.Start{TargetID: target, Version: "v2", Run: "late", Group: "g"}, seen, at)
			if created != (row.want == nil) || !errors.Is(err, row.want) || (err == nil) != (row.want == nil) {
				t.Errorf("Dispatch: %v, %v, want %v", created, err, row.want)
			}
			if slow.before != nil {
				t.Error("nothing was compared")
			}
		})
	}
}

// TestReportOvertaken: a job ends by another report, and its target has the next job by then. What
// the first report would have written is compared with the job as it is now. Tempting and wrong: to
// take the next job, which is active, for the reason why nothing was written.
func TestReportOvertaken(t *testing.T) {
	at := time.Date(2026, 3, 10, 9, 0, 0, 0, time.UTC)
	target := rollout.TargetID{Resource: "r", Environment: "prod", Deployment: "app"}
	start := func(run string) rollout.Start {
		return rollout.Start{TargetID: target, Version: "v2", Run: run, Group: "g"}
	}
	ended := controller.NewJob(start("1"), at)
	ended.Status, ended.CompletedAt = rollout.JobSuccessful, at
	for _, row := range []struct {
		why  string
		do   func(*Jobs) error
		want error
	}{
		{"the same end again is nothing", func(j *Jobs) error { return j.Report(t.Context(), "1", rollout.JobSuccessful, at) }, nil},
		{"another end comes too late", func(j *Jobs) error { return j.Report(t.Context(), "1", rollout.JobFailure, at) }, bracket.ErrConflict},
		{"and so does news of its progress", func(j *Jobs) error { return j.Report(t.Context(), "1", rollout.JobInProgress, at) }, bracket.ErrConflict},
		{"a job that is put as ended is not active", func(j *Jobs) error { return j.Put(t.Context(), ended) }, nil},
		{"one that is put as active is", func(j *Jobs) error { return j.Put(t.Context(), controller.NewJob(start("1"), at)) }, ErrBusy},
	} {
		t.Run(row.why, func(t *testing.T) {
			client, prefix := connect(t, sharedMember(t)), space()
			other := NewJobs(NewStore(connect(t, sharedMember(t)), prefix, 0))
			if _, err := other.Dispatch(t.Context(), start("1"), 0, at); err != nil {
				t.Fatal(err)
			}
			slow := &hurried{KV: client.KV, before: func() {
				if err := other.Report(t.Context(), "1", rollout.JobSuccessful, at); err != nil {
					t.Fatal(err)
				}
				if created, err := other.Dispatch(t.Context(), start("2"), 1, at); err != nil || !created {
					t.Fatal(created, err)
				}
			}}
			client.KV = slow
			if err := row.do(NewJobs(NewStore(client, prefix, 0))); !errors.Is(err, row.want) || (err == nil) != (row.want == nil) {
				t.Errorf("%v, want %v", err, row.want)
			}
			if slow.before != nil {
				t.Error("nothing was compared")
			}
		})
	}
}
