//go:build !unix

package concurrency

import "time"

// cpuTime is not known here.
func cpuTime() time.Duration { return 0 }
