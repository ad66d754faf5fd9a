package partition

// textTable numbers the texts that selectors ask for: values of a label, names of groups. Most of
// them differ in their length or in one of three bytes, and these are cheaper to look at than all
// bytes are to hash. Texts that do not are left to a map.
type textTable struct {
	texts  []string
	slots  []uint16         // by fingerprint: number of the first text, plus 1; a power of two, or a single 1 beside hashed
	next   []uint16         // by number: number of the next text in the slot, plus 1
	hashed map[string]int32 // instead of slots
}

const (
	crowded  = 4       // how many texts in one slot are too many
	maxSlots = 1 << 12 // beyond, the table no longer fits into the nearest cache
)

// newTextTable returns an empty table for at most so many texts.
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

// number returns the number of a text, the next one if it is new.
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

// file puts the latest text, which has this number plus 1, into its slot, and reports whether it
// could.
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

// fingerprint is the same for equal texts.
func fingerprint(text string) uint32 {
	n := len(text)
	if n == 0 {
		return 0
	}
	return uint32(n) ^ uint32(text[n-1])*37 ^ uint32(text[0])*11 ^ uint32(text[n/2])*101
}

// find returns the number of a text, or -1.
func (t *textTable) find(text string) int32 { return t.search(t.head(text), text) }

// head returns where the search for a text begins, 0 if that is already its end. It is apart from
// the search because it has no branch to be mispredicted: taking the heads of many texts in a row,
// the processor waits for many of them at once.
func (t *textTable) head(text string) uint16 {
	if len(t.slots) == 0 {
		return 0
	}
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
