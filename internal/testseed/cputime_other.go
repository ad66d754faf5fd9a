//go:build !unix

package testseed

import "time"

// CPUTime is not known here.
func CPUTime() time.Duration { return 0 }
