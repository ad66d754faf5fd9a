package testkit

import (
	"testing"
	"time"
)

// NeedCPUTime skips a test that calls [CompareCost] where the processor time is not known, or is
// that of the race detector.
func NeedCPUTime(t testing.TB) {
	t.Helper()
	if Race || CPUTime() == 0 {
		t.Skip("processor time cannot be compared")
	}
}

// CompareCost fails a test if many takes more than most times the processor time of few, and 100 µs
// more than that, below which the time cannot be measured. Both run in turn, and the least that each
// took counts, since a garbage collection may fall into any run. As long as many takes too long they
// run again, up to a dozen times.
func CompareCost(t testing.TB, why string, most int, few, many func()) {
	t.Helper()
	const unmeasurable = 100 * time.Microsecond
	var spent [2]time.Duration
	for try := 0; try < 3 || try < 12 && spent[1] > time.Duration(most)*spent[0]+unmeasurable; try++ {
		for k, work := range [...]func(){few, many} {
			began := CPUTime()
			work()
			if took := CPUTime() - began; try == 0 || took < spent[k] {
				spent[k] = took
			}
		}
	}
	if spent[1] > time.Duration(most)*spent[0]+unmeasurable {
		t.Errorf("%s: %v, and not more than %d times as much as %v", why, spent[1], most, spent[0])
	}
}
