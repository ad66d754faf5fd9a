package selector_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/selector"
)

// Defects of other systems that cannot be reproduced here, one test each.

// ctrlplane: a policy whose selector does not compile is silently not applied.
func TestDefectPolicyThatDoesNotCompileIsSkipped(t *testing.T) {
	env := newEnv(t, selector.Limits{})
	m, err := env.Matcher("deployment.metadata['layer'] == 'node' AND resource.metadata['cluster'] == 'prod-east'")
	var fault *selector.CompileError
	if m != nil || !errors.As(err, &fault) {
		t.Fatalf("%v, %v: want no matcher that could be applied, and an error", m, err)
	}
	if fault.Line != 1 || fault.Col != 40 || fault.Hint != "write && for AND" {
		t.Errorf("%d:%d: %s", fault.Line, fault.Col, fault.Hint)
	}
}

// ctrlplane: missing != 'x' is false without saying why.
func TestDefectMissingKeyIsSilent(t *testing.T) {
	env := newEnv(t, selector.Limits{})
	for _, text := range []string{"resource.metadata['team'] != 'x'", "resource.metadata['team'] == 'x'", "!(resource.metadata['team'] == 'x')"} {
		s, err := env.Compile(text)
		if err != nil {
			t.Fatal(err)
		}
		ok, err := s.Match(host())
		if ok || !errors.Is(err, selector.ErrMissingKey) || !strings.Contains(err.Error(), "resource.metadata['team']") {
			t.Errorf("%s: %v, %v", text, ok, err)
		}
	}
}

// ctrlplane: a string "true" counts as a match.
func TestDefectStringTrueMatches(t *testing.T) {
	env := newEnv(t, selector.Limits{})
	for _, text := range []string{"resource.name", "'true'", `"T"`, "resource.metadata['enabled']", "flag ? 'true' : 'false'"} {
		if s, err := env.Compile(text); err == nil {
			t.Errorf("%s compiles, as %v", text, s)
		}
	}
}

// ctrlplane: triple nested all over 400 items runs for more than 20 seconds.
func TestDefectNestedComprehensionRunsForSeconds(t *testing.T) {
	env := newEnv(t, selector.Limits{})
	_, err := env.Compile("tags.all(a, tags.all(b, tags.all(c, a + b + c != 'x')))")
	if !errors.Is(err, selector.ErrLimit) {
		t.Fatal(err)
	}
	// Also where the host allows the nesting: the estimate refuses it.
	deep := newEnv(t, selector.Limits{Nesting: 3})
	if _, err := deep.Compile("tags.all(a, tags.all(b, tags.all(c, a + b + c != 'x')))"); !errors.Is(err, selector.ErrLimit) {
		t.Fatal(err)
	}
	// And what is admitted for 64 items is metered for 400.
	s, err := env.Compile("tags.all(a, a + a != 'x')")
	if err != nil {
		t.Fatal(err)
	}
	tags := make([]string, 400)
	for i := range tags {
		tags[i] = strings.Repeat("a", 256)
	}
	if _, err := s.Match(hostVars{"tags": tags}); !errors.Is(err, selector.ErrLimit) {
		t.Fatal(err)
	}
}

// ctrlplane: a typo in a field of a dynamic map compiles and never matches.
func TestDefectTypoNeverMatches(t *testing.T) {
	env := newEnv(t, selector.Limits{})
	var fault *selector.CompileError
	if _, err := env.Compile("resource.knd == 'Node'"); !errors.As(err, &fault) || fault.Hint != "did you mean resource.kind?" {
		t.Fatal(err)
	}
}

// ctrlplane: programs are cached without bound. Here nothing is kept: what the caller drops is
// gone.
func TestDefectProgramsAreCachedWithoutBound(t *testing.T) {
	env := newEnv(t, selector.Limits{})
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	compile := func(n int) {
		for i := range n {
			if _, err := env.Compile(fmt.Sprintf("resource.kind == 'kind-%d' && size(tags) < %d", i, i)); err != nil {
				t.Fatal(err)
			}
		}
	}
	compile(100) // whatever the parser learns once
	before := heap()
	compile(1000)
	if after := heap(); after > before+1000*256 {
		t.Errorf("1000 selectors that nobody holds keep %d bytes", after-before)
	}
	runtime.KeepAlive(env)
}

// google/cel-go discussion #878, issue #881: parse-only trees shared between goroutines. Under the
// race detector.
func TestDefectParsedTreesAreShared(t *testing.T) {
	env := newEnv(t, selector.Limits{})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				s, err := env.Compile("tags.exists(x, x == resource.metadata['a']) || resource.kind == 'Node'")
				if err != nil {
					t.Error(err)
					return
				}
				if ok, err := s.Match(host()); !ok || err != nil {
					t.Error(ok, err)
				}
			}
		})
	}
	wg.Wait()
}

// cel-go v0.31.0: a bounded repetition panics if the size of regular expressions is limited by the
// library.
func TestDefectBoundedRepetitionPanics(t *testing.T) {
	env := newEnv(t, selector.Limits{})
	s, err := env.Compile("resource.kind.matches('(a{1,100})')")
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := s.Match(hostVars{"resource.kind": "aaa"}); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if _, err := env.Compile("resource.kind.matches('((a{1,100}){1,10})')"); !errors.Is(err, selector.ErrLimit) {
		t.Fatal(err)
	}
}

// cel-go: an int where a string is declared is unequal to every string, silently.
func TestDefectWrongGoTypeIsSilent(t *testing.T) {
	env := newEnv(t, selector.Limits{})
	for _, compile := range []func(string) (*selector.Selector, error){env.Compile, env.CompileCEL} {
		s, err := compile("resource.kind != 'Node'")
		if err != nil {
			t.Fatal(err)
		}
		ok, err := s.Match(hostVars{"resource.kind": 7})
		var fault *selector.EvalError
		if ok || !errors.As(err, &fault) || fault.Variable != "resource.kind" || err.Error() != `selector: resource.kind must be string, not int, in: resource.kind != "Node"` {
			t.Fatal(ok, err)
		}
		// nor is a value right that another variable may have
		values := map[string]any{"string": "a", "int64": int64(1), "bool": true, "time.Time": time.Time{}, "[]string": []string{"a"}, "map[string]string": map[string]string{"a": "b"}}
		for expr, variable := range map[string]string{
			"string resource.kind != 'Node'": "resource.kind", "int64 weight != 2": "weight", "bool flag": "flag", "[]string 'a' in tags": "tags",
			"time.Time version.createdAt != timestamp('2026-01-31T09:00:00Z')": "version.createdAt", "map[string]string 'a' in resource.metadata": "resource.metadata",
		} {
			declared, expr, _ := strings.Cut(expr, " ")
			s, err := compile(expr)
			if err != nil {
				t.Fatal(err)
			}
			for goType, value := range values {
				if ok, err := s.Match(hostVars{variable: value}); goType == declared != (err == nil) || goType != declared && (ok || !errors.As(err, &fault) || fault.Variable != variable) {
					t.Errorf("%s with a %s: %v, %v", expr, goType, ok, err)
				}
			}
		}
	}
}
