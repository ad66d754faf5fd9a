//go:build unix

package testseed

import (
	"syscall"
	"time"
)

// CPUTime is the processor time that the process has spent so far, the collector included: on a
// shared machine it says more than the wall clock. 0 where it is not known.
func CPUTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
