package partition_test

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tranche-dev/tranche/partition"
	"github.com/tranche-dev/tranche/selector"
)

// The reference is a second implementation that shares nothing with the package but its input
// types: whole fleets, strings, maps, every selector tried for every cluster, rational numbers, and
// a fresh count whenever one is needed.

// outcome is what the reference says about one step, in a form that results of the package are
// brought into as well.
type outcome struct {
	Released   []string
	Created    []string
	Staged     []string
	Partitions []outcomeRow
	Bad, Max   int
	ClosedBy   int
	More       bool
	Reasons    map[string]string
	Unready    map[string]string
	Unmatched  []string
	Global     [3]int
}

type outcomeRow struct {
	Name                                                     string
	Members                                                  []string
	Max, NotReady, Before, Waiting, Held, Done, Released     int
	Updating, Blocked, Broken, Pending, OutOfSync, DoneClass int
	Reached, Ready                                           bool
}

func outcomeOf(c *partition.Compiled, r *partition.Result) outcome {
	o := outcome{Bad: r.NotReadyPartitions, Max: r.MaxNotReadyPartitions, ClosedBy: r.ClosedBy, More: r.More, Reasons: map[string]string{}, Unready: map[string]string{}}
	for _, release := range r.Releases {
		o.Released = append(o.Released, fmt.Sprint(release.ID, " ", release.Partition, " ", release.First))
	}
	for _, w := range r.Waiting {
		o.Reasons[w.ID.String()] += fmt.Sprint(w.Reason, " ", w.Partition)
	}
	for _, u := range r.Unready {
		o.Unready[u.ID.String()] += u.Why.String()
	}
	for _, id := range r.Unmatched {
		o.Unmatched = append(o.Unmatched, id.String())
	}
	if r.Controller != nil {
		for _, id := range r.Controller.Created {
			o.Created = append(o.Created, id.String())
		}
		for _, id := range r.Controller.Staged {
			o.Staged = append(o.Staged, id.String())
		}
		o.Global = [3]int{r.Controller.MaxUnavailable, r.Controller.UnavailableBefore, r.Controller.Unavailable}
	}
	for i, s := range r.Partitions {
		row := outcomeRow{Name: s.Name, Max: s.MaxUnavailable, NotReady: s.NotReady, Before: s.Unavailable, Waiting: s.Waiting, Held: s.Held, Done: s.Done,
			Released: s.Released, Reached: s.Reached, Ready: s.Ready, Updating: s.Classes.Updating, Blocked: s.Classes.Blocked, Broken: s.Classes.Broken,
			Pending: s.Classes.Pending, OutOfSync: s.Classes.OutOfSync, DoneClass: s.Classes.Done}
		members, err := c.Members(i)
		if err != nil {
			panic(err)
		}
		for _, id := range members {
			row.Members = append(row.Members, id.String())
		}
		o.Partitions = append(o.Partitions, row)
	}
	return o
}

// refFault is an error of the reference: its kind and path.
type refFault struct {
	kind partition.Code
	path string
}

func (e refFault) Error() string { return string(e.kind) + " " + e.path }

var (
	refInt     = regexp.MustCompile(`^\+?[0-9]+$`)
	refPercent = regexp.MustCompile(`^\+?([0-9]*)(?:\.([0-9]+))?%$`)
)

// refLimit is the limit of text, as fleet.yaml would have it; "" stands for an absent value.
func refLimit(controller bool, count int, path string, v partition.IntOrString) (int, error) {
	text := v.String()
	if controller && count == 0 {
		return 1, nil
	}
	if text[0] != '"' {
		n, _ := strconv.Atoi(text)
		return max(0, min(n, count)), nil
	}
	text, err := strconv.Unquote(text)
	if err != nil {
		return 0, err
	}
	if controller {
		n, err := strconv.ParseInt(text, 10, 64)
		if errors.Is(err, strconv.ErrSyntax) {
			n = 0
		}
		if n > 0 {
			return int(min(n, math.MaxInt)), nil
		}
		if !strings.HasSuffix(text, "%") {
			return 0, refFault{partition.CodeLimitFormat, path}
		}
		p, err := strconv.ParseFloat(text[:len(text)-1], 64)
		if err != nil {
			return 0, refFault{partition.CodeLimitNumber, path}
		}
		if p <= 0 {
			return 1, nil
		}
		f := float64(count) * p
		if math.IsNaN(f) || f >= 9223372036854775808 {
			return 1, nil
		}
		i := int64(f) / 100
		if i < 1 {
			return 1, nil
		}
		if i > int64(count) {
			return count, nil
		}
		return int(i), nil
	}
	if refInt.MatchString(text) {
		n, _ := new(big.Int).SetString(strings.TrimPrefix(text, "+"), 10)
		if n.Cmp(big.NewInt(int64(count))) > 0 {
			return count, nil
		}
		return int(n.Int64()), nil
	}
	if !strings.HasSuffix(text, "%") {
		return 0, refFault{partition.CodeLimitFormat, path}
	}
	m := refPercent.FindStringSubmatch(text)
	if m == nil || m[1]+m[2] == "" || len(m[1]+m[2]) > 9 {
		return 0, refFault{partition.CodeLimitNumber, path}
	}
	p, _ := new(big.Rat).SetString("0" + strings.TrimSuffix(strings.TrimPrefix(text, "+"), "%"))
	if p.Sign() == 0 || count == 0 {
		return 0, nil
	}
	p.Mul(p, big.NewRat(int64(count), 100))
	n := new(big.Int).Quo(p.Num(), p.Denom())
	if n.Cmp(big.NewInt(int64(count))) > 0 {
		return count, nil
	}
	return max(1, int(n.Int64())), nil
}

func refSelects(l *selector.LabelSelector, labels map[string]string) bool {
	if l == nil {
		return true
	}
	for k, v := range l.MatchLabels {
		if got, ok := labels[k]; !ok || got != v {
			return false
		}
	}
	for _, e := range l.MatchExpressions {
		got, ok := labels[e.Key]
		var holds bool
		switch e.Operator {
		case selector.In:
			holds = ok && slices.Contains(e.Values, got)
		case selector.NotIn:
			holds = !ok || !slices.Contains(e.Values, got)
		case selector.Exists:
			holds = ok
		case selector.DoesNotExist:
			holds = !ok
		}
		if !holds {
			return false
		}
	}
	return true
}

// refMember tries all criteria of a partition on a cluster, group by group.
func refMember(controller bool, d *partition.Definition, c *partition.Cluster, groups map[string]map[string]string, display string) bool {
	if d.ClusterName == "" && d.ClusterGroup == "" && d.ClusterSelector == nil && d.ClusterGroupSelector == nil {
		return false
	}
	one := func(group string, labels map[string]string) bool {
		if d.ClusterName != "" && d.ClusterName != c.Name {
			if shown, ok := c.Labels[display]; !ok || display == "" || shown != d.ClusterName {
				return false
			}
		}
		return (d.ClusterGroup == "" || d.ClusterGroup == group) && refSelects(d.ClusterSelector, c.Labels) && refSelects(d.ClusterGroupSelector, labels)
	}
	groupsOf := slices.DeleteFunc(slices.Clone(c.Groups), func(group string) bool { return group == "" })
	if len(groupsOf) == 0 {
		if !controller && (d.ClusterGroup != "" || d.ClusterGroupSelector != nil) {
			return false
		}
		return one("", nil)
	}
	for _, group := range groupsOf {
		if one(group, groups[group]) {
			return true
		}
	}
	return false
}

type refPart struct {
	name    string
	members []int
	max     int
}

func first(values ...partition.IntOrString) partition.IntOrString {
	for _, v := range values {
		if !v.IsZero() {
			return v
		}
	}
	panic("no default")
}

// refParts orders the clusters and makes the partitions.
func refParts(s partition.Strategy, fleet partition.Fleet, o partition.Options) (clusters []partition.Cluster, parts []refPart, maxAll, maxParts int, err error) {
	controller := o.Mode == partition.FleetController
	clusters = slices.Clone(fleet.Clusters)
	slices.SortStableFunc(clusters, func(a, b partition.Cluster) int {
		if controller {
			return cmp.Compare(a.Name, b.Name)
		}
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	if controller && len(clusters) == 0 {
		s = partition.Strategy{}
	}
	all := partition.FromString("100%")
	if controller {
		if maxAll, err = refLimit(true, len(clusters), "maxUnavailable", first(s.MaxUnavailable, all)); err != nil {
			return
		}
	}
	cut := func(list []int, single, several string) error {
		n, threshold := len(list), 200
		if s.AutoPartitionThreshold != nil {
			threshold = *s.AutoPartitionThreshold
		}
		size := first(s.AutoPartitionSize, partition.FromString("25%"))
		notPositive := size.String() == "0" || strings.HasPrefix(size.String(), "-")
		whole := notPositive || threshold <= 0 || n < threshold
		k := n
		if !whole {
			var err error
			if k, err = refLimit(controller, n, "autoPartitionSize", size); err != nil {
				return err
			}
			if k == 0 {
				whole, k = true, n
			}
		}
		for from := 0; ; from += k {
			to := n
			if n-from > k {
				to = from + k
			}
			name := fmt.Sprintf("%s %d - %d", several, from, to)
			if whole || single == "Leftovers" && from == 0 && to == n {
				name = single
			}
			limit, err := refLimit(controller, to-from, "maxUnavailable", first(s.MaxUnavailable, all))
			if err != nil {
				return err
			}
			parts = append(parts, refPart{name, list[from:to], limit})
			if to == n {
				return nil
			}
		}
	}
	everyone := make([]int, len(clusters))
	for i := range everyone {
		everyone[i] = i
	}
	if len(s.Partitions) == 0 {
		if err = cut(everyone, "All", "Partition"); err != nil {
			return
		}
	} else {
		display := partition.DisplayNameLabel
		if o.DisplayNameLabel != nil && !controller {
			display = *o.DisplayNameLabel
		}
		matched := map[int]bool{}
		for i := range s.Partitions {
			d := &s.Partitions[i]
			for k, l := range []*selector.LabelSelector{d.ClusterGroupSelector, d.ClusterSelector} { // in Fleet's order
				if l == nil {
					continue
				}
				for n, e := range l.MatchExpressions {
					if e.Operator == "Near" { // the only fault that is drawn
						field := []string{"clusterGroupSelector", "clusterSelector"}[k]
						err = refFault{partition.CodeSelector, fmt.Sprintf("partitions[%d].%s.matchExpressions[%d].operator", i, field, n)}
						return
					}
				}
			}
			p := refPart{name: d.Name}
			for k := range clusters {
				if refMember(controller, d, &clusters[k], fleet.Groups, display) {
					p.members = append(p.members, k)
					matched[k] = true
				}
			}
			path := "maxUnavailable"
			if !d.MaxUnavailable.IsZero() {
				path = fmt.Sprintf("partitions[%d].maxUnavailable", i)
			}
			if p.max, err = refLimit(controller, len(p.members), path, first(d.MaxUnavailable, s.MaxUnavailable, all)); err != nil {
				return
			}
			parts = append(parts, p)
		}
		if left := slices.DeleteFunc(slices.Clone(everyone), func(i int) bool { return matched[i] }); !controller && o.Leftovers == partition.AppendLeftovers && len(left) > 0 {
			if err = cut(left, "Leftovers", "Leftovers"); err != nil {
				return
			}
		}
	}
	maxParts, err = refLimit(controller, len(parts), "maxUnavailablePartitions", first(s.MaxUnavailablePartitions, partition.FromInt(0)))
	return
}

func refMaxNew(s partition.Strategy) int {
	if s.MaxNew == nil {
		return 50
	}
	return *s.MaxNew
}

func name(c *partition.Cluster) string {
	if c.Namespace == "" {
		return c.Name
	}
	return c.Namespace + "/" + c.Name
}

// reference plans one step in either mode.
func reference(s partition.Strategy, fleet partition.Fleet, o partition.Options) (outcome, error) {
	if o.Mode == partition.FleetController {
		return refController(s, fleet, o)
	}
	return refDefault(s, fleet, o, true)
}

func refDefault(s partition.Strategy, fleet partition.Fleet, o partition.Options, more bool) (outcome, error) {
	clusters, parts, _, maxParts, err := refParts(s, fleet, o)
	if err != nil {
		return outcome{}, err
	}
	out := outcome{Max: maxParts, ClosedBy: -1, Reasons: map[string]string{}, Unready: map[string]string{}}
	updated := map[int]bool{}
	class := func(i int) string {
		c := &clusters[i]
		switch {
		case updated[i]:
			return "updating"
		case c.Released == c.Wanted && c.Applied == c.Wanted && c.Ready && !c.Offline:
			return "done"
		case c.Paused && (o.Paused == "" || o.Paused == partition.SkipPaused) || c.Offline && o.Offline == partition.ExcludeOffline:
			return "held"
		case c.Released == c.Wanted:
			return "updating"
		case c.Paused:
			return "blocked"
		case c.Released != "" && (c.Applied != c.Released || !c.Ready || c.Offline):
			return "broken"
		case c.Released == "":
			return "pending"
		}
		return "outOfSync"
	}
	count := func(p refPart, names ...string) (n int) {
		for _, i := range p.members {
			if slices.Contains(names, class(i)) {
				n++
			}
		}
		return n
	}
	notReady := func(p refPart) int { return count(p, "updating", "blocked", "broken") }
	waiting := func(p refPart) int { return count(p, "broken", "pending", "outOfSync") }
	perStep, maxNew := 0, refMaxNew(s)
	if o.MaxPerStep != nil {
		perStep = *o.MaxPerStep
	}
	type release struct {
		i    int
		text string
	}
	var releases []release
	why := make([]map[string]string, len(parts))
	for k, p := range parts {
		row := outcomeRow{Name: p.name, Max: p.max, Before: notReady(p)}
		if out.ClosedBy < 0 {
			row.Reached = true
			open := row.Before <= p.max
			room := p.max - row.Before
			if row.Before == 0 && room < 1 {
				room = 1
			}
			for _, i := range p.members {
				if fleet.Paused || row.Released == maxNew || perStep > 0 && len(releases) == perStep {
					break
				}
				was := class(i)
				if was == "outOfSync" && o.Releases == partition.ByBudget && room <= 0 {
					continue
				}
				if was == "broken" || open && (was == "pending" || was == "outOfSync") {
					if was == "outOfSync" {
						room--
					}
					updated[i] = true
					row.Released++
					releases = append(releases, release{i, fmt.Sprint(name(&clusters[i]), " ", k, " ", clusters[i].Released == "")})
				}
			}
			full := "batch"
			if perStep > 0 && len(releases) == perStep {
				full = "step_limit"
			}
			why[k] = map[string]string{"broken": full, "pending": full, "outOfSync": full}
			if o.Releases == partition.ByBudget && room <= 0 {
				why[k]["outOfSync"] = "budget"
			}
			if !open {
				why[k]["pending"], why[k]["outOfSync"] = "threshold", "threshold"
			}
			row.Ready = waiting(p) == 0 && notReady(p) <= p.max
			if !row.Ready {
				out.Bad++
			}
			if out.Bad > maxParts {
				out.ClosedBy = k
			}
		}
		out.Partitions = append(out.Partitions, row)
	}
	for k, p := range parts {
		row := &out.Partitions[k]
		row.NotReady, row.Waiting, row.Held, row.Done = notReady(p), waiting(p), count(p, "held"), count(p, "done")
		row.Updating, row.Blocked, row.Broken = count(p, "updating"), count(p, "blocked"), count(p, "broken")
		row.Pending, row.OutOfSync, row.DoneClass = count(p, "pending"), count(p, "outOfSync"), row.Done
		if !row.Reached {
			row.Before = row.NotReady // nothing looked at it before the end
			row.Ready = row.Waiting == 0 && row.NotReady <= p.max
		}
		for _, i := range p.members {
			row.Members = append(row.Members, name(&clusters[i]))
		}
	}
	slices.SortFunc(releases, func(a, b release) int { return a.i - b.i })
	for _, r := range releases {
		out.Released = append(out.Released, r.text)
	}
	for i := range clusters {
		c := &clusters[i]
		at := slices.IndexFunc(parts, func(p refPart) bool { return slices.Contains(p.members, i) })
		if at < 0 {
			out.Unmatched = append(out.Unmatched, name(c))
		}
		was := class(i)
		switch was {
		case "updating", "blocked":
			var list []string
			if c.Applied != c.Released || updated[i] {
				list = append(list, "not_applied")
			}
			if !c.Ready {
				list = append(list, "not_ready")
			}
			if c.Offline {
				list = append(list, "offline")
			}
			if c.Paused {
				list = append(list, "paused")
			}
			out.Unready[name(c)] = strings.Join(list, ",")
		case "held", "broken", "pending", "outOfSync":
			reason := ""
			switch {
			case at < 0:
				reason = "unmatched"
			case fleet.Paused:
				reason = "bundle_paused"
			case was == "held" && c.Paused && o.Paused != partition.BlockPaused:
				reason = "paused"
			case was == "held":
				reason = "offline"
			case !out.Partitions[at].Reached:
				reason = "gate"
			default:
				reason = why[at][was]
			}
			out.Reasons[name(c)] = fmt.Sprint(reason, " ", at)
		}
	}
	if more {
		next := fleet
		next.Clusters = clusters
		for i := range updated {
			clusters[i].Released = clusters[i].Wanted
		}
		again, err := refDefault(s, next, o, false)
		if err != nil {
			return outcome{}, err
		}
		out.More = len(again.Released) > 0
	}
	return out, nil
}

type refTarget struct {
	dep, ready, paused, own     bool // own: the cluster itself is paused
	want, spec, staged, applied string
}

func (t *refTarget) lenient() bool { return t.dep && (t.applied != t.spec || !t.ready) }

func (t *refTarget) strict() bool {
	return !t.dep || t.staged != t.want || t.spec != t.want || t.applied != t.want || !t.ready
}

func refController(s partition.Strategy, fleet partition.Fleet, o partition.Options) (outcome, error) {
	clusters, parts, maxAll, maxParts, err := refParts(s, fleet, o)
	if err != nil {
		return outcome{}, err
	}
	targets := make([]*refTarget, len(clusters))
	for i, c := range clusters {
		staged := cmp.Or(c.Staged, c.Released)
		targets[i] = &refTarget{dep: staged != "", ready: c.Ready, paused: c.Paused || fleet.Paused, own: c.Paused, want: c.Wanted, spec: c.Released, staged: staged, applied: c.Applied}
	}
	out := outcome{Max: maxParts, ClosedBy: -1, Reasons: map[string]string{}, Unready: map[string]string{}}
	released, created, staged := map[int]string{}, map[int]bool{}, map[int]bool{}
	maxNew := refMaxNew(s)
	acted := func() (outcome, bool) {
		out := outcome{}
		count := func(members []int, is func(*refTarget) bool) (n int) {
			for _, i := range members {
				if is(targets[i]) {
					n++
				}
			}
			return n
		}
		moved, made := false, 0
		globalUn := 0
		for _, t := range targets {
			if t.lenient() {
				globalUn++
			}
		}
		out.Global = [3]int{maxAll, globalUn, 0}
		un := make([]int, len(parts))
		for k, p := range parts {
			un[k] = count(p.members, (*refTarget).lenient)
			out.Partitions = append(out.Partitions, outcomeRow{Name: p.name, Max: p.max, Before: un[k]})
		}
		out.ClosedBy = -1
		for k, p := range parts {
			row := &out.Partitions[k]
			row.Reached = true
			for _, i := range p.members {
				t := targets[i]
				if !t.dep && made < maxNew {
					made++
					t.dep, t.spec, t.applied, t.ready = true, "", "", false
					created[i], moved = true, true
				}
				if t.dep {
					if t.staged != t.want {
						staged[i], moved = true, true
					}
					t.staged = t.want
				}
			}
			for _, i := range p.members {
				t := targets[i]
				if t.dep && !t.paused && t.spec != t.staged && (t.lenient() || globalUn < maxAll && un[k] < p.max) {
					if !t.lenient() {
						globalUn++
						un[k]++
					}
					released[i] = fmt.Sprint(name(&clusters[i]), " ", k, " ", t.spec == "")
					t.spec, moved = t.staged, true
					row.Released++
				}
			}
			row.NotReady = count(p.members, (*refTarget).strict)
			row.Ready = row.NotReady <= p.max
			if !row.Ready {
				out.Bad++
			}
			if out.Bad > maxParts {
				out.ClosedBy = k
				break
			}
		}
		out.Global[2] = globalUn
		for k, p := range parts {
			row := &out.Partitions[k]
			row.Waiting = count(p.members, func(t *refTarget) bool { return !t.dep || t.spec != t.want && !t.own })
			row.Held = count(p.members, func(t *refTarget) bool { return t.dep && t.spec != t.want && t.own })
			row.Done = count(p.members, func(t *refTarget) bool { return !t.strict() })
			if !row.Reached {
				row.NotReady = count(p.members, (*refTarget).strict)
				row.Ready = row.NotReady <= p.max
			}
		}
		for k := range parts {
			out.Partitions[k].Members = nil
			for _, i := range parts[k].members {
				out.Partitions[k].Members = append(out.Partitions[k].Members, name(&clusters[i]))
			}
		}
		for i, t := range targets {
			at := slices.IndexFunc(parts, func(p refPart) bool { return slices.Contains(p.members, i) })
			if at < 0 {
				out.Unmatched = append(out.Unmatched, name(&clusters[i]))
			}
			if t.dep && t.spec == t.want {
				continue
			}
			reason := "budget"
			switch {
			case at < 0:
				reason = "unmatched"
			case fleet.Paused:
				reason = "bundle_paused"
			case t.paused:
				reason = "paused"
			case !out.Partitions[at].Reached:
				reason = "gate"
			case !t.dep:
				reason = "batch"
			case un[at] < parts[at].max:
				reason = "total_budget"
			}
			if out.Reasons == nil {
				out.Reasons = map[string]string{}
			}
			out.Reasons[name(&clusters[i])] = fmt.Sprint(reason, " ", at)
		}
		out.Max = maxParts
		return out, moved
	}
	out, _ = acted()
	if out.Reasons == nil {
		out.Reasons = map[string]string{}
	}
	out.Unready = map[string]string{}
	for i, t := range targets {
		if t.lenient() && t.spec == t.want {
			var list []string
			if t.applied != t.spec {
				list = append(list, "not_applied")
			}
			if !t.ready {
				list = append(list, "not_ready")
			}
			if clusters[i].Paused {
				list = append(list, "paused")
			}
			out.Unready[name(&clusters[i])] = strings.Join(list, ",")
		}
	}
	for i := range clusters {
		if text, ok := released[i]; ok {
			out.Released = append(out.Released, text)
		}
		if created[i] {
			out.Created = append(out.Created, name(&clusters[i]))
		}
		if staged[i] {
			out.Staged = append(out.Staged, name(&clusters[i]))
		}
	}
	_, out.More = acted()
	return out, nil
}
