package controller

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/examples/controller/api/v1alpha1"
	"github.com/tranche-dev/tranche/rollout"
)

// written gives an object what a server would give it.
func written[T client.Object](object T, namespace, name string, at time.Time) T {
	object = inNamespace(object, namespace, name)
	object.SetUID(types.UID("uid-of-" + name))
	object.SetCreationTimestamp(metav1.NewTime(at))
	return object
}

// approvals is a fleet of one machine, in which a release needs two approvals.
func approvals(t *testing.T, c client.Client) *host {
	create(t, c, newPolicy("fleet", "approved", []byte(`{"name":"Approved","selector":"true","rules":[{"id":"two-of-us","anyApproval":{"minApprovals":2}}]}`)))
	create(t, c, inNamespace(&v1alpha1.NodeDeployment{}, "fleet", "agent"), newRelease("fleet", "agent", "v1", day1.AddDate(0, 0, -1)), newRelease("fleet", "agent", "v2", day1))
	machine := v1alpha1.MachineSpec{Environment: "prod", Versions: map[string]string{"agent": "v1"}, JoinedAt: day1.AddDate(-1, 0, 0)}
	create(t, c, inNamespace(&v1alpha1.Machine{Spec: machine}, "fleet", "node-0"))
	h := newHost(t, c, "fleet", day2)
	h.once()
	return h
}

func TestApprovals(t *testing.T) {
	c := newFake(t, interceptor.Funcs{})
	h := approvals(t, c)
	for i, row := range []struct {
		why      string
		by       string
		decision rollout.ApprovalStatus
		at       time.Time
		want     string // what the machine says then
	}{
		{"one of two", "ann", rollout.Approved, day2, "approval_missing"},
		{"the same person once more", "ann", rollout.Approved, day2, "approval_missing"},
		{"no is not yes", "ben", rollout.Rejected, day2, "approval_missing"},
		{"a server whose clock is ahead: it counts from then on", "cy", rollout.Approved, day2.Add(time.Hour), "approval_missing"},
		{"two of two", "dee", rollout.Approved, day2, "started"},
	} {
		create(t, c, written(&v1alpha1.ReleaseApproval{Spec: v1alpha1.ReleaseApprovalSpec{
			Deployment: "agent", Version: "v2", Environment: "prod", By: row.by, Decision: row.decision,
		}}, "fleet", fmt.Sprint("approval-", i), row.at))
		h.once()
		if got := reason(t, c, "fleet", "node-0"); got != row.want {
			t.Errorf("%s: the machine says %s, want %s", row.why, got, row.want)
		}
	}
	if got, want := starts(listJobs(t, c, "fleet")), []string{"0 node-0 agent@v2"}; !slices.Equal(got, want) {
		t.Errorf("jobs %v, want %v", got, want)
	}
}

func TestOverrides(t *testing.T) {
	before := day2.Add(-time.Second)
	for _, row := range []struct {
		why     string
		created time.Time
		change  func(*v1alpha1.RuleOverrideSpec)
		want    string // what the machine says then
		planned string // what the policy says of the plan
	}{
		{"it lets the release past the rule", before, func(*v1alpha1.RuleOverrideSpec) {}, "started", ""},
		{"it is for this machine", before, func(s *v1alpha1.RuleOverrideSpec) { s.Environment, s.Machine = "prod", "node-0" }, "started", ""},
		{"it is for another machine", before, func(s *v1alpha1.RuleOverrideSpec) { s.Machine = "node-1" }, "approval_missing", "override_without_effect: hotfix/uid-of-hotfix: there is no such resource"},
		{"it is for another environment", before, func(s *v1alpha1.RuleOverrideSpec) { s.Environment = "staging" }, "approval_missing", "override_without_effect: hotfix/uid-of-hotfix: there is no such environment"},
		{"it is of another rule", before, func(s *v1alpha1.RuleOverrideSpec) { s.Rule = "one-of-us" }, "approval_missing", "override_without_effect: hotfix/uid-of-hotfix: no enabled policy has this rule"},
		{"it holds still", day1, func(s *v1alpha1.RuleOverrideSpec) { s.ExpiresAt = day2.Add(time.Second) }, "started", ""},
		{"what a database writes for no date is no end", day1, func(s *v1alpha1.RuleOverrideSpec) { s.ExpiresAt = time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC) }, "started", ""},
		{"it has expired", day1, func(s *v1alpha1.RuleOverrideSpec) { s.ExpiresAt = day2 }, "approval_missing", ""},
		{"it expired before it was written: the rest of the fleet goes on without it", day2, func(s *v1alpha1.RuleOverrideSpec) { s.ExpiresAt = day1 }, "approval_missing", "override_without_effect: hotfix/uid-of-hotfix: it expires before it begins"},
		{"it was written in this second: it begins with the next one", day2, func(*v1alpha1.RuleOverrideSpec) {}, "approval_missing", ""},
		{"it expires in the second in which it was written", day2, func(s *v1alpha1.RuleOverrideSpec) { s.ExpiresAt = day2 }, "approval_missing", "override_without_effect: hotfix/uid-of-hotfix: it expires before it begins"},
	} {
		c := newFake(t, interceptor.Funcs{})
		h := approvals(t, c)
		rule, _, _ := strings.Cut(message(t, c, "node-0"), ":") // people know rules from there
		override := &v1alpha1.RuleOverride{Spec: v1alpha1.RuleOverrideSpec{Rule: rule, Deployment: "agent", Version: "v2", By: "ann", Reason: "INC-7"}}
		row.change(&override.Spec)
		create(t, c, written(override, "fleet", "hotfix", row.created))
		h.once()
		if got, planned := reason(t, c, "fleet", "node-0"), plannedIn(t, c, "fleet"); got != row.want || planned != row.planned {
			t.Errorf("%s: the machine says %s, want %s; the policy says %q, want %q", row.why, got, row.want, planned, row.planned)
		}
	}
}

// TestOverrideInTheSecondOfTheFailure: a job fails at once, and somebody forgives it in the same
// second. The server says only in which second that was, and the failure is forgiven all the same,
// once.
func TestOverrideInTheSecondOfTheFailure(t *testing.T) {
	c := newFake(t, interceptor.Funcs{})
	create(t, c, newPolicy("fleet", "once", []byte(`{"name":"once","selector":"true","rules":[{"id":"again","retry":{"maxRetries":0}}]}`)))
	create(t, c, inNamespace(&v1alpha1.NodeDeployment{}, "fleet", "agent"), newRelease("fleet", "agent", "v1", day1))
	create(t, c, inNamespace(&v1alpha1.Machine{Spec: v1alpha1.MachineSpec{Environment: "prod", JoinedAt: day1.AddDate(-1, 0, 0)}}, "fleet", "node-0"))
	h := newHost(t, c, "fleet", day2.Add(400*time.Millisecond))
	fail := func() {
		t.Helper()
		h.once()
		jobs := listJobs(t, c, "fleet")
		h.clock.Advance(100 * time.Millisecond)
		if err := report(t.Context(), c, &jobs[len(jobs)-1], rollout.JobFailure, h.clock.Now()); err != nil {
			t.Fatal(err)
		}
		h.once()
		if got := reason(t, c, "fleet", "node-0"); got != "retry_exhausted" {
			t.Fatalf("the machine says %s", got)
		}
	}
	fail()
	override := v1alpha1.RuleOverrideSpec{Rule: "again", Deployment: "agent", Version: "v1", By: "ann", Reason: "INC-7"}
	create(t, c, written(&v1alpha1.RuleOverride{Spec: override}, "fleet", "forgiven", day2)) // at 0.8 s
	wait := h.once()
	if h.clock.Advance(wait); !h.clock.Now().Equal(day2.Add(time.Second)) {
		t.Fatalf("it looks again at %v", h.clock.Now())
	}
	fail()
	h.clock.Advance(time.Hour)
	if h.once(); len(listJobs(t, c, "fleet")) != 2 {
		t.Errorf("one override forgives %v", starts(listJobs(t, c, "fleet")))
	}
}

// TestDecisionTakenBack: what a person has deleted does not count any more, even if a finalizer
// holds the object for as long as it likes.
func TestDecisionTakenBack(t *testing.T) {
	c := newFake(t, interceptor.Funcs{})
	for _, object := range []client.Object{
		&v1alpha1.ReleaseApproval{Spec: v1alpha1.ReleaseApprovalSpec{Deployment: "d", Version: "v", Environment: "e", By: "ann", Decision: rollout.Approved}},
		&v1alpha1.RuleOverride{Spec: v1alpha1.RuleOverrideSpec{Rule: "r", Deployment: "d", Version: "v", By: "ann", Reason: "why"}},
		&v1alpha1.DeploymentFreeze{Spec: v1alpha1.DeploymentFreezeSpec{Everything: true, By: "ann", Reason: "why"}},
		&v1alpha1.BracketCommand{Spec: v1alpha1.BracketCommandSpec{Command: bracket.Retry, Machine: "m", Group: "g", By: "ann", Reason: "why"}},
		&v1alpha1.BracketCommand{Spec: v1alpha1.BracketCommandSpec{Command: v1alpha1.CommandRelease, Machine: "m", Group: "g", By: "ann", Reason: "why"}},
	} {
		object = written(object, "fleet", "it", day1)
		object.SetFinalizers([]string{"example.com/audit"})
		create(t, c, object)
		count := func() int {
			t.Helper()
			d, err := decide(t.Context(), c, "fleet")
			if err != nil {
				t.Fatal(err)
			}
			return len(d.approvals) + len(d.overrides) + len(d.freezes) + len(d.commands) + len(d.released)
		}
		before := count()
		if err := c.Delete(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		if after := count(); before != 1 || after != 0 {
			t.Errorf("%T: %d decisions, and %d when it is being deleted, want 1 and 0", object, before, after)
		}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			t.Fatal(err)
		}
		object.SetFinalizers(nil)
		if err := c.Update(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
}

// TestUntilTheEnd: what an override or a freeze says of its end can be read again when it is the next
// instant of a plan: in UTC it may be in the year 10000, which no JSON has.
func TestUntilTheEnd(t *testing.T) {
	soon, last := time.Date(2199, 12, 31, 23, 59, 59, 0, time.UTC), time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
	for _, row := range []struct {
		until time.Time
		want  time.Time // when the policy says that it is planned next; zero: it does not say
	}{
		{soon, soon},
		{last, time.Time{}}, // nobody can plan then
		{last.In(time.FixedZone("", -5*60*60)).Add(5 * time.Hour), time.Time{}},
	} {
		for _, kind := range []string{"override", "freeze"} {
			c := newFake(t, interceptor.Funcs{})
			h := approvals(t, c)
			rule, _, _ := strings.Cut(message(t, c, "node-0"), ":")
			var object client.Object = &v1alpha1.RuleOverride{Spec: v1alpha1.RuleOverrideSpec{
				Rule: rule, Deployment: "agent", Version: "v1", By: "ann", Reason: "INC-7", ExpiresAt: row.until,
			}}
			if kind == "freeze" {
				object = newFreeze("fleet", "for-ever", func(s *v1alpha1.DeploymentFreezeSpec) { s.ExpiresAt = row.until })
			}
			create(t, c, written(object, "fleet", "for-ever", day1))
			h.once()
			var list v1alpha1.RolloutPolicyList
			if err := c.List(t.Context(), &list, client.InNamespace("fleet")); err != nil {
				t.Fatal(err)
			}
			if next := list.Items[0].Status.NextPlan; (next == nil) != row.want.IsZero() || next != nil && !next.Time.Equal(row.want) {
				t.Errorf("%s until %v: the next plan is at %v, want %v", kind, row.until, next, row.want)
			}
			if frozen := reason(t, c, "fleet", "node-0") == "frozen"; frozen != (kind == "freeze") {
				t.Errorf("%s until %v: the machine says %s", kind, row.until, message(t, c, "node-0"))
			}
		}
	}
}

// message returns what a machine of the fleet says in full.
func message(t *testing.T, c client.Client, machine string) string {
	t.Helper()
	return messageIn(t, c, "fleet", machine)
}

// messageIn is message for a machine of a namespace.
func messageIn(t *testing.T, c client.Client, namespace, machine string) string {
	t.Helper()
	var m v1alpha1.Machine
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: machine}, &m); err != nil {
		t.Fatal(err)
	}
	return meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionUpToDate).Message
}

// failed is the fleet of three of which one machine may be down at a time, after the first kubelet
// upgrade has failed for good. The others succeed. It returns the job.
func failed(t *testing.T, c client.Client) (*host, v1alpha1.NodeJob) {
	return failedJob(t, c, "kubelet-upgrade")
}

// failedJob is the same after the first job of a deployment has failed for good.
func failedJob(t *testing.T, c client.Client, deployment string) (*host, v1alpha1.NodeJob) {
	create(t, c, newFleet(t, "fleet", 3)...)
	h := newHost(t, c, "fleet", day2)
	first := ""
	h.outcome = func(job v1alpha1.NodeJob) rollout.JobStatus {
		if job.Spec.Deployment != deployment || first != "" && first != job.Name {
			return rollout.JobSuccessful
		}
		first = job.Name
		return rollout.JobFailure
	}
	h.run(day2.Add(time.Hour))
	for _, job := range listJobs(t, c, "fleet") {
		if job.Name == first {
			return h, job
		}
	}
	t.Fatal("nothing has failed")
	return nil, v1alpha1.NodeJob{}
}

func command(about v1alpha1.NodeJob, kind bracket.CommandKind, name string, at time.Time) *v1alpha1.BracketCommand {
	return written(&v1alpha1.BracketCommand{Spec: v1alpha1.BracketCommandSpec{
		Command: kind, Machine: about.Spec.Machine, Group: about.Spec.Group, By: "ann", Reason: "INC-7",
	}}, "fleet", name, at)
}

// TestCommands: a machine that a bracket holds because a job has failed for good waits for a person,
// and each command ends that wait in its way.
func TestCommands(t *testing.T) {
	for _, row := range []struct {
		kind      bracket.CommandKind
		own       []string       // the further jobs on the machine
		elsewhere int            // jobs on the two other machines
		reasons   map[string]int // what the machines say in the end
	}{
		{bracket.Retry, []string{"kubelet-upgrade", "node-uncordon"}, 10, map[string]int{"current": 3}},
		{bracket.Skip, []string{"node-uncordon"}, 10, map[string]int{"current": 2, "bracket_ended": 1}},
		{bracket.Resolve, nil, 10, map[string]int{"current": 2, "bracket_ended": 1}},
		{bracket.Abandon, nil, 0, map[string]int{"slot_full": 2, "bracket_ended": 1}}, // the slot is not free before somebody knows that the machine serves
		{v1alpha1.CommandRelease, nil, 0, map[string]int{"slot_full": 2, "bracket_failed_holding": 1}},
	} {
		t.Run(string(row.kind), func(t *testing.T) {
			c := newFake(t, interceptor.Funcs{})
			h, job := failed(t, c)
			before := len(listJobs(t, c, "fleet"))
			create(t, c, command(job, row.kind, "decided", h.clock.Now()))
			h.run(day2.Add(12 * time.Hour))
			var own []string
			elsewhere := 0
			for _, further := range listJobs(t, c, "fleet")[before:] {
				if further.Spec.Machine == job.Spec.Machine {
					own = append(own, further.Spec.Deployment)
				} else {
					elsewhere++
				}
			}
			reasons := map[string]int{}
			for i := range 3 {
				reasons[reason(t, c, "fleet", fmt.Sprint("node-", i))]++
			}
			if !slices.Equal(own, row.own) || elsewhere != row.elsewhere || fmt.Sprint(reasons) != fmt.Sprint(row.reasons) {
				t.Errorf("jobs %v there and %d elsewhere, the machines say %v; want %v, %d, %v", own, elsewhere, reasons, row.own, row.elsewhere, row.reasons)
			}
			if said := planned(t, c); strings.Contains(said, "command") {
				t.Errorf("the command has done its work, and the policy says %q", said)
			}
		})
	}
}

// TestCloseCommand: a bracket collects for a day. The policy names the group, and a command that
// names it in turn has the bracket begin at once. When it is over the command changes nothing.
func TestCloseCommand(t *testing.T) {
	t.Parallel()
	c, h := frozenFleet(t)
	status := func() v1alpha1.RolloutPolicyStatus {
		var policies v1alpha1.RolloutPolicyList
		if err := c.List(t.Context(), &policies, client.InNamespace(h.namespace)); err != nil {
			t.Fatal(err)
		}
		return policies.Items[0].Status
	}
	h.once()
	h.want("collecting", map[string]int{}, map[string]int{"bracket_collecting": 3})
	groups := status().Collecting
	if len(groups) != 1 || !strings.HasSuffix(groups[0], "/1") || len(status().Queue) > 0 {
		t.Fatalf("the policy says %+v", status())
	}
	order := inNamespace(&v1alpha1.BracketCommand{Spec: v1alpha1.BracketCommandSpec{Command: bracket.Close, Group: groups[0], By: "ann", Reason: "CVE-2026-1"}}, h.namespace, "now")
	create(t, c, order)
	h.once()
	if jobs := listJobs(t, c, h.namespace); len(jobs) != 1 || jobs[0].Spec.CreatedAt.After(h.clock.Now()) {
		t.Errorf("%d jobs", len(jobs))
	}
	if now := status(); len(now.Collecting) > 0 || len(now.Queue) != 2 || !strings.HasSuffix(now.Queue[0], ", for one-at-a-time") {
		t.Errorf("two wait for the slot of the third, and none collects: %+v", now)
	}
	h.run(h.clock.Now().Add(24 * time.Hour))
	h.want("done", allDone, map[string]int{"current": 3})
	if now := status(); len(now.Queue) > 0 {
		t.Errorf("nobody waits any more: %+v", now)
	}
	if says := plannedIn(t, c, h.namespace); says != "" {
		t.Errorf("the policy says %q", says)
	}
}

// TestFailedMachineBeingDeleted: a machine that is being deleted does not hide that its bracket, which
// has begun, waits for a person. Until somebody decides it holds its slot, and the others wait.
func TestFailedMachineBeingDeleted(t *testing.T) {
	c := newFake(t, interceptor.Funcs{})
	h, job := failed(t, c)
	var machine v1alpha1.Machine
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "fleet", Name: job.Spec.Machine}, &machine); err != nil {
		t.Fatal(err)
	}
	machine.Finalizers = []string{"example.com/provider"}
	if err := errors.Join(c.Update(t.Context(), &machine), c.Delete(t.Context(), &machine)); err != nil {
		t.Fatal(err)
	}
	h.once()
	if got := reason(t, c, "fleet", machine.Name); got != "bracket_failed_holding" {
		t.Errorf("the machine says %s", got)
	}
	create(t, c, command(job, bracket.Resolve, "serves", h.clock.Now()))
	h.run(day2.Add(12 * time.Hour))
	create(t, c, newRelease("fleet", "os-patch", "2026-04", h.clock.Now()))
	h.run(h.clock.Now().Add(30 * time.Hour))
	if got := reason(t, c, "fleet", machine.Name); got != "being_deleted" {
		t.Errorf("after its bracket, with the next release, the machine says %s", got)
	}
}

// TestReleaseCommand: the slot of an abandoned machine counts until a person says that the machine
// serves again, and may say so before. A job that is still at work there keeps the slot.
func TestReleaseCommand(t *testing.T) {
	c := newFake(t, interceptor.Funcs{})
	h, job := failed(t, c)
	create(t, c, command(job, v1alpha1.CommandRelease, "serves", h.clock.Now()))
	h.once()
	late := inNamespace(&v1alpha1.NodeJob{Spec: job.Spec}, "fleet", "late")
	late.Spec.Run, late.Spec.Turn = strings.Replace(job.Spec.Run, "/1/1/", "/1/2/", 1), job.Spec.Turn+1
	if create(t, c, late); late.Spec.Run == job.Spec.Run {
		t.Fatalf("%s has no second attempt", job.Spec.Run)
	}
	create(t, c, command(job, bracket.Abandon, "given-up", h.clock.Now()))
	before := len(listJobs(t, c, "fleet"))
	for range 3 {
		h.once()
	}
	if jobs := listJobs(t, c, "fleet"); len(jobs) != before {
		t.Errorf("while a job of the execution is active others start: %v", starts(jobs[before:]))
	}
	if err := report(t.Context(), c, late, rollout.JobFailure, h.clock.Now()); err != nil {
		t.Fatal(err)
	}
	h.run(day2.Add(12 * time.Hour))
	if further := len(listJobs(t, c, "fleet")) - before; further != 10 {
		t.Errorf("%d jobs on the other machines, want 10", further)
	}
	var records v1alpha1.PlannerStateList
	if err := c.List(t.Context(), &records, client.InNamespace("fleet")); err != nil {
		t.Fatal(err)
	}
	for _, record := range records.Items {
		if strings.Contains(record.Spec.Value, `"quarantined"`) {
			t.Errorf("a slot is left: %s", record.Spec.Value)
		}
	}
}

// says returns the reason and the message of what a command of the fleet says of itself.
func says(t *testing.T, c client.Client, name string) string {
	t.Helper()
	var order v1alpha1.BracketCommand
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "fleet", Name: name}, &order); err != nil {
		t.Fatal(err)
	}
	said := meta.FindStatusCondition(order.Status.Conditions, v1alpha1.ConditionEffective)
	if said == nil {
		return ""
	}
	return string(said.Status) + " " + said.Reason + ": " + said.Message
}

// TestReleaseCommandWithoutEffect: whoever writes a release with a wrong name, or too early, or twice,
// reads on it what is wrong, and what waits for a release. One that has done its work goes on saying
// so.
func TestReleaseCommandWithoutEffect(t *testing.T) {
	c := newFake(t, interceptor.Funcs{})
	h, job := failed(t, c)
	var open *v1alpha1.NodeJob // a further attempt, which was created elsewhere
	const early = "early"
	create(t, c, command(job, v1alpha1.CommandRelease, early, h.clock.Now()))
	h.once()
	if got, want := says(t, c, early), "False command_waits: the execution of "+job.Spec.Group+" on "+job.Spec.Machine+" has not ended: there is nothing to release before somebody has abandoned it"; got != want {
		t.Errorf("before the execution has ended it says\n%q, want\n%q", got, want)
	}
	open = inNamespace(&v1alpha1.NodeJob{Spec: job.Spec}, "fleet", "late")
	open.Spec.Run, open.Spec.Turn = strings.Replace(job.Spec.Run, "/1/1/", "/1/2/", 1), job.Spec.Turn+1
	create(t, c, open, command(job, bracket.Abandon, "given-up", h.clock.Now()))
	wrong := func(name string, change func(*v1alpha1.BracketCommandSpec)) {
		order := command(job, v1alpha1.CommandRelease, name, h.clock.Now())
		change(&order.Spec)
		create(t, c, order)
	}
	another := "node-0"
	if job.Spec.Machine == another {
		another = "node-1"
	}
	wrong("other-machine", func(s *v1alpha1.BracketCommandSpec) { s.Machine = another })
	wrong("no-machine", func(s *v1alpha1.BracketCommandSpec) { s.Machine = "node-33" })
	wrong("other-group", func(s *v1alpha1.BracketCommandSpec) { s.Group = strings.TrimSuffix(s.Group, "1") + "2" })
	wrong("no-group", func(s *v1alpha1.BracketCommandSpec) { s.Group = "Node Lifecycle" })
	h.once()
	h.once()
	waits := "; these wait for a release: machine " + job.Spec.Machine + " with group " + job.Spec.Group
	checks := []struct{ name, want string }{
		{early, "False command_waits: a job of " + job.Spec.Group + " on " + job.Spec.Machine + " has not ended: its slot is given back when it has"},
		{"given-up", "True applied: "},
		{"other-machine", "False command_without_effect: " + another + " holds no slot of an abandoned execution of " + job.Spec.Group + ": it was given back before, or the command names another machine or group" + waits},
		{"no-machine", "False command_without_effect: there is no machine node-33, or it is not seen yet" + waits},
		{"other-group", "False command_without_effect: " + job.Spec.Machine + " holds no slot of an abandoned execution of " + strings.TrimSuffix(job.Spec.Group, "1") + "2: it was given back before, or the command names another machine or group" + waits},
		{"no-group", "False command_without_effect: Node Lifecycle is the id of no group" + waits},
	}
	check := func(when string) {
		t.Helper()
		for _, row := range checks {
			if got := says(t, c, row.name); got != row.want {
				t.Errorf("%s %s says\n%q, want\n%q", when, row.name, got, row.want)
			}
		}
	}
	check("while a job is active")
	if err := report(t.Context(), c, open, rollout.JobFailure, h.clock.Now()); err != nil {
		t.Fatal(err)
	}
	checks[0].want = "True given_back: the slots of " + job.Spec.Group + " on " + job.Spec.Machine
	h.once()
	if got := says(t, c, early); got != checks[0].want {
		t.Errorf("it has given the slot back, and says %q", got)
	}
	h.run(day2.Add(12 * time.Hour))
	for i := 2; i < len(checks); i++ {
		checks[i].want = strings.TrimSuffix(checks[i].want, waits) + "; no slot waits for a release"
	}
	check("in the end")
	if said := planned(t, c); strings.Contains(said, "command") {
		t.Errorf("the commands that the planner hears have done their work, and the policy says %q", said)
	}
}

// TestReleaseCommandSaysItLater: the server does not take at once what a release says that has done
// its work, because the cache is behind. It is said in a later turn, and not taken back by a
// controller that knows nothing of it.
func TestReleaseCommandSaysItLater(t *testing.T) {
	refused := 0
	c := newFake(t, interceptor.Funcs{SubResourcePatch: func(ctx context.Context, c client.Client, sub string, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
		if order, ok := object.(*v1alpha1.BracketCommand); ok && refused < 2 && meta.IsStatusConditionTrue(order.Status.Conditions, v1alpha1.ConditionEffective) && order.Spec.Command == v1alpha1.CommandRelease {
			refused++
			return apierrors.NewConflict(schema.GroupResource{Resource: "bracketcommands"}, order.Name, errors.New("an old version"))
		}
		return c.SubResource(sub).Patch(ctx, object, patch, options...)
	}})
	h, job := failed(t, c)
	create(t, c, command(job, bracket.Abandon, "given-up", h.clock.Now()), command(job, v1alpha1.CommandRelease, "serves", h.clock.Now()))
	for range 4 {
		h.once()
	}
	if got, want := says(t, c, "serves"), "True given_back: the slots of "+job.Spec.Group+" on "+job.Spec.Machine; got != want || refused != 2 {
		t.Errorf("after %d conflicts it says %q, want %q", refused, got, want)
	}
	h.reconcile = (&Reconciler{Client: c, Server: c, Clock: h.clock}).Reconcile
	if h.once(); !strings.HasPrefix(says(t, c, "serves"), "True given_back: ") {
		t.Errorf("after a new controller has planned it says %q", says(t, c, "serves"))
	}
}

// TestReleaseCommandForUnseenMachine: of a machine that the cache does not show, a plan sees no
// jobs and counts none. So its slot is not given back: a job of the execution may still be at work
// there. The job of a deployment that the cache does not show counts, with a slot or without.
func TestReleaseCommandForUnseenMachine(t *testing.T) {
	for _, unseen := range []string{"machine", "deployment"} {
		c := newFake(t, interceptor.Funcs{})
		h, job := failed(t, c)
		late := inNamespace(&v1alpha1.NodeJob{Spec: job.Spec}, "fleet", "late")
		late.Spec.Run, late.Spec.Turn = strings.Replace(job.Spec.Run, "/1/1/", "/1/2/", 1), job.Spec.Turn+1
		create(t, c, late, command(job, bracket.Abandon, "given-up", h.clock.Now()), command(job, v1alpha1.CommandRelease, "serves", h.clock.Now()))
		h.once()
		before := len(listJobs(t, c, "fleet"))
		cache := interceptor.NewClient(c, interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
				err := c.List(ctx, list, options...)
				switch list := list.(type) {
				case *v1alpha1.MachineList:
					list.Items = slices.DeleteFunc(list.Items, func(m v1alpha1.Machine) bool { return unseen == "machine" && m.Name == job.Spec.Machine })
				case *v1alpha1.NodeDeploymentList:
					list.Items = slices.DeleteFunc(list.Items, func(d v1alpha1.NodeDeployment) bool { return unseen == "deployment" && d.Name == job.Spec.Deployment })
				}
				return err
			},
		})
		h.reconcile = (&Reconciler{Client: cache, Server: c, Clock: h.clock}).Reconcile
		for range 3 {
			h.once()
		}
		if jobs := listJobs(t, c, "fleet"); len(jobs) != before {
			t.Errorf("while a job is active on %s, of which the cache does not show the %s, others start: %v", job.Spec.Machine, unseen, starts(jobs[before:]))
		}
		if got, want := says(t, c, "serves"), "there is no machine "+job.Spec.Machine+", or it is not seen yet"; strings.Contains(got, want) != (unseen == "machine") {
			t.Errorf("of an unseen %s it says %q", unseen, got)
		}
	}
}

// TestReleaseCommandSparesClaims: the slot that a controller claimed for a bracket is not one that
// an execution left behind. The controller may only sleep, with the start in hand.
func TestReleaseCommandSparesClaims(t *testing.T) {
	died := errors.New("died")
	orphans := 0
	for n, alive := 0, false; !alive; n++ {
		writes := 0
		alive = true
		c := newFake(t, interceptor.Funcs{})
		create(t, c, newFleet(t, "fleet", 3)...)
		h := newHost(t, c, "fleet", day1)
		h.run(day2.Add(-time.Second))
		h.clock.Set(day2)
		mortal := interceptor.NewClient(c, failing(func() error {
			if writes++; writes > n {
				alive = false
				return died
			}
			return nil
		}))
		if _, err := (&Reconciler{Client: mortal, Server: mortal, Clock: h.clock}).Reconcile(t.Context(), h.request()); err != nil && !errors.Is(err, died) {
			t.Fatal(err)
		}
		for _, object := range newFleet(t, "fleet", 0) {
			if release, ok := object.(*v1alpha1.Release); ok && !release.Spec.PublishedAt.Before(day1) {
				if err := c.Delete(t.Context(), release); err != nil {
					t.Fatal(err)
				}
			}
		}
		h.once()
		lost := regexp.MustCompile(`orphan: (\S+) holds a slot of \S.* for (\S.*/prod/1) with`).FindStringSubmatch(planned(t, c))
		if lost == nil {
			continue
		}
		orphans++
		claim := v1alpha1.NodeJob{Spec: v1alpha1.NodeJobSpec{Machine: lost[1], Group: lost[2]}}
		create(t, c, command(claim, v1alpha1.CommandRelease, "mine", day2))
		for range 3 {
			h.once()
		}
		if said := planned(t, c); !strings.Contains(said, lost[0]) {
			t.Errorf("after write %d the slot of %s is given back: %q", n, lost[1], said)
		}
	}
	if orphans == 0 {
		t.Error("no controller left a slot behind")
	}
}

// planned returns what the policy of the fleet says of the last plan.
func planned(t *testing.T, c client.Client) string {
	t.Helper()
	return plannedIn(t, c, "fleet")
}

// plannedIn is planned for the only policy of a namespace.
func plannedIn(t *testing.T, c client.Client, namespace string) string {
	t.Helper()
	var list v1alpha1.RolloutPolicyList
	if err := c.List(t.Context(), &list, client.InNamespace(namespace)); err != nil || len(list.Items) != 1 {
		t.Fatalf("%d policies, %v", len(list.Items), err)
	}
	return meta.FindStatusCondition(list.Items[0].Status.Conditions, v1alpha1.ConditionPlanned).Message
}

// TestCommandWithoutEffect: a command that does not apply is named, and a new object is a new
// command although it has the old name.
func TestCommandWithoutEffect(t *testing.T) {
	c := newFake(t, interceptor.Funcs{})
	h, job := failed(t, c)
	if said := message(t, c, job.Spec.Machine); !strings.Contains(said, job.Spec.Group) {
		t.Errorf("the machine does not name the group %s: %q", job.Spec.Group, said)
	}
	wrong := command(job, bracket.Retry, "again", h.clock.Now())
	wrong.Spec.Deployment = "os-patch" // which has succeeded
	create(t, c, wrong)
	for turn := range 3 { // only the first one hears it, and people look later
		h.once()
		const code, id = "command_without_effect: ", "again/uid-of-again: "
		said := planned(t, c)
		if strings.Count(said, code+id) != 1 {
			t.Errorf("turn %d: the policy says %q", turn, said)
		}
		if _, why, _ := strings.Cut(said, id); says(t, c, "again") != "False "+code+why || why == "" {
			t.Errorf("turn %d: the policy says %q, and the command %q", turn, said, says(t, c, "again"))
		}
	}
	if err := c.Delete(t.Context(), wrong); err != nil {
		t.Fatal(err)
	}
	right := command(job, bracket.Retry, "again", h.clock.Now())
	right.UID = "another"
	create(t, c, right)
	h.run(day2.Add(12 * time.Hour))
	if got := reason(t, c, "fleet", job.Spec.Machine); got != "current" {
		t.Errorf("the machine says %s", got)
	}
	if got := says(t, c, "again"); got != "True applied: " {
		t.Errorf("the command says %q", got)
	}
}

// TestCommandSeenFirst: a command may come from the cache before the failure that it answers. It is
// heard once, so it must not be refused for that.
func TestCommandSeenFirst(t *testing.T) {
	c := newFake(t, interceptor.Funcs{})
	h, job := failed(t, c)
	asked := 0
	server := interceptor.NewClient(c, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			var asks client.ListOptions
			asks.ApplyOptions(options)
			if _, jobs := list.(*v1alpha1.NodeJobList); jobs && asks.FieldSelector == nil {
				asked++
			}
			return c.List(ctx, list, options...)
		},
	})
	cache := interceptor.NewClient(c, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			err := c.List(ctx, list, options...)
			if jobs, ok := list.(*v1alpha1.NodeJobList); ok {
				for i := range jobs.Items {
					if jobs.Items[i].Name == job.Name {
						jobs.Items[i].Status = v1alpha1.NodeJobStatus{State: rollout.JobInProgress}
					}
				}
			}
			return err
		},
	})
	h.reconcile = (&Reconciler{Client: cache, Server: server, Clock: h.clock, Resync: 10_000 * time.Hour}).Reconcile
	for range 3 {
		h.once()
	}
	if asked != 0 {
		t.Errorf("without a command the server was asked for its jobs %d times", asked)
	}
	create(t, c, command(job, bracket.Retry, "again", h.clock.Now()))
	for range 3 {
		h.once()
	}
	if asked != 1 {
		t.Errorf("for one command the server was asked for its jobs %d times in three plans, want once", asked)
	}
	attempts := 0
	for _, other := range listJobs(t, c, "fleet") {
		if other.Spec.Machine == job.Spec.Machine && other.Spec.Deployment == job.Spec.Deployment {
			attempts++
		}
	}
	if said := planned(t, c); attempts != 2 || strings.Contains(said, "command") {
		t.Errorf("%d attempts, want 2; the policy says %q", attempts, said)
	}
}

// TestCloseSeenFirst: a command that closes a group may come from the cache before the release that it
// is given for. The group closes once, so it must not close without that.
func TestCloseSeenFirst(t *testing.T) {
	c := newFake(t, interceptor.Funcs{})
	create(t, c, newFleet(t, "fleet", 3)...)
	h := newHost(t, c, "fleet", day2.Add(-time.Hour))
	h.once()
	var policies v1alpha1.RolloutPolicyList
	if err := c.List(t.Context(), &policies, client.InNamespace("fleet")); err != nil || len(policies.Items[0].Status.Collecting) != 1 {
		t.Fatalf("%+v, %v", policies, err)
	}
	group := policies.Items[0].Status.Collecting[0]
	asked, behind := 0, true
	server := interceptor.NewClient(c, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if _, releases := list.(*v1alpha1.ReleaseList); releases {
				asked++
			}
			return c.List(ctx, list, options...)
		},
	})
	cache := interceptor.NewClient(c, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			err := c.List(ctx, list, options...)
			if releases, ok := list.(*v1alpha1.ReleaseList); ok {
				releases.Items = slices.DeleteFunc(releases.Items, func(r v1alpha1.Release) bool { return behind && r.Spec.Version == "fix" })
			}
			return err
		},
	})
	h.reconcile = (&Reconciler{Client: cache, Server: server, Clock: h.clock, Resync: 10_000 * time.Hour}).Reconcile
	h.once()
	if asked != 0 {
		t.Errorf("without a command the server was asked for its releases %d times", asked)
	}
	create(t, c, newRelease("fleet", "kubelet-upgrade", "fix", h.clock.Now()),
		written(&v1alpha1.BracketCommand{Spec: v1alpha1.BracketCommandSpec{Command: bracket.Close, Group: group, By: "ann", Reason: "CVE"}}, "fleet", "now", h.clock.Now()))
	h.once()
	if asked != 1 {
		t.Errorf("for one command the server was asked for its releases %d times, want once", asked)
	}
	behind = false
	h.run(day2.Add(12 * time.Hour))
	fixed := 0
	for _, job := range listJobs(t, c, "fleet") {
		if job.Spec.Version == "fix" {
			fixed++
		}
	}
	if fixed != 3 {
		t.Errorf("%d machines have got the fix, want 3", fixed)
	}
}

// TestDecisionsOnServer: what a server returns of them is what was written, under an id of its own
// and with the instant of its creation.
func TestDecisionsOnServer(t *testing.T) {
	c, namespace := newClient(t, sharedServer(t)), newNamespace()
	approval := inNamespace(&v1alpha1.ReleaseApproval{Spec: v1alpha1.ReleaseApprovalSpec{Deployment: "d", Version: "v", Environment: "e", By: "ann", Decision: rollout.Approved}}, namespace, "a")
	override := inNamespace(&v1alpha1.RuleOverride{Spec: v1alpha1.RuleOverrideSpec{Rule: "r", Deployment: "d", Version: "v", Environment: "e", Machine: "m", By: "ann", Reason: "why", ExpiresAt: time.Now().Add(time.Hour).UTC()}}, namespace, "o")
	order := inNamespace(&v1alpha1.BracketCommand{Spec: v1alpha1.BracketCommandSpec{Command: bracket.Skip, Machine: "m", Group: "g", Deployment: "d", By: "ann", Reason: "why"}}, namespace, "c")
	freeze := inNamespace(&v1alpha1.DeploymentFreeze{Spec: v1alpha1.DeploymentFreezeSpec{Deployment: "d", Environment: "e", Machine: "m", FinishBegun: true, By: "ann", Reason: "why", ExpiresAt: time.Now().Add(time.Hour).UTC()}}, namespace, "f")
	pause := inNamespace(&v1alpha1.DeploymentFreeze{Spec: v1alpha1.DeploymentFreezeSpec{Everything: true, PauseCurves: true, By: "ben", Reason: "INC"}}, namespace, "p")
	create(t, c, approval, override, freeze, pause, order)
	got, err := decide(t.Context(), c, namespace)
	if err != nil || len(got.orders) != 1 || got.orders[0].UID != order.UID {
		t.Fatal(err, got.orders)
	}
	got.orders = nil
	want := decisions{
		[]rollout.Approval{{Version: "v", Deployment: "d", Environment: "e", By: "ann", Status: rollout.Approved, At: approval.CreationTimestamp.Time}},
		[]rollout.Override{{
			ID: "o/" + string(override.UID), Rule: "r", Version: "v", Deployment: "d", Environment: "e", Resource: "m",
			CreatedAt: override.CreationTimestamp.Add(time.Second), ExpiresAt: override.Spec.ExpiresAt, CreatedBy: "ann", Reason: "why",
		}},
		[]rollout.Freeze{{
			ID: "f", Deployment: "d", Environment: "e", Resource: "m", FinishBegun: true,
			CreatedAt: freeze.CreationTimestamp.Time, ExpiresAt: freeze.Spec.ExpiresAt, CreatedBy: "ann", Reason: "why",
		}, {ID: "p", PauseCurves: true, CreatedAt: pause.CreationTimestamp.Time, CreatedBy: "ben", Reason: "INC"}},
		[]bracket.Command{{ID: "c/" + string(order.UID), Kind: bracket.Skip, Group: "g", Resource: "m", Deployment: "d", By: "ann", Reason: "why", At: order.CreationTimestamp.Time}},
		map[concurrency.Holder]bool{}, nil, nil,
	}
	if !reflect.DeepEqual(got, want) || approval.CreationTimestamp.IsZero() || override.UID == "" {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestCommandInREADME: the server takes the command that the README shows.
func TestCommandInREADME(t *testing.T) {
	text := between(t, "README.md", "```yaml\n", "```")
	var shown v1alpha1.BracketCommand
	if err := yaml.UnmarshalStrict([]byte(text), &shown); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	shown.Namespace = newNamespace()
	create(t, newClient(t, sharedServer(t)), &shown)
	if rule, _, _, ok := bracket.ParseGroupID(shown.Spec.Group); !ok || rule != "Node Lifecycle/deploymentBracket/0" {
		t.Errorf("the group is of rule %q", rule)
	}
}
