package bracket

import (
	"slices"
	"strings"

	"github.com/tranche-dev/tranche/internal/instant"
)

// adopt opens executions of the latest group whose first run was dispatched but never committed,
// and lists the runs that belong to no known group or member as Unknown.
func (s *step) adopt() {
	v := s.view
	var created []*ExecutionRecord
	records := s.state.Executions
	for lo := 0; lo < len(v.runs); {
		resource, hi := v.runs[lo].Run.Resource, lo+1
		for hi < len(v.runs) && v.runs[hi].Run.Resource == resource {
			hi++
		}
		for len(records) > 0 && records[0].Resource < resource {
			records = records[1:]
		}
		var record *ExecutionRecord
		if len(records) > 0 && records[0].Resource == resource {
			record = records[0]
		}
		if adopted := s.adoptOn(resource, record, v.runs[lo:hi]); adopted != nil {
			created = append(created, adopted)
		}
		lo = hi
	}
	slices.SortFunc(s.plan.Unknown, func(a, b Run) int { return strings.Compare(a.String(), b.String()) })
	s.state.Executions = withRecords(s.state.Executions, created)
	s.listChanged = len(created) > 0
	if s.listChanged && v.latest.Status != StatusCancelled { // as Commit does: setStatuses does not see this group if another one closes in this step
		s.state.Group = s.state.Group.withLatest(StatusExecuting)
	}
}

// adoptOn does so on one resource: facts are its runs, and record is nil if it has none. It returns
// the record of the execution that it opens, or nil.
func (s *step) adoptOn(resource string, record *ExecutionRecord, facts []RunFact) *ExecutionRecord {
	v := s.view
	fresh := s.unopened(record, resource)
	var open *Execution
	for _, f := range facts { // before anything is unknown: the run that opens the execution may not be the first of its runs
		if fresh < 0 || f.Run.Group != v.latest.ID || !v.latest.firstRun(f.Run, v, fresh) {
			continue
		}
		if open == nil {
			open = v.freeze(v.latest, fresh, utc(v.now), func(deployment string) bool {
				return slices.ContainsFunc(facts, func(f RunFact) bool { return f.Run.Group == v.latest.ID && f.Run.Deployment == deployment })
			})
		}
		if !instant.Unset(f.StartedAt) {
			earlier(&open.StartedAt, utc(f.StartedAt))
		}
	}
	for _, f := range facts {
		known := true
		switch run := f.Run; {
		case record != nil && record.Open != nil && record.Open.Group == run.Group:
			known = record.Open.member(run.Deployment) >= 0 || run.Generation < record.Open.Generation // a merge may have dropped the member since
		case fresh < 0 || run.Group != v.latest.ID:
			known = s.knownGroup(run.Group)
		default:
			known = open != nil && open.member(run.Deployment) >= 0
		}
		if !known {
			s.plan.Unknown = append(s.plan.Unknown, f.Run)
		}
	}
	if open == nil {
		return nil
	}
	s.event(Event{Kind: ExecutionStarted, Group: open.Group, Resource: resource, At: open.StartedAt, Status: StatusExecuting})
	adopted := &ExecutionRecord{Schema: schema, Rule: v.id, Resource: resource, Open: open}
	if record != nil {
		adopted.Last = record.Last
	}
	return adopted
}

// unopened returns the index of the resource if the latest group could still open an execution
// there, else -1.
func (s *step) unopened(record *ExecutionRecord, resource string) int32 {
	if s.view.latest == nil || record != nil && (record.Open != nil || record.Last[s.view.environment].includes(s.view.latest.ID)) {
		return -1
	}
	return s.view.locate(resource)
}

// knownGroup reports whether id names a group that this rule has closed in this environment.
func (s *step) knownGroup(id string) bool {
	g := s.state.Group
	n := groupNumber(g.Rule, g.Environment, id)
	return n > 0 && n <= g.Number && (g.Collecting == nil || g.Collecting.ID != id)
}
