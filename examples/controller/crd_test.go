package controller

import (
	"errors"
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/clock"
	"github.com/tranche-dev/tranche/examples/controller/api/v1alpha1"
	"github.com/tranche-dev/tranche/rollout"
)

// TestValidation: what the server itself refuses.
func TestValidation(t *testing.T) {
	s := sharedServer(t)
	namespace := newNamespace()
	c := newClient(t, s)
	job := inNamespace(&v1alpha1.NodeJob{Spec: v1alpha1.NodeJobSpec{Run: "r", Machine: "m", Environment: "prod", Deployment: "d", Version: "v1", CreatedAt: day1}}, namespace, "job")
	machine := inNamespace(&v1alpha1.Machine{Spec: v1alpha1.MachineSpec{Environment: "prod"}}, namespace, "machine")
	release := newRelease(namespace, "d", "v1", day1)
	policy := newPolicy(namespace, "policy", readPolicy(t, "policy.json"))
	state := NewStore(c, c, namespace).object("key")
	state.Spec.Encoding = v1alpha1.EncodingText
	create(t, c, job, machine, release, policy, state)
	approval := inNamespace(&v1alpha1.ReleaseApproval{Spec: v1alpha1.ReleaseApprovalSpec{Deployment: "d", Version: "v1", Environment: "prod", By: "ann", Decision: rollout.Approved}}, namespace, "approval")
	override := inNamespace(&v1alpha1.RuleOverride{Spec: v1alpha1.RuleOverrideSpec{Rule: "r", Deployment: "d", Version: "v1", By: "ann", Reason: "INC-7"}}, namespace, "override")
	order := inNamespace(&v1alpha1.BracketCommand{Spec: v1alpha1.BracketCommandSpec{Command: bracket.Retry, Machine: "m", Group: "g", Deployment: "d", By: "ann", Reason: "INC-7"}}, namespace, "command")
	freeze := newFreeze(namespace, "freeze")
	create(t, c, approval, override, freeze, order)
	overriding := func(change func(*v1alpha1.RuleOverrideSpec)) error {
		changed := override.DeepCopyObject().(*v1alpha1.RuleOverride)
		change(&changed.Spec)
		return c.Update(t.Context(), changed)
	}
	refreezing := func(change func(*v1alpha1.DeploymentFreezeSpec)) error {
		var changed v1alpha1.DeploymentFreeze
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(freeze), &changed); err != nil {
			return err
		}
		change(&changed.Spec)
		return c.Update(t.Context(), &changed)
	}
	freezing := func(name, field string, value any) error {
		object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"by": "ann", "reason": "INC-7", field: value}}}
		object.SetGroupVersionKind(v1alpha1.GroupVersion().WithKind("DeploymentFreeze"))
		object.SetNamespace(namespace)
		object.SetName(name)
		return client.WithFieldValidation(c, metav1.FieldValidationStrict).Create(t.Context(), object)
	}
	ordering := func(name string, change func(*v1alpha1.BracketCommandSpec)) error {
		other := inNamespace(&v1alpha1.BracketCommand{Spec: order.Spec}, namespace, name)
		change(&other.Spec)
		return c.Create(t.Context(), other)
	}
	job.Status.State = rollout.JobCancelled
	if err := c.Status().Update(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		why  string
		do   func() error
		want string // empty: it is accepted
	}{
		{"a rule of no kind would never be asked", func() error {
			return c.Create(t.Context(), newPolicy(namespace, "none", []byte(`{"name":"p","selector":"true","rules":[{"id":"x"}]}`)))
		}, "exactly one kind"},
		{"a rule of two kinds is ambiguous", func() error {
			return c.Create(t.Context(), newPolicy(namespace, "two", []byte(`{"name":"p","selector":"true","rules":[{"anyApproval":{"minApprovals":1},"versionCooldown":{"intervalSeconds":1}}]}`)))
		}, "exactly one kind"},
		{"every kind of rule that the library has is one", func() error {
			var faults []error
			for _, field := range reflect.VisibleFields(reflect.TypeFor[rollout.Rule]()) {
				if field.Type.Kind() != reflect.Pointer {
					continue // id, createdAt
				}
				kind, _, _ := strings.Cut(field.Tag.Get("json"), ",")
				faults = append(faults, c.Create(t.Context(), newPolicy(namespace, strings.ToLower(kind), []byte(`{"name":"p","selector":"true","rules":[{"`+kind+`":{}}]}`))))
			}
			return errors.Join(faults...)
		}, ""},
		{"a policy without rules allows everything", func() error {
			return c.Create(t.Context(), newPolicy(namespace, "empty", []byte(`{"name":"p","selector":"true","rules":[]}`)))
		}, "spec.rules"},
		{"a selector is required", func() error {
			return c.Create(t.Context(), newPolicy(namespace, "all", []byte(`{"name":"p","rules":[{"anyApproval":{"minApprovals":1}}]}`)))
		}, "spec.selector"},
		{"fields that the schema does not know are kept for the controller to refuse", func() error {
			if err := c.Create(t.Context(), newPolicy(namespace, "typo", []byte(`{"name":"p","selector":"true","rules":[{"anyApproval":{"minAprovals":1}}]}`))); err != nil {
				return err
			}
			var back v1alpha1.RolloutPolicy
			err := c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "typo"}, &back)
			if err == nil && !strings.Contains(string(back.Spec.Raw), "minAprovals") {
				t.Errorf("it comes back as %s", back.Spec.Raw)
			}
			return err
		}, ""},
		{"records are named after the environment, and their names are bounded", func() error {
			return c.Create(t.Context(), inNamespace(&v1alpha1.Machine{Spec: v1alpha1.MachineSpec{Environment: strings.Repeat("e", 254)}}, namespace, "long"))
		}, "Too long"},
		{"a version keeps its name", func() error {
			changed := release.DeepCopyObject().(*v1alpha1.Release)
			changed.Spec.Version = "v2"
			return c.Update(t.Context(), changed)
		}, "do not change"},
		{"a version keeps its place among the others", func() error {
			changed := release.DeepCopyObject().(*v1alpha1.Release)
			changed.Spec.PublishedAt = day2
			return c.Update(t.Context(), changed)
		}, "publishedAt does not change"},
		{"a version may be paused", func() error {
			changed := release.DeepCopyObject().(*v1alpha1.Release)
			changed.Spec.Paused = true
			return c.Update(t.Context(), changed)
		}, ""},
		{"a machine keeps its environment: slots and jobs are named after it", func() error {
			changed := machine.DeepCopyObject().(*v1alpha1.Machine)
			changed.Spec.Environment = "staging"
			return c.Update(t.Context(), changed)
		}, "environment does not change"},
		{"what a job does is fixed: it may have been done", func() error {
			changed := job.DeepCopyObject().(*v1alpha1.NodeJob)
			changed.Spec.Version = "v2"
			return c.Update(t.Context(), changed)
		}, "does not change"},
		{"a job that has ended does not end otherwise: slots were given back", func() error {
			changed := job.DeepCopyObject().(*v1alpha1.NodeJob)
			changed.Status.State = rollout.JobSuccessful
			return c.Status().Update(t.Context(), changed)
		}, "an end is final"},
		{"… and does not begin again", func() error {
			changed := job.DeepCopyObject().(*v1alpha1.NodeJob)
			changed.Status.State = ""
			return c.Status().Update(t.Context(), changed)
		}, "an end is final"},
		{"… not even with a status that is taken away as a whole", func() error {
			return c.Status().Patch(t.Context(), job.DeepCopyObject().(*v1alpha1.NodeJob), client.RawPatch(types.MergePatchType, []byte(`{"status":null}`)))
		}, "an end is final"},
		{"… but may be verified", func() error {
			changed := job.DeepCopyObject().(*v1alpha1.NodeJob)
			changed.Status.Verification = rollout.VerificationPassed
			return c.Status().Update(t.Context(), changed)
		}, ""},
		{"a record keeps its key", func() error {
			changed := state.DeepCopyObject().(*v1alpha1.PlannerState)
			changed.Spec.Key = "other"
			return c.Update(t.Context(), changed)
		}, "the key does not change"},
		{"a record says how it is written", func() error {
			changed := state.DeepCopyObject().(*v1alpha1.PlannerState)
			changed.Spec.Encoding = "rot13"
			return c.Update(t.Context(), changed)
		}, "spec.encoding"},
		{"a decision is yes or no", func() error {
			other := inNamespace(&v1alpha1.ReleaseApproval{Spec: approval.Spec}, namespace, "maybe")
			other.Spec.Decision = "maybe"
			return c.Create(t.Context(), other)
		}, "spec.decision"},
		{"a decision was somebody's", func() error {
			other := inNamespace(&v1alpha1.ReleaseApproval{Spec: approval.Spec}, namespace, "nobody")
			other.Spec.By = ""
			return c.Create(t.Context(), other)
		}, "spec.by"},
		{"a decision is what was decided then", func() error {
			changed := approval.DeepCopyObject().(*v1alpha1.ReleaseApproval)
			changed.Spec.Decision = rollout.Rejected
			return c.Update(t.Context(), changed)
		}, "a decision does not change"},
		{"an override for the whole fleet is not narrowed: it is another one", func() error {
			return overriding(func(s *v1alpha1.RuleOverrideSpec) { s.Machine = "m" })
		}, "only expiresAt changes"},
		{"… nor given to another environment", func() error {
			return overriding(func(s *v1alpha1.RuleOverrideSpec) { s.Environment = "prod" })
		}, "only expiresAt changes"},
		{"… nor to another release", func() error {
			return overriding(func(s *v1alpha1.RuleOverrideSpec) { s.Version = "v2" })
		}, "only expiresAt changes"},
		{"an override may end", func() error {
			return overriding(func(s *v1alpha1.RuleOverrideSpec) { s.ExpiresAt = day2 })
		}, ""},
		{"an override without a reason tells nobody anything", func() error {
			other := inNamespace(&v1alpha1.RuleOverride{Spec: override.Spec}, namespace, "unfounded")
			other.Spec.Reason = ""
			return c.Create(t.Context(), other)
		}, "spec.reason"},
		{"a freeze of everything is not narrowed: it is another one", func() error {
			return refreezing(func(s *v1alpha1.DeploymentFreezeSpec) { s.Everything, s.Machine = false, "m" })
		}, "only expiresAt changes"},
		{"… nor to a deployment", func() error {
			return refreezing(func(s *v1alpha1.DeploymentFreezeSpec) { s.Everything, s.Deployment = false, "d" })
		}, "only expiresAt changes"},
		{"… nor to an environment", func() error {
			return refreezing(func(s *v1alpha1.DeploymentFreezeSpec) { s.Everything, s.Environment = false, "prod" })
		}, "only expiresAt changes"},
		{"… nor does it let anything go on", func() error {
			return refreezing(func(s *v1alpha1.DeploymentFreezeSpec) { s.FinishBegun = true })
		}, "only expiresAt changes"},
		{"… nor does it stop curves that it did not", func() error {
			return refreezing(func(s *v1alpha1.DeploymentFreezeSpec) { s.PauseCurves = true })
		}, "only expiresAt changes"},
		{"… nor is it somebody else's", func() error {
			return refreezing(func(s *v1alpha1.DeploymentFreezeSpec) { s.By = "ben" })
		}, "only expiresAt changes"},
		{"… nor for another reason", func() error {
			return refreezing(func(s *v1alpha1.DeploymentFreezeSpec) { s.Reason = "INC-8" })
		}, "only expiresAt changes"},
		{"a freeze may end", func() error {
			return refreezing(func(s *v1alpha1.DeploymentFreezeSpec) { s.ExpiresAt = day2 })
		}, ""},
		{"… and last for longer", func() error {
			return refreezing(func(s *v1alpha1.DeploymentFreezeSpec) { s.FinishBegun, s.ExpiresAt = false, day2.Add(time.Hour) })
		}, ""},
		{"a freeze without a reason keeps people waiting who cannot know why", func() error { return freezing("unfounded", "reason", "") }, "spec.reason"},
		{"… or without somebody to ask", func() error { return freezing("nobody", "by", "") }, "spec.by"},
		{"a machine whose name a script did not fill in is not everything", func() error { return freezing("empty", "machine", "") }, "spec.machine"},
		{"… nor such an environment", func() error { return freezing("empty", "environment", "") }, "spec.environment"},
		{"… nor such a deployment", func() error { return freezing("empty", "deployment", "") }, "spec.deployment"},
		{"… nor is one without a value, which the server drops", func() error { return freezing("null", "machine", nil) }, "or write everything: true"},
		{"… and everything is said by true", func() error { return freezing("null", "everything", false) }, "or write everything: true"},
		{"a machine has no curve of its own", func() error {
			return c.Create(t.Context(), newFreeze(namespace, "curve", func(s *v1alpha1.DeploymentFreezeSpec) { s.Everything, s.Machine, s.PauseCurves = false, "m", true }))
		}, "leave out pauseCurves"},
		{"everything is not a machine besides", func() error {
			other := newFreeze(namespace, "both", func(s *v1alpha1.DeploymentFreezeSpec) { s.Machine = "m" })
			other.Spec.Everything = true
			return c.Create(t.Context(), other)
		}, "and none of them"},
		{"… but it is a freeze", func() error { return freezing("everything", "everything", true) }, ""},
		{"nor is one that is misspelt, as kubectl sends it", func() error { return freezing("misspelt", "machin", "m") }, `unknown field "spec.machin"`},
		{"that what has begun is finished is said by true", func() error { return freezing("words", "finishBegun", "yes") }, "spec.finishBegun"},
		{"what says no more than it must is a freeze", func() error { return freezing("narrow", "machine", "m") }, ""},
		{"a command that no bracket knows", func() error {
			return ordering("restart", func(s *v1alpha1.BracketCommandSpec) { s.Command = "restart" })
		}, "spec.command"},
		{"a command names an execution", func() error {
			return ordering("anywhere", func(s *v1alpha1.BracketCommandSpec) { s.Group = "" })
		}, "spec.group"},
		{"… on a machine", func() error {
			return ordering("machineless", func(s *v1alpha1.BracketCommandSpec) { s.Machine = "" })
		}, "and only then, leave machine out"},
		{"a group closes for all machines", func() error {
			return ordering("closing-one", func(s *v1alpha1.BracketCommandSpec) { s.Command, s.Deployment = bracket.Close, "" })
		}, "leave machine out"},
		{"… and for all members", func() error {
			return ordering("closing-member", func(s *v1alpha1.BracketCommandSpec) { s.Command, s.Machine = bracket.Close, "" })
		}, "leave deployment out"},
		{"… so that is all that it says", func() error {
			return ordering("closing", func(s *v1alpha1.BracketCommandSpec) { s.Command, s.Machine, s.Deployment = bracket.Close, "", "" })
		}, ""},
		{"an execution ends as a whole", func() error {
			return ordering("partly", func(s *v1alpha1.BracketCommandSpec) { s.Command = bracket.Resolve })
		}, "leave deployment out"},
		{"… but every failed member may be repeated", func() error {
			return ordering("all", func(s *v1alpha1.BracketCommandSpec) { s.Deployment = "" })
		}, ""},
		{"… and an execution ended", func() error {
			return ordering("whole", func(s *v1alpha1.BracketCommandSpec) { s.Command, s.Deployment = bracket.Abandon, "" })
		}, ""},
		{"a command may have been carried out", func() error {
			changed := order.DeepCopyObject().(*v1alpha1.BracketCommand)
			changed.Spec.Command = bracket.Skip
			return c.Update(t.Context(), changed)
		}, "a command is given once"},
	} {
		switch err := row.do(); {
		case row.want == "" && err != nil:
			t.Errorf("%s: %v", row.why, err)
		case row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)):
			t.Errorf("%s: %v, want %q", row.why, err, row.want)
		}
	}
}

// TestConditionsAreApplied: an agent that applies a condition of its own, on the server's side and
// without a look at what is there, leaves those of the controller alone, and the other way round.
func TestConditionsAreApplied(t *testing.T) {
	namespace, c := newNamespace(), newClient(t, sharedServer(t))
	create(t, c, newFleet(t, namespace, 1)...)
	create(t, c, inNamespace(&v1alpha1.BracketCommand{Spec: v1alpha1.BracketCommandSpec{Command: v1alpha1.CommandRelease, Machine: "node-0", Group: "g", By: "ann", Reason: "INC-7"}}, namespace, "serves"))
	r := &Reconciler{Client: c, Server: c, Clock: clock.NewFake(day1)}
	turn := func() {
		t.Helper()
		if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: namespace}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, row := range []struct {
		kind, name string
		ours       []string
	}{
		{"Machine", "node-0", []string{v1alpha1.ConditionUpToDate}},
		{"BracketCommand", "serves", []string{v1alpha1.ConditionEffective}},
		{"RolloutPolicy", "node-lifecycle", []string{v1alpha1.ConditionAccepted, v1alpha1.ConditionPlanned}},
	} {
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(v1alpha1.GroupVersion().WithKind(row.kind))
		object.SetNamespace(namespace)
		object.SetName(row.name)
		says := func(status string) {
			t.Helper()
			applied := object.DeepCopy()
			applied.Object["status"] = map[string]any{"conditions": []any{map[string]any{
				"type": "Healthy", "status": status, "reason": "Probed", "message": "", "lastTransitionTime": "2026-03-10T09:00:00Z",
			}}}
			if err := c.Status().Apply(t.Context(), client.ApplyConfigurationFromUnstructured(applied), client.FieldOwner("agent")); err != nil {
				t.Fatalf("%s: %v", row.kind, err)
			}
		}
		check := func(when, status string, want ...string) {
			t.Helper()
			found := object.DeepCopy()
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(object), found); err != nil {
				t.Fatal(err)
			}
			list, _, _ := unstructured.NestedSlice(found.Object, "status", "conditions")
			said := map[string]any{}
			for _, condition := range list {
				said[condition.(map[string]any)["type"].(string)] = condition.(map[string]any)["status"]
			}
			if said["Healthy"] != status || len(said) != 1+len(want) {
				t.Errorf("%s, %s: %v, want Healthy %s and %v", row.kind, when, said, status, want)
			}
			for _, kind := range want {
				if said[kind] == nil {
					t.Errorf("%s, %s: %v, want %s", row.kind, when, said, kind)
				}
			}
		}
		if row.kind == "Machine" {
			says("True")
			check("the agent speaks first", "True")
		}
		turn()
		says("False")
		check("after a turn the agent speaks again", "False", row.ours...)
		turn()
		check("after one more turn", "False", row.ours...)
	}
}

// TestForeignRecords: what the store did not write is an error that says where, never a value.
func TestForeignRecords(t *testing.T) {
	s := sharedServer(t)
	namespace := newNamespace()
	c := newClient(t, s)
	store := NewStore(c, c, namespace)
	other := store.object("other")
	other.Name, other.Spec.Encoding = name("key"), v1alpha1.EncodingText
	create(t, c, other)
	if _, _, err := store.Load(t.Context(), "key"); err == nil || !strings.Contains(err.Error(), `holds the key "other"`) {
		t.Errorf("a name that another key took: %v", err)
	}
	broken := store.object("broken")
	broken.Spec.Encoding, broken.Spec.Value = v1alpha1.EncodingBase64, "%"
	create(t, c, broken)
	if _, _, err := store.Load(t.Context(), "broken"); err == nil || !strings.Contains(err.Error(), "spec.value") {
		t.Errorf("a value that is no base64: %v", err)
	}
	if _, err := store.List(t.Context(), "br"); err == nil {
		t.Error("a list leaves out what it cannot read")
	}
	for _, key := range []string{"", strings.Repeat("k", 1025), "\xff"} {
		if _, err := store.Save(t.Context(), key, nil, 0); err == nil {
			t.Errorf("key %.10q is saved", key)
		}
	}
}

// TestUnreadableFields: what the server takes can be read. One object that cannot be read would end
// every list of its kind, and with it the work of the controller in all namespaces. To a server more
// than RFC 3339 is of the format date-time.
func TestUnreadableFields(t *testing.T) {
	namespace, c := newNamespace(), newClient(t, sharedServer(t))
	conditions := func(field string) func(any) map[string]any {
		return func(value any) map[string]any {
			return map[string]any{"conditions": []any{map[string]any{"type": "Healthy", "status": "True", field: value}}}
		}
	}
	instants := map[any]bool{ // whether it is readable
		"2026-03-10T09:00:00Z": true, "2024-02-29T23:59:59.123456789+05:30": true, "9999-12-31T23:59:59Z": true, "2026-03-10T09:00:00.5-11:00": true,
		"2026-03-10T09:00:00,5Z": true, // as date -Ins writes it
		"2026-03-10t09:00:00Z":   false, "2026-03-10T09:00:00z": false, "2026-03-10T09:00:00+99:99": false, "2026-03-10T09:00:00ZT1": false,
		"2026-02-29T09:00:00Z": false, "2026-03-10T24:00:00Z": false, "2026-03-10T09:00:60Z": false, "2026-03-10 09:00:00Z": false, "2026-03-10": false, "soon": false,
	}
	for _, row := range []struct {
		kind, field string
		list        client.ObjectList
		values      map[any]bool
		spec        map[string]any
		status      func(any) map[string]any // nil: the field is in the spec
	}{
		{"Machine", "joinedAt", &v1alpha1.MachineList{}, instants, map[string]any{"environment": "prod"}, nil},
		{"Machine", "lastTransitionTime", &v1alpha1.MachineList{}, instants, map[string]any{"environment": "prod"}, conditions("lastTransitionTime")},
		{"Machine", "observedGeneration", &v1alpha1.MachineList{}, map[any]bool{int64(1): true, 1.5: false, "1": false}, map[string]any{"environment": "prod"}, conditions("observedGeneration")},
		{"Machine", "reason", &v1alpha1.MachineList{}, map[any]bool{"Probed": true, int64(1): false}, map[string]any{"environment": "prod"}, conditions("reason")},
		{"RolloutPolicy", "lastTransitionTime", &v1alpha1.RolloutPolicyList{}, instants,
			map[string]any{"name": "p", "selector": "true", "rules": []any{map[string]any{"anyApproval": map[string]any{"minApprovals": int64(1)}}}}, conditions("lastTransitionTime")},
		{"BracketCommand", "lastTransitionTime", &v1alpha1.BracketCommandList{}, instants,
			map[string]any{"command": "retry", "machine": "m", "group": "g", "by": "ann", "reason": "INC-7"}, conditions("lastTransitionTime")},
		{"Release", "publishedAt", &v1alpha1.ReleaseList{}, instants, map[string]any{"deployment": "d", "version": "v"}, nil},
		{"RuleOverride", "expiresAt", &v1alpha1.RuleOverrideList{}, instants, map[string]any{"rule": "r", "deployment": "d", "version": "v", "by": "ann", "reason": "INC-7"}, nil},
		{"DeploymentFreeze", "expiresAt", &v1alpha1.DeploymentFreezeList{}, instants, map[string]any{"everything": true, "by": "ann", "reason": "INC-7"}, nil},
		{"NodeJob", "createdAt", &v1alpha1.NodeJobList{}, instants, map[string]any{"run": "r", "machine": "m", "environment": "prod", "deployment": "d", "version": "v"}, nil},
		{"NodeJob", "startedAt", &v1alpha1.NodeJobList{}, instants, map[string]any{"run": "r", "machine": "m", "environment": "prod", "deployment": "d", "version": "v"},
			func(value any) map[string]any { return map[string]any{"startedAt": value} }},
		{"NodeJob", "completedAt", &v1alpha1.NodeJobList{}, instants, map[string]any{"run": "r", "machine": "m", "environment": "prod", "deployment": "d", "version": "v"},
			func(value any) map[string]any { return map[string]any{"completedAt": value} }},
	} {
		for value, readable := range row.values {
			spec := maps.Clone(row.spec)
			if row.status == nil {
				spec[row.field] = value
			}
			object := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
			object.SetGroupVersionKind(v1alpha1.GroupVersion().WithKind(row.kind))
			object.SetNamespace(namespace)
			object.SetName("it")
			err := c.Create(t.Context(), object)
			created := err == nil
			if created && row.status != nil {
				object.Object["status"] = row.status(value)
				err = c.Status().Update(t.Context(), object)
			}
			switch {
			case readable && err != nil:
				t.Errorf("%s, %s %v: %v", row.kind, row.field, value, err)
			case !readable && (err == nil || !strings.Contains(err.Error(), row.field)):
				t.Errorf("%s, %s %v: %v, want an error about the field", row.kind, row.field, value, err)
			}
			if err := c.List(t.Context(), row.list, client.InNamespace(namespace)); err != nil {
				t.Errorf("%s, %s %v: the list ends with %v", row.kind, row.field, value, err)
			}
			if !created {
				continue
			}
			if err := c.Delete(t.Context(), object); err != nil {
				t.Fatal(err)
			}
		}
	}
}
