package program

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/internal/strictjson"
	"github.com/tranche-dev/tranche/internal/textlist"
)

// Longest is the longest duration that a file may have: a year. A time.Duration ends at 292 years,
// and sums of durations must not.
const Longest = 365 * 24 * time.Hour

// parsed is a flag that says in its error what it accepts.
type parsed struct {
	text string // as -h shows the default
	set  func(text string) error
}

// String returns the default, also for the zero value, as package flag asks of every flag.
func (p *parsed) String() string { return p.text }

// Set reads a value.
func (p *parsed) Set(text string) error { return p.set(text) }

// Number defines a flag that is a whole number within bounds. A standard outside of them stands for
// none, and is not shown.
func Number(flags *flag.FlagSet, into *int, name string, standard, least, most int, usage string) {
	*into = standard
	own := &parsed{set: func(text string) error {
		n, err := strconv.Atoi(text)
		switch {
		case err == nil && least <= n && n <= most:
			*into = n
			return nil
		case most == math.MaxInt:
			return fmt.Errorf("%q: must be a whole number of at least %d", text, least)
		}
		return fmt.Errorf("%q: must be a whole number from %d to %d", text, least, most)
	}}
	if least <= standard && standard <= most {
		own.text = strconv.Itoa(standard)
	}
	flags.Var(own, name, usage)
}

// Time defines a flag that is a length of time of at most so much. It may be 0 only if the standard
// is.
func Time(flags *flag.FlagSet, into *time.Duration, name string, standard, most time.Duration, usage string) {
	*into = standard
	flags.Var(&parsed{text: Short(standard), set: func(text string) error {
		d, err := time.ParseDuration(text)
		switch {
		case err == nil && 0 <= d && d <= most && (d > 0 || standard == 0):
			*into = d
			return nil
		case standard == 0:
			return fmt.Errorf("%q: must be 0, or a duration of at most %s such as 90s or 1h30m", text, Short(most))
		}
		return fmt.Errorf("%q: %s", text, positive(most))
	}}, name, usage)
}

// positive says what a duration must be.
func positive(most time.Duration) string {
	return fmt.Sprintf("must be a duration above 0 and of at most %s, such as 90s or 1h30m", Short(most))
}

// Choice defines a flag that has one of a few values, which are shown behind the usage.
func Choice[T ~string](flags *flag.FlagSet, into *T, name string, standard T, usage string, values ...T) {
	*into = standard
	texts := make([]string, len(values))
	for i, value := range values {
		texts[i] = string(value)
	}
	flags.Var(&parsed{text: string(standard), set: func(text string) error {
		if !slices.Contains(values, T(text)) {
			return fmt.Errorf("%q: must be %s", text, strictjson.Choice(values...))
		}
		*into = T(text)
		return nil
	}}, name, usage+": `"+strings.Join(texts, "|")+"`")
}

// Parse reads the flags and nothing besides: programs take no other arguments, and instead says
// where their input goes. It reports every flag whose value is wrong, empty or given twice. With -h
// or -help it prints does, the sentence that says what the program does, its flags, and the files
// that are built in, unless builtin is nil, and returns [flag.ErrHelp].
func Parse(flags *flag.FlagSet, args []string, out io.Writer, builtin fs.FS, does, instead string) error {
	flags.SetOutput(io.Discard)
	flags.Usage = func() {} // printed below, where it was asked for
	var faults []error
	flags.VisitAll(func(f *flag.Flag) { f.Value = &checked{Value: f.Value, name: f.Name, faults: &faults} })
	err := flags.Parse(args)
	flags.VisitAll(func(f *flag.Flag) { f.Value = f.Value.(*checked).Value })
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprintf(out, "%s\n\nFlags:\n", does)
		flags.SetOutput(out)
		flags.PrintDefaults()
		if builtin == nil {
			return err
		}
		files, _ := fs.Glob(builtin, "*") // fails for a malformed pattern only
		fmt.Fprintf(out, "\nFiles that are built in, from the folder of the program; a flag can name them from everywhere:\n  %s\n", strings.Join(files, "  "))
		return err
	case err != nil:
		faults = append(faults, misread(flags, args, err))
	case flags.NArg() > 0:
		faults = append(faults, Wrong(flags.Name(), "unexpected argument %q: %s", flags.Arg(0), instead))
	}
	return errors.Join(faults...)
}

// misread says what is wrong with the argument at which reading flags ended.
func misread(flags *flag.FlagSet, args []string, err error) error {
	if at := len(args) - flags.NArg() - 1; at >= 0 && strings.HasPrefix(args[at], "-") {
		name, _, _ := strings.Cut(strings.TrimLeft(args[at], "-"), "=")
		if known := flags.Lookup(name); known != nil {
			value, _ := flag.UnquoteUsage(known)
			return Wrong("-"+name, "needs a value: write -%s %s", name, value)
		}
		var names []string
		flags.VisitAll(func(f *flag.Flag) { names = append(names, f.Name) })
		meant := ""
		if near := Meant(name, names...); near != "" {
			meant = "did you mean -" + near + "? "
		}
		return Wrong("-"+name, "there is no such flag: %s-help lists them", meant)
	}
	return Wrong(flags.Name(), "%w: -help lists the flags", err)
}

// checked is a flag while it is read. It notes what is wrong, and lets reading go on.
type checked struct {
	flag.Value
	name   string
	given  bool
	faults *[]error
}

// IsBoolFlag tells package flag whether the flag may stand without a value.
func (c *checked) IsBoolFlag() bool {
	own, ok := c.Value.(interface{ IsBoolFlag() bool })
	return ok && own.IsBoolFlag()
}

// Set reads a value.
func (c *checked) Set(text string) error {
	wrong := func(format string, args ...any) {
		*c.faults = append(*c.faults, Wrong("-"+c.name, format, args...))
	}
	switch {
	case c.given: // package flag would take the last one
		wrong("is given twice: give it once")
		return nil
	case text == "": // mostly a variable of a shell that is not set
		wrong("is empty: give it a value, or leave it out")
	default:
		if err := c.Value.Set(text); err != nil {
			if own, ok := c.Value.(flag.Getter); ok { // one of package flag, whose errors do not say what is accepted
				switch own.Get().(type) {
				case bool:
					err = fmt.Errorf("%q: must be true or false", text)
				case uint64:
					err = fmt.Errorf("%q: must be a whole number from 0 to %d", text, uint64(math.MaxUint64))
				}
			}
			wrong("%w", err)
		}
	}
	c.given = true
	return nil
}

// Flags returns the faults of a value that flags have set, each with the flag instead of the field.
// fields are pairs of a field and its flag.
func Flags(fault error, fields ...string) error {
	flagOf := strings.NewReplacer(fields...)
	var faults []error
	for _, one := range strictjson.Faults(fault) {
		faults = append(faults, Wrong(flagOf.Replace(one.Path), "%s", flagOf.Replace(strictjson.Text(one.Value, one.Hint))))
	}
	return errors.Join(faults...)
}

// Meant returns the known name that a mistyped one probably stands for, or "": one that differs in
// case and hyphens alone, the only one that begins with it, or the one with the fewest edits, at
// most a third of its length.
func Meant(name string, known ...string) string {
	plain := func(name string) string {
		return strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(name))
	}
	name = plain(name)
	var longer []string
	best, edits := "", len(name)/3+1
	for _, own := range known {
		if len(name) > 2 && strings.HasPrefix(plain(own), name) {
			longer = append(longer, own)
		}
		if d := strictjson.Distance(name, plain(own)); d < edits {
			best, edits = own, d
		}
	}
	if best == "" && len(longer) == 1 {
		return longer[0]
	}
	return best
}

// Short is a duration as it is written by people: without units that are zero behind others.
func Short(d time.Duration) string {
	if d == 0 {
		return "0"
	}
	return textlist.Duration(d)
}
