package concurrency

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// String returns "resource for group", or the resource alone if there is no group.
func (h Holder) String() string {
	if h.Group == "" {
		return h.Resource
	}
	return h.Resource + " for " + h.Group
}

// String describes the lease for people, such as an operator who reads which leases are orphans.
// Instants are in UTC.
func (l Lease) String() string {
	text := fmt.Sprintf("%s in pool %s, token %d, %s since %s", l.Holder, l.Pool, l.Token, l.State, l.Since.UTC().Format(time.RFC3339))
	if l.Reason != "" {
		text += " (" + l.Reason + ")"
	}
	return text
}

// String describes the pool on one line: its counts, and the first ten of each of its lists.
func (s Summary) String() string {
	text := fmt.Sprintf("%d of at most %d active, %s", s.Active, s.Max, counted(s.Total, "member"))
	if s.Starts > 0 {
		text += ", " + counted(s.Starts, "new lease")
	}
	if s.KeyActive {
		text += ", key active"
	}
	for _, list := range []struct {
		name  string
		texts []string
	}{{"holders", texts(s.Holders)}, {"quarantined", texts(s.Quarantined)}, {"stuck", texts(s.Stuck)}, {"unavailable", s.Unavailable}} {
		if len(list.texts) > 0 {
			text += "; " + list.name + " " + some(list.texts)
		}
	}
	return text
}

// String describes the result: a line for each candidate that may start, each that waits, each pool
// and each stuck lease, then Next, in UTC. It names candidates and pools by their indices, because a
// result does not have their names. The text does not end with a newline.
func (r Result) String() string {
	lines := []string{fmt.Sprintf("%s may start, %d must wait", counted(len(r.Admitted), "candidate"), len(r.Refused))}
	for _, a := range r.Admitted {
		line := fmt.Sprintf("candidate %d may start: %s", a.Candidate, a.Reason)
		for _, c := range a.Claims {
			line += fmt.Sprintf(", pool %d with token %d", c.Pool, c.Token)
		}
		lines = append(lines, line)
	}
	for _, own := range r.Refused {
		var why []string
		if uint(own.Why) < uint(len(r.Refusals)) { // a result that was put together by hand prints, too
			for _, refusal := range r.Refusals[own.Why] {
				why = append(why, fmt.Sprintf("%s in pool %d", refusal.Reason, refusal.Pool))
			}
		}
		lines = append(lines, fmt.Sprintf("candidate %d must wait: %s", own.Candidate, strings.Join(why, ", ")))
	}
	for i, p := range r.Pools {
		lines = append(lines, fmt.Sprintf("pool %d: %s", i, p))
	}
	for _, own := range r.Stuck {
		lines = append(lines, fmt.Sprintf("stuck since %s: %s", stamp(own.At), own.Lease))
	}
	if !r.Next.IsZero() {
		lines = append(lines, "next: "+stamp(r.Next))
	}
	return strings.Join(lines, "\n")
}

// stamp is an instant as results print it: all of it, because a host wakes at it.
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

func counted(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + one + "s"
}

func texts(holders []Holder) []string {
	list := make([]string, len(holders))
	for i, h := range holders {
		list[i] = h.String()
	}
	return list
}

// some joins the first ten of a list.
func some(list []string) string {
	const most = 10
	if more := len(list) - most; more > 0 {
		list = append(slices.Clone(list[:most]), fmt.Sprintf("%d more", more))
	}
	return strings.Join(list, ", ")
}
