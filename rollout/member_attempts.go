package rollout

import (
	"slices"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/internal/textkey"
)

// nextAttempt returns when the run of a member that failed with job k is due to be repeated; zero:
// never.
func (w *work) nextAttempt(i int32, k int, purpose bracket.Purpose) time.Time {
	job := w.targets[i].history().at(k)
	prefix := strings.TrimSuffix(job.Run, textkey.Join("", string(purpose)))
	// The attempts of this run's generation and purpose, this one and those before it.
	row := w.attemptsOf(i, prefix[:strings.LastIndexByte(prefix, '/')+1], "/"+string(purpose))
	at, _ := slices.BinarySearch(row.places, k)
	n, jobs := w.number(i, job.Version), history{listed: row.jobs[at:]}
	a := w.worst(i, func(k int, rule *compiledRule) attempts {
		return w.afterUnder(rule, i, n, jobs, row.failures(k, rule, at))
	})
	switch {
	case a.reason == ReasonRetryExhausted:
		return time.Time{}
	case a.next.IsZero():
		return a.forgiven // it counts as no attempt; if an override forgives it, the next one may start at once
	}
	return a.next
}

// attempted are the jobs of a member's runs of one generation and purpose, newest first.
type attempted struct {
	target         int32
	prefix, suffix string // of their run ids
	jobs           []Job
	places         []int    // of jobs, among those of the target
	streaks        []streak // by retry rule of the target
}

// streak is a stretch [from, to) of attempts that all failed, up to the first that did not.
type streak struct{ from, to int }

// failures is [compiledRule.failures] of the jobs from at on, under the target's k-th rule. They
// are asked for one after the other, and each streak is counted once.
func (row *attempted) failures(k int, rule *compiledRule, at int) int {
	for len(row.streaks) <= k {
		row.streaks = append(row.streaks, streak{})
	}
	own := &row.streaks[k]
	if at < own.from || own.to <= at {
		*own = streak{at, at + rule.failures(history{listed: row.jobs[at:]})}
	}
	return own.to - at
}

// attemptsOf returns the runs of which the ids begin and end so. They are mostly asked for one
// after the other, once for each of them.
func (w *work) attemptsOf(i int32, prefix, suffix string) *attempted {
	row := &w.attempted
	if row.target != i || row.prefix != prefix || row.suffix != suffix {
		*row = attempted{target: i, prefix: prefix, suffix: suffix}
		jobs := w.targets[i].history()
		for k := range jobs.len() {
			if job := jobs.at(k); strings.HasPrefix(job.Run, prefix) && strings.HasSuffix(job.Run, suffix) {
				row.jobs, row.places = append(row.jobs, *job), append(row.places, k)
			}
		}
	}
	return row
}
