// Package textkey writes a list of names as one text that can be split again: the form of pool
// keys, group ids and run ids. Joining never maps two different lists of one or more parts to one
// text, whatever bytes the parts hold.
package textkey

import (
	"fmt"
	"strconv"
	"strings"
)

// Join returns the parts joined by "/". Inside a part "%" is written "%25" and "/" is written
// "%2F"; nothing else changes. No parts give the empty text, as does one empty part: callers use a
// fixed number of parts.
func Join(parts ...string) string {
	var b strings.Builder
	b.Grow(size(parts))
	join(&b, parts)
	return b.String()
}

// Joiner joins lists like [Join], for those who join very many: dozens of texts share an
// allocation, which lives as long as one of them. The zero Joiner is ready for use. It must not be
// copied after the first text.
type Joiner struct{ b strings.Builder }

// sharedSize is how much room the texts have in common: as much as is little to keep for one text.
const sharedSize = 4096

// Join is like the function Join.
func (j *Joiner) Join(parts ...string) string {
	if n := size(parts); j.b.Cap()-j.b.Len() < n {
		j.b.Reset() // which leaves the texts so far what they are
		j.b.Grow(max(n, sharedSize))
	}
	from := j.b.Len()
	join(&j.b, parts) // what is escaped may need more room: then the text lies in an array of its own
	return j.b.String()[from:]
}

// size is how long the parts are together if nothing is escaped.
func size(parts []string) int {
	size := len(parts)
	for _, part := range parts {
		size += len(part)
	}
	return size
}

func join(b *strings.Builder, parts []string) {
	for i, part := range parts {
		if i > 0 {
			b.WriteByte('/')
		}
		escape(b, part)
	}
}

func escape(b *strings.Builder, part string) {
	from := 0
	for i := range len(part) { // most parts are short: strings.IndexAny takes longer to begin than this loop to end
		switch part[i] {
		case '%':
			b.WriteString(part[from:i])
			b.WriteString("%25")
		case '/':
			b.WriteString(part[from:i])
			b.WriteString("%2F")
		default:
			continue
		}
		from = i + 1
	}
	b.WriteString(part[from:])
}

// Split returns the parts of a key that [Join] wrote. The empty text is one empty part. An escape
// other than %25 and %2F is an error: such a text was never written by Join, and accepting it would
// give two texts to one list.
func Split(key string) ([]string, error) {
	parts := strings.Split(key, "/")
	for i, part := range parts {
		plain, err := unescape(part)
		if err != nil {
			return nil, fmt.Errorf("textkey: %q: %w", key, err)
		}
		parts[i] = plain
	}
	return parts, nil
}

// Plain returns the key without its escapes, for people. What [Join] did not write stays as it is.
func Plain(key string) string {
	parts, err := Split(key)
	if err != nil {
		return key
	}
	return strings.Join(parts, "/")
}

// Scan splits a key as [Split] does and stores each part in one of the texts. It returns false if
// the key is malformed or does not have exactly one part for each text. It allocates nothing unless
// a part has an escape.
func Scan(key string, parts ...*string) bool {
	escaped := strings.IndexByte(key, '%') >= 0
	for i, part := range parts {
		own, rest, more := strings.Cut(key, "/")
		if more != (i < len(parts)-1) {
			return false
		}
		if escaped {
			plain, err := unescape(own)
			if err != nil {
				return false
			}
			own = plain
		}
		*part, key = own, rest
	}
	return len(parts) > 0
}

// Number reads a part that is a number from 0 to 2147483647, as strconv.Itoa writes it. One number
// has one text: neither 01 nor +1 is one.
func Number(part string) (n int, ok bool) {
	number, err := strconv.ParseUint(part, 10, 31)
	if err != nil || part[0] == '0' && part != "0" {
		return 0, false
	}
	return int(number), true
}

func unescape(part string) (string, error) {
	if !strings.Contains(part, "%") {
		return part, nil
	}
	var b strings.Builder
	b.Grow(len(part))
	for {
		i := strings.IndexByte(part, '%')
		if i < 0 {
			b.WriteString(part)
			return b.String(), nil
		}
		b.WriteString(part[:i])
		switch part = part[i+1:]; {
		case strings.HasPrefix(part, "25"):
			b.WriteByte('%')
		case strings.HasPrefix(part, "2F"):
			b.WriteByte('/')
		default:
			return "", fmt.Errorf("%%%.2s is not an escape: only %%25 and %%2F are written", part)
		}
		part = part[2:]
	}
}
