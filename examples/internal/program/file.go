package program

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/tranche-dev/tranche/examples/internal/yamljson"
	"github.com/tranche-dev/tranche/internal/strictjson"
)

// Read returns a file as JSON, whether it is YAML or JSON. A name is looked up on disk and then
// among the files that are built in, so that those work from every folder; without one it is the
// built-in standard. It returns the name as well, for messages about what the file says.
func Read(builtin fs.FS, named, standard string) (name string, data []byte, err error) {
	if named == "" {
		name = standard
		data, err = fs.ReadFile(builtin, standard)
	} else {
		name = named
		data, err = os.ReadFile(named)
		if errors.Is(err, fs.ErrNotExist) {
			if own, ownErr := fs.ReadFile(builtin, named); ownErr == nil {
				data, err = own, nil
			}
		}
	}
	if err == nil {
		data, err = yamljson.Convert(data)
	}
	if err != nil {
		var failed *fs.PathError
		if errors.As(err, &failed) {
			err = failed.Err // without the name, which the InputError has
		}
		return name, nil, &InputError{name, err}
	}
	return name, data, nil
}

// Decode reads a file as [Read] does into a value. Fields that the value does not have are faults.
func Decode(builtin fs.FS, named, standard string, into any) (name string, err error) {
	name, data, err := Read(builtin, named, standard)
	if err != nil {
		return name, err
	}
	if own, decodes := into.(json.Unmarshaler); decodes {
		err = own.UnmarshalJSON(data) // as strict, and with faults of its own
	} else {
		err = strictjson.Unmarshal(data, into)
	}
	if err != nil {
		return name, &InputError{name, err}
	}
	return name, nil
}

// Duration is a length of time as it is written in the files, such as 90s or 1h30m. It is positive;
// zero if it is not given.
type Duration time.Duration

// UnmarshalText reads a duration.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	if err != nil || parsed <= 0 {
		return fmt.Errorf("%q is not a positive duration: write one such as 90s or 1h30m", text)
	}
	*d = Duration(parsed)
	return nil
}
