package surge

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/internal/strictjson"
)

// ParsePodCliqueSet reads a PodCliqueSet as Grove nests it, in JSON: a whole manifest, or {"spec":
// …} alone. Cliques that no scaling group names are standalone components and come first; scaling
// groups follow. Both are in the order of the document.
//
// Where the design of the update strategy and the released API differ, both forms are read. The
// counts of a clique are beside its name, or below its spec. The budgets of a component are its
// updateStrategy or its rollingUpdate. The maxUnavailable of a rollingUpdate is a count from 1, and
// counts as at most the replicas; its progressDeadline is ignored, because it only reports. The
// type RollingRecreate means [RollingUpdate]; OnDelete and Coherent are errors. Defaults are those
// of Grove: replicas 1, but 0 for the set; minAvailable the replicas for a clique, 1 for a scaling
// group. Fields of the API that do not influence an update, such as pod specs, are not looked into.
// Nor are those of autoscalers: the number of replicas that they have set belongs in the Replicas of
// [Units]. A field that Grove does not know is an error.
//
// The result is validated. All faults are reported, joined, each a *[FieldError] with its path in
// the document, such as spec.template.cliques[1].updateStrategy.maxSurge. If the kind is that of
// something else, only that is reported; if values have the wrong form, only these faults are;
// otherwise violations of rules. The warnings are those of [SetSpec.Warnings], also with paths in
// the document.
func ParsePodCliqueSet(data []byte) (SetSpec, []Warning, error) {
	var document manifest
	if filled, err := strictjson.Salvage(data, &document); err != nil {
		var list faults
		if filled && !document.checkKind(&list) { // what is wrong with the spec of something else does not matter
			return SetSpec{}, nil, list.err()
		}
		for _, fault := range strictjson.Faults(err) {
			switch {
			case fault.Code != strictjson.CodeUnknownField: // such as the second one of a field that is given twice
			case slices.Contains([]string{"replicas", "updateStrategy", "partition", "paused", "template"}, fault.Path):
				fault.Hint = "unknown field: its place is below spec"
			case strings.HasSuffix(fault.Path, "].updateStrategy.type") || strings.HasSuffix(fault.Path, "].updateStrategy.rollingUpdate"):
				fault.Hint = "unknown field: the updateStrategy of a component holds maxUnavailable and maxSurge themselves; only spec.updateStrategy has a type"
			}
			if strings.HasPrefix(fault.Path, "spec.template.") && strings.HasSuffix(fault.Path, ".rollingUpdate.maxUnavailable") && strings.Contains(fault.Hint, "%") {
				fault.Hint = hintReleased // that of a limit names 0 and percentages, which are refused next
			}
			list.add(fault.Path, Code(fault.Code), fault.Value, hintOf(fault))
		}
		return SetSpec{}, nil, list.err()
	}
	return document.spec()
}

// hintReleased says what the maxUnavailable of a component's rollingUpdate may be.
const hintReleased = "must be a count from 1 to 2147483647; percentages belong into updateStrategy"

type manifest struct {
	APIVersion any          `json:"apiVersion"`
	Kind       string       `json:"kind"`
	Metadata   any          `json:"metadata"`
	Status     any          `json:"status"`
	Spec       *manifestSet `json:"spec"`
}

type manifestSet struct {
	Replicas       int               `json:"replicas"`
	UpdateStrategy *manifestStrategy `json:"updateStrategy"`
	Partition      int               `json:"partition"`
	Paused         bool              `json:"paused"`
	Template       struct {
		Cliques       []manifestClique `json:"cliques"`
		ScalingGroups []manifestGroup  `json:"podCliqueScalingGroups"`

		StartupType            any `json:"cliqueStartupType"`
		PriorityClassName      any `json:"priorityClassName"`
		HeadlessService        any `json:"headlessServiceConfig"`
		TopologyConstraint     any `json:"topologyConstraint"`
		TerminationDelay       any `json:"terminationDelay"`
		ResourceClaimTemplates any `json:"resourceClaimTemplates"`
		ResourceSharing        any `json:"resourceSharing"`
	} `json:"template"`
}

// manifestStrategy is SetUpdateStrategy with optional fields. To Kubernetes, null means absent: it is
// what YAML makes of a field whose value, or whose lines, are all commented out.
type manifestStrategy struct {
	Type          *StrategyType   `json:"type"`
	RollingUpdate *UpdateStrategy `json:"rollingUpdate"`
}

func (m *manifestStrategy) strategy() SetUpdateStrategy {
	if m == nil {
		return SetUpdateStrategy{}
	}
	var s SetUpdateStrategy
	if m.Type != nil {
		s.Type = *m.Type
	}
	if m.RollingUpdate != nil {
		s.RollingUpdate = *m.RollingUpdate
	}
	return s
}

type manifestCounts struct {
	Replicas     *int `json:"replicas"`
	MinAvailable *int `json:"minAvailable"`
}

// manifestRolling is what the released API has instead of an update strategy.
type manifestRolling struct {
	MaxUnavailable   concurrency.Limit `json:"maxUnavailable"`
	ProgressDeadline any               `json:"progressDeadline"`
}

type manifestClique struct {
	manifestCounts
	Name           string           `json:"name"`
	UpdateStrategy *UpdateStrategy  `json:"updateStrategy"`
	RollingUpdate  *manifestRolling `json:"rollingUpdate"`
	Spec           *struct {
		manifestCounts
		RollingUpdate     *manifestRolling `json:"rollingUpdate"`
		RoleName          any              `json:"roleName"`
		PodSpec           any              `json:"podSpec"`
		StartsAfter       any              `json:"startsAfter"`
		AutoScalingConfig any              `json:"autoScalingConfig"`
	} `json:"spec"`

	Labels             any `json:"labels"`
	Annotations        any `json:"annotations"`
	TopologyConstraint any `json:"topologyConstraint"`
	ResourceSharing    any `json:"resourceSharing"`
}

type manifestGroup struct {
	manifestCounts
	Name           string           `json:"name"`
	CliqueNames    []string         `json:"cliqueNames"`
	UpdateStrategy *UpdateStrategy  `json:"updateStrategy"`
	RollingUpdate  *manifestRolling `json:"rollingUpdate"`

	ScaleConfig        any `json:"scaleConfig"`
	Annotations        any `json:"annotations"`
	TopologyConstraint any `json:"topologyConstraint"`
	TerminationDelay   any `json:"terminationDelay"`
	ResourceSharing    any `json:"resourceSharing"`
}

// place is where a component or a clique is in the document, and where its fields are.
type place struct {
	path string
	at   fields
}

// checkKind reports whether the document is what it should be, if it says what it is.
func (m manifest) checkKind(faults *faults) bool {
	if m.Kind == "" || m.Kind == "PodCliqueSet" {
		return true
	}
	hint := `must be "PodCliqueSet"`
	if strings.HasSuffix(m.Kind, "List") { // what kubectl writes of several objects
		hint += ": read each item of a list by itself"
	}
	faults.add("kind", CodeUnknownValue, strconv.Quote(m.Kind), hint)
	return false
}

func (m manifest) spec() (SetSpec, []Warning, error) {
	var faults faults
	if !m.checkKind(&faults) {
		return SetSpec{}, nil, faults.err()
	}
	if m.Spec == nil {
		// Without the spec there would be no replicas, and a plan for that deletes everything.
		faults.add("spec", CodeRequired, "", "must be given: it holds the replicas and the template")
		return SetSpec{}, nil, faults.err()
	}
	template, strategy := m.Spec.Template, m.Spec.UpdateStrategy.strategy()
	if strategy.Type == rollingRecreate {
		strategy.Type = RollingUpdate
	}
	spec := SetSpec{Replicas: m.Spec.Replicas, UpdateStrategy: strategy, Partition: m.Spec.Partition, Paused: m.Spec.Paused}

	cliques := cliquesOf(template.Cliques, &faults)
	var groups []Component
	var groupPlaces []place
	var members [][]place
	for i, g := range template.ScalingGroups {
		c, own, inside := cliques.grouped(g, fmt.Sprintf("spec.template.podCliqueScalingGroups[%d]", i), spec.recreate(), &faults)
		groups, groupPlaces, members = append(groups, c), append(groupPlaces, own), append(members, inside)
	}

	var at []place
	for i, c := range cliques.list {
		if cliques.group[i] == "" {
			rolling, path := template.Cliques[i].rolling(cliques.places[i].path)
			spec.Components = append(spec.Components, Component{
				Name: c.Name, Kind: PodClique, Replicas: c.Replicas, MinAvailable: c.MinAvailable,
				UpdateStrategy: rolling.strategy(path, c.Replicas, c.UpdateStrategy, spec.recreate(), &faults)})
			at = append(at, cliques.places[i])
		}
	}
	standalone := len(at)
	spec.Components, at = append(spec.Components, groups...), append(at, groupPlaces...)
	document := paths{
		set:       "spec.",
		component: func(i int) (string, fields) { return at[i].path, at[i].at },
		clique: func(i, j int) (string, fields) {
			return members[i-standalone][j].path, members[i-standalone][j].at
		},
	}
	spec.validate(&faults, document)
	if err := faults.err(); err != nil {
		return SetSpec{}, nil, err
	}
	return spec, spec.warnings(document), nil
}

// cliques are those of a template, by index.
type cliques struct {
	written []manifestClique
	list    []Clique
	places  []place
	group   []string       // the path of the group that names the clique; empty if none does
	named   map[string]int // the first clique of each name: two with one name are a fault
}

func cliquesOf(written []manifestClique, faults *faults) *cliques {
	n := len(written)
	all := &cliques{written: written, list: make([]Clique, n), places: make([]place, n), group: make([]string, n), named: make(map[string]int, n)}
	for i, c := range written {
		all.list[i], all.places[i] = c.clique(fmt.Sprintf("spec.template.cliques[%d]", i), faults)
		if _, twice := all.named[c.Name]; !twice {
			all.named[c.Name] = i
		}
	}
	return all
}

// grouped returns the component that a scaling group is, its place, and those of its members.
func (all *cliques) grouped(g manifestGroup, path string, recreate bool, faults *faults) (c Component, own place, members []place) {
	c = Component{Name: g.Name, Kind: PodCliqueScalingGroup, Replicas: or(g.Replicas, 1), MinAvailable: or(g.MinAvailable, 1)}
	c.UpdateStrategy = g.RollingUpdate.strategy(path+".rollingUpdate", c.Replicas, g.UpdateStrategy, recreate, faults)
	for j, name := range g.CliqueNames {
		at := fmt.Sprintf("%s.cliqueNames[%d]", path, j)
		k, known := all.named[name]
		switch {
		case !known:
			faults.add(at, CodeUnknownValue, strconv.Quote(name), "is not a clique of the template")
		case all.group[k] != "":
			faults.add(at, CodeDuplicate, strconv.Quote(name), "is a member of "+all.group[k]+" already")
		default:
			all.group[k] = path
			if rolling, at := all.written[k].rolling(all.places[k].path); rolling != nil {
				faults.add(at, CodeConflict, "", fmt.Sprintf("must be left out: the clique is updated with its scaling group, %q", g.Name))
			}
			c.Cliques = append(c.Cliques, all.list[k])
			members = append(members, all.places[k])
		}
	}
	budgets := path + ".updateStrategy."
	if g.RollingUpdate != nil && g.UpdateStrategy == nil { // of both, the strategy counts
		budgets = path + ".rollingUpdate."
	}
	return c, place{path, below(path+".", budgets)}, members
}

// clique reads the counts of a clique, each from one of its two places.
func (c manifestClique) clique(path string, faults *faults) (Clique, place) {
	inSpec := manifestCounts{}
	if c.Spec != nil {
		inSpec = c.Spec.manifestCounts
	}
	written := map[string]string{}
	count := func(name string, beside, below *int) *int {
		written[name] = path + "." + name
		if c.Spec != nil && beside == nil {
			written[name] = path + ".spec." + name
			return below
		}
		if beside != nil && below != nil {
			faults.add(written[name], CodeConflict, strconv.Itoa(*beside), "is given in spec, too")
		}
		return beside
	}
	replicas := or(count("replicas", c.Replicas, inSpec.Replicas), 1)
	minAvailable := or(count("minAvailable", c.MinAvailable, inSpec.MinAvailable), max(replicas, 0))
	budgets := path + ".updateStrategy."
	if rolling, at := c.rolling(path); rolling != nil {
		if c.UpdateStrategy == nil { // of both, the strategy counts
			budgets = at + "."
		}
		if c.RollingUpdate != nil && c.Spec != nil && c.Spec.RollingUpdate != nil {
			faults.add(at, CodeConflict, "", "is given in spec, too")
		}
	}
	at := func(name string) string {
		if path, ok := written[name]; ok {
			return path
		}
		return budgets + name
	}
	return Clique{Name: c.Name, Replicas: replicas, MinAvailable: minAvailable, UpdateStrategy: c.UpdateStrategy}, place{path, at}
}

// rolling returns the budget in the form of the released API from one of its two places, with its
// path.
func (c manifestClique) rolling(path string) (*manifestRolling, string) {
	if c.RollingUpdate == nil && c.Spec != nil {
		return c.Spec.RollingUpdate, path + ".spec.rollingUpdate"
	}
	return c.RollingUpdate, path + ".rollingUpdate"
}

// strategy returns the update strategy of a component: the given one, or what the released form
// means. recreate says that the set recreates whole replicas.
func (r *manifestRolling) strategy(path string, replicas int, given *UpdateStrategy, recreate bool, faults *faults) *UpdateStrategy {
	if r == nil {
		return given
	}
	most := r.MaxUnavailable
	switch {
	case recreate: // whether the other form is given, too, or not
		faults.add(path, CodeConflict, "", "must be left out under ReplicaRecreate, which recreates all components together")
	case given != nil:
		faults.add(path, CodeConflict, "", "is the released form of updateStrategy, which is given, too: keep one of them")
	case !most.IsZero() && (most.IsPercent() || most.Value() == 0):
		faults.add(path+".maxUnavailable", CodeOutOfRange, strictjson.Value(most), hintReleased)
	default:
		if most.Value() > replicas && replicas > 0 {
			most = concurrency.Count(replicas)
		}
		return &UpdateStrategy{MaxUnavailable: most}
	}
	return given
}

func or(value *int, otherwise int) int {
	if value == nil {
		return otherwise
	}
	return *value
}
