package brackettest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/bracket"
)

// values: what is stored is what comes back, under any key.
var values = []promise{
	{"values are copies", "callers reuse buffers; a store that keeps one changes its records behind everybody's back", func(c *client) {
		buffer := []byte("value")
		if _, err := c.store.Save(context.Background(), "k", buffer, 0); err != nil {
			c.Fatal(err)
		}
		buffer[0] = 'X'
		c.holds("k", "value")
		loaded, _, err := c.store.Load(context.Background(), "k")
		if err != nil || string(loaded) != "value" {
			c.Fatalf("Load: %q, %v", loaded, err)
		}
		loaded[0] = 'X'
		c.holds("k", "value")
		entries, err := c.store.List(context.Background(), "")
		if err != nil || len(entries) != 1 || string(entries[0].Value) != "value" {
			c.Fatalf("List: %v, %v", entries, err)
		}
		entries[0].Value[0] = 'X'
		entries[0].Key = "X"
		c.holds("k", "value")
		c.lists("", "k") // a list that is kept for the next caller is given away, too
		c.save("l", "next", 0)
		if entries, err = c.store.List(context.Background(), ""); err != nil || len(entries) != 2 {
			c.Fatalf("List: %v, %v", entries, err)
		}
		_ = append(entries[0].Value, "X"...)
		if string(entries[1].Value) != "next" {
			c.Fatalf("List: what is appended to one value gets into the next, which becomes %q", entries[1].Value)
		}
	}},
	{"values round-trip byte for byte", "records are JSON today; nothing promises that they are text", func(c *client) {
		every := make([]byte, 256)
		for i := range every {
			every[i] = byte(i)
		}
		for i, value := range []string{"", "\x00", string(every), "\xff\xfe", strings.Repeat("long ", 20000), "trailing \n\n ",
			"two\r\nlines", `{"b": 1.0,  "a": 2}`} { // what a text, or a column of JSON, writes anew
			key := fmt.Sprint("k", i)
			c.save(key, value, 0)
			c.holds(key, value)
		}
		if _, err := c.store.Save(context.Background(), "nil", nil, 0); err != nil {
			c.Fatalf("Save of a nil value, which is empty and in SQL not NULL: %v", err)
		}
		c.holds("nil", "")
	}},
	{"keys are any text", "keys hold names that users chose", func(c *client) {
		keys := []string{"a", "a/b", "a//b", "/a", "a/", "a%2Fb", "a%b", "a b", " ", "A", "B", "nœud-3", "日本", "a\nb", `a"b'c\d`, "a*b?c[d]", "a_b", "..", "a\tb",
			"a\x00", "a\x00b", "\U0010ffff", "\U0010ffff/a", strings.Repeat("k", 1024), strings.Repeat("k", 1023),
			"a+b", "a&b", "a#b", // what an address gives a meaning to
			" a", "a\n", // a text that was trimmed, and a line
			"a ", "a.", // a padded column and a file name lose the last character
			"\u00e9", "e\u0301", // the same letter, as one character and as two
			"\u00ea", // its last byte follows that of the one before, where a list may end
			"\uff4e"} // in UTF-16 it comes after U+10FFFF
		for i, key := range keys {
			c.save(key, fmt.Sprint(i), 0)
		}
		for i, key := range keys {
			c.holds(key, fmt.Sprint(i))
		}
		// "a%", "a_", "A" and many others match something else where prefixes are patterns, of LIKE or
		// globs or regular expressions. After "\U0010ffff" comes no valid text to end at.
		for _, prefix := range append(keys, "", "a%", "a_", "nobody") {
			var want []string
			for _, key := range keys {
				if strings.HasPrefix(key, prefix) {
					want = append(want, key)
				}
			}
			c.lists(prefix, want...)
		}
	}},
	{"keys that cannot be are errors", "a key that is cut short or ignored is another key", func(c *client) {
		for _, key := range []string{"", strings.Repeat("k", 1025), "\xff", "a\xc3"} { // the last two are not UTF-8, and become equal in JSON
			_, revision, loaded := c.store.Load(context.Background(), key)
			_, saved := c.store.Save(context.Background(), key, []byte("x"), 0)
			deleted := c.store.Delete(context.Background(), key, 1)
			for method, err := range map[string]error{"Load": loaded, "Save": saved, "Delete": deleted} {
				if err == nil || errors.Is(err, bracket.ErrNotFound) || errors.Is(err, bracket.ErrConflict) || revision != 0 {
					c.Errorf("%s with a key of %d bytes, %.10q: %v, want an error that says so", method, len(key), key, err)
				}
			}
		}
		c.lists("")
	}},
	{"times keep nanoseconds", "an instant that was rounded closes a window too early", func(c *client) {
		at := time.Date(2026, 3, 10, 9, 0, 0, 123456789, time.UTC)
		record := bracket.NewState("rule", "prod").Group
		record.Number, record.Collecting = 1, &bracket.Collecting{ID: bracket.GroupID("rule", "prod", 1), OpenedAt: at}
		value, err := json.Marshal(record)
		if err != nil {
			c.Fatal(err)
		}
		c.save("k", string(value), 0)
		loaded, _, err := c.store.Load(context.Background(), "k")
		if err != nil {
			c.Fatal(err)
		}
		var back bracket.GroupRecord
		if err := json.Unmarshal(loaded, &back); err != nil || !back.Collecting.OpenedAt.Equal(at) {
			c.Fatalf("%v comes back as %s, %v", at, loaded, err)
		}
	}},
}
