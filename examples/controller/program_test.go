package controller

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tranche-dev/tranche/examples/controller/api/v1alpha1"
	"github.com/tranche-dev/tranche/rollout"
)

// build compiles the program. What it is made of was compiled for the tests, so this is little more
// than linking.
func build(t *testing.T) (binary string) {
	t.Helper()
	binary = filepath.Join(t.TempDir(), "nodeupgrader")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "./cmd/nodeupgrader").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return binary
}

// kubeconfig writes what says where a server is and who asks.
func (s *server) kubeconfig(t *testing.T, said string) (file string) {
	t.Helper()
	from := s.config()
	config := clientcmdapi.NewConfig()
	config.Clusters["test"] = &clientcmdapi.Cluster{Server: from.Host, CertificateAuthority: from.CAFile}
	config.AuthInfos["test"] = &clientcmdapi.AuthInfo{Token: said}
	config.Contexts["test"] = &clientcmdapi.Context{Cluster: "test", AuthInfo: "test"}
	config.CurrentContext = "test"
	file = filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		t.Fatal(err)
	}
	return file
}

// process is one of the program.
type process struct {
	*testing.T
	cmd    *exec.Cmd
	done   chan error
	mu     sync.Mutex
	output bytes.Buffer
}

func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.output.Write(b)
}

func (p *process) said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.output.String()
}

// run starts a process, which ends with the test at the latest.
func run(t *testing.T, kubeconfig, binary string, arguments ...string) *process {
	t.Helper()
	p := &process{T: t, cmd: exec.Command(binary, arguments...), done: make(chan error, 1)}
	p.cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	p.cmd.Stdout, p.cmd.Stderr = p, p
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { p.done <- p.cmd.Wait() }()
	t.Cleanup(func() { _ = p.cmd.Process.Kill() })
	return p
}

// wait returns the exit code of a process that ends by itself or was told to.
func (p *process) wait() int {
	p.Helper()
	select {
	case err := <-p.done:
		p.done <- err
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			p.Fatal(err)
		}
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(2 * time.Minute):
		p.Fatalf("%v does not end:\n%s", p.cmd.Args, p.said())
		return -1
	}
}

func (p *process) signal(signal os.Signal) {
	p.Helper()
	if err := p.cmd.Process.Signal(signal); err != nil {
		p.Fatalf("%v: %v\n%s", p.cmd.Args, err, p.said())
	}
}

// free returns an address at which nobody listens.
func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// answers waits until a process answers a probe in a certain way.
func (p *process) answers(address, path string, code int, want string) {
	p.Helper()
	said := ""
	for begun := time.Now(); time.Since(begun) < time.Minute; time.Sleep(50 * time.Millisecond) {
		answer, err := http.Get("http://" + address + path)
		if err != nil {
			said = err.Error()
			continue
		}
		body, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if said = fmt.Sprint(answer.StatusCode, " ", string(body), err); err == nil && answer.StatusCode == code && strings.Contains(string(body), want) {
			return
		}
	}
	p.Fatalf("%s is answered by %s, want %d with %q\n%s", path, said, code, want, p.said())
}

// TestProgramKnowsZones: windows name time zones, and an image that holds little else than the
// program has no database of them.
func TestProgramKnowsZones(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "./cmd/nodeupgrader").Output()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(strings.Fields(string(out)), "time/tzdata") {
		t.Error("the program does not hold the database of time zones")
	}
}

// TestProgram runs the program as it is on a cluster: it installs its definitions, and one process
// after the other, with no more rights than rbac.yaml gives it, rolls out a release while an agent
// carries out the jobs. The first one is killed in the middle, the second one is told to stop when
// all is done. Before that, one that does not lead is healthy all the time, and ready as soon as the
// definitions are there.
func TestProgram(t *testing.T) {
	t.Parallel()
	binary := build(t)
	s, err := newServer()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	config, asItself := s.kubeconfig(t, token), s.kubeconfig(t, limited)

	if p := run(t, filepath.Join(t.TempDir(), "none"), binary, "-install"); p.wait() != 1 || !strings.Contains(p.said(), "KUBECONFIG, or") {
		t.Errorf("without a cluster it ends with %d and says %q", p.cmd.ProcessState.ExitCode(), p.said())
	}
	if p := run(t, config, binary, "-instal"); p.wait() != 2 || !strings.Contains(p.said(), "-install") {
		t.Errorf("a flag that it does not know: it ends with %d and says %q", p.cmd.ProcessState.ExitCode(), p.said())
	}
	if p := run(t, config, binary, "-leader-election", "false", "-namespace", "fleet"); p.wait() != 2 || !strings.Contains(p.said(), `unexpected argument "false"`) {
		t.Errorf("a switch with its value apart, behind which no flag counts: it ends with %d and says %q", p.cmd.ProcessState.ExitCode(), p.said())
	}
	if p := run(t, config, binary, "-metrics-bind-address=0", "-health-probe-bind-address=0"); p.wait() != 1 || !strings.Contains(p.said(), "-leader-election-namespace") {
		t.Errorf("with a leader outside a pod: it ends with %d and says %q", p.cmd.ProcessState.ExitCode(), p.said())
	}
	probed := free(t)
	standby := run(t, asItself, binary, "-leader-election-namespace=nodeupgrader", "-metrics-bind-address=0", "-health-probe-bind-address="+probed) // this server knows no leases, so it never leads
	standby.answers(probed, "/healthz", http.StatusOK, "ok")
	standby.answers(probed, "/readyz", http.StatusInternalServerError, "[-]caches failed")
	standby.answers(probed, "/readyz/caches", http.StatusInternalServerError, "the cache of *v1alpha1.RolloutPolicy") // there are no definitions yet
	for range 2 {                                                                                                     // the second time the definitions are there
		if p := run(t, config, binary, "-install"); p.wait() != 0 || p.said() != "" {
			t.Fatalf("-install ends with %d and says %q", p.cmd.ProcessState.ExitCode(), p.said())
		}
	}

	standby.answers(probed, "/readyz", http.StatusOK, "ok")
	standby.signal(syscall.SIGTERM)
	if code := standby.wait(); code != 0 {
		t.Errorf("told to stop, the instance that does not lead ends with %d:\n%s", code, standby.said())
	}

	const machines = 6
	namespace, c := newNamespace(), newClient(t, s)
	create(t, c, newPolicy(namespace, "flat", readPolicy(t, "policy-flat.json")), inNamespace(&v1alpha1.NodeDeployment{}, namespace, "agent"),
		newRelease(namespace, "agent", "v1", time.Now().Add(-time.Hour)))
	for i := range machines {
		create(t, c, inNamespace(&v1alpha1.Machine{Spec: v1alpha1.MachineSpec{Environment: "prod"}}, namespace, fmt.Sprint("m", i)))
	}
	arguments := []string{"-namespace", namespace, "-leader-election=false", "-metrics-bind-address=0", "-health-probe-bind-address=" + probed}
	p := run(t, asItself, binary, arguments...)
	p.answers(probed, "/readyz", http.StatusOK, "ok")
	killed, peak := false, 0
	deadline := time.Now().Add(4 * time.Minute)
	for !rolledOut(t, c, namespace, machines) {
		if time.Now().After(deadline) {
			t.Fatalf("the rollout does not end: %v\n%s", starts(listJobs(t, c, namespace)), p.said())
		}
		select {
		case err := <-p.done:
			t.Fatalf("it ends in the middle: %v\n%s", err, p.said())
		default:
		}
		active, ended := work(t, c, namespace)
		if peak = max(peak, active); ended >= 2 && !killed {
			killed = true
			p.signal(syscall.SIGKILL)
			p.wait()
			p = run(t, asItself, binary, arguments...)
		}
		time.Sleep(20 * time.Millisecond)
	}
	if jobs := listJobs(t, c, namespace); len(jobs) != machines || !killed || peak != 2 {
		t.Errorf("%d jobs, at most %d at once; killed in the middle: %v; want %d, 2 at once\n%v", len(jobs), peak, killed, machines, starts(jobs))
	}
	p.signal(syscall.SIGTERM)
	if code := p.wait(); code != 0 {
		t.Errorf("told to stop it ends with %d:\n%s", code, p.said())
	}
	s.refused.Range(func(what, _ any) bool {
		t.Errorf("rbac.yaml does not allow what it does: %s", what)
		return true
	})
}

// TestRoles: the roles allow what the program of TestProgram comes to rarely, and nothing that it has
// no use for.
func TestRoles(t *testing.T) {
	s := &server{}
	var err error
	if s.roles, err = roles(); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		why                                string
		verb, group, resource, subresource string
		allowed                            bool
	}{
		{"a machine that is missing from the cache is asked for", "get", "rollout.tranche.dev", "machines", "", true},
		{"so is the last job of a target whose slot may be given back", "get", "rollout.tranche.dev", "nodejobs", "", true},
		{"records that are not needed any more", "delete", "rollout.tranche.dev", "plannerstates", "", true},
		{"the leader's lease", "update", "coordination.k8s.io", "leases", "", true},
		{"what is repeated is counted in one event", "patch", "events.k8s.io", "events", "", true},
		{"an agent reports, and the program does not", "patch", "rollout.tranche.dev", "nodejobs", "status", false},
		{"a job is never deleted", "delete", "rollout.tranche.dev", "nodejobs", "", false},
		{"what a policy says is not the program's", "patch", "rollout.tranche.dev", "rolloutpolicies", "", false},
		{"definitions are installed by somebody else", "update", "apiextensions.k8s.io", "customresourcedefinitions", "", false},
		{"people decide", "list", "rollout.tranche.dev", "bracketcommands", "", true},
		{"what came of a command it says there", "patch", "rollout.tranche.dev", "bracketcommands", "status", true},
		{"… and not the program", "create", "rollout.tranche.dev", "releaseapprovals", "", false},
		{"people freeze, and that is heard at once", "watch", "rollout.tranche.dev", "deploymentfreezes", "", true},
		{"… and the program does not thaw", "delete", "rollout.tranche.dev", "deploymentfreezes", "", false},
		{"nothing is drained", "create", "", "pods", "eviction", false},
	} {
		a := authorizer.AttributesRecord{Verb: row.verb, APIGroup: row.group, Resource: row.resource, Subresource: row.subresource, ResourceRequest: true}
		if got := s.allows(a); got != row.allowed {
			t.Errorf("%s: allowed is %v, want %v", row.why, got, row.allowed)
		}
	}
}

// work carries out what there is to do, and returns how many jobs are active and how many have
// ended.
func work(t *testing.T, c client.Client, namespace string) (active, ended int) {
	t.Helper()
	for _, job := range listJobs(t, c, namespace) {
		var err error
		switch job.Status.State {
		case "":
			active++
			err = report(t.Context(), c, &job, rollout.JobInProgress, time.Now())
		case rollout.JobInProgress:
			active++
			if time.Since(job.Status.StartedAt) > 100*time.Millisecond {
				err = report(t.Context(), c, &job, rollout.JobSuccessful, time.Now())
			}
		default:
			ended++
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return active, ended
}

// rolledOut reports whether every machine says that nothing is left to do.
func rolledOut(t *testing.T, c client.Client, namespace string, machines int) bool {
	t.Helper()
	for i := range machines {
		if reason(t, c, namespace, fmt.Sprint("m", i)) != string(rollout.ReasonCurrent) {
			return false
		}
	}
	return true
}
