package testkit

import (
	"encoding/json"
	"maps"
	"math/rand"
	"slices"
)

// Spoil makes a number of changes to a JSON document, at random places: a value is removed,
// doubled, null, far too large, or that of another place. Most results can still be decoded, so
// they get further than random bytes do. The text must be a document.
func Spoil(r *rand.Rand, text []byte, changes int) []byte {
	var document any
	if err := json.Unmarshal(text, &document); err != nil {
		panic(err)
	}
	root := map[string]any{"": document}
	for range changes {
		spoil(r, root)
	}
	spoilt, err := json.Marshal(root[""])
	if err != nil {
		panic(err)
	}
	return spoilt
}

// spot is the place of a value in a document.
type spot struct {
	object map[string]any // or nil
	key    string
	list   *[]any
	i      int
}

func (s spot) get() any {
	if s.object != nil {
		return s.object[s.key]
	}
	return (*s.list)[s.i]
}

func (s spot) set(value any) {
	if s.object != nil {
		s.object[s.key] = value
	} else {
		(*s.list)[s.i] = value
	}
}

// spots lists all values of a document in a fixed order. Lists are replaced by pointers to them, so
// that they can grow where they are.
func spots(value any, all []spot) []spot {
	visit := func(s spot) {
		if list, ok := s.get().([]any); ok {
			s.set(&list)
		}
		all = append(all, s)
		all = spots(s.get(), all)
	}
	switch v := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			visit(spot{object: v, key: key})
		}
	case *[]any:
		for i := range *v {
			visit(spot{list: v, i: i})
		}
	}
	return all
}

func spoil(r *rand.Rand, root map[string]any) {
	all := spots(root, nil)
	if len(all) < 2 {
		return
	}
	s := all[1+r.Intn(len(all)-1)] // not the document itself
	switch r.Intn(8) {
	case 0, 1:
		if s.object != nil {
			delete(s.object, s.key)
		} else {
			*s.list = slices.Delete(slices.Clone(*s.list), s.i, s.i+1)
		}
	case 2:
		if s.list != nil {
			*s.list = append(*s.list, copied(s.get()))
		}
	case 3:
		for range 50 {
			if other := all[r.Intn(len(all))].get(); kindOf(other) == kindOf(s.get()) {
				s.set(copied(other))
				break
			}
		}
	case 4:
		s.set(nil)
	default:
		values := []any{"", "x", "a/b%2F", "true", "100%", "0001-01-01T00:00:00Z", "1677-09-21T00:12:43Z", "2262-04-11T23:47:16Z", "9999-12-31T23:59:59.999999999Z"}
		switch s.get().(type) {
		case float64:
			values = []any{0, -1, 1, int64(1 << 31), json.Number("9223372036854775807"), json.Number("-9223372036854775808")}
		case bool:
			values = []any{true, false}
		}
		s.set(values[r.Intn(len(values))])
	}
}

// copied returns a deep copy, so that no value comes to contain itself.
func copied(value any) any {
	data, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	var own any
	if err := json.Unmarshal(data, &own); err != nil {
		panic(err)
	}
	return own
}

func kindOf(value any) string {
	switch value.(type) {
	case string:
		return "text"
	case float64, json.Number, int:
		return "number"
	case bool:
		return "bool"
	case map[string]any:
		return "object"
	case *[]any:
		return "list"
	}
	return "null"
}
