//go:build unix

package controllertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/examples/internal/controller"
	"github.com/tranche-dev/tranche/rollout"
)

func checkJobs(t *testing.T, d Driver) {
	ctx, jobs := t.Context(), d.fresh(t).Jobs
	at := time.Date(2026, 3, 10, 9, 0, 0, 123456789, time.UTC)
	long := strings.Repeat("x", 200)
	want := []controller.Job{
		{TargetID: rollout.TargetID{Resource: "a/b%c", Environment: "prod", Deployment: "api"}, Group: "g 1",
			Job: rollout.Job{Run: "1/ä %2F", Version: "v1", Status: rollout.JobSuccessful, CreatedAt: at, CompletedAt: at.Add(time.Nanosecond)}},
		{TargetID: rollout.TargetID{Resource: "by hand"}, Job: rollout.Job{Run: "2", Status: "a status of tomorrow"}},
		{TargetID: rollout.TargetID{Resource: long, Environment: long, Deployment: long}, Group: long, Job: rollout.Job{Run: "3" + long, Version: long, Status: rollout.JobQueued, CreatedAt: at}},
	}
	for _, i := range []int{2, 0, 1} {
		if err := jobs.Put(ctx, want[i]); err != nil {
			t.Fatal(err)
		}
	}
	all := func() []controller.Job {
		t.Helper()
		got, err := jobs.All(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := all(); !reflect.DeepEqual(got, want) {
		t.Errorf("All:\n%+v\nwant\n%+v", got, want)
	}
	for _, row := range []struct {
		why    string
		run    string
		status rollout.JobStatus
		want   error
	}{
		{"an unknown run is not found", "4", rollout.JobSuccessful, bracket.ErrNotFound},
		{"the first end counts", "1/ä %2F", rollout.JobFailure, bracket.ErrConflict},
		{"a repeated report is nothing", "1/ä %2F", rollout.JobSuccessful, nil},
		{"a job that began is still active", "3" + long, rollout.JobInProgress, nil},
		{"a job ends", "3" + long, rollout.JobFailure, nil},
	} {
		if err := jobs.Report(ctx, row.run, row.status, at.Add(time.Hour)); !errors.Is(err, row.want) || (err == nil) != (row.want == nil) {
			t.Errorf("%s: Report: %v, want %v", row.why, err, row.want)
		}
	}
	want[2].Status, want[2].CompletedAt = rollout.JobFailure, at.Add(time.Hour)
	if got := all(); !reflect.DeepEqual(got, want) {
		t.Errorf("after the reports:\n%+v\nwant\n%+v", got, want)
	}
	for _, wrong := range []controller.Job{
		{TargetID: rollout.TargetID{Resource: "r"}}, {Job: rollout.Job{Run: "r"}},
		// JSON would make one name of the two, which is another one.
		{TargetID: rollout.TargetID{Resource: "r\xfe"}, Job: rollout.Job{Run: "5"}}, {TargetID: rollout.TargetID{Resource: "r"}, Job: rollout.Job{Run: "5\xfe"}},
		{TargetID: rollout.TargetID{Resource: "r"}, Job: rollout.Job{Run: "5"}, Group: "g\xfe"},
		// 64 bits of nanoseconds would make another instant of it.
		{TargetID: rollout.TargetID{Resource: "r"}, Job: rollout.Job{Run: "5", CreatedAt: at, CompletedAt: at.AddDate(300, 0, 0)}},
	} {
		if err := jobs.Put(ctx, wrong); err == nil {
			t.Errorf("%+v is stored", wrong)
		}
	}
	if err := jobs.SetPool(ctx, "p", []string{"r\xfe"}); err == nil {
		t.Error("a member that is not UTF-8 is stored")
	}
	if err := jobs.Report(ctx, "2", rollout.JobFailure, at.AddDate(300, 0, 0)); err == nil {
		t.Error("an end in three hundred years is stored")
	}
	if err := jobs.Report(ctx, "2", "a status\xfe", at); err == nil {
		t.Error("a status that is not UTF-8 is stored")
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	_, err := jobs.All(cancelled)
	_, dispatched := jobs.Dispatch(cancelled, rollout.Start{TargetID: want[0].TargetID, Run: "9"}, 0, at)
	for _, err := range []error{err, dispatched, jobs.Put(cancelled, want[0]), jobs.Report(cancelled, "2", rollout.JobFailure, at), jobs.SetPool(cancelled, "p", nil)} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("with a cancelled context: %v", err)
		}
	}
	if got := all(); !reflect.DeepEqual(got, want) {
		t.Errorf("after what was refused:\n%+v\nwant\n%+v", got, want)
	}
}

func checkDispatch(t *testing.T, d Driver) {
	ctx, db := t.Context(), d.fresh(t)
	at := epoch()
	holder := concurrency.Holder{Resource: "n1", Group: "g"}
	save := func(pool string, revision int64, leases ...concurrency.Lease) int64 {
		t.Helper()
		record := concurrency.NewRecord(pool)
		record.NextToken = 10
		record.Leases = append(record.Leases, leases...)
		value, err := json.Marshal(record)
		if err != nil {
			t.Fatal(err)
		}
		next, err := db.Store.Save(ctx, rollout.PoolRecordKey(pool), value, revision)
		if err != nil {
			t.Fatal(err)
		}
		return next
	}
	leaseIn := func(pool string, token uint64) concurrency.Lease {
		return concurrency.Lease{Pool: pool, Holder: holder, Token: token, State: concurrency.Active, Since: at, ProgressAt: at}
	}
	const cluster, zone = "cluster/%", "zone"
	save(cluster, 0, leaseIn(cluster, 4))
	inZone := save(zone, 0, leaseIn(zone, 7))
	start := func(run, deployment string, tokens ...uint64) rollout.Start {
		s := rollout.Start{TargetID: rollout.TargetID{Resource: "n1", Environment: "prod", Deployment: deployment}, Version: "v1", Run: run, Group: "g"}
		for i, pool := range []string{zone, cluster}[:len(tokens)] {
			s.Claims = append(s.Claims, rollout.Claim{Pool: pool, Token: tokens[i]})
		}
		return s
	}
	expect := func(why string, s rollout.Start, seen int, created bool, want error) {
		t.Helper()
		got, err := db.Jobs.Dispatch(ctx, s, seen, at)
		if got != created || !errors.Is(err, want) || (err == nil) != (want == nil) {
			t.Errorf("%s: Dispatch: %v, %v, want %v, %v", why, got, err, created, want)
		}
	}
	expect("an old token", start("1", "api", 6, 4), 0, false, concurrency.ErrFenced)
	expect("one of two tokens is old", start("1", "api", 7, 3), 0, false, concurrency.ErrFenced)
	expect("nothing was created", start("1", "api", 7, 4), 0, true, nil)
	expect("again", start("1", "api", 7, 4), 0, false, nil)
	expect("another job is active", start("2", "api", 7, 4), 1, false, controller.ErrBusy)
	expect("one that was not seen: that it is active says more", start("2", "api", 7, 4), 0, false, controller.ErrBusy)
	expect("on another target it is not", start("3", "web", 7, 4), 0, true, nil)
	expect("no claims: no limit governs it", start("4", "free"), 0, true, nil)
	if err := db.Jobs.Put(ctx, controller.NewJob(start("5", "api"), at)); !errors.Is(err, controller.ErrBusy) {
		t.Errorf("a second active job on a target: %v", err)
	}
	if err := db.Jobs.Report(ctx, "1", rollout.JobSuccessful, at); err != nil {
		t.Fatal(err)
	}
	expect("a job has come and gone", start("2", "api", 7, 4), 0, false, controller.ErrOvertaken)
	expect("a lost slot says more", start("2", "api", 6, 4), 0, false, concurrency.ErrFenced)
	expect("the target is free", start("2", "api", 7, 4), 1, true, nil)
	if err := db.Jobs.Report(ctx, "2", rollout.JobSuccessful, at); err != nil {
		t.Fatal(err)
	}
	expect("a job that exists is there, whatever was seen", start("2", "api", 7, 4), 0, false, nil)
	expect("also for the one before", start("1", "api", 7, 4), 0, false, nil)
	expect("one of two jobs was seen", start("6", "api", 7, 4), 1, false, controller.ErrOvertaken)
	expect("a target whose name begins like that of another one", start("8", "ap"), 0, true, nil)
	expect("or goes on like it", start("9", "api/1"), 0, true, nil)
	put := func(run, deployment string, status rollout.JobStatus) {
		t.Helper()
		job := controller.NewJob(start(run, deployment), at)
		if job.Status = status; status.Terminal() {
			job.CompletedAt = at
		}
		if err := db.Jobs.Put(ctx, job); err != nil {
			t.Fatal(err)
		}
	}
	put("10", "db", rollout.JobFailure)
	expect("a job that was put there, and had ended", start("11", "db"), 0, false, controller.ErrOvertaken)
	put("10", "db", rollout.JobSuccessful)
	expect("put again it is still one", start("11", "db"), 0, false, controller.ErrOvertaken)
	put("10", "cache", rollout.JobSuccessful)
	expect("it is moved to another target, and no longer here", start("11", "db"), 0, true, nil)
	expect("but there", start("12", "cache"), 0, false, controller.ErrOvertaken)
	expect("who has seen more than there is has seen it all", start("12", "cache"), 2, true, nil)
	put("13", "", rollout.JobSuccessful)
	expect("a job without a deployment is on no target", start("14", ""), 0, true, nil)
	save(zone, inZone)
	expect("the lease was given back", start("6", "api", 7, 4), 2, false, concurrency.ErrFenced)
	expect("also for a job that exists: whoever asks has lost the slot", start("2", "api", 7, 4), 2, false, concurrency.ErrFenced)
	unknown := start("7", "api", 1)
	unknown.Claims[0].Pool = "never heard of"
	expect("a pool without a record", unknown, 2, false, concurrency.ErrFenced)
	if _, err := db.Jobs.Dispatch(ctx, rollout.Start{}, 0, at); err == nil {
		t.Error("a start without names creates a job")
	}
}

func checkForeign(t *testing.T, d Driver) {
	w := newWorld(t, d.fresh(t), 4)
	w.clock.Advance(2 * time.Minute)
	for i, status := range []rollout.JobStatus{"by hand", "successful", "by hand"} {
		err := w.db.Jobs.Put(t.Context(), controller.Job{TargetID: rollout.TargetID{Resource: fmt.Sprint("node-", i)}, Job: rollout.Job{Run: fmt.Sprint(i), Status: status}, Group: "by hand"})
		if err != nil {
			t.Fatal(err)
		}
	}
	turn := w.turn(w.controller(nil))
	for _, run := range turn.Dispatched {
		if !strings.Contains(run, "node-0/") && !strings.Contains(run, "node-2/") {
			t.Errorf("%s starts while two nodes are down by hand", run)
		}
	}
	if len(turn.Dispatched) == 0 {
		t.Error("nodes that are down already may be repaired")
	}
}
