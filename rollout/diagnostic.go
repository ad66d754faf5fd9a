package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/tranche-dev/tranche/internal/textlist"
)

// DiagnosticCode says what kind of oddity a plan met.
type DiagnosticCode string

const (
	DiagnosticMissingKey            DiagnosticCode = "missing_key"             // an expression read a key that is not there: no match
	DiagnosticSelectorError         DiagnosticCode = "selector_error"          // an expression failed: the target is held
	DiagnosticVersionCycle          DiagnosticCode = "version_cycle"           // versions that wait for one another and never start
	DiagnosticScopeInvalid          DiagnosticCode = "scope_invalid"           // the targetSelector of a version fails
	DiagnosticScopeMissingKey       DiagnosticCode = "scope_missing_key"       // the targetSelector of a version reads a key that is not there
	DiagnosticOverrideWithoutEffect DiagnosticCode = "override_without_effect" // an override of a rule that no policy has, of a bracket, of what the snapshot does not hold, or of a rule where it governs no target; Detail says which
	DiagnosticFreezeWithoutEffect   DiagnosticCode = "freeze_without_effect"   // a freeze of what the snapshot does not hold: it freezes nothing; Detail says what does not exist
	DiagnosticUnknownRun            DiagnosticCode = "unknown_run"             // a job carries the run id of a group that the state does not know

	// DiagnosticCommandWithoutEffect is about a command, which Detail names by its id. Either the
	// command names an execution that has not begun, does not exist, or was merged into that of
	// another group: correct the group and the resource, see the Group of an [Explanation]. Or the
	// command did not apply to the execution when a plan first received it, such as a retry of a
	// member that had not failed. It is not tried again, and is reported for as long as it is
	// listed and the execution goes on: give another command under another id. A command to close a
	// group is reported if there has been no such group yet, and while the group goes on
	// collecting, because none of its versions may be deployed or its environment is not listed:
	// then the command closes it as soon as that has changed.
	DiagnosticCommandWithoutEffect DiagnosticCode = "command_without_effect"

	// DiagnosticJobStatusUnknown is about a status of jobs, in Detail, that is none of the
	// [JobStatus] values. Jobs with that status count as active, for ever if the status is meant to
	// say that they have ended. A host with its own words for jobs in progress reports them as
	// [JobInProgress], or ignores the diagnostic.
	DiagnosticJobStatusUnknown DiagnosticCode = "job_status_unknown"

	// DiagnosticVerificationUnknown is about a verification of jobs, in Detail, that is not empty and
	// none of the [Verification] values, such as "ok". It counts as neither passed nor failed, for
	// ever if it is meant to say that it is over: a progression that requires verification and a
	// cooldown pass over the job, and a rollback rule and a failure budget never see it fail. A host
	// with its own words for verifications in progress reports them as [VerificationRunning], or
	// ignores the diagnostic.
	DiagnosticVerificationUnknown DiagnosticCode = "verification_unknown"

	// DiagnosticApprovalStatusUnknown is about a status of approvals, in Detail, that is neither
	// [Approved] nor [Rejected]. Such an approval approves nothing. Example names the environment
	// and the deployment of the first one.
	DiagnosticApprovalStatusUnknown DiagnosticCode = "approval_status_unknown"

	// DiagnosticApprovalWithoutEffect is about approvals for an environment or a deployment, in
	// Detail, that the snapshot does not list: probably the name stands where the id belongs. Such
	// an approval approves nothing.
	DiagnosticApprovalWithoutEffect DiagnosticCode = "approval_without_effect"

	// DiagnosticActiveWithoutEffect is about jobs in Snapshot.Active under the key, in Detail, of no
	// pool that has members: they count nowhere. The key may be misspelt, or that of a rule or a
	// label value that has gone. [PolicySet.PoolKeys] lists the keys that there are. Example names
	// the resource of the first one.
	DiagnosticActiveWithoutEffect DiagnosticCode = "active_without_effect"

	// DiagnosticExecutionUnseen is about an open execution, which Detail names by its group. The
	// snapshot lacks its resource, its environment, or the target of a run in progress. The plan
	// cannot tell how the execution ends, so it stays open and keeps its slots. It goes on once
	// what is missing is back; it ends if its resource is listed in DeletedResources, or if an
	// operator gives it up ([bracket.Abandon]) or ends it ([bracket.Resolve]).
	DiagnosticExecutionUnseen DiagnosticCode = "execution_unseen"
)

// Diagnostic is an oddity that did not prevent the plan. Equal ones are counted, not repeated. A plan
// reports what it met: the gates of a rollout that has begun, for example, are not asked again.
type Diagnostic struct {
	Code    DiagnosticCode `json:"code"`
	Rule    string         `json:"rule,omitempty"`
	Detail  string         `json:"detail"`           // the key that is missing, the text of the error, the status or verification, the key of a pool, what an approval names, or the id of the override, freeze or command and why it has no effect
	Count   int            `json:"count"`            // how many targets, resources, deployments in an environment, jobs or approvals
	Example TargetID       `json:"example,omitzero"` // the first of them
}

// String returns the diagnostic on one line.
func (d Diagnostic) String() string {
	text := string(d.Code)
	if d.Rule != "" {
		text += " [" + textlist.Name(d.Rule) + "]"
	}
	text += ": " + textlist.Name(d.Detail)
	switch { // a status that is not given has no name
	case d.Detail != "":
	case d.Code == DiagnosticJobStatusUnknown:
		return text + "a job without a status counts as active" + d.where()
	case d.Code == DiagnosticApprovalStatusUnknown:
		return text + "an approval without a status does not count" + d.where()
	}
	switch d.Code { // the detail of these codes is a bare name, which programs look for
	case DiagnosticExecutionUnseen:
		text += " is open where the snapshot holds nothing, and keeps its slots"
	case DiagnosticJobStatusUnknown:
		text += " is no known status, so such a job counts as active"
	case DiagnosticVerificationUnknown:
		text += " is no known verification, so such a job counts as neither passed nor failed"
	case DiagnosticApprovalStatusUnknown:
		text += " is no known status, so such an approval does not count"
	case DiagnosticActiveWithoutEffect:
		text += " is the key of no pool that has members, so what is active under it does not count"
	case DiagnosticUnknownRun:
		text += " is of a group that the state does not know"
	}
	return text + d.where()
}

// where says how often it was met, and where first.
func (d Diagnostic) where() string {
	where := d.Example.String()
	switch {
	case d.Count > 1 && where != "":
		return fmt.Sprintf(" (%d times, such as %s)", d.Count, where)
	case d.Count > 1:
		return fmt.Sprintf(" (%d times)", d.Count)
	case where != "":
		return fmt.Sprintf(" (%s)", where)
	}
	return ""
}

type diagnosticKey struct {
	code         DiagnosticCode
	rule, detail string
}

// diagnosedAt is one thing that a diagnostic counts.
type diagnosedAt struct {
	diagnosticKey
	at TargetID
}

// diagnoseOnce is diagnose where the same may be met at one thing again.
func (w *work) diagnoseOnce(code DiagnosticCode, rule, detail string, at TargetID) {
	one := diagnosedAt{diagnosticKey{code, rule, detail}, at}
	if w.met[one] {
		return
	}
	put(&w.met, one, true)
	w.diagnose(code, rule, detail, at)
}

func (w *work) diagnose(code DiagnosticCode, rule, detail string, at TargetID) {
	w.diagnoseAll(code, rule, detail, at, 1)
}

// diagnoseAll is diagnose for so many things, of which at is the first.
func (w *work) diagnoseAll(code DiagnosticCode, rule, detail string, at TargetID, count int) {
	key := diagnosticKey{code, rule, detail}
	d, ok := w.diagnostics[key]
	if !ok {
		d = &Diagnostic{Code: code, Rule: rule, Detail: detail, Example: at}
		put(&w.diagnostics, key, d)
	}
	d.Count += count
}

// strangeJobs adds a diagnostic for each job status and each verification that is not known.
func (w *work) strangeJobs() {
	if !w.strange {
		return
	}
	for i := range w.targets {
		for k := range w.targets[i].Jobs {
			job := &w.targets[i].Jobs[k]
			if status := job.Status; !status.Terminal() && !status.active() {
				w.diagnose(DiagnosticJobStatusUnknown, "", string(status), w.id(int32(i)))
			}
			if !job.Verification.known() {
				w.diagnose(DiagnosticVerificationUnknown, "", string(job.Verification), w.id(int32(i)))
			}
		}
	}
}

func (w *work) diagnosed() []Diagnostic {
	list := make([]Diagnostic, 0, len(w.diagnostics))
	for _, d := range w.diagnostics {
		list = append(list, *d)
	}
	slices.SortFunc(list, func(a, b Diagnostic) int {
		return cmp.Or(cmp.Compare(a.Code, b.Code), strings.Compare(a.Rule, b.Rule), strings.Compare(a.Detail, b.Detail))
	})
	return list
}
