package program_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/tranche-dev/tranche/examples/internal/program"
)

func TestParse(t *testing.T) {
	for _, row := range []struct{ why, args, want string }{
		{"flags alone", "-n 3", ""},
		{"a number is no number", "-n x", `p: invalid value "x" for flag -n: parse error (-help lists the flags)`},
		{"an unknown flag", "-m", "p: flag provided but not defined: -m (-help lists the flags)"},
		{"an empty value", "-n 3 -f=", `-f: is empty: give it a value, or leave it out`},
		{"an argument", "-n 3 file.yaml", `p: unexpected argument "file.yaml": files are named with -f`},
	} {
		flags := flag.NewFlagSet("p", flag.ContinueOnError)
		n := flags.Int("n", 0, "a `number`")
		flags.String("f", "", "a `file`")
		var out strings.Builder
		err := program.Parse(flags, strings.Fields(row.args), &out, "p counts.", "files are named with -f")
		if row.want == "" && (err != nil || *n != 3) || row.want != "" && (err == nil || err.Error() != row.want) || out.Len() > 0 {
			t.Errorf("%s: got %v, and printed %q", row.why, err, out.String())
		}
	}
	for _, ask := range []string{"-h", "-help", "--help"} {
		flags := flag.NewFlagSet("p", flag.ContinueOnError)
		flags.Int("n", 3, "a `number`")
		var out strings.Builder
		err := program.Parse(flags, []string{ask}, &out, "p counts.", "")
		if want := "p counts.\n\nFlags:\n  -n number\n    \ta number (default 3)\n"; !errors.Is(err, flag.ErrHelp) || out.String() != want {
			t.Errorf("%s: got %v, and printed %q, want %q", ask, err, out.String(), want)
		}
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
		{"a file that is nowhere", "none.yaml", "", "none.yaml: no such file or directory"},
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

// strict has a decoder of its own, which reports faults as it likes.
type strict struct{ text string }

func (s *strict) UnmarshalJSON(data []byte) error {
	s.text = string(data)
	return fmt.Errorf("%s is refused", data)
}

func TestDecode(t *testing.T) {
	builtin := fstest.MapFS{"a.yaml": {Data: []byte("for: 90s\n")}, "b.yaml": {Data: []byte("form: 90s\n")}, "c.yaml": {Data: []byte("for: -1s\n")}, "d.yaml": {Data: []byte("for: 0s\n")}}
	var into struct {
		For program.Duration `json:"for"`
	}
	if name, err := program.Decode(builtin, "", "a.yaml", &into); err != nil || name != "a.yaml" || time.Duration(into.For) != 90*time.Second {
		t.Errorf("got %+v of %s, %v", into, name, err)
	}
	for file, want := range map[string]string{
		"b.yaml": `b.yaml: form: unknown field; did you mean "for"?`,
		"c.yaml": `c.yaml: for: "-1s" is not a positive duration`,
		"d.yaml": `d.yaml: for: "0s" is not a positive duration`,
		"e.yaml": "e.yaml: no such file",
	} {
		if _, err := program.Decode(builtin, file, "a.yaml", &into); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: got %v", file, err)
		}
	}
	var own strict
	var _ json.Unmarshaler = &own
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
