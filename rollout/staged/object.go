package staged

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/tranche-dev/tranche/internal/strictjson"
)

// object is a document as Kubernetes writes it, or a bare spec.
type object struct {
	base            string // the path of the spec
	spec            []byte // nil: there is none, or it is that of another kind
	name, namespace string
}

// objectOf takes a document apart. The document is a whole object if it has a field that objects
// have and no spec of this package has.
func objectOf(data []byte, kinds ...string) (object, faults) {
	var whole map[string]json.RawMessage
	if json.Unmarshal(data, &whole) != nil || whole["spec"] == nil && whole["kind"] == nil && whole["apiVersion"] == nil && whole["metadata"] == nil {
		return object{spec: data}, nil // the strict decoder reports what is wrong with it
	}
	var document struct {
		APIVersion any             `json:"apiVersion"`
		Kind       json.RawMessage `json:"kind"`
		Metadata   json.RawMessage `json:"metadata"`
		Spec       json.RawMessage `json:"spec"`
		Status     any             `json:"status"`
	}
	var list faults
	filled, err := strictjson.Salvage(data, &document)
	for _, fault := range strictjson.Faults(err) {
		if Code(fault.Code) == CodeUnknownField {
			fault.Hint = "unknown field: an object has apiVersion, kind, metadata, spec and status; all else is below spec"
		}
		list.add(Code(fault.Code), fault.Path, fault.Value, fault.Hint)
	}
	if !filled {
		return object{}, list
	}
	part := func(path string, raw json.RawMessage, into any) {
		if raw != nil && string(raw) != "null" {
			list = append(list, strictjson.Parts(decodeFaults(path, strictjson.Unmarshal(raw, into)))...)
		}
	}
	o := object{base: "spec", spec: document.Spec}
	if o.spec == nil || string(o.spec) == "null" {
		o.spec = nil
		list.add(CodeFormat, "spec", "", "must be given: its fields belong below it")
	}
	kind := ""
	part("kind", document.Kind, &kind)
	if strings.HasSuffix(kind, "List") { // what kubectl writes of several objects; its other fields are no faults of their own
		list = nil
		list.add(CodeFormat, "kind", strconv.Quote(kind), "must be "+strictjson.Choice(kinds...)+": decode each item of a list by itself")
		return object{}, list
	}
	if kind != "" && !slices.Contains(kinds, kind) {
		o.spec = nil // the spec of something else
		list.add(CodeFormat, "kind", strconv.Quote(kind), "must be "+strictjson.Choice(kinds...))
	}
	var metadata map[string]json.RawMessage
	part("metadata", document.Metadata, &metadata)
	part("metadata.name", metadata["name"], &o.name)
	part("metadata.namespace", metadata["namespace"], &o.namespace)
	return o, list
}

// orZero returns the value of an optional field. To Kubernetes, null means absent: it is what YAML
// makes of a field without a value.
func orZero[T any](optional *T) T { return *cmp.Or(optional, new(T)) }
