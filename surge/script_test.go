package surge_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/tranche-dev/tranche/internal/golden"
	"github.com/tranche-dev/tranche/surge"
)

// TestScripts runs testdata/*.txt. A block is one command a line, then ----, then the expected text
// up to an empty line. Lines that start with # are comments; the first says what the script shows.
//
//	spec JSON            the Spec
//	state OOO.           the slots
//	plan                 print the plan
//	do                   print the plan, carry it out, print the state
//	event 3 ready, 0 gone
//	revision             a new revision: all that is live is old
//	rollback             back to the revision before: old is new, new is old
//	diagnose [3 …]       print the diagnosis; the given indices were never scheduled
//	check                print faults and warnings of the Spec
//	set JSON, replicas OO OO. | OO OO., planset, doset, unit 0/1/2 ready
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(string(data), "# ") {
				t.Error("the script does not say what it shows")
			}
			got := runScript(t, string(data))
			golden.File(t, file, got)
		})
	}
}

// runScript returns the script with what its commands print.
func runScript(t *testing.T, text string) string {
	var out, printed strings.Builder
	s := &script{t: t, out: &printed}
	expected := false
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		line := lines.Text()
		switch {
		case expected && line == "":
			expected = false
			out.WriteString(printed.String() + "\n")
			printed.Reset()
		case expected:
		case line == "----":
			expected = true
			out.WriteString("----\n")
		default:
			out.WriteString(line + "\n")
			if line != "" && !strings.HasPrefix(line, "#") {
				s.run(line)
			}
		}
	}
	if expected {
		out.WriteString(printed.String())
	} else if printed.Len() > 0 {
		t.Error("the last commands print something and expect nothing")
	}
	return out.String()
}

type script struct {
	t     *testing.T
	out   *strings.Builder
	spec  surge.Spec
	slots []surge.Slot
	set   surge.SetSpec
	state surge.SetState
}

func (s *script) run(line string) {
	command, rest, _ := strings.Cut(line, " ")
	switch command {
	case "spec":
		s.spec = surge.Spec{}
		if err := json.Unmarshal([]byte(rest), &s.spec); err != nil {
			fmt.Fprintln(s.out, err)
		}
	case "state":
		s.slots = parse(s.t, rest)
	case "plan":
		fmt.Fprintln(s.out, surge.Plan(s.spec, s.slots))
	case "do":
		plan := surge.Plan(s.spec, s.slots)
		s.slots = surge.Apply(s.slots, plan.Actions)
		fmt.Fprintf(s.out, "%v\n%s\n", plan, surge.FormatSlots(s.slots))
	case "event":
		s.slots = event(s.t, s.slots, rest)
		fmt.Fprintln(s.out, surge.FormatSlots(s.slots))
	case "revision", "rollback":
		swap := strings.NewReplacer("N", "O", "n", "o")
		if command == "rollback" {
			swap = strings.NewReplacer("N", "O", "n", "o", "O", "N", "o", "n", "u", "n")
		}
		s.slots = parse(s.t, swap.Replace(surge.FormatSlots(s.slots)))
		fmt.Fprintln(s.out, surge.FormatSlots(s.slots))
	case "diagnose":
		never := map[int]bool{}
		for field := range strings.FieldsSeq(rest) {
			index, err := strconv.Atoi(field)
			if err != nil {
				s.t.Fatal(err)
			}
			never[index] = true
		}
		fmt.Fprintln(s.out, surge.Diagnose(s.spec, s.slots, func(index int) bool { return never[index] }))
	case "check":
		if err := s.spec.Validate(); err != nil {
			fmt.Fprintln(s.out, err)
		}
		for _, warning := range s.spec.Warnings() {
			fmt.Fprintln(s.out, "warning:", warning)
		}
	case "set":
		s.set = surge.SetSpec{}
		err := json.Unmarshal([]byte(rest), &s.set)
		if err == nil {
			err = s.set.Validate()
		}
		if err != nil {
			fmt.Fprintln(s.out, err)
		}
	case "replicas":
		s.state = parseSet(s.t, strings.Split(rest, " | "))
	case "planset":
		fmt.Fprintln(s.out, planSet(s.t, s.set, s.state))
	case "doset":
		plan := planSet(s.t, s.set, s.state)
		s.state = s.state.Apply(plan)
		fmt.Fprintf(s.out, "%v\n%s\n", plan, formatSet(s.state))
	case "unit":
		for one := range strings.SplitSeq(rest, ", ") {
			var r, c, i int
			var what string
			if _, err := fmt.Sscanf(one, "%d/%d/%d %s", &r, &c, &i, &what); err != nil {
				s.t.Fatal(err)
			}
			u := &s.state[r][c]
			u.Slots = event(s.t, u.Slots, fmt.Sprint(i, " ", what))
		}
		fmt.Fprintln(s.out, formatSet(s.state))
	default:
		s.t.Fatalf("unknown command %q", line)
	}
}
