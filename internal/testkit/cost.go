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

// CompareCost fails a test if many takes more than most times the processor time of few, unless that
// is less than 100 µs, which cannot be told from nothing. Both run in turn, and the least that each
// took counts, since a garbage collection may fall into any run. As long as many takes too long they
// run again, up to a dozen times.
func CompareCost(t testing.TB, why string, most int, few, many func()) {
	t.Helper()
	var spent [2]time.Duration
	tooLong := func() bool { return spent[1] > max(time.Duration(most)*spent[0], 100*time.Microsecond) }
	for try := 0; try < 3 || try < 12 && tooLong(); try++ {
		for k, work := range [...]func(){few, many} {
			began := CPUTime()
			work()
			if took := CPUTime() - began; try == 0 || took < spent[k] {
				spent[k] = took
			}
		}
	}
	if tooLong() {
		t.Errorf("%s: %v, which is more than %d times %v", why, spent[1], most, spent[0])
	}
}
