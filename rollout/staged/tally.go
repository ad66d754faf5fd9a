package staged

// tally counts members by what steps and verdicts ask for. It follows from the records, and is kept
// for each stage, for each chunk of stages and for the run, so that nothing has to count.
type tally struct {
	number    [targetStates]int32
	regressed int32
	stuck     int32
	suspended int32
	retryable int32 // failed members that a retry would be for, if their stage is open
	over      int32 // stages over their own budget
}

// count adds a record n times. No record is counted by more than one of the marks, nor is one that is
// retryable, because each of them goes with other states. Every step calls it often, so it is kept
// small enough to be inlined.
func (t *tally) count(r *record, n int32) {
	t.number[r.state] += n
	switch {
	case r.marks&suspended != 0:
		t.suspended += n
	case r.marks&regressed != 0:
		t.regressed += n
	case r.marks&stuck != 0:
		t.stuck += n
	case r.retryable():
		t.retryable += n
	}
}

func (t *tally) sum(more *tally) {
	for state, n := range more.number {
		t.number[state] += n
	}
	t.regressed += more.regressed
	t.stuck += more.stuck
	t.suspended += more.suspended
	t.retryable += more.retryable
	t.over += more.over
}

func (t *tally) members() int {
	return t.unsettled() + int(t.number[Done]) + t.failures() + t.dropped()
}

func (t *tally) inProgress() int {
	return int(t.number[Starting] + t.number[Updating] + t.number[Soaking])
}

// moving counts members that a stop waits for: in progress, not stuck, not ready.
func (t *tally) moving() int { return int(t.number[Starting] + t.number[Updating] - t.stuck) }

func (t *tally) unsettled() int { return int(t.number[Waiting]) + t.inProgress() }

func (t *tally) failures() int { return int(t.number[Failed] + t.number[TimedOut]) }

// unhappy counts what keeps a run from succeeding.
func (t *tally) unhappy() int { return t.failures() + int(t.number[Skipped]) }

// dropped counts members that were taken out.
func (t *tally) dropped() int { return int(t.number[Skipped] + t.number[Removed]) }

func (t *tally) regressions() int { return int(t.regressed) }

func (t *tally) retries() int { return int(t.retryable) }

func (t *tally) exceeded() int { return int(t.over) }

func (t *tally) counts() Counts {
	return Counts{
		Members: t.members(), Waiting: int(t.number[Waiting]), Starting: int(t.number[Starting]), Updating: int(t.number[Updating]), Soaking: int(t.number[Soaking]),
		Done: int(t.number[Done]), Failed: int(t.number[Failed]), TimedOut: int(t.number[TimedOut]), Skipped: int(t.number[Skipped]),
		Removed: int(t.number[Removed]), Regressed: int(t.regressed), Stuck: int(t.stuck), Suspended: int(t.suspended),
	}
}

// over returns 1 if a stage is over its own budget, and otherwise 0.
func (p *plan) over(k int, s *stage) int32 {
	if budget := p.stages[k].budget; !budget.IsZero() && s.failures() > p.share(budget, s.tree.size) {
		return 1
	}
	return 0
}
