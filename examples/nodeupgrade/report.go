package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/examples/internal/program"
	"github.com/tranche-dev/tranche/internal/textlist"
	"github.com/tranche-dev/tranche/rollout"
	"github.com/tranche-dev/tranche/rollout/rollouttest"
)

// report is everything that is printed: what was collected and locked, what was decided about one
// resource, and how it went with all.
func report(policies []rollout.Policy, fleet rollout.Snapshot, timeline rollouttest.Timeline, trace string) string {
	var b strings.Builder
	for _, policy := range policies {
		fmt.Fprintf(&b, "policy %q: %s\n", policy.Name, textlist.Counted(len(policy.Rules), "rule"))
	}
	fmt.Fprintf(&b, "fleet: %s, %s\n", textlist.Counted(len(fleet.Resources), "resource"), textlist.Counted(len(fleet.Deployments), "deployment"))
	groups := groupsOf(fleet, timeline)
	for _, g := range groups {
		b.WriteString("\n")
		g.window(&b)
	}
	if trace == "" {
		fmt.Fprintf(&b, "\nevery decision\n%s", program.Indent(timeline.Trace()))
	} else {
		fmt.Fprintf(&b, "\nevery decision about %s\n%s", trace, program.Indent(timeline.About(trace).Trace()))
	}
	for _, g := range groups {
		g.executions(&b)
	}
	if chart := timeline.Chart(0); chart != "" {
		fmt.Fprintf(&b, "\n%s", chart)
	}
	fmt.Fprintf(&b, "\n%s", timeline.Summary())
	return b.String()
}

// group is a bracket's group as the timeline tells of it.
type group struct {
	name       string
	opened     time.Time
	collected  []string // what was published while it collected
	closed     time.Time
	locks      []lock
	timedOut   bool
	resources  []string // in the order of their starts
	start, end map[string]time.Time
	status     map[string]string
}

type lock struct{ deployment, version, before string }

func groupsOf(fleet rollout.Snapshot, timeline rollouttest.Timeline) []*group {
	var list []*group
	byID := map[string]*group{}
	before := map[[2]string]string{} // (environment, deployment) → version
	for _, t := range fleet.Targets {
		before[[2]string{t.Environment, t.Deployment}] = t.Current
	}
	for _, e := range timeline.Entries {
		g := byID[e.Group]
		if g == nil && e.Event == bracket.GroupOpened {
			g = &group{name: groupName(e.Group), opened: e.At, start: map[string]time.Time{}, end: map[string]time.Time{}, status: map[string]string{}}
			byID[e.Group] = g
			list = append(list, g)
		}
		if g == nil {
			continue
		}
		switch {
		case e.Event == bracket.GroupClosed:
			g.closed, g.timedOut = e.At, e.TimedOut
			for _, d := range fleet.Deployments {
				if version, locked := e.Locks[d.ID]; locked {
					key := [2]string{e.Environment, d.ID}
					g.locks = append(g.locks, lock{d.ID, version, before[key]})
					before[key] = version
				}
			}
		case e.Kind == rollouttest.Start:
			if _, started := g.start[e.Resource]; !started {
				g.resources = append(g.resources, e.Resource)
				g.start[e.Resource] = e.At
			}
		case e.Event == bracket.ExecutionEnded:
			g.end[e.Resource], g.status[e.Resource] = e.At, e.Status
		}
	}
	versions := slices.SortedStableFunc(slices.Values(fleet.Versions), func(a, b rollout.Version) int { return a.CreatedAt.Compare(b.CreatedAt) })
	for _, g := range list {
		for _, v := range versions {
			if !v.CreatedAt.Before(g.opened) && (g.closed.IsZero() || !v.CreatedAt.After(g.closed)) {
				g.collected = append(g.collected, fmt.Sprintf("%s  %s %s published", instant(v.CreatedAt), v.Deployment, v.ID))
			}
		}
	}
	return list
}

// groupName is the number of a group and its environment, from its id.
func groupName(id string) string {
	rule, environment, number, ok := bracket.ParseGroupID(id)
	if !ok {
		return id
	}
	return fmt.Sprintf("group %d of %s in %s", number, rule, environment)
}

// window tells what was collected and locked.
func (g *group) window(b *strings.Builder) {
	fmt.Fprintf(b, "%s\n  %s  window opens\n", g.name, instant(g.opened))
	for _, line := range g.collected {
		fmt.Fprintf(b, "  %s\n", line)
	}
	if g.closed.IsZero() {
		fmt.Fprintf(b, "  it is still open\n")
		return
	}
	timedOut := ""
	if g.timedOut {
		timedOut = " without waiting any longer"
	}
	fmt.Fprintf(b, "  %s  window closes%s, versions locked:\n", instant(g.closed), timedOut)
	for _, l := range g.locks {
		change := "unchanged"
		switch l.before {
		case l.version:
		case "":
			change = "new"
		default:
			change = "was " + l.before
		}
		fmt.Fprintf(b, "    %-20s %-10s %s\n", l.deployment, l.version, change)
	}
}

// executions tells when the group started and ended on each resource, counted from its close.
func (g *group) executions(b *strings.Builder) {
	if len(g.resources) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s, after its close\n", g.name)
	for _, resource := range g.resources {
		end := "open"
		if at, ended := g.end[resource]; ended {
			end = fmt.Sprintf("end %-8s %s", after(at, g.closed), g.status[resource])
		}
		fmt.Fprintf(b, "  %-10s start %-8s %s\n", resource, after(g.start[resource], g.closed), end)
	}
}

func after(at, since time.Time) string {
	d := at.Sub(since)
	switch {
	case d%time.Minute != 0:
		return "+" + d.String()
	case d >= 24*time.Hour:
		return fmt.Sprintf("+%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("+%dm", d/time.Minute)
}

// instant is how the report writes a time, always in UTC.
func instant(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") }
