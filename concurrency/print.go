package concurrency

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/internal/textlist"
)

// String returns "resource for group", or the resource alone if there is no group.
func (h Holder) String() string {
	if h.Group == "" {
		return textlist.Name(h.Resource)
	}
	return textlist.Name(h.Resource) + " for " + textlist.Name(h.Group)
}

// String describes the lease for people, such as an operator who reads which leases are orphans.
// Instants are in UTC.
func (l Lease) String() string {
	since := l.Since.UTC().Format(time.RFC3339)
	state := textlist.Name(l.State) + " since " + since
	if l.State != Active { // Since is not when it was quarantined
		state = "taken at " + since + ", " + textlist.Name(l.State)
	}
	text := fmt.Sprintf("%s in pool %s, token %d, %s", l.Holder, textlist.Name(l.Pool), l.Token, state)
	if why := textlist.Remark(l.Reason); why != "" {
		text += " (" + why + ")"
	}
	return text
}

// String describes the pool on one line: its counts, and the first ten of each of its lists.
func (s Summary) String() string {
	text := fmt.Sprintf("%d of at most %d active, %s", s.Active, s.Max, textlist.Counted(s.Total, "member"))
	if s.Starts > 0 {
		text += ", " + textlist.Counted(s.Starts, "new lease")
	}
	if s.KeyActive {
		text += ", key active"
	}
	if s.Halted {
		text += ", halted"
	}
	if !s.RateOpens.IsZero() {
		text += ", rate opens at " + stamp(s.RateOpens)
	}
	for _, list := range []struct {
		name  string
		texts []string
	}{{"holders", texts(s.Holders)}, {"quarantined", texts(s.Quarantined)}, {"stuck", texts(s.Stuck)}, {"unavailable", textlist.Names(s.Unavailable)}} {
		if len(list.texts) > 0 {
			text += "; " + list.name + " " + some(list.texts)
		}
	}
	return text
}

// String describes the result: a line for each candidate that may start, for each kind of wait, for
// each pool and for each stuck lease, then Next, in UTC. Of each it shows the first ten and counts
// the rest. Candidates that are refused by the same pools for the same reasons share a line, which
// names the first of them; what most wait for comes first. Candidates and pools are named by their
// indices, because a result does not have their names: see [Result.Describe]. The text does not end
// with a newline.
func (r Result) String() string { return r.Describe(Snapshot{}, nil) }

// Describe is String with the names of candidates and pools. snapshot and candidates are those of
// the plan.
func (r Result) Describe(snapshot Snapshot, candidates []Candidate) string {
	n := names{snapshot.Pools, candidates}
	lines := []string{fmt.Sprintf("%s may start, %d must wait", textlist.Counted(len(r.Admitted), "candidate"), len(r.Refused))}
	lines = listed(lines, len(r.Admitted), "start", func(i int) string {
		a := r.Admitted[i]
		words := []string{string(a.Reason)}
		for _, c := range a.Claims {
			words = append(words, fmt.Sprintf("%s with token %d", n.pool(int(c.Pool)), c.Token))
		}
		return fmt.Sprintf("%s may start: %s", n.candidate(a.Candidate), some(words))
	})
	var waits textlist.Likewise[int32, wait]
	for _, refused := range r.Refused {
		waits.Add(refused.Why, wait{n, refused, r.Refusals}, "")
	}
	lines = waits.Lines(lines, "", "and %d more must wait; kinds of waits not shown: %d")
	lines = listed(lines, len(r.Pools), "pool", func(i int) string { return n.pool(i) + ": " + r.Pools[i].String() })
	lines = listed(lines, len(r.Stuck), "stuck lease", func(i int) string {
		return fmt.Sprintf("stuck since %s: %s", stamp(r.Stuck[i].At), r.Stuck[i].Lease)
	})
	if !r.Next.IsZero() {
		lines = append(lines, "next: "+stamp(r.Next))
	}
	return strings.Join(lines, "\n")
}

// names names candidates and pools: those that it does not have by their indices, which also prints
// a result that was put together by hand.
type names struct {
	pools      []Pool
	candidates []Candidate
}

func (n names) pool(index int) string {
	if uint(index) < uint(len(n.pools)) {
		return "pool " + textlist.Name(n.pools[index].Key)
	}
	return fmt.Sprintf("pool %d", index)
}

func (n names) candidate(index int32) string {
	if uint(index) < uint(len(n.candidates)) {
		c := &n.candidates[index]
		return Holder{c.Resource, c.Group}.String()
	}
	return fmt.Sprintf("candidate %d", index)
}

// wait is one refused candidate, as it prints.
type wait struct {
	names
	Refused
	refusals [][]Refusal
}

func (w wait) String() string {
	var why []string
	if uint(w.Why) < uint(len(w.refusals)) {
		for _, refusal := range w.refusals[w.Why] {
			why = append(why, fmt.Sprintf("%s in %s", refusal.Reason, w.pool(int(refusal.Pool))))
		}
	}
	return fmt.Sprintf("%s must wait: %s", w.candidate(w.Candidate), some(why))
}

// listed appends the texts of the first of n entries, and says how many more there are.
func listed(lines []string, n int, one string, text func(i int) string) []string {
	for i := range min(n, textlist.Shown) {
		lines = append(lines, text(i))
	}
	if rest := n - textlist.Shown; rest > 0 {
		lines = append(lines, "and "+textlist.Counted(rest, "more "+one))
	}
	return lines
}

// stamp is an instant as results print it: all of it, because a host wakes at it.
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

func texts(holders []Holder) []string {
	list := make([]string, len(holders))
	for i, h := range holders {
		list[i] = h.String()
	}
	return list
}

// some joins the first ten of a list.
func some(list []string) string {
	if more := len(list) - textlist.Shown; more > 0 {
		list = append(slices.Clone(list[:textlist.Shown]), fmt.Sprintf("%d more", more))
	}
	return strings.Join(list, ", ")
}
