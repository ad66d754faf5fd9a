package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/examples/internal/program"
	"github.com/tranche-dev/tranche/internal/textlist"
	"github.com/tranche-dev/tranche/rollout"
	"github.com/tranche-dev/tranche/rollout/rollouttest"
)

// report is everything that is printed: what is released for whom, what happens, why somebody
// waits, who has what in the end, and who was never asked.
func report(in input, told story, all bool) string {
	var b strings.Builder
	for _, p := range in.set.Policies() {
		kinds := make([]string, len(p.Rules))
		for i, rule := range p.Rules {
			kinds[i] = string(rule.Kind())
		}
		fmt.Fprintf(&b, "policy %q, where %s: %s\n", p.Name, p.Selector, strings.Join(kinds, ", "))
	}
	fmt.Fprintf(&b, "fleet: %s in %s\n", textlist.Counted(len(in.fleet.Clusters), "cluster"), textlist.Counted(len(in.fleet.Environments), "environment"))

	b.WriteString("\nreleases\n")
	for _, r := range told.Reach {
		v := in.version(r)
		scope := "every cluster"
		if v.TargetSelector != "" {
			scope = v.TargetSelector
		}
		fmt.Fprintf(&b, "  %-7s %s  %s, for %s\n", v.ID, instant(v.CreatedAt), cmp.Or(v.Name, v.Deployment), scope)
		if err := in.refused[[2]string{v.Deployment, v.ID}]; err != nil {
			fmt.Fprintf(&b, "          CheckVersion refuses it: %s\n", err)
		}
	}

	if len(told.Reach) == 0 {
		b.WriteString("  none\n")
	}

	happens := in.brief(told.Timeline)
	if all {
		happens = told.Timeline.Trace()
	}
	if happens == "" {
		happens = "nothing\n"
	}
	fmt.Fprintf(&b, "\nwhat happens\n%s", program.Indent(happens))

	if len(told.Answers) > 0 {
		b.WriteString("\nwhy somebody waits (+ does not stand in the way, ~ not now, - not this version unless something changes; <- who or what can change it)\n")
	}
	for _, a := range told.Answers {
		fmt.Fprintf(&b, "\nwhy %s, on %s?\n%s", a.Resource, instant(a.Now), program.Indent(a.String()+"\n"))
	}

	b.WriteString("\nwho went through what\n")
	for _, line := range lines(told.Clusters) {
		fmt.Fprintf(&b, "  %s\n", line)
	}

	if len(told.Reach) > 0 {
		fmt.Fprintf(&b, "\nwho heard of it, in %s\n", textlist.Counted(told.Plans, "plan"))
	}
	for _, r := range told.Reach {
		fmt.Fprintf(&b, "  %-7s started or waited on  %s\n", r.Version, in.clusters(r.Asked))
		fmt.Fprintf(&b, "          not a word about       %s\n", in.clusters(r.Never))
		fmt.Fprintf(&b, "          needed an approval in  %s\n", cmp.Or(strings.Join(r.Approvals, ", "), "no environment"))
	}

	fmt.Fprintf(&b, "\n%s", told.Timeline.Summary())
	return b.String()
}

// brief tells the timeline in fewer words: what starts at one instant on one line, who waits for
// the same rules on one, said again only when the rules are others, and of the ends of jobs only
// those that are no success.
func (in *input) brief(timeline rollouttest.Timeline) string {
	var b strings.Builder
	day := ""
	waits := map[rollout.TargetID]string{} // what was told last
	for entries := timeline.Entries; len(entries) > 0; {
		at := entries[0].At.UTC()
		n := 1
		for n < len(entries) && entries[n].At.Equal(at) {
			n++
		}
		for _, line := range in.tell(entries[:n], waits) {
			if d := at.Format("Mon 2006-01-02"); d != day {
				day = d
				fmt.Fprintf(&b, "%s\n", d)
			}
			fmt.Fprintf(&b, "  %s  %s\n", moment(at, at), line)
		}
		entries = entries[n:]
	}
	return b.String()
}

// happening is what several clusters have in common.
type happening struct{ what, rest string }

// tell tells what happens at one instant, in the order in which it does.
func (in *input) tell(entries []rollouttest.Entry, waits map[rollout.TargetID]string) []string {
	var order []happening
	same := map[happening][]rollouttest.Entry{}
	for _, e := range entries {
		own := happening{}
		id := rollout.TargetID{Resource: e.Resource, Environment: e.Environment, Deployment: e.Deployment}
		switch release := e.Deployment + " " + e.Version; {
		case e.Kind == rollouttest.Arrival:
			own.what = e.Note
		case e.Kind == rollouttest.Start && e.Purpose == rollout.PurposeRollback:
			own.what = "roll " + e.Deployment + " back to " + e.Version
		case e.Kind == rollouttest.Start:
			own.what = "start " + release
			delete(waits, id)
		case e.Kind == rollouttest.End && e.Status == string(rollout.JobSuccessful), e.Kind == rollouttest.Verify && e.Status == string(rollout.VerificationPassed):
			continue
		case e.Kind == rollouttest.End, e.Kind == rollouttest.Verify:
			own = happening{release + " ended", ": " + e.Status}
		case e.Kind == rollouttest.Wait:
			reasons := make([]string, len(e.Blockers))
			for k, v := range e.Blockers {
				reasons[k] = string(v.Reason)
			}
			own = happening{"  " + release + " waits", ": " + strings.Join(reasons, ", ")}
			text := own.rest + opens(e.Blockers).String()
			if waits[id] == text {
				continue
			}
			waits[id] = text
		default:
			own.what = strings.ReplaceAll(string(cmp.Or(rollouttest.Kind(e.Event), e.Kind)), "_", " ")
		}
		if same[own] == nil {
			order = append(order, own)
		}
		same[own] = append(same[own], e)
	}
	lines := make([]string, len(order))
	for k, own := range order {
		var ids []string
		var first, last time.Time
		for _, e := range same[own] {
			if e.Resource != "" {
				ids = append(ids, e.Resource)
			}
			if until := opens(e.Blockers); !until.IsZero() {
				if first.IsZero() || until.Before(first) {
					first = until
				}
				if until.After(last) {
					last = until
				}
			}
		}
		lines[k] = own.what
		if len(ids) > 0 {
			lines[k] += " on " + in.clusters(ids)
		}
		lines[k] += own.rest
		today := same[own][0].At
		switch {
		case first.IsZero():
		case first.Equal(last):
			lines[k] += ", until " + moment(first, today)
		default:
			lines[k] += fmt.Sprintf(", until %s the first and %s the last", moment(first, today), moment(last, today))
		}
	}
	return lines
}

// opens is when time alone will have opened all of the blockers; zero if one needs more than time.
func opens(blockers []rollout.Verdict) time.Time {
	waits := rollout.VersionExplanation{}
	for _, v := range blockers {
		waits.Rules = append(waits.Rules, rollout.RuleVerdict{Verdict: v})
	}
	return waits.Until()
}

// moment is a time of day, with the day if that is another one, and seconds if there are any.
func moment(t, today time.Time) string {
	t, today = t.UTC(), today.UTC()
	layout := "15:04"
	if t.Second() != 0 {
		layout = "15:04:05"
	}
	if t.Format(time.DateOnly) != today.Format(time.DateOnly) {
		layout = "Mon " + layout
	}
	return t.Format(layout)
}

func (in *input) version(r reach) rollout.Version {
	for _, v := range in.releases.Versions {
		if v.Deployment == r.Deployment && v.ID == r.Version {
			return v
		}
	}
	return rollout.Version{ID: r.Version}
}

// clusters names environments and regions instead of clusters wherever all of them are meant.
func (in *input) clusters(ids []string) string {
	if len(ids) == 0 {
		return "nobody"
	}
	var parts []string
	for _, e := range in.fleet.Environments {
		regions, some := map[string][]string{}, map[string][]string{}
		var order []string
		total, meant := 0, 0
		for _, c := range in.fleet.Clusters {
			if c.Environment != e.ID {
				continue
			}
			total++
			regions[c.region()] = append(regions[c.region()], c.ID)
			if slices.Contains(ids, c.ID) {
				meant++
				if some[c.region()] == nil {
					order = append(order, c.region())
				}
				some[c.region()] = append(some[c.region()], c.ID)
			}
		}
		if meant > 1 && meant == total {
			parts = append(parts, "all of "+e.ID)
			continue
		}
		for _, region := range order {
			if n := len(some[region]); n > 1 && n == len(regions[region]) {
				parts = append(parts, e.ID+" "+region)
			} else {
				parts = append(parts, some[region]...)
			}
		}
	}
	return strings.Join(parts, ", ")
}

// lines lists the clusters, those of one region that went through the same on one line.
func lines(clusters []outcome) []string {
	type row struct{ environment, region, deployment, path string }
	var order []row
	who := map[row][]string{}
	for _, c := range clusters {
		at := row{c.Environment, c.Region, c.Deployment, cmp.Or(strings.Join(c.Versions, " -> "), "nothing")}
		if who[at] == nil {
			order = append(order, at)
		}
		who[at] = append(who[at], c.Resource)
	}
	var list []string
	for _, at := range order {
		list = append(list, fmt.Sprintf("%-11s %-9s %s %-32s %s", at.environment, at.region, at.deployment, at.path, strings.Join(who[at], ", ")))
	}
	return list
}

// instant is how the report writes a time, always in UTC, with seconds if there are any.
func instant(t time.Time) string {
	t = t.UTC()
	if t.Second() != 0 {
		return t.Format("Mon 2006-01-02 15:04:05")
	}
	return t.Format("Mon 2006-01-02 15:04")
}
