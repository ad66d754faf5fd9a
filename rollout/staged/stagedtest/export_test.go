package stagedtest

import (
	"time"

	"github.com/tranche-dev/tranche/rollout/staged"
)

// Stepping returns the world with another function in the place of staged.Step.
func (w World) Stepping(step func(*staged.Run, staged.Input, time.Time) (*staged.Run, staged.Result, error)) World {
	w.step = step
	return w
}
