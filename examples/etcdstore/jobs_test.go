package etcdstore

import (
	"context"
	"errors"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

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
		{"a job that has ended by then", nil, []controller.Job{job("1", target, rollout.JobSuccessful)}, controller.ErrOvertaken},
		{"one that is still active", nil, []controller.Job{job("1", target, rollout.JobInProgress)}, controller.ErrBusy},
		{"one on another target, whose name begins alike", nil, []controller.Job{job("1", elsewhere, rollout.JobSuccessful)}, nil},
		{"one that is moved there", []controller.Job{job("1", elsewhere, rollout.JobSuccessful)}, []controller.Job{job("1", target, rollout.JobSuccessful)}, controller.ErrOvertaken},
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
