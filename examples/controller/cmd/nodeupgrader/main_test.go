package main

import (
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// TestDeployment: deployment.yaml is what a server takes for a Deployment, with flags and ports that
// the program has, as the service account that rbac.yaml gives its rights to.
func TestDeployment(t *testing.T) {
	file, err := os.ReadFile("../../deployment.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var deployment appsv1.Deployment
	if err := yaml.UnmarshalStrict(file, &deployment); err != nil {
		t.Fatal(err)
	}
	pod := deployment.Spec.Template.Spec
	if len(pod.Containers) != 1 || deployment.APIVersion != "apps/v1" || deployment.Kind != "Deployment" {
		t.Fatalf("%s %s with %d containers", deployment.APIVersion, deployment.Kind, len(pod.Containers))
	}
	container := pod.Containers[0]
	check := func(why string, ok bool, got any) {
		t.Helper()
		if !ok {
			t.Errorf("%s: %v", why, got)
		}
	}

	labels := deployment.Spec.Template.Labels
	check("its pods have labels", len(labels) > 0, labels)
	for key, value := range deployment.Spec.Selector.MatchLabels {
		check("it selects its pods", labels[key] == value, key)
	}
	for _, spread := range pod.TopologySpreadConstraints {
		for key, value := range spread.LabelSelector.MatchLabels {
			check("its pods are spread", labels[key] == value, key)
		}
	}

	o, err := parse(container.Args, io.Discard)
	if err != nil {
		t.Fatalf("the program does not know its arguments: %v", err)
	}
	check("of several instances one leads", *deployment.Spec.Replicas == 1 || o.elect, o)
	check("it does not end at once", !o.install, o)
	ports := map[string]string{}
	for _, port := range container.Ports {
		ports[port.Name] = strconv.Itoa(int(port.ContainerPort))
	}
	for name, address := range map[string]string{"metrics": o.metrics, "probes": o.probes} {
		host, port, err := net.SplitHostPort(address)
		check(name+" are where the container says, on all addresses of the pod", err == nil && host == "" && port == ports[name], address)
	}
	check("it has no port that the program does not have", len(ports) == 2, ports)
	for path, probe := range map[string]*corev1.Probe{"/healthz": container.LivenessProbe, "/readyz": container.ReadinessProbe} {
		check("a kubelet asks at "+path, probe != nil && probe.HTTPGet != nil && probe.HTTPGet.Path == path && probe.HTTPGet.Port.StrVal == "probes", probe)
	}
	_, certain := container.Resources.Requests[corev1.ResourceMemory]
	_, bounded := container.Resources.Limits[corev1.ResourceMemory]
	check("it says what memory it needs", certain && bounded, container.Resources)

	// What the pod security standard "restricted" asks for, and a file system that nobody writes.
	all, own := pod.SecurityContext, container.SecurityContext
	check("it is not root", *all.RunAsNonRoot && *all.RunAsUser > 0, all)
	check("its system calls are filtered", all.SeccompProfile.Type == corev1.SeccompProfileTypeRuntimeDefault, all)
	check("it gets no more rights", !*own.AllowPrivilegeEscalation && own.Privileged == nil && len(own.Capabilities.Add) == 0, own)
	check("it has no capabilities", len(own.Capabilities.Drop) == 1 && own.Capabilities.Drop[0] == "ALL", own.Capabilities)
	check("it writes no files", *own.ReadOnlyRootFilesystem, own)

	rights, err := os.ReadFile("../../rbac.yaml")
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, document := range strings.Split(string(rights), "\n---\n") {
		var account corev1.ServiceAccount
		if err := yaml.Unmarshal([]byte(document), &account); err != nil {
			t.Fatal(err)
		}
		found = found || account.Kind == "ServiceAccount" && account.Name == pod.ServiceAccountName && account.Namespace == deployment.Namespace
	}
	check("its service account is the one of rbac.yaml", found, deployment.Namespace+"/"+pod.ServiceAccountName)
}

// TestProbesAreAnswered: unless they are switched off, and at another port than metrics.
func TestProbesAreAnswered(t *testing.T) {
	for _, row := range []struct {
		why  string
		args []string
		want string
	}{
		{"without a flag", nil, ":8081"},
		{"elsewhere", []string{"-health-probe-bind-address=127.0.0.1:9000"}, "127.0.0.1:9000"},
		{"nowhere", []string{"-health-probe-bind-address=0"}, "0"},
	} {
		o, err := parse(row.args, io.Discard)
		if err != nil || o.probes != row.want || o.metrics == o.probes {
			t.Errorf("%s: probes at %q, metrics at %q, %v; want probes at %q", row.why, o.probes, o.metrics, err, row.want)
		}
	}
}
