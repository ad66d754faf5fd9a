//go:build !unix

package testkit

import "time"

// CPUTime returns 0: the processor time is not known here.
func CPUTime() time.Duration { return 0 }
