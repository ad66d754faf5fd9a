package controller

import (
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	"github.com/tranche-dev/tranche/examples/controller/api/v1alpha1"
	"github.com/tranche-dev/tranche/rollout"
)

// between returns what stands between two texts of a file, the first time.
func between(t *testing.T, file, before, after string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), before)
	part, _, closed := strings.Cut(rest, after)
	if !found || !closed {
		t.Fatalf("%s has nothing between %q and %q", file, before, after)
	}
	return part
}

// shown is the fleet of fleet.yaml on a real server, in a namespace of its own.
func shown(t *testing.T) (client.Client, string) {
	t.Helper()
	file, err := os.ReadFile("fleet.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c, namespace := newClient(t, sharedServer(t)), newNamespace()
	validating := client.WithFieldValidation(c, "Strict")
	for _, document := range strings.Split(string(file), "\n---\n") {
		var object unstructured.Unstructured
		if err := yaml.UnmarshalStrict([]byte(document), &object.Object); err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		object.SetNamespace(namespace)
		if err := validating.Create(t.Context(), &object); err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
	}
	return c, namespace
}

// TestFleetInREADME: the server takes fleet.yaml, and the patch that the README shows in place of an
// agent. With it every machine is drained once, one at a time. If jobs fail instead, the first one is
// repeated once, and then its machine waits for a person.
func TestFleetInREADME(t *testing.T) {
	patch := strings.ReplaceAll(between(t, "README.md", `--type=merge -p "`, "\"\n"), `\"`, `"`)
	for _, row := range []struct {
		state   rollout.JobStatus
		jobs    int
		reasons map[string]int
	}{
		{rollout.JobSuccessful, 12, map[string]int{"current": 3}},
		{rollout.JobFailure, 2, map[string]int{"bracket_failed_holding": 1, "slot_full": 2}},
	} {
		t.Run(string(row.state), func(t *testing.T) {
			c, namespace := shown(t)
			h := newHost(t, c, namespace, time.Now().Add(time.Second)) // the objects are of this second
			peak := 0
			for range 100 {
				wait := h.once()
				var news v1alpha1.NodeJobList
				if err := c.List(t.Context(), &news, client.InNamespace(namespace), client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector(fieldState, "")}); err != nil {
					t.Fatal(err)
				}
				machines := map[string]bool{}
				for i := range news.Items {
					job := &news.Items[i]
					machines[job.Spec.Machine] = true
					said := strings.NewReplacer("successful", string(row.state), "$(date -u +%FT%TZ)", h.clock.Now().Add(5*time.Second).UTC().Format(time.RFC3339)).Replace(patch)
					if err := c.Status().Patch(t.Context(), job, client.RawPatch(types.MergePatchType, []byte(said))); err != nil {
						t.Fatalf("%v: %s", err, said)
					}
				}
				peak = max(peak, len(machines))
				if len(machines) > 0 {
					wait = 5 * time.Second
				} else if wait >= 10_000*time.Hour {
					break
				}
				h.clock.Advance(wait)
			}
			jobs := map[string]int{} // by machine and deployment
			for _, job := range listJobs(t, c, namespace) {
				jobs[job.Spec.Machine+" "+job.Spec.Deployment]++
				if job.Status.State != row.state {
					t.Errorf("%s is %q", job.Spec.Run, job.Status.State)
				}
			}
			reasons := map[string]int{}
			for n := range 3 {
				reasons[reason(t, c, namespace, fmt.Sprint("node-", n))]++
			}
			total := 0
			for _, n := range jobs {
				total += n
			}
			if total != row.jobs || row.state == rollout.JobSuccessful && len(jobs) != total || peak != 1 || !maps.Equal(reasons, row.reasons) {
				t.Errorf("jobs %v, at most on %d machines at once; the machines say %v, want %d jobs and %v", jobs, peak, reasons, row.jobs, row.reasons)
			}
		})
	}
}

// TestLintOfFleetInREADME: the policy that people copy is one with which lint finds nothing wrong.
func TestLintOfFleetInREADME(t *testing.T) {
	c, namespace := shown(t)
	found, err := new(compiler).load(t.Context(), c, namespace)
	if err != nil || found.set == nil {
		t.Fatal(err, found.faults)
	}
	seen, err := observe(t.Context(), c, c, namespace, known{})
	if err != nil {
		t.Fatal(err)
	}
	if findings, err := found.set.Lint(seen.snapshot, time.Now().Add(time.Second), 30*24*time.Hour, rollout.LintOptions{}); err != nil || len(findings) > 0 {
		t.Errorf("lint: %v, %v", findings, err)
	}
}

// TestStatesInREADME: the README names every state of a job, and says of each whether it is an end.
func TestStatesInREADME(t *testing.T) {
	section := between(t, "README.md", "## What an agent does", "\n## ")
	ends := between(t, "README.md", "The ends are ", ".")
	for _, state := range []rollout.JobStatus{
		rollout.JobQueued, rollout.JobPending, rollout.JobInProgress, rollout.JobActionRequired, rollout.JobSuccessful, rollout.JobFailure, rollout.JobCancelled,
		rollout.JobSkipped, rollout.JobInvalidAgent, rollout.JobInvalidIntegration, rollout.JobExternalRunNotFound,
	} {
		name := "`" + string(state) + "`"
		if !strings.Contains(section, name) || strings.Contains(ends, name) != state.Terminal() {
			t.Errorf("%s: it is an end: %v", name, state.Terminal())
		}
	}
}

// TestUnknownVersion: a machine that runs what is no release waits, and says for what.
func TestUnknownVersion(t *testing.T) {
	for _, row := range []struct{ why, rule, want string }{
		{"outside brackets", `"retry":{"maxRetries":1}`, "version_unknown"},
		{"in a bracket", `"deploymentBracket":{"deploymentSelector":"true","readinessMode":"collection_window","readinessWindowSeconds":60}`, "bracket_not_due"},
	} {
		c := newFake(t, interceptor.Funcs{})
		policy := `{"name":"one","selector":"true","rules":[{"id":"rule",` + row.rule + `}]}`
		machine := v1alpha1.MachineSpec{Environment: "prod", Versions: map[string]string{"agent": "v0"}, JoinedAt: day1.AddDate(-1, 0, 0)}
		create(t, c, newPolicy("fleet", "policy", []byte(policy)), inNamespace(&v1alpha1.NodeDeployment{}, "fleet", "agent"), newRelease("fleet", "agent", "v1", day1), inNamespace(&v1alpha1.Machine{Spec: machine}, "fleet", "node-0"))
		h := newHost(t, c, "fleet", day2)
		h.once()
		if got := reason(t, c, "fleet", "node-0"); got != row.want || !strings.Contains(message(t, c, "node-0"), "a version of agent") {
			t.Errorf("%s: it says %s: %s", row.why, got, message(t, c, "node-0"))
		}
		create(t, c, newRelease("fleet", "agent", "v0", day1.AddDate(0, 0, -90)))
		if h.once(); len(listJobs(t, c, "fleet")) != 1 {
			t.Errorf("%s: with the release it says %s", row.why, message(t, c, "node-0"))
		}
	}
}
