package strictjson

import (
	"bytes"
	"encoding"
	"encoding/json"
	"reflect"
	"unicode/utf8"
)

// quickly decodes a document that is beyond doubt: a host reads thousands of stored records for
// every plan, and hardly ever finds a fault in one. It returns false, and has changed nothing, if
// encoding/json refuses the document, or if the document may hold what that package ignores or
// guesses. Then thoroughly looks more closely, and finds the words.
func quickly(data []byte, target reflect.Value) bool {
	fresh := reflect.New(target.Type())
	if !utf8.Valid(data) || json.Unmarshal(data, fresh.Interface()) != nil || halfCharacter(data) >= 0 {
		return false
	}
	s := scan{data: data}
	if !s.value(&field{typ: target.Type()}) {
		return false
	}
	target.Set(fresh.Elem())
	return true
}

// scan goes through a document that encoding/json has decoded: it is valid JSON, every type with
// its own decoder has accepted its part, and no scalar has a wrong type, except that it may be
// null.
type scan struct {
	data    []byte
	at      int
	structs []structure // those met so far
}

// form is what a type requires of a value.
type form int

const (
	unknown    form = iota
	open            // any value: a decoder has checked it
	pointer         // null, or what it points to
	list            // null, or a list
	dictionary      // null, or an object of any names
	scalar          // from here on anything but null
	array           // a list of one length
	object          // an object of known names
)

func formOf(typ reflect.Type) form {
	switch to := reflect.PointerTo(typ); {
	case typ.Kind() == reflect.Pointer:
		return pointer
	case to.Implements(reflect.TypeFor[json.Unmarshaler]()), typ.Kind() == reflect.Interface:
		return open
	case to.Implements(reflect.TypeFor[encoding.TextUnmarshaler]()):
		return scalar
	}
	switch typ.Kind() {
	case reflect.Struct:
		return object
	case reflect.Map:
		return dictionary
	case reflect.Array:
		return array
	case reflect.Slice:
		if elem := typ.Elem(); elem.Kind() == reflect.Uint8 && !decodes(elem) { // in base64, or null
			return open
		}
		return list
	}
	return scalar
}

// structure is a struct type and its fields. Their forms are found out where they are needed, since
// a type may contain itself, and a document seldom has all that it could have.
type structure struct {
	typ    reflect.Type
	fields []field
}

func (s *scan) fields(typ reflect.Type) []field {
	for _, known := range s.structs {
		if known.typ == typ {
			return known.fields
		}
	}
	fields := listFields(typ)
	s.structs = append(s.structs, structure{typ, fields})
	return fields
}

// next skips white space and returns the byte after it.
func (s *scan) next() byte {
	for {
		switch c := s.data[s.at]; c {
		case ' ', '\t', '\r', '\n':
			s.at++
		default:
			return c
		}
	}
}

// value goes past a value and reports whether it is beyond doubt.
func (s *scan) value(of *field) bool {
	if of.form == unknown {
		of.form = formOf(of.typ)
	}
	switch first := s.next(); {
	case first == 'n':
		s.skip()
		return of.form < scalar
	case of.form == pointer:
		return s.value(&field{typ: of.typ.Elem()})
	case of.form == list || of.form == array:
		return first == '[' && s.list(of) // and not a text in base64, for a list of bytes that decode themselves
	case of.form == dictionary:
		return first == '{' && s.dictionary(of.typ.Elem())
	case of.form == object:
		return first == '{' && s.object(s.fields(of.typ))
	}
	s.skip()
	return true
}

func (s *scan) list(of *field) bool {
	s.at++
	elem, count := field{typ: of.typ.Elem()}, 0
	for s.next() != ']' {
		if !s.value(&elem) {
			return false
		}
		count++
		if s.next() == ',' {
			s.at++
		}
	}
	s.at++
	return of.form == list || count == of.typ.Len()
}

// object looks for each field behind the one before first, since most documents were written by
// encoding/json.
func (s *scan) object(fields []field) bool {
	var seen uint64
	next, count := 0, len(fields)
	return count <= 64 && s.members(func(name []byte) *field {
		for range count {
			if next == count {
				next = 0
			}
			own, bit := &fields[next], uint64(1)<<next
			next++
			if own.name != string(name) {
				continue
			}
			if seen&bit != 0 {
				return nil
			}
			seen |= bit
			return own
		}
		return nil
	})
}

func (s *scan) dictionary(elem reflect.Type) bool {
	all, seen := field{typ: elem}, map[string]bool{}
	return s.members(func(name []byte) *field {
		if seen[string(name)] {
			return nil
		}
		seen[string(name)] = true
		return &all
	})
}

// members goes past an object, of whose members named tells what they are: nil for one that is in
// doubt. A name with an escape is, since it may be the same as another.
func (s *scan) members(named func(name []byte) *field) bool {
	s.at++
	for s.next() != '}' {
		from := s.at + 1
		s.skip()
		name := s.data[from : s.at-1]
		if bytes.IndexByte(name, '\\') >= 0 {
			return false
		}
		s.next()
		s.at++ // the colon
		if own := named(name); own == nil || !s.value(own) {
			return false
		}
		if s.next() == ',' {
			s.at++
		}
	}
	s.at++
	return true
}

// skip goes past the value that begins at the present byte.
func (s *scan) skip() {
	switch s.data[s.at] {
	case '"':
		s.text()
	case '{', '[':
		for depth := 0; ; {
			switch s.data[s.at] {
			case '"':
				s.text()
				continue
			case '{', '[':
				depth++
			case '}', ']':
				depth--
			}
			if s.at++; depth == 0 {
				return
			}
		}
	default:
		for s.at < len(s.data) && bytes.IndexByte([]byte(" \t\r\n,]}"), s.data[s.at]) < 0 {
			s.at++
		}
	}
}

func (s *scan) text() {
	for s.at++; s.data[s.at] != '"'; s.at++ {
		if s.data[s.at] == '\\' {
			s.at++
		}
	}
	s.at++
}
