// Command stagedrun plays a KubeFleet staged update run on a virtual clock: it reads a strategy, a run and a list of clusters, shows the compiled
// stages before anything starts, and prints what happens when, until the run ends. Nothing is deployed and nothing waits.
//
//	go run ./examples/stagedrun
//	go run ./examples/stagedrun -approve-after 10m -stop-at 50m -resume-at 80m
//	go run ./examples/stagedrun -approve-after 10m -clusters trouble.yaml -on-failure hold -retry-after 15m
//	go run ./examples/stagedrun -approve-after 10m -crash-every-step
//	go run ./examples/stagedrun -preview
//
// Approvals are asked for on the terminal: y approves, n rejects, and the virtual clock stands still meanwhile. With -approve-after every
// request is approved that long after it was made. When the input ends, as it does at once if it is closed, the same happens after 10m.
//
// With -crash-every-step the process forgets everything after each step: the run is written to a file as JSON before its actions are carried out,
// and read back for the next step. The output is the same.
//
// The files named in the first form are beside this one and built in: a name that is not found on disk is looked up among them.
package main

import (
	"bufio"
	"embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/tranche-dev/tranche/examples/internal/yamljson"
	"github.com/tranche-dev/tranche/internal/strictjson"
	"github.com/tranche-dev/tranche/rollout/staged"
)

func main() {
	err := run(os.Args[1:], os.Stdin, os.Stdout)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// defaultApproval is when requests are approved if nobody is there to ask.
const defaultApproval = 10 * time.Minute

func run(args []string, in io.Reader, out io.Writer) error {
	flags := flag.NewFlagSet("stagedrun", flag.ContinueOnError)
	flags.SetOutput(out)
	strategyFile := flags.String("f", "strategy.yaml", "the ClusterStagedUpdateStrategy or StagedUpdateStrategy")
	runFile := flags.String("run", "run.yaml", "the ClusterStagedUpdateRun or StagedUpdateRun")
	clustersFile := flags.String("clusters", "clusters.yaml", "the list of clusters")
	w := &world{out: out, clusters: map[string]*cluster{}, requests: map[string]*request{}}
	flags.DurationVar(&w.ready, "ready", 5*time.Minute, "how long a cluster takes from its start until it is ready")
	flags.DurationVar(&w.approveAfter, "approve-after", 0, "approve every request this long after it was made; 0 asks on the terminal")
	flags.DurationVar(&w.retryAfter, "retry-after", 0, "retry a failed cluster this long after it failed; 0 never does")
	stopAt := flags.Duration("stop-at", 0, "set state Stop this long after the beginning; 0 never does")
	resumeAt := flags.Duration("resume-at", 0, "set state Run this long after the beginning; 0 never does")
	preview := flags.Bool("preview", false, "show the stages and stop there")
	flags.BoolVar(&w.crash, "crash-every-step", false, "forget everything after each step, and read the run back from its file")
	stateFile := flags.String("state", "", "file to keep the run in, with -crash-every-step; a temporary one if empty")
	var options staged.Options
	flags.StringVar((*string)(&options.OnFailure), "on-failure", string(staged.Fail), "a budget is exceeded: fail or hold")
	flags.StringVar((*string)(&options.OnReject), "on-reject", string(staged.Fail), "an approval is rejected: fail or hold")
	flags.StringVar((*string)(&options.WaitDuringStop), "wait-during-stop", string(staged.Count), "stopped time and waits: count or freeze")
	flags.StringVar((*string)(&options.Unmatched), "unmatched", string(staged.Reject), "clusters in no stage: reject, ignore or last")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	for name, d := range map[string]time.Duration{"ready": w.ready - 1, "approve-after": w.approveAfter, "retry-after": w.retryAfter, "stop-at": *stopAt, "resume-at": *resumeAt} {
		if d < 0 {
			return fmt.Errorf("-%s must be positive", name)
		}
	}
	if *stopAt > 0 && *resumeAt > 0 && *resumeAt <= *stopAt {
		return errors.New("-resume-at must be later than -stop-at")
	}
	w.in = bufio.NewReader(in)
	w.states = []change{{*stopAt, staged.StateStop}, {*resumeAt, staged.StateRun}}

	var strategy staged.Strategy
	var spec staged.Spec
	var list clusterList
	for _, one := range []struct {
		file string
		into any
	}{{*strategyFile, &strategy}, {*runFile, &spec}, {*clustersFile, &list}} {
		if err := read(one.file, one.into); err != nil {
			return err
		}
	}
	fleet, err := w.populate(&list)
	if err != nil {
		return fmt.Errorf("%s: %w", *clustersFile, err)
	}
	if spec.ResourceSnapshotIndex == "" {
		fleet.Version = "latest" // what a real host looks up
	}
	r, err := staged.Compile(strategy, spec, fleet, options)
	if err != nil {
		return err
	}
	fmt.Fprint(out, r)
	if *preview {
		return nil
	}
	if w.crash {
		w.state = *stateFile
		if w.state == "" {
			dir, err := os.MkdirTemp("", "stagedrun")
			if err != nil {
				return err
			}
			defer os.RemoveAll(dir)
			w.state = dir + "/run.json"
		}
	}
	return w.play(r)
}

//go:embed *.yaml
var builtin embed.FS

// read decodes a YAML file strictly.
func read(name string, into any) error {
	data, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		if own, builtinErr := builtin.ReadFile(name); builtinErr == nil {
			data, err = own, nil
		}
	}
	if err != nil {
		return err
	}
	text, err := yamljson.Convert(data)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	decode := strictjson.Unmarshal
	if _, own := into.(json.Unmarshaler); own {
		decode = json.Unmarshal
	}
	if err := decode(text, into); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
