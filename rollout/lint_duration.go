package rollout

import (
	"math"
	"slices"
	"time"
)

// estimate is a duration, if it is known.
type estimate struct {
	duration time.Duration
	known    bool
}

// duration is how long a job of a deployment takes.
func (l *lint) duration(d int32) estimate {
	if given, ok := l.options.Durations[l.w.deployments[d].ID]; ok {
		return estimate{given, true}
	}
	if median, ok := l.medians[d]; ok {
		return median
	}
	var all []time.Duration
	for e := range l.w.environments {
		for _, i := range l.w.targetsIn(int32(e), d) {
			for _, job := range l.w.targets[i].Jobs {
				if job.Status == JobSuccessful && !job.CompletedAt.Before(job.CreatedAt) { // else its end is missing, or impossible
					all = append(all, job.CompletedAt.Sub(job.CreatedAt))
				}
			}
		}
	}
	own := estimate{median(all), len(all) > 0}
	put(&l.medians, d, own)
	return own
}

// median returns the middle one, and of two in the middle the greater one; 0 if there is none. It
// reorders the slice.
func median(list []time.Duration) time.Duration {
	if len(list) == 0 {
		return 0
	}
	slices.Sort(list)
	return list[len(list)/2]
}

// cadence returns the usual time between releases, which is known if there were at least three.
func cadence(instants []time.Time) estimate {
	slices.SortFunc(instants, time.Time.Compare)
	instants = slices.CompactFunc(instants, time.Time.Equal)
	var gaps []time.Duration
	for k := 1; k < len(instants); k++ {
		gaps = append(gaps, instants[k].Sub(instants[k-1]))
	}
	return estimate{median(gaps), len(gaps) >= 2}
}

// saturatingSum returns a sum, or the longest duration if it overflows.
func saturatingSum(a, b time.Duration) time.Duration {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// saturatingProduct returns n times a duration, or the longest duration if it overflows.
func saturatingProduct(n int64, d time.Duration) time.Duration {
	if n > math.MaxInt64/int64(d) {
		return math.MaxInt64
	}
	return time.Duration(n) * d
}

const (
	day  = 24 * time.Hour
	week = 7 * day
)
