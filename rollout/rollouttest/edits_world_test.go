package rollouttest_test

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/rollout"
	"github.com/tranche-dev/tranche/rollout/rollouttest"
)

// editBase is a world to edit.
type editBase struct {
	name         string
	rules        string   // of one policy that governs everything
	deployments  []string // each with v1, which runs everywhere, and v2; drain and uncordon with v1 alone
	environments []string
	fail         string // deployment whose first run on r1 fails
	approve      bool   // v2 is approved after a minute
	change       func(*editor)
}

func editBases() []editBase {
	const hooks = `"memberRoles":{"pre":"deployment.id == 'drain'","post":"deployment.id == 'uncordon'"}`
	node := []string{"a", "b", "drain", "uncordon"}
	prod, both := []string{"prod"}, []string{"prod", "staging"}
	const limit = `{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":1}}`
	const order = `{"id":"D","deploymentDependency":{"dependsOn":"deployment.id == 'a'","appliesTo":"deployment.id == 'b'"}}`
	const curve = `{"id":"G","gradualRollout":{"rolloutType":"linear","timeScaleInterval":120,"orderKey":"resource_bracket"}}`
	third := func(e *editor) {
		e.after(8*time.Minute+30*time.Second, "a v3 appears", func(e *editor) {
			if slices.ContainsFunc(e.s.Deployments, func(d rollout.Deployment) bool { return d.ID == "a" }) {
				e.s.Versions = append(e.s.Versions, version("a", "v3", e.now))
			}
		})
	}
	return []editBase{
		{name: "node", deployments: node, environments: prod, rules: `{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessWindowSeconds":60,` + hooks + `}},` + limit + `,` + curve + `,` + order},
		{name: "hold", deployments: node, environments: prod, fail: "b", rules: `{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate",` + hooks + `}},` + limit + `,` + order},
		{name: "run post", deployments: node, environments: prod, fail: "b", rules: `{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","onMemberFailure":"run_post",` + hooks + `}},` + limit + `,` + order + `,{"id":"R","retry":{"maxRetries":1,"backoffSeconds":60}}`},
		{name: "roll back all", deployments: node, environments: prod, fail: "b", rules: `{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","onMemberFailure":"rollback_all",` + hooks + `}},` + limit + `,` + order},
		{name: "merge", deployments: node, environments: prod, change: third, rules: `{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","overlapStrategy":"merge","preparedStatePersists":true,` + hooks + `}},` + order},
		{name: "bracket in two environments", deployments: node, environments: both, rules: `{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate",` + hooks + `}},` +
			`{"id":"P","resourceConcurrency":{"groupSelector":"true","groupBy":"resource.metadata['zone']","limit":1}},{"id":"G","gradualRollout":{"rolloutType":"linear","timeScaleInterval":60,"orderKey":"resource","orderSalt":"group"}}`},
		{name: "curve", deployments: []string{"a"}, environments: prod, rules: limit + `,{"id":"G","gradualRollout":{"rolloutType":"linear","timeScaleInterval":120,"orderKey":"target"}},` +
			`{"id":"W","deploymentWindow":{"rrule":"FREQ=DAILY;BYHOUR=0,1,2,3,4,5,6,22,23;BYMINUTE=2,22,42;BYSECOND=0","durationMinutes":3}}`},
		{name: "waves", deployments: []string{"a"}, environments: prod, change: third, rules: `{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":"34%","stuckAfterSeconds":600,"onStuck":"quarantine"}},{"id":"G","gradualRollout":{"rolloutType":"waves","waves":[1,"50%"],"timeScaleInterval":120,"orderKey":"resource"}},{"id":"C","versionCooldown":{"intervalSeconds":600}}`},
		{name: "progression", deployments: []string{"a"}, environments: both, approve: true, rules: `{"id":"E","environmentProgression":{"dependsOnEnvironmentSelector":"environment.id == 'staging'","minimumSuccessPercentage":50,"minimumSoakTimeMinutes":2}},{"id":"A","anyApproval":{"minApprovals":1}},` + limit},
		{name: "rollback", deployments: []string{"a"}, environments: prod, fail: "a", change: third, rules: limit + `,{"id":"R","retry":{"maxRetries":1,"backoffSeconds":60}},{"id":"X","rollback":{"onJobStatuses":["failure"],"onVerificationFailure":true}}`},
		{name: "version taken back", deployments: []string{"a"}, environments: prod, fail: "a", change: third, rules: limit + `,{"id":"R","retry":{"maxRetries":1,"backoffSeconds":60}},{"id":"F","failureBudget":{"maxFailures":0}},{"id":"X","rollback":{"onVersionStatuses":["withdrawn"],"onFailureBudget":true}}`},
		{name: "retry", deployments: []string{"a"}, environments: prod, fail: "a", rules: limit + `,{"id":"R","retry":{"maxRetries":2,"backoffSeconds":60}}`},
		{name: "dependency", deployments: []string{"a", "b"}, environments: prod, change: third, rules: limit + `,{"id":"D","deploymentDependency":{"dependsOn":"deployment.id == 'b' && version.tag != 'v1'","appliesTo":"deployment.id == 'a'"}},{"id":"C","versionCooldown":{"intervalSeconds":3900}}`},
		{name: "scoped", deployments: []string{"a", "b"}, environments: prod, rules: limit + `,{"id":"S","versionSelector":{"selector":"version.tag != 'v9'"}},{"id":"G","gradualRollout":{"rolloutType":"linear-normalized","timeScaleInterval":300,"orderKey":"resource"}}`,
			change: func(e *editor) {
				for k := range e.s.Versions {
					if v := &e.s.Versions[k]; v.Deployment == "a" && v.ID == "v2" {
						v.TargetSelector = "resource.id != 'r1'"
					}
				}
			}},
	}
}

func (b editBase) begin(w *editing) *editor {
	text := `[{"id":"p","name":"p","selector":"true","rules":[` + b.rules + `]}]`
	e := newEditor(w, text, w.compile(text))
	e.now = at(1, 0, 0)
	if e.set == nil {
		parsed, err := rollout.ParsePolicies([]byte(text))
		if err == nil {
			_, err = rollout.Compile(parsed, w.compiler)
		}
		w.Fatalf("%s: %v", b.name, err)
	}
	for k, id := range []string{"r1", "r2", "r3"} {
		e.s.Resources = append(e.s.Resources, rollout.Resource{ID: id, Metadata: map[string]string{"zone": string(rune('a' + k/2))}})
	}
	for _, id := range b.environments {
		e.s.Environments = append(e.s.Environments, rollout.Environment{ID: id})
	}
	for _, id := range b.deployments {
		e.s.Deployments = append(e.s.Deployments, rollout.Deployment{ID: id})
		e.s.Versions = append(e.s.Versions, version(id, "v1", at(0, 23, 0)))
		if id == "a" || id == "b" {
			e.s.Versions = append(e.s.Versions, version(id, "v2", at(1, 0, 0)))
		}
		for _, env := range b.environments {
			for _, r := range e.s.Resources {
				e.s.Targets = append(e.s.Targets, rollout.Target{TargetID: rollout.TargetID{Resource: r.ID, Environment: env, Deployment: id}, Current: "v1"})
			}
		}
	}
	if b.approve {
		for k, env := range b.environments {
			e.after(time.Duration(k+1)*time.Minute, "approval in "+env, func(e *editor) {
				e.s.Approvals = append(e.s.Approvals, rollout.Approval{Version: "v2", Deployment: "a", Environment: env, By: "ann", Status: rollout.Approved, At: e.now})
			})
		}
	}
	if b.change != nil {
		b.change(e)
	}
	w.job = func(s rollout.Start, attempt int) rollouttest.Outcome {
		o := rollouttest.Outcome{After: map[string]time.Duration{"drain": 3 * time.Minute, "uncordon": time.Minute}[s.Deployment]}
		if o.After == 0 {
			o.After = 2 * time.Minute
		}
		if s.Deployment == b.fail && s.Resource == "r1" && s.Version == "v2" && attempt == 1 {
			o.Status = rollout.JobFailure
		}
		return o
	}
	return e
}

// edit is something that somebody does to the policies or to the fleet.
type edit struct {
	name string
	do   func(*editor)
}

type policyTree []map[string]any

func (e *editor) tree() policyTree {
	var p policyTree
	if err := json.Unmarshal([]byte(e.text), &p); err != nil {
		panic(err)
	}
	return p
}

func rulesOf(p map[string]any) []map[string]any {
	var list []map[string]any
	for _, r := range p["rules"].([]any) {
		list = append(list, r.(map[string]any))
	}
	return list
}

func setRules(p map[string]any, rules []map[string]any) {
	list := []any{}
	for _, r := range rules {
		list = append(list, r)
	}
	p["rules"] = list
}

func kindOf(r map[string]any) string {
	for key := range r {
		if key != "id" && key != "createdAt" {
			return key
		}
	}
	return ""
}

// load puts other policies in force; those that are refused stay out.
func (e *editor) load(p policyTree) bool {
	data, err := json.Marshal(p)
	if err != nil {
		panic(err)
	}
	set := e.compile(string(data))
	if set == nil {
		return false
	}
	e.text, e.set = string(data), set
	return true
}

var editValues = map[string][]any{
	"onMemberFailure":              {"hold", "run_post", "rollback_all", "rollback_member"},
	"overlapStrategy":              {"queue", "merge"},
	"readinessMode":                {"immediate", "wait_for_all", "collection_window"},
	"unchangedMemberStrategy":      {"redeploy_current", "skip_unchanged"},
	"orderKey":                     {"resource", "target", "resource_bracket"},
	"orderSalt":                    {"version", "group", "none"},
	"orderHash":                    {"legacy"},
	"rolloutType":                  {"linear-normalized", "exponential", "linear"},
	"groupSelector":                {"false", "resource.id != 'r1'", "resource.metadata['zone'] == 'a'"},
	"deploymentSelector":           {"deployment.id != 'a'", "deployment.id != 'uncordon'", "deployment.id != 'drain'", "deployment.id == 'a'"},
	"groupBy":                      {"resource.metadata['zone']", "resource.id"},
	"sharedPool":                   {"shared"},
	"strict":                       {true},
	"rate":                         {map[string]any{"limit": 1, "periodSeconds": 300}, map[string]any{"limit": "50%", "periodSeconds": 60}},
	"limit":                        {0, 1, 2, "50%", "100%"},
	"dependsOn":                    {"false", "deployment.id == 'b'", "deployment.id == 'a'"},
	"appliesTo":                    {"false", "true"},
	"selector":                     {"false", "version.tag != 'v2'"},
	"allowWindow":                  {false},
	"firstDeploy":                  {"apply"},
	"stuckAfterSeconds":            {0, 60},
	"readinessWindowSeconds":       {0, 600},
	"timeScaleInterval":            {0, 30, 3600},
	"maxRetries":                   {0, 1, 5},
	"backoffSeconds":               {0, 600},
	"minApprovals":                 {0, 2},
	"minimumSoakTimeMinutes":       {0, 30},
	"minimumSuccessPercentage":     {0, 100},
	"intervalSeconds":              {0, 60, 36000},
	"durationMinutes":              {1, 20},
	"onJobStatuses":                {[]any{}, []any{"failure"}},
	"onVersionStatuses":            {[]any{}, []any{"paused"}, []any{"withdrawn", "odd"}},
	"onFailureBudget":              {false, true},
	"hooksIdempotent":              {false},
	"preparedStatePersists":        {true},
	"memberRoles":                  {map[string]any{}, map[string]any{"pre": "deployment.id == 'drain'"}, map[string]any{"pre": "deployment.id == 'uncordon'", "post": "deployment.id == 'drain'"}},
	"waves":                        {[]any{2}},
	"rrule":                        {"FREQ=DAILY;BYHOUR=9;BYMINUTE=0;BYSECOND=0"},
	"dependsOnEnvironmentSelector": {"environment.id == 'nowhere'", "environment.id == 'prod'"},
}

// fieldsOf are the fields that a kind of rule may be given besides those that it has.
var fieldsOf = map[string][]string{
	"deploymentBracket":   {"onMemberFailure", "overlapStrategy", "readinessMode", "unchangedMemberStrategy", "stuckAfterSeconds", "hooksIdempotent", "memberRoles", "readinessWindowSeconds"},
	"resourceConcurrency": {"groupBy", "sharedPool", "strict", "stuckAfterSeconds", "rate"},
	"gradualRollout":      {"orderSalt", "orderHash", "orderKey"},
	"deploymentWindow":    {"allowWindow", "firstDeploy"},
}

func policyEdits(e *editor) (list []edit) {
	const while = 150 * time.Second
	add := func(name string, change func(policyTree) policyTree) {
		list = append(list, edit{name, func(e *editor) { e.load(change(e.tree())) }},
			edit{name + " for a while", func(e *editor) {
				before := e.tree()
				if e.load(change(e.tree())) {
					e.after(while, "policies as before", func(e *editor) { e.load(before) })
				}
			}})
	}
	for k, rule := range rulesOf(e.tree()[0]) {
		id, kind := rule["id"].(string), kindOf(rule)
		rewrite := func(name string, change func(map[string]any)) {
			add(name, func(p policyTree) policyTree {
				change(p[0]["rules"].([]any)[k].(map[string]any))
				return p
			})
		}
		rewrite("rename "+kind, func(r map[string]any) { r["id"] = id + "2" })
		add("remove "+kind, func(p policyTree) policyTree {
			setRules(p[0], slices.Delete(rulesOf(p[0]), k, k+1))
			return p
		})
		add("move "+kind+" to a policy of its own", func(p policyTree) policyTree {
			rules := rulesOf(p[0])
			own := map[string]any{"id": "q", "name": "q", "selector": "true"}
			setRules(own, rules[k:k+1])
			setRules(p[0], slices.Delete(slices.Clone(rules), k, k+1))
			return append(p, own)
		})
		fields := slices.Sorted(maps.Keys(rule[kind].(map[string]any)))
		for _, more := range fieldsOf[kind] {
			if !slices.Contains(fields, more) {
				fields = append(fields, more)
			}
		}
		for _, field := range fields {
			for _, value := range editValues[field] {
				before, _ := json.Marshal(rule[kind].(map[string]any)[field])
				text, _ := json.Marshal(value)
				if string(before) == string(text) {
					continue
				}
				rewrite(fmt.Sprintf("%s.%s=%s", kind, field, text), func(r map[string]any) {
					own := r[kind].(map[string]any)
					own[field] = value
					if field == "overlapStrategy" && value == "merge" {
						own["preparedStatePersists"] = true
					}
					if field == "rolloutType" && value == "exponential" {
						own["positionGrowthFactor"] = 2
					}
					if field == "rolloutType" {
						delete(own, "waves")
					}
					if field == "readinessMode" {
						delete(own, "readinessWindowSeconds")
						if value != "immediate" {
							own["readinessWindowSeconds"] = 120
						}
					}
					if field == "readinessWindowSeconds" {
						own["readinessMode"] = "collection_window"
					}
				})
			}
		}
	}
	for _, selector := range []string{"false", "resource.id != 'r1'", "deployment.id != 'a'", "deployment.id != 'uncordon'", "deployment.id != 'drain'", "environment.id == 'staging'", "resource.metadata['zone'] == 'b'"} {
		add("policy selector "+selector, func(p policyTree) policyTree {
			p[0]["selector"] = selector
			return p
		})
	}
	add("policy disabled", func(p policyTree) policyTree {
		p[0]["enabled"] = false
		return p
	})
	add("policy removed", func(policyTree) policyTree { return policyTree{} })
	add("policy renamed", func(p policyTree) policyTree {
		p[0]["id"] = "other"
		return p
	})
	add("policy renamed with its rules", func(p policyTree) policyTree {
		p[0]["id"] = "other"
		for _, r := range rulesOf(p[0]) {
			r["id"] = "other " + r["id"].(string)
		}
		return p
	})
	add("policy split by resource", func(p policyTree) policyTree {
		var copied policyTree
		data, _ := json.Marshal(p)
		json.Unmarshal(data, &copied)
		for _, r := range rulesOf(copied[0]) {
			r["id"] = "other " + r["id"].(string)
		}
		p[0]["selector"], copied[0]["selector"], copied[0]["id"], copied[0]["name"] = "resource.id == 'r1'", "resource.id != 'r1'", "q", "q"
		return append(p, copied[0])
	})
	add("policy given a limit", func(p policyTree) policyTree {
		return append(p, map[string]any{"id": "l", "name": "l", "selector": "true", "rules": []any{map[string]any{"id": "L", "resourceConcurrency": map[string]any{"groupSelector": "true", "limit": 1}}}})
	})
	add("policy given a pause", func(p policyTree) policyTree {
		return append(p, map[string]any{"id": "l", "name": "l", "selector": "true", "rules": []any{map[string]any{"id": "L", "resourceConcurrency": map[string]any{"groupSelector": "true", "limit": 0}}}})
	})
	add("policy given a bracket", func(p policyTree) policyTree {
		return append(p, map[string]any{"id": "k", "name": "k", "selector": "true", "rules": []any{map[string]any{"id": "K", "deploymentBracket": map[string]any{"deploymentSelector": "true", "readinessMode": "immediate", "memberRoles": map[string]any{}}}}})
	})
	return list
}

func fleetEdits(e *editor) (list []edit) {
	const while = 150 * time.Second
	add := func(name string, do func(*editor)) { list = append(list, edit{name, do}) }
	// part takes something out of the fleet, and in a second edit puts it back after a while.
	part := func(name string, do func(*editor)) {
		add(name, do)
		add(name+" for a while", func(e *editor) {
			before, since := e.clone().s, e.now
			do(e)
			e.after(while, "fleet as before", func(e *editor) {
				jobs := map[rollout.TargetID]rollout.Target{}
				for _, t := range e.s.Targets {
					jobs[t.TargetID] = t
				}
				meanwhile := e.s
				e.s = before
				e.s.State = meanwhile.State
				for _, v := range meanwhile.Versions { // released since
					if v.CreatedAt.After(since) && !slices.ContainsFunc(e.s.Versions, func(own rollout.Version) bool { return own.Deployment == v.Deployment && own.ID == v.ID }) {
						e.s.Versions = append(e.s.Versions, v)
					}
				}
				for _, a := range meanwhile.Approvals {
					if a.At.After(since) {
						e.s.Approvals = append(e.s.Approvals, a)
					}
				}
				for k := range e.s.Targets {
					t := &e.s.Targets[k]
					if own, known := jobs[t.TargetID]; known {
						t.Jobs, t.Current = own.Jobs, own.Current
						continue
					}
					for j := range t.Jobs { // what ended meanwhile is seen now
						if job := &t.Jobs[j]; !job.Status.Terminal() && !slices.ContainsFunc(e.ends, func(end editEnd) bool { return end.run == job.Run }) {
							job.Status, job.CompletedAt, t.Current = rollout.JobSuccessful, e.now, job.Version
							e.noteHook(editEnd{run: job.Run})
						}
					}
				}
			})
		})
	}
	without := func(e *editor, which func(rollout.Target) bool) {
		e.s.Targets = slices.DeleteFunc(e.s.Targets, which)
	}
	add("r1 changes zone", func(e *editor) { e.s.Resources[0].Metadata = map[string]string{"zone": "b"} })
	add("r1 loses its labels", func(e *editor) { e.s.Resources[0].Metadata = nil })
	on1 := func(t rollout.Target) bool { return t.Resource == "r1" }
	part("r1 unseen", func(e *editor) {
		without(e, on1)
		e.s.Resources = slices.Delete(e.s.Resources, 0, 1)
	})
	part("r1 without targets", func(e *editor) { without(e, on1) })
	add("r1 deleted", func(e *editor) {
		without(e, on1)
		e.s.Resources = slices.Delete(e.s.Resources, 0, 1)
		e.s.DeletedResources = []string{"r1"}
	})
	part("r1 deleted and listed", func(e *editor) { e.s.DeletedResources = []string{"r1"} })
	renew := func(e *editor) {
		maps.DeleteFunc(e.prepared, func(key [2]string, _ []string) bool { return key[0] == "r1" })
		for k := range e.s.Targets {
			if t := &e.s.Targets[k]; t.Resource == "r1" {
				t.Current, t.Jobs, t.JoinedAt = "", nil, e.now
			}
		}
	}
	add("r1 replaced by another one of its name", renew)
	add("r1 deleted, and made again", func(e *editor) {
		e.s.DeletedResources = []string{"r1"}
		e.after(while, "r1 made again", func(e *editor) {
			e.s.DeletedResources = nil
			renew(e)
		})
	})
	add("r1 moves to another environment", func(e *editor) {
		if !slices.ContainsFunc(e.s.Environments, func(x rollout.Environment) bool { return x.ID == "other" }) {
			e.s.Environments = append(e.s.Environments, rollout.Environment{ID: "other"})
		}
		for k := range e.s.Targets {
			if t := &e.s.Targets[k]; t.Resource == "r1" && t.Environment == "prod" {
				t.Environment = "other"
			}
		}
	})
	add("r1 moves to another environment, without its jobs", func(e *editor) {
		e.s.Environments = append(e.s.Environments, rollout.Environment{ID: "other"})
		for k := range e.s.Targets {
			if t := &e.s.Targets[k]; t.Resource == "r1" && t.Environment == "prod" {
				t.Environment, t.Jobs = "other", nil
			}
		}
	})
	for _, env := range e.s.Environments {
		part("environment "+env.ID+" removed", func(e *editor) {
			without(e, func(t rollout.Target) bool { return t.Environment == env.ID })
			e.s.Environments = slices.DeleteFunc(e.s.Environments, func(x rollout.Environment) bool { return x.ID == env.ID })
			e.s.Approvals = nil
		})
		add("environment "+env.ID+" renamed", func(e *editor) {
			for k := range e.s.Environments {
				if e.s.Environments[k].ID == env.ID {
					e.s.Environments[k].ID = "new " + env.ID
				}
			}
			for k := range e.s.Targets {
				if t := &e.s.Targets[k]; t.Environment == env.ID {
					t.Environment = "new " + env.ID
				}
			}
		})
	}
	for _, d := range e.s.Deployments {
		part("deployment "+d.ID+" removed", func(e *editor) {
			without(e, func(t rollout.Target) bool { return t.Deployment == d.ID })
			e.s.Deployments = slices.DeleteFunc(e.s.Deployments, func(x rollout.Deployment) bool { return x.ID == d.ID })
			e.s.Versions = slices.DeleteFunc(e.s.Versions, func(v rollout.Version) bool { return v.Deployment == d.ID })
			e.s.Approvals = nil
		})
		part("deployment "+d.ID+" removed from r1", func(e *editor) {
			without(e, func(t rollout.Target) bool { return t.Deployment == d.ID && t.Resource == "r1" })
		})
		add("release of "+d.ID, func(e *editor) {
			e.s.Versions = append(e.s.Versions, version(d.ID, "v4", e.now))
		})
		for _, id := range []string{"v1", "v2"} {
			at := func(e *editor) int {
				return slices.IndexFunc(e.s.Versions, func(v rollout.Version) bool { return v.Deployment == d.ID && v.ID == id })
			}
			if at(e) < 0 {
				continue
			}
			change := func(name string, do func(*editor, *rollout.Version)) {
				part(d.ID+" "+id+" "+name, func(e *editor) {
					if k := at(e); k >= 0 {
						do(e, &e.s.Versions[k])
					}
				})
			}
			change("withdrawn", func(_ *editor, v *rollout.Version) { v.Status = "withdrawn" })
			change("paused", func(_ *editor, v *rollout.Version) { v.Status = rollout.VersionPaused })
			change("republished", func(e *editor, v *rollout.Version) { v.CreatedAt = e.now })
			change("for r2 only", func(_ *editor, v *rollout.Version) { v.TargetSelector = "resource.id == 'r2'" })
			change("for nobody", func(_ *editor, v *rollout.Version) { v.TargetSelector = "resource.metadata['nothing'] == 'x'" })
			change("for everybody", func(_ *editor, v *rollout.Version) { v.TargetSelector = "" })
			part(d.ID+" "+id+" deleted", func(e *editor) {
				if k := at(e); k >= 0 {
					e.s.Versions = slices.Delete(e.s.Versions, k, k+1)
				}
			})
		}
	}
	part("approvals withdrawn", func(e *editor) { e.s.Approvals = nil })
	for _, rule := range rulesOf(e.tree()[0]) {
		own := func(e *editor) rollout.Override {
			return rollout.Override{ID: "o", Rule: rule["id"].(string), Version: "v2", CreatedAt: e.now, CreatedBy: "ann", Reason: "urgent"}
		}
		part("override of "+kindOf(rule), func(e *editor) { e.s.Overrides = append(e.s.Overrides, own(e)) })
		add("override of "+kindOf(rule)+" that expires", func(e *editor) {
			o := own(e)
			o.ExpiresAt = e.now.Add(70 * time.Second)
			e.s.Overrides = append(e.s.Overrides, o)
		})
	}
	for _, own := range []struct {
		what string
		z    rollout.Freeze
	}{
		{"everything", rollout.Freeze{}}, {"everything but what has begun", rollout.Freeze{FinishBegun: true}}, {"r1", rollout.Freeze{Resource: "r1"}},
		{"prod but what has begun", rollout.Freeze{Environment: "prod", FinishBegun: true}}, {"a", rollout.Freeze{Deployment: "a"}}, {"a and its curves", rollout.Freeze{Deployment: "a", PauseCurves: true}}, {"uncordon", rollout.Freeze{Deployment: "uncordon"}},
	} {
		freeze := func(e *editor, until time.Time) {
			z := own.z
			z.ID, z.CreatedAt, z.ExpiresAt, z.CreatedBy, z.Reason = "z", e.now, until, "bob", "INC-7"
			e.s.Freezes = append(e.s.Freezes, z)
		}
		part("freeze of "+own.what, func(e *editor) { freeze(e, time.Time{}) })
		add("freeze of "+own.what+" that expires", func(e *editor) { freeze(e, e.now.Add(70*time.Second)) })
	}
	add("state lost", func(e *editor) { e.s.State = rollout.State{} })
	add("state lost, brackets", func(e *editor) { e.s.State.Brackets = nil })
	add("state lost, executions", func(e *editor) { e.s.State.Executions = nil })
	add("state lost, rollouts", func(e *editor) { e.s.State.Rollouts = nil })
	add("state lost, pools", func(e *editor) { e.s.State.Pools = nil })
	for _, back := range []int{1, 2, 4, 8} {
		add(fmt.Sprintf("state restored from %d plans ago", back), func(e *editor) {
			if n := len(e.backups); n > 0 {
				e.s.State = e.backups[max(0, n-1-back)]
			}
		})
	}
	forget := func(e *editor, which func(rollout.Job) bool) {
		for k := range e.s.Targets {
			e.s.Targets[k].Jobs = slices.DeleteFunc(e.s.Targets[k].Jobs, which)
		}
	}
	add("ended jobs forgotten", func(e *editor) { forget(e, func(j rollout.Job) bool { return j.Status.Terminal() }) })
	add("old jobs forgotten", func(e *editor) {
		forget(e, func(j rollout.Job) bool { return j.Status.Terminal() && e.now.Sub(j.CompletedAt) > 3*time.Minute })
	})
	add("all jobs forgotten", func(e *editor) { forget(e, func(rollout.Job) bool { return true }) })
	shift := func(d time.Duration) func(*editor) {
		return func(e *editor) {
			e.now = e.now.Add(d)
			for k := range e.ends {
				e.ends[k].at = e.ends[k].at.Add(d)
			}
			for k := range e.later {
				e.later[k].at = e.later[k].at.Add(d)
			}
		}
	}
	add("clock back an hour", shift(-time.Hour))
	add("clock back a minute", shift(-time.Minute))
	add("clock forward an hour", shift(time.Hour))
	part("r1 down", func(e *editor) { e.s.Unavailable = []string{"r1"} })
	part("r2 down", func(e *editor) { e.s.Unavailable = []string{"r2"} })
	add("r3 first", func(e *editor) {
		for k := range e.s.Targets {
			if e.s.Targets[k].Resource == "r3" {
				e.s.Targets[k].Priority = 9
			}
		}
	})
	add("r1 outdated", func(e *editor) { e.s.Targets[0].OutdatedAt = e.now })
	return list
}

// editKind is the kind of an edit in the words of the excuses. For a while or for good is the same.
func editKind(name string) string {
	for _, own := range []struct{ part, kind string }{
		{"state lost, ", "state one lost"}, {"state lost", "state lost"}, {"state restored", "state restored"}, {"jobs forgotten", "host forgets"}, {"without its jobs", "host forgets"},
		{"clock back", "clock back"}, {"replaced by another one", "fleet target renewed"}, {"r1 deleted", "fleet resource deleted"},
		{"r1 without targets", "fleet target removed"}, {"removed from r1", "fleet target removed"}, {"deployment ", "fleet deployment removed"},
		{" deleted", "version deleted"}, {" republished", "version republished"},
	} {
		if strings.Contains(name, own.part) {
			return own.kind
		}
	}
	return name
}

// as does a part of an edit, and notes what that concerned.
func (e *editor) as(kind string, do func(*editor)) {
	if kind == "" {
		do(e)
		return
	}
	before := e.clone()
	do(e)
	e.did[kind] = true
	e.touch(kind, &before.s)
	if e.now.Before(before.now) {
		maps.Copy(e.touched[kind], e.startedSince(e.now))
	}
}

// explore runs a world to its end, and from each of its states on, in a copy of it, with each edit:
// of all these one in share.
func (b editBase) explore(w *editing, share uint64) {
	e := b.begin(w)
	for n := 0; ; n++ {
		if n > 300 {
			w.Fatalf("%s never ends", b.name)
		}
		ofPolicies := policyEdits(e)
		for k, own := range slices.Concat(ofPolicies, fleetEdits(e)) {
			h := fnv.New64a()
			fmt.Fprint(h, b.name, n, own.name)
			if h.Sum64()%share != 0 {
				continue
			}
			other := e.clone()
			other.edited = own.name
			other.note("EDIT %s", own.name)
			other.as(editKind(own.name), own.do)
			if k < len(ofPolicies) {
				other.did["policy"] = true
			}
			w.run(other)
			w.seen[map[bool]string{true: "edit of a policy", false: "edit of the fleet"}[k < len(ofPolicies)]]++
			if strings.HasSuffix(own.name, "for a while") {
				w.seen["for a while"]++
			}
			if slices.ContainsFunc(e.s.State.Executions, func(r *bracket.ExecutionRecord) bool { return r.Open != nil }) {
				w.seen["open execution"]++
			}
			if slices.ContainsFunc(e.s.State.Pools, func(r concurrency.Record) bool { return len(r.Leases) > 0 }) {
				w.seen["held lease"]++
			}
		}
		e.backups = append(slices.Clip(e.backups), e.s.State)
		if !e.step() {
			return
		}
	}
}

func (w *editing) run(e *editor) {
	w.seen["edits"]++
	for n := 0; e.step(); n++ {
		if n > 400 {
			e.report(e, "no end", "after %d steps", n)
			return
		}
	}
}
