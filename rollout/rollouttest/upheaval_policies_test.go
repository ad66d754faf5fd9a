package rollouttest_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"pgregory.net/rapid"
)

// drawnEdit is something that somebody does to the policies, the fleet or the state, and that
// reports whether it did.
type drawnEdit struct {
	kind string
	do   func() bool
}

// loads puts other policies in force and remembers the ones before, which somebody may want back.
func (u *upheaval) loads(p policyTree) bool {
	before := u.text
	if !u.load(p) {
		return false
	}
	u.note("policies %s", u.text)
	u.texts = append(u.texts, before)
	return true
}

func (u *upheaval) pickPolicy(p policyTree) map[string]any {
	if len(p) == 0 {
		return nil
	}
	return p[rapid.IntRange(0, len(p)-1).Draw(u.T, "policy")]
}

func (u *upheaval) pickRule(p map[string]any) int {
	if p == nil || len(p["rules"].([]any)) == 0 {
		return -1
	}
	return rapid.IntRange(0, len(p["rules"].([]any))-1).Draw(u.T, "rule")
}

func hasBracket(p map[string]any) bool {
	return slices.ContainsFunc(rulesOf(p), func(r map[string]any) bool { return kindOf(r) == "deploymentBracket" })
}

// rule draws a rule of a kind.
func (u *upheaval) rule(kind string, bracketed bool, id string) map[string]any {
	var text string
	switch kind {
	case "deploymentBracket":
		text = u.bracket()
	case "resourceConcurrency":
		text = u.limit()
		if u.chance(20) {
			text = `"resourceConcurrency":{"groupSelector":"true","limit":` + u.of("0", "1", "3", `"100%"`) + `}`
		}
	case "gradualRollout":
		text = u.curve(bracketed)
	case "deploymentDependency":
		text = u.dependency()
	case "versionSelector":
		text = u.versions()
	case "failureBudget":
		text = u.budget()
	case "anyApproval":
		text = u.approval()
	case "environmentProgression":
		text = u.progression()
	case "versionCooldown":
		text = u.cooldown()
	case "deploymentWindow":
		text = u.window()
	case "retry":
		text = u.retry()
	case "rollback":
		text = u.rollback()
	}
	var r map[string]any
	if err := json.Unmarshal([]byte(`{"id":`+strconv.Quote(id)+`,`+text+`}`), &r); err != nil {
		panic(err)
	}
	return r
}

var kinds = []string{"deploymentBracket", "resourceConcurrency", "resourceConcurrency", "gradualRollout", "deploymentDependency", "versionSelector", "failureBudget", "anyApproval", "environmentProgression", "versionCooldown", "deploymentWindow", "retry", "rollback"}

func (u *upheaval) policyEdits() (list []drawnEdit) {
	add := func(kind string, do func() bool) { list = append(list, drawnEdit{kind, do}) }
	policy := func(kind string, do func(policyTree, map[string]any) policyTree) {
		add("policy "+kind, func() bool {
			p := u.tree()
			own := u.pickPolicy(p)
			if own == nil {
				return false
			}
			if p = do(p, own); p == nil {
				return false
			}
			return u.loads(p)
		})
	}
	rule := func(kind string, do func(p policyTree, own map[string]any, k int) policyTree) {
		policy(kind, func(p policyTree, own map[string]any) policyTree {
			if k := u.pickRule(own); k >= 0 {
				return do(p, own, k)
			}
			return nil
		})
	}
	rule("rule removed", func(p policyTree, own map[string]any, k int) policyTree {
		setRules(own, slices.Delete(rulesOf(own), k, k+1))
		return p
	})
	policy("rule added", func(p policyTree, own map[string]any) policyTree {
		kind := u.of(kinds...)
		u.ids++
		r := u.rule(kind, hasBracket(own) || kind == "deploymentBracket", fmt.Sprint("n", u.ids))
		rules := rulesOf(own)
		setRules(own, slices.Insert(rules, rapid.IntRange(0, len(rules)).Draw(u.T, "at"), r))
		return p
	})
	rule("rule renamed", func(p policyTree, own map[string]any, k int) policyTree {
		u.ids++
		rulesOf(own)[k]["id"] = fmt.Sprint("n", u.ids)
		return p
	})
	for range 3 {
		rule("rule rewritten", func(p policyTree, own map[string]any, k int) policyTree {
			r := rulesOf(own)[k]
			rules := rulesOf(own)
			rules[k] = u.rule(kindOf(r), hasBracket(own), r["id"].(string))
			setRules(own, rules)
			return p
		})
	}
	rule("rule moved", func(p policyTree, own map[string]any, k int) policyTree {
		rules := rulesOf(own)
		to := u.pickPolicy(p)
		r := rules[k]
		setRules(own, slices.Delete(rules, k, k+1))
		setRules(to, append(rulesOf(to), r))
		return p
	})
	policy("rules reordered", func(p policyTree, own map[string]any) policyTree {
		rules := rulesOf(own)
		slices.Reverse(rules)
		setRules(own, rules)
		return p
	})
	for range 2 {
		policy("switched", func(p policyTree, own map[string]any) policyTree {
			own["enabled"] = own["enabled"] == false
			return p
		})
	}
	policy("selector", func(p policyTree, own map[string]any) policyTree {
		own["selector"] = u.of("true", "environment.name == 'prod'", "deployment.name == 'b'", "deployment.name != 'd'", "deployment.name != 'a'", "resource.metadata['region'] == 'eu'", "resource.name != 'r1'")
		return p
	})
	for range 2 {
		add("policy as before", func() bool {
			text := u.of(u.texts...)
			var p policyTree
			if err := json.Unmarshal([]byte(text), &p); err != nil {
				panic(err)
			}
			return u.loads(p)
		})
	}
	rewrite := list[slices.IndexFunc(list, func(e drawnEdit) bool { return e.kind == "policy rule rewritten" })]
	add("policy rolling update", func() bool { // of the host itself: for a while one of its planners has the old policies
		u.old, u.oldSteps = u.set, u.number(2, 5, 10)
		return rewrite.do()
	})
	return list
}
