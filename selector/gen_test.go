package selector_test

import (
	"fmt"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/selector"
)

// testSchema has a variable or two of every type.
func testSchema() selector.Schema {
	return append(selector.DefaultSchema(),
		selector.Variable{Name: "flag", Type: selector.Bool},
		selector.Variable{Name: "other.flag", Type: selector.Bool},
		selector.Variable{Name: "weight", Type: selector.Int},
		selector.Variable{Name: "other.weight", Type: selector.Int},
		selector.Variable{Name: "tags", Type: selector.StringList},
	)
}

// hostVars are variables as a careless host may have them: anything under any name.
type hostVars map[string]any

// absent is a value that comes with false: there is none.
type absent struct{ value any }

func (h hostVars) Lookup(name string) (any, bool) {
	v, ok := h[name]
	if none, no := v.(absent); no {
		return none.value, false
	}
	return v, ok
}

// Small pools, so that things collide.
var (
	stringVars = []string{"resource.name", "resource.kind", "version.tag"}
	mapVars    = []string{"resource.metadata", "deployment.metadata"}
	boolVars   = []string{"flag", "other.flag"}
	intVars    = []string{"weight", "other.weight"}
	keys       = []string{"a", "b", "team", "x.y/z", ""}
	texts      = []string{"", "a", "b", "ab", "ba", "prod-east", "é"}
	patterns   = []string{"^a", "b$", "a+b*", "(a{1,3})", "", "[^a]"}
)

type gen struct{ *rapid.T }

func (g gen) pick(label string, from []string) string {
	return rapid.SampledFrom(from).Draw(g.T, label)
}
func (g gen) n(label string, most int) int { return rapid.IntRange(0, most).Draw(g.T, label) }

func quoted(s string) string {
	if strings.Contains(s, "'") {
		return fmt.Sprintf("%q", s)
	}
	return "'" + s + "'"
}

func (g gen) literal() string { return quoted(g.pick("text", texts)) }

// str is an operand of type string within the native subset.
func (g gen) str() string {
	m := g.pick("map", mapVars)
	key := g.pick("key", keys)
	switch g.n("string", 4) {
	case 0:
		return g.pick("variable", stringVars)
	case 1:
		if key == "a" || key == "b" || key == "team" {
			return m + "." + key
		}
		return m + "[" + quoted(key) + "]"
	default:
		return m + "[" + quoted(key) + "]"
	}
}

func (g gen) list() string {
	n := g.n("items", 12)
	items := make([]string, n)
	for i := range items {
		items[i] = g.literal()
	}
	return "[" + strings.Join(items, ", ") + "]"
}

// leaf is a condition of the native subset.
func (g gen) leaf() string {
	switch g.n("leaf", 12) {
	case 0, 1:
		return g.str() + " == " + g.literal()
	case 2:
		return g.literal() + " == " + g.str()
	case 3:
		return g.str() + " != " + g.literal()
	case 4:
		return g.str() + " in " + g.list()
	case 5:
		return g.str() + "." + g.pick("method", []string{"startsWith", "endsWith", "contains"}) + "(" + g.literal() + ")"
	case 6:
		return g.str() + ".matches(" + quoted(g.pick("pattern", patterns)) + ")"
	case 7:
		return quoted(g.pick("key", keys)) + " in " + g.pick("map", mapVars)
	case 8:
		return "has(" + g.pick("map", mapVars) + "." + g.pick("key", []string{"a", "b", "team"}) + ")"
	case 9:
		return g.pick("flag", append([]string{"true", "false"}, boolVars...))
	case 10:
		op := g.pick("op", []string{"==", "!="})
		return g.pick("int", intVars) + " " + op + " " + g.pick("int", append([]string{"0", "1", "-1"}, intVars...))
	case 11:
		return g.pick("int", intVars) + " in [0, 1, 2]"
	default:
		op := g.pick("op", []string{" == ", " != "})
		return g.str() + op + g.str()
	}
}

// expr is an expression of the native subset.
func (g gen) expr(depth int) string {
	if depth <= 0 {
		return g.leaf()
	}
	switch g.n("shape", 7) {
	case 0, 1:
		return g.expr(depth-1) + " && " + g.expr(depth-1)
	case 2, 3:
		return "(" + g.expr(depth-1) + " || " + g.expr(depth-1) + ")"
	case 4:
		return "!(" + g.expr(depth-1) + ")"
	case 5:
		// What label selectors are made of.
		key, m := quoted(g.pick("key", keys)), g.pick("map", mapVars)
		return "(" + key + " in " + m + " && " + m + "[" + key + "] " + g.pick("op", []string{"==", "!="}) + " " + g.literal() + ")"
	case 6:
		return "((" + g.expr(depth-1) + ") == (" + g.expr(depth-1) + "))"
	default:
		return g.leaf()
	}
}

// any is an expression of the whole language, of type bool.
func (g gen) any(depth int) string {
	if depth <= 0 {
		return g.leaf()
	}
	text := func() string {
		switch g.n("computed", 9) {
		case 0:
			return "(" + g.str() + " + " + g.literal() + ")"
		case 1:
			return "string(" + g.pick("int", intVars) + ")"
		case 2:
			return "(" + g.any(depth-1) + " ? " + g.str() + " : " + g.literal() + ")"
		case 3:
			return "string(version.createdAt)"
		case 4:
			return g.pick("map", mapVars) + "[" + g.pick("variable", stringVars) + "]"
		case 5: // out of a value that is made on the spot
			made := g.pick("made", []string{"[%s, 'a'][0]", "{'k': %s}['k']", "{'k': %s}.k", "(tags + [%s])[0]", "[[%s]][0][0]", "{'k': [%s]}.k[0]", "tags.map(t, t + %s)[0]"})
			return fmt.Sprintf(made, g.str())
		case 6:
			return "tags[" + g.pick("int", append([]string{"0"}, intVars...)) + "]"
		default:
			return g.str()
		}
	}
	switch g.n("shape", 15) {
	case 0, 1:
		return g.any(depth-1) + " && " + g.any(depth-1)
	case 2:
		return "(" + g.any(depth-1) + " || " + g.any(depth-1) + ")"
	case 3:
		return "!(" + g.any(depth-1) + ")"
	case 4:
		return "(" + g.any(depth-1) + " ? " + g.any(depth-1) + " : " + g.any(depth-1) + ")"
	case 5:
		return "tags." + g.pick("macro", []string{"all", "exists", "exists_one"}) + "(t, t " + g.pick("op", []string{"==", "!=", "<", ">="}) + " " + text() + ")"
	case 6:
		return "size(tags) " + g.pick("op", []string{"<", "==", ">"}) + " " + g.pick("int", append([]string{"2"}, intVars...))
	case 7:
		return text() + " " + g.pick("op", []string{"<", "<=", ">", ">=", "==", "!="}) + " " + text()
	case 8:
		return "int(" + g.str() + ") > 1"
	case 9:
		return text() + " in tags"
	case 10:
		return "version.createdAt > timestamp('2026-01-02T03:04:05Z') - duration('1h')"
	case 11:
		return "tags.filter(t, t.contains(" + g.literal() + ")).size() == 1"
	case 12:
		return "tags.map(t, t + " + text() + ").exists(u, u.startsWith(" + g.literal() + "))"
	case 13:
		return g.pick("int", intVars) + " " + g.pick("sum", []string{"+", "*", "/", "%", "-"}) + " " + g.pick("int", append([]string{"0", "3"}, intVars...)) + " >= 1"
	case 14:
		return "version.createdAt.getHours('+01:00') < 12"
	default:
		return g.expr(depth - 1)
	}
}

// labels is a map of labels over the pools.
func (g gen) labels(long bool) map[string]string {
	m := map[string]string{}
	for range g.n("labels", 4) {
		m[g.pick("key", keys)] = g.text(long)
	}
	return m
}

func (g gen) text(long bool) string {
	if long && g.n("long", 12) == 0 {
		return strings.Repeat(g.pick("text", texts), rapid.SampledFrom([]int{100, 257, 300, 60_000, 200_000}).Draw(g.T, "length"))
	}
	return g.pick("text", texts)
}

// vars binds every variable of testSchema. If wild, some have no value, some have one of a wrong
// type, and some are very long.
func (g gen) vars(wild bool) hostVars {
	h := hostVars{}
	for _, v := range testSchema() {
		if wild {
			switch g.n("binding", 15) {
			case 0:
				continue
			case 1:
				h[v.Name] = rapid.SampledFrom([]any{nil, 7, "text", int32(1), []byte("x"), map[string]any{}, true}).Draw(g.T, "wrong")
				continue
			case 2:
				h[v.Name] = rapid.SampledFrom([]any{absent{""}, absent{"a"}, absent{int64(1)}, absent{true}, absent{[]string{"a"}}, absent{map[string]string{"a": "b"}}}).Draw(g.T, "none")
				continue
			}
		}
		switch v.Type {
		case selector.String:
			h[v.Name] = g.text(wild)
		case selector.Int:
			h[v.Name] = int64(g.n("number", 3) - 1)
		case selector.Bool:
			h[v.Name] = rapid.Bool().Draw(g.T, "bool")
		case selector.Timestamp:
			h[v.Name] = time.Date(2026, 1, 2, 3, 4, 5, g.n("nanosecond", 2), time.FixedZone("east", 3600*g.n("zone", 3)))
		case selector.StringList:
			list := make([]string, g.n("tags", 4))
			for i := range list {
				list[i] = g.text(wild)
			}
			h[v.Name] = list
		case selector.StringMap:
			h[v.Name] = g.labels(wild)
		}
	}
	return h
}

// values copies variables into a Values, if all of them have the right type.
func values(env *selector.Env, h hostVars) (*selector.Values, bool) {
	v := env.NewValues()
	for name, value := range h {
		if v.Set(name, value) != nil {
			return nil, false
		}
	}
	return v, true
}
