//go:build unix

package testkit

import (
	"syscall"
	"time"
)

// CPUTime returns the processor time that the process has spent so far, garbage collection
// included, or 0 if it is not known. On a shared machine it says more than the wall clock.
func CPUTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
