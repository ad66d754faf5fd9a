// Command fleetrollout plays a rollout of Rancher Fleet on a virtual clock: it reads a fleet.yaml
// and a list of clusters, and draws when each partition releases which batch, and what the rollout
// pauses for. Nothing is deployed and nothing waits.
//
//	go run ./examples/fleetrollout
//	go run ./examples/fleetrollout -f fleet-230.yaml -clusters clusters-230.yaml -update
//	go run ./examples/fleetrollout -f fleet-storm.yaml -clusters clusters-storm.yaml -update -compare
//
// The first two commands play what Fleet's document promises; -mode fleet_controller plays what
// Fleet's controller does, and -compare shows both side by side. The scenarios of Fleet's document
// are beside this file and built in: a name that is not found on disk is looked up among them.
// Without arguments, the scenario of 200 clusters is played. If a file or a flag is wrong, the
// program exits with 2.
//
// A cluster list says how each cluster, or each of a number of equal clusters, behaves:
//
//	groups:                              # labels of cluster groups, by name
//	  edge: {tier: gold}
//	clusters:
//	  - name: site                       # with count: site-000 to site-039
//	    namespace: fleet-default
//	    count: 40
//	    labels: {stage: demoRollout}
//	    groups: [edge]
//	    readyAfter: 5m                   # from release to ready; -ready if absent
//	    unready: true                    # it applies the new version and never becomes ready
//	    offline: 30m                     # it does not answer before that
//	    paused: true
package main

import (
	"embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/examples/internal/program"
	"github.com/tranche-dev/tranche/internal/strictjson"
	"github.com/tranche-dev/tranche/partition"
)

func main() { program.Main(run) }

func run(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("fleetrollout", flag.ContinueOnError)
	file := flags.String("f", "", "the fleet.yaml, a `file` of which rolloutStrategy and paused are read (default: fleet-200.yaml)")
	list := flags.String("clusters", "", "`file` with the list of clusters (default: clusters-200.yaml)")
	update := flags.Bool("update", false, "the clusters run an older version; without it, this is the first deployment")
	compare := flags.Bool("compare", false, "show what the document promises beside what the controller does")
	var ready time.Duration
	program.Time(flags, &ready, "ready", 2*time.Minute, program.Longest, "how long a cluster takes from its release until it is ready, as a `duration`")
	var options partition.Options
	program.Choice(flags, &options.Mode, "mode", partition.Default, "whose decisions are played, the document's or the controller's", partition.Default, partition.FleetController)
	program.Choice(flags, &options.Leftovers, "leftovers", partition.ExcludeLeftovers, "whether clusters in no manual partition are left out, or come after it in partitions of their own", partition.ExcludeLeftovers, partition.AppendLeftovers)
	program.Choice(flags, &options.Paused, "paused", partition.SkipPaused, "whether paused clusters are left out, or count as NotReady", partition.SkipPaused, partition.BlockPaused)
	program.Choice(flags, &options.Offline, "offline", partition.CountOffline, "whether offline clusters count as NotReady, or are left out", partition.CountOffline, partition.ExcludeOffline)
	program.Choice(flags, &options.Releases, "releases", partition.ByBatch, "what limits the update of healthy clusters: the batch alone, or what maxUnavailable leaves as well", partition.ByBatch, partition.ByBudget)
	var perStep int
	program.Number(flags, &perStep, "max-per-step", 0, 1, math.MaxInt32, "greatest `number` of releases in one step over all partitions (default: no limit)")
	if err := program.Parse(flags, args, out, builtin, "fleetrollout plays a rollout of Rancher Fleet on a virtual clock: which partition releases which batch when, and what it pauses for.",
		"files are named with -f and -clusters"); err != nil {
		return err
	}
	if perStep > 0 {
		options.MaxPerStep = &perStep
	}
	var idle []error // what would change nothing is not ignored
	flags.Visit(func(f *flag.Flag) {
		switch f.Name {
		case "mode":
			if *compare {
				idle = append(idle, program.Wrong("-mode", "-compare shows both modes: use one of the two flags"))
			}
		case "leftovers", "paused", "offline", "releases", "max-per-step":
			if options.Mode == partition.FleetController {
				idle = append(idle, program.Wrong("-"+f.Name, "Fleet's controller knows no such option: leave it out, or use -compare"))
			}
		}
	})
	if len(idle) > 0 {
		return errors.Join(idle...)
	}
	b, err := readBundle(*file)
	if err != nil {
		return err
	}
	fleet, behaviour, err := readClusters(*list, *update, ready)
	if err != nil {
		return err
	}
	fleet.Paused = b.paused
	if b.strategy == nil {
		b.strategy = new(partition.Strategy)
		fmt.Fprintf(out, "%s has no rolloutStrategy: Fleet's defaults are played\n", b.name)
	}
	if !*compare {
		w, err := newWorld(*b.strategy, fleet, behaviour, options)
		if err != nil {
			return &program.InputError{Source: b.name, Err: program.Below("rolloutStrategy", err)}
		}
		w.warn(out)
		return w.report(out)
	}
	titles := [2]string{"Fleet's document", "Fleet's controller"}
	var columns []string
	for k, mode := range []partition.Mode{partition.Default, partition.FleetController} {
		own := options
		own.Mode = mode
		var column strings.Builder
		w, err := newWorld(*b.strategy, partition.Fleet{Clusters: slices.Clone(fleet.Clusters), Groups: fleet.Groups, Paused: fleet.Paused}, behaviour, own)
		if err != nil {
			// What one of the two refuses is a difference, too.
			for fault := range strings.Lines(program.Below("rolloutStrategy", err).Error()) {
				fmt.Fprintf(out, "%s refuses %s\n", titles[k], strings.TrimSuffix(fault, "\n"))
			}
			columns = append(columns, "refused, see above")
			continue
		}
		w.warn(out)
		if err := w.report(&column); err != nil {
			return err
		}
		columns = append(columns, column.String())
	}
	sideBySide(out, titles[0], columns[0], titles[1], columns[1])
	return nil
}

//go:embed fleet-*.yaml clusters-*.yaml
var builtin embed.FS

// bundle is what concerns a rollout in a fleet.yaml.
type bundle struct {
	name     string              // of the file
	strategy *partition.Strategy // nil if the file has none
	paused   bool
}

// readBundle reads a fleet.yaml. Everything else in it is Fleet's business. But a field that is
// almost called rolloutStrategy or paused was meant to be that, and one of the strategy was meant to
// be below it. Fleet's defaults would be played in its place.
func readBundle(file string) (bundle, error) {
	name, document, err := program.Read(builtin, file, "fleet-200.yaml")
	b := bundle{name: name}
	if err != nil {
		return b, err
	}
	var fields map[string]json.RawMessage
	if err := strictjson.Unmarshal(document, &fields); err != nil {
		return b, &program.InputError{Source: name, Err: err}
	}
	if fields == nil {
		return b, program.Wrong(name, "must be an object, not null")
	}
	if fields["apiVersion"] != nil && fields["kind"] != nil {
		return b, program.Wrong(name, "apiVersion and kind: a fleet.yaml has neither: of a Bundle, give what is below spec")
	}
	var faults []error
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		switch key {
		case "rolloutStrategy":
			faults = append(faults, program.Below(key, strictjson.Unmarshal(fields[key], &b.strategy)))
		case "paused":
			faults = append(faults, program.Below(key, strictjson.Unmarshal(fields[key], &b.paused)))
		default:
			near := program.Meant(key, "rolloutStrategy", "paused")
			switch key {
			case "maxUnavailable", "maxUnavailablePartitions", "autoPartitionSize", "autoPartitionThreshold", "maxNew", "partitions":
				near = "rolloutStrategy." + key
			}
			if near != "" {
				faults = append(faults, fmt.Errorf("%s: a fleet.yaml has no such field; did you mean %q?", key, near))
			}
		}
	}
	if err := errors.Join(faults...); err != nil {
		return b, &program.InputError{Source: name, Err: err}
	}
	return b, nil
}

// mostClusters bounds how long a rollout takes to be played: a step looks at every cluster.
const mostClusters = 20_000

// behaviour is what a cluster will do. The planner does not see it.
type behaviour struct {
	readyAfter time.Duration
	unready    bool
	offline    time.Duration // 0 if it is online from the start
}

const (
	oldVersion = "v1"
	newVersion = "v2"
)

// readClusters reads the list of clusters. Clusters are in the order of the file.
func readClusters(file string, update bool, ready time.Duration) (fleet partition.Fleet, behaviours map[string]behaviour, err error) {
	var list struct {
		Groups   map[string]map[string]string `json:"groups"`
		Clusters []struct {
			Name       string            `json:"name"`
			Namespace  string            `json:"namespace"`
			Count      *int              `json:"count"`
			Labels     map[string]string `json:"labels"`
			Groups     []string          `json:"groups"`
			ReadyAfter program.Duration  `json:"readyAfter"`
			Unready    bool              `json:"unready"`
			Offline    program.Duration  `json:"offline"`
			Paused     bool              `json:"paused"`
		} `json:"clusters"`
	}
	name, err := program.Decode(builtin, file, "clusters-200.yaml", &list)
	if err != nil {
		return fleet, nil, err
	}
	fleet.Groups = list.Groups
	behaviours = map[string]behaviour{}
	numbers, totals := map[string]int{}, map[string]int{} // blocks of the same name continue each other
	for _, block := range list.Clusters {
		if block.Count != nil {
			totals[block.Namespace+"/"+block.Name] += *block.Count
		}
	}
	given := map[string]int{} // the block that a cluster is of
	var faults []error
	if len(list.Clusters) == 0 {
		faults = append(faults, errors.New("clusters: at least one is needed"))
	}
	left := mostClusters
	for i, block := range list.Clusters {
		if block.Name == "" {
			faults = append(faults, fmt.Errorf("clusters[%d].name: must not be empty", i))
			continue
		}
		count := 1
		if block.Count != nil {
			count = *block.Count
		}
		if count < 1 || count > left {
			faults = append(faults, fmt.Errorf("clusters[%d].count: %d: must be at least 1, and %d in all at most", i, count, mostClusters))
			continue
		}
		left -= count
		for range count {
			c := partition.Cluster{Namespace: block.Namespace, Name: block.Name, Labels: block.Labels, Groups: block.Groups, Wanted: newVersion}
			if block.Count != nil {
				key := block.Namespace + "/" + block.Name
				c.Name = fmt.Sprintf("%s-%0*d", block.Name, max(3, len(strconv.Itoa(totals[key]-1))), numbers[key])
				numbers[key]++
			}
			id := c.Namespace + "/" + c.Name
			if earlier, twice := given[id]; twice {
				faults = append(faults, fmt.Errorf("clusters[%d]: %q: is given as clusters[%d] already", i, strings.TrimPrefix(id, "/"), earlier))
				break
			}
			given[id] = i
			if update {
				c.Released, c.Staged, c.Applied, c.Ready = oldVersion, oldVersion, oldVersion, true
			}
			c.Paused, c.Offline = block.Paused, block.Offline > 0
			b := behaviour{readyAfter: time.Duration(block.ReadyAfter), unready: block.Unready, offline: time.Duration(block.Offline)}
			if b.readyAfter == 0 {
				b.readyAfter = ready
			}
			behaviours[id] = b
			fleet.Clusters = append(fleet.Clusters, c)
		}
	}
	if len(faults) > 0 {
		return fleet, nil, &program.InputError{Source: name, Err: errors.Join(faults...)}
	}
	return fleet, behaviours, nil
}
