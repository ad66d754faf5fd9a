package clock_test

import (
	"testing"
	"time"

	"github.com/tranche-dev/tranche/clock"
	"github.com/tranche-dev/tranche/internal/testkit"
)

// TestCostOfManyWindows: eight times as many windows cost about eight times the processor time, and
// not sixty-four times.
func TestCostOfManyWindows(t *testing.T) {
	testkit.NeedCPUTime(t)
	const few, factor = 2000, 8
	deny := false
	from := at("2026-01-01T00:00:00Z")
	for _, row := range []struct {
		why  string
		shut time.Duration // of every hour
		ask  func(c clock.Calendar) error
	}{
		{"freezes on end: not every few of them are all windows asked what repeats itself", time.Hour, func(c clock.Calendar) error { _, err := c.NextOpen(from); return err }},
		{"freezes with gaps between them that are too short", time.Minute, func(c clock.Calendar) error { _, err := c.NextFit(from, 2*time.Hour); return err }},
	} {
		var asks [2]func()
		for k, n := range [...]int{few, factor * few} {
			windows := make([]clock.Window, n)
			for i := range windows {
				start := from.Add(time.Duration(i) * time.Hour)
				windows[i] = clock.Window{From: start, Until: start.Add(row.shut), AllowWindow: &deny}
			}
			c, err := clock.NewCalendar(windows, nil)
			if err != nil {
				t.Fatal(err)
			}
			asks[k] = func() {
				for range 5 {
					if err := row.ask(c); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		testkit.CompareCost(t, row.why, 30, asks[0], asks[1])
	}
}
