// Package program is the common frame of the example programs: flags, files in YAML or JSON, and
// exit codes. It lets each program show the library and little else. A fault in what a user gave is
// an [InputError], with a line for every fault.
package program

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/rollout"
)

// Main runs a program with the arguments of the process. It exits with 2 if a flag or a file is
// wrong, and with 1 if anything else is.
func Main(run func(args []string, out io.Writer) error) {
	err := run(os.Args[1:], os.Stdout)
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return
	}
	fmt.Fprintln(os.Stderr, err)
	var input *InputError
	if errors.As(err, &input) {
		os.Exit(2)
	}
	os.Exit(1)
}

// InputError is a fault of what the user gave.
type InputError struct {
	Source string // the flag or the file
	Err    error  // all faults, joined
}

// Error has one line per fault, each with the source.
func (e *InputError) Error() string {
	lines := strings.Split(e.Err.Error(), "\n")
	for i, line := range lines {
		lines[i] = e.Source + ": " + line
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the faults.
func (e *InputError) Unwrap() error { return e.Err }

// Wrong is an [InputError] with one fault, formatted as by fmt.Errorf.
func Wrong(source, format string, args ...any) error {
	return &InputError{Source: source, Err: fmt.Errorf(format, args...)}
}

// Among lists what a name could be, the first few, for the remedy of a name that is not there.
func Among(names []string) string {
	const few = 6
	names = slices.Sorted(slices.Values(names))
	switch n := len(names); {
	case n == 0:
		return "there is none"
	case n == 1:
		return "there is only " + names[0]
	case n > few:
		return fmt.Sprintf("there are %s and %d more", strings.Join(names[:few], ", "), n-few)
	}
	return "there are " + strings.Join(names, ", ")
}

// Print writes what a program has found, as JSON or as a text.
func Print(out io.Writer, asJSON bool, found any, text func() string) error {
	if asJSON {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(found)
	}
	_, err := io.WriteString(out, text())
	return err
}

// Indent sets every line of a text two columns in.
func Indent(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString("  " + line)
	}
	return b.String()
}

// Blame says which file a fault of a fleet under policies is in: that of the policies if they make
// deployments wait for one another, or claim the same ones twice.
func Blame(fault error, policies, fleet string) string {
	var circle *rollout.CycleError
	var members *bracket.CycleError
	var roles *bracket.RoleError
	var twice *bracket.OverlapError
	if errors.As(fault, &circle) && len(circle.Rules) > 0 || errors.As(fault, &members) || errors.As(fault, &roles) || errors.As(fault, &twice) {
		return policies
	}
	return fleet
}
