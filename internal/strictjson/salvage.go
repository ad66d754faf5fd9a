package strictjson

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strconv"
)

// Salvage is [Unmarshal], except that it fills dst with the rest of a document with faults, so that
// the rest can be checked as well. A field or list entry that is refused has its zero value; the
// entry keeps its place. What should be an object and is not becomes an empty one, since it is
// present. If a field is given twice, the first value counts; of two entries of a map the last one
// does. The error is that of Unmarshal, also if dst is filled: nobody may take the rest for the
// document. Salvage returns false, and leaves dst untouched, if nothing can be said about the rest:
// the document is not JSON, another fault is inside a map, or a type with a decoder of its own does
// not say which of its fields is at fault.
func Salvage(data []byte, dst any) (filled bool, err error) {
	if err = Unmarshal(data, dst); err == nil {
		return true, nil
	}
	target := reflect.ValueOf(dst)
	if target.Kind() != reflect.Pointer || target.IsNil() {
		return false, err
	}
	refused := map[string]bool{}
	for _, fault := range Faults(err) {
		switch fault.Code {
		case CodeSyntax:
			return false, err
		case CodeUnknownField, CodeDuplicate:
		default:
			refused[fault.Path] = true
		}
	}
	fresh := reflect.New(target.Elem().Type())
	rest := remainder("", data, fresh.Type(), refused)
	if rest == nil || json.Unmarshal(rest, fresh.Interface()) != nil {
		return false, err
	}
	target.Elem().Set(fresh.Elem())
	return true, err
}

// remainder returns a value without what is refused in it, without unknown fields and without
// second values, or nil if nothing is left. It builds paths as walk does.
func remainder(path string, raw json.RawMessage, typ reflect.Type, refused map[string]bool) json.RawMessage {
	for typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	raw = bytes.TrimSpace(raw)
	if refused[path] {
		if empty := []byte("{}"); json.Unmarshal(empty, reflect.New(typ).Interface()) == nil {
			return empty
		}
		return nil
	}
	var rest bytes.Buffer
	separate := func(mark byte) {
		if rest.Len() == 0 {
			rest.WriteByte(mark)
		} else {
			rest.WriteByte(',')
		}
	}
	switch list := typ.Kind() == reflect.Slice || typ.Kind() == reflect.Array; {
	case raw[0] == '{' && typ.Kind() == reflect.Struct:
		fields := fieldsOf(typ)
		(&walk{}).members(path, raw, func(at, name string, value json.RawMessage) {
			if field, known := fields[name]; known {
				if value = remainder(at, value, field, refused); value != nil {
					separate('{')
					rest.WriteString(strconv.Quote(name) + ":")
					rest.Write(value)
				}
			}
		})
		if rest.Len() == 0 {
			rest.WriteByte('{')
		}
		rest.WriteByte('}')
	case raw[0] == '[' && list:
		var items []json.RawMessage
		_ = json.Unmarshal(raw, &items) // raw is valid JSON
		for i, item := range items {
			separate('[')
			if item = remainder(path+"["+strconv.Itoa(i)+"]", item, typ.Elem(), refused); item == nil {
				item = []byte("null") // null changes nothing, wherever it stands in a list
			}
			rest.Write(item)
		}
		if rest.Len() == 0 {
			rest.WriteByte('[')
		}
		rest.WriteByte(']')
	default:
		return raw
	}
	return rest.Bytes()
}
