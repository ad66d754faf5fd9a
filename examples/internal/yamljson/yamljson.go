// Package yamljson turns YAML, the usual form of policies and strategies, into the JSON that the
// strict decoders of the library read.
package yamljson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// longestKey is how long a key may be in JSON, in bytes: YAML reads longer ones only where they are
// marked as keys, and JSON marks none.
const longestKey = 1000

// Convert returns the one YAML document in data as JSON. JSON is YAML, so JSON input comes back as
// an equal document. Keys must be strings, of at most 1,000 bytes in JSON; a repeated key, an alias
// cycle or a second document is an error. Integers of 64 bits keep all their digits; dates and
// times stay the text that they are. Faults of keys and numbers are reported all at once, each with
// its path and its line.
func Convert(data []byte) ([]byte, error) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var document yaml.Node
	if err := dec.Decode(&document); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, errors.New("yaml: the document is empty")
		}
		if tabbed.Match(data) && strings.Contains(err.Error(), "cannot start any token") {
			err = fmt.Errorf("%w: indent with blanks instead of tabs", err)
		}
		return nil, err
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("yaml: one document is expected: remove what follows the second ---")
	}
	if err := check("", &document); err != nil {
		return nil, err
	}
	// Decoding into a plain value lets the library check merge keys and the growth of aliases before
	// anything is walked.
	var checked any
	if err := document.Decode(&checked); err != nil {
		return nil, err
	}
	value, err := plain(checked)
	if err != nil {
		return nil, err
	}
	return json.Marshal(value)
}

var (
	tabbed = regexp.MustCompile(`(?m)^ *\t`)                  // a line that is indented with a tab
	simple = regexp.MustCompile(`^[A-Za-z_-][A-Za-z0-9_-]*$`) // a key that needs no quotes in a path
)

// check reports the keys and numbers below a node that JSON does not have. It does not follow
// aliases: what they stand for is checked where it is written.
func check(path string, node *yaml.Node) error {
	var faults []error
	switch node.Kind {
	case yaml.DocumentNode:
		return check(path, node.Content[0])
	case yaml.SequenceNode:
		for i, item := range node.Content {
			faults = append(faults, check(fmt.Sprintf("%s[%d]", path, i), item))
		}
	case yaml.MappingNode:
		first := map[string]int{} // line
		for i := 0; i+1 < len(node.Content); i += 2 {
			key, value := node.Content[i], node.Content[i+1]
			if key.Kind == yaml.AliasNode {
				key = key.Alias
			}
			if key.Kind != yaml.ScalarNode {
				faults = append(faults, fault(path, node.Content[i], "a key must be a string"))
				continue
			}
			at := path + segment(key.Value)
			if path == "" {
				at = strings.TrimPrefix(at, ".")
			}
			line, twice := first[key.Value]
			written, err := json.Marshal(key.Value)
			switch tag := key.ShortTag(); {
			case twice:
				faults = append(faults, fault(at, node.Content[i], "is given in line %d already: keep one of them", line))
				continue
			case tag != "!!str" && tag != "!!merge":
				faults = append(faults, fault(path, node.Content[i], "the key %s is not a string: write it in quotes", key.Value))
			case err != nil || len(written) > longestKey:
				faults = append(faults, fault(path, node.Content[i], "the key %.40q… is too long: use at most %d bytes", key.Value, longestKey))
			default:
				faults = append(faults, check(at, value))
			}
			first[key.Value] = node.Content[i].Line
		}
	case yaml.ScalarNode:
		if node.ShortTag() == "!!timestamp" {
			node.Tag = "!!str" // a date has no zone, and must not become an instant of UTC
		}
		if number := 0.0; node.ShortTag() == "!!float" && node.Decode(&number) == nil && (math.IsNaN(number) || math.IsInf(number, 0)) {
			faults = append(faults, fault(path, node, "%s is not a number in JSON: write one, or leave it out", node.Value))
		}
	}
	return errors.Join(faults...)
}

func fault(path string, node *yaml.Node, format string, args ...any) error {
	text := fmt.Sprintf("yaml: line %d: ", node.Line) + fmt.Sprintf(format, args...)
	if path != "" {
		text = path + ": " + text
	}
	return errors.New(text)
}

// segment returns a key as one step of a path: plain if it can be read so, else quoted in brackets.
func segment(key string) string {
	if simple.MatchString(key) {
		return "." + key
	}
	return "[" + strconv.Quote(key) + "]"
}

// plain returns a decoded value that is checked as far as only the value can be.
func plain(value any) (any, error) {
	switch value := value.(type) {
	case map[string]any:
		for key, item := range value {
			converted, err := plain(item)
			if err != nil {
				return nil, err
			}
			value[key] = converted
		}
		return value, nil
	case map[any]any: // a key of an alias or of a merge
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
	case float64:
		if text := strconv.FormatFloat(value, 'g', -1, 64); !json.Valid([]byte(text)) {
			return nil, fmt.Errorf("yaml: %s is not a number in JSON", text)
		}
		return value, nil
	default:
		return value, nil
	}
}
