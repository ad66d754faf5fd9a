package staged

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/internal/strictjson"
)

// OCMStrategy is the rolloutStrategy of Open Cluster Management, field by field. It is decoded
// strictly.
type OCMStrategy struct {
	Type OCMType `json:"type,omitempty"` // selects one of the three fields below; the others must be nil
	// All, Progressive and ProgressivePerGroup are the fields of the type of the same name. Nil
	// means the defaults.
	All                 *OCMConfig `json:"all,omitempty"`
	Progressive         *OCMConfig `json:"progressive,omitempty"`
	ProgressivePerGroup *OCMConfig `json:"progressivePerGroup,omitempty"`
}

// OCMType is a type of strategy of Open Cluster Management. Empty means All.
type OCMType string

// The strategies of Open Cluster Management.
const (
	OCMAll                 OCMType = "All"                 // all clusters at once
	OCMProgressive         OCMType = "Progressive"         // at most maxConcurrency clusters at a time
	OCMProgressivePerGroup OCMType = "ProgressivePerGroup" // one decision group at a time
)

// OCMConfig holds the fields of one type of strategy. A field that the type does not have is an
// error.
type OCMConfig struct {
	// MinSuccessTime and ProgressDeadline are digits and one of the units s, m and h, or sums of
	// these. ProgressDeadline may also be "None". Empty means 0 for MinSuccessTime and None for
	// ProgressDeadline. Type All has no soak and ignores MinSuccessTime, as Open Cluster Management
	// does.
	MinSuccessTime   string `json:"minSuccessTime,omitempty"`
	ProgressDeadline string `json:"progressDeadline,omitempty"`
	// MaxFailures is how many clusters may fail, of all clusters for Progressive and of each group
	// for ProgressivePerGroup; a percentage is of the same clusters. Unset means 0. MaxFailures
	// does not apply to mandatory groups, which tolerate no failure. Type All ignores it and
	// tolerates any number.
	MaxFailures concurrency.Limit `json:"maxFailures,omitzero"`
	// MandatoryDecisionGroups go first, one by one. Type All does not have them.
	MandatoryDecisionGroups []MandatoryGroup `json:"mandatoryDecisionGroups,omitempty"`
	// MaxConcurrency is how many clusters outside the mandatory groups are rolled out at a time;
	// unset means all. Only type Progressive has it.
	MaxConcurrency concurrency.Limit `json:"maxConcurrency,omitzero"`
}

// MandatoryGroup identifies the decision groups with a name, or with an index if the name is empty.
type MandatoryGroup struct {
	GroupName  string `json:"groupName,omitempty"`
	GroupIndex int32  `json:"groupIndex,omitempty"`
}

// DecisionGroup is a group of clusters that a placement decided on. It is decoded strictly.
type DecisionGroup struct {
	Name     string   `json:"name,omitempty"` // may be empty, or shared by several groups
	Index    int32    `json:"index"`          // as the placement numbers it
	Clusters []string `json:"clusters"`       // names; each cluster is in one group
}

// UnmarshalJSON reads the form of Open Cluster Management. All faults are reported, joined, each a
// *[FieldError], and the strategy is then unchanged.
func (s *OCMStrategy) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		return nil
	}
	type plain OCMStrategy
	var decoded plain
	if err := strictjson.Unmarshal(data, &decoded); err != nil {
		return decodeFaults("", remedied(err, ocmRemedy))
	}
	*s = OCMStrategy(decoded)
	return nil
}

// ocmRemedy says what to write instead of what Open Cluster Management had in its proposals and
// first versions, and where a field belongs that stands elsewhere.
func ocmRemedy(fault *strictjson.Error) {
	around, name, inside := strings.Cut(fault.Path, ".")
	switch {
	case strings.HasPrefix(name, "mandatoryDecisionGroups[") && strings.HasSuffix(name, "]"):
		fault.Hint += ": write its name as groupName"
	case fault.Code != strictjson.CodeUnknownField: // such as the second one of a field that is given twice
	case fault.Path == "rolloutType":
		fault.Hint = "unknown field: write type"
	case fault.Path == "rolloutStrategy":
		fault.Hint = "unknown field: decode what is below it"
	case fault.Path == "spec": // the document is a whole ManifestWorkReplicaSet or ClusterManagementAddOn
		fault.Hint = "unknown field: decode what is below a rolloutStrategy in it"
	case inside && name == "timeout":
		fault.Hint = "unknown field: write progressDeadline"
	case !inside && slices.Contains([]string{"minSuccessTime", "progressDeadline", "maxFailures", "maxConcurrency", "mandatoryDecisionGroups", "timeout"}, around):
		fault.Hint = "unknown field; it stands below all, progressive or progressivePerGroup"
	}
}

// UnmarshalJSON reads a group strictly. All faults are reported, joined, each a *[FieldError], and
// the group is then unchanged.
func (g *DecisionGroup) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		return &FieldError{Code: CodeType, Hint: "null is not a group: remove the entry"}
	}
	type plain DecisionGroup
	return inputFaults(strictjson.Unmarshal(data, (*plain)(g)))
}

// UnmarshalJSON reads one of the three configurations, as strictly as the strategy. Paths begin at
// the configuration if it is read alone.
func (c *OCMConfig) UnmarshalJSON(data []byte) error {
	type plain OCMConfig
	var decoded struct {
		plain
		MaxFailures    padded `json:"maxFailures"`
		MaxConcurrency padded `json:"maxConcurrency"`
	}
	if err := strictjson.Unmarshal(data, &decoded); err != nil {
		return partFaults("progressive", err)
	}
	*c = OCMConfig(decoded.plain)
	c.MaxFailures, c.MaxConcurrency = concurrency.Limit(decoded.MaxFailures), concurrency.Limit(decoded.MaxConcurrency)
	return nil
}

// FromOCM turns a strategy of Open Cluster Management into stages with explicit targets. groups are
// the decision groups of its placement, in order. Pass both results to [Compile], with the clusters
// as targets. There may be more than 31 stages. Compile refuses so many of a strategy that was
// decoded from JSON: store what the stages are made from instead. They are:
//
//	All                  one stage for all, without limit or budget
//	mandatory groups     one stage each, in the order of groups, all its clusters at once; no failure is allowed
//	Progressive          behind them one stage for all other clusters, by name; maxConcurrency is a share of these, maxFailures of all clusters
//	ProgressivePerGroup  behind them one stage per other group, all its clusters at once; maxFailures is a share of each group
//
// No stage has groups of its own by GroupBy: those limit what is in progress in each of them at the
// same time, and ProgressivePerGroup has one decision group after another.
//
// The options make the stages do what the strategy promises: percentages round up, and a run over
// its budget is held. A stage without clusters is skipped.
//
// The states of Open Cluster Management correspond to those of a target: ToApply is Waiting,
// Progressing is Updating, Succeeded is Done or, during minSuccessTime, Soaking, TimeOut is
// TimedOut, and Skip is Skipped. Observe a cluster that is Failed there with [HealthFailed], or
// with [HealthFailing] if it may still recover.
//
// The field progressDeadline becomes that of the same name, and so does minSuccessTime except for
// All. If they are absent, they are None and 0. The run differs from Open Cluster Management's
// library in these points:
//
//	library                                                      run
//	maxFailures negative, or above the number of clusters, is 0  below 0 is an error; too big stays, and does not bind
//	failures behind the filled slots are not counted             all are counted
//	a timed-out cluster lets the next group start too early      a stage ends when all its clusters are settled
//	a tolerated failure behind the first group ends the rollout  the next group starts
//	a gap in the indexes of groups loses a group                 groups go in the order given
//	without a time in the status, a soak or deadline never ends  the run records its own times
//	maxConcurrency 0, negative or too big means all              absent means all; below 1 is an error; too big has no effect
//	a mandatory group that does not exist is passed over         it is an error
//	a timed-out cluster of a mandatory group holds back nobody   the run is held
//	behind mandatory groups, slots are filled when all are free  each is filled at once
//	a failed cluster keeps its slot and may yet succeed          it is settled; while it may recover, it is failing
//	a failed cluster counts while it may yet succeed             a failing one counts from its deadline on
//	progressDeadline 0s times out what is not ready at once      it is an error
//	a cluster that joins the placement has its turn              it is ignored, or goes last
//	a cluster that leaves the placement counts no longer         a failed one counts until it is skipped; percentages stay
//	an edit of the strategy applies at once                      it is for the next run
//	the next check looks at the clusters being rolled out        at all
//
// The stages list their clusters by name, so that none of them matches a cluster that joins the
// placement during the run: Options.Added at Append takes it only with Options.Unmatched at Last.
// The run then has one more stage behind all others, where one cluster at a time is rolled out and
// no failure is allowed. Otherwise the cluster is for the next run, in which those that are ready at
// the version are done without a start. What leaves the placement, which the library returns as
// removed, belongs in Input.Leaving or Input.Removed.
//
// The errors, each a *[FieldError], are joined.
func FromOCM(strategy OCMStrategy, groups []DecisionGroup) (Strategy, Options, error) {
	var list faults
	field, config := strategy.config(&list)
	deadline := ocmDuration(&list, field+".progressDeadline", config.ProgressDeadline)
	soak := ocmDuration(&list, field+".minSuccessTime", config.MinSuccessTime)
	if soak == None() {
		list.add(CodeDuration, field+".minSuccessTime", strconv.Quote("None"), "must be a duration, or 0")
	}
	limit(&list, CodeMaxFailures, field+".maxFailures", config.MaxFailures, 0)
	if most := config.MaxConcurrency; !most.IsZero() && most.Value() == 0 { // a client written in Go stores it where its user sets none
		list.add(CodeMaxConcurrency, field+".maxConcurrency", strictjson.Value(most), limitHint(1)+"; leave it out for all clusters, which is what 0 means to Open Cluster Management")
	} else {
		limit(&list, CodeMaxConcurrency, field+".maxConcurrency", most, 1)
	}
	total := clusters(&list, groups)
	mandatory := config.mandatory(&list, field, groups)
	if len(list) > 0 {
		return Strategy{}, Options{}, list.err()
	}

	everything := concurrency.Percent(100)
	s := Strategy{groups: true, ProgressDeadline: deadline, MinSuccessTime: soak}
	add := func(name string, targets []string, most, budget concurrency.Limit) {
		s.Stages = append(s.Stages, Stage{Name: name, Targets: slices.Sorted(slices.Values(targets)), MaxConcurrency: most, MaxFailures: budget})
	}
	group := func(i int) string { return "group" + strconv.Itoa(i) }
	var rest []string
	for i := range groups {
		if mandatory[i] {
			add(group(i), groups[i].Clusters, everything, concurrency.Count(0))
		} else {
			rest = append(rest, groups[i].Clusters...)
		}
	}
	budget := cmp.Or(config.MaxFailures, concurrency.Count(0))
	switch strategy.kind() {
	case OCMAll:
		s.MinSuccessTime = Duration{}
		add("all", rest, everything, everything)
	case OCMProgressive:
		add("rest", rest, cmp.Or(config.MaxConcurrency, everything), concurrency.Count(budget.Of(total, concurrency.Ceil)))
	default:
		for i := range groups {
			if !mandatory[i] {
				add(group(i), groups[i].Clusters, everything, budget)
			}
		}
	}
	if len(s.Stages) == 0 {
		add("all", nil, everything, everything) // without groups, a run may still remove leaving clusters
	}
	return s, Options{Rounding: Up, OnFailure: Hold}, nil
}

func (s *OCMStrategy) kind() OCMType { return cmp.Or(s.Type, OCMAll) }

// config returns the name and the fields of the strategy's type, and reports the fields of other
// types.
func (s *OCMStrategy) config(list *faults) (string, OCMConfig) {
	field, config := "", OCMConfig{}
	known := false
	for _, one := range []struct {
		kind   OCMType
		field  string
		config *OCMConfig
	}{{OCMAll, "all", s.All}, {OCMProgressive, "progressive", s.Progressive}, {OCMProgressivePerGroup, "progressivePerGroup", s.ProgressivePerGroup}} {
		if one.kind == s.kind() {
			known, field = true, one.field
			if one.config != nil {
				config = *one.config
			}
		} else if one.config != nil {
			list.add(CodeOCMType, one.field, "", fmt.Sprintf("must be left out for type %s", s.kind()))
		}
	}
	if !known {
		list.add(CodeOCMType, "type", strconv.Quote(string(s.Type)), "must be "+strictjson.Choice(OCMAll, OCMProgressive, OCMProgressivePerGroup))
		return "type", config
	}
	if s.kind() == OCMAll && config.MandatoryDecisionGroups != nil {
		list.add(CodeOCMType, field+".mandatoryDecisionGroups", "", "must be left out for type All")
	}
	if s.kind() != OCMProgressive && !config.MaxConcurrency.IsZero() {
		list.add(CodeOCMType, field+".maxConcurrency", config.MaxConcurrency.String(), "must be left out for every type but Progressive")
	}
	return field, config
}

// mandatory reports for each group whether it goes first.
func (c *OCMConfig) mandatory(list *faults, field string, groups []DecisionGroup) []bool {
	exist, meant := map[MandatoryGroup]bool{}, map[MandatoryGroup]bool{}
	for _, g := range groups {
		exist[MandatoryGroup{GroupIndex: g.Index}] = true
		if g.Name != "" {
			exist[MandatoryGroup{GroupName: g.Name}] = true
		}
	}
	for i, m := range c.MandatoryDecisionGroups {
		is := m
		if m.GroupName != "" {
			is.GroupIndex = 0 // the name alone counts
		}
		if meant[is] = true; !exist[is] {
			list.add(CodeDecisionGroup, fmt.Sprintf("%s.mandatoryDecisionGroups[%d]", field, i), fmt.Sprintf("%q, index %d", m.GroupName, m.GroupIndex),
				"must be one of the decision groups: what is mandatory must not be passed over")
		}
	}
	first := make([]bool, len(groups))
	for i, g := range groups {
		first[i] = meant[MandatoryGroup{GroupIndex: g.Index}] || g.Name != "" && meant[MandatoryGroup{GroupName: g.Name}]
	}
	return first
}

// clusters counts the clusters. It reports invalid names, and clusters that are in more than one
// group.
func clusters(list *faults, groups []DecisionGroup) int {
	in := map[string]int{}
	for i := range groups {
		for k, name := range groups[i].Clusters {
			path := fmt.Sprintf("groups[%d].clusters[%d]", i, k)
			if !targetName(name) {
				list.add(CodeDecisionGroup, path, strconv.Quote(name), hintName)
			} else if other, ok := in[name]; ok {
				list.add(CodeDecisionGroup, path, strconv.Quote(name), fmt.Sprintf("is in groups[%d] already", other))
			}
			in[name] = i
		}
	}
	return len(in)
}

// ocmDuration reads a duration whose first number may have leading zeros.
func ocmDuration(list *faults, path, text string) Duration {
	if text == "" {
		return Duration{}
	}
	digits := digitsOf(text)
	canonical := strings.TrimLeft(digits, "0")
	if canonical == "" && digits != "" {
		canonical = "0"
	}
	isDeadline := strings.HasSuffix(path, "progressDeadline")
	d, err := ParseDuration(canonical + text[len(digits):])
	if fault := (*FieldError)(nil); errors.As(err, &fault) {
		hint := fault.Hint
		if !isDeadline {
			hint = hintWithoutNone(hint)
		}
		if hint == hintDuration {
			hint = "must be digits and one of the units s, m and h, such as 90m"
		}
		list.add(CodeDuration, path, strconv.Quote(text), hint)
	}
	if length, given := d.Value(); given && length == 0 && isDeadline {
		list.add(CodeDuration, path, strconv.Quote(text), "must be more than zero, or None")
	}
	return d
}

// padded is a limit whose percentage may have two digits with a leading 0, such as "05%", as both
// designs allow for some fields.
type padded concurrency.Limit

func (p *padded) UnmarshalJSON(data []byte) error {
	if len(data) == 5 && data[0] == '"' && data[1] == '0' && data[3] == '%' {
		data = append([]byte{'"'}, data[2:]...)
	}
	return (*concurrency.Limit)(p).UnmarshalJSON(data)
}
