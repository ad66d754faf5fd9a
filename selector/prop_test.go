package selector_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/internal/testkit"
	"github.com/tranche-dev/tranche/selector"
)

func newEnv(tb testing.TB, limits selector.Limits) *selector.Env {
	tb.Helper()
	env, err := selector.NewEnv(testSchema(), limits)
	if err != nil {
		tb.Fatal(err)
	}
	return env
}

// outcome names a result; two results are the same if their outcome and text are.
func outcome(ok bool, err error) (kind, text string) {
	var missing interface{ MissingKey() string }
	switch {
	case err == nil && ok:
		return "yes", ""
	case err == nil:
		return "no", ""
	case errors.Is(err, selector.ErrMissingKey) && errors.As(err, &missing):
		return "missing", missing.MissingKey()
	case errors.Is(err, selector.ErrLimit):
		return "limit", err.Error()
	}
	return "error", err.Error()
}

func propI4(env *selector.Env, seen testkit.Tally) func(*rapid.T) {
	return func(t *rapid.T) {
		g := gen{t}
		text := g.expr(rapid.IntRange(0, 4).Draw(t, "depth"))
		native, err := env.Compile(text)
		if err != nil {
			// The only thing that can be wrong with an expression of the subset is its size.
			if !errors.Is(err, selector.ErrLimit) {
				t.Fatalf("%s: %v", text, err)
			}
			return
		}
		if !native.Native() {
			t.Fatalf("%s is not native", text)
		}
		library, err := env.CompileCEL(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		for range 25 {
			vars := g.vars(true)
			kind, says := outcome(library.Match(vars))
			seen[kind]++
			if k, s := outcome(native.Match(vars)); k != kind || s != says {
				t.Fatalf("%s\nnative: %s %s\nCEL: %s %s\nvars: %.500v", text, k, s, kind, says, vars)
			}
			if v, ok := values(env, vars); ok {
				seen["values"]++
				for name, s := range map[string]*selector.Selector{"native": native, "CEL": library} {
					if k, what := outcome(s.Match(v)); k != kind || what != says {
						t.Fatalf("%s\n%s on Values: %s %s\nCEL: %s %s\nvars: %.500v", text, name, k, what, kind, says, vars)
					}
				}
			}
		}
	}
}

// I4: what is evaluated natively has the verdict of the CEL library, missing keys and errors
// included. Each check compares 25 pairs of an expression and data: 2,500 by default, 100,000 with
// RAPID_CHECKS=4000.
func TestI4NativeEqualsCEL(t *testing.T) {
	seen := testkit.Tally{}
	seen.Check(t, propI4(newEnv(t, selector.Limits{}), seen), "yes", "no", "missing", "error", "limit", "values")
}

func FuzzI4NativeEqualsCEL(f *testing.F) {
	f.Add(testkit.Bytes(1 << 18))
	f.Fuzz(rapid.MakeFuzz(propI4(newEnv(f, selector.Limits{}), testkit.Tally{})))
}

func propI5(env *selector.Env, seen testkit.Tally) func(*rapid.T) {
	return func(t *rapid.T) {
		g := gen{t}
		// Conjunctions of conditions that an index can use, mixed with everything else.
		text := g.any(rapid.IntRange(0, 3).Draw(t, "depth"))
		if rapid.Bool().Draw(t, "selective") {
			text = g.leaf() + " && (" + text + ")"
		}
		s, err := env.Compile(text)
		if err != nil {
			seen["uncompiled"]++
			return
		}
		index := selector.NewIndex("resource.metadata", "resource.kind", "resource.name")
		elements := make([]hostVars, 12)
		for i := range elements {
			elements[i] = g.vars(false)
			switch g.n("element", 9) {
			case 0:
				delete(elements[i], g.pick("map", mapVars))
			case 1:
				elements[i]["resource.metadata"] = g.labels(true)
			}
			if err := index.Put(i, elements[i]); err != nil {
				t.Fatal(err)
			}
		}
		candidates := map[int]bool{}
		last := -1
		for i := range index.Candidates(s.Terms()) {
			if i <= last {
				t.Fatalf("candidate %d after %d", i, last)
			}
			last, candidates[i] = i, true
		}
		if len(candidates) < len(elements) {
			seen["narrowed"]++
		}
		// Match finds exactly what matches, whether it has to look or not.
		looked := 0
		found := map[int]bool{}
		failed := map[int]string{}
		last = -1
		for i, err := range index.Match(s, func(i int) selector.Vars { looked++; return elements[i] }) {
			if i <= last {
				t.Fatalf("match %d after %d", i, last)
			}
			last = i
			if err != nil {
				failed[i] = err.Error()
			} else {
				found[i] = true
			}
		}
		if looked == 0 && len(found) > 0 {
			seen["decided"]++
		}
		for i, vars := range elements {
			ok, err := s.Match(vars)
			kind, says := outcome(ok, err)
			seen[kind]++
			if found[i] != ok {
				t.Fatalf("%s on %v: %v, the index says %v", text, vars, ok, found[i])
			}
			if failed[i] != "" && failed[i] != says {
				t.Fatalf("%s on %v: %s, the index says %s", text, vars, says, failed[i])
			}
			if ok && !candidates[i] {
				t.Fatalf("%s matches %v, which is no candidate of %v", text, vars, s.Terms())
			}
			if ok && len(candidates) < len(elements) {
				seen["found"]++
			}
			for _, prefix := range []string{"", "resource.", "version.", "deployment."} {
				variable, key, required := s.Requires(prefix)
				value, bound := vars[variable].(string)
				if labels, ok := vars[variable].(map[string]string); ok {
					value, bound = labels[key]
				}
				if !bound || slices.Contains(required, value) || vars.large() {
					continue
				}
				seen["required"]++
				if kind != "no" || !strings.HasPrefix(variable, prefix) {
					t.Fatalf("%s on %v: %s %s, although it requires one of %q of %s %q", text, vars, kind, says, required, variable, key)
				}
			}
			// Terms are sound also read literally.
			for _, term := range s.Terms() {
				if ok && !holds(term, vars) {
					t.Fatalf("%s matches %v, but %v does not hold", text, vars, term)
				}
			}
		}
	}
}

// holds is what a term says, plainly.
func holds(term selector.Term, vars hostVars) bool {
	value, ok := vars[term.Variable].(string)
	if term.Keyed {
		value, ok = vars[term.Variable].(map[string]string)[term.Key]
		if term.Values == nil {
			return ok
		}
	}
	for _, v := range term.Values {
		if ok && v == value {
			return true
		}
	}
	return false
}

// large reports whether a text is longer than promised.
func (h hostVars) large() bool {
	for _, value := range h {
		labels, _ := value.(map[string]string)
		for _, text := range labels {
			if len(text) > 256 {
				return true
			}
		}
	}
	return false
}

// I5: what matches is among the candidates, and what lacks the value that is required is no match,
// and no error either.
func TestI5TermsAreSound(t *testing.T) {
	seen := testkit.Tally{}
	env := newEnv(t, selector.Limits{})
	seen.Check(t, propI5(env, seen), "yes", "no", "missing", "error", "narrowed", "found", "decided", "required")
}

func FuzzI5TermsAreSound(f *testing.F) {
	f.Add(testkit.Bytes(1 << 18))
	f.Fuzz(rapid.MakeFuzz(propI5(newEnv(f, selector.Limits{}), testkit.Tally{})))
}

func propI6(env *selector.Env, seen testkit.Tally) func(*rapid.T) {
	return func(t *rapid.T) {
		g := gen{t}
		text := g.any(rapid.IntRange(0, 3).Draw(t, "depth"))
		s, err := env.Compile(text)
		if err != nil {
			seen["uncompiled"]++
			return
		}
		limits := env.Limits()
		for range 10 {
			vars := g.vars(false)
			// Data that is as large as promised costs most.
			if rapid.Bool().Draw(t, "full") {
				fill := func(n int) string { return fmt.Sprintf("%*s", n, g.pick("text", texts)) }
				for _, name := range stringVars {
					vars[name] = fill(limits.StringBytes - 1)
				}
				for _, name := range mapVars {
					for _, key := range keys {
						vars[name].(map[string]string)[key] = fill(limits.StringBytes - 1)
					}
				}
				tags := make([]string, limits.ListItems)
				for i := range tags {
					tags[i] = fill(limits.StringBytes - 1)
				}
				vars["tags"] = tags
				seen["full"]++
			}
			actual, err := s.ActualCost(env, vars)
			if err != nil {
				seen["error"]++
			}
			if actual > s.Cost() {
				t.Fatalf("%s costs %d, estimated %d, for %v", text, actual, s.Cost(), vars)
			}
			if actual == s.Cost() {
				seen["tight"]++
			}
			seen["measured"]++
		}
	}
}

// I6: the estimate is never below the actual cost, for data within the promised sizes.
func TestI6EstimateIsNeverBelowCost(t *testing.T) {
	seen := testkit.Tally{}
	seen.Check(t, propI6(newEnv(t, selector.Limits{EstimatedCost: 10_000_000, RunCost: 10_000_000}), seen), "measured", "full", "tight")
}

func FuzzI6EstimateIsNeverBelowCost(f *testing.F) {
	f.Add(testkit.Bytes(1 << 18))
	f.Fuzz(rapid.MakeFuzz(propI6(newEnv(f, selector.Limits{}), testkit.Tally{})))
}

func propI7(env *selector.Env, seen testkit.Tally) func(*rapid.T) {
	return func(t *rapid.T) {
		g := gen{t}
		text := g.any(rapid.IntRange(0, 4).Draw(t, "depth"))
		s, err := env.Compile(text)
		if err != nil {
			seen["uncompiled"]++
			return
		}
		again, err := env.Compile(s.String())
		if err != nil {
			t.Fatalf("%s\nprinted as %s\n%v", text, s, err)
		}
		if again.String() != s.String() || again.Cost() != s.Cost() ||
			fmt.Sprint(again.Terms(), again.Variables()) != fmt.Sprint(s.Terms(), s.Variables()) {
			t.Fatalf("%s\nprinted as %s\nis then    %s", text, s, again)
		}
		for range 5 {
			vars := g.vars(true)
			k1, t1 := outcome(s.Match(vars))
			k2, t2 := outcome(again.Match(vars))
			if k1 != k2 || t1 != t2 {
				t.Fatalf("%s: %s %s\n%s: %s %s", text, k1, t1, s, k2, t2)
			}
		}
		if text != s.String() {
			seen["reprinted"]++
		}
		seen["round trip"]++
	}
}

// I7: compiling a selector's text gives a selector with the same text and answers.
func TestI7StringCompilesAgain(t *testing.T) {
	seen := testkit.Tally{}
	seen.Check(t, propI7(newEnv(t, selector.Limits{}), seen), "reprinted", "round trip")
}

func FuzzI7StringCompilesAgain(f *testing.F) {
	f.Add(testkit.Bytes(1 << 18))
	f.Fuzz(rapid.MakeFuzz(propI7(newEnv(f, selector.Limits{}), testkit.Tally{})))
}

func (g gen) labelSelector() selector.LabelSelector {
	l := selector.LabelSelector{}
	values := []string{"", "a", "b", "prod-east"}
	labelKeys := []string{"a", "b", "team", "x.y/z"}
	for range g.n("matchLabels", 2) {
		if l.MatchLabels == nil {
			l.MatchLabels = map[string]string{}
		}
		l.MatchLabels[g.pick("key", labelKeys)] = g.pick("value", values)
	}
	for range g.n("matchExpressions", 3) {
		r := selector.LabelRequirement{Key: g.pick("key", labelKeys),
			Operator: rapid.SampledFrom([]selector.LabelOperator{selector.In, selector.NotIn, selector.Exists, selector.DoesNotExist}).Draw(g.T, "operator")}
		if r.Operator == selector.In || r.Operator == selector.NotIn {
			for range 1 + g.n("values", 10) {
				r.Values = append(r.Values, g.pick("value", values))
			}
		}
		l.MatchExpressions = append(l.MatchExpressions, r)
	}
	return l
}

// matches is the table of Kubernetes, plainly.
func matches(l selector.LabelSelector, labels map[string]string) bool {
	for k, v := range l.MatchLabels {
		if got, ok := labels[k]; !ok || got != v {
			return false
		}
	}
	for _, r := range l.MatchExpressions {
		got, ok := labels[r.Key]
		listed := false
		for _, v := range r.Values {
			listed = listed || ok && v == got
		}
		if r.Operator == selector.In && !listed || r.Operator == selector.NotIn && listed ||
			r.Operator == selector.Exists && !ok || r.Operator == selector.DoesNotExist && ok {
			return false
		}
	}
	return true
}

func propI8(env *selector.Env, seen testkit.Tally) func(*rapid.T) {
	return func(t *rapid.T) {
		g := gen{t}
		l := g.labelSelector()
		plain, err := l.Compile()
		if err != nil {
			t.Fatal(err)
		}
		s, err := env.CompileLabels("resource.metadata", l)
		if err != nil {
			t.Fatal(err)
		}
		library, err := env.CompileCEL(l.Expression("resource.metadata"))
		if err != nil {
			t.Fatal(err)
		}
		if !s.Native() {
			t.Fatalf("%v is not native: %v", plain, s)
		}
		index := selector.NewIndex(selector.LabelsVariable)
		sets := make([]map[string]string, 10)
		for i := range sets {
			sets[i] = g.labels(false)
			if err := index.Put(i, selector.LabelMap(sets[i])); err != nil {
				t.Fatal(err)
			}
		}
		candidates, found := map[int]bool{}, map[int]bool{}
		for i := range index.Candidates(plain.Terms()) {
			candidates[i] = true
		}
		for i := range index.MatchLabels(plain, func(i int) map[string]string { return sets[i] }) {
			found[i] = true
		}
		for i, labels := range sets {
			want := matches(l, labels)
			seen[fmt.Sprint(want)]++
			if got := plain.Match(labels); got != want {
				t.Fatalf("%v on %v: Labels says %v", l, labels, got)
			}
			for name, s := range map[string]*selector.Selector{"selector": s, "CEL": library} {
				if got, err := s.Match(hostVars{"resource.metadata": labels}); got != want || err != nil {
					t.Fatalf("%v on %v: %s says %v, %v", l, labels, name, got, err)
				}
			}
			if want && !candidates[i] || want != found[i] {
				t.Fatalf("%v on %v: %v, candidate %v, found %v", l, labels, want, candidates[i], found[i])
			}
		}
		if len(candidates) < len(sets) {
			seen["narrowed"]++
		}
	}
}

// I8: a label selector equals its CEL text, in which absent keys are spelled out; both equal the
// table of Kubernetes.
func TestI8LabelsEqualTheirExpression(t *testing.T) {
	seen := testkit.Tally{}
	seen.Check(t, propI8(newEnv(t, selector.Limits{}), seen), "true", "false", "narrowed")
}

func FuzzI8LabelsEqualTheirExpression(f *testing.F) {
	f.Add(testkit.Bytes(1 << 18))
	f.Fuzz(rapid.MakeFuzz(propI8(newEnv(f, selector.Limits{}), testkit.Tally{})))
}
