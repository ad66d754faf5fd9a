package rollout

import (
	"cmp"
	"sort"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/internal/instant"
	"github.com/tranche-dev/tranche/internal/runid"
)

// history is the jobs of a target, the newest first. Many hosts list the oldest first: their jobs
// are large, and read from the end instead of being copied.
type history struct {
	listed    []Job
	backwards bool // the oldest is listed first
}

// history returns the jobs of a target.
func (t *target) history() history { return history{t.Jobs, t.listed == oldestFirst} }

// worked reports whether a target has jobs.
func (t *target) worked() bool { return t.listed != noJobs }

func (h history) len() int { return len(h.listed) }

// at returns the job than which k are newer.
func (h history) at(k int) *Job {
	if h.backwards {
		k = len(h.listed) - 1 - k
	}
	return &h.listed[k]
}

// index returns the place of the newest job that is as asked, -1 if none is.
func (h history) index(is func(job *Job) bool) int {
	for k := range h.listed {
		if is(h.at(k)) {
			return k
		}
	}
	return -1
}

// newestSuccess returns the newest job that has succeeded, nil if none has.
func (h history) newestSuccess() *Job {
	if k := h.index(func(job *Job) bool { return job.Status == JobSuccessful }); k >= 0 {
		return h.at(k)
	}
	return nil
}

// newestActive returns the newest job that has not ended, nil if all have.
func (h history) newestActive() *Job {
	if k := h.index(func(job *Job) bool { return !job.Status.Terminal() }); k >= 0 {
		return h.at(k)
	}
	return nil
}

// newest returns the n newest jobs.
func (h history) newest(n int) history {
	if h.backwards {
		return history{h.listed[len(h.listed)-n:], true}
	}
	return history{h.listed[:n], false}
}

// behind returns the jobs than which at least n are newer.
func (h history) behind(n int) history {
	if h.backwards {
		return history{h.listed[:len(h.listed)-n], true}
	}
	return history{h.listed[n:], false}
}

// since counts the jobs that were created at an instant or after it.
func (h history) since(t time.Time) int {
	return sort.Search(len(h.listed), func(k int) bool { return h.at(k).CreatedAt.Before(t) })
}

// jobOrder is the order in which the jobs of a target are listed.
type jobOrder uint8

const (
	noJobs jobOrder = iota
	newestFirst
	oldestFirst
	noOrder
)

// listingOf returns the order in which jobs are listed, of which there is at least one. They are
// large: it copies none.
func listingOf(jobs []Job) jobOrder {
	newest, oldest := true, true
	for k := 1; k < len(jobs) && (newest || oldest); k++ {
		c := newer(&jobs[k-1], &jobs[k])
		newest, oldest = newest && c <= 0, oldest && c >= 0
	}
	switch {
	case newest:
		return newestFirst
	case oldest:
		return oldestFirst
	}
	return noOrder
}

// completed returns when a job was completed, zero if the host does not say: an instant that is not set
// may look like several in other zones.
func completed(job *Job) time.Time {
	if instant.Unset(job.CompletedAt) {
		return time.Time{}
	}
	return job.CompletedAt
}

// newer orders jobs, the newest first. Of jobs of one instant a rollback is the newest, because it
// answers another job. The rest are ordered by their run ids, see [runid.Compare], and without these
// by everything else, so that the order of the input does not matter.
func newer(a, b *Job) int {
	if c := b.CreatedAt.Compare(a.CreatedAt); c != 0 {
		return c
	}
	if back := runid.IsRollback(a.Run); back != runid.IsRollback(b.Run) {
		if back {
			return -1
		}
		return 1
	}
	if c := runid.Compare(b.Run, a.Run); c != 0 {
		return c
	}
	return cmp.Or(strings.Compare(b.Version, a.Version), strings.Compare(string(b.Status), string(a.Status)), completed(b).Compare(completed(a)),
		strings.Compare(string(b.Verification), string(a.Verification)))
}
