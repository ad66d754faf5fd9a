// Package programtest runs the example programs as their users do: with arguments in, and text or
// faults out.
package programtest

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tranche-dev/tranche/examples/internal/program"
	"github.com/tranche-dev/tranche/internal/golden"
	"github.com/tranche-dev/tranche/internal/testkit"
)

// Run is a program without its process.
type Run func(args []string, out io.Writer) error

// Report is one run of a program that succeeds.
type Report struct {
	Name, Why string
	Args      []string
	Says      []string // lines that must be there, whatever the golden file says
	Long      bool     // it plays many worlds; left out with the race detector, for which they are too many
}

// Reports runs a program and compares what it prints with golden files: Name.txt of testdata. If
// only is not nil, it leaves out what belongs to others and is tested there.
func Reports(t *testing.T, run Run, only func(text string) string, rows []Report) {
	t.Helper()
	for _, row := range rows {
		t.Run(row.Name, func(t *testing.T) {
			t.Parallel()
			if row.Why == "" {
				t.Error("the row does not say why it is there")
			}
			if row.Long && testkit.Race {
				t.Skip("too long for the race detector")
			}
			text := Print(t, run, row.Args...)
			lines := strings.Split(text, "\n")
			for _, want := range row.Says {
				if !slices.Contains(lines, want) {
					t.Errorf("%s: the report lacks the line %q", row.Why, want)
				}
			}
			if only != nil {
				text = only(text)
			}
			golden.Check(t, row.Name+".txt", text)
		})
	}
}

// Print returns what a program prints.
func Print(t *testing.T, run Run, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	if err := run(args, &out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// Refusal is one run of a program with input that is wrong.
type Refusal struct {
	Why    string
	Args   []string
	Faults []string // expressions, one for each line of the error
}

// Refusals runs a program on wrong input: it must name every fault with its flag or file, and
// nothing else, before it prints anything.
func Refusals(t *testing.T, run Run, rows []Refusal) {
	t.Helper()
	for _, row := range rows {
		if row.Why == "" || len(row.Faults) == 0 {
			t.Errorf("%v: the row does not say why it is there, or what is wrong", row.Args)
		}
		t.Run(row.Why, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			err := run(row.Args, &out)
			var wrong *program.InputError
			if !errors.As(err, &wrong) {
				t.Fatalf("got %v, want an InputError, with which a program exits with 2", err)
			}
			lines := strings.Split(err.Error(), "\n")
			for _, want := range row.Faults {
				if !slices.ContainsFunc(lines, regexp.MustCompile(want).MatchString) {
					t.Errorf("no line matches %q in\n%v", want, err)
				}
			}
			if len(lines) != len(row.Faults) {
				t.Errorf("%d lines, want %d:\n%v", len(lines), len(row.Faults), err)
			}
			if out.Len() > 0 {
				t.Errorf("something was printed before the error: %s", out.String())
			}
		})
	}
}

// Help asks a program what it does: it must begin with one sentence that says so, and list its
// flags, that with the given usage among them.
func Help(t *testing.T, run Run, usage string) {
	t.Helper()
	var out bytes.Buffer
	if err := run([]string{"-h"}, &out); !errors.Is(err, flag.ErrHelp) || !strings.Contains(out.String(), usage) {
		t.Errorf("%v, without %q: %s", err, usage, out.String())
	}
	if sentence, flags, _ := strings.Cut(out.String(), "\n\n"); !regexp.MustCompile(`^[a-z]+ [^.\n]+\.$`).MatchString(sentence) || !strings.HasPrefix(flags, "Flags:\n  -") {
		t.Errorf("the help does not begin with one sentence and go on with the flags: %s", out.String())
	}
}
