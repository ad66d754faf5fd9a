package main

import (
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"github.com/tranche-dev/tranche/examples/controller/api/v1alpha1"
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
	account := readRights(t).account
	check("its service account is the one of rbac.yaml", account.Name == pod.ServiceAccountName && account.Namespace == deployment.Namespace, account)
	check("it has its token, by which it finds the server and its own namespace", pod.AutomountServiceAccountToken == nil && account.AutomountServiceAccountToken == nil, pod)
}

// rights are the objects of rbac.yaml.
type rights struct {
	account  corev1.ServiceAccount
	roles    []rbacv1.Role // those of the cluster have no namespace
	bindings []rbacv1.RoleBinding
}

// readRights reads them as strictly as a server that is asked to validate fields.
func readRights(t *testing.T) (r rights) {
	t.Helper()
	file, err := os.ReadFile("../../rbac.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, document := range strings.Split(string(file), "\n---\n") {
		read := func(into any) {
			t.Helper()
			if err := yaml.UnmarshalStrict([]byte(document), into); err != nil {
				t.Fatalf("%v in\n%s", err, document)
			}
		}
		var kind metav1.TypeMeta
		if err := yaml.Unmarshal([]byte(document), &kind); err != nil {
			t.Fatal(err)
		}
		switch kind.APIVersion + " " + kind.Kind {
		case "v1 ServiceAccount":
			if r.account.Name != "" {
				t.Fatal("two service accounts")
			}
			read(&r.account)
		case "rbac.authorization.k8s.io/v1 Role":
			r.roles = append(r.roles, rbacv1.Role{})
			read(&r.roles[len(r.roles)-1])
		case "rbac.authorization.k8s.io/v1 ClusterRole":
			var role rbacv1.ClusterRole
			read(&role)
			r.roles = append(r.roles, rbacv1.Role{TypeMeta: role.TypeMeta, ObjectMeta: role.ObjectMeta, Rules: role.Rules})
		case "rbac.authorization.k8s.io/v1 RoleBinding":
			r.bindings = append(r.bindings, rbacv1.RoleBinding{})
			read(&r.bindings[len(r.bindings)-1])
		case "rbac.authorization.k8s.io/v1 ClusterRoleBinding":
			var binding rbacv1.ClusterRoleBinding
			read(&binding)
			r.bindings = append(r.bindings, rbacv1.RoleBinding(binding))
		default:
			t.Fatalf("%s %s: unknown", kind.APIVersion, kind.Kind)
		}
	}
	return r
}

// TestRights: rbac.yaml binds each of its roles to its account, and to nobody else, and names
// resources that there are.
func TestRights(t *testing.T) {
	r := readRights(t)
	if r.account.Name == "" || len(r.roles) == 0 {
		t.Fatalf("%+v", r)
	}
	bound := map[string]int{}
	for _, b := range r.bindings {
		kind, _ := strings.CutSuffix(b.Kind, "Binding")
		if b.RoleRef.APIGroup != rbacv1.GroupName || b.RoleRef.Kind != kind {
			t.Errorf("%s %s is of %+v", b.Kind, b.Name, b.RoleRef)
		}
		if (b.Kind == "RoleBinding") != (b.Namespace == r.account.Namespace) { // the lease is in the namespace of the pods
			t.Errorf("%s %s is in the namespace %q", b.Kind, b.Name, b.Namespace)
		}
		bound[b.RoleRef.Kind+" "+b.Namespace+"/"+b.RoleRef.Name]++
		want := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: r.account.Name, Namespace: r.account.Namespace}
		if len(b.Subjects) != 1 || b.Subjects[0] != want {
			t.Errorf("%s %s is for %+v, want %+v", b.Kind, b.Name, b.Subjects, want)
		}
	}
	definitions, err := v1alpha1.CRDs()
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, d := range definitions {
		known[d.Spec.Names.Plural] = true
		for _, version := range d.Spec.Versions {
			if version.Subresources != nil && version.Subresources.Status != nil {
				known[d.Spec.Names.Plural+"/status"] = true
			}
		}
	}
	for _, role := range r.roles {
		name := role.Kind + " " + role.Namespace + "/" + role.Name
		if bound[name] != 1 {
			t.Errorf("%s is bound %d times", name, bound[name])
		}
		delete(bound, name)
		for _, rule := range role.Rules {
			for _, resource := range rule.Resources {
				if slices.Contains(rule.APIGroups, v1alpha1.GroupVersion().Group) && (len(rule.APIGroups) > 1 || !known[resource]) {
					t.Errorf("%s: %s is no resource of %v", name, resource, rule.APIGroups)
				}
			}
		}
	}
	if len(bound) > 0 {
		t.Errorf("there are no roles %v", bound)
	}
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

// TestLeases: programs that work on different namespaces do not wait for one another, also if their
// pods are in one; those that work on the same one do.
func TestLeases(t *testing.T) {
	names := map[string]bool{}
	for _, args := range [][]string{nil, {"-namespace=east"}, {"-namespace=west"}, {"-namespace=east", "-leader-election-namespace=pods"}} {
		o, err := parse(args, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		if faults := validation.IsDNS1123Subdomain(o.lease()); len(faults) > 0 {
			t.Errorf("%q: %v", o.lease(), faults)
		}
		names[o.lease()] = true
	}
	if len(names) != 3 {
		t.Errorf("leases %v, want one for all namespaces and one for each of two", names)
	}
}
