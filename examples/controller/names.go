package controller

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// name makes the name of an object of a text of any kind: a legible part for people, and a hash of
// the whole text that tells it from all others. Two texts with one name would need 128 equal bits
// of SHA-256; whoever reads the object compares the text all the same.
func name(text string) string {
	const legible = 30 // so that it is a label value too
	var b strings.Builder
	for _, r := range strings.ToLower(text) {
		switch {
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
		if b.Len() == legible {
			break
		}
	}
	sum := sha256.Sum256([]byte(text))
	return strings.TrimPrefix(strings.TrimSuffix(b.String(), "-")+"-"+hex.EncodeToString(sum[:16]), "-")
}
