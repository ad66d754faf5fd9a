// Command stagedrun plays a KubeFleet staged update run on a virtual clock: it reads a strategy, a
// run and a list of clusters, shows the compiled stages before anything starts, and prints what
// happens when, until the run ends. Nothing is deployed and nothing waits.
//
//	go run ./examples/stagedrun
//	go run ./examples/stagedrun -approve-after 10m -stop-at 50m -resume-at 80m
//	go run ./examples/stagedrun -approve-after 10m -clusters trouble.yaml -on-failure hold -retry-after 15m
//	go run ./examples/stagedrun -approve-after 10m -end-waits-after 20m
//	go run ./examples/stagedrun -approve-after 10m -crash-every-step
//	go run ./examples/stagedrun -approve-after 10m -f regions.yaml
//	go run ./examples/stagedrun -preview
//	go run ./examples/stagedrun -forecast 200
//
// The program asks for approvals on the terminal: y approves, n rejects, what follows says why, and
// the virtual clock stands still meanwhile. With -approve-after every request is approved that long
// after it was made. Once the input has ended, or at once if it is closed, requests are approved
// after 10m. A cluster that takes longer than 5m is reported as stuck, as by KubeFleet; it may still
// become ready.
//
// With -crash-every-step the process forgets everything after each step: the run is written to a
// file as JSON before its actions are carried out, and read back for the next step. The output is
// the same.
//
// With -forecast the run is played so many times, with durations, failures and answers drawn from
// those of past runs: when is each stage over, and the run, in half of the trials and in nine of ten,
// and in which stage do trials come to no end?
//
// The first command plays strategy.yaml, run.yaml and clusters.yaml of this folder, which are built
// in; -f, -run, -clusters and -samples name other files, in YAML or JSON. A name that is not found on
// disk is looked up among the files of this folder. If a file or a flag is wrong, the program reports
// every fault and exits with 2.
package main

import (
	"bufio"
	"embed"
	"flag"
	"fmt"
	"io"
	"os"
	"time"
	"unicode/utf8"

	"github.com/tranche-dev/tranche/examples/internal/program"
	"github.com/tranche-dev/tranche/rollout/staged"
	"github.com/tranche-dev/tranche/rollout/staged/stagedtest"
)

func main() {
	program.Main(func(args []string, out io.Writer) error { return run(args, os.Stdin, out) })
}

// defaultApproval is when requests are approved if nobody is there to ask.
const defaultApproval = 10 * time.Minute

func run(args []string, in io.Reader, out io.Writer) error {
	flags := flag.NewFlagSet("stagedrun", flag.ContinueOnError)
	strategyFile := flags.String("f", "", "`file` with the ClusterStagedUpdateStrategy or StagedUpdateStrategy (default: strategy.yaml)")
	runFile := flags.String("run", "", "`file` with the ClusterStagedUpdateRun or StagedUpdateRun (default: run.yaml)")
	clustersFile := flags.String("clusters", "", "`file` with the list of clusters (default: clusters.yaml)")
	w := &world{out: out, clusters: map[string]*cluster{}}
	var stopAt, resumeAt time.Duration
	program.Time(flags, &w.ready, "ready", 5*time.Minute, program.Longest, "how long a cluster takes from its start until it is ready, as a `duration`")
	program.Time(flags, &w.approveAfter, "approve-after", 0, program.Longest, "approve every request a `duration` after it was made; 0 asks on the terminal, and approves after "+
		program.Short(defaultApproval)+" where nobody answers, or draws from the samples of a forecast")
	program.Time(flags, &w.retryAfter, "retry-after", 0, program.Longest, "retry a failed cluster a `duration` after it failed; 0 never does")
	program.Time(flags, &w.endWaits, "end-waits-after", 0, program.Longest, "end the wait after a stage by a command, a `duration` after it began; 0 never does")
	flags.StringVar(&w.by, "by", "operator", "`name` of who answers requests, retries clusters and ends waits")
	program.Time(flags, &stopAt, "stop-at", 0, program.Longest, "set state Stop a `duration` after the beginning; 0 never does")
	program.Time(flags, &resumeAt, "resume-at", 0, program.Longest, "set state Run a `duration` after the beginning, later than -stop-at; 0 never does")
	var trials int
	program.Number(flags, &trials, "forecast", 0, 0, 100_000, "`number` of trials, instead of one run, with durations, failures and answers drawn from the samples; 0 for no forecast")
	seed := flags.Uint64("seed", 1, "`seed` of the forecast")
	samplesFile := flags.String("samples", "", "`file` with the samples of the forecast (default: samples.yaml)")
	preview := flags.Bool("preview", false, "show the stages and stop there")
	crash := flags.Bool("crash-every-step", false, "forget everything after each step, and read the run back from its file")
	stateFile := flags.String("state", "", "`file` to keep the run in, with -crash-every-step (default: a temporary one)")
	var options staged.Options
	program.Choice(flags, &options.OnFailure, "on-failure", staged.Fail, "what becomes of a run over its failure budget", staged.Fail, staged.Hold)
	program.Choice(flags, &options.OnReject, "on-reject", staged.Fail, "what becomes of a run of which an approval is rejected", staged.Fail, staged.Hold)
	program.Choice(flags, &options.WaitDuringStop, "wait-during-stop", staged.Count, "whether stopped time counts towards a wait", staged.Count, staged.Freeze)
	program.Choice(flags, &options.Unmatched, "unmatched", staged.Reject, "what becomes of clusters in no stage", staged.Reject, staged.Ignore, staged.Last)
	program.Choice(flags, &options.Overlap, "overlap", staged.Reject, "what becomes of clusters in two stages", staged.Reject, staged.First)
	program.Choice(flags, &options.MissingSortKey, "missing-sort-key", staged.Reject, "what becomes of clusters without the label that their stage is sorted by", staged.Reject, staged.Last)
	if err := program.Parse(flags, args, out, builtin, "stagedrun plays a KubeFleet staged update run on a virtual clock: the compiled stages first, then what happens when.",
		"files are named with -f, -run, -clusters and -samples"); err != nil {
		return err
	}
	if !utf8.ValidString(w.by) {
		return program.Wrong("-by", "%q: must be valid UTF-8", w.by)
	}
	if resumeAt > 0 && stopAt == 0 {
		return program.Wrong("-resume-at", "says when a stopped run goes on: say with -stop-at when it stops")
	}
	if resumeAt > 0 && resumeAt <= stopAt {
		return program.Wrong("-resume-at", "%s: must be later than -stop-at, %s", program.Short(resumeAt), program.Short(stopAt))
	}
	if *stateFile != "" && !*crash {
		return program.Wrong("-state", "the run is kept in a file with -crash-every-step only")
	}
	if trials == 0 && (*samplesFile != "" || *seed != 1) {
		return program.Wrong("-samples and -seed", "are those of a forecast: ask for one with -forecast")
	}
	if trials > 0 && (*preview || *crash) {
		return program.Wrong("-forecast", "is of whole runs: leave out -preview and -crash-every-step")
	}
	w.in = bufio.NewReader(in)
	w.states = []change{{"-stop-at", stopAt, staged.StateStop}, {"-resume-at", resumeAt, staged.StateRun}}

	var strategy staged.Strategy
	var spec staged.Spec
	var list clusterList
	strategyName, err := read(*strategyFile, "strategy.yaml", &strategy)
	if err != nil {
		return err
	}
	runName, err := read(*runFile, "run.yaml", &spec)
	if err != nil {
		return err
	}
	clustersName, err := program.Decode(builtin, *clustersFile, "clusters.yaml", &list)
	if err != nil {
		return err
	}
	if strategy.Name != "" && strategy.Name != spec.StagedRolloutStrategyName {
		return program.Wrong(runName, "spec.stagedRolloutStrategyName: %q: the strategy of %s is called %q: name the same one", spec.StagedRolloutStrategyName, strategyName, strategy.Name)
	}
	if stopAt > 0 && (spec.State == "" || spec.State == staged.StateInitialize) {
		return program.Wrong("-stop-at", "the run of %s has state Initialize, and what has not started cannot be stopped: give it state Run", runName)
	}
	fleet, err := w.populate(&list)
	if err != nil {
		return &program.InputError{Source: clustersName, Err: err}
	}
	if spec.ResourceSnapshotIndex == "" {
		fleet.Version = "latest" // what a real host looks up
	}
	r, err := staged.Compile(strategy, spec, fleet, options)
	if err != nil { // all else has been checked: what is left is how the stages divide the fleet
		return &program.InputError{Source: clustersName, Err: list.faults(err)}
	}
	var samples stagedtest.Samples
	if trials > 0 {
		var list sampleList
		name, err := program.Decode(builtin, *samplesFile, "samples.yaml", &list)
		if err != nil {
			return err
		}
		if samples, err = list.samples(r); err != nil {
			return &program.InputError{Source: name, Err: err}
		}
	}
	if *stateFile != "" && !*preview { // found out before anything is printed
		file, err := os.OpenFile(*stateFile, os.O_WRONLY|os.O_CREATE, 0o600)
		if err != nil {
			return program.Wrong("-state", "%w", err)
		}
		file.Close()
	}
	fmt.Fprintln(out, r)
	if *preview {
		return nil
	}
	if trials > 0 {
		return w.forecast(r, samples, trials, *seed)
	}
	if *crash {
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

// read decodes an object of KubeFleet, or its spec alone, and validates it. Compile would find all
// faults as well. This way each is told with the file that it is in.
func read(file, standard string, into interface{ Validate() error }) (name string, err error) {
	name, data, err := program.Read(builtin, file, standard)
	if err != nil {
		return name, err
	}
	if err := program.Unmarshal(name, data, into); err != nil {
		return name, err
	}
	if err := into.Validate(); err != nil {
		return name, &program.InputError{Source: name, Err: err}
	}
	return name, nil
}
