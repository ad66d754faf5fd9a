package strictjson

import (
	"bytes"
	"encoding"
	"encoding/json"
	"reflect"
	"time"
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
	s := scan{data: data, shapes: map[reflect.Type]*shape{}}
	if !s.value(s.shape(target.Type())) {
		return false
	}
	target.Set(fresh.Elem())
	return true
}

// scan goes through a document that encoding/json has decoded: it is valid JSON, every type with
// its own decoder has accepted its part, and no scalar has a wrong type, except that it may be
// null.
type scan struct {
	data   []byte
	at     int
	shapes map[reflect.Type]*shape
}

// shape is what a type requires of a value.
type shape struct {
	form   form
	elem   reflect.Type // of a pointer, a list or a dictionary
	length int          // of an array; -1: any
	fields []field      // of an object
}

type form int

const (
	open       form = iota // any value: a decoder has checked it
	scalar                 // anything but null
	pointer                // null, or what it points to
	list                   // a list, or null if it is no array
	dictionary             // null, or an object of any names
	object                 // an object of known names
)

func (s *scan) shape(typ reflect.Type) *shape {
	known := s.shapes[typ]
	if known != nil {
		return known
	}
	own := &shape{length: -1}
	s.shapes[typ] = own
	switch to := reflect.PointerTo(typ); {
	case typ.Kind() == reflect.Pointer:
		own.form, own.elem = pointer, typ.Elem()
	case typ == reflect.TypeFor[time.Time](), to.Implements(reflect.TypeFor[json.Unmarshaler]()), typ.Kind() == reflect.Interface:
		own.form = open
	case to.Implements(reflect.TypeFor[encoding.TextUnmarshaler]()):
		own.form = scalar
	case typ.Kind() == reflect.Struct:
		own.form, own.fields = object, listFields(typ)
	case typ.Kind() == reflect.Map:
		own.form, own.elem = dictionary, typ.Elem()
	case typ.Kind() == reflect.Slice && typ.Elem().Kind() == reflect.Uint8 && !decodes(typ.Elem()): // in base64, or null
		own.form = open
	case typ.Kind() == reflect.Slice:
		own.form, own.elem = list, typ.Elem()
	case typ.Kind() == reflect.Array:
		own.form, own.elem, own.length = list, typ.Elem(), typ.Len()
	default:
		own.form = scalar
	}
	return own
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
func (s *scan) value(of *shape) bool {
	first := s.next()
	if null := first == 'n'; null || of.form == open || of.form == scalar {
		s.skip()
		return !null || of.form != scalar && of.form != object && of.length < 0
	}
	switch of.form {
	case pointer:
		return s.value(s.shape(of.elem))
	case list:
		return s.list(of, first)
	case dictionary:
		return s.dictionary(of, first)
	}
	return s.object(of, first)
}

func (s *scan) list(of *shape, first byte) bool {
	if first != '[' {
		return false // a text in base64, for a list of bytes that decode themselves
	}
	s.at++
	elem, count := s.shape(of.elem), 0
	for s.next() != ']' {
		if !s.value(elem) {
			return false
		}
		count++
		if s.next() == ',' {
			s.at++
		}
	}
	s.at++
	return of.length < 0 || count == of.length
}

// object looks for each field behind the one before first, since most documents were written by
// encoding/json.
func (s *scan) object(of *shape, first byte) bool {
	var seen uint64
	next, count := 0, len(of.fields)
	return first == '{' && count <= 64 && s.members(func(name []byte) (*shape, bool) {
		for range count {
			if next >= count {
				next = 0
			}
			if of.fields[next].name != string(name) {
				next++
				continue
			}
			if seen&(1<<next) != 0 {
				return nil, false
			}
			seen |= 1 << next
			next++
			return s.shape(of.fields[next-1].typ), true
		}
		return nil, false
	})
}

func (s *scan) dictionary(of *shape, first byte) bool {
	elem, seen := s.shape(of.elem), map[string]bool{}
	return first == '{' && s.members(func(name []byte) (*shape, bool) {
		if seen[string(name)] {
			return nil, false
		}
		seen[string(name)] = true
		return elem, true
	})
}

// members goes past an object. A name with an escape is in doubt, since it may be the same as
// another.
func (s *scan) members(shapeOf func(name []byte) (*shape, bool)) bool {
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
		if own, known := shapeOf(name); !known || !s.value(own) {
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
