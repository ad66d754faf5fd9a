package rollout

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestHistory: whatever the order in which a host lists the jobs of a target, its history has them
// newest first, and only jobs that are in no order are copied, or not in that of a rule of the host.
func TestHistory(t *testing.T) {
	t.Parallel()
	seen := map[jobOrder]int{}
	rapid.Check(t, func(t *rapid.T) {
		listed := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Job {
			return Job{
				Run: rapid.SampledFrom([]string{"", "r/e/d/v1/1", "r/e/d/v1/2", "r/e/d/v1/10"}).Draw(t, "run"), Version: rapid.SampledFrom([]string{"v1", "v2"}).Draw(t, "version"),
				Status: rapid.SampledFrom([]JobStatus{JobSuccessful, JobFailure, JobInProgress}).Draw(t, "status"), CreatedAt: time.Unix(rapid.Int64Range(0, 3).Draw(t, "created"), 0),
			}
		}), 0, 5).Draw(t, "jobs")
		want := slices.Clone(listed)
		slices.SortStableFunc(want, func(a, b Job) int { return newer(&a, &b) })
		switch rapid.IntRange(0, 3).Draw(t, "order") {
		case 0:
			listed = slices.Clone(want)
		case 1:
			listed = slices.Clone(want)
			slices.Reverse(listed)
		}
		order := noJobs
		if len(listed) > 0 {
			order = listingOf(listed)
		}
		seen[order]++
		host := &Target{Jobs: listed}
		own := target{Target: host}
		x := index{versions: make([]versionList, 1), ordered: rapid.Bool().Draw(t, "newest first")}
		x.observe(&own)
		if copied := own.Target != host; copied != (order == noOrder || order == oldestFirst && x.ordered) {
			t.Fatalf("copied: %v, listed in the order %d", copied, order)
		}
		if own.worked() != (len(want) > 0) {
			t.Fatalf("worked: %v with %d jobs", own.worked(), len(want))
		}
		told := func(jobs history) (list []Job) {
			for k := range jobs.len() {
				list = append(list, *jobs.at(k))
			}
			return list
		}
		jobs := own.history()
		if diff := cmp.Diff(want, append([]Job{}, told(jobs)...)); diff != "" {
			t.Fatal(diff)
		}
		if diff := cmp.Diff(want, append([]Job{}, own.Jobs...)); x.ordered && diff != "" {
			t.Fatal(diff)
		}
		n := rapid.IntRange(0, len(want)).Draw(t, "n")
		if diff := cmp.Diff(want[:n], append([]Job{}, told(jobs.newest(n))...)); diff != "" {
			t.Fatal(diff)
		}
		for status, newest := range map[JobStatus]*Job{JobSuccessful: jobs.newestSuccess(), JobInProgress: jobs.newestActive()} {
			k := slices.IndexFunc(want, func(job Job) bool { return job.Status == status })
			if k < 0 != (newest == nil) || k >= 0 && !cmp.Equal(*newest, want[k]) {
				t.Fatalf("newest %s: %v, want that at %d of %v", status, newest, k, want)
			}
		}
	})
	for _, order := range []jobOrder{noJobs, newestFirst, oldestFirst, noOrder} {
		if seen[order] == 0 {
			t.Errorf("the order %d was not met", order)
		}
	}
}

// TestUnsetEndsAreAlike: of jobs of one instant that a host does not tell apart, the order does not
// depend on how it writes that their end is unknown. (Found by TestI1OrderOfInput, -rapid.seed=262626:
// a version was over its failure budget or not, as the zones had it.)
func TestUnsetEndsAreAlike(t *testing.T) {
	t.Parallel()
	passed := Job{Version: "v1", Status: JobSuccessful, CreatedAt: time.Unix(0, 0), Verification: VerificationPassed}
	failed := Job{Version: "v1", Status: JobSuccessful, CreatedAt: time.Unix(0, 0), Verification: VerificationFailed}
	for _, unset := range []time.Time{{}, time.Time{}.Add(-time.Hour), time.Time{}.In(time.FixedZone("", 3600))} {
		for _, other := range []time.Time{{}, time.Time{}.Add(-2 * time.Hour)} {
			passed.CompletedAt, failed.CompletedAt = unset, other
			if newer(&passed, &failed) >= 0 || newer(&failed, &passed) <= 0 {
				t.Errorf("with the ends %v and %v the job that passed is not the newer one", unset, other)
			}
		}
	}
	passed.CompletedAt, failed.CompletedAt = time.Unix(1, 0), time.Unix(2, 0)
	if newer(&failed, &passed) >= 0 {
		t.Error("what ended later is not the newer one")
	}
}
