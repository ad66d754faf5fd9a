package clock

import "time"

// ParseRecurrence is the reader of rrule texts.
func ParseRecurrence(text string) error {
	var f faults
	parseRecurrence(text, &f)
	return f.err()
}

// Fit is [Calendar.NextFit], which looks at soon stretches before it asks what repeats itself, and
// returns how many it has looked at in all.
func (c Calendar) Fit(t time.Time, d time.Duration, soon int) (u time.Time, looked int, err error) {
	return c.fit(t, d, soon)
}

// Add is [Calendar.AddOpen], which looks at soon stretches before it asks what repeats itself, and
// returns how many it has looked at in all.
func (c Calendar) Add(t time.Time, d time.Duration, soon int) (u time.Time, looked int, err error) {
	k, p := c.cursor(new(room)), c.pass(t, soon)
	p.rewind(&k)
	u, err = p.addOpen(&k, d)
	return u, p.repeats.looked, err
}
