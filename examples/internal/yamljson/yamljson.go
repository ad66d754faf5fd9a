// Package yamljson turns YAML, the usual form of policies and strategies, into the JSON that the
// strict decoders of the library read.
package yamljson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"go.yaml.in/yaml/v3"
)

// longestKey is how long a key may be in JSON, in bytes: YAML reads longer ones only where they are
// marked as keys, and JSON marks none.
const longestKey = 1000

// Convert returns the one YAML document in data as JSON. JSON is YAML, so JSON input comes back as
// an equal document. Keys must be strings, of at most 1,000 bytes in JSON; a repeated key, an alias
// cycle or a second document is an error. Integers of 64 bits keep all their digits; plain dates
// stay text.
func Convert(data []byte) ([]byte, error) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var document yaml.Node
	if err := dec.Decode(&document); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, errors.New("yaml: the document is empty")
		}
		return nil, err
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("yaml: one document is expected: remove what follows the second ---")
	}
	// Decoding into a plain value lets the library check repeated keys, merge keys and the growth
	// of aliases before anything is walked.
	var check any
	if err := document.Decode(&check); err != nil {
		return nil, err
	}
	value, err := plain(check)
	if err != nil {
		return nil, err
	}
	return json.Marshal(value)
}

func plain(value any) (any, error) {
	switch value := value.(type) {
	case map[string]any:
		for key, item := range value {
			if written, err := json.Marshal(key); err != nil || len(written) > longestKey {
				return nil, fmt.Errorf("yaml: the key %.40q… is too long: use at most %d bytes", key, longestKey)
			}
			converted, err := plain(item)
			if err != nil {
				return nil, err
			}
			value[key] = converted
		}
		return value, nil
	case map[any]any:
		for key := range value {
			if _, ok := key.(string); !ok {
				return nil, fmt.Errorf("yaml: the key %v is not a string: write it in quotes", key)
			}
		}
		return nil, errors.New("yaml: keys must be strings")
	case []any:
		for i, item := range value {
			converted, err := plain(item)
			if err != nil {
				return nil, err
			}
			value[i] = converted
		}
		return value, nil
	case time.Time:
		return value.Format(time.RFC3339Nano), nil
	case float64:
		if text := strconv.FormatFloat(value, 'g', -1, 64); !json.Valid([]byte(text)) {
			return nil, fmt.Errorf("yaml: %s is not a number in JSON", text)
		}
		return value, nil
	default:
		return value, nil
	}
}
