package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/examples/controller/api/v1alpha1"
	"github.com/tranche-dev/tranche/rollout"
)

// NodeJobs is a [concurrency.JobCounter] of the jobs of a namespace, as the API server has them
// now. It is safe for concurrent use if its parts are.
//
// A lease is the planner's memory of what it started; a job is a machine that is being worked on.
// Where there is one without the other the job counts too: one that somebody created by hand or
// with another program, and one whose lease was lost with the planner's records.
//
//   - A job counts while its state is not terminal by [concurrency.Terminal]; one without a state
//     is queued.
//   - A job that no plan asked for has no turn. It counts in every pool of its machine.
//   - A job that a plan asked for counts in those of its machine's pools in which it claimed a
//     slot. The plan knew of the others that no rule of theirs governs the deployment: an agent
//     that is rolled out to all machines at once, under no limit, must not keep drains waiting.
//   - A job on a machine without pools counts nowhere, and so does one on a machine that is gone.
//
// What is counted was written before the call began, and is never older than any cache shows it. An
// old list would do harm: a job that ended since would pass for the holder of a slot, and holders
// are never refused.
type NodeJobs struct {
	reader    client.Reader
	namespace string
	pools     func(machine string) ([]string, error)
}

var _ concurrency.JobCounter = (*NodeJobs)(nil)

// NewNodeJobs returns the jobs of a namespace. The reader must ask the server and not a cache, as
// manager.Manager.GetAPIReader does. The function returns the keys of the pools that a machine is a
// member of, as [rollout.PolicySet.PoolKeys] does for one resource, and none for a machine that it
// does not know. It must answer alike for as long as the counter is used: pools whose members
// change between two machines never were.
func NewNodeJobs(reader client.Reader, namespace string, pools func(machine string) ([]string, error)) *NodeJobs {
	return &NodeJobs{reader: reader, namespace: namespace, pools: pools}
}

// Active implements [concurrency.JobCounter]. Each call costs one list of the jobs that have not
// ended, which must be the newest: the server may wait up to 0.1 s until its watch cache is.
func (j *NodeJobs) Active(ctx context.Context, pool string) ([]concurrency.Holder, error) {
	holders, err := j.count(ctx)
	return holders[pool], err
}

// PerPlan returns a counter for a planner that asks for every pool once in each of its attempts:
// one list answers for all of them, so that they are counted at one instant. When a pool is asked
// for again that is another attempt, whose records may be newer than the list; then there is
// another one.
func (j *NodeJobs) PerPlan() concurrency.JobCounter { return &perPlan{jobs: j} }

type perPlan struct {
	jobs *NodeJobs

	mu      sync.Mutex
	holders map[string][]concurrency.Holder // what was counted; nil: nothing yet
	asked   map[string]bool                 // the pools that it answered for
}

// Active implements [concurrency.JobCounter].
func (p *perPlan) Active(ctx context.Context, pool string) ([]concurrency.Holder, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.holders == nil || p.asked[pool] {
		p.holders = nil // what cannot be read again must not be answered from before
		holders, err := p.jobs.count(ctx)
		if err != nil {
			return nil, err
		}
		p.holders, p.asked = holders, map[string]bool{}
	}
	p.asked[pool] = true
	return slices.Clone(p.holders[pool]), nil
}

// count returns who holds what, by pool; an error if anything is missing.
func (j *NodeJobs) count(ctx context.Context) (map[string][]concurrency.Holder, error) {
	jobs, err := j.active(ctx)
	if err != nil {
		if done := ctx.Err(); done != nil && !errors.Is(err, done) {
			err = fmt.Errorf("%w (%v)", done, err) // the client has several ways to say it
		}
		return nil, fmt.Errorf("controller: count the active jobs of namespace %s: %w", j.namespace, err)
	}
	holders, member := map[string][]concurrency.Holder{}, map[string][]string{}
	for i := range jobs {
		spec := &jobs[i].Spec
		pools, known := member[spec.Machine]
		if !known {
			if pools, err = j.pools(spec.Machine); err != nil {
				return nil, fmt.Errorf("controller: the pools of machine %s, on which job %s is active: %w", spec.Machine, jobs[i].Name, err)
			}
			member[spec.Machine] = pools
		}
		for _, pool := range pools {
			if spec.Turn == 0 || slices.ContainsFunc(spec.Claims, func(claim v1alpha1.Claim) bool { return claim.Pool == pool }) {
				holders[pool] = append(holders[pool], concurrency.Holder{Resource: spec.Machine, Group: spec.Group})
			}
		}
	}
	for pool, list := range holders {
		slices.SortFunc(list, func(a, b concurrency.Holder) int {
			return cmp.Or(cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Group, b.Group))
		})
		holders[pool] = slices.Compact(list)
	}
	return holders, nil
}

// active lists the jobs that have not ended, all of one revision of the server. If the server
// forgets that revision between two pages everything is read again. It then offers to go on with
// the newest revision instead, which is refused: a job that began meanwhile in the pages that were
// read would be missed.
func (j *NodeJobs) active(ctx context.Context) (jobs []v1alpha1.NodeJob, err error) {
	for range attempts {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if jobs, err = j.pages(ctx); !apierrors.IsResourceExpired(err) {
			break
		}
	}
	switch {
	case apierrors.IsBadRequest(err):
		return nil, fmt.Errorf("the server does not select jobs by %s; are its definitions older than this controller, see Install: %w", fieldState, err)
	case err != nil:
		return nil, err
	}
	return jobs, nil
}

func (j *NodeJobs) pages(ctx context.Context) ([]v1alpha1.NodeJob, error) {
	options := client.ListOptions{Namespace: j.namespace, FieldSelector: notEnded(), Limit: pageSize} // no resourceVersion: the newest
	var jobs []v1alpha1.NodeJob
	for {
		var page v1alpha1.NodeJobList
		if err := j.reader.List(ctx, &page, &options); err != nil {
			return nil, err
		}
		for i := range page.Items {
			if job := &page.Items[i]; !concurrency.Terminal(string(job.Status.State)) {
				jobs = append(jobs, *job)
			}
		}
		if page.Continue == "" {
			return jobs, nil
		}
		options.Continue = page.Continue // it holds the revision
	}
}

// fieldState is the field by which the server selects jobs.
const fieldState = "status.state"

// ended are the terminal states. They spare the server the sending of what is kept for its history;
// whether a job counts is for [concurrency.Terminal] to say.
var ended = [...]rollout.JobStatus{
	rollout.JobSuccessful, rollout.JobFailure, rollout.JobCancelled, rollout.JobSkipped,
	rollout.JobInvalidAgent, rollout.JobInvalidIntegration, rollout.JobExternalRunNotFound,
}

// notEnded selects the jobs whose state is none of those; a job without a state is among them.
func notEnded() fields.Selector {
	var all []fields.Selector
	for _, state := range ended {
		all = append(all, fields.OneTermNotEqualSelector(fieldState, string(state)))
	}
	return fields.AndSelectors(all...)
}
