package rollout_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/internal/testkit"
	"github.com/tranche-dev/tranche/rollout"
)

// The properties of this file keep what Load promises of a document in which a value is refused: of
// the faults that compiling finds it reports
//
//	(1) none that would not be there, in a rule word for word, if the value were some other sound one;
//	(2) all that would be there word for word whatever the value were, sound or not, and if the field were left out as well.
//
// So a check that forgets to say what it depends on breaks (1), and one that says too much breaks
// (2). Three things keep them from overlooking a new one: a field without values here fails
// TestValues, a fault that no row has fails TestEveryFault, and TestRefusedField draws what nobody
// thinks of.

// values of a field, in JSON: sound ones, and others that are read but for which alone it is
// refused later.
type values struct{ sound, odd []string }

// valuesOf the fields of policies; in a path [] stands for every place of a list.
func valuesOf() map[string]values {
	list := func(v ...string) []string { return v }
	all := map[string]values{
		"":                  {sound: list(`{"name":"z","selector":"true","rules":[{"retry":{"maxRetries":1}}]}`)},
		"id":                {sound: list(`""`, `"p"`, `"q"`, `"s"`, `"a"`, `"z"`)}, // before and after others
		"name":              {sound: list(`"p"`, `"q"`, `"a"`, `"z"`), odd: list(`""`)},
		"enabled":           {sound: list("true", "false")},
		"selector":          {sound: list(`"true"`), odd: list(`""`, `"bad"`)},
		"rules":             {sound: list(`[{"retry":{"maxRetries":1}}]`, `[{"id":"s","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate"}}]`), odd: list("[]")},
		"rules[]":           {odd: list("{}")},
		"rules[].id":        {sound: list(`""`, `"a"`, `"s"`, `"p/retry/0"`, `"p/retry/1"`), odd: list(`"target"`)},
		"rules[].createdAt": {sound: list(`"2025-01-01T00:00:00Z"`)},
	}
	kinds := map[string]map[string]values{
		"deploymentBracket": {
			"deploymentSelector":       {list(`"true"`), list(`""`, `"bad"`)},
			"readinessMode":            {list(`""`, `"collection_window"`, `"wait_for_all"`, `"immediate"`), list(`"odd"`)},
			"readinessWindowSeconds":   {list("0", "60"), list("-1")},
			"unchangedMemberStrategy":  {list(`""`, `"skip_unchanged"`, `"redeploy_current"`, `"require_all"`), list(`"odd"`)},
			"overlapStrategy":          {list(`""`, `"queue"`, `"merge"`), list(`"odd"`)},
			"triggerOn":                {list(`"eligible"`, `"published"`), list(`"odd"`)},
			"requireAllTimeoutSeconds": {list("0", "60"), list("-1")},
			"memberRoles":              {list("{}", `{"pre":"true","post":"true"}`), list(`{"pre":"bad"}`)},
			"memberRoles.pre":          {list(`"true"`), list(`"bad"`)},
			"memberRoles.post":         {list(`"true"`), list(`"bad"`)},
			"onMemberFailure":          {list(`""`, `"hold"`, `"run_post"`, `"rollback_member"`, `"rollback_all"`), list(`"odd"`)},
			"rollbackStrategy":         {list(`""`, `"halt_and_notify"`, `"individual"`, `"all_members"`), list(`"odd"`)},
			"allowMixedPost":           {list("true", "false"), nil},
			"stuckAfterSeconds":        {list("0", "60"), list("-1")},
			"preparedStatePersists":    {list("true", "false"), nil},
			"hooksIdempotent":          {list("true", "false"), nil},
			"maxMerges":                {list("1"), list("0")},
		},
		"resourceConcurrency": {
			"groupSelector":        {list(`"true"`), list(`""`, `"bad"`)},
			"limit":                {list("2", `"20%"`), nil},
			"limitType":            {list(`""`, `"count"`, `"percentage"`), list(`"odd"`)},
			"limitValue":           {list("2", "20"), list("-1", "1001")},
			"rounding":             {list(`"floor"`, `"ceil"`), nil},
			"groupBy":              {list(`""`, `"resource.metadata['zone']"`), list(`"odd"`, `" "`)},
			"maxActiveKeys":        {list("1"), list("0", `"5%"`)},
			"sharedPool":           {list(`""`, `"s"`), list(`"s "`)},
			"strict":               {list("true", "false"), nil},
			"exclusive":            {list("true", "false"), nil},
			"stuckAfterSeconds":    {list("0", "60"), list("-1")},
			"onStuck":              {list(`"hold"`, `"quarantine"`), nil},
			"quarantineAllowance":  {list("0", "1"), nil},
			"haltAboveUnavailable": {list("0", `"40%"`), nil},
			"rate":                 {list(`{"limit":1,"periodSeconds":60}`), list("{}")},
			"rate.limit":           {list("2", `"20%"`), list("0", `"0%"`)},
			"rate.periodSeconds":   {list("60", "3600"), list("0", "-1")},
		},
		"gradualRollout": {
			"rolloutType":          {list(`"linear"`, `"linear-normalized"`, `"exponential"`, `"waves"`), list(`""`, `"odd"`)},
			"timeScaleInterval":    {list("0", "60"), list("-1")},
			"positionGrowthFactor": {list("0", "3"), list("-1")},
			"waves":                {list("[]", "[1]"), list("[0]")},
			"orderKey":             {list(`""`, `"target"`, `"resource"`, `"resource_bracket"`), list(`"odd"`)},
			"orderSalt":            {list(`""`, `"none"`, `"version"`, `"group"`), list(`"odd"`)},
			"orderHash":            {list(`"v1"`, `"legacy"`), list(`"odd"`)},
		},
		"deploymentDependency": {
			"dependsOn":      {list(`"true"`), list(`""`, `"bad"`)},
			"appliesTo":      {list(`""`, `"true"`), list(`"bad"`)},
			"match":          {list(`"any"`, `"all"`), list(`"odd"`)},
			"anyEnvironment": {list("true", "false"), nil},
		},
		"versionSelector": {
			"selector":    {list(`"true"`), list(`""`, `"bad"`)},
			"description": {list(`""`, `"why"`), nil},
		},
		"failureBudget": {
			"maxFailures":           {list("0", "2", `"0%"`, `"100%"`), list(`"101%"`)},
			"maxFailureRate":        {list(`"0%"`, `"100%"`), list(`"101%"`, "2")},
			"minimumSample":         {list("1", "1000"), list("0", "-1")},
			"anyEnvironment":        {list("true", "false"), nil},
			"onJobStatuses":         {list("[]", `["failure"]`), list(`["odd"]`, `["successful"]`)},
			"onVerificationFailure": {list("true", "false"), nil},
		},
		"anyApproval": {"minApprovals": {list("0", "1"), list("-1")}},
		"environmentProgression": {
			"dependsOnEnvironmentSelector": {list(`"true"`), list(`""`, `"bad"`)},
			"minimumSuccessPercentage":     {list("50"), list("101")},
			"minimumSoakTimeMinutes":       {list("0", "5"), list("-1")},
			"maximumAgeHours":              {list("1"), list("0")},
			"successStatuses":              {list("[]", `["successful"]`), list(`["odd"]`)},
			"requireVerificationPassed":    {list("true", "false"), nil},
		},
		"versionCooldown": {"intervalSeconds": {list("0", "60"), list("-1")}},
		"deploymentWindow": {
			"weekly":            {list(`{"days":["mon"],"start":"09:00","end":"10:00"}`, `{"days":["mon"],"start":"09:00"}`, `{"days":["mon"],"start":"09:00","everyWeeks":2}`), list("{}")},
			"weekly.days":       {list(`["mon","tue"]`), list(`["odd"]`, "[]")},
			"weekly.start":      {list(`"09:00"`), list(`""`, `"9"`)},
			"weekly.end":        {list(`""`, `"10:00"`), list(`"25:00"`)},
			"weekly.everyWeeks": {list("1", "2"), nil},
			"rrule":             {list(`""`, `"FREQ=DAILY;BYHOUR=9"`, `"FREQ=DAILY"`, `"FREQ=DAILY;INTERVAL=7;BYDAY=TU;BYHOUR=9"`, `"FREQ=MONTHLY;INTERVAL=12;BYMONTHDAY=30;BYHOUR=9"`), list(`"FREQ=YEARLY"`, `"FREQ=DAILY;BYHOUR=25"`)},
			"durationMinutes":   {list("60"), nil},
			"from":              {list(`"2025-01-01T00:00:00Z"`), nil},
			"until":             {list(`"2025-01-02T00:00:00Z"`, `"2024-01-02T00:00:00Z"`), list(`"0000-06-01T00:00:00Z"`)},
			"timezone":          {list(`"UTC"`, `"Europe/Berlin"`), list(`"Local"`, `"Mars/Olympus"`)},
			"allowWindow":       {list("true", "false"), nil},
			"anchor":            {list(`""`, `"2025-01-06T09:00"`, `"2025-01-07T09:00"`, `"2025-01-06T23:30:00Z"`), list(`"odd"`)},
			"gap":               {list(`""`, `"forward"`, `"skip"`), list(`"odd"`)},
			"overlap":           {list(`""`, `"first"`, `"last"`), list(`"odd"`)},

			"firstDeploy":             {list(`""`, `"bypass"`, `"apply"`), list(`"odd"`)},
			"minimumRemainingMinutes": {list("0", "5"), list("-1")},
		},
		"retry": {
			"maxRetries":        {list("0", "1"), list("-1")},
			"backoffSeconds":    {list("0", "60"), list("-1")},
			"backoffStrategy":   {list(`""`, `"linear"`, `"exponential"`), list(`"odd"`)},
			"maxBackoffSeconds": {list("0", "60"), list("-1")},
			"retryOnStatuses":   {list("[]", `["failure"]`), list(`["successful"]`)},
		},
		"rollback": {
			"onJobStatuses":         {list(`["failure"]`), list("[]", `["odd"]`, `["successful"]`)},
			"onVerificationFailure": {list("true"), list("false")},
			"onVersionStatuses":     {list(`["rejected"]`), list("[]", `["ready"]`, `["paused"]`, `[""]`)},
			"onFailureBudget":       {list("true"), list("false")},
		},
	}
	whole := map[string]string{
		"deploymentBracket":      `{"deploymentSelector":"true","readinessMode":"immediate"}`,
		"resourceConcurrency":    `{"groupSelector":"true","limit":2}`,
		"gradualRollout":         `{"rolloutType":"linear","timeScaleInterval":60}`,
		"deploymentDependency":   `{"dependsOn":"true"}`,
		"versionSelector":        `{"selector":"true"}`,
		"failureBudget":          `{"maxFailures":1}`,
		"anyApproval":            `{"minApprovals":1}`,
		"environmentProgression": `{"dependsOnEnvironmentSelector":"true"}`,
		"versionCooldown":        `{"intervalSeconds":60}`,
		"deploymentWindow":       `{"weekly":{"days":["mon"],"start":"09:00","end":"10:00"}}`,
		"retry":                  `{"maxRetries":1}`,
		"rollback":               `{"onVerificationFailure":true}`,
	}
	rules := all["rules[]"]
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		all["rules[]."+kind] = values{sound: list(whole[kind]), odd: list("{}")}
		rules.sound = append(rules.sound, `{"`+kind+`":`+whole[kind]+`}`)
		for name, v := range kinds[kind] {
			all["rules[]."+kind+"."+name] = v
		}
	}
	all["rules[]"] = rules
	return all
}

// TestValues: every field that a policy can have has values, and those that are sound on their own
// are read.
func TestValues(t *testing.T) {
	all := valuesOf()
	known := map[string]bool{"": true}
	var walk func(path string, typ reflect.Type)
	walk = func(path string, typ reflect.Type) {
		for typ.Kind() == reflect.Pointer {
			typ = typ.Elem()
		}
		if typ.Kind() == reflect.Slice && typ.Elem() == reflect.TypeFor[rollout.Rule]() {
			known[path] = true
			path, typ = path+"[]", typ.Elem()
		}
		known[path] = true
		if typ.Kind() != reflect.Struct || typ == reflect.TypeFor[time.Time]() || typ == reflect.TypeFor[concurrency.Limit]() {
			return
		}
		for _, field := range reflect.VisibleFields(typ) {
			if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "" && name != "-" {
				walk(strings.TrimPrefix(path+"."+name, "."), field.Type)
			}
		}
	}
	walk("", reflect.TypeFor[rollout.Policy]())
	for path := range known {
		if v, ok := all[path]; !ok || len(v.sound) == 0 {
			t.Errorf("there is no sound value of %q: without some nobody finds out which faults depend on it", path)
		}
	}
	for path := range all {
		if !known[path] {
			t.Errorf("no policy has a field %q", path)
		}
	}
}

// document is a list of policies: the JSON of its leaves by their paths. An object or a list is a
// leaf, too, if it is not taken apart.
type document map[string]string

// with is a copy in which a field has another value, whatever was inside of it before; none: it is
// left out.
func (d document) with(path, value string) document {
	rest := maps.Clone(d)
	maps.DeleteFunc(rest, func(key, leaf string) bool { return partOf(key, path) || leaf == "{}" && partOf(path, key) })
	if outer := path[:max(0, strings.LastIndexByte(path, '.'))]; value != "" {
		rest[path] = value
	} else if !rest.has(outer) {
		rest[outer] = "{}"
	}
	return rest
}

func (d document) has(path string) bool {
	for key := range d {
		if partOf(key, path) {
			return true
		}
	}
	return false
}

// partOf reports whether a path is another one or continues it.
func partOf(path, outer string) bool {
	rest, ok := strings.CutPrefix(path, outer)
	return ok && (rest == "" || outer == "" || rest[0] == '.' || rest[0] == '[')
}

// String is the document in JSON.
func (d document) String() string {
	if leaf, ok := d[""]; ok {
		return leaf
	}
	var heads []string
	parts := map[string]document{}
	for _, path := range slices.Sorted(maps.Keys(d)) {
		own := strings.TrimPrefix(path, ".")
		end := len(own)
		if at := strings.IndexAny(own[1:], ".["); at >= 0 {
			end = at + 1
		}
		head := own[:end]
		if parts[head] == nil {
			heads, parts[head] = append(heads, head), document{}
		}
		parts[head][own[end:]] = d[path]
	}
	var text []string
	for _, head := range heads {
		if head[0] == '[' {
			text = append(text, parts[head].String())
		} else {
			text = append(text, strconv.Quote(head)+":"+parts[head].String())
		}
	}
	if heads[0][0] == '[' {
		return "[" + strings.Join(text, ",") + "]"
	}
	return "{" + strings.Join(text, ",") + "}"
}

// placeless is a path with [] for every place of a list, and without the policy.
func placeless(path string) string {
	for _, place := range []string{"0", "1", "2"} {
		path = strings.ReplaceAll(path, "["+place+"]", "[]")
	}
	return strings.TrimPrefix(strings.TrimPrefix(path, "[]"), ".")
}

// anything compiles every expression but "bad".
type anything struct{}

func (anything) Matcher(expression string) (rollout.Matcher, error) {
	if expression == "bad" {
		return nil, errors.New("1:1: it is bad")
	}
	return always{}, nil
}

type always struct{}

func (always) Match(interface {
	Lookup(name string) (any, bool)
}) (bool, error) {
	return true, nil
}

// load returns the faults of reading a document, and those that Load reports besides, each with its
// path.
func load(t rapid.TB, d document) (read, compiled []*rollout.FieldError) {
	berlin := time.FixedZone("Europe/Berlin", 3600)
	text := []byte(d.String())
	_, err := rollout.Load(text, anything{}, rollout.WithZones(func(name string) (*time.Location, error) {
		if name != "Europe/Berlin" {
			return nil, errors.New("no such zone")
		}
		return berlin, nil
	}))
	if err == nil {
		return nil, nil
	}
	_, unread := rollout.ParsePolicies(text)
	for i, one := range joined(err) {
		fault, ok := one.(*rollout.FieldError)
		if !ok {
			t.Fatalf("%v (%T) is no *FieldError", one, one)
		}
		if i < len(joined(unread)) {
			read = append(read, fault)
		} else {
			compiled = append(compiled, fault)
		}
	}
	return read, compiled
}

// where and words tell faults apart. Of several policies and rules a hint names the first, which
// another one may be.
func where(fault *rollout.FieldError) string { return string(fault.Code) + " " + fault.Path }
func words(fault *rollout.FieldError) string { return string(fault.Code) + " " + fault.Error() }

// found are faults, but for those of a field or inside of it.
func found(faults []*rollout.FieldError, but string, as func(*rollout.FieldError) string) map[string]bool {
	all := map[string]bool{}
	for _, fault := range faults {
		if !partOf(fault.Path, but) {
			all[as(fault)] = true
		}
	}
	return all
}

// refuse checks what Load says of a document if it refuses a field: because of its type, because it
// is given twice, or because it is mistyped.
func refuse(t rapid.TB, v values, d document, path string, as func(*rollout.FieldError) string, seen testkit.Tally) {
	sound := make([]map[string]bool, len(v.sound))
	whatever := map[string]int{}
	absent := ""
	if v.sound[0][0] == '{' {
		absent = "{}" // what should be an object is there
	}
	values := slices.Concat(v.sound, v.odd, []string{absent})
	for i, value := range values {
		read, compiled := load(t, d.with(path, value))
		if len(read) > 0 {
			t.Fatalf("%s is no value of %s: %v", value, path, read[0])
		}
		if i < len(sound) {
			sound[i] = found(compiled, path, as)
		}
		for text := range found(compiled, path, words) {
			whatever[text]++
		}
	}
	name := path[strings.LastIndexByte(path, '.')+1:]
	first, last := v.sound[0], v.sound[len(v.sound)-1]
	structure := first[0] == '{'
	wrong := `{"no":"value"}`
	if structure {
		wrong = "5"
	}
	type form struct {
		way   string
		in    document
		among []map[string]bool // what the field may have been meant to be
	}
	forms := []form{{"type", d.with(path, wrong), sound}}
	if name != path && !structure {
		for i, value := range v.sound[1:] {
			forms = append(forms,
				form{"twice", d.with(path, first+`,"`+name+`":`+value), []map[string]bool{sound[0], sound[i+1]}},
				form{"twice", d.with(path, value+`,"`+name+`":`+last), []map[string]bool{sound[i+1], sound[len(sound)-1]}})
		}
	}
	if name != path && !d.has(path) && !strings.HasSuffix(path, "]") {
		forms = append(forms, form{"mistyped", d.with(path+"x", first), sound})
	}
	_, faults := load(t, d)
	before := found(faults, path, words)
	for _, form := range forms {
		read, compiled := load(t, form.in)
		if len(read) != 1 {
			t.Fatalf("%s: %s refuses %v", form.way, path, read)
		}
		for _, fault := range compiled {
			text := as(fault)
			switch {
			case form.way != "mistyped" && fault.Path == path:
				t.Errorf("%s: nobody knows the value of %s: %v: %s", form.way, path, fault, form.in)
			case partOf(fault.Path, path):
			case slices.ContainsFunc(form.among, func(other map[string]bool) bool { return !other[text] }):
				t.Errorf("%s: with another value of %s there might be no fault: let the check that finds it say what it reads: %v: %s", form.way, path, fault, form.in)
			default:
				seen["kept"]++
			}
		}
		got := found(compiled, path, words)
		for text, n := range whatever {
			// A rule that was refused may be of any kind, and so count where ids are derived: of
			// those before it, too, to keep it simple.
			counts := strings.HasSuffix(path, "]") && strings.HasPrefix(text, "duplicate ")
			if form.way == "type" && n == len(values) && !got[text] && !counts {
				t.Errorf("%s does not depend on %s, but is left out: %s", text, path, form.in)
			}
		}
		for text := range before {
			if !got[text] {
				seen["left out"]++
			}
		}
	}
}

// formats are those of all faults that the checks of rules add, with the place of each, but for
// those that no document can have.
func formats(t *testing.T) map[string]*regexp.Regexp {
	t.Helper()
	impossible := []string{
		"recurrence",                                      // is given in Go alone
		"is not known here", "is no variable of a policy", // needs a compiler that tells variables
		"a compiler is needed",      //
		"WithRule",                  // given in Go
		"must be UTF-8",             // documents are
		"WithScopeErrors",           //
		"must be from 1 to %d",      // the decoders of clock refuse the others
		"must not be empty: name",   //
		"must be a whole number of", //
	}
	all := map[string]*regexp.Regexp{}
	set := token.NewFileSet()
	for _, file := range []string{
		"policy.go", "compile.go", "gradual.go", "dependency.go", "gate.go", "approval.go", "budget.go", "window.go", "retry.go", "rollback.go", "progression.go", "cooldown.go", "fault.go",
		"../bracket/rule.go", "../bracket/errors.go", "../concurrency/rule.go", "../clock/window.go", "../clock/recurrence.go",
	} {
		parsed, err := parser.ParseFile(set, file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(node ast.Node) bool {
			call, ok := node.(*ast.CallExpr)
			if !ok || len(call.Args) < 4 {
				return true
			}
			if adds, ok := call.Fun.(*ast.SelectorExpr); !ok || adds.Sel.Name != "add" {
				return true
			}
			literal, ok := call.Args[3].(*ast.BasicLit)
			if !ok {
				return true // one of the hints that several faults share
			}
			format, err := strconv.Unquote(literal.Value)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Trim(format, "%sv") != "" && !slices.ContainsFunc(impossible, func(part string) bool { return strings.Contains(format, part) }) {
				pattern := regexp.MustCompile(`%[a-z]`).ReplaceAllString(regexp.QuoteMeta(format), "(?s:.*)")
				all[fmt.Sprint(strings.TrimPrefix(file, "../"), ": ", format)] = regexp.MustCompile("^" + pattern + "$")
			}
			return true
		})
	}
	return all
}

// parse takes a document apart: its policies, their rules, and all objects that are not empty.
func parse(t rapid.TB, text string) document {
	d := document{}
	var take func(path string, raw json.RawMessage)
	take = func(path string, raw json.RawMessage) {
		var object map[string]json.RawMessage
		var list []json.RawMessage
		switch {
		case json.Unmarshal(raw, &object) == nil && len(object) > 0:
			for name, value := range object {
				take(strings.TrimPrefix(path+"."+name, "."), value)
			}
		case (path == "" || strings.HasSuffix(path, "].rules")) && json.Unmarshal(raw, &list) == nil && len(list) > 0:
			for i, value := range list {
				take(fmt.Sprintf("%s[%d]", path, i), value)
			}
		default:
			d[path] = string(raw)
		}
	}
	if !json.Valid([]byte(text)) {
		t.Fatalf("%s is no JSON", text)
	}
	take("", json.RawMessage(text))
	return d
}

// fields are those of a document that can be refused, whether they are there or not, and the number
// of its rules.
func (d document) fields(all map[string]values) (paths []string, rules int) {
	for k := 0; d.has(fmt.Sprintf("[%d]", k)); k++ {
		at := fmt.Sprintf("[%d]", k)
		paths = append(paths, at, at+".id", at+".name", at+".enabled", at+".selector", at+".rules")
		for i := 0; d.has(fmt.Sprintf("%s.rules[%d]", at, i)); i++ {
			at := fmt.Sprintf("%s.rules[%d]", at, i)
			paths = append(paths, at, at+".id", at+".createdAt")
			rules++
			kinds := 0
			for _, path := range slices.Sorted(maps.Keys(all)) {
				kind, field, _ := strings.Cut(strings.TrimPrefix(path, "rules[]."), ".")
				if strings.HasPrefix(path, "rules[].") && d.has(at+"."+kind) && kind != "id" && kind != "createdAt" {
					paths = append(paths, strings.TrimSuffix(at+"."+kind+"."+field, "."))
					kinds++
				}
			}
			switch gradual := d.has(at + ".gradualRollout"); {
			case kinds == 0:
				paths = append(paths, at+".deploymentBracket", at+".gradualRollout", at+".resourceConcurrency", at+".retry")
			case gradual && !d.has(at+".id") && !d.has(at+".deploymentBracket"): // no id of a rule that holds two kinds is looked at
				paths = append(paths, at+".deploymentBracket")
			}
		}
	}
	return paths, rules
}

// refuseSome checks what Load says of a document if it refuses some of its fields, one at a time.
func refuseSome(t rapid.TB, d document, all map[string]values, some func() bool, seen testkit.Tally) {
	paths, rules := d.fields(all)
	as := words
	if rules > 1 {
		as = where
	}
	for _, path := range paths {
		if some() {
			refuse(t, all[placeless(path)], d, path, as, seen)
		}
	}
}

// TestEveryFault: of policies that have every fault there is, each field is refused, and no fault
// is reported that may only follow from that. A new fault wants to be in one of the rows.
func TestEveryFault(t *testing.T) {
	all, formats, seen := valuesOf(), formats(t), testkit.Tally{}
	fields := 0
	for _, row := range []struct{ why, in string }{
		{"nothing is given", `[{"selector":""}]`},
		{"the parts of a policy", `[{"name":"p","selector":"true","rules":[{},{"id":"a","retry":{"maxRetries":1},"rollback":{}},{"id":"a","anyApproval":{}}]}]`},
		{"ids of two policies", `[{"name":"p","selector":"true","rules":[{"id":"a","retry":{"maxRetries":1}}]},{"id":"p","name":"q","selector":"true","rules":[{"id":"a","retry":{"maxRetries":1}}]}]`},
		{"derived ids", `[{"name":"p","selector":"true","rules":[{"id":"p/retry/0","anyApproval":{"minApprovals":1}},{"retry":{"maxRetries":1}}]}]`},
		{"a given id that is derived for the rule before", `[{"name":"p","selector":"true","rules":[{"retry":{"maxRetries":1}},{"id":"p/retry/0","retry":{"maxRetries":2}}]}]`},
		{"two brackets, one of a reserved name", `[{"name":"p","selector":"true","rules":[{"deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate"}},{"id":"target","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate"}},
			{"gradualRollout":{"rolloutType":"linear","timeScaleInterval":1,"orderKey":"target","orderSalt":"version"}}]}]`},
		{"an order that needs a bracket", `[{"name":"p","selector":"true","rules":[{"gradualRollout":{"rolloutType":"linear","timeScaleInterval":1,"orderKey":"resource_bracket","orderSalt":"group"}},{}]}]`},
		{"a shared pool", `[{"name":"p","selector":"true","rules":[{"resourceConcurrency":{"groupSelector":"true","limit":2,"sharedPool":"s"}},{"resourceConcurrency":{"groupSelector":"true","limitType":"count","limitValue":20,"sharedPool":"s"}},{"id":"s","retry":{"maxRetries":1}}]}]`},
		{"which of two rules is the first does not depend on the ids of their policies", `[{"name":"p","selector":"true","rules":[{"resourceConcurrency":{"groupSelector":"true","limit":2,"sharedPool":"s"}}]},{"selector":"true","rules":[{"resourceConcurrency":{"groupSelector":"true","limit":3,"sharedPool":"s"}}]}]`},
		{"a disabled policy shares nothing", `[{"name":"p","selector":"true","enabled":true,"rules":[{"resourceConcurrency":{"groupSelector":"true","limit":2,"sharedPool":"s"}}]},{"name":"q","selector":"true","rules":[{"resourceConcurrency":{"groupSelector":"true","limit":2,"rounding":"floor","sharedPool":"s"}}]}]`},

		{"an empty bracket", one(`"deploymentBracket":{}`)},
		{"numbers of a bracket", one(`"deploymentBracket":{"deploymentSelector":"bad","readinessWindowSeconds":-1,"requireAllTimeoutSeconds":-1,"stuckAfterSeconds":-1,"maxMerges":0,"overlapStrategy":"merge"}`)},
		{"values of a bracket", one(`"deploymentBracket":{"readinessMode":"odd","unchangedMemberStrategy":"odd","overlapStrategy":"odd","triggerOn":"odd","onMemberFailure":"odd","rollbackStrategy":"odd"}`)},
		{"an immediate bracket has no window", one(`"deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","readinessWindowSeconds":60,"unchangedMemberStrategy":"require_all","requireAllTimeoutSeconds":60}`)},
		{"a timeout of nothing", one(`"deploymentBracket":{"deploymentSelector":"true","readinessWindowSeconds":60,"requireAllTimeoutSeconds":60}`)},
		{"fields for other strategies", one(`"deploymentBracket":{"deploymentSelector":"true","readinessWindowSeconds":60,"allowMixedPost":true,"maxMerges":1}`)},
		{"two names of one field", one(`"deploymentBracket":{"deploymentSelector":"true","readinessWindowSeconds":60,"onMemberFailure":"hold","rollbackStrategy":"halt_and_notify","allowMixedPost":true}`)},

		{"an empty pool", one(`"resourceConcurrency":{}`)},
		{"a value without a type", one(`"resourceConcurrency":{"groupSelector":"true","limitValue":-1,"maxActiveKeys":1}`)},
		{"a type without a value", one(`"resourceConcurrency":{"groupSelector":"true","limitType":"percentage","groupBy":" ","sharedPool":"s "}`)},
		{"no type, no share", one(`"resourceConcurrency":{"groupSelector":"bad","limitType":"odd","limitValue":1001,"maxActiveKeys":"5%","stuckAfterSeconds":-1}`)},
		{"more than all", one(`"resourceConcurrency":{"groupSelector":"true","limitType":"percentage","limitValue":1001}`)},
		{"two limits", one(`"resourceConcurrency":{"groupSelector":"true","limit":2,"limitType":"count","limitValue":2}`)},

		{"an empty curve", one(`"gradualRollout":{}`)},
		{"a curve with odd values", one(`"gradualRollout":{"rolloutType":"odd","timeScaleInterval":-1,"orderKey":"odd","orderSalt":"odd","orderHash":"odd"}`)},
		{"what is not for this curve", one(`"gradualRollout":{"rolloutType":"linear","timeScaleInterval":1,"positionGrowthFactor":3,"waves":[0]}`)},
		{"waves without any", one(`"gradualRollout":{"rolloutType":"waves","timeScaleInterval":1}`)},
		{"growth without any", one(`"gradualRollout":{"rolloutType":"exponential","timeScaleInterval":1}`)},
		{"growth that is none", one(`"gradualRollout":{"rolloutType":"exponential","timeScaleInterval":1,"positionGrowthFactor":-1}`)},

		{"an empty dependency", one(`"deploymentDependency":{"match":"odd","appliesTo":"bad"}`)},
		{"an empty selector", one(`"versionSelector":{}`)},
		{"an empty budget", one(`"failureBudget":{}`)},
		{"a sample without a rate", one(`"failureBudget":{"minimumSample":5}`)},
		{"a sample of less than nobody, without a rate", one(`"failureBudget":{"maxFailures":"101%","minimumSample":-1,"onJobStatuses":["successful","odd"]}`)},
		{"a rate without a sample", one(`"failureBudget":{"maxFailureRate":"101%"}`)},
		{"a rate that is a count, and a sample of less than nobody", one(`"failureBudget":{"maxFailureRate":2,"minimumSample":-1}`)},
		{"no number of approvals", one(`"anyApproval":{}`)},
		{"fewer than nobody", one(`"anyApproval":{"minApprovals":-1}`)},
		{"an empty progression", one(`"environmentProgression":{"minimumSuccessPercentage":101,"minimumSoakTimeMinutes":-1,"maximumAgeHours":0,"successStatuses":["odd"]}`)},
		{"an empty cooldown", one(`"versionCooldown":{}`)},
		{"an empty retry", one(`"retry":{"backoffSeconds":-1,"backoffStrategy":"odd","maxBackoffSeconds":-1,"retryOnStatuses":["successful","odd"]}`)},
		{"fewer than none", one(`"retry":{"maxRetries":-1}`)},
		{"nothing to roll back on", one(`"rollback":{}`)},
		{"a success to roll back on", one(`"rollback":{"onJobStatuses":["successful"]}`)},
		{"a version without status to roll back on", one(`"rollback":{"onVersionStatuses":[""]}`)},
		{"a version to roll back on that stays", one(`"rollback":{"onVersionStatuses":["paused"]}`)},

		{"an empty window", one(`"deploymentWindow":{"gap":"odd","overlap":"odd","timezone":"Local","firstDeploy":"odd","minimumRemainingMinutes":-1}`)},
		{"windows of two shapes", one(`"deploymentWindow":{"rrule":"FREQ=DAILY","from":"2025-01-01T00:00:00Z","timezone":"Mars/Olympus"}`)},
		{"half a one-off", one(`"deploymentWindow":{"from":"2025-01-01T00:00:00Z","anchor":"odd"}`)},
		{"a one-off with what it does not need", one(`"deploymentWindow":{"from":"2025-01-01T00:00:00Z","until":"2025-01-02T00:00:00Z","anchor":"2025-01-06T09:00","gap":"skip","durationMinutes":60}`)},
		{"a one-off that ends before it begins, and before there were years", one(`"deploymentWindow":{"from":"2025-01-01T00:00:00Z","until":"0000-06-01T00:00:00Z"}`)},
		{"an empty week", one(`"deploymentWindow":{"weekly":{"start":"9","everyWeeks":2}}`)},
		{"a week with odd values", one(`"deploymentWindow":{"weekly":{"days":["odd"],"start":"09:00","end":"25:00"}}`)},
		{"two lengths", one(`"deploymentWindow":{"weekly":{"days":["mon"],"start":"09:00","end":"10:00"},"durationMinutes":60}`)},
		{"a recurrence without length and anchor", one(`"deploymentWindow":{"rrule":"FREQ=DAILY"}`)},
		{"a recurrence with all faults that its parts can have", one(`"deploymentWindow":{"rrule":"FREQ=YEARLY;;FREQ=DAILY;odd;INTERVAL=0;BYDAY=odd,2FR;WKST=SU;BYMONTH=1;DTSTART=odd","durationMinutes":60}`)},
		{"a recurrence without a frequency, in a week that begins on no day", one(`"deploymentWindow":{"rrule":"WKST=odd","durationMinutes":60}`)},
		{"a recurrence with the name of its property", one(`"deploymentWindow":{"rrule":"RRULE:FREQ=DAILY","durationMinutes":60}`)},
		{"an hour that is none", one(`"deploymentWindow":{"rrule":"FREQ=DAILY;BYHOUR=25","durationMinutes":60}`)},
		{"every seventh day from a Monday is no Tuesday", one(`"deploymentWindow":{"rrule":"FREQ=DAILY;INTERVAL=7;BYDAY=TU;BYHOUR=9","durationMinutes":60,"anchor":"2025-01-06T09:00"}`)},
		{"days of months in a weekly rule", one(`"deploymentWindow":{"rrule":"FREQ=WEEKLY;BYDAY=2TU;BYMONTHDAY=1","durationMinutes":60}`)},
		{"days that no month has", one(`"deploymentWindow":{"rrule":"FREQ=MONTHLY;BYDAY=6TU;BYMONTHDAY=32","durationMinutes":60}`)},
		{"a month that begins on no day", one(`"deploymentWindow":{"rrule":"FREQ=MONTHLY;BYHOUR=9","durationMinutes":60}`)},
		{"the thirtieth of February", one(`"deploymentWindow":{"rrule":"FREQ=MONTHLY;INTERVAL=12;BYMONTHDAY=30;BYHOUR=9","durationMinutes":60,"anchor":"2025-02-06T09:00"}`)},
		{"of what is February in UTC", one(`"deploymentWindow":{"rrule":"FREQ=MONTHLY;INTERVAL=12;BYMONTHDAY=30;BYHOUR=9","durationMinutes":60,"anchor":"2025-02-28T23:30:00Z"}`)},
		{"nor from what is a Monday in UTC", one(`"deploymentWindow":{"rrule":"FREQ=DAILY;INTERVAL=7;BYDAY=TU;BYHOUR=9","durationMinutes":60,"anchor":"2025-01-06T23:30:00Z"}`)},
	} {
		d := parse(t, row.in)
		read, compiled := load(t, d)
		if len(read) > 0 || len(compiled) == 0 {
			t.Errorf("%s: %v, %v: want faults, and none of reading", row.why, read, compiled)
			continue
		}
		for _, fault := range compiled {
			for format, pattern := range formats {
				if pattern.MatchString(fault.Hint) {
					seen[format]++
				}
			}
		}
		refuseSome(t, d, all, func() bool { fields++; return !testkit.Race || fields%5 == 0 }, seen)
	}
	for _, format := range slices.Sorted(maps.Keys(formats)) {
		if seen[format] == 0 {
			t.Errorf("no row has the fault %s", format)
		}
	}
}

// one is a document of one rule.
func one(rule string) string {
	return `[{"name":"p","selector":"true","rules":[{` + rule + `}]}]`
}

// TestMistypedKind: what is said of two kinds of rules in one does not depend on a third that is
// mistyped. It used to count them.
func TestMistypedKind(t *testing.T) {
	for _, third := range []string{"", `,"retryx":{"maxRetries":1}`, `,"retry":{"maxRetries":1}`} {
		_, err := rollout.Load([]byte(one(`"rollback":{"onVerificationFailure":true},"anyApproval":{"minApprovals":1}`+third)), newEnv(t))
		if err == nil || !strings.Contains(err.Error(), "[0].rules[0]: must hold only one kind of rule: make a rule of each") || strings.Contains(err.Error(), "retryx") != strings.Contains(third, "retryx") {
			t.Errorf("with %q: %v", third, err)
		}
	}
}

// TestRefusedField: as in TestEveryFault, in documents that are drawn.
func TestRefusedField(t *testing.T) {
	all := valuesOf()
	kinds := map[string][]string{} // fields of rules that are no objects
	for _, path := range slices.Sorted(maps.Keys(all)) {
		if field, ok := strings.CutPrefix(path, "rules[]."); ok && strings.Contains(field, ".") && all[path].sound[0][0] != '{' {
			kind, field, _ := strings.Cut(field, ".")
			kinds[kind] = append(kinds[kind], field)
		}
	}
	value := func(t *rapid.T, path string) string {
		v := all[placeless(path)]
		return oneOf(t, path, slices.Concat(v.sound, v.odd)...)
	}
	seen := testkit.Tally{}
	seen.Check(t, func(t *rapid.T) {
		if chance(t, "one rule", 60) {
			kind := oneOf(t, "kind", append(slices.Sorted(maps.Keys(kinds)), "deploymentBracket", "deploymentBracket", "deploymentWindow", "deploymentWindow")...)
			at := "[0].rules[0]." + kind
			d := document{"[0].name": `"p"`, "[0].selector": `"true"`, at: "{}"}
			absent := oneOf(t, "absent", 20, 60, 90)
			shape := oneOf(t, "shape of a window", "", "weekly", "rrule", "from until")
			for _, field := range kinds[kind] {
				if own, _, _ := strings.Cut(field, "."); shape != "" && strings.Contains("weekly rrule from until", own) && !strings.Contains(shape, own) {
					continue
				}
				if path := at + "." + field; !chance(t, "no "+field, absent) {
					d = d.with(path, value(t, path))
				}
			}
			refuseSome(t, d, all, func() bool { return chance(t, "refused", 25) }, seen)
			return
		}
		d := document{}
		some := func(path string, absent int) {
			if !chance(t, "no "+path, absent) {
				d = d.with(path, value(t, path))
			}
		}
		for k := range between(t, "policies", 1, 2) {
			at := fmt.Sprintf("[%d]", k)
			d[at] = "{}"
			some(at+".selector", 10)
			some(at+".id", 60)
			some(at+".name", 10)
			some(at+".enabled", 70)
			for i := range uniform(t, "rules", 4) {
				at := fmt.Sprintf("%s.rules[%d]", at, i)
				d = d.with(at, "{}")
				some(at+".id", 60)
				switch kind := at + "." + oneOf(t, "kind", "deploymentBracket", "resourceConcurrency", "gradualRollout", "retry", ""); {
				case strings.HasSuffix(kind, "."):
				case strings.HasSuffix(kind, "gradualRollout"):
					d = d.with(kind+".rolloutType", `"linear"`).with(kind+".timeScaleInterval", "60")
					some(kind+".orderKey", 30)
					some(kind+".orderSalt", 30)
				case strings.HasSuffix(kind, "resourceConcurrency"):
					d = d.with(kind+".groupSelector", `"true"`)
					some(kind+".limit", 20)
					some(kind+".limitType", 80)
					some(kind+".limitValue", 80)
					some(kind+".rounding", 50)
					some(kind+".sharedPool", 10)
				default:
					d = d.with(kind, all[placeless(kind)].sound[0])
				}
				if chance(t, "two kinds", 5) {
					d = d.with(at+".rollback", all["rules[].rollback"].sound[0])
				}
			}
		}
		refuseSome(t, parse(t, d.String()), all, func() bool { return chance(t, "refused", 10) }, seen)
	}, "kept", "left out")
}
