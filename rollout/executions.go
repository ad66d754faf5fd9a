package rollout

import (
	"maps"
	"slices"
	"strings"

	"github.com/tranche-dev/tranche/bracket"
)

// executions holds the records of executions as the brackets stepped so far left them. An execution
// belongs to its resource, so the environments of a rule have the records of common resources in
// common. Most resources are in one environment: their records are of no concern to the others, of
// which there may be many. So it is with records about environments that the snapshot lacks. If
// there is only one environment, nothing is divided.
type executions struct {
	own    map[ruleAt][]*bracket.ExecutionRecord // by rule and environment: of resources that are nowhere else, about nothing else
	unseen map[string][]*bracket.ExecutionRecord // by rule: of resources without a target, about no environment of the snapshot
	common map[string][]*bracket.ExecutionRecord // by rule: all others
	away   map[ruleIn][]string                   // as openAway returns it; nil before that
}

type ruleAt struct {
	rule        string
	environment int32
}

// divide divides the records of the state.
func (w *work) divide(list []*bracket.ExecutionRecord) {
	w.executions = executions{own: map[ruleAt][]*bracket.ExecutionRecord{}, unseen: map[string][]*bracket.ExecutionRecord{}, common: map[string][]*bracket.ExecutionRecord{}}
	for rule, records := range byRule(list) {
		if len(w.environments) < 2 {
			w.executions.common[rule] = records
			continue
		}
		resource := 0
		for _, record := range records {
			resource = seek(len(w.resources), resource, func(k int) bool { return w.resources[k].ID < record.Resource })
			at, somewhere := int32(none), false
			if resource < len(w.resources) && w.resources[resource].ID == record.Resource {
				at, somewhere = w.onlyIn(int32(resource))
			}
			switch in := (ruleAt{rule, at}); {
			case at != none && tellsOnly(record, func(environment string) bool { return environment == w.environments[at].ID }):
				w.executions.own[in] = append(w.executions.own[in], record)
			case !somewhere && w.isUnseen(record):
				w.executions.unseen[rule] = append(w.executions.unseen[rule], record)
			default:
				w.executions.common[rule] = append(w.executions.common[rule], record)
			}
		}
	}
}

// onlyIn returns the one environment that a resource is in; none if there are several, or none at
// all. somewhere reports whether there are any.
func (w *work) onlyIn(resource int32) (at int32, somewhere bool) {
	at = none
	for from := range w.everywhere(resource) {
		if at != none {
			return none, true
		}
		at = w.targets[from].environment
	}
	return at, at != none
}

// isUnseen reports whether nothing that a record tells is of an environment of the snapshot.
func (w *work) isUnseen(record *bracket.ExecutionRecord) bool {
	return tellsOnly(record, func(environment string) bool {
		_, known := w.environment(environment)
		return !known
	})
}

// tellsOnly reports whether all that a record tells is of environments that are as asked.
func tellsOnly(record *bracket.ExecutionRecord, is func(environment string) bool) bool {
	for environment := range record.Last {
		if !is(environment) {
			return false
		}
	}
	return record.Open == nil || is(record.Open.Environment)
}

// endedIn returns the execution that ended last in an environment; the zero value if none did.
func endedIn(record *bracket.ExecutionRecord, environment string) bracket.EndedExecution {
	if last := record.Last[environment]; last != nil {
		return *last
	}
	return bracket.EndedExecution{}
}

// executionsIn returns the records of a rule that concern an environment, in order of their
// resources.
func (w *work) executionsIn(rule string, environment int32) []*bracket.ExecutionRecord {
	common, own := w.executions.common[rule], w.executions.own[ruleAt{rule, environment}]
	if len(common) == 0 {
		return own
	}
	return withExecutions(common, own)
}

func byResource(record *bracket.ExecutionRecord, resource string) int {
	return strings.Compare(record.Resource, resource)
}

// keepExecutions takes the records of executionsIn back, after a step. It has changed some of them,
// and added those of resources that the environment has.
func (w *work) keepExecutions(rule string, environment int32, list []*bracket.ExecutionRecord) {
	in := ruleAt{rule, environment}
	common, own := w.executions.common[rule], w.executions.own[in]
	switch {
	case len(w.environments) < 2, len(own) == 0 && len(list) == len(common):
		w.executions.common[rule] = list
		return
	case len(common) == 0 && len(list) == len(own):
		w.executions.own[in] = list
		return
	}
	was := func(records *[]*bracket.ExecutionRecord, resource string) bool {
		is := len(*records) > 0 && (*records)[0].Resource == resource
		if is {
			*records = (*records)[1:]
		}
		return is
	}
	var nextCommon, nextOwn []*bracket.ExecutionRecord
	for _, record := range list {
		ours := was(&own, record.Resource)
		if !ours && !was(&common, record.Resource) { // it is new
			if r, known := w.resource(record.Resource); known {
				at, _ := w.onlyIn(r)
				ours = at == environment
			}
		}
		if ours {
			nextOwn = append(nextOwn, record)
		} else {
			nextCommon = append(nextCommon, record)
		}
	}
	w.executions.common[rule], w.executions.own[in] = nextCommon, nextOwn
}

// withExecutions returns a list of records with others in it, which take the place of those of the
// same rule and resource. Both lists are in order, and neither is modified.
func withExecutions(records, others []*bracket.ExecutionRecord) []*bracket.ExecutionRecord {
	if len(others) == 0 {
		return records
	}
	all := make([]*bracket.ExecutionRecord, 0, len(records)+len(others))
	for _, record := range others {
		k, replaces := slices.BinarySearchFunc(records, record, compareExecutions)
		all = append(append(all, records[:k]...), record)
		if records = records[k:]; replaces {
			records = records[1:]
		}
	}
	return append(all, records...)
}

// execution returns the record of a rule on a resource, or nil.
func (w *work) execution(rule, resource string) *bracket.ExecutionRecord {
	if len(w.environments) > 1 {
		if r, known := w.resource(resource); known {
			if at, _ := w.onlyIn(r); at != none {
				if record := executionOn(w.executions.own[ruleAt{rule, at}], resource); record != nil {
					return record
				}
			}
		}
	}
	if record := executionOn(w.executions.common[rule], resource); record != nil {
		return record
	}
	return executionOn(w.executions.unseen[rule], resource)
}

// executionOn returns the record of a resource among those of one rule, or nil.
func executionOn(records []*bracket.ExecutionRecord, resource string) *bracket.ExecutionRecord {
	k, known := slices.BinarySearchFunc(records, resource, byResource)
	if !known {
		return nil
	}
	return records[k]
}

// open returns the bracket's open execution on a resource, or nil.
func (b *bracketWork) open(resource string) *bracket.Execution {
	record := executionOn(b.state.Executions, resource)
	if record == nil {
		return nil
	}
	return record.Open
}

// all lists the records of all rules, by rule and resource.
func (x executions) all() []*bracket.ExecutionRecord {
	parts := slices.Collect(maps.Values(x.common))
	parts = slices.AppendSeq(parts, maps.Values(x.unseen))
	parts = slices.AppendSeq(parts, maps.Values(x.own))
	list := slices.Concat(parts...)
	slices.SortFunc(list, compareExecutions)
	return list
}
