package partition

// textTable numbers the texts that selectors ask for: values of a label, names of groups. Most of
// them differ in their length or in one of three bytes, which are cheaper to look at than all bytes
// are to hash. A table of texts that do not differ in these uses a map instead.
type textTable struct {
	texts  []string
	slots  []uint16         // by fingerprint: number of the first text, plus 1; their number is a power of two; a single 1 beside hashed
	next   []uint16         // by number: number of the next text in the same slot, plus 1
	hashed map[string]int32 // instead of slots
}

const (
	crowded  = 4       // how many texts a slot can hold
	maxSlots = 1 << 12 // a larger table does not fit into the nearest cache
)

// newTextTable returns an empty table for at most the given number of texts.
func newTextTable(most int) textTable {
	t := textTable{texts: make([]string, 0, most)}
	size := 16
	for size < 4*most {
		size *= 2
	}
	if size > maxSlots {
		t.slots, t.hashed = []uint16{1}, make(map[string]int32, most)
	} else {
		t.slots, t.next = make([]uint16, size), make([]uint16, 0, most)
	}
	return t
}

// number returns the number of a text. A new text gets the next number.
func (t *textTable) number(text string) int32 {
	if i := t.find(text); i >= 0 {
		return i
	}
	i := len(t.texts)
	t.texts = append(t.texts, text)
	if t.hashed == nil && t.file(uint16(i+1)) {
		return int32(i)
	}
	if t.hashed == nil {
		t.slots, t.next = []uint16{1}, nil
		t.hashed = make(map[string]int32, cap(t.texts))
		for k, text := range t.texts {
			t.hashed[text] = int32(k)
		}
	}
	t.hashed[text] = int32(i)
	return int32(i)
}

// file puts the latest text, whose number plus 1 is given, into its slot, and reports whether the
// slot had room.
func (t *textTable) file(latest uint16) bool {
	slot, length := &t.slots[fingerprint(t.texts[latest-1])&uint32(len(t.slots)-1)], 1
	for at := *slot; at != 0; at = t.next[at-1] {
		length++
	}
	if length > crowded {
		return false
	}
	t.next = append(t.next, *slot)
	*slot = latest
	return true
}

// fingerprint returns the same number for equal texts.
func fingerprint(text string) uint32 {
	n := len(text)
	if n == 0 {
		return 0
	}
	return uint32(n) ^ uint32(text[n-1])*37 ^ uint32(text[0])*11 ^ uint32(text[n/2])*101
}

// find returns the number of a text, or -1.
func (t *textTable) find(text string) int32 { return t.search(t.head(text), text) }

// head returns where the search for a text begins, or 0 if there is nothing to search. It is
// separate from search because it has no branch to be mispredicted: when the heads of many texts
// are taken in a row, the processor waits for many of them at once.
func (t *textTable) head(text string) uint16 {
	return t.slots[fingerprint(text)&uint32(len(t.slots)-1)]
}

// search returns the number of a text, given its head, or -1.
func (t *textTable) search(head uint16, text string) int32 {
	if t.hashed != nil {
		if i, ok := t.hashed[text]; ok {
			return i
		}
		return -1
	}
	for head != 0 && t.texts[head-1] != text {
		head = t.next[head-1]
	}
	return int32(head) - 1
}
