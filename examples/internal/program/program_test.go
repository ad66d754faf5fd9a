package program_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/tranche-dev/tranche/examples/internal/program"
	"github.com/tranche-dev/tranche/internal/strictjson"
)

func TestParse(t *testing.T) {
	type mode string
	for _, row := range []struct{ why, args, want string }{
		{"flags alone", "-n 3 -for 1h -mode slow -seed 7 -all -u 5", ""},
		{"a number is no number", "-n x", `-n: "x": must be a whole number from 0 to 9`},
		{"a number is too large for an int", "-n 99999999999999999999", `-n: "99999999999999999999": must be a whole number from 0 to 9`},
		{"a number is out of bounds", "-n=-1", `-n: "-1": must be a whole number from 0 to 9`},
		{"a number without upper bound", "-u 0", `-u: "0": must be a whole number of at least 1`},
		{"a number without sign", "-seed -1", `-seed: "-1": must be a whole number from 0 to 18446744073709551615`},
		{"no duration", "-for 5", `-for: "5": must be a duration above 0 and of at most 24h, such as 90s or 1h30m`},
		{"no time at all", "-for 0s", `-for: "0s": must be a duration above 0 and of at most 24h, such as 90s or 1h30m`},
		{"a duration that is too long", "-for 99999999h", `-for: "99999999h": must be a duration above 0 and of at most 24h, such as 90s or 1h30m`},
		{"back in time", "-after -1s", `-after: "-1s": must be 0, or a duration of at most 1h such as 90s or 1h30m`},
		{"an unknown choice", "-mode quick", `-mode: "quick": must be "fast" or "slow"`},
		{"neither true nor false", "-all=maybe", `-all: "maybe": must be true or false`},
		{"all of them", "-n x -for 5 -all", "-n: \"x\": must be a whole number from 0 to 9\n-for: \"5\": must be a duration above 0 and of at most 24h, such as 90s or 1h30m"},
		{"an unknown flag", "-m", "-m: there is no such flag: -help lists them"},
		{"a misspelt flag", "-n 3 --mod=fast", "-mod: there is no such flag: did you mean -mode? -help lists them"},
		{"an unknown flag, behind a fault", "-n x -zzz 3", "-n: \"x\": must be a whole number from 0 to 9\n-zzz: there is no such flag: -help lists them"},
		{"no value", "-n 3 -f", "-f: needs a value: write -f file"},
		{"no flag", "---n", "p: bad flag syntax: ---n: -help lists the flags"},
		{"an empty value", "-n 3 -f=", `-f: is empty: give it a value, or leave it out`},
		{"an empty number", "-n=", `-n: is empty: give it a value, or leave it out`},
		{"two values", "-f a -n 3 -f b", `-f: is given twice: give it once`},
		{"an argument", "-n 3 file.yaml", `p: unexpected argument "file.yaml": files are named with -f`},
	} {
		flags := flag.NewFlagSet("p", flag.ContinueOnError)
		var n, u int
		var length, after time.Duration
		var way mode
		program.Number(flags, &n, "n", 1, 0, 9, "a `number`")
		program.Number(flags, &u, "u", 0, 1, math.MaxInt, "a `number`")
		program.Time(flags, &length, "for", time.Minute, 24*time.Hour, "a `duration`")
		program.Time(flags, &after, "after", 0, time.Hour, "a `duration`")
		program.Choice(flags, &way, "mode", "fast", "how", "fast", "slow")
		seed := flags.Uint64("seed", 0, "a `seed`")
		all := flags.Bool("all", false, "everything")
		flags.String("f", "", "a `file`")
		var out strings.Builder
		err := program.Parse(flags, strings.Fields(row.args), &out, fstest.MapFS{"b.yaml": {}, "a.json": {}}, "p counts.", "files are named with -f")
		if row.want == "" && (err != nil || n != 3 || u != 5 || length != time.Hour || after != 0 || way != "slow" || *seed != 7 || !*all) ||
			row.want != "" && (err == nil || err.Error() != row.want) || out.Len() > 0 {
			t.Errorf("%s: got %v, and printed %q", row.why, err, out.String())
		}
	}
	for _, ask := range []string{"-h", "-help", "--help"} {
		flags := flag.NewFlagSet("p", flag.ContinueOnError)
		var n, most int
		var length, after time.Duration
		var way, none mode
		program.Number(flags, &n, "n", 3, 0, 9, "a `number`")
		program.Number(flags, &most, "most", 0, 1, 9, "a `number`")
		program.Time(flags, &length, "for", 150*time.Minute, program.Longest, "a `duration`")
		program.Time(flags, &after, "after", 0, time.Hour, "a `duration`")
		program.Choice(flags, &way, "mode", "fast", "how it goes", "fast", "slow")
		program.Choice(flags, &none, "other", "", "how else", "fast", "slow")
		flags.Bool("all", false, "everything")
		var out strings.Builder
		err := program.Parse(flags, []string{ask}, &out, fstest.MapFS{"b.yaml": {}, "a.json": {}}, "p counts.", "")
		want := `p counts.

Flags:
  -after duration
    	a duration (default 0)
  -all
    	everything
  -for duration
    	a duration (default 2h30m)
  -mode fast|slow
    	how it goes: fast|slow (default fast)
  -most number
    	a number
  -n number
    	a number (default 3)
  -other fast|slow
    	how else: fast|slow

Files that are built in, from the folder of the program; a flag can name them from everywhere:
  a.json  b.yaml
`
		if !errors.Is(err, flag.ErrHelp) || out.String() != want {
			t.Errorf("%s: got %v, and printed %q, want %q", ask, err, out.String(), want)
		}
	}
}

func TestMeant(t *testing.T) {
	for _, row := range []struct{ name, want, why string }{
		{"clsters", "clusters", "a letter is missing"},
		{"Clusters", "clusters", "the case"},
		{"max_per_step", "max-per-step", "the way words are joined"},
		{"maxPerStep", "max-per-step", "as the library has it"},
		{"clus", "clusters", "the beginning of one"},
		{"re", "", "too short to say"},
		{"rea", "", "the beginning of two"},
		{"x", "", "nothing like it"},
	} {
		if got := program.Meant(row.name, "clusters", "max-per-step", "ready", "reason"); got != row.want {
			t.Errorf("%s: %q was taken for %q, want %q", row.why, row.name, got, row.want)
		}
	}
}

func TestShort(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0", 90 * time.Minute: "1h30m",
	} {
		if got := program.Short(d); got != want {
			t.Errorf("%v is %s, want %s", d, got, want)
		}
	}
}

// field is a fault as the packages of the library report it.
type field struct{ Path, Code, Value, Hint string }

func (f *field) Error() string { return f.Path + ": " + f.Hint }

func TestFlags(t *testing.T) {
	err := program.Flags(errors.Join(&field{"maxSurge", "c", "5", "must be at most replicas, 3"}, &field{"replicas", "c", "", "is needed"}), "maxSurge", "-max-surge", "replicas", "-replicas")
	var input *program.InputError
	if want := "-max-surge: 5: must be at most -replicas, 3\n-replicas: is needed"; err.Error() != want || !errors.As(err, &input) {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
	if program.Flags(nil) != nil {
		t.Error("no fault became one")
	}
}

func TestBelow(t *testing.T) {
	err := program.Below("spec", errors.Join(&field{"a[0]", "c", `"v"`, "wrong"}, errors.New("a circle"), &strictjson.Error{Code: "type", Hint: "must be an object"}, &field{"[1].b", "c", "", "wrong"}))
	if want := "spec.a[0]: \"v\": wrong\na circle\nspec: must be an object\nspec[1].b: wrong"; err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
	if program.Below("spec", nil) != nil {
		t.Error("no fault became one")
	}
}

func TestInputErrorNamesTheSourceOfEveryFault(t *testing.T) {
	inner := errors.New("b: wrong")
	err := error(&program.InputError{Source: "x.yaml", Err: errors.Join(errors.New("a: wrong"), inner)})
	if got := err.Error(); got != "x.yaml: a: wrong\nx.yaml: b: wrong" || !errors.Is(err, inner) {
		t.Errorf("got %q", got)
	}
}

func TestRead(t *testing.T) {
	dir := t.TempDir()
	mine := filepath.Join(dir, "mine.yaml")
	if err := os.WriteFile(mine, []byte("a: 1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	builtin := fstest.MapFS{"standard.yaml": {Data: []byte("a: 2\n")}, "other.json": {Data: []byte(`{"a": 3}`)}, "broken.yaml": {Data: []byte("a: [")}}
	for _, row := range []struct{ why, named, want, fault string }{
		{"without a name, what is built in", "", `{"a":2}`, ""},
		{"a file of the user", mine, `{"a":1}`, ""},
		{"a built-in file by its name, from every folder", "other.json", `{"a":3}`, ""},
		{"a file that is nowhere", "none.yaml", "", "none.yaml: no such file or directory, and no such file is built in: -help lists those that are"},
		{"a misspelt name", "standrad.yml", "", "standrad.yml: no such file or directory, and no such file is built in: did you mean standard.yaml?"},
		{"a directory", dir, "", dir + ": is a directory"},
		{"a broken file", "broken.yaml", "", "broken.yaml: yaml: "},
	} {
		name, data, err := program.Read(builtin, row.named, "standard.yaml")
		if string(data) != row.want || (err == nil) != (row.fault == "") || err != nil && !strings.HasPrefix(err.Error(), row.fault) {
			t.Errorf("%s: got %s, %v", row.why, data, err)
		}
		if want := row.named; name != want && (want != "" || name != "standard.yaml") {
			t.Errorf("%s: the name is %q", row.why, name)
		}
	}
}

func TestAmong(t *testing.T) {
	for _, row := range []struct{ names, want string }{
		{"", "there is none"},
		{"a", "there is only a"},
		{"b a", "there are a, b"},
		{"f e d c b a", "there are a, b, c, d, e, f"},
		{"h g f e d c b a", "there are a, b, c, d, e, f and 2 more"},
	} {
		if got := program.Among(strings.Fields(row.names)); got != row.want {
			t.Errorf("got %q, want %q", got, row.want)
		}
	}
}

func TestReadPolicies(t *testing.T) {
	builtin := fstest.MapFS{"none.yaml": {Data: []byte("[]\n")}, "one.yaml": {Data: []byte("[{name: a}]\n")}}
	if _, data, err := program.ReadPolicies(builtin, "one.yaml", ""); err != nil || string(data) != `[{"name":"a"}]` {
		t.Errorf("got %s, %v", data, err)
	}
	if _, _, err := program.ReadPolicies(builtin, "none.yaml", ""); err == nil || !strings.HasPrefix(err.Error(), "none.yaml: must hold at least one policy") {
		t.Errorf("got %v", err)
	}
}

func TestStart(t *testing.T) {
	for year, want := range map[int]string{1: "start: is required", 1969: "start: 1969-01-01T00:00:00Z: must lie", 1970: "", 2199: "", 2200: "start: 2200-01-01T00:00:00Z: must lie"} {
		if err := program.Start(time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)); (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%d: got %v, want %q", year, err, want)
		}
	}
}

// strict has a decoder of its own, which reports faults as it likes.
type strict struct{ text string }

func (s *strict) UnmarshalJSON(data []byte) error {
	s.text = string(data)
	return fmt.Errorf("%s is refused", data)
}

func TestDecode(t *testing.T) {
	builtin := fstest.MapFS{"a.yaml": {Data: []byte("for: 90s\n")}, "b.yaml": {Data: []byte("form: 90s\n")}, "c.yaml": {Data: []byte("for: -1s\n")}, "d.yaml": {Data: []byte("for: 0s\n")},
		"f.yaml": {Data: []byte("for: 90\n")}, "g.yaml": {Data: []byte("for: 99999999h\n")}, "h.yaml": {Data: []byte("for:\n")}, "null.yaml": {Data: []byte("null\n")}}
	var into struct {
		For program.Duration `json:"for"`
	}
	if name, err := program.Decode(builtin, "", "a.yaml", &into); err != nil || name != "a.yaml" || time.Duration(into.For) != 90*time.Second {
		t.Errorf("got %+v of %s, %v", into, name, err)
	}
	for file, want := range map[string]string{
		"b.yaml":    `b.yaml: form: unknown field; did you mean "for"?`,
		"c.yaml":    `c.yaml: for: "-1s": must be a duration above 0 and of at most 8760h, such as 90s`,
		"d.yaml":    `d.yaml: for: "0s": must be a duration above 0`,
		"f.yaml":    `f.yaml: for: 90: must be a duration above 0 and of at most 8760h, such as 90s`,
		"g.yaml":    `g.yaml: for: "99999999h": must be a duration above 0 and of at most 8760h`,
		"h.yaml":    `h.yaml: for: null is not a value here: write one, or leave it out`,
		"null.yaml": "null.yaml: must be an object, not null",
		"e.yaml":    "e.yaml: no such file",
	} {
		if _, err := program.Decode(builtin, file, "a.yaml", &into); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: got %v", file, err)
		}
	}
	var own strict
	var _ json.Unmarshaler = &own
	if _, err := program.Decode(builtin, "null.yaml", "", &own); err == nil || err.Error() != "null.yaml: must be an object, not null" || own.text != "" {
		t.Errorf("got %v", err)
	}
	if _, err := program.Decode(builtin, "", "a.yaml", &own); err == nil || err.Error() != `a.yaml: {"for":"90s"} is refused` || own.text == "" {
		t.Errorf("got %v", err)
	}
}

// TestMain is the process of [TestExitCodes] as well.
func TestMain(m *testing.M) {
	switch os.Getenv("PROGRAM_ENDS") {
	case "":
		os.Exit(m.Run())
	case "well":
		program.Main(func([]string, io.Writer) error { return nil })
	case "help":
		program.Main(func([]string, io.Writer) error { return flag.ErrHelp })
	case "input":
		program.Main(func([]string, io.Writer) error { return errors.Join(program.Wrong("-n", "wrong")) })
	case "badly":
		program.Main(func([]string, io.Writer) error { return errors.New("disk full") })
	}
}

func TestExitCodes(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		ends, stderr string
		code         int
	}{
		{"well", "", 0},
		{"help", "", 0},
		{"input", "-n: wrong\n", 2},
		{"badly", "disk full\n", 1},
	} {
		process := exec.Command(self)
		process.Env = append(os.Environ(), "PROGRAM_ENDS="+row.ends)
		var stderr strings.Builder
		process.Stderr = &stderr
		if err := process.Run(); process.ProcessState == nil || process.ProcessState.ExitCode() != row.code || stderr.String() != row.stderr {
			t.Errorf("%s: %v, %q", row.ends, err, stderr.String())
		}
	}
}
