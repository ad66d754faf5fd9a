// Package textkey writes a list of names as one text that can be split again: the form of pool
// keys, group ids and run ids. Joining never maps two different lists of one or more parts to one
// text, whatever bytes the parts hold.
package textkey

import (
	"fmt"
	"strings"
)

// Join returns the parts joined by "/". Inside a part "%" is written "%25" and "/" is written
// "%2F"; nothing else changes. No parts give the empty text, as does one empty part: callers use a
// fixed number of parts.
func Join(parts ...string) string {
	size := len(parts)
	for _, part := range parts {
		size += len(part)
	}
	var b strings.Builder
	b.Grow(size)
	for i, part := range parts {
		if i > 0 {
			b.WriteByte('/')
		}
		escape(&b, part)
	}
	return b.String()
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
