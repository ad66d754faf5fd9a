package program

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/examples/internal/yamljson"
	"github.com/tranche-dev/tranche/internal/strictjson"
)

// Read returns a file as JSON, whether it is YAML or JSON. It finds the file as [Raw] does.
func Read(builtin fs.FS, named, standard string) (name string, data []byte, err error) {
	name, data, err = Raw(builtin, named, standard)
	if err != nil {
		return name, nil, err
	}
	if data, err = yamljson.Convert(data); err != nil {
		return name, nil, &InputError{name, err}
	}
	return name, data, nil
}

// Raw returns a file as it is. A name is looked up on disk and then among the files that are built
// in, so that those work from every folder; without one it is the built-in standard. It returns the
// name as well, for messages about what the file says.
func Raw(builtin fs.FS, named, standard string) (name string, data []byte, err error) {
	if named == "" {
		data, err = fs.ReadFile(builtin, standard)
		return standard, data, err
	}
	if data, err = os.ReadFile(named); err == nil {
		return named, data, nil
	}
	var failed *fs.PathError
	if errors.As(err, &failed) {
		err = failed.Err // without the name, which the InputError has
	}
	if errors.Is(err, fs.ErrNotExist) {
		if data, ownErr := fs.ReadFile(builtin, named); ownErr == nil {
			return named, data, nil
		}
		err = fmt.Errorf("%w, and no such file is built in: %s", err, instead(builtin, named))
	}
	return named, nil, &InputError{named, err}
}

// instead says what a file that is not there may have been meant to be.
func instead(builtin fs.FS, named string) string {
	files, _ := fs.Glob(builtin, "*") // fails for a malformed pattern only
	stem := func(name string) string { return strings.TrimSuffix(name, path.Ext(name)) }
	stems := make([]string, len(files))
	for i, file := range files {
		stems[i] = stem(file)
	}
	if near := slices.Index(stems, Meant(stem(named), stems...)); near >= 0 {
		return "did you mean " + files[near] + "?"
	}
	return "-help lists those that are"
}

// ReadPolicies is [Read] for a file of policies. The library takes none of them for a policy set that
// limits nothing, which nobody means who writes a file.
func ReadPolicies(builtin fs.FS, named, standard string) (name string, data []byte, err error) {
	name, data, err = Read(builtin, named, standard)
	if err == nil && string(data) == "[]" {
		err = Wrong(name, "must hold at least one policy: without any, everything starts at once")
	}
	return name, data, err
}

// Decode reads a file as [Read] does into a value. Fields that the value does not have are faults.
func Decode(builtin fs.FS, named, standard string, into any) (name string, err error) {
	name, data, err := Read(builtin, named, standard)
	if err != nil {
		return name, err
	}
	return name, Unmarshal(name, data, into)
}

// Unmarshal decodes what [Read] has returned.
func Unmarshal(name string, data []byte, into any) (err error) {
	if own, decodes := into.(json.Unmarshaler); decodes && string(data) == "null" {
		err = errors.New("must be an object, not null") // by custom, decoders let it pass
	} else if decodes {
		err = own.UnmarshalJSON(data) // as strict, and with faults of its own
	} else {
		err = strictjson.Unmarshal(data, into)
	}
	if err != nil {
		return &InputError{name, err}
	}
	return nil
}

// Within returns the faults of a part of a document with their paths in the whole: at gets what
// the library calls a field, and returns what the user wrote.
func Within(fault error, at func(field string) string) error {
	var faults []error
	for _, part := range strictjson.Parts(fault) {
		for _, one := range strictjson.Faults(part) {
			if _, document := part.(*strictjson.Error); one.Path == "" && !document { // no field is at fault
				faults = append(faults, part)
				continue
			}
			one.Path = at(one.Path)
			faults = append(faults, &one)
		}
	}
	return errors.Join(faults...)
}

// Below is [Within] for a part that is one field of the document.
func Below(field string, fault error) error {
	return Within(fault, func(inner string) string { return strictjson.Path(field, inner) })
}

// FirstYear and LastYear bound the instants for which programs plan. The library plans at no
// instant after April 2262, and a rollout that is played goes on for a while.
const FirstYear, LastYear = 1970, 2199

// Start returns what is wrong with the instant at which a virtual clock starts; nil if nothing is.
func Start(at time.Time) error {
	switch {
	case at.IsZero():
		return errors.New("start: is required: the instant at which the virtual clock starts, such as 2026-03-10T08:00:00Z")
	case at.Year() < FirstYear || at.Year() > LastYear:
		return fmt.Errorf("start: %s: must lie in the years %d to %d", at.Format(time.RFC3339), FirstYear, LastYear)
	}
	return nil
}

// Duration is a length of time as it is written in the files, such as 90s or 1h30m. It is positive,
// and at most [Longest]; zero if it is not given.
type Duration time.Duration

// UnmarshalJSON reads a duration. A decoder of JSON and not of text says of a number what it lacks.
func (d *Duration) UnmarshalJSON(data []byte) error {
	var text string
	if string(data) == "null" {
		return errors.New("null is not a value here: write one, or leave it out")
	}
	if err := json.Unmarshal(data, &text); err != nil {
		return fmt.Errorf("%s: %s", data, positive(Longest))
	}
	parsed, err := time.ParseDuration(text)
	if err != nil || parsed <= 0 || parsed > Longest {
		return fmt.Errorf("%q: %s", text, positive(Longest))
	}
	*d = Duration(parsed)
	return nil
}
