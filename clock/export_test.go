package clock

// ParseRecurrence is the reader of rrule texts.
func ParseRecurrence(text string) error {
	var f faults
	parseRecurrence(text, &f)
	return f.err()
}
