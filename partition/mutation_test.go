package partition_test

import (
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

var mutate = flag.Bool("partition.mutate", false, "build the package with every deliberate fault of TestMutations and see that its test fails")

// mutation is a fault that a rewrite tends to make: one edit of the source, and the test that must
// fail.
type mutation struct {
	fault, file, from, to, test string
}

func mutations() []mutation {
	const (
		step, controller, limit = "step.go", "controller.go", "limit.go"
		cases, differences      = "TestCases", "TestDifferences"
	)
	return []mutation{
		{"threshold: equal pauses", step, "open := s.Unavailable <= p.max", "open := s.Unavailable < p.max", cases},
		{"readiness: equal is not ready", step, "p.waiting() == 0 && p.notReady() <= p.max", "p.waiting() == 0 && p.notReady() < p.max", cases},
		{"a partition with waiting members is ready", step, "p.waiting() == 0 && p.notReady()", "p.notReady()", cases},
		{"gate: equal closes", step, "bad > c.maxParts", "bad >= c.maxParts", cases},
		{"the batch is limited by maxUnavailable", step, "for s.Released < c.maxNew &&", "for s.Released < min(c.maxNew, p.max) &&", cases},
		{"one batch for all partitions", step, "for s.Released < c.maxNew &&", "for len(step.Releases) < c.maxNew &&", cases},
		{"a fix waits for the threshold", step, "nextBroken, nextPending, nextOutOfSync := c.in[setBroken].next(p.slot, end), end, end\n\tif open {",
			"nextBroken, nextPending, nextOutOfSync := end, end, end\n\tif open {\n\t\tnextBroken = c.in[setBroken].next(p.slot, end)", "TestOptions"},
		{"a budget of 0 never starts", step, "budget = max(budget, 1)", "budget = max(budget, 0)", "TestOptions"},
		{"the budget is not spent", step, "budget--", "budget -= 0", "TestOptions"},
		{"controller: a release up to and including the limit", controller, "own < p.max", "own <= p.max", cases},
		{"controller: a release over the limit of all", controller, "*all < c.maxAll", "*all <= c.maxAll", cases},
		{"controller: equal closes the gate", controller, "bad > c.maxParts", "bad >= c.maxParts", cases},
		{"controller: equal is not ready", controller, "s.NotReady = p.strictlyUnavailable()\n\t\ts.Ready = s.NotReady <= p.max\n\t\tif explain", "s.NotReady = p.strictlyUnavailable()\n\t\ts.Ready = s.NotReady < p.max\n\t\tif explain", cases},
		{"controller: readiness by the lenient count", controller, "s.NotReady = p.strictlyUnavailable()\n\t\ts.Ready = s.NotReady <= p.max\n\t\tif explain", "s.NotReady = s.Unavailable\n\t\ts.Ready = s.NotReady <= p.max\n\t\tif explain", cases},
		{"controller: releases by the strict count", controller, "all, own := &step.Controller.Unavailable, s.Unavailable", "all, own := &step.Controller.Unavailable, p.strictlyUnavailable()", cases},
		{"controller: a counter of new ones per partition", controller, "for slot := p.slot; len(r.Created) < c.maxNew; slot++", "before := len(r.Created)\n\tfor slot := p.slot; len(r.Created)-before < c.maxNew; slot++", cases},
		{"controller: the budget is seen across overlaps", controller, "all, own := &step.Controller.Unavailable, s.Unavailable", "all, own := &step.Controller.Unavailable, 0\n\tfor class, n := range p.counts {\n\t\town += int(n) * isLenient(class)\n\t}", cases},
		{"controller: new ones enter the budget at once", controller, "*all < c.maxAll", "*all+len(step.Controller.Created) < c.maxAll", cases},
		{"controller: an int inside a string is clamped", limit, "return int(min(n, math.MaxInt)), nil\n\t}\n\tnumber, isPercent := strings.CutSuffix(v.text", "return clamp(n, count), nil\n\t}\n\tnumber, isPercent := strings.CutSuffix(v.text", differences},
		{"controller: exact percentages", limit, "int64(product)/100", "int64(product+0.5)/100", cases},
		{"0% is at least 1", limit, "if n == 0 || count <= 0 {", "if count <= 0 {", cases},
		{"a small percentage is 0", limit, "int(max(1, min(q, uint64(count))))", "int(min(q, uint64(count)))", cases},
		{"a cluster in no group is tried in the default mode", "membership.go", "if mode == FleetController {", "if mode != \"\" || mode == \"\" {", cases},
		{"a cluster in no group is never tried", "membership.go", "if mode == FleetController {", "if mode == \"never\" {", cases},
		{"a group with an empty name has labels", "membership.go", `if group != "" {`, "if true {", "TestNoGroupHasNoLabels"},
		{"readiness is looked at after the step", step, "if !s.Reached {\n\t\ts.Ready = p.ready()", "if true {\n\t\ts.Ready = p.ready()", "TestReadyIsOfTheTurn"},
		{"a threshold is explained by the count after the step", "reason.go", "v.Count, v.Limit = s.Unavailable, s.MaxUnavailable", "v.Count, v.Limit = s.NotReady, s.MaxUnavailable", "TestThresholdIsOfTheTurn"},
		{"offline clusters are available", "class.go", "case !f.has(appliedReleased|isReady) || f.has(isOffline):", "case !f.has(appliedReleased | isReady):", differences},
	}
}

// TestMutations keeps the list of deliberate faults true: every edit still applies to one place of
// the source. With -partition.mutate each is built and its test run, which takes minutes.
func TestMutations(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range mutations() {
		if seen[m.fault] {
			t.Errorf("%s is listed twice", m.fault)
		}
		seen[m.fault] = true
		source, err := os.ReadFile(m.file)
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(source), m.from); n != 1 {
			t.Errorf("%s: %d places in %s are %q", m.fault, n, m.file, m.from)
			continue
		}
		if *mutate {
			t.Run(m.fault, func(t *testing.T) { m.run(t, string(source)) })
		}
	}
}

// run tests a copy of one file in place of the original.
func (m mutation) run(t *testing.T, source string) {
	folder := t.TempDir()
	original, err := filepath.Abs(m.file)
	if err != nil {
		t.Fatal(err)
	}
	faulty, overlay := filepath.Join(folder, "faulty.go"), filepath.Join(folder, "overlay.json")
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{original: faulty}})
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{faulty: []byte(strings.Replace(source, m.from, m.to, 1)), overlay: replace} {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.Command("go", "test", "-vet=off", "-count=1", "-overlay", overlay, "-run", "^"+m.test+"$", ".").CombinedOutput()
	switch {
	case err == nil:
		t.Errorf("%s passes", m.test)
	case !strings.Contains(string(out), "--- FAIL: "+m.test):
		t.Errorf("%s does not fail, something else does:\n%.2000s", m.test, out)
	}
}
